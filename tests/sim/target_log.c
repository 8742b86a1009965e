/*
 * The log alone as a target: requests become calls of log.h, connections are only remembered. The
 * catalog of topics is kept in the metadata partition, as the broker keeps its own, in records of
 * one line: "+<name> <partition count> <id>" and "-<id>".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "target.h"
#include "violation.h"

#define LINE_SIZE      64u
#define CATALOG_SIZE   512u
#define PRODUCER_FIRST 1000 /* producer ids begin here */

struct log_topic {
    struct list_node link;
    uint32_t name;
    struct uuid id;
    uint32_t partition_count;
    struct partition *partitions[MODEL_PARTITIONS_MAX];
};

/* What a request needs while it is out. */
struct log_request {
    struct list_node link; /* in `active`, or `waiting` for room */
    struct target_log *target;
    struct request *request; /* NULL: its connection is gone */
    struct log_wait wait;
    struct log_read read;
    struct log_time_lookup lookup;
    bool reads; /* or looks up */
};

struct target_log {
    struct target base;
    struct log *log;
    struct list topics;
    struct list active;
    struct list waiting;
    struct list produced[CLIENTS_COUNT]; /* produce requests that are out, in order */
    struct list replies; /* finished: told at the next turn, so never inside submit */
    struct io_timer reply_timer;
    struct io_hook check_hook;
    int64_t next_producer_id;
    bool is_offline;
    bool is_full;
    bool stopped;
};

static struct target_log *log_of(struct target *target)
{
    return CONTAINER_OF(target, struct target_log, base);
}

static struct log_request *active_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct log_request, link);
}

/* ---------------------------------------------------------------- catalog */

static struct log_topic *topic_find(struct target_log *t, const struct uuid *id)
{
    LIST_FOREACH (node, &t->topics) {
        struct log_topic *topic = CONTAINER_OF(node, struct log_topic, link);
        if (uuid_equal(&topic->id, id)) {
            return topic;
        }
    }
    return NULL;
}

static struct log_topic *topic_named(struct target_log *t, uint32_t name)
{
    LIST_FOREACH (node, &t->topics) {
        struct log_topic *topic = CONTAINER_OF(node, struct log_topic, link);
        if (topic->name == name) {
            return topic;
        }
    }
    return NULL;
}

static void topic_free(struct log_topic *topic)
{
    list_remove(&topic->link);
    free(topic);
}

static void catalog_add(struct target_log *t, uint32_t name, uint32_t count, const struct uuid *id)
{
    struct log_topic *topic = calloc(1, sizeof(*topic));
    ASSERT(topic != NULL);
    topic->name = name;
    topic->id = *id;
    topic->partition_count = count;
    list_push_back(&t->topics, &topic->link);
    char text[16];
    snprintf(text, sizeof(text), "topic%u", name);
    for (uint32_t i = 0; i < count; i++) {
        status s = log_partition_add(t->log, text, id, (int32_t)i, &t->base.sizes.partition,
                                     &topic->partitions[i]);
        if (!status_is_ok(s)) {
            violation("partition %u of %s cannot be added: %s", i, text, status_text(s));
        }
    }
}

static void catalog_remove(struct target_log *t, const struct uuid *id)
{
    struct log_topic *topic = topic_find(t, id);
    if (topic == NULL) {
        violation("metadata deletes a topic that is not there");
    }
    for (uint32_t i = 0; i < topic->partition_count; i++) {
        log_partition_remove(t->log, topic->partitions[i]);
    }
    topic_free(topic);
}

static void on_metadata(void *context, struct bytes batch)
{
    struct target_log *t = context;
    struct batch_header header;
    struct record_iterator it;
    struct record record;
    if (!status_is_ok(batch_header_read(batch, &header)) ||
        !batch_crc_is_valid(batch.data, &header)) {
        violation("a metadata batch is damaged");
    }
    record_iterator_init(
        &it, &header,
        (struct bytes){batch.data + BATCH_HEADER_SIZE, header.size - BATCH_HEADER_SIZE});
    while (status_is_ok(record_iterator_next(&it, &record))) {
        char line[LINE_SIZE];
        char id_text[UUID_TEXT_SIZE];
        uint32_t name = 0;
        uint32_t count = 0;
        struct uuid id;
        snprintf(line, sizeof(line), "%.*s", (int)record.value.size,
                 (const char *)record.value.data);
        bool is_add = sscanf(line, "+%u %u %22s", &name, &count, id_text) == 3;
        if ((!is_add && sscanf(line, "-%22s", id_text) != 1) ||
            !uuid_parse(id_text, strlen(id_text), &id)) {
            violation("a metadata record reads '%s'", line);
        }
        if (is_add) {
            catalog_add(t, name, count, &id);
        } else {
            catalog_remove(t, &id);
        }
    }
}

