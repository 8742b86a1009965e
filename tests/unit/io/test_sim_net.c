/* The simulated network: echo with splits, back-pressure, resets, cuts, crashes, determinism. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "twinlog/io/sim.h"

enum { PORT = 9092, MS = 1000000, PEER_COUNT_MAX = 8, ECHO_SIZE_MAX = 1 << 20 };

static const struct sim_options no_faults = {.disk_write_us_min = 50,
                                             .disk_write_us_max = 500,
                                             .net_delay_us_min = 100,
                                             .net_delay_us_max = 2000};

static const struct sim_options splits = {
    .net_delay_us_min = 100, .net_delay_us_max = 2000, .net_split_chance = 5000};

static void assert_ok(status result)
{
    assert_int_equal(result.code, STATUS_OK);
}

static void run_all(struct sim *sim)
{
    while (sim_step(sim)) {
    }
}

/* ---------------------------------------------------------------- one end */

struct end {
    struct io_stream *stream;
    bool is_open;
    bool is_echo;
    bool is_refused;   /* closes what it accepts */
    uint32_t close_at; /* closes inside on_data from this many received bytes on; 0: never */
    bool is_closed;
    status why;
    status connected;
    uint32_t connect_count;
    uint8_t *received;
    uint32_t received_size;
    uint32_t echoed_size;
    uint32_t data_count;
    struct io_send send;
    struct iovec ranges[2];
    bool is_sending;
    uint32_t sent_count;
    status send_result;
};

static void end_send(struct end *end, const uint8_t *data, uint32_t size);

static void end_echo(struct end *end)
{
    if (end->is_echo && !end->is_sending && !end->is_closed &&
        end->echoed_size < end->received_size) {
        uint32_t size = end->received_size - end->echoed_size;
        const uint8_t *data = end->received + end->echoed_size;
        end->echoed_size = end->received_size;
        end_send(end, data, size);
    }
}

static void end_on_sent(struct io_send *send)
{
    struct end *end = send->context;
    assert_true(end->is_sending);
    assert_false(end->is_closed);
    end->is_sending = false;
    end->sent_count++;
    end->send_result = send->result;
    if (status_is_ok(send->result)) {
        end_echo(end);
    }
}

static void end_send(struct end *end, const uint8_t *data, uint32_t size)
{
    uint32_t half = size / 2;
    end->ranges[0] = (struct iovec){(uint8_t *)(uintptr_t)data, half};
    end->ranges[1] = (struct iovec){(uint8_t *)(uintptr_t)data + half, size - half};
    end->send = (struct io_send){
        .ranges = end->ranges, .range_count = 2, .fn = end_on_sent, .context = end};
    end->is_sending = true;
    io_stream_send(end->stream, &end->send);
}

static void end_on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct end *end = context;
    assert_true(size > 0);
    assert_false(end->is_closed);
    assert_true(end->received_size + size <= ECHO_SIZE_MAX);
    memcpy(end->received + end->received_size, data, size);
    end->received_size += size;
    end->data_count++;
    if (end->close_at != 0 && end->received_size >= end->close_at) {
        io_stream_close(end->stream);
        io_stream_close(end->stream);
        return;
    }
    end_echo(end);
}

static void end_on_closed(void *context, status why)
{
    struct end *end = context;
    assert_false(end->is_closed);
    assert_false(end->is_sending);
    end->is_closed = true;
    end->why = why;
    end->stream = NULL;
}

static const struct io_stream_events end_events = {end_on_data, end_on_closed};

static void end_open(struct end *end, struct io_stream *stream)
{
    end->stream = stream;
    end->is_open = true;
    io_stream_open(stream, &end_events, end);
}

static void end_on_connected(void *context, status result, struct io_stream *stream)
{
    struct end *end = context;
    end->connect_count++;
    end->connected = result;
    assert_int_equal(status_is_ok(result), stream != NULL);
    if (stream != NULL) {
        end_open(end, stream);
    }
}

