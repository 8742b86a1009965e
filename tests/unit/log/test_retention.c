/*
 * Which segments are past retention.ms and retention.bytes and when they go, the active one as
 * well; what a restart, a crash and a removal in the middle leave.
 */
#include "test_log_world.h"

#include "segment.h"

#define SEEDS_DEFAULT 40
#define CHECK_MS      INT64_C(1000)
#define HOUR_MS       INT64_C(3600000)

static struct world *retention_world(uint64_t seed, int64_t ms, int64_t size)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(seed, &options, 256u << 10);
    world->config.segment_size = 2000;
    world->config.is_deleted = true;
    world->config.retention_ms = ms;
    world->config.retention_size = size;
    world->options.retention_check_ms = CHECK_MS;
    world->options.checkpoint_idle_ms = 100;
    world->next_timestamp = io_wall_ms(world->io);
    world_open(world);
    world_add(world, 0, 0);
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
    world_settle(world);
}

/* Lets some walks go by, and what follows from them. */
static void look(struct world *world)
{
    world_run_ms(world, 4 * CHECK_MS);
    world_settle(world);
}

static void pass_ms(struct world *world, int64_t ms)
{
    sim_node_jump_clock(world->node, ms);
    world->next_timestamp = io_wall_ms(world->io);
}

static struct partition_offsets offsets_of(struct world *world)
{
    return log_partition_offsets(world->topics[0].partition);
}

/* The files that are there; their bytes are what the log says. */
static uint32_t files_count(struct world *world, int64_t *first)
{
    struct partition *partition = world->topics[0].partition;
    struct segment *segments;
    uint32_t count;
    uint64_t size = 0;
    assert_ok(segment_list(io_disk(world->io), partition->dir, &segments, &count));
    for (uint32_t i = 0; i < count; i++) {
        size += segments[i].size;
    }
    assert_int_equal(size, log_partition_size(partition));
    *first = count > 0 ? segments[0].base_offset : -1;
    free(segments);
    return count;
}

static void segments_whose_newest_record_is_too_old_go(void **state)
{
    struct world *world = retention_world(1, HOUR_MS, -1);
    append_many(world, 0, 40);
    pass_ms(world, HOUR_MS / 2);
    append_many(world, 0, 40);
    look(world);
    assert_int_equal(offsets_of(world).log_start, 0);
    pass_ms(world, HOUR_MS / 2 + 10000);
    look(world);
    /* The segment with records of both times stays. */
    int64_t first;
    int64_t start = offsets_of(world).log_start;
    assert_true(start > 20 && start <= 40);
    assert_true(files_count(world, &first) > 2);
    assert_int_equal(first, start);
    assert_int_equal(world_scan(world, 0, 1000, NULL, NULL), 80 - start);
    struct log_stats stats;
    log_stats_get(world->log, &stats);
    assert_true(stats.segments_deleted >= 2 && stats.segment_bytes_deleted > 2000);
    /* What is known of the others is not forgotten. */
    const struct partition *partition = world->topics[0].partition;
    for (uint32_t i = 0; i < partition->segment_count; i++) {
        assert_true(partition->segments[i].max_timestamp >= 0);
    }
    world_close(world);
    world_destroy(world);
}

static void an_idle_log_is_emptied_to_its_last_byte_and_goes_on(void **state)
{
    struct world *world = retention_world(2, HOUR_MS, -1);
    int64_t first;
    append_many(world, 0, 50);
    pass_ms(world, HOUR_MS + 10000);
    look(world);
    assert_int_equal(offsets_of(world).log_start, 50);
    assert_int_equal(files_count(world, &first), 1);
    assert_int_equal(first, 50);
    assert_int_equal(log_partition_size(world->topics[0].partition), 0);
    world_run_ms(world, 3 * CHECK_MS);
    /* An empty segment is not rolled again and again. */
    uint64_t lsn = journal_next_lsn(world->log->journal);
    look(world);
    assert_int_equal(journal_next_lsn(world->log->journal), lsn);
    world_crash(world, false);
    world_open(world);
    assert_int_equal(offsets_of(world).log_start, 50);
    assert_int_equal(offsets_of(world).log_end, 50);
    world_settle(world);
    assert_int_equal(files_count(world, &first), 1);
    append_many(world, 0, 20);
    assert_int_equal(world_scan(world, 0, 1000, NULL, NULL), 20);
    files_count(world, &first);
    assert_int_equal(first, 50);
    world_close(world);
    world_open(world);
    assert_int_equal(world_scan(world, 0, 1000, NULL, NULL), 20);
    world_close(world);
    world_destroy(world);
}

