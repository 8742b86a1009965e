/* CRC32C (Castagnoli) over ISA-L, with the usual inversions, as Kafka's record batches use it. */
#ifndef TWINLOG_CORE_CRC32C_H
#define TWINLOG_CORE_CRC32C_H

#include "twinlog/core/base.h"

/* CRC of `size` bytes; `crc` is the value of the bytes before them, 0 at the start. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

#endif
