#!/usr/bin/env bash
# kafka-clients 4.2: the Java producer, consumer and admin client, run from the source file.
# timeout: 300
. "$(dirname "$0")/../lib/client.sh"
compat_start
need_kafka_jars

codecs_on_disk()
{
    for codec in gzip snappy lz4 zstd none; do
        stored_as "java-$codec" "$codec"
    done
}

program java -cp "$KAFKA_JARS" -XX:TieredStopAtLevel=1 -Xmx1g \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=error "$COMPAT_HERE/RoundTrip.java" "$COMPAT_BOOTSTRAP"
feature stored-codecs codecs_on_disk
feature stored-producer-id stored_by_producer java-idempotence
compat_end
