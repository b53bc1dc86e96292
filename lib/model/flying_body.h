/* What the equations of all flying bodies have in common, for sample s of a batch; private to nominal_*.c.
 *
 *     p' = v        v' = push e + ...        q' = q (0, w) / 2        e = |q|^2 R(q) e_z, the direction of thrust
 *
 * push is the force along e for each mass and |q|^2: with that a quaternion that has drifted off the unit sphere still
 * turns and does not scale. */
#ifndef HB_FLYING_BODY_H
#define HB_FLYING_BODY_H

#include "model/nominal.h"

enum { PX, VX, PY, VY, PZ, VZ, QX, QY, QZ, QW, WX, WY, WZ };

#define AT(rows, i) rows[(i)*HB_STRIDE + s]

/* Which rates hold whatever the vehicle is like: hb_nominal.kinematic. */
static const bool hb_body_kinematic[] = {
    [PX] = true, [PY] = true, [PZ] = true, [QX] = true, [QY] = true, [QZ] = true, [QW] = true, [WZ] = false};

typedef struct hb_body {
    hb_real qx, qy, qz, qw, wx, wy, wz;
    hb_real norm;       /* |q|^2 */
    hb_real ex, ey, ez; /* e */
} hb_body;

static inline hb_body hb_body_at(const hb_real *x, int s)
{
    const hb_real qx = AT(x, QX), qy = AT(x, QY), qz = AT(x, QZ), qw = AT(x, QW);

    return (hb_body){.qx = qx,
                     .qy = qy,
                     .qz = qz,
                     .qw = qw,
                     .wx = AT(x, WX),
                     .wy = AT(x, WY),
                     .wz = AT(x, WZ),
                     .norm = qx * qx + qy * qy + qz * qz + qw * qw,
                     .ex = 2 * (qx * qz + qw * qy),
                     .ey = 2 * (qy * qz - qw * qx),
                     .ez = qw * qw + qz * qz - qx * qx - qy * qy};
}

/* p' and q' */
static inline void hb_body_move(const hb_body *b, const hb_real *x, hb_real *xdot, int s)
{
    AT(xdot, PX) = AT(x, VX);
    AT(xdot, PY) = AT(x, VY);
    AT(xdot, PZ) = AT(x, VZ);
    AT(xdot, QX) = (b->qw * b->wx + b->qy * b->wz - b->qz * b->wy) / 2;
    AT(xdot, QY) = (b->qw * b->wy + b->qz * b->wx - b->qx * b->wz) / 2;
    AT(xdot, QZ) = (b->qw * b->wz + b->qx * b->wy - b->qy * b->wx) / 2;
    AT(xdot, QW) = -(b->qx * b->wx + b->qy * b->wy + b->qz * b->wz) / 2;
}

/* dx from what d says of p', q' and the part push e of v'. Returns d(push), times |q|^2: e . dv. */
static inline hb_real hb_body_adjoint(const hb_body *b, hb_real push, const hb_real *d, hb_real *dx, int s)
{
    const hb_real dvx = AT(d, VX), dvy = AT(d, VY), dvz = AT(d, VZ);
    const hb_real along = b->ex * dvx + b->ey * dvy + b->ez * dvz, dnorm = -push * along / b->norm;
    const hb_real dex = push * dvx, dey = push * dvy, dez = push * dvz;
    const hb_real qx = b->qx, qy = b->qy, qz = b->qz, qw = b->qw, wx = b->wx, wy = b->wy, wz = b->wz;
    /* q' is bilinear in q and w */
    const hb_real ax = AT(d, QX) / 2, ay = AT(d, QY) / 2, az = AT(d, QZ) / 2, aw = AT(d, QW) / 2;
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
    AT(dx, WX) = ax * qw + ay * qz - az * qy - aw * qx;
    AT(dx, WY) = -ax * qz + ay * qw + az * qx - aw * qy;
    AT(dx, WZ) = ax * qy - ay * qx + az * qw - aw * qz;
    return along;
}

#endif
