#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "twinlog/core/pool.h"

static void objects_are_zeroed_aligned_and_distinct(void **state)
{
    struct pool pool;
    pool_init(&pool, 40, 5000);
    static uint8_t *objects[5000];
    for (size_t i = 0; i < COUNT_OF(objects); i++) {
        objects[i] = pool_take(&pool);
        assert_non_null(objects[i]);
        assert_int_equal((uintptr_t)objects[i] % 16, 0);
        for (size_t at = 0; at < 40; at++) {
            assert_int_equal(objects[i][at], 0);
        }
        memset(objects[i], (int)(i % 251), 40);
    }
    for (size_t i = 0; i < COUNT_OF(objects); i++) {
        assert_int_equal(objects[i][0], i % 251);
        assert_int_equal(objects[i][39], i % 251);
        pool_give(&pool, objects[i]);
    }
    assert_int_equal(pool.in_use, 0);
    pool_fini(&pool);
}

static void the_bound_refuses_and_a_give_makes_room(void **state)
{
    struct pool pool;
    pool_init(&pool, 1, 3);
    void *objects[3];
    for (size_t i = 0; i < 3; i++) {
        objects[i] = pool_take(&pool);
        assert_non_null(objects[i]);
    }
    assert_int_equal(pool.count, 3);
    assert_null(pool_take(&pool));
    assert_int_equal(pool.in_use, 3);
    pool_give(&pool, objects[1]);
    void *again = pool_take(&pool);
    assert_ptr_equal(again, objects[1]);
    assert_null(pool_take(&pool));
    objects[1] = again;
    for (size_t i = 0; i < 3; i++) {
        pool_give(&pool, objects[i]);
    }
    pool_fini(&pool);
}

static void a_given_object_comes_back_first_and_zeroed(void **state)
{
    struct pool pool;
    pool_init(&pool, 64, 10);
    uint8_t *a = pool_take(&pool);
    uint8_t *b = pool_take(&pool);
    assert_non_null(a);
    assert_non_null(b);
    memset(a, 0xff, 64);
    memset(b, 0xff, 64);
    pool_give(&pool, a);
    pool_give(&pool, b);
    uint8_t *first = pool_take(&pool);
    uint8_t *second = pool_take(&pool);
    assert_ptr_equal(first, b);
    assert_ptr_equal(second, a);
    for (size_t at = 0; at < 64; at++) {
        assert_int_equal(first[at] | second[at], 0);
    }
    pool_give(&pool, first);
    pool_give(&pool, second);
    pool_fini(&pool);
}

static void only_the_first_part_is_zeroed_where_that_was_asked_for(void **state)
{
    struct pool pool;
    pool_init_partly_zeroed(&pool, 256, 48, 2);
    uint8_t *object = pool_take(&pool);
    assert_non_null(object);
    memset(object, 0xff, 256);
    pool_give(&pool, object);
    assert_ptr_equal(pool_take(&pool), object);
    for (size_t at = 0; at < 48; at++) {
        assert_int_equal(object[at], 0);
    }
    assert_int_equal(object[48], 0xff);
    assert_int_equal(object[255], 0xff);
    pool_give(&pool, object);
    pool_fini(&pool);
}

static void an_object_may_be_larger_than_a_slab(void **state)
{
    struct pool pool;
    pool_init(&pool, 1 << 20, 2);
    uint8_t *objects[2];
    for (size_t i = 0; i < 2; i++) {
        objects[i] = pool_take(&pool);
        assert_non_null(objects[i]);
        objects[i][(1 << 20) - 1] = 1;
        assert_int_equal(pool.count, i + 1);
    }
    assert_null(pool_take(&pool));
    for (size_t i = 0; i < 2; i++) {
        pool_give(&pool, objects[i]);
    }
    pool_fini(&pool);
}

static void a_pool_of_none_gives_none(void **state)
{
    struct pool pool;
    pool_init(&pool, 8, 0);
    assert_null(pool_take(&pool));
    pool_fini(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_zeroed_aligned_and_distinct),
        cmocka_unit_test(the_bound_refuses_and_a_give_makes_room),
        cmocka_unit_test(a_given_object_comes_back_first_and_zeroed),
        cmocka_unit_test(only_the_first_part_is_zeroed_where_that_was_asked_for),
        cmocka_unit_test(an_object_may_be_larger_than_a_slab),
        cmocka_unit_test(a_pool_of_none_gives_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
