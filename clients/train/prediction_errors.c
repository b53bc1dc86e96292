#include "train/prediction_errors.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"
#include "train/loss.h"
#include "data/sampler.h"

/* one thread's */
typedef struct seat {
    hb_loss *loss;
    hb_points example, query;
} seat;

struct hb_prediction_errors {
    const hb_model *model;
    const hb_dataset *data;
    hb_prediction_settings settings;
    hb_pool *pool;
    int *function;
    int nfunctions;
    hb_sampler *examples, *queries;
    seat *seat; /* a thread each */
    void *points;
    /* of the run in progress */
    bool adapt;
    double *error;
    hb_real *coefficient;
    int first, *count; /* of pooled rollouts: where they start, and how many a function has */
};

static void lay_out_points(hb_prediction_errors *e, hb_arena *arena)
{
    for (int t = 0; t < hb_pool_nthreads(e->pool); t++) {
        hb_points_lay_out(&e->seat[t].example, e->model->nx, e->model->nu, e->settings.examples, 1, arena);
        hb_points_lay_out(&e->seat[t].query, e->model->nx, e->model->nu, e->settings.rollouts, e->settings.steps,
                          arena);
    }
}

static int fill(hb_prediction_errors *e, const int *function, hb_error *err)
{
    const hb_prediction_settings *s = &e->settings;
    const hb_loss_settings loss = {
        .refinements = hb_fit_refinements(e->model), .errors_only = true, .prior = s->prior, .unit = s->unit};
    int nthreads = hb_pool_nthreads(e->pool), status;
    hb_arena arena = {0};

    e->function = calloc((size_t)e->nfunctions + 1, sizeof *e->function);
    e->seat = calloc((size_t)nthreads, sizeof *e->seat);
    if (!e->function || !e->seat)
        return hb_fail(err, ENOMEM, "out of memory");
    for (int i = 0; i < e->nfunctions; i++)
        e->function[i] = function ? function[i] : i;

    lay_out_points(e, &arena);
    if ((status = hb_arena_allocate(&arena, err)))
        return status;
    e->points = arena.base;
    lay_out_points(e, &arena);

    if ((status = hb_sampler_new(&e->examples, e->data, e->model, 1, err)) ||
        (status = hb_sampler_new(&e->queries, e->data, e->model, s->steps, err)))
        return status;
    hb_sampler_keep_headings(e->examples);
    hb_sampler_keep_headings(e->queries);
    for (int t = 0; t < nthreads; t++)
        if ((status = hb_loss_new(&e->seat[t].loss, e->model, &loss, s->examples, s->steps, err)))
            return status;
    return 0;
}

int hb_prediction_errors_new(hb_prediction_errors **ret, const hb_model *m, const hb_dataset *d, const int *function,
                             int nfunctions, const hb_prediction_settings *s, hb_pool *pool, hb_error *err)
{
    hb_prediction_errors *e = calloc(1, sizeof *e);
    if (!e)
        return hb_fail(err, ENOMEM, "out of memory");
    *e = (hb_prediction_errors){.model = m, .data = d, .settings = *s, .pool = pool};
    e->nfunctions = function ? nfunctions : d->nfunctions;

    int status = fill(e, function, err);
    if (status) {
        hb_prediction_errors_free(e);
        return status;
    }
    *ret = e;
    return 0;
}

void hb_prediction_errors_free(hb_prediction_errors *e)
{
    if (!e)
        return;
    for (int t = 0; e->seat && t < hb_pool_nthreads(e->pool); t++)
        hb_loss_free(e->seat[t].loss);
    hb_sampler_free(e->examples);
    hb_sampler_free(e->queries);
    free(e->points);
    free(e->seat);
    free(e->function);
    free(e);
}

/* examples from the first half, random or successive */
static void draw_examples(const hb_prediction_errors *e, int function, hb_random_key key, hb_points *example)
{
    size_t half = (hb_sampler_count(e->examples, function) + 1) / 2, n = (size_t)example->n;

    if (!e->settings.successive) {
        hb_sampler_draw(e->examples, function, 0, half, key, 0, example);
        return;
    }
    size_t first = half > n ? hb_random_bits(key, 0) % (half - n + 1) : 0;
    for (size_t p = 0; p < n; p++)
        hb_sampler_put(e->examples, function, (first + p) % half, example, (int)p);
    hb_sampler_pad(e->examples, example);
}

