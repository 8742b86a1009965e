/* One table of keys; everything about a key is in its line. */
#include "twinlog/broker/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/assert.h"

#include "properties.h"

#define CONFIG_FILE_SIZE_MAX ((size_t)1024 * 1024)
#define KIB                  1024LL
#define MIB                  (1024 * KIB)
#define GIB                  (1024 * MIB)

#define FIELD(member)                                                                              \
    .offset = offsetof(struct broker_config, member),                                              \
    .size = sizeof(((struct broker_config *)0)->member)
#define TEXT(name_, preset_, member, meaning_)                                                     \
    {                                                                                              \
        .name = name_, .type = CONFIG_STRING, .preset = preset_, FIELD(member),                    \
        .meaning = meaning_                                                                        \
    }
#define LIST(name_, preset_, member, meaning_)                                                     \
    {                                                                                              \
        .name = name_, .type = CONFIG_LIST, .preset = preset_, FIELD(member), .meaning = meaning_  \
    }
#define BOOL(name_, preset_, member, meaning_)                                                     \
    {                                                                                              \
        .name = name_, .type = CONFIG_BOOL, .preset = preset_, FIELD(member), .meaning = meaning_  \
    }
#define INT(name_, preset_, min_, max_, member, meaning_)                                          \
    {                                                                                              \
        .name = name_, .type = CONFIG_INT, .preset = preset_, .min = min_, .max = max_,            \
        FIELD(member), .meaning = meaning_                                                         \
    }
#define LONG(name_, preset_, min_, max_, member, meaning_)                                         \
    {                                                                                              \
        .name = name_, .type = CONFIG_LONG, .preset = preset_, .min = min_, .max = max_,           \
        FIELD(member), .meaning = meaning_                                                         \
    }

