/*
 * Kafka's record batch, magic 2 (KIP-98). Layout, big-endian, offset by offset:
 *
 *      0  int64   base offset            |  43  int64  producer id (-1: none)
 *      8  int32   batch length (from 12) |  51  int16  producer epoch
 *     12  int32   partition leader epoch |  53  int32  base sequence
 *     16  int8    magic = 2              |  57  int32  record count
 *     17  uint32  CRC32C of bytes 21...  |  61  records, perhaps compressed
 *     21  int16   attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control,
 *                 6 delete horizon
 *     23  int32   last offset delta
 *     27  int64   base timestamp (ms)
 *     35  int64   max timestamp (ms)
 *
 * Base offset and leader epoch are outside the CRC, so the broker sets them in place.
 */
#ifndef TWINLOG_PROTOCOL_BATCH_H
#define TWINLOG_PROTOCOL_BATCH_H

#include "twinlog/core/bytes.h"
#include "twinlog/core/status.h"
#include "twinlog/protocol/compress.h"
#include "twinlog/protocol/kafka_error.h"

#define BATCH_HEADER_SIZE   61u
#define BATCH_LENGTH_OFFSET 12u /* bytes before what `batch length` counts */

#define BATCH_CODEC_MASK      0x07
#define BATCH_LOG_APPEND_TIME 0x08
#define BATCH_TRANSACTIONAL   0x10
#define BATCH_CONTROL         0x20

struct batch_header {
    int64_t base_offset;
    uint32_t size; /* whole batch in bytes: batch length + 12 */
    int32_t leader_epoch;
    int8_t magic;
    uint32_t crc;
    int16_t attributes;
    int32_t last_offset_delta;
    int64_t base_timestamp;
    int64_t max_timestamp;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    int32_t record_count;
};

/*
 * Reads the header at the start of `input`, which may hold more behind it. Judges only what is
 * needed to walk on: TRUNCATED when the batch does not end inside `input`, INVALID when its length
 * is below a header's or its magic is not 2.
 */
MUST_USE status batch_header_read(struct bytes input, struct batch_header *header);

/* The partition leader epoch of a batch whose header is whole. */
int32_t batch_leader_epoch(const uint8_t *batch);

/* True when the CRC over bytes [21, size) is the header's. */
bool batch_crc_is_valid(const uint8_t *batch, const struct batch_header *header);

/* Sets base offset and leader epoch in place; the CRC stays valid. */
void batch_stamp(uint8_t *batch, int64_t base_offset, int32_t leader_epoch);

/* What a topic demands of a batch from a client; see batch_validate. */
struct batch_rules {
    uint32_t size_max;            /* max.message.bytes, as sent */
    bool compacted;               /* cleanup.policy has compact: records need keys */
    int64_t now_ms;               /* wall clock */
    int64_t timestamp_before_max; /* KIP-937, ms; INT64_MAX: unbounded */
    int64_t timestamp_after_max;
    bool idempotence_only;  /* transactional batches are refused */
    bool zstd_refused;      /* Produce below version 7 (KIP-110) */
    size_t opened_size_max; /* bytes a compressed batch may have decompressed */
    bool log_append_time;   /* the broker's clock replaces the timestamps: none is judged */
    /* compression.type and its level; recompress false: producer. */
    bool recompress;
    enum codec codec;
    int level;
};

/* What is wrong, for record_errors and error_message of ProduceResponse. */
struct batch_fault {
    int32_t record_index;  /* -1: the batch as a whole */
    const char *message;   /* static text */
    bool opened_too_large; /* over opened_size_max; a larger bound may judge otherwise */
};

/*
 * Checks one batch sent by a client as Kafka does: exactly one batch in `records` (Produce v3+),
 * magic 2, CRC, base offset 0, count = last offset delta + 1 > 0, no control bit, a known codec,
 * sizes, and the records inside, for which a compressed batch is opened.
 * NONE, CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP,
 * UNSUPPORTED_COMPRESSION_TYPE, TRANSACTIONAL_ID_AUTHORIZATION_FAILED (transactional, but
 * idempotence_only) as Kafka answers them.
 * `header` is what was sent, but for the max timestamp, which is that of the records whatever was
 * sent; on an error only its magic is meaningful.
 */
enum kafka_error batch_validate(struct bytes records, const struct batch_rules *rules,
                                struct batch_header *header, struct batch_fault *fault);