static void end_on_accept(void *context, struct io_stream *stream)
{
    struct end *end = context;
    if (end->is_refused) {
        io_stream_close(stream);
        return;
    }
    assert_false(end->is_open);
    end_open(end, stream);
}

/* ---------------------------------------------------------------- two nodes, one connection */

struct pair {
    struct sim *sim;
    struct sim_node *server_node;
    struct sim_node *client_node;
    struct io *server_io;
    struct io *client_io;
    struct io_listener *listener;
    struct end server;
    struct end client;
    uint8_t *data;
};

static void pair_init(struct pair *pair, uint64_t seed, const struct sim_options *options)
{
    *pair = (struct pair){.sim = sim_create(seed, options)};
    assert_non_null(pair->sim);
    pair->server_node = sim_node_add(pair->sim, "10.0.0.1");
    pair->client_node = sim_node_add(pair->sim, "10.0.0.2");
    pair->server_io = sim_node_io(pair->server_node);
    pair->client_io = sim_node_io(pair->client_node);
    pair->server.received = malloc(ECHO_SIZE_MAX);
    pair->client.received = malloc(ECHO_SIZE_MAX);
    pair->data = malloc(ECHO_SIZE_MAX);
    assert_true(pair->server.received != NULL && pair->client.received != NULL);
    assert_non_null(pair->data);
    for (uint32_t i = 0; i < ECHO_SIZE_MAX; i++) {
        pair->data[i] = (uint8_t)(i * 31 + (i >> 8));
    }
    uint16_t port = PORT;
    assert_ok(io_listen(pair->server_io, "10.0.0.1", &port, 16, end_on_accept, &pair->server,
                        &pair->listener));
}

static void pair_connect(struct pair *pair)
{
    assert_ok(io_connect(pair->client_io, "10.0.0.1", PORT, end_on_connected, &pair->client));
    run_all(pair->sim);
    assert_ok(pair->client.connected);
    assert_true(pair->client.is_open);
    assert_true(pair->server.is_open);
}

static void pair_fini(struct pair *pair)
{
    sim_destroy(pair->sim);
    free(pair->server.received);
    free(pair->client.received);
    free(pair->data);
}

static struct sim_coverage pair_coverage(struct pair *pair)
{
    struct sim_coverage coverage;
    sim_coverage_get(pair->sim, &coverage);
    return coverage;
}

/* ---------------------------------------------------------------- bytes */

static void an_echo_keeps_every_byte_in_order_however_it_is_split(void **state)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct pair pair;
        pair_init(&pair, seed, &splits);
        pair.server.is_echo = true;
        pair_connect(&pair);
        uint32_t size = 1 + (uint32_t)(sim_random(pair.sim) % (300 * 1024));
        end_send(&pair.client, pair.data, size);
        run_all(pair.sim);
        assert_int_equal(pair.client.sent_count, 1);
        assert_ok(pair.client.send_result);
        assert_int_equal(pair.client.received_size, size);
        assert_memory_equal(pair.client.received, pair.data, size);
        assert_true(size < 100000 || pair_coverage(&pair).splits > 0);
        pair_fini(&pair);
    }
}

static void a_paused_receiver_holds_the_sender_back_and_loses_nothing(void **state)
{
    struct pair pair;
    pair_init(&pair, 1, &no_faults);
    pair_connect(&pair);
    io_stream_pause(pair.server.stream);
    end_send(&pair.client, pair.data, ECHO_SIZE_MAX);
    run_all(pair.sim);
    assert_int_equal(pair.client.sent_count, 0);
    assert_int_equal(pair.server.received_size, 0);
    io_stream_resume(pair.server.stream);
    assert_int_equal(pair.server.received_size, 0);
    run_all(pair.sim);
    assert_int_equal(pair.client.sent_count, 1);
    assert_int_equal(pair.server.received_size, ECHO_SIZE_MAX);
    assert_memory_equal(pair.server.received, pair.data, ECHO_SIZE_MAX);
    pair_fini(&pair);
}

