/* What dump-log prints of a journal file: src/log/journal_dump.c. */
#include "test_journal_fixture.h"

static char *dump(struct fixture *f, const char *path, bool deep, enum status_code wanted)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_int_equal(journal_dump(sim_node_disk(f->node), path, deep, out).code, wanted);
    fclose(out);
    return text;
}

static uint32_t count_of(const char *text, const char *part)
{
    uint32_t count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) {
        count++;
    }
    return count;
}

static void frames_and_entries_are_printed_with_what_is_wrong(void **state)
{
    struct fixture *f = fixture_create(1, 128 * KIB, 2);
    fixture_start(f);
    for (uint32_t i = 0; i < 5; i++) {
        fixture_ok(fixture_append(f, 10, false));
        fixture_ok(fixture_append(f, 5000, false));
        fixture_drain(f);
    }
    char path[64];
    uint64_t second = fixture_place(f, 2, path);
    uint64_t fourth = fixture_place(f, 4, path);
    fixture_ok(sim_disk_rot(f->node, path, second + 4096, 1));
    fixture_ok(sim_disk_rot(f->node, path, fourth + 80, 1));
    fixture_crash(f, false);
    char *text = dump(f, path, false, STATUS_OK);
    assert_non_null(strstr(text, "shard: 3 file: 0 of 2"));
    assert_int_equal(count_of(text, " whole\n"), 3);
    assert_int_equal(count_of(text, " torn\n"), 1);
    assert_int_equal(count_of(text, "header damaged\n"), 1);
    assert_int_equal(count_of(text, "entry type"), 0);
    free(text);
    text = dump(f, path, true, STATUS_OK);
    assert_int_equal(count_of(text, "entry type: batch"), 6);
    assert_int_equal(count_of(text, "size: 5000\n"), 3);
    free(text);
    free(dump(f, "log/no-such-file", true, STATUS_NOT_FOUND));
    fixture_ok(sim_disk_rot(f->node, path, 0, 1));
    free(dump(f, path, true, STATUS_CORRUPT));
    fixture_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_and_entries_are_printed_with_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
