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
 * gain is the acceleration at full thrust, which is what mass and battery come down to. */
#include "model/flying_body.h"

enum { GAIN, DRAG, BANDWIDTH, YAW_BANDWIDTH, GRAVITY };

static void field(const hb_nominal *self, const double *p, int n, const hb_real *x, const hb_real *u, hb_real *xdot,
                  hb_real *scratch)
{
    (void)self;
    (void)scratch;
    const hb_real gain = (hb_real)p[GAIN], drag = (hb_real)p[DRAG], gravity = (hb_real)p[GRAVITY];
    const hb_real bandwidth = (hb_real)p[BANDWIDTH], yaw = (hb_real)p[YAW_BANDWIDTH];

    for (int s = 0; s < hb_padded(n); s++) {
        const hb_body b = hb_body_at(x, s);
        const hb_real push = gain * AT(u, 0) / b.norm;

        hb_body_move(&b, x, xdot, s);
        AT(xdot, VX) = push * b.ex - drag * AT(x, VX);
        AT(xdot, VY) = push * b.ey - drag * AT(x, VY);
        AT(xdot, VZ) = push * b.ez - drag * AT(x, VZ) - gravity;
        AT(xdot, WX) = bandwidth * (AT(u, 1) - b.wx);
        AT(xdot, WY) = bandwidth * (AT(u, 2) - b.wy);
        AT(xdot, WZ) = yaw * (AT(u, 3) - b.wz);
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
        const hb_body b = hb_body_at(x, s);
        const hb_real dvx = AT(d, VX), dvy = AT(d, VY), dvz = AT(d, VZ);
        const hb_real bx = bandwidth * AT(d, WX), by = bandwidth * AT(d, WY), bz = yaw * AT(d, WZ);
        const hb_real along = hb_body_adjoint(&b, gain * AT(u, 0) / b.norm, d, dx, s);

        AT(dx, VX) -= drag * dvx;
        AT(dx, VY) -= drag * dvy;
        AT(dx, VZ) -= drag * dvz;
        AT(dx, WX) -= bx;
        AT(dx, WY) -= by;
        AT(dx, WZ) -= bz;
        AT(du, 0) = gain * along / b.norm;
        AT(du, 1) = bx;
        AT(du, 2) = by;
        AT(du, 3) = bz;
    }
}

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
    .kinematic = hb_body_kinematic,
    .field = field,
    .adjoint = adjoint,
};
