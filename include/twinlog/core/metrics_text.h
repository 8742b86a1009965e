/*
 * Writes metrics in Prometheus' text format, version 0.0.4. A family begins with HELP and TYPE;
 * samples follow. Running out of memory is kept and told at the end.
 *
 * Belongs to one thread at a time.
 */
#ifndef TWINLOG_CORE_METRICS_TEXT_H
#define TWINLOG_CORE_METRICS_TEXT_H

#include "twinlog/core/base.h"

struct metrics_text {
    char *data; /* malloc'ed; the owner frees it */
    size_t size;
    size_t capacity;
    bool failed; /* memory ran out: the text is not whole */
};

/* The bounds are powers of two of a microsecond: 2^4 (16 us) to 2^23 (8.4 s), and infinity. */
#define METRICS_BUCKET_FIRST 4u
#define METRICS_BUCKET_COUNT 21u

/* How long something took, in numbers that one thread counts. */
struct metrics_histogram {
    uint64_t buckets[METRICS_BUCKET_COUNT]; /* not cumulative; the last one is above all bounds */
    uint64_t sum_ns;
};

/* Counts one more; a negative duration counts as 0. */
static inline void metrics_observe(struct metrics_histogram *histogram, int64_t ns)
{
    uint64_t positive = ns > 0 ? (uint64_t)ns : 0;
    /* Rounded up: a bound is part of its bucket. */
    uint64_t units =
        (positive + (1000u << METRICS_BUCKET_FIRST) - 1) / (1000u << METRICS_BUCKET_FIRST);
    uint32_t bucket = units <= 1 ? 0 : 64u - (uint32_t)__builtin_clzll(units - 1);
    histogram->buckets[MIN(bucket, METRICS_BUCKET_COUNT - 1)]++;
    histogram->sum_ns += positive;
}

/* HELP and TYPE of a family; `type` is counter, gauge or histogram. */
void metrics_family(struct metrics_text *text, const char *name, const char *type,
                    const char *help);

/* A label in front of the next sample; the value is escaped. At most what 1 KiB holds. */
struct metrics_labels {
    char text[1024];
    size_t size;
};
void metrics_label(struct metrics_labels *labels, const char *name, const char *value);

/* One sample; `labels` may be NULL. */
void metrics_sample(struct metrics_text *text, const char *name,
                    const struct metrics_labels *labels, uint64_t value);

/* The same with a fraction, in seconds. */
void metrics_sample_ns(struct metrics_text *text, const char *name,
                       const struct metrics_labels *labels, uint64_t ns);

/* A family of one sample without labels. */
void metrics_single(struct metrics_text *text, const char *name, const char *type, const char *help,
                    uint64_t value);

/* The cumulative buckets, the sum and the count of one histogram. */
void metrics_histogram_write(struct metrics_text *text, const char *name,
                             const struct metrics_labels *labels,
                             const struct metrics_histogram *histogram);

#endif
