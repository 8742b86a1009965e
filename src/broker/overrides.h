/*
 * Settings that were made at run time, of a topic or of brokers: names and values in one
 * allocation, as the metadata log gave them.
 */
#ifndef TWINLOG_BROKER_OVERRIDES_H
#define TWINLOG_BROKER_OVERRIDES_H

#include "twinlog/protocol/messages.h"

/* Kafka's numbers of what has settings (ConfigResource.Type). */
enum resource_type {
    RESOURCE_TOPIC = 2,
    RESOURCE_BROKER = 4,
    RESOURCE_BROKER_LOGGER = 8,
};

struct overrides {
    struct topic_record_config *items;
    int32_t count;
};

/* Takes a copy in place of what was there. NO_MEMORY: nothing changed. */
MUST_USE status overrides_set(struct overrides *overrides, const struct topic_record_config *from,
                              int32_t count);

/* Frees them. */
void overrides_free(struct overrides *overrides);

/* NULL when the name is not among them. */
const struct topic_record_config *overrides_find(const struct overrides *overrides,
                                                 struct bytes name);

#endif
