/*
 * The log as its callers see it: append, the end of a turn, failure, closing, facts. What happens
 * at a commit is in log_commit.c, what happens after it in writeback.c, what happened before this
 * life in recovery.c.
 */
#include "twinlog/log/log.h"

#include <stdlib.h>

#include "twinlog/core/trace.h"

#include "log_state.h"

const struct uuid log_metadata_topic_id = {{[15] = 1}};

/* ---------------------------------------------------------------- append */

/* As Kafka's LogSegment.shouldRoll: by size, by range of offsets, by age: of its timestamps if it
 * has any. */
static bool partition_must_roll(const struct partition *partition,
                                const struct batch_header *header)
{
    const struct partition_active *active = &partition->active;
    if (active->base_offset < 0 || active->size == 0) {
        return false;
    }
    if (active->size + header->size > partition->config.segment_size) {
        return true;
    }
    if (partition->log_end + header->last_offset_delta - active->base_offset > INT32_MAX) {
        return true;
    }
    bool has_time = active->first_timestamp >= 0;
    int64_t from_ms = has_time ? active->first_timestamp : active->created_ms;
    int64_t until_ms = has_time ? header->max_timestamp : io_wall_ms(partition->log->io);
    return until_ms > from_ms &&
           until_ms - from_ms > partition->config.segment_ms - active->jitter_ms;
}

status log_roll(struct log *log, struct partition *partition)
{
    ASSERT(!partition->roll_pending);
    struct journal_entry entry = {
        .type = JOURNAL_ROLL,
        .topic_id = partition->key.topic_id,
        .partition = partition->key.index,
        .offset = partition->log_end,
    };
    struct journal_place place;
    TRY(journal_append(log->journal, &entry, true, &place));
    partition->roll_pending = true;
    partition->roll_lsn = place.lsn;
    return OK;
}

bool log_enter(struct log *log, struct partition *partition, const struct journal_place *place,
               const struct batch_header *header)
{
    struct chunk *chunk = place->chunk;
    if (header->producer_id >= 0 &&
        !status_is_ok(
            producer_append(&partition->producers, header, partition->log_end, place->lsn))) {
        return false;
    }
    if (header->producer_id >= 0) {
        producer_expiry_want(log);
    }
    int64_t end_offset = partition->log_end + header->last_offset_delta + 1;
    if (!epochs_reserve(&partition->epochs)) {
        return false;
    }
    if (!chunk_entry_add(chunk, partition, end_offset)) {
        return false;
    }
    if (!log_mark_add(log, place->lsn, chunk)) {
        chunk->entry_count--;
        return false;
    }
    chunk->unwritten_count++;
    partition->chunk_refs++;
    epochs_add(&partition->epochs, batch_leader_epoch(place->body), partition->log_end);
    partition_tail_add(partition, chunk, place->body, header, partition->roll_pending);
    return true;
}

static status log_append_batch(struct log *log, struct partition *partition, struct bytes batch,
                               const struct batch_header *header, struct log_appended *appended)
{
    if (!partition_tail_reserve(partition)) {
        return STATUS(NO_MEMORY);
    }
    if (!partition->roll_pending && partition_must_roll(partition, header)) {
        TRY(log_roll(log, partition));
    }
    struct journal_entry entry = {
        .type = JOURNAL_BATCH,
        .topic_id = partition->key.topic_id,
        .partition = partition->key.index,
        .offset = partition->log_end,
        .body = batch,
    };
    struct journal_place place;
    TRY(journal_append(log->journal, &entry, partition == log->metadata, &place));
    batch_stamp(place.body, partition->log_end, (int32_t)log->epoch);
    appended->base_offset = partition->log_end;
    appended->lsn = place.lsn;
    if (!log_enter(log, partition, &place, header)) {
        /* The journal has it and the books do not: only a restart brings them together. */
        log_fail(log, STATUS(NO_MEMORY));
        return STATUS(OFFLINE);
    }
    return OK;
}

status log_append(struct log *log, struct partition *partition, struct bytes batch,
                  const struct batch_header *header, struct log_appended *appended)
{
    ASSERT(!partition->removed);
    ASSERT(header->size == batch.size);
    *appended = (struct log_appended){.log_append_time_ms = -1};
    if (log->offline || log->closing) {
        return STATUS(OFFLINE);
    }
    if (header->producer_id >= 0) {
        appended->verdict = producer_judge(partition->producers, header, appended);
        if (appended->verdict != LOG_APPENDED) {
            return OK;
        }
    }
    partition->pins++; /* Making room may evict its last batch, and with it what was reserved. */
    status s = log_append_batch(log, partition, batch, header, appended);
    partition->pins--;
    if (s.code == STATUS_FULL) {
        log->room_wanted = MAX(log->room_wanted, batch.size);
        writeback_want_checkpoint(log);
        return s;
    }
    TRY(s);
    log->appends++;
    log->append_bytes += batch.size;
    log->appended_ns = io_now_ns(log->io);
    log_idle_arm(log);
    return OK;
}

