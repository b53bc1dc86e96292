/* hilbert-eval predict: each model is fitted to examples of every function and rolled out elsewhere. Three views of
 * the same errors: over steps (with and without coefficients), over each hidden parameter, over the number of
 * examples. Figures are medians over functions; brackets are quartiles. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "eval/error_summary.h"
#include "eval/eval.h"
#include "train/online.h"
#include "common/plot.h"
#include "common/progress.h"
#include "train/run.h"

enum { MAX_MODELS = 32, SHOWN_STEPS = 5 };

typedef struct options {
    const char *data, *plot;
    hb_dataset_mapping mapping;
    int examples, steps, rollouts, threads;
    uint64_t seed;
    double window;
    bool json, successive, no_prior, commands, by_data;
    int nmodels;
    char **model;
} options;

typedef struct result {
    const char *path;
    hb_model *model;
    hb_error_summary errors;
    hb_online *online; /* NULL: there is nothing to adapt by */
} result;

static void print_help(void)
{
    printf(
        "usage: hilbert-eval predict MODEL... --data TEST.h5 [options]\n\n"
        "  --data FILE      data set of functions, best ones that were not trained on\n"
        "  --map TEXT       how to read a foreign data set (hilbert-train data --help)\n"
        "  --examples N     transitions that a model is fitted to [200]\n"
        "  --successive     successive in time, as a vehicle would collect them; else drawn at random\n"
        "  --no-prior       fit with the ridge alone also where a model has a prior of its coefficients\n"
        "  --commands       the data's controls are commands: delay and lag of each model's actuators act on them\n"
        "  --by-data        errors relative to the deviation of this data set's states, not to that of the data which\n"
        "                   each model was trained on: to compare models of different origin\n"
        "  --steps N        length of a rollout [30]\n"
        "  --rollouts N     from each function [100]\n"
        "  --seed N         of the draws [0]\n"
        "  --threads N      0: as many as there are processors [0]\n"
        "  --window X       seconds of the estimator's window in the online rows [the daemon's default]\n"
        "  --json           everything as JSON instead of tables\n"
        "  --plot NAME      curves to NAME.svg and NAME.png (needs gnuplot)\n\n"
        "First come errors in physical units, of predictions made in the order of time as a daemon would, with its\n"
        "estimator: with the average alone, the prior's mean, coefficients after one and five seconds, and online; "
        "how\n"
        "much of the truth the 90 %% bands hold, and how often it would have been out of span. Then, over the\n"
        "functions, the mean squared difference of normalised states after so many steps.\n");
}

static int parse(int argc, char **argv, options *o)
{
    const char *map = "";
    const hb_option known[] = {
        {"data", HB_OPTION_TEXT, &o->data, 0, 0, 0},
        {"map", HB_OPTION_TEXT, &map, 0, 0, 0},
        {"examples", HB_OPTION_WHOLE, &o->examples, 1, 1000000, 0},
        {"successive", HB_OPTION_FLAG, &o->successive, 0, 0, 0},
        {"no-prior", HB_OPTION_FLAG, &o->no_prior, 0, 0, 0},
        {"by-data", HB_OPTION_FLAG, &o->by_data, 0, 0, 0},
        {"commands", HB_OPTION_FLAG, &o->commands, 0, 0, 0},
        {"steps", HB_OPTION_WHOLE, &o->steps, 1, 100000, 0},
        {"rollouts", HB_OPTION_WHOLE, &o->rollouts, 1, 100000, 0},
        {"seed", HB_OPTION_COUNT, &o->seed, 0, INT64_MAX, 0},
        {"threads", HB_OPTION_WHOLE, &o->threads, 0, 1024, 0},
        {"window", HB_OPTION_NUMBER, &(hb_option_number){&o->window, 0.1, 1e4}, 0, 0, 0},
        {"json", HB_OPTION_FLAG, &o->json, 0, 0, 0},
        {"plot", HB_OPTION_TEXT, &o->plot, 0, 0, 0},
    };
    hb_error err = {0};

    *o = (options){.examples = 200, .steps = 30, .rollouts = 100};
    int code = hb_eval_options(known, sizeof known / sizeof *known, argc, argv, print_help);
    if (code >= 0)
        return code;
    if (hb_run_mapping(map, &o->mapping, &err))
        return hb_eval_complain(HB_EXIT_USAGE, &err);
    o->nmodels = argc - optind;
    o->model = argv + optind;
    if (!o->data || o->nmodels < 1 || o->nmodels > MAX_MODELS) {
        fprintf(stderr, "hilbert-eval: predict wants --data and 1 to %d models (try --help)\n", MAX_MODELS);
        return HB_EXIT_USAGE;
    }
    return -1;
}

