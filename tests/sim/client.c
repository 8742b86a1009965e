#include "client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "random.h"
#include "session.h"
#include "violation.h"

#define TIMESTAMP_BASE_MS 1700000000000
#define BATCH_SPARE       256u   /* headers of batch and records */
#define BATCH_SIZE_FULL   32768u /* with one more record it still fits a journal file */
#define SCAN_TRIES_MAX    200u
#define ROTTEN_TRIES_MAX  20u /* in a row */

/* A batch until it is acknowledged or given up. */
struct flight {
    struct list_node link; /* in its stream, in order of sequence */
    struct request request;
    struct stream *stream;
    uint8_t *data;
    uint32_t first_record;
    uint32_t record_count;
    bool is_out;
    uint32_t late_life; /* in which the log was offline when it was first sent; 0: it was not */
};

/* What a client produces to one partition. */
struct stream {
    struct list_node link;
    struct client *client;
    struct model_partition *partition;
    struct list flights;
    uint32_t out_count;
    int32_t next_sequence;
    bool is_known;  /* something was acknowledged: the node knows the producer */
    bool is_broken; /* something failed: nothing new until all is sent again */
};

struct client {
    struct workload *workload;
    uint32_t index;
    bool is_idempotent;
    uint32_t producer;   /* number in the model; a new one after a reset */
    int64_t producer_id; /* -1: to be asked for */
    bool asks_id;
    struct request id_request;
    struct list streams;
    struct request fetch;
    bool is_fetching;
    struct model_partition *fetched;
    int64_t position;
};

struct scan {
    struct request request;
    bool is_running;
    bool is_complete;
    uint32_t topic; /* index in the model */
    uint32_t partition;
    int64_t offset; /* -1: the log start is to be asked for */
    uint32_t tries;
};

struct workload {
    struct sim *sim;
    struct target *target;
    struct model *model;
    struct workload_shape shape;
    struct client clients[CLIENT_ADMIN];
    struct admin *admin;
    struct session *session; /* NULL: there are none */
    struct scan scan;
    uint32_t producer_count;
};

/* ---------------------------------------------------------------- produce */

static struct flight *flight_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct flight, link);
}

static void flight_free(struct flight *flight)
{
    if (list_node_is_linked(&flight->link)) {
        list_remove(&flight->link);
    }
    free(flight->data);
    free(flight);
}

static struct stream *stream_get(struct client *client, struct model_partition *partition)
{
    LIST_FOREACH (node, &client->streams) {
        struct stream *stream = CONTAINER_OF(node, struct stream, link);
        if (stream->partition == partition) {
            return stream;
        }
    }
    struct stream *stream = calloc(1, sizeof(*stream));
    ASSERT(stream != NULL);
    stream->client = client;
    stream->partition = partition;
    list_init(&stream->flights);
    list_push_back(&client->streams, &stream->link);
    return stream;
}

static void flight_acked(struct flight *flight)
{
    struct stream *stream = flight->stream;
    stream->is_known = true;
    if (flight->late_life == stream->client->workload->model->life) {
        violation("a batch that was first sent when the log was offline is acknowledged");
    }
    model_acked(stream->client->workload->model, stream->partition, flight->first_record,
                flight->record_count, flight->request.base_offset, flight->request.acks_all);
    flight_free(flight);
}

static void on_produced(struct request *request)
{
    struct flight *flight = request->context;
    struct stream *stream = flight->stream;
    ASSERT(flight->is_out);
    flight->is_out = false;
    stream->out_count--;
    if (request->reply == REPLY_OK) {
        flight_acked(flight);
        return;
    }
    if (request->reply == REPLY_OUT_OF_ORDER && !stream->is_broken) {
        violation("client %u gets out of order sequence for partition %d and nothing had failed",
                  stream->client->index, stream->partition->index);
    }
    if (request->reply == REPLY_GONE) {
        const struct model_topic *topic = stream->partition->topic;
        if (topic->state == MODEL_TOPIC_ALIVE) {
            violation("topic %u is alive and a produce request does not find it", topic->name);
        }
        flight_free(flight); /* Nobody will ask. */
    } else if (stream->client->is_idempotent && !list_node_is_linked(&flight->link)) {
        flight_free(flight); /* Of a producer that was given up. */
    } else if (stream->client->is_idempotent) {
        stream->is_broken = true;
    } else {
        flight_free(flight); /* A plain producer does not know, and does not try again. */
    }
}

