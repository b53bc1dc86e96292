#include "train/prior.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/function_fit.h"

enum { PASSES = 3, ITERATIONS = 20 };

/* variances that change by less in a round have settled */
#define SETTLED 1e-2

/* of a quick one */
enum { QUICK_PASSES = 2, QUICK_ITERATIONS = 4, QUICK_EXAMPLES = HB_STRIDE, QUICK_FUNCTIONS = 160, QUICK_SPARE = 3 };

/* random numbers that no gradient step has */
static const uint64_t prior_stream = UINT64_MAX - 5;

/* a number in single precision is not more exact than this */
static const double least_noise = 1e-7;

/* What one function's examples say under the weights of the pass; lower triangles. */
typedef struct sums {
    double *gram;   /* nsystems x nb x nb, mean */
    double *moment; /* nsystems x nb */
    double *square; /* nx, mean square of what is left of each state */
    double *c;      /* nsystems x nb, coefficients */
    bool failed;
} sums;

typedef struct prior {
    hb_model *m;
    const hb_dataset *data;
    const int *function;
    int nfunctions, nsystems, examples;
    int passes, iterations;
    uint64_t seed;
    const hb_watch *watch;    /* may be NULL */
    int pass, first;          /* of passes; the first function of those that are fitted now */
    hb_function_fit **fitter; /* one per thread */
    sums *of;                 /* nfunctions */
    double *memory;
    double *scratch; /* nsystems x scratch_size */
} prior;

bool hb_prior_applies(const hb_model *m)
{
    return m->nb > 0 && m->method == HB_LEAST_SQUARES;
}

/* --- fits --- */

/* mean squares of r - sum_i c_i G_i, one per state */
static void measure_rest(const prior *p, const hb_fit *f, const hb_real *c, double *square)
{
    size_t nb = (size_t)p->m->nb, nx = (size_t)p->m->nx;

    memset(square, 0, nx * sizeof *square);
    for (int at = 0; at < p->examples; at++) {
        size_t block = (size_t)at / HB_STRIDE, lane = (size_t)at % HB_STRIDE;
        const hb_real *g = f->last->g + block * (nb + 1) * nx * HB_STRIDE, *r = f->last->r + block * nx * HB_STRIDE;
        for (size_t k = 0; k < nx; k++) {
            double rest = (double)r[k * HB_STRIDE + lane];
            for (size_t i = 0; i < nb; i++)
                rest -= (double)c[p->nsystems > 1 ? i * nx + k : i] * (double)g[(i * nx + k) * HB_STRIDE + lane];
            square[k] += rest * rest / p->examples;
        }
    }
}

static void fit_function(void *context, int part, int thread)
{
    prior *p = context;
    part += p->first;
    sums *s = &p->of[part];
    size_t nb = (size_t)p->m->nb, nsystems = (size_t)p->nsystems;
    hb_random_key key = {.seed = p->seed, .stream = prior_stream};
    hb_fit *f =
        hb_function_fit_run(p->fitter[thread], p->function ? p->function[part] : part, key, (uint64_t)part << 32);
    hb_real *c = calloc(nb * nsystems, sizeof *c);

    s->failed = !f || !c || hb_fit_coefficients(f, p->m->nb, c);
    if (!s->failed) {
        memcpy(s->gram, f->last->gram, nsystems * nb * nb * sizeof *s->gram);
        memcpy(s->moment, f->last->moment, nsystems * nb * sizeof *s->moment);
        for (size_t system = 0; system < nsystems; system++)
            for (size_t i = 0; i < nb; i++)
                s->c[system * nb + i] = (double)c[i * nsystems + system];
        measure_rest(p, f, c, s->square);
    }
    free(c);
}

