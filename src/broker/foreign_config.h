/*
 * Settings of Kafka 4.2's brokers that have no meaning here, with Kafka's defaults: tools ask for
 * them by name and expect them in the list. What would lie is not among them: addresses,
 * directories, classes of a Java machine, and all that protects.
 */
#ifndef TWINLOG_BROKER_FOREIGN_CONFIG_H
#define TWINLOG_BROKER_FOREIGN_CONFIG_H

#include "twinlog/broker/config.h"

struct foreign_key {
    const char *name;
    enum config_type type;
    const char *preset; /* NULL: Kafka has no default */
};

/* All of them; the count is in *count. One that the broker honours as well is the broker's. */
const struct foreign_key *foreign_config_keys(size_t *count);

#endif
