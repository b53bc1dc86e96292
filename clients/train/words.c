#include "train/words.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "data/log_expression.h"
#include "train/function_fit.h"
#include "train/prior.h"

enum { FOLDS = 10 };

/* of the coefficients' own spread: from none to one that leaves a tenth of the slope */
static const double ridges[] = {1e-8, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10};
enum { NRIDGES = sizeof ridges / sizeof *ridges };

/* random numbers that no gradient step has */
static const uint64_t words_stream = UINT64_MAX - 6;

/* ---- wishes ---- */

static int put(char *to, size_t size, const char *from, size_t n, const char *whole, const char *what, hb_error *err)
{
    if (n == 0 || n >= size)
        return hb_fail(err, EINVAL, "%s: %s of 1 to %zu characters is expected", whole, what, size - 1);
    memcpy(to, from, n);
    to[n] = 0;
    return 0;
}

int hb_words_wish(void *wishes, const char *text, hb_error *err)
{
    hb_word_wishes *all = wishes;
    hb_word_wish *w = &all->wish[all->n];
    size_t n = strcspn(text, "[=");
    const char *rest = text + n, *end = *rest == '[' ? strchr(rest, ']') : rest;
    int r;

    if (all->n == HB_MAX_WORDS)
        return hb_fail(err, EINVAL, "%d words at most", HB_MAX_WORDS);
    *w = (hb_word_wish){0};
    if ((r = put(w->name, sizeof w->name, text, n, text, "a name", err)))
        return r;
    if (!end)
        return hb_fail(err, EINVAL, "%s: the unit has no ]", text);
    if (*rest == '[') {
        if (end > rest + 1 &&
            (r = put(w->unit, sizeof w->unit, rest + 1, (size_t)(end - rest) - 1, text, "a unit", err)))
            return r;
        rest = end + 1;
    }
    if (*rest && *rest != '=')
        return hb_fail(err, EINVAL, "%s: expected NAME[UNIT]=EXPRESSION", text);
    const char *expression = *rest ? rest + 1 : w->name;
    if ((r = put(w->text, sizeof w->text, expression, strlen(expression), text, "an expression", err)))
        return r;
    for (int i = 0; i < all->n; i++)
        if (!strcmp(all->wish[i].name, w->name))
            return hb_fail(err, EINVAL, "%s: '%s' is given twice", text, w->name);
    all->n++;
    return 0;
}

void hb_words_wish_all(hb_word_wishes *ret, const hb_dataset *d)
{
    ret->n = 0;
    for (int h = 0; h < d->header.nhidden && ret->n < HB_MAX_WORDS; h++) {
        hb_word_wish *w = &ret->wish[ret->n];
        double first = d->function[0].hidden[h];
        bool differs = false;
        for (int f = 1; f < d->nfunctions && !differs; f++)
            differs = isfinite(d->function[f].hidden[h]) && d->function[f].hidden[h] != first;
        if (!differs)
            continue;
        *w = (hb_word_wish){0};
        snprintf(w->name, sizeof w->name, "%s", d->header.hidden_name[h]);
        snprintf(w->text, sizeof w->text, "\"%s\"", d->header.hidden_name[h]);
        ret->n++;
    }
}

bool hb_words_apply(const hb_model *m, const hb_dataset *d)
{
    return hb_prior_applies(m) && d->header.nhidden > 0 && d->nfunctions >= HB_WORD_FUNCTIONS;
}

/* ---- coefficients of the functions ---- */

typedef struct words {
    const hb_model *m;
    const hb_dataset *data;
    const int *function;
    int nfunctions, nc, examples;
    uint64_t seed;
    int first;                /* of the functions that are fitted now */
    hb_function_fit **fitter; /* one per thread */
    bool failed;
    hb_real *fitted; /* nfunctions x nc */
    double *z;       /* nfunctions x nc: standardised */
    double *mean, *scale;
    double *y; /* nfunctions */
} words;

static void fit_function(void *context, int part, int thread)
{
    words *w = context;
    int f = part + w->first;
    hb_random_key key = {.seed = w->seed, .stream = words_stream};
    hb_fit *fit = hb_function_fit_run(w->fitter[thread], w->function ? w->function[f] : f, key, (uint64_t)f << 32);

    if (!fit || hb_fit_coefficients(fit, w->m->nb, w->fitted + (size_t)f * (size_t)w->nc))
        w->failed = true; /* by any thread, and read after all of them */
}

