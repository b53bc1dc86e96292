/* The rigid body of a quadrotor in X configuration.
 *
 * State: x vx y vy z vz, quaternion qx qy qz qw (body to world), body rates wx wy wz. Controls: four thrusts, newtons.
 *
 *     v'  = (f0 + f1 + f2 + f3) / mass * R(q) e_z - gravity e_z          front (+x)
 *     q'  = q (0, w) / 2                                                  0       3
 *     I w' = torque - w x I w                                       +y      \   /
 *     torque_x = (f0 + f1 - f2 - f3) arm / sqrt 2                           / \
 *     torque_y = (-f0 + f1 + f2 - f3) arm / sqrt 2                        1     2
 *     torque_z = (-f0 + f1 - f2 + f3) torque_ratio
 *
 * R is divided by |q|^2, so that a quaternion that has drifted off the unit sphere still turns and does not scale. */
#include <math.h>

#include "model/nominal.h"

enum { MASS, IXX, IYY, IZZ, ARM, TORQUE_RATIO, GRAVITY };

enum { PX, VX, PY, VY, PZ, VZ, QX, QY, QZ, QW, WX, WY, WZ };

#define AT(rows, i) rows[(i)*HB_STRIDE + s]

static void field(const hb_nominal *self, const double *p, int n, const hb_real *x, const hb_real *u, hb_real *xdot,
                  hb_real *scratch)
{
    (void)self;
    (void)scratch;
    const hb_real mass = (hb_real)p[MASS], gravity = (hb_real)p[GRAVITY], ratio = (hb_real)p[TORQUE_RATIO];
    const hb_real lever = (hb_real)(p[ARM] * M_SQRT1_2);
    const hb_real ix = (hb_real)p[IXX], iy = (hb_real)p[IYY], iz = (hb_real)p[IZZ];

    for (int s = 0; s < hb_padded(n); s++) {
        const hb_real qx = AT(x, QX), qy = AT(x, QY), qz = AT(x, QZ), qw = AT(x, QW);
        const hb_real wx = AT(x, WX), wy = AT(x, WY), wz = AT(x, WZ);
        const hb_real f0 = AT(u, 0), f1 = AT(u, 1), f2 = AT(u, 2), f3 = AT(u, 3);
        const hb_real norm = qx * qx + qy * qy + qz * qz + qw * qw;
        const hb_real push = (f0 + f1 + f2 + f3) / (mass * norm);

        AT(xdot, PX) = AT(x, VX);
        AT(xdot, PY) = AT(x, VY);
        AT(xdot, PZ) = AT(x, VZ);
        AT(xdot, VX) = push * 2 * (qx * qz + qw * qy);
        AT(xdot, VY) = push * 2 * (qy * qz - qw * qx);
        AT(xdot, VZ) = push * (qw * qw + qz * qz - qx * qx - qy * qy) - gravity;
        AT(xdot, QX) = (qw * wx + qy * wz - qz * wy) / 2;
        AT(xdot, QY) = (qw * wy + qz * wx - qx * wz) / 2;
        AT(xdot, QZ) = (qw * wz + qx * wy - qy * wx) / 2;
        AT(xdot, QW) = -(qx * wx + qy * wy + qz * wz) / 2;
        AT(xdot, WX) = ((f0 + f1 - f2 - f3) * lever + (iy - iz) * wy * wz) / ix;
        AT(xdot, WY) = ((-f0 + f1 + f2 - f3) * lever + (iz - ix) * wz * wx) / iy;
        AT(xdot, WZ) = ((-f0 + f1 - f2 + f3) * ratio + (ix - iy) * wx * wy) / iz;
    }
}

