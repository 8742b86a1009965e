#include "topic_config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/assert.h"

#define NOT_USED       SIZE_MAX
#define USED(member)   offsetof(struct topic_config, member)
#define VALUE_SIZE_MAX 1024u

/* clang-format off */
static const struct topic_key topic_keys[] = {
    {"cleanup.policy", TOPIC_LIST, "delete", "log.cleanup.policy", 0, 0, "delete,compact", NULL,
     USED(compacted)},
    {"compression.gzip.level", TOPIC_INT, "-1", NULL, -1, 9, NULL, NULL, NOT_USED},
    {"compression.lz4.level", TOPIC_INT, "9", NULL, 1, 17, NULL, NULL, NOT_USED},
    {"compression.type", TOPIC_CHOICE, "producer", NULL, 0, 0,
     "producer,uncompressed,gzip,snappy,lz4,zstd", "uncompressed,gzip,snappy,lz4,zstd", NOT_USED},
    {"compression.zstd.level", TOPIC_INT, "3", NULL, -131072, 22, NULL, NULL, NOT_USED},
    {"delete.retention.ms", TOPIC_LONG, "86400000", NULL, 0, INT64_MAX, NULL, NULL, NOT_USED},
    {"file.delete.delay.ms", TOPIC_LONG, "60000", NULL, 0, INT64_MAX, NULL, NULL, NOT_USED},
    {"flush.messages", TOPIC_LONG, "9223372036854775807", NULL, 1, INT64_MAX, NULL, NULL,
     NOT_USED},
    {"flush.ms", TOPIC_LONG, "9223372036854775807", NULL, 0, INT64_MAX, NULL, NULL, NOT_USED},
    {"follower.replication.throttled.replicas", TOPIC_LIST, "", NULL, 0, 0, NULL, NULL, NOT_USED},
    {"index.interval.bytes", TOPIC_INT, "4096", "log.index.interval.bytes", 0, INT32_MAX, NULL,
     NULL, USED(index_interval_size)},
    {"leader.replication.throttled.replicas", TOPIC_LIST, "", NULL, 0, 0, NULL, NULL, NOT_USED},
    {"local.retention.bytes", TOPIC_LONG, "-2", NULL, -2, INT64_MAX, NULL, NULL, NOT_USED},
    {"local.retention.ms", TOPIC_LONG, "-2", NULL, -2, INT64_MAX, NULL, NULL, NOT_USED},
    {"max.compaction.lag.ms", TOPIC_LONG, "9223372036854775807", NULL, 1, INT64_MAX, NULL, NULL,
     NOT_USED},
    {"max.message.bytes", TOPIC_INT, "1048588", "message.max.bytes", 0, INT32_MAX, NULL, NULL,
     USED(message_size_max)},
    {"message.timestamp.after.max.ms", TOPIC_LONG, "3600000",
     "log.message.timestamp.after.max.ms", 0, INT64_MAX, NULL, NULL, USED(timestamp_after_ms_max)},
    {"message.timestamp.before.max.ms", TOPIC_LONG, "9223372036854775807",
     "log.message.timestamp.before.max.ms", 0, INT64_MAX, NULL, NULL,
     USED(timestamp_before_ms_max)},
    {"message.timestamp.type", TOPIC_CHOICE, "CreateTime", "log.message.timestamp.type", 0, 0,
     "CreateTime,LogAppendTime", NULL, USED(log_append_time)},
    {"min.cleanable.dirty.ratio", TOPIC_DOUBLE, "0.5", NULL, 0, 1, NULL, NULL, NOT_USED},
    {"min.compaction.lag.ms", TOPIC_LONG, "0", NULL, 0, INT64_MAX, NULL, NULL, NOT_USED},
    {"min.insync.replicas", TOPIC_INT, "1", "min.insync.replicas", 1, INT32_MAX, NULL, NULL,
     USED(min_insync_replicas)},
    {"preallocate", TOPIC_BOOL, "false", NULL, 0, 0, NULL, NULL, NOT_USED},
    {"remote.log.copy.disable", TOPIC_BOOL, "false", NULL, 0, 0, NULL, NULL, NOT_USED},
    {"remote.log.delete.on.disable", TOPIC_BOOL, "false", NULL, 0, 0, NULL, NULL, NOT_USED},
    {"remote.storage.enable", TOPIC_BOOL, "false", NULL, 0, 0, NULL, "true", NOT_USED},
    {"retention.bytes", TOPIC_LONG, "-1", NULL, INT64_MIN, INT64_MAX, NULL, NULL, NOT_USED},
    {"retention.ms", TOPIC_LONG, "604800000", NULL, -1, INT64_MAX, NULL, NULL, NOT_USED},
    {"segment.bytes", TOPIC_INT, "1073741824", "log.segment.bytes", 1048576, INT32_MAX, NULL, NULL,
     USED(segment_size)},
    {"segment.index.bytes", TOPIC_INT, "10485760", NULL, 4, INT32_MAX, NULL, NULL, NOT_USED},
    {"segment.jitter.ms", TOPIC_LONG, "0", NULL, 0, INT64_MAX, NULL, NULL, NOT_USED},
    {"segment.ms", TOPIC_LONG, "604800000", "log.roll.ms", 1, INT64_MAX, NULL, NULL,
     USED(segment_ms)},
    {"unclean.leader.election.enable", TOPIC_BOOL, "false", NULL, 0, 0, NULL, NULL, NOT_USED},
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

void topic_config_preset(const struct topic_key *key, const struct broker_config *broker,
                         char *text, size_t size)
{
    size_t count;
    const struct config_key *keys = broker_config_keys(&count);
    for (size_t i = 0; key->broker_key != NULL && i < count; i++) {
        if (strcmp(keys[i].name, key->broker_key) == 0) {
            broker_config_value(broker, &keys[i], text, size);
            return;
        }
    }
    snprintf(text, size, "%s", key->preset);
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
    errno = 0;
    *number = strtoll(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0) {
        return value_fail(key, value, "Not a number", message, message_size);
    }
    if (*number < key->min || *number > key->max) {
        char why[128];
        snprintf(why, sizeof(why), "Value must be between %" PRId64 " and %" PRId64, key->min,
                 key->max);
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
    default:
        return check_words(key, value, message, message_size);
    }
}

static void take_over(struct topic_config *config, const struct topic_key *key, const char *value,
                      int64_t number)
{
    if (key->offset == NOT_USED) {
        return;
    }
    if (key->offset == USED(compacted)) {
        config->compacted = strstr(value, "compact") != NULL;
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
        if (status_is_ok(check_value(key, value, &number, message, sizeof(message)))) {
            take_over(config, key, value, number);
        }
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
    if (value.size >= sizeof(text)) {
        snprintf(message, message_size, "Value of %s is too long", key->name);
        return STATUS(INVALID);
    }
    memcpy(text, value.data, value.size);
    text[value.size] = '\0';
    int64_t number;
    TRY(check_value(key, text, &number, message, message_size));
    take_over(config, key, text, number);
    return OK;
}

struct partition_config topic_config_of_partition(const struct topic_config *config)
{
    return (struct partition_config){
        .segment_size = (uint32_t)config->segment_size,
        .segment_ms = config->segment_ms,
        .index_interval_size = (uint32_t)config->index_interval_size,
    };
}
