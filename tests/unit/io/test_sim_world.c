/*
 * The whole world at work: a server that writes what a client sends and acknowledges it, under
 * crashes, cuts, pauses, splits and resets. Done right, it never loses what it acknowledged, over
 * many seeds; done wrong in one place, some seed shows it. So the simulator is neither too kind
 * nor too cruel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "twinlog/io/sim.h"

enum {
    PORT = 9092,
    MS = 1000000,
    BLOCK = 4096,
    BLOCK_COUNT_MAX = 2048,
    RECORD_COUNT_MAX = 4096,
    BLOCK_RECORDS = 500,
    SEED_COUNT = 120,
};

enum mistake { NO_MISTAKE, ACK_WITHOUT_SYNC, ACK_BEFORE_WRITE, NO_DIRECTORY_SYNC };

static void assert_ok(status result)
{
    assert_int_equal(result.code, STATUS_OK);
}

/* ---------------------------------------------------------------- the server */

/* One block of the server's file: valid when the sum fits, which a torn one does not. */
struct block {
    uint32_t sum;
    uint32_t count;
    uint64_t records[BLOCK_RECORDS];
    uint8_t unused[BLOCK - 8 - BLOCK_RECORDS * 8];
};

struct server {
    struct io *io;
    enum mistake mistake;
    struct io_file *file;
    struct block *block; /* being written */
    uint64_t position;
    struct io_op op;
    bool is_writing;
    uint64_t waiting[RECORD_COUNT_MAX];
    uint32_t waiting_count;
    uint64_t acks[RECORD_COUNT_MAX];
    uint32_t ack_count;
    uint64_t sending[RECORD_COUNT_MAX];
    struct iovec range;
    struct io_send send;
    bool is_sending;
    struct io_stream *stream;
    uint8_t input[8];
    uint32_t input_size;
    bool has[RECORD_COUNT_MAX]; /* found at the start */
};

static uint32_t block_sum(const struct block *block)
{
    uint32_t sum = 17 + block->count;
    for (uint32_t i = 0; i < BLOCK_RECORDS; i++) {
        sum = sum * 31 + (uint32_t)block->records[i];
    }
    return sum;
}

static void server_on_sent(struct io_send *send);

static void server_send(struct server *server)
{
    if (server->stream == NULL || server->is_sending || server->ack_count == 0) {
        return;
    }
    memcpy(server->sending, server->acks, server->ack_count * sizeof(uint64_t));
    server->range = (struct iovec){server->sending, server->ack_count * sizeof(uint64_t)};
    server->ack_count = 0;
    server->send = (struct io_send){
        .ranges = &server->range, .range_count = 1, .fn = server_on_sent, .context = server};
    server->is_sending = true;
    io_stream_send(server->stream, &server->send);
}

static void server_on_sent(struct io_send *send)
{
    struct server *server = send->context;
    server->is_sending = false;
    if (status_is_ok(send->result)) {
        server_send(server);
    }
}

static void server_ack(struct server *server, const uint64_t *records, uint32_t count)
{
    for (uint32_t i = 0; i < count && server->ack_count < RECORD_COUNT_MAX; i++) {
        server->acks[server->ack_count++] = records[i];
    }
    server_send(server);
}

static void server_on_written(struct io_op *op);

static void server_write(struct server *server)
{
    if (server->is_writing || server->waiting_count == 0) {
        return;
    }
    uint32_t count = MIN(server->waiting_count, BLOCK_RECORDS);
    memset(server->block, 0, sizeof(*server->block));
    server->block->count = count;
    memcpy(server->block->records, server->waiting, count * sizeof(uint64_t));
    server->block->sum = block_sum(server->block);
    server->waiting_count -= count;
    memmove(server->waiting, server->waiting + count, server->waiting_count * sizeof(uint64_t));
    server->is_writing = true;
    if (server->mistake == ACK_BEFORE_WRITE) {
        server_ack(server, server->block->records, count);
    }
    assert_true(server->position < (uint64_t)BLOCK_COUNT_MAX * BLOCK);
    io_submit_write(server->io, &server->op, server->file, server->block, BLOCK, server->position,
                    server->mistake != ACK_WITHOUT_SYNC, server_on_written);
}

