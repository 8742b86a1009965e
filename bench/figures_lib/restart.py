"""How long a start takes: on a formatted directory, and after kill -9 under load."""
import os
import signal
import subprocess
import time

from .machine import BENCH, PROGRAM, ROOT, Failure

DATA_SIZE = 5 << 30


def listening_ms(system):
    """Starts the program itself and measures until a connect succeeds."""
    binary = os.environ.get("TWINLOG_BIN", os.path.join(ROOT, "build/release/bin/twinlog"))
    probe = os.path.join(BENCH, "figures_lib", "listening.py")
    done = subprocess.run(["python3", probe, binary,
                           os.path.join(system.directory, "twinlog.properties"),
                           str(system.port), os.path.join(system.directory, "server.log")],
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Failure("the broker did not listen within 60 s")
    pid, milliseconds = done.stdout.split()
    with open(os.path.join(system.directory, "pid"), "w", encoding="ascii") as file:
        file.write(pid)
    system.pids = [int(pid)]
    return float(milliseconds)


def start(run):
    """The three starts of the table."""
    fresh = run.system("twinlog")
    fresh.stop()
    samples = []
    for _ in range(5):
        samples.append(listening_ms(fresh))
        fresh.stop()
    run.figure("start to listening on a formatted directory", "<= 100 ms",
               f"{max(samples):.0f} ms", max(samples) <= 100)
    after_kill(run, 1, 1000)
    after_kill(run, 10000, 2000)


def after_kill(run, partitions, target_ms):
    """kill -9 under load with DATA_SIZE in the log, then the next start at once."""
    system = run.system("twinlog")
    fill(system, partitions)
    load = subprocess.Popen([PROGRAM, "load", "--bootstrap", f"127.0.0.1:{system.port}",
                             "--connections", "1000", "--partitions", str(partitions), "--topic",
                             "fill", "--keep-topic", "--warmup", "0", "--duration", "60"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(6)
    os.kill(system.pids[0], signal.SIGKILL)
    measured = listening_ms(system)
    load.kill()
    load.wait()
    run.figure(f"kill -9 under load to listening, 5 GB, {partitions} partitions",
               f"<= {target_ms} ms", f"{measured:.0f} ms", measured <= target_ms)
    system.stop()


def fill(system, partitions):
    """Produces DATA_SIZE in large requests."""
    command = [PROGRAM, "load", "--bootstrap", f"127.0.0.1:{system.port}", "--connections", "100",
               "--records", "100", "--record-size", "1000", "--partitions", str(partitions),
               "--topic", "fill", "--warmup", "0", "--duration", "3600"]
    load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.time() + 900
    while data_size(system) < DATA_SIZE and load.poll() is None and time.time() < deadline:
        time.sleep(0.5)
    load.kill()
    load.wait()
    if data_size(system) < DATA_SIZE:
        raise Failure("5 GB could not be written in 900 s")


def data_size(system):
    """Bytes in the segment files."""
    total = 0
    root = os.path.join(system.directory, "data")
    for entry in os.scandir(root):
        if entry.is_dir():
            for file in os.scandir(entry.path):
                if file.name.endswith(".log"):
                    total += file.stat().st_size
    return total
