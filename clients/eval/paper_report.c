/* A comparison as text, JSON and picture. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/statistics.h"
#include "common/json.h"
#include "eval/paper_run.h"
#include "common/plot.h"

static const int shown[] = {1, 3, HB_PAPER_LATE, 30};

enum { NSHOWN = sizeof shown / sizeof *shown };

/* --- text --- */

static void print_errors(const hb_paper_results *r, FILE *out)
{
    fprintf(out, "%-31s %10s %7s %7s %7s", "", "parameters", "steps", "wall s", "CPU s");
    for (int i = 0; i < NSHOWN && shown[i] <= r->row[0].errors.steps; i++)
        fprintf(out, "  %-26d", shown[i]);
    fprintf(out, "\n");
    for (int k = 0; k < r->nrows; k++) {
        const hb_paper_result *x = &r->row[k];
        for (int without = 0; without <= (x->model->nb > 0); without++) {
            const hb_curve *c = without ? &x->errors.without : &x->errors.adapted;
            if (without)
                fprintf(out, "%-31s %10s %7s %7s %7s", "  with c = 0", "", "", "", "");
            else
                fprintf(out, "%-31s %10zu %7llu %7.0f %7.0f", x->row->name, x->model->nparameters,
                        (unsigned long long)x->settings.steps, x->seconds, x->cpu_seconds);
            for (int i = 0; i < NSHOWN && shown[i] <= x->errors.steps; i++)
                fprintf(out, "  %8.2e [%7.1e %7.1e]", c->median[shown[i] - 1], c->lower[shown[i] - 1],
                        c->upper[shown[i] - 1]);
            fprintf(out, "\n");
        }
    }
}

/* the same in the metric of the authors */
static void print_pooled(const hb_paper_results *r, FILE *out)
{
    fprintf(
        out,
        "\nthe authors' figure: median [quartiles] over all rollouts of all functions, from step %d of each episode "
        "on\n%-31s",
        HB_ERROR_FIRST, "");
    for (int i = 0; i < NSHOWN && shown[i] <= r->row[0].errors.steps; i++)
        fprintf(out, "  %-26d", shown[i]);
    fprintf(out, "\n");
    for (int k = 0; k < r->nrows; k++) {
        const hb_curve *c = &r->row[k].errors.pooled;
        fprintf(out, "%-31s", r->row[k].row->name);
        for (int i = 0; i < NSHOWN && shown[i] <= r->row[k].errors.steps; i++)
            fprintf(out, "  %8.2e [%7.1e %7.1e]", c->median[shown[i] - 1], c->lower[shown[i] - 1],
                    c->upper[shown[i] - 1]);
        fprintf(out, "\n");
    }
}

/* --- several seeds --- */

typedef enum { ADAPTED, WITHOUT, POOLED } view;

/* of a row's trainings, the median over functions after so many steps: lowest, median and highest */
static void over_seeds(const hb_paper_results *r, int k, view v, int step, double ret[3])
{
    double value[HB_PAPER_MAX_SEEDS];

    for (int i = 0; i <= r->nagain[k]; i++) {
        const hb_error_summary *e = i ? &r->again[k][i - 1].errors : &r->row[k].errors;
        value[i] = (v == WITHOUT ? &e->without : v == POOLED ? &e->pooled : &e->adapted)->median[step - 1];
    }
    for (int i = 0; i < 3; i++)
        ret[i] = hb_quantile(value, r->nagain[k] + 1, 0.5 * i);
}

static void print_seeds_of(const hb_paper_results *r, int k, view v, const char *name, FILE *out)
{
    double value[3];

    fprintf(out, "%-*s", 31 - (v == ADAPTED ? 4 : 0), name);
    for (int i = 0; i < NSHOWN && shown[i] <= r->row[0].errors.steps; i++) {
        over_seeds(r, k, v, shown[i], value);
        fprintf(out, "  %8.2e [%7.1e %7.1e]", value[1], value[0], value[2]);
    }
    fprintf(out, "\n");
}

static void print_seeds(const hb_paper_results *r, FILE *out)
{
    int most = 0;

    for (int k = 0; k < r->nrows; k++)
        most = r->nagain[k] > most ? r->nagain[k] : most;
    if (most)
        fprintf(out,
                "\nover trainings with seeds of their own: median [lowest highest] of the medians over functions\n");
    for (int k = 0; k < r->nrows && most; k++) {
        fprintf(out, "%d x ", r->nagain[k] + 1);
        print_seeds_of(r, k, ADAPTED, r->row[k].row->name, out);
        if (r->row[k].model->nb > 0)
            print_seeds_of(r, k, WITHOUT, "  with c = 0", out);
        print_seeds_of(r, k, POOLED, "  the authors' figure", out);
    }
}

