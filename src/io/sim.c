#include "sim_world.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* Each turn takes this long, so that time moves even when code asks for no delay again and again.
 */
enum { TURN_NS = 200 };

#define WALL_BASE_MS 1700000000000

struct sim *sim_create(uint64_t seed, const struct sim_options *options)
{
    struct sim *sim = calloc(1, sizeof(*sim));
    if (sim == NULL) {
        return NULL;
    }
    sim->rng.state = seed;
    sim->user_rng.state = seed ^ 0x5deece66d1234567ull;
    sim->options = *options;
    sim->now_ns = 1000 * (int64_t)SIM_MS;
    sim->wall_base_ms = WALL_BASE_MS;
    sim->hash = seed;
    list_init(&sim->nodes);
    list_init(&sim->dead_loops);
    return sim;
}

static struct sim_node *node_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct sim_node, link);
}

void sim_destroy(struct sim *sim)
{
    ASSERT(!sim->is_running);
    LIST_FOREACH (node, &sim->nodes) {
        sim_node_end_life(node_of(node), true);
    }
    while (!list_is_empty(&sim->dead_loops)) {
        sim_loop_free(CONTAINER_OF(list_first(&sim->dead_loops), struct sim_loop, link));
    }
    while (!list_is_empty(&sim->nodes)) {
        struct sim_node *node = node_of(list_pop_front(&sim->nodes));
        sim_disk_fini(&node->disk);
        free(node);
    }
    ASSERT(sim->heap_count == 0);
    free(sim->heap);
    free(sim);
}

/* ---------------------------------------------------------------- nodes */

struct sim_node *sim_node_add(struct sim *sim, const char *host)
{
    ASSERT(sim->node_count < SIM_NODES_MAX);
    ASSERT(strlen(host) < SIM_HOST_SIZE_MAX);
    struct sim_node *node = sim_alloc(sizeof(*node));
    node->sim = sim;
    node->id = sim->node_count++;
    memcpy(node->host, host, strlen(host) + 1);
    node->rng.state = sim_rng_next(&sim->rng);
    node->next_port = 49152;
    list_init(&node->loops);
    sim_disk_init(&node->disk, &sim->rng, &sim->coverage, &sim->options);
    node->disk.node = node;
    list_push_back(&sim->nodes, &node->link);
    node->main_loop = sim_loop_create(node);
    return node;
}

struct io *sim_node_io(struct sim_node *node)
{
    return &node->main_loop->base;
}

struct io *sim_node_loop_add(struct sim_node *node)
{
    ASSERT(!node->main_loop->is_dead);
    return &sim_loop_create(node)->base;
}

struct io_disk *sim_node_disk(struct sim_node *node)
{
    return &node->disk.base;
}

bool sim_node_is_stopped(struct sim_node *node)
{
    return node->main_loop->is_stopped;
}

void sim_node_kick(struct sim_node *node)
{
    LIST_FOREACH (at, &node->loops) {
        sim_loop_kick(CONTAINER_OF(at, struct sim_loop, link));
    }
}

struct io *sim_node_start(struct sim_node *node)
{
    ASSERT(list_is_empty(&node->loops));
    node->paused_until_ns = 0;
    node->main_loop = sim_loop_create(node);
    return &node->main_loop->base;
}

void sim_node_crash(struct sim_node *node, bool process_only)
{
    struct sim *sim = node->sim;
    ASSERT(!sim->is_running);
    sim->coverage.crashes++;
    sim_hash_add(sim, (uint64_t)SIM_EVENT_CRASH << 32 | node->id);
    /* Once operations failed for want of power there is no page cache left to survive. */
    sim_node_end_life(node, process_only && !node->disk.is_doomed);
}

void sim_node_doom(struct sim_node *node, uint32_t count)
{
    node->disk.doom_is_armed = true;
    node->disk.is_doomed = false;
    node->disk.doom_count = count;
}

bool sim_node_is_doomed(struct sim_node *node)
{
    return node->disk.is_doomed;
}

void sim_node_pause(struct sim_node *node, int64_t duration_ns)
{
    node->sim->coverage.pauses++;
    node->paused_until_ns = MAX(node->paused_until_ns, node->sim->now_ns + duration_ns);
}

void sim_node_jump_clock(struct sim_node *node, int64_t delta_ms)
{
    node->sim->coverage.clock_jumps++;
    node->wall_offset_ms += delta_ms;
}

