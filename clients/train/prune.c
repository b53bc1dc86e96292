#include "train/prune.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/function_fit.h"

struct hb_rotation {
    int nb, nsystems;
    double *gram;   /* nsystems x nb x nb: A, then its factor L */
    double *second; /* nsystems x nb x nb: mean of c c^T, then of y y^T, then V by rows, ascending */
    double *value;  /* nsystems x nb: D, ascending */
    double *basis;  /* nsystems x nb x nb: row j is column j of B, largest component first */
};

/* sums of A and c c^T over all functions */
static int add_functions(hb_rotation *r, const hb_model *m, const hb_dataset *d, int examples, uint64_t seed,
                         hb_error *err)
{
    size_t nb = (size_t)m->nb, nsystems = (size_t)r->nsystems;
    hb_function_fit *fitter = NULL;
    hb_real *c = calloc(nb * nsystems, sizeof *c);
    int status = c ? hb_function_fit_new(&fitter, m, d, examples, hb_fit_refinements(m), err)
                   : hb_fail(err, ENOMEM, "out of memory");

    for (int k = 0; k < d->nfunctions && !status; k++) {
        hb_fit *f = hb_function_fit_run(fitter, k, (hb_random_key){.seed = seed, .stream = (uint64_t)k}, 0);
        if (!f || hb_fit_coefficients(f, m->nb, c)) {
            status = hb_fail(err, ERANGE, "function %d: the model is not finite", d->function[k].id);
            break;
        }
        for (size_t i = 0; i < nsystems * nb * nb; i++)
            r->gram[i] += f->last->gram[i] / d->nfunctions;
        for (size_t system = 0; system < nsystems; system++)
            for (size_t i = 0; i < nb * nb; i++)
                r->second[system * nb * nb + i] +=
                    (double)c[i / nb * nsystems + system] * (double)c[i % nb * nsystems + system] / d->nfunctions;
    }
    hb_function_fit_free(fitter);
    free(c);
    return status;
}

/* y = L^T x for a row-major lower triangle; in place: y_j needs x_i of i >= j only */
static void times_transposed(size_t n, const double *factor, double *x, size_t stride)
{
    for (size_t j = 0; j < n; j++) {
        double sum = 0;
        for (size_t i = j; i < n; i++)
            sum += factor[i * n + j] * x[i * stride];
        x[j * stride] = sum;
    }
}

/* x = L^-T x */
static void solve_transposed(size_t n, const double *factor, double *x)
{
    for (size_t j = n; j-- > 0;) {
        for (size_t i = j + 1; i < n; i++)
            x[j] -= factor[i * n + j] * x[i];
        x[j] /= factor[j * n + j];
    }
}

/* one system's B from A and the mean of c c^T */
static int rotate(size_t nb, double *gram, double *second, double *value, double *basis, hb_error *err)
{
    double trace = 0;

    for (size_t i = 0; i < nb; i++)
        trace += gram[i * (nb + 1)];
    /* what the data cannot tell from zero must not become infinite */
    for (size_t i = 0; i < nb; i++)
        gram[i * (nb + 1)] += 1e-10 * trace + 1e-300;
    if (hb_cholesky((int)nb, gram))
        return hb_fail(err, ERANGE, "the increments of the basis are not finite on these data");
    /* mean of y y^T = L^T (mean of c c^T) L: columns, then rows */
    for (size_t i = 0; i < nb; i++)
        times_transposed(nb, gram, second + i, nb);
    for (size_t i = 0; i < nb; i++)
        times_transposed(nb, gram, second + i * nb, 1);
    int status = hb_symmetric_eigen((int)nb, second, value, err);
    if (status)
        return status;
    for (size_t j = 0; j < nb; j++) {
        memcpy(basis + j * nb, second + (nb - 1 - j) * nb, nb * sizeof *basis);
        solve_transposed(nb, gram, basis + j * nb);
    }
    return 0;
}

int hb_rotation_new(hb_rotation **ret, const hb_model *m, const hb_dataset *d, int examples, uint64_t seed,
                    hb_error *err)
{
    size_t nb = (size_t)m->nb, nsystems = m->shape == HB_PER_STATE ? (size_t)m->nx : 1, size = nsystems * nb * nb;

    if (m->architecture != HB_SHARED || m->nb == 0)
        return hb_fail(err, EINVAL,
                       "only the basis of a shared model can be rotated: networks of their own cannot be "
                       "added up; --keep-order drops the last ones");
    hb_rotation *r = calloc(1, sizeof *r);
    if (!r)
        return hb_fail(err, ENOMEM, "out of memory");
    *r = (hb_rotation){.nb = m->nb, .nsystems = (int)nsystems};
    r->gram = calloc(size, sizeof *r->gram);
    r->second = calloc(size, sizeof *r->second);
    r->basis = calloc(size, sizeof *r->basis);
    r->value = calloc(nsystems * nb, sizeof *r->value);

    int status = r->gram && r->second && r->basis && r->value ? 0 : hb_fail(err, ENOMEM, "out of memory");
    if (!status)
        status = add_functions(r, m, d, examples, seed, err);
    for (size_t s = 0; s < nsystems && !status; s++)
        status =
            rotate(nb, r->gram + s * nb * nb, r->second + s * nb * nb, r->value + s * nb, r->basis + s * nb * nb, err);
    if (status) {
        hb_rotation_free(r);
        return status;
    }
    *ret = r;
    return 0;
}

