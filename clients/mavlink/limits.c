#include "mavlink/limits.h"

#include <math.h>
#include <stddef.h>

#include "base/numeric.h"

static double between(double value, double min, double max)
{
    return value < min ? min : value > max ? max : value;
}

bool hb_limits_clamp(const hb_limits *l, double u[HB_NCONTROL])
{
    if (!hb_all_finite(u, HB_NCONTROL))
        return false;
    u[HB_THRUST] = between(u[HB_THRUST], l->thrust_min, l->thrust_max);
    u[HB_ROLL_RATE] = between(u[HB_ROLL_RATE], -l->rate, l->rate);
    u[HB_PITCH_RATE] = between(u[HB_PITCH_RATE], -l->rate, l->rate);
    u[HB_YAW_RATE] = between(u[HB_YAW_RATE], -l->yaw_rate, l->yaw_rate);
    return true;
}

const char *hb_limits_exceeded(const hb_limits *l, const double x[HB_NSTATE])
{
    static const int at[] = {HB_X, HB_Y, HB_Z};

    if (!hb_all_finite(x, HB_NSTATE))
        return "the state holds something that is no number";
    for (int i = 0; i < 3; i++)
        if (x[at[i]] < l->box_min[i] || x[at[i]] > l->box_max[i])
            return "outside the box";
    if (x[HB_VX] * x[HB_VX] + x[HB_VY] * x[HB_VY] + x[HB_VZ] * x[HB_VZ] > l->speed * l->speed)
        return "faster than the limit";
    if (hb_tilt(x) > l->tilt)
        return "tilted beyond the limit";
    return NULL;
}

void hb_limits_nearest(const hb_limits *l, double point[3])
{
    for (int i = 0; i < 3; i++)
        point[i] = between(point[i], l->box_min[i], l->box_max[i]);
}
