"""Running commands for the suite: logs, timeouts, ports, temporary folders, the user nobody."""
import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile

PORT_FIRST, PORT_LAST, PORT_STEP = 20000, 30000, 20  # below the ephemeral range


def end_group(leader):
    """Ends what is left of a command's own session: first kindly, then not."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            leader.wait(timeout=5)


def run_logged(command, log, timeout, cwd=None, env=None):
    """The exit status of a command, None after the timeout. Its output goes to the file `log`."""
    with open(log, "wb") as output:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, cwd=cwd, env=env,
                                       start_new_session=True)
        except OSError as error:
            output.write(f"cannot start {command[0]}: {error}\n".encode())
            return 127
        try:
            return process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_group(process)


def tail(path, count):
    """The last lines of a file that are not empty."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        return [line.rstrip() for line in stream if line.strip()][-count:]


@contextlib.contextmanager
def temporary_folder(owner=None):
    """A fresh folder, gone afterwards; `owner` may write there."""
    folder = tempfile.mkdtemp(prefix="twinlog-test-")
    try:
        if owner:
            os.chown(folder, pwd.getpwnam(owner).pw_uid, -1)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def port_is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


next_port = PORT_FIRST + os.getpid() * PORT_STEP % (PORT_LAST - PORT_FIRST)


def free_port_base():
    """The first of PORT_STEP free ports; never the same twice in a row of tests."""
    global next_port
    for _ in range((PORT_LAST - PORT_FIRST) // PORT_STEP):
        base = next_port
        next_port += PORT_STEP
        if next_port >= PORT_LAST:
            next_port = PORT_FIRST
        if all(port_is_free(port) for port in range(base, base + PORT_STEP)):
            return base
    raise RuntimeError("no free range of ports")


def ctest_programs(build, labels, with_long):
    """(name, command, timeout) of the ctest tests that carry one of the labels."""
    command = ["ctest", "--test-dir", build, "--show-only=json-v1"]
    shown = subprocess.run(command, capture_output=True, check=False)
    if shown.returncode != 0:
        return []
    found = []
    for test in json.loads(shown.stdout)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        marks = properties.get("LABELS", [])
        if set(marks) & set(labels) and (with_long or "long" not in marks) and "command" in test:
            found.append((test["name"], test["command"], properties.get("TIMEOUT", 600)))
    return found


@contextlib.contextmanager
def readable_copy(root, build):
    """Yields a function from a path of the build to one that nobody can read.

    That is the path itself, unless the repository lies below a closed folder such as /root.
    """
    probe = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--", "test", "-x",
             os.path.join(build, "bin")]
    if subprocess.run(probe, check=False).returncode == 0:
        yield lambda path: path
        return
    with temporary_folder() as folder:
        os.chmod(folder, 0o755)
        shutil.copytree(os.path.join(build, "bin"), os.path.join(folder, "bin"))
        inside = os.path.relpath(build, root)
        skip = shutil.ignore_patterns(".git", ".cache", "build", "data")
        shutil.copytree(root, os.path.join(folder, "root"), ignore=skip, symlinks=True)

        def place(path):
            path = path.replace(os.path.join(root, inside, "bin"), os.path.join(folder, "bin"))
            return path.replace(root + os.sep, os.path.join(folder, "root") + os.sep)
        yield place
