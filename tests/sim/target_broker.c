/*
 * The whole broker as a target: clients on a node of their own speak Kafka's protocol to it over
 * simulated connections, which are delayed, cut in pieces and reset.
 */
#include <stdlib.h>
#include <string.h>

#include "twinlog/broker/broker.h"

#include "client.h"
#include "violation.h"
#include "wire.h"

#define NODE_HOST    "10.0.0.1"
#define CLIENT_HOST  "10.0.0.2"
#define PORT         9092
#define ARENA_SIZE   (64u << 20)
#define CLOSE_MS_MAX 10000
#define NS_PER_MS    1000000ll

/* A frame that is to be sent. */
struct frame {
    struct list_node link;
    uint8_t *data;
    uint32_t size;
};

/* From the wish to connect to on_closed(); given up by its client before that, or not. */
struct connection {
    struct list_node link; /* in target->connections */
    struct target_broker *target;
    uint32_t client;
    bool is_given_up;
    struct io_stream *stream; /* NULL while connecting */
    struct list requests;     /* sent or to be sent, in order */
    struct list frames;       /* to be sent */
    struct frame *sending;
    struct io_send send;
    struct iovec range;
    int32_t sent_id; /* correlation ids count up from 1 */
    int32_t answered_id;
    uint8_t *received;
    uint32_t received_size;
    uint32_t received_capacity;
};

struct target_broker {
    struct target base;
    struct sim_node *clients;
    struct broker *broker;
    struct broker_config config;
    struct list connections;
    struct connection *open[CONNECTIONS]; /* the one that a client uses; NULL */
    struct arena arena;
    struct io_hook check_hook;
    bool was_offline;
    bool was_full;
    bool stopped;
};

static struct target_broker *broker_of(struct target *target)
{
    return CONTAINER_OF(target, struct target_broker, base);
}

/* ---------------------------------------------------------------- connections */

static void requests_tell_lost(struct list *lost)
{
    struct list_node *node;
    while ((node = list_pop_front(lost)) != NULL) {
        struct request *request = CONTAINER_OF(node, struct request, link);
        request->reply = REPLY_LOST;
        request->done(request);
    }
}

/* Its client wants nothing of it any more; its requests are lost. */
static void connection_give_up(struct connection *connection)
{
    struct list lost;
    if (connection->is_given_up) {
        return;
    }
    connection->is_given_up = true;
    connection->target->open[connection->client] = NULL;
    list_init(&lost);
    list_splice(&lost, &connection->requests);
    requests_tell_lost(&lost);
}

static void connection_free(struct connection *connection)
{
    ASSERT(connection->is_given_up);
    struct list_node *node;
    while ((node = list_pop_front(&connection->frames)) != NULL) {
        struct frame *frame = CONTAINER_OF(node, struct frame, link);
        free(frame->data);
        free(frame);
    }
    ASSERT(connection->sending == NULL);
    list_remove(&connection->link);
    free(connection->received);
    free(connection);
}

static void on_closed(void *context, status why)
{
    struct connection *connection = context;
    (void)why;
    connection->stream = NULL;
    connection_give_up(connection);
    connection_free(connection);
}

static void connection_send(struct connection *connection);

static void on_sent(struct io_send *send)
{
    struct connection *connection = send->context;
    free(connection->sending->data);
    free(connection->sending);
    connection->sending = NULL;
    if (status_is_ok(send->result) && !connection->is_given_up) {
        connection_send(connection);
    }
}

static void connection_send(struct connection *connection)
{
    struct list_node *node = list_first(&connection->frames);
    if (connection->sending != NULL || connection->stream == NULL || node == NULL) {
        return;
    }
    list_remove(node);
    connection->sending = CONTAINER_OF(node, struct frame, link);
    connection->range = (struct iovec){connection->sending->data, connection->sending->size};
    connection->send = (struct io_send){
        .ranges = &connection->range, .range_count = 1, .fn = on_sent, .context = connection};
    io_stream_send(connection->stream, &connection->send);
}