status sim_disk_rot(struct sim_node *node, const char *path, uint64_t position, uint32_t size)
{
    struct sim_inode *inode;
    TRY(sim_tree_find(&node->disk.tree, path, &inode));
    if (inode->is_directory || position + size > inode->size) {
        return STATUS(INVALID);
    }
    sim_inode_rot(inode, position, size);
    node->sim->coverage.rotten_bits += size;
    return OK;
}

/* ---------------------------------------------------------------- network and options */

bool sim_net_is_cut(const struct sim_node *from, const struct sim_node *to)
{
    return (from->cut_to >> to->id & 1) != 0;
}

void sim_net_cut(struct sim *sim, struct sim_node *from, struct sim_node *to, bool cut)
{
    uint64_t bit = 1ull << to->id;
    if (cut) {
        sim->coverage.cuts += (from->cut_to & bit) == 0 ? 1 : 0;
        from->cut_to |= bit;
    } else if ((from->cut_to & bit) != 0) {
        from->cut_to &= ~bit;
        sim_net_heal(sim, from, to);
    }
}

void sim_set_options(struct sim *sim, const struct sim_options *options)
{
    sim->options = *options;
}

void sim_coverage_get(struct sim *sim, struct sim_coverage *coverage)
{
    *coverage = sim->coverage;
}

uint64_t sim_hash(struct sim *sim)
{
    return sim->hash ^ sim->rng.state;
}

uint64_t sim_random(struct sim *sim)
{
    return sim_rng_next(&sim->user_rng);
}

int64_t sim_now_ns(struct sim *sim)
{
    return sim->now_ns;
}

/* ---------------------------------------------------------------- scheduler */

/* The first event that may run at its time; those of paused nodes wait, of stopped loops go. */
static struct sim_event *sim_next_event(struct sim *sim)
{
    for (;;) {
        struct sim_event *event = sim_event_first(sim);
        if (event == NULL || event->loop == NULL) {
            return event;
        }
        if (event->loop->is_stopped) {
            sim_event_stop(sim, event);
        } else if (event->at_ns < event->loop->node->paused_until_ns) {
            sim_event_defer(sim, event, event->loop->node->paused_until_ns);
        } else {
            return event;
        }
    }
}

/* The loop whose timer is due first, and when. */
static struct sim_loop *sim_next_timer(struct sim *sim, int64_t *due_ns)
{
    struct sim_loop *first = NULL;
    *due_ns = INT64_MAX;
    LIST_FOREACH (node, &sim->nodes) {
        LIST_FOREACH (link, &node_of(node)->loops) {
            struct sim_loop *loop = CONTAINER_OF(link, struct sim_loop, link);
            int64_t due = timers_next_due_ns(&loop->base.timers);
            if (due == INT64_MAX || loop->is_stopped) {
                continue;
            }
            due = MAX(due, loop->node->paused_until_ns);
            if (due < *due_ns) {
                *due_ns = due;
                first = loop;
            }
        }
    }
    return first;
}

static void sim_run_event(struct sim *sim, struct sim_event *event)
{
    if (event->loop != NULL && event->kind != SIM_EVENT_WORK) {
        sim_loop_run_turn(event->loop, event);
        return;
    }
    sim_event_stop(sim, event);
    sim_hash_add(sim, (uint64_t)event->kind << 32);
    sim_hash_add(sim, (uint64_t)sim->now_ns);
    event->fn(event);
}

/* Runs the next event unless it comes after `end_ns`. */
static bool sim_step_until(struct sim *sim, int64_t end_ns)
{
    ASSERT(!sim->is_running);
    struct sim_event *event = sim_next_event(sim);
    int64_t due_ns;
    struct sim_loop *loop = sim_next_timer(sim, &due_ns);
    bool is_timer = loop != NULL && (event == NULL || due_ns < event->at_ns);
    if ((event == NULL && !is_timer) || (is_timer ? due_ns : event->at_ns) > end_ns) {
        return false;
    }
    sim->is_running = true;
    sim->coverage.events++;
    sim->now_ns = MAX(sim->now_ns + TURN_NS, is_timer ? due_ns : event->at_ns);
    if (is_timer) {
        sim_loop_run_turn(loop, NULL);
    } else {
        sim_run_event(sim, event);
    }
    sim->is_running = false;
    return true;
}

bool sim_step(struct sim *sim)
{
    return sim_step_until(sim, INT64_MAX);
}

void sim_run(struct sim *sim, int64_t duration_ns)
{
    int64_t end_ns = sim->now_ns + duration_ns;
    while (sim->now_ns < end_ns && sim_step_until(sim, end_ns)) {
    }
    sim->now_ns = MAX(sim->now_ns, end_ns);
}
