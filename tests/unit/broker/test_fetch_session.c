/* The cache of fetch sessions alone, and fetches of a broker in the simulator that use it. */
#include "broker_world.h"

enum { NOW = 1000000, PARTITIONS_MAX = 8, OLD = FETCH_SESSION_EVICTION_MS + 1 };

/* A cache, and requests for one topic with the partitions of a string of digits. */
struct bench {
    struct fetch_sessions sessions;
    struct arena arena;
    struct fetch_request message;
    struct fetch_request_fetch_topic topic;
    struct fetch_request_fetch_partition partitions[PARTITIONS_MAX];
    struct fetch_request_forgotten_topic forgotten;
    int32_t forgotten_partitions[PARTITIONS_MAX];
    struct fetch_context context;
    struct fetch_response response;
    struct fetch_response_fetchable_topic_response responses[PARTITIONS_MAX];
    struct fetch_response_partition_data data[PARTITIONS_MAX];
    int64_t high_watermarks[10];
    int64_t now_ms;
    uint64_t random;
};

static struct bench *bench_create(uint32_t slots, uint64_t partitions_max)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    fetch_sessions_init(&bench->sessions, slots, partitions_max);
    arena_init(&bench->arena, 1 << 20);
    bench->now_ms = NOW;
    bench->random = 7;
    return bench;
}

static void bench_destroy(struct bench *bench)
{
    fetch_sessions_check(&bench->sessions);
    fetch_sessions_fini(&bench->sessions);
    arena_fini(&bench->arena);
    free(bench);
}

static enum kafka_error bench_begin(struct bench *bench, int16_t version, int32_t id, int32_t epoch,
                                    const char *partitions, const char *forgotten)
{
    bench->message = fetch_request_default;
    bench->message.session_id = id;
    bench->message.session_epoch = epoch;
    bench->topic = fetch_request_fetch_topic_default;
    bench->topic.topic = bytes_of("t");
    bench->topic.topic_id = uuid_from_random(1, 1);
    bench->topic.partitions = bench->partitions;
    for (const char *at = partitions; *at != '\0'; at++) {
        struct fetch_request_fetch_partition *partition =
            &bench->partitions[bench->topic.partitions_count++];
        *partition = fetch_request_fetch_partition_default;
        partition->partition = *at - '0';
        partition->fetch_offset = bench->now_ms;
    }
    bench->message.topics = &bench->topic;
    bench->message.topics_count = bench->topic.partitions_count > 0 ? 1 : 0;
    bench->forgotten = fetch_request_forgotten_topic_default;
    bench->forgotten.topic = bytes_of("t");
    bench->forgotten.topic_id = bench->topic.topic_id;
    bench->forgotten.partitions = bench->forgotten_partitions;
    for (const char *at = forgotten; *at != '\0'; at++) {
        bench->forgotten_partitions[bench->forgotten.partitions_count++] = *at - '0';
    }
    bench->message.forgotten_topics_data = &bench->forgotten;
    bench->message.forgotten_topics_data_count = bench->forgotten.partitions_count > 0 ? 1 : 0;
    enum kafka_error error = fetch_session_begin(&bench->sessions, bench->now_ms, version,
                                                 &bench->arena, &bench->message, &bench->context);
    fetch_sessions_check(&bench->sessions);
    return error;
}

