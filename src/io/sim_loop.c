#include "sim_world.h"

#include <errno.h>
#include <stdlib.h>

enum {
    TURN_WINDOW_US_MAX = 20, /* completions this close may share a turn */
    DONE_US_MAX = 10,
    MAIL_US_MAX = 5,
    KICK_US_MAX = 2,
};

enum sim_op_kind { SIM_OP_WRITE, SIM_OP_READ, SIM_OP_SYNC };

/* One asynchronous file operation in flight. */
struct sim_op {
    struct list_node link;
    struct sim_event event;
    enum sim_op_kind kind;
    bool sync;
    struct io_op *op;
    struct sim_file *file;
    union {
        const uint8_t *from; /* a write's */
        uint8_t *to;         /* a read's */
    } buffer;
    uint32_t size;
    uint64_t position;
    struct sim_sync mark; /* a sync's */
    status refused;       /* decided at the submit */
};

struct sim_mailbox {
    struct io_mailbox base;
    struct list_node in_link;
    struct list_node out_link;
    struct sim_loop *to;
    io_mailbox_fn receive;
    void *context;
    uint32_t capacity;
    uint32_t head; /* next to send */
    uint32_t tail; /* next to receive */
    struct sim_event event;
    void *slots[];
};

struct sim_loop *sim_loop_of(struct io *io)
{
    return CONTAINER_OF(io, struct sim_loop, base);
}

/* ---------------------------------------------------------------- turns */

static bool event_is_in_turn(const struct sim_event *event, const struct sim_loop *loop)
{
    return event != NULL && event->loop == loop && event->kind != SIM_EVENT_WORK;
}

static void loop_fire(struct sim_loop *loop, struct sim_event *event)
{
    struct sim *sim = loop->sim;
    sim_event_stop(sim, event);
    sim_hash_add(sim, (uint64_t)event->kind << 32 | loop->id);
    sim_hash_add(sim, (uint64_t)sim->now_ns);
    loop->base.stats.completions++;
    event->fn(event);
}

void sim_loop_run_turn(struct sim_loop *loop, struct sim_event *event)
{
    struct sim *sim = loop->sim;
    ASSERT(!loop->in_turn);
    loop->in_turn = true;
    loop->now_ns = sim->now_ns;
    loop->base.stats.turns++;
    loop->base.stats.submits++;
    if (event != NULL) {
        loop_fire(loop, event);
        int64_t end_ns = sim->now_ns + sim_delay_ns(sim, 0, TURN_WINDOW_US_MAX);
        bool is_alone = sim_rng_coin(&sim->rng);
        struct sim_event *next = is_alone ? NULL : sim_event_first(sim);
        while (event_is_in_turn(next, loop) && next->at_ns <= end_ns) {
            sim->now_ns = MAX(sim->now_ns, next->at_ns);
            loop_fire(loop, next);
            next = sim_event_first(sim);
        }
    } else {
        sim_hash_add(sim, (uint64_t)SIM_EVENT_TIMER << 32 | loop->id);
        sim_hash_add(sim, (uint64_t)sim->now_ns);
    }
    timers_run(&loop->base.timers, sim->now_ns);
    io_hooks_run(&loop->base);
    loop->in_turn = false;
}

static void loop_on_kick(struct sim_event *event)
{
    (void)event;
}

void sim_loop_kick(struct sim_loop *loop)
{
    if (!loop->in_turn && !loop->is_dead && loop->kick.heap_index == 0) {
        sim_event_start(loop->sim, &loop->kick, sim_delay_ns(loop->sim, 0, KICK_US_MAX));
    }
}

/* A job's work must not touch the loop: on real threads that would be a race. */
bool sim_loop_enter(struct sim_loop *loop)
{
    ASSERT(!loop->in_work);
    sim_loop_kick(loop);
    return !loop->is_dead;
}

/* ---------------------------------------------------------------- file operations */

static struct sim_op *op_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct sim_op, link);
}

static void op_free(struct sim_loop *loop, struct sim_op *op)
{
    sim_event_stop(loop->sim, &op->event);
    list_remove(&op->link);
    ASSERT(op->file->in_flight > 0);
    op->file->in_flight--;
    op->op->backend[0] = 0;
    free(op);
}

