#include "session.h"

#include <inttypes.h>
#include <stdlib.h>

#include "client.h"
#include "random.h"
#include "violation.h"

/* A partition that is read. */
struct part {
    struct model_partition *partition; /* NULL: free */
    bool is_in;                        /* the session has it, or will with the next fetch */
    bool is_changed;                   /* its position is other than the session's */
    bool is_told;                      /* in the answer at hand */
    int64_t position;
    int64_t told_high_watermark; /* -1: has to be told */
    int64_t told_log_start;
    struct model_known known; /* when the fetch was sent */
};

struct session {
    struct sim *sim;
    struct target *target;
    struct model *model;
    struct request request;
    struct session_fetch fetch;
    bool is_out;
    int32_t id; /* 0: there is none */
    int32_t epoch;
    uint32_t life; /* of the node that gave the id */
    struct part parts[SESSION_PARTITIONS];
};

/* ---------------------------------------------------------------- answers */

static struct part *part_find(struct session *session, const struct session_result *result)
{
    for (uint32_t i = 0; i < SESSION_PARTITIONS; i++) {
        struct part *part = &session->parts[i];
        if (part->partition != NULL && part->is_in && part->partition->index == result->partition &&
            uuid_equal(&part->partition->topic->id, &result->topic_id)) {
            return part;
        }
    }
    violation("a session answers partition %d of a topic that it does not have", result->partition);
}

static void part_take(struct session *session, struct part *part,
                      const struct session_result *result)
{
    struct model_partition *partition = part->partition;
    part->is_told = true;
    part->told_high_watermark = -1;
    part->told_log_start = -1;
    switch (result->reply) {
    case REPLY_OK:
        if (part->position < part->known.log_start) {
            violation("a session reads topic %u-%d at %" PRId64 ", below the log start",
                      partition->topic->name, partition->index, part->position);
        }
        model_log_start(partition, part->known, result->log_start);
        model_latest(partition, part->known, result->high_watermark);
        int64_t next = part->position;
        if (result->size > 0) {
            next =
                model_fetched(session->model, partition, part->position, part->known.high_watermark,
                              result->high_watermark, (struct bytes){result->data, result->size});
        }
        part->is_changed = next != part->position;
        part->position = next;
        part->told_high_watermark = result->high_watermark;
        part->told_log_start = result->log_start;
        break;
    case REPLY_OUT_OF_RANGE:
        if (part->position >= partition->trim_asked) {
            violation("a session cannot read topic %u-%d from %" PRId64, partition->topic->name,
                      partition->index, part->position);
        }
        part->position = MAX(part->position + 1, partition->log_start);
        part->is_changed = true;
        break;
    case REPLY_GONE:
        if (partition->topic->state == MODEL_TOPIC_ALIVE) {
            violation("topic %u is alive and a session does not find it", partition->topic->name);
        }
        break;
    default: /* The next answer has it again. */
        break;
    }
}

/* What an incremental answer leaves out has no news. */
static void left_out_check(struct session *session, const struct part *part, uint64_t size)
{
    const struct model_partition *partition = part->partition;
    session->target->coverage.session_left_out++;
    if (part->known.high_watermark > part->told_high_watermark ||
        part->known.log_start > part->told_log_start) {
        violation("a session leaves out topic %u-%d, told: high watermark %" PRId64
                  ", log start %" PRId64 ", known: %" PRId64 " and %" PRId64,
                  partition->topic->name, partition->index, part->told_high_watermark,
                  part->told_log_start, part->known.high_watermark, part->known.log_start);
    }
    /* Only the first one with records gives a batch whatever its size: the others may have to wait.
     */
    if (part->position < part->known.high_watermark && size == 0) {
        violation(
            "a session leaves out topic %u-%d, which has records from %" PRId64 " to %" PRId64,
            partition->topic->name, partition->index, part->position, part->known.high_watermark);
    }
}

static void session_drop(struct session *session)
{
    session->target->coverage.sessions_lost += session->id != 0 ? 1 : 0;
    session->id = 0;
}

static void answer_take(struct session *session)
{
    struct session_fetch *fetch = &session->fetch;
    uint64_t size = 0;
    session->target->coverage.session_fetches++;
    for (uint32_t i = 0; i < SESSION_PARTITIONS; i++) {
        session->parts[i].is_told = false;
        session->parts[i].is_changed = false;
    }
    for (uint32_t i = 0; i < fetch->result_count; i++) {
        size += fetch->results[i].size;
        part_take(session, part_find(session, &fetch->results[i]), &fetch->results[i]);
    }
    bool is_empty = true;
    for (uint32_t i = 0; i < SESSION_PARTITIONS; i++) {
        struct part *part = &session->parts[i];
        bool is_in = part->partition != NULL && part->is_in;
        is_empty = is_empty && !is_in;
        if (is_in && !part->is_told) {
            left_out_check(session, part, size);
        }
    }
    /* A session that has nothing any more is given up, as in Kafka. */
    bool is_over = is_empty && fetch->given_id == 0;
    if (fetch->epoch != 0 && fetch->given_id != session->id && !is_over) {
        violation("session %d is answered as %d", session->id, fetch->given_id);
    }
    session->life = fetch->epoch == 0 ? session->model->life : session->life;
    session->epoch = fetch->epoch + 1;
    session->id = fetch->given_id;
}

