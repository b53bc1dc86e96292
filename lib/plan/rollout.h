/* Action sequences -> states, costs and gradients, for one block of samples.
 *
 * A rollout is cut into pieces, one step of the model each (forward, then backward); before each piece `proceed`
 * decides whether there is time for it, so that a deadline is overshot by one piece at most. */
#ifndef HB_ROLLOUT_H
#define HB_ROLLOUT_H

#include "plan/cost.h"
#include "dynamics/predictor.h"

/* What plans are made for. */
typedef struct hb_plan_problem {
    const hb_predictor *model;
    const hb_cost *cost;
    const hb_goal *goal;
    const double *x0; /* nx, physical */
    int nh;           /* steps */
    double dt;        /* seconds a step */
    double tolerance; /* a gain in cost that is not worth a step */
} hb_plan_problem;

/* Asked before every piece; false stops the rollout there. Called on any thread of the pool. */
typedef struct hb_proceed {
    bool (*ask)(void *context);
    void *context;
} hb_proceed;

typedef struct hb_rollout hb_rollout; /* memory for one block and one thread at a time */

int hb_rollout_new(hb_rollout **ret, const hb_model *m, int max_horizon, hb_error *err);
void hb_rollout_free(hb_rollout *r);

/* Costs of n action sequences from one start; more than a thousand times as high where the states are not possible: a
 * quaternion, which is kept at length one, that would not have stayed near it, or states far beyond the trained range
 * (limits.h). u: nh x nu x HB_STRIDE, physical. cost: HB_STRIDE. `keep` what hb_rollout_gradient needs. proceed may be
 * NULL. Returns false when stopped on the way: cost is then meaningless. */
bool hb_rollout_cost(hb_rollout *r, const hb_plan_problem *of, int n, const hb_real *u, bool keep, hb_real *cost,
                     const hb_proceed *proceed);
/* Gradient of the costs of the rollout just made: du, nh x nu x HB_STRIDE, per physical unit. */
bool hb_rollout_gradient(hb_rollout *r, const hb_plan_problem *of, const hb_real *u, hb_real *du,
                         const hb_proceed *proceed);
/* Of the rollout just made, HB_STRIDE: which sequences lead to states that are not possible. */
const bool *hb_rollout_impossible(const hb_rollout *r);
/* States of the rollout just made: (horizon + 1) x nx x HB_STRIDE, physical. */
const hb_real *hb_rollout_states(const hb_rollout *r);

/* One step of the model from each of `nsteps` (at most HB_STRIDE) states (nsteps x nx) under effective controls (nsteps
 * x nu), side by side: next, nsteps x nx, all in physical units. False where no vehicle comes to them: see
 * hb_rollout_cost; trained_range as in the limits, x the states of one trajectory. */
bool hb_rollout_steps(hb_rollout *r, const hb_predictor *p, double dt, double trained_range, int nsteps,
                      const double *x, const double *u, double *next);

/* Jacobians of `nsteps` steps of one trajectory, in physical units: a = dx_next/dx (nsteps x nx x nx), b = dx_next/du
 * (nsteps x nx x nu) at the given states (nsteps x nx) and effective controls (nsteps x nu; hb_lag_effective). A piece
 * is one step of many of them side by side, or the adjoints of some rows. */
bool hb_rollout_jacobians(hb_rollout *r, const hb_predictor *p, double dt, int nsteps, const double *x, const double *u,
                          double *a, double *b, const hb_proceed *proceed);

#endif
