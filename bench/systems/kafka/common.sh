# Shared by install, start, stop and facts, and by the tool wrappers in compat/lib: where the jars
# are, and how a JVM is started on them. Sourced, never run.
KAFKA_VERSION=4.2.0
KAFKA_HOME_SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
KAFKA_CACHE=$(realpath -m "${TWINLOG_CACHE:-$KAFKA_HOME_SCRIPTS/../../../.cache}")
KAFKA_CACHE+=/kafka-$KAFKA_VERSION

# Prints the reason and ends the script.
die()
{
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# The marker is written last, so a download that was cut short never counts as installed.
kafka_installed()
{
    [ -e "$KAFKA_CACHE/complete" ] && command -v java >/dev/null
}

# kafka_java <log level> <JVM options, class and arguments...>
kafka_java()
{
    local level=$1
    shift
    java -cp "$KAFKA_CACHE/lib/*" -Dorg.slf4j.simpleLogger.defaultLogLevel="$level" "$@"
}

# Prints a TCP port of 127.0.0.1 that is free at this moment.
free_port()
{
    python3 -c 'import socket
with socket.socket() as sock:
    sock.bind(("127.0.0.1", 0))
    print(sock.getsockname()[1])'
}

port_is_open()
{
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}
