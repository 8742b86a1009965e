/*
 * AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339): settings of topics and of brokers.
 * Both requests become the same list of resources; each resource that passes becomes one record
 * that says all its settings, and the answer waits for the commit. A resource with a change that is
 * not committed yet is waited for first: the new settings rest on the old ones.
 *
 * Of brokers, what can be changed is what topics take their defaults from; it acts at once, too.
 */
#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/assert.h"

#include "../shard.h"

/* ConfigOperation of IncrementalAlterConfigs. */
enum operation {
    OPERATION_SET = 0,
    OPERATION_DELETE = 1,
    OPERATION_APPEND = 2,
    OPERATION_SUBTRACT = 3,
};

struct setting {
    struct bytes name;
    struct bytes value;
    int8_t operation;
};

struct resource {
    int8_t type;
    struct bytes name;
    struct setting *settings;
    int32_t setting_count;
    enum kafka_error error; /* out */
    const char *message;    /* out; NULL: none */
    bool appended;          /* its record is in the log, its result waits for the commit */
};

struct alter {
    struct request *request;
    struct shard *shard;
    struct arena *arena; /* the request's */
    struct resource *resources;
    int32_t resource_count;
    const enum name_use *uses; /* by resource, of type and name together */
    bool replaces;             /* AlterConfigs: what is not named has its default again */
    bool validate_only;
    int32_t at;
    uint64_t lsn;
};

/* The settings a resource will have; one more than there were for each that is asked for. */
struct draft {
    struct topic_record_config *items;
    int32_t count;
};

static void alter_step(struct request *request);

static void resource_fail(struct resource *resource, enum kafka_error error, const char *message)
{
    resource->error = error;
    resource->message = message;
}

/* ---------------------------------------------------------------- drafts */

static bool draft_init(struct draft *draft, const struct alter *alter,
                       const struct resource *resource, const struct overrides *overrides)
{
    size_t room = (size_t)resource->setting_count + (size_t)overrides->count;
    draft->count = 0;
    draft->items = arena_array(alter->arena, room, sizeof(*draft->items));
    if (draft->items == NULL) {
        return false;
    }
    if (!alter->replaces && overrides->count > 0) {
        /* A view is enough: the record is made of it before anything else happens. */
        memcpy(draft->items, overrides->items, (size_t)overrides->count * sizeof(*draft->items));
        draft->count = overrides->count;
    }
    return true;
}

static struct topic_record_config *draft_find(const struct draft *draft, struct bytes name)
{
    for (int32_t i = 0; i < draft->count; i++) {
        if (bytes_equal(draft->items[i].name, name)) {
            return &draft->items[i];
        }
    }
    return NULL;
}

static bool draft_set(struct draft *draft, struct arena *arena, struct bytes name,
                      const char *value)
{
    struct topic_record_config *item = draft_find(draft, name);
    size_t size = strlen(value);
    char *kept = arena_alloc(arena, size + 1);
    if (kept == NULL) {
        return false;
    }
    memcpy(kept, value, size + 1);
    if (item == NULL) {
        item = &draft->items[draft->count++];
        *item = topic_record_config_default;
        item->name = name;
    }
    item->value = bytes_of(kept);
    return true;
}

static void draft_remove(struct draft *draft, struct bytes name)
{
    struct topic_record_config *item = draft_find(draft, name);
    if (item != NULL) {
        *item = draft->items[--draft->count];
    }
}

/* ---------------------------------------------------------------- judging */

/*
 * Works out the new text of a setting from the old one and checks it. `key` is the topic's key, or
 * the one that takes its default from a broker's setting of this name.
 */
