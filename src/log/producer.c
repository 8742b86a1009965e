#include "producer.h"

#include <stdlib.h>

/* A failed allocation of a hash table is reported by the element, not by leaving the process. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/list.h"

#include "mutation.h"

/*
 * Encoding, little-endian:
 *
 *     u32 producers
 *     per producer: i64 id, i64 last timestamp (ms), i16 epoch, u8 window count, then per batch,
 *                   oldest first: i32 first sequence, i32 last sequence, i64 base offset,
 *                   i64 timestamp (ms)
 */
#define PRODUCER_HEAD_SIZE  19u
#define PRODUCER_BATCH_SIZE 24u

struct producer_batch {
    int32_t first_sequence;
    int32_t last_sequence;
    int64_t base_offset;
    int64_t timestamp_ms; /* the largest of its records */
};

/* A batch appended and not yet committed; in two FIFOs, both in LSN order. */
struct producer_pending {
    struct list_node in_table;
    struct list_node in_producer;
    struct producer *producer;
    struct producer_batch batch;
    uint64_t lsn;
    int16_t epoch;
};

struct producer {
    UT_hash_handle hh;
    int64_t id;
    int64_t timestamp_ms; /* of the last committed batch */
    int16_t epoch;        /* committed; -1: nothing committed yet */
    uint8_t window_count; /* batches of `epoch`, oldest first */
    struct producer_batch window[PRODUCER_WINDOW];
    struct list pending;
};

struct producer_table {
    struct producer *by_id;
    struct producer *cursor; /* the expiry walk goes on here */
    struct list pending;     /* of all producers, in LSN order */
    struct list spare;       /* pending nodes for reuse */
};

static int32_t sequence_add(int32_t sequence, int32_t delta)
{
    return (int32_t)(((uint32_t)sequence + (uint32_t)delta) & INT32_MAX);
}

static struct producer *producer_find(const struct producer_table *table, int64_t id)
{
    struct producer *producer = NULL;
    if (table != NULL) {
        HASH_FIND(hh, table->by_id, &id, sizeof(id), producer);
    }
    return producer;
}

static bool batch_matches(const struct producer_batch *batch, int32_t first, int32_t last)
{
    return batch->first_sequence == first && batch->last_sequence == last;
}

static void original_take(const struct producer_batch *batch, uint64_t lsn,
                          struct log_appended *original)
{
    original->base_offset = batch->base_offset;
    original->log_append_time_ms = batch->timestamp_ms;
    original->lsn = lsn;
}

/* Looks for the same sequences among the last five batches, overlay included. */
static bool duplicate_find(const struct producer *producer, int16_t epoch, int32_t first,
                           int32_t last, struct log_appended *original)
{
    unsigned left = PRODUCER_WINDOW;
    for (struct list_node *node = producer->pending.head.prev;
         node != &producer->pending.head && left > 0; node = node->prev, left--) {
        struct producer_pending *pending = CONTAINER_OF(node, struct producer_pending, in_producer);
        if (pending->epoch == epoch && batch_matches(&pending->batch, first, last)) {
            original_take(&pending->batch,
                          log_mutation_is(MUTATION_EARLY_DUPLICATE) ? 0 : pending->lsn, original);
            return true;
        }
    }
    for (unsigned i = producer->window_count; i > 0 && left > 0; i--, left--) {
        if (producer->epoch == epoch && batch_matches(&producer->window[i - 1], first, last)) {
            original_take(&producer->window[i - 1], 0, original);
            return true;
        }
    }
    return false;
}

