/* The loops, written once; included by one file per instruction set, which defines
 *
 *     HB_ARITHMETIC_SYMBOL   the constant to define, and HB_ARITHMETIC_NAME, its name
 *     VECTOR_BYTES           width of a register
 *
 * Eight sides are PIECES vectors. Four rows, columns or right-hand sides are worked on at once, so that what is loaded
 * serves several multiply-adds, and these do not wait for one another. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/unroll.h"
#include "estimate/arithmetic.h"

typedef double vector __attribute__((vector_size(VECTOR_BYTES)));

enum { WIDTH = VECTOR_BYTES / 8, PIECES = HB_SIDES / WIDTH, TOGETHER = 4 };

#define EACH_PIECE                                                                                                     \
    UNROLL                                                                                                             \
    for (int q = 0; q < PIECES; q++)

INLINE vector get(const hb_sides *a, int q)
{
    return *(const vector *)(*a + q * WIDTH);
}

INLINE void put(hb_sides *a, int q, vector v)
{
    *(vector *)(*a + q * WIDTH) = v;
}

/* ---- side by side ---- */

/* Columns j .. j + count - 1 of row i of the factor, all left of the diagonal. */
INLINE void factor_columns(const int count, int n, int i, int j, const hb_sides *a, const double *prior, hb_sides *l)
{
    vector sum[TOGETHER][PIECES];

    UNROLL
    for (int c = 0; c < count; c++)
        EACH_PIECE sum[c][q] = get(a + i * n + j + c, q) + prior[i * n + j + c];
    for (int k = 0; k < j; k++)
        EACH_PIECE
        {
            const vector left = get(l + i * n + k, q);
            UNROLL
            for (int c = 0; c < count; c++)
                sum[c][q] -= left * get(l + (j + c) * n + k, q);
        }
    UNROLL
    for (int c = 0; c < count; c++)
        EACH_PIECE
        {
            UNROLL
            for (int k = 0; k < c; k++)
                sum[c][q] -= sum[k][q] * get(l + (j + c) * n + j + k, q);
            sum[c][q] *= get(l + (j + c) * n + j + c, q);
            put(l + i * n + j + c, q, sum[c][q]);
        }
}

static bool sides_cholesky(int n, const hb_sides *a, const double *prior, hb_sides *l)
{
    for (int i = 0; i < n; i++) {
        int j = 0;
        for (; j + TOGETHER <= i; j += TOGETHER)
            factor_columns(TOGETHER, n, i, j, a, prior, l);
        for (; j < i; j++)
            factor_columns(1, n, i, j, a, prior, l);
        hb_sides pivot;
        EACH_PIECE
        {
            vector sum = get(a + i * n + i, q) + prior[i * n + i], other = {0};
            for (int k = 0; k < i; k++) {
                const vector left = get(l + i * n + k, q);
                if (k % 2)
                    other += left * left;
                else
                    sum -= left * left;
            }
            put(&pivot, q, sum - other);
        }
        bool good = true;
        for (int s = 0; s < HB_SIDES; s++)
            good &= pivot[s] > 0 && pivot[s] < INFINITY;
        if (!good)
            return false;
        for (int s = 0; s < HB_SIDES; s++)
            l[i * n + i][s] = 1 / sqrt(pivot[s]);
    }
    return true;
}

static void sides_solve(int n, const hb_sides *l, hb_sides *b)
{
    for (int i = 0; i < n; i++)
        EACH_PIECE
        {
            vector sum = get(b + i, q);
            for (int k = 0; k < i; k++)
                sum -= get(l + i * n + k, q) * get(b + k, q);
            put(b + i, q, sum * get(l + i * n + i, q));
        }
    for (int i = n - 1; i >= 0; i--)
        EACH_PIECE
        {
            const vector x = get(b + i, q) * get(l + i * n + i, q);
            put(b + i, q, x);
            for (int k = 0; k < i; k++)
                put(b + k, q, get(b + k, q) - get(l + i * n + k, q) * x);
        }
}

/* `count` rows at once */
INLINE void doubt_of(const int count, int n, const hb_sides *l, int ld, const hb_sides *g, hb_sides *x, hb_sides *ret)
{
    vector square[TOGETHER][PIECES] = {0};

    for (int i = 0; i < n; i++) {
        vector sum[TOGETHER][PIECES];
        UNROLL
        for (int c = 0; c < count; c++)
            EACH_PIECE sum[c][q] = get(g + c * ld + i, q);
        for (int k = 0; k < i; k++)
            EACH_PIECE
            {
                const vector of = get(l + i * n + k, q);
                UNROLL
                for (int c = 0; c < count; c++)
                    sum[c][q] -= of * get(x + k * TOGETHER + c, q);
            }
        EACH_PIECE
        {
            const vector per = get(l + i * n + i, q);
            UNROLL
            for (int c = 0; c < count; c++) {
                const vector here = sum[c][q] * per;
                put(x + i * TOGETHER + c, q, here);
                square[c][q] += here * here;
            }
        }
    }
    UNROLL
    for (int c = 0; c < count; c++)
        EACH_PIECE put(ret + c, q, square[c][q]);
}

