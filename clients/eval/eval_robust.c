/* hilbert-eval robust: options, threads and reports around robust.c. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/plot.h"
#include "common/progress.h"
#include "eval/eval.h"
#include "eval/robust.h"

enum { MAX_THREADS = 256, PATH = 512, SETTINGS = 16384 };

typedef struct options {
    hb_robust_settings settings;
    hb_robust_own own;
    const hb_robust_row *row[HB_ROBUST_ROWS];
    int nrows, flights, first, mixes, threads;
    bool controller[HB_ROBUST_NCONTROLLERS];
    const hb_plant_type *plant; /* NULL: both */
    bool json, plot;
    const char *folder;
} options;

/* Flights of one row with one controller. */
typedef struct task {
    const hb_robust_row *row;
    hb_robust_controller controller;
    int n, begun, done;
    hb_robust_flight *flight; /* n */
    hb_robust_result result;
} task;

typedef struct crew {
    const options *o;
    pthread_mutex_t lock;
    task *task; /* nrows x HB_ROBUST_NCONTROLLERS */
    int ntasks, next, reported;
    double work, done; /* for the time left */
    FILE *table;       /* in the folder; NULL: there is none */
    FILE *objects;
    hb_robust_log *log;
    hb_progress progress;
    int status;
    hb_error err;
} crew;

/* what a flight costs, about: a plan takes as long as much physics */
static double work_of(const task *t)
{
    double seconds = t->row->seconds > 0 ? t->row->seconds : 8;

    return seconds * (hb_robust_on_board(t->controller) ? 1 : t->row->groups & HB_ROBUST_TASK ? 10 : 5);
}

static int flights_of(const options *o, const hb_robust_row *row, hb_robust_controller controller)
{
    if (!o->controller[controller] || (hb_robust_on_board(controller) && row->slow))
        return 0;
    return row->mixed ? o->mixes : o->flights;
}

/* Rows are reported in their order, as soon as they are complete. Locked. */
static void report(crew *w)
{
    for (; w->reported < w->ntasks; w->reported++) {
        task *t = &w->task[w->reported];
        if (t->done < t->n)
            return;
        const task *first = t - t->controller;
        t->result = hb_robust_sum_up(t->row, t->controller, t->flight, first->n == t->n ? first->flight : NULL, t->n);
        if (t->n > 0 && w->o->json)
            hb_robust_print_json(&t->result, stdout);
        if (t->n > 0 && w->objects)
            hb_robust_print_json(&t->result, w->objects);
        if (t->controller + 1 < HB_ROBUST_NCONTROLLERS)
            continue;
        /* where the bar is drawn, the line goes */
        hb_robust_result of_row[HB_ROBUST_NCONTROLLERS];
        for (int i = 0; i < HB_ROBUST_NCONTROLLERS; i++)
            of_row[i] = first[i].result;
        if (!w->o->json && w->progress.drawn && w->progress.terminal)
            hb_progress_end(&w->progress);
        if (!w->o->json)
            hb_robust_print(of_row, stdout);
        if (w->table)
            hb_robust_print(of_row, w->table);
    }
}

/* The next flight that is not known yet; false: there is none. Locked. */
static bool next_flight(crew *w, task **ret, int *index)
{
    while (w->next < w->ntasks) {
        task *t = &w->task[w->next];
        if (t->begun == t->n) {
            w->next++;
            continue;
        }
        *index = t->begun++;
        if (!t->flight[*index].flown) {
            *ret = t;
            return true;
        }
    }
    return false;
}

static void *pilot(void *context)
{
    crew *w = context;
    hb_plant *p = NULL;
    hb_error err = {0};
    int status = 0, index;
    task *t;

    pthread_mutex_lock(&w->lock);
    while (!w->status && next_flight(w, &t, &index)) {
        pthread_mutex_unlock(&w->lock);
        if (!p || p->type != t->row->plant) {
            hb_plant_free(p);
            p = NULL;
            status = hb_plant_new(&p, t->row->plant, &err);
        }
        if (!status)
            status =
                hb_robust_fly(&w->o->settings, t->row, t->controller, w->o->first + index, p, &t->flight[index], &err);
        pthread_mutex_lock(&w->lock);
        if (!status && w->log)
            status = hb_robust_log_add(w->log, t->row, t->controller, w->o->first + index, &t->flight[index], &err);
        if (status) {
            if (!w->status)
                w->err = err;
            w->status = status;
            break;
        }
        t->done++;
        w->done += work_of(t);
        report(w);
        hb_progress_update(&w->progress, w->done / w->work, t->row->name);
    }
    pthread_mutex_unlock(&w->lock);
    hb_plant_free(p);
    return NULL;
}

