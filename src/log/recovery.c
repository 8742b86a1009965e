/*
 * log_open(): lock, newest checkpoint, metadata from segments, replay of the journal from the
 * checkpoint's start, a new generation and epoch. Replay takes the way of the running log: each
 * frame is copied to a chunk, entered into the books and committed, so that what is true of the
 * running log is true of the recovered one. Bytes from disk get a status, never an assertion.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "twinlog/core/trace.h"

#include "log_state.h"
#include "mutation.h"
#include "read.h"

#define METADATA_TOPIC        "__cluster_metadata"
#define METADATA_SEGMENT_SIZE (64u << 20)
#define METADATA_INDEX_SIZE   4096u
#define METADATA_READ_SIZE    (1u << 20)
#define EPOCH_BODY_SIZE       4u

struct replay_context {
    struct log *log;
    struct chunk *chunk; /* frames are copied to */
    bool is_in_memory;   /* the disk is full: nothing is written back before the end */
};

/* ---------------------------------------------------------------- prepare */

static void options_default(struct log *log)
{
    struct log_options *options = &log->options;
    uint64_t share = log->directory.journal_size / LOG_CHECKPOINT_SHARE;
    if (options->frame_size_max == 0) {
        options->frame_size_max = LOG_FRAME_SIZE_DEFAULT;
    }
    if (options->writes_in_flight == 0) {
        options->writes_in_flight = LOG_WRITES_DEFAULT;
    }
    if (options->chunk_size == 0) {
        options->chunk_size = LOG_CHUNK_SIZE_DEFAULT;
    }
    if (options->chunk_count == 0) {
        options->chunk_count = LOG_CHUNK_COUNT_DEFAULT;
    }
    if (options->checkpoint_size == 0) {
        options->checkpoint_size = share;
    }
    if (options->checkpoint_idle_ms == 0) {
        options->checkpoint_idle_ms = LOG_CHECKPOINT_IDLE_DEFAULT;
    }
    if (options->disk_reserve_size == 0) {
        options->disk_reserve_size =
            log->directory.journal_size * log->directory.shard_count + LOG_DISK_RESERVE_MARGIN;
    }
    if (options->producer_expiration_ms == 0) {
        options->producer_expiration_ms = LOG_PRODUCER_EXPIRATION_DEFAULT;
    }
    if (options->producer_check_ms == 0) {
        options->producer_check_ms = LOG_PRODUCER_CHECK_DEFAULT;
    }
    if (options->retention_check_ms == 0) {
        options->retention_check_ms = LOG_RETENTION_CHECK_DEFAULT;
    }
}

static struct log *log_create(const struct log_options *options)
{
    struct log *log = calloc(1, sizeof(*log));
    char *dir = strdup(options->dir);
    if (log == NULL || dir == NULL) {
        free(log);
        free(dir);
        return NULL;
    }
    log->io = options->io;
    log->options = *options;
    log->options.dir = dir;
    log->opening = true;
    log->close_result = OK;
    list_init(&log->removed);
    list_init(&log->synced_waits);
    list_init(&log->committed_waits);
    list_init(&log->dirty);
    list_init(&log->reads);
    list_init(&log->removals);
    list_init(&log->start_changes);
    list_init(&log->trims);
    log->kick.context = log;
    log->idle.context = log;
    log->hook = (struct io_hook){.fn = log_on_turn, .context = log};
    writeback_init(log);
    chunk_pool_init(&log->pool, CHUNK_ALIGNMENT, 1); /* Until its size is known. */
    return log;
}