static int fit_all(prior *p, hb_pool *pool, hb_error *err)
{
    int at_once = 4 * hb_pool_nthreads(pool), status; /* so that all threads have work between two looks */

    for (p->first = 0; p->first < p->nfunctions; p->first += at_once) {
        double done = (p->pass + (double)p->first / p->nfunctions) / p->passes;
        if ((status = hb_watch_at(p->watch, done, err)))
            return status;
        int left = p->nfunctions - p->first;
        hb_pool_run(pool, left < at_once ? left : at_once, fit_function, p);
    }
    for (int f = 0; f < p->nfunctions; f++)
        if (p->of[f].failed)
            return hb_fail(err, ERANGE, "function %d: its coefficients are not finite",
                           p->data->function[p->function ? p->function[f] : f].id);
    return 0;
}

/* Of a simulator's data, which have no noise: where no basis function acts (positions, attitudes) a step leaves what
 * the row of its derivative leaves, times half a period: the same once more, and so little of it that a sensor's noise
 * would count for thousands of deviations. Such a state has at least the noise of those that basis functions act on.
 * Logs have the noise of their sensors, and bands would be far too wide with any other. */
static void raise_noise(hb_model *m)
{
    double square = 0, n = 0;

    for (int k = 0; k < m->nx; k++)
        if (m->output[k]) {
            square += m->noise[k] * m->noise[k];
            n++;
        }
    for (int k = 0; k < m->nx && n > 0; k++)
        if (!m->output[k])
            m->noise[k] = fmax(m->noise[k], sqrt(square / n));
}

static void set_noise(prior *p)
{
    for (int k = 0; k < p->m->nx; k++) {
        double square = 0;
        for (int f = 0; f < p->nfunctions; f++)
            square += p->of[f].square[k] / p->nfunctions;
        p->m->noise[k] = fmax(sqrt(square), least_noise);
    }
    if (!hb_dataset_is_logs(p->data))
        raise_noise(p->m);
}

/* --- mean and covariance --- */

/* examples over their variance: what multiplies a system's gram and moment */
static double information(const prior *p, int system)
{
    double precision = 0;

    if (p->nsystems > 1)
        return p->examples / (p->m->noise[system] * p->m->noise[system]);
    for (int k = 0; k < p->m->nx; k++)
        precision += 1 / (p->m->noise[k] * p->m->noise[k] * p->m->nx);
    return p->examples * precision;
}

static size_t scratch_size(const hb_model *m)
{
    size_t nb = (size_t)m->nb;
    return 3 * nb * nb + 4 * nb;
}

static void take_mean(const prior *p, int system, double *mean)
{
    size_t nb = (size_t)p->m->nb;

    memset(mean, 0, nb * sizeof *mean);
    for (int f = 0; f < p->nfunctions; f++)
        for (size_t i = 0; i < nb; i++)
            mean[i] += p->of[f].c[(size_t)system * nb + i] / p->nfunctions;
}

/* adds (c_f - mean)(c_f - mean)^T / F */
static void add_spread(const prior *p, int system, const double *mean, double *covariance)
{
    size_t nb = (size_t)p->m->nb;

    for (int f = 0; f < p->nfunctions; f++) {
        const double *c = p->of[f].c + (size_t)system * nb;
        for (size_t i = 0; i < nb; i++) {
            double part = (c[i] - mean[i]) / p->nfunctions;
            for (size_t j = 0; j < nb; j++)
                covariance[i * nb + j] += part * (c[j] - mean[j]);
        }
    }
}

/* keeps it positive definite, also where functions do not differ */
static void add_floor(size_t nb, double *covariance)
{
    double trace = 0;

    for (size_t i = 0; i < nb; i++)
        trace += covariance[i * nb + i];
    for (size_t i = 0; i < nb; i++)
        covariance[i * nb + i] += 1e-6 * trace / (double)nb + 1e-12;
}

