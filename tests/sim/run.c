#include "run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "random.h"
#include "rot.h"
#include "violation.h"

#define MS_NS           1000000ll
#define ACKED_WANTED    200u
#define CRASHES_WANTED  2u
#define LIVES_MAX       40u
#define START_TRIES_MAX 40u
#define DRAIN_MS_MAX    60000 /* virtual: within this everything is acknowledged without faults */
#define STOP_MS_MAX     60000
#define OFFLINE_STEPS   40u
#define SCAN_TICKS_MAX  240000 /* quarters of a virtual ms */

/* How a life ends. */
enum end {
    END_POWER_CUT,
    END_KILL,
    END_DOOM,        /* a power cut in the middle of a job or an operation */
    END_STOP,        /* clean */
    END_ROT,         /* a power cut, and a bit of the journal flips */
    END_SEGMENT_ROT, /* a kill -9, and bits of a segment flip */
    END_COUNT,
};

struct run {
    struct sim *sim;
    struct sim_node *node;
    struct target *target;
    struct model model;
    struct workload *workload;
    struct sim_options options; /* with faults */
    struct rot rot;
    struct run_totals *totals;
    uint32_t crash_count;
    bool quiet;   /* no misfortunes any more */
    bool excused; /* the next start may miss what stood last */
    bool verbose;
    int64_t log_ends; /* of all partitions together when the node went down; -1: not known */
};

static uint64_t last_hash;

uint64_t run_hash(void)
{
    return last_hash;
}

static void PRINTF_LIKE(2, 3) run_say(const struct run *run, const char *format, ...)
{
    if (run->verbose) {
        va_list arguments;
        va_start(arguments, format);
        fprintf(stderr, "%10.3f ms: ", (double)sim_now_ns(run->sim) / (double)MS_NS);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
        va_end(arguments);
    }
}

/* ---------------------------------------------------------------- what differs between seeds */

static uint32_t some(struct sim *sim, uint32_t percent, uint32_t from, uint32_t to)
{
    return random_chance(sim, percent) ? random_between(sim, from, to) : 0;
}

static void options_draw(struct sim *sim, struct sim_options *options)
{
    *options = (struct sim_options){
        .disk_write_us_min = random_between(sim, 10, 100),
        .disk_write_us_max = random_between(sim, 100, 1000),
        .disk_stall_chance = some(sim, 50, 10, 500),
        .disk_stall_us_max = random_between(sim, 2000, 50000),
        .net_delay_us_min = random_between(sim, 5, 50),
        .net_delay_us_max = random_between(sim, 50, 500),
        .net_split_chance = some(sim, 50, 100, 5000),
        .net_reset_chance = some(sim, 30, 1, 30),
        .offload_us_max = random_between(sim, 1, random_chance(sim, 50) ? 100 : 20000),
        .read_error_chance = some(sim, 20, 1, 50),
    };
}

static void options_heal(struct run *run)
{
    struct sim_options quiet = {
        .disk_write_us_min = run->options.disk_write_us_min,
        .disk_write_us_max = run->options.disk_write_us_max,
        .net_delay_us_min = run->options.net_delay_us_min,
        .net_delay_us_max = run->options.net_delay_us_max,
        .offload_us_max = run->options.offload_us_max,
    };
    sim_set_options(run->sim, &quiet);
}

static void sizes_draw(struct sim *sim, struct target_sizes *sizes)
{
    static const uint32_t journal_sizes[] = {256u << 10, 512u << 10, 1024u << 10};
    uint32_t journal_size = journal_sizes[random_below(sim, COUNT_OF(journal_sizes))];
    *sizes = (struct target_sizes){
        .journal_size = journal_size,
        .journal_file_count = 4,
        .frame_size = random_chance(sim, 50) ? 16u << 10 : 8u << 10,
        .writes_in_flight = random_between(sim, 1, 6),
        .chunk_size = 64u << 10,
        .chunk_count = random_between(sim, 8, 16),
        .checkpoint_size = journal_size / random_between(sim, 3, 8),
        .checkpoint_idle_ms = random_between(sim, 5, 200),
        .partition = {.retention_ms = -1,
                      .retention_size = -1,
                      .segment_size = random_between(sim, 16, 64) << 10,
                      .segment_ms =
                          random_chance(sim, 30) ? random_between(sim, 20, 200) : INT64_MAX,
                      .index_interval_size = random_between(sim, 512, 4096)},
    };
}

