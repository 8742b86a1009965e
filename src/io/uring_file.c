/*
 * Asynchronous file operations. Their state lives in io_op.backend, so they allocate nothing.
 *
 * A failed or short write is reported and never repeated: after it nothing is known about the
 * blocks, and the owner decides. A short buffered read goes on, because the page cache may answer
 * in parts; a short direct read is the end of the file.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "disk_real.h"
#include "fault.h"
#include "uring.h"

struct uring_op {
    struct uring_entry entry;
    uint8_t *at;
    uint64_t position;
    int fd;
    uint32_t size : 31; /* left */
    uint32_t direct : 1;
};

_Static_assert(sizeof(struct uring_op) <= sizeof(((struct io_op *)NULL)->backend),
               "an operation fits into its caller's io_op");

static struct uring_op *uring_op_of(struct io_op *op)
{
    return (struct uring_op *)(void *)op->backend;
}

static struct io_op *uring_op_owner(struct uring_entry *entry)
{
    return CONTAINER_OF((uint64_t(*)[4])(void *)entry, struct io_op, backend);
}

static void uring_op_finish(struct uring *uring, struct io_op *op)
{
    ASSERT(uring->in_flight > 0);
    uring->in_flight--;
    op->fn(op);
}

/* ---------------------------------------------------------------- completions */

static void uring_on_write(struct uring *uring, struct uring_entry *entry, int32_t result,
                           uint32_t flags)
{
    struct io_op *op = uring_op_owner(entry);
    if (result < 0) {
        op->result = status_from_errno(-result);
    } else {
        op->count = (uint32_t)result;
        op->result = op->count == uring_op_of(op)->size ? OK : STATUS(IO);
    }
    uring_op_finish(uring, op);
}

static void uring_on_write_synced(struct uring *uring, struct uring_entry *entry, int32_t result,
                                  uint32_t flags)
{
    uring->base.stats.syncs++;
    uring_on_write(uring, entry, result, flags);
}

static void uring_on_sync(struct uring *uring, struct uring_entry *entry, int32_t result,
                          uint32_t flags)
{
    struct io_op *op = uring_op_owner(entry);
    uring->base.stats.syncs++;
    op->result = status_from_errno(-result);
    uring_op_finish(uring, op);
}

static void uring_read_go_on(struct uring *uring, struct uring_op *read)
{
    struct io_uring_sqe *sqe = uring_sqe(uring);
    io_uring_prep_read(sqe, read->fd, read->at, read->size, read->position);
    uring_sqe_own(sqe, &read->entry);
}

static void uring_on_read(struct uring *uring, struct uring_entry *entry, int32_t result,
                          uint32_t flags)
{
    struct io_op *op = uring_op_owner(entry);
    struct uring_op *read = uring_op_of(op);
    if (result < 0) {
        op->result = status_from_errno(-result);
        uring_op_finish(uring, op);
        return;
    }
    op->count += (uint32_t)result;
    read->at += result;
    read->position += (uint64_t)result;
    read->size -= (uint32_t)result & INT32_MAX;
    if (result > 0 && read->size > 0 && !read->direct) {
        uring_read_go_on(uring, read);
    } else {
        uring_op_finish(uring, op);
    }
}

/* ---------------------------------------------------------------- injected faults */

void uring_file_run_failed(struct uring *uring)
{
    struct list failed;
    list_init(&failed);
    list_splice(&failed, &uring->failed);
    while (!list_is_empty(&failed)) {
        uring_op_finish(uring, CONTAINER_OF(list_pop_front(&failed), struct io_op, link));
    }
}

static void uring_op_fail(struct uring *uring, struct io_op *op, int error)
{
    op->result = status_from_errno(error);
    list_push_back(&uring->failed, &op->link);
}

struct uring_delayed {
    struct io_timer timer;
    struct uring *uring;
    struct io_op *op;
    struct io_uring_sqe sqe; /* as prepared, to be copied into the ring later */
    int error;
};

static void uring_on_delay_over(struct io_timer *timer)
{
    struct uring_delayed *delayed = timer->context;
    if (delayed->error != 0) {
        uring_op_fail(delayed->uring, delayed->op, delayed->error);
    } else {
        *uring_sqe(delayed->uring) = delayed->sqe;
    }
    free(delayed);
}

