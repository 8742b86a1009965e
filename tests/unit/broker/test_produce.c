/* What becomes of batches between Produce and the log: codecs, clocks, helpers. */
#include "produce_world.h"
#include "twinlog/core/crc32c.h"

/* What is stored at an offset: one whole batch, sound, in this codec. */
static struct batch_header stored(struct link *link, const char *topic, int64_t offset,
                                  enum codec codec, struct bytes *batch)
{
    struct fetch_response_partition_data data = fetch(link, topic, 0, offset, 100, 1);
    struct batch_header header;
    assert_int_equal(data.error_code, KAFKA_NONE);
    assert_true(status_is_ok(batch_header_read(data.records, &header)));
    assert_int_equal(header.base_offset, offset);
    assert_true(batch_crc_is_valid(data.records.data, &header));
    assert_int_equal(header.attributes & BATCH_CODEC_MASK, codec);
    *batch = (struct bytes){data.records.data, header.size};
    return header;
}

static void assert_records(struct bytes batch, struct bytes plain)
{
    struct batch_header header;
    uint8_t *records;
    size_t size;
    assert_true(status_is_ok(batch_header_read(batch, &header)));
    assert_true(status_is_ok(batch_decompress(batch.data, &header, 32 << 20, &records, &size)));
    assert_int_equal(size, plain.size - BATCH_HEADER_SIZE);
    assert_memory_equal(records, plain.data + BATCH_HEADER_SIZE, size);
    free(records);
}

static void a_topic_keeps_batches_in_its_own_codec(void **state)
{
    static const struct {
        const char *type;
        int kept; /* -1: as sent */
    } types[] = {{"producer", -1},         {"uncompressed", CODEC_NONE}, {"gzip", CODEC_GZIP},
                 {"snappy", CODEC_SNAPPY}, {"lz4", CODEC_LZ4},           {"zstd", CODEC_ZSTD}};
    struct world *world = world_create(30, "");
    struct link *link = link_open(world, 0);
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        const struct setting settings[] = {{"compression.type", types[i].type}, {NULL, NULL}};
        create_with(link, types[i].type, settings);
        int64_t offset = 0;
        for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
            /* Judged on the loop, and on a helper. */
            for (int size = 10; size <= 10000; size *= 1000) {
                struct bytes plain = batch_of(world, 3, (uint32_t)size, -1, -1);
                struct bytes sent = in_codec(world, plain, codec);
                struct bytes kept;
                assert_int_equal(produce(link, types[i].type, 0, -1, sent).base_offset, offset);
                enum codec wanted = types[i].kept < 0 ? codec : (enum codec)types[i].kept;
                (void)stored(link, types[i].type, offset, wanted, &kept);
                assert_records(kept, plain);
                offset += 3;
            }
        }
    }
    /* The broker's own setting is a topic's default, and a change acts on the next batch. */
    set_topic(link, "producer", "compression.type", "zstd");
    struct bytes plain = batch_of(world, 3, 100, -1, -1);
    int64_t offset = produce(link, "producer", 0, -1, plain).base_offset;
    struct bytes kept;
    (void)stored(link, "producer", offset, CODEC_ZSTD, &kept);
    assert_records(kept, plain);
    world_destroy(world);
}

static void the_brokers_clock_and_codec_go_together(void **state)
{
    struct world *world = world_create(31, "compression.type=lz4\n");
    struct link *link = link_open(world, 0);
    const struct setting settings[] = {{"message.timestamp.type", "LogAppendTime"}, {NULL, NULL}};
    create_with(link, "t", settings);
    struct bytes kept;
    int64_t offset = 0;
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        /* A time far outside any bound: the clock replaces it. */
        struct bytes plain = batch_of(world, 2, 30000, -1, -1);
        struct batch_header header;
        assert_true(status_is_ok(batch_header_read(plain, &header)));
        store_be64((uint8_t *)(uintptr_t)plain.data + 27, (uint64_t)INT64_MAX / 2);
        batch_set_times((uint8_t *)(uintptr_t)plain.data, &header);
        int64_t before = io_wall_ms(sim_node_io(world->node));
        struct produce_response_partition_produce_response out =
            produce(link, "t", 0, -1, in_codec(world, plain, codec));
        assert_int_equal(out.error_code, KAFKA_NONE);
        assert_true(out.log_append_time_ms >= before);
        header = stored(link, "t", offset, CODEC_LZ4, &kept);
        assert_true((header.attributes & BATCH_LOG_APPEND_TIME) != 0);
        assert_true(header.max_timestamp == out.log_append_time_ms);
        assert_records(kept, plain);
        offset += 2;
    }
    set_topic(link, "t", "message.timestamp.type", "CreateTime");
    struct bytes plain = batch_of(world, 2, 100, -1, -1);
    assert_true(produce(link, "t", 0, -1, plain).log_append_time_ms == -1);
    struct batch_header header = stored(link, "t", offset, CODEC_LZ4, &kept);
    assert_int_equal(header.attributes, CODEC_LZ4);
    world_destroy(world);
}

