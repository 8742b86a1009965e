/*
 * One run: a world from a seed, a node with its clients in it, and a life full of faults for it.
 */
#ifndef TWINLOG_TESTS_SIM_RUN_H
#define TWINLOG_TESTS_SIM_RUN_H

#include "target.h"

/* What stands behind the clients' requests. */
enum run_what {
    RUN_BY_SEED, /* the log for even seeds, the broker for odd ones */
    RUN_LOG,
    RUN_BROKER,
};

/* Sums over all runs. */
struct run_totals {
    uint64_t runs, broker_runs, lives, acked, excused, clean_stops, power_cuts, kills, dooms,
        failed_starts, format_crashes, rots, rots_refused, twice_recovered, offline_phases,
        full_phases, segment_rots, damage_seen, tails_cut, segment_files, segment_dirs;
    uint64_t virtual_ns;
    uint64_t acked_least, crashes_least; /* of one seed */
    struct sim_coverage sim;
    struct target_coverage target;
};

/* Runs the seed to its end, or leaves the process at the first violation. */
void run_seed(uint64_t seed, enum run_what what, bool verbose, struct run_totals *totals);

/* A fingerprint of the last run: equal for equal seeds. */
uint64_t run_hash(void);

#endif