static void shape_draw(struct sim *sim, struct workload_shape *shape)
{
    *shape = (struct workload_shape){
        .value_size_max = random_between(sim, 100, 3000),
        .big_percent = some(sim, 30, 1, 10),
        .big_size_max = random_between(sim, 4000, 24000),
        .records_max = random_between(sim, 1, 5),
        .topic_percent = random_between(sim, 1, 4),
        .fact_percent = random_between(sim, 2, 8),
    };
}

static void run_init(struct run *run, uint64_t seed, enum run_what what, bool verbose,
                     struct run_totals *totals)
{
    struct sim_options none = {0};
    struct target_sizes sizes;
    struct workload_shape shape;
    *run = (struct run){.verbose = verbose, .totals = totals, .log_ends = -1};
    run->sim = sim_create(seed, &none);
    ASSERT(run->sim != NULL);
    run->node = sim_node_add(run->sim, "10.0.0.1");
    options_draw(run->sim, &run->options);
    sim_set_options(run->sim, &run->options);
    sizes_draw(run->sim, &sizes);
    shape_draw(run->sim, &shape);
    if (what == RUN_BROKER || (what == RUN_BY_SEED && seed % 2 == 1)) {
        run->target = target_broker_create(run->sim, run->node, &sizes);
        totals->broker_runs++;
    } else {
        run->target = target_log_create(run->sim, run->node, &sizes);
    }
    model_init(&run->model, seed);
    run->workload = workload_create(run->sim, run->target, &run->model, &shape);
}

static void run_fini(struct run *run)
{
    struct sim_coverage coverage;
    const uint64_t *from = (const uint64_t *)&coverage;
    uint64_t *to = (uint64_t *)&run->totals->sim;
    sim_coverage_get(run->sim, &coverage);
    for (size_t i = 0; i < sizeof(coverage) / sizeof(*from); i++) {
        to[i] += from[i];
    }
    from = (const uint64_t *)&run->target->coverage;
    to = (uint64_t *)&run->totals->target;
    for (size_t i = 0; i < sizeof(run->target->coverage) / sizeof(*from); i++) {
        to[i] += from[i];
    }
    bool is_first = run->totals->runs++ == 0;
    uint64_t acked_least = is_first ? UINT64_MAX : run->totals->acked_least;
    uint64_t crashes_least = is_first ? UINT64_MAX : run->totals->crashes_least;
    run->totals->acked_least = MIN(acked_least, run->model.acked_count);
    run->totals->crashes_least = MIN(crashes_least, (uint64_t)run->crash_count);
    run->totals->acked += run->model.acked_count;
    run->totals->damage_seen += run->model.damage_seen;
    run->totals->excused += run->model.excused_count;
    run->totals->virtual_ns += (uint64_t)sim_now_ns(run->sim);
    last_hash = sim_hash(run->sim);
    workload_destroy(run->workload);
    run->target->ops->destroy(run->target);
    model_fini(&run->model);
    rot_fini(&run->rot);
    sim_destroy(run->sim);
}

/* ---------------------------------------------------------------- crash and start */

static int64_t run_log_ends(struct run *run)
{
    const struct model *model = &run->model;
    int64_t sum = 0;
    for (uint32_t i = 0; i < model->topic_count; i++) {
        const struct model_topic *topic = model->topics[i];
        for (uint32_t p = 0; topic->state == MODEL_TOPIC_ALIVE && p < topic->partition_count; p++) {
            sum += MAX(0, run->target->ops->log_end(run->target, &topic->id, (int32_t)p));
        }
    }
    return sum;
}

/* A clean shutdown frees the log while its loop lives; a crash takes the loop first. */
static void run_crash(struct run *run, bool process_only)
{
    if (run->target->ops->log_end != NULL && run->log_ends < 0) {
        run->log_ends = run_log_ends(run);
    }
    if (run->target->ops->is_stopped(run->target)) {
        run->target->ops->crashed(run->target);
        sim_node_crash(run->node, true);
    } else {
        sim_node_crash(run->node, process_only);
        run->target->ops->crashed(run->target);
    }
    sim_node_start(run->node);
}

static void run_format(struct run *run)
{
    bool doomed = random_chance(run->sim, 20);
    for (uint32_t i = 0;; i++) {
        if (doomed && i < 3) {
            sim_node_doom(run->node, random_below(run->sim, 60));
        }
        status s = run->target->ops->format(run->target);
        if (status_is_ok(s) || (i > 0 && s.code == STATUS_EXISTS)) {
            break;
        }
        if (!sim_node_is_doomed(run->node) && s.code != STATUS_IO) {
            violation("format failed: %s", status_text(s));
        }
        if (i == START_TRIES_MAX) {
            violation("format fails again and again: %s", status_text(s));
        }
        run->totals->format_crashes++;
        run_crash(run, !sim_node_is_doomed(run->node));
    }
    if (doomed) {
        run_crash(run, false); /* What was formatted has to last, and no doom is left armed. */
    }
}

