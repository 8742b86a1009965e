/*
 * Injected faults for real processes; compiled in test builds only (TWINLOG_FAULTS=1), because
 * operations in a ring pass by tools that intercept system calls.
 *
 * The environment variable TWINLOG_FAULT holds rules separated by commas, each
 * `<point>[:after=<count>][:times=<count>][:errno=<name>][:delay_us=<time>]`:
 *   point     write, read, sync (in the ring); disk-write, disk-sync, disk-reserve (blocking)
 *   after     operations of that point that pass before the first is hit; default 0
 *   times     operations that are hit; default 1
 *   errno     EIO (default), ENOSPC, EROFS; with a delay and no errno the operation succeeds late
 *   delay_us  the operation starts this much later
 * Example: TWINLOG_FAULT="write:after=100:errno=EIO,sync:times=50:delay_us=20000".
 */
#ifndef TWINLOG_IO_FAULT_H
#define TWINLOG_IO_FAULT_H

#include "twinlog/core/base.h"

enum fault_point {
    FAULT_WRITE,
    FAULT_READ,
    FAULT_SYNC,
    FAULT_DISK_WRITE,
    FAULT_DISK_SYNC,
    FAULT_DISK_RESERVE,
    FAULT_POINT_COUNT
};

struct fault {
    int error; /* the errno to fail with, 0 for none */
    int64_t delay_ns;
};

#if TWINLOG_FAULTS

/* Counts an operation and says what is to happen to it. Any thread. */
struct fault fault_next(enum fault_point point);

/* Replaces the rules by those of `text`; false when it cannot be read, and then none hold. */
bool fault_configure(const char *text);

#else

static inline struct fault fault_next(enum fault_point point)
{
    return (struct fault){0};
}

#endif

#endif