enum log_verdict producer_judge(const struct producer_table *table,
                                const struct batch_header *header, struct log_appended *original)
{
    const struct producer *producer = producer_find(table, header->producer_id);
    if (header->producer_id < 0 || producer == NULL) {
        return LOG_APPENDED;
    }
    int16_t epoch = producer->epoch;
    int32_t last_sequence = -1;
    if (producer->window_count > 0) {
        last_sequence = producer->window[producer->window_count - 1].last_sequence;
    }
    struct list_node *newest = list_last(&producer->pending);
    if (newest != NULL) {
        struct producer_pending *pending =
            CONTAINER_OF(newest, struct producer_pending, in_producer);
        epoch = pending->epoch;
        last_sequence = pending->batch.last_sequence;
    }
    int32_t first = header->base_sequence;
    int32_t last = sequence_add(first, header->last_offset_delta);
    if (header->producer_epoch < epoch) {
        return LOG_INVALID_PRODUCER_EPOCH;
    }
    if (header->producer_epoch > epoch) {
        return first == 0 ? LOG_APPENDED : LOG_OUT_OF_ORDER_SEQUENCE;
    }
    if (duplicate_find(producer, epoch, first, last, original)) {
        return LOG_DUPLICATE;
    }
    bool follows = last_sequence < 0 ? first == 0 : first == sequence_add(last_sequence, 1);
    return follows ? LOG_APPENDED : LOG_OUT_OF_ORDER_SEQUENCE;
}

static struct producer_table *table_create(void)
{
    struct producer_table *table = calloc(1, sizeof(*table));
    if (table != NULL) {
        list_init(&table->pending);
        list_init(&table->spare);
    }
    return table;
}

static struct producer *producer_add(struct producer_table *table, int64_t id)
{
    struct producer *producer = calloc(1, sizeof(*producer));
    if (producer != NULL) {
        producer->id = id;
        producer->epoch = -1;
        list_init(&producer->pending);
        HASH_ADD(hh, table->by_id, id, sizeof(producer->id), producer);
        if (producer->hh.tbl == NULL) {
            free(producer);
            return NULL;
        }
    }
    return producer;
}

static struct producer_pending *pending_take(struct producer_table *table)
{
    struct list_node *node = list_pop_front(&table->spare);
    if (node != NULL) {
        return CONTAINER_OF(node, struct producer_pending, in_table);
    }
    return calloc(1, sizeof(struct producer_pending));
}

status producer_append(struct producer_table **table, const struct batch_header *header,
                       int64_t base_offset, uint64_t lsn)
{
    if (header->producer_id < 0) {
        return OK;
    }
    if (*table == NULL) {
        *table = table_create();
    }
    if (*table == NULL) {
        return STATUS(NO_MEMORY);
    }
    struct producer_pending *pending = pending_take(*table);
    if (pending == NULL) {
        return STATUS(NO_MEMORY);
    }
    struct producer *producer = producer_find(*table, header->producer_id);
    if (producer == NULL) {
        producer = producer_add(*table, header->producer_id);
    }
    if (producer == NULL) {
        list_push_back(&(*table)->spare, &pending->in_table);
        return STATUS(NO_MEMORY);
    }
    pending->producer = producer;
    pending->batch.first_sequence = header->base_sequence;
    pending->batch.last_sequence = sequence_add(header->base_sequence, header->last_offset_delta);
    pending->batch.base_offset = base_offset;
    pending->batch.timestamp_ms = header->max_timestamp;
    pending->lsn = lsn;
    pending->epoch = header->producer_epoch;
    struct list_node *newest = list_last(&(*table)->pending);
    ASSERT(newest == NULL || CONTAINER_OF(newest, struct producer_pending, in_table)->lsn <= lsn);
    list_push_back(&(*table)->pending, &pending->in_table);
    list_push_back(&producer->pending, &pending->in_producer);
    return OK;
}

/*
 * A batch that does not follow the last one was accepted because the producer had been forgotten.
 * Replay from a checkpoint of before that meets it with the old window: it starts a new one there
 * too, so that state is the same whether or not there was a restart.
 */
static bool window_is_followed(const struct producer *producer,
                               const struct producer_pending *pending)
{
    return producer->epoch == pending->epoch && producer->window_count > 0 &&
           pending->batch.first_sequence ==
               sequence_add(producer->window[producer->window_count - 1].last_sequence, 1);
}

