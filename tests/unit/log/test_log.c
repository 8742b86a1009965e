#include "test_log_world.h"

static void an_append_is_acknowledged_when_its_frame_is_synced(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(1, &options, 1u << 20);
    world_open(world);
    world_add(world, 0, 0);
    struct world_append *append = world_append(world, 0);
    struct partition *partition = world->topics[0].partition;
    assert_int_equal(log_partition_offsets(partition).log_end, 1);
    assert_int_equal(log_partition_offsets(partition).high_watermark, 0);
    assert_false(append->acked);
    world_wait_acked(world, append);
    assert_int_equal(log_partition_offsets(partition).high_watermark, 1);
    world_verify(world, 1u << 20);
    world_close(world);
    assert_true(status_is_ok(world->close_result));
    world_destroy(world);
}

static void nothing_above_the_high_watermark_is_read(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(2, &options, 1u << 20);
    struct log_read read;
    world_open(world);
    world_add(world, 0, 0);
    world_wait_acked(world, world_append(world, 0));
    world_append(world, 0);
    read = (struct log_read){.offset = 0, .size_max = 1u << 20, .whole_first = true};
    assert_true(log_read_start(world->log, world->topics[0].partition, &read));
    struct batch_header header;
    assert_ok(batch_header_read((struct bytes){read.data, read.size}, &header));
    assert_int_equal(header.size, read.size);
    free(read.data);
    world_read(world, 0, 1, 1u << 20, true, &read);
    assert_true(status_is_ok(read.result));
    assert_int_equal(read.size, 0);
    world_read(world, 0, 3, 1u << 20, true, &read);
    assert_int_equal(read.result.code, STATUS_NOT_FOUND);
    world_read(world, 0, -1, 1u << 20, true, &read);
    assert_int_equal(read.result.code, STATUS_NOT_FOUND);
    world_close(world);
    world_destroy(world);
}

static void a_read_keeps_to_its_size_but_for_a_whole_first_batch(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(3, &options, 1u << 20);
    struct log_read read;
    world_open(world);
    world_add(world, 0, 0);
    for (int i = 0; i < 10; i++) {
        world_append(world, 0);
    }
    for (int where = 0; where < 2; where++) {
        if (where == 0) {
            world_run_ms(world, 5);
        } else {
            world_settle(world); /* Now it is read from a segment. */
        }
        world_read(world, 0, 2, 1u << 20, true, &read);
        uint32_t one = read.size / 8;
        free(read.data);
        static const struct {
            uint32_t batches_times_ten;
            bool whole_first;
            uint32_t expected;
        } cases[] = {{0, true, 1},   {0, false, 0},  {9, false, 0}, {9, true, 1},
                     {10, false, 1}, {35, false, 3}, {35, true, 3}, {1000, true, 8}};
        for (size_t i = 0; i < COUNT_OF(cases); i++) {
            world_read(world, 0, 2, cases[i].batches_times_ten * one / 10, cases[i].whole_first,
                       &read);
            assert_true(status_is_ok(read.result));
            assert_int_equal(read.size, cases[i].expected * one);
            free(read.data);
        }
    }
    world_close(world);
    world_destroy(world);
}

static void batches_are_read_from_segments_after_their_chunks_are_gone(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(4, &options, 1u << 20);
    world_open(world);
    world_add(world, 0, 0);
    world_add(world, 1, 0);
    for (int i = 0; i < 300; i++) {
        world_append(world, i % 2);
        world_run_ms(world, i % 16 == 0 ? 2 : 0);
    }
    world_settle(world);
    struct log_stats stats;
    log_stats_get(world->log, &stats);
    assert_true(stats.written_back_bytes > 0);
    assert_true(stats.checkpoints > 0);
    assert_true(stats.chunks_in_use <= 1); /* The one that is being built. */
    world_verify(world, 1u << 20);
    world_verify(world, 500);
    for (int i = 0; i < 20; i++) {
        world_wait_acked(world, world_append(world, i % 2));
    }
    world_verify(world, 700); /* Partly from segments, partly from the tail. */
    world_close(world);
    world_destroy(world);
}

