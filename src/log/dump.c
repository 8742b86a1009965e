/* dump-log: which printer a file is for. */
#include <string.h>

#include "twinlog/core/trace.h"
#include "twinlog/log/log.h"

#include "checkpoint.h"
#include "journal.h"
#include "segment.h"

static bool name_ends_with(const char *name, const char *suffix)
{
    size_t size = strlen(name);
    size_t suffix_size = strlen(suffix);
    return size >= suffix_size && strcmp(name + size - suffix_size, suffix) == 0;
}

static bool name_starts_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

status log_dump(struct io_disk *disk, const char *path, const struct log_dump_options *options,
                FILE *out)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    if (name_ends_with(name, ".log") || name_ends_with(name, ".index") ||
        name_ends_with(name, ".timeindex")) {
        return segment_dump(disk, path, options->deep, options->print_values, out);
    }
    if (name_starts_with(name, "journal.")) {
        return journal_dump(disk, path, options->deep, out);
    }
    if (name_starts_with(name, "checkpoint.")) {
        return checkpoint_dump(disk, path, out);
    }
    trace_error("log",
                "%s: the name tells what a file is: .log, .index, .timeindex, journal.* or "
                "checkpoint.*",
                path);
    return STATUS(INVALID);
}
