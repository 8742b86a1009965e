#include "segment_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/trace.h"

#define APPEND_RANGES       128u
#define APPEND_INDEX_BUFFER 256u

/* From this size on the space of a run is reserved first, and its blocks lie together. */
#define APPEND_RESERVE_SIZE (1u << 20)

/* Index entries gathered for one file; written behind what the file holds. */
struct index_buffer {
    uint8_t bytes[APPEND_INDEX_BUFFER * SEGMENT_TIME_ENTRY_SIZE];
    uint32_t size;
    uint64_t position;
    struct io_file *file; /* opened when there is something to write */
    const char *suffix;
};

struct segment_writer {
    struct io_disk *disk;
    struct segment_write *write;
    struct segment_tail tail;
    struct io_file *log;
    uint64_t flushed; /* position behind the last range written */
    struct iovec ranges[APPEND_RANGES];
    uint32_t range_count;
    struct index_buffer index;
    struct index_buffer times;
    bool created_here; /* the active segment was started by this write */
};

static status file_open(struct segment_writer *writer, const char *suffix, struct io_file **file,
                        uint64_t *size);

static status index_open(struct segment_writer *writer, struct index_buffer *buffer)
{
    return buffer->file != NULL
               ? OK
               : file_open(writer, buffer->suffix, &buffer->file, &buffer->position);
}

static status index_flush(struct segment_writer *writer, struct index_buffer *buffer)
{
    if (buffer->size == 0) {
        return OK;
    }
    TRY(index_open(writer, buffer));
    TRY(io_file_write(buffer->file, buffer->bytes, buffer->size, buffer->position));
    buffer->position += buffer->size;
    buffer->size = 0;
    return OK;
}

static status index_add(struct segment_writer *writer, struct index_buffer *buffer,
                        const uint8_t *entry, uint32_t size)
{
    if (buffer->size + size > sizeof(buffer->bytes)) {
        TRY(index_flush(writer, buffer));
    }
    memcpy(buffer->bytes + buffer->size, entry, size);
    buffer->size += size;
    return OK;
}

static status ranges_flush(struct segment_writer *writer)
{
    if (writer->range_count > 0) {
        TRY(io_file_writev(writer->log, writer->ranges, writer->range_count, writer->flushed));
        writer->range_count = 0;
    }
    writer->flushed = writer->tail.size;
    return OK;
}

/* Names the largest timestamp so far in the time index, if it is new there (KIP-33). */
static status time_index_add(struct segment_writer *writer)
{
    struct segment_tail *tail = &writer->tail;
    if (tail->max_timestamp <= tail->indexed_timestamp) {
        return OK;
    }
    uint8_t entry[SEGMENT_TIME_ENTRY_SIZE];
    store_be64(entry, (uint64_t)tail->max_timestamp);
    store_be32(entry + 8, (uint32_t)(tail->max_timestamp_offset - tail->base_offset));
    tail->indexed_timestamp = tail->max_timestamp;
    return index_add(writer, &writer->times, entry, sizeof(entry));
}

static status offset_index_add(struct segment_writer *writer, int64_t last_offset)
{
    uint8_t entry[SEGMENT_INDEX_ENTRY_SIZE];
    store_be32(entry, (uint32_t)(last_offset - writer->tail.base_offset));
    store_be32(entry + 4, (uint32_t)writer->tail.size);
    return index_add(writer, &writer->index, entry, sizeof(entry));
}

static status file_open(struct segment_writer *writer, const char *suffix, struct io_file **file,
                        uint64_t *size)
{
    char path[SEGMENT_PATH_SIZE];
    TRY(segment_path(path, writer->write->dir, writer->tail.base_offset, suffix));
    TRY(io_file_open(writer->disk, path, IO_FILE_WRITE | IO_FILE_READ | IO_FILE_CREATE, file));
    return io_file_size(*file, size);
}

static void segment_files_close(struct segment_writer *writer)
{
    struct io_file **files[] = {&writer->log, &writer->index.file, &writer->times.file};
    for (unsigned i = 0; i < COUNT_OF(files); i++) {
        if (*files[i] != NULL) {
            io_file_close(*files[i]);
            *files[i] = NULL;
        }
    }
}