static void the_ring_wraps_many_times(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(5, &options, 256u << 10);
    world_open(world);
    world_add(world, 0, 0);
    int full = 0;
    for (int i = 0; i < 3000; i++) {
        status s = world_try_append(world, 0, 1, 300, NULL);
        if (s.code == STATUS_FULL) {
            full++;
            int before = world->room_count;
            for (int wait = 0; wait < 1000 && world->room_count == before; wait++) {
                world_run_ms(world, 1);
            }
            assert_true(world->room_count > before);
            continue;
        }
        assert_ok(s);
    }
    assert_true(full > 0);
    world_run_ms(world, 100);
    struct log_stats stats;
    log_stats_get(world->log, &stats);
    assert_true(stats.frame_bytes > 3 * stats.journal_size);
    assert_true(stats.checkpoints > 3);
    world_verify(world, 1u << 20);
    world_close(world);
    world_open(world);
    world_verify(world, 1u << 20);
    world_close(world);
    world_destroy(world);
}

static void segments_roll_by_size_and_by_age(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(6, &options, 1u << 20);
    world->config.segment_size = 2000;
    world_open(world);
    world_add(world, 0, 0);
    for (int i = 0; i < 40; i++) {
        world_append(world, 0);
    }
    world_settle(world);
    world->config = (struct partition_config){
        .segment_size = 1u << 20, .segment_ms = 25, .index_interval_size = 4096};
    world_add(world, 1, 0);
    for (int i = 0; i < 40; i++) {
        world_append(world, 1); /* Timestamps are 10 ms apart. */
    }
    world_settle(world);
    world_verify(world, 1u << 20);
    static const struct {
        int topic;
        uint32_t count_min;
        uint32_t count_max;
    } cases[] = {{0, 4, 8}, {1, 10, 14}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct segment *segments = NULL;
        uint32_t count = 0;
        assert_ok(segment_list(io_disk(world->io), world->topics[cases[i].topic].partition->dir,
                               &segments, &count));
        free(segments);
        assert_in_range(count, cases[i].count_min, cases[i].count_max);
    }
    world_close(world);
    world->config.segment_size = 2000;
    world_open(world);
    world_verify(world, 1u << 20); /* Several segments in one read, listed afresh. */
    world_close(world);
    world_destroy(world);
}

static status producer_append_one(struct world *world, int32_t sequence, struct log_appended *out)
{
    uint8_t buffer[WORLD_BATCH_MAX];
    struct batch_header header;
    struct bytes batch =
        world_batch(buffer, world->append_count + 1, 1, 50, world->next_timestamp, 77, sequence);
    assert_ok(batch_header_read(batch, &header));
    status s = log_append(world->log, world->topics[0].partition, batch, &header, out);
    if (status_is_ok(s) && out->verdict == LOG_APPENDED) {
        world_note(world, 0, world->append_count + 1, out);
    }
    return s;
}

static void a_duplicate_gets_the_original_offset_also_after_a_restart(void **state)
{
    struct sim_options options = world_sim_options();
    for (int crash = 0; crash < 3; crash++) {
        struct world *world = world_create(7, &options, 1u << 20);
        struct log_appended first;
        struct log_appended again;
        world_open(world);
        world_add(world, 0, 0);
        for (int32_t i = 0; i < 3; i++) {
            assert_ok(producer_append_one(world, i, &first));
            assert_int_equal(first.verdict, LOG_APPENDED);
            assert_int_equal(first.base_offset, i);
        }
        assert_ok(producer_append_one(world, 2, &again));
        assert_int_equal(again.verdict, LOG_DUPLICATE);
        assert_int_equal(again.base_offset, 2);
        assert_int_equal(again.lsn, first.lsn); /* Not yet committed: the caller waits for it. */
        world_run_ms(world, crash == 1 ? 10 : 5000); /* In the journal, or in a checkpoint. */
        if (crash == 0) {
            world_close(world);
        } else {
            world_crash(world, false);
        }
        world_open(world);
        for (int32_t i = 0; i < 3; i++) {
            assert_ok(producer_append_one(world, i, &again));
            assert_int_equal(again.verdict, LOG_DUPLICATE);
            assert_int_equal(again.base_offset, i);
        }
        assert_ok(producer_append_one(world, 5, &again));
        assert_int_equal(again.verdict, LOG_OUT_OF_ORDER_SEQUENCE);
        assert_ok(producer_append_one(world, 3, &again));
        assert_int_equal(again.verdict, LOG_APPENDED);
        assert_int_equal(again.base_offset, 3);
        world_close(world);
        world_destroy(world);
    }
}

