/*
 * What a C program does with a Kafka broker through librdkafka, feature by feature.
 *
 *     roundtrip BOOTSTRAP
 *
 * Prints `ok NAME` or `FAIL NAME: reason` for each feature; ends with 1 when one failed.
 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SERIES_COUNT 500

/* An hour before the start: a topic's retention deletes what is too old while the program runs. */
static int64_t series_time_ms;

struct feature {
    const char *name;
    bool (*run)(struct client *client);
};

/* Records that compress well: librdkafka sends a batch plain when compression gains nothing. */
static const struct record *series(void)
{
    static struct record records[SERIES_COUNT];
    static char values[SERIES_COUNT][128];
    static char keys[SERIES_COUNT][16];

    for (size_t i = 0; i < SERIES_COUNT && records[i].key == NULL; i++) {
        snprintf(keys[i], sizeof(keys[i]), "key-%zu", i);
        snprintf(values[i], sizeof(values[i]), "record %zu, %090d", i, 0);
        records[i].key = keys[i];
        records[i].value = values[i];
        records[i].value_size = strlen(values[i]);
        records[i].timestamp = series_time_ms + (int64_t)i * 1000;
    }
    return records;
}

/* Sends the series with one property set, and reads it back. */
static bool series_roundtrip(struct client *client, const char *topic, const char *name,
                             const char *value)
{
    const struct property properties[] = {{"linger.ms", "50"}, {name, value}, {NULL, NULL}};

    return client_topic_create(client, topic, 1, NULL) &&
           client_produce(client, topic, properties, series(), SERIES_COUNT) &&
           client_consume(client, topic, series(), SERIES_COUNT);
}

static bool run_topics(struct client *client)
{
    return client_topic_create(client, "rdkafka-topics", 3, NULL) &&
           client_topic_delete(client, "rdkafka-topics");
}

/* The topic does not exist: the producer's metadata request creates it. */
static bool run_auto_create(struct client *client)
{
    return client_produce(client, "rdkafka-auto", NULL, series(), 10) &&
           client_consume(client, "rdkafka-auto", series(), 10);
}

static bool run_produce_consume(struct client *client)
{
    return series_roundtrip(client, "rdkafka-none", "compression.type", "none");
}

static bool run_gzip(struct client *client)
{
    return series_roundtrip(client, "rdkafka-gzip", "compression.type", "gzip");
}

static bool run_snappy(struct client *client)
{
    return series_roundtrip(client, "rdkafka-snappy", "compression.type", "snappy");
}

static bool run_lz4(struct client *client)
{
    return series_roundtrip(client, "rdkafka-lz4", "compression.type", "lz4");
}

static bool run_zstd(struct client *client)
{
    return series_roundtrip(client, "rdkafka-zstd", "compression.type", "zstd");
}

static bool run_headers(struct client *client)
{
    const struct record record = {
        .key = "k",
        .value = "v",
        .value_size = 1,
        .headers = {{"trace", "1"}, {"empty", ""}, {"none", NULL}, {"trace", "2"}},
        .headers_count = 4,
    };

    return client_topic_create(client, "rdkafka-headers", 1, NULL) &&
           client_produce(client, "rdkafka-headers", NULL, &record, 1) &&
           client_consume(client, "rdkafka-headers", &record, 1);
}

static bool run_nulls(struct client *client)
{
    const struct record records[] = {
        {.key = "key only"},
        {.value = "value only", .value_size = 10},
        {.key = NULL, .value = NULL},
        {.key = "", .value = "", .value_size = 0},
    };

    return client_topic_create(client, "rdkafka-nulls", 1, NULL) &&
           client_produce(client, "rdkafka-nulls", NULL, records, 4) &&
           client_consume(client, "rdkafka-nulls", records, 4);
}

