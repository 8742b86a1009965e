#include "test_log_world.h"

#include "meta_properties.h"

#define META_TEXT                                                                                  \
    "#comment\nversion=1\ncluster.id=AAAAAAAAQACAAAAAAAAABw\nnode.id=3\n"                          \
    "directory.id=AAAAAAAAQACAAAAAAAAACQ\ntwinlog.format.version=1\ntwinlog.shards=2\n"            \
    "twinlog.journal.size=4194304\ntwinlog.journal.files=8\n"

/* ---------------------------------------------------------------- the directory */

static void a_directory_is_formatted_once_and_read_back(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(1, &options, 1u << 20);
    struct log_directory directory;
    assert_ok(log_directory_read(io_disk(world->io), WORLD_DIR, &directory));
    struct uuid cluster = uuid_from_random(7, 7);
    assert_true(uuid_equal(&directory.cluster_id, &cluster));
    assert_int_equal(directory.node_id, 1);
    assert_int_equal(directory.shard_count, 1);
    assert_int_equal(directory.journal_size, 1u << 20);
    assert_int_equal(directory.journal_file_count, 4);
    struct log_format_options format = {.dir = WORLD_DIR,
                                        .cluster_id = cluster,
                                        .node_id = 2,
                                        .shard_count = 1,
                                        .journal_size = 1u << 20,
                                        .journal_file_count = 4};
    uint64_t random[2] = {1, 2};
    assert_int_equal(log_format(io_disk(world->io), &format, random).code, STATUS_EXISTS);
    format.dir = "/other";
    format.shard_count = 65;
    assert_int_equal(log_format(io_disk(world->io), &format, random).code, STATUS_INVALID);
    assert_int_equal(log_directory_read(io_disk(world->io), "/nowhere", &directory).code,
                     STATUS_NOT_FOUND);
    world_destroy(world);
}

static void a_power_cut_while_formatting_leaves_a_directory_that_can_be_formatted(void **state)
{
    struct sim_options options = world_sim_options();
    bool finished = false;
    for (uint32_t count = 0; count < 400 && !finished; count++) {
        struct sim *sim = sim_create(count + 1, &options);
        struct sim_node *node = sim_node_add(sim, "10.0.0.1");
        struct log_format_options format = {.dir = WORLD_DIR,
                                            .cluster_id = uuid_from_random(7, 7),
                                            .node_id = 1,
                                            .shard_count = 1,
                                            .journal_size = 64u << 10,
                                            .journal_file_count = 2};
        uint64_t random[2] = {1, count};
        sim_node_doom(node, count);
        status s = log_format(io_disk(sim_node_io(node)), &format, random);
        finished = status_is_ok(s) && !sim_node_is_doomed(node);
        sim_node_crash(node, false);
        struct io *io = sim_node_start(node);
        struct log_directory directory;
        status there = log_directory_read(io_disk(io), WORLD_DIR, &directory);
        assert_true(status_is_ok(there) || there.code == STATUS_NOT_FOUND);
        assert_true(status_is_ok(there) || !status_is_ok(s));
        if (!status_is_ok(there)) {
            assert_ok(log_format(io_disk(io), &format, random));
        }
        struct world world = {.sim = sim, .node = node, .io = io};
        world.options = (struct log_options){
            .dir = WORLD_DIR,
            .io = io,
            .events = {world_on_metadata, world_on_room, world_on_offline, world_on_disk_full},
            .context = &world};
        assert_ok(log_open(&world.options, &world.log));
        sim_node_crash(node, false);
        log_destroy(world.log, true);
        sim_destroy(sim);
    }
    assert_true(finished);
}

static void meta_properties_are_read_or_the_fault_is_told(void **state)
{
    static const struct {
        const char *text;
        enum status_code code;
    } cases[] = {
        {META_TEXT, STATUS_OK},
        {META_TEXT "unknown.key=1\n !\n\n=\n", STATUS_OK},
        {META_TEXT " node.id = 4 \r\n", STATUS_OK},
        {META_TEXT "twinlog.format.version=2\n", STATUS_UNSUPPORTED},
        {META_TEXT "version=2\n", STATUS_CORRUPT},
        {META_TEXT "node.id=-1\n", STATUS_CORRUPT},
        {META_TEXT "node.id=\n", STATUS_CORRUPT},
        {META_TEXT "node.id=99999999999\n", STATUS_CORRUPT},
        {META_TEXT "cluster.id=short\n", STATUS_CORRUPT},
        {META_TEXT "twinlog.shards=0\n", STATUS_CORRUPT},
        {META_TEXT "twinlog.shards=65\n", STATUS_CORRUPT},
        {"version=1\n", STATUS_CORRUPT},
        {"", STATUS_CORRUPT},
    };
    trace_set_level(TRACE_ERROR);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct log_directory directory;
        status s = meta_properties_parse(cases[i].text, strlen(cases[i].text), "test", &directory);
        assert_int_equal(s.code, cases[i].code);
        if (status_is_ok(s)) {
            assert_int_equal(directory.shard_count, 2);
            assert_in_range(directory.node_id, 3, 4);
        }
    }
}

