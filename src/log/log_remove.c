/*
 * Removing partitions, and the directories that belong to none.
 *
 * A removed partition leaves the table at once; its structure stays until no chunk entry and no job
 * refers to it. Its directory is renamed and deleted in the WRITE lane, behind every write-back of
 * it and before the first one of a topic that takes its name. At a start nothing is renamed: the
 * metadata is read from its beginning, and a name in it may belong to a living topic by now. There
 * the orphans are found by listing, in a job in front of every write-back.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "twinlog/core/trace.h"

#include "log_state.h"

#define REMOVE_PATH_SIZE 4096
#define REMOVE_NAME_MAX  255
#define REMOVE_SUFFIX    "-delete"

struct removal {
    struct io_job job;
    struct list_node link; /* in log->removals */
    struct log *log;
    struct io_disk *disk;
    const char *log_dir;
    char *dir;    /* of the partition; NULL: look for orphans */
    char *gone;   /* what it is renamed to */
    char **known; /* names of directories that belong to someone, sorted */
    size_t known_count;
    char **found; /* orphans */
    size_t found_count;
    bool others_keep; /* other shards have partitions here: only what is marked is deleted */
};

static void removal_free(struct removal *removal)
{
    for (size_t i = 0; i < removal->known_count; i++) {
        free(removal->known[i]);
    }
    for (size_t i = 0; i < removal->found_count; i++) {
        free(removal->found[i]);
    }
    free(removal->known);
    free(removal->found);
    free(removal->dir);
    free(removal->gone);
    free(removal);
}

void log_removals_free(struct log *log)
{
    struct list_node *node;
    while ((node = list_pop_front(&log->removals)) != NULL) {
        removal_free(CONTAINER_OF(node, struct removal, link));
    }
}

static void removal_on_done(struct io_job *job)
{
    struct removal *removal = job->context;
    removal->log->job_count--;
    list_remove(&removal->link);
    removal_free(removal);
}

static void removal_start(struct log *log, struct removal *removal, io_job_fn work)
{
    removal->log = log;
    removal->disk = io_disk(log->io);
    removal->log_dir = log->options.dir;
    removal->job.context = removal;
    list_push_back(&log->removals, &removal->link);
    log->job_count++;
    io_offload(log->io, IO_LANE_WRITE, &removal->job, work, removal_on_done);
}

/* ---------------------------------------------------------------- one partition */

static void removal_work(struct io_job *job)
{
    struct removal *removal = job->context;
    status s = io_path_rename(removal->disk, removal->dir, removal->gone);
    if (s.code == STATUS_NOT_FOUND) {
        return; /* Nothing of it was ever written. */
    }
    if (status_is_ok(s)) {
        s = segment_remove_all(removal->disk, removal->gone);
    }
    if (!status_is_ok(s)) {
        trace_warn("log",
                   "%s of a deleted topic could not be removed (%s): the next start tries "
                   "again",
                   removal->dir, status_text(s));
    }
}

/* "<topic>-<index>.<random id>-delete", the topic cut so that it is a file name. */
static char *removal_gone_path(const struct log *log, const struct partition *partition)
{
    char id[UUID_TEXT_SIZE];
    char tail[64];
    struct uuid random = uuid_from_random(io_random(log->io), io_random(log->io));
    uuid_format(&random, id);
    int tail_size = snprintf(tail, sizeof(tail), "-%d.%s" REMOVE_SUFFIX, partition->key.index, id);
    char *path = NULL;
    if (asprintf(&path, "%s/%.*s%s", log->options.dir, REMOVE_NAME_MAX - tail_size,
                 partition->topic, tail) < 0) {
        return NULL;
    }
    return path;
}

static void removal_submit(struct log *log, const struct partition *partition)
{
    struct removal *removal = calloc(1, sizeof(*removal));
    if (removal != NULL) {
        removal->dir = strdup(partition->dir);
        removal->gone = removal_gone_path(log, partition);
    }
    if (removal == NULL || removal->dir == NULL || removal->gone == NULL) {
        trace_warn("log", "out of memory: %s is removed at the next start", partition->dir);
        if (removal != NULL) {
            removal_free(removal);
        }
        return;
    }
    removal_start(log, removal, removal_work);
}

