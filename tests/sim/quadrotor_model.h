/* A model of the quadrotor whose one basis function is the direction in which dynamics change with mass: what
 * training would find, written down by hand.
 *
 *     F_avg   the nominal quadrotor of model/nominal.h, 0.027 kg
 *     g       thrust * R(q) e_z on the velocities, so that c = mass coefficient below makes it a vehicle of that mass
 *
 * It is a shared model with a trunk of three hidden layers, SiLU, that sees the quaternion and the controls alone.
 * silu(a) - silu(-a) = a carries a number through a layer; silu(a) + silu(-a) = a tanh(a/2), nearly a^2 / 2, makes
 * products out of squares: 4 a b = (a + b)^2 - (a - b)^2. Good to about 1 part in 1000. */
#ifndef HB_QUADROTOR_MODEL_H
#define HB_QUADROTOR_MODEL_H

#include "plan/planner.h"

enum { QUADROTOR_MODEL_WIDTH = 22 }; /* the narrowest trunk that holds it */

/* width: of the three hidden layers, units beyond those needed are idle. NULL with *err filled on failure. */
hb_model *quadrotor_model(int width, hb_error *err);

/* The coefficient that stands for a vehicle of this mass. */
double quadrotor_model_coefficient(double mass);

/* The paper's hover cost, and its target: the point (0, 0, 1). */
extern const hb_cost quadrotor_hover_cost;
extern const double quadrotor_hover_target[13];

/* The planner on that model, with the paper's three degrees of freedom: all rotors, and opposite ones against each
 * other. */
typedef struct quadrotor_pilot {
    hb_model *m;
    hb_pool *pool;
    hb_predictor *predictor;
    hb_planner *planner;
} quadrotor_pilot;

/* Takes the model over (NULL: *err says why there is none). 0 or -errno. */
int quadrotor_pilot_new(quadrotor_pilot *ret, hb_model *m, hb_planner_settings s, int nthreads, hb_error *err);
void quadrotor_pilot_free(quadrotor_pilot *p);

/* Metres between a state and the target. */
double quadrotor_hover_distance(const double *x);

/* What becomes of a flight to the target, in steps of `period` seconds. */
typedef struct quadrotor_flight {
    bool crashed;
    double settled;   /* seconds after which it stayed within 5 cm; infinite: never */
    double farthest;  /* metres from the target, over the last second */
    double strayed;   /* the same, since the mass changed */
    uint64_t changes; /* that an estimator has seen */
} quadrotor_flight;

/* Adds the state after step `step` of `steps`; the mass changes at step change_at. */
void quadrotor_flight_add(quadrotor_flight *f, const double *x, int step, int steps, int change_at, double period);

#endif
