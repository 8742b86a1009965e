#!/usr/bin/env bash
# kafka-dump-log: Kafka 4.2 reads the segment and index files the broker left behind.
# timeout: 300
. "$(dirname "$0")/../lib/client.sh"
compat_start
[ -n "$COMPAT_DATA" ] || compat_skip "needs the data directory of a broker it started itself"
need_kafka_jars

CODECS=(none gzip snappy lz4 zstd)
RECORDS=2000
EXPECTED=$((RECORDS * ${#CODECS[@]}))
SEGMENT_BYTES=1048576

# One topic of several segments holds every codec, from an idempotent producer, in a known order.
produce()
{
    local codec
    kafka-topics --bootstrap-server "$COMPAT_BOOTSTRAP" --create --topic dump --partitions 1 \
        --config segment.bytes=$SEGMENT_BYTES
    for codec in "${CODECS[@]}"; do
        kafka-producer-perf-test --topic dump --num-records $RECORDS --record-size 1000 \
            --throughput -1 --producer-props "bootstrap.servers=$COMPAT_BOOTSTRAP" acks=all \
            "compression.type=$codec" linger.ms=20 >"$TWINLOG_TMP/perf"
        grep -q "^$RECORDS records sent" "$TWINLOG_TMP/perf"
    done
}

# A topic whose codec is not the producer's.
produce_recompressed()
{
    kafka-topics --bootstrap-server "$COMPAT_BOOTSTRAP" --create --topic recompressed \
        --partitions 1 --config compression.type=zstd
    kafka-producer-perf-test --topic recompressed --num-records $RECORDS --record-size 1000 \
        --throughput -1 --producer-props "bootstrap.servers=$COMPAT_BOOTSTRAP" acks=all \
        compression.type=lz4 linger.ms=20 >"$TWINLOG_TMP/perf"
    grep -q "^$RECORDS records sent" "$TWINLOG_TMP/perf"
}

# Java reads what was compressed anew: each record once, good CRCs, no batch in another codec.
recompressed()
{
    kafka-dump-log --deep-iteration --files \
        "$COMPAT_DATA/recompressed-0/00000000000000000000.log" >"$TWINLOG_TMP/recompressed"
    grep -o '^| offset: [0-9]*' "$TWINLOG_TMP/recompressed" | awk '{ print $3 }' |
        cmp - <(seq 0 $((RECORDS - 1)))
    grep '^baseOffset:' "$TWINLOG_TMP/recompressed" >"$TWINLOG_TMP/dumped"
    if grep -v 'isvalid: true' "$TWINLOG_TMP/dumped" ||
        grep -v 'compresscodec: zstd ' "$TWINLOG_TMP/dumped"; then
        return 1
    fi
}

files()
{
    local suffix=$1
    find "$COMPAT_DATA/dump-0" -name "*.$suffix" | sort | paste -sd,
}

segments()
{
    local count
    count=$(find "$COMPAT_DATA/dump-0" -name '*.log' | wc -l)
    [ "$count" -ge 3 ] || fail "$count segments of at most $SEGMENT_BYTES bytes"
    find "$COMPAT_DATA/dump-0" -name '*.log' -size +$((SEGMENT_BYTES / 1024))k >"$TWINLOG_TMP/big"
    [ ! -s "$TWINLOG_TMP/big" ] || fail "larger than segment.bytes: $(cat "$TWINLOG_TMP/big")"
}

# Every record is there, once, in order; every batch has a good CRC and each codec occurs.
deep_iteration()
{
    local codec
    kafka-dump-log --deep-iteration --files "$(files log)" >"$TWINLOG_TMP/dump"
    grep -o '^| offset: [0-9]*' "$TWINLOG_TMP/dump" | awk '{ print $3 }' >"$TWINLOG_TMP/offsets"
    seq 0 $((EXPECTED - 1)) | cmp - "$TWINLOG_TMP/offsets" ||
        { echo "$(wc -l <"$TWINLOG_TMP/offsets") records instead of $EXPECTED"; return 1; }
    grep '^baseOffset:' "$TWINLOG_TMP/dump" >"$TWINLOG_TMP/dumped"
    if grep -qv 'isvalid: true' "$TWINLOG_TMP/dumped"; then
        grep -v 'isvalid: true' "$TWINLOG_TMP/dumped"
        return 1
    fi
    for codec in "${CODECS[@]}"; do
        grep -q "compresscodec: $codec " "$TWINLOG_TMP/dumped" ||
            fail "no batch in $codec"
    done
    ! grep -q 'producerId: -1 ' "$TWINLOG_TMP/dumped" ||
        fail "producer ids are missing"
}

# Batches are all there is: bytes behind the last one make the tool print a warning, or fail.
no_trailing_bytes()
{
    kafka-dump-log --files "$(files log)" >"$TWINLOG_TMP/shallow"
    if grep -Ev '^(Dumping |Log starting offset: |baseOffset: )' "$TWINLOG_TMP/shallow"; then
        return 1
    fi
}

sanity()
{
    local count
    count=$(find "$COMPAT_DATA/dump-0" -name '*.log' | wc -l)
    kafka-dump-log --index-sanity-check --files "$(files index),$(files timeindex)" \
        >"$TWINLOG_TMP/sanity" 2>&1
    [ "$(grep -c 'passed sanity check' "$TWINLOG_TMP/sanity")" = $((2 * count)) ] ||
        { echo "$count segments, but: $(tail -n 3 "$TWINLOG_TMP/sanity")"; return 1; }
}

# Verifying an index compares each entry with the log it points into, and prints what does not fit.
index_matches_log()
{
    kafka-dump-log --verify-index-only --files "$(files index),$(files timeindex)" \
        >"$TWINLOG_TMP/index"
    if grep -v '^Dumping ' "$TWINLOG_TMP/index"; then
        return 1
    fi
    kafka-dump-log --files "$(files index)" >"$TWINLOG_TMP/entries"
    grep -q '^offset: [1-9][0-9]* position: [1-9]' "$TWINLOG_TMP/entries" ||
        fail "the offset indexes are empty"
}

# Kafka keeps producer state in .snapshot files; Twinlog in its checkpoint, which covers all
# partitions with one synced write. Nothing of Kafka's reads the former from a running broker.
producer_snapshot()
{
    if [ "$COMPAT_SYSTEM" = twinlog ] && [ -z "$(files snapshot)" ]; then
        echo "producer state is in the checkpoint file, not beside each segment"
        return 77
    fi
    [ -n "$(files snapshot)" ] || fail "there is no .snapshot file"
    kafka-dump-log --files "$(files snapshot)" >"$TWINLOG_TMP/snapshot" 2>&1
    grep -q 'producerId: [0-9]' "$TWINLOG_TMP/snapshot" ||
        fail "$(tail -n 2 "$TWINLOG_TMP/snapshot")"
}

feature produce produce
feature produce-recompressed produce_recompressed
compat_stop || report FAIL clean-stop "the broker did not end with status 0"
feature segments segments
feature deep-iteration deep_iteration
feature recompressed recompressed
feature no-trailing-bytes no_trailing_bytes
feature index-sanity sanity
feature index-matches-log index_matches_log
feature producer-snapshot producer_snapshot
compat_end
