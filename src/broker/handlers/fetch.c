/*
 * Fetch: reads record batches. A request goes through
 *
 *     handle_fetch --> waiting ---------------> admission ------------> reading --> answered
 *          |           watches, one timer       waits for memory        one partition after the
 * other
 *          '-- enough already ------------------^
 *
 * waiting    until min_bytes are there, max_wait is over, or a partition is in error
 * admission  the bytes to be read are reserved from the shard's fetch memory; what is over it waits
 *            in order. The grant bounds the response, but for a first batch that is larger
 * reading    the first batch of the first partition that has one comes whole, over any limit; what
 *            follows only within the grant
 *
 * Records go to the socket from where the log put them (one buffer per partition). In a session
 * (fetch_session.h) the partitions are the session's, and the answer leaves out those without news.
 */
#include <stdlib.h>

#include "twinlog/core/assert.h"

#include "../shard.h"

#define FETCH_COPY_MAX  512u   /* smaller record sets are copied into the answer */
#define FETCH_GRANT_MIN 65536u /* with less memory than this a fetch waits */
#define NS_PER_MS       1000000LL
#define READ_COMMITTED  1

typedef struct fetch_response_partition_data partition_data;

struct fetch;

/* One partition of a request, in the order of the request. */
struct fetch_item {
    struct fetch *fetch;
    const struct fetch_request_fetch_partition *asked;
    struct uuid topic_id;
    partition_data *out;
    uint64_t available; /* bytes, capped by the partition's own limit */
    struct partition_watch watch;
    bool watched;
};

struct fetch {
    struct request *request;
    struct shard *shard;
    struct fetch_request message;
    struct fetch_response response;
    struct fetch_context session;
    struct fetch_item *items;
    uint32_t item_count;
    uint32_t item_at;     /* the partition being read */
    uint32_t found_count; /* items whose partition was there at the start */
    uint64_t available;
    bool has_error; /* of an item that was found */
    bool waiting;
    struct io_timer timer;
    uint64_t granted; /* reserved from the shard's fetch memory */
    uint64_t read_size;
    struct log_read read;
};

static void fetch_admit(struct fetch *fetch);
static void fetch_read_on(struct fetch *fetch);

/* ---------------------------------------------------------------- items */

static struct partition *item_find(const struct fetch_item *item)
{
    struct topic *topic = metadata_topic_by_id(&item->fetch->shard->metadata, &item->topic_id);
    return topic == NULL ? NULL : topic_partition(topic, item->asked->partition);
}

static void item_fail(struct fetch_item *item, enum kafka_error error)
{
    item->out->error_code = (int16_t)error;
    item->out->high_watermark = -1;
    item->out->last_stable_offset = -1;
    item->out->log_start_offset = -1;
    item->out->records = (struct bytes){(const uint8_t *)"", 0};
}

static enum kafka_error item_missing_error(const struct fetch_item *item)
{
    struct fetch *fetch = item->fetch;
    bool by_id = fetch->request->version >= 13;
    if (by_id && metadata_topic_by_id(&fetch->shard->metadata, &item->topic_id) == NULL) {
        return KAFKA_UNKNOWN_TOPIC_ID;
    }
    return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
}

/*
 * Whether the log went another way than the client's since its last record (KIP-595): then the
 * answer says where the client's epoch ends, without records.
 */
static enum kafka_error item_judge_epoch(struct fetch_item *item, const struct partition *partition)
{
    int32_t last_epoch = item->asked->last_fetched_epoch;
    struct log_epoch end;
    item->out->diverging_epoch = fetch_response_epoch_end_offset_default;
    if (last_epoch < 0) {
        return KAFKA_NONE;
    }
    if (!log_epoch_end(partition, last_epoch, &end)) {
        return KAFKA_OFFSET_OUT_OF_RANGE;
    }
    if (end.epoch < last_epoch || end.end_offset < item->asked->fetch_offset) {
        item->out->diverging_epoch.epoch = end.epoch;
        item->out->diverging_epoch.end_offset = end.end_offset;
    }
    return KAFKA_NONE;
}

