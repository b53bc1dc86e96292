/* Candidate control sequences, one vector lane each, in blocks of HB_STRIDE lanes.
 *
 * What is searched is w: u = trim + M w, so that a step in w is a step in units of each direction's range. M is the
 * directions of the settings (identity by default), scaled. Every candidate is kept within the bounds of u: clamped
 * element by element when M is diagonal, else drawn back towards trim, so that it stays in the span of M.
 *
 * Lanes never mix but in hb_population_average, which runs over samples in order: what a lane
 * becomes does not depend on how lanes are shared among threads. */
#ifndef HB_POPULATION_H
#define HB_POPULATION_H

#include <stdbool.h>

#include "base/batch.h"
#include "base/numeric.h"

/* u = trim + M w within [low, high] */
typedef struct hb_control_map {
    int nu, nv;
    bool diagonal;
    double *trim, *low, *high; /* nu */
    double *direction;         /* nu x nv: M */
} hb_control_map;

/* One sequence's controls (nh x nu) in double, exactly within bounds. w: nh x nv. */
void hb_control_map_apply(const hb_control_map *map, int nh, const hb_real *w, double *u);

/* The sequence (nh x nv) that holds control u (nu) throughout; trim where M is not diagonal. */
void hb_control_map_hold(const hb_control_map *map, int nh, const double *u, hb_real *w);
/* The sequence of these controls (nh x nu) where M is diagonal; false where it is not. */
bool hb_control_map_follow(const hb_control_map *map, int nh, const double *u, hb_real *w);

typedef struct hb_population {
    const hb_control_map *map;
    int ns, nh;         /* samples and steps in use: at most what there is room for */
    ptrdiff_t w_block;  /* numbers from block to block of w: room for all steps and directions */
    ptrdiff_t u_block;  /* and of u */
    hb_real *w;         /* blocks of nh x nv x HB_STRIDE */
    hb_real *u;         /* blocks of nh x nu x HB_STRIDE, physical */
    hb_real *du;        /* as u: the cost's gradient; NULL without gradients */
    hb_real *moment[2]; /* as w: Adam's means of gradients and their squares; NULL without gradients */
    hb_real *cost;      /* blocks of HB_STRIDE: that of sample s is cost[s] */
} hb_population;

/* A range of lanes of one block: first is a multiple of HB_LANES. */
typedef struct hb_lanes {
    int block, first, n;
} hb_lanes;

void hb_population_lay_out(hb_population *p, hb_arena *arena, const hb_control_map *map, int max_directions, int max_ns,
                           int max_nh, bool gradients);

static inline hb_real *hb_population_w(const hb_population *p, hb_lanes l)
{
    return p->w + l.block * p->w_block + l.first;
}

static inline hb_real *hb_population_u(const hb_population *p, hb_lanes l)
{
    return p->u + l.block * p->u_block + l.first;
}

static inline hb_real *hb_population_du(const hb_population *p, hb_lanes l)
{
    return p->du + l.block * p->u_block + l.first;
}

static inline hb_real *hb_population_cost(const hb_population *p, hb_lanes l)
{
    return p->cost + (ptrdiff_t)l.block * HB_STRIDE + l.first;
}

/* One sample's w, nh x nv. */
void hb_population_get(const hb_population *p, int sample, hb_real *w);
void hb_population_put(hb_population *p, int sample, const hb_real *w);

/* w = mean + deviation * noise for the samples of a range that are >= from; mean and deviation: nh x nv. Noise of
 * successive steps has the given correlation. `round` tells draws of one key apart. */
void hb_population_draw(hb_population *p, hb_lanes l, int from, const hb_real *mean, const hb_real *deviation,
                        double correlation, hb_random_key key, uint64_t round);

/* Brings w within bounds and works out u from it. */
void hb_population_bound(hb_population *p, hb_lanes l);

/* One step of Adam, number `iteration` from 1 (which forgets earlier ones), down the gradient du; its norm over one
 * step's w is clipped. Lanes that are not finite start over from `fallback` (nh x nv). */
void hb_population_adam(hb_population *p, hb_lanes l, int iteration, double rate, double clip, const hb_real *fallback);

/* Moves all sequences on by a number of steps, or back by a negative one: a fraction is interpolated, the end (the
 * beginning) is repeated. */
void hb_population_shift(hb_population *p, double steps);
/* The same for one sequence, nh x nv. */
void hb_sequence_shift(int nh, int nv, double steps, hb_real *w);
/* One sequence, nh x nv, at steps that are `ratio` times as long: what is in force in the middle of each. */
void hb_sequence_stretch(int nh, int nv, double ratio, hb_real *w);

/* Ranks the first n samples by cost: order[0] is the best; those that are not finite come last. Returns how many are
 * finite. */
int hb_population_rank(const hb_population *p, int n, int *order);
/* Mean weighted by exp(-(cost - best) / (temperature * spread)), spread being the standard deviation of the costs of
 * the better half. */
void hb_population_average(const hb_population *p, const int *order, int finite, double temperature, hb_real *mean);

#endif
