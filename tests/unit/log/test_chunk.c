/* The pool of chunks: src/log/chunk.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "chunk.h"

static void chunk_release(struct chunk_pool *pool, struct chunk *chunk)
{
    chunk->refs--;
    chunk->entry_count = 0;
    chunk_give(pool, chunk);
}

static void chunks_are_aligned_and_empty_whatever_they_held(void **state)
{
    struct chunk_pool pool;
    chunk_pool_init(&pool, 16384, 4);
    for (uint32_t round = 0; round < 3; round++) {
        struct chunk *chunk = chunk_take(&pool, 100);
        assert_non_null(chunk);
        assert_int_equal((uintptr_t)chunk->data % CHUNK_ALIGNMENT, 0);
        assert_int_equal(chunk->capacity, 16384);
        assert_int_equal(chunk->used, 0);
        assert_int_equal(chunk->refs, 1);
        assert_int_equal(chunk->entry_count, 0);
        assert_false(chunk->oversized);
        memset(chunk->data, 0xff, chunk->capacity);
        chunk->used = 16384;
        assert_true(chunk_entry_add(chunk, NULL, 7));
        chunk_release(&pool, chunk);
    }
    assert_int_equal(pool.count, 1);
    chunk_pool_fini(&pool);
}

static void the_bound_refuses_and_a_give_makes_room(void **state)
{
    struct chunk_pool pool;
    chunk_pool_init(&pool, 4096, 3);
    struct chunk *chunks[3];
    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        assert_true(chunk_pool_has_room(&pool, 4096));
        chunks[i] = chunk_take(&pool, 4096);
        assert_non_null(chunks[i]);
    }
    assert_false(chunk_pool_has_room(&pool, 1));
    assert_null(chunk_take(&pool, 1));
    assert_ptr_equal(CONTAINER_OF(list_first(&pool.used), struct chunk, link), chunks[0]);
    chunk_release(&pool, chunks[1]);
    assert_true(chunk_pool_has_room(&pool, 1));
    assert_non_null(chunk_take(&pool, 1));
    assert_int_equal(pool.count, 3);
    assert_int_equal(pool.in_use, 3);
    chunk_pool_fini(&pool); /* takes those in use as well */
    assert_int_equal(pool.count, 0);
}

static void an_oversized_one_counts_by_its_size(void **state)
{
    struct chunk_pool pool;
    chunk_pool_init(&pool, 8192, 4);
    struct chunk *first = chunk_take(&pool, 8192);
    struct chunk *large = chunk_take(&pool, 8193);
    assert_non_null(large);
    assert_true(large->oversized);
    assert_true(large->capacity >= 8193);
    assert_int_equal(pool.in_use, 3);
    assert_false(chunk_pool_has_room(&pool, 3 * 8192));
    assert_true(chunk_pool_has_room(&pool, 8192));
    chunk_release(&pool, large);
    assert_int_equal(pool.in_use, 1);
    assert_int_equal(pool.count, 1);
    /* Above the bound only when nothing else is in use; free ones make way for it. */
    assert_null(chunk_take(&pool, 10 * 8192));
    chunk_release(&pool, first);
    assert_true(chunk_pool_has_room(&pool, 10 * 8192));
    large = chunk_take(&pool, 10 * 8192);
    assert_non_null(large);
    memset(large->data, 1, large->capacity);
    assert_int_equal(pool.count, 10);
    assert_false(chunk_pool_has_room(&pool, 1));
    chunk_release(&pool, large);
    assert_int_equal(pool.count, 0);
    assert_false(chunk_pool_has_room(&pool, UINT32_MAX));
    chunk_pool_fini(&pool);
}

static void entries_grow_and_stay_in_order(void **state)
{
    struct chunk_pool pool;
    chunk_pool_init(&pool, 4096, 1);
    struct chunk *chunk = chunk_take(&pool, 1);
    for (uint32_t i = 0; i < 5000; i++) {
        assert_true(chunk_entry_add(chunk, (struct partition *)(uintptr_t)(i * 8), i));
    }
    assert_int_equal(chunk->entry_count, 5000);
    for (uint32_t i = 0; i < 5000; i++) {
        assert_int_equal((uintptr_t)chunk->entries[i].partition, i * 8);
        assert_int_equal(chunk->entries[i].end_offset, i);
    }
    chunk_pool_fini(&pool);
}

static void trimming_frees_what_is_not_in_use(void **state)
{
    struct chunk_pool pool;
    chunk_pool_init(&pool, 4096, 8);
    struct chunk *kept = chunk_take(&pool, 1);
    struct chunk *given = chunk_take(&pool, 1);
    memset(kept->data, 3, 4096);
    chunk_release(&pool, given);
    assert_int_equal(pool.count, 2);
    chunk_pool_trim(&pool);
    assert_int_equal(pool.count, 1);
    assert_int_equal(kept->data[4095], 3);
    chunk_release(&pool, kept);
    chunk_pool_trim(&pool);
    assert_int_equal(pool.count, 0);
    assert_non_null(chunk_take(&pool, 1));
    chunk_pool_fini(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_aligned_and_empty_whatever_they_held),
        cmocka_unit_test(the_bound_refuses_and_a_give_makes_room),
        cmocka_unit_test(an_oversized_one_counts_by_its_size),
        cmocka_unit_test(entries_grow_and_stay_in_order),
        cmocka_unit_test(trimming_frees_what_is_not_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
