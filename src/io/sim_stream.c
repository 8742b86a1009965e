#include "sim_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_SIZE_MAX = 16 * 1024, /* of one delivery, as a provided buffer */
    WINDOW_SIZE_MIN = 64 * 1024,
    WINDOW_SIZE_MAX = 256 * 1024,
    LOCAL_US_MAX = 10,      /* within a kernel */
    REPEAT_US_MIN = 1000,   /* until TCP repeats what a cut held back */
    REPEAT_US_MAX = 200000, /* likewise */
};

static struct sim_stream *stream_of(struct io_stream *stream)
{
    return CONTAINER_OF(stream, struct sim_stream, base);
}

static struct sim_item *item_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct sim_item, link);
}

static struct sim_item *item_create(enum sim_item_kind kind, uint32_t size)
{
    struct sim_item *item = sim_alloc(sizeof(*item) + size);
    item->kind = kind;
    item->size = size;
    return item;
}

static void items_free(struct list *items)
{
    while (!list_is_empty(items)) {
        free(item_of(list_pop_front(items)));
    }
}

static struct sim *sim_of(const struct sim_stream *stream)
{
    return stream->loop->sim;
}

static int64_t local_delay_ns(const struct sim_stream *stream)
{
    return sim_delay_ns(sim_of(stream), 0, LOCAL_US_MAX);
}

/* ---------------------------------------------------------------- the wire */

static void wire_start(struct sim_stream *to)
{
    struct list_node *first = list_first(&to->wire);
    if (first != NULL && to->arrival.heap_index == 0 &&
        !sim_net_is_cut(to->peer_node, to->loop->node)) {
        int64_t delay_ns = item_of(first)->arrives_ns - sim_of(to)->now_ns;
        sim_event_start(sim_of(to), &to->arrival, MAX(delay_ns, 0));
    }
}

static void wire_add(struct sim_stream *to, struct sim_item *item)
{
    struct sim *sim = sim_of(to);
    int64_t delay_ns =
        sim_delay_ns(sim, sim->options.net_delay_us_min, sim->options.net_delay_us_max);
    item->arrives_ns = MAX(sim->now_ns + delay_ns, to->last_arrival_ns);
    to->last_arrival_ns = item->arrives_ns;
    to->held_size += item->size;
    list_push_back(&to->wire, &item->link);
    wire_start(to);
}

/* The other end is told when it can be, and cannot reach this one any more. */
static void stream_part(struct sim_stream *stream)
{
    if (stream->peer != NULL) {
        stream->peer->peer = NULL;
        stream->peer = NULL;
    }
}

bool sim_stream_has_unread(const struct sim_stream *stream)
{
    return !list_is_empty(&stream->inbox) &&
           item_of(list_first(&stream->inbox))->kind == SIM_ITEM_DATA;
}

void sim_stream_leave(struct sim_stream *stream, bool orderly)
{
    struct sim_stream *peer = stream->peer;
    if (peer == NULL) {
        return;
    }
    if (!orderly && sim_rng_coin(&sim_of(stream)->rng)) {
        items_free(&peer->wire);
    }
    wire_add(peer, item_create(orderly ? SIM_ITEM_FIN : SIM_ITEM_RESET, 0));
    stream_part(stream);
}

/* The network breaks the connection for both ends. */
static void stream_break(struct sim_stream *stream)
{
    sim_of(stream)->coverage.resets++;
    sim_stream_leave(stream, false);
    items_free(&stream->wire);
    wire_add(stream, item_create(SIM_ITEM_RESET, 0));
}

static void deliver_start(struct sim_stream *stream)
{
    if (stream->events != NULL && !stream->is_paused && !stream->is_ended &&
        !list_is_empty(&stream->inbox) && stream->deliver.heap_index == 0) {
        sim_event_start(sim_of(stream), &stream->deliver, local_delay_ns(stream));
    }
}

/* A reset drops what was not read, at times; a sender learns of it even when it does not read. */
static void stream_on_reset_arrived(struct sim_stream *stream)
{
    if (sim_rng_coin(&sim_of(stream)->rng)) {
        items_free(&stream->inbox);
    }
    list_push_back(&stream->inbox, &item_create(SIM_ITEM_RESET, 0)->link);
    stream_part(stream);
    if (stream->send != NULL && stream->events != NULL) {
        sim_stream_end(stream, status_from_errno(ECONNRESET));
    }
}