static void a_log_whose_checkpoints_are_lost_does_not_start_afresh(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(2, &options, 1u << 20);
    world_open(world);
    world_close(world);
    assert_ok(io_path_remove(io_disk(world->io), WORLD_DIR "/checkpoint.0.0"));
    assert_ok(io_path_remove(io_disk(world->io), WORLD_DIR "/checkpoint.0.1"));
    assert_int_equal(world_try_open(world).code, STATUS_CORRUPT);
    assert_null(world->log);
    world_destroy(world);
}

/* ---------------------------------------------------------------- add and remove */

static void a_removed_topic_is_gone_and_its_name_can_be_used_again(void **state)
{
    struct sim_options options = world_sim_options();
    for (int crash = 0; crash < 4; crash++) {
        struct world *world = world_create((uint64_t)crash + 3, &options, 1u << 20);
        world_open(world);
        world_add(world, 0, 0);
        for (int i = 0; i < 20; i++) {
            world_append(world, 0);
        }
        crash % 2 == 0 ? world_settle(world) : world_run_ms(world, 2);
        for (int i = 0; i < 5; i++) {
            world_append(world, 0); /* Written, committed and appended ones at once. */
        }
        world_remove(world, 0);
        world_add(world, 0, 1);
        assert_int_equal(log_partition_offsets(world->topics[0].partition).log_end, 0);
        for (int i = 0; i < 3; i++) {
            world_wait_acked(world, world_append(world, 0));
        }
        world_verify(world, 1u << 20);
        if (crash >= 2) {
            world_crash(world, false);
            world_open(world);
            world_verify(world, 1u << 20);
        }
        world_settle(world);
        world_run_ms(world, 100);
        world_verify(world, 1u << 20);
        world_close(world);
        world_open(world);
        world_verify(world, 1u << 20);
        world_close(world);
        world_destroy(world);
    }
}

struct name_counts {
    int directories;
    int marked;
};

static status name_count(void *context, const char *name)
{
    struct name_counts *counts = context;
    size_t size = strlen(name);
    counts->marked += size > 7 && strcmp(name + size - 7, "-delete") == 0 ? 1 : 0;
    counts->directories += strncmp(name, "topic", 5) == 0 ? 1 : 0;
    return OK;
}

static void directories_of_no_topic_are_deleted_at_the_next_start(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(9, &options, 1u << 20);
    struct io_disk *disk = io_disk(world->io);
    world_open(world);
    world_add(world, 0, 0);
    world_append(world, 0);
    world_settle(world);
    world_close(world);
    assert_ok(io_dir_create(disk, WORLD_DIR "/topic9-0"));
    assert_ok(io_dir_create(disk, WORLD_DIR "/topic8-0.AAAA-delete"));
    assert_ok(io_dir_create(disk, WORLD_DIR "/notes"));
    world_open(world);
    world_run_ms(world, 100);
    struct name_counts counts = {0, 0};
    assert_ok(io_dir_list(disk, WORLD_DIR, name_count, &counts));
    assert_int_equal(counts.directories, 1);
    assert_int_equal(counts.marked, 0);
    assert_int_equal(io_dir_create(disk, WORLD_DIR "/notes").code, STATUS_EXISTS);
    world_verify(world, 1u << 20);
    world_close(world);
    world_open(world);
    world_close(world);
    world_destroy(world);
}

static void a_read_in_flight_of_a_removed_partition_finds_nothing(void **state)
{
    struct sim_options options = world_sim_options();
    options.offload_us_max = 20000;
    struct world *world = world_create(10, &options, 1u << 20);
    world_open(world);
    world_add(world, 0, 0);
    world_append(world, 0);
    world_settle(world);
    world_close(world);
    world_open(world); /* Nothing is in memory. */
    bool done = false;
    struct log_read read = {.size_max = 1000, .fn = world_on_read, .context = &done};
    assert_false(log_read_start(world->log, world->topics[0].partition, &read));
    log_partition_remove(world->log, world->topics[0].partition);
    world->topics[0].partition = NULL;
    for (int i = 0; i < 1000 && !done; i++) {
        world_run_ms(world, 1);
    }
    assert_true(done);
    assert_int_equal(read.result.code, STATUS_NOT_FOUND);
    assert_null(read.data);
    world_crash(world, false);
    world_destroy(world);
}