static int fit_functions(words *w, hb_pool *pool, const hb_watch *watch, hb_error *err)
{
    int nthreads = hb_pool_nthreads(pool), at_once = 4 * nthreads, status = 0;

    w->fitter = calloc((size_t)nthreads, sizeof(hb_function_fit *));
    if (!w->fitter)
        return hb_fail(err, ENOMEM, "out of memory");
    for (int t = 0; t < nthreads && !status; t++) {
        status = hb_function_fit_new(&w->fitter[t], w->m, w->data, w->examples, hb_fit_refinements(w->m), err);
        if (!status && w->m->has_prior)
            status = hb_function_fit_use_prior(w->fitter[t], err);
    }
    for (w->first = 0; w->first < w->nfunctions && !status; w->first += at_once) {
        int left = w->nfunctions - w->first;
        if (!(status = hb_watch_at(watch, (double)w->first / w->nfunctions, err)))
            hb_pool_run(pool, left < at_once ? left : at_once, fit_function, w);
    }
    for (int t = 0; t < nthreads; t++)
        hb_function_fit_free(w->fitter[t]);
    free(w->fitter);
    if (!status && w->failed)
        status = hb_fail(err, ERANGE, "the coefficients of a function are not finite");
    return status;
}

static void standardise(words *w)
{
    size_t nc = (size_t)w->nc;

    for (size_t i = 0; i < nc; i++) {
        double sum = 0, square = 0;
        for (int f = 0; f < w->nfunctions; f++)
            sum += (double)w->fitted[(size_t)f * nc + i] / w->nfunctions;
        for (int f = 0; f < w->nfunctions; f++)
            square += pow((double)w->fitted[(size_t)f * nc + i] - sum, 2) / w->nfunctions;
        w->mean[i] = sum;
        w->scale[i] = square > 0 ? sqrt(square) : 1;
        for (int f = 0; f < w->nfunctions; f++)
            w->z[(size_t)f * nc + i] = ((double)w->fitted[(size_t)f * nc + i] - sum) / w->scale[i];
    }
}

/* ---- hidden parameters ---- */

static int find_hidden(void *context, const char *name, double *value)
{
    const hb_dataset_header *h = context;

    (void)value;
    for (int i = 0; i < h->nhidden; i++)
        if (!strcmp(h->hidden_name[i], name))
            return i;
    return -2;
}

static int take_hidden(words *w, const hb_word_wish *wish, hb_error *err)
{
    hb_log_expression *e = NULL;
    int status = hb_log_expression_new(&e, wish->text, find_hidden, (void *)(uintptr_t)&w->data->header, err);

    if (status) {
        char names[300] = "";
        for (int i = 0; i < w->data->header.nhidden; i++) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", w->data->header.hidden_name[i]);
        }
        char why[200];
        snprintf(why, sizeof why, "%.199s", err->text);
        return hb_fail(err, EINVAL, "word '%s': %s; hidden parameters of the data: %s", wish->name, why,
                       *names ? names : "none");
    }
    for (int f = 0; f < w->nfunctions; f++)
        w->y[f] = hb_log_expression_value(e, w->data->function[w->function ? w->function[f] : f].hidden);
    hb_log_expression_free(e);
    return 0;
}

/* ---- the map ---- */

static double formed(hb_word_form form, double y)
{
    return form == HB_WORD_LINEAR ? y : 1 / y;
}

/* Functions [0, nfunctions) but those of a fold (fold < 0: none is left out) -> slope (nc, of z) and offset.
 * scratch: nc x nc */
