/* A server and its clients in the simulated world: order, bounds, deadlines, shutdown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "twinlog/core/trace.h"
#include "twinlog/io/sim.h"
#include "twinlog/net/net.h"

enum { CLIENT_COUNT_MAX = 8, REQUEST_COUNT_MAX = 64, MS = 1000000 };

static const struct sim_options split_network = {
    .net_delay_us_min = 10, .net_delay_us_max = 500, .net_split_chance = 3000};

/* The owner's request: answers with a copy of its frame. */
struct echo {
    struct net_request net; /* first */
    struct list_node link;
    uint8_t *answer;
    uint32_t answer_size;
    struct iovec *many;
};

struct client {
    struct world *world;
    struct io_stream *stream;
    struct io_send send;
    struct iovec range;
    bool sent;
    bool closed;
    uint8_t received[1 << 16];
    uint32_t received_size;
};

/*
 * The first byte of a frame says what the handler does with it: 'e' answers at once, 'w' waits
 * until the test lets it go, 'h' holds and waits, 'n' answers nothing, 'k' keeps its frame, 'l' is
 * later than all before it, 'm' answers with a range for each byte, 'x' closes.
 */
struct world {
    struct sim *sim;
    struct sim_node *node;
    struct sim_node *peer;
    struct net_server *server;
    struct list waiting;
    uint32_t started;
    uint32_t released;
    uint32_t abandoned;
    bool stopped;
    struct client clients[CLIENT_COUNT_MAX];
};

static void echo_release(struct net_request *net)
{
    struct echo *echo = CONTAINER_OF(net, struct echo, net);
    free(echo->answer);
    free(echo->many);
}

static void echo_answer(struct echo *echo)
{
    echo->net.inline_range = (struct iovec){echo->answer, echo->answer_size};
    echo->net.ranges = &echo->net.inline_range;
    echo->net.range_count = 1;
    net_request_answer(&echo->net);
}

static void echo_set(struct echo *echo, struct bytes frame)
{
    echo->answer_size = frame.size + 4;
    echo->answer = malloc(echo->answer_size);
    store_be32(echo->answer, frame.size);
    memcpy(echo->answer + 4, frame.data, frame.size);
    echo->net.release = echo_release;
}

static void echo_answer_many(struct echo *echo)
{
    echo->many = calloc(echo->answer_size, sizeof(*echo->many));
    for (uint32_t i = 0; i < echo->answer_size; i++) {
        echo->many[i] = (struct iovec){echo->answer + i, 1};
    }
    echo->net.ranges = echo->many;
    echo->net.range_count = echo->answer_size;
    net_request_answer(&echo->net);
}

static enum net_verdict on_request(void *context, struct net_request *net, struct bytes frame)
{
    struct world *world = context;
    struct echo *echo = CONTAINER_OF(net, struct echo, net);
    char kind = (char)frame.data[0];
    if (kind == 'x') {
        return NET_CLOSE;
    }
    if (kind == 'l' && !net_request_is_first(net)) {
        return NET_LATER;
    }
    world->started++;
    if (kind == 'k') {
        frame = net_request_keep(net, frame);
        assert_false(bytes_is_null(frame));
    }
    if (kind == 'n') {
        net_request_answer(net);
        return NET_TAKEN;
    }
    echo_set(echo, frame);
    if (kind == 'w' || kind == 'h') {
        if (kind == 'h') {
            net_request_hold(net);
        }
        list_push_back(&world->waiting, &echo->link);
        return NET_TAKEN;
    }
    if (kind == 'm') {
        echo_answer_many(echo);
    } else {
        echo_answer(echo);
    }
    return NET_TAKEN;
}

static void let_go_last(struct world *world)
{
    struct list_node *node = list_last(&world->waiting);
    assert_non_null(node);
    list_remove(node);
    echo_answer(CONTAINER_OF(node, struct echo, link));
    sim_node_kick(world->node);
}

/* ---------------------------------------------------------------- clients */

