/* The loss of one function, and its gradient with respect to the model's parameters.
 *
 *     c from the example points (fit.h), then, averaged over the query points,
 *
 *     L =   mean over steps and states of  w_k (z_predicted - z)^2          rolled out from each point, with c
 *       + matryoshka  * the same with the first n basis functions alone
 *       + regulariser * mean((diag A - 1)^2)                                least squares only
 *       + L_avg,  the one-step error of F_avg alone on the example points
 *
 * The gradient flows through c. The average learns from L_avg alone: its own parameters (head rows or network) count
 * as constants in the other terms. A shared trunk learns from the other terms, and from L_avg as far as the basis
 * leaves of a function what the average leaves of it: times (L_query / L_avg)^2, 1 at most. What the basis explains and
 * the average does not is the difference between functions, and to the trunk that is noise, a hundred times what there
 * is left to learn: with all of L_avg the one-step error of Van der Pol comes out more than ten times as large. With
 * none of it that of Ant, which hardly adapts, is an eighth larger. A model without basis functions (a neural ODE) is
 * its average; then L_avg is taken on all points, rolled out on the query points.
 *
 * Sums are in double. One object per thread. */
#ifndef HB_LOSS_H
#define HB_LOSS_H

#include <stdbool.h>

#include "train/fit.h"
#include "dynamics/predictor.h"

typedef struct hb_loss_settings {
    double regulariser;   /* weight of mean((diag A - 1)^2) */
    double matryoshka;    /* weight of the loss of a prefix of the basis */
    int refinements;      /* of the fit, see fit.h */
    bool prior;           /* fits use the model's prior as it is at the start */
    bool errors_only;     /* hb_loss_evaluate will not be asked for: no memory for gradients */
    bool freeze_average;  /* the average is given: it does not learn */
    const double *weight; /* nx, of each state's squared error; NULL: 1 */
    const double *unit;   /* nx, in errors alone: what a squared error is multiplied by; NULL: 1. Kept by the caller */
} hb_loss_settings;

/* Each already with its weight; the loss is their sum. */
typedef struct hb_loss_terms {
    double query, matryoshka, regulariser, average;
} hb_loss_terms;

typedef struct hb_loss hb_loss;

/* Borrows the model, whose parameters may change between calls. Points: at most so many, query_steps transitions each.
 */
int hb_loss_new(hb_loss **ret, const hb_model *m, const hb_loss_settings *s, int max_examples, int query_steps,
                hb_error *err);
void hb_loss_free(hb_loss *l);

/* Takes the model's prior as it is now into all fits that follow. */
int hb_loss_use_prior(hb_loss *l, hb_error *err);

/* The loss, and scale times its gradient added to dparameter (NULL: none). prefix: number of basis functions that the
 * Matryoshka term keeps, 1 .. nb - 1; 0: no such term. Returns 0, or -1 when a number is not finite. */
int hb_loss_evaluate(hb_loss *l, const hb_points *example, const hb_points *query, int prefix, double scale,
                     hb_real *dparameter, hb_loss_terms *ret);

/* Fits the model to the examples and rolls it out from the query points: mean squared error after each step, averaged
 * over states and points: error[query->nsteps]. c, unless NULL, receives the coefficients. adapt = false: c is zero. */
int hb_loss_errors(hb_loss *l, const hb_points *example, const hb_points *query, bool adapt, double *error, hb_real *c);
/* The same of each trajectory: error[query->n x query->nsteps], averaged over states. */
int hb_loss_trajectories(hb_loss *l, const hb_points *example, const hb_points *query, bool adapt, double *error);

#endif
