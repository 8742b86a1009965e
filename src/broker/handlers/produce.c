/*
 * Produce: the short path. The request is decoded into scratch memory, each batch is judged and
 * copied into the log, and the answer is encoded at once, offsets and all: the log has given them.
 * What is left is to wait for the sync (acks=1) or the commit (acks=all) and to send the answer.
 * Only when that wait fails is the answer read again and its partitions given the error.
 *
 * A log that is full parks the request: its frame and the partitions that are done are kept, the
 * connection reads no further, and produce_resume() goes on where it stopped (I8). So does a batch
 * that is long to open or to compress: a helper thread does that, and other connections go on.
 */
#include <stdlib.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/trace.h"

#include "../shard.h"

#define ACKS_ALL  (-1)
#define ACKS_NONE 0

#define ZSTD_VERSION_MIN 7 /* KIP-110 */

/* No topic can have smaller segments; simulations have, and batches that are larger. */
#define SEGMENT_SIZE_LEAST ((int64_t)1024 * 1024)

/* A compressed batch that is larger opened is opened on a helper thread. */
#define INLINE_OPENED_SIZE_MAX ((size_t)256 * 1024)
/* So many are at a time: each holds up to twinlog.batch.opened.size.max, twice when rewritten. */
#define OPENINGS_MAX          2u
#define OPENED_SIZE_MAX_LEAST ((int64_t)64 * 1024 * 1024)

typedef struct produce_response_partition_produce_response partition_response;

/* How far a partition, or the request, got. */
enum produce_step {
    STEP_DONE,
    STEP_NO_ROOM, /* the log is full */
    STEP_OPEN,    /* the batch is to be opened on a helper thread; p->heavy says which */
};

/* A batch that a helper thread judges and perhaps rewrites. In the request's arena. */
struct produce_opening {
    struct io_job job;
    struct request *request;
    struct bytes records; /* in the kept frame */
    struct batch_rules rules;
    struct batch_admitted admitted;
    struct batch_fault fault;
    enum kafka_error error;
    bool done;
};

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
    enum produce_step step;
    struct bytes heavy;              /* STEP_OPEN: the batch */
    struct produce_opening *opening; /* of the first partition that is not done; or NULL */
};