/* --- showing --- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* steps to show: 1 and the last, and three between, evenly in proportion */
static int choose_steps(int steps, int shown[SHOWN_STEPS])
{
    int n = 0;
    for (int i = 0; i < SHOWN_STEPS; i++) {
        int k = (int)lround(exp(log(steps) * i / (SHOWN_STEPS - 1)));
        if (n == 0 || k > shown[n - 1])
            shown[n++] = k;
    }
    return n;
}

static void print_curve(const char *name, const char *row, const hb_curve *c, const int *shown, int nshown)
{
    printf("%-28.28s %-17s", name, row);
    for (int i = 0; i < nshown; i++) {
        int k = shown[i] - 1;
        printf("  %8.2e [%7.1e %7.1e]", c->median[k], c->lower[k], c->upper[k]);
    }
    printf("\n");
}

static void print_tables(const options *o, const result *r, const hb_dataset *d)
{
    int shown[SHOWN_STEPS], nshown = choose_steps(o->steps, shown);

    for (int i = 0; i < o->nmodels; i++)
        if (r[i].online)
            hb_online_print(r[i].online, base_name(r[i].path), stdout);
    printf("%s: %d functions, %d examples%s, %d rollouts each\n\n", o->data, d->nfunctions, o->examples,
           o->successive ? " in succession" : "", o->rollouts);
    printf("%-28s %-17s", "error after steps", "");
    for (int i = 0; i < nshown; i++)
        printf("  %-26d", shown[i]);
    printf("\n");
    for (int i = 0; i < o->nmodels; i++) {
        print_curve(base_name(r[i].path), hb_eval_row(r[i].model), &r[i].errors.adapted, shown, nshown);
        if (r[i].model->nb > 0)
            print_curve("", "  with c = 0", &r[i].errors.without, shown, nshown);
    }
    for (int h = 0; h < d->header.nhidden; h++) {
        printf("\nerror after 1 and %d steps, over %s\n%-46s", o->steps, d->header.hidden_name[h], "");
        const int n = r[0].errors.nbins;
        for (int b = 0; b < n; b++)
            printf("  %9.3g..%-9.3g", r[0].errors.bin[h * n + b].low, r[0].errors.bin[h * n + b].high);
        printf("\n");
        for (int i = 0; i < o->nmodels; i++) {
            printf("%-28.28s %-17s", base_name(r[i].path), hb_eval_row(r[i].model));
            for (int b = 0; b < n; b++)
                printf("  %9.2e %9.2e ", r[i].errors.bin[h * n + b].one, r[i].errors.bin[h * n + b].late);
            printf("\n");
        }
    }
    printf("\nerror after 1 and %d steps, over the number of examples\n", o->steps);
    for (int i = 0; i < o->nmodels; i++)
        for (int k = 0; k < r[i].errors.ncounts; k++)
            printf("%-28.28s %-17s  %6d  %9.2e %9.2e\n", k ? "" : base_name(r[i].path),
                   k ? "" : hb_eval_row(r[i].model), r[i].errors.count[k].examples, r[i].errors.count[k].one,
                   r[i].errors.count[k].late);
}

static void print_json(const options *o, const result *r, const hb_dataset *d)
{
    json_t *models = json_array();

    for (int i = 0; i < o->nmodels; i++) {
        json_t *model = json_pack("{s:s, s:s, s:b, s:i, s:I}", "model", r[i].path, "row", hb_eval_row(r[i].model),
                                  "prior", r[i].model->has_prior && !o->no_prior, "nb", r[i].model->nb, "parameters",
                                  (json_int_t)r[i].model->nparameters);
        json_object_update_new(model, hb_error_summary_json(&r[i].errors, d));
        if (r[i].online)
            json_object_set_new(model, "online", hb_online_json(r[i].online));
        json_array_append_new(models, model);
    }
    json_t *all = json_pack("{s:s, s:i, s:i, s:i, s:i, s:b, s:o}", "data", o->data, "functions", d->nfunctions,
                            "examples", o->examples, "steps", o->steps, "rollouts", o->rollouts, "successive",
                            o->successive, "models", models);
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    printf("\n");
    json_decref(all);
}