/* The medium reads well again: done by hand, so without faults. */
static void run_rot_undo(struct run *run)
{
    options_heal(run);
    rot_undo(&run->rot, run->node);
    sim_set_options(run->sim, &run->options);
}

/* What the model says about all partitions at a start. */
static void run_ends_check(struct run *run)
{
    struct model *model = &run->model;
    model_started(model);
    if (run->target->ops->log_end == NULL) {
        return; /* What reads say has to do. */
    }
    run->totals->tails_cut += run_log_ends(run) < run->log_ends ? 1 : 0;
    run->log_ends = -1;
    for (uint32_t i = 0; i < model->topic_count; i++) {
        struct model_topic *topic = model->topics[i];
        if (run->excused && topic->has_id) {
            bool is_there = run->target->ops->log_end(run->target, &topic->id, 0) >= 0;
            model_topic_excused(model, topic, is_there);
        }
        for (uint32_t p = 0; topic->has_id && p < topic->partition_count; p++) {
            int64_t end = run->target->ops->log_end(run->target, &topic->id, (int32_t)p);
            if (end >= 0 && topic->state != MODEL_TOPIC_DELETED) {
                model_start_end(model, &topic->partitions[p], end, run->excused);
            } else if (end >= 0) {
                violation("topic %u was deleted and is there after a start", topic->name);
            } else if (topic->state == MODEL_TOPIC_ALIVE) {
                violation("topic %u is alive and is not there after a start", topic->name);
            }
        }
    }
}

/* A failed start is looked at: false when it is all right to try again. */
static void run_start_failed(struct run *run, status s, uint32_t tries)
{
    run->totals->failed_starts++;
    run_say(run, "start failed: %s", status_text(s));
    bool doomed = sim_node_is_doomed(run->node);
    if (s.code == STATUS_CORRUPT && rot_is_there(&run->rot)) {
        run->totals->rots_refused++;
        run_crash(run, true);
        run_rot_undo(run);
        run->excused = false;
        return;
    }
    if (!doomed && s.code != STATUS_IO && s.code != STATUS_NO_SPACE) {
        violation("the start of life %u fails: %s", run->model.life + 1, status_text(s));
    }
    if (tries == START_TRIES_MAX) {
        violation("starts fail again and again: %s", status_text(s));
    }
    if (tries == START_TRIES_MAX / 2) {
        options_heal(run);
    }
    run_crash(run, !doomed);
}

/* Starts until it succeeds, with power cuts in the middle of some recoveries. */
static void run_start(struct run *run)
{
    uint32_t dooms = random_chance(run->sim, 20) ? random_between(run->sim, 1, 3) : 0;
    for (uint32_t tries = 0;; tries++) {
        if (tries < dooms) {
            sim_node_doom(run->node, random_below(run->sim, 30));
        }
        status s = run->target->ops->start(run->target);
        if (status_is_ok(s) && sim_node_is_doomed(run->node)) {
            run_crash(run, false);
        } else if (status_is_ok(s)) {
            break;
        } else {
            run_start_failed(run, s, tries);
        }
    }
    run->totals->lives++;
    run_ends_check(run);
    run_say(run, "life %u begins", run->model.life);
}

/* Rot was there and the start went on without what it took: may that come back? */
static void run_start_behind_rot(struct run *run)
{
    run_start(run);
    if (!run->excused) {
        return;
    }
    run->excused = false;
    run_say(run, "started on a rotten journal");
    if (random_chance(run->sim, 70)) {
        /* The device reads it well again, after a crash in which nothing new was written. */
        run_crash(run, true);
        run_rot_undo(run);
        run_start(run);
    }
    rot_fini(&run->rot);
    workload_producers_reset(run->workload);
}

/* Recovery that is cut off at its end and done again gives the same. */
static void run_start_twice(struct run *run)
{
    run_start(run);
    struct model *model = &run->model;
    run->totals->twice_recovered++;
    run_crash(run, random_chance(run->sim, 50));
    run_start(run);
    for (uint32_t i = 0; i < model->topic_count; i++) {
        for (uint32_t p = 0; p < model->topics[i]->partition_count; p++) {
            const struct model_partition *partition = &model->topics[i]->partitions[p];
            if (partition->start_life == model->life &&
                partition->previous_life + 1 == model->life &&
                partition->start_end != partition->previous_end) {
                violation("two recoveries in a row end partition %u of topic %u at %" PRId64
                          " and at %" PRId64,
                          p, model->topics[i]->name, partition->previous_end, partition->start_end);
            }
        }
    }
}

