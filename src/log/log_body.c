/*
 * The body of a checkpoint: what every partition with data was as of the checkpoint's committed
 * LSN. Little-endian; the file around it (checkpoint.c) has the checksum.
 *
 *   0   u32   version, 3
 *   4   u32   partition count
 *   8         partition records, one behind the other, in no order
 *
 * partition record:
 *   0   16 B  topic id
 *   16  i32   index
 *   20  u32   flags: 1: the next batch starts a segment; 2: segments may lie below the log start
 *   24  i64   log start offset
 *   32  i64   recovery offset: everything below is in segment files
 *   40  u64   bytes in segment files
 *   48  i64   timestamp that segment.ms counts from in the active segment
 *   56  i64   base offset of the active segment, -1: there is none
 *   64  u64   its size
 *   72  i64   its largest timestamp, -1: none
 *   80  i64   the offset of that
 *   88  i64   the last timestamp in its time index, -1: none
 *   96  u32   bytes behind its last offset index entry
 *   100 u32   size of the producers
 *   104 u32   count of leader epochs
 *   108       zero
 *   112       leader epochs, as epochs_encode() writes them
 *             producers, as producer_encode() writes them
 *
 * Valid when version and sizes agree, offsets are in order, and the records end with the body.
 */
#include <stdlib.h>

#include "twinlog/core/trace.h"

#include "log_state.h"
#include "mutation.h"

#define BODY_VERSION     3u
#define BODY_HEADER_SIZE 8u
#define RECORD_SIZE      112u
#define RECORD_FLAG_ROLL 1u
#define RECORD_FLAG_TRIM 2u
#define RECORD_TAIL_AT   56u

_Static_assert(RECORD_SIZE % 8 == 0, "records without producers keep their alignment");

static bool partition_is_in_body(const struct partition *partition)
{
    return partition->high_watermark > 0 || partition->producers != NULL;
}

size_t log_body_size_max(const struct log *log)
{
    size_t size = BODY_HEADER_SIZE;
    for (const struct partition *p = log->partitions; p != NULL; p = p->hh.next) {
        size += RECORD_SIZE + (size_t)p->epochs.count * EPOCHS_ENTRY_SIZE +
                producer_encoded_size(p->producers);
    }
    return size;
}

static void segment_tail_encode(uint8_t *record, const struct segment_tail *tail)
{
    store_le64(record + RECORD_TAIL_AT, (uint64_t)tail->base_offset);
    store_le64(record + 64, tail->size);
    store_le64(record + 72, (uint64_t)tail->max_timestamp);
    store_le64(record + 80, (uint64_t)tail->max_timestamp_offset);
    store_le64(record + 88, (uint64_t)tail->indexed_timestamp);
    store_le32(record + 96, tail->unindexed_size);
}

static uint8_t *record_encode(const struct partition *partition, uint8_t *record)
{
    const struct writeback_item *item = partition->writing;
    ASSERT(item != NULL || partition->written_end == partition->high_watermark);
    ASSERT(item == NULL || item->end_offset == partition->high_watermark);
    memcpy(record, partition->key.topic_id.bytes, sizeof(partition->key.topic_id.bytes));
    store_le32(record + 16, (uint32_t)partition->key.index);
    store_le32(record + 20,
               (partition_rolls_next(partition) ? RECORD_FLAG_ROLL : 0) |
                   (partition->trim_wanted || partition->trimming ? RECORD_FLAG_TRIM : 0));
    store_le64(record + 24, (uint64_t)partition->log_start);
    store_le64(record + 32, (uint64_t)partition->high_watermark);
    store_le64(record + 40, partition->written_size + (item != NULL ? item->size : 0));
    store_le64(record + 48, (uint64_t)(item != NULL ? item->first_timestamp
                                                    : partition->written_first_timestamp));
    segment_tail_encode(record, &partition->segment_tail);
    /* An epoch that begins at the high watermark or behind has nothing committed. */
    uint32_t epoch_count;
    uint8_t *producers = epochs_encode(&partition->epochs, partition->high_watermark,
                                       record + RECORD_SIZE, &epoch_count);
    uint8_t *end = producers;
    if (partition->producers != NULL && !log_mutation_is(MUTATION_FORGET_PRODUCERS)) {
        end = producer_encode(partition->producers, end);
    }
    store_le32(record + 100, (uint32_t)(end - producers));
    store_le32(record + 104, epoch_count);
    store_le32(record + 108, 0);
    return end;
}

size_t log_body_encode(const struct log *log, uint8_t *body)
{
    uint32_t count = 0;
    uint8_t *at = body + BODY_HEADER_SIZE;
    for (struct partition *p = log->partitions; p != NULL; p = p->hh.next) {
        if (!partition_is_in_body(p)) {
            continue;
        }
        if (p->writing != NULL) {
            p->writing->body_at = (size_t)(at - body);
            p->writing->in_body = true;
        }
        at = record_encode(p, at);
        count++;
    }
    store_le32(body, BODY_VERSION);
    store_le32(body + 4, count);
    return (size_t)(at - body);
}

void log_body_patch(uint8_t *body, const struct writeback_item *item)
{
    if (item->in_body) {
        segment_tail_encode(body + item->body_at, &item->write.tail);
    }
}

/* ---------------------------------------------------------------- decode */

