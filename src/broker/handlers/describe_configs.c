/*
 * DescribeConfigs: every key of a topic or of the broker with value, source, type and synonyms
 * (KIP-133, KIP-226, KIP-569).
 */
#include <stdio.h>
#include <stdlib.h>

#include "../shard.h"

#define RESOURCE_TOPIC  2
#define RESOURCE_BROKER 4

#define SOURCE_DYNAMIC_TOPIC 1
#define SOURCE_STATIC_BROKER 4
#define SOURCE_DEFAULT       5

/* ConfigType of DescribeConfigsResponse. */
#define TYPE_BOOLEAN 1
#define TYPE_STRING  2
#define TYPE_INT     3
#define TYPE_LONG    5
#define TYPE_DOUBLE  6
#define TYPE_LIST    7

typedef struct describe_configs_request_describe_configs_resource resource_asked;
typedef struct describe_configs_response_describe_configs_result resource_result;
typedef struct describe_configs_response_describe_configs_resource_result config_result;
typedef struct describe_configs_response_describe_configs_synonym config_synonym;

struct describe {
    struct shard *shard;
    struct request *request;
    struct arena *arena;
    bool include_synonyms;
    bool include_documentation;
};

static bool is_asked(const resource_asked *asked, const char *name)
{
    if (asked->configuration_keys_count <= 0) {
        return true;
    }
    for (int32_t i = 0; i < asked->configuration_keys_count; i++) {
        if (bytes_equal(asked->configuration_keys[i], bytes_of(name))) {
            return true;
        }
    }
    return false;
}

static void result_fail(resource_result *out, enum kafka_error error, const char *message)
{
    out->error_code = (int16_t)error;
    out->error_message = bytes_of(message);
    out->configs = NULL;
    out->configs_count = 0;
}

static struct bytes text_keep(const struct describe *d, const char *text)
{
    size_t size = strlen(text);
    char *kept = arena_alloc(d->arena, size + 1);
    return kept == NULL ? bytes_of("") : bytes_of(memcpy(kept, text, size + 1));
}

static void synonym_add(config_result *out, const char *name, struct bytes value, int8_t source)
{
    config_synonym *synonym = &out->synonyms[out->synonyms_count++];
    *synonym = describe_configs_response_describe_configs_synonym_default;
    synonym->name = bytes_of(name);
    synonym->value = value;
    synonym->source = source;
}

static int8_t topic_type(enum topic_value type)
{
    static const int8_t types[] = {
        [TOPIC_LONG] = TYPE_LONG,    [TOPIC_INT] = TYPE_INT,       [TOPIC_DOUBLE] = TYPE_DOUBLE,
        [TOPIC_BOOL] = TYPE_BOOLEAN, [TOPIC_CHOICE] = TYPE_STRING, [TOPIC_LIST] = TYPE_LIST,
    };
    return types[type];
}

static const struct topic_record_config *override_find(const struct topic *topic, const char *name)
{
    for (int32_t i = 0; i < topic->override_count; i++) {
        if (bytes_equal(topic->overrides[i].name, bytes_of(name))) {
            return &topic->overrides[i];
        }
    }
    return NULL;
}

/* Synonyms are the sources from the one that wins to the default. */
static status topic_key_fill(const struct describe *d, const struct topic *topic,
                             const struct topic_key *key, config_result *out)
{
    char preset[CONFIG_VALUE_SIZE_MAX];
    const struct topic_record_config *set = override_find(topic, key->name);
    topic_config_preset(key, d->shard->config, preset, sizeof(preset));
    struct bytes preset_kept = text_keep(d, preset);
    bool is_default = strcmp(preset, key->preset) == 0;
    int8_t preset_source = is_default ? SOURCE_DEFAULT : SOURCE_STATIC_BROKER;
    const char *broker_name = key->broker_key == NULL ? key->name : key->broker_key;
    *out = describe_configs_response_describe_configs_resource_result_default;
    out->name = bytes_of(key->name);
    out->value = set == NULL ? preset_kept : set->value;
    out->config_source = set == NULL ? preset_source : SOURCE_DYNAMIC_TOPIC;
    out->config_type = topic_type(key->type);
    out->documentation = BYTES_NULL;
    if (!d->include_synonyms) {
        return OK;
    }
    out->synonyms = arena_array(d->arena, 3, sizeof(*out->synonyms));
    if (out->synonyms == NULL) {
        return STATUS(NO_MEMORY);
    }
    if (set != NULL) {
        synonym_add(out, key->name, set->value, SOURCE_DYNAMIC_TOPIC);
    }
    if (!is_default) {
        synonym_add(out, broker_name, preset_kept, SOURCE_STATIC_BROKER);
    }
    synonym_add(out, broker_name, bytes_of(key->preset), SOURCE_DEFAULT);
    return OK;
}

