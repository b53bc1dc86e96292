/* hilbert-eval vanderpol: the paper's first system, from data to figure.
 *
 *     x' = v,   v' = mu (1 - x^2) v - x,      mu hidden
 *
 * Trajectories of many mu in 0.1..3, from rest to the limit cycle, with irregular steps; a neural ODE, the paper's
 * FE + NODE and FE + NODE + Res, and the shared model, each trained for the same wall time; their errors on unseen mu;
 * and two figures: the flow for several mu, true and predicted, and mu = 4, which no model was trained on. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/vanderpol.h"
#include "eval/eval.h"
#include "train/prediction_errors.h"
#include "train/function_fit.h"
#include "common/plot.h"
#include "dynamics/predictor.h"
#include "common/progress.h"
#include "train/run.h"

enum {
    NX = 2,
    NB = 11,
    TRAINED_PER_TESTED = 5, /* mu */
    TRAIN_EPISODES = 20,
    TEST_EPISODES = 100,
    EPISODE_STEPS = 100,
    EXAMPLES = 5000, /* of the figures and the table, as in the paper */
    STEPS = 10,
    NMODELS = 4,
    NSHOWN = 4,
    FLOW_STEPS = 250,
    FEWEST_STEPS = 4, /* enough to measure how long one takes */
    MAX_FIGURE_PATH = 700,
};

static const double low = 0.1, high = 3.0, beyond = 4.0, mean_dt = 0.1, flow_dt = 0.05;
static const double shown_mu[NSHOWN] = {0.3, 1.0, 2.0, 3.0};
static const double start[NX] = {0.1, 0.1}, far_start[NX] = {-2.5, 2.5};

/* what is trained: the paper's settings for its rows, except for the width of the NODE, which would not fit the time,
 * and the learning rates: of 0.001 (the paper's), 0.003 and 0.01 the best for each */
static const struct row {
    const char *name, *file, *colour;
    hb_kind kind;
    hb_widths hidden;
    double learning_rate;
    int refinements; /* periods are long here: it matters along what coefficients are fitted */
} rows[NMODELS] = {
    {"NODE", "node", "#d94801", HB_KIND_NODE, {4, {128, 128, 128, 128}}, 1e-2, 0},
    {"FE + NODE", "fe-node", "#2171b5", HB_KIND_FE_NODE, {4, {51, 51, 51, 51}}, 3e-3, 0},
    {"FE + NODE + Res", "fe-node-res", "#6a51a3", HB_KIND_FE_NODE_RES, {4, {51, 51, 51, 51}}, 3e-3, 0},
    {"shared", "shared", "#a50f15", HB_KIND_SHARED, {3, {64, 64, 64}}, 1e-2, 1},
};

typedef struct options {
    const char *folder;
    double seconds; /* of training, each model */
    uint64_t seed;
    int functions; /* mu to train on */
    int threads;
    bool plot;
} options;

typedef struct outcome {
    hb_model *model;
    uint64_t steps;
    double seconds;
    double one, ten, one_without, ten_without; /* medians over unseen mu */
    double one_beyond, ten_beyond;             /* mu = 4 */
} outcome;

/* --- data --- */

