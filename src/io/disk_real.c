/* The real file system: blocking calls, errors mapped to a status with their errno. */
#include "disk_real.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fault.h"

enum { DISK_FILE_MODE = 0644, DISK_DIR_MODE = 0755 };
enum { LOCK_TRIES = 300, LOCK_TRY_US = 10000 };

static status disk_status(int result)
{
    return result < 0 ? status_from_errno(errno) : OK;
}

/* A helper thread may simply wait here; the loop's own delays are timers. */
static struct fault disk_fault_next(enum fault_point point, const char *path)
{
    struct fault fault = fault_next(point, path);
    if (fault.delay_ns > 0) {
        usleep((useconds_t)(fault.delay_ns / 1000));
    }
    return fault;
}

static status disk_fault(enum fault_point point, const char *path)
{
    return status_from_errno(disk_fault_next(point, path).error);
}

/* ---------------------------------------------------------------- files */

static int disk_open_flags(unsigned flags)
{
    int result = O_CLOEXEC;
    if ((flags & IO_FILE_WRITE) == 0) {
        result |= O_RDONLY;
    } else {
        result |= (flags & IO_FILE_READ) != 0 ? O_RDWR : O_WRONLY;
    }
    result |= (flags & IO_FILE_CREATE) != 0 ? O_CREAT : 0;
    result |= (flags & IO_FILE_EXCLUSIVE) != 0 ? O_EXCL : 0;
    result |= (flags & IO_FILE_TRUNCATE) != 0 ? O_TRUNC : 0;
    result |= (flags & IO_FILE_DIRECT) != 0 ? O_DIRECT : 0;
    return result;
}

static status disk_file_open(struct io_disk *disk, const char *path, unsigned flags,
                             struct io_file **file)
{
    bool direct = (flags & IO_FILE_DIRECT) != 0;
    int fd = open(path, disk_open_flags(flags), DISK_FILE_MODE);
    if (fd < 0) {
        status result = status_from_errno(errno);
        if (direct && errno == EINVAL) {
            result.code = STATUS_UNSUPPORTED;
        }
        return result;
    }
    struct disk_file *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        close(fd);
        return STATUS(NO_MEMORY);
    }
    made->base.disk = disk;
    made->fd = fd;
    made->direct = direct;
    made->path = fault_path_keep(path);
    *file = &made->base;
    return OK;
}

static void disk_file_close(struct io_file *file)
{
    struct disk_file *real = disk_file_of(file);
    close(real->fd);
    free(real->path);
    free(real);
}

static status disk_file_read(struct io_file *file, void *buffer, size_t size, uint64_t position,
                             size_t *got)
{
    struct disk_file *real = disk_file_of(file);
    size_t done = 0;
    TRY(disk_fault(FAULT_DISK_READ, real->path));
    while (done < size) {
        ssize_t result =
            pread(real->fd, (uint8_t *)buffer + done, size - done, (off_t)(position + done));
        if (result < 0 && errno == EINTR) {
            continue;
        }
        if (result < 0) {
            return status_from_errno(errno);
        }
        done += (size_t)result;
        if (result == 0 || (real->direct && done % DISK_DIRECT_ALIGNMENT != 0)) {
            break; /* the end of the file; a direct read cannot go on behind a part of a block */
        }
    }
    *got = done;
    return OK;
}

/* Takes `size` bytes off the front of the ranges. */
static void disk_ranges_advance(struct iovec **ranges, uint32_t *range_count, size_t size)
{
    while (*range_count > 0 && size >= (*ranges)->iov_len) {
        size -= (*ranges)->iov_len;
        (*ranges)++;
        (*range_count)--;
    }
    if (*range_count > 0) {
        (*ranges)->iov_base = (uint8_t *)(*ranges)->iov_base + size;
        (*ranges)->iov_len -= size;
    }
}

static status disk_ranges_write(const struct disk_file *real, struct iovec *ranges,
                                uint32_t range_count, uint64_t position)
{
    disk_ranges_advance(&ranges, &range_count, 0);
    while (range_count > 0) {
        ssize_t result =
            pwritev(real->fd, ranges, (int)MIN(range_count, (uint32_t)IOV_MAX), (off_t)position);
        if (result < 0 && errno == EINTR) {
            continue;
        }
        if (result <= 0) {
            return result < 0 ? status_from_errno(errno) : STATUS(IO);
        }
        position += (uint64_t)result;
        disk_ranges_advance(&ranges, &range_count, (size_t)result);
    }
    return OK;
}

/* Leaves the first half of what the ranges hold together. */
static void disk_ranges_halve(struct iovec *ranges, uint32_t range_count)
{
    size_t left = 0;
    for (uint32_t i = 0; i < range_count; i++) {
        left += ranges[i].iov_len;
    }
    left /= 2;
    for (uint32_t i = 0; i < range_count; i++) {
        ranges[i].iov_len = MIN(ranges[i].iov_len, left);
        left -= ranges[i].iov_len;
    }
}

static status disk_file_writev(struct io_file *file, struct iovec *ranges, uint32_t range_count,
                               uint64_t position)
{
    struct disk_file *real = disk_file_of(file);
    struct fault fault = disk_fault_next(FAULT_DISK_WRITE, real->path);
    if (fault.is_short) {
        disk_ranges_halve(ranges, range_count);
        TRY(disk_ranges_write(real, ranges, range_count, position));
    }
    TRY(status_from_errno(fault.error));
    return disk_ranges_write(real, ranges, range_count, position);
}

