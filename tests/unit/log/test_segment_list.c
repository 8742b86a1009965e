/* Listing a directory that changes meanwhile, on a real file system. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "segment.h"

/* A name whose file is gone when it is opened, which a link to nowhere stands for. */
static void a_segment_that_goes_while_it_is_listed_is_left_out(void **state)
{
    (void)state;
    char dir[] = "/tmp/twinlog-segment-list-XXXXXX";
    char path[128];
    struct segment *segments = NULL;
    uint32_t count = 0;
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%020d.log", dir, i * 100);
        if (i == 1) {
            assert_int_equal(symlink("nowhere", path), 0);
        } else {
            FILE *file = fopen(path, "w");
            assert_non_null(file);
            fclose(file);
        }
    }
    assert_int_equal(segment_list(io_disk_real(), dir, &segments, &count).code, STATUS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(segments[0].base_offset, 0);
    assert_int_equal(segments[1].base_offset, 200);
    free(segments);
    assert_int_equal(segment_remove_all(io_disk_real(), dir).code, STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_that_goes_while_it_is_listed_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
