/* The building and writing side of the journal: src/log/journal.c. */
#include "test_journal_fixture.h"

static void entries_come_back_in_order_and_whole(void **state)
{
    struct fixture *f = fixture_create(1, 256 * KIB, 4);
    fixture_start(f);
    static const uint32_t sizes[] = {0, 1, 7, 8, 9, 63, 100, 511, 4000, 4096, 20000, 33, 0, 4};
    for (uint32_t round = 0; round < 8; round++) {
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            fixture_ok(fixture_append(f, sizes[i], false));
        }
        if (round % 2 == 0) {
            fixture_drain(f);
        }
    }
    fixture_drain(f);
    assert_int_equal(f->synced_lsn, journal_next_lsn(f->journal) - 1);
    uint32_t count = f->append_count;
    fixture_stop(f);
    fixture_start(f);
    assert_int_equal(f->append_count, count);
    assert_int_equal(f->start.generation_count, 2);
    fixture_destroy(f);
}

static void an_entry_keeps_its_type_and_what_is_stamped_into_it(void **state)
{
    uint8_t bytes[128];
    memset(bytes, 0xee, sizeof(bytes));
    struct journal_entry entry = {
        .type = JOURNAL_EPOCH,
        .topic_id = {{9, 8, 7}},
        .partition = -2,
        .offset = -9,
        .body = {(const uint8_t *)"\1\2\3\4", 4},
    };
    uint8_t *body = journal_entry_encode(bytes, &entry);
    body[0] = 0x55;
    assert_int_equal(journal_entry_size(4), 48);
    for (size_t i = 44; i < 48; i++) {
        assert_int_equal(bytes[i], 0);
    }
    assert_int_equal(bytes[48], 0xee);
    struct bytes entries = {bytes, 48};
    struct journal_entry back;
    bool malformed = true;
    assert_true(journal_entry_next(&entries, &back, &malformed));
    assert_int_equal(back.type, JOURNAL_EPOCH);
    assert_int_equal(back.partition, -2);
    assert_int_equal(back.offset, -9);
    assert_int_equal(back.body.size, 4);
    assert_int_equal(back.body.data[0], 0x55);
    assert_true(uuid_equal(&back.topic_id, &entry.topic_id));
    assert_false(journal_entry_next(&entries, &back, &malformed));
    assert_false(malformed);
}

static void malformed_entries_are_told_from_the_end(void **state)
{
    static const struct {
        uint32_t at, value;
        uint32_t size;
    } rows[] = {
        {0, 47, 48},         {0, 56, 48},          {0, 0, 48},
        {28, 9, 48},         {28, UINT32_MAX, 48}, {28, UINT32_MAX - 40, 48},
        {0, UINT32_MAX, 48}, {4, 0, 48},           {4, 6, 48},
        {0, 48, 47},         {0, 48, 39},          {0, 48, 1},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t bytes[64] = {0};
        struct journal_entry entry = {.type = JOURNAL_BATCH, .body = {bytes, 3}};
        (void)journal_entry_encode(bytes, &entry);
        store_le32(bytes + rows[i].at, rows[i].value);
        struct bytes entries = {bytes, rows[i].size};
        struct journal_entry back;
        bool malformed = false;
        assert_false(journal_entry_next(&entries, &back, &malformed));
        assert_true(malformed);
    }
}

static void the_ring_wraps_many_times(void **state)
{
    struct fixture *f = fixture_create(2, 64 * KIB, 4);
    f->options.frame_size_max = 12 * KIB;
    fixture_start(f);
    uint64_t laps = 0;
    uint64_t last_position = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t size = (uint32_t)(sim_random(f->sim) % 3000);
        fixture_ok(fixture_append(f, size, false));
        if (sim_random(f->sim) % 3 == 0) {
            fixture_drain(f);
            uint64_t back = sim_random(f->sim) % 4;
            uint64_t lsn =
                f->synced_lsn + 1 > f->start.lsn + back ? f->synced_lsn + 1 - back : f->start.lsn;
            fixture_checkpoint(f, lsn);
            laps += f->start.position < last_position ? 1 : 0;
            last_position = f->start.position;
        }
        if (sim_random(f->sim) % 50 == 0) {
            fixture_drain(f);
            uint32_t count = f->append_count;
            fixture_stop(f);
            fixture_start(f);
            assert_int_equal(f->append_count, count);
        }
    }
    assert_true(laps > 10);
    fixture_destroy(f);
}

