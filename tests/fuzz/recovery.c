/*
 * A log directory with arbitrary damage: log_open() gives a status, and a log that did open can be
 * read, appended to, closed and opened again. On the simulated disk, so that a run depends on its
 * input alone.
 *
 *     0  u8   bit 0: checksums are put right after the damage; bit 1: the disk fails at a point
 *     1  u8   for bit 1: the number of blocking disk operations until then
 *     2       damage: {u8 file, u24 position, u8 size, bytes}; size 255: the file ends at position,
 *             254: it is removed, 253: its bytes are replaced by all bytes that follow
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seed.h"
#include "twinlog/core/crc32c.h"
#include "twinlog/core/trace.h"
#include "twinlog/io/sim.h"
#include "twinlog/log/log.h"

#define DIR_PATH           "/data"
#define TOPIC_COUNT        3
#define FILE_COUNT_MAX     48
#define PATH_SIZE          256
#define BATCH_SIZE_MAX     2048u
#define JOURNAL_SIZE       (256u << 10)
#define BLOCK_SIZE         4096u
#define CHECKPOINT_HEAD    2048u
#define NS_PER_MS          1000000LL
#define SEED_SIZE_MAX      1024u
#define DAMAGE_HEADER_SIZE 5u

enum flag { FLAG_MEND = 1, FLAG_DOOM = 2 };
enum damage { DAMAGE_REPLACE = 253, DAMAGE_REMOVE = 254, DAMAGE_CUT = 255 };

struct image_file {
    char path[PATH_SIZE];
    uint8_t *data;
    uint32_t size;
};

/* The undamaged directory, files and folders, made once. */
static struct {
    struct image_file files[FILE_COUNT_MAX];
    uint32_t count;
    char dirs[FILE_COUNT_MAX][PATH_SIZE];
    uint32_t dir_count;
} image;

struct world {
    struct sim *sim;
    struct sim_node *node;
    struct log *log;
    struct partition *partitions[TOPIC_COUNT];
    struct io_timer poke;
    struct log_wait wait;
    bool closed;
};

/* ---------------------------------------------------------------- the log under test */

/* A metadata record's value is the number of the topic that comes to be. */
static void on_metadata(void *context, struct bytes batch)
{
    struct world *world = context;
    struct batch_header header;
    struct record_iterator it;
    struct record record;
    if (!status_is_ok(batch_header_read(batch, &header)) ||
        (header.attributes & BATCH_CODEC_MASK) != CODEC_NONE) {
        return;
    }
    record_iterator_init(
        &it, &header,
        (struct bytes){batch.data + BATCH_HEADER_SIZE, header.size - BATCH_HEADER_SIZE});
    while (status_is_ok(record_iterator_next(&it, &record))) {
        static const struct partition_config config = {
            .segment_size = 1u << 20, .segment_ms = INT64_MAX, .index_interval_size = 256};
        uint32_t topic = record.value.size == 1 ? record.value.data[0] : TOPIC_COUNT;
        if (topic < TOPIC_COUNT && world->partitions[topic] == NULL) {
            char name[] = "topic0";
            struct uuid id = uuid_from_random(topic + 1, topic + 1);
            name[5] = (char)('0' + topic);
            status added =
                log_partition_add(world->log, name, &id, 0, &config, &world->partitions[topic]);
            fuzz_require(status_is_ok(added), "a partition can be added");
        }
    }
}

static void on_room(void *context)
{
    (void)context;
}

static void on_offline(void *context, status why)
{
    (void)context;
    (void)why;
}

static void on_disk_full(void *context, bool full)
{
    (void)context;
    (void)full;
}

static void on_closed(void *context, status result)
{
    (void)result;
    ((struct world *)context)->closed = true;
}

static status open_log(struct world *world)
{
    struct log_options options = {
        .io = sim_node_io(world->node),
        .dir = DIR_PATH,
        .frame_size_max = 16u << 10,
        .chunk_size = 64u << 10,
        .chunk_count = 16,
        .disk_reserve_size = 1,
        .events = {on_metadata, on_room, on_offline, on_disk_full},
        .context = world,
    };
    memset(world->partitions, 0, sizeof(world->partitions));
    status result = log_open(&options, &world->log);
    fuzz_require(status_is_ok(result) == (world->log != NULL), "a log that opened is there");
    return result;
}

