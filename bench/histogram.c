#include "histogram.h"

#define SUB_COUNT (1u << HISTOGRAM_SUB_BITS)

static unsigned bucket_of(uint64_t value)
{
    if (value < SUB_COUNT) {
        return (unsigned)value;
    }
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - (HISTOGRAM_SUB_BITS - 1);
    unsigned bucket = (shift << (HISTOGRAM_SUB_BITS - 1)) + (unsigned)(value >> shift);
    return bucket < HISTOGRAM_BUCKET_COUNT ? bucket : HISTOGRAM_BUCKET_COUNT - 1;
}

/* The largest value that falls into `bucket`. */
static uint64_t bucket_top(unsigned bucket)
{
    if (bucket < SUB_COUNT) {
        return bucket;
    }
    unsigned half = SUB_COUNT / 2;
    unsigned shift = bucket / half - 1;
    uint64_t mantissa = bucket - shift * half;
    return ((mantissa + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t value_ns)
{
    histogram->counts[bucket_of(value_ns)]++;
    histogram->count++;
    histogram->sum_ns += value_ns;
    if (value_ns > histogram->max_ns) {
        histogram->max_ns = value_ns;
    }
}

double histogram_percentile_us(const struct histogram *histogram, double percentile)
{
    if (histogram->count == 0) {
        return 0;
    }
    uint64_t wanted = (uint64_t)((double)histogram->count * percentile / 100.0 + 0.5);
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
        seen += histogram->counts[i];
        if (seen >= wanted && seen > 0) {
            uint64_t top = bucket_top(i);
            return (double)(top < histogram->max_ns ? top : histogram->max_ns) / 1000.0;
        }
    }
    return (double)histogram->max_ns / 1000.0;
}

double histogram_mean_us(const struct histogram *histogram)
{
    return histogram->count == 0 ? 0
                                 : (double)histogram->sum_ns / (double)histogram->count / 1000.0;
}
