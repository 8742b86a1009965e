#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "twinlog/core/bytes.h"

static void loads_and_stores_keep_the_byte_order(void **state)
{
    uint8_t bytes[9] = {0};
    store_be32(bytes + 1, 0x01020304); /* at an odd address */
    assert_memory_equal(bytes, "\x00\x01\x02\x03\x04", 5);
    assert_int_equal(load_be32(bytes + 1), 0x01020304);
    assert_int_equal(load_le32(bytes + 1), 0x04030201);
    store_le64(bytes + 1, 0x0102030405060708);
    assert_int_equal(bytes[1], 8);
    assert_int_equal(load_be64(bytes + 1), 0x0807060504030201);
    store_be16(bytes, 0xfffe);
    assert_int_equal(load_be16(bytes), 0xfffe);
    assert_int_equal(load_le16(bytes), 0xfeff);
}

static void null_bytes_differ_from_empty_bytes(void **state)
{
    assert_true(bytes_is_null(BYTES_NULL));
    assert_true(bytes_is_null(bytes_of(NULL)));
    assert_false(bytes_is_null(bytes_of("")));
    assert_false(bytes_equal(bytes_of(""), BYTES_NULL));
    assert_true(bytes_equal(BYTES_NULL, BYTES_NULL));
    assert_true(bytes_equal(bytes_of("abc"), bytes_of("abc")));
    assert_false(bytes_equal(bytes_of("abc"), bytes_of("abd")));
    assert_false(bytes_equal(bytes_of("abc"), bytes_of("ab")));
}

struct varint_row {
    uint64_t value;
    unsigned size;
    const char *bytes;
};

static const struct varint_row varint_rows[] = {
    {0, 1, "\x00"},
    {1, 1, "\x01"},
    {127, 1, "\x7f"},
    {128, 2, "\x80\x01"},
    {300, 2, "\xac\x02"},
    {16383, 2, "\xff\x7f"},
    {16384, 3, "\x80\x80\x01"},
    {UINT32_MAX, 5, "\xff\xff\xff\xff\x0f"},
    {(uint64_t)UINT32_MAX + 1, 5, "\x80\x80\x80\x80\x10"},
    {INT64_MAX, 9, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"},
    {UINT64_MAX, 10, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
};

static void varints_are_written_sized_and_read_alike(void **state)
{
    for (size_t i = 0; i < COUNT_OF(varint_rows); i++) {
        const struct varint_row *row = &varint_rows[i];
        uint8_t bytes[10];
        assert_ptr_equal(varint_write_u64(bytes, row->value), bytes + row->size);
        assert_memory_equal(bytes, row->bytes, row->size);
        assert_int_equal(varint_size_u64(row->value), row->size);
        uint64_t wide;
        assert_ptr_equal(varint_read_u64(bytes, bytes + row->size, &wide), bytes + row->size);
        assert_int_equal(wide, row->value);
        uint32_t narrow;
        const uint8_t *after = varint_read_u32(bytes, bytes + row->size, &narrow);
        if (row->value > UINT32_MAX) {
            assert_null(after);
        } else {
            assert_ptr_equal(after, bytes + row->size);
            assert_int_equal(narrow, row->value);
            assert_int_equal(varint_size_u32((uint32_t)row->value), row->size);
            uint8_t again[5];
            assert_ptr_equal(varint_write_u32(again, narrow), again + row->size);
            assert_memory_equal(again, bytes, row->size);
        }
    }
}

static void a_varint_that_does_not_end_in_time_is_refused(void **state)
{
    for (size_t i = 0; i < COUNT_OF(varint_rows); i++) {
        const uint8_t *bytes = (const uint8_t *)varint_rows[i].bytes;
        uint64_t wide;
        uint32_t narrow;
        for (unsigned size = 0; size < varint_rows[i].size; size++) {
            assert_null(varint_read_u64(bytes, bytes + size, &wide));
            assert_null(varint_read_u32(bytes, bytes + size, &narrow));
        }
    }
}

static void a_varint_that_does_not_fit_is_refused(void **state)
{
    uint32_t narrow;
    uint64_t wide;
    const uint8_t five[] = {0xff, 0xff, 0xff, 0xff, 0x1f, 0};
    assert_null(varint_read_u32(five, five + sizeof(five), &narrow));
    const uint8_t six[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0};
    assert_null(varint_read_u32(six, six + sizeof(six), &narrow));
    const uint8_t ten[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0};
    assert_null(varint_read_u64(ten, ten + sizeof(ten), &wide));
    const uint8_t eleven[] = {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0};
    assert_null(varint_read_u64(eleven, eleven + sizeof(eleven), &wide));
}

static void a_needlessly_long_varint_is_accepted(void **state)
{
    const uint8_t bytes[] = {0x81, 0x80, 0x00};
    uint32_t value;
    assert_ptr_equal(varint_read_u32(bytes, bytes + 3, &value), bytes + 3);
    assert_int_equal(value, 1);
}

static void zigzag_maps_small_magnitudes_to_small_values(void **state)
{
    static const int64_t values[] = {0, -1, 1, -2, 2, INT32_MAX, INT32_MIN};
    static const uint64_t mapped[] = {0, 1, 2, 3, 4, UINT32_MAX - 1, UINT32_MAX};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        assert_int_equal(zigzag_encode32((int32_t)values[i]), mapped[i]);
        assert_int_equal(zigzag_decode32((uint32_t)mapped[i]), values[i]);
        assert_int_equal(zigzag_encode64(values[i]), mapped[i]);
        assert_int_equal(zigzag_decode64(mapped[i]), values[i]);
    }
    assert_int_equal(zigzag_encode64(INT64_MIN), UINT64_MAX);
    assert_int_equal(zigzag_decode64(UINT64_MAX), INT64_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_and_stores_keep_the_byte_order),
        cmocka_unit_test(null_bytes_differ_from_empty_bytes),
        cmocka_unit_test(varints_are_written_sized_and_read_alike),
        cmocka_unit_test(a_varint_that_does_not_end_in_time_is_refused),
        cmocka_unit_test(a_varint_that_does_not_fit_is_refused),
        cmocka_unit_test(a_needlessly_long_varint_is_accepted),
        cmocka_unit_test(zigzag_maps_small_magnitudes_to_small_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
