/* Frames that contradict each other, told by kinematics: quaternions of another order or direction, rates of another
 * frame or unit, velocities of the body, z that points down. The physics has z up, the body's x forward, y left, z up;
 * quaternions turn the body's vectors into the world's, and qw is their real part.
 *
 *     attitude   2 vec(q_k* q_k+1) / t                 is the rate in the body
 *     motion     (p_k+1 - p_k) / t                     is the velocity
 *     push       the horizontal acceleration           is gravity times the tilt: rotors push along the body's z
 *
 * Each of the three is tried with what logs do: the quaternion's real part first, or its inverse; rates of the world;
 * degrees; axes exchanged or reversed. Where what is given is worse than another reading beyond doubt (blocks.h), and
 * that one leaves less than half of what is to be explained, the frames are those of the simplest reading that is as
 * good as the best. Which way is up is told by the thrust, and where no controls tell it, by where the vehicle flies.
 */
#ifndef HB_LOG_FRAMES_H
#define HB_LOG_FRAMES_H

#include "data/dataset.h"

/* A reading of three numbers: component i is sign[i] times component axis[i] of what is given. */
typedef struct hb_axes {
    int axis[3], sign[3];
} hb_axes;

typedef struct hb_frames {
    bool attitude_wrong, motion_wrong, push_wrong; /* beyond doubt */

    /* what the log has */
    bool real_first, inverse; /* its quaternion */
    bool world_rates;         /* rates are the world's */
    bool turned_rates;        /* rates were the body's, and were turned as if they had been the world's */
    bool body_velocity;
    double rate_unit, velocity_unit; /* what it gives divided by this is in rad/s; in positions' unit per second */
    bool body_down, world_down;      /* z of the body, of the world that the attitude is in */

    /* what to make of it: right state i from the given ones */
    hb_axes position, velocity, rates;
    int quaternion[4], quaternion_sign[4]; /* x y z w */
} hb_frames;

/* -ENODATA: the data have no attitude with rates, and no positions with velocities, or too few rows. */
int hb_frames_find(hb_frames *ret, const hb_dataset *d, hb_error *err);

#endif
