/* Reading back after crashes, rot and cuts: src/log/journal_replay.c. */
#include "test_journal_fixture.h"
#include "twinlog/core/crc32c.h"

/* Overwrites sectors [from, to) of a frame with `fill`. */
static void sectors_fill(struct fixture *f, uint64_t lsn, uint32_t from, uint32_t to, int fill)
{
    char path[64];
    uint64_t position = fixture_place(f, lsn, path);
    uint8_t sector[512];
    memset(sector, fill, sizeof(sector));
    for (uint32_t i = from; i < to; i++) {
        fixture_file_write(f, path, position + i * 512ull, sector, sizeof(sector));
    }
}

static void a_tail_torn_at_any_sector_is_cut(void **state)
{
    enum { SIZE = 9000, SECTORS = 18 }; /* (128 + 40 + 9000) / 512, rounded up */
    for (uint32_t mode = 0; mode < 3; mode++) {
        for (uint32_t sector = 0; sector < SECTORS; sector++) {
            struct fixture *f = fixture_create(sector + 1, 128 * KIB, 4);
            fixture_start(f);
            for (uint32_t i = 0; i < 5; i++) {
                (void)fixture_append_synced(f, 500);
            }
            uint64_t torn = fixture_append_synced(f, SIZE);
            /* Written up to the sector, without it alone, or from it on. */
            uint32_t from = mode == 2 ? 0 : sector;
            uint32_t to = mode == 0 ? SECTORS : sector + 1;
            sectors_fill(f, torn, from, to, mode == 1 ? 0xa5 : 0);
            fixture_crash(f, false);
            fixture_start(f);
            assert_int_equal(f->append_count, 5);
            assert_int_equal(journal_next_lsn(f->journal), torn);
            /* The number is used again, under a new generation. */
            assert_int_equal(fixture_append_synced(f, 100), torn);
            fixture_crash(f, false);
            fixture_start(f);
            assert_int_equal(f->append_count, 6);
            fixture_destroy(f);
        }
    }
}

/* Leaves LSN 1..6 with the fifth lost, as if both had been in flight at the crash. */
static struct fixture *hole_before_the_last(uint64_t seed)
{
    struct fixture *f = fixture_create(seed, 128 * KIB, 4);
    fixture_start(f);
    for (uint32_t i = 0; i < 4; i++) {
        (void)fixture_append_synced(f, 5000);
    }
    for (uint32_t i = 0; i < 2; i++) {
        fixture_ok(fixture_append(f, 5000, false));
        journal_step(f->journal);
    }
    fixture_drain(f);
    assert_int_equal(f->synced_lsn, 6);
    sectors_fill(f, 5, 0, 1, 0);
    fixture_crash(f, false);
    return f;
}

static void a_frame_behind_a_hole_never_comes_back(void **state)
{
    struct fixture *f = hole_before_the_last(1);
    fixture_start(f);
    assert_int_equal(f->append_count, 4);
    assert_int_equal(journal_next_lsn(f->journal), 5);
    /* A new fifth of the old one's size: the old sixth stands right behind it, intact. */
    assert_int_equal(fixture_append_synced(f, 5000), 5);
    fixture_crash(f, false);
    fixture_start(f);
    assert_int_equal(f->append_count, 5);
    assert_int_equal(journal_next_lsn(f->journal), 6);
    fixture_destroy(f);
}

static void the_same_frame_again_is_still_a_new_generation(void **state)
{
    /*
     * The new fifth is, byte for byte, the replicated part of the lost one, so the old sixth even
     * chains to it. Only its generation tells that it was cut.
     */
    struct fixture *f = hole_before_the_last(2);
    uint32_t number = f->appends[4].number;
    fixture_start(f);
    uint32_t next_number = f->next_number;
    f->next_number = number;
    assert_int_equal(fixture_append_synced(f, 5000), 5);
    f->next_number = next_number;
    fixture_crash(f, false);
    fixture_start(f);
    assert_int_equal(f->append_count, 5);
    assert_int_equal(journal_next_lsn(f->journal), 6);
    fixture_destroy(f);
}

