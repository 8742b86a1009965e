#!/usr/bin/env python3
# timeout: 300
"""What keeps a broker from starting is refused with a message that says what, where and the remedy,
and changes nothing on disk. A full disk refuses writes, serves reads, and is got over without help.
"""
import contextlib
import hashlib
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import time

from kafka_wire import Wire, batch, batches, fetch_request, partition_of, produce_request, values_of
from twinlog_test import Broker, check, check_equal, wait_until

STORAGE_ERROR = 56
RECORDS = 60
SMALL = {"twinlog.journal.size": str(32 << 20), "log.segment.bytes": str(1 << 20)}

# (settings, what the message must hold besides each key)
BAD_SETTINGS = [
    ({"log.segment.bytes": "many"}, ["many", "whole number"]),
    ({"log.segment.bytes": "1"}, ["out of range", "choose"]),
    ({"num.partitions": "0"}, ["out of range", "choose"]),
    ({"auto.create.topics.enable": "perhaps"}, ["perhaps", "true or false"]),
    ({"log.message.timestamp.type": "Yesterday"}, ["Yesterday", "CreateTime"]),
    ({"compression.type": "rar"}, ["rar", "producer"]),
    ({"compression.gzip.level": "0"}, ["choose 1 to 9"]),
    ({"twinlog.journal.sise": "1"}, ["spelling"]),
    ({"twinlog.journal.size": str((32 << 20) + 1)}, ["multiple", "choose"]),
    ({"default.replication.factor": "3"}, ["set it to 1"]),
    ({"log.dirs": "/a,/b"}, ["one directory"]),
    ({"listeners": "PLAINTEXT://0.0.0.0:9999"}, ["wildcard", "advertised.listeners"]),
    ({"listeners": "PLAINTEXT://[::]:9999"}, ["wildcard", "advertised.listeners"]),
    ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9999"}, ["wildcard"]),
    ({"listeners": "PLAINTEXT://a.example.org:9999"}, ["a.example.org", "address"]),
    ({"listeners": "nonsense"}, ["nonsense", "PLAINTEXT://"]),
    ({"listeners": "SSL://127.0.0.1:9999"}, ["SSL", "PLAINTEXT"]),
    ({"listeners": "SASL_PLAINTEXT://127.0.0.1:9999"}, ["SASL_PLAINTEXT", "PLAINTEXT"]),
    ({"ssl.keystore.location": "/k.jks"}, ["security", "remove"]),
    ({"sasl.enabled.mechanisms": "PLAIN"}, ["security", "remove"]),
    ({"security.inter.broker.protocol": "SSL"}, ["security", "remove"]),
    ({"authorizer.class.name": "org.example.Authorizer"}, ["security", "remove"]),
    ({"super.users": "User:admin"}, ["security", "remove"]),
    ({"listener.name.x.ssl.client.auth": "required"}, ["security", "remove"]),
]


def snapshot(folder):
    """{path: hash} of every file."""
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with open(path, "rb") as stream:
                found[os.path.relpath(path, folder)] = hashlib.sha1(stream.read()).hexdigest()
    return found


def refused(broker, words, what, may_change=()):
    """The start fails with a message that holds the words, and leaves every file as it was."""
    before = snapshot(broker.data)
    status, output = broker.command("serve")
    check_equal(status, 1, f"{what}: exit status ({output.strip()})")
    for word in words:
        check(word in output, f"{what}: '{word}' is not in the message:\n{output}")
    check("Sanitizer" not in output and "assert" not in output, f"{what}:\n{output}")
    after = snapshot(broker.data)
    changed = sorted(name for name in before.keys() | after.keys()
                     if before.get(name) != after.get(name) and not name.startswith(may_change))
    check(not changed, f"{what}: the refused start changed {changed}")
    print(f"refused: {what}")


def test_settings():
    for settings, words in BAD_SETTINGS:
        refused(Broker(settings), [*words, *(key.rstrip("s") for key in settings)], str(settings))


def test_unformatted():
    broker = Broker(SMALL)
    refused(broker, [broker.data, "twinlog format"], "a directory that is not there")
    os.mkdir(broker.data)
    refused(broker, [broker.data, "twinlog format"], "an empty directory")
    with open(os.path.join(broker.data, "holiday.jpg"), "wb") as stream:
        stream.write(b"precious")
    refused(broker, [broker.data, "twinlog format"], "a directory with something else")
    status, output = broker.command("format")
    check(status == 1 and "holiday.jpg" in output, f"format spares what it does not know: {output}")
    check_equal(os.listdir(broker.data), ["holiday.jpg"], "files after a refused format")


class Case:
    """A broker on a copy of a directory with records, to be damaged."""

    def __init__(self, original):
        self.broker = Broker(original.settings, port=original.port)
        self.broker.configure(**{"log.dirs": self.broker.data})
        shutil.copytree(original.data, self.broker.data)

    def __enter__(self):
        return self.broker

    def __exit__(self, *_):
        if self.broker.process is not None:
            self.broker.process.kill()
            self.broker.process.wait()
        shutil.rmtree(self.broker.folder, ignore_errors=True)


