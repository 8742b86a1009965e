/*
 * A broker in the simulated world and a client that speaks the schema to it: requests and responses
 * are the generated structs.
 */
#ifndef TWINLOG_TESTS_BROKER_WORLD_H
#define TWINLOG_TESTS_BROKER_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard.h"
#include "twinlog/broker/broker.h"
#include "twinlog/core/trace.h"
#include "twinlog/io/sim.h"

enum { MS = 1000000, ANSWER_SIZE_MAX = 8 << 20, LINK_COUNT_MAX = 4 };

/* One connection of the client's node. */
struct link {
    struct world *world;
    struct io_stream *stream;
    struct io_send send;
    struct iovec range;
    uint8_t *sending;
    bool sent;
    bool closed;
    uint8_t *received;
    uint32_t received_size;
    int32_t correlation_id;
};

struct world {
    struct sim *sim;
    struct sim_node *node;
    struct sim_node *peer;
    struct broker *broker;
    struct broker_config config;
    struct arena arena; /* of decoded answers */
    struct link links[LINK_COUNT_MAX];
    bool stopped;
    status stop_result;
};

static inline void world_run(struct world *world, int64_t ms)
{
    sim_run(world->sim, ms * MS);
}

static inline void world_configure(struct world *world, const char *text)
{
    struct config_report report = {0};
    broker_config_init(&world->config);
    assert_int_equal(broker_config_parse(&world->config,
                                         bytes_of("listeners=PLAINTEXT://10.0.0.1:9092\n"
                                                  "log.dirs=/data\n"),
                                         &report)
                         .code,
                     STATUS_OK);
    assert_int_equal(broker_config_parse(&world->config, bytes_of(text), &report).code, STATUS_OK);
    assert_int_equal(broker_config_finish(&world->config, &report).code, STATUS_OK);
}

static inline void world_start_broker(struct world *world)
{
    struct io *io = sim_node_io(world->node);
    assert_int_equal(broker_create(io, &world->config, &world->broker).code, STATUS_OK);
    sim_node_kick(world->node);
}

/* A world with a formatted directory and a broker with the settings of `text`. */
static inline struct world *world_create(uint64_t seed, const char *text)
{
    static const struct sim_options options = {.disk_write_us_min = 50,
                                               .disk_write_us_max = 400,
                                               .net_delay_us_min = 20,
                                               .net_delay_us_max = 300,
                                               .net_split_chance = 500,
                                               .offload_us_max = 500};
    struct world *world = calloc(1, sizeof(*world));
    trace_set_level(TRACE_ERROR);
    world->sim = sim_create(seed, &options);
    world->node = sim_node_add(world->sim, "10.0.0.1");
    world->peer = sim_node_add(world->sim, "10.0.0.2");
    arena_init(&world->arena, 64 << 20);
    world_configure(world, text);
    struct log_format_options format = {
        .dir = "/data",
        .cluster_id = uuid_from_random(1, 2),
        .node_id = 1,
        .shard_count = 1,
        .journal_size = 4 << 20,
    };
    const uint64_t random[2] = {seed, seed + 1};
    assert_int_equal(log_format(io_disk(sim_node_io(world->node)), &format, random).code,
                     STATUS_OK);
    world_start_broker(world);
    return world;
}

static inline void world_on_stopped(void *context, status result)
{
    struct world *world = context;
    world->stopped = true;
    world->stop_result = result;
}

static inline void world_stop_broker(struct world *world)
{
    world->stopped = false;
    broker_check(world->broker);
    broker_stop(world->broker, world_on_stopped, world);
    sim_node_kick(world->node);
    for (int i = 0; i < 200 && !world->stopped; i++) {
        world_run(world, 100);
    }
    assert_true(world->stopped);
    assert_int_equal(world->stop_result.code, STATUS_OK);
    broker_destroy(world->broker);
    world->broker = NULL;
}

static inline void world_destroy(struct world *world)
{
    if (world->broker != NULL) {
        world_stop_broker(world);
    }
    for (int i = 0; i < LINK_COUNT_MAX; i++) {
        free(world->links[i].received);
        free(world->links[i].sending);
    }
    sim_destroy(world->sim);
    arena_fini(&world->arena);
    free(world);
}

/* ---------------------------------------------------------------- the client */

static inline void link_on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct link *link = context;
    assert_true(link->received_size + size <= ANSWER_SIZE_MAX);
    memcpy(link->received + link->received_size, data, size);
    link->received_size += size;
}