/* Takes the first answer, when all of it is there. */
static bool connection_take(struct connection *connection)
{
    if (connection->received_size < 4) {
        return false;
    }
    uint32_t size = load_be32(connection->received);
    if (connection->received_size < 4 + size) {
        return false;
    }
    struct list_node *node = list_pop_front(&connection->requests);
    if (node == NULL) {
        violation("an answer comes and nothing was asked");
    }
    struct request *request = CONTAINER_OF(node, struct request, link);
    wire_decode(request, ++connection->answered_id, (struct bytes){connection->received + 4, size},
                &connection->target->arena);
    arena_reset(&connection->target->arena);
    connection->received_size -= 4 + size;
    memmove(connection->received, connection->received + 4 + size, connection->received_size);
    request->done(request);
    return true;
}

static void on_data(void *context, const uint8_t *data, uint32_t size)
{
    struct connection *connection = context;
    if (connection->is_given_up) {
        return;
    }
    if (connection->received_size + size > connection->received_capacity) {
        connection->received_capacity = 2 * (connection->received_size + size);
        connection->received = realloc(connection->received, connection->received_capacity);
        ASSERT(connection->received != NULL);
    }
    memcpy(connection->received + connection->received_size, data, size);
    connection->received_size += size;
    while (connection_take(connection)) {
    }
}

static void on_connected(void *context, status result, struct io_stream *stream)
{
    static const struct io_stream_events events = {on_data, on_closed};
    struct connection *connection = context;
    if (!status_is_ok(result)) {
        connection_give_up(connection);
        connection_free(connection);
        return;
    }
    connection->stream = stream;
    io_stream_open(stream, &events, connection);
    if (connection->is_given_up) {
        io_stream_close(stream);
    } else {
        connection_send(connection);
    }
}

static struct connection *connection_get(struct target_broker *t, uint32_t client)
{
    if (t->open[client] != NULL) {
        return t->open[client];
    }
    struct connection *connection = calloc(1, sizeof(*connection));
    ASSERT(connection != NULL);
    connection->target = t;
    connection->client = client;
    list_init(&connection->requests);
    list_init(&connection->frames);
    list_push_back(&t->connections, &connection->link);
    t->open[client] = connection;
    status s = io_connect(sim_node_io(t->clients), NODE_HOST, PORT, on_connected, connection);
    ASSERT(status_is_ok(s));
    return connection;
}

static void target_submit(struct target *target, struct request *request)
{
    struct target_broker *t = broker_of(target);
    struct connection *connection = connection_get(t, request->client);
    struct frame *frame = calloc(1, sizeof(*frame));
    ASSERT(frame != NULL);
    request->data = NULL;
    request->size = 0;
    frame->data = wire_encode(request, ++connection->sent_id, &frame->size);
    if (request->acks_none) {
        connection->sent_id--; /* Answers are counted, and it has none. */
    } else {
        list_push_back(&connection->requests, &request->link);
    }
    list_push_back(&connection->frames, &frame->link);
    connection_send(connection);
    sim_node_kick(t->clients);
}

static void target_disconnect(struct target *target, uint32_t client)
{
    struct connection *connection = broker_of(target)->open[client];
    if (connection == NULL) {
        return;
    }
    connection_give_up(connection);
    if (connection->stream != NULL) {
        io_stream_close(connection->stream);
    }
}

/* ---------------------------------------------------------------- life */

/* A flag of the broker that rose since it was last looked at. */
static uint64_t flag_rose(bool *was, bool is)
{
    bool rose = is && !*was;
    *was = is;
    return rose ? 1 : 0;
}

static void on_turn_end(struct io_hook *hook)
{
    struct target_broker *t = hook->context;
    if (t->broker == NULL || t->stopped) {
        return;
    }
    struct broker_stats stats;
    broker_check(t->broker);
    broker_stats_get(t->broker, &stats);
    t->base.coverage.offline += flag_rose(&t->was_offline, stats.offline);
    t->base.coverage.disk_full += flag_rose(&t->was_full, stats.disk_full);
    t->base.coverage.waits_for_room += stats.waiting_for_room > 0 ? 1 : 0;
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
    struct target_broker *t = broker_of(target);
    t->was_offline = false;
    t->was_full = false;
    t->stopped = false;
    status s = broker_create(sim_node_io(target->node), &t->config, &t->broker);
    if (!status_is_ok(s)) {
        t->broker = NULL;
        return s;
    }
    t->check_hook = (struct io_hook){.fn = on_turn_end, .context = t};
    io_hook_add(sim_node_io(target->node), &t->check_hook);
    broker_check(t->broker);
    sim_node_kick(target->node);
    return OK;
}