static void rot_before_a_frame_that_proves_it_synced_is_corruption(void **state)
{
    static const struct {
        uint64_t lsn;
        uint32_t sector; /* header, body */
        bool last_torn;  /* and the proof is a frame that was itself torn behind its header */
    } rows[] = {{1, 0, false}, {1, 2, false}, {7, 0, false}, {8, 3, false},
                {9, 0, false}, {9, 5, false}, {9, 0, true},  {3, 1, true}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct fixture *f = fixture_create(i + 1, 128 * KIB, 4);
        fixture_start(f);
        for (uint32_t k = 0; k < 10; k++) {
            (void)fixture_append_synced(f, 5000);
        }
        char path[64];
        uint64_t position = fixture_place(f, rows[i].lsn, path);
        fixture_ok(sim_disk_rot(f->node, path, position + rows[i].sector * 512ull + 100, 1));
        if (rows[i].last_torn) {
            sectors_fill(f, 10, 1, 10, 0);
        }
        fixture_crash(f, false);
        assert_int_equal(fixture_recover(f).code, STATUS_CORRUPT);
        fixture_destroy(f);
    }
}

static void rot_is_found_out_across_the_wrap_and_file_ends(void **state)
{
    for (uint64_t lsn = 101; lsn < 130; lsn++) {
        struct fixture *f = fixture_create(lsn, 64 * KIB, 4);
        f->options.frame_size_max = 12 * KIB;
        fixture_start(f);
        for (uint64_t next = 0; next < 130;) {
            next = fixture_append_synced(f, next % 5 == 0 ? 9000 : 100);
            if (next > 20) {
                fixture_checkpoint(f, MIN(next - 20, 101));
            }
        }
        struct journal_start end;
        journal_start_at(f->journal, 131, &end);
        assert_true(end.position < f->start.position);
        char path[64];
        uint64_t position = fixture_place(f, lsn, path);
        fixture_ok(sim_disk_rot(f->node, path, position + 72, 8));
        fixture_crash(f, true);
        assert_int_equal(fixture_recover(f).code, STATUS_CORRUPT);
        fixture_destroy(f);
    }
}

static void a_generation_proves_what_came_before_it(void **state)
{
    struct fixture *f = fixture_create(1, 128 * KIB, 4);
    fixture_start(f);
    (void)fixture_append_synced(f, 100);
    (void)fixture_append_synced(f, 100);
    fixture_stop(f);
    fixture_start(f);
    sectors_fill(f, 2, 0, 1, 0);
    fixture_stop(f);
    assert_int_equal(fixture_recover(f).code, STATUS_CORRUPT);
    fixture_destroy(f);
}

static void a_lost_checkpoint_is_noticed(void **state)
{
    struct fixture *f = fixture_create(1, 128 * KIB, 4);
    struct journal_start none = f->start;
    fixture_start(f);
    (void)fixture_append_synced(f, 100);
    struct journal_start older = f->start;
    fixture_stop(f);
    fixture_start(f);
    (void)fixture_append_synced(f, 100);
    fixture_stop(f);
    f->start = older;
    assert_int_equal(fixture_recover(f).code, STATUS_CORRUPT);
    fixture_stop(f);
    f->start = none;
    assert_int_equal(fixture_recover(f).code, STATUS_CORRUPT);
    fixture_destroy(f);
}

static void a_start_that_makes_no_sense_is_refused(void **state)
{
    struct fixture *f = fixture_create(1, 128 * KIB, 4);
    static const struct journal_start rows[] = {
        {.lsn = 0},
        {.lsn = 1, .position = 512 * KIB},
        {.lsn = 1, .position = 100},
        {.lsn = 1, .generation_count = JOURNAL_GENERATION_MAX + 1},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        f->start = rows[i];
        assert_int_equal(fixture_recover(f).code, STATUS_CORRUPT);
        fixture_stop(f);
    }
    f->start = (struct journal_start){.lsn = 1};
    fixture_start(f);
    fixture_destroy(f);
}

