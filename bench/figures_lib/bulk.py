"""Bulk traffic through librdkafka beside Apache Kafka: producing, and catching up from the disk."""
import json
import os
import subprocess

from .machine import BENCH, ROOT, Failure, worst_of

PROGRAM = os.environ.get("TWINLOG_BULK", os.path.join(ROOT, "build/release/bin/twinlog-bulk"))
PARTITIONS = (12, 1000)
CACHE_RATIO = 1.0
FLUSH_RATIO = 2.0
DISK_SHARE = 0.90
CPU_SHARE = 0.50
CATCH_UP_SECONDS = 20


def cell(run, workload, label, system, **options):
    """Runs `twinlog-bulk workload`; gives its JSON."""
    command = [PROGRAM, workload, "--label", label, "--bootstrap", f"127.0.0.1:{system.port}",
               "--record-size", "1000"]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    for pid in system.pids:
        command += ["--server-pid", str(pid)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        result = json.loads(done.stdout)
    except ValueError as error:
        raise Failure(f"{label}: no result ({done.returncode}): {error}") from error
    run.cells.append(result)
    print(f"{label}: {result['records_per_s']:.0f} records/s, {result['mib_per_s']:.0f} MiB/s, "
          f"server {result['server_cpu_s_per_gib']:.2f} s/GiB", flush=True)
    if done.returncode != 0:
        raise Failure(f"{label}: failed={result['failed']} {result['error']}")
    return result


def produce(run):
    """Default batching, acks=all; Kafka between two runs of ours, of which the worse counts."""
    for count in PARTITIONS:
        ours = [produced(run, "twinlog", count, "before")]
        cache = produced(run, "kafka", count, "page-cache ack")
        flush = produced(run, "kafka", count, "flush.messages=1", "--flush")
        ours.append(produced(run, "twinlog", count, "after"))
        rate = worst_of(ours, "records_per_s")["records_per_s"]
        for name, peer, target in (("page-cache ack", cache, CACHE_RATIO),
                                   ("flush.messages=1", flush, FLUSH_RATIO)):
            ratio = rate / peer["records_per_s"]
            run.figure(f"bulk, {count} partitions: rate / Kafka {name}", f">= {target:.1f}",
                       f"{ratio:.2f}", ratio >= target)


def produced(run, name, count, note, *arguments):
    """One cell on a fresh system."""
    system = run.system(name, *arguments)
    result = cell(run, "produce", f"{name} {note}, {count} partitions", system, topic="bulk",
                  partitions=count, warmup=5, duration=run.seconds)
    system.stop()
    return result


def drop_page_cache():
    """So that a reader meets the disk."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("3\n")
    except OSError as error:
        raise Failure(f"the page cache cannot be dropped: {error}; run as root") from error


def disk_mib_per_s(system):
    """Reads the segment files of the topic one after the other past the page cache."""
    probe = os.path.join(BENCH, "figures_lib", "sequential.py")
    done = subprocess.run(["python3", probe, system.directory], stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        raise Failure("the segment files could not be read")
    return float(done.stdout)


def catch_up(run):
    """A consumer reads what is on the disk alone; the same of Kafka."""
    results = {}
    for name in ("twinlog", "kafka"):
        system = run.system(name)
        cell(run, "produce", f"{name} fill", system, topic="cold", partitions=12, warmup=0,
             duration=CATCH_UP_SECONDS)
        # A restart leaves nothing in the broker's own memory either.
        system.stop()
        drop_page_cache()
        disk = disk_mib_per_s(system)
        system.start()
        drop_page_cache()
        results[name] = cell(run, "consume", f"{name} cold", system, topic="cold", partitions=12)
        system.stop()
        if name == "twinlog":
            share = results[name]["mib_per_s"] / disk
            run.figure("cold catch-up / sequential read of the same files", f">= {DISK_SHARE:.2f}",
                       f"{share:.2f}", share >= DISK_SHARE, f"the disk gave {disk:.0f} MiB/s")
    share = results["twinlog"]["server_cpu_s_per_gib"] / results["kafka"]["server_cpu_s_per_gib"]
    run.figure("cold catch-up: CPU per GiB / Kafka's", f"<= {CPU_SHARE:.2f}", f"{share:.2f}",
               share <= CPU_SHARE)
