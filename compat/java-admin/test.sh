#!/usr/bin/env bash
# kafka-clients 4.2: the Java admin client, run from the source file.
# timeout: 300
. "$(dirname "$0")/../lib/client.sh"
compat_start
need_kafka_jars

program java -cp "$KAFKA_JARS" -XX:TieredStopAtLevel=1 -Xmx512m \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=error \
    "$COMPAT_HERE/AdminTasks.java" "$COMPAT_BOOTSTRAP"
compat_end
