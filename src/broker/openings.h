/*
 * Batches that are long to open or to compress: helper threads judge them, several of one request
 * in one job. Only the loop calls these functions.
 *
 *     IDLE --opening_start()--> QUEUED --a slot is free--> RUNNING --the job is done--> OPENED
 *       ^                         |                                                       |
 *       '-----opening_cancel()----'<-------------------opening_release()------------------'
 *
 * A slot is taken from RUNNING until the release: what was rewritten and waits for room in the log
 * is memory as well, so no other job starts before it is in the log.
 */
#ifndef TWINLOG_BROKER_OPENINGS_H
#define TWINLOG_BROKER_OPENINGS_H

#include "shard.h"

/* One batch, and what became of it. */
struct opened {
    int32_t topic_at; /* where it is in the request */
    int32_t partition_at;
    struct bytes records; /* in the kept frame */
    struct batch_rules rules;
    struct batch_admitted admitted;
    struct batch_fault fault;
    enum kafka_error error;
};

enum opening_state { OPENING_IDLE, OPENING_QUEUED, OPENING_RUNNING, OPENING_OPENED };

/* In the arena of its request, which has one at most. */
struct opening {
    struct io_job job;
    struct request *request;
    void (*resume)(struct request *request);
    enum opening_state state;
    uint32_t capacity;
    uint32_t count;        /* of the batches in the job */
    uint32_t opened_count; /* of those that the helper got to; the others are to be asked again */
    uint32_t taken_count;
    struct opened batches[];
};

/*
 * Room for up to `count_max` batches, and fewer when the bound of a job is lower. `resume` runs
 * when they are opened and nobody waits for room in the log any more who came before. NULL: no
 * memory.
 */
struct opening *opening_create(struct request *request, size_t count_max,
                               void (*resume)(struct request *request));

/* Adds a batch, while it is IDLE, in the order of the request. False: the job is full. */
bool opening_add(struct opening *opening, int32_t topic_at, int32_t partition_at,
                 struct bytes records, const struct batch_rules *rules);

/* Puts the job in line. It is IDLE and has a batch. */
void opening_start(struct opening *opening);

/* Takes the job out of the line. False: it is not there. */
bool opening_cancel(struct opening *opening);

/*
 * What became of the batch at this place under these rules; NULL: it was not opened, or the rules
 * are others now. The results of places before it are freed: it is asked in the order of the
 * request.
 */
struct opened *opening_find(struct opening *opening, int32_t topic_at, int32_t partition_at,
                            const struct batch_rules *rules);

/* True when results are left that were not asked for yet. */
bool opening_has_results(const struct opening *opening);

/* Frees the results that are left and gives the slot back; IDLE then. Not while it is RUNNING. */
void opening_release(struct opening *opening);

#endif
