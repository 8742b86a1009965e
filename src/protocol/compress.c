/*
 * Every codec decompresses into one growing buffer whose size is bounded before it grows, so what
 * a frame claims about itself is never believed further than `size_max`.
 *
 * Snappy comes in two forms. The Java client frames it (xerial), big-endian:
 *
 *      0  8 bytes  82 'S' 'N' 'A' 'P' 'P' 'Y' 00
 *      8  int32    version, 1
 *     12  int32    lowest compatible version, 1
 *     16  then, repeated: int32 size, that many bytes of raw snappy
 *
 * Others send one raw snappy block.
 */
#include "twinlog/protocol/compress.h"

#include <lz4frame.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "twinlog/core/assert.h"

#include "codec_contexts.h"

#define OUTPUT_SIZE_FIRST 4096u
#define OUTPUT_SIZE_SPARE 65536u

static const uint8_t xerial_magic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0x00};
#define XERIAL_HEADER_SIZE 16u
#define XERIAL_BLOCK_SIZE  (32u * 1024) /* what the Java client uses */

#define LZ4_BLOCK_SIZE_AT      5u /* of a frame: its BD byte */
#define LZ4_LEVEL_FAST         9
#define LZ4_LEVEL_THOROUGH_MIN 3

/* The output so far. It may grow to one byte over size_max: that byte proves the excess. */
struct output {
    uint8_t *data;
    size_t size;
    size_t capacity;
    size_t size_max;
};

const char *codec_name(enum codec codec)
{
    static const char *const names[CODEC_COUNT] = {"none", "gzip", "snappy", "lz4", "zstd"};
    ASSERT(codec < CODEC_COUNT);
    return names[codec];
}

/* Makes room for `room` more bytes. */
static status output_reserve(struct output *out, size_t room)
{
    if (out->capacity - out->size >= room) {
        return OK;
    }
    size_t limit = out->size_max + 1;
    if (room > limit - out->size) {
        return STATUS(TOO_LARGE);
    }
    size_t capacity = MAX(out->size + room, MIN(out->capacity * 2, limit));
    uint8_t *data = realloc(out->data, capacity);
    if (data == NULL) {
        return STATUS(NO_MEMORY);
    }
    out->data = data;
    out->capacity = capacity;
    return OK;
}

/* Makes room for at least one byte more, doubling; TOO_LARGE when size_max has been passed. */
static status output_grow(struct output *out)
{
    return out->size > out->size_max ? STATUS(TOO_LARGE) : output_reserve(out, 1);
}

static status gzip_decompress_with(z_stream *stream, struct output *out)
{
    for (;;) {
        TRY(output_grow(out));
        size_t room = MIN(out->capacity - out->size, (size_t)UINT32_MAX);
        stream->next_out = out->data + out->size;
        stream->avail_out = (uInt)room;
        int result = inflate(stream, Z_NO_FLUSH);
        out->size += room - stream->avail_out;
        if (result == Z_STREAM_END) {
            /* Members may follow one another, as in a concatenated file. */
            if (stream->avail_in == 0) {
                return OK;
            }
            result = inflateReset(stream);
        } else if (result == Z_BUF_ERROR && stream->avail_out == 0) {
            continue;
        }
        if (result != Z_OK || (stream->avail_in == 0 && stream->avail_out != 0)) {
            return STATUS(CORRUPT);
        }
    }
}

static status gzip_decompress(struct bytes input, struct output *out)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)input.data, .avail_in = input.size};
    if (inflateInit2(&stream, 15 + 16) != Z_OK) {
        return STATUS(NO_MEMORY);
    }
    status result = gzip_decompress_with(&stream, out);
    inflateEnd(&stream);
    return result;
}

/* One raw block; output_reserve bounds the size it claims. */
static status snappy_decompress_block(const uint8_t *block, size_t block_size, struct output *out)
{
    size_t size;
    if (snappy_uncompressed_length((const char *)block, block_size, &size) != SNAPPY_OK) {
        return STATUS(CORRUPT);
    }
    TRY(output_reserve(out, size));
    if (snappy_uncompress((const char *)block, block_size, (char *)out->data + out->size, &size) !=
        SNAPPY_OK) {
        return STATUS(CORRUPT);
    }
    out->size += size;
    return OK;
}

static bool is_xerial_header(const uint8_t *at, const uint8_t *end)
{
    return (size_t)(end - at) >= XERIAL_HEADER_SIZE &&
           memcmp(at, xerial_magic, sizeof(xerial_magic)) == 0;
}

static status snappy_decompress(struct bytes input, struct output *out)
{
    const uint8_t *at = input.data;
    const uint8_t *end = at + input.size;
    if (!is_xerial_header(at, end)) {
        return snappy_decompress_block(at, input.size, out);
    }
    while (at < end) {
        /* Streams may follow one another: a header can stand wherever a block can. */
        if (is_xerial_header(at, end)) {
            at += XERIAL_HEADER_SIZE;
            continue;
        }
        if (end - at < 4) {
            return STATUS(CORRUPT);
        }
        uint32_t size = load_be32(at);
        at += 4;
        if (size > (size_t)(end - at)) {
            return STATUS(CORRUPT);
        }
        TRY(snappy_decompress_block(at, size, out));
        at += size;
    }
    return OK;
}

