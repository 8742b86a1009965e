#include <stdio.h>
#include <string.h>

#include "workload.h"

static int help(FILE *out, int exit_status)
{
    fprintf(out,
            "usage: twinlog-bench WORKLOAD [OPTIONS]\n"
            "  load     closed loop of Produce requests against any Kafka-compatible broker\n"
            "  ceiling  the same against an echo server started for it: what this machine carries\n"
            "  echo     that echo server alone, on --bootstrap\n"
            "  sync     one synced 4 KiB write after the other: the disk's floor\n"
            "options:\n%s"
            "exit status: 0 all well, 1 something failed (results are still written), 2 usage\n",
            options_help);
    return exit_status;
}

int main(int argc, char **argv)
{
    struct options options;
    if (argc < 2) {
        return help(stderr, 2);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        return help(stdout, 0);
    }
    options_parse(&options, argc - 1, argv + 1);
    if (strcmp(argv[1], "load") == 0) {
        return load_run(&options);
    }
    if (strcmp(argv[1], "ceiling") == 0) {
        return ceiling_run(&options);
    }
    if (strcmp(argv[1], "echo") == 0) {
        return echo_serve(&options, -1);
    }
    if (strcmp(argv[1], "sync") == 0) {
        return sync_run(&options);
    }
    fprintf(stderr, "twinlog-bench: no workload %s\n", argv[1]);
    return help(stderr, 2);
}
