#include "fetch_session.h"

#include <stdlib.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/crc32c.h"

/* A failed allocation of a hash table is reported by the element, not by leaving the process. */
#define HASH_NONFATAL_OOM                   1
#define HASH_FUNCTION(key, key_size, value) ((value) = crc32c(0, key, key_size))
#include <uthash.h>

#define EPOCH_NONE  (-1)
#define EPOCH_FIRST 0

typedef struct fetch_request_fetch_topic topic_asked;
typedef struct fetch_request_fetch_partition partition_asked;
typedef struct fetch_response_fetchable_topic_response topic_out;
typedef struct fetch_response_partition_data partition_out;

/* A topic of a session, by its name or its id, whichever the session uses. */
struct session_topic {
    UT_hash_handle hh;
    uint32_t partition_count;
    uint32_t key_size;
    uint8_t key[];
};

struct session_key {
    uint64_t topic; /* its address */
    int64_t partition;
};

_Static_assert(sizeof(struct session_key) == 16, "hashed as bytes, so without padding");

struct session_partition {
    UT_hash_handle hh;
    struct list_node link; /* in the session's order */
    struct session_key key;
    const struct session_topic *topic;
    partition_asked asked;
    /* As the client was told last; -1: it is to be told. */
    int64_t high_watermark;
    int64_t log_start;
};

struct fetch_session {
    UT_hash_handle hh;
    struct list_node link; /* in by_use */
    int32_t id;
    int32_t epoch; /* of the next request */
    bool by_id;
    bool evictable; /* was old enough when it was used last */
    uint32_t partition_count;
    int64_t created_ms;
    int64_t used_ms;
    struct session_topic *topics;
    struct session_partition *partitions;
    struct list order;
};

/* From INT32_MAX on to 1: 0 and below have meanings of their own. */
static int32_t epoch_next(int32_t epoch)
{
    return epoch == INT32_MAX ? 1 : epoch + 1;
}

/* ---------------------------------------------------------------- sessions */

void fetch_sessions_init(struct fetch_sessions *sessions, uint32_t slots, uint64_t partitions_max)
{
    *sessions = (struct fetch_sessions){.slots = slots, .partitions_max = partitions_max};
    list_init(&sessions->by_use);
}

static void session_free(struct fetch_session *session)
{
    struct session_partition *partition = session->partitions;
    HASH_CLEAR(hh, session->partitions);
    while (partition != NULL) {
        struct session_partition *next = partition->hh.next;
        free(partition);
        partition = next;
    }
    struct session_topic *topic = session->topics;
    HASH_CLEAR(hh, session->topics);
    while (topic != NULL) {
        struct session_topic *next = topic->hh.next;
        free(topic);
        topic = next;
    }
    free(session);
}

static void session_remove(struct fetch_sessions *sessions, struct fetch_session *session)
{
    ASSERT(sessions->by_id != NULL);
    HASH_DEL(sessions->by_id, session);
    list_remove(&session->link);
    sessions->count--;
    sessions->partition_count -= session->partition_count;
    session_free(session);
}

void fetch_sessions_fini(struct fetch_sessions *sessions)
{
    struct list_node *node;
    while ((node = list_first(&sessions->by_use)) != NULL) {
        session_remove(sessions, CONTAINER_OF(node, struct fetch_session, link));
    }
}

static struct fetch_session *session_find(const struct fetch_sessions *sessions, int32_t id)
{
    struct fetch_session *session = NULL;
    HASH_FIND(hh, sessions->by_id, &id, sizeof(id), session);
    return session;
}

/* It is used now. Whether it may be evicted for its age is settled here, as Kafka does. */
static void session_touch(struct fetch_sessions *sessions, struct fetch_session *session,
                          int64_t now_ms)
{
    if (list_node_is_linked(&session->link)) {
        list_remove(&session->link);
    }
    list_push_back(&sessions->by_use, &session->link);
    session->used_ms = now_ms;
    session->evictable = now_ms - session->created_ms > FETCH_SESSION_EVICTION_MS;
}

