/*
 * The broker's configuration: Kafka's names where the meaning is Kafka's, `twinlog.*` for its own.
 * Read once at start, constant afterwards; no thread owns it.
 *
 * The file has the syntax of Java properties: comments with # or !, `key=value`, `key: value` or
 * `key value`, a backslash continues a line, \n \t \r \f \\ \: \= and \uXXXX are escapes, UTF-8.
 */
#ifndef TWINLOG_BROKER_CONFIG_H
#define TWINLOG_BROKER_CONFIG_H

#include "twinlog/core/bytes.h"
#include "twinlog/core/status.h"
#include "twinlog/io/disk.h"

#define CONFIG_VALUE_SIZE_MAX 4096u
#define CONFIG_HOST_SIZE_MAX  256u
#define CONFIG_KEY_COUNT_MAX  64u

struct broker_config {
    /* where and who */
    char listeners[CONFIG_VALUE_SIZE_MAX];
    char advertised_listeners[CONFIG_VALUE_SIZE_MAX];
    char protocol_map[CONFIG_VALUE_SIZE_MAX];
    char controller_names[CONFIG_VALUE_SIZE_MAX];
    char log_dir[CONFIG_VALUE_SIZE_MAX];
    char rack[CONFIG_HOST_SIZE_MAX];
    int64_t node_id;
    /* derived from the listeners */
    char host[CONFIG_HOST_SIZE_MAX]; /* numeric, to listen on */
    uint16_t port;
    char advertised_host[CONFIG_HOST_SIZE_MAX];
    uint16_t advertised_port; /* 0: the port in use */
    /* topics */
    int64_t num_partitions;
    int64_t default_replication_factor;
    int64_t min_insync_replicas;
    bool auto_create_topics;
    bool delete_topics;
    int64_t message_size_max;
    int64_t segment_size;
    int64_t segment_ms;
    int64_t segment_jitter_ms;
    int64_t retention_ms;
    int64_t retention_size;
    int64_t retention_check_ms;
    int64_t producer_expiration_ms;
    int64_t producer_check_ms;
    int64_t index_interval_size;
    char timestamp_type[CONFIG_HOST_SIZE_MAX];
    int64_t timestamp_before_ms_max;
    int64_t timestamp_after_ms_max;
    char compression_type[CONFIG_HOST_SIZE_MAX];
    int64_t gzip_level;
    int64_t lz4_level;
    int64_t zstd_level;
    char cleanup_policy[CONFIG_HOST_SIZE_MAX];
    /* requests */
    int64_t request_size_max;
    int64_t queued_request_size_max;
    int64_t connection_idle_ms_max;
    int64_t connection_count_max;
    int64_t connection_per_ip_max;
    int64_t fetch_size_max;
    int64_t fetch_memory_size;
    int64_t fetch_session_slots;
    int64_t producer_id_block_size;
    int64_t batch_opened_size_max;
    /* the log */
    int64_t shard_count;
    int64_t journal_size;
    int64_t journal_writes_in_flight;
    int64_t journal_frame_size_max;
    int64_t chunk_size;
    int64_t chunk_memory_size;
    int64_t checkpoint_idle_ms;
    int64_t disk_reserve_size;
    int64_t scrub_interval_ms;
    int64_t scrub_rate;
    /* for monitoring */
    char http_listener[CONFIG_HOST_SIZE_MAX];
    char http_host[CONFIG_HOST_SIZE_MAX]; /* derived: numeric */
    uint16_t http_port;
    uint64_t given;                      /* a bit for each key that a file or an override has set */
    int64_t units[CONFIG_KEY_COUNT_MAX]; /* by key: of the name that set it; 0: none did */
};

enum config_type {
    CONFIG_BOOL,
    CONFIG_STRING,
    CONFIG_INT,
    CONFIG_LONG,
    CONFIG_LIST,
    CONFIG_SHORT, /* only of Kafka's settings that have no meaning here, as the next */
    CONFIG_DOUBLE,
};

/* One key the broker honours. */
struct config_key {
    const char *name;
    enum config_type type;
    const char *preset; /* the default, as text */
    int64_t min;        /* of numbers */
    int64_t max;
    size_t offset; /* in struct broker_config */
    size_t size;   /* of a string field */
    const char *meaning;
};

/* All honoured keys; the count is in *count. */
const struct config_key *broker_config_keys(size_t *count);

/* NULL when no honoured key has this name. */
const struct config_key *broker_config_find(struct bytes name);

/* True when a file or an override has set the key, be it to its default. */
bool broker_config_is_given(const struct broker_config *config, const struct config_key *key);

/* The current value of a key as text, at most `size` bytes with the NUL. */
void broker_config_value(const struct broker_config *config, const struct config_key *key,
                         char *text, size_t size);

/* What reading found, as whole sentences for the operator; empty when there is nothing to say. */
struct config_report {
    char error[1024];   /* the first error: key, value, remedy */
    char ignored[2048]; /* keys without meaning here, separated by ", " */
    bool ignored_cut;   /* there were more than fit */
};

/* All defaults. */
void broker_config_init(struct broker_config *config);

/* Takes over the settings of a properties text. INVALID: report->error says what and the remedy. */
MUST_USE status broker_config_parse(struct broker_config *config, struct bytes text,
                                    struct config_report *report);

/* Sets one key from `key=value`, as --override gives it. INVALID as above. */
MUST_USE status broker_config_override(struct broker_config *config, const char *assignment,
                                       struct config_report *report);

/* Checks what depends on several keys and derives the addresses; the last step. INVALID as above.
 */
MUST_USE status broker_config_finish(struct broker_config *config, struct config_report *report);

/* Reads a file of at most 1 MiB and parses it. NOT_FOUND, PERMISSION, IO, TOO_LARGE, INVALID. */
MUST_USE status broker_config_load(struct broker_config *config, struct io_disk *disk,
                                   const char *path, struct config_report *report);

#endif
