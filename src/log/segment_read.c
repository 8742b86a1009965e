#include "segment_files.h"

#include <inttypes.h>
#include <stdlib.h>

#include "twinlog/core/assert.h"

/*
 * Largest entry whose key is <= `key` in an ascending index; entries that do not count yet
 * (position >= position_max in an offset index) end the search. False: none.
 */
struct index_search {
    uint32_t entry_size;
    int64_t key;
    uint64_t position_max; /* of the .log; for offset indexes only */
};

static int64_t entry_key(const struct index_search *search, const uint8_t *entry)
{
    return search->entry_size == SEGMENT_TIME_ENTRY_SIZE ? (int64_t)load_be64(entry)
                                                         : (int64_t)load_be32(entry);
}

static bool entry_is_beyond(const struct index_search *search, const uint8_t *entry)
{
    return entry_key(search, entry) > search->key ||
           (search->entry_size == SEGMENT_INDEX_ENTRY_SIZE &&
            load_be32(entry + 4) >= search->position_max);
}

static status index_search_open(struct io_file *file, const struct index_search *search,
                                uint8_t *found, bool *any)
{
    uint64_t size = 0;
    TRY(io_file_size(file, &size));
    uint64_t low = 0;
    uint64_t high = size / search->entry_size;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint8_t entry[SEGMENT_TIME_ENTRY_SIZE];
        TRY(segment_entry_read(file, middle, search->entry_size, entry));
        if (entry_is_beyond(search, entry)) {
            high = middle;
        } else {
            memcpy(found, entry, search->entry_size);
            *any = true;
            low = middle + 1;
        }
    }
    return OK;
}

/* A missing index only makes the walk longer. */
static status index_lookup(struct io_disk *disk, const char *dir, int64_t base_offset,
                           const char *suffix, const struct index_search *search, uint8_t *found,
                           bool *any)
{
    char path[SEGMENT_PATH_SIZE];
    struct io_file *file = NULL;
    *any = false;
    TRY(segment_path(path, dir, base_offset, suffix));
    status s = io_file_open(disk, path, IO_FILE_READ, &file);
    if (s.code == STATUS_NOT_FOUND) {
        return OK;
    }
    TRY(s);
    s = index_search_open(file, search, found, any);
    io_file_close(file);
    return s;
}

/* A position at or below the batch that contains `offset`. */
static status position_lookup(struct io_disk *disk, const char *dir, int64_t base_offset,
                              uint64_t position_max, int64_t offset, uint64_t *position)
{
    struct index_search search = {SEGMENT_INDEX_ENTRY_SIZE, offset - base_offset, position_max};
    uint8_t entry[SEGMENT_INDEX_ENTRY_SIZE];
    bool any = false;
    *position = 0;
    if (offset <= base_offset) {
        return OK;
    }
    TRY(index_lookup(disk, dir, base_offset, ".index", &search, entry, &any));
    *position = any ? load_be32(entry + 4) : 0;
    return OK;
}

/* The base offset lies outside the CRC, so it is judged by itself. */
#define OFFSETS_GO_BACK "the offsets of a batch go back"
/* I4: what is not compacted has no gaps; stepping over one would hide records. */
#define OFFSETS_MISSING "offsets are missing in front of it"

/* Walks on to the first batch that ends at or after `offset`; NOT_FOUND: there is none. */
static status batch_find(struct segment_cursor *cursor, uint64_t *position, int64_t offset,
                         struct batch_header *header)
{
    int64_t end_offset = 0;
    for (;;) {
        TRY(segment_cursor_header(cursor, *position, header));
        if (header->base_offset < end_offset) {
            return segment_corrupt(cursor->path, *position, OFFSETS_GO_BACK);
        }
        bool is_first = end_offset == 0;
        if (header->base_offset > offset || (!is_first && header->base_offset > end_offset)) {
            return segment_corrupt(cursor->path, *position, OFFSETS_MISSING);
        }
        end_offset = header->base_offset + header->last_offset_delta + 1;
        if (end_offset > offset) {
            return OK;
        }
        *position += header->size;
    }
}

/*
 * Checks what was read batch by batch and tells how much of it is whole and below offset_max. What
 * lies in front of damage is given; the read that begins with the damage is the one that fails.
 */
