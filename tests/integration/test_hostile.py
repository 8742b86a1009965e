#!/usr/bin/env python3
# timeout: 300
"""Clients that lie, dawdle, flood and corrupt, while a control client goes on writing and reading:
it must see no error and no explosion of its latency, and the broker's memory stays bounded.

    test_hostile.py [--seed N]
"""
import argparse
import contextlib
import gzip
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import threading
import time

from kafka_wire import (Wire, WireError, batch, batches, fetch_request, partition_of,
                        produce_request, values_of, zigzag)
from twinlog_test import Broker, Client, check, check_equal, wait_until

SETTINGS = {
    "socket.request.max.bytes": str(4 << 20),
    "twinlog.fetch.memory.size": str(32 << 20),
    "twinlog.chunk.memory.size": str(32 << 20),
    "twinlog.journal.size": str(64 << 20),
}
# Chunks 32, received frames 64, fetches 32, an opened batch 64, connections and code 160 MiB.
RSS_MIB_MAX = 352
RSS_MIB_MAX_SANITIZED = 1400  # shadow memory, red zones and 256 MiB of quarantine
P99_MS_MAX = 500
P99_MS_MAX_SANITIZED = 1500
LATENCY_MS_MAX = 8000
MUTATED_FRAMES = 3000
CONNECTIONS = 5000


def is_sanitized():
    """Whether the broker under test is a build with sanitizers, which is slower and larger."""
    binary = os.environ.get("TWINLOG_BIN", "build/dev/bin/twinlog")
    done = subprocess.run([binary, "--version"], stdout=subprocess.PIPE, check=True)
    return b"sanitize" in done.stdout