static void the_next_batch_fills_the_empty_segment(void **state)
{
    struct world *world = retention_world(11, HOUR_MS, -1);
    int64_t first;
    append_many(world, 0, 10);
    pass_ms(world, HOUR_MS + 10000);
    look(world);
    assert_int_equal(files_count(world, &first), 1);
    append_many(world, 0, 5);
    assert_int_equal(files_count(world, &first), 1);
    assert_int_equal(first, 10);
    assert_int_equal(world->topics[0].partition->segment_count, 1);
    assert_int_equal(world_scan(world, 0, 1000, NULL, NULL), 5);
    pass_ms(world, HOUR_MS + 10000);
    look(world);
    files_count(world, &first);
    assert_int_equal(first, 15);
    world_close(world);
    world_destroy(world);
}

static void records_in_memory_keep_the_active_segment(void **state)
{
    struct world *world = retention_world(3, HOUR_MS, 0);
    world->config.segment_size = 1u << 20;
    world->config.retention_size = -1;
    log_partition_configure(world->topics[0].partition, &world->config);
    append_many(world, 0, 3);
    world->log->options.checkpoint_idle_ms = 1000000;
    world->log->options.checkpoint_size = 1u << 20;
    for (int i = 0; i < 10; i++) {
        world_append(world, 0);
        world_run_ms(world, 1);
    }
    pass_ms(world, HOUR_MS + 10000);
    world_run_ms(world, 4 * CHECK_MS);
    assert_int_equal(world->topics[0].partition->written_end, 3);
    assert_int_equal(offsets_of(world).log_start, 0);
    world_crash(world, false);
    world_open(world);
    assert_int_equal(world_scan(world, 0, 1000, NULL, NULL), 13);
    world_close(world);
    world_destroy(world);
}

static void the_oldest_segments_go_while_what_remains_is_large_enough(void **state)
{
    struct world *world = retention_world(4, -1, 7000);
    int64_t first;
    append_many(world, 0, 100);
    look(world);
    uint64_t size = log_partition_size(world->topics[0].partition);
    assert_true(size >= 7000 && size < 9000);
    files_count(world, &first);
    assert_int_equal(first, offsets_of(world).log_start);
    assert_true(first > 0);
    /* retention.bytes=0 takes all of it, the active one too. */
    world->config.retention_size = 0;
    log_partition_configure(world->topics[0].partition, &world->config);
    look(world);
    assert_int_equal(offsets_of(world).log_start, 100);
    assert_int_equal(log_partition_size(world->topics[0].partition), 0);
    world_close(world);
    world_destroy(world);
}

static void without_a_limit_nothing_goes_and_nothing_is_looked_at(void **state)
{
    static const struct {
        bool is_deleted;
        int64_t ms;
        int64_t size;
    } cases[] = {{true, -1, -1}, {false, 0, 0}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct world *world = retention_world(5, cases[i].ms, cases[i].size);
        world->config.is_deleted = cases[i].is_deleted;
        log_partition_configure(world->topics[0].partition, &world->config);
        append_many(world, 0, 50);
        pass_ms(world, 1000 * HOUR_MS);
        look(world);
        assert_int_equal(offsets_of(world).log_start, 0);
        assert_false(world->log->retention.running);
        /* From now on there is one. */
        world->config.is_deleted = true;
        world->config.retention_ms = HOUR_MS;
        log_partition_configure(world->topics[0].partition, &world->config);
        look(world);
        assert_int_equal(offsets_of(world).log_start, 50);
        world_close(world);
        world_destroy(world);
    }
}

static void timestamps_of_the_future_are_never_too_old(void **state)
{
    struct world *world = retention_world(6, 0, -1);
    world->next_timestamp += HOUR_MS;
    append_many(world, 0, 30);
    look(world);
    assert_int_equal(offsets_of(world).log_start, 0);
    pass_ms(world, 2 * HOUR_MS);
    look(world);
    assert_int_equal(offsets_of(world).log_start, 30);
    world_close(world);
    world_destroy(world);
}

static void after_a_start_the_files_tell_how_old_they_are(void **state)
{
    for (int missing = 0; missing < 2; missing++) {
        struct world *world = retention_world(7, HOUR_MS, -1);
        append_many(world, 0, 40);
        pass_ms(world, HOUR_MS / 2);
        append_many(world, 0, 40);
        world_crash(world, false);
        world_open(world);
        struct partition *partition = world->topics[0].partition;
        assert_false(partition->segments_loaded);
        char path[256];
        snprintf(path, sizeof(path), "%s/%020d.timeindex", partition->dir, 0);
        if (missing == 1) {
            assert_ok(io_path_remove(io_disk(world->io), path));
        }
        look(world);
        assert_int_equal(offsets_of(world).log_start, 0);
        assert_true(partition->segments_loaded);
        assert_true(partition->segments[0].max_timestamp >= 0);
        assert_int_equal(partition->segments[1].max_timestamp, -1); /* It was not asked. */
        pass_ms(world, HOUR_MS / 2 + 10000);
        look(world);
        assert_true(offsets_of(world).log_start > 20 && offsets_of(world).log_start <= 40);
        world_close(world);
        world_destroy(world);
    }
}