static int draw(const options *o, const result *r, const hb_dataset *d, hb_error *err)
{
    static const char *const colour[] = {"#08519c", "#a50f15", "#238b45", "#6a51a3", "#d94801", "#525252"};
    enum { NCOLOURS = sizeof colour / sizeof *colour };
    int panels = 2 + (d->header.nhidden > 0);
    hb_plot *p = NULL;
    int status = hb_plot_new(&p, o->plot, 420 * panels, 400, err);
    if (status)
        return status;

    FILE *out = hb_plot_script(p);
    for (int i = 0; i < o->nmodels; i++) {
        fprintf(out, "$curve%d << EOD\n", i);
        for (int k = 0; k < o->steps; k++)
            fprintf(out, "%d %g %g %g %g\n", k + 1, r[i].errors.adapted.lower[k], r[i].errors.adapted.median[k],
                    r[i].errors.adapted.upper[k], r[i].errors.without.median[k]);
        fprintf(out, "EOD\n$counts%d << EOD\nNaN NaN\n", i);
        for (int k = 0; k < r[i].errors.ncounts; k++)
            fprintf(out, "%d %g\n", r[i].errors.count[k].examples, r[i].errors.count[k].late);
        fprintf(out, "EOD\n$hidden%d << EOD\nNaN NaN\n", i);
        for (int b = 0; b < r[i].errors.nbins && d->header.nhidden; b++)
            fprintf(out, "%g %g\n", 0.5 * (r[i].errors.bin[b].low + r[i].errors.bin[b].high), r[i].errors.bin[b].late);
        fprintf(out, "EOD\n");
    }
    fprintf(out,
            "set multiplot layout 1,%d\nset logscale y\nset format y '10^{%%T}'\nset grid\nset key bottom right\n"
            "set style fill transparent solid 0.15 noborder\nset xlabel 'steps'\nset ylabel 'error'\nplot ",
            panels);
    for (int i = 0; i < o->nmodels; i++) {
        const char *c = colour[i % NCOLOURS];
        fprintf(out,
                "$curve%d using 1:2:4 with filledcurves lc rgb '%s' notitle, $curve%d using 1:3 with lines lw 2 lc "
                "rgb '%s' title '%s', ",
                i, c, i, c, hb_eval_row(r[i].model));
        if (r[i].model->nb > 0)
            fprintf(out, "$curve%d using 1:5 with lines dt 3 lc rgb '%s' title '  c = 0', ", i, c);
    }
    fprintf(out, "NaN notitle\nset xlabel 'examples'\nset logscale x\nset ylabel 'error after %d steps'\nplot ",
            o->steps);
    for (int i = 0; i < o->nmodels; i++)
        fprintf(out, "$counts%d using 1:2 with linespoints pt 7 ps 0.5 lc rgb '%s' notitle, ", i, colour[i % NCOLOURS]);
    fprintf(out, "NaN notitle\n");
    if (d->header.nhidden) {
        fprintf(out, "unset logscale x\nset xlabel '%s'\nplot ", d->header.hidden_name[0]);
        for (int i = 0; i < o->nmodels; i++)
            fprintf(out, "$hidden%d using 1:2 with linespoints pt 7 ps 0.5 lc rgb '%s' notitle, ", i,
                    colour[i % NCOLOURS]);
        fprintf(out, "NaN notitle\n");
    }
    fprintf(out, "unset multiplot\n");
    return hb_plot_finish(p, err);
}

/* (the model's deviation / the data's)^2 of each of the model's states */
static int find_units(const hb_model *m, const hb_dataset *d, double *unit, hb_error *err)
{
    double *std = calloc((size_t)d->header.nx, sizeof *std);

    if (!std)
        return hb_fail(err, ENOMEM, "out of memory");
    hb_dataset_moments(d, NULL, std, NULL, NULL, NULL);
    for (int k = 0; k < m->nx; k++)
        for (int i = 0; i < d->header.nx; i++)
            if (strcmp(m->state_name[k], d->header.state_name[i]) == 0)
                unit[k] = pow(m->state_std[k] / std[i], 2);
    free(std);
    return 0;
}

