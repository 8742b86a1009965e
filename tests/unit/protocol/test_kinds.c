/*
 * Every kind of field at least once, those that no message of the schema uses yet included: a
 * table and its bytes, both by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "table.h"
#include "twinlog/core/arena.h"

struct inner {
    int16_t number;
};

struct kinds {
    bool flag;
    uint16_t u16;
    uint32_t u32;
    double real;
    struct bytes blob;
    struct inner *pointer;
    struct inner *tagged_pointer;
    struct bytes *names;
    int32_t names_count;
    double *reals;
    int32_t reals_count;
};

static const struct inner inner_default = {7};
static const struct kinds kinds_default = {.u16 = 1, .blob = {(const uint8_t *)"", 0}};

static const struct field inner_fields[] = {
    {.kind = FIELD_INT16, .offset = offsetof(struct inner, number), .element_size = 2}};
static const struct layout inner_plain = {.fields = inner_fields,
                                          .defaults = &inner_default,
                                          .field_count = 1,
                                          .size = sizeof(struct inner)};
static const struct layout inner_flexible = {.fields = inner_fields,
                                             .defaults = &inner_default,
                                             .field_count = 1,
                                             .size = sizeof(struct inner),
                                             .flexible = true};

#define KINDS_FIELDS(inner_layout)                                                                 \
    {                                                                                              \
        {.kind = FIELD_BOOL, .offset = offsetof(struct kinds, flag), .element_size = 1},           \
            {.kind = FIELD_UINT16, .offset = offsetof(struct kinds, u16), .element_size = 2},      \
            {.kind = FIELD_UINT32, .offset = offsetof(struct kinds, u32), .element_size = 4},      \
            {.kind = FIELD_FLOAT64, .offset = offsetof(struct kinds, real), .element_size = 8},    \
            {.kind = FIELD_BYTES, .nullable = true, .offset = offsetof(struct kinds, blob)},       \
            {.kind = FIELD_STRUCT_POINTER,                                                         \
             .nullable = true,                                                                     \
             .offset = offsetof(struct kinds, pointer),                                            \
             .layout = (inner_layout)},                                                            \
            {.kind = FIELD_ARRAY,                                                                  \
             .element_kind = FIELD_STRING,                                                         \
             .nullable = true,                                                                     \
             .offset = offsetof(struct kinds, names),                                              \
             .count_offset = offsetof(struct kinds, names_count),                                  \
             .element_size = sizeof(struct bytes),                                                 \
             .element_size_min = 1},                                                               \
            {.kind = FIELD_ARRAY,                                                                  \
             .element_kind = FIELD_FLOAT64,                                                        \
             .offset = offsetof(struct kinds, reals),                                              \
             .count_offset = offsetof(struct kinds, reals_count),                                  \
             .element_size = sizeof(double),                                                       \
             .element_size_min = 8},                                                               \
    }

static const struct field plain_fields[] = KINDS_FIELDS(&inner_plain);
static const struct field flexible_fields[] = KINDS_FIELDS(&inner_flexible);
static const struct field tagged_fields[] = {{.kind = FIELD_STRUCT_POINTER,
                                              .nullable = true,
                                              .offset = offsetof(struct kinds, tagged_pointer),
                                              .tag = 3,
                                              .layout = &inner_flexible}};
static const struct layout plain = {.fields = plain_fields,
                                    .defaults = &kinds_default,
                                    .field_count = COUNT_OF(plain_fields),
                                    .size = sizeof(struct kinds)};
static const struct layout flexible = {.fields = flexible_fields,
                                       .tagged = tagged_fields,
                                       .defaults = &kinds_default,
                                       .field_count = COUNT_OF(flexible_fields),
                                       .tagged_count = 1,
                                       .size = sizeof(struct kinds),
                                       .flexible = true};
static const struct layout *const layouts[] = {&plain, &flexible};
static const struct message_type kinds_type = {
    .name = "Kinds", .layouts = layouts, .version_min = 0, .version_max = 1};

/* 1.5 is 3ff8000000000000. */
static const uint8_t full_plain[] = {1, 0xfe, 0xdc, 0xff, 0xee, 0xdd, 0xcc, 0x3f, 0xf8, 0, 0,    0,
                                     0, 0,    0,    0,    0,    0,    2,    8,    9,    1, 0x80, 0,
                                     0, 0,    0,    2,    0,    1,    'a',  0,    0,    0, 0,    0,
                                     1, 0x3f, 0xf8, 0,    0,    0,    0,    0,    0};
