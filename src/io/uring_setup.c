/*
 * The ring itself, and what is asked of the kernel. A kernel that lacks something, or a host that
 * forbids io_uring, is told apart and named with its remedy, because both are met in the field: old
 * distributions, and containers whose default profile filters the system call.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "twinlog/core/trace.h"
#include "uring.h"

enum { URING_BUFFER_GROUP = 0 };

struct uring_opcode {
    uint8_t opcode;
    const char *name;
    const char *version; /* of Linux, the first that has it */
};

static const struct uring_opcode uring_opcodes[] = {
    {IORING_OP_READ, "IORING_OP_READ", "5.6"},
    {IORING_OP_WRITE, "IORING_OP_WRITE", "5.6"},
    {IORING_OP_FSYNC, "IORING_OP_FSYNC", "5.1"},
    {IORING_OP_ACCEPT, "IORING_OP_ACCEPT (multishot)", "5.19"},
    {IORING_OP_CONNECT, "IORING_OP_CONNECT", "5.5"},
    {IORING_OP_RECV, "IORING_OP_RECV (multishot)", "6.0"},
    {IORING_OP_SEND, "IORING_OP_SEND", "5.6"},
    {IORING_OP_SENDMSG, "IORING_OP_SENDMSG", "5.3"},
    {IORING_OP_ASYNC_CANCEL, "IORING_OP_ASYNC_CANCEL", "5.5"},
    {IORING_OP_CLOSE, "IORING_OP_CLOSE", "5.6"},
    {IORING_OP_MSG_RING, "IORING_OP_MSG_RING", "5.18"},
};

static status uring_lacks(const char *feature, const char *version)
{
    trace_error("io",
                "the kernel lacks %s, which Linux has since %s; remedy: run Linux 6.1 or later",
                feature, version);
    return STATUS(UNSUPPORTED);
}

static status uring_setup_failed(int error)
{
    switch (error) {
    case EPERM:
    case ENOSYS:
    case EACCES:
        trace_error("io",
                    "io_uring is forbidden on this host (io_uring_setup: %s); remedy: set sysctl "
                    "kernel.io_uring_disabled=0, and in a container allow io_uring_setup, "
                    "io_uring_enter and io_uring_register in its seccomp profile; "
                    "without either, run a kernel that has io_uring (Linux 6.1 or later)",
                    strerror(error));
        return (status){STATUS_UNSUPPORTED, error};
    case EINVAL:
        return uring_lacks("io_uring with SINGLE_ISSUER and DEFER_TASKRUN", "6.1");
    case ENOMEM:
        trace_error("io", "no memory for the io_uring of a shard; remedy: raise the memory limit "
                          "of the service or RLIMIT_MEMLOCK");
        return (status){STATUS_NO_MEMORY, error};
    default:
        trace_error("io", "io_uring_setup failed: %s", strerror(error));
        return status_from_errno(error);
    }
}

static status uring_probe(struct uring *uring)
{
    if ((uring->ring.features & IORING_FEAT_NODROP) == 0) {
        return uring_lacks("IORING_FEAT_NODROP", "5.5");
    }
    if ((uring->ring.features & IORING_FEAT_EXT_ARG) == 0) {
        return uring_lacks("IORING_FEAT_EXT_ARG", "5.11");
    }
    if ((uring->ring.features & IORING_FEAT_CQE_SKIP) == 0) {
        return uring_lacks("IORING_FEAT_CQE_SKIP", "5.17");
    }
    struct io_uring_probe *probe = io_uring_get_probe_ring(&uring->ring);
    if (probe == NULL) {
        return uring_lacks("IORING_REGISTER_PROBE", "5.6");
    }
    status result = OK;
    for (size_t at = 0; at < COUNT_OF(uring_opcodes) && status_is_ok(result); at++) {
        if (!io_uring_opcode_supported(probe, uring_opcodes[at].opcode)) {
            result = uring_lacks(uring_opcodes[at].name, uring_opcodes[at].version);
        }
    }
    io_uring_free_probe(probe);
    return result;
}

static size_t uring_buffer_ring_size(const struct uring *uring)
{
    return uring->buffer_count * sizeof(struct io_uring_buf);
}

static size_t uring_buffers_size(const struct uring *uring)
{
    return (size_t)uring->buffer_count * uring->buffer_size;
}

static void *uring_map(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Address space only: a buffer's pages are touched when the kernel first receives into it. */
static status uring_setup_buffers(struct uring *uring)
{
    uring->buffer_ring = uring_map(uring_buffer_ring_size(uring));
    uring->buffers = uring_map(uring_buffers_size(uring));
    if (uring->buffer_ring == NULL || uring->buffers == NULL) {
        return STATUS(NO_MEMORY);
    }
    struct io_uring_buf_reg registration = {
        .ring_addr = (uintptr_t)uring->buffer_ring,
        .ring_entries = uring->buffer_count,
        .bgid = URING_BUFFER_GROUP,
    };
    int result = io_uring_register_buf_ring(&uring->ring, &registration, 0);
    if (result == -EINVAL) {
        return uring_lacks("rings of provided buffers", "5.19");
    }
    if (result < 0) {
        trace_error("io",
                    "registering receive buffers failed: %s; remedy: raise the memory limit "
                    "of the service or RLIMIT_MEMLOCK",
                    strerror(-result));
        return status_from_errno(-result);
    }
    io_uring_buf_ring_init(uring->buffer_ring);
    int mask = io_uring_buf_ring_mask(uring->buffer_count);
    for (uint32_t at = 0; at < uring->buffer_count; at++) {
        io_uring_buf_ring_add(uring->buffer_ring, uring->buffers + (size_t)at * uring->buffer_size,
                              uring->buffer_size, (unsigned short)at, mask, (int)at);
    }
    io_uring_buf_ring_advance(uring->buffer_ring, (int)uring->buffer_count);
    return OK;
}

status uring_setup(struct uring *uring, uint32_t entry_count)
{
    /*
     * R_DISABLED: the ring starts without an owner, and the thread that calls io_run() becomes its
     * single issuer. Task work is deferred to that thread's own wait, so nothing interrupts it.
     */
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE |
                 IORING_SETUP_R_DISABLED,
        .cq_entries = entry_count * 4,
    };
    int result = io_uring_queue_init_params(entry_count, &uring->ring, &params);
    if (result < 0) {
        return uring_setup_failed(-result);
    }
    status probed = uring_probe(uring);
    if (status_is_ok(probed)) {
        probed = uring_setup_buffers(uring);
    }
    if (!status_is_ok(probed)) {
        uring_teardown(uring);
    }
    return probed;
}

void uring_teardown(struct uring *uring)
{
    io_uring_queue_exit(&uring->ring);
    if (uring->buffer_ring != NULL) {
        munmap(uring->buffer_ring, uring_buffer_ring_size(uring));
    }
    if (uring->buffers != NULL) {
        munmap(uring->buffers, uring_buffers_size(uring));
    }
}
