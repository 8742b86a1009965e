/*
 * Properties of the decoder and encoder over every message and version of the schema, with values
 * drawn from a fixed seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "straight.h"
#include "twinlog/core/arena.h"
#include "twinlog/protocol/messages.h"

#define ARENA_SIZE_MAX (4u << 20)

static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    uint64_t mixed = random_state ^ (random_state >> 29);
    return (mixed * 0xbf58476d1ce4e5b9u) >> 11;
}

static uint32_t random_below(uint32_t bound)
{
    return (uint32_t)(next_random() % bound);
}

static struct bytes random_view(struct arena *arena)
{
    /* Around 126..130 the compact length needs a second byte. */
    uint32_t size = random_below(4) == 0 ? 120 + random_below(20) : random_below(6);
    uint8_t *data = arena_alloc(arena, size + 1);
    assert_non_null(data);
    for (uint32_t i = 0; i < size; i++) {
        data[i] = (uint8_t)next_random();
    }
    return (struct bytes){data, size};
}

static void fill_struct(struct arena *arena, const struct layout *layout, uint8_t *out);

static void fill_scalar(enum field_kind kind, uint8_t size, uint8_t *out)
{
    if (kind == FIELD_BOOL) {
        *(bool *)out = random_below(2) == 1;
        return;
    }
    for (uint8_t i = 0; i < size; i++) {
        out[i] = (uint8_t)next_random();
    }
}

static void fill_array(struct arena *arena, const struct field *field, uint8_t *out)
{
    int32_t count = field->nullable && random_below(4) == 0 ? -1 : (int32_t)random_below(4);
    uint8_t *items = arena_array(arena, 4, field->element_size);
    assert_non_null(items);
    memcpy(out + field->offset, &items, sizeof(items));
    memcpy(out + field->count_offset, &count, sizeof(count));
    for (int32_t i = 0; i < count; i++, items += field->element_size) {
        enum field_kind kind = field->element_kind;
        if (kind == FIELD_STRUCT) {
            fill_struct(arena, field->layout, items);
        } else if (kind < FIELD_STRING) {
            fill_scalar(kind, (uint8_t)field->element_size, items);
        } else {
            *(struct bytes *)(void *)items = random_view(arena);
        }
    }
}

static void fill_field(struct arena *arena, const struct field *field, uint8_t *out)
{
    uint8_t *place = out + field->offset;
    bool null = field->nullable && random_below(4) == 0;
    switch ((enum field_kind)field->kind) {
    case FIELD_STRING:
    case FIELD_BYTES:
    case FIELD_RECORDS:
        *(struct bytes *)(void *)place = null ? BYTES_NULL : random_view(arena);
        break;
    case FIELD_STRUCT:
        fill_struct(arena, field->layout, place);
        break;
    case FIELD_STRUCT_POINTER:
        if (!null) {
            uint8_t *inner = arena_alloc(arena, field->layout->size);
            fill_struct(arena, field->layout, inner);
            memcpy(place, &inner, sizeof(inner));
        }
        break;
    case FIELD_ARRAY:
        fill_array(arena, field, out);
        break;
    default:
        fill_scalar(field->kind, (uint8_t)field->element_size, place);
        break;
    }
}

static void fill_struct(struct arena *arena, const struct layout *layout, uint8_t *out)
{
    memcpy(out, layout->defaults, layout->size);
    for (uint16_t i = 0; i < layout->field_count; i++) {
        fill_field(arena, &layout->fields[i], out);
    }
    for (uint16_t i = 0; i < layout->tagged_count; i++) {
        if (random_below(2) == 0) {
            fill_field(arena, &layout->tagged[i], out);
        }
    }
}

static void assert_struct_equal(const struct layout *layout, const uint8_t *a, const uint8_t *b);

