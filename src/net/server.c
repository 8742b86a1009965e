/* Listener, bounds and the clock of all connections of a shard. */
#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/trace.h"

#include "server.h"

#define NS_PER_MS        1000000LL
#define TICK_MS_MIN      10
#define TICK_MS_MAX      5000
#define REFUSED_EVERY_NS (10000 * NS_PER_MS)
#define LISTEN_BACKLOG   4096

/* How many connections one address has. */
struct net_ip {
    char text[64];
    uint32_t count;
    UT_hash_handle hh;
};

/* ---------------------------------------------------------------- bounds */

static void server_refuse(struct net_server *server, struct io_stream *stream, const char *bound,
                          uint32_t limit)
{
    int64_t now = io_now_ns(server->io);
    server->refused++;
    if (server->refused == 1 || now - server->refused_traced_ns > REFUSED_EVERY_NS) {
        char peer[64];
        io_stream_peer(stream, peer, sizeof(peer));
        trace_warn("net", "connection from %s refused: %s=%u is reached (%llu refused so far)",
                   peer, bound, limit, (unsigned long long)server->refused);
        server->refused_traced_ns = now;
    }
    io_stream_close(stream);
}

/* The address without its port. */
static struct net_ip *server_count_ip(struct net_server *server, struct io_stream *stream)
{
    char text[64];
    io_stream_peer(stream, text, sizeof(text));
    char *colon = strrchr(text, ':');
    if (colon != NULL) {
        *colon = '\0';
    }
    struct net_ip *ip = NULL;
    HASH_FIND_STR(server->ips, text, ip);
    if (ip == NULL) {
        ip = calloc(1, sizeof(*ip));
        if (ip == NULL) {
            return NULL;
        }
        snprintf(ip->text, sizeof(ip->text), "%s", text);
        HASH_ADD_STR(server->ips, text, ip);
    }
    ip->count++;
    return ip;
}

static void server_uncount_ip(struct net_server *server, struct net_ip *ip)
{
    if (ip != NULL && --ip->count == 0) {
        HASH_DEL(server->ips, ip);
        free(ip);
    }
}

/*
 * A frame takes at most half of what is left, so that large ones that never arrive leave room for
 * small ones. One that is larger than half of all cannot ask for that.
 */
bool server_admit_memory(struct net_server *server, uint64_t size)
{
    uint64_t max = server->options.receive_memory_max;
    uint64_t left = max - MIN(server->receive_memory, max);
    bool admitted = server->receive_memory == 0 || size <= (size <= max / 2 ? left / 2 : left);
    if (admitted) {
        server->receive_memory += size;
    }
    return admitted;
}

void server_release_memory(struct net_server *server, uint64_t size)
{
    ASSERT(server->receive_memory >= size);
    server->receive_memory -= size;
    /* All may try again, in order; who finds no room waits again behind the others. */
    struct list_node *node;
    while ((node = list_pop_front(&server->memory_waits)) != NULL) {
        server_wake(server, CONTAINER_OF(node, struct net_connection, memory_link));
    }
}

/* ---------------------------------------------------------------- turn */

static void server_on_wake(struct io_timer *timer)
{
    struct net_server *server = timer->context;
    struct list woken;
    list_init(&woken);
    list_splice(&woken, &server->wakes);
    struct list_node *node;
    while ((node = list_pop_front(&woken)) != NULL) {
        connection_pump(CONTAINER_OF(node, struct net_connection, wake_link));
    }
}

void server_wake(struct net_server *server, struct net_connection *c)
{
    if (list_node_is_linked(&c->wake_link)) {
        return;
    }
    if (list_is_empty(&server->wakes)) {
        io_timer_start(server->io, &server->wake_timer, 0, server_on_wake);
    }
    list_push_back(&server->wakes, &c->wake_link);
}

static void server_on_turn_end(struct io_hook *hook)
{
    struct net_server *server = hook->context;
    struct list_node *node;
    while ((node = list_pop_front(&server->flushes)) != NULL) {
        connection_flush(CONTAINER_OF(node, struct net_connection, flush_link));
    }
}

/* ---------------------------------------------------------------- clock */

static void server_close_late(struct net_server *server, struct net_connection *c, const char *why)
{
    char peer[64];
    io_stream_peer(c->stream, peer, sizeof(peer));
    trace_info("net", "%s closed: %s", peer, why);
    c->closing = true;
    io_stream_close(c->stream);
}

