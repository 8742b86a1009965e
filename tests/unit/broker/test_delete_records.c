/* DeleteRecords, and what OffsetForLeaderEpoch and ListOffsets say of leader epochs. */
#include "broker_world.h"

static struct delete_records_response_delete_records_partition_result
delete_before(struct link *link, const char *topic, int32_t partition, int64_t offset)
{
    struct delete_records_request_delete_records_partition asked = {partition, offset};
    struct delete_records_request_delete_records_topic asked_topic = {bytes_of(topic), &asked, 1};
    struct delete_records_request request = {&asked_topic, 1, 1000};
    struct delete_records_response response;
    link_call(link, API_DELETE_RECORDS, 2, &request, &response);
    assert_int_equal(response.topics_count, 1);
    assert_int_equal(response.topics[0].partitions_count, 1);
    assert_int_equal(response.topics[0].partitions[0].partition_index, partition);
    return response.topics[0].partitions[0];
}

static struct list_offsets_response_list_offsets_partition_response
list_offset(struct link *link, const char *topic, int64_t timestamp)
{
    struct list_offsets_request_list_offsets_partition partition =
        list_offsets_request_list_offsets_partition_default;
    partition.timestamp = timestamp;
    struct list_offsets_request_list_offsets_topic asked = {bytes_of(topic), &partition, 1};
    struct list_offsets_request request = list_offsets_request_default;
    request.topics = &asked;
    request.topics_count = 1;
    struct list_offsets_response response;
    link_call(link, API_LIST_OFFSETS, 7, &request, &response);
    return response.topics[0].partitions[0];
}

static struct offset_for_leader_epoch_response_epoch_end_offset
epoch_end(struct link *link, const char *topic, int32_t partition, int32_t current, int32_t epoch)
{
    struct offset_for_leader_epoch_request_offset_for_leader_partition asked = {partition, current,
                                                                                epoch};
    struct offset_for_leader_epoch_request_offset_for_leader_topic asked_topic = {bytes_of(topic),
                                                                                  &asked, 1};
    struct offset_for_leader_epoch_request request = offset_for_leader_epoch_request_default;
    request.topics = &asked_topic;
    request.topics_count = 1;
    struct offset_for_leader_epoch_response response;
    link_call(link, API_OFFSET_FOR_LEADER_EPOCH, 4, &request, &response);
    assert_int_equal(response.topics[0].partitions[0].partition, partition);
    return response.topics[0].partitions[0];
}

static void restart(struct world *world, struct link **link)
{
    world_stop_broker(world);
    world_start_broker(world);
    *link = link_open(world, 0);
}

static void records_below_are_gone_for_good(void **state)
{
    static const struct {
        int64_t offset;
        int16_t error;
        int64_t low_watermark;
    } cases[] = {
        {4, KAFKA_NONE, 4},
        {2, KAFKA_NONE, 4},
        {11, KAFKA_OFFSET_OUT_OF_RANGE, -1},
        {-2, KAFKA_OFFSET_OUT_OF_RANGE, -1},
        {7, KAFKA_NONE, 7},
    };
    struct world *world = world_create(50, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    struct bytes batch = batch_of(world, 1, 100, -1, -1);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(produce(link, "t", 0, -1, batch).error_code, KAFKA_NONE);
    }
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct delete_records_response_delete_records_partition_result out =
            delete_before(link, "t", 0, cases[i].offset);
        assert_int_equal(out.error_code, cases[i].error);
        assert_int_equal(out.low_watermark, cases[i].low_watermark);
    }
    for (int life = 0; life < 2; life++) {
        assert_int_equal(list_offset(link, "t", -2).offset, 7);
        assert_int_equal(fetch(link, "t", 0, 6, 0, 1000).error_code, KAFKA_OFFSET_OUT_OF_RANGE);
        struct fetch_response_partition_data data = fetch(link, "t", 0, 7, 0, 1 << 20);
        assert_int_equal(data.log_start_offset, 7);
        assert_int_equal(data.records.size, 3 * batch.size);
        restart(world, &link);
    }
    assert_int_equal(delete_before(link, "t", 0, -1).low_watermark, 10);
    assert_int_equal(fetch(link, "t", 0, 10, 0, 1000).records.size, 0);
    sim_node_crash(world->node, false);
    broker_abandon(world->broker);
    (void)sim_node_start(world->node);
    world_start_broker(world);
    world_run(world, 50);
    link = link_open(world, 1);
    assert_int_equal(list_offset(link, "t", -2).offset, 10);
    assert_int_equal(produce(link, "t", 0, -1, batch).base_offset, 10);
    world_destroy(world);
}

