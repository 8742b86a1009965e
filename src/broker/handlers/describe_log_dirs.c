/*
 * DescribeLogDirs: the one directory, the partitions asked for with their sizes, and the space of
 * its file system (KIP-827), which is asked for off the loop.
 */
#include "twinlog/core/assert.h"

#include "../shard.h"

typedef struct describe_log_dirs_request_describable_log_dir_topic topic_asked;
typedef struct describe_log_dirs_response_describe_log_dirs_topic topic_out;
typedef struct describe_log_dirs_response_describe_log_dirs_partition partition_out;

struct describe {
    struct shard *shard;
    struct request *request;
    struct arena *arena;
    struct describe_log_dirs_request message;
    struct describe_log_dirs_response_describe_log_dirs_result dir;
    struct io_job job;
    struct io_disk *disk;
    const char *path;
    uint64_t free_size;
    uint64_t total_size;
    status space;
};

static void partition_add(const struct topic *topic, int32_t index, topic_out *out)
{
    partition_out *added = &out->partitions[out->partitions_count++];
    *added = describe_log_dirs_response_describe_log_dirs_partition_default;
    added->partition_index = index;
    added->partition_size = (int64_t)log_partition_size(topic->partitions[index]);
}

/* The name is copied: the topic may be gone when the space is known. */
static status topic_add(struct describe *d, const struct topic *topic, const topic_asked *asked)
{
    size_t count =
        asked == NULL ? (size_t)topic->partition_count : (size_t)MAX(asked->partitions_count, 0);
    topic_out *out = &d->dir.topics[d->dir.topics_count];
    *out = describe_log_dirs_response_describe_log_dirs_topic_default;
    out->name = bytes_of(arena_printf(d->arena, "%s", topic->name));
    out->partitions = arena_array(d->arena, count, sizeof(*out->partitions));
    if (out->partitions == NULL) {
        return STATUS(NO_MEMORY);
    }
    for (size_t i = 0; i < count; i++) {
        int32_t index = asked == NULL ? (int32_t)i : asked->partitions[i];
        if (topic_partition(topic, index) != NULL) {
            partition_add(topic, index, out);
        }
    }
    /* As Kafka: what is not there is left out. */
    d->dir.topics_count += out->partitions_count > 0 ? 1 : 0;
    return OK;
}

static status topics_fill(struct describe *d)
{
    struct metadata *metadata = &d->shard->metadata;
    bool all = d->message.topics_count < 0;
    size_t count = all ? metadata->topic_count : (size_t)d->message.topics_count;
    d->dir.topics = arena_array(d->arena, count, sizeof(*d->dir.topics));
    if (d->dir.topics == NULL) {
        return STATUS(NO_MEMORY);
    }
    for (struct topic *topic = metadata->by_name; all && topic != NULL;
         topic = topic->by_name.next) {
        TRY(topic_add(d, topic, NULL));
    }
    for (int32_t i = 0; i < d->message.topics_count; i++) {
        const topic_asked *asked = &d->message.topics[i];
        const struct topic *topic = metadata_topic_by_name(metadata, asked->topic);
        if (topic != NULL) {
            TRY(topic_add(d, topic, asked));
        }
    }
    return OK;
}

static void space_work(struct io_job *job)
{
    struct describe *d = job->context;
    d->space = io_disk_space(d->disk, d->path, &d->free_size, &d->total_size);
}

static void space_on_done(struct io_job *job)
{
    struct describe *d = job->context;
    struct describe_log_dirs_response response = describe_log_dirs_response_default;
    if (status_is_ok(d->space)) {
        d->dir.total_bytes = (int64_t)d->total_size;
        d->dir.usable_bytes = (int64_t)d->free_size;
    }
    response.results = &d->dir;
    response.results_count = 1;
    (void)request_respond(d->request, &response);
}

enum net_verdict handle_describe_log_dirs(struct shard *shard, struct request *request)
{
    struct arena *arena = request_arena(request);
    struct describe *d = arena_array(arena, 1, sizeof(*d));
    if (d == NULL || !status_is_ok(request_decode(request, arena, &d->message))) {
        return NET_CLOSE;
    }
    d->shard = shard;
    d->request = request;
    d->arena = arena;
    d->disk = io_disk(shard->io);
    d->path = shard->metadata.given->log_dir;
    d->dir = describe_log_dirs_response_describe_log_dirs_result_default;
    d->dir.log_dir = bytes_of(d->path);
    d->dir.error_code = shard->offline ? KAFKA_STORAGE_ERROR : KAFKA_NONE;
    if (!status_is_ok(topics_fill(d))) {
        return request_refuse(request, "no memory for the answer");
    }
    request->state = d;
    d->job.context = d;
    io_offload(shard->io, IO_LANE_READ, &d->job, space_work, space_on_done);
    return NET_TAKEN;
}