static void run_ms(struct world *world, int64_t ms)
{
    sim_run(world->sim, ms * NS_PER_MS);
    if (world->log != NULL) {
        log_check(world->log);
    }
}

static void close_log(struct world *world)
{
    world->closed = false;
    log_close(world->log, on_closed, world);
    for (int i = 0; i < 20000 && !world->closed; i++) {
        sim_run(world->sim, NS_PER_MS);
    }
    fuzz_require(world->closed, "a close ends");
    log_destroy(world->log, false);
    world->log = NULL;
}

static void on_poke(struct io_timer *timer)
{
    (void)timer;
}

static void on_wait(struct log_wait *wait)
{
    *(bool *)wait->context = true;
}

/* Appends one batch and waits until it is synced or has failed. */
static void append(struct world *world, struct partition *partition, const char *value,
                   uint32_t size, int64_t producer_id, int32_t sequence)
{
    uint8_t buffer[BATCH_SIZE_MAX];
    struct batch_builder builder;
    struct batch_header header;
    struct log_appended appended;
    bool done = false;
    batch_builder_init(&builder, buffer, sizeof(buffer));
    status result =
        batch_builder_add(&builder, 1000, BYTES_NULL, (struct bytes){(const uint8_t *)value, size});
    fuzz_require(status_is_ok(result), "a batch fits");
    struct bytes batch =
        batch_builder_finish(&builder, producer_id, producer_id < 0 ? -1 : 0, sequence, 0);
    result = batch_header_read(batch, &header);
    fuzz_require(status_is_ok(result), "a batch has a header");
    result = log_append(world->log, partition, batch, &header, &appended);
    if (!status_is_ok(result) || appended.verdict != LOG_APPENDED) {
        return;
    }
    world->wait = (struct log_wait){.context = &done};
    log_wait_committed(world->log, &world->wait, appended.lsn, on_wait);
    world->poke = (struct io_timer){0};
    io_timer_start(sim_node_io(world->node), &world->poke, 0, on_poke);
    for (int i = 0; i < 10000 && !done; i++) {
        sim_run(world->sim, NS_PER_MS);
    }
    fuzz_require(done, "an append is answered");
    log_check(world->log);
}

static void on_read(struct log_read *read)
{
    *(bool *)read->context = true;
}

/* One read; returns the offset behind what it gave, or -1 at an end or an error. */
static int64_t read_once(struct world *world, struct partition *partition, int64_t offset)
{
    bool done = false;
    struct log_read read = {
        .offset = offset, .size_max = 8192, .whole_first = true, .fn = on_read, .context = &done};
    if (!log_read_start(world->log, partition, &read)) {
        for (int i = 0; i < 10000 && !done; i++) {
            sim_run(world->sim, NS_PER_MS);
        }
        fuzz_require(done, "a read is answered");
    }
    if (!status_is_ok(read.result)) {
        return -1;
    }
    int64_t next = -1;
    struct bytes left = {read.data, read.size};
    struct batch_header header;
    while (left.size > 0 && status_is_ok(batch_header_read(left, &header))) {
        next = header.base_offset + header.last_offset_delta + 1;
        left.data += header.size;
        left.size -= header.size;
    }
    fuzz_require(left.size == 0, "a read gives whole batches");
    free(read.data);
    return next;
}

static void read_all(struct world *world, struct partition *partition)
{
    int64_t offset = log_partition_offsets(partition).log_start;
    for (int i = 0; i < 1000 && offset >= 0; i++) {
        int64_t next = read_once(world, partition, offset);
        fuzz_require(next < 0 || next > offset, "a read moves on");
        offset = next;
    }
}

/* ---------------------------------------------------------------- the image */

static status image_add(void *context, const char *name);

static void image_take(struct io_disk *disk, const char *path)
{
    struct io_file *file;
    uint64_t size;
    size_t got;
    status result = io_file_open(disk, path, IO_FILE_READ, &file);
    fuzz_require(status_is_ok(result) && image.count < FILE_COUNT_MAX, "a file of the image");
    result = io_file_size(file, &size);
    fuzz_require(status_is_ok(result), "its size");
    struct image_file *to = &image.files[image.count++];
    snprintf(to->path, sizeof(to->path), "%s", path);
    to->data = malloc(size + 1);
    to->size = (uint32_t)size;
    result = io_file_read(file, to->data, size, 0, &got);
    fuzz_require(status_is_ok(result) && got == size, "its bytes");
    io_file_close(file);
}

