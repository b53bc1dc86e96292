/* One state at a time, in physical units, through a predictor: trajectories of given controls, and one-step errors. */
#ifndef HB_STEPPER_H
#define HB_STEPPER_H

#include "dynamics/predictor.h"
#include "dynamics/transition.h"

typedef struct hb_stepper hb_stepper;

/* Starts with all coefficients zero: the average model. */
int hb_stepper_new(hb_stepper **ret, const hb_model *m, hb_error *err);
void hb_stepper_free(hb_stepper *s);

hb_predictor *hb_stepper_predictor(hb_stepper *s); /* to set coefficients, and to plan with */
/* x (nx) becomes the state after u (nu) was held for dt seconds. */
void hb_stepper_step(hb_stepper *s, double *x, const double *u, double dt);
/* Mean over states of the squared normalised error of the prediction of a transition. */
double hb_stepper_error(hb_stepper *s, const hb_transition *t);

#endif
