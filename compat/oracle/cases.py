"""The script: CASES is a table of (name, steps). A step is (api, versions, values[, options]).

versions  "all", "N", "N-M" or "N-", cut to what both systems advertise; one request for each
values    a dictionary, or a function of (system, version) that makes one; request fields that a
          version lacks are left out
options   producer: remembers the producer id of the answer under that name
          no_answer: the request has none; what is compared is whether the connection goes on
          session: remembers the fetch session of the answer
          wait_ms: compares whether the answer took at least that long

("settle", topic, partitions) waits until a topic is there (0: gone) and learns its id and epoch.
("raw", label, payload) sends the payload as it is; compared is whether it is answered.
"""
import struct
import time

from kafka_wire import batch, record

SOFTWARE = {"client_software_name": "oracle", "client_software_version": "1"}
NOTHING_LISTED = {"replica_id": -1, "topics": []}
NO_NAME = ""
LONG_NAME = "n" * 250
NOW_MS = int(time.time() * 1000)


# ---------------------------------------------------------------- requests

class Request:
    """The values of a request, made for a system and a version, with a text to know it by."""

    def __init__(self, text, make):
        self.text, self.make = text, make

    def __call__(self, system, version):
        return self.make(system, version)


def short(value):
    """An argument as it stands in the text of a request."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return getattr(value, "__name__", value) if callable(value) else value


def described(maker):
    """Gives what a maker of requests returns its name and arguments as text."""
    def make(*args, **options):
        words = [str(short(value)) for value in args]
        words += [f"{key}={short(value)}" for key, value in options.items()]
        return Request(f"{maker.__name__}({', '.join(words)[:120]})", maker(*args, **options))
    return make


@described
def create(name, partitions=1, factor=1, validate_only=False, assignments=(), configs=()):
    """CreateTopics of one topic. `%` in its name is the version."""
    return lambda system, version: {
        "topics": [creatable(name, partitions, factor, assignments, configs, version)],
        "timeout_ms": 10000, "validate_only": validate_only}


def creatable(name, partitions=1, factor=1, assignments=(), configs=(), version=0):
    return {"name": name.replace("%", str(version)), "num_partitions": partitions,
            "replication_factor": factor,
            "assignments": [{"partition_index": index, "broker_ids": list(brokers)}
                            for index, brokers in assignments],
            "configs": [{"name": key, "value": value} for key, value in configs]}


def topic(name, partitions=1, configs=()):
    """The steps that make a topic a case can use. Its records are old, and stay all the same."""
    if "retention.ms" not in dict(configs):
        configs = [*configs, ("retention.ms", "-1")]
    return [("CreateTopics", "4", create(name, partitions, configs=configs)),
            ("settle", name, partitions)]


@described
def delete(*names, ids=()):
    """DeleteTopics by name, from version 6 on by id as well."""
    def values(system, version):
        plain = [name.replace("%", str(version)) for name in names]
        states = [{"name": name, "topic_id": bytes(16)} for name in plain]
        states += [{"name": None, "topic_id": system.topic_id(name)} for name in ids]
        return {"topic_names": plain, "topics": states, "timeout_ms": 10000}
    return values


def grow(name, count, assignments=None, validate_only=False):
    return {"topics": [{"name": name, "count": count, "assignments": assignments if
                        assignments is None else [{"broker_ids": ids} for ids in assignments]}],
            "timeout_ms": 10000, "validate_only": validate_only}


def by_topic(system, version, name, by_id_from, field="topic"):
    return ({"topic_id": system.topic_id(name)} if version >= by_id_from else {field: name})


@described
def produce(name, records, partition=0, acks=-1, transactional_id=None, more=()):
    """Produce of one batch, or of several: `more` is a list of (topic, partition, records)."""
    def values(system, version):
        topics = []
        for one, index, data in [(name, partition, records), *more]:
            data = data(system) if callable(data) else data
            topics.append({**by_topic(system, version, one, 13, "name"),
                           "partition_data": [{"index": index, "records": data}]})
        return {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 10000,
                "topic_data": topics}
    return values


def sequenced(producer, epoch, sequence, count=1):
    """A batch of an idempotent producer, for produce()."""
    def make(system):
        return batch([b"v"] * count, producer_id=system.producer(producer), epoch=epoch,
                     sequence=sequence)
    make.__name__ = f"{producer} epoch {epoch} sequence {sequence} x {count}"
    return make


def plain(text, make):
    """A request that no maker is for."""
    return Request(text, make)


@described
def fetch(name, offset=0, partition=0, epoch=None, last_epoch=None, wait_ms=0, min_bytes=1,
          max_bytes=1 << 20, partition_bytes=1 << 20, isolation=0, session=(0, -1), more=(),
          forgotten=(), empty=False):
    """Fetch of one partition; `more` is a list of (topic, partition, offset)."""
    def values(system, version):
        topics = []
        for one, index, at in [(name, partition, offset), *more]:
            part = {"partition": index, "fetch_offset": at, "partition_max_bytes": partition_bytes}
            if version >= 9 and epoch is not None:
                part["current_leader_epoch"] = system.epoch(one, epoch)
            if version >= 12 and last_epoch is not None:
                part["last_fetched_epoch"] = system.epoch(one, last_epoch)
            topics.append({**by_topic(system, version, one, 13), "partitions": [part]})
        return {"max_wait_ms": wait_ms, "min_bytes": min_bytes, "max_bytes": max_bytes,
                "isolation_level": isolation, "session_id": session[0],
                "session_epoch": session[1], "topics": [] if empty else topics,
                "forgotten_topics_data": [{**by_topic(system, version, one, 13),
                                           "partitions": [index]} for one, index in forgotten]}
    return values


@described
def list_offsets(name, *timestamps, partition=0, epoch=None, isolation=0, replica=-1):
    """ListOffsets with one topic entry for each timestamp."""
    def values(system, version):
        parts = [{"partition_index": partition, "timestamp": timestamp}
                 for timestamp in timestamps]
        if version >= 4 and epoch is not None:
            for part in parts:
                part["current_leader_epoch"] = system.epoch(name, epoch)
        return {"replica_id": replica, "isolation_level": isolation, "timeout_ms": 1000,
                "topics": [{"name": name, "partitions": [part]} for part in parts]}
    return values


def each_timestamp(name, *timestamps):
    """One ListOffsets step for each timestamp, in all versions."""
    return [("ListOffsets", "all", list_offsets(name, timestamp)) for timestamp in timestamps]


@described
def metadata(names, create_topics=False, authorized=False, ids=()):
    """Metadata by name, and by id; None asks for all."""
    def values(system, version):
        topics = None if names is None else [{"name": name} for name in names]
        for name in ids:
            topics.append({"name": None, "topic_id": system.topic_id(name)})
        return {"topics": topics, "allow_auto_topic_creation": create_topics,
                "include_cluster_authorized_operations": authorized,
                "include_topic_authorized_operations": authorized}
    return values


def describe(kind, name, keys=None, synonyms=False):
    return {"resources": [{"resource_type": kind, "resource_name": name,
                           "configuration_keys": keys}],
            "include_synonyms": synonyms, "include_documentation": False}


def producer_id(transactional_id=None, timeout_ms=60000, pid=-1, epoch=-1):
    return {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms,
            "producer_id": pid, "producer_epoch": epoch}


def timed(*timestamps):
    """A batch with one record for each timestamp."""
    first = timestamps[0]
    records = b"".join(timed_record(index, at - first) for index, at in enumerate(timestamps))
    whole = bytearray(batch([b""] * len(timestamps), records=records))
    struct.pack_into(">qq", whole, 27, first, max(timestamps))
    return recrc(whole)


def timed_record(index, delta):
    from kafka_wire import zigzag
    body = b"\0" + zigzag(delta) + zigzag(index) + zigzag(-1) + zigzag(1) + b"v" + zigzag(0)
    return zigzag(len(body)) + body


def recrc(whole):
    from kafka_wire import crc32c
    struct.pack_into(">I", whole, 17, crc32c(bytes(whole[21:])))
    return bytes(whole)


def header(key, version, client=b"\0\4test", rest=b""):
    """A request header and what follows it."""
    return struct.pack(">hhi", key, version, 5) + client + rest


# ---------------------------------------------------------------- the table

BATCH = batch([b"one", b"two"])
BIG = batch([b"x" * 2000])
BAD_BATCHES = {
    "empty": b"", "null": None, "short": BATCH[:40], "header-only": BATCH[:61],
    "cut": BATCH[:-1], "trailing": BATCH + b"\0", "two": BATCH + BATCH,
    "crc": batch([b"a"], crc=1), "magic-0": batch([b"a"], magic=0),
    "magic-1": batch([b"a"], magic=1), "magic-3": batch([b"a"], magic=3),
    "length-0": batch([b"a"], length=0), "length-48": batch([b"a"], length=48),
    "length-negative": batch([b"a"], length=-1), "length-huge": batch([b"a"], length=1 << 30),
    "base-offset": batch([b"a"], base_offset=7), "no-records": batch([], records=b""),
    "count-more": batch([b"a"], count=2), "count-less": batch([b"a", b"b"], count=1),
    "count-0": batch([b"a"], count=0), "count-negative": batch([b"a"], count=-1),
    "delta-more": batch([b"a"], last_offset_delta=1),
    "delta-negative": batch([b"a"], last_offset_delta=-1),
    "control": batch([b"a"], attributes=0x20), "log-append-time": batch([b"a"], attributes=8),
    "transactional": batch([b"a"], attributes=0x10),
    "transactional-with-id": batch([b"a"], attributes=0x10, producer_id=1, epoch=0, sequence=0),
    "codec-5": batch([b"a"], attributes=5), "codec-7": batch([b"a"], attributes=7),
    "codec-gzip-of-nothing": batch([b"a"], attributes=1),
    "leader-epoch": batch([b"a"], leader_epoch=77),
    "delete-horizon": batch([b"a"], attributes=0x40), "high-bits": batch([b"a"], attributes=0x7f80),
    "offsets-wrong": batch([b"a", b"b"], records=record(1, None, b"a") + record(0, None, b"b")),
    "record-cut": batch([b"a"], records=record(0, None, b"a")[:-1]),
    "record-long": batch([b"a"], records=b"\x7e" + record(0, None, b"a")[1:]),
    "record-extra": batch([b"a"], records=record(0, None, b"a") + b"\0\0"),
    "sequence-without-id": batch([b"a"], sequence=3),
    "id-without-sequence": batch([b"a"], producer_id=4000, epoch=0),
    "id-without-epoch": batch([b"a"], producer_id=4000, epoch=-1, sequence=0),
}
TIMES = {
    "future": timed(NOW_MS + 2 * 3600 * 1000), "past": timed(1000), "zero": timed(0),
    "none": timed(-1), "negative": timed(-2), "mixed": timed(NOW_MS, NOW_MS + 2 * 3600 * 1000),
    "max-wrong": recrc(bytearray(batch([b"a"])[:35] + struct.pack(">q", NOW_MS) +
                                 batch([b"a"])[43:])),
}
NAMES = (NO_NAME, ".", "..", "a b", "a/b", LONG_NAME, "\u00e4", "ok-name", "dots.name",
         "dots_name", "__consumer_offsets", "__own")

CASES = [
    ("api-versions", [
        ("ApiVersions", "all", SOFTWARE),
        ("ApiVersions", "3-", {"client_software_name": "", "client_software_version": ""}),
        ("ApiVersions", "3-", {"client_software_name": "bad name!",
                               "client_software_version": "1"}),
    ]),
    ("headers", [
        ("raw", "empty frame", b""),
        ("raw", "short header", b"\0\3\0"),
        ("raw", "no client id", header(3, 1, b"\xff\xff", b"\0\0\0\0")),
        ("raw", "cut client id", header(3, 1, b"\0\x09abc")),
        ("raw", "negative client id", header(3, 1, b"\xff\xf0", b"\0\0\0\0")),
        ("raw", "cut body", header(3, 1, rest=b"\0\0")),
        ("raw", "trailing bytes", header(3, 1, rest=b"\0\0\0\0\0\0")),
        ("raw", "null where none may be",
         header(20, 1, rest=b"\xff\xff\xff\xff\0\0\0\1")),
        ("raw", "huge count", header(3, 1, rest=b"\x7f\xff\xff\xff")),
        ("raw", "negative count", header(3, 1, rest=b"\xff\xff\xff\xfe")),
        ("raw", "unknown tags",
         header(3, 9, rest=b"\1\x09\2ab" + b"\1\0\0\0" + b"\1\x30\1z")),
        ("raw", "unknown key", header(999, 0)),
        ("raw", "unknown version", header(3, 99)),
        ("raw", "negative version", header(3, -1, rest=b"\0\0\0\0")),
        ("raw", "produce 2", header(0, 2, rest=b"\0\1\0\0\0\0\0\0\0\0")),
        ("raw", "api versions 77", header(18, 77, rest=b"\0\1\1\0")),
    ]),
    ("metadata", [
        *topic("m-one"), *topic("m-two", 3),
        ("Metadata", "all", metadata(["m-one", "m-two"])),
        ("Metadata", "1-", metadata([])),
        ("Metadata", "4-", metadata(["m-none"])),
        ("Metadata", "4-", metadata(["m-one", "m-one"])),
        ("Metadata", "4-", metadata(["", "a b", LONG_NAME, ".", "m-none"])),
        ("Metadata", "8-", metadata(["m-one"], authorized=True)),
        ("Metadata", "10-", metadata([], ids=["m-one", "no-such"])),
        ("Metadata", "10-", plain("neither name nor id", lambda system, version: {
            "topics": [{"name": None}], "allow_auto_topic_creation": False})),
        ("Metadata", "10-", plain("another topic's id", lambda system, version: {"topics": [
            {"name": "m-two", "topic_id": system.topic_id("m-one")}],
            "allow_auto_topic_creation": False})),
        ("Metadata", "4-", metadata(["bad name", "..", ""], create_topics=True)),
    ]),
    ("metadata-creates", [
        ("Metadata", "4", metadata(["m-made"], create_topics=True)),
        ("settle", "m-made", 1),
        ("Metadata", "4-", metadata(["m-made"], create_topics=True)),
        ("Metadata", "12", metadata(["m.made"], create_topics=True)),
        ("settle", "m.made", 1),
        ("Metadata", "12", metadata(["m_made"], create_topics=True)),
        ("Metadata", "0", metadata(["m-made-by-0"])),
        ("settle", "m-made-by-0", 1),
    ]),
    ("create-topics", [
        ("CreateTopics", "all", create("c-plain-%")),
        ("CreateTopics", "all", create("c-default-%", -1, -1)),
        ("CreateTopics", "all", create("c-validated", validate_only=True)),
        ("CreateTopics", "all", create("c-plain-4")),
        ("CreateTopics", "all", create("c-plain-4", validate_only=True)),
        ("CreateTopics", "4-", create("c-0", 0)),
        ("CreateTopics", "4-", create("c-2", -2)),
        ("CreateTopics", "4-", create("c-f0", 1, 0)),
        ("CreateTopics", "4-", create("c-f2", 1, -2)),
        ("CreateTopics", "4-", create("c-f3", 1, 3)),
        ("CreateTopics", "4-", create("c-many", 1 << 30, 1, True)),
        ("CreateTopics", "4-", create("c-assigned-%", -1, -1, assignments=[(0, [1]), (1, [1])])),
        ("CreateTopics", "4-", create("c-a", 2, 1, assignments=[(0, [1]), (1, [1])])),
        ("CreateTopics", "4-", create("c-a", -1, -1, assignments=[(1, [1])])),
        ("CreateTopics", "4-", create("c-a", -1, -1, assignments=[(0, [1]), (0, [1])])),
        ("CreateTopics", "4-", create("c-a", -1, -1, assignments=[(0, [])])),
        ("CreateTopics", "4-", create("c-a", -1, -1, assignments=[(0, [9])])),
        ("CreateTopics", "4-", create("c-a", -1, -1, assignments=[(0, [1, 1])])),
        ("CreateTopics", "4-", create("c-a", -1, -1, assignments=[(-1, [1])])),
        ("CreateTopics", "7", plain("one name twice", lambda system, version: {"topics": [
            creatable("c-twice"), creatable("c-twice"), creatable("c-once")]})),
        ("CreateTopics", "7", {"topics": []}),
        *[("CreateTopics", "7", create(name, validate_only=True)) for name in NAMES],
        ("CreateTopics", "7", create("c.collides")),
        ("CreateTopics", "7", create("c_collides")),
    ]),
    ("create-topics-configs", [
        ("CreateTopics", "7", create(f"cc-{index}", configs=[pair], validate_only=True))
        for index, pair in enumerate([
            ("retention.ms", "1000"), ("retention.ms", "-1"), ("retention.ms", "-2"),
            ("retention.ms", ""), ("retention.ms", None), ("retention.ms", "1.5"),
            ("retention.ms", " 5 "), ("retention.ms", "+5"), ("retention.bytes", "-2"),
            ("no.such.key", "1"), ("", "1"), ("cleanup.policy", "compact"),
            ("cleanup.policy", "compact,delete"), ("cleanup.policy", "delete, compact"),
            ("cleanup.policy", ""), ("cleanup.policy", "x"), ("cleanup.policy", "delete,delete"),
            ("compression.type", "producer"), ("compression.type", "x"),
            ("compression.gzip.level", "0"), ("compression.gzip.level", "10"),
            ("compression.lz4.level", "0"), ("compression.zstd.level", "23"),
            ("max.message.bytes", "0"), ("max.message.bytes", "-1"),
            ("max.message.bytes", "2147483648"), ("min.insync.replicas", "0"),
            ("min.insync.replicas", "1"), ("min.insync.replicas", "2"),
            ("segment.bytes", "14"), ("segment.bytes", "1048575"), ("segment.bytes", "1048576"),
            ("segment.ms", "0"), ("segment.ms", "1"), ("segment.index.bytes", "3"),
            ("segment.jitter.ms", "-1"), ("message.timestamp.type", "CreateTime"),
            ("message.timestamp.type", "createtime"), ("message.timestamp.type", "x"),
            ("message.timestamp.before.max.ms", "-1"), ("message.timestamp.after.max.ms", "0"),
            ("min.cleanable.dirty.ratio", "0.5"), ("min.cleanable.dirty.ratio", "1.1"),
            ("min.cleanable.dirty.ratio", "-0.1"), ("min.cleanable.dirty.ratio", "nan"),
            ("min.compaction.lag.ms", "-1"), ("max.compaction.lag.ms", "0"),
            ("preallocate", "TRUE"), ("preallocate", "yes"), ("preallocate", ""),
            ("unclean.leader.election.enable", "true"), ("flush.messages", "0"),
            ("flush.ms", "0"), ("delete.retention.ms", "-1"), ("file.delete.delay.ms", "-1"),
            ("index.interval.bytes", "-1"), ("local.retention.ms", "-3"),
            ("local.retention.bytes", "5"), ("remote.storage.enable", "false"),
            ("leader.replication.throttled.replicas", "*"),
            ("leader.replication.throttled.replicas", "0:1,1:1"),
            ("leader.replication.throttled.replicas", "x"),
            ("message.format.version", "3.0"), ("message.downconversion.enable", "true")])
    ] + [
        ("CreateTopics", "all", create("cc-set-%", configs=[("retention.ms", "1000"),
                                                            ("max.message.bytes", "5000")])),
        ("CreateTopics", "7", create("cc-twice", configs=[("retention.ms", "1"),
                                                          ("retention.ms", "2")])),
        ("CreateTopics", "7", create("cc-lag", configs=[("min.compaction.lag.ms", "10"),
                                                        ("max.compaction.lag.ms", "5")])),
    ]),
    ("delete-topics", [
        *[step for version in range(1, 7) for step in topic(f"d-{version}")],
        ("DeleteTopics", "all", delete("d-%")),
        *[("settle", f"d-{version}", 0) for version in range(1, 7)],
        ("DeleteTopics", "all", delete("d-none")),
        ("DeleteTopics", "all", delete("")),
        ("DeleteTopics", "all", delete()),
        *topic("d-id"),
        ("DeleteTopics", "6", delete(ids=["d-id"])),
        ("settle", "d-id", 0),
        ("DeleteTopics", "6", delete(ids=["d-id"])),
        ("DeleteTopics", "6", delete(ids=["never"])),
        ("DeleteTopics", "6", {"topics": [{"name": None, "topic_id": bytes(16)}]}),
        *topic("d-both"), *topic("d-twice"),
        ("DeleteTopics", "6", plain("name and id", lambda system, version: {"topics": [
            {"name": "d-both", "topic_id": system.topic_id("d-both")}]})),
        ("DeleteTopics", "5", delete("d-twice", "d-twice")),
        ("DeleteTopics", "6", delete("d-twice", ids=["d-twice"])),
        ("DeleteTopics", "6", delete(ids=["d-both", "d-both"])),
    ]),
    ("create-partitions", [
        *topic("p-all"), *topic("p-more", 2),
        ("CreatePartitions", "0", grow("p-all", 2)), ("settle", "p-all", 2),
        ("CreatePartitions", "1", grow("p-all", 3)), ("settle", "p-all", 3),
        ("CreatePartitions", "2", grow("p-all", 4)), ("settle", "p-all", 4),
        ("CreatePartitions", "3", grow("p-all", 5)), ("settle", "p-all", 5),
        ("CreatePartitions", "all", grow("p-more", 5, validate_only=True)),
        ("CreatePartitions", "all", grow("p-more", 2)),
        ("CreatePartitions", "all", grow("p-more", 1)),
        ("CreatePartitions", "all", grow("p-more", 0)),
        ("CreatePartitions", "all", grow("p-more", -1)),
        ("CreatePartitions", "all", grow("p-none", 3)),
        ("CreatePartitions", "all", grow("", 3)),
        ("CreatePartitions", "3", grow("p-more", 1 << 30, validate_only=True)),
        ("CreatePartitions", "3", grow("p-more", 4, [[1]])),
        ("CreatePartitions", "3", grow("p-more", 3, [[9]])),
        ("CreatePartitions", "3", grow("p-more", 3, [[]])),
        ("CreatePartitions", "3", grow("p-more", 3, [[1, 1]])),
        ("CreatePartitions", "3", grow("p-more", 3, [])),
        ("CreatePartitions", "3", grow("p-more", 3, [[1]])), ("settle", "p-more", 3),
        ("CreatePartitions", "3", {"topics": [
            {"name": "p-more", "count": 4, "assignments": None},
            {"name": "p-more", "count": 5, "assignments": None}], "timeout_ms": 1000}),
        ("CreatePartitions", "3", {"topics": [], "timeout_ms": 1000}),
    ]),
    ("produce", [
        *topic("w"),
        ("Produce", "all", produce("w", BATCH)),
        ("Produce", "all", produce("w", BATCH, acks=1)),
        ("Produce", "all", produce("w", BATCH, acks=2)),
        ("Produce", "all", produce("w", BATCH, acks=-2)),
        ("Produce", "all", produce("w", BATCH, partition=1)),
        ("Produce", "all", produce("w", BATCH, partition=-1)),
        ("Produce", "all", produce("w-none", BATCH)),
        ("Produce", "9", produce("", BATCH)),
        ("Produce", "3-", {"acks": -1, "timeout_ms": 1000, "topic_data": []}),
        ("Produce", "3", produce("w", BATCH, acks=0), {"no_answer": True}),
        ("Produce", "13", produce("w", BATCH, acks=0), {"no_answer": True}),
        ("Produce", "9", produce("w-none", BATCH, acks=0), {"no_answer": True}),
        ("Produce", "9", produce("w", batch([b"a"], crc=1), acks=0), {"no_answer": True}),
        ("Produce", "13", plain("no id", lambda system, version: {
            "acks": -1, "timeout_ms": 1000, "topic_data": [
                {"topic_id": bytes(16), "partition_data": [{"index": 0, "records": BATCH}]}]})),
        ("Produce", "12-", produce("w", BATCH, more=[("w", 1, BATCH), ("w-none", 0, BATCH)])),
        ("Produce", "12-", produce("w", BATCH, more=[("w", 0, BATCH)])),
        ("Produce", "12", plain("one partition twice", lambda system, version: {
            "acks": -1, "timeout_ms": 0, "topic_data": [{"name": "w", "partition_data": [
                {"index": 0, "records": BATCH}, {"index": 0, "records": BATCH}]}]})),
        ("Produce", "12-", produce("w", BATCH, transactional_id="t")),
        ("Produce", "12-", produce("__consumer_offsets", BATCH)),
        ("ListOffsets", "5", list_offsets("w", -1)),
    ]),
    ("produce-bad-batches", [
        step for name, data in BAD_BATCHES.items() for step in (
            *topic(f"b-{name}"), ("Produce", "3", produce(f"b-{name}", data)),
            ("Produce", "12-13", produce(f"b-{name}", data)), ("Fetch", "12", fetch(f"b-{name}")))
    ]),
    ("produce-times", [
        *topic("t"), *topic("t-bound", configs=[("message.timestamp.before.max.ms", "5000")]),
        *topic("t-append", configs=[("message.timestamp.type", "LogAppendTime")]),
        *[("Produce", "12", produce(name, data)) for data in TIMES.values()
          for name in ("t", "t-bound", "t-append")],
        ("Produce", "all", produce("t-append", BATCH)),
        ("Produce", "12", produce("t-append", batch([b"a"], attributes=8))),
    ]),
    ("produce-sizes", [
        *topic("s", configs=[("max.message.bytes", "1000")]),
        *topic("s-compact", configs=[("cleanup.policy", "compact")]),
        ("Produce", "all", produce("s", BIG)),
        ("Produce", "12", produce("s", batch([b"x" * 1000], crc=1))),
        ("Produce", "12", produce("s", batch([b"x" * (1000 - 61 - 8)]))),
        ("Produce", "12", produce("s", batch([b"x" * (1000 - 61 - 9)]))),
        ("Produce", "12", produce("s", batch([b"x" * (1000 - 61 - 10)]))),
        ("Produce", "12", produce("s-compact", BATCH)),
        ("Produce", "7", produce("s-compact", BATCH)),
        ("Produce", "12", produce("s-compact", batch([b"a", b"b"], key=b"k"))),
        ("Produce", "12", produce("s-compact", batch(
            [b"a", b"b"], records=record(0, b"k", b"a") + record(1, None, b"b")))),
    ]),
    ("produce-insync", [
        *topic("i", configs=[("min.insync.replicas", "2")]),
        ("Produce", "all", produce("i", BATCH)),
        ("Produce", "12", produce("i", batch([b"a"], crc=1))),
        ("Produce", "12", produce("i", BATCH, acks=1)),
    ]),
    ("init-producer-id", [
        ("InitProducerId", "all", producer_id()),
        ("InitProducerId", "all", producer_id(timeout_ms=0)),
        ("InitProducerId", "all", producer_id(timeout_ms=-1)),
        ("InitProducerId", "3-", producer_id(pid=5, epoch=-1)),
        ("InitProducerId", "3-", producer_id(pid=-1, epoch=5)),
        ("InitProducerId", "3-", producer_id(pid=5, epoch=5)),
        ("InitProducerId", "3-", producer_id(pid=-2, epoch=-2)),
        ("InitProducerId", "all", producer_id("")),
    ]),
    ("idempotence", [
        *topic("e", 2),
        ("InitProducerId", "4", producer_id(), {"producer": "p"}),
        ("Produce", "12", produce("e", sequenced("p", 0, 5))),
        ("Produce", "12", produce("e", sequenced("p", 0, 0))),
        ("Produce", "12", produce("e", sequenced("p", 0, 0))),
        ("Produce", "3", produce("e", sequenced("p", 0, 0))),
        ("Produce", "12", produce("e", sequenced("p", 0, 2))),
        ("Produce", "12", produce("e", sequenced("p", 0, 1, 3))),
        ("Produce", "12", produce("e", sequenced("p", 0, 1, 3))),
        ("Produce", "12", produce("e", sequenced("p", 0, 1, 2))),
        ("Produce", "12", produce("e", sequenced("p", 0, 3))),
        *[("Produce", "12", produce("e", sequenced("p", 0, sequence))) for sequence in range(4, 9)],
        *[("Produce", "12", produce("e", sequenced("p", 0, sequence)))
          for sequence in (0, 1, 3, 4, 5, 8)],
        ("Produce", "12", produce("e", sequenced("p", 1, 4))),
        ("Produce", "12", produce("e", sequenced("p", 1, 0))),
        ("Produce", "12", produce("e", sequenced("p", 0, 9))),
        ("Produce", "3", produce("e", sequenced("p", 0, 9))),
        ("Produce", "12", produce("e", sequenced("p", 1, 0))),
        ("Produce", "12", produce("e", sequenced("p", 5, 0), partition=1)),
        ("Produce", "12", produce("e", sequenced("p", 5, 1), partition=1, acks=1)),
        ("Produce", "12", produce("e", sequenced("p", 0, (1 << 31) - 2, 2), partition=1)),
        ("Produce", "12", produce("e", sequenced("p", 32767, 0), partition=1)),
        ("Produce", "12", produce("e", sequenced("p", 32767, 5), partition=1)),
        ("InitProducerId", "4", producer_id(), {"producer": "wrap"}),
        ("Produce", "12", produce("e", sequenced("wrap", 0, (1 << 31) - 2, 2))),
        ("Produce", "12", produce("e", sequenced("wrap", 0, 0))),
        ("InitProducerId", "4", producer_id(), {"producer": "late"}),
        ("Produce", "12", produce("e", sequenced("late", 3, 7))),
        ("ListOffsets", "5", list_offsets("e", -1)),
    ]),
    ("fetch", [
        *topic("f", 2), *topic("f-two"),
        ("Produce", "12", produce("f", BATCH)), ("Produce", "12", produce("f", BIG)),
        ("Produce", "12", produce("f", batch([b"last"]))),
        ("Produce", "12", produce("f-two", BATCH)),
        ("Fetch", "all", fetch("f")),
        ("Fetch", "all", fetch("f", 1)),
        ("Fetch", "all", fetch("f", 4)),
        ("Fetch", "all", fetch("f", 5)),
        ("Fetch", "all", fetch("f", -1)),
        ("Fetch", "all", fetch("f", -5)),
        ("Fetch", "all", fetch("f", partition=2)),
        ("Fetch", "all", fetch("f", partition=-1)),
        ("Fetch", "all", fetch("f-none")),
        ("Fetch", "9-", fetch("f", epoch=0)),
        ("Fetch", "9-", fetch("f", epoch=1)),
        ("Fetch", "12-", fetch("f", last_epoch=0)),
        ("Fetch", "12-", fetch("f", 3, last_epoch=0)),
        ("Fetch", "all", fetch("f", isolation=1)),
        ("Fetch", "11-", fetch("f", isolation=2)),
        ("Fetch", "11-", fetch("f", partition_bytes=1)),
        ("Fetch", "11-", fetch("f", partition_bytes=0)),
        ("Fetch", "11-", fetch("f", partition_bytes=-1)),
        ("Fetch", "11-", fetch("f", max_bytes=1)),
        ("Fetch", "11-", fetch("f", max_bytes=0)),
        ("Fetch", "11-", fetch("f", max_bytes=-1)),
        ("Fetch", "11-", fetch("f", max_bytes=200)),
        ("Fetch", "11-", fetch("f", 2, max_bytes=100, more=[("f-two", 0, 0)])),
        ("Fetch", "11-", fetch("f", 0, max_bytes=100, more=[("f-two", 0, 0)])),
        ("Fetch", "11-", fetch("f", 4, more=[("f-two", 0, 0), ("f-none", 0, 0), ("f", 1, 0)])),
        ("Fetch", "11-", fetch("f", 0, more=[("f", 0, 1)])),
        ("Fetch", "11-", fetch("", 0)),
    ]),
    ("fetch-waits", [
        *topic("g", 2), ("Produce", "12", produce("g", BATCH)),
        ("Fetch", "11", fetch("g", 2, wait_ms=400), {"wait_ms": 300}),
        ("Fetch", "11", fetch("g", 0, wait_ms=400), {"wait_ms": 300}),
        ("Fetch", "11", fetch("g", 0, wait_ms=400, min_bytes=5000), {"wait_ms": 300}),
        ("Fetch", "11", fetch("g", 2, wait_ms=400, min_bytes=0), {"wait_ms": 300}),
        ("Fetch", "11", fetch("g", 2, wait_ms=400, min_bytes=-1), {"wait_ms": 300}),
        ("Fetch", "11", fetch("g", 2, wait_ms=-5), {"wait_ms": 300}),
        ("Fetch", "11", fetch("g", 0, wait_ms=400, min_bytes=100, max_bytes=50),
         {"wait_ms": 300}),
        ("Fetch", "11", fetch("g", 0, wait_ms=400, min_bytes=100, partition_bytes=50),
         {"wait_ms": 300}),
        ("Fetch", "11", fetch("g", 9, wait_ms=400), {"wait_ms": 300}),
        ("Fetch", "11", fetch("g-none", wait_ms=400), {"wait_ms": 300}),
        ("Fetch", "13", fetch("g-none", wait_ms=400), {"wait_ms": 300}),
        ("Fetch", "11", fetch("g", 2, wait_ms=400, more=[("g-none", 0, 0)]), {"wait_ms": 300}),
        ("Fetch", "11", fetch("g", empty=True, wait_ms=400), {"wait_ms": 300}),
    ]),
    ("fetch-sessions", [
        *topic("h"), ("Produce", "12", produce("h", BATCH)),
        ("Fetch", "7-", fetch("h", session=(0, -1))),
        ("Fetch", "7-", fetch("h", session=(0, 0))),
        ("Fetch", "7-", fetch("h", session=(0, 1))),
        ("Fetch", "7-", fetch("h", session=(4711, 1))),
        ("Fetch", "7-", fetch("h", session=(4711, 0))),
        ("Fetch", "7-", fetch("h", session=(4711, -1))),
        ("Fetch", "7-", fetch("h", session=(0, -1), forgotten=[("h", 0)])),
    ]),
    ("list-offsets", [
        *topic("l"), *topic("l-empty"),
        ("Produce", "12", produce("l", timed(5000, 7000, 6000))),
        ("Produce", "12", produce("l", timed(6500, 6500))),
        *each_timestamp("l", -1, -2, -3, -4, -5, -6, -7, -100, 0, 4999, 5000, 5001, 6001, 7000,
                        7001, (1 << 63) - 1),
        *each_timestamp("l-empty", -1, -2, -3, -4, -5, -6, 0, 5000),
        ("ListOffsets", "all", list_offsets("l-none", -1)),
        ("ListOffsets", "all", list_offsets("l", -1, partition=1)),
        ("ListOffsets", "all", list_offsets("l", -1, partition=-1)),
        ("ListOffsets", "4-", list_offsets("l", -1, epoch=0)),
        ("ListOffsets", "4-", list_offsets("l", -1, epoch=1)),
        ("ListOffsets", "4-", list_offsets("l", 5000, epoch=1)),
        ("ListOffsets", "all", list_offsets("l", -1, isolation=1)),
        ("ListOffsets", "all", list_offsets("l", -1, -2)),
        ("ListOffsets", "6", list_offsets("", -1)),
        ("ListOffsets", "6-", NOTHING_LISTED),
    ]),
    ("describe-configs", [
        *topic("dc", configs=[("retention.ms", "1000"), ("max.message.bytes", "5000")]),
        ("DescribeConfigs", "all", describe(2, "dc")),
        ("DescribeConfigs", "all", describe(2, "dc", synonyms=True)),
        ("DescribeConfigs", "all", describe(2, "dc", ["retention.ms", "no.such", "segment.bytes"])),
        ("DescribeConfigs", "all", describe(2, "dc", [])),
        ("DescribeConfigs", "all", describe(2, "dc-none")),
        ("DescribeConfigs", "all", describe(2, "")),
        ("DescribeConfigs", "all", describe(2, "a b")),
        ("DescribeConfigs", "4", describe(4, "1", ["num.partitions", "min.insync.replicas",
                                                   "message.max.bytes", "no.such"], True)),
        ("DescribeConfigs", "4", describe(4, "", ["num.partitions"])),
        ("DescribeConfigs", "4", describe(4, "9")),
        ("DescribeConfigs", "4", describe(4, "x")),
        ("DescribeConfigs", "4", describe(0, "dc")),
        ("DescribeConfigs", "4", describe(99, "dc")),
        ("DescribeConfigs", "4", describe(8, "1", ["no.such"])),
        ("DescribeConfigs", "4", {"resources": []}),
    ]),
    ("describe-cluster", [
        ("DescribeCluster", "all", {}),
        ("DescribeCluster", "all", {"include_cluster_authorized_operations": True}),
        ("DescribeCluster", "1-", {"endpoint_type": 2}),
        ("DescribeCluster", "1-", {"endpoint_type": 0}),
        ("DescribeCluster", "1-", {"endpoint_type": 77}),
        ("DescribeCluster", "2-", {"include_fenced_brokers": True}),
    ]),
    ("find-coordinator", [
        ("FindCoordinator", "1-3", {"key": "g", "key_type": 7}),
        ("FindCoordinator", "4-", {"key_type": 7, "coordinator_keys": ["g"]}),
        ("FindCoordinator", "4-", {"key_type": 0, "coordinator_keys": []}),
    ]),
]
