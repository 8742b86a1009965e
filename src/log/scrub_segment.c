/*
 * One segment under scrub, window by window. A batch may be larger than a window: its header is
 * gathered, its CRC summed as the bytes come by. Behind a header that makes no sense the walk goes
 * on at the next batch that the offset index knows.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "twinlog/core/crc32c.h"
#include "twinlog/core/trace.h"

#include "scrub.h"
#include "segment_files.h"

#define SCRUB_CRC_FROM      21u           /* the CRC covers a batch from here on */
#define SCRUB_INDEX_ENTRIES ((size_t)512) /* read at once */

struct scrub_walk {
    const struct scrub_segment *segment;
    struct scrub_cursor *cursor;
    struct scrub_findings *findings;
    struct io_file *index; /* NULL: there is none */
    uint8_t entries[SCRUB_INDEX_ENTRIES * SEGMENT_TIME_ENTRY_SIZE];
    uint64_t entries_first; /* number of the first one in `entries` */
    uint64_t entries_count;
};

static void damage_add(struct scrub_findings *findings, struct scrub_damage damage)
{
    if (findings->count == SCRUB_FINDINGS_MAX) {
        findings->more++;
        return;
    }
    findings->damage[findings->count++] = damage;
}

void scrub_tell(const char *dir, int64_t base_offset, const struct scrub_damage *damage)
{
    char path[SEGMENT_PATH_SIZE];
    if (!status_is_ok(segment_path(path, dir, base_offset, damage->suffix))) {
        return;
    }
    if (damage->first_offset < damage->end_offset) {
        char last[32] = "";
        if (damage->end_offset != INT64_MAX) {
            snprintf(last, sizeof(last), "%" PRId64, damage->end_offset - 1);
        }
        trace_error("scrub",
                    "segment is damaged: %s: file=%s position=%" PRIu64 " size=%" PRIu64
                    " offsets=%" PRId64 "..%s; with the broker stopped, restore the file "
                    "from a backup or a replica: until then these records cannot be read",
                    damage->what, path, damage->position, damage->size, damage->first_offset, last);
    } else {
        trace_error("scrub",
                    "index is damaged: %s: file=%s position=%" PRIu64
                    "; with the broker stopped, remove the file: reads do without it",
                    damage->what, path, damage->position);
    }
}

/* ---------------------------------------------------------------- the offset index */

/* Entry number `at`; NULL when there is none, or it cannot be read. */
static const uint8_t *index_entry(struct scrub_walk *walk, uint64_t at)
{
    if (walk->index == NULL || walk->cursor->index_is_bad) {
        return NULL;
    }
    if (at < walk->entries_first || at >= walk->entries_first + walk->entries_count) {
        size_t got = 0;
        if (!status_is_ok(io_file_read(walk->index, walk->entries,
                                       SCRUB_INDEX_ENTRIES * SEGMENT_INDEX_ENTRY_SIZE,
                                       at * SEGMENT_INDEX_ENTRY_SIZE, &got))) {
            got = 0;
        }
        walk->entries_first = at;
        walk->entries_count = got / SEGMENT_INDEX_ENTRY_SIZE;
    }
    return walk->entries_count == 0
               ? NULL
               : walk->entries + (at - walk->entries_first) * SEGMENT_INDEX_ENTRY_SIZE;
}

static void index_is_damaged(struct scrub_walk *walk, const char *what)
{
    damage_add(walk->findings, (struct scrub_damage){
                                   .suffix = ".index",
                                   .what = what,
                                   .position = walk->cursor->index_at * SEGMENT_INDEX_ENTRY_SIZE,
                                   .size = SEGMENT_INDEX_ENTRY_SIZE,
                               });
    walk->cursor->index_is_bad = true;
}

/* A batch begins where the cursor says: an entry that names the place has to name the batch. */
static void index_check(struct scrub_walk *walk)
{
    struct scrub_cursor *cursor = walk->cursor;
    const uint8_t *entry;
    while ((entry = index_entry(walk, cursor->index_at)) != NULL &&
           load_be32(entry + 4) <= cursor->batch_position) {
        int64_t offset = walk->segment->base_offset + load_be32(entry);
        if (load_be32(entry + 4) != cursor->batch_position) {
            index_is_damaged(walk, "no batch starts at the position of an entry");
        } else if (offset < cursor->header.base_offset ||
                   offset > cursor->header.base_offset + cursor->header.last_offset_delta) {
            index_is_damaged(walk, "an entry names another offset than the batch has");
        } else {
            cursor->index_at++;
        }
    }
}

/* Where the walk can go on at or behind `position`; the offset that is known to lie there. */
static uint64_t index_resume(struct scrub_walk *walk, uint64_t position, int64_t *offset)
{
    const uint8_t *entry;
    while ((entry = index_entry(walk, walk->cursor->index_at)) != NULL) {
        uint64_t found = load_be32(entry + 4);
        if (found >= walk->segment->size) {
            break;
        }
        if (found >= position) {
            *offset = walk->segment->base_offset + load_be32(entry);
            return found;
        }
        walk->cursor->index_at++;
    }
    *offset = walk->segment->end_offset;
    return walk->segment->size;
}

