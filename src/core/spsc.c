/*
 * `head` and `tail` count for ever and wrap at 2^32; their difference is the number of items. The
 * producer publishes a slot by storing `head` with release, the consumer gives it back by storing
 * `tail` with release; each loads the other's counter with acquire.
 */
#include "twinlog/core/spsc.h"

#include <stdlib.h>

#include "twinlog/core/assert.h"

#define SPSC_CAPACITY_MAX (1u << 20)

status spsc_init(struct spsc *ring, uint32_t capacity)
{
    ASSERT(capacity > 0);
    ASSERT(capacity <= SPSC_CAPACITY_MAX);
    ASSERT((capacity & (capacity - 1)) == 0);
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    ring->capacity = capacity;
    ring->slots = calloc(capacity, sizeof(*ring->slots));
    return ring->slots == NULL ? STATUS(NO_MEMORY) : OK;
}

void spsc_fini(struct spsc *ring)
{
    free(ring->slots);
    ring->slots = NULL;
}

bool spsc_push(struct spsc *ring, void *item)
{
    ASSERT(item != NULL);
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    ASSERT(head - tail <= ring->capacity);
    if (head - tail == ring->capacity) {
        return false;
    }
    ring->slots[head & (ring->capacity - 1)] = item;
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return true;
}

void *spsc_pop(struct spsc *ring)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    ASSERT(head - tail <= ring->capacity);
    if (head == tail) {
        return NULL;
    }
    void *item = ring->slots[tail & (ring->capacity - 1)];
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return item;
}

bool spsc_is_empty(struct spsc *ring)
{
    /* `tail` first: it never passes `head`, so a difference of zero was true at some moment. */
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    return head == tail;
}
