/* Streams of the io_uring backend, over loopback. */
#include "uring_echo.h"

#include <errno.h>
#include <fcntl.h>

/* ---------------------------------------------------------------- a client that checks the echo */

struct client {
    struct io *io;
    struct io_stream *stream;
    struct io_send send;
    struct iovec ranges[4];
    uint8_t *pattern;
    uint32_t total;
    uint32_t sent;
    uint32_t received;
    uint32_t part_max;
    uint32_t seed;
    uint32_t *done_count;
    status connected;
    status why;
    bool pauses;
    bool quits; /* either side may close at any time */
    struct io_timer resume;
};

static uint32_t client_random(struct client *client)
{
    client->seed = client->seed * 1664525 + 1013904223;
    return client->seed >> 8;
}

static void client_on_sent(struct io_send *send);

/* Sends the next part, as one to four ranges. */
static void client_step(struct client *client)
{
    if (client->sent == client->total) {
        return;
    }
    uint32_t count = 1 + client_random(client) % 4;
    for (uint32_t at = 0; at < count; at++) {
        uint32_t size = client_random(client) % (client->part_max + 1);
        size = MIN(size, client->total - client->sent);
        client->ranges[at] = (struct iovec){client->pattern + client->sent, size};
        client->sent += size;
    }
    client->send.ranges = client->ranges;
    client->send.range_count = count;
    client->send.fn = client_on_sent;
    client->send.context = client;
    io_stream_send(client->stream, &client->send);
}

static void client_on_sent(struct io_send *send)
{
    struct client *client = send->context;
    if (client->quits && !status_is_ok(send->result)) {
        return;
    }
    assert_int_equal(send->result.code, STATUS_OK);
    assert_int_equal(send->range_count, 0);
    client_step(send->context);
}

static void client_on_resume(struct io_timer *timer)
{
    struct client *client = timer->context;
    io_stream_resume(client->stream);
}

static void client_on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct client *client = context;
    assert_true(client->received + size <= client->total);
    assert_false(client->pauses && client->resume.heap_index != 0);
    assert_memory_equal(data, client->pattern + client->received, size);
    client->received += size;
    if (client->received == client->total || (client->quits && client_random(client) % 64 == 0)) {
        io_stream_close(client->stream);
    } else if (client->pauses && client_random(client) % 3 == 0) {
        io_stream_pause(client->stream);
        client->resume.context = client;
        io_timer_start(client->io, &client->resume, client_random(client) % 100000,
                       client_on_resume);
    }
}

static void client_on_closed(void *context, status why)
{
    struct client *client = context;
    client->why = why;
    io_timer_stop(client->io, &client->resume);
    if (client->done_count != NULL) {
        (*client->done_count)++;
    }
}

static const struct io_stream_events client_events = {client_on_data, client_on_closed};

static void client_on_connected(void *context, status result, struct io_stream *stream)
{
    struct client *client = context;
    client->connected = result;
    assert_int_equal(result.code, STATUS_OK);
    client->stream = stream;
    io_stream_open(stream, &client_events, client);
    client_step(client);
}

static void client_start(struct client *client, struct server *server, uint32_t total)
{
    client->io = server->io;
    client->total = total;
    client->pattern = malloc(total);
    for (uint32_t at = 0; at < total; at++) {
        client->pattern[at] = (uint8_t)(client_random(client));
    }
    status result = io_connect(server->io, "127.0.0.1", server->port, client_on_connected, client);
    assert_int_equal(result.code, STATUS_OK);
}

/* ---------------------------------------------------------------- tests */

struct crowd {
    struct server *server;
    uint32_t done;
    uint32_t count;
};

static bool crowd_is_done(void *context)
{
    struct crowd *crowd = context;
    return crowd->done == crowd->count && crowd->server->closed == crowd->count;
}