/* ---------------------------------------------------------------- watches */

struct watcher {
    struct partition_watch watch;
    struct watcher *other; /* taken out when this one is told */
    int moved;
    int removed;
};

static void watcher_on_told(struct partition_watch *watch, bool removed)
{
    struct watcher *watcher = CONTAINER_OF(watch, struct watcher, watch);
    watcher->moved += removed ? 0 : 1;
    watcher->removed += removed ? 1 : 0;
    if (watcher->other != NULL) {
        log_partition_unwatch(&watcher->other->watch);
    }
}

static void watches_are_told_until_they_are_taken_out_or_the_partition_is(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(11, &options, 1u << 20);
    struct watcher watchers[3] = {{.moved = 0}};
    world_open(world);
    world_add(world, 0, 0);
    for (int i = 0; i < 3; i++) {
        watchers[i].watch.fn = watcher_on_told;
        log_partition_watch(world->topics[0].partition, &watchers[i].watch);
    }
    watchers[0].other = &watchers[1];
    world_wait_acked(world, world_append(world, 0));
    world_wait_acked(world, world_append(world, 0));
    assert_int_equal(watchers[0].moved, 2);
    assert_int_equal(watchers[1].moved, 0);
    assert_int_equal(watchers[2].moved, 2);
    world_remove(world, 0);
    assert_int_equal(watchers[0].removed, 1);
    assert_int_equal(watchers[1].removed, 0);
    assert_int_equal(watchers[2].removed, 1);
    log_partition_unwatch(&watchers[2].watch); /* Nothing happens: it is out already. */
    world_close(world);
    world_destroy(world);
}

/* ---------------------------------------------------------------- facts */

static void sizes_and_available_bytes_count_segments_and_tail(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(12, &options, 1u << 20);
    world_open(world);
    world_add(world, 0, 0);
    struct partition *partition = world->topics[0].partition;
    assert_int_equal(log_partition_available(partition, 0), 0);
    world_wait_acked(world, world_append(world, 0));
    uint64_t one = log_partition_size(partition);
    assert_true(one > 100);
    for (int i = 0; i < 9; i++) {
        world_wait_acked(world, world_append(world, 0));
    }
    world_append(world, 0); /* Not committed: not available. */
    assert_int_equal(log_partition_size(partition), 11 * one);
    for (int64_t offset = 0; offset <= 10; offset++) {
        assert_int_equal(log_partition_available(partition, offset), (uint64_t)(10 - offset) * one);
    }
    world_settle(world);
    assert_int_equal(log_partition_size(partition), 11 * one);
    assert_int_equal(log_partition_available(partition, 0), 11 * one);
    assert_int_equal(log_partition_available(partition, 11), 0);
    world_close(world);
    world_open(world);
    partition = world->topics[0].partition;
    assert_int_equal(log_partition_size(partition), 11 * one);
    assert_true(log_partition_available(partition, 3) > 0);
    world_close(world);
    world_destroy(world);
}

static void on_lookup(struct log_time_lookup *lookup)
{
    *(bool *)lookup->context = true;
}

static void look_up(struct world *world, int64_t timestamp, bool find_max,
                    struct log_time_lookup *lookup)
{
    bool done = false;
    *lookup = (struct log_time_lookup){
        .timestamp = timestamp, .find_max = find_max, .fn = on_lookup, .context = &done};
    if (!log_time_lookup_start(world->log, world->topics[0].partition, lookup)) {
        for (int i = 0; i < 10000 && !done; i++) {
            sim_run(world->sim, WORLD_MS / 10);
        }
        assert_true(done);
    }
    assert_ok(lookup->result);
}

