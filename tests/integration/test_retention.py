#!/usr/bin/env python3
# timeout: 180
"""Retention of a running broker: limits changed at run time delete segment files, the earliest
offset moves, who reads below it is told so, and a kill -9 and a restart bring nothing back."""
import glob
import os
import sys

from kafka_wire import Wire, batch, batches, fetch_request, partition_of, produce_request, values_of
from twinlog_test import Broker, check, check_equal, wait_until

TOPIC = "aging"
TOPIC_RESOURCE = 2
SET = 0
DELETE = 1
EARLIEST = -2
LATEST = -1
OFFSET_OUT_OF_RANGE = 1
MIB = 1 << 20
VALUE_SIZE = 50000
SETTINGS = {
    "twinlog.journal.size": str(32 << 20),
    "log.segment.bytes": str(MIB),
    "log.retention.check.interval.ms": "200",
    "twinlog.checkpoint.idle.ms": "300",
}


def value(number):
    """What record `number` holds."""
    return f"{number:08d}".encode() * (VALUE_SIZE // 8)


def produce(wire, client, first, count):
    for number in range(first, first + count):
        request = produce_request(TOPIC, batch([value(number)]))
        answer = partition_of(wire.call(client, "Produce", 9, request))
        check_equal((answer["error_code"], answer["base_offset"]), (0, number), "produce")


def offset_at(wire, client, timestamp):
    answer = wire.call(client, "ListOffsets", 7, {"replica_id": -1, "topics": [
        {"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]})
    partition = answer["topics"][0]["partitions"][0]
    check_equal(partition["error_code"], 0, "error of ListOffsets")
    return partition["offset"]


def alter(wire, client, name, operation, text):
    answer = wire.call(client, "IncrementalAlterConfigs", 1, {"resources": [
        {"resource_type": TOPIC_RESOURCE, "resource_name": TOPIC,
         "configs": [{"name": name, "config_operation": operation, "value": text}]}]})
    check_equal(answer["responses"][0]["error_code"], 0, f"error of setting {name}")


def check_records(wire, client, first, end):
    """All records from `first` on are there, and no other."""
    offset = first
    while offset < end:
        answer = partition_of(wire.call(client, "Fetch", 11, fetch_request(TOPIC, offset)))
        check_equal(answer["error_code"], 0, f"error of Fetch at {offset}")
        for _, _, data in batches(answer["records"]):
            for at, found in values_of(data):
                check_equal(at, offset, "offset")
                check(found == value(at), f"record {at} holds what was produced")
                offset += 1
    check_equal(offset, end, "end of the log")


def check_out_of_range(wire, client, offset, log_start):
    answer = partition_of(wire.call(client, "Fetch", 11, fetch_request(TOPIC, offset)))
    check_equal(answer["error_code"], OFFSET_OUT_OF_RANGE, f"error of Fetch at {offset}")
    check_equal(offset_at(wire, client, EARLIEST), log_start, "earliest offset")


def segments(broker):
    """{base offset: size} of the files that are there."""
    found = {}
    for path in glob.glob(os.path.join(broker.data, f"{TOPIC}-0", "*.log")):
        try:
            found[int(os.path.basename(path)[:-4])] = os.path.getsize(path)
        except FileNotFoundError:
            pass  # It went in between.
    return found


def restarted(broker, wire, how):
    """After kill -9 or a clean end, the log starts and ends where it did."""
    with broker.connect() as client:
        before = [offset_at(wire, client, end) for end in (EARLIEST, LATEST)]
    how()
    broker.start()
    client = broker.connect()
    check_equal([offset_at(wire, client, end) for end in (EARLIEST, LATEST)], before,
                "earliest and latest offset after a start")
    return client


def run(broker, wire):
    count = 120
    with broker.connect() as client:
        wire.call(client, "CreateTopics", 5, {"topics": [
            {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 10000})
        produce(wire, client, 0, count)
        wait_until(lambda: len(segments(broker)) >= 5, 20, "the records are in segment files")
        check_equal(offset_at(wire, client, EARLIEST), 0, "earliest offset without a limit")

        alter(wire, client, "retention.bytes", SET, str(2 * MIB))
        first = wait_until(lambda: offset_at(wire, client, EARLIEST), 20, "the log start moves")
        wait_until(lambda: min(segments(broker)) == first, 20, "the files below it go")
        check_out_of_range(wire, client, 0, first)
        check_out_of_range(wire, client, first - 1, first)
        check_records(wire, client, first, count)
        size = sum(segments(broker).values())
        check(2 * MIB <= size < 3 * MIB, f"{size} bytes are left of retention.bytes={2 * MIB}")

    with restarted(broker, wire, broker.kill) as client:
        check_out_of_range(wire, client, first - 1, first)
        check_records(wire, client, first, count)
        alter(wire, client, "retention.bytes", DELETE, None)
        alter(wire, client, "retention.ms", SET, "1000")
        wait_until(lambda: offset_at(wire, client, EARLIEST) == count, 20, "all records go")
        wait_until(lambda: segments(broker) == {count: 0}, 20, "the active segment goes, too")
        check_out_of_range(wire, client, first, count)

    with restarted(broker, wire, broker.kill) as client:
        alter(wire, client, "retention.ms", DELETE, None)
        produce(wire, client, count, 10)
        check_records(wire, client, count, count + 10)
    with restarted(broker, wire, broker.stop) as client:
        check_out_of_range(wire, client, count - 1, count)
        check_records(wire, client, count, count + 10)


def main():
    wire = Wire()
    with Broker(SETTINGS) as broker:
        run(broker, wire)
    return 0


if __name__ == "__main__":
    sys.exit(main())
