/*
 * Retention, cleanup.policy=delete: which segments are past retention.ms or retention.bytes, and
 * the log start that moves behind them. The files go as they do for any log start (log_start.c).
 *
 * The rules are those of Kafka's UnifiedLog.deleteOldSegments: first by size, the oldest segments
 * as long as what remains is not below retention.bytes; then by time, as long as the largest
 * timestamp of a segment is older than retention.ms. The active segment goes only when nothing is
 * in memory behind it that is not in its file: then the next batch starts a segment (ROLL), and an
 * empty one takes its place in the next checkpoint (partition_is_emptied()).
 *
 *               on_timer                        a segment's file has to be asked
 *      resting ----------> walking over log->partitions ------------------> waiting for the job
 *         ^                  |      ^  (RETENTION_STEP of them in a turn)          |
 *         `------------------'      `----------------------------------------------'
 *            no partition left                        retention_on_done
 *
 * There is no walk while no partition has a limit. One timer and at most one job, whatever the
 * number of partitions; a partition with one segment, or one whose segments are known, costs no
 * I/O. Shard's loop, but for retention_work().
 */
#include <inttypes.h>
#include <stdlib.h>

#include "twinlog/core/trace.h"

#include "read.h"

#define RETENTION_STEP 64u /* partitions looked at in one turn */
#define RETENTION_FIRST_MS                                                                         \
    30000                       /* after the start, as Kafka; sooner when the interval is shorter */
#define RETENTION_RETRY_MS 1000 /* when the journal has no room */

/* Segments of one partition, and what is to be said about them. */
struct retention_case {
    struct segment *segments; /* from the first that is not below the log start */
    uint32_t count;
    int64_t end_offset; /* behind the last one */
    uint64_t size;      /* of all of them and of what is not in files yet */
    bool has_active;    /* the last one is active */
    bool is_active_free;
    int64_t ms_max;
    int64_t size_max;
    int64_t now_ms;
    struct io_disk *disk; /* files may be asked; NULL: on the loop */
    const char *dir;
    uint32_t gone;   /* out: of the first segments */
    bool is_unknown; /* out: a file has to be asked */
};

struct retention_job {
    struct read_flight flight;
    struct io_job job;
    struct retention_case what;
    int64_t start;
    status result;
};

_Static_assert(offsetof(struct retention_job, flight) == 0, "freed through its flight");

enum retention_outcome { RETENTION_NEXT, RETENTION_WAITS, RETENTION_FULL };

/* ---------------------------------------------------------------- rules */

/* Leaves out what is below the log start and waits for its deletion; the active one stays in. */
static void case_take(struct retention_case *what, struct segment *segments, uint32_t count,
                      int64_t start)
{
    while (count > 1 && segments[1].base_offset <= start) {
        what->size -= MIN(what->size, segments[0].size);
        segments++;
        count--;
    }
    what->segments = segments;
    what->count = count;
}

static bool case_may_go(const struct retention_case *what, uint32_t index)
{
    bool is_active = what->has_active && index + 1 == what->count;
    return !is_active || (what->is_active_free && what->segments[index].size > 0);
}

/* Kafka's deleteRetentionSizeBreachedSegments. */
static void case_judge_size(struct retention_case *what)
{
    if (what->size_max < 0 || what->size < (uint64_t)what->size_max) {
        return;
    }
    uint64_t excess = what->size - (uint64_t)what->size_max;
    while (what->gone < what->count && case_may_go(what, what->gone) &&
           what->segments[what->gone].size <= excess) {
        excess -= what->segments[what->gone].size;
        what->gone++;
    }
}

/*
 * Its largest timestamp, which the active segment is known by; without one when its file was last
 * written to, as Kafka's LogSegment.largestTimestamp.
 */
static status case_ask(const struct retention_case *what, struct segment *segment, bool is_active,
                       int64_t *newest_ms)
{
    if (!is_active) {
        TRY(segment_max_timestamp(what->disk, what->dir, segment->base_offset, segment->size,
                                  &segment->max_timestamp));
    }
    *newest_ms = segment->max_timestamp;
    return *newest_ms >= 0
               ? OK
               : segment_modified_ms(what->disk, what->dir, segment->base_offset, newest_ms);
}

/* Kafka's deleteRetentionMsBreachedSegments; timestamps of the future are never past it. */
static status case_judge_time(struct retention_case *what)
{
    while (what->ms_max >= 0 && what->gone < what->count && case_may_go(what, what->gone)) {
        struct segment *segment = &what->segments[what->gone];
        bool is_active = what->has_active && what->gone + 1 == what->count;
        int64_t newest_ms = segment->max_timestamp;
        if (newest_ms < 0) {
            what->is_unknown = what->disk == NULL;
            if (what->is_unknown) {
                return OK;
            }
            TRY(case_ask(what, segment, is_active, &newest_ms));
        }
        if (newest_ms >= what->now_ms || what->now_ms - newest_ms <= what->ms_max) {
            return OK;
        }
        what->gone++;
    }
    return OK;
}