/*
 * Opens the active segment. A file that is longer than the tail was left by a write that failed:
 * it is cut first, so that index entries always lie below the tail.
 */
static status segment_files_open(struct segment_writer *writer)
{
    uint64_t size = 0;
    TRY(file_open(writer, ".log", &writer->log, &size));
    if (size != writer->tail.size) {
        io_file_close(writer->log);
        writer->log = NULL;
        TRY(segment_cut(writer->disk, writer->write->dir, &writer->tail));
        TRY(file_open(writer, ".log", &writer->log, &size));
    }
    writer->flushed = writer->tail.size;
    return OK;
}

static status partition_metadata_write(struct segment_writer *writer)
{
    char path[SEGMENT_PATH_SIZE];
    char text[64];
    char id[UUID_TEXT_SIZE];
    int size = snprintf(path, sizeof(path), "%s/partition.metadata", writer->write->dir);
    if (size < 0 || size >= SEGMENT_PATH_SIZE) {
        return STATUS(INVALID);
    }
    uuid_format(writer->write->topic_id, id);
    size = snprintf(text, sizeof(text), "version: 0\ntopic_id: %s\n", id);
    struct io_file *file = NULL;
    TRY(io_file_open(writer->disk, path, IO_FILE_WRITE | IO_FILE_CREATE | IO_FILE_TRUNCATE, &file));
    status s = io_file_write(file, text, (size_t)size, 0);
    if (status_is_ok(s)) {
        s = io_file_sync(file);
    }
    io_file_close(file);
    return s;
}

static status directory_ensure(struct segment_writer *writer)
{
    status s = io_dir_create(writer->disk, writer->write->dir);
    if (s.code == STATUS_EXISTS) {
        return OK;
    }
    TRY(s);
    writer->write->directory_created = true;
    return partition_metadata_write(writer);
}

/* Records the final size of the segment that is being left. */
static void segment_finish(struct segment_writer *writer)
{
    struct segment_write *write = writer->write;
    if (writer->created_here) {
        struct segment *last = &write->created[write->created_count - 1];
        last->size = writer->tail.size;
        last->max_timestamp = writer->tail.max_timestamp;
    } else {
        write->finished_size = writer->tail.size;
        write->finished_max_timestamp = writer->tail.max_timestamp;
    }
}

static status buffers_flush(struct segment_writer *writer)
{
    TRY(ranges_flush(writer));
    TRY(index_flush(writer, &writer->index));
    return index_flush(writer, &writer->times);
}

static status segment_roll(struct segment_writer *writer, int64_t base_offset)
{
    struct segment_write *write = writer->write;
    if (writer->tail.base_offset >= 0) {
        TRY(time_index_add(writer));
        TRY(buffers_flush(writer));
        segment_finish(writer);
        segment_files_close(writer);
    } else {
        TRY(directory_ensure(writer));
    }
    struct segment *created =
        realloc(write->created, (write->created_count + 1) * sizeof(*write->created));
    if (created == NULL) {
        return STATUS(NO_MEMORY);
    }
    created[write->created_count] = (struct segment){base_offset, 0, -1};
    write->created = created;
    write->created_count++;
    writer->created_here = true;
    writer->tail = (struct segment_tail){.base_offset = base_offset,
                                         .max_timestamp = -1,
                                         .max_timestamp_offset = -1,
                                         .indexed_timestamp = -1};
    TRY(segment_files_open(writer));
    /* The indexes of a segment are there from its beginning, even without an entry. */
    TRY(index_open(writer, &writer->index));
    return index_open(writer, &writer->times);
}

