/* hilbert-eval paper: the paper's comparison on one plant, from data to tables.
 *
 *     collect -> train all rows -> train rows with other numbers of basis functions -> errors -> flights -> report
 *
 * Everything on the way is a file in a folder, so that a run that was interrupted goes on where it was. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "eval/eval.h"
#include "eval/paper_run.h"
#include "common/plot.h"
#include "train/step_seconds.h"
#include "train/train_once.h"

static volatile sig_atomic_t stop; /* set by signals, read between gradient steps */

static void ask_to_stop(int signal_number)
{
    (void)signal_number;
    stop = 1;
}

typedef struct options {
    hb_paper paper;
    const char *folder;
    const char *train, *test; /* data sets that are there; NULL: collected */
    bool json, plot, finished;
} options;

static void print_help(void)
{
    printf(
        "usage: hilbert-eval paper quadrotor|half-cheetah|ant [options]\n\n"
        "The paper's comparison: collects data with hilbert-sim, trains NODE, FE + Res, FE + NODE, FE + NODE + Res,\n"
        "Oracle and our models with the same number of gradient steps, or for the same processor time, and compares\n"
        "their errors on unseen functions over steps, examples and basis functions; for the quadrotor also over mass,\n"
        "and as the planner's model in flight. Tables go to standard output and, as text, JSON and picture, into the\n"
        "folder.\n\n"
        "  --scale NAME     how much of it [small]\n");
    hb_paper_help(stdout);
    printf(
        "  --data DIR       where everything is kept, in DIR/PLANT-SCALE; what is there is used again, and a run\n"
        "                   that was interrupted goes on [paper]\n"
        "  --cpu-seconds N  processor time of each row's training [scale medium: 3600; else by steps]\n"
        "  --rows LIST      only these: node, fe-res-ip, fe-node-ip, fe-node-res-ip, fe-res, fe-node, fe-node-res,\n"
        "                   oracle, ours, ours-physics (-ip: with inner products) [all]\n"
        "  --no-bases       numbers of basis functions are not compared\n"
        "  --finished       of these only what is trained already; nothing is trained\n"
        "  --train FILE     data set to train on, --test FILE: to test on; else they are collected\n"
        "  --seed N         of data, models and flights [0]\n"
        "  --seeds N        trainings of each row, with seeds from --seed on; the same data [1]\n"
        "  --rollouts N     per test function [the scale's: 50, medium and full 200]\n"
        "  --flight-seconds N  processor time of each row's flights: starts, then masses are left out where all take\n"
        "                   longer; 0: none are flown [as long as all take]\n"
        "  --threads N      0: as many as there are processors [0]\n"
        "  --sim PATH       hilbert-sim [beside this program, else in the search path]\n"
        "  --json           everything as JSON instead of tables\n"
        "  --no-plot        no picture (which needs gnuplot)\n\n"
        "The paper's function encoders appear twice: with coefficients as in the authors' code (inner products,\n"
        "one for each state), and by least squares. Ours are fitted with the prior of their coefficients. Errors are\n"
        "medians over functions of the mean over rollouts, and beside them the authors' figure: the median over all\n"
        "rollouts of all functions, from step 20 of each episode on. With several seeds also the median and the range\n"
        "of these medians over trainings.\n");
}

/* --- where things are --- */

/* beside this program when installed, in the folder of its own when built */
static void find_sim(char path[HB_PATH_SIZE])
{
    static const char *const near[] = {"hilbert-sim", "../sim/hilbert-sim"};
    char self[PATH_MAX] = "";
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = length > 0 ? strrchr(self, '/') : NULL;

    snprintf(path, HB_PATH_SIZE, "hilbert-sim");
    for (size_t i = 0; slash && i < sizeof near / sizeof *near; i++) {
        char beside[PATH_MAX + 32];
        snprintf(beside, sizeof beside, "%.*s/%s", (int)(slash - self), self, near[i]);
        if (access(beside, X_OK) == 0 && strlen(beside) < HB_PATH_SIZE) {
            snprintf(path, HB_PATH_SIZE, "%.1023s", beside);
            return;
        }
    }
}

