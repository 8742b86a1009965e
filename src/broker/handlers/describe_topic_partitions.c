/*
 * DescribeTopicPartitions (KIP-966): topics in the order of their names, partitions in theirs, and
 * a cursor when not all fit in the answer. Topics that are named are answered whether they are
 * there or not; of all topics only those that are.
 */
#include <stdlib.h>

#include "twinlog/core/assert.h"

#include "../shard.h"

#define PARTITION_LIMIT 2000 /* max.request.partition.size.limit */

typedef struct describe_topic_partitions_response_topic topic_out;
typedef struct describe_topic_partitions_response_partition partition_out;

struct describe {
    struct shard *shard;
    struct arena *arena;
    const struct describe_topic_partitions_request *message;
    struct describe_topic_partitions_response *response;
    struct bytes *names; /* ascending, each once */
    size_t name_count;
    int64_t left; /* partitions that may still be told */
};

static int name_compare(const void *left, const void *right)
{
    const struct bytes *a = left;
    const struct bytes *b = right;
    size_t size = MIN(a->size, b->size);
    int order = size == 0 ? 0 : memcmp(a->data, b->data, size);
    if (order == 0 && a->size != b->size) {
        order = a->size < b->size ? -1 : 1;
    }
    return order;
}

/* The names asked for, or all, from the cursor's on, sorted and without repetitions. */
static status names_fill(struct describe *d)
{
    struct metadata *metadata = &d->shard->metadata;
    const struct describe_topic_partitions_request_cursor *cursor = d->message->cursor;
    size_t asked = (size_t)MAX(d->message->topics_count, 0);
    size_t room = asked > 0 ? asked : metadata->topic_count;
    size_t found = 0;
    d->names = arena_array(d->arena, room, sizeof(*d->names));
    if (d->names == NULL) {
        return STATUS(NO_MEMORY);
    }
    for (size_t i = 0; i < asked; i++) {
        d->names[found++] = d->message->topics[i].name;
    }
    for (struct topic *topic = metadata->by_name; asked == 0 && topic != NULL;
         topic = topic->by_name.next) {
        d->names[found++] = topic_name(topic);
    }
    if (found > 1) {
        qsort(d->names, found, sizeof(*d->names), name_compare);
    }
    for (size_t i = 0; i < found; i++) {
        bool is_below = cursor != NULL && name_compare(&d->names[i], &cursor->topic_name) < 0;
        bool is_again = d->name_count > 0 && bytes_equal(d->names[d->name_count - 1], d->names[i]);
        if (!is_below && !is_again) {
            d->names[d->name_count++] = d->names[i];
        }
    }
    return OK;
}

static void partition_fill(const struct describe *d, const struct topic *topic, int32_t index,
                           partition_out *out)
{
    *out = describe_topic_partitions_response_partition_default;
    out->partition_index = index;
    out->leader_id = d->shard->node_id;
    out->leader_epoch = log_partition_offsets(topic->partitions[index]).leader_epoch;
    out->replica_nodes = &d->shard->node_id;
    out->replica_nodes_count = 1;
    out->isr_nodes = &d->shard->node_id;
    out->isr_nodes_count = 1;
    /* Empty, not null: the sets are known. */
    out->eligible_leader_replicas_count = 0;
    out->last_known_elr_count = 0;
}

static status cursor_set(struct describe *d, struct bytes name, int32_t partition)
{
    struct describe_topic_partitions_response_cursor *next =
        arena_array(d->arena, 1, sizeof(*next));
    if (next == NULL) {
        return STATUS(NO_MEMORY);
    }
    next->topic_name = name;
    next->partition_index = partition;
    d->response->next_cursor = next;
    return OK;
}

