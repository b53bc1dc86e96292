/* What controllers on board a vehicle have in common (loop_pid.c, loop_indi.c, loop_l1.c): the reference that they
 * follow, gains, filters, and the way from forces and torques to commands on two levels: rotor thrusts of the
 * quadrotor, thrust and rates of the multirotor, whose autopilot closes the rate loops. They know the nominal vehicle.
 */
#ifndef HB_ONBOARD_H
#define HB_ONBOARD_H

#include "sim/airframe.h"
#include "sim/gains.h"
#include "sim/loop.h"

#define HB_MULTIROTOR_FULL 19.9           /* m/s^2 at thrust 1, nominal */
#define HB_MULTIROTOR_LAG  (0.05 + 0.006) /* seconds, of thrust: rotors and delay, nominal */

typedef struct hb_onboard_reference {
    double p[3], v[3];
    double a[3], j[3]; /* acceleration and jerk of the reference's velocities; 0 where nothing is told ahead */
} hb_onboard_reference;

/* Seconds between the three moments at which the reference is looked at, from now on. */
#define HB_ONBOARD_AHEAD 0.02

/* The first member of every such controller, which is one block of memory. */
typedef struct hb_onboard {
    hb_loop loop;
    const hb_plant_type *plant;
    hb_gains gains;
    bool running;
    int64_t time_us;
    uint32_t reset_counter;
    hb_loop_answer answer;
} hb_onboard;

/* A controller of `size` bytes, all 0, that is asked `rate` times a second and answers by itself; -EINVAL for a plant
 * that it cannot fly. factor: of the gains (hb_gains_of). */
int hb_onboard_new(hb_onboard **ret, size_t size, const hb_plant_type *plant, double rate, const hb_gains table[2],
                   const double *factor, hb_error *err);
/* Seconds since the last question; 0: this is the first one of a flight. */
double hb_onboard_elapsed(hb_onboard *o, const hb_loop_question *q);

hb_onboard_reference hb_onboard_follow(const hb_plant_type *plant, const hb_loop_question *q);
/* Rates about the body's x and y axes (rad/s) by which a thrust of `force` follows the reference's jerk. */
void hb_onboard_turn(double axis[3][3], double force, const double *jerk, double rate[2]);
/* Limits a wanted specific force to what keeps the vehicle upright: some lift, and a slope of 1 at most. */
void hb_onboard_limit_force(double *force);
double hb_clamp(double value, double limit);

/* Rotor thrusts within bounds: yaw gives way first, then thrust moves to make room. True when something was lost. */
bool hb_onboard_mix(const hb_plant_type *plant, double thrust, double *torque, double *u);
/* Thrust (a specific force along the body's axis) and rates within bounds. */
void hb_onboard_command_rates(const hb_plant_type *plant, double force, const double *rate, double *u);

/* Two lags of first order in a row. */
typedef struct hb_smooth {
    double once, twice;
} hb_smooth;

/* Moves on by dt seconds with a bandwidth in rad/s; returns the filtered value. */
double hb_smooth_step(hb_smooth *s, double value, double bandwidth, double dt);

#endif
