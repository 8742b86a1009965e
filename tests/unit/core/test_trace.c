#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <regex.h>
#include <string.h>
#include <unistd.h>

#include "twinlog/core/trace.h"

static char captured[8192];

/* Runs `emit` with stderr sent into a pipe, and leaves what it wrote in `captured`. */
static void capture(void (*emit)(void))
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    emit();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    assert_int_equal(close(saved), 0);
    assert_int_equal(close(ends[1]), 0);
    size_t size = 0;
    ssize_t got;
    while ((got = read(ends[0], captured + size, sizeof(captured) - 1 - size)) > 0) {
        size += (size_t)got;
    }
    assert_int_equal(close(ends[0]), 0);
    captured[size] = '\0';
}

static void assert_matches(const char *pattern)
{
    regex_t compiled;
    assert_int_equal(regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&compiled, captured, 0, NULL, 0) != 0) {
        fail_msg("\"%s\" does not match %s", captured, pattern);
    }
    regfree(&compiled);
}

static void emit_one(void)
{
    trace_warn("log", "partition %d of %s", 7, "orders");
}

static void a_line_has_time_level_module_and_message(void **state)
{
    capture(emit_one);
    assert_matches("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "
                   "warn log: partition 7 of orders\n$");
}

static void emit_each_level(void)
{
    trace_debug("m", "d");
    trace_info("m", "i");
    trace_warn("m", "w");
    trace_error("m", "e");
}

static void lines_below_the_level_are_dropped(void **state)
{
    static const char *const expected[] = {
        " debug m: d\n.* info m: i\n.* warn m: w\n.* error m: e\n$",
        "^[^ ]+ info m: i\n.* warn m: w\n.* error m: e\n$",
        "^[^ ]+ warn m: w\n.* error m: e\n$",
        "^[^ ]+ error m: e\n$",
    };
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        trace_set_level((enum trace_level)i);
        capture(emit_each_level);
        assert_matches(expected[i]);
    }
    trace_set_level(TRACE_INFO);
}

static void emit_with_line_breaks(void)
{
    trace_info("net", "client \"%s\"", "a\n2026-01-01 error forged: \033[31m\r");
}

static void a_message_cannot_forge_a_second_line(void **state)
{
    capture(emit_with_line_breaks);
    assert_matches("client \"a 2026-01-01 error forged:  \\[31m \"\n$");
    assert_ptr_equal(strchr(captured, '\n'), captured + strlen(captured) - 1);
}

static void emit_long(void)
{
    char message[5000];
    memset(message, 'x', sizeof(message) - 1);
    message[sizeof(message) - 1] = '\0';
    trace_info("net", "%s", message);
}

static void a_long_line_is_cut_at_2_kib(void **state)
{
    capture(emit_long);
    assert_int_equal(strlen(captured), 2048);
    assert_int_equal(captured[2046], 'x');
    assert_int_equal(captured[2047], '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_module_and_message),
        cmocka_unit_test(lines_below_the_level_are_dropped),
        cmocka_unit_test(a_message_cannot_forge_a_second_line),
        cmocka_unit_test(a_long_line_is_cut_at_2_kib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