static status log_files_open(struct log *log)
{
    TRY(log_directory_read(io_disk(log->io), log->options.dir, &log->directory));
    if (log->options.shard >= log->directory.shard_count) {
        trace_error("log",
                    "%s was formatted for %u shards: there is no shard %u; the number of "
                    "shards cannot be changed",
                    log->options.dir, log->directory.shard_count, log->options.shard);
        return STATUS(MISMATCH);
    }
    options_default(log);
    chunk_pool_init(&log->pool, log->options.chunk_size, log->options.chunk_count);
    struct journal_options options = {
        .io = log->io,
        .dir = log->options.dir,
        .directory_id = log->directory.directory_id,
        .shard = log->options.shard,
        .file_size = log->directory.journal_size / log->directory.journal_file_count,
        .file_count = log->directory.journal_file_count,
        .frame_size_max = log->options.frame_size_max,
        .writes_in_flight = log->options.writes_in_flight,
        .chunks = &log->pool,
        .evict = log_on_evict,
        .on_synced = log_on_synced,
        .on_seal = log_on_seal,
        .on_room = log_on_room,
        .on_failed = log_on_failed,
        .context = log,
    };
    return journal_open(&options, &log->journal);
}

static status log_checkpoint_read(struct log *log, uint8_t **body, size_t *body_size)
{
    status s = checkpoint_read(io_disk(log->io), log->options.dir, log->options.shard,
                               &log->directory.directory_id, &log->checkpoint, body, body_size);
    if (s.code == STATUS_NOT_FOUND) {
        trace_error("log",
                    "%s has no checkpoint of shard %u, and every formatted directory has "
                    "one: restore it, or refill the directory from its peer",
                    log->options.dir, log->options.shard);
        return STATUS(CORRUPT);
    }
    TRY(s);
    log->epoch = log->checkpoint.epoch;
    log->committed_lsn = log->checkpoint.start.lsn - 1;
    log->synced_lsn = log->committed_lsn;
    if (*body_size > UINT32_MAX) {
        return STATUS(CORRUPT);
    }
    return log_body_decode(log, (struct bytes){*body, (uint32_t)*body_size});
}

/* ---------------------------------------------------------------- metadata in segments */

static status metadata_corrupt(const struct log *log, int64_t offset)
{
    trace_error("log",
                "metadata of %s is missing or damaged at offset %" PRId64 ": restore the "
                "directory, or refill it from its peer",
                log->options.dir, offset);
    return STATUS(CORRUPT);
}

/* Publishes the batches of `data`, which have to go on at *offset. */
static status metadata_batches_publish(struct log *log, struct bytes data, int64_t *offset)
{
    while (data.size > 0) {
        struct batch_header header;
        if (!status_is_ok(batch_header_read(data, &header)) || header.base_offset != *offset ||
            header.last_offset_delta < 0) {
            return metadata_corrupt(log, *offset);
        }
        log->options.events.on_metadata(log->options.context,
                                        (struct bytes){data.data, header.size});
        *offset += (int64_t)header.last_offset_delta + 1;
        data.data += header.size;
        data.size -= header.size;
    }
    return OK;
}

static status metadata_segment_publish(struct log *log, const struct segment_view *view,
                                       uint32_t index, int64_t *offset)
{
    const struct segment *segment = &view->segments[index];
    int64_t end_offset = segment_view_end(view, index);
    while (*offset < end_offset) {
        uint8_t *data = NULL;
        uint32_t size = 0;
        TRY(segment_read(view->disk, view->dir, segment->base_offset, segment->size, *offset,
                         end_offset, METADATA_READ_SIZE, true, &data, &size));
        status s = size == 0 ? metadata_corrupt(log, *offset)
                             : metadata_batches_publish(log, (struct bytes){data, size}, offset);
        free(data);
        TRY(s);
    }
    return OK;
}

static status metadata_read(struct log *log)
{
    struct partition *metadata = log->metadata;
    struct segment_view view;
    int64_t offset = metadata->log_start;
    if (metadata->written_end == metadata->log_start) {
        return OK;
    }
    TRY(segment_view_open(&view, metadata, offset));
    status s = segment_view_load(&view);
    for (uint32_t i = 0; i < view.count && status_is_ok(s); i++) {
        s = metadata_segment_publish(log, &view, i, &offset);
    }
    segment_view_close(&view, metadata);
    if (s.code == STATUS_NOT_FOUND) {
        return metadata_corrupt(log, offset);
    }
    TRY(s);
    return offset == metadata->written_end ? OK : metadata_corrupt(log, offset);
}

