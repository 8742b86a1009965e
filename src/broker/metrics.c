/*
 * The metrics of a broker. Each partition is listed while there are at most PARTITION_ROWS_MAX of
 * them; above, a scrape would cost more than it tells, and the totals remain.
 */
#include "twinlog/broker/metrics.h"

#include <stdio.h>
#include <stdlib.h>

#include "shard.h"

#define PARTITION_ROWS_MAX 1000u

struct partition_row {
    char topic[TOPIC_NAME_SIZE_MAX + 1];
    int32_t index;
    struct partition_offsets offsets;
    uint64_t size;
};

struct broker_metrics {
    struct broker_stats stats;
    struct io_stats io;
    struct shard_metrics shard;
    uint64_t fetch_sessions;
    uint64_t fetch_session_partitions;
    uint64_t fetch_session_evictions;
    int64_t next_producer_id;
    bool stopping;
    uint32_t row_count;
    struct partition_row rows[];
};

/* ---------------------------------------------------------------- the snapshot */

static void rows_fill(struct broker_metrics *metrics, const struct shard *shard, size_t count_max)
{
    for (const struct topic *topic = shard->metadata.by_name; topic != NULL;
         topic = topic->by_name.next) {
        for (int32_t i = 0; i < topic->partition_count; i++) {
            const struct partition *partition = topic_partition(topic, i);
            if (partition == NULL || metrics->row_count == count_max) {
                continue;
            }
            struct partition_row *row = &metrics->rows[metrics->row_count++];
            snprintf(row->topic, sizeof(row->topic), "%s", topic->name);
            row->index = i;
            row->size = log_partition_size(partition);
            row->offsets = log_partition_offsets(partition);
        }
    }
}

struct broker_metrics *broker_metrics_get(const struct broker *broker)
{
    const struct shard *shard = broker_shard(broker);
    int64_t count = shard->metadata.partition_count;
    size_t row_count = count > (int64_t)PARTITION_ROWS_MAX ? 0 : (size_t)count;
    struct broker_metrics *metrics =
        calloc(1, sizeof(*metrics) + row_count * sizeof(struct partition_row));
    if (metrics == NULL) {
        return NULL;
    }
    broker_stats_get(broker, &metrics->stats);
    io_stats_get(shard->io, &metrics->io);
    metrics->shard = shard->metrics;
    metrics->fetch_sessions = shard->fetch_sessions.count;
    metrics->fetch_session_partitions = shard->fetch_sessions.partition_count;
    metrics->fetch_session_evictions = shard->fetch_sessions.evictions;
    metrics->next_producer_id = shard->producer_id_next;
    metrics->stopping = shard->stopping;
    rows_fill(metrics, shard, row_count);
    return metrics;
}

const char *broker_metrics_not_ready(const struct broker_metrics *metrics)
{
    if (metrics->stopping) {
        return "not ready: the broker is stopping";
    }
    if (metrics->stats.offline) {
        return "not ready: the log is offline after a failed write; mend the disk and start again";
    }
    if (metrics->stats.disk_full) {
        return "not ready: the disk is nearly full and produce is refused; free space";
    }
    return NULL;
}

/* ---------------------------------------------------------------- the text */

static void write_requests(const struct broker_metrics *metrics, struct metrics_text *text)
{
    size_t count;
    const struct api_entry *entries = dispatch_table(&count);
    metrics_family(text, "twinlog_requests_total", "counter", "Requests taken, by API.");
    for (size_t i = 0; i < count; i++) {
        struct metrics_labels labels = {0};
        metrics_label(&labels, "api", entries[i].api->name);
        metrics_sample(text, "twinlog_requests_total", &labels, metrics->shard.apis[i].requests);
    }
    metrics_family(text, "twinlog_request_duration_seconds", "histogram",
                   "From the turn a request arrived in until its answer was sent, by API in use.");
    for (size_t i = 0; i < count; i++) {
        struct metrics_labels labels = {0};
        if (metrics->shard.apis[i].requests > 0) {
            metrics_label(&labels, "api", entries[i].api->name);
            metrics_histogram_write(text, "twinlog_request_duration_seconds", &labels,
                                    &metrics->shard.apis[i].answered);
        }
    }
    metrics_family(text, "twinlog_produce_durable_seconds", "histogram",
                   "From the turn a Produce arrived in until its records were durable.");
    metrics_histogram_write(text, "twinlog_produce_durable_seconds", NULL,
                            &metrics->shard.produce_durable);
    metrics_single(text, "twinlog_requests_refused_total", "counter",
                   "Requests that are not Kafka's or not served: their connections were closed.",
                   metrics->shard.refused_requests);
}

struct single {
    const char *name;
    const char *type;
    const char *help;
    uint64_t value;
};

static void write_singles(struct metrics_text *text, const struct single *singles, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        metrics_single(text, singles[i].name, singles[i].type, singles[i].help, singles[i].value);
    }
}

