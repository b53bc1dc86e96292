#include "mavlink/convert.h"

#include <math.h>

void hb_state_from_ned(const float position[3], const float velocity[3], const float q[4], const float rates[3],
                       double x[HB_NSTATE])
{
    double norm = sqrt((double)q[0] * (double)q[0] + (double)q[1] * (double)q[1] + (double)q[2] * (double)q[2] +
                       (double)q[3] * (double)q[3]);
    x[HB_X] = (double)position[0];
    x[HB_Y] = -(double)position[1];
    x[HB_Z] = -(double)position[2];
    x[HB_VX] = (double)velocity[0];
    x[HB_VY] = -(double)velocity[1];
    x[HB_VZ] = -(double)velocity[2];
    x[HB_QW] = (double)q[0] / norm;
    x[HB_QX] = (double)q[1] / norm;
    x[HB_QY] = -(double)q[2] / norm;
    x[HB_QZ] = -(double)q[3] / norm;
    x[HB_WX] = (double)rates[0];
    x[HB_WY] = -(double)rates[1];
    x[HB_WZ] = -(double)rates[2];
}

void hb_attitude_turned(const float q[4], const float rates[3], float seconds, float ret[4])
{
    const float h = seconds / 2;

    /* q' = q (0, rates) / 2 */
    ret[0] = q[0] - h * (q[1] * rates[0] + q[2] * rates[1] + q[3] * rates[2]);
    ret[1] = q[1] + h * (q[0] * rates[0] + q[2] * rates[2] - q[3] * rates[1]);
    ret[2] = q[2] + h * (q[0] * rates[1] + q[3] * rates[0] - q[1] * rates[2]);
    ret[3] = q[3] + h * (q[0] * rates[2] + q[1] * rates[1] - q[2] * rates[0]);
}

void hb_control_from_frd(float thrust, const float rates[3], double u[HB_NCONTROL])
{
    u[HB_THRUST] = (double)thrust;
    u[HB_ROLL_RATE] = (double)rates[0];
    u[HB_PITCH_RATE] = -(double)rates[1];
    u[HB_YAW_RATE] = -(double)rates[2];
}

void hb_control_to_frd(const double u[HB_NCONTROL], float *thrust, float rates[3])
{
    *thrust = (float)u[HB_THRUST];
    rates[0] = (float)u[HB_ROLL_RATE];
    rates[1] = (float)-u[HB_PITCH_RATE];
    rates[2] = (float)-u[HB_YAW_RATE];
}

void hb_point_to_ned(const double point[3], float ned[3])
{
    ned[0] = (float)point[0];
    ned[1] = (float)-point[1];
    ned[2] = (float)-point[2];
}

void hb_to_world(const double x[HB_NSTATE], const double v[3], double world[3])
{
    const double w = x[HB_QW], q[3] = {x[HB_QX], x[HB_QY], x[HB_QZ]};
    const double t[3] = {2 * (q[1] * v[2] - q[2] * v[1]), 2 * (q[2] * v[0] - q[0] * v[2]),
                         2 * (q[0] * v[1] - q[1] * v[0])};

    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        world[i] = v[i] + w * t[i] + q[j] * t[k] - q[k] * t[j];
    }
}

bool hb_quaternion_follow(double x[HB_NSTATE], const double *before)
{
    double sign = x[HB_QW] < 0 ? -1 : 1;
    bool anew = false;

    if (before) {
        double along = 0;
        for (int i = HB_QX; i <= HB_QW; i++)
            along += x[i] * before[i];
        double follow = along < 0 ? -1 : 1;
        anew = follow * x[HB_QW] < -0.2;
        if (!anew)
            sign = follow;
    }
    for (int i = HB_QX; i <= HB_QW; i++)
        x[i] *= sign;
    return anew;
}

double hb_heading(const double x[HB_NSTATE])
{
    return atan2(2 * (x[HB_QW] * x[HB_QZ] + x[HB_QX] * x[HB_QY]), 1 - 2 * (x[HB_QY] * x[HB_QY] + x[HB_QZ] * x[HB_QZ]));
}

double hb_tilt(const double x[HB_NSTATE])
{
    double up = 1 - 2 * (x[HB_QX] * x[HB_QX] + x[HB_QY] * x[HB_QY]);
    return acos(up > 1 ? 1 : up < -1 ? -1 : up);
}