static status batches_check(const struct segment_cursor *cursor, uint64_t position,
                            const uint8_t *data, uint32_t size, int64_t offset_max,
                            uint32_t *good_size)
{
    uint32_t at = 0;
    int64_t end_offset = 0;
    while (size - at >= BATCH_HEADER_SIZE) {
        struct batch_header header;
        status s = batch_header_read((struct bytes){data + at, size - at}, &header);
        if (s.code == STATUS_TRUNCATED) {
            break;
        }
        bool is_batch = status_is_ok(s);
        if (is_batch && header.base_offset >= offset_max) {
            break;
        }
        const char *damage = !is_batch                         ? "no record batch starts here"
                             : header.base_offset < end_offset ? OFFSETS_GO_BACK
                             : at > 0 && header.base_offset > end_offset ? OFFSETS_MISSING
                             : !batch_crc_is_valid(data + at, &header)   ? "a batch fails its CRC"
                                                                         : NULL;
        if (damage != NULL && at > 0) {
            break;
        }
        if (damage != NULL) {
            return segment_corrupt(cursor->path, position, damage);
        }
        end_offset = header.base_offset + header.last_offset_delta + 1;
        at += header.size;
    }
    *good_size = at;
    return OK;
}

static status batches_read(struct segment_cursor *cursor, uint64_t position, uint32_t wanted,
                           int64_t offset_max, uint8_t **data, uint32_t *size)
{
    uint32_t read_size = (uint32_t)MIN((uint64_t)wanted, cursor->position_max - position);
    uint8_t *buffer = malloc(read_size);
    if (buffer == NULL) {
        return STATUS(NO_MEMORY);
    }
    size_t got = 0;
    status s = io_file_read(cursor->file, buffer, read_size, position, &got);
    if (status_is_ok(s)) {
        s = batches_check(cursor, position, buffer, (uint32_t)got, offset_max, size);
    }
    if (!status_is_ok(s) || *size == 0) {
        free(buffer);
        *size = 0;
        return s;
    }
    *data = buffer;
    return OK;
}

status segment_read(struct io_disk *disk, const char *dir, int64_t base_offset,
                    uint64_t position_max, int64_t offset, int64_t offset_max, uint32_t size_max,
                    bool whole_first, uint8_t **data, uint32_t *size)
{
    char path[SEGMENT_PATH_SIZE];
    uint64_t position = 0;
    struct segment_cursor cursor;
    struct batch_header header;
    *data = NULL;
    *size = 0;
    TRY(position_lookup(disk, dir, base_offset, position_max, offset, &position));
    TRY(segment_path(path, dir, base_offset, ".log"));
    TRY(segment_cursor_open(&cursor, disk, path, position_max));
    status s = batch_find(&cursor, &position, offset, &header);
    if (status_is_ok(s)) {
        uint32_t wanted = whole_first ? MAX(size_max, header.size) : size_max;
        if (wanted >= header.size && header.base_offset < offset_max) {
            s = batches_read(&cursor, position, wanted, offset_max, data, size);
        }
    }
    if (s.code == STATUS_NOT_FOUND) {
        s = offset < offset_max ? segment_corrupt(path, position, OFFSETS_MISSING) : OK;
    }
    segment_cursor_close(&cursor);
    return s;
}

static status records_find_timestamp(const struct batch_header *header, struct bytes records,
                                     int64_t offset_min, int64_t timestamp, int64_t *offset,
                                     int64_t *found_timestamp)
{
    struct record_iterator it;
    struct record record;
    record_iterator_init(&it, header, records);
    for (;;) {
        TRY(record_iterator_next(&it, &record));
        if (record.timestamp >= timestamp && record.offset >= offset_min) {
            *offset = record.offset;
            *found_timestamp = record.timestamp;
            return OK;
        }
    }
}

status segment_batch_find_timestamp(const uint8_t *batch, uint32_t size, int64_t offset_min,
                                    int64_t timestamp, int64_t *offset, int64_t *found_timestamp)
{
    struct batch_header header;
    TRY(batch_header_read((struct bytes){batch, size}, &header));
    if (header.max_timestamp < timestamp ||
        header.base_offset + header.last_offset_delta < offset_min) {
        return STATUS(NOT_FOUND);
    }
    if ((header.attributes & BATCH_CODEC_MASK) == CODEC_NONE) {
        struct bytes records = {batch + BATCH_HEADER_SIZE, header.size - BATCH_HEADER_SIZE};
        return records_find_timestamp(&header, records, offset_min, timestamp, offset,
                                      found_timestamp);
    }
    uint8_t *buffer = NULL;
    size_t buffer_size = 0;
    status s = batch_decompress(batch, &header, SEGMENT_DECOMPRESSED_MAX, &buffer, &buffer_size);
    if (s.code == STATUS_TOO_LARGE) {
        /* Too large to open: the answer is as exact as the batch. */
        *offset = MAX(header.base_offset, offset_min);
        *found_timestamp = header.max_timestamp;
        return OK;
    }
    TRY(s);
    s = records_find_timestamp(&header, (struct bytes){buffer, (uint32_t)buffer_size}, offset_min,
                               timestamp, offset, found_timestamp);
    free(buffer);
    return s;
}

