/* Names, opening and walking of segment files; shared by segment_*.c only. */
#ifndef TWINLOG_LOG_SEGMENT_FILES_H
#define TWINLOG_LOG_SEGMENT_FILES_H

#include "segment.h"

#define SEGMENT_PATH_SIZE        4096
#define SEGMENT_INDEX_ENTRY_SIZE 8u
#define SEGMENT_TIME_ENTRY_SIZE  12u

/* Records of one batch are opened up to this size; beyond it answers are per batch. */
#define SEGMENT_DECOMPRESSED_MAX (256u << 20)

/* Writes "<dir>/%020d<suffix>"; INVALID when it does not fit. */
MUST_USE status segment_path(char path[SEGMENT_PATH_SIZE], const char *dir, int64_t base_offset,
                             const char *suffix);

/* Reads entry `index` of an .index or .timeindex into `entry`. */
MUST_USE status segment_entry_read(struct io_file *file, uint64_t index, uint32_t entry_size,
                                   uint8_t *entry);

/* Walks the batches of a .log through a window that grows to the batch looked at. */
struct segment_cursor {
    struct io_file *file;
    const char *path;      /* for the trace; the caller's */
    uint64_t position_max; /* bytes that may be looked at */
    uint8_t *window;
    size_t window_capacity;
    uint64_t window_position;
    size_t window_size;
};

/* Opens the .log of a segment; the cursor must be closed on OK. */
MUST_USE status segment_cursor_open(struct segment_cursor *cursor, struct io_disk *disk,
                                    const char *path, uint64_t position_max);

/*
 * The header of the batch at `position`: OK, NOT_FOUND at position_max, CORRUPT when no whole batch
 * starts there.
 */
MUST_USE status segment_cursor_header(struct segment_cursor *cursor, uint64_t position,
                                      struct batch_header *header);

/* The whole batch that segment_cursor_header() found; valid until the cursor is used again. */
MUST_USE status segment_cursor_batch(struct segment_cursor *cursor, uint64_t position,
                                     const struct batch_header *header, const uint8_t **batch);

/* Closes the file and frees the window. */
void segment_cursor_close(struct segment_cursor *cursor);

/* Says on the trace that a batch is damaged, and gives CORRUPT. */
status segment_corrupt(const char *path, uint64_t position, const char *what);

#endif