static void server_on_written(struct io_op *op)
{
    struct server *server = CONTAINER_OF(op, struct server, op);
    server->is_writing = false;
    if (!status_is_ok(op->result)) {
        return; /* Nothing more is written: a failed log stays offline. */
    }
    server->position += BLOCK;
    if (server->mistake != ACK_BEFORE_WRITE) {
        server_ack(server, server->block->records, server->block->count);
    }
    server_write(server);
}

static void server_on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct server *server = context;
    for (uint32_t i = 0; i < size; i++) {
        server->input[server->input_size++] = data[i];
        if (server->input_size == sizeof(server->input)) {
            assert_true(server->waiting_count < RECORD_COUNT_MAX);
            memcpy(&server->waiting[server->waiting_count++], server->input, 8);
            server->input_size = 0;
        }
    }
    server_write(server);
}

static void server_on_closed(void *context, status why)
{
    struct server *server = context;
    server->stream = NULL;
    server->input_size = 0;
    server->ack_count = 0;
}

static const struct io_stream_events server_events = {server_on_data, server_on_closed};

static void server_on_accept(void *context, struct io_stream *stream)
{
    struct server *server = context;
    if (server->stream != NULL) {
        io_stream_close(stream);
        return;
    }
    server->stream = stream;
    io_stream_open(stream, &server_events, server);
}

/* Reads until the first block that is not whole: there the next one goes. */
static status server_recover(struct server *server)
{
    for (;;) {
        size_t got;
        TRY(io_file_read(server->file, server->block, BLOCK, server->position, &got));
        bool is_whole = got == BLOCK && server->block->count > 0 &&
                        server->block->count <= BLOCK_RECORDS &&
                        server->block->sum == block_sum(server->block);
        if (!is_whole) {
            return OK;
        }
        for (uint32_t i = 0; i < server->block->count; i++) {
            assert_true(server->block->records[i] < RECORD_COUNT_MAX);
            server->has[server->block->records[i]] = true;
        }
        server->position += BLOCK;
    }
}

static status server_start(struct server *server, struct io *io, enum mistake mistake)
{
    *server = (struct server){.io = io, .mistake = mistake};
    server->block = aligned_alloc(BLOCK, sizeof(struct block));
    assert_non_null(server->block);
    unsigned flags = IO_FILE_READ | IO_FILE_WRITE | IO_FILE_CREATE | IO_FILE_DIRECT;
    TRY(io_file_open(io_disk(io), "/log", flags, &server->file));
    TRY(io_file_lock(server->file));
    if (mistake != NO_DIRECTORY_SYNC) {
        TRY(io_dir_sync(io_disk(io), "/"));
    }
    TRY(server_recover(server));
    uint16_t port = PORT;
    struct io_listener *listener;
    return io_listen(io, "0.0.0.0", &port, 16, server_on_accept, server, &listener);
}

/* ---------------------------------------------------------------- the client */

struct client {
    struct io *io;
    struct io_timer timer;
    struct io_stream *stream;
    bool is_connecting;
    bool is_sending;
    struct io_send send;
    struct iovec range;
    uint64_t next;
    uint64_t sending;
    uint8_t input[8];
    uint32_t input_size;
    bool acked[RECORD_COUNT_MAX];
    uint32_t acked_count;
};

static void client_on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct client *client = context;
    for (uint32_t i = 0; i < size; i++) {
        client->input[client->input_size++] = data[i];
        if (client->input_size == sizeof(client->input)) {
            uint64_t record;
            memcpy(&record, client->input, sizeof(record));
            assert_true(record < client->next);
            client->acked_count += client->acked[record] ? 0 : 1;
            client->acked[record] = true;
            client->input_size = 0;
        }
    }
}

