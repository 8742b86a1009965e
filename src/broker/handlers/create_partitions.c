/*
 * CreatePartitions: adds partitions to topics (KIP-195). The topic's record is appended again with
 * the larger count. One change of a topic at a time.
 */
#include "twinlog/core/assert.h"

#include "../shard.h"

#define PARTITION_COUNT_MAX 100000

typedef struct create_partitions_request_create_partitions_topic topic_asked;
typedef struct create_partitions_response_create_partitions_topic_result topic_result;

struct create_partitions {
    struct create_partitions_request message;
    struct create_partitions_response response;
    const enum name_use *uses; /* by topic */
    bool *appended;            /* by result */
    int32_t at;
    uint64_t lsn;
};

static void result_fail(topic_result *out, enum kafka_error error, const char *message)
{
    out->error_code = (int16_t)error;
    out->error_message = bytes_of(message);
}

static enum kafka_error judge(struct request *request, const topic_asked *asked,
                              const struct topic *topic, const char **message)
{
    struct arena *arena = request_arena(request);
    if (topic == NULL || topic->removing) {
        *message = "The topic does not exist.";
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    }
    if (topic->change_lsn != 0) {
        *message = "Another change of the topic is not committed yet.";
        return KAFKA_REASSIGNMENT_IN_PROGRESS;
    }
    if (asked->count == topic->partition_count) {
        *message = arena_printf(arena, "Topic already has %d partition(s).", asked->count);
        return KAFKA_INVALID_PARTITIONS;
    }
    if (asked->count < topic->partition_count) {
        *message = arena_printf(arena,
                                "The topic %s currently has %d partition(s); %d would not be an "
                                "increase.",
                                topic->name, topic->partition_count, asked->count);
        return KAFKA_INVALID_PARTITIONS;
    }
    if (asked->count > PARTITION_COUNT_MAX) {
        *message = arena_printf(arena, "The count is above the limit of %d", PARTITION_COUNT_MAX);
        return KAFKA_INVALID_PARTITIONS;
    }
    if (asked->assignments_count < 0) {
        return KAFKA_NONE;
    }
    if (asked->assignments_count != asked->count - topic->partition_count) {
        *message = arena_printf(arena,
                                "Attempted to add %d additional partition(s), but only %d "
                                "assignment(s) were specified.",
                                asked->count - topic->partition_count, asked->assignments_count);
        return KAFKA_INVALID_REPLICA_ASSIGNMENT;
    }
    for (int32_t i = 0; i < asked->assignments_count; i++) {
        if (asked->assignments[i].broker_ids_count != 1 ||
            asked->assignments[i].broker_ids[0] != request->shard->node_id) {
            *message = arena_printf(arena, "Each partition has one replica here, on node %d",
                                    request->shard->node_id);
            return KAFKA_INVALID_REPLICA_ASSIGNMENT;
        }
    }
    return KAFKA_NONE;
}

/* FULL: there is no room in the log; nothing was done for this topic. */
static status grow_one(struct request *request, struct create_partitions *grow, int32_t index)
{
    struct shard *shard = request->shard;
    const topic_asked *asked = &grow->message.topics[index];
    int32_t place = grow->response.results_count;
    topic_result *out = &grow->response.results[place];
    struct topic *topic = metadata_topic_by_name(&shard->metadata, asked->name);
    const char *message = "";
    *out = create_partitions_response_create_partitions_topic_result_default;
    out->name = asked->name;
    enum kafka_error error = KAFKA_INVALID_REQUEST;
    if (grow->uses[index] != NAME_ONCE) {
        message = "Duplicate topic name.";
    } else {
        error = judge(request, asked, topic, &message);
    }
    if (error != KAFKA_NONE) {
        result_fail(out, error, message);
        return OK;
    }
    if (grow->message.validate_only) {
        return OK;
    }
    struct topic_record record = topic_record_default;
    record.name = topic_name(topic);
    record.topic_id = topic->id;
    record.partition_count = asked->count;
    record.configs = topic->overrides.items;
    record.configs_count = topic->overrides.count;
    uint64_t lsn = 0;
    status result = metadata_append(shard, RECORD_TYPE_TOPIC, &topic_record_type, &record, &lsn);
    if (result.code == STATUS_FULL) {
        return result;
    }
    if (!status_is_ok(result)) {
        result_fail(out, error_of_status(result), status_text(result));
        return OK;
    }
    topic->change_lsn = lsn;
    grow->lsn = MAX(grow->lsn, lsn);
    grow->appended[place] = true;
    return OK;
}

static void grow_on_committed(struct log_wait *wait)
{
    struct request *request = wait->context;
    struct create_partitions *grow = request->state;
    for (int32_t i = 0; !status_is_ok(wait->result) && i < grow->response.results_count; i++) {
        if (grow->appended[i]) {
            result_fail(&grow->response.results[i], error_of_status(wait->result),
                        "The log failed before the change was durable");
        }
    }
    (void)request_respond(request, &grow->response);
}

static void grow_step(struct request *request)
{
    struct create_partitions *grow = request->state;
    for (; grow->at < grow->message.topics_count; grow->at++) {
        /* Kafka changes no topic whose name stands twice in a request, and says so once. */
        if (grow->uses[grow->at] == NAME_AGAIN) {
            continue;
        }
        if (!status_is_ok(grow_one(request, grow, grow->at))) {
            request_wait_room(request, grow_step);
            return;
        }
        grow->response.results_count++;
    }
    if (grow->lsn == 0) {
        (void)request_respond(request, &grow->response);
        return;
    }
    request->wait.context = request;
    log_wait_committed(request->shard->log, &request->wait, grow->lsn, grow_on_committed);
}

static bool grow_init(struct create_partitions *grow, struct arena *arena)
{
    size_t count = (size_t)MAX(grow->message.topics_count, 0);
    struct bytes *names = arena_array(arena, count, sizeof(*names));
    grow->response = create_partitions_response_default;
    grow->response.results = arena_array(arena, count, sizeof(topic_result));
    grow->appended = arena_array(arena, count, sizeof(bool));
    if (names == NULL || grow->response.results == NULL || grow->appended == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        names[i] = grow->message.topics[i].name;
    }
    grow->uses = names_judge(arena, names, count);
    return grow->uses != NULL;
}

enum net_verdict handle_create_partitions(struct shard *shard, struct request *request)
{
    struct arena *arena = request_arena(request);
    struct create_partitions *grow = arena_array(arena, 1, sizeof(*grow));
    if (grow == NULL || !status_is_ok(request_decode(request, arena, &grow->message))) {
        return NET_CLOSE;
    }
    if (!grow_init(grow, arena)) {
        return request_refuse(request, "no memory for its topics");
    }
    request->state = grow;
    grow_step(request);
    return NET_TAKEN;
}
