/*
 * DeleteRecords (KIP-107): moves log starts up. Each is an event in the log; the answer waits until
 * the last one is committed and then tells where each log starts.
 */
#include "../shard.h"

#define HIGH_WATERMARK (-1) /* as an offset: everything there is */

typedef struct delete_records_request_delete_records_topic topic_asked;
typedef struct delete_records_request_delete_records_partition partition_asked;
typedef struct delete_records_response_delete_records_topic_result topic_out;
typedef struct delete_records_response_delete_records_partition_result partition_out;

struct delete_records {
    struct request *request;
    struct shard *shard;
    struct delete_records_request message;
    struct delete_records_response response;
    int32_t topic_at;
    int32_t partition_at;
    uint64_t lsn;
};

static void partition_fail(partition_out *out, enum kafka_error error)
{
    out->error_code = (int16_t)error;
    out->low_watermark = -1;
}

static struct partition *partition_find(const struct delete_records *delete, struct bytes name,
                                        int32_t index, struct topic **topic)
{
    *topic = metadata_topic_by_name(&delete->shard->metadata, name);
    return *topic == NULL || (*topic)->removing ? NULL : topic_partition(*topic, index);
}

static enum kafka_error partition_judge(const struct topic *topic,
                                        const struct partition *partition, int64_t offset)
{
    if (partition == NULL) {
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    }
    if (topic->internal) {
        return KAFKA_INVALID_TOPIC_EXCEPTION;
    }
    if (topic->config.compacted && !topic->config.deleted) {
        return KAFKA_POLICY_VIOLATION;
    }
    if (offset < HIGH_WATERMARK || offset > log_partition_offsets(partition).high_watermark) {
        return KAFKA_OFFSET_OUT_OF_RANGE;
    }
    return KAFKA_NONE;
}

/* FULL: there is no room in the log; nothing was done for this partition. */
static status partition_delete(struct delete_records *delete, const topic_asked *topic_name,
                               const partition_asked *asked, partition_out *out)
{
    struct topic *topic;
    struct partition *partition =
        partition_find(delete, topic_name->name, asked->partition_index, &topic);
    *out = delete_records_response_delete_records_partition_result_default;
    out->partition_index = asked->partition_index;
    enum kafka_error error = partition_judge(topic, partition, asked->offset);
    if (error != KAFKA_NONE) {
        partition_fail(out, error);
        return OK;
    }
    int64_t offset = asked->offset == HIGH_WATERMARK
                         ? log_partition_offsets(partition).high_watermark
                         : asked->offset;
    uint64_t lsn;
    status result = log_delete_before(delete->shard->log, partition, offset, &lsn);
    if (result.code == STATUS_FULL) {
        return result;
    }
    if (!status_is_ok(result)) {
        partition_fail(out, error_of_status(result));
        return OK;
    }
    delete->lsn = MAX(delete->lsn, lsn);
    return OK;
}

/* Where the log starts now; its topic may be gone meanwhile. */
static void partition_tell(const struct delete_records *delete, struct bytes name,
                           partition_out *out, status result)
{
    struct topic *topic;
    const struct partition *partition = partition_find(delete, name, out->partition_index, &topic);
    if (partition == NULL) {
        partition_fail(out, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    } else if (!status_is_ok(result)) {
        partition_fail(out, error_of_status(result));
    } else {
        out->low_watermark = log_partition_offsets(partition).log_start;
    }
}

static void delete_answer(struct delete_records *delete, status result)
{
    for (int32_t i = 0; i < delete->response.topics_count; i++) {
        topic_out *out = &delete->response.topics[i];
        for (int32_t j = 0; j < out->partitions_count; j++) {
            if (out->partitions[j].error_code == KAFKA_NONE) {
                partition_tell(delete, out->name, &out->partitions[j], result);
            }
        }
    }
    (void)request_respond(delete->request, &delete->response);
}

static void delete_on_committed(struct log_wait *wait)
{
    delete_answer(wait->context, wait->result);
}

static void delete_step(struct request *request)
{
    struct delete_records *delete = request->state;
    for (; delete->topic_at < delete->response.topics_count; delete->topic_at++) {
        const topic_asked *asked = &delete->message.topics[delete->topic_at];
        topic_out *out = &delete->response.topics[delete->topic_at];
        for (; delete->partition_at < out->partitions_count; delete->partition_at++) {
            if (!status_is_ok(partition_delete(delete, asked,
                                               &asked->partitions[delete->partition_at],
                                               &out->partitions[delete->partition_at]))) {
                request_wait_room(request, delete_step);
                return;
            }
        }
        delete->partition_at = 0;
    }
    if (delete->lsn == 0) {
        delete_answer(delete, OK);
        return;
    }
    request->wait.context = delete;
    log_wait_committed(delete->shard->log, &request->wait, delete->lsn, delete_on_committed);
}

static status response_init(struct delete_records *delete)
{
    struct arena *arena = request_arena(delete->request);
    size_t count = (size_t)MAX(delete->message.topics_count, 0);
    delete->response = delete_records_response_default;
    delete->response.topics = arena_array(arena, count, sizeof(topic_out));
    if (delete->response.topics == NULL) {
        return STATUS(NO_MEMORY);
    }
    delete->response.topics_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        topic_out *out = &delete->response.topics[i];
        int32_t partition_count = MAX(delete->message.topics[i].partitions_count, 0);
        *out = delete_records_response_delete_records_topic_result_default;
        out->name = delete->message.topics[i].name;
        out->partitions = arena_array(arena, (size_t)partition_count, sizeof(*out->partitions));
        if (out->partitions == NULL) {
            return STATUS(NO_MEMORY);
        }
        out->partitions_count = partition_count;
    }
    return OK;
}

enum net_verdict handle_delete_records(struct shard *shard, struct request *request)
{
    struct arena *arena = request_arena(request);
    struct delete_records *delete = arena_array(arena, 1, sizeof(*delete));
    if (delete == NULL || !status_is_ok(request_decode(request, arena, &delete->message))) {
        return NET_CLOSE;
    }
    delete->request = request;
    delete->shard = shard;
    if (!status_is_ok(response_init(delete))) {
        return request_refuse(request, "no memory for its partitions");
    }
    request->state = delete;
    delete_step(request);
    return NET_TAKEN;
}
