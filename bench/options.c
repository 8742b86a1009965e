#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char options_help[] =
    "  --bootstrap HOST:PORT   numeric address of the broker (127.0.0.1:9092)\n"
    "  --topic NAME            topic to produce to (twinlog-bench)\n"
    "  --connections N         TCP connections, each a writer of its own (1)\n"
    "  --in-flight N           requests in flight per connection (1)\n"
    "  --records N             records per request (1)\n"
    "  --record-size BYTES     size of a record's value (100)\n"
    "  --partitions N          partitions of the topic; connection i writes to i mod N (1)\n"
    "  --replication-factor N  of the topic that is made; -1: the broker's default (-1)\n"
    "  --acks 1|all            (all)\n"
    "  --warmup SECONDS        not measured (2)\n"
    "  --duration SECONDS      measured (10)\n"
    "  --server-pid PID        count this process's CPU as the server's; up to 4 times\n"
    "  --keep-topic            do not make the topic\n"
    "  --echo                  the peer is `twinlog-bench echo`\n"
    "  --ack-log FILE          a line `partition offset connection sequence` per acknowledged "
    "batch\n"
    "  --label TEXT            goes into the result\n"
    "  --json FILE             write the result as JSON; - is standard output\n"
    "  --directory DIR         sync: where to write\n"
    "  --cpu N                 run on this core\n"
    "  --server-cpu N          ceiling: run the echo server on this core\n";

static const struct option long_options[] = {
    {"bootstrap", required_argument, NULL, 'b'},
    {"topic", required_argument, NULL, 't'},
    {"connections", required_argument, NULL, 'c'},
    {"in-flight", required_argument, NULL, 'f'},
    {"records", required_argument, NULL, 'r'},
    {"record-size", required_argument, NULL, 's'},
    {"partitions", required_argument, NULL, 'p'},
    {"replication-factor", required_argument, NULL, 'R'},
    {"acks", required_argument, NULL, 'a'},
    {"warmup", required_argument, NULL, 'w'},
    {"duration", required_argument, NULL, 'd'},
    {"server-pid", required_argument, NULL, 'P'},
    {"keep-topic", no_argument, NULL, 'k'},
    {"echo", no_argument, NULL, 'e'},
    {"ack-log", required_argument, NULL, 'A'},
    {"label", required_argument, NULL, 'l'},
    {"json", required_argument, NULL, 'j'},
    {"directory", required_argument, NULL, 'D'},
    {"cpu", required_argument, NULL, 'C'},
    {"server-cpu", required_argument, NULL, 'S'},
    {NULL, 0, NULL, 0},
};

static void usage_fail(const char *what, const char *value)
{
    fprintf(stderr, "twinlog-bench: %s: %s; see twinlog-bench --help\n", what, value);
    exit(2);
}

static long number(const char *name, const char *text, long min, long max)
{
    char *end = NULL;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < min || value > max) {
        usage_fail(name, text);
    }
    return value;
}

static double seconds(const char *name, const char *text)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || value < 0 || value > 86400) {
        usage_fail(name, text);
    }
    return value;
}

static void bootstrap_parse(struct options *options, const char *text)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof(options->host)) {
        usage_fail("--bootstrap", text);
    }
    memcpy(options->host, text, (size_t)(colon - text));
    options->host[colon - text] = '\0';
    options->port = (uint16_t)number("--bootstrap", colon + 1, 1, 65535);
}

static int acks_parse(const char *text)
{
    if (strcmp(text, "all") == 0 || strcmp(text, "-1") == 0) {
        return -1;
    }
    return (int)number("--acks", text, 1, 1);
}

static void server_pid_add(struct options *options, const char *text)
{
    if (options->server_pid_count == 4) {
        usage_fail("--server-pid", "more than 4");
    }
    options->server_pid[options->server_pid_count++] =
        (int)number("--server-pid", text, 1, INT32_MAX);
}

static void shape_parse(struct options *options, int option, const char *text)
{
    switch (option) {
    case 'c':
        options->connections = (uint32_t)number("--connections", text, 1, 100000);
        break;
    case 'f':
        options->in_flight = (uint32_t)number("--in-flight", text, 1, 1000);
        break;
    case 'r':
        options->records = (uint32_t)number("--records", text, 1, 100000);
        break;
    case 's':
        options->record_size = (uint32_t)number("--record-size", text, 16, 100 << 20);
        break;
    case 'p':
        options->partitions = (uint32_t)number("--partitions", text, 1, 100000);
        break;
    case 'R':
        options->replication_factor = (int32_t)number("--replication-factor", text, -1, 10);
        break;
    case 'w':
        options->warmup_s = seconds("--warmup", text);
        break;
    default:
        options->duration_s = seconds("--duration", text);
        break;
    }
}

static void option_parse(struct options *options, int option)
{
    switch (option) {
    case 'b':
        bootstrap_parse(options, optarg);
        break;
    case 't':
        options->topic = optarg;
        break;
    case 'a':
        options->acks = acks_parse(optarg);
        break;
    case 'P':
        server_pid_add(options, optarg);
        break;
    case 'k':
        options->keep_topic = true;
        break;
    case 'e':
        options->echo = true;
        break;
    case 'A':
        options->ack_log = optarg;
        break;
    case 'l':
        options->label = optarg;
        break;
    case 'j':
        options->json = optarg;
        break;
    case 'D':
        options->directory = optarg;
        break;
    case 'C':
        options->cpu = (int)number("--cpu", optarg, 0, 1023);
        break;
    case 'S':
        options->server_cpu = (int)number("--server-cpu", optarg, 0, 1023);
        break;
    case '?':
        exit(2);
    default:
        shape_parse(options, option, optarg);
        break;
    }
}

void options_parse(struct options *options, int argc, char **argv)
{
    *options = (struct options){.host = "127.0.0.1",
                                .port = 9092,
                                .topic = "twinlog-bench",
                                .connections = 1,
                                .in_flight = 1,
                                .records = 1,
                                .record_size = 100,
                                .partitions = 1,
                                .replication_factor = -1,
                                .acks = -1,
                                .warmup_s = 2,
                                .duration_s = 10,
                                .label = "",
                                .directory = ".",
                                .cpu = -1,
                                .server_cpu = -1};
    int option = 0;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        option_parse(options, option);
    }
    if (optind < argc) {
        usage_fail("unknown word", argv[optind]);
    }
}
