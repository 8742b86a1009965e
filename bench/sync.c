#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "twinlog/core/assert.h"
#include "twinlog/io/io.h"
#include "workload.h"

#define SYNC_BLOCK     4096u
#define SYNC_AHEAD     (256u << 10) /* written ahead in pieces of this size */
#define SYNC_FILE_SIZE (16u << 20)

struct sync {
    const struct options *options;
    struct io *io;
    struct io_file *file;
    struct io_op op;
    struct result *result;
    uint8_t *block;
    uint64_t position;
    int64_t started_ns;
    int64_t begin_ns;
};

static void sync_next(struct sync *sync);

static void on_written(struct io_op *op)
{
    struct sync *sync = op->context;
    int64_t now = io_now_ns_exact(sync->io);
    double elapsed = (double)(now - sync->begin_ns) / 1e9;
    if (!status_is_ok(op->result)) {
        sync->result->errors++;
        io_stop(sync->io);
        return;
    }
    if (elapsed >= sync->options->warmup_s) {
        sync->result->requests++;
        histogram_add(&sync->result->latency, (uint64_t)(now - sync->started_ns));
    }
    if (elapsed >= sync->options->warmup_s + sync->options->duration_s) {
        sync->result->seconds = elapsed - sync->options->warmup_s;
        io_stop(sync->io);
        return;
    }
    sync_next(sync);
}

static void sync_next(struct sync *sync)
{
    sync->started_ns = io_now_ns_exact(sync->io);
    sync->position = (sync->position + SYNC_BLOCK) % SYNC_FILE_SIZE;
    sync->op.context = sync;
    io_submit_write(sync->io, &sync->op, sync->file, sync->block, SYNC_BLOCK, sync->position, true,
                    on_written);
}

/* Written ahead like a journal: a write into a hole would measure the file system's allocation. */
static status file_prepare(struct sync *sync, const char *path)
{
    TRY(io_file_open(io_disk(sync->io), path,
                     IO_FILE_READ | IO_FILE_WRITE | IO_FILE_CREATE | IO_FILE_DIRECT, &sync->file));
    for (uint64_t at = 0; at < SYNC_FILE_SIZE; at += SYNC_AHEAD) {
        TRY(io_file_write(sync->file, sync->block, SYNC_AHEAD, at));
    }
    return io_file_sync(sync->file);
}

int sync_run(const struct options *options)
{
    char path[4096];
    struct result *result = calloc(1, sizeof(*result));
    struct sync sync = {.options = options, .result = result};
    struct io_options io_options = {0};
    ASSERT(result != NULL);
    result->workload = "sync";
    sync.block = aligned_alloc(4096, SYNC_AHEAD);
    ASSERT(sync.block != NULL);
    memset(sync.block, 0x5a, SYNC_AHEAD);
    snprintf(path, sizeof(path), "%s/twinlog-bench-sync.%d", options->directory, (int)getpid());
    cpu_pin(options->cpu);
    status s = io_create_uring(&io_options, &sync.io);
    if (status_is_ok(s)) {
        s = file_prepare(&sync, path);
    }
    if (status_is_ok(s)) {
        sync.begin_ns = io_now_ns_exact(sync.io);
        sync_next(&sync);
        s = io_run(sync.io);
    }
    if (!status_is_ok(s)) {
        fprintf(stderr, "twinlog-bench: sync: %s: %s\n", path, status_text(s));
        result->errors++;
    }
    unlink(path);
    report_write(options, result);
    int exit_status = result->errors == 0 ? 0 : 1;
    free(sync.block);
    free(result);
    return exit_status;
}
