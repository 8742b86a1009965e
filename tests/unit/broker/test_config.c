/* The properties syntax, the table of keys, and the addresses derived from listeners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "foreign_config.h"
#include "properties.h"
#include "twinlog/broker/config.h"

static void entries_are_read_as_java_reads_them(void **state)
{
    static const struct {
        const char *text;
        const char *key;
        const char *value;
    } cases[] = {
        {"a=b", "a", "b"},
        {"a = b ", "a", "b"},
        {"a: b", "a", "b"},
        {"a b", "a", "b"},
        {"\t a\t=\tb", "a", "b"},
        {"a", "a", ""},
        {"a=", "a", ""},
        {"a==b", "a", "=b"},
        {"# x\n! y\n\n  a=b", "a", "b"},
        {"a=b\\\n   c", "a", "bc"},
        {"a=b\\\r\n   c", "a", "bc"},
        {"a=b\\\\", "a", "b\\"},
        {"a\\=b=c", "a=b", "c"},
        {"a\\ b=c", "a b", "c"},
        {"a=\\u0041\\u00e9\\u20ac", "a", "A\xc3\xa9\xe2\x82\xac"},
        {"a=\\ud83d\\ude00", "a", "\xf0\x9f\x98\x80"},
        {"a=x\\ty", "a", "x\ty"},
        {"a=b # no comment", "a", "b # no comment"},
        {"a=b\\", "a", "b"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct properties properties;
        char key[64];
        char value[64];
        properties_init(&properties, bytes_of(cases[i].text));
        assert_int_equal(properties_next(&properties, key, sizeof(key), value, sizeof(value)).code,
                         STATUS_OK);
        assert_string_equal(key, cases[i].key);
        assert_string_equal(value, cases[i].value);
        assert_int_equal(properties_next(&properties, key, sizeof(key), value, sizeof(value)).code,
                         STATUS_NOT_FOUND);
    }
}

static void malformed_entries_are_told_with_their_line(void **state)
{
    static const struct {
        const char *text;
        enum status_code code;
        uint32_t line;
    } cases[] = {
        {"a=\\u12", STATUS_INVALID, 1},
        {"\n\na=\\uzzzz", STATUS_INVALID, 3},
        {"a=\\ud83d", STATUS_INVALID, 1},
        {"a=\\u0000", STATUS_INVALID, 1},
        {"#\na=0123456789abcdef", STATUS_TOO_LARGE, 2},
        {"0123456789abcdef=1", STATUS_TOO_LARGE, 1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct properties properties;
        char key[16];
        char value[16];
        properties_init(&properties, bytes_of(cases[i].text));
        assert_int_equal(properties_next(&properties, key, sizeof(key), value, sizeof(value)).code,
                         cases[i].code);
        assert_int_equal(properties.line, cases[i].line);
    }
}

/* Reads `text` over the defaults. */
static status config_from(const char *text, struct broker_config *config,
                          struct config_report *report)
{
    *report = (struct config_report){0};
    broker_config_init(config);
    TRY(broker_config_parse(config, bytes_of(text), report));
    return broker_config_finish(config, report);
}

static struct broker_config config;
static struct config_report report;

static void defaults_are_complete(void **state)
{
    assert_int_equal(config_from("", &config, &report).code, STATUS_OK);
    assert_string_equal(config.host, "127.0.0.1");
    assert_int_equal(config.port, 9092);
    assert_string_equal(config.advertised_host, "127.0.0.1");
    assert_int_equal(config.message_size_max, 1048588);
    assert_int_equal(config.queued_request_size_max, 4LL * 104857600);
    assert_true(config.auto_create_topics);
    assert_string_equal(report.ignored, "");
}

static void every_key_can_be_set_to_what_it_tells(void **state)
{
    size_t count;
    const struct config_key *keys = broker_config_keys(&count);
    broker_config_init(&config);
    for (size_t i = 0; i < count; i++) {
        char value[CONFIG_VALUE_SIZE_MAX];
        char assignment[CONFIG_VALUE_SIZE_MAX + 256];
        broker_config_value(&config, &keys[i], value, sizeof(value));
        assert_string_equal(value, keys[i].preset);
        snprintf(assignment, sizeof(assignment), "%s=%s", keys[i].name, value);
        report = (struct config_report){0};
        assert_int_equal(broker_config_override(&config, assignment, &report).code, STATUS_OK);
        assert_non_null(keys[i].meaning);
    }
}