/* Batches of two records at 1000 + 10n and one ms later. */
static void check_lookups(struct world *world, int64_t batches, int64_t late_offset)
{
    struct log_time_lookup lookup;
    for (int64_t n = 0; n < batches; n += 7) {
        look_up(world, 1000 + 10 * n, false, &lookup);
        assert_int_equal(lookup.offset, 2 * n);
        assert_int_equal(lookup.found_timestamp, 1000 + 10 * n);
        assert_true(lookup.leader_epoch >= 1);
        look_up(world, 1000 + 10 * n + 1, false, &lookup);
        assert_int_equal(lookup.offset, 2 * n + 1);
    }
    look_up(world, 0, false, &lookup);
    assert_int_equal(lookup.offset, 0);
    look_up(world, INT64_MAX, false, &lookup);
    assert_int_equal(lookup.offset, -1);
    assert_int_equal(lookup.found_timestamp, -1);
    look_up(world, 0, true, &lookup);
    assert_int_equal(lookup.offset, late_offset);
}

static void times_are_looked_up_in_segments_and_tail(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(13, &options, 1u << 20);
    struct log_time_lookup lookup;
    world->config.segment_size = 3000;
    world_open(world);
    world_add(world, 0, 0);
    look_up(world, 0, false, &lookup);
    assert_int_equal(lookup.offset, -1);
    look_up(world, 0, true, &lookup);
    assert_int_equal(lookup.offset, -1);
    for (int i = 0; i < 100; i++) {
        assert_ok(world_try_append(world, 0, 2, 50, NULL));
    }
    world_run_ms(world, 10);
    check_lookups(world, 100, 199); /* All in the tail. */
    world_settle(world);
    check_lookups(world, 100, 199); /* All in segments. */
    for (int i = 0; i < 50; i++) {
        assert_ok(world_try_append(world, 0, 2, 50, NULL));
    }
    world_run_ms(world, 10);
    check_lookups(world, 150, 299); /* Both. */
    world->next_timestamp = 500;    /* A late batch is not the one with the largest timestamp. */
    assert_ok(world_try_append(world, 0, 2, 50, NULL));
    world_run_ms(world, 10);
    check_lookups(world, 150, 299);
    world_close(world);
    world_open(world);
    check_lookups(world, 150, 299); /* Segments whose largest timestamps are not known. */
    check_lookups(world, 150, 299);
    world_close(world);
    world_destroy(world);
}

/* ---------------------------------------------------------------- the checkpoint's body */

static void a_damaged_checkpoint_body_is_refused_and_never_asserted(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(14, &options, 1u << 20);
    world_open(world);
    for (int i = 0; i < 4; i++) {
        world_add(world, i, 0);
        world_append(world, i);
    }
    world_settle(world);
    struct log *log = world->log;
    size_t capacity = log_body_size_max(log);
    uint8_t *body = malloc(capacity);
    uint8_t *copy = malloc(capacity);
    assert_non_null(body);
    assert_non_null(copy);
    size_t size = log_body_encode(log, body);
    assert_true(size <= capacity);
    assert_ok(log_body_decode(log, (struct bytes){body, (uint32_t)size}));
    assert_int_equal(HASH_COUNT(log->recovered), 5);
    log_recovered_free(log);
    for (size_t cut = 1; cut < size; cut++) {
        assert_false(status_is_ok(log_body_decode(log, (struct bytes){body, (uint32_t)cut})));
        log_recovered_free(log);
    }
    for (int i = 0; i < 2000; i++) {
        memcpy(copy, body, size);
        copy[sim_random(world->sim) % size] ^= (uint8_t)(1u << sim_random(world->sim) % 8);
        status s = log_body_decode(log, (struct bytes){copy, (uint32_t)size});
        assert_true(status_is_ok(s) || s.code == STATUS_CORRUPT || s.code == STATUS_UNSUPPORTED);
        log_recovered_free(log);
    }
    free(body);
    free(copy);
    world_close(world);
    world_destroy(world);
}

int main(void)
{
    trace_set_level(TRACE_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_is_formatted_once_and_read_back),
        cmocka_unit_test(a_power_cut_while_formatting_leaves_a_directory_that_can_be_formatted),
        cmocka_unit_test(meta_properties_are_read_or_the_fault_is_told),
        cmocka_unit_test(a_log_whose_checkpoints_are_lost_does_not_start_afresh),
        cmocka_unit_test(a_removed_topic_is_gone_and_its_name_can_be_used_again),
        cmocka_unit_test(directories_of_no_topic_are_deleted_at_the_next_start),
        cmocka_unit_test(a_read_in_flight_of_a_removed_partition_finds_nothing),
        cmocka_unit_test(watches_are_told_until_they_are_taken_out_or_the_partition_is),
        cmocka_unit_test(sizes_and_available_bytes_count_segments_and_tail),
        cmocka_unit_test(times_are_looked_up_in_segments_and_tail),
        cmocka_unit_test(a_damaged_checkpoint_body_is_refused_and_never_asserted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
