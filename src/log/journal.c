/*
 * Building and writing. The life of a frame, with the function on each arrow:
 *
 *               append            append when full, step            step
 *     (nothing) ------> open in chunk ----------------> sealed, waits ------> in flight
 *                          ^    |                       (LSN, position,          |
 *                          '----'                        chain fixed)            | on_write
 *                          append                                                v
 *                                               recycled <-------- synced, reported in order
 *                                                         recycle
 *
 * open     at most one; bytes [open_offset, open_offset + open_size) of the building chunk; it has
 *          no position yet, but the ring is known to have room for it
 * sealed   LSN in [issue_lsn, next_lsn), one reference on its chunk
 * flight   LSN in (synced_lsn, issue_lsn), a write slot has the reference
 * synced   LSN in [first_lsn, synced_lsn], nothing of it is in use but its slot
 */
#include "journal.h"

#include <stdlib.h>

#include "journal_internal.h"
#include "mutation.h"
#include "twinlog/core/trace.h"

#define JOURNAL_FRAME_SIZE_MAX_DEFAULT   (256u * 1024)
#define JOURNAL_WRITES_IN_FLIGHT_DEFAULT 4u
#define JOURNAL_GATHER_SIZE_DEFAULT      JOURNAL_BLOCK_SIZE /* a further write fills a block */
#define JOURNAL_RESERVE_SIZE             (64ull * 1024)     /* beside two frames */
#define JOURNAL_SLOTS_FIRST              64u

/* ---------------------------------------------------------------- open and destroy */

static status journal_file_check(const struct journal *journal, struct io_file *file,
                                 uint32_t index, uint8_t *block)
{
    size_t got = 0;
    uint64_t size = 0;
    TRY(io_file_read(file, block, JOURNAL_BLOCK_SIZE, 0, &got));
    TRY(io_file_size(file, &size));
    struct journal_file_header header;
    if (got != JOURNAL_BLOCK_SIZE) {
        return STATUS(CORRUPT);
    }
    TRY(journal_file_header_decode(block, &header));
    const struct journal_options *options = &journal->options;
    if (!uuid_equal(&header.directory_id, &options->directory_id) ||
        header.shard != options->shard || header.index != index ||
        header.file_count != options->file_count || header.file_size != options->file_size) {
        return STATUS(MISMATCH);
    }
    return size < header.file_size ? STATUS(CORRUPT) : OK;
}

/* O_DIRECT keeps synced writes at device speed; not every file system has it (tmpfs, overlays). */
static status journal_file_open(struct io_disk *disk, const char *path, bool *is_buffered,
                                struct io_file **file)
{
    unsigned flags = IO_FILE_READ | IO_FILE_WRITE;
    status result = io_file_open(disk, path, flags | IO_FILE_DIRECT, file);
    if (result.code == STATUS_UNSUPPORTED) {
        *is_buffered = true;
        result = io_file_open(disk, path, flags, file);
    }
    return result;
}

/* Every lock is taken before anything is read: until then a killed process may still write. */
static status journal_files_open(struct journal *journal)
{
    struct io_disk *disk = io_disk(journal->options.io);
    uint8_t *block = aligned_alloc(JOURNAL_BLOCK_SIZE, JOURNAL_BLOCK_SIZE);
    if (block == NULL) {
        return STATUS(NO_MEMORY);
    }
    uint32_t count = journal->options.file_count;
    ASSERT(count > 0);
    bool is_buffered = false;
    char path[JOURNAL_PATH_SIZE];
    status result = OK;
    for (uint32_t step = 0; step < 2 * count && status_is_ok(result); step++) {
        uint32_t i = step % count;
        if (!journal_path(path, journal->dir, journal->options.shard, i)) {
            result = STATUS(TOO_LARGE);
        } else if (step < count) {
            result = journal_file_open(disk, path, &is_buffered, &journal->files[i]);
            if (status_is_ok(result)) {
                result = io_file_lock(journal->files[i]);
            }
        } else {
            result = journal_file_check(journal, journal->files[i], i, block);
        }
    }
    free(block);
    if (!status_is_ok(result)) {
        trace_error("log", "journal file %s cannot be used: %s", path, status_text(result));
    } else if (is_buffered) {
        trace_warn("log",
                   "%s is on a file system without O_DIRECT: the journal writes through the page "
                   "cache and syncs each write, which is slower; ext4 and xfs have it",
                   journal->dir);
    }
    return result;
}

