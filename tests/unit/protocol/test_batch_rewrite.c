#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "twinlog/protocol/batch.h"

#define NOW          1700000000000
#define RECORD_COUNT 40
#define BUFFER_SIZE  (64u * 1024)

static const struct batch_rules as_sent = {.size_max = BUFFER_SIZE,
                                           .opened_size_max = 1u << 20,
                                           .now_ms = NOW,
                                           .timestamp_before_max = INT64_MAX,
                                           .timestamp_after_max = INT64_MAX};

/* Timestamps that fall, keys that are null: what a rewrite must not touch. */
static struct bytes build(uint8_t *buffer)
{
    struct batch_builder builder;
    batch_builder_init(&builder, buffer, BUFFER_SIZE);
    for (int i = 0; i < RECORD_COUNT; i++) {
        char value[64];
        snprintf(value, sizeof(value), "value %d, value %d, value %d", i, i, i);
        assert_true(status_is_ok(batch_builder_add(
            &builder, NOW - i, i % 3 == 0 ? BYTES_NULL : bytes_of("key"), bytes_of(value))));
    }
    return batch_builder_finish(&builder, 77, 3, 12, 0);
}

static struct batch_rules rules_for(enum codec codec, int level)
{
    struct batch_rules rules = as_sent;
    rules.recompress = true;
    rules.codec = codec;
    rules.level = level;
    return rules;
}

static struct batch_admitted admit(struct bytes batch, const struct batch_rules *rules)
{
    struct batch_admitted admitted;
    struct batch_fault fault;
    assert_int_equal(batch_admit(batch, rules, &admitted, &fault), KAFKA_NONE);
    assert_null(fault.message);
    return admitted;
}

static uint8_t *opened(struct bytes batch, struct batch_header *header, size_t *size)
{
    uint8_t *records;
    assert_true(status_is_ok(batch_header_read(batch, header)));
    assert_int_equal(header->size, batch.size);
    assert_true(batch_crc_is_valid(batch.data, header));
    assert_true(status_is_ok(batch_decompress(batch.data, header, 1 << 20, &records, size)));
    return records;
}

/* Header fields but those that say how the records are compressed, and the records' bytes. */
static void assert_same_records(struct bytes left, struct bytes right)
{
    struct batch_header a;
    struct batch_header b;
    size_t a_size;
    size_t b_size;
    uint8_t *a_records = opened(left, &a, &a_size);
    uint8_t *b_records = opened(right, &b, &b_size);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a_records, b_records, a_size);
    /* Base offset, leader epoch, then everything behind the attributes. */
    assert_memory_equal(left.data, right.data, 8);
    assert_memory_equal(left.data + 12, right.data + 12, 5);
    assert_memory_equal(left.data + 23, right.data + 23, BATCH_HEADER_SIZE - 23);
    assert_int_equal(a.attributes & ~BATCH_CODEC_MASK, b.attributes & ~BATCH_CODEC_MASK);
    free(a_records);
    free(b_records);
}

static void any_codec_becomes_any_other_and_the_records_stay(void **state)
{
    uint8_t buffer[BUFFER_SIZE];
    struct bytes plain = build(buffer);
    for (enum codec from = CODEC_NONE; from < CODEC_COUNT; from++) {
        struct batch_rules first = rules_for(from, INT32_MIN);
        struct batch_admitted sent = admit(plain, &first);
        for (enum codec to = CODEC_NONE; to < CODEC_COUNT; to++) {
            struct batch_rules rules = rules_for(to, INT32_MIN);
            struct batch_admitted kept = admit(sent.bytes, &rules);
            /* The same codec: the producer's own bytes, whatever the level. */
            assert_int_equal(kept.rewritten == NULL, from == to);
            assert_int_equal(kept.bytes.data == sent.bytes.data, from == to);
            assert_int_equal(kept.header.attributes & BATCH_CODEC_MASK, to);
            assert_int_equal(kept.header.size, kept.bytes.size);
            assert_same_records(kept.bytes, plain);
            free(kept.rewritten);
        }
        struct batch_admitted untouched = admit(sent.bytes, &as_sent);
        assert_null(untouched.rewritten);
        free(sent.rewritten);
    }
}

static void levels_are_kafkas(void **state)
{
    static const struct {
        enum codec codec;
        int level;
    } cases[] = {{CODEC_GZIP, -1}, {CODEC_GZIP, 1},  {CODEC_GZIP, 9},       {CODEC_LZ4, 1},
                 {CODEC_LZ4, 9},   {CODEC_LZ4, 17},  {CODEC_ZSTD, -131072}, {CODEC_ZSTD, 0},
                 {CODEC_ZSTD, 3},  {CODEC_ZSTD, 22}, {CODEC_SNAPPY, 5}};
    uint8_t buffer[BUFFER_SIZE];
    struct bytes plain = build(buffer);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct batch_rules rules = rules_for(cases[i].codec, cases[i].level);
        struct batch_admitted kept = admit(plain, &rules);
        assert_same_records(kept.bytes, plain);
        free(kept.rewritten);
    }
    /* A level does something. */
    struct batch_rules quick = rules_for(CODEC_ZSTD, -131072);
    struct batch_rules small = rules_for(CODEC_ZSTD, 22);
    struct batch_admitted a = admit(plain, &quick);
    struct batch_admitted b = admit(plain, &small);
    assert_true(b.bytes.size < a.bytes.size);
    free(a.rewritten);
    free(b.rewritten);
}

