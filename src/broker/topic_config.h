/* The configuration of topics: Kafka's names, types, defaults and bounds in one table. */
#ifndef TWINLOG_BROKER_TOPIC_CONFIG_H
#define TWINLOG_BROKER_TOPIC_CONFIG_H

#include "twinlog/broker/config.h"
#include "twinlog/log/log.h"
#include "twinlog/protocol/batch.h"

#define COMPRESSION_AS_SENT (-1) /* compression.type=producer */

/* What the broker acts on; the other settings are kept as text only. */
struct topic_config {
    int64_t message_size_max;
    int64_t segment_size;
    int64_t segment_ms;
    int64_t segment_jitter_ms;
    int64_t retention_ms;
    int64_t retention_size;
    int64_t index_interval_size;
    int64_t timestamp_before_ms_max;
    int64_t timestamp_after_ms_max;
    int64_t min_insync_replicas;
    int64_t compression; /* enum codec, or COMPRESSION_AS_SENT */
    int64_t gzip_level;
    int64_t lz4_level;
    int64_t zstd_level;
    bool compacted;
    bool deleted; /* records go by the log start, time or size */
    bool log_append_time;
};

enum topic_value {
    TOPIC_LONG,
    TOPIC_INT,
    TOPIC_DOUBLE,
    TOPIC_BOOL,
    TOPIC_CHOICE,
    TOPIC_LIST,
    TOPIC_REPLICAS, /* a list of partition:broker, or * */
};

#define CONFIG_TOPIC_VALUE_SIZE 1024u /* bytes of a value as text, with the NUL */

struct topic_key {
    const char *name;
    enum topic_value type;
    const char *preset;     /* as text, when no broker setting gives it */
    const char *synonym;    /* Kafka's name of the broker setting that is the default, or NULL */
    bool synonym_is_preset; /* that setting has a default of its own in Kafka */
    int64_t min;
    int64_t max;
    const char *choices; /* comma-separated, of CHOICE and LIST; NULL: anything */
    const char *refused; /* comma-separated values that Kafka has and this broker has not */
    size_t offset;       /* in struct topic_config; SIZE_MAX: kept as text only */
    const char *meaning;
};

/* All keys; the count is in *count. */
const struct topic_key *topic_config_keys(size_t *count);

/* NULL when there is no such key. */
const struct topic_key *topic_config_find(struct bytes name);

/* The key whose default the broker setting of this name is; NULL when there is none. */
const struct topic_key *topic_config_find_synonym(struct bytes broker_name);

/* True when its value is a list, which can be appended to and subtracted from. */
bool topic_key_is_list(const struct topic_key *key);

/* Adds the words of `more` to a comma-separated list of `size` bytes. False: it does not fit. */
MUST_USE bool config_list_merge(char *list, size_t size, const char *more);

/* Takes the words of `less` out of a comma-separated list. */
void config_list_subtract(char *list, const char *less);

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

/* Checks a value and gives it as it is kept: without blanks around it. INVALID as above. */
MUST_USE status topic_config_tidy(const struct topic_key *key, struct bytes value,
                                  char text[CONFIG_TOPIC_VALUE_SIZE], char *message,
                                  size_t message_size);

/* The level for its compression, as codec_compress() takes it. */
int topic_config_level(const struct topic_config *config);

/* What the log needs of it. */
struct partition_config topic_config_of_partition(const struct topic_config *config);

#endif
