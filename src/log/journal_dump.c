/* Prints a journal file for people: every frame that stands in it, of whatever age. */
#include <inttypes.h>
#include <stdlib.h>

#include "journal.h"
#include "journal_format.h"

static const char *entry_type_name(enum journal_entry_type type)
{
    switch (type) {
    case JOURNAL_BATCH:
        return "batch";
    case JOURNAL_EPOCH:
        return "epoch";
    case JOURNAL_ROLL:
        return "roll";
    case JOURNAL_LOG_START:
        return "log-start";
    case JOURNAL_DELETE:
        return "delete";
    }
    return "unknown";
}

static void dump_entries(const uint8_t *frame, const struct journal_frame_header *header, FILE *out)
{
    struct bytes entries = {frame + JOURNAL_FRAME_HEADER_SIZE, header->entries_size};
    struct journal_entry entry;
    bool malformed = false;
    while (journal_entry_next(&entries, &entry, &malformed)) {
        char topic_id[UUID_TEXT_SIZE];
        uuid_format(&entry.topic_id, topic_id);
        fprintf(out,
                "  entry type: %s topicId: %s partition: %" PRId32 " offset: %" PRId64
                " size: %" PRIu32 "\n",
                entry_type_name(entry.type), topic_id, entry.partition, entry.offset,
                entry.body.size);
    }
    if (malformed) {
        fprintf(out, "  the rest of the entries, %" PRIu32 " bytes, is malformed\n", entries.size);
    }
}

/* Prints the frame at `position`; *size is what to move on by. */
static status dump_frame(struct io_file *file, uint64_t position, uint64_t room,
                         const struct journal_frame_header *header, bool deep, FILE *out,
                         uint64_t *size)
{
    *size = JOURNAL_BLOCK_SIZE;
    const char *judgement = "sizes wrong";
    bool is_whole = false;
    uint8_t *frame = NULL;
    if (header->version != JOURNAL_VERSION) {
        judgement = "of a newer format";
    } else if (journal_frame_fits(header, room)) {
        uint64_t wanted = journal_frame_padded_size(header);
        size_t got = 0;
        frame = malloc(wanted);
        if (frame == NULL) {
            return STATUS(NO_MEMORY);
        }
        status result = io_file_read(file, frame, wanted, position, &got);
        if (!status_is_ok(result)) {
            free(frame);
            return result;
        }
        is_whole = got == wanted && journal_frame_is_whole(frame, header);
        judgement = is_whole ? "whole" : "torn";
        *size = is_whole ? wanted : *size;
    }
    fprintf(out,
            "frame position: %" PRIu64 " lsn: %" PRIu64 " generation: %" PRIu64 " epoch: %" PRIu32
            " entries: %" PRIu32 " size: %" PRIu32 " syncedAtIssue: %" PRIu64 " committed: %" PRIu64
            " metadataOffset: %" PRId64 " previous: %08" PRIx32 " checksum: %08" PRIx32 " %s\n",
            position, header->lsn, header->generation, header->epoch, header->entry_count,
            header->entries_size, header->synced_lsn, header->committed_lsn,
            header->metadata_offset, header->previous_checksum, header->checksum, judgement);
    if (deep && is_whole) {
        dump_entries(frame, header, out);
    }
    free(frame);
    return OK;
}

static status dump_file(struct io_file *file, const char *path, bool deep, FILE *out)
{
    uint8_t block[JOURNAL_BLOCK_SIZE];
    size_t got = 0;
    uint64_t file_size = 0;
    struct journal_file_header file_header;
    TRY(io_file_size(file, &file_size));
    TRY(io_file_read(file, block, sizeof(block), 0, &got));
    if (got != sizeof(block)) {
        return STATUS(CORRUPT);
    }
    TRY(journal_file_header_decode(block, &file_header));
    char directory_id[UUID_TEXT_SIZE];
    uuid_format(&file_header.directory_id, directory_id);
    fprintf(out, "journal %s directoryId: %s shard: %u file: %u of %u size: %" PRIu64 "\n", path,
            directory_id, file_header.shard, file_header.index, file_header.file_count,
            file_header.file_size);
    uint64_t size = 0;
    for (uint64_t at = JOURNAL_BLOCK_SIZE; at + sizeof(block) <= file_size; at += size) {
        struct journal_frame_header header;
        TRY(io_file_read(file, block, sizeof(block), at, &got));
        size = JOURNAL_BLOCK_SIZE;
        if (got == sizeof(block) && journal_frame_decode(block, &header)) {
            TRY(dump_frame(file, at, file_size - at, &header, deep, out, &size));
        } else if (got == sizeof(block) && load_le32(block) == JOURNAL_FRAME_MAGIC) {
            fprintf(out, "frame position: %" PRIu64 " header damaged\n", at);
        }
    }
    return OK;
}

status journal_dump(struct io_disk *disk, const char *path, bool deep, FILE *out)
{
    struct io_file *file = NULL;
    TRY(io_file_open(disk, path, IO_FILE_READ, &file));
    status result = dump_file(file, path, deep, out);
    io_file_close(file);
    return result;
}
