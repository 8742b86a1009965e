/* What a shard counts for its metrics, in plain integers on its own loop. */
#ifndef TWINLOG_BROKER_SHARD_METRICS_H
#define TWINLOG_BROKER_SHARD_METRICS_H

#include "twinlog/core/metrics_text.h"

#define METRICS_API_COUNT_MAX 96u

/* Of one API. Times are between turns of the loop. */
struct api_metrics {
    uint64_t requests;
    struct metrics_histogram answered; /* from arrival until the answer was taken by the socket */
};

struct shard_metrics {
    struct api_metrics apis[METRICS_API_COUNT_MAX]; /* in the order of the dispatch table */
    struct metrics_histogram produce_durable;       /* from arrival until synced or committed */
    uint64_t refused_requests; /* connections closed on a request that cannot be served */
};

struct shard;

/* The counters of a broker's shard, for the snapshot. */
const struct shard *broker_shard(const struct broker *broker);

#endif
