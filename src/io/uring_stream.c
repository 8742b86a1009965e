/*
 * A connected TCP stream.
 *
 *              open                close, end of data, error          close CQE
 *     NEW ------------> OPEN --------------------------> CLOSING -------> CLOSED (on_closed, freed)
 *                        |  ^                               |
 *                        +--+ data, sends                   +-- shutdown(2) ends what is in flight;
 *                                                               then IORING_OP_CLOSE
 *
 * Receiving, while OPEN:
 *
 *              arm                     cancel (held data while paused)
 *     IDLE ------------> ARMED ------------------------------------> CANCELLING
 *      ^                   | last CQE                                    | last CQE
 *      +-------------------+---------------------------------------------+
 *
 * stream_step() is the only place that arms, cancels, shuts down and closes. Everything else
 * records a wish and touches the stream, and the step runs at the end of the turn: a pause and a
 * resume in one turn cost nothing.
 *
 * Receiving is one multishot recv into the loop's ring of buffers, and each buffer is back in that
 * ring when on_data returns. What arrives for a paused stream is copied into chunks of its own, so
 * that paused streams never starve others of buffers. The recv of a paused stream is cancelled when
 * the first chunk is held, which bounds what is held to what one turn received (the buffers of the
 * ring). A stream that held more than STREAM_HELD_MAX receives one buffer at a time from then on,
 * and so do all streams that arm while the loop holds more than STREAM_HELD_TOTAL_MAX.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "uring.h"

enum {
    STREAM_HELD_MAX = 64 * 1024,
    STREAM_HELD_TOTAL_MAX = 16 * 1024 * 1024,
    STREAM_SEND_SIZE_MAX = 1 << 30, /* of a single range; longer ones go out in parts */
    STREAM_RANGES_MAX = 1024,       /* IOV_MAX of Linux */
};

enum stream_state { STREAM_NEW, STREAM_OPEN, STREAM_CLOSING, STREAM_CLOSED };
enum stream_receive { RECEIVE_IDLE, RECEIVE_ARMED, RECEIVE_CANCELLING };

/* Received bytes that wait for a paused stream. */
struct stream_chunk {
    struct list_node link;
    uint32_t size;
    uint8_t data[];
};

struct uring_stream {
    struct io_stream base;
    struct uring_entry receive_entry;
    struct uring_entry send_entry;
    struct uring_entry cancel_entry;
    struct uring_entry close_entry;
    struct list_node touched;
    struct list_node ready;
    const struct io_stream_events *events;
    void *context;
    struct io_send *send; /* given and not yet called back */
    struct list held;     /* of stream_chunk.link */
    uint32_t held_size;
    int fd;
    status why; /* for on_closed, once CLOSING */
    uint8_t state;
    uint8_t receive;
    bool paused;
    bool ended; /* the peer is done; on_closed waits for held data to be delivered */
    bool single;
    bool multishot; /* the armed recv is one */
    bool sending;   /* the kernel has a part of `send` */
    bool cancelling;
    bool shut;
};

/* The message of a send with several ranges, kept in the caller's io_send. */
_Static_assert(sizeof(struct msghdr) <= sizeof(((struct io_send *)NULL)->backend),
               "a message header fits into its caller's io_send");

static struct uring_stream *stream_of(struct io_stream *stream)
{
    return CONTAINER_OF(stream, struct uring_stream, base);
}

static struct uring *stream_uring(struct uring_stream *stream)
{
    return uring_of(stream->base.io);
}

static void stream_check(const struct uring_stream *stream)
{
    ASSERT(!stream->sending || stream->send != NULL);
    ASSERT(!stream->cancelling || stream->state != STREAM_CLOSED);
    ASSERT((stream->held_size == 0) == list_is_empty(&stream->held));
}

static void stream_touch(struct uring_stream *stream)
{
    if (!list_node_is_linked(&stream->touched)) {
        list_push_back(&stream_uring(stream)->touched, &stream->touched);
    }
}

static void stream_make_ready(struct uring_stream *stream)
{
    if (!list_node_is_linked(&stream->ready)) {
        list_push_back(&stream_uring(stream)->ready, &stream->ready);
    }
}

/* ---------------------------------------------------------------- held data */

static void stream_free_chunk(struct uring_stream *stream, struct stream_chunk *chunk)
{
    stream->held_size -= chunk->size;
    stream_uring(stream)->held_size -= chunk->size;
    free(chunk);
}

static struct stream_chunk *stream_pop_chunk(struct uring_stream *stream)
{
    struct list_node *node = list_pop_front(&stream->held);
    return node == NULL ? NULL : CONTAINER_OF(node, struct stream_chunk, link);
}

