/* The same flight with the world turned about its vertical axis. Physics does not depend on where a vehicle's nose
 * points, but logs often have one heading alone, and a model of them takes what is the vehicle's for the world's.
 *
 *     x, y and vx, vy              turned by the angle             (of the world, in the horizontal plane)
 *     qx, qy, qz, qw               q_z(angle) q                    (from body to world, qw the real part)
 *     all else: z, vz, body rates  as they are
 *
 * Where nothing but gravity comes from the world, a turned flight is another flight by the same physics. */
#ifndef HB_HEADINGS_H
#define HB_HEADINGS_H

#include <stdbool.h>

#include "base/base.h"
#include "data/dataset.h"

enum { HB_HEADINGS_STATES = 64 };

typedef struct hb_headings {
    int pair[2][2];    /* indices of x, y and of vx, vy; -1: they are no states */
    int quaternion[4]; /* qx, qy, qz, qw */
} hb_headings;

/* By the names of states, HB_HEADINGS_STATES at most. -EINVAL when there is no attitude, no velocity, or half a pair.
 */
int hb_headings_of(hb_headings *ret, int nx, char (*state_name)[HB_NAME_SIZE], hb_error *err);

/* One state (nx, physical) of the turned flight. */
void hb_headings_turn(const hb_headings *h, double angle, double *x);
/* Of a quaternion and its negative, which mean the same: that nearer to the one of `last`; NULL: that with qw at or
 * above zero, as models are trained with. */
void hb_headings_take_sign(const hb_headings *h, const double *last, double *x);

/* States of some functions of a data set, turned: a set that borrows all else from it. Free with
 * hb_headings_free_turned. function: indices; NULL: all. */
int hb_headings_turned(hb_dataset *ret, const hb_dataset *d, const int *function, int nfunctions, double angle,
                       hb_error *err);
void hb_headings_free_turned(hb_dataset *d);

/* How much the headings of a data set are one: the length of the mean of their directions, 1 where all are the same, 0
 * where they lie all around. */
double hb_headings_alike(const hb_headings *h, const hb_dataset *d);

/* Makes means and deviations of states (nx each) those over all headings, with w of a quaternion at or above zero: from
 * second moments alone, as if the tilt did not go with the heading. */
void hb_headings_spread(const hb_headings *h, double *mean, double *std);

#endif
