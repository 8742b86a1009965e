/*
 * Write-back: committed batches go from chunks to segment files, and checkpoints free the journal.
 *
 *                 writeback_step (enough is dirty, space to be looked at)
 *        IDLE ------------------------------------------------------------> WRITING
 *         ^  \                                                                 |
 *         |   \  writeback_step (checkpoint wanted)                            |
 *         |    `-----------------------> CHECKPOINTING                         |
 *         |   on_job_done                     |               on_job_done      |
 *         `-----------------------------------+--------------------------------'
 *
 * IDLE: no job. WRITING, CHECKPOINTING: one job is in the WRITE lane; the chunks it reads are
 * pinned, and so are its partitions. A checkpoint's job writes everything committed when it was
 * built, so that recovery offsets and producer state in it are those of one LSN (I5); then it syncs
 * the segments and directories, then the checkpoint file, and only then is the journal recycled
 * (I3). writeback_step() is the only function that starts a job; everything else records a wish.
 */
#ifndef TWINLOG_LOG_WRITEBACK_H
#define TWINLOG_LOG_WRITEBACK_H

#include "twinlog/io/io.h"

#include "checkpoint.h"
#include "segment.h"

#define WRITEBACK_START_SIZE     (4u << 20)  /* dirty bytes that start a job, */
#define WRITEBACK_PARTITION_SIZE (16u << 10) /* or so many for each dirty partition, if more */
#define WRITEBACK_JOB_SIZE       (16u << 20) /* bytes of one job; a single batch may be larger */
#define WRITEBACK_SYNC_FILES     16u         /* segments; beyond them one syncfs is cheaper */
#define WRITEBACK_RETRY_MS       1000
#define WRITEBACK_POOL_SHARE     4u /* of the chunk pool: journal bytes that start a job */

struct log;
struct partition;

enum writeback_state { WRITEBACK_IDLE, WRITEBACK_WRITING, WRITEBACK_CHECKPOINTING };

/* A segment written to since the last checkpoint, its files open since before that. */
struct sync_entry {
    struct partition *partition;
    int64_t base_offset;
    struct segment_hold hold;
};

/*
 * What the next checkpoint has to sync. New files and directories, and more segments than fit, are
 * synced with the whole file system, through a file that is open since the start: either way the
 * kernel tells of every write-out that failed, whenever that was.
 */
struct sync_set {
    struct sync_entry entries[WRITEBACK_SYNC_FILES];
    uint32_t count;
    bool all;
};

/* One partition's part of a job. */
struct writeback_item {
    struct partition *partition;
    struct segment_write write;
    int64_t end_offset;      /* behind the last batch */
    uint64_t size;           /* bytes */
    int64_t first_timestamp; /* of the segment that will be active */
    bool cut;                /* what lies beyond the tail has to go first */
    bool is_lost;            /* its files are gone: nothing is written, see item_write() */
    bool is_written;
    size_t body_at; /* of its record in the checkpoint's body */
    bool in_body;
};

struct writeback_job {
    struct io_job job;
    struct log *log;
    struct io_disk *disk;
    const char *dir;
    struct io_file *anchor; /* open since the start: its syncfs hears of every failed write */
    struct writeback_item *items;
    uint32_t item_count;
    struct segment_batch *batches;
    uint64_t size;
    bool is_checkpoint;
    bool clean;
    struct sync_set sync;
    uint32_t sync_pinned_count; /* of its first entries the partitions are pinned by this job */
    struct checkpoint_header header;
    uint8_t *body;
    size_t body_size;
    uint64_t free_size;
    status space_result; /* of asking for the free space */
    status write_result;
    status sync_result;
    status checkpoint_result;
    int64_t started_ns;
};

struct writeback {
    enum writeback_state state;
    struct writeback_job job;
    struct sync_set sync;
    struct io_timer retry;
    bool retry_armed;
    bool blocked;         /* the last job failed for want of space or memory: wait for `retry` */
    bool space_wanted;    /* look at the free space though nothing is dirty */
    uint64_t frame_bytes; /* written to the journal when the last job was built */
    bool checkpoint_wanted;
    bool trim_wanted;  /* give memory back after it: the log is idle */
    bool clean_wanted; /* the last one of a clean shutdown */
    bool clean_done;
};

void writeback_init(struct log *log);

/* Frees what a job holds whose loop is gone. */
void writeback_free(struct log *log);

/* The only place a job is started. */
void writeback_step(struct log *log);

/* Records the wish. */
void writeback_want_checkpoint(struct log *log);

/* A partition is removed: nothing of it is to be synced or written any more. */
void writeback_forget(struct log *log, struct partition *partition);

/* After an open: the timer that recovery could not start. */
void writeback_retry_arm(struct log *log);

/* At the open, on this thread: looks whether the disk is nearly full, before anything is appended.
 */
void writeback_look_at_space(struct log *log);

/* Recovery, on this thread: writes everything committed, or checkpoints. */
MUST_USE status writeback_now(struct log *log, bool checkpoint);

/* Asserts what its state says. */
void writeback_check(const struct log *log);

/* ---------------------------------------------------------------- writeback_job.c */

/* Fills a job with committed batches, up to WRITEBACK_JOB_SIZE or all. False: out of memory. */
MUST_USE bool writeback_job_build(struct log *log, struct writeback_job *job, bool all);

/* Makes it a checkpoint of what will be written then. False: out of memory. */
MUST_USE bool writeback_job_add_checkpoint(struct log *log, struct writeback_job *job);

/* On a helper thread. */
void writeback_job_work(struct io_job *job);

/* Back on the loop: takes over what was written, lets go of everything pinned, frees its memory. */
void writeback_job_apply(struct log *log, struct writeback_job *job);

/* Frees the memory of a job that is not applied. */
void writeback_job_free(struct writeback_job *job);

#endif
