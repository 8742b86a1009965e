/*
 * What an operator's tools ask a running process by HTTP: /metrics, /healthz and /readyz. It runs
 * on a thread of its own and sees nothing of the loop: each request asks the owner's thread for a
 * snapshot and renders that. An owner that does not answer within two seconds is not healthy.
 *
 * Connections, their memory and the time they may be silent are bounded.
 */
#ifndef TWINLOG_HTTP_HTTP_H
#define TWINLOG_HTTP_HTTP_H

#include "twinlog/core/metrics_text.h"
#include "twinlog/core/status.h"

struct http;

struct http_options {
    const char *host; /* numeric */
    uint16_t port;
    /* HTTP thread: makes the owner's thread call http_serve() soon. */
    void (*wake)(void *context);
    /* Owner's thread, in http_serve(): a snapshot from malloc(); NULL when memory is out. */
    void *(*snapshot)(void *context);
    /* HTTP thread: the metrics of a snapshot, in the text format. */
    void (*render)(const void *snapshot, struct metrics_text *text);
    /* HTTP thread: NULL when the snapshot's owner can serve, else why not, in one line. */
    const char *(*not_ready)(const void *snapshot);
    void *context;
};

/* Listens. INVALID: not an address; BUSY, PERMISSION, NOT_FOUND as io_listen(); NO_MEMORY. */
MUST_USE status http_create(const struct http_options *options, struct http **http);

/* Owner's thread: gives the snapshot that is asked for, if one is. */
void http_serve(struct http *http);

/* Owner's thread: ends the thread and closes all connections; waits two seconds at most. */
void http_destroy(struct http *http);

/* HTTP thread: memory, processor time, descriptors and start of this process, from /proc. */
void http_process_metrics(struct metrics_text *text);

#endif