static void client_on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct client *client = context;
    assert_true(client->received_size + size <= sizeof(client->received));
    memcpy(client->received + client->received_size, data, size);
    client->received_size += size;
}

static void client_on_closed(void *context, status why)
{
    struct client *client = context;
    client->closed = true;
    client->stream = NULL;
}

static const struct io_stream_events client_events = {client_on_data, client_on_closed};

static void client_on_connected(void *context, status result, struct io_stream *stream)
{
    struct client *client = context;
    if (result.code != STATUS_OK) {
        client->closed = true;
        return;
    }
    client->stream = stream;
    io_stream_open(stream, &client_events, client);
}

static void run(struct world *world, int64_t ms)
{
    sim_run(world->sim, ms * MS);
}

static struct client *client_connect(struct world *world, uint32_t index)
{
    struct client *client = &world->clients[index];
    client->world = world;
    assert_int_equal(io_connect(sim_node_io(world->peer), "10.0.0.1",
                                net_server_port(world->server), client_on_connected, client)
                         .code,
                     STATUS_OK);
    sim_node_kick(world->peer);
    run(world, 20);
    return client;
}

static void client_on_sent(struct io_send *send)
{
    struct client *client = send->context;
    client->sent = true;
}

static void client_send(struct client *client, const void *data, uint32_t size)
{
    uint8_t *copy = malloc(size);
    memcpy(copy, data, size);
    client->range = (struct iovec){copy, size};
    client->sent = false;
    client->send = (struct io_send){
        .ranges = &client->range, .range_count = 1, .fn = client_on_sent, .context = client};
    io_stream_send(client->stream, &client->send);
    sim_node_kick(client->world->peer);
    for (int i = 0; i < 1000 && !client->sent; i++) {
        run(client->world, 1);
    }
    assert_true(client->sent);
    free(copy);
}

/* Frames of `text`, separated by blanks. */
static void client_send_frames(struct client *client, const char *text)
{
    uint8_t stream[1024];
    uint32_t size = 0;
    while (*text != '\0') {
        uint32_t length = (uint32_t)strcspn(text, " ");
        store_be32(stream + size, length);
        memcpy(stream + size + 4, text, length);
        size += 4 + length;
        text += length + (text[length] == ' ' ? 1 : 0);
    }
    client_send(client, stream, size);
}

/* The frames received so far, separated by blanks. */
static void assert_received(const struct client *client, const char *expected)
{
    char text[4096];
    uint32_t size = 0;
    for (uint32_t at = 0; at < client->received_size;) {
        uint32_t length = load_be32(client->received + at);
        if (size > 0) {
            text[size++] = ' ';
        }
        memcpy(text + size, client->received + at + 4, length);
        size += length;
        at += 4 + length;
    }
    text[size] = '\0';
    assert_string_equal(text, expected);
}

/* ---------------------------------------------------------------- the world */

static struct net_options options_of(struct world *world)
{
    return (struct net_options){
        .host = "10.0.0.1",
        .request_size = sizeof(struct echo),
        .frame_size_max = 4096,
        .receive_memory_max = 1 << 20,
        .in_flight_max = 4,
        .connection_count_max = 100,
        .connection_per_ip_max = UINT32_MAX,
        .idle_ms_max = 600000,
        .on_request = on_request,
        .context = world,
    };
}

static struct world *world_create(uint64_t seed, const struct net_options *changes)
{
    struct world *world = calloc(1, sizeof(*world));
    trace_set_level(TRACE_ERROR);
    world->sim = sim_create(seed, &split_network);
    world->node = sim_node_add(world->sim, "10.0.0.1");
    world->peer = sim_node_add(world->sim, "10.0.0.2");
    list_init(&world->waiting);
    struct net_options options = changes == NULL ? options_of(world) : *changes;
    options.io = sim_node_io(world->node);
    options.context = world;
    assert_int_equal(net_server_create(&options, &world->server).code, STATUS_OK);
    return world;
}

