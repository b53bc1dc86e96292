/* Actuator lag along a plan whose steps are all equally long: the constants of actuators.h for one step, and what it
 * makes of a sequence of commands.
 *
 *     effective[k] = u[k] + (a[k] - u[k]) share        what the model's step sees
 *     a[k+1]       = u[k] + (a[k] - u[k]) keep
 */
#ifndef HB_LAG_H
#define HB_LAG_H

#include <stdbool.h>

#include "plan/cost.h"

typedef struct hb_lag {
    bool any; /* of the controls acts later than at once */
    double keep[HB_MAX_CONTROLS], share[HB_MAX_CONTROLS];
} hb_lag;

/* For steps of dt seconds. */
void hb_lag_set(hb_lag *lag, const hb_goal *goal, int nu, double dt);
/* Where the actuators are when the plan starts, nu. */
const double *hb_lag_start(const hb_goal *goal);
/* What the commands u (nh x nu) become. effective: nh x nu, may be u. */
void hb_lag_effective(const hb_lag *lag, const hb_goal *goal, int nu, int nh, const double *u, double *effective);

#endif
