/*
 * A consumer that reads all partitions in a fetch session (KIP-227), and checks what the answers
 * leave out as well as what they say: a partition that is not named has no news.
 */
#ifndef TWINLOG_TESTS_SIM_SESSION_H
#define TWINLOG_TESTS_SIM_SESSION_H

#include "model.h"
#include "target.h"

struct session;

struct session *session_create(struct sim *sim, struct target *target, struct model *model);
void session_destroy(struct session *session); /* NULL is fine */

/* Sends the next fetch, unless one is out. */
void session_step(struct session *session);

bool session_is_out(const struct session *session);

/* True when everything that is known to be there was read. */
bool session_is_at_end(const struct session *session);

#endif
