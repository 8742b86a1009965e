/*
 * Byte views, big-endian and little-endian loads and stores, varints, and a bounded reader.
 * Kafka's wire and disk formats are big-endian; our own journal and checkpoint are little-endian.
 */
#ifndef TWINLOG_CORE_BYTES_H
#define TWINLOG_CORE_BYTES_H

#include <endian.h>
#include <string.h>

#include "twinlog/core/base.h"

/* A view of bytes owned elsewhere. data == NULL means null (size 0), which differs from empty. */
struct bytes {
    const uint8_t *data;
    uint32_t size;
};

#define BYTES_NULL ((struct bytes){NULL, 0})

/* A view of a NUL-terminated string, without the NUL. */
static inline struct bytes bytes_of(const char *text)
{
    return (struct bytes){(const uint8_t *)text, text == NULL ? 0 : (uint32_t)strlen(text)};
}

static inline bool bytes_is_null(struct bytes b)
{
    return b.data == NULL;
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return (a.data == NULL) == (b.data == NULL) && a.size == b.size &&
           (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

#define BYTES_LOAD_STORE(bits, order)                                                              \
    static inline uint##bits##_t load_##order##bits(const void *from)                              \
    {                                                                                              \
        uint##bits##_t value;                                                                      \
        memcpy(&value, from, sizeof(value));                                                       \
        return order##bits##toh(value);                                                            \
    }                                                                                              \
    static inline void store_##order##bits(void *to, uint##bits##_t value)                         \
    {                                                                                              \
        value = hto##order##bits(value);                                                           \
        memcpy(to, &value, sizeof(value));                                                         \
    }

BYTES_LOAD_STORE(16, be)
BYTES_LOAD_STORE(32, be)
BYTES_LOAD_STORE(64, be)
BYTES_LOAD_STORE(16, le)
BYTES_LOAD_STORE(32, le)
BYTES_LOAD_STORE(64, le)
#undef BYTES_LOAD_STORE

/*
 * Reads a base-128 varint (at most 5 bytes) from [at, end). Returns the byte after it, or NULL when
 * it does not end in time or does not fit. Unsigned as in Kafka's flexible versions.
 */
const uint8_t *varint_read_u32(const uint8_t *at, const uint8_t *end, uint32_t *value);

/* The same for at most 10 bytes. */
const uint8_t *varint_read_u64(const uint8_t *at, const uint8_t *end, uint64_t *value);

/* Writes a varint to `to` (room for 5 or 10 bytes) and returns the byte after it. */
uint8_t *varint_write_u32(uint8_t *to, uint32_t value);
uint8_t *varint_write_u64(uint8_t *to, uint64_t value);

/* The encoded size of `value` in bytes, 1 to 5 (10). */
unsigned varint_size_u32(uint32_t value);
unsigned varint_size_u64(uint64_t value);

/* Zig-zag mapping, as in Kafka's record fields. */
static inline uint32_t zigzag_encode32(int32_t value)
{
    return ((uint32_t)value << 1) ^ (uint32_t)(value >> 31);
}

static inline int32_t zigzag_decode32(uint32_t value)
{
    return (int32_t)((value >> 1) ^ (~(value & 1) + 1));
}

static inline uint64_t zigzag_encode64(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t zigzag_decode64(uint64_t value)
{
    return (int64_t)((value >> 1) ^ (~(value & 1) + 1));
}

#endif