static bool item_diverges(const struct fetch_item *item)
{
    return item->out->diverging_epoch.epoch >= 0;
}

/* Fills in the offsets and judges the request's; NULL when the partition is in error. */
static struct partition *item_judge(struct fetch_item *item)
{
    struct partition *partition = item_find(item);
    if (partition == NULL) {
        item_fail(item, item_missing_error(item));
        /* A detail of Kafka's: an empty list here, null beside other errors. */
        item->out->aborted_transactions_count = 0;
        return NULL;
    }
    struct partition_offsets offsets = log_partition_offsets(partition);
    enum kafka_error error =
        error_of_leader_epoch(item->asked->current_leader_epoch, offsets.leader_epoch);
    if (error == KAFKA_NONE) {
        error = item_judge_epoch(item, partition);
    }
    if (error == KAFKA_NONE && !item_diverges(item) &&
        (item->asked->fetch_offset < offsets.log_start ||
         item->asked->fetch_offset > offsets.high_watermark)) {
        error = KAFKA_OFFSET_OUT_OF_RANGE;
    }
    if (error != KAFKA_NONE) {
        item_fail(item, error);
        item->fetch->has_error = true;
        return NULL;
    }
    if (item->fetch->message.isolation_level == READ_COMMITTED) {
        item->out->aborted_transactions_count = 0;
    }
    item->out->error_code = KAFKA_NONE;
    item->out->high_watermark = offsets.high_watermark;
    item->out->last_stable_offset = offsets.last_stable;
    item->out->log_start_offset = offsets.log_start;
    item->fetch->has_error |= item_diverges(item); /* As with an error nothing is waited for. */
    return partition;
}

static void item_count_available(struct fetch_item *item, struct partition *partition)
{
    uint64_t limit = (uint64_t)MAX(item->asked->partition_max_bytes, 0);
    uint64_t available = log_partition_available(partition, item->asked->fetch_offset);
    /* A batch larger than the limit is there all the same: it counts as one byte at least. */
    available = available == 0 ? 0 : MAX(MIN(available, limit), 1U);
    item->fetch->available += available - item->available;
    item->available = available;
}

/* ---------------------------------------------------------------- waiting */

static bool fetch_has_enough(const struct fetch *fetch)
{
    /* More than may be returned is not waited for. */
    int64_t max_bytes =
        MIN((int64_t)fetch->message.max_bytes, fetch->shard->config->fetch_size_max);
    int64_t min_bytes = MIN((int64_t)fetch->message.min_bytes, max_bytes);
    return fetch->has_error || fetch->found_count == 0 || fetch->shard->stopping ||
           fetch->available >= (uint64_t)MAX(min_bytes, 0);
}

static void fetch_end_wait(struct fetch *fetch)
{
    if (!fetch->waiting) {
        return;
    }
    fetch->waiting = false;
    list_remove(&fetch->request->link);
    io_timer_stop(fetch->shard->io, &fetch->timer);
    for (uint32_t i = 0; i < fetch->item_count; i++) {
        if (fetch->items[i].watched) {
            fetch->items[i].watched = false;
            log_partition_unwatch(&fetch->items[i].watch);
        }
    }
}

static void fetch_on_moved(struct partition_watch *watch, bool removed)
{
    struct fetch_item *item = watch->context;
    struct fetch *fetch = item->fetch;
    struct partition *partition = removed ? NULL : item_find(item);
    if (removed) {
        item->watched = false;
        fetch->has_error = true;
    } else if (partition != NULL) {
        item_count_available(item, partition);
    }
    if (fetch_has_enough(fetch)) {
        fetch_end_wait(fetch);
        fetch_admit(fetch);
    }
}

static void fetch_on_timer(struct io_timer *timer)
{
    struct fetch *fetch = timer->context;
    fetch_end_wait(fetch);
    fetch_admit(fetch);
}

