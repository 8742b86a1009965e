/* The timer heap: order, ties, moves and removals, against a sorted reference. */
#include "uring_fixture.h"

#include "timers.h"

enum { TIMER_COUNT = 500, LOG_MAX = 4096 };

static struct io_timer fired_log[LOG_MAX];
static uint32_t fired_count;

static void on_fired(struct io_timer *timer)
{
    fired_log[fired_count] = *timer;
    fired_count++;
}

static int set_up(void **state)
{
    fired_count = 0;
    return 0;
}

static uint32_t random_next(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static void timers_fire_in_the_order_they_are_due(void **state)
{
    struct timers timers;
    struct io_timer items[TIMER_COUNT] = {0};
    uint32_t seed = 7;
    timers_init(&timers);
    for (int at = 0; at < TIMER_COUNT; at++) {
        timers_start(&timers, &items[at], random_next(&seed) % 100, on_fired);
    }
    timers_run(&timers, 49);
    for (uint32_t at = 0; at < fired_count; at++) {
        assert_true(fired_log[at].due_ns <= 49);
        assert_true(at == 0 || fired_log[at - 1].due_ns <= fired_log[at].due_ns);
    }
    assert_true(timers_next_due_ns(&timers) > 49);
    timers_run(&timers, 100);
    assert_int_equal(fired_count, TIMER_COUNT);
    assert_true(timers_next_due_ns(&timers) == INT64_MAX);
    timers_fini(&timers);
}

static void equal_times_fire_in_the_order_they_were_armed(void **state)
{
    struct timers timers;
    struct io_timer items[TIMER_COUNT] = {0};
    timers_init(&timers);
    for (uintptr_t at = 0; at < TIMER_COUNT; at++) {
        items[at].context = (void *)at;
        timers_start(&timers, &items[at], 5, on_fired);
    }
    /* Re-arming moves a timer behind the others. */
    timers_start(&timers, &items[0], 5, on_fired);
    timers_run(&timers, 5);
    assert_int_equal(fired_count, TIMER_COUNT);
    for (uint32_t at = 0; at < TIMER_COUNT; at++) {
        assert_int_equal((uintptr_t)fired_log[at].context, (at + 1) % TIMER_COUNT);
    }
    timers_fini(&timers);
}

static void stopped_timers_never_fire_and_the_others_keep_their_order(void **state)
{
    struct timers timers;
    struct io_timer items[TIMER_COUNT] = {0};
    uint32_t seed = 3;
    timers_init(&timers);
    for (int at = 0; at < TIMER_COUNT; at++) {
        timers_start(&timers, &items[at], random_next(&seed) % 50, on_fired);
    }
    uint32_t stopped = 0;
    for (int at = 0; at < TIMER_COUNT; at += 3) {
        timers_stop(&timers, &items[at]);
        timers_stop(&timers, &items[at]);
        assert_int_equal(items[at].heap_index, 0);
        stopped++;
    }
    for (int at = 1; at < TIMER_COUNT; at += 3) {
        timers_start(&timers, &items[at], random_next(&seed) % 50, on_fired);
    }
    timers_run(&timers, 50);
    assert_int_equal(fired_count, TIMER_COUNT - stopped);
    for (uint32_t at = 1; at < fired_count; at++) {
        assert_true(fired_log[at - 1].due_ns <= fired_log[at].due_ns);
    }
    timers_fini(&timers);
}

struct rearming {
    struct io_timer timer;
    struct timers *timers;
    uint32_t count;
};

static void on_rearming(struct io_timer *timer)
{
    struct rearming *rearming = timer->context;
    rearming->count++;
    assert_int_equal(timer->heap_index, 0);
    timers_start(rearming->timers, timer, 10, on_rearming);
}

static void a_timer_that_arms_itself_again_waits_for_the_next_turn(void **state)
{
    struct timers timers;
    struct rearming rearming = {.timers = &timers};
    struct io_timer other = {0};
    rearming.timer.context = &rearming;
    timers_init(&timers);
    timers_start(&timers, &rearming.timer, 10, on_rearming);
    timers_start(&timers, &other, 10, on_fired);
    timers_run(&timers, 10);
    assert_int_equal(rearming.count, 1);
    assert_int_equal(fired_count, 1);
    timers_run(&timers, 10);
    assert_int_equal(rearming.count, 2);
    timers_fini(&timers);
    assert_int_equal(rearming.timer.heap_index, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(timers_fire_in_the_order_they_are_due, set_up),
        cmocka_unit_test_setup(equal_times_fire_in_the_order_they_were_armed, set_up),
        cmocka_unit_test_setup(stopped_timers_never_fire_and_the_others_keep_their_order, set_up),
        cmocka_unit_test_setup(a_timer_that_arms_itself_again_waits_for_the_next_turn, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