static double late_error(const hb_paper_results *r, int k)
{
    double value[3];

    over_seeds(r, k, ADAPTED, HB_PAPER_LATE, value);
    return value[1];
}

/* ours against the best of the others, and against the one that is told the hidden parameters */
static void print_verdict(const hb_paper_results *r, FILE *out)
{
    int best = -1, oracle = -1;

    for (int k = 0; k < r->nrows; k++) {
        bool told = r->row[k].row->kind == HB_KIND_ORACLE;
        oracle = told ? k : oracle;
        if (!told && !r->row[k].row->ours && (best < 0 || late_error(r, k) < late_error(r, best)))
            best = k;
    }
    for (int k = 0; k < r->nrows; k++) {
        if (!r->row[k].row->ours)
            continue;
        if (best >= 0)
            fprintf(out, "after %d steps %s: %.3f of the best other row, %s\n", HB_PAPER_LATE, r->row[k].row->name,
                    late_error(r, k) / late_error(r, best), r->row[best].row->name);
        if (oracle >= 0)
            fprintf(out, "after %d steps %s: %.3f of Oracle\n", HB_PAPER_LATE, r->row[k].row->name,
                    late_error(r, k) / late_error(r, oracle));
    }
}

/* index of the hidden parameter that errors are shown against, or -1 */
static int find_across(const hb_paper *p, const hb_dataset *d)
{
    for (int h = 0; p->plant->across && h < d->header.nhidden; h++)
        if (strcmp(d->header.hidden_name[h], p->plant->across) == 0)
            return h;
    return -1;
}

static void print_across(const hb_paper *p, const hb_paper_results *r, const hb_dataset *test, FILE *out)
{
    int h = find_across(p, test);
    if (h < 0)
        return;
    fprintf(out, "\nerror after %d steps over %s\n%-31s", HB_PAPER_LATE, p->plant->across, "");
    const int n = r->row[0].errors.nbins;
    for (int b = 0; b < n; b++) {
        const hb_error_bin *x = &r->row[0].errors.bin[h * n + b];
        char range[40];
        snprintf(range, sizeof range, "%.4g..%.4g", x->low, x->high);
        fprintf(out, "  %16s", range);
    }
    fprintf(out, "\n");
    for (int k = 0; k < r->nrows; k++) {
        fprintf(out, "%-31s", r->row[k].row->name);
        for (int b = 0; b < n; b++)
            fprintf(out, "  %16.2e", r->row[k].errors.bin[h * n + b].late);
        fprintf(out, "\n");
    }
}

static void print_examples(const hb_paper_results *r, FILE *out)
{
    const hb_error_summary *any = NULL;

    for (int k = 0; k < r->nrows && !any; k++)
        any = r->row[k].errors.ncounts ? &r->row[k].errors : NULL;
    fprintf(out, "\nerror after %d steps over the number of examples\n%-31s", HB_PAPER_LATE, "");
    for (int i = 0; any && i < any->ncounts; i++)
        fprintf(out, "  %8d", any->count[i].examples);
    fprintf(out, "\n");
    for (int k = 0; k < r->nrows; k++) {
        const hb_error_summary *e = &r->row[k].errors;
        if (!e->ncounts)
            continue;
        fprintf(out, "%-31s", r->row[k].row->name);
        for (int i = 0; i < e->ncounts; i++)
            fprintf(out, "  %8.2e", e->count[i].late);
        fprintf(out, "\n");
    }
}

static void print_bases(const hb_paper_results *r, FILE *out)
{
    if (!r->nbases)
        return;
    fprintf(out, "\nerror after %d steps over the number of basis functions\n", HB_PAPER_LATE);
    fprintf(out, "%-31s  %8s  %8s  %10s  %7s  %7s\n", "", "bases", "error", "with c = 0", "steps", "CPU s");
    for (int k = 0; k < r->nbases; k++) {
        const hb_paper_result *x = &r->bases[k];
        fprintf(out, "%-31s  %8d  %8.2e  %10.2e  %7llu  %7.0f\n", x->row->name, x->model->nb,
                x->errors.adapted.median[HB_PAPER_LATE - 1], x->errors.without.median[HB_PAPER_LATE - 1],
                (unsigned long long)x->settings.steps, x->cpu_seconds);
    }
}