static void write_network(const struct broker_metrics *metrics, struct metrics_text *text)
{
    const struct net_stats *net = &metrics->stats.net;
    const struct single singles[] = {
        {"twinlog_received_bytes_total", "counter", "Received from clients.", metrics->io.received},
        {"twinlog_sent_bytes_total", "counter", "Sent to clients.", metrics->io.sent},
        {"twinlog_connections", "gauge", "Client connections.", net->connections},
        {"twinlog_connections_accepted_total", "counter", "Connections accepted.", net->accepted},
        {"twinlog_connections_refused_total", "counter", "Connections over a bound.", net->refused},
        {"twinlog_requests_in_flight", "gauge", "Requests not answered yet.", net->requests},
        {"twinlog_receive_memory_bytes", "gauge", "Memory of requests being received or kept.",
         net->receive_memory},
        {"twinlog_fetch_memory_bytes", "gauge", "Memory of Fetch responses being read or sent.",
         metrics->stats.fetch_memory},
        {"twinlog_fetches_waiting", "gauge", "Fetches that wait for records.",
         metrics->stats.waiting_fetches},
        {"twinlog_requests_waiting_for_room", "gauge", "Requests that the full log keeps waiting.",
         metrics->stats.waiting_for_room},
        {"twinlog_fetch_sessions", "gauge", "Fetch sessions kept.", metrics->fetch_sessions},
        {"twinlog_fetch_session_partitions", "gauge", "Partitions of all fetch sessions.",
         metrics->fetch_session_partitions},
        {"twinlog_fetch_session_evictions_total", "counter",
         "Fetch sessions that made room for another.", metrics->fetch_session_evictions},
        {"twinlog_loop_turns_total", "counter", "Turns of the event loop.", metrics->io.turns},
    };
    write_singles(text, singles, COUNT_OF(singles));
}

static void write_log(const struct broker_metrics *metrics, struct metrics_text *text)
{
    const struct log_stats *log = &metrics->stats.log;
    const struct single singles[] = {
        {"twinlog_appended_batches_total", "counter", "Record batches appended.", log->appends},
        {"twinlog_appended_bytes_total", "counter", "Bytes of them.", log->append_bytes},
        {"twinlog_journal_frames_total", "counter", "Frames written to the journal.", log->frames},
        {"twinlog_journal_frame_bytes_total", "counter", "Bytes of them, padding included.",
         log->frame_bytes},
        {"twinlog_journal_syncs_total", "counter", "Synced journal writes.", log->syncs},
        {"twinlog_journal_live_bytes", "gauge", "Journal that a restart would replay.",
         log->live_journal_bytes},
        {"twinlog_journal_size_bytes", "gauge", "Size of the journal.", log->journal_size},
        {"twinlog_checkpoints_total", "counter", "Checkpoints made.", log->checkpoints},
        {"twinlog_segment_written_bytes_total", "counter", "Written back to segments.",
         log->written_back_bytes},
        {"twinlog_chunks", "gauge", "Chunks of memory there may be.", log->chunk_count},
        {"twinlog_chunks_in_use", "gauge", "Chunks in use.", log->chunks_in_use},
        {"twinlog_uncommitted_lsns", "gauge", "Journal frames not committed yet.",
         log->next_lsn - log->committed_lsn - 1},
        {"twinlog_topics", "gauge", "Topics.", metrics->stats.topics},
        {"twinlog_partitions", "gauge", "Partitions, the metadata's own included.",
         log->partition_count},
        {"twinlog_next_producer_id", "gauge", "The producer id that is given out next.",
         (uint64_t)metrics->next_producer_id},
        {"twinlog_log_offline", "gauge", "1: a write failed and only a restart helps.",
         metrics->stats.offline},
        {"twinlog_disk_full", "gauge", "1: produce is refused until there is room.",
         metrics->stats.disk_full},
    };
    write_singles(text, singles, COUNT_OF(singles));
    metrics_family(text, "twinlog_checkpoint_seconds_total", "counter", "Time of checkpoints.");
    metrics_sample_ns(text, "twinlog_checkpoint_seconds_total", NULL, log->checkpoint_ns);
}

/* One value of a row by number, so that a family's samples stand together. */
static uint64_t row_value(const struct partition_row *row, size_t which)
{
    const uint64_t values[] = {(uint64_t)row->offsets.log_start, (uint64_t)row->offsets.log_end,
                               (uint64_t)row->offsets.high_watermark, row->size};
    return values[which];
}

static void write_partitions(const struct broker_metrics *metrics, struct metrics_text *text)
{
    static const char *const families[][2] = {
        {"twinlog_partition_log_start_offset", "The first offset of a partition."},
        {"twinlog_partition_log_end_offset", "The offset that is given out next."},
        {"twinlog_partition_high_watermark", "Offsets below are committed."},
        {"twinlog_partition_size_bytes", "Bytes of a partition in segments and tail."},
    };
    for (size_t which = 0; which < COUNT_OF(families); which++) {
        metrics_family(text, families[which][0], "gauge", families[which][1]);
        for (uint32_t i = 0; i < metrics->row_count; i++) {
            const struct partition_row *row = &metrics->rows[i];
            struct metrics_labels labels = {0};
            char index[16];
            snprintf(index, sizeof(index), "%d", (int)row->index);
            metrics_label(&labels, "topic", row->topic);
            metrics_label(&labels, "partition", index);
            metrics_sample(text, families[which][0], &labels, row_value(row, which));
        }
    }
}

void broker_metrics_write(const struct broker_metrics *metrics, struct metrics_text *text)
{
    write_requests(metrics, text);
    write_network(metrics, text);
    write_log(metrics, text);
    write_partitions(metrics, text);
}
