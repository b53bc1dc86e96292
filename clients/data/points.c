#include "data/points.h"

void hb_points_lay_out(hb_points *p, int nx, int nu, int n, int nsteps, hb_arena *arena)
{
    *p = (hb_points){.nx = nx, .nu = nu, .n = n, .nsteps = nsteps};

    size_t nblocks = (size_t)hb_points_nblocks(p), h = (size_t)nsteps;
    p->z = hb_arena_take(arena, nblocks * (h + 1) * (size_t)nx * HB_STRIDE, sizeof *p->z);
    p->u = hb_arena_take(arena, nblocks * h * (size_t)nu * HB_STRIDE, sizeof *p->u);
    p->dt = hb_arena_take(arena, nblocks * h * HB_STRIDE, sizeof *p->dt);
}
