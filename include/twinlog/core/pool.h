/*
 * Fixed-size objects with a bound, from slabs that are touched on use. One thread.
 * Objects never move. Freed objects are reused last-in first-out.
 */
#ifndef TWINLOG_CORE_POOL_H
#define TWINLOG_CORE_POOL_H

#include "twinlog/core/base.h"

struct pool_slab;

struct pool {
    void *free;
    struct pool_slab *slabs;
    uint32_t object_size;
    uint32_t zeroed_size; /* of an object, from its start */
    uint32_t in_use;
    uint32_t count;     /* objects in slabs */
    uint32_t count_max; /* refuse more */
};

/* Objects of `object_size` bytes, at most `count_max` in use at once. Allocates nothing yet. */
void pool_init(struct pool *pool, uint32_t object_size, uint32_t count_max);

/*
 * The same, but only the first `zeroed_size` bytes of an object are zeroed: buffers at its end cost
 * no cache lines until they are written.
 */
void pool_init_partly_zeroed(struct pool *pool, uint32_t object_size, uint32_t zeroed_size,
                             uint32_t count_max);

/* Frees all slabs; no object may be in use. */
void pool_fini(struct pool *pool);

/* An object aligned to 16, zeroed as pool_init says; NULL when count_max are in use or memory is
 * out. */
MUST_USE void *pool_take(struct pool *pool);

/* Gives back an object of this pool. */
void pool_give(struct pool *pool, void *object);

#endif