static void fetch_wait(struct fetch *fetch)
{
    fetch->waiting = true;
    list_push_back(&fetch->shard->fetch_waits, &fetch->request->link);
    for (uint32_t i = 0; i < fetch->item_count; i++) {
        struct fetch_item *item = &fetch->items[i];
        struct partition *partition = item_find(item);
        if (partition == NULL) {
            continue; /* It is answered with the rest. */
        }
        item->watch.fn = fetch_on_moved;
        item->watch.context = item;
        item->watched = true;
        log_partition_watch(partition, &item->watch);
    }
    fetch->timer.context = fetch;
    io_timer_start(fetch->shard->io, &fetch->timer, (int64_t)fetch->message.max_wait_ms * NS_PER_MS,
                   fetch_on_timer);
}

void fetch_finish_all(struct shard *shard)
{
    struct list_node *node;
    while ((node = list_first(&shard->fetch_waits)) != NULL) {
        struct fetch *fetch = CONTAINER_OF(node, struct request, link)->state;
        fetch_end_wait(fetch);
        fetch_admit(fetch);
    }
}

/* ---------------------------------------------------------------- admission */

/*
 * Takes of the shard's fetch memory, at most half of what is left, so that peers who do not take
 * their answers leave something to others, and the last of it is for small fetches; false: too
 * little, wait.
 */
static bool fetch_take_memory(struct fetch *fetch, uint64_t wanted)
{
    struct shard *shard = fetch->shard;
    uint64_t max = (uint64_t)shard->config->fetch_memory_size;
    uint64_t left = shard->fetch_memory >= max ? 0 : max - shard->fetch_memory;
    uint64_t granted = MIN(wanted, wanted <= FETCH_GRANT_MIN ? left : left / 2);
    if (granted < MIN(wanted, (uint64_t)FETCH_GRANT_MIN) && shard->fetch_memory > 0) {
        return false;
    }
    fetch->granted = granted;
    shard->fetch_memory += granted;
    return true;
}

static uint64_t fetch_wanted(const struct fetch *fetch)
{
    uint64_t wanted = 0;
    for (uint32_t i = 0; i < fetch->item_count; i++) {
        wanted += fetch->items[i].available;
    }
    uint64_t limit = (uint64_t)MAX(fetch->message.max_bytes, 0);
    limit = MIN(limit, (uint64_t)fetch->shard->config->fetch_size_max);
    return MIN(wanted, limit);
}

static void fetch_begin_read(struct fetch *fetch)
{
    fetch->item_at = 0;
    fetch_read_on(fetch);
}

static void fetch_admit(struct fetch *fetch)
{
    struct shard *shard = fetch->shard;
    uint64_t wanted = fetch_wanted(fetch);
    bool is_behind = !list_is_empty(&shard->fetch_memory_waits) && wanted > FETCH_GRANT_MIN;
    if (is_behind || !fetch_take_memory(fetch, wanted)) {
        list_push_back(&shard->fetch_memory_waits, &fetch->request->link);
        return;
    }
    fetch_begin_read(fetch);
}

static void fetch_release_memory(struct fetch *fetch)
{
    struct shard *shard = fetch->shard;
    ASSERT(shard->fetch_memory >= fetch->granted);
    shard->fetch_memory -= fetch->granted;
    fetch->granted = 0;
    struct list_node *node;
    while ((node = list_first(&shard->fetch_memory_waits)) != NULL) {
        struct fetch *next = CONTAINER_OF(node, struct request, link)->state;
        if (!fetch_take_memory(next, fetch_wanted(next))) {
            return;
        }
        list_remove(node);
        fetch_begin_read(next);
    }
}

/* ---------------------------------------------------------------- reading */

static void item_take_read(struct fetch_item *item, struct log_read *read)
{
    struct fetch *fetch = item->fetch;
    if (!status_is_ok(read->result)) {
        if (read->result.code == STATUS_NOT_FOUND) {
            item_fail(item, item_find(item) == NULL ? item_missing_error(item)
                                                    : KAFKA_OFFSET_OUT_OF_RANGE);
        } else {
            item_fail(item, error_of_status(read->result));
        }
        return;
    }
    if (read->size == 0) {
        free(read->data);
        return;
    }
    item->out->records = (struct bytes){read->data, read->size};
    fetch->read_size += read->size;
}

static void fetch_on_read(struct log_read *read)
{
    struct fetch *fetch = read->context;
    item_take_read(&fetch->items[fetch->item_at], read);
    fetch->item_at++;
    fetch_read_on(fetch);
}

