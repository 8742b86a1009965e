/*
 * One connection. Reading stops while it is blocked:
 *
 *     in flight    as many requests as allowed wait for their answer or its sending
 *     held         a request lets no later one start (net_request_hold)
 *     later        the next frame waits until all earlier requests are answered (NET_LATER)
 *     memory       the next frame waits for receive memory
 *     closing      nothing more is read
 *
 * Whatever ends one of these calls server_wake(); connection_pump() is the only place where a
 * blocked connection goes on. Bytes that arrived and were not looked at are held in `input`, and
 * only when there are any is the stream paused: a client that waits for its answer costs no pause,
 * and its going away is seen while it waits.
 */
#include <stdlib.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/trace.h"

#include "server.h"

#define NS_PER_MS 1000000

static bool connection_is_blocked(const struct net_connection *c)
{
    return c->closing || c->later || c->held_count > 0 ||
           c->in_flight >= c->server->options.in_flight_max || list_node_is_linked(&c->memory_link);
}

static void connection_peer(const struct net_connection *c, char *text, size_t size)
{
    if (c->stream != NULL) {
        io_stream_peer(c->stream, text, size);
    } else {
        text[0] = '\0';
    }
}

static void connection_close(struct net_connection *c)
{
    c->closing = true;
    if (c->stream != NULL) {
        io_stream_close(c->stream);
    }
}

static void request_free(struct net_connection *c, struct net_request *request)
{
    list_remove(&request->link);
    if (request->release != NULL) {
        request->release(request);
    }
    free(request->kept);
    uint32_t kept_size = request->kept_size;
    pool_give(&c->server->requests, request);
    c->in_flight--;
    if (kept_size > 0) {
        server_release_memory(c->server, kept_size);
    }
}

/* The last step: the stream is gone and no request refers to the connection. */
static void connection_free_if_done(struct net_connection *c)
{
    if (c->stream != NULL || c->running || c->in_flight > 0) {
        return;
    }
    server_forget(c->server, c);
}

static void connection_wake(struct net_connection *c)
{
    bool has_work = c->paused || input_has_begun(&c->input);
    if (has_work && !c->running && c->stream != NULL && !c->closing) {
        server_wake(c->server, c);
    }
}

/* ---------------------------------------------------------------- input */

static enum net_verdict connection_offer(struct net_connection *c, struct bytes frame)
{
    struct net_server *server = c->server;
    struct net_request *request = pool_take(&server->requests);
    if (request == NULL) {
        trace_warn("net", "out of memory for a request; the connection is closed");
        return NET_CLOSE;
    }
    request->connection = c;
    list_push_back(&c->requests, &request->link);
    c->in_flight++;
    c->unanswered++;
    enum net_verdict verdict = server->options.on_request(server->options.context, request, frame);
    if (verdict != NET_TAKEN) {
        ASSERT(!request->answered);
        c->unanswered--;
        c->held_count -= request->held ? 1 : 0;
        request_free(c, request);
    } else {
        server->frames++;
    }
    return verdict;
}

static void connection_trace_too_large(const struct net_connection *c, uint32_t size)
{
    char peer[64];
    connection_peer(c, peer, sizeof(peer));
    trace_warn("net",
               "%s sent a frame of %u bytes, over socket.request.max.bytes=%u: closed (not a "
               "Kafka client, a TLS client on a plaintext port, or the bound is too low)",
               peer, size, c->server->options.frame_size_max);
}

/* False: the frame has to wait, or the connection closes. */
static bool connection_reserve(struct net_connection *c, struct bytes *data, uint32_t size)
{
    if (!server_admit_memory(c->server, size)) {
        list_push_back(&c->server->memory_waits, &c->memory_link);
        return false;
    }
    if (!status_is_ok(input_reserve(&c->input, data, size))) {
        server_release_memory(c->server, size);
        trace_warn("net", "no memory for a frame of %u bytes; the connection is closed", size);
        connection_close(c);
        return false;
    }
    c->reserved = size;
    return true;
}

/* False: nothing more can be done with the bytes now. */
static bool connection_take_frame(struct net_connection *c, struct bytes *data, struct bytes frame)
{
    enum net_verdict verdict = connection_offer(c, frame);
    if (verdict == NET_LATER) {
        ASSERT(c->unanswered > 0);
        c->later = true;
        return false;
    }
    if (verdict == NET_CLOSE) {
        connection_close(c);
    }
    input_done(&c->input, data, frame);
    if (c->reserved > 0) {
        uint64_t reserved = c->reserved;
        c->reserved = 0;
        server_release_memory(c->server, reserved);
    }
    return true;
}

/* A frame that has begun has a deadline, unless it is this side that keeps it from going on. */
static void connection_watch_frame(struct net_connection *c, bool begun)
{
    bool watched = begun && !connection_is_blocked(c);
    if (!watched && list_node_is_linked(&c->begun_link)) {
        list_remove(&c->begun_link);
    }
    if (watched && !list_node_is_linked(&c->begun_link)) {
        c->frame_due_ns = io_now_ns(c->server->io) + c->server->options.frame_ms_max * NS_PER_MS;
        list_push_back(&c->server->begun, &c->begun_link);
    }
}

