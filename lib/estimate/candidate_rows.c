/* The formulas: candidate_rows.h. */
#include "estimate/candidate_rows.h"

#include <math.h>
#include <string.h>

#include "dynamics/kernels.h"

/* s_j at least, in standard deviations of the control: less drowns in rounding */
static const double least_scale = 0.01;

void hb_candidate_rows_lay_out(hb_candidate_rows *c, hb_arena *arena)
{
    size_t controls = (size_t)(HB_TRANSITION_PARTS * c->nu), size = (size_t)c->size;

    c->arithmetic = hb_arithmetic_find(hb_kernels_default()->name);
    c->present = hb_arena_take(arena, controls, sizeof(double));
    c->control = hb_arena_take(arena, controls, sizeof(double));
    c->difference = hb_arena_take(arena, HB_GRID * controls, sizeof(double));
    c->scale = hb_arena_take(arena, (size_t)c->nu, sizeof(double));
    c->base = hb_arena_take(arena, size, sizeof(double));
    c->slope = hb_arena_take(arena, HB_STRIDE * size, sizeof(double));
    c->share = hb_arena_take(arena, HB_STRIDE, sizeof(hb_sides));
    c->row = hb_arena_take(arena, HB_GRID_BLOCKS * size, sizeof(hb_sides));
}

/* t_p */
static double time_of_part(const hb_candidate_rows *c, int p)
{
    return c->parts > 1 ? 1 - 2.0 * p / (c->parts - 1) : 0;
}

void hb_candidate_rows_start(hb_candidate_rows *c, int parts, const double *present)
{
    bool both = parts > 1 && 1 + 2 * c->nu <= HB_STRIDE;

    c->parts = parts;
    c->directions = (both ? 2 : 1) * c->nu;
    memcpy(c->present, present, (size_t)(parts * c->nu) * sizeof *present);
    for (int j = 0; j < c->nu; j++)
        c->scale[j] = least_scale;
}

void hb_candidate_rows_set(hb_candidate_rows *c, int candidate, const double *control)
{
    double *difference = c->difference + candidate * HB_TRANSITION_PARTS * c->nu;

    for (int p = 0; p < c->parts; p++)
        for (int j = 0; j < c->nu; j++) {
            double by = control[p * c->nu + j] - c->present[p * c->nu + j];
            difference[p * c->nu + j] = by;
            c->scale[j] = fmax(c->scale[j], fabs(by));
        }
}

/* Direction i: of control i % nu, on average for the first nu of them, and by time for the others. */
static double direction(const hb_candidate_rows *c, int i, int p)
{
    return i < c->nu ? 1 : time_of_part(c, p);
}

int hb_candidate_rows_load(hb_candidate_rows *c, hb_rows *rows, int lane, const hb_window_entry *entry)
{
    size_t size = (size_t)(c->parts * c->nu) * sizeof *c->control;

    for (int i = 0; i < c->directions; i++) {
        memcpy(c->control, c->present, size);
        for (int p = 0; p < c->parts; p++)
            c->control[p * c->nu + i % c->nu] += c->scale[i % c->nu] * direction(c, i, p);
        hb_rows_load(rows, lane + i, entry, c->control);
    }
    return c->directions;
}

/* How far candidate k goes in direction i: least squares over the parts, since the directions of a control are
 * orthogonal. */
static double share(const hb_candidate_rows *c, int k, int i)
{
    const double *difference = c->difference + k * HB_TRANSITION_PARTS * c->nu;
    double product = 0, square = 0;

    for (int p = 0; p < c->parts; p++) {
        double t = direction(c, i, p);
        product += t * difference[p * c->nu + i % c->nu];
        square += t * t;
    }
    return product / (square * c->scale[i % c->nu]);
}

bool hb_candidate_rows_combine(hb_candidate_rows *c, int candidates, hb_rows *rows, int present, int lane,
                               const double *dz, const double *given)
{
    if (!hb_rows_of_lane(rows, present, dz))
        return false;
    memcpy(c->base, rows->row, (size_t)c->size * sizeof *c->base);
    for (int i = 0; i < c->directions; i++) {
        if (!hb_rows_of_lane(rows, lane + i, dz))
            return false;
        for (int at = 0; at < c->size; at++)
            c->slope[i * c->size + at] = rows->row[at] - c->base[at];
    }
    for (int first = 0; first < candidates; first += HB_SIDES) {
        hb_sides *to = c->row + first / HB_SIDES * c->size;
        for (int i = 0; i < c->directions; i++)
            for (int s = 0; s < HB_SIDES; s++)
                c->share[i][s] = share(c, first + s < candidates ? first + s : candidates - 1, i);
        c->arithmetic->sides_mix(c->size, c->directions, given, c->slope, c->share, to);
    }
    return true;
}
