/*
 * One journal on a simulated node, with a memory of what was appended, so that any replay can be
 * compared with it. The checkpoint is a struct journal_start that survives crashes as a synced file
 * would.
 */
#ifndef TWINLOG_LOG_TEST_JOURNAL_FIXTURE_H
#define TWINLOG_LOG_TEST_JOURNAL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "journal_format.h"
#include "mutation.h"
#include "twinlog/core/trace.h"
#include "twinlog/io/sim.h"

#define FIXTURE_DIR            "log"
#define FIXTURE_APPENDS_MAX    20000u
#define FIXTURE_BODY_MAX       (2048 * KIB)
#define KIB                    1024ull
#define FIXTURE_SECOND_NS      1000000000ll
#define fixture_ok(expression) assert_int_equal((expression).code, STATUS_OK)

struct fixture_append {
    uint32_t number; /* what its body is made of */
    uint32_t size;
    uint64_t lsn;
};

struct fixture {
    struct sim *sim;
    struct sim_node *node;
    struct sim_options sim_options;
    struct journal_options options;
    uint32_t chunk_size;
    uint32_t chunk_count;
    struct chunk_pool chunks;
    struct journal *journal;
    struct io_hook hook;        /* steps the journal, as the log does */
    struct journal_start start; /* as in the newest synced checkpoint */
    struct fixture_append *appends;
    uint32_t append_count;
    uint32_t next_number; /* never used twice, whatever is cut */
    uint64_t synced_lsn;  /* as reported */
    uint32_t synced_calls, room_calls, failed_calls, seal_calls;
    uint32_t replayed; /* index of the next append that replay must show */
    uint64_t replay_stop_lsn;
};

/* ---------------------------------------------------------------- callbacks */

static inline void fixture_on_evict(void *context)
{
    struct fixture *f = context;
    LIST_FOREACH_SAFE (node, &f->chunks.used) {
        struct chunk *chunk = CONTAINER_OF(node, struct chunk, link);
        if (chunk->refs == 0) {
            chunk_give(&f->chunks, chunk);
        }
    }
}

static inline void fixture_on_synced(void *context, uint64_t lsn)
{
    struct fixture *f = context;
    assert_true(lsn > f->synced_lsn);
    f->synced_lsn = lsn;
    f->synced_calls++;
}

static inline void fixture_on_seal(void *context, uint64_t *committed_lsn, int64_t *metadata_offset)
{
    struct fixture *f = context;
    *committed_lsn = f->synced_lsn;
    *metadata_offset = (int64_t)f->synced_lsn * 3 - 1;
    f->seal_calls++;
}

static inline void fixture_on_room(void *context)
{
    ((struct fixture *)context)->room_calls++;
}

static inline void fixture_on_failed(void *context, status why)
{
    assert_int_not_equal(why.code, STATUS_OK);
    ((struct fixture *)context)->failed_calls++;
}

/* ---------------------------------------------------------------- bodies */

static inline void fixture_body_fill(uint8_t *body, uint32_t number, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        body[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
    }
    if (size >= 4) {
        store_le32(body, number);
    }
}

static inline bool fixture_body_is(struct bytes body, uint32_t number, uint32_t size)
{
    if (body.size != size) {
        return false;
    }
    uint8_t *wanted = malloc(size + 1);
    fixture_body_fill(wanted, number, size);
    bool is_same = memcmp(wanted, body.data, size) == 0;
    free(wanted);
    return is_same;
}

/* ---------------------------------------------------------------- lives */

