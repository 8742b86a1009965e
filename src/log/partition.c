#include "partition.h"

#include <stdio.h>
#include <stdlib.h>

#include "log_state.h"

#define TAIL_CAPACITY_FIRST 8u

static const struct partition_state partition_state_empty = {
    .first_timestamp = -1,
    .segment_tail = {.base_offset = -1,
                     .max_timestamp = -1,
                     .max_timestamp_offset = -1,
                     .indexed_timestamp = -1},
};

/* What of a new active segment, or of one found at a start, does not come from its batches. */
static void active_draw(struct partition *partition)
{
    int64_t bound_ms = MIN(partition->config.segment_jitter_ms, partition->config.segment_ms);
    partition->active.created_ms = io_wall_ms(partition->log->io);
    partition->active.jitter_ms =
        bound_ms > 0 ? (int64_t)(io_random(partition->log->io) % (uint64_t)bound_ms) : 0;
}

static void partition_state_take(struct partition *partition, struct partition_state *state)
{
    partition->log_start = state->log_start;
    partition->written_end = state->written_end;
    partition->high_watermark = state->written_end;
    partition->log_end = state->written_end;
    partition->written_size = state->written_size;
    partition->written_first_timestamp = state->first_timestamp;
    partition->segment_tail = state->segment_tail;
    partition->roll_pending = state->roll;
    partition->producers = state->producers;
    partition->epochs = state->epochs;
    partition->checkpoint_base = state->segment_tail.base_offset;
    partition->trim_wanted = state->trim;
    state->producers = NULL;
    state->epochs = (struct epochs){0};
    partition->active = (struct partition_active){.base_offset = state->segment_tail.base_offset,
                                                  .size = state->segment_tail.size,
                                                  .first_timestamp = state->first_timestamp};
    active_draw(partition);
}

struct partition *partition_create(struct log *log, const char *topic,
                                   const struct partition_key *key,
                                   const struct partition_config *config,
                                   struct partition_state *state)
{
    struct partition *partition = calloc(1, sizeof(*partition));
    if (partition == NULL) {
        return NULL;
    }
    partition->key = *key;
    partition->log = log;
    partition->config = *config;
    list_init(&partition->watches);
    partition->topic = strdup(topic);
    if (partition->topic == NULL ||
        asprintf(&partition->dir, "%s/%s-%d", log->options.dir, topic, key->index) < 0) {
        free(partition->topic);
        free(partition);
        return NULL;
    }
    struct partition_state empty = partition_state_empty;
    partition_state_take(partition, state != NULL ? state : &empty);
    /* Files of an earlier life, or of a deleted topic of this name, may be there. */
    partition->needs_cut = true;
    return partition;
}

void partition_free(struct partition *partition)
{
    producer_destroy(partition->producers);
    epochs_fini(&partition->epochs);
    free(partition->segments);
    free(partition->tail.entries);
    free(partition->dir);
    free(partition->topic);
    free(partition);
}

void partition_free_if_unused(struct partition *partition)
{
    if (!partition->removed || partition->chunk_refs > 0 || partition->pins > 0) {
        return;
    }
    ASSERT(partition->tail.first == partition->tail.end);
    ASSERT(!list_node_is_linked(&partition->dirty_link));
    list_remove(&partition->removed_link);
    partition_free(partition);
}

/* ---------------------------------------------------------------- tail */

bool partition_tail_reserve(struct partition *partition)
{
    struct partition_tail *tail = &partition->tail;
    if (tail->end - tail->first < tail->capacity) {
        return true;
    }
    uint32_t capacity = MAX(TAIL_CAPACITY_FIRST, 2 * tail->capacity);
    struct tail_entry *entries = malloc(capacity * sizeof(*entries));
    if (entries == NULL) {
        return false;
    }
    for (uint64_t at = tail->first; at < tail->end; at++) {
        entries[at & (capacity - 1)] = *tail_at(tail, at);
    }
    free(tail->entries);
    tail->entries = entries;
    tail->capacity = capacity;
    return true;
}

