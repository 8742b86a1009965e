#include "client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the delivery reports of one client_produce() add up to. */
struct deliveries {
    size_t acknowledged;
    bool offsets_known; /* false with acks=0, where the broker tells no offset */
    char error[256];
};

bool client_fail(struct client *client, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(client->reason, sizeof(client->reason), format, arguments);
    va_end(arguments);
    return false;
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    struct deliveries *deliveries = opaque;

    (void)rk;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        snprintf(deliveries->error, sizeof(deliveries->error), "delivery failed: %s",
                 rd_kafka_err2str(message->err));
        return;
    }
    if (deliveries->offsets_known && message->offset != (int64_t)deliveries->acknowledged) {
        snprintf(deliveries->error, sizeof(deliveries->error),
                 "record %zu was acknowledged at offset %lld", deliveries->acknowledged,
                 (long long)message->offset);
        return;
    }
    deliveries->acknowledged++;
}

static bool conf_set(struct client *client, rd_kafka_conf_t *conf, const char *name,
                     const char *value)
{
    char error[256];

    if (rd_kafka_conf_set(conf, name, value, error, sizeof(error)) != RD_KAFKA_CONF_OK) {
        return client_fail(client, "configuration: %s", error);
    }
    return true;
}

static rd_kafka_t *handle_create(struct client *client, rd_kafka_type_t type,
                                 const struct property *properties, struct deliveries *deliveries)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *handle = NULL;
    char error[256];
    bool good = conf_set(client, conf, "bootstrap.servers", client->bootstrap);

    if (type == RD_KAFKA_CONSUMER) {
        good = good && conf_set(client, conf, "check.crcs", "true");
    } else {
        good = good && conf_set(client, conf, "message.timeout.ms", "15000");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        rd_kafka_conf_set_opaque(conf, deliveries);
    }
    for (const struct property *p = properties; good && p != NULL && p->name != NULL; p++) {
        good = conf_set(client, conf, p->name, p->value);
    }
    if (good) {
        handle = rd_kafka_new(type, conf, error, sizeof(error));
        if (handle == NULL) {
            client_fail(client, "rd_kafka_new: %s", error);
        }
    }
    if (handle == NULL) {
        rd_kafka_conf_destroy(conf);
    }
    return handle;
}

rd_kafka_t *client_handle(struct client *client, rd_kafka_type_t type,
                          const struct property *properties)
{
    return handle_create(client, type, properties, NULL);
}

/* Waits for the answer of one admin call and compares its kind; NULL on failure. */
static rd_kafka_event_t *admin_wait(struct client *client, rd_kafka_queue_t *queue,
                                    rd_kafka_event_type_t type)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, WAIT_MS);

    if (event == NULL) {
        client_fail(client, "no answer to an admin request within %d ms", WAIT_MS);
    } else if (rd_kafka_event_type(event) != type) {
        client_fail(client, "unexpected event %s", rd_kafka_event_name(event));
    } else if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        client_fail(client, "%s", rd_kafka_event_error_string(event));
    } else {
        return event;
    }
    if (event != NULL) {
        rd_kafka_event_destroy(event);
    }
    return NULL;
}

static bool topic_results_check(struct client *client, const rd_kafka_topic_result_t **results,
                                size_t count)
{
    if (count != 1) {
        return client_fail(client, "%zu topic results instead of 1", count);
    }
    if (rd_kafka_topic_result_error(results[0]) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return client_fail(client, "%s: %s", rd_kafka_topic_result_name(results[0]),
                           rd_kafka_topic_result_error_string(results[0]));
    }
    return true;
}

static bool create_submit(struct client *client, rd_kafka_t *handle, rd_kafka_queue_t *queue,
                          rd_kafka_NewTopic_t *topic)
{
    size_t count = 0;
    bool good = false;
    rd_kafka_event_t *event;

    rd_kafka_CreateTopics(handle, &topic, 1, NULL, queue);
    event = admin_wait(client, queue, RD_KAFKA_EVENT_CREATETOPICS_RESULT);
    if (event != NULL) {
        const rd_kafka_topic_result_t **results =
            rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);

        good = topic_results_check(client, results, count);
        rd_kafka_event_destroy(event);
    }
    return good;
}