/* A time index entry that is due names a record of the active segment. */
static bool tail_is_sane(const struct segment_tail *tail, int64_t written_end)
{
    bool is_due = tail->base_offset >= 0 && tail->max_timestamp > tail->indexed_timestamp;
    return !is_due || (tail->max_timestamp_offset >= tail->base_offset &&
                       tail->max_timestamp_offset < written_end);
}

static bool state_is_sane(const struct partition_state *state)
{
    const struct segment_tail *tail = &state->segment_tail;
    return tail_is_sane(tail, state->written_end) && state->log_start >= 0 &&
           state->log_start <= state->written_end && tail->base_offset >= -1 &&
           tail->base_offset <= state->written_end && tail->size <= state->written_size;
}

static void record_decode(const uint8_t *record, struct recovered *recovered)
{
    struct partition_state *state = &recovered->state;
    memcpy(recovered->key.topic_id.bytes, record, sizeof(recovered->key.topic_id.bytes));
    recovered->key.index = (int32_t)load_le32(record + 16);
    state->roll = (load_le32(record + 20) & RECORD_FLAG_ROLL) != 0;
    state->trim = (load_le32(record + 20) & RECORD_FLAG_TRIM) != 0;
    state->log_start = (int64_t)load_le64(record + 24);
    state->written_end = (int64_t)load_le64(record + 32);
    state->written_size = load_le64(record + 40);
    state->first_timestamp = (int64_t)load_le64(record + 48);
    state->segment_tail = (struct segment_tail){
        .base_offset = (int64_t)load_le64(record + RECORD_TAIL_AT),
        .size = load_le64(record + 64),
        .unindexed_size = load_le32(record + 96),
        .max_timestamp = (int64_t)load_le64(record + 72),
        .max_timestamp_offset = (int64_t)load_le64(record + 80),
        .indexed_timestamp = (int64_t)load_le64(record + 88),
    };
}

static status producers_decode(struct bytes *body, uint32_t size, struct partition_state *state)
{
    if (size > body->size) {
        return STATUS(TRUNCATED);
    }
    struct bytes producers = {body->data, size};
    body->data += size;
    body->size -= size;
    if (size == 0) {
        return OK;
    }
    TRY(producer_decode(&producers, &state->producers));
    return producers.size == 0 ? OK : STATUS(INVALID);
}

/* Reads one record into `recovered`, which then owns its producers and epochs. */
static status recovered_decode(struct log *log, struct bytes *body, struct recovered *recovered)
{
    if (body->size < RECORD_SIZE) {
        return STATUS(TRUNCATED);
    }
    const uint8_t *record = body->data;
    record_decode(record, recovered);
    body->data += RECORD_SIZE;
    body->size -= RECORD_SIZE;
    TRY(epochs_decode(body, load_le32(record + 104), recovered->state.written_end,
                      &recovered->state.epochs));
    TRY(producers_decode(body, load_le32(record + 100), &recovered->state));
    if (!state_is_sane(&recovered->state)) {
        return STATUS(INVALID);
    }
    struct recovered *twin = NULL;
    HASH_FIND(hh, log->recovered, &recovered->key, sizeof(recovered->key), twin);
    return twin == NULL ? OK : STATUS(INVALID);
}

static status recovered_add(struct log *log, struct bytes *body)
{
    struct recovered *recovered = calloc(1, sizeof(*recovered));
    if (recovered == NULL) {
        return STATUS(NO_MEMORY);
    }
    status s = recovered_decode(log, body, recovered);
    if (status_is_ok(s)) {
        HASH_ADD(hh, log->recovered, key, sizeof(recovered->key), recovered);
        s = recovered->hh.tbl == NULL ? STATUS(NO_MEMORY) : OK;
    }
    if (!status_is_ok(s)) {
        producer_destroy(recovered->state.producers);
        epochs_fini(&recovered->state.epochs);
        free(recovered);
    }
    return s;
}

static status body_decode(struct log *log, struct bytes body)
{
    if (body.size < BODY_HEADER_SIZE) {
        return STATUS(TRUNCATED);
    }
    uint32_t version = load_le32(body.data);
    uint32_t count = load_le32(body.data + 4);
    if (version != BODY_VERSION) {
        return STATUS(UNSUPPORTED);
    }
    body.data += BODY_HEADER_SIZE;
    body.size -= BODY_HEADER_SIZE;
    for (uint32_t i = 0; i < count; i++) {
        TRY(recovered_add(log, &body));
    }
    return body.size == 0 ? OK : STATUS(INVALID);
}

status log_body_decode(struct log *log, struct bytes body)
{
    if (body.size == 0) {
        return OK; /* The checkpoint that formatting writes: no partition has anything yet. */
    }
    status s = body_decode(log, body);
    if (status_is_ok(s) || s.code == STATUS_NO_MEMORY) {
        return s;
    }
    trace_error("log", "the checkpoint of shard %u in %s cannot be used (%s): %s",
                log->options.shard, log->options.dir, status_text(s),
                s.code == STATUS_UNSUPPORTED ? "start the release that wrote it"
                                             : "restore the directory, or refill it from its peer");
    return s.code == STATUS_UNSUPPORTED ? s : STATUS(CORRUPT);
}

void log_recovered_free(struct log *log)
{
    struct recovered *recovered;
    struct recovered *next;
    HASH_ITER(hh, log->recovered, recovered, next)
    {
        HASH_DEL(log->recovered, recovered);
        producer_destroy(recovered->state.producers);
        epochs_fini(&recovered->state.epochs);
        free(recovered);
    }
}
