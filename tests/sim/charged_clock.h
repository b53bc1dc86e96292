/* A simulated clock: each piece of a planner's work takes a fixed time, so that flights come out the same on any
 * machine. The context of both functions is the time, in seconds. */
#ifndef HB_CHARGED_CLOCK_H
#define HB_CHARGED_CLOCK_H

#include "plan/planner.h"

/* microseconds: about what a piece takes at 3 x 64, horizon 10, on an AMD Zen 3 (AVX2) */
static const double charge_us[HB_NPIECES] = {
    [HB_PIECE_FORWARD] = 170, [HB_PIECE_BACKWARD] = 170, [HB_PIECE_SINGLE] = 6, [HB_PIECE_FEW] = 9,
    [HB_PIECE_TRIAL] = 25,    [HB_PIECE_JACOBIANS] = 60, [HB_PIECE_SOLVE] = 60, [HB_PIECE_DEFECTS] = 25,
};

static inline double charged(void *context)
{
    return *(double *)context;
}

static inline void charge(void *context, hb_piece kind)
{
    *(double *)context += 1e-6 * charge_us[kind];
}

#endif