static void a_frame_that_does_not_fit_moves_to_the_next_file(void **state)
{
    struct fixture *f = fixture_create(3, 64 * KIB, 4);
    fixture_start(f);
    char path[64];
    /* 4 KiB of header and 12 frames of 4 KiB leave 12 KiB in the first file. */
    for (uint32_t i = 0; i < 12; i++) {
        (void)fixture_append_synced(f, 100);
    }
    uint64_t live = journal_live_size(f->journal);
    uint64_t moved = fixture_append_synced(f, 12 * KIB);
    assert_int_equal(fixture_place(f, moved, path), 4096);
    assert_string_equal(path, "log/journal.3.1");
    /* The gap and the next header block are live too. */
    assert_int_equal(journal_live_size(f->journal), live + 12 * KIB + 4096 + 16 * KIB);
    /* One that just fills the file ends it, and its successor starts the next. */
    uint64_t filling = fixture_append_synced(f, 44 * KIB - 128 - 40);
    assert_int_equal(fixture_place(f, filling, path), 20 * KIB);
    uint64_t next = fixture_append_synced(f, 1);
    assert_int_equal(fixture_place(f, next, path), 4096);
    assert_string_equal(path, "log/journal.3.2");
    uint32_t count = f->append_count;
    fixture_stop(f);
    fixture_start(f);
    assert_int_equal(f->append_count, count);
    fixture_destroy(f);
}

static void a_frame_closes_at_its_size_and_a_larger_entry_gets_one_alone(void **state)
{
    struct fixture *f = fixture_create(4, 4096 * KIB, 2);
    f->chunk_size = 64 * KIB;
    f->chunk_count = 32;
    fixture_start(f);
    /* Two entries of 15,000 B fit in 32 KiB, three do not. */
    static const struct {
        uint32_t size;
        uint64_t lsn;
    } rows[] = {
        {15000, 1}, {15000, 1}, {15000, 2},          {40000, 3}, {10, 4},
        {10, 4},    {60000, 5}, {1024 * KIB + 1, 6}, {10, 7},    {70000, 8},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fixture_ok(fixture_append(f, rows[i].size, false));
        assert_int_equal(f->appends[i].lsn, rows[i].lsn);
    }
    fixture_drain(f);
    fixture_on_evict(f);
    assert_true(f->chunks.count <= f->chunks.count_max);
    fixture_stop(f);
    fixture_start(f);
    assert_int_equal(f->append_count, COUNT_OF(rows));
    fixture_destroy(f);
}

static void padding_shows_nothing_of_what_a_chunk_held_before(void **state)
{
    struct fixture *f = fixture_create(14, 256 * KIB, 4);
    f->chunk_size = 8 * KIB;
    f->chunk_count = 1;
    fixture_start(f);
    (void)fixture_append_synced(f, 7000);
    assert_true(journal_has_room(f->journal, 1000));
    uint64_t lsn = fixture_append_synced(f, 1001);
    char path[64];
    uint64_t position = fixture_place(f, lsn, path);
    uint8_t block[JOURNAL_BLOCK_SIZE];
    fixture_file_read(f, path, position, block, sizeof(block));
    for (size_t i = JOURNAL_FRAME_HEADER_SIZE + 40 + 1001; i < sizeof(block); i++) {
        assert_int_equal(block[i], 0);
    }
    fixture_destroy(f);
}

static void what_can_never_fit_is_too_large(void **state)
{
    struct fixture *f = fixture_create(5, 256 * KIB, 2);
    fixture_start(f);
    uint32_t size = 0;
    while (fixture_append(f, size + 1024, false).code != STATUS_TOO_LARGE) {
        size += 1024;
        fixture_drain(f);
        fixture_checkpoint(f, f->synced_lsn + 1);
        /* Whatever is not too large fits in an empty ring, wherever its head is. */
        assert_true(journal_has_room(f->journal, size));
    }
    assert_true(size >= 128 * KIB);
    assert_false(journal_has_room(f->journal, size + 1024));
    assert_int_equal(fixture_append(f, FIXTURE_BODY_MAX, true).code, STATUS_TOO_LARGE);
    fixture_destroy(f);
}

