/* DescribeTopicPartitions, DescribeLogDirs and DescribeProducers. */
#include "broker_world.h"

static struct describe_topic_partitions_response
describe_page(struct link *link, const char *const *names, int32_t name_count, int32_t limit,
              struct describe_topic_partitions_request_cursor *cursor)
{
    struct describe_topic_partitions_request_topic_request topics[4] = {0};
    struct describe_topic_partitions_request request = describe_topic_partitions_request_default;
    struct describe_topic_partitions_response response;
    for (int32_t i = 0; i < name_count; i++) {
        topics[i].name = bytes_of(names[i]);
    }
    request.topics = topics;
    request.topics_count = name_count;
    request.response_partition_limit = limit;
    request.cursor = cursor;
    link_call(link, API_DESCRIBE_TOPIC_PARTITIONS, 0, &request, &response);
    return response;
}

static void pages_together_are_every_partition_once_and_in_order(void **state)
{
    static const char *const names[] = {"b", "a", "c", "b"};
    struct world *world = world_create(40, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "a", 3), KAFKA_NONE);
    assert_int_equal(create_topic(link, "b", 5), KAFKA_NONE);
    assert_int_equal(create_topic(link, "c", 1), KAFKA_NONE);
    for (int32_t limit = 1; limit <= 10; limit++) {
        for (int32_t name_count = 0; name_count <= 4; name_count += 4) {
            struct describe_topic_partitions_request_cursor cursor;
            struct describe_topic_partitions_request_cursor *from = NULL;
            char seen[64] = "";
            int pages = 0;
            do {
                struct describe_topic_partitions_response page =
                    describe_page(link, names, name_count, limit, from);
                int32_t count = 0;
                for (int32_t i = 0; i < page.topics_count; i++) {
                    assert_int_equal(page.topics[i].error_code, KAFKA_NONE);
                    assert_false(uuid_is_zero(&page.topics[i].topic_id));
                    for (int32_t j = 0; j < page.topics[i].partitions_count; j++) {
                        size_t used = strlen(seen);
                        snprintf(seen + used, sizeof(seen) - used, "%.*s%d",
                                 (int)page.topics[i].name.size, page.topics[i].name.data,
                                 page.topics[i].partitions[j].partition_index);
                        assert_int_equal(page.topics[i].partitions[j].leader_id, 1);
                        count++;
                    }
                }
                assert_true(count <= limit);
                from = page.next_cursor == NULL ? NULL : &cursor;
                if (from != NULL) {
                    cursor.topic_name = page.next_cursor->topic_name;
                    cursor.partition_index = page.next_cursor->partition_index;
                }
                assert_true(++pages <= 10);
            } while (from != NULL);
            assert_string_equal(seen, "a0a1a2b0b1b2b3b4c0");
        }
    }
    world_destroy(world);
}

static void topics_that_are_missing_and_bad_cursors_are_named(void **state)
{
    static const char *const names[] = {"none", "a/b", "a"};
    struct world *world = world_create(41, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "a", 1), KAFKA_NONE);
    struct describe_topic_partitions_response page = describe_page(link, names, 3, 10, NULL);
    assert_int_equal(page.topics_count, 3);
    assert_int_equal(page.topics[0].error_code, KAFKA_NONE);
    assert_int_equal(page.topics[1].error_code, KAFKA_INVALID_TOPIC_EXCEPTION);
    assert_int_equal(page.topics[2].error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    assert_null(page.next_cursor);
    struct describe_topic_partitions_request_cursor bad[] = {{bytes_of("a"), -1},
                                                             {bytes_of("other"), 0}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        page = describe_page(link, names, 3, 10, &bad[i]);
        assert_int_equal(page.topics_count, 3);
        assert_int_equal(page.topics[2].error_code, KAFKA_INVALID_REQUEST);
    }
    world_destroy(world);
}

static void log_dirs_tell_sizes_and_space(void **state)
{
    struct world *world = world_create(42, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 3), KAFKA_NONE);
    assert_int_equal(create_topic(link, "u", 1), KAFKA_NONE);
    struct bytes batch = batch_of(world, 1, 1000, -1, -1);
    assert_int_equal(produce(link, "t", 1, -1, batch).error_code, KAFKA_NONE);
    for (int life = 0; life < 2; life++) {
        int32_t partitions[] = {1, 9};
        struct describe_log_dirs_request_describable_log_dir_topic topics[] = {
            {bytes_of("t"), partitions, 2}, {bytes_of("none"), partitions, 2}};
        struct describe_log_dirs_request request = {topics, 2};
        struct describe_log_dirs_response response;
        link_call(link, API_DESCRIBE_LOG_DIRS, 4, &request, &response);
        assert_int_equal(response.results_count, 1);
        assert_int_equal(response.results[0].error_code, KAFKA_NONE);
        assert_true(bytes_equal(response.results[0].log_dir, bytes_of("/data")));
        assert_true(response.results[0].total_bytes >= response.results[0].usable_bytes);
        assert_true(response.results[0].usable_bytes > 0);
        assert_int_equal(response.results[0].topics_count, 1);
        assert_int_equal(response.results[0].topics[0].partitions_count, 1);
        assert_int_equal(response.results[0].topics[0].partitions[0].partition_size, batch.size);
        request.topics_count = -1;
        link_call(link, API_DESCRIBE_LOG_DIRS, 1, &request, &response);
        assert_int_equal(response.results[0].topics_count, 2);
        world_stop_broker(world);
        world_start_broker(world);
        link = link_open(world, 0);
    }
    world_destroy(world);
}

static void producers_are_told_with_their_last_sequence(void **state)
{
    struct world *world = world_create(43, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 2), KAFKA_NONE);
    for (int i = 0; i < 7; i++) {
        struct bytes batch = batch_of(world, 2, 10, 5, 2 * i);
        assert_int_equal(produce(link, "t", 1, -1, batch).error_code, KAFKA_NONE);
    }
    for (int life = 0; life < 2; life++) {
        int32_t indexes[] = {0, 1, 2};
        struct describe_producers_request_topic_request topics[] = {{bytes_of("t"), indexes, 3},
                                                                    {bytes_of("none"), indexes, 1},
                                                                    {bytes_of(""), indexes, 1}};
        struct describe_producers_request request = {topics, 3};
        struct describe_producers_response response;
        link_call(link, API_DESCRIBE_PRODUCERS, 0, &request, &response);
        assert_int_equal(response.topics_count, 3);
        assert_int_equal(response.topics[0].partitions[0].active_producers_count, 0);
        assert_int_equal(response.topics[0].partitions[1].active_producers_count, 1);
        const struct describe_producers_response_producer_state *producer =
            &response.topics[0].partitions[1].active_producers[0];
        assert_int_equal(producer->producer_id, 5);
        assert_int_equal(producer->producer_epoch, 0);
        assert_int_equal(producer->last_sequence, 13);
        assert_true(producer->last_timestamp > 0);
        assert_int_equal(producer->current_txn_start_offset, -1);
        assert_int_equal(response.topics[0].partitions[2].error_code,
                         KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(response.topics[1].partitions[0].error_code,
                         KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(response.topics[2].partitions[0].error_code,
                         KAFKA_INVALID_TOPIC_EXCEPTION);
        world_stop_broker(world);
        world_start_broker(world);
        link = link_open(world, 0);
    }
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_together_are_every_partition_once_and_in_order),
        cmocka_unit_test(topics_that_are_missing_and_bad_cursors_are_named),
        cmocka_unit_test(log_dirs_tell_sizes_and_space),
        cmocka_unit_test(producers_are_told_with_their_last_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
