/*
 * A log on a simulated node, with a model of what its callers know: topics that come and go through
 * metadata batches, batches whose records say which append they are, and what was acknowledged.
 */
#ifndef TWINLOG_TEST_LOG_WORLD_H
#define TWINLOG_TEST_LOG_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "log_state.h"
#include "mutation.h"
#include "twinlog/core/trace.h"
#include "twinlog/io/sim.h"

#define WORLD_TOPICS      8
#define WORLD_DIR         "/data"
#define WORLD_BATCH_MAX   4096
#define WORLD_MS          1000000ll
#define WORLD_APPENDS_MAX 4096

struct world;

struct world_append {
    struct log_wait wait;
    struct world *world;
    int topic;
    int generation; /* of the topic */
    int64_t base_offset;
    int64_t tag; /* first 8 bytes of its records */
    bool acked;
    bool failed;
    bool found; /* in the last scan */
};

struct world_topic {
    struct partition *partition;
    int generation;
};

struct world {
    struct sim *sim;
    struct sim_node *node;
    struct io *io;
    struct log *log;
    struct io_timer poke; /* makes a turn of what a test does between turns */
    struct log_options options;
    struct partition_config config;
    struct world_topic topics[WORLD_TOPICS];
    struct world_append *appends;
    int append_count;
    int acked_count;
    int metadata_count; /* batches published in this life */
    int room_count;
    int offline_count;
    int disk_full; /* -1: never told */
    bool close_done;
    status close_result;
    int64_t next_timestamp;
};

#define assert_ok(expression)                                                                      \
    do {                                                                                           \
        status assert_ok_ = (expression);                                                          \
        if (!status_is_ok(assert_ok_)) {                                                           \
            fail_msg("%s: %s", #expression, status_text(assert_ok_));                              \
        }                                                                                          \
    } while (0)

static inline struct sim_options world_sim_options(void)
{
    return (struct sim_options){
        .disk_write_us_min = 50,
        .disk_write_us_max = 300,
        .offload_us_max = 200,
    };
}

static inline struct uuid world_topic_id(int topic, int generation)
{
    return uuid_from_random((uint64_t)topic + 1, (uint64_t)generation + 1);
}

/* ---------------------------------------------------------------- events */

struct world_metadata {
    uint8_t add;
    uint8_t topic;
    uint8_t generation;
};

static inline void world_on_metadata(void *context, struct bytes batch)
{
    struct world *world = context;
    struct batch_header header;
    assert_ok(batch_header_read(batch, &header));
    assert_true(batch_crc_is_valid(batch.data, &header));
    struct record_iterator it;
    struct record record;
    struct world_metadata change;
    record_iterator_init(
        &it, &header,
        (struct bytes){batch.data + BATCH_HEADER_SIZE, header.size - BATCH_HEADER_SIZE});
    while (status_is_ok(record_iterator_next(&it, &record))) {
        assert_int_equal(record.value.size, sizeof(change));
        memcpy(&change, record.value.data, sizeof(change));
        struct world_topic *topic = &world->topics[change.topic];
        if (change.add != 0) {
            char name[16];
            snprintf(name, sizeof(name), "topic%d", change.topic);
            struct uuid id = world_topic_id(change.topic, change.generation);
            assert_null(topic->partition);
            topic->generation = change.generation;
            assert_ok(
                log_partition_add(world->log, name, &id, 0, &world->config, &topic->partition));
        } else {
            assert_non_null(topic->partition);
            log_partition_remove(world->log, topic->partition);
            topic->partition = NULL;
        }
    }
    world->metadata_count++;
}

static inline void world_on_room(void *context)
{
    ((struct world *)context)->room_count++;
}

static inline void world_on_offline(void *context, status why)
{
    (void)why;
    ((struct world *)context)->offline_count++;
}

static inline void world_on_disk_full(void *context, bool full)
{
    ((struct world *)context)->disk_full = full ? 1 : 0;
}

static inline void world_on_closed(void *context, status result)
{
    struct world *world = context;
    world->close_done = true;
    world->close_result = result;
}

/* ---------------------------------------------------------------- life */

static inline struct world *world_create(uint64_t seed, const struct sim_options *sim_options,
                                         uint64_t journal_size)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    world->appends = calloc(WORLD_APPENDS_MAX, sizeof(*world->appends));
    assert_non_null(world->appends);
    world->sim = sim_create(seed, sim_options);
    world->node = sim_node_add(world->sim, "10.0.0.1");
    world->io = sim_node_io(world->node);
    world->config = (struct partition_config){
        .segment_size = 1u << 20, .segment_ms = INT64_MAX, .index_interval_size = 4096};
    world->disk_full = -1;
    world->next_timestamp = 1000;
    world->options = (struct log_options){
        .dir = WORLD_DIR,
        .chunk_size = 64u << 10,
        .chunk_count = 16,
        .frame_size_max = 16u << 10,
        .disk_reserve_size = 1,
        .events = {world_on_metadata, world_on_room, world_on_offline, world_on_disk_full},
    };
    struct log_format_options format = {
        .dir = WORLD_DIR,
        .cluster_id = uuid_from_random(7, 7),
        .node_id = 1,
        .shard_count = 1,
        .journal_size = journal_size,
        .journal_file_count = 4,
    };
    uint64_t random[2] = {sim_random(world->sim), sim_random(world->sim)};
    assert_ok(log_format(io_disk(world->io), &format, random));
    return world;
}