/* Three records of that size, filled with bytes that do not compress and differ between them. */
static bool large_roundtrip(struct client *client, const char *topic, size_t size,
                            const struct property *topic_properties,
                            const struct property *producer_properties)
{
    struct record records[3] = {{.key = "a"}, {.key = "b"}, {.key = "c"}};
    uint32_t random = 2463534242;
    bool good = true;

    for (size_t i = 0; i < 3; i++) {
        char *value = malloc(size);

        for (size_t at = 0; value != NULL && at < size; at++) {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            value[at] = (char)random;
        }
        good = good && value != NULL;
        records[i].value = value;
        records[i].value_size = size;
    }
    good = good && client_topic_create(client, topic, 1, topic_properties) &&
           client_produce(client, topic, producer_properties, records, 3) &&
           client_consume(client, topic, records, 3);
    for (size_t i = 0; i < 3; i++) {
        free((char *)records[i].value);
    }
    return good;
}

static bool run_900kb(struct client *client)
{
    return large_roundtrip(client, "rdkafka-900kb", 900000, NULL, NULL);
}

static bool run_8mb(struct client *client)
{
    const struct property topic[] = {{"max.message.bytes", "9000000"}, {NULL, NULL}};
    const struct property producer[] = {{"message.max.bytes", "9000000"}, {NULL, NULL}};

    return large_roundtrip(client, "rdkafka-8mb", 8000000, topic, producer);
}

/* A record above the topic's limit is refused with Kafka's error, and the topic stays usable. */
static bool run_too_large(struct client *client)
{
    const struct property producer[] = {{"message.max.bytes", "9000000"}, {NULL, NULL}};
    struct record large = {.value = calloc(1, 2000000), .value_size = 2000000};
    bool refused;

    if (large.value == NULL || !client_topic_create(client, "rdkafka-too-large", 1, NULL)) {
        free((char *)large.value);
        return false;
    }
    refused = !client_produce(client, "rdkafka-too-large", producer, &large, 1) &&
              strstr(client->reason, "too large") != NULL;
    free((char *)large.value);
    if (!refused) {
        return client_fail(client, "2 MB were not refused as too large: %.200s", client->reason);
    }
    return client_produce(client, "rdkafka-too-large", NULL, series(), 5) &&
           client_consume(client, "rdkafka-too-large", series(), 5);
}

/* The series carries chosen timestamps, which client_consume() compares. */
static bool run_timestamps(struct client *client)
{
    return series_roundtrip(client, "rdkafka-timestamps", "compression.type", "none");
}

static bool offset_by_time(struct client *client, rd_kafka_t *handle, int64_t timestamp,
                           int64_t expected)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *asked =
        rd_kafka_topic_partition_list_add(list, "rdkafka-timestamps", 0);
    rd_kafka_resp_err_t error;
    bool good = true;

    asked->offset = timestamp;
    error = rd_kafka_offsets_for_times(handle, list, WAIT_MS);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR || asked->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        good = client_fail(client, "offsets_for_times: %s",
                           rd_kafka_err2str(error != 0 ? error : asked->err));
    } else if (asked->offset != expected) {
        good = client_fail(client, "time %lld is at offset %lld instead of %lld",
                           (long long)timestamp, (long long)asked->offset, (long long)expected);
    }
    rd_kafka_topic_partition_list_destroy(list);
    return good;
}

static bool run_offsets_by_time(struct client *client)
{
    rd_kafka_t *handle = client_handle(client, RD_KAFKA_CONSUMER, NULL);
    const int64_t last = series_time_ms + (SERIES_COUNT - 1) * INT64_C(1000);
    int64_t low = -1;
    int64_t high = -1;
    bool good;

    if (handle == NULL) {
        return false;
    }
    good = offset_by_time(client, handle, 0, 0) &&
           offset_by_time(client, handle, series_time_ms + 5000, 5) &&
           offset_by_time(client, handle, series_time_ms + 5001, 6) &&
           offset_by_time(client, handle, last, SERIES_COUNT - 1) &&
           offset_by_time(client, handle, last + 1, RD_KAFKA_OFFSET_END);
    if (good && (rd_kafka_query_watermark_offsets(handle, "rdkafka-timestamps", 0, &low, &high,
                                                  WAIT_MS) != RD_KAFKA_RESP_ERR_NO_ERROR ||
                 low != 0 || high != SERIES_COUNT)) {
        good = client_fail(client, "the watermarks are %lld and %lld", (long long)low,
                           (long long)high);
    }
    rd_kafka_destroy(handle);
    return good;
}

