#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "histogram.h"

static struct histogram *histogram_make(void)
{
    struct histogram *histogram = calloc(1, sizeof(*histogram));
    assert_non_null(histogram);
    return histogram;
}

/* The promise of the header: what comes out is the value within 1/128, and never below it. */
static void assert_near(double measured_us, uint64_t value_ns)
{
    double value_us = (double)value_ns / 1000.0;
    assert_true(measured_us >= value_us);
    assert_true(measured_us <= value_us * (1.0 + 1.0 / 64) + 0.001);
}

static void every_magnitude_keeps_its_precision(void **state)
{
    for (uint64_t value = 1; value < 1000000000000ULL; value += value / 3 + 1) {
        struct histogram *histogram = histogram_make();
        histogram_add(histogram, value);
        histogram_add(histogram, value * 100);
        histogram_add(histogram, value * 100);
        assert_near(histogram_percentile_us(histogram, 10), value);
        assert_int_equal(histogram->max_ns, value * 100);
        free(histogram);
    }
}

static void percentiles_are_ranks(void **state)
{
    struct histogram *histogram = histogram_make();
    for (uint64_t i = 1; i <= 10000; i++) {
        histogram_add(histogram, i * 1000);
    }
    assert_near(histogram_percentile_us(histogram, 50), 5000 * 1000);
    assert_near(histogram_percentile_us(histogram, 99), 9900 * 1000);
    assert_near(histogram_percentile_us(histogram, 99.9), 9990 * 1000);
    assert_true(histogram_percentile_us(histogram, 100) == 10000.0);
    assert_true(histogram_mean_us(histogram) == 5000.5);
    free(histogram);
}

static void an_empty_one_is_zero_and_a_huge_value_stays_in_range(void **state)
{
    struct histogram *histogram = histogram_make();
    assert_true(histogram_percentile_us(histogram, 99) == 0);
    assert_true(histogram_mean_us(histogram) == 0);
    histogram_add(histogram, UINT64_MAX);
    assert_true(histogram->max_ns == UINT64_MAX);
    assert_true(histogram_percentile_us(histogram, 50) > 1e9);
    free(histogram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_magnitude_keeps_its_precision),
        cmocka_unit_test(percentiles_are_ranks),
        cmocka_unit_test(an_empty_one_is_zero_and_a_huge_value_stays_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
