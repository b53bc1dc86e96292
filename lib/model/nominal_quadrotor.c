/* The rigid body of a quadrotor in X configuration.
 *
 * State: x vx y vy z vz, quaternion qx qy qz qw (body to world), body rates wx wy wz. Controls: four thrusts, newtons.
 *
 *     v'  = (f0 + f1 + f2 + f3) / mass * R(q) e_z - gravity e_z          front (+x)
 *     q'  = q (0, w) / 2                                                  0       3
 *     I w' = torque - w x I w                                       +y      \   /
 *     torque_x = (f0 + f1 - f2 - f3) arm / sqrt 2                           / \
 *     torque_y = (-f0 + f1 + f2 - f3) arm / sqrt 2                        1     2
 *     torque_z = (-f0 + f1 - f2 + f3) torque_ratio */
#include <math.h>

#include "model/flying_body.h"

enum { MASS, IXX, IYY, IZZ, ARM, TORQUE_RATIO, GRAVITY };

static void field(const hb_nominal *self, const double *p, int n, const hb_real *x, const hb_real *u, hb_real *xdot,
                  hb_real *scratch)
{
    (void)self;
    (void)scratch;
    const hb_real mass = (hb_real)p[MASS], gravity = (hb_real)p[GRAVITY], ratio = (hb_real)p[TORQUE_RATIO];
    const hb_real lever = (hb_real)(p[ARM] * M_SQRT1_2);
    const hb_real ix = (hb_real)p[IXX], iy = (hb_real)p[IYY], iz = (hb_real)p[IZZ];

    for (int s = 0; s < hb_padded(n); s++) {
        const hb_body b = hb_body_at(x, s);
        const hb_real f0 = AT(u, 0), f1 = AT(u, 1), f2 = AT(u, 2), f3 = AT(u, 3);
        const hb_real push = (f0 + f1 + f2 + f3) / (mass * b.norm);

        hb_body_move(&b, x, xdot, s);
        AT(xdot, VX) = push * b.ex;
        AT(xdot, VY) = push * b.ey;
        AT(xdot, VZ) = push * b.ez - gravity;
        AT(xdot, WX) = ((f0 + f1 - f2 - f3) * lever + (iy - iz) * b.wy * b.wz) / ix;
        AT(xdot, WY) = ((-f0 + f1 + f2 - f3) * lever + (iz - ix) * b.wz * b.wx) / iy;
        AT(xdot, WZ) = ((-f0 + f1 - f2 + f3) * ratio + (ix - iy) * b.wx * b.wy) / iz;
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
        const hb_body b = hb_body_at(x, s);
        const hb_real thrust = AT(u, 0) + AT(u, 1) + AT(u, 2) + AT(u, 3);
        /* w' is bilinear in w and linear in the thrusts */
        const hb_real bx = AT(d, WX) / ix, by = AT(d, WY) / iy, bz = AT(d, WZ) / iz;
        const hb_real tx = bx * lever, ty = by * lever, tz = bz * ratio;
        const hb_real dthrust = hb_body_adjoint(&b, thrust / (mass * b.norm), d, dx, s) / (mass * b.norm);

        AT(dx, WX) = AT(dx, WX) + by * (iz - ix) * b.wz + bz * (ix - iy) * b.wy;
        AT(dx, WY) = AT(dx, WY) + bx * (iy - iz) * b.wz + bz * (ix - iy) * b.wx;
        AT(dx, WZ) = AT(dx, WZ) + bx * (iy - iz) * b.wy + by * (iz - ix) * b.wx;
        AT(du, 0) = dthrust + tx - ty - tz;
        AT(du, 1) = dthrust + tx + ty + tz;
        AT(du, 2) = dthrust - tx + ty - tz;
        AT(du, 3) = dthrust - tx - ty + tz;
    }
}

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
    .kinematic = hb_body_kinematic,
    .field = field,
    .adjoint = adjoint,
};
