/*
 * One write-back job: what it takes along from the loop, what it does on its helper thread, and
 * what the loop makes of it. The helper thread touches nothing but the job, the pinned chunks'
 * bytes, and names that do not change.
 */
#include <stdlib.h>

#include "twinlog/core/trace.h"

#include "log_state.h"
#include "mutation.h"

/* ---------------------------------------------------------------- build */

static struct partition *dirty_partition(struct list_node *node)
{
    return CONTAINER_OF(node, struct partition, dirty_link);
}

/* How many of its committed entries fit in what is left of the job; at least one of the first. */
static uint32_t partition_entries_fit(const struct partition *partition, uint64_t *left, bool first)
{
    const struct partition_tail *tail = &partition->tail;
    uint32_t count = 0;
    for (uint64_t at = tail->written; at < tail->committed; at++) {
        uint32_t size = tail_at(tail, at)->size;
        if (size > *left && !(first && count == 0)) {
            break;
        }
        *left -= MIN(*left, (uint64_t)size);
        count++;
    }
    return count;
}

static void item_fill(struct writeback_item *item, struct partition *partition,
                      struct segment_batch *batches, uint32_t count)
{
    const struct partition_tail *tail = &partition->tail;
    *item = (struct writeback_item){
        .partition = partition,
        .first_timestamp = partition->written_first_timestamp,
        .cut = partition->needs_cut,
        .is_lost = partition->is_lost,
        .write = {.dir = partition->dir,
                  .topic_id = &partition->key.topic_id,
                  .index_interval_size = partition->config.index_interval_size,
                  .batches = batches,
                  .batch_count = count,
                  .tail = partition->segment_tail},
    };
    for (uint32_t i = 0; i < count; i++) {
        const struct tail_entry *entry = tail_at(tail, tail->written + i);
        batches[i] = (struct segment_batch){entry->data, entry->size, entry->roll};
        if (entry->roll || (i == 0 && partition->segment_tail.base_offset < 0)) {
            struct batch_header header;
            status s = batch_header_read((struct bytes){entry->data, entry->size}, &header);
            ASSERT(status_is_ok(s)); /* It was read when the batch was appended. */
            item->first_timestamp = header.max_timestamp;
        }
        item->size += entry->size;
        entry->chunk->refs++;
    }
    item->end_offset = partition_tail_end_offset(partition, tail->written + count - 1);
    partition->writing = item;
    partition->pins++;
}

/* No batch, but an empty segment behind the one that is deleted then (partition_is_emptied()). */
static void item_fill_empty(struct writeback_item *item, struct partition *partition)
{
    *item = (struct writeback_item){
        .partition = partition,
        .first_timestamp = -1,
        .cut = partition->needs_cut,
        .end_offset = partition->written_end,
        .write = {.dir = partition->dir,
                  .topic_id = &partition->key.topic_id,
                  .index_interval_size = partition->config.index_interval_size,
                  .starts_empty = true,
                  .empty_base = partition->written_end,
                  .tail = partition->segment_tail},
    };
    partition->writing = item;
    partition->pins++;
}

/* Only checkpoints do this: nothing can be deleted before one says that it is not needed. */
static uint32_t emptied_count(const struct log *log)
{
    uint32_t count = 0;
    for (const struct partition *p = log->partitions; p != NULL; p = p->hh.next) {
        count += partition_is_emptied(p) ? 1 : 0;
    }
    return count;
}

static bool job_allocate(struct log *log, struct writeback_job *job, uint64_t left,
                         uint32_t emptied)
{
    uint32_t items = 0;
    uint32_t batches = 0;
    LIST_FOREACH (node, &log->dirty) {
        uint32_t count = partition_entries_fit(dirty_partition(node), &left, items == 0);
        if (count == 0) {
            break;
        }
        items++;
        batches += count;
    }
    job->items = calloc(MAX(items + emptied, 1u), sizeof(*job->items));
    job->batches = calloc(MAX(batches, 1u), sizeof(*job->batches));
    job->item_count = items;
    return job->items != NULL && job->batches != NULL;
}

