#include "rot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "twinlog/core/bytes.h"

#include "random.h"

#define BLOCK_SIZE  4096u
#define FRAME_MAGIC 0x464c5754u /* "TWLF" */
#define LSN_OFFSET  72u
#define SIZE_OFFSET 44u
#define ROT_SIZE    4u

static void journal_name(char path[64], uint32_t index)
{
    snprintf(path, 64, "/data/twinlog/journal-0-%u", index);
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

/* Where the frame with the highest LSN begins in its file; false: there is none. */
static bool last_frame_find(struct sim_node *node, uint64_t file_size, uint32_t file_count,
                            char path[64], uint64_t *position)
{
    uint64_t lsn_max = 0;
    uint8_t *content = malloc(file_size);
    ASSERT(content != NULL);
    for (uint32_t i = 0; i < file_count; i++) {
        char name[64];
        journal_name(name, i);
        if (!status_is_ok(file_read(node, name, content, (uint32_t)file_size, 0))) {
            continue;
        }
        for (uint64_t at = BLOCK_SIZE; at < file_size; at += BLOCK_SIZE) {
            uint64_t lsn = load_le64(content + at + LSN_OFFSET);
            if (load_le32(content + at) == FRAME_MAGIC && lsn > lsn_max) {
                lsn_max = lsn;
                memcpy(path, name, sizeof(name));
                *position = at;
            }
        }
    }
    free(content);
    return lsn_max > 0;
}

bool rot_make(struct rot *rot, struct sim *sim, struct sim_node *node, uint64_t journal_size,
              uint32_t file_count)
{
    uint64_t file_size = journal_size / file_count;
    rot_fini(rot);
    if (random_chance(sim, 50)) {
        if (!last_frame_find(node, file_size, file_count, rot->path, &rot->position)) {
            return false;
        }
        rot->position += SIZE_OFFSET + random_below(sim, 80);
    } else {
        journal_name(rot->path, random_below(sim, file_count));
        rot->position = BLOCK_SIZE + random_below(sim, (uint32_t)(file_size - 2 * BLOCK_SIZE));
    }
    rot->before = malloc(ROT_SIZE);
    ASSERT(rot->before != NULL);
    if (!status_is_ok(file_read(node, rot->path, rot->before, ROT_SIZE, rot->position)) ||
        !status_is_ok(sim_disk_rot(node, rot->path, rot->position, ROT_SIZE))) {
        rot_fini(rot);
        return false;
    }
    rot->size = ROT_SIZE;
    return true;
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
