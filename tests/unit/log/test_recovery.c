/*
 * Crashes at random points, over and over: what was acknowledged is there again, in the same place;
 * what was lost never comes back; producers go on where the log does. The checks prove themselves
 * on deliberate bugs (mutation.h).
 */
#include <sys/wait.h>
#include <unistd.h>

#include "test_log_world.h"

#define RUN_TOPICS      4
#define RUN_LIVES       5
#define RUN_CHANGES_MAX 1024

struct change {
    int append; /* index of its note */
    bool add;
    int topic;
    int generation;
};

/* A topic after a number of changes. */
struct expected {
    bool exists;
    int generation;
};

struct run {
    struct world *world;
    struct change changes[RUN_CHANGES_MAX];
    int change_count;
    int generations[RUN_TOPICS];   /* used so far */
    int counts[WORLD_APPENDS_MAX]; /* records of each append */
    int64_t last_tag;              /* of the scan that is going on */
    bool faults;
    bool is_armed; /* a power cut may come at any disk operation */
    int open_failures;
};

/* What all runs of a test came across: a test that never met it proves nothing. */
struct totals {
    uint64_t acked, lost, crashes, dooms, checkpoints, wraps, rolls, offline, open_failures;
};

static uint64_t below(struct run *run, uint64_t bound)
{
    return sim_random(run->world->sim) % bound;
}

static struct sim_options run_options(uint64_t seed, bool faults)
{
    struct sim_options options = {
        .disk_write_us_min = 30,
        .disk_write_us_max = 30 + (uint32_t)(seed % 7) * 200,
        .disk_stall_chance = seed % 3 == 0 ? 200 : 0,
        .disk_stall_us_max = 20000,
        .offload_us_max = seed % 2 == 0 ? 100 : 10000,
    };
    if (faults) {
        options.write_error_chance = seed % 5 == 0 ? 10 : 0;
        options.sync_error_chance = seed % 5 == 1 ? 50 : 0;
        options.read_error_chance = seed % 5 == 2 ? 10 : 0;
    }
    return options;
}

static struct run *run_create(uint64_t seed, bool faults)
{
    struct run *run = calloc(1, sizeof(*run));
    assert_non_null(run);
    struct sim_options options = run_options(seed, false); /* Formatting meets no faults. */
    static const uint32_t journal_sizes[] = {64u << 10, 128u << 10, 512u << 10};
    static const uint32_t segment_sizes[] = {1500, 20000, 1u << 20};
    run->world = world_create(seed, &options, journal_sizes[seed % 3]);
    run->world->config.segment_size = segment_sizes[seed / 3 % 3];
    run->world->options.chunk_count = 4 + (uint32_t)(seed % 13);
    run->world->options.checkpoint_idle_ms = seed % 4 == 0 ? 3 : 0;
    run->world->options.checkpoint_size = seed % 4 == 1 ? 32u << 10 : 0;
    run->faults = faults;
    return run;
}

/* ---------------------------------------------------------------- workload */

static void run_append(struct run *run)
{
    struct world *world = run->world;
    int topic = (int)below(run, RUN_TOPICS);
    struct partition *partition = world->topics[topic].partition;
    if (partition == NULL || world->append_count == WORLD_APPENDS_MAX) {
        return;
    }
    uint8_t buffer[WORLD_BATCH_MAX];
    struct batch_header header;
    struct log_appended appended;
    int64_t tag = world->append_count + 1;
    int count = 1 + (int)below(run, 3);
    int64_t log_end = log_partition_offsets(partition).log_end;
    /* One producer per topic, so that its sequence is the offset. */
    struct bytes batch = world_batch(buffer, tag, count, (uint32_t)below(run, 1000),
                                     world->next_timestamp, 100 + topic, (int32_t)log_end);
    assert_ok(batch_header_read(batch, &header));
    status s = log_append(world->log, partition, batch, &header, &appended);
    if (!status_is_ok(s)) {
        assert_true(s.code == STATUS_FULL || s.code == STATUS_OFFLINE);
        return;
    }
    assert_int_equal(appended.verdict, LOG_APPENDED); /* Else its state is not that of the log. */
    assert_int_equal(appended.base_offset, log_end);
    world->next_timestamp += 10;
    run->counts[tag] = count;
    world_note(world, topic, tag, &appended);
}

static bool run_is_changing(const struct run *run, int topic)
{
    for (int i = 0; i < run->change_count; i++) {
        const struct world_append *append = &run->world->appends[run->changes[i].append];
        if (run->changes[i].topic == topic && !append->acked) {
            return true;
        }
    }
    return false;
}

static void run_change(struct run *run)
{
    struct world *world = run->world;
    int topic = (int)below(run, RUN_TOPICS);
    bool add = world->topics[topic].partition == NULL;
    if (run_is_changing(run, topic)) {
        return; /* One at a time, as the broker has it. */
    }
    int generation = add ? run->generations[topic] : world->topics[topic].generation;
    if (run->change_count == RUN_CHANGES_MAX || world->append_count == WORLD_APPENDS_MAX ||
        generation > 200 || !status_is_ok(world_try_change(world, add, topic, generation))) {
        return;
    }
    run->generations[topic] += add ? 1 : 0;
    run->changes[run->change_count++] =
        (struct change){world->append_count - 1, add, topic, generation};
}