static bool run_acks_0(struct client *client)
{
    return series_roundtrip(client, "rdkafka-acks-0", "acks", "0");
}

static bool run_acks_1(struct client *client)
{
    return series_roundtrip(client, "rdkafka-acks-1", "acks", "1");
}

static bool run_acks_all(struct client *client)
{
    return series_roundtrip(client, "rdkafka-acks-all", "acks", "all");
}

static bool run_idempotence(struct client *client)
{
    return series_roundtrip(client, "rdkafka-idempotence", "enable.idempotence", "true");
}

/* Reads the tail of the acks-all topic through the consumer interface the bindings are built on. */
static bool assigned_read(struct client *client, rd_kafka_t *handle)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    bool good = true;

    rd_kafka_topic_partition_list_add(list, "rdkafka-acks-all", 0)->offset = SERIES_COUNT - 10;
    if (rd_kafka_assign(handle, list) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        good = client_fail(client, "assign failed");
    }
    rd_kafka_topic_partition_list_destroy(list);
    for (size_t i = SERIES_COUNT - 10; good && i < SERIES_COUNT; i++) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(handle, WAIT_MS);

        if (message == NULL) {
            return client_fail(client, "nothing arrived at offset %zu", i);
        }
        if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR || message->offset != (int64_t)i) {
            good = client_fail(client, "at offset %zu: %s", i, rd_kafka_message_errstr(message));
        } else {
            good = client_record_check(client, message, &series()[i]);
        }
        rd_kafka_message_destroy(message);
    }
    return good;
}

/* A group id has to be set for rd_kafka_assign(), but nothing is committed and nothing is joined.
 */
static bool run_assign(struct client *client)
{
    const struct property properties[] = {
        {"group.id", "rdkafka-unused"}, {"enable.auto.commit", "false"}, {NULL, NULL}};
    rd_kafka_t *handle = client_handle(client, RD_KAFKA_CONSUMER, properties);
    bool good;

    if (handle == NULL) {
        return false;
    }
    rd_kafka_poll_set_consumer(handle);
    good = assigned_read(client, handle);
    rd_kafka_consumer_close(handle);
    rd_kafka_destroy(handle);
    return good;
}

static const struct feature features[] = {
    {"topics", run_topics},
    {"auto-create", run_auto_create},
    {"produce-consume", run_produce_consume},
    {"gzip", run_gzip},
    {"snappy", run_snappy},
    {"lz4", run_lz4},
    {"zstd", run_zstd},
    {"headers", run_headers},
    {"null-key-value", run_nulls},
    {"900kb", run_900kb},
    {"8mb", run_8mb},
    {"too-large", run_too_large},
    {"timestamps", run_timestamps},
    {"offsets-by-time", run_offsets_by_time},
    {"acks-0", run_acks_0},
    {"acks-1", run_acks_1},
    {"acks-all", run_acks_all},
    {"idempotence", run_idempotence},
    {"assign", run_assign},
};

int main(int argc, char **argv)
{
    bool failed = false;

    if (argc != 2) {
        fprintf(stderr, "usage: roundtrip BOOTSTRAP\n");
        return 2;
    }
    series_time_ms = ((int64_t)time(NULL) - 3600) * 1000;
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
        struct client client = {.bootstrap = argv[1], .reason = "no reason given"};

        if (features[i].run(&client)) {
            printf("ok %s\n", features[i].name);
        } else {
            printf("FAIL %s: %s\n", features[i].name, client.reason);
            failed = true;
        }
        fflush(stdout);
    }
    return failed ? 1 : 0;
}
