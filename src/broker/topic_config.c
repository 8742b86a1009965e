#include "topic_config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/assert.h"

#define NOT_USED       SIZE_MAX
#define USED(member)   offsetof(struct topic_config, member)
#define VALUE_SIZE_MAX CONFIG_TOPIC_VALUE_SIZE

/* clang-format off */
static const struct topic_key topic_keys[] = {
    {"cleanup.policy", TOPIC_LIST, "delete", "log.cleanup.policy", true, 0, 0, "compact,delete",
     NULL, USED(compacted),
     "What happens to old segments: delete removes them by age or size, compact keeps the newest "
     "record of each key; an empty list keeps everything."},
    {"compression.gzip.level", TOPIC_INT, "-1", "compression.gzip.level", true, -1, 9, NULL, NULL,
     USED(gzip_level), "The level for compression.type=gzip; -1 is the codec's own default."},
    {"compression.lz4.level", TOPIC_INT, "9", "compression.lz4.level", true, 1, 17, NULL, NULL,
     USED(lz4_level), "The level for compression.type=lz4; 9 is the fast compressor."},
    {"compression.type", TOPIC_CHOICE, "producer", "compression.type", true, 0, 0,
     "uncompressed,zstd,lz4,snappy,gzip,producer", NULL, USED(compression),
     "How batches are kept; producer keeps them as they were sent."},
    {"compression.zstd.level", TOPIC_INT, "3", "compression.zstd.level", true, -131072, 22, NULL,
     NULL, USED(zstd_level), "The level for compression.type=zstd."},
    {"delete.retention.ms", TOPIC_LONG, "86400000", "log.cleaner.delete.retention.ms", true, 0,
     INT64_MAX, NULL, NULL, NOT_USED,
     "How long the mark of a deleted key stays in a compacted topic."},
    {"file.delete.delay.ms", TOPIC_LONG, "60000", "log.segment.delete.delay.ms", true, 0,
     INT64_MAX, NULL, NULL, NOT_USED,
     "How long a file waits before it is deleted for good; here it goes when no read and no "
     "recovery needs it."},
    {"flush.messages", TOPIC_LONG, "9223372036854775807", "log.flush.interval.messages", true, 1,
     INT64_MAX, NULL, NULL, NOT_USED,
     "Records between forced syncs; this broker syncs before every acknowledgement."},
    {"flush.ms", TOPIC_LONG, "9223372036854775807", "log.flush.interval.ms", false, 0, INT64_MAX,
     NULL, NULL, NOT_USED,
     "Time between forced syncs; this broker syncs before every acknowledgement."},
    {"follower.replication.throttled.replicas", TOPIC_REPLICAS, "", NULL, false, 0, 0, NULL, NULL,
     NOT_USED, "Replicas whose catching up is throttled: partition:broker pairs, or * for all."},
    {"index.interval.bytes", TOPIC_INT, "4096", "log.index.interval.bytes", true, 0, INT32_MAX,
     NULL, NULL, USED(index_interval_size), "Bytes of log for one entry of the offset index."},
    {"leader.replication.throttled.replicas", TOPIC_REPLICAS, "", NULL, false, 0, 0, NULL, NULL,
     NOT_USED, "Replicas that a leader serves throttled: partition:broker pairs, or * for all."},
    {"local.retention.bytes", TOPIC_LONG, "-2", "log.local.retention.bytes", true, -2, INT64_MAX,
     NULL, NULL, NOT_USED, "Size kept on local disks with tiered storage; -2: retention.bytes."},
    {"local.retention.ms", TOPIC_LONG, "-2", "log.local.retention.ms", true, -2, INT64_MAX, NULL,
     NULL, NOT_USED, "Time kept on local disks with tiered storage; -2: retention.ms."},
    {"max.compaction.lag.ms", TOPIC_LONG, "9223372036854775807",
     "log.cleaner.max.compaction.lag.ms", true, 1, INT64_MAX, NULL, NULL, NOT_USED,
     "The longest time a record of a compacted topic stays out of compaction."},
    {"max.message.bytes", TOPIC_INT, "1048588", "message.max.bytes", true, 0, INT32_MAX, NULL,
     NULL, USED(message_size_max), "The largest record batch, as it is sent."},
    {"message.timestamp.after.max.ms", TOPIC_LONG, "3600000",
     "log.message.timestamp.after.max.ms", true, 0, INT64_MAX, NULL, NULL,
     USED(timestamp_after_ms_max), "How far ahead of the broker's clock a timestamp may be."},
    {"message.timestamp.before.max.ms", TOPIC_LONG, "9223372036854775807",
     "log.message.timestamp.before.max.ms", true, 0, INT64_MAX, NULL, NULL,
     USED(timestamp_before_ms_max), "How far behind the broker's clock a timestamp may be."},
    {"message.timestamp.type", TOPIC_CHOICE, "CreateTime", "log.message.timestamp.type", true, 0,
     0, "CreateTime,LogAppendTime", NULL, USED(log_append_time),
     "Whose clock timestamps are: the producer's, or the broker's at the append."},
    {"min.cleanable.dirty.ratio", TOPIC_DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", true, 0,
     1, NULL, NULL, NOT_USED, "The share of uncompacted bytes that starts a compaction."},
    {"min.compaction.lag.ms", TOPIC_LONG, "0", "log.cleaner.min.compaction.lag.ms", true, 0,
     INT64_MAX, NULL, NULL, NOT_USED,
     "The shortest time a record of a compacted topic stays out of compaction."},
    {"min.insync.replicas", TOPIC_INT, "1", "min.insync.replicas", true, 1, INT32_MAX, NULL, NULL,
     USED(min_insync_replicas), "Replicas in sync that acks=all needs; at most all there are."},
    {"preallocate", TOPIC_BOOL, "false", "log.preallocate", true, 0, 0, NULL, NULL, NOT_USED,
     "Whether a new segment's file gets its full size at once."},
    {"remote.log.copy.disable", TOPIC_BOOL, "false", NULL, false, 0, 0, NULL, NULL, NOT_USED,
     "Whether tiered data becomes read-only."},
    {"remote.log.delete.on.disable", TOPIC_BOOL, "false", NULL, false, 0, 0, NULL, NULL, NOT_USED,
     "Whether tiered data is deleted when tiered storage is turned off."},
    {"remote.storage.enable", TOPIC_BOOL, "false", NULL, false, 0, 0, NULL, "true", NOT_USED,
     "Tiered storage, which this broker has not."},
    {"retention.bytes", TOPIC_LONG, "-1", "log.retention.bytes", true, INT64_MIN, INT64_MAX, NULL,
     NULL, USED(retention_size),
     "The size a partition is cut to under the delete policy; -1: no limit."},
    {"retention.ms", TOPIC_LONG, "604800000", "log.retention.ms", false, -1, INT64_MAX, NULL, NULL,
     USED(retention_ms), "The age at which records go under the delete policy; -1: no limit."},
    {"segment.bytes", TOPIC_INT, "1073741824", "log.segment.bytes", true, 1048576, INT32_MAX, NULL,
     NULL, USED(segment_size), "The size at which a new segment starts."},
    {"segment.index.bytes", TOPIC_INT, "10485760", "log.index.size.max.bytes", true, 4, INT32_MAX,
     NULL, NULL, NOT_USED, "The size of an index file; here it grows as it needs."},
    {"segment.jitter.ms", TOPIC_LONG, "0", "log.roll.jitter.ms", false, 0, INT64_MAX, NULL, NULL,
     USED(segment_jitter_ms),
     "A random part taken off segment.ms, so that not all segments start at once."},
    {"segment.ms", TOPIC_LONG, "604800000", "log.roll.ms", false, 1, INT64_MAX, NULL, NULL,
     USED(segment_ms), "The age at which a new segment starts."},
    {"unclean.leader.election.enable", TOPIC_BOOL, "false", "unclean.leader.election.enable", true,
     0, 0, NULL, NULL, NOT_USED,
     "Whether a replica that is not in sync may lead, at the price of records."},
};
/* clang-format on */