static void evaluate_function(void *context, int part, int thread)
{
    hb_prediction_errors *e = context;
    seat *s = &e->seat[thread];
    int function = e->function[part], steps = e->settings.steps;
    size_t nc = (size_t)hb_model_ncoefficients(e->model);
    hb_random_key key = {.seed = e->settings.seed, .stream = (uint64_t)part};
    double *error = e->error + (size_t)part * (size_t)steps;

    draw_examples(e, function, key, &s->example);
    size_t count = hb_sampler_count(e->queries, function);
    hb_sampler_draw(e->queries, function, count / 2, count - count / 2, key, (uint64_t)1 << 32, &s->query);

    if (hb_loss_errors(s->loss, &s->example, &s->query, e->adapt, error,
                       e->coefficient ? e->coefficient + (size_t)part * nc : NULL))
        for (int k = 0; k < steps; k++)
            error[k] = INFINITY;
    for (int k = 0; k < steps; k++)
        if (!isfinite(error[k]))
            error[k] = INFINITY;
}

void hb_prediction_errors_run(hb_prediction_errors *e, bool adapt, double *error, hb_real *coefficient)
{
    e->adapt = adapt;
    e->error = error;
    e->coefficient = coefficient;
    hb_pool_run(e->pool, e->nfunctions, evaluate_function, e);
}

/* --- pooled over rollouts --- */

/* puts the rollouts of a function; returns their number */
static int place_rollouts(const hb_prediction_errors *e, int function, int first, hb_points *query)
{
    const hb_function *f = &e->data->function[function];
    size_t before = 0; /* stretches of the episodes before */
    int n = 0;

    query->n = e->settings.rollouts;
    for (int k = 0; k < f->nepisodes; k++) {
        int free = e->data->episode[f->episode + k].nsteps - e->settings.steps;
        if (free >= first && n < e->settings.rollouts)
            hb_sampler_put(e->queries, function, before + (size_t)first, query, n++);
        before += free >= 0 ? (size_t)free + 1 : 0;
    }
    query->n = n;
    if (n > 0)
        hb_sampler_pad(e->queries, query);
    return n;
}

static void evaluate_rollouts(void *context, int part, int thread)
{
    hb_prediction_errors *e = context;
    seat *s = &e->seat[thread];
    size_t size = (size_t)e->settings.rollouts * (size_t)e->settings.steps;
    double *error = e->error + (size_t)part * size;
    hb_random_key key = {.seed = e->settings.seed, .stream = (uint64_t)part};

    draw_examples(e, e->function[part], key, &s->example);
    int n = e->count[part] = place_rollouts(e, e->function[part], e->first, &s->query);
    bool failed = n > 0 && hb_loss_trajectories(s->loss, &s->example, &s->query, e->adapt, error);
    for (size_t i = 0; i < (size_t)n * (size_t)e->settings.steps; i++)
        if (failed || !isfinite(error[i]))
            error[i] = INFINITY;
    s->query.n = e->settings.rollouts;
}

int hb_prediction_errors_pooled(hb_prediction_errors *e, bool adapt, int first, double *lower, double *median,
                                double *upper, hb_error *err)
{
    size_t steps = (size_t)e->settings.steps, most = (size_t)e->settings.rollouts, n = 0;
    size_t nfunctions = (size_t)e->nfunctions;
    double *error = calloc(nfunctions * most * (steps + 1) + 1, sizeof *error), *of_step = error;
    int *count = calloc(nfunctions + 1, sizeof *count);

    if (!error || !count) {
        free(error);
        free(count);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    of_step += nfunctions * most * steps;
    e->adapt = adapt;
    e->error = error;
    e->first = first;
    e->count = count;
    hb_pool_run(e->pool, e->nfunctions, evaluate_rollouts, e);
    for (size_t k = 0; k < steps; k++) {
        n = 0;
        for (size_t f = 0; f < nfunctions; f++)
            for (size_t i = 0; i < (size_t)count[f]; i++)
                of_step[n++] = error[(f * most + i) * steps + k];
        lower[k] = hb_quantile(of_step, (int)n, 0.25);
        median[k] = hb_quantile(of_step, (int)n, 0.5);
        upper[k] = hb_quantile(of_step, (int)n, 0.75);
    }
    free(error);
    free(count);
    return 0;
}

int hb_prediction_errors_longest(const hb_dataset *d, int limit)
{
    for (int f = 0; f < d->nfunctions; f++) {
        int longest = 1;
        for (int e = 0; e < d->function[f].nepisodes; e++)
            if (d->episode[d->function[f].episode + e].nsteps > longest)
                longest = d->episode[d->function[f].episode + e].nsteps;
        limit = longest < limit ? longest : limit;
    }
    return limit;
}

double hb_prediction_errors_quantile(const hb_prediction_errors *e, const double *error, int step, double q)
{
    double *of_step = calloc((size_t)e->nfunctions + 1, sizeof *of_step);
    if (!of_step)
        return NAN;
    for (int i = 0; i < e->nfunctions; i++)
        of_step[i] = error[(size_t)i * (size_t)e->settings.steps + (size_t)step - 1];
    double quantile = hb_quantile(of_step, e->nfunctions, q);
    free(of_step);
    return quantile;
}