static inline struct fixture *fixture_create(uint64_t seed, uint64_t file_size, uint32_t file_count)
{
    trace_set_level(getenv("TEST_TRACE") != NULL ? TRACE_DEBUG : TRACE_ERROR);
    struct fixture *f = calloc(1, sizeof(*f));
    f->sim_options = (struct sim_options){.disk_write_us_min = 50, .disk_write_us_max = 400};
    f->sim = sim_create(seed, &f->sim_options);
    f->node = sim_node_add(f->sim, "10.0.0.1");
    f->appends = calloc(FIXTURE_APPENDS_MAX, sizeof(f->appends[0]));
    f->next_number = 1;
    f->chunk_size = 256 * KIB;
    f->chunk_count = 16;
    f->options = (struct journal_options){
        .dir = FIXTURE_DIR,
        .directory_id = {{1, 2, 3, 4, 5, 6, 7, 8, 9}},
        .shard = 3,
        .file_size = file_size,
        .file_count = file_count,
        .frame_size_max = 32 * KIB,
        .writes_in_flight = 4,
        .gather_size = 4096,
        .evict = fixture_on_evict,
        .on_synced = fixture_on_synced,
        .on_seal = fixture_on_seal,
        .on_room = fixture_on_room,
        .on_failed = fixture_on_failed,
    };
    struct io_disk *disk = sim_node_disk(f->node);
    fixture_ok(io_dir_create(disk, FIXTURE_DIR));
    fixture_ok(io_dir_sync(disk, "."));
    fixture_ok(journal_format(disk, FIXTURE_DIR, &f->options.directory_id, f->options.shard,
                              file_size, file_count));
    f->start = (struct journal_start){.lsn = 1};
    return f;
}

static inline status fixture_on_frame(void *context, const struct journal_frame *frame)
{
    struct fixture *f = context;
    if (frame->lsn == f->replay_stop_lsn) {
        return STATUS(CANCELLED);
    }
    assert_true(frame->committed_lsn < frame->lsn);
    assert_int_equal(frame->metadata_offset, (int64_t)frame->committed_lsn * 3 - 1);
    struct bytes entries = frame->entries;
    struct journal_entry entry;
    bool malformed = true;
    uint32_t count = 0;
    while (journal_entry_next(&entries, &entry, &malformed)) {
        assert_true(f->replayed < f->append_count);
        const struct fixture_append *append = &f->appends[f->replayed++];
        assert_int_equal(append->lsn, frame->lsn);
        assert_true(fixture_body_is(entry.body, append->number, append->size));
        assert_int_equal(entry.offset, (int64_t)append->number * 5);
        assert_int_equal(entry.partition, (int32_t)(append->number % 7));
        assert_int_equal(entry.topic_id.bytes[0], append->number % 251);
        count++;
    }
    assert_false(malformed);
    assert_int_equal(count, frame->entry_count);
    return OK;
}

/* Opens and replays from the checkpoint; the memory is cut to what was found. */
static inline status fixture_recover(struct fixture *f)
{
    chunk_pool_init(&f->chunks, f->chunk_size, f->chunk_count);
    f->options.io = sim_node_io(f->node);
    f->options.chunks = &f->chunks;
    f->options.context = f;
    f->journal = NULL;
    TRY(journal_open(&f->options, &f->journal));
    f->replayed = 0;
    while (f->replayed < f->append_count && f->appends[f->replayed].lsn < f->start.lsn) {
        f->replayed++;
    }
    status result = journal_replay(f->journal, &f->start, fixture_on_frame, f);
    if (status_is_ok(result) || result.code == STATUS_CANCELLED) {
        f->append_count = f->replayed;
        f->synced_lsn = journal_synced_lsn(f->journal);
    }
    return result;
}

static inline void fixture_on_turn(struct io_hook *hook)
{
    journal_step(((struct fixture *)hook->context)->journal);
}

/* Begins a generation, with a checkpoint that moves up when the list is full. */
static inline void fixture_begin(struct fixture *f)
{
    if (!journal_start_extend(f->journal, &f->start)) {
        journal_start_at(f->journal, journal_next_lsn(f->journal), &f->start);
        journal_start_prune(&f->start);
        journal_recycle(f->journal, f->start.lsn);
        assert_true(journal_start_extend(f->journal, &f->start));
    }
    journal_begin(f->journal, 7, &f->start);
    f->hook = (struct io_hook){.fn = fixture_on_turn, .context = f};
    io_hook_add(f->options.io, &f->hook);
}

static inline void fixture_start(struct fixture *f)
{
    fixture_ok(fixture_recover(f));
    fixture_begin(f);
}

