/*
 * The event loop of a shard, and the seam through which everything that touches disk, network,
 * clock or randomness goes. Two backends: `uring` (Linux io_uring) and `sim` (seeded, virtual time,
 * faults; include/twinlog/io/sim.h). Code above this header does not know which one runs.
 *
 * A loop belongs to one thread. All functions that take a `struct io` are called on that thread,
 * except where stated. A turn is: reap completions to a list, run their callbacks, run due timers,
 * run turn hooks, submit, wait. A callback never runs inside a submit or start function.
 *
 * Ownership: an `io_op`, `io_timer`, `io_job` or `io_hook` is embedded in its owner, zeroed before
 * its first use, and must stay valid until its callback ran (op, job) or it is stopped (timer,
 * hook). A buffer given to an operation lives until that operation's callback.
 */
#ifndef TWINLOG_IO_IO_H
#define TWINLOG_IO_IO_H

#include <sys/uio.h>

#include "twinlog/core/list.h"
#include "twinlog/core/status.h"
#include "twinlog/io/disk.h"

struct io;

/* ---------------------------------------------------------------- loop */

struct io_options {
    uint32_t entry_count;          /* submission queue entries, power of two; 0: default 4096 */
    uint32_t receive_buffer_size;  /* bytes of one provided buffer; 0: default 16 KiB */
    uint32_t receive_buffer_count; /* power of two; 0: default 1024 */
    uint32_t read_thread_count;    /* helper threads of IO_LANE_READ; 0: default 2 */
};

/*
 * Makes a loop on io_uring for the calling thread; the first io_run() must be on the same thread.
 * UNSUPPORTED: the kernel lacks a feature or forbids io_uring; the feature, the kernel version that
 * has it and the remedy are on the trace.
 */
MUST_USE status io_create_uring(const struct io_options *options, struct io **io);

/* Frees the loop. Nothing may be in flight. */
void io_destroy(struct io *io);

/*
 * Runs turns until io_stop() is called. Under sim the scheduler runs the turns instead.
 * A status other than OK means the ring itself failed.
 */
MUST_USE status io_run(struct io *io);

/* Makes io_run() return after the current turn. Also safe from a signal handler or other thread. */
void io_stop(struct io *io);

/* ---------------------------------------------------------------- clock and randomness */

/* Monotonic time in nanoseconds, as of the start of this turn's callbacks (cached). */
int64_t io_now_ns(struct io *io);

/* The same, read now: for measuring inside a turn. */
int64_t io_now_ns_exact(struct io *io);

/* Wall clock in milliseconds since the epoch. It may jump. */
int64_t io_wall_ms(struct io *io);

/* 64 random bits; from the kernel, or from the seed under sim. */
uint64_t io_random(struct io *io);

/* The disk this node has. Usable from helper threads. */
struct io_disk *io_disk(struct io *io);

/* ---------------------------------------------------------------- timers and hooks */

struct io_timer;
typedef void (*io_timer_fn)(struct io_timer *timer);

struct io_timer {
    struct list_node link;
    int64_t due_ns;
    io_timer_fn fn;
    void *context;
    uint32_t heap_index; /* backend's; 0 when not armed */
};

/* Arms `timer` to run `fn` once, `delay_ns` from now; re-arms it when it is armed. */
void io_timer_start(struct io *io, struct io_timer *timer, int64_t delay_ns, io_timer_fn fn);

/* Disarms; nothing happens when it is not armed. */
void io_timer_stop(struct io *io, struct io_timer *timer);

/* Runs at the end of every turn, before the submit: where work gathered in the turn is issued. */
struct io_hook {
    struct list_node link;
    void (*fn)(struct io_hook *hook);
    void *context;
};

/* Adds a hook; hooks run in the order they were added. */
void io_hook_add(struct io *io, struct io_hook *hook);

/* Takes a hook out; allowed inside hooks. */
void io_hook_remove(struct io *io, struct io_hook *hook);

/* ---------------------------------------------------------------- asynchronous file operations */

struct io_op;
typedef void (*io_op_fn)(struct io_op *op);

struct io_op {
    struct list_node link; /* backend's while in flight */
    io_op_fn fn;
    void *context;
    status result;  /* valid in the callback */
    uint32_t count; /* bytes transferred, valid in the callback */
    uint64_t backend[4];
};

/*
 * Writes `size` bytes at `position` and, with `sync`, makes them durable before completion
 * (RWF_DSYNC). With a file opened IO_FILE_DIRECT, buffer, size and position are multiples of 4096.
 * A short write is an error (IO). The callback runs in a later turn, never inside this call.
 */
void io_submit_write(struct io *io, struct io_op *op, struct io_file *file, const void *buffer,
                     uint32_t size, uint64_t position, bool sync, io_op_fn fn);

/* Reads up to `size` bytes; `count` less than `size` means end of file. */
void io_submit_read(struct io *io, struct io_op *op, struct io_file *file, void *buffer,
                    uint32_t size, uint64_t position, io_op_fn fn);

/* fdatasync. */
void io_submit_sync(struct io *io, struct io_op *op, struct io_file *file, io_op_fn fn);

/* ---------------------------------------------------------------- offload */

/*
 * Slow work on helper threads: `work` runs there (it may use include/twinlog/io/disk.h and what the
 * job owns, nothing of the shard), then `done` runs on the loop. One lane runs its jobs in order on
 * one thread (WRITE, BACKGROUND) or on read_thread_count threads (READ); lanes do not wait for each
 * other. The thread of BACKGROUND yields processor and device to everything else.
 * Under sim `work` runs at a random later moment, in order per lane.
 */
