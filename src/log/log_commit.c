/*
 * From synced to committed to forgotten: which chunk entries a frame has, what happens to them when
 * its LSN commits, who is told, and how a chunk whose entries are all in segment files is freed.
 */
#include <stdlib.h>

#include "log_state.h"

#define MARKS_CAPACITY_FIRST 64u

/* ---------------------------------------------------------------- marks */

static struct commit_mark *mark_at(const struct commit_marks *marks, uint64_t at)
{
    ASSERT(at - marks->first < marks->end - marks->first);
    return &marks->marks[at & (marks->capacity - 1)];
}

static bool marks_reserve(struct commit_marks *marks)
{
    if (marks->end - marks->first < marks->capacity) {
        return true;
    }
    uint32_t capacity = MAX(MARKS_CAPACITY_FIRST, 2 * marks->capacity);
    struct commit_mark *grown = malloc(capacity * sizeof(*grown));
    if (grown == NULL) {
        return false;
    }
    for (uint64_t at = marks->first; at < marks->end; at++) {
        grown[at & (capacity - 1)] = *mark_at(marks, at);
    }
    free(marks->marks);
    marks->marks = grown;
    marks->capacity = capacity;
    return true;
}

bool log_mark_add(struct log *log, uint64_t lsn, struct chunk *chunk)
{
    struct commit_marks *marks = &log->marks;
    if (marks->first < marks->end) {
        struct commit_mark *last = mark_at(marks, marks->end - 1);
        ASSERT(last->lsn <= lsn);
        if (last->lsn == lsn) {
            ASSERT(last->chunk == chunk); /* A frame lies in one chunk. */
            last->count++;
            return true;
        }
    }
    if (!marks_reserve(marks)) {
        return false;
    }
    marks->end++;
    *mark_at(marks, marks->end - 1) = (struct commit_mark){lsn, chunk, chunk->entry_count - 1, 1};
    return true;
}

/* ---------------------------------------------------------------- commit */

/* Moves high watermarks; `touched` collects each partition once, newest first. */
static void commit_entries(const struct commit_mark *mark, struct partition **touched)
{
    for (uint32_t i = mark->first; i < mark->first + mark->count; i++) {
        const struct chunk_entry *entry = &mark->chunk->entries[i];
        struct partition *partition = entry->partition;
        if (partition->removed) {
            continue;
        }
        ASSERT(entry->end_offset > partition->high_watermark); /* I8 */
        ASSERT(partition->tail.committed < partition->tail.end);
        partition->high_watermark = entry->end_offset;
        partition->tail.committed++;
        if (!partition->touched) {
            partition->touched = true;
            partition->pins++;
            partition->touched_next = *touched;
            *touched = partition;
        }
    }
}

/* Publishes what the commit added to the metadata partition, in order (I6). */
static void metadata_publish(struct log *log, uint64_t from)
{
    const struct partition_tail *tail = &log->metadata->tail;
    for (uint64_t at = from; at < tail->committed; at++) {
        const struct tail_entry *entry = tail_at(tail, at);
        log->options.events.on_metadata(log->options.context,
                                        (struct bytes){entry->data, entry->size});
    }
}

/* Brings a partition's books up to its new high watermark. */
static void partition_committed(struct log *log, struct partition *partition, uint64_t lsn)
{
    const struct partition_tail *tail = &partition->tail;
    const struct tail_entry *last = tail_at(tail, tail->committed - 1);
    uint64_t committed_size = last->position + last->size;
    log->dirty_bytes += committed_size - partition->committed_size;
    partition->committed_size = committed_size;
    if (partition->producers != NULL) {
        producer_commit(partition->producers, lsn);
    }
    if (!list_node_is_linked(&partition->dirty_link)) {
        list_push_back(&log->dirty, &partition->dirty_link);
        log->dirty_count++;
    }
}

void log_commit_to(struct log *log, uint64_t lsn)
{
    ASSERT(lsn >= log->committed_lsn);
    struct commit_marks *marks = &log->marks;
    struct partition *touched = NULL;
    uint64_t metadata_from = log->metadata->tail.committed;
    while (marks->first < marks->end && mark_at(marks, marks->first)->lsn <= lsn) {
        commit_entries(mark_at(marks, marks->first), &touched);
        marks->first++;
    }
    log->committed_lsn = lsn;
    log_starts_commit(log, lsn);
    for (struct partition *p = touched; p != NULL; p = p->touched_next) {
        partition_committed(log, p, lsn);
    }
    /* The log is consistent from here on: whoever is told may do anything with it. */
    metadata_publish(log, metadata_from);
    while (touched != NULL) {
        struct partition *partition = touched;
        touched = partition->touched_next;
        partition->touched = false;
        partition->touched_next = NULL;
        if (!list_is_empty(&partition->watches)) {
            partition_watches_tell(partition);
        }
        partition->pins--;
        partition_free_if_unused(partition);
    }
    log_waits_run(log);
}