static status op_finish(struct sim_op *op, struct io_stats *stats)
{
    if (!status_is_ok(op->refused)) {
        return op->refused;
    }
    switch (op->kind) {
    case SIM_OP_WRITE:
        stats->syncs += op->sync ? 1 : 0;
        op->op->count = op->size;
        return sim_file_finish_write(op->file, op->buffer.from, op->size, op->position, op->sync);
    case SIM_OP_READ:
        return sim_file_finish_read(op->file, op->buffer.to, op->size, op->position,
                                    &op->op->count);
    case SIM_OP_SYNC:
        stats->syncs++;
        return sim_file_finish_sync(op->file, op->mark);
    }
    return STATUS(IO);
}

static void loop_on_op(struct sim_event *event)
{
    struct sim_op *op = CONTAINER_OF(event, struct sim_op, event);
    struct sim_loop *loop = event->loop;
    if (loop->node->disk.is_doomed && status_is_ok(op->refused)) {
        return; /* The power went while it was in flight: the crash decides what it did. */
    }
    struct io_op *user_op = op->op;
    user_op->result = op_finish(op, &loop->base.stats);
    if (!status_is_ok(user_op->result)) {
        user_op->count = 0;
    }
    op_free(loop, op);
    user_op->fn(user_op);
}

static int64_t op_delay_ns(struct sim *sim, const struct sim_op *op)
{
    const struct sim_options *options = &sim->options;
    bool is_durable = op->kind == SIM_OP_SYNC || op->sync;
    uint32_t from_us = is_durable ? options->disk_write_us_min : options->disk_write_us_min / 4;
    int64_t delay_ns = sim_delay_ns(sim, from_us, options->disk_write_us_max);
    if (op->kind != SIM_OP_READ && sim_rng_chance(&sim->rng, options->disk_stall_chance)) {
        sim->coverage.stalls++;
        delay_ns += sim_delay_ns(sim, 0, options->disk_stall_us_max);
    }
    return delay_ns;
}

static void op_start(struct io *io, struct io_op *user_op, struct io_file *file,
                     const struct sim_op *wanted)
{
    struct sim_loop *loop = sim_loop_of(io);
    if (!sim_loop_enter(loop)) {
        return;
    }
    ASSERT(user_op->backend[0] == 0);
    ASSERT(file->disk == &loop->node->disk.base);
    struct sim_op *op = sim_alloc(sizeof(*op));
    *op = *wanted;
    op->op = user_op;
    op->file = CONTAINER_OF(file, struct sim_file, base);
    ASSERT(op->file->inode != NULL);
    op->file->in_flight++;
    user_op->backend[0] = 1;
    op->refused = sim_disk_enter(&loop->node->disk);
    unsigned flag = op->kind == SIM_OP_READ ? IO_FILE_READ : IO_FILE_WRITE;
    if (status_is_ok(op->refused) && op->kind != SIM_OP_SYNC) {
        op->refused =
            (op->file->flags & flag) == 0
                ? status_from_errno(EBADF)
                : sim_file_check_direct(op->file, op->buffer.from, op->size, op->position);
    }
    if (op->kind == SIM_OP_SYNC && status_is_ok(op->refused)) {
        op->mark = sim_inode_sync_start(op->file->inode);
    }
    sim_event_init(&op->event, SIM_EVENT_OP, loop, loop_on_op);
    list_push_back(&loop->ops, &op->link);
    sim_event_start(loop->sim, &op->event, op_delay_ns(loop->sim, op));
}

static void loop_submit_write(struct io *io, struct io_op *op, struct io_file *file,
                              const void *buffer, uint32_t size, uint64_t position, bool sync)
{
    io->stats.writes++;
    struct sim_op wanted = {.kind = SIM_OP_WRITE,
                            .sync = sync,
                            .buffer.from = buffer,
                            .size = size,
                            .position = position,
                            .refused = OK};
    op_start(io, op, file, &wanted);
}

static void loop_submit_read(struct io *io, struct io_op *op, struct io_file *file, void *buffer,
                             uint32_t size, uint64_t position)
{
    struct sim_op wanted = {.kind = SIM_OP_READ,
                            .buffer.to = buffer,
                            .size = size,
                            .position = position,
                            .refused = OK};
    op_start(io, op, file, &wanted);
}

static void loop_submit_sync(struct io *io, struct io_op *op, struct io_file *file)
{
    struct sim_op wanted = {.kind = SIM_OP_SYNC, .refused = OK};
    op_start(io, op, file, &wanted);
}

