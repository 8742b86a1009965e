/*
 * Contexts of the codecs whose set-up costs more than a small batch, one set per thread: kept from
 * one batch to the next and freed when the thread ends. What grew over CODEC_CONTEXT_SIZE_MAX for a
 * large batch is given back behind it.
 */
#ifndef TWINLOG_PROTOCOL_CODEC_CONTEXTS_H
#define TWINLOG_PROTOCOL_CODEC_CONTEXTS_H

#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#include "twinlog/core/base.h"

#define CODEC_CONTEXT_SIZE_MAX ((size_t)2 * 1024 * 1024)

/* For one frame from its beginning; NULL: no memory. Each take is followed by its give. */
ZSTD_DCtx *codec_zstd_opener_take(void);
void codec_zstd_opener_give(ZSTD_DCtx *context);

/*
 * For frames of lz4 from the beginning of one; NULL: no memory. Its size cannot be asked: whoever
 * gives it back says whether all frames were whole and of blocks of at most 256 KiB.
 */
LZ4F_dctx *codec_lz4_opener_take(void);
void codec_lz4_opener_give(LZ4F_dctx *context, bool is_small);

/* True when the thread has a context of lz4 that it kept; for tests. */
bool codec_contexts_hold_lz4(void);

/* For one ZSTD_compressCCtx(), which sets the level; NULL: no memory. */
ZSTD_CCtx *codec_zstd_compressor_take(void);
void codec_zstd_compressor_give(ZSTD_CCtx *context);

/* For one gzip member at this level of zlib's, until the next call; NULL: no memory, no such level.
 */
z_stream *codec_gzip_compressor(int level);

#endif
