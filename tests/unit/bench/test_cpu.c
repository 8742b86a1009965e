#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpu.h"

static uint64_t now_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void busy_time_is_counted_once(void **state)
{
    uint64_t counted = cpu_ns_of(getpid());
    uint64_t used = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    while (now_ns(CLOCK_PROCESS_CPUTIME_ID) - used < 300000000) {
    }
    counted = cpu_ns_of(getpid()) - counted;
    used = now_ns(CLOCK_PROCESS_CPUTIME_ID) - used;
    assert_true(counted > used - used / 10);
    assert_true(counted < used + used / 10);
}

static void a_process_that_is_gone_has_none(void **state)
{
    assert_int_equal(cpu_ns_of(0x3fffffff), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_time_is_counted_once),
        cmocka_unit_test(a_process_that_is_gone_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
