/*
 * The medium of a simulated disk: inodes, their content, and what a power cut leaves of it.
 *
 * A file has a visible content (the page cache, what reads return) and a durable content (what a
 * power cut cannot take). Both are sparse arrays of 4 KiB pages. A page whose two contents may
 * differ has a shadow, which holds the durable bytes and says per 512-byte sector whether the
 * visible bytes are
 *     clean  the same as the durable ones,
 *     dirty  to become durable at the next successful sync, or at any moment before, or
 *     lost   dropped by a sync that failed: visible still, but no later sync writes them.
 * A sector is never torn inside. All work is proportional to what is dirty, never to a file's size.
 */
#ifndef TWINLOG_IO_SIM_FILE_H
#define TWINLOG_IO_SIM_FILE_H

#include "sim_rng.h"
#include "twinlog/core/list.h"
#include "twinlog/core/status.h"
#include "twinlog/io/sim.h"

enum { SIM_PAGE_SIZE = 4096, SIM_SECTOR_SIZE = 512, SIM_PAGE_SECTORS = 8 };
#define SIM_SEQUENCE_ALL UINT64_MAX

struct sim_inode;

/* One name in a directory. The entry holds a reference to the inode. */
struct sim_entry {
    char *name;
    uint32_t hash;
    struct sim_inode *inode;
};

struct sim_names {
    struct sim_entry *entries;
    uint32_t count;
    uint32_t capacity;
};

struct sim_shadow {
    struct list_node link; /* in the inode's shadows */
    struct sim_page *page;
    uint64_t position;                    /* of the page in the file */
    uint8_t dirty;                        /* bit per sector */
    uint8_t lost;                         /* bit per sector; never set together with dirty */
    uint64_t sequences[SIM_PAGE_SECTORS]; /* the write that made the sector dirty */
    uint8_t durable[SIM_PAGE_SIZE];
};

struct sim_page {
    struct sim_shadow *shadow; /* NULL: all sectors are clean */
    uint8_t data[SIM_PAGE_SIZE];
};

/* What inodes of one disk share. */
struct sim_medium {
    struct sim_rng *rng;
    struct sim_coverage *coverage;
    const struct sim_options *options;
    struct list dirty; /* inodes a power cut may change */
    uint64_t page_count;
};

struct sim_inode {
    struct sim_medium *medium;
    uint32_t reference_count;
    bool is_directory;

    /* Files. */
    struct sim_page **pages; /* NULL: a hole */
    uint64_t page_capacity;
    uint64_t size;          /* visible */
    int64_t modified_ms;    /* of the visible content, which is as good as it gets */
    uint64_t durable_size;  /* at most `size`, unless a cut of the size is pending */
    uint64_t shrunk_to;     /* the lowest size a pending cut had; UINT64_MAX: none is pending */
    uint64_t sequence;      /* counts writes */
    uint64_t sync_sequence; /* `sequence` at the submit of the newest sync in flight */
    uint32_t syncs_in_flight;
    struct list shadows; /* in the order the pages became dirty */
    struct list_node dirty_link;
    void *lock_owner; /* the open file that holds the lock */

    /* Directories: what is seen, and what a power cut leaves. */
    struct sim_names visible;
    struct sim_names durable;
    bool is_marked; /* used while a directory sync looks for what it needs */
};

/* Prepares a medium without inodes. */
void sim_medium_init(struct sim_medium *medium, struct sim_rng *rng, struct sim_coverage *coverage,
                     const struct sim_options *options);

/* An empty file or directory with one reference. */
struct sim_inode *sim_inode_create(struct sim_medium *medium, bool is_directory);
void sim_inode_ref(struct sim_inode *inode);

/* Drops a reference; with the last one goes the content, and a directory's references. */
void sim_inode_unref(struct sim_inode *inode);

/* Copies out visible bytes; returns how many, less than `size` at the end of the file. */
uint64_t sim_inode_read(struct sim_inode *inode, uint8_t *buffer, uint64_t size, uint64_t position);

/*
 * Writes to the cache, or with `durable` through it to the medium: then the touched sectors, and
 * a size that reaches their end, are durable. NO_SPACE: nothing changed.
 */
MUST_USE status sim_inode_write(struct sim_inode *inode, const uint8_t *data, uint64_t size,
                                uint64_t position, bool durable);

/*
 * A durable write that failed half way: all of it is in the cache, and some of its sectors are on
 * the medium; the others, and whatever else was dirty on the same pages, are lost.
 */
void sim_inode_write_failed(struct sim_inode *inode, const uint8_t *data, uint64_t size,
                            uint64_t position);

/* The marks of an asynchronous sync: its completion covers what was written before its submit. */
struct sim_sync {
    uint64_t sequence;
    uint64_t size;
};
struct sim_sync sim_inode_sync_start(struct sim_inode *inode);

/* Makes what the sync covers durable or, when it `failed`, drops it as the kernel would. */
void sim_inode_sync_finish(struct sim_inode *inode, struct sim_sync sync, bool failed);

/* Forgets an asynchronous sync that did nothing. */
void sim_inode_sync_cancel(struct sim_inode *inode);

/* The blocking form of both. */
void sim_inode_sync(struct sim_inode *inode, bool failed);

/* Sets the visible size; pending until a sync. */
void sim_inode_truncate(struct sim_inode *inode, uint64_t size);

/* Allocates the pages of a range. NO_SPACE. */
MUST_USE status sim_inode_reserve(struct sim_inode *inode, uint64_t position, uint64_t size);

/* A power cut: decides for each dirty sector and for the size, then visible equals durable. */
void sim_inode_crash(struct sim_inode *inode);

/* A write in flight at a power cut: some of its sectors reach the medium. False: none did. */
bool sim_inode_land(struct sim_inode *inode, const uint8_t *data, uint64_t size, uint64_t position);

/* Flips at least one bit in each byte of the range, in the cache and on the medium. */
void sim_inode_rot(struct sim_inode *inode, uint64_t position, uint64_t size);

/* Allocation that cannot fail: a simulation without memory has nothing to report. */
void *sim_alloc(size_t size);

#endif