static void aliases_reach_the_key_they_stand_for(void **state)
{
    static const char text[] = "broker.id=7\nlog.dir=/x\nlog.roll.hours=2\n";
    assert_int_equal(config_from(text, &config, &report).code, STATUS_OK);
    assert_int_equal(config.node_id, 7);
    assert_string_equal(config.log_dir, "/x");
    assert_int_equal(config.segment_ms, 7200000);
}

static void the_finest_unit_of_several_names_counts(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"log.retention.hours=2\n", 7200000},
        {"log.retention.minutes=3\nlog.retention.hours=2\n", 180000},
        {"log.retention.hours=2\nlog.retention.minutes=3\n", 180000},
        {"log.retention.ms=5\nlog.retention.minutes=3\nlog.retention.hours=2\n", 5},
        {"log.retention.hours=2\nlog.retention.ms=5\nlog.retention.ms=6\n", 6},
        {"log.retention.hours=-1\n", -1},
        {"log.retention.hours=2\nlog.retention.ms=-1\n", -1},
        {"", 604800000},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(config_from(cases[i].text, &config, &report).code, STATUS_OK);
        assert_int_equal(config.retention_ms, cases[i].ms);
    }
    report = (struct config_report){0};
    assert_int_equal(
        config_from("log.retention.ms=5\nlog.retention.hours=x\n", &config, &report).code,
        STATUS_INVALID);
}

static void a_kafka_configuration_is_accepted_and_what_is_ignored_is_named(void **state)
{
    static const char text[] =
        "process.roles=broker,controller\nnode.id=1\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://:9093\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        "num.network.threads=3\nlog.dirs=/tmp/kraft-combined-logs\nlog.retention.hours=168\n";
    assert_int_equal(config_from(text, &config, &report).code, STATUS_OK);
    assert_string_equal(config.host, "127.0.0.1");
    assert_string_equal(config.advertised_host, "localhost");
    assert_string_equal(report.ignored, "process.roles, inter.broker.listener.name, "
                                        "num.network.threads");
}

static void wrong_values_are_errors_that_name_key_value_and_remedy(void **state)
{
    static const struct {
        const char *text;
        const char *parts[3];
    } cases[] = {
        {"num.partitions=many", {"num.partitions", "many", "digits"}},
        {"num.partitions=0", {"num.partitions", "0", "choose 1"}},
        {"num.partitions=99999999999999999999", {"num.partitions", "9999", "whole number"}},
        {"auto.create.topics.enable=yes", {"auto.create.topics.enable", "yes", "true or false"}},
        {"log.dirs=a,b", {"log.dirs", "a,b", "one directory"}},
        {"twinlog.journal.size=33554433", {"twinlog.journal.size", "33554433", "37748736"}},
        {"twinlog.jurnal.size=1", {"twinlog.jurnal.size", "not a setting", "spelling"}},
        {"default.replication.factor=2", {"default.replication.factor", "2", "set it to 1"}},
        {"log.retention.ms=0", {"log.retention.ms", "-1", "at least 1"}},
        {"log.retention.hours=-2", {"log.retention.hours", "-2", "choose -1"}},
        {"compression.type=rar", {"compression.type", "rar", "producer"}},
        {"compression.gzip.level=0", {"compression.gzip.level", "0", "-1"}},
        {"compression.zstd.level=23", {"compression.zstd.level", "23", "22"}},
        {"log.message.timestamp.type=Now", {"log.message.timestamp.type", "Now", "CreateTime"}},
        {"listeners=PLAINTEXT://0.0.0.0:9092", {"listeners", "0.0.0.0", "advertised.listeners="}},
        {"listeners=PLAINTEXT://:9092", {"listeners", "wildcard", "advertised.listeners="}},
        {"listeners=PLAINTEXT://kafka.example:9092", {"listeners", "kafka.example", "address"}},
        {"listeners=9092", {"listeners", "9092", "PLAINTEXT://"}},
        {"listeners=PLAINTEXT://127.0.0.1:99999", {"listeners", "99999", "PLAINTEXT://"}},
        {"listeners=A://127.0.0.1:1,PLAINTEXT://127.0.0.1:2", {"listener A", "protocol", "use"}},
        {"listeners=PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2", {"listeners", "one", "keep"}},
        {"listeners=SSL://127.0.0.1:9093", {"SSL", "PLAINTEXT", "trust"}},
        {"listeners=SASL_PLAINTEXT://127.0.0.1:9093", {"SASL_PLAINTEXT", "PLAINTEXT", "trust"}},
        {"a=\\u1", {"line 1", "cannot be read", "mend"}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(config_from(cases[i].text, &config, &report).code, STATUS_INVALID);
        for (size_t j = 0; j < COUNT_OF(cases[i].parts); j++) {
            if (strstr(report.error, cases[i].parts[j]) == NULL) {
                fail_msg("'%s' does not say '%s'", report.error, cases[i].parts[j]);
            }
        }
    }
}

static void security_settings_that_are_not_honoured_refuse_the_start(void **state)
{
    static const char *const keys[] = {
        "sasl.enabled.mechanisms=SCRAM-SHA-256",
        "ssl.keystore.location=/x",
        "authorizer.class.name=org.example.Authorizer",
        "super.users=User:admin",
        "security.inter.broker.protocol=SASL_SSL",
        "listener.name.internal.ssl.keystore.location=/x",
    };
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        assert_int_equal(config_from(keys[i], &config, &report).code, STATUS_INVALID);
        assert_non_null(strstr(report.error, "security setting"));
        assert_memory_equal(report.error, keys[i], strcspn(keys[i], "="));
    }
    assert_int_equal(config_from("security.inter.broker.protocol=PLAINTEXT", &config, &report).code,
                     STATUS_OK);
    assert_int_equal(config_from("authorizer.class.name=", &config, &report).code, STATUS_OK);
}