static void flight_send(struct workload *workload, struct flight *flight)
{
    ASSERT(!flight->is_out);
    flight->is_out = true;
    flight->request.is_answered = false;
    flight->stream->out_count++;
    model_sent(workload->model, flight->first_record, flight->record_count);
    workload->target->ops->submit(workload->target, &flight->request);
    if (flight->request.acks_none) {
        workload->target->coverage.without_acks++;
        flight->stream->out_count--;
        flight_free(flight);
    }
}

static uint32_t value_size(struct workload *workload)
{
    const struct workload_shape *shape = &workload->shape;
    uint32_t max = random_chance(workload->sim, shape->big_percent) ? shape->big_size_max
                                                                    : shape->value_size_max;
    return random_between(workload->sim, MODEL_VALUE_SIZE_MIN, max);
}

/* Draws the records of a batch and builds it. */
static void flight_fill(struct workload *workload, struct flight *flight)
{
    struct model *model = workload->model;
    struct stream *stream = flight->stream;
    struct client *client = stream->client;
    uint32_t count = random_between(workload->sim, 1, workload->shape.records_max);
    uint32_t size = BATCH_SPARE;
    flight->first_record = model->record_count;
    for (uint32_t i = 0; i < count && size < BATCH_SIZE_FULL; i++) {
        uint32_t record = model_record_add(
            model, stream->partition, client->is_idempotent ? client->producer : MODEL_RECORD_NONE,
            value_size(workload));
        size += model->records[record].size + BATCH_SPARE;
    }
    count = model->record_count - flight->first_record;
    flight->record_count = count;
    uint8_t *value = malloc(size);
    flight->data = malloc(size);
    ASSERT(value != NULL);
    ASSERT(flight->data != NULL);
    struct batch_builder builder;
    batch_builder_init(&builder, flight->data, size);
    int64_t now_ms = TIMESTAMP_BASE_MS + sim_now_ns(workload->sim) / 1000000;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t record = flight->first_record + i;
        model_record_value(model, record, value);
        status s = batch_builder_add(&builder, now_ms, (struct bytes){NULL, 0},
                                     (struct bytes){value, model->records[record].size});
        ASSERT(status_is_ok(s));
    }
    model_stamped(model, flight->first_record, count, now_ms);
    free(value);
    flight->request.batch = batch_builder_finish(
        &builder, client->is_idempotent ? client->producer_id : -1, client->is_idempotent ? 0 : -1,
        client->is_idempotent ? stream->next_sequence : -1, 0);
    stream->next_sequence += (int32_t)count;
}

static void stream_produce(struct stream *stream)
{
    struct workload *workload = stream->client->workload;
    struct flight *flight = calloc(1, sizeof(*flight));
    ASSERT(flight != NULL);
    flight->stream = stream;
    flight->request = (struct request){.kind = REQUEST_PRODUCE,
                                       .client = stream->client->index,
                                       .topic = stream->partition->topic,
                                       .partition = stream->partition->index,
                                       .done = on_produced,
                                       .context = flight,
                                       .acks_all = random_chance(workload->sim, 60)};
    flight->request.acks_none = !stream->client->is_idempotent && workload->target->is_broker &&
                                random_chance(workload->sim, 30);
    flight->late_life =
        workload->target->ops->is_offline(workload->target) ? workload->model->life : 0;
    flight_fill(workload, flight);
    list_push_back(&stream->flights, &flight->link);
    flight_send(workload, flight);
}

static void on_producer_id(struct request *request)
{
    struct client *client = request->context;
    client->asks_id = false;
    if (request->reply == REPLY_OK) {
        client->producer_id = request->producer_id;
        client->producer = client->workload->producer_count++;
    }
}

static void client_ask_id(struct client *client)
{
    struct target *target = client->workload->target;
    client->asks_id = true;
    client->id_request = (struct request){.kind = REQUEST_PRODUCER_ID,
                                          .client = client->index,
                                          .done = on_producer_id,
                                          .context = client};
    target->ops->submit(target, &client->id_request);
}

