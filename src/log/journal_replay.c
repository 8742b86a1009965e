/*
 * Reading back: replay by the rule of validity, the search for proof that the end is no torn tail,
 * and the second write of what nothing proves synced. Rules: head of journal_format.h. Bytes from
 * disk are judged here and never asserted.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "journal.h"
#include "journal_internal.h"
#include "mutation.h"
#include "twinlog/core/trace.h"

#define REPLAY_WINDOW_SIZE (1024ull * 1024)
#define REPLAY_PROOF_SIZE  (64ull * 1024 * 1024) /* how far behind the end proof is looked for */
/* After a clean shutdown only a lost newer checkpoint can be proved, by frames right at its end. */
#define REPLAY_PROOF_SIZE_CLEAN (4ull * 1024 * 1024)

struct replay {
    struct journal *journal;
    const struct journal_start *start;
    uint64_t end;        /* virtual: nothing live is here or beyond, it would be below start */
    uint64_t proved_lsn; /* the highest that an accepted frame calls synced */
    uint8_t *window;     /* the bytes [window_position, window_position + window_size) */
    uint64_t window_position;
    uint64_t window_size;
    uint64_t window_capacity;
};

/* A frame that was read and found valid; its bytes live until the next read. */
struct replay_frame {
    struct journal_frame_header header;
    const uint8_t *data;
    uint64_t position;
};

/* ---------------------------------------------------------------- window */

static bool replay_window_grow(struct replay *replay, uint64_t size)
{
    if (size <= replay->window_capacity) {
        return true;
    }
    uint8_t *window = aligned_alloc(JOURNAL_BLOCK_SIZE, size);
    if (window == NULL) {
        return false;
    }
    free(replay->window);
    replay->window = window;
    replay->window_capacity = size;
    replay->window_size = 0;
    return true;
}

/* The bytes at a virtual position, which do not cross the end of its file. Reads ahead. */
static status replay_read(struct replay *replay, uint64_t position, uint64_t size,
                          const uint8_t **data)
{
    const struct journal *journal = replay->journal;
    uint64_t offset = journal_file_offset(journal, position);
    uint64_t room = journal->options.file_size - offset;
    ASSERT(size <= room);
    if (position < replay->window_position ||
        position + size > replay->window_position + replay->window_size) {
        uint64_t wanted = MIN(MAX(size, (uint64_t)REPLAY_WINDOW_SIZE), room);
        if (!replay_window_grow(replay, wanted)) {
            return STATUS(NO_MEMORY);
        }
        uint32_t index = journal_file_index(journal, position);
        size_t got = 0;
        replay->window_size = 0;
        status result = io_file_read(journal->files[index], replay->window, wanted, offset, &got);
        if (status_is_ok(result) && got != wanted) {
            result = STATUS(CORRUPT);
        }
        if (!status_is_ok(result)) {
            trace_error("log", "%s/journal.%u.%u cannot be read at %" PRIu64 ": %s", journal->dir,
                        journal->options.shard, index, offset, status_text(result));
            return result;
        }
        replay->window_position = position;
        replay->window_size = wanted;
    }
    *data = replay->window + (position - replay->window_position);
    return OK;
}

/* ---------------------------------------------------------------- the rule of validity */

static bool replay_generation_is_right(const struct replay *replay,
                                       const struct journal_frame_header *header)
{
    const struct journal_generation *generation =
        journal_generation_find(replay->start, header->lsn);
    return generation != NULL && generation->generation == header->generation;
}

static bool replay_is_ours(const struct journal *journal, const struct journal_frame_header *header)
{
    return uuid_equal(&header->directory_id, &journal->options.directory_id) &&
           header->shard == journal->options.shard;
}

/*
 * Looks for the frame of next_lsn at a position. UNSUPPORTED: it stands there in a newer format.
 */
static status replay_judge(struct replay *replay, uint64_t position, uint64_t room,
                           struct replay_frame *frame, bool *is_valid)
{
    const struct journal *journal = replay->journal;
    struct journal_frame_header *header = &frame->header;
    *is_valid = false;
    TRY(replay_read(replay, position, JOURNAL_BLOCK_SIZE, &frame->data));
    if (!journal_frame_decode(frame->data, header) || !replay_is_ours(journal, header) ||
        header->lsn != journal->next_lsn) {
        return OK;
    }
    if (!replay_generation_is_right(replay, header) && !log_mutation_is(MUTATION_ANY_GENERATION)) {
        return OK;
    }
    if (header->version != JOURNAL_VERSION) {
        trace_error("log",
                    "frame %" PRIu64 " of the journal in %s has format %u and this program reads "
                    "up to %u: start the newer release that wrote it",
                    header->lsn, journal->dir, header->version, JOURNAL_VERSION);
        return STATUS(UNSUPPORTED);
    }
    if (header->previous_checksum != journal->last_checksum || !journal_frame_fits(header, room)) {
        return OK;
    }
    frame->position = position;
    TRY(replay_read(replay, position, journal_frame_padded_size(header), &frame->data));
    *is_valid = journal_frame_is_whole(frame->data, header);
    return OK;
}

