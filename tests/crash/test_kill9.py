#!/usr/bin/env python3
"""Ends the broker under load at a random moment, starts it again at once, and looks for every
acknowledged record.

    test_kill9.py [--rounds 5] [--signal kill|term] [--seed N]

Each round, in a topic of its own:
- `twinlog-bench load` notes each acknowledged (partition, offset, connection, sequence); afterwards
  exactly that record must stand there, and offsets must have no gap and no repetition;
- an idempotent producer of librdkafka (kcat) writes numbered lines through all rounds; at the end
  each line must be there once, in order.
The topics of earlier rounds are read again after every fifth round and at the end.
"""
import argparse
import contextlib
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

from kafka_wire import Wire, batches, crc32c, fetch_request, partition_of, values_of
from twinlog_test import Broker, check, check_equal, free_port, wait_until

PARTITIONS = 4
LINES_TOPIC = "lines"
LINES_PER_SECOND = 400
SETTINGS = {
    # Small enough that journal, segments and checkpoints all turn over between two kills.
    "twinlog.journal.size": str(32 << 20),
    "log.segment.bytes": str(1 << 20),
    "twinlog.checkpoint.idle.ms": "100",
}


class Lines:
    """An idempotent producer that is fed numbered lines until told to end."""

    def __init__(self, port):
        self.count = 0
        self.ending = False
        self.process = subprocess.Popen(
            ["kcat", "-P", "-E", "-b", f"127.0.0.1:{port}", "-t", LINES_TOPIC, "-p", "0",
             "-X", "enable.idempotence=true", "-X", "message.timeout.ms=120000",
             "-X", "reconnect.backoff.max.ms=200", "-X", "linger.ms=1"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.errors = []
        self.threads = [threading.Thread(target=self._feed, daemon=True),
                        threading.Thread(target=self._drain, daemon=True)]
        for thread in self.threads:
            thread.start()

    def _feed(self):
        with contextlib.suppress(BrokenPipeError):
            while not self.ending:
                self.process.stdin.write(b"line-%d\n" % self.count)
                self.process.stdin.flush()
                self.count += 1
                time.sleep(1 / LINES_PER_SECOND)
            self.process.stdin.close()

    def _drain(self):
        self.errors += [line.decode(errors="replace").strip() for line in self.process.stderr]

    def end(self):
        """Waits until everything is delivered."""
        self.ending = True
        self.threads[0].join()
        status = self.process.wait(timeout=150)
        check_equal(status, 0, f"status of kcat ({self.errors[-3:]})")


class Reader:
    """Reads a partition from its beginning to the high watermark."""

    def __init__(self, wire, client):
        self.wire, self.client = wire, client

    def records(self, topic, partition):
        """[(offset, value)], with offsets gapless and the CRC of a sample of batches checked."""
        found, offset, seen = [], 0, 0
        while True:
            request = fetch_request(topic, offset, partition, size_max=4 << 20)
            answer = partition_of(self.wire.call(self.client, "Fetch", 11, request))
            check_equal(answer["error_code"], 0, f"error of Fetch {topic}-{partition} at {offset}")
            for base, count, data in batches(answer["records"]):
                check_equal(base, offset, f"next offset of {topic}-{partition}")
                seen += 1
                if seen % 53 == 1:
                    check_equal(crc32c(data[21:]), struct.unpack(">I", data[17:21])[0],
                                f"CRC of {topic}-{partition} at {base}")
                found += values_of(data)
                offset = base + count
            if offset >= answer["high_watermark"]:
                check_equal(offset, answer["high_watermark"], f"end of {topic}-{partition}")
                check_equal([record[0] for record in found], list(range(offset)), "offsets")
                return found


def audit_round(reader, topic, ack_log):
    """Every acknowledged record stands at its offset. Returns their number."""
    acked = {partition: {} for partition in range(PARTITIONS)}
    with open(ack_log, encoding="ascii") as stream:
        for line in stream:
            partition, offset, connection, sequence = map(int, line.split())
            check(offset not in acked[partition], f"offset {offset} was acknowledged twice")
            acked[partition][offset] = (connection, sequence)
    for partition, expected in acked.items():
        found = reader.records(topic, partition)
        for offset, writer in expected.items():
            check(offset < len(found),
                  f"{topic}-{partition}: acknowledged offset {offset} of {writer} is lost, "
                  f"the log ends at {len(found)}")
            check_equal(struct.unpack(">QQ", found[offset][1][:16]), writer,
                        f"{topic}-{partition} at {offset}")
    return sum(map(len, acked.values()))


def load_start(broker, topic, ack_log, rng):
    command = [os.environ["TWINLOG_BENCH"], "load", "--bootstrap", f"127.0.0.1:{broker.port}",
               "--topic", topic, "--connections", str(rng.choice((1, 4, 16))),
               "--in-flight", str(rng.choice((1, 4))), "--partitions", str(PARTITIONS),
               "--records", str(rng.choice((1, 3))), "--record-size",
               str(rng.choice((100, 1000, 6000))), "--acks", rng.choice(("1", "all", "all")),
               "--warmup", "0", "--duration", "4", "--ack-log", ack_log]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def load_end(load):
    """The load ends after its time, writes its last acknowledgements, and says that it failed."""
    status = load.wait(timeout=30)
    check(status != 0, "twinlog-bench reports that the broker went away")


def play_round(broker, number, folder, options, rng):
    """Load, the end of the broker, the start of the next one."""
    topic, ack_log = f"round-{number}", os.path.join(folder, f"acks-{number}")
    load = load_start(broker, topic, ack_log, rng)
    try:
        wait_until(lambda: os.path.exists(ack_log) or load.poll() is not None, 20, "load begins")
        time.sleep(rng.uniform(0.1, 2))
        check(load.poll() is None, "the load runs until the broker is ended")
        if options.signal == "kill":
            broker.kill()
        else:
            broker.stop()
        broker.start()
        load_end(load)
    finally:
        if load.poll() is None:
            load.kill()
            load.wait()
    return topic, ack_log


def run(options, folder, seed):
    rng, wire = random.Random(seed), Wire()
    broker = Broker(SETTINGS, port=free_port(), folder=folder)
    broker.format()
    broker.start()
    rounds, total = [], 0
    try:
        lines = Lines(broker.port) if shutil.which("kcat") else None
        for number in range(options.rounds):
            rounds.append(play_round(broker, number, folder, options, rng))
            again = number % 5 == 4 or number == options.rounds - 1
            with broker.connect() as client:
                reader = Reader(wire, client)
                counts = [audit_round(reader, *item) for item in (rounds if again else rounds[-1:])]
            total += counts[-1]
            print(f"round {number}: {counts[-1]} acknowledged records found", flush=True)
        if lines is not None:
            lines.end()
            with broker.connect() as client:
                found = Reader(wire, client).records(LINES_TOPIC, 0)
            check_equal(len(found), lines.count, "lines of the idempotent producer")
            check(all(value == b"line-%d" % offset for offset, value in found),
                  "each line is there once, in order")
            print(f"{lines.count} lines of the idempotent producer, once and in order")
        check(total > 100 * options.rounds, f"only {total} records were acknowledged")
        broker.stop()
    except BaseException:
        print(f"seed {seed}\n--- the broker's last lines\n{broker.trace()}", file=sys.stderr)
        raise
    finally:
        if broker.process is not None:
            broker.process.kill()
            broker.process.wait()
    print(f"{options.rounds} rounds, {total} acknowledged records, none lost (seed {seed})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--signal", choices=("kill", "term"), default="kill")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="kill9-", dir=os.environ.get("TWINLOG_TMP"))
    try:
        run(options, folder, options.seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