static void stream_on_arrival(struct sim_event *event)
{
    struct sim_stream *stream = CONTAINER_OF(event, struct sim_stream, arrival);
    struct sim *sim = sim_of(stream);
    if (sim_net_is_cut(stream->peer_node, stream->loop->node)) {
        return;
    }
    struct sim_item *item = item_of(list_first(&stream->wire));
    if (item->kind == SIM_ITEM_DATA && stream->peer != NULL &&
        sim_rng_chance(&sim->rng, sim->options.net_reset_chance)) {
        stream_break(stream);
        return;
    }
    list_remove(&item->link);
    sim_hash_add(sim, item->size);
    if (item->kind == SIM_ITEM_RESET) {
        free(item);
        stream_on_reset_arrived(stream);
    } else {
        list_push_back(&stream->inbox, &item->link);
    }
    if (!stream->is_ended) {
        deliver_start(stream);
        wire_start(stream);
    }
}

/* ---------------------------------------------------------------- sending */

static bool items_end_in_reset(const struct list *items)
{
    struct list_node *last = list_last(items);
    return last != NULL && item_of(last)->kind == SIM_ITEM_RESET;
}

/*
 * Sending to an end that is gone succeeds as far as the sender's kernel goes, and then a reset
 * comes back. The next send finds it, even when the stream is paused.
 */
static void send_into_the_void(struct sim_stream *stream)
{
    struct io_send *send = stream->send;
    if (items_end_in_reset(&stream->inbox)) {
        sim_stream_end(stream, status_from_errno(ECONNRESET));
        return;
    }
    for (uint32_t i = 0; i < send->range_count; i++) {
        send->ranges[i].iov_len = 0;
    }
    if (!items_end_in_reset(&stream->wire) && sim_rng_coin(&sim_of(stream)->rng)) {
        items_free(&stream->wire);
        wire_add(stream, item_create(SIM_ITEM_RESET, 0));
    }
}

static void send_pieces(struct sim_stream *stream)
{
    struct io_send *send = stream->send;
    struct sim_stream *peer = stream->peer;
    for (uint32_t i = 0; i < send->range_count; i++) {
        struct iovec *range = &send->ranges[i];
        while (range->iov_len > 0 && peer->held_size < peer->window) {
            uint64_t room = MIN(peer->window - peer->held_size, PIECE_SIZE_MAX);
            uint32_t size = (uint32_t)MIN(range->iov_len, room);
            struct sim_item *item = item_create(SIM_ITEM_DATA, size);
            memcpy(item->data, range->iov_base, size);
            range->iov_base = (uint8_t *)range->iov_base + size;
            range->iov_len -= size;
            stream->loop->base.stats.sent += size;
            wire_add(peer, item);
        }
    }
}

static void send_pump(struct sim_stream *stream)
{
    struct io_send *send = stream->send;
    if (send == NULL || stream->is_sent || stream->is_ended) {
        return;
    }
    if (stream->peer == NULL) {
        send_into_the_void(stream);
    } else {
        send_pieces(stream);
    }
    size_t left = 0;
    for (uint32_t i = 0; i < send->range_count; i++) {
        left += send->ranges[i].iov_len;
    }
    if (left == 0) {
        stream->is_sent = true;
        sim_event_start(sim_of(stream), &stream->sent, local_delay_ns(stream));
    }
}

static void send_finish(struct sim_stream *stream, status result)
{
    struct io_send *send = stream->send;
    sim_event_stop(sim_of(stream), &stream->sent);
    stream->send = NULL;
    stream->is_sent = false;
    send->result = result;
    send->fn(send);
}

static void stream_on_sent(struct sim_event *event)
{
    struct sim_stream *stream = CONTAINER_OF(event, struct sim_stream, sent);
    send_finish(stream, OK);
}

void sim_stream_send(struct io_stream *base, struct io_send *send)
{
    struct sim_stream *stream = stream_of(base);
    if (!sim_loop_enter(stream->loop)) {
        return;
    }
    ASSERT(stream->events != NULL);
    ASSERT(stream->send == NULL);
    stream->send = send;
    stream->is_sent = false;
    send_pump(stream);
}

