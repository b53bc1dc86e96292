#include "train/fit.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dynamics/basis.h"
#include "base/numeric.h"

int hb_fit_refinements(const hb_model *m)
{
    return m->integration == HB_COMBINED && m->nb > 0 ? 2 : 0;
}

bool hb_fit_refines(const hb_model *m)
{
    return m->integration == HB_COMBINED && hb_basis_tape_size(m) > 0;
}

/* Blocks of examples that are recorded for the gradient. A shared network needs all of them; many networks, whose
 * records are large, can do without. */
static size_t count_records(const hb_model *m, size_t nblocks)
{
    enum { RECORD_BYTES = 128 << 20 };
    size_t size = hb_basis_tape_size(m), fit = size ? RECORD_BYTES / size : 0;

    if (m->architecture == HB_SHARED && size)
        return nblocks;
    return fit < nblocks ? fit : nblocks;
}

static void lay_out_pass(hb_fit_pass *p, const hb_model *m, size_t nblocks, size_t nsystems, bool refined,
                         bool gradients, hb_arena *arena)
{
    size_t nb = (size_t)m->nb, nx = (size_t)m->nx;

    p->along = refined ? hb_arena_take(arena, (size_t)hb_model_ncoefficients(m), sizeof *p->along) : NULL;
    p->g = hb_arena_take(arena, nblocks * (nb + 1) * nx * HB_STRIDE, sizeof *p->g);
    p->r = hb_arena_take(arena, nblocks * nx * HB_STRIDE, sizeof *p->r);
    p->gram = hb_arena_take(arena, nsystems * nb * nb, sizeof *p->gram);
    p->moment = hb_arena_take(arena, nsystems * nb, sizeof *p->moment);
    p->nrecords = gradients ? count_records(m, nblocks) : 0;
    p->tape = hb_arena_take(arena, p->nrecords * hb_basis_tape_size(m), 1);
}

/* fills *f with pointers into the arena; returns where *f itself is to be kept */
static hb_fit *lay_out(hb_fit *f, bool gradients, hb_arena *arena)
{
    hb_fit *place = hb_arena_take(arena, 1, sizeof *f);
    const hb_model *m = f->model;
    size_t nblocks = ((size_t)f->capacity + HB_STRIDE - 1) / HB_STRIDE;
    size_t nb = (size_t)m->nb, nsystems = (size_t)f->nsystems;

    for (int k = 0; k < f->npasses; k++)
        lay_out_pass(&f->pass[k], m, nblocks, nsystems, k > 0, gradients, arena);
    f->dg = hb_arena_take(arena, (nb + 1) * (size_t)m->nx * HB_STRIDE, sizeof *f->dg);
    f->mix = hb_arena_take(arena, nb * nb, sizeof *f->mix);
    f->dgram = hb_arena_take(arena, nsystems * nb * nb, sizeof *f->dgram);
    f->dmoment = hb_arena_take(arena, nsystems * nb, sizeof *f->dmoment);
    f->factor = hb_arena_take(arena, nb * nb, sizeof *f->factor);
    f->weight = hb_arena_take(arena, (size_t)m->nx, sizeof *f->weight);
    f->information = m->has_prior ? hb_arena_take(arena, nsystems * nb * nb, sizeof *f->information) : NULL;
    f->information_mean = m->has_prior ? hb_arena_take(arena, nsystems * nb, sizeof *f->information_mean) : NULL;
    f->c = hb_arena_take(arena, nb, sizeof *f->c);
    f->l = hb_arena_take(arena, nb, sizeof *f->l);
    f->row = hb_arena_take(arena, HB_STRIDE * nb, sizeof *f->row);
    f->dalong = hb_arena_take(arena, (size_t)hb_model_ncoefficients(m), sizeof *f->dalong);
    f->daverage = hb_arena_take(arena, (size_t)m->nx * HB_STRIDE, sizeof *f->daverage);
    f->memory = arena->base;
    return place;
}