static void a_full_ring_refuses_until_it_is_recycled(void **state)
{
    struct fixture *f = fixture_create(6, 128 * KIB, 4);
    fixture_start(f);
    while (status_is_ok(fixture_append(f, 3000, false))) {
        fixture_drain(f);
    }
    assert_false(journal_has_room(f->journal, 3000));
    assert_int_equal(fixture_append(f, 3000, false).code, STATUS_FULL);
    assert_true(journal_live_size(f->journal) <= journal_size(f->journal));
    /* Control entries still have a reserve. */
    uint32_t reserve_count = 0;
    while (status_is_ok(fixture_append(f, 3000, true))) {
        fixture_drain(f);
        reserve_count++;
    }
    assert_true(reserve_count * 4096ull >= 64 * KIB);
    assert_true(journal_live_size(f->journal) <= journal_size(f->journal));
    /* Nothing is promised while nothing has changed. */
    sim_node_kick(f->node);
    sim_run(f->sim, FIXTURE_SECOND_NS);
    assert_int_equal(f->room_calls, 0);
    fixture_checkpoint(f, f->synced_lsn + 1);
    sim_node_kick(f->node);
    sim_run(f->sim, FIXTURE_SECOND_NS);
    assert_int_equal(f->room_calls, 1);
    assert_true(journal_has_room(f->journal, 3000));
    (void)fixture_append_synced(f, 3000);
    uint32_t count = f->append_count;
    fixture_stop(f);
    fixture_recover(f);
    assert_int_equal(f->append_count, count);
    fixture_destroy(f);
}

static void chunks_at_their_bound_refuse_until_one_is_free(void **state)
{
    struct fixture *f = fixture_create(7, 1024 * KIB, 4);
    f->chunk_size = 64 * KIB;
    f->chunk_count = 2;
    fixture_start(f);
    uint32_t count = 0;
    while (journal_has_room(f->journal, 20000)) {
        fixture_ok(fixture_append(f, 20000, false));
        count++;
    }
    assert_int_equal(fixture_append(f, 20000, false).code, STATUS_FULL);
    assert_true(count >= 4);
    assert_int_equal(f->room_calls, 0);
    fixture_drain(f);
    sim_run(f->sim, FIXTURE_SECOND_NS);
    assert_int_equal(f->room_calls, 1);
    (void)fixture_append_synced(f, 20000);
    /* A batch above the whole bound is admitted alone, once nothing else is in use. */
    fixture_drain(f);
    assert_true(journal_has_room(f->journal, 300000));
    (void)fixture_append_synced(f, 300000);
    fixture_destroy(f);
}

static void room_that_was_promised_is_there(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fixture *f = fixture_create(seed, 64 * KIB, 4);
        f->options.frame_size_max = 16 * KIB;
        f->chunk_size = 32 * KIB;
        f->chunk_count = 2 + (uint32_t)(seed % 4);
        fixture_start(f);
        uint32_t refused = 0;
        for (uint32_t i = 0; i < 600; i++) {
            uint64_t dice = sim_random(f->sim);
            uint32_t size = (uint32_t)(dice % (dice % 5 == 0 ? 40000 : 600));
            if (journal_has_room(f->journal, size)) {
                fixture_ok(fixture_append(f, size, false));
            } else {
                refused++;
                fixture_drain(f);
                fixture_checkpoint(f, f->synced_lsn + 1);
                assert_true(journal_has_room(f->journal, size));
            }
            if (dice % 4 == 0) {
                journal_step(f->journal);
            }
            if (dice % 3 == 0) {
                (void)sim_step(f->sim);
            }
            journal_check(f->journal);
        }
        assert_true(refused > 0);
        fixture_destroy(f);
    }
}

static void an_idle_device_writes_at_once_and_a_busy_one_gathers(void **state)
{
    struct fixture *f = fixture_create(8, 1024 * KIB, 4);
    f->options.gather_size = 16 * KIB;
    fixture_start(f);
    uint64_t frames, bytes, syncs;
    fixture_ok(fixture_append(f, 100, false));
    journal_step(f->journal);
    journal_counts(f->journal, &frames, &bytes, &syncs);
    assert_int_equal(frames, 1);
    assert_int_equal(bytes, 4096);
    assert_int_equal(syncs, 0);
    /* Small ones gather behind the write in flight ... */
    for (uint32_t i = 0; i < 100; i++) {
        fixture_ok(fixture_append(f, 50, false));
        journal_step(f->journal);
    }
    journal_counts(f->journal, &frames, &bytes, &syncs);
    assert_int_equal(frames, 1);
    /* ... until it is worth a write of its own. */
    fixture_ok(fixture_append(f, 10000, false));
    journal_step(f->journal);
    journal_counts(f->journal, &frames, &bytes, &syncs);
    assert_int_equal(frames, 2);
    /* Never more than the bound, however much there is. */
    for (uint32_t i = 0; i < 20; i++) {
        fixture_ok(fixture_append(f, 20000, false));
        journal_step(f->journal);
    }
    journal_counts(f->journal, &frames, &bytes, &syncs);
    assert_int_equal(frames, 4);
    assert_int_equal(f->synced_lsn, 0);
    fixture_drain(f);
    journal_counts(f->journal, &frames, &bytes, &syncs);
    assert_int_equal(frames, syncs);
    assert_int_equal(f->synced_lsn, f->appends[f->append_count - 1].lsn);
    assert_int_equal(f->seal_calls, frames);
    fixture_destroy(f);
}