static inline void link_on_closed(void *context, status why)
{
    struct link *link = context;
    link->closed = true;
    link->stream = NULL;
}

static inline void link_on_connected(void *context, status result, struct io_stream *stream)
{
    static const struct io_stream_events events = {link_on_data, link_on_closed};
    struct link *link = context;
    assert_int_equal(result.code, STATUS_OK);
    link->stream = stream;
    io_stream_open(stream, &events, link);
}

static inline struct link *link_open(struct world *world, int index)
{
    struct link *link = &world->links[index];
    free(link->received);
    free(link->sending);
    *link = (struct link){.world = world, .received = malloc(ANSWER_SIZE_MAX)};
    assert_int_equal(
        io_connect(sim_node_io(world->peer), "10.0.0.1", 9092, link_on_connected, link).code,
        STATUS_OK);
    sim_node_kick(world->peer);
    world_run(world, 20);
    assert_non_null(link->stream);
    return link;
}

static inline void link_on_sent(struct io_send *send)
{
    struct link *link = send->context;
    link->sent = true;
}

/* Sends bytes as they are and waits until they are on their way. */
static inline void link_send_bytes(struct link *link, uint8_t *taken, uint32_t size)
{
    free(link->sending);
    link->sending = taken;
    link->range = (struct iovec){taken, size};
    link->sent = false;
    link->send = (struct io_send){
        .ranges = &link->range, .range_count = 1, .fn = link_on_sent, .context = link};
    io_stream_send(link->stream, &link->send);
    sim_node_kick(link->world->peer);
    for (int i = 0; i < 1000 && !link->sent; i++) {
        world_run(link->world, 1);
    }
}

static inline void link_send(struct link *link, int16_t key, int16_t version, const void *message)
{
    const struct api *api = api_find(key);
    bool flexible = version >= api->flexible_from;
    uint32_t size;
    assert_int_equal(message_size(api->request, version, message, &size).code, STATUS_OK);
    uint32_t start = 4 + 10 + (flexible ? 1 : 0);
    uint8_t *frame = calloc(1, start + size);
    store_be32(frame, start + size - 4);
    store_be16(frame + 4, (uint16_t)key);
    store_be16(frame + 6, (uint16_t)version);
    store_be32(frame + 8, (uint32_t)++link->correlation_id);
    store_be16(frame + 12, 0xffff); /* null client id */
    struct message_writer writer = {.buffer = frame + start, .capacity = size};
    assert_int_equal(message_encode(api->request, version, message, &writer).code, STATUS_OK);
    link_send_bytes(link, frame, start + size);
}

/* True when a whole answer is there. */
static inline bool link_has_answer(const struct link *link)
{
    return link->received_size >= 4 && link->received_size >= 4 + load_be32(link->received);
}

/* Takes the first answer, which is for the last request less `behind`, into `message`. */
static inline void link_take(struct link *link, int16_t key, int16_t version, int behind,
                             void *message)
{
    const struct api *api = api_find(key);
    assert_true(link_has_answer(link));
    uint32_t size = load_be32(link->received);
    uint32_t start = 8 + (uint32_t)api_response_header_version(api, version);
    assert_int_equal(load_be32(link->received + 4), link->correlation_id - behind);
    uint8_t *body = arena_alloc(&link->world->arena, size + 4);
    memcpy(body, link->received, size + 4);
    memmove(link->received, link->received + size + 4, link->received_size - size - 4);
    link->received_size -= size + 4;
    struct bytes input = {body + start, size + 4 - start};
    status result = message_decode(api->response, version, input, &link->world->arena, message);
    if (result.code != STATUS_OK) {
        fail_msg("%s version %d: the answer cannot be decoded", api->name, version);
    }
}

/* Sends and waits for the answer. */
static inline void link_call(struct link *link, int16_t key, int16_t version, const void *request,
                             void *response)
{
    link_send(link, key, version, request);
    for (int i = 0; i < 5000 && !link_has_answer(link) && !link->closed; i++) {
        world_run(link->world, 1);
    }
    if (!link_has_answer(link)) {
        fail_msg("%s version %d is not answered", api_find(key)->name, version);
    }
    link_take(link, key, version, 0, response);
}

/* ---------------------------------------------------------------- common requests */

