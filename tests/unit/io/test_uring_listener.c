/* Listeners and connects of the io_uring backend, over loopback. */
#include "uring_echo.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/resource.h>

static void a_port_in_use_is_busy_and_a_bad_address_invalid(void **state)
{
    struct server server = {0};
    struct io *io = fixture_create_loop(NULL);
    server_start(&server, io, echo_on_accept);
    struct io_listener *other = NULL;
    uint16_t port = server.port;
    assert_int_equal(io_listen(io, "127.0.0.1", &port, 16, echo_on_accept, &server, &other).code,
                     STATUS_BUSY);
    port = 0;
    assert_int_equal(io_listen(io, "localhost", &port, 16, echo_on_accept, &server, &other).code,
                     STATUS_INVALID);
    assert_int_equal(io_listen(io, "192.0.2.1", &port, 16, echo_on_accept, &server, &other).code,
                     STATUS_NOT_FOUND);
    uint16_t taken = server.port;
    server_stop(&server);
    /* The port is free again. */
    server_start(&server, io, echo_on_accept);
    assert_int_equal(server.port, taken);
    server_stop(&server);
    io_destroy(io);
}

struct failed_connect {
    status result;
    bool done;
};

static void failed_connect_on_done(void *context, status result, struct io_stream *stream)
{
    struct failed_connect *failed = context;
    assert_null(stream);
    failed->result = result;
    failed->done = true;
}

static void a_refused_connect_says_so(void **state)
{
    struct server server = {0};
    struct failed_connect failed = {0};
    struct io *io = fixture_create_loop(NULL);
    server_start(&server, io, echo_on_accept);
    server_stop(&server);
    status result = io_connect(io, "127.0.0.1", server.port, failed_connect_on_done, &failed);
    assert_int_equal(result.code, STATUS_OK);
    fixture_run_until(io, fixture_is_true, &failed.done);
    assert_int_equal(failed.result.code, STATUS_CLOSED);
    assert_int_equal(failed.result.sys, ECONNREFUSED);
    assert_int_equal(io_connect(io, "nowhere", 1, failed_connect_on_done, &failed).code,
                     STATUS_INVALID);
    io_destroy(io);
}

static bool two_were_accepted(void *context)
{
    return ((struct server *)context)->accepted == 2;
}

/* Takes every descriptor below the limit. */
static uint32_t take_descriptors(int from, int *taken, uint32_t taken_max)
{
    uint32_t count = 0;
    while (count < taken_max && (taken[count] = fcntl(from, F_DUPFD_CLOEXEC, 0)) >= 0) {
        count++;
    }
    return count;
}

static void accepting_goes_on_after_descriptors_ran_out(void **state)
{
    struct server server = {0};
    struct io *io = fixture_create_loop(NULL);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    /* The kernel looks at the limit when the accept is armed. */
    struct rlimit low = {.rlim_cur = 64, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    server_start(&server, io, echo_on_accept);
    int first = raw_connect(server.port);
    fixture_run_for(io, 20 * MILLISECOND_NS);
    assert_int_equal(server.accepted, 1);
    int second = raw_connect(server.port);
    int filler[64];
    uint32_t filler_count = take_descriptors(first, filler, COUNT_OF(filler));
    fixture_run_for(io, 250 * MILLISECOND_NS);
    assert_int_equal(server.accepted, 1);
    for (uint32_t at = 0; at < filler_count; at++) {
        close(filler[at]);
    }
    fixture_run_until(io, two_were_accepted, &server);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    close(first);
    close(second);
    fixture_run_until(io, server_has_closed_all, &server);
    server_stop(&server);
    io_destroy(io);
}

static void a_stream_knows_its_peer_and_sends_without_delay(void **state)
{
    struct server server = {0};
    struct io *io = fixture_create_loop(NULL);
    server_start(&server, io, echo_on_accept);
    int fd = raw_connect(server.port);
    fixture_run_for(io, 20 * MILLISECOND_NS);
    struct sockaddr_in local;
    socklen_t size = sizeof(local);
    char expected[64];
    char text[64];
    assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &size), 0);
    snprintf(expected, sizeof(expected), "127.0.0.1:%u", ntohs(local.sin_port));
    io_stream_peer(server.last, text, sizeof(text));
    assert_string_equal(text, expected);
    /* The accepted socket is the descriptor whose peer is ours. */
    bool found = false;
    for (int other = 3; other < 100; other++) {
        struct sockaddr_in peer = {0};
        int no_delay = 0;
        size = sizeof(peer);
        if (getpeername(other, (struct sockaddr *)&peer, &size) == 0 &&
            peer.sin_port == local.sin_port) {
            size = sizeof(no_delay);
            assert_int_equal(getsockopt(other, IPPROTO_TCP, TCP_NODELAY, &no_delay, &size), 0);
            assert_true(no_delay != 0);
            found = true;
        }
    }
    assert_true(found);
    close(fd);
    fixture_run_until(io, server_has_closed_all, &server);
    server_stop(&server);
    io_destroy(io);
}

struct v6_client {
    struct io_stream *stream;
    char peer[64];
    bool closed;
};

static void v6_on_data(void *context, const uint8_t *data, uint32_t size)
{
}

static void v6_on_closed(void *context, status why)
{
    ((struct v6_client *)context)->closed = true;
}

static const struct io_stream_events v6_events = {v6_on_data, v6_on_closed};

static void v6_on_connected(void *context, status result, struct io_stream *stream)
{
    struct v6_client *client = context;
    assert_int_equal(result.code, STATUS_OK);
    io_stream_peer(stream, client->peer, sizeof(client->peer));
    io_stream_open(stream, &v6_events, client);
    io_stream_close(stream);
}

static void addresses_of_ipv6_work_alike(void **state)
{
    struct server server = {0};
    struct v6_client client = {0};
    struct io *io = fixture_create_loop(NULL);
    server.io = io;
    if (!status_is_ok(
            io_listen(io, "::1", &server.port, 16, echo_on_accept, &server, &server.listener))) {
        io_destroy(io);
        skip(); /* a host without IPv6 */
    }
    char expected[64];
    snprintf(expected, sizeof(expected), "[::1]:%u", server.port);
    assert_int_equal(io_connect(io, "::1", server.port, v6_on_connected, &client).code, STATUS_OK);
    fixture_run_until(io, fixture_is_true, &client.closed);
    assert_string_equal(client.peer, expected);
    fixture_run_until(io, server_has_closed_all, &server);
    server_stop(&server);
    io_destroy(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_in_use_is_busy_and_a_bad_address_invalid),
        cmocka_unit_test(a_refused_connect_says_so),
        cmocka_unit_test(accepting_goes_on_after_descriptors_ran_out),
        cmocka_unit_test(a_stream_knows_its_peer_and_sends_without_delay),
        cmocka_unit_test(addresses_of_ipv6_work_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
