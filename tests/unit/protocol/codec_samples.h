/* What tests of the codecs compress and compare. Included behind cmocka.h. */
#ifndef TWINLOG_TESTS_CODEC_SAMPLES_H
#define TWINLOG_TESTS_CODEC_SAMPLES_H

#include <stdlib.h>

#include "twinlog/protocol/compress.h"

/* Half noise, half a repeated text, so that every codec has both kinds of work. */
static inline struct bytes make_input(uint32_t size)
{
    uint8_t *data = malloc(size + (size == 0));
    uint32_t noise = 12345;
    for (uint32_t i = 0; i < size; i++) {
        noise = noise * 1664525 + 1013904223;
        data[i] = i % 64 < 32 ? (uint8_t)(noise >> 24) : (uint8_t)(i % 7);
    }
    return (struct bytes){data, size};
}

static inline void release(struct bytes view)
{
    free((void *)(uintptr_t)view.data);
}

static inline struct bytes compressed(enum codec codec, int level, struct bytes input)
{
    uint8_t *data;
    size_t size;
    assert_true(status_is_ok(codec_compress(codec, level, input, &data, &size)));
    return (struct bytes){data, (uint32_t)size};
}

#endif