/* half of the episodes start near rest, half around the limit cycle */
static int write_data(const char *path, int functions, int episodes, double from, double to, uint64_t seed,
                      hb_error *err)
{
    char state[NX][HB_NAME_SIZE] = {"x", "v"}, unit[NX][HB_NAME_SIZE] = {"1", "1/s"}, hidden[1][HB_NAME_SIZE] = {"mu"};
    hb_dataset_header header = {.nx = NX,
                                .dt = mean_dt,
                                .seed = seed,
                                .plant = "vanderpol",
                                .state_name = state,
                                .state_unit = unit,
                                .nhidden = 1,
                                .hidden_name = hidden};
    hb_dataset_writer *w = NULL;
    int status = hb_dataset_writer_new(&w, path, &header, err);

    for (int f = 0; f < functions && !status; f++) {
        hb_random_key key = {.seed = seed, .stream = (uint64_t)f};
        double mu = from + (to - from) * hb_random_uniform(key, 0);
        for (int e = 0; e < episodes && !status; e++) {
            double x[(EPISODE_STEPS + 1) * NX], time[EPISODE_STEPS + 1] = {0};
            uint64_t at = ((uint64_t)e + 1) << 20;
            double reach = e % 2 ? 2.5 : 0.2, speed = e % 2 ? 2.5 + mu : 0.2;
            x[0] = reach * (2 * hb_random_uniform(key, at) - 1);
            x[1] = speed * (2 * hb_random_uniform(key, at + 1) - 1);
            for (int i = 0; i < EPISODE_STEPS; i++) {
                double dt = mean_dt * (0.5 + hb_random_uniform(key, at + 2 + (uint64_t)i));
                memcpy(x + (i + 1) * NX, x + i * NX, NX * sizeof *x);
                hb_vanderpol_flow(mu, x + (i + 1) * NX, dt);
                time[i + 1] = time[i] + dt;
            }
            status = hb_dataset_writer_append(w, f, EPISODE_STEPS, x, NULL, time, &mu, err);
        }
    }
    if (status) {
        hb_dataset_writer_free(w);
        return status;
    }
    return hb_dataset_writer_close(w, err);
}

/* --- training --- */

static void in_folder(char path[HB_PATH_SIZE], const options *o, const char *name, const char *suffix)
{
    snprintf(path, HB_PATH_SIZE, "%.*s/%s%s", MAX_FIGURE_PATH, o->folder, name, suffix);
}

static void settings_of(const struct row *row, const options *o, hb_settings *s)
{
    hb_settings_default(s);
    in_folder(s->data, o, "train", ".h5");
    in_folder(s->output, o, row->file, ".safetensors");
    s->kind = (int)row->kind;
    s->hidden = row->hidden;
    s->nb = row->kind == HB_KIND_NODE ? -1 : NB;
    s->functions = 10;
    s->examples = 200;
    s->queries = 200;
    s->refinements = row->refinements;
    s->learning_rate = row->learning_rate;
    s->decay = HB_DECAY_COSINE;
    s->seed = o->seed;
    s->threads = o->threads;
    s->hold_out = 0; /* errors are measured afterwards, on functions of their own */
}

/* as many steps as fit into the time: how many they are is measured first, in two shorter runs */
static int train(const struct row *row, const options *o, outcome *ret, hb_error *err)
{
    static const double share[] = {0, 0.05, 1}; /* of the time */
    hb_settings s;
    hb_run_result r = {0};
    char checkpoint[HB_PATH_SIZE];
    int status = 0;

    settings_of(row, o, &s);
    hb_run_checkpoint_path(&s, checkpoint);
    unlink(checkpoint);
    for (int i = 0; i < 3 && !status; i++) {
        s.steps = (uint64_t)fmax(FEWEST_STEPS, r.steps_per_second * share[i] * o->seconds);
        status = hb_run(&s, &(hb_run_options){.quiet = i < 2, .no_prior = i < 2, .label = row->name}, &r, err);
    }
    if (status)
        return status;
    ret->steps = r.steps;
    ret->seconds = r.seconds;
    return hb_model_load(&ret->model, s.output, err);
}

/* --- errors --- */

static int measure(const hb_model *m, const hb_dataset *d, bool adapt, hb_pool *pool, double *one, double *ten,
                   hb_error *err)
{
    hb_prediction_settings s = {.examples = EXAMPLES, .rollouts = 200, .steps = STEPS, .seed = 1};
    hb_prediction_errors *e = NULL;
    double *error = calloc((size_t)d->nfunctions * STEPS, sizeof *error);
    int status =
        error ? hb_prediction_errors_new(&e, m, d, NULL, 0, &s, pool, err) : hb_fail(err, ENOMEM, "out of memory");

    if (!status) {
        hb_prediction_errors_run(e, adapt, error, NULL);
        *one = hb_prediction_errors_quantile(e, error, 1, 0.5);
        *ten = hb_prediction_errors_quantile(e, error, STEPS, 0.5);
    }
    hb_prediction_errors_free(e);
    free(error);
    return status;
}