static void assert_array_equal(const struct field *field, const uint8_t *a, const uint8_t *b)
{
    int32_t count;
    memcpy(&count, a + field->count_offset, sizeof(count));
    assert_memory_equal(a + field->count_offset, b + field->count_offset, sizeof(count));
    const uint8_t *items_a = *(uint8_t *const *)(const void *)(a + field->offset);
    const uint8_t *items_b = *(uint8_t *const *)(const void *)(b + field->offset);
    for (int32_t i = 0; i < count; i++) {
        if (field->element_kind == FIELD_STRUCT) {
            assert_struct_equal(field->layout, items_a, items_b);
        } else if (field->element_kind < FIELD_STRING) {
            assert_memory_equal(items_a, items_b, field->element_size);
        } else {
            assert_true(bytes_equal(*(const struct bytes *)(const void *)items_a,
                                    *(const struct bytes *)(const void *)items_b));
        }
        items_a += field->element_size;
        items_b += field->element_size;
    }
}

static void assert_field_equal(const struct field *field, const uint8_t *a, const uint8_t *b)
{
    const uint8_t *place_a = a + field->offset;
    const uint8_t *place_b = b + field->offset;
    switch ((enum field_kind)field->kind) {
    case FIELD_STRING:
    case FIELD_BYTES:
    case FIELD_RECORDS:
        assert_true(bytes_equal(*(const struct bytes *)(const void *)place_a,
                                *(const struct bytes *)(const void *)place_b));
        break;
    case FIELD_STRUCT:
        assert_struct_equal(field->layout, place_a, place_b);
        break;
    case FIELD_STRUCT_POINTER:
        place_a = *(uint8_t *const *)(const void *)place_a;
        place_b = *(uint8_t *const *)(const void *)place_b;
        assert_int_equal(place_a == NULL, place_b == NULL);
        if (place_a != NULL && place_b != NULL) {
            assert_struct_equal(field->layout, place_a, place_b);
        }
        break;
    case FIELD_ARRAY:
        assert_array_equal(field, a, b);
        break;
    default:
        assert_memory_equal(place_a, place_b, field->element_size);
        break;
    }
}

static void assert_struct_equal(const struct layout *layout, const uint8_t *a, const uint8_t *b)
{
    for (uint16_t i = 0; i < layout->field_count; i++) {
        assert_field_equal(&layout->fields[i], a, b);
    }
    for (uint16_t i = 0; i < layout->tagged_count; i++) {
        assert_field_equal(&layout->tagged[i], a, b);
    }
}

/* Encodes into memory of exactly the size that message_size gave; the caller frees it. */
static struct bytes encode_exactly(const struct message_type *type, int16_t version,
                                   const void *message)
{
    uint32_t size;
    assert_true(status_is_ok(message_size(type, version, message, &size)));
    uint8_t *buffer = malloc(size + (size == 0));
    struct message_writer writer = {.buffer = buffer, .capacity = size};
    assert_true(status_is_ok(message_encode(type, version, message, &writer)));
    message_writer_finish(&writer);
    assert_int_equal(writer.size, size);
    return (struct bytes){buffer, size};
}

struct sample {
    const struct message_type *type;
    int16_t version;
    uint8_t *message;
    struct bytes encoded;
};

/* Calls `check` with random samples of every message at every version. */
static void for_each_sample(int rounds, void (*check)(const struct sample *))
{
    random_state = 20240229;
    for (size_t i = 0; i < protocol_message_count; i++) {
        struct sample sample = {.type = protocol_messages[i]};
        for (int32_t v = sample.type->version_min; v <= sample.type->version_max; v++) {
            for (int round = 0; round < rounds; round++) {
                struct arena arena;
                arena_init(&arena, ARENA_SIZE_MAX);
                sample.version = (int16_t)v;
                sample.message = arena_alloc(&arena, message_type_size(sample.type));
                fill_struct(&arena, message_type_layout(sample.type, (int16_t)v), sample.message);
                sample.encoded = encode_exactly(sample.type, (int16_t)v, sample.message);
                check(&sample);
                free((void *)(uintptr_t)sample.encoded.data);
                arena_fini(&arena);
            }
        }
    }
}

static void check_round_trip(const struct sample *s)
{
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    uint8_t *decoded = arena_alloc(&arena, message_type_size(s->type));
    assert_true(status_is_ok(message_decode(s->type, s->version, s->encoded, &arena, decoded)));
    assert_struct_equal(message_type_layout(s->type, s->version), s->message, decoded);
    struct bytes again = encode_exactly(s->type, s->version, decoded);
    assert_true(bytes_equal(s->encoded, again));
    free((void *)(uintptr_t)again.data);
    arena_fini(&arena);
}

