/*
 * OffsetForLeaderEpoch (KIP-320): where the log of a leader epoch ends, so that a consumer finds
 * out whether what it read is still there.
 */
#include "../shard.h"

typedef struct offset_for_leader_epoch_request_offset_for_leader_topic topic_asked;
typedef struct offset_for_leader_epoch_request_offset_for_leader_partition partition_asked;
typedef struct offset_for_leader_epoch_response_offset_for_leader_topic_result topic_out;
typedef struct offset_for_leader_epoch_response_epoch_end_offset partition_out;

static void partition_fill(const struct topic *topic, const partition_asked *asked,
                           partition_out *out)
{
    const struct partition *partition =
        topic == NULL ? NULL : topic_partition(topic, asked->partition);
    *out = offset_for_leader_epoch_response_epoch_end_offset_default;
    out->partition = asked->partition;
    if (partition == NULL) {
        out->error_code = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
        return;
    }
    out->error_code = (int16_t)error_of_leader_epoch(asked->current_leader_epoch,
                                                     log_partition_offsets(partition).leader_epoch);
    struct log_epoch end;
    /* -1 asks for no epoch, and no epoch is the answer. */
    if (out->error_code == KAFKA_NONE && asked->leader_epoch != -1 &&
        log_epoch_end(partition, asked->leader_epoch, &end)) {
        out->leader_epoch = end.epoch;
        out->end_offset = end.end_offset;
    }
}

static status topic_fill(struct shard *shard, struct arena *arena, const topic_asked *asked,
                         topic_out *out)
{
    size_t count = (size_t)MAX(asked->partitions_count, 0);
    const struct topic *topic = metadata_topic_by_name(&shard->metadata, asked->topic);
    *out = offset_for_leader_epoch_response_offset_for_leader_topic_result_default;
    out->topic = asked->topic;
    out->partitions = arena_array(arena, count, sizeof(*out->partitions));
    if (out->partitions == NULL) {
        return STATUS(NO_MEMORY);
    }
    out->partitions_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        partition_fill(topic, &asked->partitions[i], &out->partitions[i]);
    }
    return OK;
}

enum net_verdict handle_offset_for_leader_epoch(struct shard *shard, struct request *request)
{
    struct arena *arena = request_arena(request);
    struct offset_for_leader_epoch_request message;
    struct offset_for_leader_epoch_response response = offset_for_leader_epoch_response_default;
    if (!status_is_ok(request_decode(request, arena, &message))) {
        return NET_CLOSE;
    }
    size_t count = (size_t)MAX(message.topics_count, 0);
    response.topics = arena_array(arena, count, sizeof(*response.topics));
    response.topics_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        if (response.topics == NULL ||
            !status_is_ok(topic_fill(shard, arena, &message.topics[i], &response.topics[i]))) {
            return request_refuse(request, "no memory for the answer");
        }
    }
    return request_respond(request, &response);
}
