/* Bytes written by Kafka's own client library (Golden.java) are read as it meant them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "golden_vectors.h"
#include "twinlog/core/arena.h"
#include "twinlog/protocol/batch.h"
#include "twinlog/protocol/messages.h"

static uint8_t hex_digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* The caller frees it. */
static struct bytes from_hex(const char *hex)
{
    uint32_t size = (uint32_t)strlen(hex) / 2;
    uint8_t *data = malloc(size);
    for (uint32_t i = 0; i < size; i++, hex += 2) {
        data[i] = (uint8_t)(hex_digit(hex[0]) << 4 | hex_digit(hex[1]));
    }
    return (struct bytes){data, size};
}

static void release(struct bytes view)
{
    free((void *)(uintptr_t)view.data);
}

static const struct uuid topic_id = {{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x7e, 0xdc,
                                      0xba, 0x98, 0x76, 0x54, 0x32, 0x10}};

struct vector {
    int16_t version;
    const char *hex;
};

/* Decodes, and checks that encoding gives the very same bytes. `bytes` must outlive the message. */
static void decode_and_encode(const struct message_type *type, int16_t version, struct bytes bytes,
                              struct arena *arena, void *message)
{
    assert_true(status_is_ok(message_decode(type, version, bytes, arena, message)));
    uint32_t size;
    assert_true(status_is_ok(message_size(type, version, message, &size)));
    assert_int_equal(size, bytes.size);
    uint8_t *buffer = malloc(size);
    struct message_writer writer = {.buffer = buffer, .capacity = size};
    assert_true(status_is_ok(message_encode(type, version, message, &writer)));
    assert_memory_equal(buffer, bytes.data, size);
    free(buffer);
}

static void check_records(struct bytes records)
{
    struct bytes expected = from_hex(GOLDEN_BATCH_NONE);
    assert_true(bytes_equal(records, expected));
    release(expected);
}

static void produce_requests(void **state)
{
    static const struct vector vectors[] = {{3, GOLDEN_PRODUCE_REQUEST_V3},
                                            {8, GOLDEN_PRODUCE_REQUEST_V8},
                                            {9, GOLDEN_PRODUCE_REQUEST_V9},
                                            {13, GOLDEN_PRODUCE_REQUEST_V13}};
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        int16_t version = vectors[i].version;
        struct bytes bytes = from_hex(vectors[i].hex);
        struct arena arena;
        arena_init(&arena, 1 << 20);
        struct produce_request request;
        decode_and_encode(&produce_request_type, version, bytes, &arena, &request);
        assert_true(bytes_is_null(request.transactional_id));
        assert_int_equal(request.acks, -1);
        assert_int_equal(request.timeout_ms, 30000);
        assert_int_equal(request.topic_data_count, 1);
        const struct produce_request_topic_produce_data *topic = &request.topic_data[0];
        assert_true(bytes_equal(topic->name, bytes_of(version < 13 ? "orders" : "")));
        assert_int_equal(uuid_equal(&topic->topic_id, &topic_id), version >= 13);
        assert_int_equal(topic->partition_data_count, 1);
        assert_int_equal(topic->partition_data[0].index, 5);
        check_records(topic->partition_data[0].records);
        arena_fini(&arena);
        release(bytes);
    }
}

static void produce_responses(void **state)
{
    static const struct vector vectors[] = {{3, GOLDEN_PRODUCE_RESPONSE_V3},
                                            {8, GOLDEN_PRODUCE_RESPONSE_V8},
                                            {10, GOLDEN_PRODUCE_RESPONSE_V10}};
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        int16_t version = vectors[i].version;
        struct bytes bytes = from_hex(vectors[i].hex);
        struct arena arena;
        arena_init(&arena, 1 << 20);
        struct produce_response response;
        decode_and_encode(&produce_response_type, version, bytes, &arena, &response);
        const struct produce_response_partition_produce_response *partition =
            &response.responses[0].partition_responses[0];
        assert_int_equal(response.throttle_time_ms, 9);
        assert_int_equal(partition->error_code, KAFKA_INVALID_RECORD);
        assert_int_equal(partition->base_offset, 42);
        assert_int_equal(partition->log_append_time_ms, -1);
        assert_int_equal(partition->log_start_offset, version >= 5 ? 7 : -1);
        assert_int_equal(partition->record_errors_count, version >= 8);
        assert_int_equal(partition->current_leader.leader_epoch, version >= 10 ? 6 : -1);
        assert_int_equal(response.node_endpoints_count, version >= 10);
        if (version >= 10) {
            assert_true(bytes_equal(response.node_endpoints[0].host, bytes_of("b")));
            assert_true(bytes_is_null(response.node_endpoints[0].rack));
            assert_true(bytes_equal(partition->record_errors[0].batch_index_error_message,
                                    bytes_of("no key")));
        }
        arena_fini(&arena);
        release(bytes);
    }
}

static void fetch_requests(void **state)
{
    static const struct vector vectors[] = {{4, GOLDEN_FETCH_REQUEST_V4},
                                            {11, GOLDEN_FETCH_REQUEST_V11},
                                            {12, GOLDEN_FETCH_REQUEST_V12},
                                            {18, GOLDEN_FETCH_REQUEST_V18}};
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        int16_t version = vectors[i].version;
        struct bytes bytes = from_hex(vectors[i].hex);
        struct arena arena;
        arena_init(&arena, 1 << 20);
        struct fetch_request request;
        decode_and_encode(&fetch_request_type, version, bytes, &arena, &request);
        const struct fetch_request_fetch_partition *partition = &request.topics[0].partitions[0];
        assert_int_equal(request.max_wait_ms, 500);
        assert_int_equal(request.max_bytes, 50 << 20);
        assert_int_equal(request.isolation_level, 1);
        assert_int_equal(request.session_epoch, version >= 11 ? 3 : -1);
        assert_true(bytes_equal(request.rack_id, bytes_of(version >= 11 ? "r1" : "")));
        assert_true(bytes_equal(request.cluster_id, version >= 12 ? bytes_of("c1") : BYTES_NULL));
        assert_int_equal(partition->partition, 5);
        assert_int_equal(partition->current_leader_epoch, version >= 12 ? 4 : -1);
        assert_int_equal(partition->fetch_offset, 1000);
        assert_int_equal(partition->partition_max_bytes, 1 << 20);
        assert_true(partition->high_watermark == INT64_MAX);
        arena_fini(&arena);
        release(bytes);
    }
}

