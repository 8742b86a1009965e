/*
 * The journal of a shard: a ring over a fixed number of equal, zero-written files. Frames are built
 * in chunks, sealed with their chain, written O_DIRECT + DSYNC with several writes in flight, and
 * reported synced in LSN order. Layout and rule of validity: head of journal_format.h.
 * Owned by the log; shard's loop only, except journal_format().
 */
#ifndef TWINLOG_LOG_JOURNAL_H
#define TWINLOG_LOG_JOURNAL_H

#include <stdio.h>

#include "twinlog/core/bytes.h"
#include "twinlog/core/uuid.h"
#include "twinlog/io/io.h"

#include "chunk.h"

#define JOURNAL_GENERATION_MAX 64u

/* A generation covers the LSNs from `first_lsn` up to the next generation's first. */
struct journal_generation {
    uint64_t generation;
    uint64_t first_lsn;
    uint32_t previous_checksum; /* of the frame before first_lsn; 0 for LSN 1 */
};

/* Where replay begins and what is valid there: kept in the checkpoint file. */
struct journal_start {
    uint64_t lsn;      /* of the first frame to replay; its predecessor is fully in segments */
    uint64_t position; /* ring position: file index * file size + offset in file */
    uint32_t previous_checksum;
    bool is_clean; /* written by a clean shutdown: its life wrote no frame at lsn or behind */
    uint32_t generation_count;
    struct journal_generation
        generations[JOURNAL_GENERATION_MAX]; /* ascending; the first covers lsn */
};

enum journal_entry_type {
    JOURNAL_BATCH = 1,
    JOURNAL_EPOCH = 2,
    JOURNAL_ROLL = 3,
    JOURNAL_LOG_START = 4,
    JOURNAL_DELETE = 5,
};

struct journal_entry {
    enum journal_entry_type type;
    struct uuid topic_id;
    int32_t partition;
    int64_t offset;    /* base offset of a batch; the offset the event is about */
    struct bytes body; /* the batch; empty for events but EPOCH (4-byte epoch) */
};

struct journal_frame {
    uint64_t lsn;
    uint32_t epoch;
    uint64_t committed_lsn;
    int64_t metadata_offset;
    uint32_t entry_count;
    struct bytes entries; /* encoded; walk with journal_entry_next */
    uint64_t position;
};

struct journal_options {
    struct io *io;
    const char *dir; /* the log directory; files are <dir>/journal.<shard>.<index> */
    struct uuid directory_id;
    uint32_t shard;
    uint64_t file_size;
    uint32_t file_count;
    uint32_t frame_size_max;
    uint32_t writes_in_flight;
    /* Bytes an open frame must have before it is written beside writes in flight; 0: 16 KiB. */
    uint32_t gather_size;
    struct chunk_pool *chunks;
    /* A chunk is wanted and the pool is at its bound: free some if possible. */
    void (*evict)(void *context);
    /* Frames up to `lsn` are synced here; in order. */
    void (*on_synced)(void *context, uint64_t lsn);
    /* A frame is being sealed: its committed LSN and metadata offset are asked for. */
    void (*on_seal)(void *context, uint64_t *committed_lsn, int64_t *metadata_offset);
    /* From journal_step(): what was FULL, or had no room, would fit now. */
    void (*on_room)(void *context);
    /* A write failed; called once; the journal takes nothing more. */
    void (*on_failed)(void *context, status why);
    void *context;
};

struct journal;

/*
 * Zero-writes and syncs the files of one shard and their directory. Blocking. Files of an earlier
 * attempt are written anew. BUSY: another process has one; INVALID: sizes make no ring.
 */
MUST_USE status journal_format(struct io_disk *disk, const char *dir,
                               const struct uuid *directory_id, uint32_t shard, uint64_t file_size,
                               uint32_t file_count);

/*
 * Opens the files (O_DIRECT; where that is refused buffered with fdatasync, said on the trace),
 * takes the lock and, behind it, checks the files' header blocks.
 * BUSY: another process has the lock; NOT_FOUND: a file is missing; MISMATCH: of another directory,
 * shard or ring; UNSUPPORTED: a newer version; CORRUPT; INVALID: options make no ring.
 */
MUST_USE status journal_open(const struct journal_options *options, struct journal **journal);

/* Frees everything and closes the files. `crashed`: the loop is gone, call nothing of it. */
void journal_destroy(struct journal *journal, bool crashed);

