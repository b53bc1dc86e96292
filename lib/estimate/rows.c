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
    r->u = hb_arena_take(arena, HB_TRANSITION_PARTS * nu * HB_STRIDE, sizeof *r->u);
    r->dt = hb_arena_take(arena, HB_STRIDE, sizeof *r->dt);
    r->g = hb_arena_take(arena, (nb + 1) * nx * HB_STRIDE, sizeof *r->g);
    r->part = hb_arena_take(arena, (nb + 1) * nx * HB_STRIDE, sizeof *r->part);
    r->at = hb_arena_take(arena, nx * HB_STRIDE, sizeof *r->at);
    r->part_dt = hb_arena_take(arena, HB_TRANSITION_PARTS * HB_STRIDE, sizeof *r->part_dt);
    r->end = hb_arena_take(arena, nx * HB_STRIDE, sizeof *r->end);
    r->row = hb_arena_take(arena, size, sizeof *r->row);
    r->recalled = hb_arena_take(arena, size, sizeof *r->recalled);
}

void hb_rows_load(hb_rows *r, int lane, const hb_window_entry *entry, const double *control)
{
    int nu = r->m->nu, parts = entry->parts;

    for (int i = 0; i < r->m->nx; i++)
        r->z[i * HB_STRIDE + lane] = (hb_real)entry->z[i];
    for (int k = 0; k < parts * nu; k++)
        r->u[k * HB_STRIDE + lane] = (hb_real)control[k];

    /* a network that gives the increment of a whole period knows no parts */
    if (r->m->integration == HB_DIRECT && parts > 1) {
        for (int i = 0; i < nu; i++) {
            double sum = 0;
            for (int p = 0; p < parts; p++)
                sum += control[p * nu + i];
            r->u[i * HB_STRIDE + lane] = (hb_real)(sum / parts);
        }
        parts = 1;
    }
    r->parts[lane] = parts;
    r->dt[lane] = (hb_real)(entry->dt / parts);
}

void hb_rows_copy(hb_rows *r, int from, int to)
{
    int nx = r->m->nx, nu = r->m->nu;

    for (int i = 0; i < nx; i++)
        r->z[i * HB_STRIDE + to] = r->z[i * HB_STRIDE + from];
    for (int k = 0; k < r->parts[from] * nu; k++)
        r->u[k * HB_STRIDE + to] = r->u[k * HB_STRIDE + from];
    r->parts[to] = r->parts[from];
    r->dt[to] = r->dt[from];
}

/* From one part to the next: z + F_avg + sum c_i G_i. */
static void advance(hb_rows *r, int n, const hb_real *coefficient)
{
    int nx = r->m->nx, nb = r->m->nb;
    bool per_state = r->m->shape == HB_PER_STATE;

    for (int d = 0; d < nx; d++) {
        hb_real *at = r->at + d * HB_STRIDE;
        for (int i = 0; i <= nb; i++) {
            hb_real c = i == nb ? 1 : coefficient[per_state ? i * nx + d : i];
            const hb_real *g = r->part + (i * nx + d) * HB_STRIDE;
            for (int lane = 0; lane < n; lane++)
                at[lane] += c * g[lane];
        }
    }
}

/* Part p of all lanes, added to g. */
static void evaluate_part(hb_rows *r, hb_workspace *w, int lanes, int p, const hb_real *coefficient)
{
    int n = hb_padded(lanes), rows = (r->m->nb + 1) * r->m->nx;
    const hb_batch in = {
        .n = lanes, .z = r->at, .u = r->u + p * r->m->nu * HB_STRIDE, .dt = r->part_dt + p * HB_STRIDE};

    hb_basis_increments(r->m, w, &in, coefficient, r->part);
    for (int k = 0; k < rows; k++)
        for (int lane = 0; lane < n; lane++)
            r->g[k * HB_STRIDE + lane] += r->part[k * HB_STRIDE + lane];
    advance(r, n, coefficient);
}

static void evaluate(hb_rows *r, hb_workspace *w, int lanes, const hb_real *coefficient)
{
    int nx = r->m->nx, nu = r->m->nu, most = 1;

    for (int lane = 0; lane < lanes; lane++)
        most = r->parts[lane] > most ? r->parts[lane] : most;

    /* the padding repeats the first lane; a lane without a further part repeats its first control */
    for (int lane = 0; lane < hb_padded(lanes); lane++) {
        int from = lane < lanes ? lane : 0, parts = r->parts[from];
        for (int i = 0; i < nx && lane >= lanes; i++)
            r->z[i * HB_STRIDE + lane] = r->z[i * HB_STRIDE];
        for (int p = 0; p < most; p++)
            for (int i = 0; i < nu; i++)
                r->u[(p * nu + i) * HB_STRIDE + lane] = r->u[((p < parts ? p : 0) * nu + i) * HB_STRIDE + from];
        r->dt[lane] = r->dt[from];
    }
    if (most == 1) {
        hb_basis_increments(r->m, w, &(hb_batch){.n = lanes, .z = r->z, .u = r->u, .dt = r->dt}, coefficient, r->g);
        return;
    }
    for (int p = 0; p < most; p++) /* lanes that have ended stay as they are */
        for (int lane = 0; lane < hb_padded(lanes); lane++)
            r->part_dt[p * HB_STRIDE + lane] = lane >= lanes || p < r->parts[lane] ? r->dt[lane] : 0;
    if (hb_basis_joins_parts(r->m)) {
        const hb_batch in = {.n = lanes, .z = r->z, .u = r->u, .dt = r->part_dt};
        hb_basis_increments_of_parts(r->m, w, &in, most, coefficient, r->g);
        return;
    }
    memcpy(r->at, r->z, (size_t)nx * HB_STRIDE * sizeof *r->at);
    memset(r->g, 0, (size_t)((r->m->nb + 1) * nx) * HB_STRIDE * sizeof *r->g);
    for (int p = 0; p < most; p++)
        evaluate_part(r, w, lanes, p, coefficient);
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
    evaluate(r, w, lanes, coefficient);
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