static int make_tasks(crew *w)
{
    const options *o = w->o;

    w->ntasks = o->nrows * HB_ROBUST_NCONTROLLERS;
    w->task = calloc((size_t)w->ntasks, sizeof *w->task);
    if (!w->task)
        return hb_fail(&w->err, ENOMEM, "out of memory");
    for (int i = 0; i < w->ntasks; i++) {
        task *t = &w->task[i];
        *t = (task){.row = o->row[i / HB_ROBUST_NCONTROLLERS],
                    .controller = (hb_robust_controller)(i % HB_ROBUST_NCONTROLLERS)};
        t->n = flights_of(o, t->row, t->controller);
        t->flight = calloc((size_t)t->n + 1, sizeof *t->flight);
        if (!t->flight)
            return hb_fail(&w->err, ENOMEM, "out of memory");
        for (int k = 0; k < t->n && w->log; k++)
            t->done += hb_robust_log_find(w->log, t->row, t->controller, o->first + k, &t->flight[k]);
        w->work += (t->n - t->done) * work_of(t);
    }
    return 0;
}

static void fly_all(crew *w)
{
    pthread_t thread[MAX_THREADS];
    int started = 0;

    pthread_mutex_init(&w->lock, NULL);
    hb_progress_start(&w->progress, "robust");
    if (!w->o->json)
        hb_robust_print_head(stdout);
    report(w);
    while (started < w->o->threads - 1 && pthread_create(&thread[started], NULL, pilot, w) == 0)
        started++;
    pilot(w);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    hb_progress_end(&w->progress);
    pthread_mutex_destroy(&w->lock);
}

static FILE *open_in(const char *folder, const char *name, hb_error *err)
{
    char path[PATH];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    if (!f)
        hb_fail(err, errno, "%s: %s", path, strerror(errno));
    return f;
}

/* All results, row by row; to be freed. */
static hb_robust_result *results(const crew *w)
{
    hb_robust_result *all = calloc((size_t)w->ntasks, sizeof *all);

    for (int i = 0; all && i < w->ntasks; i++)
        all[i] = w->task[i].result;
    return all;
}

static int finish(const crew *w, hb_error *err)
{
    char path[PATH];
    hb_robust_result *all = results(w);
    int status = 0;

    if (!all)
        return hb_fail(err, ENOMEM, "out of memory");
    if (!w->o->json)
        hb_robust_print_verdict(all, w->o->nrows, stdout);
    if (w->table)
        hb_robust_print_verdict(all, w->o->nrows, w->table);
    if (w->o->folder && w->o->plot) {
        snprintf(path, sizeof path, "%s/robust", w->o->folder);
        status = hb_robust_draw_picture(all, w->o->nrows, path, err);
    }
    free(all);
    return status;
}

/* What flights depend on, beside their row, controller and number. */
static int open_log(crew *w, hb_error *err)
{
    const options *o = w->o;
    char settings[SETTINGS], path[PATH];

    snprintf(settings, sizeof settings, "# seed %llu, seconds %d, config %s, model %s",
             (unsigned long long)o->settings.seed, o->settings.seconds,
             o->settings.config ? o->settings.config : "shipped", o->settings.model ? o->settings.model : "its own");
    for (int i = 0; i < o->own.n; i++)
        snprintf(settings + strlen(settings), sizeof settings - strlen(settings), ", %s %s", o->own.name[i],
                 o->own.weather[i]);
    snprintf(path, sizeof path, "%s/flights.jsonl", o->folder);
    int status = hb_robust_log_open(&w->log, path, settings, err);
    if (!status && hb_robust_log_count(w->log) > 0)
        fprintf(stderr, "%s: %d flights are there already\n", path, hb_robust_log_count(w->log));
    return status;
}