/* What a parked request keeps in its arena. */
struct produce_parked {
    uint64_t lsn;
    struct produce_opening *opening; /* its result is not used yet; or NULL */
    uint32_t done_count;
    bool failed;
    partition_response done[]; /* as many as the request has partitions */
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

static size_t opened_size_max(const struct broker_config *broker, const struct topic_config *topic)
{
    int64_t size = broker->batch_opened_size_max;
    return (size_t)(size >= 0 ? size : MAX(4 * topic->message_size_max, OPENED_SIZE_MAX_LEAST));
}

static void rules_of_topic(struct produce *p, const struct topic *topic)
{
    const struct topic_config *config = &topic->config;
    p->rules = (struct batch_rules){
        .size_max = (uint32_t)config->message_size_max,
        .compacted = config->compacted,
        .now_ms = p->wall_ms,
        .timestamp_before_max = config->timestamp_before_ms_max,
        .timestamp_after_max = config->timestamp_after_ms_max,
        .idempotence_only = true,
        .zstd_refused = p->request->version < ZSTD_VERSION_MIN,
        .opened_size_max = opened_size_max(p->shard->config, config),
        .log_append_time = config->log_append_time,
        .recompress = config->compression != COMPRESSION_AS_SENT,
        .codec = config->compression == COMPRESSION_AS_SENT ? CODEC_NONE
                                                            : (enum codec)config->compression,
        .level = topic_config_level(config),
    };
}

/*
 * LogAppendTime: the batch carries the broker's clock as its largest timestamp, which readers take
 * for all its records. And whatever the producer claimed, the largest timestamp is true. The
 * received bytes are not ours to change, so they are copied. False: no memory.
 */
static bool batch_correct_times(struct produce *p, const struct topic *topic,
                                struct batch_admitted *admitted)
{
    struct batch_header *header = &admitted->header;
    if (topic->config.log_append_time) {
        header->attributes = (int16_t)(header->attributes | BATCH_LOG_APPEND_TIME);
        header->max_timestamp = p->wall_ms;
    } else if (!batch_times_differ(admitted->bytes.data, header)) {
        return true;
    }
    uint8_t *bytes = admitted->rewritten;
    if (bytes == NULL) {
        bytes = arena_alloc(&p->shard->scratch, admitted->bytes.size);
        if (bytes == NULL) {
            return false;
        }
        memcpy(bytes, admitted->bytes.data, admitted->bytes.size);
        admitted->bytes.data = bytes;
    }
    batch_set_times(bytes, header);
    return true;
}

/* What forbids an append to the topic before its batch is looked at. */
static enum kafka_error topic_judge(const struct produce *p, const struct topic *topic,
                                    const char **message)
{
    if (topic->internal) {
        *message = "Cannot append to an internal topic";
        return KAFKA_INVALID_TOPIC_EXCEPTION;
    }
    if (p->shard->disk_full) {
        *message = "The disk is nearly full";
        return KAFKA_STORAGE_ERROR;
    }
    return KAFKA_NONE;
}

/* Appends a batch that passed. */
static enum produce_step partition_append(struct produce *p, const struct topic *topic,
                                          struct partition *partition,
                                          struct batch_admitted *admitted, partition_response *out)
{
    if (admitted->bytes.size > MAX(topic->config.segment_size, SEGMENT_SIZE_LEAST)) {
        partition_fail(p, out, KAFKA_RECORD_LIST_TOO_LARGE,
                       "the batch is larger than segment.bytes");
        return STEP_DONE;
    }
    if (!batch_correct_times(p, topic, admitted)) {
        partition_fail(p, out, KAFKA_UNKNOWN_SERVER_ERROR, "out of memory");
        return STEP_DONE;
    }
    struct log_appended appended;
    status result =
        log_append(p->shard->log, partition, admitted->bytes, &admitted->header, &appended);
    if (result.code == STATUS_FULL) {
        return STEP_NO_ROOM;
    }
    if (!status_is_ok(result)) {
        partition_fail(p, out, error_of_status(result), status_text(result));
        return STEP_DONE;
    }
    enum kafka_error error = error_of_verdict(appended.verdict);
    if (error != KAFKA_NONE) {
        partition_fail(p, out, error, kafka_error_text(error));
        partition_tell_log_start(out, partition);
        return STEP_DONE;
    }
    out->base_offset = appended.base_offset;
    out->log_append_time_ms = topic->config.log_append_time && appended.verdict == LOG_APPENDED
                                  ? p->wall_ms
                                  : appended.log_append_time_ms;
    out->log_start_offset = log_partition_offsets(partition).log_start;
    p->lsn = MAX(p->lsn, appended.lsn);
    return STEP_DONE;
}

/*
 * Judges a batch where the loop may wait for it. False: a helper thread must do it. What opens to
 * more than it seemed is given up here and begun again there.
 */
static bool partition_admit(struct produce *p, struct bytes records,
                            struct batch_admitted *admitted, struct batch_fault *fault,
                            enum kafka_error *error)
{
    const size_t opened_max = p->rules.opened_size_max;
    if (batch_is_heavy(records, &p->rules)) {
        return false;
    }
    p->rules.opened_size_max = MIN(opened_max, INLINE_OPENED_SIZE_MAX);
    *error = batch_admit(records, &p->rules, admitted, fault);
    p->rules.opened_size_max = opened_max;
    return !fault->opened_too_large || opened_max <= INLINE_OPENED_SIZE_MAX;
}

/* Nothing happened unless the step is DONE. */
static enum produce_step partition_judge_and_append(struct produce *p, const struct topic *topic,
                                                    struct partition *partition,
                                                    struct bytes records, partition_response *out)
{
    struct batch_admitted admitted;
    struct batch_fault fault;
    enum kafka_error error;
    struct produce_opening *opening = p->opening;
    if (opening != NULL) {
        admitted = opening->admitted;
        fault = opening->fault;
        error = opening->error;
    } else if (!partition_admit(p, records, &admitted, &fault, &error)) {
        p->heavy = records;
        return STEP_OPEN;
    }
    enum produce_step step = STEP_DONE;
    if (error != KAFKA_NONE) {
        partition_fail_record(p, out, error, &fault);
        partition_tell_log_start(out, partition);
    } else {
        step = partition_append(p, topic, partition, &admitted, out);
    }
    if (opening == NULL) {
        free(admitted.rewritten);
    }
    return step;
}

/* What was opened for a partition is used, or of no use. */
static void opening_free(struct produce_opening *opening)
{
    if (opening != NULL) {
        free(opening->admitted.rewritten);
        opening->admitted.rewritten = NULL;
    }
}

static enum produce_step
produce_partition(struct produce *p, const struct topic *topic, enum kafka_error topic_error,
                  const char *topic_message,
                  const struct produce_request_partition_produce_data *data,
                  partition_response *out)
{
    enum produce_step step = STEP_DONE;
    *out = produce_response_partition_produce_response_default;
    out->index = data->index;
    struct partition *partition = topic == NULL ? NULL : topic_partition(topic, data->index);
    if (topic_error == KAFKA_NONE && partition == NULL) {
        topic_error = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    }
    if (topic_error != KAFKA_NONE) {
        partition_fail(p, out, topic_error, topic_message);
    } else {
        step = partition_judge_and_append(p, topic, partition, data->records, out);
    }
    if (step == STEP_DONE) {
        opening_free(p->opening);
        p->opening = NULL;
    }
    return step;
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
 * p->done_count says how far it got.
 */
static enum produce_step produce_topic(struct produce *p, int32_t topic_index,
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
        enum produce_step step = produce_partition(
            p, topic, error, message, &data->partition_data[i], &out->partition_responses[i]);
        if (step != STEP_DONE) {
            return step;
        }
        p->done_count++;
    }
    return STEP_DONE;
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

static void openings_start(struct shard *shard);

static void opening_work(struct io_job *job)
{
    struct produce_opening *opening = job->context;
    opening->error =
        batch_admit(opening->records, &opening->rules, &opening->admitted, &opening->fault);
}

/* Whoever waits for room was here before. */
static void opening_on_done(struct io_job *job)
{
    struct produce_opening *opening = job->context;
    struct shard *shard = opening->request->shard;
    opening->done = true;
    shard->opening_count--;
    openings_start(shard);
    if (list_is_empty(&shard->room_waits)) {
        produce_resume(opening->request);
    } else {
        request_wait_room(opening->request, produce_resume);
    }
}

/* The only place a batch is given to a helper thread: what it takes in memory is bounded here. */
static void openings_start(struct shard *shard)
{
    while (shard->opening_count < OPENINGS_MAX && !list_is_empty(&shard->opening_waits)) {
        struct list_node *node = list_pop_front(&shard->opening_waits);
        struct produce_opening *opening = CONTAINER_OF(node, struct produce_opening, job.link);
        opening->job.context = opening;
        shard->opening_count++;
        io_offload(shard->io, IO_LANE_READ, &opening->job, opening_work, opening_on_done);
    }
}

static void produce_cleanup(struct request *request)
{
    const struct produce_parked *parked = request->state;
    opening_free(parked->opening);
}

/* Room for all partitions, made once: a request may park before each. */
static struct produce_parked *produce_parked_of(struct produce *p)
{
    if (p->request->state != NULL) {
        return p->request->state;
    }
    size_t count = 0;
    for (int32_t i = 0; i < p->response.responses_count; i++) {
        count += (size_t)p->response.responses[i].partition_responses_count;
    }
    struct produce_parked *parked = arena_alloc(
        request_arena(p->request), sizeof(*parked) + count * sizeof(partition_response));
    if (parked != NULL) {
        *parked = (struct produce_parked){0};
        p->request->state = parked;
        p->request->cleanup = produce_cleanup;
    }
    return parked;
}

static bool produce_open(struct produce *p, struct produce_parked *parked)
{
    struct produce_opening *opening = arena_alloc(request_arena(p->request), sizeof(*opening));
    if (opening == NULL) {
        return false;
    }
    *opening =
        (struct produce_opening){.request = p->request, .records = p->heavy, .rules = p->rules};
    parked->opening = opening;
    list_push_back(&p->shard->opening_waits, &opening->job.link);
    openings_start(p->shard);
    return true;
}

/* Keeps what is done so far; request->body, and what views it, is kept memory already. */
static bool produce_park(struct produce *p)
{
    struct produce_parked *parked = produce_parked_of(p);
    if (parked == NULL) {
        return false;
    }
    const uint32_t count = parked->done_count + p->done_count;
    parked->lsn = p->lsn;
    parked->failed = p->failed;
    parked->done_count = count;
    parked->opening = p->opening;
    uint32_t position = 0;
    for (int32_t i = 0; i < p->response.responses_count; i++) {
        const struct produce_response_topic_produce_response *topic = &p->response.responses[i];
        for (int32_t j = 0; j < topic->partition_responses_count && position < count; j++) {
            parked->done[position++] = topic->partition_responses[j];
        }
    }
    if (p->step == STEP_OPEN) {
        return produce_open(p, parked);
    }
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
        p->opening = resumed->opening;
        ASSERT(p->opening == NULL || p->opening->done);
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
        p->step = produce_topic(p, i, resumed, &position);
        if (p->step != STEP_DONE) {
            break;
        }
    }
    return true;
}

static void produce_resume(struct request *request)
{
    struct shard *shard = request->shard; /* An answered request may be gone. */
    struct produce p = {.shard = shard, .request = request};
    struct produce_parked *resumed = request->state;
    bool ran = produce_run(&p, resumed);
    if (resumed != NULL) {
        resumed->opening = p.opening;
    }
    if (!ran || (p.step != STEP_DONE && !produce_park(&p))) {
        request_close(request, "no memory to go on");
    } else if (p.step == STEP_DONE) {
        (void)produce_finish(&p);
    }
    arena_reset(&shard->scratch);
}

/* The connection reads no further until this request is through (I8). */
static enum net_verdict produce_hold(struct produce *p, bool behind)
{
    struct request *request = p->request;
    const uint8_t *received = request->body.data;
    net_request_hold(&request->net);
    request->body = net_request_keep(&request->net, request->body);
    if (bytes_is_null(request->body)) {
        return request_refuse(request, "no memory to keep the request");
    }
    if (behind) {
        request_wait_room(request, produce_resume);
        return NET_TAKEN;
    }
    if (p->step == STEP_OPEN) {
        p->heavy.data = request->body.data + (p->heavy.data - received);
    }
    return produce_park(p) ? NET_TAKEN : request_refuse(request, "no memory to park");
}

enum net_verdict handle_produce(struct shard *shard, struct request *request)
{
    struct produce p = {.shard = shard, .request = request};
    /* Behind requests that wait for room there is no overtaking. */
    bool behind = !list_is_empty(&shard->room_waits);
    if (!behind && !produce_run(&p, NULL)) {
        return NET_CLOSE;
    }
    return !behind && p.step == STEP_DONE ? produce_finish(&p) : produce_hold(&p, behind);
}
