/* The text format, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "twinlog/core/metrics_text.h"

static void a_family_and_its_samples_are_written_as_prometheus_reads_them(void **state)
{
    struct metrics_text text = {0};
    struct metrics_labels labels = {0};
    metrics_single(&text, "a_total", "counter", "Of a.", UINT64_MAX);
    metrics_label(&labels, "x", "q\"b\\n\n.");
    metrics_label(&labels, "y", "");
    metrics_family(&text, "b_seconds", "gauge", "Of b.");
    metrics_sample_ns(&text, "b_seconds", &labels, 12000000034);
    assert_false(text.failed);
    assert_string_equal(text.data, "# HELP a_total Of a.\n# TYPE a_total counter\n"
                                   "a_total 18446744073709551615\n"
                                   "# HELP b_seconds Of b.\n# TYPE b_seconds gauge\n"
                                   "b_seconds{x=\"q\\\"b\\\\n\\n.\",y=\"\"} 12.000000034\n");
    assert_int_equal(text.size, strlen(text.data));
    free(text.data);
}

static void a_label_that_does_not_fit_is_left_out_whole(void **state)
{
    struct metrics_labels labels = {0};
    char value[600];
    memset(value, '"', sizeof(value));
    value[sizeof(value) - 1] = '\0';
    metrics_label(&labels, "first", "1");
    metrics_label(&labels, "long", value);
    assert_string_equal(labels.text, "first=\"1\"");
}

static void a_bound_belongs_to_its_bucket(void **state)
{
    struct metrics_histogram histogram = {0};
    static const struct {
        int64_t ns;
        uint32_t bucket;
    } cases[] = {{-1, 0},    {0, 0},           {16000, 0},       {16001, 1},     {32000, 1},
                 {32001, 2}, {8388608000, 19}, {8388608001, 20}, {INT64_MAX, 20}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint64_t before = histogram.buckets[cases[i].bucket];
        metrics_observe(&histogram, cases[i].ns);
        assert_int_equal(histogram.buckets[cases[i].bucket], before + 1);
    }
}

static void buckets_are_cumulative_and_end_in_the_count(void **state)
{
    struct metrics_text text = {0};
    struct metrics_labels labels = {0};
    struct metrics_histogram histogram = {0};
    metrics_observe(&histogram, 1000);
    metrics_observe(&histogram, 20000);
    metrics_observe(&histogram, 9000000000);
    metrics_label(&labels, "api", "Fetch");
    metrics_histogram_write(&text, "h", &labels, &histogram);
    metrics_histogram_write(&text, "h", NULL, &histogram);
    assert_non_null(strstr(text.data, "h_bucket{api=\"Fetch\",le=\"0.000016\"} 1\n"
                                      "h_bucket{api=\"Fetch\",le=\"0.000032\"} 2\n"));
    assert_non_null(strstr(text.data, "h_bucket{api=\"Fetch\",le=\"8.388608\"} 2\n"
                                      "h_bucket{api=\"Fetch\",le=\"+Inf\"} 3\n"
                                      "h_sum{api=\"Fetch\"} 9.000021000\n"
                                      "h_count{api=\"Fetch\"} 3\n"));
    assert_non_null(strstr(text.data, "h_bucket{le=\"+Inf\"} 3\nh_sum 9.000021000\nh_count 3\n"));
    free(text.data);
}

static void a_text_grows_beyond_its_first_memory(void **state)
{
    struct metrics_text text = {0};
    for (uint32_t i = 0; i < 5000; i++) {
        metrics_sample(&text, "grows", NULL, i);
    }
    assert_false(text.failed);
    assert_string_equal(text.data + text.size - strlen("grows 4999\n"), "grows 4999\n");
    free(text.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_and_its_samples_are_written_as_prometheus_reads_them),
        cmocka_unit_test(a_label_that_does_not_fit_is_left_out_whole),
        cmocka_unit_test(a_bound_belongs_to_its_bucket),
        cmocka_unit_test(buckets_are_cumulative_and_end_in_the_count),
        cmocka_unit_test(a_text_grows_beyond_its_first_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
