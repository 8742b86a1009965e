/*
 * Time lookups (ListOffsets): the first record at or after a time, or the one with the largest
 * timestamp (KIP-734). Segments first, in the READ lane, then the committed tail on the loop, by
 * the headers of its batches; a compressed one that may hold the record is copied and opened in the
 * lane.
 */
#include <stdlib.h>

#include "read.h"

#define BATCH_ATTRIBUTES_AT    21u /* batch.h */
#define BATCH_MAX_TIMESTAMP_AT 35u

struct lookup_state {
    struct read_flight flight;
    struct log_time_lookup *lookup;
    int64_t offset; /* where to go on */
    int64_t offset_min;
    int64_t timestamp;
    bool find_max;
    status result;
    /* The best so far; found_offset -1: none. */
    int64_t found_offset;
    int64_t found_timestamp;
    int32_t leader_epoch;
    /* The batch of the tail that was looked into last: its size, what was asked, what it held. */
    uint32_t batch_size;
    int64_t batch_timestamp;
    int64_t batch_found_offset;
    int64_t batch_found_timestamp;
    /* find_max: batches of the tail that rank before this one were looked into; see tail_ranks. */
    int64_t seen_timestamp;
    int64_t seen_offset;
};

_Static_assert(offsetof(struct lookup_state, flight) == 0, "freed through its flight");

/* ---------------------------------------------------------------- segments */

static status segment_find(const struct lookup_state *state, uint32_t index, int64_t timestamp,
                           int64_t *offset, int64_t *found_timestamp)
{
    const struct segment_view *view = &state->flight.view;
    const struct segment *segment = &view->segments[index];
    return segment_find_timestamp(view->disk, view->dir, segment->base_offset, segment->size,
                                  state->offset_min, timestamp, offset, found_timestamp);
}

/*
 * The first record with the largest timestamp, if that is above `above`. Asks for the first record
 * at or after a time, first in growing steps, then by halving: whatever it finds last, with T, is
 * the first at or after some time <= T where T is the largest, so it is the first one with T.
 */
static status segment_find_max(const struct lookup_state *state, uint32_t index, int64_t above,
                               int64_t *offset, int64_t *found)
{
    int64_t limit = INT64_MAX; /* nothing is at or after this one, as far as is known */
    TRY(segment_find(state, index, above + 1, offset, found));
    uint64_t step = 1;
    while (limit - *found > 1) {
        bool is_open = limit == INT64_MAX;
        uint64_t distance = (uint64_t)(limit - *found);
        uint64_t by = is_open ? MIN(step, distance - 1) : distance / 2;
        int64_t asked = *found + (int64_t)by;
        int64_t next_offset = -1;
        int64_t next_found = -1;
        status s = segment_find(state, index, asked, &next_offset, &next_found);
        if (status_is_ok(s)) {
            *offset = next_offset;
            *found = next_found;
            step *= 2;
        } else if (s.code == STATUS_NOT_FOUND) {
            limit = asked;
        } else {
            return s;
        }
    }
    return OK;
}

static status segment_epoch(const struct lookup_state *state, uint32_t index, int64_t offset,
                            int32_t *leader_epoch)
{
    const struct segment_view *view = &state->flight.view;
    const struct segment *segment = &view->segments[index];
    uint8_t *data = NULL;
    uint32_t size = 0;
    TRY(segment_read(view->disk, view->dir, segment->base_offset, segment->size, offset, offset + 1,
                     0, true, &data, &size));
    struct batch_header header;
    status s = batch_header_read((struct bytes){data, size}, &header);
    if (status_is_ok(s)) {
        *leader_epoch = header.leader_epoch;
    }
    free(data);
    return s;
}

/* True: the search is over. */
static bool lookup_segment(struct lookup_state *state, uint32_t index)
{
    const struct segment *segment = &state->flight.view.segments[index];
    int64_t known = segment->max_timestamp;
    int64_t offset = -1;
    int64_t timestamp = -1;
    if (known >= 0 && known < (state->find_max ? state->found_timestamp + 1 : state->timestamp)) {
        return false;
    }
    status s = !state->find_max ? segment_find(state, index, state->timestamp, &offset, &timestamp)
               : known >= 0
                   ? segment_find(state, index, known, &offset, &timestamp)
                   : segment_find_max(state, index, state->found_timestamp, &offset, &timestamp);
    if (s.code == STATUS_NOT_FOUND) {
        return false;
    }
    if (status_is_ok(s)) {
        s = segment_epoch(state, index, offset, &state->leader_epoch);
        if (s.code == STATUS_NOT_FOUND) {
            return false; /* It was deleted meanwhile: it lies below the log start. */
        }
    }
    state->result = s;
    state->found_offset = offset;
    state->found_timestamp = timestamp;
    return !status_is_ok(s) || !state->find_max;
}

