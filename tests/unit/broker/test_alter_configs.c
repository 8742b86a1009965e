/* Settings changed at run time: what they do at once, after a restart, and what is refused. */
#include "broker_world.h"

enum { SET = 0, DELETE = 1, APPEND = 2, SUBTRACT = 3, TOPIC = 2, BROKER = 4, LOGGER = 8 };

struct change {
    int8_t type;
    const char *resource;
    const char *name;
    int8_t operation;
    const char *value; /* NULL: null */
};

/* The error of one IncrementalAlterConfigs with one setting. */
static int16_t change_one(struct link *link, const struct change *change, bool validate_only)
{
    struct incremental_alter_configs_request_alterable_config config = {
        .name = bytes_of(change->name),
        .config_operation = change->operation,
        .value = change->value == NULL ? BYTES_NULL : bytes_of(change->value),
    };
    struct incremental_alter_configs_request_alter_configs_resource resource = {
        .resource_type = change->type,
        .resource_name = bytes_of(change->resource),
        .configs = &config,
        .configs_count = 1,
    };
    struct incremental_alter_configs_request request = {
        .resources = &resource, .resources_count = 1, .validate_only = validate_only};
    struct incremental_alter_configs_response response;
    link_call(link, API_INCREMENTAL_ALTER_CONFIGS, 1, &request, &response);
    assert_int_equal(response.responses_count, 1);
    assert_int_equal(response.responses[0].resource_type, change->type);
    assert_true(bytes_equal(response.responses[0].resource_name, bytes_of(change->resource)));
    return response.responses[0].error_code;
}

static struct describe_configs_response_describe_configs_resource_result
describe(struct link *link, int8_t type, const char *resource_name, const char *key)
{
    struct bytes name = bytes_of(key);
    struct describe_configs_request_describe_configs_resource resource = {
        .resource_type = type,
        .resource_name = bytes_of(resource_name),
        .configuration_keys = &name,
        .configuration_keys_count = 1,
    };
    struct describe_configs_request request = {.resources = &resource,
                                               .resources_count = 1,
                                               .include_synonyms = true,
                                               .include_documentation = true};
    struct describe_configs_response response;
    link_call(link, API_DESCRIBE_CONFIGS, 4, &request, &response);
    assert_int_equal(response.results_count, 1);
    assert_int_equal(response.results[0].error_code, KAFKA_NONE);
    assert_int_equal(response.results[0].configs_count, 1);
    return response.results[0].configs[0];
}

static void assert_value(struct link *link, int8_t type, const char *resource, const char *key,
                         const char *value, int8_t source, int32_t synonyms)
{
    struct describe_configs_response_describe_configs_resource_result found =
        describe(link, type, resource, key);
    if (!bytes_equal(found.value, bytes_of(value))) {
        fail_msg("%s is '%.*s' instead of '%s'", key, (int)found.value.size, found.value.data,
                 value);
    }
    assert_int_equal(found.config_source, source);
    assert_int_equal(found.synonyms_count, synonyms);
    assert_true(found.documentation.size > 0);
}

