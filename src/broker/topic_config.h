/* The configuration of topics: Kafka's names, types, defaults and bounds in one table. */
#ifndef TWINLOG_BROKER_TOPIC_CONFIG_H
#define TWINLOG_BROKER_TOPIC_CONFIG_H

#include "twinlog/broker/config.h"
#include "twinlog/log/log.h"
#include "twinlog/protocol/batch.h"

/* What the broker acts on; the other settings are kept as text only. */
struct topic_config {
    int64_t message_size_max;
    int64_t segment_size;
    int64_t segment_ms;
    int64_t index_interval_size;
    int64_t timestamp_before_ms_max;
    int64_t timestamp_after_ms_max;
    int64_t min_insync_replicas;
    bool compacted;
    bool log_append_time;
};

enum topic_value { TOPIC_LONG, TOPIC_INT, TOPIC_DOUBLE, TOPIC_BOOL, TOPIC_CHOICE, TOPIC_LIST };

struct topic_key {
    const char *name;
    enum topic_value type;
    const char *preset;     /* as text, when no broker setting gives it */
    const char *broker_key; /* the broker's setting that is the default, or NULL */
    int64_t min;
    int64_t max;
    const char *choices; /* comma-separated, of CHOICE and LIST; NULL: anything */
    const char *refused; /* comma-separated values that Kafka has and this broker has not */
    size_t offset;       /* in struct topic_config; SIZE_MAX: kept as text only */
};

/* All keys; the count is in *count. */
const struct topic_key *topic_config_keys(size_t *count);

/* NULL when there is no such key. */
const struct topic_key *topic_config_find(struct bytes name);

/* The default of a key as text, at most `size` bytes with the NUL. */
void topic_config_preset(const struct topic_key *key, const struct broker_config *broker,
                         char *text, size_t size);

/* Sets all defaults. */
void topic_config_init(struct topic_config *config, const struct broker_config *broker);

/*
 * Checks `value` and takes it over. INVALID: `message` says why. NOT_FOUND: no such key; `message`
 * says so.
 */
MUST_USE status topic_config_set(struct topic_config *config, struct bytes name, struct bytes value,
                                 char *message, size_t message_size);

/* What the log needs of it. */
struct partition_config topic_config_of_partition(const struct topic_config *config);

#endif
