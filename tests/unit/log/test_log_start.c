/*
 * Log starts that move: when they take effect, which files go and when, what a crash leaves; and
 * where leader epochs begin and end, which is worked out from what is left.
 */
#include "test_log_world.h"

#include "epochs.h"
#include "segment.h"

#define SEEDS_DEFAULT 60

static struct world *small_segments(uint64_t seed)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(seed, &options, 256u << 10);
    world->config.segment_size = 2000;
    return world;
}

static void append_many(struct world *world, int topic, int count)
{
    struct world_append *last = NULL;
    for (int i = 0; i < count; i++) {
        last = world_append(world, topic);
        world_run_ms(world, 1);
    }
    world_wait_acked(world, last);
}

static void checkpoint_now(struct world *world)
{
    world->log->writeback.checkpoint_wanted = true;
    log_kick(world->log);
    world_settle(world);
}

static void delete_before(struct world *world, int topic, int64_t offset)
{
    uint64_t lsn;
    assert_ok(log_delete_before(world->log, world->topics[topic].partition, offset, &lsn));
    for (int i = 0; i < 1000 && world->log->committed_lsn < lsn; i++) {
        world_run_ms(world, 1);
    }
    assert_true(world->log->committed_lsn >= lsn);
}

static uint32_t files_count(struct world *world, int topic, int64_t *first, uint64_t *size)
{
    struct segment *segments;
    uint32_t count;
    assert_ok(
        segment_list(io_disk(world->io), world->topics[topic].partition->dir, &segments, &count));
    *first = count > 0 ? segments[0].base_offset : -1;
    *size = 0;
    for (uint32_t i = 0; i < count; i++) {
        *size += segments[i].size;
    }
    free(segments);
    return count;
}

static void a_log_start_moves_when_it_is_committed(void **state)
{
    struct world *world = small_segments(1);
    world_open(world);
    world_add(world, 0, 0);
    append_many(world, 0, 10);
    struct partition *partition = world->topics[0].partition;
    uint64_t lsn;
    assert_ok(log_delete_before(world->log, partition, 4, &lsn));
    assert_true(lsn > world->log->committed_lsn);
    assert_int_equal(log_partition_offsets(partition).log_start, 0);
    world_run_ms(world, 50);
    assert_int_equal(log_partition_offsets(partition).log_start, 4);
    assert_ok(log_delete_before(world->log, partition, 3, &lsn));
    assert_int_equal(lsn, 0);
    struct log_read read;
    world_read(world, 0, 3, 1000, true, &read);
    assert_int_equal(read.result.code, STATUS_NOT_FOUND);
    assert_int_equal(world_scan(world, 0, 1000, NULL, NULL), 6);
    delete_before(world, 0, 10);
    assert_int_equal(world_scan(world, 0, 1000, NULL, NULL), 0);
    append_many(world, 0, 3);
    assert_int_equal(world_scan(world, 0, 1000, NULL, NULL), 3);
    world_close(world);
    world_destroy(world);
}

static void files_below_go_but_for_what_a_recovery_needs(void **state)
{
    struct world *world = small_segments(2);
    world->options.checkpoint_idle_ms = 1000000;
    world_open(world);
    world_add(world, 0, 0);
    append_many(world, 0, 100);
    checkpoint_now(world);
    int64_t first;
    uint64_t size;
    uint32_t before = files_count(world, 0, &first, &size);
    assert_true(before > 5);
    assert_int_equal(size, log_partition_size(world->topics[0].partition));
    delete_before(world, 0, 60);
    world_run_ms(world, 100);
    uint32_t after = files_count(world, 0, &first, &size);
    assert_true(after < before);
    assert_true(first > 30 && first <= 60);
    assert_int_equal(size, log_partition_size(world->topics[0].partition));
    /* What is written after the checkpoint stays until the next one, whatever the log start. */
    append_many(world, 0, 100);
    delete_before(world, 0, 200);
    world_run_ms(world, 100);
    world_crash(world, false);
    world_open(world);
    assert_int_equal(log_partition_offsets(world->topics[0].partition).log_start, 200);
    assert_int_equal(log_partition_offsets(world->topics[0].partition).log_end, 200);
    append_many(world, 0, 20);
    checkpoint_now(world);
    world_run_ms(world, 100);
    assert_true(files_count(world, 0, &first, &size) <= 4);
    assert_int_equal(size, log_partition_size(world->topics[0].partition));
    assert_int_equal(world_scan(world, 0, 1000, NULL, NULL), 20);
    world_close(world);
    world_destroy(world);
}

/* ---------------------------------------------------------------- epochs */

struct epoch_case {
    int32_t asked;
    int32_t epoch;
    int64_t end;
};