int hb_fit_new(hb_fit **ret, const hb_model *m, int capacity, int refinements, bool gradients, hb_error *err)
{
    hb_fit f = {
        .model = m, .capacity = capacity, .nsystems = m->shape == HB_PER_STATE ? m->nx : 1, .npasses = 1 + refinements};
    hb_arena arena = {0};
    lay_out(&f, gradients, &arena);
    int status = hb_arena_allocate(&arena, err);
    if (status)
        return status;
    hb_fit *place = lay_out(&f, gradients, &arena);
    *place = f;
    place->first = &place->pass[0];
    place->last = &place->pass[refinements];
    for (int k = 0; k < m->nx; k++)
        place->weight[k] = 1;
    *ret = place;
    return 0;
}

void hb_fit_free(hb_fit *f)
{
    if (f)
        free(f->memory);
}

/* q P0^-1 and q P0^-1 c0 of one system; a covariance may be singular, up to its rounding */
static int invert_prior(hb_fit *f, int system, double q)
{
    const hb_model *m = f->model;
    size_t nb = (size_t)m->nb;
    const double *covariance = m->prior_covariance + (size_t)system * nb * nb;
    double *inverse = f->information + (size_t)system * nb * nb, *mean = f->information_mean + (size_t)system * nb;
    double most = 0;

    for (size_t i = 0; i < nb; i++)
        most = fmax(most, covariance[i * nb + i]);
    memcpy(f->factor, covariance, nb * nb * sizeof *covariance);
    for (size_t i = 0; i < nb; i++)
        f->factor[i * nb + i] += 1e-9 * most + DBL_MIN;
    if (hb_cholesky(m->nb, f->factor))
        return -1;
    memset(inverse, 0, nb * nb * sizeof *inverse);
    for (size_t i = 0; i < nb; i++) {
        inverse[i * nb + i] = q;
        mean[i] = q * m->prior_mean[i * (size_t)f->nsystems + (size_t)system];
    }
    hb_cholesky_solve(m->nb, f->factor, m->nb, inverse);
    hb_cholesky_solve(m->nb, f->factor, 1, mean);
    return 0;
}

int hb_fit_use_prior(hb_fit *f, hb_error *err)
{
    const hb_model *m = f->model;
    double precision = 0;

    if (!m->has_prior)
        return hb_fail(err, EINVAL, "the model has no prior: add one with 'hilbert-train prior'");
    if (m->method != HB_LEAST_SQUARES)
        return hb_fail(err, EINVAL, "a prior goes with least squares: the model's coefficients are inner products");
    for (int k = 0; k < m->nx; k++)
        precision += 1 / (m->noise[k] * m->noise[k] * m->nx);
    for (int k = 0; k < m->nx; k++)
        f->weight[k] = f->nsystems > 1 ? 1 : 1 / (m->noise[k] * m->noise[k] * precision);
    for (int system = 0; system < f->nsystems; system++)
        if (invert_prior(f, system, f->nsystems > 1 ? m->noise[system] * m->noise[system] : 1 / precision))
            return hb_fail(err, EINVAL, "the prior's covariance %d is not positive definite", system);
    f->has_prior = true;
    return 0;
}

/* the increments of a block; number nb is the average */
static hb_real *increments(const hb_fit *f, const hb_fit_pass *p, int block)
{
    size_t rows = ((size_t)f->model->nb + 1) * (size_t)f->model->nx;
    return p->g + (size_t)block * rows * HB_STRIDE;
}

static hb_real *residuals(const hb_fit *f, const hb_fit_pass *p, int block)
{
    return p->r + (size_t)block * (size_t)f->model->nx * HB_STRIDE;
}

/* a block's record; NULL: it has none */
static char *tape(const hb_fit *f, const hb_fit_pass *p, int block)
{
    return (size_t)block < p->nrecords ? p->tape + (size_t)block * hb_basis_tape_size(f->model) : NULL;
}