/* Fills in the defaults and what follows from the sizes. */
static status journal_limits_set(struct journal *journal)
{
    struct journal_options *options = &journal->options;
    TRY(journal_sizes_check(options->file_size, options->file_count));
    if (options->frame_size_max == 0) {
        options->frame_size_max = JOURNAL_FRAME_SIZE_MAX_DEFAULT;
    }
    if (options->writes_in_flight == 0) {
        options->writes_in_flight = JOURNAL_WRITES_IN_FLIGHT_DEFAULT;
    }
    if (options->gather_size == 0) {
        options->gather_size = JOURNAL_GATHER_SIZE_DEFAULT;
    }
    uint64_t ring_size = options->file_size * options->file_count;
    uint64_t reserve_size =
        2 * ALIGN_UP((uint64_t)options->frame_size_max, (uint64_t)JOURNAL_BLOCK_SIZE) +
        JOURNAL_RESERVE_SIZE;
    reserve_size = MIN(reserve_size, ring_size / 4);
    /*
     * The largest frame may have to leave almost its own size unused at the end of a file and pass
     * a header block. It must fit even then, or it could wait for room for ever.
     */
    uint64_t limit = (ring_size - reserve_size - JOURNAL_BLOCK_SIZE) / 2;
    limit = MIN(limit, options->file_size - JOURNAL_BLOCK_SIZE);
    limit = MIN(limit, (uint64_t)INT32_MAX);
    journal->frame_size_limit = (uint32_t)ALIGN_DOWN(limit, (uint64_t)JOURNAL_BLOCK_SIZE);
    if (journal->frame_size_limit == 0) {
        trace_error("log", "a journal of %llu bytes is too small: it needs %u or more",
                    (unsigned long long)ring_size, 8u * JOURNAL_BLOCK_SIZE);
        return STATUS(INVALID);
    }
    options->frame_size_max = MIN(options->frame_size_max, journal->frame_size_limit);
    options->frame_size_max = MAX(options->frame_size_max, JOURNAL_BLOCK_SIZE);
    journal->ring_size = ring_size;
    journal->reserve_size = reserve_size;
    return OK;
}

status journal_open(const struct journal_options *options, struct journal **journal)
{
    struct journal *j = calloc(1, sizeof(*j));
    if (j == NULL) {
        return STATUS(NO_MEMORY);
    }
    status result = STATUS(NO_MEMORY);
    j->options = *options;
    j->dir = strdup(options->dir);
    j->options.dir = j->dir;
    if (j->dir == NULL) {
        goto fail;
    }
    result = journal_limits_set(j);
    if (!status_is_ok(result)) {
        goto fail;
    }
    result = STATUS(NO_MEMORY);
    j->files = calloc(j->options.file_count, sizeof(j->files[0]));
    j->writes = calloc(j->options.writes_in_flight, sizeof(j->writes[0]));
    if (j->files == NULL || j->writes == NULL || !journal_slots_reserve(j, 1)) {
        goto fail;
    }
    for (uint32_t i = 0; i < j->options.writes_in_flight; i++) {
        j->writes[i].journal = j;
    }
    result = journal_files_open(j);
    if (!status_is_ok(result)) {
        goto fail;
    }
    *journal = j;
    return OK;

fail:
    journal_destroy(j, false);
    return result;
}

void journal_destroy(struct journal *journal, bool crashed)
{
    ASSERT(crashed || journal->in_flight == 0);
    for (uint32_t i = 0; journal->files != NULL && i < journal->options.file_count; i++) {
        if (journal->files[i] != NULL) {
            io_file_close(journal->files[i]);
        }
    }
    free(journal->files);
    free(journal->writes);
    free(journal->slots);
    free(journal->dir);
    free(journal);
}

