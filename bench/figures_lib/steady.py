"""Figures of a running broker beside the echo server and the disk of the same machine."""
import os
import time

from .machine import spread, worst

RATE_TARGETS = {64: 0.40, 1000: 0.75, 8000: 0.75}
IDLE_RESIDENT_MAX = 64 << 20
IDLE_SECONDS = 20


def pair(run, system, connections, **options):
    """Echo and broker, A B B A: (echo cells, broker cells)."""
    echo = []
    broker = []
    for index, side in enumerate("ABBA"):
        if side == "A":
            echo.append(run.cell("ceiling", f"echo {connections}", connections=connections))
        else:
            broker.append(run.cell("load", f"twinlog {connections}", system,
                                   connections=connections, topic=f"c{connections}-{index}",
                                   **options))
    return echo, broker


def note_of(cells):
    """Verdict and spread, for the table."""
    text = worst(cells)["verdict"]
    share = spread(cells)
    return text + (f", spread {share:.0%}" if share > 0.05 else "")


def ceiling(run):
    """Rate and server CPU beside the echo server."""
    system = run.system("twinlog")
    for connections, target in RATE_TARGETS.items():
        echo, broker = pair(run, system, connections)
        ratio = worst(broker)["requests_per_s"] / worst(echo)["requests_per_s"]
        run.figure(f"rate / echo ceiling at {connections} connections", f">= {target:.2f}",
                   f"{ratio:.2f}", ratio >= target, note_of(broker))
        if connections == 1000:
            cpu = (max(cell["server_cpu_us_per_request"] for cell in broker) /
                   max(cell["server_cpu_us_per_request"] for cell in echo))
            run.figure("server CPU per acked request / echo's at 1000", "<= 1.30", f"{cpu:.2f}",
                       cpu <= 1.3)
    system.stop()


def partitions(run):
    """The rate does not depend on the number of partitions."""
    system = run.system("twinlog")
    one = []
    many = []
    for index, side in enumerate("ABBA"):
        count, cells = (1, one) if side == "A" else (1000, many)
        # Steady state: the files of 1000 partitions are made while it warms up.
        cells.append(run.cell("load", f"twinlog {count} partitions", system, connections=1000,
                              warmup=8, partitions=count, topic=f"p{count}-{index}"))
    ratio = worst(many)["requests_per_s"] / worst(one)["requests_per_s"]
    run.figure("rate at 1000 partitions / at 1", ">= 0.90", f"{ratio:.2f}", ratio >= 0.9,
               note_of(many))
    system.stop()


def idle(run):
    """One client alone; then nobody at all."""
    system = run.system("twinlog")
    sync = run.cell("sync", "synced 4 KiB write", directory=run.directory)
    echo, broker = pair(run, system, 1)
    floor = sync["latency_us"]["p50"] + max(cell["latency_us"]["p50"] for cell in echo)
    ratio = max(cell["latency_us"]["p50"] for cell in broker) / floor
    run.figure("p50 of one client / (one synced write + one echo)", "<= 1.60", f"{ratio:.2f}",
               ratio <= 1.6)
    system.stop()
    system.start()
    pid = system.pids[0]
    time.sleep(5)
    before = switches(pid)
    time.sleep(IDLE_SECONDS)
    rate = (switches(pid) - before) / IDLE_SECONDS
    run.figure("context switches a second, idle", "< 1", f"{rate:.2f}", rate < 1)
    resident = status_field(pid, "VmRSS") * 1024
    run.figure("resident memory, idle after start", "<= 64 MiB", f"{resident / 2**20:.0f} MiB",
               resident <= IDLE_RESIDENT_MAX)
    run.cell("load", "before idling", system, connections=1000, topic="idle")
    time.sleep(15)
    resident = status_field(pid, "VmRSS") * 1024
    run.figure("resident memory, idle after load", "<= 64 MiB", f"{resident / 2**20:.0f} MiB",
               resident <= IDLE_RESIDENT_MAX)
    system.stop()


def status_field(pid, name):
    """A number of /proc/pid/status."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1])
    raise KeyError(name)


def switches(pid):
    """Context switches of all threads so far."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
            total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    return total
