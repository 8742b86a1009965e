/* The simulated disk: what a crash may take, and what it must never take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "twinlog/io/sim.h"

enum { SECTOR = 512, SECTOR_COUNT = 24, SEED_COUNT = 200 };

struct world {
    struct sim *sim;
    struct sim_node *node;
    struct io_disk *disk;
};

static struct world world_create(uint64_t seed, const struct sim_options *options)
{
    struct world world;
    world.sim = sim_create(seed, options);
    assert_non_null(world.sim);
    world.node = sim_node_add(world.sim, "10.0.0.1");
    world.disk = sim_node_disk(world.node);
    return world;
}

static void world_crash(struct world *world, bool process_only)
{
    sim_node_crash(world->node, process_only);
    (void)sim_node_start(world->node);
}

static void assert_ok(status result)
{
    assert_int_equal(result.code, STATUS_OK);
}

static struct io_file *must_open(struct world *world, const char *path, unsigned flags)
{
    struct io_file *file;
    assert_ok(io_file_open(world->disk, path, IO_FILE_READ | IO_FILE_WRITE | flags, &file));
    return file;
}

static void must_write(struct io_file *file, const char *text, uint64_t position)
{
    assert_ok(io_file_write(file, text, strlen(text), position));
}

/* True when the file begins with `text`. */
static bool file_says(struct io_file *file, const char *text)
{
    char buffer[64];
    size_t got = 0;
    assert_true(strlen(text) <= sizeof(buffer));
    assert_ok(io_file_read(file, buffer, strlen(text), 0, &got));
    return got == strlen(text) && memcmp(buffer, text, got) == 0;
}

static bool path_exists(struct world *world, const char *path)
{
    struct io_file *file;
    status result = io_file_open(world->disk, path, IO_FILE_READ, &file);
    if (status_is_ok(result)) {
        io_file_close(file);
    } else {
        assert_int_equal(result.code, STATUS_NOT_FOUND);
    }
    return status_is_ok(result);
}

/* A file with a durable name and the durable content "old". */
static struct io_file *file_prepare(struct world *world)
{
    struct io_file *file = must_open(world, "/a", IO_FILE_CREATE);
    must_write(file, "old", 0);
    assert_ok(io_file_sync(file));
    assert_ok(io_dir_sync(world->disk, "/"));
    return file;
}

static const struct sim_options no_faults = {.disk_write_us_min = 50, .disk_write_us_max = 500};

/* ---------------------------------------------------------------- oracle over random runs */

struct oracle_sector {
    uint32_t allowed[64]; /* stamps a crash may leave here; the last one is visible */
    uint32_t count;
};

struct oracle {
    struct oracle_sector sectors[SECTOR_COUNT];
    uint32_t stamp;
};

static void stamp_fill(uint8_t sector[SECTOR], uint32_t stamp)
{
    for (size_t i = 0; i < SECTOR; i += sizeof(stamp)) {
        memcpy(sector + i, &stamp, sizeof(stamp));
    }
}

static void oracle_write(struct oracle *oracle, struct io_file *file, struct sim *sim)
{
    uint8_t data[SECTOR_COUNT * SECTOR];
    uint32_t first = (uint32_t)(sim_random(sim) % SECTOR_COUNT);
    uint32_t count = 1 + (uint32_t)(sim_random(sim) % (SECTOR_COUNT - first));
    oracle->stamp++;
    for (uint32_t i = 0; i < count; i++) {
        struct oracle_sector *sector = &oracle->sectors[first + i];
        stamp_fill(data + (size_t)i * SECTOR, oracle->stamp);
        assert_true(sector->count < COUNT_OF(sector->allowed));
        sector->allowed[sector->count++] = oracle->stamp;
    }
    assert_ok(io_file_write(file, data, (size_t)count * SECTOR, (uint64_t)first * SECTOR));
}

static void oracle_sync(struct oracle *oracle, struct io_file *file)
{
    assert_ok(io_file_sync(file));
    for (uint32_t i = 0; i < SECTOR_COUNT; i++) {
        struct oracle_sector *sector = &oracle->sectors[i];
        sector->allowed[0] = sector->allowed[sector->count - 1];
        sector->count = 1;
    }
}