bool writeback_job_build(struct log *log, struct writeback_job *job, bool all)
{
    uint64_t bound = all ? UINT64_MAX : WRITEBACK_JOB_SIZE;
    *job = (struct writeback_job){
        .log = log,
        .disk = io_disk(log->io),
        .dir = log->options.dir,
        .anchor = journal_file(log->journal),
        .started_ns = io_now_ns_exact(log->io),
    };
    job->job.context = job;
    /* Replay may meet the files of a topic that a later frame deletes. */
    uint32_t emptied = all && !log->opening ? emptied_count(log) : 0;
    if (!job_allocate(log, job, bound, emptied)) {
        writeback_job_free(job);
        return false;
    }
    struct segment_batch *batches = job->batches;
    struct list_node *node = list_first(&log->dirty);
    for (uint32_t i = 0; i < job->item_count; i++, node = node->next) {
        struct partition *partition = dirty_partition(node);
        uint32_t count = partition_entries_fit(partition, &bound, i == 0);
        item_fill(&job->items[i], partition, batches, count);
        job->size += job->items[i].size;
        batches += count;
    }
    for (struct partition *p = log->partitions; p != NULL && emptied > 0; p = p->hh.next) {
        if (partition_is_emptied(p)) {
            item_fill_empty(&job->items[job->item_count++], p);
            emptied--;
        }
    }
    job->sync = log->writeback.sync; /* Its open files go along. */
    log->writeback.sync = (struct sync_set){0};
    job->sync_pinned_count = job->sync.count;
    for (uint32_t i = 0; i < job->sync_pinned_count; i++) {
        job->sync.entries[i].partition->pins++;
    }
    return true;
}

static void overlay_keep(struct log *log)
{
    for (struct partition *p = log->partitions; p != NULL; p = p->hh.next) {
        if (p->producers != NULL) {
            producer_commit(p->producers, UINT64_MAX);
        }
    }
}

bool writeback_job_add_checkpoint(struct log *log, struct writeback_job *job)
{
    if (log_mutation_is(MUTATION_KEEP_OVERLAY)) {
        overlay_keep(log);
    }
    job->body = malloc(log_body_size_max(log));
    if (job->body == NULL) {
        return false;
    }
    job->body_size = log_body_encode(log, job->body);
    job->is_checkpoint = true;
    job->clean = log->writeback.clean_wanted;
    job->header = log->checkpoint; /* Directory, shard and the list of generations stay. */
    job->header.sequence++;
    job->header.epoch = log->epoch;
    job->header.clean = job->clean;
    journal_start_at(log->journal, log->committed_lsn + 1, &job->header.start);
    journal_start_prune(&job->header.start);
    return true;
}

/* ---------------------------------------------------------------- work */

/* Before the segment is written to. What cannot be held open is left to the sync of all. */
static void sync_set_add(struct writeback_job *job, struct partition *partition,
                         int64_t base_offset)
{
    struct sync_set *set = &job->sync;
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->entries[i].partition == partition && set->entries[i].base_offset == base_offset) {
            return;
        }
    }
    struct sync_entry entry = {.partition = partition, .base_offset = base_offset};
    if (set->all || set->count == WRITEBACK_SYNC_FILES ||
        !status_is_ok(segment_hold_open(job->disk, partition->dir, base_offset, &entry.hold))) {
        set->all = true;
        return;
    }
    set->entries[set->count++] = entry;
}

/*
 * Replay meets batches of topics that a later frame deletes. Their directories went when that frame
 * was committed, or belong to a younger topic of the same name by now. Such batches are not
 * written; that the topic does get deleted is judged at the end of the replay.
 */
static status item_look_for_files(struct writeback_job *job, struct writeback_item *item)
{
    bool found = false;
    if (job->log->opening && item->cut && !item->is_lost) {
        TRY(segment_tail_find(job->disk, item->write.dir, &item->write.tail, &found));
        item->is_lost = !found;
    }
    return OK;
}

static status item_write(struct writeback_job *job, struct writeback_item *item)
{
    struct segment_write *write = &item->write;
    TRY(item_look_for_files(job, item));
    if (item->is_lost) {
        item->is_written = true;
        return OK;
    }
    if (item->cut) {
        /* Without a segment that counts, whatever is there is of a deleted topic of this name. */
        TRY(write->tail.base_offset < 0 ? segment_remove_all(job->disk, write->dir)
                                        : segment_cut(job->disk, write->dir, &write->tail));
    }
    if (write->tail.base_offset >= 0) {
        sync_set_add(job, item->partition, write->tail.base_offset);
    }
    status s = segment_append(job->disk, write);
    job->sync.all |= write->directory_created; /* Also when what followed failed. */
    TRY(s);
    job->sync.all |= write->created_count > 0;
    item->is_written = true;
    return OK;
}

/* What passes by itself is not worth a line for each try. */
static status job_tell(status s, const char *what, const char *where)
{
    if (!status_is_ok(s) && s.code != STATUS_NO_SPACE && s.code != STATUS_NO_MEMORY) {
        trace_error("log",
                    "%s failed: dir=%s: %s (errno %d); look at the device, then restart: recovery "
                    "writes it again from the journal",
                    what, where, status_text(s), s.sys);
    }
    return s;
}

static status job_write(struct writeback_job *job)
{
    for (uint32_t i = 0; i < job->item_count; i++) {
        struct writeback_item *item = &job->items[i];
        TRY(job_tell(item_write(job, item), "writing segment files", item->write.dir));
    }
    return OK;
}

