/*
 * Metadata: brokers, topics, partitions. A topic that is asked for by name and does not exist is
 * created when both the request and the broker allow it; the answer then waits for the commit.
 */
#include "twinlog/core/assert.h"

#include "../shard.h"

struct metadata_state {
    struct metadata_request request;
};

/* Java's client leaves the name empty beside an id; from version 12 on the id then counts. */
static bool topic_is_asked_by_name(int16_t version, const struct metadata_request_topic *asked)
{
    bool has_id = version >= 12 && !uuid_is_zero(&asked->topic_id);
    return !bytes_is_null(asked->name) && !has_id;
}

static void partition_fill(struct shard *shard, const struct topic *topic, int32_t index,
                           struct metadata_response_partition *out)
{
    *out = metadata_response_partition_default;
    struct partition_offsets offsets = log_partition_offsets(topic->partitions[index]);
    out->partition_index = index;
    out->leader_id = shard->node_id;
    out->leader_epoch = offsets.leader_epoch;
    out->replica_nodes = &shard->node_id;
    out->replica_nodes_count = 1;
    out->isr_nodes = &shard->node_id;
    out->isr_nodes_count = 1;
}

static status topic_fill(struct shard *shard, struct arena *arena, const struct topic *topic,
                         struct metadata_response_topic *out)
{
    out->name = topic_name(topic);
    out->topic_id = topic->id;
    out->is_internal = topic->internal;
    out->partitions = arena_array(arena, (size_t)topic->partition_count, sizeof(*out->partitions));
    if (out->partitions == NULL) {
        return STATUS(NO_MEMORY);
    }
    out->partitions_count = topic->partition_count;
    for (int32_t i = 0; i < topic->partition_count; i++) {
        partition_fill(shard, topic, i, &out->partitions[i]);
    }
    return OK;
}

static status fill_all(struct shard *shard, struct arena *arena, struct metadata_response *response)
{
    uint32_t count = shard->metadata.topic_count;
    response->topics = arena_array(arena, count, sizeof(*response->topics));
    if (response->topics == NULL) {
        return STATUS(NO_MEMORY);
    }
    for (struct topic *topic = shard->metadata.by_name; topic != NULL;
         topic = topic->by_name.next) {
        struct metadata_response_topic *out = &response->topics[response->topics_count++];
        *out = metadata_response_topic_default;
        TRY(topic_fill(shard, arena, topic, out));
    }
    return OK;
}

static bool may_create(const struct shard *shard, const struct metadata_request *request)
{
    return request->allow_auto_topic_creation && shard->config->auto_create_topics;
}

/* What to say of a name that no topic has. */
static enum kafka_error missing_error(const struct metadata_state *state, struct shard *shard,
                                      struct bytes name)
{
    if (topic_name_judge(name) != NULL) {
        return KAFKA_INVALID_TOPIC_EXCEPTION;
    }
    if (!may_create(shard, &state->request)) {
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    }
    const char *other;
    if (metadata_name_collides(&shard->metadata, name, &other)) {
        return KAFKA_INVALID_TOPIC_EXCEPTION;
    }
    /* Its creation failed or was overtaken: the client asks again. */
    return KAFKA_LEADER_NOT_AVAILABLE;
}

static status fill_asked(struct shard *shard, struct arena *arena, struct metadata_state *state,
                         int16_t request_version, struct metadata_response *response)
{
    const struct metadata_request *request = &state->request;
    size_t count = (size_t)request->topics_count;
    response->topics = arena_array(arena, count, sizeof(*response->topics));
    if (response->topics == NULL) {
        return STATUS(NO_MEMORY);
    }
    response->topics_count = request->topics_count;
    for (int32_t i = 0; i < request->topics_count; i++) {
        const struct metadata_request_topic *asked = &request->topics[i];
        struct metadata_response_topic *out = &response->topics[i];
        *out = metadata_response_topic_default;
        bool by_name = topic_is_asked_by_name(request_version, asked);
        struct topic *topic = by_name ? metadata_topic_by_name(&shard->metadata, asked->name)
                                      : metadata_topic_by_id(&shard->metadata, &asked->topic_id);
        if (topic != NULL) {
            TRY(topic_fill(shard, arena, topic, out));
        } else if (by_name) {
            out->name = asked->name;
            out->error_code = (int16_t)missing_error(state, shard, asked->name);
        } else {
            /* Names may be null from version 12 on only, and ids asked for as well. */
            out->name = request_version >= 12 ? BYTES_NULL : bytes_of("");
            out->topic_id = asked->topic_id;
            out->error_code =
                request_version >= 12 ? KAFKA_UNKNOWN_TOPIC_ID : KAFKA_INVALID_REQUEST;
        }
    }
    return OK;
}

