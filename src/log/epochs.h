/*
 * Where each leader epoch begins in a partition's log (KIP-101): one entry for each epoch that has
 * batches, epochs and offsets ascending. A function of the batches alone, so it is the same after
 * any crash; kept by the partition, and in the checkpoint as of what is committed.
 */
#ifndef TWINLOG_LOG_EPOCHS_H
#define TWINLOG_LOG_EPOCHS_H

#include "twinlog/core/bytes.h"
#include "twinlog/core/status.h"

#define EPOCHS_ENTRY_SIZE 12u /* encoded: u32 epoch, i64 start offset, little-endian */

struct epoch_start {
    int32_t epoch;
    int64_t offset;
};

struct epochs {
    struct epoch_start *items;
    uint32_t count;
    uint32_t capacity;
};

/* Makes room for one more. False: out of memory. */
MUST_USE bool epochs_reserve(struct epochs *epochs);

/* A batch of `epoch` stands at `offset`; room is reserved. An epoch that is not newer adds nothing.
 */
void epochs_add(struct epochs *epochs, int32_t epoch, int64_t offset);

/* The log begins at `log_start` now: what lies below is forgotten. */
void epochs_trim(struct epochs *epochs, int64_t log_start);

/*
 * Where an epoch at or below `epoch` ends, and which one: the start of the next. `latest` is the
 * epoch in force, which begins at `latest_offset` when no batch of it is there. False: nothing is
 * known of the epoch; the caller answers for the latest one itself.
 */
bool epochs_find_end(const struct epochs *epochs, int32_t epoch, int32_t latest,
                     int64_t latest_offset, struct epoch_start *end);

/* The epoch of the batch at `offset`; `latest` when there is none. */
int32_t epochs_at(const struct epochs *epochs, int64_t offset, int32_t latest);

/* Encodes the entries that begin below `offset_max`; returns behind them, and their count. */
uint8_t *epochs_encode(const struct epochs *epochs, int64_t offset_max, uint8_t *to,
                       uint32_t *count);

/* Reads `count` entries; *input moves behind them. TRUNCATED, INVALID: no order; NO_MEMORY. */
MUST_USE status epochs_decode(struct bytes *input, uint32_t count, int64_t offset_max,
                              struct epochs *epochs);

/* Frees the entries. */
void epochs_fini(struct epochs *epochs);

#endif