/* Each sector holds one allowed stamp, the newest one when nothing crashed. */
static void oracle_check(struct oracle *oracle, struct io_file *file, bool crashed)
{
    uint8_t data[SECTOR_COUNT * SECTOR] = {0};
    uint8_t expected[SECTOR];
    size_t got;
    assert_ok(io_file_read(file, data, sizeof(data), 0, &got));
    for (uint32_t i = 0; i < SECTOR_COUNT; i++) {
        struct oracle_sector *sector = &oracle->sectors[i];
        uint32_t found = UINT32_MAX;
        for (uint32_t j = crashed ? 0 : sector->count - 1; j < sector->count; j++) {
            stamp_fill(expected, sector->allowed[j]);
            if (memcmp(expected, data + (size_t)i * SECTOR, SECTOR) == 0) {
                found = sector->allowed[j];
            }
        }
        assert_int_not_equal(found, UINT32_MAX);
        if (crashed) {
            sector->allowed[0] = found;
            sector->count = 1;
        }
    }
}

static void oracle_run(uint64_t seed, struct sim_coverage *coverage)
{
    struct world world = world_create(seed, &no_faults);
    struct io_file *file = must_open(&world, "/a", IO_FILE_CREATE);
    assert_ok(io_dir_sync(world.disk, "/"));
    struct oracle oracle = {0};
    for (uint32_t i = 0; i < SECTOR_COUNT; i++) {
        oracle.sectors[i].count = 1;
    }
    for (uint32_t step = 0; step < 60; step++) {
        uint64_t what = sim_random(world.sim) % 12;
        if (what < 8) {
            oracle_write(&oracle, file, world.sim);
        } else if (what < 10) {
            oracle_sync(&oracle, file);
        } else if (what == 10) {
            oracle_check(&oracle, file, false);
        } else {
            bool process_only = sim_random(world.sim) % 2 == 0;
            world_crash(&world, process_only);
            io_file_close(file);
            file = must_open(&world, "/a", 0);
            oracle_check(&oracle, file, !process_only);
        }
    }
    io_file_close(file);
    sim_coverage_get(world.sim, coverage);
    sim_destroy(world.sim);
}

static void synced_data_is_never_lost_and_unsynced_data_is_old_or_new(void **state)
{
    struct sim_coverage sum = {0};
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct sim_coverage coverage;
        oracle_run(seed, &coverage);
        sum.lost_writes += coverage.lost_writes;
        sum.torn_writes += coverage.torn_writes;
        sum.reordered_writes += coverage.reordered_writes;
    }
    assert_true(sum.lost_writes > 100);
    assert_true(sum.torn_writes > 100);
    assert_true(sum.reordered_writes > 100);
}

/* ---------------------------------------------------------------- content */

static void unsynced_data_is_lost_in_some_runs_and_kept_in_others(void **state)
{
    uint32_t kept = 0;
    uint32_t lost = 0;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        struct io_file *file = file_prepare(&world);
        must_write(file, "new", 0);
        assert_true(file_says(file, "new"));
        world_crash(&world, false);
        io_file_close(file);
        file = must_open(&world, "/a", 0);
        kept += file_says(file, "new") ? 1 : 0;
        lost += file_says(file, "old") ? 1 : 0;
        sim_destroy(world.sim);
    }
    assert_int_equal(kept + lost, SEED_COUNT);
    assert_true(kept > 10);
    assert_true(lost > 10);
}

static void what_a_failed_sync_dropped_is_not_made_durable_by_the_next(void **state)
{
    uint32_t lost = 0;
    struct sim_options failing = no_faults;
    failing.sync_error_chance = 10000;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        struct io_file *file = file_prepare(&world);
        must_write(file, "new", 0);
        sim_set_options(world.sim, &failing);
        assert_int_equal(io_file_sync(file).code, STATUS_IO);
        sim_set_options(world.sim, &no_faults);
        assert_ok(io_file_sync(file));
        assert_true(file_says(file, "new"));
        world_crash(&world, false);
        file = must_open(&world, "/a", 0);
        lost += file_says(file, "old") ? 1 : 0;
        sim_destroy(world.sim);
    }
    assert_true(lost > 10);
    assert_true(lost < SEED_COUNT - 10);
}

