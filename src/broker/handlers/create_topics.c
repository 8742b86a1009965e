/*
 * CreateTopics. Every topic of a request is judged and its record appended in one go; the answer
 * waits until the last record is committed. Two requests for one name resolve by the pending set.
 */
#include "twinlog/core/assert.h"

#include "../shard.h"

#define PARTITION_COUNT_MAX 100000

/* ConfigSource of DescribeConfigsResponse. */
#define SOURCE_DYNAMIC_TOPIC      1
#define SOURCE_DYNAMIC_BROKER     2
#define SOURCE_DYNAMIC_BROKER_ALL 3
#define SOURCE_STATIC_BROKER      4
#define SOURCE_DEFAULT            5

typedef struct create_topics_request_creatable_topic topic_asked;
typedef struct create_topics_response_creatable_topic_result topic_result;
typedef struct create_topics_response_creatable_topic_configs topic_result_config;

struct create_topics {
    struct create_topics_request message;
    struct create_topics_response response;
    const enum name_use *uses; /* by topic */
    bool *appended; /* by result: the record is in the log, the result waits for the commit */
    int32_t at;
    uint64_t lsn;
};

static void result_fail(topic_result *out, enum kafka_error error, const char *message)
{
    struct bytes name = out->name;
    *out = create_topics_response_creatable_topic_result_default;
    out->name = name;
    out->error_code = (int16_t)error;
    out->error_message = bytes_of(message);
    out->num_partitions = -1;
    out->replication_factor = -1;
    out->configs = NULL;
    out->configs_count = 0;
}

/* ---------------------------------------------------------------- judging */

static enum kafka_error judge_assignments(const struct shard *shard, const topic_asked *asked,
                                          struct arena *arena, int32_t *partition_count,
                                          const char **message)
{
    int32_t count = asked->assignments_count;
    if (asked->num_partitions != -1 || asked->replication_factor != -1) {
        *message = "Both partitions or replication factor and replica assignments were set; one "
                   "of them must be left out";
        return KAFKA_INVALID_REQUEST;
    }
    uint8_t *seen = arena_array(arena, (size_t)count, 1);
    if (seen == NULL) {
        *message = "out of memory";
        return KAFKA_UNKNOWN_SERVER_ERROR;
    }
    for (int32_t i = 0; i < count; i++) {
        const struct create_topics_request_creatable_replica_assignment *a = &asked->assignments[i];
        if (a->partition_index < 0 || a->partition_index >= count || seen[a->partition_index]) {
            *message = "Partitions should be a consecutive 0-based integer sequence";
            return KAFKA_INVALID_REPLICA_ASSIGNMENT;
        }
        seen[a->partition_index] = 1;
        if (a->broker_ids_count != 1 || a->broker_ids[0] != shard->node_id) {
            *message = arena_printf(arena, "Each partition has one replica here, on node %d",
                                    shard->node_id);
            return KAFKA_INVALID_REPLICA_ASSIGNMENT;
        }
    }
    *partition_count = count;
    return KAFKA_NONE;
}

static enum kafka_error judge_numbers(const struct shard *shard, const topic_asked *asked,
                                      struct arena *arena, int32_t *partition_count,
                                      const char **message)
{
    if (asked->assignments_count > 0) {
        return judge_assignments(shard, asked, arena, partition_count, message);
    }
    *partition_count = asked->num_partitions == -1 ? (int32_t)shard->config->num_partitions
                                                   : asked->num_partitions;
    if (*partition_count <= 0) {
        *message = "Number of partitions was set to an invalid non-positive value.";
        return KAFKA_INVALID_PARTITIONS;
    }
    if (*partition_count > PARTITION_COUNT_MAX) {
        *message = arena_printf(arena, "Number of partitions is above the limit of %d",
                                PARTITION_COUNT_MAX);
        return KAFKA_POLICY_VIOLATION;
    }
    if (asked->replication_factor != -1 && asked->replication_factor <= 0) {
        *message = "Replication factor must be larger than 0, or -1 to use the default value.";
        return KAFKA_INVALID_REPLICATION_FACTOR;
    }
    if (asked->replication_factor > 1) {
        *message = arena_printf(arena,
                                "Unable to replicate the partition %d time(s): The target "
                                "replication factor of %d cannot be reached because only 1 "
                                "broker(s) are registered.",
                                asked->replication_factor, asked->replication_factor);
        return KAFKA_INVALID_REPLICATION_FACTOR;
    }
    return KAFKA_NONE;
}

