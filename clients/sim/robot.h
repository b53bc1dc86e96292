/* Robots of one's own: any MJCF file, with a YAML file of the same name beside it that says what of it are states,
 * controls and hidden parameters, how it starts, what moves it while data are collected, and when it is over.
 *
 *     name: cart-pole
 *     dt: 0.02                                    control period, seconds
 *     step: 0.002                                 of the physics; left out: the model's
 *     episode: 125                                periods
 *     pose: home                                  a keyframe by name or number; left out: the model's own
 *     states:                                     in this order
 *       x:  {position: slider, unit: m}           of a joint, by name or "#number"
 *       vx: {velocity: slider}
 *       qx: {position: root, part: qx}            of a free joint: x y z qx qy qz qw, of its velocity vx vy vz wx wy wz
 *       a:  {activation: muscle}                  of an actuator that has one
 *       px: {body: hand, part: x}, {site: tip, part: x}, {sensor: gyro, part: 0}   read, never set
 *     controls:
 *       push: {actuator: motor, range: [-10, 10], trim: 0, unit: N}
 *     hidden:                                     robot_attributes.c has what there is
 *       mass:    {body: pole, attribute: mass, range: [0.5, 2]}
 *       gears:   {actuator: "*", attribute: strength, scale: [0.8, 1.2]}
 *     start: {x: [-1, 1], vx: 0, tilt: 0.2, yaw: 3.14}      values or ranges; others as in the pose
 *     end: {x: [-2.4, 2.4], tilt: 1.2}            beyond, an episode or a flight is over
 *     target: {x: 1}                              others as in the pose
 *     noise: {x: 0.001}                           standard deviations of sensors
 *     delay: 0.01                                 seconds until a command acts
 *     lag: 0.02                                   time constant of the actuators, seconds
 *     excitation: {noise: 0.3, time: 0.1, hold: lqr, wander: 2}     robot_excite.c
 */
#ifndef HB_ROBOT_H
#define HB_ROBOT_H

#include <stdio.h>

#include "sim/plant.h"

/* Is this the name of an MJCF file? */
bool hb_robot_named(const char *name);

/* The plant of an MJCF file. It lives until hb_robot_free, after all plants of it. `warning` (size characters) is what
 * a user should know of it, or empty. */
int hb_robot_new(const hb_plant_type **ret, const char *path, char *warning, size_t size, hb_error *err);
/* NULL and types of others are left alone. */
void hb_robot_free(const hb_plant_type *type);

/* The name of the YAML file beside an MJCF file. */
void hb_robot_yaml(const char *path, char *ret, size_t size);
/* A first YAML file, with all that is found in the model, and a first configuration of hilbertd for it. */
int hb_robot_describe(const char *path, FILE *robot, FILE *config, char *warning, size_t size, hb_error *err);

#endif
