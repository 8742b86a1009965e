/* The simulated loop: turns, timers, hooks, asynchronous files, jobs, mailboxes, crashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "twinlog/io/sim.h"

enum { SEED_COUNT = 200, BLOCK = 4096, MS = 1000000, US = 1000 };

static const struct sim_options no_faults = {
    .disk_write_us_min = 50, .disk_write_us_max = 500, .offload_us_max = 300};

struct world {
    struct sim *sim;
    struct sim_node *node;
    struct io *io;
    struct io_disk *disk;
};

static struct world world_create(uint64_t seed, const struct sim_options *options)
{
    struct world world;
    world.sim = sim_create(seed, options);
    assert_non_null(world.sim);
    world.node = sim_node_add(world.sim, "10.0.0.1");
    world.io = sim_node_io(world.node);
    world.disk = io_disk(world.io);
    return world;
}

static void world_crash(struct world *world, bool process_only)
{
    sim_node_crash(world->node, process_only);
    world->io = sim_node_start(world->node);
}

static void assert_ok(status result)
{
    assert_int_equal(result.code, STATUS_OK);
}

/* A zeroed file of some blocks with a durable name and content. */
static struct io_file *file_prepare(struct world *world, uint32_t block_count)
{
    static const uint8_t zeros[16 * BLOCK];
    struct io_file *file;
    assert_ok(
        io_file_open(world->disk, "/a", IO_FILE_READ | IO_FILE_WRITE | IO_FILE_CREATE, &file));
    assert_ok(io_file_write(file, zeros, (size_t)block_count * BLOCK, 0));
    assert_ok(io_file_sync(file));
    assert_ok(io_dir_sync(world->disk, "/"));
    return file;
}

static struct io_file *file_reopen(struct world *world)
{
    struct io_file *file;
    assert_ok(io_file_open(world->disk, "/a", IO_FILE_READ | IO_FILE_WRITE, &file));
    return file;
}

/* How many bytes of [position, position + size) are `value`. */
static uint32_t file_count(struct io_file *file, uint8_t value, uint64_t position, uint32_t size)
{
    uint8_t data[16 * BLOCK];
    size_t got;
    uint32_t count = 0;
    assert_ok(io_file_read(file, data, size, position, &got));
    for (size_t i = 0; i < got; i++) {
        count += data[i] == value ? 1 : 0;
    }
    return count;
}

static void run_all(struct sim *sim)
{
    while (sim_step(sim)) {
    }
}

/* ---------------------------------------------------------------- turns */

struct diary {
    char text[64];
    uint32_t count;
    struct io *io;
    int64_t at_ns;
};

static void diary_add(struct diary *diary, char letter)
{
    assert_true(diary->count + 1 < sizeof(diary->text));
    diary->text[diary->count++] = letter;
    diary->at_ns = io_now_ns(diary->io);
}

struct diary_timer {
    struct io_timer timer;
    struct diary *diary;
    char letter;
};

static void diary_on_timer(struct io_timer *timer)
{
    struct diary_timer *entry = CONTAINER_OF(timer, struct diary_timer, timer);
    diary_add(entry->diary, entry->letter);
}

static void timers_run_in_order_at_their_time(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct diary diary = {.io = world.io};
    struct diary_timer timers[4] = {{.letter = 'c', .diary = &diary},
                                    {.letter = 'a', .diary = &diary},
                                    {.letter = 'x', .diary = &diary},
                                    {.letter = 'b', .diary = &diary}};
    int64_t delays_ms[] = {30, 10, 15, 20};
    int64_t start_ns = sim_now_ns(world.sim);
    for (size_t i = 0; i < COUNT_OF(timers); i++) {
        io_timer_start(world.io, &timers[i].timer, delays_ms[i] * MS, diary_on_timer);
    }
    io_timer_stop(world.io, &timers[2].timer);
    sim_run(world.sim, 20 * MS);
    assert_string_equal(diary.text, "ab");
    assert_int_equal(sim_now_ns(world.sim), start_ns + 20 * MS);
    run_all(world.sim);
    assert_string_equal(diary.text, "abc");
    assert_int_equal(diary.at_ns, start_ns + 30 * MS);
    assert_false(sim_step(world.sim));
    sim_destroy(world.sim);
}