static status disk_file_write(struct io_file *file, const void *buffer, size_t size,
                              uint64_t position)
{
    struct iovec range = {.iov_base = (void *)(uintptr_t)buffer, .iov_len = size};
    return disk_file_writev(file, &range, 1, position);
}

static status disk_file_sync(struct io_file *file)
{
    TRY(disk_fault(FAULT_DISK_SYNC, disk_file_of(file)->path));
    return disk_status(fdatasync(disk_file_of(file)->fd));
}

static status disk_file_truncate(struct io_file *file, uint64_t size)
{
    return disk_status(ftruncate(disk_file_of(file)->fd, (off_t)size));
}

static status disk_file_reserve(struct io_file *file, uint64_t position, uint64_t size)
{
    TRY(disk_fault(FAULT_DISK_RESERVE, disk_file_of(file)->path));
    int result;
    do {
        result =
            fallocate(disk_file_of(file)->fd, FALLOC_FL_KEEP_SIZE, (off_t)position, (off_t)size);
    } while (result < 0 && errno == EINTR);
    return disk_status(result);
}

static status disk_file_size(struct io_file *file, uint64_t *size)
{
    struct stat facts;
    TRY(disk_status(fstat(disk_file_of(file)->fd, &facts)));
    *size = (uint64_t)facts.st_size;
    return OK;
}

static status disk_file_modified_ms(struct io_file *file, int64_t *modified_ms)
{
    struct stat facts;
    TRY(disk_status(fstat(disk_file_of(file)->fd, &facts)));
    *modified_ms = (int64_t)facts.st_mtim.tv_sec * 1000 + facts.st_mtim.tv_nsec / 1000000;
    return OK;
}

/* After a kill -9 the kernel still finishes writes, which hold the descriptors and their locks. */
static status disk_file_lock(struct io_file *file)
{
    int result = flock(disk_file_of(file)->fd, LOCK_EX | LOCK_NB);
    for (int i = 0; i < LOCK_TRIES && result < 0 && errno == EWOULDBLOCK; i++) {
        usleep(LOCK_TRY_US);
        result = flock(disk_file_of(file)->fd, LOCK_EX | LOCK_NB);
    }
    return disk_status(result);
}

/* ---------------------------------------------------------------- directories and names */

static status disk_dir_create(struct io_disk *disk, const char *path)
{
    return disk_status(mkdir(path, DISK_DIR_MODE));
}

static status disk_dir_sync(struct io_disk *disk, const char *path)
{
    TRY(disk_fault(FAULT_DISK_SYNC, path));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return status_from_errno(errno);
    }
    status result = disk_status(fsync(fd));
    close(fd);
    return result;
}

static status disk_dir_list(struct io_disk *disk, const char *path, io_dir_entry_fn entry,
                            void *context)
{
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return status_from_errno(errno);
    }
    status result = OK;
    while (status_is_ok(result)) {
        errno = 0;
        struct dirent *found = readdir(dir);
        if (found == NULL) {
            result = status_from_errno(errno);
            break;
        }
        if (strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0) {
            result = entry(context, found->d_name);
        }
    }
    closedir(dir);
    return result;
}

static status disk_dir_remove(struct io_disk *disk, const char *path)
{
    return disk_status(rmdir(path));
}

static status disk_path_rename(struct io_disk *disk, const char *from, const char *to)
{
    return disk_status(rename(from, to));
}

static status disk_path_remove(struct io_disk *disk, const char *path)
{
    return disk_status(unlink(path));
}

static status disk_sync(struct io_file *file)
{
    TRY(disk_fault(FAULT_DISK_SYNC, disk_file_of(file)->path));
    return disk_status(syncfs(disk_file_of(file)->fd));
}

static status disk_space(struct io_disk *disk, const char *path, uint64_t *free_size,
                         uint64_t *total_size)
{
    struct statvfs facts;
    TRY(disk_status(statvfs(path, &facts)));
    *free_size = (uint64_t)facts.f_bavail * facts.f_frsize;
    *total_size = (uint64_t)facts.f_blocks * facts.f_frsize;
    return OK;
}

/* ---------------------------------------------------------------- the disk */

static const struct io_disk_ops disk_ops = {
    .file_open = disk_file_open,
    .file_close = disk_file_close,
    .file_read = disk_file_read,
    .file_write = disk_file_write,
    .file_writev = disk_file_writev,
    .file_sync = disk_file_sync,
    .file_truncate = disk_file_truncate,
    .file_reserve = disk_file_reserve,
    .file_size = disk_file_size,
    .file_modified_ms = disk_file_modified_ms,
    .file_lock = disk_file_lock,
    .dir_create = disk_dir_create,
    .dir_sync = disk_dir_sync,
    .dir_list = disk_dir_list,
    .dir_remove = disk_dir_remove,
    .path_rename = disk_path_rename,
    .path_remove = disk_path_remove,
    .disk_sync = disk_sync,
    .disk_space = disk_space,
    .disk_facts = disk_facts,
};

struct io_disk *io_disk_real(void)
{
    static struct io_disk disk = {.ops = &disk_ops};
    return &disk;
}
