/*
 * What the clients of a node know, and the rules that everything the node says is checked against.
 * A record has a number, drawn once and never reused; its content follows from the number. So a
 * record that is read tells which one it is, and is checked against what was sent.
 *
 * A rule that is broken ends the process (violation.h). Rules:
 *   - a record stands at one offset at most, where it was acknowledged, for ever, in equal bytes;
 *   - nothing is read that was not sent to that partition;
 *   - a record that was missing at a start does not come back unless it is sent again;
 *   - offsets are gapless; an idempotent producer's records stand in the order it sent them;
 *   - the high watermark moves back for nobody; after a start it covers all acknowledged records;
 *   - a topic lives as long as its creation and deletion were answered, under one id;
 *   - a log start moves back for nobody, and goes where somebody asked for; nothing below is read;
 *   - a lookup by time finds the first record there is; an end of the log is where it is;
 *   - a setting of a topic is the one that was answered last.
 */
#ifndef TWINLOG_TESTS_SIM_MODEL_H
#define TWINLOG_TESTS_SIM_MODEL_H

#include "twinlog/core/bytes.h"
#include "twinlog/core/uuid.h"
#include "twinlog/io/sim.h"
#include "twinlog/protocol/batch.h"

#define MODEL_PARTITIONS_MAX 3u
#define MODEL_NAMES          4u /* topics that can live at once */
#define MODEL_RECORD_NONE    UINT32_MAX

/* A record, from before it was first sent. */
struct model_record {
    struct model_partition *partition;
    uint32_t producer; /* MODEL_RECORD_NONE: of no idempotent producer */
    uint32_t size;     /* bytes of the value */
    uint32_t life;     /* of the node in which it was sent last */
    int64_t offset;    /* where it was read or acknowledged; -1: not yet */
    int64_t timestamp; /* ms */
    bool acked;
};

/* An offset. */
struct model_entry {
    uint32_t record;     /* MODEL_RECORD_NONE: nobody has seen it */
    uint32_t batch_hash; /* of the batch that holds it, 0: not read yet */
};

struct model_partition {
    struct model_topic *topic;
    int32_t index;
    struct model_entry *entries;
    uint32_t entry_count;
    uint32_t entry_capacity;
    int64_t high_watermark; /* highest that the node said or has to say */
    int64_t acked_end;      /* behind the highest acknowledged record */
    int64_t log_start;      /* highest that the node said or has to say */
    int64_t trim_asked;     /* highest that anybody asked for: it starts nowhere above */
    /* Log ends at the last two starts that were looked at, and their lives. */
    int64_t start_end;
    uint32_t start_life;
    int64_t previous_end;
    uint32_t previous_life;
};

enum model_topic_state {
    MODEL_TOPIC_CREATING, /* asked for, not answered */
    MODEL_TOPIC_ALIVE,
    MODEL_TOPIC_DELETING, /* asked for, not answered */
    MODEL_TOPIC_DELETED,
};

#define MODEL_SETTINGS 3u
#define MODEL_DEFAULT  (-1) /* as a value: the topic has none of its own */

/* A setting of a topic; while a change is not answered it has one of two values. */
struct model_setting {
    int64_t value;
    int64_t changed; /* to this one, perhaps */
    bool is_changing;
};

struct model_topic {
    enum model_topic_state state;
    uint32_t name; /* index of it */
    struct uuid id;
    bool has_id; /* known once created */
    uint32_t partition_count;
    struct model_partition partitions[MODEL_PARTITIONS_MAX];
    struct model_setting settings[MODEL_SETTINGS];
};

struct model {
    uint64_t seed;
    uint32_t life; /* counts successful starts */
    struct model_record *records;
    uint32_t record_count;
    uint32_t record_capacity;
    struct model_topic **topics; /* all there ever were */
    uint32_t topic_count;
    struct model_topic *named[MODEL_NAMES]; /* the one that has the name, or may have it; or NULL */
    uint64_t acked_count;
    uint64_t excused_count; /* acknowledged records that rot took, as is allowed */
    bool is_rotten;         /* a segment is: what is read may be damaged, if that can be seen */
    uint64_t damage_seen;   /* reads that were */
};

