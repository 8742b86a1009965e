/* The disk of a simulated node: the blocking operations, and what a crash does to all of it. */
#ifndef TWINLOG_IO_SIM_DISK_H
#define TWINLOG_IO_SIM_DISK_H

#include "io_backend.h"
#include "sim_name.h"

struct sim_node;

struct sim_disk {
    struct io_disk base;
    const struct sim_node *node; /* whose clock stamps files */
    struct sim_medium medium;
    struct sim_tree tree;
    struct list files;      /* open, of sim_file.link */
    struct list dead_files; /* of processes that died, until they are closed */
    struct list orphans;    /* writes of a killed process that the kernel still finishes */
    bool doom_is_armed;
    bool is_doomed;
    uint32_t doom_count; /* operations left until doom */
};

struct sim_file {
    struct io_file base;
    struct list_node link;
    struct sim_inode *inode; /* NULL: the process that opened it died */
    unsigned flags;
    uint32_t in_flight; /* asynchronous operations */
};

/* The wall clock of a node, jumps included. */
int64_t sim_node_wall_ms(const struct sim_node *node);

void sim_disk_init(struct sim_disk *disk, struct sim_rng *rng, struct sim_coverage *coverage,
                   const struct sim_options *options);
void sim_disk_fini(struct sim_disk *disk);

/* Counts one operation towards doom. IO: the power is gone already. */
MUST_USE status sim_disk_enter(struct sim_disk *disk);

/* IO with EIO behind it. */
status sim_disk_error(void);

/* INVALID when the file is IO_FILE_DIRECT and one of the three is not a multiple of 4096. */
MUST_USE status sim_file_check_direct(struct sim_file *file, const void *buffer, uint64_t size,
                                      uint64_t position);

/* What an asynchronous operation does at its completion. */
MUST_USE status sim_file_finish_write(struct sim_file *file, const void *data, uint32_t size,
                                      uint64_t position, bool sync);
MUST_USE status sim_file_finish_read(struct sim_file *file, void *buffer, uint32_t size,
                                     uint64_t position, uint32_t *count);
MUST_USE status sim_file_finish_sync(struct sim_file *file, struct sim_sync sync);

/* A write that was in flight when its process died. */
struct sim_flight {
    struct sim_inode *inode;
    const uint8_t *data;
    uint32_t size;
    uint64_t position;
    bool sync;
};

/*
 * The power goes: unsynced content and names are decided, the writes in flight land in part.
 * `flights` are in the order of submission.
 */
void sim_disk_cut_power(struct sim_disk *disk, const struct sim_flight *flights, uint32_t count);

/* The process is killed: some of its writes in flight happen later, until their file is locked. */
void sim_disk_kill_process(struct sim_disk *disk, const struct sim_flight *flights, uint32_t count);

#endif
