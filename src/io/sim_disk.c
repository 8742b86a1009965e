#include "sim_disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DIRECT_UNIT = 4096, ORPHAN_OPERATIONS_MAX = 24 };

/* A write that the kernel finishes after the process is gone, at one of the next operations. */
struct sim_orphan {
    struct list_node link;
    struct sim_inode *inode;
    uint8_t *data;
    uint32_t size;
    uint64_t position;
    bool sync;
    uint32_t countdown;
};

static struct sim_disk *disk_of(struct io_disk *disk)
{
    return CONTAINER_OF(disk, struct sim_disk, base);
}

static struct sim_file *file_of(struct io_file *file)
{
    return CONTAINER_OF(file, struct sim_file, base);
}

static struct sim_orphan *orphan_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct sim_orphan, link);
}

status sim_disk_error(void)
{
    return status_from_errno(EIO);
}

/* ---------------------------------------------------------------- doom and orphans */

static void orphan_free(struct sim_orphan *orphan)
{
    list_remove(&orphan->link);
    sim_inode_unref(orphan->inode);
    free(orphan->data);
    free(orphan);
}

static void orphan_finish(struct sim_orphan *orphan)
{
    /* Nobody is left to be told that the space ran out. */
    (void)!status_is_ok(
        sim_inode_write(orphan->inode, orphan->data, orphan->size, orphan->position, orphan->sync));
    orphan_free(orphan);
}

status sim_disk_enter(struct sim_disk *disk)
{
    if (disk->doom_is_armed && !disk->is_doomed) {
        disk->is_doomed = disk->doom_count == 0;
        disk->doom_count -= disk->doom_count > 0 ? 1 : 0;
    }
    if (disk->is_doomed) {
        return sim_disk_error();
    }
    LIST_FOREACH_SAFE (node, &disk->orphans) {
        struct sim_orphan *orphan = orphan_of(node);
        if (--orphan->countdown == 0) {
            orphan_finish(orphan);
        }
    }
    return OK;
}

/* ---------------------------------------------------------------- files */

static status file_enter(struct sim_file *file, unsigned flag)
{
    if (file->inode == NULL) {
        return sim_disk_error();
    }
    TRY(sim_disk_enter(disk_of(file->base.disk)));
    return (file->flags & flag) == flag ? OK : status_from_errno(EBADF);
}

status sim_file_check_direct(struct sim_file *file, const void *buffer, uint64_t size,
                             uint64_t position)
{
    if ((file->flags & IO_FILE_DIRECT) == 0) {
        return OK;
    }
    bool is_aligned = ((uintptr_t)buffer | size | position) % DIRECT_UNIT == 0;
    return is_aligned ? OK : status_from_errno(EINVAL);
}

static status file_find_or_create(struct sim_disk *disk, const char *path, unsigned flags,
                                  struct sim_inode **inode)
{
    status found = sim_tree_find(&disk->tree, path, inode);
    if (status_is_ok(found)) {
        bool is_refused = (flags & IO_FILE_CREATE) != 0 && (flags & IO_FILE_EXCLUSIVE) != 0;
        return is_refused ? status_from_errno(EEXIST) : OK;
    }
    if (found.code != STATUS_NOT_FOUND || (flags & IO_FILE_CREATE) == 0) {
        return found;
    }
    return sim_tree_create(&disk->tree, path, false, inode);
}

static status disk_file_open(struct io_disk *base, const char *path, unsigned flags,
                             struct io_file **opened)
{
    struct sim_disk *disk = disk_of(base);
    struct sim_inode *inode;
    TRY(sim_disk_enter(disk));
    TRY(file_find_or_create(disk, path, flags, &inode));
    if (inode->is_directory) {
        return status_from_errno(EISDIR);
    }
    if ((flags & IO_FILE_TRUNCATE) != 0) {
        sim_inode_truncate(inode, 0);
    }
    struct sim_file *file = sim_alloc(sizeof(*file));
    file->base.disk = base;
    file->inode = inode;
    file->flags = flags;
    sim_inode_ref(inode);
    list_push_back(&disk->files, &file->link);
    *opened = &file->base;
    return OK;
}

/* Takes the file from its inode: closed, or its process died. */
static void file_detach(struct sim_file *file)
{
    if (file->inode->lock_owner == file) {
        file->inode->lock_owner = NULL;
    }
    sim_inode_unref(file->inode);
    file->inode = NULL;
}

static void disk_file_close(struct io_file *base)
{
    struct sim_file *file = file_of(base);
    if (file->inode != NULL) {
        ASSERT(file->in_flight == 0);
        file_detach(file);
    }
    list_remove(&file->link);
    free(file);
}

