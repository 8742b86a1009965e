/*
 * Record batches: validation, decompression, iteration; and the codecs alone.
 *
 *     0  u8  bit 0: length, magic and CRC are put right before; bit 1: compacted topic;
 *            bit 2: the bytes go to a codec alone; bit 3: the topic wants a codec; bits 4-6: which
 *     1      the batch
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seed.h"
#include "twinlog/core/crc32c.h"
#include "twinlog/protocol/batch.h"

#define OPENED_SIZE_MAX ((size_t)1 << 20)
#define SEED_SIZE_MAX   4096u

enum flag { FLAG_MEND = 1, FLAG_COMPACTED = 2, FLAG_CODEC = 4, FLAG_RECOMPRESS = 8 };

static void batch_mend(uint8_t *batch, uint32_t size)
{
    store_be32(batch + 8, size - BATCH_LENGTH_OFFSET);
    batch[16] = 2;
    store_be32(batch + 17, crc32c(0, batch + 21, size - 21));
}

static uint32_t iterate(const struct batch_header *header, struct bytes records)
{
    struct record_iterator it;
    struct record record;
    uint32_t count = 0;
    uint32_t sum = 0;
    record_iterator_init(&it, header, records);
    while (status_is_ok(record_iterator_next(&it, &record))) {
        count++;
        /* Every byte that a record views must be there. */
        for (uint32_t i = 0; i < record.key.size; i++) {
            sum += record.key.data[i];
        }
        for (uint32_t i = 0; i < record.value.size; i++) {
            sum += record.value.data[i];
        }
        for (uint32_t i = 0; i < record.headers_size; i++) {
            sum += record.headers[i];
        }
    }
    __asm__ volatile("" : : "r"(sum));
    return count;
}

static void open_batch(const uint8_t *batch, const struct batch_header *header, bool is_judged)
{
    uint8_t *opened = NULL;
    size_t opened_size = 0;
    uint32_t count = 0;
    if ((header->attributes & BATCH_CODEC_MASK) == CODEC_NONE) {
        count = iterate(
            header, (struct bytes){batch + BATCH_HEADER_SIZE, header->size - BATCH_HEADER_SIZE});
    } else {
        if (!status_is_ok(
                batch_decompress(batch, header, OPENED_SIZE_MAX, &opened, &opened_size))) {
            return;
        }
        fuzz_require(opened_size <= OPENED_SIZE_MAX, "decompression keeps its bound");
        count = iterate(header, (struct bytes){opened, (uint32_t)opened_size});
        free(opened);
    }
    fuzz_require(!is_judged || count == (uint32_t)header->record_count,
                 "a batch that was opened and passed holds the records it counts");
}

/* What is stored is valid, reads as what was sent, and is in the codec that was asked for. */
static void admit(struct bytes input, const struct batch_rules *rules, bool is_valid)
{
    struct batch_admitted admitted;
    struct batch_fault fault;
    bool passed = batch_admit(input, rules, &admitted, &fault) == KAFKA_NONE;
    fuzz_require(is_valid || !passed, "only what is valid is admitted");
    if (!passed) {
        fuzz_require(admitted.rewritten == NULL, "what is refused holds no memory");
        return;
    }
    fuzz_require(!rules->recompress ||
                     (admitted.header.attributes & BATCH_CODEC_MASK) == rules->codec,
                 "the topic's codec is kept");
    if (admitted.rewritten != NULL) {
        struct batch_header header;
        fuzz_require(batch_validate(admitted.bytes, rules, &header, &fault) == KAFKA_NONE,
                     "what was rewritten is valid");
        fuzz_require(header.max_timestamp == admitted.header.max_timestamp &&
                         header.record_count == admitted.header.record_count &&
                         header.producer_id == admitted.header.producer_id &&
                         header.base_sequence == admitted.header.base_sequence,
                     "rewriting changes no other field");
        open_batch(admitted.bytes.data, &header, true);
    }
    free(admitted.rewritten);
}