struct image_walk {
    struct io_disk *disk;
    const char *path;
};

/* A name that can be listed is a folder. */
static status image_add(void *context, const char *name)
{
    const struct image_walk *walk = context;
    char path[PATH_SIZE];
    int length = snprintf(path, sizeof(path), "%s/%s", walk->path, name);
    fuzz_require(length > 0 && length < PATH_SIZE, "a path fits");
    struct image_walk below = {walk->disk, path};
    uint32_t dir = image.dir_count;
    snprintf(image.dirs[dir], PATH_SIZE, "%s", path);
    if (strstr(name, ".log") == NULL && strncmp(name, "topic", 5) == 0) {
        image.dir_count++;
        return io_dir_list(walk->disk, path, image_add, &below);
    }
    if (strncmp(name, "__cluster_metadata-", 19) == 0) {
        image.dir_count++;
        return io_dir_list(walk->disk, path, image_add, &below);
    }
    image_take(walk->disk, path);
    return OK;
}

static int image_compare(const void *a, const void *b)
{
    return strcmp(((const struct image_file *)a)->path, ((const struct image_file *)b)->path);
}

static struct world world_create(void)
{
    static const struct sim_options options = {
        .disk_write_us_min = 50, .disk_write_us_max = 100, .offload_us_max = 100};
    struct world world = {.sim = sim_create(1, &options)};
    fuzz_require(world.sim != NULL, "memory");
    world.node = sim_node_add(world.sim, "10.0.0.1");
    return world;
}

/* Topics, idempotent batches, a checkpoint, and batches that are in the journal only. */
static void image_fill(struct world *world)
{
    static char value[1000];
    memset(value, 'v', sizeof(value));
    for (char topic = 0; topic < TOPIC_COUNT; topic++) {
        append(world, log_metadata_partition(world->log), &topic, 1, -1, -1);
    }
    for (int i = 0; i < 12; i++) {
        struct partition *partition = world->partitions[i % TOPIC_COUNT];
        append(world, partition, value, 100U + (uint32_t)i * 50U, i % TOPIC_COUNT == 0 ? 7 : -1,
               i % TOPIC_COUNT == 0 ? i / TOPIC_COUNT : -1);
        if (i == 7) {
            run_ms(world, 5000);
        }
    }
}

static void image_make(void)
{
    struct world world = world_create();
    struct log_format_options format = {
        .dir = DIR_PATH,
        .cluster_id = uuid_from_random(7, 7),
        .node_id = 1,
        .shard_count = 1,
        .journal_size = JOURNAL_SIZE,
        .journal_file_count = 4,
    };
    const uint64_t random[2] = {1, 2};
    status result = log_format(sim_node_disk(world.node), &format, random);
    fuzz_require(status_is_ok(result) && status_is_ok(open_log(&world)), "the image can be made");
    image_fill(&world);
    sim_node_crash(world.node, true);
    log_destroy(world.log, true);
    (void)sim_node_start(world.node);
    struct image_walk walk = {sim_node_disk(world.node), DIR_PATH};
    result = io_dir_list(walk.disk, walk.path, image_add, &walk);
    fuzz_require(status_is_ok(result), "the image can be listed");
    qsort(image.files, image.count, sizeof(image.files[0]), image_compare);
    sim_destroy(world.sim);
}

/* ---------------------------------------------------------------- damage */

struct damaged {
    struct image_file files[FILE_COUNT_MAX];
};

static void damage_one(struct image_file *file, uint32_t position, uint8_t size, struct bytes from)
{
    if (size == DAMAGE_REMOVE) {
        free(file->data);
        file->data = NULL;
        file->size = 0;
    } else if (file->data == NULL) {
        return;
    } else if (size == DAMAGE_CUT) {
        file->size = MIN(file->size, position);
    } else if (size == DAMAGE_REPLACE) {
        file->size = MIN(from.size, JOURNAL_SIZE);
        free(file->data);
        file->data = malloc(file->size + 1U);
        fuzz_require(file->data != NULL, "memory");
        memcpy(file->data, from.data, file->size);
    } else if (file->size > 0) {
        position %= file->size;
        memcpy(file->data + position, from.data,
               MIN(MIN((uint32_t)size, from.size), file->size - position));
    }
}

