/*
 * What the features of the librdkafka program share: handles, topics, records sent and read back.
 *
 * Every function returns false on failure, with the reason in client->reason; no handle outlives
 * the call that made it, so a feature that fails leaves nothing behind for the next.
 */
#ifndef TWINLOG_LIBRDKAFKA_CLIENT_H
#define TWINLOG_LIBRDKAFKA_CLIENT_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_HEADERS_MAX 4
#define WAIT_MS            20000

struct client {
    const char *bootstrap;
    char reason[512];
};

struct header {
    const char *name;
    const char *value; /* NULL for a header without a value */
};

/* One record as it is sent, and as it must come back. NULL and "" are different keys and values. */
struct record {
    const char *key;
    const char *value;
    size_t value_size;
    int64_t timestamp; /* 0 lets the client choose */
    struct header headers[RECORD_HEADERS_MAX];
    size_t headers_count;
};

/* A configuration property: a list ends with a NULL name. */
struct property {
    const char *name;
    const char *value;
};

/* Sets the reason, printf style, and returns false. */
bool client_fail(struct client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns a handle the caller destroys, or NULL. properties may be NULL. */
rd_kafka_t *client_handle(struct client *client, rd_kafka_type_t type,
                          const struct property *properties);

/* Creates a topic; properties are topic configs and may be NULL. */
bool client_topic_create(struct client *client, const char *topic, int partitions_count,
                         const struct property *properties);

/* Deletes a topic and waits until the broker no longer lists it. */
bool client_topic_delete(struct client *client, const char *topic);

/* Sends records to partition 0 and waits until each is acknowledged, in order, from offset 0 on. */
bool client_produce(struct client *client, const char *topic, const struct property *properties,
                    const struct record *records, size_t records_count);

/* Reads partition 0 from the beginning and compares what arrives, timestamps included. */
bool client_consume(struct client *client, const char *topic, const struct record *records,
                    size_t records_count);

/* Compares one message with the record it must be. */
bool client_record_check(struct client *client, const rd_kafka_message_t *message,
                         const struct record *record);

#endif
