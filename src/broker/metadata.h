/*
 * The image of the cluster: topics by name and by id, and the next producer id. Built only from
 * committed records of the metadata log (metadata_apply), at start and at run time alike (I6).
 * Changes are records appended by topic_change.c; until they are committed their names stand in
 * the pending set, so that two requests for one name resolve before either is committed.
 *
 * The value of each record: type (varint), version (varint), body as the schema says.
 */
#ifndef TWINLOG_BROKER_METADATA_H
#define TWINLOG_BROKER_METADATA_H

#include <uthash.h>

#include "twinlog/protocol/messages.h"

#include "overrides.h"
#include "topic_config.h"

#define TOPIC_NAME_SIZE_MAX 249u

struct topic {
    struct uuid id;
    char *name;
    uint32_t name_size;
    int32_t partition_count;
    struct partition **partitions;
    struct topic_config config;
    struct overrides overrides;
    bool internal;
    /* A removal, or more partitions, are on their way into the log up to this LSN; 0: nothing. */
    uint64_t change_lsn;
    bool removing;
    uint64_t config_lsn; /* the same of its settings */
    UT_hash_handle by_name;
    UT_hash_handle by_id;
};

/* A name that is being created. */
struct pending_topic {
    char name[TOPIC_NAME_SIZE_MAX + 1];
    uint64_t lsn;
    UT_hash_handle hh;
};

/* Settings of brokers: those of all, and those of this one, which go before. */
enum broker_layer { BROKER_LAYER_ALL, BROKER_LAYER_OWN, BROKER_LAYER_COUNT };

struct metadata {
    const struct broker_config *given; /* as the broker was started with */
    struct broker_config config;       /* the same under the settings of brokers */
    struct overrides broker_overrides[BROKER_LAYER_COUNT];
    uint64_t broker_config_lsn; /* a change of them is on its way up to this LSN; 0: none */
    struct log **log;           /* set while log_open() runs */
    struct topic *by_name;
    struct topic *by_id;
    struct pending_topic *pending;
    uint32_t topic_count;
    int64_t partition_count;
    int64_t next_producer_id; /* ids below are given out or reserved */
    struct arena scratch;
};

/* Empty; `config` outlives it; `log` is where log_open() puts its log. */
void metadata_init(struct metadata *metadata, const struct broker_config *config, struct log **log);

/* Frees the image; partitions belong to the log. */
void metadata_fini(struct metadata *metadata);

/* NULL when there is none. */
struct topic *metadata_topic_by_name(struct metadata *metadata, struct bytes name);
struct topic *metadata_topic_by_id(struct metadata *metadata, const struct uuid *id);

/* NULL when the index is out of range. */
struct partition *topic_partition(const struct topic *topic, int32_t index);

/* The topic's name as a view. */
struct bytes topic_name(const struct topic *topic);

/* Applies one committed batch of the metadata log. CORRUPT: it cannot be read; traced. */
MUST_USE status metadata_apply(struct metadata *metadata, struct bytes batch);

/* NULL when nobody creates a topic of this name now. */
struct pending_topic *metadata_pending_find(struct metadata *metadata, struct bytes name);

/* Notes that the record for `name` is in the log up to `lsn`. NO_MEMORY. */
MUST_USE status metadata_pending_add(struct metadata *metadata, struct bytes name, uint64_t lsn);

/* Kafka's rules for topic names; NULL when it is fine, else what is wrong. */
const char *topic_name_judge(struct bytes name);

/*
 * A topic, there or pending, whose name differs from `name` only by '.' against '_' (they share
 * metric names in Kafka); NULL when there is none. *found_name is set to its name.
 */
bool metadata_name_collides(struct metadata *metadata, struct bytes name, const char **found_name);

#endif
