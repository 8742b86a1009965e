/*
 * Idempotent producers of one partition (KIP-98, KIP-360): per producer id the epoch and the last
 * five batches. Two layers (I5): state as of the committed LSN, and a pending overlay of batches
 * appended and not yet committed, which never enters a checkpoint and is dropped on a cut.
 */
#ifndef TWINLOG_LOG_PRODUCER_H
#define TWINLOG_LOG_PRODUCER_H

#include "twinlog/core/bytes.h"
#include "twinlog/core/status.h"
#include "twinlog/log/log.h"

#define PRODUCER_WINDOW 5u

struct producer_table; /* NULL is an empty table */

/*
 * Judges a batch against committed state and overlay together, as Kafka's ProducerAppendInfo does:
 * a producer id that the partition does not know may start with any sequence; a new epoch starts
 * at 0; sequences wrap from INT32_MAX to 0; one of the last five batches again is LOG_DUPLICATE
 * (`original` gets its base offset, its largest timestamp, which is what Kafka answers as the time
 * of append then, and its LSN or 0 when it is committed). Nothing is changed.
 * Batches without a producer id are LOG_APPENDED.
 */
enum log_verdict producer_judge(const struct producer_table *table,
                                const struct batch_header *header, struct log_appended *original);

/* Adds an accepted batch to the overlay. NO_MEMORY: nothing changed. */
MUST_USE status producer_append(struct producer_table **table, const struct batch_header *header,
                                int64_t base_offset, uint64_t lsn);

/* Everything appended up to `lsn` is committed: moves it from the overlay to the state. */
void producer_commit(struct producer_table *table, uint64_t lsn);

/* Drops the overlay. */
void producer_drop_pending(struct producer_table *table);

/* Begins a walk of producer_expire() over the table. */
void producer_expire_rewind(struct producer_table *table);

/*
 * Looks at the next producers of the walk, at most `count_max`: those without overlay whose last
 * committed batch is of `until_ms` or before are forgotten. Returns how many were looked at: fewer
 * than `count_max` at the end of the table.
 */
uint32_t producer_expire(struct producer_table *table, int64_t until_ms, uint32_t count_max);

/* Committed state only, for the checkpoint: bytes needed, and encoding (little-endian). */
uint32_t producer_encoded_size(const struct producer_table *table);
uint8_t *producer_encode(const struct producer_table *table, uint8_t *to);

/* Reads what producer_encode wrote; *input moves behind it. TRUNCATED, INVALID, NO_MEMORY. */
MUST_USE status producer_decode(struct bytes *input, struct producer_table **table);

/* Each producer that has something committed, in no order. */
void producer_visit(const struct producer_table *table,
                    void (*fn)(void *context, const struct log_producer *producer), void *context);

/* Producers known; and free. */
uint32_t producer_count(const struct producer_table *table);
void producer_destroy(struct producer_table *table);

#endif
