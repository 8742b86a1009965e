#!/usr/bin/env python3
# timeout: 120
"""Metrics and health over HTTP: each line is parsed, counters move by as much as was sent,
readiness follows the disk, hostile HTTP disturbs nothing, and the configurations for Prometheus
and Grafana name only metrics that there are."""
import http.client
import json
import os
import re
import socket
import sys

from kafka_wire import Wire, batch, partition_of, produce_request
from twinlog_test import Broker, check, check_equal, free_port, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
LABEL = NAME + r'="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\d+(?:\.\d+)?)")
UNKNOWN_TOPIC = 3
STORAGE_ERROR = 56


def get(port, path, method="GET"):
    """(status, body) of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


def family_of(name, types):
    """The family of a sample, which its HELP and TYPE have announced."""
    if name in types:
        return name
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    check_equal(types.get(base), "histogram", f"type of {name}")
    return base


def check_buckets(samples):
    """Buckets rise, and the last one is the count."""
    last = {}
    for (name, labels), value in samples.items():
        if name.endswith("_bucket"):
            series = (name[:-7], re.sub(r',?le="[^"]*"', "", labels))
            check(value >= last.get(series, 0), f"{name} {labels} falls")
            last[series] = value
    for (name, labels), value in last.items():
        check_equal(samples[(name + "_count", labels)], value, f"{name} {labels}")


def scrape(port):
    """{(name, labels): value}; fails on any line that is not of the format."""
    status, text = get(port, "/metrics")
    check_equal(status, 200, "status of /metrics")
    check(text.endswith("\n"), "the last line ends")
    types, samples, family = {}, {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            check(family not in types, f"{family} stands twice")
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            check_equal(name, family, "TYPE behind HELP")
            check(kind in ("counter", "gauge", "histogram"), line)
            check(kind != "counter" or name.endswith("_total"), line)
            types[name] = kind
        else:
            found = SAMPLE.fullmatch(line)
            check(found, f"no sample: {line}")
            key = (found[1], found[2] or "")
            check_equal(family_of(found[1], types), family, "family")
            check(key not in samples, f"{key} stands twice")
            samples[key] = float(found[3])
    check_buckets(samples)
    return samples


def produce(wire, client, size=100):
    body = produce_request("t", batch([b"x" * size]))
    return partition_of(wire.call(client, "Produce", 9, body))["error_code"]


def test_counters(wire, broker, port):
    with broker.connect() as client:
        wire.call(client, "Metadata", 9, {"topics": [{"name": "t"}]})
        check_equal(produce(wire, client), 0, "error")
        before = scrape(port)
        for _ in range(50):
            check_equal(produce(wire, client), 0, "error")
        after = scrape(port)
    moved = {
        ("twinlog_requests_total", 'api="Produce"'): 50,
        ("twinlog_appended_batches_total", ""): 50,
        ("twinlog_produce_durable_seconds_count", ""): 50,
        ("twinlog_partition_log_end_offset", 'topic="t",partition="0"'): 50,
        ("twinlog_partition_high_watermark", 'topic="t",partition="0"'): 50,
        ("twinlog_requests_total", 'api="Fetch"'): 0,
    }
    for key, count in moved.items():
        check_equal(after[key] - before[key], count, str(key))
    for name in ("twinlog_received_bytes_total", "twinlog_appended_bytes_total"):
        check(after[(name, "")] - before[(name, "")] >= 50 * 100, name)
    check(after[("twinlog_journal_syncs_total", "")] >= before[
        ("twinlog_journal_syncs_total", "")] + 50, "each was synced before the next was sent")
    answered = ("twinlog_request_duration_seconds_count", 'api="Produce"')
    check(49 <= after[answered] - before[answered] <= 51, "answered")
    check_equal(after[("twinlog_disk_full", "")], 0, "disk full")


def test_pages(port):
    check_equal(get(port, "/healthz"), (200, "healthy\n"), "/healthz")
    check_equal(get(port, "/readyz"), (200, "ready\n"), "/readyz")
    check_equal(get(port, "/")[0], 404, "/")
    check_equal(get(port, "/metrics/x")[0], 404, "/metrics/x")
    for method in ("POST", "PUT", "DELETE"):
        check_equal(get(port, "/metrics", method)[0], 405, method)
    check_equal(get(port, "/metrics", "HEAD"), (200, ""), "HEAD")


def test_hostile(wire, broker, port):
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
    for client in slow:
        try:
            client.sendall(b"GET /met")
        except OSError:
            pass  # one too many: closed
    with broker.connect() as client:
        for _ in range(20):
            check_equal(produce(wire, client), 0, "error beside slow clients")
    for client in slow:
        client.close()
    wait_until(lambda: get(port, "/healthz")[0] == 200, 15, "slow clients are gone")
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        answer = b""
        try:
            client.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"y" * (1 << 20) + b"\r\n\r\n")
            answer = client.recv(100)
        except OSError:
            pass  # refused before all of it was sent
        check(b" 200 " not in answer, "a header of 1 MiB is refused")
    scrape(port)


def test_examples(port):
    """config/: each metric that a panel or a rule asks for is in a scrape."""
    names = {name for name, _ in scrape(port)}
    for path in ("grafana-twinlog.json", "prometheus.yml"):
        with open(os.path.join(ROOT, "config", path), encoding="utf-8") as stream:
            text = stream.read()
        used = set(re.findall(r"\b(?:twinlog|process)_[a-z_]+", text))
        check(used <= names, f"{path}: {sorted(used - names)} are in no scrape")
        if path.endswith(".json"):
            expressions = [t["expr"] for panel in json.loads(text)["panels"]
                           for t in panel["targets"]]
            check(len(expressions) >= 6 and all("_" in e for e in expressions), path)


def test_disk_full(wire):
    """A reserve larger than the disk: it is nearly full from the first look on."""
    port = free_port()
    settings = {"twinlog.http.listener": f"127.0.0.1:{port}",
                "twinlog.disk.reserve.size": str(1 << 50),
                "twinlog.checkpoint.idle.ms": "50", "twinlog.journal.size": str(32 << 20)}
    with Broker(settings) as broker, broker.connect() as client:
        wire.call(client, "Metadata", 9, {"topics": [{"name": "t"}]})
        wait_until(lambda: get(port, "/readyz")[0] == 503, 15, "/readyz follows the disk")
        # A topic needs room as well: it may be the one that is missing.
        check(produce(wire, client) in (UNKNOWN_TOPIC, STORAGE_ERROR), "produce is refused")
        status, body = get(port, "/readyz")
        check_equal(status, 503, "/readyz of a full disk")
        check("disk is nearly full" in body, body)
        check_equal(get(port, "/healthz")[0], 200, "/healthz of a full disk")
        check_equal(scrape(port)[("twinlog_disk_full", "")], 1, "twinlog_disk_full")


def test_bad_listener():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for value, words in ((f"127.0.0.1:{port}", ["in use", "free port"]),
                             ("203.0.113.9:9644", ["address of this"]),
                             ("9644", ["address:port"]), ("host.example:9644", ["a name"]),
                             ("127.0.0.1:0", ["address:port"])):
            broker = Broker({"twinlog.http.listener": value, "twinlog.journal.size": str(32 << 20)})
            if "address:port" not in words and "a name" not in words:
                broker.format()
            status, output = broker.command("serve")
            check_equal(status, 1, f"status with {value} ({output})")
            for word in [f"twinlog.http.listener={value}", *words]:
                check(word in output, f"{value}: '{word}' is not in:\n{output}")


def main():
    wire = Wire()
    port = free_port()
    with Broker({"twinlog.http.listener": f"127.0.0.1:{port}",
                 "twinlog.journal.size": str(32 << 20)}) as broker:
        test_counters(wire, broker, port)
        test_pages(port)
        test_hostile(wire, broker, port)
        test_examples(port)
    test_disk_full(wire)
    test_bad_listener()
    return 0


if __name__ == "__main__":
    sys.exit(main())
