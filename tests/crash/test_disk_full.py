#!/usr/bin/env python3
"""A full ext4 disk of its own: produce is refused, reads and deletes go on, and once there is room
service resumes by itself; a broker that is killed on the full disk comes up on it.

    test_disk_full.py [--size 160]       megabytes of the disk

Mounts a file by a loop device, so it wants root; where that is not permitted it is skipped.
"""
import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

from crash_broker import NONE, STORAGE_ERROR, Topic, fresh_broker
from twinlog_test import check, check_equal, skip

MEGABYTE = 1 << 20
JOURNAL_SIZE = 32 * MEGABYTE
RESUME_SECONDS = 30


@contextlib.contextmanager
def small_disk(size_mb):
    """Yields the folder of a fresh ext4 file system."""
    folder = tempfile.mkdtemp(prefix="disk-full-", dir=os.environ.get("TWINLOG_TMP"))
    image, place = os.path.join(folder, "image"), os.path.join(folder, "disk")
    os.mkdir(place)
    mounted = False
    try:
        with open(image, "wb") as stream:
            stream.truncate(size_mb * MEGABYTE)
        if shutil.which("mkfs.ext4") is None:
            skip("mkfs.ext4 is not installed")
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
        done = subprocess.run(["mount", "-o", "loop", image, place], stderr=subprocess.PIPE,
                              check=False)
        if done.returncode != 0:
            skip(f"no file may be mounted here: {done.stderr.decode().strip()}")
        mounted = True
        yield place
    finally:
        if mounted:
            subprocess.run(["umount", place], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def free_size(folder):
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize


def fill(path, leave):
    """Somebody else's file, as large as leaves so many bytes free."""
    with open(path, "wb") as stream, contextlib.suppress(OSError):
        size = free_size(os.path.dirname(path)) - leave
        if size > 0:
            os.posix_fallocate(stream.fileno(), 0, size)
    if leave == 0:
        # The last blocks, which an estimate of what metadata takes has left over.
        with open(path, "ab", buffering=0) as stream, contextlib.suppress(OSError):
            while True:
                stream.write(bytes(4096))


def delete_topic(topic):
    with topic.broker.connect() as client:
        answer = topic.wire.call(client, "DeleteTopics", 5,
                                 {"topic_names": [topic.name], "timeout_ms": 10000})
        check_equal(answer["responses"][0]["error_code"], NONE, "error of DeleteTopics")


def delete_records(topic, offset):
    with topic.broker.connect() as client:
        answer = topic.wire.call(client, "DeleteRecords", 2, {
            "topics": [{"name": topic.name,
                        "partitions": [{"partition_index": 0, "offset": offset}]}],
            "timeout_ms": 10000})
        part = answer["topics"][0]["partitions"][0]
        check_equal((part["error_code"], part["low_watermark"]), (NONE, offset), "DeleteRecords")


def change_config(topic):
    with topic.broker.connect() as client:
        answer = topic.wire.call(client, "IncrementalAlterConfigs", 1, {
            "resources": [{"resource_type": 2, "resource_name": topic.name, "configs": [
                {"name": "max.message.bytes", "config_operation": 0, "value": "900000"}]}]})
        check_equal(answer["responses"][0]["error_code"], NONE, "error of IncrementalAlterConfigs")


def resumes(topic, what):
    """Produce is accepted again by itself."""
    started = time.monotonic()
    topic.produce_until(NONE, RESUME_SECONDS)
    print(f"{what}: produce resumed after {time.monotonic() - started:.1f} s", flush=True)


def refuses(topic):
    with topic.broker.connect() as client:
        for _ in range(3):
            check_equal(topic.produce(client), STORAGE_ERROR, "error of Produce on a full disk")


def kill_and_start(broker, topics, what):
    """The killed broker comes up on the full disk, refusing, with everything that was acked."""
    broker.kill()
    started = time.monotonic()
    broker.start()
    seconds = time.monotonic() - started
    refuses(topics[0])
    count = sum(topic.check_acked() for topic in topics)
    print(f"{what}: up after {seconds:.1f} s, refusing, {count} records there", flush=True)


def test_own_data(broker, disk):
    """The broker's own records fill the disk; deleting some of them makes room."""
    old, topic = Topic(broker, "old"), Topic(broker, "t")
    old.create()
    topic.create()
    old.produce_count(1000)
    topic.produce_until(STORAGE_ERROR, 120)
    left = free_size(disk)
    check(left >= JOURNAL_SIZE // 2, f"of the reserve {left} bytes are left")
    print(f"{len(topic.acked)} records until refused; {left >> 20} MiB are left", flush=True)
    refuses(topic)
    change_config(topic)
    for each in (old, topic):
        each.check_acked()
    kill_and_start(broker, [topic, old], "killed with its own data on a full disk")
    change_config(topic)
    start = max(topic.acked) // 2
    delete_records(topic, start)
    resumes(topic, "DeleteRecords")
    topic.check_acked(start)
    topic.produce_until(STORAGE_ERROR, 120)
    delete_topic(old)
    resumes(topic, "DeleteTopics")
    topic.check_acked(start)
    return topic, start


def test_filled_by_others(broker, disk, topic, start):
    """Somebody else fills the disk to the last block, under load and before a start."""
    filler = os.path.join(disk, "filler")
    second = Topic(broker, "second")
    second.create()
    second.produce_count(400)  # 8 MB that are in the journal, and not all in segments yet.
    fill(filler, 0)
    check(free_size(disk) < MEGABYTE, "the disk is full")
    second.produce_until(STORAGE_ERROR, 60)
    for _ in range(3):
        kill_and_start(broker, [second], "killed with nothing free")
    topic.check_acked(start)
    change_config(second)
    os.remove(filler)
    resumes(second, "the other's file is gone")
    broker.stop()
    # A stop does not wait for space either, and neither does the next start.
    broker.start()
    second.produce_count(200)
    fill(filler, 0)
    status = broker._end(15, 30)
    check(status in (0, 1), f"status {status} of a stop on a full disk")
    broker.start()
    refuses(second)
    second.check_acked()
    os.remove(filler)
    resumes(second, "after a stop on the full disk")


def test_journal_that_has_no_room(broker, disk):
    """Write-back hangs and then finds no space: the journal holds more than half of the chunks."""
    filler = os.path.join(disk, "filler")
    third = Topic(broker, "third", value_size=100000)
    third.create()
    third.produce_count(1)
    broker.stop()
    broker.configure(twinlog_chunk_memory_size=str(64 * MEGABYTE))
    broker.start_with("disk-write:path=/third-0/:times=1000:delay_us=9000000:errno=ENOSPC")
    third.produce_count(150)
    fill(filler, 0)
    third.produce_until(STORAGE_ERROR, 60)
    broker.configure(twinlog_chunk_memory_size=str(8 * MEGABYTE))
    for _ in range(2):
        kill_and_start(broker, [third], "killed with a journal that nothing has room for")
    check_equal(len(broker.lines("stays in memory")), 2, "starts that keep the journal in memory")
    change_config(third)
    os.remove(filler)
    resumes(third, "room for the journal")
    third.produce_count(300)  # More than the chunks hold: the memory of the start was given back.
    third.check_acked()
    broker.stop()
    broker.start()
    third.check_acked()
    broker.stop()


def run(disk):
    settings = {"twinlog.journal.size": str(JOURNAL_SIZE),
                "twinlog.disk.reserve.size": str(JOURNAL_SIZE + 8 * MEGABYTE),
                "twinlog.chunk.memory.size": str(16 * MEGABYTE)}
    with fresh_broker(settings, data=os.path.join(disk, "data")) as broker:
        broker.start()
        topic, start = test_own_data(broker, disk)
        broker.configure(twinlog_disk_reserve_size=str(4 * MEGABYTE))
        broker.stop()
        broker.start()
        delete_records(topic, max(topic.acked))
        start = max(topic.acked)
        test_filled_by_others(broker, disk, topic, start)
        test_journal_that_has_no_room(broker, disk)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=160)
    options = parser.parse_args()
    with small_disk(options.size) as disk:
        run(disk)
    return 0


if __name__ == "__main__":
    sys.exit(main())
