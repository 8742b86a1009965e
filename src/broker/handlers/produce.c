/*
 * Produce: the short path. The request is decoded into scratch memory, each batch is judged and
 * copied into the log, and the answer is encoded at once, offsets and all: the log has given them.
 * What is left is to wait for the sync (acks=1) or the commit (acks=all) and to send the answer.
 * Only when that wait fails is the answer read again and its partitions given the error.
 *
 * A log that is full parks the request: its frame and the partitions that are done are kept, the
 * connection reads no further, and produce_resume() goes on where it stopped (I8).
 */
#include "twinlog/core/assert.h"
#include "twinlog/core/crc32c.h"
#include "twinlog/core/trace.h"

#include "../shard.h"

#define ACKS_ALL  (-1)
#define ACKS_NONE 0

#define BATCH_CRC_OFFSET           17
#define BATCH_ATTRIBUTES_OFFSET    21
#define BATCH_MAX_TIMESTAMP_OFFSET 35

typedef struct produce_response_partition_produce_response partition_response;

/* One run over a request. */
struct produce {
    struct shard *shard;
    struct request *request;
    struct produce_request message;
    struct produce_response response;
    struct batch_rules rules;
    int64_t wall_ms;
    uint64_t lsn; /* what to wait for; 0: nothing */
    uint32_t done_count;
    bool failed; /* a partition has an error */
    bool parked;
};

/* What a parked request keeps in its arena. */
struct produce_parked {
    uint64_t lsn;
    uint32_t done_count;
    bool failed;
    partition_response done[];
};

/* ---------------------------------------------------------------- one partition */

static void partition_fail(struct produce *p, partition_response *out, enum kafka_error error,
                           const char *message)
{
    out->error_code = (int16_t)error;
    out->base_offset = -1;
    out->log_append_time_ms = -1;
    out->error_message = message == NULL ? BYTES_NULL : bytes_of(message);
    p->failed = true;
}

/*
 * Kafka tells the log start offset beside an error, unless the bytes or the log are at fault. An
 * idempotent producer sees by it whether the records it wrote before are still there (KIP-360).
 */
static void partition_tell_log_start(partition_response *out, const struct partition *partition)
{
    switch (out->error_code) {
    case KAFKA_CORRUPT_MESSAGE:
    case KAFKA_MESSAGE_TOO_LARGE:
    case KAFKA_RECORD_LIST_TOO_LARGE:
    case KAFKA_STORAGE_ERROR:
        return;
    default:
        out->log_start_offset = log_partition_offsets(partition).log_start;
    }
}

/* A record of the batch is at fault: Java's client tells which (KIP-467). */
static void partition_fail_record(struct produce *p, partition_response *out,
                                  enum kafka_error error, const struct batch_fault *fault)
{
    partition_fail(p, out, error, fault->message);
    if (fault->record_index < 0) {
        return;
    }
    /* In the request's arena: it outlives a park. */
    struct produce_response_batch_index_and_error_message *record =
        arena_array(request_arena(p->request), 1, sizeof(*record));
    if (record != NULL) {
        record->batch_index = fault->record_index;
        record->batch_index_error_message = bytes_of(fault->message);
        out->record_errors = record;
        out->record_errors_count = 1;
    }
}

static void rules_of_topic(struct produce *p, const struct topic *topic)
{
    const struct topic_config *config = &topic->config;
    p->rules = (struct batch_rules){
        .size_max = (uint32_t)config->message_size_max,
        .compacted = config->compacted,
        .now_ms = p->wall_ms,
        .timestamp_before_max =
            config->log_append_time ? INT64_MAX : config->timestamp_before_ms_max,
        .timestamp_after_max = config->log_append_time ? INT64_MAX : config->timestamp_after_ms_max,
        .idempotence_only = true,
    };
}

/*
 * LogAppendTime: the batch carries the broker's clock as its largest timestamp, which readers take
 * for all its records. The received bytes are not ours to change, so this path copies.
 */
static struct bytes batch_set_append_time(struct produce *p, struct bytes batch,
                                          struct batch_header *header)
{
    uint8_t *copy = arena_alloc(&p->shard->scratch, batch.size);
    if (copy == NULL) {
        return BYTES_NULL;
    }
    memcpy(copy, batch.data, batch.size);
    header->attributes = (int16_t)(header->attributes | BATCH_LOG_APPEND_TIME);
    header->max_timestamp = p->wall_ms;
    store_be16(copy + BATCH_ATTRIBUTES_OFFSET, (uint16_t)header->attributes);
    store_be64(copy + BATCH_MAX_TIMESTAMP_OFFSET, (uint64_t)header->max_timestamp);
    header->crc = crc32c(0, copy + BATCH_ATTRIBUTES_OFFSET, batch.size - BATCH_ATTRIBUTES_OFFSET);
    store_be32(copy + BATCH_CRC_OFFSET, header->crc);
    return (struct bytes){copy, batch.size};
}

