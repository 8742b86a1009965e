"""Figures of a running broker beside the echo server and the disk of the same machine."""
import os
import time

RATE_TARGETS = {64: 0.40, 1000: 0.75, 8000: 0.75}
IDLE_RESIDENT_MAX = 64 << 20
IDLE_SECONDS = 20


def alternate(first, second):
    """Runs two kinds of cells A B B A A B; gives the three pairs that ran side by side.

    What the host does to a virtual machine changes from minute to minute and by more than the
    differences looked for, so only neighbours are compared, and the median of three is the figure.
    """
    cells = [first(index) if side == "A" else second(index)
             for index, side in enumerate("ABBAAB")]
    return [(cells[0], cells[1]), (cells[3], cells[2]), (cells[4], cells[5])]


def echo_and_broker(run, system, connections):
    """Pairs of (echo, broker) cells."""
    return alternate(
        lambda index: run.cell("ceiling", f"echo {connections}", connections=connections),
        lambda index: run.cell("load", f"twinlog {connections}", system, connections=connections,
                               topic=f"c{connections}-{index}"))


def ratios_of(pairs, value):
    """Second over first of each pair, sorted."""
    return sorted(value(second) / value(first) for first, second in pairs)


def note_of(ratios, pairs):
    """What bound the second cells, and the ratios of all pairs."""
    verdicts = sorted({second["verdict"] for _, second in pairs})
    return ", ".join(verdicts) + "; pairs " + " ".join(f"{ratio:.2f}" for ratio in ratios)


def rate(cell):
    return cell["requests_per_s"]


def server_cpu(cell):
    return cell["server_cpu_us_per_request"]


def ceiling(run):
    """Rate and server CPU beside the echo server."""
    system = run.system("twinlog")
    for connections, target in RATE_TARGETS.items():
        pairs = echo_and_broker(run, system, connections)
        ratios = ratios_of(pairs, rate)
        run.figure(f"rate / echo ceiling at {connections} connections", f">= {target:.2f}",
                   f"{ratios[1]:.2f}", ratios[1] >= target, note_of(ratios, pairs))
        if connections == 1000:
            ratios = ratios_of(pairs, server_cpu)
            run.figure("server CPU per acked request / echo's at 1000", "<= 1.30",
                       f"{ratios[1]:.2f}", ratios[1] <= 1.3, note_of(ratios, pairs))
    system.stop()


def partitions(run):
    """The rate does not depend on the number of partitions."""
    system = run.system("twinlog")

    def cell(count, index):
        # Steady state: the files of 1000 partitions are made while it warms up.
        return run.cell("load", f"twinlog {count} partitions", system, connections=1000, warmup=8,
                        partitions=count, topic=f"p{count}-{index}")

    pairs = alternate(lambda index: cell(1, index), lambda index: cell(1000, index))
    ratios = ratios_of(pairs, rate)
    run.figure("rate at 1000 partitions / at 1", ">= 0.90", f"{ratios[1]:.2f}", ratios[1] >= 0.9,
               note_of(ratios, pairs))
    system.stop()


def idle(run):
    """One client alone; then nobody at all."""
    system = run.system("twinlog")
    def floor(_):
        sync = run.cell("sync", "synced 4 KiB write", directory=run.directory)
        echo = run.cell("ceiling", "echo 1", connections=1)
        return {"latency_us": {"p50": sync["latency_us"]["p50"] + echo["latency_us"]["p50"]}}

    pairs = alternate(floor, lambda index: run.cell("load", "twinlog 1", system, connections=1,
                                                    topic=f"one-{index}"))
    ratios = ratios_of(pairs, lambda cell: cell["latency_us"]["p50"])
    run.figure("p50 of one client / (one synced write + one echo)", "<= 1.60",
               f"{ratios[1]:.2f}", ratios[1] <= 1.6, note_of(ratios, pairs))
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
