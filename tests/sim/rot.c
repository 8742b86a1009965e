#include "rot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "twinlog/core/bytes.h"
#include "twinlog/log/log.h"
#include "twinlog/protocol/batch.h"

#include "random.h"

/* Of the layouts at the head of src/log/journal_format.h. */
#define BLOCK_SIZE          4096u
#define FRAME_MAGIC         0x464c5754u /* "TWLF" */
#define GENERATION_OFFSET   24u
#define SYNCED_OFFSET       32u
#define CHECKSUM_OFFSET     40u
#define LSN_OFFSET          72u
#define ENTRIES_SIZE_OFFSET 84u
#define FRAME_HEADER_SIZE   128u
#define ENTRY_TYPE_OFFSET   4u
#define ENTRY_TOPIC_OFFSET  8u
#define ENTRY_LOG_START     4u /* a type */

#define ROT_SIZE          4u
#define BATCH_CRC_AT      21u /* of a batch: what is behind it is covered */
#define SEGMENTS_MAX      64u
#define SEGMENT_READ_SIZE 65536u
#define PROVED_FRAMES     28u /* how far below the last one that is proved synced */

static void journal_name(char path[128], uint32_t index)
{
    snprintf(path, 128, "/data/twinlog/journal.0.%u", index);
}

static status file_read(struct sim_node *node, const char *path, void *buffer, uint32_t size,
                        uint64_t position)
{
    struct io_file *file = NULL;
    size_t got = 0;
    TRY(io_file_open(sim_node_disk(node), path, IO_FILE_READ, &file));
    status s = io_file_read(file, buffer, size, position, &got);
    io_file_close(file);
    return status_is_ok(s) && got != size ? STATUS(TRUNCATED) : s;
}

struct frame_place {
    uint32_t file;
    uint64_t position;
    uint64_t lsn;
};

/* The whole journal, file behind file. */
static uint8_t *journal_read(struct sim_node *node, uint64_t file_size, uint32_t file_count)
{
    uint8_t *content = malloc(file_size * file_count);
    ASSERT(content != NULL);
    for (uint32_t i = 0; i < file_count; i++) {
        char name[128];
        journal_name(name, i);
        if (!status_is_ok(file_read(node, name, content + i * file_size, (uint32_t)file_size, 0))) {
            free(content);
            return NULL;
        }
    }
    return content;
}

/* The LSN of the frame that begins at a block; 0: none does. */
static uint64_t frame_lsn(const uint8_t *block)
{
    return load_le32(block) == FRAME_MAGIC ? load_le64(block + LSN_OFFSET) : 0;
}

/* Where the frame with the highest LSN begins; 0: there is none. */
static uint64_t last_frame_find(const uint8_t *content, uint64_t size, uint64_t *position)
{
    uint64_t lsn_max = 0;
    for (uint64_t at = 0; at < size; at += BLOCK_SIZE) {
        uint64_t lsn = frame_lsn(content + at);
        if (lsn > lsn_max) {
            lsn_max = lsn;
            *position = at;
        }
    }
    return lsn_max;
}

/*
 * Losing a creation or deletion after it took effect, its files among that, is beyond what a node
 * alone can repair, and so is a log start: such a frame is let be.
 */
static bool frame_has_effects(const uint8_t *frame, uint64_t room)
{
    uint64_t end = FRAME_HEADER_SIZE + load_le32(frame + ENTRIES_SIZE_OFFSET);
    for (uint64_t at = FRAME_HEADER_SIZE; at < MIN(end, room);) {
        uint32_t size = load_le32(frame + at);
        if (memcmp(frame + at + ENTRY_TOPIC_OFFSET, &log_metadata_topic_id,
                   sizeof(log_metadata_topic_id)) == 0 ||
            frame[at + ENTRY_TYPE_OFFSET] == ENTRY_LOG_START) {
            return true;
        }
        at += MAX(size, 8u);
    }
    return false;
}

/* The highest LSN that some frame calls synced; how far that lags behind the last has no bound. */
static uint64_t proved_lsn(const uint8_t *content, uint64_t size)
{
    uint64_t proved = 0;
    for (uint64_t at = 0; at < size; at += BLOCK_SIZE) {
        if (frame_lsn(content + at) > 0) {
            proved = MAX(proved, load_le64(content + at + SYNCED_OFFSET));
        }
    }
    return proved;
}

/* A place in a frame that a later one proves to have been synced. False: it is gone. */
static bool place_proved(struct sim *sim, const uint8_t *content, uint64_t size, uint64_t *position)
{
    uint64_t lsn = proved_lsn(content, size);
    uint64_t back = random_below(sim, PROVED_FRAMES);
    uint64_t generation = 0;
    for (uint64_t at = 0; at < size && lsn > back; at += BLOCK_SIZE) {
        const uint8_t *frame = content + at;
        if (frame_lsn(frame) == lsn - back && load_le64(frame + GENERATION_OFFSET) > generation) {
            generation = load_le64(frame + GENERATION_OFFSET); /* Others of its LSN were cut. */
            *position = at + random_below(sim, FRAME_HEADER_SIZE);
        }
    }
    return generation > 0;
}

