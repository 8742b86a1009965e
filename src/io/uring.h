/*
 * The io_uring backend: what its files share. One `struct uring` per loop, on the loop's thread,
 * except for the members marked as shared.
 *
 * Every submission carries a pointer to a `struct uring_entry` in its owner. No generation is
 * needed, because an owner lives until the last completion of each of its entries has run: a
 * late completion never finds freed memory, whatever was cancelled or closed in between.
 */
#ifndef TWINLOG_IO_URING_H
#define TWINLOG_IO_URING_H

#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>

#include "io_backend.h"

struct uring;
struct uring_entry;

/* `result` and `flags` are those of the CQE. Runs in a turn, never inside a submit. */
typedef void (*uring_complete_fn)(struct uring *uring, struct uring_entry *entry, int32_t result,
                                  uint32_t flags);

struct uring_entry {
    uring_complete_fn complete;
};

struct uring_completion {
    struct uring_entry *entry;
    int32_t result;
    uint32_t flags;
};

enum {
    URING_ENTRY_COUNT_DEFAULT = 4096,
    URING_BUFFER_SIZE_DEFAULT = 16 * 1024,
    URING_BUFFER_COUNT_DEFAULT = 1024,
    URING_READ_THREADS_DEFAULT = 2,
    URING_READ_THREADS_MAX = 64,
    URING_RANDOM_COUNT = 64,
    URING_REAP_MAX = 4096, /* completions per turn, so that timers and hooks get their turn too */
};

/* One lane of helper threads. Everything is guarded by the mutex. */
struct uring_lane {
    struct uring *uring;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct list jobs; /* of io_job.link, waiting */
    uint32_t job_count;
    pthread_t threads[URING_READ_THREADS_MAX];
    uint32_t thread_count;
    uint32_t thread_count_max;
    uint32_t idle_count;
    bool stopping;
};

struct uring {
    struct io base;
    struct io_uring ring;
    bool enabled; /* the ring belongs to the thread that enabled it */
    bool in_turn;
    int64_t now_ns;  /* as of the start of the turn's callbacks */
    int64_t wall_ms; /* of this turn; 0: nobody asked yet */

    struct uring_completion *reaped;
    uint32_t reaped_count;
    uint32_t reaped_capacity;

    struct io_uring_buf_ring *buffer_ring;
    uint8_t *buffers;
    uint32_t buffer_size;
    uint32_t buffer_count; /* power of two */

    struct list touched;   /* of uring_stream.touched: stepped at the end of the turn */
    struct list ready;     /* of uring_stream.ready: called early in the next turn */
    struct list failed;    /* of io_op.link: complete early in the next turn */
    uint64_t held_size;    /* bytes held for paused streams */
    uint32_t stream_count; /* opened and not yet closed */
    uint32_t listener_count;
    uint32_t listeners_closing; /* of them: their last accept is still in the ring */
    uint32_t in_flight;         /* file operations, jobs and connects */

    /* The wake-up of the loop by other threads and by signal handlers. */
    int wake_fd; /* shared: an eventfd */
    uint64_t wake_value;
    struct uring_entry wake_entry;
    _Atomic bool stopping; /* shared */

    /* Offload. */
    struct uring_lane lanes[IO_LANE_COUNT];
    pthread_mutex_t done_mutex;
    struct list done;       /* shared, guarded by done_mutex: of io_job.link */
    _Atomic bool done_flag; /* shared: `done` may not be empty */

    /* Mailboxes. */
    struct list mail_in;                      /* of uring_mailbox.in: this loop receives */
    struct list mail_out;                     /* of uring_mailbox.out: sent to in this turn */
    _Atomic(struct uring_mailbox *) mail_new; /* shared: not yet in mail_in */
    _Atomic bool mail_flag;                   /* shared: a mailbox of mail_in may not be empty */
    struct uring_entry mail_entry;

    uint64_t random[URING_RANDOM_COUNT];
    uint32_t random_left;
};

static inline struct uring *uring_of(struct io *io)
{
    return CONTAINER_OF(io, struct uring, base);
}

