#include "wire_facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "twinlog/protocol/kafka_error.h"

#include "violation.h"

#define RESOURCE_TOPIC   2
#define OPERATION_DELETE 1
#define SOURCE_TOPIC     1 /* of a setting: the topic's own */
#define VALUE_SIZE       24u

/* None changes what clients see of records; each stands in records and in the image of topics. */
static const char *const setting_names[MODEL_SETTINGS] = {"max.message.bytes", "flush.messages",
                                                          "index.interval.bytes"};

static void topic_name(const struct request *request, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "topic%u", request->topic->name);
}

/* ---------------------------------------------------------------- offsets */

uint8_t *offsets_encode(const struct request *request, int32_t correlation_id, uint32_t *size)
{
    char name[NAME_SIZE];
    topic_name(request, name);
    struct list_offsets_request_list_offsets_partition partition =
        list_offsets_request_list_offsets_partition_default;
    struct list_offsets_request_list_offsets_topic topic =
        list_offsets_request_list_offsets_topic_default;
    struct list_offsets_request message = list_offsets_request_default;
    partition.partition_index = request->partition;
    partition.timestamp = request->timestamp;
    topic.name = bytes_of(name);
    topic.partitions = &partition;
    topic.partitions_count = 1;
    message.replica_id = -1;
    message.topics = &topic;
    message.topics_count = 1;
    message.timeout_ms = TIMEOUT_MS;
    return frame_encode(request->kind, correlation_id, &message, size);
}

void offsets_take(struct request *request, const struct list_offsets_response *message)
{
    count_check(message->topics_count);
    count_check(message->topics[0].partitions_count);
    const struct list_offsets_response_list_offsets_partition_response *partition =
        &message->topics[0].partitions[0];
    request->reply = reply_of(partition->error_code);
    request->base_offset = partition->offset;
    request->found_timestamp = partition->timestamp;
}

uint8_t *trim_encode(const struct request *request, int32_t correlation_id, uint32_t *size)
{
    char name[NAME_SIZE];
    topic_name(request, name);
    struct delete_records_request_delete_records_partition partition =
        delete_records_request_delete_records_partition_default;
    struct delete_records_request_delete_records_topic topic =
        delete_records_request_delete_records_topic_default;
    struct delete_records_request message = delete_records_request_default;
    partition.partition_index = request->partition;
    partition.offset = request->offset;
    topic.name = bytes_of(name);
    topic.partitions = &partition;
    topic.partitions_count = 1;
    message.topics = &topic;
    message.topics_count = 1;
    message.timeout_ms = TIMEOUT_MS;
    return frame_encode(request->kind, correlation_id, &message, size);
}

void trim_take(struct request *request, const struct delete_records_response *message)
{
    count_check(message->topics_count);
    count_check(message->topics[0].partitions_count);
    request->reply = reply_of(message->topics[0].partitions[0].error_code);
    request->base_offset = message->topics[0].partitions[0].low_watermark;
}

/* ---------------------------------------------------------------- settings */

uint8_t *alter_encode(const struct request *request, int32_t correlation_id, uint32_t *size)
{
    char name[NAME_SIZE];
    char value[VALUE_SIZE];
    topic_name(request, name);
    snprintf(value, sizeof(value), "%" PRId64, request->value);
    struct incremental_alter_configs_request_alterable_config config =
        incremental_alter_configs_request_alterable_config_default;
    struct incremental_alter_configs_request_alter_configs_resource resource =
        incremental_alter_configs_request_alter_configs_resource_default;
    struct incremental_alter_configs_request message = incremental_alter_configs_request_default;
    config.name = bytes_of(setting_names[request->setting]);
    config.config_operation = request->value == MODEL_DEFAULT ? OPERATION_DELETE : 0;
    config.value = request->value == MODEL_DEFAULT ? BYTES_NULL : bytes_of(value);
    resource.resource_type = RESOURCE_TOPIC;
    resource.resource_name = bytes_of(name);
    resource.configs = &config;
    resource.configs_count = 1;
    message.resources = &resource;
    message.resources_count = 1;
    return frame_encode(request->kind, correlation_id, &message, size);
}

void alter_take(struct request *request, const struct incremental_alter_configs_response *message)
{
    count_check(message->responses_count);
    request->reply = reply_of(message->responses[0].error_code);
}

uint8_t *describe_encode(const struct request *request, int32_t correlation_id, uint32_t *size)
{
    char name[NAME_SIZE];
    topic_name(request, name);
    struct bytes key = bytes_of(setting_names[request->setting]);
    struct describe_configs_request_describe_configs_resource resource =
        describe_configs_request_describe_configs_resource_default;
    struct describe_configs_request message = describe_configs_request_default;
    resource.resource_type = RESOURCE_TOPIC;
    resource.resource_name = bytes_of(name);
    resource.configuration_keys = &key;
    resource.configuration_keys_count = 1;
    message.resources = &resource;
    message.resources_count = 1;
    return frame_encode(request->kind, correlation_id, &message, size);
}