static status timestamp_walk(struct segment_cursor *cursor, uint64_t position, int64_t offset_min,
                             int64_t timestamp, int64_t *offset, int64_t *found_timestamp)
{
    for (;;) {
        struct batch_header header;
        TRY(segment_cursor_header(cursor, position, &header));
        if (header.max_timestamp >= timestamp &&
            header.base_offset + header.last_offset_delta >= offset_min) {
            const uint8_t *batch = NULL;
            TRY(segment_cursor_batch(cursor, position, &header, &batch));
            status s = segment_batch_find_timestamp(batch, header.size, offset_min, timestamp,
                                                    offset, found_timestamp);
            if (s.code != STATUS_NOT_FOUND) {
                return s;
            }
        }
        position += header.size;
    }
}

status segment_find_timestamp(struct io_disk *disk, const char *dir, int64_t base_offset,
                              uint64_t position_max, int64_t offset_min, int64_t timestamp,
                              int64_t *offset, int64_t *found_timestamp)
{
    char path[SEGMENT_PATH_SIZE];
    struct index_search search = {SEGMENT_TIME_ENTRY_SIZE, timestamp, 0};
    uint8_t entry[SEGMENT_TIME_ENTRY_SIZE];
    bool any = false;
    TRY(index_lookup(disk, dir, base_offset, ".timeindex", &search, entry, &any));
    int64_t from = any ? base_offset + load_be32(entry + 8) : base_offset;
    uint64_t position = 0;
    TRY(position_lookup(disk, dir, base_offset, position_max, MAX(from, offset_min), &position));
    struct segment_cursor cursor;
    TRY(segment_path(path, dir, base_offset, ".log"));
    TRY(segment_cursor_open(&cursor, disk, path, position_max));
    status s = timestamp_walk(&cursor, position, offset_min, timestamp, offset, found_timestamp);
    segment_cursor_close(&cursor);
    return s;
}

/* Without an index: the headers of all batches tell. */
static status max_timestamp_walk(struct io_disk *disk, const char *dir, int64_t base_offset,
                                 uint64_t position_max, int64_t *timestamp)
{
    char path[SEGMENT_PATH_SIZE];
    struct segment_cursor cursor;
    struct batch_header header;
    uint64_t position = 0;
    TRY(segment_path(path, dir, base_offset, ".log"));
    TRY(segment_cursor_open(&cursor, disk, path, position_max));
    status s;
    while (status_is_ok(s = segment_cursor_header(&cursor, position, &header))) {
        *timestamp = MAX(*timestamp, header.max_timestamp);
        position += header.size;
    }
    segment_cursor_close(&cursor);
    return s.code == STATUS_NOT_FOUND ? OK : s;
}

/* The last entry: a segment that is left gets one for its largest timestamp. */
static status time_index_last(struct io_file *file, int64_t *timestamp)
{
    uint8_t entry[SEGMENT_TIME_ENTRY_SIZE];
    uint64_t size = 0;
    TRY(io_file_size(file, &size));
    if (size < SEGMENT_TIME_ENTRY_SIZE) {
        return OK;
    }
    TRY(segment_entry_read(file, size / SEGMENT_TIME_ENTRY_SIZE - 1, SEGMENT_TIME_ENTRY_SIZE,
                           entry));
    *timestamp = (int64_t)load_be64(entry);
    return OK;
}

status segment_max_timestamp(struct io_disk *disk, const char *dir, int64_t base_offset,
                             uint64_t position_max, int64_t *timestamp)
{
    char path[SEGMENT_PATH_SIZE];
    struct io_file *file = NULL;
    *timestamp = -1;
    TRY(segment_path(path, dir, base_offset, ".timeindex"));
    status s = io_file_open(disk, path, IO_FILE_READ, &file);
    if (s.code == STATUS_NOT_FOUND) {
        return max_timestamp_walk(disk, dir, base_offset, position_max, timestamp);
    }
    TRY(s);
    s = time_index_last(file, timestamp);
    io_file_close(file);
    return s;
}

status segment_modified_ms(struct io_disk *disk, const char *dir, int64_t base_offset,
                           int64_t *modified_ms)
{
    char path[SEGMENT_PATH_SIZE];
    struct io_file *file = NULL;
    TRY(segment_path(path, dir, base_offset, ".log"));
    TRY(io_file_open(disk, path, IO_FILE_READ, &file));
    status s = io_file_modified_ms(file, modified_ms);
    io_file_close(file);
    return s;
}