static int make_folder(const options *o, hb_paper *p, hb_error *err)
{
    int length = snprintf(p->folder, sizeof p->folder, "%s/%s-%s", o->folder, p->plant->name, p->scale->name);

    if (length >= (int)sizeof p->folder)
        return hb_fail(err, ENAMETOOLONG, "%s: too long a name", o->folder);
    if (mkdir(o->folder, 0777) && errno != EEXIST)
        return hb_fail(err, errno, "%s: %s", o->folder, strerror(errno));
    if (mkdir(p->folder, 0777) && errno != EEXIST)
        return hb_fail(err, errno, "%s: %s", p->folder, strerror(errno));
    return 0;
}

/* --- training --- */

/* with `finished` without those that are not trained yet */
static void plan(const hb_paper *p, bool finished, hb_paper_results *r)
{
    const hb_paper_row *varied[] = {hb_paper_row_of_ours(), hb_paper_row_of_paper()};

    for (int k = 0; k < p->nrows; k++) {
        hb_paper_result *x = &r->row[r->nrows];
        *x = (hb_paper_result){.row = p->row[k]};
        hb_paper_settings(p, x->row, 0, 0, &x->settings);
        r->nrows += !finished || hb_train_once_done(&x->settings);
    }
    for (int k = 0; k < r->nrows; k++)
        for (int i = 1; i < p->seeds; i++) {
            hb_paper_result *x = &r->again[k][r->nagain[k]];
            *x = (hb_paper_result){.row = r->row[k].row};
            hb_paper_settings(p, x->row, 0, i, &x->settings);
            r->nagain[k] += !finished || hb_train_once_done(&x->settings);
        }
    for (int v = 0; v < 1 + p->scale->bases_of_paper && !p->no_bases; v++)
        for (int i = 0; i < HB_PAPER_MAX_BASES && p->scale->bases[i]; i++) {
            hb_paper_result *x = &r->bases[r->nbases];
            *x = (hb_paper_result){.row = varied[v]};
            hb_paper_settings(p, x->row, p->scale->bases[i], 0, &x->settings);
            r->nbases += !finished || hb_train_once_done(&x->settings);
        }
}

/* One training: a row, one of its further seeds (from 1 on), or other_bases. */
typedef struct job {
    hb_paper_result *result;
    const hb_paper_result *first; /* of a further seed: the row's first one */
    bool other_bases;
} job;

enum { MAX_JOBS = HB_PAPER_MAX_ROWS * HB_PAPER_MAX_SEEDS + 2 * HB_PAPER_MAX_BASES };

/* rows, then their further seeds one after the other, then other numbers of basis functions */
static int list_jobs(hb_paper_results *r, job list[MAX_JOBS])
{
    int n = 0;

    for (int k = 0; k < r->nrows; k++)
        list[n++] = (job){.result = &r->row[k]};
    for (int i = 0; i < HB_PAPER_MAX_SEEDS - 1; i++)
        for (int k = 0; k < r->nrows; k++)
            if (i < r->nagain[k])
                list[n++] = (job){.result = &r->again[k][i], .first = &r->row[k]};
    for (int i = 0; i < r->nbases; i++)
        list[n++] = (job){.result = &r->bases[i], .other_bases = true};
    return n;
}

/* A guess from few functions first, which is cheap whatever the batch; then a twentieth of the time with the batch that
 * comes of it. */
static int fit_into(const hb_paper *p, hb_settings *s, bool prior, double seconds, hb_error *err)
{
    enum { FEW = 2, SHORT = 4, LONG = 200 };
    double step_seconds = 0, prior_seconds = 0;
    int status = hb_step_seconds_measure(s, FEW, SHORT, &stop, &step_seconds, NULL, err);

    if (status)
        return status;
    hb_paper_fit_into(s, seconds, step_seconds, p->scale->least_steps);
    uint64_t steps = (uint64_t)fmin(LONG, fmax(SHORT, 0.05 * (double)s->steps));
    if ((status =
             hb_step_seconds_measure(s, s->functions, steps, &stop, &step_seconds, prior ? &prior_seconds : NULL, err)))
        return status;
    /* half at least is left for the steps */
    hb_paper_fit_into(s, fmax(seconds - prior_seconds, 0.5 * seconds), step_seconds, p->scale->least_steps);
    return 0;
}