static void a_claimed_max_timestamp_is_corrected(void **state)
{
    struct world *world = world_create(32, "");
    struct link *link = link_open(world, 0);
    const struct setting none[] = {{NULL, NULL}};
    create_with(link, "t", none);
    int64_t offset = 0;
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        struct bytes plain = batch_of(world, 2, 100, -1, -1);
        struct batch_header header;
        assert_true(status_is_ok(batch_header_read(plain, &header)));
        int64_t truth = header.max_timestamp;
        header.max_timestamp += 100000;
        batch_set_times((uint8_t *)(uintptr_t)plain.data, &header);
        assert_int_equal(produce(link, "t", 0, -1, in_codec(world, plain, codec)).error_code,
                         KAFKA_NONE);
        struct bytes kept;
        assert_true(stored(link, "t", offset, codec, &kept).max_timestamp == truth);
        assert_records(kept, plain);
        offset += 2;
    }
    world_destroy(world);
}

/* Zeros in a record compress to almost nothing: below any size that would look heavy. */
static void a_bomb_is_refused_and_what_only_looks_like_one_is_not(void **state)
{
    struct world *world = world_create(33, "twinlog.batch.opened.size.max=1000000\n");
    struct link *link = link_open(world, 0);
    const struct setting none[] = {{NULL, NULL}};
    create_with(link, "t", none);
    for (enum codec codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        struct bytes bomb = in_codec(world, batch_of(world, 1, 1000000, -1, -1), codec);
        struct bytes large = in_codec(world, batch_of(world, 1, 900000, -1, -1), codec);
        assert_true(bomb.size < 64 * 1024);
        struct produce_response_partition_produce_response out = produce(link, "t", 0, -1, bomb);
        assert_int_equal(out.error_code, KAFKA_MESSAGE_TOO_LARGE);
        assert_non_null(memmem(out.error_message.data, out.error_message.size,
                               "twinlog.batch.opened.size.max", 29));
        out = produce(link, "t", 0, -1, large);
        assert_int_equal(out.error_code, KAFKA_NONE);
        assert_int_equal(out.base_offset, codec - CODEC_GZIP);
    }
    world_destroy(world);
}

static void sizes_are_judged_as_sent_and_as_kept(void **state)
{
    struct world *world = world_create(34, "");
    struct link *link = link_open(world, 0);
    const struct setting small[] = {
        {"compression.type", "uncompressed"}, {"max.message.bytes", "5000"}, {NULL, NULL}};
    create_with(link, "small", small);
    struct bytes zeros = batch_of(world, 1, 6000, -1, -1);
    assert_int_equal(produce(link, "small", 0, -1, zeros).error_code, KAFKA_MESSAGE_TOO_LARGE);
    assert_int_equal(produce(link, "small", 0, -1, in_codec(world, zeros, CODEC_LZ4)).error_code,
                     KAFKA_MESSAGE_TOO_LARGE);
    set_topic(link, "small", "compression.type", "producer");
    assert_int_equal(produce(link, "small", 0, -1, in_codec(world, zeros, CODEC_LZ4)).error_code,
                     KAFKA_NONE);
    const struct setting segment[] = {
        {"segment.bytes", "1048576"}, {"max.message.bytes", "3000000"}, {NULL, NULL}};
    create_with(link, "segment", segment);
    zeros = batch_of(world, 1, 1100000, -1, -1);
    assert_int_equal(produce(link, "segment", 0, -1, zeros).error_code,
                     KAFKA_RECORD_LIST_TOO_LARGE);
    assert_int_equal(produce(link, "segment", 0, -1, in_codec(world, zeros, CODEC_GZIP)).error_code,
                     KAFKA_NONE);
    world_destroy(world);
}

