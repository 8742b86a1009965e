/*
 * The loop of the io_uring backend.
 *
 *         +--> reap -> callbacks -> timers -> hooks -> step streams, wake mailboxes --+
 *         |                                                                           |
 *         +------------------- one io_uring_enter: submit and wait <------------------+
 *
 * The wait ends with the first completion or the next timer, and there is no other timeout: an idle
 * loop sleeps. Other threads and signal handlers end it by an eventfd on which a read is always
 * armed.
 */
#include "uring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "twinlog/core/trace.h"

/* ---------------------------------------------------------------- clock and randomness */

int64_t uring_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t uring_now_ns(struct io *io)
{
    struct uring *uring = uring_of(io);
    return uring->in_turn ? uring->now_ns : uring_clock_ns();
}

static int64_t uring_now_ns_exact(struct io *io)
{
    return uring_clock_ns();
}

static int64_t uring_wall_clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Read once a turn, as now_ns is: every Produce request asks for it. */
static int64_t uring_wall_ms(struct io *io)
{
    struct uring *uring = uring_of(io);
    if (!uring->in_turn) {
        return uring_wall_clock_ms();
    }
    if (uring->wall_ms == 0) {
        uring->wall_ms = uring_wall_clock_ms();
    }
    return uring->wall_ms;
}

static uint64_t uring_random(struct io *io)
{
    struct uring *uring = uring_of(io);
    if (uring->random_left == 0) {
        /* Never short: up to 256 bytes a call, from an initialised pool, are not interrupted. */
        for (size_t at = 0; at < sizeof(uring->random); at += 256) {
            ssize_t got;
            do {
                got = getrandom((uint8_t *)uring->random + at, 256, 0);
            } while (got < 0 && errno == EINTR);
            ASSERT(got == 256);
        }
        uring->random_left = URING_RANDOM_COUNT;
    }
    uring->random_left--;
    return uring->random[uring->random_left];
}

static struct io_disk *uring_disk(struct io *io)
{
    return io_disk_real();
}

/* ---------------------------------------------------------------- wake-up */

void uring_wake(struct uring *uring)
{
    uint64_t one = 1;
    /* It can only fail when 2^64 - 1 wake-ups are pending, and then the loop wakes anyway. */
    ssize_t written = write(uring->wake_fd, &one, sizeof(one));
    (void)written;
}

static void uring_stop(struct io *io)
{
    struct uring *uring = uring_of(io);
    int saved = errno;
    atomic_store(&uring->stopping, true);
    uring_wake(uring);
    errno = saved;
}

static void uring_wake_arm(struct uring *uring)
{
    struct io_uring_sqe *sqe = uring_sqe(uring);
    io_uring_prep_read(sqe, uring->wake_fd, &uring->wake_value, sizeof(uring->wake_value), 0);
    uring_sqe_own(sqe, &uring->wake_entry);
}

/* The flags that the waker set are looked at in every turn; here is only the wake itself. */
static void uring_on_wake(struct uring *uring, struct uring_entry *entry, int32_t result,
                          uint32_t flags)
{
    ASSERT(result == sizeof(uring->wake_value) || result == -EINTR || result == -EAGAIN);
    uring_wake_arm(uring);
}

/* ---------------------------------------------------------------- completions */

static void uring_reaped_push(struct uring *uring, const struct io_uring_cqe *cqe)
{
    if (uring->reaped_count == uring->reaped_capacity) {
        uint32_t capacity = uring->reaped_capacity * 2;
        struct uring_completion *reaped =
            realloc(uring->reaped, (size_t)capacity * sizeof(*reaped));
        ASSERT(reaped != NULL);
        uring->reaped = reaped;
        uring->reaped_capacity = capacity;
    }
    uring->reaped[uring->reaped_count] = (struct uring_completion){
        .entry = io_uring_cqe_get_data(cqe), .result = cqe->res, .flags = cqe->flags};
    uring->reaped_count++;
}

static void uring_reap(struct uring *uring)
{
    unsigned head;
    uint32_t count = 0;
    struct io_uring_cqe *cqe;
    io_uring_for_each_cqe(&uring->ring, head, cqe)
    {
        if (count == URING_REAP_MAX) {
            break;
        }
        uring_reaped_push(uring, cqe);
        count++;
    }
    io_uring_cq_advance(&uring->ring, count);
    uring->base.stats.completions += count;
}