static inline int16_t create_topic(struct link *link, const char *name, int32_t partitions)
{
    struct create_topics_request_creatable_topic topic =
        create_topics_request_creatable_topic_default;
    topic.name = bytes_of(name);
    topic.num_partitions = partitions;
    topic.replication_factor = -1;
    struct create_topics_request request = create_topics_request_default;
    request.topics = &topic;
    request.topics_count = 1;
    struct create_topics_response response;
    link_call(link, API_CREATE_TOPICS, 7, &request, &response);
    assert_int_equal(response.topics_count, 1);
    return response.topics[0].error_code;
}

/* A batch of `count` records with a value of `size` bytes, in memory of the world's arena. */
static inline struct bytes batch_of(struct world *world, int count, uint32_t size,
                                    int64_t producer_id, int32_t sequence)
{
    uint32_t capacity = BATCH_HEADER_SIZE + (uint32_t)count * (size + 40);
    struct batch_builder builder;
    batch_builder_init(&builder, arena_alloc(&world->arena, capacity), capacity);
    uint8_t *value = arena_array(&world->arena, size, 1);
    for (int i = 0; i < count; i++) {
        int64_t now = io_wall_ms(sim_node_io(world->node));
        assert_int_equal(
            batch_builder_add(&builder, now, BYTES_NULL, (struct bytes){value, size}).code,
            STATUS_OK);
    }
    return batch_builder_finish(&builder, producer_id, producer_id < 0 ? -1 : 0, sequence, 0);
}

/* One batch to one partition; the message refers to `parts`, the caller's. */
struct produce_parts {
    struct produce_request request;
    struct produce_request_topic_produce_data topic;
    struct produce_request_partition_produce_data partition;
};

static inline const struct produce_request *produce_of(struct produce_parts *parts,
                                                       const char *topic, int32_t partition,
                                                       int16_t acks, struct bytes records)
{
    *parts = (struct produce_parts){.request = produce_request_default};
    parts->partition.index = partition;
    parts->partition.records = records;
    parts->topic = produce_request_topic_produce_data_default;
    parts->topic.name = bytes_of(topic);
    parts->topic.partition_data = &parts->partition;
    parts->topic.partition_data_count = 1;
    parts->request.acks = acks;
    parts->request.timeout_ms = 1000;
    parts->request.topic_data = &parts->topic;
    parts->request.topic_data_count = 1;
    return &parts->request;
}

static inline struct produce_response_partition_produce_response
produce(struct link *link, const char *topic, int32_t partition, int16_t acks, struct bytes records)
{
    struct produce_parts parts;
    struct produce_response response;
    link_call(link, API_PRODUCE, 9, produce_of(&parts, topic, partition, acks, records), &response);
    assert_int_equal(response.responses_count, 1);
    assert_int_equal(response.responses[0].partition_responses_count, 1);
    return response.responses[0].partition_responses[0];
}

struct fetch_parts {
    struct fetch_request request;
    struct fetch_request_fetch_topic topic;
    struct fetch_request_fetch_partition partition;
};

static inline const struct fetch_request *fetch_of(struct fetch_parts *parts, const char *topic,
                                                   int32_t partition, int64_t offset,
                                                   int32_t wait_ms, int32_t size_max)
{
    *parts = (struct fetch_parts){.request = fetch_request_default};
    parts->partition = fetch_request_fetch_partition_default;
    parts->partition.partition = partition;
    parts->partition.fetch_offset = offset;
    parts->partition.partition_max_bytes = size_max;
    parts->topic = fetch_request_fetch_topic_default;
    parts->topic.topic = bytes_of(topic);
    parts->topic.partitions = &parts->partition;
    parts->topic.partitions_count = 1;
    parts->request.max_wait_ms = wait_ms;
    parts->request.min_bytes = 1;
    parts->request.topics = &parts->topic;
    parts->request.topics_count = 1;
    parts->request.rack_id = bytes_of("");
    return &parts->request;
}

static inline struct fetch_response_partition_data fetch(struct link *link, const char *topic,
                                                         int32_t partition, int64_t offset,
                                                         int32_t wait_ms, int32_t size_max)
{
    struct fetch_parts parts;
    struct fetch_response response;
    link_call(link, API_FETCH, 11, fetch_of(&parts, topic, partition, offset, wait_ms, size_max),
              &response);
    assert_int_equal(response.error_code, KAFKA_NONE);
    assert_int_equal(response.responses_count, 1);
    return response.responses[0].partitions[0];
}

#endif
