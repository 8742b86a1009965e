/* The scrub: whatever has rotted in segment files is found, told once, and stops nothing. */
#include <unistd.h>

#include "segment_files.h"
#include "test_log_world.h"

#define BATCHES    12u
#define LARGE_SIZE (5u << 19) /* two and a half windows */

struct fixture {
    char root[64];
    char dir[96];
    struct segment_tail tail;
    int64_t end_offset;
    uint8_t *buffer;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    snprintf(fixture->root, sizeof(fixture->root), "/tmp/twinlog-scrub-XXXXXX");
    assert_non_null(mkdtemp(fixture->root));
    snprintf(fixture->dir, sizeof(fixture->dir), "%s/topic-0", fixture->root);
    fixture->tail = (struct segment_tail){-1, 0, 0, -1, -1, -1};
    fixture->buffer = aligned_alloc(CHUNK_ALIGNMENT, SCRUB_WINDOW_SIZE);
    assert_non_null(fixture->buffer);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    assert_ok(segment_remove_all(io_disk_real(), fixture->dir));
    assert_int_equal(rmdir(fixture->root), 0);
    free(fixture->buffer);
    free(fixture);
    return 0;
}

/* One batch of two records, the second of `size` bytes. */
static void fixture_append(struct fixture *fixture, uint32_t size)
{
    struct batch_builder builder;
    uint8_t *value = calloc(1, size);
    uint8_t *data = malloc(size + 1024u);
    struct uuid topic_id = uuid_from_random(1, 2);
    batch_builder_init(&builder, data, size + 1024u);
    assert_ok(batch_builder_add(&builder, 1000 + fixture->end_offset, BYTES_NULL, BYTES_NULL));
    assert_ok(batch_builder_add(&builder, 1000 + fixture->end_offset, BYTES_NULL,
                                (struct bytes){value, size}));
    struct bytes batch = batch_builder_finish(&builder, -1, -1, -1, 0);
    batch_stamp(data, fixture->end_offset, 4);
    struct segment_batch item = {batch.data, batch.size, false};
    struct segment_write write = {.dir = fixture->dir,
                                  .topic_id = &topic_id,
                                  .index_interval_size = 150,
                                  .batches = &item,
                                  .batch_count = 1,
                                  .tail = fixture->tail};
    assert_ok(segment_append(io_disk_real(), &write));
    fixture->tail = write.tail;
    fixture->end_offset += 2;
    free(write.created);
    free(value);
    free(data);
}

static void fixture_check(struct fixture *fixture, struct scrub_findings *findings)
{
    struct scrub_segment segment = {.disk = io_disk_real(),
                                    .dir = fixture->dir,
                                    .base_offset = 0,
                                    .end_offset = fixture->end_offset,
                                    .size = fixture->tail.size,
                                    .is_closed = true};
    struct scrub_cursor cursor = {0};
    *findings = (struct scrub_findings){0};
    for (int i = 0; i < 100 && !cursor.is_done; i++) {
        assert_ok(scrub_window(&segment, &cursor, fixture->buffer, findings));
    }
    assert_true(cursor.is_done);
}

/* Flips a bit, and flips it back when called again. */
static void bit_flip(const struct fixture *fixture, const char *suffix, uint64_t position)
{
    char path[SEGMENT_PATH_SIZE];
    struct io_file *file = NULL;
    uint8_t byte = 0;
    size_t got = 0;
    assert_ok(segment_path(path, fixture->dir, 0, suffix));
    assert_ok(io_file_open(io_disk_real(), path, IO_FILE_READ | IO_FILE_WRITE, &file));
    assert_ok(io_file_read(file, &byte, 1, position, &got));
    assert_int_equal(got, 1);
    byte ^= 1;
    assert_ok(io_file_write(file, &byte, 1, position));
    io_file_close(file);
}

static void a_flipped_bit_anywhere_in_a_segment_is_found(void **state)
{
    struct fixture *fixture = *state;
    struct scrub_findings findings;
    for (unsigned i = 0; i < BATCHES; i++) {
        fixture_append(fixture, 40 + i);
    }
    fixture_check(fixture, &findings);
    assert_int_equal(findings.count, 0);
    uint64_t batch = 0; /* where the one that is flipped begins */
    for (uint64_t at = 0; at < fixture->tail.size; at++) {
        struct batch_header header;
        char path[SEGMENT_PATH_SIZE];
        struct segment_cursor cursor;
        assert_ok(segment_path(path, fixture->dir, 0, ".log"));
        assert_ok(segment_cursor_open(&cursor, io_disk_real(), path, fixture->tail.size));
        assert_ok(segment_cursor_header(&cursor, batch, &header));
        segment_cursor_close(&cursor);
        batch = at - batch == header.size ? at : batch;
        bit_flip(fixture, ".log", at);
        fixture_check(fixture, &findings);
        bool is_epoch = at - batch >= 12 && at - batch < 16; /* Outside the CRC, and any will do. */
        if (is_epoch != (findings.count == 0)) {
            fail_msg("byte %d of a batch: %u findings", (int)(at - batch), findings.count);
        }
        bit_flip(fixture, ".log", at);
    }
    fixture_check(fixture, &findings);
    assert_int_equal(findings.count, 0);
}

