#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/pool.h"

static void fails(void)
{
    int zero = 0;
    ASSERT(zero == 1);
}

static void gives_what_was_not_taken(void)
{
    struct pool pool;
    uint64_t other[4] = {0};
    pool_init(&pool, 32, 4);
    pool_give(&pool, other);
}

/* Runs `body` in a child and returns its wait status; its stderr is left in `text`. */
static int run_in_child(void (*body)(void), char *text, size_t room)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(ends[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    assert_int_equal(close(ends[1]), 0);
    size_t size = 0;
    ssize_t got;
    while (size + 1 < room && (got = read(ends[0], text + size, room - 1 - size)) > 0) {
        size += (size_t)got;
    }
    text[size] = '\0';
    assert_int_equal(close(ends[0]), 0);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    return result;
}

static void a_failed_assertion_names_its_place_and_aborts(void **state)
{
    char text[4096];
    int result = run_in_child(fails, text, sizeof(text));
    assert_true(WIFSIGNALED(result));
    assert_int_equal(WTERMSIG(result), SIGABRT);
    assert_non_null(strstr(text, "zero == 1"));
    assert_non_null(strstr(text, "test_assert.c:"));
    assert_non_null(strstr(text, "fails()"));
}

static void a_true_condition_is_evaluated_once_and_passes(void **state)
{
    int count = 0;
    ASSERT(++count == 1);
    assert_int_equal(count, 1);
}

static void a_pool_refuses_an_object_it_never_gave(void **state)
{
    char text[4096];
    int result = run_in_child(gives_what_was_not_taken, text, sizeof(text));
    assert_true(WIFSIGNALED(result));
    assert_non_null(strstr(text, "in_use"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_assertion_names_its_place_and_aborts),
        cmocka_unit_test(a_true_condition_is_evaluated_once_and_passes),
        cmocka_unit_test(a_pool_refuses_an_object_it_never_gave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