static void a_silent_producer_is_forgotten_and_may_begin_anywhere(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(7, &options, 1u << 20);
    struct log_appended appended;
    world->options.producer_expiration_ms = 60000;
    world->options.producer_check_ms = 1000;
    world_open(world);
    world_add(world, 0, 0);
    world->next_timestamp = io_wall_ms(world->io);
    assert_ok(producer_append_one(world, 0, &appended));
    world_run_ms(world, 50000);
    assert_ok(producer_append_one(world, 0, &appended));
    assert_int_equal(appended.verdict, LOG_DUPLICATE);
    assert_ok(producer_append_one(world, 7, &appended));
    assert_int_equal(appended.verdict, LOG_OUT_OF_ORDER_SEQUENCE);
    world_run_ms(world, 12000);
    assert_int_equal(log_producer_count(world->topics[0].partition), 0);
    assert_ok(producer_append_one(world, 7, &appended));
    assert_int_equal(appended.verdict, LOG_APPENDED);
    world_run_ms(world, 10);
    world_crash(world, false);
    world_open(world); /* The checkpoint may still know it; what was accepted stands. */
    assert_ok(producer_append_one(world, 7, &appended));
    assert_int_equal(appended.verdict, LOG_DUPLICATE);
    assert_ok(producer_append_one(world, 0, &appended));
    assert_int_equal(appended.verdict, LOG_OUT_OF_ORDER_SEQUENCE);
    world_close(world);
    world_destroy(world);
}

static void a_write_error_takes_the_log_offline_and_reads_go_on(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(8, &options, 1u << 20);
    world_open(world);
    world_add(world, 0, 0);
    world_wait_acked(world, world_append(world, 0));
    options.write_error_chance = 10000;
    sim_set_options(world->sim, &options);
    struct world_append *append = world_append(world, 0);
    world_run_ms(world, 50);
    assert_true(append->failed);
    assert_int_equal(world->offline_count, 1);
    assert_int_equal(world_try_append(world, 0, 1, 10, NULL).code, STATUS_OFFLINE);
    struct log_appended old = {.lsn = world->log->committed_lsn};
    struct world_append *known = world_note(world, -1, 0, &old);
    struct log_appended late = {.lsn = world->log->committed_lsn + 1};
    struct world_append *lost = world_note(world, -1, 0, &late);
    world_run_ms(world, 10);
    assert_true(known->acked); /* What was synced stays a fact. */
    assert_true(lost->failed);
    assert_int_equal(world_scan(world, 0, 1u << 20, NULL, NULL), 1);
    world_close(world);
    assert_false(status_is_ok(world->close_result));
    options.write_error_chance = 0;
    sim_set_options(world->sim, &options);
    world_open(world);
    assert_in_range(world_scan(world, 0, 1u << 20, NULL, NULL), 1, 2);
    world_close(world);
    world_destroy(world);
}

static void a_full_disk_stops_write_back_until_there_is_space(void **state)
{
    struct sim_options options = world_sim_options();
    options.disk_size = 3u << 20;
    struct world *world = world_create(9, &options, 1u << 20);
    world->options.disk_reserve_size = 256u << 10;
    world_open(world);
    world_add(world, 0, 0);
    int told = -1;
    for (int i = 0; i < 3000 && told < 0; i++) {
        status s = world_try_append(world, 0, 1, 1000, NULL);
        assert_true(status_is_ok(s) || s.code == STATUS_FULL);
        world_run_ms(world, 1);
        told = world->disk_full == 1 ? i : -1;
    }
    assert_true(told > 0);
    world_verify(world, 1u << 20);
    options.disk_size = 64u << 20;
    sim_set_options(world->sim, &options);
    world_run_ms(world, 3000);
    assert_int_equal(world->disk_full, 0);
    assert_int_equal(world->offline_count, 0);
    world_wait_acked(world, world_append(world, 0));
    world_settle(world);
    world_verify(world, 1u << 20);
    world_close(world);
    world_destroy(world);
}

static uint32_t segments_of(struct world *world, int topic)
{
    struct segment *segments = NULL;
    uint32_t count = 0;
    world_settle(world);
    assert_ok(
        segment_list(io_disk(world->io), world->topics[topic].partition->dir, &segments, &count));
    free(segments);
    return count;
}