static int run(const options *o, hb_error *err)
{
    crew w = {.o = o};

    if (o->folder && o->plot && hb_plot_available(err))
        return -err->code;
    if (o->folder && mkdir(o->folder, 0777) && errno != EEXIST)
        return hb_fail(err, errno, "%s: %s", o->folder, strerror(errno));
    if (o->folder)
        w.status = open_log(&w, err);
    if (!w.status && o->folder &&
        (!(w.table = open_in(o->folder, "table.txt", err)) || !(w.objects = open_in(o->folder, "results.jsonl", err))))
        w.status = -err->code;
    if (w.table)
        hb_robust_print_head(w.table);
    if (!w.status)
        w.status = make_tasks(&w);
    if (!w.status)
        fly_all(&w);
    if (w.status)
        *err = w.err.code ? w.err : *err;
    else
        w.status = finish(&w, err);
    bool bad = false;
    if (w.table)
        bad = fclose(w.table) != 0;
    if (w.objects)
        bad = fclose(w.objects) != 0 || bad;
    if (!w.status && bad)
        w.status = hb_fail(err, EIO, "%s: cannot be written: is the disk full?", o->folder);
    for (int i = 0; w.task && i < w.ntasks; i++)
        free(w.task[i].flight);
    free(w.task);
    hb_robust_log_free(w.log);
    return w.status;
}

static void print_help(void)
{
    printf(
        "usage: hilbert-eval robust [options]\n\n"
        "Does adapting pay? Flies simulated vehicles in many conditions and tasks with hilbertd's controller and with\n"
        "what one might use instead:\n\n");
    for (int i = 0; i < HB_ROBUST_NCONTROLLERS; i++)
        printf("  %-10s %s\n", hb_robust_controller_name[i], hb_robust_controller_help[i]);
    printf(
        "\nand says how far off they were in the first second after the start and after each change, and later; the\n"
        "heading; the effort; crashes; and how often adapting won and lost, flight by flight. Vehicles, starts and\n"
        "weather are drawn by seed and the same for all controllers; time is virtual, so that the machine's load does\n"
        "not matter.\n\n"
        "      --only NAME,...    these conditions and tasks, or groups of them: conditions (rotors, hovering), tasks\n"
        "                         (both levels), quick (a few tasks, about 3 minutes with --flights 4) [all]\n"
        "      --condition TEXT   one of your own, hovering: NAME:WEATHER with a weather as of hilbert-sim fly, or a "
        "file\n"
        "                         of such lines; without --only, these alone\n"
        "      --plant NAME       only quadrotor (rotors), or only multirotor (thrust and rates)\n"
        "      --controllers NAME,...  of those above [all]\n"
        "      --flights N        of each condition and controller [20]\n"
        "      --first N          number of the first of them, to fly one again [0]\n"
        "      --seconds S        of each flight [the condition's: 6 to 20]\n"
        "      --random N         flights of the condition random, each another mix [as --flights]\n"
        "      --seed N           [0]\n"
        "      --config FILE      of the daemon [quadrotor.yaml; of tasks quadrotor-track.yaml and px4-track.yaml]\n"
        "      --model FILE       basis file [the configuration's; constants always have their own]\n"
        "  -j, --threads N        0: as many as there are processors [0]\n"
        "      --json             one object per line: plant, condition, controller, flights, crashed, medians of the\n"
        "                         measures, and in NAME_more their quartiles, worst, and the pairs with adapting\n"
        "  -o, --output DIR       also write DIR/table.txt, DIR/results.jsonl and the picture DIR/robust.png, .svg. "
        "Every\n"
        "                         flight goes to DIR/flights.jsonl at once, and is not flown again by a later run\n"
        "      --no-plot          no picture (which needs gnuplot)\n"
        "      --trace DIR        every flight as DIR/PLANT-CONDITION-CONTROLLER-N.csv\n"
        "      --list             the conditions and tasks, and what they mean\n");
}

static bool take_controllers(options *o, const char *list)
{
    char name[64];

    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ",");
        int c = 0;
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        while (c < HB_ROBUST_NCONTROLLERS && strcmp(hb_robust_controller_name[c], name) != 0)
            c++;
        if (c == HB_ROBUST_NCONTROLLERS) {
            fprintf(stderr, "hilbert-eval: --controllers: there is no '%s' (try robust --help)\n", name);
            return false;
        }
        o->controller[c] = true;
        at += n;
        at += *at == ',';
    }
    return true;
}

/* list: NULL for one's own conditions, or else all. Conditions of one's own are the quadrotor's unless told otherwise.
 */
