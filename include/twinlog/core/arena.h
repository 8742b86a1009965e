/*
 * Bump allocator: one per request. Everything is freed together; single owner, one thread.
 * Grows by blocks up to a limit; the first block is kept over resets.
 */
#ifndef TWINLOG_CORE_ARENA_H
#define TWINLOG_CORE_ARENA_H

#include "twinlog/core/base.h"

struct arena_block;

struct arena {
    uint8_t *at;
    uint8_t *end;
    struct arena_block *block;
    size_t size;     /* bytes held in blocks */
    size_t size_max; /* refuse to hold more */
};

/* No allocation happens before the first use. `size_max` bounds all blocks together, in bytes. */
void arena_init(struct arena *arena, size_t size_max);

/* Frees all blocks. */
void arena_fini(struct arena *arena);

/* Forgets all allocations and keeps one block of at most 16 KiB for the next use. */
void arena_reset(struct arena *arena);

/* `size` bytes aligned to 16, not zeroed; NULL when size_max would be passed. */
MUST_USE void *arena_alloc(struct arena *arena, size_t size);

/* `count` items of `size` bytes, zeroed; NULL on overflow or when size_max would be passed. */
MUST_USE void *arena_array(struct arena *arena, size_t count, size_t size);

#endif
