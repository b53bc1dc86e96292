/* Vectors of VECTOR_BYTES, and what GCC's vector extensions leave to each instruction set. Part of kernels_body.h. */
#ifndef HB_KERNELS_VECTOR_H
#define HB_KERNELS_VECTOR_H

#include <stdint.h>
#include <string.h>

#include "dynamics/kernels.h"

typedef hb_real vector __attribute__((vector_size(VECTOR_BYTES)));
typedef hb_real unaligned_vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(hb_real))));
#ifdef HB_DOUBLE
typedef int64_t lane_int;
#else
typedef int32_t lane_int;
#endif
typedef lane_int int_vector __attribute__((vector_size(VECTOR_BYTES)));

enum { WIDTH = VECTOR_BYTES / (int)sizeof(hb_real), PER_GROUP = HB_LANES / WIDTH };

/* Loops of known length, to be written out so that arrays of vectors become registers. With the checks of a sanitizer
 * in them that would take a compiler minutes: then they stay loops. */
#ifdef __clang__
#if __has_feature(address_sanitizer)
#define UNROLL _Pragma("clang loop unroll(disable)")
#else
#define UNROLL _Pragma("clang loop unroll(full)")
#endif
#elif defined(__SANITIZE_ADDRESS__)
#pragma GCC optimize("O1")
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE vector load(const hb_real *p)
{
    return *(const vector *)p;
}

ALWAYS_INLINE void store(hb_real *p, vector v)
{
    *(vector *)p = v;
}

ALWAYS_INLINE vector load_anywhere(const hb_real *p)
{
    return *(const unaligned_vector *)p;
}

ALWAYS_INLINE void store_anywhere(hb_real *p, vector v)
{
    *(unaligned_vector *)p = v;
}

ALWAYS_INLINE vector splat(hb_real x)
{
    return x - (vector){0};
}