/* clang-format off */
static const struct config_key config_keys[] = {
    LIST("listeners", "PLAINTEXT://127.0.0.1:9092", listeners,
         "where clients connect: PLAINTEXT://address:port"),
    LIST("advertised.listeners", "", advertised_listeners,
         "the address clients are told; empty: the listener's"),
    LIST("listener.security.protocol.map", "", protocol_map,
         "security protocol by listener name; only PLAINTEXT is served"),
    LIST("controller.listener.names", "", controller_names,
         "listeners of Kafka's controller; they are skipped"),
    LIST("log.dirs", "data", log_dir, "the directory of journal and segments; one only"),
    TEXT("broker.rack", "", rack, "told to clients"),
    INT("node.id", "1", 0, INT32_MAX, node_id, "this broker's number"),
    INT("num.partitions", "1", 1, 100000, num_partitions, "of topics created without a number"),
    INT("default.replication.factor", "1", 1, 32767, default_replication_factor,
        "of topics created without a factor"),
    INT("min.insync.replicas", "1", 1, 32767, min_insync_replicas,
        "fewer replicas in sync refuse acks=all"),
    BOOL("auto.create.topics.enable", "true", auto_create_topics,
         "a topic that a client asks for by Metadata is created"),
    BOOL("delete.topic.enable", "true", delete_topics, "topics can be deleted"),
    INT("message.max.bytes", "1048588", 0, INT32_MAX, message_size_max,
        "the largest record batch, as sent"),
    INT("log.segment.bytes", "1073741824", 1 * MIB, INT32_MAX, segment_size,
        "a segment is rolled at this size"),
    LONG("log.roll.ms", "604800000", 1, INT64_MAX, segment_ms, "a segment is rolled at this age"),
    LONG("log.roll.jitter.ms", "0", 0, INT64_MAX, segment_jitter_ms,
         "at most this, by chance, is taken off that age"),
    LONG("log.retention.ms", "604800000", -1, INT64_MAX, retention_ms,
         "segments of older records are deleted; -1: no limit"),
    LONG("log.retention.bytes", "-1", INT64_MIN, INT64_MAX, retention_size,
         "a partition beyond this size loses its oldest segments; -1: no limit"),
    LONG("log.retention.check.interval.ms", "300000", 1, INT64_MAX / 1000000000,
         retention_check_ms, "how often segments to be deleted are looked for"),
    INT("producer.id.expiration.ms", "86400000", 1, INT32_MAX, producer_expiration_ms,
        "an idempotent producer is forgotten this long after its last batch"),
    LONG("producer.id.expiration.check.interval.ms", "600000", 1, INT32_MAX, producer_check_ms,
         "how often such producers are looked for"),
    INT("log.index.interval.bytes", "4096", 0, INT32_MAX, index_interval_size,
        "bytes of log for one index entry"),
    TEXT("log.message.timestamp.type", "CreateTime", timestamp_type,
         "CreateTime or LogAppendTime"),
    LONG("log.message.timestamp.before.max.ms", "9223372036854775807", 0, INT64_MAX,
         timestamp_before_ms_max, "how far behind the clock a record may be"),
    LONG("log.message.timestamp.after.max.ms", "3600000", 0, INT64_MAX, timestamp_after_ms_max,
         "how far ahead of the clock a record may be"),
    TEXT("compression.type", "producer", compression_type,
         "how batches are kept: producer (as sent), uncompressed, gzip, snappy, lz4, zstd"),
    INT("compression.gzip.level", "-1", -1, 9, gzip_level, "1 to 9; -1: the codec's own default"),
    INT("compression.lz4.level", "9", 1, 17, lz4_level, "9 is the fast compressor"),
    INT("compression.zstd.level", "3", -131072, 22, zstd_level, "higher is smaller and slower"),
    LIST("log.cleanup.policy", "delete", cleanup_policy, "default of topics: delete, compact"),
    INT("socket.request.max.bytes", "104857600", 1 * KIB, INT32_MAX, request_size_max,
        "the largest request"),
    LONG("queued.max.request.bytes", "-1", -1, INT64_MAX, queued_request_size_max,
         "memory of requests being received; -1: four of the largest, at least 64 MiB"),
    LONG("connections.max.idle.ms", "600000", -1, INT64_MAX / 1000000000, connection_idle_ms_max,
         "silent connections are closed; -1: never"),
    INT("max.connections", "2147483647", 0, INT32_MAX, connection_count_max, "in all"),
    INT("max.connections.per.ip", "2147483647", 0, INT32_MAX, connection_per_ip_max,
        "of one address"),
    INT("fetch.max.bytes", "57671680", 1 * KIB, INT32_MAX, fetch_size_max,
        "the most one Fetch returns"),
    INT("max.incremental.fetch.session.cache.slots", "1000", 0, 100000, fetch_session_slots,
        "fetch sessions kept at most"),
    INT("twinlog.producer.id.block.size", "1000", 1, 1000000, producer_id_block_size,
        "producer ids reserved with one synced write"),
    LONG("twinlog.batch.opened.size.max", "-1", -1, INT32_MAX, batch_opened_size_max,
         "bytes a compressed batch may have decompressed; -1: four times the largest batch, at "
         "least 64 MiB"),
    LONG("twinlog.fetch.memory.size", "134217728", 1 * MIB, INT64_MAX, fetch_memory_size,
         "memory of Fetch responses that are read or sent"),
    INT("twinlog.shards", "1", 1, 1, shard_count, "threads with a journal each; fixed at format"),
    LONG("twinlog.journal.size", "536870912", 32 * MIB, 64 * GIB, journal_size,
         "bytes of a shard's journal, a multiple of 4 MiB; fixed at format"),
    INT("twinlog.journal.writes.in.flight", "4", 1, 64, journal_writes_in_flight,
        "synced writes at once"),
    INT("twinlog.journal.frame.size.max", "262144", 4 * KIB, 16 * MIB, journal_frame_size_max,
        "bytes gathered in one synced write"),
    INT("twinlog.chunk.size", "1048576", 64 * KIB, 64 * MIB, chunk_size,
        "unit of memory that records move in"),
    LONG("twinlog.chunk.memory.size", "67108864", 8 * MIB, 64 * GIB, chunk_memory_size,
         "memory of all chunks"),
    LONG("twinlog.checkpoint.idle.ms", "2000", 10, INT32_MAX, checkpoint_idle_ms,
         "a quiet log is checkpointed after this time"),
    LONG("twinlog.disk.reserve.size", "-1", -1, INT64_MAX, disk_reserve_size,
         "free bytes below which produce is refused; -1: as much as the journal, and 64 MiB"),
    LONG("twinlog.scrub.interval.ms", "604800000", 0, INT64_MAX / 1000000000, scrub_interval_ms,
         "from one check of all segments to the next; 0: never"),
    LONG("twinlog.scrub.bytes.per.second", "10485760", 0, INT64_MAX / 1000000000, scrub_rate,
         "how fast segments are read for it; 0: never"),
    TEXT("twinlog.http.listener", "", http_listener,
         "address:port of metrics and health over HTTP; empty: none"),
};
/* clang-format on */