struct counting_hook {
    struct io_hook hook;
    uint32_t count;
};

static void hook_count(struct io_hook *hook)
{
    CONTAINER_OF(hook, struct counting_hook, hook)->count++;
}

static void hooks_run_at_the_end_of_each_turn_and_an_idle_loop_has_none(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct counting_hook hook = {.hook.fn = hook_count};
    io_hook_add(world.io, &hook.hook);
    run_all(world.sim);
    assert_int_equal(hook.count, 1);
    sim_run(world.sim, 1000 * (int64_t)MS);
    assert_int_equal(hook.count, 1);
    sim_node_kick(world.node);
    sim_node_kick(world.node);
    run_all(world.sim);
    assert_int_equal(hook.count, 2);
    io_hook_remove(world.io, &hook.hook);
    sim_node_kick(world.node);
    run_all(world.sim);
    assert_int_equal(hook.count, 2);
    struct io_stats stats;
    io_stats_get(world.io, &stats);
    assert_int_equal(stats.turns, 3);
    sim_destroy(world.sim);
}

static void timer_rearm(struct io_timer *timer)
{
    struct diary_timer *entry = CONTAINER_OF(timer, struct diary_timer, timer);
    entry->diary->count++;
    io_timer_start(entry->diary->io, timer, 0, timer_rearm);
}

static void time_moves_even_when_a_timer_asks_for_no_delay(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct diary diary = {.io = world.io};
    struct diary_timer timer = {.diary = &diary};
    io_timer_start(world.io, &timer.timer, 0, timer_rearm);
    sim_run(world.sim, MS);
    assert_true(diary.count > 10);
    assert_true(diary.count < 10000);
    sim_destroy(world.sim);
}

static void a_paused_node_runs_nothing_and_then_all_of_it(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct diary diary = {.io = world.io};
    struct diary_timer timer = {.letter = 'a', .diary = &diary};
    io_timer_start(world.io, &timer.timer, 10 * MS, diary_on_timer);
    sim_node_pause(world.node, 500 * (int64_t)MS);
    int64_t start_ns = sim_now_ns(world.sim);
    sim_run(world.sim, 499 * (int64_t)MS);
    assert_int_equal(diary.count, 0);
    sim_run(world.sim, 2 * MS);
    assert_int_equal(diary.count, 1);
    assert_true(diary.at_ns >= start_ns + 500 * (int64_t)MS);
    struct sim_coverage coverage;
    sim_coverage_get(world.sim, &coverage);
    assert_int_equal(coverage.pauses, 1);
    sim_destroy(world.sim);
}

static void the_wall_clock_jumps_and_the_monotonic_clock_does_not(void **state)
{
    struct world world = world_create(1, &no_faults);
    int64_t wall_ms = io_wall_ms(world.io);
    int64_t now_ns = io_now_ns(world.io);
    sim_node_jump_clock(world.node, -5000);
    assert_int_equal(io_wall_ms(world.io), wall_ms - 5000);
    sim_node_jump_clock(world.node, 6000);
    assert_int_equal(io_wall_ms(world.io), wall_ms + 1000);
    assert_int_equal(io_now_ns(world.io), now_ns);
    sim_run(world.sim, 50 * MS);
    assert_int_equal(io_wall_ms(world.io), wall_ms + 1050);
    sim_destroy(world.sim);
}

static void a_stopped_loop_runs_no_more_turns(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct diary diary = {.io = world.io};
    struct diary_timer timer = {.letter = 'a', .diary = &diary};
    io_timer_start(world.io, &timer.timer, MS, diary_on_timer);
    assert_false(sim_node_is_stopped(world.node));
    io_stop(world.io);
    assert_true(sim_node_is_stopped(world.node));
    run_all(world.sim);
    assert_int_equal(diary.count, 0);
    io_destroy(world.io);
    world.io = sim_node_start(world.node);
    assert_false(sim_node_is_stopped(world.node));
    sim_destroy(world.sim);
}

