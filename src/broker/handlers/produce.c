/*
 * Produce: the short path. The request is decoded into scratch memory, each batch is judged and
 * copied into the log, and the answer is encoded at once, offsets and all: the log has given them.
 * What is left is to wait for the sync (acks=1) or the commit (acks=all) and to send the answer.
 * Only when that wait fails is the answer read again and its partitions given the error.
 *
 * A log that is full parks the request: its frame and how far it got are kept, the connection reads
 * no further, and produce_resume() goes on where it stopped (I8). So do batches that are long to
 * open or to compress, each or together: a helper thread does that, and other connections go on. A
 * topic is remembered by its id then, for its name may come to mean another one.
 */
#include <stdlib.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/trace.h"

#include "../openings.h"

#define ACKS_ALL  (-1)
#define ACKS_NONE 0

#define ZSTD_VERSION_MIN 7 /* KIP-110 */

/* No topic can have smaller segments; simulations have, and batches that are larger. */
#define SEGMENT_SIZE_LEAST ((int64_t)1024 * 1024)

/* What a run may open on the loop, in bytes opened, and what a batch costs on top of its own. */
#define RUN_WORK_MAX ((int64_t)1024 * 1024)
#define BATCH_WORK   ((int64_t)1024)
/* Partitions that are looked through for batches of one job. */
#define OPENING_REACH         256
#define OPENED_SIZE_MAX_LEAST ((int64_t)64 * 1024 * 1024)

typedef struct produce_response_partition_produce_response partition_response;

/* How far a partition, or the request, got. */
enum produce_step {
    STEP_DONE,
    STEP_NO_ROOM, /* the log is full */
    STEP_OPEN,    /* a helper thread is to open the batch */
};

/* A request under way: on the stack, and once it is parked in the request's arena. */
struct produce {
    struct shard *shard;
    struct request *request;
    struct produce_request message;
    struct produce_response response;
    struct batch_rules rules; /* of the topic at hand */
    int64_t wall_ms;
    int64_t work_left; /* of RUN_WORK_MAX */
    uint64_t lsn;      /* what to wait for; 0: nothing */
    int32_t topic_at;  /* the first partition that is not done */
    int32_t partition_at;
    bool failed;             /* a partition has an error */
    bool is_kept;            /* it was parked: its topics are known by id */
    bool is_abandoned;       /* nobody waits for the answer */
    struct opening *opening; /* NULL before the first */
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
    const struct batch_work work = batch_work_of(records, &p->rules);
    const size_t opened_max = p->rules.opened_size_max;
    if (work.factor == 0) {
        *error = batch_admit(records, &p->rules, admitted, fault);
        return true;
    }
    if (work.is_heavy || p->work_left <= 0) {
        return false;
    }
    p->rules.opened_size_max = MIN(opened_max, work.opened_size_max);
    *error = batch_admit(records, &p->rules, admitted, fault);
    p->rules.opened_size_max = opened_max;
    p->work_left -=
        BATCH_WORK + (int64_t)(work.factor * MAX(admitted->opened_size, (size_t)records.size));
    return !fault->opened_too_large || opened_max <= work.opened_size_max;
}

/* Nothing happened unless the step is DONE. */
static enum produce_step partition_judge_and_append(struct produce *p, const struct topic *topic,
                                                    struct partition *partition,
                                                    struct bytes records, partition_response *out)
{
    struct batch_admitted admitted;
    struct batch_fault fault;
    enum kafka_error error;
    struct opened *opened = p->opening == NULL
                                ? NULL
                                : opening_find(p->opening, p->topic_at, p->partition_at, &p->rules);
    if (opened != NULL) {
        admitted = opened->admitted;
        fault = opened->fault;
        error = opened->error;
    } else if (!partition_admit(p, records, &admitted, &fault, &error)) {
        return STEP_OPEN;
    }
    enum produce_step step = STEP_DONE;
    if (error != KAFKA_NONE) {
        partition_fail_record(p, out, error, &fault);
        partition_tell_log_start(out, partition);
    } else {
        step = partition_append(p, topic, partition, &admitted, out);
    }
    if (opened == NULL) {
        free(admitted.rewritten);
    }
    return step;
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
    return step;
}

/* ---------------------------------------------------------------- all partitions */