static void only_what_may_be_deleted_is(void **state)
{
    static const char *const policies[] = {"compact", "compact,delete", ""};
    struct world *world = world_create(51, "");
    struct link *link = link_open(world, 0);
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        char name[8];
        snprintf(name, sizeof(name), "t%zu", i);
        struct create_topics_request_creatable_topic_config config = {bytes_of("cleanup.policy"),
                                                                      bytes_of(policies[i])};
        struct create_topics_request_creatable_topic topic =
            create_topics_request_creatable_topic_default;
        topic.name = bytes_of(name);
        topic.num_partitions = 1;
        topic.replication_factor = 1;
        topic.configs = &config;
        topic.configs_count = 1;
        struct create_topics_request request = create_topics_request_default;
        request.topics = &topic;
        request.topics_count = 1;
        struct create_topics_response response;
        link_call(link, API_CREATE_TOPICS, 5, &request, &response);
        assert_int_equal(response.topics[0].error_code, KAFKA_NONE);
        assert_int_equal(delete_before(link, name, 0, 0).error_code,
                         i == 0 ? KAFKA_POLICY_VIOLATION : KAFKA_NONE);
    }
    assert_int_equal(delete_before(link, "t1", 1, 0).error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(delete_before(link, "no", 0, 0).error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    world_destroy(world);
}

static void leader_epochs_end_where_the_next_begins(void **state)
{
    struct world *world = world_create(52, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    struct bytes batch = batch_of(world, 2, 100, -1, -1);
    for (int32_t epoch = 1; epoch <= 3; epoch++) {
        assert_int_equal(produce(link, "t", 0, -1, batch).error_code, KAFKA_NONE);
        assert_int_equal(list_offset(link, "t", -1).leader_epoch, epoch);
        assert_int_equal(list_offset(link, "t", -2).leader_epoch, 1);
        for (int32_t asked = 1; asked <= epoch; asked++) {
            struct offset_for_leader_epoch_response_epoch_end_offset end =
                epoch_end(link, "t", 0, epoch, asked);
            assert_int_equal(end.error_code, KAFKA_NONE);
            assert_int_equal(end.leader_epoch, asked);
            assert_int_equal(end.end_offset, 2 * asked);
        }
        assert_int_equal(epoch_end(link, "t", 0, -1, epoch + 1).end_offset, -1);
        assert_int_equal(epoch_end(link, "t", 0, -1, -1).end_offset, -1);
        assert_int_equal(epoch_end(link, "t", 0, epoch + 1, 1).error_code,
                         KAFKA_UNKNOWN_LEADER_EPOCH);
        assert_int_equal(epoch_end(link, "t", 0, epoch - 1, 1).error_code,
                         KAFKA_FENCED_LEADER_EPOCH);
        assert_int_equal(epoch_end(link, "t", 1, -1, 1).error_code,
                         KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(epoch_end(link, "u", 0, -1, 1).error_code,
                         KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
        restart(world, &link);
    }
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_below_are_gone_for_good),
        cmocka_unit_test(only_what_may_be_deleted_is),
        cmocka_unit_test(leader_epochs_end_where_the_next_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
