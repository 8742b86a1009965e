/*
 * What a node says about its partitions and topics, beyond records: log starts, lookups, settings.
 */
#include <inttypes.h>

#include "model.h"
#include "violation.h"

struct model_known model_known(const struct model_partition *partition)
{
    return (struct model_known){partition->high_watermark, partition->log_start};
}

/* ---------------------------------------------------------------- log starts */

void model_log_start(struct model_partition *partition, struct model_known known, int64_t log_start)
{
    if (log_start < known.log_start) {
        violation("the log start of topic %u-%d went back from %" PRId64 " to %" PRId64,
                  partition->topic->name, partition->index, known.log_start, log_start);
    }
    if (log_start > partition->trim_asked) {
        violation("topic %u-%d starts at %" PRId64 ", and at most %" PRId64 " was asked for",
                  partition->topic->name, partition->index, log_start, partition->trim_asked);
    }
    partition->log_start = MAX(partition->log_start, log_start);
}

void model_trim_asked(struct model_partition *partition, int64_t offset)
{
    partition->trim_asked = MAX(partition->trim_asked, offset);
}

void model_trimmed(struct model_partition *partition, int64_t asked, int64_t log_start)
{
    if (log_start < asked) {
        violation("the records of topic %u-%d below %" PRId64 " are deleted, and it starts at "
                  "%" PRId64,
                  partition->topic->name, partition->index, asked, log_start);
    }
    model_log_start(partition, model_known(partition), log_start);
}

/* ---------------------------------------------------------------- lookups */

void model_latest(struct model_partition *partition, struct model_known known, int64_t offset)
{
    if (offset < known.high_watermark) {
        violation("the end of topic %u-%d went back from %" PRId64 " to %" PRId64,
                  partition->topic->name, partition->index, known.high_watermark, offset);
    }
    partition->high_watermark = MAX(partition->high_watermark, offset);
}

/* Checks that `offset` is of a record with `timestamp`, as far as that is known. */
static void found_check(const struct model *model, struct model_partition *partition,
                        struct model_known known, int64_t offset, int64_t timestamp)
{
    if (offset < known.log_start) {
        violation("a lookup in topic %u-%d finds offset %" PRId64 " below the log start %" PRId64,
                  partition->topic->name, partition->index, offset, known.log_start);
    }
    /* What is found can be read, and goes on to. */
    partition->high_watermark = MAX(partition->high_watermark, offset + 1);
    if (offset < partition->entry_count) {
        uint32_t record = partition->entries[offset].record;
        if (record != MODEL_RECORD_NONE && model->records[record].timestamp != timestamp) {
            violation("a lookup in topic %u-%d finds timestamp %" PRId64 " at offset %" PRId64
                      ", and its record has %" PRId64,
                      partition->topic->name, partition->index, timestamp, offset,
                      model->records[record].timestamp);
        }
    }
}

void model_looked_up(struct model *model, struct model_partition *partition,
                     struct model_known known, int64_t asked, bool find_max, int64_t offset,
                     int64_t timestamp)
{
    if (offset >= 0) {
        found_check(model, partition, known, offset, timestamp);
        if (!find_max && timestamp < asked) {
            violation("a lookup of %" PRId64 " in topic %u-%d finds %" PRId64, asked,
                      partition->topic->name, partition->index, timestamp);
        }
    }
    int64_t end = offset >= 0 && !find_max ? offset : known.high_watermark;
    for (int64_t at = partition->trim_asked; at < MIN(end, (int64_t)partition->entry_count); at++) {
        uint32_t record = partition->entries[at].record;
        if (record == MODEL_RECORD_NONE) {
            continue;
        }
        int64_t here = model->records[record].timestamp;
        if (find_max ? offset < 0 || here > timestamp : here >= asked) {
            violation("a lookup of %" PRId64 " in topic %u-%d gives offset %" PRId64
                      " and timestamp %" PRId64 ", and offset %" PRId64 " has %" PRId64,
                      asked, partition->topic->name, partition->index, offset, timestamp, at, here);
        }
    }
}

/* ---------------------------------------------------------------- settings */

void model_setting_changing(struct model_setting *setting, int64_t value)
{
    ASSERT(!setting->is_changing);
    setting->is_changing = true;
    setting->changed = value;
}

void model_setting_changed(struct model_setting *setting, bool is_changed)
{
    setting->value = is_changed ? setting->changed : setting->value;
    setting->is_changing = false;
}

void model_setting_told(const struct model_topic *topic, struct model_setting *setting,
                        int64_t value)
{
    if (value != setting->value && !(setting->is_changing && value == setting->changed)) {
        violation("setting %u of topic %u is %" PRId64 ", and %" PRId64 " was set",
                  (unsigned)(setting - topic->settings), topic->name, value, setting->value);
    }
    model_setting_changed(setting, value != setting->value);
}