static void every_message_and_version_survives_a_round_trip(void **state)
{
    for_each_sample(20, check_round_trip);
}

static void check_truncation(const struct sample *s)
{
    for (uint32_t size = 0; size < s->encoded.size; size++) {
        struct arena arena;
        arena_init(&arena, ARENA_SIZE_MAX);
        uint8_t *decoded = arena_alloc(&arena, message_type_size(s->type));
        /* A copy of its own, so that the sanitizer sees a read behind the end. */
        uint8_t *copy = malloc(size + (size == 0));
        memcpy(copy, s->encoded.data, size);
        status result =
            message_decode(s->type, s->version, (struct bytes){copy, size}, &arena, decoded);
        assert_true(result.code == STATUS_TRUNCATED || result.code == STATUS_INVALID);
        free(copy);
        arena_fini(&arena);
    }
}

static void a_message_cut_at_any_byte_is_refused(void **state)
{
    for_each_sample(1, check_truncation);
}

static void check_trailing_byte(const struct sample *s)
{
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    uint8_t *decoded = arena_alloc(&arena, message_type_size(s->type));
    uint8_t *copy = calloc(1, s->encoded.size + 1);
    memcpy(copy, s->encoded.data, s->encoded.size);
    struct bytes input = {copy, s->encoded.size + 1};
    status result = message_decode(s->type, s->version, input, &arena, decoded);
    assert_int_equal(result.code, STATUS_INVALID);
    result = message_decode_prefix(s->type, s->version, &input, &arena, decoded);
    assert_int_equal(result.code, STATUS_OK);
    assert_int_equal(input.size, 1);
    assert_ptr_equal(input.data, copy + s->encoded.size);
    free(copy);
    arena_fini(&arena);
}

static void bytes_left_over_are_refused_or_given_back(void **state)
{
    for_each_sample(1, check_trailing_byte);
}

/* Whatever still decodes after damage can be encoded, and means the same again. */
static void check_damage(const struct sample *s)
{
    uint8_t *copy = malloc(s->encoded.size + (s->encoded.size == 0));
    for (int round = 0; round < 60 && s->encoded.size > 0; round++) {
        memcpy(copy, s->encoded.data, s->encoded.size);
        for (uint32_t flips = 1 + random_below(3); flips > 0; flips--) {
            copy[random_below(s->encoded.size)] = (uint8_t)next_random();
        }
        struct arena arena;
        arena_init(&arena, ARENA_SIZE_MAX);
        uint8_t *decoded = arena_alloc(&arena, message_type_size(s->type));
        struct bytes input = {copy, s->encoded.size};
        if (status_is_ok(message_decode(s->type, s->version, input, &arena, decoded))) {
            struct bytes again = encode_exactly(s->type, s->version, decoded);
            uint8_t *twice = arena_alloc(&arena, message_type_size(s->type));
            assert_true(status_is_ok(message_decode(s->type, s->version, again, &arena, twice)));
            assert_struct_equal(message_type_layout(s->type, s->version), decoded, twice);
            free((void *)(uintptr_t)again.data);
        }
        arena_fini(&arena);
    }
    free(copy);
}

static void damaged_messages_never_crash_the_decoder(void **state)
{
    for_each_sample(2, check_damage);
}

static void check_full_writer(const struct sample *s)
{
    if (s->encoded.size == 0) {
        return;
    }
    uint32_t capacity = random_below(s->encoded.size);
    uint8_t *buffer = malloc(capacity + (capacity == 0));
    struct message_writer writer = {.buffer = buffer, .capacity = capacity};
    assert_int_equal(message_encode(s->type, s->version, s->message, &writer).code, STATUS_FULL);
    free(buffer);
}

static void a_writer_without_room_is_full_and_not_overrun(void **state)
{
    for_each_sample(4, check_full_writer);
}