static void client_on_closed(void *context, status why)
{
    struct client *client = context;
    client->stream = NULL;
    client->input_size = 0;
}

static const struct io_stream_events client_events = {client_on_data, client_on_closed};

static void client_on_connected(void *context, status result, struct io_stream *stream)
{
    struct client *client = context;
    client->is_connecting = false;
    if (status_is_ok(result)) {
        client->stream = stream;
        io_stream_open(stream, &client_events, client);
    }
}

static void client_on_sent(struct io_send *send)
{
    ((struct client *)send->context)->is_sending = false;
}

static void client_on_timer(struct io_timer *timer)
{
    struct client *client = CONTAINER_OF(timer, struct client, timer);
    io_timer_start(client->io, timer, MS / 2, client_on_timer);
    if (client->stream == NULL) {
        if (!client->is_connecting) {
            client->is_connecting = true;
            assert_ok(io_connect(client->io, "10.0.0.1", PORT, client_on_connected, client));
        }
    } else if (!client->is_sending && client->next < RECORD_COUNT_MAX) {
        client->sending = client->next++;
        client->range = (struct iovec){&client->sending, sizeof(client->sending)};
        client->send = (struct io_send){
            .ranges = &client->range, .range_count = 1, .fn = client_on_sent, .context = client};
        client->is_sending = true;
        io_stream_send(client->stream, &client->send);
    }
}

/* ---------------------------------------------------------------- the run */

struct result {
    uint64_t hash;
    uint32_t acked_count;
    uint32_t lost_count;
    struct sim_coverage coverage;
};

struct run {
    struct sim *sim;
    struct sim_node *server_node;
    struct sim_node *client_node;
    struct server *server;
    struct client *client;
    enum mistake mistake;
};

static const struct sim_options calm = {.disk_write_us_min = 50,
                                        .disk_write_us_max = 400,
                                        .net_delay_us_min = 20,
                                        .net_delay_us_max = 300};

static const struct sim_options rough = {.disk_write_us_min = 50,
                                         .disk_write_us_max = 400,
                                         .disk_stall_chance = 100,
                                         .disk_stall_us_max = 20000,
                                         .net_delay_us_min = 20,
                                         .net_delay_us_max = 300,
                                         .net_split_chance = 3000,
                                         .net_reset_chance = 30};

static void run_free_server(struct run *run)
{
    free(run->server->block);
    free(run->server);
}

static void run_restart(struct run *run, bool process_only)
{
    sim_node_crash(run->server_node, process_only);
    run_free_server(run);
    for (;;) {
        run->server = malloc(sizeof(*run->server));
        assert_non_null(run->server);
        struct io *io = sim_node_start(run->server_node);
        bool dooms_start = sim_random(run->sim) % 4 == 0;
        if (dooms_start) {
            sim_node_doom(run->server_node, (uint32_t)(sim_random(run->sim) % 8));
        }
        status started = server_start(run->server, io, run->mistake);
        if (status_is_ok(started)) {
            return;
        }
        assert_true(sim_node_is_doomed(run->server_node));
        sim_node_crash(run->server_node, false);
        run_free_server(run);
    }
}

static void run_disturb(struct run *run)
{
    struct sim *sim = run->sim;
    switch (sim_random(sim) % 40) {
    case 0:
        run_restart(run, false);
        break;
    case 1:
        run_restart(run, true);
        break;
    case 2:
        sim_node_pause(run->server_node, (int64_t)(sim_random(sim) % 10) * MS);
        break;
    case 3:
        sim_net_cut(sim, run->server_node, run->client_node, sim_random(sim) % 2 == 0);
        break;
    case 4:
        sim_net_cut(sim, run->client_node, run->server_node, sim_random(sim) % 2 == 0);
        break;
    case 5:
        sim_net_cut(sim, run->server_node, run->client_node, false);
        sim_net_cut(sim, run->client_node, run->server_node, false);
        break;
    case 6:
        sim_node_doom(run->server_node, (uint32_t)(sim_random(sim) % 10));
        break;
    default:
        break;
    }
    if (sim_node_is_doomed(run->server_node)) {
        run_restart(run, false);
    }
}