static void records_without_timestamps_are_as_old_as_their_files(void **state)
{
    struct world *world = retention_world(12, HOUR_MS, -1);
    for (int i = 0; i < 30; i++) {
        world->next_timestamp = -1;
        world_wait_acked(world, world_append(world, 0));
    }
    world_settle(world);
    pass_ms(world, HOUR_MS / 2);
    look(world);
    world_crash(world, false);
    world_open(world);
    look(world);
    assert_int_equal(offsets_of(world).log_start, 0);
    assert_int_equal(world_scan(world, 0, 1000, NULL, NULL), 30);
    pass_ms(world, HOUR_MS / 2 + 10000);
    look(world);
    assert_int_equal(offsets_of(world).log_start, 30);
    assert_int_equal(log_partition_size(world->topics[0].partition), 0);
    world_close(world);
    world_destroy(world);
}

static void more_segments_than_are_asked_at_once_go_in_one_walk(void **state)
{
    struct world *world = retention_world(8, HOUR_MS, -1);
    world->config.segment_size = 150; /* one batch each */
    log_partition_configure(world->topics[0].partition, &world->config);
    append_many(world, 0, 300);
    world_close(world);
    world_open(world);
    /* A listing, so that the walk starts from segments whose age is not known. */
    assert_int_equal(world_scan(world, 0, 1, NULL, NULL), 300);
    pass_ms(world, HOUR_MS + 10000);
    world_run_ms(world, CHECK_MS + 200);
    assert_int_equal(offsets_of(world).log_start, 300);
    look(world);
    int64_t first;
    assert_int_equal(files_count(world, &first), 1);
    struct log_stats stats;
    log_stats_get(world->log, &stats);
    assert_int_equal(stats.segments_deleted, 300);
    world_close(world);
    world_destroy(world);
}

static void what_was_deleted_by_hand_leaves_its_active_segment_to_retention(void **state)
{
    struct world *world = retention_world(9, HOUR_MS, -1);
    int64_t first;
    uint64_t lsn;
    append_many(world, 0, 50);
    assert_ok(log_delete_before(world->log, world->topics[0].partition, 50, &lsn));
    look(world);
    assert_int_equal(offsets_of(world).log_start, 50);
    assert_int_equal(files_count(world, &first), 1);
    assert_true(first < 50);
    pass_ms(world, HOUR_MS + 10000);
    look(world);
    assert_int_equal(files_count(world, &first), 1);
    assert_int_equal(first, 50);
    world_close(world);
    world_destroy(world);
}

static void a_walk_is_in_steps_and_survives_a_removal_of_its_next_partition(void **state)
{
    struct world *world = retention_world(10, HOUR_MS, -1);
    for (int i = 1; i < 1000; i++) {
        struct partition *added;
        struct uuid id = world_topic_id(i + 100, 0);
        assert_ok(log_partition_add(world->log, "many", &id, i, &world->config, &added));
    }
    int steps = 0;
    for (int i = 0; i < 100000 && steps < 5; i++) {
        assert_true(sim_step(world->sim));
        struct partition *next = world->log->retention.next;
        if (next != NULL) {
            steps++;
            log_partition_remove(world->log, next);
            assert_ptr_not_equal(world->log->retention.next, next);
        }
    }
    assert_int_equal(steps, 5);
    world_run_ms(world, CHECK_MS / 2);
    assert_null(world->log->retention.next);
    world_close(world);
    world_destroy(world);
}

/* ---------------------------------------------------------------- random runs */

#define RUN_RETENTION_MS INT64_C(2000)

struct run {
    struct world *world;
    int64_t start;
    int64_t timestamps[WORLD_APPENDS_MAX + 1]; /* by tag */
    uint64_t moved;
};

