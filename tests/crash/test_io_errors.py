#!/usr/bin/env python3
"""A disk that fails: a write, sync or read of a real file ends with an error, at a chosen moment.

What was acknowledged stays readable and survives the restart; nothing is acknowledged any more once
the log is offline; the trace says what failed, where, and what to do. Needs a build with faults.
"""
import glob
import os
import sys
import time

from crash_broker import CORRUPT_MESSAGE, NONE, STORAGE_ERROR, Topic, fresh_broker
from kafka_wire import batches
from twinlog_test import check, check_equal

MEGABYTE = 1 << 20


def check_offline(broker, topic, words):
    """Produce is refused again and again, reads go on, and it was told once."""
    for _ in range(3):
        with broker.connect() as client:
            check_equal(topic.produce(client), STORAGE_ERROR, "error of Produce when offline")
    time.sleep(0.3)
    topic.check_acked()
    for which in (words, ("offline", "nothing can be appended", "restart")):
        check_equal(len(broker.lines(*which)), 1, f"lines with {which}")


def offline_case(name, fault, words, settings=None):
    """The fault takes the log offline while records come in; a restart without it heals it."""
    with fresh_broker(settings) as broker:
        broker.start_with(fault)
        topic = Topic(broker, "t")
        topic.create()
        topic.produce_until(STORAGE_ERROR, size_max=64 * MEGABYTE)
        check_offline(broker, topic, words)
        status = broker._end(15, 30)
        check_equal(status, 1, "status of a broker whose log failed")
        broker.start_with(None)
        count = topic.check_acked()
        topic.produce_count(5)
        topic.check_acked()
        broker.stop()
    print(f"{name}: {count} acknowledged records kept")


def test_offline():
    quiet = {"twinlog.checkpoint.idle.ms": "600000"}
    offline_case("journal write EIO", "write:path=journal.0:after=60:errno=EIO",
                 ("write to the journal", "input/output error", "restart"))
    offline_case("journal write ENOSPC", "write:path=journal.0:after=60:errno=ENOSPC",
                 ("write to the journal", "no space", "restart"))
    offline_case("journal short write", "write:path=journal.0:after=60:short",
                 ("write to the journal", "restart"))
    offline_case("journal write EIO that heals", "write:path=journal.0:after=60:times=1",
                 ("write to the journal", "restart"))
    offline_case("segment write EIO", "disk-write:path=/t-0/:after=3",
                 ("writing segment files failed", "t-0", "input/output error", "restart"))
    offline_case("segment write half done", "disk-write:path=/t-0/:after=3:short",
                 ("writing segment files failed", "t-0", "restart"))
    offline_case("segment sync EIO", "disk-sync:path=journal.0:times=1000",
                 ("syncing the file system failed", "input/output error", "restart"))
    offline_case("checkpoint write EIO", "disk-write:path=checkpoint.0:after=4",
                 ("checkpoint.0", "cannot be written", "input/output error", "restart"))
    offline_case("checkpoint sync EIO", "disk-sync:path=checkpoint.0:after=4:times=100",
                 ("checkpoint.0", "cannot be written", "restart"))
    # The segment is there before the broker starts: its own files are synced, one by one.
    with fresh_broker({**quiet, "log.segment.bytes": str(64 * MEGABYTE)}) as broker:
        broker.start_with(None)
        topic = Topic(broker, "t")
        topic.create()
        topic.produce_count(5)
        broker.stop()
        broker.start_with("disk-sync:path=/t-0/:times=1000")
        topic.produce_until(STORAGE_ERROR, size_max=64 * MEGABYTE)
        check_offline(broker, topic, ("syncing segment files failed", "t-0", "restart"))
        broker.kill()
        broker.start_with(None)
        count = topic.check_acked()
        broker.stop()
    print(f"segment file sync EIO: {count} acknowledged records kept")


def test_passing():
    """No space for a segment or a checkpoint is not a failing disk: it is tried again."""
    for what, fault in (
            ("segment", "disk-write:path=/t-0/:after=2:times=4:short:errno=ENOSPC"),
            ("reservation", "disk-reserve:path=/t-0/:times=4:errno=ENOSPC"),
            ("checkpoint", "disk-write:path=checkpoint.0:after=4:times=3:errno=ENOSPC")):
        # A run of a megabyte has its space reserved first; it needs a segment that it fits in.
        size = 64 * MEGABYTE if what == "reservation" else MEGABYTE
        with fresh_broker({"log.segment.bytes": str(size)}) as broker:
            broker.start_with(fault)
            topic = Topic(broker, "t")
            topic.create()
            topic.produce_until(STORAGE_ERROR, size_max=64 * MEGABYTE)
            topic.check_acked()
            topic.produce_until(NONE, 60)
            check(not broker.lines("offline"), "the log stays online")
            check(broker.lines("nearly full") and broker.lines("space again"), "both are told")
            broker.kill()
            broker.start_with(None)
            count = topic.check_acked()
            broker.stop()
        print(f"no space for a {what}, for a while: {count} acknowledged records kept")


