#include "meta_properties.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "twinlog/core/trace.h"

#define META_PATH_SIZE     4096
#define META_KAFKA_VERSION 1u

/* ---------------------------------------------------------------- write */

static status meta_file_write(struct io_disk *disk, const char *path, const char *text, size_t size)
{
    struct io_file *file = NULL;
    TRY(io_file_open(disk, path, IO_FILE_WRITE | IO_FILE_CREATE | IO_FILE_TRUNCATE, &file));
    status s = io_file_write(file, text, size, 0);
    if (status_is_ok(s)) {
        s = io_file_sync(file);
    }
    io_file_close(file);
    return s;
}

status meta_properties_write(struct io_disk *disk, const char *dir,
                             const struct log_directory *directory)
{
    char path[META_PATH_SIZE];
    char temporary[META_PATH_SIZE];
    char cluster[UUID_TEXT_SIZE];
    char id[UUID_TEXT_SIZE];
    char text[META_PROPERTIES_SIZE_MAX];
    uuid_format(&directory->cluster_id, cluster);
    uuid_format(&directory->directory_id, id);
    int size =
        snprintf(text, sizeof(text),
                 "#\n# What this directory is. Written by `twinlog format`; not to be "
                 "edited.\n"
                 "version=%u\ncluster.id=%s\nnode.id=%" PRId32 "\ndirectory.id=%s\n"
                 "twinlog.format.version=%" PRIu32 "\ntwinlog.shards=%" PRIu32
                 "\ntwinlog.journal.size=%" PRIu64 "\ntwinlog.journal.files=%" PRIu32 "\n",
                 META_KAFKA_VERSION, cluster, directory->node_id, id, directory->version,
                 directory->shard_count, directory->journal_size, directory->journal_file_count);
    ASSERT(size > 0);
    int path_size = snprintf(path, sizeof(path), "%s/" META_PROPERTIES_NAME, dir);
    int temporary_size =
        snprintf(temporary, sizeof(temporary), "%s/" META_PROPERTIES_NAME ".tmp", dir);
    if (path_size >= META_PATH_SIZE || temporary_size >= META_PATH_SIZE) {
        return STATUS(TOO_LARGE);
    }
    TRY(meta_file_write(disk, temporary, text, (size_t)size));
    TRY(io_path_rename(disk, temporary, path));
    return io_dir_sync(disk, dir);
}

/* ---------------------------------------------------------------- read */

static bool number_parse(const char *text, uint64_t max, uint64_t *value)
{
    if (*text < '0' || *text > '9') {
        return false;
    }
    char *end = NULL;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *value <= max;
}

enum meta_key {
    META_VERSION,
    META_CLUSTER_ID,
    META_NODE_ID,
    META_DIRECTORY_ID,
    META_FORMAT_VERSION,
    META_SHARDS,
    META_JOURNAL_SIZE,
    META_JOURNAL_FILES,
    META_KEY_COUNT
};

static const char *const meta_keys[META_KEY_COUNT] = {
    [META_VERSION] = "version",
    [META_CLUSTER_ID] = "cluster.id",
    [META_NODE_ID] = "node.id",
    [META_DIRECTORY_ID] = "directory.id",
    [META_FORMAT_VERSION] = "twinlog.format.version",
    [META_SHARDS] = "twinlog.shards",
    [META_JOURNAL_SIZE] = "twinlog.journal.size",
    [META_JOURNAL_FILES] = "twinlog.journal.files",
};

static bool meta_uuid_set(struct uuid *id, const char *value)
{
    return uuid_parse(value, strlen(value), id);
}