void partition_tail_add(struct partition *partition, struct chunk *chunk, const uint8_t *data,
                        const struct batch_header *header, bool roll)
{
    struct partition_tail *tail = &partition->tail;
    ASSERT(tail->end - tail->first < tail->capacity);
    tail->end++;
    *tail_at(tail, tail->end - 1) = (struct tail_entry){
        .base_offset = partition->log_end,
        .data = data,
        .chunk = chunk,
        .position = partition->appended_size,
        .size = header->size,
        .roll = roll,
    };
    struct partition_active *active = &partition->active;
    if (roll || active->base_offset < 0) {
        *active = (struct partition_active){.base_offset = partition->log_end,
                                            .first_timestamp = header->max_timestamp};
        active_draw(partition);
    }
    active->size += header->size;
    partition->appended_size += header->size;
    partition->log_end += (int64_t)header->last_offset_delta + 1;
    partition->roll_pending = false;
}

int64_t partition_tail_end_offset(const struct partition *partition, uint64_t at)
{
    const struct partition_tail *tail = &partition->tail;
    return at + 1 < tail->end ? tail_at(tail, at + 1)->base_offset : partition->log_end;
}

int64_t partition_tail_start(const struct partition *partition)
{
    const struct partition_tail *tail = &partition->tail;
    return tail->first < tail->end ? tail_at(tail, tail->first)->base_offset : partition->log_end;
}

uint64_t partition_tail_find(const struct partition *partition, int64_t offset)
{
    const struct partition_tail *tail = &partition->tail;
    if (offset >= partition->high_watermark) {
        return tail->committed;
    }
    /* Binary search for the last entry with a base offset at or below it. */
    uint64_t low = tail->first;
    uint64_t high = tail->committed;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (tail_at(tail, middle)->base_offset <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

bool partition_rolls_next(const struct partition *partition)
{
    const struct partition_tail *tail = &partition->tail;
    return tail->committed < tail->end ? tail_at(tail, tail->committed)->roll
                                       : partition->roll_pending;
}

bool partition_is_emptied(const struct partition *partition)
{
    return partition->trim_wanted && partition->segment_tail.base_offset >= 0 &&
           partition->segment_tail.size > 0 && partition->log_start == partition->high_watermark &&
           partition->written_end == partition->high_watermark && partition_rolls_next(partition) &&
           partition->roll_lsn <= partition->log->committed_lsn; /* I6 */
}

void partition_tail_forget(struct partition *partition)
{
    struct partition_tail *tail = &partition->tail;
    ASSERT(partition->removed);
    for (; tail->written < tail->end; tail->written++) {
        struct chunk *chunk = tail_at(tail, tail->written)->chunk;
        ASSERT(chunk->unwritten_count > 0);
        chunk->unwritten_count--;
    }
    tail->committed = tail->end;
}

void partition_tail_trim(struct partition *partition)
{
    struct partition_tail *tail = &partition->tail;
    if (tail->first == tail->end && partition->pins == 0) {
        free(tail->entries);
        tail->entries = NULL;
        tail->capacity = 0;
    }
}

/* ---------------------------------------------------------------- watches */

void log_partition_watch(struct partition *partition, struct partition_watch *watch)
{
    ASSERT(!partition->removed);
    list_push_back(&partition->watches, &watch->link);
}

void log_partition_unwatch(struct partition_watch *watch)
{
    if (list_node_is_linked(&watch->link)) {
        list_remove(&watch->link);
    }
}

void partition_watches_tell(struct partition *partition)
{
    /*
     * Each goes back to the partition before it is told, so that it is in a list, and can be taken
     * out, whatever the callback does; one that is added meanwhile is not told this time.
     */
    struct list telling;
    list_init(&telling);
    list_splice(&telling, &partition->watches);
    partition->pins++;
    struct list_node *node;
    while ((node = list_pop_front(&telling)) != NULL) {
        struct partition_watch *watch = CONTAINER_OF(node, struct partition_watch, link);
        bool removed = partition->removed;
        if (!removed) {
            list_push_back(&partition->watches, node);
        }
        watch->fn(watch, removed);
    }
    partition->pins--;
}

/* ---------------------------------------------------------------- segments */

void partition_segments_load(struct partition *partition, uint32_t version,
                             struct segment *segments, uint32_t count)
{
    if (partition->segments_loaded || partition->removed ||
        version != partition->segments_version) {
        free(segments);
        return;
    }
    /* Files beyond the tail are what a write that does not count left behind. */
    while (count > 0 && segments[count - 1].base_offset > partition->segment_tail.base_offset) {
        count--;
    }
    free(partition->segments);
    partition->segments = segments;
    partition->segment_count = count;
    partition->segment_capacity = count;
    partition->segments_loaded = true;
    if (count > 0 && segments[count - 1].base_offset == partition->segment_tail.base_offset) {
        segments[count - 1].size = partition->segment_tail.size;
        segments[count - 1].max_timestamp = partition->segment_tail.max_timestamp;
    }
}

/* A listing does not tell timestamps: what was known of the same files is. */
static void segments_take_timestamps(struct segment *segments, uint32_t count,
                                     const struct segment *known, uint32_t known_count)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        while (at < known_count && known[at].base_offset < segments[i].base_offset) {
            at++;
        }
        if (at < known_count && known[at].base_offset == segments[i].base_offset) {
            segments[i].max_timestamp = known[at].max_timestamp;
        }
    }
}