static void run_crowd(const struct io_options *options, uint32_t count, uint32_t total,
                      uint32_t part_max, bool pauses)
{
    struct server server = {0};
    struct io *io = fixture_create_loop(options);
    server_start(&server, io, echo_on_accept);
    struct client *clients = calloc(count, sizeof(*clients));
    struct crowd crowd = {.server = &server, .count = count};
    for (uint32_t at = 0; at < count; at++) {
        clients[at].seed = at + 1;
        clients[at].part_max = part_max;
        clients[at].pauses = pauses;
        clients[at].done_count = &crowd.done;
        client_start(&clients[at], &server, total);
    }
    fixture_run_until(io, crowd_is_done, &crowd);
    for (uint32_t at = 0; at < count; at++) {
        assert_int_equal(clients[at].received, total);
        assert_int_equal(clients[at].why.code, STATUS_CANCELLED);
        free(clients[at].pattern);
    }
    struct io_stats stats;
    io_stats_get(io, &stats);
    assert_int_equal(stats.received, (uint64_t)count * total * 2);
    assert_int_equal(stats.sent, (uint64_t)count * total * 2);
    free(clients);
    server_stop(&server);
    io_destroy(io);
}

static void an_echo_returns_what_was_sent_whatever_the_split(void **state)
{
    static const uint32_t part_maxs[] = {1, 7, 1000, 16384, 65536};
    for (size_t at = 0; at < COUNT_OF(part_maxs); at++) {
        run_crowd(NULL, 3, part_maxs[at] < 100 ? 3000 : 400000, part_maxs[at], false);
    }
}

static void a_thousand_connections_are_served_by_one_loop(void **state)
{
    run_crowd(NULL, 1000, 2000, 600, false);
}

static void pausing_and_resuming_keeps_the_order(void **state)
{
    run_crowd(NULL, 10, 300000, 20000, true);
}

static void data_waits_when_the_receive_buffers_run_out(void **state)
{
    const struct io_options options = {.receive_buffer_size = 128, .receive_buffer_count = 2};
    run_crowd(&options, 20, 30000, 5000, false);
    run_crowd(&options, 20, 10000, 5000, true);
}

static void a_submission_queue_smaller_than_the_crowd_is_enough(void **state)
{
    const struct io_options options = {.entry_count = 4};
    run_crowd(&options, 100, 10000, 3000, true);
}

static void streams_that_end_at_random_leave_nothing_behind(void **state)
{
    enum { COUNT = 400, TOTAL = 60000 };
    const struct io_options options = {.receive_buffer_size = 512, .receive_buffer_count = 64};
    struct server server = {.quit_seed = 1};
    struct io *io = fixture_create_loop(&options);
    server_start(&server, io, echo_on_accept);
    struct client *clients = calloc(COUNT, sizeof(*clients));
    struct crowd crowd = {.server = &server, .count = COUNT};
    for (uint32_t at = 0; at < COUNT; at++) {
        clients[at] = (struct client){.seed = at + 1,
                                      .part_max = 9000,
                                      .pauses = at % 2 == 0,
                                      .quits = true,
                                      .done_count = &crowd.done};
        client_start(&clients[at], &server, TOTAL);
    }
    fixture_run_until(io, crowd_is_done, &crowd);
    uint32_t whole_count = 0;
    for (uint32_t at = 0; at < COUNT; at++) {
        whole_count += clients[at].received == TOTAL;
        free(clients[at].pattern);
    }
    assert_true(whole_count < COUNT);
    free(clients);
    server_stop(&server);
    io_destroy(io);
}

static void a_reset_by_the_peer_closes_the_stream(void **state)
{
    struct server server = {0};
    struct io *io = fixture_create_loop(NULL);
    server_start(&server, io, echo_on_accept);
    int fd = raw_connect(server.port);
    fixture_run_for(io, 20 * MILLISECOND_NS);
    assert_int_equal(server.accepted, 1);
    raw_reset(fd);
    fixture_run_until(io, server_has_closed_all, &server);
    assert_int_equal(server.why.code, STATUS_CLOSED);
    assert_int_equal(server.why.sys, ECONNRESET);
    server_stop(&server);
    io_destroy(io);
}

static void an_orderly_end_by_the_peer_is_closed_without_an_errno(void **state)
{
    struct server server = {0};
    struct io *io = fixture_create_loop(NULL);
    server_start(&server, io, echo_on_accept);
    int fd = raw_connect(server.port);
    assert_int_equal(send(fd, "abc", 3, 0), 3);
    close(fd);
    fixture_run_until(io, server_has_closed_all, &server);
    assert_int_equal(server.received, 3);
    server_stop(&server);
    io_destroy(io);
}

/* ---- held data and the end of the stream */

struct parked {
    struct server *server;
    struct io_stream *stream;
    uint32_t received;
    bool pause_at_first;
    bool unchecked;
};

