#!/usr/bin/env python3
# timeout: 120
"""Connections and requests are bounded as configured; a server.properties of Kafka starts."""
import struct
import time

from twinlog_test import Broker, check, check_equal, wait_until

API_VERSIONS = 18
SMALL = {"twinlog.journal.size": str(32 << 20)}

# What Kafka 4.2 ships as config/server.properties, without its listeners and directories.
KAFKA_FILE = {
    "process.roles": "broker,controller", "controller.quorum.bootstrap.servers": "localhost:9093",
    "controller.listener.names": "CONTROLLER", "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
                                      "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "num.network.threads": "3", "num.io.threads": "8", "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400", "socket.request.max.bytes": "104857600",
    "num.partitions": "1", "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1", "log.retention.hours": "168",
    "log.segment.bytes": "1073741824", "log.retention.check.interval.ms": "300000",
}
NO_MEANING = ("process.roles", "controller.quorum.bootstrap.servers", "num.network.threads",
              "num.io.threads", "socket.send.buffer.bytes")


def is_served(client):
    """Whether the broker answers on this connection."""
    try:
        client.request(API_VERSIONS, 0)
        return True
    except (EOFError, OSError):
        return False


def check_refused_over(settings, allowed):
    """So many connections are served, one more is not, and again one when another has gone."""
    with Broker({**SMALL, **settings}) as broker:
        # The helper's own look whether the broker is up may still be open.
        clients = []
        wait_until(lambda: fills(broker, clients, allowed), 10, f"{allowed} connections")
        check(not is_served(broker.connect(3)), f"connection {allowed + 1} is served: {settings}")
        check(all(is_served(client) for client in clients), "those before it are closed")
        clients.pop().socket.close()
        wait_until(lambda: is_served(broker.connect(3)), 10, "a place that was given back")


def fills(broker, clients, allowed):
    """True when as many connections as are allowed are open and served."""
    while len(clients) < allowed:
        client = broker.connect(3)
        if not is_served(client):
            return False
        clients.append(client)
    return True


def test_request_size():
    with Broker({**SMALL, "socket.request.max.bytes": "4096"}) as broker:
        client = broker.connect()
        client.send_raw(struct.pack(">i", 4097))
        check(client.is_closed(), "a request over socket.request.max.bytes keeps its connection")
        whole = broker.connect()
        whole.send_frame(struct.pack(">hhih", API_VERSIONS, 0, 1, 4084) + b"c" * 4084)
        check_equal(struct.unpack(">i", whole.read_frame()[:4])[0], 1, "answer to 4094 bytes")


def test_idle():
    with Broker({**SMALL, "connections.max.idle.ms": "1000"}) as broker:
        silent, busy = broker.connect(), broker.connect()
        begin = time.monotonic()
        while time.monotonic() < begin + 2.5:
            check(is_served(busy), "a busy connection is closed as idle")
            time.sleep(0.2)
        check(silent.is_closed(3), "a silent connection is kept")


def test_kafka_file():
    with Broker(SMALL) as broker:
        broker.stop()
        broker.configure(**KAFKA_FILE, listeners=f"PLAINTEXT://:{broker.port},CONTROLLER://:9093",
                         **{"advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker.port},"
                                                    "CONTROLLER://localhost:9093"})
        broker.start()
        check(is_served(broker.connect()), "Kafka's own file starts a broker")
        lines = [line for line in broker.trace(200).splitlines() if "no meaning here" in line]
        check_equal(len(lines), 1, f"warnings about settings without meaning: {lines}")
        for name in NO_MEANING:
            check(name in lines[0], f"{name} is not named: {lines[0]}")
        for name in ("listeners", "log.dirs", "num.partitions"):
            check(f" {name}," not in lines[0], f"{name} has a meaning: {lines[0]}")


if __name__ == "__main__":
    check_refused_over({"max.connections": "3"}, 3)
    check_refused_over({"max.connections.per.ip": "2"}, 2)
    test_request_size()
    test_idle()
    test_kafka_file()
    print("limits hold")