static status metadata_open(struct log *log)
{
    static const struct partition_config config = {
        .segment_size = METADATA_SEGMENT_SIZE,
        .segment_ms = INT64_MAX,
        .index_interval_size = METADATA_INDEX_SIZE,
        .retention_ms = -1,
        .retention_size = -1,
    };
    TRY(log_partition_add(log, METADATA_TOPIC, &log_metadata_topic_id, 0, &config, &log->metadata));
    return metadata_read(log);
}

/* ---------------------------------------------------------------- replay */

static status replay_corrupt(const struct log *log, const struct journal_frame *frame,
                             const char *what)
{
    trace_error("log",
                "journal frame %" PRIu64 " at %" PRIu64 " of shard %u in %s does not fit what is "
                "before it (%s): restore the directory, or refill it from its peer",
                frame->lsn, frame->position, log->options.shard, log->options.dir, what);
    return STATUS(CORRUPT);
}

/*
 * When half the pool is in use what is committed goes to segment files here and now, so that replay
 * needs no more memory than running does. On a full disk it needs as much as the journal is large:
 * the log then comes up, answers readers, and writes back when somebody has made room.
 */
static status replay_write_back(struct replay_context *replay, uint32_t size)
{
    struct log *log = replay->log;
    struct chunk_pool *pool = &log->pool;
    if (!replay->is_in_memory) {
        status s = writeback_now(log, false);
        log_evict(log, 0);
        if (s.code != STATUS_NO_SPACE) {
            return s;
        }
        trace_warn("log",
                   "the disk of %s has no room for what the journal holds: it stays in memory, and "
                   "produce is refused until some space is free",
                   log->options.dir);
        replay->is_in_memory = true;
    }
    uint32_t more = MAX(log->options.chunk_count, size / pool->chunk_size + 1);
    pool->count_max = MAX(pool->count_max, pool->in_use + more);
    return OK;
}

/* Makes room for a frame's bytes in one chunk. */
static status replay_reserve(struct replay_context *replay, uint32_t size)
{
    struct log *log = replay->log;
    if (replay->chunk != NULL) {
        if (replay->chunk->capacity - replay->chunk->used >= size) {
            return OK;
        }
        replay->chunk->refs--;
        replay->chunk = NULL;
    }
    if (2 * log->pool.in_use >= log->pool.count_max) {
        TRY(replay_write_back(replay, size));
    }
    replay->chunk = chunk_take(&log->pool, size);
    return replay->chunk != NULL ? OK : STATUS(NO_MEMORY);
}

static status replay_enter(struct replay_context *replay, const struct journal_frame *frame,
                           struct partition *partition, const struct journal_entry *entry,
                           const struct batch_header *header)
{
    struct chunk *chunk = replay->chunk;
    struct journal_place place = {frame->lsn, chunk, chunk->data + chunk->used};
    ASSERT(chunk->capacity - chunk->used >= entry->body.size); /* It was reserved. */
    memcpy(place.body, entry->body.data, entry->body.size);
    chunk->used += entry->body.size;
    if (!partition_tail_reserve(partition) || !log_enter(replay->log, partition, &place, header)) {
        return STATUS(NO_MEMORY);
    }
    return OK;
}

static status replay_batch(struct replay_context *replay, const struct journal_frame *frame,
                           const struct journal_entry *entry)
{
    struct log *log = replay->log;
    struct batch_header header;
    if (!status_is_ok(batch_header_read(entry->body, &header)) || header.size != entry->body.size ||
        header.base_offset != entry->offset || header.last_offset_delta < 0 || entry->offset < 0) {
        return replay_corrupt(log, frame, "a batch is malformed");
    }
    struct partition *partition = log_partition_find(log, &entry->topic_id, entry->partition);
    if (partition == NULL) {
        return OK; /* Its topic was deleted (I6). */
    }
    if (entry->offset < partition->log_end) {
        return OK; /* In segments already (I4). */
    }
    if (entry->offset > partition->log_end) {
        return replay_corrupt(log, frame, "batches of a partition are missing"); /* I4 */
    }
    return replay_enter(replay, frame, partition, entry, &header);
}