/* What forbids an append to the topic before its batch is looked at. */
static enum kafka_error topic_judge(const struct produce *p, const struct topic *topic,
                                    const char **message)
{
    if (topic->internal) {
        *message = "Cannot append to an internal topic";
        return KAFKA_INVALID_TOPIC_EXCEPTION;
    }
    /* One node is in sync, itself. */
    if (p->message.acks == ACKS_ALL && topic->config.min_insync_replicas > 1) {
        *message = "Fewer replicas are in sync than min.insync.replicas";
        return KAFKA_NOT_ENOUGH_REPLICAS;
    }
    if (p->shard->disk_full) {
        *message = "The disk is nearly full";
        return KAFKA_STORAGE_ERROR;
    }
    return KAFKA_NONE;
}

/* Appends a batch that passed. False: the log is full and nothing happened. */
static bool partition_append(struct produce *p, const struct topic *topic,
                             struct partition *partition, struct bytes batch,
                             struct batch_header *header, partition_response *out)
{
    if (topic->config.log_append_time) {
        batch = batch_set_append_time(p, batch, header);
        if (bytes_is_null(batch)) {
            partition_fail(p, out, KAFKA_UNKNOWN_SERVER_ERROR, "out of memory");
            return true;
        }
    }
    struct log_appended appended;
    status result = log_append(p->shard->log, partition, batch, header, &appended);
    if (result.code == STATUS_FULL) {
        return false;
    }
    if (!status_is_ok(result)) {
        partition_fail(p, out, error_of_status(result), status_text(result));
        return true;
    }
    enum kafka_error error = error_of_verdict(appended.verdict);
    if (error != KAFKA_NONE) {
        partition_fail(p, out, error, kafka_error_text(error));
        partition_tell_log_start(out, partition);
        return true;
    }
    out->base_offset = appended.base_offset;
    out->log_append_time_ms = topic->config.log_append_time && appended.verdict == LOG_APPENDED
                                  ? p->wall_ms
                                  : appended.log_append_time_ms;
    out->log_start_offset = log_partition_offsets(partition).log_start;
    p->lsn = MAX(p->lsn, appended.lsn);
    return true;
}

/* False: the log is full and nothing happened. */
static bool produce_partition(struct produce *p, const struct topic *topic,
                              enum kafka_error topic_error, const char *topic_message,
                              const struct produce_request_partition_produce_data *data,
                              partition_response *out)
{
    *out = produce_response_partition_produce_response_default;
    out->index = data->index;
    struct partition *partition = topic == NULL ? NULL : topic_partition(topic, data->index);
    if (topic_error == KAFKA_NONE && partition == NULL) {
        topic_error = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    }
    if (topic_error != KAFKA_NONE) {
        partition_fail(p, out, topic_error, topic_message);
        return true;
    }
    struct batch_header header;
    struct batch_fault fault = {.record_index = -1};
    enum kafka_error error = batch_validate(data->records, &p->rules, &header, &fault);
    if (error != KAFKA_NONE) {
        partition_fail_record(p, out, error, &fault);
        partition_tell_log_start(out, partition);
        return true;
    }
    return partition_append(p, topic, partition, data->records, &header, out);
}

/* ---------------------------------------------------------------- all partitions */

static struct topic *produce_find_topic(struct produce *p,
                                        const struct produce_request_topic_produce_data *data,
                                        enum kafka_error *error)
{
    bool by_id = p->request->version >= 13;
    struct topic *topic = by_id ? metadata_topic_by_id(&p->shard->metadata, &data->topic_id)
                                : metadata_topic_by_name(&p->shard->metadata, data->name);
    *error = topic != NULL ? KAFKA_NONE
             : by_id       ? KAFKA_UNKNOWN_TOPIC_ID
                           : KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    return topic;
}

/*
 * Partitions that were done before a park are not done again; `resumed` holds their answers.
 * False: the log is full; p->done_count says how far it got.
 */