/* ---------------------------------------------------------------- asynchronous files */

struct file_op {
    struct io_op op;
    uint8_t *buffer;
    uint32_t *order; /* counts completions */
    uint32_t place;  /* of this one; 0: not complete */
};

static void file_op_done(struct io_op *op)
{
    struct file_op *file_op = CONTAINER_OF(op, struct file_op, op);
    file_op->place = ++*file_op->order;
}

static void file_op_init(struct file_op *file_op, uint32_t *order, uint8_t value)
{
    *file_op = (struct file_op){.order = order, .buffer = malloc(BLOCK)};
    assert_non_null(file_op->buffer);
    memset(file_op->buffer, value, BLOCK);
}

static void synced_writes_complete_in_any_order_and_are_durable(void **state)
{
    uint32_t overtaken = 0;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        struct io_file *file = file_prepare(&world, 2);
        struct file_op ops[2];
        uint32_t order = 0;
        for (uint32_t i = 0; i < 2; i++) {
            file_op_init(&ops[i], &order, (uint8_t)(i + 1));
            io_submit_write(world.io, &ops[i].op, file, ops[i].buffer, BLOCK, (uint64_t)i * BLOCK,
                            true, file_op_done);
        }
        assert_int_equal(order, 0);
        run_all(world.sim);
        overtaken += ops[1].place == 1 ? 1 : 0;
        world_crash(&world, false);
        io_file_close(file);
        file = file_reopen(&world);
        for (uint32_t i = 0; i < 2; i++) {
            assert_ok(ops[i].op.result);
            assert_int_equal(ops[i].op.count, BLOCK);
            assert_int_equal(file_count(file, (uint8_t)(i + 1), (uint64_t)i * BLOCK, BLOCK), BLOCK);
            free(ops[i].buffer);
        }
        sim_destroy(world.sim);
    }
    assert_true(overtaken > 10 && overtaken < SEED_COUNT - 10);
}

static void a_write_in_flight_at_a_power_cut_lands_torn_or_whole_or_not(void **state)
{
    uint32_t torn = 0;
    uint32_t whole = 0;
    uint32_t nothing = 0;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        (void)file_prepare(&world, 1);
        struct file_op op;
        uint32_t order = 0;
        file_op_init(&op, &order, 7);
        io_submit_write(world.io, &op.op, file_reopen(&world), op.buffer, BLOCK, 0, true,
                        file_op_done);
        world_crash(&world, false);
        free(op.buffer);
        uint32_t count = file_count(file_reopen(&world), 7, 0, BLOCK);
        assert_int_equal(count % 512, 0);
        whole += count == BLOCK ? 1 : 0;
        nothing += count == 0 ? 1 : 0;
        torn += count > 0 && count < BLOCK ? 1 : 0;
        run_all(world.sim);
        assert_int_equal(order, 0);
        sim_destroy(world.sim);
    }
    assert_true(torn > 10);
    assert_true(whole > 10);
    assert_true(nothing > 10);
}

static void a_write_in_flight_at_a_kill_lands_whole_or_not_and_never_after_the_lock(void **state)
{
    uint32_t landed = 0;
    uint32_t late = 0;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        (void)file_prepare(&world, 1);
        struct file_op op;
        uint32_t order = 0;
        file_op_init(&op, &order, 7);
        io_submit_write(world.io, &op.op, file_reopen(&world), op.buffer, BLOCK, 0, true,
                        file_op_done);
        world_crash(&world, true);
        free(op.buffer);
        struct io_file *file = file_reopen(&world);
        uint32_t before = file_count(file, 7, 0, BLOCK);
        assert_ok(io_file_lock(file));
        uint32_t after = file_count(file, 7, 0, BLOCK);
        assert_true(after == 0 || after == BLOCK);
        landed += after == BLOCK ? 1 : 0;
        late += before != after ? 1 : 0;
        for (uint32_t i = 0; i < 50; i++) {
            assert_int_equal(file_count(file, 7, 0, BLOCK), after);
        }
        sim_destroy(world.sim);
    }
    assert_true(landed > 10 && landed < SEED_COUNT - 10);
    assert_true(late > 10);
}

