/*
 * The scrub: segment files are read from the device, batch by batch, to find out what has rotted
 * before somebody needs it. scrub_segment.c checks one window of one segment, on a helper thread;
 * scrub.c goes through all partitions in the background; scrub_offline.c checks a directory at
 * once.
 *
 *                    timer: a pass is due                      job done, not the last
 *       SLEEPING ---------------------------> STEPPING <--------------------------- PACING
 *           ^                                  |    |     scrub_step                   ^
 *           |  scrub_on_job_done, the last one |    |  scrub_on_job_done               |
 *           `----------------------------------'    `----------------------------------'
 *
 * SLEEPING: one timer runs, nothing else. STEPPING: one job is in the BACKGROUND lane, its
 * partition pinned. PACING: a timer runs that keeps to the bytes per second; nothing is pinned, so
 * the partition is found again by its key. scrub_step() is the only function that starts a job.
 *
 * Where a pass is, and what was found, is known in this life only: a start begins anew, and tells
 * again what it finds.
 */
#ifndef TWINLOG_LOG_SCRUB_H
#define TWINLOG_LOG_SCRUB_H

#include "twinlog/io/io.h"

#include "partition.h"

#define SCRUB_WINDOW_SIZE  (1u << 20) /* bytes read at once, and checked in one job */
#define SCRUB_FINDINGS_MAX 16u        /* damaged ranges that one window tells */
#define SCRUB_KNOWN_MAX    256u       /* damaged ranges that are told once; more are only counted */
#define SCRUB_FIRST_MS     600000     /* from the start to the first pass, at most */
#define SCRUB_PACE_MS_MIN  10
#define SCRUB_TRIES        3u /* of a segment whose files changed while it was found damaged */
#define SCRUB_PATH_SIZE    4096u

/* ---------------------------------------------------------------- one segment */

struct scrub_segment {
    struct io_disk *disk;
    const char *dir;
    int64_t base_offset;
    int64_t end_offset; /* behind its last record */
    uint64_t size;      /* bytes of .log that count */
    bool is_closed;     /* nothing is added to its indexes */
};

/* A damaged range of one of its files. */
struct scrub_damage {
    const char *suffix; /* ".log", ".index", ".timeindex" */
    const char *what;
    uint64_t position;
    uint64_t size;
    int64_t first_offset; /* records from here... */
    int64_t end_offset;   /* ...to below here cannot be read, or equal: none is lost */
};

struct scrub_findings {
    struct scrub_damage damage[SCRUB_FINDINGS_MAX];
    uint32_t count;
    uint32_t more; /* that did not fit */
};

/* How far the check of one segment is; zeroed to begin. */
struct scrub_cursor {
    uint64_t position; /* of the next window: a multiple of its size */
    uint64_t skip;     /* bytes to be passed over, behind damage */
    uint64_t batch_position;
    uint32_t batch_left; /* bytes of the batch that are not summed yet */
    uint32_t crc;        /* of those that are */
    uint32_t head_size;  /* bytes of the header gathered */
    uint8_t head[BATCH_HEADER_SIZE];
    struct batch_header header;
    int64_t next_offset; /* no later batch may begin below */
    uint64_t index_at;   /* entries of .index that are behind us */
    bool index_is_bad;   /* told: its entries count for nothing */
    bool is_begun;
    bool is_done;
};

/*
 * Checks the next window of the segment; with the last one its indexes, and sets is_done. `buffer`
 * has SCRUB_WINDOW_SIZE bytes and is aligned for direct reads. The files are read past the page
 * cache where the file system allows that.
 * NOT_FOUND: it is not there (any more). NO_MEMORY, or that files cannot be opened.
 */
MUST_USE status scrub_window(const struct scrub_segment *segment, struct scrub_cursor *cursor,
                             uint8_t *buffer, struct scrub_findings *findings);

/* Says on the trace what is damaged, where, and what to do. */
void scrub_tell(const char *dir, int64_t base_offset, const struct scrub_damage *damage);

/* ---------------------------------------------------------------- the background */

enum scrub_state { SCRUB_OFF, SCRUB_SLEEPING, SCRUB_STEPPING, SCRUB_PACING };

/* What was told already. */
struct scrub_known {
    struct partition_key key;
    int64_t base_offset;
    uint64_t position;
    const char *suffix;
};

struct scrub_job;

struct scrub {
    enum scrub_state state;
    struct io_timer timer;
    struct scrub_job *job;    /* in flight, when STEPPING */
    uint64_t pass;            /* number of the pass that is going on, or was the last */
    struct partition_key key; /* of the partition to go on with */
    bool has_key;
    int64_t base_offset; /* of the segment to go on with, or the next one above */
    uint32_t tries;      /* of this segment that did not count */
    struct scrub_cursor cursor;
    struct scrub_known known[SCRUB_KNOWN_MAX];
    uint32_t known_count;
    uint64_t passes; /* ended */
    uint64_t bytes;
    uint64_t damaged; /* ranges */
};

struct log;

/* Waits for the first pass, when there shall be any. */
void scrub_start(struct log *log);

/* No pass begins or goes on any more; a job may still be in flight. */
void scrub_stop(struct log *log);

/* Frees the job of a loop that is gone. */
void scrub_free(struct log *log);

#endif