static void print_table(const outcome *of, const options *o)
{
    printf("\nVan der Pol, mu in %g..%g, %d unseen mu, %d examples each; %g s of training a model\n", low, high,
           o->functions / TRAINED_PER_TESTED, EXAMPLES, o->seconds);
    printf("%-16s %10s %7s %8s %12s %12s %12s %12s %12s\n", "", "parameters", "steps", "seconds", "1 step",
           "with c = 0", "10 steps", "mu = 4: 1", "mu = 4: 10");
    for (int i = 0; i < NMODELS; i++) {
        const outcome *x = &of[i];
        printf("%-16s %10zu %7llu %8.1f %12.3e %12.3e %12.3e %12.3e %12.3e\n", rows[i].name, x->model->nparameters,
               (unsigned long long)x->steps, x->seconds, x->one, x->one_without, x->ten, x->one_beyond, x->ten_beyond);
    }
    const outcome *ours = &of[NMODELS - 1];
    printf("one-step error of the %s model:", rows[NMODELS - 1].name);
    for (int i = NMODELS - 2; i >= 0; i--)
        printf(" %.3g of %s%s", ours->one / of[i].one, rows[i].name, i ? "," : "\n");
}

/* --- figures --- */

/* coefficients from the examples of function 0, then a rollout from x: (FLOW_STEPS + 1) x NX */
static int predict(const hb_model *m, const hb_dataset *d, const double *x, double *states, hb_error *err)
{
    hb_function_fit *fitter = NULL;
    hb_workspace *w = NULL;
    hb_predictor *p = NULL;
    hb_real c[NB * NX] = {0}, z[NX * HB_STRIDE] = {0}, dt[HB_STRIDE];
    int status = hb_function_fit_new(&fitter, m, d, EXAMPLES, hb_fit_refinements(m), err);

    if (!status && m->nb > 0) {
        hb_fit *f = hb_function_fit_run(fitter, 0, (hb_random_key){.seed = 2}, 0);
        if (!f || hb_fit_coefficients(f, m->nb, c))
            status = hb_fail(err, ERANGE, "the model is not finite");
    }
    if (!status && !(status = hb_workspace_new(&w, m, false, err)) && !(status = hb_predictor_new(&p, m, err))) {
        hb_predictor_set(p, c);
        for (int i = 0; i < HB_STRIDE; i++)
            dt[i] = (hb_real)flow_dt;
        for (int j = 0; j < NX; j++)
            z[j * HB_STRIDE] = (hb_real)hb_normalised_state(m, j, x[j]);
        for (int i = 0; i <= FLOW_STEPS; i++) {
            hb_batch in = {.n = 1, .z = z, .dt = dt};
            for (int j = 0; j < NX; j++)
                states[i * NX + j] = hb_physical_state(m, j, z[j * HB_STRIDE]);
            hb_predictor_step(p, w, &in, z, NULL);
        }
    }
    hb_predictor_free(p);
    hb_workspace_free(w);
    hb_function_fit_free(fitter);
    return status;
}

static void print_block(FILE *out, const char *name, int index, const double *states)
{
    fprintf(out, "$%s%d << EOD\n", name, index);
    for (int i = 0; i <= FLOW_STEPS; i++)
        fprintf(out, "%.4g %.4g\n", states[i * NX], states[i * NX + 1]);
    fprintf(out, "EOD\n");
}

static void true_flow(double mu, const double *x, double *states)
{
    memcpy(states, x, NX * sizeof *x);
    for (int i = 0; i < FLOW_STEPS; i++) {
        memcpy(states + (i + 1) * NX, states + i * NX, NX * sizeof *x);
        hb_vanderpol_flow(mu, states + (i + 1) * NX, flow_dt);
    }
}

