/* Attributes and small macros that every module uses. */
#ifndef TWINLOG_CORE_BASE_H
#define TWINLOG_CORE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_USE  __attribute__((warn_unused_result))
#define NO_RETURN __attribute__((noreturn))
#define PRINTF_LIKE(format_index, first_index)                                                     \
    __attribute__((format(printf, format_index, first_index)))

#define CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
#define COUNT_OF(array)                     (sizeof(array) / sizeof((array)[0]))
#define MIN(a, b)                           ((a) < (b) ? (a) : (b))
#define MAX(a, b)                           ((a) > (b) ? (a) : (b))

/* Rounds `value` up to a multiple of `unit`, a power of two. */
#define ALIGN_UP(value, unit)   (((value) + ((unit)-1)) & ~((__typeof__(value))(unit)-1))
#define ALIGN_DOWN(value, unit) ((value) & ~((__typeof__(value))(unit)-1))

#endif