enum io_lane { IO_LANE_WRITE, IO_LANE_READ, IO_LANE_BACKGROUND, IO_LANE_COUNT };

struct io_job;
typedef void (*io_job_fn)(struct io_job *job);

struct io_job {
    struct list_node link;
    io_job_fn work;
    io_job_fn done;
    void *context;
};

/* Queues a job; never fails, owners bound what they queue. */
void io_offload(struct io *io, enum io_lane lane, struct io_job *job, io_job_fn work,
                io_job_fn done);

/* ---------------------------------------------------------------- network */

struct io_listener;
struct io_stream;

/*
 * Takes over a new stream: call io_stream_open on it before returning, or io_stream_close, or hand
 * it to another loop with io_stream_move.
 */
typedef void (*io_accept_fn)(void *context, struct io_stream *stream);

/*
 * Listens on `host`:`port` (numeric IPv4 or IPv6; SO_REUSEADDR, never SO_REUSEPORT). Port 0 picks
 * one; *port is set to the port in use. When descriptors run out, accepting pauses 100 ms at a
 * time and says so on the trace once.
 * BUSY: the port is taken; PERMISSION; INVALID: not an address; NOT_FOUND: address not of this
 * host.
 */
MUST_USE status io_listen(struct io *io, const char *host, uint16_t *port, int backlog,
                          io_accept_fn accept, void *context, struct io_listener **listener);

/* Stops accepting and frees the listener once the kernel let go. Streams are not touched. */
void io_listener_close(struct io_listener *listener);

struct io_stream_events {
    /*
     * `size` bytes arrived; they are valid during the call only. Called with size 0 never.
     * The callee may pause, send or close inside.
     */
    void (*on_data)(void *context, const uint8_t *data, uint32_t size);
    /*
     * The last callback of the stream: after the peer closed or reset, an error, or
     * io_stream_close(); every send has completed before. The stream is freed after it returns.
     * `why` is CLOSED for an orderly end by the peer, CANCELLED for our own close.
     */
    void (*on_closed)(void *context, status why);
};

/* Attaches the events and starts receiving. TCP_NODELAY is set. */
void io_stream_open(struct io_stream *stream, const struct io_stream_events *events, void *context);

/*
 * Gives a stream that was never opened to the loop `to` (both of uring). Called on the stream's
 * loop; afterwards only `to`'s thread, told for example by a mailbox, opens or closes it.
 */
void io_stream_move(struct io_stream *stream, struct io *to);

/*
 * Stops delivery until resumed. A bounded amount already received is held back and delivered,
 * in order, after io_stream_resume(): never inside it.
 */
void io_stream_pause(struct io_stream *stream);
void io_stream_resume(struct io_stream *stream);

struct io_send;
typedef void (*io_send_fn)(struct io_send *send);

/* One send: a list of ranges, all of it sent before `fn` runs. At most one in flight per stream. */
struct io_send {
    struct iovec *ranges; /* caller's; the backend advances them */
    uint32_t range_count;
    io_send_fn fn;
    void *context;
    status result;
    uint64_t backend[8];
};

/* Sends all ranges in order; `fn` runs in a later turn with OK, or an error and then on_closed. */
void io_stream_send(struct io_stream *stream, struct io_send *send);

/* Closes both ways; on_closed follows in a later turn. Allowed once or more, in any callback. */
void io_stream_close(struct io_stream *stream);

/* "127.0.0.1:49152"; at most `size` bytes with the NUL. */
void io_stream_peer(struct io_stream *stream, char *text, size_t size);

/* Connects; `done` gets the stream (open it there) or the error. Numeric addresses only. */
typedef void (*io_connect_fn)(void *context, status result, struct io_stream *stream);
MUST_USE status io_connect(struct io *io, const char *host, uint16_t port, io_connect_fn done,
                           void *context);

/* ---------------------------------------------------------------- mailboxes */

/*
 * One-way bounded channel of pointers from one loop to another (SPSC). `notify` costs one wake of
 * the receiver per turn of the sender, whatever the number of messages.
 */
struct io_mailbox;
typedef void (*io_mailbox_fn)(void *context, void *message);

/*
 * Both loops exist and do not run yet, or the call is made before either sends. `capacity` is a
 * power of two. Messages arrive on `to` in order.
 */
MUST_USE status io_mailbox_create(struct io *from, struct io *to, uint32_t capacity,
                                  io_mailbox_fn receive, void *context,
                                  struct io_mailbox **mailbox);

/* Frees the mailbox; both loops have stopped and are not destroyed yet. */
void io_mailbox_destroy(struct io_mailbox *mailbox);

/* Slots free at this moment; the sender reserves reply slots by counting. */
uint32_t io_mailbox_room(struct io_mailbox *mailbox);

/* Sends from the `from` loop; FULL: nothing was sent. */
MUST_USE status io_mailbox_send(struct io_mailbox *mailbox, void *message);

/* ---------------------------------------------------------------- facts */

struct io_stats {
    uint64_t turns;       /* loop turns */
    uint64_t submits;     /* io_uring_enter calls that submitted or waited */
    uint64_t completions; /* CQEs */
    uint64_t writes;      /* file writes submitted */
    uint64_t syncs;       /* durable writes and fdatasyncs completed */
    uint64_t received;    /* bytes */
    uint64_t sent;        /* bytes */
};

/* Counters since the start. */
void io_stats_get(struct io *io, struct io_stats *stats);

#endif