static void stream_drop_held(struct uring_stream *stream)
{
    struct stream_chunk *chunk;
    while ((chunk = stream_pop_chunk(stream)) != NULL) {
        stream_free_chunk(stream, chunk);
    }
}

/* Leaves OPEN; the first reason stays. */
static void stream_end(struct uring_stream *stream, status why)
{
    if (stream->state != STREAM_OPEN) {
        return;
    }
    stream->state = STREAM_CLOSING;
    stream->why = why;
    stream_drop_held(stream);
    stream_touch(stream);
}

static void stream_hold(struct uring_stream *stream, const uint8_t *data, uint32_t size)
{
    struct stream_chunk *chunk = malloc(sizeof(*chunk) + size);
    if (chunk == NULL) {
        stream_end(stream, STATUS(NO_MEMORY));
        return;
    }
    *chunk = (struct stream_chunk){.size = size};
    memcpy(chunk->data, data, size);
    list_push_back(&stream->held, &chunk->link);
    stream->held_size += size;
    stream_uring(stream)->held_size += size;
    stream->single = stream->single || stream->held_size > STREAM_HELD_MAX;
    stream_touch(stream);
}

/* The peer sends no more, or never did well. */
static void stream_on_end(struct uring_stream *stream, status why)
{
    if (list_is_empty(&stream->held) || why.sys != 0) {
        stream_end(stream, why);
    } else {
        stream->ended = true;
    }
}

/* Runs in the turn after a resume. */
static void stream_deliver_held(struct uring_stream *stream)
{
    while (stream->state == STREAM_OPEN && !stream->paused) {
        struct stream_chunk *chunk = stream_pop_chunk(stream);
        if (chunk == NULL) {
            break;
        }
        stream->events->on_data(stream->context, chunk->data, chunk->size);
        stream_free_chunk(stream, chunk);
    }
    if (stream->state == STREAM_OPEN && stream->ended && list_is_empty(&stream->held)) {
        stream_end(stream, STATUS(CLOSED));
    }
    stream_touch(stream);
}

/* ---------------------------------------------------------------- receiving */

static void stream_arm(struct uring_stream *stream)
{
    struct uring *uring = stream_uring(stream);
    struct io_uring_sqe *sqe = uring_sqe(uring);
    stream->multishot = !stream->single && uring->held_size <= STREAM_HELD_TOTAL_MAX;
    if (stream->multishot) {
        io_uring_prep_recv_multishot(sqe, stream->fd, NULL, 0, 0);
    } else {
        io_uring_prep_recv(sqe, stream->fd, NULL, uring->buffer_size, 0);
    }
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = 0;
    uring_sqe_own(sqe, &stream->receive_entry);
    stream->receive = RECEIVE_ARMED;
}

static void stream_cancel_receive(struct uring_stream *stream)
{
    struct io_uring_sqe *sqe = uring_sqe(stream_uring(stream));
    io_uring_prep_cancel(sqe, &stream->receive_entry, 0);
    uring_sqe_own(sqe, &stream->cancel_entry);
    stream->receive = RECEIVE_CANCELLING;
    stream->cancelling = true;
}

/*
 * The kernel may not find a recv that is just being woken. It is then still armed, and the step
 * tries again, unless its last CQE comes first.
 */
static void stream_on_cancel(struct uring *uring, struct uring_entry *entry, int32_t result,
                             uint32_t flags)
{
    struct uring_stream *stream = CONTAINER_OF(entry, struct uring_stream, cancel_entry);
    stream->cancelling = false;
    if (result < 0 && stream->receive == RECEIVE_CANCELLING) {
        stream->receive = RECEIVE_ARMED;
    }
    stream_touch(stream);
}

static void stream_on_data(struct uring_stream *stream, const uint8_t *data, uint32_t size)
{
    if (stream->state != STREAM_OPEN) {
        return;
    }
    if (stream->paused || !list_is_empty(&stream->held)) {
        stream_hold(stream, data, size);
    } else {
        stream->events->on_data(stream->context, data, size);
    }
}

static void stream_return_buffer(struct uring *uring, uint32_t index)
{
    ASSERT(index < uring->buffer_count);
    io_uring_buf_ring_add(uring->buffer_ring, uring->buffers + (size_t)index * uring->buffer_size,
                          uring->buffer_size, (unsigned short)index,
                          io_uring_buf_ring_mask(uring->buffer_count), 0);
    io_uring_buf_ring_advance(uring->buffer_ring, 1);
}

/*
 * ENOBUFS ends the recv when the ring of buffers ran empty in this turn; all are back at its end,
 * when the step arms again.
 */