/* ---------------------------------------------------------------- a life */

static bool run_is_down(const struct run *run)
{
    return sim_node_is_doomed(run->node) || run->target->ops->is_offline(run->target);
}

static void run_some_time(struct run *run)
{
    uint32_t max_us = random_chance(run->sim, 5) ? 10000 : 200;
    sim_run(run->sim, 1000 * (int64_t)random_between(run->sim, 1, max_us));
}

/* Everything is read from its beginning; what was acknowledged has to be in it. */
static void run_scan(struct run *run)
{
    workload_scan_start(run->workload);
    for (uint32_t ticks = 0; !workload_scan_is_done(run->workload) && !run_is_down(run); ticks++) {
        if (ticks == SCAN_TICKS_MAX) {
            violation("reading everything does not come to an end");
        }
        workload_scan_go_on(run->workload);
        sim_run(run->sim, MS_NS / 4);
    }
}

/* A misfortune that leaves the node running. */
static void run_disturb(struct run *run)
{
    struct sim *sim = run->sim;
    switch (random_below(sim, 6)) {
    case 0:
        sim_node_jump_clock(run->node, (int64_t)random_below(sim, 7200000) - 3600000);
        break;
    case 1:
        sim_node_pause(run->node, MS_NS * random_between(sim, 1, 50));
        break;
    case 2: {
        struct sim_options options = run->options;
        options.disk_size = 1; /* Nothing new finds a place. */
        run->totals->full_phases++;
        run_say(run, "the disk is full");
        sim_set_options(sim, &options);
        break;
    }
    case 3: {
        struct sim_options options = run->options;
        options.write_error_chance = some(sim, 50, 10, 300);
        options.sync_error_chance = some(sim, 50, 10, 300);
        run->totals->offline_phases++;
        run_say(run, "writes and syncs fail");
        sim_set_options(sim, &options);
        break;
    }
    default:
        sim_set_options(sim, &run->options);
        break;
    }
}

static void run_work(struct run *run, uint32_t steps)
{
    for (uint32_t i = 0; i < steps && !run_is_down(run); i++) {
        workload_step(run->workload);
        if (!run->quiet && random_below(run->sim, 200) == 0) {
            run_disturb(run);
        }
        if (random_chance(run->sim, 60)) {
            run_some_time(run);
        }
    }
}

/* The log went offline: what is sent from now on is acknowledged by nobody, reads go on. */
static void run_offline(struct run *run)
{
    for (uint32_t i = 0; i < OFFLINE_STEPS && !sim_node_is_doomed(run->node); i++) {
        workload_step(run->workload);
        run_some_time(run);
    }
}

static void run_stop(struct run *run)
{
    run->totals->clean_stops++;
    run_say(run, "clean stop");
    if (!run->quiet) {
        sim_set_options(run->sim, &run->options);
    }
    run->target->ops->stop(run->target);
    for (uint32_t ms = 0; !run->target->ops->is_stopped(run->target); ms++) {
        if (ms == STOP_MS_MAX) {
            violation("a clean stop does not come to an end");
        }
        if (sim_node_is_doomed(run->node)) {
            break;
        }
        sim_run(run->sim, MS_NS);
    }
    run_crash(run, true);
}

/*
 * A segment has rotted: what is read of it is refused, or its checksum tells; the rest reads well.
 * Then the medium is mended, so that everything can be asked for again.
 */
static void run_rotten_segment(struct run *run)
{
    run->totals->segment_rots++;
    run->rot.is_last = false;
    run_say(run, "rot in %s", run->rot.path);
    run_start(run);
    if (rot_is_there(&run->rot)) {
        run->model.is_rotten = true;
        run_scan(run);
        run_crash(run, true);
        run->model.is_rotten = false;
        run_rot_undo(run);
    } else {
        run_crash(run, true);
    }
}