static void a_size_is_pending_until_a_sync(void **state)
{
    uint32_t undone = 0;
    uint32_t extended = 0;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        struct io_file *cut = file_prepare(&world);
        struct io_file *grown = must_open(&world, "/b", IO_FILE_CREATE);
        assert_ok(io_dir_sync(world.disk, "/"));
        assert_ok(io_file_truncate(cut, 1));
        assert_ok(io_file_truncate(grown, 10000));
        world_crash(&world, false);
        uint64_t size;
        cut = must_open(&world, "/a", 0);
        assert_ok(io_file_size(cut, &size));
        assert_true(size == 1 || size == 3);
        assert_true(size == 1 || file_says(cut, "old"));
        undone += size == 3 ? 1 : 0;
        grown = must_open(&world, "/b", 0);
        assert_ok(io_file_size(grown, &size));
        assert_true(size <= 10000);
        extended += size == 10000 ? 1 : 0;
        sim_destroy(world.sim);
    }
    assert_true(undone > 10 && undone < SEED_COUNT - 10);
    assert_true(extended > 10 && extended < SEED_COUNT - 10);
}

static void a_synced_cut_never_shows_the_old_bytes_again(void **state)
{
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        struct io_file *file = file_prepare(&world);
        assert_ok(io_file_truncate(file, 0));
        assert_ok(io_file_sync(file));
        assert_ok(io_file_truncate(file, 8));
        world_crash(&world, false);
        char bytes[8] = {0};
        size_t got;
        file = must_open(&world, "/a", 0);
        assert_ok(io_file_read(file, bytes, sizeof(bytes), 0, &got));
        assert_memory_equal(bytes, "\0\0\0\0\0\0\0", sizeof(bytes));
        sim_destroy(world.sim);
    }
}

static void a_killed_process_loses_nothing_that_it_wrote(void **state)
{
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        struct io_file *file = must_open(&world, "/a", IO_FILE_CREATE);
        must_write(file, "new", 0);
        world_crash(&world, true);
        file = must_open(&world, "/a", 0);
        assert_true(file_says(file, "new"));
        sim_destroy(world.sim);
    }
}

static void reading_behind_holes_gives_zeros_and_ends_at_the_size(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct io_file *file = must_open(&world, "/a", IO_FILE_CREATE);
    must_write(file, "end", 100000);
    uint8_t bytes[16];
    size_t got;
    assert_ok(io_file_read(file, bytes, sizeof(bytes), 99990, &got));
    assert_int_equal(got, 13);
    assert_memory_equal(bytes, "\0\0\0\0\0\0\0\0\0\0end", 13);
    assert_ok(io_file_read(file, bytes, sizeof(bytes), 200000, &got));
    assert_int_equal(got, 0);
    char letters[] = "abcd";
    struct iovec ranges[] = {{letters, 2}, {letters, 0}, {letters + 2, 2}};
    assert_ok(io_file_writev(file, ranges, COUNT_OF(ranges), 0));
    assert_true(file_says(file, "abcd"));
    sim_destroy(world.sim);
}

/* ---------------------------------------------------------------- names */

static void a_name_is_durable_only_after_the_sync_of_its_directory(void **state)
{
    uint32_t lost = 0;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        assert_ok(io_dir_create(world.disk, "/d"));
        assert_ok(io_dir_sync(world.disk, "/"));
        struct io_file *kept = must_open(&world, "/d/kept", IO_FILE_CREATE);
        assert_ok(io_dir_sync(world.disk, "/d"));
        struct io_file *loose = must_open(&world, "/d/loose", IO_FILE_CREATE);
        assert_ok(io_file_sync(loose));
        world_crash(&world, false);
        io_file_close(kept);
        io_file_close(loose);
        assert_true(path_exists(&world, "/d/kept"));
        lost += path_exists(&world, "/d/loose") ? 0 : 1;
        sim_destroy(world.sim);
    }
    assert_true(lost > 10 && lost < SEED_COUNT - 10);
}