static void a_topics_setting_acts_at_once_and_after_a_restart(void **state)
{
    struct world *world = world_create(20, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    struct bytes batch = batch_of(world, 1, 1000, -1, -1);
    assert_int_equal(produce(link, "t", 0, -1, batch).error_code, KAFKA_NONE);
    const struct change smaller = {TOPIC, "t", "max.message.bytes", SET, " 500 "};
    assert_int_equal(change_one(link, &smaller, true), KAFKA_NONE);
    assert_value(link, TOPIC, "t", "max.message.bytes", "1048588", 5, 1);
    assert_int_equal(change_one(link, &smaller, false), KAFKA_NONE);
    assert_int_equal(produce(link, "t", 0, -1, batch).error_code, KAFKA_MESSAGE_TOO_LARGE);
    for (int life = 0; life < 2; life++) {
        world_stop_broker(world);
        world_start_broker(world);
        link = link_open(world, 0);
        assert_int_equal(produce(link, "t", 0, -1, batch).error_code, KAFKA_MESSAGE_TOO_LARGE);
        assert_value(link, TOPIC, "t", "max.message.bytes", "500", 1, 2);
    }
    const struct change back = {TOPIC, "t", "max.message.bytes", DELETE, NULL};
    assert_int_equal(change_one(link, &back, false), KAFKA_NONE);
    assert_int_equal(produce(link, "t", 0, -1, batch).error_code, KAFKA_NONE);
    world_destroy(world);
}

static void lists_grow_and_shrink(void **state)
{
    static const struct {
        int8_t operation;
        const char *value;
        const char *result;
    } steps[] = {
        {APPEND, "compact", "delete,compact"}, {APPEND, "compact, delete", "delete,compact"},
        {SUBTRACT, "delete,other", "compact"}, {SUBTRACT, "compact", ""},
        {APPEND, "delete", "delete"},          {SET, "compact ,compact", "compact"},
    };
    struct world *world = world_create(21, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        const struct change change = {TOPIC, "t", "cleanup.policy", steps[i].operation,
                                      steps[i].value};
        assert_int_equal(change_one(link, &change, false), KAFKA_NONE);
        assert_value(link, TOPIC, "t", "cleanup.policy", steps[i].result, 1, 2);
    }
    /* Compacted now: records need a key. */
    struct bytes batch = batch_of(world, 1, 10, -1, -1);
    assert_int_equal(produce(link, "t", 0, -1, batch).error_code, KAFKA_INVALID_RECORD);
    world_destroy(world);
}

static void what_kafka_refuses_is_refused(void **state)
{
    static const struct {
        struct change change;
        int16_t error;
    } cases[] = {
        {{TOPIC, "t", "retention.ms", SET, "x"}, KAFKA_INVALID_CONFIG},
        {{TOPIC, "t", "retention.ms", SET, NULL}, KAFKA_INVALID_REQUEST},
        {{TOPIC, "t", "retention.ms", APPEND, "1"}, KAFKA_INVALID_CONFIG},
        {{TOPIC, "t", "retention.ms", 9, "1"}, KAFKA_UNKNOWN_SERVER_ERROR},
        {{TOPIC, "t", "no.such", SET, "1"}, KAFKA_INVALID_CONFIG},
        {{TOPIC, "t", "no.such", DELETE, NULL}, KAFKA_NONE},
        {{TOPIC, "t", "cleanup.policy", APPEND, "shred"}, KAFKA_INVALID_CONFIG},
        {{TOPIC, "t", "leader.replication.throttled.replicas", SET, "0:1,2:1"}, KAFKA_NONE},
        {{TOPIC, "t", "leader.replication.throttled.replicas", SET, "*"}, KAFKA_NONE},
        {{TOPIC, "t", "leader.replication.throttled.replicas", SET, "0:1,"}, KAFKA_NONE},
        {{TOPIC, "t", "leader.replication.throttled.replicas", SET, "0,1"}, KAFKA_INVALID_CONFIG},
        {{TOPIC, "none", "retention.ms", SET, "1"}, KAFKA_UNKNOWN_TOPIC_OR_PARTITION},
        {{TOPIC, "", "retention.ms", SET, "1"}, KAFKA_INVALID_REQUEST},
        {{TOPIC, "a/b", "retention.ms", SET, "1"}, KAFKA_INVALID_TOPIC_EXCEPTION},
        {{BROKER, "1", "num.partitions", SET, "3"}, KAFKA_INVALID_REQUEST},
        {{BROKER, "", "log.dirs", SET, "x"}, KAFKA_INVALID_REQUEST},
        {{BROKER, "1", "message.max.bytes", SET, "x"}, KAFKA_INVALID_REQUEST},
        {{BROKER, "9", "message.max.bytes", SET, "5"}, KAFKA_INVALID_REQUEST},
        {{BROKER, "x", "message.max.bytes", SET, "5"}, KAFKA_INVALID_REQUEST},
        {{LOGGER, "1", "kafka", SET, "DEBUG"}, KAFKA_INVALID_CONFIG},
        {{LOGGER, "9", "kafka", SET, "DEBUG"}, KAFKA_INVALID_REQUEST},
        {{99, "t", "retention.ms", SET, "1"}, KAFKA_INVALID_REQUEST},
    };
    struct world *world = world_create(22, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int16_t error = change_one(link, &cases[i].change, false);
        if (error != cases[i].error) {
            fail_msg("case %zu, %s: %d instead of %d", i, cases[i].change.name, error,
                     cases[i].error);
        }
    }
    assert_value(link, TOPIC, "t", "retention.ms", "604800000", 5, 0);
    world_destroy(world);
}

static void brokers_settings_are_the_topics_defaults(void **state)
{
    struct world *world = world_create(23, "message.max.bytes=9000\n");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    assert_value(link, TOPIC, "t", "max.message.bytes", "9000", 4, 2);
    struct bytes batch = batch_of(world, 1, 1000, -1, -1);
    const struct change all = {BROKER, "", "message.max.bytes", SET, "800"};
    const struct change own = {BROKER, "1", "message.max.bytes", SET, "700"};
    assert_int_equal(change_one(link, &all, false), KAFKA_NONE);
    assert_value(link, TOPIC, "t", "max.message.bytes", "800", 3, 3);
    assert_value(link, BROKER, "", "message.max.bytes", "800", 3, 1);
    assert_int_equal(produce(link, "t", 0, -1, batch).error_code, KAFKA_MESSAGE_TOO_LARGE);
    assert_int_equal(change_one(link, &own, false), KAFKA_NONE);
    world_stop_broker(world);
    world_start_broker(world);
    link = link_open(world, 0);
    assert_value(link, TOPIC, "t", "max.message.bytes", "700", 2, 4);
    assert_value(link, BROKER, "1", "message.max.bytes", "700", 2, 4);
    assert_true(describe(link, BROKER, "1", "num.partitions").read_only);
    const struct change not_all = {BROKER, "", "message.max.bytes", DELETE, NULL};
    const struct change not_own = {BROKER, "1", "message.max.bytes", DELETE, NULL};
    assert_int_equal(change_one(link, &not_own, false), KAFKA_NONE);
    assert_value(link, BROKER, "1", "message.max.bytes", "800", 3, 3);
    assert_int_equal(change_one(link, &not_all, false), KAFKA_NONE);
    assert_value(link, BROKER, "1", "message.max.bytes", "9000", 4, 2);
    assert_int_equal(produce(link, "t", 0, -1, batch).error_code, KAFKA_NONE);
    world_destroy(world);
}

/* AlterConfigs of a topic with up to two settings. */
static const struct alter_configs_response *replace(struct link *link, const char *topic,
                                                    const char *const pairs[][2], int32_t count,
                                                    int32_t resources)
{
    static struct alter_configs_response response;
    struct alter_configs_request_alterable_config configs[2] = {0};
    struct alter_configs_request_alter_configs_resource resource[2] = {0};
    for (int32_t i = 0; i < count; i++) {
        configs[i].name = bytes_of(pairs[i][0]);
        configs[i].value = bytes_of(pairs[i][1]);
    }
    for (int32_t i = 0; i < resources; i++) {
        resource[i].resource_type = TOPIC;
        resource[i].resource_name = bytes_of(topic);
        resource[i].configs = configs;
        resource[i].configs_count = count;
    }
    struct alter_configs_request request = {.resources = resource, .resources_count = resources};
    link_call(link, API_ALTER_CONFIGS, 2, &request, &response);
    assert_int_equal(response.responses_count, resources);
    return &response;
}

static void alter_configs_replaces_all_settings(void **state)
{
    static const char *const first[][2] = {{"retention.ms", "1000"}, {"segment.ms", "5"}};
    static const char *const second[][2] = {{"segment.ms", "6"}, {"segment.ms", "7"}};
    struct world *world = world_create(24, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    assert_int_equal(replace(link, "t", first, 2, 1)->responses[0].error_code, KAFKA_NONE);
    assert_value(link, TOPIC, "t", "retention.ms", "1000", 1, 1);
    assert_int_equal(replace(link, "t", second, 2, 1)->responses[0].error_code,
                     KAFKA_INVALID_REQUEST);
    const struct alter_configs_response *twice = replace(link, "t", second, 1, 2);
    assert_int_equal(twice->responses[0].error_code, KAFKA_INVALID_REQUEST);
    assert_int_equal(twice->responses[1].error_code, KAFKA_INVALID_REQUEST);
    assert_int_equal(replace(link, "t", second, 1, 1)->responses[0].error_code, KAFKA_NONE);
    assert_value(link, TOPIC, "t", "segment.ms", "6", 1, 1);
    assert_value(link, TOPIC, "t", "retention.ms", "604800000", 5, 0);
    assert_int_equal(replace(link, "t", second, 0, 1)->responses[0].error_code, KAFKA_NONE);
    assert_value(link, TOPIC, "t", "segment.ms", "604800000", 5, 0);
    world_destroy(world);
}

static void changes_of_one_topic_at_once_are_all_kept(void **state)
{
    static const char *const names[] = {"retention.ms", "segment.ms", "flush.ms",
                                        "file.delete.delay.ms"};
    struct world *world = world_create(25, "");
    for (int i = 0; i < LINK_COUNT_MAX; i++) {
        (void)link_open(world, i);
    }
    assert_int_equal(create_topic(&world->links[0], "t", 1), KAFKA_NONE);
    struct incremental_alter_configs_request_alterable_config config = {.config_operation = SET,
                                                                        .value = bytes_of("1234")};
    struct incremental_alter_configs_request_alter_configs_resource resource = {
        .resource_type = TOPIC,
        .resource_name = bytes_of("t"),
        .configs = &config,
        .configs_count = 1,
    };
    struct incremental_alter_configs_request request = {.resources = &resource,
                                                        .resources_count = 1};
    for (int i = 0; i < LINK_COUNT_MAX; i++) {
        config.name = bytes_of(names[i]);
        link_send(&world->links[i], API_INCREMENTAL_ALTER_CONFIGS, 0, &request);
    }
    world_run(world, 200);
    for (int i = 0; i < LINK_COUNT_MAX; i++) {
        struct incremental_alter_configs_response response;
        link_take(&world->links[i], API_INCREMENTAL_ALTER_CONFIGS, 0, 0, &response);
        assert_int_equal(response.responses[0].error_code, KAFKA_NONE);
    }
    for (int i = 0; i < LINK_COUNT_MAX; i++) {
        struct describe_configs_response_describe_configs_resource_result found =
            describe(&world->links[0], TOPIC, "t", names[i]);
        assert_true(bytes_equal(found.value, bytes_of("1234")));
    }
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topics_setting_acts_at_once_and_after_a_restart),
        cmocka_unit_test(lists_grow_and_shrink),
        cmocka_unit_test(what_kafka_refuses_is_refused),
        cmocka_unit_test(brokers_settings_are_the_topics_defaults),
        cmocka_unit_test(alter_configs_replaces_all_settings),
        cmocka_unit_test(changes_of_one_topic_at_once_are_all_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
