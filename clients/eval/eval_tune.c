/* hilbert-eval tune: options, the file that is searched from and the one that is written, around tune.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "config/config_edit.h"
#include "base/numeric.h"
#include "eval/eval.h"
#include "eval/tune.h"
#include "sim/gains.h"
#include "sim/loop.h"

enum { PATH = 1024, LINE = 256, SETTINGS = 1024 };

typedef struct options {
    hb_tune_settings tune;
    hb_robust_own own;
    const hb_robust_row *row[HB_ROBUST_ROWS];
    const char *what, *on, *plant_name, *output, *folder;
    const hb_plant_type *plant;
    bool force;
    char own_output[PATH], own_folder[PATH], settings[SETTINGS];
    hb_config *config; /* NULL: a controller on board */
    char *text;        /* of the file */
} options;

static void print_help(void)
{
    printf(
        "usage: hilbert-eval tune CONFIG --on CONDITION,...|robust [options]\n"
        "       hilbert-eval tune indi|l1|pid --on CONDITION,...|robust [options]\n\n"
        "Searches the weights of a configuration's cost and its horizon (or the gains of a controller on board, for\n"
        "comparisons) for what flies better in all of the conditions at once, in simulation. A trial is given up as "
        "soon\n"
        "as it crashes more often than before, loses more than %.0f %% in one condition or is behind by a sign test, "
        "and\n"
        "is not taken where headings or effort lose more than that in all. The best is flown once more with other\n"
        "vehicles. The file is written where that is better as well: with the table of both, and all else as it was.\n"
        "An interrupted search goes on where it was by the same command.\n\n"
        "      --on NAME,...      conditions and tasks (robust --list), groups of them, robust: all that a "
        "configuration\n"
        "                         can do something about; your own by name [your own]\n"
        "      --condition TEXT   one of your own: NAME:WEATHER, with a weather as of hilbert-sim fly, or a file of "
        "such\n"
        "                         lines\n"
        "      --plant NAME       quadrotor or multirotor [the one that the configuration flies]\n"
        "      --flights N        of each condition and trial [6]\n"
        "      --trials N         of the search [60]\n"
        "      --seconds S        of each flight [the condition's: 6 to 20]\n"
        "      --seed N           of vehicles, weather and trials [0]\n"
        "      --model FILE       basis file [the configuration's]\n"
        "  -j, --threads N        0: as many as there are processors [0]\n"
        "  -o, --output FILE      [NAME-tuned.yaml, beside NAME.yaml]\n"
        "      --folder DIR       where all flights are kept [NAME-tune, beside it]\n"
        "      --force            replace an output that exists\n",
        100 * (HB_TUNE_LOSS - 1));
}

static const char *name_of(const options *o, int i, char *text, size_t size)
{
    if (!o->config)
        return hb_gains_name[i];
    const hb_config_term *t = &o->config->terms.at[i];
    snprintf(text, size, "%s (%s...)", hb_cost_kind_name[t->cost.kind], t->n ? t->name[0] : "all");
    return text;
}

/* What a search starts from: weights and horizon, or gains. */
static int read_controller(options *o, hb_error *err)
{
    hb_tune_settings *s = &o->tune;
    hb_config_errors *errors = NULL;

    for (int c = 0; c < HB_ROBUST_NCONTROLLERS; c++)
        if (hb_robust_on_board((hb_robust_controller)c) && strcmp(o->what, hb_robust_controller_name[c]) == 0) {
            s->controller = (hb_robust_controller)c;
            s->nfactors = HB_NGAINS;
            for (int i = 0; i < HB_NGAINS; i++)
                s->base[i] = 1;
            return 0;
        }
    s->controller = HB_ROBUST_ADAPTING;
    s->robust.config = o->what;
    o->config = calloc(1, sizeof *o->config);
    errors = calloc(1, sizeof *errors);
    int status = o->config && errors ? 0 : hb_fail(err, ENOMEM, "out of memory");
    if (!status && !(o->text = hb_config_read_text(o->what, err)))
        status = -err->code;
    if (!status && hb_config_load(o->config, o->what, errors))
        status = hb_fail(err, EINVAL, "%s", errors->text[0]);
    free(errors);
    if (status)
        return status;
    s->nfactors = o->config->terms.n;
    for (int i = 0; i < s->nfactors; i++)
        s->base[i] = o->config->terms.at[i].cost.weight;
    s->horizon = o->config->controller.planner.horizon;
    return 0;
}