static status replay_event(struct replay_context *replay, const struct journal_frame *frame,
                           const struct journal_entry *entry)
{
    struct log *log = replay->log;
    struct partition *partition = log_partition_find(log, &entry->topic_id, entry->partition);
    switch (entry->type) {
    case JOURNAL_EPOCH:
        if (entry->body.size != EPOCH_BODY_SIZE) {
            return replay_corrupt(log, frame, "an epoch is malformed");
        }
        log->epoch = MAX(log->epoch, load_le32(entry->body.data));
        return OK;
    case JOURNAL_ROLL:
        if (partition != NULL && entry->offset == partition->log_end) {
            partition->roll_pending = true;
        }
        return OK;
    case JOURNAL_LOG_START:
        if (partition != NULL && entry->offset <= partition->log_end &&
            !log_mutation_is(MUTATION_LOSE_LOG_START)) {
            log_start_set(partition, entry->offset);
        }
        return OK;
    case JOURNAL_BATCH:
    case JOURNAL_DELETE:
        break;
    }
    return replay_corrupt(log, frame, "an entry of a type that this release does not write");
}

static status replay_entries(struct replay_context *replay, const struct journal_frame *frame)
{
    struct bytes entries = frame->entries;
    struct journal_entry entry;
    bool malformed = false;
    uint32_t count = 0;
    while (journal_entry_next(&entries, &entry, &malformed)) {
        count++;
        TRY(entry.type == JOURNAL_BATCH ? replay_batch(replay, frame, &entry)
                                        : replay_event(replay, frame, &entry));
    }
    return malformed || count != frame->entry_count
               ? replay_corrupt(replay->log, frame, "its entries are malformed")
               : OK;
}

static status replay_frame(void *context, const struct journal_frame *frame)
{
    struct replay_context *replay = context;
    struct log *log = replay->log;
    if (frame->metadata_offset > log->metadata->high_watermark) {
        /* I6: with one journal the metadata is in this one, before the frame that names it. */
        return replay_corrupt(log, frame, "it names metadata that is not there");
    }
    TRY(replay_reserve(replay, frame->entries.size));
    log->epoch = MAX(log->epoch, frame->epoch);
    TRY(replay_entries(replay, frame));
    /* Everything in a journal that replays is synced, and without a second node committed. */
    log->synced_lsn = frame->lsn;
    log_commit_to(log, frame->lsn);
    return OK;
}

/* What replay found no files of has to be deleted by now. */
static status replay_lost_check(const struct log *log)
{
    for (const struct partition *p = log->partitions; p != NULL; p = p->hh.next) {
        if (p->is_lost) {
            trace_error("log",
                        "%s lacks files that the checkpoint of shard %u counts on: restore the "
                        "directory, or refill it from its peer",
                        p->dir, log->options.shard);
            return STATUS(CORRUPT);
        }
    }
    return OK;
}

static status log_replay(struct log *log)
{
    struct replay_context replay = {.log = log};
    TRY(journal_replay(log->journal, &log->checkpoint.start, replay_frame, &replay));
    TRY(replay_lost_check(log));
    if (replay.chunk != NULL) {
        replay.chunk->refs--;
    }
    uint64_t count = log->committed_lsn + 1 - log->checkpoint.start.lsn;
    ASSERT(log->committed_lsn + 1 == journal_next_lsn(log->journal));
    trace_info("log", "shard %u of %s: %" PRIu64 " frames replayed, %u partitions, %s shutdown",
               log->options.shard, log->options.dir, count, HASH_COUNT(log->partitions),
               log->checkpoint.clean ? "clean" : "no clean");
    return OK;
}

/* ---------------------------------------------------------------- a new generation */

