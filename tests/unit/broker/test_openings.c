/* Batches that helper threads open: what may happen meanwhile, and what they may take. */
#include "openings.h"
#include "produce_world.h"

enum { PARTITIONS = 64 };

static const struct shard *shard_of(const struct link *link)
{
    return broker_shard(link->world->broker);
}

static void delete_topic(struct link *link, const char *name)
{
    struct delete_topics_request request = delete_topics_request_default;
    struct delete_topics_request_delete_topic_state topic = {.name = bytes_of(name)};
    request.topics = &topic;
    request.topics_count = 1;
    struct delete_topics_response response;
    link_call(link, API_DELETE_TOPICS, 6, &request, &response);
    assert_int_equal(response.responses[0].error_code, KAFKA_NONE);
}

static void send_batch(struct link *link, int16_t acks, struct bytes batch)
{
    struct produce_parts parts;
    link_send(link, API_PRODUCE, 9, produce_of(&parts, "t", 0, acks, batch));
}

static struct produce_response_partition_produce_response take_answer(struct link *link)
{
    struct produce_response response;
    await_answer(link);
    link_take(link, API_PRODUCE, 9, 0, &response);
    return response.responses[0].partition_responses[0];
}

static uint32_t waiting_for_room(const struct link *link)
{
    struct broker_stats stats;
    broker_stats_get(link->world->broker, &stats);
    return stats.waiting_for_room;
}

/* Sends to the topic "filler" until the log is full; it is long in getting room again. */
static void fill_log(struct link *filler)
{
    set_slow(filler->world, 50, 8000000);
    struct bytes batch = noise_batch(filler->world, 150000, -1, -1);
    for (int i = 0; i < 100 && waiting_for_room(filler) == 0; i++) {
        struct produce_parts parts;
        link_send(filler, API_PRODUCE, 9, produce_of(&parts, "filler", 0, 1, batch));
        world_run(filler->world, 1);
    }
    assert_int_equal(waiting_for_room(filler), 1);
}

static void assert_end_offset(struct link *link, const char *topic, int64_t end)
{
    struct fetch_response_partition_data data = fetch(link, topic, 0, 0, 0, 1);
    assert_int_equal(data.error_code, KAFKA_NONE);
    assert_int_equal(data.high_watermark, end);
}

static const struct setting none[] = {{NULL, NULL}};
static const struct setting zstd[] = {{"compression.type", "zstd"}, {NULL, NULL}};

/* Sends a batch that helpers are long in writing anew, to the topic "t", which it makes. */
static struct bytes send_slow_batch(struct link *link)
{
    create_with(link, "t", zstd);
    struct bytes batch = noise_batch(link->world, 200000, -1, -1);
    set_slow(link->world, 50, 4000000);
    send_batch(link, -1, batch);
    world_run(link->world, 5);
    return batch;
}