/* One round of expectation and maximisation: coefficients of all functions, then mean and covariance. */
static int improve(const prior *p, int system, double *mean, double *covariance)
{
    size_t nb = (size_t)p->m->nb;
    double weight = information(p, system), *inverse = p->scratch + (size_t)system * scratch_size(p->m);
    double *factor = inverse + nb * nb, *sum = factor + nb * nb;
    double *pull = sum + nb * nb;

    /* P0^-1 and P0^-1 c0 */
    memcpy(factor, covariance, nb * nb * sizeof *factor);
    if (hb_cholesky((int)nb, factor))
        return -1;
    memcpy(pull, mean, nb * sizeof *pull);
    hb_cholesky_solve((int)nb, factor, 1, pull);
    memcpy(inverse, factor, nb * nb * sizeof *inverse);
    hb_cholesky_invert((int)nb, inverse);

    memset(sum, 0, nb * nb * sizeof *sum);
    for (int f = 0; f < p->nfunctions; f++) {
        const double *gram = p->of[f].gram + (size_t)system * nb * nb, *moment = p->of[f].moment + (size_t)system * nb;
        double *c = p->of[f].c + (size_t)system * nb;
        for (size_t i = 0; i < nb; i++) {
            c[i] = weight * moment[i] + pull[i];
            for (size_t j = 0; j <= i; j++)
                factor[i * nb + j] = weight * gram[i * nb + j] + inverse[i * nb + j];
        }
        if (hb_cholesky((int)nb, factor))
            return -1;
        hb_cholesky_solve((int)nb, factor, 1, c);
        hb_cholesky_invert((int)nb, factor);
        for (size_t i = 0; i < nb; i++)
            for (size_t j = 0; j <= i; j++)
                sum[i * nb + j] += factor[i * nb + j];
    }
    take_mean(p, system, mean);
    for (size_t i = 0; i < nb; i++)
        for (size_t j = 0; j < nb; j++)
            covariance[i * nb + j] = sum[i >= j ? i * nb + j : j * nb + i] / p->nfunctions;
    add_spread(p, system, mean, covariance);
    add_floor(nb, covariance);
    return 0;
}

/* the first guess: spread of the fitted coefficients */
static void guess(void *context, int system, int thread)
{
    const prior *p = context;
    size_t nb = (size_t)p->m->nb;
    double *covariance = p->m->prior_covariance + (size_t)system * nb * nb;
    double *mean = p->scratch + (size_t)system * scratch_size(p->m);

    (void)thread;
    take_mean(p, system, mean);
    memset(covariance, 0, nb * nb * sizeof *covariance);
    add_spread(p, system, mean, covariance);
    add_floor(nb, covariance);
    for (size_t i = 0; i < nb; i++)
        p->m->prior_mean[i * (size_t)p->nsystems + (size_t)system] = mean[i];
}

static void settle(void *context, int system, int thread)
{
    prior *p = context;
    size_t nb = (size_t)p->m->nb;
    double *covariance = p->m->prior_covariance + (size_t)system * nb * nb;
    double *mean = p->scratch + (size_t)system * scratch_size(p->m) + 3 * nb * nb + nb, *before = mean + nb;

    (void)thread;
    for (size_t i = 0; i < nb; i++)
        mean[i] = p->m->prior_mean[i * (size_t)p->nsystems + (size_t)system];
    for (int k = 0; k < p->iterations; k++) {
        double change = 0;
        for (size_t i = 0; i < nb; i++)
            before[i] = covariance[i * (nb + 1)];
        if (improve(p, system, mean, covariance)) {
            p->of[0].failed = true;
            return;
        }
        for (size_t i = 0; i < nb; i++)
            change = fmax(change, fabs(covariance[i * (nb + 1)] / before[i] - 1));
        if (change < SETTLED)
            break;
    }
    for (size_t i = 0; i < nb; i++)
        p->m->prior_mean[i * (size_t)p->nsystems + (size_t)system] = mean[i];
}

/* F functions are a sample of those that there are */
static void widen(prior *p)
{
    size_t nb = (size_t)p->m->nb;
    double n = p->nfunctions, wide = (n + 1) / (n - 1), kept = n / (n + (double)nb + 1);

    for (size_t system = 0; system < (size_t)p->nsystems; system++)
        for (size_t i = 0; i < nb; i++)
            for (size_t j = 0; j < nb; j++)
                p->m->prior_covariance[(system * nb + i) * nb + j] *= wide * (i == j ? 1 : kept);
}

/* --- all of it --- */