/* Answers with the bench's high watermarks; `records`: partitions that have some. */
static const struct fetch_response *bench_finish(struct bench *bench, const char *records)
{
    size_t used = 0;
    bench->response = fetch_response_default;
    bench->response.responses = bench->responses;
    bench->response.responses_count = bench->message.topics_count;
    for (int32_t i = 0; i < bench->message.topics_count; i++) {
        const struct fetch_request_fetch_topic *topic = &bench->message.topics[i];
        bench->responses[i] = fetch_response_fetchable_topic_response_default;
        bench->responses[i].topic = topic->topic;
        bench->responses[i].partitions = &bench->data[used];
        bench->responses[i].partitions_count = topic->partitions_count;
        for (int32_t j = 0; j < topic->partitions_count; j++) {
            struct fetch_response_partition_data *data = &bench->data[used++];
            int32_t index = topic->partitions[j].partition;
            *data = fetch_response_partition_data_default;
            data->partition_index = index;
            data->high_watermark = bench->high_watermarks[index];
            data->log_start_offset = 0;
            data->error_code = bench->high_watermarks[index] < 0 ? KAFKA_OFFSET_OUT_OF_RANGE : 0;
            if (strchr(records, '0' + index) != NULL) {
                data->records = bytes_of("records");
            }
        }
    }
    assert_int_equal(fetch_session_finish(&bench->sessions, bench->now_ms, bench->random++,
                                          &bench->arena, &bench->message, &bench->context,
                                          &bench->response)
                         .code,
                     STATUS_OK);
    fetch_sessions_check(&bench->sessions);
    return &bench->response;
}

/* The partitions of an answer as digits, in their order. */
static const char *told(const struct fetch_response *response)
{
    static char text[32];
    size_t used = 0;
    for (int32_t i = 0; i < response->responses_count; i++) {
        for (int32_t j = 0; j < response->responses[i].partitions_count; j++) {
            text[used++] = (char)('0' + response->responses[i].partitions[j].partition_index);
        }
    }
    text[used] = '\0';
    return text;
}

static int32_t bench_full(struct bench *bench, const char *partitions)
{
    assert_int_equal(bench_begin(bench, 11, 0, 0, partitions, ""), KAFKA_NONE);
    const struct fetch_response *response = bench_finish(bench, "");
    assert_string_equal(told(response), partitions);
    return response->session_id;
}

static void only_news_is_told_and_whoever_got_records_is_last(void **state)
{
    for (int16_t version = 7; version <= 18; version++) {
        struct bench *bench = bench_create(10, 100);
        assert_int_equal(bench_begin(bench, version, 0, 0, "0123", ""), KAFKA_NONE);
        assert_int_equal(bench->context.kind, FETCH_FULL);
        int32_t id = bench_finish(bench, "1")->session_id;
        assert_true(id > 0);
        assert_int_equal(bench_begin(bench, version, id, 1, "", ""), KAFKA_NONE);
        assert_int_equal(bench->context.kind, FETCH_INCREMENTAL);
        assert_string_equal(told(bench_finish(bench, "")), "");
        assert_int_equal(bench->response.session_id, id);
        bench->high_watermarks[2] = 5;
        assert_int_equal(bench_begin(bench, version, id, 2, "", ""), KAFKA_NONE);
        assert_string_equal(told(bench_finish(bench, "1")), "12");
        /* 1 had records: it is read last from now on; 4 is new, 0 is forgotten. */
        assert_int_equal(bench_begin(bench, version, id, 3, "4", "0"), KAFKA_NONE);
        assert_string_equal(told(bench_finish(bench, "1234")), "2314");
        assert_int_equal(bench_begin(bench, version, id, 4, "", ""), KAFKA_NONE);
        assert_string_equal(told(bench_finish(bench, "")), "");
        assert_int_equal(bench->sessions.partition_count, 4);
        bench_destroy(bench);
    }
}

static void an_error_is_told_each_time_and_its_end_once(void **state)
{
    struct bench *bench = bench_create(10, 100);
    int32_t id = bench_full(bench, "01");
    int32_t epoch = 1;
    bench->high_watermarks[1] = -1;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bench_begin(bench, 11, id, epoch++, "", ""), KAFKA_NONE);
        assert_string_equal(told(bench_finish(bench, "")), "1");
    }
    bench->high_watermarks[1] = 0;
    assert_int_equal(bench_begin(bench, 11, id, epoch++, "", ""), KAFKA_NONE);
    assert_string_equal(told(bench_finish(bench, "")), "1");
    assert_int_equal(bench_begin(bench, 11, id, epoch++, "", ""), KAFKA_NONE);
    assert_string_equal(told(bench_finish(bench, "")), "");
    bench_destroy(bench);
}