static void a_paused_node_holds_the_sender_back_too(void **state)
{
    struct pair pair;
    pair_init(&pair, 1, &no_faults);
    pair_connect(&pair);
    sim_node_pause(pair.server_node, 1000 * (int64_t)MS);
    end_send(&pair.client, pair.data, ECHO_SIZE_MAX);
    sim_run(pair.sim, 999 * (int64_t)MS);
    assert_int_equal(pair.client.sent_count, 0);
    assert_int_equal(pair.server.received_size, 0);
    run_all(pair.sim);
    assert_int_equal(pair.client.sent_count, 1);
    assert_int_equal(pair.server.received_size, ECHO_SIZE_MAX);
    pair_fini(&pair);
}

/* ---------------------------------------------------------------- ends */

static void an_orderly_close_comes_behind_the_data(void **state)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct pair pair;
        pair_init(&pair, seed, &splits);
        pair_connect(&pair);
        end_send(&pair.client, pair.data, 20000);
        while (pair.client.is_sending) {
            assert_true(sim_step(pair.sim));
        }
        io_stream_close(pair.client.stream);
        assert_false(pair.client.is_closed);
        run_all(pair.sim);
        assert_int_equal(pair.server.received_size, 20000);
        assert_true(pair.client.is_closed);
        assert_int_equal(pair.client.why.code, STATUS_CANCELLED);
        assert_true(pair.server.is_closed);
        assert_int_equal(pair.server.why.code, STATUS_CLOSED);
        assert_int_equal(pair.server.why.sys, 0);
        pair_fini(&pair);
    }
}

static void closing_inside_on_data_ends_both_ends_and_their_sends(void **state)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct pair pair;
        pair_init(&pair, seed, &splits);
        pair.server.close_at = 10;
        pair_connect(&pair);
        end_send(&pair.client, pair.data, ECHO_SIZE_MAX);
        run_all(pair.sim);
        assert_true(pair.server.is_closed);
        assert_int_equal(pair.server.why.code, STATUS_CANCELLED);
        assert_true(pair.client.is_closed);
        assert_int_equal(pair.client.why.code, STATUS_CLOSED);
        assert_int_equal(pair.client.sent_count, 1);
        pair_fini(&pair);
    }
}

static void an_accepted_stream_may_be_closed_at_once(void **state)
{
    struct pair pair;
    pair_init(&pair, 1, &no_faults);
    pair.server.is_refused = true;
    assert_ok(io_connect(pair.client_io, "10.0.0.1", PORT, end_on_connected, &pair.client));
    run_all(pair.sim);
    assert_true(pair.client.is_closed);
    assert_int_equal(pair.client.why.code, STATUS_CLOSED);
    pair_fini(&pair);
}

static void a_reset_reaches_both_ends(void **state)
{
    struct sim_options resetting = no_faults;
    resetting.net_reset_chance = 10000;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct pair pair;
        pair_init(&pair, seed, &no_faults);
        pair_connect(&pair);
        sim_set_options(pair.sim, &resetting);
        end_send(&pair.client, pair.data, 1000);
        run_all(pair.sim);
        assert_true(pair.client.is_closed);
        assert_true(pair.server.is_closed);
        assert_int_equal(pair.client.why.code, STATUS_CLOSED);
        assert_int_equal(pair.server.why.code, STATUS_CLOSED);
        assert_int_not_equal(pair.client.why.sys, 0);
        assert_int_equal(pair_coverage(&pair).resets, 1);
        pair_fini(&pair);
    }
}

static void a_crash_resets_the_streams_for_the_peer(void **state)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct pair pair;
        pair_init(&pair, seed, &no_faults);
        pair_connect(&pair);
        end_send(&pair.client, pair.data, ECHO_SIZE_MAX);
        sim_run(pair.sim, MS);
        bool process_only = seed % 2 == 0;
        sim_node_crash(pair.server_node, process_only);
        run_all(pair.sim);
        assert_false(pair.server.is_closed);
        assert_true(pair.client.is_closed);
        assert_int_equal(pair.client.why.code, STATUS_CLOSED);
        assert_int_equal(pair.client.sent_count, 1);
        assert_true(process_only || pair.client.why.sys != 0);
        pair_fini(&pair);
    }
}