void journal_begin(struct journal *journal, uint32_t epoch, const struct journal_start *start)
{
    ASSERT(journal->is_replayed);
    ASSERT(!journal->is_begun);
    ASSERT(start->generation_count > 0);
    const struct journal_generation *last = &start->generations[start->generation_count - 1];
    ASSERT(last->first_lsn == journal->next_lsn);
    ASSERT(last->previous_checksum == journal->last_checksum);
    if (log_mutation_is(MUTATION_REUSE_LSN) && start->generation_count > 1) {
        last--;
    }
    journal->generation = last->generation;
    journal->epoch = epoch;
    journal->is_begun = true;
    journal_check(journal);
}

/* ---------------------------------------------------------------- generations and starts */

const struct journal_generation *journal_generation_find(const struct journal_start *start,
                                                         uint64_t lsn)
{
    for (uint32_t i = start->generation_count; i > 0; i--) {
        if (start->generations[i - 1].first_lsn <= lsn) {
            return &start->generations[i - 1];
        }
    }
    return NULL;
}

void journal_start_prune(struct journal_start *start)
{
    uint32_t dead = 0;
    while (dead + 1 < start->generation_count &&
           start->generations[dead + 1].first_lsn <= start->lsn) {
        dead++;
    }
    start->generation_count -= dead;
    memmove(start->generations, start->generations + dead,
            start->generation_count * sizeof(start->generations[0]));
}

bool journal_start_extend(const struct journal *journal, struct journal_start *start)
{
    uint64_t highest = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < start->generation_count; i++) {
        highest = MAX(highest, start->generations[i].generation);
        /* One that begins at the next LSN or above, before a cut, covers nothing any more. */
        count = start->generations[i].first_lsn < journal->next_lsn ? i + 1 : count;
    }
    if (count == JOURNAL_GENERATION_MAX) {
        return false;
    }
    start->generations[count] = (struct journal_generation){
        .generation = highest + 1,
        .first_lsn = journal->next_lsn,
        .previous_checksum = journal->last_checksum,
    };
    start->generation_count = count + 1;
    return true;
}

void journal_start_at(const struct journal *journal, uint64_t lsn, struct journal_start *start)
{
    ASSERT(lsn >= journal->first_lsn);
    ASSERT(lsn <= journal->next_lsn);
    bool is_next = lsn == journal->next_lsn;
    uint64_t position = is_next ? journal->head : journal_slot_at(journal, lsn)->position;
    start->lsn = lsn;
    start->position = position % journal->ring_size;
    start->previous_checksum = lsn == journal->first_lsn
                                   ? journal->first_previous_checksum
                                   : journal_slot_at(journal, lsn - 1)->checksum;
}

/* ---------------------------------------------------------------- the ring */

uint64_t journal_place(const struct journal *journal, uint64_t head, uint64_t size)
{
    uint64_t file_size = journal->options.file_size;
    uint64_t offset = head % file_size;
    if (offset == 0) {
        return head + JOURNAL_BLOCK_SIZE;
    }
    if (size > file_size - offset) {
        return head + (file_size - offset) + JOURNAL_BLOCK_SIZE;
    }
    return head;
}

bool journal_slots_reserve(struct journal *journal, uint32_t count)
{
    uint64_t needed = journal->next_lsn - journal->first_lsn + count;
    if (needed <= journal->slot_capacity) {
        return true;
    }
    uint64_t capacity = MAX((uint64_t)JOURNAL_SLOTS_FIRST, 2 * (uint64_t)journal->slot_capacity);
    ASSERT(capacity >= needed);
    struct journal_slot *slots = calloc(capacity, sizeof(slots[0]));
    if (slots == NULL) {
        return false;
    }
    for (uint64_t lsn = journal->first_lsn; lsn < journal->next_lsn; lsn++) {
        slots[lsn & (capacity - 1)] = *journal_slot_at(journal, lsn);
    }
    free(journal->slots);
    journal->slots = slots;
    journal->slot_capacity = (uint32_t)capacity;
    return true;
}

