#include "eval/error_summary.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/statistics.h"
#include "common/json.h"

static void fill_curve(hb_curve *c, const hb_prediction_errors *e, const double *error, int steps)
{
    for (int k = 0; k < steps; k++) {
        c->lower[k] = hb_prediction_errors_quantile(e, error, k + 1, 0.25);
        c->median[k] = hb_prediction_errors_quantile(e, error, k + 1, 0.5);
        c->upper[k] = hb_prediction_errors_quantile(e, error, k + 1, 0.75);
    }
}

/* a function's value of a hidden parameter, and its place in the data */
typedef struct placed {
    double value;
    int function;
} placed;

static int by_value(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    return x->value != y->value ? (x->value > y->value) - (x->value < y->value) : x->function - y->function;
}

static int fill_bins(hb_error_summary *r, int hidden, const hb_dataset *d, const double *error, hb_error *err)
{
    int n = d->nfunctions;
    hb_error_bin *bins = r->bin + hidden * r->nbins;
    placed *order = calloc((size_t)n, sizeof *order);
    double *one = calloc(2 * (size_t)n, sizeof *one), *late = one ? one + n : NULL;

    if (!order || !one) {
        free(order);
        free(one);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    for (int f = 0; f < n; f++)
        order[f] = (placed){d->function[f].hidden[hidden], f};
    qsort(order, (size_t)n, sizeof *order, by_value);
    for (int b = 0; b < r->nbins; b++) {
        int first = n * b / r->nbins, end = n * (b + 1) / r->nbins;
        for (int i = first; i < end; i++) {
            one[i - first] = error[order[i].function * r->steps];
            late[i - first] = error[order[i].function * r->steps + r->late - 1];
        }
        bins[b] = (hb_error_bin){order[first].value, order[end - 1].value, end - first,
                                 hb_quantile(one, end - first, 0.5), hb_quantile(late, end - first, 0.5)};
    }
    free(order);
    free(one);
    return 0;
}

static int fill_count(hb_error_summary *r, int examples, const hb_model *m, const hb_dataset *d,
                      const hb_prediction_settings *s, hb_pool *pool, double *error, hb_error *err)
{
    hb_prediction_settings with = *s;
    hb_prediction_errors *e = NULL;

    with.examples = examples;
    with.steps = r->late;
    int status = hb_prediction_errors_new(&e, m, d, NULL, 0, &with, pool, err);
    if (status)
        return status;
    hb_prediction_errors_run(e, true, error, NULL);
    r->count[r->ncounts++] = (hb_error_count){examples, hb_prediction_errors_quantile(e, error, 1, 0.5),
                                              hb_prediction_errors_quantile(e, error, r->late, 0.5)};
    hb_prediction_errors_free(e);
    return 0;
}

static int fill_counts(hb_error_summary *r, const int *counts, int ncounts, const hb_model *m, const hb_dataset *d,
                       const hb_prediction_settings *s, hb_pool *pool, double *error, hb_error *err)
{
    int status = 0;

    for (int i = 0; i < ncounts && counts[i] < s->examples && !status; i++)
        status = fill_count(r, counts[i], m, d, s, pool, error, err);
    return status ? status : fill_count(r, s->examples, m, d, s, pool, error, err);
}

static int measure(hb_error_summary *r, const hb_model *m, const hb_dataset *d, const hb_prediction_settings *s,
                   hb_prediction_errors *e, double *error, hb_error *err)
{
    int status = 0;

    hb_prediction_errors_run(e, false, error, NULL);
    fill_curve(&r->without, e, error, s->steps);
    if (m->nb > 0)
        hb_prediction_errors_run(e, true, error, NULL);
    fill_curve(&r->adapted, e, error, s->steps);
    for (int f = 0; f < d->nfunctions; f++)
        r->function[f] = error[f * s->steps + r->late - 1];
    status = hb_prediction_errors_pooled(e, m->nb > 0, HB_ERROR_FIRST, r->pooled.lower, r->pooled.median,
                                         r->pooled.upper, err);
    for (int h = 0; h < r->nhidden && !status; h++)
        status = fill_bins(r, h, d, error, err);
    return status;
}

int hb_error_summary_measure(hb_error_summary *ret, const hb_model *m, const hb_dataset *d,
                             const hb_prediction_settings *s, int late, const int *counts, int ncounts, hb_pool *pool,
                             hb_error *err)
{
    size_t steps = (size_t)s->steps, nfunctions = (size_t)d->nfunctions;
    hb_prediction_errors *e = NULL;
    double *error = calloc(nfunctions * steps, sizeof *error);

    *ret =
        (hb_error_summary){.steps = s->steps, .late = late, .nhidden = d->header.nhidden, .nfunctions = d->nfunctions};
    ret->nbins = d->nfunctions < HB_ERROR_BINS ? d->nfunctions : HB_ERROR_BINS;
    ret->memory = calloc(9 * steps + nfunctions, sizeof *ret->memory);
    ret->bin = calloc((size_t)(ret->nhidden * ret->nbins) + 1, sizeof *ret->bin);
    ret->count = calloc((size_t)ncounts + 1, sizeof *ret->count);
    int status = error && ret->memory && ret->bin && ret->count
                     ? hb_prediction_errors_new(&e, m, d, NULL, 0, s, pool, err)
                     : hb_fail(err, ENOMEM, "out of memory");
    if (!status) {
        double *at = ret->memory;
        ret->adapted = (hb_curve){at, at + steps, at + 2 * steps};
        ret->without = (hb_curve){at + 3 * steps, at + 4 * steps, at + 5 * steps};
        ret->pooled = (hb_curve){at + 6 * steps, at + 7 * steps, at + 8 * steps};
        ret->function = at + 9 * steps;
        status = measure(ret, m, d, s, e, error, err);
    }
    if (!status && m->nb > 0)
        status = fill_counts(ret, counts, ncounts, m, d, s, pool, error, err);
    hb_prediction_errors_free(e);
    free(error);
    return status;
}

int hb_error_summary_over_examples(hb_error_summary *e, const hb_model *m, const hb_dataset *d,
                                   const hb_prediction_settings *s, const int *counts, int ncounts, hb_pool *pool,
                                   hb_error *err)
{
    double *error = calloc((size_t)d->nfunctions * (size_t)s->steps, sizeof *error);

    free(e->count);
    e->ncounts = 0;
    e->count = calloc((size_t)ncounts + 1, sizeof *e->count);
    int status = !error || !e->count ? hb_fail(err, ENOMEM, "out of memory")
                 : m->nb > 0         ? fill_counts(e, counts, ncounts, m, d, s, pool, error, err)
                                     : 0;
    free(error);
    return status;
}

void hb_error_summary_free(hb_error_summary *e)
{
    free(e->memory);
    free(e->bin);
    free(e->count);
    *e = (hb_error_summary){0};
}

/* --- JSON --- */

static json_t *curve_json(const hb_curve *c, int steps)
{
    return json_pack("{s:o, s:o, s:o}", "median", hb_json_numbers(c->median, (size_t)steps), "lower",
                     hb_json_numbers(c->lower, (size_t)steps), "upper", hb_json_numbers(c->upper, (size_t)steps));
}

json_t *hb_error_summary_json(const hb_error_summary *e, const hb_dataset *d)
{
    json_t *hidden = json_object(), *counts = json_array();

    for (int h = 0; h < e->nhidden; h++) {
        json_t *bins = json_array();
        for (int b = 0; b < e->nbins; b++) {
            const hb_error_bin *x = &e->bin[h * e->nbins + b];
            json_array_append_new(bins, json_pack("{s:o, s:o, s:i, s:o, s:o}", "low", hb_json_number(x->low), "high",
                                                  hb_json_number(x->high), "functions", x->functions, "one_step",
                                                  hb_json_number(x->one), "last_step", hb_json_number(x->late)));
        }
        json_object_set_new(hidden, d->header.hidden_name[h], bins);
    }
    for (int k = 0; k < e->ncounts; k++)
        json_array_append_new(counts, json_pack("{s:i, s:o, s:o}", "examples", e->count[k].examples, "one_step",
                                                hb_json_number(e->count[k].one), "last_step",
                                                hb_json_number(e->count[k].late)));
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "adapted", curve_json(&e->adapted, e->steps), "without_coefficients",
                     curve_json(&e->without, e->steps), "pooled", curve_json(&e->pooled, e->steps), "hidden", hidden,
                     "by_examples", counts);
}