static void run_end(struct run *run, enum end end)
{
    if (end == END_STOP && !run_is_down(run)) {
        run_stop(run);
        return;
    }
    if (end == END_DOOM && !run_is_down(run)) {
        sim_node_doom(run->node, random_below(run->sim, 40));
        run_work(run, 400);
        run->totals->dooms++;
    }
    run->crash_count++;
    bool process_only =
        (end == END_KILL || end == END_SEGMENT_ROT) && !sim_node_is_doomed(run->node);
    run->totals->kills += process_only ? 1 : 0;
    run->totals->power_cuts += process_only ? 0 : 1;
    run_say(run, process_only ? "kill -9" : "power cut");
    run_crash(run, process_only);
    /* Which records rot took can be told only where log ends can be looked at. */
    if (end == END_ROT && run->target->ops->log_end != NULL &&
        rot_make(&run->rot, run->sim, run->node, run->target->sizes.journal_size,
                 run->target->sizes.journal_file_count)) {
        run->totals->rots++;
        run->excused = run->rot.is_last;
        run_say(run, "rot in the journal");
    } else if (end == END_SEGMENT_ROT && rot_make_segment(&run->rot, run->sim, run->node)) {
        run_rotten_segment(run);
    }
}

static void run_life(struct run *run)
{
    if (random_chance(run->sim, 50)) {
        sim_set_options(run->sim, &run->options);
    }
    if (run->excused) {
        run_start_behind_rot(run);
    } else if (random_chance(run->sim, 25)) {
        run_start_twice(run);
    } else {
        run_start(run);
    }
    workload_node_started(run->workload);
    if (random_chance(run->sim, 60)) {
        run_scan(run);
    }
    if (!run_is_down(run)) {
        run_work(run, random_between(run->sim, 10, 350));
    }
    uint32_t draw = random_below(run->sim, 20);
    enum end end = draw < 6    ? END_POWER_CUT
                   : draw < 11 ? END_KILL
                   : draw < 16 ? END_DOOM
                   : draw < 17 ? END_STOP
                   : draw < 19 ? END_ROT
                               : END_SEGMENT_ROT;
    if (run->target->ops->is_offline(run->target)) {
        run_offline(run);
    }
    run_end(run, end);
}

/* ---------------------------------------------------------------- the end */

/* Without faults everything that was sent is acknowledged within a bound. */
static void run_drain(struct run *run)
{
    bool is_read = false;
    for (uint32_t ms = 0; !is_read || !workload_is_settled(run->workload); ms++) {
        if (ms == DRAIN_MS_MAX) {
            violation("without faults, requests are not answered within %d virtual ms",
                      DRAIN_MS_MAX);
        }
        if (run_is_down(run)) {
            violation("the node goes offline without faults");
        }
        workload_retry(run->workload);
        workload_settle(run->workload);
        workload_scan_go_on(run->workload);
        is_read = is_read || workload_session_go_on(run->workload);
        sim_run(run->sim, MS_NS);
    }
}

static status segment_count(void *context, const char *name)
{
    struct run *run = context;
    size_t size = strlen(name);
    if (size > 4 && strcmp(name + size - 4, ".log") == 0) {
        run->totals->segment_files++;
    }
    return OK;
}

static status directory_count(void *context, const char *name)
{
    struct run *run = context;
    char path[64];
    if (strncmp(name, "topic", 5) == 0) {
        run->totals->segment_dirs++;
        snprintf(path, sizeof(path), TARGET_DIR "/%s", name);
        return io_dir_list(sim_node_disk(run->node), path, segment_count, run);
    }
    return OK;
}

static void run_finish(struct run *run)
{
    options_heal(run);
    if (run->excused) {
        run_start_behind_rot(run);
    } else {
        run_start(run);
    }
    options_heal(run);
    run->quiet = true;
    workload_node_started(run->workload);
    run_drain(run);
    run_work(run, 50);
    sim_run(run->sim, 2000 * MS_NS); /* A disk that was full is looked at once a while. */
    run_drain(run);
    run_scan(run);
    if (!workload_scan_is_complete(run->workload)) {
        violation("without faults, everything cannot be read");
    }
    run_stop(run);
    run_start(run);
    workload_node_started(run->workload);
    run_drain(run);
    run_scan(run);
    if (!workload_scan_is_complete(run->workload)) {
        violation("after a clean stop, everything cannot be read");
    }
    status s = io_dir_list(sim_node_disk(run->node), TARGET_DIR, directory_count, run);
    ASSERT(status_is_ok(s) || s.code == STATUS_NOT_FOUND);
    run_crash(run, false);
}

void run_seed(uint64_t seed, enum run_what what, bool verbose, struct run_totals *totals)
{
    struct run run;
    run_init(&run, seed, what, verbose, totals);
    run_format(&run);
    uint32_t lives = random_between(run.sim, 3, 6);
    for (uint32_t i = 0; i < LIVES_MAX; i++) {
        if (i >= lives && run.model.acked_count >= ACKED_WANTED &&
            run.crash_count >= CRASHES_WANTED) {
            break;
        }
        run_life(&run);
    }
    run_finish(&run);
    run_fini(&run);
}
