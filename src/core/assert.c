#include "twinlog/core/assert.h"

#include <stdio.h>
#include <stdlib.h>

void assert_fail(const char *condition, const char *file, int line, const char *function)
{
    /* stderr is unbuffered, so the line is out before the abort. */
    (void)fprintf(stderr, "assertion failed: %s at %s:%d in %s()\n", condition, file, line,
                  function);
    abort();
}