/*
 * Older or shorter names of Kafka's for keys of the table; `factor` scales the number. Of several
 * that are given the one with the finest unit counts, in whatever order they stand.
 */
static const struct {
    const char *name;
    const char *target;
    int64_t factor;
} config_aliases[] = {
    {"log.dir", "log.dirs", 1},
    {"broker.id", "node.id", 1},
    {"log.roll.hours", "log.roll.ms", 3600000},
    {"log.roll.jitter.hours", "log.roll.jitter.ms", 3600000},
    {"log.retention.minutes", "log.retention.ms", 60000},
    {"log.retention.hours", "log.retention.ms", 3600000},
};

/* Settings that protect: not honouring one silently would be a lie. */
static const char *const config_security_prefixes[] = {
    "sasl.",
    "ssl.",
    "security.",
    "authorizer.",
    "super.users",
    "listener.name.",
    "delegation.",
    "password.encoder",
    "principal.builder.",
    "allow.everyone.",
    "connection.failed.authentication.",
    "early.start.listeners",
};

const struct config_key *broker_config_keys(size_t *count)
{
    *count = COUNT_OF(config_keys);
    return config_keys;
}

PRINTF_LIKE(2, 3)
static status config_fail(struct config_report *report, const char *format, ...)
{
    if (report->error[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(report->error, sizeof(report->error), format, arguments);
        va_end(arguments);
    }
    return STATUS(INVALID);
}

const struct config_key *broker_config_find(struct bytes name)
{
    for (size_t i = 0; i < COUNT_OF(config_keys); i++) {
        if (bytes_equal(bytes_of(config_keys[i].name), name)) {
            return &config_keys[i];
        }
    }
    return NULL;
}

_Static_assert(COUNT_OF(config_keys) <= CONFIG_KEY_COUNT_MAX, "a bit of `given` for each");

bool broker_config_is_given(const struct broker_config *config, const struct config_key *key)
{
    return (config->given >> (key - config_keys) & 1) != 0;
}

static status config_set_number(struct broker_config *config, const struct config_key *key,
                                const char *name, const char *value, int64_t factor,
                                struct config_report *report)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    int64_t scaled;
    bool is_no_limit = number == -1 && key->min == -1; /* in any unit */
    if (end == value || *end != '\0' || errno != 0 ||
        __builtin_mul_overflow((int64_t)number, is_no_limit ? 1 : factor, &scaled)) {
        return config_fail(report, "%s=%s is not a whole number: write digits only", name, value);
    }
    if (scaled < key->min || scaled > key->max) {
        return config_fail(report, "%s=%s is out of range: choose %" PRId64 " to %" PRId64, name,
                           value, key->min == -1 ? key->min : key->min / factor, key->max / factor);
    }
    memcpy((char *)config + key->offset, &scaled, sizeof(scaled));
    return OK;
}