/* one row of panels a model, one column a mu; black is true, colour predicted, from two starts */
static int draw(const options *o, const char *name, const double *mu, int nmu, const outcome *of, hb_error *err)
{
    char path[HB_PATH_SIZE], data[HB_PATH_SIZE];
    double states[(FLOW_STEPS + 1) * NX];
    hb_plot *p = NULL;
    int status;

    in_folder(path, o, name, "");
    in_folder(data, o, "shown", ".h5");
    bool one_row = nmu == 1;
    hb_progress progress;
    if ((status = hb_plot_new(&p, path, one_row ? 240 * NMODELS : 220 * nmu, one_row ? 260 : 210 * NMODELS, err)))
        return status;
    FILE *out = hb_plot_script(p);
    hb_progress_start(&progress, "draw");
    for (int k = 0; k < nmu && !status; k++) {
        hb_dataset *d = NULL;
        true_flow(mu[k], start, states);
        print_block(out, "near", k, states);
        true_flow(mu[k], far_start, states);
        print_block(out, "far", k, states);
        if (!(status = write_data(data, 1, TEST_EPISODES, mu[k], mu[k], o->seed + 77, err)))
            status = hb_dataset_read(&d, data, NULL, err);
        for (int i = 0; i < NMODELS && !status; i++) {
            if (!(status = predict(of[i].model, d, start, states, err)))
                print_block(out, "pnear", i * nmu + k, states);
            if (!status && !(status = predict(of[i].model, d, far_start, states, err)))
                print_block(out, "pfar", i * nmu + k, states);
            hb_progress_update(&progress, (k + (i + 1.0) / NMODELS) / nmu, rows[i].name);
        }
        hb_dataset_free(d);
    }
    hb_progress_end(&progress);
    unlink(data);
    if (status) {
        hb_plot_free(p);
        return status;
    }
    fprintf(out,
            "set multiplot layout %d,%d\nset grid\nunset key\nset lmargin 5\nset rmargin 1\n"
            "set xrange [-3:3]\nset yrange [-%d:%d]\nset xtics 2\nset ytics 4\n",
            one_row ? 1 : NMODELS, one_row ? NMODELS : nmu, one_row ? 9 : 7, one_row ? 9 : 7);
    for (int i = 0; i < NMODELS; i++)
        for (int k = 0; k < nmu; k++)
            fprintf(out,
                    "set title '%s, {/Symbol m} = %g' offset 0,-0.6\n"
                    "plot $near%d with lines lw 2.5 lc rgb '#000000', $far%d with lines lw 2.5 lc rgb '#000000', "
                    "$pnear%d with lines lw 1.2 lc rgb '%s', $pfar%d with lines lw 1.2 lc rgb '%s'\n",
                    rows[i].name, mu[k], k, k, i * nmu + k, rows[i].colour, i * nmu + k, rows[i].colour);
    fprintf(out, "unset multiplot\n");
    return hb_plot_finish(p, err);
}

/* --- the command --- */

