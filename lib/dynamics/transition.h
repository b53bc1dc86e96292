/* A stretch of motion under one control: what the estimator learns from and a predictor is tested on. */
#ifndef HB_TRANSITION_H
#define HB_TRANSITION_H

/* One transition: the control u was held from state x on for dt seconds and led to x_next. Physical units. */
typedef struct hb_transition {
    const double *x, *u, *x_next; /* nx, nu, nx */
    double dt;
} hb_transition;

#endif
