#include "scrub.h"

#include <stdlib.h>

#include "twinlog/core/trace.h"

#include "log_state.h"
#include "read.h"

/* One step: windows of one partition's segments, until a window's bytes are read. */
struct scrub_job {
    struct io_job job;
    struct log *log;
    struct partition *partition; /* pinned by its view */
    struct segment_view view;
    int64_t base_offset;        /* in and out: of the segment that `cursor` is in */
    struct scrub_cursor cursor; /* in and out */
    bool is_last;               /* out: nothing of the partition is left */
    uint64_t bytes;
    int64_t damaged_base; /* of the segment that the findings are in */
    struct scrub_findings findings;
    status result;
    uint8_t *buffer;
};

static void scrub_on_timer(struct io_timer *timer);

/* ---------------------------------------------------------------- on the helper thread */

/* One window, or what is left of its segment. False: the step ends here. */
static bool job_window(struct scrub_job *job, uint32_t at)
{
    const struct segment_view *view = &job->view;
    struct scrub_segment segment = {
        .disk = view->disk,
        .dir = view->dir,
        .base_offset = view->segments[at].base_offset,
        .end_offset = segment_view_end(view, at),
        .size = view->segments[at].size,
        .is_closed = view->segments[at].base_offset != view->tail.base_offset,
    };
    if (segment.base_offset != job->base_offset) {
        job->cursor = (struct scrub_cursor){0};
        job->base_offset = segment.base_offset;
    }
    uint64_t before = job->cursor.position;
    job->damaged_base = segment.base_offset;
    job->result = scrub_window(&segment, &job->cursor, job->buffer, &job->findings);
    job->bytes += MIN(job->cursor.position, segment.size) - before;
    if (job->cursor.is_done || !status_is_ok(job->result)) {
        job->base_offset = segment.end_offset;
        job->cursor = (struct scrub_cursor){0};
    }
    return status_is_ok(job->result) && job->findings.count == 0 && job->bytes < SCRUB_WINDOW_SIZE;
}

static void job_work(struct io_job *io_job)
{
    struct scrub_job *job = io_job->context;
    job->result = segment_view_load(&job->view);
    job->damaged_base = job->base_offset;
    if (!status_is_ok(job->result)) {
        job->is_last = true;
        return;
    }
    uint32_t at = segment_view_find(&job->view, job->base_offset);
    while (at < job->view.count && job_window(job, at)) {
        at = segment_view_find(&job->view, job->base_offset);
    }
    job->is_last = job->base_offset >= job->view.end_offset || job->view.count == 0;
}

/* ---------------------------------------------------------------- what was found */

static bool known_is(const struct scrub_known *known, const struct partition *partition,
                     int64_t base_offset, const struct scrub_damage *damage)
{
    return known->position == damage->position && known->base_offset == base_offset &&
           known->suffix == damage->suffix &&
           memcmp(&known->key, &partition->key, sizeof(known->key)) == 0;
}

static void damage_take(struct scrub *scrub, const struct partition *partition, int64_t base_offset,
                        const struct scrub_damage *damage)
{
    for (uint32_t i = 0; i < scrub->known_count; i++) {
        if (known_is(&scrub->known[i], partition, base_offset, damage)) {
            return;
        }
    }
    scrub->damaged++;
    if (scrub->known_count < SCRUB_KNOWN_MAX) {
        scrub->known[scrub->known_count++] =
            (struct scrub_known){partition->key, base_offset, damage->position, damage->suffix};
        scrub_tell(partition->dir, base_offset, damage);
    }
}

/* Files that were replaced or removed during the step: what was found there proves nothing. */
static bool job_is_void(const struct scrub *scrub, const struct scrub_job *job)
{
    const struct partition *partition = job->partition;
    bool found = job->findings.count > 0 || !status_is_ok(job->result);
    return found && partition->segments_version != job->view.version && scrub->tries < SCRUB_TRIES;
}

static void findings_take(struct scrub *scrub, const struct scrub_job *job)
{
    const struct partition *partition = job->partition;
    for (uint32_t i = 0; i < job->findings.count; i++) {
        damage_take(scrub, partition, job->damaged_base, &job->findings.damage[i]);
    }
    scrub->damaged += job->findings.more;
    if (status_is_ok(job->result) || job->damaged_base < partition->log_start) {
        return; /* A segment below the log start may be gone. */
    }
    if (job->result.code == STATUS_NOT_FOUND) {
        struct scrub_damage missing = {
            .suffix = ".log",
            .what = "the file is missing",
            .first_offset = job->damaged_base,
            .end_offset = job->base_offset,
        };
        damage_take(scrub, partition, job->damaged_base, &missing);
    } else {
        trace_warn("scrub", "a segment of %s could not be checked (%s): the next pass tries again",
                   partition->dir, status_text(job->result));
    }
}

/* ---------------------------------------------------------------- the way through the log */

static void scrub_wait(struct log *log, enum scrub_state state, int64_t ms)
{
    log->scrub.state = state;
    io_timer_start(log->io, &log->scrub.timer, ms * LOG_NS_PER_MS, scrub_on_timer);
}

static void scrub_sleep(struct log *log)
{
    struct scrub *scrub = &log->scrub;
    scrub->passes++;
    scrub->has_key = false;
    trace_info("scrub",
               "%s: pass %llu is over: %llu bytes checked since the start, %llu damaged "
               "ranges found",
               log->options.dir, (unsigned long long)scrub->pass, (unsigned long long)scrub->bytes,
               (unsigned long long)scrub->damaged);
    scrub_wait(log, SCRUB_SLEEPING, log->options.scrub_interval_ms);
}