static status config_set_bool(struct broker_config *config, const struct config_key *key,
                              const char *value, struct config_report *report)
{
    bool truth = strcasecmp(value, "true") == 0;
    if (!truth && strcasecmp(value, "false") != 0) {
        return config_fail(report, "%s=%s is not a truth value: write true or false", key->name,
                           value);
    }
    memcpy((char *)config + key->offset, &truth, sizeof(truth));
    return OK;
}

static status config_set(struct broker_config *config, const struct config_key *key,
                         const char *name, const char *value, int64_t factor,
                         struct config_report *report)
{
    size_t index = (size_t)(key - config_keys);
    config->given |= UINT64_C(1) << index;
    config->units[index] = factor;
    switch (key->type) {
    case CONFIG_INT:
    case CONFIG_LONG:
        return config_set_number(config, key, name, value, factor, report);
    case CONFIG_BOOL:
        return config_set_bool(config, key, value, report);
    default:
        if (strlen(value) >= key->size) {
            return config_fail(report, "%s is longer than %zu bytes: shorten it", name,
                               key->size - 1);
        }
        memcpy((char *)config + key->offset, value, strlen(value) + 1);
        return OK;
    }
}

static void config_ignore(struct config_report *report, const char *name)
{
    size_t used = strlen(report->ignored);
    int written = snprintf(report->ignored + used, sizeof(report->ignored) - used, "%s%s",
                           used == 0 ? "" : ", ", name);
    if ((size_t)written >= sizeof(report->ignored) - used) {
        report->ignored[used] = '\0';
        report->ignored_cut = true;
    }
}

static status config_refuse_security(const char *name, const char *value,
                                     struct config_report *report)
{
    if (value[0] == '\0' ||
        (strcmp(name, "security.inter.broker.protocol") == 0 && strcmp(value, "PLAINTEXT") == 0)) {
        return OK;
    }
    for (size_t i = 0; i < COUNT_OF(config_security_prefixes); i++) {
        const char *prefix = config_security_prefixes[i];
        if (strncmp(name, prefix, strlen(prefix)) == 0) {
            return config_fail(report,
                               "%s is a security setting that this release does not honour: "
                               "remove it, or keep the broker off networks that need it",
                               name);
        }
    }
    return OK;
}

static status config_assign(struct broker_config *config, const char *name, const char *value,
                            struct config_report *report)
{
    TRY(config_refuse_security(name, value, report));
    const struct config_key *key = broker_config_find(bytes_of(name));
    if (key != NULL) {
        return config_set(config, key, name, value, 1, report);
    }
    for (size_t i = 0; i < COUNT_OF(config_aliases); i++) {
        if (strcmp(config_aliases[i].name, name) == 0) {
            key = broker_config_find(bytes_of(config_aliases[i].target));
            ASSERT(key != NULL);
            int64_t unit = config->units[key - config_keys];
            bool is_outdone = unit != 0 && unit < config_aliases[i].factor;
            struct broker_config unused = *config; /* What does not count is right all the same. */
            return config_set(is_outdone ? &unused : config, key, name, value,
                              config_aliases[i].factor, report);
        }
    }
    if (strncmp(name, "twinlog.", 8) == 0) {
        return config_fail(report, "%s is not a setting of this broker: check its spelling", name);
    }
    config_ignore(report, name);
    return OK;
}

void broker_config_init(struct broker_config *config)
{
    struct config_report report = {0};
    memset(config, 0, sizeof(*config));
    for (size_t i = 0; i < COUNT_OF(config_keys); i++) {
        const struct config_key *key = &config_keys[i];
        status result = config_set(config, key, key->name, key->preset, 1, &report);
        ASSERT(status_is_ok(result));
    }
    config->given = 0;
    memset(config->units, 0, sizeof(config->units));
}

status broker_config_parse(struct broker_config *config, struct bytes text,
                           struct config_report *report)
{
    char key[256];
    char value[CONFIG_VALUE_SIZE_MAX];
    struct properties properties;
    properties_init(&properties, text);
    for (;;) {
        status result = properties_next(&properties, key, sizeof(key), value, sizeof(value));
        if (result.code == STATUS_NOT_FOUND) {
            return OK;
        }
        if (!status_is_ok(result)) {
            return config_fail(report, "line %u cannot be read (%s): mend the escape or shorten it",
                               properties.line, status_text(result));
        }
        TRY(config_assign(config, key, value, report));
    }
}

