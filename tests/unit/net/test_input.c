/* Cutting a stream into frames: every way to split it gives the same frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "input.h"

#define FRAME_COUNT 5

static const uint32_t sizes[FRAME_COUNT] = {0, 1, 3, 40, 7};

/* The frames one behind the other; byte i of a frame is its index plus i. */
static uint32_t stream_build(uint8_t *stream)
{
    uint32_t size = 0;
    for (uint32_t f = 0; f < FRAME_COUNT; f++) {
        store_be32(stream + size, sizes[f]);
        size += 4;
        for (uint32_t i = 0; i < sizes[f]; i++) {
            stream[size++] = (uint8_t)(f + i);
        }
    }
    return size;
}

static void frame_check(uint32_t index, struct bytes frame)
{
    assert_true(index < FRAME_COUNT);
    assert_int_equal(frame.size, sizes[index]);
    for (uint32_t i = 0; i < frame.size; i++) {
        assert_int_equal(frame.data[i], (uint8_t)(index + i));
    }
}

/* Cuts what it can, as a connection does; `take` takes assembled buffers away. */
static void cut(struct input *input, struct bytes *data, uint32_t *frame_count, bool take)
{
    for (;;) {
        struct bytes frame;
        uint32_t size;
        enum input_next next = input_next(input, data, 64, &frame, &size);
        if (next == INPUT_MORE) {
            return;
        }
        if (next == INPUT_RESERVE) {
            assert_int_equal(input_reserve(input, data, size).code, STATUS_OK);
            continue;
        }
        assert_int_equal(next, INPUT_FRAME);
        frame_check((*frame_count)++, frame);
        uint8_t *taken = take ? input_take_frame(input) : NULL;
        input_done(input, data, frame);
        free(taken);
    }
}

/* Delivers pieces of `piece_size`, holding what is left over, as a connection does. */
static void deliver_in_pieces(uint32_t piece_size, bool take)
{
    uint8_t stream[128];
    uint32_t stream_size = stream_build(stream);
    struct input input = {0};
    uint32_t frame_count = 0;
    for (uint32_t at = 0; at < stream_size; at += piece_size) {
        struct bytes piece = {stream + at, MIN(piece_size, stream_size - at)};
        if (input.held_size == 0) {
            cut(&input, &piece, &frame_count, take);
            assert_int_equal(input_hold(&input, piece).code, STATUS_OK);
            continue;
        }
        assert_int_equal(input_hold(&input, piece).code, STATUS_OK);
        struct bytes held = input_held(&input);
        cut(&input, &held, &frame_count, take);
        input_held_set(&input, held);
    }
    assert_int_equal(frame_count, FRAME_COUNT);
    assert_false(input_has_begun(&input));
    assert_null(input.held);
    input_fini(&input);
}

static void frames_do_not_depend_on_how_the_stream_is_split(void **state)
{
    for (uint32_t piece_size = 1; piece_size < 80; piece_size++) {
        deliver_in_pieces(piece_size, false);
        deliver_in_pieces(piece_size, true);
    }
}

static void a_frame_over_the_bound_is_told_before_memory_is_taken(void **state)
{
    static const uint32_t too_large[] = {65, 1u << 30, 0x80000000u, 0xffffffffu};
    for (size_t i = 0; i < COUNT_OF(too_large); i++) {
        uint8_t prefix[4];
        store_be32(prefix, too_large[i]);
        struct input input = {0};
        struct bytes data = {prefix, sizeof(prefix)};
        struct bytes frame;
        uint32_t size = 0;
        assert_int_equal(input_next(&input, &data, 64, &frame, &size), INPUT_TOO_LARGE);
        assert_int_equal(size, too_large[i]);
        assert_null(input.frame);
        input_fini(&input);
    }
}

static void a_whole_frame_is_handed_out_in_place(void **state)
{
    uint8_t stream[128];
    struct bytes data = {stream, stream_build(stream)};
    struct input input = {0};
    struct bytes frame;
    uint32_t size;
    for (uint32_t f = 0; f < FRAME_COUNT; f++) {
        const uint8_t *expected = data.data + 4;
        assert_int_equal(input_next(&input, &data, 64, &frame, &size), INPUT_FRAME);
        assert_ptr_equal(frame.data, expected);
        assert_null(input_take_frame(&input));
        input_done(&input, &data, frame);
    }
    assert_int_equal(data.size, 0);
}

static void held_bytes_keep_their_order_when_more_arrive(void **state)
{
    struct input input = {0};
    for (uint8_t i = 0; i < 100; i++) {
        assert_int_equal(input_hold(&input, (struct bytes){&i, 1}).code, STATUS_OK);
        if (i % 3 == 2) {
            struct bytes held = input_held(&input);
            assert_int_equal(held.data[held.size - 1], i);
            held.data++;
            held.size--;
            input_held_set(&input, held);
        }
    }
    struct bytes held = input_held(&input);
    assert_int_equal(held.size, 67);
    assert_int_equal(held.data[0], 33);
    assert_true(input_has_begun(&input));
    input_fini(&input);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_do_not_depend_on_how_the_stream_is_split),
        cmocka_unit_test(a_frame_over_the_bound_is_told_before_memory_is_taken),
        cmocka_unit_test(a_whole_frame_is_handed_out_in_place),
        cmocka_unit_test(held_bytes_keep_their_order_when_more_arrive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
