/* A stretch of motion: what the estimator learns from and a predictor is tested on.
 *
 *     x |----------------|----------------| x_next       dt seconds, cut into `parts` equal ones
 *              u[0]             u[1]
 *
 * u is what the vehicle was told, averaged over each part, not what its actuators made of it: whoever learns
 * from it accounts for delay and lag (actuators.h). */
#ifndef HB_TRANSITION_H
#define HB_TRANSITION_H

#include <stdbool.h>

enum { HB_TRANSITION_PARTS = 2 }; /* at most */

/* Physical units. */
typedef struct hb_transition {
    const double *x, *u, *x_next; /* nx, parts x nu, nx */
    double dt;
    int parts;            /* 0 is taken for 1: the command was held */
    bool continues;       /* it starts where the one before it ended: the actuators' past is known */
    const double *before; /* nu: the command in force until it starts; NULL: none is known */
} hb_transition;

#endif