/* Batch and steps that fit into the row's processor time; kept in a file with that time, so that a run can go on. The
 * learning rate falls over the steps: a training for another time is another one, from the start. */
static int settle(const hb_paper *p, hb_paper_result *x, double share, hb_error *err)
{
    hb_settings *s = &x->settings;
    char path[HB_PATH_SIZE + 8];
    unsigned long long steps = 0;
    double seconds = share * p->cpu_seconds_each, before = 0;
    int status;

    if (!(p->cpu_seconds_each > 0))
        return 0;
    snprintf(path, sizeof path, "%.1000s.batch", s->output);
    FILE *file = fopen(path, "re");
    if (file) {
        int n = fscanf(file, "%d %d %d %llu %lf", &s->functions, &s->examples, &s->queries, &steps, &before);
        fclose(file);
        s->steps = steps;
        if (n != 5)
            return hb_fail(err, EINVAL, "%s: is damaged: remove it and what was made with it", path);
        if (fabs(before - seconds) > 1e-6 * seconds)
            return hb_fail(err, EEXIST,
                           "%s: for %g s of processor time instead of %g: remove it and what was made with it, or use "
                           "another folder",
                           path, before, seconds);
        return 0;
    }
    if ((status = fit_into(p, s, x->row->ours, seconds, err)))
        return status;
    file = fopen(path, "we");
    if (!file ||
        fprintf(file, "%d %d %d %llu %.9g\n", s->functions, s->examples, s->queries, (unsigned long long)s->steps,
                seconds) < 0 ||
        fclose(file))
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    return 0;
}

static int train(const hb_paper *p, hb_paper_results *r, const hb_dataset *d, hb_error *err)
{
    job list[MAX_JOBS];
    int njobs = list_jobs(r, list), status;
    /* for the time left of all trainings: work ahead, work done in this run, and how long it took */
    double left = 0, done = 0, seconds = 0;

    for (int i = 0; i < njobs; i++) {
        hb_settings *s = &list[i].result->settings;
        if (list[i].first) {
            /* as many steps as with the first seed */
            const hb_settings *first = &list[i].first->settings;
            s->functions = first->functions;
            s->examples = first->examples;
            s->queries = first->queries;
            s->steps = first->steps;
        } else if ((status = settle(p, list[i].result, list[i].other_bases ? 0.1 : 1, err))) {
            return status;
        }
    }
    for (int i = 0; i < njobs; i++)
        if (!hb_train_once_done(&list[i].result->settings))
            left += hb_paper_work(&list[i].result->settings, d->header.nx, d->header.nu);
    for (int i = 0; i < njobs; i++) {
        hb_paper_result *x = list[i].result;
        double work = hb_paper_work(&x->settings, d->header.nx, d->header.nu);
        bool fresh = !hb_train_once_done(&x->settings);
        char label[80], bases[20] = "";
        hb_train_once once;
        if (list[i].other_bases)
            snprintf(bases, sizeof bases, ", %d bases", x->settings.nb);
        else if (list[i].first)
            snprintf(bases, sizeof bases, ", seed %d", (int)x->settings.seed);
        snprintf(label, sizeof label, "[%d/%d] %s%s", i + 1, njobs, x->row->name, bases);
        if (fresh && done > 0)
            fprintf(stderr, "%s: about %.0f minutes of training left in all\n", label,
                    ceil(left / done * seconds / 60));
        else if (fresh)
            fprintf(stderr, "%s\n", label);
        if ((status = hb_train_once_run(&x->settings,
                                        &(hb_run_options){.stop = &stop, .label = label, .no_prior = !x->row->ours},
                                        &once, err)))
            return status;
        if (!once.model)
            return hb_fail(err, EINTR, "stopped; the same command continues from here");
        x->model = once.model;
        x->seconds = once.seconds;
        x->cpu_seconds = once.cpu_seconds;
        if (fresh) {
            left -= work;
            done += work;
            seconds += once.seconds;
        }
    }
    return 0;
}

/* --- measuring --- */