const struct topic_key *topic_config_keys(size_t *count)
{
    *count = COUNT_OF(topic_keys);
    return topic_keys;
}

const struct topic_key *topic_config_find(struct bytes name)
{
    for (size_t i = 0; i < COUNT_OF(topic_keys); i++) {
        if (bytes_equal(bytes_of(topic_keys[i].name), name)) {
            return &topic_keys[i];
        }
    }
    return NULL;
}

const struct topic_key *topic_config_find_synonym(struct bytes broker_name)
{
    for (size_t i = 0; i < COUNT_OF(topic_keys); i++) {
        if (topic_keys[i].synonym != NULL &&
            bytes_equal(bytes_of(topic_keys[i].synonym), broker_name)) {
            return &topic_keys[i];
        }
    }
    return NULL;
}

void topic_config_preset(const struct topic_key *key, const struct broker_config *broker,
                         char *text, size_t size)
{
    const struct config_key *broker_key =
        key->synonym == NULL ? NULL : broker_config_find(bytes_of(key->synonym));
    if (broker_key != NULL) {
        broker_config_value(broker, broker_key, text, size);
    } else {
        snprintf(text, size, "%s", key->preset);
    }
}

/* True when `item` is one of the comma-separated words of `list`. */
static bool word_is_in(const char *list, const char *item, size_t item_size)
{
    while (list != NULL && *list != '\0') {
        size_t size = strcspn(list, ",");
        if (size == item_size && memcmp(list, item, size) == 0) {
            return true;
        }
        list += size + (list[size] == ',' ? 1 : 0);
    }
    return false;
}

