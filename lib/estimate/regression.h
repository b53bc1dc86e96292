/* Sums over a sliding window, and the coefficients that follow from them.
 *
 * Every transition gives one row per state d, made of its increments, its residual and its motion:
 *
 *     row_d = [ G_0 .. G_nb-1 | r | z_next - z ]_d          r = z_next - z - F_avg
 *
 * and everything that is asked of the window is in sums of products of rows, S = sum_j w_j row_j^T row_j:
 *
 *              nb        r   dz
 *        +-----------+----------+
 *     nb |     A     |          |      lower triangle; A, b and the energies of r and dz
 *        +-----------+----+     |      as in lib/README.md, times the sum of weights
 *      r |     b     | rr |     |
 *     dz |     .     | .  | zz  |
 *        +-----------+----+-----+
 *
 * A coefficient vector has one S, to which all states add; per-state coefficients have one S per state. Each is a
 * "problem" of its own. The weight of a transition is forgetting^age.
 *
 * Sliding adds a row and takes one away, which lets rounding accumulate. So a second set of sums, the spare, starts
 * from zero when the window is full, only ever adds, and takes the place of the first when it covers the window:
 *
 *     oldest                                        newest
 *     sum      |======================================|      adds at the right, takes away at the left
 *     spare                        |==================|      adds at the right */
#ifndef HB_REGRESSION_H
#define HB_REGRESSION_H

#include <stdbool.h>

#include "estimate/arithmetic.h"
#include "model/model.h"

typedef struct hb_regression {
    int nb;
    int nproblems; /* 1, or nx with per-state coefficients */
    int nrows;     /* rows that a transition adds to a problem: nx, or 1 */
    int n, ld;     /* of S, kept as its lower triangle by rows; a transition's rows are nx x ld */
    hb_method method;
    double ridge, volume, forgetting;

    int count;           /* transitions in the sums */
    double *sum, *spare; /* nproblems x n (n + 1) / 2 */
    int spare_count;     /* transitions in the spare; -1: there is none */

    const hb_arithmetic *arithmetic;
    double *matrix, *solution, *variance, *scratch; /* nb x nb, then nb each */
} hb_regression;

/* What a solve says about its problem; energies are means over the window. */
typedef struct hb_regression_result {
    const double *coefficient; /* nb; valid until the next solve */
    const double *variance;    /* nb, of the coefficients; NULL unless examined */
    double condition;          /* of A + lambda I; 0 unless examined */
    double residual;           /* energy of r */
    double unexplained;        /* what the coefficients leave of it */
    double motion;             /* energy of z_next - z */
    double least, most;        /* diagonal elements of A */
} hb_regression_result;

/* Takes the arrays from the arena; nb to forgetting of `r` are given, except n and ld. */
void hb_regression_lay_out(hb_regression *r, hb_arena *arena);
void hb_regression_clear(hb_regression *r);

/* A new transition into a window that grows: all others age by one sample. */
void hb_regression_add(hb_regression *r, const double *row);
/* A new transition into a window that is full: the oldest leaves. */
void hb_regression_slide(hb_regression *r, const double *oldest, const double *newest);

/* Coefficients of one problem. False when the window does not determine them. `examine` asks for condition and
 * variance as well, at the price of another factorisation. */
bool hb_regression_solve(hb_regression *r, int problem, bool examine, hb_regression_result *ret);

#endif