static void what_is_asked_of_a_partition_is_kept_and_changed(void **state)
{
    struct bench *bench = bench_create(10, 100);
    int32_t id = bench_full(bench, "01");
    bench->now_ms += 5;
    assert_int_equal(bench_begin(bench, 11, id, 1, "1", ""), KAFKA_NONE);
    assert_int_equal(bench->message.topics_count, 1);
    assert_int_equal(bench->message.topics[0].partitions_count, 2);
    assert_int_equal(bench->message.topics[0].partitions[0].fetch_offset, NOW);
    assert_int_equal(bench->message.topics[0].partitions[1].fetch_offset, NOW + 5);
    assert_true(bytes_equal(bench->message.topics[0].topic, bytes_of("t")));
    bench_destroy(bench);
}

static void wrong_ids_epochs_and_kinds_are_refused(void **state)
{
    struct bench *bench = bench_create(10, 100);
    int32_t id = bench_full(bench, "0");
    assert_int_equal(bench_begin(bench, 11, id + 1, 1, "", ""), KAFKA_FETCH_SESSION_ID_NOT_FOUND);
    assert_int_equal(bench_begin(bench, 11, 0, 1, "", ""), KAFKA_FETCH_SESSION_ID_NOT_FOUND);
    assert_int_equal(bench_begin(bench, 11, id, 2, "", ""), KAFKA_INVALID_FETCH_SESSION_EPOCH);
    assert_int_equal(bench_begin(bench, 13, id, 1, "", ""), KAFKA_FETCH_SESSION_TOPIC_ID_ERROR);
    assert_int_equal(bench_begin(bench, 11, id, 1, "", ""), KAFKA_NONE);
    (void)bench_finish(bench, "");
    assert_int_equal(bench_begin(bench, 11, id, 1, "", ""), KAFKA_INVALID_FETCH_SESSION_EPOCH);
    /* Epoch -1 closes it; so does a new one in its place; so does forgetting its last partition. */
    assert_int_equal(bench_begin(bench, 11, id, -1, "0", ""), KAFKA_NONE);
    assert_int_equal(bench->context.kind, FETCH_SESSIONLESS);
    assert_int_equal(bench_finish(bench, "")->session_id, 0);
    assert_int_equal(bench->sessions.count, 0);
    id = bench_full(bench, "0");
    assert_int_equal(bench_begin(bench, 11, id, 0, "1", ""), KAFKA_NONE);
    assert_int_equal(bench->sessions.count, 0);
    id = bench_finish(bench, "")->session_id;
    assert_int_equal(bench_begin(bench, 11, id, 1, "", "1"), KAFKA_NONE);
    assert_int_equal(bench->context.kind, FETCH_SESSIONLESS);
    assert_int_equal(bench->sessions.count, 0);
    assert_int_equal(bench->sessions.partition_count, 0);
    bench_destroy(bench);
}

static void a_session_that_went_on_or_away_meanwhile_ends_a_waiting_fetch(void **state)
{
    struct bench *bench = bench_create(10, 100);
    int32_t id = bench_full(bench, "0");
    assert_int_equal(bench_begin(bench, 11, id, 1, "", ""), KAFKA_NONE);
    struct fetch_context waiting = bench->context;
    assert_int_equal(bench_begin(bench, 11, id, 2, "", ""), KAFKA_NONE);
    (void)bench_finish(bench, "");
    bench->context = waiting;
    assert_int_equal(bench_finish(bench, "0")->error_code, KAFKA_INVALID_FETCH_SESSION_EPOCH);
    assert_string_equal(told(&bench->response), "");
    assert_int_equal(bench_begin(bench, 11, id, 3, "", ""), KAFKA_NONE);
    waiting = bench->context;
    assert_int_equal(bench_begin(bench, 11, id, -1, "", ""), KAFKA_NONE);
    bench->context = waiting;
    assert_int_equal(bench_finish(bench, "0")->error_code, KAFKA_FETCH_SESSION_ID_NOT_FOUND);
    assert_int_equal(bench->response.session_id, 0);
    bench_destroy(bench);
}