static void versions_outside_the_schema_are_unsupported(void **state)
{
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    struct produce_request request = produce_request_default;
    uint32_t size;
    struct message_writer writer = {0};
    const int16_t versions[] = {-1, 0, 2, 14, INT16_MAX, INT16_MIN};
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        const struct message_type *type = &produce_request_type;
        assert_int_equal(message_decode(type, versions[i], BYTES_NULL, &arena, &request).code,
                         STATUS_UNSUPPORTED);
        assert_int_equal(message_size(type, versions[i], &request, &size).code, STATUS_UNSUPPORTED);
        assert_int_equal(message_encode(type, versions[i], &request, &writer).code,
                         STATUS_UNSUPPORTED);
    }
    arena_fini(&arena);
}

/* Metadata v9: a compact array that claims 2^31 - 2 topics in a few bytes. */
static void a_count_is_bounded_by_the_bytes_that_remain(void **state)
{
    static const uint8_t flexible[] = {0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0, 0};
    static const uint8_t plain[] = {0x7f, 0xff, 0xff, 0xff, 0, 0};
    struct arena arena;
    arena_init(&arena, SIZE_MAX / 2);
    struct metadata_request request;
    struct bytes input = {flexible, sizeof(flexible)};
    assert_int_equal(message_decode(&metadata_request_type, 9, input, &arena, &request).code,
                     STATUS_TRUNCATED);
    input = (struct bytes){plain, sizeof(plain)};
    assert_int_equal(message_decode(&metadata_request_type, 1, input, &arena, &request).code,
                     STATUS_TRUNCATED);
    assert_int_equal(arena.size, 0);
    arena_fini(&arena);
}

static void lengths_that_cannot_be_are_refused(void **state)
{
    static const struct {
        int16_t version;
        uint32_t size;
        uint8_t bytes[12];
    } cases[] = {
        {0, 4, {0xff, 0xff, 0xff, 0xff}},             /* null topics before version 1 */
        {1, 4, {0xff, 0xff, 0xff, 0xfe}},             /* a count of -2 */
        {1, 6, {0, 0, 0, 1, 0xff, 0xff}},             /* null name */
        {1, 6, {0, 0, 0, 1, 0xff, 0xfe}},             /* a length of -2 */
        {9, 6, {0xff, 0xff, 0xff, 0xff, 0x0f, 0}},    /* a count above int32 */
        {9, 6, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}, /* a varint without end */
        {9, 5, {0x02, 0x81, 0x80, 0x02, 0}},          /* a string of 32768 bytes */
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct arena arena;
        arena_init(&arena, ARENA_SIZE_MAX);
        struct metadata_request request;
        struct bytes input = {cases[i].bytes, cases[i].size};
        status result =
            message_decode(&metadata_request_type, cases[i].version, input, &arena, &request);
        assert_int_equal(result.code, STATUS_INVALID);
        arena_fini(&arena);
    }
}

static void a_full_arena_is_too_large_and_not_a_crash(void **state)
{
    struct metadata_request request = metadata_request_default;
    request.topics = calloc(1000, sizeof(*request.topics));
    request.topics_count = 1000;
    for (int i = 0; i < 1000; i++) {
        request.topics[i] = metadata_request_topic_default;
    }
    struct bytes encoded = encode_exactly(&metadata_request_type, 12, &request);
    struct arena arena;
    arena_init(&arena, 4096);
    struct metadata_request decoded;
    assert_int_equal(message_decode(&metadata_request_type, 12, encoded, &arena, &decoded).code,
                     STATUS_TOO_LARGE);
    arena_fini(&arena);
    free((void *)(uintptr_t)encoded.data);
    free(request.topics);
}

static void unknown_tagged_fields_are_skipped(void **state)
{
    /* ApiVersions request v3: "a", "b", two tags: 5 of 3 bytes, 4000 of 0 bytes. */
    static const uint8_t wire[] = {2, 'a', 2, 'b', 2, 5, 3, 1, 2, 3, 0xa0, 0x1f, 0};
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    struct api_versions_request request;
    struct bytes input = {wire, sizeof(wire)};
    assert_true(
        status_is_ok(message_decode(&api_versions_request_type, 3, input, &arena, &request)));
    assert_true(bytes_equal(request.client_software_name, bytes_of("a")));
    assert_true(bytes_equal(request.client_software_version, bytes_of("b")));
    arena_fini(&arena);
}

