/*
 * Chunks: the aligned buffers that journal frames are built in and that everyone reads from.
 * Reference counted on the shard's loop (helper threads read pinned chunks, never count).
 */
#ifndef TWINLOG_LOG_CHUNK_H
#define TWINLOG_LOG_CHUNK_H

#include "twinlog/core/list.h"
#include "twinlog/core/status.h"

#define CHUNK_ALIGNMENT     4096u
#define CHUNK_PREFETCH_SIZE 384u
#define CHUNK_PREFETCH_STEP 64u

struct partition;

/* One batch or event in a chunk, in append order: enough to commit, evict and forget it. */
struct chunk_entry {
    struct partition *partition; /* counted in the partition's chunk_refs */
    int64_t end_offset;          /* last offset + 1 */
};

struct chunk {
    struct list_node link; /* pool's: free, or in use in allocation order */
    uint8_t *data;
    uint32_t capacity;
    uint32_t used;
    uint32_t refs;            /* open frame, writes in flight, write-back jobs */
    uint32_t unwritten_count; /* entries not yet in segment files */
    struct chunk_entry *entries;
    uint32_t entry_count;
    uint32_t entry_capacity;
    bool oversized; /* of its own size, freed rather than pooled */
};

struct chunk_pool {
    struct list free;
    struct list used; /* oldest first */
    uint32_t chunk_size;
    uint32_t count;     /* made */
    uint32_t count_max; /* oversized ones count by their size in chunks */
    uint32_t in_use;
};

/* Reserves address space for nothing yet; chunks are made on first use and kept until trimmed. */
void chunk_pool_init(struct chunk_pool *pool, uint32_t chunk_size, uint32_t count_max);

/* Frees everything, references or not. */
void chunk_pool_fini(struct chunk_pool *pool);

/*
 * A chunk with room for at least `size` bytes, refs = 1, entries empty; NULL when the bound is
 * reached (evict and retry). Larger than chunk_size: an oversized one; it is admitted even above
 * the bound when nothing else is in use.
 */
MUST_USE struct chunk *chunk_take(struct chunk_pool *pool, uint32_t size);

/* True when chunk_take(size) would succeed. */
bool chunk_pool_has_room(const struct chunk_pool *pool, uint32_t size);

/* Adds an entry; false when memory is out. */
MUST_USE bool chunk_entry_add(struct chunk *chunk, struct partition *partition, int64_t end_offset);

/* Back to the pool (entries must have been forgotten by the owner: entry_count == 0, refs == 0). */
void chunk_give(struct chunk_pool *pool, struct chunk *chunk);

/* Returns the memory of free chunks to the system (idle). */
void chunk_pool_trim(struct chunk_pool *pool);

/*
 * Asks for the cache lines that the next small entry goes to: nobody has touched them for long. It
 * may reach behind the chunk, as a prefetch may.
 */
static inline void chunk_prefetch(const struct chunk *chunk)
{
    for (uint32_t at = 0; at < CHUNK_PREFETCH_SIZE; at += CHUNK_PREFETCH_STEP) {
        __builtin_prefetch(chunk->data + (chunk->used + at), 1);
    }
}

#endif
