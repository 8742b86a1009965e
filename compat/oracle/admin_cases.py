"""More of the script, in the form of cases.py: settings, sessions, and what administrators ask."""
import gzip

from cases import (BATCH, NOTHING_LISTED, creatable, delete, describe, fetch, list_offsets, plain,
                   produce, recrc, sequenced, producer_id, timed, timed_record, topic)
from kafka_wire import batch

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
POLICY = "cleanup.policy"


def alter(kind, name, *settings, validate_only=False):
    """AlterConfigs of one resource: (key, value)..."""
    return {"validate_only": validate_only, "resources": [
        {"resource_type": kind, "resource_name": name,
         "configs": [{"name": key, "value": value} for key, value in settings]}]}


def change(kind, name, *settings, validate_only=False):
    """IncrementalAlterConfigs of one resource: (key, operation, value)..."""
    return {"validate_only": validate_only, "resources": [
        {"resource_type": kind, "resource_name": name,
         "configs": [{"name": key, "config_operation": operation, "value": value}
                     for key, operation, value in settings]}]}


def twice(request):
    """The same resource a second time."""
    return {**request, "resources": request["resources"] * 2}


def looked_at(api, name, request, versions="all"):
    """Changes a topic, then looks at what it has become."""
    return [(api, versions, request),
            ("DescribeConfigs", "4", describe(TOPIC, name, LOOKED_AT, True))]


LOOKED_AT = [POLICY, "retention.ms", "max.message.bytes", "flush.ms"]

# (what, operation, value) of changes to one key of a topic that has it already or not.
CHANGES = [
    ("retention.ms", SET, "5000"), ("retention.ms", SET, "-2"), ("retention.ms", SET, ""),
    ("retention.ms", SET, None), ("retention.ms", SET, "x"), ("retention.ms", DELETE, None),
    ("retention.ms", DELETE, "5"), ("retention.ms", DELETE, None), ("retention.ms", APPEND, "5"),
    ("retention.ms", SUBTRACT, "5"), ("retention.ms", 4, "5"), ("retention.ms", -1, "5"),
    (POLICY, APPEND, "compact"), (POLICY, APPEND, "compact"), (POLICY, APPEND, "delete,compact"),
    (POLICY, SUBTRACT, "delete"), (POLICY, SUBTRACT, "delete"), (POLICY, APPEND, "x"),
    (POLICY, APPEND, ""), (POLICY, APPEND, None), (POLICY, SUBTRACT, None),
    (POLICY, SUBTRACT, "compact"), (POLICY, APPEND, " delete "), (POLICY, DELETE, None),
    (POLICY, SET, "compact,delete"), (POLICY, SUBTRACT, "compact,delete"), (POLICY, DELETE, ""),
    ("no.such.key", SET, "1"), ("no.such.key", DELETE, None), ("no.such.key", APPEND, "1"),
    ("no.such.key", SUBTRACT, "1"), ("", SET, "1"), ("", DELETE, None),
    ("flush.ms", SET, "7"), ("max.message.bytes", SET, "2147483648"),
    ("max.message.bytes", SET, " 77 "), ("leader.replication.throttled.replicas", APPEND, "0:1"),
    ("leader.replication.throttled.replicas", APPEND, "1:1"),
    ("leader.replication.throttled.replicas", SUBTRACT, "0:1"),
    ("leader.replication.throttled.replicas", APPEND, "x"),
    ("message.format.version", SET, "3.0"), ("segment.bytes", SET, "1"),
]
# Of brokers; each is taken away again, so that no case rests on another.
BROKER_CHANGES = [
    ("log.retention.ms", SET, "5000"), ("message.max.bytes", SET, "2000000"),
    ("message.max.bytes", SET, "x"), ("message.max.bytes", SET, "-1"),
    ("message.max.bytes", APPEND, "1"), ("log.cleanup.policy", APPEND, "compact"),
    ("log.cleanup.policy", SUBTRACT, "delete"), ("log.segment.bytes", SET, "2097152"),
    ("log.message.timestamp.type", SET, "x"), ("node.id", SET, "7"), ("node.id", DELETE, None),
    ("log.dirs", SET, "/x"), ("no.such.key", SET, "1"), ("message.max.bytes", SET, None),
    ("message.max.bytes", 9, "1"), ("auto.create.topics.enable", SET, "false"),
]


def wiped(kind, name, key):
    return ("IncrementalAlterConfigs", "1", change(kind, name, (key, DELETE, None)))