static enum kafka_error judge_configs(const struct shard *shard, const topic_asked *asked,
                                      struct arena *arena, struct topic_creation *creation,
                                      const char **message)
{
    size_t count = (size_t)MAX(asked->configs_count, 0);
    struct topic_config config;
    char why[512];
    topic_config_init(&config, shard->config);
    creation->configs = arena_array(arena, count, sizeof(*creation->configs));
    if (creation->configs == NULL) {
        *message = "out of memory";
        return KAFKA_UNKNOWN_SERVER_ERROR;
    }
    creation->config_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        const struct create_topics_request_creatable_topic_config *from = &asked->configs[i];
        status result = topic_config_set(&config, from->name, from->value, why, sizeof(why));
        if (!status_is_ok(result)) {
            *message = arena_printf(arena, "%s", why);
            return KAFKA_INVALID_CONFIG;
        }
        for (size_t j = 0; j < i; j++) {
            if (bytes_equal(creation->configs[j].name, from->name)) {
                *message = "A configuration is given twice";
                return KAFKA_INVALID_CONFIG;
            }
        }
        creation->configs[i] = topic_record_config_default;
        creation->configs[i].name = from->name;
        creation->configs[i].value = from->value;
    }
    return KAFKA_NONE;
}

/* ---------------------------------------------------------------- results */

static const struct topic_record_config *creation_find(const struct topic_creation *creation,
                                                       struct bytes name)
{
    for (int32_t i = 0; i < creation->config_count; i++) {
        if (bytes_equal(creation->configs[i].name, name)) {
            return &creation->configs[i];
        }
    }
    return NULL;
}

/* Where a setting that the topic does not make comes from. */
static int8_t preset_source(const struct metadata *metadata, const struct topic_key *key)
{
    struct bytes name = key->synonym == NULL ? BYTES_NULL : bytes_of(key->synonym);
    const struct config_key *broker_key = broker_config_find(name);
    if (broker_key == NULL) {
        return SOURCE_DEFAULT;
    }
    if (overrides_find(&metadata->broker_overrides[BROKER_LAYER_OWN], name) != NULL) {
        return SOURCE_DYNAMIC_BROKER;
    }
    if (overrides_find(&metadata->broker_overrides[BROKER_LAYER_ALL], name) != NULL) {
        return SOURCE_DYNAMIC_BROKER_ALL;
    }
    return broker_config_is_given(metadata->given, broker_key) ? SOURCE_STATIC_BROKER
                                                               : SOURCE_DEFAULT;
}

/* From version 5 on the answer tells every configuration of the new topic (KIP-525). */
static status result_fill_configs(const struct shard *shard, struct arena *arena,
                                  const struct topic_creation *creation, topic_result *out)
{
    size_t count;
    const struct topic_key *keys = topic_config_keys(&count);
    topic_result_config *configs = arena_array(arena, count, sizeof(*configs));
    if (configs == NULL) {
        return STATUS(NO_MEMORY);
    }
    for (size_t i = 0; i < count; i++) {
        char preset[CONFIG_VALUE_SIZE_MAX];
        const struct topic_record_config *set = creation_find(creation, bytes_of(keys[i].name));
        configs[i] = create_topics_response_creatable_topic_configs_default;
        configs[i].name = bytes_of(keys[i].name);
        if (set != NULL) {
            configs[i].value = set->value;
            configs[i].config_source = SOURCE_DYNAMIC_TOPIC;
            continue;
        }
        topic_config_preset(&keys[i], shard->config, preset, sizeof(preset));
        configs[i].value = bytes_of(arena_printf(arena, "%s", preset));
        configs[i].config_source = preset_source(&shard->metadata, &keys[i]);
    }
    out->configs = configs;
    out->configs_count = (int32_t)count;
    return OK;
}

static status result_fill(struct request *request, const struct topic_creation *creation,
                          topic_result *out)
{
    struct shard *shard = request->shard;
    out->topic_id = creation->id;
    out->error_message = BYTES_NULL;
    out->num_partitions = creation->partition_count;
    out->replication_factor = 1;
    if (request->version < 5) {
        return OK;
    }
    return result_fill_configs(shard, request_arena(request), creation, out);
}