/* Cuts frames off *data until it is blocked or more bytes are needed. */
static void connection_run(struct net_connection *c, struct bytes *data)
{
    uint32_t size_max = c->server->options.frame_size_max;
    c->running = true;
    while (!connection_is_blocked(c)) {
        struct bytes frame;
        uint32_t size = 0;
        enum input_next next = input_next(&c->input, data, size_max, &frame, &size);
        if (next == INPUT_MORE) {
            break;
        }
        if (next == INPUT_TOO_LARGE) {
            connection_trace_too_large(c, size);
            connection_close(c);
        } else if (next == INPUT_RESERVE) {
            if (!connection_reserve(c, data, size)) {
                break;
            }
        } else if (!connection_take_frame(c, data, frame)) {
            break;
        }
    }
    c->running = false;
}

static void connection_pause_or_resume(struct net_connection *c)
{
    bool blocked = connection_is_blocked(c) && c->input.held_size > 0;
    if (blocked && !c->paused) {
        c->paused = true;
        io_stream_pause(c->stream);
    } else if (!blocked && c->paused) {
        c->paused = false;
        io_stream_resume(c->stream);
    }
}

/*
 * The list of all connections is ordered by the last recorded activity; recording it at most 16
 * times per idle span keeps the list off the path of every request.
 */
static void connection_touch(struct net_connection *c)
{
    int64_t now = io_now_ns(c->server->io);
    if ((now - c->active_ns) / NS_PER_MS > c->server->options.idle_ms_max / 16) {
        c->active_ns = now;
        list_remove(&c->link);
        list_push_back(&c->server->all, &c->link);
    }
}

static void connection_after_run(struct net_connection *c)
{
    connection_watch_frame(c, input_has_begun(&c->input));
    if (c->stream != NULL && !c->closing) {
        connection_pause_or_resume(c);
    }
}

static void connection_hold(struct net_connection *c, struct bytes data)
{
    if (!c->closing && !status_is_ok(input_hold(&c->input, data))) {
        trace_warn("net", "no memory for received bytes; the connection is closed");
        connection_close(c);
    }
}

static void connection_on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct net_connection *c = context;
    if (c->closing) {
        return;
    }
    connection_touch(c);
    struct bytes arrived = {data, size};
    if (c->input.held_size > 0) {
        connection_hold(c, arrived);
        connection_pump(c);
        return;
    }
    connection_run(c, &arrived);
    connection_hold(c, arrived);
    connection_after_run(c);
}

void connection_pump(struct net_connection *c)
{
    if (c->stream == NULL || c->closing) {
        return;
    }
    struct bytes held = input_held(&c->input);
    struct bytes left = held;
    connection_run(c, &left);
    if (held.size > 0) {
        input_held_set(&c->input, left);
    }
    connection_after_run(c);
}

/* ---------------------------------------------------------------- output */

static void connection_mark_flush(struct net_connection *c)
{
    if (!list_node_is_linked(&c->flush_link) && !c->sending) {
        list_push_back(&c->server->flushes, &c->flush_link);
    }
}

static struct net_request *connection_ready(struct net_connection *c)
{
    struct list_node *node = list_first(&c->requests);
    if (node == NULL) {
        return NULL;
    }
    struct net_request *request = CONTAINER_OF(node, struct net_request, link);
    return request->answered ? request : NULL;
}

static void connection_on_sent(struct io_send *send)
{
    struct net_connection *c = send->context;
    c->sending = false;
    if (list_node_is_linked(&c->send_link)) {
        list_remove(&c->send_link);
    }
    while (c->sending_count > 0) {
        c->sending_count--;
        request_free(c, CONTAINER_OF(list_first(&c->requests), struct net_request, link));
    }
    if (c->stream == NULL) {
        connection_free_if_done(c);
        return;
    }
    if (connection_ready(c) != NULL) {
        connection_mark_flush(c);
    }
    if (c->closing && c->in_flight == 0) {
        io_stream_close(c->stream);
    } else {
        connection_wake(c);
    }
}

/* An answer that no other follows yet is sent from where it is. */
static bool connection_has_one_ready(const struct net_connection *c)
{
    const struct list_node *first = list_first(&c->requests);
    const struct net_request *request = CONTAINER_OF(first, struct net_request, link);
    return c->in_flight == 1 && request->answered && request->range_count > 0;
}

/* Gathers the answers at the front, as many as fit in one send. */
static uint32_t connection_gather(struct net_connection *c)
{
    uint32_t range_count = 0;
    if (connection_has_one_ready(c)) {
        struct net_request *request =
            CONTAINER_OF(list_first(&c->requests), struct net_request, link);
        c->sending_count = 1;
        c->send.ranges = request->ranges;
        return request->range_count;
    }
    LIST_FOREACH (node, &c->requests) {
        struct net_request *request = CONTAINER_OF(node, struct net_request, link);
        if (!request->answered) {
            break;
        }
        if (range_count == 0 && request->range_count > NET_GATHER_COUNT) {
            c->sending_count++; /* Answers that say nothing may stand before it. */
            c->send.ranges = request->ranges;
            return request->range_count;
        }
        if (request->range_count > NET_GATHER_COUNT - range_count) {
            break;
        }
        for (uint32_t i = 0; i < request->range_count; i++) {
            c->gather[range_count++] = request->ranges[i];
        }
        c->sending_count++;
    }
    c->send.ranges = c->gather;
    return range_count;
}