static status value_fail(const struct topic_key *key, const char *value, const char *why,
                         char *message, size_t message_size)
{
    snprintf(message, message_size, "Invalid value %s for configuration %s: %s", value, key->name,
             why);
    return STATUS(INVALID);
}

static status check_number(const struct topic_key *key, const char *value, int64_t *number,
                           char *message, size_t message_size)
{
    char *end;
    char why[128];
    bool is_int = key->type == TOPIC_INT;
    errno = 0;
    *number = strtoll(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 ||
        (is_int && (*number < INT32_MIN || *number > INT32_MAX))) {
        snprintf(why, sizeof(why), "Not a number of type %s", is_int ? "INT" : "LONG");
        return value_fail(key, value, why, message, message_size);
    }
    if (key->offset == USED(gzip_level) && *number == 0) {
        return value_fail(key, value, "Value must be between 1 and 9 or equal to -1", message,
                          message_size);
    }
    if (*number < key->min) {
        snprintf(why, sizeof(why), "Value must be at least %" PRId64, key->min);
        return value_fail(key, value, why, message, message_size);
    }
    if (*number > key->max) {
        snprintf(why, sizeof(why), "Value must be no more than %" PRId64, key->max);
        return value_fail(key, value, why, message, message_size);
    }
    return OK;
}

static status check_double(const struct topic_key *key, const char *value, char *message,
                           size_t message_size)
{
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end != '\0' || !(number >= (double)key->min) ||
        !(number <= (double)key->max)) {
        return value_fail(key, value, "Not a number in range", message, message_size);
    }
    return OK;
}

static status check_words(const struct topic_key *key, const char *value, char *message,
                          size_t message_size)
{
    const char *at = value;
    if (key->type == TOPIC_LIST && *value == '\0') {
        return OK;
    }
    do {
        size_t size = key->type == TOPIC_LIST ? strcspn(at, ",") : strlen(at);
        if (key->choices != NULL && !word_is_in(key->choices, at, size)) {
            char why[128];
            snprintf(why, sizeof(why), "String must be one of: %s", key->choices);
            return value_fail(key, value, why, message, message_size);
        }
        if (word_is_in(key->refused, at, size)) {
            return value_fail(key, value, "Not supported by this broker", message, message_size);
        }
        at += size;
    } while (*at++ == ',');
    return OK;
}

