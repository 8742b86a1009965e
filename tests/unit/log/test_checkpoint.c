/* The A/B checkpoint files: src/log/checkpoint.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "twinlog/core/trace.h"
#include "twinlog/io/sim.h"

#define DIR   "log"
#define SHARD 2u
#define PATHS                                                                                      \
    (const char *[])                                                                               \
    {                                                                                              \
        DIR "/checkpoint.2.0", DIR "/checkpoint.2.1"                                               \
    }

static const struct uuid directory_id = {{5, 4, 3, 2, 1}};

#define assert_ok(expression) assert_int_equal((expression).code, STATUS_OK)

struct world {
    struct sim *sim;
    struct sim_node *node;
    struct io_disk *disk;
};

static struct world world_create(uint64_t seed)
{
    trace_set_level(TRACE_ERROR);
    static const struct sim_options options;
    struct world world = {.sim = sim_create(seed, &options)};
    world.node = sim_node_add(world.sim, "10.0.0.1");
    world.disk = sim_node_disk(world.node);
    assert_ok(io_dir_create(world.disk, DIR));
    assert_ok(io_dir_sync(world.disk, "."));
    return world;
}

/* Header and body all follow from the sequence, so that any mixture of two would show. */
static struct checkpoint_header header_of(uint64_t sequence)
{
    struct checkpoint_header header = {
        .sequence = sequence,
        .directory_id = directory_id,
        .shard = SHARD,
        .epoch = (uint32_t)sequence * 2,
        .clean = sequence % 2 == 0,
        .start =
            {
                .lsn = sequence * 100,
                .position = sequence * 4096,
                .previous_checksum = (uint32_t)sequence * 77,
                .generation_count = (uint32_t)(sequence % (JOURNAL_GENERATION_MAX + 1)),
            },
    };
    for (uint32_t i = 0; i < header.start.generation_count; i++) {
        header.start.generations[i] =
            (struct journal_generation){sequence + i, sequence * 3 + i, (uint32_t)sequence ^ i};
    }
    return header;
}

static uint32_t body_size_of(uint64_t sequence)
{
    return (uint32_t)(sequence * 7919 % 20000);
}

static uint8_t body_byte_of(uint64_t sequence, uint32_t at)
{
    return (uint8_t)(sequence * 13 + at * 5ull + (at >> 9));
}

static status write_one(struct world *world, uint64_t sequence)
{
    struct checkpoint_header header = header_of(sequence);
    uint32_t size = body_size_of(sequence);
    uint8_t *body = malloc((size_t)size + 1);
    for (uint32_t i = 0; i < size; i++) {
        body[i] = body_byte_of(sequence, i);
    }
    status result = checkpoint_write(world->disk, DIR, &header, (struct bytes){body, size});
    free(body);
    return result;
}

/* Reads the newest, checks that it is whole and returns its sequence in *sequence. */
static status read_one(struct world *world, uint64_t *sequence)
{
    struct checkpoint_header header;
    uint8_t *body = NULL;
    size_t size = 0;
    TRY(checkpoint_read(world->disk, DIR, SHARD, &directory_id, &header, &body, &size));
    struct checkpoint_header wanted = header_of(header.sequence);
    assert_int_equal(header.epoch, wanted.epoch);
    assert_int_equal(header.clean, wanted.clean);
    assert_int_equal(header.shard, wanted.shard);
    assert_int_equal(header.start.lsn, wanted.start.lsn);
    assert_int_equal(header.start.position, wanted.start.position);
    assert_int_equal(header.start.previous_checksum, wanted.start.previous_checksum);
    assert_int_equal(header.start.generation_count, wanted.start.generation_count);
    for (uint32_t i = 0; i < header.start.generation_count; i++) {
        assert_int_equal(header.start.generations[i].generation,
                         wanted.start.generations[i].generation);
        assert_int_equal(header.start.generations[i].first_lsn,
                         wanted.start.generations[i].first_lsn);
        assert_int_equal(header.start.generations[i].previous_checksum,
                         wanted.start.generations[i].previous_checksum);
    }
    assert_int_equal(size, body_size_of(header.sequence));
    for (uint32_t i = 0; i < size; i++) {
        assert_int_equal(body[i], body_byte_of(header.sequence, i));
    }
    free(body);
    *sequence = header.sequence;
    return OK;
}

static void the_newest_is_read_back_whole(void **state)
{
    struct world world = world_create(1);
    uint64_t sequence = 0;
    assert_int_equal(read_one(&world, &sequence).code, STATUS_NOT_FOUND);
    for (uint64_t i = 1; i <= 140; i += i % 3 == 0 ? 4 : 1) {
        assert_ok(write_one(&world, i));
        assert_ok(read_one(&world, &sequence));
        assert_int_equal(sequence, i);
    }
    assert_int_equal(write_one(&world, sequence).code, STATUS_INVALID);
    assert_int_equal(write_one(&world, sequence - 1).code, STATUS_INVALID);
    sim_destroy(world.sim);
}

static void a_damaged_one_gives_way_to_the_older_and_is_replaced_first(void **state)
{
    for (uint32_t newest = 0; newest < 2; newest++) {
        for (uint32_t at = 0; at < 2048 + 1000; at += at < 160 ? 1 : 97) {
            struct world world = world_create(at + 1);
            uint64_t sequence = 0;
            for (uint64_t i = 7; i <= 8 + newest; i++) {
                assert_ok(write_one(&world, i));
            }
            assert_ok(sim_disk_rot(world.node, PATHS[1 - newest], at, 1));
            assert_ok(read_one(&world, &sequence));
            assert_int_equal(sequence, 7 + newest);
            /* The valid one must not be given up for the next. */
            assert_ok(write_one(&world, 8 + newest));
            assert_ok(sim_disk_rot(world.node, PATHS[1 - newest], at, 1));
            assert_ok(read_one(&world, &sequence));
            assert_int_equal(sequence, 7 + newest);
            sim_destroy(world.sim);
        }
    }
}