/* The smallest of those that are old enough; the lower id of equals. */
static struct fetch_session *session_least_worthy(const struct fetch_sessions *sessions)
{
    struct fetch_session *least = NULL;
    LIST_FOREACH (node, &sessions->by_use) {
        struct fetch_session *session = CONTAINER_OF(node, struct fetch_session, link);
        bool is_less =
            least == NULL || session->partition_count < least->partition_count ||
            (session->partition_count == least->partition_count && session->id < least->id);
        if (session->evictable && is_less) {
            least = session;
        }
    }
    return least;
}

/* Makes room for one more of this size; false: none is worth less. */
static bool session_evict(struct fetch_sessions *sessions, uint32_t partition_count, int64_t now_ms)
{
    struct list_node *oldest = list_first(&sessions->by_use);
    if (oldest == NULL) {
        return false;
    }
    struct fetch_session *session = CONTAINER_OF(oldest, struct fetch_session, link);
    if (now_ms - session->used_ms <= FETCH_SESSION_EVICTION_MS) {
        session = session_least_worthy(sessions);
        if (session == NULL || partition_count <= session->partition_count) {
            return false;
        }
    }
    session_remove(sessions, session);
    sessions->evictions++;
    return true;
}

/* ---------------------------------------------------------------- partitions */

static struct bytes topic_key(bool by_id, struct bytes name, const struct uuid *id)
{
    return by_id ? (struct bytes){id->bytes, sizeof(id->bytes)} : name;
}

static struct session_topic *topic_find(const struct fetch_session *session, struct bytes key)
{
    struct session_topic *topic = NULL;
    if (key.size > 0) {
        HASH_FIND(hh, session->topics, key.data, key.size, topic);
    }
    return topic;
}

static struct session_topic *topic_add(struct fetch_session *session, struct bytes key)
{
    struct session_topic *topic = topic_find(session, key);
    if (topic != NULL) {
        return topic;
    }
    topic = calloc(1, sizeof(*topic) + key.size);
    if (topic == NULL) {
        return NULL;
    }
    topic->key_size = key.size;
    if (key.size > 0) {
        memcpy(topic->key, key.data, key.size);
    }
    HASH_ADD_KEYPTR(hh, session->topics, topic->key, topic->key_size, topic);
    if (topic->hh.tbl == NULL) {
        free(topic);
        return NULL;
    }
    return topic;
}

static struct session_key partition_key(const struct session_topic *topic, int32_t index)
{
    return (struct session_key){(uint64_t)(uintptr_t)topic, index};
}

static struct session_partition *partition_find(const struct fetch_session *session,
                                                const struct session_topic *topic, int32_t index)
{
    struct session_key key = partition_key(topic, index);
    struct session_partition *partition = NULL;
    HASH_FIND(hh, session->partitions, &key, sizeof(key), partition);
    return partition;
}

static void partition_remove(struct fetch_sessions *sessions, struct fetch_session *session,
                             struct session_topic *topic, struct session_partition *partition)
{
    HASH_DEL(session->partitions, partition);
    list_remove(&partition->link);
    free(partition);
    session->partition_count--;
    sessions->partition_count--;
    topic->partition_count--;
    if (topic->partition_count == 0) {
        HASH_DEL(session->topics, topic);
        free(topic);
    }
}

/* Adds a partition or changes what is asked of it. NULL: no memory, or too many in all. */
static struct session_partition *partition_set(struct fetch_sessions *sessions,
                                               struct fetch_session *session, struct bytes key,
                                               const partition_asked *asked)
{
    struct session_topic *topic = topic_add(session, key);
    if (topic == NULL) {
        return NULL;
    }
    struct session_partition *partition = partition_find(session, topic, asked->partition);
    if (partition == NULL) {
        bool is_full = sessions->partition_count >= sessions->partitions_max;
        partition = is_full ? NULL : calloc(1, sizeof(*partition));
        if (partition == NULL) {
            return NULL; /* A topic without partitions goes with its session. */
        }
        partition->key = partition_key(topic, asked->partition);
        partition->topic = topic;
        partition->high_watermark = -1;
        partition->log_start = -1;
        HASH_ADD(hh, session->partitions, key, sizeof(partition->key), partition);
        if (partition->hh.tbl == NULL) {
            free(partition);
            return NULL;
        }
        list_push_back(&session->order, &partition->link);
        topic->partition_count++;
        session->partition_count++;
        sessions->partition_count++;
    }
    partition->asked = *asked;
    return partition;
}

