/* Listening and connecting between simulated nodes, and what cuts and deaths do to it. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim_stream.h"

enum {
    ACCEPT_US_MAX = 20,
    REPEAT_SYN_US = 1000 * 1000,
    CONNECT_TIMEOUT_US_MIN = 3000 * 1000,
    CONNECT_TIMEOUT_US_MAX = 5000 * 1000,
};

struct sim_connect {
    struct list_node link; /* in the loop's connects */
    struct sim_loop *loop;
    struct sim_node *target; /* NULL: no such host */
    char host[SIM_HOST_SIZE_MAX];
    uint16_t port;
    io_connect_fn done;
    void *context;
    struct sim_event reach;  /* the request gets to the target */
    struct sim_event finish; /* the answer is back, or the time is up */
    status result;
    struct sim_stream *stream;
};

static struct sim_listener *listener_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct sim_listener, link);
}

static struct sim_connect *connect_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct sim_connect, link);
}

static struct sim_loop *loop_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct sim_loop, link);
}

/* ---------------------------------------------------------------- addresses */

static bool host_is_numeric(const char *host)
{
    uint8_t address[sizeof(struct in6_addr)];
    return strlen(host) < SIM_HOST_SIZE_MAX &&
           (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1);
}

static bool host_is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

static bool host_is_any(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

static struct sim_node *host_find(struct sim_node *self, const char *host)
{
    if (host_is_loopback(host) || host_is_any(host)) {
        return self;
    }
    LIST_FOREACH (link, &self->sim->nodes) {
        struct sim_node *node = CONTAINER_OF(link, struct sim_node, link);
        if (strcmp(node->host, host) == 0) {
            return node;
        }
    }
    return NULL;
}

/* The listener a connection to `host` and `port` of the node meets; NULL host: any on that port. */
static struct sim_listener *listener_find(struct sim_node *node, const char *host, uint16_t port)
{
    LIST_FOREACH (link, &node->loops) {
        LIST_FOREACH (at, &loop_of(link)->listeners) {
            struct sim_listener *listener = listener_of(at);
            bool fits =
                host == NULL || host_is_any(listener->host) || strcmp(listener->host, host) == 0;
            if (listener->port == port && fits) {
                return listener;
            }
        }
    }
    return NULL;
}

static uint16_t node_pick_port(struct sim_node *node)
{
    uint16_t port;
    do {
        port = node->next_port;
        node->next_port = port == UINT16_MAX ? 49152 : (uint16_t)(port + 1);
    } while (listener_find(node, NULL, port) != NULL);
    return port;
}

/* ---------------------------------------------------------------- listening */

status sim_net_listen(struct io *io, const char *host, uint16_t *port, int backlog,
                      io_accept_fn accept, void *context, struct io_listener **opened)
{
    struct sim_loop *loop = sim_loop_of(io);
    struct sim_node *node = loop->node;
    if (!sim_loop_enter(loop)) {
        return STATUS(CANCELLED);
    }
    if (!host_is_numeric(host)) {
        return STATUS(INVALID);
    }
    if (host_find(node, host) != node) {
        return STATUS(NOT_FOUND);
    }
    if (*port == 0) {
        *port = node_pick_port(node);
    } else if (listener_find(node, host_is_any(host) ? NULL : host, *port) != NULL) {
        return status_from_errno(EADDRINUSE);
    }
    struct sim_listener *listener = sim_alloc(sizeof(*listener));
    listener->base.io = io;
    listener->port = *port;
    memcpy(listener->host, host, strlen(host) + 1);
    listener->accept = accept;
    listener->context = context;
    list_push_back(&loop->listeners, &listener->link);
    *opened = &listener->base;
    return OK;
}

/* Connections nobody accepted yet are reset. */
void sim_net_listener_close(struct io_listener *base)
{
    struct sim_listener *listener = CONTAINER_OF(base, struct sim_listener, base);
    struct sim_loop *loop = sim_loop_of(base->io);
    if (sim_loop_enter(loop)) {
        LIST_FOREACH_SAFE (node, &loop->streams) {
            struct sim_stream *stream = CONTAINER_OF(node, struct sim_stream, link);
            if (stream->listener == listener) {
                sim_stream_leave(stream, false);
                sim_stream_free(stream);
            }
        }
    }
    list_remove(&listener->link);
    free(listener);
}

static void stream_on_accepted(struct sim_event *event)
{
    struct sim_stream *stream = CONTAINER_OF(event, struct sim_stream, accepted);
    struct sim_listener *listener = stream->listener;
    stream->listener = NULL;
    listener->accept(listener->context, &stream->base);
    ASSERT(stream->events != NULL || stream->is_ended || stream->is_moved);
}

/* ---------------------------------------------------------------- connecting */

static void connect_free(struct sim_connect *connect)
{
    sim_event_stop(connect->loop->sim, &connect->reach);
    sim_event_stop(connect->loop->sim, &connect->finish);
    list_remove(&connect->link);
    free(connect);
}

static int64_t net_delay_ns(struct sim *sim)
{
    return sim_delay_ns(sim, sim->options.net_delay_us_min, sim->options.net_delay_us_max);
}

static void connect_answer(struct sim_connect *connect, status result)
{
    connect->result = result;
    sim_event_start(connect->loop->sim, &connect->finish, net_delay_ns(connect->loop->sim));
}

/* The handshake succeeded: both ends exist, whether or not anybody looks at them. */
static void connect_join(struct sim_connect *connect, struct sim_listener *listener)
{
    struct sim *sim = connect->loop->sim;
    struct sim_node *self = connect->loop->node;
    struct sim_loop *loop = sim_loop_of(listener->base.io);
    struct sim_stream *server = sim_stream_create(loop, self, node_pick_port(self));
    struct sim_stream *client = sim_stream_create(connect->loop, connect->target, connect->port);
    sim_stream_join(server, client);
    server->listener = listener;
    sim_event_init(&server->accepted, SIM_EVENT_ACCEPT, loop, stream_on_accepted);
    sim_event_start(sim, &server->accepted, sim_delay_ns(sim, 0, ACCEPT_US_MAX));
    connect->stream = client;
    connect_answer(connect, OK);
}

/* A host that lost power says nothing at times, and a repeated request may find it again. */
static void connect_on_reach(struct sim_event *event)
{
    struct sim_connect *connect = CONTAINER_OF(event, struct sim_connect, reach);
    struct sim *sim = connect->loop->sim;
    struct sim_node *self = connect->loop->node;
    struct sim_node *target = connect->target;
    bool is_silent = target == NULL || sim_net_is_cut(self, target) ||
                     sim_net_is_cut(target, self) ||
                     (list_is_empty(&target->loops) && sim_rng_coin(&sim->rng));
    if (is_silent) {
        sim_event_start(sim, &connect->reach, sim_delay_ns(sim, REPEAT_SYN_US, REPEAT_SYN_US));
        return;
    }
    const char *host = host_is_loopback(connect->host) ? NULL : connect->host;
    struct sim_listener *listener = listener_find(target, host, connect->port);
    if (listener == NULL) {
        connect_answer(connect, status_from_errno(ECONNREFUSED));
    } else {
        connect_join(connect, listener);
    }
}

static void connect_on_finish(struct sim_event *event)
{
    struct sim_connect *connect = CONTAINER_OF(event, struct sim_connect, finish);
    struct sim_stream *stream = connect->stream;
    io_connect_fn done = connect->done;
    void *context = connect->context;
    status result = connect->result;
    connect_free(connect);
    done(context, result, stream == NULL ? NULL : &stream->base);
    ASSERT(stream == NULL || stream->events != NULL || stream->is_ended || stream->is_moved);
}

status sim_net_connect(struct io *io, const char *host, uint16_t port, io_connect_fn done,
                       void *context)
{
    struct sim_loop *loop = sim_loop_of(io);
    struct sim *sim = loop->sim;
    if (!sim_loop_enter(loop)) {
        return STATUS(CANCELLED);
    }
    if (!host_is_numeric(host)) {
        return STATUS(INVALID);
    }
    struct sim_connect *connect = sim_alloc(sizeof(*connect));
    connect->loop = loop;
    connect->target = host_find(loop->node, host);
    memcpy(connect->host, host, strlen(host) + 1);
    connect->port = port;
    connect->done = done;
    connect->context = context;
    connect->result = status_from_errno(ETIMEDOUT);
    sim_event_init(&connect->reach, SIM_EVENT_CONNECT, NULL, connect_on_reach);
    sim_event_init(&connect->finish, SIM_EVENT_CONNECTED, loop, connect_on_finish);
    list_push_back(&loop->connects, &connect->link);
    sim_event_start(sim, &connect->reach, net_delay_ns(sim));
    sim_event_start(sim, &connect->finish,
                    sim_delay_ns(sim, CONNECT_TIMEOUT_US_MIN, CONNECT_TIMEOUT_US_MAX));
    return OK;
}

/* ---------------------------------------------------------------- cuts and deaths */

static void node_heal_wires(struct sim_node *node, struct sim_node *from)
{
    LIST_FOREACH (link, &node->loops) {
        LIST_FOREACH (at, &loop_of(link)->streams) {
            struct sim_stream *stream = CONTAINER_OF(at, struct sim_stream, link);
            if (stream->peer_node == from) {
                sim_stream_heal_wire(stream);
            }
        }
    }
}

static void node_heal_credits(struct sim_node *node, struct sim_node *to)
{
    LIST_FOREACH (link, &node->loops) {
        LIST_FOREACH (at, &loop_of(link)->streams) {
            struct sim_stream *stream = CONTAINER_OF(at, struct sim_stream, link);
            if (stream->peer_node == to) {
                sim_stream_heal_credit(stream);
            }
        }
    }
}

void sim_net_heal(struct sim *sim, struct sim_node *from, struct sim_node *to)
{
    node_heal_wires(to, from);
    node_heal_credits(from, to);
}

void sim_net_end(struct sim_loop *loop, bool process_only)
{
    while (!list_is_empty(&loop->connects)) {
        connect_free(connect_of(list_first(&loop->connects)));
    }
    LIST_FOREACH (node, &loop->streams) {
        sim_stream_die(CONTAINER_OF(node, struct sim_stream, link), process_only);
    }
}

void sim_net_free(struct sim_loop *loop)
{
    while (!list_is_empty(&loop->streams)) {
        struct list_node *node = list_first(&loop->streams);
        sim_stream_free(CONTAINER_OF(node, struct sim_stream, link));
    }
    while (!list_is_empty(&loop->listeners)) {
        free(listener_of(list_pop_front(&loop->listeners)));
    }
}