/* A callback may submit so much that completions are reaped meanwhile; they are run here too. */
static void uring_run_reaped(struct uring *uring)
{
    for (uint32_t at = 0; at < uring->reaped_count; at++) {
        struct uring_completion completion = uring->reaped[at];
        ASSERT(completion.entry != NULL);
        completion.entry->complete(uring, completion.entry, completion.result, completion.flags);
    }
    uring->reaped_count = 0;
}

/* ---------------------------------------------------------------- submission */

static status uring_enable(struct uring *uring)
{
    if (uring->enabled) {
        return OK;
    }
    /* Not io_uring_enable_rings(): the shared library of liburing 2.3 forgets to export it. */
    if (syscall(__NR_io_uring_register, uring->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL,
                0) < 0) {
        return status_from_errno(errno);
    }
    /* Only saves a look-up per call: where it is refused, the plain descriptor is used. */
    (void)io_uring_register_ring_fd(&uring->ring);
    uring->enabled = true;
    uring_wake_arm(uring);
    return OK;
}

struct io_uring_sqe *uring_sqe(struct uring *uring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);
    while (sqe == NULL) {
        status enabled = uring_enable(uring);
        ASSERT(status_is_ok(enabled));
        int result = io_uring_submit(&uring->ring);
        ASSERT(result >= 0 || result == -EBUSY || result == -EAGAIN || result == -EINTR);
        uring->base.stats.submits++;
        if (result < 0) {
            uring_reap(uring);
        }
        sqe = io_uring_get_sqe(&uring->ring);
    }
    return sqe;
}

static bool uring_has_work(struct uring *uring)
{
    return !list_is_empty(&uring->ready) || !list_is_empty(&uring->failed) ||
           atomic_load_explicit(&uring->stopping, memory_order_relaxed) ||
           atomic_load_explicit(&uring->done_flag, memory_order_relaxed) ||
           atomic_load_explicit(&uring->mail_flag, memory_order_relaxed) ||
           uring->reaped_count > 0 || io_uring_cq_ready(&uring->ring) > 0;
}

/* Submits, and waits for a completion when there is nothing to do before one. */
static status uring_submit_and_wait(struct uring *uring)
{
    int result;
    uring->base.stats.submits++;
    if (uring_has_work(uring)) {
        result = io_uring_submit_and_get_events(&uring->ring);
    } else {
        struct io_uring_cqe *cqe = NULL;
        struct __kernel_timespec timeout = {0};
        int64_t due_ns = timers_next_due_ns(&uring->base.timers);
        if (due_ns != INT64_MAX) {
            int64_t left_ns = MAX(due_ns - uring_clock_ns(), 0);
            timeout.tv_sec = left_ns / 1000000000;
            timeout.tv_nsec = left_ns % 1000000000;
        }
        result = io_uring_submit_and_wait_timeout(&uring->ring, &cqe, 1,
                                                  due_ns == INT64_MAX ? NULL : &timeout, NULL);
    }
    if (result >= 0 || result == -ETIME || result == -EINTR || result == -EBUSY ||
        result == -EAGAIN) {
        return OK;
    }
    trace_error("io", "io_uring_enter failed: %s; the loop ends", strerror(-result));
    return status_from_errno(-result);
}

/* ---------------------------------------------------------------- turns */

static void uring_turn(struct uring *uring)
{
    uring->base.stats.turns++;
    uring_reap(uring);
    uring->now_ns = uring_clock_ns();
    uring->wall_ms = 0;
    uring->in_turn = true;
    uring_file_run_failed(uring);
    uring_streams_run_ready(uring);
    uring_run_reaped(uring);
    uring_offload_run_done(uring);
    uring_mail_run(uring);
    timers_run(&uring->base.timers, uring->now_ns);
    io_hooks_run(&uring->base);
    uring_streams_step(uring);
    uring_mail_flush(uring);
    uring->in_turn = false;
}

static status uring_run(struct io *io)
{
    struct uring *uring = uring_of(io);
    TRY(uring_enable(uring));
    bool stopping = false;
    while (!stopping) {
        uring_turn(uring);
        stopping = atomic_exchange(&uring->stopping, false);
        if (stopping) {
            uring->base.stats.submits++;
            (void)io_uring_submit(&uring->ring);
        } else {
            TRY(uring_submit_and_wait(uring));
        }
    }
    return OK;
}

