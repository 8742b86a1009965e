/*
 * A live broker on a simulated node, fed arbitrary bytes by one connection. Whatever they are, the
 * broker goes on: another connection is answered, memory is given back, and it stops cleanly.
 *
 *     0  u8  bit 0: the CRC of each batch in a Produce request is put right; bit 1: what is sent
 *            arrives in random pieces
 *     1      pieces: {u16 head, bytes}; head, little-endian: bits 0-13 size of the bytes, bit 14:
 *            as they are, without a frame's length before them; bit 15: time passes behind them
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seed.h"
#include "twinlog/broker/broker.h"
#include "twinlog/core/crc32c.h"
#include "twinlog/core/trace.h"
#include "twinlog/io/sim.h"
#include "twinlog/protocol/batch.h"
#include "twinlog/protocol/codec.h"
#include "twinlog/protocol/messages.h"

#define HOST            "10.0.0.1"
#define PORT            9092
#define NS_PER_MS       1000000LL
#define OUTPUT_SIZE_MAX (256u << 10)
#define ARENA_SIZE_MAX  ((size_t)64 << 20)
#define FRAME_SIZE_MAX  (64u << 10)

enum flag { FLAG_MEND = 1, FLAG_SPLIT = 2 };
enum head { HEAD_SIZE = 0x3fff, HEAD_RAW = 0x4000, HEAD_WAIT = 0x8000 };

struct client {
    struct io_stream *stream;
    struct io_send send;
    struct iovec range;
    bool sending;
    bool closed;
    uint8_t answer[1024]; /* the front of what arrived */
    uint32_t received;
};

struct world {
    struct sim *sim;
    struct sim_node *node;
    struct sim_node *client_node;
    struct broker_config config;
    struct broker *broker;
    bool stopped;
    status stop_result;
};

/* ---------------------------------------------------------------- clients */

static void client_on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct client *client = context;
    if (client->received < sizeof(client->answer)) {
        memcpy(client->answer + client->received, data,
               MIN(size, (uint32_t)sizeof(client->answer) - client->received));
    }
    client->received += size;
}

static void client_on_closed(void *context, status why)
{
    struct client *client = context;
    (void)why;
    client->closed = true;
    client->stream = NULL;
}

static void client_on_connected(void *context, status result, struct io_stream *stream)
{
    static const struct io_stream_events events = {client_on_data, client_on_closed};
    struct client *client = context;
    fuzz_require(status_is_ok(result), "the broker accepts");
    client->stream = stream;
    io_stream_open(stream, &events, client);
}

static void client_connect(struct world *world, struct client *client)
{
    *client = (struct client){0};
    status result =
        io_connect(sim_node_io(world->client_node), HOST, PORT, client_on_connected, client);
    fuzz_require(status_is_ok(result), "a connect starts");
    for (int i = 0; i < 1000 && client->stream == NULL; i++) {
        sim_run(world->sim, NS_PER_MS);
    }
    fuzz_require(client->stream != NULL, "a connect ends");
}

static void client_on_sent(struct io_send *send)
{
    ((struct client *)send->context)->sending = false;
}

/* Sends, and lets the world run until it is sent; a broker that reads no more ends the wait. */
static void client_send(struct world *world, struct client *client, uint8_t *data, uint32_t size)
{
    if (client->stream == NULL || client->sending || size == 0) {
        return;
    }
    client->range = (struct iovec){data, size};
    client->send = (struct io_send){
        .ranges = &client->range, .range_count = 1, .fn = client_on_sent, .context = client};
    client->sending = true;
    io_stream_send(client->stream, &client->send);
    for (int i = 0; i < 20 && client->sending; i++) {
        sim_run(world->sim, NS_PER_MS);
    }
}

static void client_close(struct world *world, struct client *client)
{
    if (client->stream != NULL) {
        io_stream_close(client->stream);
    }
    for (int i = 0; i < 1000 && !client->closed; i++) {
        sim_run(world->sim, NS_PER_MS);
    }
    fuzz_require(client->closed, "a connection closes");
}

