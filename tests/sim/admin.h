/*
 * The client that makes and deletes topics, deletes records, changes settings and asks for all of
 * it: one request at a time, since these requests name topics by name. What became of a change
 * whose answer was lost is asked for only after the next start, when it can no longer arrive.
 */
#ifndef TWINLOG_TESTS_SIM_ADMIN_H
#define TWINLOG_TESTS_SIM_ADMIN_H

#include "model.h"
#include "target.h"

struct admin;

struct admin *admin_create(struct sim *sim, struct target *target, struct model *model);
void admin_destroy(struct admin *admin);

/* Makes or deletes a topic, perhaps. */
void admin_topic_step(struct admin *admin);

/* Trims, looks up, changes a setting or asks for one. */
void admin_fact_step(struct admin *admin);

/* Asks for what became of a lost change, when it is time to. */
void admin_settle(struct admin *admin);

/* What is there is asked for now. */
void admin_node_started(struct admin *admin);

/* True when nothing is out and nothing unknown. */
bool admin_is_settled(const struct admin *admin);

#endif
