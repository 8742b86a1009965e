#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "twinlog/core/crc32c.h"
#include "twinlog/protocol/batch.h"

#define NOW 1700000000000

/* Two records with keys, ten milliseconds apart. */
struct fixture {
    uint8_t buffer[1024];
    uint32_t size;
};

#define OPENED_SIZE_MAX (1u << 20)

static const struct batch_rules open_rules = {.size_max = 1024,
                                              .opened_size_max = OPENED_SIZE_MAX,
                                              .now_ms = NOW,
                                              .timestamp_before_max = INT64_MAX,
                                              .timestamp_after_max = INT64_MAX};

static void build(struct fixture *f)
{
    struct batch_builder builder;
    batch_builder_init(&builder, f->buffer, sizeof(f->buffer));
    assert_true(status_is_ok(batch_builder_add(&builder, NOW, bytes_of("k1"), bytes_of("value"))));
    assert_true(
        status_is_ok(batch_builder_add(&builder, NOW + 10, bytes_of("k2"), bytes_of("other"))));
    f->size = batch_builder_finish(&builder, 5, 1, 0, 0).size;
}

/* Builds a batch around raw record bytes. */
static void build_around(struct fixture *f, const void *records, uint32_t size, int32_t count,
                         int16_t attributes)
{
    build(f);
    memcpy(f->buffer + BATCH_HEADER_SIZE, records, size);
    f->size = BATCH_HEADER_SIZE + size;
    store_be32(f->buffer + 8, f->size - BATCH_LENGTH_OFFSET);
    store_be16(f->buffer + 21, (uint16_t)attributes);
    store_be32(f->buffer + 23, (uint32_t)(count - 1));
    store_be32(f->buffer + 57, (uint32_t)count);
}

static void seal(struct fixture *f)
{
    store_be32(f->buffer + 17, crc32c(0, f->buffer + 21, f->size - 21));
}

static enum kafka_error validate(const struct fixture *f, const struct batch_rules *rules,
                                 struct batch_fault *fault)
{
    struct batch_header header;
    /* A copy of its own, so that the sanitizer sees a read behind the end. */
    uint8_t *copy = malloc(f->size + (f->size == 0));
    memcpy(copy, f->buffer, f->size);
    enum kafka_error error = batch_validate((struct bytes){copy, f->size}, rules, &header, fault);
    free(copy);
    assert_int_equal(error == KAFKA_NONE, fault->message == NULL);
    return error;
}

static void a_built_batch_is_valid_and_reads_back(void **state)
{
    struct fixture f;
    struct batch_fault fault;
    build(&f);
    assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_NONE);
    struct batch_header header;
    assert_true(status_is_ok(batch_header_read((struct bytes){f.buffer, f.size}, &header)));
    assert_int_equal(header.size, f.size);
    assert_int_equal(header.record_count, 2);
    assert_int_equal(header.producer_id, 5);
    assert_true(header.max_timestamp == NOW + 10);
    assert_true(batch_crc_is_valid(f.buffer, &header));
    batch_stamp(f.buffer, 1000, 7);
    assert_true(status_is_ok(batch_header_read((struct bytes){f.buffer, f.size}, &header)));
    assert_int_equal(header.base_offset, 1000);
    assert_int_equal(header.leader_epoch, 7);
    assert_true(batch_crc_is_valid(f.buffer, &header));
    struct record_iterator it;
    struct record record;
    record_iterator_init(&it, &header,
                         (struct bytes){f.buffer + BATCH_HEADER_SIZE, f.size - BATCH_HEADER_SIZE});
    assert_true(status_is_ok(record_iterator_next(&it, &record)));
    assert_true(status_is_ok(record_iterator_next(&it, &record)));
    assert_int_equal(record.offset, 1001);
    assert_true(record.timestamp == NOW + 10);
    assert_true(bytes_equal(record.value, bytes_of("other")));
    assert_int_equal(record_iterator_next(&it, &record).code, STATUS_NOT_FOUND);
}

