#include "sim_name.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A link has only `to`, an unlink only `from`, a rename both. */
struct sim_change {
    struct list_node link;
    struct sim_inode *inode;
    struct sim_inode *from;
    struct sim_inode *to;
    char *from_name;
    char *to_name;
    bool is_needed; /* by the sync that is going on */
};

/* ---------------------------------------------------------------- sets of names */

static uint32_t name_hash(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name != 0; name++) {
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    }
    return hash;
}

static char *name_copy(const char *name)
{
    char *copy = strdup(name);
    ASSERT(copy != NULL);
    return copy;
}

static struct sim_entry *names_find(struct sim_names *names, const char *name)
{
    uint32_t hash = name_hash(name);
    for (uint32_t i = 0; i < names->count; i++) {
        if (names->entries[i].hash == hash && strcmp(names->entries[i].name, name) == 0) {
            return &names->entries[i];
        }
    }
    return NULL;
}

static void names_remove(struct sim_names *names, const char *name)
{
    struct sim_entry *entry = names_find(names, name);
    ASSERT(entry != NULL);
    free(entry->name);
    struct sim_inode *inode = entry->inode;
    *entry = names->entries[names->count - 1];
    names->count--;
    sim_inode_unref(inode);
}

/* Adds the name, or points it elsewhere. */
static void names_set(struct sim_names *names, const char *name, struct sim_inode *inode)
{
    sim_inode_ref(inode);
    struct sim_entry *entry = names_find(names, name);
    if (entry != NULL) {
        struct sim_inode *before = entry->inode;
        entry->inode = inode;
        sim_inode_unref(before);
        return;
    }
    if (names->count == names->capacity) {
        names->capacity = MAX(names->capacity * 2, 8);
        names->entries = realloc(names->entries, names->capacity * sizeof(*names->entries));
        ASSERT(names->entries != NULL);
    }
    names->entries[names->count] =
        (struct sim_entry){.name = name_copy(name), .hash = name_hash(name), .inode = inode};
    names->count++;
}

void sim_names_fini(struct sim_names *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        free(names->entries[i].name);
        sim_inode_unref(names->entries[i].inode);
    }
    free(names->entries);
    *names = (struct sim_names){0};
}

/* ---------------------------------------------------------------- paths */

static status sim_errno(int sys)
{
    return status_from_errno(sys);
}

/*
 * Copies the next component of the path to `name` and moves the path behind it; an empty name is
 * the end. Names are looked up from the root, whether the path begins with a slash or not.
 */
static status path_next(const char **path, char name[SIM_NAME_SIZE_MAX])
{
    for (;;) {
        *path += strspn(*path, "/");
        size_t size = strcspn(*path, "/");
        if (size >= SIM_NAME_SIZE_MAX) {
            return sim_errno(ENAMETOOLONG);
        }
        memcpy(name, *path, size);
        name[size] = 0;
        *path += size;
        if (strcmp(name, "..") == 0) {
            return sim_errno(EINVAL);
        }
        if (strcmp(name, ".") != 0) {
            return OK;
        }
    }
}

/* The directory of the last component, and that component; the root has the name "". */
static status tree_parent(struct sim_tree *tree, const char *path, struct sim_inode **parent,
                          char name[SIM_NAME_SIZE_MAX])
{
    char next[SIM_NAME_SIZE_MAX] = "";
    *parent = tree->root;
    TRY(path_next(&path, name));
    for (;;) {
        TRY(path_next(&path, next));
        if (next[0] == 0) {
            return OK;
        }
        struct sim_entry *entry = names_find(&(*parent)->visible, name);
        if (entry == NULL) {
            return sim_errno(ENOENT);
        }
        if (!entry->inode->is_directory) {
            return sim_errno(ENOTDIR);
        }
        *parent = entry->inode;
        memcpy(name, next, sizeof(next));
    }
}

status sim_tree_find(struct sim_tree *tree, const char *path, struct sim_inode **inode)
{
    char name[SIM_NAME_SIZE_MAX] = "";
    struct sim_inode *parent;
    TRY(tree_parent(tree, path, &parent, name));
    if (name[0] == 0) {
        *inode = parent;
        return OK;
    }
    struct sim_entry *entry = names_find(&parent->visible, name);
    if (entry == NULL) {
        return sim_errno(ENOENT);
    }
    *inode = entry->inode;
    return OK;
}

