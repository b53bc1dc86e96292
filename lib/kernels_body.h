/* The kernels, written once in GCC vector extensions; included by one file an instruction set, which defines
 *
 *     HB_KERNELS_SYMBOL  the constant to define, and HB_KERNELS_NAME, its name
 *     VECTOR_BYTES       width of a register
 *     VECTOR_REGISTERS   how many there are
 *
 * y = A x: a tile of `height` rows of A times `width` vectors of x is held in registers. Each step over nin loads
 * `width` vectors and broadcasts `height` numbers for width * height multiply-adds:
 *
 *                     x: width vectors            32 registers: 3 x 7, 6 x 4, 8 x 3, 12 x 2, 8 x 1
 *     A: height       +-----------------+         16 registers: 6 x 2, 8 x 1
 *     broadcasts      | sums, registers |
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

typedef hb_real vector __attribute__((vector_size(VECTOR_BYTES)));
typedef hb_real unaligned_vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(hb_real))));
#ifdef HB_DOUBLE
typedef int64_t lane_int;
#else
typedef int32_t lane_int;
#endif
typedef lane_int int_vector __attribute__((vector_size(VECTOR_BYTES)));

enum { WIDTH = VECTOR_BYTES / (int)sizeof(hb_real), PER_GROUP = HB_LANES / WIDTH };

/* loops of known length, to be written out so that arrays of vectors become registers */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 12")
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

/* --- ReLU and its slope: one bit a lane --- */

