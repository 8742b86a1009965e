/*
 * The armed timers of one loop: a binary heap by due time, ties in the order they were armed.
 * heap[1] is due first; a timer's heap_index is its place there, 0 when it is not armed.
 */
#ifndef TWINLOG_IO_TIMERS_H
#define TWINLOG_IO_TIMERS_H

#include "twinlog/io/io.h"

struct timers_entry {
    int64_t due_ns;
    uint64_t sequence; /* breaks ties */
    struct io_timer *timer;
};

struct timers {
    struct timers_entry *heap; /* slot 0 is not used */
    uint32_t count;
    uint32_t capacity; /* slots, without slot 0 */
    uint64_t sequence;
};

/* An empty heap; allocates nothing yet. */
void timers_init(struct timers *timers);

/* Frees the heap; timers still armed are marked as not armed. */
void timers_fini(struct timers *timers);

/* Arms `timer` for `due_ns`, or moves it there when it is armed. */
void timers_start(struct timers *timers, struct io_timer *timer, int64_t due_ns, io_timer_fn fn);

/* Disarms `timer`; nothing happens when it is not armed. */
void timers_stop(struct timers *timers, struct io_timer *timer);

/* When the next timer is due; INT64_MAX when none is armed. */
int64_t timers_next_due_ns(const struct timers *timers);

/*
 * Runs every timer due at `now_ns`, in order. A timer is disarmed before it runs; one that is armed
 * by a timer waits for the next call even with a delay of 0, so that a turn always ends.
 */
void timers_run(struct timers *timers, int64_t now_ns);

#endif