static struct topic *produce_find_topic(struct produce *p,
                                        const struct produce_request_topic_produce_data *data,
                                        enum kafka_error *error)
{
    bool sent_by_id = p->request->version >= 13;
    struct topic *topic = sent_by_id || p->is_kept
                              ? metadata_topic_by_id(&p->shard->metadata, &data->topic_id)
                              : metadata_topic_by_name(&p->shard->metadata, data->name);
    *error = topic != NULL ? KAFKA_NONE
             : sent_by_id  ? KAFKA_UNKNOWN_TOPIC_ID
                           : KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    return topic;
}

/* Goes on at p->partition_at of the topic at p->topic_at. */
static enum produce_step produce_topic(struct produce *p)
{
    const struct produce_request_topic_produce_data *data = &p->message.topic_data[p->topic_at];
    struct produce_response_topic_produce_response *out = &p->response.responses[p->topic_at];
    enum kafka_error error;
    const char *message = NULL;
    struct topic *topic = produce_find_topic(p, data, &error);
    if (topic != NULL) {
        error = topic_judge(p, topic, &message);
        rules_of_topic(p, topic);
    }
    for (; p->partition_at < data->partition_data_count; p->partition_at++) {
        enum produce_step step =
            produce_partition(p, topic, error, message, &data->partition_data[p->partition_at],
                              &out->partition_responses[p->partition_at]);
        if (step != STEP_DONE) {
            return step;
        }
    }
    return STEP_DONE;
}

