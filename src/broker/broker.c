/* Start and stop of a broker, and what the log tells it. */
#include <stdlib.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/trace.h"

#include "shard.h"

#define SCRATCH_SIZE_MAX ((size_t)256 * 1024 * 1024)
#define STOP_GRACE_MS    5000

/* Of all fetch sessions together: about 150 bytes each. */
#define FETCH_SESSION_PARTITIONS_MAX 500000u

struct broker {
    struct shard shard;
    void (*stop_done)(void *context, status result);
    void *stop_context;
    bool stopped;
};

int32_t shard_advertised_port(const struct shard *shard)
{
    return shard->config->advertised_port != 0 ? shard->config->advertised_port
                                               : net_server_port(shard->server);
}

/* ---------------------------------------------------------------- what the log tells */

static void shard_on_metadata(void *context, struct bytes batch)
{
    struct shard *shard = context;
    if (!status_is_ok(shard->metadata_result)) {
        return;
    }
    shard->metadata_result = metadata_apply(&shard->metadata, batch);
    if (shard->log_open && !status_is_ok(shard->metadata_result)) {
        /* It was judged when it was appended, so memory is out: the image may not fall behind. */
        trace_error("broker", "the image of the cluster cannot follow its log: stopping");
        abort();
    }
}

/* Whoever waited longest goes first, until one waits again. */
static void shard_resume_room_waits(struct shard *shard)
{
    struct list woken;
    list_init(&woken);
    list_splice(&woken, &shard->room_waits);
    struct list_node *node;
    while ((node = list_pop_front(&woken)) != NULL) {
        struct request *request = CONTAINER_OF(node, struct request, link);
        request->resume(request);
        /* The request may be gone; only one that waits again is in the list, which was empty. */
        if (!list_is_empty(&shard->room_waits)) {
            /* Still no room: it stays first in line, the others behind it. */
            list_splice(&shard->room_waits, &woken);
        }
    }
}

static void shard_on_room(void *context)
{
    shard_resume_room_waits(context);
}

static void shard_on_offline(void *context, status why)
{
    struct shard *shard = context;
    shard->offline = true;
    trace_error("broker",
                "the log of %s is offline (%s): produce is refused, reads go on; mend the disk and "
                "start again",
                shard->config->log_dir, status_text(why));
    shard_resume_room_waits(shard);
}

static void shard_on_disk_full(void *context, bool full)
{
    struct shard *shard = context;
    shard->disk_full = full;
    if (full) {
        trace_warn("broker",
                   "the disk of %s is nearly full: produce is refused until there is room",
                   shard->config->log_dir);
        shard_resume_room_waits(shard); /* Those who wait for the journal are refused as well. */
    } else {
        trace_info("broker", "the disk of %s has room again", shard->config->log_dir);
    }
}

/* ---------------------------------------------------------------- start */

static void shard_init(struct shard *shard, struct broker *broker, struct io *io,
                       const struct broker_config *config)
{
    *shard = (struct shard){
        .broker = broker,
        .io = io,
        .node_id = (int32_t)config->node_id,
        .metadata_result = OK,
    };
    metadata_init(&shard->metadata, config, &shard->log);
    shard->config = &shard->metadata.config;
    arena_init(&shard->scratch, SCRATCH_SIZE_MAX);
    list_init(&shard->room_waits);
    list_init(&shard->opening_waits);
    list_init(&shard->producer_id_waits);
    list_init(&shard->fetch_waits);
    list_init(&shard->fetch_memory_waits);
    fetch_sessions_init(&shard->fetch_sessions, (uint32_t)config->fetch_session_slots,
                        FETCH_SESSION_PARTITIONS_MAX);
}

static void shard_fini(struct shard *shard)
{
    fetch_sessions_fini(&shard->fetch_sessions);
    metadata_fini(&shard->metadata);
    arena_fini(&shard->scratch);
}

/* Before the log is opened, which writes: what is refused stays as it is. */
static status shard_check_directory(struct shard *shard)
{
    struct log_directory directory;
    const char *dir = shard->config->log_dir;
    TRY(log_directory_read(io_disk(shard->io), dir, &directory));
    uuid_format(&directory.cluster_id, shard->cluster_id);
    if (directory.node_id != shard->node_id) {
        trace_error("broker",
                    "%s was formatted for node.id=%d and node.id=%d is configured: "
                    "correct one of them",
                    dir, directory.node_id, shard->node_id);
        return STATUS(MISMATCH);
    }
    return OK;
}

static status shard_open_log(struct shard *shard)
{
    const struct broker_config *config = shard->config;
    struct log_options options = {
        .io = shard->io,
        .dir = config->log_dir,
        .shard = 0,
        .frame_size_max = (uint32_t)config->journal_frame_size_max,
        .writes_in_flight = (uint32_t)config->journal_writes_in_flight,
        .chunk_size = (uint32_t)config->chunk_size,
        .chunk_count = (uint32_t)(config->chunk_memory_size / config->chunk_size),
        .checkpoint_idle_ms = config->checkpoint_idle_ms,
        .disk_reserve_size =
            config->disk_reserve_size < 0 ? 0 : (uint64_t)MAX(config->disk_reserve_size, 1),
        .scrub_interval_ms = config->scrub_interval_ms,
        .scrub_rate = (uint64_t)config->scrub_rate,
        .producer_expiration_ms = config->producer_expiration_ms,
        .producer_check_ms = config->producer_check_ms,
        .retention_check_ms = config->retention_check_ms,
        .events =
            {
                .on_metadata = shard_on_metadata,
                .on_room = shard_on_room,
                .on_offline = shard_on_offline,
                .on_disk_full = shard_on_disk_full,
            },
        .context = shard,
    };
    TRY(shard_check_directory(shard));
    TRY(log_open(&options, &shard->log));
    shard->log_open = true;
    if (!status_is_ok(shard->metadata_result)) {
        return shard->metadata_result;
    }
    shard->producer_id_next = shard->metadata.next_producer_id;
    shard->producer_id_end = shard->metadata.next_producer_id;
    return OK;
}