static void print_flights(const hb_paper *p, const hb_paper_results *r, FILE *out)
{
    char some[80] = "", ours[40] = "";

    if (p->flight_seconds > 0)
        snprintf(some, sizeof some, ", or as many as take %d s of processor time", p->flight_seconds);
    if (p->scale->our_iterations)
        snprintf(ours, sizeof ours, " (ours: %d)", p->scale->our_iterations);
    fprintf(out,
            "\nplanner: %d masses x %d starts%s, %d steps, one configuration, %d iterations a plan at most%s,\n"
            "coefficients from %d transitions before the flight and from all of its own; medians [quartiles] without "
            "crashes\n",
            p->scale->masses, p->scale->starts, some, p->scale->flight_steps, p->scale->iterations, ours,
            p->scale->flight_examples);
    fprintf(out, "%-31s  %7s  %7s  %-26s  %-26s  %8s\n", "", "flights", "crashed", "position error, m", "slew",
            "ms/plan");
    for (int k = 0; k < r->nrows; k++) {
        const hb_paper_flights *f = &r->row[k].flights;
        if (!f->n)
            fprintf(out, "%-31s  not flown%s\n", r->row[k].row->name,
                    r->row[k].row->kind == HB_KIND_ORACLE ? ": a planner does not know the hidden parameters"
                                                          : ": not in the paper's comparison");
        else if (f->crashes == f->n)
            fprintf(out, "%-31s  %7d  %7d  %-26s  %-26s  %8.1f\n", r->row[k].row->name, f->n, f->crashes, "-", "-",
                    1e3 * f->planning);
        else
            fprintf(out, "%-31s  %7d  %7d  %8.2e [%7.1e %7.1e]  %8.2e [%7.1e %7.1e]  %8.1f\n", r->row[k].row->name,
                    f->n, f->crashes, f->distance[1], f->distance[0], f->distance[2], f->slew[1], f->slew[0],
                    f->slew[2], 1e3 * f->planning);
    }
}

void hb_paper_print(const hb_paper *p, const hb_paper_results *r, const hb_dataset *train, const hb_dataset *test,
                    FILE *out)
{
    const hb_paper_scale *s = p->scale;

    fprintf(out, "%s, scale %s: %s\n", p->plant->name, s->name, p->command);
    hb_paper_wrap(out, s->help, 0, 110);
    if (p->cpu_seconds_each > 0)
        fprintf(out, "steps chosen for %g seconds of processor time for each row; what they took is in the table\n",
                p->cpu_seconds_each);
    if (strncmp(p->train, p->folder, strlen(p->folder)) != 0)
        fprintf(out, "trained on %s instead of the scale's data: %d functions, %zu transitions\n",
                strrchr(p->train, '/') ? strrchr(p->train, '/') + 1 : p->train, train->nfunctions,
                (size_t)train->ntransitions);
    fprintf(out, "\n");
    fprintf(out,
            "error after so many steps: median [quartiles] over %d unseen functions, %d examples, %d rollouts each\n",
            test->nfunctions, p->plant->examples, p->rollouts);
    print_errors(r, out);
    print_seeds(r, out);
    print_verdict(r, out);
    print_pooled(r, out);
    print_across(p, r, test, out);
    print_examples(r, out);
    print_bases(r, out);
    if (p->plant->flies && p->flight_seconds)
        print_flights(p, r, out);
}

/* --- JSON --- */

static json_t *machine_json(void)
{
    struct utsname name = {0};
    char text[256] = "", model[256] = "";
    FILE *in = fopen("/proc/cpuinfo", "re");

    while (in && fgets(text, sizeof text, in) && !*model)
        if (strncmp(text, "model name", 10) == 0 && strchr(text, ':'))
            snprintf(model, sizeof model, "%.*s", (int)strcspn(strchr(text, ':') + 2, "\n"), strchr(text, ':') + 2);
    if (in)
        fclose(in);
    uname(&name);
    return json_pack("{s:s, s:s, s:s, s:I}", "processor", *model ? model : name.machine, "system", name.sysname,
                     "release", name.release, "processors", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN));
}

static json_t *flights_json(const hb_paper_flights *f)
{
    return json_pack("{s:i, s:i, s:o, s:o, s:o}", "flights", f->n, "crashes", f->crashes, "position_error_quartiles_m",
                     hb_json_numbers(f->distance, HB_PAPER_QUARTILES), "slew_quartiles",
                     hb_json_numbers(f->slew, HB_PAPER_QUARTILES), "planning_ms", hb_json_number(1e3 * f->planning));
}