static void assert_epochs(struct world *world, const struct epoch_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct log_epoch end;
        bool is_known = log_epoch_end(world->topics[0].partition, cases[i].asked, &end);
        assert_int_equal(is_known, cases[i].epoch >= 0);
        if (end.epoch != cases[i].epoch || end.end_offset != cases[i].end) {
            fail_msg("epoch %d: (%d, %lld)", cases[i].asked, end.epoch, (long long)end.end_offset);
        }
    }
}

static void epochs_are_known_over_restarts_crashes_and_deletions(void **state)
{
    static const struct epoch_case first[] = {{0, 0, 0}, {1, 1, 5}, {2, -1, -1}, {-1, -1, -1}};
    static const struct epoch_case later[] = {{0, 0, 0}, {1, 1, 5}, {2, 1, 5},
                                              {3, 3, 8}, {4, 4, 9}, {5, -1, -1}};
    static const struct epoch_case cut[] = {{1, 1, 7}, {2, 2, 7}, {3, 3, 8}, {5, 4, 9}, {6, 6, 9}};
    static const struct epoch_case none[] = {{1, 1, 9}, {4, 4, 9}, {7, 6, 10}};
    struct world *world = small_segments(3);
    world_open(world); /* epoch 1 */
    world_add(world, 0, 0);
    append_many(world, 0, 5);
    assert_epochs(world, first + 1, 2);
    assert_int_equal(log_epoch_at(world->topics[0].partition, 3), 1);
    world_close(world);
    world_open(world); /* 2: nothing is appended */
    world_crash(world, false);
    world_open(world); /* 3 */
    append_many(world, 0, 3);
    world_crash(world, false);
    world_open(world); /* 4 */
    append_many(world, 0, 1);
    assert_epochs(world, later, COUNT_OF(later));
    assert_int_equal(log_epoch_at(world->topics[0].partition, 4), 1);
    assert_int_equal(log_epoch_at(world->topics[0].partition, 5), 3);
    assert_int_equal(log_epoch_at(world->topics[0].partition, 8), 4);
    world_settle(world);
    delete_before(world, 0, 7);
    world_crash(world, false);
    world_open(world); /* 5 */
    world_close(world);
    world_open(world); /* 6 */
    assert_epochs(world, cut + 2, 3);
    assert_int_equal(log_epoch_at(world->topics[0].partition, 7), 3);
    delete_before(world, 0, 9);
    append_many(world, 0, 1);
    world_close(world);
    world_open(world); /* 7 */
    assert_epochs(world, none, 2);
    assert_epochs(world, &(const struct epoch_case){7, 7, 10}, 1);
    assert_epochs(world, &(const struct epoch_case){6, 6, 10}, 1);
    world_close(world);
    world_destroy(world);
}

