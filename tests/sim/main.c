/*
 * node_sim: a node and its clients in a simulated world, one run a seed. See README.md.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "twinlog/core/trace.h"

#include "mutation.h"
#include "run.h"
#include "violation.h"

#define MUTATION_SEEDS_DEFAULT 300u

struct options {
    uint64_t first;
    uint64_t count;
    const char *mutation;
    enum run_what what;
    bool one;       /* --seed: verbose */
    bool twice;     /* --twice: each seed again, for equal hashes */
    bool mutations; /* --mutations: each has to be caught */
};

static const char *const mutation_names[MUTATION_COUNT] = {
    [MUTATION_REUSE_LSN] = "reuse-lsn",
    [MUTATION_RECYCLE_EARLY] = "recycle-early",
    [MUTATION_ACK_BEFORE_SYNC] = "ack-before-sync",
    [MUTATION_KEEP_OVERLAY] = "keep-overlay",
    [MUTATION_ANY_GENERATION] = "any-generation",
    [MUTATION_EARLY_DUPLICATE] = "early-duplicate",
    [MUTATION_FORGET_PRODUCERS] = "forget-producers",
    [MUTATION_LOSE_LOG_START] = "lose-log-start",
    [MUTATION_EARLY_LOG_START] = "early-log-start",
};

static void usage(void)
{
    fprintf(stderr, "usage: node_sim [--seeds N] [--first S] [--seed X] [--twice]\n"
                    "                [--target log|broker] [--mutation NAME] [--mutations]\n"
                    "mutations:");
    for (size_t i = 1; i < COUNT_OF(mutation_names); i++) {
        fprintf(stderr, " %s", mutation_names[i]);
    }
    fputc('\n', stderr);
    exit(2);
}

static uint64_t number(const char *text)
{
    char *end = NULL;
    if (text == NULL) {
        usage();
    }
    uint64_t value = strtoull(text, &end, 10);
    if (end == text || *end != '\0') {
        usage();
    }
    return value;
}

static enum run_what target_read(const char *text)
{
    if (strcmp(text, "log") != 0 && strcmp(text, "broker") != 0) {
        usage();
    }
    return text[0] == 'l' ? RUN_LOG : RUN_BROKER;
}

static struct options options_read(int argc, char **argv)
{
    struct options options = {.first = 1, .count = 0};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--twice") == 0) {
            options.twice = true;
            continue;
        }
        if (strcmp(argv[i], "--mutations") == 0) {
            options.mutations = true;
            continue;
        }
        if (strcmp(argv[i], "--seeds") == 0) {
            options.count = number(value);
        } else if (strcmp(argv[i], "--first") == 0) {
            options.first = number(value);
        } else if (strcmp(argv[i], "--seed") == 0) {
            options.first = number(value);
            options.one = true;
        } else if (strcmp(argv[i], "--target") == 0 && value != NULL) {
            options.what = target_read(value);
        } else if (strcmp(argv[i], "--mutation") == 0 && value != NULL) {
            options.mutation = value;
        } else {
            usage();
        }
        i++;
    }
    if (options.count == 0) {
        options.count = options.one ? 1 : options.mutations ? MUTATION_SEEDS_DEFAULT : 100;
    }
    return options;
}

