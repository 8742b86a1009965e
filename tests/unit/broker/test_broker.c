/* The broker in the simulated world, as clients see it. */
#include "broker_world.h"

/* Requests that every version can encode: arrays empty, strings not null. */
static void *blank_request(const struct api *api, struct arena *arena)
{
    void *message = arena_array(arena, 1, message_type_size(api->request));
    struct list_offsets_request list = list_offsets_request_default;
    switch (api->key) {
    case API_FETCH: {
        struct fetch_request request = fetch_request_default;
        request.rack_id = bytes_of("");
        return memcpy(message, &request, sizeof(request));
    }
    case API_LIST_OFFSETS:
        return memcpy(message, &list, sizeof(list));
    case API_METADATA:
        memcpy(message, &metadata_request_default, sizeof(struct metadata_request));
        return message;
    case API_API_VERSIONS: {
        struct api_versions_request request = {bytes_of("test"), bytes_of("1")};
        return memcpy(message, &request, sizeof(request));
    }
    case API_FIND_COORDINATOR: {
        struct find_coordinator_request request = find_coordinator_request_default;
        request.key = bytes_of("group");
        return memcpy(message, &request, sizeof(request));
    }
    case API_INIT_PRODUCER_ID: {
        struct init_producer_id_request request = init_producer_id_request_default;
        request.transactional_id = BYTES_NULL;
        return memcpy(message, &request, sizeof(request));
    }
    case API_PRODUCE: {
        struct produce_request request = produce_request_default;
        request.acks = -1;
        return memcpy(message, &request, sizeof(request));
    }
    case API_DESCRIBE_CLUSTER:
        memcpy(message, &describe_cluster_request_default, sizeof(struct describe_cluster_request));
        return message;
    default:
        return message;
    }
}

static void every_advertised_version_is_answered(void **state)
{
    struct world *world = world_create(1, "");
    struct link *link = link_open(world, 0);
    struct api_versions_request ask = {bytes_of("test"), bytes_of("1")};
    struct api_versions_response versions;
    link_call(link, API_API_VERSIONS, 4, &ask, &versions);
    assert_int_equal(versions.error_code, KAFKA_NONE);
    assert_true(versions.api_keys_count >= 10);
    for (int32_t i = 0; i < versions.api_keys_count; i++) {
        const struct api *api = api_find(versions.api_keys[i].api_key);
        for (int16_t version = MAX(versions.api_keys[i].min_version, api->version_min);
             version <= versions.api_keys[i].max_version; version++) {
            void *request = blank_request(api, &world->arena);
            void *response = arena_array(&world->arena, 1, message_type_size(api->response));
            link_call(link, api->key, version, request, response);
        }
    }
    world_destroy(world);
}

static void what_is_not_served_closes_the_connection(void **state)
{
    static const struct {
        int16_t key;
        int16_t version;
    } cases[] = {{API_PRODUCE, 2}, {API_PRODUCE, 14}, {API_FETCH, 3}, {999, 0}, {-1, 0}};
    struct world *world = world_create(2, "");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct link *link = link_open(world, 0);
        uint8_t *frame = calloc(1, 16);
        store_be32(frame, 12);
        store_be16(frame + 4, (uint16_t)cases[i].key);
        store_be16(frame + 6, (uint16_t)cases[i].version);
        store_be16(frame + 12, 0xffff);
        link_send_bytes(link, frame, 16);
        world_run(world, 50);
        assert_true(link->closed);
        assert_int_equal(link->received_size, 0);
    }
    world_destroy(world);
}

static void an_unknown_version_of_api_versions_is_answered_in_version_0(void **state)
{
    struct world *world = world_create(3, "");
    struct link *link = link_open(world, 0);
    uint8_t *frame = calloc(1, 16);
    store_be32(frame, 12);
    store_be16(frame + 4, API_API_VERSIONS);
    store_be16(frame + 6, 99);
    store_be32(frame + 8, 1);
    store_be16(frame + 12, 0xffff);
    link->correlation_id = 1;
    link_send_bytes(link, frame, 16);
    world_run(world, 50);
    struct api_versions_response response;
    link_take(link, API_API_VERSIONS, 0, 0, &response);
    assert_int_equal(response.error_code, KAFKA_UNSUPPORTED_VERSION);
    assert_true(response.api_keys_count > 0);
    world_destroy(world);
}