/* The plant that it can fly. */
static int find_plant(options *o, hb_error *err)
{
    static const hb_plant_type *const plant[] = {&hb_plant_quadrotor, &hb_plant_multirotor};
    const hb_loop_controller c = {
        .config = o->what, .model = o->tune.robust.model, .adapt = true, .threads = 1, .delay = -1, .lag = -1};
    int status = 0;

    for (int i = 0; i < 2; i++) {
        hb_loop *l = NULL;
        if (o->plant_name && strcmp(plant[i]->name, o->plant_name) != 0)
            continue;
        o->plant = plant[i];
        if (!o->config || !(status = hb_loop_in_process(&l, plant[i], &c, err))) {
            if (l)
                l->free(l);
            return 0;
        }
    }
    return o->plant
               ? status
               : hb_fail(err, EINVAL, "--plant: there is no '%s': quadrotor and multirotor are flown", o->plant_name);
}

static int choose_rows(options *o, hb_error *err)
{
    char all[HB_ROBUST_OWN * 66] = "", name[64];
    int status = hb_robust_own_settle(&o->own, o->plant, err);

    if (status)
        return status;
    for (int i = 0; i < o->own.n; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? "," : "", o->own.name[i]);
    if (!o->on && !*all)
        return hb_fail(err, EINVAL, "tune: say --on which conditions (try --help)");
    if (hb_robust_select(o->on ? o->on : all, o->plant, &o->own, o->row, &o->tune.nrows, name, sizeof name))
        return hb_fail(err, EINVAL, "--on: there is no '%s' (try robust --list)", name);
    if (o->tune.nrows == 0)
        return hb_fail(err, EINVAL, "--on: %s: the %s flies none of them", o->on, o->plant->name);
    o->tune.row = o->row;
    return 0;
}

/* NAME-tuned.yaml and NAME-tune beside NAME.yaml; of a controller on board here. */
static void choose_places(options *o)
{
    const char *slash = strrchr(o->what, '/'), *dot = strrchr(o->what, '.');
    int n = dot && (!slash || dot > slash) ? (int)(dot - o->what) : (int)strlen(o->what);

    snprintf(o->own_output, PATH, "%.*s-tuned.yaml", n, o->what);
    snprintf(o->own_folder, PATH, "%.*s-tune", n, o->what);
    o->output = o->output ? o->output : o->own_output;
    o->folder = o->folder ? o->folder : o->own_folder;
}

/* What flights depend on beside rows by name, seed and point. */
static void write_settings(options *o)
{
    const hb_tune_settings *s = &o->tune;
    uint64_t own = 0, config = o->text ? hb_hash(0, o->text, strlen(o->text)) : 0;

    for (int i = 0; i < o->own.n; i++)
        own = hb_hash(own, o->own.weather[i], strlen(o->own.weather[i]) + 1);
    snprintf(o->settings, sizeof o->settings, "%.300s (%016llx), %s, model %.300s, seconds %d, own conditions %016llx",
             o->what, (unsigned long long)config, o->plant->name, s->robust.model ? s->robust.model : "its own",
             s->robust.seconds, (unsigned long long)own);
    o->tune.settings = o->settings;
}

/* --- results --- */

