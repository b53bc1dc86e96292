/* A pilot for plant_quadrotor.h who knows the vehicle and flies from one random point to the next: motion to learn
 * from, without a planner. */
#ifndef HB_PILOT_QUADROTOR_H
#define HB_PILOT_QUADROTOR_H

#include <stdint.h>

#include "plant_quadrotor.h"

typedef struct pilot_quadrotor {
    uint64_t seed;
    double reach;   /* metres from (0, 0, 1) that the points lie away, along each axis */
    double tremble; /* newtons, standard deviation of what is added to each thrust */
    uint64_t calls;
    double point[3];
} pilot_quadrotor;

/* Thrusts for the next 40 ms, within 0.01..0.15 N. */
void pilot_quadrotor_fly(pilot_quadrotor *p, const plant_quadrotor *plant, const double *x, double *u);

#endif
