/*
 * CRC32C: ISA-L for what is long, the processor's own instruction for what is short.
 *
 * ISA-L picks AVX-512 where there is any, and its routine leaves the upper halves of the registers
 * dirty: from then on the SSE instructions of everybody else stall, measured at a tenth of the
 * broker's CPU per request (1,000 connections, 100 B records). So they are cleaned behind it.
 */
#include "twinlog/core/crc32c.h"

#include <isa-l/crc.h>
#include <string.h>

/* ISA-L counts in int; this is the largest step that keeps its 8-byte loads aligned. */
#define CRC32C_STEP_SIZE ((size_t)1 << 30)

/* Up to here one chain of 8-byte steps is as fast as several that must be joined. */
#define CRC32C_SHORT_MAX 1024

#if defined(__x86_64__)

#include <immintrin.h>

static bool crc32c_has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2");
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_short(uint32_t state, const uint8_t *at,
                                                               size_t size)
{
    uint64_t wide = state;
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        wide = _mm_crc32_u64(wide, word);
    }
    state = (uint32_t)wide;
    for (; size > 0; at++, size--) {
        state = _mm_crc32_u8(state, *at);
    }
    return state;
}

__attribute__((target("avx"))) static void registers_clean_avx(void)
{
    _mm256_zeroupper();
}

static void registers_clean(void)
{
    if (__builtin_cpu_supports("avx")) {
        registers_clean_avx();
    }
}

#else

static bool crc32c_has_instruction(void)
{
    return false;
}

static uint32_t crc32c_short(uint32_t state, const uint8_t *at, size_t size)
{
    return crc32_iscsi((unsigned char *)(uintptr_t)at, (int)size, state);
}

static void registers_clean(void)
{
}

#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
    if (size <= CRC32C_SHORT_MAX && crc32c_has_instruction()) {
        return ~crc32c_short(~crc, data, size);
    }
    /* The cast only drops const: crc32_iscsi does not write. */
    unsigned char *at = (unsigned char *)(uintptr_t)data;
    uint32_t state = ~crc;
    while (size > 0) {
        size_t step = MIN(size, CRC32C_STEP_SIZE);
        state = crc32_iscsi(at, (int)step, state);
        at += step;
        size -= step;
    }
    registers_clean();
    return ~state;
}