static bool setting_value(const struct alter *alter, struct resource *resource,
                          const struct setting *setting, const struct topic_key *key,
                          const char *old, char text[CONFIG_TOPIC_VALUE_SIZE])
{
    enum kafka_error wrong =
        resource->type == RESOURCE_BROKER ? KAFKA_INVALID_REQUEST : KAFKA_INVALID_CONFIG;
    char why[512];
    char given[CONFIG_TOPIC_VALUE_SIZE];
    struct bytes value = setting->value;
    if (setting->operation == OPERATION_APPEND && value.size == 0) {
        resource_fail(resource, wrong, "An empty word is not one of the list's");
        return false;
    }
    if (setting->operation != OPERATION_SET) {
        if (value.size >= sizeof(given)) {
            resource_fail(resource, wrong, "The value is too long");
            return false;
        }
        snprintf(given, sizeof(given), "%.*s", (int)value.size,
                 value.size == 0 ? "" : (const char *)value.data);
        snprintf(text, CONFIG_TOPIC_VALUE_SIZE, "%s", old);
        if (setting->operation == OPERATION_SUBTRACT) {
            config_list_subtract(text, given);
        } else if (!config_list_merge(text, CONFIG_TOPIC_VALUE_SIZE, given)) {
            resource_fail(resource, wrong, "The list is too long");
            return false;
        }
        snprintf(given, sizeof(given), "%s", text);
        value = bytes_of(given);
    }
    if (!status_is_ok(topic_config_tidy(key, value, text, why, sizeof(why)))) {
        resource_fail(resource, wrong, arena_printf(alter->arena, "%s", why));
        return false;
    }
    return true;
}

static bool operation_is_of_list(int8_t operation)
{
    return operation == OPERATION_APPEND || operation == OPERATION_SUBTRACT;
}

static void fail_no_list(const struct alter *alter, struct resource *resource,
                         const struct setting *setting)
{
    resource_fail(resource, KAFKA_INVALID_CONFIG,
                  arena_printf(alter->arena, "Can't %s to key %.*s because its type is not LIST.",
                               setting->operation == OPERATION_APPEND ? "APPEND" : "SUBTRACT",
                               (int)MIN(setting->name.size, 200U),
                               (const char *)setting->name.data));
}

static bool topic_setting_apply(const struct alter *alter, struct resource *resource,
                                const struct setting *setting, struct draft *draft)
{
    char old[CONFIG_VALUE_SIZE_MAX];
    char text[CONFIG_TOPIC_VALUE_SIZE];
    const struct topic_key *key = topic_config_find(setting->name);
    if (setting->operation == OPERATION_DELETE) {
        draft_remove(draft, setting->name);
        return true;
    }
    if (operation_is_of_list(setting->operation) && (key == NULL || !topic_key_is_list(key))) {
        fail_no_list(alter, resource, setting);
        return false;
    }
    if (key == NULL) {
        resource_fail(resource, KAFKA_INVALID_CONFIG,
                      arena_printf(alter->arena, "Unknown topic config name: %.*s",
                                   (int)MIN(setting->name.size, 200U),
                                   (const char *)setting->name.data));
        return false;
    }
    const struct topic_record_config *set = draft_find(draft, setting->name);
    topic_config_preset(key, alter->shard->config, old, sizeof(old));
    if (set != NULL) {
        snprintf(old, sizeof(old), "%.*s", (int)set->value.size, (const char *)set->value.data);
    }
    if (!setting_value(alter, resource, setting, key, old, text)) {
        return false;
    }
    if (!draft_set(draft, alter->arena, setting->name, text)) {
        resource_fail(resource, KAFKA_UNKNOWN_SERVER_ERROR, "out of memory");
        return false;
    }
    return true;
}

/* The key whose default a broker's setting is; NULL when it cannot be changed at run time. */
static const struct topic_key *broker_setting_find(struct bytes name)
{
    return broker_config_find(name) == NULL ? NULL : topic_config_find_synonym(name);
}

static bool broker_setting_apply(const struct alter *alter, struct resource *resource,
                                 const struct setting *setting, struct draft *draft)
{
    char old[CONFIG_VALUE_SIZE_MAX];
    char text[CONFIG_TOPIC_VALUE_SIZE];
    const struct topic_key *key = broker_setting_find(setting->name);
    if (key == NULL && setting->operation == OPERATION_DELETE) {
        return true; /* it was never set, so it is gone, as in Kafka */
    }
    if (key == NULL) {
        resource_fail(
            resource, KAFKA_INVALID_REQUEST,
            arena_printf(alter->arena, "Cannot update these configs dynamically: Set(%.*s)",
                         (int)MIN(setting->name.size, 200U), (const char *)setting->name.data));
        return false;
    }
    if (setting->operation == OPERATION_DELETE) {
        draft_remove(draft, setting->name);
        return true;
    }
    if (operation_is_of_list(setting->operation) && !topic_key_is_list(key)) {
        fail_no_list(alter, resource, setting);
        return false;
    }
    struct topic_key named = *key; /* so that a refusal names the broker's setting */
    named.name = key->synonym;
    broker_config_value(alter->shard->config, broker_config_find(setting->name), old, sizeof(old));
    if (!setting_value(alter, resource, setting, &named, old, text)) {
        return false;
    }
    /* A value that a topic may have and the file may not would be lost at the next start. */
    struct broker_config probe = alter->shard->metadata.config;
    struct config_report report = {0};
    const char *assignment = arena_printf(alter->arena, "%s=%s", key->synonym, text);
    if (!status_is_ok(broker_config_override(&probe, assignment, &report))) {
        resource_fail(resource, KAFKA_INVALID_REQUEST,
                      arena_printf(alter->arena, "%s", report.error));
        return false;
    }
    if (!draft_set(draft, alter->arena, setting->name, text)) {
        resource_fail(resource, KAFKA_UNKNOWN_SERVER_ERROR, "out of memory");
        return false;
    }
    return true;
}