/* ---------------------------------------------------------------- offload */

static struct io_job *job_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct io_job, link);
}

static void lane_step(struct sim_loop *loop, struct sim_lane *lane)
{
    if (!list_is_empty(&lane->waiting) && lane->work.heap_index == 0) {
        sim_event_start(loop->sim, &lane->work,
                        sim_delay_ns(loop->sim, 0, loop->sim->options.offload_us_max));
    }
    if (!list_is_empty(&lane->worked) && lane->done.heap_index == 0) {
        sim_event_start(loop->sim, &lane->done, sim_delay_ns(loop->sim, 0, DONE_US_MAX));
    }
}

/* A helper thread runs one job: not a turn of the loop. */
static void lane_on_work(struct sim_event *event)
{
    struct sim_lane *lane = CONTAINER_OF(event, struct sim_lane, work);
    struct sim_loop *loop = event->loop;
    struct io_job *job = job_of(list_pop_front(&lane->waiting));
    list_push_back(&lane->worked, &job->link);
    loop->in_work = true;
    job->work(job);
    loop->in_work = false;
    lane_step(loop, lane);
}

static void lane_on_done(struct sim_event *event)
{
    struct sim_lane *lane = CONTAINER_OF(event, struct sim_lane, done);
    struct list worked;
    list_init(&worked);
    list_splice(&worked, &lane->worked);
    while (!list_is_empty(&worked)) {
        struct io_job *job = job_of(list_pop_front(&worked));
        job->done(job);
    }
}

static void loop_offload(struct io *io, enum io_lane lane, struct io_job *job)
{
    struct sim_loop *loop = sim_loop_of(io);
    if (sim_loop_enter(loop)) {
        list_push_back(&loop->lanes[lane].waiting, &job->link);
        lane_step(loop, &loop->lanes[lane]);
    }
}

/* ---------------------------------------------------------------- mailboxes */

static struct sim_mailbox *mailbox_of(struct io_mailbox *mailbox)
{
    return CONTAINER_OF(mailbox, struct sim_mailbox, base);
}

static void mailbox_on_mail(struct sim_event *event)
{
    struct sim_mailbox *mailbox = CONTAINER_OF(event, struct sim_mailbox, event);
    uint32_t head = mailbox->head;
    while (mailbox->tail != head) {
        void *message = mailbox->slots[mailbox->tail & (mailbox->capacity - 1)];
        mailbox->tail++;
        mailbox->receive(mailbox->context, message);
    }
}

static status loop_mailbox_create(struct io *from, struct io *to, uint32_t capacity,
                                  io_mailbox_fn receive, void *context, struct io_mailbox **created)
{
    ASSERT(sim_loop_of(from)->node == sim_loop_of(to)->node);
    struct sim_mailbox *mailbox = sim_alloc(sizeof(*mailbox) + capacity * sizeof(void *));
    mailbox->base.from = from;
    mailbox->to = sim_loop_of(to);
    mailbox->receive = receive;
    mailbox->context = context;
    mailbox->capacity = capacity;
    sim_event_init(&mailbox->event, SIM_EVENT_MAIL, mailbox->to, mailbox_on_mail);
    list_push_back(&mailbox->to->inboxes, &mailbox->in_link);
    list_push_back(&sim_loop_of(from)->outboxes, &mailbox->out_link);
    *created = &mailbox->base;
    return OK;
}

static void loop_mailbox_destroy(struct io_mailbox *base)
{
    struct sim_mailbox *mailbox = mailbox_of(base);
    sim_event_stop(mailbox->to->sim, &mailbox->event);
    list_remove(&mailbox->in_link);
    list_remove(&mailbox->out_link);
    free(mailbox);
}

static uint32_t loop_mailbox_room(struct io_mailbox *base)
{
    struct sim_mailbox *mailbox = mailbox_of(base);
    return mailbox->capacity - (mailbox->head - mailbox->tail);
}

static status loop_mailbox_send(struct io_mailbox *base, void *message)
{
    struct sim_mailbox *mailbox = mailbox_of(base);
    if (!sim_loop_enter(sim_loop_of(base->from)) || loop_mailbox_room(base) == 0) {
        return STATUS(FULL);
    }
    mailbox->slots[mailbox->head & (mailbox->capacity - 1)] = message;
    mailbox->head++;
    if (mailbox->event.heap_index == 0 && !mailbox->to->is_dead) {
        struct sim *sim = mailbox->to->sim;
        sim_event_start(sim, &mailbox->event, sim_delay_ns(sim, 0, MAIL_US_MAX));
    }
    return OK;
}

