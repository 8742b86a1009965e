/*
 * DescribeConfigs: every key of a topic or of the broker with value, source, type and synonyms
 * (KIP-133, KIP-226, KIP-569).
 */
#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/assert.h"

#include "../foreign_config.h"
#include "../shard.h"

/* ConfigSource of DescribeConfigsResponse. */
#define SOURCE_DYNAMIC_TOPIC      1
#define SOURCE_DYNAMIC_BROKER     2
#define SOURCE_DYNAMIC_BROKER_ALL 3
#define SOURCE_STATIC_BROKER      4
#define SOURCE_DEFAULT            5

#define SYNONYM_COUNT_MAX 5u /* one of each source */

/* ConfigType of DescribeConfigsResponse. */
#define TYPE_BOOLEAN 1
#define TYPE_STRING  2
#define TYPE_INT     3
#define TYPE_SHORT   4
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
    ASSERT((size_t)out->synonyms_count < SYNONYM_COUNT_MAX);
    config_synonym *synonym = &out->synonyms[out->synonyms_count++];
    *synonym = describe_configs_response_describe_configs_synonym_default;
    synonym->name = bytes_of(name);
    synonym->value = value;
    synonym->source = source;
}

/* An empty text that is nobody's choice is null, as Kafka says it. */
static bool broker_key_has_preset(const struct config_key *key)
{
    return key->preset[0] != '\0';
}

/* What says something about a broker's setting, the one that wins first. */
static void broker_synonyms_add(const struct describe *d, const char *name, config_result *out)
{
    static const struct {
        enum broker_layer layer;
        int8_t source;
    } layers[] = {{BROKER_LAYER_OWN, SOURCE_DYNAMIC_BROKER},
                  {BROKER_LAYER_ALL, SOURCE_DYNAMIC_BROKER_ALL}};
    const struct metadata *metadata = &d->shard->metadata;
    const struct config_key *key = broker_config_find(bytes_of(name));
    char value[CONFIG_VALUE_SIZE_MAX];
    if (key == NULL) {
        return;
    }
    for (size_t i = 0; i < COUNT_OF(layers); i++) {
        const struct topic_record_config *set =
            overrides_find(&metadata->broker_overrides[layers[i].layer], bytes_of(name));
        if (set != NULL) {
            synonym_add(out, key->name, set->value, layers[i].source);
        }
    }
    if (broker_config_is_given(metadata->given, key)) {
        broker_config_value(metadata->given, key, value, sizeof(value));
        synonym_add(out, key->name, text_keep(d, value), SOURCE_STATIC_BROKER);
    }
}

static int8_t topic_type(enum topic_value type)
{
    static const int8_t types[] = {
        [TOPIC_LONG] = TYPE_LONG,     [TOPIC_INT] = TYPE_INT,       [TOPIC_DOUBLE] = TYPE_DOUBLE,
        [TOPIC_BOOL] = TYPE_BOOLEAN,  [TOPIC_CHOICE] = TYPE_STRING, [TOPIC_LIST] = TYPE_LIST,
        [TOPIC_REPLICAS] = TYPE_LIST,
    };
    return types[type];
}

static bool synonyms_reserve(const struct describe *d, config_result *out)
{
    out->synonyms = arena_array(d->arena, SYNONYM_COUNT_MAX, sizeof(*out->synonyms));
    return out->synonyms != NULL;
}

/* Source and value are the first synonym's; then what was not asked for goes. */
static void synonyms_finish(const struct describe *d, config_result *out)
{
    out->config_source = out->synonyms_count > 0 ? out->synonyms[0].source : SOURCE_DEFAULT;
    if (!d->include_synonyms) {
        out->synonyms = NULL;
        out->synonyms_count = 0;
    }
}

