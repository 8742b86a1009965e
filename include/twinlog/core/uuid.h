/* Kafka's 16-byte topic ids and our directory ids; text form is URL-safe base64, 22 characters. */
#ifndef TWINLOG_CORE_UUID_H
#define TWINLOG_CORE_UUID_H

#include <string.h>

#include "twinlog/core/base.h"

#define UUID_TEXT_SIZE 23 /* 22 characters and the NUL */

struct uuid {
    uint8_t bytes[16];
};

static inline bool uuid_is_zero(const struct uuid *id)
{
    static const struct uuid zero;
    return memcmp(id, &zero, sizeof(zero)) == 0;
}

static inline bool uuid_equal(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/*
 * Makes a version 4 id from two random words. Never zero, never one of Kafka's reserved ids
 * (0 and 1), and its text never starts with '-', as Uuid.randomUuid promises.
 */
struct uuid uuid_from_random(uint64_t high, uint64_t low);

/* Writes the text form with its NUL. */
void uuid_format(const struct uuid *id, char text[UUID_TEXT_SIZE]);

/* False when `text` is not 22 characters of URL-safe base64. */
MUST_USE bool uuid_parse(const char *text, size_t size, struct uuid *id);

#endif
