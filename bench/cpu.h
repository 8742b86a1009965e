/* CPU time of processes, from the scheduler's own nanosecond counters, and pinning. */
#ifndef TWINLOG_BENCH_CPU_H
#define TWINLOG_BENCH_CPU_H

#include <stdint.h>

/* CPU nanoseconds all threads of `pid` have run; 0 when it is gone. */
uint64_t cpu_ns_of(int pid);

/* Binds the calling process to one core; -1 does nothing. */
void cpu_pin(int cpu);

#endif