static void on_stopped(void *context)
{
    struct world *world = context;
    world->stopped = true;
}

static void world_destroy(struct world *world)
{
    net_server_stop(world->server, 50, on_stopped, world);
    sim_node_kick(world->node);
    while (!list_is_empty(&world->waiting)) {
        let_go_last(world);
    }
    run(world, 1000);
    assert_true(world->stopped);
    net_server_destroy(world->server);
    sim_destroy(world->sim);
    free(world);
}

static struct net_stats stats_of(struct world *world)
{
    struct net_stats stats;
    net_server_stats(world->server, &stats);
    return stats;
}

/* ---------------------------------------------------------------- tests */

static void frames_are_echoed_in_order_however_the_network_splits_them(void **state)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct world *world = world_create(seed, NULL);
        struct client *client = client_connect(world, 0);
        client_send_frames(client, "e1 e22 k333 n e4444 kk55555 e6");
        run(world, 200);
        assert_received(client, "e1 e22 k333 e4444 kk55555 e6");
        assert_int_equal(stats_of(world).requests, 0);
        assert_int_equal(stats_of(world).receive_memory, 0);
        world_destroy(world);
    }
}

static void answers_leave_in_the_order_of_the_requests(void **state)
{
    struct world *world = world_create(1, NULL);
    struct client *client = client_connect(world, 0);
    client_send_frames(client, "w1 w2 e3");
    run(world, 100);
    assert_int_equal(world->started, 3);
    assert_received(client, "");
    let_go_last(world);
    run(world, 100);
    assert_received(client, "");
    let_go_last(world);
    run(world, 100);
    assert_received(client, "w1 w2 e3");
    world_destroy(world);
}

static void an_answer_of_many_ranges_is_sent_once_whatever_stands_before_it(void **state)
{
    static const struct {
        const char *sent;
        const char *received;
    } cases[] = {
        {"m1234567 e8", "m1234567 e8"},
        {"n m1234567 e8", "m1234567 e8"},
        {"n n m1234567 n m7654321", "m1234567 m7654321"},
        {"e1 n m1234567", "e1 m1234567"},
    };
    for (uint64_t seed = 0; seed < 10 * COUNT_OF(cases); seed++) {
        size_t i = seed % COUNT_OF(cases);
        struct world *world = world_create(seed, NULL);
        struct client *client = client_connect(world, 0);
        client_send_frames(client, cases[i].sent);
        run(world, 200);
        assert_received(client, cases[i].received);
        assert_int_equal(stats_of(world).requests, 0);
        world_destroy(world);
    }
}

static void requests_in_flight_are_bounded_and_go_on_as_answers_leave(void **state)
{
    struct world *world = world_create(2, NULL);
    struct client *client = client_connect(world, 0);
    client_send_frames(client, "w1 w2 w3 w4 w5 w6 e7");
    run(world, 100);
    assert_int_equal(world->started, 4);
    while (!list_is_empty(&world->waiting)) {
        let_go_last(world);
        run(world, 100);
    }
    assert_received(client, "w1 w2 w3 w4 w5 w6 e7");
    world_destroy(world);
}

static void a_request_that_holds_lets_no_later_one_start(void **state)
{
    struct world *world = world_create(3, NULL);
    struct client *client = client_connect(world, 0);
    struct client *other = client_connect(world, 1);
    client_send_frames(client, "w1 h2 e3");
    client_send_frames(other, "e9");
    run(world, 100);
    assert_int_equal(world->started, 3);
    assert_received(other, "e9");
    let_go_last(world); /* h2 */
    run(world, 100);
    assert_int_equal(world->started, 4);
    let_go_last(world);
    run(world, 100);
    assert_received(client, "w1 h2 e3");
    world_destroy(world);
}