static void parked_on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct parked *parked = context;
    for (uint32_t at = 0; at < size && !parked->unchecked; at++) {
        assert_int_equal(data[at], (uint8_t)((parked->received + at) * 7));
    }
    parked->received += size;
    if (parked->pause_at_first) {
        parked->pause_at_first = false;
        io_stream_pause(parked->stream);
    }
}

static void parked_on_closed(void *context, status why)
{
    struct parked *parked = context;
    parked->server->closed++;
    parked->server->why = why;
}

static const struct io_stream_events parked_events = {parked_on_data, parked_on_closed};
static struct parked parked_one;

static void parked_on_accept(void *context, struct io_stream *stream)
{
    parked_one.server = context;
    parked_one.stream = stream;
    parked_one.server->accepted++;
    io_stream_open(stream, &parked_events, &parked_one);
}

static void what_a_paused_stream_received_is_delivered_before_its_end(void **state)
{
    enum { TOTAL = 40000 };
    const struct io_options options = {.receive_buffer_size = 1024, .receive_buffer_count = 64};
    struct server server = {0};
    struct io *io = fixture_create_loop(&options);
    uint8_t *data = malloc(TOTAL);
    for (uint32_t at = 0; at < TOTAL; at++) {
        data[at] = (uint8_t)(at * 7);
    }
    parked_one = (struct parked){.pause_at_first = true};
    server_start(&server, io, parked_on_accept);
    int fd = raw_connect(server.port);
    assert_int_equal(send(fd, data, TOTAL, 0), TOTAL);
    close(fd);
    fixture_run_for(io, 50 * MILLISECOND_NS);
    assert_int_equal(server.closed, 0);
    assert_true(parked_one.received > 0);
    assert_true(parked_one.received < TOTAL);
    io_stream_resume(parked_one.stream);
    fixture_run_until(io, server_has_closed_all, &server);
    assert_int_equal(parked_one.received, TOTAL);
    assert_int_equal(server.why.code, STATUS_CLOSED);
    assert_int_equal(server.why.sys, 0);
    free(data);
    server_stop(&server);
    io_destroy(io);
}

static void a_paused_stream_stops_its_sender(void **state)
{
    struct server server = {0};
    struct io *io = fixture_create_loop(NULL);
    parked_one = (struct parked){.pause_at_first = true, .unchecked = true};
    server_start(&server, io, parked_on_accept);
    int fd = raw_connect(server.port);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    uint8_t *zeros = calloc(1, 65536);
    size_t sent = 0;
    for (int at = 0; at < 200; at++) {
        ssize_t result;
        while ((result = send(fd, zeros, 65536, 0)) > 0) {
            sent += (size_t)result;
            assert_true(sent < 100 * 1024 * 1024);
        }
        fixture_run_for(io, MILLISECOND_NS / 10);
    }
    struct io_stats stats;
    io_stats_get(io, &stats);
    assert_true(stats.received < 32 * 1024 * 1024);
    io_stream_close(parked_one.stream);
    fixture_run_until(io, server_has_closed_all, &server);
    close(fd);
    free(zeros);
    server_stop(&server);
    io_destroy(io);
}

/* ---- large sends */

struct big {
    struct io_stream *stream;
    struct io_send send;
    struct iovec *ranges;
    bool sent;
    bool closed;
    status why;
};

static void big_on_sent(struct io_send *send)
{
    ((struct big *)send->context)->sent = true;
}

static void big_on_data(void *context, const uint8_t *data, uint32_t size)
{
}

static void big_on_closed(void *context, status why)
{
    struct big *big = context;
    assert_true(big->sent);
    big->closed = true;
    big->why = why;
}

static const struct io_stream_events big_events = {big_on_data, big_on_closed};

static void big_on_accept(void *context, struct io_stream *stream)
{
    struct big *big = context;
    big->stream = stream;
    io_stream_open(stream, &big_events, big);
    big->send.fn = big_on_sent;
    big->send.context = big;
    io_stream_send(stream, &big->send);
}

enum { BIG_RANGE_COUNT = 3000, BIG_RANGE_SIZE = 10000 };

static uint8_t big_byte(size_t at)
{
    return (uint8_t)(at * 31 + at / 251);
}