static void zstd_needs_version_7_of_produce(void **state)
{
    struct world *world = world_create(35, "");
    struct link *link = link_open(world, 0);
    const struct setting none[] = {{NULL, NULL}};
    create_with(link, "t", none);
    struct bytes sent = in_codec(world, batch_of(world, 1, 100, -1, -1), CODEC_ZSTD);
    for (int16_t version = 3; version <= 9; version++) {
        struct produce_parts parts;
        struct produce_response response;
        link_call(link, API_PRODUCE, version, produce_of(&parts, "t", 0, -1, sent), &response);
        assert_int_equal(response.responses[0].partition_responses[0].error_code,
                         version < 7 ? KAFKA_UNSUPPORTED_COMPRESSION_TYPE : KAFKA_NONE);
    }
    world_destroy(world);
}

/* I8: light batches behind a heavy one, of one idempotent producer, so that the log would tell. */
static void order_is_kept_behind_a_helper_and_others_go_on(void **state)
{
    enum { ROUNDS = 12 };
    struct world *world = world_create(36, "");
    struct link *link = link_open(world, 0);
    struct link *other = link_open(world, 1);
    const struct setting zstd[] = {{"compression.type", "zstd"}, {NULL, NULL}};
    create_with(link, "t", zstd);
    create_with(link, "other", zstd);
    struct init_producer_id_request ask = init_producer_id_request_default;
    struct init_producer_id_response id;
    link_call(link, API_INIT_PRODUCER_ID, 4, &ask, &id);
    set_slow(world, 50, 400000);
    int overtaken = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct produce_parts parts;
        struct bytes batch = i % 3 == 0 ? noise_batch(world, 200000, id.producer_id, i)
                                        : batch_of(world, 1, 10, id.producer_id, i);
        link_send(link, API_PRODUCE, 9, produce_of(&parts, "t", 0, -1, batch));
        assert_int_equal(produce(other, "other", 0, -1, batch_of(world, 1, 10, -1, -1)).base_offset,
                         i);
        overtaken += link_has_answer(link) ? 0 : 1;
    }
    assert_true(overtaken > 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct produce_response response;
        await_answer(link);
        link_take(link, API_PRODUCE, 9, ROUNDS - 1 - i, &response);
        assert_int_equal(response.responses[0].partition_responses[0].error_code, KAFKA_NONE);
        assert_int_equal(response.responses[0].partition_responses[0].base_offset, i);
    }
    broker_check(world->broker);
    world_destroy(world);
}

/* Three parts to a request, each to a topic of its own: "<prefix>0", "<prefix>1", "<prefix>2". */
enum { PARTS = 3 };

static void send_parts(struct link *link, const char *prefix, struct bytes batch)
{
    char names[PARTS][16];
    struct produce_parts parts;
    struct produce_request request = *produce_of(&parts, "", 0, -1, batch);
    struct produce_request_topic_produce_data topics[PARTS];
    for (int j = 0; j < PARTS; j++) {
        snprintf(names[j], sizeof(names[j]), "%s%d", prefix, j);
        topics[j] = parts.topic;
        topics[j].name = bytes_of(names[j]);
    }
    request.topic_data = topics;
    request.topic_data_count = PARTS;
    link_send(link, API_PRODUCE, 9, &request);
}

/* The next answer, whose parts were appended in their turn. True when requests waited for room. */
static bool take_parts(struct link *link, int behind, int64_t offset)
{
    struct produce_response response;
    struct broker_stats stats;
    bool waited = false;
    for (int i = 0; i < ANSWER_TURNS_MAX && !link_has_answer(link); i++) {
        world_run(link->world, 1);
        broker_stats_get(link->world->broker, &stats);
        waited = waited || stats.waiting_for_room > 0;
    }
    link_take(link, API_PRODUCE, 9, behind, &response);
    for (int j = 0; j < PARTS; j++) {
        const struct produce_response_partition_produce_response *out =
            &response.responses[j].partition_responses[0];
        assert_int_equal(out->error_code, KAFKA_NONE);
        assert_int_equal(out->base_offset, offset);
    }
    return waited;
}

