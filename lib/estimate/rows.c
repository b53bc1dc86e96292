#include "estimate/rows.h"

#include <string.h>

#include "base/numeric.h"
#include "dynamics/basis.h"

void hb_rows_lay_out(hb_rows *r, hb_arena *arena)
{
    size_t nx = (size_t)r->m->nx, nu = (size_t)r->m->nu, nb = (size_t)r->m->nb, nw = (size_t)r->nw;
    size_t size = nx * (size_t)r->ld;

    r->increment = hb_arena_take(arena, nw * nx * nb, sizeof *r->increment);
    r->residual = hb_arena_take(arena, nw * nx, sizeof *r->residual);
    r->z = hb_arena_take(arena, nx * HB_STRIDE, sizeof *r->z);
    r->u = hb_arena_take(arena, nu * HB_STRIDE, sizeof *r->u);
    r->dt = hb_arena_take(arena, HB_STRIDE, sizeof *r->dt);
    r->g = hb_arena_take(arena, (nb + 1) * nx * HB_STRIDE, sizeof *r->g);
    r->end = hb_arena_take(arena, nx * HB_STRIDE, sizeof *r->end);
    r->row = hb_arena_take(arena, size, sizeof *r->row);
    r->recalled = hb_arena_take(arena, size, sizeof *r->recalled);
}

void hb_rows_load(hb_rows *r, int lane, const hb_window_entry *entry, const double *control)
{
    for (int i = 0; i < r->m->nx; i++)
        r->z[i * HB_STRIDE + lane] = (hb_real)entry->z[i];
    for (int i = 0; i < r->m->nu; i++)
        r->u[i * HB_STRIDE + lane] = (hb_real)control[i];
    r->dt[lane] = (hb_real)entry->dt;
}

void hb_rows_copy(hb_rows *r, int from, int to)
{
    for (int i = 0; i < r->m->nx; i++)
        r->z[i * HB_STRIDE + to] = r->z[i * HB_STRIDE + from];
    for (int i = 0; i < r->m->nu; i++)
        r->u[i * HB_STRIDE + to] = r->u[i * HB_STRIDE + from];
    r->dt[to] = r->dt[from];
}

/* In double: ends are subtracted from one another. */
static void find_ends(hb_rows *r, int lanes, const hb_real *coefficient)
{
    int nx = r->m->nx, nb = r->m->nb, n = hb_padded(lanes);
    bool per_state = r->m->shape == HB_PER_STATE;

    for (int d = 0; d < nx; d++) {
        double *restrict end = r->end + d * HB_STRIDE;
        for (int lane = 0; lane < n; lane++)
            end[lane] = (double)r->z[d * HB_STRIDE + lane];
        for (int i = 0; i <= nb; i++) {
            double c = i == nb ? 1 : (double)coefficient[per_state ? i * nx + d : i];
            const hb_real *restrict g = r->g + (i * nx + d) * HB_STRIDE;
            for (int lane = 0; lane < n; lane++)
                end[lane] += c * (double)g[lane];
        }
    }
}

void hb_rows_evaluate(hb_rows *r, hb_workspace *w, int lanes, const hb_real *coefficient)
{
    for (int lane = lanes; lane < hb_padded(lanes); lane++) /* padding must hold something that can be computed */
        hb_rows_copy(r, 0, lane);
    hb_basis_increments(r->m, w, &(hb_batch){.n = lanes, .z = r->z, .u = r->u, .dt = r->dt}, coefficient, r->g);
    find_ends(r, lanes, coefficient);
}

bool hb_rows_of_lane(hb_rows *r, int lane, const double *dz)
{
    int nx = r->m->nx, nb = r->m->nb, n = nb + r->nfixed;
    double check = 0;

    for (int d = 0; d < nx; d++) {
        double *row = r->row + d * r->ld;
        for (int i = 0; i < nb; i++)
            row[i] = r->g[(i * nx + d) * HB_STRIDE + lane];
        for (int i = nb; i < n; i++)
            row[i] = 0;
        row[n] = dz[d] - r->g[(nb * nx + d) * HB_STRIDE + lane];
        row[n + 1] = dz[d];
        for (int i = 0; i <= n; i++)
            check += hb_zero_if_finite(row[i]);
    }
    return check == 0;
}

void hb_rows_keep(hb_rows *r, uint64_t sequence)
{
    int nx = r->m->nx, nb = r->m->nb;
    size_t slot = sequence % (uint64_t)r->nw * (size_t)nx;

    for (int d = 0; d < nx; d++, slot++) {
        const double *row = r->row + d * r->ld;
        for (int i = 0; i < nb; i++)
            r->increment[slot * (size_t)nb + (size_t)i] = (hb_real)row[i];
        r->residual[slot] = row[nb + r->nfixed];
    }
}

const double *hb_rows_recall(hb_rows *r, uint64_t sequence, const double *dz)
{
    int nx = r->m->nx, nb = r->m->nb;
    size_t slot = sequence % (uint64_t)r->nw * (size_t)nx;

    for (int d = 0; d < nx; d++, slot++) {
        double *row = r->recalled + d * r->ld;
        for (int i = 0; i < nb; i++)
            row[i] = r->increment[slot * (size_t)nb + (size_t)i];
        for (int i = nb; i < nb + r->nfixed; i++)
            row[i] = 0;
        row[nb + r->nfixed] = r->residual[slot];
        row[nb + r->nfixed + 1] = dz[d];
    }
    return r->recalled;
}
