/* DeleteTopics: by name, from version 6 on also by id. The answer waits for the commit. */
#include "twinlog/core/assert.h"

#include "../shard.h"

typedef struct delete_topics_response_deletable_topic_result topic_result;

struct delete_topics {
    struct delete_topics_request message;
    struct delete_topics_response response;
    int32_t count;
    const enum name_use *uses; /* by topic */
    bool *appended;            /* by result */
    int32_t at;
    uint64_t lsn;
};

static void result_fail(topic_result *out, enum kafka_error error, const char *message)
{
    out->error_code = (int16_t)error;
    out->error_message = message == NULL ? BYTES_NULL : bytes_of(message);
}

static void result_fail_unknown(topic_result *out, bool by_name)
{
    if (by_name) {
        result_fail(out, KAFKA_UNKNOWN_TOPIC_OR_PARTITION,
                    "This server does not host this topic-partition.");
    } else {
        result_fail(out, KAFKA_UNKNOWN_TOPIC_ID, "This server does not host this topic ID.");
    }
}

/* Version 6 has states with a name or an id, earlier ones have names. */
static void topic_asked(const struct request *request, const struct delete_topics *delete,
                        int32_t index, struct bytes *name, struct uuid *id)
{
    if (request->version >= 6) {
        *name = delete->message.topics[index].name;
        *id = delete->message.topics[index].topic_id;
    } else {
        *name = delete->message.topic_names[index];
        *id = (struct uuid){{0}};
    }
}

/* FULL: there is no room in the log; nothing was done. */
static status delete_append(struct request *request, struct delete_topics *delete,
                            struct topic *topic)
{
    int32_t place = delete->response.responses_count;
    topic_result *out = &delete->response.responses[place];
    struct remove_topic_record record = remove_topic_record_default;
    record.topic_id = topic->id;
    uint64_t lsn = 0;
    status result = metadata_append(request->shard, RECORD_TYPE_REMOVE_TOPIC,
                                    &remove_topic_record_type, &record, &lsn);
    if (result.code == STATUS_FULL) {
        return result;
    }
    if (!status_is_ok(result)) {
        result_fail(out, error_of_status(result), status_text(result));
        return OK;
    }
    topic->removing = true;
    topic->change_lsn = lsn;
    delete->lsn = MAX(delete->lsn, lsn);
    delete->appended[place] = true;
    /* The topic's own text is gone when the answer is sent. */
    out->name =
        bytes_of(arena_printf(request_arena(request), "%.*s", (int)topic->name_size, topic->name));
    out->topic_id = topic->id;
    return OK;
}

/* FULL: there is no room in the log; nothing was done for this topic. */
static status delete_one(struct request *request, struct delete_topics *delete, int32_t index)
{
    struct shard *shard = request->shard;
    topic_result *out = &delete->response.responses[delete->response.responses_count];
    struct bytes name;
    struct uuid id;
    topic_asked(request, delete, index, &name, &id);
    *out = delete_topics_response_deletable_topic_result_default;
    out->name = name;
    out->topic_id = id;
    bool by_name = !bytes_is_null(name);
    if (by_name && !uuid_is_zero(&id)) {
        result_fail(out, KAFKA_INVALID_REQUEST,
                    "You may not specify both topic name and topic id.");
        return OK;
    }
    if (!by_name && uuid_is_zero(&id)) {
        result_fail(out, KAFKA_INVALID_REQUEST, "Neither a topic name nor an id is given.");
        return OK;
    }
    if (delete->uses[index] != NAME_ONCE) {
        result_fail(out, KAFKA_INVALID_REQUEST, "The topic stands twice in the request.");
        return OK;
    }
    if (!shard->config->delete_topics) {
        result_fail(out,
                    request->version < 3 ? KAFKA_INVALID_REQUEST : KAFKA_TOPIC_DELETION_DISABLED,
                    "Topic deletion is disabled.");
        return OK;
    }
    struct topic *topic = by_name ? metadata_topic_by_name(&shard->metadata, name)
                                  : metadata_topic_by_id(&shard->metadata, &id);
    if (topic == NULL) {
        result_fail_unknown(out, by_name);
        return OK;
    }
    if (topic->removing) {
        /* As good as gone: the other removal's commit is waited for. */
        delete->lsn = MAX(delete->lsn, topic->change_lsn);
        result_fail_unknown(out, by_name);
        return OK;
    }
    if (topic->internal) {
        result_fail(out, KAFKA_INVALID_TOPIC_EXCEPTION, "The topic is internal.");
        return OK;
    }
    return delete_append(request, delete, topic);
}

static void delete_on_committed(struct log_wait *wait)
{
    struct request *request = wait->context;
    struct delete_topics *delete = request->state;
    for (int32_t i = 0; !status_is_ok(wait->result) && i < delete->response.responses_count; i++) {
        if (delete->appended[i]) {
            result_fail(&delete->response.responses[i], error_of_status(wait->result),
                        "The log failed before the removal was durable");
        }
    }
    (void)request_respond(request, &delete->response);
}

static void delete_step(struct request *request)
{
    struct delete_topics *delete = request->state;
    for (; delete->at < delete->count; delete->at++) {
        /* Kafka removes no topic that stands twice in a request, and says so once. */
        if (delete->uses[delete->at] == NAME_AGAIN) {
            continue;
        }
        if (!status_is_ok(delete_one(request, delete, delete->at))) {
            request_wait_room(request, delete_step);
            return;
        }
        delete->response.responses_count++;
    }
    if (delete->lsn == 0) {
        (void)request_respond(request, &delete->response);
        return;
    }
    request->wait.context = request;
    log_wait_committed(request->shard->log, &request->wait, delete->lsn, delete_on_committed);
}

/* The name a topic has here, whichever way it is asked for; null when it is none of ours. */
static struct bytes topic_known_name(struct request *request, const struct delete_topics *delete,
                                     int32_t index)
{
    struct bytes name;
    struct uuid id;
    topic_asked(request, delete, index, &name, &id);
    if (bytes_is_null(name)) {
        struct topic *topic = metadata_topic_by_id(&request->shard->metadata, &id);
        name = topic == NULL ? BYTES_NULL : topic_name(topic);
    }
    return name;
}

static bool delete_init(struct request *request, struct delete_topics *delete)
{
    struct arena *arena = request_arena(request);
    int32_t asked =
        request->version >= 6 ? delete->message.topics_count : delete->message.topic_names_count;
    delete->count = MAX(asked, 0);
    size_t count = (size_t) delete->count;
    struct bytes *names = arena_array(arena, count, sizeof(*names));
    delete->response = delete_topics_response_default;
    delete->response.responses = arena_array(arena, count, sizeof(topic_result));
    delete->appended = arena_array(arena, count, sizeof(bool));
    if (names == NULL || delete->response.responses == NULL || delete->appended == NULL) {
        return false;
    }
    for (int32_t i = 0; i < delete->count; i++) {
        names[i] = topic_known_name(request, delete, i);
    }
    delete->uses = names_judge(arena, names, count);
    return delete->uses != NULL;
}

enum net_verdict handle_delete_topics(struct shard *shard, struct request *request)
{
    struct arena *arena = request_arena(request);
    struct delete_topics *delete = arena_array(arena, 1, sizeof(*delete));
    if (delete == NULL || !status_is_ok(request_decode(request, arena, &delete->message))) {
        return NET_CLOSE;
    }
    if (!delete_init(request, delete)) {
        return request_refuse(request, "no memory for its topics");
    }
    request->state = delete;
    delete_step(request);
    return NET_TAKEN;
}