/* ---------------------------------------------------------------- receiving */

/* The sender learns that there is room, unless its peer's acknowledgements are cut off. */
static void stream_credit(struct sim_stream *stream, uint32_t size)
{
    if (sim_net_is_cut(stream->loop->node, stream->peer_node)) {
        stream->uncredited_size += size;
        return;
    }
    stream->held_size -= size;
    if (stream->peer != NULL) {
        send_pump(stream->peer);
    }
}

void sim_stream_heal_credit(struct sim_stream *stream)
{
    stream->held_size -= stream->uncredited_size;
    stream->uncredited_size = 0;
    if (stream->peer != NULL) {
        send_pump(stream->peer);
    }
}

void sim_stream_heal_wire(struct sim_stream *stream)
{
    if (!list_is_empty(&stream->wire)) {
        int64_t delay_ns = sim_delay_ns(sim_of(stream), REPEAT_US_MIN, REPEAT_US_MAX);
        sim_event_start(sim_of(stream), &stream->arrival, delay_ns);
        stream->last_arrival_ns = MAX(stream->last_arrival_ns, stream->arrival.at_ns);
    }
}

/* Puts the beginning of the inbox together as one read would find it: pieces meet or part. */
static uint8_t *inbox_take(struct sim_stream *stream, uint32_t *taken)
{
    struct sim *sim = sim_of(stream);
    uint8_t *data = malloc(PIECE_SIZE_MAX);
    ASSERT(data != NULL);
    uint32_t size = 0;
    uint32_t size_max = PIECE_SIZE_MAX;
    bool joins = sim_rng_coin(&sim->rng);
    if (sim_rng_chance(&sim->rng, sim->options.net_split_chance)) {
        struct sim_item *first = item_of(list_first(&stream->inbox));
        size_max = (uint32_t)sim_rng_between(&sim->rng, 1, first->size - first->offset);
        sim->coverage.splits++;
    }
    do {
        struct sim_item *item = item_of(list_first(&stream->inbox));
        uint32_t part = MIN(item->size - item->offset, size_max - size);
        memcpy(data + size, item->data + item->offset, part);
        item->offset += part;
        size += part;
        if (item->offset == item->size) {
            list_remove(&item->link);
            free(item);
        }
    } while (joins && size < size_max && sim_stream_has_unread(stream));
    /* An allocation of the exact size, freed behind the callback: a stale pointer is found. */
    uint8_t *exact = realloc(data, size);
    ASSERT(exact != NULL);
    *taken = size;
    return exact;
}

static void stream_on_deliver(struct sim_event *event)
{
    struct sim_stream *stream = CONTAINER_OF(event, struct sim_stream, deliver);
    if (stream->is_paused || stream->is_ended || list_is_empty(&stream->inbox)) {
        return;
    }
    if (!sim_stream_has_unread(stream)) {
        enum sim_item_kind kind = item_of(list_first(&stream->inbox))->kind;
        stream_part(stream);
        sim_stream_end(stream,
                       kind == SIM_ITEM_FIN ? STATUS(CLOSED) : status_from_errno(ECONNRESET));
        return;
    }
    uint32_t size;
    uint8_t *data = inbox_take(stream, &size);
    stream->loop->base.stats.received += size;
    stream_credit(stream, size);
    stream->events->on_data(stream->context, data, size);
    free(data);
    deliver_start(stream);
}

void sim_stream_open(struct io_stream *base, const struct io_stream_events *events, void *context)
{
    struct sim_stream *stream = stream_of(base);
    if (!sim_loop_enter(stream->loop)) {
        return;
    }
    ASSERT(stream->events == NULL);
    ASSERT(!stream->is_ended);
    stream->events = events;
    stream->context = context;
    deliver_start(stream);
}

void sim_stream_move(struct io_stream *base, struct io *to)
{
    struct sim_stream *stream = stream_of(base);
    struct sim_loop *loop = sim_loop_of(to);
    if (!sim_loop_enter(stream->loop)) {
        return;
    }
    ASSERT(stream->events == NULL);
    ASSERT(!stream->is_ended);
    ASSERT(loop->node == stream->loop->node);
    stream->is_moved = true;
    stream->loop = loop;
    stream->base.io = to;
    stream->deliver.loop = loop;
    stream->sent.loop = loop;
    stream->closed.loop = loop;
    list_remove(&stream->link);
    list_push_back(&loop->streams, &stream->link);
}