static void the_more_is_in_flight_the_more_a_further_write_carries(void **state)
{
    struct fixture *f = fixture_create(10, 1024 * KIB, 8);
    f->options.gather_size = 4 * KIB;
    f->options.writes_in_flight = 8;
    fixture_start(f);
    uint64_t frames, bytes, syncs;
    fixture_ok(fixture_append(f, 30 * KIB, false));
    journal_step(f->journal);
    /* Enough for a write of its own behind a small one, but not behind this. */
    fixture_ok(fixture_append(f, 6 * KIB, false));
    journal_step(f->journal);
    journal_counts(f->journal, &frames, &bytes, &syncs);
    assert_int_equal(frames, 1);
    fixture_ok(fixture_append(f, 20 * KIB, false));
    journal_step(f->journal);
    journal_counts(f->journal, &frames, &bytes, &syncs);
    assert_int_equal(frames, 2);
    /* What waits goes as soon as nothing is under way. */
    fixture_ok(fixture_append(f, 100, false));
    journal_step(f->journal);
    fixture_drain(f);
    assert_int_equal(f->synced_lsn, f->appends[f->append_count - 1].lsn);
    fixture_destroy(f);
}

static void a_failed_write_takes_the_journal_offline_once(void **state)
{
    struct fixture *f = fixture_create(9, 1024 * KIB, 4);
    fixture_start(f);
    uint64_t lsn = fixture_append_synced(f, 100);
    struct sim_options failing = f->sim_options;
    failing.write_error_chance = 10000;
    sim_set_options(f->sim, &failing);
    for (uint32_t i = 0; i < 12; i++) {
        fixture_ok(fixture_append(f, 20000, false));
        journal_step(f->journal);
    }
    sim_run(f->sim, FIXTURE_SECOND_NS);
    assert_int_equal(f->failed_calls, 1);
    sim_set_options(f->sim, &f->sim_options);
    sim_node_kick(f->node);
    sim_run(f->sim, FIXTURE_SECOND_NS);
    assert_int_equal(f->failed_calls, 1);
    assert_int_equal(f->synced_lsn, lsn);
    assert_int_equal(journal_synced_lsn(f->journal), lsn);
    assert_int_equal(fixture_append(f, 100, false).code, STATUS_OFFLINE);
    assert_false(journal_has_room(f->journal, 100));
    assert_true(journal_is_idle(f->journal));
    fixture_stop(f);
    fixture_ok(fixture_recover(f));
    assert_true(f->append_count >= 1);
    fixture_destroy(f);
}

static void starts_name_every_live_frame(void **state)
{
    struct fixture *f = fixture_create(10, 256 * KIB, 4);
    fixture_start(f);
    for (uint32_t i = 0; i < 40; i++) {
        (void)fixture_append_synced(f, 2000 + i * 300);
    }
    struct journal_start first = f->start;
    uint32_t count = f->append_count;
    uint64_t live = journal_live_size(f->journal);
    for (uint64_t lsn = 1; lsn <= 41; lsn++) {
        fixture_checkpoint(f, lsn);
        assert_true(journal_live_size(f->journal) <= live);
        live = journal_live_size(f->journal);
        fixture_stop(f);
        fixture_ok(fixture_recover(f));
        assert_int_equal(f->append_count, count);
        assert_int_equal(journal_next_lsn(f->journal), 41);
    }
    assert_int_equal(live, 0);
    assert_int_equal(first.lsn, 1);
    fixture_destroy(f);
}