static status topic_describe(const struct describe *d, const resource_asked *asked,
                             resource_result *out)
{
    const char *fault = topic_name_judge(asked->resource_name);
    if (fault != NULL) {
        result_fail(out, KAFKA_INVALID_TOPIC_EXCEPTION, fault);
        return OK;
    }
    struct topic *topic = metadata_topic_by_name(&d->shard->metadata, asked->resource_name);
    if (topic == NULL) {
        result_fail(out, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, "The topic does not exist.");
        return OK;
    }
    size_t count;
    const struct topic_key *keys = topic_config_keys(&count);
    out->configs = arena_array(d->arena, count, sizeof(*out->configs));
    if (out->configs == NULL) {
        return STATUS(NO_MEMORY);
    }
    for (size_t i = 0; i < count; i++) {
        if (is_asked(asked, keys[i].name)) {
            TRY(topic_key_fill(d, topic, &keys[i], &out->configs[out->configs_count++]));
        }
    }
    return OK;
}

static int8_t broker_type(enum config_type type)
{
    static const int8_t types[] = {
        [CONFIG_BOOL] = TYPE_BOOLEAN, [CONFIG_STRING] = TYPE_STRING, [CONFIG_INT] = TYPE_INT,
        [CONFIG_LONG] = TYPE_LONG,    [CONFIG_LIST] = TYPE_LIST,
    };
    return types[type];
}

static status broker_key_fill(const struct describe *d, const struct config_key *key,
                              config_result *out)
{
    char value[CONFIG_VALUE_SIZE_MAX];
    broker_config_value(d->shard->config, key, value, sizeof(value));
    bool is_default = strcmp(value, key->preset) == 0;
    *out = describe_configs_response_describe_configs_resource_result_default;
    out->name = bytes_of(key->name);
    out->value = text_keep(d, value);
    out->read_only = true;
    out->config_source = is_default ? SOURCE_DEFAULT : SOURCE_STATIC_BROKER;
    out->config_type = broker_type(key->type);
    out->documentation = d->include_documentation ? bytes_of(key->meaning) : BYTES_NULL;
    if (!d->include_synonyms) {
        return OK;
    }
    out->synonyms = arena_array(d->arena, 2, sizeof(*out->synonyms));
    if (out->synonyms == NULL) {
        return STATUS(NO_MEMORY);
    }
    if (!is_default) {
        synonym_add(out, key->name, out->value, SOURCE_STATIC_BROKER);
    }
    synonym_add(out, key->name, bytes_of(key->preset), SOURCE_DEFAULT);
    return OK;
}

/* The empty name means the default of all brokers: nothing is set there, ever. */
static status broker_describe(const struct describe *d, const resource_asked *asked,
                              resource_result *out)
{
    char own[16];
    snprintf(own, sizeof(own), "%d", d->shard->node_id);
    if (asked->resource_name.size == 0) {
        return OK;
    }
    if (!bytes_equal(asked->resource_name, bytes_of(own))) {
        result_fail(out, KAFKA_INVALID_REQUEST,
                    arena_printf(d->arena,
                                 "Unexpected broker id, expected %s or empty string, "
                                 "but received %.*s",
                                 own, (int)MIN(asked->resource_name.size, 64U),
                                 (const char *)asked->resource_name.data));
        return OK;
    }
    size_t count;
    const struct config_key *keys = broker_config_keys(&count);
    out->configs = arena_array(d->arena, count, sizeof(*out->configs));
    if (out->configs == NULL) {
        return STATUS(NO_MEMORY);
    }
    for (size_t i = 0; i < count; i++) {
        if (is_asked(asked, keys[i].name)) {
            TRY(broker_key_fill(d, &keys[i], &out->configs[out->configs_count++]));
        }
    }
    return OK;
}

static status resource_describe(const struct describe *d, const resource_asked *asked,
                                resource_result *out)
{
    *out = describe_configs_response_describe_configs_result_default;
    out->error_message = BYTES_NULL;
    out->resource_type = asked->resource_type;
    out->resource_name = asked->resource_name;
    switch (asked->resource_type) {
    case RESOURCE_TOPIC:
        return topic_describe(d, asked, out);
    case RESOURCE_BROKER:
        return broker_describe(d, asked, out);
    default:
        result_fail(out, KAFKA_INVALID_REQUEST, "Resources of this type are not known here.");
        return OK;
    }
}

enum net_verdict handle_describe_configs(struct shard *shard, struct request *request)
{
    struct arena *arena = request_arena(request);
    struct describe_configs_request message;
    struct describe_configs_response response = describe_configs_response_default;
    if (!status_is_ok(request_decode(request, arena, &message))) {
        return NET_CLOSE;
    }
    struct describe d = {
        .shard = shard,
        .request = request,
        .arena = arena,
        .include_synonyms = message.include_synonyms,
        .include_documentation = message.include_documentation,
    };
    size_t count = (size_t)MAX(message.resources_count, 0);
    response.results = arena_array(arena, count, sizeof(*response.results));
    response.results_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        if (response.results == NULL ||
            !status_is_ok(resource_describe(&d, &message.resources[i], &response.results[i]))) {
            return request_refuse(request, "no memory for the answer");
        }
    }
    return request_respond(request, &response);
}
