/*
 * Deleted topics and the journal that still has their batches: a crash after the deletion, before a
 * checkpoint covers it, leaves a journal whose replay writes to a directory that is gone, or that
 * belongs to a younger topic of the same name by now.
 */
#include "test_log_world.h"

#define DELETED_JOURNAL_SIZE (8u << 20)
#define DELETED_BATCH_SIZE   3500u

static struct world *deleted_world(uint64_t seed)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(seed, &options, DELETED_JOURNAL_SIZE);
    world->options.checkpoint_size = DELETED_JOURNAL_SIZE;
    world->options.checkpoint_idle_ms = 1000000;
    world_open(world);
    return world;
}

/* Appends `count` batches and waits for the last. */
static void append_many(struct world *world, int topic, int count)
{
    struct world_append *last = NULL;
    for (int i = 0; i < count; i++) {
        status s = world_try_append(world, topic, 1, DELETED_BATCH_SIZE / 2, &last);
        if (s.code == STATUS_FULL) {
            world_run_ms(world, 5);
            i--;
            continue;
        }
        assert_ok(s);
    }
    world_wait_acked(world, last);
}

/* A checkpoint that counts on files of the topic. */
static void checkpoint_now(struct world *world)
{
    world_run_ms(world, 10); /* A checkpoint is of what is committed. */
    writeback_want_checkpoint(world->log);
    log_kick(world->log);
    world_settle(world);
}

/* Topic 0 has files that a checkpoint counts on, then more in the journal than half the pool. */
static struct world *world_with_deleted(uint64_t seed, int before, int after)
{
    struct world *world = deleted_world(seed);
    world_add(world, 0, 0);
    append_many(world, 0, before);
    checkpoint_now(world);
    append_many(world, 0, after);
    world_remove(world, 0);
    world_run_ms(world, 500);
    assert_int_equal(world->log->job_count, 0);
    return world;
}

static void reopens_and_has_all(struct world *world, bool process_only)
{
    world_crash(world, process_only);
    world_open(world);
    world_verify(world, 3000);
    checkpoint_now(world);
    world_crash(world, process_only);
    world_open(world);
    world_verify(world, 3000);
    world_destroy(world);
}

static void a_start_needs_no_files_of_a_topic_that_its_journal_deletes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        reopens_and_has_all(world_with_deleted(seed, 100, 600), seed % 2 == 0);
    }
}

static void a_start_takes_no_files_of_a_younger_topic_of_the_same_name(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct world *world = world_with_deleted(seed, 100, 600);
        world_add(world, 0, 1);
        append_many(world, 0, seed % 2 == 0 ? 300 : 1000);
        reopens_and_has_all(world, seed % 3 == 0);
    }
}

static void orphans_are_found_again_after_a_crash_while_they_are_removed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world *world = world_with_deleted(seed, 100, 600);
        world_crash(world, false);
        world_open(world);
        sim_run(world->sim, (int64_t)(seed % 20) * WORLD_MS / 20);
        sim_node_doom(world->node, (uint32_t)seed);
        sim_run(world->sim, 50 * WORLD_MS);
        reopens_and_has_all(world, false);
    }
}

static void missing_files_of_a_living_topic_refuse_the_start(void **state)
{
    (void)state;
    struct world *world = deleted_world(1);
    world_add(world, 0, 0);
    append_many(world, 0, 100);
    checkpoint_now(world);
    append_many(world, 0, 600);
    world_crash(world, true);
    assert_ok(segment_remove_all(sim_node_disk(world->node), WORLD_DIR "/topic0-0"));
    status s = world_try_open(world);
    assert_int_equal(s.code, STATUS_CORRUPT);
    world->log = NULL;
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_needs_no_files_of_a_topic_that_its_journal_deletes),
        cmocka_unit_test(a_start_takes_no_files_of_a_younger_topic_of_the_same_name),
        cmocka_unit_test(orphans_are_found_again_after_a_crash_while_they_are_removed),
        cmocka_unit_test(missing_files_of_a_living_topic_refuse_the_start),
    };
    trace_set_level(TRACE_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