static void adjoint(const hb_nominal *self, const double *p, int n, const hb_real *x, const hb_real *u,
                    const hb_real *d, hb_real *dx, hb_real *du, hb_real *scratch)
{
    (void)self;
    (void)scratch;
    const hb_real mass = (hb_real)p[MASS], ratio = (hb_real)p[TORQUE_RATIO];
    const hb_real lever = (hb_real)(p[ARM] * M_SQRT1_2);
    const hb_real ix = (hb_real)p[IXX], iy = (hb_real)p[IYY], iz = (hb_real)p[IZZ];

    for (int s = 0; s < hb_padded(n); s++) {
        const hb_real qx = AT(x, QX), qy = AT(x, QY), qz = AT(x, QZ), qw = AT(x, QW);
        const hb_real wx = AT(x, WX), wy = AT(x, WY), wz = AT(x, WZ);
        const hb_real thrust = AT(u, 0) + AT(u, 1) + AT(u, 2) + AT(u, 3);
        const hb_real norm = qx * qx + qy * qy + qz * qz + qw * qw;
        const hb_real push = thrust / (mass * norm);

        /* v' = push * e - gravity, with e the third column of R times |q|^2 */
        const hb_real ex = 2 * (qx * qz + qw * qy), ey = 2 * (qy * qz - qw * qx),
                      ez = qw * qw + qz * qz - qx * qx - qy * qy;
        const hb_real dvx = AT(d, VX), dvy = AT(d, VY), dvz = AT(d, VZ);
        const hb_real along = ex * dvx + ey * dvy + ez * dvz;
        const hb_real dthrust = along / (mass * norm), dnorm = -push * along / norm;
        const hb_real dex = push * dvx, dey = push * dvy, dez = push * dvz;

        /* q' is bilinear in q and w */
        const hb_real ax = AT(d, QX) / 2, ay = AT(d, QY) / 2, az = AT(d, QZ) / 2, aw = AT(d, QW) / 2;

        /* w' is bilinear in w and linear in the thrusts */
        const hb_real bx = AT(d, WX) / ix, by = AT(d, WY) / iy, bz = AT(d, WZ) / iz;

        const hb_real dpx = AT(d, PX), dpy = AT(d, PY), dpz = AT(d, PZ);
        AT(dx, PX) = 0;
        AT(dx, PY) = 0;
        AT(dx, PZ) = 0;
        AT(dx, VX) = dpx;
        AT(dx, VY) = dpy;
        AT(dx, VZ) = dpz;
        AT(dx, QX) = 2 * (qz * dex - qw * dey - qx * dez + qx * dnorm) - ay * wz + az * wy - aw * wx;
        AT(dx, QY) = 2 * (qw * dex + qz * dey - qy * dez + qy * dnorm) + ax * wz - az * wx - aw * wy;
        AT(dx, QZ) = 2 * (qx * dex + qy * dey + qz * dez + qz * dnorm) - ax * wy + ay * wx - aw * wz;
        AT(dx, QW) = 2 * (qy * dex - qx * dey + qw * dez + qw * dnorm) + ax * wx + ay * wy + az * wz;
        AT(dx, WX) = ax * qw + ay * qz - az * qy - aw * qx + by * (iz - ix) * wz + bz * (ix - iy) * wy;
        AT(dx, WY) = -ax * qz + ay * qw + az * qx - aw * qy + bx * (iy - iz) * wz + bz * (ix - iy) * wx;
        AT(dx, WZ) = ax * qy - ay * qx + az * qw - aw * qz + bx * (iy - iz) * wy + by * (iz - ix) * wx;

        const hb_real tx = bx * lever, ty = by * lever, tz = bz * ratio;
        AT(du, 0) = dthrust + tx - ty - tz;
        AT(du, 1) = dthrust + tx + ty + tz;
        AT(du, 2) = dthrust - tx + ty - tz;
        AT(du, 3) = dthrust - tx - ty + tz;
    }
}

static const bool kinematic[] = {
    [PX] = true, [PY] = true, [PZ] = true, [QX] = true, [QY] = true, [QZ] = true, [QW] = true, [WZ] = false};

extern const hb_nominal hb_nominal_quadrotor;
const hb_nominal hb_nominal_quadrotor = {
    .name = "quadrotor",
    .nx = 13,
    .nu = 4,
    .nparameters = 7,
    .parameter_name = {"mass", "ixx", "iyy", "izz", "arm", "torque_ratio", "gravity"},
    .parameter_help = {"kg", "kg m^2, about the body's x axis (forward)", "kg m^2, about y (left)",
                       "kg m^2, about z (up)", "m, from the centre to a rotor",
                       "m, a rotor's torque about z for its thrust; negative where rotors turn the other way round",
                       "m/s^2"},
    .either_sign = {[TORQUE_RATIO] = true},
    .with_mass = {[MASS] = true, [IXX] = true, [IYY] = true, [IZZ] = true},
    /* Crazyflie 2.x; the torque ratio is km / kf */
    .parameter_default = {0.027, 1.4e-5, 1.4e-5, 2.17e-5, 0.0397, 7.94e-12 / 3.16e-10, 9.81},
    .kinematic = kinematic,
    .field = field,
    .adjoint = adjoint,
};
