#include "model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "twinlog/core/crc32c.h"

#include "random.h"
#include "violation.h"

#define VALUE_MAGIC 0x5455u
#define GROWN_FROM  256u

void model_init(struct model *model, uint64_t seed)
{
    *model = (struct model){.seed = seed};
}

void model_fini(struct model *model)
{
    for (uint32_t i = 0; i < model->topic_count; i++) {
        for (uint32_t p = 0; p < MODEL_PARTITIONS_MAX; p++) {
            free(model->topics[i]->partitions[p].entries);
        }
        free(model->topics[i]);
    }
    free(model->topics);
    free(model->records);
}

static void *grown(void *array, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity) {
        return array;
    }
    *capacity = MAX(GROWN_FROM, 2 * MAX(*capacity, count));
    array = realloc(array, *capacity * size);
    ASSERT(array != NULL);
    return array;
}

static const char *topic_text(const struct model_topic *topic)
{
    static char text[64];
    char id[UUID_TEXT_SIZE];
    uuid_format(&topic->id, id);
    snprintf(text, sizeof(text), "topic %u (%s)", topic->name, id);
    return text;
}

/* ---------------------------------------------------------------- records */

uint32_t model_record_add(struct model *model, struct model_partition *partition, uint32_t producer,
                          uint32_t size)
{
    ASSERT(size >= MODEL_VALUE_SIZE_MIN);
    model->records = grown(model->records, model->record_count, &model->record_capacity,
                           sizeof(*model->records));
    model->records[model->record_count] = (struct model_record){
        .partition = partition, .producer = producer, .size = size, .offset = -1};
    return model->record_count++;
}

/* The bytes at `at`, 8-aligned, of a value: from the number and the place alone. */
static uint64_t value_word(uint64_t seed, uint32_t record, uint32_t at)
{
    uint64_t mixed = (seed ^ ((uint64_t)record << 32 | at)) * 0x9e3779b97f4a7c15ull;
    return mixed ^ mixed >> 29;
}

void model_record_value(const struct model *model, uint32_t record, uint8_t *value)
{
    uint32_t size = model->records[record].size;
    for (uint32_t at = 0; at < size; at += 8) {
        uint64_t word =
            at == 0 ? (uint64_t)VALUE_MAGIC << 32 | record : value_word(model->seed, record, at);
        memcpy(value + at, &word, MIN(8u, size - at));
    }
}

static bool value_is_right(const struct model *model, uint32_t record, struct bytes value)
{
    if (value.size != model->records[record].size) {
        return false;
    }
    uint32_t at = 8;
    for (; at + 8 <= value.size; at += 8) {
        uint64_t word = 0;
        memcpy(&word, value.data + at, sizeof(word));
        if (word != value_word(model->seed, record, at)) {
            return false;
        }
    }
    uint64_t last = value_word(model->seed, record, at);
    return memcmp(value.data + at, &last, value.size - at) == 0;
}

void model_stamped(struct model *model, uint32_t first, uint32_t count, int64_t timestamp)
{
    for (uint32_t i = first; i < first + count; i++) {
        model->records[i].timestamp = timestamp;
    }
}

void model_sent(struct model *model, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        model->records[i].life = model->life;
    }
}

static struct model_entry *entry_at(struct model_partition *partition, int64_t offset)
{
    while (offset >= partition->entry_count) {
        partition->entries = grown(partition->entries, partition->entry_count,
                                   &partition->entry_capacity, sizeof(*partition->entries));
        partition->entries[partition->entry_count++] =
            (struct model_entry){.record = MODEL_RECORD_NONE};
    }
    return &partition->entries[offset];
}

/* A record that a start did not find is gone unless it was sent again. */
static void check_life(const struct model_partition *partition, const struct model_record *record,
                       uint32_t number, int64_t offset)
{
    uint32_t life_min = 0;
    if (offset >= partition->start_end) {
        life_min = partition->start_life;
    } else if (offset >= partition->previous_end) {
        life_min = partition->previous_life;
    }
    if (record->life < life_min) {
        violation("record %u, last sent in life %u, was not there at the start of life %u and "
                  "came back at offset %" PRId64 " of %s-%d",
                  number, record->life, life_min, offset, topic_text(partition->topic),
                  partition->index);
    }
}

