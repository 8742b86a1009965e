/*
 * What straight-line codecs are made of: generate.py emits one for each message its schema marks
 * `straight`. They do nearly all messages of that kind and give up on the rest: a tagged field, a
 * null that is not allowed, bytes that end too early, many elements. Whoever called then walks the
 * tables, which is right for every message and says what is wrong. Private to src/protocol.
 */
#ifndef TWINLOG_PROTOCOL_STRAIGHT_H
#define TWINLOG_PROTOCOL_STRAIGHT_H

#include "table.h"

/* Elements of all arrays of one message; bounds what an attempt that is given up took. */
#define STRAIGHT_ELEMENTS_MAX 64u

struct straight_reader {
    const uint8_t *at;
    const uint8_t *end;
    struct arena *arena;
    uint32_t elements_left;
};

struct straight_writer {
    uint8_t *at;
    uint8_t *end;
};

#define STRAIGHT(expression) /* or give up */                                                      \
    do {                                                                                           \
        if (!(expression)) {                                                                       \
            return false;                                                                          \
        }                                                                                          \
    } while (false)

#define STRAIGHT_INLINE static inline __attribute__((always_inline))

/* ---------------------------------------------------------------- reading */

/* NULL: there are not so many. */
STRAIGHT_INLINE const uint8_t *straight_get_bytes(struct straight_reader *r, size_t size)
{
    if ((size_t)(r->end - r->at) < size) {
        return NULL;
    }
    const uint8_t *place = r->at;
    r->at += size;
    return place;
}

STRAIGHT_INLINE bool straight_get_int16(struct straight_reader *r, int16_t *value)
{
    const uint8_t *place = straight_get_bytes(r, sizeof(*value));
    STRAIGHT(place != NULL);
    *value = (int16_t)load_be16(place);
    return true;
}

STRAIGHT_INLINE bool straight_get_int32(struct straight_reader *r, int32_t *value)
{
    const uint8_t *place = straight_get_bytes(r, sizeof(*value));
    STRAIGHT(place != NULL);
    *value = (int32_t)load_be32(place);
    return true;
}

STRAIGHT_INLINE bool straight_get_int64(struct straight_reader *r, int64_t *value)
{
    const uint8_t *place = straight_get_bytes(r, sizeof(*value));
    STRAIGHT(place != NULL);
    *value = (int64_t)load_be64(place);
    return true;
}

STRAIGHT_INLINE bool straight_get_uuid(struct straight_reader *r, struct uuid *value)
{
    const uint8_t *place = straight_get_bytes(r, sizeof(*value));
    STRAIGHT(place != NULL);
    memcpy(value, place, sizeof(*value));
    return true;
}

/* `size` is that of the prefix where the version is not flexible: 2 or 4; -1 is null. */
STRAIGHT_INLINE bool straight_get_length(struct straight_reader *r, bool flexible, unsigned size,
                                         bool nullable, int32_t *length)
{
    if (flexible && r->at < r->end && *r->at < 0x80) {
        *length = *r->at++ - 1; /* Nearly all. */
    } else if (flexible) {
        uint32_t coded;
        const uint8_t *next = varint_read_u32(r->at, r->end, &coded);
        STRAIGHT(next != NULL && coded <= (uint32_t)INT32_MAX);
        r->at = next;
        *length = (int32_t)coded - 1;
    } else if (size == sizeof(int16_t)) {
        int16_t length16 = 0;
        STRAIGHT(straight_get_int16(r, &length16));
        *length = length16;
    } else {
        STRAIGHT(straight_get_int32(r, length));
    }
    return *length >= (nullable ? -1 : 0);
}