/* Opens the log on the loop that the node has now. */
static inline status world_try_open(struct world *world)
{
    world->options.io = world->io;
    world->options.context = world;
    for (int i = 0; i < WORLD_TOPICS; i++) {
        world->topics[i] = (struct world_topic){0};
    }
    world->metadata_count = 0;
    world->close_done = false;
    status s = log_open(&world->options, &world->log);
    if (status_is_ok(s)) {
        log_check(world->log);
    }
    return s;
}

static inline void world_open(struct world *world)
{
    assert_ok(world_try_open(world));
}

static inline void world_run_ms(struct world *world, int64_t ms)
{
    sim_run(world->sim, ms * WORLD_MS);
    if (world->log != NULL) {
        log_check(world->log);
    }
}

static inline void world_close(struct world *world)
{
    log_close(world->log, world_on_closed, world);
    assert_false(world->close_done);
    for (int i = 0; i < 10000 && !world->close_done; i++) {
        sim_run(world->sim, WORLD_MS);
    }
    assert_true(world->close_done);
    log_destroy(world->log, false);
    world->log = NULL;
}

/* Power cut or kill, and a fresh loop. Waits that were pending never answer. */
static inline void world_crash(struct world *world, bool process_only)
{
    sim_node_crash(world->node, process_only);
    if (world->log != NULL) {
        log_destroy(world->log, true);
        world->log = NULL;
    }
    for (int i = 0; i < world->append_count; i++) {
        world->appends[i].wait.link = (struct list_node){NULL, NULL};
    }
    world->poke = (struct io_timer){0};
    world->io = sim_node_start(world->node);
}

static inline void world_destroy(struct world *world)
{
    if (world->log != NULL) {
        sim_node_crash(world->node, true);
        log_destroy(world->log, true);
    }
    sim_destroy(world->sim);
    free(world->appends);
    free(world);
}

/* ---------------------------------------------------------------- appends */

static inline void world_on_wait(struct log_wait *wait)
{
    struct world_append *append = CONTAINER_OF(wait, struct world_append, wait);
    append->acked = status_is_ok(wait->result);
    append->failed = !append->acked;
    append->world->acked_count += append->acked ? 1 : 0;
}

/* A batch of `count` records whose values begin with `tag`. */
static inline struct bytes world_batch(uint8_t *buffer, int64_t tag, int count, uint32_t value_size,
                                       int64_t timestamp, int64_t producer_id, int32_t sequence)
{
    uint8_t value[WORLD_BATCH_MAX / 2] = {0};
    struct batch_builder builder;
    memcpy(value, &tag, sizeof(tag));
    batch_builder_init(&builder, buffer, WORLD_BATCH_MAX);
    for (int i = 0; i < count; i++) {
        assert_ok(batch_builder_add(&builder, timestamp + i, BYTES_NULL,
                                    (struct bytes){value, MAX(value_size, 8u)}));
    }
    return batch_builder_finish(&builder, producer_id, producer_id < 0 ? -1 : 0, sequence, 0);
}

static inline void world_on_poke(struct io_timer *timer)
{
    (void)timer;
}

