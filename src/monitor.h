/* The metrics and health of a serving broker over HTTP, as `twinlog.http.listener` says. */
#ifndef TWINLOG_MONITOR_H
#define TWINLOG_MONITOR_H

#include "twinlog/broker/broker.h"

/*
 * Listens when it is configured; until there is a broker nothing is healthy. False: it cannot, and
 * the trace says why.
 */
MUST_USE bool monitor_start(struct io *io, const struct broker_config *config);

/* The broker that is asked from now on. */
void monitor_attach(const struct broker *broker);

/* Between turns of the loop, on its thread: gives the answer somebody waits for, if any. */
void monitor_serve(void);

/* Ends it; before the broker is destroyed. Nothing happens when it does not run. */
void monitor_stop(void);

#endif
