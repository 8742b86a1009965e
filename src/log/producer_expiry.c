/*
 * Producers that have not written for producer.id.expiration.ms are forgotten, as by Kafka's
 * ProducerStateManager: what counts is the largest timestamp of a producer's last batch against the
 * wall clock at the time of the look. That is not a function of the log. Two nodes, or one before
 * and after a restart, may therefore differ in producers that are past their time, and in nothing
 * else: a checkpoint of before brings one back until the next look, and a batch that was accepted
 * because its producer was forgotten starts a new window wherever it is replayed (producer.c).
 *
 *               on_timer
 *      resting ----------> walking over log->partitions, EXPIRY_STEP producers or partitions in a
 *         ^                  |     turn, the rest in the next one
 *         `------------------'
 *
 * One timer, whatever the number of partitions, and none while nobody knows a producer. A partition
 * that is removed moves the walk on.
 */
#include "log_state.h"

#define EXPIRY_STEP 1000u

static void expiry_go_to(struct log *log, struct partition *partition)
{
    log->expiry.next = partition;
    if (partition != NULL) {
        producer_expire_rewind(partition->producers);
    }
}

static void expiry_step(struct log *log)
{
    struct producer_expiry *expiry = &log->expiry;
    uint32_t left = EXPIRY_STEP;
    while (expiry->next != NULL && left > 0) {
        uint32_t looked_at = producer_expire(expiry->next->producers, expiry->until_ms, left);
        if (looked_at == left) {
            return;
        }
        left -= looked_at + 1;
        expiry->found = expiry->found || producer_count(expiry->next->producers) > 0;
        expiry_go_to(log, expiry->next->hh.next);
    }
}

static void expiry_on_timer(struct io_timer *timer)
{
    struct log *log = timer->context;
    if (log->offline || log->closing) {
        return;
    }
    if (log->expiry.next == NULL) {
        log->expiry.found = false;
        log->expiry.until_ms = io_wall_ms(log->io) - log->options.producer_expiration_ms;
        expiry_go_to(log, log->partitions);
    }
    expiry_step(log);
    if (log->expiry.next != NULL) {
        io_timer_start(log->io, timer, 0, expiry_on_timer);
    } else {
        log->expiry.running = false;
        if (log->expiry.found) {
            producer_expiry_want(log);
        }
    }
}

void producer_expiry_want(struct log *log)
{
    log->expiry.found = true;
    if (!log->expiry.running && !log->opening) {
        log->expiry.running = true;
        log->expiry.timer.context = log;
        io_timer_start(log->io, &log->expiry.timer, log->options.producer_check_ms * LOG_NS_PER_MS,
                       expiry_on_timer);
    }
}

void producer_expiry_start(struct log *log)
{
    for (struct partition *p = log->partitions; p != NULL; p = p->hh.next) {
        if (producer_count(p->producers) > 0) {
            producer_expiry_want(log);
            return;
        }
    }
}

void producer_expiry_forget(struct log *log, const struct partition *partition)
{
    if (log->expiry.next == partition) {
        expiry_go_to(log, partition->hh.next);
    }
}