static json_t *result_json(const hb_paper *p, const hb_paper_result *x, const hb_dataset *test)
{
    int h = find_across(p, test);
    json_t *o =
        json_pack("{s:s, s:i, s:I, s:f, s:i, s:i, s:i, s:i, s:I, s:o, s:o}", "row", x->row->name, "nb", x->model->nb,
                  "parameters", (json_int_t)x->model->nparameters, "learning_rate", x->settings.learning_rate,
                  "functions_a_step", x->settings.functions, "examples", x->settings.examples, "queries",
                  x->settings.queries, "rollout", x->settings.rollout, "steps", (json_int_t)x->settings.steps,
                  "seconds", hb_json_number(x->seconds), "cpu_seconds", hb_json_number(x->cpu_seconds));

    json_object_set_new(o, "seed", json_integer((json_int_t)x->settings.seed));
    json_object_update_new(o, hb_error_summary_json(&x->errors, test));
    if (h >= 0) {
        json_t *points = json_array();
        for (int f = 0; f < test->nfunctions; f++)
            json_array_append_new(points,
                                  json_pack("{s:o, s:o}", p->plant->across, hb_json_number(test->function[f].hidden[h]),
                                            "error", hb_json_number(x->errors.function[f])));
        json_object_set_new(o, "by_function", points);
    }
    if (x->flights.n)
        json_object_set_new(o, "flights", flights_json(&x->flights));
    return o;
}

json_t *hb_paper_json(const hb_paper *p, const hb_paper_results *r, const hb_dataset *train, const hb_dataset *test)
{
    const hb_paper_scale *s = p->scale;
    time_t now = time(NULL);
    struct tm utc;
    char date[32] = "";
    json_t *rows = json_array(), *bases = json_array();

    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    for (int k = 0; k < r->nrows; k++) {
        json_t *row = result_json(p, &r->row[k], test);
        for (int i = 0; i < r->nagain[k]; i++) {
            if (i == 0)
                json_object_set_new(row, "again", json_array());
            json_array_append_new(json_object_get(row, "again"), result_json(p, &r->again[k][i], test));
        }
        json_array_append_new(rows, row);
    }
    for (int k = 0; k < r->nbases; k++) {
        const hb_paper_result *x = &r->bases[k];
        json_array_append_new(
            bases, json_pack("{s:s, s:i, s:I, s:o, s:o, s:o}", "row", x->row->name, "nb", x->model->nb, "steps",
                             (json_int_t)x->settings.steps, "cpu_seconds", hb_json_number(x->cpu_seconds), "error",
                             hb_json_number(x->errors.adapted.median[HB_PAPER_LATE - 1]), "without_coefficients",
                             hb_json_number(x->errors.without.median[HB_PAPER_LATE - 1])));
    }
    return json_pack("{s:s, s:s, s:s, s:f, s:s, s:s, s:o, s:I, s:i, s:I, s:i, s:i, s:i, s:o, s:o, s:s}", "plant",
                     p->plant->name, "scale", s->name, "what", s->help, "cpu_seconds_a_row", p->cpu_seconds_each,
                     "version", HB_VERSION, "date", date, "machine", machine_json(), "seed", (json_int_t)p->seed,
                     "train_functions", train->nfunctions, "train_transitions", (json_int_t)train->ntransitions,
                     "test_functions", test->nfunctions, "examples", p->plant->examples, "last_step", HB_PAPER_LATE,
                     "rows", rows, "bases", bases, "command", p->command);
}

/* --- picture --- */

static void write_blocks(FILE *out, const hb_paper_results *r, const hb_dataset *test, int h)
{
    int flown = 0;

    for (int k = 0; k < r->nrows; k++) {
        const hb_paper_result *x = &r->row[k];
        fprintf(out, "$curve%d << EOD\n", k);
        for (int i = 0; i < x->errors.steps; i++)
            fprintf(out, "%d %g %g %g\n", i + 1, x->errors.adapted.lower[i], x->errors.adapted.median[i],
                    x->errors.adapted.upper[i]);
        fprintf(out, "EOD\n$counts%d << EOD\nNaN NaN\n", k);
        for (int i = 0; i < x->errors.ncounts; i++)
            fprintf(out, "%d %g\n", x->errors.count[i].examples, x->errors.count[i].late);
        fprintf(out, "EOD\n$across%d << EOD\nNaN NaN\n", k);
        for (int f = 0; h >= 0 && f < test->nfunctions; f++)
            fprintf(out, "%g %g\n", test->function[f].hidden[h], x->errors.function[f]);
        fprintf(out, "EOD\n$bases%d << EOD\nNaN NaN\n", k);
        for (int i = 0; i < r->nbases; i++)
            if (r->bases[i].row == x->row)
                fprintf(out, "%d %g\n", r->bases[i].model->nb, r->bases[i].errors.adapted.median[HB_PAPER_LATE - 1]);
        fprintf(out, "EOD\n$flights%d << EOD\nNaN NaN NaN NaN NaN NaN NaN\n", k);
        if (x->flights.n)
            fprintf(out, "%d %g %g %g %g %g %g\n", flown++, x->flights.distance[0], x->flights.distance[1],
                    x->flights.distance[2], x->flights.slew[0], x->flights.slew[1], x->flights.slew[2]);
        fprintf(out, "EOD\n");
    }
}

