/* Identification of a vehicle's physics from its flights: parameters of a nominal model that nobody gave, and delay and
 * lag of the controls.
 *
 *     stretches of 0.2 s, side by side -> rolled out by the physics alone, behind the actuators
 *     minimise  sum over stretches, points on the way and states of  rho(error / s_k)     (Gauss-Newton, damped)
 *
 * s_k is what state k leaves, worked out anew as it gets less; rho is quadratic and then linear (Huber, 3 s). Errors
 * are of states whose rate is not mere kinematics; positions and attitudes on the way are those of the log, and rates
 * go on from it. Rollouts rather than slopes, because measured rates are noisy and controllers answer to that noise.
 * Parameters that only their product with others is seen of (arm, gravity) stay.
 *
 * Under a controller a torque seems to move a vehicle by far less than it does: it cancels disturbances that nobody
 * measures, and goes together with them. Most of these come with the air that a vehicle moves through. So what the
 * following explain is taken out of the errors first, by least squares: a constant acceleration of each flight; for
 * rates, which inertia acts on, one of each stretch, and of each flight ones that are as the velocity in the body. The
 * inertia that is left is 0.9 (nanobench) and 1.3 (idsia) times the nominal one of its mass, where it was 55 and 34
 * times that with a constant of each flight alone. Where that is not enough (logs of commands that change ten times as
 * often) inertia and torque per thrust stay within what a vehicle can have, and the print says so.
 *
 * Certainty is that of a sandwich: errors of successive stretches count as dependent, 40 blocks of time as independent.
 * A delay or a lag that is not twice its deviation is zero; a control has one of its own where it differs from all
 * others by four deviations and 5 ms. */
#ifndef HB_IDENTIFY_H
#define HB_IDENTIFY_H

#include <stdio.h>

#include "data/dataset.h"
#include "train/watch.h"

typedef struct hb_identify_settings {
    const hb_nominal *nominal;
    const double *start; /* its parameters to begin with */
    const bool *given;   /* nparameters: not to be identified */
    hb_actuators actuators;
    bool actuators_given;
    const int *function; /* nfunctions of the data's; NULL: all */
    int nfunctions;
} hb_identify_settings;

typedef struct hb_identified {
    const hb_nominal *nominal;
    double parameter[HB_NOMINAL_PARAMETERS];
    double factor[HB_NOMINAL_PARAMETERS], factor_deviation[HB_NOMINAL_PARAMETERS]; /* with which flights look best, to
                                                                   the start's value; deviation 0: not looked for */
    hb_actuators actuators;
    double delay_deviation[HB_MAX_CONTROLS], lag_deviation[HB_MAX_CONTROLS]; /* 0: not identified */
    double delay_found[HB_MAX_CONTROLS], lag_found[HB_MAX_CONTROLS];         /* before rounding to zero or to all's */
    bool own[HB_MAX_CONTROLS];                                               /* it differs from that of all */
    double before, after; /* root mean squared errors, in units of what is left in the end */
    int stretches;
} hb_identified;

/* The data's states and controls are the nominal model's. -EINVAL: no stretch is long enough. */
int hb_identify(hb_identified *ret, const hb_dataset *d, const hb_identify_settings *s, const hb_watch *watch,
                hb_error *err);
void hb_identified_print(const hb_identified *i, const hb_dataset *d, FILE *out);

#endif
