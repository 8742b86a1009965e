#!/usr/bin/env bash
# kcat: produce and consume from the command line, as its manual shows it.
# timeout: 300
. "$(dirname "$0")/../lib/client.sh"
need_command kcat "apt-get install kcat"
compat_start

# kcat ends by itself at the end of the partition (-e); the limit is for a broker that hangs.
produce()
{
    timeout --foreground 60 kcat -P -b "$COMPAT_BOOTSTRAP" -X message.timeout.ms=20000 -p 0 "$@"
}

# consume_from <offset> [kcat arguments...]
consume_from()
{
    local offset=$1
    shift
    timeout --foreground 60 kcat -C -q -e -b "$COMPAT_BOOTSTRAP" -X check.crcs=true -p 0 \
        -o "$offset" "$@"
}

# query <topic:partition:time>: the first offset at or after that time.
query()
{
    timeout --foreground 30 kcat -Q -b "$COMPAT_BOOTSTRAP" -t "$1"
}

consume()
{
    consume_from beginning "$@"
}

# same <expected> <got>: compares two strings and shows how they differ.
same()
{
    [ "$1" = "$2" ] || fail "expected '${1:0:80}', got '${2:0:80}'"
}

metadata()
{
    timeout --foreground 30 kcat -L -b "$COMPAT_BOOTSTRAP" | tee "$TWINLOG_TMP/metadata"
    grep -q " broker .* at $COMPAT_BOOTSTRAP" "$TWINLOG_TMP/metadata" ||
        fail "the broker is not in its own metadata"
}

produce_consume()
{
    seq 1 1000 | produce -t kcat-plain
    same "$(seq 1 1000)" "$(consume -t kcat-plain)"
    same "kcat-plain [0] offset 1000" "$(query kcat-plain:0:-1)"
}

consume_from_offset()
{
    same "$(seq 991 1000)" "$(consume_from 990 -t kcat-plain)"
    same "$(seq 996 1000)" "$(consume_from -5 -t kcat-plain)"
}

# Lines that compress even one at a time: librdkafka sends a batch plain when there is no gain.
codec()
{
    local lines
    lines=$(seq -f '%0100.0f' 1 2000)
    produce -t "kcat-$1" -z "$1" -X linger.ms=50 <<<"$lines"
    same "$lines" "$(consume -t "kcat-$1")"
    stored_as "kcat-$1" "$1"
}

# The topic's codec is not the producer's: consumers get the same lines, the files hold the former.
recompressed()
{
    local lines
    "$COMPAT_KAFKA/install" >/dev/null 2>&1 ||
        { echo "kcat cannot create a topic with a codec, and there is no kafka-topics"; exit 77; }
    lines=$(seq -f '%0100.0f' 1 2000)
    kafka-topics --bootstrap-server "$COMPAT_BOOTSTRAP" --create --topic "kcat-to-$1" \
        --partitions 1 --config "compression.type=$2"
    produce -t "kcat-to-$1" -z lz4 -X linger.ms=50 <<<"$lines"
    same "$lines" "$(consume -t "kcat-to-$1")"
    stored_as "kcat-to-$1" "$1"
}

headers()
{
    echo value | produce -t kcat-headers -H a=1 -H empty= -H a=2
    same "a=1,empty=,a=2 value" "$(consume -t kcat-headers -f '%h %s\n')"
}

# With -Z an empty key or value is sent as null, which kcat shows as length -1.
nulls()
{
    printf '%s\n' key1: :value2 : | produce -t kcat-nulls -K : -Z
    same "$(printf '%s\n' '4 -1' '-1 6' '-1 -1')" "$(consume -t kcat-nulls -f '%K %S\n')"
}

# one_file <topic> <size> [kcat arguments...]: the file is one record.
one_file()
{
    local topic=$1 size=$2
    shift 2
    head -c "$size" /dev/urandom >"$TWINLOG_TMP/large"
    produce -t "$topic" "$@" "$TWINLOG_TMP/large"
    consume -t "$topic" -f '%s' >"$TWINLOG_TMP/large.got"
    cmp "$TWINLOG_TMP/large" "$TWINLOG_TMP/large.got"
}

large_8mb()
{
    "$COMPAT_KAFKA/install" >/dev/null 2>&1 ||
        { echo "kcat cannot raise a topic's limit, and there is no kafka-topics"; exit 77; }
    kafka-topics --bootstrap-server "$COMPAT_BOOTSTRAP" --create --topic kcat-8mb --partitions 1 \
        --config max.message.bytes=9000000
    one_file kcat-8mb 8000000 -X message.max.bytes=9000000
}

timestamps()
{
    local before after got
    before=$(date +%s%3N)
    echo now | produce -t kcat-timestamps
    after=$(date +%s%3N)
    got=$(consume -t kcat-timestamps -f '%T\n')
    [ "$got" -ge "$before" ] && [ "$got" -le "$after" ] ||
        fail "timestamp $got is outside $before..$after"
}

offsets_by_time()
{
    local middle
    seq 1 5 | produce -t kcat-times
    sleep 0.05
    middle=$(date +%s%3N)
    sleep 0.05
    seq 6 10 | produce -t kcat-times
    same "kcat-times [0] offset 5" "$(query "kcat-times:0:$middle")"
    same "kcat-times [0] offset 0" "$(query kcat-times:0:-2)"
    same "$(seq 6 10)" "$(consume_from "s@$middle" -t kcat-times)"
}

acks()
{
    seq 1 200 | produce -t "kcat-acks-$1" -X "acks=$1"
    # With acks=0 kcat may be gone before the broker has appended; nothing tells it when.
    [ "$1" != 0 ] || sleep 1
    same "$(seq 1 200)" "$(consume -t "kcat-acks-$1")"
}

idempotence()
{
    seq 1 500 | produce -t kcat-idempotence -X enable.idempotence=true
    same "$(seq 1 500)" "$(consume -t kcat-idempotence)"
    stored_by_producer kcat-idempotence
}

feature metadata metadata
feature produce-consume produce_consume
feature consume-from-offset consume_from_offset
for codec in gzip snappy lz4 zstd; do
    feature "$codec" codec "$codec"
done
feature lz4-to-uncompressed recompressed none uncompressed
for codec in gzip snappy zstd; do
    feature "lz4-to-$codec" recompressed "$codec" "$codec"
done
feature headers headers
feature null-key-value nulls
feature 900kb one_file kcat-900kb 900000
feature 8mb large_8mb
feature timestamps timestamps
feature offsets-by-time offsets_by_time
feature acks-0 acks 0
feature acks-1 acks 1
feature acks-all acks all
feature idempotence idempotence
compat_end