static uint8_t *big_prepare(struct big *big)
{
    uint8_t *data = malloc((size_t)BIG_RANGE_COUNT * BIG_RANGE_SIZE);
    big->ranges = calloc(BIG_RANGE_COUNT, sizeof(*big->ranges));
    for (size_t at = 0; at < (size_t)BIG_RANGE_COUNT * BIG_RANGE_SIZE; at++) {
        data[at] = big_byte(at);
    }
    for (size_t at = 0; at < BIG_RANGE_COUNT; at++) {
        big->ranges[at] = (struct iovec){data + at * BIG_RANGE_SIZE, BIG_RANGE_SIZE};
    }
    big->send.ranges = big->ranges;
    big->send.range_count = BIG_RANGE_COUNT;
    return data;
}

struct slow_reader {
    struct io *io;
    struct io_timer timer;
    int fd;
    size_t received;
};

static void slow_reader_on_timer(struct io_timer *timer)
{
    struct slow_reader *reader = timer->context;
    static uint8_t buffer[200000];
    ssize_t got = recv(reader->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    for (ssize_t at = 0; at < got; at++) {
        assert_int_equal(buffer[at], big_byte(reader->received + (size_t)at));
    }
    reader->received += got > 0 ? (size_t)got : 0;
    io_timer_start(reader->io, timer, 200000, slow_reader_on_timer);
}

static bool slow_reader_has_all(void *context)
{
    return ((struct slow_reader *)context)->received == (size_t)BIG_RANGE_COUNT * BIG_RANGE_SIZE;
}

static void a_large_send_of_many_ranges_reaches_a_slow_reader_whole(void **state)
{
    struct big big = {0};
    struct io_listener *listener = NULL;
    uint16_t port = 0;
    uint8_t *data = big_prepare(&big);
    struct io *io = fixture_create_loop(NULL);
    status result = io_listen(io, "127.0.0.1", &port, 16, big_on_accept, &big, &listener);
    assert_int_equal(result.code, STATUS_OK);
    struct slow_reader reader = {.io = io, .fd = raw_connect(port)};
    reader.timer.context = &reader;
    io_timer_start(io, &reader.timer, 0, slow_reader_on_timer);
    fixture_run_until(io, slow_reader_has_all, &reader);
    io_timer_stop(io, &reader.timer);
    fixture_run_until(io, fixture_is_true, &big.sent);
    assert_int_equal(big.send.result.code, STATUS_OK);
    close(reader.fd);
    fixture_run_until(io, fixture_is_true, &big.closed);
    io_listener_close(listener);
    fixture_run_for(io, MILLISECOND_NS);
    io_destroy(io);
    free(big.ranges);
    free(data);
}

static void closing_ends_a_send_that_a_peer_does_not_read(void **state)
{
    struct big big = {0};
    struct io_listener *listener = NULL;
    uint16_t port = 0;
    uint8_t *data = big_prepare(&big);
    struct io *io = fixture_create_loop(NULL);
    status result = io_listen(io, "127.0.0.1", &port, 16, big_on_accept, &big, &listener);
    assert_int_equal(result.code, STATUS_OK);
    int fd = raw_connect(port);
    fixture_run_for(io, 50 * MILLISECOND_NS);
    assert_false(big.sent);
    io_stream_close(big.stream);
    io_stream_close(big.stream);
    fixture_run_until(io, fixture_is_true, &big.closed);
    assert_int_equal(big.send.result.code, STATUS_CANCELLED);
    assert_int_equal(big.why.code, STATUS_CANCELLED);
    close(fd);
    io_listener_close(listener);
    fixture_run_for(io, MILLISECOND_NS);
    io_destroy(io);
    free(big.ranges);
    free(data);
}

/* ---- closing inside every callback, and sending on a stream that ends */

enum close_place { CLOSE_IN_ACCEPT, CLOSE_IN_OPEN, CLOSE_IN_DATA, CLOSE_IN_SENT, CLOSE_IN_CLOSED };

struct closer {
    enum close_place place;
    struct io_stream *stream;
    struct io_send send;
    struct iovec range;
    uint32_t accepted;
    uint32_t data_count;
    bool sent;
    bool closed;
};

static void closer_on_sent(struct io_send *send)
{
    struct closer *closer = send->context;
    closer->sent = true;
    if (closer->place == CLOSE_IN_SENT) {
        io_stream_close(closer->stream);
    }
}

static void closer_send(struct closer *closer)
{
    closer->range = (struct iovec){(void *)(uintptr_t) "answer", 6};
    closer->send =
        (struct io_send){.ranges = &closer->range, .range_count = 1, .fn = closer_on_sent};
    closer->send.context = closer;
    io_stream_send(closer->stream, &closer->send);
    assert_false(closer->sent);
}

static void closer_on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct closer *closer = context;
    closer->data_count++;
    if (closer->place == CLOSE_IN_DATA) {
        assert_int_equal(closer->data_count, 1);
        io_stream_close(closer->stream);
    }
    if (closer->data_count == 1) {
        closer_send(closer);
    }
}

