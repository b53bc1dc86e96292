/* The quadrotor as its own flight controllers know it: geometry at nominal values, attitude errors and the mixer. */
#ifndef HB_AIRFRAME_H
#define HB_AIRFRAME_H

enum { HB_AIRFRAME_STATES = 13, HB_AIRFRAME_ROTORS = 4 };
/* where things are in the state */
enum { HB_X, HB_VX, HB_Y, HB_VY, HB_Z, HB_VZ, HB_QX, HB_QY, HB_QZ, HB_QW, HB_WX, HB_WY, HB_WZ };

extern const double hb_airframe_mass;       /* kg */
extern const double hb_airframe_inertia[3]; /* kg m^2 */
extern const double hb_airframe_gravity;    /* m/s^2 */

/* Columns of the rotation matrix of a quaternion x, y, z, w. */
void hb_airframe_axes(const double *q, double axis[3][3]);
/* The attitude whose z axis points along a force and whose x axis is as near a heading (radians) as that allows, and
 * how far the axes of the body are from it: a rotation vector in the body frame, half the sine of large angles. */
void hb_airframe_attitude_error(double axis[3][3], const double *force, double heading, double *error);
/* That attitude as a quaternion x, y, z, w with w >= 0. */
void hb_airframe_attitude(const double *force, double heading, double *q);
/* Rotor thrusts for a total thrust (N) and torques (N m), unbounded. */
void hb_airframe_mix(double thrust, const double *torque, double *rotor);

/* Why a flight is over, or NULL: it is below the ground, upside down, or further away than `room` (metres). qx and qy
 * are of its attitude. */
const char *hb_airframe_failure(double x, double y, double z, double qx, double qy, double room);

#endif