/* ---------------------------------------------------------------- pending changes */

static struct sim_change *change_add(struct sim_tree *tree, struct sim_inode *inode)
{
    struct sim_change *change = sim_alloc(sizeof(*change));
    change->inode = inode;
    sim_inode_ref(inode);
    list_push_back(&tree->pending, &change->link);
    return change;
}

static void change_set_from(struct sim_change *change, struct sim_inode *from, const char *name)
{
    sim_inode_ref(from);
    change->from = from;
    change->from_name = name_copy(name);
}

static void change_set_to(struct sim_change *change, struct sim_inode *to, const char *name)
{
    sim_inode_ref(to);
    change->to = to;
    change->to_name = name_copy(name);
}

static void change_free(struct sim_change *change)
{
    list_remove(&change->link);
    if (change->from != NULL) {
        sim_inode_unref(change->from);
    }
    if (change->to != NULL) {
        sim_inode_unref(change->to);
    }
    sim_inode_unref(change->inode);
    free(change->from_name);
    free(change->to_name);
    free(change);
}

/* Applies to the durable names, unless the name it starts from never got there. */
static void change_apply(struct sim_change *change)
{
    if (change->from != NULL) {
        struct sim_entry *entry = names_find(&change->from->durable, change->from_name);
        if (entry == NULL || entry->inode != change->inode) {
            return;
        }
    }
    if (change->to != NULL) {
        names_set(&change->to->durable, change->to_name, change->inode);
    }
    if (change->from != NULL) {
        names_remove(&change->from->durable, change->from_name);
    }
}

static struct sim_change *change_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct sim_change, link);
}

static bool inode_is_marked(const struct sim_inode *inode)
{
    return inode != NULL && inode->is_marked;
}

static void inode_set_mark(struct sim_inode *inode, bool is_marked)
{
    if (inode != NULL) {
        inode->is_marked = is_marked;
    }
}

/*
 * Marks what a sync of `directory` needs: its own changes, and all earlier changes of a directory
 * that one of them touches, as a file system with one journal would write them.
 */
static void tree_mark(struct sim_tree *tree, struct sim_inode *directory)
{
    directory->is_marked = true;
    for (struct list_node *at = tree->pending.head.prev; at != &tree->pending.head; at = at->prev) {
        struct sim_change *change = change_of(at);
        change->is_needed = inode_is_marked(change->from) || inode_is_marked(change->to);
        if (change->is_needed) {
            inode_set_mark(change->from, true);
            inode_set_mark(change->to, true);
        }
    }
    directory->is_marked = false;
    LIST_FOREACH (node, &tree->pending) {
        inode_set_mark(change_of(node)->from, false);
        inode_set_mark(change_of(node)->to, false);
    }
}

void sim_tree_sync(struct sim_tree *tree, struct sim_inode *directory)
{
    if (directory != NULL) {
        tree_mark(tree, directory);
    }
    LIST_FOREACH_SAFE (node, &tree->pending) {
        struct sim_change *change = change_of(node);
        if (directory == NULL || change->is_needed) {
            change_apply(change);
            change_free(change);
        }
    }
}

/* ---------------------------------------------------------------- changes */

status sim_tree_create(struct sim_tree *tree, const char *path, bool is_directory,
                       struct sim_inode **inode)
{
    char name[SIM_NAME_SIZE_MAX] = "";
    struct sim_inode *parent;
    TRY(tree_parent(tree, path, &parent, name));
    if (name[0] == 0 || names_find(&parent->visible, name) != NULL) {
        return sim_errno(EEXIST);
    }
    *inode = sim_inode_create(tree->medium, is_directory);
    names_set(&parent->visible, name, *inode);
    change_set_to(change_add(tree, *inode), parent, name);
    sim_inode_unref(*inode);
    return OK;
}

