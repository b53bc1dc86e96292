/* A multirotor with an autopilot that takes thrust and body rates, as PX4's simulation was measured to be. No engine is
 * behind it: a rigid body, a rate loop, rotors that lag, and an estimator that errs.
 *
 *     v' = thrust R e_z - g e_z - drag (v - wind) + push         thrust' = (full_thrust command - thrust) / thrust_lag
 *     q' = q (0, w) / 2
 *     w'' = f^2 (command - w) - 2 damping f w'                   roll and pitch
 *     w' = yaw_bandwidth (command - w)                           yaw
 *
 * Commands act after `delay`. States: x vx y vy z vz, qx qy qz qw, wx wy wz; world NWU, body FLU. */
#ifndef HB_MULTIROTOR_BODY_H
#define HB_MULTIROTOR_BODY_H

#include <stdbool.h>

enum { HB_MULTIROTOR_NX = 13, HB_MULTIROTOR_NU = 4, HB_MULTIROTOR_QUEUE = 256 };

#define HB_MULTIROTOR_STEP 0.001 /* seconds, of the physics */

typedef struct hb_multirotor {
    /* parameters */
    double full_thrust; /* m/s^2 at thrust 1 */
    double drag;        /* 1/s */
    double wind[3];     /* m/s, gusts included */
    double thrust_lag;  /* s */
    double frequency;   /* rad/s, of roll and pitch */
    double damping;
    double bandwidth;     /* rad/s; above 0: w' = bandwidth (command - w) of roll and pitch instead */
    double yaw_bandwidth; /* rad/s */
    double delay;         /* s */
    double push[3];       /* m/s^2, from outside */
    double offset[3];     /* rad/s, added to the commanded rates: what the loops leave of a torque */
    double ground;        /* 0: no ground effect; 1: that of rotors of 0.12 m */

    double v_dot[3]; /* m/s^2, in the last step */
    double x[HB_MULTIROTOR_NX];
    double thrust;                                       /* m/s^2 */
    double acceleration[2];                              /* rad/s^2, of roll and pitch */
    double queue[HB_MULTIROTOR_QUEUE][HB_MULTIROTOR_NU]; /* commands of the last physics steps */
    unsigned newest;
} hb_multirotor;

/* At state x with the thrust that hovers; parameters are set. */
void hb_multirotor_reset(hb_multirotor *m, const double *x);
/* One physics step with command u. */
void hb_multirotor_step(hb_multirotor *m, const double *u);
/* The command that acts at present. */
const double *hb_multirotor_in_force(const hb_multirotor *m);

/* Errors of the estimate: those of velocity, attitude and position wander (correlation time 1 s), those of rates are
 * new with every sample. Standard deviations. */
typedef struct hb_estimator_errors {
    double position, velocity, attitude; /* m, m/s, rad */
    double rates[3];                     /* rad/s */
    double now[9];                       /* in standard deviations: position, velocity, attitude */
} hb_estimator_errors;

/* `level` 1: as PX4's estimate was measured against the truth. */
void hb_estimator_errors_start(hb_estimator_errors *e, double level, double (*normal)(void *), void *draws);
/* dt seconds after the last time: puts errors on a true state. */
void hb_estimator_errors_add(hb_estimator_errors *e, double dt, double *x, double (*normal)(void *), void *draws);

#endif
