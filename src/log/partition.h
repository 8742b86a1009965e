/*
 * A partition in memory: where its log stands, the batches that are still in chunks (the tail), and
 * what is known of its segment files. Owned by the log, allocated alone, never moved. Shard's loop
 * only; a job reads nothing of it but `dir` and the key, which do not change while it is pinned.
 *
 *      log_start ... written_end ...... high_watermark ........ log_end
 *      [ segment files ] [ tail: committed ] [ tail: not committed ]
 *
 * The tail may reach back below written_end: batches stay in memory until their chunk is evicted.
 * log_start may be anywhere up to the high watermark; files below it go later (log_start.c).
 */
#ifndef TWINLOG_LOG_PARTITION_H
#define TWINLOG_LOG_PARTITION_H

/* A failed allocation of a hash table is reported by the element, not by leaving the process. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "twinlog/log/log.h"

#include "chunk.h"
#include "epochs.h"
#include "producer.h"
#include "segment.h"

/* One batch in a chunk. */
struct tail_entry {
    int64_t base_offset;
    const uint8_t *data;
    struct chunk *chunk;
    uint64_t position; /* bytes appended to the partition in this life before this batch */
    uint32_t size;
    bool roll; /* a new segment starts with it */
};

/* A ring in offset order; the counts only grow and are taken modulo the capacity. */
struct partition_tail {
    struct tail_entry *entries;
    uint32_t capacity;  /* a power of two, or 0 */
    uint64_t first;     /* oldest one in memory */
    uint64_t written;   /* behind the last one in segment files */
    uint64_t committed; /* behind the last committed one */
    uint64_t end;
};

struct partition_key {
    struct uuid topic_id;
    int32_t index;
};

_Static_assert(sizeof(struct partition_key) == 20, "hashed as bytes, so without padding");

/* The segment that the next batch goes to, as appends see it: ahead of what is written. */
struct partition_active {
    int64_t base_offset; /* -1: the next batch starts the first segment */
    uint64_t size;
    int64_t first_timestamp; /* largest of its first batch, as Kafka's segment.ms takes it */
    int64_t created_ms;      /* wall clock, in this life: counts when there is no timestamp */
    int64_t jitter_ms;       /* taken off segment.ms */
};

/* What a checkpoint keeps of a partition, and recovery gives back; see log_body.c. */
struct partition_state {
    int64_t log_start;
    int64_t written_end; /* the recovery offset */
    uint64_t written_size;
    int64_t first_timestamp; /* of the active segment */
    struct segment_tail segment_tail;
    bool roll;
    bool trim; /* files below the log start may be there */
    struct producer_table *producers;
    struct epochs epochs;
};

struct writeback_item;

struct partition {
    UT_hash_handle hh;
    struct partition_key key;
    struct log *log;
    char *topic;
    char *dir; /* "<log dir>/<topic>-<index>" */
    struct partition_config config;
    void *context;
    struct list watches;

    int64_t log_start;
    int64_t start_asked; /* the furthest log start in the journal, committed or not */
    int64_t written_end;
    int64_t high_watermark;
    int64_t log_end;
    struct partition_tail tail;
    uint64_t appended_size;  /* position of the next tail entry */
    uint64_t committed_size; /* position behind the last committed one */
    struct partition_active active;
    bool roll_pending; /* a ROLL is in the journal for the next batch */
    uint64_t roll_lsn; /* of the last ROLL of this life; 0: none */
    struct producer_table *producers;
    struct epochs epochs; /* of all batches, committed or not */

    struct segment *segments; /* ascending, the active one last; valid when segments_loaded */
    uint32_t segment_count;
    uint32_t segment_capacity;
    bool segments_loaded;
    uint32_t segments_version; /* moves when files appear: a listing of before does not count */
    struct segment_tail segment_tail;
    int64_t written_first_timestamp;
    uint64_t written_size;   /* bytes in all segment files */
    int64_t checkpoint_base; /* base offset of the segment that is active in the last checkpoint */
    bool trim_wanted;        /* segments may lie below the log start */
    bool trimming;           /* a job deletes some */
    bool needs_cut;          /* files may hold bytes beyond segment_tail: cut before writing */
    bool is_lost; /* replay found its files gone: it must be deleted before replay ends */

    uint64_t scrub_pass; /* the last pass of the scrub that is through with it */

    struct list_node dirty_link;    /* in log->dirty: has committed batches to write */
    struct list_node removed_link;  /* in log->removed */
    struct writeback_item *writing; /* its part of the job in flight */
    struct partition *touched_next; /* in the commit that is going on */
    bool touched;
    bool removed;        /* out of the table; freed when nothing refers to it */
    uint32_t chunk_refs; /* chunk entries that name it */
    uint32_t pins;       /* jobs, callbacks that are running, an append that goes on */
};

/* Entry number `at`, which is in memory. */
static inline struct tail_entry *tail_at(const struct partition_tail *tail, uint64_t at)
{
    ASSERT(at - tail->first < tail->end - tail->first);
    return &tail->entries[at & (tail->capacity - 1)];
}

/* Makes a partition in no table; `state` (may be NULL) is taken over. NULL: out of memory. */
struct partition *partition_create(struct log *log, const char *topic,
                                   const struct partition_key *key,
                                   const struct partition_config *config,
                                   struct partition_state *state);

/* Frees it, whatever refers to it. */
void partition_free(struct partition *partition);

/* Frees it when it is removed and nothing refers to it any more. */
void partition_free_if_unused(struct partition *partition);

/* Makes room for one more tail entry. False: out of memory. */
MUST_USE bool partition_tail_reserve(struct partition *partition);

/* Adds a batch to the tail (room is reserved): moves log_end and the active segment's size. */
void partition_tail_add(struct partition *partition, struct chunk *chunk, const uint8_t *data,
                        const struct batch_header *header, bool roll);

/* The entry that contains `offset`, or `end` of the committed ones. */
uint64_t partition_tail_find(const struct partition *partition, int64_t offset);

/* The first offset that is in memory; log_end when nothing is. */
int64_t partition_tail_start(const struct partition *partition);

/* The offset behind entry number `at`. */
int64_t partition_tail_end_offset(const struct partition *partition, uint64_t at);

/*
 * Whether the first batch behind the high watermark starts a segment. Its ROLL entry may be in a
 * part of the journal that is recycled, and is harmless when it is not.
 */
bool partition_rolls_next(const struct partition *partition);

/*
 * Whether everything in its files is below the log start, its last segment as well: then an empty
 * one takes the place of that, so that it can be deleted before the next batch comes.
 */
bool partition_is_emptied(const struct partition *partition);

/* Of a removed partition: nothing of the tail will ever be written. */
void partition_tail_forget(struct partition *partition);

/* Gives up the ring's memory when the tail is empty and nobody counts on it: while pinned. */
void partition_tail_trim(struct partition *partition);

/* Tells every watch, each at most once; a watch may be taken out or added meanwhile. */
void partition_watches_tell(struct partition *partition);

/* Takes a listing of its files as they were at `version`; `segments` is taken over or freed. */
void partition_segments_load(struct partition *partition, uint32_t version,
                             struct segment *segments, uint32_t count);

/*
 * Takes a new list of all its files, which is taken over, and what is known of their timestamps;
 * listings of before do not count.
 */
void partition_segments_replace(struct partition *partition, struct segment *segments,
                                uint32_t count);

/* Adds or updates the active segment after a write. */
void partition_segments_written(struct partition *partition, const struct segment_write *write);

/* Asserts the order of its offsets and of its tail. */
void partition_check(const struct partition *partition);

#endif
