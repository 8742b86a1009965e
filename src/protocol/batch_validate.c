/*
 * What a broker demands of a batch from a client: ProduceRequest (KIP-98, KIP-467 for the record
 * errors, KIP-937 for the bounds on timestamps). As in Kafka a compressed batch is opened: one that
 * cannot be read, or whose count is wrong, would stop every consumer behind it.
 */
#include <stdlib.h>

#include "twinlog/protocol/batch.h"

#define NO_TIMESTAMP (-1)

static enum kafka_error refuse(struct batch_fault *fault, int32_t record_index,
                               enum kafka_error error, const char *message)
{
    *fault = (struct batch_fault){.record_index = record_index, .message = message};
    return error;
}

/* Finds the one batch; says why there is none. */
static enum kafka_error find_batch(struct bytes records, struct batch_header *header,
                                   struct batch_fault *fault)
{
    *header = (struct batch_header){.magic = 2};
    status result = batch_header_read(records, header);
    if (result.code == STATUS_TRUNCATED) {
        return refuse(fault, -1, KAFKA_INVALID_RECORD, "the request holds no whole record batch");
    }
    if (header->magic == 0 || header->magic == 1) {
        return refuse(fault, -1, KAFKA_INVALID_RECORD, "only record batches of magic 2 are taken");
    }
    if (!status_is_ok(result)) {
        return refuse(fault, -1, KAFKA_CORRUPT_MESSAGE, "the batch's magic or length is invalid");
    }
    if (header->size != records.size) {
        return refuse(fault, -1, KAFKA_INVALID_RECORD,
                      "a partition takes exactly one record batch per request");
    }
    return KAFKA_NONE;
}

static enum kafka_error check_counts(const struct batch_header *header, struct batch_fault *fault)
{
    const char *message = NULL;
    if (header->last_offset_delta < 0) {
        message = "the last offset delta is negative";
    } else if (header->record_count <= 0) {
        message = "the record count is not positive";
    } else if (header->record_count - 1 != header->last_offset_delta) {
        message = "the record count differs from the range of offsets";
    } else if (header->producer_id >= 0 && header->base_sequence < 0) {
        message = "the batch has a producer id but no sequence";
    } else if ((header->attributes & BATCH_CONTROL) != 0) {
        message = "clients may not write control batches";
    } else if ((header->attributes & BATCH_TRANSACTIONAL) != 0 && header->producer_id < 0) {
        message = "a transactional batch needs a producer id";
    }
    return message == NULL ? KAFKA_NONE : refuse(fault, -1, KAFKA_INVALID_RECORD, message);
}

static enum kafka_error check_header(const uint8_t *batch, const struct batch_rules *rules,
                                     const struct batch_header *header, struct batch_fault *fault)
{
    enum codec codec = header->attributes & BATCH_CODEC_MASK;
    if (header->base_offset != 0) {
        return refuse(fault, -1, KAFKA_INVALID_RECORD, "the base offset is not 0");
    }
    if (header->size > rules->size_max) {
        return refuse(fault, -1, KAFKA_MESSAGE_TOO_LARGE,
                      "the batch is larger than max.message.bytes");
    }
    if (!batch_crc_is_valid(batch, header)) {
        return refuse(fault, -1, KAFKA_CORRUPT_MESSAGE, "the checksum of the batch is wrong");
    }
    if (codec >= CODEC_COUNT) {
        return refuse(fault, -1, KAFKA_UNSUPPORTED_COMPRESSION_TYPE, "unknown compression codec");
    }
    if (codec == CODEC_ZSTD && rules->zstd_refused) {
        return refuse(fault, -1, KAFKA_UNSUPPORTED_COMPRESSION_TYPE,
                      "zstd needs version 7 of the produce request");
    }
    if ((header->attributes & BATCH_TRANSACTIONAL) != 0 && rules->idempotence_only) {
        return refuse(fault, -1, KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                      "transactions are not supported");
    }
    enum kafka_error error = check_counts(header, fault);
    if (error == KAFKA_NONE && (header->attributes & BATCH_LOG_APPEND_TIME) != 0) {
        return refuse(fault, -1, KAFKA_INVALID_TIMESTAMP,
                      "a producer may not set the timestamp type to LogAppendTime");
    }
    return error;
}

/* A difference of any two timestamps without overflow. */
static bool timestamp_is_allowed(const struct batch_rules *rules, int64_t timestamp)
{
    __int128 age = (__int128)rules->now_ms - timestamp;
    return timestamp == NO_TIMESTAMP || rules->log_append_time ||
           (age <= rules->timestamp_before_max && -age <= rules->timestamp_after_max);
}

/*
 * Walks the records. The base offset is 0, checked before. What the header says of the largest
 * timestamp is not believed: time indexes are built on it.
 */
