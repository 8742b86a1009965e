/*
 * A checkpoint file. All numbers are little-endian, all checksums CRC32C.
 *
 *   0    u32   magic "TWLC"
 *   4    u32   checksum of bytes 8..2047
 *   8    u32   version, 1
 *   12   u32   shard
 *   16   16 B  directory uuid
 *   32   u64   sequence
 *   40   u32   leader epoch
 *   44   u32   flags; 1: clean shutdown
 *   48   u64   start: LSN
 *   56   u64   start: ring position
 *   64   u32   start: checksum of the frame before
 *   68   u32   generation count, at most 64
 *   72   u64   body size
 *   80   u32   checksum of the body
 *   84         zero
 *   128        generations, 24 bytes each, ascending:
 *                0  u64  generation
 *                8  u64  first LSN
 *                16 u32  checksum of the frame before it
 *                20      zero
 *   ...        zero
 *   2048       body; what follows it, from an earlier and longer one, is not part of the file
 *
 * The rule of validity: magic, both checksums, version and counts are right. Of two valid files the
 * one with the higher sequence counts. A write replaces the other one, so that whatever becomes of
 * it, a valid one that was synced before stands.
 */
#include "checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>

#include "twinlog/core/crc32c.h"
#include "twinlog/core/trace.h"

#define CHECKPOINT_MAGIC           0x434c5754u /* "TWLC" */
#define CHECKPOINT_VERSION         1u
#define CHECKPOINT_HEADER_SIZE     2048u
#define CHECKPOINT_PATH_SIZE       4096u
#define CHECKPOINT_CLEAN           1u
#define CHECKPOINT_SPACE_STEP      (32u << 10)
#define CHECKPOINT_GENERATION_SIZE 24u

enum checkpoint_field {
    FIELD_MAGIC = 0,
    FIELD_HEADER_CHECKSUM = 4,
    FIELD_VERSION = 8,
    FIELD_SHARD = 12,
    FIELD_DIRECTORY_ID = 16,
    FIELD_SEQUENCE = 32,
    FIELD_EPOCH = 40,
    FIELD_FLAGS = 44,
    FIELD_LSN = 48,
    FIELD_POSITION = 56,
    FIELD_PREVIOUS_CHECKSUM = 64,
    FIELD_GENERATION_COUNT = 68,
    FIELD_BODY_SIZE = 72,
    FIELD_BODY_CHECKSUM = 80,
    FIELD_GENERATIONS = 128,
};

_Static_assert((int)FIELD_GENERATIONS + JOURNAL_GENERATION_MAX * CHECKPOINT_GENERATION_SIZE <=
                   CHECKPOINT_HEADER_SIZE,
               "the list fits in the header");

/* A file as read: header and body in one buffer. */
struct checkpoint_file {
    struct checkpoint_header header;
    uint8_t *data;
    uint64_t body_size;
};

/* ---------------------------------------------------------------- encoding */

static void checkpoint_encode(uint8_t *to, const struct checkpoint_header *header,
                              struct bytes body)
{
    const struct journal_start *start = &header->start;
    ASSERT(start->generation_count <= JOURNAL_GENERATION_MAX);
    memset(to, 0, CHECKPOINT_HEADER_SIZE);
    store_le32(to + FIELD_MAGIC, CHECKPOINT_MAGIC);
    store_le32(to + FIELD_VERSION, CHECKPOINT_VERSION);
    store_le32(to + FIELD_SHARD, header->shard);
    memcpy(to + FIELD_DIRECTORY_ID, header->directory_id.bytes, sizeof(struct uuid));
    store_le64(to + FIELD_SEQUENCE, header->sequence);
    store_le32(to + FIELD_EPOCH, header->epoch);
    store_le32(to + FIELD_FLAGS, header->clean ? CHECKPOINT_CLEAN : 0);
    store_le64(to + FIELD_LSN, start->lsn);
    store_le64(to + FIELD_POSITION, start->position);
    store_le32(to + FIELD_PREVIOUS_CHECKSUM, start->previous_checksum);
    store_le32(to + FIELD_GENERATION_COUNT, start->generation_count);
    store_le64(to + FIELD_BODY_SIZE, body.size);
    store_le32(to + FIELD_BODY_CHECKSUM, crc32c(0, body.data, body.size));
    uint8_t *at = to + FIELD_GENERATIONS;
    for (uint32_t i = 0; i < start->generation_count; i++, at += CHECKPOINT_GENERATION_SIZE) {
        store_le64(at, start->generations[i].generation);
        store_le64(at + 8, start->generations[i].first_lsn);
        store_le32(at + 16, start->generations[i].previous_checksum);
    }
    store_le32(to + FIELD_HEADER_CHECKSUM,
               crc32c(0, to + FIELD_VERSION, CHECKPOINT_HEADER_SIZE - FIELD_VERSION));
}

