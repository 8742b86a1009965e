#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <snappy-c.h>
#include <sys/resource.h>

#include "codec_samples.h"

static const enum codec all_codecs[] = {CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4,
                                        CODEC_ZSTD};

static void what_is_compressed_comes_back(void **state)
{
    static const uint32_t sizes[] = {0, 1, 100, 4095, 4096, 4097, 32768, 32769, 200000, 3000000};
    static const int levels[] = {INT32_MIN, 1, 9};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct bytes input = make_input(sizes[i]);
        for (size_t c = 0; c < COUNT_OF(all_codecs); c++) {
            struct bytes small = compressed(all_codecs[c], levels[i % 3], input);
            uint8_t *output;
            size_t size;
            assert_true(
                status_is_ok(codec_decompress(all_codecs[c], small, input.size, &output, &size)));
            assert_int_equal(size, input.size);
            assert_memory_equal(output, input.data, size);
            free(output);
            release(small);
        }
        release(input);
    }
}

static void one_byte_over_the_bound_is_too_large(void **state)
{
    static const uint32_t sizes[] = {1, 2, 4096, 70000};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct bytes input = make_input(sizes[i]);
        for (size_t c = 0; c < COUNT_OF(all_codecs); c++) {
            struct bytes small = compressed(all_codecs[c], INT32_MIN, input);
            uint8_t *output;
            size_t size;
            status result = codec_decompress(all_codecs[c], small, sizes[i] - 1, &output, &size);
            assert_int_equal(result.code, STATUS_TOO_LARGE);
            release(small);
        }
        release(input);
    }
}