static status sync_set_sync(const struct writeback_job *job)
{
    const struct sync_set *set = &job->sync;
    if (set->all) {
        return job_tell(io_disk_sync(job->anchor), "syncing the file system", job->dir);
    }
    for (uint32_t i = 0; i < set->count; i++) {
        TRY(job_tell(segment_hold_sync(&set->entries[i].hold), "syncing segment files",
                     set->entries[i].partition->dir));
    }
    return OK;
}

/* I3: everything the checkpoint counts on is durable before it says so. */
static status job_sync(struct writeback_job *job)
{
    TRY(sync_set_sync(job));
    for (uint32_t i = 0; i < job->sync.count; i++) {
        segment_hold_close(&job->sync.entries[i].hold);
    }
    return OK;
}

void writeback_job_work(struct io_job *io_job)
{
    struct writeback_job *job = io_job->context;
    uint64_t total_size = 0;
    job->space_result = io_disk_space(job->disk, job->dir, &job->free_size, &total_size);
    job->write_result = job_write(job);
    if (!job->is_checkpoint || !status_is_ok(job->write_result)) {
        return;
    }
    for (uint32_t i = 0; i < job->item_count; i++) {
        log_body_patch(job->body, &job->items[i]);
    }
    job->sync_result = job_sync(job);
    if (status_is_ok(job->sync_result)) {
        struct bytes body = {job->body, (uint32_t)job->body_size};
        job->checkpoint_result = checkpoint_write(job->disk, job->dir, &job->header, body);
    }
}

/* ---------------------------------------------------------------- apply */

static void item_take_over(struct log *log, struct writeback_item *item)
{
    struct partition *partition = item->partition;
    partition_segments_written(partition, &item->write);
    partition->segment_tail = item->write.tail;
    partition->written_end = item->end_offset;
    partition->written_size += item->size;
    partition->written_first_timestamp = item->first_timestamp;
    partition->needs_cut = false;
    partition->is_lost = item->is_lost;
    log->dirty_bytes -= item->size;
    log->written_back_bytes += item->size;
    if (list_node_is_linked(&partition->dirty_link)) {
        list_remove(&partition->dirty_link);
        log->dirty_count--;
    }
    if (partition->tail.written < partition->tail.committed) {
        list_push_back(&log->dirty, &partition->dirty_link);
        log->dirty_count++;
    }
}

static void item_apply(struct log *log, struct writeback_item *item)
{
    struct partition *partition = item->partition;
    struct partition_tail *tail = &partition->tail;
    for (uint32_t i = 0; i < item->write.batch_count; i++) {
        struct chunk *chunk = tail_at(tail, tail->written + i)->chunk;
        ASSERT(chunk->refs > 0);
        chunk->refs--;
        if (item->is_written) {
            ASSERT(chunk->unwritten_count > 0);
            chunk->unwritten_count--;
        }
    }
    partition->writing = NULL;
    if (item->is_written) {
        tail->written += item->write.batch_count;
    }
    if (partition->removed) {
        partition_tail_forget(partition);
    } else if (item->is_written) {
        item_take_over(log, item);
    } else {
        partition->needs_cut = true;
    }
    partition->pins--;
    partition_free_if_unused(partition);
}

/* What is to be synced still: all of it, but for removed partitions, if this job did not do it. */
static void sync_set_apply(struct log *log, struct writeback_job *job, bool is_synced)
{
    struct sync_set *set = &log->writeback.sync;
    *set = (struct sync_set){0};
    if (!is_synced) {
        set->all = job->sync.all;
        for (uint32_t i = 0; i < job->sync.count; i++) {
            if (!job->sync.entries[i].partition->removed) {
                set->entries[set->count++] = job->sync.entries[i];
            } else {
                segment_hold_close(&job->sync.entries[i].hold);
            }
        }
    }
    for (uint32_t i = 0; i < job->sync_pinned_count; i++) {
        job->sync.entries[i].partition->pins--;
        partition_free_if_unused(job->sync.entries[i].partition);
    }
}

void writeback_job_apply(struct log *log, struct writeback_job *job)
{
    bool is_synced =
        job->is_checkpoint && status_is_ok(job->write_result) && status_is_ok(job->sync_result);
    sync_set_apply(log, job, is_synced);
    job->sync = (struct sync_set){0};
    for (uint32_t i = 0; i < job->item_count; i++) {
        item_apply(log, &job->items[i]);
    }
    writeback_job_free(job);
}

void writeback_job_free(struct writeback_job *job)
{
    for (uint32_t i = 0; i < job->item_count && job->items != NULL; i++) {
        free(job->items[i].write.created);
    }
    for (uint32_t i = 0; i < job->sync.count; i++) {
        segment_hold_close(&job->sync.entries[i].hold);
    }
    job->sync.count = 0;
    free(job->items);
    free(job->batches);
    free(job->body);
    job->items = NULL;
    job->batches = NULL;
    job->body = NULL;
    job->item_count = 0;
}
