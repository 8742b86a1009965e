/*
 * The private side of the simulated world: events, nodes, loops.
 *
 * All that will happen is an event in one queue, ordered by (time, sequence), or a timer of a loop.
 * An event of a loop runs as a turn of that loop, one of a helper thread runs beside it, one of
 * the network runs for itself. Nothing of a node runs while the node is paused: its events move
 * to the end of the pause.
 */
#ifndef TWINLOG_IO_SIM_WORLD_H
#define TWINLOG_IO_SIM_WORLD_H

#include "io_backend.h"
#include "sim_disk.h"

enum { SIM_NODES_MAX = 64, SIM_HOST_SIZE_MAX = 64, SIM_US = 1000, SIM_MS = 1000000 };

struct sim_loop;

enum sim_event_kind {
    SIM_EVENT_KICK,
    SIM_EVENT_OP,
    SIM_EVENT_WORK,
    SIM_EVENT_DONE,
    SIM_EVENT_MAIL,
    SIM_EVENT_WIRE,
    SIM_EVENT_DELIVER,
    SIM_EVENT_SENT,
    SIM_EVENT_CLOSED,
    SIM_EVENT_ACCEPT,
    SIM_EVENT_CONNECT,
    SIM_EVENT_CONNECTED,
    SIM_EVENT_TIMER,
    SIM_EVENT_CRASH,
};

/* Embedded in its owner. `loop` is NULL for what happens outside of all nodes. */
struct sim_event {
    int64_t at_ns;
    uint64_t sequence;
    uint32_t heap_index; /* from 1; 0: not queued */
    enum sim_event_kind kind;
    struct sim_loop *loop;
    void (*fn)(struct sim_event *event);
};

struct sim_lane {
    struct list waiting; /* io_job.link */
    struct list worked;
    struct sim_event work;
    struct sim_event done;
};

/* One loop of one life of a node. It stays allocated until the world ends, so that late calls of
 * a dead node's owner hit nothing. */
struct sim_loop {
    struct io base;
    struct sim *sim;
    struct sim_node *node;
    struct list_node link;
    uint32_t id;
    bool is_dead;
    bool is_stopped;
    bool in_turn;
    bool in_work; /* a job's work runs, as if on a helper thread */
    int64_t now_ns;
    struct sim_event kick;
    struct list ops; /* sim_op.link, in the order of submission */
    struct sim_lane lanes[IO_LANE_COUNT];
    struct list listeners;
    struct list streams;
    struct list connects;
    struct list inboxes;  /* mailboxes to this loop */
    struct list outboxes; /* mailboxes from this loop */
};

struct sim_node {
    struct sim *sim;
    struct list_node link;
    uint32_t id;
    char host[SIM_HOST_SIZE_MAX];
    struct sim_disk disk;
    struct sim_rng rng;         /* what io_random gives */
    struct list loops;          /* of this life; the first is sim_node_io() */
    struct sim_loop *main_loop; /* stays after death, until the next start */
    uint16_t next_port;
    int64_t paused_until_ns;
    int64_t wall_offset_ms;
    uint64_t cut_to; /* bit per node id: what is sent there vanishes */
};

struct sim {
    struct sim_rng rng;      /* faults and schedules */
    struct sim_rng user_rng; /* sim_random() */
    struct sim_options options;
    struct sim_coverage coverage;
    int64_t now_ns;
    int64_t wall_base_ms;
    uint64_t hash;
    struct sim_event **heap; /* slot 0 is not used */
    uint32_t heap_count;
    uint32_t heap_capacity;
    uint64_t sequence;
    uint32_t loop_count;
    uint32_t node_count;
    struct list nodes;
    struct list dead_loops;
    bool is_running; /* inside sim_step() */
};

/* ---------------------------------------------------------------- events (sim_event.c) */

void sim_event_init(struct sim_event *event, enum sim_event_kind kind, struct sim_loop *loop,
                    void (*fn)(struct sim_event *event));

/* Queues the event, or moves it, to `delay_ns` from now. */
void sim_event_start(struct sim *sim, struct sim_event *event, int64_t delay_ns);

/* Takes the event out of the queue, if it is there. */
void sim_event_stop(struct sim *sim, struct sim_event *event);

/* The next event, still queued; NULL when there is none. */
struct sim_event *sim_event_first(struct sim *sim);

/* Moves a queued event to a later time without giving up its place among events of that time. */
void sim_event_defer(struct sim *sim, struct sim_event *event, int64_t at_ns);

/* A random time in [from, to] microseconds, in nanoseconds. */
int64_t sim_delay_ns(struct sim *sim, uint32_t from_us, uint32_t to_us);

/* Adds what happened to the fingerprint of the run. */
void sim_hash_add(struct sim *sim, uint64_t value);

/* ---------------------------------------------------------------- loops (sim_loop.c) */

struct sim_loop *sim_loop_create(struct sim_node *node);
struct sim_loop *sim_loop_of(struct io *io);

/* Runs a turn whose first completion is `event`, or whose first timer is due when it is NULL. */
void sim_loop_run_turn(struct sim_loop *loop, struct sim_event *event);

/* Makes a turn happen soon when the call came from outside of any turn. */
void sim_loop_kick(struct sim_loop *loop);

/* Every function of a loop begins here. False: its process died, nothing may happen. */
bool sim_loop_enter(struct sim_loop *loop);

/* The end of the process: forgets timers, hooks, jobs, streams; writes go to the disk's mercy. */
void sim_node_end_life(struct sim_node *node, bool process_only);

/* Frees a dead loop and all that hangs on it. */
void sim_loop_free(struct sim_loop *loop);

/* ---------------------------------------------------------------- network (sim_net.c) */

bool sim_net_is_cut(const struct sim_node *from, const struct sim_node *to);

/* Ends all streams, listeners and connects of a dying loop. */
void sim_net_end(struct sim_loop *loop, bool process_only);

/* Frees what a dead loop's owner may still have pointed at. */
void sim_net_free(struct sim_loop *loop);

/* What waited for the healing of one direction moves on. */
void sim_net_heal(struct sim *sim, struct sim_node *from, struct sim_node *to);

status sim_net_listen(struct io *io, const char *host, uint16_t *port, int backlog,
                      io_accept_fn accept, void *context, struct io_listener **listener);
void sim_net_listener_close(struct io_listener *listener);
status sim_net_connect(struct io *io, const char *host, uint16_t port, io_connect_fn done,
                       void *context);
void sim_stream_open(struct io_stream *stream, const struct io_stream_events *events,
                     void *context);
void sim_stream_move(struct io_stream *stream, struct io *to);
void sim_stream_pause(struct io_stream *stream);
void sim_stream_resume(struct io_stream *stream);
void sim_stream_send(struct io_stream *stream, struct io_send *send);
void sim_stream_close(struct io_stream *stream);
void sim_stream_peer(struct io_stream *stream, char *text, size_t size);

#endif
