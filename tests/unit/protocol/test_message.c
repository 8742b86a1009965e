#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "twinlog/protocol/kafka_error.h"
#include "twinlog/protocol/messages.h"

static void every_api_is_found_by_its_key(void **state)
{
    size_t count;
    const struct api *apis = api_all(&count);
    assert_int_equal(count, 19);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(api_find(apis[i].key), &apis[i]);
        assert_true(i == 0 || apis[i - 1].key < apis[i].key);
        assert_true(apis[i].version_min <= apis[i].version_max);
        assert_true(apis[i].version_min_advertised <= apis[i].version_min);
    }
    static const int16_t absent[] = {-1, 4, 5, 1000, INT16_MAX, INT16_MIN};
    for (size_t i = 0; i < COUNT_OF(absent); i++) {
        assert_null(api_find(absent[i]));
    }
}

/* As a Kafka 4.2 broker advertises them. */
static void versions_are_those_of_kafka(void **state)
{
    static const struct {
        int16_t key;
        int16_t min_advertised;
        int16_t min;
        int16_t max;
        const char *name;
    } expected[] = {
        {API_PRODUCE, 0, 3, 13, "Produce"},
        {API_FETCH, 4, 4, 18, "Fetch"},
        {API_LIST_OFFSETS, 1, 1, 11, "ListOffsets"},
        {API_METADATA, 0, 0, 13, "Metadata"},
        {API_FIND_COORDINATOR, 0, 0, 6, "FindCoordinator"},
        {API_API_VERSIONS, 0, 0, 4, "ApiVersions"},
        {API_CREATE_TOPICS, 2, 2, 7, "CreateTopics"},
        {API_DELETE_TOPICS, 1, 1, 6, "DeleteTopics"},
        {API_INIT_PRODUCER_ID, 0, 0, 5, "InitProducerId"},
        {API_DESCRIBE_CONFIGS, 1, 1, 4, "DescribeConfigs"},
        {API_CREATE_PARTITIONS, 0, 0, 3, "CreatePartitions"},
        {API_DESCRIBE_CLUSTER, 0, 0, 2, "DescribeCluster"},
    };
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        const struct api *api = api_find(expected[i].key);
        assert_non_null(api);
        assert_int_equal(api->version_min_advertised, expected[i].min_advertised);
        assert_int_equal(api->version_min, expected[i].min);
        assert_int_equal(api->version_max, expected[i].max);
        assert_string_equal(api->name, expected[i].name);
    }
    assert_string_equal(message_type_name(&produce_request_type), "ProduceRequest");
    assert_int_equal(message_type_size(&produce_request_type), sizeof(struct produce_request));
    assert_string_equal(message_type_name(&topic_record_type), "TopicRecord");
}

static void response_headers_carry_tags_from_the_flexible_version_on(void **state)
{
    assert_int_equal(api_response_header_version(api_find(API_PRODUCE), 8), 0);
    assert_int_equal(api_response_header_version(api_find(API_PRODUCE), 9), 1);
    assert_int_equal(api_response_header_version(api_find(API_API_VERSIONS), 4), 0);
    assert_int_equal(api_response_header_version(api_find(API_DESCRIBE_CLUSTER), 0), 1);
}

struct header_case {
    uint8_t bytes[24];
    uint32_t size;
    enum status_code code;
    uint32_t header_size;
};

