/* The loop itself: clock, timers, hooks, stopping, randomness, and that an idle loop sleeps. */
#include "uring_fixture.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---------------------------------------------------------------- timers */

struct timing {
    struct io *io;
    struct io_timer timer;
    int64_t due_ns;
    int64_t fired_ns;
    uint32_t order;
    uint32_t *next_order;
    bool *last_fired;
};

static void timing_on_fired(struct io_timer *timer)
{
    struct timing *timing = timer->context;
    timing->fired_ns = io_now_ns_exact(timing->io);
    timing->order = (*timing->next_order)++;
    if (timing->last_fired != NULL) {
        *timing->last_fired = true;
    }
}

static void timers_of_a_loop_fire_in_order_and_not_early(void **state)
{
    static const int64_t delays_ms[] = {30, 5, 20, 0, 10, 20};
    static const uint32_t orders[] = {5, 1, 3, 0, 2, 4};
    struct io *io = fixture_create_loop(NULL);
    struct timing timings[COUNT_OF(delays_ms)] = {0};
    uint32_t next_order = 0;
    bool done = false;
    for (size_t at = 0; at < COUNT_OF(delays_ms); at++) {
        struct timing *timing = &timings[at];
        timing->io = io;
        timing->next_order = &next_order;
        timing->timer.context = timing;
        timing->due_ns = io_now_ns_exact(io) + delays_ms[at] * MILLISECOND_NS;
        io_timer_start(io, &timing->timer, delays_ms[at] * MILLISECOND_NS, timing_on_fired);
    }
    timings[0].last_fired = &done;
    fixture_run_until(io, fixture_is_true, &done);
    for (size_t at = 0; at < COUNT_OF(delays_ms); at++) {
        assert_int_equal(timings[at].order, orders[at]);
        assert_true(timings[at].fired_ns >= timings[at].due_ns);
    }
    io_destroy(io);
}

static void a_stopped_timer_does_not_fire_and_a_restarted_one_fires_once(void **state)
{
    struct io *io = fixture_create_loop(NULL);
    uint32_t next_order = 0;
    struct timing stopped = {.io = io, .next_order = &next_order};
    struct timing restarted = {.io = io, .next_order = &next_order};
    stopped.timer.context = &stopped;
    restarted.timer.context = &restarted;
    io_timer_start(io, &stopped.timer, MILLISECOND_NS, timing_on_fired);
    io_timer_start(io, &restarted.timer, MILLISECOND_NS, timing_on_fired);
    io_timer_start(io, &restarted.timer, 5 * MILLISECOND_NS, timing_on_fired);
    io_timer_stop(io, &stopped.timer);
    io_timer_stop(io, &stopped.timer);
    fixture_run_for(io, 20 * MILLISECOND_NS);
    assert_int_equal(next_order, 1);
    assert_true(restarted.fired_ns > 0);
    io_destroy(io);
}

/* ---------------------------------------------------------------- hooks */

struct counting_hook {
    struct io_hook hook;
    struct io *io;
    struct counting_hook *adds;
    struct counting_hook *removes;
    uint32_t count;
    uint32_t order;
    uint32_t *next_order;
};

static void counting_on_hook(struct io_hook *hook)
{
    struct counting_hook *counting = hook->context;
    counting->count++;
    counting->order = (*counting->next_order)++;
    if (counting->adds != NULL) {
        io_hook_add(counting->io, &counting->adds->hook);
        counting->adds = NULL;
    }
    if (counting->removes != NULL) {
        io_hook_remove(counting->io, &counting->removes->hook);
        counting->removes = NULL;
    }
}

