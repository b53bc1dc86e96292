/* The belief about the coefficients: a Gaussian, from a prior, a window and a memory.
 *
 *     r_j = G_j c + e_j      e_j ~ N(0, R), R = diag(noise)       c ~ N(c0, P0)
 *
 *     L = P0^-1 + L_m + L_w          c = L^-1 (P0^-1 c0 + h_m + h_w)          cov(c) = L^-1
 *
 * Window. Sums of products of rows [ G | r | dz ] (rows.h), one matrix per state and free of the noise, so that an
 * entry can be exchanged, and the noise be seen in a new light, without touching the others:
 *
 *              nb        r   dz
 *        +-----------+----------+
 *     nb |     A_d   |          |      S_d = sum_j w_j row_jd^T row_jd, lower triangle, leading dimension ld
 *        +-----------+----+     |
 *      r |     b_d   | rr |     |      L_w = sum_d A_d / R_d,    h_w = sum_d b_d / R_d
 *     dz |     .     | .  | zz  |
 *        +-----------+----+-----+
 *
 * Per-state coefficients are one such problem per state; a coefficient vector is one to which all states add. A second
 * set of sums, the spare, only ever adds and takes the place of the first once per revolution, so that rounding never
 * accumulates.
 *
 * Memory. What leaves the window adds to sums of the same kind. Memory is reduced where the window has information:
 * whenever 1/k of a window has passed, it loses 4/k of L_m (L_m + L_w)^-1 L_w, the parallel sum of both, and its own
 * coefficients stay what they were. In directions that are excited all the time it comes to hold a third of what the
 * window does; where the window is silent it loses nothing. Besides, all of it fades with a time constant.
 *
 * Noise. R_d is what the window's own fit (without memory) leaves of it, sum_j w_j (r - G c)^2 over the degrees of
 * freedom that are left, sum_j w_j - tr((P0^-1 + L_w)^-1 A_d / R_d). Before there is enough of it, the first guess
 * counts, in its proportions first and in its size only as long as nothing else is known.
 *
 * Without a prior in the model file, the ridge of the plain least squares takes its place: P0^-1 = lambda sum_j w_j /
 * mean(R), c0 = 0, which with equal noise in all states is that estimate exactly. */
#ifndef HB_POSTERIOR_H
#define HB_POSTERIOR_H

#include <stdbool.h>

#include "estimate/arithmetic.h"
#include "model/model.h"

typedef struct hb_posterior {
    const hb_model *m;
    const hb_arithmetic *arithmetic;
    int nb, nx, nproblems;
    int nw;        /* transitions of a full window */
    int n, ld;     /* of S_d; a transition's rows are nx x ld */
    double ridge;  /* when the model has no prior */
    double fade;   /* seconds, of the memory */
    double spread; /* variances of the prior are multiplied by this */

    int count, spare_count;            /* transitions in the sums; -1: there is no spare */
    double weight, spare_weight;       /* of these */
    double *sum, *spare;               /* nx x n x ld */
    double *memory;                    /* nx x n x ld */
    double memory_weight;              /* in transitions */
    int departed;                      /* transitions since memory was last reduced, */
    double fading;                     /* and how much it has faded since */
    int yielding;                      /* transitions after a change, during which memory is reduced at once */
    double *prior, *prior_vector, *c0; /* nproblems x nb x nb, nproblems x nb twice: P0^-1, P0^-1 c0, c0 */

    double *seed;         /* nproblems x nb: coefficients from elsewhere, */
    double seed_strength; /* in the prior's precision; 0: there are none */

    double *guess, *noise; /* nx, variances: the first guess, and what holds now */
    double guess_scale;    /* of all states' noise to the guess */

    double *coefficient; /* nproblems x nb */
    double *factor;      /* nproblems x nb x nb, Cholesky factor of L */
    double *covariance;  /* nproblems x nb x nb, both triangles */
    bool *solved;        /* nproblems: factor, coefficients and covariance are there */

    double *matrix, *vector;       /* nb x nb four times, nb: scratch */
    double *products;              /* nx x nb, scratch */
    double *innovation_covariance; /* nx x nx and 2 nx, scratch */
} hb_posterior;

