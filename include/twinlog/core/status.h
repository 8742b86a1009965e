/*
 * The result of an operation that can fail for reasons outside the program: disk, network,
 * configuration, a peer. A struct, so that it cannot be mistaken for an int, and must be used.
 */
#ifndef TWINLOG_CORE_STATUS_H
#define TWINLOG_CORE_STATUS_H

#include "twinlog/core/base.h"

#define STATUS_MAP(X)                                                                              \
    X(OK, "ok")                                                                                    \
    X(IO, "input/output error")                                                                    \
    X(NO_SPACE, "no space left on the device")                                                     \
    X(READ_ONLY, "read-only file system")                                                          \
    X(PERMISSION, "permission denied")                                                             \
    X(NOT_FOUND, "not found")                                                                      \
    X(EXISTS, "exists already")                                                                    \
    X(BUSY, "in use by another process")                                                           \
    X(FULL, "no room for now")                                                                     \
    X(OFFLINE, "offline after an earlier failure")                                                 \
    X(CORRUPT, "corrupt data")                                                                     \
    X(TRUNCATED, "ends too early")                                                                 \
    X(INVALID, "invalid")                                                                          \
    X(MISMATCH, "belongs to something else")                                                       \
    X(TOO_LARGE, "too large")                                                                      \
    X(TOO_MANY, "too many")                                                                        \
    X(UNSUPPORTED, "not supported")                                                                \
    X(NO_MEMORY, "out of memory")                                                                  \
    X(CLOSED, "closed")                                                                            \
    X(CANCELLED, "cancelled")                                                                      \
    X(TIMEOUT, "timed out")

#define STATUS_ENUM(name, text) STATUS_##name,
enum status_code { STATUS_MAP(STATUS_ENUM) STATUS_COUNT };
#undef STATUS_ENUM

/* `sys` is the errno behind the status, positive; 0 when there is none. */
typedef struct status {
    enum status_code code;
    int sys;
} status;

#define OK           ((status){STATUS_OK, 0})
#define STATUS(name) ((status){STATUS_##name, 0})

static inline bool status_is_ok(status s)
{
    return s.code == STATUS_OK;
}

/* The only macro with hidden flow: returns from the calling function what is not OK. */
#define TRY(expression)                                                                            \
    do {                                                                                           \
        status try_status_ = (expression);                                                         \
        if (try_status_.code != STATUS_OK) {                                                       \
            return try_status_;                                                                    \
        }                                                                                          \
    } while (0)

/* Maps an errno (positive) to a status; used only at the edge of src/io. 0 gives OK. */
MUST_USE status status_from_errno(int sys);

/* A short lower-case text for the code, never NULL. */
const char *status_text(status s);

#endif