static void hooks_run_in_order_and_may_add_and_remove(void **state)
{
    struct io *io = fixture_create_loop(NULL);
    struct counting_hook hooks[4] = {0};
    uint32_t next_order = 0;
    for (size_t at = 0; at < COUNT_OF(hooks); at++) {
        hooks[at].hook.fn = counting_on_hook;
        hooks[at].hook.context = &hooks[at];
        hooks[at].io = io;
        hooks[at].next_order = &next_order;
    }
    hooks[0].removes = &hooks[1]; /* the one that would come next */
    hooks[2].adds = &hooks[3];
    hooks[2].removes = &hooks[2]; /* itself */
    for (size_t at = 0; at < 3; at++) {
        io_hook_add(io, &hooks[at].hook);
    }
    io_stop(io);
    assert_int_equal(io_run(io).code, STATUS_OK);
    assert_int_equal(hooks[0].count, 1);
    assert_int_equal(hooks[1].count, 0);
    assert_int_equal(hooks[2].count, 1);
    assert_int_equal(hooks[3].count, 1);
    assert_true(hooks[0].order < hooks[2].order);
    assert_true(hooks[2].order < hooks[3].order);
    io_stop(io);
    assert_int_equal(io_run(io).code, STATUS_OK);
    assert_int_equal(hooks[0].count, 2);
    assert_int_equal(hooks[2].count, 1);
    assert_int_equal(hooks[3].count, 2);
    io_hook_remove(io, &hooks[0].hook);
    io_hook_remove(io, &hooks[3].hook);
    io_destroy(io);
}

/* ---------------------------------------------------------------- stopping */

#ifdef __SANITIZE_THREAD__

/* ThreadSanitizer holds a signal back until the next call that it intercepts; a ring's is none. */
static void a_signal_handler_may_stop_a_sleeping_loop(void **state)
{
    skip();
}

#else

static struct io *signalled_loop;

static void on_signal(int number)
{
    io_stop(signalled_loop);
}

static void a_signal_handler_may_stop_a_sleeping_loop(void **state)
{
    struct io *io = fixture_create_loop(NULL);
    struct sigaction action = {.sa_handler = on_signal};
    signalled_loop = io;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    ualarm(20000, 0);
    int64_t start_ns = io_now_ns_exact(io);
    assert_int_equal(io_run(io).code, STATUS_OK);
    assert_true(io_now_ns_exact(io) - start_ns >= 15 * MILLISECOND_NS);
    io_destroy(io);
}

#endif

static void *stop_from_a_thread(void *context)
{
    usleep(20000);
    io_stop(context);
    return NULL;
}

static void another_thread_may_stop_a_sleeping_loop(void **state)
{
    struct io *io = fixture_create_loop(NULL);
    for (int at = 0; at < 3; at++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, stop_from_a_thread, io), 0);
        assert_int_equal(io_run(io).code, STATUS_OK);
        pthread_join(thread, NULL);
    }
    io_destroy(io);
}

/* ---------------------------------------------------------------- the rest */

static void an_idle_loop_sleeps(void **state)
{
    struct io *io = fixture_create_loop(NULL);
    struct io_stats before;
    struct io_stats after;
    struct timespec cpu_before;
    struct timespec cpu_after;
    fixture_run_for(io, 10 * MILLISECOND_NS);
    io_stats_get(io, &before);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu_before);
    fixture_run_for(io, SECOND_NS);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu_after);
    io_stats_get(io, &after);
    /* The turn that starts the run, and the one in which its timer fires; one may be early. */
    assert_true(after.turns - before.turns <= 3);
    assert_true(after.submits - before.submits <= 3);
    int64_t cpu_ns =
        (cpu_after.tv_sec - cpu_before.tv_sec) * SECOND_NS + cpu_after.tv_nsec - cpu_before.tv_nsec;
    assert_true(cpu_ns < 20 * MILLISECOND_NS);
    io_destroy(io);
}

