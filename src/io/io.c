/* The public functions: checks that hold for every backend, then the backend's own function. */
#include "io_backend.h"

/* ---------------------------------------------------------------- base */

void io_base_init(struct io *io, const struct io_ops *ops)
{
    io->ops = ops;
    timers_init(&io->timers);
    list_init(&io->hooks);
    io->hook_next = NULL;
}

void io_base_fini(struct io *io)
{
    timers_fini(&io->timers);
}

void io_hooks_run(struct io *io)
{
    ASSERT(io->hook_next == NULL);
    for (struct list_node *at = io->hooks.head.next; at != &io->hooks.head; at = io->hook_next) {
        io->hook_next = at->next;
        struct io_hook *hook = CONTAINER_OF(at, struct io_hook, link);
        hook->fn(hook);
    }
    io->hook_next = NULL;
}

/* ---------------------------------------------------------------- loop */

void io_destroy(struct io *io)
{
    io->ops->destroy(io);
}

status io_run(struct io *io)
{
    ASSERT(io->ops->run != NULL);
    return io->ops->run(io);
}

void io_stop(struct io *io)
{
    io->ops->stop(io);
}

int64_t io_now_ns(struct io *io)
{
    return io->ops->now_ns(io);
}

int64_t io_now_ns_exact(struct io *io)
{
    return io->ops->now_ns_exact(io);
}

int64_t io_wall_ms(struct io *io)
{
    return io->ops->wall_ms(io);
}

uint64_t io_random(struct io *io)
{
    return io->ops->random(io);
}

struct io_disk *io_disk(struct io *io)
{
    return io->ops->disk(io);
}

void io_stats_get(struct io *io, struct io_stats *stats)
{
    *stats = io->stats;
}

/* ---------------------------------------------------------------- timers and hooks */

void io_timer_start(struct io *io, struct io_timer *timer, int64_t delay_ns, io_timer_fn fn)
{
    ASSERT(fn != NULL);
    int64_t now_ns = io->ops->now_ns(io);
    int64_t due_ns = INT64_MAX;
    if (delay_ns < 0) {
        delay_ns = 0;
    }
    if (delay_ns < INT64_MAX - now_ns) {
        due_ns = now_ns + delay_ns;
    }
    timers_start(&io->timers, timer, due_ns, fn);
}

void io_timer_stop(struct io *io, struct io_timer *timer)
{
    timers_stop(&io->timers, timer);
}

void io_hook_add(struct io *io, struct io_hook *hook)
{
    ASSERT(hook->fn != NULL);
    list_push_back(&io->hooks, &hook->link);
    if (io->hook_next == &io->hooks.head) {
        /* The last hook is running and added this one, which then runs in the same turn. */
        io->hook_next = &hook->link;
    }
}

void io_hook_remove(struct io *io, struct io_hook *hook)
{
    if (io->hook_next == &hook->link) {
        io->hook_next = hook->link.next;
    }
    list_remove(&hook->link);
}

/* ---------------------------------------------------------------- asynchronous file operations */

static void io_op_start(struct io_op *op, io_op_fn fn)
{
    ASSERT(fn != NULL);
    op->fn = fn;
    op->result = OK;
    op->count = 0;
}

void io_submit_write(struct io *io, struct io_op *op, struct io_file *file, const void *buffer,
                     uint32_t size, uint64_t position, bool sync, io_op_fn fn)
{
    ASSERT(size > 0);
    ASSERT(size <= INT32_MAX);
    io_op_start(op, fn);
    io->ops->submit_write(io, op, file, buffer, size, position, sync);
}

void io_submit_read(struct io *io, struct io_op *op, struct io_file *file, void *buffer,
                    uint32_t size, uint64_t position, io_op_fn fn)
{
    ASSERT(size > 0);
    ASSERT(size <= INT32_MAX);
    io_op_start(op, fn);
    io->ops->submit_read(io, op, file, buffer, size, position);
}

void io_submit_sync(struct io *io, struct io_op *op, struct io_file *file, io_op_fn fn)
{
    io_op_start(op, fn);
    io->ops->submit_sync(io, op, file);
}

void io_offload(struct io *io, enum io_lane lane, struct io_job *job, io_job_fn work,
                io_job_fn done)
{
    ASSERT(lane < IO_LANE_COUNT);
    ASSERT(work != NULL);
    ASSERT(done != NULL);
    job->work = work;
    job->done = done;
    io->ops->offload(io, lane, job);
}

/* ---------------------------------------------------------------- network */

status io_listen(struct io *io, const char *host, uint16_t *port, int backlog, io_accept_fn accept,
                 void *context, struct io_listener **listener)
{
    ASSERT(accept != NULL);
    return io->ops->listen(io, host, port, backlog, accept, context, listener);
}

void io_listener_close(struct io_listener *listener)
{
    listener->io->ops->listener_close(listener);
}

status io_connect(struct io *io, const char *host, uint16_t port, io_connect_fn done, void *context)
{
    ASSERT(done != NULL);
    return io->ops->connect(io, host, port, done, context);
}

void io_stream_open(struct io_stream *stream, const struct io_stream_events *events, void *context)
{
    ASSERT(events->on_data != NULL);
    ASSERT(events->on_closed != NULL);
    stream->io->ops->stream_open(stream, events, context);
}

void io_stream_move(struct io_stream *stream, struct io *to)
{
    ASSERT(stream->io->ops == to->ops);
    stream->io->ops->stream_move(stream, to);
}

void io_stream_pause(struct io_stream *stream)
{
    stream->io->ops->stream_pause(stream);
}

void io_stream_resume(struct io_stream *stream)
{
    stream->io->ops->stream_resume(stream);
}

void io_stream_send(struct io_stream *stream, struct io_send *send)
{
    ASSERT(send->fn != NULL);
    send->result = OK;
    stream->io->ops->stream_send(stream, send);
}

void io_stream_close(struct io_stream *stream)
{
    stream->io->ops->stream_close(stream);
}

void io_stream_peer(struct io_stream *stream, char *text, size_t size)
{
    ASSERT(size > 0);
    stream->io->ops->stream_peer(stream, text, size);
}

/* ---------------------------------------------------------------- mailboxes */

status io_mailbox_create(struct io *from, struct io *to, uint32_t capacity, io_mailbox_fn receive,
                         void *context, struct io_mailbox **mailbox)
{
    ASSERT(from->ops == to->ops);
    ASSERT(capacity > 0);
    ASSERT((capacity & (capacity - 1)) == 0);
    ASSERT(receive != NULL);
    return from->ops->mailbox_create(from, to, capacity, receive, context, mailbox);
}

void io_mailbox_destroy(struct io_mailbox *mailbox)
{
    mailbox->from->ops->mailbox_destroy(mailbox);
}

uint32_t io_mailbox_room(struct io_mailbox *mailbox)
{
    return mailbox->from->ops->mailbox_room(mailbox);
}

status io_mailbox_send(struct io_mailbox *mailbox, void *message)
{
    ASSERT(message != NULL);
    return mailbox->from->ops->mailbox_send(mailbox, message);
}