static void lookup_work(struct io_job *job)
{
    struct lookup_state *state = job->context;
    struct segment_view *view = &state->flight.view;
    state->result = segment_view_load(view);
    bool is_over = !status_is_ok(state->result);
    for (uint32_t i = segment_view_find(view, state->offset); i < view->count && !is_over; i++) {
        is_over = lookup_segment(state, i);
    }
    state->offset = MAX(state->offset, view->end_offset);
}

/* ---------------------------------------------------------------- tail */

static int64_t entry_max_timestamp(const struct tail_entry *entry)
{
    return (int64_t)load_be64(entry->data + BATCH_MAX_TIMESTAMP_AT);
}

static bool entry_is_compressed(const struct tail_entry *entry)
{
    return (load_be16(entry->data + BATCH_ATTRIBUTES_AT) & BATCH_CODEC_MASK) != CODEC_NONE;
}

/* The largest timestamp ranks first, and of the same ones the lowest offset. */
static bool tail_ranks(int64_t timestamp, int64_t offset, int64_t than_timestamp,
                       int64_t than_offset)
{
    return timestamp > than_timestamp || (timestamp == than_timestamp && offset < than_offset);
}

/*
 * The next batch of the tail to look into; NULL: none. A header may say more than the records do,
 * so there may be a next one.
 */
static const struct tail_entry *lookup_tail_next(const struct lookup_state *state,
                                                 const struct partition *partition)
{
    const struct partition_tail *tail = &partition->tail;
    const struct tail_entry *best = NULL;
    int64_t wanted = state->find_max ? state->found_timestamp + 1 : state->timestamp;
    for (uint64_t at = partition_tail_find(partition, state->offset); at < tail->committed; at++) {
        const struct tail_entry *entry = tail_at(tail, at);
        int64_t largest = entry_max_timestamp(entry);
        if (largest < wanted) {
            continue;
        }
        if (!state->find_max) {
            return entry;
        }
        if (tail_ranks(state->seen_timestamp, state->seen_offset, largest, entry->base_offset) &&
            (best == NULL || tail_ranks(largest, entry->base_offset, entry_max_timestamp(best),
                                        best->base_offset))) {
            best = entry;
        }
    }
    return best;
}

static void lookup_batch(struct lookup_state *state, const uint8_t *batch)
{
    state->result = segment_batch_find_timestamp(batch, state->batch_size, state->offset_min,
                                                 state->batch_timestamp, &state->batch_found_offset,
                                                 &state->batch_found_timestamp);
}

/* What was found in a batch, which is whole; what comes next is behind it. */
static void lookup_batch_take(struct lookup_state *state, const uint8_t *batch)
{
    struct batch_header header;
    status s = batch_header_read((struct bytes){batch, state->batch_size}, &header);
    ASSERT(status_is_ok(s)); /* It was read when the batch was appended. */
    if (status_is_ok(state->result)) {
        state->found_offset = state->batch_found_offset;
        state->found_timestamp = state->batch_found_timestamp;
        state->leader_epoch = header.leader_epoch;
    } else if (state->result.code == STATUS_NOT_FOUND) {
        state->result = OK;
    }
    if (state->find_max) {
        state->seen_timestamp = header.max_timestamp;
        state->seen_offset = header.base_offset;
    } else {
        state->offset = header.base_offset + header.last_offset_delta + 1;
    }
}

static void lookup_batch_work(struct io_job *job)
{
    struct lookup_state *state = job->context;
    lookup_batch(state, state->flight.data);
}

static void lookup_batch_on_done(struct io_job *job);

/* Gives a copy of the batch to a helper. False: no memory. */
static bool lookup_batch_start(struct lookup_state *state, const struct tail_entry *entry)
{
    state->flight.data = malloc(entry->size);
    if (state->flight.data == NULL) {
        return false;
    }
    memcpy(state->flight.data, entry->data, entry->size);
    state->flight.view = (struct segment_view){0};
    state->flight.partition->pins++; /* Until read_flight_end(). */
    state->lookup->job.context = state;
    read_flight_start(&state->flight, &state->lookup->job, lookup_batch_work, lookup_batch_on_done);
    return true;
}