/* A place in the frame that stands last, or far below it. False: not this time. */
static bool place_choose(struct sim *sim, const uint8_t *content, uint64_t size, uint64_t *position,
                         bool *is_last)
{
    uint64_t last = 0;
    uint64_t lsn_max = last_frame_find(content, size, &last);
    if (lsn_max == 0) {
        return false;
    }
    *is_last = random_chance(sim, 50);
    if (*is_last) {
        *position = last + CHECKSUM_OFFSET + random_below(sim, 80);
        return !frame_has_effects(content + last, size - last);
    }
    return place_proved(sim, content, size, position);
}

bool rot_make(struct rot *rot, struct sim *sim, struct sim_node *node, uint64_t journal_size,
              uint32_t file_count)
{
    uint64_t file_size = journal_size / file_count;
    uint64_t position = 0;
    rot_fini(rot);
    uint8_t *content = journal_read(node, file_size, file_count);
    bool is_last = false;
    bool is_found =
        content != NULL && place_choose(sim, content, journal_size, &position, &is_last);
    free(content);
    if (!is_found) {
        return false;
    }
    journal_name(rot->path, (uint32_t)(position / file_size));
    rot->position = position % file_size;
    rot->before = malloc(ROT_SIZE);
    ASSERT(rot->before != NULL);
    if (!status_is_ok(file_read(node, rot->path, rot->before, ROT_SIZE, rot->position)) ||
        !status_is_ok(sim_disk_rot(node, rot->path, rot->position, ROT_SIZE))) {
        rot_fini(rot);
        return false;
    }
    rot->size = ROT_SIZE;
    rot->is_last = is_last;
    return true;
}

/* ---------------------------------------------------------------- segments */

/* The segments of a node, as many as there is room for. */
struct found {
    struct sim_node *node;
    char directory[64];
    char paths[SEGMENTS_MAX][128];
    uint32_t count;
};

static status segment_found(void *context, const char *name)
{
    struct found *found = context;
    size_t size = strlen(name);
    if (size > 4 && strcmp(name + size - 4, ".log") == 0 && found->count < SEGMENTS_MAX) {
        snprintf(found->paths[found->count++], sizeof(found->paths[0]), "%s/%s", found->directory,
                 name);
    }
    return OK;
}

static status directory_found(void *context, const char *name)
{
    struct found *found = context;
    if (strncmp(name, "topic", 5) != 0) {
        return OK;
    }
    snprintf(found->directory, sizeof(found->directory), "/data/twinlog/%.40s", name);
    return io_dir_list(sim_node_disk(found->node), found->directory, segment_found, found);
}

/* A place behind the checksum of some batch near `wanted`; 0: there is none. */
static uint64_t segment_place(const uint8_t *content, uint64_t size, uint64_t wanted)
{
    uint64_t place = 0;
    for (uint64_t at = 0; at + BATCH_HEADER_SIZE < size && at <= wanted;) {
        struct batch_header header;
        if (!status_is_ok(
                batch_header_read((struct bytes){content + at, (uint32_t)(size - at)}, &header)) ||
            !batch_crc_is_valid(content + at, &header)) {
            break;
        }
        uint64_t room = header.size - BATCH_CRC_AT - ROT_SIZE;
        place = at + BATCH_CRC_AT + wanted % room;
        at += header.size;
    }
    return place;
}

bool rot_make_segment(struct rot *rot, struct sim *sim, struct sim_node *node)
{
    struct found *found = calloc(1, sizeof(*found));
    uint8_t *content = malloc(SEGMENT_READ_SIZE);
    struct io_file *file = NULL;
    size_t got = 0;
    ASSERT(found != NULL);
    ASSERT(content != NULL);
    rot_fini(rot);
    found->node = node;
    status s = io_dir_list(sim_node_disk(node), "/data/twinlog", directory_found, found);
    if (status_is_ok(s) && found->count > 0) {
        memcpy(rot->path, found->paths[random_below(sim, found->count)], sizeof(rot->path));
        s = io_file_open(sim_node_disk(node), rot->path, IO_FILE_READ, &file);
    }
    if (file != NULL) {
        s = io_file_read(file, content, SEGMENT_READ_SIZE, 0, &got);
        io_file_close(file);
    }
    rot->position = segment_place(content, got, random_below(sim, SEGMENT_READ_SIZE));
    if (status_is_ok(s) && rot->position > 0 &&
        status_is_ok(sim_disk_rot(node, rot->path, rot->position, ROT_SIZE))) {
        rot->before = malloc(ROT_SIZE);
        ASSERT(rot->before != NULL);
        memcpy(rot->before, content + rot->position, ROT_SIZE);
        rot->size = ROT_SIZE;
    }
    free(content);
    free(found);
    return rot->size > 0;
}

bool rot_is_there(const struct rot *rot)
{
    return rot->size > 0;
}

void rot_undo(struct rot *rot, struct sim_node *node)
{
    struct io_file *file = NULL;
    ASSERT(rot_is_there(rot));
    /* A disk that fails now fails the whole run: options are quiet where this is called. */
    status s = io_file_open(sim_node_disk(node), rot->path, IO_FILE_WRITE, &file);
    if (s.code == STATUS_NOT_FOUND) {
        rot_fini(rot); /* The segment was deleted. */
        return;
    }
    ASSERT(status_is_ok(s));
    s = io_file_write(file, rot->before, rot->size, rot->position);
    ASSERT(status_is_ok(s));
    s = io_file_sync(file);
    ASSERT(status_is_ok(s));
    io_file_close(file);
    rot_fini(rot);
}

void rot_fini(struct rot *rot)
{
    free(rot->before);
    *rot = (struct rot){.size = 0};
}