static bool produce_topic(struct produce *p, int32_t topic_index,
                          const struct produce_parked *resumed, uint32_t *position)
{
    const struct produce_request_topic_produce_data *data = &p->message.topic_data[topic_index];
    struct produce_response_topic_produce_response *out = &p->response.responses[topic_index];
    enum kafka_error error;
    const char *message = NULL;
    struct topic *topic = produce_find_topic(p, data, &error);
    if (topic != NULL) {
        error = topic_judge(p, topic, &message);
        rules_of_topic(p, topic);
    }
    for (int32_t i = 0; i < data->partition_data_count; i++, (*position)++) {
        if (resumed != NULL && *position < resumed->done_count) {
            out->partition_responses[i] = resumed->done[*position];
            continue;
        }
        if (!produce_partition(p, topic, error, message, &data->partition_data[i],
                               &out->partition_responses[i])) {
            return false;
        }
        p->done_count++;
    }
    return true;
}

static status produce_response_init(struct produce *p)
{
    struct arena *arena = &p->shard->scratch;
    int32_t count = MAX(p->message.topic_data_count, 0);
    p->response = produce_response_default;
    p->response.responses = arena_array(arena, (size_t)count, sizeof(*p->response.responses));
    if (p->response.responses == NULL) {
        return STATUS(NO_MEMORY);
    }
    p->response.responses_count = count;
    for (int32_t i = 0; i < count; i++) {
        const struct produce_request_topic_produce_data *data = &p->message.topic_data[i];
        struct produce_response_topic_produce_response *out = &p->response.responses[i];
        size_t partition_count = (size_t)MAX(data->partition_data_count, 0);
        out->name = data->name;
        out->topic_id = data->topic_id;
        out->partition_responses =
            arena_array(arena, partition_count, sizeof(*out->partition_responses));
        if (out->partition_responses == NULL) {
            return STATUS(NO_MEMORY);
        }
        out->partition_responses_count = (int32_t)partition_count;
    }
    return OK;
}

/* Kafka refuses the whole request: every partition gets the error. */
static void produce_fail_all(struct produce *p, enum kafka_error error)
{
    for (int32_t i = 0; i < p->response.responses_count; i++) {
        struct produce_response_topic_produce_response *topic = &p->response.responses[i];
        for (int32_t j = 0; j < topic->partition_responses_count; j++) {
            topic->partition_responses[j] = produce_response_partition_produce_response_default;
            topic->partition_responses[j].index = p->message.topic_data[i].partition_data[j].index;
            partition_fail(p, &topic->partition_responses[j], error, kafka_error_text(error));
        }
    }
}

/* ---------------------------------------------------------------- the answer */

static void produce_patch(struct produce_response *response, enum kafka_error error)
{
    for (int32_t i = 0; i < response->responses_count; i++) {
        for (int32_t j = 0; j < response->responses[i].partition_responses_count; j++) {
            partition_response *out = &response->responses[i].partition_responses[j];
            if (out->error_code == KAFKA_NONE) {
                out->error_code = (int16_t)error;
                out->base_offset = -1;
                out->log_append_time_ms = -1;
            }
        }
    }
}

/* The batches are not durable and never will be: reads the encoded answer back and corrects it. */
static void produce_answer_failed(struct request *request, enum kafka_error error)
{
    const struct api *api = request->entry->api;
    struct iovec *range = &request->net.ranges[0];
    uint32_t start = 8U + (uint32_t)api_response_header_version(api, request->version);
    struct bytes body = {(const uint8_t *)range->iov_base + start,
                         (uint32_t)range->iov_len - start};
    struct arena *arena = request_arena(request);
    struct produce_response response;
    uint8_t *copy = arena_alloc(arena, body.size);
    if (copy != NULL) {
        /* Strings are views, and encoding writes over what was encoded. */
        body.data = memcpy(copy, body.data, body.size);
    }
    if (copy == NULL ||
        !status_is_ok(message_decode(api->response, request->version, body, arena, &response))) {
        request_close(request, "the log failed and its answer cannot be built");
        return;
    }
    produce_patch(&response, error);
    (void)request_respond(request, &response);
}

static void produce_on_durable(struct log_wait *wait)
{
    struct request *request = wait->context;
    if (!status_is_ok(wait->result)) {
        produce_answer_failed(request, error_of_status(wait->result));
        return;
    }
    metrics_observe(&request->shard->metrics.produce_durable,
                    io_now_ns(request->shard->io) - request->arrived_ns);
    net_request_answer(&request->net);
}