static void a_second_process_is_refused(void **state)
{
    struct fixture *f = fixture_create(11, 64 * KIB, 2);
    fixture_start(f);
    struct journal *second = NULL;
    assert_int_equal(journal_open(&f->options, &second).code, STATUS_BUSY);
    assert_null(second);
    assert_int_equal(journal_format(sim_node_disk(f->node), FIXTURE_DIR, &f->options.directory_id,
                                    f->options.shard, 64 * KIB, 2)
                         .code,
                     STATUS_BUSY);
    fixture_destroy(f);
}

static void files_that_are_not_ours_are_refused(void **state)
{
    struct fixture *f = fixture_create(12, 64 * KIB, 2);
    f->options.directory_id.bytes[5] ^= 1;
    assert_int_equal(fixture_recover(f).code, STATUS_MISMATCH);
    fixture_stop(f);
    f->options.directory_id.bytes[5] ^= 1;
    f->options.file_size = 128 * KIB;
    assert_int_equal(fixture_recover(f).code, STATUS_MISMATCH);
    fixture_stop(f);
    f->options.file_size = 64 * KIB;
    f->options.file_count = 1;
    assert_int_equal(fixture_recover(f).code, STATUS_MISMATCH);
    fixture_stop(f);
    f->options.file_count = 2;
    f->options.shard = 4;
    assert_int_equal(fixture_recover(f).code, STATUS_NOT_FOUND);
    fixture_stop(f);
    f->options.shard = 3;
    f->options.file_size = 100;
    assert_int_equal(fixture_recover(f).code, STATUS_INVALID);
    fixture_stop(f);
    f->options.file_size = 64 * KIB;
    fixture_file_write(f, "log/journal.3.1", 20, "x", 1);
    assert_int_equal(fixture_recover(f).code, STATUS_CORRUPT);
    fixture_destroy(f);
}

static void generations_are_pruned_extended_and_replaced(void **state)
{
    struct fixture *f = fixture_create(13, 64 * KIB, 2);
    fixture_start(f);
    (void)fixture_append_synced(f, 10);
    (void)fixture_append_synced(f, 10);
    struct journal_start start = f->start;
    assert_true(journal_start_extend(f->journal, &start));
    assert_int_equal(start.generation_count, 2);
    assert_int_equal(start.generations[1].first_lsn, 3);
    assert_true(journal_start_extend(f->journal, &start));
    assert_int_equal(start.generation_count, 2);
    assert_int_equal(start.generations[1].generation, 3);
    start.lsn = 2;
    journal_start_prune(&start);
    assert_int_equal(start.generation_count, 2);
    start.lsn = 3;
    journal_start_prune(&start);
    assert_int_equal(start.generation_count, 1);
    assert_int_equal(start.generations[0].generation, 3);
    start.generation_count = JOURNAL_GENERATION_MAX;
    for (uint32_t i = 0; i < JOURNAL_GENERATION_MAX; i++) {
        start.generations[i] = (struct journal_generation){i + 1, 1, 0};
    }
    assert_false(journal_start_extend(f->journal, &start));
    fixture_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_back_in_order_and_whole),
        cmocka_unit_test(an_entry_keeps_its_type_and_what_is_stamped_into_it),
        cmocka_unit_test(malformed_entries_are_told_from_the_end),
        cmocka_unit_test(the_ring_wraps_many_times),
        cmocka_unit_test(a_frame_that_does_not_fit_moves_to_the_next_file),
        cmocka_unit_test(a_frame_closes_at_its_size_and_a_larger_entry_gets_one_alone),
        cmocka_unit_test(padding_shows_nothing_of_what_a_chunk_held_before),
        cmocka_unit_test(what_can_never_fit_is_too_large),
        cmocka_unit_test(a_full_ring_refuses_until_it_is_recycled),
        cmocka_unit_test(chunks_at_their_bound_refuse_until_one_is_free),
        cmocka_unit_test(room_that_was_promised_is_there),
        cmocka_unit_test(an_idle_device_writes_at_once_and_a_busy_one_gathers),
        cmocka_unit_test(the_more_is_in_flight_the_more_a_further_write_carries),
        cmocka_unit_test(a_failed_write_takes_the_journal_offline_once),
        cmocka_unit_test(starts_name_every_live_frame),
        cmocka_unit_test(a_second_process_is_refused),
        cmocka_unit_test(files_that_are_not_ours_are_refused),
        cmocka_unit_test(generations_are_pruned_extended_and_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
