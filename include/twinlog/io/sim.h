/*
 * The simulated world: nodes with a loop and a disk each, a network between them, one virtual
 * clock, one seed. Single-threaded: sim_step() runs the next event of any node. Equal seed and
 * equal code give an equal run. Production code runs on sim_node_io() unchanged.
 */
#ifndef TWINLOG_IO_SIM_H
#define TWINLOG_IO_SIM_H

#include "twinlog/io/io.h"

struct sim;
struct sim_node;

/* All probabilities are per 10,000; 0 switches the fault off. Times in microseconds. */
struct sim_options {
    uint32_t disk_write_us_min, disk_write_us_max; /* a synced write's duration */
    uint32_t disk_stall_chance, disk_stall_us_max; /* a write that takes long */
    uint32_t net_delay_us_min, net_delay_us_max;
    uint32_t net_split_chance; /* data arrives in random pieces */
    uint32_t net_reset_chance; /* a connection is reset, per delivery */
    uint32_t offload_us_max;   /* how long a job waits before it runs */
    uint32_t read_error_chance, write_error_chance, sync_error_chance;
    uint32_t rot_chance; /* a read returns a flipped bit, persistent on the medium */
    uint64_t disk_size;  /* bytes; writes beyond give NO_SPACE; 0: unbounded */
};

/* Counts of what happened, by kind, so that a run can show what it covered. */
struct sim_coverage {
    uint64_t events, crashes, torn_writes, lost_writes, reordered_writes, lost_names, stalls,
        resets, splits, read_errors, write_errors, sync_errors, rotten_bits, no_space, cuts, pauses,
        clock_jumps, job_crashes;
};

/* Makes a world. NULL only when memory is out. */
struct sim *sim_create(uint64_t seed, const struct sim_options *options);

/* Frees the world and all nodes. */
void sim_destroy(struct sim *sim);

/* A new node with an empty disk; `host` (e.g. "10.0.0.1") is its address. */
struct sim_node *sim_node_add(struct sim *sim, const char *host);

/* The node's loop; changes at each sim_node_start(). */
struct io *sim_node_io(struct sim_node *node);

/*
 * One more loop of the node's present life, as a shard of its own has; forgotten with it at a
 * crash. Mailboxes connect the loops of one node.
 */
struct io *sim_node_loop_add(struct sim_node *node);

/* The node's disk, the same over all its lives; also for a look at it while the node is down. */
struct io_disk *sim_node_disk(struct sim_node *node);

/* True when the code called io_stop(): no turn of that loop runs any more. */
bool sim_node_is_stopped(struct sim_node *node);

/*
 * Runs a turn of each of the node's loops soon. For drivers that called code of the node from
 * outside of its callbacks; most functions of io.h have the same effect when called from there.
 */
void sim_node_kick(struct sim_node *node);

/* A fingerprint of all that happened: equal in two runs of one seed, or the code is not pure. */
uint64_t sim_hash(struct sim *sim);

/* Random from the world's seed, for workloads and checkers. */
uint64_t sim_random(struct sim *sim);

/* Virtual monotonic time. */
int64_t sim_now_ns(struct sim *sim);

/* Runs the next event. False when there is none. */
bool sim_step(struct sim *sim);

/* Runs events until `now` has moved by `duration_ns` or none is left. */
void sim_run(struct sim *sim, int64_t duration_ns);

/*
 * Power cut: of the writes not yet synced a random subset survives, each torn at 512-byte sectors
 * at random; names created, renamed or removed without a directory sync may be undone; unsynced
 * sizes likewise. Every stream is reset for its peer. No callback of the node runs any more, its
 * loop and operations are forgotten: the owner then frees its own memory without using the loop.
 * (Handles of the dead life, files, streams, loop, stay valid until sim_destroy() or their own
 * close; calls on them do nothing, file operations fail.) Not from inside a callback.
 * `process_only`: a kill -9 instead: nothing written is lost except that writes in flight may
 * still land, whole or not at all, until the lock of the new process is granted on their file.
 * A doomed node has no page cache left: its crash is a power cut in any case.
 */
void sim_node_crash(struct sim_node *node, bool process_only);

/*
 * Arms a power cut inside blocking disk operations: after `count` more of them (io/disk.h calls and
 * asynchronous writes) every one fails with IO and changes nothing, until sim_node_crash(), which
 * the driver calls when sim_node_is_doomed() says that the moment came.
 */
void sim_node_doom(struct sim_node *node, uint32_t count);
bool sim_node_is_doomed(struct sim_node *node);

/* A fresh loop on the surviving disk after a crash. */
struct io *sim_node_start(struct sim_node *node);

/*
 * Cuts or heals one direction of the network between two nodes. Nobody is told: what was sent is
 * held, as TCP repeats it, until the direction heals; a sender stops when its window is full; a
 * connect that needs the direction ends in TIMEOUT after 3 to 5 s.
 */
void sim_net_cut(struct sim *sim, struct sim_node *from, struct sim_node *to, bool cut);

/* The node runs nothing for `duration_ns` (SIGSTOP, a long pause). */
void sim_node_pause(struct sim_node *node, int64_t duration_ns);

/* The node's wall clock jumps. */
void sim_node_jump_clock(struct sim_node *node, int64_t delta_ms);

/* Changes fault rates from now on (e.g. all off, to let things heal). */
void sim_set_options(struct sim *sim, const struct sim_options *options);

/* What happened so far. */
void sim_coverage_get(struct sim *sim, struct sim_coverage *coverage);

/* A test's hand on the disk: flips bits of `size` bytes at `position` of a file, durably. */
MUST_USE status sim_disk_rot(struct sim_node *node, const char *path, uint64_t position,
                             uint32_t size);

#endif
