/*
 * Reads: from the tail at once, by copying; from segment files in the READ lane. Only what is
 * committed is visible (I8), and what was evicted from the tail is always in segments.
 */
#include "read.h"

#include <stdlib.h>

#include "twinlog/core/trace.h"

/* ---------------------------------------------------------------- views */

status segment_view_open(struct segment_view *view, struct partition *partition, int64_t offset)
{
    *view = (struct segment_view){
        .disk = io_disk(partition->log->io),
        .dir = partition->dir,
        .end_offset = partition->written_end,
        .load = !partition->segments_loaded,
        .version = partition->segments_version,
        .tail = partition->segment_tail,
    };
    if (!view->load && partition->segment_count > 0) {
        struct segment_view all = {.segments = partition->segments,
                                   .count = partition->segment_count,
                                   .end_offset = partition->written_end};
        uint32_t first = segment_view_find(&all, offset);
        view->count = MIN(partition->segment_count - first, READ_VIEW_MAX);
        view->segments = malloc((view->count + 1) * sizeof(*view->segments));
        if (view->segments == NULL) {
            return STATUS(NO_MEMORY);
        }
        if (view->count > 0) {
            memcpy(view->segments, partition->segments + first,
                   view->count * sizeof(*view->segments));
            view->end_offset = segment_view_end(&all, first + view->count - 1);
        }
    }
    partition->pins++;
    return OK;
}

status segment_view_load(struct segment_view *view)
{
    if (!view->load) {
        return OK;
    }
    TRY(segment_list(view->disk, view->dir, &view->segments, &view->count));
    /* Later ones are what a write in flight, or one that does not count, has made. */
    while (view->count > 0 &&
           view->segments[view->count - 1].base_offset > view->tail.base_offset) {
        view->count--;
    }
    bool has_active =
        view->count > 0 && view->segments[view->count - 1].base_offset == view->tail.base_offset;
    if (!has_active && view->tail.base_offset >= 0) {
        /* Nothing removes the active segment: without it a read would step over what is missing. */
        free(view->segments);
        view->segments = NULL;
        view->count = 0;
        return STATUS(NOT_FOUND);
    }
    if (has_active) {
        view->segments[view->count - 1].size = view->tail.size;
        view->segments[view->count - 1].max_timestamp = view->tail.max_timestamp;
    }
    return OK;
}