static long peak_memory_kib(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* 512 frames of 1 MiB of zeros each; the bound is 1 MiB, and so is the memory, but for overhead. */
static void a_bomb_costs_its_bound(void **state)
{
    struct bytes zeros = {calloc(1, 1 << 20), 1 << 20};
    for (size_t c = 1; c < COUNT_OF(all_codecs); c++) {
        struct bytes frame = compressed(all_codecs[c], INT32_MIN, zeros);
        assert_true(frame.size < zeros.size / 16);
        uint32_t bomb_size = frame.size * 512;
        uint8_t *bomb = malloc(bomb_size);
        for (uint32_t at = 0; at < bomb_size; at += frame.size) {
            memcpy(bomb + at, frame.data, frame.size);
        }
        uint8_t *output;
        size_t size;
        long before = peak_memory_kib();
        status result = codec_decompress(all_codecs[c], (struct bytes){bomb, bomb_size}, 1 << 20,
                                         &output, &size);
        assert_int_equal(result.code, STATUS_TOO_LARGE);
        assert_true(peak_memory_kib() - before < 64L * 1024);
        free(bomb);
        release(frame);
    }
    release(zeros);
}

static void a_stream_cut_at_any_byte_is_corrupt(void **state)
{
    struct bytes input = make_input(700);
    for (size_t c = 1; c < COUNT_OF(all_codecs); c++) {
        struct bytes small = compressed(all_codecs[c], INT32_MIN, input);
        for (uint32_t cut = 0; cut < small.size; cut++) {
            /* The xerial header alone is a whole, empty stream. */
            if (all_codecs[c] == CODEC_SNAPPY && cut == 16) {
                continue;
            }
            uint8_t *copy = malloc(cut + (cut == 0));
            memcpy(copy, small.data, cut);
            uint8_t *output;
            size_t size;
            status result =
                codec_decompress(all_codecs[c], (struct bytes){copy, cut}, 1 << 20, &output, &size);
            assert_true(result.code == STATUS_CORRUPT || result.code == STATUS_TOO_LARGE);
            free(copy);
        }
        release(small);
    }
    release(input);
}

static void a_damaged_stream_never_crashes(void **state)
{
    struct bytes input = make_input(700);
    uint32_t noise = 99;
    for (size_t c = 1; c < COUNT_OF(all_codecs); c++) {
        struct bytes small = compressed(all_codecs[c], INT32_MIN, input);
        for (int round = 0; round < 2000; round++) {
            uint8_t *copy = malloc(small.size);
            memcpy(copy, small.data, small.size);
            noise = noise * 1664525 + 1013904223;
            copy[(noise >> 8) % small.size] ^= (uint8_t)(1 + (noise >> 24) % 255);
            uint8_t *output;
            size_t size;
            struct bytes damaged = {copy, small.size};
            if (status_is_ok(codec_decompress(all_codecs[c], damaged, 5000, &output, &size))) {
                assert_true(size <= 5000);
                free(output);
            }
            free(copy);
        }
        release(small);
    }
    release(input);
}

static void raw_snappy_is_read_as_well_as_xerial(void **state)
{
    struct bytes input = make_input(50000);
    size_t size = snappy_max_compressed_length(input.size);
    char *raw = malloc(size);
    assert_int_equal(snappy_compress((const char *)input.data, input.size, raw, &size), SNAPPY_OK);
    uint8_t *output;
    size_t output_size;
    struct bytes small = {(uint8_t *)raw, (uint32_t)size};
    assert_true(status_is_ok(codec_decompress(CODEC_SNAPPY, small, 50000, &output, &output_size)));
    assert_int_equal(output_size, input.size);
    assert_memory_equal(output, input.data, output_size);
    free(output);
    free(raw);
    release(input);
}

/* A raw block that claims 4 GiB in six bytes allocates nothing of the kind. */
static void a_snappy_block_is_not_believed(void **state)
{
    static const uint8_t claim[] = {0xff, 0xff, 0xff, 0xff, 0x0f, 0};
    uint8_t *output;
    size_t size;
    status result = codec_decompress(CODEC_SNAPPY, (struct bytes){claim, sizeof(claim)}, 1 << 20,
                                     &output, &size);
    assert_int_equal(result.code, STATUS_TOO_LARGE);
}

/* Both Java's and C's tools concatenate frames. */
static void frames_may_follow_one_another(void **state)
{
    struct bytes input = make_input(3000);
    for (size_t c = 1; c < COUNT_OF(all_codecs); c++) {
        struct bytes small = compressed(all_codecs[c], INT32_MIN, input);
        uint8_t *twice = malloc((size_t)small.size * 2);
        memcpy(twice, small.data, small.size);
        memcpy(twice + small.size, small.data, small.size);
        uint8_t *output;
        size_t size;
        struct bytes both = {twice, small.size * 2};
        assert_true(status_is_ok(codec_decompress(all_codecs[c], both, 6000, &output, &size)));
        assert_int_equal(size, 6000);
        assert_memory_equal(output + 3000, input.data, 3000);
        free(output);
        free(twice);
        release(small);
    }
    release(input);
}

static void unknown_codecs_are_unsupported(void **state)
{
    struct bytes input = bytes_of("text");
    uint8_t *output;
    size_t size;
    enum codec codec = CODEC_COUNT;
    assert_int_equal(codec_decompress(codec, input, 100, &output, &size).code, STATUS_UNSUPPORTED);
    assert_int_equal(codec_compress(codec, INT32_MIN, input, &output, &size).code,
                     STATUS_UNSUPPORTED);
}

static void codecs_have_kafkas_names(void **state)
{
    static const char *const names[] = {"none", "gzip", "snappy", "lz4", "zstd"};
    for (size_t c = 0; c < COUNT_OF(names); c++) {
        assert_string_equal(codec_name(all_codecs[c]), names[c]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_compressed_comes_back),
        cmocka_unit_test(one_byte_over_the_bound_is_too_large),
        cmocka_unit_test(a_bomb_costs_its_bound),
        cmocka_unit_test(a_stream_cut_at_any_byte_is_corrupt),
        cmocka_unit_test(a_damaged_stream_never_crashes),
        cmocka_unit_test(raw_snappy_is_read_as_well_as_xerial),
        cmocka_unit_test(a_snappy_block_is_not_believed),
        cmocka_unit_test(frames_may_follow_one_another),
        cmocka_unit_test(unknown_codecs_are_unsupported),
        cmocka_unit_test(codecs_have_kafkas_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