def produce(wire, client, topic, number, size=100):
    value = b"%d:" % number + b"." * size
    return partition_of(wire.call(client, "Produce", 9, produce_request(topic, batch([value]))))


def read_all(wire, client, topic):
    """Every value of partition 0."""
    values, offset = [], 0
    while True:
        answer = partition_of(wire.call(client, "Fetch", 11, fetch_request(topic, offset)))
        check_equal(answer["error_code"], 0, "error of Fetch")
        for base, count, data in batches(answer["records"]):
            values += [value for _, value in values_of(data)]
            offset = base + count
        if offset >= answer["high_watermark"]:
            return values


def make_original(wire):
    """A directory with records in segments and, behind a kill -9, more of them in the journal."""
    broker = Broker({**SMALL, "twinlog.checkpoint.idle.ms": "300"})
    broker.format()
    for life in range(2):
        broker.start()
        with broker.connect() as client:
            wire.call(client, "Metadata", 9, {"topics": [{"name": "t"}]})
            wait_until(lambda: produce(wire, client, "t", life * RECORDS)["error_code"] == 0, 10,
                       "a topic to write to")
            for number in range(life * RECORDS + 1, (life + 1) * RECORDS):
                check_equal(produce(wire, client, "t", number)["error_code"], 0, "error")
        if life == 0:
            time.sleep(1)
            broker.stop()
            broker.configure(twinlog_checkpoint_idle_ms="600000")
        else:
            broker.kill()
    return broker


def starts_whole(wire, broker, what):
    """The broker starts and every record is there."""
    broker.start()
    with broker.connect() as client:
        values = read_all(wire, client, "t")
    check_equal([int(value.split(b":")[0]) for value in values], list(range(2 * RECORDS)), what)
    broker.stop()
    print(f"started whole: {what}")


