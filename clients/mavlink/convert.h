/* Between the autopilot's frames and the model's.
 *
 *     autopilot: world NED (north, east, down), body FRD (forward, right, down), quaternion w x y z
 *     model:     world NWU (north, west, up),   body FLU (forward, left, up),    quaternion x y z w
 *
 * One is the other turned by half a turn about the x axis: of vectors, y and z change sign, and of quaternions
 * likewise. */
#ifndef HB_MAVLINK_CONVERT_H
#define HB_MAVLINK_CONVERT_H

#include <stdbool.h>

/* The model's state, 13 numbers in this order; controls are thrust 0..1 and three body rates. */
enum { HB_X, HB_VX, HB_Y, HB_VY, HB_Z, HB_VZ, HB_QX, HB_QY, HB_QZ, HB_QW, HB_WX, HB_WY, HB_WZ, HB_NSTATE };
enum { HB_THRUST, HB_ROLL_RATE, HB_PITCH_RATE, HB_YAW_RATE, HB_NCONTROL };

/* position, velocity in NED, q (w x y z) from FRD to NED, rates in FRD. */
void hb_state_from_ned(const float position[3], const float velocity[3], const float q[4], const float rates[3],
                       double x[HB_NSTATE]);

/* The attitude q (w x y z, from FRD to NED) after a short time of rates in FRD, to first order. */
void hb_attitude_turned(const float q[4], const float rates[3], float seconds, float ret[4]);

/* A quaternion and its negative are the same attitude; the model tells them apart. The sign follows from the sample
 * before, as long as qw stays above -0.2; there, and at the start, it is chosen so that qw is not negative. True: it
 * was chosen anew in flight, so that the state jumped. */
bool hb_quaternion_follow(double x[HB_NSTATE], const double *before);

/* Thrust and body rates: FRD to the model's and back. */
void hb_control_from_frd(float thrust, const float rates[3], double u[HB_NCONTROL]);
void hb_control_to_frd(const double u[HB_NCONTROL], float *thrust, float rates[3]);
/* A point of the world: the model's to NED. */
void hb_point_to_ned(const double point[3], float ned[3]);
/* A vector of the body in the world, both in the model's frame. */
void hb_to_world(const double x[HB_NSTATE], const double body[3], double world[3]);

/* Heading, radians: of the model's frame (from north to west), and of NED (from north to east). */
double hb_heading(const double x[HB_NSTATE]);
static inline double hb_heading_to_ned(double heading)
{
    return -heading;
}
/* Angle between the body's and the world's z axis, radians. */
double hb_tilt(const double x[HB_NSTATE]);

#endif