/* ---------------------------------------------------------------- waits */

static void wait_add(struct log *log, struct list *waits, struct log_wait *wait)
{
    /* Nearly always the newest: the walk from the end stops at once. */
    struct list_node *place = waits->head.prev;
    while (place != &waits->head && CONTAINER_OF(place, struct log_wait, link)->lsn > wait->lsn) {
        place = place->prev;
    }
    list_insert_before(place->next, &wait->link);
    if (log->offline || log_waits_are_due(log)) {
        log_kick(log);
    }
}

void log_wait_synced(struct log *log, struct log_wait *wait, uint64_t lsn, log_wait_fn fn)
{
    wait->lsn = lsn;
    wait->fn = fn;
    wait_add(log, &log->synced_waits, wait);
}

void log_wait_committed(struct log *log, struct log_wait *wait, uint64_t lsn, log_wait_fn fn)
{
    wait->lsn = lsn;
    wait->fn = fn;
    wait_add(log, &log->committed_waits, wait);
}

void log_wait_cancel(struct log_wait *wait)
{
    if (list_node_is_linked(&wait->link)) {
        list_remove(&wait->link);
    }
}

static bool wait_is_due(const struct list *waits, uint64_t lsn)
{
    struct list_node *first = list_first(waits);
    return first != NULL && CONTAINER_OF(first, struct log_wait, link)->lsn <= lsn;
}

bool log_waits_are_due(const struct log *log)
{
    return wait_is_due(&log->synced_waits, log->synced_lsn) ||
           wait_is_due(&log->committed_waits, log->committed_lsn);
}

static void waits_complete(struct list *waits, uint64_t lsn, status result)
{
    while (wait_is_due(waits, lsn)) {
        struct log_wait *wait = CONTAINER_OF(list_pop_front(waits), struct log_wait, link);
        wait->result = result;
        wait->fn(wait);
    }
}

void log_waits_run(struct log *log)
{
    waits_complete(&log->synced_waits, log->synced_lsn, OK);
    waits_complete(&log->committed_waits, log->committed_lsn, OK);
    if (log->offline) {
        waits_complete(&log->synced_waits, UINT64_MAX, STATUS(OFFLINE));
        waits_complete(&log->committed_waits, UINT64_MAX, STATUS(OFFLINE));
    }
}

/* ---------------------------------------------------------------- evict */

/*
 * Whether everything in the chunk is in segment files, nobody reads or writes it, and no frame of
 * it waits for its commit (entries of a removed partition count as written before that).
 */
static bool chunk_is_evictable(const struct log *log, const struct chunk *chunk)
{
    const struct commit_marks *marks = &log->marks;
    return chunk->refs == 0 && chunk->unwritten_count == 0 &&
           (marks->first == marks->end || mark_at(marks, marks->first)->chunk != chunk);
}

static void chunk_evict(struct log *log, struct chunk *chunk)
{
    for (uint32_t i = 0; i < chunk->entry_count; i++) {
        struct partition *partition = chunk->entries[i].partition;
        struct partition_tail *tail = &partition->tail;
        ASSERT(tail->first < tail->written);
        ASSERT(tail_at(tail, tail->first)->chunk == chunk);
        tail->first++;
        ASSERT(partition->chunk_refs > 0);
        partition->chunk_refs--;
        if (partition->chunk_refs == 0) {
            partition_tail_trim(partition);
            partition_free_if_unused(partition);
        }
    }
    chunk->entry_count = 0;
    chunk_give(&log->pool, chunk);
}

void log_evict(struct log *log, uint32_t size)
{
    while (size == 0 || !chunk_pool_has_room(&log->pool, size)) {
        struct list_node *oldest = list_first(&log->pool.used);
        if (oldest == NULL) {
            return;
        }
        struct chunk *chunk = CONTAINER_OF(oldest, struct chunk, link);
        if (!chunk_is_evictable(log, chunk)) {
            return;
        }
        chunk_evict(log, chunk);
    }
}
