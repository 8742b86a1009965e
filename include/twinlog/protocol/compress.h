/*
 * Kafka's compression codecs: gzip (zlib), snappy (xerial framing and raw), lz4 (frame format),
 * zstd. Bounded decompression only: a bomb costs its bound, never more.
 */
#ifndef TWINLOG_PROTOCOL_COMPRESS_H
#define TWINLOG_PROTOCOL_COMPRESS_H

#include "twinlog/core/bytes.h"
#include "twinlog/core/status.h"

enum codec { CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD, CODEC_COUNT };

/* "none", "gzip", ...: Kafka's names. */
const char *codec_name(enum codec codec);

/*
 * Decompresses `input` into *output (malloc, grown as needed; the caller frees it on OK).
 * TOO_LARGE when it would pass `size_max`; CORRUPT when malformed; NO_MEMORY; UNSUPPORTED codec.
 */
MUST_USE status codec_decompress(enum codec codec, struct bytes input, size_t size_max,
                                 uint8_t **output, size_t *size);

/*
 * Compresses `input` into *output (malloc; the caller frees it on OK). `level` counts as Kafka's
 * compression.*.level do, INT32_MIN is the default. INVALID: the level; NO_MEMORY; UNSUPPORTED.
 */
MUST_USE status codec_compress(enum codec codec, int level, struct bytes input, uint8_t **output,
                               size_t *size);

/* The same behind `lead` bytes that are the caller's to fill; they count in *size. */
MUST_USE status codec_compress_behind(enum codec codec, int level, struct bytes input,
                                      uint32_t lead, uint8_t **output, size_t *size);

#endif
