/*
 * What reads and time lookups share: a snapshot of a partition's segment files that a helper thread
 * can walk while the loop goes on.
 */
#ifndef TWINLOG_LOG_READ_H
#define TWINLOG_LOG_READ_H

#include "log_state.h"

#define READ_SIZE_MAX (1u << 20) /* bytes of one read, unless its first batch is larger */
#define READ_VIEW_MAX 64u        /* segments in one view */

/* Segments in ascending order; the last one ends at `end_offset`. */
struct segment_view {
    struct io_disk *disk;
    const char *dir; /* of the pinned partition */
    struct segment *segments;
    uint32_t count;
    int64_t end_offset;       /* behind what the view covers */
    bool load;                /* the files are to be listed first */
    uint32_t version;         /* of the partition's files */
    struct segment_tail tail; /* of the active segment */
};

/*
 * Takes the segments from the one that contains `offset` on, at most READ_VIEW_MAX of them, or
 * notes that they have to be listed. The partition stays pinned until segment_view_close().
 */
MUST_USE status segment_view_open(struct segment_view *view, struct partition *partition,
                                  int64_t offset);

/* On the helper thread: lists the files when that is needed. */
MUST_USE status segment_view_load(struct segment_view *view);

/* The index of the segment that contains `offset`, or the first one behind it; count: none. */
uint32_t segment_view_find(const struct segment_view *view, int64_t offset);

/* The offset behind segment `index`. */
int64_t segment_view_end(const struct segment_view *view, uint32_t index);

/* Gives a listing to the partition, unpins it, and frees the view. May free the partition. */
void segment_view_close(struct segment_view *view, struct partition *partition);

/* A read or lookup in flight, for log_reads_free(). */
struct read_flight {
    struct list_node link; /* in log->reads */
    struct log *log;
    struct partition *partition;
    struct segment_view view;
    uint8_t *data; /* what a read found */
};

/* Enters it in the books and queues its job. */
void read_flight_start(struct read_flight *flight, struct io_job *job, io_job_fn work,
                       io_job_fn done);

/* Takes it out again. May free the partition: *removed tells whether it was removed meanwhile. */
void read_flight_end(struct read_flight *flight, bool *removed);

#endif
