#include "admin.h"

#include <stdlib.h>

#include "client.h"
#include "random.h"
#include "violation.h"

struct admin {
    struct sim *sim;
    struct target *target;
    struct model *model;
    struct request request;
    bool is_out;
    bool is_unsettled; /* the outcome of the last change is not known */
    bool may_settle;   /* the node has started since */
};

/* ---------------------------------------------------------------- answers */

static void on_create(struct admin *admin, struct request *request)
{
    if (request->reply == REPLY_OK) {
        model_topic_created(admin->model, request->topic, &request->topic_id);
    } else if (request->reply == REPLY_REFUSED) {
        model_topic_deleted(admin->model, request->topic);
    } else if (request->reply == REPLY_EXISTS) {
        violation("topic %u exists already and nobody created it", request->topic->name);
    } else {
        admin->is_unsettled = true;
    }
}

static void on_delete(struct admin *admin, struct request *request)
{
    if (request->reply == REPLY_OK) {
        model_topic_deleted(admin->model, request->topic);
    } else if (request->reply == REPLY_REFUSED) {
        request->topic->state = MODEL_TOPIC_ALIVE;
    } else {
        admin->is_unsettled = true;
    }
}

static void on_trim(struct admin *admin, struct request *request)
{
    struct model_partition *partition = &request->topic->partitions[request->partition];
    if (request->reply == REPLY_OK) {
        model_trimmed(partition, request->offset, request->base_offset);
        admin->target->coverage.trims++;
    } else if (request->reply == REPLY_OUT_OF_RANGE) {
        violation("records of topic %u below the high watermark cannot be deleted",
                  request->topic->name);
    } else if (request->reply != REPLY_REFUSED) {
        admin->is_unsettled = true;
    }
}

static void on_offsets(struct admin *admin, struct request *request)
{
    struct model_partition *partition = &request->topic->partitions[request->partition];
    if (request->reply != REPLY_OK) {
        return;
    }
    admin->target->coverage.lookups++;
    if (request->timestamp == OFFSETS_EARLIEST) {
        model_log_start(partition, request->known, request->base_offset);
    } else if (request->timestamp == OFFSETS_LATEST) {
        model_latest(partition, request->known, request->base_offset);
    } else {
        model_looked_up(admin->model, partition, request->known, request->timestamp,
                        request->timestamp == OFFSETS_MAX_TIME, request->base_offset,
                        request->found_timestamp);
    }
}

static void on_setting(struct admin *admin, struct request *request)
{
    struct model_setting *setting = &request->topic->settings[request->setting];
    if (request->kind == REQUEST_DESCRIBE && request->reply == REPLY_OK) {
        model_setting_told(request->topic, setting, request->value);
        admin->target->coverage.settings_told++;
    } else if (request->kind == REQUEST_ALTER && request->reply == REPLY_OK) {
        model_setting_changed(setting, true);
        admin->target->coverage.settings_changed++;
    } else if (request->kind == REQUEST_ALTER) {
        admin->is_unsettled = true;
    }
}

static void on_answer(struct request *request)
{
    struct admin *admin = request->context;
    admin->is_out = false;
    if (request->reply == REPLY_GONE) {
        violation("topic %u is alive and an administrator does not find it", request->topic->name);
    }
    switch (request->kind) {
    case REQUEST_CREATE:
        on_create(admin, request);
        break;
    case REQUEST_DELETE:
        on_delete(admin, request);
        break;
    case REQUEST_TRIM:
        on_trim(admin, request);
        break;
    case REQUEST_OFFSETS:
        on_offsets(admin, request);
        break;
    case REQUEST_ALTER:
    case REQUEST_DESCRIBE:
        on_setting(admin, request);
        break;
    default:
        if (request->reply == REPLY_OK) {
            model_listed(admin->model, request->listed, request->listed_count);
            admin->is_unsettled = false;
        }
        break;
    }
}

/* ---------------------------------------------------------------- requests */

static void admin_send(struct admin *admin, const struct request *request)
{
    ASSERT(!admin->is_out);
    admin->is_out = true;
    admin->may_settle = admin->may_settle && request->kind == REQUEST_LIST;
    admin->request = *request;
    admin->request.client = CLIENT_ADMIN;
    admin->request.done = on_answer;
    admin->request.context = admin;
    admin->target->ops->submit(admin->target, &admin->request);
}

