/*
 * ListOffsets: the offset at a time or at an end of the log. Ends are known; times are looked up
 * one after the other, each off the loop when it has to read.
 */
#include "twinlog/core/assert.h"

#include "../shard.h"

/* Kafka's special timestamps, each from its version on. */
#define LATEST                  (-1) /* the end */
#define EARLIEST                (-2) /* log start offset */
#define MAX_TIMESTAMP           (-3) /* KIP-734 */
#define EARLIEST_LOCAL          (-4) /* KIP-405: here all is local */
#define LATEST_TIERED           (-5) /* KIP-1005: nothing is */
#define EARLIEST_PENDING_UPLOAD (-6)

typedef struct list_offsets_response_list_offsets_partition_response partition_response;

struct list_offsets {
    struct request *request;
    struct shard *shard;
    struct list_offsets_request message;
    struct list_offsets_response response;
    int32_t topic_at;
    int32_t partition_at;
    struct log_time_lookup lookup;
};

static void list_offsets_step(struct list_offsets *list);

static const struct list_offsets_request_list_offsets_partition *
current_asked(const struct list_offsets *list)
{
    return &list->message.topics[list->topic_at].partitions[list->partition_at];
}

static partition_response *current_out(const struct list_offsets *list)
{
    return &list->response.topics[list->topic_at].partitions[list->partition_at];
}

static struct partition *current_partition(const struct list_offsets *list)
{
    struct topic *topic =
        metadata_topic_by_name(&list->shard->metadata, list->message.topics[list->topic_at].name);
    return topic == NULL ? NULL : topic_partition(topic, current_asked(list)->partition_index);
}

static bool timestamp_is_supported(int64_t timestamp, int16_t version)
{
    static const int16_t version_min[] = {1, 1, 7, 8, 9, 11};
    return timestamp >= 0 ||
           (timestamp >= EARLIEST_PENDING_UPLOAD && version >= version_min[-timestamp - 1]);
}

static void out_set(partition_response *out, int64_t offset, int64_t timestamp, int32_t epoch)
{
    out->offset = offset;
    out->timestamp = timestamp;
    out->leader_epoch = epoch;
}

static void lookup_take(struct list_offsets *list)
{
    partition_response *out = current_out(list);
    if (!status_is_ok(list->lookup.result)) {
        out->error_code = (int16_t)error_of_status(list->lookup.result);
        return;
    }
    out_set(out, list->lookup.offset, list->lookup.found_timestamp,
            list->lookup.offset < 0 ? -1 : list->lookup.leader_epoch);
}

static void lookup_done(struct log_time_lookup *lookup)
{
    struct list_offsets *list = lookup->context;
    lookup_take(list);
    list->partition_at++;
    list_offsets_step(list);
}

/* True: answered; false: lookup_done() goes on. */
static bool partition_step(struct list_offsets *list)
{
    const struct list_offsets_request_list_offsets_partition *asked = current_asked(list);
    partition_response *out = current_out(list);
    *out = list_offsets_response_list_offsets_partition_response_default;
    out->partition_index = asked->partition_index;
    struct partition *partition = current_partition(list);
    if (partition == NULL) {
        out->error_code = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
        return true;
    }
    struct partition_offsets offsets = log_partition_offsets(partition);
    enum kafka_error error =
        error_of_leader_epoch(asked->current_leader_epoch, offsets.leader_epoch);
    if (!timestamp_is_supported(asked->timestamp, list->request->version)) {
        error = KAFKA_UNSUPPORTED_VERSION;
    }
    if (error != KAFKA_NONE) {
        out->error_code = (int16_t)error;
        return true;
    }
    switch (asked->timestamp) {
    case LATEST:
        out_set(out,
                list->message.isolation_level == 1 ? offsets.last_stable : offsets.high_watermark,
                -1, offsets.leader_epoch);
        return true;
    case EARLIEST:
    case EARLIEST_LOCAL:
        out_set(out, offsets.log_start, -1, log_epoch_at(partition, offsets.log_start));
        return true;
    case LATEST_TIERED:
    case EARLIEST_PENDING_UPLOAD:
        out_set(out, -1, -1, -1);
        return true;
    default:
        break;
    }
    list->lookup = (struct log_time_lookup){
        .timestamp = asked->timestamp,
        .find_max = asked->timestamp == MAX_TIMESTAMP,
        .fn = lookup_done,
        .context = list,
    };
    if (!log_time_lookup_start(list->shard->log, partition, &list->lookup)) {
        return false;
    }
    lookup_take(list);
    return true;
}

static void list_offsets_step(struct list_offsets *list)
{
    while (list->topic_at < list->response.topics_count) {
        while (list->partition_at < list->response.topics[list->topic_at].partitions_count) {
            if (!partition_step(list)) {
                return;
            }
            list->partition_at++;
        }
        list->topic_at++;
        list->partition_at = 0;
    }
    (void)request_respond(list->request, &list->response);
}

static status response_init(struct list_offsets *list)
{
    struct arena *arena = request_arena(list->request);
    size_t count = (size_t)MAX(list->message.topics_count, 0);
    list->response = list_offsets_response_default;
    list->response.topics = arena_array(arena, count, sizeof(*list->response.topics));
    if (list->response.topics == NULL) {
        return STATUS(NO_MEMORY);
    }
    list->response.topics_count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        struct list_offsets_response_list_offsets_topic_response *out = &list->response.topics[i];
        int32_t partition_count = MAX(list->message.topics[i].partitions_count, 0);
        out->name = list->message.topics[i].name;
        out->partitions = arena_array(arena, (size_t)partition_count, sizeof(*out->partitions));
        if (out->partitions == NULL) {
            return STATUS(NO_MEMORY);
        }
        out->partitions_count = partition_count;
    }
    return OK;
}

enum net_verdict handle_list_offsets(struct shard *shard, struct request *request)
{
    struct arena *arena = request_arena(request);
    struct list_offsets *list = arena_array(arena, 1, sizeof(*list));
    if (list == NULL || !status_is_ok(request_decode(request, arena, &list->message))) {
        return NET_CLOSE;
    }
    list->request = request;
    list->shard = shard;
    request->state = list;
    if (!status_is_ok(response_init(list))) {
        return request_refuse(request, "no memory for its partitions");
    }
    list_offsets_step(list);
    return NET_TAKEN;
}