static inline struct world_append *world_note(struct world *world, int topic, int64_t tag,
                                              const struct log_appended *appended)
{
    assert_true(world->append_count < WORLD_APPENDS_MAX);
    struct world_append *append = &world->appends[world->append_count++];
    *append = (struct world_append){.world = world,
                                    .topic = topic,
                                    .generation = topic < 0 ? 0 : world->topics[topic].generation,
                                    .base_offset = appended->base_offset,
                                    .tag = tag};
    log_wait_committed(world->log, &append->wait, appended->lsn, world_on_wait);
    io_timer_start(world->io, &world->poke, 0, world_on_poke);
    return append;
}

static inline status world_try_append(struct world *world, int topic, int count,
                                      uint32_t value_size, struct world_append **append)
{
    uint8_t buffer[WORLD_BATCH_MAX];
    struct log_appended appended;
    struct batch_header header;
    int64_t tag = world->append_count + 1;
    struct bytes batch = world_batch(buffer, tag, count, value_size, world->next_timestamp, -1, -1);
    assert_ok(batch_header_read(batch, &header));
    struct partition *partition = world->topics[topic].partition;
    int64_t log_end = log_partition_offsets(partition).log_end;
    TRY(log_append(world->log, partition, batch, &header, &appended));
    assert_int_equal(appended.verdict, LOG_APPENDED);
    assert_int_equal(appended.base_offset, log_end);
    world->next_timestamp += 10;
    struct world_append *noted = world_note(world, topic, tag, &appended);
    if (append != NULL) {
        *append = noted;
    }
    return OK;
}

static inline struct world_append *world_append(struct world *world, int topic)
{
    struct world_append *append = NULL;
    assert_ok(world_try_append(world, topic, 1, 100, &append));
    return append;
}

/* Adds or removes a topic through the metadata partition; takes effect when it is committed. */
static inline status world_try_change(struct world *world, bool add, int topic, int generation)
{
    uint8_t buffer[WORLD_BATCH_MAX];
    struct world_metadata change = {add, (uint8_t)topic, (uint8_t)generation};
    struct batch_builder builder;
    struct batch_header header;
    struct log_appended appended;
    batch_builder_init(&builder, buffer, sizeof(buffer));
    assert_ok(batch_builder_add(&builder, 1, BYTES_NULL,
                                (struct bytes){(const uint8_t *)&change, sizeof(change)}));
    struct bytes batch = batch_builder_finish(&builder, -1, -1, -1, 0);
    assert_ok(batch_header_read(batch, &header));
    TRY(log_append(world->log, log_metadata_partition(world->log), batch, &header, &appended));
    world_note(world, -1, 0, &appended);
    return OK;
}

static inline void world_add(struct world *world, int topic, int generation)
{
    assert_ok(world_try_change(world, true, topic, generation));
    for (int i = 0; i < 1000 && world->topics[topic].partition == NULL; i++) {
        world_run_ms(world, 1);
    }
    assert_non_null(world->topics[topic].partition);
}

static inline void world_remove(struct world *world, int topic)
{
    assert_ok(world_try_change(world, false, topic, 0));
    for (int i = 0; i < 1000 && world->topics[topic].partition != NULL; i++) {
        world_run_ms(world, 1);
    }
    assert_null(world->topics[topic].partition);
}

static inline void world_wait_acked(struct world *world, const struct world_append *append)
{
    for (int i = 0; i < 10000 && !append->acked && !append->failed; i++) {
        sim_run(world->sim, WORLD_MS / 10);
    }
    assert_true(append->acked);
}

/* Runs until everything committed is in segment files and nothing is in a job. */
static inline void world_settle(struct world *world)
{
    for (int i = 0; i < 20000; i++) {
        sim_run(world->sim, WORLD_MS);
        struct log_stats stats;
        log_stats_get(world->log, &stats);
        if (world->log->checkpoint.start.lsn == stats.next_lsn && world->log->job_count == 0) {
            log_check(world->log);
            return;
        }
    }
    fail_msg("the log never came to rest");
}

/* ---------------------------------------------------------------- reads */

static inline void world_on_read(struct log_read *read)
{
    *(bool *)read->context = true;
}

