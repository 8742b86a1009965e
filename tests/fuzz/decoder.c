/*
 * All messages in all versions: whatever is decoded can be encoded, and what is encoded decodes to
 * something that encodes to the same bytes.
 *
 *     0  u8   which message
 *     1  u8   which version, counted from the lowest
 *     2       its bytes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seed.h"
#include "twinlog/protocol/messages.h"

#define ARENA_SIZE_MAX ((size_t)256 << 20)
#define SEED_SIZE_MAX  4096u

struct choice {
    const struct message_type *type;
    int16_t version;
};

/* The messages of the metadata log have no key. */
static const struct message_type *const record_types[] = {
    &topic_record_type, &remove_topic_record_type, &producer_ids_record_type, &cluster_record_type};

static struct choice choose(uint8_t which, uint8_t version)
{
    size_t count;
    const struct api *apis = api_all(&count);
    size_t at = which % (2 * count + COUNT_OF(record_types));
    if (at >= 2 * count) {
        return (struct choice){record_types[at - 2 * count], 0};
    }
    const struct api *api = &apis[at / 2];
    int span = api->version_max - api->version_min + 1;
    return (struct choice){.type = at % 2 == 0 ? api->request : api->response,
                           .version = (int16_t)(api->version_min + version % span)};
}

/* Encodes; the caller frees. */
static struct bytes encode(const struct choice *choice, const void *message)
{
    uint32_t size = 0;
    fuzz_require(status_is_ok(message_size(choice->type, choice->version, message, &size)),
                 "what was decoded has an encoded size");
    uint8_t *buffer = malloc(size + 1U);
    fuzz_require(buffer != NULL, "memory");
    struct message_writer writer = {.buffer = buffer, .capacity = size};
    fuzz_require(status_is_ok(message_encode(choice->type, choice->version, message, &writer)),
                 "what was decoded can be encoded");
    fuzz_require(writer.size == size, "message_size() is exact");
    return (struct bytes){buffer, size};
}

/* Encodes with ranges, where records are referenced: the same bytes in all. */
static void encode_ranges(const struct choice *choice, const void *message, struct bytes expected)
{
    struct message_range ranges[16];
    uint8_t *buffer = malloc(expected.size + 1U);
    fuzz_require(buffer != NULL, "memory");
    struct message_writer writer = {.buffer = buffer,
                                    .capacity = expected.size,
                                    .ranges = ranges,
                                    .range_count_max = COUNT_OF(ranges),
                                    .copy_max = 16};
    fuzz_require(status_is_ok(message_encode(choice->type, choice->version, message, &writer)),
                 "what was decoded can be encoded as ranges");
    message_writer_finish(&writer);
    uint32_t at = 0;
    for (uint32_t i = 0; i < writer.range_count; i++) {
        fuzz_require(ranges[i].size <= expected.size - at &&
                         memcmp(expected.data + at, ranges[i].data, ranges[i].size) == 0,
                     "ranges hold the same bytes");
        at += ranges[i].size;
    }
    fuzz_require(at == expected.size, "ranges hold all bytes");
    free(buffer);
}

static void round_trip(const struct choice *choice, struct bytes input)
{
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    void *first = arena_array(&arena, 1, message_type_size(choice->type));
    void *second = arena_array(&arena, 1, message_type_size(choice->type));
    fuzz_require(first != NULL && second != NULL, "memory");
    if (status_is_ok(message_decode(choice->type, choice->version, input, &arena, first))) {
        struct bytes once = encode(choice, first);
        fuzz_require(
            status_is_ok(message_decode(choice->type, choice->version, once, &arena, second)),
            "what was encoded can be decoded");
        struct bytes twice = encode(choice, second);
        fuzz_require(bytes_equal(once, twice), "the round trip is stable");
        encode_ranges(choice, second, once);
        free((void *)(uintptr_t)once.data);
        free((void *)(uintptr_t)twice.data);
    }
    arena_fini(&arena);
}

/* Zeros are valid for most messages: what of them is taken is the seed of each version. */
static void seed_message(uint8_t which, uint8_t version)
{
    static uint8_t seed[SEED_SIZE_MAX];
    struct choice choice = choose(which, version);
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    void *message = arena_array(&arena, 1, message_type_size(choice.type));
    fuzz_require(message != NULL, "memory");
    for (uint32_t size = 0; size < 64; size++) {
        if (status_is_ok(message_decode(choice.type, choice.version, (struct bytes){seed + 2, size},
                                        &arena, message))) {
            char name[64];
            snprintf(name, sizeof(name), "%u-%u", which, version);
            seed[0] = which;
            seed[1] = version;
            seed_add(name, seed, size + 2);
            break;
        }
    }
    arena_fini(&arena);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    seed_init(*argc, *argv);
    size_t count;
    (void)api_all(&count);
    for (size_t which = 0; which < 2 * count + COUNT_OF(record_types); which++) {
        for (uint8_t version = 0; version < 20; version++) {
            seed_message((uint8_t)which, version);
        }
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request_header header;
    struct bytes all = {data, (uint32_t)size};
    (void)status_is_ok(request_header_decode(all, &header));
    if (size < 2) {
        return 0;
    }
    struct choice choice = choose(data[0], data[1]);
    /* A copy of exactly its size, so that a read beyond it is seen. */
    uint8_t *copy = malloc(size - 1);
    fuzz_require(copy != NULL, "memory");
    memcpy(copy, data + 2, size - 2);
    round_trip(&choice, (struct bytes){copy, (uint32_t)size - 2});
    free(copy);
    return 0;
}