static void a_later_frame_is_offered_again_when_all_before_it_are_answered(void **state)
{
    struct world *world = world_create(4, NULL);
    struct client *client = client_connect(world, 0);
    client_send_frames(client, "w1 w2 l3 e4");
    run(world, 100);
    assert_int_equal(world->started, 2);
    let_go_last(world);
    run(world, 100);
    assert_int_equal(world->started, 2);
    let_go_last(world);
    run(world, 100);
    assert_received(client, "w1 w2 l3 e4");
    world_destroy(world);
}

static void an_oversized_frame_closes_the_connection(void **state)
{
    static const uint32_t size_list[] = {4097, 0x7fffffff, 0xffffffff};
    for (size_t i = 0; i < COUNT_OF(size_list); i++) {
        struct world *world = world_create(5, NULL);
        struct client *client = client_connect(world, 0);
        uint8_t prefix[4];
        store_be32(prefix, size_list[i]);
        client_send(client, prefix, sizeof(prefix));
        run(world, 100);
        assert_true(client->closed);
        assert_int_equal(stats_of(world).connections, 0);
        world_destroy(world);
    }
}

static void a_refused_request_closes_the_connection(void **state)
{
    struct world *world = world_create(6, NULL);
    struct client *client = client_connect(world, 0);
    client_send_frames(client, "e1 x e2");
    run(world, 100);
    assert_true(client->closed);
    assert_int_equal(world->started, 1);
    world_destroy(world);
}

static void a_frame_that_drips_meets_its_deadline(void **state)
{
    struct world *world = world_create(7, NULL);
    struct client *slow = client_connect(world, 0);
    struct client *half = client_connect(world, 1);
    struct client *idle = client_connect(world, 2);
    client_send(slow,
                "\0\0\0\x64"
                "abc",
                7);
    client_send(half, "\0\0", 2);
    for (int i = 0; i < 20; i++) {
        run(world, 1000);
        client_send(slow, "d", 1);
    }
    assert_false(slow->closed);
    run(world, 20000);
    assert_true(slow->closed);
    assert_true(half->closed);
    assert_false(idle->closed);
    assert_int_equal(stats_of(world).receive_memory, 0);
    world_destroy(world);
}

static void a_silent_connection_is_closed_and_a_waiting_one_is_not(void **state)
{
    struct world probe = {0};
    struct net_options options = options_of(&probe);
    options.idle_ms_max = 10000;
    struct world *world = world_create(8, &options);
    struct client *silent = client_connect(world, 0);
    struct client *busy = client_connect(world, 1);
    struct client *waiting = client_connect(world, 2);
    client_send_frames(waiting, "w1");
    for (int i = 0; i < 16; i++) {
        client_send_frames(busy, "e1");
        run(world, 1000);
    }
    assert_true(silent->closed);
    assert_false(busy->closed);
    assert_false(waiting->closed);
    world_destroy(world);
}

static void no_patience_with_silence_at_all_still_ends(void **state)
{
    struct world probe = {0};
    struct net_options options = options_of(&probe);
    options.idle_ms_max = 0;
    struct world *world = world_create(9, &options);
    struct client *silent = client_connect(world, 0);
    struct client *other = client_connect(world, 1);
    run(world, 1000);
    assert_true(silent->closed);
    assert_true(other->closed);
    world_destroy(world);
}

static void connections_are_bounded_in_all_and_by_address(void **state)
{
    struct world probe = {0};
    for (int by_address = 0; by_address < 2; by_address++) {
        struct net_options options = options_of(&probe);
        if (by_address) {
            options.connection_per_ip_max = 2;
        } else {
            options.connection_count_max = 2;
        }
        struct world *world = world_create(9, &options);
        struct client *first = client_connect(world, 0);
        struct client *second = client_connect(world, 1);
        struct client *third = client_connect(world, 2);
        run(world, 100);
        assert_false(first->closed);
        assert_false(second->closed);
        assert_true(third->closed);
        assert_int_equal(stats_of(world).refused, 1);
        io_stream_close(second->stream);
        sim_node_kick(world->peer);
        run(world, 100);
        struct client *fourth = client_connect(world, 3);
        run(world, 100);
        assert_false(fourth->closed);
        world_destroy(world);
    }
}