/* CORRUPT, or UNSUPPORTED: valid, of a newer version. The body is not looked at. */
static status checkpoint_decode(const uint8_t *from, struct checkpoint_header *header,
                                uint64_t *body_size)
{
    uint32_t checksum = crc32c(0, from + FIELD_VERSION, CHECKPOINT_HEADER_SIZE - FIELD_VERSION);
    if (load_le32(from + FIELD_MAGIC) != CHECKPOINT_MAGIC ||
        load_le32(from + FIELD_HEADER_CHECKSUM) != checksum) {
        return STATUS(CORRUPT);
    }
    if (load_le32(from + FIELD_VERSION) != CHECKPOINT_VERSION) {
        return STATUS(UNSUPPORTED);
    }
    *header = (struct checkpoint_header){
        .sequence = load_le64(from + FIELD_SEQUENCE),
        .shard = load_le32(from + FIELD_SHARD),
        .epoch = load_le32(from + FIELD_EPOCH),
        .clean = (load_le32(from + FIELD_FLAGS) & CHECKPOINT_CLEAN) != 0,
    };
    memcpy(header->directory_id.bytes, from + FIELD_DIRECTORY_ID, sizeof(struct uuid));
    struct journal_start *start = &header->start;
    start->is_clean = header->clean;
    start->lsn = load_le64(from + FIELD_LSN);
    start->position = load_le64(from + FIELD_POSITION);
    start->previous_checksum = load_le32(from + FIELD_PREVIOUS_CHECKSUM);
    start->generation_count = load_le32(from + FIELD_GENERATION_COUNT);
    *body_size = load_le64(from + FIELD_BODY_SIZE);
    if (start->generation_count > JOURNAL_GENERATION_MAX || *body_size > UINT32_MAX) {
        return STATUS(CORRUPT);
    }
    const uint8_t *at = from + FIELD_GENERATIONS;
    for (uint32_t i = 0; i < start->generation_count; i++, at += CHECKPOINT_GENERATION_SIZE) {
        start->generations[i].generation = load_le64(at);
        start->generations[i].first_lsn = load_le64(at + 8);
        start->generations[i].previous_checksum = load_le32(at + 16);
    }
    return OK;
}

/* ---------------------------------------------------------------- one file */

static bool checkpoint_path(char path[CHECKPOINT_PATH_SIZE], const char *dir, uint32_t shard,
                            uint32_t index)
{
    int size = snprintf(path, CHECKPOINT_PATH_SIZE, "%s/checkpoint.%u.%u", dir, shard, index);
    return size > 0 && (uint32_t)size < CHECKPOINT_PATH_SIZE;
}

/* Reads and judges an open file; on OK the caller frees file->data. */
static status checkpoint_file_read(struct io_file *from, struct checkpoint_file *file)
{
    uint8_t head[CHECKPOINT_HEADER_SIZE];
    size_t got = 0;
    uint64_t file_size = 0;
    TRY(io_file_read(from, head, sizeof(head), 0, &got));
    TRY(io_file_size(from, &file_size));
    if (got != sizeof(head)) {
        return STATUS(CORRUPT);
    }
    TRY(checkpoint_decode(head, &file->header, &file->body_size));
    if (file->body_size > file_size - CHECKPOINT_HEADER_SIZE) {
        return STATUS(CORRUPT);
    }
    size_t size = CHECKPOINT_HEADER_SIZE + file->body_size;
    uint8_t *data = malloc(size);
    if (data == NULL) {
        return STATUS(NO_MEMORY);
    }
    status result = io_file_read(from, data, size, 0, &got);
    if (status_is_ok(result)) {
        uint32_t checksum = crc32c(0, data + CHECKPOINT_HEADER_SIZE, file->body_size);
        bool is_same = got == size && memcmp(data, head, sizeof(head)) == 0;
        if (!is_same || checksum != load_le32(head + FIELD_BODY_CHECKSUM)) {
            result = STATUS(CORRUPT);
        }
    }
    if (!status_is_ok(result)) {
        free(data);
        return result;
    }
    file->data = data;
    return OK;
}

static status checkpoint_file_load(struct io_disk *disk, const char *path,
                                   struct checkpoint_file *file)
{
    *file = (struct checkpoint_file){0};
    struct io_file *from = NULL;
    TRY(io_file_open(disk, path, IO_FILE_READ, &from));
    status result = checkpoint_file_read(from, file);
    io_file_close(from);
    return result;
}

