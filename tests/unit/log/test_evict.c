/* Chunks are given up while somebody counts on what they hold. */
#include "test_log_world.h"

#define EVICT_CHUNKS 8

static struct world *evict_world(void)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(1, &options, 4u << 20);
    world->options.chunk_size = 4096; /* A frame each. */
    world->options.chunk_count = EVICT_CHUNKS;
    world->options.frame_size_max = 4096;
    world->options.checkpoint_idle_ms = 1000000;
    world_open(world);
    return world;
}

/*
 * With as many partitions as chunks, and a chunk for each batch, the chunk that has to go for the
 * next batch of a partition is the one with its last: the tail is empty in the middle of an append.
 */
static void an_append_may_evict_the_last_batch_of_its_own_partition(void **state)
{
    (void)state;
    for (int topics = EVICT_CHUNKS / 2; topics <= WORLD_TOPICS; topics++) {
        struct world *world = evict_world();
        for (int topic = 0; topic < topics; topic++) {
            world_add(world, topic, 0);
        }
        for (int i = 0; i < 5 * topics; i++) {
            struct world_append *append = NULL;
            assert_ok(world_try_append(world, i % topics, 1, WORLD_BATCH_MAX / 2, &append));
            world_wait_acked(world, append);
            writeback_want_checkpoint(world->log);
            log_kick(world->log);
            world_settle(world);
        }
        world_close(world);
        world_destroy(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_append_may_evict_the_last_batch_of_its_own_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