/* Finds the next frame: at the head or, when it did not fit there, at the next file's start. */
static status replay_find(struct replay *replay, struct replay_frame *frame, bool *found)
{
    const struct journal *journal = replay->journal;
    uint64_t file_size = journal->options.file_size;
    uint64_t here = journal_place(journal, journal->head, JOURNAL_BLOCK_SIZE);
    uint64_t room_here = file_size - journal_file_offset(journal, here);
    *found = false;
    if (here + JOURNAL_BLOCK_SIZE <= replay->end) {
        TRY(replay_judge(replay, here, MIN(room_here, replay->end - here), frame, found));
    }
    uint64_t there = here + room_here + JOURNAL_BLOCK_SIZE;
    if (*found || there + JOURNAL_BLOCK_SIZE > replay->end) {
        return OK;
    }
    uint64_t room_there = MIN(file_size - JOURNAL_BLOCK_SIZE, replay->end - there);
    TRY(replay_judge(replay, there, room_there, frame, found));
    *found = *found && journal_frame_padded_size(&frame->header) > room_here;
    return OK;
}

static status replay_accept(struct replay *replay, const struct replay_frame *frame,
                            journal_replay_fn fn, void *context)
{
    struct journal *journal = replay->journal;
    const struct journal_frame_header *header = &frame->header;
    if (!journal_slots_reserve(journal, 1)) {
        return STATUS(NO_MEMORY);
    }
    struct journal_frame view = {
        .lsn = header->lsn,
        .epoch = header->epoch,
        .committed_lsn = header->committed_lsn,
        .metadata_offset = header->metadata_offset,
        .entry_count = header->entry_count,
        .entries = {frame->data + JOURNAL_FRAME_HEADER_SIZE, header->entries_size},
        .position = frame->position % journal->ring_size,
    };
    status result = fn(context, &view);
    if (!status_is_ok(result)) {
        return result;
    }
    struct journal_slot slot = {
        .position = frame->position,
        .size = (uint32_t)journal_frame_padded_size(header),
        .checksum = header->checksum,
    };
    journal_slot_push(journal, &slot);
    replay->proved_lsn = MAX(replay->proved_lsn, header->synced_lsn);
    return OK;
}

/* ---------------------------------------------------------------- the rule of the end */

/* Says what is damaged, where, and what to do; the frames [next_lsn, lsn_end) are concerned. */
static status replay_corrupt(const struct replay *replay, uint64_t lsn_end, const char *proof)
{
    const struct journal *journal = replay->journal;
    uint64_t here = journal_place(journal, journal->head, JOURNAL_BLOCK_SIZE);
    trace_error("log",
                "%s/journal.%u.%u is damaged at %" PRIu64 ": no valid frame %" PRIu64
                ", and %s proves that it was synced; frames [%" PRIu64 ", %" PRIu64
                ") cannot be recovered here and nothing was cut: restore this directory from the "
                "other node or a backup",
                journal->dir, journal->options.shard, journal_file_index(journal, here),
                journal_file_offset(journal, here), journal->next_lsn, proof, journal->next_lsn,
                lsn_end);
    return STATUS(CORRUPT);
}

/* Judges one later header. A generation above the list's was begun by a checkpoint now lost. */
static status replay_proof_judge(const struct replay *replay,
                                 const struct journal_frame_header *header)
{
    const struct journal_start *start = replay->start;
    uint64_t highest = 0;
    for (uint32_t i = 0; i < start->generation_count; i++) {
        highest = MAX(highest, start->generations[i].generation);
    }
    uint64_t lsn = replay->journal->next_lsn;
    if (header->generation > highest) {
        return replay_corrupt(replay, MAX(header->lsn, lsn) + 1,
                              "a frame of a generation that the checkpoint does not know");
    }
    if (header->lsn > lsn && header->synced_lsn >= lsn &&
        replay_generation_is_right(replay, header)) {
        return replay_corrupt(replay, header->lsn, "a later frame");
    }
    return OK;
}

