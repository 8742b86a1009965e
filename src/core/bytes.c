#include "twinlog/core/bytes.h"

/*
 * A varint holds 7 bits a byte, lowest first; the top bit says that another byte follows. The last
 * byte of a value of full length may only carry the bits that are left (4 of 32, 1 of 64).
 * Needlessly long encodings are accepted, as Kafka accepts them.
 */
const uint8_t *varint_read_u32(const uint8_t *at, const uint8_t *end, uint32_t *value)
{
    uint32_t result = 0;
    for (unsigned shift = 0; shift < 35 && at < end; shift += 7) {
        uint8_t byte = *at++;
        if (shift == 28 && byte > 0x0f) {
            return NULL;
        }
        result |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return at;
        }
    }
    return NULL;
}

const uint8_t *varint_read_u64(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 70 && at < end; shift += 7) {
        uint8_t byte = *at++;
        if (shift == 63 && byte > 0x01) {
            return NULL;
        }
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return at;
        }
    }
    return NULL;
}

uint8_t *varint_write_u32(uint8_t *to, uint32_t value)
{
    return varint_write_u64(to, value);
}

uint8_t *varint_write_u64(uint8_t *to, uint64_t value)
{
    while (value >= 0x80) {
        *to++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *to++ = (uint8_t)value;
    return to;
}

unsigned varint_size_u32(uint32_t value)
{
    return varint_size_u64(value);
}

unsigned varint_size_u64(uint64_t value)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    return (bits + 6) / 7;
}