static void uring_op_delay(struct uring *uring, struct io_op *op, const struct io_uring_sqe *sqe,
                           struct fault fault)
{
    struct uring_delayed *delayed = calloc(1, sizeof(*delayed));
    ASSERT(delayed != NULL);
    delayed->timer.context = delayed;
    delayed->uring = uring;
    delayed->op = op;
    delayed->sqe = *sqe;
    delayed->error = fault.error;
    io_timer_start(&uring->base, &delayed->timer, fault.delay_ns, uring_on_delay_over);
}

/* ---------------------------------------------------------------- submission */

static void uring_op_start(struct uring *uring, struct io_op *op, const struct io_uring_sqe *sqe,
                           struct fault fault)
{
    uring->in_flight++;
    if (fault.delay_ns > 0) {
        uring_op_delay(uring, op, sqe, fault);
    } else if (fault.is_short && sqe->len / 2 >= DISK_DIRECT_ALIGNMENT) {
        struct io_uring_sqe *half = uring_sqe(uring);
        *half = *sqe;
        half->len = ALIGN_DOWN(sqe->len / 2, (uint32_t)DISK_DIRECT_ALIGNMENT);
    } else if (fault.error != 0) {
        uring_op_fail(uring, op, fault.error);
    } else {
        *uring_sqe(uring) = *sqe;
    }
}

static struct uring_op *uring_op_init(struct io_op *op, struct io_file *file, const void *buffer,
                                      uint32_t size, uint64_t position)
{
    struct disk_file *real = disk_file_of(file);
    struct uring_op *state = uring_op_of(op);
    if (real->direct) {
        ASSERT((uintptr_t)buffer % DISK_DIRECT_ALIGNMENT == 0);
        ASSERT(size % DISK_DIRECT_ALIGNMENT == 0);
        ASSERT(position % DISK_DIRECT_ALIGNMENT == 0);
    }
    *state = (struct uring_op){
        .at = (uint8_t *)(uintptr_t)buffer,
        .position = position,
        .fd = real->fd,
        .size = size & INT32_MAX,
        .direct = real->direct,
    };
    return state;
}

void uring_submit_write(struct io *io, struct io_op *op, struct io_file *file, const void *buffer,
                        uint32_t size, uint64_t position, bool sync)
{
    struct uring *uring = uring_of(io);
    struct uring_op *write = uring_op_init(op, file, buffer, size, position);
    struct io_uring_sqe sqe = {0};
    write->entry.complete = sync ? uring_on_write_synced : uring_on_write;
    io_uring_prep_write(&sqe, write->fd, buffer, size, position);
    sqe.rw_flags = sync ? RWF_DSYNC : 0;
    uring_sqe_own(&sqe, &write->entry);
    uring->base.stats.writes++;
    uring_op_start(uring, op, &sqe, fault_next(FAULT_WRITE, disk_file_of(file)->path));
}

void uring_submit_read(struct io *io, struct io_op *op, struct io_file *file, void *buffer,
                       uint32_t size, uint64_t position)
{
    struct uring_op *read = uring_op_init(op, file, buffer, size, position);
    struct io_uring_sqe sqe = {0};
    read->entry.complete = uring_on_read;
    io_uring_prep_read(&sqe, read->fd, buffer, size, position);
    uring_sqe_own(&sqe, &read->entry);
    uring_op_start(uring_of(io), op, &sqe, fault_next(FAULT_READ, disk_file_of(file)->path));
}

void uring_submit_sync(struct io *io, struct io_op *op, struct io_file *file)
{
    struct uring_op *sync = uring_op_init(op, file, NULL, 0, 0);
    struct io_uring_sqe sqe = {0};
    sync->entry.complete = uring_on_sync;
    io_uring_prep_fsync(&sqe, sync->fd, IORING_FSYNC_DATASYNC);
    uring_sqe_own(&sqe, &sync->entry);
    uring_op_start(uring_of(io), op, &sqe, fault_next(FAULT_SYNC, disk_file_of(file)->path));
}
