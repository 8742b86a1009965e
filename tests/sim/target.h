/*
 * The node under test as its clients see it: requests go in, replies come out, connections break.
 * Behind it stands the log alone (target_log.c) or the whole broker.
 */
#ifndef TWINLOG_TESTS_SIM_TARGET_H
#define TWINLOG_TESTS_SIM_TARGET_H

#include "twinlog/log/log.h"

#include "model.h"

#define TARGET_DIR "/data/twinlog" /* on the node's disk */

enum request_kind {
    REQUEST_PRODUCE,
    REQUEST_FETCH,
    REQUEST_CREATE,
    REQUEST_DELETE,
    REQUEST_LIST,
    REQUEST_PRODUCER_ID,
    REQUEST_OFFSETS,
    REQUEST_TRIM,
    REQUEST_ALTER, /* the broker's, as are those below */
    REQUEST_DESCRIBE,
    REQUEST_SESSION,
    REQUEST_COUNT,
};

enum reply {
    REPLY_OK,
    REPLY_LOST,    /* the connection or the node went: it was done or not */
    REPLY_FAILED,  /* an error that says the same */
    REPLY_REFUSED, /* nothing happened; later it may */
    REPLY_GONE,    /* no such topic or partition */
    REPLY_EXISTS,
    REPLY_OUT_OF_ORDER, /* sequence */
    REPLY_OUT_OF_RANGE, /* offset */
    REPLY_DAMAGED,      /* what was to be read */
    REPLY_NO_SESSION,   /* of this id, or not at this epoch */
};

#define OFFSETS_LATEST   (-1)
#define OFFSETS_EARLIEST (-2)
#define OFFSETS_MAX_TIME (-3)

/* A fetch in a session (KIP-227). */
#define SESSION_PARTITIONS (MODEL_NAMES * MODEL_PARTITIONS_MAX)

struct session_result {
    struct uuid topic_id;
    int32_t partition;
    enum reply reply;
    int64_t high_watermark;
    int64_t log_start;
    uint8_t *data; /* malloc'd; the receiver frees */
    uint32_t size;
};

struct session_fetch {
    int32_t id;
    int32_t epoch;
    struct {
        struct model_partition *partition;
        int64_t offset;
    } added[SESSION_PARTITIONS]; /* or changed */
    uint32_t added_count;
    struct model_partition *forgotten[SESSION_PARTITIONS];
    uint32_t forgotten_count;
    /* out */
    int32_t given_id;
    struct session_result results[SESSION_PARTITIONS];
    uint32_t result_count;
};

/* Caller's; borrowed by the target from submit to done. */
struct request {
    struct list_node link; /* target's */
    enum request_kind kind;
    uint32_t client;
    struct model_topic *topic;
    int32_t partition;
    void (*done)(struct request *request); /* inside a callback of the node or of the client */
    void *context;
    /* produce */
    struct bytes batch;
    bool acks_all;
    bool acks_none; /* no answer: done() never runs and nothing is borrowed */
    /* fetch */
    int64_t offset; /* of a trim too */
    uint32_t size_max;
    struct model_known known; /* caller's: when it was sent */
    /* offsets */
    int64_t timestamp; /* or OFFSETS_ */
    /* alter, describe */
    uint32_t setting;
    int64_t value; /* of describe: out */
    struct session_fetch *session;
    /* out */
    bool is_answered; /* target's */
    enum reply reply;
    int64_t base_offset; /* of offsets: the one found; of a trim: the log start */
    int64_t found_timestamp;
    int64_t high_watermark;
    int64_t log_start;
    uint8_t *data; /* malloc'd; the receiver frees */
    uint32_t size;
    struct uuid topic_id;
    struct model_listed listed[MODEL_NAMES];
    uint32_t listed_count;
    int64_t producer_id;
};

struct target_sizes {
    uint64_t journal_size;
    uint32_t journal_file_count;
    uint32_t frame_size;
    uint32_t writes_in_flight;
    uint32_t chunk_size;
    uint32_t chunk_count;
    uint64_t checkpoint_size;
    int64_t checkpoint_idle_ms;
    struct partition_config partition;
};

/* What was reached, over all lives. */
struct target_coverage {
    uint64_t frames, journal_wraps, checkpoints, written_back_bytes, memory_reads, segment_reads,
        duplicates, waits_for_room, offline, disk_full, replayed, trims, lookups, settings_changed,
        settings_told, session_fetches, session_left_out, sessions_lost, without_acks;
};

struct target;

struct target_ops {
    /* Prepares the directory. Blocking. */
    status (*format)(struct target *target);
    /* Opens on the loop that the node has now. Blocking. */
    status (*start)(struct target *target);
    /* The node crashed: forgets it; requests that are out are lost. */
    void (*crashed)(struct target *target);
    /* Begins a clean shutdown; is_stopped() tells the end of it. Requests that are out end. */
    void (*stop)(struct target *target);
    bool (*is_stopped)(struct target *target);
    /* A write or sync failed and only a restart helps. */
    bool (*is_offline)(struct target *target);
    /* Sends a request; those to produce are answered in order per client. done() runs once, never
     * inside this call. From outside of callbacks only. */
    void (*submit)(struct target *target, struct request *request);
    /* The connection of a client breaks: its requests are lost, told inside this call. */
    void (*disconnect)(struct target *target, uint32_t client);
    /* The log end of a partition, past all protocols; -1: it has none. NULL: not to be had. */
    int64_t (*log_end)(struct target *target, const struct uuid *topic_id, int32_t partition);
    void (*destroy)(struct target *target);
};

struct target {
    const struct target_ops *ops;
    struct sim *sim;
    struct sim_node *node;
    struct target_sizes sizes;
    bool is_broker;
    struct target_coverage coverage;
};

/* The log alone. */
struct target *target_log_create(struct sim *sim, struct sim_node *node,
                                 const struct target_sizes *sizes);

/* The whole broker. */
struct target *target_broker_create(struct sim *sim, struct sim_node *node,
                                    const struct target_sizes *sizes);

#endif
