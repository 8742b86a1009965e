/*
 * The part of wire.c about offsets, settings and fetch sessions; each request has two functions,
 * to make its frame and to take its answer.
 */
#ifndef TWINLOG_TESTS_SIM_WIRE_FACTS_H
#define TWINLOG_TESTS_SIM_WIRE_FACTS_H

#include "twinlog/protocol/messages.h"

#include "target.h"

#define TIMEOUT_MS 30000
#define NAME_SIZE  16u

/* Of wire.c. */
uint8_t *frame_encode(enum request_kind kind, int32_t correlation_id, const void *message,
                      uint32_t *size);
enum reply reply_of(int16_t error);
void count_check(int32_t count);

uint8_t *offsets_encode(const struct request *request, int32_t correlation_id, uint32_t *size);
void offsets_take(struct request *request, const struct list_offsets_response *message);

uint8_t *trim_encode(const struct request *request, int32_t correlation_id, uint32_t *size);
void trim_take(struct request *request, const struct delete_records_response *message);

uint8_t *alter_encode(const struct request *request, int32_t correlation_id, uint32_t *size);
void alter_take(struct request *request, const struct incremental_alter_configs_response *message);

uint8_t *describe_encode(const struct request *request, int32_t correlation_id, uint32_t *size);
void describe_take(struct request *request, const struct describe_configs_response *message);

uint8_t *session_encode(const struct request *request, int32_t correlation_id, uint32_t *size);
void session_take(struct request *request, const struct fetch_response *message);

#endif
