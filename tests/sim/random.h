/* Draws from the world's seed; every decision of a run comes from here. */
#ifndef TWINLOG_TESTS_SIM_RANDOM_H
#define TWINLOG_TESTS_SIM_RANDOM_H

#include "twinlog/io/sim.h"

/* A number in [0, bound); `bound` is at least 1. */
static inline uint32_t random_below(struct sim *sim, uint32_t bound)
{
    return (uint32_t)(sim_random(sim) % bound);
}

/* A number in [from, to]. */
static inline uint32_t random_between(struct sim *sim, uint32_t from, uint32_t to)
{
    return from + random_below(sim, to - from + 1);
}

/* True with `percent` of 100. */
static inline bool random_chance(struct sim *sim, uint32_t percent)
{
    return random_below(sim, 100) < percent;
}

#endif