static void a_known_tagged_field_must_fill_its_size(void **state)
{
    /* ApiVersions response v3 with tag 1 (int64) of 7, 8 and 9 bytes. */
    uint8_t wire[] = {0, 0, 1, 0, 0, 0, 0, 1, 1, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0};
    static const struct {
        uint8_t field_size;
        enum status_code code;
    } cases[] = {{7, STATUS_TRUNCATED}, {8, STATUS_OK}, {9, STATUS_INVALID}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct arena arena;
        arena_init(&arena, ARENA_SIZE_MAX);
        struct api_versions_response response;
        wire[9] = cases[i].field_size;
        struct bytes input = {wire, 10u + cases[i].field_size};
        status result = message_decode(&api_versions_response_type, 3, input, &arena, &response);
        assert_int_equal(result.code, cases[i].code);
        if (result.code == STATUS_OK) {
            assert_int_equal(response.finalized_features_epoch, 9);
        }
        arena_fini(&arena);
    }
}

/* Read loosely, the two bytes left in the field would pass for a second field. */
static void a_tagged_field_does_not_leak_into_the_next(void **state)
{
    static const uint8_t wire[] = {0, 0, 1, 0, 0, 0, 0, 2, 1, 10, 0, 0, 0, 0, 0, 0, 0, 9, 5, 0};
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    struct api_versions_response response;
    struct bytes input = {wire, sizeof(wire)};
    assert_int_equal(message_decode(&api_versions_response_type, 3, input, &arena, &response).code,
                     STATUS_INVALID);
    arena_fini(&arena);
}

static void an_absent_field_has_its_default(void **state)
{
    /* Fetch request v4 knows no session, no rack and no replica state. */
    uint8_t wire[] = {0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 1, 0, 0, 0, 0};
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    struct fetch_request request;
    struct bytes input = {wire, sizeof(wire)};
    assert_true(status_is_ok(message_decode(&fetch_request_type, 4, input, &arena, &request)));
    assert_int_equal(request.max_bytes, 4);
    assert_int_equal(request.session_epoch, -1);
    assert_int_equal(request.replica_state.replica_id, -1);
    assert_true(bytes_is_null(request.cluster_id));
    assert_true(bytes_equal(request.rack_id, bytes_of("")));
    arena_fini(&arena);
}

static void a_null_that_the_version_forbids_is_not_encoded(void **state)
{
    struct metadata_request request = metadata_request_default;
    request.topics_count = -1;
    uint32_t size;
    uint8_t buffer[64];
    struct message_writer writer = {.buffer = buffer, .capacity = sizeof(buffer)};
    assert_int_equal(message_size(&metadata_request_type, 0, &request, &size).code, STATUS_INVALID);
    assert_int_equal(message_encode(&metadata_request_type, 0, &request, &writer).code,
                     STATUS_INVALID);
    assert_true(status_is_ok(message_size(&metadata_request_type, 1, &request, &size)));
    struct metadata_request_topic topic = {.name = BYTES_NULL};
    request.topics = &topic;
    request.topics_count = 1;
    assert_int_equal(message_size(&metadata_request_type, 9, &request, &size).code, STATUS_INVALID);
    assert_true(status_is_ok(message_size(&metadata_request_type, 10, &request, &size)));
}

static void a_string_above_32767_bytes_is_too_large(void **state)
{
    uint8_t *text = calloc(1, 32768);
    struct api_versions_request request = api_versions_request_default;
    uint32_t size;
    request.client_software_name = (struct bytes){text, 32767};
    assert_true(status_is_ok(message_size(&api_versions_request_type, 3, &request, &size)));
    request.client_software_name.size = 32768;
    assert_int_equal(message_size(&api_versions_request_type, 3, &request, &size).code,
                     STATUS_TOO_LARGE);
    free(text);
}

static void set_fetch_response(struct fetch_response *response,
                               struct fetch_response_fetchable_topic_response *topic,
                               struct fetch_response_partition_data *partitions, int32_t count,
                               struct bytes records)
{
    *response = fetch_response_default;
    *topic = fetch_response_fetchable_topic_response_default;
    topic->topic = bytes_of("t");
    topic->partitions = partitions;
    topic->partitions_count = count;
    for (int32_t i = 0; i < count; i++) {
        partitions[i] = fetch_response_partition_data_default;
        partitions[i].partition_index = i;
        partitions[i].records = records;
    }
    response->responses = topic;
    response->responses_count = 1;
}

