#!/usr/bin/env bash
# librdkafka, the C client under most languages' bindings: a program built here, against whatever
# version this machine has.
# timeout: 300
. "$(dirname "$0")/../lib/client.sh"
need_command cc "apt-get install gcc"
need_command pkg-config "apt-get install pkg-config"
pkg-config --exists rdkafka || compat_skip "no librdkafka: apt-get install librdkafka-dev"
compat_start

# shellcheck disable=SC2046
cc -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 -g -o "$TWINLOG_TMP/roundtrip" \
    "$COMPAT_HERE/roundtrip.c" "$COMPAT_HERE/client.c" $(pkg-config --cflags --libs rdkafka) ||
    compat_die "the program does not build"

codecs_on_disk()
{
    for codec in gzip snappy lz4 zstd none; do
        stored_as "rdkafka-$codec" "$codec"
    done
}

program "$TWINLOG_TMP/roundtrip" "$COMPAT_BOOTSTRAP"
feature stored-codecs codecs_on_disk
feature stored-producer-id stored_by_producer rdkafka-idempotence
compat_end
