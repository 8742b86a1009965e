#include "writeback.h"

#include "twinlog/core/trace.h"

#include "log_state.h"
#include "mutation.h"

static void writeback_on_retry(struct io_timer *timer);
static void writeback_on_done(struct io_job *io_job);

void writeback_init(struct log *log)
{
    log->writeback = (struct writeback){.state = WRITEBACK_IDLE};
    log->writeback.retry.context = log;
}

void writeback_free(struct log *log)
{
    if (log->writeback.state != WRITEBACK_IDLE) {
        writeback_job_free(&log->writeback.job);
    }
    for (uint32_t i = 0; i < log->writeback.sync.count; i++) {
        segment_hold_close(&log->writeback.sync.entries[i].hold);
    }
}

void writeback_want_checkpoint(struct log *log)
{
    log->writeback.checkpoint_wanted = true;
}

void writeback_forget(struct log *log, struct partition *partition)
{
    struct sync_set *set = &log->writeback.sync;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->entries[i].partition != partition) {
            set->entries[kept++] = set->entries[i];
        } else {
            segment_hold_close(&set->entries[i].hold);
        }
    }
    set->count = kept;
    const struct partition_tail *tail = &partition->tail;
    if (list_node_is_linked(&partition->dirty_link)) {
        list_remove(&partition->dirty_link);
        log->dirty_count--;
        log->dirty_bytes -= partition->committed_size - tail_at(tail, tail->written)->position;
    }
    if (partition->writing == NULL) {
        partition_tail_forget(partition);
    }
}

/* ---------------------------------------------------------------- results */

void writeback_retry_arm(struct log *log)
{
    struct writeback *writeback = &log->writeback;
    bool wanted = writeback->blocked || log->disk_full;
    if (wanted && !writeback->retry_armed && !log->opening && !log->closed) {
        writeback->retry_armed = true;
        io_timer_start(log->io, &writeback->retry, WRITEBACK_RETRY_MS * LOG_NS_PER_MS,
                       writeback_on_retry);
    }
}

static void writeback_on_retry(struct io_timer *timer)
{
    struct log *log = timer->context;
    log->writeback.retry_armed = false;
    log->writeback.blocked = false;
    log->writeback.space_wanted = true; /* The end of this turn starts the job. */
}

/* The journal is preallocated, so a full disk stops write-back only; space may come back. */
static bool status_is_passing(status s)
{
    return s.code == STATUS_NO_SPACE || s.code == STATUS_NO_MEMORY;
}

/*
 * Clients may append while the reserve is free: everything that the journal can hold then finds its
 * place in segment files, in this life or in the next one's replay, and what operators do to make
 * room, and the records of the broker itself, dip into it.
 */
static void writeback_on_space(struct log *log, status space_result, uint64_t free_size,
                               status result)
{
    bool full = result.code == STATUS_NO_SPACE ||
                (status_is_ok(space_result) && free_size < log->options.disk_reserve_size);
    if (full != log->disk_full) {
        log->disk_full = full;
        if (full) {
            trace_warn("log",
                       "the disk of %s is nearly full (%llu bytes free, reserve %llu): "
                       "free some space, service resumes by itself",
                       log->options.dir, (unsigned long long)free_size,
                       (unsigned long long)log->options.disk_reserve_size);
        } else {
            trace_info("log", "the disk of %s has space again", log->options.dir);
        }
    }
}

void writeback_look_at_space(struct log *log)
{
    uint64_t free_size = 0;
    uint64_t total_size = 0;
    status s = io_disk_space(io_disk(log->io), log->options.dir, &free_size, &total_size);
    writeback_on_space(log, s, free_size, log->writeback.blocked ? STATUS(NO_SPACE) : OK);
}

/* A start on a full disk may have kept more in memory than is allowed: back to the bound. */
static void writeback_pool_shrink(struct log *log)
{
    if (log->pool.count_max > log->options.chunk_count) {
        log_evict(log, 0);
        log->pool.count_max = MAX(log->options.chunk_count, log->pool.in_use);
        chunk_pool_trim(&log->pool);
    }
}

