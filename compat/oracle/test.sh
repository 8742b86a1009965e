#!/usr/bin/env bash
# One script of requests, sent to this broker and to Apache Kafka: the answers are compared.
# timeout: 600
. "$(dirname "$0")/../lib/client.sh"
compat_start
need_kafka_jars

free_port()
{
    python3 -c \
        'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Kafka against Kafka shows that the comparison itself is sound.
same_answers()
{
    local port same=
    port=$(free_port)
    trap '"$COMPAT_KAFKA/stop" --dir "$TWINLOG_TMP/oracle"' EXIT
    "$COMPAT_KAFKA/start" --dir "$TWINLOG_TMP/oracle" --port "$port" --heap 512m
    [ "$COMPAT_SYSTEM" != kafka ] || same=--same
    python3 "$COMPAT_HERE/oracle.py" --subject "$COMPAT_BOOTSTRAP" --oracle "127.0.0.1:$port" $same
}

feature same-answers same_answers
compat_end
