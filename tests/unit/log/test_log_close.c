/* Closing while something is wrong: it ends, with what is wrong as its result. */
#include "test_log_world.h"

static void append_until_full(struct world *world, int topic)
{
    static uint8_t buffer[1u << 20];
    static const uint8_t value[60000];
    struct batch_builder builder;
    struct batch_header header;
    struct log_appended appended;
    batch_builder_init(&builder, buffer, sizeof(buffer));
    for (int i = 0; i < 10; i++) {
        assert_ok(batch_builder_add(&builder, 1, BYTES_NULL, (struct bytes){value, sizeof(value)}));
    }
    struct bytes batch = batch_builder_finish(&builder, -1, -1, -1, 0);
    assert_ok(batch_header_read(batch, &header));
    for (int i = 0; i < 200; i++) {
        struct partition *partition = world->topics[topic].partition;
        status s = log_append(world->log, partition, batch, &header, &appended);
        assert_true(status_is_ok(s) || s.code == STATUS_FULL);
        io_timer_start(world->io, &world->poke, 0, world_on_poke);
        world_run_ms(world, 2);
    }
}

static void a_full_disk_does_not_keep_a_log_with_much_to_write_from_closing(void **state)
{
    (void)state;
    struct sim_options options = world_sim_options();
    struct world *world = world_create(1, &options, 64u << 20);
    world->options.chunk_size = 1u << 20;
    world->options.chunk_count = 48;
    world_open(world);
    world_add(world, 0, 0);
    options.disk_size = 65u << 20;
    sim_set_options(world->sim, &options);
    append_until_full(world, 0);
    assert_true(world->log->dirty_bytes > WRITEBACK_JOB_SIZE);
    struct world_append *last = NULL;
    status s = world_try_append(world, 0, 1, 100, &last);
    assert_true(status_is_ok(s) || s.code == STATUS_FULL);
    int64_t log_end = log_partition_offsets(world->topics[0].partition).log_end;
    world_close(world);
    assert_int_equal(world->close_result.code, STATUS_NO_SPACE);
    options.disk_size = 0;
    sim_set_options(world->sim, &options);
    world_open(world);
    int64_t high_watermark = log_partition_offsets(world->topics[0].partition).high_watermark;
    assert_int_equal(high_watermark, log_end);
    world_close(world);
    assert_ok(world->close_result);
    world_destroy(world);
}

static void an_offline_log_closes_after_its_journal_writes(void **state)
{
    (void)state;
    struct sim_options options = world_sim_options();
    struct world *world = world_create(2, &options, 1u << 20);
    world_open(world);
    world_add(world, 0, 0);
    world_wait_acked(world, world_append(world, 0));
    options.disk_write_us_min = 2000000;
    options.disk_write_us_max = 2000000;
    sim_set_options(world->sim, &options);
    world_append(world, 0);
    sim_run(world->sim, WORLD_MS);
    assert_false(journal_is_idle(world->log->journal));
    options.sync_error_chance = 10000;
    sim_set_options(world->sim, &options);
    writeback_want_checkpoint(world->log);
    log_kick(world->log);
    world_run_ms(world, 100);
    assert_int_equal(world->offline_count, 1);
    world_close(world); /* Frees the log, which a write in flight would write to. */
    assert_int_equal(world->close_result.code, STATUS_IO);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_does_not_keep_a_log_with_much_to_write_from_closing),
        cmocka_unit_test(an_offline_log_closes_after_its_journal_writes),
    };
    trace_set_level(TRACE_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