static int run(const options *o, outcome *of, hb_error *err)
{
    char train_path[HB_PATH_SIZE], test_path[HB_PATH_SIZE], beyond_path[HB_PATH_SIZE];
    hb_dataset *test = NULL, *outside = NULL;
    hb_pool *pool = NULL;
    hb_progress progress;
    int status;

    in_folder(train_path, o, "train", ".h5");
    in_folder(test_path, o, "test", ".h5");
    in_folder(beyond_path, o, "beyond", ".h5");
    if (mkdir(o->folder, 0777) && errno != EEXIST)
        return hb_fail(err, errno, "%s: %s", o->folder, strerror(errno));
    if ((status = write_data(train_path, o->functions, TRAIN_EPISODES, low, high, 2 * o->seed + 1, err)) ||
        (status = write_data(test_path, o->functions / TRAINED_PER_TESTED, TEST_EPISODES, low, high, 2 * o->seed + 2,
                             err)) ||
        (status = write_data(beyond_path, 1, TEST_EPISODES, beyond, beyond, o->seed + 3, err)))
        return status;
    for (int i = 0; i < NMODELS; i++)
        if ((status = train(&rows[i], o, &of[i], err)))
            return status;

    int nthreads = o->threads ? o->threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (!(status = hb_dataset_read(&test, test_path, NULL, err)) &&
        !(status = hb_dataset_read(&outside, beyond_path, NULL, err)))
        status = hb_pool_new(&pool, nthreads, NULL, NULL, err);
    hb_progress_start(&progress, "measure");
    for (int i = 0; i < NMODELS && !status; i++) {
        outcome *x = &of[i];
        if (!(status = measure(x->model, test, true, pool, &x->one, &x->ten, err)) &&
            !(status = measure(x->model, test, false, pool, &x->one_without, &x->ten_without, err)))
            status = measure(x->model, outside, true, pool, &x->one_beyond, &x->ten_beyond, err);
        hb_progress_update(&progress, (i + 1.0) / NMODELS, rows[i].name);
    }
    hb_progress_end(&progress);
    hb_pool_free(pool);
    hb_dataset_free(test);
    hb_dataset_free(outside);
    if (status)
        return status;
    print_table(of, o);
    if (!o->plot)
        return 0;
    if ((status = draw(o, "vanderpol", shown_mu, NSHOWN, of, err)) ||
        (status = draw(o, "vanderpol-extrapolation", &beyond, 1, of, err)))
        return status;
    printf("figures: %s/vanderpol.svg and %s/vanderpol-extrapolation.svg, and the same as .png\n", o->folder,
           o->folder);
    return 0;
}

static const options defaults = {.folder = "vanderpol", .seconds = 120, .functions = 200, .plot = true};

static void print_help(void)
{
    printf(
        "usage: hilbert-eval vanderpol [options]\n\n"
        "Makes trajectories of the Van der Pol oscillator, trains a NODE, the paper's FE + NODE and FE + NODE + Res,\n"
        "and the shared model for the same time, prints their errors on unseen mu, and draws the paper's two "
        "figures.\n\n"
        "  --folder DIR     where everything goes [vanderpol]\n"
        "  --seconds N      of training, for each of the %d models [120]\n"
        "  --functions N    mu to train on; a fifth as many others are tested on [%d]\n"
        "  --seed N         [0]\n"
        "  --threads N      0: as many as there are processors [0]\n"
        "  --no-plot        no figures (which need gnuplot)\n",
        NMODELS, defaults.functions);
}

int hb_eval_vanderpol(int argc, char **argv)
{
    options o = defaults;
    outcome of[NMODELS] = {0};
    hb_error err = {0};
    int seconds = (int)o.seconds;
    const hb_option known[] = {
        {"folder", HB_OPTION_TEXT, &o.folder, 0, 0, 0},
        {"seconds", HB_OPTION_WHOLE, &seconds, 1, 1000000, 0},
        {"seed", HB_OPTION_COUNT, &o.seed, 0, INT64_MAX / 4, 0},
        {"threads", HB_OPTION_WHOLE, &o.threads, 0, 1024, 0},
        {"functions", HB_OPTION_WHOLE, &o.functions, 10, 1000000, 0},
        {"no-plot", HB_OPTION_CLEAR, &o.plot, 0, 0, 0},
    };

    int code = hb_eval_options(known, sizeof known / sizeof *known, argc, argv, print_help);
    if (code >= 0)
        return code;
    o.seconds = seconds;
    if (optind < argc) {
        fprintf(stderr, "hilbert-eval: vanderpol takes no '%s' (try --help)\n", argv[optind]);
        return HB_EXIT_USAGE;
    }
    int status = o.plot ? hb_plot_available(&err) : 0;
    if (!status)
        status = run(&o, of, &err);
    for (int i = 0; i < NMODELS; i++)
        hb_model_free(of[i].model);
    return status ? hb_eval_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}
