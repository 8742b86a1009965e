/* Changes of the cluster's image on their way into the metadata log. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/assert.h"

#include "shard.h"

#define RECORD_OVERHEAD_MAX (BATCH_HEADER_SIZE + 64u) /* of batch and record around a value */

const char *arena_printf(struct arena *arena, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    size_t size = strlen(text) + 1;
    char *kept = arena_alloc(arena, size);
    return kept == NULL ? "out of memory" : memcpy(kept, text, size);
}

struct placed_name {
    struct bytes name;
    size_t place;
};

static int placed_name_compare(const void *left, const void *right)
{
    const struct placed_name *a = left;
    const struct placed_name *b = right;
    size_t size = MIN(a->name.size, b->name.size);
    int order = size == 0 ? 0 : memcmp(a->name.data, b->name.data, size);
    if (order == 0 && a->name.size != b->name.size) {
        order = a->name.size < b->name.size ? -1 : 1;
    }
    if (order == 0) {
        order = a->place < b->place ? -1 : 1;
    }
    return order;
}

const enum name_use *names_judge(struct arena *arena, const struct bytes *names, size_t count)
{
    enum name_use *uses = arena_array(arena, count, sizeof(*uses));
    struct placed_name *sorted = arena_array(arena, count, sizeof(*sorted));
    if (uses == NULL || sorted == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (struct placed_name){names[i], i};
    }
    if (count > 1) {
        qsort(sorted, count, sizeof(*sorted), placed_name_compare);
    }
    for (size_t i = 1; i < count; i++) {
        const struct placed_name *before = &sorted[i - 1];
        if (!bytes_is_null(sorted[i].name) && bytes_equal(before->name, sorted[i].name)) {
            uses[sorted[i].place] = NAME_AGAIN;
            if (uses[before->place] == NAME_ONCE) {
                uses[before->place] = NAME_TWICE;
            }
        }
    }
    return uses;
}

/* Type, version 0 and body: what metadata_apply() reads. */
static status record_value_write(enum record_type type, const struct message_type *message_type,
                                 const void *record, uint8_t *to, uint32_t size,
                                 struct bytes *value)
{
    uint8_t *body = varint_write_u32(to, (uint32_t)type);
    body = varint_write_u32(body, 0);
    struct message_writer writer = {.buffer = body, .capacity = size};
    TRY(message_encode(message_type, 0, record, &writer));
    *value = (struct bytes){to, (uint32_t)(body - to) + writer.size};
    return OK;
}

static status batch_append(struct shard *shard, struct bytes value, uint8_t *buffer,
                           uint32_t capacity, uint64_t *lsn)
{
    struct batch_builder builder;
    batch_builder_init(&builder, buffer, capacity);
    TRY(batch_builder_add(&builder, io_wall_ms(shard->io), BYTES_NULL, value));
    struct bytes batch = batch_builder_finish(&builder, -1, -1, -1, 0);
    struct batch_header header;
    TRY(batch_header_read(batch, &header));
    struct log_appended appended;
    TRY(log_append(shard->log, log_metadata_partition(shard->log), batch, &header, &appended));
    ASSERT(appended.verdict == LOG_APPENDED);
    *lsn = MAX(*lsn, appended.lsn);
    return OK;
}

status metadata_append(struct shard *shard, enum record_type type,
                       const struct message_type *message_type, const void *record, uint64_t *lsn)
{
    uint32_t size;
    TRY(message_size(message_type, 0, record, &size));
    if (size > UINT32_MAX / 4) {
        return STATUS(TOO_LARGE);
    }
    uint32_t value_size = size + 10;
    uint32_t batch_size = value_size + RECORD_OVERHEAD_MAX;
    uint8_t *buffer = malloc((size_t)value_size + batch_size);
    if (buffer == NULL) {
        return STATUS(NO_MEMORY);
    }
    struct bytes value;
    status result = record_value_write(type, message_type, record, buffer, size, &value);
    if (status_is_ok(result)) {
        result = batch_append(shard, value, buffer + value_size, batch_size, lsn);
    }
    free(buffer);
    return result;
}

enum kafka_error topic_name_check(struct shard *shard, struct bytes name, struct arena *arena,
                                  const char **message, uint64_t *lsn)
{
    const char *fault = topic_name_judge(name);
    if (fault != NULL) {
        *message = arena_printf(arena, "Topic name is invalid: %s", fault);
        return KAFKA_INVALID_TOPIC_EXCEPTION;
    }
    const struct topic *topic = metadata_topic_by_name(&shard->metadata, name);
    const struct pending_topic *pending = metadata_pending_find(&shard->metadata, name);
    if (topic != NULL || pending != NULL) {
        *lsn = MAX(*lsn, pending != NULL ? pending->lsn : topic->change_lsn);
        *message = arena_printf(arena, "Topic '%.*s' already exists.", (int)name.size,
                                (const char *)name.data);
        return KAFKA_TOPIC_ALREADY_EXISTS;
    }
    const char *other;
    if (metadata_name_collides(&shard->metadata, name, &other)) {
        *message = arena_printf(arena, "Topic '%.*s' collides with existing topic: %s",
                                (int)name.size, (const char *)name.data, other);
        return KAFKA_INVALID_TOPIC_EXCEPTION;
    }
    return KAFKA_NONE;
}

status topic_create_append(struct shard *shard, struct topic_creation *creation, uint64_t *lsn)
{
    creation->id = uuid_from_random(io_random(shard->io), io_random(shard->io));
    struct topic_record record = topic_record_default;
    record.name = creation->name;
    record.topic_id = creation->id;
    record.partition_count = creation->partition_count;
    record.configs = creation->configs;
    record.configs_count = creation->config_count;
    uint64_t topic_lsn = 0;
    TRY(metadata_append(shard, RECORD_TYPE_TOPIC, &topic_record_type, &record, &topic_lsn));
    *lsn = MAX(*lsn, topic_lsn);
    return metadata_pending_add(&shard->metadata, creation->name, topic_lsn);
}