bool log_has_room(struct log *log, uint32_t size)
{
    if (journal_has_room(log->journal, size)) {
        return true;
    }
    log->room_wanted = MAX(log->room_wanted, size);
    writeback_want_checkpoint(log);
    return false;
}

/* ---------------------------------------------------------------- turn */

static void log_room_tell(struct log *log)
{
    if (log->room_wanted == 0 || log->offline) {
        return;
    }
    log_evict(log, journal_entry_size(log->room_wanted) + log->options.frame_size_max);
    if (journal_has_room(log->journal, log->room_wanted)) {
        log->room_wanted = 0;
        log->options.events.on_room(log->options.context);
    } else {
        writeback_want_checkpoint(log);
    }
}

static void log_disk_full_tell(struct log *log)
{
    if (log->disk_full != log->disk_full_told) {
        log->disk_full_told = log->disk_full;
        log->options.events.on_disk_full(log->options.context, log->disk_full);
    }
}

static void log_offline_tell(struct log *log)
{
    if (log->offline && !log->offline_told) {
        log->offline_told = true;
        log->options.events.on_offline(log->options.context, log->offline_why);
    }
}

/* Everything appended is committed and a clean checkpoint says so; or there is no hope of that. */
static bool log_close_is_ready(struct log *log)
{
    if (!log->offline) {
        if (!journal_is_idle(log->journal) ||
            log->committed_lsn + 1 < journal_next_lsn(log->journal)) {
            return false;
        }
        if (!log->writeback.clean_done) {
            log->writeback.clean_wanted = true;
            writeback_want_checkpoint(log);
            writeback_step(log);
            return false;
        }
    }
    return log->writeback.state == WRITEBACK_IDLE && log->job_count == 0 &&
           !journal_is_writing(log->journal);
}

/* The last step of a turn: `done` may free the log. */
static void log_close_step(struct log *log)
{
    if (!log->closing || log->closed || !log_close_is_ready(log)) {
        return;
    }
    log->closed = true;
    io_timer_stop(log->io, &log->idle);
    io_timer_stop(log->io, &log->retention.timer);
    io_timer_stop(log->io, &log->expiry.timer);
    io_timer_stop(log->io, &log->writeback.retry);
    log->close_done(log->close_context, log->offline ? log->offline_why : log->close_result);
}

void log_on_turn(struct io_hook *hook)
{
    struct log *log = hook->context;
    log_waits_run(log);
    log_offline_tell(log);
    log_disk_full_tell(log);
    log_room_tell(log);
    writeback_step(log);
    if (!log->offline) {
        journal_step(log->journal);
    }
    log_close_step(log);
}

void log_on_kick(struct io_timer *timer)
{
    (void)timer; /* The hook at the end of this turn does the work. */
}

void log_kick(struct log *log)
{
    if (!log->opening) {
        io_timer_start(log->io, &log->kick, 0, log_on_kick);
    }
}

bool log_is_dirty(const struct log *log)
{
    return !journal_is_idle(log->journal) ||
           journal_next_lsn(log->journal) > log->checkpoint.start.lsn;
}

void log_idle_arm(struct log *log)
{
    if (!log->idle_armed && !log->closing && log_is_dirty(log)) {
        log->idle_armed = true;
        io_timer_start(log->io, &log->idle, log->options.checkpoint_idle_ms * LOG_NS_PER_MS,
                       log_on_idle);
    }
}

void log_on_idle(struct io_timer *timer)
{
    struct log *log = timer->context;
    log->idle_armed = false;
    if (log->offline || log->closing || !log_is_dirty(log)) {
        return; /* A checkpoint came in between: nothing is dirty, and no timer is needed. */
    }
    int64_t quiet_ns = io_now_ns(log->io) - log->appended_ns;
    int64_t wanted_ns = log->options.checkpoint_idle_ms * LOG_NS_PER_MS;
    if (quiet_ns < wanted_ns) {
        log->idle_armed = true;
        io_timer_start(log->io, &log->idle, wanted_ns - quiet_ns, log_on_idle);
        return;
    }
    writeback_want_checkpoint(log);
    log->writeback.trim_wanted = true;
}

/* ---------------------------------------------------------------- journal events */

void log_on_evict(void *context)
{
    struct log *log = context;
    /* A share of the pool: what remains in memory serves readers of the tail. */
    uint32_t count = MAX(1u, log->pool.count_max / LOG_EVICT_SHARE);
    log_evict(log, count * log->pool.chunk_size);
}

void log_on_synced(void *context, uint64_t lsn)
{
    struct log *log = context;
    if (log->offline) {
        return; /* Every wait has failed: what was answered so stays uncommitted in this life. */
    }
    ASSERT(lsn >= log->synced_lsn);
    log->synced_lsn = lsn;
    /* Without a second node the in-sync set is this one. */
    log_commit_to(log, lsn);
}

void log_on_seal(void *context, uint64_t *committed_lsn, int64_t *metadata_offset)
{
    const struct log *log = context;
    *committed_lsn = log->committed_lsn;
    *metadata_offset = log->metadata->high_watermark;
}