static void run_read(struct run *run)
{
    int topic = (int)below(run, RUN_TOPICS);
    if (run->world->topics[topic].partition != NULL && !run->faults && !run->is_armed &&
        !run_is_changing(run, topic)) {
        world_scan(run->world, topic, 3000, NULL, NULL);
    }
}

static void run_life(struct run *run)
{
    struct world *world = run->world;
    int steps = 20 + (int)below(run, 120);
    for (int i = 0; i < steps && !sim_node_is_doomed(world->node); i++) {
        uint64_t kind = below(run, 100);
        if (kind < 8) {
            run_change(run);
        } else if (kind < 12) {
            run_read(run);
        } else {
            for (uint64_t n = below(run, 5); n > 0; n--) {
                run_append(run);
            }
        }
        if (below(run, 20) == 0) {
            log_check(world->log);
        }
        sim_run(world->sim, (int64_t)below(run, below(run, 10) == 0 ? 20000000 : 400000));
    }
}

/* ---------------------------------------------------------------- checks */

/* The changes that survived are a prefix that has all acknowledged ones; the rest is forgotten. */
static void run_check_metadata(struct run *run)
{
    struct world *world = run->world;
    struct expected expected[RUN_TOPICS] = {{0}};
    int survived = world->metadata_count;
    assert_true(survived <= run->change_count);
    for (int i = 0; i < run->change_count; i++) {
        const struct change *change = &run->changes[i];
        struct world_append *append = &world->appends[change->append];
        if (i >= survived) {
            assert_false(append->acked);
            append->topic = -2;
            continue;
        }
        append->acked = true;
        expected[change->topic] = (struct expected){change->add, change->generation};
    }
    run->change_count = survived;
    for (int topic = 0; topic < RUN_TOPICS; topic++) {
        assert_int_equal(world->topics[topic].partition != NULL, expected[topic].exists);
        if (expected[topic].exists) {
            assert_int_equal(world->topics[topic].generation, expected[topic].generation);
        }
    }
}

static void note_last(void *context, const struct batch_header *header, int64_t tag)
{
    (void)header;
    ((struct run *)context)->last_tag = tag;
}

/* The last batch again is a duplicate of itself. */
static void run_check_producers(struct run *run)
{
    struct world *world = run->world;
    for (int topic = 0; topic < RUN_TOPICS; topic++) {
        struct partition *partition = world->topics[topic].partition;
        if (partition == NULL || log_partition_offsets(partition).log_end == 0) {
            continue;
        }
        uint8_t buffer[WORLD_BATCH_MAX];
        struct batch_header header;
        struct log_appended appended;
        world_scan(world, topic, 1u << 20, note_last, run);
        int count = run->counts[run->last_tag];
        int64_t base_offset = log_partition_offsets(partition).log_end - count;
        struct bytes batch = world_batch(buffer, run->last_tag, count, 8, world->next_timestamp,
                                         100 + topic, (int32_t)base_offset);
        assert_ok(batch_header_read(batch, &header));
        assert_ok(log_append(world->log, partition, batch, &header, &appended));
        assert_int_equal(appended.verdict, LOG_DUPLICATE);
        assert_int_equal(appended.base_offset, base_offset);
    }
}

static void run_check(struct run *run, struct totals *totals)
{
    struct world *world = run->world;
    run_check_metadata(run);
    for (int topic = 0; topic < RUN_TOPICS; topic++) {
        if (world->topics[topic].partition != NULL) {
            struct partition_offsets offsets =
                log_partition_offsets(world->topics[topic].partition);
            assert_int_equal(offsets.high_watermark, offsets.log_end);
        }
    }
    world_verify(world, 1u << 20);
    totals->lost += (uint64_t)world_settle_lost(world);
    run_check_producers(run);
}

/* ---------------------------------------------------------------- a run */

static void run_open(struct run *run, uint64_t seed)
{
    struct world *world = run->world;
    struct sim_options options = run_options(seed, run->faults);
    sim_set_options(world->sim, &options);
    if (below(run, 3) == 0) {
        sim_node_doom(world->node, (uint32_t)below(run, 60)); /* A power cut during recovery. */
    }
    for (int i = 0; i < 20; i++) {
        status s = world_try_open(world);
        if (status_is_ok(s)) {
            return;
        }
        assert_true(s.code == STATUS_IO || s.code == STATUS_NO_SPACE);
        run->open_failures++;
        options = run_options(seed, false);
        sim_set_options(world->sim, &options);
        world_crash(world, false);
    }
    fail_msg("the log does not open");
}

