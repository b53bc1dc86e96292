/* hilbert-eval real: flights of real vehicles, recorded by others, from raw logs to tables. Some are trained on, and
 * others, of another vehicle or another trajectory, are predicted as a daemon would. The logs are not part of hilbertd;
 * what their columns mean is in config/logs. */
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/progress.h"
#include "data/headings.h"
#include "data/import_log.h"
#include "eval/eval.h"
#include "train/online.h"
#include "train/recipe.h"
#include "train/train_once.h"

typedef struct experiment {
    const char *name, *what;
    const char *files;        /* below the folder of flights */
    const char *map;          /* in config/logs */
    const char *held[4];      /* a file with one of these in its name is not trained on */
    double train_dt, test_dt; /* seconds; 0: the map's */
} experiment;

static const experiment experiments[] = {
    {.name = "nanobench",
     .what = "split by trajectory: ovals and Lissajous figures are not trained on",
     .files = "nanobench/*.csv.gz",
     .map = "nanobench",
     .held = {"/B7_", "/B10_"},
     .train_dt = 0,
     .test_dt = 0},
    {.name = "swarm-cf50",
     .what = "a vehicle that is not trained on",
     .files = "swarm/*/*.csv.gz",
     .map = "swarm",
     .held = {"/cf50/"},
     .train_dt = 0,
     .test_dt = 0},
    {.name = "swarm-cf51",
     .what = "a vehicle that is not trained on",
     .files = "swarm/*/*.csv.gz",
     .map = "swarm",
     .held = {"/cf51/"},
     .train_dt = 0,
     .test_dt = 0},
    {.name = "swarm-cf101",
     .what = "a vehicle of twice the mass, the only one, that is not trained on",
     .files = "swarm/*/*.csv.gz",
     .map = "swarm",
     .held = {"/cf101/"},
     .train_dt = 0,
     .test_dt = 0},
    {.name = "idsia-multisine",
     .what = "a trajectory that is not trained on",
     .files = "idsia/*.csv.gz",
     .map = "idsia",
     .held = {"/multisine"},
     .train_dt = 0.04,
     .test_dt = 0.01},
    {.name = "idsia-random1",
     .what = "a trajectory that is not trained on",
     .files = "idsia/*.csv.gz",
     .map = "idsia",
     .held = {"/random1"},
     .train_dt = 0.04,
     .test_dt = 0.01},
    {.name = "idsia-random2",
     .what = "a trajectory that is not trained on",
     .files = "idsia/*.csv.gz",
     .map = "idsia",
     .held = {"/random2"},
     .train_dt = 0.04,
     .test_dt = 0.01},
    {.name = "idsia-square",
     .what = "a trajectory that is not trained on",
     .files = "idsia/*.csv.gz",
     .map = "idsia",
     .held = {"/square"},
     .train_dt = 0.04,
     .test_dt = 0.01},
};

enum { NEXPERIMENTS = sizeof experiments / sizeof *experiments, LONG_PATH = 2 * HB_PATH_SIZE };

typedef struct options {
    const char *flights, *maps, *folder, *model;
    int steps, threads, starts;
    double window, turn; /* seconds; degrees */
    bool json;
    hb_pool *pool;
} options;

static void print_help(void)
{
    printf("usage: hilbert-eval real [options] [EXPERIMENT...]\n\n"
           "Imports logs of real vehicles, trains on some of them and predicts others, in physical units. What was\n"
           "imported and trained stays in the folder and is used again.\n\n"
           "  --flights DIR    where the logs are; they are not part of hilbertd [../shared/flights]\n"
           "  --maps DIR       descriptions of the logs [config/logs]\n"
           "  --folder DIR     where data sets and models go [real]\n"
           "  --model FILE     measure this model instead of training one\n"
           "  --steps N        of each training [as hilbert-train chooses]\n"
           "  --window X       seconds of the estimator's window [the daemon's default]\n"
           "  --turn X         predict the flights turned about the vertical by so many degrees\n"
           "  --starts N       predictions for each flight at most [60]\n"
           "  --threads N      0: as many as there are processors [0]\n\n"
           "Experiments, all unless named:\n");
    for (int i = 0; i < NEXPERIMENTS; i++)
        printf("  %-16s %s\n", experiments[i].name, experiments[i].what);
}