static void judge(struct bytes input, uint8_t flags)
{
    struct batch_rules rules = {
        .size_max = 1u << 20,
        .opened_size_max = OPENED_SIZE_MAX,
        .compacted = (flags & FLAG_COMPACTED) != 0,
        .recompress = (flags & FLAG_RECOMPRESS) != 0,
        .codec = (enum codec)((flags >> 4) % CODEC_COUNT),
        .level = INT32_MIN,
        .now_ms = 1700000000000,
        .timestamp_before_max = INT64_MAX,
        .timestamp_after_max = INT64_MAX,
    };
    struct batch_header header;
    struct batch_fault fault;
    bool passed = batch_validate(input, &rules, &header, &fault) == KAFKA_NONE;
    if (status_is_ok(batch_header_read(input, &header))) {
        fuzz_require(header.size >= BATCH_HEADER_SIZE && header.size <= input.size,
                     "a header that can be walked on from ends inside the input");
        open_batch(input.data, &header, passed);
    } else {
        fuzz_require(!passed, "a batch that passed has a header");
    }
    admit(input, &rules, passed);
}

static void codec_alone(enum codec codec, struct bytes input)
{
    uint8_t *output = NULL;
    size_t size = 0;
    if (status_is_ok(codec_decompress(codec, input, OPENED_SIZE_MAX, &output, &size))) {
        fuzz_require(size <= OPENED_SIZE_MAX, "decompression keeps its bound");
        free(output);
    }
    if (status_is_ok(codec_compress(codec, INT32_MIN, input, &output, &size))) {
        uint8_t *back = NULL;
        size_t back_size = 0;
        fuzz_require(status_is_ok(codec_decompress(codec, (struct bytes){output, (uint32_t)size},
                                                   input.size + 1U, &back, &back_size)),
                     "what was compressed can be decompressed");
        fuzz_require(back_size == input.size &&
                         (back_size == 0 || memcmp(back, input.data, back_size) == 0),
                     "compression loses nothing");
        free(back);
        free(output);
    }
}

static struct bytes plain_batch(uint8_t *buffer)
{
    struct batch_builder builder;
    batch_builder_init(&builder, buffer, SEED_SIZE_MAX);
    for (int i = 0; i < 3; i++) {
        fuzz_require(status_is_ok(batch_builder_add(&builder, 1700000000000 + i, bytes_of("key"),
                                                    bytes_of("a value, a value, a value"))),
                     "a seed fits");
    }
    return batch_builder_finish(&builder, 1000, 0, 0, 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    uint8_t seed[1 + SEED_SIZE_MAX];
    seed_init(*argc, *argv);
    struct bytes plain = plain_batch(seed + 1);
    seed[0] = FLAG_MEND;
    seed_add("plain", seed, plain.size + 1);
    seed[0] = FLAG_MEND | FLAG_RECOMPRESS | CODEC_ZSTD << 4;
    seed_add("plain-to-zstd", seed, plain.size + 1);
    for (int codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        uint8_t packed[1 + SEED_SIZE_MAX];
        uint8_t *output = NULL;
        size_t size = 0;
        struct bytes records = {plain.data + BATCH_HEADER_SIZE, plain.size - BATCH_HEADER_SIZE};
        fuzz_require(
            status_is_ok(codec_compress((enum codec)codec, INT32_MIN, records, &output, &size)) &&
                size + 1 + BATCH_HEADER_SIZE <= sizeof(packed),
            "a seed can be compressed");
        packed[0] = FLAG_MEND | FLAG_COMPACTED;
        memcpy(packed + 1, plain.data, BATCH_HEADER_SIZE);
        store_be16(packed + 1 + 21, (uint16_t)codec);
        memcpy(packed + 1 + BATCH_HEADER_SIZE, output, size);
        seed_add(codec_name((enum codec)codec), packed, size + 1 + BATCH_HEADER_SIZE);
        char name[32];
        packed[0] = (uint8_t)(FLAG_MEND | FLAG_RECOMPRESS | (codec % CODEC_ZSTD) << 4);
        snprintf(name, sizeof(name), "from-%d", codec);
        seed_add(name, packed, size + 1 + BATCH_HEADER_SIZE);
        snprintf(name, sizeof(name), "codec-%d", codec);
        packed[0] = (uint8_t)(FLAG_CODEC | codec << 4);
        memcpy(packed + 1, output, size);
        seed_add(name, packed, size + 1);
        free(output);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    uint8_t *copy = malloc(size);
    fuzz_require(copy != NULL, "memory");
    memcpy(copy, data + 1, size - 1);
    struct bytes input = {copy, (uint32_t)size - 1};
    if ((data[0] & FLAG_CODEC) != 0) {
        codec_alone((enum codec)((data[0] >> 4) % CODEC_COUNT), input);
    } else {
        if ((data[0] & FLAG_MEND) != 0 && input.size >= BATCH_HEADER_SIZE) {
            batch_mend(copy, input.size);
        }
        judge(input, data[0]);
    }
    free(copy);
    return 0;
}