void journal_slot_push(struct journal *journal, const struct journal_slot *slot)
{
    ASSERT(journal->next_lsn - journal->first_lsn < journal->slot_capacity);
    ASSERT(slot->position >= journal->head);
    *journal_slot_at(journal, journal->next_lsn) = *slot;
    journal->head = slot->position + slot->size;
    journal->last_checksum = slot->checksum;
    journal->next_lsn++;
    ASSERT(journal->head - journal->tail <= journal->ring_size);
}

void journal_recycle(struct journal *journal, uint64_t lsn)
{
    ASSERT(lsn <= journal->synced_lsn + 1);
    while (journal->first_lsn < lsn) {
        const struct journal_slot *slot = journal_slot_at(journal, journal->first_lsn);
        journal->first_previous_checksum = slot->checksum;
        /*
         * Up to the end of this frame, not to the beginning of the next: a start may have been
         * taken here before the next frame skipped to another file, and what was written into the
         * gap between them would stand in the way of its replay.
         */
        journal->tail = slot->position + slot->size;
        journal->first_lsn++;
    }
    journal_check(journal);
}

/* ---------------------------------------------------------------- append */

/* What it takes to append an entry. */
struct append_plan {
    uint32_t frame_size; /* of the frame that the entry goes to, with padding */
    bool opens_frame;    /* a new one, after sealing the one that is open */
    bool takes_chunk;    /* the new one in another chunk */
    bool fits_ring;
};

static uint32_t frame_padded(uint32_t size)
{
    return ALIGN_UP(size, JOURNAL_BLOCK_SIZE);
}

/* The bytes of a frame with one entry of this body; 0 when no frame can hold it. */
static uint32_t frame_size_alone(const struct journal *journal, uint32_t body_size)
{
    uint64_t size = JOURNAL_FRAME_HEADER_SIZE + JOURNAL_ENTRY_HEADER_SIZE + (uint64_t)body_size;
    return size > journal->frame_size_limit ? 0 : (uint32_t)ALIGN_UP(size, 8u);
}

static struct append_plan append_plan_make(const struct journal *journal, uint32_t size_alone,
                                           bool control)
{
    struct append_plan plan = {.frame_size = frame_padded(size_alone), .opens_frame = true};
    uint64_t head = journal->head;
    uint32_t chunk_room = journal->chunk == NULL ? 0 : journal->chunk->capacity;
    if (journal->open_size > 0) {
        uint32_t open_padded = frame_padded(journal->open_size);
        uint64_t joined = (uint64_t)journal->open_size + size_alone - JOURNAL_FRAME_HEADER_SIZE;
        chunk_room -= journal->open_offset;
        if (joined <= journal->options.frame_size_max &&
            ALIGN_UP(joined, (uint64_t)JOURNAL_BLOCK_SIZE) <= chunk_room) {
            plan.frame_size = frame_padded((uint32_t)joined);
            plan.opens_frame = false;
        } else {
            head = journal_place(journal, head, open_padded) + open_padded;
            chunk_room -= open_padded;
        }
    } else if (journal->chunk != NULL) {
        chunk_room -= journal->chunk->used;
    }
    plan.takes_chunk = plan.opens_frame && plan.frame_size > chunk_room;
    uint64_t end = journal_place(journal, head, plan.frame_size) + plan.frame_size;
    uint64_t room = journal->ring_size - (control ? 0 : journal->reserve_size);
    plan.fits_ring = end - journal->tail <= room;
    return plan;
}

/* Nothing more is built in the chunk; the frames in it have their own references. */
static void journal_chunk_close(struct journal *journal)
{
    ASSERT(journal->open_size == 0);
    if (journal->chunk != NULL) {
        ASSERT(journal->chunk->refs > 0);
        journal->chunk->refs--;
        journal->chunk = NULL;
    }
}

