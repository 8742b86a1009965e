/* Helper threads: order within the write lane, parallel reads, and lanes that do not wait. */
#include "uring_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

enum { JOB_COUNT = 300 };

struct work {
    struct io_job job;
    pthread_t loop_thread;
    uint32_t index;
    uint32_t worked_at;
    uint32_t done_at;
    _Atomic uint32_t *worked;
    uint32_t *done;
};

static void work_on_helper(struct io_job *job)
{
    struct work *work = job->context;
    ASSERT(!pthread_equal(pthread_self(), work->loop_thread));
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    ASSERT(sigismember(&mask, SIGTERM));
    work->worked_at = atomic_fetch_add(work->worked, 1);
}

static void work_on_loop(struct io_job *job)
{
    struct work *work = job->context;
    assert_true(pthread_equal(pthread_self(), work->loop_thread));
    work->done_at = (*work->done)++;
}

static bool all_jobs_are_done(void *context)
{
    return *(uint32_t *)context == JOB_COUNT;
}

static void run_jobs(enum io_lane lane, bool in_order)
{
    struct io *io = fixture_create_loop(NULL);
    struct work *works = calloc(JOB_COUNT, sizeof(*works));
    _Atomic uint32_t worked = 0;
    uint32_t done = 0;
    for (uint32_t at = 0; at < JOB_COUNT; at++) {
        works[at] = (struct work){.index = at, .worked = &worked, .done = &done};
        works[at].loop_thread = pthread_self();
        works[at].job.context = &works[at];
        io_offload(io, lane, &works[at].job, work_on_helper, work_on_loop);
    }
    fixture_run_until(io, all_jobs_are_done, &done);
    for (uint32_t at = 0; in_order && at < JOB_COUNT; at++) {
        assert_int_equal(works[at].worked_at, at);
        assert_int_equal(works[at].done_at, at);
    }
    assert_int_equal(atomic_load(&worked), JOB_COUNT);
    free(works);
    io_destroy(io);
}

static void the_write_lane_runs_its_jobs_in_order(void **state)
{
    run_jobs(IO_LANE_WRITE, true);
}

static void the_read_lane_runs_every_job(void **state)
{
    run_jobs(IO_LANE_READ, false);
}

/* ---------------------------------------------------------------- lanes and threads */

struct meeting {
    struct io_job jobs[2];
    pthread_barrier_t barrier;
    _Atomic bool released;
    uint32_t done;
};

static void meet(struct io_job *job)
{
    struct meeting *meeting = job->context;
    pthread_barrier_wait(&meeting->barrier);
}

static void count_meeting(struct io_job *job)
{
    ((struct meeting *)job->context)->done++;
}

static bool both_met(void *context)
{
    return ((struct meeting *)context)->done == 2;
}

static void meet_on(enum io_lane first, enum io_lane second)
{
    struct io *io = fixture_create_loop(NULL);
    struct meeting meeting = {0};
    pthread_barrier_init(&meeting.barrier, NULL, 2);
    meeting.jobs[0].context = &meeting;
    meeting.jobs[1].context = &meeting;
    io_offload(io, first, &meeting.jobs[0], meet, count_meeting);
    io_offload(io, second, &meeting.jobs[1], meet, count_meeting);
    fixture_run_until(io, both_met, &meeting);
    pthread_barrier_destroy(&meeting.barrier);
    io_destroy(io);
}

static void lanes_do_not_wait_for_each_other_and_reads_run_side_by_side(void **state)
{
    meet_on(IO_LANE_WRITE, IO_LANE_READ);
    meet_on(IO_LANE_READ, IO_LANE_READ);
}

/* ---------------------------------------------------------------- chains */

struct chain {
    struct io *io;
    struct io_job job;
    uint32_t left;
    bool done;
};

static void chain_work(struct io_job *job)
{
}

static void chain_done(struct io_job *job)
{
    struct chain *chain = job->context;
    chain->left--;
    if (chain->left == 0) {
        chain->done = true;
    } else {
        io_offload(chain->io, chain->left % IO_LANE_COUNT == 0 ? IO_LANE_WRITE : IO_LANE_READ, job,
                   chain_work, chain_done);
    }
}

static void a_job_may_be_offloaded_again_when_it_is_done(void **state)
{
    struct io *io = fixture_create_loop(NULL);
    struct chain chain = {.io = io, .left = 2000};
    chain.job.context = &chain;
    io_offload(io, IO_LANE_WRITE, &chain.job, chain_work, chain_done);
    fixture_run_until(io, fixture_is_true, &chain.done);
    io_destroy(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_write_lane_runs_its_jobs_in_order),
        cmocka_unit_test(the_read_lane_runs_every_job),
        cmocka_unit_test(lanes_do_not_wait_for_each_other_and_reads_run_side_by_side),
        cmocka_unit_test(a_job_may_be_offloaded_again_when_it_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