static void records_come_back_and_survive_a_restart(void **state)
{
    struct world *world = world_create(4, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 2), KAFKA_NONE);
    assert_int_equal(create_topic(link, "t", 2), KAFKA_TOPIC_ALREADY_EXISTS);
    assert_int_equal(create_topic(link, "a.b", 1), KAFKA_NONE);
    assert_int_equal(create_topic(link, "a_b", 1), KAFKA_INVALID_TOPIC_EXCEPTION);
    struct bytes batch = batch_of(world, 3, 100, -1, -1);
    for (int i = 0; i < 5; i++) {
        struct produce_response_partition_produce_response out = produce(link, "t", 1, -1, batch);
        assert_int_equal(out.error_code, KAFKA_NONE);
        assert_int_equal(out.base_offset, 3 * i);
    }
    world_stop_broker(world);
    world_start_broker(world);
    link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 2), KAFKA_TOPIC_ALREADY_EXISTS);
    struct fetch_response_partition_data data = fetch(link, "t", 1, 4, 0, 1 << 20);
    assert_int_equal(data.error_code, KAFKA_NONE);
    assert_int_equal(data.high_watermark, 15);
    assert_int_equal(data.records.size, 4 * batch.size);
    struct batch_header header;
    assert_int_equal(batch_header_read(data.records, &header).code, STATUS_OK);
    assert_int_equal(header.base_offset, 3);
    assert_true(batch_crc_is_valid(data.records.data, &header));
    world_destroy(world);
}

static void what_was_acknowledged_survives_a_power_cut(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world *world = world_create(seed, "");
        struct link *link = link_open(world, 0);
        assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
        struct bytes batch = batch_of(world, 1, 500, -1, -1);
        int acknowledged = 0;
        for (; acknowledged < 10; acknowledged++) {
            assert_int_equal(produce(link, "t", 0, -1, batch).error_code, KAFKA_NONE);
        }
        struct produce_parts parts;
        link_send(link, API_PRODUCE, 9, produce_of(&parts, "t", 0, -1, batch));
        sim_node_crash(world->node, seed % 2 == 0);
        broker_abandon(world->broker);
        (void)sim_node_start(world->node);
        world_start_broker(world);
        link = link_open(world, 1);
        struct fetch_response_partition_data data = fetch(link, "t", 0, 0, 0, 1 << 20);
        assert_int_equal(data.error_code, KAFKA_NONE);
        assert_in_range(data.high_watermark, acknowledged, acknowledged + 1);
        assert_int_equal(produce(link, "t", 0, 1, batch).base_offset, data.high_watermark);
        world_destroy(world);
    }
}