status broker_config_override(struct broker_config *config, const char *assignment,
                              struct config_report *report)
{
    const char *equals = strchr(assignment, '=');
    char name[256];
    if (equals == NULL || equals == assignment || (size_t)(equals - assignment) >= sizeof(name)) {
        return config_fail(report, "override '%s' is not of the form key=value", assignment);
    }
    memcpy(name, assignment, (size_t)(equals - assignment));
    name[equals - assignment] = '\0';
    return config_assign(config, name, equals + 1, report);
}

void broker_config_value(const struct broker_config *config, const struct config_key *key,
                         char *text, size_t size)
{
    const char *field = (const char *)config + key->offset;
    int64_t number;
    bool truth;
    switch (key->type) {
    case CONFIG_INT:
    case CONFIG_LONG:
        memcpy(&number, field, sizeof(number));
        snprintf(text, size, "%" PRId64, number);
        break;
    case CONFIG_BOOL:
        memcpy(&truth, field, sizeof(truth));
        snprintf(text, size, "%s", truth ? "true" : "false");
        break;
    default:
        snprintf(text, size, "%s", field);
        break;
    }
}

/* ---------------------------------------------------------------- listeners */

struct listener {
    char name[64];
    char host[CONFIG_HOST_SIZE_MAX];
    uint16_t port;
};

/* Takes the next item of a comma-separated list; false at the end. Blanks around it are dropped. */
static bool list_next(const char **list, char *item, size_t size)
{
    while (**list == ',' || **list == ' ') {
        (*list)++;
    }
    if (**list == '\0') {
        return false;
    }
    size_t length = strcspn(*list, ",");
    size_t trimmed = length;
    while (trimmed > 0 && (*list)[trimmed - 1] == ' ') {
        trimmed--;
    }
    snprintf(item, size, "%.*s", (int)trimmed, *list);
    *list += length;
    return true;
}

static bool list_has(const char *list, const char *wanted)
{
    char item[CONFIG_HOST_SIZE_MAX];
    while (list_next(&list, item, sizeof(item))) {
        if (strcasecmp(item, wanted) == 0) {
            return true;
        }
    }
    return false;
}

/* NAME://host:port, with an IPv6 address in brackets; an empty host is the wildcard. */
static bool listener_parse(const char *text, struct listener *listener)
{
    const char *slashes = strstr(text, "://");
    const char *colon = strrchr(text, ':');
    if (slashes == NULL || colon == slashes || (size_t)(slashes - text) >= sizeof(listener->name)) {
        return false;
    }
    snprintf(listener->name, sizeof(listener->name), "%.*s", (int)(slashes - text), text);
    const char *host = slashes + 3;
    size_t host_size = (size_t)(colon - host);
    if (host_size >= 2 && host[0] == '[' && host[host_size - 1] == ']') {
        host++;
        host_size -= 2;
    }
    if (host_size >= sizeof(listener->host)) {
        return false;
    }
    memcpy(listener->host, host, host_size);
    listener->host[host_size] = '\0';
    char *end;
    long port = strtol(colon + 1, &end, 10);
    listener->port = (uint16_t)port;
    return end != colon + 1 && *end == '\0' && port >= 0 && port <= UINT16_MAX;
}

/* A listener's security protocol is its name's entry in the map, or its name. */
static status listener_check_protocol(const struct broker_config *config,
                                      const struct listener *listener, struct config_report *report)
{
    char item[128];
    char protocol[64];
    snprintf(protocol, sizeof(protocol), "%s", listener->name);
    const char *map = config->protocol_map;
    while (list_next(&map, item, sizeof(item))) {
        char *colon = strchr(item, ':');
        if (colon != NULL) {
            *colon = '\0';
            if (strcasecmp(item, listener->name) == 0) {
                snprintf(protocol, sizeof(protocol), "%s", colon + 1);
            }
        }
    }
    if (strcasecmp(protocol, "PLAINTEXT") != 0) {
        return config_fail(report,
                           "listener %s uses the protocol %s, and this release serves PLAINTEXT "
                           "only: use a PLAINTEXT listener on a network you trust",
                           listener->name, protocol);
    }
    return OK;
}

