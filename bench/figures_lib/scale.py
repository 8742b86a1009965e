"""Ten thousand partitions: the time to make and to delete them, and their memory."""
import os
import sys
import time

from .machine import ROOT, Failure

sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))
from kafka_wire import Wire, batch  # noqa: E402
from twinlog_test import Client  # noqa: E402

TOPICS = 100
PARTITIONS = 100
SECONDS_MAX = 30
RESIDENT_MAX = 300 << 20


def resident(pid):
    """Resident bytes of a process."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def no_errors(answers, what):
    """Fails unless every answer has error code 0."""
    codes = {answer["error_code"] for answer in answers} - {0}
    if codes:
        raise Failure(f"{what}: error codes {sorted(codes)}")


def create(wire, client, names):
    """All topics in one request, as an administrator's script would not even do."""
    topics = [{"name": name, "num_partitions": PARTITIONS, "replication_factor": -1}
              for name in names]
    answer = wire.call(client, "CreateTopics", 7, {"topics": topics, "timeout_ms": 60000})
    no_errors(answer["topics"], "CreateTopics")


def produce(wire, client, name):
    """A record to each partition of a topic."""
    records = batch([b"x" * 100])
    data = [{"index": index, "records": records} for index in range(PARTITIONS)]
    answer = wire.call(client, "Produce", 9, {"acks": -1, "timeout_ms": 60000, "topic_data": [
        {"name": name, "partition_data": data}]})
    no_errors(answer["responses"][0]["partition_responses"], "Produce")


def delete(wire, client, names):
    """All of them again."""
    answer = wire.call(client, "DeleteTopics", 6, {
        "topics": [{"name": name, "topic_id": bytes(16)} for name in names],
        "timeout_ms": 60000})
    no_errors(answer["responses"], "DeleteTopics")


def many(run):
    """Creates, produces one record to each partition, and deletes until the files are gone."""
    wire = Wire()
    system = run.system("twinlog")
    names = [f"scale-{index}" for index in range(TOPICS)]
    with Client(system.port, timeout=300) as client:
        started = time.monotonic()
        create(wire, client, names)
        created = time.monotonic() - started
        for name in names:
            produce(wire, client, name)
        wait_until_written(system)
        memory = resident(system.pids[0])
        started = time.monotonic()
        delete(wire, client, names)
        while partition_directories(system) > 0 and time.monotonic() - started < 10 * SECONDS_MAX:
            time.sleep(0.05)
        deleted = time.monotonic() - started
    count = TOPICS * PARTITIONS
    run.figure(f"{count} partitions created", f"<= {SECONDS_MAX} s", f"{created:.1f} s",
               created <= SECONDS_MAX)
    run.figure(f"{count} partitions, a record in each: resident memory",
               f"<= {RESIDENT_MAX >> 20} MiB", f"{memory >> 20} MiB", memory <= RESIDENT_MAX)
    run.figure(f"{count} partitions deleted, files and all", f"<= {SECONDS_MAX} s",
               f"{deleted:.1f} s", deleted <= SECONDS_MAX)
    system.stop()


def wait_until_written(system):
    """Until the checkpoint of an idle log has made a directory for each partition."""
    deadline = time.monotonic() + 120
    while partition_directories(system) < TOPICS * PARTITIONS:
        if time.monotonic() > deadline:
            raise Failure("the records were not written back within 120 s")
        time.sleep(0.2)


def partition_directories(system):
    """Directories of the topics that are there."""
    with os.scandir(os.path.join(system.directory, "data")) as entries:
        return sum(1 for entry in entries if entry.name.startswith("scale-"))