/* ---------------------------------------------------------------- frames */

/* Writes length, header and body; returns the size. */
static uint32_t frame_write(uint8_t *frame, int16_t key, int16_t version, const void *message)
{
    const struct api *api = api_find(key);
    bool flexible = version >= api->flexible_from;
    uint32_t at = 14;
    store_be16(frame + 4, (uint16_t)key);
    store_be16(frame + 6, (uint16_t)version);
    store_be32(frame + 8, 1);
    store_be16(frame + 12, 0);
    if (flexible) {
        frame[at++] = 0;
    }
    struct message_writer writer = {.buffer = frame + at, .capacity = FRAME_SIZE_MAX - at};
    status result = message_encode(api->request, version, message, &writer);
    fuzz_require(status_is_ok(result), "a request can be encoded");
    store_be32(frame, at + writer.size - 4);
    return at + writer.size;
}

static uint32_t frame_metadata(uint8_t *frame)
{
    struct metadata_request_topic topic = metadata_request_topic_default;
    struct metadata_request request = metadata_request_default;
    topic.name = bytes_of("t");
    request.topics = &topic;
    request.topics_count = 1;
    request.allow_auto_topic_creation = true;
    return frame_write(frame, API_METADATA, 4, &request);
}

static uint32_t frame_produce(uint8_t *frame, int16_t version, int16_t acks)
{
    uint8_t buffer[256];
    struct batch_builder builder;
    batch_builder_init(&builder, buffer, sizeof(buffer));
    status result = batch_builder_add(&builder, 1000, bytes_of("k"), bytes_of("value"));
    fuzz_require(status_is_ok(result), "a batch fits");
    struct produce_request_partition_produce_data partition =
        produce_request_partition_produce_data_default;
    struct produce_request_topic_produce_data topic = produce_request_topic_produce_data_default;
    struct produce_request request = produce_request_default;
    partition.records = batch_builder_finish(&builder, -1, -1, -1, 0);
    topic.name = bytes_of("t");
    topic.partition_data = &partition;
    topic.partition_data_count = 1;
    request.acks = acks;
    request.timeout_ms = 1000;
    request.topic_data = &topic;
    request.topic_data_count = 1;
    return frame_write(frame, API_PRODUCE, version, &request);
}

static uint32_t frame_fetch(uint8_t *frame, int16_t version, int32_t max_wait_ms)
{
    struct fetch_request_fetch_partition partition = fetch_request_fetch_partition_default;
    struct fetch_request_fetch_topic topic = fetch_request_fetch_topic_default;
    struct fetch_request request = fetch_request_default;
    partition.partition_max_bytes = 1 << 20;
    topic.topic = bytes_of("t");
    topic.partitions = &partition;
    topic.partitions_count = 1;
    request.max_wait_ms = max_wait_ms;
    request.min_bytes = 1;
    request.topics = &topic;
    request.topics_count = 1;
    return frame_write(frame, API_FETCH, version, &request);
}

/* The CRC of batches a fuzzer makes is never right by itself. `frame` is behind its length. */
static void frame_mend(uint8_t *frame, uint32_t size)
{
    struct request_header header;
    struct produce_request request;
    struct arena arena;
    if (!status_is_ok(request_header_decode((struct bytes){frame, size}, &header)) ||
        header.api_key != API_PRODUCE) {
        return;
    }
    arena_init(&arena, ARENA_SIZE_MAX);
    struct bytes body = {frame + header.size, size - header.size};
    if (status_is_ok(
            message_decode(&produce_request_type, header.api_version, body, &arena, &request))) {
        for (int32_t i = 0; i < request.topic_data_count; i++) {
            for (int32_t j = 0; j < request.topic_data[i].partition_data_count; j++) {
                struct bytes records = request.topic_data[i].partition_data[j].records;
                uint8_t *batch = (uint8_t *)(uintptr_t)records.data;
                if (records.size >= BATCH_HEADER_SIZE) {
                    store_be32(batch + 17, crc32c(0, batch + 21, records.size - 21));
                }
            }
        }
    }
    arena_fini(&arena);
}

