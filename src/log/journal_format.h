/*
 * The bytes of a journal file. All numbers are little-endian, all checksums CRC32C.
 *
 * A file begins with a header block of 4,096 bytes, written once:
 *   0   u32   magic "TWLJ"
 *   4   u32   checksum of bytes 8..63
 *   8   u32   version, 1
 *   12  u32   shard
 *   16  16 B  directory uuid
 *   32  u32   file index
 *   36  u32   file count
 *   40  u64   file size
 *   48        zero
 *
 * Frames follow. Each starts at a multiple of 4,096 and is padded with zeros to the next one; the
 * padding is in no size and no checksum. No frame crosses the end of its file: one that does not
 * fit in what is left stands at the start of the next file, behind the header block; the file after
 * the last is the first. A ring position is file index * file size + offset in the file.
 *
 * envelope, this node's alone:
 *   0   u32   magic "TWLF"
 *   4   u32   checksum of bytes 8..127
 *   8   16 B  directory uuid
 *   24  u64   generation
 *   32  u64   synced LSN when the write was issued
 *   40  u32   checksum of the replicated part
 *   44  u32   size of the replicated part
 *   48  u32   shard
 *   52        zero
 * replicated part, the same on both nodes:
 *   64  u32   epoch
 *   68  u32   entry count
 *   72  u64   LSN
 *   80  u32   checksum of the previous frame's replicated part, 0 for LSN 1
 *   84  u32   size of the entries
 *   88  u64   committed LSN when the frame was sealed
 *   96  i64   metadata offset that was committed then
 *   104 u32   format version, 1
 *   108       zero
 *   128       entries
 *
 * entry, padded with zeros to a multiple of 8:
 *   0   u32   size, with this header and the padding
 *   4   u8    type (enum journal_entry_type)
 *   5         zero
 *   8   16 B  topic id
 *   24  i32   partition
 *   28  u32   body size
 *   32  i64   offset
 *   40        body
 *
 * The rule of validity (I1). Replay expects one LSN at one position. A frame counts there only when
 * magic and header checksum are right, directory, shard and LSN are the expected ones, its
 * generation is the one that covers this LSN in the checkpoint's list, its previous checksum is
 * that of the frame before, its sizes agree with each other and with the end of the file, and its
 * checksum is right. When there is none, the start of the next file is tried, where only a frame
 * counts that did not fit at the position.
 *
 * The rule of the end (I2). The first position without a valid frame, at LSN n, is the torn tail
 * that a crash may leave, and everything from n on is cut, unless something proves that frame n
 * was synced: a generation that begins above n; or a later frame of the covering generation whose
 * synced LSN at issue is at least n. Its header is proof enough, because the header was written by
 * the same write that named n as synced, whatever became of the rest. Then the journal is corrupt.
 */
#ifndef TWINLOG_LOG_JOURNAL_FORMAT_H
#define TWINLOG_LOG_JOURNAL_FORMAT_H

#include "journal.h"

#define JOURNAL_BLOCK_SIZE        4096u
#define JOURNAL_FILE_MAGIC        0x4a4c5754u /* "TWLJ" */
#define JOURNAL_FRAME_MAGIC       0x464c5754u /* "TWLF" */
#define JOURNAL_VERSION           1u
#define JOURNAL_ENVELOPE_SIZE     64u
#define JOURNAL_FRAME_HEADER_SIZE 128u /* envelope and header of the replicated part */
#define JOURNAL_ENTRY_HEADER_SIZE 40u
#define JOURNAL_ENTRY_ALIGNMENT   8u
#define JOURNAL_PATH_SIZE         4096u

_Static_assert(JOURNAL_BLOCK_SIZE == CHUNK_ALIGNMENT, "a frame starts on a block in a chunk too");
_Static_assert(JOURNAL_FRAME_HEADER_SIZE % JOURNAL_ENTRY_ALIGNMENT == 0, "entries are aligned");
_Static_assert(JOURNAL_ENTRY_HEADER_SIZE % JOURNAL_ENTRY_ALIGNMENT == 0, "bodies are aligned");
_Static_assert(JOURNAL_FRAME_HEADER_SIZE <= 512, "a sector holds the header: it never tears");

struct journal_file_header {
    struct uuid directory_id;
    uint32_t shard;
    uint32_t index;
    uint32_t file_count;
    uint64_t file_size;
};

struct journal_frame_header {
    struct uuid directory_id;
    uint64_t generation;
    uint64_t synced_lsn;
    uint32_t checksum;
    uint32_t replicated_size;
    uint32_t shard;
    uint32_t epoch;
    uint32_t entry_count;
    uint64_t lsn;
    uint32_t previous_checksum;
    uint32_t entries_size;
    uint64_t committed_lsn;
    int64_t metadata_offset;
    uint32_t version;
};

/* "<dir>/journal.<shard>.<index>". False when it does not fit. */
bool journal_path(char path[JOURNAL_PATH_SIZE], const char *dir, uint32_t shard, uint32_t index);

/* OK when equal files of this size make a ring: whole blocks, room for a frame in each. */
MUST_USE status journal_sizes_check(uint64_t file_size, uint32_t file_count);

/* Writes a whole block. */
void journal_file_header_encode(uint8_t block[JOURNAL_BLOCK_SIZE],
                                const struct journal_file_header *header);

/* CORRUPT: not a journal file or damaged; UNSUPPORTED: of a newer version. */
MUST_USE status journal_file_header_decode(const uint8_t block[JOURNAL_BLOCK_SIZE],
                                           struct journal_file_header *header);

/*
 * Completes an open frame whose entries stand in place: replicated header, its checksum, the
 * constant part of the envelope, and zeros from its end to `padded_size`. Sets header->checksum,
 * replicated_size and version. The header checksum is left to journal_frame_issue().
 */
void journal_frame_seal(uint8_t *frame, struct journal_frame_header *header, uint32_t padded_size);

/* The last thing before a frame's write: the synced LSN now, and the header checksum. */
void journal_frame_issue(uint8_t *frame, uint64_t synced_lsn);

/* Reads a header; false when magic or header checksum is wrong. Judges nothing else. */
bool journal_frame_decode(const uint8_t *frame, struct journal_frame_header *header);

/* True when the sizes of a header agree with each other and the frame ends within `room` bytes. */
bool journal_frame_fits(const struct journal_frame_header *header, uint64_t room);

/* Bytes of a frame without padding, and with it. */
static inline uint64_t journal_frame_size(const struct journal_frame_header *header)
{
    return (uint64_t)JOURNAL_ENVELOPE_SIZE + header->replicated_size;
}

static inline uint64_t journal_frame_padded_size(const struct journal_frame_header *header)
{
    return ALIGN_UP(journal_frame_size(header), JOURNAL_BLOCK_SIZE);
}

/* True when the replicated part has the checksum that its envelope says. */
bool journal_frame_is_whole(const uint8_t *frame, const struct journal_frame_header *header);

/* Writes an entry to `to` (8-aligned, journal_entry_size() bytes) and returns its body there. */
uint8_t *journal_entry_encode(uint8_t *to, const struct journal_entry *entry);

#endif