/* So that the next ones can be larger even on a full disk. Where it cannot be, the write tells. */
static void checkpoint_space_reserve(struct io_file *file, uint64_t size)
{
    uint64_t ample = ALIGN_UP(size, (uint64_t)CHECKPOINT_SPACE_STEP) + CHECKPOINT_SPACE_STEP;
    if (!status_is_ok(io_file_reserve(file, 0, ample))) {
        trace_debug("log", "no space ahead for a checkpoint of %" PRIu64 " bytes", size);
    }
}

static status checkpoint_file_write(struct io_disk *disk, const char *path, const uint8_t *head,
                                    struct bytes body)
{
    struct io_file *file = NULL;
    TRY(io_file_open(disk, path, IO_FILE_WRITE | IO_FILE_CREATE, &file));
    struct iovec ranges[2] = {
        {.iov_base = (void *)(uintptr_t)head, .iov_len = CHECKPOINT_HEADER_SIZE},
        {.iov_base = (void *)(uintptr_t)body.data, .iov_len = body.size},
    };
    checkpoint_space_reserve(file, (uint64_t)CHECKPOINT_HEADER_SIZE + body.size);
    status result = io_file_writev(file, ranges, body.size == 0 ? 1 : 2, 0);
    if (status_is_ok(result)) {
        result = io_file_sync(file);
    }
    io_file_close(file);
    if (!status_is_ok(result) && result.code != STATUS_NO_SPACE) {
        trace_error("log",
                    "checkpoint %s cannot be written: %s (errno %d); the one beside it holds: look "
                    "at the device, then restart",
                    path, status_text(result), result.sys);
    }
    return result;
}

/* ---------------------------------------------------------------- the pair of files */

struct checkpoint_pair {
    char paths[2][CHECKPOINT_PATH_SIZE];
    struct checkpoint_file files[2];
    status results[2]; /* OK: valid; else why not */
    uint32_t newest;   /* of the valid ones; 0 when there is none */
};

static bool checkpoint_pair_has_one(const struct checkpoint_pair *pair)
{
    return status_is_ok(pair->results[pair->newest]);
}

