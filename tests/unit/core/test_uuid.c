#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "twinlog/core/uuid.h"

static void an_id_and_its_text_agree(void **state)
{
    static const struct {
        struct uuid id;
        const char *text;
    } rows[] = {
        {{{0}}, "AAAAAAAAAAAAAAAAAAAAAA"},
        {{{[15] = 1}}, "AAAAAAAAAAAAAAAAAAAAAQ"},
        {{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}, "AQIDBAUGBwgJCgsMDQ4PEA"},
        {{{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}},
         "_____________________w"},
        {{{0xfb, 0xef, 0xbe, [15] = 0xff}}, "----AAAAAAAAAAAAAAAA_w"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[UUID_TEXT_SIZE];
        uuid_format(&rows[i].id, text);
        assert_string_equal(text, rows[i].text);
        struct uuid id;
        assert_true(uuid_parse(text, strlen(text), &id));
        assert_true(uuid_equal(&id, &rows[i].id));
        assert_int_equal(uuid_is_zero(&id), i == 0);
    }
}

static void a_text_of_other_length_or_alphabet_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "AQIDBAUGBwgJCgsMDQ4PE",
        "AQIDBAUGBwgJCgsMDQ4PEAA",
        "AQIDBAUGBwgJCgsMDQ4PEA==",
        "AQIDBAUGBwgJCgsMDQ4PE+",
        "/QIDBAUGBwgJCgsMDQ4PEA",
        "AQIDBAUG BwgJCgsMDQ4PE",
        "AQIDBAUGBwgJCgsMDQ4PE\xc3",
    };
    struct uuid id;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        assert_false(uuid_parse(texts[i], strlen(texts[i]), &id));
    }
    const char with_nul[22] = "AQIDBAUGBwg";
    assert_false(uuid_parse(with_nul, sizeof(with_nul), &id));
}

static void a_random_id_is_version_4_and_never_reserved(void **state)
{
    static const uint64_t words[] = {0, 1, UINT64_MAX, 0x0123456789abcdef};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        for (size_t j = 0; j < COUNT_OF(words); j++) {
            struct uuid id = uuid_from_random(words[i], words[j]);
            assert_int_equal(id.bytes[6] & 0xf0, 0x40);
            assert_int_equal(id.bytes[8] & 0xc0, 0x80);
            assert_false(uuid_is_zero(&id));
        }
    }
}

static void the_text_of_a_random_id_never_starts_with_a_dash(void **state)
{
    for (uint64_t first = 0; first < 256; first++) {
        struct uuid id = uuid_from_random(first << 56, 7);
        char text[UUID_TEXT_SIZE];
        uuid_format(&id, text);
        assert_int_not_equal(text[0], '-');
    }
}

static void different_words_give_different_ids(void **state)
{
    struct uuid a = uuid_from_random(5, 6);
    struct uuid b = uuid_from_random(5, 7);
    struct uuid c = uuid_from_random(6, 6);
    assert_false(uuid_equal(&a, &b));
    assert_false(uuid_equal(&a, &c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_and_its_text_agree),
        cmocka_unit_test(a_text_of_other_length_or_alphabet_is_refused),
        cmocka_unit_test(a_random_id_is_version_4_and_never_reserved),
        cmocka_unit_test(the_text_of_a_random_id_never_starts_with_a_dash),
        cmocka_unit_test(different_words_give_different_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
