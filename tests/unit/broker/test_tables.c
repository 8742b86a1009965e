/* The dispatch table against the schema, topic names, topic configuration, error mapping. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard.h"

static void the_dispatch_table_agrees_with_the_schema(void **state)
{
    size_t count;
    assert_true(dispatch_check());
    const struct api_entry *entries = dispatch_table(&count);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(dispatch_find(entries[i].key), &entries[i]);
        assert_int_equal(entries[i].api->key, entries[i].key);
    }
    assert_null(dispatch_find(-1));
    assert_null(dispatch_find(1000));
}

static void every_api_of_the_schema_is_served(void **state)
{
    size_t count;
    const struct api *apis = api_all(&count);
    for (size_t i = 0; i < count; i++) {
        if (dispatch_find(apis[i].key) == NULL) {
            fail_msg("%s is in the schema and not served", apis[i].name);
        }
    }
}

static void topic_names_follow_kafkas_rules(void **state)
{
    char longest[TOPIC_NAME_SIZE_MAX + 2];
    memset(longest, 'a', sizeof(longest));
    static const char *const good[] = {"a", "...", "a.b_c-D9", "__consumer_offsets", "-"};
    static const char *const bad[] = {"",         ".",   "..",  "a b", "a/b",
                                      "\xc3\xa9", "a\n", "a:b", "[",   "@"};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_null(topic_name_judge(bytes_of(good[i])));
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_non_null(topic_name_judge(bytes_of(bad[i])));
    }
    assert_null(topic_name_judge((struct bytes){(uint8_t *)longest, TOPIC_NAME_SIZE_MAX}));
    assert_non_null(topic_name_judge((struct bytes){(uint8_t *)longest, TOPIC_NAME_SIZE_MAX + 1}));
    assert_non_null(topic_name_judge((struct bytes){(const uint8_t *)"a\0b", 3}));
}

static void topic_settings_are_judged_and_taken_over(void **state)
{
    static const struct {
        const char *name;
        const char *value;
        enum status_code code;
    } cases[] = {
        {"max.message.bytes", "100", STATUS_OK},
        {"max.message.bytes", "-1", STATUS_INVALID},
        {"max.message.bytes", "lots", STATUS_INVALID},
        {"max.message.bytes", "99999999999", STATUS_INVALID},
        {"cleanup.policy", "compact", STATUS_OK},
        {"cleanup.policy", "compact,delete", STATUS_OK},
        {"cleanup.policy", "compact,shred", STATUS_INVALID},
        {"cleanup.policy", "", STATUS_OK},
        {"message.timestamp.type", "LogAppendTime", STATUS_OK},
        {"message.timestamp.type", "logappendtime", STATUS_INVALID},
        {"compression.type", "producer", STATUS_OK},
        {"compression.type", "zstd", STATUS_OK},
        {"compression.type", "uncompressed", STATUS_OK},
        {"compression.type", "none", STATUS_INVALID},
        {"compression.type", "rar", STATUS_INVALID},
        {"compression.gzip.level", "-1", STATUS_OK},
        {"compression.gzip.level", "0", STATUS_INVALID},
        {"compression.gzip.level", "10", STATUS_INVALID},
        {"compression.lz4.level", "0", STATUS_INVALID},
        {"compression.lz4.level", "17", STATUS_OK},
        {"compression.zstd.level", "-131072", STATUS_OK},
        {"compression.zstd.level", "23", STATUS_INVALID},
        {"min.cleanable.dirty.ratio", "0.5", STATUS_OK},
        {"min.cleanable.dirty.ratio", "nan", STATUS_INVALID},
        {"min.cleanable.dirty.ratio", "1.5", STATUS_INVALID},
        {"preallocate", "TRUE", STATUS_OK},
        {"preallocate", "1", STATUS_INVALID},
        {"remote.storage.enable", "true", STATUS_INVALID},
        {"remote.storage.enable", "false", STATUS_OK},
        {"segment.bytes", "1024", STATUS_INVALID},
        {"segment.bytes", "1048576", STATUS_OK},
        {"retention.ms", "-1", STATUS_OK},
        {"no.such.key", "1", STATUS_NOT_FOUND},
    };
    struct broker_config broker;
    struct topic_config config;
    char message[512];
    broker_config_init(&broker);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        topic_config_init(&config, &broker);
        message[0] = '\0';
        status result = topic_config_set(&config, bytes_of(cases[i].name), bytes_of(cases[i].value),
                                         message, sizeof(message));
        if (result.code != cases[i].code) {
            fail_msg("%s=%s", cases[i].name, cases[i].value);
        }
        assert_true((message[0] != '\0') == (cases[i].code != STATUS_OK));
    }
    topic_config_init(&config, &broker);
    assert_int_equal(
        topic_config_set(&config, bytes_of("retention.ms"), BYTES_NULL, message, sizeof(message))
            .code,
        STATUS_INVALID);
}

static void a_compression_brings_its_own_level(void **state)
{
    static const struct {
        const char *type;
        int64_t compression;
        int level;
    } cases[] = {
        {"producer", COMPRESSION_AS_SENT, INT32_MIN},
        {"uncompressed", CODEC_NONE, INT32_MIN},
        {"gzip", CODEC_GZIP, 2},
        {"snappy", CODEC_SNAPPY, INT32_MIN},
        {"lz4", CODEC_LZ4, 3},
        {"zstd", CODEC_ZSTD, -4},
    };
    struct broker_config broker;
    struct topic_config config;
    struct config_report report = {0};
    char message[512];
    broker_config_init(&broker);
    topic_config_init(&config, &broker);
    assert_int_equal(config.compression, COMPRESSION_AS_SENT);
    /* As the broker's defaults they are the topic's. */
    assert_int_equal(broker_config_parse(&broker,
                                         bytes_of("compression.type=zstd\n"
                                                  "compression.gzip.level=2\n"
                                                  "compression.lz4.level=3\n"
                                                  "compression.zstd.level=-4\n"),
                                         &report)
                         .code,
                     STATUS_OK);
    topic_config_init(&config, &broker);
    assert_int_equal(config.compression, CODEC_ZSTD);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(topic_config_set(&config, bytes_of("compression.type"),
                                          bytes_of(cases[i].type), message, sizeof(message))
                             .code,
                         STATUS_OK);
        assert_int_equal(config.compression, cases[i].compression);
        assert_int_equal(topic_config_level(&config), cases[i].level);
    }
}

