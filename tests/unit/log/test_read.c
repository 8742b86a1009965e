/* Reads and files that are not there. */
#include "test_log_world.h"

/* The name of the partition's directory, from what is in the log directory. */
static status name_find(void *context, const char *name)
{
    char *found = context;
    size_t size = strlen(name);
    if (name[0] != '_' && size > 2 && strcmp(name + size - 2, "-0") == 0) {
        snprintf(found, 128, "%s", name);
    }
    return OK;
}

static status file_remove(void *context, const char *name)
{
    struct world *world = context;
    char dir[128] = "";
    char path[512];
    assert_ok(io_dir_list(io_disk(world->io), WORLD_DIR, name_find, dir));
    snprintf(path, sizeof(path), WORLD_DIR "/%s/%s", dir, name);
    return io_path_remove(io_disk(world->io), path);
}

static void missing_files_are_damage_and_not_stepped_over(void **state)
{
    (void)state;
    struct sim_options options = world_sim_options();
    struct world *world = world_create(1, &options, 4u << 20);
    char dir[128] = "";
    char path[256];
    world_open(world);
    world_add(world, 0, 0);
    world_wait_acked(world, world_append(world, 0));
    world_settle(world);
    world_close(world);
    world_crash(world, true);
    assert_ok(io_dir_list(io_disk(world->io), WORLD_DIR, name_find, dir));
    assert_true(dir[0] != '\0');
    snprintf(path, sizeof(path), WORLD_DIR "/%s", dir);
    assert_ok(io_dir_list(io_disk(world->io), path, file_remove, world));
    world_open(world);
    struct log_read read;
    world_read(world, 0, 0, 1 << 20, true, &read);
    assert_int_equal(read.result.code, STATUS_CORRUPT);
    assert_null(read.data);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_files_are_damage_and_not_stepped_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
