#include "sim_world.h"

#include <stdlib.h>

void sim_event_init(struct sim_event *event, enum sim_event_kind kind, struct sim_loop *loop,
                    void (*fn)(struct sim_event *event))
{
    *event = (struct sim_event){.kind = kind, .loop = loop, .fn = fn};
}

static bool event_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

static void heap_put(struct sim *sim, uint32_t at, struct sim_event *event)
{
    sim->heap[at] = event;
    event->heap_index = at;
}

static void heap_sift_up(struct sim *sim, uint32_t at, struct sim_event *event)
{
    while (at > 1 && event_before(event, sim->heap[at / 2])) {
        heap_put(sim, at, sim->heap[at / 2]);
        at /= 2;
    }
    heap_put(sim, at, event);
}

static void heap_sift_down(struct sim *sim, uint32_t at, struct sim_event *event)
{
    for (;;) {
        uint32_t child = at * 2;
        if (child > sim->heap_count) {
            break;
        }
        if (child < sim->heap_count && event_before(sim->heap[child + 1], sim->heap[child])) {
            child++;
        }
        if (!event_before(sim->heap[child], event)) {
            break;
        }
        heap_put(sim, at, sim->heap[child]);
        at = child;
    }
    heap_put(sim, at, event);
}

static void heap_add(struct sim *sim, struct sim_event *event)
{
    if (sim->heap_count == sim->heap_capacity) {
        sim->heap_capacity = MAX(sim->heap_capacity * 2, 64);
        sim->heap =
            realloc(sim->heap, ((size_t)sim->heap_capacity + 1) * sizeof(struct sim_event *));
        ASSERT(sim->heap != NULL);
    }
    sim->heap_count++;
    heap_sift_up(sim, sim->heap_count, event);
}

void sim_event_start(struct sim *sim, struct sim_event *event, int64_t delay_ns)
{
    ASSERT(delay_ns >= 0);
    ASSERT(event->fn != NULL);
    sim_event_stop(sim, event);
    event->at_ns = sim->now_ns + delay_ns;
    event->sequence = ++sim->sequence;
    heap_add(sim, event);
}

void sim_event_stop(struct sim *sim, struct sim_event *event)
{
    uint32_t at = event->heap_index;
    if (at == 0) {
        return;
    }
    ASSERT(sim->heap[at] == event);
    event->heap_index = 0;
    struct sim_event *last = sim->heap[sim->heap_count];
    sim->heap_count--;
    if (last == event) {
        return;
    }
    if (at > 1 && event_before(last, sim->heap[at / 2])) {
        heap_sift_up(sim, at, last);
    } else {
        heap_sift_down(sim, at, last);
    }
}

struct sim_event *sim_event_first(struct sim *sim)
{
    return sim->heap_count == 0 ? NULL : sim->heap[1];
}

void sim_event_defer(struct sim *sim, struct sim_event *event, int64_t at_ns)
{
    ASSERT(at_ns >= event->at_ns);
    sim_event_stop(sim, event);
    event->at_ns = at_ns;
    heap_add(sim, event);
}

int64_t sim_delay_ns(struct sim *sim, uint32_t from_us, uint32_t to_us)
{
    return (int64_t)sim_rng_between(&sim->rng, (uint64_t)from_us * SIM_US,
                                    (uint64_t)to_us * SIM_US);
}

void sim_hash_add(struct sim *sim, uint64_t value)
{
    sim->hash = (sim->hash ^ value) * 0x100000001b3ull;
    sim->hash ^= sim->hash >> 29;
}