static void a_header_is_truncated_or_invalid_at_any_cut(void **state)
{
    struct fixture f;
    build(&f);
    struct batch_header header;
    for (uint32_t size = 0; size < f.size; size++) {
        uint8_t *copy = malloc(size + (size == 0));
        memcpy(copy, f.buffer, size);
        assert_int_equal(batch_header_read((struct bytes){copy, size}, &header).code,
                         STATUS_TRUNCATED);
        free(copy);
    }
    for (uint32_t length = 0; length < 49; length++) {
        store_be32(f.buffer + 8, length);
        assert_int_equal(batch_header_read((struct bytes){f.buffer, f.size}, &header).code,
                         STATUS_INVALID);
    }
    store_be32(f.buffer + 8, UINT32_MAX);
    assert_int_equal(batch_header_read((struct bytes){f.buffer, f.size}, &header).code,
                     STATUS_INVALID);
}

struct header_case {
    uint32_t at;
    unsigned width; /* bytes written, big-endian */
    uint64_t value;
    bool seal;
    enum kafka_error error;
};

static void a_header_that_kafka_refuses_is_refused(void **state)
{
    static const struct header_case cases[] = {
        {0, 8, 1, true, KAFKA_INVALID_RECORD},           /* base offset */
        {8, 4, 10, true, KAFKA_CORRUPT_MESSAGE},         /* length below a header's */
        {8, 4, 5000, true, KAFKA_INVALID_RECORD},        /* longer than the request */
        {8, 4, UINT32_MAX, true, KAFKA_CORRUPT_MESSAGE}, /* negative length */
        {12, 4, 9, false, KAFKA_NONE},                   /* leader epoch: outside the CRC */
        {16, 1, 0, true, KAFKA_INVALID_RECORD},          /* old magic */
        {16, 1, 1, true, KAFKA_INVALID_RECORD},          /* old magic */
        {16, 1, 3, true, KAFKA_CORRUPT_MESSAGE},         /* unknown magic */
        {17, 4, 12345, false, KAFKA_CORRUPT_MESSAGE},    /* CRC */
        {35, 8, NOW, false, KAFKA_CORRUPT_MESSAGE},      /* a field the CRC covers */
        {21, 2, 5, true, KAFKA_UNSUPPORTED_COMPRESSION_TYPE},
        {21, 2, BATCH_CONTROL, true, KAFKA_INVALID_RECORD},
        {21, 2, BATCH_LOG_APPEND_TIME, true, KAFKA_INVALID_TIMESTAMP},
        {21, 2, BATCH_TRANSACTIONAL, true, KAFKA_NONE},
        {23, 4, 0, true, KAFKA_INVALID_RECORD}, /* last offset delta */
        {23, 4, UINT32_MAX, true, KAFKA_INVALID_RECORD},
        {53, 4, UINT32_MAX, true, KAFKA_INVALID_RECORD}, /* producer id, no sequence */
        {57, 4, 0, true, KAFKA_INVALID_RECORD},          /* record count */
        {57, 4, 3, true, KAFKA_INVALID_RECORD},
        {57, 4, UINT32_MAX, true, KAFKA_INVALID_RECORD},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct fixture f;
        struct batch_fault fault;
        build(&f);
        for (unsigned b = 0; b < cases[i].width; b++) {
            f.buffer[cases[i].at + b] = (uint8_t)(cases[i].value >> (8 * (cases[i].width - 1 - b)));
        }
        if (cases[i].seal) {
            seal(&f);
        }
        assert_int_equal(validate(&f, &open_rules, &fault), cases[i].error);
        assert_int_equal(fault.record_index, -1);
    }
}