static int measure(const hb_paper *p, hb_paper_results *r, const hb_dataset *test, hb_error *err)
{
    static const int counts[] = {5, 10, 20, 50, 100, 200, 500, 1000};
    hb_prediction_settings s = {
        .examples = p->plant->examples, .rollouts = p->rollouts, .steps = p->scale->rollout_steps, .seed = p->seed};
    job list[MAX_JOBS];
    int njobs = list_jobs(r, list);
    hb_pool *pool = NULL;
    int status = hb_pool_new(&pool, p->threads ? p->threads : (int)sysconf(_SC_NPROCESSORS_ONLN), NULL, NULL, err);

    for (int i = 0; !status && i < njobs; i++) {
        hb_paper_result *x = list[i].result;
        s.prior = x->row->ours && x->model->has_prior;
        hb_prediction_settings most = s;
        most.examples = 2000;
        status = hb_error_summary_measure(&x->errors, x->model, test, &s, HB_PAPER_LATE, NULL, 0, pool, err);
        if (status || i >= r->nrows)
            continue;
        /* numbers of examples beyond the paper's too */
        status = hb_error_summary_over_examples(&x->errors, x->model, test, &most, counts,
                                                sizeof counts / sizeof *counts, pool, err);
    }
    hb_pool_free(pool);
    return status;
}

static int fly(const hb_paper *p, hb_paper_results *r, hb_error *err)
{
    int status = 0;

    for (int k = 0; !status && p->plant->flies && k < r->nrows; k++)
        if (r->row[k].row->flown) {
            fprintf(stderr, "flights of %s\n", r->row[k].row->name);
            status = stop ? hb_fail(err, EINTR, "stopped; the same command continues from here")
                          : hb_paper_fly(p, &r->row[k], err);
        }
    return status;
}

/* --- reporting --- */

static int report(const options *o, const hb_paper_results *r, const hb_dataset *data, const hb_dataset *test,
                  hb_error *err)
{
    const hb_paper *p = &o->paper;
    const size_t style = JSON_INDENT(2) | JSON_REAL_PRECISION(6);
    char text[HB_PATH_SIZE], json[HB_PATH_SIZE], picture[HB_PATH_SIZE];
    json_t *all = hb_paper_json(p, r, data, test);

    hb_paper_path(p, "tables", ".txt", text);
    hb_paper_path(p, "tables", ".json", json);
    hb_paper_path(p, "curves", "", picture);
    FILE *out = fopen(text, "we");
    if (out)
        hb_paper_print(p, r, data, test, out);
    bool bad = !out || fclose(out) || json_dump_file(all, json, style);
    if (!bad && o->json) {
        json_dumpf(all, stdout, style);
        printf("\n");
    } else if (!bad) {
        hb_paper_print(p, r, data, test, stdout);
    }
    json_decref(all);
    if (bad)
        return hb_fail(err, EIO, "%s and %s: cannot be written: %s", text, json, strerror(errno));
    return o->plot ? hb_paper_draw(p, r, test, picture, err) : 0;
}

static int run(options *o, hb_paper_results *r, hb_error *err)
{
    hb_paper *p = &o->paper;
    hb_dataset *data = NULL, *test = NULL;
    int status;

    if ((o->plot && (status = hb_plot_available(err))) || (status = make_folder(o, p, err)))
        return status;
    hb_paper_path(p, "train", ".h5", p->train);
    hb_paper_path(p, "test", ".h5", p->test);
    if (o->train)
        snprintf(p->train, sizeof p->train, "%s", o->train);
    if (o->test)
        snprintf(p->test, sizeof p->test, "%s", o->test);
    plan(p, o->finished, r);
    if (!r->nrows)
        return hb_fail(err, ENOENT, "%s: no row is trained yet: leave --finished out", p->folder);
    status = o->train ? hb_dataset_read_many(&data, p->train, NULL, err)
                      : hb_paper_collect(p, "train", p->scale->train_functions, 1, &data, err);
    if (!status)
        status = o->test ? hb_dataset_read_many(&test, p->test, NULL, err)
                         : hb_paper_collect(p, "test", p->scale->test_functions, 2, &test, err);
    if (!status && !(status = train(p, r, data, err)) && !(status = measure(p, r, test, err)) &&
        !(status = fly(p, r, err)))
        status = report(o, r, data, test, err);
    hb_dataset_free(data);
    hb_dataset_free(test);
    return status;
}