/* Written before the submit: durable. Written after it: not promised, and at times not kept. */
static void an_asynchronous_sync_covers_what_was_written_before_it_was_submitted(void **state)
{
    uint32_t lost = 0;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        struct io_file *file = file_prepare(&world, 1);
        struct file_op op;
        uint32_t order = 0;
        file_op_init(&op, &order, 7);
        assert_ok(io_file_write(file, op.buffer, 512, 0));
        io_submit_sync(world.io, &op.op, file, file_op_done);
        memset(op.buffer, 8, 512);
        assert_ok(io_file_write(file, op.buffer, 512, seed % 2 == 0 ? 0 : 512));
        run_all(world.sim);
        assert_int_equal(order, 1);
        assert_ok(op.op.result);
        world_crash(&world, false);
        file = file_reopen(&world);
        uint32_t after = file_count(file, 8, seed % 2 == 0 ? 0 : 512, 512);
        uint32_t before = file_count(file, 7, 0, 512);
        assert_true(before == 512 || (seed % 2 == 0 && after == 512));
        lost += after == 0 ? 1 : 0;
        free(op.buffer);
        sim_destroy(world.sim);
    }
    assert_true(lost > 10 && lost < SEED_COUNT - 10);
}

static void reads_see_completed_writes_and_stop_at_the_end(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct io_file *file = file_prepare(&world, 1);
    struct file_op op;
    uint32_t order = 0;
    file_op_init(&op, &order, 7);
    io_submit_write(world.io, &op.op, file, op.buffer, BLOCK, BLOCK, false, file_op_done);
    run_all(world.sim);
    memset(op.buffer, 0, BLOCK);
    io_submit_read(world.io, &op.op, file, op.buffer, BLOCK, BLOCK + 96, file_op_done);
    run_all(world.sim);
    assert_int_equal(order, 2);
    assert_ok(op.op.result);
    assert_int_equal(op.op.count, 4000);
    assert_int_equal(op.buffer[3999], 7);
    assert_int_equal(op.buffer[4000], 0);
    free(op.buffer);
    sim_destroy(world.sim);
}

static void a_failed_synced_write_is_an_error_and_may_be_there_in_part(void **state)
{
    struct sim_options failing = no_faults;
    failing.sync_error_chance = 10000;
    uint32_t partly = 0;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        struct io_file *file = file_prepare(&world, 1);
        struct file_op op;
        uint32_t order = 0;
        file_op_init(&op, &order, 7);
        sim_set_options(world.sim, &failing);
        io_submit_write(world.io, &op.op, file, op.buffer, BLOCK, 0, true, file_op_done);
        run_all(world.sim);
        assert_int_equal(op.op.result.code, STATUS_IO);
        assert_int_equal(file_count(file, 7, 0, BLOCK), BLOCK);
        world_crash(&world, false);
        uint32_t count = file_count(file_reopen(&world), 7, 0, BLOCK);
        partly += count < BLOCK ? 1 : 0;
        free(op.buffer);
        sim_destroy(world.sim);
    }
    assert_true(partly > 10);
}

static void stalls_take_long(void **state)
{
    struct sim_options stalling = no_faults;
    stalling.disk_stall_chance = 10000;
    stalling.disk_stall_us_max = 1000000;
    struct world world = world_create(1, &stalling);
    struct io_file *file = file_prepare(&world, 1);
    struct file_op op;
    uint32_t order = 0;
    file_op_init(&op, &order, 7);
    int64_t start_ns = sim_now_ns(world.sim);
    for (uint32_t i = 0; i < 10; i++) {
        io_submit_write(world.io, &op.op, file, op.buffer, BLOCK, 0, true, file_op_done);
        run_all(world.sim);
    }
    assert_true(sim_now_ns(world.sim) - start_ns > 1000 * (int64_t)MS);
    struct sim_coverage coverage;
    sim_coverage_get(world.sim, &coverage);
    assert_int_equal(coverage.stalls, 10);
    free(op.buffer);
    sim_destroy(world.sim);
}

