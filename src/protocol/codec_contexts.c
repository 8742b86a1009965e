#include "codec_contexts.h"

#include <pthread.h>
#include <stdlib.h>

#include "twinlog/core/assert.h"

struct codec_contexts {
    LZ4F_dctx *lz4_opener;
    ZSTD_DCtx *zstd_opener;
    ZSTD_CCtx *zstd_compressor;
    z_stream gzip_compressor;
    int gzip_level;
    bool gzip_ready;
};

static pthread_once_t contexts_once = PTHREAD_ONCE_INIT;
static pthread_key_t contexts_key;
static bool contexts_key_made;

static void gzip_end(struct codec_contexts *contexts)
{
    if (contexts->gzip_ready) {
        deflateEnd(&contexts->gzip_compressor);
        contexts->gzip_ready = false;
    }
}

static void contexts_free(void *data)
{
    struct codec_contexts *contexts = data;
    LZ4F_freeDecompressionContext(contexts->lz4_opener);
    ZSTD_freeDCtx(contexts->zstd_opener);
    ZSTD_freeCCtx(contexts->zstd_compressor);
    gzip_end(contexts);
    free(contexts);
}

static void contexts_key_make(void)
{
    contexts_key_made = pthread_key_create(&contexts_key, contexts_free) == 0;
}

/* The thread's; NULL: no memory. */
static struct codec_contexts *contexts_get(void)
{
    pthread_once(&contexts_once, contexts_key_make);
    if (!contexts_key_made) {
        return NULL;
    }
    struct codec_contexts *contexts = pthread_getspecific(contexts_key);
    if (contexts != NULL) {
        return contexts;
    }
    contexts = calloc(1, sizeof(*contexts));
    if (contexts != NULL && pthread_setspecific(contexts_key, contexts) != 0) {
        free(contexts);
        return NULL;
    }
    return contexts;
}

ZSTD_DCtx *codec_zstd_opener_take(void)
{
    struct codec_contexts *contexts = contexts_get();
    if (contexts == NULL) {
        return NULL;
    }
    if (contexts->zstd_opener == NULL) {
        contexts->zstd_opener = ZSTD_createDCtx();
    } else {
        /* The last one may have ended inside a frame. */
        size_t result = ZSTD_DCtx_reset(contexts->zstd_opener, ZSTD_reset_session_only);
        ASSERT(!ZSTD_isError(result));
    }
    return contexts->zstd_opener;
}

void codec_zstd_opener_give(ZSTD_DCtx *context)
{
    if (ZSTD_sizeof_DCtx(context) > CODEC_CONTEXT_SIZE_MAX) {
        struct codec_contexts *contexts = contexts_get();
        ASSERT(contexts->zstd_opener == context);
        contexts->zstd_opener = NULL;
        ZSTD_freeDCtx(context);
    }
}

LZ4F_dctx *codec_lz4_opener_take(void)
{
    struct codec_contexts *contexts = contexts_get();
    if (contexts == NULL) {
        return NULL;
    }
    if (contexts->lz4_opener != NULL) {
        LZ4F_resetDecompressionContext(contexts->lz4_opener);
    } else if (LZ4F_isError(LZ4F_createDecompressionContext(&contexts->lz4_opener, LZ4F_VERSION))) {
        contexts->lz4_opener = NULL;
    }
    return contexts->lz4_opener;
}

void codec_lz4_opener_give(LZ4F_dctx *context, bool is_small)
{
    if (!is_small) {
        struct codec_contexts *contexts = contexts_get();
        ASSERT(contexts->lz4_opener == context);
        contexts->lz4_opener = NULL;
        LZ4F_freeDecompressionContext(context);
    }
}

bool codec_contexts_hold_lz4(void)
{
    const struct codec_contexts *contexts = contexts_get();
    return contexts != NULL && contexts->lz4_opener != NULL;
}

ZSTD_CCtx *codec_zstd_compressor_take(void)
{
    struct codec_contexts *contexts = contexts_get();
    if (contexts == NULL) {
        return NULL;
    }
    if (contexts->zstd_compressor == NULL) {
        contexts->zstd_compressor = ZSTD_createCCtx();
    }
    return contexts->zstd_compressor;
}

void codec_zstd_compressor_give(ZSTD_CCtx *context)
{
    if (ZSTD_sizeof_CCtx(context) > CODEC_CONTEXT_SIZE_MAX) {
        struct codec_contexts *contexts = contexts_get();
        ASSERT(contexts->zstd_compressor == context);
        contexts->zstd_compressor = NULL;
        ZSTD_freeCCtx(context);
    }
}

z_stream *codec_gzip_compressor(int level)
{
    struct codec_contexts *contexts = contexts_get();
    if (contexts == NULL) {
        return NULL;
    }
    z_stream *stream = &contexts->gzip_compressor;
    if (contexts->gzip_ready && contexts->gzip_level == level) {
        int result = deflateReset(stream);
        ASSERT(result == Z_OK);
        return stream;
    }
    gzip_end(contexts);
    *stream = (z_stream){0};
    if (deflateInit2(stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return NULL;
    }
    contexts->gzip_ready = true;
    contexts->gzip_level = level;
    return stream;
}