static void print_table(const options *o, const hb_tune_result *r, const char *before_line, FILE *out)
{
    const hb_tune_settings *s = &o->tune;

    fprintf(out, "%s%-17s %-31s %-31s\n", before_line, "", "flights of the search", "other flights");
    fprintf(out, "%s%-17s", before_line, "mm, before after");
    for (int k = 0; k < 2; k++)
        fprintf(out, " %7s %7s %6s %8s", "before", "after", "ratio", "crashed");
    fprintf(out, "\n");
    for (int i = 0; i < s->nrows; i++) {
        fprintf(out, "%s%-17s", before_line, s->row[i]->name);
        for (int k = 0; k < 2; k++) {
            const hb_tune_cell *before = &r->cell[2 * k][i], *after = &r->cell[2 * k + 1][i];
            fprintf(out, " %7.4g %7.4g %6.3f %3d -> %d", 1e3 * before->error, 1e3 * after->error,
                    after->error / before->error, before->crashed, after->crashed);
        }
        fprintf(out, "\n");
    }
    fprintf(out, "%s%-17s %15s %6.3f %24s %6.3f\n", before_line, "all", "", r->ratio[0], "", r->ratio[1]);
}

static void print_point(const options *o, const hb_tune_result *r, FILE *out)
{
    const hb_tune_settings *s = &o->tune;
    char text[80];

    for (int i = 0; i < s->nfactors; i++)
        if (r->best.factor[i] != 1)
            fprintf(out, "  %-24s %.4g -> %.4g\n", name_of(o, i, text, sizeof text), s->base[i],
                    s->base[i] * r->best.factor[i]);
    if (r->best.horizon != s->horizon)
        fprintf(out, "  %-24s %d -> %d: hilbertd --check says what a plan of it takes\n", "planner.horizon", s->horizon,
                r->best.horizon);
}

static int edit(char **text, const char *defaults, const char *key, double value, hb_error *err)
{
    char number[40], *next = NULL;

    snprintf(number, sizeof number, "%.4g", value);
    int status = hb_config_edit(*text, key, number, defaults, &next, err);
    if (!status) {
        free(*text);
        *text = next;
    }
    return status;
}

/* The file with its weights and horizon, behind what was measured as a comment. */
static int write_file(options *o, const hb_tune_result *r, hb_error *err)
{
    const hb_tune_settings *s = &o->tune;
    hb_config *shipped = calloc(1, sizeof *shipped);
    char *defaults = NULL, key[40];
    size_t size;
    FILE *out = open_memstream(&defaults, &size);
    int status = shipped && out ? 0 : hb_fail(err, ENOMEM, "out of memory");

    if (!status) {
        hb_config_default(shipped);
        hb_config_print(shipped, false, out);
    }
    if (out)
        fclose(out);
    for (int i = 0; i < s->nfactors && !status; i++)
        if (r->best.factor[i] != 1) {
            snprintf(key, sizeof key, "cost.%d.weight", i);
            status = edit(&o->text, defaults, key, s->base[i] * r->best.factor[i], err);
        }
    if (!status && r->best.horizon != s->horizon)
        status = edit(&o->text, defaults, "planner.horizon", r->best.horizon, err);
    free(defaults);
    free(shipped);
    if (status)
        return status;
    if (!(out = fopen(o->output, "we")))
        return hb_fail(err, errno, "%s: %s", o->output, strerror(errno));
    fprintf(out, "# hilbert-eval tune %s --on %s: %d flights each, seed %llu; geometric means of distances\n", o->what,
            o->on ? o->on : "(its own conditions)", s->flights, (unsigned long long)s->robust.seed);
    print_table(o, r, "#   ", out);
    fputs(o->text, out);
    return fclose(out) ? hb_fail(err, EIO, "%s: cannot be written: is the disk full?", o->output) : 0;
}

