#include "journal_format.h"

#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/crc32c.h"
#include "twinlog/core/trace.h"

#define FORMAT_WRITE_SIZE ((size_t)1024 * 1024) /* zeros per write */

/* Where each field stands; see the layout at the head of journal_format.h. */
enum file_field {
    FILE_MAGIC = 0,
    FILE_CHECKSUM = 4,
    FILE_VERSION = 8,
    FILE_SHARD = 12,
    FILE_DIRECTORY_ID = 16,
    FILE_INDEX = 32,
    FILE_COUNT = 36,
    FILE_SIZE = 40,
    FILE_END = 64,
};

enum frame_field {
    FRAME_MAGIC = 0,
    FRAME_HEADER_CHECKSUM = 4,
    FRAME_DIRECTORY_ID = 8,
    FRAME_GENERATION = 24,
    FRAME_SYNCED_LSN = 32,
    FRAME_CHECKSUM = 40,
    FRAME_REPLICATED_SIZE = 44,
    FRAME_SHARD = 48,
    FRAME_ZERO = 52,
    FRAME_EPOCH = 64,
    FRAME_ENTRY_COUNT = 68,
    FRAME_LSN = 72,
    FRAME_PREVIOUS_CHECKSUM = 80,
    FRAME_ENTRIES_SIZE = 84,
    FRAME_COMMITTED_LSN = 88,
    FRAME_METADATA_OFFSET = 96,
    FRAME_VERSION = 104,
    FRAME_ZERO_AGAIN = 108,
    FRAME_ENTRIES = 128,
};

enum entry_field {
    ENTRY_SIZE = 0,
    ENTRY_TYPE = 4,
    ENTRY_ZERO = 5,
    ENTRY_TOPIC_ID = 8,
    ENTRY_PARTITION = 24,
    ENTRY_BODY_SIZE = 28,
    ENTRY_OFFSET = 32,
    ENTRY_BODY = 40,
};

_Static_assert(sizeof(struct uuid) == 16, "an id takes 16 bytes on disk");
_Static_assert((int)FRAME_EPOCH == JOURNAL_ENVELOPE_SIZE, "the replicated part begins here");
_Static_assert((int)FRAME_ENTRIES == JOURNAL_FRAME_HEADER_SIZE, "entries follow the header");
_Static_assert((int)ENTRY_BODY == JOURNAL_ENTRY_HEADER_SIZE, "a body follows its header");
_Static_assert((int)FILE_END <= JOURNAL_BLOCK_SIZE, "the file header has a block of its own");

bool journal_path(char path[JOURNAL_PATH_SIZE], const char *dir, uint32_t shard, uint32_t index)
{
    int size = snprintf(path, JOURNAL_PATH_SIZE, "%s/journal.%u.%u", dir, shard, index);
    return size > 0 && (uint32_t)size < JOURNAL_PATH_SIZE;
}

status journal_sizes_check(uint64_t file_size, uint32_t file_count)
{
    bool whole = file_size % JOURNAL_BLOCK_SIZE == 0 && file_size >= 2ull * JOURNAL_BLOCK_SIZE;
    /* The ring's size must fit in 62 bits, so that positions never come near to overflow. */
    if (!whole || file_count == 0 || file_size > ((uint64_t)1 << 62) / file_count) {
        trace_error("log",
                    "%u journal files of %llu bytes make no ring: choose one or more files of a "
                    "multiple of %u bytes, two of them or more",
                    file_count, (unsigned long long)file_size, JOURNAL_BLOCK_SIZE);
        return STATUS(INVALID);
    }
    return OK;
}

/* ---------------------------------------------------------------- file header */

