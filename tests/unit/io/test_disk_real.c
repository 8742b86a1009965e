/* The blocking file operations on the real file system. */
#include "uring_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATH_SIZE = 160 };

struct scene {
    struct io_disk *disk;
    char directory[64];
    char file[PATH_SIZE];
    char other[PATH_SIZE];
};

static int set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    scene->disk = io_disk_real();
    snprintf(scene->directory, sizeof(scene->directory), "disk-real-XXXXXX");
    assert_non_null(mkdtemp(scene->directory));
    snprintf(scene->file, sizeof(scene->file), "%s/file", scene->directory);
    snprintf(scene->other, sizeof(scene->other), "%s/other", scene->directory);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    unlink(scene->file);
    unlink(scene->other);
    rmdir(scene->other);
    assert_int_equal(rmdir(scene->directory), 0);
    free(scene);
    return 0;
}

static struct io_file *open_file(struct scene *scene, unsigned flags)
{
    struct io_file *file = NULL;
    assert_int_equal(io_file_open(scene->disk, scene->file, flags, &file).code, STATUS_OK);
    return file;
}

#define READ_WRITE (IO_FILE_READ | IO_FILE_WRITE)

static void opening_says_what_is_there_and_what_is_not(void **state)
{
    struct scene *scene = *state;
    struct io_file *file = NULL;
    assert_int_equal(io_file_open(scene->disk, scene->file, READ_WRITE, &file).code,
                     STATUS_NOT_FOUND);
    file = open_file(scene, READ_WRITE | IO_FILE_CREATE | IO_FILE_EXCLUSIVE);
    io_file_close(file);
    struct stat facts;
    assert_int_equal(stat(scene->file, &facts), 0);
    assert_int_equal(facts.st_mode & 0777 & ~0022, 0644 & ~0022);
    assert_int_equal(io_file_open(scene->disk, scene->file,
                                  READ_WRITE | IO_FILE_CREATE | IO_FILE_EXCLUSIVE, &file)
                         .code,
                     STATUS_EXISTS);
    assert_int_equal(io_file_open(scene->disk, scene->directory, READ_WRITE, &file).code,
                     STATUS_INVALID);
}

static void a_file_knows_when_it_was_written_to(void **state)
{
    struct scene *scene = *state;
    struct io_file *file = open_file(scene, READ_WRITE | IO_FILE_CREATE);
    int64_t modified_ms = 0;
    assert_int_equal(io_file_write(file, "hello", 5, 0).code, STATUS_OK);
    int64_t now_ms = (int64_t)time(NULL) * 1000;
    assert_int_equal(io_file_modified_ms(file, &modified_ms).code, STATUS_OK);
    assert_true(modified_ms > now_ms - 10000 && modified_ms < now_ms + 10000);
    io_file_close(file);
}

static void written_bytes_are_read_back_and_the_end_is_short(void **state)
{
    struct scene *scene = *state;
    struct io_file *file = open_file(scene, READ_WRITE | IO_FILE_CREATE);
    uint8_t buffer[100];
    size_t got = 0;
    uint64_t size = 0;
    assert_int_equal(io_file_write(file, "hello world", 11, 20).code, STATUS_OK);
    assert_int_equal(io_file_sync(file).code, STATUS_OK);
    assert_int_equal(io_file_size(file, &size).code, STATUS_OK);
    assert_int_equal(size, 31);
    assert_int_equal(io_file_read(file, buffer, sizeof(buffer), 20, &got).code, STATUS_OK);
    assert_int_equal(got, 11);
    assert_memory_equal(buffer, "hello world", 11);
    assert_int_equal(io_file_read(file, buffer, sizeof(buffer), 31, &got).code, STATUS_OK);
    assert_int_equal(got, 0);
    assert_int_equal(io_file_truncate(file, 25).code, STATUS_OK);
    assert_int_equal(io_file_read(file, buffer, sizeof(buffer), 20, &got).code, STATUS_OK);
    assert_int_equal(got, 5);
    io_file_close(file);
    file = open_file(scene, READ_WRITE | IO_FILE_TRUNCATE);
    assert_int_equal(io_file_size(file, &size).code, STATUS_OK);
    assert_int_equal(size, 0);
    io_file_close(file);
}

