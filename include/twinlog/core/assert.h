/*
 * Assertions: on in every build. They state what the code itself guarantees, one condition each,
 * and never judge bytes from disk, wire, configuration or clock (those get a status).
 */
#ifndef TWINLOG_CORE_ASSERT_H
#define TWINLOG_CORE_ASSERT_H

#include "twinlog/core/base.h"

#define ASSERT(condition)                                                                          \
    (__builtin_expect(!!(condition), 1) ? (void)0                                                  \
                                        : assert_fail(#condition, __FILE__, __LINE__, __func__))

/* Prints the failed condition and its place on stderr and aborts. */
NO_RETURN void assert_fail(const char *condition, const char *file, int line, const char *function);

#endif
