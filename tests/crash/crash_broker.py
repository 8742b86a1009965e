"""What the crash tests of disks share: a broker that may meet faults, and a client that remembers
what was acknowledged.
"""
import contextlib
import os
import sys
import time

from kafka_wire import Wire, batch, batches, fetch_request, partition_of, produce_request, values_of
from twinlog_test import Broker, check, check_equal, wait_until

NONE, CORRUPT_MESSAGE, STORAGE_ERROR = 0, 2, 56
SMALL = {
    # Journal, segments and checkpoints all turn over within a few megabytes.
    "twinlog.journal.size": str(32 << 20),
    "log.segment.bytes": str(1 << 20),
    "twinlog.checkpoint.idle.ms": "100",
    "twinlog.chunk.memory.size": str(8 << 20),
    "twinlog.disk.reserve.size": str(1 << 20),
}


class FaultyBroker(Broker):
    """A broker that can be started with TWINLOG_FAULT, and whose trace is looked at."""

    def start_with(self, fault=None, wait=True):
        """Starts it with these faults; see src/io/fault.h."""
        environment = {"TWINLOG_FAULT": fault} if fault else {}
        with changed_environment(environment):
            self.start(wait=wait)

    def lines(self, *words):
        """The lines of the trace so far that hold all the words."""
        with open(self.log, encoding="utf-8", errors="replace") as stream:
            return [line.strip() for line in stream if all(word in line for word in words)]

    def wait_for_line(self, *words, seconds=30):
        return wait_until(lambda: self.lines(*words), seconds, f"a line with {words}")[0]

    def ended(self, seconds=60):
        """Waits until it has ended by itself, and returns its status."""
        wait_until(lambda: self.process.poll() is not None, seconds, "the end of the broker")
        status, self.process = self.process.returncode, None
        return status


@contextlib.contextmanager
def changed_environment(values):
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def fresh_broker(settings=None, data=None):
    """A formatted broker that does not run yet; whatever happens, it does not outlive the test.
    `data` is where its directory shall be, if not in the test's folder."""
    broker = FaultyBroker({**SMALL, **(settings or {}), **({"log.dirs": data} if data else {})})
    broker.data = data or broker.data
    try:
        broker.format()
        yield broker
    except BaseException:
        if os.path.exists(broker.log):
            print(f"--- the broker's last lines\n{broker.trace()}", file=sys.stderr)
        raise
    finally:
        if broker.process is not None:
            broker.process.kill()
            broker.process.wait()


class Topic:
    """Numbered records of one partition: which were acknowledged, and that they are all there."""

    def __init__(self, broker, name, value_size=20000):
        self.broker, self.name, self.value_size = broker, name, value_size
        self.wire = Wire()
        self.next = 0
        self.acked = {}  # offset: number

    def create(self):
        with self.broker.connect() as client:
            self.wire.call(client, "Metadata", 9, {"topics": [{"name": self.name}]})

    def produce(self, client):
        """One record; the error of the answer."""
        value = b"%d:" % self.next + bytes(self.value_size)
        answer = partition_of(self.wire.call(client, "Produce", 9,
                                             produce_request(self.name, batch([value]))))
        if answer["error_code"] == NONE:
            check(answer["base_offset"] not in self.acked, "an offset is given once")
            self.acked[answer["base_offset"]] = self.next
        self.next += 1
        return answer["error_code"]

    def produce_until(self, error, seconds=60, size_max=None):
        """Produces until an answer has the error; at most `size_max` bytes before that."""
        deadline, sent = time.monotonic() + seconds, 0
        with self.broker.connect() as client:
            while True:
                got = self.produce(client)
                check(got in (NONE, STORAGE_ERROR), f"error {got} of Produce")
                if got == error:
                    return
                sent += self.value_size
                check(time.monotonic() < deadline, f"no error {error} within {seconds} s")
                check(size_max is None or sent < size_max, f"no error {error} after {sent} bytes")
                if got != NONE:
                    time.sleep(0.05)

    def produce_count(self, count):
        """So many records, all of them acknowledged."""
        with self.broker.connect() as client:
            for _ in range(count):
                check_equal(self.produce(client), NONE, "error of Produce")

    def fetch(self, client, offset):
        """The partition's part of a Fetch response."""
        request = fetch_request(self.name, offset, size_max=1 << 20)
        return partition_of(self.wire.call(client, "Fetch", 11, request))

    def read(self, start=0):
        """{offset: number} of everything from `start` on; offsets have no gap."""
        found, offset = {}, start
        with self.broker.connect() as client:
            while True:
                answer = self.fetch(client, offset)
                check_equal(answer["error_code"], NONE, f"error of Fetch at {offset}")
                for base, count, data in batches(answer["records"]):
                    check_equal(base, offset, "next offset")
                    found.update((at, int(value.split(b":")[0])) for at, value in values_of(data))
                    offset = base + count
                if offset >= answer["high_watermark"]:
                    return found

    def check_acked(self, start=0):
        """Everything acknowledged from offset `start` on is there."""
        found = self.read(start)
        for offset, number in self.acked.items():
            if offset >= start:
                check_equal(found.get(offset), number, f"record at offset {offset}")
        return len(self.acked)