/* The one client listener of a list; *found stays false when there is none. */
static status listeners_pick(const struct broker_config *config, const char *key, const char *list,
                             struct listener *listener, bool *found, struct config_report *report)
{
    char item[512];
    *found = false;
    while (list_next(&list, item, sizeof(item))) {
        struct listener parsed;
        if (!listener_parse(item, &parsed)) {
            return config_fail(report, "%s: '%s' is not of the form PLAINTEXT://address:port", key,
                               item);
        }
        if (list_has(config->controller_names, parsed.name)) {
            continue;
        }
        TRY(listener_check_protocol(config, &parsed, report));
        if (*found) {
            return config_fail(report, "%s names more than one client listener: keep one", key);
        }
        *listener = parsed;
        *found = true;
    }
    return OK;
}

static bool host_is_wildcard(const char *host)
{
    return host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* Digits and dots, or anything with a colon, is an address; io_listen() judges it for good. */
static bool host_is_numeric(const char *host)
{
    return strchr(host, ':') != NULL || strspn(host, "0123456789.") == strlen(host);
}

static status config_finish_listeners(struct broker_config *config, struct config_report *report)
{
    struct listener listener;
    struct listener advertised;
    bool found;
    TRY(listeners_pick(config, "listeners", config->listeners, &listener, &found, report));
    if (!found) {
        return config_fail(report,
                           "listeners=%s has no client listener: add "
                           "PLAINTEXT://127.0.0.1:9092",
                           config->listeners);
    }
    const char *host = listener.host;
    if (host[0] == '\0') {
        host = "0.0.0.0";
    } else if (strcmp(host, "localhost") == 0) {
        host = "127.0.0.1";
    }
    if (!host_is_numeric(host)) {
        return config_fail(report,
                           "listeners=%s: '%s' is a name, and only an address can be listened on: "
                           "write the address here and the name in advertised.listeners",
                           config->listeners, host);
    }
    snprintf(config->host, sizeof(config->host), "%s", host);
    config->port = listener.port;
    TRY(listeners_pick(config, "advertised.listeners", config->advertised_listeners, &advertised,
                       &found, report));
    const char *told = found ? advertised.host : listener.host;
    if (host_is_wildcard(told)) {
        return config_fail(report,
                           "%s=%s would tell clients the wildcard address: set "
                           "advertised.listeners=PLAINTEXT://<name or address clients use>:%u",
                           found ? "advertised.listeners" : "listeners",
                           found ? config->advertised_listeners : config->listeners, listener.port);
    }
    snprintf(config->advertised_host, sizeof(config->advertised_host), "%s", told);
    config->advertised_port = found ? advertised.port : listener.port;
    return OK;
}

static status config_finish_compression(const struct broker_config *config,
                                        struct config_report *report)
{
    static const char *const types[] = {"producer", "uncompressed", "gzip",
                                        "snappy",   "lz4",          "zstd"};
    bool known = false;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        known = known || strcmp(config->compression_type, types[i]) == 0;
    }
    if (!known) {
        return config_fail(report,
                           "compression.type=%s: choose producer, uncompressed, gzip, snappy, lz4 "
                           "or zstd",
                           config->compression_type);
    }
    if (config->gzip_level == 0) {
        return config_fail(report, "compression.gzip.level=0: choose 1 to 9, or -1 for the "
                                   "codec's own default");
    }
    return OK;
}

