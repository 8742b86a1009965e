/* Time lookups in compressed batches of the tail: what opens them, and how many are opened. */
#include "test_log_world.h"

enum { OPEN_US = 20000 };

static struct world *slow_world(uint64_t seed)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(seed, &options, 1u << 20);
    world_open(world);
    world_add(world, 0, 0);
    options.offload_us_max = OPEN_US;
    sim_set_options(world->sim, &options);
    return world;
}

/* Appends two records of these times in this codec; the header claims `claimed` as the largest. */
static void append_at(struct world *world, enum codec codec, int64_t first, int64_t second,
                      int64_t claimed)
{
    uint8_t buffer[WORLD_BATCH_MAX];
    uint8_t value[100] = {0};
    uint8_t *made;
    struct batch_header header;
    struct batch_builder builder;
    struct log_appended appended;
    batch_builder_init(&builder, buffer, sizeof(buffer));
    assert_ok(batch_builder_add(&builder, first, BYTES_NULL, (struct bytes){value, 100}));
    assert_ok(batch_builder_add(&builder, second, BYTES_NULL, (struct bytes){value, 100}));
    struct bytes plain = batch_builder_finish(&builder, -1, -1, -1, 0);
    assert_ok(batch_header_read(plain, &header));
    header.max_timestamp = claimed;
    struct bytes inside = {plain.data + BATCH_HEADER_SIZE, plain.size - BATCH_HEADER_SIZE};
    assert_ok(batch_rewrite(plain.data, &header, inside, codec, INT32_MIN, &made));
    assert_ok(log_append(world->log, world->topics[0].partition, (struct bytes){made, header.size},
                         &header, &appended));
    free(made);
    io_timer_start(world->io, &world->poke, 0, world_on_poke);
}

static void on_lookup(struct log_time_lookup *lookup)
{
    *(bool *)lookup->context = true;
}

/* True: the loop did it at once. Otherwise it took one job at most. */
static bool look_up(struct world *world, int64_t timestamp, bool find_max,
                    struct log_time_lookup *lookup)
{
    bool done = false;
    int64_t begun = io_now_ns(world->io);
    *lookup = (struct log_time_lookup){
        .timestamp = timestamp, .find_max = find_max, .fn = on_lookup, .context = &done};
    if (log_time_lookup_start(world->log, world->topics[0].partition, lookup)) {
        assert_ok(lookup->result);
        return true;
    }
    for (int i = 0; i < 10000 && !done; i++) {
        sim_run(world->sim, WORLD_MS / 10);
    }
    assert_true(done);
    assert_ok(lookup->result);
    assert_true(io_now_ns(world->io) - begun <= (OPEN_US + 200) * INT64_C(1000));
    return false;
}

static void a_compressed_batch_is_opened_off_the_loop(void **state)
{
    struct log_time_lookup lookup;
    struct world *world = slow_world(1);
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        append_at(world, codec, 1000 + 10 * codec, 1005 + 10 * codec, 1005 + 10 * codec);
    }
    world_run_ms(world, 10);
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        for (int i = 0; i < 2; i++) {
            int64_t asked = 1000 + 10 * codec + 3 * i;
            assert_int_equal(look_up(world, asked, false, &lookup), codec == CODEC_NONE);
            assert_int_equal(lookup.offset, 2 * codec + i);
            assert_int_equal(lookup.found_timestamp, 1000 + 10 * codec + 5 * i);
            assert_true(lookup.leader_epoch >= 1);
        }
    }
    assert_true(look_up(world, 2000, false, &lookup));
    assert_int_equal(lookup.offset, -1);
    world_close(world);
    world_destroy(world);
}

static void the_largest_time_of_many_batches_costs_one_opening(void **state)
{
    struct log_time_lookup lookup;
    struct world *world = slow_world(2);
    for (int i = 0; i < 100; i++) {
        int64_t at = 1000 + i - (i == 99 ? 1 : 0); /* The last two are as late. */
        append_at(world, CODEC_LZ4, at - 5, at, at);
    }
    world_run_ms(world, 50);
    assert_false(look_up(world, 0, true, &lookup));
    assert_int_equal(lookup.offset, 2 * 98 + 1);
    assert_int_equal(lookup.found_timestamp, 1098);
    world_close(world);
    world_destroy(world);
}

/* Only a foreign log has such: Produce corrects what a client claims. */
static void a_header_that_claims_too_much_hides_nothing(void **state)
{
    static const enum codec codecs[] = {CODEC_NONE, CODEC_GZIP};
    for (size_t i = 0; i < COUNT_OF(codecs); i++) {
        struct log_time_lookup lookup;
        struct world *world = slow_world(3 + i);
        append_at(world, codecs[i], 1000, 1001, 5000);
        append_at(world, CODEC_NONE, 1010, 1011, 1011);
        append_at(world, codecs[i], 1012, 1013, 1011);
        world_run_ms(world, 10);
        look_up(world, 1005, false, &lookup);
        assert_int_equal(lookup.offset, 2);
        look_up(world, 4000, false, &lookup);
        assert_int_equal(lookup.offset, -1);
        look_up(world, 0, true, &lookup);
        assert_int_equal(lookup.offset, 3);
        assert_int_equal(lookup.found_timestamp, 1011);
        world_close(world);
        world_destroy(world);
    }
}

static void a_partition_may_go_while_its_batch_is_opened(void **state)
{
    struct world *world = slow_world(5);
    bool done = false;
    struct log_time_lookup lookup = {.timestamp = 1000, .fn = on_lookup, .context = &done};
    append_at(world, CODEC_ZSTD, 1000, 1001, 1001);
    world_run_ms(world, 10);
    struct sim_options options = world_sim_options();
    options.offload_us_max = 50 * OPEN_US;
    sim_set_options(world->sim, &options);
    assert_false(log_time_lookup_start(world->log, world->topics[0].partition, &lookup));
    world_remove(world, 0);
    assert_false(done);
    world_run_ms(world, 1000);
    assert_true(done);
    assert_int_equal(lookup.result.code, STATUS_NOT_FOUND);
    world_close(world);
    world_destroy(world);
}

static void a_crash_while_a_batch_is_opened_leaves_nothing_behind(void **state)
{
    struct world *world = slow_world(6);
    bool done = false;
    struct log_time_lookup lookup = {.timestamp = 1000, .fn = on_lookup, .context = &done};
    append_at(world, CODEC_ZSTD, 1000, 1001, 1001);
    world_run_ms(world, 10);
    assert_false(log_time_lookup_start(world->log, world->topics[0].partition, &lookup));
    world_crash(world, false);
    assert_false(done);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_compressed_batch_is_opened_off_the_loop),
        cmocka_unit_test(the_largest_time_of_many_batches_costs_one_opening),
        cmocka_unit_test(a_header_that_claims_too_much_hides_nothing),
        cmocka_unit_test(a_partition_may_go_while_its_batch_is_opened),
        cmocka_unit_test(a_crash_while_a_batch_is_opened_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
