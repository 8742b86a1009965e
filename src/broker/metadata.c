#include "metadata.h"

#include <stdlib.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/trace.h"

#define SCRATCH_SIZE_MAX ((size_t)64 * 1024 * 1024)

void metadata_init(struct metadata *metadata, const struct broker_config *config, struct log **log)
{
    *metadata = (struct metadata){.config = config, .log = log};
    arena_init(&metadata->scratch, SCRATCH_SIZE_MAX);
}

static void topic_free(struct topic *topic)
{
    free(topic->name);
    free(topic->overrides);
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

/* Copies names and values behind the array, so that one free() does. */
static status topic_keep_overrides(struct topic *topic, const struct topic_record *record)
{
    if (record->configs_count <= 0) {
        return OK;
    }
    size_t size = 0;
    for (int32_t i = 0; i < record->configs_count; i++) {
        size += sizeof(struct topic_record_config) + record->configs[i].name.size +
                record->configs[i].value.size;
    }
    topic->overrides = malloc(size);
    if (topic->overrides == NULL) {
        return STATUS(NO_MEMORY);
    }
    uint8_t *text = (uint8_t *)(topic->overrides + record->configs_count);
    char message[256];
    for (int32_t i = 0; i < record->configs_count; i++) {
        const struct topic_record_config *from = &record->configs[i];
        struct topic_record_config *to = &topic->overrides[i];
        to->name = (struct bytes){memcpy(text, from->name.data, from->name.size), from->name.size};
        text += from->name.size;
        to->value =
            (struct bytes){memcpy(text, from->value.data, from->value.size), from->value.size};
        text += from->value.size;
        /* A setting of an older release that is not known any more is kept and not acted on. */
        status result =
            topic_config_set(&topic->config, to->name, to->value, message, sizeof(message));
        if (!status_is_ok(result)) {
            trace_warn("metadata", "topic %s: %s; the default is used", topic->name, message);
        }
    }
    topic->override_count = record->configs_count;
    return OK;
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
    topic_config_init(&topic->config, metadata->config);
    HASH_ADD_KEYPTR(by_name, metadata->by_name, topic->name, topic->name_size, topic);
    HASH_ADD(by_id, metadata->by_id, id, sizeof(topic->id), topic);
    metadata->topic_count++;
    pending_remove(metadata, record->name);
    TRY(topic_keep_overrides(topic, record));
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