static void writeback_on_checkpoint(struct log *log, const struct writeback_job *job)
{
    struct writeback *writeback = &log->writeback;
    log->checkpoint = job->header;
    for (struct partition *p = log->partitions; p != NULL; p = p->hh.next) {
        p->checkpoint_base = p->segment_tail.base_offset;
    }
    journal_recycle(log->journal, job->header.start.lsn);
    log->checkpoints++;
    log->checkpoint_ns += (uint64_t)(io_now_ns_exact(log->io) - job->started_ns);
    if (job->clean) {
        writeback->clean_done = true;
    }
    if (log->opening) {
        return;
    }
    log_trim_all(log);
    log_idle_arm(log);
    if (writeback->trim_wanted && log->dirty_bytes == 0) {
        writeback->trim_wanted = false;
        log_evict(log, 0);
        chunk_pool_trim(&log->pool);
    }
}

/* A log that closes does not wait for space: the journal has everything, the next start is longer.
 */
static void writeback_give_up_clean(struct log *log, status why)
{
    if (log->writeback.clean_wanted) {
        log->writeback.clean_done = true;
        log->close_result = why;
    }
}

/* What to do about the result of a job that is applied. */
static status writeback_judge(struct log *log, const struct writeback_job *job)
{
    struct writeback *writeback = &log->writeback;
    bool sync_failed = !status_is_ok(job->sync_result);
    status s = !status_is_ok(job->write_result) ? job->write_result
               : sync_failed                    ? job->sync_result
                                                : job->checkpoint_result;
    writeback_on_space(log, job->space_result, job->free_size, s);
    if (status_is_ok(s)) {
        if (!log->opening) {
            writeback_pool_shrink(log);
        }
        if (job->is_checkpoint) {
            writeback_on_checkpoint(log, job);
        }
    } else if (status_is_passing(s) && !sync_failed) {
        writeback->blocked = true;
        writeback->checkpoint_wanted |= job->is_checkpoint;
        writeback_give_up_clean(log, s);
    } else {
        log_fail(log, s); /* A failed sync is never tried again: pages may count as clean. */
    }
    writeback_retry_arm(log);
    return s;
}

static void writeback_on_done(struct io_job *io_job)
{
    struct writeback_job *job = io_job->context;
    struct log *log = job->log;
    ASSERT(log->writeback.state != WRITEBACK_IDLE);
    log->job_count--;
    log->writeback.state = WRITEBACK_IDLE;
    writeback_job_apply(log, job);
    (void)writeback_judge(log, job);
}

/* ---------------------------------------------------------------- step */

/* Builds the job, and makes it a checkpoint. False: memory is out, nothing is pinned. */
static bool writeback_build(struct log *log, bool checkpoint)
{
    struct writeback_job *job = &log->writeback.job;
    if (!writeback_job_build(log, job, checkpoint)) {
        return false;
    }
    if (checkpoint && !writeback_job_add_checkpoint(log, job)) {
        job->write_result = STATUS(NO_MEMORY);
        writeback_job_apply(log, job);
        return false;
    }
    return true;
}

static void writeback_start(struct log *log, bool checkpoint)
{
    struct writeback *writeback = &log->writeback;
    if (!writeback_build(log, checkpoint)) {
        writeback->blocked = true;
        writeback_give_up_clean(log, STATUS(NO_MEMORY));
        writeback_retry_arm(log);
        return;
    }
    uint64_t frames = 0;
    uint64_t syncs = 0;
    journal_counts(log->journal, &frames, &writeback->frame_bytes, &syncs);
    writeback->space_wanted = false;
    if (checkpoint) {
        writeback->checkpoint_wanted = false;
        if (log_mutation_is(MUTATION_RECYCLE_EARLY)) {
            journal_recycle(log->journal, writeback->job.header.start.lsn);
        }
    }
    writeback->state = checkpoint ? WRITEBACK_CHECKPOINTING : WRITEBACK_WRITING;
    log->job_count++;
    io_offload(log->io, IO_LANE_WRITE, &writeback->job.job, writeback_job_work, writeback_on_done);
}