static void the_bounds_of_record_counts_do_not_overflow(void **state)
{
    struct fixture f;
    struct batch_fault fault;
    build(&f);
    store_be32(f.buffer + 23, INT32_MAX);
    store_be32(f.buffer + 57, (uint32_t)INT32_MIN);
    seal(&f);
    assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_INVALID_RECORD);
    store_be32(f.buffer + 23, INT32_MAX - 1);
    store_be32(f.buffer + 57, INT32_MAX);
    seal(&f);
    assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_INVALID_RECORD);
    assert_int_equal(fault.record_index, 2);
}

static void a_request_holds_exactly_one_batch(void **state)
{
    struct fixture f;
    struct batch_fault fault;
    build(&f);
    memcpy(f.buffer + f.size, f.buffer, f.size);
    uint32_t size = f.size;
    f.size = 2 * size;
    assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_INVALID_RECORD);
    f.size = size + 1;
    assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_INVALID_RECORD);
    f.size = 0;
    assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_INVALID_RECORD);
    struct batch_header header;
    assert_int_equal(batch_validate(BYTES_NULL, &open_rules, &header, &fault),
                     KAFKA_INVALID_RECORD);
}

static void rules_of_the_topic_are_kept(void **state)
{
    struct fixture f;
    struct batch_fault fault;
    build(&f);
    struct batch_rules rules = open_rules;
    rules.size_max = f.size;
    assert_int_equal(validate(&f, &rules, &fault), KAFKA_NONE);
    rules.size_max = f.size - 1;
    assert_int_equal(validate(&f, &rules, &fault), KAFKA_MESSAGE_TOO_LARGE);
    rules = open_rules;
    rules.idempotence_only = true;
    assert_int_equal(validate(&f, &rules, &fault), KAFKA_NONE);
    store_be16(f.buffer + 21, BATCH_TRANSACTIONAL);
    seal(&f);
    assert_int_equal(validate(&f, &rules, &fault), KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    store_be64(f.buffer + 43, UINT64_MAX);
    seal(&f);
    assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_INVALID_RECORD);
}

static void timestamps_outside_the_bounds_name_their_record(void **state)
{
    static const struct {
        int64_t now;
        int64_t before;
        int64_t after;
        int32_t record_index;
        enum kafka_error error;
    } cases[] = {
        {NOW + 10, 10, 0, -1, KAFKA_NONE},
        {NOW + 10, 9, 0, 0, KAFKA_INVALID_TIMESTAMP},
        {NOW, INT64_MAX, 10, -1, KAFKA_NONE},
        {NOW, INT64_MAX, 9, 1, KAFKA_INVALID_TIMESTAMP},
        {INT64_MIN, INT64_MAX, INT64_MAX, 0, KAFKA_INVALID_TIMESTAMP},
        {INT64_MAX, INT64_MAX, 0, -1, KAFKA_NONE},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct fixture f;
        struct batch_fault fault;
        struct batch_rules rules = open_rules;
        build(&f);
        rules.now_ms = cases[i].now;
        rules.timestamp_before_max = cases[i].before;
        rules.timestamp_after_max = cases[i].after;
        assert_int_equal(validate(&f, &rules, &fault), cases[i].error);
        assert_int_equal(fault.record_index, cases[i].record_index);
    }
}

/* The max timestamp of the header says one thing, the record another. */
static void a_future_record_behind_a_modest_header_is_found(void **state)
{
    struct fixture f;
    struct batch_fault fault;
    struct batch_rules rules = open_rules;
    build(&f);
    store_be64(f.buffer + 35, NOW);
    seal(&f);
    rules.timestamp_after_max = 9;
    assert_int_equal(validate(&f, &rules, &fault), KAFKA_INVALID_TIMESTAMP);
    assert_int_equal(fault.record_index, 1);
}