static void overrides_take_the_last_word(void **state)
{
    report = (struct config_report){0};
    broker_config_init(&config);
    assert_int_equal(broker_config_parse(&config, bytes_of("num.partitions=3"), &report).code,
                     STATUS_OK);
    assert_int_equal(broker_config_override(&config, "num.partitions=5", &report).code, STATUS_OK);
    assert_int_equal(config.num_partitions, 5);
    assert_int_equal(broker_config_override(&config, "num.partitions", &report).code,
                     STATUS_INVALID);
    assert_int_equal(broker_config_override(&config, "=5", &report).code, STATUS_INVALID);
}

static void an_ipv6_listener_keeps_its_address(void **state)
{
    assert_int_equal(config_from("listeners=PLAINTEXT://[::1]:9094", &config, &report).code,
                     STATUS_OK);
    assert_string_equal(config.host, "::1");
    assert_int_equal(config.port, 9094);
}

static void a_key_is_either_ours_or_foreign_and_stands_in_its_table_once(void **state)
{
    size_t count;
    const struct foreign_key *foreign = foreign_config_keys(&count);
    assert_true(count > 100);
    for (size_t i = 0; i < count; i++) {
        assert_null(broker_config_find(bytes_of(foreign[i].name)));
        assert_true(i == 0 || strcmp(foreign[i - 1].name, foreign[i].name) < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_read_as_java_reads_them),
        cmocka_unit_test(malformed_entries_are_told_with_their_line),
        cmocka_unit_test(defaults_are_complete),
        cmocka_unit_test(every_key_can_be_set_to_what_it_tells),
        cmocka_unit_test(aliases_reach_the_key_they_stand_for),
        cmocka_unit_test(the_finest_unit_of_several_names_counts),
        cmocka_unit_test(a_kafka_configuration_is_accepted_and_what_is_ignored_is_named),
        cmocka_unit_test(wrong_values_are_errors_that_name_key_value_and_remedy),
        cmocka_unit_test(security_settings_that_are_not_honoured_refuse_the_start),
        cmocka_unit_test(overrides_take_the_last_word),
        cmocka_unit_test(an_ipv6_listener_keeps_its_address),
        cmocka_unit_test(a_key_is_either_ours_or_foreign_and_stands_in_its_table_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