static void ranges_are_written_one_behind_the_other(void **state)
{
    enum { RANGE_COUNT = 2500, RANGE_SIZE = 37 };
    struct scene *scene = *state;
    struct io_file *file = open_file(scene, READ_WRITE | IO_FILE_CREATE);
    uint8_t *data = malloc((size_t)RANGE_COUNT * RANGE_SIZE);
    uint8_t *back = malloc((size_t)RANGE_COUNT * RANGE_SIZE);
    struct iovec *ranges = calloc(RANGE_COUNT * 2, sizeof(*ranges));
    for (size_t at = 0; at < (size_t)RANGE_COUNT * RANGE_SIZE; at++) {
        data[at] = (uint8_t)(at * 13);
    }
    for (size_t at = 0; at < RANGE_COUNT; at++) {
        /* Empty ranges in between, and the last ones empty too. */
        ranges[at * 2] = (struct iovec){data + at * RANGE_SIZE, RANGE_SIZE};
        ranges[at * 2 + 1] = (struct iovec){NULL, 0};
    }
    size_t got = 0;
    assert_int_equal(io_file_writev(file, ranges, RANGE_COUNT * 2, 5).code, STATUS_OK);
    assert_int_equal(io_file_read(file, back, (size_t)RANGE_COUNT * RANGE_SIZE, 5, &got).code,
                     STATUS_OK);
    assert_int_equal(got, (size_t)RANGE_COUNT * RANGE_SIZE);
    assert_memory_equal(back, data, (size_t)RANGE_COUNT * RANGE_SIZE);
    free(ranges);
    free(back);
    free(data);
    io_file_close(file);
}

static void reserving_takes_blocks_and_leaves_the_size(void **state)
{
    struct scene *scene = *state;
    struct io_file *file = open_file(scene, READ_WRITE | IO_FILE_CREATE);
    uint64_t size = 1;
    struct stat facts;
    status result = io_file_reserve(file, 0, 1024 * 1024);
    if (result.code == STATUS_UNSUPPORTED) {
        io_file_close(file);
        skip();
    }
    assert_int_equal(result.code, STATUS_OK);
    assert_int_equal(io_file_size(file, &size).code, STATUS_OK);
    assert_int_equal(size, 0);
    assert_int_equal(stat(scene->file, &facts), 0);
    assert_true(facts.st_blocks * 512 >= 1024 * 1024);
    uint64_t free_size = 0;
    uint64_t total_size = 0;
    assert_int_equal(io_disk_space(scene->disk, scene->directory, &free_size, &total_size).code,
                     STATUS_OK);
    assert_true(free_size <= total_size);
    assert_true(total_size > 0);
    assert_int_equal(io_file_reserve(file, 0, total_size + (1ull << 40)).code, STATUS_NO_SPACE);
    io_file_close(file);
}

static int try_lock(const char *path)
{
    struct io_file *file = NULL;
    if (!status_is_ok(io_file_open(io_disk_real(), path, READ_WRITE, &file))) {
        return -1;
    }
    int code = (int)io_file_lock(file).code;
    io_file_close(file);
    return code;
}

static int try_lock_in_a_child(const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        _exit(try_lock(path));
    }
    int exit_status = 0;
    assert_int_equal(waitpid(child, &exit_status, 0), child);
    return WEXITSTATUS(exit_status);
}

static void a_lock_of_another_process_is_busy_until_it_closes(void **state)
{
    struct scene *scene = *state;
    struct io_file *file = open_file(scene, READ_WRITE | IO_FILE_CREATE);
    assert_int_equal(io_file_lock(file).code, STATUS_OK);
    assert_int_equal(io_file_lock(file).code, STATUS_OK);
    assert_int_equal(try_lock_in_a_child(scene->file), STATUS_BUSY);
    assert_int_equal(try_lock(scene->file), STATUS_BUSY);
    io_file_close(file);
    assert_int_equal(try_lock_in_a_child(scene->file), STATUS_OK);
}

