/*
 * `twinlog scrub`: all segments of a directory, at once, while no broker uses it. Nothing is
 * written. What a life that did not end cleanly left at the end of a partition's newest segment is
 * not judged: the next start cuts it to the checkpoint and writes it again from the journal.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/trace.h"

#include "journal_format.h"
#include "log_state.h"

struct offline {
    struct io_disk *disk;
    const char *dir;
    struct io_file *locks[LOG_SHARD_MAX];
    struct log_scrub_result *result;
    uint8_t *buffer;
};

/* ---------------------------------------------------------------- one segment */

/* Takes the findings of a window. False: the rest of the segment counts for nothing. */
static bool findings_tell(struct offline *offline, const struct scrub_segment *segment,
                          const struct scrub_findings *findings)
{
    if (!segment->is_closed && findings->count > 0) {
        offline->result->unjudged++;
        return false;
    }
    for (uint32_t i = 0; i < findings->count; i++) {
        scrub_tell(segment->dir, segment->base_offset, &findings->damage[i]);
    }
    if (findings->more > 0) {
        trace_error("scrub", "%u more damaged ranges in the same megabyte are not listed",
                    findings->more);
    }
    offline->result->damaged += findings->count + findings->more;
    return true;
}

static status segment_scrub(struct offline *offline, const struct scrub_segment *segment)
{
    struct scrub_cursor cursor = {0};
    bool goes_on = true;
    while (goes_on && !cursor.is_done) {
        struct scrub_findings findings = {0};
        TRY(scrub_window(segment, &cursor, offline->buffer, &findings));
        goes_on = findings_tell(offline, segment, &findings);
    }
    offline->result->segments++;
    offline->result->bytes += segment->size;
    return OK;
}

/* ---------------------------------------------------------------- partitions */

static status segments_scrub(struct offline *offline, const char *dir,
                             const struct segment *segments, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bool is_newest = i + 1 == count;
        struct scrub_segment segment = {
            .disk = offline->disk,
            .dir = dir,
            .base_offset = segments[i].base_offset,
            .end_offset = is_newest ? INT64_MAX : segments[i + 1].base_offset,
            .size = segments[i].size,
            .is_closed = !is_newest || offline->result->is_clean,
        };
        TRY(segment_scrub(offline, &segment));
    }
    return OK;
}

static status entry_scrub(void *context, const char *name)
{
    struct offline *offline = context;
    char dir[SCRUB_PATH_SIZE];
    struct segment *segments = NULL;
    uint32_t count = 0;
    if (!log_name_is_of_partition(name)) {
        return OK;
    }
    int size = snprintf(dir, sizeof(dir), "%s/%s", offline->dir, name);
    if (size < 0 || (size_t)size >= sizeof(dir)) {
        return STATUS(TOO_LARGE);
    }
    status s = segment_list(offline->disk, dir, &segments, &count);
    if (s.sys == ENOTDIR) {
        return OK; /* Somebody's file. */
    }
    if (status_is_ok(s)) {
        s = segments_scrub(offline, dir, segments, count);
    }
    free(segments);
    if (!status_is_ok(s)) {
        trace_error("scrub", "%s cannot be checked: %s (errno %d); look at the device", dir,
                    status_text(s), s.sys);
    }
    return s;
}

/* ---------------------------------------------------------------- the directory */

/* The lock that a broker takes first; and whether the last one that had it ended cleanly. */
static status shard_take(struct offline *offline, uint32_t shard)
{
    char path[JOURNAL_PATH_SIZE];
    bool is_clean = false;
    if (!journal_path(path, offline->dir, shard, 0)) {
        return STATUS(TOO_LARGE);
    }
    status s = io_file_open(offline->disk, path, IO_FILE_READ, &offline->locks[shard]);
    if (status_is_ok(s)) {
        s = io_file_lock(offline->locks[shard]);
    }
    if (!status_is_ok(s)) {
        trace_error("scrub", "%s cannot be locked: %s; a running broker scrubs by itself", path,
                    status_text(s));
        return s;
    }
    TRY(checkpoint_is_clean(offline->disk, offline->dir, shard, &is_clean));
    offline->result->is_clean &= is_clean;
    return OK;
}

static status directory_scrub(struct offline *offline)
{
    struct log_directory directory;
    TRY(log_directory_read(offline->disk, offline->dir, &directory));
    for (uint32_t shard = 0; shard < MIN(directory.shard_count, LOG_SHARD_MAX); shard++) {
        TRY(shard_take(offline, shard));
    }
    return io_dir_list(offline->disk, offline->dir, entry_scrub, offline);
}

status log_scrub(struct io_disk *disk, const char *dir, struct log_scrub_result *result)
{
    struct offline offline = {.disk = disk, .dir = dir, .result = result};
    *result = (struct log_scrub_result){.is_clean = true};
    offline.buffer = aligned_alloc(CHUNK_ALIGNMENT, SCRUB_WINDOW_SIZE);
    status s = offline.buffer == NULL ? STATUS(NO_MEMORY) : directory_scrub(&offline);
    for (uint32_t i = 0; i < LOG_SHARD_MAX; i++) {
        if (offline.locks[i] != NULL) {
            io_file_close(offline.locks[i]);
        }
    }
    free(offline.buffer);
    return status_is_ok(s) && result->damaged > 0 ? STATUS(CORRUPT) : s;
}
