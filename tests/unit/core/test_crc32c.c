#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "twinlog/core/crc32c.h"

/* The vectors of RFC 3720, appendix B.4, and the usual check value. */
static void the_published_vectors_hold(void **state)
{
    uint8_t bytes[32];
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++) {
        bytes[i] = i;
    }
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
}

static void nothing_leaves_the_value_as_it_was(void **state)
{
    assert_int_equal(crc32c(0, NULL, 0), 0);
    assert_int_equal(crc32c(0x12345678, "x", 0), 0x12345678);
}

/* Bit by bit, from the definition: the reflected polynomial 0x1EDC6F41. */
static uint32_t crc32c_by_definition(const uint8_t *at, size_t size)
{
    uint32_t state = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        state ^= at[i];
        for (int bit = 0; bit < 8; bit++) {
            state = (state >> 1) ^ (0x82f63b78 & (~(state & 1) + 1));
        }
    }
    return ~state;
}

static void every_split_at_every_size_agrees_with_the_definition(void **state)
{
    uint8_t bytes[3000];
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(seed >> 24);
    }
    for (size_t size = 0; size <= sizeof(bytes); size += 1 + size / 7) {
        uint32_t expected = crc32c_by_definition(bytes, size);
        for (size_t split = 0; split <= size; split += 1 + size / 13) {
            uint32_t head = crc32c(0, bytes, split);
            assert_int_equal(crc32c(head, bytes + split, size - split), expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors_hold),
        cmocka_unit_test(nothing_leaves_the_value_as_it_was),
        cmocka_unit_test(every_split_at_every_size_agrees_with_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
