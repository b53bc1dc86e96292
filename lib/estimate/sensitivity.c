#include "estimate/sensitivity.h"

#include <string.h>

#include "estimate/constants.h"

void hb_sensitivity_lay_out(hb_sensitivity *s, hb_arena *arena)
{
    const hb_model *m = s->m;

    /* networks of whole periods have no path, and a coefficient of one state alone has no business in the others */
    s->lanes = m->integration == HB_COMBINED && m->shape != HB_PER_STATE && m->nb > 0 && m->nx < HB_STRIDE ? m->nx : 0;
    s->phi = hb_arena_take(arena, (size_t)s->lanes * (size_t)s->lanes, sizeof *s->phi);
    s->column = hb_arena_take(arena, (size_t)s->lanes * (size_t)m->nb, sizeof *s->column);
}

void hb_sensitivity_load(const hb_sensitivity *s, hb_rows *r, int lane, int first)
{
    for (int k = 0; k < s->lanes; k++)
        hb_rows_copy(r, lane, first + k);
    for (int k = 0; k < s->lanes; k++)
        r->z[k * HB_STRIDE + first + k] += (hb_real)HB_PHI_STEP;
}

void hb_sensitivity_find(hb_sensitivity *s, const hb_rows *r, int lane, int first)
{
    int nx = s->lanes;

    for (int d = 0; d < nx; d++) {
        const double *end = r->end + d * HB_STRIDE;
        for (int k = 0; k < nx; k++) {
            double moved = (double)(r->z[k * HB_STRIDE + first + k] - r->z[k * HB_STRIDE + lane]);
            s->phi[d * nx + k] = ((end[first + k] - end[lane]) / moved + (d == k)) / 2;
        }
    }
}

void hb_sensitivity_complete(hb_sensitivity *s, hb_rows *r, const hb_real *coefficient)
{
    int nx = s->lanes, nb = s->m->nb, n = nb + r->nfixed;

    if (nx == 0)
        return;
    memset(s->column, 0, (size_t)(nx * nb) * sizeof *s->column);
    for (int d = 0; d < nx; d++)
        for (int j = 0; j < nx; j++) {
            double phi = s->phi[d * nx + j];
            const double *row = r->row + (ptrdiff_t)j * r->ld;
            for (int i = 0; i < nb && phi != 0; i++)
                s->column[d * nb + i] += phi * row[i];
        }
    for (int d = 0; d < nx; d++) {
        double *row = r->row + (ptrdiff_t)d * r->ld;
        for (int i = 0; i < nb; i++) {
            double total = s->column[d * nb + i];
            row[n] += (total - row[i]) * (double)coefficient[i];
            row[i] = total;
        }
    }
}