/* False: a helper is at it. */
static bool lookup_tail(struct lookup_state *state, const struct partition *partition)
{
    const struct tail_entry *entry;
    while (status_is_ok(state->result) && (state->find_max || state->found_offset < 0) &&
           (entry = lookup_tail_next(state, partition)) != NULL) {
        state->batch_size = entry->size;
        state->batch_timestamp = state->find_max ? entry_max_timestamp(entry) : state->timestamp;
        if (!entry_is_compressed(entry)) {
            lookup_batch(state, entry->data);
            lookup_batch_take(state, entry->data);
        } else if (lookup_batch_start(state, entry)) {
            return false;
        } else {
            state->result = STATUS(NO_MEMORY);
        }
    }
    return true;
}

/* ---------------------------------------------------------------- lookups */

static void lookup_finish(struct lookup_state *state, status result)
{
    struct log_time_lookup *lookup = state->lookup;
    bool is_found = status_is_ok(result) && state->found_offset >= 0;
    lookup->result = result;
    lookup->offset = is_found ? state->found_offset : -1;
    lookup->found_timestamp = is_found ? state->found_timestamp : -1;
    lookup->leader_epoch = is_found ? state->leader_epoch : -1;
    free(state);
}

static void lookup_on_done(struct io_job *job);

/* True when it is done, and then the state is gone. */
static bool lookup_advance(struct lookup_state *state)
{
    struct partition *partition = state->flight.partition;
    bool is_found = !state->find_max && state->found_offset >= 0;
    if (!is_found && state->offset < partition_tail_start(partition)) {
        status s = segment_view_open(&state->flight.view, partition, state->offset);
        if (!status_is_ok(s)) {
            lookup_finish(state, s);
            return true;
        }
        state->lookup->job.context = state;
        read_flight_start(&state->flight, &state->lookup->job, lookup_work, lookup_on_done);
        return false;
    }
    if (!is_found && !lookup_tail(state, partition)) {
        return false;
    }
    lookup_finish(state, state->result);
    return true;
}

static void lookup_on_done(struct io_job *job)
{
    struct lookup_state *state = job->context;
    struct log_time_lookup *lookup = state->lookup;
    bool removed = false;
    read_flight_end(&state->flight, &removed);
    if (state->result.code == STATUS_NOT_FOUND) {
        state->result = STATUS(CORRUPT); /* Files are missing, if the partition is not. */
    }
    if (removed || !status_is_ok(state->result)) {
        lookup_finish(state, removed ? STATUS(NOT_FOUND) : state->result);
        lookup->fn(lookup);
    } else if (lookup_advance(state)) {
        lookup->fn(lookup);
    }
}

static void lookup_batch_on_done(struct io_job *job)
{
    struct lookup_state *state = job->context;
    struct log_time_lookup *lookup = state->lookup;
    bool removed = false;
    lookup_batch_take(state, state->flight.data);
    free(state->flight.data);
    state->flight.data = NULL;
    read_flight_end(&state->flight, &removed);
    if (removed || !status_is_ok(state->result)) {
        lookup_finish(state, removed ? STATUS(NOT_FOUND) : state->result);
        lookup->fn(lookup);
    } else if (lookup_advance(state)) {
        lookup->fn(lookup);
    }
}

bool log_time_lookup_start(struct log *log, struct partition *partition,
                           struct log_time_lookup *lookup)
{
    ASSERT(!partition->removed);
    struct lookup_state *state = calloc(1, sizeof(*state));
    if (state == NULL) {
        lookup->result = STATUS(NO_MEMORY);
        return true;
    }
    state->flight.log = log;
    state->flight.partition = partition;
    state->lookup = lookup;
    state->offset = partition->log_start;
    state->offset_min = partition->log_start;
    state->timestamp = lookup->timestamp;
    state->find_max = lookup->find_max;
    state->result = OK;
    state->found_offset = -1;
    state->found_timestamp = -1;
    state->leader_epoch = -1;
    state->seen_timestamp = INT64_MAX;
    state->seen_offset = -1;
    return lookup_advance(state);
}