static void connection_watch_send(struct net_connection *c)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < c->send.range_count; i++) {
        size += c->send.ranges[i].iov_len;
    }
    int64_t ms = c->server->options.frame_ms_max + (int64_t)(size / NET_BYTES_PER_MS);
    c->send_since_ns = io_now_ns(c->server->io);
    c->send_due_ns = c->send_since_ns + ms * NS_PER_MS;
    list_push_back(&c->server->sends, &c->send_link);
}

void connection_flush(struct net_connection *c)
{
    if (c->sending || c->stream == NULL) {
        return;
    }
    ASSERT(c->sending_count == 0);
    uint32_t range_count = connection_gather(c);
    if (range_count == 0) {
        /* Only answers that say nothing (acks=0). */
        c->send.context = c;
        connection_on_sent(&c->send);
        return;
    }
    c->send.range_count = range_count;
    c->send.fn = connection_on_sent;
    c->send.context = c;
    c->sending = true;
    connection_watch_send(c);
    io_stream_send(c->stream, &c->send);
}

/* ---------------------------------------------------------------- requests */

struct bytes net_request_keep(struct net_request *request, struct bytes frame)
{
    struct net_connection *c = request->connection;
    ASSERT(request->kept == NULL);
    if (c->input.frame_size > 0) {
        /* The assembled buffer changes hands, and so does the memory reserved for it. */
        request->kept = input_take_frame(&c->input);
        request->kept_size = (uint32_t)c->reserved;
        c->reserved = 0;
        return frame;
    }
    uint8_t *kept = malloc(MAX(frame.size, 1U));
    if (kept == NULL) {
        return BYTES_NULL;
    }
    if (frame.size > 0) {
        memcpy(kept, frame.data, frame.size);
    }
    c->server->receive_memory += frame.size;
    request->kept = kept;
    request->kept_size = frame.size;
    return (struct bytes){kept, frame.size};
}

void net_request_hold(struct net_request *request)
{
    ASSERT(!request->answered);
    if (!request->held) {
        request->held = true;
        request->connection->held_count++;
    }
}

bool net_request_is_first(const struct net_request *request)
{
    return request->connection->unanswered == (request->answered ? 0 : 1);
}

void net_request_answer(struct net_request *request)
{
    struct net_connection *c = request->connection;
    ASSERT(!request->answered);
    request->answered = true;
    c->unanswered--;
    if (request->held) {
        c->held_count--;
    }
    if (c->unanswered == 0) {
        c->later = false;
    }
    if (c->stream == NULL) {
        request_free(c, request);
        connection_free_if_done(c);
        return;
    }
    if (connection_ready(c) != NULL) {
        connection_mark_flush(c);
    }
    if (!connection_is_blocked(c)) {
        connection_wake(c);
    }
}

void net_request_close(struct net_request *request)
{
    request->range_count = 0;
    connection_close(request->connection);
    net_request_answer(request);
}

void net_request_peer(const struct net_request *request, char *text, size_t size)
{
    connection_peer(request->connection, text, size);
}

/* ---------------------------------------------------------------- open and close */

static void connection_on_closed(void *context, status why)
{
    struct net_connection *c = context;
    ASSERT(!c->sending);
    c->stream = NULL;
    c->closing = true;
    c->running = true; /* An abandoned request that answers inside does not free the connection. */
    LIST_FOREACH_SAFE (node, &c->requests) {
        struct net_request *request = CONTAINER_OF(node, struct net_request, link);
        if (request->answered) {
            request_free(c, request);
        } else if (request->abandon != NULL) {
            request->abandon(request);
        }
    }
    c->running = false;
    connection_free_if_done(c);
}

void connection_open(struct net_server *server, struct net_connection *c, struct io_stream *stream)
{
    static const struct io_stream_events events = {
        .on_data = connection_on_data,
        .on_closed = connection_on_closed,
    };
    c->server = server;
    c->stream = stream;
    c->active_ns = io_now_ns(server->io);
    list_init(&c->requests);
    list_push_back(&server->all, &c->link);
    io_stream_open(stream, &events, c);
}

void connection_finish(struct net_connection *c)
{
    if (c->stream == NULL || c->closing) {
        return;
    }
    c->closing = true;
    if (!c->paused) {
        c->paused = true;
        io_stream_pause(c->stream);
    }
    if (c->in_flight == 0) {
        io_stream_close(c->stream);
    }
}

void connection_abandon(struct net_connection *c)
{
    struct list_node *node;
    while ((node = list_first(&c->requests)) != NULL) {
        request_free(c, CONTAINER_OF(node, struct net_request, link));
    }
    input_fini(&c->input);
}