static status file_read(struct sim_file *file, void *buffer, size_t size, uint64_t position,
                        size_t *got)
{
    struct sim_medium *medium = file->inode->medium;
    if (sim_rng_chance(medium->rng, medium->options->read_error_chance)) {
        medium->coverage->read_errors++;
        return sim_disk_error();
    }
    uint64_t end = MIN(position + size, file->inode->size);
    if (position < end && sim_rng_chance(medium->rng, medium->options->rot_chance)) {
        medium->coverage->rotten_bits++;
        sim_inode_rot(file->inode, sim_rng_between(medium->rng, position, end - 1), 1);
    }
    *got = sim_inode_read(file->inode, buffer, size, position);
    return OK;
}

static status disk_file_read(struct io_file *base, void *buffer, size_t size, uint64_t position,
                             size_t *got)
{
    struct sim_file *file = file_of(base);
    TRY(file_enter(file, IO_FILE_READ));
    TRY(sim_file_check_direct(file, buffer, size, position));
    return file_read(file, buffer, size, position, got);
}

/* Writes, unless chance has it fail; a failed write may have written a part. */
static status file_write(struct sim_file *file, const uint8_t *data, uint64_t size,
                         uint64_t position, bool sync)
{
    struct sim_medium *medium = file->inode->medium;
    file->inode->modified_ms = sim_node_wall_ms(disk_of(file->base.disk)->node);
    if (sim_rng_chance(medium->rng, medium->options->write_error_chance)) {
        medium->coverage->write_errors++;
        uint64_t part = sim_rng_coin(medium->rng) ? sim_rng_below(medium->rng, size) : 0;
        part = ALIGN_DOWN(part, (uint64_t)SIM_SECTOR_SIZE);
        (void)!status_is_ok(sim_inode_write(file->inode, data, part, position, false));
        return sim_disk_error();
    }
    return sim_inode_write(file->inode, data, size, position, sync);
}

static status disk_file_write(struct io_file *base, const void *buffer, size_t size,
                              uint64_t position)
{
    struct sim_file *file = file_of(base);
    TRY(file_enter(file, IO_FILE_WRITE));
    TRY(sim_file_check_direct(file, buffer, size, position));
    return file_write(file, buffer, size, position, false);
}

static status disk_file_writev(struct io_file *base, struct iovec *ranges, uint32_t range_count,
                               uint64_t position)
{
    struct sim_file *file = file_of(base);
    TRY(file_enter(file, IO_FILE_WRITE));
    for (uint32_t i = 0; i < range_count; i++) {
        TRY(sim_file_check_direct(file, ranges[i].iov_base, ranges[i].iov_len, position));
        TRY(file_write(file, ranges[i].iov_base, ranges[i].iov_len, position, false));
        position += ranges[i].iov_len;
        ranges[i].iov_len = 0;
    }
    return OK;
}

static bool sync_fails(struct sim_medium *medium)
{
    bool fails = sim_rng_chance(medium->rng, medium->options->sync_error_chance);
    medium->coverage->sync_errors += fails ? 1 : 0;
    return fails;
}

static status disk_file_sync(struct io_file *base)
{
    struct sim_file *file = file_of(base);
    TRY(file_enter(file, 0));
    bool fails = sync_fails(file->inode->medium);
    sim_inode_sync(file->inode, fails);
    return fails ? sim_disk_error() : OK;
}

static status disk_file_truncate(struct io_file *base, uint64_t size)
{
    struct sim_file *file = file_of(base);
    TRY(file_enter(file, IO_FILE_WRITE));
    file->inode->modified_ms = sim_node_wall_ms(disk_of(base->disk)->node);
    sim_inode_truncate(file->inode, size);
    return OK;
}

static status disk_file_reserve(struct io_file *base, uint64_t position, uint64_t size)
{
    struct sim_file *file = file_of(base);
    TRY(file_enter(file, IO_FILE_WRITE));
    return size == 0 ? status_from_errno(EINVAL) : sim_inode_reserve(file->inode, position, size);
}

static status disk_file_size(struct io_file *base, uint64_t *size)
{
    struct sim_file *file = file_of(base);
    TRY(file_enter(file, 0));
    *size = file->inode->size;
    return OK;
}

static status disk_file_modified_ms(struct io_file *base, int64_t *modified_ms)
{
    struct sim_file *file = file_of(base);
    TRY(file_enter(file, 0));
    *modified_ms = file->inode->modified_ms;
    return OK;
}