struct listing {
    char names[8][64];
    uint32_t count;
    status stop_with;
};

static status listing_on_entry(void *context, const char *name)
{
    struct listing *listing = context;
    assert_true(listing->count < COUNT_OF(listing->names));
    snprintf(listing->names[listing->count], sizeof(listing->names[0]), "%s", name);
    listing->count++;
    return listing->stop_with;
}

static void directories_are_made_listed_renamed_and_removed(void **state)
{
    struct scene *scene = *state;
    struct listing listing = {0};
    struct io_file *file = open_file(scene, READ_WRITE | IO_FILE_CREATE);
    assert_int_equal(io_dir_create(scene->disk, scene->other).code, STATUS_OK);
    assert_int_equal(io_dir_create(scene->disk, scene->other).code, STATUS_EXISTS);
    assert_int_equal(io_dir_sync(scene->disk, scene->directory).code, STATUS_OK);
    assert_int_equal(io_dir_list(scene->disk, scene->directory, listing_on_entry, &listing).code,
                     STATUS_OK);
    assert_int_equal(listing.count, 2);
    listing = (struct listing){.stop_with = STATUS(CORRUPT)};
    assert_int_equal(io_dir_list(scene->disk, scene->directory, listing_on_entry, &listing).code,
                     STATUS_CORRUPT);
    assert_int_equal(listing.count, 1);
    assert_int_equal(io_dir_remove(scene->disk, scene->directory).code, STATUS_EXISTS);
    assert_int_equal(io_dir_remove(scene->disk, scene->other).code, STATUS_OK);
    assert_int_equal(io_dir_remove(scene->disk, scene->other).code, STATUS_NOT_FOUND);
    assert_int_equal(io_path_rename(scene->disk, scene->file, scene->other).code, STATUS_OK);
    assert_int_equal(io_path_rename(scene->disk, scene->file, scene->other).code, STATUS_NOT_FOUND);
    assert_int_equal(io_path_remove(scene->disk, scene->other).code, STATUS_OK);
    assert_int_equal(io_path_remove(scene->disk, scene->other).code, STATUS_NOT_FOUND);
    assert_int_equal(io_dir_sync(scene->disk, scene->other).code, STATUS_NOT_FOUND);
    assert_int_equal(io_dir_list(scene->disk, scene->other, listing_on_entry, &listing).code,
                     STATUS_NOT_FOUND);
    assert_int_equal(io_disk_sync(file).code, STATUS_OK);
    io_file_close(file);
}

/* The device depends on the machine, so only what holds on every one is asked for. */
static void the_facts_name_the_file_system(void **state)
{
    struct scene *scene = *state;
    struct io_disk_facts facts;
    io_disk_facts_get(scene->disk, scene->directory, &facts);
    assert_true(strlen(facts.file_system) > 0);
    print_message("%s on %s, write cache %s, fua %d, copy on write %d\n", facts.file_system,
                  facts.device, facts.write_cache, facts.fua, facts.copy_on_write);
    assert_true(facts.device[0] == '\0' || strchr(facts.device, '/') == NULL);
    io_disk_facts_get(scene->disk, "/proc", &facts);
    assert_string_equal(facts.file_system, "proc");
    assert_string_equal(facts.device, "");
    assert_false(facts.copy_on_write);
    io_disk_facts_get(scene->disk, "no/such/path", &facts);
    assert_string_equal(facts.file_system, "");
}

#define SCENE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(opening_says_what_is_there_and_what_is_not),
        SCENE_TEST(a_file_knows_when_it_was_written_to),
        SCENE_TEST(written_bytes_are_read_back_and_the_end_is_short),
        SCENE_TEST(ranges_are_written_one_behind_the_other),
        SCENE_TEST(reserving_takes_blocks_and_leaves_the_size),
        SCENE_TEST(a_lock_of_another_process_is_busy_until_it_closes),
        SCENE_TEST(directories_are_made_listed_renamed_and_removed),
        SCENE_TEST(the_facts_name_the_file_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