static int measure(const options *o, result *r, const hb_dataset *d, hb_pool *pool, hb_error *err)
{
    double *unit = o->by_data ? calloc((size_t)r->model->nx, sizeof *unit) : NULL;
    static const int counts[] = {5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000};
    const hb_prediction_settings s = {.examples = o->examples,
                                      .rollouts = o->rollouts,
                                      .steps = o->steps,
                                      .seed = o->seed,
                                      .prior = r->model->has_prior && !o->no_prior,
                                      .unit = unit,
                                      .successive = o->successive};
    int status = o->by_data && !unit ? hb_fail(err, ENOMEM, "out of memory") : 0;

    if (unit)
        status = find_units(r->model, d, unit, err);
    if (!status)
        status = hb_error_summary_measure(&r->errors, r->model, d, &s, o->steps, counts, sizeof counts / sizeof *counts,
                                          pool, err);
    free(unit);
    return status;
}

/* on what acts behind this model's actuators, where the data have commands */
static int measure_with_actuators(const options *o, result *r, const hb_dataset *d, hb_pool *pool, hb_error *err)
{
    hb_actuators a = {.nu = r->model->nu < d->header.nu ? r->model->nu : d->header.nu};
    hb_dataset *acting = NULL;

    if (!o->commands)
        return measure(o, r, d, pool, err);
    if (a.nu > HB_MAX_CONTROLS)
        return hb_fail(err, EINVAL, "--commands: for %d controls at most", HB_MAX_CONTROLS);
    for (int i = 0; i < a.nu; i++) {
        a.delay[i] = r->model->actuator_delay[i];
        a.lag[i] = r->model->actuator_lag[i];
    }
    int status = hb_dataset_read_many(&acting, o->data, &o->mapping, err);
    if (!status && !(status = hb_dataset_actuate(acting, &a, err)))
        status = measure(o, r, acting, pool, err);
    hb_dataset_free(acting);
    return status;
}

/* As a daemon would: what it does about commands, delay and lag it does by itself. */
static int measure_online(const options *o, result *r, const hb_dataset *d, hb_pool *pool, hb_error *err)
{
    hb_online_settings s = {.estimator = hb_estimator_defaults, .starts = 60, .seed = o->seed};
    hb_error why = {0};

    if (o->window > 0)
        s.estimator.window = o->window;
    s.estimator.method = r->model->method;
    if (!(r->online = calloc(1, sizeof *r->online)))
        return hb_fail(err, ENOMEM, "out of memory");
    if (hb_online_measure(r->online, r->model, d, &s, pool, &why)) {
        fprintf(stderr, "%s: no errors in physical units: %s\n", base_name(r->path), why.text);
        free(r->online);
        r->online = NULL;
    }
    return 0;
}

static int evaluate(const options *o, result *r, const hb_dataset *d, hb_pool *pool, hb_error *err)
{
    hb_progress progress;
    int status;

    hb_progress_start(&progress, "predict");
    for (int i = 0; i < o->nmodels; i++) {
        r[i].path = o->model[i];
        if ((status = hb_model_load(&r[i].model, o->model[i], err)) ||
            (status = measure_online(o, &r[i], d, pool, err)) ||
            (status = measure_with_actuators(o, &r[i], d, pool, err)))
            return status;
        hb_progress_update(&progress, (i + 1.0) / o->nmodels, base_name(o->model[i]));
    }
    hb_progress_end(&progress);
    if (o->json)
        print_json(o, r, d);
    else
        print_tables(o, r, d);
    return o->plot ? draw(o, r, d, err) : 0;
}

int hb_eval_predict(int argc, char **argv)
{
    options o;
    result results[MAX_MODELS] = {0};
    hb_dataset *d = NULL;
    hb_pool *pool = NULL;
    hb_error err = {0};
    int status, code = parse(argc, argv, &o);

    if (code >= 0)
        return code;
    code = HB_EXIT_OK;
    if ((o.plot && (status = hb_plot_available(&err))) ||
        (status = hb_dataset_read_many(&d, o.data, &o.mapping, &err)) ||
        (status = hb_pool_new(&pool, o.threads ? o.threads : (int)sysconf(_SC_NPROCESSORS_ONLN), NULL, NULL, &err)) ||
        (status = evaluate(&o, results, d, pool, &err)))
        code = hb_eval_complain(HB_EXIT_FAILURE, &err);
    for (int i = 0; i < o.nmodels; i++) {
        hb_error_summary_free(&results[i].errors);
        free(results[i].online);
        hb_model_free(results[i].model);
    }
    hb_pool_free(pool);
    hb_dataset_free(d);
    return code;
}