static void stream_on_receive(struct uring *uring, struct uring_entry *entry, int32_t result,
                              uint32_t flags)
{
    struct uring_stream *stream = CONTAINER_OF(entry, struct uring_stream, receive_entry);
    if ((flags & IORING_CQE_F_MORE) == 0) {
        stream->receive = RECEIVE_IDLE;
        stream_touch(stream);
    }
    uint32_t index = flags >> IORING_CQE_BUFFER_SHIFT;
    if (result > 0) {
        ASSERT((flags & IORING_CQE_F_BUFFER) != 0);
        uring->base.stats.received += (uint64_t)result;
        stream_on_data(stream, uring->buffers + (size_t)index * uring->buffer_size,
                       (uint32_t)result);
    } else if (result == 0) {
        stream_on_end(stream, STATUS(CLOSED));
    } else if (result != -ENOBUFS && result != -ECANCELED && result != -EINTR &&
               result != -EAGAIN) {
        stream_on_end(stream, status_from_errno(-result));
    }
    if ((flags & IORING_CQE_F_BUFFER) != 0) {
        stream_return_buffer(uring, index);
    }
}

/* ---------------------------------------------------------------- sending */

static void stream_skip_empty(struct io_send *send)
{
    while (send->range_count > 0 && send->ranges->iov_len == 0) {
        send->ranges++;
        send->range_count--;
    }
}

static void stream_advance(struct io_send *send, size_t size)
{
    while (size > 0) {
        ASSERT(send->range_count > 0);
        size_t step = MIN(size, send->ranges->iov_len);
        send->ranges->iov_base = (uint8_t *)send->ranges->iov_base + step;
        send->ranges->iov_len -= step;
        size -= step;
        stream_skip_empty(send);
    }
}

/* MSG_WAITALL: the kernel itself goes on after a short send, and one completion comes for all. */
static void stream_start_send(struct uring_stream *stream)
{
    struct io_send *send = stream->send;
    struct io_uring_sqe *sqe = uring_sqe(stream_uring(stream));
    if (send->range_count == 1) {
        size_t size = MIN(send->ranges->iov_len, (size_t)STREAM_SEND_SIZE_MAX);
        io_uring_prep_send(sqe, stream->fd, send->ranges->iov_base, size,
                           MSG_NOSIGNAL | MSG_WAITALL);
    } else {
        struct msghdr *message = (struct msghdr *)(void *)send->backend;
        *message = (struct msghdr){
            .msg_iov = send->ranges,
            .msg_iovlen = MIN(send->range_count, (uint32_t)STREAM_RANGES_MAX),
        };
        io_uring_prep_sendmsg(sqe, stream->fd, message, MSG_NOSIGNAL | MSG_WAITALL);
    }
    uring_sqe_own(sqe, &stream->send_entry);
    stream->sending = true;
}

static void stream_finish_send(struct uring_stream *stream)
{
    struct io_send *send = stream->send;
    ASSERT(!stream->sending);
    send->result = send->range_count == 0 ? OK : stream->why;
    stream->send = NULL;
    if (stream->state == STREAM_CLOSING) {
        stream_touch(stream);
    }
    send->fn(send);
}

static void stream_on_sent(struct uring *uring, struct uring_entry *entry, int32_t result,
                           uint32_t flags)
{
    struct uring_stream *stream = CONTAINER_OF(entry, struct uring_stream, send_entry);
    struct io_send *send = stream->send;
    stream->sending = false;
    if (result > 0) {
        uring->base.stats.sent += (uint64_t)result;
        stream_advance(send, (size_t)result);
    } else if (result != -EINTR && result != -EAGAIN) {
        stream_end(stream, result == 0 ? STATUS(IO) : status_from_errno(-result));
    }
    if (send->range_count > 0 && stream->state == STREAM_OPEN) {
        stream_start_send(stream);
    } else {
        stream_finish_send(stream);
    }
}

void uring_stream_send(struct io_stream *base, struct io_send *send)
{
    struct uring_stream *stream = stream_of(base);
    ASSERT(stream->send == NULL);
    ASSERT(stream->state != STREAM_NEW);
    stream->send = send;
    stream_skip_empty(send);
    if (send->range_count > 0 && stream->state == STREAM_OPEN) {
        stream_start_send(stream);
    } else {
        stream_make_ready(stream);
    }
}

/* ---------------------------------------------------------------- closing */

static void stream_free(struct uring_stream *stream)
{
    if (list_node_is_linked(&stream->touched)) {
        list_remove(&stream->touched);
    }
    if (list_node_is_linked(&stream->ready)) {
        list_remove(&stream->ready);
    }
    free(stream);
}