/* ---------------------------------------------------------------- batches */

/* From the batch under way, or `from` when there is none, nothing can be told till the next entry.
 */
static void walk_lose(struct scrub_walk *walk, uint64_t from, uint64_t at, const char *what)
{
    struct scrub_cursor *cursor = walk->cursor;
    int64_t offset = 0;
    uint64_t resume = index_resume(walk, at, &offset);
    damage_add(walk->findings, (struct scrub_damage){
                                   .suffix = ".log",
                                   .what = what,
                                   .position = from,
                                   .size = resume - from,
                                   .first_offset = cursor->next_offset,
                                   .end_offset = MAX(offset, cursor->next_offset + 1),
                               });
    cursor->skip = resume - at;
    cursor->batch_left = 0;
    cursor->head_size = 0;
}

static void batch_end(struct scrub_walk *walk)
{
    struct scrub_cursor *cursor = walk->cursor;
    if (cursor->crc != cursor->header.crc) {
        damage_add(walk->findings, (struct scrub_damage){
                                       .suffix = ".log",
                                       .what = "a batch fails its CRC",
                                       .position = cursor->batch_position,
                                       .size = cursor->header.size,
                                       .first_offset = cursor->header.base_offset,
                                       .end_offset = cursor->header.base_offset +
                                                     cursor->header.last_offset_delta + 1,
                                   });
    }
    cursor->next_offset = cursor->header.base_offset + cursor->header.last_offset_delta + 1;
    cursor->head_size = 0;
}

/* Whether the header stands where it may: the base offset is outside the CRC. */
static bool batch_is_in_order(const struct scrub_walk *walk)
{
    const struct batch_header *header = &walk->cursor->header;
    int64_t last_offset = 0;
    return header->base_offset >= walk->cursor->next_offset && header->last_offset_delta >= 0 &&
           !__builtin_add_overflow(header->base_offset, header->last_offset_delta, &last_offset) &&
           last_offset < walk->segment->end_offset;
}

/* The header is gathered; `at` is the position behind it. */
static void batch_begin(struct scrub_walk *walk, uint64_t at)
{
    struct scrub_cursor *cursor = walk->cursor;
    uint64_t left = walk->segment->size - cursor->batch_position;
    struct bytes visible = {cursor->head, (uint32_t)MIN(left, (uint64_t)UINT32_MAX)};
    if (!status_is_ok(batch_header_read(visible, &cursor->header))) {
        walk_lose(walk, cursor->batch_position, at, "no whole record batch starts here");
    } else if (!batch_is_in_order(walk)) {
        walk_lose(walk, cursor->batch_position, at, "a batch has an offset that cannot be here");
    } else {
        index_check(walk);
        cursor->crc = crc32c(0, cursor->head + SCRUB_CRC_FROM, BATCH_HEADER_SIZE - SCRUB_CRC_FROM);
        cursor->batch_left = cursor->header.size - BATCH_HEADER_SIZE;
        if (cursor->batch_left == 0) {
            batch_end(walk);
        }
    }
}

static void walk_bytes(struct scrub_walk *walk, const uint8_t *data, uint32_t size)
{
    struct scrub_cursor *cursor = walk->cursor;
    uint32_t at = 0;
    while (at < size) {
        uint32_t left = size - at;
        uint32_t step;
        if (cursor->skip > 0) {
            step = (uint32_t)MIN(cursor->skip, (uint64_t)left);
            cursor->skip -= step;
            at += step;
        } else if (cursor->batch_left > 0) {
            step = MIN(cursor->batch_left, left);
            cursor->crc = crc32c(cursor->crc, data + at, step);
            cursor->batch_left -= step;
            at += step;
            if (cursor->batch_left == 0) {
                batch_end(walk);
            }
        } else {
            if (cursor->head_size == 0) {
                cursor->batch_position = cursor->position + at;
            }
            step = MIN(BATCH_HEADER_SIZE - cursor->head_size, left);
            memcpy(cursor->head + cursor->head_size, data + at, step);
            cursor->head_size += step;
            at += step;
            if (cursor->head_size == BATCH_HEADER_SIZE) {
                batch_begin(walk, cursor->position + at);
            }
        }
    }
}

/* ---------------------------------------------------------------- the end of the segment */

/* Entries ascend in both fields and stay inside the segment. */
static const char *time_index_judge(const struct scrub_segment *segment, struct io_file *file,
                                    uint64_t *at)
{
    uint8_t entry[SEGMENT_TIME_ENTRY_SIZE];
    int64_t timestamp = INT64_MIN;
    int64_t offset = -1;
    uint64_t size = 0;
    if (!status_is_ok(io_file_size(file, &size))) {
        return "its size cannot be read";
    }
    for (*at = 0; *at < size / SEGMENT_TIME_ENTRY_SIZE; (*at)++) {
        if (!status_is_ok(segment_entry_read(file, *at, SEGMENT_TIME_ENTRY_SIZE, entry))) {
            return "an entry cannot be read";
        }
        int64_t entry_timestamp = (int64_t)load_be64(entry);
        int64_t entry_offset = load_be32(entry + 8);
        if (segment->base_offset + entry_offset >= segment->end_offset) {
            return segment->is_closed ? "an entry names an offset behind the segment" : NULL;
        }
        if (entry_timestamp < timestamp || entry_offset < offset) {
            return "entries do not ascend";
        }
        timestamp = entry_timestamp;
        offset = entry_offset;
    }
    return NULL;
}

