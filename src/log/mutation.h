/*
 * Deliberate bugs, with which the simulator proves that its checkers see what they are meant to
 * see. They exist only in builds with TWINLOG_FAULTS; elsewhere the question is a constant false.
 */
#ifndef TWINLOG_LOG_MUTATION_H
#define TWINLOG_LOG_MUTATION_H

#include "twinlog/core/base.h"

enum log_mutation {
    MUTATION_NONE,
    MUTATION_REUSE_LSN,     /* no new generation at a start: the numbers of a cut are used twice */
    MUTATION_RECYCLE_EARLY, /* journal space is recycled before the checkpoint is synced */
    MUTATION_ACK_BEFORE_SYNC,  /* a frame is reported synced when its write is issued */
    MUTATION_KEEP_OVERLAY,     /* pending producer state enters the checkpoint */
    MUTATION_ANY_GENERATION,   /* replay accepts a frame whatever its generation */
    MUTATION_EARLY_DUPLICATE,  /* a duplicate does not wait for its original's commit */
    MUTATION_FORGET_PRODUCERS, /* a checkpoint says nothing of producers */
    MUTATION_LOSE_LOG_START,   /* replay passes over log starts that moved */
    MUTATION_EARLY_LOG_START,  /* a log start moves before its event is committed */
    MUTATION_COUNT,
};

#if TWINLOG_FAULTS

/* Switches one bug on or off, in the whole process. */
void journal_mutate(enum log_mutation mutation, bool on);

/* True when the bug is switched on. */
bool log_mutation_is(enum log_mutation mutation);

#else

static inline bool log_mutation_is(enum log_mutation mutation)
{
    (void)mutation;
    return false;
}

#endif

#endif