STRAIGHT_INLINE bool straight_get_view(struct straight_reader *r, bool flexible, unsigned size,
                                       bool nullable, struct bytes *view)
{
    int32_t length = 0;
    STRAIGHT(straight_get_length(r, flexible, size, nullable, &length));
    if (length < 0) {
        *view = BYTES_NULL;
        return true;
    }
    STRAIGHT(size != sizeof(int16_t) || length <= (int32_t)STRING_SIZE_MAX);
    view->size = (uint32_t)length;
    view->data = straight_get_bytes(r, (size_t)length);
    return view->data != NULL;
}

/* The elements of an array are the caller's to read; `*items` is NULL when there are none. */
STRAIGHT_INLINE bool straight_get_array(struct straight_reader *r, bool flexible, bool nullable,
                                        size_t element_size, int32_t *count, void **items)
{
    STRAIGHT(straight_get_length(r, flexible, sizeof(int32_t), nullable, count));
    *items = NULL;
    if (*count <= 0) {
        return true;
    }
    STRAIGHT((uint32_t)*count <= r->elements_left);
    r->elements_left -= (uint32_t)*count;
    *items = arena_alloc(r->arena, (size_t)*count * element_size);
    return *items != NULL;
}

STRAIGHT_INLINE bool straight_get_no_tags(struct straight_reader *r, bool flexible)
{
    if (!flexible) {
        return true;
    }
    const uint8_t *count = straight_get_bytes(r, 1);
    return count != NULL && *count == 0;
}

/* ---------------------------------------------------------------- writing */

STRAIGHT_INLINE bool straight_put_bytes(struct straight_writer *w, const void *from, size_t size)
{
    STRAIGHT((size_t)(w->end - w->at) >= size);
    if (size > 0) {
        memcpy(w->at, from, size);
    }
    w->at += size;
    return true;
}

STRAIGHT_INLINE bool straight_put_int16(struct straight_writer *w, int16_t value)
{
    STRAIGHT((size_t)(w->end - w->at) >= sizeof(value));
    store_be16(w->at, (uint16_t)value);
    w->at += sizeof(value);
    return true;
}

STRAIGHT_INLINE bool straight_put_int32(struct straight_writer *w, int32_t value)
{
    STRAIGHT((size_t)(w->end - w->at) >= sizeof(value));
    store_be32(w->at, (uint32_t)value);
    w->at += sizeof(value);
    return true;
}

STRAIGHT_INLINE bool straight_put_int64(struct straight_writer *w, int64_t value)
{
    STRAIGHT((size_t)(w->end - w->at) >= sizeof(value));
    store_be64(w->at, (uint64_t)value);
    w->at += sizeof(value);
    return true;
}

STRAIGHT_INLINE bool straight_put_uuid(struct straight_writer *w, struct uuid value)
{
    return straight_put_bytes(w, &value, sizeof(value));
}

/* -1 is null. Lengths that take more than one byte are written by the tables' encoder. */
STRAIGHT_INLINE bool straight_put_length(struct straight_writer *w, bool flexible, unsigned size,
                                         bool nullable, int32_t length)
{
    STRAIGHT(length >= (nullable ? -1 : 0));
    if (flexible) {
        STRAIGHT(length < 0x7f && w->at < w->end);
        *w->at++ = (uint8_t)(length + 1);
        return true;
    }
    return size == sizeof(int16_t) ? straight_put_int16(w, (int16_t)length)
                                   : straight_put_int32(w, length);
}

STRAIGHT_INLINE bool straight_put_view(struct straight_writer *w, bool flexible, unsigned size,
                                       bool nullable, struct bytes view)
{
    if (bytes_is_null(view)) {
        return straight_put_length(w, flexible, size, nullable, -1);
    }
    STRAIGHT(view.size <= STRING_SIZE_MAX);
    return straight_put_length(w, flexible, size, nullable, (int32_t)view.size) &&
           straight_put_bytes(w, view.data, view.size);
}

STRAIGHT_INLINE bool straight_put_no_tags(struct straight_writer *w, bool flexible)
{
    if (flexible) {
        STRAIGHT(w->at < w->end);
        *w->at++ = 0;
    }
    return true;
}

#endif
