/*
 * What journal.c (building, writing) and journal_replay.c (reading back) share.
 *
 * Positions here are *virtual*: they count on over the laps of the ring, so that order and distance
 * are plain comparison and subtraction. Virtual modulo ring size is the ring position; a file holds
 * the virtual positions [k * file size, (k + 1) * file size), and the first block of each is its
 * header.
 *
 *            tail                                      head
 *   ---------[ live frames, all with a slot         ...]-----------> at most tail + ring size
 *        first_lsn ... synced_lsn ... issue_lsn ... next_lsn (open, not placed yet)
 */
#ifndef TWINLOG_LOG_JOURNAL_INTERNAL_H
#define TWINLOG_LOG_JOURNAL_INTERNAL_H

#include "journal.h"
#include "journal_format.h"

/* A live frame: where it is, and what the next one chains to. */
struct journal_slot {
    uint64_t position; /* virtual */
    uint32_t size;     /* with padding */
    uint32_t checksum;
    struct chunk *chunk; /* from seal until issue: where its bytes are, counted in refs */
    uint32_t chunk_offset;
    bool synced;
};

/* A write slot. From issue to completion it counts in the refs of the frame's chunk. */
struct journal_write {
    struct io_op op;
    struct journal *journal;
    struct chunk *chunk;
    uint64_t lsn;
    uint32_t size;
    bool is_busy;
};

struct journal {
    struct journal_options options; /* dir is our copy; zeros are replaced by the defaults */
    struct io_file **files;
    char *dir;
    uint64_t ring_size;
    uint64_t reserve_size;     /* bytes of the ring that only control entries may take */
    uint32_t frame_size_limit; /* a single entry's frame with padding may be as large as this */
    bool is_replayed;          /* journal_replay() has set the positions */
    bool is_begun;             /* journal_begin(): appends are welcome */
    bool is_failed;            /* a write failed: nothing is issued or reported any more */

    uint32_t epoch;
    uint64_t generation;

    uint64_t tail;
    uint64_t head;
    uint64_t first_lsn;
    uint64_t synced_lsn;
    uint64_t issue_lsn; /* the next to be issued; sealed frames wait in [issue_lsn, next_lsn) */
    uint64_t next_lsn;
    uint32_t first_previous_checksum; /* of the frame before first_lsn */
    uint32_t last_checksum;           /* of the frame before next_lsn */
    struct journal_slot *slots;       /* of [first_lsn, next_lsn), at lsn modulo capacity */
    uint32_t slot_capacity;           /* a power of two */

    struct chunk *chunk; /* frames are built here; NULL between chunks */
    uint32_t open_offset;
    uint32_t open_size; /* without padding; 0: no frame is open */
    uint32_t open_entry_count;

    struct journal_write *writes; /* options.writes_in_flight of them */
    uint32_t in_flight;
    uint64_t in_flight_size;
    bool is_wanted;       /* somebody waits for on_room */
    uint32_t wanted_size; /* the smallest body that found no room */
    bool wanted_control;

    uint64_t frame_count; /* issued */
    uint64_t byte_count;
    uint64_t sync_count;
};

static inline struct journal_slot *journal_slot_at(const struct journal *journal, uint64_t lsn)
{
    return &journal->slots[lsn & (journal->slot_capacity - 1)];
}

/* Where a frame of `size` padded bytes would stand, were the ring's head at `head`. */
uint64_t journal_place(const struct journal *journal, uint64_t head, uint64_t size);

/* Makes sure that `count` more slots can be added. False when memory is out. */
MUST_USE bool journal_slots_reserve(struct journal *journal, uint32_t count);

/* Adds the slot of next_lsn, which must have been reserved, and moves head, chain and next_lsn. */
void journal_slot_push(struct journal *journal, const struct journal_slot *slot);

/* Where in which file a virtual position is. */
static inline uint32_t journal_file_index(const struct journal *journal, uint64_t position)
{
    return (uint32_t)(position % journal->ring_size / journal->options.file_size);
}

static inline uint64_t journal_file_offset(const struct journal *journal, uint64_t position)
{
    return position % journal->options.file_size;
}

/* The generation that covers an LSN, NULL when none does. */
const struct journal_generation *journal_generation_find(const struct journal_start *start,
                                                         uint64_t lsn);

#endif