static status lz4_decompress_with(LZ4F_dctx *context, struct bytes input, struct output *out,
                                  bool *is_single)
{
    const uint8_t *at = input.data;
    const uint8_t *end = at + input.size;
    for (;;) {
        TRY(output_grow(out));
        size_t produced = out->capacity - out->size;
        size_t consumed = (size_t)(end - at);
        size_t hint =
            LZ4F_decompress(context, out->data + out->size, &produced, at, &consumed, NULL);
        if (LZ4F_isError(hint)) {
            return STATUS(CORRUPT);
        }
        at += consumed;
        out->size += produced;
        if (hint == 0 && at == end) {
            return out->size > out->size_max ? STATUS(TOO_LARGE) : OK;
        }
        *is_single = *is_single && hint != 0;
        if (produced == 0 && consumed == 0) {
            return STATUS(CORRUPT); /* the input ends inside a frame */
        }
    }
}

/* True when all there is is one frame of small blocks: what the decoder holds is a bit more. */
static bool lz4_is_small(struct bytes input)
{
    static const uint8_t magic[4] = {0x04, 0x22, 0x4d, 0x18};
    return input.size > LZ4_BLOCK_SIZE_AT && memcmp(input.data, magic, sizeof(magic)) == 0 &&
           (input.data[LZ4_BLOCK_SIZE_AT] >> 4 & 7) <= LZ4F_max256KB;
}

static status lz4_decompress(struct bytes input, struct output *out)
{
    bool is_single = true;
    LZ4F_dctx *context = codec_lz4_opener_take();
    if (context == NULL) {
        return STATUS(NO_MEMORY);
    }
    status result = lz4_decompress_with(context, input, out, &is_single);
    codec_lz4_opener_give(context, status_is_ok(result) && is_single && lz4_is_small(input));
    return result;
}

static status zstd_decompress_with(ZSTD_DCtx *context, struct bytes input, struct output *out)
{
    ZSTD_inBuffer in = {input.data, input.size, 0};
    for (;;) {
        TRY(output_grow(out));
        ZSTD_outBuffer piece = {out->data + out->size, out->capacity - out->size, 0};
        size_t before = in.pos;
        size_t hint = ZSTD_decompressStream(context, &piece, &in);
        if (ZSTD_isError(hint)) {
            return STATUS(CORRUPT);
        }
        out->size += piece.pos;
        if (hint == 0 && in.pos == in.size) {
            return out->size > out->size_max ? STATUS(TOO_LARGE) : OK;
        }
        if (piece.pos == 0 && in.pos == before) {
            return STATUS(CORRUPT); /* the input ends inside a frame */
        }
    }
}

/* The window is at most 128 MiB (the library's default limit) and touched only as it is filled. */
static status zstd_decompress(struct bytes input, struct output *out)
{
    ZSTD_DCtx *context = codec_zstd_opener_take();
    if (context == NULL) {
        return STATUS(NO_MEMORY);
    }
    status result = zstd_decompress_with(context, input, out);
    codec_zstd_opener_give(context);
    return result;
}

static status decompress(enum codec codec, struct bytes input, struct output *out)
{
    switch (codec) {
    case CODEC_GZIP:
        return gzip_decompress(input, out);
    case CODEC_SNAPPY:
        return snappy_decompress(input, out);
    case CODEC_LZ4:
        return lz4_decompress(input, out);
    case CODEC_ZSTD:
        return zstd_decompress(input, out);
    case CODEC_NONE:
        TRY(output_reserve(out, input.size));
        if (input.size > 0) {
            memcpy(out->data + out->size, input.data, input.size);
        }
        out->size += input.size;
        return OK;
    default:
        return STATUS(UNSUPPORTED);
    }
}

status codec_decompress(enum codec codec, struct bytes input, size_t size_max, uint8_t **output,
                        size_t *size)
{
    if (input.size == 0 && codec != CODEC_NONE && codec < CODEC_COUNT) {
        return STATUS(CORRUPT); /* every codec writes something for nothing */
    }
    struct output out = {.size_max = MIN(size_max, (size_t)INT32_MAX)};
    out.capacity = MIN(MAX((size_t)input.size * 2, (size_t)OUTPUT_SIZE_FIRST), out.size_max + 1);
    out.data = malloc(out.capacity);
    if (out.data == NULL) {
        return STATUS(NO_MEMORY);
    }
    status result = decompress(codec, input, &out);
    if (status_is_ok(result) && out.size > out.size_max) {
        result = STATUS(TOO_LARGE);
    }
    if (!status_is_ok(result)) {
        free(out.data);
        return result;
    }
    *output = out.data;
    *size = out.size;
    return OK;
}