static void sides_doubt(int n, const hb_sides *l, int rows, int ld, const hb_sides *g, hb_sides *scratch, hb_sides *ret)
{
    int d = 0;

    for (; d + TOGETHER <= rows; d += TOGETHER)
        doubt_of(TOGETHER, n, l, ld, g + d * ld, scratch, ret + d);
    for (; d < rows; d++)
        doubt_of(1, n, l, ld, g + d * ld, scratch, ret + d);
}

static void sides_error(int n, const hb_sides *c, int rows, int ld, const hb_sides *g, hb_sides *ret)
{
    for (int d = 0; d < rows; d++)
        EACH_PIECE
        {
            vector error = get(g + d * ld + n, q);
            for (int i = 0; i < n; i++)
                error -= get(c + i, q) * get(g + d * ld + i, q);
            put(ret + d, q, error);
        }
}

enum { MOST_ROWS = 32 }; /* that are added at once */

/* Columns j .. j + count - 1 of row i: += sum of scaled[d] g_d[j]; scaled: rows x PIECES, w g_d[i] */
INLINE void add_columns(const int count, double keep, int rows, int ld, const vector *scaled, const hb_sides *g,
                        hb_sides *to)
{
    vector sum[TOGETHER][PIECES];

    UNROLL
    for (int c = 0; c < count; c++)
        EACH_PIECE sum[c][q] = keep * get(to + c, q);
    for (int d = 0; d < rows; d++)
        EACH_PIECE
        {
            const vector scale = scaled[d * PIECES + q];
            UNROLL
            for (int c = 0; c < count; c++)
                sum[c][q] += scale * get(g + d * ld + c, q);
        }
    UNROLL
    for (int c = 0; c < count; c++)
        EACH_PIECE put(to + c, q, sum[c][q]);
}

static void sides_add(int n, double keep, int rows, int ld, const double *w, const hb_sides *g, hb_sides *a,
                      hb_sides *v)
{
    vector scaled[MOST_ROWS * PIECES];

    for (int first = 0; first < rows; first += MOST_ROWS, keep = 1) {
        const int some = rows - first < MOST_ROWS ? rows - first : MOST_ROWS;
        const hb_sides *from = g + first * ld;
        for (int i = 0; i < n; i++) {
            int j = 0;
            for (int d = 0; d < some; d++)
                EACH_PIECE scaled[d * PIECES + q] = w[first + d] * get(from + d * ld + i, q);
            for (; j + TOGETHER <= i + 1; j += TOGETHER)
                add_columns(TOGETHER, keep, some, ld, scaled, from + j, a + i * n + j);
            for (; j <= i; j++)
                add_columns(1, keep, some, ld, scaled, from + j, a + i * n + j);
            add_columns(1, keep, some, ld, scaled, from + n, v + i);
        }
    }
}

/* ---- sums ---- */

static void triangle_add(int n, const double *restrict x, double w, double *restrict s)
{
    for (int i = 0; i < n; i++, s += i) {
        const double scale = w * x[i];
        for (int j = 0; j <= i; j++)
            s[j] += scale * x[j];
    }
}

static void weighted_sum(int size, int count, const double *restrict w, const double *restrict x, double *restrict to)
{
    int k = 0;

    for (int i = 0; i < size; i++)
        to[i] = 0;
    /* four at once: `to` is loaded and stored a quarter as often */
    for (; k + 4 <= count; k += 4, x += 4 * (ptrdiff_t)size)
        for (int i = 0; i < size; i++)
            to[i] += w[k] * x[i] + w[k + 1] * x[size + i] + w[k + 2] * x[2 * size + i] + w[k + 3] * x[3 * size + i];
    for (; k < count; k++, x += size)
        for (int i = 0; i < size; i++)
            to[i] += w[k] * x[i];
}

#define TEXT(name)  #name
#define NAMED(name) TEXT(name)

const hb_arithmetic HB_ARITHMETIC_SYMBOL = {
    .name = NAMED(HB_ARITHMETIC_NAME),
    .sides_cholesky = sides_cholesky,
    .sides_solve = sides_solve,
    .sides_doubt = sides_doubt,
    .sides_error = sides_error,
    .sides_add = sides_add,
    .triangle_add = triangle_add,
    .weighted_sum = weighted_sum,
};