static void stream_on_close(struct uring *uring, struct uring_entry *entry, int32_t result,
                            uint32_t flags)
{
    struct uring_stream *stream = CONTAINER_OF(entry, struct uring_stream, close_entry);
    ASSERT(stream->state == STREAM_CLOSED);
    ASSERT(uring->stream_count > 0);
    while (stream->send != NULL) {
        /* Given after the close was submitted, by someone who cannot know. */
        stream_finish_send(stream);
    }
    stream->events->on_closed(stream->context, stream->why);
    uring->stream_count--;
    stream_free(stream);
}

static void stream_step_closing(struct uring_stream *stream)
{
    if (stream->receive != RECEIVE_IDLE || stream->sending) {
        if (!stream->shut) {
            /* Ends a recv that waits and a send that a slow peer blocks, whoever began to close. */
            (void)shutdown(stream->fd, SHUT_RDWR);
            stream->shut = true;
        }
    } else if (stream->send == NULL && !stream->cancelling) {
        struct io_uring_sqe *sqe = uring_sqe(stream_uring(stream));
        io_uring_prep_close(sqe, stream->fd);
        uring_sqe_own(sqe, &stream->close_entry);
        stream->state = STREAM_CLOSED;
    }
}

/* ---------------------------------------------------------------- steps */

static void stream_step(struct uring_stream *stream)
{
    if (stream->state == STREAM_CLOSING) {
        stream_step_closing(stream);
    } else if (stream->state == STREAM_OPEN) {
        bool held = !list_is_empty(&stream->held);
        if (!stream->paused && held) {
            stream_make_ready(stream);
        } else if (!stream->paused && stream->receive == RECEIVE_IDLE && !stream->ended) {
            stream_arm(stream);
        } else if (held && stream->receive == RECEIVE_ARMED && stream->multishot &&
                   !stream->cancelling) {
            stream_cancel_receive(stream);
        }
    }
    stream_check(stream);
}

void uring_streams_step(struct uring *uring)
{
    struct list_node *node;
    while ((node = list_pop_front(&uring->touched)) != NULL) {
        stream_step(CONTAINER_OF(node, struct uring_stream, touched));
    }
}

static void stream_run_ready(struct uring_stream *stream)
{
    if (stream->send != NULL && !stream->sending) {
        stream_finish_send(stream);
    }
    stream_deliver_held(stream);
}

void uring_streams_run_ready(struct uring *uring)
{
    struct list ready;
    list_init(&ready);
    list_splice(&ready, &uring->ready);
    struct list_node *node;
    while ((node = list_pop_front(&ready)) != NULL) {
        stream_run_ready(CONTAINER_OF(node, struct uring_stream, ready));
    }
}

/* ---------------------------------------------------------------- the rest of the interface */

struct io_stream *uring_stream_create(struct uring *uring, int fd)
{
    struct uring_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        return NULL;
    }
    stream->base.io = &uring->base;
    stream->receive_entry.complete = stream_on_receive;
    stream->send_entry.complete = stream_on_sent;
    stream->cancel_entry.complete = stream_on_cancel;
    stream->close_entry.complete = stream_on_close;
    stream->fd = fd;
    stream->state = STREAM_NEW;
    list_init(&stream->held);
    return &stream->base;
}

void uring_stream_open(struct io_stream *base, const struct io_stream_events *events, void *context)
{
    struct uring_stream *stream = stream_of(base);
    ASSERT(stream->state == STREAM_NEW);
    stream->events = events;
    stream->context = context;
    stream->state = STREAM_OPEN;
    stream_uring(stream)->stream_count++;
    stream_touch(stream);
}

/* A new stream is in no list and in no operation, so that its loop is all there is to change. */
void uring_stream_move(struct io_stream *base, struct io *to)
{
    struct uring_stream *stream = stream_of(base);
    ASSERT(stream->state == STREAM_NEW);
    stream->base.io = to;
}

void uring_stream_pause(struct io_stream *base)
{
    stream_of(base)->paused = true;
}

void uring_stream_resume(struct io_stream *base)
{
    struct uring_stream *stream = stream_of(base);
    if (stream->paused) {
        stream->paused = false;
        stream_touch(stream);
    }
}

void uring_stream_close(struct io_stream *base)
{
    struct uring_stream *stream = stream_of(base);
    if (stream->state == STREAM_NEW) {
        close(stream->fd);
        stream_free(stream);
        return;
    }
    stream_end(stream, STATUS(CANCELLED));
}

void uring_stream_peer(struct io_stream *base, char *text, size_t size)
{
    struct address peer = {.size = sizeof(peer.storage)};
    if (getpeername(stream_of(base)->fd, (struct sockaddr *)&peer.storage, &peer.size) < 0) {
        snprintf(text, size, "unknown");
    } else {
        address_format(&peer, text, size);
    }
}