/* ---------------------------------------------------------------- the broker */

static struct world *world_create(bool split)
{
    struct sim_options options = {
        .disk_write_us_min = 50,
        .disk_write_us_max = 100,
        .offload_us_max = 100,
        .net_delay_us_min = 10,
        .net_delay_us_max = 50,
        .net_split_chance = split ? 5000 : 0,
    };
    struct world *world = calloc(1, sizeof(*world));
    fuzz_require(world != NULL, "memory");
    world->sim = sim_create(1, &options);
    fuzz_require(world->sim != NULL, "memory");
    world->node = sim_node_add(world->sim, HOST);
    world->client_node = sim_node_add(world->sim, "10.0.0.2");
    return world;
}

static void world_configure(struct world *world)
{
    struct config_report report = {0};
    struct broker_config *config = &world->config;
    broker_config_init(config);
    status result = broker_config_override(config, "listeners=PLAINTEXT://" HOST ":9092", &report);
    fuzz_require(status_is_ok(result), report.error);
    result = broker_config_override(config, "log.dirs=/data", &report);
    fuzz_require(status_is_ok(result), report.error);
    result = broker_config_finish(config, &report);
    fuzz_require(status_is_ok(result), report.error);
    config->request_size_max = 64 << 10;
    config->queued_request_size_max = 256 << 10;
    config->fetch_memory_size = 256 << 10;
    config->journal_size = 512 << 10;
    config->journal_frame_size_max = 32 << 10;
    config->chunk_size = 64 << 10;
    config->chunk_memory_size = 16 * config->chunk_size;
    config->disk_reserve_size = 1;
}

static void world_start(struct world *world)
{
    struct log_format_options format = {
        .dir = world->config.log_dir,
        .cluster_id = uuid_from_random(7, 7),
        .node_id = (int32_t)world->config.node_id,
        .shard_count = 1,
        .journal_size = (uint64_t)world->config.journal_size,
        .journal_file_count = 4,
    };
    const uint64_t random[2] = {1, 2};
    status result = log_format(sim_node_disk(world->node), &format, random);
    fuzz_require(status_is_ok(result), "the directory can be formatted");
    result = broker_create(sim_node_io(world->node), &world->config, &world->broker);
    fuzz_require(status_is_ok(result), "the broker starts");
}

static void world_on_stopped(void *context, status result)
{
    struct world *world = context;
    world->stopped = true;
    world->stop_result = result;
}

static void world_stop(struct world *world)
{
    broker_stop(world->broker, world_on_stopped, world);
    for (int i = 0; i < 20000 && !world->stopped; i++) {
        sim_run(world->sim, NS_PER_MS);
    }
    fuzz_require(world->stopped && status_is_ok(world->stop_result), "the broker stops cleanly");
    broker_destroy(world->broker);
    sim_destroy(world->sim);
    free(world);
}

/* One round trip on a connection of its own. */
static void world_control(struct world *world, uint8_t *frame, uint32_t size)
{
    struct client client;
    client_connect(world, &client);
    client_send(world, &client, frame, size);
    for (int i = 0; i < 2000 && client.received < 8 && !client.closed; i++) {
        sim_run(world->sim, NS_PER_MS);
    }
    fuzz_require(client.received >= 8 && load_be32(client.answer + 4) == 1,
                 "another connection is answered");
    client_close(world, &client);
}

/* ---------------------------------------------------------------- a run */

