/*
 * `twinlog-bulk`: librdkafka as people use it, with its own batching. `produce` sends records for a
 * while, `consume` reads a whole topic once. It speaks to any Kafka-compatible broker and writes
 * one JSON object, so that bench/figures can put two systems side by side.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <jansson.h>
#include <librdkafka/rdkafka.h>

#include "cpu.h"
#include "options.h"

#define POLL_EVERY      256u
#define ADMIN_MS        60000
#define FLUSH_MS        60000
#define CONSUME_IDLE_MS 30000
#define NS_PER_S        1000000000ULL

struct bulk {
    const struct options *options;
    rd_kafka_t *kafka;
    char *value;
    uint64_t delivered; /* in the measured time */
    uint64_t failed;
    uint64_t measured_from_ns; /* UINT64_MAX: not yet */
    uint64_t measured_to_ns;
    char error[256]; /* the first */
};

struct usage {
    uint64_t at_ns;
    uint64_t client_cpu_ns;
    uint64_t server_cpu_ns;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static struct usage usage_now(const struct options *options)
{
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    struct usage usage = {.at_ns = now_ns()};
    usage.client_cpu_ns = (uint64_t)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) * NS_PER_S +
                          (uint64_t)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) * 1000;
    for (uint32_t i = 0; i < options->server_pid_count; i++) {
        usage.server_cpu_ns += cpu_ns_of(options->server_pid[i]);
    }
    return usage;
}

static void bulk_fail(struct bulk *bulk, const char *what, const char *why)
{
    if (bulk->error[0] == '\0') {
        snprintf(bulk->error, sizeof(bulk->error), "%s: %s", what, why);
    }
    bulk->failed++;
}

static bool bulk_report(const struct bulk *bulk, const char *workload, struct usage from,
                        struct usage to)
{
    double seconds = (double)(to.at_ns - from.at_ns) / (double)NS_PER_S;
    double records = (double)bulk->delivered;
    double server_ns = (double)(to.server_cpu_ns - from.server_cpu_ns);
    double bytes = records * bulk->options->record_size;
    json_t *root = json_pack(
        "{s:i,s:s,s:s,s:f,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:s}", "schema_version", 1, "workload",
        workload, "label", bulk->options->label, "seconds", seconds, "records",
        (json_int_t)bulk->delivered, "records_per_s", records / seconds, "mib_per_s",
        bytes / seconds / (1 << 20), "server_cpu_us_per_record",
        records > 0 ? server_ns / 1000.0 / records : 0, "server_cpu_s_per_gib",
        bytes > 0 ? server_ns / (double)NS_PER_S / (bytes / (1 << 30)) : 0, "client_cpu_share",
        (double)(to.client_cpu_ns - from.client_cpu_ns) / (seconds * (double)NS_PER_S),
        "server_cpu_share", server_ns / (seconds * (double)NS_PER_S), "failed",
        (json_int_t)bulk->failed, "error", bulk->error);
    if (root == NULL) {
        return false;
    }
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(8));
    fputc('\n', stdout);
    json_decref(root);
    return bulk->failed == 0 && bulk->delivered > 0;
}

/* ---------------------------------------------------------------- handle and topic */

static void on_delivery(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *opaque)
{
    struct bulk *bulk = opaque;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        bulk_fail(bulk, "delivery", rd_kafka_err2str(message->err));
        return;
    }
    uint64_t now = now_ns();
    if (now >= bulk->measured_from_ns && now < bulk->measured_to_ns) {
        bulk->delivered++;
    }
}

