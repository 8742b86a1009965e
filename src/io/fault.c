#include "fault.h"

#if TWINLOG_FAULTS

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "twinlog/core/assert.h"
#include "twinlog/core/trace.h"

enum { FAULT_RULE_MAX = 16, FAULT_TEXT_SIZE = 1024, FAULT_PATH_SIZE = 128 };

struct fault_rule {
    enum fault_point point;
    uint64_t after;
    uint64_t times;
    int error;
    int64_t delay_us;
    bool is_short;
    char path[FAULT_PATH_SIZE]; /* empty: any */
    _Atomic uint64_t seen;
};

static struct fault_rule fault_rules[FAULT_RULE_MAX];
static _Atomic uint32_t fault_rule_count;
static pthread_once_t fault_once = PTHREAD_ONCE_INIT;

static const char *const fault_points[FAULT_POINT_COUNT] = {
    [FAULT_WRITE] = "write",
    [FAULT_READ] = "read",
    [FAULT_SYNC] = "sync",
    [FAULT_DISK_WRITE] = "disk-write",
    [FAULT_DISK_READ] = "disk-read",
    [FAULT_DISK_SYNC] = "disk-sync",
    [FAULT_DISK_RESERVE] = "disk-reserve",
};

static bool fault_parse_point(const char *text, enum fault_point *point)
{
    for (int at = 0; at < FAULT_POINT_COUNT; at++) {
        if (strcmp(text, fault_points[at]) == 0) {
            *point = (enum fault_point)at;
            return true;
        }
    }
    return false;
}

static bool fault_parse_errno(const char *text, int *error)
{
    static const struct {
        const char *name;
        int error;
    } names[] = {{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EROFS", EROFS}};
    for (size_t at = 0; at < COUNT_OF(names); at++) {
        if (strcmp(text, names[at].name) == 0) {
            *error = names[at].error;
            return true;
        }
    }
    return false;
}

static bool fault_parse_number(const char *text, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static bool fault_parse_field(const char *field, struct fault_rule *rule)
{
    uint64_t delay_us = 0;
    if (strncmp(field, "after=", 6) == 0) {
        return fault_parse_number(field + 6, &rule->after);
    }
    if (strncmp(field, "times=", 6) == 0) {
        return fault_parse_number(field + 6, &rule->times);
    }
    if (strncmp(field, "errno=", 6) == 0) {
        return fault_parse_errno(field + 6, &rule->error);
    }
    if (strncmp(field, "path=", 5) == 0) {
        int size = snprintf(rule->path, sizeof(rule->path), "%s", field + 5);
        return size > 0 && (size_t)size < sizeof(rule->path);
    }
    if (strcmp(field, "short") == 0) {
        rule->is_short = true;
        return rule->point == FAULT_WRITE || rule->point == FAULT_DISK_WRITE;
    }
    if (strncmp(field, "delay_us=", 9) == 0 && fault_parse_number(field + 9, &delay_us)) {
        rule->delay_us = (int64_t)MIN(delay_us, (uint64_t)3600 * 1000000);
        return true;
    }
    return false;
}

static bool fault_parse_rule(char *text, struct fault_rule *rule)
{
    char *rest = NULL;
    char *field = strtok_r(text, ":", &rest);
    rule->after = 0;
    rule->times = 1;
    rule->error = 0;
    rule->delay_us = 0;
    rule->is_short = false;
    rule->path[0] = '\0';
    atomic_store(&rule->seen, 0);
    if (field == NULL || !fault_parse_point(field, &rule->point)) {
        return false;
    }
    while ((field = strtok_r(NULL, ":", &rest)) != NULL) {
        if (!fault_parse_field(field, rule)) {
            return false;
        }
    }
    bool needs_error = rule->delay_us == 0 || rule->is_short;
    rule->error = rule->error == 0 && needs_error ? EIO : rule->error;
    return true;
}

bool fault_configure(const char *text)
{
    char copy[FAULT_TEXT_SIZE];
    atomic_store(&fault_rule_count, 0);
    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy)) {
        return false;
    }
    uint32_t count = 0;
    char *rest = NULL;
    for (char *rule = strtok_r(copy, ",", &rest); rule != NULL; rule = strtok_r(NULL, ",", &rest)) {
        if (count == FAULT_RULE_MAX || !fault_parse_rule(rule, &fault_rules[count])) {
            return false;
        }
        count++;
    }
    atomic_store(&fault_rule_count, count);
    return true;
}

static void fault_configure_once(void)
{
    const char *text = getenv("TWINLOG_FAULT");
    if (text != NULL && atomic_load(&fault_rule_count) == 0 && !fault_configure(text)) {
        trace_error("io", "TWINLOG_FAULT=%s cannot be read; remedy: see src/io/fault.h", text);
        abort();
    }
}

char *fault_path_keep(const char *path)
{
    return strdup(path);
}

static bool fault_rule_is_for(const struct fault_rule *rule, enum fault_point point,
                              const char *path)
{
    return rule->point == point &&
           (rule->path[0] == '\0' || (path != NULL && strstr(path, rule->path) != NULL));
}

struct fault fault_next(enum fault_point point, const char *path)
{
    struct fault fault = {0};
    pthread_once(&fault_once, fault_configure_once);
    uint32_t count = atomic_load(&fault_rule_count);
    for (uint32_t at = 0; at < count; at++) {
        struct fault_rule *rule = &fault_rules[at];
        if (!fault_rule_is_for(rule, point, path)) {
            continue;
        }
        uint64_t seen = atomic_fetch_add(&rule->seen, 1);
        if (seen >= rule->after && seen - rule->after < rule->times) {
            fault.error = rule->error != 0 ? rule->error : fault.error;
            fault.is_short |= rule->is_short;
            fault.delay_ns += rule->delay_us * 1000;
        }
    }
    return fault;
}

#endif