uint32_t segment_view_find(const struct segment_view *view, int64_t offset)
{
    uint32_t low = 0;
    uint32_t high = view->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (segment_view_end(view, middle) <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t segment_view_end(const struct segment_view *view, uint32_t index)
{
    return index + 1 < view->count ? view->segments[index + 1].base_offset : view->end_offset;
}

void segment_view_close(struct segment_view *view, struct partition *partition)
{
    if (view->load && view->segments != NULL) {
        partition_segments_load(partition, view->version, view->segments, view->count);
    } else {
        free(view->segments);
    }
    view->segments = NULL;
    partition->pins--;
    partition_free_if_unused(partition);
}

/* ---------------------------------------------------------------- flights */

void read_flight_start(struct read_flight *flight, struct io_job *job, io_job_fn work,
                       io_job_fn done)
{
    struct log *log = flight->log;
    list_push_back(&log->reads, &flight->link);
    log->job_count++;
    io_offload(log->io, IO_LANE_READ, job, work, done);
}

void read_flight_end(struct read_flight *flight, bool *removed)
{
    flight->log->job_count--;
    list_remove(&flight->link);
    *removed = flight->partition->removed;
    segment_view_close(&flight->view, flight->partition);
}

void log_reads_free(struct log *log)
{
    struct list_node *node;
    while ((node = list_pop_front(&log->reads)) != NULL) {
        struct read_flight *flight = CONTAINER_OF(node, struct read_flight, link);
        free(flight->view.segments);
        free(flight->data);
        free(flight); /* It is the first member of what was allocated. */
    }
}

/* ---------------------------------------------------------------- reads */

struct read_state {
    struct read_flight flight;
    struct log_read *read;
    int64_t offset; /* where to go on */
    uint32_t size;
    status result;
};

_Static_assert(offsetof(struct read_state, flight) == 0, "freed through its flight");

static status read_tail(const struct partition *partition, struct log_read *read, int64_t offset)
{
    const struct partition_tail *tail = &partition->tail;
    uint32_t size_max = MIN(read->size_max, READ_SIZE_MAX);
    uint64_t first = partition_tail_find(partition, offset);
    uint64_t size = 0;
    uint64_t at = first;
    for (; at < tail->committed; at++) {
        uint32_t batch_size = tail_at(tail, at)->size;
        bool is_owed = at == first && read->whole_first;
        if (size + batch_size > size_max && !is_owed) {
            break;
        }
        size += batch_size;
    }
    if (size == 0) {
        return OK;
    }
    read->data = malloc(size);
    if (read->data == NULL) {
        return STATUS(NO_MEMORY);
    }
    for (uint64_t i = first; i < at; i++) {
        const struct tail_entry *entry = tail_at(tail, i);
        memcpy(read->data + read->size, entry->data, entry->size);
        read->size += entry->size;
    }
    return OK;
}

static void read_work(struct io_job *job)
{
    struct read_state *state = job->context;
    struct segment_view *view = &state->flight.view;
    uint32_t size_max = MIN(state->read->size_max, READ_SIZE_MAX);
    state->result = segment_view_load(view);
    uint32_t i = segment_view_find(view, state->offset);
    for (; i < view->count && status_is_ok(state->result) && state->size == 0; i++) {
        int64_t end_offset = segment_view_end(view, i);
        /* Whole: an empty answer then means that the segment has nothing from there on. */
        state->result = segment_read(view->disk, view->dir, view->segments[i].base_offset,
                                     view->segments[i].size, state->offset, end_offset, size_max,
                                     true, &state->flight.data, &state->size);
        if (state->size == 0) {
            state->offset = end_offset;
        }
    }
    if (state->size == 0 && status_is_ok(state->result)) {
        state->offset = MAX(state->offset, view->end_offset);
    }
}

/* True when it is done, or failed to start. */
static bool read_advance(struct log *log, struct partition *partition, struct log_read *read,
                         int64_t offset);

static void read_on_done(struct io_job *job)
{
    struct read_state *state = job->context;
    struct log_read *read = state->read;
    struct log *log = state->flight.log;
    struct partition *partition = state->flight.partition;
    bool removed = false;
    read_flight_end(&state->flight, &removed);
    /* What lies below the log start, which may have moved meanwhile, is out of range. */
    bool is_gone = removed || read->offset < partition->log_start;
    status result = is_gone ? STATUS(NOT_FOUND) : state->result;
    if (result.code == STATUS_NOT_FOUND && !is_gone) {
        trace_error("log", "a segment file of %s is missing: restore it", partition->dir);
        result = STATUS(CORRUPT);
    }
    bool is_done = true;
    read->result = result;
    if (!status_is_ok(result) || (state->size > read->size_max && !read->whole_first)) {
        free(
            state->flight.data); /* A first batch that is too large to be asked for is not given. */
    } else if (state->size > 0) {
        read->data = state->flight.data;
        read->size = state->size;
    } else {
        is_done = read_advance(log, partition, read, state->offset);
    }
    free(state);
    if (is_done) {
        read->fn(read);
    }
}

static status read_offload(struct log *log, struct partition *partition, struct log_read *read,
                           int64_t offset)
{
    struct read_state *state = calloc(1, sizeof(*state));
    if (state == NULL) {
        return STATUS(NO_MEMORY);
    }
    state->flight.log = log;
    state->flight.partition = partition;
    state->read = read;
    state->offset = offset;
    status s = segment_view_open(&state->flight.view, partition, offset);
    if (!status_is_ok(s)) {
        free(state);
        return s;
    }
    read->job.context = state;
    read_flight_start(&state->flight, &read->job, read_work, read_on_done);
    return OK;
}

static bool read_advance(struct log *log, struct partition *partition, struct log_read *read,
                         int64_t offset)
{
    if (offset >= partition->high_watermark) {
        read->result = OK;
        return true;
    }
    if (offset >= partition_tail_start(partition)) {
        read->result = read_tail(partition, read, offset);
        return true;
    }
    read->result = read_offload(log, partition, read, offset);
    return !status_is_ok(read->result);
}

bool log_read_start(struct log *log, struct partition *partition, struct log_read *read)
{
    ASSERT(!partition->removed);
    read->data = NULL;
    read->size = 0;
    if (read->offset < partition->log_start || read->offset > partition->high_watermark) {
        read->result = STATUS(NOT_FOUND);
        return true;
    }
    return read_advance(log, partition, read, read->offset);
}