/* ---------------------------------------------------------------- replies */

static void replies_tell(struct target_log *t)
{
    struct list replies;
    list_init(&replies);
    list_splice(&replies, &t->replies);
    struct list_node *node;
    while ((node = list_pop_front(&replies)) != NULL) {
        struct request *request = CONTAINER_OF(node, struct request, link);
        request->done(request);
    }
}

static void on_reply_timer(struct io_timer *timer)
{
    replies_tell(timer->context);
}

static void reply_later(struct target_log *t, struct request *request, enum reply reply)
{
    request->reply = reply;
    request->is_answered = true;
    if (request->kind != REQUEST_PRODUCE) {
        list_push_back(&t->replies, &request->link);
    } else {
        /* As on a connection: an answer waits for those before it. */
        struct list *produced = &t->produced[request->client];
        struct list_node *node;
        while ((node = list_first(produced)) != NULL &&
               CONTAINER_OF(node, struct request, link)->is_answered) {
            list_remove(node);
            list_push_back(&t->replies, node);
        }
    }
    io_timer_start(sim_node_io(t->base.node), &t->reply_timer, 0, on_reply_timer);
}

/* The request is through; what it needed is freed. */
static void request_end(struct log_request *active, enum reply reply)
{
    if (active->request != NULL) {
        reply_later(active->target, active->request, reply);
    }
    if (list_node_is_linked(&active->link)) {
        list_remove(&active->link);
    }
    log_wait_cancel(&active->wait);
    free(active);
}

static struct log_request *request_begin(struct target_log *t, struct request *request)
{
    struct log_request *active = calloc(1, sizeof(*active));
    ASSERT(active != NULL);
    active->target = t;
    active->request = request;
    active->wait.context = active;
    active->read.context = active;
    active->lookup.context = active;
    return active;
}

static void on_committed(struct log_wait *wait)
{
    request_end(wait->context, status_is_ok(wait->result) ? REPLY_OK : REPLY_FAILED);
}

/* ---------------------------------------------------------------- produce */

/* False: there is no room, try again later. */
static bool produce_append(struct log_request *active)
{
    struct target_log *t = active->target;
    struct request *request = active->request;
    struct log_topic *topic = topic_find(t, &request->topic->id);
    if (topic == NULL) {
        request_end(active, REPLY_GONE);
        return true;
    }
    struct batch_header header;
    struct batch_fault fault;
    struct batch_rules rules = {.size_max = 1u << 20,
                                .now_ms = io_wall_ms(sim_node_io(t->base.node)),
                                .timestamp_before_max = INT64_MAX,
                                .timestamp_after_max = INT64_MAX};
    ASSERT(batch_validate(request->batch, &rules, &header, &fault) == KAFKA_NONE);
    struct log_appended appended;
    status s = log_append(t->log, topic->partitions[request->partition], request->batch, &header,
                          &appended);
    if (s.code == STATUS_FULL) {
        return false;
    }
    if (!status_is_ok(s)) {
        request_end(active, REPLY_FAILED);
        return true;
    }
    if (appended.verdict == LOG_OUT_OF_ORDER_SEQUENCE ||
        appended.verdict == LOG_INVALID_PRODUCER_EPOCH) {
        request_end(active, REPLY_OUT_OF_ORDER);
        return true;
    }
    t->base.coverage.duplicates += appended.verdict == LOG_DUPLICATE ? 1 : 0;
    request->base_offset = appended.base_offset;
    list_push_back(&t->active, &active->link);
    if (request->acks_all) {
        log_wait_committed(t->log, &active->wait, appended.lsn, on_committed);
    } else {
        log_wait_synced(t->log, &active->wait, appended.lsn, on_committed);
    }
    return true;
}

