/*
 * Bounded ring of pointers between exactly one producer thread and one consumer thread.
 * Release/acquire on the two counters; no locks, no allocation after init.
 */
#ifndef TWINLOG_CORE_SPSC_H
#define TWINLOG_CORE_SPSC_H

#include <stdatomic.h>

#include "twinlog/core/status.h"

struct spsc {
    _Alignas(64) _Atomic uint32_t head; /* next slot to write; producer's */
    _Alignas(64) _Atomic uint32_t tail; /* next slot to read; consumer's */
    _Alignas(64) uint32_t capacity;     /* power of two */
    void **slots;
};

/* `capacity` is a power of two, at most 2^20. NO_MEMORY when the slots cannot be had. */
MUST_USE status spsc_init(struct spsc *ring, uint32_t capacity);

/* Frees the slots; what they point at is not touched. */
void spsc_fini(struct spsc *ring);

/* Producer: false when full. */
MUST_USE bool spsc_push(struct spsc *ring, void *item);

/* Consumer: NULL when empty. */
MUST_USE void *spsc_pop(struct spsc *ring);

/* Either side: true when nothing is in it at this moment. */
bool spsc_is_empty(struct spsc *ring);

#endif