static void create_answer(struct request *request)
{
    struct create_topics *create = request->state;
    (void)request_respond(request, &create->response);
}

static void create_on_committed(struct log_wait *wait)
{
    struct request *request = wait->context;
    struct create_topics *create = request->state;
    for (int32_t i = 0; !status_is_ok(wait->result) && i < create->response.topics_count; i++) {
        if (create->appended[i]) {
            result_fail(&create->response.topics[i], error_of_status(wait->result),
                        "The log failed before the topic was durable");
        }
    }
    create_answer(request);
}

/* ---------------------------------------------------------------- the request */

/* FULL: there is no room in the log; nothing was done for this topic. */
static status create_one(struct request *request, struct create_topics *create, int32_t index)
{
    struct shard *shard = request->shard;
    struct arena *arena = request_arena(request);
    const topic_asked *asked = &create->message.topics[index];
    int32_t place = create->response.topics_count;
    topic_result *out = &create->response.topics[place];
    struct topic_creation creation = {.name = asked->name};
    const char *message = "";
    *out = create_topics_response_creatable_topic_result_default;
    out->name = asked->name;
    enum kafka_error error = KAFKA_NONE;
    if (create->uses[index] != NAME_ONCE) {
        error = KAFKA_INVALID_REQUEST;
        message = "Duplicate topic name.";
    }
    if (error == KAFKA_NONE) {
        error = topic_name_check(shard, asked->name, arena, &message, &create->lsn);
    }
    if (error == KAFKA_NONE) {
        error = judge_numbers(shard, asked, arena, &creation.partition_count, &message);
    }
    if (error == KAFKA_NONE) {
        error = judge_configs(shard, asked, arena, &creation, &message);
    }
    if (error != KAFKA_NONE) {
        result_fail(out, error, message);
        return OK;
    }
    if (!create->message.validate_only) {
        status result = topic_create_append(shard, &creation, &create->lsn);
        if (result.code == STATUS_FULL) {
            return result;
        }
        if (!status_is_ok(result)) {
            result_fail(out, error_of_status(result), status_text(result));
            return OK;
        }
        create->appended[place] = true;
    }
    return result_fill(request, &creation, out);
}

static void create_step(struct request *request)
{
    struct shard *shard = request->shard;
    struct create_topics *create = request->state;
    while (create->at < create->message.topics_count) {
        /* Kafka creates no topic whose name stands twice in a request, and says so once. */
        if (create->uses[create->at] == NAME_AGAIN) {
            create->at++;
            continue;
        }
        status result = create_one(request, create, create->at);
        if (result.code == STATUS_FULL) {
            request_wait_room(request, create_step);
            return;
        }
        if (!status_is_ok(result)) {
            request_close(request, status_text(result));
            return;
        }
        create->response.topics_count++;
        create->at++;
    }
    if (create->lsn == 0) {
        create_answer(request);
        return;
    }
    request->wait.context = request;
    log_wait_committed(shard->log, &request->wait, create->lsn, create_on_committed);
}

static bool create_init(struct create_topics *create, struct arena *arena)
{
    size_t count = (size_t)MAX(create->message.topics_count, 0);
    struct bytes *names = arena_array(arena, count, sizeof(*names));
    create->response = create_topics_response_default;
    create->response.topics = arena_array(arena, count, sizeof(topic_result));
    create->appended = arena_array(arena, count, sizeof(bool));
    if (names == NULL || create->response.topics == NULL || create->appended == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        names[i] = create->message.topics[i].name;
    }
    create->uses = names_judge(arena, names, count);
    return create->uses != NULL;
}

enum net_verdict handle_create_topics(struct shard *shard, struct request *request)
{
    struct arena *arena = request_arena(request);
    struct create_topics *create = arena_array(arena, 1, sizeof(*create));
    if (create == NULL || !status_is_ok(request_decode(request, arena, &create->message))) {
        return NET_CLOSE;
    }
    if (!create_init(create, arena)) {
        return request_refuse(request, "no memory for its topics");
    }
    request->state = create;
    create_step(request);
    return NET_TAKEN;
}