static double clock_s(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---------------------------------------------------------------- runs */

static void totals_print(const struct run_totals *t, double seconds, double cpu_seconds)
{
#define LINE(name, value) printf("  %-28s %" PRIu64 "\n", name, (uint64_t)(value))
    printf("%" PRIu64 " seeds in %.1f s: %.1f seeds/s, %.1f seeds per CPU second\n", t->runs,
           seconds, (double)t->runs / seconds, (double)t->runs / cpu_seconds);
    LINE("  of the whole broker", t->broker_runs);
    LINE("virtual ms", t->virtual_ns / 1000000);
    LINE("acknowledged records", t->acked);
    LINE("  least of a seed", t->acked_least);
    LINE("  taken by rot, excused", t->excused);
    LINE("lives", t->lives);
    LINE("power cuts", t->power_cuts);
    LINE("  inside an operation", t->dooms);
    LINE("kills", t->kills);
    LINE("crashes, least of a seed", t->crashes_least);
    LINE("clean stops", t->clean_stops);
    LINE("tails cut at a start", t->tails_cut);
    LINE("starts that failed", t->failed_starts);
    LINE("formats cut off", t->format_crashes);
    LINE("recoveries done twice", t->twice_recovered);
    LINE("rots of the journal", t->rots);
    LINE("  refused to start", t->rots_refused);
    LINE("rots of segments", t->segment_rots);
    LINE("  reads that told", t->damage_seen);
    LINE("phases of failing writes", t->offline_phases);
    LINE("  went offline", t->target.offline);
    LINE("phases of a full disk", t->full_phases);
    LINE("  told so", t->target.disk_full);
    LINE("journal frames", t->target.frames);
    LINE("journal wraps", t->target.journal_wraps);
    LINE("checkpoints", t->target.checkpoints);
    LINE("bytes written back", t->target.written_back_bytes);
    LINE("segments at the end", t->segment_files);
    LINE("  of partitions", t->segment_dirs);
    LINE("reads from memory", t->target.memory_reads);
    LINE("reads from segments", t->target.segment_reads);
    LINE("duplicates answered", t->target.duplicates);
    LINE("appends that waited", t->target.waits_for_room);
    LINE("batches without acks", t->target.without_acks);
    LINE("log starts moved", t->target.trims);
    LINE("lookups", t->target.lookups);
    LINE("settings changed", t->target.settings_changed);
    LINE("  told", t->target.settings_told);
    LINE("fetches in sessions", t->target.session_fetches);
    LINE("  partitions without news", t->target.session_left_out);
    LINE("  sessions lost", t->target.sessions_lost);
    LINE("events", t->sim.events);
    LINE("torn writes", t->sim.torn_writes);
    LINE("lost writes", t->sim.lost_writes);
    LINE("reordered writes", t->sim.reordered_writes);
    LINE("lost names", t->sim.lost_names);
    LINE("stalls", t->sim.stalls);
    LINE("read errors", t->sim.read_errors);
    LINE("write errors", t->sim.write_errors);
    LINE("sync errors", t->sim.sync_errors);
    LINE("no space", t->sim.no_space);
    LINE("pauses", t->sim.pauses);
    LINE("clock jumps", t->sim.clock_jumps);
    LINE("jobs cut off", t->sim.job_crashes);
    LINE("resets", t->sim.resets);
    LINE("splits", t->sim.splits);
#undef LINE
}

static void seeds_run(const struct options *options, struct run_totals *totals)
{
    for (uint64_t seed = options->first; seed < options->first + options->count; seed++) {
        violation_begin(seed, options->what, options->mutation);
        run_seed(seed, options->what, options->one, totals);
        uint64_t hash = run_hash();
        if (options->twice) {
            run_seed(seed, options->what, false, totals);
            if (run_hash() != hash) {
                violation("two runs of one seed differ: %016" PRIx64 " and %016" PRIx64, hash,
                          run_hash());
            }
        }
    }
}

/* ---------------------------------------------------------------- mutations */

#if TWINLOG_FAULTS

static void mutation_set(const char *name)
{
    for (int i = 1; i < MUTATION_COUNT; i++) {
        if (strcmp(mutation_names[i], name) == 0) {
            journal_mutate((enum log_mutation)i, true);
            return;
        }
    }
    usage();
}

/* Runs the seeds in a process of their own; true when it ended badly. */
static bool mutation_is_caught(const struct options *options, const char *name)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct run_totals totals = {0};
        struct options own = *options;
        own.mutation = name;
        mutation_set(name);
        seeds_run(&own, &totals);
        _exit(0);
    }
    int state = 0;
    if (child < 0 || waitpid(child, &state, 0) != child) {
        perror("node_sim");
        exit(2);
    }
    return !WIFEXITED(state) || WEXITSTATUS(state) != 0;
}

static int mutations_run(const struct options *options)
{
    int missed = 0;
    for (int i = 1; i < MUTATION_COUNT; i++) {
        bool caught = mutation_is_caught(options, mutation_names[i]);
        printf("%-16s %s\n", mutation_names[i], caught ? "caught" : "NOT CAUGHT");
        missed += caught ? 0 : 1;
    }
    return missed == 0 ? 0 : 1;
}

#else

static void mutation_set(const char *name)
{
    fprintf(stderr, "node_sim: %s: this build has no mutations; configure with TWINLOG_FAULTS=ON\n",
            name);
    exit(2);
}

static int mutations_run(const struct options *options)
{
    (void)options;
    mutation_set("--mutations");
    return 2;
}

#endif

int main(int argc, char **argv)
{
    struct options options = options_read(argc, argv);
    struct run_totals totals = {0};
    violation_catch_signals();
    /* What a node says about the faults it meets is of interest for one run, not for thousands. */
    trace_set_level(options.one ? TRACE_INFO : TRACE_OFF);
    if (options.mutations) {
        return mutations_run(&options);
    }
    if (options.mutation != NULL) {
        mutation_set(options.mutation);
    }
    double started_s = clock_s(CLOCK_MONOTONIC);
    seeds_run(&options, &totals);
    totals_print(&totals, clock_s(CLOCK_MONOTONIC) - started_s, clock_s(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
