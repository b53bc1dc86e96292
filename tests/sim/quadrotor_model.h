/* A model of the quadrotor whose one basis function is the direction in which dynamics change with mass: what
 * training would find, written down by hand.
 *
 *     F_avg   the nominal quadrotor of lib/nominal.h, 0.027 kg
 *     g       thrust * R(q) e_z on the velocities, so that c = mass coefficient below makes it a vehicle of that mass
 *
 * It is a shared model with a trunk of three hidden layers, SiLU, that sees the quaternion and the controls alone.
 * silu(a) - silu(-a) = a carries a number through a layer; silu(a) + silu(-a) = a tanh(a/2), nearly a^2 / 2, makes
 * products out of squares: 4 a b = (a + b)^2 - (a - b)^2. Good to about 1 part in 1000. */
#ifndef HB_QUADROTOR_MODEL_H
#define HB_QUADROTOR_MODEL_H

#include "plan/cost.h"
#include "model/model.h"

enum { QUADROTOR_MODEL_WIDTH = 22 }; /* the narrowest trunk that holds it */

/* width: of the three hidden layers, units beyond those needed are idle. NULL with *err filled on failure. */
hb_model *quadrotor_model(int width, hb_error *err);

/* The coefficient that stands for a vehicle of this mass. */
double quadrotor_model_coefficient(double mass);

/* The paper's hover cost, and its target: the point (0, 0, 1). */
extern const hb_cost quadrotor_hover_cost;
extern const double quadrotor_hover_target[13];

#endif