static status case_judge(struct retention_case *what)
{
    what->gone = 0;
    what->is_unknown = false;
    case_judge_size(what);
    return case_judge_time(what);
}

/* ---------------------------------------------------------------- one partition */

/* What a walk has asked for already counts: it will be committed or the log goes offline. */
static int64_t partition_start(const struct partition *partition)
{
    return MAX(partition->log_start, partition->start_asked);
}

static bool active_is_free(const struct partition *partition)
{
    return partition->written_end == partition->log_end;
}

static struct retention_case case_of(const struct partition *partition)
{
    return (struct retention_case){
        .end_offset = partition->written_end,
        .size = log_partition_size(partition),
        .has_active = true,
        .is_active_free = active_is_free(partition),
        .ms_max = partition->config.retention_ms,
        .size_max = partition->config.retention_size,
        .now_ms = io_wall_ms(partition->log->io),
        .dir = partition->dir,
    };
}

/* Moves the log start behind the segments that go. */
static enum retention_outcome retention_apply(struct log *log, struct partition *partition,
                                              const struct retention_case *what)
{
    bool is_whole = what->has_active && what->gone == what->count;
    uint32_t gone = what->gone - (is_whole && !active_is_free(partition) ? 1 : 0);
    if (gone == 0) {
        return RETENTION_NEXT;
    }
    int64_t offset = gone < what->count ? what->segments[gone].base_offset : what->end_offset;
    bool rolls = gone == what->count && what->has_active && !partition->roll_pending;
    status s = rolls ? log_roll(log, partition) : OK;
    uint64_t lsn = 0;
    if (status_is_ok(s)) {
        log_idle_arm(log); /* The event alone has to come to a checkpoint, too. */
        log_kick(log);
        s = log_delete_before(log, partition, offset, &lsn);
    }
    if (!status_is_ok(s)) {
        writeback_want_checkpoint(log);
        return RETENTION_FULL;
    }
    if (lsn > 0) {
        trace_info("log",
                   "%s: %u segments are past retention.ms=%" PRId64 " or retention.bytes=%" PRId64
                   ": the log starts at %" PRId64,
                   partition->dir, gone, what->ms_max, what->size_max, offset);
    }
    return RETENTION_NEXT;
}

/* On a helper thread. */
static void retention_work(struct io_job *io_job)
{
    struct retention_job *job = io_job->context;
    struct segment_view *view = &job->flight.view;
    struct retention_case *what = &job->what;
    job->result = segment_view_load(view);
    if (status_is_ok(job->result) && view->count > 0) {
        what->disk = view->disk;
        what->end_offset = view->end_offset;
        what->has_active = view->segments[view->count - 1].base_offset == view->tail.base_offset;
        case_take(what, view->segments, view->count, view->load ? job->start : -1);
        job->result = case_judge(what);
    }
}

/* What the files told is kept, so that they are not asked at the next walk. */
static void retention_learn(struct partition *partition, const struct segment_view *view)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < view->count && !view->load; i++) {
        while (at < partition->segment_count &&
               partition->segments[at].base_offset < view->segments[i].base_offset) {
            at++;
        }
        if (at + 1 < partition->segment_count && partition->segments_loaded &&
            partition->segments[at].base_offset == view->segments[i].base_offset) {
            partition->segments[at].max_timestamp = view->segments[i].max_timestamp;
        }
    }
}

static void retention_step(struct log *log);
static void retention_arm(struct log *log, int64_t delay_ms);

static void retention_on_done(struct io_job *io_job)
{
    struct retention_job *job = io_job->context;
    struct log *log = job->flight.log;
    struct partition *partition = job->flight.partition;
    const struct retention_case *what = &job->what;
    enum retention_outcome outcome = RETENTION_NEXT;
    if (!partition->removed && status_is_ok(job->result) && !log->closing && !log->offline) {
        retention_learn(partition, &job->flight.view);
        outcome = what->gone > 0 ? retention_apply(log, partition, what) : RETENTION_NEXT;
        bool is_part = what->gone > 0 && what->gone == what->count && !what->has_active;
        if (outcome == RETENTION_FULL || is_part) {
            log->retention.next = partition; /* Again, or on behind the part that was looked at. */
        }
    } else if (!status_is_ok(job->result) && job->result.code != STATUS_NOT_FOUND) {
        trace_warn("log",
                   "retention of %s waits for the next look: its segments cannot be read "
                   "(%s)",
                   partition->dir, status_text(job->result));
    }
    bool removed = false;
    read_flight_end(&job->flight, &removed);
    free(job);
    if (outcome == RETENTION_FULL) {
        retention_arm(log, RETENTION_RETRY_MS);
    } else {
        retention_step(log);
    }
}