static void client_produce(struct client *client)
{
    struct workload *workload = client->workload;
    struct model_partition *partition = model_partition_pick(workload->model, workload->sim);
    if (partition == NULL || client->asks_id) {
        return;
    }
    if (client->is_idempotent && client->producer_id < 0) {
        client_ask_id(client);
        return;
    }
    struct stream *stream = stream_get(client, partition);
    /* Until the node knows the producer it takes any sequence, so the first batch goes alone. */
    uint32_t in_flight_max = !client->is_idempotent || stream->is_known ? CLIENT_IN_FLIGHT : 1;
    if (stream->out_count < in_flight_max && !stream->is_broken) {
        stream_produce(stream);
    }
}

/* Sends again what failed, once nothing of the stream is out. */
static void stream_retry(struct workload *workload, struct stream *stream)
{
    enum model_topic_state state = stream->partition->topic->state;
    if (!stream->is_broken || stream->out_count > 0 || state == MODEL_TOPIC_DELETING) {
        return;
    }
    if (state == MODEL_TOPIC_DELETED) {
        while (!list_is_empty(&stream->flights)) {
            flight_free(flight_of(list_first(&stream->flights)));
        }
        stream->is_broken = false;
        return;
    }
    stream->is_broken = false;
    LIST_FOREACH_SAFE (node, &stream->flights) {
        flight_send(workload, flight_of(node));
    }
}

void workload_retry(struct workload *workload)
{
    for (uint32_t i = 0; i < COUNT_OF(workload->clients); i++) {
        LIST_FOREACH (node, &workload->clients[i].streams) {
            stream_retry(workload, CONTAINER_OF(node, struct stream, link));
        }
    }
}

static void stream_abandon(struct stream *stream)
{
    LIST_FOREACH_SAFE (node, &stream->flights) {
        struct flight *flight = flight_of(node);
        list_remove(node);
        if (!flight->is_out) {
            flight_free(flight);
        }
    }
    stream->next_sequence = 0;
    stream->is_known = false;
    stream->is_broken = false;
}

void workload_producers_reset(struct workload *workload)
{
    for (uint32_t i = 0; i < COUNT_OF(workload->clients); i++) {
        struct client *client = &workload->clients[i];
        if (client->is_idempotent) {
            client->producer_id = -1;
            LIST_FOREACH (node, &client->streams) {
                stream_abandon(CONTAINER_OF(node, struct stream, link));
            }
        }
    }
}

/* ---------------------------------------------------------------- fetch */

/* What a fetch gave; returns the offset to go on from. */
static int64_t read_check(struct model *model, const struct request *request)
{
    struct model_partition *partition = &request->topic->partitions[request->partition];
    if (request->offset < request->known.log_start) {
        violation("topic %u-%d gives records from %" PRId64 ", and starts at %" PRId64,
                  partition->topic->name, partition->index, request->offset,
                  request->known.log_start);
    }
    model_log_start(partition, request->known, request->log_start);
    return model_fetched(model, partition, request->offset, request->known.high_watermark,
                         request->high_watermark, (struct bytes){request->data, request->size});
}

/* Out of range is only what may have been deleted. */
static void range_check(const struct request *request)
{
    const struct model_partition *partition = &request->topic->partitions[request->partition];
    if (request->offset >= partition->trim_asked) {
        violation("a read of topic %u-%d from %" PRId64 " is out of range, the high watermark was "
                  "%" PRId64 " and the log starts at %" PRId64 " at most",
                  partition->topic->name, partition->index, request->offset,
                  request->known.high_watermark, partition->trim_asked);
    }
}

static void on_fetched(struct request *request)
{
    struct client *client = request->context;
    struct model_partition *partition = client->fetched;
    client->is_fetching = false;
    if (request->reply == REPLY_OK) {
        client->position = read_check(client->workload->model, request);
    } else if (request->reply == REPLY_OUT_OF_RANGE) {
        range_check(request);
    } else if (request->reply == REPLY_GONE && partition->topic->state == MODEL_TOPIC_ALIVE) {
        violation("topic %u is alive and a fetch does not find it", partition->topic->name);
    }
    free(request->data);
    request->data = NULL;
}