bool client_topic_create(struct client *client, const char *topic, int partitions_count,
                         const struct property *properties)
{
    char error[256];
    bool good = false;
    rd_kafka_t *handle = client_handle(client, RD_KAFKA_PRODUCER, NULL);
    rd_kafka_NewTopic_t *request;

    if (handle == NULL) {
        return false;
    }
    request = rd_kafka_NewTopic_new(topic, partitions_count, -1, error, sizeof(error));
    if (request == NULL) {
        client_fail(client, "%s", error);
    } else {
        rd_kafka_queue_t *queue = rd_kafka_queue_new(handle);

        for (const struct property *p = properties; p != NULL && p->name != NULL; p++) {
            rd_kafka_NewTopic_set_config(request, p->name, p->value);
        }
        good = create_submit(client, handle, queue, request);
        rd_kafka_queue_destroy(queue);
        rd_kafka_NewTopic_destroy(request);
    }
    rd_kafka_destroy(handle);
    return good;
}

/* Metadata of all topics, so that asking does not create the topic. */
static bool topic_is_listed(rd_kafka_t *handle, const char *topic)
{
    const struct rd_kafka_metadata *metadata;
    bool listed = false;

    if (rd_kafka_metadata(handle, 1, NULL, &metadata, WAIT_MS) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return true;
    }
    for (int i = 0; i < metadata->topic_cnt; i++) {
        listed = listed || strcmp(metadata->topics[i].topic, topic) == 0;
    }
    rd_kafka_metadata_destroy(metadata);
    return listed;
}

bool client_topic_delete(struct client *client, const char *topic)
{
    size_t count = 0;
    bool good = false;
    rd_kafka_t *handle = client_handle(client, RD_KAFKA_PRODUCER, NULL);
    rd_kafka_DeleteTopic_t *request = rd_kafka_DeleteTopic_new(topic);

    if (handle != NULL) {
        rd_kafka_queue_t *queue = rd_kafka_queue_new(handle);
        rd_kafka_event_t *event;

        rd_kafka_DeleteTopics(handle, &request, 1, NULL, queue);
        event = admin_wait(client, queue, RD_KAFKA_EVENT_DELETETOPICS_RESULT);
        if (event != NULL) {
            const rd_kafka_topic_result_t **results = rd_kafka_DeleteTopics_result_topics(
                rd_kafka_event_DeleteTopics_result(event), &count);

            good = topic_results_check(client, results, count);
            rd_kafka_event_destroy(event);
        }
        for (int tries = 0; good && topic_is_listed(handle, topic); tries++) {
            if (tries == 50) {
                good = client_fail(client, "%s is still listed after it was deleted", topic);
            }
            rd_kafka_poll(handle, 100);
        }
        rd_kafka_queue_destroy(queue);
        rd_kafka_destroy(handle);
    }
    rd_kafka_DeleteTopic_destroy(request);
    return good;
}

static bool record_send(struct client *client, rd_kafka_t *handle, const char *topic,
                        const struct record *record)
{
    rd_kafka_headers_t *headers = NULL;
    rd_kafka_resp_err_t error;
    size_t key_size = record->key == NULL ? 0 : strlen(record->key);

    if (record->headers_count > 0) {
        headers = rd_kafka_headers_new(record->headers_count);
        for (size_t i = 0; i < record->headers_count; i++) {
            rd_kafka_header_add(headers, record->headers[i].name, -1, record->headers[i].value, -1);
        }
    }
    do {
        error = rd_kafka_producev(
            handle, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(0),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY((void *)record->key, key_size),
            RD_KAFKA_V_VALUE((void *)record->value, record->value_size),
            RD_KAFKA_V_TIMESTAMP(record->timestamp), RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
        if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            rd_kafka_poll(handle, 100);
        }
    } while (error == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (headers != NULL) {
            rd_kafka_headers_destroy(headers);
        }
        return client_fail(client, "producev: %s", rd_kafka_err2str(error));
    }
    return true;
}

static bool acks_are_off(const struct property *properties)
{
    for (const struct property *p = properties; p != NULL && p->name != NULL; p++) {
        if (strcmp(p->name, "acks") == 0 && strcmp(p->value, "0") == 0) {
            return true;
        }
    }
    return false;
}

