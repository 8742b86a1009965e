/*
 * A shard: one loop with its connections, its log and the image of the cluster; and a request on
 * its way through a handler. Everything here lives on the shard's loop.
 */
#ifndef TWINLOG_BROKER_SHARD_H
#define TWINLOG_BROKER_SHARD_H

#include "twinlog/broker/broker.h"
#include "twinlog/protocol/codec.h"
#include "twinlog/protocol/kafka_error.h"
#include "twinlog/protocol/messages.h"

#include "fetch_session.h"
#include "metadata.h"
#include "metrics.h"

struct shard {
    struct broker *broker;
    struct io *io;
    const struct broker_config *config;
    struct log *log;
    struct net_server *server;
    struct metadata metadata;
    struct arena scratch; /* of the handler that runs; reset behind it */
    int32_t node_id;
    char cluster_id[UUID_TEXT_SIZE];
    /* Requests that wait for room in the log, first come first served. */
    struct list room_waits;
    /* Batches that wait for a helper thread, and the slots that are taken (openings.h). */
    struct list opening_waits;
    uint32_t opening_count;
    /* Requests that wait for a block of producer ids. */
    struct list producer_id_waits;
    struct log_wait producer_id_wait;
    int64_t producer_id_next;
    int64_t producer_id_end;
    bool producer_id_reserving;
    /* Fetches: those that wait for records, and those that wait for memory. */
    struct list fetch_waits;
    struct list fetch_memory_waits;
    uint64_t fetch_memory;
    struct fetch_sessions fetch_sessions;
    struct shard_metrics metrics;
    bool log_open; /* log_open() is done */
    bool offline;
    bool disk_full;
    bool stopping;
    bool crashed;           /* broker_abandon(): the loop and the log's waits are gone */
    status metadata_result; /* the first record of the metadata log that could not be applied */
};

/* An answer up to this size needs no memory of its own. */
#define REQUEST_INLINE_ANSWER_SIZE 512u

/* One request. Its memory is net's; see net_request for when it is freed. */
struct request {
    struct net_request net; /* first */
    struct shard *shard;
    const struct api_entry *entry;
    int16_t version;
    int32_t correlation_id;
    int64_t arrived_ns;    /* the turn's time; 0: not counted */
    struct bytes body;     /* behind the header; valid as long as the frame */
    struct list_node link; /* the handler's */
    struct log_wait wait;
    void (*resume)(struct request *request);  /* when there is room in the log */
    void (*cleanup)(struct request *request); /* of the handler's state; may be NULL */
    void *state;
    uint8_t *answer;    /* when it does not fit inline */
    struct arena arena; /* for what must outlive the handler's call */
    bool arena_in_use;
    /* Last, and not zeroed: it is written by the answer. */
    uint8_t inline_answer[REQUEST_INLINE_ANSWER_SIZE];
};

/* A handler answers, or arranges that the request is answered later. */
typedef enum net_verdict (*handler_fn)(struct shard *shard, struct request *request);

struct api_entry {
    int16_t key;
    int16_t version_min; /* that is served; what is advertised may begin lower */
    int16_t version_max;
    bool pipelined; /* may start while earlier requests of the connection wait */
    bool keeps;     /* works on its frame after the call */
    handler_fn handler;
    const struct api *api; /* set by dispatch_check */
};

/*
 * What may be done (KIP-430), a bit per AclOperation: everything, as nothing is forbidden here.
 * Topics: READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS. Clusters:
 * CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE.
 */
#define TOPIC_OPERATIONS   3576
#define CLUSTER_OPERATIONS 8096

/* The port clients are told. */
int32_t shard_advertised_port(const struct shard *shard);

/* ---------------------------------------------------------------- dispatch.c */

/* The APIs served, ascending by key. */
const struct api_entry *dispatch_table(size_t *count);

/* NULL when the key is not served. */
const struct api_entry *dispatch_find(int16_t key);

/* True when every entry agrees with the schema; the first that does not is on the trace. */
MUST_USE bool dispatch_check(void);

/* net_options.on_request */
enum net_verdict dispatch_request(void *context, struct net_request *net, struct bytes frame);

/* ---------------------------------------------------------------- respond.c */

/* The request's own arena, made on first use. */
struct arena *request_arena(struct request *request);

/* Decodes the body into `message` with arrays in `arena`. On failure the reason is traced. */
MUST_USE status request_decode(struct request *request, struct arena *arena, void *message);

/* Encodes the answer into the request. On failure the reason is traced. */
MUST_USE status request_encode(struct request *request, const void *message);

/*
 * The same, with up to `range_count` ranges that refer to records of `referenced_size` bytes in
 * all, each larger than `copy_max`.
 */
