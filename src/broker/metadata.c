#include "metadata.h"

#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/trace.h"

#define SCRATCH_SIZE_MAX ((size_t)64 * 1024 * 1024)

void metadata_init(struct metadata *metadata, const struct broker_config *config, struct log **log)
{
    *metadata = (struct metadata){.given = config, .config = *config, .log = log};
    arena_init(&metadata->scratch, SCRATCH_SIZE_MAX);
}

static void topic_free(struct topic *topic)
{
    free(topic->name);
    overrides_free(&topic->overrides);
    free(topic->partitions);
    free(topic);
}

void metadata_fini(struct metadata *metadata)
{
    /* Clearing a table frees the table; its items stay linked. */
    struct topic *topic = metadata->by_name;
    HASH_CLEAR(by_id, metadata->by_id);
    HASH_CLEAR(by_name, metadata->by_name);
    while (topic != NULL) {
        struct topic *next = topic->by_name.next;
        topic_free(topic);
        topic = next;
    }
    struct pending_topic *pending = metadata->pending;
    HASH_CLEAR(hh, metadata->pending);
    while (pending != NULL) {
        struct pending_topic *next = pending->hh.next;
        free(pending);
        pending = next;
    }
    for (int i = 0; i < BROKER_LAYER_COUNT; i++) {
        overrides_free(&metadata->broker_overrides[i]);
    }
    arena_fini(&metadata->scratch);
}

struct topic *metadata_topic_by_name(struct metadata *metadata, struct bytes name)
{
    struct topic *topic = NULL;
    if (name.size > 0) {
        HASH_FIND(by_name, metadata->by_name, name.data, name.size, topic);
    }
    return topic;
}

struct topic *metadata_topic_by_id(struct metadata *metadata, const struct uuid *id)
{
    struct topic *topic = NULL;
    HASH_FIND(by_id, metadata->by_id, id, sizeof(*id), topic);
    return topic;
}

struct partition *topic_partition(const struct topic *topic, int32_t index)
{
    return index >= 0 && index < topic->partition_count ? topic->partitions[index] : NULL;
}

struct bytes topic_name(const struct topic *topic)
{
    return (struct bytes){(const uint8_t *)topic->name, topic->name_size};
}

/* ---------------------------------------------------------------- names */

const char *topic_name_judge(struct bytes name)
{
    if (name.size == 0) {
        return "the empty string is not allowed";
    }
    if (name.size > TOPIC_NAME_SIZE_MAX) {
        return "the length is longer than the max allowed length 249";
    }
    if (name.data[0] == '.' && (name.size == 1 || (name.size == 2 && name.data[1] == '.'))) {
        return "'.' or '..' is not allowed";
    }
    for (uint32_t i = 0; i < name.size; i++) {
        uint8_t c = name.data[i];
        uint8_t lower = c | 0x20;
        bool fine = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
                    c == '_' || c == '-';
        if (!fine) {
            return "it contains one or more characters other than ASCII alphanumerics, '.', '_' "
                   "and '-'";
        }
    }
    return NULL;
}

static bool names_collide(struct bytes a, const char *b)
{
    if (strlen(b) != a.size) {
        return false;
    }
    for (uint32_t i = 0; i < a.size; i++) {
        char x = a.data[i] == '.' ? '_' : (char)a.data[i];
        char y = b[i] == '.' ? '_' : b[i];
        if (x != y) {
            return false;
        }
    }
    return true;
}