/* "*", or numbers in pairs: 0:1,1:1. */
static status check_replicas(const struct topic_key *key, const char *value, char *message,
                             size_t message_size)
{
    static const char why[] = "must be the literal '*' or a list of replicas in the following "
                              "format: [partitionId]:[brokerId],[partitionId]:[brokerId],...";
    const char *at = value;
    if (*value == '\0' || strcmp(value, "*") == 0) {
        return OK;
    }
    do {
        size_t partition = strspn(at, "0123456789");
        size_t broker = at[partition] == ':' ? strspn(at + partition + 1, "0123456789") : 0;
        if (partition == 0 || broker == 0) {
            return value_fail(key, value, why, message, message_size);
        }
        at += partition + 1 + broker;
    } while (*at++ == ',');
    return at[-1] == '\0' ? OK : value_fail(key, value, why, message, message_size);
}

static status check_value(const struct topic_key *key, const char *value, int64_t *number,
                          char *message, size_t message_size)
{
    *number = 0;
    switch (key->type) {
    case TOPIC_LONG:
    case TOPIC_INT:
        return check_number(key, value, number, message, message_size);
    case TOPIC_DOUBLE:
        return check_double(key, value, message, message_size);
    case TOPIC_BOOL:
        if (strcasecmp(value, "true") != 0 && strcasecmp(value, "false") != 0) {
            return value_fail(key, value, "Expected value to be either true or false", message,
                              message_size);
        }
        if (word_is_in(key->refused, value, strlen(value))) {
            return value_fail(key, value, "Not supported by this broker", message, message_size);
        }
        return OK;
    case TOPIC_REPLICAS:
        return check_replicas(key, value, message, message_size);
    case TOPIC_CHOICE:
    case TOPIC_LIST:
        return check_words(key, value, message, message_size);
    }
    return STATUS(INVALID);
}

/* Appends the word to a list of `size` bytes in all, unless it stands there. */
static bool word_add(char *list, size_t size, const char *word, size_t word_size)
{
    size_t used = strlen(list);
    if (word_size == 0 || word_is_in(list, word, word_size)) {
        return true;
    }
    if (used + word_size + 2 > size) {
        return false;
    }
    snprintf(list + used, size - used, "%s%.*s", used == 0 ? "" : ",", (int)word_size, word);
    return true;
}

bool config_list_merge(char *list, size_t size, const char *more)
{
    while (*more != '\0') {
        size_t word_size = strcspn(more, ",");
        size_t blanks = strspn(more, " \t");
        size_t end = word_size;
        while (end > blanks && (more[end - 1] == ' ' || more[end - 1] == '\t')) {
            end--;
        }
        if (end > blanks && !word_add(list, size, more + blanks, end - blanks)) {
            return false;
        }
        more += word_size + (more[word_size] == ',' ? 1 : 0);
    }
    return true;
}

void config_list_subtract(char *list, const char *less)
{
    char *to = list;
    const char *at = list;
    while (*at != '\0') {
        size_t size = strcspn(at, ",");
        size_t step = size + (at[size] == ',' ? 1 : 0);
        if (!word_is_in(less, at, size)) {
            if (to != list) {
                *to++ = ',';
            }
            memmove(to, at, size);
            to += size;
        }
        at += step;
    }
    *to = '\0';
}

/* Blanks around a value do not count; a list is taken without repetitions. */
static status value_tidy(bool is_list, struct bytes value, char *text, size_t size)
{
    while (value.size > 0 && isspace(value.data[0])) {
        value.data++;
        value.size--;
    }
    while (value.size > 0 && isspace(value.data[value.size - 1])) {
        value.size--;
    }
    if (value.size >= size || (value.size > 0 && memchr(value.data, 0, value.size) != NULL)) {
        return STATUS(INVALID);
    }
    char plain[VALUE_SIZE_MAX];
    snprintf(plain, sizeof(plain), "%.*s", (int)value.size,
             value.size == 0 ? "" : (const char *)value.data);
    text[0] = '\0';
    if (is_list) {
        return config_list_merge(text, size, plain) ? OK : STATUS(INVALID);
    }
    memcpy(text, plain, value.size + 1);
    return OK;
}