status sim_tree_remove(struct sim_tree *tree, const char *path, bool is_directory)
{
    char name[SIM_NAME_SIZE_MAX] = "";
    struct sim_inode *parent;
    TRY(tree_parent(tree, path, &parent, name));
    if (name[0] == 0) {
        return sim_errno(EBUSY);
    }
    struct sim_entry *entry = names_find(&parent->visible, name);
    if (entry == NULL) {
        return sim_errno(ENOENT);
    }
    if (entry->inode->is_directory != is_directory) {
        return sim_errno(is_directory ? ENOTDIR : EISDIR);
    }
    if (entry->inode->visible.count > 0) {
        return sim_errno(ENOTEMPTY);
    }
    change_set_from(change_add(tree, entry->inode), parent, name);
    names_remove(&parent->visible, name);
    return OK;
}

static status rename_check(struct sim_inode *inode, struct sim_inode *from, struct sim_inode *to,
                           struct sim_entry *replaced)
{
    if (inode->is_directory && from != to) {
        return sim_errno(EOPNOTSUPP);
    }
    if (replaced == NULL) {
        return OK;
    }
    if (replaced->inode->is_directory != inode->is_directory) {
        return sim_errno(inode->is_directory ? ENOTDIR : EISDIR);
    }
    return sim_errno(replaced->inode->visible.count > 0 ? ENOTEMPTY : 0);
}

status sim_tree_rename(struct sim_tree *tree, const char *from, const char *to)
{
    char from_name[SIM_NAME_SIZE_MAX] = "";
    char to_name[SIM_NAME_SIZE_MAX] = "";
    struct sim_inode *from_parent;
    struct sim_inode *to_parent;
    TRY(tree_parent(tree, from, &from_parent, from_name));
    TRY(tree_parent(tree, to, &to_parent, to_name));
    if (from_name[0] == 0 || to_name[0] == 0) {
        return sim_errno(EBUSY);
    }
    struct sim_entry *entry = names_find(&from_parent->visible, from_name);
    if (entry == NULL) {
        return sim_errno(ENOENT);
    }
    struct sim_inode *inode = entry->inode;
    struct sim_entry *replaced = names_find(&to_parent->visible, to_name);
    if (replaced == entry) {
        return OK;
    }
    TRY(rename_check(inode, from_parent, to_parent, replaced));
    struct sim_change *change = change_add(tree, inode);
    change_set_from(change, from_parent, from_name);
    change_set_to(change, to_parent, to_name);
    names_set(&to_parent->visible, to_name, inode);
    names_remove(&from_parent->visible, from_name);
    return OK;
}

/* ---------------------------------------------------------------- power cut */

/* Keeps a prefix, as one journal would, or any subset, as the contract allows. */
static void tree_crash_pending(struct sim_tree *tree)
{
    struct sim_rng *rng = tree->medium->rng;
    uint64_t mode = sim_rng_below(rng, 4);
    bool is_kept = mode != 0;
    while (!list_is_empty(&tree->pending)) {
        struct sim_change *change = change_of(list_first(&tree->pending));
        if (mode == 2) {
            is_kept = is_kept && sim_rng_below(rng, 8) != 0;
        } else if (mode == 3) {
            is_kept = sim_rng_coin(rng);
        }
        if (is_kept) {
            change_apply(change);
        } else {
            tree->medium->coverage->lost_names++;
        }
        change_free(change);
    }
}

static void directory_restore(struct sim_inode *directory)
{
    struct sim_names before = directory->visible;
    directory->visible = (struct sim_names){0};
    for (uint32_t i = 0; i < directory->durable.count; i++) {
        struct sim_entry *entry = &directory->durable.entries[i];
        names_set(&directory->visible, entry->name, entry->inode);
        if (entry->inode->is_directory) {
            directory_restore(entry->inode);
        }
    }
    sim_names_fini(&before);
}

void sim_tree_crash(struct sim_tree *tree)
{
    tree_crash_pending(tree);
    directory_restore(tree->root);
}

void sim_tree_init(struct sim_tree *tree, struct sim_medium *medium)
{
    tree->medium = medium;
    tree->root = sim_inode_create(medium, true);
    list_init(&tree->pending);
}

void sim_tree_fini(struct sim_tree *tree)
{
    while (!list_is_empty(&tree->pending)) {
        change_free(change_of(list_first(&tree->pending)));
    }
    sim_inode_unref(tree->root);
    tree->root = NULL;
}
