#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "twinlog/core/list.h"

struct item {
    int value;
    struct list_node link;
};

static int item_value(const struct list_node *node)
{
    return CONTAINER_OF(node, struct item, link)->value;
}

static void nodes_keep_the_order_of_their_pushes(void **state)
{
    struct list list;
    struct item items[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
    list_init(&list);
    assert_true(list_is_empty(&list));
    assert_null(list_first(&list));
    assert_null(list_last(&list));
    assert_null(list_pop_front(&list));
    list_push_back(&list, &items[1].link);
    list_push_back(&list, &items[3].link);
    list_push_front(&list, &items[0].link);
    list_insert_before(&items[3].link, &items[2].link);
    int expected = 0;
    LIST_FOREACH (node, &list) {
        assert_int_equal(item_value(node), expected++);
    }
    assert_int_equal(expected, 4);
    assert_int_equal(item_value(list_first(&list)), 0);
    assert_int_equal(item_value(list_last(&list)), 3);
}

static void a_removed_node_can_be_linked_again(void **state)
{
    struct list list;
    struct item items[3] = {{.value = 0}, {.value = 1}, {.value = 2}};
    list_init(&list);
    for (size_t i = 0; i < 3; i++) {
        list_push_back(&list, &items[i].link);
    }
    assert_true(list_node_is_linked(&items[1].link));
    list_remove(&items[1].link);
    assert_false(list_node_is_linked(&items[1].link));
    list_push_back(&list, &items[1].link);
    static const int order[] = {0, 2, 1};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(item_value(list_pop_front(&list)), order[i]);
    }
    assert_true(list_is_empty(&list));
}

static void the_safe_walk_may_remove_its_node(void **state)
{
    struct list list;
    struct item items[6] = {{.value = 0}};
    list_init(&list);
    for (int i = 0; i < 6; i++) {
        items[i].value = i;
        list_push_back(&list, &items[i].link);
    }
    LIST_FOREACH_SAFE (node, &list) {
        if (item_value(node) % 2 == 0) {
            list_remove(node);
        }
    }
    int expected = 1;
    LIST_FOREACH (node, &list) {
        assert_int_equal(item_value(node), expected);
        expected += 2;
    }
    assert_int_equal(expected, 7);
}

static void a_splice_moves_everything_to_the_end(void **state)
{
    struct list to;
    struct list from;
    struct item items[3] = {{.value = 0}, {.value = 1}, {.value = 2}};
    list_init(&to);
    list_init(&from);
    list_push_back(&to, &items[0].link);
    list_push_back(&from, &items[1].link);
    list_push_back(&from, &items[2].link);
    list_splice(&to, &from);
    assert_true(list_is_empty(&from));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(item_value(list_pop_front(&to)), i);
    }
    list_splice(&to, &from);
    assert_true(list_is_empty(&to));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_keep_the_order_of_their_pushes),
        cmocka_unit_test(a_removed_node_can_be_linked_again),
        cmocka_unit_test(the_safe_walk_may_remove_its_node),
        cmocka_unit_test(a_splice_moves_everything_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
