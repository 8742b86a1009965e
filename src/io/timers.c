#include "timers.h"

#include <stdlib.h>

enum { TIMERS_CAPACITY_FIRST = 64 };

void timers_init(struct timers *timers)
{
    *timers = (struct timers){0};
}

void timers_fini(struct timers *timers)
{
    for (uint32_t at = 1; at <= timers->count; at++) {
        timers->heap[at].timer->heap_index = 0;
    }
    free(timers->heap);
    *timers = (struct timers){0};
}

static bool timers_entry_before(const struct timers_entry *a, const struct timers_entry *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->sequence < b->sequence;
}

static void timers_put(struct timers *timers, uint32_t at, struct timers_entry entry)
{
    timers->heap[at] = entry;
    entry.timer->heap_index = at;
}

/* Places `entry` at the hole `at` or above it. */
static void timers_sift_up(struct timers *timers, uint32_t at, struct timers_entry entry)
{
    while (at > 1 && timers_entry_before(&entry, &timers->heap[at / 2])) {
        timers_put(timers, at, timers->heap[at / 2]);
        at /= 2;
    }
    timers_put(timers, at, entry);
}

/* Places `entry` at the hole `at` or below it. */
static void timers_sift_down(struct timers *timers, uint32_t at, struct timers_entry entry)
{
    for (;;) {
        uint32_t child = at * 2;
        if (child > timers->count) {
            break;
        }
        if (child < timers->count &&
            timers_entry_before(&timers->heap[child + 1], &timers->heap[child])) {
            child++;
        }
        if (!timers_entry_before(&timers->heap[child], &entry)) {
            break;
        }
        timers_put(timers, at, timers->heap[child]);
        at = child;
    }
    timers_put(timers, at, entry);
}

/* Timers are embedded in objects that are bounded elsewhere, so the heap is bounded with them. */
static void timers_grow(struct timers *timers)
{
    uint32_t capacity = timers->capacity == 0 ? TIMERS_CAPACITY_FIRST : timers->capacity * 2;
    struct timers_entry *heap = realloc(timers->heap, ((size_t)capacity + 1) * sizeof(*heap));
    ASSERT(heap != NULL);
    timers->heap = heap;
    timers->capacity = capacity;
}

void timers_start(struct timers *timers, struct io_timer *timer, int64_t due_ns, io_timer_fn fn)
{
    timers_stop(timers, timer);
    if (timers->count == timers->capacity) {
        timers_grow(timers);
    }
    timer->due_ns = due_ns;
    timer->fn = fn;
    timers->count++;
    timers->sequence++;
    timers_sift_up(
        timers, timers->count,
        (struct timers_entry){.due_ns = due_ns, .sequence = timers->sequence, .timer = timer});
}

void timers_stop(struct timers *timers, struct io_timer *timer)
{
    uint32_t at = timer->heap_index;
    if (at == 0) {
        return;
    }
    ASSERT(at <= timers->count);
    ASSERT(timers->heap[at].timer == timer);
    timer->heap_index = 0;
    struct timers_entry last = timers->heap[timers->count];
    timers->count--;
    if (last.timer == timer) {
        return;
    }
    if (at > 1 && timers_entry_before(&last, &timers->heap[at / 2])) {
        timers_sift_up(timers, at, last);
    } else {
        timers_sift_down(timers, at, last);
    }
}

int64_t timers_next_due_ns(const struct timers *timers)
{
    return timers->count == 0 ? INT64_MAX : timers->heap[1].due_ns;
}

void timers_run(struct timers *timers, int64_t now_ns)
{
    uint64_t sequence_last = timers->sequence;
    while (timers->count > 0 && timers->heap[1].due_ns <= now_ns &&
           timers->heap[1].sequence <= sequence_last) {
        struct io_timer *timer = timers->heap[1].timer;
        timers_stop(timers, timer);
        timer->fn(timer);
    }
}