static void topic_defaults_are_valid_and_come_from_the_broker(void **state)
{
    struct broker_config broker;
    struct config_report report = {0};
    struct topic_config config;
    broker_config_init(&broker);
    assert_int_equal(
        broker_config_parse(&broker,
                            bytes_of("message.max.bytes=77\nlog.cleanup.policy=compact\n"
                                     "log.message.timestamp.type=LogAppendTime\n"),
                            &report)
            .code,
        STATUS_OK);
    topic_config_init(&config, &broker);
    assert_int_equal(config.message_size_max, 77);
    assert_true(config.compacted);
    assert_true(config.log_append_time);
    size_t count;
    const struct topic_key *keys = topic_config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char value[CONFIG_VALUE_SIZE_MAX];
        char message[512];
        topic_config_preset(&keys[i], &broker, value, sizeof(value));
        status result = topic_config_set(&config, bytes_of(keys[i].name), bytes_of(value), message,
                                         sizeof(message));
        if (keys[i].choices != NULL || value[0] != '\0') {
            assert_int_equal(result.code, STATUS_OK);
        }
        assert_true(i == 0 || strcmp(keys[i - 1].name, keys[i].name) < 0);
    }
}

static void leader_epochs_are_fenced_both_ways(void **state)
{
    assert_int_equal(error_of_leader_epoch(-1, 5), KAFKA_NONE);
    assert_int_equal(error_of_leader_epoch(5, 5), KAFKA_NONE);
    assert_int_equal(error_of_leader_epoch(4, 5), KAFKA_FENCED_LEADER_EPOCH);
    assert_int_equal(error_of_leader_epoch(6, 5), KAFKA_UNKNOWN_LEADER_EPOCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dispatch_table_agrees_with_the_schema),
        cmocka_unit_test(every_api_of_the_schema_is_served),
        cmocka_unit_test(topic_names_follow_kafkas_rules),
        cmocka_unit_test(topic_settings_are_judged_and_taken_over),
        cmocka_unit_test(a_compression_brings_its_own_level),
        cmocka_unit_test(topic_defaults_are_valid_and_come_from_the_broker),
        cmocka_unit_test(leader_epochs_are_fenced_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
