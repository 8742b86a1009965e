#include "twinlog/core/arena.h"

#include <stdlib.h>
#include <string.h>

#include "poison.h"
#include "twinlog/core/assert.h"

#define ARENA_ALIGNMENT      16
#define ARENA_BLOCK_SIZE_MIN ((size_t)16 << 10)
#define ARENA_BLOCK_SIZE_MAX ((size_t)256 << 10) /* of a block that no single item asked for */
#define ARENA_KEPT_SIZE_MAX  ((size_t)16 << 10)

/* At the start of every block; the bytes to hand out follow it. */
struct arena_block {
    struct arena_block *older;
    size_t size; /* with this header */
};

_Static_assert(sizeof(struct arena_block) % ARENA_ALIGNMENT == 0, "allocations stay aligned");
_Static_assert(ARENA_KEPT_SIZE_MAX >= ARENA_BLOCK_SIZE_MIN, "a first block can be kept");

void arena_init(struct arena *arena, size_t size_max)
{
    *arena = (struct arena){.size_max = size_max};
}

static void arena_use_block(struct arena *arena, struct arena_block *block)
{
    arena->block = block;
    arena->at = (uint8_t *)(block + 1);
    arena->end = (uint8_t *)block + block->size;
    POISON(arena->at, (size_t)(arena->end - arena->at));
}

void arena_fini(struct arena *arena)
{
    struct arena_block *block = arena->block;
    while (block != NULL) {
        struct arena_block *older = block->older;
        free(block);
        block = older;
    }
    arena_init(arena, arena->size_max);
}

void arena_reset(struct arena *arena)
{
    struct arena_block *kept = NULL;
    struct arena_block *block = arena->block;
    while (block != NULL) {
        struct arena_block *older = block->older;
        if (kept == NULL && block->size <= ARENA_KEPT_SIZE_MAX) {
            kept = block;
        } else {
            free(block);
        }
        block = older;
    }
    arena_init(arena, arena->size_max);
    if (kept != NULL) {
        kept->older = NULL;
        arena->size = kept->size;
        arena_use_block(arena, kept);
    }
}

/* Blocks double with the arena, so that their number stays logarithmic; the limit comes first. */
static bool arena_grow(struct arena *arena, size_t size)
{
    size_t room = arena->size_max - arena->size;
    if (room < sizeof(struct arena_block) || size > room - sizeof(struct arena_block)) {
        return false;
    }
    size_t needed = sizeof(struct arena_block) + size;
    size_t wanted = MIN(MAX(arena->size, ARENA_BLOCK_SIZE_MIN), ARENA_BLOCK_SIZE_MAX);
    size_t block_size = MAX(needed, MIN(wanted, ALIGN_DOWN(room, (size_t)ARENA_ALIGNMENT)));
    struct arena_block *block = malloc(block_size);
    if (block == NULL) {
        return false;
    }
    block->older = arena->block;
    block->size = block_size;
    arena->size += block_size;
    arena_use_block(arena, block);
    return true;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    if (size > arena->size_max) {
        return NULL;
    }
    /* An empty allocation takes a place too: its address is no other allocation's. */
    size_t taken = ALIGN_UP(MAX(size, (size_t)1), (size_t)ARENA_ALIGNMENT);
    if (arena->block == NULL || taken > (size_t)(arena->end - arena->at)) {
        if (!arena_grow(arena, taken)) {
            return NULL;
        }
    }
    void *result = arena->at;
    arena->at += taken;
    ASSERT(arena->at <= arena->end);
    UNPOISON(result, size);
    return result;
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        return NULL;
    }
    void *result = arena_alloc(arena, total);
    if (result != NULL) {
        memset(result, 0, total);
    }
    return result;
}