/* CORRUPT when something proves that the frame missing at the head was synced (I2). */
static status replay_prove_tail(struct replay *replay)
{
    const struct journal *journal = replay->journal;
    for (uint32_t i = 0; i < replay->start->generation_count; i++) {
        uint64_t first_lsn = replay->start->generations[i].first_lsn;
        if (first_lsn > journal->next_lsn) {
            return replay_corrupt(replay, first_lsn, "a generation that begins above");
        }
    }
    uint64_t position = ALIGN_UP(journal->head, (uint64_t)JOURNAL_BLOCK_SIZE);
    bool is_clean = replay->start->is_clean && journal->next_lsn == replay->start->lsn;
    uint64_t size = is_clean ? REPLAY_PROOF_SIZE_CLEAN : REPLAY_PROOF_SIZE;
    uint64_t end = MIN(replay->end, position + size);
    for (; position < end; position += JOURNAL_BLOCK_SIZE) {
        if (journal_file_offset(journal, position) == 0) {
            continue;
        }
        const uint8_t *data = NULL;
        struct journal_frame_header header;
        TRY(replay_read(replay, position, JOURNAL_BLOCK_SIZE, &data));
        if (journal_frame_decode(data, &header) && replay_is_ours(journal, &header)) {
            TRY(replay_proof_judge(replay, &header));
        }
    }
    return OK;
}

/* ---------------------------------------------------------------- durability */

static status replay_rewrite(struct replay *replay, uint64_t lsn)
{
    const struct journal *journal = replay->journal;
    const struct journal_slot *slot = journal_slot_at(journal, lsn);
    const uint8_t *data = NULL;
    TRY(replay_read(replay, slot->position, slot->size, &data));
    struct journal_frame_header header;
    if (!journal_frame_decode(data, &header) || header.checksum != slot->checksum ||
        !journal_frame_fits(&header, slot->size) || !journal_frame_is_whole(data, &header)) {
        return STATUS(CORRUPT);
    }
    struct io_file *file = journal->files[journal_file_index(journal, slot->position)];
    uint64_t offset = journal_file_offset(journal, slot->position);
    TRY(io_file_write(file, data, slot->size, offset));
    return io_file_sync(file);
}

/*
 * A frame that was read may be in caches only, after a kill or a failed sync, and a sync does not
 * write again what the kernel holds for clean. What follows builds on it, so the frames that
 * nothing proves synced, at most those that were in flight, are written once more: the same bytes
 * in the same place, which no crash can make worse.
 */
static status replay_make_durable(struct replay *replay)
{
    const struct journal *journal = replay->journal;
    uint64_t lsn = MAX(replay->proved_lsn + 1, journal->first_lsn);
    for (; lsn < journal->next_lsn; lsn++) {
        status result = replay_rewrite(replay, lsn);
        if (!status_is_ok(result)) {
            trace_error("log", "frame %" PRIu64 " of the journal in %s cannot be secured: %s", lsn,
                        journal->dir, status_text(result));
            return result;
        }
    }
    return OK;
}

/* ---------------------------------------------------------------- replay */

/* The start comes from a checkpoint, so it is judged. */
static bool replay_start_is_sane(const struct journal *journal, const struct journal_start *start)
{
    return start->lsn > 0 && start->position < journal->ring_size &&
           start->position % JOURNAL_BLOCK_SIZE == 0 &&
           start->generation_count <= JOURNAL_GENERATION_MAX;
}

static void replay_begin(struct replay *replay)
{
    struct journal *journal = replay->journal;
    const struct journal_start *start = replay->start;
    journal->tail = start->position;
    journal->head = start->position;
    journal->first_lsn = start->lsn;
    journal->next_lsn = start->lsn;
    journal->first_previous_checksum = start->previous_checksum;
    journal->last_checksum = start->previous_checksum;
    replay->end = start->position + journal->ring_size;
}

static status replay_run(struct replay *replay, journal_replay_fn fn, void *context)
{
    replay_begin(replay);
    for (;;) {
        struct replay_frame frame;
        bool found = false;
        TRY(replay_find(replay, &frame, &found));
        if (!found) {
            break;
        }
        status result = replay_accept(replay, &frame, fn, context);
        if (!status_is_ok(result)) {
            TRY(replay_make_durable(replay));
            return result;
        }
    }
    TRY(replay_prove_tail(replay));
    return replay_make_durable(replay);
}

status journal_replay(struct journal *journal, const struct journal_start *start,
                      journal_replay_fn fn, void *context)
{
    ASSERT(!journal->is_begun);
    if (!replay_start_is_sane(journal, start)) {
        trace_error("log",
                    "the checkpoint for the journal in %s names position %" PRIu64 " of %" PRIu64
                    ": restore this directory from the other node or a backup",
                    journal->dir, start->position, journal->ring_size);
        return STATUS(CORRUPT);
    }
    struct replay replay = {.journal = journal, .start = start};
    status result = replay_run(&replay, fn, context);
    free(replay.window);
    journal->synced_lsn = journal->next_lsn - 1;
    journal->issue_lsn = journal->next_lsn;
    for (uint64_t lsn = journal->first_lsn; lsn < journal->next_lsn; lsn++) {
        journal_slot_at(journal, lsn)->synced = true;
    }
    journal->is_replayed = true;
    return result;
}