void hb_rotation_free(hb_rotation *r)
{
    if (!r)
        return;
    free(r->gram);
    free(r->second);
    free(r->basis);
    free(r->value);
    free(r);
}

double hb_rotation_share(const hb_rotation *r, int n)
{
    double least = 1;

    for (int s = 0; s < r->nsystems; s++) {
        double all = 0, kept = 0;
        for (int i = 0; i < r->nb; i++) {
            double value = fmax(0, r->value[s * r->nb + i]);
            all += value;
            kept += i >= r->nb - n ? value : 0;
        }
        least = all > 0 ? fmin(least, kept / all) : least;
    }
    return least;
}

/* one row of the new head: W'_jk = sum_i B_ij W_ik for state k; `width` weights, or one bias */
static void mix_rows(const hb_model *m, const hb_rotation *r, int j, int k, const hb_real *from, size_t width,
                     hb_real *to)
{
    size_t nb = (size_t)m->nb, nx = (size_t)m->nx, system = r->nsystems > 1 ? (size_t)k : 0;
    const double *mix = r->basis + (system * nb + (size_t)j) * nb;

    for (size_t c = 0; c < width; c++) {
        double sum = 0;
        for (size_t i = 0; i < nb; i++)
            sum += mix[i] * (double)from[(i * nx + (size_t)k) * width + c];
        to[c] = (hb_real)sum;
    }
}

static void fill_head(hb_model *to, const hb_model *m, const hb_rotation *r)
{
    const hb_head old = hb_mlp_head(&m->basis), new = hb_mlp_head(&to->basis);
    size_t width = new.width, rows = new.rows, nx = (size_t)m->nx;
    const hb_real *old_weight = m->parameter + old.weight, *old_bias = m->parameter + old.bias;
    hb_real *weight = to->parameter + new.weight, *bias = to->parameter + new.bias;
    size_t kept = (size_t)to->nb * nx, old_kept = (size_t)m->nb * nx;

    memcpy(to->parameter, m->parameter, old.weight * sizeof *weight);
    for (size_t row = 0; r && row < kept; row++) {
        mix_rows(m, r, (int)(row / nx), (int)(row % nx), old_weight, width, weight + row * width);
        mix_rows(m, r, (int)(row / nx), (int)(row % nx), old_bias, 1, bias + row);
    }
    if (!r) {
        memcpy(weight, old_weight, kept * width * sizeof *weight);
        memcpy(bias, old_bias, kept * sizeof *bias);
    }
    /* the rows of the average, if it is there */
    memcpy(weight + kept * width, old_weight + old_kept * width, (rows - kept) * width * sizeof *weight);
    memcpy(bias + kept, old_bias + old_kept, (rows - kept) * sizeof *bias);
}

static void copy_rest(hb_model *to, const hb_model *m)
{
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu, average = m->average_network.nparameters;

    memcpy(to->state_name, m->state_name, nx * sizeof *m->state_name);
    memcpy(to->state_unit, m->state_unit, nx * sizeof *m->state_unit);
    memcpy(to->state_mean, m->state_mean, nx * sizeof(double));
    memcpy(to->state_std, m->state_std, nx * sizeof(double));
    if (nu) {
        memcpy(to->control_name, m->control_name, nu * sizeof *m->control_name);
        memcpy(to->control_unit, m->control_unit, nu * sizeof *m->control_unit);
        memcpy(to->control_mean, m->control_mean, nu * sizeof(double));
        memcpy(to->control_std, m->control_std, nu * sizeof(double));
        memcpy(to->control_min, m->control_min, nu * sizeof(double));
        memcpy(to->control_max, m->control_max, nu * sizeof(double));
        memcpy(to->control_trim, m->control_trim, nu * sizeof(double));
        memcpy(to->actuator_delay, m->actuator_delay, nu * sizeof(double));
        memcpy(to->actuator_lag, m->actuator_lag, nu * sizeof(double));
        memcpy(to->actuator_rate, m->actuator_rate, nu * sizeof(double));
    }
    memcpy(to->parameter + hb_model_average_at(to), m->parameter + hb_model_average_at(m),
           average * sizeof *m->parameter);
}

int hb_prune(hb_model **ret, const hb_model *m, const hb_rotation *r, int n, hb_error *err)
{
    hb_model shape = *m, *to = NULL;
    char *notes = NULL;

    if (n < 1 || n > m->nb)
        return hb_fail(err, EINVAL, "nb: %d is not in 1..%d, the basis functions of the model", n, m->nb);
    shape.nb = n;
    shape.has_prior = false; /* of other coefficients */
    if (asprintf(&notes, "pruned from %d to %d basis functions, %s\n%s", m->nb, n,
                 r ? "the principal ones" : "the first ones", m->notes) < 0)
        return hb_fail(err, ENOMEM, "out of memory");
    int status = hb_model_new(&to, &shape, notes, err);
    free(notes);
    if (status)
        return status;
    copy_rest(to, m);
    if (m->architecture == HB_SHARED)
        fill_head(to, m, r);
    else
        memcpy(to->parameter, m->parameter, (size_t)n * m->basis.nparameters * sizeof *m->parameter);
    hb_model_seal(to);
    *ret = to;
    return 0;
}