static int64_t fetch_now_ms(const struct fetch *fetch)
{
    return io_now_ns(fetch->shard->io) / NS_PER_MS;
}

/* What goes by reference of what is left of the answer. */
static void fetch_count_referenced(struct fetch *fetch, uint32_t *count, uint64_t *size)
{
    *count = 0;
    *size = 0;
    for (int32_t i = 0; i < fetch->response.responses_count; i++) {
        const struct fetch_response_fetchable_topic_response *topic = &fetch->response.responses[i];
        for (int32_t j = 0; j < topic->partitions_count; j++) {
            uint32_t records_size = topic->partitions[j].records.size;
            if (records_size > FETCH_COPY_MAX) {
                *count += 1;
                *size += records_size;
            }
        }
    }
}

static void fetch_answer(struct fetch *fetch)
{
    struct request *request = fetch->request;
    uint32_t count;
    uint64_t size;
    status result = fetch_session_finish(&fetch->shard->fetch_sessions, fetch_now_ms(fetch),
                                         io_random(fetch->shard->io), request_arena(request),
                                         &fetch->message, &fetch->session, &fetch->response);
    if (!status_is_ok(result)) {
        request_close(request, status_text(result));
        return;
    }
    fetch_count_referenced(fetch, &count, &size);
    if (count == 0) {
        (void)request_respond(request, &fetch->response);
        return;
    }
    result = request_encode_ranges(request, &fetch->response, 2 * count + 4, size, FETCH_COPY_MAX);
    if (status_is_ok(result)) {
        net_request_answer(&request->net);
    } else {
        request_close(request, status_text(result));
    }
}

/* True: the item is done with; false: fetch_on_read() goes on. */
static bool fetch_read_item(struct fetch *fetch, struct fetch_item *item)
{
    struct partition *partition = item_judge(item);
    if (partition == NULL || item_diverges(item)) {
        return true;
    }
    item->out->records = (struct bytes){(const uint8_t *)"", 0};
    bool whole_first = fetch->read_size == 0;
    uint64_t left = fetch->granted > fetch->read_size ? fetch->granted - fetch->read_size : 0;
    uint64_t limit = MIN((uint64_t)MAX(item->asked->partition_max_bytes, 0), left);
    if (limit == 0 && !whole_first) {
        return true;
    }
    fetch->read = (struct log_read){
        .offset = item->asked->fetch_offset,
        .size_max = (uint32_t)limit,
        .whole_first = whole_first,
        .fn = fetch_on_read,
        .context = fetch,
    };
    if (!log_read_start(fetch->shard->log, partition, &fetch->read)) {
        return false;
    }
    item_take_read(item, &fetch->read);
    return true;
}

static void fetch_read_on(struct fetch *fetch)
{
    while (fetch->item_at < fetch->item_count) {
        if (!fetch_read_item(fetch, &fetch->items[fetch->item_at])) {
            return;
        }
        fetch->item_at++;
    }
    fetch_answer(fetch);
}

/* ---------------------------------------------------------------- the request */

static void fetch_cleanup(struct request *request)
{
    struct fetch *fetch = request->state;
    ASSERT(!fetch->waiting || fetch->shard->crashed);
    for (uint32_t i = 0; i < fetch->item_count; i++) {
        if (fetch->items[i].out->records.size > 0) {
            free((void *)fetch->items[i].out->records.data);
        }
    }
    if (!fetch->shard->crashed) {
        fetch_release_memory(fetch);
    }
}

/* The connection is gone: nobody waits for the records. */
static void fetch_abandon(struct net_request *net)
{
    struct request *request = CONTAINER_OF(net, struct request, net);
    struct fetch *fetch = request->state;
    if (fetch->waiting) {
        fetch_end_wait(fetch);
    } else if (list_node_is_linked(&request->link)) {
        list_remove(&request->link);
    } else {
        return; /* It is being read, and ends by itself. */
    }
    net->range_count = 0;
    net_request_answer(net);
}

