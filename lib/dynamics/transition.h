/* A stretch of motion: what the estimator learns from and a predictor is tested on.
 *
 *     x |-------------------------------| x_next       dt seconds
 *                       u
 *
 * u is what the vehicle was told, averaged over it, not what its actuators made of it: whoever learns
 * from it accounts for delay and lag (actuators.h). */
#ifndef HB_TRANSITION_H
#define HB_TRANSITION_H

#include <stdbool.h>

/* Physical units. */
typedef struct hb_transition {
    const double *x, *u, *x_next; /* nx, nu, nx */
    double dt;
    bool continues;       /* it starts where the one before it ended: the actuators' past is known */
    const double *before; /* nu: the command in force until it starts; NULL: none is known */
} hb_transition;

#endif