void sim_stream_pause(struct io_stream *base)
{
    struct sim_stream *stream = stream_of(base);
    if (sim_loop_enter(stream->loop)) {
        stream->is_paused = true;
        sim_event_stop(sim_of(stream), &stream->deliver);
    }
}

void sim_stream_resume(struct io_stream *base)
{
    struct sim_stream *stream = stream_of(base);
    if (sim_loop_enter(stream->loop)) {
        stream->is_paused = false;
        deliver_start(stream);
    }
}

/* ---------------------------------------------------------------- life and death */

static void stream_stop_events(struct sim_stream *stream)
{
    struct sim *sim = sim_of(stream);
    sim_event_stop(sim, &stream->arrival);
    sim_event_stop(sim, &stream->deliver);
    sim_event_stop(sim, &stream->sent);
    sim_event_stop(sim, &stream->closed);
    sim_event_stop(sim, &stream->accepted);
}

void sim_stream_end(struct sim_stream *stream, status why)
{
    if (stream->is_ended) {
        return;
    }
    stream_stop_events(stream);
    items_free(&stream->wire);
    items_free(&stream->inbox);
    stream->is_ended = true;
    stream->why = why;
    sim_event_start(sim_of(stream), &stream->closed, local_delay_ns(stream));
}

static void stream_on_closed(struct sim_event *event)
{
    struct sim_stream *stream = CONTAINER_OF(event, struct sim_stream, closed);
    while (stream->send != NULL) {
        send_finish(stream, stream->is_sent ? OK : stream->why);
    }
    if (stream->events != NULL) {
        stream->events->on_closed(stream->context, stream->why);
    }
    sim_stream_free(stream);
}

void sim_stream_close(struct io_stream *base)
{
    struct sim_stream *stream = stream_of(base);
    if (sim_loop_enter(stream->loop) && !stream->is_ended) {
        sim_stream_leave(stream, !sim_stream_has_unread(stream));
        sim_stream_end(stream, STATUS(CANCELLED));
    }
}

void sim_stream_peer(struct io_stream *base, char *text, size_t size)
{
    const struct sim_stream *stream = stream_of(base);
    const char *host = stream->peer_node->host;
    bool is_ipv6 = strchr(host, ':') != NULL;
    (void)snprintf(text, size, is_ipv6 ? "[%s]:%u" : "%s:%u", host, stream->peer_port);
}

void sim_stream_die(struct sim_stream *stream, bool process_only)
{
    sim_stream_leave(stream, process_only && !sim_stream_has_unread(stream));
    stream_stop_events(stream);
    items_free(&stream->wire);
    items_free(&stream->inbox);
    stream->is_dead = true;
    stream->is_ended = true;
    stream->send = NULL;
}

struct sim_stream *sim_stream_create(struct sim_loop *loop, struct sim_node *peer_node,
                                     uint16_t peer_port)
{
    struct sim_stream *stream = sim_alloc(sizeof(*stream));
    stream->base.io = &loop->base;
    stream->loop = loop;
    stream->peer_node = peer_node;
    stream->peer_port = peer_port;
    stream->window = sim_rng_between(&loop->sim->rng, WINDOW_SIZE_MIN, WINDOW_SIZE_MAX);
    list_init(&stream->wire);
    list_init(&stream->inbox);
    sim_event_init(&stream->arrival, SIM_EVENT_WIRE, NULL, stream_on_arrival);
    sim_event_init(&stream->deliver, SIM_EVENT_DELIVER, loop, stream_on_deliver);
    sim_event_init(&stream->sent, SIM_EVENT_SENT, loop, stream_on_sent);
    sim_event_init(&stream->closed, SIM_EVENT_CLOSED, loop, stream_on_closed);
    list_push_back(&loop->streams, &stream->link);
    return stream;
}

void sim_stream_join(struct sim_stream *a, struct sim_stream *b)
{
    a->peer = b;
    b->peer = a;
}

void sim_stream_free(struct sim_stream *stream)
{
    stream_part(stream);
    stream_stop_events(stream);
    items_free(&stream->wire);
    items_free(&stream->inbox);
    list_remove(&stream->link);
    free(stream);
}
