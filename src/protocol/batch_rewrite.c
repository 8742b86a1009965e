/*
 * Changes to batches that a producer sent: another codec (compression.type), the broker's clock
 * (LogAppendTime), and a max timestamp that is true. Fields by offset are at the head of batch.h.
 */
#include <stdlib.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/crc32c.h"
#include "twinlog/protocol/batch.h"

#define LENGTH_AT        8u
#define CRC_AT           17u
#define ATTRIBUTES_AT    21u
#define MAX_TIMESTAMP_AT 35u

/* The slowest codec opens, and compresses, about so much in a millisecond. */
#define OPEN_SIZE_PER_MS     65536u
#define COMPRESS_SIZE_PER_MS 8192u
/* What is sent of a compressed batch tells little of its records: a loop opens a bit more. */
#define LOOP_OPENED_SIZE_MAX ((size_t)256 * 1024)

static void header_seal(uint8_t *batch, struct batch_header *header)
{
    header->crc = crc32c(0, batch + ATTRIBUTES_AT, header->size - ATTRIBUTES_AT);
    store_be32(batch + CRC_AT, header->crc);
}

static void header_store_times(uint8_t *batch, const struct batch_header *header)
{
    store_be16(batch + ATTRIBUTES_AT, (uint16_t)header->attributes);
    store_be64(batch + MAX_TIMESTAMP_AT, (uint64_t)header->max_timestamp);
}

bool batch_times_differ(const uint8_t *batch, const struct batch_header *header)
{
    return (int64_t)load_be64(batch + MAX_TIMESTAMP_AT) != header->max_timestamp;
}

void batch_set_times(uint8_t *batch, struct batch_header *header)
{
    header_store_times(batch, header);
    header_seal(batch, header);
}

struct batch_work batch_work_of(struct bytes records, const struct batch_rules *rules)
{
    if (records.size < BATCH_HEADER_SIZE) {
        return (struct batch_work){0};
    }
    unsigned codec = load_be16(records.data + ATTRIBUTES_AT) & BATCH_CODEC_MASK;
    if (rules->recompress && codec != rules->codec && rules->codec != CODEC_NONE) {
        return (struct batch_work){
            .factor = OPEN_SIZE_PER_MS / COMPRESS_SIZE_PER_MS,
            .is_heavy = records.size > COMPRESS_SIZE_PER_MS,
            .opened_size_max = COMPRESS_SIZE_PER_MS,
        };
    }
    if (codec != CODEC_NONE) {
        return (struct batch_work){
            .factor = 1,
            .is_heavy = records.size > OPEN_SIZE_PER_MS,
            .opened_size_max = LOOP_OPENED_SIZE_MAX,
        };
    }
    return (struct batch_work){0};
}

status batch_rewrite(const uint8_t *batch, struct batch_header *header, struct bytes records,
                     enum codec codec, int level, uint8_t **output)
{
    uint8_t *to;
    size_t size;
    TRY(codec_compress_behind(codec, level, records, BATCH_HEADER_SIZE, &to, &size));
    /* Twice a buffer of at most INT32_MAX bytes, and a little, would not fit a batch length. */
    ASSERT(size >= BATCH_HEADER_SIZE);
    if (size > INT32_MAX) {
        free(to);
        return STATUS(TOO_LARGE);
    }
    memcpy(to, batch, BATCH_HEADER_SIZE);
    header->size = (uint32_t)size;
    header->attributes = (int16_t)((header->attributes & ~BATCH_CODEC_MASK) | (int)codec);
    store_be32(to + LENGTH_AT, header->size - BATCH_LENGTH_OFFSET);
    header_store_times(to, header);
    header_seal(to, header);
    *output = to;
    return OK;
}
