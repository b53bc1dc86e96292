/* What the plants that fly have in common: their state, and gusts. */
#ifndef HB_FLYING_BODY_H
#define HB_FLYING_BODY_H

#include <math.h>

#include "sim/plant.h"

/* world, z up; quaternion body to world; rates in the body frame */
enum { X, VX, Y, VY, Z, VZ, QX, QY, QZ, QW, WX, WY, WZ, NX };

static const char *const state_name[NX] = {"x", "vx", "y", "vy", "z", "vz", "qx", "qy", "qz", "qw", "wx", "wy", "wz"};
static const char *const state_unit[NX] = {"m", "m/s", "m", "m/s",   "m",     "m/s",  "1",
                                           "1", "1",   "1", "rad/s", "rad/s", "rad/s"};

/* Gusts on three axes, coloured noise of standard deviation `size` (m/s); they start in their long-term distribution.
 */
static inline void gust_start(double gust[3], double size, hb_draws *d)
{
    for (int i = 0; i < 3; i++)
        gust[i] = size * hb_draw_normal(d);
}

/* Moves them on by h seconds; `lasts` is their correlation time. */
static inline void gust_step(double gust[3], double size, double lasts, double h, hb_draws *d)
{
    double keep = exp(-h / lasts);

    for (int i = 0; i < 3 && size > 0; i++)
        gust[i] = keep * gust[i] + size * sqrt(1 - keep * keep) * hb_draw_normal(d);
}

#endif
