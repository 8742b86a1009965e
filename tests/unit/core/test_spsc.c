#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "twinlog/core/spsc.h"

#define ITEM_COUNT 200000

static void items_come_out_in_order_and_the_bound_holds(void **state)
{
    struct spsc ring;
    int items[4];
    assert_true(status_is_ok(spsc_init(&ring, 4)));
    for (int round = 0; round < 10; round++) {
        assert_true(spsc_is_empty(&ring));
        assert_null(spsc_pop(&ring));
        for (int i = 0; i < 4; i++) {
            assert_true(spsc_push(&ring, &items[i]));
        }
        assert_false(spsc_push(&ring, &items[0]));
        assert_false(spsc_is_empty(&ring));
        for (int i = 0; i < 4; i++) {
            assert_ptr_equal(spsc_pop(&ring), &items[i]);
        }
        assert_null(spsc_pop(&ring));
    }
    spsc_fini(&ring);
}

static void the_counters_may_wrap(void **state)
{
    struct spsc ring;
    int items[3];
    assert_true(status_is_ok(spsc_init(&ring, 2)));
    atomic_store(&ring.head, UINT32_MAX);
    atomic_store(&ring.tail, UINT32_MAX);
    assert_true(spsc_push(&ring, &items[0]));
    assert_true(spsc_push(&ring, &items[1]));
    assert_false(spsc_push(&ring, &items[2]));
    assert_ptr_equal(spsc_pop(&ring), &items[0]);
    assert_true(spsc_push(&ring, &items[2]));
    assert_ptr_equal(spsc_pop(&ring), &items[1]);
    assert_ptr_equal(spsc_pop(&ring), &items[2]);
    assert_true(spsc_is_empty(&ring));
    spsc_fini(&ring);
}

struct transfer {
    struct spsc ring;
    uint32_t *values; /* written by the producer before each push, without any other order */
};

static void *transfer_produce(void *context)
{
    struct transfer *transfer = context;
    for (uint32_t i = 0; i < ITEM_COUNT; i++) {
        transfer->values[i] = i ^ 0x5a5a5a5a;
        while (!spsc_push(&transfer->ring, &transfer->values[i])) {
            (void)sched_yield();
        }
    }
    return NULL;
}

static void two_threads_pass_every_item_once_with_what_it_points_at(void **state)
{
    static uint32_t values[ITEM_COUNT];
    static const uint32_t capacities[] = {1, 2, 1024};
    for (size_t c = 0; c < COUNT_OF(capacities); c++) {
        struct transfer transfer = {.values = values};
        assert_true(status_is_ok(spsc_init(&transfer.ring, capacities[c])));
        pthread_t producer;
        assert_int_equal(pthread_create(&producer, NULL, transfer_produce, &transfer), 0);
        for (uint32_t i = 0; i < ITEM_COUNT; i++) {
            uint32_t *item = spsc_pop(&transfer.ring);
            while (item == NULL) {
                (void)sched_yield();
                item = spsc_pop(&transfer.ring);
            }
            assert_ptr_equal(item, &values[i]);
            assert_int_equal(*item, i ^ 0x5a5a5a5a);
            *item = 0;
        }
        assert_int_equal(pthread_join(producer, NULL), 0);
        assert_true(spsc_is_empty(&transfer.ring));
        spsc_fini(&transfer.ring);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_in_order_and_the_bound_holds),
        cmocka_unit_test(the_counters_may_wrap),
        cmocka_unit_test(two_threads_pass_every_item_once_with_what_it_points_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