def test_read():
    """An unreadable segment fails the Fetch of it, and nothing else."""
    with fresh_broker() as broker:
        broker.start_with(None)
        topics = [Topic(broker, name) for name in ("t", "u")]
        for topic in topics:
            topic.create()
            topic.produce_count(150)
        broker.stop()
        broker.start_with("disk-read:path=/t-0/:times=1000000")
        with broker.connect() as client:
            for _ in range(3):
                answer = topics[0].fetch(client, 0)
                check_equal(answer["error_code"], STORAGE_ERROR, "error of Fetch")
                check(not answer["records"], "no bytes come with the error")
        topics[1].check_acked()
        topics[1].produce_count(3)
        check(not broker.lines("offline"), "a failed read does not stop the log")
        broker.stop()
        broker.start_with(None)
        topics[0].check_acked()
        broker.stop()
    print("an unreadable segment: its Fetch fails, nothing else does")


def test_rotten_segment():
    """A flipped bit: what is in front of it is served, the batch itself is CORRUPT_MESSAGE."""
    with fresh_broker() as broker:
        broker.start_with(None)
        topic = Topic(broker, "t")
        topic.create()
        topic.produce_count(200)
        broker.stop()
        path = sorted(glob.glob(os.path.join(broker.data, "t-0", "*.log")))[0]
        flip(path, 200000)
        broker.start_with(None)
        offset, error = 0, NONE
        with broker.connect() as client:
            while error == NONE:
                answer = topic.fetch(client, offset)
                error = answer["error_code"]
                if error == NONE:
                    base, count, _ = list(batches(answer["records"]))[-1]
                    offset = base + count
        check_equal(error, CORRUPT_MESSAGE, "error of Fetch at the damage")
        check(5 <= offset <= 10, f"the damage begins at offset {offset}")
        check(broker.lines("segment is damaged", path), "the trace names the file")
        topic.check_acked(offset + 1)
        broker.stop()
    print(f"a rotten batch: offset {offset} is CORRUPT_MESSAGE, all others are served")


def test_scrub():
    """In the background segments are read again, and what is rotten or unreadable is told once."""
    settings = {"twinlog.scrub.interval.ms": "500", "twinlog.scrub.bytes.per.second": "100000000"}
    with fresh_broker(settings) as broker:
        broker.start_with(None)
        topics = [Topic(broker, name) for name in ("t", "u")]
        for topic in topics:
            topic.create()
            topic.produce_count(150)
        broker.wait_for_line("scrub", "pass 2 is over", " 0 damaged ranges")
        broker.stop()
        path = sorted(glob.glob(os.path.join(broker.data, "t-0", "*.log")))[1]
        flip(path, 300000)
        other = sorted(glob.glob(os.path.join(broker.data, "u-0", "*.log")))[0]
        broker.start_with(f"disk-read:path={other[-28:]}:times=1")
        broker.wait_for_line("scrub", "pass 3 is over", " 2 damaged ranges", seconds=30)
        for words in (("a batch fails its CRC", path, "offsets="),
                      ("the device cannot read it", other, "offsets=")):
            check_equal(len(broker.lines("segment is damaged", *words)), 1, f"lines with {words}")
        topics[1].check_acked()
        topics[1].produce_count(3)
        status, output = broker.command("scrub")
        check(status == 1 and "running broker" in output, f"scrub beside a broker: {output}")
        broker.stop()
        status, output = broker.command("scrub")
        check_equal(status, 1, f"status of twinlog scrub ({output})")
        check(f"fails its CRC: file={path}" in output and ", 1 damaged ranges" in output, output)
        flip(path, 300000)
        status, output = broker.command("scrub")
        check(status == 0 and ", 0 damaged ranges" in output, output)
        broker.start_with(None)
        topics[1].produce_count(100)
        broker.kill()
        status, output = broker.command("scrub")
        check(status == 0 and ", 0 damaged ranges" in output, output)
    print("the scrub tells of a rotten and of an unreadable segment, once")


def flip(path, position):
    """Flips a bit of a file."""
    with open(path, "r+b") as stream:
        stream.seek(position)
        byte = stream.read(1)
        stream.seek(position)
        stream.write(bytes([byte[0] ^ 1]))


def test_recovery():
    """A start that cannot read or write says so, loses nothing, and succeeds later."""
    cases = (("disk-read:path=journal.0:after=1", ("journal.0", "cannot be used")),
             ("disk-read:path=journal.0:after=20", ("journal.0", "cannot be read at")),
             ("disk-read:path=checkpoint.0", ("checkpoint", "cannot be read")),
             ("disk-write:path=checkpoint.0", ("checkpoint", "cannot be written")),
             ("disk-sync:path=checkpoint.0", ("checkpoint", "cannot be written")),
             ("disk-write:path=/t-0/", ("writing segment files failed", "t-0")))
    # Checkpoints hang, so that the journal holds more than half of the chunks: replay writes back.
    slow = "disk-sync:path=journal.0:times=1000:delay_us=20000000"
    with fresh_broker() as broker:
        broker.start_with(None)
        topic = Topic(broker, "t")
        topic.create()
        topic.produce_until(NONE)
        for fault, words in cases:
            broker.stop()
            broker.start_with(slow)
            topic.produce_count(360)
            broker.kill()
            broker.start_with(fault + ":times=1000000", wait=False)
            check_equal(broker.ended(), 1, f"status of a start with {fault}")
            check(broker.lines(*words), f"the trace says {words}")
            broker.start_with(None)
            topic.check_acked()
        broker.stop()
    print(f"{len(cases)} starts on a failing disk refused; {len(topic.acked)} records kept")


def main():
    test_offline()
    test_passing()
    test_read()
    test_rotten_segment()
    test_scrub()
    test_recovery()
    return 0


if __name__ == "__main__":
    sys.exit(main())