static status gzip_compress(int level, struct bytes input, struct output *out)
{
    z_stream *stream = codec_gzip_compressor(level == INT32_MIN ? Z_DEFAULT_COMPRESSION : level);
    if (stream == NULL) {
        return STATUS(INVALID);
    }
    TRY(output_reserve(out, deflateBound(stream, input.size)));
    stream->next_in = (Bytef *)(uintptr_t)input.data;
    stream->avail_in = input.size;
    stream->next_out = out->data + out->size;
    stream->avail_out = (uInt)MIN(out->capacity - out->size, (size_t)UINT32_MAX);
    int result = deflate(stream, Z_FINISH);
    out->size += stream->total_out;
    return result == Z_STREAM_END ? OK : STATUS(TOO_LARGE);
}

static status snappy_compress_xerial(struct bytes input, struct output *out)
{
    TRY(output_reserve(out, XERIAL_HEADER_SIZE));
    uint8_t *head = out->data + out->size;
    memcpy(head, xerial_magic, sizeof(xerial_magic));
    store_be32(head + 8, 1);
    store_be32(head + 12, 1);
    out->size += XERIAL_HEADER_SIZE;
    for (uint32_t at = 0; at < input.size; at += XERIAL_BLOCK_SIZE) {
        uint32_t block_size = MIN(input.size - at, XERIAL_BLOCK_SIZE);
        size_t size = snappy_max_compressed_length(block_size);
        TRY(output_reserve(out, 4 + size));
        char *place = (char *)out->data + out->size + 4;
        snappy_status result =
            snappy_compress((const char *)input.data + at, block_size, place, &size);
        ASSERT(result == SNAPPY_OK);
        store_be32(out->data + out->size, (uint32_t)size);
        out->size += 4 + size;
    }
    return OK;
}

/*
 * Kafka's level is the Java library's: 9, the default, is the fast compressor, any other the
 * thorough one, whose levels begin at 3 here; the library takes those above 12 for 12.
 */
static int lz4_level(int level)
{
    return level == INT32_MIN || level == LZ4_LEVEL_FAST ? 0 : MAX(level, LZ4_LEVEL_THOROUGH_MIN);
}

/* Independent blocks: the Java client reads no others. */
static status lz4_compress(int level, struct bytes input, struct output *out)
{
    LZ4F_preferences_t preferences = {
        .frameInfo = {.blockSizeID = LZ4F_max64KB, .blockMode = LZ4F_blockIndependent},
        .compressionLevel = lz4_level(level),
    };
    TRY(output_reserve(out, LZ4F_compressFrameBound(input.size, &preferences)));
    size_t size = LZ4F_compressFrame(out->data + out->size, out->capacity - out->size, input.data,
                                     input.size, &preferences);
    if (LZ4F_isError(size)) {
        return STATUS(INVALID);
    }
    out->size += size;
    return OK;
}

static status zstd_compress(int level, struct bytes input, struct output *out)
{
    TRY(output_reserve(out, ZSTD_compressBound(input.size)));
    ZSTD_CCtx *context = codec_zstd_compressor_take();
    if (context == NULL) {
        return STATUS(NO_MEMORY);
    }
    size_t size =
        ZSTD_compressCCtx(context, out->data + out->size, out->capacity - out->size, input.data,
                          input.size, level == INT32_MIN ? ZSTD_CLEVEL_DEFAULT : level);
    codec_zstd_compressor_give(context);
    if (ZSTD_isError(size)) {
        return STATUS(INVALID);
    }
    out->size += size;
    return OK;
}

static status compress_into(enum codec codec, int level, struct bytes input, struct output *out)
{
    switch (codec) {
    case CODEC_GZIP:
        return gzip_compress(level, input, out);
    case CODEC_SNAPPY:
        return snappy_compress_xerial(input, out);
    case CODEC_LZ4:
        return lz4_compress(level, input, out);
    case CODEC_ZSTD:
        return zstd_compress(level, input, out);
    default:
        return decompress(codec, input, out); /* none copies, others are unsupported */
    }
}

status codec_compress(enum codec codec, int level, struct bytes input, uint8_t **output,
                      size_t *size)
{
    return codec_compress_behind(codec, level, input, 0, output, size);
}

status codec_compress_behind(enum codec codec, int level, struct bytes input, uint32_t lead,
                             uint8_t **output, size_t *size)
{
    /* Twice the input and a little holds what any codec makes of data it cannot compress. */
    struct output out = {.size = lead,
                         .size_max = (size_t)lead + (size_t)input.size * 2 + OUTPUT_SIZE_SPARE};
    out.capacity = MAX(OUTPUT_SIZE_FIRST, lead);
    out.data = malloc(out.capacity);
    if (out.data == NULL) {
        return STATUS(NO_MEMORY);
    }
    status result = compress_into(codec, level, input, &out);
    if (!status_is_ok(result)) {
        free(out.data);
        return result;
    }
    *output = out.data;
    *size = out.size;
    return OK;
}
