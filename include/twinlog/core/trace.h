/*
 * Diagnostics: one structured line each, on stderr. Cold paths only; any thread.
 * A message names what happened, where, and (from warning up) the remedy.
 */
#ifndef TWINLOG_CORE_TRACE_H
#define TWINLOG_CORE_TRACE_H

#include "twinlog/core/base.h"

enum trace_level { TRACE_DEBUG, TRACE_INFO, TRACE_WARN, TRACE_ERROR, TRACE_OFF };

/* Lines below `level` are dropped, with TRACE_OFF all of them. Default TRACE_INFO. */
void trace_set_level(enum trace_level level);

/* Writes `ts level module: message` as one line with one write(2). Lines are cut at 2 KiB. */
void trace_write(enum trace_level level, const char *module, const char *format, ...)
    PRINTF_LIKE(3, 4);

#define trace_debug(module, ...) trace_write(TRACE_DEBUG, module, __VA_ARGS__)
#define trace_info(module, ...)  trace_write(TRACE_INFO, module, __VA_ARGS__)
#define trace_warn(module, ...)  trace_write(TRACE_WARN, module, __VA_ARGS__)
#define trace_error(module, ...) trace_write(TRACE_ERROR, module, __VA_ARGS__)

#endif