/* is x positive? And max(x, 0), by which a NaN stays one; and x where the bits are set, 0 elsewhere */
#if defined(__AVX512F__) && !defined(HB_DOUBLE)
#include <immintrin.h>
ALWAYS_INLINE unsigned positive_bits(vector x)
{
    return _mm512_cmp_ps_mask((__m512)x, _mm512_setzero_ps(), _CMP_GT_OQ);
}
ALWAYS_INLINE vector positive_part(vector x)
{
    return (vector)_mm512_max_ps(_mm512_setzero_ps(), (__m512)x);
}
ALWAYS_INLINE vector where(unsigned bits, vector x)
{
    return (vector)_mm512_maskz_mov_ps((__mmask16)bits, (__m512)x);
}
#elif defined(__AVX2__) && !defined(HB_DOUBLE)
#include <immintrin.h>
ALWAYS_INLINE unsigned positive_bits(vector x)
{
    return (unsigned)_mm256_movemask_ps((__m256)(x > 0));
}
ALWAYS_INLINE vector positive_part(vector x)
{
    return (vector)_mm256_max_ps(_mm256_setzero_ps(), (__m256)x);
}
#elif defined(__SSE2__) && !defined(HB_DOUBLE)
#include <emmintrin.h>
ALWAYS_INLINE unsigned positive_bits(vector x)
{
    return (unsigned)_mm_movemask_ps((__m128)(x > 0));
}
ALWAYS_INLINE vector positive_part(vector x)
{
    return (vector)_mm_max_ps(_mm_setzero_ps(), (__m128)x);
}
#else
ALWAYS_INLINE unsigned positive_bits(vector x)
{
    unsigned bits = 0;
    for (int i = 0; i < WIDTH; i++)
        bits |= (unsigned)(x[i] > 0) << i;
    return bits;
}
ALWAYS_INLINE vector positive_part(vector x)
{
    return (vector)((int_vector)x & ~(x < 0));
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

/* rows of bits; vectors of less than a byte of them leave slopes to a pass of its own */
enum { BITS_STRIDE = HB_STRIDE / 8, WHOLE_BYTES = WIDTH % 8 == 0 };

ALWAYS_INLINE unsigned load_bits(const unsigned char *from)
{
    return WIDTH > 8 ? from[0] | (unsigned)from[1] << 8 : from[0];
}

ALWAYS_INLINE void store_bits(unsigned char *to, unsigned bits)
{
    to[0] = (unsigned char)bits;
    if (WIDTH > 8)
        to[1] = (unsigned char)(bits >> 8);
}

/* --- products --- */

/* what becomes of a product on its way to memory */
typedef enum { PLAIN, RELU, RELU_KEEPING_BITS, TIMES_BITS } ending;

ALWAYS_INLINE void put(const ending end, const int height, const int width, vector sum[12][7], hb_real *y,
                       ptrdiff_t y_stride, unsigned char *bits)
{
    UNROLL
    for (int r = 0; r < height; r++)
    UNROLL
        for (int v = 0; v < width; v++) {
            const int at = r * BITS_STRIDE + v * WIDTH / 8;
            vector value = sum[r][v];
            if (end == RELU_KEEPING_BITS)
                store_bits(bits + at, positive_bits(value));
            if (end == RELU || end == RELU_KEEPING_BITS)
                value = positive_part(value);
            if (end == TIMES_BITS)
                value = where(load_bits(bits + at), value);
            store(y + r * y_stride + v * WIDTH, value);
        }
}

ALWAYS_INLINE void tile(const int height, const int width, int nin, const hb_real *a, ptrdiff_t row, ptrdiff_t column,
                        const hb_real *bias, const hb_real *x, ptrdiff_t x_stride, hb_real *y, ptrdiff_t y_stride,
                        ending end, unsigned char *bits)
{
    vector sum[12][7];

    UNROLL
    for (int r = 0; r < height; r++)
    UNROLL
        for (int v = 0; v < width; v++)
            sum[r][v] = splat(bias ? bias[r] : 0);

#pragma GCC unroll 2
    for (int k = 0; k < nin; k++) {
        vector in[7];
    UNROLL
        for (int v = 0; v < width; v++)
            in[v] = load(x + k * x_stride + v * WIDTH);
    UNROLL
        for (int r = 0; r < height; r++) {
            const vector weight = splat(a[r * row + k * column]);
    UNROLL
            for (int v = 0; v < width; v++)
                sum[r][v] += weight * in[v];
        }
    }

    switch (end) {
    case PLAIN:
        put(PLAIN, height, width, sum, y, y_stride, bits);
        break;
    case RELU:
        put(RELU, height, width, sum, y, y_stride, bits);
        break;
    case RELU_KEEPING_BITS:
        put(RELU_KEEPING_BITS, height, width, sum, y, y_stride, bits);
        break;
    case TIMES_BITS:
        put(TIMES_BITS, height, width, sum, y, y_stride, bits);
        break;
    }
}

/* all rows of `width` vectors: tiles of full height, then one of what is left */
#define DEFINE_PANEL(width, height)                                                                                    \
    static void panel_##width(int nout, int nin, const hb_real *a, ptrdiff_t row, ptrdiff_t column,                    \
                              const hb_real *bias, const hb_real *x, ptrdiff_t x_stride, hb_real *y,                   \
                              ptrdiff_t y_stride, ending end, unsigned char *bits)                                     \
    {                                                                                                                  \
        int r = 0;                                                                                                     \
        for (; r + height <= nout; r += height)                                                                        \
            tile(height, width, nin, a + r * row, row, column, bias ? bias + r : NULL, x, x_stride, y + r * y_stride,  \
                 y_stride, end, bits ? bits + r * BITS_STRIDE : NULL);                                                 \
        a += r * row;                                                                                                  \
        bias = bias ? bias + r : NULL;                                                                                 \
        y += r * y_stride;                                                                                             \
        bits = bits ? bits + r * BITS_STRIDE : NULL;                                                                   \
        switch (nout - r) {                                                                                            \
            REST(11, width, height)                                                                                    \
            REST(10, width, height)                                                                                    \
            REST(9, width, height)                                                                                     \
            REST(8, width, height)                                                                                     \
            REST(7, width, height)                                                                                     \
            REST(6, width, height)                                                                                     \
            REST(5, width, height)                                                                                     \
            REST(4, width, height)                                                                                     \
            REST(3, width, height)                                                                                     \
            REST(2, width, height)                                                                                     \
            REST(1, width, height)                                                                                     \
        }                                                                                                              \
    }
#define REST(rest, width, height)                                                                                      \
    case rest:                                                                                                         \
        if (rest < height)                                                                                             \
            tile(rest < height ? rest : 1, width, nin, a, row, column, bias, x, x_stride, y, y_stride, end, bits);     \
        break;

#if VECTOR_REGISTERS >= 32
DEFINE_PANEL(7, 3)
DEFINE_PANEL(4, 6)
DEFINE_PANEL(3, 8)
DEFINE_PANEL(2, 12)
DEFINE_PANEL(1, 8)
#else
DEFINE_PANEL(2, 6)
DEFINE_PANEL(1, 8)
#endif

static void product(int nout, int nin, const hb_real *a, ptrdiff_t row, ptrdiff_t column, const hb_real *bias,
                    const hb_real *x, ptrdiff_t x_stride, hb_real *y, ptrdiff_t y_stride, int n, ending end,
                    unsigned char *bits)
{
    int left = n / WIDTH;

#define PANEL(width)                                                                                                   \
    {                                                                                                                  \
        panel_##width(nout, nin, a, row, column, bias, x, x_stride, y, y_stride, end, bits);                           \
        x += width * WIDTH;                                                                                            \
        y += width * WIDTH;                                                                                            \
        bits = bits ? bits + width * WIDTH / 8 : NULL;                                                                 \
        left -= width;                                                                                                 \
    }

#if VECTOR_REGISTERS >= 32
    while (left > 0) {
        if (left == 7)
            PANEL(7)
        else if (left == 4 || left > 6)
            PANEL(4)
        else if (left == 3 || left > 4)
            PANEL(3)
        else if (left == 2)
            PANEL(2)
        else
            PANEL(1)
    }
#else
    while (left > 0) {
        if (left >= 2)
            PANEL(2)
        else
            PANEL(1)
    }
#endif
#undef PANEL
}

