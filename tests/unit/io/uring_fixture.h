/*
 * What the tests of the io_uring backend share: a loop that runs until a condition holds, with a
 * deadline, so that a lost wake-up is a failed test and not a hang.
 */
#ifndef TWINLOG_TESTS_URING_FIXTURE_H
#define TWINLOG_TESTS_URING_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "twinlog/io/io.h"

#define MILLISECOND_NS ((int64_t)1000000)
#define SECOND_NS      ((int64_t)1000000000)

enum { FIXTURE_DEADLINE_S = 60 };

struct fixture {
    struct io *io;
    struct io_timer deadline;
    struct io_hook hook;
    bool (*is_done)(void *context);
    void *context;
    bool late;
};

static inline struct io *fixture_create_loop(const struct io_options *options)
{
    struct io *io = NULL;
    status result = io_create_uring(options, &io);
    assert_int_equal(result.code, STATUS_OK);
    assert_non_null(io);
    return io;
}

static inline void fixture_on_deadline(struct io_timer *timer)
{
    struct fixture *fixture = timer->context;
    fixture->late = true;
    io_stop(fixture->io);
}

static inline void fixture_on_hook(struct io_hook *hook)
{
    struct fixture *fixture = hook->context;
    if (fixture->is_done(fixture->context)) {
        io_stop(fixture->io);
    }
}

/* Runs turns until `is_done` says so at the end of one; fails after the deadline. */
static inline void fixture_run_until(struct io *io, bool (*is_done)(void *context), void *context)
{
    struct fixture fixture = {.io = io, .is_done = is_done, .context = context};
    fixture.deadline.context = &fixture;
    fixture.hook.fn = fixture_on_hook;
    fixture.hook.context = &fixture;
    io_timer_start(io, &fixture.deadline, FIXTURE_DEADLINE_S * SECOND_NS, fixture_on_deadline);
    io_hook_add(io, &fixture.hook);
    status result = io_run(io);
    io_hook_remove(io, &fixture.hook);
    io_timer_stop(io, &fixture.deadline);
    assert_int_equal(result.code, STATUS_OK);
    assert_false(fixture.late);
}

static inline bool fixture_is_true(void *context)
{
    return *(bool *)context;
}

static inline void fixture_on_nap_over(struct io_timer *timer)
{
    *(bool *)timer->context = true;
}

/* Runs turns for a while. */
static inline void fixture_run_for(struct io *io, int64_t duration_ns)
{
    bool done = false;
    struct io_timer nap = {.context = &done};
    io_timer_start(io, &nap, duration_ns, fixture_on_nap_over);
    fixture_run_until(io, fixture_is_true, &done);
}

#endif
