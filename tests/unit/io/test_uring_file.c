/* Asynchronous file operations of the io_uring backend, and injected faults where compiled in. */
#include "uring_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fault.h"

enum { BLOCK_SIZE = 4096, BLOCK_COUNT = 64 };

struct scene {
    char directory[64];
    char path[128];
    struct io *io;
    struct io_file *file;
};

static int set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    /* Not in /tmp where that is a tmpfs without O_DIRECT: beside the build. */
    snprintf(scene->directory, sizeof(scene->directory), "uring-file-XXXXXX");
    assert_non_null(mkdtemp(scene->directory));
    snprintf(scene->path, sizeof(scene->path), "%s/file", scene->directory);
    scene->io = fixture_create_loop(NULL);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    if (scene->file != NULL) {
        io_file_close(scene->file);
    }
    io_destroy(scene->io);
    unlink(scene->path);
    rmdir(scene->directory);
    free(scene);
    return 0;
}

static status scene_open(struct scene *scene, unsigned flags)
{
    return io_file_open(io_disk(scene->io), scene->path,
                        IO_FILE_READ | IO_FILE_WRITE | IO_FILE_CREATE | flags, &scene->file);
}

struct counted {
    struct io_op op;
    uint32_t *left;
    bool submitting;
};

static void counted_on_done(struct io_op *op)
{
    struct counted *counted = op->context;
    assert_false(counted->submitting);
    assert_true(*counted->left > 0);
    (*counted->left)--;
}

static bool none_is_left(void *context)
{
    return *(uint32_t *)context == 0;
}

static uint8_t *blocks_alloc(size_t size, int fill)
{
    uint8_t *blocks = aligned_alloc(BLOCK_SIZE, size);
    assert_non_null(blocks);
    memset(blocks, fill, size);
    return blocks;
}

/* ---------------------------------------------------------------- tests */

static void write_and_read_blocks(struct scene *scene, bool sync)
{
    uint8_t *out = blocks_alloc((size_t)BLOCK_COUNT * BLOCK_SIZE, 0);
    uint8_t *in = blocks_alloc((size_t)BLOCK_COUNT * BLOCK_SIZE, 0xee);
    struct counted ops[BLOCK_COUNT] = {0};
    uint32_t left = BLOCK_COUNT;
    for (uint32_t at = 0; at < BLOCK_COUNT; at++) {
        uint8_t *block = out + (size_t)at * BLOCK_SIZE;
        memset(block, (int)(at + 1), BLOCK_SIZE);
        ops[at].left = &left;
        ops[at].op.context = &ops[at];
        ops[at].submitting = true;
        io_submit_write(scene->io, &ops[at].op, scene->file, block, BLOCK_SIZE,
                        (uint64_t)at * BLOCK_SIZE, sync, counted_on_done);
        ops[at].submitting = false;
    }
    fixture_run_until(scene->io, none_is_left, &left);
    left = BLOCK_COUNT;
    for (uint32_t at = 0; at < BLOCK_COUNT; at++) {
        assert_int_equal(ops[at].op.result.code, STATUS_OK);
        assert_int_equal(ops[at].op.count, BLOCK_SIZE);
        io_submit_read(scene->io, &ops[at].op, scene->file, in + (size_t)at * BLOCK_SIZE,
                       BLOCK_SIZE, (uint64_t)at * BLOCK_SIZE, counted_on_done);
    }
    fixture_run_until(scene->io, none_is_left, &left);
    for (uint32_t at = 0; at < BLOCK_COUNT; at++) {
        assert_int_equal(ops[at].op.result.code, STATUS_OK);
        assert_int_equal(ops[at].op.count, BLOCK_SIZE);
    }
    assert_memory_equal(in, out, (size_t)BLOCK_COUNT * BLOCK_SIZE);
    free(out);
    free(in);
}

