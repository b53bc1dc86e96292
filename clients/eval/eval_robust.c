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

enum { MAX_ROWS = 64, MAX_THREADS = 256, PATH = 512 };

typedef struct options {
    hb_robust_settings settings;
    const hb_robust_row *row[MAX_ROWS];
    int nrows, flights, first, mixes, threads;
    bool controller[HB_ROBUST_NCONTROLLERS];
    bool json, plot;
    const char *folder;
} options;

/* Flights of one row with one controller. */
typedef struct task {
    const hb_robust_row *row;
    hb_robust_controller controller;
    int n, begun, done;
    hb_flight_summary *flight; /* n */
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
    hb_progress progress;
    int status;
    hb_error err;
} crew;

/* what a flight costs, about: a plan takes as long as much physics */
static double work_of(const task *t)
{
    return (t->row->seconds > 0 ? t->row->seconds : 8) * (t->controller == HB_ROBUST_PID ? 1 : 5);
}

static int flights_of(const options *o, const hb_robust_row *row, hb_robust_controller controller)
{
    if (!o->controller[controller] || (controller == HB_ROBUST_PID && row->slow))
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
        t->result = hb_robust_sum_up(t->row, t->controller, t->flight, t->n);
        if (t->n > 0 && w->o->json)
            hb_robust_print_json(&t->result, stdout);
        if (t->n > 0 && w->objects)
            hb_robust_print_json(&t->result, w->objects);
        if (t->controller + 1 < HB_ROBUST_NCONTROLLERS)
            continue;
        /* where the bar is drawn, the line goes */
        const hb_robust_result of_row[] = {t[-2].result, t[-1].result, t->result};
        if (!w->o->json && w->progress.drawn && w->progress.terminal)
            hb_progress_end(&w->progress);
        if (!w->o->json)
            hb_robust_print(of_row, stdout);
        if (w->table)
            hb_robust_print(of_row, w->table);
    }
}

