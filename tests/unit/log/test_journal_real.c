/* The journal on io_uring and a real disk: what the simulator cannot know. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "journal.h"
#include "twinlog/core/trace.h"

#define FILE_SIZE  (1024ull * 1024)
#define FILE_COUNT 2u
#define BODY_SIZE  700u
#define TOTAL      2000u

#define assert_ok(expression) assert_int_equal((expression).code, STATUS_OK)

static const struct uuid directory_id = {{1, 9, 1, 9}};

struct real {
    char dir[64];
    struct io *io;
    struct io_hook hook;
    struct io_timer tick; /* keeps turns coming while there is more to append */
    struct chunk_pool chunks;
    struct journal *journal;
    struct journal_start start;
    uint32_t appended;
    uint32_t replayed;
};

static void on_evict(void *context)
{
    struct real *real = context;
    LIST_FOREACH_SAFE (node, &real->chunks.used) {
        struct chunk *chunk = CONTAINER_OF(node, struct chunk, link);
        if (chunk->refs == 0) {
            chunk_give(&real->chunks, chunk);
        }
    }
}

static void on_synced(void *context, uint64_t lsn)
{
    struct real *real = context;
    journal_start_at(real->journal, lsn, &real->start);
    journal_recycle(real->journal, lsn);
    if (real->appended == TOTAL && lsn + 1 == journal_next_lsn(real->journal) &&
        journal_is_idle(real->journal)) {
        io_stop(real->io);
    }
}

static void on_seal(void *context, uint64_t *committed_lsn, int64_t *metadata_offset)
{
    *committed_lsn = 0;
    *metadata_offset = -1;
}

static void on_room(void *context)
{
}

static void on_failed(void *context, status why)
{
    fail_msg("a write failed: %s", status_text(why));
}

static status on_frame(void *context, const struct journal_frame *frame)
{
    struct real *real = context;
    struct bytes entries = frame->entries;
    struct journal_entry entry;
    bool malformed = false;
    while (journal_entry_next(&entries, &entry, &malformed)) {
        assert_int_equal(entry.body.size, BODY_SIZE);
        assert_int_equal(entry.body.data[BODY_SIZE - 1], (uint8_t)entry.offset);
        real->replayed = (uint32_t)entry.offset + 1;
    }
    assert_false(malformed);
    return OK;
}

static void on_tick(struct io_timer *timer)
{
    struct real *real = timer->context;
    for (uint32_t i = 0; i < 40 && real->appended < TOTAL; i++) {
        uint8_t body[BODY_SIZE];
        memset(body, (int)(real->appended & 0xff), sizeof(body));
        struct journal_entry entry = {
            .type = JOURNAL_BATCH,
            .offset = real->appended,
            .body = {body, BODY_SIZE},
        };
        struct journal_place place;
        if (!journal_has_room(real->journal, BODY_SIZE)) {
            break;
        }
        assert_ok(journal_append(real->journal, &entry, false, &place));
        real->appended++;
    }
    if (real->appended < TOTAL) {
        io_timer_start(real->io, timer, 10000, on_tick);
    }
}

static void on_turn(struct io_hook *hook)
{
    journal_step(((struct real *)hook->context)->journal);
}

static void real_open(struct real *real)
{
    chunk_pool_init(&real->chunks, 256 * 1024, 8);
    struct journal_options options = {
        .io = real->io,
        .dir = real->dir,
        .directory_id = directory_id,
        .file_size = FILE_SIZE,
        .file_count = FILE_COUNT,
        .frame_size_max = 64 * 1024,
        .chunks = &real->chunks,
        .evict = on_evict,
        .on_synced = on_synced,
        .on_seal = on_seal,
        .on_room = on_room,
        .on_failed = on_failed,
        .context = real,
    };
    assert_ok(journal_open(&options, &real->journal));
    struct journal *second = NULL;
    assert_int_equal(journal_open(&options, &second).code, STATUS_BUSY);
    assert_ok(journal_replay(real->journal, &real->start, on_frame, real));
    assert_true(journal_start_extend(real->journal, &real->start));
    journal_begin(real->journal, 1, &real->start);
}

static void real_run(const char *parent)
{
    struct real real = {.start = {.lsn = 1}};
    snprintf(real.dir, sizeof(real.dir), "%s/twinlog-journal-XXXXXX", parent);
    assert_non_null(mkdtemp(real.dir));
    struct io_options io_options = {.entry_count = 64, .receive_buffer_count = 16};
    status made = io_create_uring(&io_options, &real.io);
    if (made.code == STATUS_UNSUPPORTED) {
        rmdir(real.dir);
        skip();
    }
    assert_ok(made);
    assert_ok(journal_format(io_disk(real.io), real.dir, &directory_id, 0, FILE_SIZE, FILE_COUNT));
    real_open(&real);
    real.hook = (struct io_hook){.fn = on_turn, .context = &real};
    real.tick.context = &real;
    io_hook_add(real.io, &real.hook);
    io_timer_start(real.io, &real.tick, 1, on_tick);
    assert_ok(io_run(real.io));
    assert_int_equal(real.appended, TOTAL);
    journal_destroy(real.journal, false);
    chunk_pool_fini(&real.chunks);
    io_hook_remove(real.io, &real.hook);

    real_open(&real);
    assert_int_equal(real.replayed, TOTAL);
    journal_destroy(real.journal, false);
    chunk_pool_fini(&real.chunks);
    io_destroy(real.io);
    for (uint32_t i = 0; i < FILE_COUNT; i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/journal.0.%u", real.dir, i);
        unlink(path);
    }
    assert_int_equal(rmdir(real.dir), 0);
}

static void it_works_on_the_disk_below_tmp(void **state)
{
    real_run("/tmp");
}

static void it_works_in_memory(void **state)
{
    if (access("/dev/shm", W_OK) != 0) {
        skip();
    }
    real_run("/dev/shm");
}

int main(void)
{
    trace_set_level(TRACE_WARN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_works_on_the_disk_below_tmp),
        cmocka_unit_test(it_works_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
