/* The motors' law: which function of what is logged for each motor carries the vehicle. Along the body's z
 *
 *     a . e_z(q) + gravity e_z . e_z(q)  =  gain * sum over motors of law(command, voltage)        per kilogram
 *
 * over steps of 40 ms, behind the best of a few delays. The law is the one that leaves least; the gain, of each group
 * of flights its own (vehicles of different masses), is the median. */
#ifndef HB_LOG_THRUST_H
#define HB_LOG_THRUST_H

#include "data/dataset.h"

typedef enum {
    HB_THRUST_PLAIN,        /* a force, or a duty that has been made linear in it */
    HB_THRUST_SQUARE,       /* a speed, or a duty that sets one */
    HB_THRUST_VOLTAGE,      /* duty times voltage */
    HB_THRUST_BOTH_SQUARED, /* the square of that */
    HB_THRUST_LAWS
} hb_thrust_law;

enum { HB_THRUST_GROUPS = 16 };

typedef struct hb_thrust {
    hb_thrust_law law;
    double gain[HB_THRUST_GROUPS]; /* m/s^2 for each unit of the law */
    double left;                   /* of gravity: what nine of ten rows leave less than */
} hb_thrust;

/* The data's states are the quadrotor's, z up; its controls `first` to `first + nmotors - 1` are the motors, `battery`
 * (-1: none) the voltage. group: nfunctions, each from 0 to HB_THRUST_GROUPS - 1. -ENODATA: too few rows, or nothing
 * carries. */
int hb_thrust_find(hb_thrust *ret, const hb_dataset *d, int first, int nmotors, int battery, const int *group,
                   hb_error *err);

#endif