def edit_meta(broker, key, value):
    path = os.path.join(broker.data, "meta.properties")
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(re.sub(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", text))


def test_wrong_directory(wire, original):
    with Case(original) as broker:
        starts_whole(wire, broker, "an undamaged copy")
    with Case(original) as broker:
        broker.configure(node_id="2")
        refused(broker, [broker.data, "node.id"], "the directory of another node")
    with Case(original) as broker:
        edit_meta(broker, "twinlog.format.version", 99)
        refused(broker, ["meta.properties", "99", "newer"], "a newer format")
    with Case(original) as broker:
        edit_meta(broker, "twinlog.journal.size", "lots")
        refused(broker, ["meta.properties", "twinlog.journal.size", "lots"], "a mangled value")
    with Case(original) as broker, contextlib.closing(OtherDirectory()) as other:
        shutil.copy(os.path.join(other.broker.data, "meta.properties"), broker.data)
        refused(broker, [broker.data, "belongs to"], "the journal of another directory")
    with Case(original) as broker:
        os.remove(os.path.join(broker.data, "meta.properties"))
        refused(broker, [broker.data, "twinlog format"], "a directory without meta.properties")


class OtherDirectory:
    """A directory that was formatted for itself."""

    def __init__(self):
        self.broker = Broker(SMALL)
        self.broker.format()

    def close(self):
        shutil.rmtree(self.broker.folder, ignore_errors=True)


def test_two_brokers(wire, original):
    with Case(original) as first:
        first.start()
        second = Broker({**first.settings, "listeners": f"PLAINTEXT://127.0.0.1:{first.port + 1}"},
                        port=first.port + 1)
        status, output = second.command("serve")
        check(status == 1 and first.data in output and "in use by another process" in output,
              f"a second broker on one directory is refused: {status} {output}")
        print("refused: a second broker on one directory")
        other = Broker(SMALL, port=first.port)
        other.format()
        # It has opened its log by then, so a new generation is noted. More starts than a
        # checkpoint holds generations do no harm.
        for _ in range(70):
            refused(other, [str(first.port), "another broker"], "a second broker on one port",
                    ("checkpoint",))
        with first.connect() as client:
            check_equal(len(read_all(wire, client, "t")), 2 * RECORDS, "records of the first one")
        first.stop()
        other.start()
        other.stop()


# ---------------------------------------------------------------- damage

def files_of(broker, prefix):
    return [os.path.join(broker.data, name) for name in sorted(os.listdir(broker.data))
            if name.startswith(prefix)]


def flip(path, position, size=8):
    with open(path, "r+b") as stream:
        stream.seek(position)
        data = stream.read(size)
        stream.seek(position)
        stream.write(bytes(byte ^ 0x5a for byte in data))


def frames_of(broker):
    """[(lsn, path, position)] of the frames that lie in the journal's files."""
    found = []
    for path in files_of(broker, "journal"):
        with open(path, "rb") as stream:
            data = stream.read()
        for at in range(4096, len(data), 4096):
            if data[at:at + 4] == b"TWLF":
                found.append((struct.unpack("<Q", data[at + 72:at + 80])[0], path, at))
    return sorted(found)


def test_damaged_journal(wire, original):
    with Case(original) as broker:
        victim = files_of(broker, "journal")[3]
        os.remove(victim)
        refused(broker, [victim], "a journal file is missing")
    with Case(original) as broker:
        victim = files_of(broker, "journal")[2]
        os.truncate(victim, os.path.getsize(victim) - 4096)
        refused(broker, [victim], "a journal file was cut")
    with Case(original) as broker:
        victim = files_of(broker, "journal")[0]
        flip(victim, 16)
        refused(broker, [victim], "a journal file's header is damaged")
    frames = frames_of(original)
    lsn, path, position = frames[-20]
    for where, what in ((0, "header"), (200, "body")):
        with Case(original) as broker:
            victim = os.path.join(broker.data, os.path.basename(path))
            flip(victim, position + where)
            refused(broker, [os.path.basename(path), str(lsn)],
                    f"the {what} of a synced frame in the middle is damaged")


def test_damaged_checkpoint(wire, original):
    with Case(original) as broker:
        names = files_of(broker, "checkpoint")
        check_equal(len(names), 2, "checkpoint files")
        for name in names:
            flip(name, 100)
        refused(broker, [names[0], "restore"], "both checkpoints are damaged")
    with Case(original) as broker:
        for name in files_of(broker, "checkpoint"):
            os.remove(name)
        refused(broker, [broker.data], "both checkpoints are gone")


@contextlib.contextmanager
def mounted(arguments, folder):
    """Mounts for the time of a test; yields whether that was allowed."""
    done = subprocess.run(["mount", *arguments, folder], stderr=subprocess.DEVNULL, check=False)
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", folder], check=False)


def not_tried(what):
    """Mounting needs rights that a developer may lack; in strict mode they must be there."""
    check(os.environ.get("TWINLOG_STRICT") != "1", f"{what}: mounting is not allowed here")
    print(f"not tried: {what} (mounting is not allowed here)")


def test_read_only(original):
    with Case(original) as broker:
        with mounted(["--bind", broker.data], broker.data) as allowed:
            if not allowed:
                not_tried("a read-only disk")
                return
            subprocess.run(["mount", "-o", "remount,ro,bind", broker.data], check=True)
            refused(broker, [broker.data, "read-only"], "a read-only disk")


# ---------------------------------------------------------------- a full disk

def fill(path, leave):
    """A file that leaves so many bytes free."""
    facts = os.statvfs(os.path.dirname(path))
    left = facts.f_bavail * facts.f_frsize - leave
    with open(path, "wb") as stream, contextlib.suppress(OSError):
        while left > 0:
            left -= stream.write(bytes(min(left, 1 << 20)))


def produce_until(wire, client, number, wanted, seconds):
    """Produces until an answer has the wanted error; returns the next number."""
    deadline = time.monotonic() + seconds
    while True:
        error = produce(wire, client, "t", number, 50000)["error_code"]
        check(error in (0, STORAGE_ERROR), f"error {error}")
        number += error == 0
        if error == wanted:
            return number
        check(time.monotonic() < deadline, f"no answer with error {wanted} within {seconds} s")
        time.sleep(0.01)


def full_disk_round(wire, broker, client, number, leave):
    """The disk fills up, produce is refused, reads go on; space returns, and so does produce."""
    filler = os.path.join(os.path.dirname(broker.data), "filler")
    fill(filler, leave)
    number = produce_until(wire, client, number, STORAGE_ERROR, 30)
    values = read_all(wire, client, "t")
    check_equal([int(value.split(b":")[0]) for value in values], list(range(number)),
                "records while the disk is full")
    os.remove(filler)
    started = time.monotonic()
    number = produce_until(wire, client, number, 0, 15)
    print(f"a full disk ({leave} bytes left): {number} records kept, "
          f"service resumed in {time.monotonic() - started:.1f} s")
    return number


def test_full_disk(wire, port):
    folder = os.path.join(os.environ.get("TWINLOG_TMP", "/tmp"), "full-disk")
    os.makedirs(folder, exist_ok=True)
    with mounted(["-t", "tmpfs", "-o", "size=200m", "tmpfs"], folder) as allowed:
        if not allowed:
            not_tried("a full disk")
            return
        broker = Broker({**SMALL, "twinlog.disk.reserve.size": str(8 << 20),
                         "twinlog.checkpoint.idle.ms": "100"}, port=port, folder=folder)
        try:
            broker.format()
            broker.start()
            with broker.connect(timeout=40) as client:
                wire.call(client, "Metadata", 9, {"topics": [{"name": "t"}]})
                number = produce_until(wire, client, 0, 0, 10)
                for leave in (16 << 20, 0):
                    number = full_disk_round(wire, broker, client, number, leave)
            broker.stop()
            broker.start()
            with broker.connect() as client:
                check_equal(len(read_all(wire, client, "t")), number, "records after a restart")
            broker.stop()
        except BaseException:
            print(broker.trace(), file=sys.stderr)
            raise
        finally:
            if broker.process is not None:
                broker.process.kill()
                broker.process.wait()


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wire = Wire()
    test_settings()
    test_unformatted()
    original = make_original(wire)
    test_wrong_directory(wire, original)
    test_two_brokers(wire, original)
    test_damaged_journal(wire, original)
    test_damaged_checkpoint(wire, original)
    test_read_only(original)
    test_full_disk(wire, original.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