static status produce_response_init(struct produce *p, struct arena *arena)
{
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

/* ---------------------------------------------------------------- runs */

/* Decodes the request, with what it and the answer need in `arena`. */
static status produce_decode(struct produce *p, struct arena *arena)
{
    TRY(request_decode(p->request, arena, &p->message));
    return produce_response_init(p, arena);
}

/* Runs from the first partition that is not done. */
static enum produce_step produce_run(struct produce *p)
{
    p->wall_ms = io_wall_ms(p->shard->io);
    p->work_left = RUN_WORK_MAX;
    if (p->message.acks < ACKS_ALL || p->message.acks > 1) {
        produce_fail_all(p, KAFKA_INVALID_REQUIRED_ACKS);
        return STEP_DONE;
    }
    if (!bytes_is_null(p->message.transactional_id)) {
        /*
         * Transactions are not served in this release. Kafka answers so when the id may not be
         * used; clients take it for final.
         */
        produce_fail_all(p, KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
        return STEP_DONE;
    }
    for (; p->topic_at < p->response.responses_count; p->topic_at++, p->partition_at = 0) {
        enum produce_step step = produce_topic(p);
        if (step != STEP_DONE) {
            return step;
        }
    }
    return STEP_DONE;
}

/* ---------------------------------------------------------------- park and resume */

static void produce_resume(struct request *request);

/* A job of the batch at hand, and of those behind it that are to be opened as well. */
static void produce_fill_opening(struct produce *p)
{
    int32_t reach = OPENING_REACH;
    int32_t partition_at = p->partition_at;
    for (int32_t i = p->topic_at; i < p->message.topic_data_count; i++, partition_at = 0) {
        const struct produce_request_topic_produce_data *data = &p->message.topic_data[i];
        enum kafka_error error;
        struct topic *topic = produce_find_topic(p, data, &error);
        if (reach-- <= 0) {
            return;
        }
        if (topic == NULL) {
            continue;
        }
        rules_of_topic(p, topic);
        for (; partition_at < data->partition_data_count; partition_at++) {
            struct bytes records = data->partition_data[partition_at].records;
            bool opens = batch_work_of(records, &p->rules).factor > 0;
            if (reach-- <= 0 ||
                (opens && !opening_add(p->opening, i, partition_at, records, &p->rules))) {
                return;
            }
        }
    }
}

static bool produce_open(struct produce *p)
{
    if (p->opening == NULL) {
        size_t count = 0;
        for (int32_t i = p->topic_at; i < p->response.responses_count; i++) {
            count += (size_t)p->response.responses[i].partition_responses_count;
        }
        p->opening = opening_create(p->request, count, produce_resume);
    }
    if (p->opening == NULL) {
        return false;
    }
    produce_fill_opening(p);
    opening_start(p->opening);
    return true;
}

/* False: no memory. */
static bool produce_park(struct produce *p, enum produce_step step)
{
    if (step == STEP_OPEN) {
        return produce_open(p);
    }
    request_wait_room(p->request, produce_resume);
    return true;
}

static void produce_answer_nobody(struct request *request)
{
    request->net.range_count = 0;
    net_request_answer(&request->net);
}

static void produce_resume(struct request *request)
{
    struct shard *shard = request->shard; /* An answered request may be gone. */
    struct produce *p = request->state;
    if (p->is_abandoned) {
        produce_answer_nobody(request);
        return;
    }
    enum produce_step step = produce_run(p);
    if (p->opening != NULL && (step != STEP_NO_ROOM || !opening_has_results(p->opening))) {
        opening_release(p->opening);
    }
    if (step == STEP_DONE) {
        request->net.abandon = NULL;
        (void)produce_finish(p);
    } else if (!produce_park(p, step)) {
        request_close(request, "no memory to go on");
    }
    arena_reset(&shard->scratch);
}

/*
 * The connection is gone. Nobody waits for the answer, so nobody was told that the rest is there;
 * but what a client sends with acks=0 before it closes is to be there, unless the broker stops.
 */
static void produce_abandon(struct net_request *net)
{
    struct request *request = CONTAINER_OF(net, struct request, net);
    struct produce *p = request->state;
    if (p->message.acks == ACKS_NONE && !p->shard->stopping) {
        return;
    }
    if (list_node_is_linked(&request->link)) {
        list_remove(&request->link);
    } else if (p->opening == NULL || !opening_cancel(p->opening)) {
        p->is_abandoned = true; /* A helper has its batches. */
        return;
    }
    produce_answer_nobody(request);
}

static void produce_cleanup(struct request *request)
{
    const struct produce *p = request->state;
    if (p->opening != NULL) {
        opening_release(p->opening);
    }
}

/* A request by name gets the ids that its topics have now; no id for those that are not there. */
static void produce_fix_topics(struct produce *p)
{
    for (int32_t i = 0; i < p->message.topic_data_count; i++) {
        struct produce_request_topic_produce_data *data = &p->message.topic_data[i];
        enum kafka_error error;
        const struct topic *topic = produce_find_topic(p, data, &error);
        if (topic != NULL) {
            data->topic_id = topic->id;
        }
    }
}

/*
 * Moves the request to its arena: all of it is decoded from the kept frame, once, and the answers
 * so far are taken over. NULL: no memory.
 */
static struct produce *produce_keep(const struct produce *p)
{
    struct arena *arena = request_arena(p->request);
    struct produce *kept = arena_array(arena, 1, sizeof(*kept));
    if (kept == NULL) {
        return NULL;
    }
    *kept = (struct produce){.shard = p->shard,
                             .request = p->request,
                             .wall_ms = p->wall_ms,
                             .lsn = p->lsn,
                             .topic_at = p->topic_at,
                             .partition_at = p->partition_at,
                             .failed = p->failed};
    if (!status_is_ok(produce_decode(kept, arena))) {
        return NULL;
    }
    for (int32_t i = 0; i <= p->topic_at && i < p->response.responses_count; i++) {
        const struct produce_response_topic_produce_response *from = &p->response.responses[i];
        int32_t count = i < p->topic_at ? from->partition_responses_count : p->partition_at;
        for (int32_t j = 0; j < count; j++) {
            kept->response.responses[i].partition_responses[j] = from->partition_responses[j];
        }
    }
    if (p->request->version < 13) {
        produce_fix_topics(kept);
    }
    kept->is_kept = true;
    p->request->state = kept;
    p->request->cleanup = produce_cleanup;
    p->request->net.abandon = produce_abandon;
    return kept;
}

/* The connection reads no further until this request is through (I8). */
static enum net_verdict produce_hold(const struct produce *p, enum produce_step step)
{
    struct request *request = p->request;
    net_request_hold(&request->net);
    request->body = net_request_keep(&request->net, request->body);
    if (bytes_is_null(request->body)) {
        return request_refuse(request, "no memory to keep the request");
    }
    struct produce *kept = produce_keep(p);
    if (kept == NULL || !produce_park(kept, step)) {
        return request_refuse(request, "it cannot be kept");
    }
    return NET_TAKEN;
}

enum net_verdict handle_produce(struct shard *shard, struct request *request)
{
    struct produce p = {.shard = shard, .request = request};
    if (!list_is_empty(&shard->room_waits)) {
        return produce_hold(&p, STEP_NO_ROOM); /* There is no overtaking. */
    }
    if (!status_is_ok(produce_decode(&p, &shard->scratch))) {
        return NET_CLOSE;
    }
    enum produce_step step = produce_run(&p);
    return step == STEP_DONE ? produce_finish(&p) : produce_hold(&p, step);
}