static void server_close_slow_frames(struct net_server *server, int64_t now)
{
    LIST_FOREACH_SAFE (node, &server->begun) {
        struct net_connection *c = CONTAINER_OF(node, struct net_connection, begun_link);
        /* What has arrived buys time, so a frame that stands still does not hold its memory long.
         */
        int64_t bought_ms = c->input.frame_filled / NET_BYTES_PER_MS;
        if (c->frame_due_ns + bought_ms * NS_PER_MS <= now) {
            list_remove(&c->begun_link);
            if (c->stream != NULL && !c->closing) {
                server_close_late(server, c, "a frame it began did not arrive in time");
            }
        }
    }
}

/* The memory of an answer is wanted back: a peer that does not take it cannot keep it. */
static void server_close_slow_sends(struct net_server *server, int64_t now)
{
    LIST_FOREACH_SAFE (node, &server->sends) {
        struct net_connection *c = CONTAINER_OF(node, struct net_connection, send_link);
        if (c->send_due_ns <= now && c->stream != NULL) {
            list_remove(&c->send_link);
            server_close_late(server, c, "it did not take an answer in time");
        }
    }
}

/*
 * A connection whose request waits here is not silent, unless it is the peer that does not take an
 * answer. The list is in order, so only its front is looked at.
 */
static void server_close_idle(struct net_server *server, int64_t now)
{
    int64_t idle_ns = server->options.idle_ms_max * NS_PER_MS;
    int64_t due = now - idle_ns - idle_ns / 16;
    struct list_node *node;
    while ((node = list_first(&server->all)) != NULL) {
        struct net_connection *c = CONTAINER_OF(node, struct net_connection, link);
        if (c->active_ns > due || c->active_ns == now) {
            return; /* The rest was active later, or was looked at just now. */
        }
        bool waits_here = c->in_flight > 0 && !(c->sending && c->send_since_ns <= due);
        c->active_ns = now;
        list_remove(&c->link);
        list_push_back(&server->all, &c->link);
        if (!waits_here && c->stream != NULL && !c->closing) {
            server_close_late(server, c, "idle for connections.max.idle.ms");
        }
    }
}

static void server_on_tick(struct io_timer *timer)
{
    struct net_server *server = timer->context;
    int64_t now = io_now_ns(server->io);
    server_close_slow_frames(server, now);
    server_close_slow_sends(server, now);
    if (server->options.idle_ms_max >= 0) {
        server_close_idle(server, now);
    }
    server->tick_armed = server->connection_count > 0;
    if (server->tick_armed) {
        io_timer_start(server->io, &server->tick_timer, server->tick_ns, server_on_tick);
    }
}

/* ---------------------------------------------------------------- accept */

static void server_on_accept(void *context, struct io_stream *stream)
{
    struct net_server *server = context;
    const struct net_options *options = &server->options;
    if (server->stopping) {
        io_stream_close(stream);
        return;
    }
    if (server->connection_count >= options->connection_count_max) {
        server_refuse(server, stream, "max.connections", options->connection_count_max);
        return;
    }
    struct net_ip *ip = NULL;
    if (options->connection_per_ip_max != UINT32_MAX) {
        ip = server_count_ip(server, stream);
        if (ip == NULL || ip->count > options->connection_per_ip_max) {
            server_uncount_ip(server, ip);
            server_refuse(server, stream, "max.connections.per.ip", options->connection_per_ip_max);
            return;
        }
    }
    struct net_connection *c = pool_take(&server->connections);
    if (c == NULL) {
        server_uncount_ip(server, ip);
        server_refuse(server, stream, "memory for connections", server->connection_count);
        return;
    }
    c->ip = ip;
    server->connection_count++;
    server->accepted++;
    connection_open(server, c, stream);
    if (!server->tick_armed) {
        server->tick_armed = true;
        io_timer_start(server->io, &server->tick_timer, server->tick_ns, server_on_tick);
    }
}

static void server_end_stop(struct net_server *server)
{
    if (server->stopping && !server->stopped && server->connection_count == 0) {
        server->stopped = true;
        io_timer_stop(server->io, &server->stop_timer);
        io_timer_stop(server->io, &server->wake_timer);
        io_timer_stop(server->io, &server->tick_timer);
        io_hook_remove(server->io, &server->flush_hook);
        server->stop_done(server->stop_context);
    }
}

void server_forget(struct net_server *server, struct net_connection *c)
{
    struct list_node *links[] = {&c->link,       &c->wake_link,   &c->flush_link,
                                 &c->begun_link, &c->memory_link, &c->send_link};
    for (size_t i = 0; i < COUNT_OF(links); i++) {
        if (list_node_is_linked(links[i])) {
            list_remove(links[i]);
        }
    }
    server_uncount_ip(server, c->ip);
    uint64_t reserved = c->reserved;
    input_fini(&c->input);
    pool_give(&server->connections, c);
    server->connection_count--;
    if (reserved > 0) {
        server_release_memory(server, reserved);
    }
    server_end_stop(server);
}