/* one panel: a plot command whose parts differ in the block's number and the colour */
static void panel(FILE *out, const hb_paper_results *r, const char *block, const char *with, bool titles)
{
    fprintf(out, "plot ");
    for (int k = 0; k < r->nrows; k++)
        fprintf(out, "$%s%d %s lc rgb '%s' %s%s%s, ", block, k, with, r->row[k].row->colour, titles ? "title '" : "",
                titles ? r->row[k].row->name : "notitle", titles ? "'" : "");
    fprintf(out, "NaN notitle\n");
}

/* is there a flight to draw: not where all crashed */
static bool flew(const hb_paper_results *r)
{
    bool found = false;

    for (int k = 0; k < r->nrows; k++)
        found |= r->row[k].flights.n > r->row[k].flights.crashes;
    return found;
}

int hb_paper_draw(const hb_paper *p, const hb_paper_results *r, const hb_dataset *test, const char *name, hb_error *err)
{
    int h = find_across(p, test), panels = 2 + (r->nbases > 0) + (h >= 0) + (flew(r) ? 2 : 0);
    int columns = panels > 3 ? 3 : panels, lines = (panels + columns - 1) / columns;
    hb_plot *plot = NULL;
    int status = hb_plot_new(&plot, name, 400 * columns, 380 * lines, err);
    if (status)
        return status;

    FILE *out = hb_plot_script(plot);
    write_blocks(out, r, test, h);
    fprintf(out,
            "set multiplot layout %d,%d\nset logscale y\nset format y '10^{%%T}'\nset grid\n"
            "set key bottom right samplen 1.5\nset style fill transparent solid 0.12 noborder\n"
            "set xlabel 'steps'\nset ylabel 'error'\nplot ",
            lines, columns);
    for (int k = 0; k < r->nrows; k++)
        fprintf(out,
                "$curve%d using 1:2:4 with filledcurves lc rgb '%s' notitle, $curve%d using 1:3 with lines lw 2 lc rgb "
                "'%s' title '%s', ",
                k, r->row[k].row->colour, k, r->row[k].row->colour, r->row[k].row->name);
    fprintf(out, "NaN notitle\nunset key\nset ylabel 'error after %d steps'\nset logscale x\nset xlabel 'examples'\n",
            HB_PAPER_LATE);
    panel(out, r, "counts", "using 1:2 with linespoints pt 7 ps 0.5", false);
    if (r->nbases) {
        fprintf(out, "set xlabel 'basis functions'\n");
        panel(out, r, "bases", "using 1:2 with linespoints pt 7 ps 0.5", false);
    }
    fprintf(out, "unset logscale x\n");
    if (h >= 0) {
        fprintf(out, "set xlabel '%s'\n", p->plant->across);
        panel(out, r, "across", "using 1:2 with points pt 7 ps 0.5", false);
    }
    if (flew(r)) {
        int flown = 0;
        /* the short names: the others would leave the picture */
        fprintf(out, "unset xlabel\nset rmargin 2\nset xtics (");
        for (int k = 0; k < r->nrows; k++)
            if (r->row[k].flights.n) {
                fprintf(out, "%s'%s' %d", flown > 0 ? ", " : "", r->row[k].row->file, flown);
                flown++;
            }
        fprintf(out, ") rotate by 35 right\nset xrange [-0.5:%d.5]\nset ylabel 'position error, m'\n", flown - 1);
        panel(out, r, "flights", "using 1:3:2:4 with yerrorbars pt 7", false);
        fprintf(out, "set ylabel 'slew'\n");
        panel(out, r, "flights", "using 1:6:5:7 with yerrorbars pt 7", false);
    }
    fprintf(out, "unset multiplot\n");
    return hb_plot_finish(plot, err);
}