static status topic_fill(struct describe *d, const struct topic *topic, topic_out *out)
{
    const struct describe_topic_partitions_request_cursor *cursor = d->message->cursor;
    bool is_cursors = cursor != NULL && bytes_equal(cursor->topic_name, topic_name(topic));
    int32_t first = is_cursors ? MIN(cursor->partition_index, topic->partition_count) : 0;
    int32_t count = (int32_t)MIN((int64_t)topic->partition_count - first, d->left);
    out->topic_id = topic->id;
    out->is_internal = topic->internal;
    out->partitions = arena_array(d->arena, (size_t)count, sizeof(*out->partitions));
    if (out->partitions == NULL) {
        return STATUS(NO_MEMORY);
    }
    out->partitions_count = count;
    for (int32_t i = 0; i < count; i++) {
        partition_fill(d, topic, first + i, &out->partitions[i]);
    }
    d->left -= count;
    return first + count < topic->partition_count ? cursor_set(d, out->name, first + count) : OK;
}

/* One topic; the answer is full when the cursor is set. */
static status name_fill(struct describe *d, struct bytes name)
{
    struct topic *topic = metadata_topic_by_name(&d->shard->metadata, name);
    if (d->left == 0) {
        return cursor_set(d, name, 0);
    }
    topic_out *out = &d->response->topics[d->response->topics_count++];
    *out = describe_topic_partitions_response_topic_default;
    out->name = name;
    out->topic_authorized_operations = TOPIC_OPERATIONS;
    if (topic != NULL) {
        return topic_fill(d, topic, out);
    }
    out->error_code = topic_name_judge(name) != NULL ? KAFKA_INVALID_TOPIC_EXCEPTION
                                                     : KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    return OK;
}

/* A cursor that names no partition, or of topics that are named, none of them. */
static bool cursor_is_valid(const struct describe_topic_partitions_request *message)
{
    const struct describe_topic_partitions_request_cursor *cursor = message->cursor;
    bool is_asked = message->topics_count <= 0 || cursor == NULL;
    for (int32_t i = 0; !is_asked && i < message->topics_count; i++) {
        is_asked = bytes_equal(message->topics[i].name, cursor->topic_name);
    }
    return is_asked && (cursor == NULL || cursor->partition_index >= 0);
}

static status refuse_all(const struct describe *d)
{
    struct describe_topic_partitions_response *response = d->response;
    size_t count = (size_t)MAX(d->message->topics_count, 0);
    response->topics = arena_array(d->arena, count, sizeof(*response->topics));
    if (response->topics == NULL) {
        return STATUS(NO_MEMORY);
    }
    response->topics_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        response->topics[i] = describe_topic_partitions_response_topic_default;
        response->topics[i].name = d->message->topics[i].name;
        response->topics[i].error_code = KAFKA_INVALID_REQUEST;
    }
    return OK;
}

static status describe_fill(struct describe *d)
{
    struct describe_topic_partitions_response *response = d->response;
    int32_t limit = d->message->response_partition_limit;
    if (!cursor_is_valid(d->message)) {
        return refuse_all(d);
    }
    TRY(names_fill(d));
    response->topics = arena_array(d->arena, d->name_count, sizeof(*response->topics));
    if (response->topics == NULL) {
        return STATUS(NO_MEMORY);
    }
    d->left = MAX(MIN(limit, PARTITION_LIMIT), 1);
    for (size_t i = 0; i < d->name_count && response->next_cursor == NULL; i++) {
        TRY(name_fill(d, d->names[i]));
    }
    return OK;
}

enum net_verdict handle_describe_topic_partitions(struct shard *shard, struct request *request)
{
    struct arena *arena = request_arena(request);
    struct describe_topic_partitions_request message;
    struct describe_topic_partitions_response response = describe_topic_partitions_response_default;
    if (!status_is_ok(request_decode(request, arena, &message))) {
        return NET_CLOSE;
    }
    struct describe d = {
        .shard = shard, .arena = arena, .message = &message, .response = &response};
    if (!status_is_ok(describe_fill(&d))) {
        return request_refuse(request, "no memory for the answer");
    }
    return request_respond(request, &response);
}
