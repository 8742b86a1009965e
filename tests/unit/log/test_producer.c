#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "producer.h"

static struct batch_header batch(int64_t id, int16_t epoch, int32_t sequence, int32_t count)
{
    return (struct batch_header){.producer_id = id,
                                 .producer_epoch = epoch,
                                 .base_sequence = sequence,
                                 .last_offset_delta = count - 1,
                                 .record_count = count};
}

static enum log_verdict judge(struct producer_table *table, int64_t id, int16_t epoch,
                              int32_t sequence, int32_t count, struct log_appended *original)
{
    struct batch_header header = batch(id, epoch, sequence, count);
    return producer_judge(table, &header, original);
}

static void append(struct producer_table **table, int64_t id, int16_t epoch, int32_t sequence,
                   int32_t count, int64_t offset, uint64_t lsn)
{
    struct batch_header header = batch(id, epoch, sequence, count);
    header.max_timestamp = 1000 + (int64_t)lsn;
    assert_true(status_is_ok(producer_append(table, &header, offset, lsn)));
}

static void a_batch_without_producer_is_always_appended(void **state)
{
    struct producer_table *table = NULL;
    struct log_appended original = {0};
    assert_int_equal(judge(table, -1, -1, -1, 3, &original), LOG_APPENDED);
    append(&table, -1, -1, -1, 3, 0, 1);
    assert_null(table);
}

static void sequences_are_judged_against_overlay_and_state(void **state)
{
    struct producer_table *table = NULL;
    struct log_appended original = {0};
    assert_int_equal(judge(table, 7, 0, 40, 1, &original), LOG_APPENDED);
    append(&table, 7, 0, 0, 10, 100, 1);
    assert_int_equal(judge(table, 7, 0, 10, 1, &original), LOG_APPENDED);
    assert_int_equal(judge(table, 7, 0, 11, 1, &original), LOG_OUT_OF_ORDER_SEQUENCE);
    assert_int_equal(judge(table, 7, 0, 0, 10, &original), LOG_DUPLICATE);
    assert_int_equal(original.base_offset, 100);
    assert_int_equal(original.lsn, 1);
    assert_int_equal(judge(table, 7, 0, 0, 9, &original), LOG_OUT_OF_ORDER_SEQUENCE);
    producer_commit(table, 1);
    assert_int_equal(judge(table, 7, 0, 0, 10, &original), LOG_DUPLICATE);
    assert_int_equal(original.lsn, 0);
    assert_int_equal(judge(table, 7, 1, 5, 1, &original), LOG_OUT_OF_ORDER_SEQUENCE);
    assert_int_equal(judge(table, 7, 1, 0, 1, &original), LOG_APPENDED);
    append(&table, 7, 1, 0, 1, 110, 2);
    assert_int_equal(judge(table, 7, 0, 10, 1, &original), LOG_INVALID_PRODUCER_EPOCH);
    producer_destroy(table);
}

static void the_window_holds_five_batches_over_both_layers(void **state)
{
    struct producer_table *table = NULL;
    struct log_appended original = {0};
    for (int32_t i = 0; i < 8; i++) {
        append(&table, 1, 0, i, 1, i, (uint64_t)i + 1);
    }
    for (uint64_t committed = 0; committed <= 8; committed++) {
        producer_commit(table, committed);
        for (int32_t i = 0; i < 8; i++) {
            enum log_verdict expected = i < 3 ? LOG_OUT_OF_ORDER_SEQUENCE : LOG_DUPLICATE;
            assert_int_equal(judge(table, 1, 0, i, 1, &original), expected);
        }
    }
    producer_destroy(table);
}

static void sequences_wrap_to_zero(void **state)
{
    struct producer_table *table = NULL;
    struct log_appended original = {0};
    append(&table, 1, 0, INT32_MAX - 1, 4, 0, 1); /* MAX-1, MAX, 0, 1 */
    assert_int_equal(judge(table, 1, 0, 2, 1, &original), LOG_APPENDED);
    assert_int_equal(judge(table, 1, 0, INT32_MAX - 1, 4, &original), LOG_DUPLICATE);
    producer_destroy(table);
}