void log_on_room(void *context)
{
    (void)context; /* The end of the turn looks whether anybody waits for it. */
}

void log_on_failed(void *context, status why)
{
    log_fail(context, why);
}

void log_fail(struct log *log, status why)
{
    if (log->offline) {
        return;
    }
    log->offline = true;
    log->offline_why = why;
    trace_error("log",
                "shard %u of %s is offline (%s, errno %d): nothing can be appended; "
                "look at the device, then restart",
                log->options.shard, log->options.dir, status_text(why), why.sys);
    log_kick(log);
}

/* ---------------------------------------------------------------- close */

void log_close(struct log *log, void (*done)(void *context, status result), void *context)
{
    ASSERT(!log->closing);
    log->closing = true;
    scrub_stop(log);
    log->close_done = done;
    log->close_context = context;
    log_kick(log);
}

static void log_partitions_free(struct log *log)
{
    struct partition *partition;
    struct partition *next;
    HASH_ITER(hh, log->partitions, partition, next)
    {
        HASH_DEL(log->partitions, partition);
        partition_free(partition);
    }
    struct list_node *node;
    while ((node = list_pop_front(&log->removed)) != NULL) {
        partition_free(CONTAINER_OF(node, struct partition, removed_link));
    }
}

void log_destroy(struct log *log, bool crashed)
{
    if (log->hooked && !crashed) {
        io_hook_remove(log->io, &log->hook);
        io_timer_stop(log->io, &log->kick);
        io_timer_stop(log->io, &log->idle);
        io_timer_stop(log->io, &log->retention.timer);
        io_timer_stop(log->io, &log->expiry.timer);
        io_timer_stop(log->io, &log->writeback.retry);
        scrub_stop(log);
    }
    if (log->journal != NULL) {
        journal_destroy(log->journal, crashed);
    }
    writeback_free(log);
    scrub_free(log);
    log_reads_free(log);
    log_removals_free(log);
    log_starts_free(log);
    log_recovered_free(log);
    log_partitions_free(log);
    chunk_pool_fini(&log->pool);
    free(log->marks.marks);
    free((char *)log->options.dir);
    free(log);
}

/* ---------------------------------------------------------------- facts */

const struct log_directory *log_directory_of(const struct log *log)
{
    return &log->directory;
}

void log_stats_get(const struct log *log, struct log_stats *stats)
{
    *stats = (struct log_stats){
        .appends = log->appends,
        .append_bytes = log->append_bytes,
        .checkpoints = log->checkpoints,
        .checkpoint_ns = log->checkpoint_ns,
        .written_back_bytes = log->written_back_bytes,
        .segments_deleted = log->segments_deleted,
        .segment_bytes_deleted = log->segment_bytes_deleted,
        .live_journal_bytes = journal_live_size(log->journal),
        .journal_size = journal_size(log->journal),
        .chunks_in_use = log->pool.in_use,
        .chunk_count = log->pool.count_max,
        .partition_count = HASH_COUNT(log->partitions),
        .synced_lsn = log->synced_lsn,
        .committed_lsn = log->committed_lsn,
        .next_lsn = journal_next_lsn(log->journal),
        .scrub_passes = log->scrub.passes,
        .scrub_bytes = log->scrub.bytes,
        .scrub_damaged = log->scrub.damaged,
    };
    journal_counts(log->journal, &stats->frames, &stats->frame_bytes, &stats->syncs);
}

static void log_chunks_check(const struct log *log)
{
    uint64_t unwritten = 0;
    LIST_FOREACH (node, &log->pool.used) {
        const struct chunk *chunk = CONTAINER_OF(node, struct chunk, link);
        ASSERT(chunk->unwritten_count <= chunk->entry_count);
        unwritten += chunk->unwritten_count;
    }
    uint64_t dirty_bytes = 0;
    uint64_t expected = 0;
    for (struct partition *p = log->partitions; p != NULL; p = p->hh.next) {
        partition_check(p);
        ASSERT(p->chunk_refs == p->tail.end - p->tail.first);
        expected += p->tail.end - p->tail.written;
        if (p->tail.written < p->tail.committed) {
            dirty_bytes += p->committed_size - tail_at(&p->tail, p->tail.written)->position;
        }
    }
    LIST_FOREACH (node, &log->removed) {
        const struct partition *p = CONTAINER_OF(node, struct partition, removed_link);
        partition_check(p);
        expected += p->tail.end - p->tail.written;
    }
    ASSERT(unwritten == expected);
    ASSERT(dirty_bytes == log->dirty_bytes);
}

void log_check(const struct log *log)
{
    ASSERT(log->committed_lsn <= log->synced_lsn);
    ASSERT(log->synced_lsn < journal_next_lsn(log->journal));
    /* I3: nothing that is not behind the synced checkpoint was given back to the ring. */
    ASSERT(log->checkpoint.start.lsn <= log->committed_lsn + 1);
    journal_check(log->journal);
    log_chunks_check(log);
    writeback_check(log);
}