/* Ends a life; the node is up again afterwards, the journal is not. */
static inline void fixture_crash(struct fixture *f, bool process_only)
{
    sim_node_crash(f->node, process_only);
    if (f->journal != NULL) {
        journal_destroy(f->journal, true);
    }
    f->journal = NULL;
    f->hook = (struct io_hook){0};
    chunk_pool_fini(&f->chunks);
    (void)sim_node_start(f->node);
}

/* Closes in peace what is idle. */
static inline void fixture_stop(struct fixture *f)
{
    if (f->journal != NULL) {
        journal_destroy(f->journal, false);
    }
    if (list_node_is_linked(&f->hook.link)) {
        io_hook_remove(f->options.io, &f->hook);
    }
    f->journal = NULL;
    chunk_pool_fini(&f->chunks);
}

static inline void fixture_destroy(struct fixture *f)
{
    fixture_crash(f, false);
    sim_destroy(f->sim);
    free(f->appends);
    free(f);
}

/* ---------------------------------------------------------------- use */

static inline status fixture_append(struct fixture *f, uint32_t size, bool control)
{
    uint8_t *body = malloc(size + 1);
    uint32_t number = f->next_number;
    fixture_body_fill(body, number, size);
    struct journal_entry entry = {
        .type = JOURNAL_BATCH,
        .topic_id = {{(uint8_t)(number % 251)}},
        .partition = (int32_t)(number % 7),
        .offset = (int64_t)number * 5,
        .body = {body, size},
    };
    struct journal_place place;
    status result = journal_append(f->journal, &entry, control, &place);
    free(body);
    if (status_is_ok(result)) {
        assert_true(f->append_count < FIXTURE_APPENDS_MAX);
        assert_true(fixture_body_is((struct bytes){place.body, size}, number, size));
        f->next_number++;
        f->appends[f->append_count++] = (struct fixture_append){number, size, place.lsn};
    }
    return result;
}

/* Appends one and waits until it is synced: a frame of its own when nothing is in flight. */
static inline uint64_t fixture_append_synced(struct fixture *f, uint32_t size)
{
    fixture_ok(fixture_append(f, size, false));
    uint64_t lsn = f->appends[f->append_count - 1].lsn;
    sim_node_kick(f->node);
    while (f->synced_lsn < lsn) {
        assert_true(sim_step(f->sim));
    }
    return lsn;
}

static inline void fixture_drain(struct fixture *f)
{
    sim_node_kick(f->node);
    while (!journal_is_idle(f->journal)) {
        assert_true(sim_step(f->sim));
    }
}

/* As a checkpoint that covers everything below `lsn` does. */
static inline void fixture_checkpoint(struct fixture *f, uint64_t lsn)
{
    journal_start_at(f->journal, lsn, &f->start);
    journal_start_prune(&f->start);
    journal_recycle(f->journal, lsn);
}

/* Where a live frame stands: the file's path and the position in it. */
static inline uint64_t fixture_place(struct fixture *f, uint64_t lsn, char path[64])
{
    struct journal_start at;
    journal_start_at(f->journal, lsn, &at);
    snprintf(path, 64, "%s/journal.%u.%u", FIXTURE_DIR, f->options.shard,
             (unsigned)(at.position / f->options.file_size));
    return at.position % f->options.file_size;
}

/* Reads or overwrites bytes of a file while the node is down, durably. */
static inline void fixture_file_read(struct fixture *f, const char *path, uint64_t position,
                                     void *data, size_t size)
{
    struct io_file *file = NULL;
    size_t got = 0;
    fixture_ok(io_file_open(sim_node_disk(f->node), path, IO_FILE_READ, &file));
    fixture_ok(io_file_read(file, data, size, position, &got));
    assert_int_equal(got, size);
    io_file_close(file);
}

static inline void fixture_file_write(struct fixture *f, const char *path, uint64_t position,
                                      const void *data, size_t size)
{
    struct io_file *file = NULL;
    fixture_ok(io_file_open(sim_node_disk(f->node), path, IO_FILE_WRITE, &file));
    fixture_ok(io_file_write(file, data, size, position));
    fixture_ok(io_file_sync(file));
    io_file_close(file);
}

#endif