/* The address of metrics and health; what listeners may be written as may be written here. */
static status config_finish_http(struct broker_config *config, struct config_report *report)
{
    char text[CONFIG_HOST_SIZE_MAX + sizeof("HTTP://")];
    struct listener listener;
    if (config->http_listener[0] == '\0') {
        return OK;
    }
    snprintf(text, sizeof(text), "HTTP://%s", config->http_listener);
    if (!listener_parse(text, &listener) || listener.host[0] == '\0' || listener.port == 0) {
        return config_fail(report,
                           "twinlog.http.listener=%s is not of the form address:port: write "
                           "127.0.0.1:9644, or leave it empty",
                           config->http_listener);
    }
    bool is_local = strcmp(listener.host, "localhost") == 0;
    if (!is_local && !host_is_numeric(listener.host)) {
        return config_fail(report,
                           "twinlog.http.listener=%s: '%s' is a name, and only an address can be "
                           "listened on: write the address",
                           config->http_listener, listener.host);
    }
    snprintf(config->http_host, sizeof(config->http_host), "%s",
             is_local ? "127.0.0.1" : listener.host);
    config->http_port = listener.port;
    return OK;
}

static status config_finish_log(struct broker_config *config, struct config_report *report)
{
    if (config->log_dir[0] == '\0' || strchr(config->log_dir, ',') != NULL) {
        return config_fail(report, "log.dirs=%s must name one directory", config->log_dir);
    }
    if (config->journal_size % (4 * MIB) != 0) {
        return config_fail(report,
                           "twinlog.journal.size=%" PRId64 " is not a multiple of 4 MiB: "
                           "choose %" PRId64,
                           config->journal_size, (int64_t)ALIGN_UP(config->journal_size, 4 * MIB));
    }
    if (config->chunk_size % (4 * KIB) != 0) {
        return config_fail(report, "twinlog.chunk.size=%" PRId64 " is not a multiple of 4096",
                           config->chunk_size);
    }
    if (config->default_replication_factor > 1) {
        return config_fail(report,
                           "default.replication.factor=%" PRId64 " needs more nodes than "
                           "the one there is: set it to 1",
                           config->default_replication_factor);
    }
    if (config->retention_ms == 0) {
        return config_fail(report, "log.retention.ms=0 would delete every record: choose -1 for no "
                                   "limit, or at least 1");
    }
    TRY(config_finish_compression(config, report));
    if (strcmp(config->timestamp_type, "CreateTime") != 0 &&
        strcmp(config->timestamp_type, "LogAppendTime") != 0) {
        return config_fail(report,
                           "log.message.timestamp.type=%s: choose CreateTime or "
                           "LogAppendTime",
                           config->timestamp_type);
    }
    return OK;
}

status broker_config_finish(struct broker_config *config, struct config_report *report)
{
    TRY(config_finish_listeners(config, report));
    TRY(config_finish_log(config, report));
    TRY(config_finish_http(config, report));
    if (config->queued_request_size_max < 0) {
        config->queued_request_size_max = MAX(4 * config->request_size_max, 64 * MIB);
    }
    return OK;
}

status broker_config_load(struct broker_config *config, struct io_disk *disk, const char *path,
                          struct config_report *report)
{
    struct io_file *file;
    status result = io_file_open(disk, path, IO_FILE_READ, &file);
    if (!status_is_ok(result)) {
        snprintf(report->error, sizeof(report->error), "%s cannot be opened: %s", path,
                 status_text(result));
        return result;
    }
    char *text = malloc(CONFIG_FILE_SIZE_MAX);
    size_t got = 0;
    result =
        text == NULL ? STATUS(NO_MEMORY) : io_file_read(file, text, CONFIG_FILE_SIZE_MAX, 0, &got);
    io_file_close(file);
    if (status_is_ok(result) && got == CONFIG_FILE_SIZE_MAX) {
        result = STATUS(TOO_LARGE);
    }
    if (status_is_ok(result)) {
        struct bytes view = {(const uint8_t *)text, (uint32_t)got};
        result = broker_config_parse(config, view, report);
    } else {
        snprintf(report->error, sizeof(report->error), "%s cannot be read: %s", path,
                 status_text(result));
    }
    free(text);
    return result;
}