def lengths(name, *partitions, epoch=None, current=None):
    """OffsetForLeaderEpoch; epochs are relative to the topic's own unless they are negative."""
    def values(system, version):
        parts = [{"partition": index,
                  "leader_epoch": epoch if epoch < 0 else system.epoch(name, epoch),
                  "current_leader_epoch": -1 if current is None else system.epoch(name, current)}
                 for index in partitions]
        return {"replica_id": -1, "topics": [{"topic": name, "partitions": parts}]}
    return plain(f"epoch {epoch}, current {current} of {name} {partitions}", values)


def cut(name, *parts):
    """DeleteRecords: (partition, offset)..."""
    return {"timeout_ms": 10000, "topics": [{"name": name, "partitions": [
        {"partition_index": index, "offset": offset} for index, offset in parts]}]}


def page(names, limit=2000, cursor=None):
    return {"topics": [{"name": name} for name in names], "response_partition_limit": limit,
            "cursor": cursor and {"topic_name": cursor[0], "partition_index": cursor[1]}}


def dirs(*topics):
    """DescribeLogDirs: (topic, partitions)..."""
    return {"topics": [{"topic": name, "partitions": list(parts)} for name, parts in topics]}


def producers_of(*topics):
    return {"topics": [{"name": name, "partition_indexes": list(parts)} for name, parts in topics]}


class Session:
    """Fetches of one session, whose id each system gives."""

    def __init__(self, text):
        self.text = text

    def fetch(self, epoch, *topics, forgotten=(), delta=0):
        """A Fetch in the session: (topic, partition, offset)..."""
        def values(system, version):
            head = topics[0] if topics else ("none", 0, 0)
            made = fetch(head[0], head[2], head[1], more=topics[1:], forgotten=forgotten,
                         empty=not topics, session=(0, epoch))(system, version)
            return {**made, "session_id": system.session + delta if epoch else 0}
        return plain(f"{self.text}: epoch {epoch} {topics} forgotten={forgotten} id+{delta}",
                     values)


def session_steps(version):
    s, made = Session(f"session {version}"), {"session": True}
    return [("Fetch", version, values, *options) for values, *options in [
        (s.fetch(0, ("x", 0, 0), ("x", 1, 0)), made),
        (s.fetch(1),), (s.fetch(2, ("x", 0, 2)),), (s.fetch(3),),
        (s.fetch(3),), (s.fetch(9),), (s.fetch(4, delta=1),),
        (s.fetch(4, ("x", 7, 0)),), (s.fetch(5),),
        (s.fetch(6, forgotten=[("x", 7)]),), (s.fetch(7),),
        (s.fetch(8, forgotten=[("x", 5), ("x-none", 0)]),),
        (s.fetch(9, ("x", 0, 0), forgotten=[("x", 0)]),), (s.fetch(10),),
        (s.fetch(11, ("x-none", 0, 0)),), (s.fetch(12),),
        (s.fetch(13, forgotten=[("x", 0), ("x", 1)]),), (s.fetch(14),),
        (s.fetch(-1, ("x", 0, 0)),), (s.fetch(15),)]]


def zipped(*timestamps):
    """A batch with one record for each timestamp, compressed with gzip."""
    first = timestamps[0]
    records = b"".join(timed_record(index, at - first) for index, at in enumerate(timestamps))
    whole = bytearray(batch([b""] * len(timestamps), records=gzip.compress(records),
                            attributes=1))
    whole[27:43] = first.to_bytes(8, "big") + max(timestamps).to_bytes(8, "big")
    return recrc(whole)


