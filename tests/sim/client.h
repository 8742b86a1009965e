/*
 * The clients of a run: producers, idempotent and plain, which are consumers too, one that makes
 * and deletes topics (admin.h) and one that reads in sessions (session.h). They retry as Kafka's
 * client does: after a failure an idempotent producer waits until everything of that partition is
 * answered, then sends what is not acknowledged again, in order, under the same sequence numbers.
 */
#ifndef TWINLOG_TESTS_SIM_CLIENT_H
#define TWINLOG_TESTS_SIM_CLIENT_H

#include "model.h"
#include "target.h"

#define CLIENTS_COUNT    4u /* three producers, and the one that makes topics */
#define CLIENT_ADMIN     3u
#define CLIENT_SCANNER   4u /* reads everything after a start */
#define CLIENT_SESSION   5u /* reads in fetch sessions */
#define CONNECTIONS      6u
#define CLIENT_IN_FLIGHT 5u

struct workload;

/* How big what the clients send is, and how often. */
struct workload_shape {
    uint32_t value_size_max;
    uint32_t big_percent; /* batches larger than a frame */
    uint32_t big_size_max;
    uint32_t records_max;
    uint32_t topic_percent; /* steps that make or delete a topic */
    uint32_t fact_percent;  /* that trim, look up, change settings and ask for them */
};

struct workload *workload_create(struct sim *sim, struct target *target, struct model *model,
                                 const struct workload_shape *shape);
void workload_destroy(struct workload *workload);

/* One random thing that some client does. */
void workload_step(struct workload *workload);

/* Sends again what failed, and nothing new. */
void workload_retry(struct workload *workload);

/* Asks for what became of a topic operation that was lost, when it is time to. */
void workload_settle(struct workload *workload);

/* True when nothing is out and nothing waits to be sent again. */
bool workload_is_settled(const struct workload *workload);

/* Rot took acknowledged records: the idempotent producers begin anew under other ids. */
void workload_producers_reset(struct workload *workload);

/* A topic operation that was lost is settled by asking, which is right only after a start. */
void workload_node_started(struct workload *workload);

/* Reads on in a fetch session; true when it has read everything there is. */
bool workload_session_go_on(struct workload *workload);

/* Begins to read all partitions from their beginning. */
void workload_scan_start(struct workload *workload);

/* Sends the next read of it when the one before was answered. */
void workload_scan_go_on(struct workload *workload);

/* True when that has come to the end, or was given up because the node went. */
bool workload_scan_is_done(const struct workload *workload);

/* True when the last one came to its end. */
bool workload_scan_is_complete(const struct workload *workload);

#endif
