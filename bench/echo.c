#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu.h"
#include "request.h"
#include "twinlog/core/assert.h"
#include "twinlog/io/io.h"
#include "workload.h"

#define ECHO_GATHER 64u

/* One connection: answers are gathered while a send is under way. */
struct echo {
    struct echo_server *server;
    struct io_stream *stream;
    struct io_send send;
    struct iovec range;
    uint8_t *output[2]; /* one being sent, one being filled */
    uint32_t filling;
    uint32_t filled;
    bool sending;
    uint8_t *partial; /* a request cut by the network */
    uint32_t partial_size;
    uint32_t partial_capacity;
};

struct echo_server {
    struct io *io;
    struct io_listener *listener;
    uint32_t response_size;
};

static void echo_send(struct echo *echo);

static void on_sent(struct io_send *send)
{
    struct echo *echo = send->context;
    echo->sending = false;
    if (status_is_ok(send->result)) {
        echo_send(echo);
    }
}

static void echo_send(struct echo *echo)
{
    if (echo->sending || echo->filled == 0) {
        return;
    }
    echo->range = (struct iovec){echo->output[echo->filling], echo->filled};
    echo->filling ^= 1;
    echo->filled = 0;
    echo->sending = true;
    echo->send.ranges = &echo->range;
    echo->send.range_count = 1;
    echo->send.fn = on_sent;
    echo->send.context = echo;
    io_stream_send(echo->stream, &echo->send);
}

static void request_answer(struct echo *echo, const uint8_t *frame)
{
    uint32_t size = echo->server->response_size;
    if (echo->filled + size > ECHO_GATHER * size) {
        io_stream_close(echo->stream);
        return;
    }
    uint8_t *to = echo->output[echo->filling] + echo->filled;
    memset(to, 0, size);
    store_be32(to, size - 4);
    memcpy(to + 4, frame + 8, 4);
    echo->filled += size;
}

static uint32_t requests_answer(struct echo *echo, const uint8_t *data, uint32_t size)
{
    uint32_t at = 0;
    while (size - at >= 12) {
        uint32_t frame_size = load_be32(data + at) + 4;
        if (size - at < frame_size) {
            break;
        }
        request_answer(echo, data + at);
        at += frame_size;
    }
    return at;
}

static bool partial_add(struct echo *echo, const uint8_t *data, uint32_t size)
{
    if (echo->partial_size + size > echo->partial_capacity) {
        uint32_t capacity = MAX(4096u, (echo->partial_size + size) * 2);
        uint8_t *grown = realloc(echo->partial, capacity);
        if (grown == NULL) {
            return false;
        }
        echo->partial = grown;
        echo->partial_capacity = capacity;
    }
    memcpy(echo->partial + echo->partial_size, data, size);
    echo->partial_size += size;
    return true;
}

static void on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct echo *echo = context;
    if (echo->partial_size > 0) {
        if (!partial_add(echo, data, size)) {
            io_stream_close(echo->stream);
            return;
        }
        uint32_t taken = requests_answer(echo, echo->partial, echo->partial_size);
        echo->partial_size -= taken;
        memmove(echo->partial, echo->partial + taken, echo->partial_size);
    } else {
        uint32_t taken = requests_answer(echo, data, size);
        if (taken < size && !partial_add(echo, data + taken, size - taken)) {
            io_stream_close(echo->stream);
            return;
        }
    }
    echo_send(echo);
}

static void on_closed(void *context, status why)
{
    struct echo *echo = context;
    free(echo->output[0]);
    free(echo->output[1]);
    free(echo->partial);
    free(echo);
}

static const struct io_stream_events events = {on_data, on_closed};

static void on_accept(void *context, struct io_stream *stream)
{
    struct echo_server *server = context;
    struct echo *echo = calloc(1, sizeof(*echo));
    ASSERT(echo != NULL);
    echo->server = server;
    echo->stream = stream;
    for (unsigned i = 0; i < 2; i++) {
        echo->output[i] = malloc((size_t)ECHO_GATHER * server->response_size);
        ASSERT(echo->output[i] != NULL);
    }
    io_stream_open(stream, &events, echo);
}

int echo_serve(const struct options *options, int port_fd)
{
    struct request_template template;
    struct echo_server server = {0};
    struct io_options io_options = {0};
    struct rlimit limit;
    uint16_t port = options->port;
    request_template_init(&template, options);
    server.response_size = template.response_size;
    request_template_fini(&template);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    cpu_pin(options->server_cpu);
    status s = io_create_uring(&io_options, &server.io);
    if (status_is_ok(s)) {
        s = io_listen(server.io, options->host, &port, 4096, on_accept, &server, &server.listener);
    }
    if (!status_is_ok(s)) {
        fprintf(stderr, "twinlog-bench: echo: %s\n", status_text(s));
        return 1;
    }
    if (port_fd >= 0) {
        dprintf(port_fd, "%u\n", port);
        close(port_fd);
    }
    s = io_run(server.io);
    return status_is_ok(s) ? 0 : 1;
}

int ceiling_run(const struct options *options)
{
    int pipe_fds[2];
    if (pipe(pipe_fds) != 0) {
        perror("pipe");
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        struct options server = *options;
        server.port = 0;
        close(pipe_fds[0]);
        _exit(echo_serve(&server, pipe_fds[1]));
    }
    close(pipe_fds[1]);
    char line[16] = {0};
    unsigned long port = 0;
    if (child > 0 && read(pipe_fds[0], line, sizeof(line) - 1) > 0) {
        port = strtoul(line, NULL, 10);
    }
    close(pipe_fds[0]);
    if (port == 0 || port > UINT16_MAX) {
        fprintf(stderr, "twinlog-bench: the echo server did not start\n");
        return 1;
    }
    struct options client = *options;
    struct result *result = calloc(1, sizeof(*result));
    ASSERT(result != NULL);
    client.port = (uint16_t)port;
    client.echo = true;
    client.server_pid[0] = child;
    client.server_pid_count = 1;
    int exit_status = load_measure(&client, "ceiling", result);
    kill(child, SIGTERM);
    waitpid(child, NULL, 0);
    report_write(&client, result);
    free(result);
    return exit_status;
}
