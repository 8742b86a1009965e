/* Record batches: the layout is at the head of batch.h. */
#include "twinlog/protocol/batch.h"

#include <stdlib.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/crc32c.h"

#define CRC_FROM 21u /* the CRC covers everything from the attributes on */

#define MAGIC_AT      16u
#define MAGIC_CURRENT 2

_Static_assert(CODEC_COUNT <= BATCH_CODEC_MASK + 1, "a codec fits its bits");

status batch_header_read(struct bytes input, struct batch_header *header)
{
    const uint8_t *at = input.data;
    if (input.size <= MAGIC_AT) {
        return STATUS(TRUNCATED);
    }
    header->base_offset = (int64_t)load_be64(at);
    header->magic = (int8_t)at[MAGIC_AT];
    uint32_t length = load_be32(at + 8);
    if (length > INT32_MAX || header->magic != MAGIC_CURRENT ||
        length + BATCH_LENGTH_OFFSET < BATCH_HEADER_SIZE) {
        return STATUS(INVALID);
    }
    header->size = length + BATCH_LENGTH_OFFSET;
    if (header->size > input.size) {
        return STATUS(TRUNCATED);
    }
    header->leader_epoch = (int32_t)load_be32(at + 12);
    header->crc = load_be32(at + 17);
    header->attributes = (int16_t)load_be16(at + 21);
    header->last_offset_delta = (int32_t)load_be32(at + 23);
    header->base_timestamp = (int64_t)load_be64(at + 27);
    header->max_timestamp = (int64_t)load_be64(at + 35);
    header->producer_id = (int64_t)load_be64(at + 43);
    header->producer_epoch = (int16_t)load_be16(at + 51);
    header->base_sequence = (int32_t)load_be32(at + 53);
    header->record_count = (int32_t)load_be32(at + 57);
    return OK;
}

bool batch_crc_is_valid(const uint8_t *batch, const struct batch_header *header)
{
    return crc32c(0, batch + CRC_FROM, header->size - CRC_FROM) == header->crc;
}

void batch_stamp(uint8_t *batch, int64_t base_offset, int32_t leader_epoch)
{
    store_be64(batch, (uint64_t)base_offset);
    store_be32(batch + 12, (uint32_t)leader_epoch);
}

int32_t batch_leader_epoch(const uint8_t *batch)
{
    return (int32_t)load_be32(batch + 12);
}

/* Additions of deltas from the wire wrap instead of overflowing: they are judged elsewhere. */
static int64_t add_wrapping(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

void record_iterator_init(struct record_iterator *it, const struct batch_header *header,
                          struct bytes records)
{
    it->at = records.data;
    it->end = records.data == NULL ? NULL : records.data + records.size;
    it->base_offset = header->base_offset;
    it->base_timestamp = header->base_timestamp;
    it->max_timestamp = header->max_timestamp;
    it->log_append_time = (header->attributes & BATCH_LOG_APPEND_TIME) != 0;
    it->left = header->record_count;
}

/* Most varints in records are one byte. */
static inline const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, int32_t *value)
{
    uint32_t coded;
    if (at < end && *at < 0x80) {
        coded = *at++;
    } else {
        at = varint_read_u32(at, end, &coded);
        if (at == NULL) {
            return NULL;
        }
    }
    *value = zigzag_decode32(coded);
    return at;
}

/* Reads a length and the bytes it counts, -1 for null. NULL when malformed. */
static inline const uint8_t *read_view(const uint8_t *at, const uint8_t *end, struct bytes *view)
{
    int32_t size;
    at = read_varint(at, end, &size);
    if (at == NULL || size < -1 || size > end - at) {
        return NULL;
    }
    if (size < 0) {
        *view = BYTES_NULL;
        return at;
    }
    *view = (struct bytes){at, (uint32_t)size};
    return at + size;
}

/* Walks over the headers of a record; NULL unless they are well formed. */
static const uint8_t *skip_headers(const uint8_t *at, const uint8_t *end)
{
    int32_t count;
    at = read_varint(at, end, &count);
    if (at == NULL || count < 0) {
        return NULL;
    }
    for (; count > 0; count--) {
        struct bytes key;
        struct bytes value;
        at = read_view(at, end, &key);
        if (at == NULL || bytes_is_null(key)) {
            return NULL;
        }
        at = read_view(at, end, &value);
        if (at == NULL) {
            return NULL;
        }
    }
    return at;
}

/*
 * One record: varint size of what follows, int8 attributes (unused), varlong timestamp delta,
 * varint offset delta, key, value, headers. All varints are zig-zag.
 */