static void direct_synced_writes_are_read_back(void **state)
{
    struct scene *scene = *state;
    if (scene_open(scene, IO_FILE_DIRECT).code == STATUS_UNSUPPORTED) {
        skip();
    }
    struct io_stats stats;
    write_and_read_blocks(scene, true);
    io_stats_get(scene->io, &stats);
    assert_int_equal(stats.writes, BLOCK_COUNT);
    assert_int_equal(stats.syncs, BLOCK_COUNT);
}

static void buffered_writes_and_a_sync_are_read_back(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(scene_open(scene, 0).code, STATUS_OK);
    write_and_read_blocks(scene, false);
    uint32_t left = 1;
    struct counted sync = {.left = &left};
    sync.op.context = &sync;
    io_submit_sync(scene->io, &sync.op, scene->file, counted_on_done);
    fixture_run_until(scene->io, none_is_left, &left);
    assert_int_equal(sync.op.result.code, STATUS_OK);
    struct io_stats stats;
    io_stats_get(scene->io, &stats);
    assert_int_equal(stats.syncs, 1);
}

static void a_read_over_the_end_is_short(void **state)
{
    static const unsigned flags[] = {0, IO_FILE_DIRECT};
    static const uint32_t positions[] = {0, BLOCK_SIZE, 2 * BLOCK_SIZE, 16 * BLOCK_SIZE};
    static const uint32_t counts[] = {BLOCK_SIZE + 100, 100, 0, 0};
    struct scene *scene = *state;
    uint8_t *in = blocks_alloc(4 * BLOCK_SIZE, 0);
    assert_int_equal(scene_open(scene, 0).code, STATUS_OK);
    assert_int_equal(io_file_truncate(scene->file, BLOCK_SIZE + 100).code, STATUS_OK);
    for (size_t kind = 0; kind < COUNT_OF(flags); kind++) {
        io_file_close(scene->file);
        scene->file = NULL;
        if (scene_open(scene, flags[kind]).code == STATUS_UNSUPPORTED) {
            continue;
        }
        for (size_t at = 0; at < COUNT_OF(positions); at++) {
            uint32_t left = 1;
            struct counted read = {.left = &left};
            read.op.context = &read;
            io_submit_read(scene->io, &read.op, scene->file, in, 4 * BLOCK_SIZE, positions[at],
                           counted_on_done);
            fixture_run_until(scene->io, none_is_left, &left);
            assert_int_equal(read.op.result.code, STATUS_OK);
            assert_int_equal(read.op.count, counts[at]);
        }
    }
    free(in);
}

/* A size limit stands for a full disk: the kernel writes a part, then refuses. */
static void a_short_write_is_an_error_and_so_is_one_beyond_the_limit(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(scene_open(scene, 0).code, STATUS_OK);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    struct rlimit small = {.rlim_cur = BLOCK_SIZE + 100, .rlim_max = limit.rlim_max};
    uint8_t *out = blocks_alloc(2 * BLOCK_SIZE, 1);
    uint32_t left = 1;
    struct counted write = {.left = &left};
    write.op.context = &write;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    io_submit_write(scene->io, &write.op, scene->file, out, 2 * BLOCK_SIZE, 0, false,
                    counted_on_done);
    fixture_run_until(scene->io, none_is_left, &left);
    assert_int_equal(write.op.result.code, STATUS_IO);
    left = 1;
    io_submit_write(scene->io, &write.op, scene->file, out, BLOCK_SIZE, 2 * BLOCK_SIZE, false,
                    counted_on_done);
    fixture_run_until(scene->io, none_is_left, &left);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(write.op.result.code, STATUS_TOO_LARGE);
    assert_int_equal(write.op.result.sys, EFBIG);
    free(out);
}

#if TWINLOG_FAULTS

static status write_once(struct scene *scene, uint8_t *block)
{
    uint32_t left = 1;
    struct counted write = {.left = &left, .submitting = true};
    write.op.context = &write;
    io_submit_write(scene->io, &write.op, scene->file, block, BLOCK_SIZE, 0, true, counted_on_done);
    write.submitting = false;
    fixture_run_until(scene->io, none_is_left, &left);
    return write.op.result;
}