static void indexes_that_disagree_with_their_segment_are_found(void **state)
{
    struct fixture *fixture = *state;
    struct scrub_findings findings;
    for (unsigned i = 0; i < BATCHES; i++) {
        fixture_append(fixture, 40 + i);
    }
    for (uint64_t at = 0; at < 2ull * SEGMENT_INDEX_ENTRY_SIZE; at++) {
        bit_flip(fixture, ".index", at);
        fixture_check(fixture, &findings);
        if (at % SEGMENT_INDEX_ENTRY_SIZE == 3) {
            /* The other record of the same batch is as good an entry. */
            assert_int_equal(findings.count, 0);
        } else {
            assert_int_equal(findings.count, 1);
            assert_string_equal(findings.damage[0].suffix, ".index");
        }
        bit_flip(fixture, ".index", at);
    }
    bit_flip(fixture, ".timeindex", 0); /* A timestamp far ahead of those that follow. */
    fixture_check(fixture, &findings);
    assert_int_equal(findings.count, 1);
    assert_string_equal(findings.damage[0].suffix, ".timeindex");
}

static void the_walk_goes_on_behind_a_header_that_makes_no_sense(void **state)
{
    struct fixture *fixture = *state;
    struct scrub_findings findings;
    for (unsigned i = 0; i < BATCHES; i++) {
        fixture_append(fixture, 40);
    }
    uint64_t size = fixture->tail.size / BATCHES;
    bit_flip(fixture, ".log", 2 * size + 16); /* the magic of one batch */
    bit_flip(fixture, ".log", 9 * size + 70); /* a record of another */
    fixture_check(fixture, &findings);
    assert_int_equal(findings.count, 2);
    assert_int_equal(findings.damage[0].position, 2 * size);
    assert_int_equal(findings.damage[0].first_offset, 4);
    assert_true(findings.damage[0].size < 4 * size);
    assert_int_equal(findings.damage[1].position, 9 * size);
    assert_int_equal(findings.damage[1].size, size);
    assert_int_equal(findings.damage[1].first_offset, 18);
    assert_int_equal(findings.damage[1].end_offset, 20);
}

static void a_batch_larger_than_a_window_is_summed_whole(void **state)
{
    struct fixture *fixture = *state;
    struct scrub_findings findings;
    fixture_append(fixture, 40);
    fixture_append(fixture, LARGE_SIZE);
    fixture_append(fixture, LARGE_SIZE);
    fixture_check(fixture, &findings);
    assert_int_equal(findings.count, 0);
    bit_flip(fixture, ".log", 2ull * SCRUB_WINDOW_SIZE + 77);
    fixture_check(fixture, &findings);
    assert_int_equal(findings.count, 1);
    assert_int_equal(findings.damage[0].first_offset, 2);
    bit_flip(fixture, ".log", 2ull * SCRUB_WINDOW_SIZE + 77);
    fixture->tail.size += 100;
    fixture_check(fixture, &findings);
    assert_int_equal(findings.count, 1);
    assert_string_equal(findings.damage[0].what, "the file is shorter than recorded");
    fixture->tail.size -= 200; /* As if the last batch were cut off. */
    fixture_check(fixture, &findings);
    assert_int_equal(findings.damage[0].first_offset, 4);
    fixture->tail.size += 100;
}

/* ---------------------------------------------------------------- the background */

static struct log_stats world_stats(struct world *world)
{
    struct log_stats stats;
    log_stats_get(world->log, &stats);
    return stats;
}

static struct world *world_with_segments(uint64_t seed)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(seed, &options, 4u << 20);
    world->options.scrub_interval_ms = 3600000;
    world->options.scrub_rate = 64u << 10;
    world->config.segment_size = 20000;
    world_open(world);
    for (int topic = 0; topic < 3; topic++) {
        world_add(world, topic, 0);
        for (int i = 0; i < 80; i++) {
            assert_ok(world_try_append(world, topic, 1, 1000, NULL));
            world_run_ms(world, 1);
        }
    }
    world_settle(world);
    return world;
}