/* False: the value is not one of this key's. */
static bool meta_set(struct log_directory *directory, enum meta_key key, const char *value)
{
    uint64_t number = 0;
    switch (key) {
    case META_VERSION:
        return number_parse(value, META_KAFKA_VERSION, &number) && number == META_KAFKA_VERSION;
    case META_CLUSTER_ID:
        return meta_uuid_set(&directory->cluster_id, value);
    case META_DIRECTORY_ID:
        return meta_uuid_set(&directory->directory_id, value);
    case META_NODE_ID:
        if (!number_parse(value, INT32_MAX, &number)) {
            return false;
        }
        directory->node_id = (int32_t)number;
        return true;
    case META_FORMAT_VERSION:
        if (!number_parse(value, UINT32_MAX, &number)) {
            return false;
        }
        directory->version = (uint32_t)number;
        return number > 0;
    case META_SHARDS:
        if (!number_parse(value, LOG_SHARD_COUNT_MAX, &number)) {
            return false;
        }
        directory->shard_count = (uint32_t)number;
        return number > 0;
    case META_JOURNAL_SIZE:
        return number_parse(value, UINT64_MAX, &directory->journal_size);
    case META_JOURNAL_FILES:
        if (!number_parse(value, UINT32_MAX, &number)) {
            return false;
        }
        directory->journal_file_count = (uint32_t)number;
        return number > 0;
    case META_KEY_COUNT:
        break;
    }
    return false;
}

static char *text_trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t size = strlen(text);
    while (size > 0 && strchr(" \t\r", text[size - 1]) != NULL) {
        text[--size] = '\0';
    }
    return text;
}

static status meta_line_parse(char *line, const char *path, struct log_directory *directory,
                              bool seen[META_KEY_COUNT])
{
    char *equals = strchr(line, '=');
    char *key = text_trim(line);
    if (*key == '\0' || *key == '#' || *key == '!' || equals == NULL) {
        return OK;
    }
    *equals = '\0';
    key = text_trim(key);
    char *value = text_trim(equals + 1);
    for (int i = 0; i < META_KEY_COUNT; i++) {
        if (strcmp(key, meta_keys[i]) != 0) {
            continue;
        }
        seen[i] = true;
        if (!meta_set(directory, (enum meta_key)i, value)) {
            trace_error("log", "%s: %s=%s is not a value of this key: restore the file", path, key,
                        value);
            return STATUS(CORRUPT);
        }
    }
    return OK;
}

static status meta_judge(const char *path, const struct log_directory *directory,
                         const bool seen[META_KEY_COUNT])
{
    if (seen[META_FORMAT_VERSION] && directory->version > LOG_DIRECTORY_VERSION) {
        trace_error("log",
                    "%s: format version %" PRIu32 " is newer than this release's %d: start the "
                    "release that formatted the directory",
                    path, directory->version, LOG_DIRECTORY_VERSION);
        return STATUS(UNSUPPORTED);
    }
    for (int i = 0; i < META_KEY_COUNT; i++) {
        if (!seen[i]) {
            trace_error("log", "%s: %s is missing: restore the file, or format another directory",
                        path, meta_keys[i]);
            return STATUS(CORRUPT);
        }
    }
    return OK;
}

status meta_properties_parse(const char *text, size_t size, const char *path,
                             struct log_directory *directory)
{
    bool seen[META_KEY_COUNT] = {false};
    *directory = (struct log_directory){0};
    char *copy = strndup(text, size);
    if (copy == NULL) {
        return STATUS(NO_MEMORY);
    }
    status s = OK;
    char *rest = copy;
    char *line;
    while (status_is_ok(s) && (line = strsep(&rest, "\n")) != NULL) {
        s = meta_line_parse(line, path, directory, seen);
    }
    free(copy);
    TRY(s);
    return meta_judge(path, directory, seen);
}

status log_directory_read(struct io_disk *disk, const char *dir, struct log_directory *directory)
{
    char path[META_PATH_SIZE];
    char text[META_PROPERTIES_SIZE_MAX];
    size_t size = 0;
    if (snprintf(path, sizeof(path), "%s/" META_PROPERTIES_NAME, dir) >= META_PATH_SIZE) {
        return STATUS(TOO_LARGE);
    }
    struct io_file *file = NULL;
    TRY(io_file_open(disk, path, IO_FILE_READ, &file));
    status s = io_file_read(file, text, sizeof(text), 0, &size);
    io_file_close(file);
    TRY(s);
    return meta_properties_parse(text, size, path, directory);
}