static bool is_held(const experiment *x, const char *path)
{
    for (size_t i = 0; i < sizeof x->held / sizeof *x->held && x->held[i]; i++)
        if (strstr(path, x->held[i]))
            return true;
    return false;
}

/* Imports the files that are held out, or the others, unless that was done before. */
static int import(const options *o, const experiment *x, bool held, double dt, char path[HB_PATH_SIZE], hb_error *err)
{
    char pattern[LONG_PATH], map_path[LONG_PATH];
    glob_t found = {0};
    int n = 0, status = 0;

    snprintf(path, HB_PATH_SIZE, "%.600s/%s-%s%s.h5", o->folder, x->name, held ? "unseen" : "trained",
             dt == x->test_dt && dt != x->train_dt ? "-fine" : "");
    if (access(path, F_OK) == 0)
        return 0;
    snprintf(pattern, sizeof pattern, "%s/%s", o->flights, x->files);
    snprintf(map_path, sizeof map_path, "%s/%s.yaml", o->maps, x->map);
    if (glob(pattern, 0, NULL, &found) || found.gl_pathc == 0)
        return hb_fail(err, ENOENT,
                       "%s: there are no flights: they are recorded by others, not part of hilbertd, and nothing is "
                       "measured without them (--flights says where they are)",
                       pattern);
    const char **file = calloc(found.gl_pathc, sizeof *file);
    hb_log_result *result = calloc(found.gl_pathc, sizeof *result);
    hb_log_map *map = calloc(1, sizeof *map);
    if (!file || !result || !map)
        status = hb_fail(err, ENOMEM, "out of memory");
    for (size_t i = 0; i < found.gl_pathc && !status; i++)
        if (is_held(x, found.gl_pathv[i]) == held)
            file[n++] = found.gl_pathv[i];
    if (!status && !(status = hb_log_map_read(map, map_path, err))) {
        map->dt = dt > 0 ? dt : map->dt;
        status = hb_log_import(map, n, file, path, result, err);
    }
    free(map);
    free(result);
    free(file);
    globfree(&found);
    return status;
}

/* As hilbert-train does it by itself, with the physics of a quadrotor. */
static int train(const options *o, const experiment *x, const char *data, hb_model **ret, hb_error *err)
{
    hb_settings s;
    hb_train_once made = {0};
    char label[64];

    if (o->model)
        return hb_model_load(ret, o->model, err);
    hb_settings_default(&s);
    snprintf(s.data, sizeof s.data, "%s", data);
    snprintf(s.output, sizeof s.output, "%.600s/%s.safetensors", o->folder, x->name);
    strcpy(s.average, "nominal:quadrotor");
    if (o->steps > 0) {
        char text[24];
        snprintf(text, sizeof text, "%d", o->steps);
        hb_settings_set(&s, "steps", text, NULL);
    }
    int status = hb_recipe_apply(&s, stderr, NULL, err);
    if (status)
        return status;
    s.validate_every = s.steps;
    s.threads = o->threads;
    snprintf(label, sizeof label, "train %s", x->name);
    status = hb_train_once_run(&s, &(hb_run_options){.label = label, .verdict = true}, &made, err);
    *ret = made.model;
    return status;
}

static int measure(const options *o, const hb_model *m, const char *path, const char *title, hb_error *err)
{
    hb_online_settings s = {.estimator = hb_estimator_defaults, .starts = o->starts};
    hb_dataset *d = NULL, turned = {0};
    hb_online *online = calloc(1, sizeof *online);
    int status = online ? hb_dataset_read(&d, path, NULL, err) : hb_fail(err, ENOMEM, "out of memory");

    if (o->window > 0)
        s.estimator.window = o->window;
    if (!status)
        status = hb_headings_turned(&turned, d, NULL, 0, o->turn * M_PI / 180, err);
    if (!status && !(status = hb_online_measure(online, m, &turned, &s, o->pool, err)))
        hb_online_print(online, title, stdout);
    fflush(stdout);
    hb_headings_free_turned(&turned);
    hb_dataset_free(d);
    free(online);
    return status;
}