/* ---------------------------------------------------------------- the start of a request */

static bool session_update(struct fetch_sessions *sessions, struct fetch_session *session,
                           const struct fetch_request *message)
{
    for (int32_t i = 0; i < message->topics_count; i++) {
        const topic_asked *topic = &message->topics[i];
        struct bytes key = topic_key(session->by_id, topic->topic, &topic->topic_id);
        for (int32_t j = 0; j < topic->partitions_count; j++) {
            if (partition_set(sessions, session, key, &topic->partitions[j]) == NULL) {
                return false;
            }
        }
    }
    for (int32_t i = 0; i < message->forgotten_topics_data_count; i++) {
        const struct fetch_request_forgotten_topic *forgotten = &message->forgotten_topics_data[i];
        struct bytes key = topic_key(session->by_id, forgotten->topic, &forgotten->topic_id);
        for (int32_t j = 0; j < forgotten->partitions_count; j++) {
            /* Looked for anew: it goes with its last partition. */
            struct session_topic *topic = topic_find(session, key);
            struct session_partition *partition =
                topic == NULL ? NULL : partition_find(session, topic, forgotten->partitions[j]);
            if (partition != NULL) {
                partition_remove(sessions, session, topic, partition);
            }
        }
    }
    return true;
}

static struct bytes key_keep(struct arena *arena, const struct session_topic *topic)
{
    uint8_t *kept = arena_alloc(arena, topic->key_size + 1);
    if (kept == NULL) {
        return BYTES_NULL;
    }
    memcpy(kept, topic->key, topic->key_size);
    return (struct bytes){kept, topic->key_size};
}

/* The session's partitions as a message: neighbours of one topic stand together. */
static bool message_fill(const struct fetch_session *session, struct arena *arena,
                         struct fetch_request *message)
{
    size_t count = session->partition_count;
    topic_asked *topics = arena_array(arena, count, sizeof(*topics));
    partition_asked *partitions = arena_array(arena, count, sizeof(*partitions));
    const struct session_topic *last = NULL;
    int32_t topic_count = 0;
    if (topics == NULL || partitions == NULL) {
        return false;
    }
    LIST_FOREACH (node, &session->order) {
        const struct session_partition *partition =
            CONTAINER_OF(node, struct session_partition, link);
        if (partition->topic != last) {
            last = partition->topic;
            struct bytes key = key_keep(arena, last);
            topic_asked *topic = &topics[topic_count++];
            if (bytes_is_null(key)) {
                return false;
            }
            *topic = fetch_request_fetch_topic_default;
            topic->partitions = partitions;
            if (session->by_id) {
                memcpy(topic->topic_id.bytes, key.data, sizeof(topic->topic_id.bytes));
            } else {
                topic->topic = key;
            }
        }
        *partitions++ = partition->asked;
        topics[topic_count - 1].partitions_count++;
    }
    message->topics = topics;
    message->topics_count = topic_count;
    return true;
}

static enum kafka_error incremental_begin(struct fetch_sessions *sessions, int64_t now_ms,
                                          struct arena *arena, struct fetch_request *message,
                                          struct fetch_context *context)
{
    struct fetch_session *session = session_find(sessions, message->session_id);
    if (session == NULL) {
        return KAFKA_FETCH_SESSION_ID_NOT_FOUND;
    }
    if (session->epoch != message->session_epoch) {
        return KAFKA_INVALID_FETCH_SESSION_EPOCH;
    }
    if (session->by_id != context->by_id) {
        return KAFKA_FETCH_SESSION_TOPIC_ID_ERROR;
    }
    if (!session_update(sessions, session, message)) {
        /* Half of the change is no session: the client begins a new one. */
        session_remove(sessions, session);
        return KAFKA_FETCH_SESSION_ID_NOT_FOUND;
    }
    if (session->partition_count == 0) {
        session_remove(sessions, session);
        return KAFKA_NONE; /* And this request is one without a session. */
    }
    if (!message_fill(session, arena, message)) {
        session_remove(sessions, session);
        return KAFKA_FETCH_SESSION_ID_NOT_FOUND;
    }
    session_touch(sessions, session, now_ms);
    session->epoch = epoch_next(session->epoch);
    context->kind = FETCH_INCREMENTAL;
    context->session_id = session->id;
    context->session_epoch = session->epoch;
    return KAFKA_NONE;
}

