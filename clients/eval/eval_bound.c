/* hilbert-eval bound: what a plant itself allows. The simulator is started at states of a data set and given the
 * recorded controls; what its states differ by from the recorded ones is an error that no model can avoid:
 *
 *     as recorded               the simulator starts afresh from a state: what a state does not say (solver, contacts)
 *     mean hidden parameters    a perfect model that cannot adapt
 *     state off by S std        a perfect model of a state that is known so well
 *     off by the model's noise  a model that errs in its first step as the given one does, and is perfect from then on
 *
 * Figures are as in hilbert-eval predict: mean over rollouts and states of the squared normalised difference, medians
 * and quartiles over functions. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/statistics.h"
#include "common/json.h"
#include "common/progress.h"
#include "data/dataset.h"
#include "eval/eval.h"
#include "sim/plant.h"

typedef struct options {
    const char *data, *model;
    int steps, rollouts;
    uint64_t seed;
    bool json;
} options;

typedef struct row {
    const char *name;
    bool mean;         /* hidden parameters are those of all functions in the mean */
    double deviations; /* that every state is off by at the start */
    bool noise;        /* every state is off by the model's noise after the first step */
} row;

static const row rows[] = {
    {.name = "as recorded"},
    {.name = "mean hidden parameters", .mean = true},
    {.name = "state off by 0.01 std", .deviations = 0.01},
    {.name = "state off by 0.03 std", .deviations = 0.03},
    {.name = "state off by 0.1 std", .deviations = 0.1},
    {.name = "off by the model's noise", .noise = true},
};

enum { NROWS = sizeof rows / sizeof *rows, QUARTILES = 3 };

typedef struct bound {
    const options *options;
    const hb_dataset *data;
    const hb_model *model; /* NULL: none */
    const hb_plant_type *type;
    hb_plant *plant;
    int parameter[HB_PLANT_PARAMETERS]; /* of each hidden one of the data */
    double mean[HB_PLANT_PARAMETERS];
    double *unit;  /* nx, deviation of each state */
    double *error; /* nfunctions x steps, of one row */
    double *curve; /* NROWS x QUARTILES x steps */
} bound;

static void print_help(void)
{
    printf(
        "usage: hilbert-eval bound --data TEST.h5 [options]\n\n"
        "What a simulated plant itself allows: the errors of its own simulator that starts at recorded states, knows\n"
        "only the mean of the hidden parameters, or is a little off. No model of the data can do better.\n\n"
        "  --data FILE    a data set of hilbert-sim collect\n"
        "  --model FILE   a basis file: its normalisation is taken, and its noise is one of the rows\n"
        "  --steps N      length of a rollout [10]\n"
        "  --rollouts N   from each function [20]\n"
        "  --seed N       of the draws [0]\n"
        "  --json         everything as JSON instead of a table\n\n"
        "An error is the mean squared difference of normalised states after so many steps.\n");
}

static bool has_row(const bound *b, int k)
{
    return !rows[k].noise || b->model;
}

static int find_parameters(bound *b, hb_error *err)
{
    const hb_dataset *d = b->data;

    if (d->header.nx != b->type->nx || d->header.nu != b->type->nu)
        return hb_fail(err, EINVAL, "%s: %d states and %d controls, plant %s has %d and %d", b->options->data,
                       d->header.nx, d->header.nu, b->type->name, b->type->nx, b->type->nu);
    if (d->header.nhidden > HB_PLANT_PARAMETERS)
        return hb_fail(err, EINVAL, "%s: more hidden parameters than plant %s has", b->options->data, b->type->name);
    for (int i = 0; i < d->header.nhidden; i++) {
        b->parameter[i] = hb_plant_parameter_find(b->type, d->header.hidden_name[i], err);
        if (b->parameter[i] < 0)
            return b->parameter[i];
        for (int f = 0; f < d->nfunctions; f++)
            b->mean[i] += d->function[f].hidden[i] / d->nfunctions;
        if (!isfinite(b->mean[i]))
            return hb_fail(err, EINVAL, "%s: '%s' is not given for all functions", b->options->data,
                           d->header.hidden_name[i]);
    }
    return 0;
}