static void a_dropped_overlay_leaves_the_committed_state(void **state)
{
    struct producer_table *table = NULL;
    struct log_appended original = {0};
    append(&table, 1, 0, 0, 1, 0, 1);
    producer_commit(table, 1);
    append(&table, 1, 0, 1, 1, 1, 2);
    append(&table, 2, 0, 0, 1, 2, 2);
    producer_drop_pending(table);
    assert_int_equal(producer_count(table), 1);
    assert_int_equal(judge(table, 1, 0, 1, 1, &original), LOG_APPENDED);
    assert_int_equal(judge(table, 1, 0, 0, 1, &original), LOG_DUPLICATE);
    producer_destroy(table);
}

static void only_committed_state_is_encoded_and_it_round_trips(void **state)
{
    struct producer_table *table = NULL;
    struct log_appended original = {0};
    for (int64_t id = 0; id < 50; id++) {
        append(&table, id, 3, 0, 2, id * 10, 1);
    }
    for (int64_t id = 0; id < 50; id++) {
        append(&table, id, 3, 2, 2, id * 10 + 2, 2);
    }
    producer_commit(table, 1);
    uint32_t size = producer_encoded_size(table);
    uint8_t *encoded = malloc(size);
    assert_non_null(encoded);
    assert_ptr_equal(producer_encode(table, encoded), encoded + size);
    struct bytes input = {encoded, size};
    struct producer_table *copy = NULL;
    assert_true(status_is_ok(producer_decode(&input, &copy)));
    assert_int_equal(input.size, 0);
    assert_int_equal(producer_count(copy), 50);
    assert_int_equal(judge(copy, 9, 3, 0, 2, &original), LOG_DUPLICATE);
    assert_int_equal(original.base_offset, 90);
    assert_int_equal(judge(copy, 9, 3, 2, 2, &original), LOG_APPENDED);
    producer_destroy(copy);
    for (uint32_t cut = 0; cut < size; cut++) {
        input = (struct bytes){encoded, cut};
        assert_false(status_is_ok(producer_decode(&input, &copy)));
        assert_null(copy);
    }
    free(encoded);
    producer_destroy(table);
}

static void old_producers_expire_unless_they_have_batches_pending(void **state)
{
    struct producer_table *table = NULL;
    append(&table, 1, 0, 0, 1, 0, 1);
    append(&table, 2, 0, 0, 1, 1, 2);
    producer_commit(table, 2);
    append(&table, 2, 0, 1, 1, 2, 3);
    producer_expire_rewind(table);
    assert_int_equal(producer_expire(table, 1000, 10), 2); /* Both are newer. */
    assert_int_equal(producer_count(table), 2);
    producer_expire_rewind(table);
    assert_int_equal(producer_expire(table, 1001, 1), 1); /* A walk in steps of one, */
    append(&table, 3, 0, 0, 1, 3, 4);
    producer_commit(table, 2);
    assert_int_equal(producer_expire(table, 5000, 1), 1); /* of which the second has an overlay. */
    assert_int_equal(producer_expire(table, 5000, 2), 1);
    assert_int_equal(producer_count(table), 2);
    assert_int_equal(judge(table, 1, 0, 9, 1, &(struct log_appended){0}), LOG_APPENDED);
    producer_commit(table, 4);
    producer_expire_rewind(table);
    assert_int_equal(producer_expire(table, 5000, 10), 2);
    assert_int_equal(producer_count(table), 0);
    producer_destroy(table);
}