/* Only a full disk leaves no room for it: what is in the journal could not be written back. */
static status epoch_append(struct log *log)
{
    uint8_t body[EPOCH_BODY_SIZE];
    store_le32(body, log->epoch);
    struct journal_entry entry = {.type = JOURNAL_EPOCH, .body = {body, sizeof(body)}};
    struct journal_place place;
    status s = journal_append(log->journal, &entry, true, &place);
    return s.code == STATUS_FULL ? STATUS(NO_SPACE) : s;
}

/* Writes the header with the new generation around the body that holds for its start. */
static status generation_write(struct log *log, struct bytes body)
{
    log->checkpoint.sequence++;
    log->checkpoint.epoch = log->epoch;
    log->checkpoint.clean = false;
    TRY(checkpoint_write(io_disk(log->io), log->options.dir, &log->checkpoint, body));
    journal_begin(log->journal, log->epoch, &log->checkpoint.start);
    return epoch_append(log);
}

/* Behind a checkpoint of everything that was replayed: the generation begins on a new start. */
static status generation_begin_afresh(struct log *log)
{
    if (!journal_start_extend(log->journal, &log->checkpoint.start)) {
        return STATUS(TOO_MANY);
    }
    uint8_t *body = malloc(log_body_size_max(log));
    if (body == NULL) {
        return STATUS(NO_MEMORY);
    }
    size_t size = log_body_encode(log, body);
    status s = generation_write(log, (struct bytes){body, (uint32_t)size});
    free(body);
    return s;
}

/*
 * The generation is synced in the checkpoint before the first frame of it is written (I1). Every
 * start takes a new epoch (I10). A start that is far behind would leave little room in the ring,
 * but on a full disk there is no other, and no client appends.
 */
static status generation_begin(struct log *log, struct bytes body)
{
    log->epoch++;
    if (journal_live_size(log->journal) >= log->options.checkpoint_size) {
        status s = writeback_now(log, true);
        if (s.code != STATUS_NO_SPACE) {
            TRY(s);
            return generation_begin_afresh(log);
        }
    }
    if (journal_start_extend(log->journal, &log->checkpoint.start)) {
        return generation_write(log, body);
    }
    TRY(writeback_now(log, true));
    return generation_begin_afresh(log);
}

/* ---------------------------------------------------------------- open */

static status log_recover(struct log *log)
{
    uint8_t *body = NULL;
    size_t body_size = 0;
    TRY(log_files_open(log));
    status s = log_checkpoint_read(log, &body, &body_size);
    if (status_is_ok(s)) {
        s = metadata_open(log);
    }
    if (status_is_ok(s)) {
        s = log_replay(log);
    }
    if (status_is_ok(s)) {
        s = generation_begin(log, (struct bytes){body, (uint32_t)body_size});
    }
    free(body);
    if (s.code == STATUS_NO_SPACE) {
        trace_error("log",
                    "the disk of %s is so full that a checkpoint (%zu bytes) cannot be written, or "
                    "the journal has no room for one more start: free some space, then start "
                    "again; nothing is lost",
                    log->options.dir, body_size);
    }
    return s;
}

status log_open(const struct log_options *options, struct log **log)
{
    *log = NULL;
    struct log *opened = log_create(options);
    if (opened == NULL) {
        return STATUS(NO_MEMORY);
    }
    *log = opened; /* on_metadata needs it. */
    status s = log_recover(opened);
    if (!status_is_ok(s)) {
        *log = NULL;
        log_destroy(opened, false);
        return s;
    }
    log_recovered_free(opened);
    writeback_look_at_space(opened);
    opened->opening = false;
    opened->hooked = true;
    io_hook_add(opened->io, &opened->hook);
    opened->appended_ns = io_now_ns(opened->io);
    /* Not now: who opened may still give up, and free what a job works on. */
    opened->orphans_due = true;
    log_idle_arm(opened);
    retention_start(opened);
    producer_expiry_start(opened);
    writeback_retry_arm(opened);
    scrub_start(opened);
    log_kick(opened);
    return OK;
}