static void epochs_that_are_no_list_are_refused(void **state)
{
    static const struct {
        struct epoch_start items[3];
        bool fine;
    } cases[] = {
        {{{1, 0}, {2, 5}, {4, 9}}, true},   {{{1, 0}, {1, 5}, {4, 9}}, false},
        {{{1, 0}, {2, 0}, {4, 9}}, false},  {{{1, -1}, {2, 5}, {4, 9}}, false},
        {{{1, 0}, {2, 5}, {4, 11}}, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct epochs epochs = {(struct epoch_start *)cases[i].items, 3, 3};
        uint8_t bytes[3 * EPOCHS_ENTRY_SIZE];
        uint32_t count;
        assert_ptr_equal(epochs_encode(&epochs, 100, bytes, &count), bytes + sizeof(bytes));
        assert_int_equal(count, 3);
        struct bytes input = {bytes, sizeof(bytes)};
        struct epochs read;
        assert_int_equal(status_is_ok(epochs_decode(&input, 3, 10, &read)), cases[i].fine);
        assert_int_equal(read.count, cases[i].fine ? 3 : 0);
        epochs_fini(&read);
        input = (struct bytes){bytes, sizeof(bytes) - 1};
        assert_int_equal(epochs_decode(&input, 3, 10, &read).code, STATUS_TRUNCATED);
    }
}

/* ---------------------------------------------------------------- random runs */

#define RUN_TOPICS 3

struct run {
    struct world *world;
    int64_t acked_start[RUN_TOPICS];
    int64_t asked_start[RUN_TOPICS];
    int64_t log_end[RUN_TOPICS];
    uint64_t moved;
};

static void run_delete(struct run *run, int topic)
{
    struct partition *partition = run->world->topics[topic].partition;
    struct partition_offsets offsets = log_partition_offsets(partition);
    uint64_t span = (uint64_t)(offsets.high_watermark - offsets.log_start) + 1;
    int64_t offset = offsets.log_start + (int64_t)(sim_random(run->world->sim) % span);
    uint64_t lsn;
    status s = log_delete_before(run->world->log, partition, offset, &lsn);
    if (!status_is_ok(s)) {
        assert_int_equal(s.code, STATUS_FULL);
        return;
    }
    run->asked_start[topic] = MAX(run->asked_start[topic], offset);
    if (sim_random(run->world->sim) % 2 == 0) {
        for (int i = 0; i < 1000 && run->world->log->committed_lsn < lsn; i++) {
            sim_run(run->world->sim, WORLD_MS);
        }
        run->acked_start[topic] = MAX(run->acked_start[topic], offset);
        run->moved++;
    }
}

/* All that is acknowledged and not below the log start is there. */
static void run_check(struct run *run)
{
    struct world *world = run->world;
    for (int topic = 0; topic < RUN_TOPICS; topic++) {
        struct partition_offsets offsets = log_partition_offsets(world->topics[topic].partition);
        assert_true(offsets.log_start >= run->acked_start[topic]);
        assert_true(offsets.log_start <= run->asked_start[topic]);
        run->acked_start[topic] = offsets.log_start;
        run->asked_start[topic] = offsets.log_start;
        struct world_verify verify = {.world = world, .topic = topic};
        for (int i = 0; i < world->append_count; i++) {
            world->appends[i].found = false;
        }
        world_scan(world, topic, 3000, world_verify_batch, &verify);
        for (int i = 0; i < world->append_count; i++) {
            const struct world_append *append = &world->appends[i];
            if (append->topic == topic && append->acked) {
                assert_int_equal(append->found, append->base_offset >= offsets.log_start);
            }
        }
        for (int i = 0; i < world->append_count; i++) {
            struct world_append *append = &world->appends[i];
            if (append->topic == topic && !append->acked) {
                append->acked = append->found;
                append->topic = append->found ? topic : -2;
            }
        }
    }
}

static void run_life(struct run *run)
{
    struct world *world = run->world;
    int steps = 10 + (int)(sim_random(world->sim) % 80);
    for (int i = 0; i < steps && world->append_count < WORLD_APPENDS_MAX - 8; i++) {
        int topic = (int)(sim_random(world->sim) % RUN_TOPICS);
        uint64_t kind = sim_random(world->sim) % 10;
        if (kind == 0) {
            run_delete(run, topic);
        } else if (kind == 1 &&
                   run->asked_start[topic] ==
                       log_partition_offsets(world->topics[topic].partition).log_start) {
            world_scan(world, topic, 2000, NULL, NULL);
        } else {
            for (uint64_t n = sim_random(world->sim) % 6; n > 0; n--) {
                status s = world_try_append(world, topic, 1,
                                            (uint32_t)(sim_random(world->sim) % 900), NULL);
                assert_true(status_is_ok(s) || s.code == STATUS_FULL);
            }
        }
        sim_run(world->sim, (int64_t)(sim_random(world->sim) % 3000000));
        log_check(world->log);
    }
}

static uint64_t run_seed(uint64_t seed)
{
    struct sim_options options = world_sim_options();
    static const uint32_t segment_sizes[] = {1500, 3000, 20000};
    struct run run = {.world = world_create(seed, &options, (128u << 10) << seed % 3)};
    struct world *world = run.world;
    world->config.segment_size = segment_sizes[seed / 3 % 3];
    world->options.checkpoint_idle_ms = seed % 2 == 0 ? 5 : 0;
    world->options.checkpoint_size = seed % 4 == 1 ? 32u << 10 : 0;
    world_open(world);
    for (int topic = 0; topic < RUN_TOPICS; topic++) {
        world_add(world, topic, 0);
    }
    for (int life = 0; life < 6; life++) {
        run_life(&run);
        if (sim_random(world->sim) % 4 == 0) {
            world_close(world);
            world->io = sim_node_io(world->node);
        } else {
            world_crash(world, sim_random(world->sim) % 3 == 0);
        }
        world_open(world);
        run_check(&run);
    }
    uint64_t moved = run.moved;
    world_close(world);
    world_destroy(world);
    return moved;
}

static void random_runs_lose_nothing_above_the_log_start(void **state)
{
    const char *one = getenv("TWINLOG_SEED");
    const char *many = getenv("TWINLOG_SEEDS");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t count = one != NULL ? 1 : many != NULL ? strtoull(many, NULL, 10) : SEEDS_DEFAULT;
    uint64_t moved = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (getenv("TWINLOG_VERBOSE") != NULL) {
            print_message("seed %llu\n", (unsigned long long)seed);
        }
        moved += run_seed(seed);
    }
    assert_true(moved > 0);
}

int main(void)
{
    trace_set_level(TRACE_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_start_moves_when_it_is_committed),
        cmocka_unit_test(files_below_go_but_for_what_a_recovery_needs),
        cmocka_unit_test(epochs_are_known_over_restarts_crashes_and_deletions),
        cmocka_unit_test(epochs_that_are_no_list_are_refused),
        cmocka_unit_test(random_runs_lose_nothing_above_the_log_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