CASES = [
    ("incremental-alter-configs", [
        *topic("a"),
        *[step for what in CHANGES
          for step in looked_at("IncrementalAlterConfigs", "a", change(TOPIC, "a", what))],
        *[("IncrementalAlterConfigs", "1", change(TOPIC, "a", what, validate_only=True))
          for what in CHANGES],
        ("DescribeConfigs", "4", describe(TOPIC, "a", LOOKED_AT, True)),
        *looked_at("IncrementalAlterConfigs", "a", change(
            TOPIC, "a", ("retention.ms", SET, "9"), ("flush.ms", SET, "x"))),
        *looked_at("IncrementalAlterConfigs", "a", change(
            TOPIC, "a", ("retention.ms", SET, "9"), ("retention.ms", DELETE, None))),
        *looked_at("IncrementalAlterConfigs", "a", change(TOPIC, "a")),
        ("IncrementalAlterConfigs", "all", twice(change(TOPIC, "a", ("flush.ms", SET, "1")))),
        *[("IncrementalAlterConfigs", "all", change(kind, name, ("flush.ms", SET, "1")))
          for kind, name in [(TOPIC, "a-none"), (TOPIC, ""), (TOPIC, "a b"), (BROKER, "9"),
                             (BROKER, "x"), (LOGGER, "9"), (LOGGER, "x"), (LOGGER, ""),
                             (0, "a"), (1, "a"), (3, "a"), (99, "a"), (-1, "a")]],
        ("IncrementalAlterConfigs", "all", {"resources": [], "validate_only": False}),
        ("IncrementalAlterConfigs", "1", {"validate_only": False, "resources": [
            *change(TOPIC, "a", ("flush.ms", SET, "11"))["resources"],
            *change(TOPIC, "a-none", ("flush.ms", SET, "1"))["resources"]]}),
        ("DescribeConfigs", "4", describe(TOPIC, "a", LOOKED_AT, True)),
    ]),
    ("alter-configs", [
        *topic("aa", configs=[("flush.ms", "5")]),
        *looked_at("AlterConfigs", "aa", alter(TOPIC, "aa", ("retention.ms", "77"))),
        *looked_at("AlterConfigs", "aa", alter(TOPIC, "aa", ("flush.ms", "9"), (POLICY, ""))),
        *looked_at("AlterConfigs", "aa", alter(TOPIC, "aa")),
        *[step for pair in [("retention.ms", "-2"), ("retention.ms", None), ("no.such.key", "1"),
                            ("", "1"), (POLICY, "x"), (POLICY, "compact")]
          for step in looked_at("AlterConfigs", "aa", alter(TOPIC, "aa", pair))],
        *looked_at("AlterConfigs", "aa", alter(TOPIC, "aa", validate_only=True)),
        ("AlterConfigs", "all", alter(TOPIC, "aa", ("flush.ms", "1"), ("flush.ms", "2"))),
        ("AlterConfigs", "all", twice(alter(TOPIC, "aa", ("flush.ms", "1")))),
        *[("AlterConfigs", "all", alter(kind, name, ("flush.ms", "1")))
          for kind, name in [(TOPIC, "aa-none"), (TOPIC, ""), (TOPIC, "a b"), (BROKER, "9"),
                             (BROKER, "x"), (LOGGER, "1"), (0, "a"), (99, "a")]],
    ]),
    ("alter-broker-configs", [
        step for name in ("1", "") for what in BROKER_CHANGES
        for step in [("IncrementalAlterConfigs", "1", change(BROKER, name, what)),
                     *([wiped(BROKER, name, what[0])] if what[0] not in
                       ("node.id", "log.dirs", "no.such.key") else [])]
    ]),
    ("describe-configs-whole", [
        *topic("whole"),
        *[("DescribeConfigs", "all", {**describe(kind, name, None, synonyms),
                                      "include_documentation": documented})
          for kind, name in [(TOPIC, "whole"), (BROKER, "1")]
          for synonyms in (False, True) for documented in (False, True)],
    ]),
    ("delete-records", [
        *topic("r", 2), *[("Produce", "12", produce("r", BATCH)) for _ in range(8)],
        *[("DeleteRecords", "all", cut("r", part)) for part in
          [(0, 0), (0, 3), (0, 2), (0, 17), (0, -2), (1, 0), (1, -1), (2, 0), (-1, 0)]],
        ("DeleteRecords", "all", cut("r-none", (0, 0))),
        ("DeleteRecords", "all", cut("", (0, 0))),
        ("DeleteRecords", "all", cut("r", (0, 4), (0, 5))),
        ("DeleteRecords", "all", cut("r", (0, 6), (1, 1), (9, 0))),
        ("DeleteRecords", "all", cut("r")),
        ("DeleteRecords", "all", {"topics": [], "timeout_ms": 1}),
        ("ListOffsets", "all", list_offsets("r", -2)), ("Fetch", "all", fetch("r", 3)),
        ("Fetch", "12", fetch("r", 6)), ("ListOffsets", "5", list_offsets("r", 0)),
        ("DeleteRecords", "all", cut("r", (0, -1))),
        ("ListOffsets", "all", list_offsets("r", -2)), ("ListOffsets", "all",
                                                        list_offsets("r", 0)),
    ]),
    ("offset-for-leader-epoch", [
        *topic("o", 2), ("Produce", "12", produce("o", BATCH)),
        *[("OffsetForLeaderEpoch", "all", lengths("o", *parts, epoch=epoch, current=current))
          for parts, epoch, current in [
              ((0,), 0, None), ((0,), 0, 0), ((0,), 0, 1), ((0,), 1, None), ((0,), -1, None),
              ((0,), -7, None), ((1,), 0, None), ((7,), 0, None), ((-1,), 0, None),
              ((0, 1), 0, None), ((0, 0), 0, None), ((7,), 0, 1), ((), 0, None)]],
        ("OffsetForLeaderEpoch", "all", lengths("o-none", 0, epoch=0)),
        ("OffsetForLeaderEpoch", "all", {"replica_id": -1, "topics": []}),
    ]),
    ("describe-topic-partitions", [
        *topic("q-a", 3), *topic("q-b", 2),
        *[("DescribeTopicPartitions", "all", page(*what)) for what in [
            (["q-a"],), (["q-b", "q-a"],), (["q-none"],), (["", "a b", "q-a"],), (["q-a"], 1),
            (["q-a", "q-b"], 3), (["q-a", "q-b"], 4), (["q-a", "q-b"], 0), (["q-a", "q-b"], -1),
            (["q-a", "q-b"], 2, ("q-a", 2)), (["q-a", "q-b"], 2, ("q-a", 3)),
            (["q-a", "q-b"], 2, ("q-b", 1)), (["q-a"], 2, ("q-a", -1)), (["q-a"], 2, ("q-b", 0)),
            (["q-a", "q-b"], 9, ("q-aa", 0)), (["q-a", "q-a"],), (["q-a", "q-none", "q-b"], 2),
            (["q-a", "q-none"], 9, ("q-none", 0)), (["q-a"], 9, ("q-zz", 0)),
            (["q-a", "q-none", "q-b"], 3)]],
    ]),
    ("describe-log-dirs", [
        *topic("v", 2), ("Produce", "12", produce("v", BATCH)),
        *[("DescribeLogDirs", "all", dirs(*what)) for what in [
            [("v", [0])], [("v", [0, 1])], [("v", [1, 0])], [("v", [7])], [("v", [0, 7])],
            [("v-none", [0])], [("", [0])], [("v", [])], [("v", [0]), ("v-none", [0])], []]],
    ]),
    ("describe-producers", [
        *topic("z", 2), ("InitProducerId", "4", producer_id(), {"producer": "z"}),
        ("Produce", "12", produce("z", sequenced("z", 0, 0, 2))),
        *[("DescribeProducers", "all", producers_of(*what)) for what in [
            [("z", [0])], [("z", [0, 1])], [("z", [7])], [("z", [-1])], [("z", [])],
            [("z-none", [0])], [("a b", [0])], [("", [0])], [("z", [0]), ("z-none", [0])], []]],
    ]),
    ("fetch-in-sessions", [
        *topic("x", 2), ("Produce", "12", produce("x", BATCH)),
        *[step for version in ("7", "11", "12", "13", "16", "17")
          for step in session_steps(version)],
    ]),
    ("list-offsets-compressed", [
        *topic("lz"), ("Produce", "12", produce("lz", zipped(5000, 7000, 6000))),
        ("Produce", "12", produce("lz", zipped(8000, 7500, 9000))),
        ("Produce", "12", produce("lz", timed(8500, 9500))),
        *[("ListOffsets", "all", list_offsets("lz", at))
          for at in (-3, 0, 5000, 5001, 6500, 7000, 7001, 7600, 8000, 8001, 9000, 9001, 9501)],
        ("DeleteRecords", "2", cut("lz", (0, 2))),
        *[("ListOffsets", "7", list_offsets("lz", at)) for at in (-3, 0, 5000, 6500, 7001)],
    ]),
    ("gone", [
        *topic("gone"), ("DeleteTopics", "6", delete(ids=["gone"])), ("settle", "gone", 0),
        ("Produce", "all", produce("gone", BATCH)), ("Fetch", "all", fetch("gone")),
        ("ListOffsets", "all", list_offsets("gone", -1)),
        ("CreateTopics", "4", {"topics": [creatable("gone")], "timeout_ms": 10000,
                               "validate_only": True}),
        ("ListOffsets", "all", NOTHING_LISTED),
    ]),
]