static void a_topic_made_anew_meanwhile_gets_nothing_of_the_old_one(void **state)
{
    struct world *world = world_create(60, "");
    struct link *link = link_open(world, 0);
    struct link *admin = link_open(world, 1);
    struct bytes batch = send_slow_batch(link);
    assert_int_equal(shard_of(link)->opening_count, 1);
    delete_topic(admin, "t");
    create_with(admin, "t", none);
    assert_int_equal(shard_of(link)->opening_count, 1);
    assert_false(link_has_answer(link));
    assert_int_equal(take_answer(link).error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(shard_of(link)->opening_count, 0);
    assert_end_offset(admin, "t", 0);
    assert_int_equal(produce(link, "t", 0, -1, batch).base_offset, 0);
    world_destroy(world);
}

static void a_request_that_waits_for_room_keeps_to_the_topic_it_came_for(void **state)
{
    struct world *world = world_create(61, "");
    struct link *link = link_open(world, 0);
    struct link *filler = link_open(world, 1);
    struct link *admin = link_open(world, 2);
    create_with(link, "t", none);
    create_with(link, "filler", none);
    struct bytes batch = noise_batch(world, 150000, -1, -1);
    fill_log(filler);
    send_batch(link, -1, batch);
    world_run(world, 5);
    assert_int_equal(waiting_for_room(link), 2);
    delete_topic(admin, "t");
    create_with(admin, "t", none);
    assert_int_equal(waiting_for_room(link), 2);
    assert_int_equal(take_answer(link).error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    assert_end_offset(admin, "t", 0);
    set_slow(world, 50, 500);
    world_destroy(world);
}

static void rules_that_changed_meanwhile_are_the_rules(void **state)
{
    struct world *world = world_create(62, "");
    struct link *link = link_open(world, 0);
    struct link *admin = link_open(world, 1);
    struct bytes batch = send_slow_batch(link);
    set_topic(admin, "t", "compression.type", "producer");
    assert_false(link_has_answer(link));
    assert_int_equal(take_answer(link).base_offset, 0);
    struct bytes kept = fetch(link, "t", 0, 0, 100, 1).records;
    struct batch_header header;
    assert_true(status_is_ok(batch_header_read(kept, &header)));
    assert_int_equal(header.attributes & BATCH_CODEC_MASK, CODEC_NONE);
    set_topic(admin, "t", "compression.type", "zstd");
    send_batch(link, -1, batch);
    world_run(world, 5);
    set_topic(admin, "t", "max.message.bytes", "1000");
    assert_false(link_has_answer(link));
    assert_int_equal(take_answer(link).error_code, KAFKA_MESSAGE_TOO_LARGE);
    world_destroy(world);
}

/* The batch to each partition of "t". */
static void send_to_all(struct link *link, struct bytes batch)
{
    struct produce_parts parts;
    const struct produce_request *request = produce_of(&parts, "t", 0, -1, batch);
    struct produce_request_partition_produce_data all[PARTITIONS];
    for (int i = 0; i < PARTITIONS; i++) {
        all[i] = parts.partition;
        all[i].index = i;
    }
    parts.topic.partition_data = all;
    parts.topic.partition_data_count = PARTITIONS;
    link_send(link, API_PRODUCE, 9, request);
}

static void take_from_all(struct link *link, int64_t offset)
{
    struct produce_response response;
    await_answer(link);
    link_take(link, API_PRODUCE, 9, 0, &response);
    assert_int_equal(response.responses[0].partition_responses_count, PARTITIONS);
    for (int i = 0; i < PARTITIONS; i++) {
        const struct produce_response_partition_produce_response *out =
            &response.responses[0].partition_responses[i];
        assert_int_equal(out->index, i);
        assert_int_equal(out->error_code, KAFKA_NONE);
        assert_int_equal(out->base_offset, offset);
    }
}

static void light_batches_are_a_helpers_when_they_are_many(void **state)
{
    struct world *world = world_create(63, "");
    struct link *link = link_open(world, 0);
    struct link *other = link_open(world, 1);
    assert_int_equal(create_topic(link, "t", PARTITIONS), KAFKA_NONE);
    create_with(link, "other", none);
    struct bytes light = in_codec(world, batch_of(world, 1, 100, -1, -1), CODEC_LZ4);
    struct bytes bomb = in_codec(world, batch_of(world, 1, 200000, -1, -1), CODEC_LZ4);
    assert_true(bomb.size < 2000);
    set_slow(world, 50, 4000000);
    send_to_all(link, light);
    world_run(world, 5);
    assert_true(link_has_answer(link));
    take_from_all(link, 0);
    send_to_all(link, bomb);
    world_run(world, 5);
    assert_false(link_has_answer(link));
    assert_int_equal(produce(other, "other", 0, -1, light).base_offset, 0);
    take_from_all(link, 1);
    world_destroy(world);
}

static void one_job_opens_many_batches_of_a_request(void **state)
{
    struct world *world = world_create(64, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", PARTITIONS), KAFKA_NONE);
    set_topic(link, "t", "compression.type", "gzip");
    struct bytes batch = noise_batch(world, 10000, -1, -1);
    set_slow(world, 50, 1000000);
    for (int round = 0; round < 3; round++) {
        int64_t begun = io_now_ns(sim_node_io(world->node));
        send_to_all(link, batch);
        take_from_all(link, round);
        assert_true(io_now_ns(sim_node_io(world->node)) - begun < 1100 * (int64_t)MS);
    }
    assert_int_equal(shard_of(link)->opening_count, 0);
    world_destroy(world);
}

/* Compressing is slower than opening: little is enough to leave it to a helper. */
static void what_is_compressed_on_the_loop_is_small_when_it_is_opened(void **state)
{
    struct world *world = world_create(65, "");
    struct link *link = link_open(world, 0);
    create_with(link, "t", zstd);
    set_slow(world, 50, 4000000);
    for (uint32_t size = 4000; size <= 20000; size += 16000) {
        struct bytes sent = in_codec(world, batch_of(world, 1, size, -1, -1), CODEC_LZ4);
        assert_true(sent.size < 1000);
        send_batch(link, -1, sent);
        world_run(world, 5);
        assert_int_equal(link_has_answer(link), size == 4000);
        assert_int_equal(take_answer(link).error_code, KAFKA_NONE);
    }
    world_destroy(world);
}

static void no_batch_is_opened_while_an_opened_one_waits_for_room(void **state)
{
    struct world *world = world_create(66, "");
    struct link *filler = link_open(world, 0);
    create_with(filler, "t", zstd);
    create_with(filler, "filler", none);
    struct bytes batch = noise_batch(world, 150000, -1, -1);
    for (int i = 1; i < LINK_COUNT_MAX; i++) {
        (void)link_open(world, i);
    }
    set_slow(world, 50, 400000);
    for (int i = 1; i < LINK_COUNT_MAX; i++) {
        send_batch(&world->links[i], -1, batch);
    }
    fill_log(filler);
    world_run(world, 400); /* The helper is through with the first. */
    assert_int_equal(waiting_for_room(filler), 2);
    assert_int_equal(shard_of(filler)->opening_count, 1);
    assert_false(list_is_empty(&shard_of(filler)->opening_waits));
    for (int i = 1; i < LINK_COUNT_MAX; i++) {
        assert_int_equal(take_answer(&world->links[i]).error_code, KAFKA_NONE);
    }
    assert_int_equal(shard_of(filler)->opening_count, 0);
    set_slow(world, 50, 500);
    world_destroy(world);
}

static void close_link(struct link *link)
{
    io_stream_close(link->stream);
    sim_node_kick(link->world->peer);
    world_run(link->world, 5);
}

static void who_is_gone_waits_for_no_helper(void **state)
{
    struct world *world = world_create(67, "");
    create_with(link_open(world, 0), "t", zstd);
    struct bytes batch = noise_batch(world, 200000, -1, -1);
    for (int i = 1; i < LINK_COUNT_MAX; i++) {
        (void)link_open(world, i);
    }
    set_slow(world, 50, 4000000);
    for (int i = 0; i < LINK_COUNT_MAX; i++) {
        /* Whoever sent with acks=0 has done its part. */
        send_batch(&world->links[i], i == 3 ? 0 : -1, batch);
        world_run(world, 5);
    }
    struct broker_stats stats;
    broker_stats_get(world->broker, &stats);
    assert_int_equal(stats.net.requests, 4);
    assert_true(stats.net.receive_memory > 800000);
    close_link(&world->links[0]); /* A helper has its batch. */
    close_link(&world->links[2]);
    close_link(&world->links[3]);
    broker_stats_get(world->broker, &stats);
    assert_int_equal(stats.net.requests, 3);
    assert_true(stats.net.receive_memory < 700000);
    assert_int_equal(take_answer(&world->links[1]).base_offset, 0);
    world_run(world, 10000);
    broker_stats_get(world->broker, &stats);
    assert_int_equal(stats.net.requests, 0);
    assert_int_equal(stats.net.receive_memory, 0);
    assert_int_equal(shard_of(&world->links[1])->opening_count, 0);
    assert_end_offset(&world->links[1], "t", 2);
    world_destroy(world);
}

static void who_is_gone_waits_for_no_room(void **state)
{
    struct world *world = world_create(68, "");
    struct link *link = link_open(world, 0);
    struct link *filler = link_open(world, 1);
    create_with(link, "t", none);
    create_with(link, "filler", none);
    struct bytes batch = noise_batch(world, 150000, -1, -1);
    fill_log(filler);
    send_batch(link, -1, batch);
    world_run(world, 5);
    assert_int_equal(waiting_for_room(filler), 2);
    close_link(link);
    assert_int_equal(waiting_for_room(filler), 1);
    set_slow(world, 50, 500);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_made_anew_meanwhile_gets_nothing_of_the_old_one),
        cmocka_unit_test(a_request_that_waits_for_room_keeps_to_the_topic_it_came_for),
        cmocka_unit_test(rules_that_changed_meanwhile_are_the_rules),
        cmocka_unit_test(light_batches_are_a_helpers_when_they_are_many),
        cmocka_unit_test(one_job_opens_many_batches_of_a_request),
        cmocka_unit_test(what_is_compressed_on_the_loop_is_small_when_it_is_opened),
        cmocka_unit_test(no_batch_is_opened_while_an_opened_one_waits_for_room),
        cmocka_unit_test(who_is_gone_waits_for_no_helper),
        cmocka_unit_test(who_is_gone_waits_for_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