/* r = z_next - z - F_avg, and zero in the padding lanes */
static void evaluate_residuals(const hb_fit *f, const hb_fit_pass *pass, const hb_points *example, int block)
{
    const hb_model *m = f->model;
    int n = hb_points_batch(example, block, 0).n;
    const hb_real *z = hb_points_states(example, block, 0), *z_next = hb_points_states(example, block, 1);
    const hb_real *average = increments(f, pass, block) + (size_t)m->nb * (size_t)m->nx * HB_STRIDE;
    hb_real *r = residuals(f, pass, block);

    for (int k = 0; k < m->nx; k++) {
        size_t at = (size_t)k * HB_STRIDE;
        for (int p = 0; p < n; p++)
            r[at + (size_t)p] = z_next[at + (size_t)p] - z[at + (size_t)p] - average[at + (size_t)p];
        memset(r + at + n, 0, (size_t)(HB_STRIDE - n) * sizeof *r);
    }
}

/* adds one block's sums of G^T G and G^T r, in double */
static void add_sums(hb_fit *f, const hb_fit_pass *pass, int block, int n, double weight)
{
    int nb = f->model->nb, nx = f->model->nx;
    const hb_real *g = increments(f, pass, block), *r = residuals(f, pass, block);

    for (int k = 0; k < nx; k++) {
        size_t system = f->nsystems > 1 ? (size_t)k : 0;
        double *moment = pass->moment + system * (size_t)nb;

        for (int i = 0; i < nb; i++) {
            const hb_real *gi = g + ((size_t)i * (size_t)nx + (size_t)k) * HB_STRIDE;
            const hb_real *rk = r + (size_t)k * HB_STRIDE;
            double sum = 0;
            for (int p = 0; p < n; p++) {
                f->row[p * nb + i] = (double)gi[p];
                sum += (double)gi[p] * (double)rk[p];
            }
            moment[i] += weight * f->weight[k] * sum;
        }
        hb_rank_update(nb, n, weight * f->weight[k], f->row, pass->gram + system * (size_t)nb * (size_t)nb);
    }
}

static void evaluate_pass(hb_fit *f, const hb_fit_pass *pass, hb_workspace *w, const hb_points *example)
{
    const hb_model *m = f->model;
    size_t nsystems = (size_t)f->nsystems, nb = (size_t)m->nb;

    memset(pass->gram, 0, nsystems * nb * nb * sizeof *pass->gram);
    memset(pass->moment, 0, nsystems * nb * sizeof *pass->moment);
    for (int block = 0; block < hb_points_nblocks(example); block++) {
        hb_batch in = hb_points_batch(example, block, 0);
        char *record = tape(f, pass, block);
        if (record)
            hb_basis_record(m, w, &in, pass->along, increments(f, pass, block), record);
        else
            hb_basis_increments(m, w, &in, pass->along, increments(f, pass, block));
        evaluate_residuals(f, pass, example, block);
        if (m->nb > 0)
            add_sums(f, pass, block, in.n, 1.0 / example->n);
    }
}

/* Cholesky factor of the leading n x n part of one system's A + ridge I, or with the prior's information */
static int factorise(hb_fit *f, const hb_fit_pass *pass, int system, int n)
{
    size_t nb = (size_t)f->model->nb;
    const double *gram = pass->gram + (size_t)system * nb * nb;

    for (size_t i = 0; i < (size_t)n; i++) {
        double *row = f->factor + i * (size_t)n;
        memcpy(row, gram + i * nb, (size_t)n * sizeof *gram);
        if (f->has_prior)
            for (size_t j = 0; j <= i; j++)
                row[j] += f->information[((size_t)system * nb + i) * nb + j] / f->nexamples;
        else
            row[i] += f->model->ridge;
    }
    return hb_cholesky(n, f->factor);
}

