#include "twinlog/core/trace.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "twinlog/core/assert.h"

#define TRACE_LINE_SIZE_MAX 2048

static _Atomic int trace_level_min = TRACE_INFO;

static const char *const trace_level_texts[] = {
    [TRACE_DEBUG] = "debug", [TRACE_INFO] = "info", [TRACE_WARN] = "warn",
    [TRACE_ERROR] = "error", [TRACE_OFF] = "off", /* A bound, no line has it. */
};

void trace_set_level(enum trace_level level)
{
    ASSERT((unsigned)level < COUNT_OF(trace_level_texts));
    atomic_store_explicit(&trace_level_min, (int)level, memory_order_relaxed);
}

/* The bytes that snprintf put into `room` bytes, when it says that it wanted `wanted`. */
static size_t trace_fitted(int wanted, size_t room)
{
    if (wanted < 0) {
        return 0;
    }
    return MIN((size_t)wanted, room - 1);
}

static size_t trace_format_head(char *line, size_t room, enum trace_level level, const char *module)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    struct tm utc;
    (void)gmtime_r(&now.tv_sec, &utc);
    int wanted =
        snprintf(line, room, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ %s %s: ", utc.tm_year + 1900,
                 utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                 now.tv_nsec / 1000000, trace_level_texts[level], module);
    return trace_fitted(wanted, room);
}

/* A message may quote bytes of a peer: they must not be able to forge a second line. */
static void trace_flatten(char *at, const char *end)
{
    for (; at < end; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            *at = ' ';
        }
    }
}

void trace_write(enum trace_level level, const char *module, const char *format, ...)
{
    ASSERT((unsigned)level < COUNT_OF(trace_level_texts));
    if ((int)level < atomic_load_explicit(&trace_level_min, memory_order_relaxed)) {
        return;
    }
    char line[TRACE_LINE_SIZE_MAX];
    size_t size = trace_format_head(line, sizeof(line), level, module);
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(line + size, sizeof(line) - size, format, arguments);
    va_end(arguments);
    size += trace_fitted(wanted, sizeof(line) - size);
    trace_flatten(line, line + size);
    line[size++] = '\n'; /* In place of the NUL, so there is room. */
    /* A diagnostic that cannot be written has nowhere to be reported. */
    ssize_t written = write(STDERR_FILENO, line, size);
    (void)written;
}
