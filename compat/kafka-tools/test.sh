#!/usr/bin/env bash
# The command line tools of Kafka 4.2, as an operator calls them.
# timeout: 300
. "$(dirname "$0")/../lib/client.sh"
compat_start
need_kafka_jars
server=(--bootstrap-server "$COMPAT_BOOTSTRAP")

# holds <text> <pattern>: fails, showing the text, when no line matches.
holds()
{
    grep -Eq -- "$2" <<<"$1" || fail "no line matches '$2' in: ${1:0:300}"
}

create_list_describe()
{
    local out
    kafka-topics "${server[@]}" --create --topic tools-a --partitions 3 \
        --config retention.ms=3600000
    out=$(kafka-topics "${server[@]}" --list)
    holds "$out" '^tools-a$'
    out=$(kafka-topics "${server[@]}" --describe --topic tools-a)
    holds "$out" 'PartitionCount: 3'
    holds "$out" 'Configs:.*retention\.ms=3600000'
    holds "$out" 'Partition: 2.*Leader: [0-9]+.*Isr: [0-9]+'
}

create_twice()
{
    local out
    if out=$(kafka-topics "${server[@]}" --create --topic tools-a 2>&1); then
        echo "a second creation of the same topic succeeded"
        return 1
    fi
    holds "$out" "Topic 'tools-a' already exists"
    kafka-topics "${server[@]}" --create --topic tools-a --if-not-exists
}

alter_partitions()
{
    kafka-topics "${server[@]}" --alter --topic tools-a --partitions 5
    holds "$(kafka-topics "${server[@]}" --describe --topic tools-a)" 'PartitionCount: 5'
}

delete()
{
    local tries
    kafka-topics "${server[@]}" --delete --topic tools-a
    for tries in 1 2 3 4 5; do
        kafka-topics "${server[@]}" --list >"$TWINLOG_TMP/list"
        grep -qx tools-a "$TWINLOG_TMP/list" || return 0
    done
    echo "tools-a is still listed after $tries looks"
    return 1
}

# perf <topic> <records> <size> <properties...>
perf()
{
    local topic=$1 records=$2 size=$3 out
    shift 3
    out=$(kafka-producer-perf-test --topic "$topic" --num-records "$records" --record-size "$size" \
        --throughput -1 --producer-props "bootstrap.servers=$COMPAT_BOOTSTRAP" "$@" 2>&1)
    holds "$out" "^$records records sent, "
}

perf_all_acks()
{
    kafka-topics "${server[@]}" --create --topic tools-perf --partitions 4
    perf tools-perf 20000 200 acks=all
    perf tools-perf 5000 200 acks=1 compression.type=lz4
}

# Each line is topic:partition:offset; the partitions together hold what was sent.
get_offsets()
{
    local out
    out=$(kafka-get-offsets "${server[@]}" --topic tools-perf)
    [ "$(wc -l <<<"$out")" = 4 ] || fail "not four partitions: $out"
    [ "$(awk -F: '{ sum += $3 } END { print sum }' <<<"$out")" = 25000 ] ||
        fail "the offsets do not sum up to 25000: $out"
    out=$(kafka-get-offsets "${server[@]}" --topic-partitions tools-perf:0 --time earliest)
    [ "$out" = tools-perf:0:0 ] || fail "earliest: $out"
    out=$(kafka-get-offsets "${server[@]}" --topic-partitions tools-perf:0 --time max-timestamp)
    holds "$out" '^tools-perf:0:[0-9]+$'
}

# A partition and an offset, so no group is joined.
console_consumer()
{
    local out
    perf tools-console 100 20 acks=all
    out=$(kafka-console-consumer "${server[@]}" --topic tools-console --partition 0 \
        --offset earliest --max-messages 100 --timeout-ms 20000)
    [ "$(wc -l <<<"$out")" = 100 ] || { echo "$(wc -l <<<"$out") lines instead of 100"; return 1; }
    [ "$(awk '{ print length }' <<<"$out" | sort -u)" = 20 ] ||
        fail "not 20 characters each"
    kafka-console-consumer "${server[@]}" --topic tools-console --partition 0 --offset 90 \
        --max-messages 10 --timeout-ms 20000 --formatter-property print.offset=true \
        --formatter-property print.timestamp=true >"$TWINLOG_TMP/console"
    [ "$(grep -c '^CreateTime:.*Offset:9[0-9]' "$TWINLOG_TMP/console")" = 10 ] ||
        { head -n 3 "$TWINLOG_TMP/console"; return 1; }
}

feature topics create_list_describe
feature topic-exists create_twice
feature create-partitions alter_partitions
feature topic-delete delete
feature perf-test perf_all_acks
feature get-offsets get_offsets
feature console-consumer console_consumer
compat_end