/* What a producer with one committed batch, of epoch 3 and sequences first..last, may send next. */
static void a_batch_is_judged_as_kafka_judges_it(void **state)
{
    enum { MAX = INT32_MAX };
    const struct {
        int32_t first, count; /* the batch there is */
        int16_t epoch;        /* the batch that comes */
        int32_t sequence, records;
        enum log_verdict verdict;
    } cases[] = {
        {0, 5, 3, 5, 1, LOG_APPENDED},
        {0, 5, 3, 5, 1000, LOG_APPENDED},
        {0, 5, 3, 0, 5, LOG_DUPLICATE},
        {0, 5, 3, 0, 4, LOG_OUT_OF_ORDER_SEQUENCE}, /* The same start, another size. */
        {0, 5, 3, 0, 6, LOG_OUT_OF_ORDER_SEQUENCE},
        {0, 5, 3, 1, 4, LOG_OUT_OF_ORDER_SEQUENCE}, /* The same end. */
        {0, 5, 3, 4, 1, LOG_OUT_OF_ORDER_SEQUENCE},
        {0, 5, 3, 6, 1, LOG_OUT_OF_ORDER_SEQUENCE},
        {0, 5, 3, MAX, 1, LOG_OUT_OF_ORDER_SEQUENCE},
        {0, 5, 2, 5, 1, LOG_INVALID_PRODUCER_EPOCH},
        {0, 5, 2, 0, 5, LOG_INVALID_PRODUCER_EPOCH}, /* No duplicate: another epoch. */
        {0, 5, 0, 0, 1, LOG_INVALID_PRODUCER_EPOCH},
        {0, 5, 4, 0, 1, LOG_APPENDED},
        {0, 5, 4, 0, 5, LOG_APPENDED}, /* The same sequences under a new epoch are new. */
        {0, 5, 4, 5, 1, LOG_OUT_OF_ORDER_SEQUENCE},
        {0, 5, INT16_MAX, 0, 1, LOG_APPENDED},
        {0, 5, INT16_MAX, 1, 1, LOG_OUT_OF_ORDER_SEQUENCE},
        {40, 2, 3, 42, 1, LOG_APPENDED}, /* It was not known, and began in the middle. */
        {40, 2, 3, 0, 1, LOG_OUT_OF_ORDER_SEQUENCE},
        {MAX, 1, 3, 0, 1, LOG_APPENDED}, /* The sequence wraps between batches, */
        {MAX, 1, 3, MAX, 1, LOG_DUPLICATE},
        {MAX, 1, 3, 1, 1, LOG_OUT_OF_ORDER_SEQUENCE},
        {MAX - 1, 1, 3, MAX, 2, LOG_APPENDED},
        {MAX - 1, 4, 3, 2, 1, LOG_APPENDED}, /* and inside one. */
        {MAX - 1, 4, 3, MAX - 1, 4, LOG_DUPLICATE},
        {MAX - 1, 4, 3, MAX - 1, 2, LOG_OUT_OF_ORDER_SEQUENCE},
        {MAX - 1, 4, 3, 0, 1, LOG_OUT_OF_ORDER_SEQUENCE},
        {MAX - 1, 4, 3, 1, 1, LOG_OUT_OF_ORDER_SEQUENCE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct producer_table *table = NULL;
        append(&table, 9, 3, cases[i].first, cases[i].count, 70, 1);
        for (int layer = 0; layer < 2; layer++) {
            struct log_appended original = {.log_append_time_ms = -1};
            enum log_verdict verdict =
                judge(table, 9, cases[i].epoch, cases[i].sequence, cases[i].records, &original);
            if (verdict != cases[i].verdict) {
                fail_msg("case %zu, %s: %d", i, layer == 0 ? "pending" : "committed", verdict);
            }
            bool is_duplicate = verdict == LOG_DUPLICATE;
            assert_int_equal(original.base_offset, is_duplicate ? 70 : 0);
            assert_int_equal(original.log_append_time_ms, is_duplicate ? 1001 : -1);
            producer_commit(table, 1);
        }
        producer_destroy(table);
    }
}

static void a_batch_that_follows_nothing_starts_a_new_window(void **state)
{
    struct producer_table *table = NULL;
    struct log_appended original = {0};
    append(&table, 1, 5, 0, 3, 0, 1);
    append(&table, 1, 5, 0, 4, 3, 2);
    producer_commit(table, 2);
    assert_int_equal(judge(table, 1, 5, 0, 3, &original), LOG_OUT_OF_ORDER_SEQUENCE);
    assert_int_equal(judge(table, 1, 5, 0, 4, &original), LOG_DUPLICATE);
    append(&table, 1, 2, 9, 1, 7, 3); /* Forgotten, it may come back with an older epoch. */
    producer_commit(table, 3);
    assert_int_equal(judge(table, 1, 2, 10, 1, &original), LOG_APPENDED);
    assert_int_equal(judge(table, 1, 5, 0, 4, &original), LOG_APPENDED);
    producer_destroy(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_without_producer_is_always_appended),
        cmocka_unit_test(sequences_are_judged_against_overlay_and_state),
        cmocka_unit_test(the_window_holds_five_batches_over_both_layers),
        cmocka_unit_test(sequences_wrap_to_zero),
        cmocka_unit_test(a_dropped_overlay_leaves_the_committed_state),
        cmocka_unit_test(only_committed_state_is_encoded_and_it_round_trips),
        cmocka_unit_test(a_batch_is_judged_as_kafka_judges_it),
        cmocka_unit_test(a_batch_that_follows_nothing_starts_a_new_window),
        cmocka_unit_test(old_producers_expire_unless_they_have_batches_pending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