static void coverage_take(struct target_broker *t)
{
    struct broker_stats stats;
    struct target_coverage *coverage = &t->base.coverage;
    broker_stats_get(t->broker, &stats);
    coverage->frames += stats.log.frames;
    coverage->journal_wraps += stats.log.frame_bytes / stats.log.journal_size;
    coverage->checkpoints += stats.log.checkpoints;
    coverage->written_back_bytes += stats.log.written_back_bytes;
}

static void target_crashed(struct target *target)
{
    struct target_broker *t = broker_of(target);
    if (t->broker != NULL) {
        coverage_take(t);
        if (t->stopped) {
            broker_destroy(t->broker);
        } else {
            broker_abandon(t->broker);
        }
        t->broker = NULL;
    }
    for (uint32_t client = 0; client < CONNECTIONS; client++) {
        target_disconnect(target, client);
    }
}

static void on_stopped(void *context, status result)
{
    struct target_broker *t = context;
    (void)result; /* A log that went offline on the way says so. */
    t->stopped = true;
}

static void target_stop(struct target *target)
{
    struct target_broker *t = broker_of(target);
    broker_stop(t->broker, on_stopped, t);
    sim_node_kick(target->node);
}

static bool target_is_stopped(struct target *target)
{
    return broker_of(target)->stopped;
}

static bool target_is_offline(struct target *target)
{
    return broker_of(target)->was_offline;
}

static void target_destroy(struct target *target)
{
    struct target_broker *t = broker_of(target);
    ASSERT(t->broker == NULL);
    for (int ms = 0; !list_is_empty(&t->connections) && ms < CLOSE_MS_MAX; ms++) {
        sim_run(target->sim, NS_PER_MS);
    }
    if (!list_is_empty(&t->connections)) {
        violation("a connection does not close");
    }
    arena_fini(&t->arena);
    free(t);
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
    .log_end = NULL,
    .destroy = target_destroy,
};

static void config_make(struct broker_config *config, const struct target_sizes *sizes)
{
    struct config_report report = {0};
    broker_config_init(config);
    status s = broker_config_parse(config,
                                   bytes_of("listeners=PLAINTEXT://" NODE_HOST ":9092\n"
                                            "log.dirs=" TARGET_DIR "\n"),
                                   &report);
    ASSERT(status_is_ok(s));
    s = broker_config_finish(config, &report);
    ASSERT(status_is_ok(s));
    /* Smaller than the keys allow, so that everything fills and turns over in a short life. */
    config->journal_frame_size_max = sizes->frame_size;
    config->journal_writes_in_flight = sizes->writes_in_flight;
    config->chunk_size = sizes->chunk_size;
    config->chunk_memory_size = (int64_t)sizes->chunk_size * sizes->chunk_count;
    config->checkpoint_idle_ms = sizes->checkpoint_idle_ms;
    config->disk_reserve_size = 1;
    config->segment_size = sizes->partition.segment_size;
    config->segment_ms = sizes->partition.segment_ms;
    config->index_interval_size = sizes->partition.index_interval_size;
    config->retention_ms = -1; /* Records are of a time long before the node's clock. */
    config->auto_create_topics = false;
    config->timestamp_before_ms_max =
        INT64_MAX; /* The node's clock jumps, the clients' does not. */
    config->timestamp_after_ms_max = INT64_MAX;
}

struct target *target_broker_create(struct sim *sim, struct sim_node *node,
                                    const struct target_sizes *sizes)
{
    struct target_broker *t = calloc(1, sizeof(*t));
    ASSERT(t != NULL);
    t->base =
        (struct target){.ops = &ops, .sim = sim, .node = node, .sizes = *sizes, .is_broker = true};
    t->clients = sim_node_add(sim, CLIENT_HOST);
    list_init(&t->connections);
    arena_init(&t->arena, ARENA_SIZE);
    config_make(&t->config, sizes);
    return &t->base;
}