/* ---------------------------------------------------------------- clock and the rest */

static int64_t loop_now_ns(struct io *io)
{
    struct sim_loop *loop = sim_loop_of(io);
    ASSERT(!loop->in_work);
    return loop->in_turn ? loop->now_ns : loop->sim->now_ns;
}

static int64_t loop_now_ns_exact(struct io *io)
{
    return sim_loop_of(io)->sim->now_ns;
}

static int64_t loop_wall_ms(struct io *io)
{
    return sim_node_wall_ms(sim_loop_of(io)->node);
}

int64_t sim_node_wall_ms(const struct sim_node *node)
{
    return node->sim->wall_base_ms + node->sim->now_ns / SIM_MS + node->wall_offset_ms;
}

static uint64_t loop_random(struct io *io)
{
    return sim_rng_next(&sim_loop_of(io)->node->rng);
}

static struct io_disk *loop_disk(struct io *io)
{
    return &sim_loop_of(io)->node->disk.base;
}

static void loop_stop(struct io *io)
{
    sim_loop_of(io)->is_stopped = true;
}

static void loop_destroy(struct io *io);

static const struct io_ops loop_ops = {
    .destroy = loop_destroy,
    .run = NULL,
    .stop = loop_stop,
    .now_ns = loop_now_ns,
    .now_ns_exact = loop_now_ns_exact,
    .wall_ms = loop_wall_ms,
    .random = loop_random,
    .disk = loop_disk,
    .submit_write = loop_submit_write,
    .submit_read = loop_submit_read,
    .submit_sync = loop_submit_sync,
    .offload = loop_offload,
    .listen = sim_net_listen,
    .listener_close = sim_net_listener_close,
    .connect = sim_net_connect,
    .stream_open = sim_stream_open,
    .stream_move = sim_stream_move,
    .stream_pause = sim_stream_pause,
    .stream_resume = sim_stream_resume,
    .stream_send = sim_stream_send,
    .stream_close = sim_stream_close,
    .stream_peer = sim_stream_peer,
    .mailbox_create = loop_mailbox_create,
    .mailbox_destroy = loop_mailbox_destroy,
    .mailbox_room = loop_mailbox_room,
    .mailbox_send = loop_mailbox_send,
};

/* ---------------------------------------------------------------- life and death */

struct sim_loop *sim_loop_create(struct sim_node *node)
{
    struct sim *sim = node->sim;
    struct sim_loop *loop = sim_alloc(sizeof(*loop));
    io_base_init(&loop->base, &loop_ops);
    loop->sim = sim;
    loop->node = node;
    loop->id = sim->loop_count++;
    sim_event_init(&loop->kick, SIM_EVENT_KICK, loop, loop_on_kick);
    list_init(&loop->ops);
    for (uint32_t i = 0; i < IO_LANE_COUNT; i++) {
        list_init(&loop->lanes[i].waiting);
        list_init(&loop->lanes[i].worked);
        sim_event_init(&loop->lanes[i].work, SIM_EVENT_WORK, loop, lane_on_work);
        sim_event_init(&loop->lanes[i].done, SIM_EVENT_DONE, loop, lane_on_done);
    }
    list_init(&loop->listeners);
    list_init(&loop->streams);
    list_init(&loop->connects);
    list_init(&loop->inboxes);
    list_init(&loop->outboxes);
    list_push_back(&node->loops, &loop->link);
    sim_loop_kick(loop);
    return loop;
}

static void lane_end(struct sim_loop *loop, struct sim_lane *lane)
{
    sim_event_stop(loop->sim, &lane->work);
    sim_event_stop(loop->sim, &lane->done);
    list_splice(&lane->worked, &lane->waiting);
    while (!list_is_empty(&lane->worked)) {
        list_pop_front(&lane->worked);
        loop->sim->coverage.job_crashes++;
    }
}

/*
 * Lets go of everything the owner embedded, so that the owner may free it. A hook is left linked
 * to itself: taking it out is then harmless, and so is not doing it.
 */
