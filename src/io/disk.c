/* The public functions of include/twinlog/io/disk.h: each calls the disk's own. */
#include "io_backend.h"

status io_file_open(struct io_disk *disk, const char *path, unsigned flags, struct io_file **file)
{
    ASSERT((flags & (IO_FILE_READ | IO_FILE_WRITE)) != 0);
    return disk->ops->file_open(disk, path, flags, file);
}

void io_file_close(struct io_file *file)
{
    file->disk->ops->file_close(file);
}

status io_file_read(struct io_file *file, void *buffer, size_t size, uint64_t position, size_t *got)
{
    return file->disk->ops->file_read(file, buffer, size, position, got);
}

status io_file_write(struct io_file *file, const void *buffer, size_t size, uint64_t position)
{
    return file->disk->ops->file_write(file, buffer, size, position);
}

status io_file_writev(struct io_file *file, struct iovec *ranges, uint32_t range_count,
                      uint64_t position)
{
    return file->disk->ops->file_writev(file, ranges, range_count, position);
}

status io_file_sync(struct io_file *file)
{
    return file->disk->ops->file_sync(file);
}

status io_file_truncate(struct io_file *file, uint64_t size)
{
    return file->disk->ops->file_truncate(file, size);
}

status io_file_reserve(struct io_file *file, uint64_t position, uint64_t size)
{
    return file->disk->ops->file_reserve(file, position, size);
}

status io_file_size(struct io_file *file, uint64_t *size)
{
    return file->disk->ops->file_size(file, size);
}

status io_file_modified_ms(struct io_file *file, int64_t *modified_ms)
{
    return file->disk->ops->file_modified_ms(file, modified_ms);
}

status io_file_lock(struct io_file *file)
{
    return file->disk->ops->file_lock(file);
}

status io_dir_create(struct io_disk *disk, const char *path)
{
    return disk->ops->dir_create(disk, path);
}

status io_dir_sync(struct io_disk *disk, const char *path)
{
    return disk->ops->dir_sync(disk, path);
}

status io_dir_list(struct io_disk *disk, const char *path, io_dir_entry_fn entry, void *context)
{
    ASSERT(entry != NULL);
    return disk->ops->dir_list(disk, path, entry, context);
}

status io_dir_remove(struct io_disk *disk, const char *path)
{
    return disk->ops->dir_remove(disk, path);
}

status io_path_rename(struct io_disk *disk, const char *from, const char *to)
{
    return disk->ops->path_rename(disk, from, to);
}

status io_path_remove(struct io_disk *disk, const char *path)
{
    return disk->ops->path_remove(disk, path);
}

status io_disk_sync(struct io_file *file)
{
    return file->disk->ops->disk_sync(file);
}

status io_disk_space(struct io_disk *disk, const char *path, uint64_t *free_size,
                     uint64_t *total_size)
{
    return disk->ops->disk_space(disk, path, free_size, total_size);
}

void io_disk_facts_get(struct io_disk *disk, const char *path, struct io_disk_facts *facts)
{
    *facts = (struct io_disk_facts){0};
    disk->ops->disk_facts(disk, path, facts);
}