/* ---------------------------------------------------------------- create and stop */

static void server_set_options(struct net_server *server, const struct net_options *options)
{
    ASSERT(options->request_size >= sizeof(struct net_request));
    ASSERT(options->request_zeroed_size == 0 ||
           options->request_zeroed_size >= sizeof(struct net_request));
    server->options = *options;
    if (server->options.in_flight_max == 0) {
        server->options.in_flight_max = 16;
    }
    if (server->options.frame_ms_max == 0) {
        server->options.frame_ms_max = 30000;
    }
    int64_t tick_ms = server->options.frame_ms_max / 8;
    if (server->options.idle_ms_max >= 0) {
        tick_ms = MIN(tick_ms, server->options.idle_ms_max / 8);
    }
    tick_ms = MIN(MAX(tick_ms, (int64_t)TICK_MS_MIN), (int64_t)TICK_MS_MAX);
    server->tick_ns = tick_ms * NS_PER_MS;
}

status net_server_create(const struct net_options *options, struct net_server **out)
{
    struct net_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return STATUS(NO_MEMORY);
    }
    server_set_options(server, options);
    server->io = options->io;
    server->port = options->port;
    pool_init(&server->connections, sizeof(struct net_connection), UINT32_MAX);
    pool_init_partly_zeroed(&server->requests, options->request_size,
                            options->request_zeroed_size == 0 ? options->request_size
                                                              : options->request_zeroed_size,
                            UINT32_MAX);
    list_init(&server->all);
    list_init(&server->wakes);
    list_init(&server->flushes);
    list_init(&server->begun);
    list_init(&server->sends);
    list_init(&server->memory_waits);
    server->wake_timer.context = server;
    server->tick_timer.context = server;
    server->stop_timer.context = server;
    status result = io_listen(server->io, options->host, &server->port, LISTEN_BACKLOG,
                              server_on_accept, server, &server->listener);
    if (!status_is_ok(result)) {
        free(server);
        return result;
    }
    server->flush_hook = (struct io_hook){.fn = server_on_turn_end, .context = server};
    io_hook_add(server->io, &server->flush_hook);
    *out = server;
    return OK;
}

uint16_t net_server_port(const struct net_server *server)
{
    return server->port;
}

static void server_on_stop_timer(struct io_timer *timer)
{
    struct net_server *server = timer->context;
    LIST_FOREACH (node, &server->all) {
        struct net_connection *c = CONTAINER_OF(node, struct net_connection, link);
        if (c->stream != NULL) {
            c->closing = true;
            io_stream_close(c->stream);
        }
    }
    server_end_stop(server);
}

void net_server_stop(struct net_server *server, int64_t grace_ms, void (*done)(void *context),
                     void *context)
{
    ASSERT(!server->stopping);
    server->stopping = true;
    server->stop_done = done;
    server->stop_context = context;
    io_listener_close(server->listener);
    server->listener = NULL;
    LIST_FOREACH (node, &server->all) {
        connection_finish(CONTAINER_OF(node, struct net_connection, link));
    }
    int64_t delay_ms = server->connection_count == 0 ? 0 : grace_ms;
    io_timer_start(server->io, &server->stop_timer, delay_ms * NS_PER_MS, server_on_stop_timer);
}

void net_server_destroy(struct net_server *server)
{
    ASSERT(server->stopped);
    pool_fini(&server->connections);
    pool_fini(&server->requests);
    free(server);
}

void net_server_abandon(struct net_server *server)
{
    /* No wake may be asked of a loop that is gone. */
    list_init(&server->memory_waits);
    struct list_node *node;
    while ((node = list_pop_front(&server->all)) != NULL) {
        struct net_connection *c = CONTAINER_OF(node, struct net_connection, link);
        connection_abandon(c);
        server_uncount_ip(server, c->ip);
        pool_give(&server->connections, c);
    }
    pool_fini(&server->connections);
    pool_fini(&server->requests);
    free(server);
}

void net_server_stats(const struct net_server *server, struct net_stats *stats)
{
    *stats = (struct net_stats){
        .connections = server->connection_count,
        .requests = server->requests.in_use,
        .accepted = server->accepted,
        .refused = server->refused,
        .frames = server->frames,
        .receive_memory = server->receive_memory,
    };
}