static enum retention_outcome retention_job_start(struct log *log, struct partition *partition,
                                                  const struct retention_case *what)
{
    struct retention_job *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        return RETENTION_NEXT;
    }
    job->flight.log = log;
    job->flight.partition = partition;
    job->what = *what;
    job->what.segments = NULL; /* They may move; the view has its own. */
    job->what.count = 0;
    job->what.gone = 0;
    job->start = partition_start(partition);
    int64_t offset = what->count > 0 ? what->segments[0].base_offset : job->start;
    if (!status_is_ok(segment_view_open(&job->flight.view, partition, offset))) {
        free(job);
        return RETENTION_NEXT;
    }
    job->job.context = job;
    read_flight_start(&job->flight, &job->job, retention_work, retention_on_done);
    return RETENTION_WAITS;
}

static bool partition_is_limited(const struct partition *partition)
{
    const struct partition_config *config = &partition->config;
    return config->is_deleted && (config->retention_ms >= 0 || config->retention_size >= 0);
}

/* With a limit on the size alone, most have not reached it. */
static bool partition_is_suspect(const struct partition *partition)
{
    const struct partition_config *config = &partition->config;
    return partition->segment_tail.base_offset >= 0 &&
           (config->retention_ms >= 0 ||
            log_partition_size(partition) >= (uint64_t)config->retention_size);
}

static enum retention_outcome retention_look(struct log *log, struct partition *partition)
{
    if (!partition_is_limited(partition)) {
        return RETENTION_NEXT;
    }
    log->retention.wanted = true;
    if (!partition_is_suspect(partition)) {
        return RETENTION_NEXT;
    }
    struct retention_case what = case_of(partition);
    const struct segment_tail *tail = &partition->segment_tail;
    struct segment only = {tail->base_offset, tail->size, tail->max_timestamp};
    if (partition->segments_loaded) {
        case_take(&what, partition->segments, partition->segment_count, partition_start(partition));
    } else if (partition->written_size == tail->size) {
        case_take(&what, &only, 1, partition_start(partition));
    } else {
        return retention_job_start(log, partition, &what);
    }
    status s = case_judge(&what);
    ASSERT(status_is_ok(s)); /* No file was asked. */
    if (what.is_unknown) {
        return retention_job_start(log, partition, &what);
    }
    return what.gone > 0 ? retention_apply(log, partition, &what) : RETENTION_NEXT;
}

/* ---------------------------------------------------------------- the walk */

static void retention_on_timer(struct io_timer *timer)
{
    struct log *log = timer->context;
    if (log->retention.next == NULL) {
        log->retention.next = log->partitions;
        log->retention.wanted = false;
    }
    retention_step(log);
}

static void retention_arm(struct log *log, int64_t delay_ms)
{
    if (!log->closing && !log->offline) {
        io_timer_start(log->io, &log->retention.timer, delay_ms * LOG_NS_PER_MS,
                       retention_on_timer);
    }
}

/* The only place that looks at a partition; everything else moves `next` and steps. */
static void retention_step(struct log *log)
{
    struct retention *retention = &log->retention;
    for (uint32_t i = 0; i < RETENTION_STEP && retention->next != NULL; i++) {
        struct partition *partition = retention->next;
        if (log->closing || log->offline) {
            return;
        }
        retention->next = partition->hh.next;
        enum retention_outcome outcome = retention_look(log, partition);
        if (outcome == RETENTION_WAITS) {
            return;
        }
        if (outcome == RETENTION_FULL) {
            retention->next = partition;
            retention_arm(log, RETENTION_RETRY_MS);
            return;
        }
    }
    if (retention->next != NULL) {
        retention_arm(log, 0);
    } else if (retention->wanted) {
        retention_arm(log, log->options.retention_check_ms);
    } else {
        retention->running = false;
    }
}

void retention_start(struct log *log)
{
    if (log->retention.wanted && !log->retention.running) {
        log->retention.running = true;
        log->retention.timer.context = log;
        retention_arm(log, MIN(log->options.retention_check_ms, RETENTION_FIRST_MS));
    }
}

void retention_want(struct log *log, const struct partition *partition)
{
    if (partition_is_limited(partition)) {
        log->retention.wanted = true;
        if (!log->opening) {
            retention_start(log);
        }
    }
}

void retention_forget(struct log *log, const struct partition *partition)
{
    if (log->retention.next == partition) {
        log->retention.next = partition->hh.next;
    }
}