static void a_directory_goes_with_its_own_name_whatever_was_synced_inside(void **state)
{
    uint32_t lost = 0;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        assert_ok(io_dir_create(world.disk, "d"));
        struct io_file *file = must_open(&world, "d/a", IO_FILE_CREATE);
        assert_ok(io_file_sync(file));
        assert_ok(io_dir_sync(world.disk, "d"));
        world_crash(&world, false);
        lost += path_exists(&world, "d/a") ? 0 : 1;
        sim_destroy(world.sim);
    }
    assert_true(lost > 10 && lost < SEED_COUNT - 10);
}

static void a_rename_happened_or_not_and_never_half(void **state)
{
    uint32_t renamed = 0;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        struct io_file *file = file_prepare(&world);
        struct io_file *next = must_open(&world, "/a.tmp", IO_FILE_CREATE);
        must_write(next, "new", 0);
        assert_ok(io_file_sync(next));
        assert_ok(io_dir_sync(world.disk, "/"));
        assert_ok(io_path_rename(world.disk, "/a.tmp", "/a"));
        io_file_close(file);
        world_crash(&world, false);
        file = must_open(&world, "/a", 0);
        bool is_new = file_says(file, "new");
        assert_true(is_new || file_says(file, "old"));
        assert_int_equal(path_exists(&world, "/a.tmp"), !is_new);
        renamed += is_new ? 1 : 0;
        sim_destroy(world.sim);
    }
    assert_true(renamed > 10 && renamed < SEED_COUNT - 10);
}

static void a_synced_rename_and_removal_are_never_undone(void **state)
{
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        struct io_file *file = file_prepare(&world);
        io_file_close(must_open(&world, "/b", IO_FILE_CREATE));
        assert_ok(io_path_rename(world.disk, "/a", "/c"));
        assert_ok(io_path_remove(world.disk, "/b"));
        assert_ok(io_dir_sync(world.disk, "/"));
        world_crash(&world, false);
        io_file_close(file);
        assert_false(path_exists(&world, "/a"));
        assert_false(path_exists(&world, "/b"));
        file = must_open(&world, "/c", 0);
        assert_true(file_says(file, "old"));
        sim_destroy(world.sim);
    }
}

static void a_removal_may_be_undone_with_the_content(void **state)
{
    uint32_t undone = 0;
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        io_file_close(file_prepare(&world));
        assert_ok(io_path_remove(world.disk, "/a"));
        assert_false(path_exists(&world, "/a"));
        world_crash(&world, false);
        if (path_exists(&world, "/a")) {
            undone++;
            assert_true(file_says(must_open(&world, "/a", 0), "old"));
        }
        sim_destroy(world.sim);
    }
    assert_true(undone > 10 && undone < SEED_COUNT - 10);
}

/* A change that survives without the one it builds on must not take another file with it. */
static void a_change_of_a_new_file_never_moves_the_old_file_of_that_name(void **state)
{
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        io_file_close(file_prepare(&world));
        assert_ok(io_path_remove(world.disk, "/a"));
        struct io_file *next = must_open(&world, "/a", IO_FILE_CREATE);
        must_write(next, "new", 0);
        assert_ok(io_file_sync(next));
        assert_ok(io_path_rename(world.disk, "/a", "/b"));
        world_crash(&world, false);
        assert_true(!path_exists(&world, "/b") || file_says(must_open(&world, "/b", 0), "new"));
        sim_destroy(world.sim);
    }
}

static void a_move_between_directories_is_durable_after_either_sync(void **state)
{
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        assert_ok(io_dir_create(world.disk, "/d"));
        assert_ok(io_dir_create(world.disk, "/e"));
        assert_ok(io_dir_sync(world.disk, "/"));
        io_file_close(must_open(&world, "/d/a", IO_FILE_CREATE));
        assert_ok(io_path_rename(world.disk, "/d/a", "/e/b"));
        assert_ok(io_dir_sync(world.disk, seed % 2 == 0 ? "/d" : "/e"));
        world_crash(&world, false);
        assert_true(path_exists(&world, "/e/b"));
        assert_false(path_exists(&world, "/d/a"));
        sim_destroy(world.sim);
    }
}

