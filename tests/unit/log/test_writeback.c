/* Write-back and the space it needs: what a full disk, or one that is nearly so, lets go on. */
#include "test_log_world.h"

/* Until it is told that the disk is full, and then as much as the chunks take. */
static void append_beyond_full(struct world *world)
{
    status s = OK;
    for (int i = 0; i < 3000 && world->disk_full != 1; i++) {
        s = world_try_append(world, 0, 1, 1000, NULL);
        assert_true(status_is_ok(s) || s.code == STATUS_FULL);
        world_run_ms(world, 1);
    }
    assert_int_equal(world->disk_full, 1);
    for (int i = 0; i < 3000 && s.code != STATUS_FULL; i++) {
        s = world_try_append(world, 0, 1, 1000, NULL);
        world_run_ms(world, 1);
    }
    world_run_ms(world, 10);
}

static void a_start_on_a_full_disk_keeps_the_journal_in_memory(void **state)
{
    (void)state;
    struct sim_options options = world_sim_options();
    options.disk_size = (4u << 20) + (512u << 10);
    struct world *world = world_create(1, &options, 4u << 20);
    world_open(world);
    world_add(world, 0, 0);
    append_beyond_full(world);
    for (int life = 0; life < 3; life++) {
        world_crash(world, life > 0);
        world->options.chunk_count = 8;
        world->disk_full = -1;
        world_open(world);
        world_run_ms(world, 1);
        assert_int_equal(world->disk_full, 1);
        assert_true(world->log->pool.count_max > world->options.chunk_count);
        world_verify(world, 1u << 20);
        world_settle_lost(world);
        world_wait_acked(world, world_append(world, 0)); /* As the broker's own records may. */
    }
    options.disk_size = 64u << 20;
    sim_set_options(world->sim, &options);
    world_run_ms(world, 3000);
    assert_int_equal(world->disk_full, 0);
    assert_int_equal(world->offline_count, 0);
    world_settle(world);
    assert_int_equal(world->log->pool.count_max, world->options.chunk_count);
    world_verify(world, 1u << 20);
    world_close(world);
    assert_ok(world->close_result);
    world_open(world);
    world_verify(world, 1u << 20);
    world_close(world);
    world_destroy(world);
}

/* Every start takes a frame, and on a full disk nothing is recycled. */
static void starts_on_a_full_disk_fill_the_journal_and_lose_nothing(void **state)
{
    (void)state;
    struct sim_options options = world_sim_options();
    options.disk_size = (1u << 20) + (256u << 10);
    struct world *world = world_create(3, &options, 1u << 20);
    world_open(world);
    world_add(world, 0, 0);
    append_beyond_full(world);
    status s = OK;
    for (int life = 0; life < 100 && status_is_ok(s); life++) {
        world_crash(world, true);
        s = world_try_open(world);
        world_run_ms(world, 1);
    }
    assert_int_equal(s.code, STATUS_NO_SPACE);
    options.disk_size = 64u << 20;
    sim_set_options(world->sim, &options);
    world_open(world);
    world_run_ms(world, 3000);
    world_settle_lost(world);
    world_verify(world, 1u << 20);
    world_wait_acked(world, world_append(world, 0));
    world_close(world);
    assert_ok(world->close_result);
    world_destroy(world);
}

static void a_start_below_the_reserve_refuses_from_its_first_turn(void **state)
{
    (void)state;
    struct sim_options options = world_sim_options();
    options.disk_size = 3u << 20;
    struct world *world = world_create(2, &options, 1u << 20);
    world->options.disk_reserve_size = 4u << 20;
    world_open(world);
    world_run_ms(world, 1);
    assert_int_equal(world->disk_full, 1);
    options.disk_size = 16u << 20;
    sim_set_options(world->sim, &options);
    world_run_ms(world, 1500);
    assert_int_equal(world->disk_full, 0);
    world_close(world);
    world_destroy(world);
}

static void the_reserve_covers_the_journal(void **state)
{
    (void)state;
    struct sim_options options = world_sim_options();
    struct world *world = world_create(3, &options, 1u << 20);
    world->options.disk_reserve_size = 0;
    world_open(world);
    assert_int_equal(world->log->options.disk_reserve_size, (1u << 20) + (64u << 20));
    world_close(world);
    world_destroy(world);
}

/* Its entries are dropped, its files closed, and the checkpoint goes on with the others. */
static void a_removed_partition_needs_no_sync(void **state)
{
    (void)state;
    struct sim_options options = world_sim_options();
    struct world *world = world_create(4, &options, 4u << 20);
    world->options.checkpoint_idle_ms = 5000;
    world->options.checkpoint_size = 3u << 20;
    world_open(world);
    for (int life = 0; life < 2; life++) {
        for (int topic = 0; topic < 2; topic++) {
            if (life == 0) {
                world_add(world, topic, 0);
            }
            for (int i = 0; i < 300; i++) {
                assert_ok(world_try_append(world, topic, 1, 1000, NULL));
                world_run_ms(world, 1);
            }
        }
        if (life == 1) {
            assert_true(world->log->writeback.sync.count > 0);
            world_remove(world, 0);
        }
        world_settle(world);
        assert_int_equal(world->log->writeback.sync.count, 0);
    }
    world_verify(world, 1u << 20);
    world_close(world);
    assert_ok(world->close_result);
    world_destroy(world);
}

int main(void)
{
    trace_set_level(TRACE_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_on_a_full_disk_keeps_the_journal_in_memory),
        cmocka_unit_test(starts_on_a_full_disk_fill_the_journal_and_lose_nothing),
        cmocka_unit_test(a_start_below_the_reserve_refuses_from_its_first_turn),
        cmocka_unit_test(the_reserve_covers_the_journal),
        cmocka_unit_test(a_removed_partition_needs_no_sync),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
