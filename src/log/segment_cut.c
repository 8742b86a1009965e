#include "segment_files.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/trace.h"

/* Opens for writing; *file is NULL when the file is not there. */
static status open_if_there(struct io_disk *disk, const char *path, struct io_file **file)
{
    *file = NULL;
    status s = io_file_open(disk, path, IO_FILE_READ | IO_FILE_WRITE, file);
    return s.code == STATUS_NOT_FOUND ? OK : s;
}

static status log_cut(struct io_disk *disk, const char *path, uint64_t size_wanted)
{
    struct io_file *file = NULL;
    TRY(open_if_there(disk, path, &file));
    if (file == NULL) {
        return size_wanted == 0 ? OK : segment_corrupt(path, 0, "the file is missing");
    }
    uint64_t size = 0;
    status s = io_file_size(file, &size);
    if (status_is_ok(s) && size > size_wanted) {
        s = io_file_truncate(file, size_wanted);
    }
    io_file_close(file);
    TRY(s);
    if (size < size_wanted) {
        return segment_corrupt(path, size, "the file is shorter than its checkpoint says");
    }
    return OK;
}

/* Whether an entry names something below the tail. */
typedef bool (*entry_keep_fn)(const uint8_t *entry, const struct segment_tail *tail);

static bool offset_entry_keep(const uint8_t *entry, const struct segment_tail *tail)
{
    return load_be32(entry + 4) < tail->size;
}

static bool time_entry_keep(const uint8_t *entry, const struct segment_tail *tail)
{
    return (int64_t)load_be64(entry) <= tail->indexed_timestamp;
}