static int allocate(prior *p, hb_pool *pool, hb_error *err)
{
    const hb_model *m = p->m;
    size_t nb = (size_t)m->nb, nsystems = (size_t)p->nsystems, n = (size_t)p->nfunctions;
    size_t each = nsystems * nb * (nb + 2) + (size_t)m->nx;
    int nthreads = hb_pool_nthreads(pool), status;

    p->fitter = calloc((size_t)nthreads, sizeof(hb_function_fit *));
    p->of = calloc(n, sizeof *p->of);
    p->memory = calloc(n * each, sizeof *p->memory);
    p->scratch = calloc(nsystems * scratch_size(m), sizeof *p->scratch);
    if (!p->fitter || !p->of || !p->memory || !p->scratch)
        return hb_fail(err, ENOMEM, "out of memory for the prior of %d functions", p->nfunctions);
    for (size_t f = 0; f < n; f++) {
        double *at = p->memory + f * each;
        p->of[f] = (sums){.gram = at,
                          .moment = at + nsystems * nb * nb,
                          .c = at + nsystems * nb * (nb + 1),
                          .square = at + nsystems * nb * (nb + 2)};
    }
    for (int t = 0; t < nthreads; t++)
        if ((status = hb_function_fit_new(&p->fitter[t], m, p->data, p->examples, hb_fit_refinements(m), err)))
            return status;
    return 0;
}

static int estimate(prior *p, hb_pool *pool, hb_error *err)
{
    int status;

    for (int pass = 0; pass < p->passes; pass++) {
        p->pass = pass;
        for (int t = 0; pass > 0 && t < hb_pool_nthreads(pool); t++)
            if ((status = hb_function_fit_use_prior(p->fitter[t], err)))
                return status;
        if ((status = fit_all(p, pool, err)))
            return status;
        /* the sums of the first pass are not weighted by the noise */
        hb_pool_run(pool, p->nsystems, pass == 0 ? guess : settle, p);
        if (p->of[0].failed)
            return hb_fail(err, ERANGE, "the coefficients' covariance is not positive definite");
        set_noise(p);
    }
    widen(p);
    return 0;
}

static int run(prior *p, hb_pool *pool, hb_error *err)
{
    int status;

    if (!p->m->has_prior || !hb_prior_applies(p->m))
        return hb_fail(err, EINVAL, "a prior goes with basis functions and least squares");
    if (p->nfunctions < HB_PRIOR_FUNCTIONS)
        return hb_fail(err, EINVAL, "a prior needs %d functions at least: the data have %d", HB_PRIOR_FUNCTIONS,
                       p->nfunctions);
    if (!(status = allocate(p, pool, err)) && !(status = estimate(p, pool, err)))
        hb_model_seal(p->m);
    for (int t = 0; p->fitter && t < hb_pool_nthreads(pool); t++)
        hb_function_fit_free(p->fitter[t]);
    free(p->fitter);
    free(p->of);
    free(p->memory);
    free(p->scratch);
    return status;
}

int hb_prior_estimate(hb_model *m, const hb_dataset *d, const int *function, int nfunctions, int examples,
                      uint64_t seed, hb_pool *pool, const hb_watch *watch, hb_error *err)
{
    prior p = {.m = m,
               .data = d,
               .watch = watch,
               .function = function,
               .nfunctions = function ? nfunctions : d->nfunctions,
               .nsystems = hb_model_nproblems(m),
               .examples = examples,
               .passes = PASSES,
               .iterations = ITERATIONS,
               .seed = seed};

    return run(&p, pool, err);
}

int hb_prior_estimate_quickly(hb_model *m, const hb_dataset *d, const int *function, int nfunctions, uint64_t seed,
                              hb_pool *pool, hb_error *err)
{
    int most = QUICK_SPARE * m->nb > QUICK_FUNCTIONS ? QUICK_SPARE * m->nb : QUICK_FUNCTIONS;
    prior p = {.m = m,
               .data = d,
               .function = function,
               .nfunctions = nfunctions < most ? nfunctions : most,
               .nsystems = hb_model_nproblems(m),
               .examples = QUICK_EXAMPLES,
               .passes = QUICK_PASSES,
               .iterations = QUICK_ITERATIONS,
               .seed = seed};

    return run(&p, pool, err);
}