static void malformed_records_name_themselves(void **state)
{
    /* Record 0 is good in all: size 7, attributes, deltas 0, key "a", null value, no headers. */
    static const struct {
        uint32_t size;
        uint8_t record[16];
        int32_t record_index;
    } cases[] = {
        {0, {0}, 1},                                  /* nothing there */
        {1, {0x0e}, 1},                               /* a size, and no record */
        {1, {0x01}, 1},                               /* a negative size */
        {1, {0x00}, 1},                               /* a record of no bytes */
        {7, {0x0c, 0, 0, 2, 2, 'a', 1}, 1},           /* cut before the headers */
        {8, {0x0e, 0, 0, 2, 2, 'a', 1, 1}, 1},        /* -1 headers */
        {8, {0x0e, 0, 0, 2, 2, 'a', 1, 2}, 1},        /* one header, and no bytes */
        {8, {0x0e, 0, 0, 2, 3, 'a', 1, 0}, 1},        /* a key of -2 bytes */
        {8, {0x0e, 0, 0, 2, 0x7e, 'a', 1, 0}, 1},     /* a key behind the end */
        {9, {0x10, 0, 0, 2, 2, 'a', 1, 0, 0}, 1},     /* a byte left in the record */
        {10, {0x12, 0, 0, 2, 2, 'a', 1, 2, 1, 1}, 1}, /* a header with a null key */
        {8, {0x0e, 0, 0, 0, 2, 'a', 1, 0}, 1},        /* an offset twice */
        {8, {0x0e, 0, 0, 4, 2, 'a', 1, 0}, 1},        /* an offset skipped */
        {9, {0x0e, 0, 0, 2, 2, 'a', 1, 0, 0}, -1},    /* a byte behind the records */
    };
    static const uint8_t first[] = {0x0e, 0, 0, 0, 2, 'a', 1, 0};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct fixture f;
        struct batch_fault fault;
        uint8_t records[32];
        memcpy(records, first, sizeof(first));
        memcpy(records + sizeof(first), cases[i].record, cases[i].size);
        build_around(&f, records, (uint32_t)sizeof(first) + cases[i].size, 2, 0);
        seal(&f);
        assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_INVALID_RECORD);
        assert_int_equal(fault.record_index, cases[i].record_index);
    }
    struct fixture f;
    struct batch_fault fault;
    static const uint8_t good[] = {0x0e, 0, 0, 0, 2, 'a', 1, 0, 0x0e, 0, 0, 2, 2, 'a', 1, 0};
    build_around(&f, good, sizeof(good), 2, 0);
    seal(&f);
    assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_NONE);
}

static void a_compacted_topic_needs_keys_even_inside_compression(void **state)
{
    static const uint8_t records[] = {0x0e, 0, 0, 0, 2, 'a', 1, 0, 0x0c, 0, 0, 2, 1, 1, 0};
    struct batch_rules compacted = open_rules;
    compacted.compacted = true;
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        struct fixture f;
        struct batch_fault fault;
        uint8_t *small;
        size_t size;
        struct bytes inside = {records, sizeof(records)};
        assert_true(status_is_ok(codec_compress(codec, INT32_MIN, inside, &small, &size)));
        build_around(&f, small, (uint32_t)size, 2, (int16_t)codec);
        seal(&f);
        assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_NONE);
        assert_int_equal(validate(&f, &compacted, &fault), KAFKA_INVALID_RECORD);
        assert_int_equal(fault.record_index, 1);
        f.buffer[BATCH_HEADER_SIZE] ^= 0x55;
        f.buffer[f.size - 1] ^= 0x55;
        seal(&f);
        assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_INVALID_RECORD);
        free(small);
    }
}