static void affine(int nout, int nin, const hb_real *a, ptrdiff_t row, ptrdiff_t column, const hb_real *bias,
                   const hb_real *x, ptrdiff_t x_stride, hb_real *y, ptrdiff_t y_stride, int n)
{
    product(nout, nin, a, row, column, bias, x, x_stride, y, y_stride, n, PLAIN, NULL);
}

/* --- affine_single: rows of A lie along the lanes --- */

ALWAYS_INLINE hb_real sum_of(vector v)
{
    hb_real lane[WIDTH];
    __builtin_memcpy(lane, &v, sizeof v);
    for (int half = WIDTH / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

ALWAYS_INLINE void dot_products(const int rows, int nin, const hb_real *a, const hb_real *x, hb_real *y)
{
    vector sum[4] = {0};
    int k = 0;

    for (; k + WIDTH <= nin; k += WIDTH) {
        const vector in = load_anywhere(x + k);
        UNROLL
        for (int r = 0; r < rows; r++)
            sum[r] += load_anywhere(a + r * nin + k) * in;
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        hb_real total = sum_of(sum[r]);
        for (int j = k; j < nin; j++)
            total += a[r * nin + j] * x[j];
        y[r] += total;
    }
}

static void affine_single(int nout, int nin, const hb_real *a, const hb_real *bias, const hb_real *x, hb_real *y)
{
    int r = 0;

    memcpy(y, bias, (size_t)nout * sizeof *y);
    for (; r + 4 <= nout; r += 4)
        dot_products(4, nin, a + r * nin, x, y + r);
    for (; r < nout; r++)
        dot_products(1, nin, a + r * nin, x, y + r);
}

/* --- activations: accuracy is tested in tests/unit/test_kernels.c --- */

#ifdef HB_DOUBLE

/* doubles serve to check derivatives, not to fly: the C library's functions, lane by lane */
ALWAYS_INLINE vector map(vector x, double (*f)(double))
{
    for (int i = 0; i < WIDTH; i++)
        x[i] = f(x[i]);
    return x;
}

ALWAYS_INLINE vector exp_minus_one(vector x)
{
    return map(x, expm1);
}

ALWAYS_INLINE vector exponential(vector x)
{
    return map(x, exp);
}

#else

/* e^x - 1 = 2^n (p(r) + 1) - 1 with x = n ln 2 + r, |r| <= ln 2 / 2, and p(r) = e^r - 1 a polynomial of degree 7 */
ALWAYS_INLINE vector reduce(vector x, vector *scale)
{
    const float rounder = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    const vector shifted = x * 1.44269504f + rounder;
    const vector n = shifted - rounder;
    const vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;

    *scale = (vector)(((int_vector)shifted << 23) + 0x3f800000);
    vector p = splat(1.9841270e-4f);
    p = p * r + 1.3888889e-3f;
    p = p * r + 8.3333333e-3f;
    p = p * r + 4.1666667e-2f;
    p = p * r + 1.6666667e-1f;
    p = p * r + 0.5f;
    return p * r * r + r;
}

/* the range in which 2^n is a normal number; beyond it the activations are flat to the last bit */
ALWAYS_INLINE vector clamp(vector x)
{
    x = (vector)((int_vector)x & (x > -87.0f)) + (vector)((int_vector)splat(-87.0f) & (x <= -87.0f)) +
        (vector)((int_vector)x & (x != x));
    return (vector)((int_vector)x & ~(x > 87.0f)) + (vector)((int_vector)splat(87.0f) & (x > 87.0f));
}

ALWAYS_INLINE vector exp_minus_one(vector x)
{
    vector scale;
    const vector p = reduce(clamp(x), &scale);
    return scale * p + (scale - 1.0f);
}

ALWAYS_INLINE vector exponential(vector x)
{
    vector scale;
    const vector p = reduce(clamp(x), &scale);
    return scale * p + scale;
}

#endif

/* tanh x = -e / (e + 2) for e = exp(-2 |x|) - 1, with the sign of x */
ALWAYS_INLINE vector tanh_of(vector x)
{
    const int_vector sign = (int_vector)x & (int_vector)splat((hb_real)-0.0);
    const vector e = exp_minus_one(-2 * (vector)((int_vector)x ^ sign));
    return (vector)((int_vector)(-e / (e + 2)) ^ sign);
}

/* One row of ReLU, or d *= slope of one row, where a product cannot do it in passing. Bits: a word a group, or NULL. */
ALWAYS_INLINE void relu(hb_real *y, uint16_t *bits, int n)
{
    for (int g = 0; g < n; g += HB_LANES) {
        unsigned positive = 0;
        UNROLL
        for (int i = 0; i < PER_GROUP; i++) {
            hb_real *at = y + g + i * WIDTH;
            const vector x = load(at);
            if (bits)
                positive |= positive_bits(x) << (i * WIDTH);
            store(at, positive_part(x));
        }
        if (bits)
            bits[g / HB_LANES] = (uint16_t)positive;
    }
}

ALWAYS_INLINE void relu_back(hb_real *d, const uint16_t *bits, int n)
{
    for (int s = 0; s < n; s += WIDTH)
        store(d + s, where((unsigned)bits[s / HB_LANES] >> s % HB_LANES, load(d + s)));
}

ALWAYS_INLINE void smooth(hb_activation activation, hb_real *y, hb_real *derivative, int n)
{
    for (int s = 0; s < n; s += WIDTH) {
        const vector x = load(y + s);
        vector value, d;
        if (activation == HB_TANH) {
            value = tanh_of(x);
            d = 1 - value * value;
        } else {
            const vector sigmoid = 1 / (1 + exponential(-x));
            value = x * sigmoid;
            d = sigmoid * (1 + x * (1 - sigmoid));
        }
        store(y + s, value);
        if (derivative)
            store(derivative + s, d);
    }
}

static void activate(hb_activation activation, int rows, hb_real *y, void *slope, int n)
{
    for (int r = 0; r < rows; r++, y += HB_STRIDE) {
        if (activation == HB_RELU)
            relu(y, slope ? (uint16_t *)slope + r * (HB_STRIDE / HB_LANES) : NULL, n);
        else
            smooth(activation, y, slope ? (hb_real *)slope + r * HB_STRIDE : NULL, n);
    }
}

static void layer(hb_activation activation, int nout, int nin, const hb_real *a, const hb_real *bias, const hb_real *x,
                  hb_real *y, void *slope, int n)
{
    const bool in_passing = activation == HB_RELU && (WHOLE_BYTES || !slope);
    const ending end = !in_passing ? PLAIN : slope ? RELU_KEEPING_BITS : RELU;

    product(nout, nin, a, nin, 1, bias, x, HB_STRIDE, y, HB_STRIDE, n, end, slope);
    if (!in_passing)
        activate(activation, nout, y, slope, n);
}

static void layer_back(hb_activation activation, int nout, int nin, const hb_real *a, const hb_real *d, hb_real *below,
                       const void *slope, int n)
{
    const bool in_passing = activation == HB_RELU && WHOLE_BYTES;

    product(nin, nout, a, 1, nin, NULL, d, HB_STRIDE, below, HB_STRIDE, n, in_passing ? TIMES_BITS : PLAIN,
            (void *)slope);
    for (int r = 0; !in_passing && r < nin; r++, below += HB_STRIDE) {
        if (activation == HB_RELU) {
            relu_back(below, (const uint16_t *)slope + r * (HB_STRIDE / HB_LANES), n);
            continue;
        }
        const hb_real *derivative = (const hb_real *)slope + r * HB_STRIDE;
        for (int s = 0; s < n; s += WIDTH)
            store(below + s, load(below + s) * load(derivative + s));
    }
}

/* --- rows --- */

static void combine(int rows, int n, const hb_real *base, hb_real factor, const hb_real *of_row,
                    const hb_real *of_lane, const hb_real *x, hb_real *y)
{
    for (int r = 0; r < rows; r++) {
        const hb_real mine = of_row ? factor * of_row[r] : factor;
        for (int s = 0; s < n; s += WIDTH) {
            const int at = r * HB_STRIDE + s;
            const vector weight = of_lane ? mine * load_anywhere(of_lane + s) : splat(mine);
            store_anywhere(y + at, (base ? load_anywhere(base + at) : splat(0)) + weight * load_anywhere(x + at));
        }
    }
}

#define STRING_OF(x) #x
#define NAME_OF(x)   STRING_OF(x)
extern const hb_kernels HB_KERNELS_SYMBOL;
const hb_kernels HB_KERNELS_SYMBOL = {
    .name = NAME_OF(HB_KERNELS_NAME),
    .affine = affine,
    .affine_single = affine_single,
    .activate = activate,
    .layer = layer,
    .layer_back = layer_back,
    .combine = combine,
};