static enum kafka_error check_records(const struct batch_rules *rules, struct batch_header *header,
                                      struct bytes records, struct batch_fault *fault)
{
    struct record_iterator it;
    struct record record;
    int64_t max_timestamp = NO_TIMESTAMP;
    record_iterator_init(&it, header, records);
    for (int32_t index = 0;; index++) {
        status result = record_iterator_next(&it, &record);
        if (result.code == STATUS_NOT_FOUND) {
            header->max_timestamp = max_timestamp;
            return KAFKA_NONE;
        }
        if (!status_is_ok(result)) {
            return index < header->record_count
                       ? refuse(fault, index, KAFKA_INVALID_RECORD, "the record is malformed")
                       : refuse(fault, -1, KAFKA_INVALID_RECORD, "bytes follow the last record");
        }
        if (record.offset != index) {
            return refuse(fault, index, KAFKA_INVALID_RECORD,
                          "the offsets of the records do not rise one by one");
        }
        if (rules->compacted && bytes_is_null(record.key)) {
            return refuse(fault, index, KAFKA_INVALID_RECORD,
                          "a compacted topic takes no record without a key");
        }
        if (!timestamp_is_allowed(rules, record.timestamp)) {
            return refuse(fault, index, KAFKA_INVALID_TIMESTAMP,
                          "the timestamp is outside the topic's bounds");
        }
        max_timestamp = MAX(max_timestamp, record.timestamp);
    }
}

/* Opens a compressed batch, within the bound: *buffer is the caller's to free on NONE. */
static enum kafka_error open_batch(const uint8_t *batch, const struct batch_rules *rules,
                                   const struct batch_header *header, uint8_t **buffer,
                                   size_t *size, struct batch_fault *fault)
{
    status result = batch_decompress(batch, header, rules->opened_size_max, buffer, size);
    switch (result.code) {
    case STATUS_OK:
        return KAFKA_NONE;
    case STATUS_TOO_LARGE:
        refuse(fault, -1, KAFKA_MESSAGE_TOO_LARGE,
               "the batch is larger decompressed than twinlog.batch.opened.size.max");
        fault->opened_too_large = true;
        return KAFKA_MESSAGE_TOO_LARGE;
    case STATUS_NO_MEMORY:
        return refuse(fault, -1, KAFKA_UNKNOWN_SERVER_ERROR, "no memory to decompress the batch");
    default:
        return refuse(fault, -1, KAFKA_INVALID_RECORD, "the batch cannot be decompressed");
    }
}

static enum kafka_error check_batch(struct bytes records, const struct batch_rules *rules,
                                    struct batch_header *header, struct batch_fault *fault)
{
    *fault = (struct batch_fault){.record_index = -1};
    enum kafka_error error = find_batch(records, header, fault);
    return error == KAFKA_NONE ? check_header(records.data, rules, header, fault) : error;
}

/*
 * Judges the records of a batch whose header passed. `inside` is where they are uncompressed;
 * *buffer, when not NULL, is the memory they were decompressed into and the caller's to free.
 */
static enum kafka_error check_inside(const uint8_t *batch, const struct batch_rules *rules,
                                     struct batch_header *header, struct bytes *inside,
                                     uint8_t **buffer, struct batch_fault *fault)
{
    *buffer = NULL;
    *inside = (struct bytes){batch + BATCH_HEADER_SIZE, header->size - BATCH_HEADER_SIZE};
    if ((header->attributes & BATCH_CODEC_MASK) != CODEC_NONE) {
        size_t size;
        enum kafka_error error = open_batch(batch, rules, header, buffer, &size, fault);
        if (error != KAFKA_NONE) {
            return error;
        }
        *inside = (struct bytes){*buffer, (uint32_t)size};
    }
    return check_records(rules, header, *inside, fault);
}

enum kafka_error batch_validate(struct bytes records, const struct batch_rules *rules,
                                struct batch_header *header, struct batch_fault *fault)
{
    struct bytes inside;
    uint8_t *buffer = NULL;
    enum kafka_error error = check_batch(records, rules, header, fault);
    if (error == KAFKA_NONE) {
        error = check_inside(records.data, rules, header, &inside, &buffer, fault);
        free(buffer);
    }
    return error;
}

/* Brings a batch that passed into the topic's codec. */
static enum kafka_error recompress(const struct batch_rules *rules, struct bytes inside,
                                   struct batch_admitted *admitted, struct batch_fault *fault)
{
    status result = batch_rewrite(admitted->bytes.data, &admitted->header, inside, rules->codec,
                                  rules->level, &admitted->rewritten);
    if (!status_is_ok(result)) {
        return refuse(fault, -1, KAFKA_UNKNOWN_SERVER_ERROR, "the batch cannot be compressed");
    }
    if (admitted->header.size > rules->size_max) {
        free(admitted->rewritten);
        admitted->rewritten = NULL;
        return refuse(fault, -1, KAFKA_MESSAGE_TOO_LARGE,
                      "the batch is larger than max.message.bytes in the topic's compression.type");
    }
    admitted->bytes = (struct bytes){admitted->rewritten, admitted->header.size};
    return KAFKA_NONE;
}

enum kafka_error batch_admit(struct bytes records, const struct batch_rules *rules,
                             struct batch_admitted *admitted, struct batch_fault *fault)
{
    struct bytes inside;
    uint8_t *buffer = NULL;
    admitted->bytes = records;
    admitted->rewritten = NULL;
    admitted->opened_size = 0;
    enum kafka_error error = check_batch(records, rules, &admitted->header, fault);
    if (error == KAFKA_NONE) {
        enum codec codec = admitted->header.attributes & BATCH_CODEC_MASK;
        error = check_inside(records.data, rules, &admitted->header, &inside, &buffer, fault);
        if (codec != CODEC_NONE) {
            admitted->opened_size = buffer != NULL ? inside.size : rules->opened_size_max;
        }
        if (error == KAFKA_NONE && rules->recompress && codec != rules->codec) {
            error = recompress(rules, inside, admitted, fault);
        }
        free(buffer);
    }
    return error;
}