enum kafka_error fetch_session_begin(struct fetch_sessions *sessions, int64_t now_ms,
                                     int16_t version, struct arena *arena,
                                     struct fetch_request *message, struct fetch_context *context)
{
    *context = (struct fetch_context){.kind = FETCH_SESSIONLESS, .by_id = version >= 13};
    if (version < 7) {
        return KAFKA_NONE;
    }
    if (message->session_epoch != EPOCH_NONE && message->session_epoch != EPOCH_FIRST) {
        return incremental_begin(sessions, now_ms, arena, message, context);
    }
    struct fetch_session *session = session_find(sessions, message->session_id);
    if (session != NULL) {
        session_remove(sessions, session);
    }
    if (message->session_epoch == EPOCH_FIRST) {
        context->kind = FETCH_FULL;
    }
    return KAFKA_NONE;
}

/* ---------------------------------------------------------------- the answer */

static int32_t session_new_id(const struct fetch_sessions *sessions, uint64_t random)
{
    for (;; random = random * 6364136223846793005u + 1442695040888963407u) {
        int32_t id = (int32_t)(random >> 33);
        if (id > 0 && session_find(sessions, id) == NULL) {
            return id;
        }
    }
}

/* What the client has been told, partition by partition; false: no memory, or too many. */
static bool session_fill(struct fetch_sessions *sessions, struct fetch_session *session,
                         const struct fetch_request *message, const struct fetch_response *response)
{
    for (int32_t i = 0; i < message->topics_count; i++) {
        const topic_asked *topic = &message->topics[i];
        struct bytes key = topic_key(session->by_id, topic->topic, &topic->topic_id);
        for (int32_t j = 0; j < topic->partitions_count; j++) {
            const partition_out *out = &response->responses[i].partitions[j];
            struct session_partition *partition =
                partition_set(sessions, session, key, &topic->partitions[j]);
            if (partition == NULL) {
                return false;
            }
            partition->high_watermark = out->high_watermark;
            partition->log_start = out->log_start_offset;
        }
    }
    return true;
}

static uint64_t partitions_count(const struct fetch_request *message)
{
    uint64_t count = 0;
    for (int32_t i = 0; i < message->topics_count; i++) {
        count += (uint64_t)MAX(message->topics[i].partitions_count, 0);
    }
    return count;
}

/* The id of a new session, or 0 when there is no room for one. */
static int32_t session_create(struct fetch_sessions *sessions, int64_t now_ms, uint64_t random,
                              const struct fetch_request *message, bool by_id,
                              const struct fetch_response *response)
{
    uint64_t size = partitions_count(message);
    if (size > sessions->partitions_max ||
        (sessions->count >= sessions->slots && !session_evict(sessions, (uint32_t)size, now_ms))) {
        return 0;
    }
    while (sessions->partition_count + size > sessions->partitions_max) {
        if (!session_evict(sessions, (uint32_t)size, now_ms)) {
            return 0;
        }
    }
    struct fetch_session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        return 0;
    }
    list_init(&session->order);
    session->id = session_new_id(sessions, random);
    session->epoch = epoch_next(EPOCH_FIRST);
    session->by_id = by_id;
    session->created_ms = now_ms;
    HASH_ADD(hh, sessions->by_id, id, sizeof(session->id), session);
    if (session->hh.tbl == NULL) {
        free(session);
        return 0;
    }
    sessions->count++;
    session_touch(sessions, session, now_ms);
    if (!session_fill(sessions, session, message, response)) {
        session_remove(sessions, session);
        return 0;
    }
    return session->id;
}

/* Whether the client has to be told, which it is then taken to be. */
static bool partition_has_news(struct session_partition *partition, const partition_out *out)
{
    bool has_news = out->records.size > 0 || out->error_code != KAFKA_NONE ||
                    out->high_watermark != partition->high_watermark ||
                    out->log_start_offset != partition->log_start ||
                    out->diverging_epoch.epoch >= 0 || out->preferred_read_replica >= 0;
    partition->high_watermark = out->high_watermark;
    partition->log_start = out->log_start_offset;
    if (out->error_code != KAFKA_NONE || out->diverging_epoch.epoch >= 0) {
        partition->high_watermark = -1; /* When the error is gone that is news. */
    }
    return has_news;
}

