/*
 * Names on a simulated disk: directories with a visible and a durable set of names.
 *
 * Each create, remove and rename changes the visible names at once and is queued as a pending
 * change. A directory sync applies the changes of that directory, and what they build on, to the
 * durable names. A power cut applies a random subset and forgets the rest. A rename is one change:
 * never both names, never none.
 */
#ifndef TWINLOG_IO_SIM_NAME_H
#define TWINLOG_IO_SIM_NAME_H

#include "sim_file.h"

enum { SIM_NAME_SIZE_MAX = 256 };

struct sim_tree {
    struct sim_medium *medium;
    struct sim_inode *root;
    struct list pending; /* of struct sim_change, oldest first */
};

/* An empty root directory. */
void sim_tree_init(struct sim_tree *tree, struct sim_medium *medium);
void sim_tree_fini(struct sim_tree *tree);

/* Releases all names of the set. */
void sim_names_fini(struct sim_names *names);

/* The inode at a path, not referenced. NOT_FOUND, INVALID, TOO_LARGE. */
MUST_USE status sim_tree_find(struct sim_tree *tree, const char *path, struct sim_inode **inode);

/* An empty file at the path, referenced by its name only. EXISTS, NOT_FOUND. */
MUST_USE status sim_tree_create(struct sim_tree *tree, const char *path, bool is_directory,
                                struct sim_inode **inode);

/* Removes a file, or an empty directory. NOT_FOUND, INVALID: the other kind, EXISTS: not empty. */
MUST_USE status sim_tree_remove(struct sim_tree *tree, const char *path, bool is_directory);

/* Renames; a directory only within its parent (UNSUPPORTED). */
MUST_USE status sim_tree_rename(struct sim_tree *tree, const char *from, const char *to);

/* Makes the changes of one directory durable; of all directories when it is NULL. */
void sim_tree_sync(struct sim_tree *tree, struct sim_inode *directory);

/* A power cut: keeps some of the pending changes, then visible equals durable. */
void sim_tree_crash(struct sim_tree *tree);

#endif