/* What is wrong whatever the resource: a key twice, a null value, an operation that is none. */
static bool settings_judge(const struct alter *alter, struct resource *resource)
{
    size_t count = (size_t)resource->setting_count;
    struct bytes *names = arena_array(alter->arena, count, sizeof(*names));
    for (size_t i = 0; names != NULL && i < count; i++) {
        names[i] = resource->settings[i].name;
    }
    const enum name_use *uses = names == NULL ? NULL : names_judge(alter->arena, names, count);
    if (uses == NULL) {
        resource_fail(resource, KAFKA_UNKNOWN_SERVER_ERROR, "out of memory");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (uses[i] != NAME_ONCE) {
            resource_fail(resource, KAFKA_INVALID_REQUEST, "Error due to duplicate config keys");
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct setting *setting = &resource->settings[i];
        if (setting->operation < OPERATION_SET || setting->operation > OPERATION_SUBTRACT) {
            /* Kafka's broker refuses what its controller stumbles over. */
            bool is_broker = resource->type == RESOURCE_BROKER;
            resource_fail(resource, is_broker ? KAFKA_INVALID_REQUEST : KAFKA_UNKNOWN_SERVER_ERROR,
                          is_broker ? "Unknown operation: use 0 to 3" : NULL);
            return false;
        }
        if (setting->operation != OPERATION_DELETE && bytes_is_null(setting->value)) {
            resource_fail(resource, KAFKA_INVALID_REQUEST,
                          arena_printf(alter->arena, "Null value not supported for : %.*s",
                                       (int)MIN(setting->name.size, 200U),
                                       (const char *)setting->name.data));
            return false;
        }
    }
    return true;
}

static struct topic *topic_judge(const struct alter *alter, struct resource *resource)
{
    const char *fault = topic_name_judge(resource->name);
    if (resource->name.size == 0) {
        resource_fail(resource, KAFKA_INVALID_REQUEST, "Default topic resources are not allowed.");
        return NULL;
    }
    if (fault != NULL) {
        resource_fail(resource, KAFKA_INVALID_TOPIC_EXCEPTION,
                      arena_printf(alter->arena, "Topic name is invalid: %s", fault));
        return NULL;
    }
    struct topic *topic = metadata_topic_by_name(&alter->shard->metadata, resource->name);
    if (topic == NULL || topic->removing) {
        resource_fail(resource, KAFKA_UNKNOWN_TOPIC_OR_PARTITION,
                      arena_printf(alter->arena, "The topic '%.*s' does not exist.",
                                   (int)resource->name.size, (const char *)resource->name.data));
        return NULL;
    }
    return topic;
}

/* True for the empty name and for this node's number, as text. */
static bool broker_judge(const struct alter *alter, struct resource *resource)
{
    char own[16];
    char name[32];
    char *end;
    snprintf(own, sizeof(own), "%d", alter->shard->node_id);
    bool is_all = resource->name.size == 0 && resource->type == RESOURCE_BROKER;
    if (is_all || bytes_equal(resource->name, bytes_of(own))) {
        return true;
    }
    snprintf(name, sizeof(name), "%.*s", (int)MIN(resource->name.size, sizeof(name) - 1),
             resource->name.size == 0 ? "" : (const char *)resource->name.data);
    long number = strtol(name, &end, 10);
    const char *message =
        end == name || *end != '\0'
            ? arena_printf(alter->arena, "Node id must be an integer, but it is: %s", name)
            : arena_printf(alter->arena, "Unexpected broker id, expected %s, but received %ld", own,
                           number);
    resource_fail(resource, KAFKA_INVALID_REQUEST, message);
    return false;
}

/* ---------------------------------------------------------------- resources */

/* FULL: there is no room in the log; nothing was done. */
static status draft_append(struct alter *alter, struct resource *resource,
                           const struct draft *draft, const struct uuid *topic_id,
                           uint64_t *change_lsn)
{
    struct config_record record = config_record_default;
    record.resource_type = resource->type;
    record.resource_name = resource->name;
    record.topic_id = *topic_id;
    record.configs =
        arena_array(alter->arena, (size_t)draft->count, sizeof(struct config_record_config));
    record.configs_count = draft->count;
    if (record.configs == NULL) {
        resource_fail(resource, KAFKA_UNKNOWN_SERVER_ERROR, "out of memory");
        return OK;
    }
    for (int32_t i = 0; i < draft->count; i++) {
        record.configs[i].name = draft->items[i].name;
        record.configs[i].value = draft->items[i].value;
    }
    uint64_t lsn = 0;
    status result =
        metadata_append(alter->shard, RECORD_TYPE_CONFIG, &config_record_type, &record, &lsn);
    if (result.code == STATUS_FULL) {
        return result;
    }
    if (!status_is_ok(result)) {
        resource_fail(resource, error_of_status(result), status_text(result));
        return OK;
    }
    *change_lsn = lsn;
    alter->lsn = MAX(alter->lsn, lsn);
    resource->appended = true;
    return OK;
}

typedef bool (*setting_fn)(const struct alter *alter, struct resource *resource,
                           const struct setting *setting, struct draft *draft);

/* FULL as above. */
static status settings_apply(struct alter *alter, struct resource *resource,
                             const struct overrides *overrides, setting_fn apply,
                             const struct uuid *topic_id, uint64_t *change_lsn)
{
    struct draft draft;
    if (!draft_init(&draft, alter, resource, overrides)) {
        resource_fail(resource, KAFKA_UNKNOWN_SERVER_ERROR, "out of memory");
        return OK;
    }
    for (int32_t i = 0; i < resource->setting_count; i++) {
        if (!apply(alter, resource, &resource->settings[i], &draft)) {
            return OK;
        }
    }
    bool changes_nothing = resource->setting_count == 0 && draft.count == overrides->count;
    if (alter->validate_only || changes_nothing) {
        return OK;
    }
    return draft_append(alter, resource, &draft, topic_id, change_lsn);
}

/* This broker has no loggers of Kafka's, which is what Kafka says of one it has not. */
static void logger_apply(const struct alter *alter, struct resource *resource)
{
    if (alter->replaces) {
        resource_fail(resource, KAFKA_INVALID_REQUEST, "Unknown resource type 8");
    } else if (broker_judge(alter, resource) && resource->setting_count > 0) {
        resource_fail(resource, KAFKA_INVALID_CONFIG,
                      arena_printf(alter->arena, "Logger %.*s does not exist!",
                                   (int)MIN(resource->settings[0].name.size, 200U),
                                   (const char *)resource->settings[0].name.data));
    }
}

/*
 * FULL as above. *pending_lsn is set when a change that is not committed has to be waited for;
 * nothing was done then.
 */
static status resource_apply(struct alter *alter, struct resource *resource, uint64_t *pending_lsn)
{
    struct metadata *metadata = &alter->shard->metadata;
    static const struct uuid no_id;
    struct topic *topic;
    if (alter->uses[resource - alter->resources] != NAME_ONCE) {
        resource_fail(resource, KAFKA_INVALID_REQUEST, "Each resource must appear at most once.");
        return OK;
    }
    if (!settings_judge(alter, resource)) {
        return OK;
    }
    switch (resource->type) {
    case RESOURCE_TOPIC:
        topic = topic_judge(alter, resource);
        if (topic == NULL) {
            return OK;
        }
        *pending_lsn = topic->config_lsn;
        return *pending_lsn != 0
                   ? OK
                   : settings_apply(alter, resource, &topic->overrides, topic_setting_apply,
                                    &topic->id, &topic->config_lsn);
    case RESOURCE_BROKER:
        if (!broker_judge(alter, resource)) {
            return OK;
        }
        *pending_lsn = metadata->broker_config_lsn;
        return *pending_lsn != 0
                   ? OK
                   : settings_apply(
                         alter, resource,
                         &metadata->broker_overrides[resource->name.size == 0 ? BROKER_LAYER_ALL
                                                                              : BROKER_LAYER_OWN],
                         broker_setting_apply, &no_id, &metadata->broker_config_lsn);
    case RESOURCE_BROKER_LOGGER:
        logger_apply(alter, resource);
        return OK;
    default:
        resource_fail(resource, KAFKA_INVALID_REQUEST,
                      arena_printf(alter->arena, "Unknown resource type %d", resource->type));
        return OK;
    }
}

/* ---------------------------------------------------------------- answers */

static struct bytes message_text(const struct resource *resource)
{
    return resource->message == NULL ? BYTES_NULL : bytes_of(resource->message);
}

static void answer_all(struct alter *alter)
{
    struct alter_configs_response response = alter_configs_response_default;
    response.responses =
        arena_array(alter->arena, (size_t)alter->resource_count, sizeof(*response.responses));
    if (response.responses == NULL) {
        request_close(alter->request, "no memory for the answer");
        return;
    }
    response.responses_count = alter->resource_count;
    for (int32_t i = 0; i < alter->resource_count; i++) {
        const struct resource *resource = &alter->resources[i];
        response.responses[i].error_code = (int16_t)resource->error;
        response.responses[i].error_message = message_text(resource);
        response.responses[i].resource_type = resource->type;
        response.responses[i].resource_name = resource->name;
    }
    (void)request_respond(alter->request, &response);
}

static void answer_incremental(struct alter *alter)
{
    struct incremental_alter_configs_response response = incremental_alter_configs_response_default;
    response.responses =
        arena_array(alter->arena, (size_t)alter->resource_count, sizeof(*response.responses));
    if (response.responses == NULL) {
        request_close(alter->request, "no memory for the answer");
        return;
    }
    response.responses_count = alter->resource_count;
    for (int32_t i = 0; i < alter->resource_count; i++) {
        const struct resource *resource = &alter->resources[i];
        response.responses[i].error_code = (int16_t)resource->error;
        response.responses[i].error_message = message_text(resource);
        response.responses[i].resource_type = resource->type;
        response.responses[i].resource_name = resource->name;
    }
    (void)request_respond(alter->request, &response);
}

static void alter_answer(struct alter *alter)
{
    if (alter->replaces) {
        answer_all(alter);
    } else {
        answer_incremental(alter);
    }
}

static void alter_on_committed(struct log_wait *wait)
{
    struct request *request = wait->context;
    struct alter *alter = request->state;
    for (int32_t i = 0; !status_is_ok(wait->result) && i < alter->resource_count; i++) {
        if (alter->resources[i].appended) {
            resource_fail(&alter->resources[i], error_of_status(wait->result),
                          "The log failed before the change was durable");
        }
    }
    alter_answer(alter);
}

/* The change before this one is committed, or never will be. */
static void alter_on_pending(struct log_wait *wait)
{
    struct request *request = wait->context;
    struct alter *alter = request->state;
    if (!status_is_ok(wait->result)) {
        resource_fail(&alter->resources[alter->at], error_of_status(wait->result),
                      "The log failed before an earlier change was durable");
        alter->at++;
    }
    alter_step(request);
}

static void alter_step(struct request *request)
{
    struct alter *alter = request->state;
    request->wait.context = request;
    for (; alter->at < alter->resource_count; alter->at++) {
        uint64_t pending_lsn = 0;
        status result = resource_apply(alter, &alter->resources[alter->at], &pending_lsn);
        if (pending_lsn != 0 && !alter->resources[alter->at].appended) {
            log_wait_committed(alter->shard->log, &request->wait, pending_lsn, alter_on_pending);
            return;
        }
        if (!status_is_ok(result)) {
            request_wait_room(request, alter_step);
            return;
        }
    }
    if (alter->lsn == 0) {
        alter_answer(alter);
        return;
    }
    log_wait_committed(alter->shard->log, &request->wait, alter->lsn, alter_on_committed);
}

/* ---------------------------------------------------------------- requests */

static bool resource_init(struct alter *alter, struct resource *resource, int8_t type,
                          struct bytes name, int32_t setting_count)
{
    resource->type = type;
    resource->name = name;
    resource->setting_count = MAX(setting_count, 0);
    resource->settings =
        arena_array(alter->arena, (size_t)resource->setting_count, sizeof(*resource->settings));
    return resource->settings != NULL;
}

/* Type and name in one text, so that the same name of two types is not one resource. */
static bool alter_judge_names(struct alter *alter)
{
    size_t count = (size_t)alter->resource_count;
    struct bytes *names = arena_array(alter->arena, count, sizeof(*names));
    for (size_t i = 0; names != NULL && i < count; i++) {
        const struct resource *resource = &alter->resources[i];
        uint8_t *text = arena_alloc(alter->arena, (size_t)resource->name.size + 1);
        if (text == NULL) {
            return false;
        }
        text[0] = (uint8_t)resource->type;
        if (resource->name.size > 0) {
            memcpy(text + 1, resource->name.data, resource->name.size);
        }
        names[i] = (struct bytes){text, resource->name.size + 1};
    }
    alter->uses = names == NULL ? NULL : names_judge(alter->arena, names, count);
    return alter->uses != NULL;
}

static struct alter *alter_create(struct shard *shard, struct request *request)
{
    struct alter *alter = arena_array(request_arena(request), 1, sizeof(*alter));
    if (alter != NULL) {
        alter->request = request;
        alter->shard = shard;
        alter->arena = request_arena(request);
        request->state = alter;
    }
    return alter;
}

static bool alter_reserve(struct alter *alter, int32_t count)
{
    alter->resource_count = MAX(count, 0);
    alter->resources =
        arena_array(alter->arena, (size_t)alter->resource_count, sizeof(*alter->resources));
    return alter->resources != NULL;
}

static bool take_all(struct alter *alter, const struct alter_configs_request *message)
{
    bool ok = alter_reserve(alter, message->resources_count);
    for (int32_t i = 0; ok && i < alter->resource_count; i++) {
        const struct alter_configs_request_alter_configs_resource *from = &message->resources[i];
        struct resource *to = &alter->resources[i];
        ok =
            resource_init(alter, to, from->resource_type, from->resource_name, from->configs_count);
        for (int32_t j = 0; ok && j < to->setting_count; j++) {
            to->settings[j] =
                (struct setting){from->configs[j].name, from->configs[j].value, OPERATION_SET};
        }
    }
    return ok && alter_judge_names(alter);
}

static bool take_incremental(struct alter *alter,
                             const struct incremental_alter_configs_request *message)
{
    bool ok = alter_reserve(alter, message->resources_count);
    for (int32_t i = 0; ok && i < alter->resource_count; i++) {
        const struct incremental_alter_configs_request_alter_configs_resource *from =
            &message->resources[i];
        struct resource *to = &alter->resources[i];
        ok =
            resource_init(alter, to, from->resource_type, from->resource_name, from->configs_count);
        for (int32_t j = 0; ok && j < to->setting_count; j++) {
            to->settings[j] = (struct setting){from->configs[j].name, from->configs[j].value,
                                               from->configs[j].config_operation};
        }
    }
    return ok && alter_judge_names(alter);
}

enum net_verdict handle_alter_configs(struct shard *shard, struct request *request)
{
    struct alter *alter = alter_create(shard, request);
    struct alter_configs_request message;
    if (alter == NULL || !status_is_ok(request_decode(request, alter->arena, &message))) {
        return NET_CLOSE;
    }
    alter->replaces = true;
    alter->validate_only = message.validate_only;
    if (!take_all(alter, &message)) {
        return request_refuse(request, "no memory for its settings");
    }
    alter_step(request);
    return NET_TAKEN;
}

enum net_verdict handle_incremental_alter_configs(struct shard *shard, struct request *request)
{
    struct alter *alter = alter_create(shard, request);
    struct incremental_alter_configs_request message;
    if (alter == NULL || !status_is_ok(request_decode(request, alter->arena, &message))) {
        return NET_CLOSE;
    }
    alter->validate_only = message.validate_only;
    if (!take_incremental(alter, &message)) {
        return request_refuse(request, "no memory for its settings");
    }
    alter_step(request);
    return NET_TAKEN;
}