static bool take_rows(options *o, const char *list)
{
    char all[HB_ROBUST_OWN * 66] = "", name[64];
    hb_error err = {0};

    if (hb_robust_own_settle(&o->own, o->plant ? o->plant : &hb_plant_quadrotor, &err)) {
        hb_eval_complain(HB_EXIT_USAGE, &err);
        return false;
    }
    for (int i = 0; i < o->own.n; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? "," : "", o->own.name[i]);
    if (hb_robust_select(list   ? list
                         : *all ? all
                                : "conditions,tasks",
                         o->plant, &o->own, o->row, &o->nrows, name, sizeof name)) {
        fprintf(stderr, "hilbert-eval: --only: there is no '%s' (try robust --list)\n", name);
        return false;
    }
    return true;
}

static void list_rows(void)
{
    for (int i = 0; hb_robust_row_at(i); i++)
        printf("%-10s %-17s %s\n", hb_robust_row_at(i)->plant->name, hb_robust_row_at(i)->name,
               hb_robust_row_at(i)->help);
}

static int parse(int argc, char **argv, options *o)
{
    const char *only = NULL, *controllers = NULL, *plant = NULL;
    bool list = false;
    const hb_option known[] = {
        {"only", HB_OPTION_TEXT, &only, 0, 0, 0},
        {"condition", HB_OPTION_CALL, &(hb_option_call){hb_robust_own_read, &o->own}, 0, 0, 0},
        {"plant", HB_OPTION_TEXT, &plant, 0, 0, 0},
        {"controllers", HB_OPTION_TEXT, &controllers, 0, 0, 0},
        {"flights", HB_OPTION_WHOLE, &o->flights, 1, 100000, 0},
        {"first", HB_OPTION_WHOLE, &o->first, 0, 100000, 0},
        {"seconds", HB_OPTION_WHOLE, &o->settings.seconds, 1, 10000, 0},
        {"random", HB_OPTION_WHOLE, &o->mixes, 1, 100000, 0},
        {"seed", HB_OPTION_COUNT, &o->settings.seed, 0, INT64_MAX, 0},
        {"config", HB_OPTION_TEXT, &o->settings.config, 0, 0, 0},
        {"model", HB_OPTION_TEXT, &o->settings.model, 0, 0, 0},
        {"threads", HB_OPTION_WHOLE, &o->threads, 0, MAX_THREADS, 'j'},
        {"json", HB_OPTION_FLAG, &o->json, 0, 0, 0},
        {"output", HB_OPTION_TEXT, &o->folder, 0, 0, 'o'},
        {"no-plot", HB_OPTION_CLEAR, &o->plot, 0, 0, 0},
        {"trace", HB_OPTION_TEXT, &o->settings.trace, 0, 0, 0},
        {"list", HB_OPTION_FLAG, &list, 0, 0, 0},
    };
    int code = hb_eval_options(known, sizeof known / sizeof *known, argc, argv, print_help);

    if (code >= 0)
        return code;
    if (optind < argc) {
        fprintf(stderr, "hilbert-eval: robust takes no '%s' (try --help)\n", argv[optind]);
        return HB_EXIT_USAGE;
    }
    if (list) {
        list_rows();
        return HB_EXIT_OK;
    }
    if (plant && strcmp(plant, hb_plant_quadrotor.name) != 0 && strcmp(plant, hb_plant_multirotor.name) != 0) {
        fprintf(stderr, "hilbert-eval: --plant: there is no '%s': quadrotor and multirotor are flown\n", plant);
        return HB_EXIT_USAGE;
    }
    o->plant = !plant                                         ? NULL
               : strcmp(plant, hb_plant_multirotor.name) == 0 ? &hb_plant_multirotor
                                                              : &hb_plant_quadrotor;
    for (int i = 0; i < HB_ROBUST_NCONTROLLERS; i++)
        o->controller[i] = !controllers;
    if ((controllers && !take_controllers(o, controllers)) || !take_rows(o, only))
        return HB_EXIT_USAGE;
    if (o->threads == 0)
        o->threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (o->mixes == 0)
        o->mixes = o->flights;
    return -1;
}

int hb_eval_robust(int argc, char **argv)
{
    options o = {.flights = 20, .plot = true};
    hb_error err = {0};
    int code = parse(argc, argv, &o);

    if (code >= 0)
        return code;
    return run(&o, &err) ? hb_eval_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}