/* Those that wait go first, in the order they came: appends of a client keep theirs. */
static void waiting_retry(struct target_log *t)
{
    struct list_node *node;
    while ((node = list_first(&t->waiting)) != NULL) {
        list_remove(node);
        if (!produce_append(active_of(node))) {
            list_push_front(&t->waiting, node);
            return;
        }
    }
}

static void produce_submit(struct target_log *t, struct request *request)
{
    list_push_back(&t->produced[request->client], &request->link);
    if (t->is_full) {
        reply_later(t, request, REPLY_REFUSED);
        return;
    }
    struct log_request *active = request_begin(t, request);
    if (!list_is_empty(&t->waiting) || !produce_append(active)) {
        t->base.coverage.waits_for_room++;
        list_push_back(&t->waiting, &active->link);
    }
}

/* ---------------------------------------------------------------- fetch */

static void on_read(struct log_read *read)
{
    struct log_request *active = read->context;
    struct request *request = active->request;
    if (request == NULL) {
        free(read->data);
        request_end(active, REPLY_LOST);
        return;
    }
    request->data = read->data;
    request->size = read->size;
    switch (read->result.code) {
    case STATUS_OK:
        request_end(active, REPLY_OK);
        return;
    case STATUS_NOT_FOUND:
        request_end(active, topic_find(active->target, &request->topic->id) != NULL
                                ? REPLY_OUT_OF_RANGE
                                : REPLY_GONE);
        return;
    case STATUS_CORRUPT:
        request_end(active, REPLY_DAMAGED);
        return;
    default:
        request_end(active, REPLY_FAILED);
    }
}

static void fetch_submit(struct target_log *t, struct request *request)
{
    struct log_topic *topic = topic_find(t, &request->topic->id);
    if (topic == NULL) {
        reply_later(t, request, REPLY_GONE);
        return;
    }
    struct partition *partition = topic->partitions[request->partition];
    struct log_request *active = request_begin(t, request);
    active->reads = true;
    active->read.offset = request->offset;
    active->read.size_max = request->size_max;
    active->read.whole_first = true;
    active->read.fn = on_read;
    request->high_watermark = log_partition_offsets(partition).high_watermark;
    request->log_start = log_partition_offsets(partition).log_start;
    list_push_back(&t->active, &active->link);
    if (log_read_start(t->log, partition, &active->read)) {
        t->base.coverage.memory_reads++;
        on_read(&active->read);
    } else {
        t->base.coverage.segment_reads++;
    }
}

/* ---------------------------------------------------------------- offsets */

static void on_lookup(struct log_time_lookup *lookup)
{
    struct log_request *active = lookup->context;
    struct request *request = active->request;
    enum reply reply = REPLY_FAILED;
    if (request == NULL) {
        request_end(active, REPLY_LOST);
        return;
    }
    request->base_offset = lookup->offset;
    request->found_timestamp = lookup->found_timestamp;
    if (status_is_ok(lookup->result)) {
        reply = REPLY_OK;
    } else if (topic_find(active->target, &request->topic->id) == NULL) {
        reply = REPLY_GONE;
    }
    request_end(active, reply);
}

static void offsets_submit(struct target_log *t, struct request *request)
{
    struct log_topic *topic = topic_find(t, &request->topic->id);
    if (topic == NULL) {
        reply_later(t, request, REPLY_GONE);
        return;
    }
    struct partition *partition = topic->partitions[request->partition];
    struct partition_offsets offsets = log_partition_offsets(partition);
    if (request->timestamp == OFFSETS_EARLIEST || request->timestamp == OFFSETS_LATEST) {
        bool is_start = request->timestamp == OFFSETS_EARLIEST;
        request->base_offset = is_start ? offsets.log_start : offsets.high_watermark;
        reply_later(t, request, REPLY_OK);
        return;
    }
    struct log_request *active = request_begin(t, request);
    active->reads = true;
    active->lookup.timestamp = request->timestamp;
    active->lookup.find_max = request->timestamp == OFFSETS_MAX_TIME;
    active->lookup.fn = on_lookup;
    list_push_back(&t->active, &active->link);
    if (log_time_lookup_start(t->log, partition, &active->lookup)) {
        on_lookup(&active->lookup);
    }
}