bool metadata_name_collides(struct metadata *metadata, struct bytes name, const char **found_name)
{
    if (memchr(name.data, '.', name.size) == NULL && memchr(name.data, '_', name.size) == NULL) {
        return false;
    }
    for (struct topic *topic = metadata->by_name; topic != NULL; topic = topic->by_name.next) {
        if (names_collide(name, topic->name)) {
            *found_name = topic->name;
            return true;
        }
    }
    for (struct pending_topic *p = metadata->pending; p != NULL; p = p->hh.next) {
        if (names_collide(name, p->name)) {
            *found_name = p->name;
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- pending names */

struct pending_topic *metadata_pending_find(struct metadata *metadata, struct bytes name)
{
    struct pending_topic *pending = NULL;
    if (name.size > 0) {
        HASH_FIND(hh, metadata->pending, name.data, name.size, pending);
    }
    return pending;
}

status metadata_pending_add(struct metadata *metadata, struct bytes name, uint64_t lsn)
{
    ASSERT(name.size <= TOPIC_NAME_SIZE_MAX);
    ASSERT(metadata_pending_find(metadata, name) == NULL);
    struct pending_topic *pending = calloc(1, sizeof(*pending));
    if (pending == NULL) {
        return STATUS(NO_MEMORY);
    }
    memcpy(pending->name, name.data, name.size);
    pending->lsn = lsn;
    HASH_ADD_KEYPTR(hh, metadata->pending, pending->name, name.size, pending);
    return OK;
}

static void pending_remove(struct metadata *metadata, struct bytes name)
{
    struct pending_topic *pending = metadata_pending_find(metadata, name);
    if (pending != NULL) {
        HASH_DEL(metadata->pending, pending);
        free(pending);
    }
}

/* ---------------------------------------------------------------- records */

static status topic_grow(struct metadata *metadata, struct topic *topic, int32_t partition_count)
{
    struct partition **grown =
        realloc(topic->partitions, (size_t)partition_count * sizeof(struct partition *));
    if (grown == NULL) {
        return STATUS(NO_MEMORY);
    }
    topic->partitions = grown;
    struct partition_config config = topic_config_of_partition(&topic->config);
    while (topic->partition_count < partition_count) {
        int32_t index = topic->partition_count;
        TRY(log_partition_add(*metadata->log, topic->name, &topic->id, index, &config,
                              &topic->partitions[index]));
        log_partition_context_set(topic->partitions[index], topic);
        topic->partition_count++;
        metadata->partition_count++;
    }
    return OK;
}

/* Works out its settings anew, and tells the log. */
static void topic_configure(const struct metadata *metadata, struct topic *topic)
{
    char message[256];
    topic_config_init(&topic->config, &metadata->config);
    for (int32_t i = 0; i < topic->overrides.count; i++) {
        const struct topic_record_config *item = &topic->overrides.items[i];
        /* A setting of an older release that is not known any more is kept and not acted on. */
        status result =
            topic_config_set(&topic->config, item->name, item->value, message, sizeof(message));
        if (!status_is_ok(result)) {
            trace_warn("metadata", "topic %s: %s; the default is used", topic->name, message);
        }
    }
    struct partition_config config = topic_config_of_partition(&topic->config);
    for (int32_t i = 0; i < topic->partition_count; i++) {
        log_partition_configure(topic->partitions[i], &config);
    }
}

static status topic_create(struct metadata *metadata, const struct topic_record *record)
{
    struct topic *topic = calloc(1, sizeof(*topic));
    char *name = malloc((size_t)record->name.size + 1);
    if (topic == NULL || name == NULL) {
        free(topic);
        free(name);
        return STATUS(NO_MEMORY);
    }
    memcpy(name, record->name.data, record->name.size);
    name[record->name.size] = '\0';
    topic->name = name;
    topic->name_size = record->name.size;
    topic->id = record->topic_id;
    HASH_ADD_KEYPTR(by_name, metadata->by_name, topic->name, topic->name_size, topic);
    HASH_ADD(by_id, metadata->by_id, id, sizeof(topic->id), topic);
    metadata->topic_count++;
    pending_remove(metadata, record->name);
    TRY(overrides_set(&topic->overrides, record->configs, record->configs_count));
    topic_configure(metadata, topic);
    return topic_grow(metadata, topic, record->partition_count);
}

static status apply_topic(struct metadata *metadata, const struct topic_record *record)
{
    struct topic *topic = metadata_topic_by_id(metadata, &record->topic_id);
    if (topic != NULL) {
        /* The same topic again, with more partitions. */
        topic->change_lsn = 0;
        if (record->partition_count < topic->partition_count) {
            return STATUS(CORRUPT);
        }
        return topic_grow(metadata, topic, record->partition_count);
    }
    if (topic_name_judge(record->name) != NULL || record->partition_count <= 0 ||
        metadata_topic_by_name(metadata, record->name) != NULL) {
        return STATUS(CORRUPT);
    }
    return topic_create(metadata, record);
}

static status apply_remove_topic(struct metadata *metadata,
                                 const struct remove_topic_record *record)
{
    struct topic *topic = metadata_topic_by_id(metadata, &record->topic_id);
    if (topic == NULL) {
        return STATUS(CORRUPT);
    }
    HASH_DELETE(by_name, metadata->by_name, topic);
    HASH_DELETE(by_id, metadata->by_id, topic);
    metadata->topic_count--;
    metadata->partition_count -= topic->partition_count;
    for (int32_t i = 0; i < topic->partition_count; i++) {
        log_partition_remove(*metadata->log, topic->partitions[i]);
    }
    topic_free(topic);
    return OK;
}

/* The record's settings, in the type of the overrides. */
static struct topic_record_config *config_record_items(struct metadata *metadata,
                                                       const struct config_record *record)
{
    size_t count = (size_t)MAX(record->configs_count, 0);
    struct topic_record_config *items = arena_array(&metadata->scratch, count, sizeof(*items));
    for (size_t i = 0; items != NULL && i < count; i++) {
        items[i].name = record->configs[i].name;
        items[i].value = record->configs[i].value;
    }
    return items;
}

static void broker_layer_apply(struct metadata *metadata, const struct overrides *layer)
{
    char assignment[256 + CONFIG_TOPIC_VALUE_SIZE];
    for (int32_t i = 0; i < layer->count; i++) {
        const struct topic_record_config *item = &layer->items[i];
        struct config_report report = {0};
        snprintf(assignment, sizeof(assignment), "%.*s=%.*s", (int)item->name.size,
                 (const char *)item->name.data, (int)item->value.size,
                 (const char *)item->value.data);
        if (!status_is_ok(broker_config_override(&metadata->config, assignment, &report))) {
            trace_warn("metadata", "%s: the start's setting is used", report.error);
        }
    }
}

static void broker_configure(struct metadata *metadata)
{
    metadata->config = *metadata->given;
    for (int i = 0; i < BROKER_LAYER_COUNT; i++) {
        broker_layer_apply(metadata, &metadata->broker_overrides[i]);
    }
    metadata->config.given = metadata->given->given;
    for (struct topic *topic = metadata->by_name; topic != NULL; topic = topic->by_name.next) {
        topic_configure(metadata, topic);
    }
}

static status apply_config(struct metadata *metadata, const struct config_record *record)
{
    const struct topic_record_config *items = config_record_items(metadata, record);
    if (items == NULL) {
        return STATUS(NO_MEMORY);
    }
    if (record->resource_type == RESOURCE_BROKER) {
        enum broker_layer layer =
            record->resource_name.size == 0 ? BROKER_LAYER_ALL : BROKER_LAYER_OWN;
        metadata->broker_config_lsn = 0;
        TRY(overrides_set(&metadata->broker_overrides[layer], items, record->configs_count));
        broker_configure(metadata);
        return OK;
    }
    if (record->resource_type != RESOURCE_TOPIC) {
        return STATUS(UNSUPPORTED);
    }
    struct topic *topic = metadata_topic_by_id(metadata, &record->topic_id);
    if (topic == NULL) {
        return STATUS(CORRUPT);
    }
    topic->config_lsn = 0;
    TRY(overrides_set(&topic->overrides, items, record->configs_count));
    topic_configure(metadata, topic);
    return OK;
}

static status decode_body(struct metadata *metadata, const struct message_type *type,
                          uint32_t version, struct bytes body, void *message)
{
    if (version > INT16_MAX) {
        return STATUS(UNSUPPORTED);
    }
    return message_decode(type, (int16_t)version, body, &metadata->scratch, message);
}

static status apply_record(struct metadata *metadata, struct bytes value)
{
    uint32_t type;
    uint32_t version;
    const uint8_t *end = value.data + value.size;
    const uint8_t *at = varint_read_u32(value.data, end, &type);
    at = at == NULL ? NULL : varint_read_u32(at, end, &version);
    if (at == NULL) {
        return STATUS(CORRUPT);
    }
    struct bytes body = {at, (uint32_t)(end - at)};
    union {
        struct topic_record topic;
        struct remove_topic_record remove_topic;
        struct producer_ids_record producer_ids;
        struct cluster_record cluster;
        struct config_record config;
    } record;
    switch (type) {
    case RECORD_TYPE_TOPIC:
        TRY(decode_body(metadata, &topic_record_type, version, body, &record.topic));
        return apply_topic(metadata, &record.topic);
    case RECORD_TYPE_REMOVE_TOPIC:
        TRY(decode_body(metadata, &remove_topic_record_type, version, body, &record.remove_topic));
        return apply_remove_topic(metadata, &record.remove_topic);
    case RECORD_TYPE_PRODUCER_IDS:
        TRY(decode_body(metadata, &producer_ids_record_type, version, body, &record.producer_ids));
        metadata->next_producer_id =
            MAX(metadata->next_producer_id, record.producer_ids.next_producer_id);
        return OK;
    case RECORD_TYPE_CLUSTER:
        return decode_body(metadata, &cluster_record_type, version, body, &record.cluster);
    case RECORD_TYPE_CONFIG:
        TRY(decode_body(metadata, &config_record_type, version, body, &record.config));
        return apply_config(metadata, &record.config);
    default:
        return STATUS(UNSUPPORTED);
    }
}

status metadata_apply(struct metadata *metadata, struct bytes batch)
{
    struct batch_header header;
    status result = batch_header_read(batch, &header);
    if (!status_is_ok(result)) {
        trace_error("metadata", "a batch of the metadata log cannot be read: %s",
                    status_text(result));
        return result;
    }
    struct bytes records = {batch.data + BATCH_HEADER_SIZE, header.size - BATCH_HEADER_SIZE};
    struct record_iterator it;
    struct record record = {0};
    record_iterator_init(&it, &header, records);
    while (status_is_ok(result = record_iterator_next(&it, &record))) {
        arena_reset(&metadata->scratch);
        result = apply_record(metadata, record.value);
        if (!status_is_ok(result)) {
            break;
        }
    }
    if (result.code == STATUS_NOT_FOUND) {
        return OK;
    }
    trace_error("metadata", "record at offset %lld of the metadata log cannot be applied: %s",
                (long long)record.offset, status_text(result));
    return result;
}