bool topic_key_is_list(const struct topic_key *key)
{
    return key->type == TOPIC_LIST || key->type == TOPIC_REPLICAS;
}

status topic_config_tidy(const struct topic_key *key, struct bytes value,
                         char text[CONFIG_TOPIC_VALUE_SIZE], char *message, size_t message_size)
{
    int64_t number;
    if (!status_is_ok(value_tidy(topic_key_is_list(key), value, text, VALUE_SIZE_MAX))) {
        snprintf(message, message_size, "The value of %s is too long or holds a NUL", key->name);
        return STATUS(INVALID);
    }
    return check_value(key, text, &number, message, message_size);
}

/* The value was checked: what is no codec is uncompressed or producer. */
static int64_t compression_of(const char *value)
{
    for (int codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        if (strcmp(value, codec_name((enum codec)codec)) == 0) {
            return codec;
        }
    }
    return strcmp(value, "uncompressed") == 0 ? CODEC_NONE : COMPRESSION_AS_SENT;
}

static void take_over(struct topic_config *config, const struct topic_key *key, const char *value,
                      int64_t number)
{
    if (key->offset == NOT_USED) {
        return;
    }
    if (key->offset == USED(compacted)) {
        config->compacted = strstr(value, "compact") != NULL;
        config->deleted = strstr(value, "delete") != NULL;
    } else if (key->offset == USED(compression)) {
        config->compression = compression_of(value);
    } else if (key->offset == USED(log_append_time)) {
        config->log_append_time = strcmp(value, "LogAppendTime") == 0;
    } else {
        memcpy((char *)config + key->offset, &number, sizeof(number));
    }
}

void topic_config_init(struct topic_config *config, const struct broker_config *broker)
{
    char value[VALUE_SIZE_MAX];
    char message[256];
    *config = (struct topic_config){0};
    for (size_t i = 0; i < COUNT_OF(topic_keys); i++) {
        const struct topic_key *key = &topic_keys[i];
        int64_t number;
        topic_config_preset(key, broker, value, sizeof(value));
        /* Judged when it was read; the simulator's segments are smaller than what is let in there.
         */
        (void)!status_is_ok(check_value(key, value, &number, message, sizeof(message)));
        take_over(config, key, value, number);
    }
}

status topic_config_set(struct topic_config *config, struct bytes name, struct bytes value,
                        char *message, size_t message_size)
{
    const struct topic_key *key = topic_config_find(name);
    char text[VALUE_SIZE_MAX];
    if (key == NULL) {
        snprintf(message, message_size, "Unknown topic config name: %.*s",
                 (int)MIN(name.size, 200U), name.data == NULL ? "" : (const char *)name.data);
        return STATUS(NOT_FOUND);
    }
    if (bytes_is_null(value)) {
        snprintf(message, message_size, "Null value not supported for topic configs: %s",
                 key->name);
        return STATUS(INVALID);
    }
    TRY(topic_config_tidy(key, value, text, message, message_size));
    int64_t number;
    TRY(check_value(key, text, &number, message, message_size));
    take_over(config, key, text, number);
    return OK;
}

int topic_config_level(const struct topic_config *config)
{
    switch (config->compression) {
    case CODEC_GZIP:
        return (int)config->gzip_level;
    case CODEC_LZ4:
        return (int)config->lz4_level;
    case CODEC_ZSTD:
        return (int)config->zstd_level;
    default:
        return INT32_MIN; /* no level to choose */
    }
}

struct partition_config topic_config_of_partition(const struct topic_config *config)
{
    return (struct partition_config){
        .segment_size = (uint32_t)config->segment_size,
        .segment_ms = config->segment_ms,
        .index_interval_size = (uint32_t)config->index_interval_size,
        .segment_jitter_ms = config->segment_jitter_ms,
        .is_deleted = config->deleted,
        .retention_ms = config->retention_ms,
        .retention_size = config->retention_size,
    };
}
