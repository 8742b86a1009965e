#!/usr/bin/env python3
# timeout: 120
"""Idempotent producers over the wire: what Kafka 4.2 answers to a repeated, a missing and a fenced
batch, before and after a kill -9, and that a producer that was silent for long is forgotten."""
import sys

from kafka_wire import Wire, batch, partition_of, produce_request
from twinlog_test import Broker, check, check_equal, wait_until

TOPIC = "idempotent"
FORGETFUL = {"producer.id.expiration.check.interval.ms": "200"}
TIMESTAMP = 1700000000000  # of every batch that kafka_wire makes: long past its time
NONE = 0
INVALID_REQUEST = 42
OUT_OF_ORDER = 45
INVALID_EPOCH = 47
LAST = 2**31 - 1

# (epoch, sequence, records, error, base offset), in the order in which they are sent
SCRIPT = [
    (0, LAST - 1, 1, NONE, 0),  # Not known yet: any sequence.
    (0, LAST, 3, NONE, 1),  # Spans the wrap.
    (0, 2, 1, NONE, 4),
    (0, LAST, 3, NONE, 1),  # Repeated.
    (0, LAST, 2, OUT_OF_ORDER, None),  # The same start, another size.
    (0, 4, 1, OUT_OF_ORDER, None),
    (2, 1, 1, OUT_OF_ORDER, None),
    (2, 0, 1, NONE, 5),
    (1, 0, 1, INVALID_EPOCH, None),
    (0, 3, 1, INVALID_EPOCH, None),
    (2, 1, 1, NONE, 6),
    (2, 0, 1, NONE, 5),
]
REPEATED = [(2, 0, 1, NONE, 5), (2, 1, 1, NONE, 6), (2, 3, 1, OUT_OF_ORDER, None)]


def send(wire, client, producer_id, step):
    epoch, sequence, count, error, offset = step
    records = batch([b"x"] * count, producer_id=producer_id, epoch=epoch, sequence=sequence)
    answer = partition_of(wire.call(client, "Produce", 9, produce_request(TOPIC, records)))
    check_equal(answer["error_code"], error, f"error of {step}")
    if error == NONE:
        check_equal(answer["base_offset"], offset, f"offset of {step}")
    return answer


def init(wire, client, producer_id=-1, epoch=-1):
    return wire.call(client, "InitProducerId", 4, {
        "transactional_id": None, "transaction_timeout_ms": 60000,
        "producer_id": producer_id, "producer_epoch": epoch})


def active(wire, client):
    answer = wire.call(client, "DescribeProducers", 0, {
        "topics": [{"name": TOPIC, "partition_indexes": [0]}]})
    partition = answer["topics"][0]["partitions"][0]
    check_equal(partition["error_code"], NONE, "error of DescribeProducers")
    return partition["active_producers"]


def create(wire, client):
    wire.call(client, "CreateTopics", 5, {"topics": [
        {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 10000})


def check_ids(wire, client, used):
    """Fresh ids, also for a producer that names the one it has (KIP-360)."""
    for asked in ((-1, -1), (7, 3)):
        answer = init(wire, client, *asked)
        check_equal((answer["error_code"], answer["producer_epoch"]), (NONE, 0), "InitProducerId")
        check(answer["producer_id"] not in used, f"{answer['producer_id']} was given out before")
        used.add(answer["producer_id"])
    for asked in ((7, -1), (-1, 3), (-5, -1)):
        check_equal(init(wire, client, *asked)["error_code"], INVALID_REQUEST, f"error of {asked}")
    return answer["producer_id"]


def check_active(wire, client, producer_id):
    (producer,) = active(wire, client)
    check_equal((producer["producer_id"], producer["producer_epoch"], producer["last_sequence"],
                 producer["last_timestamp"], producer["current_txn_start_offset"]),
                (producer_id, 2, 1, TIMESTAMP, -1), "DescribeProducers")


def run(broker, wire):
    used = set()
    with broker.connect() as client:
        create(wire, client)
        producer_id = check_ids(wire, client, used)
        for number, step in enumerate(SCRIPT):
            answer = send(wire, client, producer_id, step)
            if number == 3:
                check_equal(answer["log_append_time_ms"], TIMESTAMP, "time of a repeated batch")
        check_active(wire, client, producer_id)
    for end in (broker.kill, broker.stop):
        end()
        broker.start()
        with broker.connect() as client:
            check_ids(wire, client, used)
            check_active(wire, client, producer_id)
            for step in REPEATED:
                send(wire, client, producer_id, step)


def run_forgetful(broker, wire):
    with broker.connect() as client:
        create(wire, client)
        send(wire, client, 5, (3, 0, 1, NONE, 0))
        wait_until(lambda: not active(wire, client), 20, "the producer is forgotten")
        send(wire, client, 5, (1, 9, 1, NONE, 1))


def main():
    wire = Wire()
    with Broker() as broker:
        run(broker, wire)
    with Broker(FORGETFUL) as broker:
        run_forgetful(broker, wire)
    return 0


if __name__ == "__main__":
    sys.exit(main())
