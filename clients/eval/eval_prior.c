/* hilbert-eval prior: what the prior of the coefficients brings. Each model is fitted with it and without it, to more
 * and more examples; and where models differ in their number of basis functions, the errors stand against that too. The
 * paper's claim is that both curves are flat. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "common/json.h"
#include "common/plot.h"
#include "common/progress.h"
#include "eval/error_summary.h"
#include "eval/eval.h"

enum { MAX_MODELS = 16, MOST_EXAMPLES = 2000 };

static const int counts[] = {5, 10, 20, 50, 100, 200, 500, 1000};

enum { NCOUNTS = sizeof counts / sizeof *counts + 1 };

/* of the comparison over basis functions, besides options.examples */
enum { FEWEST = 5, FEW = 50, NSHOWN = 4 };

typedef enum { RIDGE, PRIOR, NFITS } fit;

static const char *const fit_name[NFITS] = {"ridge", "prior"};

typedef struct options {
    const char *data, *plot;
    int examples, steps, rollouts, threads;
    uint64_t seed;
    bool json;
    int nmodels;
    char **path;
} options;

typedef struct result {
    hb_model *model;
    hb_error_summary errors[NFITS]; /* over examples */
    double at[NFITS];               /* with options.examples */
    double without;                 /* with c = 0 */
} result;