MUST_USE status request_encode_ranges(struct request *request, const void *message,
                                      uint32_t range_count, uint64_t referenced_size,
                                      uint32_t copy_max);

/* Encodes and answers; closes the connection when that cannot be done. */
enum net_verdict request_respond(struct request *request, const void *message);

/* Closes the connection of a request that is taken already. */
void request_close(struct request *request, const char *why);

/* A closed connection with its reason on the trace, for a request that is not taken yet. */
enum net_verdict request_refuse(struct request *request, const char *why);

/* Puts the request in line for room in the log; `resume` runs when it is its turn. */
void request_wait_room(struct request *request, void (*resume)(struct request *request));

/* ---------------------------------------------------------------- errors.c */

/* The Kafka error for a status of the log or of I/O. */
enum kafka_error error_of_status(status result);

/* The Kafka error for a verdict on a batch; NONE for appended and duplicate. */
enum kafka_error error_of_verdict(enum log_verdict verdict);

/* Judges a client's current leader epoch (-1: it does not know): KIP-320. */
enum kafka_error error_of_leader_epoch(int32_t current_leader_epoch, int32_t leader_epoch);

/* ---------------------------------------------------------------- topic_change.c */

/*
 * Appends one record to the metadata log as a batch of its own, so that it is there whole or not at
 * all; records appended in one turn share a synced write. *lsn is raised to its LSN. FULL, OFFLINE,
 * TOO_LARGE, NO_MEMORY: it is not appended.
 */
MUST_USE status metadata_append(struct shard *shard, enum record_type type,
                                const struct message_type *message_type, const void *record,
                                uint64_t *lsn);

/* One topic to create, with its values checked. */
struct topic_creation {
    struct bytes name;
    int32_t partition_count;
    struct topic_record_config *configs;
    int32_t config_count;
    struct uuid id; /* out */
};

/*
 * Checks that a topic of this name may come to be; *message is static or in `arena`. When the
 * verdict rests on a change that is not committed, *lsn is raised to that change's.
 */
enum kafka_error topic_name_check(struct shard *shard, struct bytes name, struct arena *arena,
                                  const char **message, uint64_t *lsn);

/* Appends the topic's record and notes the name as pending. Statuses of metadata_append(). */
MUST_USE status topic_create_append(struct shard *shard, struct topic_creation *creation,
                                    uint64_t *lsn);

/* How often a name stands in one request. */
enum name_use {
    NAME_ONCE,
    NAME_TWICE, /* the first of several */
    NAME_AGAIN, /* one of the others */
};

/*
 * Judges each of `count` names, in time that grows with n log n: a request may hold millions. Null
 * names differ from all. NULL when memory is out.
 */
const enum name_use *names_judge(struct arena *arena, const struct bytes *names, size_t count);

/* printf into the arena; a static text when it is full. */
const char *arena_printf(struct arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);

/* ---------------------------------------------------------------- fetch and producer ids */

/* Answers every waiting fetch with what there is; for shutdown. */
void fetch_finish_all(struct shard *shard);

/* ---------------------------------------------------------------- handlers/ */

enum net_verdict handle_alter_configs(struct shard *shard, struct request *request);
enum net_verdict handle_api_versions(struct shard *shard, struct request *request);
enum net_verdict handle_create_partitions(struct shard *shard, struct request *request);
enum net_verdict handle_create_topics(struct shard *shard, struct request *request);
enum net_verdict handle_delete_records(struct shard *shard, struct request *request);
enum net_verdict handle_delete_topics(struct shard *shard, struct request *request);
enum net_verdict handle_describe_cluster(struct shard *shard, struct request *request);
enum net_verdict handle_describe_configs(struct shard *shard, struct request *request);
enum net_verdict handle_describe_log_dirs(struct shard *shard, struct request *request);
enum net_verdict handle_describe_producers(struct shard *shard, struct request *request);
enum net_verdict handle_describe_topic_partitions(struct shard *shard, struct request *request);
enum net_verdict handle_fetch(struct shard *shard, struct request *request);
enum net_verdict handle_find_coordinator(struct shard *shard, struct request *request);
enum net_verdict handle_incremental_alter_configs(struct shard *shard, struct request *request);
enum net_verdict handle_init_producer_id(struct shard *shard, struct request *request);
enum net_verdict handle_list_offsets(struct shard *shard, struct request *request);
enum net_verdict handle_metadata(struct shard *shard, struct request *request);
enum net_verdict handle_offset_for_leader_epoch(struct shard *shard, struct request *request);
enum net_verdict handle_produce(struct shard *shard, struct request *request);

/* An ApiVersions request whose version is not known is answered in version 0 (KIP-511). */
enum net_verdict answer_unknown_api_versions(struct shard *shard, struct request *request);

#endif