static void feed(struct world *world, struct client *client, struct bytes input, bool mend)
{
    while (input.size >= 2 && client->stream != NULL) {
        uint32_t head = load_le16(input.data);
        uint32_t size = MIN(head & HEAD_SIZE, input.size - 2);
        /* Freed when it is sent or the stream is gone: until then the send refers to it. */
        static uint8_t piece[HEAD_SIZE + 4];
        if (client->sending) {
            return;
        }
        memcpy(piece + 4, input.data + 2, size);
        store_be32(piece, size);
        if (mend && (head & HEAD_RAW) == 0) {
            frame_mend(piece + 4, size);
        }
        bool raw = (head & HEAD_RAW) != 0;
        client_send(world, client, raw ? piece + 4 : piece, raw ? size : size + 4);
        if ((head & HEAD_WAIT) != 0) {
            sim_run(world->sim, 20 * NS_PER_MS);
            broker_check(world->broker);
        }
        input.data += 2 + size;
        input.size -= 2 + size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *frame = malloc(FRAME_SIZE_MAX);
    struct client client;
    if (size < 1 || frame == NULL) {
        free(frame);
        return 0;
    }
    struct world *world = world_create((data[0] & FLAG_SPLIT) != 0);
    world_configure(world);
    world_start(world);
    world_control(world, frame, frame_metadata(frame));
    client_connect(world, &client);
    feed(world, &client, (struct bytes){data + 1, (uint32_t)size - 1}, (data[0] & FLAG_MEND) != 0);
    sim_run(world->sim, 50 * NS_PER_MS);
    broker_check(world->broker);
    world_control(world, frame, frame_produce(frame, 9, -1));
    client_close(world, &client);
    sim_run(world->sim, 1000 * NS_PER_MS);
    broker_check(world->broker);
    world_stop(world);
    free(frame);
    return 0;
}

/* ---------------------------------------------------------------- seeds */

static void seed_frames(const char *name, uint8_t *frames, uint32_t count, const uint32_t *sizes)
{
    uint8_t seed[4096];
    uint32_t at = 1;
    seed[0] = FLAG_MEND;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = sizes[i] - 4;
        store_le16(seed + at, (uint16_t)size);
        memcpy(seed + at + 2, frames + (size_t)i * FRAME_SIZE_MAX + 4, size);
        at += 2 + size;
    }
    seed_add(name, seed, at);
}

/* A request of zeros, as many as the version takes. */
static void seed_zeros(int16_t key, int16_t version)
{
    static uint8_t frame[FRAME_SIZE_MAX];
    const struct api *api = api_find(key);
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    void *message = arena_array(&arena, 1, message_type_size(api->request));
    fuzz_require(message != NULL, "memory");
    for (uint32_t size = 0; size < 64; size++) {
        static const uint8_t zeros[64];
        struct bytes body = {zeros, size};
        if (status_is_ok(message_decode(api->request, version, body, &arena, message))) {
            char name[32];
            uint32_t frame_size = frame_write(frame, key, version, message);
            snprintf(name, sizeof(name), "%d-%d", key, version);
            seed_frames(name, frame, 1, &frame_size);
            break;
        }
    }
    arena_fini(&arena);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    seed_init(*argc, *argv);
    trace_set_level((enum trace_level)(TRACE_ERROR + 1));
    uint8_t *frames = calloc(3, FRAME_SIZE_MAX);
    fuzz_require(frames != NULL, "memory");
    for (int16_t version = 3; version <= 12; version++) {
        char name[32];
        uint32_t sizes[3] = {
            frame_produce(frames, version, version % 2 == 0 ? 1 : -1),
            frame_fetch(frames + FRAME_SIZE_MAX, (int16_t)(version + 1), version % 3 == 0 ? 0 : 50),
            frame_metadata(frames + 2 * (size_t)FRAME_SIZE_MAX),
        };
        if (version + 1 > 12) {
            sizes[1] = frame_fetch(frames + FRAME_SIZE_MAX, 12, 10);
        }
        snprintf(name, sizeof(name), "flow-%d", version);
        seed_frames(name, frames, 3, sizes);
        /* Nothing is there yet: these wait, and are left waiting. */
        sizes[0] = frame_fetch(frames, (int16_t)(version + 1 > 12 ? 12 : version + 1), 5000);
        snprintf(name, sizeof(name), "wait-%d", version);
        seed_frames(name, frames, 1, sizes);
    }
    free(frames);
    size_t count;
    const struct api *apis = api_all(&count);
    for (size_t i = 0; i < count; i++) {
        for (int16_t version = apis[i].version_min; version <= apis[i].version_max; version++) {
            seed_zeros(apis[i].key, version);
        }
    }
    return 0;
}
