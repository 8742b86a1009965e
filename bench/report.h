/* What a run measured, and how it is written: a line of text, or JSON. */
#ifndef TWINLOG_BENCH_REPORT_H
#define TWINLOG_BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"
#include "options.h"

struct result {
    const char *workload;
    double seconds;      /* measured */
    uint64_t requests;   /* answered without error within the measured time */
    uint64_t errors;     /* answers with an error code, and broken connections */
    uint64_t unfinished; /* sent and not answered at the end */
    uint32_t connections_open;
    uint64_t client_cpu_ns; /* in the measured time */
    uint64_t server_cpu_ns;
    struct histogram latency; /* of requests; unfinished ones at their age */
};

/* Writes the result where the options say. */
void report_write(const struct options *options, const struct result *result);

#endif