static void a_full_cache_gives_way_as_kafkas_does(void **state)
{
    struct bench *bench = bench_create(2, 100);
    int32_t small = bench_full(bench, "0");
    int32_t large = bench_full(bench, "012");
    assert_true(small > 0 && large > 0);
    assert_int_equal(bench_full(bench, "0123"), 0); /* Both are young. */
    bench->now_ms += OLD - 10;
    assert_int_equal(bench_begin(bench, 11, small, 1, "", ""), KAFKA_NONE);
    assert_int_equal(bench_begin(bench, 11, large, 1, "", ""), KAFKA_NONE);
    bench->now_ms += 20;
    assert_int_equal(bench_full(bench, "0123"), 0); /* Young when they were last used. */
    assert_int_equal(bench_begin(bench, 11, small, 2, "", ""), KAFKA_NONE);
    assert_int_equal(bench_begin(bench, 11, large, 2, "", ""), KAFKA_NONE);
    assert_int_equal(bench_full(bench, "0"), 0); /* Not larger than the smallest. */
    assert_true(bench_full(bench, "01") > 0);
    assert_int_equal(bench_begin(bench, 11, small, 3, "", ""), KAFKA_FETCH_SESSION_ID_NOT_FOUND);
    assert_int_equal(bench_begin(bench, 11, large, 3, "", ""), KAFKA_NONE);
    bench->now_ms += OLD;
    assert_true(bench_full(bench, "0") > 0); /* One was not used for long. */
    assert_int_equal(bench->sessions.evictions, 2);
    assert_int_equal(bench->sessions.count, 2);
    bench_destroy(bench);
}

static void partitions_are_bounded_over_all_sessions(void **state)
{
    struct bench *bench = bench_create(10, 6);
    int32_t id = bench_full(bench, "0123");
    assert_true(id > 0);
    assert_int_equal(bench_full(bench, "012"), 0);
    assert_int_equal(bench_full(bench, "01234567"), 0);
    assert_true(bench_full(bench, "01") > 0);
    /* A session that grows beyond the bound is over. */
    assert_int_equal(bench_begin(bench, 11, id, 1, "45", ""), KAFKA_FETCH_SESSION_ID_NOT_FOUND);
    assert_int_equal(bench->sessions.partition_count, 2);
    struct bench *none = bench_create(0, 100);
    assert_int_equal(bench_full(none, "0"), 0);
    bench_destroy(none);
    bench_destroy(bench);
}

/* ---------------------------------------------------------------- in the broker */

static void session_fetch(struct link *link, int32_t id, int32_t epoch, const char *topic,
                          int64_t offset, struct fetch_response *response)
{
    struct fetch_parts parts;
    (void)fetch_of(&parts, topic == NULL ? "t" : topic, 0, offset, 50, 1 << 20);
    parts.request.session_id = id;
    parts.request.session_epoch = epoch;
    parts.request.topics_count = topic == NULL ? 0 : 1;
    link_call(link, API_FETCH, 11, &parts.request, response);
}

