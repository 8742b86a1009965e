#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "twinlog/protocol/codec.h"
#include "twinlog/protocol/kafka_error.h"
#include "twinlog/protocol/messages.h"

#include "violation.h"
#include "wire_facts.h"

#define FRAME_HEAD_SIZE 15u /* length, key, version, correlation id, null client id, no tags */

/* Versions in which topics are named by id, so that none is taken for a younger one of its name. */
enum {
    VERSION_PRODUCE = 13,
    VERSION_FETCH = 16,
    VERSION_CREATE = 7,
    VERSION_DELETE = 6,
    VERSION_METADATA = 12,
    VERSION_PRODUCER_ID = 4,
    /* These know names only. */
    VERSION_OFFSETS = 10,
    VERSION_DELETE_RECORDS = 2,
    VERSION_ALTER = 1,
    VERSION_DESCRIBE = 4,
};

static const struct {
    int16_t key;
    int16_t version;
} apis[] = {
    [REQUEST_PRODUCE] = {API_PRODUCE, VERSION_PRODUCE},
    [REQUEST_FETCH] = {API_FETCH, VERSION_FETCH},
    [REQUEST_CREATE] = {API_CREATE_TOPICS, VERSION_CREATE},
    [REQUEST_DELETE] = {API_DELETE_TOPICS, VERSION_DELETE},
    [REQUEST_LIST] = {API_METADATA, VERSION_METADATA},
    [REQUEST_PRODUCER_ID] = {API_INIT_PRODUCER_ID, VERSION_PRODUCER_ID},
    [REQUEST_OFFSETS] = {API_LIST_OFFSETS, VERSION_OFFSETS},
    [REQUEST_TRIM] = {API_DELETE_RECORDS, VERSION_DELETE_RECORDS},
    [REQUEST_ALTER] = {API_INCREMENTAL_ALTER_CONFIGS, VERSION_ALTER},
    [REQUEST_DESCRIBE] = {API_DESCRIBE_CONFIGS, VERSION_DESCRIBE},
    [REQUEST_SESSION] = {API_FETCH, VERSION_FETCH},
};

/* ---------------------------------------------------------------- encode */

uint8_t *frame_encode(enum request_kind kind, int32_t correlation_id, const void *message,
                      uint32_t *size)
{
    const struct api *api = api_find(apis[kind].key);
    uint32_t body_size = 0;
    ASSERT(apis[kind].version >= api->flexible_from);
    status s = message_size(api->request, apis[kind].version, message, &body_size);
    ASSERT(status_is_ok(s));
    uint8_t *frame = calloc(1, FRAME_HEAD_SIZE + body_size);
    ASSERT(frame != NULL);
    *size = FRAME_HEAD_SIZE + body_size;
    store_be32(frame, *size - 4);
    store_be16(frame + 4, (uint16_t)apis[kind].key);
    store_be16(frame + 6, (uint16_t)apis[kind].version);
    store_be32(frame + 8, (uint32_t)correlation_id);
    store_be16(frame + 12, 0xffff);
    struct message_writer writer = {.buffer = frame + FRAME_HEAD_SIZE, .capacity = body_size};
    s = message_encode(api->request, apis[kind].version, message, &writer);
    ASSERT(status_is_ok(s));
    return frame;
}

static uint8_t *produce_encode(const struct request *request, int32_t correlation_id,
                               uint32_t *size)
{
    struct produce_request_partition_produce_data partition =
        produce_request_partition_produce_data_default;
    struct produce_request_topic_produce_data topic = produce_request_topic_produce_data_default;
    struct produce_request message = produce_request_default;
    partition.index = request->partition;
    partition.records = request->batch;
    topic.topic_id = request->topic->id;
    topic.partition_data = &partition;
    topic.partition_data_count = 1;
    int16_t acks = request->acks_none ? 0 : 1;
    message.acks = request->acks_all && !request->acks_none ? -1 : acks;
    message.timeout_ms = TIMEOUT_MS;
    message.topic_data = &topic;
    message.topic_data_count = 1;
    return frame_encode(request->kind, correlation_id, &message, size);
}