/* solves one system for its first n coefficients: f->c; the factor stays in f->factor */
static int solve(hb_fit *f, const hb_fit_pass *pass, int system, int n)
{
    const double *moment = pass->moment + (size_t)system * (size_t)f->model->nb;

    if (f->model->method == HB_INNER_PRODUCT) {
        for (int i = 0; i < n; i++)
            f->c[i] = f->model->volume * moment[i];
        return 0;
    }
    if (factorise(f, pass, system, n))
        return -1;
    memcpy(f->c, moment, (size_t)n * sizeof *moment);
    for (int i = 0; i < n && f->has_prior; i++)
        f->c[i] += f->information_mean[system * f->model->nb + i] / f->nexamples;
    hb_cholesky_solve(n, f->factor, 1, f->c);
    return 0;
}

static int coefficients(hb_fit *f, const hb_fit_pass *pass, int n, hb_real *c)
{
    memset(c, 0, (size_t)hb_model_ncoefficients(f->model) * sizeof *c);
    for (int system = 0; system < f->nsystems; system++) {
        if (solve(f, pass, system, n))
            return -1;
        for (int i = 0; i < n; i++)
            c[i * f->nsystems + system] = (hb_real)f->c[i];
    }
    return 0;
}

/* no gradient yet */
static void clear_adjoint(hb_fit *f)
{
    size_t nsystems = (size_t)f->nsystems, nb = (size_t)f->model->nb;
    memset(f->dgram, 0, nsystems * nb * nb * sizeof *f->dgram);
    memset(f->dmoment, 0, nsystems * nb * sizeof *f->dmoment);
}

int hb_fit_evaluate(hb_fit *f, hb_workspace *w, const hb_points *example)
{
    clear_adjoint(f);
    f->nexamples = example->n;
    w->nominal_parameter = example->nominal;
    evaluate_pass(f, f->first, w, example);
    for (const hb_fit_pass *pass = f->first; pass < f->last; pass++) {
        if (coefficients(f, pass, f->model->nb, pass[1].along))
            return -1;
        evaluate_pass(f, pass + 1, w, example);
    }
    return 0;
}

int hb_fit_coefficients(hb_fit *f, int n, hb_real *c)
{
    return coefficients(f, f->last, n, c);
}

static void adjoint(hb_fit *f, const hb_fit_pass *pass, int n, const hb_real *dc)
{
    size_t nb = (size_t)f->model->nb;

    for (int system = 0; system < f->nsystems; system++) {
        double *dgram = f->dgram + (size_t)system * nb * nb, *dmoment = f->dmoment + (size_t)system * nb;

        for (int i = 0; i < n; i++)
            f->l[i] = (double)dc[i * f->nsystems + system];
        if (f->model->method == HB_INNER_PRODUCT) {
            for (int i = 0; i < n; i++)
                dmoment[i] += f->model->volume * f->l[i];
            continue;
        }
        if (solve(f, pass, system, n))
            continue; /* coefficients were refused before: there is nothing to differentiate */
        hb_cholesky_solve(n, f->factor, 1, f->l);
        for (size_t i = 0; i < (size_t)n; i++) {
            dmoment[i] += f->l[i];
            for (size_t j = 0; j < (size_t)n; j++)
                dgram[i * nb + j] -= f->l[i] * f->c[j];
        }
    }
}

void hb_fit_adjoint(hb_fit *f, int n, const hb_real *dc)
{
    adjoint(f, f->last, n, dc);
}