/* True when a chunk for `size` bytes can be had, if need be by giving up others. */
static bool journal_chunk_is_there(struct journal *journal, uint32_t size)
{
    struct chunk_pool *pool = journal->options.chunks;
    if (chunk_pool_has_room(pool, size)) {
        return true;
    }
    /* The one that is too full for the entry may be what stands in the way. */
    if (journal->open_size == 0) {
        journal_chunk_close(journal);
    }
    journal->options.evict(journal->options.context);
    return chunk_pool_has_room(pool, size);
}

static bool journal_fits(struct journal *journal, uint32_t size_alone, bool control,
                         struct append_plan *plan)
{
    *plan = append_plan_make(journal, size_alone, control);
    if (!plan->fits_ring || !journal_slots_reserve(journal, 2)) {
        return false;
    }
    return !plan->takes_chunk || journal_chunk_is_there(journal, plan->frame_size);
}

/* Remembers the smallest wish: when that one fits, those who wait can try again. */
static void journal_want(struct journal *journal, uint32_t body_size, bool control)
{
    if (!journal->is_wanted || body_size < journal->wanted_size) {
        journal->wanted_size = body_size;
        journal->wanted_control = control;
        journal->is_wanted = true;
    }
}

bool journal_has_room(struct journal *journal, uint32_t body_size)
{
    uint32_t size_alone = frame_size_alone(journal, body_size);
    if (journal->is_failed || size_alone == 0) {
        return false;
    }
    struct append_plan plan;
    bool fits = journal_fits(journal, size_alone, false, &plan);
    if (!fits) {
        journal_want(journal, body_size, false);
    }
    return fits;
}

/* Gives the open frame its LSN, its place in the ring and its link in the chain. */
static void journal_seal(struct journal *journal)
{
    ASSERT(journal->open_size > JOURNAL_FRAME_HEADER_SIZE);
    struct journal_frame_header header = {
        .directory_id = journal->options.directory_id,
        .generation = journal->generation,
        .shard = journal->options.shard,
        .epoch = journal->epoch,
        .entry_count = journal->open_entry_count,
        .lsn = journal->next_lsn,
        .previous_checksum = journal->last_checksum,
        .entries_size = journal->open_size - JOURNAL_FRAME_HEADER_SIZE,
    };
    journal->options.on_seal(journal->options.context, &header.committed_lsn,
                             &header.metadata_offset);
    uint32_t size = frame_padded(journal->open_size);
    journal_frame_seal(journal->chunk->data + journal->open_offset, &header, size);
    struct journal_slot slot = {
        .position = journal_place(journal, journal->head, size),
        .size = size,
        .checksum = header.checksum,
        .chunk = journal->chunk,
        .chunk_offset = journal->open_offset,
    };
    journal_slot_push(journal, &slot);
    journal->chunk->refs++;
    journal->chunk->used = journal->open_offset + size;
    journal->open_size = 0;
    journal->open_entry_count = 0;
}

/* False when the chunk that the plan counts on cannot be had after all: memory is out. */
static bool journal_frame_open(struct journal *journal, const struct append_plan *plan)
{
    if (journal->open_size > 0) {
        journal_seal(journal);
    }
    if (plan->takes_chunk) {
        journal_chunk_close(journal);
        journal->chunk = chunk_take(journal->options.chunks, plan->frame_size);
        if (journal->chunk == NULL) {
            return false;
        }
    }
    ASSERT(journal->chunk->used % JOURNAL_BLOCK_SIZE == 0);
    ASSERT(journal->chunk->used + plan->frame_size <= journal->chunk->capacity);
    journal->open_offset = journal->chunk->used;
    journal->open_size = JOURNAL_FRAME_HEADER_SIZE;
    return true;
}

