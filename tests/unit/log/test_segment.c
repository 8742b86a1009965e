#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "segment_files.h"
#include "twinlog/io/disk.h"

#define BATCH_MAX 400

struct fixture {
    char root[64];
    char dir[96];
    struct uuid topic_id;
    uint8_t *data[BATCH_MAX];
    struct segment_batch batches[BATCH_MAX];
    struct segment_tail tail;
};

/* Three records a batch; timestamps rise but for every seventh batch, which is late. */
static int64_t timestamp_of(int64_t offset)
{
    int64_t batch = offset / 3;
    return batch % 7 == 6 ? 500 + batch : 1000 + batch * 10 + offset % 3;
}

static void batch_make(struct fixture *fixture, unsigned index)
{
    struct batch_builder builder;
    uint8_t value[64] = {0};
    fixture->data[index] = malloc(1024);
    assert_non_null(fixture->data[index]);
    batch_builder_init(&builder, fixture->data[index], 1024);
    for (int i = 0; i < 3; i++) {
        int64_t timestamp = timestamp_of((int64_t)index * 3 + i);
        assert_true(status_is_ok(batch_builder_add(&builder, timestamp, BYTES_NULL,
                                                   (struct bytes){value, sizeof(value)})));
    }
    struct bytes batch = batch_builder_finish(&builder, -1, -1, -1, 0);
    batch_stamp(fixture->data[index], (int64_t)index * 3, 4);
    fixture->batches[index] = (struct segment_batch){batch.data, batch.size, false};
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    snprintf(fixture->root, sizeof(fixture->root), "/tmp/twinlog-segment-XXXXXX");
    assert_non_null(mkdtemp(fixture->root));
    snprintf(fixture->dir, sizeof(fixture->dir), "%s/topic-0", fixture->root);
    fixture->topic_id = uuid_from_random(1, 2);
    for (unsigned i = 0; i < BATCH_MAX; i++) {
        batch_make(fixture, i);
    }
    fixture->tail = (struct segment_tail){-1, 0, 0, -1, -1, -1};
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    assert_true(status_is_ok(segment_remove_all(io_disk_real(), fixture->dir)));
    assert_int_equal(rmdir(fixture->root), 0);
    for (unsigned i = 0; i < BATCH_MAX; i++) {
        free(fixture->data[i]);
    }
    free(fixture);
    return 0;
}

static uint32_t append(struct fixture *fixture, unsigned first, unsigned count)
{
    struct segment_write write = {.dir = fixture->dir,
                                  .topic_id = &fixture->topic_id,
                                  .index_interval_size = 1024,
                                  .batches = &fixture->batches[first],
                                  .batch_count = count,
                                  .tail = fixture->tail};
    status s = segment_append(io_disk_real(), &write);
    assert_string_equal(status_text(s), "ok");
    fixture->tail = write.tail;
    uint32_t created = write.created_count;
    free(write.created);
    return created;
}

static void check_read(struct fixture *fixture, int64_t offset, uint32_t size_max, bool whole)
{
    uint8_t *data = NULL;
    uint32_t size = 0;
    assert_true(status_is_ok(segment_read(io_disk_real(), fixture->dir, fixture->tail.base_offset,
                                          fixture->tail.size, offset, INT64_MAX, size_max, whole,
                                          &data, &size)));
    uint32_t batch_size = fixture->batches[0].size;
    uint32_t wanted = MAX(size_max / batch_size, whole ? 1u : 0u);
    int64_t first = offset / 3;
    int64_t last = (int64_t)(fixture->tail.size / batch_size) + fixture->tail.base_offset / 3;
    wanted = (uint32_t)MIN((int64_t)wanted, last - first);
    assert_int_equal(size, wanted * batch_size);
    for (uint32_t i = 0; i < wanted; i++) {
        assert_memory_equal(data + i * batch_size, fixture->data[first + i], batch_size);
    }
    free(data);
}