static bool bulk_open(struct bulk *bulk, rd_kafka_type_t type)
{
    char bootstrap[96];
    char error[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    snprintf(bootstrap, sizeof(bootstrap), "%s:%u", bulk->options->host, bulk->options->port);
    bool good = rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, error, sizeof(error)) ==
                RD_KAFKA_CONF_OK;
    if (type == RD_KAFKA_PRODUCER) {
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        rd_kafka_conf_set_opaque(conf, bulk);
    } else {
        /* A name is asked for; nothing is committed under it. */
        good =
            good &&
            rd_kafka_conf_set(conf, "group.id", "bulk", error, sizeof(error)) == RD_KAFKA_CONF_OK &&
            rd_kafka_conf_set(conf, "enable.auto.commit", "false", error, sizeof(error)) ==
                RD_KAFKA_CONF_OK;
    }
    bulk->kafka = good ? rd_kafka_new(type, conf, error, sizeof(error)) : NULL;
    if (bulk->kafka == NULL) {
        rd_kafka_conf_destroy(conf);
        bulk_fail(bulk, "librdkafka", error);
        return false;
    }
    return true;
}

/* Makes the topic, and waits until it is there. */
static bool topic_create(struct bulk *bulk)
{
    const struct options *options = bulk->options;
    char error[256] = "no answer";
    rd_kafka_NewTopic_t *topic =
        rd_kafka_NewTopic_new(options->topic, (int)options->partitions, options->replication_factor,
                              error, sizeof(error));
    rd_kafka_queue_t *queue = rd_kafka_queue_new(bulk->kafka);
    bool created = false;
    if (topic != NULL) {
        rd_kafka_CreateTopics(bulk->kafka, &topic, 1, NULL, queue);
        rd_kafka_event_t *event = rd_kafka_queue_poll(queue, ADMIN_MS);
        const rd_kafka_CreateTopics_result_t *result =
            event == NULL ? NULL : rd_kafka_event_CreateTopics_result(event);
        size_t count = 0;
        const rd_kafka_topic_result_t **topics =
            result == NULL ? NULL : rd_kafka_CreateTopics_result_topics(result, &count);
        if (count == 1) {
            rd_kafka_resp_err_t code = rd_kafka_topic_result_error(topics[0]);
            created = code == RD_KAFKA_RESP_ERR_NO_ERROR;
            snprintf(error, sizeof(error), "%s", rd_kafka_err2str(code));
        }
        if (event != NULL) {
            rd_kafka_event_destroy(event);
        }
        rd_kafka_NewTopic_destroy(topic);
    }
    rd_kafka_queue_destroy(queue);
    if (!created) {
        bulk_fail(bulk, "the topic cannot be made", error);
    }
    return created;
}

/* ---------------------------------------------------------------- produce */

static void produce_until(struct bulk *bulk, rd_kafka_topic_t *topic, uint64_t until_ns)
{
    uint32_t since_poll = 0;
    while (bulk->failed == 0) {
        int result = rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, 0, bulk->value,
                                      bulk->options->record_size, NULL, 0, NULL);
        if (result != 0) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
                bulk_fail(bulk, "produce", rd_kafka_err2str(rd_kafka_last_error()));
                return;
            }
            rd_kafka_poll(bulk->kafka, 1);
        }
        if (++since_poll >= POLL_EVERY || result != 0) {
            since_poll = 0;
            rd_kafka_poll(bulk->kafka, 0);
            if (now_ns() >= until_ns) {
                return;
            }
        }
    }
}

static bool bulk_produce(struct bulk *bulk)
{
    const struct options *options = bulk->options;
    if (!bulk_open(bulk, RD_KAFKA_PRODUCER) || (!options->keep_topic && !topic_create(bulk))) {
        return false;
    }
    rd_kafka_topic_t *topic = rd_kafka_topic_new(bulk->kafka, options->topic, NULL);
    if (topic == NULL) {
        bulk_fail(bulk, "topic", rd_kafka_err2str(rd_kafka_last_error()));
        return false;
    }
    bulk->measured_from_ns = UINT64_MAX;
    produce_until(bulk, topic, now_ns() + (uint64_t)(options->warmup_s * (double)NS_PER_S));
    struct usage from = usage_now(options);
    bulk->measured_from_ns = from.at_ns;
    bulk->measured_to_ns = from.at_ns + (uint64_t)(options->duration_s * (double)NS_PER_S);
    produce_until(bulk, topic, bulk->measured_to_ns);
    struct usage to = usage_now(options);
    /* What is under way must arrive too, though it does not count. */
    if (rd_kafka_flush(bulk->kafka, FLUSH_MS) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        bulk_fail(bulk, "flush", "records were not acknowledged within a minute");
    }
    rd_kafka_topic_destroy(topic);
    return bulk_report(bulk, "produce", from, to);
}

