/*
 * Fetch sessions (KIP-227): what a consumer fetches is remembered, so that its next request names
 * only what changes and the answer leaves out partitions without news.
 *
 *                 epoch 0                        epoch n (its next)
 *     request ---------------> FULL      request ------------------> INCREMENTAL
 *                 answered: a session            the session's partitions are fetched; answered:
 *                 if there is room               those with news
 *
 *     request of epoch -1, or before version 7: SESSIONLESS; a session it names is closed
 *
 * The cache is bounded: `slots` sessions and `partitions_max` partitions in all. For a new one room
 * is made as in Kafka: by a session that was not used for two minutes, or by one that is older than
 * that and smaller; else the answer's session id is 0, and the client sends full requests. A
 * session belongs to whoever knows its id. Shard's loop only.
 */
#ifndef TWINLOG_BROKER_FETCH_SESSION_H
#define TWINLOG_BROKER_FETCH_SESSION_H

#include "twinlog/core/arena.h"
#include "twinlog/core/list.h"
#include "twinlog/protocol/kafka_error.h"
#include "twinlog/protocol/messages.h"

#define FETCH_SESSION_EVICTION_MS 120000

struct fetch_session;

struct fetch_sessions {
    struct fetch_session *by_id;
    struct list by_use; /* the one that was used longest ago first */
    uint32_t slots;
    uint32_t count;
    uint64_t partitions_max;
    uint64_t partition_count;
    uint64_t evictions;
};

enum fetch_kind { FETCH_SESSIONLESS, FETCH_FULL, FETCH_INCREMENTAL };

/* One request's part in a session, from its start to its answer. */
struct fetch_context {
    enum fetch_kind kind;
    int32_t session_id;
    int32_t session_epoch; /* of the session when the answer is made */
    bool by_id;            /* topics by id, from version 13 on */
};

/* Empty. `slots` 0: no sessions. */
void fetch_sessions_init(struct fetch_sessions *sessions, uint32_t slots, uint64_t partitions_max);

/* Frees all. */
void fetch_sessions_fini(struct fetch_sessions *sessions);

/*
 * Begins a request: judges its session and, when it goes on with one, takes over what it changes
 * and puts the session's partitions, in the order in which they are to be read, in the place of the
 * message's (in `arena`). Another error than NONE is the whole answer, with session id 0.
 */
enum kafka_error fetch_session_begin(struct fetch_sessions *sessions, int64_t now_ms,
                                     int16_t version, struct arena *arena,
                                     struct fetch_request *message, struct fetch_context *context);

/*
 * Ends it: the response, which answers every partition of the message in order, gets its session
 * id; that of an incremental fetch loses what has no news, in arrays of their own (in `arena`), so
 * that the caller's stay as they are. `random` is for the id of a new session. NO_MEMORY.
 */
MUST_USE status fetch_session_finish(struct fetch_sessions *sessions, int64_t now_ms,
                                     uint64_t random, struct arena *arena,
                                     const struct fetch_request *message,
                                     const struct fetch_context *context,
                                     struct fetch_response *response);

/* Asserts that counts and orders agree. */
void fetch_sessions_check(const struct fetch_sessions *sessions);

#endif