static inline void world_read(struct world *world, int topic, int64_t offset, uint32_t size_max,
                              bool whole_first, struct log_read *read)
{
    bool done = false;
    *read = (struct log_read){.offset = offset,
                              .size_max = size_max,
                              .whole_first = whole_first,
                              .fn = world_on_read,
                              .context = &done};
    if (log_read_start(world->log, world->topics[topic].partition, read)) {
        return;
    }
    assert_false(done);
    for (int i = 0; i < 10000 && !done; i++) {
        sim_run(world->sim, WORLD_MS / 10);
    }
    assert_true(done);
}

/*
 * Reads a partition from its start to its high watermark and calls `fn` with each batch: CRC valid,
 * offsets without a gap. Returns the number of batches.
 */
typedef void (*world_batch_fn)(void *context, const struct batch_header *header, int64_t tag);

static inline int world_scan(struct world *world, int topic, uint32_t size_max, world_batch_fn fn,
                             void *context)
{
    struct partition_offsets offsets = log_partition_offsets(world->topics[topic].partition);
    int64_t offset = offsets.log_start;
    int count = 0;
    while (offset < offsets.high_watermark) {
        struct log_read read;
        world_read(world, topic, offset, size_max, true, &read);
        assert_ok(read.result);
        assert_true(read.size > 0);
        for (uint32_t at = 0; at < read.size;) {
            struct batch_header header;
            struct bytes rest = {read.data + at, read.size - at};
            assert_ok(batch_header_read(rest, &header));
            assert_true(batch_crc_is_valid(rest.data, &header));
            assert_int_equal(header.base_offset, offset);
            struct record_iterator it;
            struct record record;
            int64_t tag = 0;
            record_iterator_init(
                &it, &header,
                (struct bytes){rest.data + BATCH_HEADER_SIZE, header.size - BATCH_HEADER_SIZE});
            assert_ok(record_iterator_next(&it, &record));
            memcpy(&tag, record.value.data, sizeof(tag));
            if (fn != NULL) {
                fn(context, &header, tag);
            }
            offset += (int64_t)header.last_offset_delta + 1;
            at += header.size;
            count++;
        }
        free(read.data);
    }
    assert_true(offset >= offsets.high_watermark); /* It may have moved meanwhile. */
    return count;
}

struct world_verify {
    struct world *world;
    int topic;
};

/* Every batch is the append with its tag, of this topic and generation, at the offset it got. */
static inline void world_verify_batch(void *context, const struct batch_header *header, int64_t tag)
{
    struct world_verify *verify = context;
    assert_true(tag >= 1 && tag <= verify->world->append_count);
    struct world_append *append = &verify->world->appends[tag - 1];
    assert_int_equal(append->topic, verify->topic);
    assert_int_equal(append->generation, verify->world->topics[verify->topic].generation);
    assert_int_equal(append->base_offset, header->base_offset);
    assert_false(append->found);
    append->found = true;
}

/* All acknowledged appends of living topics are there, and nothing that was never appended. */
static inline void world_verify(struct world *world, uint32_t size_max)
{
    for (int i = 0; i < world->append_count; i++) {
        world->appends[i].found = false;
    }
    for (int topic = 0; topic < WORLD_TOPICS; topic++) {
        if (world->topics[topic].partition != NULL) {
            struct world_verify verify = {.world = world, .topic = topic};
            world_scan(world, topic, size_max, world_verify_batch, &verify);
        }
    }
    for (int i = 0; i < world->append_count; i++) {
        const struct world_append *append = &world->appends[i];
        if (append->topic >= 0 && append->acked) {
            const struct world_topic *topic = &world->topics[append->topic];
            bool is_alive = topic->partition != NULL && topic->generation == append->generation;
            assert_true(append->found == is_alive);
        }
    }
}

/*
 * After a recovery and world_verify(): what was not acknowledged and survived is as good as
 * acknowledged; what is gone must never be seen again (topic -2). Returns how many are gone.
 */
static inline int world_settle_lost(struct world *world)
{
    int lost = 0;
    for (int i = 0; i < world->append_count; i++) {
        struct world_append *append = &world->appends[i];
        if (append->topic < 0 || append->acked) {
            continue;
        }
        if (append->found) {
            append->acked = true;
        } else {
            append->topic = -2;
            lost++;
        }
    }
    return lost;
}

#endif