/* However many ranges there are, put together they are what a plain writer writes. */
static void large_records_are_referenced_and_the_ranges_are_in_order(void **state)
{
    uint8_t records[300];
    memset(records, 7, sizeof(records));
    struct fetch_response response;
    struct fetch_response_fetchable_topic_response topic;
    struct fetch_response_partition_data partitions[3];
    set_fetch_response(&response, &topic, partitions, 3, (struct bytes){records, 300});
    partitions[1].records.size = 10; /* below copy_max: copied */
    for (int16_t version = 4; version <= 18; version += 7) {
        struct bytes plain = encode_exactly(&fetch_response_type, version, &response);
        for (uint32_t range_count_max = 1; range_count_max < 8; range_count_max++) {
            uint8_t buffer[1024];
            uint8_t joined[1024];
            struct message_range ranges[8];
            struct message_writer writer = {.buffer = buffer,
                                            .capacity = sizeof(buffer),
                                            .ranges = ranges,
                                            .range_count_max = range_count_max,
                                            .copy_max = 100};
            assert_true(
                status_is_ok(message_encode(&fetch_response_type, version, &response, &writer)));
            message_writer_finish(&writer);
            uint32_t size = 0;
            uint32_t referenced = 0;
            for (uint32_t i = 0; i < writer.range_count; i++) {
                memcpy(joined + size, ranges[i].data, ranges[i].size);
                size += ranges[i].size;
                referenced += ranges[i].data == records;
            }
            assert_true(writer.range_count <= range_count_max);
            assert_int_equal(referenced, MIN((range_count_max - 1) / 2, 2u));
            assert_true(bytes_equal(plain, (struct bytes){joined, size}));
        }
        free((void *)(uintptr_t)plain.data);
    }
}

/* The messages decoded and encoded by straight-line code alone. */
static uint32_t straight_decoded;
static uint32_t straight_encoded;

static void check_straight_decode(const struct sample *s, const struct message_type *tables,
                                  struct bytes input)
{
    struct arena arena;
    arena_init(&arena, ARENA_SIZE_MAX);
    uint8_t *by_tables = arena_alloc(&arena, message_type_size(s->type));
    uint8_t *straight = arena_alloc(&arena, message_type_size(s->type));
    struct straight_reader reader = {input.data, input.data + input.size, &arena,
                                     STRAIGHT_ELEMENTS_MAX};
    bool done = s->type->straight_decode(&reader, s->version, straight);
    struct bytes left = input;
    status result = message_decode_prefix(tables, s->version, &left, &arena, by_tables);
    if (done) {
        assert_true(status_is_ok(result));
        assert_ptr_equal(reader.at, left.data);
        assert_struct_equal(message_type_layout(s->type, s->version), by_tables, straight);
        straight_decoded++;
    }
    arena_fini(&arena);
}

static void check_straight_encode(const struct sample *s)
{
    uint8_t *buffer = malloc(s->encoded.size + 1);
    /* With less room than it takes, straight-line code gives up; never does it write further. */
    for (uint32_t size = s->encoded.size + 1; size-- > 0;) {
        buffer[size] = 0xa5;
        struct straight_writer writer = {buffer, buffer + size};
        bool done = s->type->straight_encode(&writer, s->version, s->message);
        assert_int_equal(buffer[size], 0xa5);
        if (done) {
            assert_int_equal(size, s->encoded.size);
            assert_ptr_equal(writer.at, buffer + size);
            assert_memory_equal(buffer, s->encoded.data, size);
            straight_encoded++;
        }
    }
    free(buffer);
}

