/*
 * Injected faults for real processes; compiled in test builds only (TWINLOG_FAULTS=1), because
 * operations in a ring pass by tools that intercept system calls.
 *
 * The environment variable TWINLOG_FAULT holds rules separated by commas, each
 * `<point>[:path=<text>][:after=<count>][:times=<count>][:errno=<name>][:short][:delay_us=<time>]`:
 *   point     write, read, sync (in the ring);
 *             disk-write, disk-read, disk-sync, disk-reserve (blocking)
 *   path      only operations on files whose path contains the text; they alone are counted
 *   after     operations of that point that pass before the first is hit; default 0
 *   times     operations that are hit; default 1
 *   errno     EIO (default), ENOSPC, EROFS; with a delay and no errno the operation succeeds late
 *   short     a write writes half of its bytes before it fails; in the ring it tells no errno then,
 *             only how much it wrote
 *   delay_us  the operation starts this much later
 * Example: TWINLOG_FAULT="write:path=journal.0:after=100:errno=EIO,disk-write:path=.log:short".
 */
#ifndef TWINLOG_IO_FAULT_H
#define TWINLOG_IO_FAULT_H

#include "twinlog/core/base.h"

enum fault_point {
    FAULT_WRITE,
    FAULT_READ,
    FAULT_SYNC,
    FAULT_DISK_WRITE,
    FAULT_DISK_READ,
    FAULT_DISK_SYNC,
    FAULT_DISK_RESERVE,
    FAULT_POINT_COUNT
};

struct fault {
    int error;     /* the errno to fail with, 0 for none */
    bool is_short; /* with an error: a write does half of its work */
    int64_t delay_ns;
};

#if TWINLOG_FAULTS

/* Counts an operation on the file and says what is to happen to it. Any thread. */
struct fault fault_next(enum fault_point point, const char *path);

/* A copy of the path for later calls of fault_next(); to be freed. NULL: out of memory. */
char *fault_path_keep(const char *path);

/* Replaces the rules by those of `text`; false when it cannot be read, and then none hold. */
bool fault_configure(const char *text);

#else

static inline struct fault fault_next(enum fault_point point, const char *path)
{
    return (struct fault){0};
}

/* Without faults no file needs to know its path. */
static inline char *fault_path_keep(const char *path)
{
    return NULL;
}

#endif

#endif
