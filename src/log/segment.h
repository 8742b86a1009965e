/*
 * Segment files of one partition, in Kafka's format: <dir>/<topic>-<index>/%020d.log, .index,
 * .timeindex and partition.metadata. Blocking functions for helper threads and recovery; they own
 * nothing and share nothing. They are given only committed batches (I4).
 *
 * .log        record batches, magic 2, one behind the other
 * .index      8-byte entries {int32 relative offset, int32 position}, big-endian, one for about
 *             every index.interval.bytes, naming the batch that starts at `position`
 * .timeindex  12-byte entries {int64 timestamp, int32 relative offset}, timestamps ascending
 */
#ifndef TWINLOG_LOG_SEGMENT_H
#define TWINLOG_LOG_SEGMENT_H

#include <stdio.h>

#include "twinlog/core/uuid.h"
#include "twinlog/io/disk.h"
#include "twinlog/protocol/batch.h"

#define SEGMENT_NAME_SIZE 32 /* "%020d.timeindex" and the NUL */

/* What is known of one segment file. */
struct segment {
    int64_t base_offset;
    uint64_t size;         /* bytes of .log */
    int64_t max_timestamp; /* -1: not known yet or none */
};

/* The tail of the active segment, as the writer needs it; kept by the partition. */
struct segment_tail {
    int64_t base_offset;     /* of the active segment; -1: there is none yet */
    uint64_t size;           /* bytes of .log */
    uint32_t unindexed_size; /* bytes since the last index entry */
    int64_t max_timestamp;   /* largest so far in the segment; -1: none */
    int64_t max_timestamp_offset;
    int64_t indexed_timestamp; /* last one in .timeindex; -1: none */
};

/* One committed batch to be written. */
struct segment_batch {
    const uint8_t *data;
    uint32_t size;
    bool roll; /* a new segment starts with this batch */
};

struct segment_write {
    const char *dir; /* the partition's directory */
    const struct uuid *topic_id;
    uint32_t index_interval_size;
    const struct segment_batch *batches;
    uint32_t batch_count;
    bool starts_empty; /* behind the batches an empty segment starts, at `empty_base` */
    int64_t empty_base;
    struct segment_tail tail; /* in and out; unchanged on failure */
    struct segment *created;  /* out: segments started by this write, malloc'd */
    uint32_t created_count;
    uint64_t finished_size; /* out: final size of the segment that was active before, if rolled */
    int64_t finished_max_timestamp;
    bool directory_created; /* out: the parent directory needs a sync */
};

/*
 * Appends the batches to the active segment at tail.size (whatever was beyond is overwritten),
 * creating directory, partition.metadata and files as needed, rolling where told, unless an empty
 * segment stands there, and where no segment is active. Space is reserved before writing. Nothing
 * is synced. NO_SPACE, IO, ...: bytes beyond `tail` may exist and do not count.
 */
MUST_USE status segment_append(struct io_disk *disk, struct segment_write *write);

/*
 * The files of one segment, open from before a write until the sync of it: the kernel tells of a
 * write-out that failed only while the inode is in memory, and an open file keeps it there.
 */
struct segment_hold {
    struct io_file *files[3]; /* .log, .index, .timeindex */
};

/* Opens all of them, or none. NOT_FOUND: one of them is not there. */
MUST_USE status segment_hold_open(struct io_disk *disk, const char *dir, int64_t base_offset,
                                  struct segment_hold *hold);

/* fdatasyncs them. */
MUST_USE status segment_hold_sync(const struct segment_hold *hold);

/* Closes what is open; it may be closed already. */
void segment_hold_close(struct segment_hold *hold);

/*
 * Recovery: cuts the active segment to `tail.size` bytes and its indexes to what lies below,
 * removes segments with a higher base offset. OK when nothing is there and tail.base_offset is -1.
 */
MUST_USE status segment_cut(struct io_disk *disk, const char *dir, const struct segment_tail *tail);

/* Whether the active segment of `tail` is there with at least its size. Says nothing on the trace.
 */
MUST_USE status segment_tail_find(struct io_disk *disk, const char *dir,
                                  const struct segment_tail *tail, bool *found);

/* Lists the segments, ascending; *segments is malloc'd. A missing directory gives count 0. */
MUST_USE status segment_list(struct io_disk *disk, const char *dir, struct segment **segments,
                             uint32_t *count);

/*
 * Reads whole batches from the one that contains `offset`, up to `size_max` bytes and below
 * `position_max` (the size known to hold committed batches) and with base offsets below
 * `offset_max`, up to which the segment has all offsets (I4). `whole_first`: the first batch comes
 * whole whatever size_max. CRCs are checked. *data is malloc'd, NULL when nothing was found.
 * CORRUPT: the first batch is damaged, or the one with `offset` is not there (path and position on
 * the trace).
 */
MUST_USE status segment_read(struct io_disk *disk, const char *dir, int64_t base_offset,
                             uint64_t position_max, int64_t offset, int64_t offset_max,
                             uint32_t size_max, bool whole_first, uint8_t **data, uint32_t *size);

/*
 * The first record with timestamp >= `timestamp` at an offset >= `offset_min` in the segment.
 * NOT_FOUND: none.
 */
MUST_USE status segment_find_timestamp(struct io_disk *disk, const char *dir, int64_t base_offset,
                                       uint64_t position_max, int64_t offset_min, int64_t timestamp,
                                       int64_t *offset, int64_t *found_timestamp);

/* Looks into one batch for the same; for batches in memory too. NOT_FOUND: none. */
MUST_USE status segment_batch_find_timestamp(const uint8_t *batch, uint32_t size,
                                             int64_t offset_min, int64_t timestamp, int64_t *offset,
                                             int64_t *found_timestamp);

/*
 * The largest timestamp of a segment that is not active, as its time index tells, or its batches
 * when there is none; -1: no batch has one. NOT_FOUND: the segment is gone.
 */
MUST_USE status segment_max_timestamp(struct io_disk *disk, const char *dir, int64_t base_offset,
                                      uint64_t position_max, int64_t *timestamp);

/* When the .log was last written to, wall clock. NOT_FOUND: the segment is gone. */
MUST_USE status segment_modified_ms(struct io_disk *disk, const char *dir, int64_t base_offset,
                                    int64_t *modified_ms);

/* Removes the files of one segment; OK when they are not there. */
MUST_USE status segment_remove(struct io_disk *disk, const char *dir, int64_t base_offset);

/* Removes a partition's directory and all in it; OK when it is not there. */
MUST_USE status segment_remove_all(struct io_disk *disk, const char *dir);

/* dump-log for .log, .index and .timeindex. */
MUST_USE status segment_dump(struct io_disk *disk, const char *path, bool deep, bool print_values,
                             FILE *out);

#endif