static void *pilot(void *context)
{
    crew *w = context;
    hb_plant *p = NULL;
    hb_error err = {0};
    int status = hb_plant_new(&p, &hb_plant_quadrotor, &err);

    pthread_mutex_lock(&w->lock);
    while (!status && !w->status) {
        while (w->next < w->ntasks && w->task[w->next].begun == w->task[w->next].n)
            w->next++;
        if (w->next == w->ntasks)
            break;
        task *t = &w->task[w->next];
        int index = t->begun++;
        pthread_mutex_unlock(&w->lock);
        status = hb_robust_fly(&w->o->settings, t->row, t->controller, w->o->first + index, p, &t->flight[index], &err);
        pthread_mutex_lock(&w->lock);
        t->done++;
        w->done += work_of(t);
        report(w);
        hb_progress_update(&w->progress, w->done / w->work, t->row->name);
    }
    if (status && !w->status) {
        w->status = status;
        w->err = err;
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
        w->work += t->n * work_of(t);
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

static int draw(const crew *w, hb_error *err)
{
    char path[PATH];
    hb_robust_result *all = calloc((size_t)w->ntasks, sizeof *all);
    if (!all)
        return hb_fail(err, ENOMEM, "out of memory");
    for (int i = 0; i < w->ntasks; i++)
        all[i] = w->task[i].result;
    snprintf(path, sizeof path, "%s/robust", w->o->folder);
    int status = hb_robust_draw_picture(all, w->o->nrows, path, err);
    free(all);
    return status;
}

static int run(const options *o, hb_error *err)
{
    crew w = {.o = o};

    if (o->folder && o->plot && hb_plot_available(err))
        return -err->code;
    if (o->folder && mkdir(o->folder, 0777) && errno != EEXIST)
        return hb_fail(err, errno, "%s: %s", o->folder, strerror(errno));
    if (o->folder &&
        (!(w.table = open_in(o->folder, "table.txt", err)) || !(w.objects = open_in(o->folder, "results.jsonl", err))))
        w.status = -err->code;
    if (w.table)
        hb_robust_print_head(w.table);
    if (!w.status)
        w.status = make_tasks(&w);
    if (!w.status)
        fly_all(&w);
    bool bad = false;
    if (w.table)
        bad = fclose(w.table) != 0;
    if (w.objects)
        bad = fclose(w.objects) != 0 || bad;
    if (w.status)
        *err = w.err.code ? w.err : *err;
    else if (bad)
        w.status = hb_fail(err, EIO, "%s: cannot be written: is the disk full?", o->folder);
    else if (o->folder && o->plot)
        w.status = draw(&w, err);
    for (int i = 0; w.task && i < w.ntasks; i++)
        free(w.task[i].flight);
    free(w.task);
    return w.status;
}

static void print_help(void)
{
    printf(
        "usage: hilbert-eval robust [options]\n\n"
        "Flies the quadrotor in many conditions with hilbertd's controller, adapting and with adaptation off, and "
        "with a\ncascade of PID controllers at 250 Hz, and says how many flights crashed, how far off the target "
        "the others settled,\nand how often replies said out-of-span. Masses, starts and weather are drawn by "
        "seed and the same for all controllers;\ntime is virtual, so that the machine's load does not matter.\n\n"
        "      --only NAME,...    these conditions (default: all)\n"
        "      --controllers NAME,...  of adapting, off and pid (default: all)\n"
        "      --flights N        of each condition and controller [20]\n"
        "      --first N          number of the first of them, to fly one again [0]\n"
        "      --seconds S        of each flight [the condition's: 8, 10 or 20]\n"
        "      --random N         flights of the condition random, each another mix [as --flights]\n"
        "      --seed N           [0]\n"
        "      --config FILE      of the daemon [the quadrotor's]\n"
        "      --model FILE       basis file [the configuration's]\n"
        "  -j, --threads N        0: as many as there are processors [0]\n"
        "      --json             one object per line: condition, controller, flights, crashed, settled_m, worst_m,\n"
        "                         rms_m, out_of_span; where a rotor fails, out_of_span_after_s and unsaid\n"
        "  -o, --output DIR       also write DIR/table.txt, DIR/results.jsonl and the picture DIR/robust.png, .svg\n"
        "      --no-plot          no picture (which needs gnuplot)\n"
        "      --trace DIR        every flight as DIR/CONDITION-CONTROLLER-N.csv\n"
        "      --list             the conditions, and what they mean\n");
}

/* NAME,... : calls take() for each; the name that it does not know is complained about. */
static bool each_name(const char *list, const char *option, options *o, bool (*take)(options *o, const char *name))
{
    char name[64];

    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (!take(o, name)) {
            fprintf(stderr, "hilbert-eval: --%s: there is no '%s' (try robust --list)\n", option, name);
            return false;
        }
        at += n;
        at += *at == ',';
    }
    return true;
}

static bool take_row(options *o, const char *name)
{
    for (int i = 0; hb_robust_row_at(i); i++)
        if (strcmp(hb_robust_row_at(i)->name, name) == 0 && o->nrows < MAX_ROWS) {
            o->row[o->nrows++] = hb_robust_row_at(i);
            return true;
        }
    return false;
}

static bool take_controller(options *o, const char *name)
{
    for (int i = 0; i < HB_ROBUST_NCONTROLLERS; i++)
        if (strcmp(hb_robust_controller_name[i], name) == 0)
            return o->controller[i] = true;
    return false;
}

static void list_rows(void)
{
    for (int i = 0; hb_robust_row_at(i); i++)
        printf("%-17s %s\n", hb_robust_row_at(i)->name, hb_robust_row_at(i)->help);
}

static int parse(int argc, char **argv, options *o)
{
    const char *only = NULL, *controllers = "adapting,off,pid";
    bool list = false;
    const hb_option known[] = {
        {"only", HB_OPTION_TEXT, &only, 0, 0, 0},
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
    if (!each_name(controllers, "controllers", o, take_controller) || (only && !each_name(only, "only", o, take_row)))
        return HB_EXIT_USAGE;
    for (int i = 0; !only && hb_robust_row_at(i); i++)
        o->row[o->nrows++] = hb_robust_row_at(i);
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