static void records_without_timestamps_roll_by_the_clock(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(12, &options, 1u << 20);
    world->config.segment_ms = 3600000;
    world_open(world);
    world_add(world, 0, 0);
    for (int i = 0; i < 6; i++) {
        world->next_timestamp = -1;
        world_wait_acked(world, world_append(world, 0));
        sim_node_jump_clock(world->node, 1500000);
    }
    /* Minutes 0, 25, 50 and 75, 100, 125: the hour counts from the first record of a segment. */
    assert_int_equal(segments_of(world, 0), 2);
    /* A start begins to count anew, as Kafka does. */
    world_crash(world, false);
    world_open(world);
    for (int i = 0; i < 4; i++) {
        world->next_timestamp = -1;
        world_wait_acked(world, world_append(world, 0));
        sim_node_jump_clock(world->node, 1500000);
    }
    assert_int_equal(segments_of(world, 0), 3);
    world_close(world);
    world_destroy(world);
}

static void a_jitter_is_taken_off_the_age_of_each_segment(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(13, &options, 1u << 20);
    world->config.segment_ms = 1000;
    world->config.segment_jitter_ms = 5000; /* At most segment.ms counts. */
    world_open(world);
    world_add(world, 0, 0);
    int64_t started_ms = -1;
    int64_t ages[12];
    int count = 0;
    for (int i = 0; i < 1000 && count < 12; i++) {
        int64_t base = world->topics[0].partition->active.base_offset;
        int64_t at_ms = world->next_timestamp;
        world_wait_acked(world, world_append(world, 0));
        if (world->topics[0].partition->active.base_offset != base) {
            if (started_ms >= 0) {
                ages[count++] = at_ms - started_ms;
            }
            started_ms = at_ms;
        }
    }
    assert_int_equal(count, 12);
    int64_t least = ages[0];
    int64_t most = ages[0];
    for (int i = 0; i < count; i++) {
        assert_true(ages[i] > 0 && ages[i] <= 1010);
        least = MIN(least, ages[i]);
        most = MAX(most, ages[i]);
    }
    assert_true(most - least > 100);
    world_close(world);
    world_destroy(world);
}

static void an_idle_log_makes_no_turns(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(10, &options, 1u << 20);
    struct sim_coverage before;
    struct sim_coverage after;
    world_open(world);
    world_add(world, 0, 0);
    world_wait_acked(world, world_append(world, 0));
    world_settle(world);
    world_run_ms(world, 5000);
    sim_coverage_get(world->sim, &before);
    world_run_ms(world, 600000);
    sim_coverage_get(world->sim, &after);
    assert_int_equal(after.events, before.events);
    world_close(world);
    world_destroy(world);
}

static void a_wait_that_is_cancelled_or_due_runs_never_inside_its_call(void **state)
{
    struct sim_options options = world_sim_options();
    struct world *world = world_create(11, &options, 1u << 20);
    world_open(world);
    world_add(world, 0, 0);
    struct world_append *append = world_append(world, 0);
    log_wait_cancel(&append->wait);
    log_wait_cancel(&append->wait);
    world_run_ms(world, 20);
    assert_false(append->acked);
    struct log_appended again = {.base_offset = 0, .lsn = world->log->committed_lsn};
    struct world_append *due = world_note(world, 0, 1, &again);
    assert_false(due->acked);
    world_run_ms(world, 1);
    assert_true(due->acked);
    world_close(world);
    world_destroy(world);
}

int main(void)
{
    trace_set_level(TRACE_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_append_is_acknowledged_when_its_frame_is_synced),
        cmocka_unit_test(nothing_above_the_high_watermark_is_read),
        cmocka_unit_test(a_read_keeps_to_its_size_but_for_a_whole_first_batch),
        cmocka_unit_test(batches_are_read_from_segments_after_their_chunks_are_gone),
        cmocka_unit_test(the_ring_wraps_many_times),
        cmocka_unit_test(segments_roll_by_size_and_by_age),
        cmocka_unit_test(a_duplicate_gets_the_original_offset_also_after_a_restart),
        cmocka_unit_test(a_silent_producer_is_forgotten_and_may_begin_anywhere),
        cmocka_unit_test(a_write_error_takes_the_log_offline_and_reads_go_on),
        cmocka_unit_test(a_full_disk_stops_write_back_until_there_is_space),
        cmocka_unit_test(records_without_timestamps_roll_by_the_clock),
        cmocka_unit_test(a_jitter_is_taken_off_the_age_of_each_segment),
        cmocka_unit_test(an_idle_log_makes_no_turns),
        cmocka_unit_test(a_wait_that_is_cancelled_or_due_runs_never_inside_its_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