static void window_push(struct producer *producer, const struct producer_pending *pending)
{
    if (!window_is_followed(producer, pending)) {
        producer->epoch = pending->epoch;
        producer->window_count = 0;
    }
    if (producer->window_count == PRODUCER_WINDOW) {
        memmove(&producer->window[0], &producer->window[1],
                (PRODUCER_WINDOW - 1) * sizeof(producer->window[0]));
        producer->window_count--;
    }
    producer->window[producer->window_count++] = pending->batch;
    producer->timestamp_ms = pending->batch.timestamp_ms;
}

static void pending_remove(struct producer_table *table, struct producer_pending *pending)
{
    list_remove(&pending->in_table);
    list_remove(&pending->in_producer);
    list_push_front(&table->spare, &pending->in_table);
}

void producer_commit(struct producer_table *table, uint64_t lsn)
{
    if (table == NULL) {
        return;
    }
    for (struct list_node *node = list_first(&table->pending); node != NULL;
         node = list_first(&table->pending)) {
        struct producer_pending *pending = CONTAINER_OF(node, struct producer_pending, in_table);
        if (pending->lsn > lsn) {
            break;
        }
        window_push(pending->producer, pending);
        pending_remove(table, pending);
    }
}

static void producer_free(struct producer_table *table, struct producer *producer)
{
    if (table->cursor == producer) {
        table->cursor = producer->hh.next;
    }
    HASH_DEL(table->by_id, producer);
    free(producer);
}

void producer_drop_pending(struct producer_table *table)
{
    if (table == NULL) {
        return;
    }
    for (struct list_node *node = list_first(&table->pending); node != NULL;
         node = list_first(&table->pending)) {
        struct producer_pending *pending = CONTAINER_OF(node, struct producer_pending, in_table);
        struct producer *producer = pending->producer;
        pending_remove(table, pending);
        if (producer->epoch < 0 && list_is_empty(&producer->pending)) {
            producer_free(table, producer);
        }
    }
}

void producer_expire_rewind(struct producer_table *table)
{
    if (table != NULL) {
        table->cursor = table->by_id;
    }
}

uint32_t producer_expire(struct producer_table *table, int64_t until_ms, uint32_t count_max)
{
    uint32_t looked_at = 0;
    while (table != NULL && table->cursor != NULL && looked_at < count_max) {
        struct producer *producer = table->cursor;
        table->cursor = producer->hh.next;
        if (producer->timestamp_ms <= until_ms && list_is_empty(&producer->pending)) {
            producer_free(table, producer);
        }
        looked_at++;
    }
    return looked_at;
}

uint32_t producer_encoded_size(const struct producer_table *table)
{
    uint32_t size = 4;
    for (struct producer *p = table == NULL ? NULL : table->by_id; p != NULL; p = p->hh.next) {
        if (p->epoch >= 0) {
            size += PRODUCER_HEAD_SIZE + p->window_count * PRODUCER_BATCH_SIZE;
        }
    }
    return size;
}

static uint8_t *producer_encode_one(const struct producer *producer, uint8_t *to)
{
    store_le64(to, (uint64_t)producer->id);
    store_le64(to + 8, (uint64_t)producer->timestamp_ms);
    store_le16(to + 16, (uint16_t)producer->epoch);
    to[18] = producer->window_count;
    to += PRODUCER_HEAD_SIZE;
    for (unsigned i = 0; i < producer->window_count; i++) {
        store_le32(to, (uint32_t)producer->window[i].first_sequence);
        store_le32(to + 4, (uint32_t)producer->window[i].last_sequence);
        store_le64(to + 8, (uint64_t)producer->window[i].base_offset);
        store_le64(to + 16, (uint64_t)producer->window[i].timestamp_ms);
        to += PRODUCER_BATCH_SIZE;
    }
    return to;
}