static void print_help(void)
{
    printf(
        "usage: hilbert-eval prior MODEL... --data TEST.h5 [options]\n\n"
        "What the prior of the coefficients brings: errors of fits with it, and with the ridge alone, over the number\n"
        "of examples from 5 to %d, and over the models' numbers of basis functions. The models need a prior each\n"
        "(hilbert-train writes one).\n\n"
        "  --data FILE      data set of functions that were not trained on\n"
        "  --examples N     of the comparison over basis functions, besides 5, 50 and %d [200]\n"
        "  --steps N        length of a rollout, whose last error counts [10]\n"
        "  --rollouts N     from each function [50]\n"
        "  --seed N         of the draws [0]\n"
        "  --threads N      0: as many as there are processors [0]\n"
        "  --json           everything as JSON instead of tables\n"
        "  --plot NAME      curves to NAME.svg and NAME.png (needs gnuplot)\n\n"
        "An error is the mean squared difference of normalised states after the last step, median over functions.\n",
        MOST_EXAMPLES, MOST_EXAMPLES);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static double of_count(const result *r, fit f, int examples)
{
    for (int i = 0; i < r->errors[f].ncounts; i++)
        if (r->errors[f].count[i].examples == examples)
            return r->errors[f].count[i].late;
    return NAN;
}

/* the error with the fewest examples to that with most */
static double slope_of(const result *r, fit f)
{
    return of_count(r, f, counts[0]) / of_count(r, f, MOST_EXAMPLES);
}

static double shown_error(const options *o, const result *r, fit f, int i, int *ret_examples)
{
    const int shown[NSHOWN] = {FEWEST, FEW, o->examples, MOST_EXAMPLES};

    *ret_examples = shown[i];
    return shown[i] == o->examples ? r->at[f] : of_count(r, f, shown[i]);
}

static int measure(const options *o, result *r, const hb_dataset *d, hb_pool *pool, hb_error *err)
{
    hb_prediction_settings s = {.rollouts = o->rollouts, .steps = o->steps, .seed = o->seed};
    int status = 0;

    for (int f = 0; f < NFITS && !status; f++) {
        hb_error_summary at = {0};
        s.prior = f == PRIOR;
        s.examples = MOST_EXAMPLES;
        status = hb_error_summary_measure(&r->errors[f], r->model, d, &s, o->steps, counts, NCOUNTS - 1, pool, err);
        if (!status) {
            r->at[f] = of_count(r, (fit)f, o->examples);
            r->without = r->errors[f].without.median[o->steps - 1];
        }
        if (status || !isnan(r->at[f]))
            continue;
        s.examples = o->examples;
        status = hb_error_summary_measure(&at, r->model, d, &s, o->steps, NULL, 0, pool, err);
        if (!status)
            r->at[f] = at.adapted.median[o->steps - 1];
        hb_error_summary_free(&at);
    }
    return status;
}

/* Of the models' errors the highest to the lowest: 1 is flat. */
static void print_spread(const options *o, const result *r, fit f)
{
    for (int i = 0; i < NSHOWN; i++) {
        double low = INFINITY, high = 0;
        int examples;
        for (int k = 0; k < o->nmodels; k++) {
            double error = shown_error(o, &r[k], f, i, &examples);
            low = fmin(low, error);
            high = fmax(high, error);
        }
        printf("  %8.3g", high / low);
    }
}

static void print_bases(const options *o, const result *r)
{
    int examples;

    printf("\n%-28s %4s", "over basis functions", "nb");
    for (int f = NFITS - 1; f >= 0; f--)
        for (int i = 0; i < NSHOWN; i++) {
            char head[24];
            shown_error(o, &r[0], (fit)f, i, &examples);
            snprintf(head, sizeof head, "%s%d", i == 0 ? f == PRIOR ? "prior " : "ridge " : "", examples);
            printf("  %8s", head);
        }
    printf("  %10s\n", "with c = 0");
    for (int k = 0; k < o->nmodels; k++) {
        printf("%-28.28s %4d", base_name(o->path[k]), r[k].model->nb);
        for (int f = NFITS - 1; f >= 0; f--)
            for (int i = 0; i < NSHOWN; i++)
                printf("  %8.2e", shown_error(o, &r[k], (fit)f, i, &examples));
        printf("  %10.2e\n", r[k].without);
    }
    if (o->nmodels > 1) {
        printf("%-28s %4s", "highest / lowest", "");
        print_spread(o, r, PRIOR);
        print_spread(o, r, RIDGE);
        printf("\n");
    }
    printf("with %d, %d, %d and %d examples\n", FEWEST, FEW, o->examples, MOST_EXAMPLES);
}

static void print_tables(const options *o, const result *r, const hb_dataset *d)
{
    printf("%s: %d functions, %d rollouts each; errors after %d steps, medians over functions\n\n", o->data,
           d->nfunctions, o->rollouts, o->steps);
    printf("%-28s %4s %-6s", "over the number of examples", "nb", "fit by");
    for (int i = 0; i < NCOUNTS; i++)
        printf("  %8d", i < NCOUNTS - 1 ? counts[i] : MOST_EXAMPLES);
    printf("  %d / %d\n", counts[0], MOST_EXAMPLES);
    for (int k = 0; k < o->nmodels; k++)
        for (int f = NFITS - 1; f >= 0; f--) {
            if (f == PRIOR)
                printf("%-28.28s %4d %-6s", base_name(o->path[k]), r[k].model->nb, fit_name[f]);
            else
                printf("%-28s %4s %-6s", "", "", fit_name[f]);
            for (int i = 0; i < NCOUNTS; i++)
                printf("  %8.2e", of_count(&r[k], (fit)f, i < NCOUNTS - 1 ? counts[i] : MOST_EXAMPLES));
            printf("  %8.3g\n", slope_of(&r[k], (fit)f));
        }
    print_bases(o, r);
}

static void print_json(const options *o, const result *r, const hb_dataset *d)
{
    json_t *models = json_array();

    for (int k = 0; k < o->nmodels; k++) {
        json_t *model = json_pack("{s:s, s:i, s:o}", "model", o->path[k], "nb", r[k].model->nb, "without_coefficients",
                                  hb_json_number(r[k].without));
        for (int f = 0; f < NFITS; f++) {
            json_t *list = json_array();
            for (int i = 0; i < r[k].errors[f].ncounts; i++) {
                const hb_error_count *c = &r[k].errors[f].count[i];
                json_array_append_new(list, json_pack("{s:i, s:o, s:o}", "examples", c->examples, "one_step",
                                                      hb_json_number(c->one), "last_step", hb_json_number(c->late)));
            }
            json_object_set_new(model, fit_name[f],
                                json_pack("{s:o, s:o}", "error", hb_json_number(r[k].at[f]), "by_examples", list));
        }
        json_array_append_new(models, model);
    }
    json_t *all = json_pack("{s:s, s:i, s:i, s:i, s:i, s:o}", "data", o->data, "functions", d->nfunctions, "examples",
                            o->examples, "steps", o->steps, "rollouts", o->rollouts, "models", models);
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    printf("\n");
    json_decref(all);
}

static int draw(const options *o, const result *r, hb_error *err)
{
    static const char *const colour[] = {"#08519c", "#a50f15", "#238b45", "#6a51a3", "#d94801", "#525252"};
    enum { NCOLOURS = sizeof colour / sizeof *colour };
    hb_plot *p = NULL;
    int examples, status = hb_plot_new(&p, o->plot, 1000, 480, err);
    if (status)
        return status;

    FILE *out = hb_plot_script(p);
    for (int k = 0; k < o->nmodels; k++)
        for (int f = 0; f < NFITS; f++) {
            fprintf(out, "$count%d_%d << EOD\n", k, f);
            for (int i = 0; i < r[k].errors[f].ncounts; i++)
                fprintf(out, "%d %g\n", r[k].errors[f].count[i].examples, r[k].errors[f].count[i].late);
            fprintf(out, "EOD\n");
        }
    fprintf(out, "$bases << EOD\n");
    for (int k = 0; k < o->nmodels; k++) {
        fprintf(out, "%d %g", r[k].model->nb, r[k].without);
        for (int f = 0; f < NFITS; f++)
            for (int i = 0; i < NSHOWN; i++)
                fprintf(out, " %g", shown_error(o, &r[k], (fit)f, i, &examples));
        fprintf(out, "\n");
    }
    double low = INFINITY, high = 0;
    for (int k = 0; k < o->nmodels; k++)
        for (int f = 0; f < NFITS; f++)
            for (int i = 0; i < r[k].errors[f].ncounts; i++) {
                low = fmin(low, r[k].errors[f].count[i].late);
                high = fmax(high, r[k].errors[f].count[i].late);
            }
    /* a fit that explodes leaves the picture at the top */
    fprintf(out,
            "EOD\nset multiplot layout 1,2\nset logscale xy\nset grid\n"
            "set key outside bottom center horizontal samplen 1.5\nset title 'with the prior; dotted: ridge alone'\n"
            "set yrange [%g:%g]\nset ylabel 'error after %d steps'\nset xlabel 'examples' offset 0,0.5\nplot ",
            low / 1.5, fmin(1.5 * high, 30 * low), o->steps);
    for (int k = 0; k < o->nmodels; k++)
        fprintf(out,
                "$count%d_%d with linespoints pt 7 ps 0.5 lw 2 lc rgb '%s' title 'nb %d', $count%d_%d with lines dt 3 "
                "lc rgb '%s' notitle, ",
                k, PRIOR, colour[k % NCOLOURS], r[k].model->nb, k, RIDGE, colour[k % NCOLOURS]);
    fprintf(out, "NaN notitle\nset xlabel 'basis functions' offset 0,0.5\nplot ");
    for (int i = 0; i < NSHOWN; i++) {
        shown_error(o, &r[0], PRIOR, i, &examples);
        fprintf(out,
                "$bases using 1:%d smooth unique with linespoints pt 7 ps 0.5 lw 2 lc rgb '%s' title '%d examples', "
                "$bases using 1:%d smooth unique with lines dt 3 lc rgb '%s' notitle, ",
                3 + NSHOWN * PRIOR + i, colour[i % NCOLOURS], examples, 3 + NSHOWN * RIDGE + i, colour[i % NCOLOURS]);
    }
    fprintf(out, "$bases using 1:2 smooth unique with lines dt 2 lc rgb '#999999' title 'c = 0'\nunset multiplot\n");
    return hb_plot_finish(p, err);
}

static int evaluate(const options *o, result *r, const hb_dataset *d, hb_pool *pool, hb_error *err)
{
    hb_progress progress;
    int status;

    hb_progress_start(&progress, "prior");
    for (int k = 0; k < o->nmodels; k++) {
        if ((status = hb_model_load(&r[k].model, o->path[k], err)))
            return status;
        if (!r[k].model->has_prior)
            return hb_fail(err, EINVAL, "%s: has no prior: add one with 'hilbert-train prior'", o->path[k]);
        if ((status = measure(o, &r[k], d, pool, err)))
            return status;
        hb_progress_update(&progress, (k + 1.0) / o->nmodels, base_name(o->path[k]));
    }
    hb_progress_end(&progress);
    if (o->json)
        print_json(o, r, d);
    else
        print_tables(o, r, d);
    return o->plot ? draw(o, r, err) : 0;
}

int hb_eval_prior(int argc, char **argv)
{
    options o = {.examples = 200, .steps = 10, .rollouts = 50};
    const hb_option known[] = {
        {"data", HB_OPTION_TEXT, &o.data, 0, 0, 0},          {"examples", HB_OPTION_WHOLE, &o.examples, 1, 1000000, 0},
        {"steps", HB_OPTION_WHOLE, &o.steps, 1, 1000, 0},    {"rollouts", HB_OPTION_WHOLE, &o.rollouts, 1, 100000, 0},
        {"seed", HB_OPTION_COUNT, &o.seed, 0, INT64_MAX, 0}, {"threads", HB_OPTION_WHOLE, &o.threads, 0, 1024, 0},
        {"json", HB_OPTION_FLAG, &o.json, 0, 0, 0},          {"plot", HB_OPTION_TEXT, &o.plot, 0, 0, 0},
    };
    result results[MAX_MODELS] = {0};
    hb_dataset *d = NULL;
    hb_pool *pool = NULL;
    hb_error err = {0};
    int code = hb_eval_options(known, sizeof known / sizeof *known, argc, argv, print_help), status;

    if (code >= 0)
        return code;
    o.nmodels = argc - optind;
    o.path = argv + optind;
    if (!o.data || o.nmodels < 1 || o.nmodels > MAX_MODELS) {
        fprintf(stderr, "hilbert-eval: prior wants --data and 1 to %d models (try --help)\n", MAX_MODELS);
        return HB_EXIT_USAGE;
    }
    code = HB_EXIT_OK;
    if ((o.plot && (status = hb_plot_available(&err))) || (status = hb_dataset_read_many(&d, o.data, NULL, &err)) ||
        (status = hb_pool_new(&pool, o.threads ? o.threads : (int)sysconf(_SC_NPROCESSORS_ONLN), NULL, NULL, &err)) ||
        (status = evaluate(&o, results, d, pool, &err)))
        code = hb_eval_complain(HB_EXIT_FAILURE, &err);
    for (int k = 0; k < o.nmodels; k++) {
        for (int f = 0; f < NFITS; f++)
            hb_error_summary_free(&results[k].errors[f]);
        hb_model_free(results[k].model);
    }
    hb_pool_free(pool);
    hb_dataset_free(d);
    return code;
}