/* a0 + a1, a2 + a3, ... and then those of b */
ALWAYS_INLINE vector sum_pairs(vector a, vector b)
{
#define PAIRS(...) __builtin_shufflevector(a, b, __VA_ARGS__)
#ifdef HB_DOUBLE
#define DOUBLE_BYTES 1
#else
#define DOUBLE_BYTES 2
#endif
#if VECTOR_BYTES * DOUBLE_BYTES == 128
    return PAIRS(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
           PAIRS(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif VECTOR_BYTES * DOUBLE_BYTES == 64
    return PAIRS(0, 2, 4, 6, 8, 10, 12, 14) + PAIRS(1, 3, 5, 7, 9, 11, 13, 15);
#elif VECTOR_BYTES * DOUBLE_BYTES == 32
    return PAIRS(0, 2, 4, 6) + PAIRS(1, 3, 5, 7);
#else
    return PAIRS(0, 2) + PAIRS(1, 3);
#endif
#undef PAIRS
}

/* adds the sum of each of four vectors' lanes to a number of its own */
ALWAYS_INLINE void add_sums_of_four(vector a, vector b, vector c, vector d, hb_real *to)
{
#if VECTOR_BYTES * DOUBLE_BYTES >= 64
    /* vectors of eight at most: pairs within their halves, which costs less than across them, and then the halves */
    typedef hb_real four __attribute__((vector_size(4 * sizeof(hb_real)), aligned(sizeof(hb_real))));
    typedef hb_real eight __attribute__((vector_size(8 * sizeof(hb_real))));
#if VECTOR_BYTES * DOUBLE_BYTES == 128
#define EIGHT(v)                                                                                                       \
    (__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +                                                           \
     __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15))
#else
#define EIGHT(v) v
#endif
#define PAIRS(x, y)                                                                                                    \
    (__builtin_shufflevector(x, y, 0, 2, 8, 10, 4, 6, 12, 14) +                                                        \
     __builtin_shufflevector(x, y, 1, 3, 9, 11, 5, 7, 13, 15))
    const eight a8 = EIGHT(a), b8 = EIGHT(b), c8 = EIGHT(c), d8 = EIGHT(d);
    const eight ab = PAIRS(a8, b8), cd = PAIRS(c8, d8), all = PAIRS(ab, cd);
    *(four *)to += __builtin_shufflevector(all, all, 0, 1, 2, 3) + __builtin_shufflevector(all, all, 4, 5, 6, 7);
#undef PAIRS
#undef EIGHT
#elif VECTOR_BYTES * DOUBLE_BYTES == 32
    store_anywhere(to, load_anywhere(to) + sum_pairs(sum_pairs(a, b), sum_pairs(c, d)));
#else
    store_anywhere(to, load_anywhere(to) + sum_pairs(a, b));
    store_anywhere(to + 2, load_anywhere(to + 2) + sum_pairs(c, d));
#endif
}

/* --- per instruction set ---
 *
 * positive_bits   one bit per lane: is x positive?
 * where           x where the bits are set, 0 elsewhere
 * at_least        max(low, x); a NaN stays one
 * at_most         min(high, x); a NaN stays one
 * reciprocal      1 / d for normal d, to two units in the last place
 * less_product    a - b c, rounded once */

#if defined(__AVX512F__) && !defined(HB_DOUBLE)
#include <immintrin.h>
ALWAYS_INLINE unsigned positive_bits(vector x)
{
    return _mm512_cmp_ps_mask((__m512)x, _mm512_setzero_ps(), _CMP_GT_OQ);
}
ALWAYS_INLINE vector where(unsigned bits, vector x)
{
    return (vector)_mm512_maskz_mov_ps((__mmask16)bits, (__m512)x);
}
ALWAYS_INLINE vector at_least(vector low, vector x)
{
    return (vector)_mm512_max_ps((__m512)low, (__m512)x);
}
ALWAYS_INLINE vector at_most(vector high, vector x)
{
    return (vector)_mm512_min_ps((__m512)high, (__m512)x);
}
ALWAYS_INLINE vector reciprocal(vector d)
{
    const vector r = (vector)_mm512_rcp14_ps((__m512)d);
    return r + r * (1 - d * r);
}
ALWAYS_INLINE vector less_product(vector a, vector b, vector c)
{
    return (vector)_mm512_fnmadd_ps((__m512)b, (__m512)c, (__m512)a);
}
#elif defined(__AVX2__) && !defined(HB_DOUBLE)
#include <immintrin.h>
ALWAYS_INLINE unsigned positive_bits(vector x)
{
    return (unsigned)_mm256_movemask_ps((__m256)(x > 0));
}
ALWAYS_INLINE vector at_least(vector low, vector x)
{
    return (vector)_mm256_max_ps((__m256)low, (__m256)x);
}
ALWAYS_INLINE vector at_most(vector high, vector x)
{
    return (vector)_mm256_min_ps((__m256)high, (__m256)x);
}
ALWAYS_INLINE vector reciprocal(vector d)
{
    const vector r = (vector)_mm256_rcp_ps((__m256)d);
    return r + r * (1 - d * r);
}
ALWAYS_INLINE vector less_product(vector a, vector b, vector c)
{
    return (vector)_mm256_fnmadd_ps((__m256)b, (__m256)c, (__m256)a);
}
#elif defined(__SSE2__) && !defined(HB_DOUBLE)
#include <emmintrin.h>
ALWAYS_INLINE unsigned positive_bits(vector x)
{
    return (unsigned)_mm_movemask_ps((__m128)(x > 0));
}
ALWAYS_INLINE vector at_least(vector low, vector x)
{
    return (vector)_mm_max_ps((__m128)low, (__m128)x);
}
ALWAYS_INLINE vector at_most(vector high, vector x)
{
    return (vector)_mm_min_ps((__m128)high, (__m128)x);
}
#else
ALWAYS_INLINE unsigned positive_bits(vector x)
{
    unsigned bits = 0;
    for (int i = 0; i < WIDTH; i++)
        bits |= (unsigned)(x[i] > 0) << i;
    return bits;
}
ALWAYS_INLINE vector at_least(vector low, vector x)
{
    const int_vector below = x < low;
    return (vector)(((int_vector)x & ~below) | ((int_vector)low & below));
}
ALWAYS_INLINE vector at_most(vector high, vector x)
{
    const int_vector above = x > high;
    return (vector)(((int_vector)x & ~above) | ((int_vector)high & above));
}
#endif

#if !defined(__AVX512F__) || defined(HB_DOUBLE)
ALWAYS_INLINE vector where(unsigned bits, vector x)
{
    int_vector lane_bit;
    for (int i = 0; i < WIDTH; i++)
        lane_bit[i] = 1 << i;
    return (vector)((int_vector)x & ((((lane_int)bits - (int_vector){0}) & lane_bit) != 0));
}
#endif

/* quotient: a / d, given per_d = reciprocal(d); quotient_with_rest: a / (d + rest) for a rest that is small beside d */
#if !defined(__AVX2__) || defined(HB_DOUBLE)
ALWAYS_INLINE vector reciprocal(vector d)
{
    return 1 / d;
}
ALWAYS_INLINE vector quotient(vector a, vector d, vector per_d)
{
    (void)per_d;
    return a / d;
}
ALWAYS_INLINE vector quotient_with_rest(vector a, vector d, vector rest, vector per_d)
{
    const vector guess = a / d;
    return guess - guess * rest * per_d;
}
#else
/* what is missing of the first guess gives its last bits, unless a is infinite */
ALWAYS_INLINE vector quotient(vector a, vector d, vector per_d)
{
    const vector guess = a * per_d;
    const vector missing = less_product(a, guess, d);
    return guess + per_d * (vector)((int_vector)missing & (missing == missing));
}
ALWAYS_INLINE vector quotient_with_rest(vector a, vector d, vector rest, vector per_d)
{
    const vector guess = a * per_d;
    const vector missing = less_product(a, guess, d) - guess * rest;
    return guess + per_d * missing;
}
#endif

#endif