void partition_segments_replace(struct partition *partition, struct segment *segments,
                                uint32_t count)
{
    if (partition->segments_loaded) {
        segments_take_timestamps(segments, count, partition->segments, partition->segment_count);
    }
    free(partition->segments);
    partition->segments = NULL;
    partition->segment_count = 0;
    partition->segment_capacity = 0;
    partition->segments_loaded = false;
    partition->segments_version++;
    partition_segments_load(partition, partition->segments_version, segments, count);
}

/* False: out of memory; then the files are listed again when they are next wanted. */
static bool partition_segments_reserve(struct partition *partition, uint32_t count)
{
    if (partition->segment_count + count <= partition->segment_capacity) {
        return true;
    }
    uint32_t capacity = MAX(partition->segment_count + count, 2 * partition->segment_capacity);
    struct segment *segments =
        realloc(partition->segments, capacity * sizeof(*partition->segments));
    if (segments == NULL) {
        return false;
    }
    partition->segments = segments;
    partition->segment_capacity = capacity;
    return true;
}

void partition_segments_written(struct partition *partition, const struct segment_write *write)
{
    if (write->created_count > 0) {
        partition->segments_version++;
    }
    if (!partition->segments_loaded && partition->segment_tail.base_offset < 0) {
        partition->segments_loaded = true; /* There was none before: these are all. */
    }
    if (!partition->segments_loaded) {
        return;
    }
    if (!partition_segments_reserve(partition, write->created_count)) {
        partition->segments_loaded = false;
        partition->segment_count = 0;
        return;
    }
    if (partition->segment_count > 0) {
        struct segment *last = &partition->segments[partition->segment_count - 1];
        last->size = write->created_count > 0 ? write->finished_size : write->tail.size;
        last->max_timestamp =
            write->created_count > 0 ? write->finished_max_timestamp : write->tail.max_timestamp;
    }
    for (uint32_t i = 0; i < write->created_count; i++) {
        partition->segments[partition->segment_count++] = write->created[i];
    }
}

/* ---------------------------------------------------------------- table */

struct partition *log_partition_find(struct log *log, const struct uuid *topic_id, int32_t index)
{
    struct partition_key key = {*topic_id, index};
    struct partition *partition = NULL;
    HASH_FIND(hh, log->partitions, &key, sizeof(key), partition);
    return partition;
}

status log_partition_add(struct log *log, const char *topic, const struct uuid *topic_id,
                         int32_t index, const struct partition_config *config,
                         struct partition **partition)
{
    ASSERT(index >= 0);
    *partition = NULL;
    if (log_partition_find(log, topic_id, index) != NULL) {
        return STATUS(EXISTS);
    }
    struct partition_key key = {*topic_id, index};
    struct recovered *recovered = NULL;
    HASH_FIND(hh, log->recovered, &key, sizeof(key), recovered);
    struct partition *added =
        partition_create(log, topic, &key, config, recovered != NULL ? &recovered->state : NULL);
    if (added == NULL) {
        return STATUS(NO_MEMORY);
    }
    HASH_ADD(hh, log->partitions, key, sizeof(added->key), added);
    if (added->hh.tbl == NULL) {
        partition_free(added); /* The producers of a recovered one go with it; so does the open. */
        return STATUS(NO_MEMORY);
    }
    if (recovered != NULL) {
        HASH_DEL(log->recovered, recovered);
        free(recovered);
    }
    retention_want(log, added);
    *partition = added;
    return OK;
}