static enum net_verdict produce_answer_none(struct produce *p)
{
    /* acks=0 has no response; an error shows as a closed connection, so that the client looks. */
    if (p->failed) {
        request_close(p->request, "a batch sent with acks=0 was refused");
        return NET_TAKEN;
    }
    p->request->net.range_count = 0;
    net_request_answer(&p->request->net);
    return NET_TAKEN;
}

static enum net_verdict produce_finish(struct produce *p)
{
    struct request *request = p->request;
    if (p->message.acks == ACKS_NONE) {
        return produce_answer_none(p);
    }
    if (p->lsn == 0) {
        return request_respond(request, &p->response);
    }
    if (!status_is_ok(request_encode(request, &p->response))) {
        net_request_close(&request->net);
        return NET_TAKEN;
    }
    request->wait.context = request;
    if (p->message.acks == ACKS_ALL) {
        log_wait_committed(p->shard->log, &request->wait, p->lsn, produce_on_durable);
    } else {
        log_wait_synced(p->shard->log, &request->wait, p->lsn, produce_on_durable);
    }
    return NET_TAKEN;
}

/* ---------------------------------------------------------------- park and resume */

static void produce_resume(struct request *request);

/* Keeps what is done so far; request->body is kept memory already. */
static bool produce_park(struct produce *p, const struct produce_parked *resumed)
{
    uint32_t before = resumed == NULL ? 0 : resumed->done_count;
    uint32_t count = before + p->done_count;
    struct produce_parked *parked = arena_alloc(
        request_arena(p->request), sizeof(*parked) + (size_t)count * sizeof(partition_response));
    if (parked == NULL) {
        return false;
    }
    *parked = (struct produce_parked){.lsn = p->lsn, .done_count = count, .failed = p->failed};
    uint32_t position = 0;
    for (int32_t i = 0; i < p->response.responses_count; i++) {
        const struct produce_response_topic_produce_response *topic = &p->response.responses[i];
        for (int32_t j = 0; j < topic->partition_responses_count && position < count; j++) {
            parked->done[position++] = topic->partition_responses[j];
        }
    }
    p->request->state = parked;
    request_wait_room(p->request, produce_resume);
    return true;
}

/* Runs from the first partition not done. False: the request must be closed. */
static bool produce_run(struct produce *p, const struct produce_parked *resumed)
{
    struct shard *shard = p->shard;
    if (!status_is_ok(request_decode(p->request, &shard->scratch, &p->message)) ||
        !status_is_ok(produce_response_init(p))) {
        return false;
    }
    p->wall_ms = io_wall_ms(shard->io);
    if (resumed != NULL) {
        p->lsn = resumed->lsn;
        p->failed = resumed->failed;
    }
    if (p->message.acks < ACKS_ALL || p->message.acks > 1) {
        produce_fail_all(p, KAFKA_INVALID_REQUIRED_ACKS);
        return true;
    }
    if (!bytes_is_null(p->message.transactional_id)) {
        /*
         * Transactions are not served in this release. Kafka answers so when the id may not be
         * used; clients take it for final.
         */
        produce_fail_all(p, KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
        return true;
    }
    uint32_t position = 0;
    for (int32_t i = 0; i < p->response.responses_count; i++) {
        if (!produce_topic(p, i, resumed, &position)) {
            p->parked = true;
            break;
        }
    }
    return true;
}

static void produce_resume(struct request *request)
{
    struct shard *shard = request->shard; /* An answered request may be gone. */
    struct produce p = {.shard = shard, .request = request};
    const struct produce_parked *resumed = request->state;
    if (!produce_run(&p, resumed) || (p.parked && !produce_park(&p, resumed))) {
        request_close(request, "no memory to go on");
    } else if (!p.parked) {
        (void)produce_finish(&p);
    }
    arena_reset(&shard->scratch);
}

enum net_verdict handle_produce(struct shard *shard, struct request *request)
{
    struct produce p = {.shard = shard, .request = request};
    /* Behind requests that wait for room there is no overtaking. */
    bool behind = !list_is_empty(&shard->room_waits);
    if (!behind && !produce_run(&p, NULL)) {
        return NET_CLOSE;
    }
    if (!behind && !p.parked) {
        return produce_finish(&p);
    }
    /* The connection reads no further until this request is through. */
    net_request_hold(&request->net);
    request->body = net_request_keep(&request->net, request->body);
    if (bytes_is_null(request->body)) {
        return request_refuse(request, "no memory to keep the request");
    }
    if (behind) {
        request_wait_room(request, produce_resume);
        return NET_TAKEN;
    }
    return produce_park(&p, NULL) ? NET_TAKEN : request_refuse(request, "no memory to park");
}