/* The record stands at the offset, says the node. */
static void record_place(struct model *model, struct model_partition *partition, uint32_t number,
                         int64_t offset, const char *who)
{
    struct model_record *record = &model->records[number];
    struct model_entry *entry = entry_at(partition, offset);
    if (record->partition != partition) {
        violation("%s: record %u at offset %" PRId64 " of %s-%d was sent elsewhere", who, number,
                  offset, topic_text(partition->topic), partition->index);
    }
    if (entry->record != MODEL_RECORD_NONE && entry->record != number) {
        violation("%s: offset %" PRId64 " of %s-%d has record %u and had record %u", who, offset,
                  topic_text(partition->topic), partition->index, number, entry->record);
    }
    if (record->offset >= 0 && record->offset != offset) {
        violation("%s: record %u of %s-%d is at offset %" PRId64 " and at %" PRId64, who, number,
                  topic_text(partition->topic), partition->index, offset, record->offset);
    }
    if (record->offset < 0) {
        check_life(partition, record, number, offset);
    }
    record->offset = offset;
    entry->record = number;
}

void model_acked(struct model *model, struct model_partition *partition, uint32_t first,
                 uint32_t count, int64_t base_offset, bool all)
{
    if (base_offset < 0) {
        violation("an acknowledgement names offset %" PRId64, base_offset);
    }
    for (uint32_t i = 0; i < count; i++) {
        record_place(model, partition, first + i, base_offset + i, "acknowledgement");
        if (!model->records[first + i].acked) {
            model->records[first + i].acked = true;
            model->acked_count++;
        }
    }
    int64_t end = base_offset + count;
    partition->acked_end = MAX(partition->acked_end, end);
    if (all) {
        partition->high_watermark = MAX(partition->high_watermark, end);
    }
}

/* ---------------------------------------------------------------- fetch */

static void check_record(struct model *model, struct model_partition *partition,
                         const struct record *record, int64_t offset)
{
    uint64_t word = 0;
    if (record->value.size >= MODEL_VALUE_SIZE_MIN) {
        memcpy(&word, record->value.data, sizeof(word));
    }
    uint32_t number = (uint32_t)word;
    if (word >> 32 != VALUE_MAGIC || number >= model->record_count ||
        !value_is_right(model, number, record->value)) {
        violation("offset %" PRId64 " of %s-%d has what was never sent", offset,
                  topic_text(partition->topic), partition->index);
    }
    if (record->offset != offset) {
        violation("offset %" PRId64 " of %s-%d is missing: %" PRId64 " follows", offset,
                  topic_text(partition->topic), partition->index, record->offset);
    }
    record_place(model, partition, number, offset, "read");
}

/* Checks a batch that stands first in `data`; returns the offset behind it, or MODEL_DAMAGED. */
static int64_t check_batch(struct model *model, struct model_partition *partition,
                           struct bytes data, struct batch_header *header)
{
    if (!status_is_ok(batch_header_read(data, header)) || header->base_offset < 0 ||
        !batch_crc_is_valid(data.data, header)) {
        if (model->is_rotten) {
            model->damage_seen++;
            return MODEL_DAMAGED;
        }
        violation("a fetch of %s-%d has bytes that are no whole batch",
                  topic_text(partition->topic), partition->index);
    }
    uint32_t hash = MAX(1u, crc32c(0, data.data, header->size));
    if (entry_at(partition, header->base_offset)->batch_hash == hash) {
        return header->base_offset + header->last_offset_delta + 1; /* Read and checked before. */
    }
    struct record_iterator it;
    struct record record;
    record_iterator_init(
        &it, header,
        (struct bytes){data.data + BATCH_HEADER_SIZE, header->size - BATCH_HEADER_SIZE});
    int64_t offset = header->base_offset;
    while (status_is_ok(record_iterator_next(&it, &record))) {
        check_record(model, partition, &record, offset);
        struct model_entry *entry = entry_at(partition, offset);
        if (entry->batch_hash != 0 && entry->batch_hash != hash) {
            violation("the batch at offset %" PRId64 " of %s-%d has changed", offset,
                      topic_text(partition->topic), partition->index);
        }
        entry->batch_hash = hash;
        offset++;
    }
    if (offset != header->base_offset + header->last_offset_delta + 1) {
        violation("the batch at offset %" PRId64 " of %s-%d has fewer records than it says",
                  header->base_offset, topic_text(partition->topic), partition->index);
    }
    return offset;
}