static int find_units(bound *b, hb_error *err)
{
    const hb_dataset_header *h = &b->data->header;

    hb_dataset_moments(b->data, NULL, b->unit, NULL, NULL, NULL);
    if (!b->model)
        return 0;
    if (b->model->nx != h->nx || !b->model->has_prior)
        return hb_fail(err, EINVAL, "%s: %s", b->options->model,
                       b->model->has_prior ? "has other states than the data"
                                           : "has no noise: add it with 'hilbert-train prior'");
    for (int k = 0; k < h->nx; k++) {
        if (strcmp(b->model->state_name[k], h->state_name[k]) != 0)
            return hb_fail(err, EINVAL, "%s: state %d is '%s', and '%s' in the data", b->options->model, k,
                           b->model->state_name[k], h->state_name[k]);
        b->unit[k] = b->model->state_std[k];
    }
    return 0;
}

/* one rollout from a recorded state; its squared errors are added to error[steps] */
static int roll_out(bound *b, const row *r, const hb_episode *e, int start, hb_draws *draws, double *error,
                    hb_error *err)
{
    const int nx = b->data->header.nx, nu = b->data->header.nu, steps = b->options->steps;
    /* the model's noise comes after a step: the rollout starts there */
    const int skipped = r->noise ? 1 : 0;
    double x[HB_PLANT_STATES];

    memcpy(x, e->x + (size_t)(start + skipped) * (size_t)nx, (size_t)nx * sizeof *x);
    for (int k = 0; k < nx; k++)
        x[k] += b->unit[k] * (r->noise ? b->model->noise[k] : r->deviations) * hb_draw_normal(draws);
    int status = hb_plant_reset(b->plant, x, draws->key, err);
    for (int step = 0; step < steps && !status; step++) {
        const double *truth = e->x + (size_t)(start + step + 1) * (size_t)nx;
        if (step >= skipped) {
            hb_plant_step(b->plant, e->u + (size_t)(start + step) * (size_t)nu,
                          hb_episode_dt(b->data, e, start + step));
            hb_plant_state(b->plant, x);
        }
        for (int k = 0; k < nx; k++)
            error[step] += pow((x[k] - truth[k]) / b->unit[k], 2) / (nx * b->options->rollouts);
    }
    return status;
}

static int measure_function(bound *b, const row *r, int f, double *error, hb_error *err)
{
    const hb_function *function = &b->data->function[f];
    hb_draws draws = {.key = {.seed = b->options->seed, .stream = (uint64_t)f}};
    int status;

    for (int i = 0; i < b->data->header.nhidden; i++)
        if ((status = hb_plant_set(b->plant, b->parameter[i], r->mean ? b->mean[i] : function->hidden[i], err)))
            return status;
    memset(error, 0, (size_t)b->options->steps * sizeof *error);
    for (int k = 0; k < b->options->rollouts; k++) {
        const hb_episode *e = &b->data->episode[function->episode + k % function->nepisodes];
        int free = e->nsteps - b->options->steps;
        if (free < 0)
            return hb_fail(err, EINVAL, "function %d: an episode is shorter than %d steps", function->id,
                           b->options->steps);
        int start = (int)hb_draw_uniform(&draws, 0, free + 1);
        if ((status = roll_out(b, r, e, start > free ? free : start, &draws, error, err)))
            return status;
    }
    return 0;
}

static int measure(bound *b, hb_error *err)
{
    const int steps = b->options->steps, n = b->data->nfunctions;
    double *value = calloc((size_t)n, sizeof *value);
    hb_progress progress;
    int status = value ? 0 : hb_fail(err, ENOMEM, "out of memory");

    hb_progress_start(&progress, "bound");
    for (int k = 0; k < NROWS && !status; k++) {
        for (int f = 0; f < n && !status && has_row(b, k); f++) {
            status = measure_function(b, &rows[k], f, b->error + f * steps, err);
            hb_progress_update(&progress, (k + (f + 1.0) / n) / NROWS, rows[k].name);
        }
        for (int step = 0; step < steps && !status && has_row(b, k); step++)
            for (int q = 0; q < QUARTILES; q++) {
                for (int f = 0; f < n; f++)
                    value[f] = isfinite(b->error[f * steps + step]) ? b->error[f * steps + step] : INFINITY;
                b->curve[(k * QUARTILES + q) * steps + step] = hb_quantile(value, n, 0.25 * (q + 1));
            }
    }
    hb_progress_end(&progress);
    free(value);
    return status;
}