void journal_file_header_encode(uint8_t block[JOURNAL_BLOCK_SIZE],
                                const struct journal_file_header *header)
{
    memset(block, 0, JOURNAL_BLOCK_SIZE);
    store_le32(block + FILE_MAGIC, JOURNAL_FILE_MAGIC);
    store_le32(block + FILE_VERSION, JOURNAL_VERSION);
    store_le32(block + FILE_SHARD, header->shard);
    memcpy(block + FILE_DIRECTORY_ID, header->directory_id.bytes, sizeof(struct uuid));
    store_le32(block + FILE_INDEX, header->index);
    store_le32(block + FILE_COUNT, header->file_count);
    store_le64(block + FILE_SIZE, header->file_size);
    store_le32(block + FILE_CHECKSUM, crc32c(0, block + FILE_VERSION, FILE_END - FILE_VERSION));
}

status journal_file_header_decode(const uint8_t block[JOURNAL_BLOCK_SIZE],
                                  struct journal_file_header *header)
{
    if (load_le32(block + FILE_MAGIC) != JOURNAL_FILE_MAGIC) {
        return STATUS(CORRUPT);
    }
    uint32_t checksum = crc32c(0, block + FILE_VERSION, FILE_END - FILE_VERSION);
    if (load_le32(block + FILE_CHECKSUM) != checksum) {
        return STATUS(CORRUPT);
    }
    if (load_le32(block + FILE_VERSION) != JOURNAL_VERSION) {
        return STATUS(UNSUPPORTED);
    }
    header->shard = load_le32(block + FILE_SHARD);
    memcpy(header->directory_id.bytes, block + FILE_DIRECTORY_ID, sizeof(struct uuid));
    header->index = load_le32(block + FILE_INDEX);
    header->file_count = load_le32(block + FILE_COUNT);
    header->file_size = load_le64(block + FILE_SIZE);
    return OK;
}

/* ---------------------------------------------------------------- frames */

void journal_frame_seal(uint8_t *frame, struct journal_frame_header *header, uint32_t padded_size)
{
    header->replicated_size =
        JOURNAL_FRAME_HEADER_SIZE - JOURNAL_ENVELOPE_SIZE + header->entries_size;
    header->version = JOURNAL_VERSION;
    uint32_t size = JOURNAL_ENVELOPE_SIZE + header->replicated_size;
    ASSERT(padded_size == ALIGN_UP(size, JOURNAL_BLOCK_SIZE));

    store_le32(frame + FRAME_EPOCH, header->epoch);
    store_le32(frame + FRAME_ENTRY_COUNT, header->entry_count);
    store_le64(frame + FRAME_LSN, header->lsn);
    store_le32(frame + FRAME_PREVIOUS_CHECKSUM, header->previous_checksum);
    store_le32(frame + FRAME_ENTRIES_SIZE, header->entries_size);
    store_le64(frame + FRAME_COMMITTED_LSN, header->committed_lsn);
    store_le64(frame + FRAME_METADATA_OFFSET, (uint64_t)header->metadata_offset);
    store_le32(frame + FRAME_VERSION, header->version);
    memset(frame + FRAME_ZERO_AGAIN, 0, FRAME_ENTRIES - FRAME_ZERO_AGAIN);
    memset(frame + size, 0, padded_size - size);
    header->checksum = crc32c(0, frame + FRAME_EPOCH, header->replicated_size);

    store_le32(frame + FRAME_MAGIC, JOURNAL_FRAME_MAGIC);
    store_le32(frame + FRAME_HEADER_CHECKSUM, 0);
    memcpy(frame + FRAME_DIRECTORY_ID, header->directory_id.bytes, sizeof(struct uuid));
    store_le64(frame + FRAME_GENERATION, header->generation);
    store_le64(frame + FRAME_SYNCED_LSN, 0);
    store_le32(frame + FRAME_CHECKSUM, header->checksum);
    store_le32(frame + FRAME_REPLICATED_SIZE, header->replicated_size);
    store_le32(frame + FRAME_SHARD, header->shard);
    memset(frame + FRAME_ZERO, 0, FRAME_EPOCH - FRAME_ZERO);
}