static void check_straight(const struct sample *s)
{
    struct message_type tables = *s->type;
    tables.straight_decode = NULL;
    tables.straight_encode = NULL;
    if (s->type->straight_encode != NULL) {
        struct bytes by_tables = encode_exactly(&tables, s->version, s->message);
        assert_true(bytes_equal(by_tables, s->encoded));
        free((void *)(uintptr_t)by_tables.data);
        check_straight_encode(s);
    }
    if (s->type->straight_decode == NULL) {
        return;
    }
    check_straight_decode(s, &tables, s->encoded);
    uint8_t *copy = malloc(s->encoded.size + 1);
    for (int round = 0; round < 60; round++) {
        memcpy(copy, s->encoded.data, s->encoded.size);
        copy[random_below(s->encoded.size)] = (uint8_t)next_random();
        /* Also cut: what is then behind the end must not be read. */
        uint32_t size = random_below(2) == 0 ? s->encoded.size : random_below(s->encoded.size);
        uint8_t *exact = malloc(size + (size == 0));
        memcpy(exact, copy, size);
        check_straight_decode(s, &tables, (struct bytes){exact, size});
        free(exact);
    }
    free(copy);
}

static void straight_line_code_does_what_the_tables_say(void **state)
{
    for_each_sample(20, check_straight);
    assert_true(straight_decoded > 0);
    assert_true(straight_encoded > 0);
}

static void straight_line_code_is_what_a_small_produce_takes(void **state)
{
    uint8_t records[100] = {1};
    struct produce_request_partition_produce_data partition = {
        .index = 3, .records = {records, sizeof(records)}};
    struct produce_request_topic_produce_data topic = {
        .name = bytes_of("topic"), .partition_data = &partition, .partition_data_count = 1};
    struct produce_request request = {
        .transactional_id = BYTES_NULL, .acks = -1, .topic_data = &topic, .topic_data_count = 1};
    struct produce_response_partition_produce_response done =
        produce_response_partition_produce_response_default;
    struct produce_response_topic_produce_response topic_done = {
        .name = bytes_of("topic"), .partition_responses = &done, .partition_responses_count = 1};
    struct produce_response response = {.responses = &topic_done, .responses_count = 1};
    for (int16_t v = 3; v <= produce_request_type.version_max; v++) {
        struct arena arena;
        arena_init(&arena, ARENA_SIZE_MAX);
        struct bytes encoded = encode_exactly(&produce_request_type, v, &request);
        struct straight_reader reader = {encoded.data, encoded.data + encoded.size, &arena,
                                         STRAIGHT_ELEMENTS_MAX};
        struct produce_request decoded;
        assert_true(produce_request_type.straight_decode(&reader, v, &decoded));
        assert_int_equal(decoded.topic_data[0].partition_data[0].records.size, sizeof(records));
        uint8_t buffer[128];
        struct straight_writer writer = {buffer, buffer + sizeof(buffer)};
        assert_true(produce_response_type.straight_encode(&writer, v, &response));
        free((void *)(uintptr_t)encoded.data);
        arena_fini(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_and_version_survives_a_round_trip),
        cmocka_unit_test(a_message_cut_at_any_byte_is_refused),
        cmocka_unit_test(bytes_left_over_are_refused_or_given_back),
        cmocka_unit_test(damaged_messages_never_crash_the_decoder),
        cmocka_unit_test(a_writer_without_room_is_full_and_not_overrun),
        cmocka_unit_test(versions_outside_the_schema_are_unsupported),
        cmocka_unit_test(a_count_is_bounded_by_the_bytes_that_remain),
        cmocka_unit_test(lengths_that_cannot_be_are_refused),
        cmocka_unit_test(a_full_arena_is_too_large_and_not_a_crash),
        cmocka_unit_test(unknown_tagged_fields_are_skipped),
        cmocka_unit_test(a_known_tagged_field_must_fill_its_size),
        cmocka_unit_test(a_tagged_field_does_not_leak_into_the_next),
        cmocka_unit_test(an_absent_field_has_its_default),
        cmocka_unit_test(a_null_that_the_version_forbids_is_not_encoded),
        cmocka_unit_test(a_string_above_32767_bytes_is_too_large),
        cmocka_unit_test(large_records_are_referenced_and_the_ranges_are_in_order),
        cmocka_unit_test(straight_line_code_does_what_the_tables_say),
        cmocka_unit_test(straight_line_code_is_what_a_small_produce_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
