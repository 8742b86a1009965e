/*
 * Log-linear latency histogram (HDR): values in nanoseconds up to about 18 minutes, relative error
 * below 1/128. Fixed size, no allocation.
 */
#ifndef TWINLOG_BENCH_HISTOGRAM_H
#define TWINLOG_BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS     7
#define HISTOGRAM_BUCKET_COUNT ((41 - HISTOGRAM_SUB_BITS) * (1 << HISTOGRAM_SUB_BITS))

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKET_COUNT];
    uint64_t count;
    uint64_t sum_ns;
    uint64_t max_ns;
};

/* Adds one value; larger than the range counts in the last bucket, max stays exact. */
void histogram_add(struct histogram *histogram, uint64_t value_ns);

/* The value below or at which `percentile` (0 to 100) of the values lie, in microseconds. */
double histogram_percentile_us(const struct histogram *histogram, double percentile);

/* Mean in microseconds; 0 when empty. */
double histogram_mean_us(const struct histogram *histogram);

#endif