static void frames_over_the_receive_memory_wait_and_an_oversized_one_is_admitted_alone(void **state)
{
    struct world probe = {0};
    struct net_options options = options_of(&probe);
    options.receive_memory_max = 100;
    struct world *world = world_create(10, &options);
    uint8_t frame[204] = {0, 0, 0, 200, 'e'};
    struct client *first = client_connect(world, 0);
    struct client *second = client_connect(world, 1);
    client_send(first, frame, 10); /* begins: takes all memory, over the bound, alone */
    run(world, 100);
    assert_int_equal(stats_of(world).receive_memory, 200);
    client_send(second, frame, 10);
    run(world, 100);
    assert_int_equal(stats_of(world).receive_memory, 200);
    client_send(second, frame + 10, sizeof(frame) - 10);
    run(world, 100);
    assert_int_equal(world->started, 0);
    client_send(first, frame + 10, sizeof(frame) - 10);
    run(world, 100);
    assert_int_equal(world->started, 2);
    assert_int_equal(first->received_size, sizeof(frame));
    assert_int_equal(second->received_size, sizeof(frame));
    assert_int_equal(stats_of(world).receive_memory, 0);
    world_destroy(world);
}

static void a_request_outlives_its_connection(void **state)
{
    struct world *world = world_create(11, NULL);
    struct client *client = client_connect(world, 0);
    client_send_frames(client, "w1 k2 w3");
    run(world, 100);
    io_stream_close(client->stream);
    sim_node_kick(world->peer);
    run(world, 100);
    assert_true(client->closed);
    /* The answered one behind the first is gone with the connection; the two that wait are not. */
    assert_int_equal(stats_of(world).requests, 2);
    assert_int_equal(stats_of(world).connections, 1);
    let_go_last(world);
    let_go_last(world);
    assert_int_equal(stats_of(world).requests, 0);
    assert_int_equal(stats_of(world).connections, 0);
    world_destroy(world);
}

static void a_stop_lets_requests_in_flight_be_answered(void **state)
{
    struct world *world = world_create(12, NULL);
    struct client *client = client_connect(world, 0);
    struct client *idle = client_connect(world, 1);
    client_send_frames(client, "w1");
    run(world, 100);
    net_server_stop(world->server, 10000, on_stopped, world);
    sim_node_kick(world->node);
    run(world, 100);
    assert_true(idle->closed);
    assert_false(client->closed);
    assert_false(world->stopped);
    let_go_last(world);
    run(world, 100);
    assert_true(world->stopped);
    assert_true(client->closed);
    assert_received(client, "w1");
    net_server_destroy(world->server);
    sim_destroy(world->sim);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_echoed_in_order_however_the_network_splits_them),
        cmocka_unit_test(answers_leave_in_the_order_of_the_requests),
        cmocka_unit_test(an_answer_of_many_ranges_is_sent_once_whatever_stands_before_it),
        cmocka_unit_test(requests_in_flight_are_bounded_and_go_on_as_answers_leave),
        cmocka_unit_test(a_request_that_holds_lets_no_later_one_start),
        cmocka_unit_test(a_later_frame_is_offered_again_when_all_before_it_are_answered),
        cmocka_unit_test(an_oversized_frame_closes_the_connection),
        cmocka_unit_test(a_refused_request_closes_the_connection),
        cmocka_unit_test(a_frame_that_drips_meets_its_deadline),
        cmocka_unit_test(a_silent_connection_is_closed_and_a_waiting_one_is_not),
        cmocka_unit_test(no_patience_with_silence_at_all_still_ends),
        cmocka_unit_test(connections_are_bounded_in_all_and_by_address),
        cmocka_unit_test(
            frames_over_the_receive_memory_wait_and_an_oversized_one_is_admitted_alone),
        cmocka_unit_test(a_request_outlives_its_connection),
        cmocka_unit_test(a_stop_lets_requests_in_flight_be_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
