#include "seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PATH_SIZE 4096

static const char *seed_folder;

void seed_init(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct stat about;
        if (argv[i][0] != '-' && stat(argv[i], &about) == 0 && S_ISDIR(about.st_mode)) {
            seed_folder = argv[i];
            return;
        }
    }
}

void seed_add(const char *name, const uint8_t *data, size_t size)
{
    if (seed_folder == NULL) {
        return;
    }
    char path[PATH_SIZE];
    int length = snprintf(path, sizeof(path), "%s/seed-%s", seed_folder, name);
    fuzz_require(length > 0 && length < PATH_SIZE, "the path of a seed fits");
    FILE *file = fopen(path, "wb");
    fuzz_require(file != NULL, "a seed can be written");
    fuzz_require(fwrite(data, 1, size, file) == size, "a seed is written whole");
    fuzz_require(fclose(file) == 0, "a seed is written whole");
}

void fuzz_require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "fuzz: does not hold: %s\n", what);
        abort();
    }
}