struct partition *log_metadata_partition(struct log *log)
{
    return log->metadata;
}

void log_partition_configure(struct partition *partition, const struct partition_config *config)
{
    partition->config = *config;
    retention_want(partition->log, partition);
}

/* ---------------------------------------------------------------- facts */

struct partition_offsets log_partition_offsets(const struct partition *partition)
{
    return (struct partition_offsets){
        .log_start = partition->log_start,
        .high_watermark = partition->high_watermark,
        .last_stable = partition->high_watermark,
        .log_end = partition->log_end,
        .leader_epoch = (int32_t)partition->log->epoch,
    };
}

bool log_epoch_end(const struct partition *partition, int32_t epoch, struct log_epoch *end)
{
    int32_t latest = (int32_t)partition->log->epoch;
    struct epoch_start found = {latest, partition->high_watermark};
    bool is_known = epoch == latest || epochs_find_end(&partition->epochs, epoch, latest,
                                                       partition->high_watermark, &found);
    *end = is_known ? (struct log_epoch){found.epoch, found.offset} : (struct log_epoch){-1, -1};
    return is_known;
}

int32_t log_epoch_at(const struct partition *partition, int64_t offset)
{
    return epochs_at(&partition->epochs, offset, (int32_t)partition->log->epoch);
}

uint64_t log_partition_size(const struct partition *partition)
{
    const struct partition_tail *tail = &partition->tail;
    if (tail->written == tail->end) {
        return partition->written_size;
    }
    return partition->written_size + partition->appended_size -
           tail_at(tail, tail->written)->position;
}

uint64_t log_partition_available(const struct partition *partition, int64_t offset)
{
    const struct partition_tail *tail = &partition->tail;
    if (offset >= partition->high_watermark) {
        return 0;
    }
    if (tail->first < tail->committed && offset >= tail_at(tail, tail->first)->base_offset) {
        uint64_t at = partition_tail_find(partition, offset);
        return partition->committed_size - tail_at(tail, at)->position;
    }
    /* Below memory: whatever lies behind the start of its segment, which is never too little. */
    uint64_t size = tail->written < tail->committed
                        ? partition->committed_size - tail_at(tail, tail->written)->position
                        : 0;
    for (uint32_t i = partition->segment_count; i > 0; i--) {
        size += partition->segments[i - 1].size;
        if (partition->segments[i - 1].base_offset <= offset) {
            return size;
        }
    }
    return size + (partition->segments_loaded ? 0 : partition->written_size);
}

uint32_t log_producer_count(const struct partition *partition)
{
    return producer_count(partition->producers);
}

void log_producers_visit(const struct partition *partition,
                         void (*fn)(void *context, const struct log_producer *producer),
                         void *context)
{
    producer_visit(partition->producers, fn, context);
}

void *log_partition_context(const struct partition *partition)
{
    return partition->context;
}

void log_partition_context_set(struct partition *partition, void *context)
{
    partition->context = context;
}

void partition_check(const struct partition *partition)
{
    const struct partition_tail *tail = &partition->tail;
    ASSERT(tail->first <= tail->written);
    ASSERT(tail->written <= tail->committed);
    ASSERT(tail->committed <= tail->end);
    ASSERT(tail->end - tail->first <= tail->capacity);
    if (partition->removed) {
        return;
    }
    ASSERT(partition->log_start <= partition->high_watermark);
    ASSERT(partition->written_end <= partition->high_watermark);
    ASSERT(partition->high_watermark <= partition->log_end);
    /* I4: what is in segments is committed, and the tail goes on where they end. */
    ASSERT(tail->written == tail->end ||
           tail_at(tail, tail->written)->base_offset == partition->written_end);
    ASSERT(tail->committed == tail->end ||
           tail_at(tail, tail->committed)->base_offset == partition->high_watermark);
    ASSERT(list_node_is_linked(&partition->dirty_link) == (tail->written < tail->committed));
    for (uint64_t at = tail->first; at < tail->end; at++) {
        ASSERT(tail_at(tail, at)->base_offset < partition_tail_end_offset(partition, at));
    }
    for (uint32_t i = 1; i < partition->segment_count; i++) {
        ASSERT(partition->segments[i - 1].base_offset < partition->segments[i].base_offset);
    }
}