static uint32_t frame_header_checksum(const uint8_t *frame)
{
    return crc32c(0, frame + FRAME_DIRECTORY_ID, FRAME_ENTRIES - FRAME_DIRECTORY_ID);
}

void journal_frame_issue(uint8_t *frame, uint64_t synced_lsn)
{
    store_le64(frame + FRAME_SYNCED_LSN, synced_lsn);
    store_le32(frame + FRAME_HEADER_CHECKSUM, frame_header_checksum(frame));
}

bool journal_frame_decode(const uint8_t *frame, struct journal_frame_header *header)
{
    if (load_le32(frame + FRAME_MAGIC) != JOURNAL_FRAME_MAGIC ||
        load_le32(frame + FRAME_HEADER_CHECKSUM) != frame_header_checksum(frame)) {
        return false;
    }
    memcpy(header->directory_id.bytes, frame + FRAME_DIRECTORY_ID, sizeof(struct uuid));
    header->generation = load_le64(frame + FRAME_GENERATION);
    header->synced_lsn = load_le64(frame + FRAME_SYNCED_LSN);
    header->checksum = load_le32(frame + FRAME_CHECKSUM);
    header->replicated_size = load_le32(frame + FRAME_REPLICATED_SIZE);
    header->shard = load_le32(frame + FRAME_SHARD);
    header->epoch = load_le32(frame + FRAME_EPOCH);
    header->entry_count = load_le32(frame + FRAME_ENTRY_COUNT);
    header->lsn = load_le64(frame + FRAME_LSN);
    header->previous_checksum = load_le32(frame + FRAME_PREVIOUS_CHECKSUM);
    header->entries_size = load_le32(frame + FRAME_ENTRIES_SIZE);
    header->committed_lsn = load_le64(frame + FRAME_COMMITTED_LSN);
    header->metadata_offset = (int64_t)load_le64(frame + FRAME_METADATA_OFFSET);
    header->version = load_le32(frame + FRAME_VERSION);
    return true;
}

bool journal_frame_fits(const struct journal_frame_header *header, uint64_t room)
{
    uint64_t own_size = JOURNAL_FRAME_HEADER_SIZE - JOURNAL_ENVELOPE_SIZE;
    return header->replicated_size == own_size + header->entries_size &&
           journal_frame_padded_size(header) <= room;
}

bool journal_frame_is_whole(const uint8_t *frame, const struct journal_frame_header *header)
{
    return crc32c(0, frame + FRAME_EPOCH, header->replicated_size) == header->checksum;
}

/* ---------------------------------------------------------------- entries */

uint32_t journal_entry_size(uint32_t body_size)
{
    ASSERT(body_size <= UINT32_MAX - JOURNAL_ENTRY_HEADER_SIZE - JOURNAL_ENTRY_ALIGNMENT);
    return ALIGN_UP(JOURNAL_ENTRY_HEADER_SIZE + body_size, JOURNAL_ENTRY_ALIGNMENT);
}

uint8_t *journal_entry_encode(uint8_t *to, const struct journal_entry *entry)
{
    uint32_t size = journal_entry_size(entry->body.size);
    /* First of all, because the last bytes of the padding may be the last bytes of the body. */
    store_le64(to + size - JOURNAL_ENTRY_ALIGNMENT, 0);
    store_le32(to + ENTRY_SIZE, size);
    to[ENTRY_TYPE] = (uint8_t)entry->type;
    memset(to + ENTRY_ZERO, 0, ENTRY_TOPIC_ID - ENTRY_ZERO);
    memcpy(to + ENTRY_TOPIC_ID, entry->topic_id.bytes, sizeof(struct uuid));
    store_le32(to + ENTRY_PARTITION, (uint32_t)entry->partition);
    store_le32(to + ENTRY_BODY_SIZE, entry->body.size);
    store_le64(to + ENTRY_OFFSET, (uint64_t)entry->offset);
    if (entry->body.size > 0) {
        memcpy(to + ENTRY_BODY, entry->body.data, entry->body.size);
    }
    return to + ENTRY_BODY;
}