static void request_headers_are_read_leniently(void **state)
{
    static const struct header_case cases[] = {
        /* Produce 3, null client id, no tags. */
        {{0, 0, 0, 3, 0, 0, 0, 9, 0xff, 0xff}, 10, STATUS_OK, 10},
        /* Produce 9, empty client id, no tags. */
        {{0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0}, 11, STATUS_OK, 11},
        /* Produce 9 with an unknown tag 200 of two bytes. */
        {{0, 0, 0, 9, 0, 0, 0, 9, 0, 1, 'c', 1, 0xc8, 1, 2, 7, 7}, 17, STATUS_OK, 17},
        /* ApiVersions 99: read as version 1, whatever follows. */
        {{0, 18, 0, 99, 0, 0, 0, 9, 0, 1, 'c', 0xff, 0xff}, 13, STATUS_OK, 11},
        /* A key that nobody has. */
        {{3, 232, 0, 0, 0, 0, 0, 9, 0xff, 0xff, 1, 2}, 12, STATUS_OK, 10},
        {{0, 0, 0, 3, 0, 0, 0, 9, 0xff}, 9, STATUS_TRUNCATED, 0},
        {{0, 0, 0, 3, 0, 0, 0, 9, 0, 5, 'c'}, 11, STATUS_TRUNCATED, 0},
        {{0, 0, 0, 9, 0, 0, 0, 9, 0, 0}, 10, STATUS_TRUNCATED, 0},
        {{0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 1, 5, 9}, 13, STATUS_TRUNCATED, 0},
        {{0, 0, 0, 3, 0, 0, 0, 9, 0xff, 0xfe}, 10, STATUS_INVALID, 0},
        {{0xff, 0xff, 0, 3, 0, 0, 0, 9, 0xff, 0xff}, 10, STATUS_INVALID, 0},
        {{0, 0, 0xff, 0xff, 0, 0, 0, 9, 0xff, 0xff}, 10, STATUS_INVALID, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint8_t *copy = malloc(cases[i].size);
        memcpy(copy, cases[i].bytes, cases[i].size);
        struct request_header header;
        status result = request_header_decode((struct bytes){copy, cases[i].size}, &header);
        assert_int_equal(result.code, cases[i].code);
        if (result.code == STATUS_OK) {
            assert_int_equal(header.correlation_id, 9);
            assert_int_equal(header.size, cases[i].header_size);
        }
        free(copy);
    }
    struct request_header header;
    assert_int_equal(request_header_decode(BYTES_NULL, &header).code, STATUS_TRUNCATED);
}

static void errors_have_kafkas_names_and_numbers(void **state)
{
    static const struct {
        enum kafka_error error;
        int number;
        const char *name;
    } cases[] = {
        {KAFKA_UNKNOWN_SERVER_ERROR, -1, "UNKNOWN_SERVER_ERROR"},
        {KAFKA_NONE, 0, "NONE"},
        {KAFKA_CORRUPT_MESSAGE, 2, "CORRUPT_MESSAGE"},
        {KAFKA_UNSUPPORTED_VERSION, 35, "UNSUPPORTED_VERSION"},
        {KAFKA_STORAGE_ERROR, 56, "KAFKA_STORAGE_ERROR"},
        {KAFKA_INVALID_RECORD, 87, "INVALID_RECORD"},
        {KAFKA_UNKNOWN_TOPIC_ID, 100, "UNKNOWN_TOPIC_ID"},
        {KAFKA_SHARE_SESSION_LIMIT_REACHED, 133, "SHARE_SESSION_LIMIT_REACHED"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(cases[i].error, cases[i].number);
        assert_string_equal(kafka_error_name(cases[i].error), cases[i].name);
    }
    for (int number = -1; number <= 133; number++) {
        assert_true(kafka_error_text((enum kafka_error)number)[0] != '\0');
        assert_int_equal(
            strcmp(kafka_error_name((enum kafka_error)number), "UNKNOWN_SERVER_ERROR") == 0,
            number == -1);
    }
    assert_string_equal(kafka_error_name((enum kafka_error)5000), "UNKNOWN_SERVER_ERROR");
    assert_string_equal(kafka_error_text((enum kafka_error)5000),
                        kafka_error_text(KAFKA_UNKNOWN_SERVER_ERROR));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_api_is_found_by_its_key),
        cmocka_unit_test(versions_are_those_of_kafka),
        cmocka_unit_test(response_headers_carry_tags_from_the_flexible_version_on),
        cmocka_unit_test(request_headers_are_read_leniently),
        cmocka_unit_test(errors_have_kafkas_names_and_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
