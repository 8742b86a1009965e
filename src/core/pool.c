#include "twinlog/core/pool.h"

#include <stdlib.h>
#include <string.h>

#include "poison.h"
#include "twinlog/core/assert.h"

#define POOL_ALIGNMENT     16
#define POOL_PREFETCH_MAX  512u
#define POOL_PREFETCH_STEP 64u
#define POOL_SLAB_SIZE     (64 * 1024) /* or one object, when that is larger */

/* At the start of every slab; its objects follow. Those at `used` and after were never taken. */
struct pool_slab {
    struct pool_slab *older;
    uint32_t used;
    uint32_t count;
};

/* What stands in an object that is not in use. */
struct pool_free {
    struct pool_free *next;
};

_Static_assert(sizeof(struct pool_slab) % POOL_ALIGNMENT == 0, "objects stay aligned");

void pool_init(struct pool *pool, uint32_t object_size, uint32_t count_max)
{
    pool_init_partly_zeroed(pool, object_size, object_size, count_max);
}

void pool_init_partly_zeroed(struct pool *pool, uint32_t object_size, uint32_t zeroed_size,
                             uint32_t count_max)
{
    ASSERT(object_size > 0);
    ASSERT(zeroed_size <= object_size);
    ASSERT(object_size <= UINT32_MAX - POOL_ALIGNMENT);
    *pool = (struct pool){
        .object_size = ALIGN_UP(object_size, (uint32_t)POOL_ALIGNMENT),
        .zeroed_size = zeroed_size,
        .count_max = count_max,
    };
}

void pool_fini(struct pool *pool)
{
    ASSERT(pool->in_use == 0);
    struct pool_slab *slab = pool->slabs;
    while (slab != NULL) {
        struct pool_slab *older = slab->older;
        free(slab);
        slab = older;
    }
    pool->slabs = NULL;
    pool->free = NULL;
    pool->count = 0;
}

/* Zeroed memory comes untouched from the kernel, so a slab costs memory only as it is taken. */
static bool pool_grow(struct pool *pool)
{
    if (pool->count == pool->count_max) {
        return false;
    }
    uint32_t count = MAX((uint32_t)1, (uint32_t)POOL_SLAB_SIZE / pool->object_size);
    count = MIN(count, pool->count_max - pool->count);
    size_t size = (size_t)count * pool->object_size;
    struct pool_slab *slab = calloc(1, sizeof(struct pool_slab) + size);
    if (slab == NULL) {
        return false;
    }
    POISON(slab + 1, size);
    slab->older = pool->slabs;
    slab->count = count;
    pool->slabs = slab;
    pool->count += count;
    return true;
}

/* The object after this one: by the time it is taken its first lines are here. */
static void pool_prefetch(const struct pool *pool)
{
    uint32_t size = pool->free == NULL ? 0 : MIN(pool->object_size, POOL_PREFETCH_MAX);
    for (uint32_t at = 0; at < size; at += POOL_PREFETCH_STEP) {
        __builtin_prefetch((const uint8_t *)pool->free + at, 1);
    }
}

void *pool_take(struct pool *pool)
{
    struct pool_free *object = pool->free;
    if (object != NULL) {
        UNPOISON(object, pool->object_size);
        pool->free = object->next;
        pool_prefetch(pool);
        memset(object, 0, pool->zeroed_size);
    } else {
        if (pool->slabs == NULL || pool->slabs->used == pool->slabs->count) {
            if (!pool_grow(pool)) {
                return NULL;
            }
        }
        struct pool_slab *slab = pool->slabs;
        object = (void *)((uint8_t *)(slab + 1) + (size_t)slab->used * pool->object_size);
        slab->used++;
        UNPOISON(object, pool->object_size);
    }
    pool->in_use++;
    ASSERT(pool->in_use <= pool->count);
    return object;
}

void pool_give(struct pool *pool, void *object)
{
    ASSERT(object != NULL);
    ASSERT(pool->in_use > 0);
    struct pool_free *given = object;
    given->next = pool->free;
    pool->free = given;
    pool->in_use--;
    POISON(given, pool->object_size);
}
