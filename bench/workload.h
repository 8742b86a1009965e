/* The workloads of `twinlog-bench`; each returns the process's exit status. */
#ifndef TWINLOG_BENCH_WORKLOAD_H
#define TWINLOG_BENCH_WORKLOAD_H

#include "options.h"
#include "report.h"

/* Closed loop of Produce requests; 1 when anything failed. */
int load_run(const struct options *options);

/* The same, leaving the result with the caller. */
int load_measure(const struct options *options, const char *workload, struct result *result);

/*
 * Serves Produce-sized answers to Produce-sized requests on host:port (0: any) until SIGTERM, on
 * the same loop and with the same thread layout as the broker. The port is written to
 * `port_fd` as text when that is not negative.
 */
int echo_serve(const struct options *options, int port_fd);

/* Starts an echo server as a child process and runs the load against it. */
int ceiling_run(const struct options *options);

/* One synced 4 KiB write after the other into a file in --directory: the disk's floor. */
int sync_run(const struct options *options);

#endif