static void a_caller_may_cut_where_it_likes(void **state)
{
    for (uint64_t stop = 1; stop <= 12; stop++) {
        struct fixture *f = fixture_create(stop, 128 * KIB, 4);
        fixture_start(f);
        for (uint32_t i = 0; i < 12; i++) {
            (void)fixture_append_synced(f, 3000);
            if (i == 6) {
                fixture_stop(f);
                fixture_start(f);
            }
        }
        fixture_stop(f);
        f->replay_stop_lsn = stop;
        assert_int_equal(fixture_recover(f).code, STATUS_CANCELLED);
        f->replay_stop_lsn = 0;
        assert_int_equal(f->append_count, stop - 1);
        assert_int_equal(journal_next_lsn(f->journal), stop);
        fixture_begin(f);
        (void)fixture_append_synced(f, 3000);
        fixture_crash(f, false);
        fixture_start(f);
        assert_int_equal(f->append_count, stop);
        fixture_destroy(f);
    }
}

static void a_newer_format_is_not_cut(void **state)
{
    struct fixture *f = fixture_create(1, 128 * KIB, 4);
    fixture_start(f);
    (void)fixture_append_synced(f, 100);
    uint64_t lsn = fixture_append_synced(f, 100);
    char path[64];
    uint64_t position = fixture_place(f, lsn, path);
    uint8_t block[JOURNAL_BLOCK_SIZE];
    fixture_file_read(f, path, position, block, sizeof(block));
    store_le32(block + 104, JOURNAL_VERSION + 1);
    journal_frame_issue(block, 1);
    fixture_file_write(f, path, position, block, sizeof(block));
    fixture_stop(f);
    assert_int_equal(fixture_recover(f).code, STATUS_UNSUPPORTED);
    fixture_destroy(f);
}

static void a_frame_that_does_not_chain_is_not_accepted(void **state)
{
    struct fixture *f = fixture_create(1, 128 * KIB, 4);
    fixture_start(f);
    (void)fixture_append_synced(f, 100);
    uint64_t lsn = fixture_append_synced(f, 100);
    char path[64];
    uint64_t position = fixture_place(f, lsn, path);
    uint8_t block[JOURNAL_BLOCK_SIZE];
    fixture_file_read(f, path, position, block, sizeof(block));
    store_le32(block + 80, load_le32(block + 80) ^ 1);
    store_le32(block + 40, crc32c(0, block + 64, load_le32(block + 44)));
    journal_frame_issue(block, lsn - 1);
    fixture_file_write(f, path, position, block, sizeof(block));
    fixture_stop(f);
    fixture_start(f);
    assert_int_equal(f->append_count, 1);
    fixture_destroy(f);
}

static void a_frame_in_the_next_file_counts_only_if_it_had_to_move(void **state)
{
    struct fixture *f = fixture_create(1, 128 * KIB, 4);
    fixture_start(f);
    (void)fixture_append_synced(f, 100);
    uint64_t lsn = fixture_append_synced(f, 100);
    char path[64];
    uint64_t position = fixture_place(f, lsn, path);
    uint8_t block[JOURNAL_BLOCK_SIZE];
    fixture_file_read(f, path, position, block, sizeof(block));
    fixture_file_write(f, "log/journal.3.1", JOURNAL_BLOCK_SIZE, block, sizeof(block));
    sectors_fill(f, lsn, 0, 1, 0);
    fixture_stop(f);
    fixture_start(f);
    assert_int_equal(f->append_count, 1);
    fixture_destroy(f);
}

static void what_replay_accepts_survives_the_next_power_cut(void **state)
{
    uint32_t found = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct fixture *f = fixture_create(seed, 128 * KIB, 4);
        fixture_start(f);
        (void)fixture_append_synced(f, 100);
        for (uint32_t i = 0; i < 3; i++) {
            fixture_ok(fixture_append(f, 6000, false));
            journal_step(f->journal);
        }
        /* Killed with writes in flight: some land, in caches only. */
        fixture_crash(f, true);
        fixture_start(f);
        uint32_t count = f->append_count;
        found += count > 1 ? 1 : 0;
        fixture_crash(f, false);
        fixture_start(f);
        assert_int_equal(f->append_count, count);
        fixture_destroy(f);
    }
    assert_true(found > 20);
}