status journal_append(struct journal *journal, const struct journal_entry *entry, bool control,
                      struct journal_place *place)
{
    ASSERT(journal->is_begun);
    if (journal->is_failed) {
        return STATUS(OFFLINE);
    }
    uint32_t size_alone = frame_size_alone(journal, entry->body.size);
    if (size_alone == 0) {
        return STATUS(TOO_LARGE);
    }
    struct append_plan plan;
    if (!journal_fits(journal, size_alone, control, &plan) ||
        (plan.opens_frame && !journal_frame_open(journal, &plan))) {
        journal_want(journal, entry->body.size, control);
        return STATUS(FULL);
    }
    struct chunk *chunk = journal->chunk;
    uint8_t *at = chunk->data + journal->open_offset + journal->open_size;
    *place = (struct journal_place){
        .lsn = journal->next_lsn,
        .chunk = chunk,
        .body = journal_entry_encode(at, entry),
    };
    journal->open_size += size_alone - JOURNAL_FRAME_HEADER_SIZE;
    journal->open_entry_count++;
    chunk->used = journal->open_offset + journal->open_size;
    ASSERT(chunk->used <= chunk->capacity);
    chunk_prefetch(chunk);
    return OK;
}

/* ---------------------------------------------------------------- writing */

static void journal_fail(struct journal *journal, status why)
{
    trace_error("log",
                "a write to the journal in %s failed: %s; it takes nothing more until a restart, "
                "which recovers what is on disk",
                journal->dir, status_text(why));
    journal->is_failed = true;
    journal->options.on_failed(journal->options.context, why);
}

/*
 * Writes complete in any order; they are reported in the order of their LSNs. The next write is
 * left to the step at the end of the turn, so that it takes along what the rest of the turn
 * appends.
 */
static void journal_on_write(struct io_op *op)
{
    struct journal_write *write = CONTAINER_OF(op, struct journal_write, op);
    struct journal *journal = write->journal;
    ASSERT(write->is_busy);
    ASSERT(write->chunk->refs > 0);
    write->is_busy = false;
    write->chunk->refs--;
    journal->in_flight--;
    journal->in_flight_size -= write->size;
    if (journal->is_failed) {
        return;
    }
    if (!status_is_ok(op->result)) {
        journal_fail(journal, op->result);
        return;
    }
    journal->sync_count++;
    if (write->lsn <= journal->synced_lsn) {
        /* Only when it was reported ahead of time, by mutation. */
        ASSERT(log_mutation_is(MUTATION_ACK_BEFORE_SYNC));
        return;
    }
    journal_slot_at(journal, write->lsn)->synced = true;
    uint64_t lsn = journal->synced_lsn;
    while (lsn + 1 < journal->issue_lsn && journal_slot_at(journal, lsn + 1)->synced) {
        lsn++;
    }
    if (lsn > journal->synced_lsn) {
        journal->synced_lsn = lsn;
        journal->options.on_synced(journal->options.context, lsn);
    }
}

/* Issues the oldest sealed frame. */
static void journal_issue(struct journal *journal)
{
    ASSERT(journal->in_flight < journal->options.writes_in_flight);
    ASSERT(journal->issue_lsn < journal->next_lsn);
    struct journal_write *write = journal->writes;
    while (write->is_busy) {
        write++;
    }
    struct journal_slot *slot = journal_slot_at(journal, journal->issue_lsn);
    ASSERT(slot->chunk != NULL);
    write->is_busy = true;
    write->lsn = journal->issue_lsn;
    write->chunk = slot->chunk;
    slot->chunk = NULL;
    journal->issue_lsn++;
    journal->in_flight++;
    journal->in_flight_size += slot->size;
    write->size = slot->size;
    journal->frame_count++;
    journal->byte_count += slot->size;
    uint8_t *frame = write->chunk->data + slot->chunk_offset;
    journal_frame_issue(frame, journal->synced_lsn);
    io_submit_write(journal->options.io, &write->op,
                    journal->files[journal_file_index(journal, slot->position)], frame, slot->size,
                    journal_file_offset(journal, slot->position), true, journal_on_write);
}

/* In flight, this much asks no more of the next write than the least one; see below. */
#define JOURNAL_IN_FLIGHT_FREE_SIZE (8u * 1024)

/*
 * The policy of group commit: an idle device takes whatever there is at once; beside writes in
 * flight a further one must be worth it, because a smaller one would better grow until one of them
 * completes. What is worth it grows with what is under way: the more there is to write, the fewer
 * writes carry it, and a busy processor is spared.
 */
