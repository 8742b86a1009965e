#include "input.h"

#include <stdlib.h>

#include "twinlog/core/assert.h"

#define FRAME_PREFIX_SIZE 4u

static void bytes_skip(struct bytes *data, uint32_t size)
{
    ASSERT(size <= data->size);
    data->data += size;
    data->size -= size;
}

static void input_fill(struct input *input, struct bytes *data)
{
    uint32_t size = MIN(input->frame_size - input->frame_filled, data->size);
    if (size > 0) {
        memcpy(input->frame + input->frame_filled, data->data, size);
        input->frame_filled += size;
        bytes_skip(data, size);
    }
}

enum input_next input_next(struct input *input, struct bytes *data, uint32_t size_max,
                           struct bytes *frame, uint32_t *size)
{
    if (input->frame_size > 0) {
        ASSERT(input->frame != NULL);
        input_fill(input, data);
        *frame = (struct bytes){input->frame, input->frame_size};
        return input->frame_filled == input->frame_size ? INPUT_FRAME : INPUT_MORE;
    }
    if (data->size < FRAME_PREFIX_SIZE) {
        return INPUT_MORE;
    }
    *size = load_be32(data->data);
    if (*size > size_max) {
        return INPUT_TOO_LARGE;
    }
    if (data->size - FRAME_PREFIX_SIZE < *size) {
        return INPUT_RESERVE;
    }
    *frame = (struct bytes){data->data + FRAME_PREFIX_SIZE, *size};
    return INPUT_FRAME;
}

status input_reserve(struct input *input, struct bytes *data, uint32_t size)
{
    ASSERT(input->frame_size == 0);
    ASSERT(size > 0);
    input->frame = malloc(size);
    if (input->frame == NULL) {
        return STATUS(NO_MEMORY);
    }
    input->frame_size = size;
    input->frame_filled = 0;
    bytes_skip(data, FRAME_PREFIX_SIZE);
    return OK;
}

void input_done(struct input *input, struct bytes *data, struct bytes frame)
{
    if (input->frame_size > 0) {
        free(input->frame);
        input->frame = NULL;
        input->frame_size = 0;
        input->frame_filled = 0;
    } else {
        bytes_skip(data, FRAME_PREFIX_SIZE + frame.size);
    }
}

uint8_t *input_take_frame(struct input *input)
{
    uint8_t *frame = input->frame;
    input->frame = NULL;
    return frame;
}

status input_hold(struct input *input, struct bytes data)
{
    if (data.size == 0) {
        return OK;
    }
    if (input->held_size == 0) {
        input->held_at = 0;
    }
    uint64_t needed = (uint64_t)input->held_at + input->held_size + data.size;
    if (needed > input->held_capacity) {
        if (needed > UINT32_MAX / 2) {
            return STATUS(TOO_LARGE);
        }
        uint8_t *grown = realloc(input->held, needed);
        if (grown == NULL) {
            return STATUS(NO_MEMORY);
        }
        input->held = grown;
        input->held_capacity = (uint32_t)needed;
    }
    memcpy(input->held + input->held_at + input->held_size, data.data, data.size);
    input->held_size += data.size;
    return OK;
}

struct bytes input_held(const struct input *input)
{
    if (input->held_size == 0) {
        return BYTES_NULL;
    }
    return (struct bytes){input->held + input->held_at, input->held_size};
}

void input_held_set(struct input *input, struct bytes left)
{
    ASSERT(left.size <= input->held_size);
    input->held_at += input->held_size - left.size;
    input->held_size = left.size;
    if (left.size == 0) {
        free(input->held);
        input->held = NULL;
        input->held_at = 0;
        input->held_capacity = 0;
    } else if (input->held_at >= left.size) {
        memcpy(input->held, input->held + input->held_at, left.size);
        input->held_at = 0;
    }
}

bool input_has_begun(const struct input *input)
{
    return input->frame_size > 0 || input->held_size > 0;
}

void input_fini(struct input *input)
{
    free(input->held);
    free(input->frame);
    *input = (struct input){0};
}
