/*
 * Cuts a byte stream into frames, without I/O: the part of a connection that judges sizes.
 *
 *     0  uint32  size of the frame, big-endian
 *     4  frame
 *
 * A frame that lies wholly in what arrived is handed out in place. Any other is assembled in a
 * buffer of exactly its size, which the caller admits first (INPUT_RESERVE). Bytes that cannot be
 * looked at yet are held.
 */
#ifndef TWINLOG_NET_INPUT_H
#define TWINLOG_NET_INPUT_H

#include "twinlog/core/bytes.h"
#include "twinlog/core/status.h"

struct input {
    uint8_t *held;
    uint32_t held_at;
    uint32_t held_size; /* bytes from held_at on */
    uint32_t held_capacity;
    uint8_t *frame;      /* being assembled; NULL when there is none, or it was taken away */
    uint32_t frame_size; /* 0: no frame is being assembled */
    uint32_t frame_filled;
};

enum input_next {
    INPUT_MORE,      /* wait for bytes */
    INPUT_FRAME,     /* *frame is whole; call input_done() once it is dealt with */
    INPUT_RESERVE,   /* a frame of *size begins and does not end here: input_reserve(), again */
    INPUT_TOO_LARGE, /* *size is above the bound */
};

/* Looks at the front of *data; bytes of a frame being assembled are taken from it. */
enum input_next input_next(struct input *input, struct bytes *data, uint32_t size_max,
                           struct bytes *frame, uint32_t *size);

/* Starts the assembly of a frame of `size` bytes; its size field is taken from *data. */
MUST_USE status input_reserve(struct input *input, struct bytes *data, uint32_t size);

/* The frame that input_next() gave is dealt with: it is freed or taken from *data. */
void input_done(struct input *input, struct bytes *data, struct bytes frame);

/* Takes the buffer of an assembled frame away (the caller frees it); NULL for one in place. */
uint8_t *input_take_frame(struct input *input);

/* Appends bytes that cannot be looked at yet. NO_MEMORY. */
MUST_USE status input_hold(struct input *input, struct bytes data);

/* The held bytes; after working on them, what is left is given to input_held_set(). */
struct bytes input_held(const struct input *input);
void input_held_set(struct input *input, struct bytes left);

/* True when a frame has begun and is not whole, or bytes are held. */
bool input_has_begun(const struct input *input);

/* Frees everything. */
void input_fini(struct input *input);

#endif
