/*
 * Formatting a directory: everything a log needs to start, in an order in which a crash leaves
 * either a directory that can be formatted again or one that is complete.
 *
 *   checkpoints of an earlier attempt removed; journal files, synced; one empty checkpoint per
 *   shard, synced; meta.properties, renamed into place and synced.
 *
 * The empty checkpoint makes a missing one an error ever after: without it a log whose checkpoints
 * were lost would look like a new one and overwrite its journal.
 */
#include <stdlib.h>

#include "twinlog/core/trace.h"

#include "checkpoint.h"
#include "journal_format.h"
#include "meta_properties.h"

#define FORMAT_FILE_COUNT_DEFAULT 8u
#define FORMAT_PATH_SIZE          4096

static bool name_starts_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* What an attempt that was interrupted leaves behind, and what a file system has of its own. */
static status format_entry_check(void *context, const char *name)
{
    const char *dir = context;
    if (name_starts_with(name, "journal.") || name_starts_with(name, "checkpoint.") ||
        strcmp(name, META_PROPERTIES_NAME ".tmp") == 0 || strcmp(name, "lost+found") == 0) {
        return OK;
    }
    trace_error("log", "%s holds '%s': %s", dir, name,
                strcmp(name, META_PROPERTIES_NAME) == 0
                    ? "it is formatted; start on it, or give another directory"
                    : "format takes an empty directory; give another one");
    return STATUS(EXISTS);
}

static status format_dir_prepare(struct io_disk *disk, const char *dir)
{
    status s = io_dir_create(disk, dir);
    if (s.code == STATUS_EXISTS) {
        return io_dir_list(disk, dir, format_entry_check, (void *)dir);
    }
    TRY(s);
    char *parent = strdup(dir);
    if (parent == NULL) {
        return STATUS(NO_MEMORY);
    }
    char *slash = strrchr(parent, '/');
    if (slash != NULL && slash != parent) {
        *slash = '\0';
        s = io_dir_sync(disk, parent);
    } else {
        s = io_dir_sync(disk, slash == NULL ? "." : "/");
    }
    free(parent);
    return s;
}

/* A checkpoint of an attempt that was interrupted would hide the one to come. */
static status format_checkpoints_remove(struct io_disk *disk, const char *dir, uint32_t shard)
{
    for (unsigned i = 0; i < 2; i++) {
        char path[FORMAT_PATH_SIZE];
        int size = snprintf(path, sizeof(path), "%s/checkpoint.%u.%u", dir, shard, i);
        if (size < 0 || size >= FORMAT_PATH_SIZE) {
            return STATUS(TOO_LARGE);
        }
        status s = io_path_remove(disk, path);
        if (s.code != STATUS_NOT_FOUND) {
            TRY(s);
        }
    }
    return io_dir_sync(disk, dir);
}

static status format_shard(struct io_disk *disk, const char *dir,
                           const struct log_directory *directory, uint32_t shard)
{
    uint32_t file_count = directory->journal_file_count;
    TRY(format_checkpoints_remove(disk, dir, shard));
    TRY(journal_format(disk, dir, &directory->directory_id, shard,
                       directory->journal_size / file_count, file_count));
    struct checkpoint_header header = {
        .sequence = 1,
        .directory_id = directory->directory_id,
        .shard = shard,
        .clean = true,
        .start = {.lsn = 1, .position = JOURNAL_BLOCK_SIZE},
    };
    return checkpoint_write(disk, dir, &header, (struct bytes){(const uint8_t *)"", 0});
}

status log_format(struct io_disk *disk, const struct log_format_options *options,
                  const uint64_t random[2])
{
    struct log_directory directory = {
        .version = LOG_DIRECTORY_VERSION,
        .cluster_id = options->cluster_id,
        .directory_id = uuid_from_random(random[0], random[1]),
        .node_id = options->node_id,
        .shard_count = options->shard_count,
        .journal_size = options->journal_size,
        .journal_file_count = options->journal_file_count != 0 ? options->journal_file_count
                                                               : FORMAT_FILE_COUNT_DEFAULT,
    };
    uint64_t file_size = directory.journal_size / directory.journal_file_count;
    if (options->shard_count == 0 || options->shard_count > LOG_SHARD_COUNT_MAX ||
        file_size * directory.journal_file_count != directory.journal_size) {
        trace_error("log",
                    "a journal of %llu bytes in %u files and %u shards cannot be made: give a size "
                    "that is a multiple of 4 MiB and 1 to %u shards",
                    (unsigned long long)directory.journal_size, directory.journal_file_count,
                    directory.shard_count, LOG_SHARD_COUNT_MAX);
        return STATUS(INVALID);
    }
    TRY(journal_sizes_check(file_size, directory.journal_file_count));
    TRY(format_dir_prepare(disk, options->dir));
    for (uint32_t shard = 0; shard < directory.shard_count; shard++) {
        TRY(format_shard(disk, options->dir, &directory, shard));
    }
    return meta_properties_write(disk, options->dir, &directory);
}