static void what_was_appended_is_read_from_any_offset(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(append(fixture, 0, 1), 1);
    assert_int_equal(append(fixture, 1, 150), 0);
    assert_int_equal(append(fixture, 151, BATCH_MAX - 151), 0);
    for (int64_t offset = 0; offset < BATCH_MAX * 3; offset += 7) {
        check_read(fixture, offset, 0, true);
        check_read(fixture, offset, 10, false);
        check_read(fixture, offset, 5000, false);
        check_read(fixture, offset, 1u << 20, true);
    }
    struct segment_hold hold;
    assert_true(status_is_ok(segment_hold_open(io_disk_real(), fixture->dir, 0, &hold)));
    assert_true(status_is_ok(segment_hold_sync(&hold)));
    segment_hold_close(&hold);
    segment_hold_close(&hold);
    assert_int_equal(segment_hold_open(io_disk_real(), fixture->dir, 77, &hold).code,
                     STATUS_NOT_FOUND);
    assert_null(hold.files[0]);
}

static void a_roll_starts_files_named_by_the_offset(void **state)
{
    struct fixture *fixture = *state;
    fixture->batches[100].roll = true;
    fixture->batches[200].roll = true;
    assert_int_equal(append(fixture, 0, 100), 1);
    assert_int_equal(append(fixture, 100, 200), 2);
    struct segment *segments = NULL;
    uint32_t count = 0;
    assert_true(status_is_ok(segment_list(io_disk_real(), fixture->dir, &segments, &count)));
    assert_int_equal(count, 3);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(segments[i].base_offset, i * 300);
        assert_int_equal(segments[i].size, 100 * fixture->batches[0].size);
    }
    free(segments);
    check_read(fixture, 650, 4000, true);
}

static void the_first_record_at_or_after_a_timestamp_is_found(void **state)
{
    struct fixture *fixture = *state;
    append(fixture, 0, BATCH_MAX);
    for (int64_t timestamp = 0; timestamp < 1000 + BATCH_MAX * 10 + 20; timestamp += 3) {
        int64_t expected = 0;
        while (expected < BATCH_MAX * 3 && timestamp_of(expected) < timestamp) {
            expected++;
        }
        int64_t offset = -1;
        int64_t found = -1;
        status s = segment_find_timestamp(io_disk_real(), fixture->dir, 0, fixture->tail.size, 0,
                                          timestamp, &offset, &found);
        if (expected == BATCH_MAX * 3) {
            assert_int_equal(s.code, STATUS_NOT_FOUND);
        } else {
            assert_true(status_is_ok(s));
            assert_int_equal(offset, expected);
            assert_int_equal(found, timestamp_of(expected));
        }
    }
}

static void a_cut_leaves_what_a_shorter_write_would_have(void **state)
{
    struct fixture *fixture = *state;
    fixture->batches[300].roll = true;
    append(fixture, 0, 200);
    struct segment_tail tail = fixture->tail;
    append(fixture, 200, 200);
    assert_int_equal(fixture->tail.base_offset, 900);
    assert_true(status_is_ok(segment_cut(io_disk_real(), fixture->dir, &tail)));
    fixture->tail = tail;
    check_read(fixture, 590, 1u << 20, true);
    fixture->batches[300].roll = false;
    append(fixture, 200, 200);
    for (int64_t offset = 0; offset < BATCH_MAX * 3; offset += 5) {
        check_read(fixture, offset, 3000, true);
    }
    FILE *out = fopen("/dev/null", "w");
    char path[SEGMENT_PATH_SIZE];
    static const char *const suffixes[] = {".log", ".index", ".timeindex"};
    for (unsigned i = 0; i < COUNT_OF(suffixes); i++) {
        assert_true(status_is_ok(segment_path(path, fixture->dir, 0, suffixes[i])));
        assert_true(status_is_ok(segment_dump(io_disk_real(), path, true, true, out)));
    }
    fclose(out);
}

