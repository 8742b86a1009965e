/*
 * What the files of the log share and nobody else sees: the log itself, and the steps that one
 * file of this folder takes in another. Shard's loop only.
 */
#ifndef TWINLOG_LOG_LOG_STATE_H
#define TWINLOG_LOG_LOG_STATE_H

#include "twinlog/log/log.h"

#include "checkpoint.h"
#include "chunk.h"
#include "journal.h"
#include "partition.h"
#include "scrub.h"
#include "writeback.h"

#define LOG_FRAME_SIZE_DEFAULT          (256u << 10)
#define LOG_WRITES_DEFAULT              4u
#define LOG_CHUNK_SIZE_DEFAULT          (1u << 20)
#define LOG_CHUNK_COUNT_DEFAULT         64u
#define LOG_CHECKPOINT_SHARE            8u /* of the journal */
#define LOG_CHECKPOINT_IDLE_DEFAULT     2000
#define LOG_DISK_RESERVE_MARGIN         (64ull << 20) /* above the size of the journals */
#define LOG_SHARD_MAX                   64u           /* of a directory */
#define LOG_PRODUCER_EXPIRATION_DEFAULT 86400000
#define LOG_PRODUCER_CHECK_DEFAULT      600000
#define LOG_RETENTION_CHECK_DEFAULT     300000
#define LOG_EVICT_SHARE                 8u /* of the chunk pool, freed at a time */
#define LOG_NS_PER_MS                   1000000ll

/* Which entries of a chunk a frame has: what to commit when its LSN commits. */
struct commit_mark {
    uint64_t lsn;
    struct chunk *chunk;
    uint32_t first;
    uint32_t count;
};

/* A ring in LSN order, as partition_tail. */
struct commit_marks {
    struct commit_mark *marks;
    uint32_t capacity;
    uint64_t first;
    uint64_t end;
};

/* A partition as the checkpoint knew it, until it is added or the recovery ends. */
struct recovered {
    UT_hash_handle hh;
    struct partition_key key;
    struct partition_state state;
};

/* The walk over all partitions that forgets producers; see producer_expiry.c. */
struct producer_expiry {
    struct io_timer timer;
    struct partition *next; /* the walk goes on here; NULL: none goes on */
    int64_t until_ms;
    bool running; /* the timer is armed */
    bool found;   /* somebody knows a producer */
};

/* The walk over all partitions that looks for segments past retention; see retention.c. */
struct retention {
    struct io_timer timer;
    struct partition *next; /* to be looked at; NULL: the walk is over */
    bool wanted;            /* a partition has a limit */
    bool running;           /* the timer is armed or a walk goes on */
};

struct log {
    struct io *io;
    struct log_options options; /* defaults filled in; `dir` is our copy */
    struct log_directory directory;
    struct journal *journal;
    struct chunk_pool pool;
    struct partition *partitions; /* hash by key */
    struct partition *metadata;
    struct list removed; /* partitions out of the table that something refers to */
    struct recovered *recovered;

    uint64_t synced_lsn;
    uint64_t committed_lsn;
    uint32_t epoch;
    struct commit_marks marks;
    struct list synced_waits;    /* by LSN */
    struct list committed_waits; /* by LSN */

    struct list dirty;    /* partitions with committed batches to write */
    uint32_t dirty_count; /* of them */
    uint64_t dirty_bytes; /* of their batches */
    struct writeback writeback;
    struct scrub scrub;
    struct checkpoint_header checkpoint; /* the last one synced */

    struct io_hook hook;
    struct io_timer kick; /* makes a turn happen when a result is due outside of one */
    struct io_timer idle;
    struct retention retention;
    struct producer_expiry expiry;
    int64_t appended_ns;       /* when the last append was */
    uint32_t room_wanted;      /* largest batch refused for want of room; 0: none */
    uint32_t job_count;        /* in flight in both lanes */
    struct list reads;         /* reads and lookups in flight, for a crash */
    struct list start_changes; /* log starts that move when they are committed */
    struct list trims;         /* jobs that delete segments, for a crash */
    struct list removals;      /* directories being deleted, for a crash */

    bool opening;
    bool idle_armed;
    bool hooked;
    bool orphans_due; /* directories that belong to none are looked for in the first turn */
    bool offline;
    bool offline_told;
    bool disk_full;
    bool disk_full_told;
    bool closing;
    bool closed;
    status offline_why;
    status close_result;
    void (*close_done)(void *context, status result);
    void *close_context;

    uint64_t appends;
    uint64_t append_bytes;
    uint64_t checkpoints;
    uint64_t checkpoint_ns;
    uint64_t written_back_bytes;
    uint64_t segments_deleted;
    uint64_t segment_bytes_deleted;
};

