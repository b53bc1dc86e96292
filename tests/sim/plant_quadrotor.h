/* A rigid-body quadrotor to test controllers on: the Crazyflie 2.x, integrated by RK4 at 1 ms in double.
 * Shares no code with lib/, so that agreement between the two means something.
 *
 *     states    x vx y vy z vz, quaternion qx qy qz qw (body to world), body rates wx wy wz     SI units
 *     controls  thrust of four rotors, newtons, X configuration:
 *
 *           0    front   3
 *             \   x   /         torque about x  ( f0 + f1 - f2 - f3) L / sqrt(2)
 *               \ ^ /                       y  (-f0 + f1 + f2 - f3) L / sqrt(2)
 *            y <-- o                         z  (-f0 + f1 - f2 + f3) km / kf
 *               /   \
 *           1           2                                                                                            */
#ifndef HB_PLANT_QUADROTOR_H
#define HB_PLANT_QUADROTOR_H

enum { QUADROTOR_NX = 13, QUADROTOR_NU = 4 };

/* what a controller does not know */
typedef struct plant_quadrotor {
    double mass;          /* kg */
    double inertia[3];    /* kg m^2, principal axes */
    double efficiency[4]; /* of each rotor: thrust over commanded thrust */
    double drag;          /* N s/m, against the velocity relative to the air */
    double wind[3];       /* m/s, of the air */
} plant_quadrotor;

extern const plant_quadrotor plant_quadrotor_crazyflie;

/* Holds the controls for `seconds`, a multiple of 1 ms, and replaces x by what it becomes. */
void plant_quadrotor_step(const plant_quadrotor *p, double *x, const double *u, double seconds);

/* Thrust of each rotor that holds the vehicle still in still air. */
double plant_quadrotor_hover_thrust(const plant_quadrotor *p);

#endif