/*
 * One connection's batches come back from the helpers to a log that the others have filled
 * meanwhile. Each part is appended once, in order.
 */
static void helpers_and_a_full_log_together_keep_every_part_once(void **state)
{
    enum { COUNT = 16, HEAVY_EVERY = 4 };
    static const char *const prefixes[LINK_COUNT_MAX] = {"heavy", "a", "b", "c"};
    static const struct setting kinds[2][2] = {{{"compression.type", "lz4"}, {NULL, NULL}},
                                               {{NULL, NULL}}};
    struct world *world = world_create(37, "twinlog.chunk.size=65536\n");
    bool waited = false;
    for (int i = 0; i < LINK_COUNT_MAX; i++) {
        (void)link_open(world, i);
        for (int j = 0; j < PARTS; j++) {
            char name[16];
            snprintf(name, sizeof(name), "%s%d", prefixes[i], j);
            create_with(&world->links[i], name, kinds[i > 0]);
        }
    }
    struct bytes batch = noise_batch(world, 150000, -1, -1);
    set_slow(world, 20000, 200000);
    for (int i = 0; i < COUNT; i++) {
        for (int j = i % HEAVY_EVERY == 0 ? 0 : 1; j < LINK_COUNT_MAX; j++) {
            struct broker_stats stats;
            send_parts(&world->links[j], prefixes[j], batch);
            broker_stats_get(world->broker, &stats);
            waited = waited || stats.waiting_for_room > 0;
        }
    }
    for (int j = 0; j < LINK_COUNT_MAX; j++) {
        int count = j == 0 ? COUNT / HEAVY_EVERY : COUNT;
        for (int i = 0; i < count; i++) {
            bool waits = take_parts(&world->links[j], count - 1 - i, i);
            waited = waited || waits;
        }
    }
    assert_true(waited);
    broker_check(world->broker);
    world_destroy(world);
}

/* The connection closes, the broker stops or dies, while helpers have batches. */
static void a_helper_may_outlive_who_waits_for_it(void **state)
{
    for (uint64_t seed = 40; seed < 52; seed++) {
        struct world *world = world_create(seed, "compression.type=gzip\n");
        const struct setting none[] = {{NULL, NULL}};
        create_with(link_open(world, 0), "t", none);
        struct bytes batch = noise_batch(world, 200000, -1, -1);
        for (int i = 1; i < LINK_COUNT_MAX; i++) {
            (void)link_open(world, i);
        }
        set_slow(world, 50, 400000);
        for (int i = 0; i < LINK_COUNT_MAX; i++) {
            struct produce_parts parts;
            link_send(&world->links[i], API_PRODUCE, 9, produce_of(&parts, "t", 0, -1, batch));
        }
        world_run(world, 1 + (int64_t)(seed % 4) * 60);
        if (seed % 3 == 0) {
            io_stream_close(world->links[0].stream);
            world_run(world, 2000);
        } else if (seed % 3 == 1) {
            world_stop_broker(world);
        } else {
            sim_node_crash(world->node, seed % 2 == 0);
            broker_abandon(world->broker);
            world->broker = NULL;
        }
        world_destroy(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_keeps_batches_in_its_own_codec),
        cmocka_unit_test(the_brokers_clock_and_codec_go_together),
        cmocka_unit_test(a_claimed_max_timestamp_is_corrected),
        cmocka_unit_test(a_bomb_is_refused_and_what_only_looks_like_one_is_not),
        cmocka_unit_test(sizes_are_judged_as_sent_and_as_kept),
        cmocka_unit_test(zstd_needs_version_7_of_produce),
        cmocka_unit_test(order_is_kept_behind_a_helper_and_others_go_on),
        cmocka_unit_test(helpers_and_a_full_log_together_keep_every_part_once),
        cmocka_unit_test(a_helper_may_outlive_who_waits_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