static void a_disk_sync_makes_all_content_and_names_durable(void **state)
{
    for (uint64_t seed = 0; seed < SEED_COUNT; seed++) {
        struct world world = world_create(seed, &no_faults);
        assert_ok(io_dir_create(world.disk, "/d"));
        must_write(must_open(&world, "/d/a", IO_FILE_CREATE), "one", 0);
        struct io_file *file = must_open(&world, "/b", IO_FILE_CREATE);
        must_write(file, "two", 5000);
        assert_ok(io_disk_sync(file));
        world_crash(&world, false);
        uint64_t size;
        assert_true(file_says(must_open(&world, "/d/a", 0), "one"));
        assert_ok(io_file_size(must_open(&world, "/b", 0), &size));
        assert_int_equal(size, 5003);
        sim_destroy(world.sim);
    }
}

struct listing {
    uint32_t count;
    uint32_t length;
};

static status list_entry(void *context, const char *name)
{
    struct listing *listing = context;
    listing->count++;
    listing->length += (uint32_t)strlen(name);
    return OK;
}

static void wrong_names_are_refused_with_the_status_of_a_real_disk(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct io_disk *disk = world.disk;
    struct io_file *file = file_prepare(&world);
    unsigned exclusive = IO_FILE_READ | IO_FILE_CREATE | IO_FILE_EXCLUSIVE;
    struct io_file *other;
    assert_ok(io_dir_create(disk, "/d"));
    assert_int_equal(io_dir_create(disk, "/d").code, STATUS_EXISTS);
    assert_int_equal(io_dir_create(disk, "/x/y").code, STATUS_NOT_FOUND);
    assert_int_equal(io_file_open(disk, "/x", IO_FILE_READ, &other).code, STATUS_NOT_FOUND);
    assert_int_equal(io_file_open(disk, "/a/b", exclusive, &other).code, STATUS_NOT_FOUND);
    assert_int_equal(io_file_open(disk, "/a", exclusive, &other).code, STATUS_EXISTS);
    assert_int_equal(io_file_open(disk, "/d", IO_FILE_READ, &other).code, STATUS_INVALID);
    assert_int_equal(io_path_remove(disk, "/x").code, STATUS_NOT_FOUND);
    assert_int_equal(io_path_remove(disk, "/d").code, STATUS_INVALID);
    assert_int_equal(io_path_rename(disk, "/x", "/y").code, STATUS_NOT_FOUND);
    assert_int_equal(io_dir_sync(disk, "/x").code, STATUS_NOT_FOUND);
    assert_int_equal(io_dir_remove(disk, "/a").code, STATUS_NOT_FOUND);
    io_file_close(must_open(&world, "/d/inside", IO_FILE_CREATE));
    assert_int_equal(io_dir_remove(disk, "/d").code, STATUS_EXISTS);
    struct listing listing = {0};
    assert_ok(io_dir_list(disk, "/", list_entry, &listing));
    assert_int_equal(listing.count, 2);
    assert_ok(io_path_remove(disk, "/d/inside"));
    assert_ok(io_dir_remove(disk, "/d"));
    io_file_close(file);
    sim_destroy(world.sim);
}

/* ---------------------------------------------------------------- locks, doom, faults */

static void a_lock_is_exclusive_and_ends_with_its_file_or_process(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct io_file *first = file_prepare(&world);
    struct io_file *second = must_open(&world, "/a", 0);
    assert_ok(io_file_lock(first));
    assert_ok(io_file_lock(first));
    assert_int_equal(io_file_lock(second).code, STATUS_BUSY);
    io_file_close(first);
    assert_ok(io_file_lock(second));
    world_crash(&world, true);
    assert_int_equal(io_file_lock(second).code, STATUS_IO);
    io_file_close(second);
    assert_ok(io_file_lock(must_open(&world, "/a", 0)));
    sim_destroy(world.sim);
}

