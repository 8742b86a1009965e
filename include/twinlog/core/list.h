/* Intrusive doubly linked list with a sentinel head. Not thread safe; owns nothing. */
#ifndef TWINLOG_CORE_LIST_H
#define TWINLOG_CORE_LIST_H

#include "twinlog/core/assert.h"
#include "twinlog/core/base.h"

/* A node that is in no list has next == NULL. */
struct list_node {
    struct list_node *next;
    struct list_node *prev;
};

struct list {
    struct list_node head;
};

static inline void list_init(struct list *list)
{
    list->head.next = &list->head;
    list->head.prev = &list->head;
}

static inline bool list_is_empty(const struct list *list)
{
    return list->head.next == &list->head;
}

static inline bool list_node_is_linked(const struct list_node *node)
{
    return node->next != NULL;
}

static inline void list_insert_before(struct list_node *place, struct list_node *node)
{
    ASSERT(node->next == NULL);
    node->next = place;
    node->prev = place->prev;
    place->prev->next = node;
    place->prev = node;
}

static inline void list_push_back(struct list *list, struct list_node *node)
{
    list_insert_before(&list->head, node);
}

static inline void list_push_front(struct list *list, struct list_node *node)
{
    list_insert_before(list->head.next, node);
}

/* Takes `node` out of its list; it must be in one. */
static inline void list_remove(struct list_node *node)
{
    ASSERT(node->next != NULL);
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = NULL;
    node->prev = NULL;
}

/* NULL when empty. */
static inline struct list_node *list_first(const struct list *list)
{
    return list->head.next == &list->head ? NULL : list->head.next;
}

/* NULL when empty. */
static inline struct list_node *list_last(const struct list *list)
{
    return list->head.prev == &list->head ? NULL : list->head.prev;
}

/* Takes out and returns the first node, NULL when empty. */
static inline struct list_node *list_pop_front(struct list *list)
{
    struct list_node *node = list_first(list);
    if (node != NULL) {
        list_remove(node);
    }
    return node;
}

/* Moves all nodes of `from` to the end of `to`. */
static inline void list_splice(struct list *to, struct list *from)
{
    while (!list_is_empty(from)) {
        list_push_back(to, list_pop_front(from));
    }
}

#define LIST_FOREACH(node, list)                                                                   \
    for (struct list_node *node = (list)->head.next; node != &(list)->head; node = node->next)

/* The body may remove `node` (and only it). */
#define LIST_FOREACH_SAFE(node, list)                                                              \
    for (struct list_node *node = (list)->head.next, *node##_next = node->next;                    \
         node != &(list)->head; node = node##_next, node##_next = node->next)

#endif