static void closer_on_closed(void *context, status why)
{
    struct closer *closer = context;
    assert_true(closer->sent || closer->data_count == 0);
    assert_false(closer->closed);
    closer->closed = true;
    if (closer->place == CLOSE_IN_CLOSED) {
        io_stream_close(closer->stream);
    }
}

static const struct io_stream_events closer_events = {closer_on_data, closer_on_closed};

static void closer_on_accept(void *context, struct io_stream *stream)
{
    struct closer *closer = context;
    closer->accepted++;
    closer->stream = stream;
    if (closer->place == CLOSE_IN_ACCEPT) {
        io_stream_close(stream);
        closer->closed = true;
        return;
    }
    io_stream_open(stream, &closer_events, closer);
    if (closer->place == CLOSE_IN_OPEN) {
        io_stream_close(stream);
    }
}

static void a_stream_may_be_closed_in_every_callback(void **state)
{
    for (int place = CLOSE_IN_ACCEPT; place <= CLOSE_IN_CLOSED; place++) {
        struct closer closer = {.place = (enum close_place)place};
        struct io_listener *listener = NULL;
        uint16_t port = 0;
        struct io *io = fixture_create_loop(NULL);
        status result = io_listen(io, "127.0.0.1", &port, 16, closer_on_accept, &closer, &listener);
        assert_int_equal(result.code, STATUS_OK);
        int fd = raw_connect(port);
        assert_int_equal(send(fd, "question", 8, MSG_NOSIGNAL), 8);
        fixture_run_for(io, 20 * MILLISECOND_NS);
        close(fd);
        fixture_run_until(io, fixture_is_true, &closer.closed);
        assert_int_equal(closer.accepted, 1);
        assert_int_equal(closer.sent, closer.data_count > 0);
        io_listener_close(listener);
        fixture_run_for(io, MILLISECOND_NS);
        io_destroy(io);
    }
}

static void a_send_on_a_closed_stream_fails_before_on_closed(void **state)
{
    struct closer closer = {.place = CLOSE_IN_DATA};
    struct io_listener *listener = NULL;
    uint16_t port = 0;
    struct io *io = fixture_create_loop(NULL);
    status result = io_listen(io, "127.0.0.1", &port, 16, closer_on_accept, &closer, &listener);
    assert_int_equal(result.code, STATUS_OK);
    int fd = raw_connect(port);
    assert_int_equal(send(fd, "question", 8, MSG_NOSIGNAL), 8);
    fixture_run_until(io, fixture_is_true, &closer.closed);
    assert_true(closer.sent);
    assert_int_equal(closer.send.result.code, STATUS_CANCELLED);
    close(fd);
    io_listener_close(listener);
    fixture_run_for(io, MILLISECOND_NS);
    io_destroy(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_echo_returns_what_was_sent_whatever_the_split),
        cmocka_unit_test(a_thousand_connections_are_served_by_one_loop),
        cmocka_unit_test(pausing_and_resuming_keeps_the_order),
        cmocka_unit_test(data_waits_when_the_receive_buffers_run_out),
        cmocka_unit_test(a_submission_queue_smaller_than_the_crowd_is_enough),
        cmocka_unit_test(streams_that_end_at_random_leave_nothing_behind),
        cmocka_unit_test(a_reset_by_the_peer_closes_the_stream),
        cmocka_unit_test(an_orderly_end_by_the_peer_is_closed_without_an_errno),
        cmocka_unit_test(what_a_paused_stream_received_is_delivered_before_its_end),
        cmocka_unit_test(a_paused_stream_stops_its_sender),
        cmocka_unit_test(a_large_send_of_many_ranges_reaches_a_slow_reader_whole),
        cmocka_unit_test(closing_ends_a_send_that_a_peer_does_not_read),
        cmocka_unit_test(a_stream_may_be_closed_in_every_callback),
        cmocka_unit_test(a_send_on_a_closed_stream_fails_before_on_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
