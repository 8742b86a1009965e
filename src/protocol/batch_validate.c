/*
 * What a broker demands of a batch from a client: ProduceRequest (KIP-98, KIP-467 for the record
 * errors, KIP-937 for the bounds on timestamps). A batch that passes is stored as it was sent.
 */
#include <stdlib.h>

#include "twinlog/protocol/batch.h"

#define NO_TIMESTAMP (-1)

static enum kafka_error refuse(struct batch_fault *fault, int32_t record_index,
                               enum kafka_error error, const char *message)
{
    *fault = (struct batch_fault){record_index, message};
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
    return check_counts(header, fault);
}

/* A difference of any two timestamps without overflow. */
static bool timestamp_is_allowed(const struct batch_rules *rules, int64_t timestamp)
{
    __int128 age = (__int128)rules->now_ms - timestamp;
    return timestamp == NO_TIMESTAMP ||
           (age <= rules->timestamp_before_max && -age <= rules->timestamp_after_max);
}

static enum kafka_error check_max_timestamp(const struct batch_rules *rules,
                                            const struct batch_header *header,
                                            struct batch_fault *fault)
{
    return timestamp_is_allowed(rules, header->max_timestamp)
               ? KAFKA_NONE
               : refuse(fault, -1, KAFKA_INVALID_TIMESTAMP,
                        "the max timestamp is outside the topic's bounds");
}

/*
 * Of a batch that stays closed, the header's timestamps are all that is known. Of one that is
 * opened the records are judged first, so that the fault names the record.
 */
static enum kafka_error check_timestamps(const struct batch_rules *rules,
                                         const struct batch_header *header, bool opened,
                                         struct batch_fault *fault)
{
    if ((header->attributes & BATCH_LOG_APPEND_TIME) != 0) {
        return refuse(fault, -1, KAFKA_INVALID_TIMESTAMP,
                      "a producer may not set the timestamp type to LogAppendTime");
    }
    if (!opened && !timestamp_is_allowed(rules, header->base_timestamp)) {
        return refuse(fault, 0, KAFKA_INVALID_TIMESTAMP,
                      "the timestamp is outside the topic's bounds");
    }
    return opened ? KAFKA_NONE : check_max_timestamp(rules, header, fault);
}

/* Walks the records, wherever they had to be opened. The base offset is 0, checked before. */
static enum kafka_error check_records(const struct batch_rules *rules,
                                      const struct batch_header *header, struct bytes records,
                                      struct batch_fault *fault)
{
    struct record_iterator it;
    struct record record;
    record_iterator_init(&it, header, records);
    for (int32_t index = 0;; index++) {
        status result = record_iterator_next(&it, &record);
        if (result.code == STATUS_NOT_FOUND) {
            return check_max_timestamp(rules, header, fault);
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
    }
}

/* A compacted topic must see every key, so what is compressed is opened, within a bound. */
static enum kafka_error check_compressed(const uint8_t *batch, const struct batch_rules *rules,
                                         const struct batch_header *header,
                                         struct batch_fault *fault)
{
    uint8_t *buffer;
    size_t size;
    status result = batch_decompress(batch, header, BATCH_OPENED_SIZE_MAX, &buffer, &size);
    switch (result.code) {
    case STATUS_OK:
        break;
    case STATUS_TOO_LARGE:
        return refuse(fault, -1, KAFKA_MESSAGE_TOO_LARGE, "the batch is too large decompressed");
    case STATUS_NO_MEMORY:
        return refuse(fault, -1, KAFKA_UNKNOWN_SERVER_ERROR, "no memory to decompress the batch");
    default:
        return refuse(fault, -1, KAFKA_INVALID_RECORD, "the batch cannot be decompressed");
    }
    enum kafka_error error =
        check_records(rules, header, (struct bytes){buffer, (uint32_t)size}, fault);
    free(buffer);
    return error;
}

enum kafka_error batch_validate(struct bytes records, const struct batch_rules *rules,
                                struct batch_header *header, struct batch_fault *fault)
{
    *fault = (struct batch_fault){-1, NULL};
    enum kafka_error error = find_batch(records, header, fault);
    if (error == KAFKA_NONE) {
        error = check_header(records.data, rules, header, fault);
    }
    bool compressed = (header->attributes & BATCH_CODEC_MASK) != CODEC_NONE;
    if (error == KAFKA_NONE) {
        error = check_timestamps(rules, header, !compressed || rules->compacted, fault);
    }
    if (error != KAFKA_NONE) {
        return error;
    }
    if (!compressed) {
        struct bytes inside = {records.data + BATCH_HEADER_SIZE, header->size - BATCH_HEADER_SIZE};
        return check_records(rules, header, inside, fault);
    }
    return rules->compacted ? check_compressed(records.data, rules, header, fault) : KAFKA_NONE;
}