static void loop_end(struct sim_loop *loop, bool process_only)
{
    ASSERT(!loop->in_turn);
    ASSERT(list_is_empty(&loop->ops));
    loop->is_dead = true;
    sim_event_stop(loop->sim, &loop->kick);
    sim_net_end(loop, process_only);
    for (uint32_t i = 0; i < IO_LANE_COUNT; i++) {
        lane_end(loop, &loop->lanes[i]);
    }
    LIST_FOREACH (node, &loop->inboxes) {
        struct sim_mailbox *mailbox = CONTAINER_OF(node, struct sim_mailbox, in_link);
        sim_event_stop(loop->sim, &mailbox->event);
    }
    while (!list_is_empty(&loop->base.hooks)) {
        struct list_node *hook = list_pop_front(&loop->base.hooks);
        hook->next = hook;
        hook->prev = hook;
    }
    timers_fini(&loop->base.timers);
    list_remove(&loop->link);
    list_push_back(&loop->sim->dead_loops, &loop->link);
}

static void loop_destroy(struct io *io)
{
    struct sim_loop *loop = sim_loop_of(io);
    if (loop->is_dead) {
        return;
    }
    loop_end(loop, true);
    if (list_is_empty(&loop->node->loops)) {
        sim_disk_kill_process(&loop->node->disk, NULL, 0);
    }
}

/* A sync in flight when its process was killed may have happened or not; a power cut stops it. */
static void op_end_sync(struct sim_op *op, bool process_only)
{
    if (!status_is_ok(op->refused)) {
        return;
    }
    if (process_only && sim_rng_coin(op->file->inode->medium->rng)) {
        sim_inode_sync_finish(op->file->inode, op->mark, false);
    } else {
        sim_inode_sync_cancel(op->file->inode);
    }
}

static uint32_t node_gather_flights(struct sim_node *node, struct sim_flight *flights,
                                    bool process_only)
{
    uint32_t count = 0;
    LIST_FOREACH (loop_node, &node->loops) {
        struct sim_loop *loop = CONTAINER_OF(loop_node, struct sim_loop, link);
        LIST_FOREACH (node_of_op, &loop->ops) {
            struct sim_op *op = op_of(node_of_op);
            if (op->kind == SIM_OP_SYNC) {
                op_end_sync(op, process_only);
            } else if (op->kind == SIM_OP_WRITE && status_is_ok(op->refused)) {
                flights[count++] = (struct sim_flight){.inode = op->file->inode,
                                                       .data = op->buffer.from,
                                                       .size = op->size,
                                                       .position = op->position,
                                                       .sync = op->sync};
            }
        }
    }
    return count;
}

static uint32_t node_count_ops(struct sim_node *node)
{
    uint32_t count = 0;
    LIST_FOREACH (loop_node, &node->loops) {
        LIST_FOREACH (op, &CONTAINER_OF(loop_node, struct sim_loop, link)->ops) {
            count++;
        }
    }
    return count;
}

void sim_node_end_life(struct sim_node *node, bool process_only)
{
    struct sim_flight *flights = sim_alloc((node_count_ops(node) + 1) * sizeof(*flights));
    uint32_t flight_count = node_gather_flights(node, flights, process_only);
    LIST_FOREACH_SAFE (loop_node, &node->loops) {
        struct sim_loop *loop = CONTAINER_OF(loop_node, struct sim_loop, link);
        while (!list_is_empty(&loop->ops)) {
            op_free(loop, op_of(list_first(&loop->ops)));
        }
        loop_end(loop, process_only);
    }
    if (process_only) {
        sim_disk_kill_process(&node->disk, flights, flight_count);
    } else {
        sim_disk_cut_power(&node->disk, flights, flight_count);
    }
    free(flights);
}

void sim_loop_free(struct sim_loop *loop)
{
    ASSERT(loop->is_dead);
    sim_net_free(loop);
    while (!list_is_empty(&loop->outboxes)) {
        struct list_node *node = list_first(&loop->outboxes);
        loop_mailbox_destroy(&CONTAINER_OF(node, struct sim_mailbox, out_link)->base);
    }
    while (!list_is_empty(&loop->inboxes)) {
        struct list_node *node = list_first(&loop->inboxes);
        loop_mailbox_destroy(&CONTAINER_OF(node, struct sim_mailbox, in_link)->base);
    }
    timers_fini(&loop->base.timers);
    list_remove(&loop->link);
    free(loop);
}