static status batch_append(struct segment_writer *writer, const struct segment_batch *batch)
{
    struct batch_header header;
    TRY(batch_header_read((struct bytes){batch->data, batch->size}, &header));
    bool is_at_start = writer->tail.size == 0 && writer->tail.base_offset == header.base_offset;
    if (!is_at_start && (batch->roll || writer->tail.base_offset < 0)) {
        TRY(segment_roll(writer, header.base_offset));
    }
    struct segment_tail *tail = &writer->tail;
    ASSERT(header.base_offset >= tail->base_offset);
    int64_t last_offset = header.base_offset + header.last_offset_delta;
    if (header.max_timestamp > tail->max_timestamp) {
        tail->max_timestamp = header.max_timestamp;
        tail->max_timestamp_offset = last_offset;
    }
    if (tail->unindexed_size > writer->write->index_interval_size) {
        TRY(offset_index_add(writer, last_offset));
        TRY(time_index_add(writer));
        tail->unindexed_size = 0;
    }
    if (writer->range_count == APPEND_RANGES) {
        TRY(ranges_flush(writer));
    }
    writer->ranges[writer->range_count++] = (struct iovec){(void *)batch->data, batch->size};
    tail->size += batch->size;
    tail->unindexed_size += batch->size;
    return OK;
}

/* So that a full disk shows before much is written; a small write finds out by itself. */
static status space_reserve(struct segment_writer *writer)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < writer->write->batch_count; i++) {
        if (i > 0 && writer->write->batches[i].roll) {
            break;
        }
        size += writer->write->batches[i].size;
    }
    if (size < APPEND_RESERVE_SIZE) {
        return OK;
    }
    status s = io_file_reserve(writer->log, writer->tail.size, size);
    return s.code == STATUS_UNSUPPORTED ? OK : s;
}

static status segment_append_all(struct segment_writer *writer)
{
    const struct segment_write *write = writer->write;
    if (writer->tail.base_offset >= 0) {
        TRY(segment_files_open(writer));
        if (write->batch_count > 0 && !write->batches[0].roll) {
            TRY(space_reserve(writer));
        }
    }
    for (uint32_t i = 0; i < write->batch_count; i++) {
        TRY(batch_append(writer, &write->batches[i]));
    }
    if (write->starts_empty) {
        TRY(segment_roll(writer, write->empty_base));
    }
    TRY(buffers_flush(writer));
    if (writer->created_here) {
        segment_finish(writer);
    }
    return OK;
}

status segment_append(struct io_disk *disk, struct segment_write *write)
{
    write->created = NULL;
    write->created_count = 0;
    write->finished_size = write->tail.size;
    write->finished_max_timestamp = write->tail.max_timestamp;
    if (write->batch_count == 0 && !write->starts_empty) {
        return OK;
    }
    struct segment_writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL) {
        return STATUS(NO_MEMORY);
    }
    writer->disk = disk;
    writer->write = write;
    writer->tail = write->tail;
    writer->index.suffix = ".index";
    writer->times.suffix = ".timeindex";
    status s = segment_append_all(writer);
    if (status_is_ok(s)) {
        write->tail = writer->tail;
    } else {
        free(write->created);
        write->created = NULL;
        write->created_count = 0;
    }
    segment_files_close(writer);
    free(writer);
    return s;
}

status segment_hold_open(struct io_disk *disk, const char *dir, int64_t base_offset,
                         struct segment_hold *hold)
{
    static const char *const suffixes[] = {".log", ".index", ".timeindex"};
    _Static_assert(COUNT_OF(suffixes) == COUNT_OF(hold->files), "one file for each");
    *hold = (struct segment_hold){0};
    for (unsigned i = 0; i < COUNT_OF(suffixes); i++) {
        char path[SEGMENT_PATH_SIZE];
        status s = segment_path(path, dir, base_offset, suffixes[i]);
        if (status_is_ok(s)) {
            s = io_file_open(disk, path, IO_FILE_WRITE, &hold->files[i]);
        }
        if (!status_is_ok(s)) {
            segment_hold_close(hold);
            return s;
        }
    }
    return OK;
}

status segment_hold_sync(const struct segment_hold *hold)
{
    for (unsigned i = 0; i < COUNT_OF(hold->files); i++) {
        TRY(io_file_sync(hold->files[i]));
    }
    return OK;
}

void segment_hold_close(struct segment_hold *hold)
{
    for (unsigned i = 0; i < COUNT_OF(hold->files); i++) {
        if (hold->files[i] != NULL) {
            io_file_close(hold->files[i]);
            hold->files[i] = NULL;
        }
    }
}
