#include <stdlib.h>

#include "twinlog/core/assert.h"

#include "openings.h"

/*
 * Jobs at a time: the other thread of the lane is left to cold reads. One holds, opened, a batch of
 * up to twinlog.batch.opened.size.max, twice when rewritten, and JOB_SIZE_MAX of rewritten ones.
 */
#define OPENINGS_MAX 1u

#define JOB_BATCH_COUNT_MAX 64u
/* A job ends behind the batch that passes so much, opened and rewritten: others wait in line. */
#define JOB_SIZE_MAX ((size_t)8 * 1024 * 1024)

/* True when a verdict under one is a verdict under the other: all but the clock. */
static bool rules_are_same(const struct batch_rules *a, const struct batch_rules *b)
{
    return a->size_max == b->size_max && a->compacted == b->compacted &&
           a->timestamp_before_max == b->timestamp_before_max &&
           a->timestamp_after_max == b->timestamp_after_max &&
           a->idempotence_only == b->idempotence_only && a->zstd_refused == b->zstd_refused &&
           a->opened_size_max == b->opened_size_max && a->log_append_time == b->log_append_time &&
           a->recompress == b->recompress && a->codec == b->codec && a->level == b->level;
}

struct opening *opening_create(struct request *request, size_t count_max,
                               void (*resume)(struct request *request))
{
    size_t capacity = MIN(count_max, (size_t)JOB_BATCH_COUNT_MAX);
    struct opening *opening =
        arena_array(request_arena(request), 1, sizeof(*opening) + capacity * sizeof(struct opened));
    if (opening != NULL) {
        opening->request = request;
        opening->resume = resume;
        opening->job.context = opening;
        opening->capacity = (uint32_t)capacity;
    }
    return opening;
}

bool opening_add(struct opening *opening, int32_t topic_at, int32_t partition_at,
                 struct bytes records, const struct batch_rules *rules)
{
    ASSERT(opening->state == OPENING_IDLE);
    if (opening->count == opening->capacity) {
        return false;
    }
    opening->batches[opening->count++] = (struct opened){
        .topic_at = topic_at, .partition_at = partition_at, .records = records, .rules = *rules};
    return true;
}

/* ---------------------------------------------------------------- jobs */

static void opening_work(struct io_job *job)
{
    struct opening *opening = job->context;
    size_t size = 0;
    while (opening->opened_count < opening->count && size <= JOB_SIZE_MAX) {
        struct opened *batch = &opening->batches[opening->opened_count++];
        batch->error = batch_admit(batch->records, &batch->rules, &batch->admitted, &batch->fault);
        size += batch->admitted.opened_size;
        size += batch->admitted.rewritten != NULL ? batch->admitted.bytes.size : 0;
    }
}

/* Whoever waits for room was here before. */
static void opening_on_done(struct io_job *job)
{
    struct opening *opening = job->context;
    opening->state = OPENING_OPENED;
    if (list_is_empty(&opening->request->shard->room_waits)) {
        opening->resume(opening->request);
    } else {
        request_wait_room(opening->request, opening->resume);
    }
}

/* The only place a batch is given to a helper thread: what it takes in memory is bounded here. */
static void openings_step(struct shard *shard)
{
    while (shard->opening_count < OPENINGS_MAX && !list_is_empty(&shard->opening_waits)) {
        struct list_node *node = list_pop_front(&shard->opening_waits);
        struct opening *opening = CONTAINER_OF(node, struct opening, job.link);
        opening->state = OPENING_RUNNING;
        shard->opening_count++;
        io_offload(shard->io, IO_LANE_READ, &opening->job, opening_work, opening_on_done);
    }
}

void opening_start(struct opening *opening)
{
    struct shard *shard = opening->request->shard;
    ASSERT(opening->state == OPENING_IDLE);
    ASSERT(opening->count > 0);
    opening->state = OPENING_QUEUED;
    list_push_back(&shard->opening_waits, &opening->job.link);
    openings_step(shard);
}

bool opening_cancel(struct opening *opening)
{
    if (opening->state != OPENING_QUEUED) {
        return false;
    }
    list_remove(&opening->job.link);
    opening->state = OPENING_IDLE;
    return true;
}

/* ---------------------------------------------------------------- results */

static void opening_take(struct opening *opening)
{
    struct opened *batch = &opening->batches[opening->taken_count++];
    free(batch->admitted.rewritten);
    batch->admitted.rewritten = NULL;
}

bool opening_has_results(const struct opening *opening)
{
    return opening->taken_count < opening->opened_count;
}

struct opened *opening_find(struct opening *opening, int32_t topic_at, int32_t partition_at,
                            const struct batch_rules *rules)
{
    ASSERT(opening->state == OPENING_IDLE || opening->state == OPENING_OPENED);
    while (opening_has_results(opening)) {
        struct opened *batch = &opening->batches[opening->taken_count];
        bool is_before = batch->topic_at < topic_at ||
                         (batch->topic_at == topic_at && batch->partition_at < partition_at);
        bool is_it = batch->topic_at == topic_at && batch->partition_at == partition_at;
        if (is_it && rules_are_same(&batch->rules, rules)) {
            return batch;
        }
        if (!is_before && !is_it) {
            return NULL;
        }
        opening_take(opening);
    }
    return NULL;
}

void opening_release(struct opening *opening)
{
    struct shard *shard = opening->request->shard;
    while (opening_has_results(opening)) {
        opening_take(opening);
    }
    opening->count = 0;
    opening->opened_count = 0;
    opening->taken_count = 0;
    if (shard->crashed) {
        return; /* The loop is gone, and the helpers are. */
    }
    ASSERT(opening->state != OPENING_RUNNING);
    bool has_slot = opening->state == OPENING_OPENED;
    (void)opening_cancel(opening);
    opening->state = OPENING_IDLE;
    if (has_slot) {
        shard->opening_count--;
        openings_step(shard);
    }
}
