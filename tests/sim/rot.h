/*
 * Rot of a synced journal: bits flip on the medium while the node is down. Half of the time in the
 * frame that stands last, which nothing proves to have been synced: its loss cannot be told from a
 * torn write, so a node alone starts without it, and then it must be gone for ever.
 */
#ifndef TWINLOG_TESTS_SIM_ROT_H
#define TWINLOG_TESTS_SIM_ROT_H

#include "twinlog/io/sim.h"

/* What stood there before. */
struct rot {
    char path[128];
    uint64_t position;
    uint32_t size; /* bytes; 0: there is no rot */
    uint8_t *before;
    bool is_last; /* in the frame that stands last */
};

/* Flips bits in one place of the journal. False: there was nothing to rot. */
bool rot_make(struct rot *rot, struct sim *sim, struct sim_node *node, uint64_t journal_size,
              uint32_t file_count);

/*
 * Flips bits of a batch in a segment, where its checksum covers them. False: there was none.
 */
bool rot_make_segment(struct rot *rot, struct sim *sim, struct sim_node *node);

/* True from rot_make() on until it is undone or forgotten. */
bool rot_is_there(const struct rot *rot);

/* The medium reads well again; what was deleted meanwhile stays so. */
void rot_undo(struct rot *rot, struct sim_node *node);

/* Forgets it; what is on the medium stays. */
void rot_fini(struct rot *rot);

#endif