/* ---------------------------------------------------------------- create and destroy */

/* Closing a listener tells nobody when it is done, so nobody can have waited for it. */
static void uring_listeners_finish(struct uring *uring)
{
    while (uring->enabled && uring->listeners_closing > 0 &&
           status_is_ok(uring_submit_and_wait(uring))) {
        uring_turn(uring);
    }
}

static void uring_destroy(struct io *io)
{
    struct uring *uring = uring_of(io);
    ASSERT(!uring->in_turn);
    uring_listeners_finish(uring);
    ASSERT(uring->in_flight == 0);
    ASSERT(uring->stream_count == 0);
    ASSERT(uring->listener_count == 0);
    uring_offload_fini(uring);
    uring_mail_fini(uring);
    uring_teardown(uring);
    close(uring->wake_fd);
    free(uring->reaped);
    io_base_fini(&uring->base);
    free(uring);
}

static const struct io_ops uring_ops = {
    .destroy = uring_destroy,
    .run = uring_run,
    .stop = uring_stop,
    .now_ns = uring_now_ns,
    .now_ns_exact = uring_now_ns_exact,
    .wall_ms = uring_wall_ms,
    .random = uring_random,
    .disk = uring_disk,
    .submit_write = uring_submit_write,
    .submit_read = uring_submit_read,
    .submit_sync = uring_submit_sync,
    .offload = uring_offload,
    .listen = uring_listen,
    .listener_close = uring_listener_close,
    .connect = uring_connect,
    .stream_open = uring_stream_open,
    .stream_move = uring_stream_move,
    .stream_pause = uring_stream_pause,
    .stream_resume = uring_stream_resume,
    .stream_send = uring_stream_send,
    .stream_close = uring_stream_close,
    .stream_peer = uring_stream_peer,
    .mailbox_create = uring_mailbox_create,
    .mailbox_destroy = uring_mailbox_destroy,
    .mailbox_room = uring_mailbox_room,
    .mailbox_send = uring_mailbox_send,
};

static uint32_t uring_option(uint32_t value, uint32_t fallback)
{
    return value == 0 ? fallback : value;
}

/* Makes the parts that need no kernel feature; the ring follows. */
static struct uring *uring_alloc(const struct io_options *options)
{
    struct uring *uring = calloc(1, sizeof(*uring));
    struct uring_completion *reaped = malloc(URING_REAP_MAX * sizeof(*reaped));
    if (uring == NULL || reaped == NULL) {
        free(uring);
        free(reaped);
        return NULL;
    }
    io_base_init(&uring->base, &uring_ops);
    uring->reaped = reaped;
    uring->reaped_capacity = URING_REAP_MAX;
    uring->buffer_size = uring_option(options->receive_buffer_size, URING_BUFFER_SIZE_DEFAULT);
    uring->buffer_count = uring_option(options->receive_buffer_count, URING_BUFFER_COUNT_DEFAULT);
    ASSERT(uring->buffer_count <= 32768);
    ASSERT((uring->buffer_count & (uring->buffer_count - 1)) == 0);
    list_init(&uring->touched);
    list_init(&uring->ready);
    list_init(&uring->failed);
    uring->wake_entry.complete = uring_on_wake;
    uring_mail_init(uring);
    return uring;
}

status io_create_uring(const struct io_options *options, struct io **io)
{
    static const struct io_options defaults;
    options = options == NULL ? &defaults : options;
    struct uring *uring = uring_alloc(options);
    if (uring == NULL) {
        return STATUS(NO_MEMORY);
    }
    status result;
    /* Blocking on purpose: a read of it in the ring then waits instead of failing with EAGAIN. */
    uring->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (uring->wake_fd < 0) {
        result = status_from_errno(errno);
        goto fail;
    }
    result = uring_setup(uring, uring_option(options->entry_count, URING_ENTRY_COUNT_DEFAULT));
    if (!status_is_ok(result)) {
        close(uring->wake_fd);
        goto fail;
    }
    uring_offload_init(uring, uring_option(options->read_thread_count, URING_READ_THREADS_DEFAULT));
    *io = &uring->base;
    return OK;
fail:
    io_base_fini(&uring->base);
    free(uring->reaped);
    free(uring);
    return result;
}
