# Sourced by every compat/<client>/test.sh: starts the system under test, reports feature by
# feature, stops the system.
#
# In:  COMPAT_SYSTEM     twinlog (default) or kafka
#      COMPAT_BOOTSTRAP  host:port of a system that runs already; then nothing is started or stopped
#      TWINLOG_BIN, TWINLOG_TMP, TWINLOG_PORT, TWINLOG_STRICT as for every integration test
# Out: one line per feature on stdout: `ok NAME`, `FAIL NAME: reason` or `skip NAME: reason`; what
#      the clients print goes to stderr when a feature fails.
set -uo pipefail

COMPAT_LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
COMPAT_HERE=$(cd "$(dirname "$0")" && pwd)
COMPAT_SYSTEM=${COMPAT_SYSTEM:-twinlog}
COMPAT_KAFKA=$COMPAT_LIB/../../bench/systems/kafka
PATH=$COMPAT_LIB:$PATH
compat_failed=0
compat_pid=
compat_running=

# Ends the test as skipped; in strict mode a client that is missing is a failure.
compat_skip()
{
    echo "$*"
    [ "${TWINLOG_STRICT:-}" = 1 ] && exit 1
    exit 77
}

# need_command <command> <what to do about it>
need_command()
{
    command -v "$1" >/dev/null || compat_skip "$1 is not installed: $2"
}

# Fetches Kafka's jars, for tests whose client or tools are Kafka's own.
need_kafka_jars()
{
    "$COMPAT_KAFKA/install" >/dev/null 2>"$TWINLOG_TMP/install.log" ||
        compat_skip "no Kafka jars: $(tail -n 1 "$TWINLOG_TMP/install.log")"
    KAFKA_JARS="$("$COMPAT_KAFKA/install")/*"
}

# compat_die <reason> [log]: ends the test as failed, with the last line of the log in the reason.
compat_die()
{
    local last=
    if [ $# -gt 1 ]; then
        last=$(tail -n 1 "$2" | cut -c 1-200)
        tail -n 40 "$2" >&2
    fi
    echo "FAIL start: $1${last:+: $last}"
    exit 1
}

start_twinlog()
{
    [ -n "${TWINLOG_BIN:-}" ] || compat_die "TWINLOG_BIN does not name the broker"
    [ -x "$TWINLOG_BIN" ] || compat_die "$TWINLOG_BIN is not an executable"
    COMPAT_DATA=$TWINLOG_TMP/data
    cat >"$TWINLOG_TMP/twinlog.properties" <<EOF
listeners=PLAINTEXT://127.0.0.1:$TWINLOG_PORT
log.dirs=$COMPAT_DATA
auto.create.topics.enable=true
num.partitions=1
EOF
    "$TWINLOG_BIN" format --config "$TWINLOG_TMP/twinlog.properties" \
        >"$TWINLOG_TMP/format.log" 2>&1 || compat_die "format failed" "$TWINLOG_TMP/format.log"
    "$TWINLOG_BIN" serve --config "$TWINLOG_TMP/twinlog.properties" \
        >"$TWINLOG_TMP/server.log" 2>&1 </dev/null &
    compat_pid=$!
    local deadline=$((SECONDS + 30))
    until (exec 3<>"/dev/tcp/127.0.0.1/$TWINLOG_PORT") 2>/dev/null; do
        kill -0 "$compat_pid" 2>/dev/null ||
            compat_die "it ended at start" "$TWINLOG_TMP/server.log"
        [ $SECONDS -lt $deadline ] || compat_die "not up within 30 s" "$TWINLOG_TMP/server.log"
        sleep 0.1
    done
}

start_kafka()
{
    need_kafka_jars
    COMPAT_DATA=$TWINLOG_TMP/kafka/node-1/data
    "$COMPAT_KAFKA/start" --dir "$TWINLOG_TMP/kafka" --port "$TWINLOG_PORT" --heap 1g \
        >/dev/null 2>"$TWINLOG_TMP/start.log" || compat_die "Apache Kafka" "$TWINLOG_TMP/start.log"
}

# Starts the system under test and sets COMPAT_BOOTSTRAP, and COMPAT_DATA when it runs here.
compat_start()
{
    if [ -z "${TWINLOG_TMP:-}" ]; then
        TWINLOG_TMP=$(mktemp -d)
        compat_own_tmp=$TWINLOG_TMP
    fi
    trap compat_on_exit EXIT
    COMPAT_DATA=
    [ -z "${COMPAT_BOOTSTRAP:-}" ] || return 0
    TWINLOG_PORT=${TWINLOG_PORT:-$(python3 -c \
        'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')}
    compat_running=$COMPAT_SYSTEM
    case $COMPAT_SYSTEM in
    twinlog) start_twinlog ;;
    kafka) start_kafka ;;
    *) compat_die "COMPAT_SYSTEM is neither twinlog nor kafka" ;;
    esac
    COMPAT_BOOTSTRAP=127.0.0.1:$TWINLOG_PORT
}

