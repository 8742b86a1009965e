/* What tests of Produce share: topics with settings, batches in any codec, a slow machine. */
#ifndef TWINLOG_TESTS_PRODUCE_WORLD_H
#define TWINLOG_TESTS_PRODUCE_WORLD_H

#include "broker_world.h"

#define ANSWER_TURNS_MAX 20000

struct setting {
    const char *key;
    const char *value;
};

/* A topic of one partition with up to three settings; the list ends with a NULL key. */
static inline void create_with(struct link *link, const char *name, const struct setting *settings)
{
    struct create_topics_request_creatable_topic_config configs[4];
    struct create_topics_request_creatable_topic topic =
        create_topics_request_creatable_topic_default;
    topic.name = bytes_of(name);
    topic.num_partitions = 1;
    topic.replication_factor = -1;
    topic.configs = configs;
    for (const struct setting *s = settings; s->key != NULL; s++) {
        configs[topic.configs_count++] = (struct create_topics_request_creatable_topic_config){
            .name = bytes_of(s->key), .value = bytes_of(s->value)};
    }
    struct create_topics_request request = create_topics_request_default;
    request.topics = &topic;
    request.topics_count = 1;
    struct create_topics_response response;
    link_call(link, API_CREATE_TOPICS, 7, &request, &response);
    assert_int_equal(response.topics[0].error_code, KAFKA_NONE);
}

static inline void set_topic(struct link *link, const char *name, const char *key,
                             const char *value)
{
    struct incremental_alter_configs_request_alterable_config config = {
        .name = bytes_of(key), .config_operation = 0, .value = bytes_of(value)};
    struct incremental_alter_configs_request_alter_configs_resource resource = {
        .resource_type = 2,
        .resource_name = bytes_of(name),
        .configs = &config,
        .configs_count = 1,
    };
    struct incremental_alter_configs_request request = {.resources = &resource,
                                                        .resources_count = 1};
    struct incremental_alter_configs_response response;
    link_call(link, API_INCREMENTAL_ALTER_CONFIGS, 1, &request, &response);
    assert_int_equal(response.responses[0].error_code, KAFKA_NONE);
}

/* The batch in another codec, in memory of the world's arena. */
static inline struct bytes in_codec(struct world *world, struct bytes plain, enum codec codec)
{
    struct batch_header header;
    uint8_t *made;
    assert_true(status_is_ok(batch_header_read(plain, &header)));
    struct bytes inside = {plain.data + BATCH_HEADER_SIZE, plain.size - BATCH_HEADER_SIZE};
    assert_true(status_is_ok(batch_rewrite(plain.data, &header, inside, codec, INT32_MIN, &made)));
    uint8_t *copy = arena_alloc(&world->arena, header.size);
    memcpy(copy, made, header.size);
    free(made);
    return (struct bytes){copy, header.size};
}

/* A batch whose value does not compress. */
static inline struct bytes noise_batch(struct world *world, uint32_t size, int64_t producer_id,
                                       int32_t sequence)
{
    uint32_t noise = (uint32_t)sequence + 1;
    uint8_t *value = arena_alloc(&world->arena, size);
    for (uint32_t i = 0; i < size; i++) {
        noise = noise * 1664525 + 1013904223;
        value[i] = (uint8_t)(noise >> 24);
    }
    struct batch_builder builder;
    uint32_t capacity = BATCH_HEADER_SIZE + size + 40;
    batch_builder_init(&builder, arena_alloc(&world->arena, capacity), capacity);
    assert_true(status_is_ok(batch_builder_add(&builder, io_wall_ms(sim_node_io(world->node)),
                                               BYTES_NULL, (struct bytes){value, size})));
    return batch_builder_finish(&builder, producer_id, producer_id < 0 ? -1 : 0, sequence, 0);
}

static inline void set_slow(struct world *world, uint32_t disk_us, uint32_t offload_us)
{
    const struct sim_options slow = {.disk_write_us_min = disk_us,
                                     .disk_write_us_max = 3 * disk_us,
                                     .net_delay_us_min = 20,
                                     .net_delay_us_max = 300,
                                     .offload_us_max = offload_us};
    sim_set_options(world->sim, &slow);
}

static inline void await_answer(struct link *link)
{
    for (int i = 0; i < ANSWER_TURNS_MAX && !link_has_answer(link); i++) {
        world_run(link->world, 1);
    }
}

#endif
