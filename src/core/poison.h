/*
 * Marks bytes as out of use for AddressSanitizer, so that a stale pointer into an arena or a pool
 * is reported as a use after free would be. Nothing happens in other builds.
 */
#ifndef TWINLOG_CORE_POISON_H
#define TWINLOG_CORE_POISON_H

#include "twinlog/core/base.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON_IS_ON 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(POISON_IS_ON)
#define POISON_IS_ON 1
#endif

#ifdef POISON_IS_ON
/*
 * As in sanitizer/asan_interface.h but for `const`: with it gcc takes the call for a read of memory
 * that malloc has just returned, and warns.
 */
void __asan_poison_memory_region(volatile void *at, size_t size);   /* NOLINT */
void __asan_unpoison_memory_region(volatile void *at, size_t size); /* NOLINT */
#define POISON(at, size)   __asan_poison_memory_region((at), (size))
#define UNPOISON(at, size) __asan_unpoison_memory_region((at), (size))
#else
#define POISON(at, size)   ((void)(at), (void)(size))
#define UNPOISON(at, size) ((void)(at), (void)(size))
#endif

#endif