static void on_trimmed(struct log_wait *wait)
{
    struct log_request *active = wait->context;
    struct request *request = active->request;
    struct log_topic *topic = topic_find(active->target, &request->topic->id);
    if (topic != NULL) {
        struct partition *partition = topic->partitions[request->partition];
        request->base_offset = log_partition_offsets(partition).log_start;
    }
    request_end(active, !status_is_ok(wait->result) ? REPLY_FAILED
                        : topic == NULL             ? REPLY_GONE
                                                    : REPLY_OK);
}

static void trim_submit(struct target_log *t, struct request *request)
{
    struct log_topic *topic = topic_find(t, &request->topic->id);
    uint64_t lsn = 0;
    if (topic == NULL) {
        reply_later(t, request, REPLY_GONE);
        return;
    }
    struct partition *partition = topic->partitions[request->partition];
    status s = log_delete_before(t->log, partition, request->offset, &lsn);
    if (!status_is_ok(s)) {
        reply_later(t, request, s.code == STATUS_FULL ? REPLY_REFUSED : REPLY_FAILED);
    } else if (lsn == 0) {
        request->base_offset = log_partition_offsets(partition).log_start;
        reply_later(t, request, REPLY_OK);
    } else {
        struct log_request *active = request_begin(t, request);
        list_push_back(&t->active, &active->link);
        log_wait_committed(t->log, &active->wait, lsn, on_trimmed);
    }
}

/* ---------------------------------------------------------------- topics */

static void catalog_append(struct target_log *t, struct request *request, const char *line)
{
    uint8_t buffer[CATALOG_SIZE];
    struct batch_builder builder;
    struct batch_header header;
    batch_builder_init(&builder, buffer, sizeof(buffer));
    status s =
        batch_builder_add(&builder, io_wall_ms(sim_node_io(t->base.node)), (struct bytes){NULL, 0},
                          (struct bytes){(const uint8_t *)line, (uint32_t)strlen(line)});
    ASSERT(status_is_ok(s));
    struct bytes batch = batch_builder_finish(&builder, -1, -1, -1, 0);
    s = batch_header_read(batch, &header);
    ASSERT(status_is_ok(s));
    struct log_appended appended;
    s = log_append(t->log, log_metadata_partition(t->log), batch, &header, &appended);
    if (!status_is_ok(s)) {
        reply_later(t, request, s.code == STATUS_FULL ? REPLY_REFUSED : REPLY_FAILED);
        return;
    }
    struct log_request *active = request_begin(t, request);
    list_push_back(&t->active, &active->link);
    log_wait_committed(t->log, &active->wait, appended.lsn, on_committed);
}

static void create_submit(struct target_log *t, struct request *request)
{
    if (topic_named(t, request->topic->name) != NULL) {
        reply_later(t, request, REPLY_EXISTS);
        return;
    }
    struct io *io = sim_node_io(t->base.node);
    char id[UUID_TEXT_SIZE];
    char line[LINE_SIZE];
    request->topic_id = uuid_from_random(io_random(io), io_random(io));
    uuid_format(&request->topic_id, id);
    snprintf(line, sizeof(line), "+%u %u %s", request->topic->name, request->topic->partition_count,
             id);
    catalog_append(t, request, line);
}

static void delete_submit(struct target_log *t, struct request *request)
{
    char id[UUID_TEXT_SIZE];
    char line[LINE_SIZE];
    if (topic_find(t, &request->topic->id) == NULL) {
        reply_later(t, request, REPLY_GONE);
        return;
    }
    uuid_format(&request->topic->id, id);
    snprintf(line, sizeof(line), "-%s", id);
    catalog_append(t, request, line);
}

static void list_submit(struct target_log *t, struct request *request)
{
    request->listed_count = 0;
    LIST_FOREACH (node, &t->topics) {
        const struct log_topic *topic = CONTAINER_OF(node, struct log_topic, link);
        if (request->listed_count == MODEL_NAMES) {
            violation("more topics are listed than there are names");
        }
        request->listed[request->listed_count++] =
            (struct model_listed){topic->name, topic->id, topic->partition_count};
    }
    reply_later(t, request, REPLY_OK);
}

/* ---------------------------------------------------------------- life */

static void on_room(void *context)
{
    waiting_retry(context);
}

static void on_offline(void *context, status why)
{
    struct target_log *t = context;
    (void)why;
    t->is_offline = true;
    t->base.coverage.offline++;
    waiting_retry(t); /* Each is answered that the log is offline. */
}

