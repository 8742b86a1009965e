/*
 * The disk seam: blocking file operations, for start-up and for offloaded jobs (never on a running
 * loop's own thread, where io.h's asynchronous operations are used). Thread safe per disk; a file
 * is used by one thread at a time, except for reads. Backends: the real file system, and sim.
 *
 * Paths are NUL-terminated UTF-8, at most 4095 bytes. Errors keep their errno in status.sys.
 */
#ifndef TWINLOG_IO_DISK_H
#define TWINLOG_IO_DISK_H

#include <sys/uio.h>

#include "twinlog/core/status.h"

struct io_disk;
struct io_file;

enum io_file_flags {
    IO_FILE_READ = 1,
    IO_FILE_WRITE = 2,
    IO_FILE_CREATE = 4,    /* when missing; mode 0644 */
    IO_FILE_EXCLUSIVE = 8, /* with CREATE: EXISTS when there */
    IO_FILE_TRUNCATE = 16,
    IO_FILE_DIRECT = 32, /* O_DIRECT; UNSUPPORTED where the file system refuses it */
};

/* The real file system of this process. Static; nothing to free. */
struct io_disk *io_disk_real(void);

/* Opens a file. NOT_FOUND, EXISTS, PERMISSION, READ_ONLY, NO_SPACE, UNSUPPORTED, IO. */
MUST_USE status io_file_open(struct io_disk *disk, const char *path, unsigned flags,
                             struct io_file **file);

/* Closes and frees; errors of close are meaningless after a sync and are ignored. */
void io_file_close(struct io_file *file);

/* Reads up to `size` bytes at `position`; *got < size only at the end of the file. */
MUST_USE status io_file_read(struct io_file *file, void *buffer, size_t size, uint64_t position,
                             size_t *got);

/* Writes all of `size` bytes at `position`, or fails (IO, NO_SPACE, READ_ONLY). */
MUST_USE status io_file_write(struct io_file *file, const void *buffer, size_t size,
                              uint64_t position);

/* Writes all ranges, one behind the other. `ranges` is consumed (changed). */
MUST_USE status io_file_writev(struct io_file *file, struct iovec *ranges, uint32_t range_count,
                               uint64_t position);

/* fdatasync: data and size are durable when it returns OK. After a failure nothing is known. */
MUST_USE status io_file_sync(struct io_file *file);

/* Sets the size in bytes. */
MUST_USE status io_file_truncate(struct io_file *file, uint64_t size);

/* Reserves blocks [position, position + size) without changing the size; NO_SPACE shows here. */
MUST_USE status io_file_reserve(struct io_file *file, uint64_t position, uint64_t size);

/* The size in bytes. */
MUST_USE status io_file_size(struct io_file *file, uint64_t *size);

/* When the content last changed: wall clock, ms since the epoch. */
MUST_USE status io_file_modified_ms(struct io_file *file, int64_t *modified_ms);

/*
 * Exclusive flock on the file's own descriptor. A process that was killed keeps its locks until the
 * kernel has finished its writes, so a held lock is waited for, 3 s at most. BUSY: another process
 * holds it.
 */
MUST_USE status io_file_lock(struct io_file *file);

/* Makes one directory (0755). EXISTS when there. Durable only after io_dir_sync of its parent. */
MUST_USE status io_dir_create(struct io_disk *disk, const char *path);

/* Makes names created, renamed or removed in the directory durable. */
MUST_USE status io_dir_sync(struct io_disk *disk, const char *path);

/* Calls `entry` for each name except "." and ".."; order undefined. NOT_FOUND. */
typedef status (*io_dir_entry_fn)(void *context, const char *name);
MUST_USE status io_dir_list(struct io_disk *disk, const char *path, io_dir_entry_fn entry,
                            void *context);

/* Removes an empty directory. */
MUST_USE status io_dir_remove(struct io_disk *disk, const char *path);

/* Renames a file or directory, replacing a file at `to`. Durable after io_dir_sync. */
MUST_USE status io_path_rename(struct io_disk *disk, const char *from, const char *to);

/* Removes a file. NOT_FOUND. */
MUST_USE status io_path_remove(struct io_disk *disk, const char *path);

/*
 * syncfs of the file system that holds `file`: everything written to it before is durable. The
 * kernel tells each open file once of a write that failed in the background, whoever else was told;
 * so the file has to be open since before the first of the writes that the sync is about.
 */
MUST_USE status io_disk_sync(struct io_file *file);

/* Free bytes for this process, and the file system's size in bytes. */
MUST_USE status io_disk_space(struct io_disk *disk, const char *path, uint64_t *free_size,
                              uint64_t *total_size);

/* What is known about how the device below `path` keeps a synced write, for the start-up trace. */
struct io_disk_facts {
    char file_system[32]; /* "ext4", "xfs", "tmpfs", ... */
    bool copy_on_write;
    char device[64];      /* "vda", empty when unknown */
    char write_cache[32]; /* "write back", "write through", empty when unknown */
    bool fua;
};
void io_disk_facts_get(struct io_disk *disk, const char *path, struct io_disk_facts *facts);

#endif