static void the_clock_moves_and_random_words_differ(void **state)
{
    struct io *io = fixture_create_loop(NULL);
    uint64_t words[200];
    for (size_t at = 0; at < COUNT_OF(words); at++) {
        words[at] = io_random(io);
        for (size_t other = 0; other < at; other++) {
            assert_true(words[at] != words[other]);
        }
    }
    int64_t start_ns = io_now_ns(io);
    usleep(2000);
    assert_true(io_now_ns(io) - start_ns >= 2 * MILLISECOND_NS);
    assert_true(io_now_ns_exact(io) >= io_now_ns(io) - MILLISECOND_NS);
    assert_true(io_wall_ms(io) > (int64_t)1600000000 * 1000);
    assert_ptr_equal(io_disk(io), io_disk_real());
    io_destroy(io);
}

static void *run_a_loop_made_elsewhere(void *context)
{
    status *result = malloc(sizeof(*result));
    *result = io_run(context);
    return result;
}

static void a_loop_may_be_made_by_one_thread_and_run_by_another(void **state)
{
    struct io *io = fixture_create_loop(NULL);
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, run_a_loop_made_elsewhere, io), 0);
    usleep(20000);
    io_stop(io);
    pthread_join(thread, &result);
    assert_int_equal(((status *)result)->code, STATUS_OK);
    free(result);
    io_destroy(io);
}

/* In a child, because a process cannot take its rights back. Returns the child's exit status. */
static int run_as_nobody(void)
{
    struct rlimit limit = {8 * 1024 * 1024, 8 * 1024 * 1024};
    enum { NOBODY = 65534, LOOP_COUNT = 4 };
    if (setrlimit(RLIMIT_MEMLOCK, &limit) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0) {
        return 1;
    }
    struct io *loops[LOOP_COUNT];
    for (int at = 0; at < LOOP_COUNT; at++) {
        if (!status_is_ok(io_create_uring(NULL, &loops[at]))) {
            return 2;
        }
        io_stop(loops[at]);
        if (!status_is_ok(io_run(loops[at]))) {
            return 3;
        }
    }
    for (int at = 0; at < LOOP_COUNT; at++) {
        io_destroy(loops[at]);
    }
    return 0;
}

static void loops_need_no_privilege_and_little_locked_memory(void **state)
{
    if (geteuid() != 0) {
        skip();
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(run_as_nobody());
    }
    int exit_status = 0;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    assert_true(WIFEXITED(exit_status));
    assert_int_equal(WEXITSTATUS(exit_status), 0);
}

/* What a container's default profile does: io_uring_setup fails with `error`. x86-64 and arm64. */
static bool forbid_io_uring(int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = COUNT_OF(filter), .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int create_where_forbidden(int error)
{
    struct io *io = NULL;
    if (!forbid_io_uring(error)) {
        return 1;
    }
    status result = io_create_uring(NULL, &io);
    return result.code == STATUS_UNSUPPORTED && io == NULL ? 0 : 2;
}

static void a_host_that_forbids_io_uring_is_unsupported(void **state)
{
    static const int errors[] = {EPERM, ENOSYS, EINVAL};
    for (size_t at = 0; at < COUNT_OF(errors); at++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            _exit(create_where_forbidden(errors[at]));
        }
        int exit_status = 0;
        assert_int_equal(waitpid(child, &exit_status, 0), child);
        assert_true(WIFEXITED(exit_status));
        assert_int_equal(WEXITSTATUS(exit_status), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_of_a_loop_fire_in_order_and_not_early),
        cmocka_unit_test(a_stopped_timer_does_not_fire_and_a_restarted_one_fires_once),
        cmocka_unit_test(hooks_run_in_order_and_may_add_and_remove),
        cmocka_unit_test(a_signal_handler_may_stop_a_sleeping_loop),
        cmocka_unit_test(another_thread_may_stop_a_sleeping_loop),
        cmocka_unit_test(an_idle_loop_sleeps),
        cmocka_unit_test(the_clock_moves_and_random_words_differ),
        cmocka_unit_test(a_loop_may_be_made_by_one_thread_and_run_by_another),
        cmocka_unit_test(loops_need_no_privilege_and_little_locked_memory),
        cmocka_unit_test(a_host_that_forbids_io_uring_is_unsupported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
