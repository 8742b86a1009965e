/*
 * What the kernel says about the device below a path: the mount from /proc/self/mountinfo, found by
 * the mount id of statx (a path prefix would be fooled by bind mounts, a device number by btrfs),
 * and the whole disk's queue from /sys. Whatever cannot be read stays empty: these facts are for
 * the operator's eyes and decide nothing but copy_on_write.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "disk_real.h"

enum { FACTS_LINE_SIZE = 8192 };

struct facts_mount {
    char file_system[32];
    char source[256];
    uint64_t major;
    uint64_t minor;
};

static void facts_copy(char *to, size_t size, const char *from)
{
    size_t length = strnlen(from, size - 1);
    memcpy(to, from, length);
    to[length] = '\0';
}

/* Reads a number and the separator behind it. */
static bool facts_parse_number(const char **at, char separator, uint64_t *value)
{
    char *end = NULL;
    *value = strtoull(*at, &end, 10);
    if (end == *at || *end != separator) {
        return false;
    }
    *at = end + 1;
    return true;
}

/* Copies up to the next blank. */
static void facts_parse_word(const char **at, char *word, size_t size)
{
    size_t length = strcspn(*at, " \n");
    size_t kept = MIN(length, size - 1);
    memcpy(word, *at, kept);
    word[kept] = '\0';
    *at += length + ((*at)[length] == ' ' ? 1 : 0);
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue" */
static bool facts_parse_mount(const char *line, uint64_t mount_id, struct facts_mount *mount)
{
    const char *at = line;
    uint64_t id;
    uint64_t parent;
    if (!facts_parse_number(&at, ' ', &id) || id != mount_id ||
        !facts_parse_number(&at, ' ', &parent) || !facts_parse_number(&at, ':', &mount->major) ||
        !facts_parse_number(&at, ' ', &mount->minor)) {
        return false;
    }
    at = strstr(at, " - ");
    if (at == NULL) {
        return false;
    }
    at += 3;
    facts_parse_word(&at, mount->file_system, sizeof(mount->file_system));
    facts_parse_word(&at, mount->source, sizeof(mount->source));
    return true;
}

static bool facts_find_mount(uint64_t mount_id, struct facts_mount *mount)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    if (mounts == NULL) {
        return false;
    }
    char line[FACTS_LINE_SIZE];
    bool found = false;
    while (!found && fgets(line, sizeof(line), mounts) != NULL) {
        found = facts_parse_mount(line, mount_id, mount);
    }
    fclose(mounts);
    return found;
}

/* Reads the first line of `directory`/`name`, without its newline; empty when there is none. */
static void facts_read_line(const char *directory, const char *name, char *line, size_t size)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    line[0] = '\0';
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    if (fgets(line, (int)size, file) == NULL) {
        line[0] = '\0';
    }
    line[strcspn(line, "\n")] = '\0';
    fclose(file);
}

/* The directory in /sys of the whole disk: a partition's parent has the queue. */
static bool facts_find_disk(const struct facts_mount *mount, char disk[PATH_MAX])
{
    unsigned major = (unsigned)mount->major;
    unsigned minor = (unsigned)mount->minor;
    struct stat source;
    if (major == 0 && stat(mount->source, &source) == 0 && S_ISBLK(source.st_mode)) {
        /* File systems over several devices have a number of their own, but name one of them. */
        major = major(source.st_rdev);
        minor = minor(source.st_rdev);
    }
    char link[64];
    snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major, minor);
    if (realpath(link, disk) == NULL) {
        return false;
    }
    char partition[32];
    facts_read_line(disk, "partition", partition, sizeof(partition));
    char *end = strrchr(disk, '/');
    if (partition[0] != '\0' && end != NULL) {
        *end = '\0';
    }
    return true;
}

static void facts_read_disk(const char *disk, struct io_disk_facts *facts)
{
    const char *name = strrchr(disk, '/');
    facts_copy(facts->device, sizeof(facts->device), name == NULL ? disk : name + 1);
    facts_read_line(disk, "queue/write_cache", facts->write_cache, sizeof(facts->write_cache));
    char fua[8];
    facts_read_line(disk, "queue/fua", fua, sizeof(fua));
    facts->fua = fua[0] == '1';
}

static bool facts_copies_on_write(const char *file_system)
{
    static const char *const names[] = {"btrfs", "zfs", "bcachefs", "nilfs2"};
    for (size_t at = 0; at < COUNT_OF(names); at++) {
        if (strcmp(file_system, names[at]) == 0) {
            return true;
        }
    }
    return false;
}

void disk_facts(struct io_disk *disk, const char *path, struct io_disk_facts *facts)
{
    struct statx found;
    struct facts_mount mount = {0};
    if (statx(AT_FDCWD, path, 0, STATX_MNT_ID, &found) < 0 ||
        (found.stx_mask & STATX_MNT_ID) == 0 || !facts_find_mount(found.stx_mnt_id, &mount)) {
        return;
    }
    facts_copy(facts->file_system, sizeof(facts->file_system), mount.file_system);
    facts->copy_on_write = facts_copies_on_write(mount.file_system);
    char whole[PATH_MAX];
    if (facts_find_disk(&mount, whole)) {
        facts_read_disk(whole, facts);
    }
}