static void client_fetch(struct client *client)
{
    struct workload *workload = client->workload;
    struct model_partition *partition = model_partition_pick(workload->model, workload->sim);
    if (client->is_fetching || partition == NULL) {
        return;
    }
    int64_t offset = client->position;
    if (client->fetched != partition || offset > partition->high_watermark ||
        random_chance(workload->sim, 30)) {
        uint32_t from = random_chance(workload->sim, 10) ? 0 : (uint32_t)partition->log_start;
        offset = random_between(workload->sim, from, (uint32_t)partition->high_watermark);
    }
    client->is_fetching = true;
    client->fetched = partition;
    client->fetch = (struct request){.kind = REQUEST_FETCH,
                                     .client = client->index,
                                     .topic = partition->topic,
                                     .partition = partition->index,
                                     .done = on_fetched,
                                     .context = client,
                                     .offset = offset,
                                     .known = model_known(partition),
                                     .size_max = random_between(workload->sim, 1, 32768)};
    workload->target->ops->submit(workload->target, &client->fetch);
}

/* ---------------------------------------------------------------- scan */

/* The next partition with a living topic; false at the end of them. */
static bool scan_find(struct workload *workload)
{
    struct scan *scan = &workload->scan;
    struct model *model = workload->model;
    for (; scan->topic < model->topic_count;
         scan->topic++, scan->partition = 0, scan->offset = -1) {
        const struct model_topic *topic = model->topics[scan->topic];
        if (topic->state == MODEL_TOPIC_ALIVE && scan->partition < topic->partition_count) {
            return true;
        }
    }
    return false;
}

static void scan_end(struct scan *scan, bool is_complete)
{
    scan->is_running = false;
    scan->is_complete = is_complete;
}

static void scan_next(struct scan *scan)
{
    scan->partition++;
    scan->offset = -1;
}

static void on_scanned(struct request *request)
{
    struct workload *workload = request->context;
    struct scan *scan = &workload->scan;
    struct model_topic *topic = request->topic;
    struct model_partition *partition = &topic->partitions[request->partition];
    request->context = NULL;
    if (request->kind == REQUEST_OFFSETS && topic->state != MODEL_TOPIC_ALIVE) {
        scan->offset = -1; /* The answer may be about another topic of that name. */
    } else if (request->reply == REPLY_OK && request->kind == REQUEST_OFFSETS) {
        model_log_start(partition, request->known, request->base_offset);
        scan->offset = request->base_offset;
    } else if (request->reply == REPLY_OK) {
        scan->tries = workload->model->is_rotten ? 0 : scan->tries;
        scan->offset = read_check(workload->model, request);
        if (scan->offset == request->high_watermark || scan->offset == MODEL_DAMAGED) {
            scan_next(scan);
        }
    } else if (request->reply == REPLY_OUT_OF_RANGE) {
        range_check(request);
        scan->offset = -1;
    } else if (workload->model->is_rotten &&
               (request->reply == REPLY_DAMAGED ||
                (request->reply == REPLY_FAILED && ++scan->tries > ROTTEN_TRIES_MAX))) {
        /* A broker calls it an error of storage, as it does a read that may succeed another time.
         */
        workload->model->damage_seen++;
        scan->tries = 0;
        scan_next(scan);
    } else if (request->reply == REPLY_GONE && topic->state == MODEL_TOPIC_ALIVE) {
        violation("topic %u is alive and cannot be read", topic->name);
    } else if (request->reply == REPLY_LOST || ++scan->tries > SCAN_TRIES_MAX) {
        scan_end(scan, false);
    }
    free(request->data);
    request->data = NULL;
}