uint8_t *producer_encode(const struct producer_table *table, uint8_t *to)
{
    uint8_t *count_at = to;
    uint32_t count = 0;
    to += 4;
    for (struct producer *p = table == NULL ? NULL : table->by_id; p != NULL; p = p->hh.next) {
        if (p->epoch >= 0) {
            to = producer_encode_one(p, to);
            count++;
        }
    }
    store_le32(count_at, count);
    return to;
}

static status producer_decode_one(struct bytes *input, struct producer_table *table)
{
    if (input->size < PRODUCER_HEAD_SIZE) {
        return STATUS(TRUNCATED);
    }
    const uint8_t *at = input->data;
    int64_t id = (int64_t)load_le64(at);
    int16_t epoch = (int16_t)load_le16(at + 16);
    unsigned window_count = at[18];
    if (window_count > PRODUCER_WINDOW || id < 0 || epoch < 0 || producer_find(table, id) != NULL) {
        return STATUS(INVALID);
    }
    uint32_t size = PRODUCER_HEAD_SIZE + window_count * PRODUCER_BATCH_SIZE;
    if (input->size < size) {
        return STATUS(TRUNCATED);
    }
    struct producer *producer = producer_add(table, id);
    if (producer == NULL) {
        return STATUS(NO_MEMORY);
    }
    producer->timestamp_ms = (int64_t)load_le64(at + 8);
    producer->epoch = epoch;
    producer->window_count = (uint8_t)window_count;
    at += PRODUCER_HEAD_SIZE;
    for (unsigned i = 0; i < window_count; i++, at += PRODUCER_BATCH_SIZE) {
        producer->window[i].first_sequence = (int32_t)load_le32(at);
        producer->window[i].last_sequence = (int32_t)load_le32(at + 4);
        producer->window[i].base_offset = (int64_t)load_le64(at + 8);
        producer->window[i].timestamp_ms = (int64_t)load_le64(at + 16);
    }
    input->data += size;
    input->size -= size;
    return OK;
}

static status table_decode(struct bytes *input, uint32_t count, struct producer_table *table)
{
    for (uint32_t i = 0; i < count; i++) {
        TRY(producer_decode_one(input, table));
    }
    return OK;
}

status producer_decode(struct bytes *input, struct producer_table **table)
{
    *table = NULL;
    if (input->size < 4) {
        return STATUS(TRUNCATED);
    }
    uint32_t count = load_le32(input->data);
    input->data += 4;
    input->size -= 4;
    if (count == 0) {
        return OK;
    }
    *table = table_create();
    if (*table == NULL) {
        return STATUS(NO_MEMORY);
    }
    status s = table_decode(input, count, *table);
    if (!status_is_ok(s)) {
        producer_destroy(*table);
        *table = NULL;
    }
    return s;
}

void producer_visit(const struct producer_table *table,
                    void (*fn)(void *context, const struct log_producer *producer), void *context)
{
    for (struct producer *p = table == NULL ? NULL : table->by_id; p != NULL; p = p->hh.next) {
        if (p->epoch >= 0) {
            bool has_batch = p->window_count > 0;
            const struct log_producer producer = {
                .id = p->id,
                .epoch = p->epoch,
                .last_sequence = has_batch ? p->window[p->window_count - 1].last_sequence : -1,
                .last_timestamp = p->timestamp_ms,
            };
            fn(context, &producer);
        }
    }
}

uint32_t producer_count(const struct producer_table *table)
{
    return table == NULL ? 0 : HASH_COUNT(table->by_id);
}

void producer_destroy(struct producer_table *table)
{
    if (table == NULL) {
        return;
    }
    struct list_node *node = NULL;
    list_splice(&table->spare, &table->pending);
    while ((node = list_pop_front(&table->spare)) != NULL) {
        free(CONTAINER_OF(node, struct producer_pending, in_table));
    }
    struct producer *producer = NULL;
    struct producer *next = NULL;
    HASH_ITER(hh, table->by_id, producer, next)
    {
        producer_free(table, producer);
    }
    free(table);
}