typedef status (*journal_replay_fn)(void *context, const struct journal_frame *frame);

/*
 * Replays from `start`: every frame that is valid under I1, in order, to `fn` (its bytes are valid
 * during the call). Ends at the first bad frame: a torn tail when nothing later proves that it was
 * synced (I2), else CORRUPT with the range on the trace. Afterwards journal_next_lsn() and the
 * ring position are set behind the last good frame, and all that was accepted is durable: frames
 * that nothing proves synced (they may be in caches only) are written again. Blocking.
 *
 * A status of `fn` other than OK ends the replay before that frame and is returned; the journal
 * stands as if its tail began there, and journal_begin() may follow (a cut).
 * UNSUPPORTED: a frame of a newer format stands next; IO.
 */
MUST_USE status journal_replay(struct journal *journal, const struct journal_start *start,
                               journal_replay_fn fn, void *context);

/*
 * Begins a generation at the next LSN. `start` (as it stands in the checkpoint that was just
 * synced) names it as the last of its list.
 */
void journal_begin(struct journal *journal, uint32_t epoch, const struct journal_start *start);

/* Walks encoded entries: false at the end or when malformed (*malformed tells). */
bool journal_entry_next(struct bytes *entries, struct journal_entry *entry, bool *malformed);

/* The bytes an entry with a body of `body_size` takes in a frame. */
uint32_t journal_entry_size(uint32_t body_size);

struct journal_place {
    uint64_t lsn;
    struct chunk *chunk;
    uint8_t *body; /* the copy, which the caller may stamp until it returns to the loop */
};

/*
 * True when journal_append of a client's body of this size would succeed now. It may evict to find
 * out; false counts as a wish for on_room. False for ever when the append would be TOO_LARGE.
 */
bool journal_has_room(struct journal *journal, uint32_t body_size);

/*
 * Appends an entry to the open frame; seals and opens frames and chunks as needed.
 * FULL: ring, chunks or queue have no room; wait for on_room. OFFLINE. TOO_LARGE: never fits.
 * Control entries (everything but batches of clients) may use the ring's reserve.
 */
MUST_USE status journal_append(struct journal *journal, const struct journal_entry *entry,
                               bool control, struct journal_place *place);

/*
 * The only place a write is started: offers room to those who wait, seals the open frame when a
 * slot is free and issues sealed frames. The log calls it at the end of every turn; a completion
 * itself only records, so that the next write takes along what else its turn appends.
 */
void journal_step(struct journal *journal);

/* The LSN that the open frame has, or the next frame to be opened will have. */
uint64_t journal_next_lsn(const struct journal *journal);

/* Everything up to this LSN is synced here. */
uint64_t journal_synced_lsn(const struct journal *journal);

/*
 * Fills lsn, position and previous_checksum for a frame that is in the ring or is the next one. The
 * generations in `start` stay; journal_start_prune() drops those that the new lsn left behind.
 */
void journal_start_at(const struct journal *journal, uint64_t lsn, struct journal_start *start);

/* Drops generations that cover no LSN from start->lsn on. */
void journal_start_prune(struct journal_start *start);

/*
 * Adds the generation that journal_begin() will begin, at the next LSN, with a number above all in
 * the list (one that covers nothing is replaced). False: the list is full, so take a checkpoint
 * further on first.
 */
MUST_USE bool journal_start_extend(const struct journal *journal, struct journal_start *start);

/* Frames below `lsn` may be overwritten; called only behind a synced checkpoint (I3). */
void journal_recycle(struct journal *journal, uint64_t lsn);

/* Bytes of the ring that are live, padding included; and the ring's size. */
uint64_t journal_live_size(const struct journal *journal);
uint64_t journal_size(const struct journal *journal);

/* Writes issued and bytes written so far. */
void journal_counts(const struct journal *journal, uint64_t *frames, uint64_t *bytes,
                    uint64_t *syncs);

/* A file on the log's file system that is open as long as the journal. */
struct io_file *journal_file(const struct journal *journal);

/* True when nothing is open, sealed or in flight. */
bool journal_is_idle(const struct journal *journal);

/* True while writes are in flight: their chunks and the journal itself must stay. */
bool journal_is_writing(const struct journal *journal);

/* Asserts the invariants that hold between callbacks. */
void journal_check(const struct journal *journal);

/* Prints the frames found in one journal file, valid or not, for dump-log. */
MUST_USE status journal_dump(struct io_disk *disk, const char *path, bool deep, FILE *out);

#endif
