#!/usr/bin/env python3
"""twinlog-bench against a fake broker whose delays, errors and drops are known: it must report the
known truth, and never call a failed run a success."""
# timeout: 180
import json
import os
import socketserver
import struct
import subprocess
import threading
import time

from kafka_wire import Encoder, Wire
from twinlog_test import check, check_equal

BENCH = os.environ["TWINLOG_BENCH"]
PRODUCE, METADATA, CREATE_TOPICS = 0, 3, 19


class Behaviour:
    """What the fake does; one per scenario."""

    def __init__(self, delay=0.0, error_every=0, drop_after=0, stall_at=0, stall=0.0):
        self.delay = delay
        self.error_every = error_every
        self.drop_after = drop_after
        self.stall_at = stall_at
        self.stall = stall
        self.count = 0
        self.lock = threading.Lock()


class Fake(socketserver.BaseRequestHandler):
    """One connection: answers in order, Produce after the delay."""

    def read(self, size):
        data = b""
        while len(data) < size:
            part = self.request.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def handle(self):
        try:
            while True:
                size, = struct.unpack(">i", self.read(4))
                frame = self.read(size)
                key, version, correlation = struct.unpack(">hhi", frame[:8])
                body = self.answer(key, version, frame)
                if body is None:
                    return
                answer = struct.pack(">ib", correlation, 0) + body
                self.request.sendall(struct.pack(">i", len(answer)) + answer)
        except (EOFError, OSError):
            return

    def answer(self, key, version, frame):
        if key == CREATE_TOPICS:
            return encode("CreateTopics", version, {"topics": [{"name": "twinlog-bench"}]})
        if key == METADATA:
            partitions = [{"partition_index": i, "leader_id": 1} for i in range(4)]
            return encode("Metadata", version, {"topics": [
                {"name": "twinlog-bench", "partitions": partitions}]})
        check_equal(key, PRODUCE, "request")
        return self.produce(version)

    def produce(self, version):
        behaviour = self.server.behaviour
        with behaviour.lock:
            behaviour.count += 1
            count = behaviour.count
        if behaviour.drop_after and count > behaviour.drop_after:
            return None
        time.sleep(behaviour.stall if count == behaviour.stall_at else behaviour.delay)
        failed = behaviour.error_every and count % behaviour.error_every == 0
        return encode("Produce", version, {"responses": [{
            "name": "twinlog-bench", "partition_responses": [
                {"index": 0, "error_code": 19 if failed else 0, "base_offset": count}]}]})


WIRE = Wire()


def encode(name, version, values):
    """A response body of the schema."""
    encoder = Encoder(version, WIRE.is_flexible(name, version))
    return encoder.struct(WIRE.apis[name]["response"], values)


def run(behaviour, *arguments):
    """(exit status, result) of a load against a fake that behaves so."""
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Fake) as server:
        server.daemon_threads = True
        server.behaviour = behaviour
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_address[1]}"
        done = subprocess.run([BENCH, "load", "--bootstrap", address, "--json", "-", "--warmup",
                               "0.5", "--duration", "2", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        server.shutdown()
    return done.returncode, json.loads(done.stdout)


def a_known_delay_is_what_it_reports():
    status, result = run(Behaviour(delay=0.020), "--connections", "4", "--partitions", "4")
    check_equal(status, 0, "exit status")
    latency = result["latency_us"]
    check(20000 <= latency["p50"] < 40000, f"p50 {latency['p50']} us of a 20 ms delay")
    check_equal(result["connections_open"], 4, "connections open")
    # Little's law: in flight = rate x latency.
    in_flight = result["requests_per_s"] * latency["mean"] / 1e6
    check(3.5 < in_flight < 4.5, f"{in_flight} in flight of 4 connections")


def in_flight_requests_share_a_connection():
    status, result = run(Behaviour(delay=0.010), "--in-flight", "3")
    check_equal(status, 0, "exit status")
    check(28000 <= result["latency_us"]["p50"] < 60000, "three in line wait for one another")


def an_error_code_is_an_error():
    status, result = run(Behaviour(delay=0.001, error_every=50))
    check_equal(status, 1, "exit status")
    check(result["errors"] >= 5, f"errors {result['errors']}")
    check(result["requests"] > 0, "the others still count")


def a_dropped_connection_fails_the_run():
    status, result = run(Behaviour(delay=0.001, drop_after=300))
    check_equal(status, 1, "exit status")
    check(result["errors"] >= 1 and result["connections_open"] == 0, f"{result}")


def a_stall_is_in_the_maximum_and_an_unanswered_request_at_its_age():
    status, result = run(Behaviour(delay=0.002, stall_at=400, stall=0.5))
    check_equal(status, 0, "exit status")
    check(result["latency_us"]["max"] >= 500000, f"max {result['latency_us']['max']} us")
    status, result = run(Behaviour(delay=0.002, stall_at=400, stall=30))
    check_equal(status, 1, "exit status")
    check_equal(result["unfinished"], 1, "unfinished")
    check(result["latency_us"]["max"] >= 1000000, f"max {result['latency_us']['max']} us")


def the_ceiling_runs_against_its_own_echo_server():
    done = subprocess.run([BENCH, "ceiling", "--connections", "20", "--warmup", "0.2", "--duration",
                           "1", "--json", "-"], stdout=subprocess.PIPE, check=False)
    result = json.loads(done.stdout)
    check_equal(done.returncode, 0, "exit status")
    check(result["requests"] > 100 and result["server_cpu_us_per_request"] > 0, f"{result}")


def wrong_words_are_refused():
    for words in (["load", "--connections", "0"], ["load", "--acks", "2"], ["nonsense"], [],
                  ["load", "--bootstrap", "nowhere"], ["load", "--no-such-option"]):
        done = subprocess.run([BENCH, *words], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, check=False)
        check_equal(done.returncode, 2, f"exit status of {words}")
        check(done.stderr, f"{words} says nothing")


if __name__ == "__main__":
    a_known_delay_is_what_it_reports()
    in_flight_requests_share_a_connection()
    an_error_code_is_an_error()
    a_dropped_connection_fails_the_run()
    a_stall_is_in_the_maximum_and_an_unanswered_request_at_its_age()
    the_ceiling_runs_against_its_own_echo_server()
    wrong_words_are_refused()