static int regress(const words *w, hb_word_form form, double ridge, int fold, double *slope, double *offset,
                   double *scratch)
{
    size_t nc = (size_t)w->nc;
    double mean = 0, n = 0;

    for (int f = 0; f < w->nfunctions; f++)
        if (f % FOLDS != fold && isfinite(w->y[f])) {
            mean += formed(form, w->y[f]);
            n++;
        }
    mean /= n;
    memset(scratch, 0, nc * nc * sizeof *scratch);
    memset(slope, 0, nc * sizeof *slope);
    for (int f = 0; f < w->nfunctions; f++) {
        const double *z = w->z + (size_t)f * nc;
        if (f % FOLDS == fold || !isfinite(w->y[f]))
            continue;
        double t = formed(form, w->y[f]) - mean;
        for (size_t i = 0; i < nc; i++) {
            slope[i] += z[i] * t;
            for (size_t j = 0; j <= i; j++)
                scratch[i * nc + j] += z[i] * z[j];
        }
    }
    for (size_t i = 0; i < nc; i++)
        scratch[i * nc + i] += ridge * n;
    if (hb_cholesky((int)nc, scratch))
        return -1;
    hb_cholesky_solve((int)nc, scratch, 1, slope);
    *offset = mean;
    return 0;
}

static double apply(const words *w, const double *slope, double offset, int f)
{
    double t = offset;

    for (int i = 0; i < w->nc; i++)
        t += slope[i] * w->z[(size_t)f * (size_t)w->nc + (size_t)i];
    return t;
}

/* Mean squares on what is held back: of the parameter, and of what is mapped to. */
static int hold_back(const words *w, hb_word_form form, double ridge, double *slope, double *scratch, double *square,
                     double *mapped)
{
    double n = 0, offset;

    *square = *mapped = 0;
    for (int fold = 0; fold < FOLDS; fold++) {
        if (regress(w, form, ridge, fold, slope, &offset, scratch))
            return -1;
        for (int f = fold; f < w->nfunctions; f += FOLDS) {
            if (!isfinite(w->y[f]))
                continue;
            double t = apply(w, slope, offset, f);
            *square += pow(formed(form, t) - w->y[f], 2);
            *mapped += pow(t - formed(form, w->y[f]), 2);
            n++;
        }
    }
    *square /= n;
    *mapped /= n;
    return isfinite(*square) ? 0 : -1;
}

static double variance_of(const words *w, int *count, bool *has_sign)
{
    double sum = 0, square = 0, least = INFINITY, most = -INFINITY;
    int n = 0;

    for (int f = 0; f < w->nfunctions; f++)
        if (isfinite(w->y[f])) {
            sum += w->y[f];
            least = fmin(least, w->y[f]);
            most = fmax(most, w->y[f]);
            n++;
        }
    for (int f = 0; f < w->nfunctions; f++)
        if (isfinite(w->y[f]))
            square += pow(w->y[f] - sum / n, 2) / n;
    *count = n;
    *has_sign = n > 0 && (least > 0 || most < 0);
    return n ? square : 0;
}

/* The best map of what is in y; slope: nc, of the coefficients themselves. */
static void find_map(const words *w, double *slope, double *offset, double *error, hb_word_result *ret, double *scratch)
{
    double best = INFINITY, ridge = 0, mapped_error = 0;
    bool has_sign;
    double variance = variance_of(w, &ret->nfunctions, &has_sign);

    ret->kept = false;
    ret->error = sqrt(variance);
    ret->explained = 0;
    if (ret->nfunctions < HB_WORD_FUNCTIONS || variance <= 0)
        return;
    for (int form = HB_WORD_LINEAR; form <= (has_sign ? HB_WORD_RECIPROCAL : HB_WORD_LINEAR); form++)
        for (int i = 0; i < NRIDGES; i++) {
            double square, mapped;
            if (!hold_back(w, (hb_word_form)form, ridges[i], slope, scratch, &square, &mapped) && square < best) {
                best = square;
                ridge = ridges[i];
                mapped_error = sqrt(mapped);
                ret->form = (hb_word_form)form;
            }
        }
    if (!isfinite(best) || regress(w, ret->form, ridge, -1, slope, offset, scratch))
        return;
    ret->error = sqrt(best);
    ret->explained = 1 - best / variance;
    ret->kept = ret->explained >= HB_WORD_EXPLAINED;
    *error = mapped_error;
    for (int i = 0; i < w->nc; i++) {
        slope[i] /= w->scale[i];
        *offset -= slope[i] * w->mean[i];
    }
}

/* ---- all of it ---- */

