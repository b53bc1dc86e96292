/* How far the states of a plan may be off, for what is not known of this vehicle yet.
 *
 * Along x[k+1] = f(x[k], u[k], c) with coefficients c of covariance S that stay the same throughout, to first order
 *
 *     J[k+1] = (A[k] - B[k] K[k]) J[k] + (A[k] + I) G[k] / 2,   J[0] = 0,        P[k] = J[k] S J[k]^T
 *
 * with A and B the Jacobians by the state and the control, and G the increments of the basis functions, which add up
 * all along a step: half of them go through it. K is what the plans that follow make of deviations, without which those
 * of an unstable vehicle would grow without bound: the gain of a linear quadratic regulator along the trajectory, with
 * states in units of their deviation in training and controls in units of their range.
 *
 * Plans are made with P as it is along the plan before (zero-order robust optimisation: Zanelli, Frey, Messerer, Diehl
 * 2021): limits.h says what becomes of it. */
#ifndef HB_UNCERTAINTY_H
#define HB_UNCERTAINTY_H

#include "plan/rollout.h"

typedef struct hb_uncertainty hb_uncertainty;

int hb_uncertainty_new(hb_uncertainty **ret, const hb_model *m, int max_horizon, hb_error *err);
void hb_uncertainty_free(hb_uncertainty *c);

/* Covariance of the states (nh + 1, each nx x nx, physical) of the trajectory from x0 (nx) under effective controls u
 * (nh x nu), valid until the next call; `states` becomes the trajectory, likewise. NULL: it is not finite. coefficient:
 * those in the predictor, NULL for the average; covariance: of the coefficients, hb_estimator_covariance. */
const double *hb_uncertainty_propagate(hb_uncertainty *c, const hb_predictor *p, const hb_real *coefficient,
                                       const double *covariance, const double *x0, const double *u, double dt, int nh,
                                       const double **states);

#endif
