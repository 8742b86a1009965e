#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "codec_contexts.h"
#include "codec_samples.h"

static void assert_opens(enum codec codec, struct bytes input, struct bytes wanted)
{
    uint8_t *output;
    size_t size;
    assert_true(status_is_ok(codec_decompress(codec, input, wanted.size, &output, &size)));
    assert_int_equal(size, wanted.size);
    assert_memory_equal(output, wanted.data, size);
    free(output);
}

static void a_context_is_kept_for_the_next_batch(void **state)
{
    ZSTD_DCtx *opener = codec_zstd_opener_take();
    assert_non_null(opener);
    codec_zstd_opener_give(opener);
    assert_ptr_equal(codec_zstd_opener_take(), opener);
    codec_zstd_opener_give(opener);
    LZ4F_dctx *lz4_opener = codec_lz4_opener_take();
    assert_non_null(lz4_opener);
    codec_lz4_opener_give(lz4_opener, true);
    assert_ptr_equal(codec_lz4_opener_take(), lz4_opener);
    codec_lz4_opener_give(lz4_opener, true);
    ZSTD_CCtx *compressor = codec_zstd_compressor_take();
    assert_non_null(compressor);
    codec_zstd_compressor_give(compressor);
    assert_ptr_equal(codec_zstd_compressor_take(), compressor);
    codec_zstd_compressor_give(compressor);
    assert_non_null(codec_gzip_compressor(6));
    assert_null(codec_gzip_compressor(99));
    assert_non_null(codec_gzip_compressor(6));
}

static void what_was_compressed_before_does_not_show(void **state)
{
    static const enum codec codecs[] = {CODEC_GZIP, CODEC_ZSTD};
    static const int levels[] = {1, 9, INT32_MIN, 3};
    struct bytes small = make_input(700);
    struct bytes large = make_input(300000);
    for (size_t c = 0; c < COUNT_OF(codecs); c++) {
        struct bytes first[COUNT_OF(levels)];
        for (size_t i = 0; i < COUNT_OF(levels); i++) {
            first[i] = compressed(codecs[c], levels[i], small);
        }
        release(compressed(codecs[c], 9, large));
        for (size_t i = 0; i < 2 * COUNT_OF(levels); i++) {
            struct bytes again = compressed(codecs[c], levels[i / 2], small);
            assert_int_equal(again.size, first[i / 2].size);
            assert_memory_equal(again.data, first[i / 2].data, again.size);
            assert_opens(codecs[c], again, small);
            release(again);
        }
        for (size_t i = 0; i < COUNT_OF(levels); i++) {
            release(first[i]);
        }
    }
    release(small);
    release(large);
}

static void a_frame_that_breaks_off_does_no_harm_to_the_next(void **state)
{
    static const enum codec codecs[] = {CODEC_LZ4, CODEC_ZSTD};
    for (size_t c = 0; c < COUNT_OF(codecs); c++) {
        struct bytes input = make_input(20000);
        struct bytes whole = compressed(codecs[c], INT32_MIN, input);
        for (uint32_t size = 1; size < whole.size; size += 97) {
            uint8_t *output;
            size_t opened;
            struct bytes part = {whole.data, size};
            assert_int_equal(codec_decompress(codecs[c], part, input.size, &output, &opened).code,
                             STATUS_CORRUPT);
            assert_int_equal(codec_decompress(codecs[c], whole, 100, &output, &opened).code,
                             STATUS_TOO_LARGE);
            assert_opens(codecs[c], whole, input);
        }
        release(whole);
        release(input);
    }
}

/* A decoder of lz4 holds a block, and 64 KiB more when blocks refer to each other. */
static void only_an_lz4_frame_of_small_blocks_leaves_its_context(void **state)
{
    static const struct {
        LZ4F_blockSizeID_t id;
        uint32_t count; /* of frames, one behind the other */
        bool kept;
    } cases[] = {{LZ4F_max64KB, 1, true},
                 {LZ4F_max256KB, 1, true},
                 {LZ4F_max1MB, 1, false},
                 {LZ4F_max4MB, 1, false},
                 {LZ4F_max64KB, 2, false}};
    struct bytes input = make_input(1500000);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        LZ4F_preferences_t preferences = {.frameInfo = {.blockSizeID = cases[i].id}};
        size_t bound = LZ4F_compressFrameBound(input.size, &preferences);
        uint8_t *frames = malloc(2 * bound);
        size_t size = 0;
        for (uint32_t n = 0; n < cases[i].count; n++) {
            size += LZ4F_compressFrame(frames + size, bound, input.data, input.size, &preferences);
        }
        uint8_t *output;
        size_t opened;
        assert_true(status_is_ok(codec_decompress(CODEC_LZ4, (struct bytes){frames, (uint32_t)size},
                                                  4000000, &output, &opened)));
        assert_int_equal(opened, cases[i].count * input.size);
        free(output);
        assert_int_equal(codec_contexts_hold_lz4(), cases[i].kept);
        free(frames);
    }
    release(input);
}

static void what_grew_for_a_large_batch_is_given_back(void **state)
{
    struct bytes input = make_input(9000000);
    struct bytes whole = compressed(CODEC_ZSTD, 19, input);
    ZSTD_CCtx *compressor = codec_zstd_compressor_take();
    assert_true(ZSTD_sizeof_CCtx(compressor) <= CODEC_CONTEXT_SIZE_MAX);
    codec_zstd_compressor_give(compressor);
    assert_opens(CODEC_ZSTD, whole, input);
    ZSTD_DCtx *opener = codec_zstd_opener_take();
    assert_true(ZSTD_sizeof_DCtx(opener) <= CODEC_CONTEXT_SIZE_MAX);
    codec_zstd_opener_give(opener);
    release(whole);
    release(input);
}

static void *thread_main(void *context)
{
    const struct bytes *input = context;
    for (int i = 0; i < 20; i++) {
        for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
            struct bytes whole = compressed(codec, INT32_MIN, *input);
            assert_opens(codec, whole, *input);
            release(whole);
        }
    }
    return codec_zstd_opener_take();
}

/* LeakSanitizer tells whether they go with their threads, ThreadSanitizer whether they are alone.
 */
static void each_thread_has_its_own(void **state)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    struct bytes input = make_input(5000);
    ZSTD_DCtx *own = codec_zstd_opener_take();
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, thread_main, &input), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *other;
        assert_int_equal(pthread_join(threads[i], &other), 0);
        assert_non_null(other);
        assert_ptr_not_equal(other, own);
    }
    assert_ptr_equal(codec_zstd_opener_take(), own);
    release(input);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_is_kept_for_the_next_batch),
        cmocka_unit_test(what_was_compressed_before_does_not_show),
        cmocka_unit_test(a_frame_that_breaks_off_does_no_harm_to_the_next),
        cmocka_unit_test(only_an_lz4_frame_of_small_blocks_leaves_its_context),
        cmocka_unit_test(what_grew_for_a_large_batch_is_given_back),
        cmocka_unit_test(each_thread_has_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