/* ---------------------------------------------------------------- uring.c */

/* A submission entry whose completion goes to `entry`. Submits when the queue is full. */
struct io_uring_sqe *uring_sqe(struct uring *uring);

/* Sets the owner of a prepared entry; the prepare functions of liburing clear it. */
static inline void uring_sqe_own(struct io_uring_sqe *sqe, struct uring_entry *entry)
{
    io_uring_sqe_set_data(sqe, entry);
}

/* Wakes the loop from any thread or signal handler. */
void uring_wake(struct uring *uring);

/* The clock, read now. */
int64_t uring_clock_ns(void);

/* ---------------------------------------------------------------- uring_setup.c */

/* Sets up the ring and its receive buffers, or says on the trace what the kernel lacks. */
status uring_setup(struct uring *uring, uint32_t entry_count);

/* Takes down what uring_setup made. */
void uring_teardown(struct uring *uring);

/* ---------------------------------------------------------------- uring_file.c */

void uring_submit_write(struct io *io, struct io_op *op, struct io_file *file, const void *buffer,
                        uint32_t size, uint64_t position, bool sync);
void uring_submit_read(struct io *io, struct io_op *op, struct io_file *file, void *buffer,
                       uint32_t size, uint64_t position);
void uring_submit_sync(struct io *io, struct io_op *op, struct io_file *file);

/* Completes operations that failed without reaching the kernel. */
void uring_file_run_failed(struct uring *uring);

/* ---------------------------------------------------------------- uring_listener.c */

status uring_listen(struct io *io, const char *host, uint16_t *port, int backlog,
                    io_accept_fn accept, void *context, struct io_listener **listener);
void uring_listener_close(struct io_listener *listener);
status uring_connect(struct io *io, const char *host, uint16_t port, io_connect_fn done,
                     void *context);

/* ---------------------------------------------------------------- uring_stream.c */

/* A stream over a connected socket, not yet open. NULL when memory is out; `fd` stays open then. */
struct io_stream *uring_stream_create(struct uring *uring, int fd);

void uring_stream_open(struct io_stream *stream, const struct io_stream_events *events,
                       void *context);
void uring_stream_move(struct io_stream *stream, struct io *to);
void uring_stream_pause(struct io_stream *stream);
void uring_stream_resume(struct io_stream *stream);
void uring_stream_send(struct io_stream *stream, struct io_send *send);
void uring_stream_close(struct io_stream *stream);
void uring_stream_peer(struct io_stream *stream, char *text, size_t size);

/* Delivers what was held for resumed streams and ends sends that had nothing to send. */
void uring_streams_run_ready(struct uring *uring);

/* Starts what the turn's callbacks wished for. */
void uring_streams_step(struct uring *uring);

/* ---------------------------------------------------------------- uring_offload.c */

/* Prepares the lanes; threads start with the first job. */
void uring_offload_init(struct uring *uring, uint32_t read_thread_count);

/* Ends and joins the threads. */
void uring_offload_fini(struct uring *uring);

void uring_offload(struct io *io, enum io_lane lane, struct io_job *job);

/* Runs `done` of finished jobs. */
void uring_offload_run_done(struct uring *uring);

/* ---------------------------------------------------------------- uring_mailbox.c */

void uring_mail_init(struct uring *uring);

/* Asserts that every mailbox of the loop was destroyed. */
void uring_mail_fini(struct uring *uring);

status uring_mailbox_create(struct io *from, struct io *to, uint32_t capacity,
                            io_mailbox_fn receive, void *context, struct io_mailbox **mailbox);
void uring_mailbox_destroy(struct io_mailbox *mailbox);
uint32_t uring_mailbox_room(struct io_mailbox *mailbox);
status uring_mailbox_send(struct io_mailbox *mailbox, void *message);

/* Delivers what arrived. */
void uring_mail_run(struct uring *uring);

/* Wakes the loops that were sent to in this turn. */
void uring_mail_flush(struct uring *uring);

#endif