static void metadata_answer(struct request *request)
{
    struct shard *shard = request->shard;
    struct metadata_state *state = request->state;
    struct metadata_response response = metadata_response_default;
    struct metadata_response_broker broker = metadata_response_broker_default;
    broker.node_id = shard->node_id;
    broker.host = bytes_of(shard->config->advertised_host);
    broker.port = shard_advertised_port(shard);
    broker.rack = shard->config->rack[0] == '\0' ? BYTES_NULL : bytes_of(shard->config->rack);
    response.brokers = &broker;
    response.brokers_count = 1;
    response.cluster_id = bytes_of(shard->cluster_id);
    response.controller_id = shard->node_id;
    bool all = state->request.topics_count < 0 ||
               (request->version == 0 && state->request.topics_count == 0);
    if (state->request.include_cluster_authorized_operations) {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    struct arena *arena = request_arena(request);
    status result = all ? fill_all(shard, arena, &response)
                        : fill_asked(shard, arena, state, request->version, &response);
    if (!status_is_ok(result)) {
        request_close(request, "no memory for the answer");
        return;
    }
    for (int32_t i = 0; i < response.topics_count; i++) {
        if (state->request.include_topic_authorized_operations &&
            response.topics[i].error_code == KAFKA_NONE) {
            response.topics[i].topic_authorized_operations = TOPIC_OPERATIONS;
        }
    }
    (void)request_respond(request, &response);
}

static void metadata_on_committed(struct log_wait *wait)
{
    metadata_answer(wait->context);
}

/* Appends what has to be created; *lsn stays 0 when there is nothing to wait for. */
static status create_missing(struct request *request, struct metadata_state *state, uint64_t *lsn)
{
    struct shard *shard = request->shard;
    for (int32_t i = 0; i < state->request.topics_count; i++) {
        struct bytes name = state->request.topics[i].name;
        const char *message;
        if (!topic_is_asked_by_name(request->version, &state->request.topics[i]) ||
            metadata_topic_by_name(&shard->metadata, name) != NULL) {
            continue;
        }
        enum kafka_error error =
            topic_name_check(shard, name, request_arena(request), &message, lsn);
        if (error == KAFKA_NONE) {
            struct topic_creation creation = {
                .name = name,
                .partition_count = (int32_t)shard->config->num_partitions,
            };
            TRY(topic_create_append(shard, &creation, lsn));
        }
    }
    return OK;
}

static void metadata_step(struct request *request)
{
    struct shard *shard = request->shard;
    struct metadata_state *state = request->state;
    uint64_t lsn = 0;
    if (may_create(shard, &state->request) && !shard->offline && !shard->disk_full) {
        status result = create_missing(request, state, &lsn);
        if (result.code == STATUS_FULL) {
            request_wait_room(request, metadata_step);
            return;
        }
    }
    if (lsn > 0) {
        request->wait.context = request;
        log_wait_committed(shard->log, &request->wait, lsn, metadata_on_committed);
        return;
    }
    metadata_answer(request);
}

enum net_verdict handle_metadata(struct shard *shard, struct request *request)
{
    struct metadata_state *state = arena_array(request_arena(request), 1, sizeof(*state));
    if (state == NULL ||
        !status_is_ok(request_decode(request, request_arena(request), &state->request))) {
        return NET_CLOSE;
    }
    if (request->version < 4) {
        state->request.allow_auto_topic_creation = true;
    }
    request->state = state;
    metadata_step(request);
    return NET_TAKEN;
}
