#include "chunk.h"

#include <stdlib.h>
#include <sys/mman.h>

#define CHUNK_ENTRIES_FIRST 256u /* capacity of the entries array when the first one is added */

_Static_assert((CHUNK_ALIGNMENT & (CHUNK_ALIGNMENT - 1)) == 0, "rounding needs a power of two");

static struct chunk *chunk_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct chunk, link);
}

/* What a chunk of this capacity counts against the bound. */
static uint32_t chunk_units(const struct chunk_pool *pool, uint32_t capacity)
{
    return (uint32_t)(((uint64_t)capacity + pool->chunk_size - 1) / pool->chunk_size);
}

void chunk_pool_init(struct chunk_pool *pool, uint32_t chunk_size, uint32_t count_max)
{
    ASSERT(chunk_size > 0);
    ASSERT(chunk_size % CHUNK_ALIGNMENT == 0);
    ASSERT(count_max > 0);
    *pool = (struct chunk_pool){.chunk_size = chunk_size, .count_max = count_max};
    list_init(&pool->free);
    list_init(&pool->used);
}

/* Fresh pages straight from the kernel: untouched ones cost nothing, and freeing gives them back.
 */
static struct chunk *chunk_make(struct chunk_pool *pool, uint32_t capacity)
{
    struct chunk *chunk = calloc(1, sizeof(*chunk));
    if (chunk == NULL) {
        return NULL;
    }
    void *data = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        free(chunk);
        return NULL;
    }
    chunk->data = data;
    chunk->capacity = capacity;
    chunk->oversized = capacity > pool->chunk_size;
    pool->count += chunk_units(pool, capacity);
    return chunk;
}

/* The chunk is in no list. */
static void chunk_free(struct chunk_pool *pool, struct chunk *chunk)
{
    uint32_t units = chunk_units(pool, chunk->capacity);
    ASSERT(pool->count >= units);
    pool->count -= units;
    munmap(chunk->data, chunk->capacity);
    free(chunk->entries);
    free(chunk);
}

void chunk_pool_fini(struct chunk_pool *pool)
{
    list_splice(&pool->free, &pool->used);
    chunk_pool_trim(pool);
    ASSERT(pool->count == 0);
    pool->in_use = 0;
}

bool chunk_pool_has_room(const struct chunk_pool *pool, uint32_t size)
{
    if (size > UINT32_MAX - CHUNK_ALIGNMENT) {
        return false;
    }
    uint32_t units = chunk_units(pool, MAX(size, 1u));
    return (uint64_t)pool->in_use + units <= pool->count_max || pool->in_use == 0;
}

struct chunk *chunk_take(struct chunk_pool *pool, uint32_t size)
{
    if (!chunk_pool_has_room(pool, size)) {
        return NULL;
    }
    uint32_t capacity = MAX(pool->chunk_size, ALIGN_UP(size, CHUNK_ALIGNMENT));
    uint32_t units = chunk_units(pool, capacity);
    bool pooled = units == 1 && !list_is_empty(&pool->free);
    /* Free chunks are memory too: they make way where an oversized one would exceed the bound. */
    while (!pooled && pool->count + units > pool->count_max && !list_is_empty(&pool->free)) {
        chunk_free(pool, chunk_of(list_pop_front(&pool->free)));
    }
    struct chunk *chunk =
        pooled ? chunk_of(list_pop_front(&pool->free)) : chunk_make(pool, capacity);
    if (chunk == NULL) {
        return NULL;
    }
    ASSERT(chunk->refs == 0);
    ASSERT(chunk->entry_count == 0);
    chunk->refs = 1;
    chunk->used = 0;
    list_push_back(&pool->used, &chunk->link);
    pool->in_use += units;
    ASSERT(pool->in_use <= pool->count);
    return chunk;
}

bool chunk_entry_add(struct chunk *chunk, struct partition *partition, int64_t end_offset)
{
    if (chunk->entry_count == chunk->entry_capacity) {
        uint32_t capacity = MAX(CHUNK_ENTRIES_FIRST, 2 * chunk->entry_capacity);
        struct chunk_entry *entries =
            realloc(chunk->entries, capacity * sizeof(struct chunk_entry));
        if (entries == NULL) {
            return false;
        }
        chunk->entries = entries;
        chunk->entry_capacity = capacity;
    }
    chunk->entries[chunk->entry_count++] =
        (struct chunk_entry){.partition = partition, .end_offset = end_offset};
    return true;
}

void chunk_give(struct chunk_pool *pool, struct chunk *chunk)
{
    ASSERT(chunk->refs == 0);
    ASSERT(chunk->entry_count == 0);
    ASSERT(chunk->unwritten_count == 0);
    uint32_t units = chunk_units(pool, chunk->capacity);
    ASSERT(pool->in_use >= units);
    pool->in_use -= units;
    list_remove(&chunk->link);
    if (chunk->oversized) {
        chunk_free(pool, chunk);
    } else {
        /* The most recently used one is taken first: its pages are warm. */
        list_push_front(&pool->free, &chunk->link);
    }
}

void chunk_pool_trim(struct chunk_pool *pool)
{
    while (!list_is_empty(&pool->free)) {
        chunk_free(pool, chunk_of(list_pop_front(&pool->free)));
    }
}
