/*
 * The broker of a node: opens the log, builds the image of topics, listens and serves Kafka's
 * protocol. Lives on the loop given at creation; every function is called there. This release has
 * one shard; `struct shard` (src/broker/shard.h) owns what a shard owns.
 */
#ifndef TWINLOG_BROKER_BROKER_H
#define TWINLOG_BROKER_BROKER_H

#include "twinlog/broker/config.h"
#include "twinlog/io/io.h"
#include "twinlog/log/log.h"
#include "twinlog/net/net.h"

struct broker;

/*
 * Opens and starts to serve; blocking, before the loop runs. `config` is finished and outlives the
 * broker. The statuses are log_open()'s and net_server_create()'s; what failed is on the trace.
 */
MUST_USE status broker_create(struct io *io, const struct broker_config *config,
                              struct broker **broker);

/*
 * Clean shutdown: stops accepting, lets requests in flight finish, closes the log. `done` runs
 * once, with the log's result.
 */
void broker_stop(struct broker *broker, void (*done)(void *context, status result), void *context);

/* Frees it; after broker_stop() is done. */
void broker_destroy(struct broker *broker);

/*
 * Frees it after a simulated crash: the loop, its operations and its streams are gone and nothing
 * is completed any more.
 */
void broker_abandon(struct broker *broker);

/* The port clients connect to. */
uint16_t broker_port(const struct broker *broker);

struct broker_stats {
    struct net_stats net;
    struct log_stats log;
    uint32_t topics;
    uint32_t waiting_fetches;
    uint32_t waiting_for_room; /* requests that the full log keeps waiting */
    uint64_t fetch_memory;     /* bytes */
    bool offline;              /* a write failed: only a restart helps */
    bool disk_full;            /* produce is refused until there is room */
};
/* Counters and gauges of this moment. */
void broker_stats_get(const struct broker *broker, struct broker_stats *stats);

/* Asserts the invariants between callbacks; for tests and the simulator. */
void broker_check(const struct broker *broker);

#endif