static int run(const options *o, const experiment *x, hb_error *err)
{
    char trained[HB_PATH_SIZE], unseen[HB_PATH_SIZE], fine[HB_PATH_SIZE], title[200], turned[40] = "";
    hb_model *m = NULL;
    int status;

    if ((status = import(o, x, false, x->train_dt, trained, err)) ||
        (status = import(o, x, true, x->train_dt, unseen, err)) ||
        (x->test_dt > 0 && (status = import(o, x, true, x->test_dt, fine, err))) ||
        (status = train(o, x, trained, &m, err)))
        return status;
    if (o->turn != 0)
        snprintf(turned, sizeof turned, ", turned by %g degrees", o->turn);
    snprintf(title, sizeof title, "%s, %s%s", x->name, x->what, turned);
    status = measure(o, m, unseen, title, err);
    if (!status && x->test_dt > 0) {
        snprintf(title, sizeof title, "%s, the same in steps of %g ms%s", x->name, 1e3 * x->test_dt, turned);
        status = measure(o, m, fine, title, err);
    }
    snprintf(title, sizeof title, "%s, flights that were trained on%s", x->name, turned);
    if (!status)
        status = measure(o, m, trained, title, err);
    hb_model_free(m);
    return status;
}

static bool is_asked(const char *name, int n, char **asked)
{
    bool any = n == 0;

    for (int i = 0; i < n; i++)
        any = any || strncmp(name, asked[i], strlen(asked[i])) == 0;
    return any;
}

int hb_eval_real(int argc, char **argv)
{
    options o = {.flights = "../shared/flights", .maps = "config/logs", .folder = "real", .starts = 60};
    const hb_option known[] = {
        {"flights", HB_OPTION_TEXT, &o.flights, 0, 0, 0},
        {"maps", HB_OPTION_TEXT, &o.maps, 0, 0, 0},
        {"folder", HB_OPTION_TEXT, &o.folder, 0, 0, 0},
        {"model", HB_OPTION_TEXT, &o.model, 0, 0, 0},
        {"steps", HB_OPTION_WHOLE, &o.steps, 1, 100000000, 0},
        {"window", HB_OPTION_NUMBER, &(hb_option_number){&o.window, 0.1, 1e4}, 0, 0, 0},
        {"turn", HB_OPTION_NUMBER, &(hb_option_number){&o.turn, -360, 360}, 0, 0, 0},
        {"starts", HB_OPTION_WHOLE, &o.starts, 1, 1000000, 0},
        {"threads", HB_OPTION_WHOLE, &o.threads, 0, 1024, 0},
    };
    hb_error err = {0};
    int code = hb_eval_options(known, sizeof known / sizeof *known, argc, argv, print_help), status = 0, asked = 0;

    if (code >= 0)
        return code;
    for (int i = 0; i < NEXPERIMENTS; i++)
        asked += is_asked(experiments[i].name, argc - optind, argv + optind);
    if (asked == 0) {
        fprintf(stderr, "hilbert-eval: there is no experiment '%s' (try --help)\n", argv[optind]);
        return HB_EXIT_USAGE;
    }
    if (mkdir(o.folder, 0777) && errno != EEXIST)
        status = hb_fail(&err, errno, "%s: %s", o.folder, strerror(errno));
    if (!status)
        status = hb_pool_new(&o.pool, o.threads ? o.threads : (int)sysconf(_SC_NPROCESSORS_ONLN), NULL, NULL, &err);
    for (int i = 0; i < NEXPERIMENTS && !status; i++)
        if (is_asked(experiments[i].name, argc - optind, argv + optind))
            status = run(&o, &experiments[i], &err);
    hb_pool_free(o.pool);
    return status ? hb_eval_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}
