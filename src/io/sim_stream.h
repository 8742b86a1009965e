/*
 * One end of a simulated connection. Bytes travel as items: sent, on the wire, arrived in the
 * inbox, delivered. Each direction keeps its order and holds at most `window` bytes that the
 * receiver has not taken: a sender waits for room, as with a full socket buffer.
 *
 * A cut holds what is on the wire, as TCP holds and repeats it, and the credit for what the
 * receiver took. It moves on when the direction heals.
 *
 *     accept or connect --> opened --> ended --> on_closed, freed
 *                                  FIN, RESET,
 *                                  close, error
 */
#ifndef TWINLOG_IO_SIM_STREAM_H
#define TWINLOG_IO_SIM_STREAM_H

#include "sim_world.h"

enum sim_item_kind { SIM_ITEM_DATA, SIM_ITEM_FIN, SIM_ITEM_RESET };

struct sim_item {
    struct list_node link;
    enum sim_item_kind kind;
    int64_t arrives_ns;
    uint32_t offset; /* bytes already delivered */
    uint32_t size;
    uint8_t data[];
};

struct sim_listener {
    struct io_listener base;
    struct list_node link;
    uint16_t port;
    char host[SIM_HOST_SIZE_MAX];
    io_accept_fn accept;
    void *context;
};

struct sim_stream {
    struct io_stream base;
    struct list_node link; /* in the loop's streams */
    struct sim_loop *loop;
    struct sim_stream *peer; /* NULL when the other end is gone */
    struct sim_node *peer_node;
    uint16_t peer_port;
    const struct io_stream_events *events; /* NULL until opened */
    void *context;
    struct sim_listener *listener; /* until accepted */
    bool is_moved;
    bool is_paused;
    bool is_ended;
    bool is_dead; /* its process is gone */
    status why;

    struct list wire; /* items on the way to this end */
    struct list inbox;
    struct sim_event arrival; /* of the first item of the wire */
    struct sim_event deliver;
    uint64_t held_size;       /* bytes on the wire or in the inbox, or not yet credited */
    uint64_t uncredited_size; /* taken, but a cut keeps the sender from knowing */
    uint64_t window;
    int64_t last_arrival_ns;

    struct io_send *send; /* at most one */
    bool is_sent;         /* all of it is accepted, only the callback is due */
    struct sim_event sent;
    struct sim_event closed;
    struct sim_event accepted;
};

struct sim_stream *sim_stream_create(struct sim_loop *loop, struct sim_node *peer_node,
                                     uint16_t peer_port);

/* Joins two new ends. */
void sim_stream_join(struct sim_stream *a, struct sim_stream *b);

/* The end of this end: a pending send fails, then on_closed tells `why`. */
void sim_stream_end(struct sim_stream *stream, status why);

/* Tells the other end that this one is gone, orderly or by a reset, and forgets it. */
void sim_stream_leave(struct sim_stream *stream, bool orderly);

/* True when something arrived that was not delivered: closing then resets, as TCP does. */
bool sim_stream_has_unread(const struct sim_stream *stream);

/* The process is gone: no callback runs any more. */
void sim_stream_die(struct sim_stream *stream, bool process_only);
void sim_stream_free(struct sim_stream *stream);

/* After the direction towards this end healed, and after the one from this end did. */
void sim_stream_heal_wire(struct sim_stream *stream);
void sim_stream_heal_credit(struct sim_stream *stream);

#endif
