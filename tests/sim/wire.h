/*
 * Requests of the simulation in Kafka's protocol: encoding into frames, and what an answer says.
 */
#ifndef TWINLOG_TESTS_SIM_WIRE_H
#define TWINLOG_TESTS_SIM_WIRE_H

#include "target.h"
#include "twinlog/core/arena.h"

/* The frame of a request, length prefix and all; malloc'd. */
uint8_t *wire_encode(const struct request *request, int32_t correlation_id, uint32_t *size);

/* Takes over what the answer to `request` says; `frame` is without its length prefix. */
void wire_decode(struct request *request, int32_t correlation_id, struct bytes frame,
                 struct arena *arena);

#endif
