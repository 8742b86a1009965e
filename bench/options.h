/* Command line of `twinlog-bench`: every workload reads its own part of one structure. */
#ifndef TWINLOG_BENCH_OPTIONS_H
#define TWINLOG_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
    char host[64];
    uint16_t port;
    const char *topic;
    uint32_t connections;
    uint32_t in_flight;
    uint32_t records;     /* per request */
    uint32_t record_size; /* value bytes */
    uint32_t partitions;
    int32_t replication_factor;
    int acks;
    double warmup_s;
    double duration_s;
    int server_pid[4]; /* processes whose CPU is counted as the server's */
    uint32_t server_pid_count;
    bool echo;           /* the peer is `twinlog-bench echo`: no topic is made */
    bool keep_topic;     /* the topic exists already */
    const char *ack_log; /* file that gets one line per acknowledged batch; NULL: none */
    const char *json;    /* file for the result, "-" for standard output; NULL: text */
    const char *label;
    const char *directory; /* sync: where to write */
    int cpu;               /* core to run on; -1: any */
    int server_cpu;        /* ceiling: the echo server's core; -1: any */
};

/* Fills `options` from the words after the workload's name; prints what is wrong and exits 2. */
void options_parse(struct options *options, int argc, char **argv);

/* The options' help text. */
extern const char options_help[];

#endif