bool client_produce(struct client *client, const char *topic, const struct property *properties,
                    const struct record *records, size_t records_count)
{
    struct deliveries deliveries = {.offsets_known = !acks_are_off(properties)};
    rd_kafka_t *handle = handle_create(client, RD_KAFKA_PRODUCER, properties, &deliveries);
    bool good = handle != NULL;

    for (size_t i = 0; good && i < records_count; i++) {
        good = record_send(client, handle, topic, &records[i]);
        rd_kafka_poll(handle, 0);
    }
    if (good && rd_kafka_flush(handle, WAIT_MS) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        good = client_fail(client, "flush timed out, %zu of %zu acknowledged",
                           deliveries.acknowledged, records_count);
    }
    if (good && deliveries.error[0] != '\0') {
        good = client_fail(client, "%s", deliveries.error);
    }
    if (good && deliveries.acknowledged != records_count) {
        good =
            client_fail(client, "%zu of %zu acknowledged", deliveries.acknowledged, records_count);
    }
    if (handle != NULL) {
        rd_kafka_destroy(handle);
    }
    return good;
}

/* NULL is equal to NULL only: a null must not come back as empty. */
static bool bytes_equal(const void *a, size_t a_size, const void *b, size_t b_size)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    return a_size == b_size && memcmp(a, b, a_size) == 0;
}

static bool headers_check(struct client *client, const rd_kafka_message_t *message,
                          const struct record *record)
{
    rd_kafka_headers_t *headers = NULL;
    size_t count = 0;

    if (rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        count = rd_kafka_header_cnt(headers);
    }
    if (count != record->headers_count) {
        return client_fail(client, "%zu headers instead of %zu", count, record->headers_count);
    }
    for (size_t i = 0; i < count; i++) {
        const struct header *expected = &record->headers[i];
        const char *name = NULL;
        const void *value = NULL;
        size_t size = 0;

        rd_kafka_header_get_all(headers, i, &name, &value, &size);
        if (strcmp(name, expected->name) != 0 ||
            !bytes_equal(value, size, expected->value,
                         expected->value == NULL ? 0 : strlen(expected->value))) {
            return client_fail(client, "header %zu ('%s') differs", i, name);
        }
    }
    return true;
}

bool client_record_check(struct client *client, const rd_kafka_message_t *message,
                         const struct record *record)
{
    rd_kafka_timestamp_type_t kind;
    int64_t timestamp = rd_kafka_message_timestamp(message, &kind);

    if (!bytes_equal(message->key, message->key_len, record->key,
                     record->key == NULL ? 0 : strlen(record->key))) {
        return client_fail(client, "the key at offset %lld differs", (long long)message->offset);
    }
    if (!bytes_equal(message->payload, message->len, record->value, record->value_size)) {
        return client_fail(client, "the value at offset %lld differs (%zu bytes instead of %zu)",
                           (long long)message->offset, message->len, record->value_size);
    }
    if (kind != RD_KAFKA_TIMESTAMP_CREATE_TIME) {
        return client_fail(client, "timestamp type %d is not CreateTime", (int)kind);
    }
    if (record->timestamp != 0 && timestamp != record->timestamp) {
        return client_fail(client, "timestamp %lld instead of %lld", (long long)timestamp,
                           (long long)record->timestamp);
    }
    return headers_check(client, message, record);
}

static bool consume_all(struct client *client, rd_kafka_topic_t *topic,
                        const struct record *records, size_t records_count)
{
    for (size_t i = 0; i < records_count; i++) {
        rd_kafka_message_t *message = rd_kafka_consume(topic, 0, WAIT_MS);
        bool good;

        if (message == NULL) {
            return client_fail(client, "only %zu of %zu records arrived", i, records_count);
        }
        if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            good = client_fail(client, "consume: %s", rd_kafka_message_errstr(message));
        } else if (message->offset != (int64_t)i) {
            good = client_fail(client, "offset %lld instead of %zu", (long long)message->offset, i);
        } else {
            good = client_record_check(client, message, &records[i]);
        }
        rd_kafka_message_destroy(message);
        if (!good) {
            return false;
        }
    }
    return true;
}

bool client_consume(struct client *client, const char *topic, const struct record *records,
                    size_t records_count)
{
    rd_kafka_t *handle = client_handle(client, RD_KAFKA_CONSUMER, NULL);
    rd_kafka_topic_t *consumed;
    bool good;

    if (handle == NULL) {
        return false;
    }
    consumed = rd_kafka_topic_new(handle, topic, NULL);
    if (rd_kafka_consume_start(consumed, 0, RD_KAFKA_OFFSET_BEGINNING) != 0) {
        good = client_fail(client, "consume_start: %s", rd_kafka_err2str(rd_kafka_last_error()));
    } else {
        good = consume_all(client, consumed, records, records_count);
        rd_kafka_consume_stop(consumed, 0);
    }
    rd_kafka_topic_destroy(consumed);
    rd_kafka_destroy(handle);
    return good;
}
