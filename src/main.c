/*
 * The program: serve, format, scrub, dump-log. Exit codes:
 *
 *     0  done, or stopped cleanly by SIGINT or SIGTERM
 *     1  failed; what and the remedy are on stderr
 *     2  the command line is wrong
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "build_facts.h"
#include "twinlog/broker/broker.h"
#include "twinlog/core/trace.h"

#include "monitor.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const char usage_text[] =
    "usage:\n"
    "  twinlog serve --config FILE [--override KEY=VALUE]...\n"
    "      runs the broker until SIGINT or SIGTERM\n"
    "  twinlog format --config FILE [--override KEY=VALUE]... [--cluster-id ID]\n"
    "      prepares log.dirs once, before the first start; without --cluster-id one is made up\n"
    "  twinlog scrub --config FILE [--override KEY=VALUE]...\n"
    "      checks all segments of a directory that no broker uses; damage is exit code 1\n"
    "  twinlog dump-log FILE [--deep-iteration] [--print-data-log]\n"
    "      prints a segment, an index, a journal file or a checkpoint\n"
    "  twinlog --version\n"
    "  twinlog --help\n"
    "exit codes: 0 done, 1 failed, 2 wrong usage\n";

static int fail_usage(const char *what, const char *argument)
{
    fprintf(stderr, "twinlog: %s%s%s\n%s", what, argument == NULL ? "" : ": ",
            argument == NULL ? "" : argument, usage_text);
    return EXIT_USAGE;
}

/* ---------------------------------------------------------------- configuration */

struct arguments {
    const char *config;
    const char *cluster_id;
    const char *file;
    bool deep;
    bool print_values;
    char **overrides;
    int override_count;
};

/* Takes the value of an option; NULL when there is none. */
static const char *option_value(int argc, char **argv, int *at)
{
    return *at + 1 < argc ? argv[++*at] : NULL;
}

/* Reads the arguments behind the command. False: said on stderr. */
static bool arguments_parse(struct arguments *arguments, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        const char **target = NULL;
        if (strcmp(argv[i], "--config") == 0) {
            target = &arguments->config;
        } else if (strcmp(argv[i], "--cluster-id") == 0) {
            target = &arguments->cluster_id;
        } else if (strcmp(argv[i], "--deep-iteration") == 0) {
            arguments->deep = true;
        } else if (strcmp(argv[i], "--print-data-log") == 0) {
            arguments->print_values = true;
            arguments->deep = true;
        } else if (strcmp(argv[i], "--override") == 0) {
            if (i + 1 == argc) {
                (void)fail_usage("an option needs a value", argv[i]);
                return false;
            }
            arguments->overrides[arguments->override_count++] = argv[++i];
        } else if (argv[i][0] != '-' && arguments->file == NULL) {
            arguments->file = argv[i];
        } else {
            (void)fail_usage("not understood", argv[i]);
            return false;
        }
        if (target != NULL && (*target = option_value(argc, argv, &i)) == NULL) {
            (void)fail_usage("an option needs a value", argv[i]);
            return false;
        }
    }
    return true;
}

static status config_read(struct broker_config *config, const struct arguments *arguments,
                          struct config_report *report)
{
    broker_config_init(config);
    TRY(broker_config_load(config, io_disk_real(), arguments->config, report));
    for (int i = 0; i < arguments->override_count; i++) {
        TRY(broker_config_override(config, arguments->overrides[i], report));
    }
    return broker_config_finish(config, report);
}

/* Loads the configuration; what is wrong with it is on the trace. */
static bool config_load(struct broker_config *config, const struct arguments *arguments)
{
    struct config_report report = {0};
    status result = config_read(config, arguments, &report);
    if (!status_is_ok(result)) {
        trace_error("config", "%s", report.error);
        return false;
    }
    if (report.ignored[0] != '\0') {
        trace_warn("config", "these settings have no meaning here and are ignored: %s%s",
                   report.ignored, report.ignored_cut ? ", and more" : "");
    }
    return true;
}

/* ---------------------------------------------------------------- serve */

static struct io *serve_io;
static volatile sig_atomic_t serve_signal;