static status fetch_topic_init(struct fetch *fetch, int32_t index)
{
    const struct fetch_request_fetch_topic *asked = &fetch->message.topics[index];
    struct fetch_response_fetchable_topic_response *out = &fetch->response.responses[index];
    *out = fetch_response_fetchable_topic_response_default;
    out->topic = asked->topic;
    out->topic_id = asked->topic_id;
    out->partitions = arena_array(request_arena(fetch->request),
                                  (size_t)MAX(asked->partitions_count, 0), sizeof(partition_data));
    if (out->partitions == NULL) {
        return STATUS(NO_MEMORY);
    }
    out->partitions_count = MAX(asked->partitions_count, 0);
    struct uuid id = asked->topic_id;
    if (fetch->request->version < 13) {
        /* No topic has the zero id. */
        struct topic *topic = metadata_topic_by_name(&fetch->shard->metadata, asked->topic);
        memset(&id, 0, sizeof(id));
        if (topic != NULL) {
            id = topic->id;
        }
    }
    for (int32_t i = 0; i < out->partitions_count; i++) {
        struct fetch_item *item = &fetch->items[fetch->item_count++];
        item->fetch = fetch;
        item->asked = &asked->partitions[i];
        item->topic_id = id;
        item->out = &out->partitions[i];
        *item->out = fetch_response_partition_data_default;
        item->out->partition_index = item->asked->partition;
        item->out->aborted_transactions_count = -1;
        item->out->records = (struct bytes){(const uint8_t *)"", 0};
    }
    return OK;
}

static status fetch_items_init(struct fetch *fetch)
{
    struct arena *arena = request_arena(fetch->request);
    size_t item_count = 0;
    size_t topic_count = (size_t)MAX(fetch->message.topics_count, 0);
    for (size_t i = 0; i < topic_count; i++) {
        item_count += (size_t)MAX(fetch->message.topics[i].partitions_count, 0);
    }
    fetch->items = arena_array(arena, item_count, sizeof(*fetch->items));
    fetch->response = fetch_response_default;
    fetch->response.responses = arena_array(arena, topic_count, sizeof(*fetch->response.responses));
    if (fetch->items == NULL || fetch->response.responses == NULL) {
        return STATUS(NO_MEMORY);
    }
    fetch->response.responses_count = (int32_t)topic_count;
    for (size_t i = 0; i < topic_count; i++) {
        TRY(fetch_topic_init(fetch, (int32_t)i));
    }
    for (uint32_t i = 0; i < fetch->item_count; i++) {
        struct partition *partition = item_judge(&fetch->items[i]);
        fetch->found_count += item_find(&fetch->items[i]) != NULL ? 1 : 0;
        if (partition != NULL) {
            item_count_available(&fetch->items[i], partition);
        }
    }
    return OK;
}

static enum net_verdict fetch_answer_session_error(struct fetch *fetch, enum kafka_error error)
{
    fetch->response = fetch_response_default;
    fetch->response.error_code = (int16_t)error;
    return request_respond(fetch->request, &fetch->response);
}

enum net_verdict handle_fetch(struct shard *shard, struct request *request)
{
    struct arena *arena = request_arena(request);
    struct fetch *fetch = arena_array(arena, 1, sizeof(*fetch));
    if (fetch == NULL || !status_is_ok(request_decode(request, arena, &fetch->message))) {
        return NET_CLOSE;
    }
    fetch->request = request;
    fetch->shard = shard;
    enum kafka_error error =
        fetch_session_begin(&shard->fetch_sessions, fetch_now_ms(fetch), request->version, arena,
                            &fetch->message, &fetch->session);
    if (error != KAFKA_NONE) {
        return fetch_answer_session_error(fetch, error);
    }
    if (!status_is_ok(fetch_items_init(fetch))) {
        return request_refuse(request, "no memory for its partitions");
    }
    request->state = fetch;
    request->cleanup = fetch_cleanup;
    request->net.abandon = fetch_abandon;
    if (fetch->message.max_wait_ms > 0 && !fetch_has_enough(fetch)) {
        fetch_wait(fetch);
    } else {
        fetch_admit(fetch);
    }
    return NET_TAKEN;
}