static void a_consumer_asks_for_no_more_than_what_changed(void **state)
{
    struct world *world = world_create(60, "");
    struct link *link = link_open(world, 0);
    struct link *writer = link_open(world, 1);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    struct bytes batch = batch_of(world, 1, 2000, -1, -1);
    struct fetch_response response;
    session_fetch(link, 0, 0, "t", 0, &response);
    int32_t id = response.session_id;
    assert_true(id > 0);
    assert_int_equal(response.responses_count, 1);
    session_fetch(link, id, 1, NULL, 0, &response);
    assert_int_equal(response.error_code, KAFKA_NONE);
    assert_int_equal(response.session_id, id);
    assert_int_equal(response.responses_count, 0);
    int32_t epoch = 2;
    for (int64_t offset = 0; offset < 5; offset++) {
        assert_int_equal(produce(writer, "t", 0, -1, batch).error_code, KAFKA_NONE);
        session_fetch(link, id, epoch++, offset == 0 ? NULL : "t", offset, &response);
        assert_int_equal(response.responses_count, 1);
        assert_int_equal(response.responses[0].partitions[0].records.size, batch.size);
        assert_int_equal(response.responses[0].partitions[0].high_watermark, offset + 1);
    }
    session_fetch(link, id, epoch, "none", 0, &response);
    assert_int_equal(response.error_code, KAFKA_NONE);
    assert_int_equal(response.responses_count, 2);
    session_fetch(link, id, epoch, "t", 5, &response);
    assert_int_equal(response.error_code, KAFKA_INVALID_FETCH_SESSION_EPOCH);
    session_fetch(link, id, -1, "t", 5, &response);
    assert_int_equal(response.session_id, 0);
    session_fetch(link, id, epoch + 1, "t", 5, &response);
    assert_int_equal(response.error_code, KAFKA_FETCH_SESSION_ID_NOT_FOUND);
    broker_check(world->broker);
    world_destroy(world);
}

static void a_log_that_went_another_way_is_told(void **state)
{
    static const struct {
        int32_t last_epoch;
        int64_t offset;
        int16_t error;
        int32_t diverging; /* -1: it does not */
        int64_t end;
    } cases[] = {
        {-1, 4, KAFKA_NONE, -1, -1}, {2, 4, KAFKA_NONE, -1, -1},
        {1, 2, KAFKA_NONE, -1, -1},  {1, 3, KAFKA_NONE, 1, 2},
        {1, 9, KAFKA_NONE, 1, 2},    {3, 4, KAFKA_OFFSET_OUT_OF_RANGE, -1, -1},
    };
    struct world *world = world_create(61, "");
    struct link *link = link_open(world, 0);
    assert_int_equal(create_topic(link, "t", 1), KAFKA_NONE);
    struct bytes batch = batch_of(world, 2, 100, -1, -1);
    assert_int_equal(produce(link, "t", 0, -1, batch).error_code, KAFKA_NONE);
    world_stop_broker(world);
    world_start_broker(world);
    link = link_open(world, 0);
    assert_int_equal(produce(link, "t", 0, -1, batch).error_code, KAFKA_NONE);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct fetch_parts parts;
        struct fetch_response response;
        (void)fetch_of(&parts, "t", 0, cases[i].offset, 10, 1 << 20);
        parts.partition.last_fetched_epoch = cases[i].last_epoch;
        link_call(link, API_FETCH, 12, &parts.request, &response);
        const struct fetch_response_partition_data *out = &response.responses[0].partitions[0];
        assert_int_equal(out->error_code, cases[i].error);
        assert_int_equal(out->diverging_epoch.epoch, cases[i].diverging);
        assert_int_equal(out->diverging_epoch.end_offset, cases[i].end);
        assert_true(cases[i].diverging < 0 || out->records.size == 0);
    }
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_news_is_told_and_whoever_got_records_is_last),
        cmocka_unit_test(an_error_is_told_each_time_and_its_end_once),
        cmocka_unit_test(what_is_asked_of_a_partition_is_kept_and_changed),
        cmocka_unit_test(wrong_ids_epochs_and_kinds_are_refused),
        cmocka_unit_test(a_session_that_went_on_or_away_meanwhile_ends_a_waiting_fetch),
        cmocka_unit_test(a_full_cache_gives_way_as_kafkas_does),
        cmocka_unit_test(partitions_are_bounded_over_all_sessions),
        cmocka_unit_test(a_consumer_asks_for_no_more_than_what_changed),
        cmocka_unit_test(a_log_that_went_another_way_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
