#include "plant_quadrotor.h"

#include <math.h>

static const double gravity = 9.81, arm = 0.0397, drag_per_thrust = 7.94e-12 / 3.16e-10, time_step = 1e-3;

const plant_quadrotor plant_quadrotor_crazyflie = {
    .mass = 0.027,
    .inertia = {1.4e-5, 1.4e-5, 2.17e-5},
    .efficiency = {1, 1, 1, 1},
};

static void field(const plant_quadrotor *p, const double *x, const double *u, double *xdot)
{
    double f[4], thrust = 0;
    for (int i = 0; i < 4; i++) {
        f[i] = u[i] * p->efficiency[i];
        thrust += f[i];
    }
    double lever = arm / sqrt(2);
    double torque[3] = {(f[0] + f[1] - f[2] - f[3]) * lever, (-f[0] + f[1] + f[2] - f[3]) * lever,
                        (-f[0] + f[1] - f[2] + f[3]) * drag_per_thrust};

    /* where the body's z axis points in the world; the integrator lets the length of q drift a little */
    double qx = x[6], qy = x[7], qz = x[8], qw = x[9], length2 = qx * qx + qy * qy + qz * qz + qw * qw;
    double up[3] = {2 * (qx * qz + qw * qy) / length2, 2 * (qy * qz - qw * qx) / length2,
                    1 - 2 * (qx * qx + qy * qy) / length2};

    for (int i = 0; i < 3; i++) {
        double velocity = x[2 * i + 1];
        xdot[2 * i] = velocity;
        xdot[2 * i + 1] = (thrust * up[i] - p->drag * (velocity - p->wind[i])) / p->mass;
    }
    xdot[5] -= gravity;

    /* q' = q (w, 0) / 2, w in the body frame */
    double wx = x[10], wy = x[11], wz = x[12];
    xdot[6] = 0.5 * (qw * wx + qy * wz - qz * wy);
    xdot[7] = 0.5 * (qw * wy + qz * wx - qx * wz);
    xdot[8] = 0.5 * (qw * wz + qx * wy - qy * wx);
    xdot[9] = -0.5 * (qx * wx + qy * wy + qz * wz);

    /* Euler's equations */
    const double *inertia = p->inertia;
    xdot[10] = (torque[0] - (inertia[2] - inertia[1]) * wy * wz) / inertia[0];
    xdot[11] = (torque[1] - (inertia[0] - inertia[2]) * wz * wx) / inertia[1];
    xdot[12] = (torque[2] - (inertia[1] - inertia[0]) * wx * wy) / inertia[2];
}

void plant_quadrotor_step(const plant_quadrotor *p, double *x, const double *u, double seconds)
{
    double k[4][QUADROTOR_NX], at[QUADROTOR_NX];

    for (int step = 0, steps = (int)lround(seconds / time_step); step < steps; step++) {
        field(p, x, u, k[0]);
        for (int stage = 1; stage < 4; stage++) {
            for (int i = 0; i < QUADROTOR_NX; i++)
                at[i] = x[i] + (stage < 3 ? 0.5 : 1) * time_step * k[stage - 1][i];
            field(p, at, u, k[stage]);
        }
        for (int i = 0; i < QUADROTOR_NX; i++)
            x[i] += time_step / 6 * (k[0][i] + 2 * k[1][i] + 2 * k[2][i] + k[3][i]);

        double length = sqrt(x[6] * x[6] + x[7] * x[7] + x[8] * x[8] + x[9] * x[9]);
        for (int i = 6; i < 10; i++)
            x[i] /= length;
    }
}

double plant_quadrotor_hover_thrust(const plant_quadrotor *p)
{
    return p->mass * gravity / 4;
}
