#include "train/prune.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/function_fit.h"

struct hb_rotation {
    int nb, nsystems;
    bool joint;
    int nproblems;  /* of principal components: 1 when joint, else nsystems */
    int size;       /* coefficients of a problem: nsystems * nb when joint, else nb; those of a system lie together */
    double *gram;   /* nsystems x nb x nb: A, then its factor L */
    double *second; /* nproblems x size x size: mean of c c^T, then of y y^T, then V by rows, ascending */
    double *value;  /* nproblems x size: D, ascending */
    double *basis;  /* nproblems x size x size: row j is column j of B, largest component first */
};

/* sums of A and c c^T over all functions */
static int add_functions(hb_rotation *r, const hb_model *m, const hb_dataset *d, const int *function, int nfunctions,
                         int examples, uint64_t seed, const hb_watch *watch, hb_error *err)
{
    size_t nb = (size_t)m->nb, nsystems = (size_t)r->nsystems, size = (size_t)r->size;
    hb_function_fit *fitter = NULL;
    hb_real *c = calloc(nb * nsystems, sizeof *c);
    int status = c ? hb_function_fit_new(&fitter, m, d, examples, hb_fit_refinements(m), err)
                   : hb_fail(err, ENOMEM, "out of memory");

    for (int k = 0; k < nfunctions && !status; k++) {
        int at = function ? function[k] : k;
        if ((status = hb_watch_at(watch, (double)k / nfunctions, err)))
            break;
        hb_fit *f = hb_function_fit_run(fitter, at, (hb_random_key){.seed = seed, .stream = (uint64_t)at}, 0);
        if (!f || hb_fit_coefficients(f, m->nb, c)) {
            status = hb_fail(err, ERANGE, "function %d: the model is not finite", d->function[at].id);
            break;
        }
        for (size_t i = 0; i < nsystems * nb * nb; i++)
            r->gram[i] += f->last->gram[i] / nfunctions;
        /* number i of problem p is basis function (p size + i) % nb of system (p size + i) / nb */
        for (size_t i = 0; i < (size_t)r->nproblems * size; i++) {
            double ci = (double)c[i % nb * nsystems + i / nb] / nfunctions;
            for (size_t j = i / size * size; j < (i / size + 1) * size; j++)
                r->second[i * size + j % size] += ci * (double)c[j % nb * nsystems + j / nb];
        }
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

/* L of a system's A */
static int factorise(size_t nb, double *gram, hb_error *err)
{
    double trace = 0;

    for (size_t i = 0; i < nb; i++)
        trace += gram[i * (nb + 1)];
    /* what the data cannot tell from zero must not become infinite */
    for (size_t i = 0; i < nb; i++)
        gram[i * (nb + 1)] += 1e-10 * trace + 1e-300;
    return hb_cholesky((int)nb, gram) ? hb_fail(err, ERANGE, "the increments of the basis are not finite on these data")
                                      : 0;
}

/* a problem's B from the factors of its systems and the mean of c c^T */
static int rotate(hb_rotation *r, int problem, hb_error *err)
{
    size_t nb = (size_t)r->nb, size = (size_t)r->size, nsystems = size / nb;
    const double *factor = r->gram + (size_t)problem * nsystems * nb * nb;
    double *second = r->second + (size_t)problem * size * size, *basis = r->basis + (size_t)problem * size * size;

    /* mean of y y^T = L^T (mean of c c^T) L: columns, then rows */
    for (size_t s = 0; s < nsystems; s++)
        for (size_t i = 0; i < size; i++)
            times_transposed(nb, factor + s * nb * nb, second + s * nb * size + i, size);
    for (size_t s = 0; s < nsystems; s++)
        for (size_t i = 0; i < size; i++)
            times_transposed(nb, factor + s * nb * nb, second + i * size + s * nb, 1);
    int status = hb_symmetric_eigen((int)size, second, r->value + (size_t)problem * size, err);
    if (status)
        return status;
    for (size_t j = 0; j < size; j++) {
        memcpy(basis + j * size, second + (size - 1 - j) * size, size * sizeof *basis);
        for (size_t s = 0; s < nsystems; s++)
            solve_transposed(nb, factor + s * nb * nb, basis + j * size + s * nb);
    }
    return 0;
}

int hb_rotation_new(hb_rotation **ret, const hb_model *m, const hb_dataset *d, const int *function, int nfunctions,
                    int examples, bool joint, uint64_t seed, const hb_watch *watch, hb_error *err)
{
    size_t nb = (size_t)m->nb, nsystems = m->shape == HB_PER_STATE ? (size_t)m->nx : 1;
    size_t nproblems = joint ? 1 : nsystems, size = joint ? nsystems * nb : nb;

    if (m->architecture != HB_SHARED || m->nb == 0)
        return hb_fail(err, EINVAL,
                       "only the basis of a shared model can be rotated: networks of their own cannot be "
                       "added up; --keep-order drops the last ones");
    hb_rotation *r = calloc(1, sizeof *r);
    if (!r)
        return hb_fail(err, ENOMEM, "out of memory");
    *r = (hb_rotation){
        .nb = m->nb, .nsystems = (int)nsystems, .joint = joint, .nproblems = (int)nproblems, .size = (int)size};
    r->gram = calloc(nsystems * nb * nb, sizeof *r->gram);
    r->second = calloc(nproblems * size * size, sizeof *r->second);
    r->basis = calloc(nproblems * size * size, sizeof *r->basis);
    r->value = calloc(nproblems * size, sizeof *r->value);

    int status = r->gram && r->second && r->basis && r->value ? 0 : hb_fail(err, ENOMEM, "out of memory");
    if (!status)
        status = add_functions(r, m, d, function, function ? nfunctions : d->nfunctions, examples, seed, watch, err);
    for (size_t s = 0; s < nsystems && !status; s++)
        status = factorise(nb, r->gram + s * nb * nb, err);
    for (int p = 0; p < r->nproblems && !status; p++)
        status = rotate(r, p, err);
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

int hb_rotation_size(const hb_rotation *r)
{
    return r->size;
}

double hb_rotation_share(const hb_rotation *r, int n)
{
    double least = 1;

    for (int p = 0; p < r->nproblems; p++) {
        double all = 0, kept = 0;
        for (int i = 0; i < r->size; i++) {
            double value = fmax(0, r->value[p * r->size + i]);
            all += value;
            kept += i >= r->size - n ? value : 0;
        }
        least = all > 0 ? fmin(least, kept / all) : least;
    }
    return least;
}

/* one row of the new head: W'_jk = sum_i B_ij W_ik for state k; `width` weights, or one bias */
static void mix_rows(const hb_model *m, const hb_rotation *r, int j, int k, const hb_real *from, size_t width,
                     hb_real *to)
{
    size_t nb = (size_t)m->nb, nx = (size_t)m->nx, size = (size_t)r->size, system = r->nsystems > 1 ? (size_t)k : 0;
    const double *mix =
        r->joint ? r->basis + (size_t)j * size + system * nb : r->basis + (system * size + (size_t)j) * size;

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

    int most = r ? r->size : m->nb;
    if (n < 1 || n > most)
        return hb_fail(err, EINVAL, "nb: %d is not in 1..%d, the basis functions of the model", n, most);
    shape.nb = n;
    shape.shape = r && r->joint ? HB_VECTOR : m->shape;
    shape.has_prior = false; /* of other coefficients, */
    shape.nwords = 0;        /* and so are the words */
    if (asprintf(&notes, "pruned from %d to %d basis functions, %s\n%s", m->nb, n,
                 r && r->joint ? "the principal ones of all states together"
                 : r           ? "the principal ones"
                               : "the first ones",
                 m->notes) < 0)
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
