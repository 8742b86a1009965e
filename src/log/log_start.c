/*
 * Moving log starts up. The event stands in the journal and takes effect once it is committed (I6);
 * from then on nothing below is read. Segment files that lie below as a whole are deleted in the
 * WRITE lane, in order with all write-backs. A crash starts over from the last checkpoint, so only
 * files before the segment that it counts as active may go; after each checkpoint more of them may.
 */
#include <stdlib.h>

#include "twinlog/core/trace.h"

#include "log_state.h"
#include "mutation.h"

/* Deleted by one job, so that a write-back in the same lane does not wait for long. */
#define TRIM_SEGMENTS_MAX 256u

/* An event that is not committed yet. */
struct start_change {
    struct list_node link;       /* in log->start_changes, by LSN */
    struct partition *partition; /* pinned */
    int64_t offset;
    uint64_t lsn;
};

/*
 * Files being deleted. A write-back that is queued before this job may add segments, so which of
 * the files count is known only when the job is done.
 */
struct trim {
    struct io_job job;
    struct list_node link; /* in log->trims */
    struct log *log;
    struct partition *partition; /* pinned */
    struct io_disk *disk;
    int64_t offset;       /* segments that end at or below it go */
    struct segment *kept; /* of the others */
    uint32_t kept_count;
    uint32_t gone_count;
    uint64_t gone_size;
    status result;
};

/* ---------------------------------------------------------------- the event */

status log_delete_before(struct log *log, struct partition *partition, int64_t offset,
                         uint64_t *lsn)
{
    ASSERT(!partition->removed);
    ASSERT(offset <= partition->high_watermark);
    *lsn = 0;
    if (offset <= partition->log_start) {
        return OK;
    }
    if (log->offline || log->closing) {
        return STATUS(OFFLINE);
    }
    struct start_change *change = calloc(1, sizeof(*change));
    if (change == NULL) {
        return STATUS(NO_MEMORY);
    }
    struct journal_entry entry = {
        .type = JOURNAL_LOG_START,
        .topic_id = partition->key.topic_id,
        .partition = partition->key.index,
        .offset = offset,
    };
    struct journal_place place;
    partition->pins++;
    status s = journal_append(log->journal, &entry, true, &place);
    if (!status_is_ok(s)) {
        partition->pins--;
        free(change);
        if (s.code == STATUS_FULL) {
            writeback_want_checkpoint(log);
            log->room_wanted = MAX(log->room_wanted, 1u);
        }
        return s;
    }
    change->partition = partition;
    change->offset = offset;
    change->lsn = place.lsn;
    partition->start_asked = MAX(partition->start_asked, offset);
    list_push_back(&log->start_changes, &change->link);
    if (log_mutation_is(MUTATION_EARLY_LOG_START)) {
        log_start_set(partition, offset);
    }
    log->appended_ns = io_now_ns(log->io);
    log_idle_arm(log);
    log_kick(log);
    *lsn = place.lsn;
    return OK;
}

void log_start_set(struct partition *partition, int64_t offset)
{
    if (offset > partition->log_start) {
        partition->log_start = offset;
        partition->trim_wanted = true;
        epochs_trim(&partition->epochs, offset);
    }
}

void log_starts_commit(struct log *log, uint64_t lsn)
{
    struct list_node *node;
    while ((node = list_first(&log->start_changes)) != NULL) {
        struct start_change *change = CONTAINER_OF(node, struct start_change, link);
        struct partition *partition = change->partition;
        if (change->lsn > lsn) {
            return;
        }
        list_remove(node);
        partition->pins--;
        if (!partition->removed) {
            ASSERT(change->offset <= partition->high_watermark);
            log_start_set(partition, change->offset);
            log_trim(log, partition);
        }
        partition_free_if_unused(partition);
        free(change);
    }
}

/* ---------------------------------------------------------------- files */