/* A batch that passed, as the topic keeps it. */
struct batch_admitted {
    struct batch_header header;
    struct bytes bytes;
    uint8_t *rewritten; /* `bytes` is this (malloc, the caller's); NULL: it is what was sent */
    /*
     * Bytes of a compressed batch's records when opened; opened_size_max of the rules when it could
     * not be opened. 0: it was not compressed, or it was refused by its header.
     */
    size_t opened_size;
};

/*
 * Checks a batch as batch_validate() does and compresses it again when the topic wants another
 * codec than the producer's. MESSAGE_TOO_LARGE also when it is larger than size_max then. When the
 * header's max timestamp is not the one in `bytes` the caller is to batch_set_times().
 */
enum kafka_error batch_admit(struct bytes records, const struct batch_rules *rules,
                             struct batch_admitted *admitted, struct batch_fault *fault);

/* What batch_admit() costs the thread that runs it. */
struct batch_work {
    uint32_t factor;        /* per byte, where opening one is 1; 0: nothing to open or compress */
    bool is_heavy;          /* by its size as sent: too long for a loop to stand still */
    size_t opened_size_max; /* likewise when its records are larger opened; bytes */
};

/* Looks at the header only, and says nothing about its validity. */
struct batch_work batch_work_of(struct bytes records, const struct batch_rules *rules);

/* True when the bytes of the batch have another max timestamp than its header. */
bool batch_times_differ(const uint8_t *batch, const struct batch_header *header);

/* Writes the timestamp type and the max timestamp of the header into the batch, and the new CRC. */
void batch_set_times(uint8_t *batch, struct batch_header *header);

/*
 * Writes the batch anew around `records` (uncompressed) in another codec, into *output (malloc; the
 * caller frees it on OK), and brings attributes, size and CRC of the header up to date. The other
 * fields stay: the records are what they were. NO_MEMORY; INVALID: the level; TOO_LARGE for a
 * batch.
 */
MUST_USE status batch_rewrite(const uint8_t *batch, struct batch_header *header,
                              struct bytes records, enum codec codec, int level, uint8_t **output);

/* One record of a batch; views into the (decompressed) records. */
struct record {
    int64_t timestamp;
    int64_t offset;
    struct bytes key;       /* may be null */
    struct bytes value;     /* may be null */
    const uint8_t *headers; /* header count varint and what follows */
    uint32_t headers_size;
};

struct record_iterator {
    const uint8_t *at;
    const uint8_t *end;
    int64_t base_offset;
    int64_t base_timestamp;
    int64_t max_timestamp;
    bool log_append_time;
    int32_t left;
};

/*
 * Starts over the records of a valid batch. `records` are its uncompressed records: the bytes after
 * the header for codec none, else what batch_decompress gave.
 */
void record_iterator_init(struct record_iterator *it, const struct batch_header *header,
                          struct bytes records);

/*
 * Reads the next record: OK, NOT_FOUND at the end, INVALID when malformed.
 */
MUST_USE status record_iterator_next(struct record_iterator *it, struct record *record);

/*
 * Decompresses the records of `batch` into *buffer (malloc; the caller frees). At most `size_max`
 * bytes: TOO_LARGE beyond. CORRUPT when the codec refuses.
 */
MUST_USE status batch_decompress(const uint8_t *batch, const struct batch_header *header,
                                 size_t size_max, uint8_t **buffer, size_t *size);

/* Writer of uncompressed batches, for our own records (metadata) and for tests. */
struct batch_builder {
    uint8_t *buffer; /* caller's */
    uint32_t capacity;
    uint32_t size;
    int32_t record_count;
    int64_t base_timestamp;
    int64_t max_timestamp;
};

/* Starts a batch in `buffer`, which must hold BATCH_HEADER_SIZE bytes and the records. */
void batch_builder_init(struct batch_builder *builder, uint8_t *buffer, uint32_t capacity);

/* Adds one record without headers; FULL when the buffer is. Key and value may be null. */
MUST_USE status batch_builder_add(struct batch_builder *builder, int64_t timestamp,
                                  struct bytes key, struct bytes value);

/*
 * Writes header and CRC (base offset 0). `producer_id` -1 for none. Returns the batch.
 */
struct bytes batch_builder_finish(struct batch_builder *builder, int64_t producer_id,
                                  int16_t producer_epoch, int32_t base_sequence,
                                  int16_t attributes);

#endif
