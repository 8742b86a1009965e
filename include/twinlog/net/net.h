/*
 * Connections of one shard: a listener, the frames that clients send, and the answers to them.
 *
 * A frame is a 4-byte big-endian size and that many bytes. Frames of a connection are handed to
 * on_request() in order; the answers leave in the same order, whatever order they are given in.
 * Everything is bounded: the size of a frame, the memory of frames being received, the requests in
 * flight of a connection, the connections in all and of one address, the time a frame may take and
 * the time a connection may be silent. What is over a bound waits in the client's socket.
 *
 * Lives on the loop given at creation; every function is called there.
 *
 * Ownership: a request belongs to its connection until it was answered and the answer was sent, or
 * the connection is gone; then release() is called and it is freed. A request outlives a connection
 * that closes while the request waits: the handler answers as always and the answer is dropped.
 */
#ifndef TWINLOG_NET_NET_H
#define TWINLOG_NET_NET_H

#include "twinlog/core/bytes.h"
#include "twinlog/io/io.h"

struct net_server;
struct net_connection;
struct net_request;

enum net_verdict {
    NET_TAKEN, /* the request will be, or was, answered */
    NET_LATER, /* offer the frame again when all earlier requests of the connection are answered */
    NET_CLOSE, /* close the connection; the handler has said why on the trace */
};

/* Embedded first in the owner's request object (net_options.request_size bytes). */
struct net_request {
    struct list_node link;
    struct net_connection *connection;
    /* The answer, its 4-byte size included; none at all for a request that wants none. */
    struct iovec *ranges;
    uint32_t range_count;
    bool answered;
    bool held;
    /* Frees what the answer and the handler hold; may be NULL. The object itself is net's. */
    void (*release)(struct net_request *request);
    /* Told that the connection is gone while the request waits; may be NULL, may answer inside. */
    void (*abandon)(struct net_request *request);
    uint8_t *kept;
    uint32_t kept_size;
    struct iovec inline_range; /* for an answer in one piece */
};

struct net_options {
    struct io *io;
    const char *host;             /* numeric */
    uint16_t port;                /* 0 picks one */
    uint32_t request_size;        /* of the owner's request object, at least sizeof(net_request) */
    uint32_t request_zeroed_size; /* how much of it is zeroed; 0: all */
    uint32_t frame_size_max;      /* socket.request.max.bytes */
    uint64_t receive_memory_max;  /* queued.max.request.bytes: frames being received or kept */
    uint32_t in_flight_max;       /* requests of one connection; 0: 16 */
    uint32_t connection_count_max;
    uint32_t connection_per_ip_max; /* UINT32_MAX: unbounded */
    int64_t idle_ms_max;            /* connections.max.idle.ms; negative: for ever */
    /*
     * A frame that has begun arrives, and an answer is taken, in this time and a ms more for every
     * 256 bytes; 0: 30 s.
     */
    int64_t frame_ms_max;
    /*
     * A whole frame. `frame` is valid during the call only, unless net_request_keep() is called.
     * The handler may answer inside.
     */
    enum net_verdict (*on_request)(void *context, struct net_request *request, struct bytes frame);
    void *context;
};

/* Listens. The statuses are io_listen()'s, and NO_MEMORY. */
MUST_USE status net_server_create(const struct net_options *options, struct net_server **server);

/* The port in use. */
uint16_t net_server_port(const struct net_server *server);

/*
 * Stops accepting and reading, lets requests in flight be answered, then closes; what is not
 * through after `grace_ms` is cut. `done` runs once, when no connection and no request is left.
 */
void net_server_stop(struct net_server *server, int64_t grace_ms, void (*done)(void *context),
                     void *context);

/* Frees the server; stop is done. */
void net_server_destroy(struct net_server *server);

/*
 * Frees the server and all requests after a simulated crash: the loop, the streams and every wait
 * are gone.
 */
void net_server_abandon(struct net_server *server);

struct net_stats {
    uint32_t connections;
    uint32_t requests; /* in flight */
    uint64_t accepted; /* connections */
    uint64_t refused;  /* connections over a bound */
    uint64_t frames;
    uint64_t receive_memory; /* bytes */
};
/* Counters and gauges of this moment. */
void net_server_stats(const struct net_server *server, struct net_stats *stats);

/*
 * Inside on_request() only: keeps the frame, or the part of it that `frame` views, until the
 * request is freed and returns where it is. Null when memory is out; then NET_CLOSE.
 */
MUST_USE struct bytes net_request_keep(struct net_request *request, struct bytes frame);

/* No later request of this connection is handed out until this one is answered. */
void net_request_hold(struct net_request *request);

/* True when every earlier request of the connection is answered. */
bool net_request_is_first(const struct net_request *request);

/*
 * The answer is ready: request->ranges, which live until release(). It is sent at the end of this
 * turn, after the answers to earlier requests. range_count 0: nothing is sent.
 */
void net_request_answer(struct net_request *request);

/* Answers nothing and closes the connection, e.g. after an error that has no response. */
void net_request_close(struct net_request *request);

/* The peer's address, for the trace. */
void net_request_peer(const struct net_request *request, char *text, size_t size);

#endif
