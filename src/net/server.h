/* What server.c and connection.c share: the layout of a server and of a connection. */
#ifndef TWINLOG_NET_SERVER_H
#define TWINLOG_NET_SERVER_H

#include "twinlog/core/pool.h"
#include "twinlog/net/net.h"

#include "input.h"

#define NET_GATHER_COUNT 8u /* ranges of one send; an answer with more is sent alone */

/* A large frame or answer may take longer: its deadline grows by a ms for so many bytes. */
#define NET_BYTES_PER_MS 256

struct net_ip;

/*
 * What every request touches comes first: with thousands of connections each cache line of one is
 * fetched anew for each request.
 */
struct net_connection {
    struct net_server *server;
    struct io_stream *stream; /* NULL once it is closed */
    struct list requests;     /* in the order they arrived */
    uint32_t in_flight;
    uint32_t unanswered;
    uint32_t held_count;    /* requests that hold the connection */
    uint32_t sending_count; /* requests whose answers are in the send */
    bool paused;
    bool running; /* inside connection_run(): no wake is needed */
    bool later;
    bool closing;
    bool sending;
    struct input input;
    int64_t active_ns;
    uint64_t reserved;            /* receive memory of the frame being assembled */
    struct list_node begun_link;  /* a frame has begun and is not whole */
    struct list_node memory_link; /* waits for receive memory */
    struct list_node flush_link;
    struct list_node send_link; /* an answer is on its way */
    int64_t send_since_ns;
    int64_t send_due_ns;
    struct io_send send;
    struct list_node link; /* all connections, the longest silent one first */
    struct list_node wake_link;
    struct net_ip *ip; /* NULL when addresses are not counted */
    int64_t frame_due_ns;
    struct iovec gather[NET_GATHER_COUNT];
};

struct net_server {
    struct net_options options;
    struct io *io;
    struct io_listener *listener;
    uint16_t port;
    struct pool connections;
    struct pool requests;
    struct list all;
    struct list wakes;
    struct list flushes;
    struct list begun;
    struct list sends;
    struct list memory_waits;
    struct io_timer wake_timer;
    struct io_timer tick_timer;
    struct io_timer stop_timer;
    struct io_hook flush_hook;
    int64_t tick_ns;
    uint64_t receive_memory;
    struct net_ip *ips;
    uint32_t connection_count; /* with those that wait for their requests only */
    uint64_t accepted;
    uint64_t refused;
    uint64_t frames;
    int64_t refused_traced_ns;
    bool tick_armed;
    bool stopping;
    bool stopped;
    void (*stop_done)(void *context);
    void *stop_context;
};

/* Takes over an accepted stream. */
void connection_open(struct net_server *server, struct net_connection *connection,
                     struct io_stream *stream);

/* Runs the bytes that were held back, and reads on when nothing blocks any more. */
void connection_pump(struct net_connection *connection);

/* Sends what is ready, in order. */
void connection_flush(struct net_connection *connection);

/* Lets requests in flight finish, then closes. */
void connection_finish(struct net_connection *connection);

/* Frees the requests of a connection whose loop is gone. */
void connection_abandon(struct net_connection *connection);

/* The connection is gone and so are its requests: back to server.c. */
void server_forget(struct net_server *server, struct net_connection *connection);

/* Runs connection_pump() soon, never inside the caller. */
void server_wake(struct net_server *server, struct net_connection *connection);

/* Receive memory is free again: wakes who waits for it. */
void server_release_memory(struct net_server *server, uint64_t size);

/* True when `size` bytes may be received now; an oversized frame is admitted alone. */
bool server_admit_memory(struct net_server *server, uint64_t size);

#endif
