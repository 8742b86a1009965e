#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/status.h"

static void every_code_has_its_own_text(void **state)
{
    for (int a = 0; a < STATUS_COUNT; a++) {
        const char *text = status_text((status){(enum status_code)a, 0});
        assert_non_null(text);
        assert_true(strlen(text) > 0);
        for (int b = 0; b < a; b++) {
            assert_string_not_equal(text, status_text((status){(enum status_code)b, 0}));
        }
    }
}

static void an_errno_becomes_its_status_and_is_kept(void **state)
{
    static const struct {
        int sys;
        enum status_code code;
    } rows[] = {
        {0, STATUS_OK},
        {EIO, STATUS_IO},
        {ENOSPC, STATUS_NO_SPACE},
        {EDQUOT, STATUS_NO_SPACE},
        {EROFS, STATUS_READ_ONLY},
        {EACCES, STATUS_PERMISSION},
        {ENOENT, STATUS_NOT_FOUND},
        {EEXIST, STATUS_EXISTS},
        {EWOULDBLOCK, STATUS_BUSY},
        {EADDRINUSE, STATUS_BUSY},
        {EINVAL, STATUS_INVALID},
        {EMFILE, STATUS_TOO_MANY},
        {ENOMEM, STATUS_NO_MEMORY},
        {EPIPE, STATUS_CLOSED},
        {ECONNRESET, STATUS_CLOSED},
        {ECANCELED, STATUS_CANCELLED},
        {ETIMEDOUT, STATUS_TIMEOUT},
        {ETIME, STATUS_TIMEOUT},
        {ENOSYS, STATUS_UNSUPPORTED},
        {4095, STATUS_IO},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        status s = status_from_errno(rows[i].sys);
        assert_int_equal(s.code, rows[i].code);
        assert_int_equal(s.sys, rows[i].sys);
        assert_int_equal(status_is_ok(s), rows[i].sys == 0);
    }
}

static status passes_on(status given, int *steps)
{
    TRY(given);
    (*steps)++;
    return OK;
}

static void try_returns_a_failure_and_goes_on_after_ok(void **state)
{
    int steps = 0;
    assert_int_equal(passes_on(OK, &steps).code, STATUS_OK);
    assert_int_equal(steps, 1);
    status failed = passes_on(status_from_errno(ENOSPC), &steps);
    assert_int_equal(failed.code, STATUS_NO_SPACE);
    assert_int_equal(failed.sys, ENOSPC);
    assert_int_equal(steps, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_own_text),
        cmocka_unit_test(an_errno_becomes_its_status_and_is_kept),
        cmocka_unit_test(try_returns_a_failure_and_goes_on_after_ok),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
