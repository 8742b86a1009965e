/* A file of the real disk, as the io_uring backend sees it. */
#ifndef TWINLOG_IO_DISK_REAL_H
#define TWINLOG_IO_DISK_REAL_H

#include "io_backend.h"

enum { DISK_DIRECT_ALIGNMENT = 4096 };

struct disk_file {
    struct io_file base;
    int fd;
    bool direct; /* opened with IO_FILE_DIRECT */
    char *path;  /* for injected faults, in builds that have them */
};

/* The disk_file behind an io_file of io_disk_real(). */
static inline struct disk_file *disk_file_of(struct io_file *file)
{
    ASSERT(file->disk == io_disk_real());
    return CONTAINER_OF(file, struct disk_file, base);
}

/* Fills in what the kernel says about the device below `path` (disk_facts.c). */
void disk_facts(struct io_disk *disk, const char *path, struct io_disk_facts *facts);

#endif