void describe_take(struct request *request, const struct describe_configs_response *message)
{
    count_check(message->results_count);
    request->reply = reply_of(message->results[0].error_code);
    if (request->reply != REPLY_OK) {
        return;
    }
    count_check(message->results[0].configs_count);
    const struct describe_configs_response_describe_configs_resource_result *config =
        &message->results[0].configs[0];
    char value[VALUE_SIZE];
    snprintf(value, sizeof(value), "%.*s", (int)config->value.size,
             (const char *)config->value.data);
    request->value =
        config->config_source == SOURCE_TOPIC ? strtoll(value, NULL, 10) : MODEL_DEFAULT;
}

/* ---------------------------------------------------------------- sessions */

struct topics {
    struct fetch_request_fetch_topic topics[SESSION_PARTITIONS];
    struct fetch_request_fetch_partition partitions[SESSION_PARTITIONS];
    struct fetch_request_forgotten_topic forgotten[SESSION_PARTITIONS];
    int32_t forgotten_partitions[SESSION_PARTITIONS];
};

/* One entry for each partition: a topic may stand in a request more than once. */
static void topics_fill(struct topics *topics, const struct request *request)
{
    const struct session_fetch *fetch = request->session;
    for (uint32_t i = 0; i < fetch->added_count; i++) {
        topics->partitions[i] = fetch_request_fetch_partition_default;
        topics->partitions[i].partition = fetch->added[i].partition->index;
        topics->partitions[i].fetch_offset = fetch->added[i].offset;
        topics->partitions[i].partition_max_bytes = (int32_t)request->size_max;
        topics->topics[i] = fetch_request_fetch_topic_default;
        topics->topics[i].topic_id = fetch->added[i].partition->topic->id;
        topics->topics[i].partitions = &topics->partitions[i];
        topics->topics[i].partitions_count = 1;
    }
    for (uint32_t i = 0; i < fetch->forgotten_count; i++) {
        topics->forgotten_partitions[i] = fetch->forgotten[i]->index;
        topics->forgotten[i] = fetch_request_forgotten_topic_default;
        topics->forgotten[i].topic_id = fetch->forgotten[i]->topic->id;
        topics->forgotten[i].partitions = &topics->forgotten_partitions[i];
        topics->forgotten[i].partitions_count = 1;
    }
}

uint8_t *session_encode(const struct request *request, int32_t correlation_id, uint32_t *size)
{
    struct topics topics;
    struct fetch_request message = fetch_request_default;
    topics_fill(&topics, request);
    message.session_id = request->session->id;
    message.session_epoch = request->session->epoch;
    message.max_wait_ms = (int32_t)(request->size_max % 3) * 5;
    message.min_bytes = 1;
    message.topics = topics.topics;
    message.topics_count = (int32_t)request->session->added_count;
    message.forgotten_topics_data = topics.forgotten;
    message.forgotten_topics_data_count = (int32_t)request->session->forgotten_count;
    message.rack_id = bytes_of("");
    return frame_encode(request->kind, correlation_id, &message, size);
}

static void result_take(struct session_result *result, const struct uuid *topic_id,
                        const struct fetch_response_partition_data *partition)
{
    *result = (struct session_result){.topic_id = *topic_id,
                                      .partition = partition->partition_index,
                                      .reply = reply_of(partition->error_code),
                                      .high_watermark = partition->high_watermark,
                                      .log_start = partition->log_start_offset};
    if (result->reply == REPLY_OK && partition->records.size > 0) {
        result->data = malloc(partition->records.size);
        ASSERT(result->data != NULL);
        memcpy(result->data, partition->records.data, partition->records.size);
        result->size = partition->records.size;
    }
}

void session_take(struct request *request, const struct fetch_response *message)
{
    struct session_fetch *fetch = request->session;
    request->reply = reply_of(message->error_code);
    fetch->given_id = message->session_id;
    for (int32_t i = 0; i < message->responses_count; i++) {
        const struct fetch_response_fetchable_topic_response *topic = &message->responses[i];
        for (int32_t j = 0; j < topic->partitions_count; j++) {
            if (fetch->result_count == SESSION_PARTITIONS) {
                violation("a session answers more partitions than it has");
            }
            result_take(&fetch->results[fetch->result_count++], &topic->topic_id,
                        &topic->partitions[j]);
        }
    }
}