# Ends the broker with SIGTERM and waits. One that crashed, hangs, or does not end with status 0 (a
# sanitizer's finding, for one) fails the test.
stop_twinlog()
{
    [ -n "$compat_pid" ] || return 0
    local deadline=$((SECONDS + 30)) status=0
    kill -TERM "$compat_pid" 2>/dev/null
    while kill -0 "$compat_pid" 2>/dev/null && [ $SECONDS -lt $deadline ]; do
        sleep 0.1
    done
    kill -KILL "$compat_pid" 2>/dev/null
    wait "$compat_pid" || status=$?
    compat_pid=
    [ $status = 0 ] && return 0
    tail -n 60 "$TWINLOG_TMP/server.log" >&2
    report FAIL clean-stop "the broker ended with status $status"
    return 1
}

# Stops the system cleanly; its data stays in COMPAT_DATA. Safe to call twice.
compat_stop()
{
    local running=$compat_running
    compat_running=
    case $running in
    twinlog) stop_twinlog ;;
    kafka) "$COMPAT_KAFKA/stop" --dir "$TWINLOG_TMP/kafka" ;;
    esac
}

compat_on_exit()
{
    local status=$?
    trap - EXIT
    compat_stop || status=1
    [ -z "${compat_own_tmp:-}" ] || rm -rf "$compat_own_tmp"
    exit $status
}

# report <ok|FAIL|skip> <feature> [reason]
report()
{
    echo "$1 $2${3:+: $3}"
    [ "$1" != FAIL ] || compat_failed=1
}

# Fails a feature: `condition || fail "reason"`.
fail()
{
    echo "$*"
    return 1
}

# feature <name> <function or command...>: reports how it ended; 77 means skipped, with the reason
# on the last line. A function runs under `set -e` in a subshell.
feature()
{
    local name=$1 status output=$TWINLOG_TMP/feature.log
    shift
    (set -e; "$@") >"$output" 2>&1
    status=$?
    case $status in
    0) report ok "$name" ;;
    77) report skip "$name" "$(tail -n 1 "$output")" ;;
    *)
        local reason
        reason=$(grep -v '^ *$' "$output" | tail -n 1 | cut -c 1-200)
        report FAIL "$name" "${reason:-ended with status $status}"
        tail -n 30 "$output" >&2
        ;;
    esac
}

# program <command...>: runs a client program that prints the feature lines itself.
program()
{
    local status lines=$TWINLOG_TMP/program.out
    "$@" 2>"$TWINLOG_TMP/program.err" | tee "$lines" | grep --line-buffered -E '^(ok|FAIL|skip) '
    status=${PIPESTATUS[0]}
    grep -q '^FAIL ' "$lines" && compat_failed=1
    if [ "$status" != 0 ] && ! grep -q '^FAIL ' "$lines"; then
        report FAIL program "it ended with status $status: $(tail -n 1 "$TWINLOG_TMP/program.err")"
    elif ! grep -q '^ok ' "$lines"; then
        report FAIL program "it reported nothing"
    fi
    [ $compat_failed = 0 ] || tail -n 40 "$TWINLOG_TMP/program.err" >&2
}

# stored_as <topic> <codec>: every batch the broker holds for partition 0 has that codec. A client
# that meets an API version it does not like sends uncompressed without a word.
stored_as()
{
    local codecs
    codecs=$(batches --bootstrap "$COMPAT_BOOTSTRAP" --topic "$1" --field codec |
        sort -u | paste -sd,)
    [ "$codecs" = "$2" ] || fail "$1 is stored as '$codecs', not $2"
}

# stored_by_producer <topic>: every batch of partition 0 carries a producer id.
stored_by_producer()
{
    local ids
    ids=$(batches --bootstrap "$COMPAT_BOOTSTRAP" --topic "$1" --field producer_id |
        sort -u | paste -sd,)
    [ -n "$ids" ] && ! grep -qE -- '(^|,)-1' <<<"$ids" ||
        fail "producer ids of $1: '$ids'"
}

# The last line of a test.sh: stops the system and ends with the verdict.
compat_end()
{
    compat_stop
    exit $compat_failed
}