void workload_scan_go_on(struct workload *workload)
{
    struct scan *scan = &workload->scan;
    if (!scan->is_running || scan->request.context != NULL) {
        return;
    }
    if (!scan_find(workload)) {
        model_check_order(workload->model);
        scan_end(scan, true);
        return;
    }
    struct model_topic *topic = workload->model->topics[scan->topic];
    struct model_partition *partition = &topic->partitions[scan->partition];
    scan->request = (struct request){.kind = scan->offset < 0 ? REQUEST_OFFSETS : REQUEST_FETCH,
                                     .client = CLIENT_SCANNER,
                                     .topic = topic,
                                     .partition = partition->index,
                                     .done = on_scanned,
                                     .context = workload,
                                     .offset = scan->offset,
                                     .timestamp = OFFSETS_EARLIEST,
                                     .known = model_known(partition),
                                     .size_max = random_between(workload->sim, 2048, 65536)};
    workload->target->ops->submit(workload->target, &scan->request);
}

void workload_scan_start(struct workload *workload)
{
    struct scan *scan = &workload->scan;
    ASSERT(scan->request.context == NULL);
    *scan = (struct scan){.is_running = true, .offset = -1};
    workload_scan_go_on(workload);
}

bool workload_scan_is_done(const struct workload *workload)
{
    return !workload->scan.is_running;
}

bool workload_scan_is_complete(const struct workload *workload)
{
    return workload->scan.is_complete;
}

/* ---------------------------------------------------------------- all together */

void workload_step(struct workload *workload)
{
    struct sim *sim = workload->sim;
    struct client *client = &workload->clients[random_below(sim, CLIENT_ADMIN)];
    uint32_t draw = random_below(sim, 100);
    workload_scan_go_on(workload);
    workload_retry(workload);
    if (draw < workload->shape.topic_percent ||
        model_partition_pick(workload->model, sim) == NULL) {
        admin_topic_step(workload->admin);
    } else if (draw < workload->shape.topic_percent + workload->shape.fact_percent) {
        admin_fact_step(workload->admin);
    } else if (draw >= 90 && draw < 98 && workload->session != NULL) {
        session_step(workload->session);
    } else if (draw < 75) {
        client_produce(client);
    } else if (draw < 98) {
        client_fetch(client);
    } else {
        workload->target->ops->disconnect(workload->target, client->index);
    }
}

void workload_settle(struct workload *workload)
{
    admin_settle(workload->admin);
}

void workload_node_started(struct workload *workload)
{
    admin_node_started(workload->admin);
}

bool workload_session_go_on(struct workload *workload)
{
    if (workload->session == NULL) {
        return true;
    }
    session_step(workload->session);
    return session_is_at_end(workload->session);
}

bool workload_is_settled(const struct workload *workload)
{
    for (uint32_t i = 0; i < COUNT_OF(workload->clients); i++) {
        const struct client *client = &workload->clients[i];
        if (client->is_fetching || client->asks_id) {
            return false;
        }
        LIST_FOREACH (node, &client->streams) {
            const struct stream *stream = CONTAINER_OF(node, struct stream, link);
            if (stream->out_count > 0 || stream->is_broken) {
                return false;
            }
        }
    }
    return admin_is_settled(workload->admin) && !workload->scan.is_running &&
           (workload->session == NULL || !session_is_out(workload->session));
}

struct workload *workload_create(struct sim *sim, struct target *target, struct model *model,
                                 const struct workload_shape *shape)
{
    struct workload *workload = calloc(1, sizeof(*workload));
    ASSERT(workload != NULL);
    workload->sim = sim;
    workload->target = target;
    workload->model = model;
    workload->shape = *shape;
    workload->admin = admin_create(sim, target, model);
    workload->session = target->is_broker ? session_create(sim, target, model) : NULL;
    for (uint32_t i = 0; i < COUNT_OF(workload->clients); i++) {
        workload->clients[i] = (struct client){
            .workload = workload, .index = i, .is_idempotent = i != 0, .producer_id = -1};
        list_init(&workload->clients[i].streams);
    }
    return workload;
}

void workload_destroy(struct workload *workload)
{
    for (uint32_t i = 0; i < COUNT_OF(workload->clients); i++) {
        struct list_node *node;
        while ((node = list_pop_front(&workload->clients[i].streams)) != NULL) {
            struct stream *stream = CONTAINER_OF(node, struct stream, link);
            ASSERT(stream->out_count == 0);
            stream_abandon(stream);
            free(stream);
        }
    }
    admin_destroy(workload->admin);
    session_destroy(workload->session);
    free(workload);
}
