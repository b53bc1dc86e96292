/* Smooth activations and their derivatives; accuracy is tested in tests/unit/dynamics/test_kernels.c. Part of kernels_body.h.
 *
 * Each is one long chain of operations that wait for one another, so several rows go through it side by side: EACH
 * row takes a step before any takes the next. */
#ifndef HB_KERNELS_SMOOTH_H
#define HB_KERNELS_SMOOTH_H

#include <math.h>

#include "dynamics/kernels_vector.h"

enum { SIDE_BY_SIDE = VECTOR_REGISTERS / 8 };

#define EACH                                                                                                           \
    UNROLL                                                                                                             \
    for (int i = 0; i < count; i++)

/* e^x = scale (1 + p), where p is small if x is */
typedef struct exponential {
    vector scale[SIDE_BY_SIDE], per_scale[SIDE_BY_SIDE], p[SIDE_BY_SIDE];
} exponential;

#ifdef HB_DOUBLE

/* in double precision, which only tests use: the C library's functions, lane by lane */
ALWAYS_INLINE void exponential_of(const int count, vector x[SIDE_BY_SIDE], exponential *e)
{
    for (int i = 0; i < count; i++) {
        vector scale = splat(1), p = splat(0);
        for (int lane = 0; lane < WIDTH; lane++) {
            const double at = x[i][lane];
            if (fabs(at) > 30)
                scale[lane] = exp(fmax(fmin(at, 700), -700));
            else
                p[lane] = expm1(at);
        }
        e->scale[i] = scale;
        e->per_scale[i] = 1 / scale;
        e->p[i] = p;
    }
}

#else

/* With x = n ln 2 + r, |r| <= ln 2 / 2: scale = 2^n, by which no bit is lost, and p = e^r - 1 = r + r^2 q(r), q being
 * the polynomial of degree 4 with the least largest error, 3e-9 of e^r. x is held where 2^n is a normal number; beyond
 * it the activations are flat to the last bit. */
ALWAYS_INLINE void exponential_of(const int count, vector x[SIDE_BY_SIDE], exponential *e)
{
    const float rounder = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    vector n[SIDE_BY_SIDE], r[SIDE_BY_SIDE], q[SIDE_BY_SIDE];

    EACH x[i] = at_least(splat(-87), at_most(splat(87), x[i]));
    EACH n[i] = x[i] * 1.44269504f + rounder;
    EACH e->scale[i] = (vector)(0x3f800000 + ((int_vector)n[i] << 23));
    EACH e->per_scale[i] = (vector)(0x3f800000 - ((int_vector)n[i] << 23));
    EACH n[i] -= rounder;
    EACH r[i] = (x[i] - n[i] * 0.693359375f) + n[i] * 2.12194440e-4f;
    EACH q[i] = 1.38145394e-3f * r[i] + 8.36874545e-3f;
    EACH q[i] = q[i] * r[i] + 4.16683890e-2f;
    EACH q[i] = q[i] * r[i] + 1.66665211e-1f;
    EACH q[i] = q[i] * r[i] + 4.99999940e-1f;
    EACH e->p[i] = q[i] * r[i] * r[i] + r[i];
}

#endif

/* tanh x = (1 - e) / (1 + e) for e = exp(-2 |x|), with the sign of x; its derivative is 1 - tanh^2 */
ALWAYS_INLINE void tanh_of(const int count, const vector x[SIDE_BY_SIDE], vector value[SIDE_BY_SIDE],
                           vector derivative[SIDE_BY_SIDE])
{
    const int_vector minus = (int_vector)splat((hb_real)-0.0);
    vector above[SIDE_BY_SIDE], below[SIDE_BY_SIDE], per_below[SIDE_BY_SIDE], lost[SIDE_BY_SIDE];
    exponential e;

    EACH value[i] = -2 * (vector)((int_vector)x[i] & ~minus);
    exponential_of(count, value, &e);
    EACH above[i] = (1 - e.scale[i]) - e.scale[i] * e.p[i];
    EACH below[i] = (1 + e.scale[i]) + e.scale[i] * e.p[i];
    /* corrects the rounding error of the denominator */
    EACH lost[i] = ((1 + e.scale[i]) - below[i]) + e.scale[i] * e.p[i];
    EACH per_below[i] = reciprocal(below[i]);
    EACH value[i] = quotient_with_rest(above[i], below[i], lost[i], per_below[i]);
    EACH value[i] = (vector)((int_vector)value[i] | ((int_vector)x[i] & minus));
    EACH derivative[i] = 1 - value[i] * value[i];
}

/* x s with s = 1 / (1 + exp(-x)); its derivative is s + x s (1 - s) */
ALWAYS_INLINE void silu_of(const int count, const vector x[SIDE_BY_SIDE], vector value[SIDE_BY_SIDE],
                           vector derivative[SIDE_BY_SIDE])
{
    vector below[SIDE_BY_SIDE], s[SIDE_BY_SIDE];
    exponential e;

    EACH value[i] = -x[i];
    exponential_of(count, value, &e);
    EACH below[i] = e.scale[i] * (e.p[i] + e.per_scale[i]) + e.scale[i];
    EACH s[i] = reciprocal(below[i]);
    EACH value[i] = quotient(x[i], below[i], s[i]);
    EACH derivative[i] = s[i] + value[i] * (1 - s[i]);
}

/* `count` neighbouring vectors: y = act(y) */
ALWAYS_INLINE void smooth_neighbours(const int count, hb_activation activation, hb_real *y)
{
    vector x[SIDE_BY_SIDE], value[SIDE_BY_SIDE], d[SIDE_BY_SIDE];

    EACH x[i] = load(y + i * WIDTH);
    if (activation == HB_TANH)
        tanh_of(count, x, value, d);
    else
        silu_of(count, x, value, d);
    EACH store(y + i * WIDTH, value[i]);
}

static void smooth_span(hb_activation activation, hb_real *y, int n)
{
    int s = 0;

    for (; s + SIDE_BY_SIDE * WIDTH <= n; s += SIDE_BY_SIDE * WIDTH)
        smooth_neighbours(SIDE_BY_SIDE, activation, y + s);
    for (; s < n; s += WIDTH)
        smooth_neighbours(1, activation, y + s);
}

/* n lanes of `count` rows: y = act(y), and its derivative unless that is NULL */
ALWAYS_INLINE void smooth_rows(const int count, hb_activation activation, hb_real *y, hb_real *derivative, int n)
{
    for (int s = 0; s < n; s += WIDTH) {
        vector x[SIDE_BY_SIDE], value[SIDE_BY_SIDE], d[SIDE_BY_SIDE];

        EACH x[i] = load(y + i * HB_STRIDE + s);
        if (activation == HB_TANH)
            tanh_of(count, x, value, d);
        else
            silu_of(count, x, value, d);
        EACH store(y + i * HB_STRIDE + s, value[i]);
        if (derivative)
            EACH store(derivative + i * HB_STRIDE + s, d[i]);
    }
}

static void smooth(hb_activation activation, int rows, hb_real *y, hb_real *derivative, int n)
{
    int r = 0;

    for (; r + SIDE_BY_SIDE <= rows; r += SIDE_BY_SIDE)
        smooth_rows(SIDE_BY_SIDE, activation, y + r * HB_STRIDE, derivative ? derivative + r * HB_STRIDE : NULL, n);
    for (; r < rows; r++)
        smooth_rows(1, activation, y + r * HB_STRIDE, derivative ? derivative + r * HB_STRIDE : NULL, n);
}

#undef EACH

#endif