static void on_disk_full(void *context, bool full)
{
    struct target_log *t = context;
    t->is_full = full;
    t->base.coverage.disk_full += full ? 1 : 0;
}

static void on_turn_end(struct io_hook *hook)
{
    struct target_log *t = hook->context;
    if (t->log != NULL && !t->stopped) {
        log_check(t->log);
    }
}

static status target_format(struct target *target)
{
    struct log_format_options options = {
        .dir = TARGET_DIR,
        .cluster_id = {{7}},
        .node_id = 1,
        .shard_count = 1,
        .journal_size = target->sizes.journal_size,
        .journal_file_count = target->sizes.journal_file_count,
    };
    struct io *io = sim_node_io(target->node);
    uint64_t random[2] = {io_random(io), io_random(io)};
    status s = io_dir_create(io_disk(io), "/data");
    if (!status_is_ok(s) && s.code != STATUS_EXISTS) {
        return s;
    }
    TRY(io_dir_sync(io_disk(io), "/"));
    return log_format(io_disk(io), &options, random);
}

static status target_start(struct target *target)
{
    struct target_log *t = log_of(target);
    struct log_options options = {
        .io = sim_node_io(target->node),
        .dir = TARGET_DIR,
        .frame_size_max = target->sizes.frame_size,
        .writes_in_flight = target->sizes.writes_in_flight,
        .chunk_size = target->sizes.chunk_size,
        .chunk_count = target->sizes.chunk_count,
        .checkpoint_size = target->sizes.checkpoint_size,
        .checkpoint_idle_ms = target->sizes.checkpoint_idle_ms,
        .disk_reserve_size = 1,
        .events = {on_metadata, on_room, on_offline, on_disk_full},
        .context = t,
    };
    t->is_offline = false;
    t->is_full = false;
    t->stopped = false;
    t->reply_timer = (struct io_timer){.context = t};
    status s = log_open(&options, &t->log);
    if (!status_is_ok(s)) {
        ASSERT(t->log == NULL);
        while (!list_is_empty(&t->topics)) {
            topic_free(CONTAINER_OF(list_first(&t->topics), struct log_topic, link));
        }
        return s;
    }
    t->check_hook = (struct io_hook){.fn = on_turn_end, .context = t};
    io_hook_add(sim_node_io(target->node), &t->check_hook);
    log_check(t->log);
    return OK;
}

static void coverage_take(struct target_log *t)
{
    struct log_stats stats;
    struct target_coverage *coverage = &t->base.coverage;
    log_stats_get(t->log, &stats);
    coverage->frames += stats.frames;
    coverage->journal_wraps += stats.frame_bytes / stats.journal_size;
    coverage->checkpoints += stats.checkpoints;
    coverage->written_back_bytes += stats.written_back_bytes;
}

static void lost_tell(struct list *lost)
{
    struct list_node *node;
    while ((node = list_pop_front(lost)) != NULL) {
        struct request *request = CONTAINER_OF(node, struct request, link);
        free(request->data);
        request->data = NULL;
        request->reply = REPLY_LOST;
        request->done(request);
    }
}

/* Every request that is out is lost; no callback of the log comes any more. */
static void requests_lose(struct target_log *t)
{
    list_splice(&t->active, &t->waiting);
    struct list_node *node;
    while ((node = list_pop_front(&t->active)) != NULL) {
        struct log_request *active = active_of(node);
        if (active->request != NULL && active->request->kind != REQUEST_PRODUCE) {
            list_push_back(&t->replies, &active->request->link);
        }
        free(active);
    }
    for (uint32_t i = 0; i < CLIENTS_COUNT; i++) {
        list_splice(&t->replies, &t->produced[i]);
    }
    lost_tell(&t->replies);
}

static void target_crashed(struct target *target)
{
    struct target_log *t = log_of(target);
    if (t->log != NULL) {
        coverage_take(t);
        log_destroy(t->log, !t->stopped);
        t->log = NULL;
    }
    while (!list_is_empty(&t->topics)) {
        topic_free(CONTAINER_OF(list_first(&t->topics), struct log_topic, link));
    }
    requests_lose(t);
}

static void on_closed(void *context, status result)
{
    struct target_log *t = context;
    (void)result;
    t->stopped = true;
}