static status shard_listen(struct shard *shard)
{
    const struct broker_config *config = shard->config;
    struct net_options options = {
        .io = shard->io,
        .host = config->host,
        .port = config->port,
        .request_size = sizeof(struct request),
        .request_zeroed_size = offsetof(struct request, inline_answer),
        .frame_size_max = (uint32_t)config->request_size_max,
        .receive_memory_max = (uint64_t)config->queued_request_size_max,
        .connection_count_max = (uint32_t)config->connection_count_max,
        .connection_per_ip_max = config->connection_per_ip_max == INT32_MAX
                                     ? UINT32_MAX
                                     : (uint32_t)config->connection_per_ip_max,
        .idle_ms_max = config->connection_idle_ms_max,
        .on_request = dispatch_request,
        .context = shard,
    };
    status result = net_server_create(&options, &shard->server);
    if (!status_is_ok(result)) {
        trace_error("broker", "cannot listen on %s port %u: %s; is another broker running there?",
                    config->host, config->port, status_text(result));
    }
    return result;
}

/* The loop does not run yet: nothing is in flight that could complete. */
static void start_close_log(struct shard *shard)
{
    if (shard->log != NULL) {
        log_destroy(shard->log, true);
        shard->log = NULL;
    }
}

status broker_create(struct io *io, const struct broker_config *config, struct broker **out)
{
    ASSERT(config->host[0] != '\0');
    if (!dispatch_check()) {
        return STATUS(INVALID);
    }
    struct broker *broker = calloc(1, sizeof(*broker));
    if (broker == NULL) {
        return STATUS(NO_MEMORY);
    }
    struct shard *shard = &broker->shard;
    shard_init(shard, broker, io, config);
    status result = shard_open_log(shard);
    if (status_is_ok(result)) {
        result = shard_listen(shard);
    }
    if (!status_is_ok(result)) {
        start_close_log(shard);
        shard_fini(shard);
        free(broker);
        return result;
    }
    *out = broker;
    return OK;
}

/* ---------------------------------------------------------------- stop */

static void broker_on_log_closed(void *context, status result)
{
    struct broker *broker = context;
    broker->stopped = true;
    broker->stop_done(broker->stop_context, result);
}

static void broker_on_connections_closed(void *context)
{
    struct broker *broker = context;
    log_close(broker->shard.log, broker_on_log_closed, broker);
}

void broker_stop(struct broker *broker, void (*done)(void *context, status result), void *context)
{
    struct shard *shard = &broker->shard;
    ASSERT(!shard->stopping);
    shard->stopping = true;
    broker->stop_done = done;
    broker->stop_context = context;
    net_server_stop(shard->server, STOP_GRACE_MS, broker_on_connections_closed, broker);
    fetch_finish_all(shard);
}

void broker_destroy(struct broker *broker)
{
    ASSERT(broker->stopped);
    net_server_destroy(broker->shard.server);
    log_destroy(broker->shard.log, false);
    shard_fini(&broker->shard);
    free(broker);
}

void broker_abandon(struct broker *broker)
{
    broker->shard.crashed = true;
    net_server_abandon(broker->shard.server);
    log_destroy(broker->shard.log, true);
    shard_fini(&broker->shard);
    free(broker);
}

/* ---------------------------------------------------------------- facts */

const struct shard *broker_shard(const struct broker *broker)
{
    return &broker->shard;
}

uint16_t broker_port(const struct broker *broker)
{
    return net_server_port(broker->shard.server);
}

void broker_stats_get(const struct broker *broker, struct broker_stats *stats)
{
    const struct shard *shard = &broker->shard;
    *stats = (struct broker_stats){
        .topics = shard->metadata.topic_count,
        .fetch_memory = shard->fetch_memory,
        .offline = shard->offline,
        .disk_full = shard->disk_full,
    };
    net_server_stats(shard->server, &stats->net);
    log_stats_get(shard->log, &stats->log);
    LIST_FOREACH (node, &shard->fetch_waits) {
        stats->waiting_fetches++;
    }
    LIST_FOREACH (node, &shard->room_waits) {
        stats->waiting_for_room++;
    }
}

void broker_check(const struct broker *broker)
{
    const struct shard *shard = &broker->shard;
    ASSERT(HASH_CNT(by_name, shard->metadata.by_name) == shard->metadata.topic_count);
    ASSERT(HASH_CNT(by_id, shard->metadata.by_id) == shard->metadata.topic_count);
    ASSERT(shard->producer_id_next <= shard->producer_id_end);
    ASSERT(shard->producer_id_end <= shard->metadata.next_producer_id);
    ASSERT(list_is_empty(&shard->opening_waits) || shard->opening_count > 0);
    ASSERT(list_is_empty(&shard->fetch_memory_waits) || shard->fetch_memory > 0);
    fetch_sessions_check(&shard->fetch_sessions);
    log_check(shard->log);
}