/* What is not too old is there, and the log start never moves back. */
static void run_check(struct run *run)
{
    struct world *world = run->world;
    struct partition_offsets offsets = offsets_of(world);
    assert_true(offsets.log_start >= run->start);
    run->moved += offsets.log_start > run->start ? 1 : 0;
    run->start = offsets.log_start;
    for (int i = 0; i < world->append_count; i++) {
        world->appends[i].found = false;
    }
    struct world_verify verify = {.world = world, .topic = 0};
    world_scan(world, 0, 3000, world_verify_batch, &verify);
    int64_t now_ms = io_wall_ms(world->io);
    for (int i = 0; i < world->append_count; i++) {
        const struct world_append *append = &world->appends[i];
        if (append->topic == 0 && append->acked) {
            assert_int_equal(append->found, append->base_offset >= offsets.log_start);
            assert_true(append->found || now_ms - run->timestamps[append->tag] > RUN_RETENTION_MS);
        }
    }
    world_settle_lost(world);
}

static void run_life(struct run *run)
{
    struct world *world = run->world;
    int steps = 10 + (int)(sim_random(world->sim) % 60);
    for (int i = 0; i < steps && world->append_count < WORLD_APPENDS_MAX - 8; i++) {
        if (sim_random(world->sim) % 12 == 0) {
            pass_ms(world, (int64_t)(sim_random(world->sim) % (uint64_t)(2 * RUN_RETENTION_MS)));
        }
        for (uint64_t n = sim_random(world->sim) % 4; n > 0; n--) {
            struct world_append *append = NULL;
            world->next_timestamp = io_wall_ms(world->io);
            uint32_t size = (uint32_t)(sim_random(world->sim) % 900);
            status s = world_try_append(world, 0, 1, size, &append);
            assert_true(status_is_ok(s) || s.code == STATUS_FULL);
            if (append != NULL) {
                run->timestamps[append->tag] = world->next_timestamp - 10;
            }
        }
        sim_run(world->sim, (int64_t)(sim_random(world->sim) % 40000000));
        log_check(world->log);
    }
}

static uint64_t run_seed(uint64_t seed)
{
    static const uint32_t segment_sizes[] = {1500, 3000, 20000};
    struct sim_options options = world_sim_options();
    struct run *run = calloc(1, sizeof(*run));
    assert_non_null(run);
    run->world = world_create(seed, &options, (128u << 10) << seed % 3);
    struct world *world = run->world;
    world->config.segment_size = segment_sizes[seed % 3];
    world->config.is_deleted = true;
    world->config.retention_ms = RUN_RETENTION_MS;
    world->config.retention_size = -1;
    world->options.retention_check_ms = 20 + (int64_t)(seed % 5) * 60;
    world->options.checkpoint_idle_ms = seed % 3 == 0 ? 5 : seed % 3 == 1 ? 40 : 2000;
    world->options.chunk_count = seed % 2 == 0 ? 4 : 16; /* few: write-backs between checkpoints */
    world->options.checkpoint_size = seed % 4 == 1 ? 32u << 10 : seed % 4 == 2 ? 96u << 10 : 0;
    world_open(world);
    world_add(world, 0, 0);
    for (int life = 0; life < 6; life++) {
        run_life(run);
        if (sim_random(world->sim) % 4 == 0) {
            world_close(world);
            world->io = sim_node_io(world->node);
        } else {
            run->start = MAX(run->start, offsets_of(world).log_start);
            world_crash(world, sim_random(world->sim) % 3 == 0);
        }
        world_open(world);
        run_check(run);
    }
    uint64_t moved = run->moved;
    world_close(world);
    world_destroy(world);
    free(run);
    return moved;
}

static void random_runs_lose_nothing_that_is_young_enough(void **state)
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
    assert_true(moved >= count / 2);
}

int main(void)
{
    trace_set_level(TRACE_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_whose_newest_record_is_too_old_go),
        cmocka_unit_test(an_idle_log_is_emptied_to_its_last_byte_and_goes_on),
        cmocka_unit_test(the_next_batch_fills_the_empty_segment),
        cmocka_unit_test(records_in_memory_keep_the_active_segment),
        cmocka_unit_test(the_oldest_segments_go_while_what_remains_is_large_enough),
        cmocka_unit_test(without_a_limit_nothing_goes_and_nothing_is_looked_at),
        cmocka_unit_test(timestamps_of_the_future_are_never_too_old),
        cmocka_unit_test(after_a_start_the_files_tell_how_old_they_are),
        cmocka_unit_test(records_without_timestamps_are_as_old_as_their_files),
        cmocka_unit_test(more_segments_than_are_asked_at_once_go_in_one_walk),
        cmocka_unit_test(what_was_deleted_by_hand_leaves_its_active_segment_to_retention),
        cmocka_unit_test(a_walk_is_in_steps_and_survives_a_removal_of_its_next_partition),
        cmocka_unit_test(random_runs_lose_nothing_that_is_young_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
