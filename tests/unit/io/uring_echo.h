/* A server that echoes, and plain sockets to talk to it, for the tests of streams and listeners. */
#ifndef TWINLOG_TESTS_URING_ECHO_H
#define TWINLOG_TESTS_URING_ECHO_H

#include "uring_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ECHO_BUFFER_SIZE = 256 * 1024 };

/* ---------------------------------------------------------------- a server that echoes */

struct server {
    struct io *io;
    struct io_listener *listener;
    const struct io_stream_events *events;
    uint16_t port;
    uint32_t accepted;
    uint32_t closed;
    status why; /* of the stream closed last */
    struct io_stream *last;
    uint64_t received;
    uint32_t quit_seed; /* not 0: the server closes streams at random */
};

struct echo {
    struct server *server;
    struct io_stream *stream;
    struct io_send send;
    struct iovec range;
    uint8_t *out; /* being sent */
    uint8_t *in;  /* received meanwhile */
    uint32_t in_size;
    bool sending;
};

static inline void echo_on_sent(struct io_send *send);

/* Several reads of one turn may come in before a pause holds, hence the second buffer. */
static inline void echo_step(struct echo *echo)
{
    if (echo->sending || echo->in_size == 0) {
        return;
    }
    uint8_t *out = echo->in;
    echo->in = echo->out;
    echo->out = out;
    echo->range = (struct iovec){.iov_base = echo->out, .iov_len = echo->in_size};
    echo->in_size = 0;
    echo->sending = true;
    echo->send.ranges = &echo->range;
    echo->send.range_count = 1;
    echo->send.fn = echo_on_sent;
    echo->send.context = echo;
    io_stream_pause(echo->stream);
    io_stream_send(echo->stream, &echo->send);
}

static inline void echo_on_sent(struct io_send *send)
{
    struct echo *echo = send->context;
    echo->sending = false;
    if (!status_is_ok(send->result)) {
        return;
    }
    io_stream_resume(echo->stream);
    echo_step(echo);
}

static inline void echo_on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct echo *echo = context;
    assert_true(size > 0);
    assert_true(echo->in_size + size <= ECHO_BUFFER_SIZE);
    memcpy(echo->in + echo->in_size, data, size);
    echo->in_size += size;
    echo->server->received += size;
    if (echo->server->quit_seed != 0) {
        echo->server->quit_seed = echo->server->quit_seed * 1664525 + 1013904223;
        if (echo->server->quit_seed >> 26 == 0) {
            io_stream_close(echo->stream);
        }
    }
    echo_step(echo);
}

static inline void echo_on_closed(void *context, status why)
{
    struct echo *echo = context;
    assert_false(echo->sending);
    echo->server->closed++;
    echo->server->why = why;
    free(echo->in);
    free(echo->out);
    free(echo);
}

static const struct io_stream_events echo_events = {echo_on_data, echo_on_closed};

static inline void echo_on_accept(void *context, struct io_stream *stream)
{
    struct server *server = context;
    struct echo *echo = calloc(1, sizeof(*echo));
    echo->server = server;
    echo->stream = stream;
    echo->in = malloc(ECHO_BUFFER_SIZE);
    echo->out = malloc(ECHO_BUFFER_SIZE);
    server->accepted++;
    server->last = stream;
    io_stream_open(stream, &echo_events, echo);
}

static inline void server_start(struct server *server, struct io *io, io_accept_fn accept)
{
    server->io = io;
    status result =
        io_listen(io, "127.0.0.1", &server->port, 4096, accept, server, &server->listener);
    assert_int_equal(result.code, STATUS_OK);
    assert_true(server->port != 0);
}

static inline bool server_has_closed_all(void *context)
{
    struct server *server = context;
    return server->closed == server->accepted && server->accepted > 0;
}

/* Stops the listener, then runs once more so that the kernel lets go of it. */
static inline void server_stop(struct server *server)
{
    io_listener_close(server->listener);
    fixture_run_for(server->io, MILLISECOND_NS);
}

/* ---------------------------------------------------------------- raw sockets of the test */

static inline int raw_connect(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static inline void raw_reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    close(fd);
}

#endif
