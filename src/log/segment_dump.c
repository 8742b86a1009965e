#include "segment_files.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct dump {
    FILE *out;
    bool deep;
    bool print_values;
};

static void text_print(FILE *out, const char *label, struct bytes text)
{
    fprintf(out, " %s: ", label);
    if (bytes_is_null(text)) {
        fputs("null", out);
        return;
    }
    for (uint32_t i = 0; i < text.size; i++) {
        if (isprint(text.data[i]) && text.data[i] != '\\') {
            fputc(text.data[i], out);
        } else {
            fprintf(out, "\\x%02x", text.data[i]);
        }
    }
}

static void record_print(const struct dump *dump, const struct record *record)
{
    fprintf(dump->out, "| offset: %" PRId64 " timestamp: %" PRId64 " keySize: %d valueSize: %d",
            record->offset, record->timestamp,
            bytes_is_null(record->key) ? -1 : (int)record->key.size,
            bytes_is_null(record->value) ? -1 : (int)record->value.size);
    if (dump->print_values) {
        text_print(dump->out, "key", record->key);
        text_print(dump->out, "payload", record->value);
    }
    fputc('\n', dump->out);
}

static status records_print(const struct dump *dump, const struct batch_header *header,
                            struct bytes records)
{
    struct record_iterator it;
    struct record record;
    record_iterator_init(&it, header, records);
    for (;;) {
        status s = record_iterator_next(&it, &record);
        if (s.code == STATUS_NOT_FOUND) {
            return OK;
        }
        TRY(s);
        record_print(dump, &record);
    }
}

static status batch_open_print(const struct dump *dump, const uint8_t *batch,
                               const struct batch_header *header)
{
    if ((header->attributes & BATCH_CODEC_MASK) == CODEC_NONE) {
        return records_print(
            dump, header,
            (struct bytes){batch + BATCH_HEADER_SIZE, header->size - BATCH_HEADER_SIZE});
    }
    uint8_t *buffer = NULL;
    size_t size = 0;
    TRY(batch_decompress(batch, header, SEGMENT_DECOMPRESSED_MAX, &buffer, &size));
    status s = records_print(dump, header, (struct bytes){buffer, (uint32_t)size});
    free(buffer);
    return s;
}

static bool batch_print(const struct dump *dump, const struct batch_header *header,
                        const uint8_t *batch, uint64_t position)
{
    bool valid = batch_crc_is_valid(batch, header);
    fprintf(dump->out,
            "baseOffset: %" PRId64 " lastOffset: %" PRId64
            " count: %d baseSequence: %d producerId: %" PRId64
            " producerEpoch: %d partitionLeaderEpoch: %d isTransactional: %s isControl: %s"
            " position: %" PRIu64 " CreateTime: %" PRId64
            " size: %u magic: %d compresscodec: %s crc: %u isvalid: %s\n",
            header->base_offset, header->base_offset + header->last_offset_delta,
            header->record_count, header->base_sequence, header->producer_id,
            header->producer_epoch, header->leader_epoch,
            header->attributes & BATCH_TRANSACTIONAL ? "true" : "false",
            header->attributes & BATCH_CONTROL ? "true" : "false", position, header->max_timestamp,
            header->size, header->magic,
            codec_name((enum codec)(header->attributes & BATCH_CODEC_MASK)), header->crc,
            valid ? "true" : "false");
    return valid;
}

static status log_walk(const struct dump *dump, struct segment_cursor *cursor)
{
    uint64_t position = 0;
    for (;;) {
        struct batch_header header;
        const uint8_t *batch = NULL;
        status s = segment_cursor_header(cursor, position, &header);
        if (s.code == STATUS_NOT_FOUND) {
            return OK;
        }
        TRY(s);
        TRY(segment_cursor_batch(cursor, position, &header, &batch));
        if (!batch_print(dump, &header, batch, position)) {
            return STATUS(CORRUPT);
        }
        if (dump->deep) {
            TRY(batch_open_print(dump, batch, &header));
        }
        position += header.size;
    }
}

static status file_size_get(struct io_disk *disk, const char *path, uint64_t *size)
{
    struct io_file *file = NULL;
    TRY(io_file_open(disk, path, IO_FILE_READ, &file));
    status s = io_file_size(file, size);
    io_file_close(file);
    return s;
}

static status log_dump_file(const struct dump *dump, struct io_disk *disk, const char *path)
{
    struct segment_cursor cursor;
    uint64_t size = 0;
    TRY(file_size_get(disk, path, &size));
    TRY(segment_cursor_open(&cursor, disk, path, size));
    status s = log_walk(dump, &cursor);
    segment_cursor_close(&cursor);
    return s;
}

static void index_entry_print(FILE *out, const uint8_t *entry, uint32_t entry_size,
                              int64_t base_offset)
{
    if (entry_size == SEGMENT_INDEX_ENTRY_SIZE) {
        fprintf(out, "offset: %" PRId64 " position: %u\n", base_offset + load_be32(entry),
                load_be32(entry + 4));
    } else {
        fprintf(out, "timestamp: %" PRId64 " offset: %" PRId64 "\n", (int64_t)load_be64(entry),
                base_offset + load_be32(entry + 8));
    }
}

static status index_walk(struct io_file *file, uint32_t entry_size, int64_t base_offset, FILE *out)
{
    uint64_t size = 0;
    TRY(io_file_size(file, &size));
    for (uint64_t i = 0; i < size / entry_size; i++) {
        uint8_t entry[SEGMENT_TIME_ENTRY_SIZE];
        TRY(segment_entry_read(file, i, entry_size, entry));
        index_entry_print(out, entry, entry_size, base_offset);
    }
    return size % entry_size == 0 ? OK : STATUS(CORRUPT);
}

static status index_dump_file(struct io_disk *disk, const char *path, uint32_t entry_size,
                              int64_t base_offset, FILE *out)
{
    struct io_file *file = NULL;
    TRY(io_file_open(disk, path, IO_FILE_READ, &file));
    status s = index_walk(file, entry_size, base_offset, out);
    io_file_close(file);
    return s;
}

static bool has_suffix(const char *path, const char *suffix)
{
    size_t size = strlen(path);
    size_t suffix_size = strlen(suffix);
    return size >= suffix_size && strcmp(path + size - suffix_size, suffix) == 0;
}

status segment_dump(struct io_disk *disk, const char *path, bool deep, bool print_values, FILE *out)
{
    const struct dump dump = {out, deep || print_values, print_values};
    const char *name = strrchr(path, '/');
    int64_t base_offset = strtoll(name == NULL ? path : name + 1, NULL, 10);
    if (has_suffix(path, ".timeindex")) {
        return index_dump_file(disk, path, SEGMENT_TIME_ENTRY_SIZE, base_offset, out);
    }
    if (has_suffix(path, ".index")) {
        return index_dump_file(disk, path, SEGMENT_INDEX_ENTRY_SIZE, base_offset, out);
    }
    if (has_suffix(path, ".log")) {
        fprintf(out, "Dumping %s\nLog starting offset: %" PRId64 "\n", path, base_offset);
        return log_dump_file(&dump, disk, path);
    }
    return STATUS(UNSUPPORTED);
}
