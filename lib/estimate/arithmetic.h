/* The inner loops of the estimator, in double: one implementation per instruction set, chosen at run time as kernels
 * are (dynamics/kernels.h).
 *
 * Small symmetric systems come eight side by side: entry (i, j) of eight matrices is one vector of eight numbers, so
 * that the same arithmetic serves all of them. LAPACK is slower here by its calls alone. Matrices are n x n by rows, of
 * which the lower triangle counts; vectors are n. */
#ifndef HB_ARITHMETIC_H
#define HB_ARITHMETIC_H

#include <stdbool.h>

enum { HB_SIDES = 8 };

typedef double hb_sides[HB_SIDES] __attribute__((aligned(64)));

typedef struct hb_arithmetic {
    const char *name; /* of the kernels that it goes with */

    /* a + prior = L L^T, where the prior (n x n) is common to all and the diagonal of l holds reciprocals. False when
     * one of the eight is not positive definite, and l is of no use then. l may be a. */
    bool (*sides_cholesky)(int n, const hb_sides *a, const double *prior, hb_sides *l);
    /* b <- L^-T L^-1 b */
    void (*sides_solve)(int n, const hb_sides *l, hb_sides *b);
    /* |L^-1 g|^2 of each of `rows` rows g (n numbers each, ld apart); scratch: 4 n */
    void (*sides_doubt)(int n, const hb_sides *l, int rows, int ld, const hb_sides *g, hb_sides *scratch,
                        hb_sides *ret);
    /* y - c . g of each row, where y is its number n */
    void (*sides_error)(int n, const hb_sides *c, int rows, int ld, const hb_sides *g, hb_sides *ret);
    /* a <- keep a + sum of w g g^T, v <- keep v + sum of w g y over the rows, with a weight of each row */
    void (*sides_add)(int n, double keep, int rows, int ld, const double *w, const hb_sides *g, hb_sides *a,
                      hb_sides *v);
    /* s += w x^T x of a row x (n), lower triangle, packed by rows */
    void (*triangle_add)(int n, const double *x, double w, double *s);
    /* to[i] = sum over k < count of w[k] x[k size + i], i < size */
    void (*weighted_sum)(int size, int count, const double *w, const double *x, double *to);
} hb_arithmetic;

/* The one that goes with these kernels (hb_kernels.name). */
const hb_arithmetic *hb_arithmetic_find(const char *kernels);

#endif