static void serve_on_signal(int number)
{
    serve_signal = number;
    io_stop(serve_io);
}

static void serve_set_signals(void)
{
    struct sigaction action = {.sa_handler = serve_on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* One descriptor per connection: as many as the host allows. */
static void serve_raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            trace_warn("broker", "the limit of open files could not be raised");
        }
    }
}

struct serve_stop {
    bool done;
    status result;
};

static void serve_on_stopped(void *context, status result)
{
    struct serve_stop *stop = context;
    stop->done = true;
    stop->result = result;
    io_stop(serve_io);
}

/* Runs until a signal, then until everything is closed; a second signal ends at once. */
static int serve_run(struct broker *broker)
{
    struct serve_stop stop = {0};
    status result = OK;
    /* The loop also ends a run when the monitor asks for an answer between two turns. */
    while (status_is_ok(result) && serve_signal == 0) {
        result = io_run(serve_io);
        monitor_serve();
    }
    if (!status_is_ok(result)) {
        trace_error("broker", "the event loop failed: %s", status_text(result));
        return EXIT_FAILED;
    }
    trace_info("broker", "signal %d: finishing requests and closing the log", (int)serve_signal);
    serve_signal = 0;
    broker_stop(broker, serve_on_stopped, &stop);
    while (status_is_ok(result) && !stop.done && serve_signal == 0) {
        result = io_run(serve_io);
        monitor_serve();
    }
    monitor_stop();
    if (!stop.done) {
        trace_warn("broker", "ended before the log was closed; the next start replays its journal");
        return EXIT_FAILED;
    }
    broker_destroy(broker);
    io_destroy(serve_io);
    if (!status_is_ok(stop.result)) {
        trace_error("broker", "the log did not close cleanly: %s", status_text(stop.result));
        return EXIT_FAILED;
    }
    trace_info("broker", "stopped");
    return EXIT_DONE;
}

/*
 * What a read from segment files takes (1 MiB) is freed when it is sent, and the next read takes it
 * again. By default that gives the pages back to the kernel each time, to be faulted in anew.
 */
#define SERVE_MEMORY_KEPT (8 * 1024 * 1024)

static void serve_keep_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, SERVE_MEMORY_KEPT);
    (void)mallopt(M_TRIM_THRESHOLD, SERVE_MEMORY_KEPT);
}

static int serve(const struct arguments *arguments)
{
    static struct broker_config config;
    struct io_options options = {0};
    struct broker *broker;
    if (arguments->config == NULL || arguments->file != NULL) {
        return fail_usage("serve needs --config FILE", NULL);
    }
    if (!config_load(&config, arguments)) {
        return EXIT_FAILED;
    }
    serve_keep_memory();
    serve_raise_descriptor_limit();
    status result = io_create_uring(&options, &serve_io);
    if (!status_is_ok(result)) {
        trace_error("broker", "no event loop: %s", status_text(result));
        return EXIT_FAILED;
    }
    serve_set_signals();
    if (!monitor_start(serve_io, &config)) {
        return EXIT_FAILED;
    }
    result = broker_create(serve_io, &config, &broker);
    if (!status_is_ok(result)) {
        trace_error("broker", "cannot start on %s: %s%s", config.log_dir, status_text(result),
                    result.code == STATUS_NOT_FOUND
                        ? "; prepare it once with: twinlog format --config FILE"
                        : "");
        monitor_stop();
        return EXIT_FAILED;
    }
    monitor_attach(broker);
    trace_info("broker",
               "twinlog " BUILD_VERSION " (" BUILD_COMMIT ", " BUILD_KIND
               ") listening on %s:%u, node %d, log in %s",
               config.host, broker_port(broker), (int)config.node_id, config.log_dir);
    return serve_run(broker);
}

/* ---------------------------------------------------------------- format */