typedef struct maps {
    double offset[HB_MAX_WORDS], error[HB_MAX_WORDS];
    double *slope; /* a row of nc for each wish */
} maps;

static int keep(hb_model **ret, const hb_model *m, const char *notes, const hb_word_wishes *wishes,
                const hb_word_result *result, const maps *map, hb_error *err)
{
    size_t nc = (size_t)hb_model_ncoefficients(m);
    int n = 0;

    for (int i = 0; i < wishes->n; i++)
        n += result[i].kept;
    int status = hb_model_copy_with_words(ret, m, n, notes, err), at = 0;
    for (int i = 0; i < wishes->n && !status; i++) {
        if (!result[i].kept)
            continue;
        hb_model *to = *ret;
        memcpy(to->word_name[at], wishes->wish[i].name, HB_NAME_SIZE);
        memcpy(to->word_unit[at], wishes->wish[i].unit, HB_NAME_SIZE);
        to->word_form[at] = (int)result[i].form;
        to->word_offset[at] = map->offset[i];
        to->word_error[at] = map->error[i];
        memcpy(to->word_slope + (size_t)at * nc, map->slope + (size_t)i * nc, nc * sizeof *map->slope);
        at++;
    }
    return status;
}

int hb_words_fit(hb_model **ret, const hb_word_source *from, const hb_word_wishes *wishes, hb_pool *pool,
                 const hb_watch *watch, hb_word_result *results, hb_error *err)
{
    words w = {.m = from->model,
               .data = from->data,
               .function = from->function,
               .nfunctions = from->function ? from->nfunctions : from->data->nfunctions,
               .nc = hb_model_ncoefficients(from->model),
               .examples = from->examples,
               .seed = from->seed};
    hb_word_result own[HB_MAX_WORDS] = {{0}}, *result = results ? results : own;
    size_t n = (size_t)w.nfunctions, nc = (size_t)w.nc;
    maps map = {.slope = calloc((size_t)wishes->n * nc + 1, sizeof *map.slope)};
    double *memory = calloc(n * nc + 2 * nc + n + nc * nc + 1, sizeof *memory);
    int status = 0;

    if (!hb_prior_applies(from->model))
        status = hb_fail(err, EINVAL, "words go with basis functions whose coefficients are least squares");
    else if (w.nfunctions < HB_WORD_FUNCTIONS)
        status =
            hb_fail(err, EINVAL, "words need %d functions at least: the data have %d", HB_WORD_FUNCTIONS, w.nfunctions);
    w.fitted = calloc(n * nc + 1, sizeof *w.fitted);
    if (!status && (!memory || !map.slope || !w.fitted))
        status = hb_fail(err, ENOMEM, "out of memory for the words of %d functions", w.nfunctions);
    if (!status) {
        w.z = memory;
        w.mean = w.z + n * nc;
        w.scale = w.mean + nc;
        w.y = w.scale + nc;
        status = fit_functions(&w, pool, watch, err);
    }
    if (!status)
        standardise(&w);
    for (int i = 0; i < wishes->n && !status; i++) {
        result[i] = (hb_word_result){0};
        if (!(status = take_hidden(&w, &wishes->wish[i], err)))
            find_map(&w, map.slope + (size_t)i * nc, &map.offset[i], &map.error[i], &result[i], w.y + n);
    }
    if (!status)
        status = keep(ret, from->model, from->notes, wishes, result, &map, err);
    free(map.slope);
    free(memory);
    free(w.fitted);
    return status;
}

void hb_words_print(const hb_word_wishes *wishes, const hb_word_result *results, FILE *out)
{
    for (int i = 0; i < wishes->n; i++) {
        const hb_word_result *r = &results[i];
        fprintf(out, "%-16s +- %.3g%s%s on held-back functions, explains %.1f %%%s%s\n", wishes->wish[i].name, r->error,
                *wishes->wish[i].unit ? " " : "", wishes->wish[i].unit, 100 * fmax(r->explained, 0),
                r->kept && r->form == HB_WORD_RECIPROCAL ? ", as a reciprocal" : "",
                r->kept                             ? ""
                : r->nfunctions < HB_WORD_FUNCTIONS ? ": left out, too few functions name it"
                                                    : ": left out");
    }
}
