/* Facts of this process under the names that Prometheus' own client libraries use. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "twinlog/http/http.h"

static uint64_t ns_of(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
}

/* Virtual and resident size; false when /proc does not tell. */
static bool process_memory(uint64_t *virtual_size, uint64_t *resident_size)
{
    char line[128];
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) {
        return false;
    }
    char *at = fgets(line, sizeof(line), file);
    fclose(file);
    if (at == NULL) {
        return false;
    }
    uint64_t page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    *virtual_size = strtoull(at, &at, 10) * page_size;
    *resident_size = strtoull(at, NULL, 10) * page_size;
    return true;
}

static uint64_t process_descriptors(void)
{
    uint64_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL) {
        return 0;
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        count += entry->d_name[0] != '.';
    }
    closedir(dir);
    return count - 1; /* without the one that lists them */
}

void http_process_metrics(struct metrics_text *text)
{
    struct rusage usage;
    struct rlimit limit;
    uint64_t virtual_size;
    uint64_t resident_size;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        metrics_family(text, "process_cpu_seconds_total", "counter",
                       "User and system time of all threads.");
        metrics_sample_ns(text, "process_cpu_seconds_total", NULL,
                          ns_of(usage.ru_utime) + ns_of(usage.ru_stime));
    }
    if (process_memory(&virtual_size, &resident_size)) {
        metrics_single(text, "process_virtual_memory_bytes", "gauge",
                       "Address space, reserved memory included.", virtual_size);
        metrics_single(text, "process_resident_memory_bytes", "gauge", "Memory in use.",
                       resident_size);
    }
    metrics_single(text, "process_open_fds", "gauge", "Open file descriptors.",
                   process_descriptors());
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        metrics_single(text, "process_max_fds", "gauge", "The most there may be open.",
                       limit.rlim_cur);
    }
}
