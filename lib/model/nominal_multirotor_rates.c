/* A multirotor whose autopilot takes body rates and thrust: the lowest level that PX4 and ArduPilot accept from
 * outside.
 *
 * State: x vx y vy z vz (world, z up), quaternion qx qy qz qw (body to world), body rates wx wy wz. Controls: thrust
 * 0..1 and three rates, as they are after the actuators' delay and lag (dynamics/actuators.h).
 *
 *     v' = gain thrust R(q) e_z - gravity e_z - drag v
 *     q' = q (0, w) / 2
 *     w' = bandwidth (command - w)               roll and pitch; yaw has its own
 *
 * gain is the acceleration at full thrust, which is what mass and battery come down to. R is divided by |q|^2, so that
 * a quaternion off the unit sphere still turns and does not scale. */
#include "model/nominal.h"

enum { GAIN, DRAG, BANDWIDTH, YAW_BANDWIDTH, GRAVITY };

enum { PX, VX, PY, VY, PZ, VZ, QX, QY, QZ, QW, WX, WY, WZ };

#define AT(rows, i) rows[(i)*HB_STRIDE + s]

static void field(const hb_nominal *self, const double *p, int n, const hb_real *x, const hb_real *u, hb_real *xdot,
                  hb_real *scratch)
{
    (void)self;
    (void)scratch;
    const hb_real gain = (hb_real)p[GAIN], drag = (hb_real)p[DRAG], gravity = (hb_real)p[GRAVITY];
    const hb_real bandwidth = (hb_real)p[BANDWIDTH], yaw = (hb_real)p[YAW_BANDWIDTH];

    for (int s = 0; s < hb_padded(n); s++) {
        const hb_real qx = AT(x, QX), qy = AT(x, QY), qz = AT(x, QZ), qw = AT(x, QW);
        const hb_real wx = AT(x, WX), wy = AT(x, WY), wz = AT(x, WZ);
        const hb_real push = gain * AT(u, 0) / (qx * qx + qy * qy + qz * qz + qw * qw);

        AT(xdot, PX) = AT(x, VX);
        AT(xdot, PY) = AT(x, VY);
        AT(xdot, PZ) = AT(x, VZ);
        AT(xdot, VX) = push * 2 * (qx * qz + qw * qy) - drag * AT(x, VX);
        AT(xdot, VY) = push * 2 * (qy * qz - qw * qx) - drag * AT(x, VY);
        AT(xdot, VZ) = push * (qw * qw + qz * qz - qx * qx - qy * qy) - drag * AT(x, VZ) - gravity;
        AT(xdot, QX) = (qw * wx + qy * wz - qz * wy) / 2;
        AT(xdot, QY) = (qw * wy + qz * wx - qx * wz) / 2;
        AT(xdot, QZ) = (qw * wz + qx * wy - qy * wx) / 2;
        AT(xdot, QW) = -(qx * wx + qy * wy + qz * wz) / 2;
        AT(xdot, WX) = bandwidth * (AT(u, 1) - wx);
        AT(xdot, WY) = bandwidth * (AT(u, 2) - wy);
        AT(xdot, WZ) = yaw * (AT(u, 3) - wz);
    }
}

static void adjoint(const hb_nominal *self, const double *p, int n, const hb_real *x, const hb_real *u,
                    const hb_real *d, hb_real *dx, hb_real *du, hb_real *scratch)
{
    (void)self;
    (void)scratch;
    const hb_real gain = (hb_real)p[GAIN], drag = (hb_real)p[DRAG];
    const hb_real bandwidth = (hb_real)p[BANDWIDTH], yaw = (hb_real)p[YAW_BANDWIDTH];

    for (int s = 0; s < hb_padded(n); s++) {
        const hb_real qx = AT(x, QX), qy = AT(x, QY), qz = AT(x, QZ), qw = AT(x, QW);
        const hb_real wx = AT(x, WX), wy = AT(x, WY), wz = AT(x, WZ);
        const hb_real norm = qx * qx + qy * qy + qz * qz + qw * qw;
        const hb_real push = gain * AT(u, 0) / norm;

        /* v' = push * e - drag v - gravity, with e the third column of R times |q|^2 */
        const hb_real ex = 2 * (qx * qz + qw * qy), ey = 2 * (qy * qz - qw * qx),
                      ez = qw * qw + qz * qz - qx * qx - qy * qy;
        const hb_real dvx = AT(d, VX), dvy = AT(d, VY), dvz = AT(d, VZ);
        const hb_real along = ex * dvx + ey * dvy + ez * dvz, dnorm = -push * along / norm;
        const hb_real dex = push * dvx, dey = push * dvy, dez = push * dvz;

        /* q' is bilinear in q and w */
        const hb_real ax = AT(d, QX) / 2, ay = AT(d, QY) / 2, az = AT(d, QZ) / 2, aw = AT(d, QW) / 2;

        const hb_real bx = bandwidth * AT(d, WX), by = bandwidth * AT(d, WY), bz = yaw * AT(d, WZ);

        const hb_real dpx = AT(d, PX), dpy = AT(d, PY), dpz = AT(d, PZ);
        AT(dx, PX) = 0;
        AT(dx, PY) = 0;
        AT(dx, PZ) = 0;
        AT(dx, VX) = dpx - drag * dvx;
        AT(dx, VY) = dpy - drag * dvy;
        AT(dx, VZ) = dpz - drag * dvz;
        AT(dx, QX) = 2 * (qz * dex - qw * dey - qx * dez + qx * dnorm) - ay * wz + az * wy - aw * wx;
        AT(dx, QY) = 2 * (qw * dex + qz * dey - qy * dez + qy * dnorm) + ax * wz - az * wx - aw * wy;
        AT(dx, QZ) = 2 * (qx * dex + qy * dey + qz * dez + qz * dnorm) - ax * wy + ay * wx - aw * wz;
        AT(dx, QW) = 2 * (qy * dex - qx * dey + qw * dez + qw * dnorm) + ax * wx + ay * wy + az * wz;
        AT(dx, WX) = ax * qw + ay * qz - az * qy - aw * qx - bx;
        AT(dx, WY) = -ax * qz + ay * qw + az * qx - aw * qy - by;
        AT(dx, WZ) = ax * qy - ay * qx + az * qw - aw * qz - bz;
        AT(du, 0) = gain * along / norm;
        AT(du, 1) = bx;
        AT(du, 2) = by;
        AT(du, 3) = bz;
    }
}

static const bool kinematic[] = {
    [PX] = true, [PY] = true, [PZ] = true, [QX] = true, [QY] = true, [QZ] = true, [QW] = true, [WZ] = false};

extern const hb_nominal hb_nominal_multirotor_rates;
const hb_nominal hb_nominal_multirotor_rates = {
    .name = "multirotor-rates",
    .nx = 13,
    .nu = 4,
    .nparameters = 5,
    .parameter_name = {"gain", "drag", "bandwidth", "yaw_bandwidth", "gravity"},
    .parameter_help = {"m/s^2, acceleration at full thrust", "1/s, deceleration for speed",
                       "1/s, at which roll and pitch rates follow", "1/s, at which the yaw rate follows", "m/s^2"},
    /* PX4's simulated quadrotor of 1 kg; the rest of the roll and pitch loops' 78 ms is the actuators' lag */
    .parameter_default = {19.9, 0.5, 25, 6, 9.81},
    .kinematic = kinematic,
    .field = field,
    .adjoint = adjoint,
};