/* False: something is out or unknown; what is unknown is asked for when it is time to. */
static bool admin_is_free(struct admin *admin)
{
    admin_settle(admin);
    return !admin->is_out && !admin->is_unsettled;
}

void admin_settle(struct admin *admin)
{
    if (!admin->is_out && admin->is_unsettled && admin->may_settle) {
        admin_send(admin, &(struct request){.kind = REQUEST_LIST});
    }
}

void admin_node_started(struct admin *admin)
{
    admin_send(admin, &(struct request){.kind = REQUEST_LIST});
    admin->may_settle = true;
}

bool admin_is_settled(const struct admin *admin)
{
    return !admin->is_out && !admin->is_unsettled;
}

void admin_topic_step(struct admin *admin)
{
    uint32_t name = random_below(admin->sim, MODEL_NAMES);
    if (!admin_is_free(admin)) {
        return;
    }
    struct model_topic *topic = admin->model->named[name];
    if (topic == NULL) {
        uint32_t count = random_between(admin->sim, 1, MODEL_PARTITIONS_MAX);
        topic = model_topic_creating(admin->model, name, count);
        admin_send(admin, &(struct request){.kind = REQUEST_CREATE, .topic = topic});
    } else if (random_chance(admin->sim, 30)) {
        model_topic_deleting(topic);
        admin_send(admin, &(struct request){.kind = REQUEST_DELETE, .topic = topic});
    }
}

static void trim_step(struct admin *admin, struct model_partition *partition)
{
    struct request request = {.kind = REQUEST_TRIM,
                              .topic = partition->topic,
                              .partition = partition->index,
                              .known = model_known(partition)};
    uint32_t room = (uint32_t)(partition->high_watermark - partition->log_start);
    uint32_t part = random_chance(admin->sim, 10) ? room : room / 4;
    request.offset = partition->log_start + random_below(admin->sim, part + 1);
    model_trim_asked(partition, request.offset);
    admin_send(admin, &request);
}

static void offsets_step(struct admin *admin, struct model_partition *partition)
{
    struct request request = {.kind = REQUEST_OFFSETS,
                              .topic = partition->topic,
                              .partition = partition->index,
                              .known = model_known(partition),
                              .timestamp = -(int64_t)random_between(admin->sim, 1, 3)};
    if (random_chance(admin->sim, 60) && admin->model->record_count > 0) {
        uint32_t record = random_below(admin->sim, admin->model->record_count);
        request.timestamp = admin->model->records[record].timestamp;
        request.timestamp += (int64_t)random_below(admin->sim, 3) - 1;
    }
    admin_send(admin, &request);
}

static void setting_step(struct admin *admin, struct model_topic *topic)
{
    struct request request = {.kind = REQUEST_DESCRIBE,
                              .topic = topic,
                              .setting = random_below(admin->sim, MODEL_SETTINGS)};
    struct model_setting *setting = &topic->settings[request.setting];
    if (!setting->is_changing && random_chance(admin->sim, 50)) {
        request.kind = REQUEST_ALTER;
        request.value = random_chance(admin->sim, 20)
                            ? MODEL_DEFAULT
                            : (int64_t)random_between(admin->sim, 600000, 2000000);
        model_setting_changing(setting, request.value);
    }
    admin_send(admin, &request);
}

void admin_fact_step(struct admin *admin)
{
    struct model_partition *partition = model_partition_pick(admin->model, admin->sim);
    uint32_t draw = random_below(admin->sim, 100);
    if (!admin_is_free(admin) || partition == NULL) {
        return;
    }
    if (draw < 30) {
        trim_step(admin, partition);
    } else if (draw < 70 || !admin->target->is_broker) {
        offsets_step(admin, partition);
    } else {
        setting_step(admin, partition->topic);
    }
}

struct admin *admin_create(struct sim *sim, struct target *target, struct model *model)
{
    struct admin *admin = calloc(1, sizeof(*admin));
    ASSERT(admin != NULL);
    admin->sim = sim;
    admin->target = target;
    admin->model = model;
    return admin;
}

void admin_destroy(struct admin *admin)
{
    free(admin);
}