static void a_batch_may_be_too_large_only_when_it_is_rewritten(void **state)
{
    uint8_t buffer[BUFFER_SIZE];
    struct bytes plain = build(buffer);
    struct batch_rules zstd = rules_for(CODEC_ZSTD, INT32_MIN);
    struct batch_admitted small = admit(plain, &zstd);
    struct batch_rules tight = rules_for(CODEC_NONE, INT32_MIN);
    struct batch_admitted refused;
    struct batch_fault fault;
    tight.size_max = plain.size - 1;
    assert_true(small.bytes.size <= tight.size_max);
    assert_int_equal(batch_admit(small.bytes, &tight, &refused, &fault), KAFKA_MESSAGE_TOO_LARGE);
    assert_null(refused.rewritten);
    assert_false(fault.opened_too_large);
    tight.size_max = plain.size;
    struct batch_admitted kept = admit(small.bytes, &tight);
    assert_int_equal(kept.bytes.size, plain.size);
    free(kept.rewritten);
    free(small.rewritten);
}

/* A producer can claim any max timestamp; time indexes are built on it. */
static void the_max_timestamp_is_that_of_the_records(void **state)
{
    uint8_t buffer[BUFFER_SIZE];
    struct bytes plain = build(buffer);
    struct batch_header header;
    assert_true(status_is_ok(batch_header_read(plain, &header)));
    header.max_timestamp = NOW + 5000;
    batch_set_times(buffer, &header);
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        struct batch_rules rules = rules_for(codec, INT32_MIN);
        struct batch_admitted kept = admit(plain, &rules);
        assert_true(kept.header.max_timestamp == NOW);
        /* What is written anew is right at once; what is kept the caller corrects in a copy. */
        assert_int_equal(batch_times_differ(kept.bytes.data, &kept.header), codec == CODEC_NONE);
        free(kept.rewritten);
    }
    header.max_timestamp = NOW;
    batch_set_times(buffer, &header);
    struct batch_admitted kept = admit(plain, &as_sent);
    assert_false(batch_times_differ(kept.bytes.data, &kept.header));
}

static void the_clock_of_the_broker_is_the_time_of_all_records(void **state)
{
    uint8_t buffer[BUFFER_SIZE];
    struct bytes plain = build(buffer);
    struct batch_rules rules = rules_for(CODEC_LZ4, INT32_MIN);
    struct batch_admitted kept = admit(plain, &rules);
    kept.header.attributes = (int16_t)(kept.header.attributes | BATCH_LOG_APPEND_TIME);
    kept.header.max_timestamp = NOW + 99;
    batch_set_times(kept.rewritten, &kept.header);
    struct batch_header header;
    size_t size;
    uint8_t *records = opened(kept.bytes, &header, &size);
    assert_int_equal(header.crc, kept.header.crc);
    assert_int_equal(header.attributes, BATCH_LOG_APPEND_TIME | CODEC_LZ4);
    struct record_iterator it;
    struct record record;
    record_iterator_init(&it, &header, (struct bytes){records, (uint32_t)size});
    for (int i = 0; i < RECORD_COUNT; i++) {
        assert_true(status_is_ok(record_iterator_next(&it, &record)));
        assert_true(record.timestamp == NOW + 99);
    }
    free(records);
    free(kept.rewritten);
}

static void what_takes_long_is_heavy(void **state)
{
    static const struct {
        enum codec sent;
        uint32_t size;
        bool recompress;
        enum codec codec;
        bool heavy;
        uint32_t factor;
        size_t opened_size_max;
    } cases[] = {
        {CODEC_NONE, 1 << 20, false, CODEC_NONE, false, 0, 0},
        {CODEC_NONE, 1 << 20, true, CODEC_NONE, false, 0, 0},
        {CODEC_NONE, 1 << 20, true, CODEC_GZIP, true, 8, 8 << 10},
        {CODEC_NONE, 1 << 10, true, CODEC_GZIP, false, 8, 8 << 10},
        {CODEC_GZIP, 1 << 20, false, CODEC_NONE, true, 1, 256 << 10},
        {CODEC_GZIP, 1 << 15, false, CODEC_NONE, false, 1, 256 << 10},
        {CODEC_GZIP, 1 << 15, true, CODEC_GZIP, false, 1, 256 << 10},
        {CODEC_GZIP, 1 << 15, true, CODEC_NONE, false, 1, 256 << 10},
        {CODEC_GZIP, 1 << 15, true, CODEC_ZSTD, true, 8, 8 << 10},
        {CODEC_GZIP, 1 << 10, true, CODEC_ZSTD, false, 8, 8 << 10},
        {CODEC_GZIP, 60, true, CODEC_ZSTD, false, 0, 0}, /* no header */
    };
    uint8_t *batch = calloc(1, 1 << 20);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct batch_rules rules = as_sent;
        rules.recompress = cases[i].recompress;
        rules.codec = cases[i].codec;
        store_be16(batch + 21, (uint16_t)cases[i].sent);
        struct batch_work work = batch_work_of((struct bytes){batch, cases[i].size}, &rules);
        assert_int_equal(work.is_heavy, cases[i].heavy);
        assert_int_equal(work.factor, cases[i].factor);
        assert_int_equal(work.opened_size_max, cases[i].opened_size_max);
    }
    free(batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_codec_becomes_any_other_and_the_records_stay),
        cmocka_unit_test(levels_are_kafkas),
        cmocka_unit_test(a_batch_may_be_too_large_only_when_it_is_rewritten),
        cmocka_unit_test(the_max_timestamp_is_that_of_the_records),
        cmocka_unit_test(the_clock_of_the_broker_is_the_time_of_all_records),
        cmocka_unit_test(what_takes_long_is_heavy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