static status disk_file_lock(struct io_file *base)
{
    struct sim_file *file = file_of(base);
    TRY(file_enter(file, 0));
    void *owner = file->inode->lock_owner;
    if (owner != NULL && owner != file) {
        return status_from_errno(EWOULDBLOCK);
    }
    /* In-flight requests held the descriptor, and with it the lock, of the process that died. */
    LIST_FOREACH_SAFE (node, &disk_of(base->disk)->orphans) {
        struct sim_orphan *orphan = orphan_of(node);
        if (orphan->inode == file->inode) {
            orphan_finish(orphan);
        }
    }
    file->inode->lock_owner = file;
    return OK;
}

/* ---------------------------------------------------------------- completions */

status sim_file_finish_write(struct sim_file *file, const void *data, uint32_t size,
                             uint64_t position, bool sync)
{
    if (sync && sync_fails(file->inode->medium)) {
        sim_inode_write_failed(file->inode, data, size, position);
        return sim_disk_error();
    }
    return file_write(file, data, size, position, sync);
}

status sim_file_finish_read(struct sim_file *file, void *buffer, uint32_t size, uint64_t position,
                            uint32_t *count)
{
    size_t got = 0;
    TRY(file_read(file, buffer, size, position, &got));
    *count = (uint32_t)got;
    return OK;
}

status sim_file_finish_sync(struct sim_file *file, struct sim_sync sync)
{
    bool fails = sync_fails(file->inode->medium);
    sim_inode_sync_finish(file->inode, sync, fails);
    return fails ? sim_disk_error() : OK;
}

/* ---------------------------------------------------------------- names */

static status disk_dir_create(struct io_disk *base, const char *path)
{
    struct sim_inode *inode;
    TRY(sim_disk_enter(disk_of(base)));
    return sim_tree_create(&disk_of(base)->tree, path, true, &inode);
}

static status disk_find_dir(struct io_disk *base, const char *path, struct sim_inode **inode)
{
    TRY(sim_disk_enter(disk_of(base)));
    TRY(sim_tree_find(&disk_of(base)->tree, path, inode));
    return (*inode)->is_directory ? OK : status_from_errno(ENOTDIR);
}

static status disk_dir_sync(struct io_disk *base, const char *path)
{
    struct sim_inode *inode;
    TRY(disk_find_dir(base, path, &inode));
    if (sync_fails(inode->medium)) {
        return sim_disk_error();
    }
    sim_tree_sync(&disk_of(base)->tree, inode);
    return OK;
}

/* Lists a copy, in random order: `entry` may create and remove names, and no order is promised. */
static status disk_dir_list(struct io_disk *base, const char *path, io_dir_entry_fn entry,
                            void *context)
{
    struct sim_inode *inode;
    TRY(disk_find_dir(base, path, &inode));
    uint32_t count = inode->visible.count;
    char **names = sim_alloc((count + 1) * sizeof(*names));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = (uint32_t)sim_rng_below(inode->medium->rng, i + 1);
        names[i] = names[other];
        names[other] = strdup(inode->visible.entries[i].name);
        ASSERT(names[other] != NULL);
    }
    status result = OK;
    for (uint32_t i = 0; i < count; i++) {
        if (status_is_ok(result)) {
            result = entry(context, names[i]);
        }
        free(names[i]);
    }
    free(names);
    return result;
}

static status disk_dir_remove(struct io_disk *base, const char *path)
{
    TRY(sim_disk_enter(disk_of(base)));
    return sim_tree_remove(&disk_of(base)->tree, path, true);
}

static status disk_path_rename(struct io_disk *base, const char *from, const char *to)
{
    TRY(sim_disk_enter(disk_of(base)));
    return sim_tree_rename(&disk_of(base)->tree, from, to);
}

static status disk_path_remove(struct io_disk *base, const char *path)
{
    TRY(sim_disk_enter(disk_of(base)));
    return sim_tree_remove(&disk_of(base)->tree, path, false);
}

static status disk_sync(struct io_file *base)
{
    struct sim_disk *disk = disk_of(base->disk);
    TRY(file_enter(file_of(base), 0));
    bool fails = sync_fails(&disk->medium);
    LIST_FOREACH_SAFE (node, &disk->medium.dirty) {
        struct sim_inode *dirty = CONTAINER_OF(node, struct sim_inode, dirty_link);
        sim_inode_sync(dirty, fails && sim_rng_coin(disk->medium.rng));
    }
    if (fails) {
        return sim_disk_error();
    }
    sim_tree_sync(&disk->tree, NULL);
    return OK;
}