static int report(options *o, const hb_tune_result *r, hb_error *err)
{
    if (r->verdict == HB_TUNE_NOTHING) {
        printf("none of %d trials was better in all: it stays as it is\n", o->tune.trials);
        return 0;
    }
    print_table(o, r, "", stdout);
    printf("\n%d of %d trials were better than all before; the best:\n", r->taken, o->tune.trials);
    print_point(o, r, stdout);
    if (r->verdict == HB_TUNE_NOT_ELSEWHERE) {
        printf("but not with other vehicles (more than %.0f %% is lost in one of the conditions, more crashed, or "
               "nothing is "
               "won):\nit stays as it is; more --flights tell more\n",
               100 * (HB_TUNE_LOSS - 1));
        return 0;
    }
    if (!o->config)
        return 0;
    int status = write_file(o, r, err);
    if (!status)
        printf("written: %s\n", o->output);
    return status;
}

/* --- options --- */

static int parse(int argc, char **argv, options *o)
{
    hb_tune_settings *s = &o->tune;
    const hb_option known[] = {
        {"on", HB_OPTION_TEXT, &o->on, 0, 0, 0},
        {"condition", HB_OPTION_CALL, &(hb_option_call){hb_robust_own_read, &o->own}, 0, 0, 0},
        {"plant", HB_OPTION_TEXT, &o->plant_name, 0, 0, 0},
        {"flights", HB_OPTION_WHOLE, &s->flights, 1, 1000, 0},
        {"trials", HB_OPTION_WHOLE, &s->trials, 1, 100000, 0},
        {"seconds", HB_OPTION_WHOLE, &s->robust.seconds, 1, 10000, 0},
        {"seed", HB_OPTION_COUNT, &s->robust.seed, 0, INT64_MAX, 0},
        {"model", HB_OPTION_TEXT, &s->robust.model, 0, 0, 0},
        {"threads", HB_OPTION_WHOLE, &s->threads, 0, 256, 'j'},
        {"output", HB_OPTION_TEXT, &o->output, 0, 0, 'o'},
        {"folder", HB_OPTION_TEXT, &o->folder, 0, 0, 0},
        {"force", HB_OPTION_FLAG, &o->force, 0, 0, 0},
    };
    int code = hb_eval_options(known, sizeof known / sizeof *known, argc, argv, print_help);

    if (code >= 0)
        return code;
    if (optind + 1 != argc) {
        fprintf(stderr, "hilbert-eval: tune wants one configuration (try --help)\n");
        return HB_EXIT_USAGE;
    }
    o->what = argv[optind];
    choose_places(o);
    if (s->threads == 0)
        s->threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return -1;
}

static int prepare(options *o, hb_error *err)
{
    int status;

    if ((status = read_controller(o, err)) || (status = find_plant(o, err)) || (status = choose_rows(o, err)))
        return status;
    if (o->config && !o->force && access(o->output, F_OK) == 0)
        return hb_fail(err, EEXIST, "%s exists: name another --output, or add --force to replace it", o->output);
    if (mkdir(o->folder, 0777) && errno != EEXIST)
        return hb_fail(err, errno, "%s: %s", o->folder, strerror(errno));
    o->tune.folder = o->folder;
    write_settings(o);
    return 0;
}

int hb_eval_tune(int argc, char **argv)
{
    options *o = calloc(1, sizeof *o);
    hb_error err = {0};
    hb_tune_result r = {0};

    if (!o)
        return HB_EXIT_FAILURE;
    o->tune.flights = 6;
    o->tune.trials = 60;
    int code = parse(argc, argv, o), status = 0;
    if (code < 0 && (status = prepare(o, &err)))
        code = hb_eval_complain(status == -EINVAL ? HB_EXIT_USAGE : HB_EXIT_FAILURE, &err);
    if (code < 0 && ((status = hb_tune(&o->tune, &r, &err)) || (status = report(o, &r, &err))))
        code = hb_eval_complain(HB_EXIT_FAILURE, &err);
    hb_tune_free(&r);
    free(o->config);
    free(o->text);
    free(o);
    return code < 0 ? HB_EXIT_OK : code;
}