static void a_recovery_that_fails_anywhere_changes_nothing(void **state)
{
    struct fixture *f = hole_before_the_last(3);
    uint32_t failures = 0;
    for (;; failures++) {
        sim_node_doom(f->node, failures);
        uint32_t count = f->append_count;
        status result = fixture_recover(f);
        bool is_doomed = sim_node_is_doomed(f->node);
        if (!is_doomed) {
            fixture_ok(result);
            break;
        }
        assert_int_equal(result.code, STATUS_IO);
        f->append_count = count;
        fixture_crash(f, false);
    }
    assert_true(failures > 15);
    assert_int_equal(f->append_count, 4);
    sim_node_doom(f->node, UINT32_MAX);
    fixture_begin(f);
    (void)fixture_append_synced(f, 100);
    fixture_destroy(f);
}

static void a_format_that_fails_anywhere_can_be_repeated(void **state)
{
    struct fixture *f = fixture_create(1, 64 * KIB, 3);
    struct io_disk *disk = sim_node_disk(f->node);
    uint32_t failures = 0;
    for (bool is_done = false; !is_done; failures++) {
        sim_node_doom(f->node, failures);
        is_done = status_is_ok(journal_format(disk, FIXTURE_DIR, &f->options.directory_id,
                                              f->options.shard, 64 * KIB, 3));
        assert_int_equal(is_done, !sim_node_is_doomed(f->node));
        sim_node_crash(f->node, false);
        (void)sim_node_start(f->node);
    }
    assert_true(failures > 12);
    fixture_start(f);
    fixture_destroy(f);
}

/* One life of random work that ends in a crash; what was reported synced must be there after it. */
static void life_of_chaos(struct fixture *f, bool with_errors)
{
    uint32_t turns = (uint32_t)(sim_random(f->sim) % 60);
    for (uint32_t i = 0; i < turns && f->failed_calls == 0; i++) {
        uint64_t dice = sim_random(f->sim);
        uint32_t size = (uint32_t)((dice >> 8) % (dice % 7 == 0 ? 9000 : 700));
        if (journal_has_room(f->journal, size)) {
            (void)fixture_append(f, size, false);
        }
        if (dice % 5 < 2) {
            sim_node_kick(f->node);
        }
        for (uint64_t steps = (dice >> 32) % 4; steps > 0; steps--) {
            (void)sim_step(f->sim);
        }
        if (dice % 11 == 0 && f->failed_calls == 0) {
            uint64_t span = f->synced_lsn + 1 - f->start.lsn;
            fixture_checkpoint(f, f->start.lsn + (span == 0 ? 0 : (dice >> 16) % (span + 1)));
        }
        if (with_errors && dice % 97 == 0) {
            struct sim_options failing = f->sim_options;
            failing.write_error_chance = 5000;
            failing.sync_error_chance = 5000;
            sim_set_options(f->sim, &failing);
        }
    }
    sim_set_options(f->sim, &f->sim_options);
}

static void nothing_synced_is_lost_and_nothing_cut_comes_back(void **state)
{
    uint32_t cuts = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct fixture *f = fixture_create(seed, 64 * KIB, 4);
        f->options.frame_size_max = 12 * KIB;
        f->options.writes_in_flight = 1 + (uint32_t)(seed % 6);
        for (uint32_t life = 0; life < 8; life++) {
            uint64_t synced_lsn = f->synced_lsn;
            uint32_t count = f->append_count;
            fixture_start(f); /* compares what is there with what was appended, in order */
            assert_true(journal_next_lsn(f->journal) > synced_lsn);
            cuts += f->append_count < count ? 1 : 0;
            f->failed_calls = 0;
            life_of_chaos(f, seed % 2 == 0);
            fixture_crash(f, sim_random(f->sim) % 2 == 0);
        }
        fixture_start(f);
        fixture_destroy(f);
    }
    assert_true(cuts > 200);
}

