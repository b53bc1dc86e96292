#include "pilot_quadrotor.h"

#include <math.h>

#include "base/numeric.h"

static const double gravity = 9.81, arm = 0.0397, drag_per_thrust = 7.94e-12 / 3.16e-10;
static const uint64_t calls_per_point = 40; /* 1.6 s */

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

void pilot_quadrotor_fly(pilot_quadrotor *p, const plant_quadrotor *plant, const double *x, double *u)
{
    hb_random_key key = {p->seed, p->calls};

    if (p->calls++ % calls_per_point == 0)
        for (int i = 0; i < 3; i++)
            p->point[i] = (i == 2) + p->reach * (2 * hb_random_uniform(key, (uint64_t)i) - 1);

    /* acceleration towards the point, thrust and tilt for it */
    double a[3];
    for (int i = 0; i < 3; i++)
        a[i] = clamp(3 * (p->point[i] - x[2 * i]) - 3 * x[2 * i + 1], -4, 4);
    double thrust = plant->mass * (gravity + a[2]) / 4, wanted[3] = {-a[1] / gravity, a[0] / gravity, 0};

    /* torque towards the tilt; small angles are twice the quaternion's vector */
    static const double stiffness[3] = {50, 50, 20}, damping[3] = {11, 11, 8};
    double torque[3];
    for (int i = 0; i < 3; i++)
        torque[i] = plant->inertia[i] * (stiffness[i] * (wanted[i] - 2 * x[6 + i] * x[9]) - damping[i] * x[10 + i]);
    double roll = torque[0] / (4 * arm / sqrt(2)), pitch = torque[1] / (4 * arm / sqrt(2));
    double yaw = torque[2] / (4 * drag_per_thrust);

    const double share[4] = {roll - pitch - yaw, roll + pitch + yaw, -roll + pitch - yaw, -roll - pitch + yaw};
    for (int i = 0; i < 4; i++)
        u[i] = clamp(thrust + share[i] + p->tremble * hb_random_normal(key, 10 + (uint64_t)i), 0.01, 0.15);
}