static uint8_t *fetch_encode(const struct request *request, int32_t correlation_id, uint32_t *size)
{
    struct fetch_request_fetch_partition partition = fetch_request_fetch_partition_default;
    struct fetch_request_fetch_topic topic = fetch_request_fetch_topic_default;
    struct fetch_request message = fetch_request_default;
    partition.partition = request->partition;
    partition.fetch_offset = request->offset;
    partition.partition_max_bytes = (int32_t)request->size_max;
    topic.topic_id = request->topic->id;
    topic.partitions = &partition;
    topic.partitions_count = 1;
    message.max_wait_ms = (int32_t)(request->size_max % 3) * 5; /* Some wait for news, some not. */
    message.min_bytes = 1;
    message.topics = &topic;
    message.topics_count = 1;
    message.rack_id = bytes_of("");
    return frame_encode(request->kind, correlation_id, &message, size);
}

static uint8_t *create_encode(const struct request *request, int32_t correlation_id, uint32_t *size)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof(name), "topic%u", request->topic->name);
    struct create_topics_request_creatable_topic topic =
        create_topics_request_creatable_topic_default;
    struct create_topics_request message = create_topics_request_default;
    topic.name = bytes_of(name);
    topic.num_partitions = (int32_t)request->topic->partition_count;
    topic.replication_factor = -1;
    message.topics = &topic;
    message.topics_count = 1;
    message.timeout_ms = TIMEOUT_MS;
    return frame_encode(request->kind, correlation_id, &message, size);
}

static uint8_t *delete_encode(const struct request *request, int32_t correlation_id, uint32_t *size)
{
    struct delete_topics_request_delete_topic_state topic =
        delete_topics_request_delete_topic_state_default;
    struct delete_topics_request message = delete_topics_request_default;
    topic.topic_id = request->topic->id;
    message.topics = &topic;
    message.topics_count = 1;
    message.timeout_ms = TIMEOUT_MS;
    return frame_encode(request->kind, correlation_id, &message, size);
}

uint8_t *wire_encode(const struct request *request, int32_t correlation_id, uint32_t *size)
{
    switch (request->kind) {
    case REQUEST_PRODUCE:
        return produce_encode(request, correlation_id, size);
    case REQUEST_FETCH:
        return fetch_encode(request, correlation_id, size);
    case REQUEST_CREATE:
        return create_encode(request, correlation_id, size);
    case REQUEST_DELETE:
        return delete_encode(request, correlation_id, size);
    case REQUEST_LIST: {
        struct metadata_request message = metadata_request_default;
        message.topics_count = -1; /* All. */
        message.allow_auto_topic_creation = false;
        return frame_encode(request->kind, correlation_id, &message, size);
    }
    case REQUEST_OFFSETS:
        return offsets_encode(request, correlation_id, size);
    case REQUEST_TRIM:
        return trim_encode(request, correlation_id, size);
    case REQUEST_ALTER:
        return alter_encode(request, correlation_id, size);
    case REQUEST_DESCRIBE:
        return describe_encode(request, correlation_id, size);
    case REQUEST_SESSION:
        return session_encode(request, correlation_id, size);
    default:
        break;
    }
    struct init_producer_id_request message = init_producer_id_request_default;
    message.transactional_id = BYTES_NULL;
    return frame_encode(request->kind, correlation_id, &message, size);
}

/* ---------------------------------------------------------------- decode */

enum reply reply_of(int16_t error)
{
    switch (error) {
    case KAFKA_NONE:
        return REPLY_OK;
    case KAFKA_UNKNOWN_TOPIC_OR_PARTITION:
    case KAFKA_UNKNOWN_TOPIC_ID:
        return REPLY_GONE;
    case KAFKA_KAFKA_STORAGE_ERROR:
    case KAFKA_REQUEST_TIMED_OUT:
    case KAFKA_COORDINATOR_NOT_AVAILABLE: /* No producer id from a log that is offline. */
        return REPLY_FAILED;
    case KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER:
        return REPLY_OUT_OF_ORDER;
    case KAFKA_OFFSET_OUT_OF_RANGE:
        return REPLY_OUT_OF_RANGE;
    case KAFKA_CORRUPT_MESSAGE:
        return REPLY_DAMAGED;
    case KAFKA_FETCH_SESSION_ID_NOT_FOUND:
    case KAFKA_INVALID_FETCH_SESSION_EPOCH:
        return REPLY_NO_SESSION;
    case KAFKA_TOPIC_ALREADY_EXISTS:
        return REPLY_EXISTS;
    default:
        violation("a client gets error %d", error);
    }
}