int64_t model_fetched(struct model *model, struct model_partition *partition, int64_t offset,
                      int64_t hw_before, int64_t high_watermark, struct bytes data)
{
    if (high_watermark < hw_before) {
        violation("the high watermark of %s-%d went back from %" PRId64 " to %" PRId64,
                  topic_text(partition->topic), partition->index, hw_before, high_watermark);
    }
    partition->high_watermark = MAX(partition->high_watermark, high_watermark);
    if (data.size == 0 && offset < high_watermark) {
        violation("a fetch of %s-%d from %" PRId64
                  " gave nothing below the high watermark %" PRId64,
                  topic_text(partition->topic), partition->index, offset, high_watermark);
    }
    int64_t next = offset;
    for (bool first = true; data.size > 0; first = false) {
        struct batch_header header;
        int64_t end = check_batch(model, partition, data, &header);
        if (end == MODEL_DAMAGED) {
            return MODEL_DAMAGED;
        }
        if (header.base_offset > next || (!first && header.base_offset != next) || end <= next) {
            violation("a fetch of %s-%d from %" PRId64 " goes on with [%" PRId64 ", %" PRId64 ")",
                      topic_text(partition->topic), partition->index, next, header.base_offset,
                      end);
        }
        next = end;
        data.data += header.size;
        data.size -= header.size;
    }
    if (next > high_watermark) {
        violation("a fetch of %s-%d shows offsets up to %" PRId64 " above the high watermark "
                  "%" PRId64,
                  topic_text(partition->topic), partition->index, next, high_watermark);
    }
    return next;
}

/* ---------------------------------------------------------------- starts */

void model_started(struct model *model)
{
    model->life++;
    for (uint32_t i = 0; i < model->topic_count; i++) {
        for (uint32_t p = 0; p < model->topics[i]->partition_count; p++) {
            struct model_partition *partition = &model->topics[i]->partitions[p];
            partition->high_watermark = MAX(partition->high_watermark, partition->acked_end);
        }
    }
}

/* Rot took everything from `log_end` on: nobody knows it any more, and nobody may see it again. */
static void partition_forget(struct model *model, struct model_partition *partition,
                             int64_t log_end)
{
    for (int64_t offset = log_end; offset < partition->entry_count; offset++) {
        uint32_t number = partition->entries[offset].record;
        if (number != MODEL_RECORD_NONE) {
            model->excused_count += model->records[number].acked ? 1 : 0;
            model->records[number].offset = -1;
        }
    }
    partition->entry_count = (uint32_t)MIN((int64_t)partition->entry_count, log_end);
    partition->high_watermark = MIN(partition->high_watermark, log_end);
    partition->acked_end = MIN(partition->acked_end, log_end);
}

void model_start_end(struct model *model, struct model_partition *partition, int64_t log_end,
                     bool excused)
{
    if (excused) {
        partition_forget(model, partition, log_end);
    }
    if (log_end < partition->high_watermark) {
        violation("after the start of life %u the log of %s-%d ends at %" PRId64
                  ", and offsets up to %" PRId64 " were acknowledged or read",
                  model->life, topic_text(partition->topic), partition->index, log_end,
                  partition->high_watermark);
    }
    partition->previous_end = partition->start_end;
    partition->previous_life = partition->start_life;
    partition->start_end = log_end;
    partition->start_life = model->life;
}

void model_check_order(const struct model *model)
{
    for (uint32_t i = 0; i < model->topic_count; i++) {
        for (uint32_t p = 0; p < model->topics[i]->partition_count; p++) {
            const struct model_partition *partition = &model->topics[i]->partitions[p];
            uint32_t last[64] = {0};
            for (uint32_t offset = 0; offset < partition->entry_count; offset++) {
                uint32_t number = partition->entries[offset].record;
                uint32_t producer = number == MODEL_RECORD_NONE ? MODEL_RECORD_NONE
                                                                : model->records[number].producer;
                if (producer >= COUNT_OF(last)) {
                    continue;
                }
                if (number + 1 <= last[producer]) {
                    violation("record %u of producer %u stands behind record %u at offset %u of "
                              "%s-%d",
                              number, producer, last[producer] - 1, offset,
                              topic_text(partition->topic), partition->index);
                }
                last[producer] = number + 1;
            }
        }
    }
}