static struct result run_seed(uint64_t seed, enum mistake mistake)
{
    struct run run = {.sim = sim_create(seed, &rough), .mistake = mistake};
    assert_non_null(run.sim);
    run.server_node = sim_node_add(run.sim, "10.0.0.1");
    run.client_node = sim_node_add(run.sim, "10.0.0.2");
    run.server = malloc(sizeof(*run.server));
    run.client = calloc(1, sizeof(*run.client));
    assert_true(run.server != NULL && run.client != NULL);
    assert_ok(server_start(run.server, sim_node_io(run.server_node), mistake));
    run.client->io = sim_node_io(run.client_node);
    io_timer_start(run.client->io, &run.client->timer, 0, client_on_timer);
    for (uint32_t i = 0; i < 200; i++) {
        sim_run(run.sim, (int64_t)(sim_random(run.sim) % 3) * MS);
        run_disturb(&run);
    }
    /* What was acknowledged up to here is judged after one more power cut. */
    sim_set_options(run.sim, &calm);
    run_restart(&run, false);
    struct result result = {.hash = sim_hash(run.sim), .acked_count = run.client->acked_count};
    for (uint32_t i = 0; i < RECORD_COUNT_MAX; i++) {
        result.lost_count += run.client->acked[i] && !run.server->has[i] ? 1 : 0;
    }
    sim_coverage_get(run.sim, &result.coverage);
    sim_destroy(run.sim);
    run_free_server(&run);
    free(run.client);
    return result;
}

static void a_right_server_never_loses_what_it_acknowledged(void **state)
{
    struct sim_coverage sum = {0};
    uint64_t acked_count = 0;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct result result = run_seed(seed, NO_MISTAKE);
        if (result.lost_count > 0) {
            print_error("seed %u lost %u records\n", (unsigned)seed, result.lost_count);
        }
        assert_int_equal(result.lost_count, 0);
        acked_count += result.acked_count;
        sum.crashes += result.coverage.crashes;
        sum.torn_writes += result.coverage.torn_writes;
        sum.lost_writes += result.coverage.lost_writes;
        sum.resets += result.coverage.resets;
        sum.splits += result.coverage.splits;
        sum.stalls += result.coverage.stalls;
        sum.cuts += result.coverage.cuts;
        sum.pauses += result.coverage.pauses;
    }
    assert_true(acked_count > SEED_COUNT * (uint64_t)20);
    assert_true(sum.crashes > SEED_COUNT * (uint64_t)2);
    assert_true(sum.torn_writes > 0 && sum.lost_writes > 0);
    assert_true(sum.resets > 0 && sum.splits > 0 && sum.stalls > 0);
    assert_true(sum.cuts > 0 && sum.pauses > 0);
}

static void each_mistake_of_a_server_is_found(void **state)
{
    static const enum mistake mistakes[] = {ACK_WITHOUT_SYNC, ACK_BEFORE_WRITE, NO_DIRECTORY_SYNC};
    for (size_t i = 0; i < COUNT_OF(mistakes); i++) {
        uint32_t found = 0;
        for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
            found += run_seed(seed, mistakes[i]).lost_count > 0 ? 1 : 0;
        }
        assert_true(found > 0);
    }
}

static void a_run_with_crashes_repeats_exactly(void **state)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct result first = run_seed(seed, NO_MISTAKE);
        struct result second = run_seed(seed, NO_MISTAKE);
        assert_true(first.hash == second.hash);
        assert_memory_equal(&first.coverage, &second.coverage, sizeof(first.coverage));
        assert_true(first.hash != run_seed(seed + 1, NO_MISTAKE).hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_server_never_loses_what_it_acknowledged),
        cmocka_unit_test(each_mistake_of_a_server_is_found),
        cmocka_unit_test(a_run_with_crashes_repeats_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