static void run_end_life(struct run *run, struct totals *totals)
{
    struct world *world = run->world;
    struct log_stats stats;
    log_stats_get(world->log, &stats);
    totals->checkpoints += stats.checkpoints;
    totals->wraps += stats.frame_bytes > stats.journal_size ? 1 : 0;
    totals->offline += world->log->offline ? 1 : 0;
    totals->dooms += sim_node_is_doomed(world->node) ? 1 : 0;
    bool can_close = !run->is_armed && !run->faults;
    if (can_close && below(run, 5) == 0) {
        world_close(world);
        for (int i = 0; i < world->append_count; i++) {
            assert_true(world->appends[i].acked || world->appends[i].topic == -2);
        }
        return;
    }
    totals->crashes++;
    world_crash(world, below(run, 4) == 0);
}

static void run_seed(uint64_t seed, bool faults, struct totals *totals)
{
    struct run *run = run_create(seed, faults);
    struct world *world = run->world;
    for (int life = 0; life < RUN_LIVES; life++) {
        run_open(run, seed);
        struct sim_options quiet = run_options(seed, false);
        sim_set_options(world->sim, &quiet);
        bool is_cut = sim_node_is_doomed(world->node); /* Right behind the open. */
        if (!is_cut) {
            sim_node_doom(world->node, UINT32_MAX);
            run_check(run, totals);
        }
        struct sim_options options = run_options(seed, faults);
        sim_set_options(world->sim, &options);
        run->is_armed = is_cut || below(run, 3) == 0;
        if (run->is_armed && !is_cut) {
            sim_node_doom(world->node, 1 + (uint32_t)below(run, 400));
        }
        run_life(run);
        run_end_life(run, totals);
    }
    struct sim_options quiet = run_options(seed, false);
    sim_set_options(world->sim, &quiet);
    run->faults = false;
    world_open(world);
    run_check(run, totals);
    world_settle(world);
    world_verify(world, 1u << 20);
    totals->acked += (uint64_t)world->acked_count;
    totals->open_failures += (uint64_t)run->open_failures;
    world_close(world);
    world_destroy(world);
    free(run);
}

/* TWINLOG_SEED runs one seed and says what it does; TWINLOG_SEEDS sets how many. */
static void run_seeds(uint64_t count, bool faults, struct totals *totals)
{
    const char *one = getenv("TWINLOG_SEED");
    const char *many = getenv("TWINLOG_SEEDS");
    uint64_t first = one == NULL ? 1 : strtoull(one, NULL, 10);
    count = one != NULL ? 1 : many != NULL ? strtoull(many, NULL, 10) : count;
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (getenv("TWINLOG_VERBOSE") != NULL) {
            fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        }
        run_seed(seed, faults, totals);
    }
}

static void what_was_acknowledged_survives_crashes_at_random_points(void **state)
{
    struct totals totals = {0};
    run_seeds(200, false, &totals);
    if (getenv("TWINLOG_SEED") == NULL) {
        assert_true(totals.acked > 10000);
        assert_true(totals.lost > 100);
        assert_true(totals.crashes > 100);
        assert_true(totals.dooms > 20);
        assert_true(totals.checkpoints > 200);
        assert_true(totals.wraps > 50);
        assert_true(totals.open_failures > 20);
    }
}

static void what_was_acknowledged_survives_disks_that_fail(void **state)
{
    struct totals totals = {0};
    run_seeds(100, true, &totals);
    if (getenv("TWINLOG_SEED") == NULL) {
        assert_true(totals.acked > 3000);
        assert_true(totals.offline > 20);
    }
}

/* ---------------------------------------------------------------- mutations */

#if TWINLOG_FAULTS
static void mutation_switch_on(enum log_mutation mutation)
{
    journal_mutate(mutation, true);
}
#else
static void mutation_switch_on(enum log_mutation mutation)
{
    (void)mutation;
}
#endif

/* Runs seeds in a child with a bug switched on: true when a check caught it. */
static bool mutation_is_caught(enum log_mutation mutation, uint64_t seeds)
{
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct totals totals = {0};
        setenv("CMOCKA_TEST_ABORT", "1", 1); /* A failed check ends the child. */
        assert_non_null(freopen("/dev/null", "w", stderr));
        assert_non_null(freopen("/dev/null", "w", stdout));
        mutation_switch_on(mutation);
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            run_seed(seed, false, &totals);
        }
        _exit(0);
    }
    int wait_status = 0;
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    return !WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0;
}

static void every_deliberate_bug_is_caught(void **state)
{
    static const struct {
        enum log_mutation mutation;
        const char *name;
    } cases[] = {
        {MUTATION_RECYCLE_EARLY, "recycle before the checkpoint is synced"},
        {MUTATION_KEEP_OVERLAY, "pending producers in the checkpoint"},
        {MUTATION_ACK_BEFORE_SYNC, "acknowledge before the sync"},
        {MUTATION_REUSE_LSN, "no new generation at a start"},
    };
    if (!TWINLOG_FAULTS) {
        skip();
    }
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (!mutation_is_caught(cases[i].mutation, 200)) {
            fail_msg("not caught: %s", cases[i].name);
        }
    }
    assert_false(mutation_is_caught(MUTATION_NONE, 5));
}

int main(void)
{
    trace_set_level(TRACE_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_acknowledged_survives_crashes_at_random_points),
        cmocka_unit_test(what_was_acknowledged_survives_disks_that_fail),
        cmocka_unit_test(every_deliberate_bug_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