static bool journal_is_worth_a_write(const struct journal *journal, uint32_t size)
{
    return journal->in_flight == 0 ||
           (size >= journal->options.gather_size &&
            size + JOURNAL_IN_FLIGHT_FREE_SIZE >= journal->in_flight_size);
}

/*
 * A slot is free, and the frame would not run further ahead of the synced ones than the slots go:
 * replay finds the proof that a frame was synced (I2) at most so many frames behind it, even when
 * one write took much longer than those after it.
 */
static bool journal_may_issue(const struct journal *journal)
{
    return journal->in_flight < journal->options.writes_in_flight &&
           journal->issue_lsn - journal->synced_lsn <= journal->options.writes_in_flight;
}

static void journal_room_offer(struct journal *journal)
{
    if (!journal->is_wanted) {
        return;
    }
    struct append_plan plan;
    uint32_t size_alone = frame_size_alone(journal, journal->wanted_size);
    if (journal_fits(journal, size_alone, journal->wanted_control, &plan)) {
        journal->is_wanted = false;
        journal->options.on_room(journal->options.context);
    }
}

void journal_step(struct journal *journal)
{
    if (journal->is_failed || !journal->is_begun) {
        return;
    }
    journal_room_offer(journal);
    while (journal_may_issue(journal)) {
        if (journal->issue_lsn == journal->next_lsn) {
            if (journal->open_size == 0 || !journal_is_worth_a_write(journal, journal->open_size)) {
                break;
            }
            journal_seal(journal);
        }
        journal_issue(journal);
    }
    if (log_mutation_is(MUTATION_ACK_BEFORE_SYNC) && journal->synced_lsn + 1 < journal->issue_lsn) {
        journal->synced_lsn = journal->issue_lsn - 1;
        journal->options.on_synced(journal->options.context, journal->synced_lsn);
    }
    journal_check(journal);
}

/* ---------------------------------------------------------------- facts */

uint64_t journal_next_lsn(const struct journal *journal)
{
    return journal->next_lsn;
}

uint64_t journal_synced_lsn(const struct journal *journal)
{
    return journal->synced_lsn;
}

uint64_t journal_live_size(const struct journal *journal)
{
    uint64_t head = journal->head;
    if (journal->open_size > 0) {
        uint32_t size = frame_padded(journal->open_size);
        head = journal_place(journal, head, size) + size;
    }
    return head - journal->tail;
}

uint64_t journal_size(const struct journal *journal)
{
    return journal->ring_size;
}

void journal_counts(const struct journal *journal, uint64_t *frames, uint64_t *bytes,
                    uint64_t *syncs)
{
    *frames = journal->frame_count;
    *bytes = journal->byte_count;
    *syncs = journal->sync_count;
}

struct io_file *journal_file(const struct journal *journal)
{
    return journal->files[0];
}

bool journal_is_idle(const struct journal *journal)
{
    if (journal->is_failed) {
        return journal->in_flight == 0;
    }
    return journal->open_size == 0 && journal->issue_lsn == journal->next_lsn &&
           journal->in_flight == 0;
}

bool journal_is_writing(const struct journal *journal)
{
    return journal->in_flight > 0;
}

void journal_check(const struct journal *journal)
{
    ASSERT(journal->first_lsn <= journal->synced_lsn + 1);
    ASSERT(journal->synced_lsn < journal->issue_lsn);
    ASSERT(journal->issue_lsn <= journal->next_lsn);
    ASSERT(journal->next_lsn - journal->first_lsn <= journal->slot_capacity);
    ASSERT(journal->in_flight <= journal->options.writes_in_flight);
    ASSERT(journal->in_flight > 0 || journal->synced_lsn + 1 == journal->issue_lsn ||
           journal->is_failed);
    ASSERT(journal->tail <= journal->head);
    ASSERT(journal_live_size(journal) <= journal->ring_size);
    if (journal->open_size > 0) {
        ASSERT(journal->chunk != NULL);
        ASSERT(journal->chunk->refs > 0);
        ASSERT(journal->open_entry_count > 0);
        ASSERT(journal->chunk->used == journal->open_offset + journal->open_size);
    }
}