static void leftovers_of_a_failed_write_do_not_count(void **state)
{
    struct fixture *fixture = *state;
    append(fixture, 0, 50);
    struct segment_tail tail = fixture->tail;
    append(fixture, 50, 100);
    fixture->tail = tail; /* as if that write had failed half way */
    append(fixture, 50, 10);
    struct segment *segments = NULL;
    uint32_t count = 0;
    assert_true(status_is_ok(segment_list(io_disk_real(), fixture->dir, &segments, &count)));
    assert_int_equal(segments[0].size, fixture->tail.size);
    free(segments);
    check_read(fixture, 170, 1u << 20, true);
}

static void damage_is_reported_and_not_returned(void **state)
{
    struct fixture *fixture = *state;
    char path[SEGMENT_PATH_SIZE];
    append(fixture, 0, 20);
    assert_true(status_is_ok(segment_path(path, fixture->dir, 0, ".log")));
    struct io_file *file = NULL;
    assert_true(status_is_ok(io_file_open(io_disk_real(), path, IO_FILE_WRITE, &file)));
    uint32_t size = fixture->batches[0].size;
    assert_true(status_is_ok(io_file_write(file, "x", 1, 5 * size + 70)));
    io_file_close(file);
    uint8_t *data = NULL;
    uint32_t got = 0;
    struct batch_header header;
    status s = segment_read(io_disk_real(), fixture->dir, 0, fixture->tail.size, 0, INT64_MAX,
                            1u << 20, true, &data, &got);
    assert_true(status_is_ok(s)); /* What is in front of the damage. */
    assert_int_equal(got, 5 * size);
    assert_true(status_is_ok(batch_header_read((struct bytes){data + 4 * size, size}, &header)));
    free(data);
    s = segment_read(io_disk_real(), fixture->dir, 0, fixture->tail.size,
                     header.base_offset + header.last_offset_delta + 1, INT64_MAX, 1u << 20, true,
                     &data, &got);
    assert_int_equal(s.code, STATUS_CORRUPT);
    assert_null(data);
    struct segment_tail longer = fixture->tail;
    longer.size += 10;
    assert_int_equal(segment_cut(io_disk_real(), fixture->dir, &longer).code, STATUS_CORRUPT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static status read_code(const struct fixture *fixture, int64_t offset, int64_t offset_max)
{
    uint8_t *data = NULL;
    uint32_t size = 0;
    status s = segment_read(io_disk_real(), fixture->dir, 0, fixture->tail.size, offset, offset_max,
                            1u << 20, true, &data, &size);
    free(data);
    return s;
}

static void offsets_that_are_missing_are_damage_and_are_not_stepped_over(void **state)
{
    struct fixture *fixture = *state;
    append(fixture, 0, 3);
    assert_int_equal(read_code(fixture, 3, 9).code, STATUS_OK);
    /* The segment is said to go on to 12, but its last batch ends at 9. */
    assert_int_equal(read_code(fixture, 9, 12).code, STATUS_CORRUPT);
    /* The base offset of the second batch rots from 3 to 5: its CRC does not cover it. */
    char path[512];
    uint8_t base_offset[8];
    struct io_file *file = NULL;
    snprintf(path, sizeof(path), "%s/%020d.log", fixture->dir, 0);
    assert_true(status_is_ok(io_file_open(io_disk_real(), path, IO_FILE_WRITE, &file)));
    store_be64(base_offset, 5);
    assert_true(status_is_ok(
        io_file_write(file, base_offset, sizeof(base_offset), fixture->batches[0].size)));
    io_file_close(file);
    assert_int_equal(read_code(fixture, 3, 9).code, STATUS_CORRUPT);
    assert_int_equal(read_code(fixture, 0, 9).code, STATUS_OK); /* What lies in front is given. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_appended_is_read_from_any_offset),
        TEST(a_roll_starts_files_named_by_the_offset),
        TEST(the_first_record_at_or_after_a_timestamp_is_found),
        TEST(a_cut_leaves_what_a_shorter_write_would_have),
        TEST(leftovers_of_a_failed_write_do_not_count),
        TEST(damage_is_reported_and_not_returned),
        TEST(offsets_that_are_missing_are_damage_and_are_not_stepped_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
