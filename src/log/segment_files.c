#include "segment_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/trace.h"

#define CURSOR_WINDOW_SIZE (256u << 10)

status segment_path(char path[SEGMENT_PATH_SIZE], const char *dir, int64_t base_offset,
                    const char *suffix)
{
    int size = snprintf(path, SEGMENT_PATH_SIZE, "%s/%020" PRId64 "%s", dir, base_offset, suffix);
    return size > 0 && size < SEGMENT_PATH_SIZE ? OK : STATUS(INVALID);
}

status segment_entry_read(struct io_file *file, uint64_t index, uint32_t entry_size, uint8_t *entry)
{
    size_t got = 0;
    TRY(io_file_read(file, entry, entry_size, index * entry_size, &got));
    return got == entry_size ? OK : STATUS(TRUNCATED);
}

status segment_corrupt(const char *path, uint64_t position, const char *what)
{
    trace_error("log",
                "segment is damaged: %s: file=%s position=%" PRIu64
                "; restore the file from a replica or a backup",
                what, path, position);
    return STATUS(CORRUPT);
}

status segment_cursor_open(struct segment_cursor *cursor, struct io_disk *disk, const char *path,
                           uint64_t position_max)
{
    *cursor = (struct segment_cursor){.path = path, .position_max = position_max};
    return io_file_open(disk, path, IO_FILE_READ, &cursor->file);
}

void segment_cursor_close(struct segment_cursor *cursor)
{
    io_file_close(cursor->file);
    free(cursor->window);
}

/* Makes [position, position + size) part of the window; size is bounded by position_max. */
static status cursor_fill(struct segment_cursor *cursor, uint64_t position, size_t size)
{
    if (position >= cursor->window_position &&
        position + size <= cursor->window_position + cursor->window_size) {
        return OK;
    }
    size_t wanted = MAX(size, (size_t)CURSOR_WINDOW_SIZE);
    wanted = (size_t)MIN((uint64_t)wanted, cursor->position_max - position);
    if (wanted > cursor->window_capacity) {
        uint8_t *window = realloc(cursor->window, wanted);
        if (window == NULL) {
            return STATUS(NO_MEMORY);
        }
        cursor->window = window;
        cursor->window_capacity = wanted;
    }
    cursor->window_size = 0;
    cursor->window_position = position;
    TRY(io_file_read(cursor->file, cursor->window, wanted, position, &cursor->window_size));
    if (cursor->window_size < size) {
        return segment_corrupt(cursor->path, position, "the file is shorter than recorded");
    }
    return OK;
}

status segment_cursor_header(struct segment_cursor *cursor, uint64_t position,
                             struct batch_header *header)
{
    if (position >= cursor->position_max) {
        return STATUS(NOT_FOUND);
    }
    uint64_t left = cursor->position_max - position;
    if (left < BATCH_HEADER_SIZE) {
        return segment_corrupt(cursor->path, position, "a batch header is cut off");
    }
    TRY(cursor_fill(cursor, position, BATCH_HEADER_SIZE));
    const uint8_t *at = cursor->window + (position - cursor->window_position);
    /* The walk needs the header alone, so the batch behind it may lie outside the window. */
    uint32_t visible = (uint32_t)MIN(left, (uint64_t)UINT32_MAX);
    status s = batch_header_read((struct bytes){at, visible}, header);
    if (!status_is_ok(s)) {
        return segment_corrupt(cursor->path, position, "no whole record batch starts here");
    }
    return OK;
}

status segment_cursor_batch(struct segment_cursor *cursor, uint64_t position,
                            const struct batch_header *header, const uint8_t **batch)
{
    TRY(cursor_fill(cursor, position, header->size));
    *batch = cursor->window + (position - cursor->window_position);
    return OK;
}