static void a_node_connects_again_after_the_restart_of_its_peer(void **state)
{
    struct pair pair;
    pair_init(&pair, 3, &no_faults);
    pair_connect(&pair);
    sim_node_crash(pair.server_node, false);
    run_all(pair.sim);
    assert_ok(io_connect(pair.client_io, "10.0.0.1", PORT, end_on_connected, &pair.client));
    run_all(pair.sim);
    assert_int_equal(pair.client.connect_count, 2);
    assert_true(pair.client.connected.code == STATUS_CLOSED ||
                pair.client.connected.code == STATUS_TIMEOUT);
    pair.server_io = sim_node_start(pair.server_node);
    uint16_t port = PORT;
    free(pair.server.received);
    pair.server = (struct end){.received = malloc(ECHO_SIZE_MAX), .is_echo = true};
    assert_ok(io_listen(pair.server_io, "0.0.0.0", &port, 16, end_on_accept, &pair.server,
                        &pair.listener));
    pair.client.is_closed = false;
    pair_connect(&pair);
    end_send(&pair.client, pair.data, 100);
    run_all(pair.sim);
    assert_int_equal(pair.client.received_size, 100);
    pair_fini(&pair);
}

/* ---------------------------------------------------------------- cuts */

static void a_cut_is_not_noticed_and_what_was_sent_arrives_after_it_heals(void **state)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct pair pair;
        pair_init(&pair, seed, &no_faults);
        pair.server.is_echo = true;
        pair_connect(&pair);
        sim_net_cut(pair.sim, pair.client_node, pair.server_node, true);
        end_send(&pair.client, pair.data, 1000);
        sim_run(pair.sim, 5000 * (int64_t)MS);
        assert_int_equal(pair.server.received_size, 0);
        assert_int_equal(pair.client.sent_count, 1);
        assert_false(pair.client.is_closed);
        sim_net_cut(pair.sim, pair.client_node, pair.server_node, false);
        run_all(pair.sim);
        assert_int_equal(pair.client.received_size, 1000);
        assert_memory_equal(pair.client.received, pair.data, 1000);
        assert_int_equal(pair_coverage(&pair).cuts, 1);
        pair_fini(&pair);
    }
}

static void a_cut_is_one_way_and_stops_a_sender_only_when_its_window_is_full(void **state)
{
    struct pair pair;
    pair_init(&pair, 1, &no_faults);
    pair_connect(&pair);
    sim_net_cut(pair.sim, pair.server_node, pair.client_node, true);
    end_send(&pair.client, pair.data, ECHO_SIZE_MAX);
    run_all(pair.sim);
    assert_int_equal(pair.client.sent_count, 0);
    assert_true(pair.server.received_size >= 64 * 1024);
    assert_true(pair.server.received_size < ECHO_SIZE_MAX);
    sim_net_cut(pair.sim, pair.server_node, pair.client_node, false);
    run_all(pair.sim);
    assert_int_equal(pair.client.sent_count, 1);
    assert_int_equal(pair.server.received_size, ECHO_SIZE_MAX);
    assert_memory_equal(pair.server.received, pair.data, ECHO_SIZE_MAX);
    pair_fini(&pair);
}