/* y += a x over n numbers */
static void add_scaled(size_t n, hb_real a, const hb_real *restrict x, hb_real *restrict y)
{
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* the gradient with respect to the increments of one block: fills dg, F_avg included; padding lanes are zero */
static void increments_adjoint(hb_fit *f, const hb_kernels *k, const hb_fit_pass *pass, const hb_points *example,
                               int block)
{
    size_t nb = (size_t)f->model->nb, nx = (size_t)f->model->nx;
    size_t n = (size_t)hb_points_batch(example, block, 0).n;
    double scale = 1.0 / example->n;
    const hb_real *g = increments(f, pass, block), *r = residuals(f, pass, block);
    hb_real *daverage = f->dg + nb * nx * HB_STRIDE;

    memset(daverage, 0, nx * HB_STRIDE * sizeof *daverage);
    for (size_t system = 0; system < (size_t)f->nsystems; system++) {
        const double *dgram = f->dgram + system * nb * nb, *dmoment = f->dmoment + system * nb;
        /* a system's states are rows first .. first + count - 1 of every basis function */
        size_t first = f->nsystems > 1 ? system : 0, count = f->nsystems > 1 ? 1 : nx;
        size_t length = count * HB_STRIDE;

        for (size_t i = 0; i < nb; i++)
            for (size_t j = 0; j < nb; j++)
                f->mix[i * nb + j] = (hb_real)(scale * (dgram[i * nb + j] + dgram[j * nb + i]));
        k->affine((int)nb, (int)nb, f->mix, (ptrdiff_t)nb, 1, NULL, g + first * HB_STRIDE, (ptrdiff_t)(nx * HB_STRIDE),
                  f->dg + first * HB_STRIDE, (ptrdiff_t)(nx * HB_STRIDE), (int)length, NULL);
        for (size_t i = 0; i < nb; i++) {
            hb_real *dgi = f->dg + (i * nx + first) * HB_STRIDE;
            add_scaled(length, (hb_real)(scale * dmoment[i]), r + first * HB_STRIDE, dgi);
            add_scaled(length, (hb_real)(-scale * dmoment[i]), g + (i * nx + first) * HB_STRIDE,
                       daverage + first * HB_STRIDE);
        }
    }
    for (size_t row = 0; row < (nb + 1) * nx && f->has_prior; row++)
        for (size_t p = 0; p < n; p++)
            f->dg[row * HB_STRIDE + p] *= (hb_real)f->weight[row % nx];
    /* padding lanes hold increments of no sample */
    for (size_t row = 0; row < (nb + 1) * nx; row++)
        memset(f->dg + row * HB_STRIDE + n, 0, (HB_STRIDE - n) * sizeof *f->dg);
}

/* the gradient of the average's own loss by F_avg, of one block; its error is minus the residual */
static void average_adjoint(hb_fit *f, const hb_points *example, int block, const hb_fit_average *own)
{
    const hb_real *r = residuals(f, f->first, block);
    double mean = 1 / ((double)example->n * f->model->nx);

    for (size_t k = 0; k < (size_t)f->model->nx; k++) {
        hb_real factor = (hb_real)(-2 * own->scale * mean * own->weight[k]);
        for (size_t p = k * HB_STRIDE; p < (k + 1) * HB_STRIDE; p++)
            f->daverage[p] = factor * r[p];
    }
}

void hb_fit_gradient(hb_fit *f, hb_workspace *w, const hb_points *example, const hb_fit_average *own,
                     hb_real *dparameter)
{
    for (const hb_fit_pass *pass = f->last;; pass--) {
        const hb_fit_average *here = pass == f->first ? own : NULL;
        memset(f->dalong, 0, (size_t)hb_model_ncoefficients(f->model) * sizeof *f->dalong);
        for (int block = 0; block < hb_points_nblocks(example); block++) {
            hb_batch in = hb_points_batch(example, block, 0);
            increments_adjoint(f, w->kernels, pass, example, block);
            if (here)
                average_adjoint(f, example, block, here);
            char *record = tape(f, pass, block);
            if (record)
                hb_basis_gradient_of_record(f->model, w, &in, pass->along, record, f->dg, here ? f->daverage : NULL,
                                            here ? (hb_real)here->share : 0, dparameter, f->dalong);
            else
                hb_basis_gradient(f->model, w, &in, f->dg, dparameter);
        }
        if (pass == f->first)
            return;
        clear_adjoint(f);
        adjoint(f, pass - 1, f->model->nb, f->dalong);
    }
}
