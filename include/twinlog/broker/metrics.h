/*
 * What a broker tells an operator's monitoring: a snapshot taken on its loop, and its text, which
 * any thread may write.
 */
#ifndef TWINLOG_BROKER_METRICS_H
#define TWINLOG_BROKER_METRICS_H

#include "twinlog/broker/broker.h"
#include "twinlog/core/metrics_text.h"

struct broker_metrics;

/* Loop's thread: a snapshot, freed with free(). NULL: no memory. */
struct broker_metrics *broker_metrics_get(const struct broker *broker);

/* Writes all families of the broker. */
void broker_metrics_write(const struct broker_metrics *metrics, struct metrics_text *text);

/* NULL when the broker takes records and serves them, else why it does not, in one line. */
const char *broker_metrics_not_ready(const struct broker_metrics *metrics);

#endif
