#include "twinlog/core/crc32c.h"

#include <isa-l/crc.h>

/* ISA-L counts in int; this is the largest step that keeps its 8-byte loads aligned. */
#define CRC32C_STEP_SIZE ((size_t)1 << 30)

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
    /* The cast only drops const: crc32_iscsi does not write. */
    unsigned char *at = (unsigned char *)(uintptr_t)data;
    uint32_t state = ~crc;
    while (size > 0) {
        size_t step = MIN(size, CRC32C_STEP_SIZE);
        state = crc32_iscsi(at, (int)step, state);
        at += step;
        size -= step;
    }
    return ~state;
}