#if TWINLOG_FAULTS
static void without_the_check_of_generations_the_dead_return(void **state)
{
    struct fixture *f = hole_before_the_last(2);
    uint32_t number = f->appends[4].number;
    fixture_start(f);
    uint32_t next_number = f->next_number;
    f->next_number = number;
    assert_int_equal(fixture_append_synced(f, 5000), 5);
    f->next_number = next_number;
    fixture_crash(f, false);
    /* The memory of the test ends at the fifth, so the sixth would fail there: count it here. */
    f->appends[5] = (struct fixture_append){number + 1, 5000, 6};
    f->append_count = 6;
    journal_mutate(MUTATION_ANY_GENERATION, true);
    fixture_start(f);
    journal_mutate(MUTATION_ANY_GENERATION, false);
    assert_int_equal(f->append_count, 6);
    fixture_destroy(f);
}

static void an_ack_before_the_sync_is_a_lost_ack(void **state)
{
    journal_mutate(MUTATION_ACK_BEFORE_SYNC, true);
    uint32_t lost = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fixture *f = fixture_create(seed, 128 * KIB, 4);
        fixture_start(f);
        (void)fixture_append_synced(f, 5000);
        uint64_t acked = fixture_append_synced(f, 5000);
        fixture_crash(f, false);
        status result = fixture_recover(f);
        lost += !status_is_ok(result) || journal_next_lsn(f->journal) <= acked ? 1 : 0;
        fixture_destroy(f);
    }
    journal_mutate(MUTATION_ACK_BEFORE_SYNC, false);
    assert_true(lost > 5);
}

static void a_start_without_its_generation_loses_what_it_acks(void **state)
{
    struct fixture *f = fixture_create(1, 128 * KIB, 4);
    fixture_start(f);
    (void)fixture_append_synced(f, 5000);
    fixture_stop(f);
    journal_mutate(MUTATION_REUSE_LSN, true);
    fixture_start(f);
    uint64_t acked = fixture_append_synced(f, 5000);
    journal_mutate(MUTATION_REUSE_LSN, false);
    fixture_crash(f, false);
    status result = fixture_recover(f);
    assert_true(!status_is_ok(result) || journal_next_lsn(f->journal) <= acked);
    fixture_destroy(f);
}

static int mutations_run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_check_of_generations_the_dead_return),
        cmocka_unit_test(an_ack_before_the_sync_is_a_lost_ack),
        cmocka_unit_test(a_start_without_its_generation_loses_what_it_acks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
static int mutations_run(void)
{
    return 0;
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tail_torn_at_any_sector_is_cut),
        cmocka_unit_test(a_frame_behind_a_hole_never_comes_back),
        cmocka_unit_test(the_same_frame_again_is_still_a_new_generation),
        cmocka_unit_test(rot_before_a_frame_that_proves_it_synced_is_corruption),
        cmocka_unit_test(rot_is_found_out_across_the_wrap_and_file_ends),
        cmocka_unit_test(a_generation_proves_what_came_before_it),
        cmocka_unit_test(a_lost_checkpoint_is_noticed),
        cmocka_unit_test(a_start_that_makes_no_sense_is_refused),
        cmocka_unit_test(a_caller_may_cut_where_it_likes),
        cmocka_unit_test(a_newer_format_is_not_cut),
        cmocka_unit_test(a_frame_that_does_not_chain_is_not_accepted),
        cmocka_unit_test(a_frame_in_the_next_file_counts_only_if_it_had_to_move),
        cmocka_unit_test(what_replay_accepts_survives_the_next_power_cut),
        cmocka_unit_test(a_recovery_that_fails_anywhere_changes_nothing),
        cmocka_unit_test(a_format_that_fails_anywhere_can_be_repeated),
        cmocka_unit_test(nothing_synced_is_lost_and_nothing_cut_comes_back),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + mutations_run();
}