/* Entries ascend, so the ones to drop are at the end: a binary search finds the first of them. */
static status index_cut_open(struct io_file *file, uint32_t entry_size, entry_keep_fn keep,
                             const struct segment_tail *tail)
{
    uint64_t size = 0;
    TRY(io_file_size(file, &size));
    uint64_t low = 0;
    uint64_t high = size / entry_size;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint8_t entry[SEGMENT_TIME_ENTRY_SIZE];
        TRY(segment_entry_read(file, middle, entry_size, entry));
        if (keep(entry, tail)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low * entry_size == size ? OK : io_file_truncate(file, low * entry_size);
}

static status index_cut(struct io_disk *disk, const char *path, uint32_t entry_size,
                        entry_keep_fn keep, const struct segment_tail *tail)
{
    struct io_file *file = NULL;
    TRY(open_if_there(disk, path, &file));
    if (file == NULL) {
        return OK;
    }
    status s = index_cut_open(file, entry_size, keep, tail);
    io_file_close(file);
    return s;
}

status segment_remove(struct io_disk *disk, const char *dir, int64_t base_offset)
{
    static const char *const suffixes[] = {".log", ".index", ".timeindex"};
    for (unsigned i = 0; i < COUNT_OF(suffixes); i++) {
        char path[SEGMENT_PATH_SIZE];
        TRY(segment_path(path, dir, base_offset, suffixes[i]));
        status s = io_path_remove(disk, path);
        if (s.code != STATUS_NOT_FOUND) {
            TRY(s);
        }
    }
    return OK;
}

static status later_segments_remove(struct io_disk *disk, const char *dir, int64_t base_offset)
{
    struct segment *segments = NULL;
    uint32_t count = 0;
    TRY(segment_list(disk, dir, &segments, &count));
    status s = OK;
    for (uint32_t i = 0; i < count && status_is_ok(s); i++) {
        if (segments[i].base_offset > base_offset) {
            s = segment_remove(disk, dir, segments[i].base_offset);
        }
    }
    free(segments);
    return s;
}

status segment_cut(struct io_disk *disk, const char *dir, const struct segment_tail *tail)
{
    TRY(later_segments_remove(disk, dir, tail->base_offset));
    if (tail->base_offset < 0) {
        return OK;
    }
    char path[SEGMENT_PATH_SIZE];
    TRY(segment_path(path, dir, tail->base_offset, ".log"));
    TRY(log_cut(disk, path, tail->size));
    TRY(segment_path(path, dir, tail->base_offset, ".index"));
    TRY(index_cut(disk, path, SEGMENT_INDEX_ENTRY_SIZE, offset_entry_keep, tail));
    TRY(segment_path(path, dir, tail->base_offset, ".timeindex"));
    return index_cut(disk, path, SEGMENT_TIME_ENTRY_SIZE, time_entry_keep, tail);
}

status segment_tail_find(struct io_disk *disk, const char *dir, const struct segment_tail *tail,
                         bool *found)
{
    char path[SEGMENT_PATH_SIZE];
    struct io_file *file = NULL;
    uint64_t size = 0;
    *found = tail->base_offset < 0;
    if (*found) {
        return OK;
    }
    TRY(segment_path(path, dir, tail->base_offset, ".log"));
    TRY(open_if_there(disk, path, &file));
    if (file == NULL) {
        return OK;
    }
    status s = io_file_size(file, &size);
    io_file_close(file);
    *found = size >= tail->size;
    return s;
}

struct segment_names {
    int64_t *base_offsets;
    uint32_t count;
    uint32_t capacity;
};

static status name_add(void *context, const char *name)
{
    struct segment_names *names = context;
    for (unsigned i = 0; i < 20; i++) {
        if (!isdigit((unsigned char)name[i])) {
            return OK;
        }
    }
    if (strcmp(name + 20, ".log") != 0) {
        return OK;
    }
    if (names->count == names->capacity) {
        uint32_t capacity = MAX(16u, names->capacity * 2);
        int64_t *grown = realloc(names->base_offsets, capacity * sizeof(*grown));
        if (grown == NULL) {
            return STATUS(NO_MEMORY);
        }
        names->base_offsets = grown;
        names->capacity = capacity;
    }
    names->base_offsets[names->count++] = strtoll(name, NULL, 10);
    return OK;
}

static int segment_compare(const void *a, const void *b)
{
    const struct segment *left = a;
    const struct segment *right = b;
    return left->base_offset < right->base_offset ? -1 : left->base_offset > right->base_offset;
}

static status segment_size_read(struct io_disk *disk, const char *dir, struct segment *segment)
{
    char path[SEGMENT_PATH_SIZE];
    struct io_file *file = NULL;
    TRY(segment_path(path, dir, segment->base_offset, ".log"));
    TRY(io_file_open(disk, path, IO_FILE_READ, &file));
    status s = io_file_size(file, &segment->size);
    io_file_close(file);
    return s;
}

/* A reader lists beside a write-back that cuts: what went since its name was read is left out. */
static status segments_fill(struct io_disk *disk, const char *dir,
                            const struct segment_names *names, struct segment *segments,
                            uint32_t *count)
{
    for (uint32_t i = 0; i < names->count; i++) {
        struct segment segment = {names->base_offsets[i], 0, -1};
        status s = segment_size_read(disk, dir, &segment);
        if (s.code != STATUS_NOT_FOUND) {
            TRY(s);
            segments[(*count)++] = segment;
        }
    }
    qsort(segments, *count, sizeof(*segments), segment_compare);
    return OK;
}

status segment_list(struct io_disk *disk, const char *dir, struct segment **segments,
                    uint32_t *count)
{
    struct segment_names names = {0};
    *segments = NULL;
    *count = 0;
    status s = io_dir_list(disk, dir, name_add, &names);
    if (s.code == STATUS_NOT_FOUND) {
        s = OK;
    }
    if (status_is_ok(s) && names.count > 0) {
        *segments = calloc(names.count, sizeof(**segments));
        s = *segments == NULL ? STATUS(NO_MEMORY)
                              : segments_fill(disk, dir, &names, *segments, count);
    }
    free(names.base_offsets);
    if (!status_is_ok(s)) {
        free(*segments);
        *segments = NULL;
        *count = 0;
    }
    return s;
}

struct removal {
    struct io_disk *disk;
    const char *dir;
};

static status entry_remove(void *context, const char *name)
{
    struct removal *removal = context;
    char path[SEGMENT_PATH_SIZE];
    int size = snprintf(path, sizeof(path), "%s/%s", removal->dir, name);
    if (size < 0 || size >= SEGMENT_PATH_SIZE) {
        return STATUS(INVALID);
    }
    status s = io_path_remove(removal->disk, path);
    return s.code == STATUS_NOT_FOUND ? OK : s;
}

status segment_remove_all(struct io_disk *disk, const char *dir)
{
    struct removal removal = {disk, dir};
    status s = io_dir_list(disk, dir, entry_remove, &removal);
    if (s.code == STATUS_NOT_FOUND) {
        return OK;
    }
    TRY(s);
    s = io_dir_remove(disk, dir);
    return s.code == STATUS_NOT_FOUND ? OK : s;
}
