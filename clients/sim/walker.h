/* Plants whose geometry is hidden: their MJCF is filled in with the parameters and compiled before each function.
 * The state is MuJoCo's positions and velocities, with a free joint's quaternion in the order x, y, z, w. */
#ifndef HB_WALKER_H
#define HB_WALKER_H

#include "sim/plant.h"

/* What a walker's type needs beyond its tables; the rest of hb_plant_type's functions are these. */
int hb_walker_create(hb_plant *p, const char *xml, int quaternion, hb_error *err); /* quaternion: index, or -1 */
void hb_walker_destroy(hb_plant *p);
int hb_walker_reset(hb_plant *p, const double *x, hb_error *err);
void hb_walker_step(hb_plant *p, const double *u, double dt);
void hb_walker_state(const hb_plant *p, double *x);
const char *hb_walker_failure(const hb_plant *p);
const struct hb_mujoco *hb_walker_mujoco(const hb_plant *p);
#define HB_WALKER_FUNCTIONS                                                                                            \
    .destroy = hb_walker_destroy, .reset = hb_walker_reset, .step = hb_walker_step, .state = hb_walker_state,          \
    .failure = hb_walker_failure, .mujoco = hb_walker_mujoco

/* Control periods of the paper's episodes. */
enum { HB_WALKER_EPISODE = 1000 };

/* gym's random reset: positions within 0.1 of rest, rates (from first_rate on) normal with a deviation of 0.1. */
void hb_walker_scatter(hb_draws *d, int nx, int first_rate, const double *rest, double *x);

/* Puts a state whose height (state `height`) is given as 0 on the ground. */
int hb_walker_stand(hb_plant *p, int height, double *x, hb_error *err);

#endif