static void world_rot(struct world *world, const char *path, uint64_t position)
{
    struct io_file *file = NULL;
    uint8_t byte = 0;
    size_t got = 0;
    assert_ok(io_file_open(io_disk(world->io), path, IO_FILE_READ | IO_FILE_WRITE, &file));
    assert_ok(io_file_read(file, &byte, 1, position, &got));
    byte ^= 64;
    assert_ok(io_file_write(file, &byte, 1, position));
    io_file_close(file);
}

static void a_pass_reads_everything_once_at_its_pace_and_rests(void **state)
{
    (void)state;
    struct world *world = world_with_segments(1);
    world_run_ms(world, SCRUB_FIRST_MS - 10000);
    assert_int_equal(world_stats(world).scrub_bytes, 0);
    world_run_ms(world, 9000);
    uint64_t size = 0;
    for (struct partition *p = world->log->partitions; p != NULL; p = p->hh.next) {
        size += p->written_size;
    }
    world_run_ms(world, 1500);
    assert_int_equal(world_stats(world).scrub_passes, 0);
    assert_true(world_stats(world).scrub_bytes > 0);
    world_run_ms(world, 60000);
    assert_int_equal(world_stats(world).scrub_passes, 1);
    assert_int_equal(world_stats(world).scrub_bytes, size);
    struct sim_coverage before;
    struct sim_coverage after;
    sim_coverage_get(world->sim, &before);
    world_run_ms(world, 3000000);
    sim_coverage_get(world->sim, &after);
    assert_int_equal(after.events, before.events);
    world_run_ms(world, 3600000);
    assert_int_equal(world_stats(world).scrub_passes, 2);
    assert_int_equal(world_stats(world).scrub_bytes, 2 * size);
    assert_int_equal(world_stats(world).scrub_damaged, 0);
    world_close(world);
    world_destroy(world);
}

static void damage_is_told_once_and_ends_no_pass(void **state)
{
    (void)state;
    struct world *world = world_with_segments(2);
    world_rot(world, WORLD_DIR "/topic0-0/00000000000000000000.log", 5000);
    world_rot(world, WORLD_DIR "/topic0-0/00000000000000000000.log", 9000);
    world_rot(world, WORLD_DIR "/topic1-0/00000000000000000000.index", 7);
    world_run_ms(world, SCRUB_FIRST_MS + 60000);
    assert_int_equal(world_stats(world).scrub_passes, 1);
    assert_int_equal(world_stats(world).scrub_damaged, 3);
    world_run_ms(world, 3700000);
    assert_int_equal(world_stats(world).scrub_passes, 2);
    assert_int_equal(world_stats(world).scrub_damaged, 3);
    assert_int_equal(world->offline_count, 0);
    world_wait_acked(world, world_append(world, 0));
    world_close(world);
    world_destroy(world);
}

static void partitions_come_and_go_during_a_pass(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world *world = world_with_segments(seed);
        world_run_ms(world, SCRUB_FIRST_MS - 10000);
        for (int i = 0; i < 12; i++) {
            world_run_ms(world, 200 + (int64_t)(seed * 37 % 500));
            if (world->topics[i % 4].partition != NULL) {
                world_remove(world, i % 4);
            } else {
                world_add(world, i % 4, i);
                assert_ok(world_try_append(world, i % 4, 1, 1000, NULL));
            }
        }
        if (seed % 4 == 0) {
            world_crash(world, true); /* With a job in flight, perhaps. */
            world_open(world);
        } else {
            world_run_ms(world, 60000);
            assert_int_equal(world_stats(world).scrub_passes, 1);
        }
        assert_int_equal(world_stats(world).scrub_damaged, 0);
        world_close(world);
        world_destroy(world);
    }
}

static void a_log_that_closes_does_not_wait_for_the_pass(void **state)
{
    (void)state;
    struct world *world = world_with_segments(3);
    world_run_ms(world, SCRUB_FIRST_MS);
    for (int i = 0; i < 2000 && world_stats(world).scrub_bytes == 0; i++) {
        world_run_ms(world, 1);
    }
    world_close(world);
    assert_ok(world->close_result);
    world_destroy(world);
}

int main(void)
{
    trace_set_level(TRACE_OFF);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_flipped_bit_anywhere_in_a_segment_is_found, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(indexes_that_disagree_with_their_segment_are_found, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_walk_goes_on_behind_a_header_that_makes_no_sense, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_batch_larger_than_a_window_is_summed_whole, setup,
                                        teardown),
        cmocka_unit_test(a_pass_reads_everything_once_at_its_pace_and_rests),
        cmocka_unit_test(damage_is_told_once_and_ends_no_pass),
        cmocka_unit_test(partitions_come_and_go_during_a_pass),
        cmocka_unit_test(a_log_that_closes_does_not_wait_for_the_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
