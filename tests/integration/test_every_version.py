#!/usr/bin/env python3
"""Every advertised (key, version) is answered, and the answer is what the schema says, to the last
byte; what is not advertised closes the connection and disturbs nobody."""
import struct
import sys

from kafka_wire import API_VERSIONS, Wire, WireError, batch, fetch_request, produce_request
from twinlog_test import Broker, check, check_equal

TOPIC = "versions"
UNSUPPORTED_VERSION = 35
REFUSED_PRODUCE = (0, 1, 2)  # advertised for old librdkafka, refused as Kafka refuses them

# Contents beyond the defaults; a field that a version lacks is left out.
CONTENTS = {
    "ListOffsets": lambda ids: {"replica_id": -1, "topics": [
        {"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]},
        {"name": "no-such-topic", "partitions": [{"partition_index": 7, "timestamp": -2}]}]},
    "Metadata": lambda ids: {"topics": [{"name": TOPIC}, {"name": "no-such-topic"}],
                             "allow_auto_topic_creation": False},
    "FindCoordinator": lambda ids: {"key": "group", "coordinator_keys": ["group", "other"]},
    "ApiVersions": lambda ids: {"client_software_name": "test", "client_software_version": "1"},
    "CreateTopics": lambda ids: {"topics": [
        {"name": f"made-{ids['serial']}", "num_partitions": 2, "replication_factor": 1,
         "configs": [{"name": "retention.ms", "value": "1000"}]},
        {"name": "bad/name", "num_partitions": 1, "replication_factor": 1}]},
    "DeleteTopics": lambda ids: {"topics": [{"name": "no-such-topic"}, {"topic_id": b"x" * 16}],
                                 "topic_names": ["no-such-topic"], "timeout_ms": 1000},
    "InitProducerId": lambda ids: {"transactional_id": None, "transaction_timeout_ms": 60000},
    "DescribeConfigs": lambda ids: {"include_synonyms": True, "include_documentation": True,
                                    "resources": [
                                        {"resource_type": 2, "resource_name": TOPIC,
                                         "configuration_keys": None},
                                        {"resource_type": 4, "resource_name": "1",
                                         "configuration_keys": None},
                                        {"resource_type": 2, "resource_name": "no-such-topic",
                                         "configuration_keys": ["retention.ms"]}]},
    "AlterConfigs": lambda ids: {"resources": [
        {"resource_type": 2, "resource_name": TOPIC,
         "configs": [{"name": "retention.ms", "value": "3600000"}]},
        {"resource_type": 2, "resource_name": "no-such-topic"}]},
    "IncrementalAlterConfigs": lambda ids: {"resources": [
        {"resource_type": 2, "resource_name": TOPIC,
         "configs": [{"name": "cleanup.policy", "config_operation": 2, "value": "delete"}]},
        {"resource_type": 2, "resource_name": "no-such-topic"}]},
    "DescribeLogDirs": lambda ids: {"topics": [{"topic": TOPIC, "partitions": [0]},
                                               {"topic": "no-such-topic", "partitions": [0]}]},
    "DescribeProducers": lambda ids: {"topics": [{"name": TOPIC, "partition_indexes": [0]},
                                                 {"name": "x", "partition_indexes": [0]}]},
    "DescribeTopicPartitions": lambda ids: {"topics": [{"name": TOPIC}, {"name": "x"}],
                                            "response_partition_limit": 2000},
    "DeleteRecords": lambda ids: {"topics": [
        {"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]},
        {"name": "x", "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 1000},
    "OffsetForLeaderEpoch": lambda ids: {"replica_id": -1, "topics": [
        {"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]},
        {"topic": "x", "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
    "CreatePartitions": lambda ids: {"topics": [{"name": TOPIC, "count": ids["serial"] + 10,
                                                 "assignments": None},
                                                {"name": "no-such-topic", "count": 2,
                                                 "assignments": None}], "timeout_ms": 1000},
    "Produce": lambda ids: produce_request(TOPIC, batch([b"value"]), topic_id=ids["by_id"]),
    "Fetch": lambda ids: fetch_request(TOPIC, topic_id=ids["by_id"]),
}


def advertised(wire, client):
    """{key: (min, max)}, and the same from each version of ApiVersions."""
    found = None
    for version in range(5):
        answer = wire.call(client, "ApiVersions", version, {})
        check_equal(answer["error_code"], 0, f"error of ApiVersions {version}")
        keys = {item["api_key"]: (item["min_version"], item["max_version"])
                for item in answer["api_keys"]}
        check(found in (None, keys), f"ApiVersions {version} tells something else than before")
        found = keys
    return found


def test_every_version(wire, broker, keys):
    """Sends each with its contents, then with nothing but defaults."""
    with broker.connect() as client:
        answer = wire.call(client, "Metadata", 12, {"topics": [{"name": TOPIC}]})
        topic_id = answer["topics"][0]["topic_id"]
        check(topic_id != bytes(16), "a topic has an id")
        count = 0
        for key, (low, high) in sorted(keys.items()):
            name = wire.by_key[key]["name"]
            for version in range(low, high + 1):
                if name == "Produce" and version in REFUSED_PRODUCE:
                    continue
                count += 1
                ids = {"serial": count, "by_id": topic_id if (name, version) >= (name, 13) and
                       name in ("Produce", "Fetch") else None}
                contents = CONTENTS.get(name, lambda _: {})(ids)
                # Nothing but defaults, where acks=0 would ask for no answer.
                bare = {"acks": 1} if name == "Produce" else {}
                for values in (contents, bare):
                    try:
                        answer = wire.call(client, name, version, values)
                    except (WireError, EOFError, OSError) as error:
                        check(False, f"{name} {version} with {values}: {error!r}")
                    if values is contents:
                        check_answer(name, version, answer)
        print(f"{count} versions of {len(keys)} APIs answered")
        return count


def check_answer(name, version, answer):
    """Beyond the shape, that the answer is about what was asked."""
    what = f"{name} {version}"
    if name in ("Produce", "Fetch"):
        topic = answer["responses"][0]
        part = topic["partition_responses" if name == "Produce" else "partitions"][0]
        check_equal(part["error_code"], 0, f"error of {what}")
    elif name == "ListOffsets":
        check_equal([t["partitions"][0]["error_code"] for t in answer["topics"]], [0, 3], what)
    elif name == "Metadata":
        # Version 0 to 3 have no flag: Kafka creates the topic then.
        check_equal({t["name"] for t in answer["topics"]}, {TOPIC, "no-such-topic"}, what)
    elif name == "CreateTopics":
        check_equal([t["error_code"] for t in answer["topics"]], [0, 17], what)
    elif name == "InitProducerId":
        check(answer["error_code"] == 0 and answer["producer_id"] >= 0, f"{what}: {answer}")
    elif name == "DescribeConfigs":
        check_equal(len(answer["results"]), 3, f"results of {what}")
        check(len(answer["results"][0]["configs"]) > 5, f"{what}: few configs")
    elif name == "CreatePartitions":
        check_equal(answer["results"][0]["error_code"], 0, what)
    elif name in ("AlterConfigs", "IncrementalAlterConfigs"):
        check_equal([r["error_code"] for r in answer["responses"]], [0, 3], what)
    elif name == "DescribeLogDirs":
        check_equal([t["name"] for t in answer["results"][0]["topics"]], [TOPIC], what)
    elif name in ("DeleteRecords", "OffsetForLeaderEpoch"):
        check_equal([t["partitions"][0]["error_code"] for t in answer["topics"]], [0, 3], what)
    elif name == "DescribeProducers":
        check_equal([t["partitions"][0]["error_code"] for t in answer["topics"]], [0, 3], what)
    elif name == "DescribeTopicPartitions":
        check_equal([t["error_code"] for t in answer["topics"]], [0, 3], what)
    elif name == "DeleteTopics":
        check_equal(len(answer["responses"]), 2 if version >= 6 else 1, what)


def test_schema_and_broker_agree(wire, keys):
    for key, (low, high) in keys.items():
        check(key in wire.by_key, f"key {key} is advertised but not in the schema")
        api = wire.by_key[key]
        check(low >= api["advertised"][0] and high <= api["versions"][1],
              f"{api['name']}: {low}-{high} advertised, schema {api['advertised']}")
    check_equal(keys[0][0], 0, "lowest advertised version of Produce (KAFKA-18659)")


def test_unknown_api_versions(wire, broker, keys):
    """KIP-511: a version 0 answer with the error and the list, and the connection goes on."""
    for version in (5, 99, 32767):
        with broker.connect() as client:
            correlation_id = client.send_request(API_VERSIONS, version, b"\1\1\0", flexible=True)
            answer = wire.response("ApiVersions", 0, client.read_frame(), correlation_id)
            check_equal(answer["error_code"], UNSUPPORTED_VERSION, "error")
            check(any(item["api_key"] == API_VERSIONS for item in answer["api_keys"]),
                  "the answer names the versions of ApiVersions")
            answer = wire.call(client, "ApiVersions", 3, {})
            check_equal(answer["error_code"], 0, "error of a second try")
            check_equal(len(answer["api_keys"]), len(keys), "count of keys")


def test_unknown_is_closed(wire, broker, keys):
    """An unknown key or version closes its connection, and no other."""
    cases = [(key, high + 1) for key, (_, high) in keys.items() if key != API_VERSIONS]
    cases += [(key, low - 1) for key, (low, _) in keys.items() if low > 0]
    cases += [(key, -1) for key in keys if key != API_VERSIONS]
    cases += [(0, version) for version in REFUSED_PRODUCE]
    cases += [(key, 0) for key in (-1, 4, 5, 6, 7, 57, 93, 1000, 32767) if key not in keys]
    with broker.connect() as bystander:
        for key, version in cases:
            with broker.connect() as client:
                client.send_frame(struct.pack(">hhih", key, version, 1, -1) + b"\0" * 40)
                check(client.is_closed(), f"key {key} version {version} closes the connection")
            answer = wire.call(bystander, "Metadata", 9, {"topics": []})
            check(len(answer["brokers"]) == 1, "another connection is served")
    print(f"{len(cases)} unknown keys and versions closed their connection")


def test_headers_are_read_leniently(wire, broker):
    """A null client id, and tagged fields that nobody knows."""
    with broker.connect() as client:
        client.send_frame(struct.pack(">hhih", API_VERSIONS, 0, 5, -1))
        wire.response("ApiVersions", 0, client.read_frame(), 5)
        tags = b"\2\x05\3abc\x64\0"
        client.send_frame(struct.pack(">hhih", 3, 9, 6, -1) + tags + b"\1\0\0\0" + tags)
        answer = wire.response("Metadata", 9, client.read_frame(), 6)
        check_equal(answer["topics"], [], "topics")


def main():
    wire = Wire()
    with Broker() as broker:
        with broker.connect() as client:
            keys = advertised(wire, client)
        test_schema_and_broker_agree(wire, keys)
        test_every_version(wire, broker, keys)
        test_unknown_api_versions(wire, broker, keys)
        test_unknown_is_closed(wire, broker, keys)
        test_headers_are_read_leniently(wire, broker)
    return 0


if __name__ == "__main__":
    sys.exit(main())
