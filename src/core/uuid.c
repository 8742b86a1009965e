#include "twinlog/core/uuid.h"

#include "twinlog/core/bytes.h"

static const char uuid_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

_Static_assert(sizeof(struct uuid) == 16, "an id is 16 bytes on wire and disk");
_Static_assert(sizeof(uuid_alphabet) == 65, "64 digits and the NUL");

struct uuid uuid_from_random(uint64_t high, uint64_t low)
{
    struct uuid id;
    store_be64(id.bytes, high);
    store_be64(id.bytes + 8, low);
    id.bytes[6] = (uint8_t)((id.bytes[6] & 0x0f) | 0x40); /* version 4: not a reserved id either */
    id.bytes[8] = (uint8_t)((id.bytes[8] & 0x3f) | 0x80); /* the variant of RFC 4122 */
    if (uuid_alphabet[id.bytes[0] >> 2] == '-') {
        id.bytes[0] ^= 0x80; /* Command line tools would take a leading '-' for an option. */
    }
    return id;
}

void uuid_format(const struct uuid *id, char text[UUID_TEXT_SIZE])
{
    uint32_t bits = 0;
    unsigned bit_count = 0;
    char *to = text;
    for (size_t i = 0; i < sizeof(id->bytes); i++) {
        bits = (bits << 8) | id->bytes[i];
        for (bit_count += 8; bit_count >= 6; bit_count -= 6) {
            *to++ = uuid_alphabet[(bits >> (bit_count - 6)) & 63];
        }
    }
    *to++ = uuid_alphabet[(bits << (6 - bit_count)) & 63];
    *to = '\0';
}

static int uuid_digit(char c)
{
    if (c == '\0') {
        return -1;
    }
    const char *place = strchr(uuid_alphabet, c);
    return place == NULL ? -1 : (int)(place - uuid_alphabet);
}

bool uuid_parse(const char *text, size_t size, struct uuid *id)
{
    if (size != UUID_TEXT_SIZE - 1) {
        return false;
    }
    struct uuid result;
    uint32_t bits = 0;
    unsigned bit_count = 0;
    size_t at = 0;
    for (size_t i = 0; i < size; i++) {
        int digit = uuid_digit(text[i]);
        if (digit < 0) {
            return false;
        }
        bits = (bits << 6) | (uint32_t)digit;
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            result.bytes[at++] = (uint8_t)(bits >> bit_count);
        }
    }
    /* 132 bits were read for 128: the last four carry nothing, and decoders ignore them. */
    *id = result;
    return true;
}