static void target_stop(struct target *target)
{
    struct target_log *t = log_of(target);
    struct list waiting;
    list_init(&waiting);
    list_splice(&waiting, &t->waiting);
    log_close(t->log, on_closed, t);
    while (!list_is_empty(&waiting)) {
        struct log_request *active = active_of(list_pop_front(&waiting));
        request_end(active, REPLY_FAILED);
    }
}

static bool target_is_stopped(struct target *target)
{
    return log_of(target)->stopped;
}

static bool target_is_offline(struct target *target)
{
    return log_of(target)->is_offline;
}

static void target_submit(struct target *target, struct request *request)
{
    struct target_log *t = log_of(target);
    request->data = NULL;
    request->size = 0;
    if (t->log == NULL) {
        request->reply = REPLY_LOST;
        request->done(request);
        return;
    }
    switch (request->kind) {
    case REQUEST_PRODUCE:
        produce_submit(t, request);
        break;
    case REQUEST_FETCH:
        fetch_submit(t, request);
        break;
    case REQUEST_CREATE:
        create_submit(t, request);
        break;
    case REQUEST_DELETE:
        delete_submit(t, request);
        break;
    case REQUEST_LIST:
        list_submit(t, request);
        break;
    case REQUEST_PRODUCER_ID:
        request->producer_id = t->next_producer_id++;
        reply_later(t, request, REPLY_OK);
        break;
    case REQUEST_OFFSETS:
        offsets_submit(t, request);
        break;
    case REQUEST_TRIM:
        trim_submit(t, request);
        break;
    default:
        violation("the log alone is asked for what only a broker has");
    }
    sim_node_kick(target->node);
}

/* Takes the requests of a client out of `from`. */
static void replies_take(struct list *lost, struct list *from, uint32_t client)
{
    LIST_FOREACH_SAFE (node, from) {
        if (CONTAINER_OF(node, struct request, link)->client == client) {
            list_remove(node);
            list_push_back(lost, node);
        }
    }
}

/* Lets go of what the requests of a client needed. */
static void disconnect_list(struct list *lost, struct list *list, uint32_t client)
{
    LIST_FOREACH_SAFE (node, list) {
        struct log_request *active = active_of(node);
        struct request *request = active->request;
        if (request == NULL || request->client != client) {
            continue;
        }
        active->request = NULL; /* The log still has its read. */
        if (!active->reads) {
            request_end(active, REPLY_LOST);
        }
        if (request->kind != REQUEST_PRODUCE) {
            list_push_back(lost, &request->link);
        }
    }
}

static void target_disconnect(struct target *target, uint32_t client)
{
    struct target_log *t = log_of(target);
    struct list lost;
    list_init(&lost);
    replies_take(&lost, &t->replies, client);
    list_splice(&lost, &t->produced[client]);
    disconnect_list(&lost, &t->active, client);
    disconnect_list(&lost, &t->waiting, client);
    lost_tell(&lost);
}

static int64_t target_log_end(struct target *target, const struct uuid *topic_id, int32_t partition)
{
    struct log_topic *topic = topic_find(log_of(target), topic_id);
    return topic == NULL ? -1 : log_partition_offsets(topic->partitions[partition]).log_end;
}

static void target_destroy(struct target *target)
{
    ASSERT(log_of(target)->log == NULL);
    free(log_of(target));
}

static const struct target_ops ops = {
    .format = target_format,
    .start = target_start,
    .crashed = target_crashed,
    .stop = target_stop,
    .is_stopped = target_is_stopped,
    .is_offline = target_is_offline,
    .submit = target_submit,
    .disconnect = target_disconnect,
    .log_end = target_log_end,
    .destroy = target_destroy,
};

struct target *target_log_create(struct sim *sim, struct sim_node *node,
                                 const struct target_sizes *sizes)
{
    struct target_log *t = calloc(1, sizeof(*t));
    ASSERT(t != NULL);
    t->base = (struct target){.ops = &ops, .sim = sim, .node = node, .sizes = *sizes};
    t->next_producer_id = PRODUCER_FIRST;
    list_init(&t->topics);
    list_init(&t->active);
    list_init(&t->waiting);
    list_init(&t->replies);
    for (uint32_t i = 0; i < CLIENTS_COUNT; i++) {
        list_init(&t->produced[i]);
    }
    return &t->base;
}