static void produce_refuses_what_kafka_refuses(void **state)
{
    struct world *world = world_create(5, "message.max.bytes=1000\n");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    struct bytes good = batch_of(world, 1, 10, -1, -1);
    struct bytes large = batch_of(world, 1, 2000, -1, -1);
    uint8_t damaged[256];
    memcpy(damaged, good.data, good.size);
    damaged[good.size - 1] ^= 1;
    const struct {
        const char *topic;
        int32_t partition;
        int16_t acks;
        struct bytes records;
        enum kafka_error error;
    } cases[] = {
        {"t", 0, 1, good, KAFKA_NONE},
        {"t", 1, 1, good, KAFKA_UNKNOWN_TOPIC_OR_PARTITION},
        {"t", -1, 1, good, KAFKA_UNKNOWN_TOPIC_OR_PARTITION},
        {"u", 0, 1, good, KAFKA_UNKNOWN_TOPIC_OR_PARTITION},
        {"t", 0, 2, good, KAFKA_INVALID_REQUIRED_ACKS},
        {"t", 0, -2, good, KAFKA_INVALID_REQUIRED_ACKS},
        {"t", 0, -1, large, KAFKA_MESSAGE_TOO_LARGE},
        {"t", 0, -1, {damaged, good.size}, KAFKA_CORRUPT_MESSAGE},
        {"t", 0, -1, good, KAFKA_NONE},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct produce_response_partition_produce_response out =
            produce(link, cases[i].topic, cases[i].partition, cases[i].acks, cases[i].records);
        assert_int_equal(out.error_code, cases[i].error);
        assert_int_equal(out.index, cases[i].partition);
        assert_true((out.base_offset >= 0) == (cases[i].error == KAFKA_NONE));
    }
    struct produce_parts parts;
    struct produce_request transactional = *produce_of(&parts, "t", 0, -1, good);
    transactional.transactional_id = bytes_of("tx");
    struct produce_response response;
    link_call(link, API_PRODUCE, 9, &transactional, &response);
    assert_int_equal(response.responses[0].partition_responses[0].error_code,
                     KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    world_destroy(world);
}

static void acks_0_is_not_answered_and_its_errors_close_the_connection(void **state)
{
    struct world *world = world_create(6, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    struct bytes batch = batch_of(world, 1, 10, -1, -1);
    struct produce_parts parts;
    link_send(link, API_PRODUCE, 9, produce_of(&parts, "t", 0, 0, batch));
    assert_int_equal(produce(link, "t", 0, 1, batch).base_offset, 1);
    assert_int_equal(link->received_size, 0);
    link_send(link, API_PRODUCE, 9, produce_of(&parts, "unknown", 0, 0, batch));
    world_run(world, 50);
    assert_true(link->closed);
    world_destroy(world);
}

static void a_duplicate_answers_the_offset_of_its_original(void **state)
{
    struct world *world = world_create(7, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    struct init_producer_id_request ask = init_producer_id_request_default;
    struct init_producer_id_response id;
    ask.transactional_id = BYTES_NULL;
    link_call(link, API_INIT_PRODUCER_ID, 4, &ask, &id);
    assert_int_equal(id.error_code, KAFKA_NONE);
    struct bytes first = batch_of(world, 2, 10, id.producer_id, 0);
    struct bytes second = batch_of(world, 2, 10, id.producer_id, 2);
    struct bytes gap = batch_of(world, 2, 10, id.producer_id, 9);
    assert_int_equal(produce(link, "t", 0, -1, first).base_offset, 0);
    assert_int_equal(produce(link, "t", 0, -1, second).base_offset, 2);
    assert_int_equal(produce(link, "t", 0, -1, first).base_offset, 0);
    assert_int_equal(produce(link, "t", 0, -1, gap).error_code, KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_int_equal(fetch(link, "t", 0, 4, 0, 100).high_watermark, 4);
    world_destroy(world);
}

static void producer_ids_are_never_given_twice(void **state)
{
    struct world *world = world_create(8, "twinlog.producer.id.block.size=2\n");
    struct init_producer_id_request ask = init_producer_id_request_default;
    struct init_producer_id_response id;
    int64_t last = -1;
    ask.transactional_id = BYTES_NULL;
    for (int life = 0; life < 3; life++) {
        struct link *link = link_open(world, 0);
        for (int i = 0; i < 5; i++) {
            link_call(link, API_INIT_PRODUCER_ID, 0, &ask, &id);
            assert_int_equal(id.error_code, KAFKA_NONE);
            assert_true(id.producer_id > last);
            last = id.producer_id;
        }
        sim_node_crash(world->node, false);
        broker_abandon(world->broker);
        (void)sim_node_start(world->node);
        world_start_broker(world);
        world_run(world, 100); /* The client hears that its connection is gone. */
    }
    world_destroy(world);
}

static void a_fetch_waits_for_records_and_only_its_own_connection_waits(void **state)
{
    struct world *world = world_create(9, "");
    struct link *reader = link_open(world, 0);
    struct link *writer = link_open(world, 1);
    assert_int_equal(create_topic(writer, "t", 1), KAFKA_NONE);
    struct fetch_parts parts;
    link_send(reader, API_FETCH, 11, fetch_of(&parts, "t", 0, 0, 60000, 1 << 20));
    world_run(world, 1000);
    assert_false(link_has_answer(reader));
    struct broker_stats stats;
    broker_stats_get(world->broker, &stats);
    assert_int_equal(stats.waiting_fetches, 1);
    struct bytes batch = batch_of(world, 1, 1000, -1, -1);
    assert_int_equal(produce(writer, "t", 0, -1, batch).error_code, KAFKA_NONE);
    world_run(world, 20);
    struct fetch_response response;
    link_take(reader, API_FETCH, 11, 0, &response);
    assert_int_equal(response.responses[0].partitions[0].records.size, batch.size);
    world_run(world, 20);
    broker_stats_get(world->broker, &stats);
    assert_int_equal(stats.waiting_fetches, 0);
    assert_int_equal(stats.fetch_memory, 0);
    world_destroy(world);
}

static void a_waiting_fetch_ends_by_its_time_its_topic_or_its_connection(void **state)
{
    struct world *world = world_create(10, "");
    struct link *reader = link_open(world, 0);
    struct link *other = link_open(world, 1);
    assert_int_equal(create_topic(other, "t", 1), KAFKA_NONE);
    assert_int_equal(fetch(reader, "t", 0, 0, 300, 100).error_code, KAFKA_NONE);
    struct fetch_parts parts;
    struct fetch_response response;
    struct broker_stats stats;
    link_send(reader, API_FETCH, 11, fetch_of(&parts, "t", 0, 0, 60000, 100));
    io_stream_close(reader->stream);
    sim_node_kick(world->peer);
    world_run(world, 50);
    broker_stats_get(world->broker, &stats);
    assert_int_equal(stats.waiting_fetches, 0);
    reader = link_open(world, 2);
    link_send(reader, API_FETCH, 11, fetch_of(&parts, "t", 0, 0, 60000, 100));
    struct bytes name = bytes_of("t");
    struct delete_topics_request delete = delete_topics_request_default;
    struct delete_topics_response deleted;
    delete.topic_names = &name;
    delete.topic_names_count = 1;
    link_call(other, API_DELETE_TOPICS, 5, &delete, &deleted);
    assert_int_equal(deleted.responses[0].error_code, KAFKA_NONE);
    world_run(world, 50);
    link_take(reader, API_FETCH, 11, 0, &response);
    assert_int_equal(response.responses[0].partitions[0].error_code,
                     KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    link_call(other, API_DELETE_TOPICS, 5, &delete, &deleted);
    assert_int_equal(deleted.responses[0].error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    world_destroy(world);
}

/* What is not there is no reason to answer at once, unless nothing else was asked for (Kafka). */
static void a_fetch_waits_beside_what_is_missing_and_not_for_more_than_it_takes(void **state)
{
    struct world *world = world_create(14, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    assert_int_equal(produce(link, "t", 0, -1, batch_of(world, 1, 10, -1, -1)).error_code,
                     KAFKA_NONE);
    static const struct {
        int64_t offset;
        int32_t partition;
        int32_t also; /* a second partition; 0: none */
        int32_t min_bytes;
        int32_t max_bytes;
        bool waits;
    } cases[] = {
        {1, 0, 0, 1, 1000, true},    {1, 0, 7, 1, 1000, true},   {0, 7, 0, 1, 1000, false},
        {0, 7, 8, 1, 1000, false},   {9, 0, 7, 1, 1000, false},  {0, 0, 7, 1, 1000, false},
        {0, 0, 0, 1000, 5000, true}, {0, 0, 0, 1000, 20, false}, {1, 0, 0, 1000, 0, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct fetch_parts parts;
        struct fetch_request_fetch_partition partitions[2];
        struct fetch_response response;
        struct fetch_request request =
            *fetch_of(&parts, "t", cases[i].partition, cases[i].offset, 200, 1 << 20);
        partitions[0] = parts.partition;
        partitions[1] = parts.partition;
        partitions[1].partition = cases[i].also;
        parts.topic.partitions = partitions;
        parts.topic.partitions_count = cases[i].also == 0 ? 1 : 2;
        request.min_bytes = cases[i].min_bytes;
        request.max_bytes = cases[i].max_bytes;
        link_send(link, API_FETCH, 11, &request);
        world_run(world, 100);
        assert_int_equal(link_has_answer(link), !cases[i].waits);
        world_run(world, 150);
        link_take(link, API_FETCH, 11, 0, &response);
        assert_int_equal(response.responses[0].partitions_count, cases[i].also == 0 ? 1 : 2);
    }
    world_destroy(world);
}

static void a_fetch_obeys_its_limits_but_for_the_first_batch(void **state)
{
    struct world *world = world_create(11, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    struct bytes batch = batch_of(world, 1, 1000, -1, -1);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(produce(link, "t", 0, 1, batch).error_code, KAFKA_NONE);
    }
    assert_int_equal(fetch(link, "t", 0, 0, 0, 0).records.size, batch.size);
    assert_int_equal(fetch(link, "t", 0, 0, 0, 10).records.size, batch.size);
    assert_int_equal(fetch(link, "t", 0, 0, 0, (int32_t)(3 * batch.size)).records.size,
                     3 * batch.size);
    assert_int_equal(fetch(link, "t", 0, 8, 0, 1 << 20).records.size, 2 * batch.size);
    assert_int_equal(fetch(link, "t", 0, 10, 0, 1 << 20).records.size, 0);
    assert_int_equal(fetch(link, "t", 0, 11, 0, 100).error_code, KAFKA_OFFSET_OUT_OF_RANGE);
    assert_int_equal(fetch(link, "t", 0, -1, 0, 100).high_watermark, -1);
    world_destroy(world);
}

/* One request with a batch for each of three partitions. */
static void send_three(struct link *link, int32_t first, struct bytes batch)
{
    struct produce_request_partition_produce_data partitions[3];
    struct produce_parts parts;
    struct produce_request request = *produce_of(&parts, "t", 0, -1, batch);
    for (int32_t i = 0; i < 3; i++) {
        partitions[i] = parts.partition;
        partitions[i].index = first + i;
    }
    parts.topic.partition_data = partitions;
    parts.topic.partition_data_count = 3;
    link_send(link, API_PRODUCE, 9, &request);
}

/*
 * Four connections send more than journal and chunks hold before any of it is written back: some
 * requests wait for room, some of them in their middle. Each batch is appended once, in order.
 */
static void produce_that_outruns_the_log_waits_and_keeps_its_order(void **state)
{
    struct world *world = world_create(12, "twinlog.chunk.size=65536\n");
    enum { COUNT = 12, SIZE = 150000 };
    struct bytes batch = batch_of(world, 1, SIZE, -1, -1);
    uint32_t waits = 0;
    assert_int_equal(create_topic(link_open(world, 0), "t", 3 * LINK_COUNT_MAX), KAFKA_NONE);
    for (int i = 1; i < LINK_COUNT_MAX; i++) {
        (void)link_open(world, i);
    }
    static const struct sim_options slow_disk = {.disk_write_us_min = 20000,
                                                 .disk_write_us_max = 60000,
                                                 .net_delay_us_min = 20,
                                                 .net_delay_us_max = 300,
                                                 .offload_us_max = 200000};
    sim_set_options(world->sim, &slow_disk);
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < LINK_COUNT_MAX; j++) {
            send_three(&world->links[j], 3 * j, batch);
            struct broker_stats stats;
            broker_stats_get(world->broker, &stats);
            waits += stats.waiting_for_room;
        }
    }
    assert_true(waits > 0);
    for (int i = 0; i < COUNT * LINK_COUNT_MAX; i++) {
        struct link *link = &world->links[i % LINK_COUNT_MAX];
        for (int j = 0; j < 10000 && !link_has_answer(link); j++) {
            world_run(world, 1);
        }
        struct produce_response response;
        link_take(link, API_PRODUCE, 9, COUNT - 1 - i / LINK_COUNT_MAX, &response);
        for (int j = 0; j < 3; j++) {
            const struct produce_response_partition_produce_response *out =
                &response.responses[0].partition_responses[j];
            assert_int_equal(out->index, 3 * (i % LINK_COUNT_MAX) + j);
            assert_int_equal(out->error_code, KAFKA_NONE);
            assert_int_equal(out->base_offset, i / LINK_COUNT_MAX);
        }
    }
    broker_check(world->broker);
    world_destroy(world);
}

/* With acks=0 a request is done, and gone with its connection, inside the call that resumes it. */
static void a_request_that_waits_for_room_outlives_its_connection(void **state)
{
    struct world *world = world_create(13, "twinlog.chunk.size=65536\n");
    struct bytes batch = batch_of(world, 1, 150000, -1, -1);
    struct link *sender = link_open(world, 0);
    assert_int_equal(create_topic(sender, "t", 1), KAFKA_NONE);
    static const struct sim_options slow_disk = {
        .disk_write_us_min = 20000, .disk_write_us_max = 60000, .offload_us_max = 200000};
    sim_set_options(world->sim, &slow_disk);
    struct broker_stats stats = {0};
    for (int i = 0; i < 2000 && stats.waiting_for_room < 2; i++) {
        struct produce_parts parts;
        struct link *link = i % 2 == 0 ? sender : link_open(world, 1 + i % 2);
        link_send(link, API_PRODUCE, 9, produce_of(&parts, "t", 0, 0, batch));
        broker_stats_get(world->broker, &stats);
        if (link != sender) {
            io_stream_close(link->stream);
            sim_node_kick(world->peer);
            world_run(world, 1);
        }
    }
    assert_true(stats.waiting_for_room > 0);
    io_stream_close(sender->stream);
    sim_node_kick(world->peer);
    world_run(world, 20000);
    broker_stats_get(world->broker, &stats);
    assert_int_equal(stats.waiting_for_room, 0);
    assert_int_equal(stats.net.requests, 0);
    broker_check(world->broker);
    world_destroy(world);
}

static void metadata_creates_topics_only_when_both_sides_allow_it(void **state)
{
    for (int allowed = 0; allowed < 4; allowed++) {
        struct world *world = world_create(13, allowed & 1 ? "num.partitions=3\n"
                                                           : "auto.create.topics.enable=false\n");
        struct link *link = link_open(world, 0);
        struct metadata_request_topic topics[2] = {metadata_request_topic_default,
                                                   metadata_request_topic_default};
        topics[0].name = bytes_of("new");
        topics[1].name = bytes_of("not a name");
        struct metadata_request request = metadata_request_default;
        request.topics = topics;
        request.topics_count = 2;
        request.allow_auto_topic_creation = (allowed & 2) != 0;
        struct metadata_response response;
        link_call(link, API_METADATA, 9, &request, &response);
        assert_int_equal(response.topics[0].error_code,
                         allowed == 3 ? KAFKA_NONE : KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(response.topics[0].partitions_count, allowed == 3 ? 3 : 0);
        assert_int_equal(response.topics[1].error_code, KAFKA_INVALID_TOPIC_EXCEPTION);
        assert_int_equal(response.brokers[0].port, 9092);
        world_destroy(world);
    }
}

static void concurrent_creations_of_one_name_resolve(void **state)
{
    struct world *world = world_create(14, "");
    struct create_topics_request_creatable_topic topic =
        create_topics_request_creatable_topic_default;
    topic.name = bytes_of("one");
    topic.num_partitions = 1;
    topic.replication_factor = 1;
    struct create_topics_request request = create_topics_request_default;
    request.topics = &topic;
    request.topics_count = 1;
    for (int i = 0; i < LINK_COUNT_MAX; i++) {
        (void)link_open(world, i);
    }
    for (int i = 0; i < LINK_COUNT_MAX; i++) {
        link_send(&world->links[i], API_CREATE_TOPICS, 5, &request);
    }
    world_run(world, 100);
    int created = 0;
    for (int i = 0; i < LINK_COUNT_MAX; i++) {
        struct create_topics_response response;
        link_take(&world->links[i], API_CREATE_TOPICS, 5, 0, &response);
        created += response.topics[0].error_code == KAFKA_NONE;
        assert_true(response.topics[0].error_code == KAFKA_NONE ||
                    response.topics[0].error_code == KAFKA_TOPIC_ALREADY_EXISTS);
    }
    assert_int_equal(created, 1);
    world_destroy(world);
}

static void a_name_that_stands_twice_is_answered_once_and_changes_nothing(void **state)
{
    enum { MANY = 30000 };
    struct world *world = world_create(15, "");
    struct link *link = link_open(world, 0);
    struct create_topics_request_creatable_topic topics[4];
    const char *names[] = {"twice", "once", "twice", "twice"};
    struct create_topics_request create = create_topics_request_default;
    struct create_topics_response created;
    for (size_t i = 0; i < COUNT_OF(topics); i++) {
        topics[i] = create_topics_request_creatable_topic_default;
        topics[i].name = bytes_of(names[i]);
        topics[i].num_partitions = 1;
        topics[i].replication_factor = 1;
    }
    create.topics = topics;
    create.topics_count = COUNT_OF(topics);
    link_call(link, API_CREATE_TOPICS, 4, &create, &created);
    assert_int_equal(created.topics_count, 2);
    assert_int_equal(created.topics[0].error_code, KAFKA_INVALID_REQUEST);
    assert_int_equal(created.topics[1].error_code, KAFKA_NONE);
    assert_int_equal(create_topic(link, "twice", 1), KAFKA_NONE);
    /* As many names as a frame holds cost no more than sorting them. */
    struct bytes *many = malloc(MANY * sizeof(*many));
    char *text = malloc(MANY * 8);
    for (int i = 0; i < MANY; i++) {
        snprintf(text + i * 8, 8, "n%06u", (unsigned)i / 2 % 1000000);
        many[i] = i == 0 || i == MANY - 1 ? bytes_of("once") : bytes_of(text + i * 8);
    }
    struct delete_topics_request delete = delete_topics_request_default;
    struct delete_topics_response deleted;
    delete.topic_names = many;
    delete.topic_names_count = MANY;
    link_call(link, API_DELETE_TOPICS, 5, &delete, &deleted);
    assert_int_equal(deleted.responses_count, MANY / 2 + 1);
    assert_int_equal(deleted.responses[0].error_code, KAFKA_INVALID_REQUEST);
    delete.topic_names_count = 1;
    link_call(link, API_DELETE_TOPICS, 5, &delete, &deleted);
    assert_int_equal(deleted.responses[0].error_code, KAFKA_NONE);
    free(many);
    free(text);
    world_destroy(world);
}

static void a_request_waits_for_the_appends_before_it(void **state)
{
    struct world *world = world_create(15, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    struct bytes batch = batch_of(world, 1, 1000, -1, -1);
    struct produce_parts parts;
    struct fetch_parts fetch_parts;
    link_send(link, API_PRODUCE, 9, produce_of(&parts, "t", 0, -1, batch));
    link_send(link, API_FETCH, 11, fetch_of(&fetch_parts, "t", 0, 0, 0, 1 << 20));
    world_run(world, 100);
    struct produce_response produced;
    struct fetch_response fetched;
    link_take(link, API_PRODUCE, 9, 1, &produced);
    link_take(link, API_FETCH, 11, 0, &fetched);
    assert_int_equal(fetched.responses[0].partitions[0].records.size, batch.size);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_advertised_version_is_answered),
        cmocka_unit_test(what_is_not_served_closes_the_connection),
        cmocka_unit_test(an_unknown_version_of_api_versions_is_answered_in_version_0),
        cmocka_unit_test(records_come_back_and_survive_a_restart),
        cmocka_unit_test(what_was_acknowledged_survives_a_power_cut),
        cmocka_unit_test(produce_refuses_what_kafka_refuses),
        cmocka_unit_test(acks_0_is_not_answered_and_its_errors_close_the_connection),
        cmocka_unit_test(a_duplicate_answers_the_offset_of_its_original),
        cmocka_unit_test(producer_ids_are_never_given_twice),
        cmocka_unit_test(a_fetch_waits_for_records_and_only_its_own_connection_waits),
        cmocka_unit_test(a_waiting_fetch_ends_by_its_time_its_topic_or_its_connection),
        cmocka_unit_test(a_fetch_waits_beside_what_is_missing_and_not_for_more_than_it_takes),
        cmocka_unit_test(a_fetch_obeys_its_limits_but_for_the_first_batch),
        cmocka_unit_test(produce_that_outruns_the_log_waits_and_keeps_its_order),
        cmocka_unit_test(a_request_that_waits_for_room_outlives_its_connection),
        cmocka_unit_test(metadata_creates_topics_only_when_both_sides_allow_it),
        cmocka_unit_test(concurrent_creations_of_one_name_resolve),
        cmocka_unit_test(a_name_that_stands_twice_is_answered_once_and_changes_nothing),
        cmocka_unit_test(a_request_waits_for_the_appends_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