/* Takes the arrays from the arena; m, nw, ridge, fade and spread are given. */
void hb_posterior_lay_out(hb_posterior *p, hb_arena *arena);
/* Inverts the prior; nothing is known yet. */
void hb_posterior_start(hb_posterior *p);
/* Forgets window and memory; the noise too. */
void hb_posterior_clear(hb_posterior *p);
/* The guess of the noise (nx, variances), to be given before the first transition. */
void hb_posterior_guess(hb_posterior *p, const double *variance);

/* A transition into the window, which must have room for it. */
void hb_posterior_add(hb_posterior *p, const double *row, double weight);
/* The oldest transition from the window into the memory, `dt` seconds long. */
void hb_posterior_depart(hb_posterior *p, const double *row, double weight, double dt);
/* A transition is seen in a new light. age: 0 for the newest. */
void hb_posterior_replace(hb_posterior *p, int age, const double *before, double weight_before, const double *after,
                          double weight_after);
/* A change: the newest `count` transitions alone stay, with weight 1; all else together is worth half a transition. */
void hb_posterior_cut(hb_posterior *p, int count, const double *(*row)(void *context, int age), void *context);
/* What all that was known before a cut is worth after it, in transitions. */
extern const double hb_posterior_worth;
/* The coefficients (nb) that a problem would have after a cut, if all else were worth so much, valid until the next
 * call; NULL: none. */
const double *hb_posterior_try_cut(hb_posterior *p, int problem, int count, double worth,
                                   const double *(*row)(void *context, int age), void *context);
/* Memory is of no use any more: what it was made from was seen in a wrong light. */
void hb_posterior_forget_memory(hb_posterior *p);

/* Coefficients and covariance of one problem; false, and nothing changed, when nothing determines them. */
bool hb_posterior_solve(hb_posterior *p, int problem);
/* The noise from what the present coefficients leave of the window. */
void hb_posterior_learn_noise(hb_posterior *p);
/* Condition of L. */
double hb_posterior_condition(hb_posterior *p, int problem, double *scratch, int *iscratch);

/* d^2 of an innovation nu (nx) of a transition with these rows: nu^T S^-1 nu, S = G L^-1 G^T + R + diag(extra).
 * variance (nx) becomes the diagonal of S. */
double hb_posterior_distance(hb_posterior *p, const double *row, const double *nu, const double *extra,
                             double *variance);

/* The coefficients (nproblems x nb) that would hold if this transition were believed, whose noise is R + diag(extra).
 */
void hb_posterior_try_add(hb_posterior *p, const double *row, const double *extra, double *ret);
/* How far coefficients are from the present ones, and rows seen along them from what they explain: the d^2 above, where
 * the rows do not depend on the coefficients and these are hb_posterior_try_add's. */
double hb_posterior_distance_along(const hb_posterior *p, const double *row, const double *extra, const double *c);

/* Sums over the window of a state: squares of what the coefficients leave, of r, and of dz. */
typedef struct hb_window_energy {
    double unexplained, residual, motion;
} hb_window_energy;

hb_window_energy hb_posterior_energy(const hb_posterior *p, int state);
/* The last of these alone. */
double hb_posterior_motion(const hb_posterior *p, int state);

/* Variance of what the trained population would make of each state's row, to ret (nx); 0 without a prior. */
void hb_posterior_spread(hb_posterior *p, const double *row, double *ret);

/* (c - c0)^T P0^-1 (c - c0) over the number of coefficients, with the prior as the model has it: about 1 for a vehicle
 * of the trained population. 0 without a prior. c: nproblems x nb. */
double hb_posterior_plausibility(const hb_posterior *p, const double *c);

#endif