static status topic_key_fill(const struct describe *d, const struct topic *topic,
                             const struct topic_key *key, config_result *out)
{
    char preset[CONFIG_VALUE_SIZE_MAX];
    char tidy[CONFIG_TOPIC_VALUE_SIZE];
    char why[256];
    const struct topic_record_config *set = overrides_find(&topic->overrides, bytes_of(key->name));
    *out = describe_configs_response_describe_configs_resource_result_default;
    out->name = bytes_of(key->name);
    out->config_type = topic_type(key->type);
    out->documentation = d->include_documentation ? bytes_of(key->meaning) : BYTES_NULL;
    if (!synonyms_reserve(d, out)) {
        return STATUS(NO_MEMORY);
    }
    if (set != NULL) {
        bool is_fine = status_is_ok(topic_config_tidy(key, set->value, tidy, why, sizeof(why)));
        out->value = is_fine ? text_keep(d, tidy) : set->value;
        synonym_add(out, key->name, out->value, SOURCE_DYNAMIC_TOPIC);
    } else {
        topic_config_preset(key, d->shard->config, preset, sizeof(preset));
        out->value = text_keep(d, preset);
    }
    if (key->synonym != NULL) {
        broker_synonyms_add(d, key->synonym, out);
        if (key->synonym_is_preset) {
            synonym_add(out, key->synonym, bytes_of(key->preset), SOURCE_DEFAULT);
        }
    }
    synonyms_finish(d, out);
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
        result_fail(out, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, "");
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
        [CONFIG_BOOL] = TYPE_BOOLEAN,  [CONFIG_STRING] = TYPE_STRING, [CONFIG_INT] = TYPE_INT,
        [CONFIG_LONG] = TYPE_LONG,     [CONFIG_LIST] = TYPE_LIST,     [CONFIG_SHORT] = TYPE_SHORT,
        [CONFIG_DOUBLE] = TYPE_DOUBLE,
    };
    return types[type];
}

static status broker_key_fill(const struct describe *d, const struct config_key *key,
                              config_result *out)
{
    char value[CONFIG_VALUE_SIZE_MAX];
    broker_config_value(d->shard->config, key, value, sizeof(value));
    *out = describe_configs_response_describe_configs_resource_result_default;
    out->name = bytes_of(key->name);
    out->value = value[0] == '\0' && !broker_key_has_preset(key) ? BYTES_NULL : text_keep(d, value);
    /* At run time only that can be changed which topics take defaults from. */
    out->read_only = topic_config_find_synonym(bytes_of(key->name)) == NULL;
    out->config_type = broker_type(key->type);
    out->documentation = d->include_documentation ? bytes_of(key->meaning) : BYTES_NULL;
    if (!synonyms_reserve(d, out)) {
        return STATUS(NO_MEMORY);
    }
    broker_synonyms_add(d, key->name, out);
    if (broker_key_has_preset(key)) {
        synonym_add(out, key->name, bytes_of(key->preset), SOURCE_DEFAULT);
    }
    synonyms_finish(d, out);
    return OK;
}

/* A setting of Kafka's that has no meaning here cannot be changed either. */
static status foreign_key_fill(const struct describe *d, const struct foreign_key *key,
                               config_result *out)
{
    *out = describe_configs_response_describe_configs_resource_result_default;
    out->name = bytes_of(key->name);
    out->value = key->preset == NULL ? BYTES_NULL : bytes_of(key->preset);
    out->read_only = true;
    out->config_type = broker_type(key->type);
    out->documentation = d->include_documentation
                             ? bytes_of("A setting of Kafka's that has no meaning here.")
                             : BYTES_NULL;
    if (!synonyms_reserve(d, out)) {
        return STATUS(NO_MEMORY);
    }
    if (key->preset != NULL) {
        synonym_add(out, key->name, out->value, SOURCE_DEFAULT);
    }
    synonyms_finish(d, out);
    return OK;
}