static void none_valid_is_corrupt_when_there_were_two(void **state)
{
    struct world world = world_create(1);
    uint64_t sequence = 0;
    assert_ok(write_one(&world, 3));
    assert_ok(sim_disk_rot(world.node, PATHS[0], 40, 1));
    assert_int_equal(read_one(&world, &sequence).code, STATUS_NOT_FOUND);
    assert_ok(write_one(&world, 1));
    assert_ok(write_one(&world, 2));
    assert_ok(sim_disk_rot(world.node, PATHS[0], 40, 1));
    assert_ok(sim_disk_rot(world.node, PATHS[1], 3000, 1));
    assert_int_equal(read_one(&world, &sequence).code, STATUS_CORRUPT);
    sim_destroy(world.sim);
}

static void those_of_another_directory_or_version_are_refused(void **state)
{
    struct world world = world_create(1);
    struct checkpoint_header header;
    uint8_t *body = NULL;
    size_t size = 0;
    assert_ok(write_one(&world, 3));
    static const struct uuid other = {{5, 4, 3, 2, 2}};
    assert_int_equal(checkpoint_read(world.disk, DIR, SHARD, &other, &header, &body, &size).code,
                     STATUS_MISMATCH);
    assert_int_equal(
        checkpoint_read(world.disk, DIR, SHARD + 1, &directory_id, &header, &body, &size).code,
        STATUS_NOT_FOUND);
    assert_null(body);
    sim_destroy(world.sim);
}

/* Writes on until the power goes inside of one; what was written before it must stand. */
static void power_cut_life(struct world *world, uint64_t *synced, uint64_t *tried)
{
    sim_node_doom(world->node, (uint32_t)(sim_random(world->sim) % 40));
    while (!sim_node_is_doomed(world->node)) {
        (*tried)++;
        if (status_is_ok(write_one(world, *tried))) {
            *synced = *tried;
        }
    }
}

static void one_always_survives_power_cuts_and_kills(void **state)
{
    uint32_t older = 0;
    uint32_t newer = 0;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        struct world world = world_create(seed);
        uint64_t synced = 0;
        uint64_t tried = 0;
        for (uint32_t life = 0; life < 12; life++) {
            uint64_t sequence = 0;
            status result = read_one(&world, &sequence);
            if (status_is_ok(result)) {
                assert_true(sequence >= synced);
                assert_true(sequence <= tried);
                older += sequence < tried ? 1 : 0;
                newer += sequence > synced ? 1 : 0;
                synced = sequence;
            } else {
                /* A torn beginning. Nothing was promised yet. */
                assert_int_equal(result.code, STATUS_NOT_FOUND);
                assert_int_equal(synced, 0);
            }
            tried = MAX(synced, sequence);
            if (sim_random(world.sim) % 3 == 0) {
                /* Killed between writes, then the power goes during the next life's first one. */
                sim_node_crash(world.node, true);
                (void)sim_node_start(world.node);
                continue;
            }
            power_cut_life(&world, &synced, &tried);
            sim_node_crash(world.node, false);
            (void)sim_node_start(world.node);
        }
        sim_destroy(world.sim);
    }
    assert_true(older > 50);
    assert_true(newer > 10);
}

static void a_write_that_fails_leaves_the_newest_standing(void **state)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct world world = world_create(seed);
        uint64_t synced = 0;
        for (uint64_t i = 1; i <= 30; i++) {
            struct sim_options failing = {.write_error_chance = 1500, .sync_error_chance = 1500};
            sim_set_options(world.sim, &failing);
            synced = status_is_ok(write_one(&world, i)) ? i : synced;
            static const struct sim_options sound;
            sim_set_options(world.sim, &sound);
            uint64_t sequence = 0;
            status result = read_one(&world, &sequence);
            assert_true(status_is_ok(result) || synced == 0);
            assert_true(sequence >= synced);
            synced = MAX(synced, sequence);
            if (i % 5 == 0) {
                sim_node_crash(world.node, false);
                (void)sim_node_start(world.node);
                sequence = 0;
                result = read_one(&world, &sequence);
                assert_true(status_is_ok(result) || synced == 0);
                assert_int_equal(sequence, synced);
            }
        }
        sim_destroy(world.sim);
    }
}

static void a_dump_names_what_is_in_it(void **state)
{
    struct world world = world_create(1);
    assert_ok(write_one(&world, 5));
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_ok(checkpoint_dump(world.disk, PATHS[0], out));
    assert_int_equal(checkpoint_dump(world.disk, PATHS[1], out).code, STATUS_NOT_FOUND);
    fclose(out);
    assert_non_null(strstr(text, "sequence: 5"));
    assert_non_null(strstr(text, "startLsn: 500"));
    assert_non_null(strstr(text, "generation: 9 firstLsn: 19"));
    free(text);
    assert_ok(sim_disk_rot(world.node, PATHS[0], 8, 1));
    assert_int_equal(checkpoint_dump(world.disk, PATHS[0], stderr).code, STATUS_CORRUPT);
    sim_destroy(world.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_is_read_back_whole),
        cmocka_unit_test(a_damaged_one_gives_way_to_the_older_and_is_replaced_first),
        cmocka_unit_test(none_valid_is_corrupt_when_there_were_two),
        cmocka_unit_test(those_of_another_directory_or_version_are_refused),
        cmocka_unit_test(one_always_survives_power_cuts_and_kills),
        cmocka_unit_test(a_write_that_fails_leaves_the_newest_standing),
        cmocka_unit_test(a_dump_names_what_is_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
