#include "cpu.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t cpu_ns_of(int pid)
{
    char path[320];
    uint64_t total = 0;
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL) {
        return 0;
    }
    for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        if (entry->d_name[0] == '.') {
            continue; /* task/../schedstat is there too: the first thread would count twice. */
        }
        snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", pid, entry->d_name);
        FILE *file = fopen(path, "r");
        char line[128];
        if (file != NULL) {
            if (fgets(line, sizeof(line), file) != NULL) {
                total += strtoull(line, NULL, 10);
            }
            fclose(file);
        }
    }
    closedir(tasks);
    return total;
}

void cpu_pin(int cpu)
{
    if (cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (sched_setaffinity(0, sizeof(set), &set) != 0) {
            perror("twinlog-bench: sched_setaffinity");
        }
    }
}