/* Loads both. A status other than OK means that nothing can be said about them. */
static status checkpoint_pair_load(struct io_disk *disk, const char *dir, uint32_t shard,
                                   struct checkpoint_pair *pair)
{
    for (uint32_t i = 0; i < 2; i++) {
        pair->files[i] = (struct checkpoint_file){0};
        if (!checkpoint_path(pair->paths[i], dir, shard, i)) {
            return STATUS(TOO_LARGE);
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        pair->results[i] = checkpoint_file_load(disk, pair->paths[i], &pair->files[i]);
        enum status_code code = pair->results[i].code;
        if (code != STATUS_OK && code != STATUS_NOT_FOUND && code != STATUS_CORRUPT) {
            trace_error("log", "checkpoint %s cannot be read: %s", pair->paths[i],
                        status_text(pair->results[i]));
            return pair->results[i];
        }
    }
    bool second = status_is_ok(pair->results[1]) &&
                  (!status_is_ok(pair->results[0]) ||
                   pair->files[1].header.sequence > pair->files[0].header.sequence);
    pair->newest = second ? 1 : 0;
    return OK;
}

static void checkpoint_pair_free(struct checkpoint_pair *pair)
{
    free(pair->files[0].data);
    free(pair->files[1].data);
    free(pair);
}

static status checkpoint_pair_write(struct io_disk *disk, const char *dir,
                                    struct checkpoint_pair *pair,
                                    const struct checkpoint_header *header, struct bytes body)
{
    TRY(checkpoint_pair_load(disk, dir, header->shard, pair));
    uint32_t target = 0;
    if (checkpoint_pair_has_one(pair)) {
        if (header->sequence <= pair->files[pair->newest].header.sequence) {
            trace_error("log", "checkpoint %" PRIu64 " would be hidden by %s, which is newer",
                        header->sequence, pair->paths[pair->newest]);
            return STATUS(INVALID);
        }
        target = 1 - pair->newest;
    }
    uint8_t head[CHECKPOINT_HEADER_SIZE];
    checkpoint_encode(head, header, body);
    TRY(checkpoint_file_write(disk, pair->paths[target], head, body));
    /* Always: the name may be new, or from a life that ended before it was synced. */
    return io_dir_sync(disk, dir);
}

status checkpoint_write(struct io_disk *disk, const char *dir,
                        const struct checkpoint_header *header, struct bytes body)
{
    struct checkpoint_pair *pair = calloc(1, sizeof(*pair));
    if (pair == NULL) {
        return STATUS(NO_MEMORY);
    }
    status result = checkpoint_pair_write(disk, dir, pair, header, body);
    checkpoint_pair_free(pair);
    return result;
}

/* Judges what was loaded and secures the newest one. */
static status checkpoint_pair_read(struct io_disk *disk, const char *dir, uint32_t shard,
                                   const struct uuid *directory_id, struct checkpoint_pair *pair)
{
    TRY(checkpoint_pair_load(disk, dir, shard, pair));
    if (!checkpoint_pair_has_one(pair)) {
        /*
         * The second file is made only when the first is valid, so without it the first may be
         * the torn beginning of a life that wrote nothing else. Had it been valid once, there may
         * be frames, and replay without a list of generations takes any frame for damage.
         */
        bool is_new = pair->results[1].code == STATUS_NOT_FOUND;
        if (!is_new) {
            trace_error("log",
                        "neither %s nor the file beside it is a valid checkpoint: restore this "
                        "directory from the other node or a backup",
                        pair->paths[0]);
        }
        return is_new ? STATUS(NOT_FOUND) : STATUS(CORRUPT);
    }
    const struct checkpoint_file *file = &pair->files[pair->newest];
    if (file->header.shard != shard || !uuid_equal(&file->header.directory_id, directory_id)) {
        trace_error("log", "checkpoint %s belongs to another directory or shard: remove the copy",
                    pair->paths[pair->newest]);
        return STATUS(MISMATCH);
    }
    struct bytes body = {file->data + CHECKPOINT_HEADER_SIZE, (uint32_t)file->body_size};
    TRY(checkpoint_file_write(disk, pair->paths[pair->newest], file->data, body));
    return io_dir_sync(disk, dir);
}

status checkpoint_read(struct io_disk *disk, const char *dir, uint32_t shard,
                       const struct uuid *directory_id, struct checkpoint_header *header,
                       uint8_t **body, size_t *body_size)
{
    struct checkpoint_pair *pair = calloc(1, sizeof(*pair));
    if (pair == NULL) {
        return STATUS(NO_MEMORY);
    }
    status result = checkpoint_pair_read(disk, dir, shard, directory_id, pair);
    if (status_is_ok(result)) {
        struct checkpoint_file *file = &pair->files[pair->newest];
        *header = file->header;
        *body_size = (size_t)file->body_size;
        /* The caller gets the buffer itself, its front moved away. */
        memmove(file->data, file->data + CHECKPOINT_HEADER_SIZE, *body_size);
        *body = file->data;
        file->data = NULL;
    }
    checkpoint_pair_free(pair);
    return result;
}

status checkpoint_is_clean(struct io_disk *disk, const char *dir, uint32_t shard, bool *is_clean)
{
    struct checkpoint_pair *pair = calloc(1, sizeof(*pair));
    *is_clean = false;
    if (pair == NULL) {
        return STATUS(NO_MEMORY);
    }
    status result = checkpoint_pair_load(disk, dir, shard, pair);
    if (status_is_ok(result) && checkpoint_pair_has_one(pair)) {
        *is_clean = pair->files[pair->newest].header.clean;
    }
    checkpoint_pair_free(pair);
    return result;
}

/* ---------------------------------------------------------------- dump */

status checkpoint_dump(struct io_disk *disk, const char *path, FILE *out)
{
    struct checkpoint_file file;
    TRY(checkpoint_file_load(disk, path, &file));
    const struct checkpoint_header *header = &file.header;
    const struct journal_start *start = &header->start;
    char directory_id[UUID_TEXT_SIZE];
    uuid_format(&header->directory_id, directory_id);
    fprintf(out,
            "checkpoint %s sequence: %" PRIu64 " directoryId: %s shard: %u epoch: %u clean: %s "
            "startLsn: %" PRIu64 " startPosition: %" PRIu64 " previous: %08" PRIx32
            " bodySize: %" PRIu64 "\n",
            path, header->sequence, directory_id, header->shard, header->epoch,
            header->clean ? "true" : "false", start->lsn, start->position, start->previous_checksum,
            file.body_size);
    for (uint32_t i = 0; i < start->generation_count; i++) {
        fprintf(out, "generation: %" PRIu64 " firstLsn: %" PRIu64 " previous: %08" PRIx32 "\n",
                start->generations[i].generation, start->generations[i].first_lsn,
                start->generations[i].previous_checksum);
    }
    free(file.data);
    return OK;
}
