#include "mutation.h"

#if TWINLOG_FAULTS

static bool mutations[MUTATION_COUNT];

void journal_mutate(enum log_mutation mutation, bool on)
{
    mutations[mutation] = on;
}

bool log_mutation_is(enum log_mutation mutation)
{
    return mutations[mutation];
}

#endif
