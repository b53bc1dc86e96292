#include "sim/airframe.h"

#include <math.h>
#include <string.h>

const double hb_airframe_mass = 0.027, hb_airframe_gravity = 9.81;
const double hb_airframe_inertia[3] = {1.4e-5, 1.4e-5, 2.17e-5};

static const double arm = 0.0397 * M_SQRT1_2, torque_ratio = 7.94e-12 / 3.16e-10;

void hb_airframe_axes(const double *q, double axis[3][3])
{
    double x = q[0], y = q[1], z = q[2], w = q[3];
    const double r[3][3] = {
        {1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)},
        {2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)},
        {2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)},
    };
    memcpy(axis, r, sizeof r);
}

static double dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double *a, const double *b, double *c)
{
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
}

static void normalise(double *a)
{
    double norm = sqrt(dot(a, a));
    for (int i = 0; i < 3; i++)
        a[i] /= norm;
}

static void wanted_axes(const double *force, double heading, double want[3][3])
{
    double ahead[3] = {cos(heading), sin(heading), 0};

    memcpy(want[2], force, 3 * sizeof **want);
    normalise(want[2]);
    cross(want[2], ahead, want[1]);
    normalise(want[1]);
    cross(want[1], want[2], want[0]);
}

void hb_airframe_attitude(const double *force, double heading, double *q)
{
    double r[3][3];

    wanted_axes(force, heading, r);
    /* a force that points up turns by less than half a turn unless the heading does: then w is not small */
    double w = sqrt(fmax(1 + r[0][0] + r[1][1] + r[2][2], 1e-12)) / 2;
    q[0] = (r[1][2] - r[2][1]) / (4 * w);
    q[1] = (r[2][0] - r[0][2]) / (4 * w);
    q[2] = (r[0][1] - r[1][0]) / (4 * w);
    q[3] = w;
}

void hb_airframe_attitude_error(double axis[3][3], const double *force, double heading, double *error)
{
    double want[3][3];

    wanted_axes(force, heading, want);
    /* half of vee(R*^T R - R^T R*) */
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        error[i] = 0.5 * (dot(want[k], axis[j]) - dot(want[j], axis[k]));
    }
}

void hb_airframe_mix(double thrust, const double *torque, double *rotor)
{
    static const double sign_x[4] = {1, 1, -1, -1}, sign_y[4] = {-1, 1, 1, -1}, sign_z[4] = {-1, 1, -1, 1};

    for (int i = 0; i < HB_AIRFRAME_ROTORS; i++)
        rotor[i] = thrust / 4 + sign_x[i] * torque[0] / (4 * arm) + sign_y[i] * torque[1] / (4 * arm) +
                   sign_z[i] * torque[2] / (4 * torque_ratio);
}

const char *hb_airframe_failure(double x, double y, double z, double qx, double qy, double room)
{
    if (z < 0)
        return "hit the ground";
    /* the body's z axis points downward */
    if (1 - 2 * (qx * qx + qy * qy) < 0)
        return "turned over";
    if (hypot(x, y) > room || z > room)
        return "flew away";
    return NULL;
}
