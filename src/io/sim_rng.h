/* The simulator's random numbers: splitmix64. Fast, seedable, equal on every machine. */
#ifndef TWINLOG_IO_SIM_RNG_H
#define TWINLOG_IO_SIM_RNG_H

#include "twinlog/core/base.h"

struct sim_rng {
    uint64_t state;
};

static inline uint64_t sim_rng_next(struct sim_rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15ull;
    uint64_t mixed = rng->state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
    return mixed ^ (mixed >> 31);
}

/* A number in [0, bound); 0 when `bound` is 0. */
static inline uint64_t sim_rng_below(struct sim_rng *rng, uint64_t bound)
{
    return bound == 0 ? 0 : sim_rng_next(rng) % bound;
}

/* A number in [from, to]; `from` when the range is empty. */
static inline uint64_t sim_rng_between(struct sim_rng *rng, uint64_t from, uint64_t to)
{
    return to <= from ? from : from + sim_rng_below(rng, to - from + 1);
}

/* True with `chance` of 10,000. A chance of 0 draws nothing, so unused faults cost nothing. */
static inline bool sim_rng_chance(struct sim_rng *rng, uint32_t chance)
{
    return chance != 0 && sim_rng_below(rng, 10000) < chance;
}

static inline bool sim_rng_coin(struct sim_rng *rng)
{
    return (sim_rng_next(rng) >> 63) != 0;
}

#endif