/* A topic as the node lists it. */
struct model_listed {
    uint32_t name;
    struct uuid id;
    uint32_t partition_count;
};

/* Starts an empty model. */
void model_init(struct model *model, uint64_t seed);

/* Frees all. */
void model_fini(struct model *model);

/* Draws a record for `partition`; the value has `size` bytes, at least MODEL_VALUE_SIZE_MIN. */
#define MODEL_VALUE_SIZE_MIN 16u
uint32_t model_record_add(struct model *model, struct model_partition *partition, uint32_t producer,
                          uint32_t size);

/* Writes the value of a record. */
void model_record_value(const struct model *model, uint32_t record, uint8_t *value);

/* `count` records from `first` on have this timestamp. */
void model_stamped(struct model *model, uint32_t first, uint32_t count, int64_t timestamp);

/* `count` records from `first` on are being sent now. */
void model_sent(struct model *model, uint32_t first, uint32_t count);

/* They were acknowledged at `base_offset`; `all`: with acks=all. */
void model_acked(struct model *model, struct model_partition *partition, uint32_t first,
                 uint32_t count, int64_t base_offset, bool all);

/*
 * A fetch from `offset` that was sent when the high watermark was known to be `hw_before` gave
 * these bytes and this high watermark. Returns the offset to go on from; MODEL_DAMAGED: the medium
 * is rotten there, and the bytes tell.
 */
#define MODEL_DAMAGED (-1)
int64_t model_fetched(struct model *model, struct model_partition *partition, int64_t offset,
                      int64_t hw_before, int64_t high_watermark, struct bytes data);

/* A start succeeded: what was acknowledged, with acks=1 too, has to be there from now on. */
void model_started(struct model *model);

/*
 * The log end of a partition right after that. `excused`: rot may have taken records at the end;
 * what is gone is forgotten and may not come back.
 */
void model_start_end(struct model *model, struct model_partition *partition, int64_t log_end,
                     bool excused);

/* Checks the order of idempotent producers' records in all partitions. */
void model_check_order(const struct model *model);

/* A topic is being created under a free name. */
struct model_topic *model_topic_creating(struct model *model, uint32_t name,
                                         uint32_t partition_count);

/* Its creation was answered. */
void model_topic_created(struct model *model, struct model_topic *topic, const struct uuid *id);

/* Its deletion was asked for, and answered. */
void model_topic_deleting(struct model_topic *topic);
void model_topic_deleted(struct model *model, struct model_topic *topic);

/*
 * Rot may have taken what happened last, creations and deletions too: `is_there` is how it is now.
 */
void model_topic_excused(struct model *model, struct model_topic *topic, bool is_there);

/* The node lists its topics; what was not answered is settled by it. */
void model_listed(struct model *model, const struct model_listed *listed, uint32_t count);

/* What was known of a partition when something was asked. */
struct model_known {
    int64_t high_watermark;
    int64_t log_start;
};
struct model_known model_known(const struct model_partition *partition);

/* A log start is asked for. */
void model_trim_asked(struct model_partition *partition, int64_t offset);

/* It was answered that the log starts at `log_start` now. */
void model_trimmed(struct model_partition *partition, int64_t asked, int64_t log_start);

/* The node says where a log starts, asked when `known` was. */
void model_log_start(struct model_partition *partition, struct model_known known,
                     int64_t log_start);

/* The node says where a log ends for readers. */
void model_latest(struct model_partition *partition, struct model_known known, int64_t offset);

/*
 * A lookup by time, or of the largest timestamp (`find_max`), gave this record; offset -1: none.
 */
void model_looked_up(struct model *model, struct model_partition *partition,
                     struct model_known known, int64_t asked, bool find_max, int64_t offset,
                     int64_t timestamp);

/* A setting is being changed; it was, or it was not; the node says what it is. */
void model_setting_changing(struct model_setting *setting, int64_t value);
void model_setting_changed(struct model_setting *setting, bool is_changed);
void model_setting_told(const struct model_topic *topic, struct model_setting *setting,
                        int64_t value);

/* A living partition, chosen at random; NULL when there is none. */
struct model_partition *model_partition_pick(struct model *model, struct sim *sim);

#endif
