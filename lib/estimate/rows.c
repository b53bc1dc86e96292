#include "estimate/rows.h"

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
    r->row = hb_arena_take(arena, size, sizeof *r->row);
    r->recalled = hb_arena_take(arena, size, sizeof *r->recalled);
}

void hb_rows_load(hb_rows *r, int lane, const hb_window_entry *entry)
{
    for (int i = 0; i < r->m->nx; i++)
        r->z[i * HB_STRIDE + lane] = (hb_real)entry->z[i];
    for (int i = 0; i < r->m->nu; i++)
        r->u[i * HB_STRIDE + lane] = (hb_real)entry->u[i];
    r->dt[lane] = (hb_real)entry->dt;
}

void hb_rows_evaluate(hb_rows *r, hb_workspace *w, int lanes, const hb_real *coefficient)
{
    /* the padding repeats the first lane */
    for (int lane = lanes; lane < hb_padded(lanes); lane++) {
        for (int i = 0; i < r->m->nx; i++)
            r->z[i * HB_STRIDE + lane] = r->z[i * HB_STRIDE];
        for (int i = 0; i < r->m->nu; i++)
            r->u[i * HB_STRIDE + lane] = r->u[i * HB_STRIDE];
        r->dt[lane] = r->dt[0];
    }
    hb_basis_increments(r->m, w, &(hb_batch){.n = lanes, .z = r->z, .u = r->u, .dt = r->dt}, coefficient, r->g);
}

bool hb_rows_of_lane(hb_rows *r, int lane, const double *dz)
{
    int nx = r->m->nx, nb = r->m->nb;
    double check = 0;

    for (int d = 0; d < nx; d++) {
        double *row = r->row + d * r->ld;
        for (int i = 0; i < nb; i++)
            row[i] = r->g[(i * nx + d) * HB_STRIDE + lane];
        row[nb] = dz[d] - r->g[(nb * nx + d) * HB_STRIDE + lane];
        row[nb + 1] = dz[d];
        for (int i = 0; i <= nb; i++)
            check += 0 * row[i];
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
        r->residual[slot] = row[nb];
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
        row[nb] = r->residual[slot];
        row[nb + 1] = dz[d];
    }
    return r->recalled;
}