/* Copies a topic's partitions with news; who got records is read last the next time. */
static void topic_filter(struct fetch_session *session, struct list_node **node,
                         const topic_out *from, topic_out *to)
{
    to->partitions_count = 0;
    for (int32_t i = 0; i < from->partitions_count; i++) {
        struct session_partition *partition = CONTAINER_OF(*node, struct session_partition, link);
        const partition_out *out = &from->partitions[i];
        ASSERT(partition->asked.partition == out->partition_index);
        *node = (*node)->next;
        if (!partition_has_news(partition, out)) {
            continue;
        }
        to->partitions[to->partitions_count++] = *out;
        if (out->records.size > 0) {
            list_remove(&partition->link);
            list_push_back(&session->order, &partition->link);
        }
    }
}

static bool topics_are_same(const topic_out *a, const topic_out *b)
{
    return bytes_equal(a->topic, b->topic) && uuid_equal(&a->topic_id, &b->topic_id);
}

static status response_filter(struct fetch_session *session, struct arena *arena,
                              struct fetch_response *response)
{
    int32_t count = response->responses_count;
    topic_out *topics = arena_array(arena, (size_t)count, sizeof(*topics));
    partition_out *partitions = arena_array(arena, session->partition_count, sizeof(*partitions));
    int32_t kept = 0;
    struct list_node *node = list_first(&session->order);
    if (topics == NULL || partitions == NULL) {
        return STATUS(NO_MEMORY);
    }
    for (int32_t i = 0; i < count; i++) {
        topics[kept] = response->responses[i];
        topics[kept].partitions = partitions;
        topic_filter(session, &node, &response->responses[i], &topics[kept]);
        int32_t told = topics[kept].partitions_count;
        partitions += told;
        /* What stood between two parts of a topic may be left out: as Kafka, they are one then. */
        if (kept > 0 && topics_are_same(&topics[kept - 1], &topics[kept])) {
            topics[kept - 1].partitions_count += told;
        } else {
            kept += told > 0 ? 1 : 0;
        }
    }
    response->responses = topics;
    response->responses_count = kept;
    return OK;
}

static void response_refuse(struct fetch_response *response, enum kafka_error error, int32_t id)
{
    response->error_code = (int16_t)error;
    response->session_id = id;
    response->responses = NULL;
    response->responses_count = 0;
}

status fetch_session_finish(struct fetch_sessions *sessions, int64_t now_ms, uint64_t random,
                            struct arena *arena, const struct fetch_request *message,
                            const struct fetch_context *context, struct fetch_response *response)
{
    if (context->kind == FETCH_SESSIONLESS) {
        return OK;
    }
    if (context->kind == FETCH_FULL) {
        response->session_id =
            session_create(sessions, now_ms, random, message, context->by_id, response);
        return OK;
    }
    /* While it waited the session may have been closed, or gone on with another request. */
    struct fetch_session *session = session_find(sessions, context->session_id);
    if (session == NULL) {
        response_refuse(response, KAFKA_FETCH_SESSION_ID_NOT_FOUND, 0);
        return OK;
    }
    if (session->epoch != context->session_epoch) {
        response_refuse(response, KAFKA_INVALID_FETCH_SESSION_EPOCH, session->id);
        return OK;
    }
    response->session_id = session->id;
    return response_filter(session, arena, response);
}

void fetch_sessions_check(const struct fetch_sessions *sessions)
{
    uint32_t count = 0;
    uint64_t partition_count = 0;
    int64_t used_ms = INT64_MIN;
    LIST_FOREACH (node, &sessions->by_use) {
        const struct fetch_session *session = CONTAINER_OF(node, struct fetch_session, link);
        count++;
        partition_count += session->partition_count;
        ASSERT(session->used_ms >= used_ms);
        ASSERT(HASH_COUNT(session->partitions) == session->partition_count);
        used_ms = session->used_ms;
    }
    ASSERT(count == sessions->count);
    ASSERT(count <= sessions->slots);
    ASSERT(HASH_COUNT(sessions->by_id) == count);
    ASSERT(partition_count == sessions->partition_count);
    ASSERT(partition_count <= sessions->partitions_max);
}
