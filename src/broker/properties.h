/* Reader of the Java properties syntax. */
#ifndef TWINLOG_BROKER_PROPERTIES_H
#define TWINLOG_BROKER_PROPERTIES_H

#include "twinlog/core/bytes.h"
#include "twinlog/core/status.h"

struct properties {
    struct bytes left;
    uint32_t line; /* of the entry last read, from 1 */
    uint32_t next_line;
};

/* Starts over `text`, which must outlive the reader. */
void properties_init(struct properties *properties, struct bytes text);

/*
 * Reads the next entry into `key` and `value`, NUL-terminated. NOT_FOUND at the end; INVALID: a
 * malformed \u escape or a NUL; TOO_LARGE: does not fit. The line is in properties->line.
 */
MUST_USE status properties_next(struct properties *properties, char *key, size_t key_size,
                                char *value, size_t value_size);

#endif
