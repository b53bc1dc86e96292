/* Trim: the control under which a state stays as it is, for a model as it is now.
 *
 *     minimise  sum_i ((x_next(x, u) - x)_i / std_i)^2 + HB_DAMPING |(u - start) / range|^2      within bounds
 *
 * by a few Gauss-Newton steps over one step of the model. Positions that drift because the state has a velocity are no
 * concern of the control's: they change nothing in the minimum. */
#ifndef HB_TRIM_H
#define HB_TRIM_H

#include "plan/rollout.h"

typedef struct hb_trim hb_trim;

int hb_trim_new(hb_trim **ret, const hb_model *m, hb_error *err);
void hb_trim_free(hb_trim *t);

/* x: nx, physical; a quaternion in it is brought to length one, and upright if it is zero. u: nu, physical, is the
 * start and becomes the result. Returns the RMS of the residual, in standard deviations a step; u is within bounds and
 * finite whatever the model is. */
double hb_trim_solve(hb_trim *t, const hb_predictor *p, const double *x, double dt, double *u);

/* Of the trim that was solved for last, at u: which control it would need beyond its bounds, and by how much (*beyond,
 * of its range; negative: below its least), for the state to stay as it is; -1: none, or no control at all would do, as
 * where a state drifts in any case. */
int hb_trim_lacks(hb_trim *t, const hb_predictor *p, double dt, const double *u, double *beyond);

/* Commands that bring to rest what the controls move directly (rates rather than what follows from them: states weigh
 * as much as they react to the controls within one step) as fast as bounds allow, one step after the other from x: u, n
 * x nu. A plan from a tumbling state finds its way from there, and not from commands that leave it tumbling. target:
 * nx; trim: nu. */
void hb_trim_arrest(hb_trim *t, const hb_predictor *p, const double *x, const double *target, const double *trim,
                    double dt, int n, double *u);

/* How far the controls, from end to end of their range, can move each state within so many steps, in standard
 * deviations of it in training: as the model's Jacobians near its mean state have it, where they let it go furthest.
 * Ends early where all states that are `wanted` are moved by one. */
void hb_trim_reach(hb_trim *t, const hb_predictor *p, double dt, int steps, const bool *wanted, double *reach);

#endif