/*
 * Small frames fill chunks with padding, so what was written to the journal counts as well. A job
 * opens the files of each partition it writes to, so that many partitions gather more for it.
 */
static bool writeback_is_due(const struct log *log)
{
    uint64_t pool_size = (uint64_t)log->pool.chunk_size * log->pool.count_max;
    uint64_t start_size =
        MAX((uint64_t)WRITEBACK_START_SIZE, (uint64_t)log->dirty_count * WRITEBACK_PARTITION_SIZE);
    uint64_t frames = 0;
    uint64_t frame_bytes = 0;
    uint64_t syncs = 0;
    journal_counts(log->journal, &frames, &frame_bytes, &syncs);
    return log->dirty_bytes > 0 &&
           (log->dirty_bytes >= MIN(start_size, pool_size / WRITEBACK_POOL_SHARE) ||
            frame_bytes - log->writeback.frame_bytes >= pool_size / WRITEBACK_POOL_SHARE ||
            log->room_wanted > 0 || log->writeback.checkpoint_wanted);
}

void writeback_step(struct log *log)
{
    if (log->orphans_due) {
        log->orphans_due = false;
        log_orphans_remove(log);
        log_trim_all(log);
    }
    struct writeback *writeback = &log->writeback;
    if (writeback->state != WRITEBACK_IDLE || writeback->blocked || log->offline || log->closed) {
        return;
    }
    /* Without a commit since, a checkpoint would say what the last one says. */
    bool has_news = log->committed_lsn + 1 > log->checkpoint.start.lsn;
    if (has_news && journal_live_size(log->journal) >= log->options.checkpoint_size) {
        writeback->checkpoint_wanted = true;
    }
    if (!log_is_dirty(log) && !writeback->clean_wanted) {
        writeback->checkpoint_wanted = false;
    }
    bool checkpoint = writeback->checkpoint_wanted && (has_news || writeback->clean_wanted);
    if (checkpoint && log->dirty_bytes <= WRITEBACK_JOB_SIZE) {
        writeback_start(log, true);
    } else if (writeback_is_due(log) || writeback->space_wanted) {
        writeback_start(log, false);
    }
}

static status writeback_job_now(struct log *log, bool checkpoint)
{
    struct writeback_job *job = &log->writeback.job;
    if (!writeback_build(log, checkpoint)) {
        return STATUS(NO_MEMORY);
    }
    writeback_job_work(&job->job);
    writeback_job_apply(log, job);
    return writeback_judge(log, job);
}

status writeback_now(struct log *log, bool checkpoint)
{
    ASSERT(log->opening);
    ASSERT(log->writeback.state == WRITEBACK_IDLE);
    while (log->dirty_bytes > 0) {
        TRY(writeback_job_now(log, false));
    }
    return checkpoint ? writeback_job_now(log, true) : OK;
}

void writeback_check(const struct log *log)
{
    const struct writeback *writeback = &log->writeback;
    uint32_t dirty_count = 0;
    bool has_job = writeback->state != WRITEBACK_IDLE;
    ASSERT(has_job == (writeback->job.items != NULL));
    ASSERT(!has_job || log->job_count > 0);
    ASSERT((writeback->state == WRITEBACK_CHECKPOINTING) == (writeback->job.body != NULL));
    for (struct partition *p = log->partitions; p != NULL; p = p->hh.next) {
        ASSERT(has_job || p->writing == NULL);
    }
    LIST_FOREACH (node, &log->dirty) {
        dirty_count++;
    }
    ASSERT(dirty_count == log->dirty_count);
}