void log_partition_remove(struct log *log, struct partition *partition)
{
    ASSERT(!partition->removed);
    ASSERT(partition != log->metadata);
    retention_forget(log, partition);
    producer_expiry_forget(log, partition);
    HASH_DEL(log->partitions, partition);
    partition->removed = true;
    list_push_back(&log->removed, &partition->removed_link);
    writeback_forget(log, partition);
    partition_watches_tell(partition);
    if (!log->opening) {
        removal_submit(log, partition);
    }
    partition_free_if_unused(partition);
}

/* ---------------------------------------------------------------- orphans */

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool log_name_is_of_partition(const char *name)
{
    const char *dash = strrchr(name, '-');
    if (dash == NULL || dash == name || dash[1] == '\0') {
        return false;
    }
    for (const char *at = dash + 1; *at != '\0'; at++) {
        if (!isdigit((unsigned char)*at)) {
            return false;
        }
    }
    return true;
}

static bool name_is_marked(const char *name)
{
    size_t size = strlen(name);
    return size > sizeof(REMOVE_SUFFIX) - 1 &&
           strcmp(name + size - (sizeof(REMOVE_SUFFIX) - 1), REMOVE_SUFFIX) == 0;
}

static status orphan_judge(void *context, const char *name)
{
    struct removal *removal = context;
    bool is_known =
        bsearch(&name, removal->known, removal->known_count, sizeof(name), name_compare) != NULL;
    if (is_known ||
        !(name_is_marked(name) || (log_name_is_of_partition(name) && !removal->others_keep))) {
        return OK;
    }
    char **grown = realloc(removal->found, (removal->found_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return STATUS(NO_MEMORY);
    }
    removal->found = grown;
    grown[removal->found_count] = strdup(name);
    if (grown[removal->found_count] == NULL) {
        return STATUS(NO_MEMORY);
    }
    removal->found_count++;
    return OK;
}

static void orphans_work(struct io_job *job)
{
    struct removal *removal = job->context;
    status s = io_dir_list(removal->disk, removal->log_dir, orphan_judge, removal);
    for (size_t i = 0; i < removal->found_count && status_is_ok(s); i++) {
        char path[REMOVE_PATH_SIZE];
        int size = snprintf(path, sizeof(path), "%s/%s", removal->log_dir, removal->found[i]);
        if (size > 0 && (size_t)size < sizeof(path)) {
            s = segment_remove_all(removal->disk, path); /* Does nothing to a file. */
        }
    }
    if (!status_is_ok(s)) {
        trace_warn("log",
                   "directories of deleted topics are left in %s (%s): the next start tries "
                   "again",
                   removal->log_dir, status_text(s));
    }
}

static bool orphans_know(struct removal *removal, const struct log *log)
{
    removal->known = calloc(HASH_COUNT(log->partitions) + 1, sizeof(*removal->known));
    if (removal->known == NULL) {
        return false;
    }
    for (const struct partition *p = log->partitions; p != NULL; p = p->hh.next) {
        if (p->segment_tail.base_offset < 0) {
            continue; /* Nothing of it is in files: what lies there is of a topic before it. */
        }
        char *name = strdup(strrchr(p->dir, '/') + 1);
        if (name == NULL) {
            return false;
        }
        removal->known[removal->known_count++] = name;
    }
    qsort(removal->known, removal->known_count, sizeof(*removal->known), name_compare);
    return true;
}

void log_orphans_remove(struct log *log)
{
    struct removal *removal = calloc(1, sizeof(*removal));
    if (removal == NULL) {
        return; /* They are found at the next start. */
    }
    removal->others_keep = log->directory.shard_count > 1;
    if (!orphans_know(removal, log)) {
        removal_free(removal);
        return;
    }
    removal_start(log, removal, orphans_work);
}