/* Consumers could not get past such a batch, so Kafka opens what is compressed; so do we. */
static void faults_inside_compression_are_found(void **state)
{
    static const uint8_t records[] = {0x0e, 0, 0, 0, 2, 'a', 1, 0, 0x0e, 0, 20, 2, 2, 'b', 1, 0};
    struct batch_rules strict = open_rules;
    strict.timestamp_after_max = 9;
    for (enum codec codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        struct fixture f;
        struct batch_fault fault;
        uint8_t *small;
        size_t size;
        struct bytes inside = {records, sizeof(records)};
        assert_true(status_is_ok(codec_compress(codec, INT32_MIN, inside, &small, &size)));
        build_around(&f, small, (uint32_t)size, 2, (int16_t)codec);
        seal(&f);
        assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_NONE);
        assert_int_equal(validate(&f, &strict, &fault), KAFKA_INVALID_TIMESTAMP);
        assert_int_equal(fault.record_index, 1);
        strict.log_append_time = true;
        assert_int_equal(validate(&f, &strict, &fault), KAFKA_NONE);
        strict.log_append_time = false;
        for (int32_t count = 1; count <= 3; count += 2) {
            build_around(&f, small, (uint32_t)size, count, (int16_t)codec);
            seal(&f);
            assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_INVALID_RECORD);
            assert_int_equal(fault.record_index, count == 1 ? -1 : 2);
        }
        build_around(&f, "", 0, 2, (int16_t)codec);
        seal(&f);
        assert_int_equal(validate(&f, &open_rules, &fault), KAFKA_INVALID_RECORD);
        free(small);
    }
}

static void check_explosion(enum codec codec)
{
    struct batch_rules rules = open_rules;
    rules.size_max = 1 << 20;
    uint32_t zeros_size = OPENED_SIZE_MAX + 1;
    struct bytes zeros = {calloc(1, zeros_size), zeros_size};
    uint8_t *small;
    size_t size;
    assert_true(status_is_ok(codec_compress(codec, INT32_MIN, zeros, &small, &size)));
    uint8_t *batch = malloc(BATCH_HEADER_SIZE + size);
    struct fixture f;
    build_around(&f, "", 0, 2, (int16_t)codec);
    memcpy(batch, f.buffer, BATCH_HEADER_SIZE);
    memcpy(batch + BATCH_HEADER_SIZE, small, size);
    uint32_t batch_size = BATCH_HEADER_SIZE + (uint32_t)size;
    store_be32(batch + 8, batch_size - BATCH_LENGTH_OFFSET);
    store_be32(batch + 17, crc32c(0, batch + 21, batch_size - 21));
    struct batch_header header;
    struct batch_fault fault;
    struct bytes view = {batch, batch_size};
    /* Zeros are no records, but that shows only where they are allowed to be opened. */
    rules.opened_size_max = zeros_size;
    assert_int_equal(batch_validate(view, &rules, &header, &fault), KAFKA_INVALID_RECORD);
    assert_false(fault.opened_too_large);
    rules.opened_size_max = OPENED_SIZE_MAX;
    assert_int_equal(batch_validate(view, &rules, &header, &fault), KAFKA_MESSAGE_TOO_LARGE);
    assert_true(fault.opened_too_large);
    rules.zstd_refused = true;
    assert_int_equal(batch_validate(view, &rules, &header, &fault),
                     codec == CODEC_ZSTD ? KAFKA_UNSUPPORTED_COMPRESSION_TYPE
                                         : KAFKA_MESSAGE_TOO_LARGE);
    free(batch);
    free(small);
    free((void *)(uintptr_t)zeros.data);
}

static void a_batch_that_explodes_when_opened_is_too_large(void **state)
{
    for (enum codec codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        check_explosion(codec);
    }
}

static void damage_behind_a_good_checksum_never_crashes(void **state)
{
    uint32_t noise = 7;
    for (int round = 0; round < 50000; round++) {
        struct fixture f;
        struct batch_fault fault;
        build(&f);
        for (int flip = 0; flip < 2; flip++) {
            noise = noise * 1664525 + 1013904223;
            f.buffer[21 + (noise >> 8) % (f.size - 21)] = (uint8_t)(noise >> 24);
        }
        seal(&f);
        (void)validate(&f, &open_rules, &fault);
    }
}