static void damage_all(struct damaged *damaged, struct bytes input)
{
    for (uint32_t i = 0; i < image.count; i++) {
        damaged->files[i] = image.files[i];
        damaged->files[i].data = malloc(image.files[i].size + 1U);
        fuzz_require(damaged->files[i].data != NULL, "memory");
        memcpy(damaged->files[i].data, image.files[i].data, image.files[i].size);
    }
    while (input.size >= DAMAGE_HEADER_SIZE) {
        struct image_file *file = &damaged->files[input.data[0] % image.count];
        uint32_t position =
            (uint32_t)input.data[1] << 16 | (uint32_t)input.data[2] << 8 | input.data[3];
        uint8_t size = input.data[4];
        input.data += DAMAGE_HEADER_SIZE;
        input.size -= DAMAGE_HEADER_SIZE;
        damage_one(file, position, size, input);
        uint32_t taken = size == DAMAGE_REPLACE ? input.size : size < DAMAGE_REPLACE ? size : 0;
        taken = MIN(taken, input.size);
        input.data += taken;
        input.size -= taken;
    }
}

/* Length and CRC of the batches in a frame, as far as its entries can be walked. */
static void mend_batches(uint8_t *frame, uint32_t size)
{
    uint32_t end = MIN(load_le32(frame + 84), size - 64) + 128;
    for (uint32_t at = 128; at + 40 <= MIN(end, size + 64);) {
        uint8_t *entry = frame + at;
        uint32_t entry_size = load_le32(entry);
        uint32_t body_size = load_le32(entry + 28);
        uint32_t left = size + 64 - at - 40;
        if (body_size >= BATCH_HEADER_SIZE && body_size <= left) {
            store_be32(entry + 40 + 8, body_size - BATCH_LENGTH_OFFSET);
            store_be32(entry + 40 + 17, crc32c(0, entry + 40 + 21, body_size - 21));
        }
        if (entry_size < 40 || entry_size > left + 40) {
            return;
        }
        at += entry_size;
    }
}

/* The checksums of a journal file's header and of each frame, and the chain from frame to frame. */
static void mend_journal(struct image_file *file)
{
    uint64_t lsn = 0;
    uint32_t previous = 0;
    if (file->size >= BLOCK_SIZE) {
        store_le32(file->data + 4, crc32c(0, file->data + 8, 56));
    }
    for (uint32_t at = BLOCK_SIZE; at + BLOCK_SIZE <= file->size; at += BLOCK_SIZE) {
        uint8_t *frame = file->data + at;
        uint32_t size = load_le32(frame + 44);
        if (load_le32(frame) != 0x464c5754u || size > file->size - at - 64) {
            continue;
        }
        if (lsn != 0 && load_le64(frame + 72) == lsn + 1) {
            store_le32(frame + 80, previous);
        }
        if (size >= 64) {
            mend_batches(frame, size);
        }
        lsn = load_le64(frame + 72);
        previous = crc32c(0, frame + 64, size);
        store_le32(frame + 40, previous);
        store_le32(frame + 4, crc32c(0, frame + 8, 120));
    }
}

static void mend_checkpoint(struct image_file *file)
{
    if (file->size >= CHECKPOINT_HEAD) {
        uint64_t size = load_le64(file->data + 72);
        if (size > file->size - CHECKPOINT_HEAD) {
            size = file->size - CHECKPOINT_HEAD;
            store_le64(file->data + 72, size);
        }
        store_le32(file->data + 80, crc32c(0, file->data + CHECKPOINT_HEAD, size));
        store_le32(file->data + 4, crc32c(0, file->data + 8, CHECKPOINT_HEAD - 8));
    }
}