static void a_connect_over_a_cut_times_out_and_one_to_nobody_is_refused(void **state)
{
    struct pair pair;
    pair_init(&pair, 1, &no_faults);
    sim_net_cut(pair.sim, pair.server_node, pair.client_node, true);
    int64_t start_ns = sim_now_ns(pair.sim);
    assert_ok(io_connect(pair.client_io, "10.0.0.1", PORT, end_on_connected, &pair.client));
    run_all(pair.sim);
    assert_int_equal(pair.client.connected.code, STATUS_TIMEOUT);
    assert_false(pair.server.is_open);
    assert_true(sim_now_ns(pair.sim) - start_ns >= 3000 * (int64_t)MS);
    sim_net_cut(pair.sim, pair.server_node, pair.client_node, false);
    assert_ok(io_connect(pair.client_io, "10.0.0.1", PORT + 1, end_on_connected, &pair.client));
    run_all(pair.sim);
    assert_int_equal(pair.client.connected.code, STATUS_CLOSED);
    assert_ok(io_connect(pair.client_io, "10.0.0.77", PORT, end_on_connected, &pair.client));
    run_all(pair.sim);
    assert_int_equal(pair.client.connected.code, STATUS_TIMEOUT);
    assert_int_equal(pair.client.connect_count, 3);
    pair_fini(&pair);
}

static void a_crash_behind_a_cut_is_learned_only_after_it_heals(void **state)
{
    struct pair pair;
    pair_init(&pair, 1, &no_faults);
    pair_connect(&pair);
    sim_net_cut(pair.sim, pair.server_node, pair.client_node, true);
    sim_node_crash(pair.server_node, false);
    sim_run(pair.sim, 10000 * (int64_t)MS);
    assert_false(pair.client.is_closed);
    sim_net_cut(pair.sim, pair.server_node, pair.client_node, false);
    run_all(pair.sim);
    assert_true(pair.client.is_closed);
    pair_fini(&pair);
}

/* ---------------------------------------------------------------- addresses, listeners, loops */

static void addresses_are_checked_and_named(void **state)
{
    struct pair pair;
    pair_init(&pair, 1, &no_faults);
    struct io_listener *other;
    uint16_t port = PORT;
    assert_int_equal(
        io_listen(pair.server_io, "0.0.0.0", &port, 1, end_on_accept, &pair.server, &other).code,
        STATUS_BUSY);
    port = 0;
    assert_int_equal(
        io_listen(pair.server_io, "10.0.0.2", &port, 1, end_on_accept, &pair.server, &other).code,
        STATUS_NOT_FOUND);
    assert_int_equal(
        io_listen(pair.server_io, "localhost", &port, 1, end_on_accept, &pair.server, &other).code,
        STATUS_INVALID);
    assert_ok(
        io_listen(pair.server_io, "127.0.0.1", &port, 1, end_on_accept, &pair.server, &other));
    assert_true(port >= 49152);
    assert_int_equal(
        io_connect(pair.client_io, "example", PORT, end_on_connected, &pair.client).code,
        STATUS_INVALID);
    pair_connect(&pair);
    char text[64];
    io_stream_peer(pair.client.stream, text, sizeof(text));
    assert_string_equal(text, "10.0.0.1:9092");
    io_stream_peer(pair.server.stream, text, sizeof(text));
    assert_memory_equal(text, "10.0.0.2:", 9);
    pair_fini(&pair);
}

static void a_closed_listener_refuses_and_leaves_streams_alone(void **state)
{
    struct pair pair;
    pair_init(&pair, 1, &no_faults);
    pair.server.is_echo = true;
    pair_connect(&pair);
    io_listener_close(pair.listener);
    end_send(&pair.client, pair.data, 10);
    run_all(pair.sim);
    assert_int_equal(pair.client.received_size, 10);
    struct end late = {0};
    assert_ok(io_connect(pair.client_io, "10.0.0.1", PORT, end_on_connected, &late));
    run_all(pair.sim);
    assert_int_equal(late.connected.code, STATUS_CLOSED);
    pair_fini(&pair);
}

struct mover {
    struct io *to;
    struct io_mailbox *mailbox;
    struct end end;
};

static void mover_on_accept(void *context, struct io_stream *stream)
{
    struct mover *mover = context;
    io_stream_move(stream, mover->to);
    assert_ok(io_mailbox_send(mover->mailbox, stream));
}

static void mover_on_mail(void *context, void *message)
{
    struct mover *mover = context;
    end_open(&mover->end, message);
}