bool journal_entry_next(struct bytes *entries, struct journal_entry *entry, bool *malformed)
{
    *malformed = false;
    if (entries->size == 0) {
        return false;
    }
    *malformed = true;
    const uint8_t *at = entries->data;
    if (entries->size < JOURNAL_ENTRY_HEADER_SIZE) {
        return false;
    }
    uint32_t size = load_le32(at + ENTRY_SIZE);
    uint32_t body_size = load_le32(at + ENTRY_BODY_SIZE);
    uint64_t own_size =
        ALIGN_UP((uint64_t)JOURNAL_ENTRY_HEADER_SIZE + body_size, JOURNAL_ENTRY_ALIGNMENT);
    if (size != own_size || size > entries->size) {
        return false;
    }
    if (at[ENTRY_TYPE] < JOURNAL_BATCH || at[ENTRY_TYPE] > JOURNAL_DELETE) {
        return false;
    }
    *malformed = false;
    entry->type = (enum journal_entry_type)at[ENTRY_TYPE];
    memcpy(entry->topic_id.bytes, at + ENTRY_TOPIC_ID, sizeof(struct uuid));
    entry->partition = (int32_t)load_le32(at + ENTRY_PARTITION);
    entry->offset = (int64_t)load_le64(at + ENTRY_OFFSET);
    entry->body = (struct bytes){at + ENTRY_BODY, body_size};
    entries->data += size;
    entries->size -= size;
    return true;
}

/* ---------------------------------------------------------------- format */

/* Zeros are written, not only reserved: later synced writes then change no file system metadata. */
static status format_file_write(struct io_file *file, const struct journal_file_header *header,
                                uint8_t *buffer)
{
    TRY(io_file_lock(file));
    TRY(io_file_truncate(file, 0));
    for (uint64_t at = 0; at < header->file_size; at += FORMAT_WRITE_SIZE) {
        memset(buffer, 0, FORMAT_WRITE_SIZE);
        if (at == 0) {
            journal_file_header_encode(buffer, header);
        }
        uint64_t size = MIN((uint64_t)FORMAT_WRITE_SIZE, header->file_size - at);
        TRY(io_file_write(file, buffer, (size_t)size, at));
    }
    return io_file_sync(file);
}

static status format_file(struct io_disk *disk, const char *dir,
                          const struct journal_file_header *header, uint8_t *buffer)
{
    char path[JOURNAL_PATH_SIZE];
    if (!journal_path(path, dir, header->shard, header->index)) {
        return STATUS(TOO_LARGE);
    }
    struct io_file *file = NULL;
    status result = io_file_open(disk, path, IO_FILE_READ | IO_FILE_WRITE | IO_FILE_CREATE, &file);
    if (status_is_ok(result)) {
        result = format_file_write(file, header, buffer);
        io_file_close(file);
    }
    if (!status_is_ok(result)) {
        trace_error("log", "journal file %s of %llu bytes cannot be prepared: %s", path,
                    (unsigned long long)header->file_size, status_text(result));
    }
    return result;
}

status journal_format(struct io_disk *disk, const char *dir, const struct uuid *directory_id,
                      uint32_t shard, uint64_t file_size, uint32_t file_count)
{
    TRY(journal_sizes_check(file_size, file_count));
    uint8_t *buffer = malloc(FORMAT_WRITE_SIZE);
    if (buffer == NULL) {
        return STATUS(NO_MEMORY);
    }
    status result = OK;
    for (uint32_t i = 0; i < file_count && status_is_ok(result); i++) {
        struct journal_file_header header = {
            .directory_id = *directory_id,
            .shard = shard,
            .index = i,
            .file_count = file_count,
            .file_size = file_size,
        };
        result = format_file(disk, dir, &header, buffer);
    }
    free(buffer);
    if (status_is_ok(result)) {
        result = io_dir_sync(disk, dir);
    }
    return result;
}