static void print_table(const bound *b)
{
    const int steps = b->options->steps, shown[] = {1, 3, 10, 30};

    printf("%s: plant %s, %d functions, %d rollouts each, errors in units of %s\n\n%-26s", b->options->data,
           b->type->name, b->data->nfunctions, b->options->rollouts,
           b->model ? b->options->model : "the data's deviations", "error after steps");
    for (size_t i = 0; i < sizeof shown / sizeof *shown && shown[i] <= steps; i++)
        printf("  %-26d", shown[i]);
    for (int k = 0; k < NROWS; k++) {
        if (!has_row(b, k))
            continue;
        printf("\n%-26s", rows[k].name);
        const double *lower = b->curve + k * QUARTILES * steps, *median = lower + steps, *upper = median + steps;
        for (size_t i = 0; i < sizeof shown / sizeof *shown && shown[i] <= steps; i++)
            printf("  %8.2e [%7.1e %7.1e]", median[shown[i] - 1], lower[shown[i] - 1], upper[shown[i] - 1]);
    }
    printf("\n");
}

static void print_json(const bound *b)
{
    const size_t steps = (size_t)b->options->steps;
    json_t *list = json_array();

    for (int k = 0; k < NROWS; k++) {
        const double *lower = b->curve + (size_t)k * QUARTILES * steps;
        if (has_row(b, k))
            json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:o}", "row", rows[k].name, "lower",
                                                  hb_json_numbers(lower, steps), "median",
                                                  hb_json_numbers(lower + steps, steps), "upper",
                                                  hb_json_numbers(lower + 2 * steps, steps)));
    }
    json_t *all = json_pack("{s:s, s:s, s:i, s:i, s:o}", "data", b->options->data, "plant", b->type->name, "functions",
                            b->data->nfunctions, "rollouts", b->options->rollouts, "rows", list);
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    printf("\n");
    json_decref(all);
}

static int run(bound *b, hb_error *err)
{
    size_t steps = (size_t)b->options->steps;
    int status;

    if (!(b->type = hb_plant_type_find(b->data->header.plant, err)))
        return -EINVAL;
    if ((status = find_parameters(b, err)))
        return status;
    b->unit = calloc((size_t)b->data->header.nx, sizeof *b->unit);
    b->error = calloc((size_t)b->data->nfunctions * steps, sizeof *b->error);
    b->curve = calloc(NROWS * QUARTILES * steps, sizeof *b->curve);
    if (!b->unit || !b->error || !b->curve)
        return hb_fail(err, ENOMEM, "out of memory");
    if ((status = find_units(b, err)) || (status = hb_plant_new(&b->plant, b->type, err)) || (status = measure(b, err)))
        return status;
    if (b->options->json)
        print_json(b);
    else
        print_table(b);
    return 0;
}

int hb_eval_bound(int argc, char **argv)
{
    options o = {.steps = 10, .rollouts = 20};
    const hb_option known[] = {
        {"data", HB_OPTION_TEXT, &o.data, 0, 0, 0},          {"model", HB_OPTION_TEXT, &o.model, 0, 0, 0},
        {"steps", HB_OPTION_WHOLE, &o.steps, 1, 1000, 0},    {"rollouts", HB_OPTION_WHOLE, &o.rollouts, 1, 100000, 0},
        {"seed", HB_OPTION_COUNT, &o.seed, 0, INT64_MAX, 0}, {"json", HB_OPTION_FLAG, &o.json, 0, 0, 0},
    };
    hb_dataset *d = NULL;
    hb_model *m = NULL;
    bound b = {.options = &o};
    hb_error err = {0};
    int code = hb_eval_options(known, sizeof known / sizeof *known, argc, argv, print_help), status;

    if (code >= 0)
        return code;
    if (!o.data || optind < argc) {
        fprintf(stderr, "hilbert-eval: bound wants --data FILE and nothing else (try --help)\n");
        return HB_EXIT_USAGE;
    }
    if (!(status = hb_dataset_read_many(&d, o.data, NULL, &err)) &&
        (!o.model || !(status = hb_model_load(&m, o.model, &err)))) {
        b.data = d;
        b.model = m;
        status = run(&b, &err);
    }
    hb_plant_free(b.plant);
    free(b.unit);
    free(b.error);
    free(b.curve);
    hb_model_free(m);
    hb_dataset_free(d);
    return status ? hb_eval_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}