static void time_index_check(const struct scrub_segment *segment, struct scrub_findings *findings)
{
    char path[SEGMENT_PATH_SIZE];
    struct io_file *file = NULL;
    uint64_t at = 0;
    if (!status_is_ok(segment_path(path, segment->dir, segment->base_offset, ".timeindex")) ||
        !status_is_ok(io_file_open(segment->disk, path, IO_FILE_READ, &file))) {
        return; /* Reads do without it. */
    }
    const char *what = time_index_judge(segment, file, &at);
    io_file_close(file);
    if (what != NULL) {
        damage_add(findings, (struct scrub_damage){
                                 .suffix = ".timeindex",
                                 .what = what,
                                 .position = at * SEGMENT_TIME_ENTRY_SIZE,
                                 .size = SEGMENT_TIME_ENTRY_SIZE,
                             });
    }
}

static void segment_end(struct scrub_walk *walk)
{
    struct scrub_cursor *cursor = walk->cursor;
    const struct scrub_segment *segment = walk->segment;
    if (cursor->head_size > 0) {
        walk_lose(walk, cursor->batch_position, segment->size, "a batch is cut off");
    } else if (segment->is_closed && index_entry(walk, cursor->index_at) != NULL) {
        index_is_damaged(walk, "an entry names a position behind the segment");
    }
    time_index_check(segment, walk->findings);
    cursor->is_done = true;
}

/* ---------------------------------------------------------------- windows */

static status file_open(const struct scrub_segment *segment, const char *suffix, unsigned flags,
                        struct io_file **file)
{
    char path[SEGMENT_PATH_SIZE];
    TRY(segment_path(path, segment->dir, segment->base_offset, suffix));
    status s = io_file_open(segment->disk, path, IO_FILE_READ | flags, file);
    return s.code == STATUS_UNSUPPORTED ? io_file_open(segment->disk, path, IO_FILE_READ, file) : s;
}

/* The bytes of the window that count are there: walked. Else what is missing is damage. */
static void window_walk(struct scrub_walk *walk, const uint8_t *buffer, status read, size_t got)
{
    struct scrub_cursor *cursor = walk->cursor;
    uint64_t left = walk->segment->size - cursor->position;
    uint32_t wanted = (uint32_t)MIN(left, (uint64_t)SCRUB_WINDOW_SIZE);
    uint64_t from = cursor->head_size > 0 ? cursor->batch_position : cursor->position;
    if (!status_is_ok(read)) {
        walk_lose(walk, from, cursor->position + wanted, "the device cannot read it");
    } else {
        walk_bytes(walk, buffer, (uint32_t)MIN(got, (size_t)wanted));
        if (got < wanted) {
            from = cursor->head_size > 0 ? cursor->batch_position : cursor->position + got;
            walk_lose(walk, from, walk->segment->size, "the file is shorter than recorded");
            wanted = (uint32_t)left;
        }
    }
    cursor->position += MIN((uint64_t)SCRUB_WINDOW_SIZE, (uint64_t)wanted);
}

static status window_check(struct scrub_walk *walk, uint8_t *buffer)
{
    struct io_file *file = NULL;
    size_t got = 0;
    TRY(file_open(walk->segment, ".log", IO_FILE_DIRECT, &file));
    status s = file_open(walk->segment, ".index", 0, &walk->index);
    if (status_is_ok(s) || s.code == STATUS_NOT_FOUND) {
        s = OK;
        if (walk->cursor->position < walk->segment->size) {
            status read =
                io_file_read(file, buffer, SCRUB_WINDOW_SIZE, walk->cursor->position, &got);
            window_walk(walk, buffer, read, got);
        }
        if (walk->cursor->position >= walk->segment->size) {
            segment_end(walk);
        }
    }
    if (walk->index != NULL) {
        io_file_close(walk->index);
    }
    io_file_close(file);
    return s;
}

status scrub_window(const struct scrub_segment *segment, struct scrub_cursor *cursor,
                    uint8_t *buffer, struct scrub_findings *findings)
{
    struct scrub_walk *walk = calloc(1, sizeof(*walk));
    if (walk == NULL) {
        return STATUS(NO_MEMORY);
    }
    if (!cursor->is_begun) {
        cursor->is_begun = true;
        cursor->next_offset = segment->base_offset;
    }
    walk->segment = segment;
    walk->cursor = cursor;
    walk->findings = findings;
    status s = window_check(walk, buffer);
    free(walk);
    return s;
}