/* ---------------------------------------------------------------- consume */

/* Assigns every partition from its beginning; how many records there are in all. */
static bool assign_all(struct bulk *bulk, uint64_t *record_count)
{
    const struct options *options = bulk->options;
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)options->partitions);
    rd_kafka_resp_err_t result = RD_KAFKA_RESP_ERR_NO_ERROR;
    *record_count = 0;
    for (uint32_t i = 0; i < options->partitions && result == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        int64_t low = 0;
        int64_t high = 0;
        result = rd_kafka_query_watermark_offsets(bulk->kafka, options->topic, (int32_t)i, &low,
                                                  &high, ADMIN_MS);
        *record_count += (uint64_t)(high - low);
        rd_kafka_topic_partition_list_add(list, options->topic, (int32_t)i)->offset = low;
    }
    if (result == RD_KAFKA_RESP_ERR_NO_ERROR) {
        rd_kafka_poll_set_consumer(bulk->kafka);
        result = rd_kafka_assign(bulk->kafka, list);
    }
    rd_kafka_topic_partition_list_destroy(list);
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR) {
        bulk_fail(bulk, "assign", rd_kafka_err2str(result));
    }
    return result == RD_KAFKA_RESP_ERR_NO_ERROR;
}

static bool bulk_consume(struct bulk *bulk)
{
    uint64_t record_count;
    if (!bulk_open(bulk, RD_KAFKA_CONSUMER)) {
        return false;
    }
    struct usage from = usage_now(bulk->options);
    if (!assign_all(bulk, &record_count)) {
        return false;
    }
    while (bulk->delivered < record_count) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(bulk->kafka, CONSUME_IDLE_MS);
        if (message == NULL) {
            bulk_fail(bulk, "consume", "nothing came for half a minute");
            break;
        }
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            bulk->delivered++;
        } else if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            bulk_fail(bulk, "consume", rd_kafka_message_errstr(message));
        }
        rd_kafka_message_destroy(message);
    }
    return bulk_report(bulk, "consume", from, usage_now(bulk->options));
}

/* ---------------------------------------------------------------- main */

static int help(FILE *out, int exit_status)
{
    fprintf(out,
            "usage: twinlog-bulk produce|consume [OPTIONS]\n"
            "  produce  librdkafka with its own batching, acks=all, for --duration\n"
            "  consume  every partition of --topic from its beginning to its end, once\n"
            "The result is one JSON object on standard output. Options of twinlog-bench that have\n"
            "a meaning here: bootstrap topic partitions record-size replication-factor warmup\n"
            "duration server-pid keep-topic label\n");
    return exit_status;
}

int main(int argc, char **argv)
{
    struct options options;
    if (argc < 2) {
        return help(stderr, 2);
    }
    if (strcmp(argv[1], "--help") == 0) {
        return help(stdout, 0);
    }
    options_parse(&options, argc - 1, argv + 1);
    struct bulk bulk = {.options = &options, .value = malloc(options.record_size)};
    if (bulk.value == NULL) {
        perror("twinlog-bulk");
        return 1;
    }
    memset(bulk.value, 'x', options.record_size);
    bool good = false;
    if (strcmp(argv[1], "produce") == 0) {
        good = bulk_produce(&bulk);
    } else if (strcmp(argv[1], "consume") == 0) {
        good = bulk_consume(&bulk);
    } else {
        return help(stderr, 2);
    }
    if (bulk.error[0] != '\0') {
        fprintf(stderr, "twinlog-bulk: %s\n", bulk.error);
    }
    if (bulk.kafka != NULL) {
        rd_kafka_destroy(bulk.kafka);
    }
    free(bulk.value);
    return good ? 0 : 1;
}
