/* DescribeProducers (KIP-664): the producers that partitions know, as of what is committed. */
#include "../shard.h"

typedef struct describe_producers_request_topic_request topic_asked;
typedef struct describe_producers_response_topic_response topic_out;
typedef struct describe_producers_response_partition_response partition_out;
typedef struct describe_producers_response_producer_state producer_out;

#define NO_COORDINATOR (-1)

struct producers_fill {
    partition_out *out;
    uint32_t room;
};

static void producer_add(void *context, const struct log_producer *producer)
{
    struct producers_fill *fill = context;
    if ((uint32_t)fill->out->active_producers_count == fill->room) {
        return;
    }
    producer_out *added = &fill->out->active_producers[fill->out->active_producers_count++];
    *added = describe_producers_response_producer_state_default;
    added->producer_id = producer->id;
    added->producer_epoch = producer->epoch;
    added->last_sequence = producer->last_sequence;
    added->last_timestamp = producer->last_timestamp;
    added->coordinator_epoch = NO_COORDINATOR;
}

static status partition_fill(struct arena *arena, const struct partition *partition,
                             partition_out *out)
{
    if (partition == NULL) {
        out->error_code = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
        return OK;
    }
    struct producers_fill fill = {out, log_producer_count(partition)};
    out->active_producers = arena_array(arena, fill.room, sizeof(*out->active_producers));
    if (out->active_producers == NULL) {
        return STATUS(NO_MEMORY);
    }
    log_producers_visit(partition, producer_add, &fill);
    return OK;
}

static status topic_fill(struct shard *shard, struct arena *arena, const topic_asked *asked,
                         topic_out *out)
{
    size_t count = (size_t)MAX(asked->partition_indexes_count, 0);
    const struct topic *topic = metadata_topic_by_name(&shard->metadata, asked->name);
    const char *fault = topic_name_judge(asked->name);
    *out = describe_producers_response_topic_response_default;
    out->name = asked->name;
    out->partitions = arena_array(arena, count, sizeof(*out->partitions));
    if (out->partitions == NULL) {
        return STATUS(NO_MEMORY);
    }
    out->partitions_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        partition_out *partition = &out->partitions[i];
        *partition = describe_producers_response_partition_response_default;
        partition->partition_index = asked->partition_indexes[i];
        if (topic != NULL) {
            TRY(partition_fill(arena, topic_partition(topic, partition->partition_index),
                               partition));
        } else if (fault != NULL) {
            partition->error_code = KAFKA_INVALID_TOPIC_EXCEPTION;
            partition->error_message =
                bytes_of(arena_printf(arena, "Topic name is invalid: %s", fault));
        } else {
            partition->error_code = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
            partition->error_message = bytes_of("This server does not host this topic-partition.");
        }
    }
    return OK;
}

enum net_verdict handle_describe_producers(struct shard *shard, struct request *request)
{
    struct arena *arena = request_arena(request);
    struct describe_producers_request message;
    struct describe_producers_response response = describe_producers_response_default;
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
