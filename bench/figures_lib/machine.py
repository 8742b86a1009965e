"""Starting systems, running cells and keeping what they measured."""
import json
import os
import socket
import subprocess
import sys

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(BENCH)
PROGRAM = os.environ.get("TWINLOG_BENCH", os.path.join(ROOT, "build/release/bin/twinlog-bench"))

# A client that is busier than this while the server is not is what limited the cell.
BUSY_SHARE = 0.93


class Failure(Exception):
    """Something could not be measured."""


def free_port():
    """A port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class System:
    """One running system of bench/systems/."""

    def __init__(self, name, directory, arguments=()):
        self.name = name
        self.directory = directory
        self.port = free_port()
        self.pids = []
        self.arguments = list(arguments)

    def script(self, script, *arguments):
        """Runs one of the system's scripts and gives its output."""
        path = os.path.join(BENCH, "systems", self.name, script)
        done = subprocess.run([path, *arguments], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"{self.name}/{script} failed with status {done.returncode}")
        return done.stdout

    def start(self):
        """Starts it (again) and learns its pids."""
        output = self.script("start", "--dir", self.directory, "--port", str(self.port),
                             *self.arguments)
        self.pids = [int(word) for word in output.split()]

    def stop(self, kill=False):
        """Stops it; nothing when it does not run."""
        if self.pids:
            self.pids = []
            self.script("stop", "--dir", self.directory, *(["--kill"] if kill else []))


class Run:
    """One run of bench/figures: its systems, cells and figures."""

    def __init__(self, directory, seconds):
        self.directory = directory
        self.seconds = seconds
        self.cells = []
        self.figures = []
        self.systems = []

    def install(self):
        """Builds the release that is measured."""
        System("twinlog", self.directory).script("install")

    def system(self, name, *arguments):
        """A started system in a fresh directory."""
        directory = os.path.join(self.directory, f"{name}-{len(self.systems)}")
        system = System(name, directory, arguments)
        self.systems.append(system)
        system.start()
        return system

    def stop_all(self):
        """Stops whatever still runs."""
        for system in self.systems:
            try:
                system.stop()
            except Failure as failure:
                print(f"figures: {failure}", file=sys.stderr)

    def cell(self, workload, label, system=None, **options):
        """Runs `twinlog-bench workload`; gives its JSON."""
        options.setdefault("duration", self.seconds)
        command = [PROGRAM, workload, "--json", "-", "--label", label]
        for name, value in options.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        if system is not None:
            command += ["--bootstrap", f"127.0.0.1:{system.port}"]
            for pid in system.pids:
                command += ["--server-pid", str(pid)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        try:
            cell = json.loads(done.stdout)
        except ValueError as error:
            raise Failure(f"{label}: no result ({done.returncode}): {error}") from error
        cell["verdict"] = verdict(cell)
        self.cells.append(cell)
        print(f"{label}: {cell['requests_per_s']:.0f} requests/s, p50 "
              f"{cell['latency_us']['p50']:.0f} us, p99 {cell['latency_us']['p99']:.0f} us, server "
              f"{cell['server_cpu_us_per_request']:.2f} us/request, {cell['verdict']}", flush=True)
        if done.returncode != 0:
            raise Failure(f"{label}: errors={cell['errors']} unfinished={cell['unfinished']}")
        return cell

    def figure(self, name, target, measured, ok, note=""):
        """Keeps one figure; target and measured are texts."""
        self.figures.append({"name": name, "target": target, "measured": measured, "ok": bool(ok),
                             "note": f" ({note})" if note else ""})


def verdict(cell):
    """What limited a cell."""
    if cell["client_cpu_share"] >= BUSY_SHARE and cell["server_cpu_share"] < BUSY_SHARE:
        return "client-bound"
    if cell["server_cpu_share"] >= BUSY_SHARE:
        return "server-bound"
    return "disk-bound" if cell["workload"] == "load" else "latency-bound"


def worst_of(cells, what):
    """The cell in which `what` is lowest."""
    return min(cells, key=lambda cell: cell[what])


def worst(cells):
    """The cell with the lowest rate."""
    return worst_of(cells, "requests_per_s")