static void a_builder_without_room_is_full_and_keeps_what_it_has(void **state)
{
    for (uint32_t capacity = BATCH_HEADER_SIZE; capacity < BATCH_HEADER_SIZE + 40; capacity++) {
        uint8_t *buffer = malloc(capacity);
        struct batch_builder builder;
        batch_builder_init(&builder, buffer, capacity);
        int32_t added = 0;
        status result;
        while (status_is_ok(result = batch_builder_add(&builder, NOW, BYTES_NULL, bytes_of("v")))) {
            added++;
        }
        assert_int_equal(result.code, STATUS_FULL);
        assert_int_equal(added, (capacity - BATCH_HEADER_SIZE) / 8);
        assert_int_equal(builder.record_count, added);
        if (added > 0) {
            struct batch_header header;
            struct batch_fault fault;
            struct bytes batch = batch_builder_finish(&builder, -1, -1, -1, 0);
            assert_int_equal(batch_validate(batch, &open_rules, &header, &fault), KAFKA_NONE);
        }
        free(buffer);
    }
}

static void timestamps_may_fall_and_span_everything(void **state)
{
    uint8_t buffer[256];
    struct batch_builder builder;
    batch_builder_init(&builder, buffer, sizeof(buffer));
    const int64_t timestamps[] = {INT64_MIN, INT64_MAX, 0, -1};
    for (size_t i = 0; i < COUNT_OF(timestamps); i++) {
        assert_true(
            status_is_ok(batch_builder_add(&builder, timestamps[i], bytes_of(""), BYTES_NULL)));
    }
    struct bytes batch = batch_builder_finish(&builder, -1, -1, -1, 0);
    struct batch_header header;
    assert_true(status_is_ok(batch_header_read(batch, &header)));
    assert_true(header.max_timestamp == INT64_MAX);
    struct record_iterator it;
    struct record record;
    record_iterator_init(
        &it, &header,
        (struct bytes){batch.data + BATCH_HEADER_SIZE, batch.size - BATCH_HEADER_SIZE});
    for (size_t i = 0; i < COUNT_OF(timestamps); i++) {
        assert_true(status_is_ok(record_iterator_next(&it, &record)));
        assert_true(record.timestamp == timestamps[i]);
        assert_true(bytes_equal(record.key, bytes_of("")));
    }
}

static void log_append_time_is_the_time_of_every_record(void **state)
{
    struct fixture f;
    struct batch_header header;
    build(&f);
    store_be16(f.buffer + 21, BATCH_LOG_APPEND_TIME);
    assert_true(status_is_ok(batch_header_read((struct bytes){f.buffer, f.size}, &header)));
    struct record_iterator it;
    struct record record;
    record_iterator_init(&it, &header,
                         (struct bytes){f.buffer + BATCH_HEADER_SIZE, f.size - BATCH_HEADER_SIZE});
    assert_true(status_is_ok(record_iterator_next(&it, &record)));
    assert_true(record.timestamp == NOW + 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_built_batch_is_valid_and_reads_back),
        cmocka_unit_test(a_header_is_truncated_or_invalid_at_any_cut),
        cmocka_unit_test(a_header_that_kafka_refuses_is_refused),
        cmocka_unit_test(the_bounds_of_record_counts_do_not_overflow),
        cmocka_unit_test(a_request_holds_exactly_one_batch),
        cmocka_unit_test(rules_of_the_topic_are_kept),
        cmocka_unit_test(timestamps_outside_the_bounds_name_their_record),
        cmocka_unit_test(a_future_record_behind_a_modest_header_is_found),
        cmocka_unit_test(malformed_records_name_themselves),
        cmocka_unit_test(a_compacted_topic_needs_keys_even_inside_compression),
        cmocka_unit_test(faults_inside_compression_are_found),
        cmocka_unit_test(a_batch_that_explodes_when_opened_is_too_large),
        cmocka_unit_test(damage_behind_a_good_checksum_never_crashes),
        cmocka_unit_test(a_builder_without_room_is_full_and_keeps_what_it_has),
        cmocka_unit_test(timestamps_may_fall_and_span_everything),
        cmocka_unit_test(log_append_time_is_the_time_of_every_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