static int format(const struct arguments *arguments)
{
    static struct broker_config config;
    struct io_options io_options = {.entry_count = 8, .receive_buffer_count = 8};
    struct io *io;
    if (arguments->config == NULL || arguments->file != NULL) {
        return fail_usage("format needs --config FILE", NULL);
    }
    if (!config_load(&config, arguments)) {
        return EXIT_FAILED;
    }
    /* A loop for its random numbers. */
    status result = io_create_uring(&io_options, &io);
    if (!status_is_ok(result)) {
        return EXIT_FAILED;
    }
    uint64_t random[2] = {io_random(io), io_random(io)};
    struct log_format_options options = {
        .dir = config.log_dir,
        .cluster_id = uuid_from_random(io_random(io), io_random(io)),
        .node_id = (int32_t)config.node_id,
        .shard_count = (uint32_t)config.shard_count,
        .journal_size = (uint64_t)config.journal_size,
    };
    io_destroy(io);
    if (arguments->cluster_id != NULL &&
        !uuid_parse(arguments->cluster_id, strlen(arguments->cluster_id), &options.cluster_id)) {
        return fail_usage("a cluster id is 22 characters of URL-safe base64",
                          arguments->cluster_id);
    }
    result = log_format(io_disk_real(), &options, random);
    if (!status_is_ok(result)) {
        trace_error("format", "%s was not formatted: %s", config.log_dir, status_text(result));
        return EXIT_FAILED;
    }
    char cluster_id[UUID_TEXT_SIZE];
    uuid_format(&options.cluster_id, cluster_id);
    trace_info("format", "%s is ready: cluster id %s, node %d", config.log_dir, cluster_id,
               options.node_id);
    return EXIT_DONE;
}

/* ---------------------------------------------------------------- scrub */

static int scrub(const struct arguments *arguments)
{
    static struct broker_config config;
    struct log_scrub_result found;
    if (arguments->config == NULL || arguments->file != NULL) {
        return fail_usage("scrub needs --config FILE", NULL);
    }
    if (!config_load(&config, arguments)) {
        return EXIT_FAILED;
    }
    status result = log_scrub(io_disk_real(), config.log_dir, &found);
    if (!status_is_ok(result) && result.code != STATUS_CORRUPT) {
        trace_error("scrub", "%s was not checked: %s", config.log_dir, status_text(result));
        return EXIT_FAILED;
    }
    printf("%s: %llu segments, %llu bytes, %llu damaged ranges\n", config.log_dir,
           (unsigned long long)found.segments, (unsigned long long)found.bytes,
           (unsigned long long)found.damaged);
    if (found.unjudged > 0) {
        printf("the last broker did not end cleanly: the ends of %llu segments are incomplete, and "
               "the next start writes them again\n",
               (unsigned long long)found.unjudged);
    }
    return status_is_ok(result) ? EXIT_DONE : EXIT_FAILED;
}

/* ---------------------------------------------------------------- dump-log */

static int dump_log(const struct arguments *arguments)
{
    if (arguments->file == NULL) {
        return fail_usage("dump-log needs a file", NULL);
    }
    struct log_dump_options options = {
        .deep = arguments->deep,
        .print_values = arguments->print_values,
    };
    status result = log_dump(io_disk_real(), arguments->file, &options, stdout);
    if (!status_is_ok(result)) {
        fflush(stdout);
        fprintf(stderr, "twinlog: %s: %s\n", arguments->file, status_text(result));
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const struct arguments *arguments);
    } commands[] = {{"serve", serve}, {"format", format}, {"scrub", scrub}, {"dump-log", dump_log}};
    if (argc < 2) {
        return fail_usage("no command", NULL);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("twinlog %s\ncommit %s\nbuild %s\n", BUILD_VERSION, BUILD_COMMIT, BUILD_KIND);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(usage_text, stdout);
        return EXIT_DONE;
    }
    struct arguments arguments = {.overrides = calloc((size_t)argc, sizeof(char *))};
    if (arguments.overrides == NULL) {
        return EXIT_FAILED;
    }
    int code = EXIT_USAGE;
    bool found = false;
    bool parsed = arguments_parse(&arguments, argc - 2, argv + 2);
    for (size_t i = 0; parsed && i < COUNT_OF(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            found = true;
            code = commands[i].run(&arguments);
        }
    }
    if (parsed && !found) {
        code = fail_usage("no such command", argv[1]);
    }
    free(arguments.overrides);
    return code;
}
