/* An imaginary vehicle: transitions as a model with given coefficients makes them, and estimators that learn from it.
 */
#ifndef HB_TEST_VEHICLE_H
#define HB_TEST_VEHICLE_H

#include "estimate/estimator.h"
#include "base/numeric.h"
#include "dynamics/workspace.h"

/* A transition in physical units from normalised ones. */
typedef struct transition {
    double x[16], u[8], x_next[16];
    hb_transition t;
} transition;

/* Transition k of an imaginary vehicle: random states and controls, and what model + coefficients + noise make of
 * them; coefficient NULL: random ends. Steps of different lengths. */
typedef struct vehicle {
    const hb_model *m;
    const hb_real *coefficient;
    double noise;
    hb_random_key key;
    uint64_t draws;
    hb_workspace *w;
    hb_real *z, *u, *dt, *g; /* a batch */
    double state[16], control[8], next[16];
    transition t;
} vehicle;

hb_estimator *new_estimator(const hb_model *m, const hb_estimator_settings *s);
const hb_transition *from_normalised(transition *p, const hb_model *m, const double *z, const double *u,
                                     const double *z_next, double dt);

void vehicle_start(vehicle *v, const hb_model *m, const hb_real *coefficient, double noise, uint64_t seed);
void vehicle_end(vehicle *v);
double vehicle_draw(vehicle *v);
/* g of one normalised sample, with stage points along `along`: (nb + 1) x nx, in the stride of a batch */
const hb_real *vehicle_increments(vehicle *v, const double *z, const double *u, double dt, const hb_real *along);
/* The next transition, valid until the one after. */
const hb_transition *vehicle_step(vehicle *v);
/* The next `samples` transitions, to an estimator. */
void vehicle_fly(vehicle *v, hb_estimator *e, int samples);

/* coefficient i of state d, whatever their shape */
double coefficient_at(const hb_model *m, const hb_real *c, int i, int d);
void assert_coefficients(const hb_estimator *e, const hb_model *m, const double *c, double tolerance, const char *what);

#endif