void count_check(int32_t count)
{
    if (count != 1) {
        violation("an answer is about %d topics or partitions and not about one", count);
    }
}

static void produce_take(struct request *request, const struct produce_response *message)
{
    count_check(message->responses_count);
    count_check(message->responses[0].partition_responses_count);
    request->reply = reply_of(message->responses[0].partition_responses[0].error_code);
    request->base_offset = message->responses[0].partition_responses[0].base_offset;
}

static void fetch_take(struct request *request, const struct fetch_response *message)
{
    request->reply = reply_of(message->error_code);
    if (request->reply != REPLY_OK) {
        return;
    }
    count_check(message->responses_count);
    count_check(message->responses[0].partitions_count);
    const struct fetch_response_partition_data *partition = &message->responses[0].partitions[0];
    request->reply = reply_of(partition->error_code);
    request->high_watermark = partition->high_watermark;
    request->log_start = partition->log_start_offset;
    if (request->reply == REPLY_OK && partition->records.size > 0) {
        request->data = malloc(partition->records.size);
        ASSERT(request->data != NULL);
        memcpy(request->data, partition->records.data, partition->records.size);
        request->size = partition->records.size;
    }
}

static void list_take(struct request *request, const struct metadata_response *message)
{
    request->reply = REPLY_OK;
    request->listed_count = 0;
    for (int32_t i = 0; i < message->topics_count; i++) {
        const struct metadata_response_topic *topic = &message->topics[i];
        char name[NAME_SIZE];
        uint32_t number = 0;
        snprintf(name, sizeof(name), "%.*s", (int)topic->name.size, (const char *)topic->name.data);
        if (topic->is_internal) {
            continue;
        }
        if (sscanf(name, "topic%u", &number) != 1 || number >= MODEL_NAMES ||
            request->listed_count == MODEL_NAMES || topic->error_code != KAFKA_NONE) {
            violation("topic %s is listed with error %d", name, topic->error_code);
        }
        request->listed[request->listed_count++] =
            (struct model_listed){number, topic->topic_id, (uint32_t)topic->partitions_count};
    }
}

static void message_take(struct request *request, const void *message)
{
    switch (request->kind) {
    case REQUEST_PRODUCE:
        produce_take(request, message);
        return;
    case REQUEST_FETCH:
        fetch_take(request, message);
        return;
    case REQUEST_CREATE: {
        const struct create_topics_response *created = message;
        count_check(created->topics_count);
        request->reply = reply_of(created->topics[0].error_code);
        request->topic_id = created->topics[0].topic_id;
        return;
    }
    case REQUEST_DELETE: {
        const struct delete_topics_response *deleted = message;
        count_check(deleted->responses_count);
        request->reply = reply_of(deleted->responses[0].error_code);
        return;
    }
    case REQUEST_LIST:
        list_take(request, message);
        return;
    case REQUEST_PRODUCER_ID: {
        const struct init_producer_id_response *given = message;
        request->reply = reply_of(given->error_code);
        request->producer_id = given->producer_id;
        return;
    }
    case REQUEST_OFFSETS:
        offsets_take(request, message);
        return;
    case REQUEST_TRIM:
        trim_take(request, message);
        return;
    case REQUEST_ALTER:
        alter_take(request, message);
        return;
    case REQUEST_DESCRIBE:
        describe_take(request, message);
        return;
    default:
        session_take(request, message);
        return;
    }
}

void wire_decode(struct request *request, int32_t correlation_id, struct bytes frame,
                 struct arena *arena)
{
    const struct api *api = api_find(apis[request->kind].key);
    int16_t version = apis[request->kind].version;
    uint32_t start = 4 + (uint32_t)api_response_header_version(api, version);
    if (frame.size < start || load_be32(frame.data) != (uint32_t)correlation_id) {
        violation("an answer does not belong to the request that it follows");
    }
    void *message = arena_array(arena, 1, message_type_size(api->response));
    ASSERT(message != NULL);
    status s =
        message_decode(api->response, version,
                       (struct bytes){frame.data + start, frame.size - start}, arena, message);
    if (!status_is_ok(s)) {
        violation("an answer to %s cannot be decoded: %s", api->name, status_text(s));
    }
    message_take(request, message);
}