/* what was asked for, as it was typed */
static void keep_command(hb_paper *p, int argc, char **argv)
{
    size_t n = (size_t)snprintf(p->command, sizeof p->command, "hilbert-eval paper");

    for (int i = 1; i < argc && n < sizeof p->command; i++)
        n += (size_t)snprintf(p->command + n, sizeof p->command - n, strpbrk(argv[i], " '\"$&*;") ? " '%s'" : " %s",
                              argv[i]);
}

static int parse(int argc, char **argv, options *o)
{
    hb_paper *p = &o->paper;
    const char *scale = "small", *sim = NULL, *rows = NULL;
    int seconds = 0;
    hb_error err = {0};
    const hb_option known[] = {
        {"scale", HB_OPTION_TEXT, &scale, 0, 0, 0},
        {"data", HB_OPTION_TEXT, &o->folder, 0, 0, 0},
        {"cpu-seconds", HB_OPTION_WHOLE, &seconds, 1, 10000000, 0},
        {"rows", HB_OPTION_TEXT, &rows, 0, 0, 0},
        {"no-bases", HB_OPTION_FLAG, &p->no_bases, 0, 0, 0},
        {"finished", HB_OPTION_FLAG, &o->finished, 0, 0, 0},
        {"train", HB_OPTION_TEXT, &o->train, 0, 0, 0},
        {"test", HB_OPTION_TEXT, &o->test, 0, 0, 0},
        {"seed", HB_OPTION_COUNT, &p->seed, 0, 100000000, 0},
        {"seeds", HB_OPTION_WHOLE, &p->seeds, 1, HB_PAPER_MAX_SEEDS, 0},
        {"rollouts", HB_OPTION_WHOLE, &p->rollouts, 1, 1000000, 0},
        {"flight-seconds", HB_OPTION_WHOLE, &p->flight_seconds, 0, 10000000, 0},
        {"threads", HB_OPTION_WHOLE, &p->threads, 0, 256, 0},
        {"sim", HB_OPTION_TEXT, &sim, 0, 0, 0},
        {"json", HB_OPTION_FLAG, &o->json, 0, 0, 0},
        {"no-plot", HB_OPTION_CLEAR, &o->plot, 0, 0, 0},
    };

    *o = (options){.folder = "paper", .plot = true, .paper = {.seeds = 1, .flight_seconds = -1}};
    keep_command(p, argc, argv);
    int code = hb_eval_options(known, sizeof known / sizeof *known, argc, argv, print_help);
    if (code >= 0)
        return code;
    find_sim(p->sim);
    if (sim)
        snprintf(p->sim, sizeof p->sim, "%s", sim);
    if (!(p->scale = hb_paper_scale_find(scale))) {
        fprintf(stderr, "hilbert-eval: --scale: '%s' is not small, medium, full or tiny\n", scale);
        return HB_EXIT_USAGE;
    }
    if (optind + 1 != argc || !(p->plant = hb_paper_plant_find(argv[optind]))) {
        fprintf(stderr, "hilbert-eval: paper wants one plant: quadrotor, half-cheetah or ant (try --help)\n");
        return HB_EXIT_USAGE;
    }
    p->rollouts = p->rollouts ? p->rollouts : p->scale->rollouts;
    p->cpu_seconds_each = seconds ? seconds : p->scale->cpu_seconds_each;
    if (hb_paper_choose_rows(p, rows, &err))
        return hb_eval_complain(HB_EXIT_USAGE, &err);
    return -1;
}

int hb_eval_paper(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = ask_to_stop};
    options o;
    hb_error err = {0};
    int code = parse(argc, argv, &o);
    if (code >= 0)
        return code;

    code = HB_EXIT_OK;
    hb_paper_results *r = calloc(1, sizeof *r);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (!r) {
        hb_fail(&err, ENOMEM, "out of memory");
        return hb_eval_complain(HB_EXIT_FAILURE, &err);
    }
    if (run(&o, r, &err))
        code = hb_eval_complain(HB_EXIT_FAILURE, &err);
    job list[MAX_JOBS];
    for (int i = list_jobs(r, list); i-- > 0;) {
        hb_error_summary_free(&list[i].result->errors);
        hb_model_free(list[i].result->model);
    }
    free(r);
    return code;
}