static void trim_work(struct io_job *job)
{
    struct trim *trim = job->context;
    struct segment *segments = NULL;
    uint32_t count = 0;
    uint32_t gone = 0;
    trim->result = segment_list(trim->disk, trim->partition->dir, &segments, &count);
    while (status_is_ok(trim->result) && gone + 1 < count && gone < TRIM_SEGMENTS_MAX &&
           segments[gone + 1].base_offset <= trim->offset) {
        trim->result = segment_remove(trim->disk, trim->partition->dir, segments[gone].base_offset);
        if (status_is_ok(trim->result)) {
            trim->gone_size += segments[gone].size;
            gone++;
        }
    }
    if (status_is_ok(trim->result) && gone > 0) {
        trim->result = io_dir_sync(trim->disk, trim->partition->dir);
    }
    if (gone > 0) {
        memmove(segments, segments + gone, (count - gone) * sizeof(*segments));
    }
    trim->kept = segments;
    trim->kept_count = count - gone;
    trim->gone_count = gone;
}

/* All files before the active one, whose size is known better than its file tells. */
static uint64_t kept_size(const struct trim *trim)
{
    const struct segment_tail *tail = &trim->partition->segment_tail;
    uint64_t size = tail->size;
    for (uint32_t i = 0; i < trim->kept_count; i++) {
        size += trim->kept[i].base_offset < tail->base_offset ? trim->kept[i].size : 0;
    }
    return size;
}

static void trim_on_done(struct io_job *job)
{
    struct trim *trim = job->context;
    struct log *log = trim->log;
    struct partition *partition = trim->partition;
    log->job_count--;
    list_remove(&trim->link);
    partition->trimming = false;
    partition->pins--;
    log->segments_deleted += trim->gone_count;
    log->segment_bytes_deleted += trim->gone_size;
    if (!status_is_ok(trim->result)) {
        trace_warn(
            "log",
            "not all segments of %s below the log start could not be deleted (%s): it is tried "
            "again after the next checkpoint",
            partition->dir, status_text(trim->result));
    }
    if (partition->removed || trim->kept_count == 0) {
        free(trim->kept);
        partition_free_if_unused(partition);
    } else {
        /* No write-back came in between: its lane is this one. */
        partition->written_size = kept_size(trim);
        partition_segments_replace(partition, trim->kept, trim->kept_count);
        if (status_is_ok(trim->result)) {
            log_trim(log, partition); /* There may be more, and the log start moves on. */
        }
    }
    free(trim);
}

/* Whether a file can go: unknown files have to be listed to find out. */
static bool trim_is_due(struct partition *partition, int64_t offset)
{
    if (!partition->segments_loaded) {
        return true;
    }
    if (partition->segment_count == 0 ||
        partition->segments[0].base_offset >= partition->log_start) {
        partition->trim_wanted = false;
        return false;
    }
    return partition->segment_count > 1 && partition->segments[1].base_offset <= offset;
}

void log_trim(struct log *log, struct partition *partition)
{
    int64_t offset = MIN(partition->log_start, partition->checkpoint_base);
    if (!partition->trim_wanted || partition->trimming || partition->removed || log->opening ||
        log->offline || offset <= 0 || !trim_is_due(partition, offset)) {
        return;
    }
    struct trim *trim = calloc(1, sizeof(*trim));
    if (trim == NULL) {
        return; /* The next checkpoint tries again. */
    }
    trim->log = log;
    trim->partition = partition;
    trim->disk = io_disk(log->io);
    trim->offset = offset;
    trim->job.context = trim;
    partition->pins++;
    partition->trimming = true;
    list_push_back(&log->trims, &trim->link);
    log->job_count++;
    io_offload(log->io, IO_LANE_WRITE, &trim->job, trim_work, trim_on_done);
}

void log_trim_all(struct log *log)
{
    for (struct partition *p = log->partitions; p != NULL; p = p->hh.next) {
        log_trim(log, p);
    }
}

void log_starts_free(struct log *log)
{
    struct list_node *node;
    while ((node = list_pop_front(&log->start_changes)) != NULL) {
        free(CONTAINER_OF(node, struct start_change, link));
    }
    while ((node = list_pop_front(&log->trims)) != NULL) {
        struct trim *trim = CONTAINER_OF(node, struct trim, link);
        free(trim->kept);
        free(trim);
    }
}