/* The settings made for all brokers; a start's own are none of them. */
static status all_brokers_describe(const struct describe *d, const resource_asked *asked,
                                   resource_result *out)
{
    const struct overrides *all = &d->shard->metadata.broker_overrides[BROKER_LAYER_ALL];
    out->configs = arena_array(d->arena, (size_t)all->count, sizeof(*out->configs));
    if (out->configs == NULL) {
        return STATUS(NO_MEMORY);
    }
    for (int32_t i = 0; i < all->count; i++) {
        const struct config_key *key = broker_config_find(all->items[i].name);
        if (key == NULL || !is_asked(asked, key->name)) {
            continue;
        }
        config_result *config = &out->configs[out->configs_count++];
        *config = describe_configs_response_describe_configs_resource_result_default;
        config->name = bytes_of(key->name);
        config->value = all->items[i].value;
        config->config_type = broker_type(key->type);
        config->documentation = d->include_documentation ? bytes_of(key->meaning) : BYTES_NULL;
        if (!synonyms_reserve(d, config)) {
            return STATUS(NO_MEMORY);
        }
        synonym_add(config, key->name, config->value, SOURCE_DYNAMIC_BROKER_ALL);
        synonyms_finish(d, config);
    }
    return OK;
}

static bool is_own_name(const struct describe *d, struct bytes name)
{
    char own[16];
    snprintf(own, sizeof(own), "%d", d->shard->node_id);
    return bytes_equal(name, bytes_of(own));
}

static void fail_other_broker(const struct describe *d, const resource_asked *asked,
                              resource_result *out)
{
    char name[32];
    char *end;
    snprintf(name, sizeof(name), "%.*s", (int)MIN(asked->resource_name.size, sizeof(name) - 1),
             asked->resource_name.size == 0 ? "" : (const char *)asked->resource_name.data);
    long number = strtol(name, &end, 10);
    result_fail(out, KAFKA_INVALID_REQUEST,
                end == name || *end != '\0'
                    ? arena_printf(d->arena, "Broker id must be an integer, but it is: %s", name)
                    : arena_printf(d->arena,
                                   "Unexpected broker id, expected %d or empty string, but "
                                   "received %ld",
                                   d->shard->node_id, number));
}

static status broker_describe(const struct describe *d, const resource_asked *asked,
                              resource_result *out)
{
    if (asked->resource_name.size == 0) {
        return all_brokers_describe(d, asked, out);
    }
    if (!is_own_name(d, asked->resource_name)) {
        fail_other_broker(d, asked, out);
        return OK;
    }
    size_t count;
    size_t foreign_count;
    const struct config_key *keys = broker_config_keys(&count);
    const struct foreign_key *foreign = foreign_config_keys(&foreign_count);
    out->configs = arena_array(d->arena, count + foreign_count, sizeof(*out->configs));
    if (out->configs == NULL) {
        return STATUS(NO_MEMORY);
    }
    for (size_t i = 0; i < count; i++) {
        if (is_asked(asked, keys[i].name)) {
            TRY(broker_key_fill(d, &keys[i], &out->configs[out->configs_count++]));
        }
    }
    for (size_t i = 0; i < foreign_count; i++) {
        if (is_asked(asked, foreign[i].name)) {
            TRY(foreign_key_fill(d, &foreign[i], &out->configs[out->configs_count++]));
        }
    }
    return OK;
}

static status resource_describe(const struct describe *d, const resource_asked *asked,
                                resource_result *out)
{
    *out = describe_configs_response_describe_configs_result_default;
    out->error_message = bytes_of(""); /* as Kafka, not null */
    out->resource_type = asked->resource_type;
    out->resource_name = asked->resource_name;
    switch (asked->resource_type) {
    case RESOURCE_TOPIC:
        return topic_describe(d, asked, out);
    case RESOURCE_BROKER:
        return broker_describe(d, asked, out);
    case RESOURCE_BROKER_LOGGER:
        /* There are no loggers here whose levels could be told. */
        if (!is_own_name(d, asked->resource_name)) {
            fail_other_broker(d, asked, out);
        }
        return OK;
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