/* ---------------------------------------------------------------- log.c */

/* Makes sure that a turn ends soon. */
void log_kick(struct log *log);

/*
 * Appends the event that the next batch starts a segment; none may be pending.
 * FULL, ...: as journal_append().
 */
MUST_USE status log_roll(struct log *log, struct partition *partition);

/* Enters a batch that stands in a frame into the books; its tail has room. False: out of memory. */
MUST_USE bool log_enter(struct log *log, struct partition *partition,
                        const struct journal_place *place, const struct batch_header *header);

/* Nothing can be appended any more; told at the end of the turn. Later calls change nothing. */
void log_fail(struct log *log, status why);

/* Something is not in a checkpoint, be it in a frame that is still open. */
bool log_is_dirty(const struct log *log);

/* Arms the idle timer when something is not in a checkpoint. */
void log_idle_arm(struct log *log);

/* Journal callbacks. */
void log_on_evict(void *context);
void log_on_synced(void *context, uint64_t lsn);
void log_on_seal(void *context, uint64_t *committed_lsn, int64_t *metadata_offset);
void log_on_room(void *context);
void log_on_failed(void *context, status why);

/* The end of every turn. */
void log_on_turn(struct io_hook *hook);
void log_on_kick(struct io_timer *timer);
void log_on_idle(struct io_timer *timer);

/* ---------------------------------------------------------------- log_commit.c */

/* Notes that a frame got one more chunk entry, the newest of `chunk`. False: out of memory. */
MUST_USE bool log_mark_add(struct log *log, uint64_t lsn, struct chunk *chunk);

/* Everything up to `lsn` is committed: moves high watermarks, publishes, completes waits. */
void log_commit_to(struct log *log, uint64_t lsn);

/* Completes waits up to what is reached, and all of them when the log is offline. */
void log_waits_run(struct log *log);

/* True when a wait is due now. */
bool log_waits_are_due(const struct log *log);

/* Frees chunks, oldest first, until one of `size` bytes could be taken; 0: all that can be. */
void log_evict(struct log *log, uint32_t size);

/* ---------------------------------------------------------------- log_body.c */

/* The size of a checkpoint's body now, at most. */
size_t log_body_size_max(const struct log *log);

/*
 * Encodes all partitions as they will be once the batches in writeback items are written; notes
 * there where the part is that is known only then. Returns the size.
 */
size_t log_body_encode(const struct log *log, uint8_t *body);

/* Puts in what became known: the active segment after the write. */
void log_body_patch(uint8_t *body, const struct writeback_item *item);

/* Fills log->recovered. CORRUPT, UNSUPPORTED, NO_MEMORY. */
MUST_USE status log_body_decode(struct log *log, struct bytes body);

/* Frees what of log->recovered was not claimed. */
void log_recovered_free(struct log *log);

/* ---------------------------------------------------------------- log_start.c */

/* Moves a partition's log start; the files below are left to log_trim(). */
void log_start_set(struct partition *partition, int64_t offset);

/* Events up to `lsn` take effect. */
void log_starts_commit(struct log *log, uint64_t lsn);

/* Starts the deletion of segments below the log start that no recovery needs, if there are any. */
void log_trim(struct log *log, struct partition *partition);

/* The same for all partitions: after a checkpoint, and once after the open. */
void log_trim_all(struct log *log);

/* Frees what is pending, of a loop that is gone or at the end. */
void log_starts_free(struct log *log);

/* ---------------------------------------------------------------- producer_expiry.c */

/* A partition has got a batch of a producer: there will be a look. */
void producer_expiry_want(struct log *log);

/* The same for what was recovered; at the end of the open. */
void producer_expiry_start(struct log *log);

/* A partition is about to leave log->partitions. */
void producer_expiry_forget(struct log *log, const struct partition *partition);

/* ---------------------------------------------------------------- retention.c */

/* A partition's configuration is new: from now on there are walks, if it has a limit. */
void retention_want(struct log *log, const struct partition *partition);

/* Starts the walks that were wanted during the open. */
void retention_start(struct log *log);

/* A partition leaves the table: the walk goes on behind it. */
void retention_forget(struct log *log, const struct partition *partition);

/* ---------------------------------------------------------------- log_remove.c */

/* Whether a name in the log directory is "<something>-<digits>". */
bool log_name_is_of_partition(const char *name);

/* Starts the background deletion of directories that belong to no partition. */
void log_orphans_remove(struct log *log);

/* Frees the jobs of a loop that is gone. */
void log_removals_free(struct log *log);

/* ---------------------------------------------------------------- read.c */

/* Frees what reads hold that will never be called back. */
void log_reads_free(struct log *log);

#endif