/* ---------------------------------------------------------------- topics */

struct model_topic *model_topic_creating(struct model *model, uint32_t name,
                                         uint32_t partition_count)
{
    ASSERT(model->named[name] == NULL);
    ASSERT(partition_count <= MODEL_PARTITIONS_MAX);
    struct model_topic *topic = calloc(1, sizeof(*topic));
    model->topics = realloc(model->topics, (model->topic_count + 1) * sizeof(*model->topics));
    ASSERT(topic != NULL);
    ASSERT(model->topics != NULL);
    topic->name = name;
    topic->partition_count = partition_count;
    for (uint32_t i = 0; i < partition_count; i++) {
        topic->partitions[i].topic = topic;
        topic->partitions[i].index = (int32_t)i;
    }
    for (uint32_t i = 0; i < MODEL_SETTINGS; i++) {
        topic->settings[i].value = MODEL_DEFAULT;
    }
    model->topics[model->topic_count++] = topic;
    model->named[name] = topic;
    return topic;
}

void model_topic_created(struct model *model, struct model_topic *topic, const struct uuid *id)
{
    for (uint32_t i = 0; i < model->topic_count; i++) {
        if (model->topics[i]->has_id && uuid_equal(&model->topics[i]->id, id)) {
            violation("%s: its id is given again", topic_text(model->topics[i]));
        }
    }
    topic->id = *id;
    topic->has_id = true;
    topic->state = MODEL_TOPIC_ALIVE;
}

void model_topic_deleting(struct model_topic *topic)
{
    ASSERT(topic->state == MODEL_TOPIC_ALIVE);
    topic->state = MODEL_TOPIC_DELETING;
}

void model_topic_deleted(struct model *model, struct model_topic *topic)
{
    ASSERT(model->named[topic->name] == topic);
    topic->state = MODEL_TOPIC_DELETED;
    model->named[topic->name] = NULL;
}

void model_topic_excused(struct model *model, struct model_topic *topic, bool is_there)
{
    if (is_there && model->named[topic->name] != topic) {
        if (model->named[topic->name] != NULL) {
            model_topic_deleted(model, model->named[topic->name]);
        }
        model->named[topic->name] = topic;
    }
    if (is_there) {
        topic->state = MODEL_TOPIC_ALIVE;
    } else if (model->named[topic->name] == topic) {
        model_topic_deleted(model, topic);
    }
}

static const struct model_listed *listed_find(const struct model_listed *listed, uint32_t count,
                                              uint32_t name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (listed[i].name == name) {
            return &listed[i];
        }
    }
    return NULL;
}

static void name_listed(struct model *model, uint32_t name, const struct model_listed *listed)
{
    struct model_topic *topic = model->named[name];
    if (topic == NULL) {
        if (listed != NULL) {
            violation("topic %u is listed and was never created, or is deleted", name);
        }
        return;
    }
    if (listed == NULL) {
        if (topic->state == MODEL_TOPIC_ALIVE) {
            violation("%s is alive and is not listed", topic_text(topic));
        }
        model_topic_deleted(model, topic);
        return;
    }
    if (listed->partition_count != topic->partition_count) {
        violation("%s has %u partitions and was created with %u", topic_text(topic),
                  listed->partition_count, topic->partition_count);
    }
    if (topic->state == MODEL_TOPIC_CREATING) {
        model_topic_created(model, topic, &listed->id);
    } else if (!uuid_equal(&topic->id, &listed->id)) {
        violation("%s has another id now", topic_text(topic));
    }
    topic->state = MODEL_TOPIC_ALIVE;
}

void model_listed(struct model *model, const struct model_listed *listed, uint32_t count)
{
    for (uint32_t name = 0; name < MODEL_NAMES; name++) {
        name_listed(model, name, listed_find(listed, count, name));
    }
}

struct model_partition *model_partition_pick(struct model *model, struct sim *sim)
{
    uint32_t first = random_below(sim, MODEL_NAMES);
    for (uint32_t i = 0; i < MODEL_NAMES; i++) {
        struct model_topic *topic = model->named[(first + i) % MODEL_NAMES];
        if (topic != NULL && topic->state == MODEL_TOPIC_ALIVE) {
            return &topic->partitions[random_below(sim, topic->partition_count)];
        }
    }
    return NULL;
}
