/* Gains of the controllers on board.
 *
 * One procedure chose them all: 48 draws of factors for every gain, half of them between a third and three and half
 * within 1.5 around the best, flown in the rows of `quick` and a step with vehicles of another seed than the tables';
 * the best has the least mean logarithm of errors in the first second and later, a crash counting as 10 m. hilbert-eval
 * tune searches gains (tune pid) and weights (tune CONFIG) in the same way, and takes nothing that crashes more.
 * Weights of config/quadrotor-track.yaml and config/px4-track.yaml were set by hand: so far, care is uneven in favour
 * of the others.
 */
#ifndef HB_GAINS_H
#define HB_GAINS_H

#include "sim/plant.h"

/* 0: the controller has none of that kind */
typedef struct hb_gains {
    double position;   /* 1/s of a PID, 1/s^2 of others */
    double velocity;   /* 1/s */
    double integral;   /* 1/s^2, of the velocity's error */
    double attitude;   /* 1/s of what commands rates, also where it does so inside */
    double yaw;        /* the same */
    double rates;      /* 1/s */
    double spin;       /* 1/s^2, integral of the rates' error */
    double filter;     /* rad/s: of measured accelerations (INDI), of what is cancelled of the force (L1) */
    double filter2;    /* rad/s: of what is cancelled of the torque (L1) */
    double adaptation; /* how fast effectiveness is learned (INDI), 1/s; how fast the predictor is (L1), 1/s */
} hb_gains;

enum { HB_NGAINS = sizeof(hb_gains) / sizeof(double) };

/* of the quadrotor, of the multirotor */
extern const hb_gains hb_gains_pid[2], hb_gains_pid_hover[2], hb_gains_indi[2], hb_gains_l1[2];
extern const char *const hb_gains_name[HB_NGAINS];

/* Those of a plant, each times a factor (HB_NGAINS of them; NULL: 1). */
hb_gains hb_gains_of(const hb_gains table[2], const hb_plant_type *plant, const double *factor);

#endif