static status doomed_work(struct world *world, uint32_t *done)
{
    struct io_file *file;
    TRY(io_file_open(world->disk, "/a", IO_FILE_READ | IO_FILE_WRITE, &file));
    *done = 1;
    status result = io_file_write(file, "new", 3, 0);
    *done += status_is_ok(result) ? 1 : 0;
    if (status_is_ok(result)) {
        result = io_file_sync(file);
        *done += status_is_ok(result) ? 1 : 0;
    }
    io_file_close(file);
    return result;
}

static void doom_fails_every_operation_from_the_nth_on_until_the_crash(void **state)
{
    for (uint32_t count = 0; count < 4; count++) {
        struct world world = world_create(count, &no_faults);
        io_file_close(file_prepare(&world));
        uint32_t done = 0;
        sim_node_doom(world.node, count);
        assert_false(sim_node_is_doomed(world.node));
        status result = doomed_work(&world, &done);
        assert_int_equal(done, MIN(count, 3));
        assert_int_equal(status_is_ok(result), count == 3);
        assert_int_equal(sim_node_is_doomed(world.node), count < 3);
        world_crash(&world, true);
        assert_false(sim_node_is_doomed(world.node));
        bool is_new = file_says(must_open(&world, "/a", 0), "new");
        assert_true(count < 3 || is_new);
        assert_true(count > 1 || !is_new);
        sim_destroy(world.sim);
    }
}

static void a_full_disk_says_no_space_and_has_room_again_after_a_removal(void **state)
{
    struct sim_options options = no_faults;
    options.disk_size = 64 * 1024;
    struct world world = world_create(1, &options);
    struct io_file *file = must_open(&world, "/a", IO_FILE_CREATE);
    static const uint8_t zeros[64 * 1024];
    uint64_t free_size;
    uint64_t total_size;
    assert_ok(io_file_write(file, zeros, sizeof(zeros) - 4096, 0));
    assert_ok(io_disk_space(world.disk, "/a", &free_size, &total_size));
    assert_int_equal(free_size, 4096);
    assert_int_equal(total_size, options.disk_size);
    assert_int_equal(io_file_write(file, zeros, 4097, 60 * 1024).code, STATUS_NO_SPACE);
    assert_ok(io_file_reserve(file, 60 * 1024, 4096));
    assert_int_equal(io_file_reserve(file, 64 * 1024, 1).code, STATUS_NO_SPACE);
    must_write(file, "fits", 60 * 1024);
    io_file_close(file);
    assert_ok(io_path_remove(world.disk, "/a"));
    assert_ok(io_dir_sync(world.disk, "/"));
    assert_ok(io_disk_space(world.disk, "/", &free_size, &total_size));
    assert_int_equal(free_size, total_size);
    struct sim_coverage coverage;
    sim_coverage_get(world.sim, &coverage);
    assert_int_equal(coverage.no_space, 2);
    sim_destroy(world.sim);
}

static void reads_and_writes_fail_when_told_to(void **state)
{
    struct sim_options options = no_faults;
    options.read_error_chance = 10000;
    options.write_error_chance = 10000;
    struct world world = world_create(1, &no_faults);
    struct io_file *file = file_prepare(&world);
    sim_set_options(world.sim, &options);
    char byte;
    size_t got;
    assert_int_equal(io_file_read(file, &byte, 1, 0, &got).code, STATUS_IO);
    assert_int_equal(io_file_write(file, "x", 1, 0).code, STATUS_IO);
    struct sim_coverage coverage;
    sim_coverage_get(world.sim, &coverage);
    assert_int_equal(coverage.read_errors, 1);
    assert_int_equal(coverage.write_errors, 1);
    sim_destroy(world.sim);
}