static void a_stream_moves_to_another_loop_of_the_node(void **state)
{
    struct pair pair;
    pair_init(&pair, 1, &no_faults);
    uint8_t received[64];
    struct mover mover = {.to = sim_node_loop_add(pair.server_node),
                          .end = {.received = received, .is_echo = true}};
    assert_ok(
        io_mailbox_create(pair.server_io, mover.to, 8, mover_on_mail, &mover, &mover.mailbox));
    struct io_listener *listener;
    uint16_t port = 0;
    assert_ok(io_listen(pair.server_io, "0.0.0.0", &port, 1, mover_on_accept, &mover, &listener));
    assert_ok(io_connect(pair.client_io, "10.0.0.1", port, end_on_connected, &pair.client));
    run_all(pair.sim);
    assert_ok(pair.client.connected);
    end_send(&pair.client, pair.data, 50);
    run_all(pair.sim);
    assert_int_equal(pair.client.received_size, 50);
    struct io_stats stats;
    io_stats_get(mover.to, &stats);
    assert_int_equal(stats.received, 50);
    assert_int_equal(stats.sent, 50);
    pair_fini(&pair);
}

/* ---------------------------------------------------------------- determinism */

static const struct sim_options all_faults = {.disk_write_us_min = 50,
                                              .disk_write_us_max = 500,
                                              .net_delay_us_min = 10,
                                              .net_delay_us_max = 1000,
                                              .net_split_chance = 2000,
                                              .net_reset_chance = 20};

static uint64_t busy_run(uint64_t seed)
{
    struct pair pair;
    pair_init(&pair, seed, &all_faults);
    pair.server.is_echo = true;
    assert_ok(io_connect(pair.client_io, "10.0.0.1", PORT, end_on_connected, &pair.client));
    for (uint32_t i = 0; i < 200; i++) {
        sim_run(pair.sim, MS);
        if (pair.client.is_open && !pair.client.is_closed && !pair.client.is_sending) {
            end_send(&pair.client, pair.data, 1 + (uint32_t)(sim_random(pair.sim) % 3000));
        }
        if (sim_random(pair.sim) % 50 == 0) {
            sim_node_pause(pair.server_node, 5 * MS);
        }
    }
    uint64_t hash = sim_hash(pair.sim);
    assert_true(pair_coverage(&pair).events > 5);
    pair_fini(&pair);
    return hash;
}

static void one_seed_gives_one_run_and_other_seeds_others(void **state)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        uint64_t hash = busy_run(seed);
        assert_true(hash == busy_run(seed));
        assert_true(hash != busy_run(seed + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_echo_keeps_every_byte_in_order_however_it_is_split),
        cmocka_unit_test(a_paused_receiver_holds_the_sender_back_and_loses_nothing),
        cmocka_unit_test(a_paused_node_holds_the_sender_back_too),
        cmocka_unit_test(an_orderly_close_comes_behind_the_data),
        cmocka_unit_test(closing_inside_on_data_ends_both_ends_and_their_sends),
        cmocka_unit_test(an_accepted_stream_may_be_closed_at_once),
        cmocka_unit_test(a_reset_reaches_both_ends),
        cmocka_unit_test(a_crash_resets_the_streams_for_the_peer),
        cmocka_unit_test(a_node_connects_again_after_the_restart_of_its_peer),
        cmocka_unit_test(a_cut_is_not_noticed_and_what_was_sent_arrives_after_it_heals),
        cmocka_unit_test(a_cut_is_one_way_and_stops_a_sender_only_when_its_window_is_full),
        cmocka_unit_test(a_connect_over_a_cut_times_out_and_one_to_nobody_is_refused),
        cmocka_unit_test(a_crash_behind_a_cut_is_learned_only_after_it_heals),
        cmocka_unit_test(addresses_are_checked_and_named),
        cmocka_unit_test(a_closed_listener_refuses_and_leaves_streams_alone),
        cmocka_unit_test(a_stream_moves_to_another_loop_of_the_node),
        cmocka_unit_test(one_seed_gives_one_run_and_other_seeds_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