status record_iterator_next(struct record_iterator *it, struct record *record)
{
    if (it->left <= 0) {
        return it->at == it->end ? STATUS(NOT_FOUND) : STATUS(INVALID);
    }
    int32_t size;
    const uint8_t *at = read_varint(it->at, it->end, &size);
    if (at == NULL || size < 1 || size > it->end - at) {
        return STATUS(INVALID);
    }
    const uint8_t *end = at + size;
    uint64_t timestamp_delta;
    int32_t offset_delta;
    at = varint_read_u64(at + 1, end, &timestamp_delta);
    at = at == NULL ? NULL : read_varint(at, end, &offset_delta);
    at = at == NULL ? NULL : read_view(at, end, &record->key);
    at = at == NULL ? NULL : read_view(at, end, &record->value);
    record->headers = at;
    if (at == NULL || skip_headers(at, end) != end) {
        return STATUS(INVALID);
    }
    record->headers_size = (uint32_t)(end - at);
    record->offset = add_wrapping(it->base_offset, offset_delta);
    record->timestamp = it->log_append_time
                            ? it->max_timestamp
                            : add_wrapping(it->base_timestamp, zigzag_decode64(timestamp_delta));
    it->at = end;
    it->left--;
    return OK;
}

status batch_decompress(const uint8_t *batch, const struct batch_header *header, size_t size_max,
                        uint8_t **buffer, size_t *size)
{
    enum codec codec = header->attributes & BATCH_CODEC_MASK;
    struct bytes records = {batch + BATCH_HEADER_SIZE, header->size - BATCH_HEADER_SIZE};
    return codec_decompress(codec, records, size_max, buffer, size);
}

void batch_builder_init(struct batch_builder *builder, uint8_t *buffer, uint32_t capacity)
{
    ASSERT(capacity >= BATCH_HEADER_SIZE);
    *builder = (struct batch_builder){.buffer = buffer, .capacity = capacity};
    builder->size = BATCH_HEADER_SIZE;
}

static unsigned view_size(struct bytes view)
{
    int32_t size = bytes_is_null(view) ? -1 : (int32_t)view.size;
    return varint_size_u32(zigzag_encode32(size)) + view.size;
}

static uint8_t *write_view(uint8_t *to, struct bytes view)
{
    if (bytes_is_null(view)) {
        return varint_write_u32(to, zigzag_encode32(-1));
    }
    to = varint_write_u32(to, zigzag_encode32((int32_t)view.size));
    memcpy(to, view.data, view.size);
    return to + view.size;
}

status batch_builder_add(struct batch_builder *builder, int64_t timestamp, struct bytes key,
                         struct bytes value)
{
    if (key.size > INT32_MAX / 4 || value.size > INT32_MAX / 4) {
        return STATUS(FULL);
    }
    bool first = builder->record_count == 0;
    int64_t base = first ? timestamp : builder->base_timestamp;
    uint64_t timestamp_delta = zigzag_encode64((int64_t)((uint64_t)timestamp - (uint64_t)base));
    uint32_t offset_delta = zigzag_encode32(builder->record_count);
    uint32_t size = 1 + varint_size_u64(timestamp_delta) + varint_size_u32(offset_delta) +
                    view_size(key) + view_size(value) + 1;
    uint32_t size_coded = zigzag_encode32((int32_t)size);
    if (varint_size_u32(size_coded) + size > builder->capacity - builder->size) {
        return STATUS(FULL);
    }
    uint8_t *to = varint_write_u32(builder->buffer + builder->size, size_coded);
    *to++ = 0; /* attributes */
    to = varint_write_u64(to, timestamp_delta);
    to = varint_write_u32(to, offset_delta);
    to = write_view(to, key);
    to = write_view(to, value);
    *to++ = 0; /* no headers */
    builder->size = (uint32_t)(to - builder->buffer);
    builder->record_count++;
    builder->base_timestamp = base;
    builder->max_timestamp = first ? timestamp : MAX(builder->max_timestamp, timestamp);
    return OK;
}

struct bytes batch_builder_finish(struct batch_builder *builder, int64_t producer_id,
                                  int16_t producer_epoch, int32_t base_sequence, int16_t attributes)
{
    ASSERT(builder->record_count > 0);
    uint8_t *to = builder->buffer;
    store_be64(to, 0);
    store_be32(to + 8, builder->size - BATCH_LENGTH_OFFSET);
    store_be32(to + 12, (uint32_t)-1);
    to[MAGIC_AT] = MAGIC_CURRENT;
    store_be16(to + 21, (uint16_t)attributes);
    store_be32(to + 23, (uint32_t)(builder->record_count - 1));
    store_be64(to + 27, (uint64_t)builder->base_timestamp);
    store_be64(to + 35, (uint64_t)builder->max_timestamp);
    store_be64(to + 43, (uint64_t)producer_id);
    store_be16(to + 51, (uint16_t)producer_epoch);
    store_be32(to + 53, (uint32_t)base_sequence);
    store_be32(to + 57, (uint32_t)builder->record_count);
    store_be32(to + 17, crc32c(0, to + CRC_FROM, builder->size - CRC_FROM));
    return (struct bytes){to, builder->size};
}