static void doom_keeps_writes_in_flight_for_the_crash_and_fails_new_ones(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct io_file *file = file_prepare(&world, 2);
    struct file_op ops[2];
    uint32_t order = 0;
    sim_node_doom(world.node, 1);
    for (uint32_t i = 0; i < 2; i++) {
        file_op_init(&ops[i], &order, 7);
        io_submit_write(world.io, &ops[i].op, file, ops[i].buffer, BLOCK, (uint64_t)i * BLOCK, true,
                        file_op_done);
    }
    run_all(world.sim);
    assert_true(sim_node_is_doomed(world.node));
    assert_int_equal(ops[0].place, 0);
    assert_int_equal(ops[1].place, 1);
    assert_int_equal(ops[1].op.result.code, STATUS_IO);
    world_crash(&world, false);
    assert_int_equal(file_count(file_reopen(&world), 7, BLOCK, BLOCK), 0);
    free(ops[0].buffer);
    free(ops[1].buffer);
    sim_destroy(world.sim);
}

/* ---------------------------------------------------------------- jobs and mailboxes */

struct test_job {
    struct io_job job;
    struct diary *diary;
    char letter;
    struct io_disk *disk;
    status result;
};

static void job_work(struct io_job *job)
{
    struct test_job *test_job = CONTAINER_OF(job, struct test_job, job);
    struct io_file *file;
    test_job->result = io_file_open(test_job->disk, "/job", IO_FILE_WRITE | IO_FILE_CREATE, &file);
    if (status_is_ok(test_job->result)) {
        test_job->result = io_file_write(file, &test_job->letter, 1, 0);
        io_file_close(file);
    }
}

static void job_done(struct io_job *job)
{
    struct test_job *test_job = CONTAINER_OF(job, struct test_job, job);
    diary_add(test_job->diary, test_job->letter);
}

static void jobs_of_a_lane_run_in_order_and_are_done_on_the_loop(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct diary diary = {.io = world.io};
    struct test_job jobs[3];
    for (uint32_t i = 0; i < COUNT_OF(jobs); i++) {
        jobs[i] = (struct test_job){
            .diary = &diary, .letter = (char)('a' + i), .disk = world.disk, .result = STATUS(IO)};
        io_offload(world.io, IO_LANE_WRITE, &jobs[i].job, job_work, job_done);
    }
    assert_int_equal(diary.count, 0);
    run_all(world.sim);
    assert_string_equal(diary.text, "abc");
    for (uint32_t i = 0; i < COUNT_OF(jobs); i++) {
        assert_ok(jobs[i].result);
    }
    sim_destroy(world.sim);
}

static void a_job_meets_doom_in_the_middle(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct diary diary = {.io = world.io};
    struct test_job job = {.diary = &diary, .letter = 'a', .disk = world.disk, .result = OK};
    io_offload(world.io, IO_LANE_READ, &job.job, job_work, job_done);
    sim_node_doom(world.node, 1);
    while (!sim_node_is_doomed(world.node)) {
        assert_true(sim_step(world.sim));
    }
    assert_int_equal(job.result.code, STATUS_IO);
    world_crash(&world, false);
    run_all(world.sim);
    assert_int_equal(diary.count, 0);
    struct sim_coverage coverage;
    sim_coverage_get(world.sim, &coverage);
    assert_int_equal(coverage.job_crashes, 1);
    sim_destroy(world.sim);
}