static void fetch_responses(void **state)
{
    static const struct vector vectors[] = {{4, GOLDEN_FETCH_RESPONSE_V4},
                                            {12, GOLDEN_FETCH_RESPONSE_V12},
                                            {18, GOLDEN_FETCH_RESPONSE_V18}};
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        int16_t version = vectors[i].version;
        struct bytes bytes = from_hex(vectors[i].hex);
        struct arena arena;
        arena_init(&arena, 1 << 20);
        struct fetch_response response;
        decode_and_encode(&fetch_response_type, version, bytes, &arena, &response);
        const struct fetch_response_partition_data *partition =
            &response.responses[0].partitions[0];
        assert_int_equal(partition->high_watermark, 1003);
        assert_int_equal(partition->aborted_transactions_count, -1);
        assert_int_equal(partition->diverging_epoch.end_offset, version >= 12 ? 900 : -1);
        assert_int_equal(partition->snapshot_id.epoch, -1);
        assert_int_equal(response.node_endpoints_count, version >= 16);
        check_records(partition->records);
        arena_fini(&arena);
        release(bytes);
    }
}

static void request_headers(void **state)
{
    static const struct vector vectors[] = {{3, GOLDEN_HEADER_PRODUCE_V3},
                                            {8, GOLDEN_HEADER_PRODUCE_V8},
                                            {9, GOLDEN_HEADER_PRODUCE_V9},
                                            {13, GOLDEN_HEADER_PRODUCE_V13}};
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        struct bytes bytes = from_hex(vectors[i].hex);
        struct request_header header;
        assert_true(status_is_ok(request_header_decode(bytes, &header)));
        assert_int_equal(header.api_key, API_PRODUCE);
        assert_int_equal(header.api_version, vectors[i].version);
        assert_int_equal(header.correlation_id, 77);
        assert_true(bytes_equal(header.client_id, bytes_of("golden")));
        assert_int_equal(header.size, bytes.size);
        release(bytes);
    }
}

/* The three records of Golden.java. */
static void check_iteration(const struct batch_header *header, struct bytes records)
{
    struct record_iterator it;
    struct record record;
    record_iterator_init(&it, header, records);
    assert_true(status_is_ok(record_iterator_next(&it, &record)));
    assert_int_equal(record.offset, 0);
    assert_true(record.timestamp == 1700000000000);
    assert_true(bytes_equal(record.key, bytes_of("key")));
    assert_true(bytes_equal(record.value, bytes_of("value")));
    assert_int_equal(record.headers_size, 8);
    assert_int_equal(record.headers[0], 4);
    assert_true(status_is_ok(record_iterator_next(&it, &record)));
    assert_int_equal(record.offset, 1);
    assert_true(record.timestamp == 1700000000123);
    assert_true(bytes_is_null(record.key));
    assert_int_equal(record.value.size, 300);
    assert_true(status_is_ok(record_iterator_next(&it, &record)));
    assert_int_equal(record.offset, 2);
    assert_true(record.timestamp == 1699999999000);
    assert_true(bytes_equal(record.key, bytes_of("gone")));
    assert_true(bytes_is_null(record.value));
    assert_int_equal(record_iterator_next(&it, &record).code, STATUS_NOT_FOUND);
}

static void batches_of_every_codec(void **state)
{
    static const char *const hex[CODEC_COUNT] = {GOLDEN_BATCH_NONE, GOLDEN_BATCH_GZIP,
                                                 GOLDEN_BATCH_SNAPPY, GOLDEN_BATCH_LZ4,
                                                 GOLDEN_BATCH_ZSTD};
    const struct batch_rules rules = {.size_max = 1 << 20,
                                      .opened_size_max = 1 << 20,
                                      .now_ms = 1700000000000,
                                      .timestamp_before_max = INT64_MAX,
                                      .timestamp_after_max = 3600000};
    for (size_t codec = 0; codec < CODEC_COUNT; codec++) {
        struct bytes batch = from_hex(hex[codec]);
        struct batch_header header;
        struct batch_fault fault;
        assert_int_equal(batch_validate(batch, &rules, &header, &fault), KAFKA_NONE);
        assert_null(fault.message);
        assert_int_equal(header.attributes, codec);
        assert_int_equal(header.producer_id, 4711);
        assert_int_equal(header.producer_epoch, 3);
        assert_int_equal(header.base_sequence, 12);
        assert_int_equal(header.record_count, 3);
        assert_true(header.max_timestamp == 1700000000123);
        uint8_t *records;
        size_t size;
        assert_true(status_is_ok(batch_decompress(batch.data, &header, 1 << 20, &records, &size)));
        check_iteration(&header, (struct bytes){records, (uint32_t)size});
        free(records);
        release(batch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(produce_requests), cmocka_unit_test(produce_responses),
        cmocka_unit_test(fetch_requests),   cmocka_unit_test(fetch_responses),
        cmocka_unit_test(request_headers),  cmocka_unit_test(batches_of_every_codec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