static void scrub_go_to(struct scrub *scrub, const struct partition *partition)
{
    scrub->has_key = partition != NULL;
    scrub->base_offset = 0;
    scrub->tries = 0;
    scrub->cursor = (struct scrub_cursor){0};
    if (partition != NULL) {
        scrub->key = partition->key;
    }
}

/* The first one from `partition` on that this pass has not been through and that has files. */
static struct partition *partition_next(const struct scrub *scrub, struct partition *partition)
{
    while (partition != NULL &&
           (partition->scrub_pass == scrub->pass || partition->segment_tail.base_offset < 0)) {
        partition = partition->hh.next;
    }
    return partition;
}

/* The partition to go on with. Where its table has changed meanwhile, from the first one on. */
static struct partition *scrub_partition(struct log *log)
{
    struct scrub *scrub = &log->scrub;
    struct partition *partition = NULL;
    if (scrub->has_key) {
        partition = log_partition_find(log, &scrub->key.topic_id, scrub->key.index);
        partition = partition_next(scrub, partition);
    }
    if (partition == NULL) {
        partition = partition_next(scrub, log->partitions);
    }
    if (partition != NULL &&
        (!scrub->has_key || memcmp(&scrub->key, &partition->key, sizeof(scrub->key)) != 0)) {
        scrub_go_to(scrub, partition);
    }
    return partition;
}

/* At least what the bytes per second say, and never a loop turn for each tiny segment. */
static int64_t pace_ms(const struct log *log, uint64_t bytes)
{
    uint64_t ms = bytes * 1000 / log->options.scrub_rate;
    return MAX((int64_t)ms, SCRUB_PACE_MS_MIN);
}

static void job_free(struct scrub_job *job)
{
    free(job->buffer);
    free(job);
}

/* The step is over: where the next one begins. */
static void scrub_advance(struct log *log, const struct scrub_job *job)
{
    struct scrub *scrub = &log->scrub;
    struct partition *partition = job->partition;
    if (partition->removed) {
        return; /* What was found in it counts for nothing; it is not found again. */
    }
    if (job_is_void(scrub, job)) {
        scrub->tries++;
        scrub->base_offset = job->damaged_base;
        scrub->cursor = (struct scrub_cursor){0};
        return;
    }
    findings_take(scrub, job);
    scrub->tries = 0;
    scrub->base_offset = job->base_offset;
    scrub->cursor = job->cursor;
    if (job->is_last) {
        partition->scrub_pass = scrub->pass;
        scrub_go_to(scrub, partition_next(scrub, partition));
    }
}

static void scrub_on_job_done(struct io_job *io_job)
{
    struct scrub_job *job = io_job->context;
    struct log *log = job->log;
    struct scrub *scrub = &log->scrub;
    ASSERT(scrub->job == job);
    log->job_count--;
    scrub->job = NULL;
    scrub->bytes += job->bytes;
    scrub_advance(log, job);
    int64_t wait_ms = pace_ms(log, job->bytes);
    segment_view_close(&job->view, job->partition);
    job_free(job);
    if (scrub->state == SCRUB_STEPPING) {
        scrub_wait(log, SCRUB_PACING, wait_ms);
    }
}

/* False: out of memory. */
static bool job_start(struct log *log, struct partition *partition)
{
    struct scrub *scrub = &log->scrub;
    struct scrub_job *job = calloc(1, sizeof(*job));
    uint8_t *buffer = aligned_alloc(CHUNK_ALIGNMENT, SCRUB_WINDOW_SIZE);
    if (job == NULL || buffer == NULL ||
        !status_is_ok(segment_view_open(&job->view, partition, scrub->base_offset))) {
        free(buffer);
        free(job);
        return false;
    }
    job->job.context = job;
    job->log = log;
    job->partition = partition;
    job->buffer = buffer;
    job->base_offset = scrub->base_offset;
    job->cursor = scrub->cursor;
    scrub->job = job;
    scrub->state = SCRUB_STEPPING;
    log->job_count++;
    io_offload(log->io, IO_LANE_BACKGROUND, &job->job, job_work, scrub_on_job_done);
    return true;
}

/* The only place a job is started. A log that is offline has another need of its device. */
static void scrub_step(struct log *log)
{
    struct partition *partition = log->offline ? NULL : scrub_partition(log);
    if (partition == NULL) {
        scrub_sleep(log);
    } else if (!job_start(log, partition)) {
        scrub_wait(log, SCRUB_PACING, WRITEBACK_RETRY_MS);
    }
}

static void scrub_on_timer(struct io_timer *timer)
{
    struct log *log = timer->context;
    struct scrub *scrub = &log->scrub;
    ASSERT(scrub->state == SCRUB_SLEEPING || scrub->state == SCRUB_PACING);
    if (scrub->state == SCRUB_SLEEPING) {
        scrub->pass++;
        scrub_go_to(scrub, NULL);
    }
    scrub_step(log);
}

void scrub_start(struct log *log)
{
    log->scrub.timer.context = log;
    if (log->options.scrub_interval_ms > 0 && log->options.scrub_rate > 0) {
        scrub_wait(log, SCRUB_SLEEPING,
                   MIN(log->options.scrub_interval_ms, (int64_t)SCRUB_FIRST_MS));
    }
}

void scrub_stop(struct log *log)
{
    io_timer_stop(log->io, &log->scrub.timer);
    log->scrub.state = SCRUB_OFF;
}

void scrub_free(struct log *log)
{
    struct scrub_job *job = log->scrub.job;
    if (job != NULL) {
        free(job->view.segments);
        job_free(job);
        log->scrub.job = NULL;
    }
}