static const uint8_t full_flexible[] = {
    1, 0xfe, 0xdc, 0xff, 0xee, 0xdd, 0xcc, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 3, 8, 9, 1, 0x80, 0,
    0, 3,    2,    'a',  1,    2,    0x3f, 0xf8, 0,    0, 0, 0, 0, 0, 1, 3, 4, 1, 0, 5,    0};
static const uint8_t null_plain[] = {0,    0,    1,    0,    0, 0,    0,    0,    0,    0,
                                     0,    0,    0,    0,    0, 0xff, 0xff, 0xff, 0xff, 0xff,
                                     0xff, 0xff, 0xff, 0xff, 0, 0,    0,    0};
static const uint8_t null_flexible[] = {0, 0, 1, 0, 0, 0, 0,    0, 0, 0,
                                        0, 0, 0, 0, 0, 0, 0xff, 0, 1, 0};

static void assert_encodes_to(int16_t version, const struct kinds *message, const uint8_t *bytes,
                              uint32_t size)
{
    uint8_t buffer[128];
    uint32_t measured;
    struct message_writer writer = {.buffer = buffer, .capacity = size};
    assert_true(status_is_ok(message_size(&kinds_type, version, message, &measured)));
    assert_int_equal(measured, size);
    assert_true(status_is_ok(message_encode(&kinds_type, version, message, &writer)));
    assert_memory_equal(buffer, bytes, size);
}

static void every_kind_is_read_and_written(void **state)
{
    for (int16_t version = 0; version <= 1; version++) {
        struct bytes input = version == 0 ? (struct bytes){full_plain, sizeof(full_plain)}
                                          : (struct bytes){full_flexible, sizeof(full_flexible)};
        struct arena arena;
        arena_init(&arena, 1 << 16);
        struct kinds k;
        assert_true(status_is_ok(message_decode(&kinds_type, version, input, &arena, &k)));
        assert_true(k.flag);
        assert_int_equal(k.u16, 0xfedc);
        assert_int_equal(k.u32, 0xffeeddccu);
        assert_true(k.real > 1.49 && k.real < 1.51);
        assert_int_equal(k.blob.size, 2);
        assert_non_null(k.pointer);
        assert_int_equal(k.pointer->number, INT16_MIN);
        assert_int_equal(k.names_count, 2);
        assert_true(bytes_equal(k.names[0], bytes_of("a")));
        assert_true(bytes_equal(k.names[1], bytes_of("")));
        assert_int_equal(k.reals_count, 1);
        assert_true(k.reals[0] > 1.49 && k.reals[0] < 1.51);
        assert_int_equal(k.tagged_pointer != NULL, version == 1);
        if (k.tagged_pointer != NULL) {
            assert_int_equal(k.tagged_pointer->number, 5);
        }
        assert_encodes_to(version, &k, input.data, input.size);
        arena_fini(&arena);
    }
}

static void nulls_are_read_and_written(void **state)
{
    for (int16_t version = 0; version <= 1; version++) {
        struct bytes input = version == 0 ? (struct bytes){null_plain, sizeof(null_plain)}
                                          : (struct bytes){null_flexible, sizeof(null_flexible)};
        struct arena arena;
        arena_init(&arena, 1 << 16);
        struct kinds k;
        assert_true(status_is_ok(message_decode(&kinds_type, version, input, &arena, &k)));
        assert_true(bytes_is_null(k.blob));
        assert_null(k.pointer);
        assert_null(k.tagged_pointer);
        assert_int_equal(k.names_count, -1);
        assert_int_equal(k.reals_count, 0);
        assert_int_equal(arena.size, 0);
        assert_encodes_to(version, &k, input.data, input.size);
        arena_fini(&arena);
    }
}

static void a_cut_is_truncated_at_every_byte(void **state)
{
    for (int16_t version = 0; version <= 1; version++) {
        struct bytes input = version == 0 ? (struct bytes){full_plain, sizeof(full_plain)}
                                          : (struct bytes){full_flexible, sizeof(full_flexible)};
        for (uint32_t size = 0; size < input.size; size++) {
            uint8_t *copy = malloc(size + (size == 0));
            memcpy(copy, input.data, size);
            struct arena arena;
            arena_init(&arena, 1 << 16);
            struct kinds k;
            struct bytes cut = {copy, size};
            assert_int_equal(message_decode(&kinds_type, version, cut, &arena, &k).code,
                             STATUS_TRUNCATED);
            arena_fini(&arena);
            free(copy);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_read_and_written),
        cmocka_unit_test(nulls_are_read_and_written),
        cmocka_unit_test(a_cut_is_truncated_at_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
