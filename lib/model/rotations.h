/* States of which several values mean the same: an attitude, as a quaternion and its negative, and angles in radians,
 * plus whole turns. Everything that takes differences, means or ways between states asks here first. */
#ifndef HB_ROTATIONS_H
#define HB_ROTATIONS_H

#include "model/model.h"

typedef struct hb_rotations {
    int nx;
    int quaternion;    /* index of the first of its four states; -1: there is none */
    const bool *angle; /* nx; NULL: none is */
} hb_rotations;

hb_rotations hb_rotations_of(const hb_model *m);

/* Of the values that mean the same as x (nx, physical), those nearest to `like`. */
void hb_rotations_align(const hb_rotations *r, double *x, const double *like);
/* The same for angles alone. */
void hb_rotations_unwind(const hb_rotations *r, double *x, const double *like);
/* Those that models are trained with: w of the quaternion at or above zero, angles from -pi to pi. */
void hb_rotations_canonical(const hb_rotations *r, double *x);
/* Brings the quaternion to length one; zero stays. */
void hb_rotations_normalise(const hb_rotations *r, double *x);

#endif
