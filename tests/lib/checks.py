"""The formatter and the static analysers. Each check returns its findings as lines of text."""
import concurrent.futures
import hashlib
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tidy"))
import tidy  # noqa: E402

ANALYSED = ("src/", "bench/")
HEADERS = ("src/", "bench/", "include/", "tests/")


def c_files(root, folders, suffixes):
    """The C files of the repository below the folders."""
    return [path for path in tidy.repository_files(root)
            if path.startswith(folders) and path.endswith(suffixes)]


def formatter():
    """clang-format 15 or newer: older ones do not know every key of our style file."""
    for version in range(20, 14, -1):
        if shutil.which(f"clang-format-{version}"):
            return f"clang-format-{version}"
    return "clang-format"


def finished(command, root):
    """(status, output lines) of an analyser; one that is missing is a finding, not a pass."""
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, check=False)
    except OSError as error:
        return 127, [f"{command[0]}: {error}"]
    text = (done.stdout + done.stderr).decode(errors="replace")
    return done.returncode, [line for line in text.splitlines() if line.strip()]


def check_format(root, _build):
    files = c_files(root, HEADERS, (".c", ".h"))
    status, lines = finished([formatter(), "--dry-run", "--Werror", *files], root)
    marked = [line for line in lines if "error:" in line or "rror reading" in line]
    return (marked or lines or ["no output"]) if status else []


# Shifts of negative values are what gcc defines. A status returned by value is taken for a pointer
# into what was passed to the callee (gcc's own -Wreturn-local-addr stays on), and a null check
# inside MAX() for a missing one (clang's analyzer follows those). The posix library of cppcheck is
# left out: it takes every mmap that is handed on for a leak, and refuses descriptor -1.
CPPCHECK_OFF = ["missingInclude", "missingIncludeSystem", "preprocessorErrorDirective",
                "shiftTooManyBitsSigned", "shiftNegativeLHS", "returnDanglingLifetime",
                "nullPointerRedundantCheck"]


def check_cppcheck(root, _build):
    cache = os.path.join(root, "build", "cppcheck")
    os.makedirs(cache, exist_ok=True)
    status, lines = finished([
        "cppcheck", "--enable=warning,performance,portability", "--error-exitcode=1", "--quiet",
        "--inline-suppr", "--std=c11", f"--cppcheck-build-dir={cache}", "-j",
        str(os.cpu_count() or 1), "-I", "include", "-D_GNU_SOURCE", "-DTWINLOG_FAULTS=1",
        "-D__linux__", *[f"--suppress={name}" for name in CPPCHECK_OFF],
        "--template={file}:{line}: {severity}: {message} [{id}]", *c_files(root, ANALYSED, ".c")],
        root)
    return (lines or ["no output"]) if status else []


def digest(paths, extra):
    """A hash over files and texts: the key under which an analysis that found nothing is kept."""
    state = hashlib.sha256(extra.encode())
    for path in paths:
        with open(path, "rb") as stream:
            state.update(path.encode() + b"\0" + stream.read())
    return state.hexdigest()


def tidy_one(root, build, entry, shared):
    """clang-tidy over one file, unless the same bytes under the same headers were clean before."""
    path = os.path.relpath(entry["file"], root)
    marker = os.path.join(root, "build", "clang-tidy",
                          digest([entry["file"]], shared + entry.get("command", "")))
    if os.path.exists(marker):
        return []
    status, lines = finished(["clang-tidy", "--quiet", "-p", build, path], root)
    findings = [line for line in lines if "error:" in line or "warning:" in line]
    if status == 0 and not findings:
        with open(marker, "w", encoding="utf-8"):
            return []
    return findings or lines or [f"{path}: clang-tidy ended with status {status}"]


def check_clang_tidy(root, build):
    os.makedirs(os.path.join(root, "build", "clang-tidy"), exist_ok=True)
    database = os.path.join(build, "compile_commands.json")
    if not os.path.exists(database):
        return [f"no {database}: the configuration failed"]
    with open(database, encoding="utf-8") as stream:
        entries = [entry for entry in json.load(stream)
                   if os.path.relpath(entry["file"], root).startswith(ANALYSED)]
    headers = [os.path.join(root, path) for path in c_files(root, HEADERS, ".h")]
    shared = digest(headers + [os.path.join(root, ".clang-tidy")], "1")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = pool.map(lambda entry: tidy_one(root, build, entry, shared), entries)
        findings = sorted({line for lines in results for line in lines})
    return findings if entries else ["the compilation database names no file of ours"]


CHECKS = {
    "check/format": check_format,
    "check/cppcheck": check_cppcheck,
    "check/clang-tidy": check_clang_tidy,
}
