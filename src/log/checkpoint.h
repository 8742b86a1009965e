/*
 * The checkpoint file of a shard, A/B: <dir>/checkpoint.<shard>.<0|1>. A write goes to the older
 * one and is synced; the newest valid one counts. Layout: head of checkpoint.c.
 */
#ifndef TWINLOG_LOG_CHECKPOINT_H
#define TWINLOG_LOG_CHECKPOINT_H

#include <stdio.h>

#include "twinlog/core/bytes.h"
#include "twinlog/core/uuid.h"
#include "twinlog/io/disk.h"

#include "journal.h"

struct checkpoint_header {
    uint64_t sequence; /* the higher valid one wins */
    struct uuid directory_id;
    uint32_t shard;
    uint32_t epoch; /* leader epoch in force */
    bool clean;     /* written by a clean shutdown */
    struct journal_start start;
};

/*
 * Writes sequence, header and `body` (the log's own encoding of partitions and producers) to the
 * older or invalid file and syncs file and directory. Blocking. After OK the header is what
 * recovery finds. INVALID: the sequence is not above that of the newest valid one. On failure the
 * newest one still stands.
 */
MUST_USE status checkpoint_write(struct io_disk *disk, const char *dir,
                                 const struct checkpoint_header *header, struct bytes body);

/*
 * Reads the newest valid one; *body is malloc'd. It may have been found in caches only, so it is
 * first written once more in place and synced: the next write may then give up the other one. The
 * caller therefore holds the directory's lock.
 * NOT_FOUND: none was ever completed (replay from LSN 1 with an empty list of generations, which
 * finds out if that is not so); CORRUPT: both are there and none is valid; MISMATCH: of
 * another directory or shard; UNSUPPORTED: a newer version; IO.
 */
MUST_USE status checkpoint_read(struct io_disk *disk, const char *dir, uint32_t shard,
                                const struct uuid *directory_id, struct checkpoint_header *header,
                                uint8_t **body, size_t *body_size);

/*
 * Whether the newest valid one was written by a clean shutdown; writes nothing. Also false when
 * there is none. IO, NO_MEMORY.
 */
MUST_USE status checkpoint_is_clean(struct io_disk *disk, const char *dir, uint32_t shard,
                                    bool *is_clean);

/* Prints a checkpoint file for dump-log. */
MUST_USE status checkpoint_dump(struct io_disk *disk, const char *path, FILE *out);

#endif
