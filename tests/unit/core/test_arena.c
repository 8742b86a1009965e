#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "twinlog/core/arena.h"

static void nothing_is_held_before_the_first_use(void **state)
{
    struct arena arena;
    arena_init(&arena, 1 << 20);
    assert_int_equal(arena.size, 0);
    arena_reset(&arena);
    arena_fini(&arena);
    assert_null(arena.block);
}

static void allocations_are_aligned_and_do_not_overlap(void **state)
{
    struct arena arena;
    arena_init(&arena, 4 << 20);
    uint8_t *items[200];
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        items[i] = arena_alloc(&arena, i * 7);
        assert_non_null(items[i]);
        assert_int_equal((uintptr_t)items[i] % 16, 0);
        memset(items[i], (int)i, i * 7);
    }
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        for (size_t at = 0; at < i * 7; at++) {
            assert_int_equal(items[i][at], (uint8_t)i);
        }
    }
    arena_fini(&arena);
}

static void the_limit_bounds_all_blocks_together(void **state)
{
    struct arena arena;
    arena_init(&arena, 100 * 1024);
    size_t got = 0;
    while (arena_alloc(&arena, 1024) != NULL) {
        got++;
        assert_true(arena.size <= 100 * 1024);
    }
    assert_in_range(got, 90, 100); /* The headers of the blocks count too. */
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_alloc(&arena, SIZE_MAX - 15));
    arena_fini(&arena);
}

static void a_limit_below_one_block_still_serves(void **state)
{
    struct arena arena;
    arena_init(&arena, 256);
    assert_non_null(arena_alloc(&arena, 100));
    assert_true(arena.size <= 256);
    assert_null(arena_alloc(&arena, 200));
    arena_fini(&arena);
    arena_init(&arena, 0);
    assert_null(arena_alloc(&arena, 0));
    arena_fini(&arena);
}

static void a_reset_keeps_one_small_block(void **state)
{
    struct arena arena;
    arena_init(&arena, 1 << 20);
    uint8_t *first = arena_alloc(&arena, 100);
    assert_non_null(first);
    assert_non_null(arena_alloc(&arena, 300 * 1024));
    arena_reset(&arena);
    assert_in_range(arena.size, 1, 16 * 1024);
    size_t held = arena.size;
    assert_ptr_equal(arena_alloc(&arena, 100), first);
    assert_int_equal(arena.size, held);
    arena_reset(&arena);
    assert_int_equal(arena.size, held);
    arena_fini(&arena);
}

static void a_reset_frees_a_large_lone_block(void **state)
{
    struct arena arena;
    arena_init(&arena, 1 << 20);
    assert_non_null(arena_alloc(&arena, 64 * 1024));
    arena_reset(&arena);
    assert_int_equal(arena.size, 0);
    assert_non_null(arena_alloc(&arena, 64 * 1024));
    arena_fini(&arena);
}

static void an_array_is_zeroed_and_its_size_cannot_overflow(void **state)
{
    struct arena arena;
    arena_init(&arena, 1 << 20);
    uint8_t *dirty = arena_alloc(&arena, 8000);
    assert_non_null(dirty);
    memset(dirty, 0xa5, 8000);
    arena_reset(&arena);
    uint64_t *items = arena_array(&arena, 1000, sizeof(uint64_t));
    assert_non_null(items);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(items[i], 0);
    }
    assert_null(arena_array(&arena, SIZE_MAX / 2, 4));
    assert_null(arena_array(&arena, (size_t)1 << 32, (size_t)1 << 32));
    assert_null(arena_array(&arena, 1 << 20, 2));
    arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_held_before_the_first_use),
        cmocka_unit_test(allocations_are_aligned_and_do_not_overlap),
        cmocka_unit_test(the_limit_bounds_all_blocks_together),
        cmocka_unit_test(a_limit_below_one_block_still_serves),
        cmocka_unit_test(a_reset_keeps_one_small_block),
        cmocka_unit_test(a_reset_frees_a_large_lone_block),
        cmocka_unit_test(an_array_is_zeroed_and_its_size_cannot_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