static void a_crash_forgets_timers_hooks_and_jobs_so_that_their_owner_may_free_them(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct diary *diary = calloc(1, sizeof(*diary));
    struct diary_timer *timer = calloc(1, sizeof(*timer));
    struct counting_hook *hook = calloc(1, sizeof(*hook));
    struct test_job *job = calloc(1, sizeof(*job));
    assert_true(diary != NULL && timer != NULL && hook != NULL && job != NULL);
    diary->io = world.io;
    *timer = (struct diary_timer){.diary = diary, .letter = 'a'};
    *job = (struct test_job){.diary = diary, .letter = 'b', .disk = world.disk};
    hook->hook.fn = hook_count;
    io_timer_start(world.io, &timer->timer, MS, diary_on_timer);
    io_hook_add(world.io, &hook->hook);
    io_offload(world.io, IO_LANE_WRITE, &job->job, job_work, job_done);
    struct io *before = world.io;
    world_crash(&world, false);
    assert_ptr_not_equal(before, world.io);
    /* The owner may still use the dead loop by mistake of habit; nothing comes of it. */
    io_timer_stop(before, &timer->timer);
    io_hook_remove(before, &hook->hook);
    io_destroy(before);
    free(diary);
    free(timer);
    free(hook);
    free(job);
    run_all(world.sim);
    sim_destroy(world.sim);
}

static void mail_receive(void *context, void *message)
{
    diary_add(context, *(char *)message);
}

static void mailboxes_are_bounded_and_keep_their_order(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct io *other = sim_node_loop_add(world.node);
    struct diary diary = {.io = other};
    struct io_mailbox *mailbox;
    char letters[] = "abcde";
    assert_ok(io_mailbox_create(world.io, other, 4, mail_receive, &diary, &mailbox));
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(io_mailbox_room(mailbox), 4 - i);
        assert_ok(io_mailbox_send(mailbox, &letters[i]));
    }
    assert_int_equal(io_mailbox_send(mailbox, &letters[4]).code, STATUS_FULL);
    run_all(world.sim);
    assert_string_equal(diary.text, "abcd");
    assert_ok(io_mailbox_send(mailbox, &letters[4]));
    world_crash(&world, true);
    run_all(world.sim);
    assert_int_equal(diary.count, 4);
    assert_int_equal(io_mailbox_send(mailbox, &letters[4]).code, STATUS_FULL);
    io_mailbox_destroy(mailbox);
    sim_destroy(world.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_run_in_order_at_their_time),
        cmocka_unit_test(hooks_run_at_the_end_of_each_turn_and_an_idle_loop_has_none),
        cmocka_unit_test(time_moves_even_when_a_timer_asks_for_no_delay),
        cmocka_unit_test(a_paused_node_runs_nothing_and_then_all_of_it),
        cmocka_unit_test(the_wall_clock_jumps_and_the_monotonic_clock_does_not),
        cmocka_unit_test(a_stopped_loop_runs_no_more_turns),
        cmocka_unit_test(synced_writes_complete_in_any_order_and_are_durable),
        cmocka_unit_test(a_write_in_flight_at_a_power_cut_lands_torn_or_whole_or_not),
        cmocka_unit_test(a_write_in_flight_at_a_kill_lands_whole_or_not_and_never_after_the_lock),
        cmocka_unit_test(an_asynchronous_sync_covers_what_was_written_before_it_was_submitted),
        cmocka_unit_test(reads_see_completed_writes_and_stop_at_the_end),
        cmocka_unit_test(a_failed_synced_write_is_an_error_and_may_be_there_in_part),
        cmocka_unit_test(stalls_take_long),
        cmocka_unit_test(doom_keeps_writes_in_flight_for_the_crash_and_fails_new_ones),
        cmocka_unit_test(jobs_of_a_lane_run_in_order_and_are_done_on_the_loop),
        cmocka_unit_test(a_job_meets_doom_in_the_middle),
        cmocka_unit_test(a_crash_forgets_timers_hooks_and_jobs_so_that_their_owner_may_free_them),
        cmocka_unit_test(mailboxes_are_bounded_and_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