static void on_fetched(struct request *request)
{
    struct session *session = request->context;
    struct session_fetch *fetch = &session->fetch;
    session->is_out = false;
    if (request->reply == REPLY_OK) {
        answer_take(session);
    } else if (request->reply == REPLY_NO_SESSION && session->life == session->model->life) {
        violation("session %d is not known at epoch %d", session->id, session->epoch);
    } else {
        session_drop(session);
    }
    for (uint32_t i = 0; i < fetch->result_count; i++) {
        free(fetch->results[i].data);
    }
    fetch->result_count = 0;
}

/* ---------------------------------------------------------------- requests */

static void forget(struct session *session, struct part *part)
{
    struct session_fetch *fetch = &session->fetch;
    if (part->is_in && session->id != 0) {
        fetch->forgotten[fetch->forgotten_count++] = part->partition;
    }
    part->is_in = false;
    if (part->partition->topic->state != MODEL_TOPIC_ALIVE) {
        *part = (struct part){0};
    }
}

static bool is_forgotten(const struct session_fetch *fetch, const struct model_partition *partition)
{
    for (uint32_t i = 0; i < fetch->forgotten_count; i++) {
        if (fetch->forgotten[i] == partition) {
            return true;
        }
    }
    return false;
}

static struct part *part_of(struct session *session, struct model_partition *partition)
{
    struct part *unused = NULL;
    for (uint32_t i = 0; i < SESSION_PARTITIONS; i++) {
        struct part *part = &session->parts[i];
        if (part->partition == partition) {
            return part;
        }
        unused = part->partition == NULL && unused == NULL ? part : unused;
    }
    ASSERT(unused != NULL);
    *unused = (struct part){.partition = partition, .position = partition->log_start};
    return unused;
}

static void part_add(struct session *session, struct part *part)
{
    struct session_fetch *fetch = &session->fetch;
    if (!part->is_in) {
        part->told_high_watermark = -1;
        part->told_log_start = -1;
        part->is_in = true;
        part->is_changed = true;
    }
    if (part->is_changed) {
        fetch->added[fetch->added_count].partition = part->partition;
        fetch->added[fetch->added_count++].offset = part->position;
    }
}

/* All living partitions, but for some that are forgotten for a while. */
static void fetch_fill(struct session *session)
{
    struct model *model = session->model;
    for (uint32_t i = 0; i < SESSION_PARTITIONS; i++) {
        struct part *part = &session->parts[i];
        if (part->partition != NULL && (part->partition->topic->state != MODEL_TOPIC_ALIVE ||
                                        random_chance(session->sim, 2))) {
            forget(session, part);
        } else if (session->id == 0) {
            part->is_in = false; /* All is said anew. */
        }
    }
    for (uint32_t name = 0; name < MODEL_NAMES; name++) {
        struct model_topic *topic = model->named[name];
        for (uint32_t p = 0;
             topic != NULL && topic->state == MODEL_TOPIC_ALIVE && p < topic->partition_count;
             p++) {
            if (is_forgotten(&session->fetch, &topic->partitions[p])) {
                continue; /* What is named in both lists is forgotten. */
            }
            struct part *part = part_of(session, &topic->partitions[p]);
            part_add(session, part);
            part->known = model_known(part->partition);
        }
    }
}

void session_step(struct session *session)
{
    struct session_fetch *fetch = &session->fetch;
    if (session->is_out) {
        return;
    }
    fetch->id = session->id;
    fetch->epoch = session->id == 0 ? 0 : session->epoch;
    fetch->added_count = 0;
    fetch->forgotten_count = 0;
    fetch_fill(session);
    session->is_out = true;
    session->request = (struct request){.kind = REQUEST_SESSION,
                                        .client = CLIENT_SESSION,
                                        .done = on_fetched,
                                        .context = session,
                                        .size_max = random_between(session->sim, 1, 32768),
                                        .session = fetch};
    session->target->ops->submit(session->target, &session->request);
}

bool session_is_out(const struct session *session)
{
    return session->is_out;
}

bool session_is_at_end(const struct session *session)
{
    for (uint32_t name = 0; name < MODEL_NAMES; name++) {
        const struct model_topic *topic = session->model->named[name];
        for (uint32_t p = 0; topic != NULL && p < topic->partition_count; p++) {
            bool is_read = false;
            for (uint32_t i = 0; i < SESSION_PARTITIONS; i++) {
                const struct part *part = &session->parts[i];
                is_read = is_read || (part->partition == &topic->partitions[p] &&
                                      part->position >= topic->partitions[p].high_watermark);
            }
            if (!is_read) {
                return false;
            }
        }
    }
    return true;
}

struct session *session_create(struct sim *sim, struct target *target, struct model *model)
{
    struct session *session = calloc(1, sizeof(*session));
    ASSERT(session != NULL);
    session->sim = sim;
    session->target = target;
    session->model = model;
    return session;
}

void session_destroy(struct session *session)
{
    free(session);
}