static void rot_stays_on_the_medium(void **state)
{
    struct sim_options options = no_faults;
    options.rot_chance = 10000;
    struct world world = world_create(1, &no_faults);
    struct io_file *file = file_prepare(&world);
    sim_set_options(world.sim, &options);
    assert_false(file_says(file, "old"));
    sim_set_options(world.sim, &no_faults);
    assert_false(file_says(file, "old"));
    world_crash(&world, false);
    file = must_open(&world, "/a", 0);
    assert_false(file_says(file, "old"));
    must_write(file, "old", 0);
    assert_true(file_says(file, "old"));
    assert_ok(sim_disk_rot(world.node, "/a", 1, 2));
    assert_false(file_says(file, "ol"));
    assert_true(file_says(file, "o"));
    assert_int_equal(sim_disk_rot(world.node, "/a", 2, 2).code, STATUS_INVALID);
    assert_int_equal(sim_disk_rot(world.node, "/x", 0, 1).code, STATUS_NOT_FOUND);
    sim_destroy(world.sim);
}

static void direct_files_want_aligned_writes(void **state)
{
    struct world world = world_create(1, &no_faults);
    struct io_file *file = must_open(&world, "/a", IO_FILE_CREATE | IO_FILE_DIRECT);
    uint8_t *block = aligned_alloc(4096, 8192);
    assert_non_null(block);
    memset(block, 7, 8192);
    assert_ok(io_file_write(file, block, 8192, 4096));
    assert_int_equal(io_file_write(file, block, 512, 0).code, STATUS_INVALID);
    assert_int_equal(io_file_write(file, block, 4096, 512).code, STATUS_INVALID);
    assert_int_equal(io_file_write(file, block + 8, 4096, 0).code, STATUS_INVALID);
    free(block);
    sim_destroy(world.sim);
}

static void a_file_opened_for_reading_is_not_written(void **state)
{
    struct world world = world_create(1, &no_faults);
    io_file_close(file_prepare(&world));
    struct io_file *file;
    assert_ok(io_file_open(world.disk, "/a", IO_FILE_READ, &file));
    assert_int_equal(io_file_write(file, "x", 1, 0).code, STATUS_IO);
    assert_int_equal(io_file_truncate(file, 0).code, STATUS_IO);
    assert_true(file_says(file, "old"));
    io_file_close(file);
    sim_destroy(world.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synced_data_is_never_lost_and_unsynced_data_is_old_or_new),
        cmocka_unit_test(unsynced_data_is_lost_in_some_runs_and_kept_in_others),
        cmocka_unit_test(what_a_failed_sync_dropped_is_not_made_durable_by_the_next),
        cmocka_unit_test(a_size_is_pending_until_a_sync),
        cmocka_unit_test(a_synced_cut_never_shows_the_old_bytes_again),
        cmocka_unit_test(a_killed_process_loses_nothing_that_it_wrote),
        cmocka_unit_test(reading_behind_holes_gives_zeros_and_ends_at_the_size),
        cmocka_unit_test(a_name_is_durable_only_after_the_sync_of_its_directory),
        cmocka_unit_test(a_directory_goes_with_its_own_name_whatever_was_synced_inside),
        cmocka_unit_test(a_rename_happened_or_not_and_never_half),
        cmocka_unit_test(a_synced_rename_and_removal_are_never_undone),
        cmocka_unit_test(a_removal_may_be_undone_with_the_content),
        cmocka_unit_test(a_change_of_a_new_file_never_moves_the_old_file_of_that_name),
        cmocka_unit_test(a_move_between_directories_is_durable_after_either_sync),
        cmocka_unit_test(a_disk_sync_makes_all_content_and_names_durable),
        cmocka_unit_test(wrong_names_are_refused_with_the_status_of_a_real_disk),
        cmocka_unit_test(a_lock_is_exclusive_and_ends_with_its_file_or_process),
        cmocka_unit_test(doom_fails_every_operation_from_the_nth_on_until_the_crash),
        cmocka_unit_test(a_full_disk_says_no_space_and_has_room_again_after_a_removal),
        cmocka_unit_test(reads_and_writes_fail_when_told_to),
        cmocka_unit_test(rot_stays_on_the_medium),
        cmocka_unit_test(direct_files_want_aligned_writes),
        cmocka_unit_test(a_file_opened_for_reading_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