static void an_injected_fault_hits_the_operation_it_names(void **state)
{
    struct scene *scene = *state;
    uint8_t *block = blocks_alloc(BLOCK_SIZE, 5);
    assert_int_equal(scene_open(scene, 0).code, STATUS_OK);
    assert_true(fault_configure("write:after=2:errno=ENOSPC,disk-sync:errno=EIO"));
    assert_int_equal(write_once(scene, block).code, STATUS_OK);
    assert_int_equal(write_once(scene, block).code, STATUS_OK);
    assert_int_equal(write_once(scene, block).code, STATUS_NO_SPACE);
    assert_int_equal(write_once(scene, block).code, STATUS_OK);
    assert_int_equal(io_file_sync(scene->file).sys, EIO);
    assert_int_equal(io_file_sync(scene->file).code, STATUS_OK);
    assert_true(fault_configure("write:times=2:delay_us=20000"));
    int64_t start_ns = io_now_ns_exact(scene->io);
    assert_int_equal(write_once(scene, block).code, STATUS_OK);
    assert_int_equal(write_once(scene, block).code, STATUS_OK);
    assert_true(io_now_ns_exact(scene->io) - start_ns >= 40 * MILLISECOND_NS);
    static const char *const wrong[] = {"wrote",       "write:after=x",
                                        "write:x=1",   "write:errno=EBLUE",
                                        "write:path=", "disk-sync:short"};
    for (size_t at = 0; at < COUNT_OF(wrong); at++) {
        assert_false(fault_configure(wrong[at]));
    }
    assert_int_equal(write_once(scene, block).code, STATUS_OK);
    free(block);
}

static void an_injected_fault_hits_the_file_it_names(void **state)
{
    struct scene *scene = *state;
    uint8_t *block = blocks_alloc(BLOCK_SIZE, 5);
    uint8_t byte = 0;
    size_t got = 0;
    assert_int_equal(scene_open(scene, 0).code, STATUS_OK);
    assert_true(fault_configure("write:path=elsewhere,disk-read:path=/,disk-read:path=elsewhere"));
    assert_int_equal(write_once(scene, block).code, STATUS_OK);
    assert_int_equal(io_file_read(scene->file, &byte, 1, 0, &got).sys, EIO);
    assert_int_equal(io_file_read(scene->file, &byte, 1, 0, &got).code, STATUS_OK);
    free(block);
}

static void an_injected_short_write_leaves_half_of_its_bytes(void **state)
{
    struct scene *scene = *state;
    uint8_t *blocks = blocks_alloc(2 * BLOCK_SIZE, 5);
    uint64_t size = 0;
    assert_int_equal(scene_open(scene, 0).code, STATUS_OK);
    assert_true(fault_configure("disk-write:short:errno=ENOSPC,write:short"));
    assert_int_equal(io_file_write(scene->file, blocks, 1000, 0).code, STATUS_NO_SPACE);
    assert_int_equal(io_file_size(scene->file, &size).code, STATUS_OK);
    assert_int_equal(size, 500);
    uint32_t left = 1;
    struct counted write = {.left = &left, .submitting = true};
    write.op.context = &write;
    io_submit_write(scene->io, &write.op, scene->file, blocks, 2 * BLOCK_SIZE, 0, true,
                    counted_on_done);
    write.submitting = false;
    fixture_run_until(scene->io, none_is_left, &left);
    assert_int_equal(write.op.result.code, STATUS_IO);
    assert_int_equal(write.op.count, BLOCK_SIZE);
    free(blocks);
}

#else

static void an_injected_fault_hits_the_operation_it_names(void **state)
{
    skip(); /* a build without fault injection */
}

static void an_injected_fault_hits_the_file_it_names(void **state)
{
    skip();
}

static void an_injected_short_write_leaves_half_of_its_bytes(void **state)
{
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(direct_synced_writes_are_read_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(buffered_writes_and_a_sync_are_read_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_read_over_the_end_is_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_short_write_is_an_error_and_so_is_one_beyond_the_limit,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_injected_fault_hits_the_operation_it_names, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_injected_fault_hits_the_file_it_names, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_injected_short_write_leaves_half_of_its_bytes, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