class Control(threading.Thread):
    """Produces one record at a time, fetches it back, and notes how long that took."""

    def __init__(self, wire, port, topic="control"):
        super().__init__(daemon=True)
        self.wire, self.port, self.topic = wire, port, topic
        self.ending, self.error, self.count = False, None, 0
        self.latencies = []
        self.started = None
        self.p99_max = P99_MS_MAX_SANITIZED if is_sanitized() else P99_MS_MAX

    def run(self):
        try:
            with Client(self.port) as writer, Client(self.port) as reader:
                self.wire.call(writer, "Metadata", 9, {"topics": [{"name": self.topic}]})
                while not self.ending:
                    self.round_trip(writer, reader)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def round_trip(self, writer, reader):
        value = b"control-%d" % self.count + b"." * (self.count % 40 * 1000)
        started = self.started = time.monotonic()
        answer = partition_of(self.wire.call(writer, "Produce", 9,
                                             produce_request(self.topic, batch([value]))))
        check_equal(answer["error_code"], 0, "error of the control producer")
        check_equal(answer["base_offset"], self.count, "offset of the control producer")
        request = fetch_request(self.topic, self.count, wait_ms=5000)
        answer = partition_of(self.wire.call(reader, "Fetch", 11, request))
        check_equal(answer["error_code"], 0, "error of the control consumer")
        found = [record for _, _, data in batches(answer["records"]) for record in values_of(data)]
        check_equal(found, [(self.count, value)], "record of the control consumer")
        self.latencies.append((time.monotonic() - started) * 1000)
        self.count += 1
        time.sleep(0.005)

    def report(self, what):
        """Judges the latencies since the last report."""
        check(self.error is None, f"{what}: the control client failed: {self.error!r}")
        wait_until(lambda: self.latencies or self.error, 30, f"{what}: the control client goes on")
        taken, self.latencies = self.latencies, []
        taken.append((time.monotonic() - self.started) * 1000)  # the one under way
        check(taken, f"{what}: the control client failed: {self.error!r}")
        taken.sort()
        p99 = taken[min(len(taken) - 1, len(taken) * 99 // 100)]
        print(f"{what}: control {len(taken)} round trips, p50 {taken[len(taken) // 2]:.1f} ms, "
              f"p99 {p99:.1f} ms, max {taken[-1]:.1f} ms", flush=True)
        check(p99 <= self.p99_max, f"{what}: p99 is {p99:.0f} ms")
        check(taken[-1] <= LATENCY_MS_MAX, f"{what}: the slowest took {taken[-1]:.0f} ms")

    def end(self):
        self.ending = True
        self.join(timeout=30)
        check(self.error is None, f"the control client failed: {self.error!r}")


def rss_mib(broker):
    with open(f"/proc/{broker.process.pid}/status", encoding="ascii") as stream:
        for line in stream:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) // 1024
    raise ValueError("no VmRSS")


class Memory(threading.Thread):
    """The most the broker held at any moment."""

    def __init__(self, broker):
        super().__init__(daemon=True)
        self.broker, self.most, self.ending = broker, 0, False

    def run(self):
        with contextlib.suppress(OSError):
            while not self.ending:
                self.most = max(self.most, rss_mib(self.broker))
                time.sleep(0.05)


# ---------------------------------------------------------------- attacks

def valid_frames(wire):
    """One frame of each API in each version with something in it; nothing about `control`."""
    record_batch = batch([b"value"] * 3, key=b"key")
    contents = {
        "Produce": produce_request("victim", record_batch),
        "Fetch": fetch_request("victim"),
        "Metadata": {"topics": [{"name": "victim"}]},
        "ListOffsets": {"topics": [{"name": "victim", "partitions": [{"timestamp": 5}]}]},
        "CreateTopics": {"topics": [{"name": "made", "num_partitions": 1, "replication_factor": 1,
                                     "configs": [{"name": "retention.ms", "value": "1"}]}]},
        "DeleteTopics": {"topics": [{"name": "made"}], "topic_names": ["made"]},
        "DescribeConfigs": {"resources": [{"resource_type": 2, "resource_name": "victim",
                                           "configuration_keys": None}]},
        "FindCoordinator": {"key": "group", "coordinator_keys": ["group"]},
        "CreatePartitions": {"topics": [{"name": "victim", "count": 2, "assignments": None}]},
    }
    frames = []
    for name, api in wire.apis.items():
        for version in range(api["versions"][0], api["versions"][1] + 1):
            payload = wire.request(name, version, contents.get(name, {}))
            frames.append(struct.pack(">i", len(payload)) + payload)
    return frames


def mutate(rng, frame):
    """One to four changes; most keep the length right, so that the body is what lies."""
    data = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(4, len(data)) if len(data) > 4 else 0
        kind = rng.randrange(6)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice((0, 1, 0x7f, 0x80, 0xff))
        elif kind == 2:
            data[at:at + 4] = struct.pack(">i", rng.choice((-1, 0, 1 << 30, 0x7fffffff, -1 << 31)))
        elif kind == 3:
            del data[at:at + rng.randint(1, 8)]
        elif kind == 4:
            data[at:at] = rng.randbytes(rng.randint(1, 8))
        else:
            data[at:] = data[at:at + rng.randint(1, 16)]
    if rng.randrange(10) != 0:
        data[:4] = struct.pack(">i", max(len(data) - 4, 0))
    return bytes(data)


def drain(sock, seconds):
    """Reads what comes until the peer closes or the time is over; (bytes read, closed)."""
    count, deadline = 0, time.monotonic() + seconds
    while True:
        sock.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            piece = sock.recv(1 << 16)
        except (BlockingIOError, socket.timeout):
            return count, False
        except OSError:
            return count, True
        if not piece:
            return count, True
        count += len(piece)
        if time.monotonic() > deadline:
            return count, False


def attack_mutated(wire, broker, rng):
    frames = valid_frames(wire)
    sent = closed = 0
    while sent < MUTATED_FRAMES:
        with broker.connect() as client:
            data = b""
            for _ in range(rng.randint(1, 8)):
                data += mutate(rng, rng.choice(frames))
                sent += 1
            with contextlib.suppress(OSError):
                client.send_raw(data)
            closed += drain(client.socket, 0.01)[1]
    print(f"{sent} mutated frames, {closed} connections closed by the broker")
    check(closed > MUTATED_FRAMES // 50, "what cannot be a request closes its connection")


def attack_lengths(wire, broker):
    """Sizes that are no size close the connection at once; those that are too long time out."""
    for size in (-1, -2147483648, 0x7fffffff, 1 << 30, (4 << 20) + 1, 0, 1, 7):
        with broker.connect() as client:
            client.send_raw(struct.pack(">i", size) + b"\0" * max(min(size, 7), 0))
            check(client.is_closed(), f"a frame of size {size} closes its connection")
    lies = [
        struct.pack(">hhihi", 3, 1, 1, 0, 0x7fffffff),           # Metadata: count of topics
        struct.pack(">hhih", 3, 9, 1, 0) + b"\0\xff\xff\xff\xff\x0f",
        struct.pack(">hhihhhii", 0, 3, 1, 0, -1, 1, 1000, 0x7fffffff),  # Produce: count of topics
        struct.pack(">hhihhhiih", 0, 3, 1, 0, -1, 1, 1000, 1, 1) + b"t"
        + struct.pack(">iii", 1, 0, 0x7fffffff),                 # Produce: size of records
        struct.pack(">hhih", 18, 3, 1, 30000),                   # client id
        struct.pack(">hhihh", 20, 1, 1, 0, 0) + b"\xff" * 20,
    ]
    for payload in lies:
        with broker.connect() as client:
            client.send_frame(payload)
            check(client.is_closed(), f"{payload.hex()} closes its connection")
    halves = [broker.connect() for _ in range(200)]
    for client in halves:
        client.send_raw(struct.pack(">i", 4 << 20) + b"\0" * 100)
    with broker.connect() as client:
        wire.call(client, "ApiVersions", 3, {})
    return halves


class Drip(threading.Thread):
    """Clients that send a byte a second, of a small request, a large one, and of nothing."""

    def __init__(self, wire, broker):
        super().__init__(daemon=True)
        self.ending, self.sent = False, 0
        small = wire.request("Metadata", 1, {"topics": [{"name": "x" * 200}]})
        frames = [struct.pack(">i", len(small)) + small, struct.pack(">i", 3 << 20) + bytes(300)]
        self.clients = [(broker.connect(), frames[i % 2]) for i in range(60)]

    def run(self):
        while not self.ending:
            for client, frame in self.clients:
                with contextlib.suppress(OSError):
                    client.socket.send(frame[self.sent % len(frame):][:1])
            self.sent += 1
            time.sleep(1)


def fill_topic(wire, broker, topic, mib):
    value = b"f" * (900 << 10)
    data = batch([value])
    with broker.connect() as client:
        wire.call(client, "Metadata", 9, {"topics": [{"name": topic}]})
        for _ in range(mib):
            answer = wire.call(client, "Produce", 9, produce_request(topic, data))
            check_equal(partition_of(answer)["error_code"], 0, "error of filling")


def attack_not_reading(wire, broker, count):
    """Large fetches whose answers are never read, many behind each other."""
    clients = []
    for _ in range(count):
        client = broker.connect()
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        frame = wire.request("Fetch", 11, fetch_request("big", size_max=50 << 20))
        client.send_raw((struct.pack(">i", len(frame)) + frame) * 8)
        clients.append(client)
    return clients


def attack_connections(wire, broker):
    clients = []
    for _ in range(CONNECTIONS):
        clients.append(broker.connect())
    for client in clients:
        client.send_request(18, 0)
    for client in clients:
        client.read_response(1)
    return clients


def bad_batches():
    """(what, batch, whether only a topic that opens batches must refuse it)."""
    good = {"values": [b"value"] * 3, "key": b"key"}
    for magic in (-1, 0, 1, 3, 127):
        yield f"magic {magic}", batch(**good, magic=magic), False
    yield "bad CRC", batch(**good, crc=1), False
    yield "count too high", batch(**good, count=4), False
    yield "count too low", batch(**good, count=2), False
    yield "count and delta too high", batch(**good, count=9, last_offset_delta=8), False
    yield "count of two thousand millions", batch(**good, count=0x7fffffff,
                                                  last_offset_delta=0x7ffffffe), False
    yield "count 0", batch(**good, count=0, last_offset_delta=-1), False
    yield "negative count", batch(**good, count=-5), False
    yield "negative delta", batch(**good, last_offset_delta=-1), False
    for length in (-1, 0, 48, 1 << 30, -2147483648):
        yield f"length {length}", batch(**good, length=length), False
    yield "base offset 5", batch(**good, base_offset=5), False
    yield "control bit", batch(**good, attributes=0x20), False
    for codec in (5, 6, 7):
        yield f"codec {codec}", batch(**good, codec=codec), False
    yield "nothing", b"", False
    yield "ten bytes", b"0123456789", False
    yield "two batches", batch(**good) * 2, False
    yield "record of a wrong length", batch(**good, records=zigzag(1000) + b"\0" * 30), False
    yield "record offsets not in order", batch([b"a"], records=b"\x10\0\0\x08\1\2a\0\0"), False
    for codec in (1, 2, 3, 4):
        yield f"codec {codec} over noise", batch(**good, codec=codec, records=b"\x5a" * 400), True
    bomb = gzip.compress(bytes(256 << 20), 1)
    bomb = gzip.compress(bomb, 9) if len(bomb) > 900 << 10 else bomb
    yield "gzip bomb", batch(**good, codec=1, records=bomb[:900 << 10]), True


def attack_batches(wire, broker):
    with broker.connect() as client:
        answer = wire.call(client, "CreateTopics", 5, {"topics": [
            {"name": name, "num_partitions": 1, "replication_factor": 1,
             "configs": [{"name": "cleanup.policy", "value": policy}]}
            for name, policy in (("plain", "delete"), ("compacted", "compact"))]})
        check_equal([t["error_code"] for t in answer["topics"]], [0, 0], "errors of CreateTopics")
        answered = 0
        for topic in ("plain", "compacted"):
            for what, data, opened_only in bad_batches():
                answer = partition_of(wire.call(client, "Produce", 9, produce_request(topic, data)))
                answered += 1
                if opened_only and topic == "plain":
                    continue
                check(answer["error_code"] not in (0, -1),
                      f"{what} to {topic}: error {answer['error_code']}")
        fetched = partition_of(wire.call(client, "Fetch", 11, fetch_request("compacted")))
        check_equal(fetched["high_watermark"], 0, "nothing of it was appended")
    print(f"{answered} corrupt batches answered")


def attack_descriptors(wire):
    """More connections than descriptors: who is connected is served, others come in afterwards."""
    limit = 256
    limited = Broker(SETTINGS, port=int(os.environ.get("TWINLOG_PORT", "20000")) + 1)
    script = os.path.join(limited.folder, "limited")
    with open(script, "w", encoding="utf-8") as stream:
        stream.write(f'#!/bin/sh\nulimit -n {limit}\nexec {limited.binary} "$@"\n')
    os.chmod(script, 0o755)
    limited.binary = script
    with limited as broker:
        control = Control(wire, broker.port)
        control.start()
        wait_until(lambda: control.count > 0 or control.error, 20, "the control client is served")
        crowd = []
        for _ in range(2 * limit):
            with contextlib.suppress(OSError):
                crowd.append(Client(broker.port, timeout=1))
        time.sleep(1)
        control.report("out of descriptors")
        for client in crowd:
            client.socket.close()
        with broker.connect(timeout=10) as client:
            wire.call(client, "ApiVersions", 3, {})
        control.end()
        check("cannot accept a connection" in broker.trace(400),
              f"the trace says that descriptors ran out:\n{broker.trace(5)}")


# ---------------------------------------------------------------- the test

def play(wire, broker, rng):
    control, drip = Control(wire, broker.port), Drip(wire, broker)
    control.start()
    time.sleep(1.5)
    control.report("quiet")
    drip.start()
    attack_mutated(wire, broker, rng)
    control.report("mutated frames")
    attack_batches(wire, broker)
    control.report("corrupt batches")
    fill_topic(wire, broker, "big", 64)
    control.report("filling")
    held = attack_not_reading(wire, broker, 12)
    time.sleep(3)
    control.report("clients that do not read")
    for client in held:
        client.socket.close()
    held = attack_lengths(wire, broker)
    time.sleep(2)
    control.report("lengths that lie")
    for client in held:
        client.socket.close()
    held = attack_connections(wire, broker)
    control.report(f"{CONNECTIONS} connections")
    for client in held:
        client.socket.close()
    drip.ending = True
    wait_until(lambda: control.count > 0, 5, "control")
    time.sleep(1)
    control.report("afterwards")
    control.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * CONNECTIONS:
        print(f"the limit of open files is {hard}: {2 * CONNECTIONS} are needed")
        return 77
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * CONNECTIONS), hard))
    wire = Wire()
    with Broker(SETTINGS) as broker:
        memory = Memory(broker)
        memory.start()
        try:
            play(wire, broker, random.Random(options.seed))
        except (WireError, EOFError, OSError) as error:
            check(False, f"{error!r}; the broker's last lines:\n{broker.trace()}")
        memory.ending = True
        bound = RSS_MIB_MAX_SANITIZED if is_sanitized() else RSS_MIB_MAX
        print(f"most memory {memory.most} MiB of {bound}")
        check(memory.most <= bound, f"the broker held {memory.most} MiB")
    attack_descriptors(wire)
    return 0


if __name__ == "__main__":
    sys.exit(main())
