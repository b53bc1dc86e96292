/* Points of one function: short stretches of its trajectories, side by side in blocks (batch.h).
 *
 *     block 0   z: (nsteps + 1) x nx rows of HB_STRIDE lanes      u: nsteps x nu rows      dt: nsteps rows
 *     block 1   ...
 *
 * Sample p is lane p % HB_STRIDE of block p / HB_STRIDE. Lanes beyond the last sample hold a state of zero and a dt
 * above zero, so that kernels may compute on them. */
#ifndef HB_POINTS_H
#define HB_POINTS_H

#include "base/batch.h"

typedef struct hb_points {
    int nx, nu;
    int n;                 /* samples */
    int nsteps;            /* transitions per sample, >= 1 */
    hb_real *z;            /* nblocks x (nsteps + 1) x nx x HB_STRIDE, normalised states */
    hb_real *u;            /* nblocks x nsteps x nu x HB_STRIDE, normalised controls */
    hb_real *dt;           /* nblocks x nsteps x HB_STRIDE, seconds */
    const double *nominal; /* parameters of this function's own physics; NULL: the model's */
} hb_points;

static inline int hb_points_nblocks(const hb_points *p)
{
    return (p->n + HB_STRIDE - 1) / HB_STRIDE;
}

/* The states of a block after `step` transitions. */
static inline hb_real *hb_points_states(const hb_points *p, int block, int step)
{
    return p->z + ((size_t)block * ((size_t)p->nsteps + 1) + (size_t)step) * (size_t)p->nx * HB_STRIDE;
}

static inline hb_real *hb_points_controls(const hb_points *p, int block, int step)
{
    return p->u + ((size_t)block * (size_t)p->nsteps + (size_t)step) * (size_t)p->nu * HB_STRIDE;
}

static inline hb_real *hb_points_dt(const hb_points *p, int block, int step)
{
    return p->dt + ((size_t)block * (size_t)p->nsteps + (size_t)step) * HB_STRIDE;
}

/* Transition `step` of a block, as the library takes it. */
static inline hb_batch hb_points_batch(const hb_points *p, int block, int step)
{
    int left = p->n - block * HB_STRIDE;
    return (hb_batch){.n = left < HB_STRIDE ? left : HB_STRIDE,
                      .z = hb_points_states(p, block, step),
                      .u = p->nu ? hb_points_controls(p, block, step) : NULL,
                      .dt = hb_points_dt(p, block, step)};
}

/* Lays out memory for up to n samples; the arena as in base.h. */
void hb_points_lay_out(hb_points *p, int nx, int nu, int n, int nsteps, hb_arena *arena);

#endif