static status disk_space(struct io_disk *base, const char *path, uint64_t *free_size,
                         uint64_t *total_size)
{
    struct sim_disk *disk = disk_of(base);
    struct sim_inode *inode;
    TRY(sim_disk_enter(disk));
    TRY(sim_tree_find(&disk->tree, path, &inode));
    uint64_t used = disk->medium.page_count * SIM_PAGE_SIZE;
    uint64_t total = disk->medium.options->disk_size;
    *total_size = total == 0 ? (uint64_t)1 << 40 : total;
    *free_size = *total_size - MIN(used, *total_size);
    return OK;
}

static void disk_facts(struct io_disk *base, const char *path, struct io_disk_facts *facts)
{
    *facts = (struct io_disk_facts){
        .file_system = "sim", .device = "sim0", .write_cache = "write back", .fua = true};
}

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

/* ---------------------------------------------------------------- life and death */

void sim_disk_init(struct sim_disk *disk, struct sim_rng *rng, struct sim_coverage *coverage,
                   const struct sim_options *options)
{
    *disk = (struct sim_disk){.base.ops = &disk_ops};
    sim_medium_init(&disk->medium, rng, coverage, options);
    sim_tree_init(&disk->tree, &disk->medium);
    list_init(&disk->files);
    list_init(&disk->dead_files);
    list_init(&disk->orphans);
}

/* Every open file belonged to the process that died; its owner may still close it. */
static void disk_bury_files(struct sim_disk *disk)
{
    LIST_FOREACH (node, &disk->files) {
        file_detach(CONTAINER_OF(node, struct sim_file, link));
    }
    list_splice(&disk->dead_files, &disk->files);
    disk->doom_is_armed = false;
    disk->is_doomed = false;
}

void sim_disk_fini(struct sim_disk *disk)
{
    disk_bury_files(disk);
    while (!list_is_empty(&disk->dead_files)) {
        free(CONTAINER_OF(list_pop_front(&disk->dead_files), struct sim_file, link));
    }
    while (!list_is_empty(&disk->orphans)) {
        orphan_free(orphan_of(list_first(&disk->orphans)));
    }
    sim_tree_fini(&disk->tree);
    ASSERT(list_is_empty(&disk->medium.dirty));
    ASSERT(disk->medium.page_count == 0);
}

/* A random order of [0, count); the caller frees it. */
static uint32_t *random_order(struct sim_rng *rng, uint32_t count)
{
    uint32_t *order = sim_alloc((count + 1) * sizeof(*order));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = (uint32_t)sim_rng_below(rng, i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    return order;
}

static void disk_land_flights(struct sim_disk *disk, const struct sim_flight *flights,
                              uint32_t count)
{
    uint32_t *order = random_order(disk->medium.rng, count);
    bool *landed = sim_alloc((count + 1) * sizeof(*landed));
    for (uint32_t i = 0; i < count; i++) {
        const struct sim_flight *flight = &flights[order[i]];
        landed[order[i]] =
            sim_inode_land(flight->inode, flight->data, flight->size, flight->position);
    }
    for (uint32_t i = 1; i < count; i++) {
        disk->medium.coverage->reordered_writes += landed[i] && !landed[i - 1] ? 1 : 0;
    }
    free(landed);
    free(order);
}

void sim_disk_cut_power(struct sim_disk *disk, const struct sim_flight *flights, uint32_t count)
{
    while (!list_is_empty(&disk->medium.dirty)) {
        struct list_node *node = list_first(&disk->medium.dirty);
        sim_inode_crash(CONTAINER_OF(node, struct sim_inode, dirty_link));
    }
    disk_land_flights(disk, flights, count);
    while (!list_is_empty(&disk->orphans)) {
        struct sim_orphan *orphan = orphan_of(list_first(&disk->orphans));
        (void)sim_inode_land(orphan->inode, orphan->data, orphan->size, orphan->position);
        orphan_free(orphan);
    }
    sim_tree_crash(&disk->tree);
    disk_bury_files(disk);
}

void sim_disk_kill_process(struct sim_disk *disk, const struct sim_flight *flights, uint32_t count)
{
    struct sim_rng *rng = disk->medium.rng;
    uint32_t *order = random_order(rng, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct sim_flight *flight = &flights[order[i]];
        if (sim_rng_coin(rng)) {
            continue;
        }
        struct sim_orphan *orphan = sim_alloc(sizeof(*orphan));
        orphan->inode = flight->inode;
        sim_inode_ref(flight->inode);
        orphan->data = sim_alloc(flight->size);
        memcpy(orphan->data, flight->data, flight->size);
        orphan->size = flight->size;
        orphan->position = flight->position;
        orphan->sync = flight->sync;
        orphan->countdown = (uint32_t)sim_rng_between(rng, 1, ORPHAN_OPERATIONS_MAX);
        list_push_back(&disk->orphans, &orphan->link);
    }
    free(order);
    disk_bury_files(disk);
}