static void damaged_write(struct world *world, const struct damaged *damaged)
{
    struct io_disk *disk = sim_node_disk(world->node);
    bool made = status_is_ok(io_dir_create(disk, DIR_PATH));
    for (uint32_t i = 0; i < image.dir_count; i++) {
        made = made && status_is_ok(io_dir_create(disk, image.dirs[i]));
    }
    fuzz_require(made, "folders can be made");
    for (uint32_t i = 0; i < image.count; i++) {
        struct io_file *file;
        const struct image_file *from = &damaged->files[i];
        if (from->data == NULL) {
            continue;
        }
        status result = io_file_open(disk, from->path, IO_FILE_WRITE | IO_FILE_CREATE, &file);
        fuzz_require(status_is_ok(result), "a file can be made");
        if (from->size > 0) {
            result = io_file_write(file, from->data, from->size, 0);
            fuzz_require(status_is_ok(result), "a file can be written");
        }
        fuzz_require(status_is_ok(io_disk_sync(file)), "the disk can be synced");
        io_file_close(file);
    }
}

/* ---------------------------------------------------------------- a run */

static void use_log(struct world *world)
{
    log_check(world->log);
    run_ms(world, 10);
    read_all(world, log_metadata_partition(world->log));
    for (int i = 0; i < TOPIC_COUNT; i++) {
        if (world->partitions[i] != NULL) {
            read_all(world, world->partitions[i]);
            append(world, world->partitions[i], "again", 5, -1, -1);
            read_all(world, world->partitions[i]);
        }
    }
    run_ms(world, 3000);
    close_log(world);
}

static void run_doomed(struct world *world, uint8_t count)
{
    sim_node_doom(world->node, count);
    bool opened = status_is_ok(open_log(world));
    sim_node_crash(world->node, false);
    if (opened) {
        log_destroy(world->log, true);
        world->log = NULL;
    }
    (void)sim_node_start(world->node);
}

/* A copy of what stands there, which the fuzzer then changes. */
static void seed_bytes(uint8_t file, uint32_t at)
{
    uint8_t seed[SEED_SIZE_MAX];
    char name[64];
    uint32_t size = MIN(250U, image.files[file].size - at);
    const uint8_t head[] = {FLAG_MEND,          0,           file,         (uint8_t)(at >> 16),
                            (uint8_t)(at >> 8), (uint8_t)at, (uint8_t)size};
    memcpy(seed, head, sizeof(head));
    memcpy(seed + sizeof(head), image.files[file].data + at, size);
    snprintf(name, sizeof(name), "file-%u-%u", file, at);
    seed_add(name, seed, sizeof(head) + size);
}

static void seed_file(uint8_t file)
{
    char name[64];
    /* Heads of files, bodies of checkpoints, frames of journals. */
    for (uint32_t at = 0; at < image.files[file].size; at += CHECKPOINT_HEAD) {
        if (at == 0 || load_le32(image.files[file].data + at) != 0) {
            seed_bytes(file, at);
        }
    }
    const uint8_t cut[] = {0, 0, file, 0, (uint8_t)(image.files[file].size >> 9), 0, DAMAGE_CUT};
    snprintf(name, sizeof(name), "cut-%u", file);
    seed_add(name, cut, sizeof(cut));
    const uint8_t doom[] = {FLAG_DOOM, (uint8_t)(3 * file)};
    snprintf(name, sizeof(name), "doom-%u", file);
    seed_add(name, doom, sizeof(doom));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    seed_init(*argc, *argv);
    trace_set_level((enum trace_level)(TRACE_ERROR + 1));
    image_make();
    for (uint8_t file = 0; file < image.count; file++) {
        seed_file(file);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct damaged damaged;
    if (size < 2) {
        return 0;
    }
    damage_all(&damaged, (struct bytes){data + 2, (uint32_t)size - 2});
    for (uint32_t i = 0; i < image.count && (data[0] & FLAG_MEND) != 0; i++) {
        if (strstr(damaged.files[i].path, "/journal") != NULL) {
            mend_journal(&damaged.files[i]);
        } else if (strstr(damaged.files[i].path, "/checkpoint") != NULL) {
            mend_checkpoint(&damaged.files[i]);
        }
    }
    struct world world = world_create();
    damaged_write(&world, &damaged);
    if ((data[0] & FLAG_DOOM) != 0) {
        run_doomed(&world, data[1]);
    }
    if (status_is_ok(open_log(&world))) {
        use_log(&world);
        if (status_is_ok(open_log(&world))) {
            close_log(&world);
        }
    }
    sim_destroy(world.sim);
    for (uint32_t i = 0; i < image.count; i++) {
        free(damaged.files[i].data);
    }
    return 0;
}
