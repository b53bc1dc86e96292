#include <jansson.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "common/plot.h"
#include "eval/robust.h"

#define SIGNIFICANT 0.05

/* what is printed of a row, a line each */
static const struct line {
    hb_robust_measure measure;
    const char *name;
    double scale;
} lines[] = {
    {HB_MEASURE_FIRST, "first second, mm", 1e3},         {HB_MEASURE_LATER, "later, mm", 1e3},
    {HB_MEASURE_FIRST_HEADING, "heading first, deg", 1}, {HB_MEASURE_LATER_HEADING, "heading later, deg", 1},
    {HB_MEASURE_EFFORT, "effort, ranges/s", 1},
};
/* and of one in which something grows */
static const struct line failing = {HB_MEASURE_FAILED_AT, "lost at", 1};

enum { COLUMN = 24 };

void hb_robust_print_head(FILE *out)
{
    fprintf(out,
            "Median (quartiles) of flights. First second: after the start and after each change; root mean squares. A "
            "flight that crashed is worst:\nX is a median among them. Behind each number, how many flights adapting "
            "won\nand lost against this controller, in pairs; * it "
            "is better, ! it is worse by a sign test at 5 %%.\n\n%-16s %-19s",
            "", "");
    for (int i = 0; i < HB_ROBUST_NCONTROLLERS; i++)
        fprintf(out, " %-*s", COLUMN, hb_robust_controller_name[i]);
    fprintf(out, "\n");
}

static const char *number(double value, char *text, size_t size)
{
    if (isnan(value))
        snprintf(text, size, "-");
    else if (isinf(value))
        snprintf(text, size, "X");
    else if (value >= 99.95)
        snprintf(text, size, "%.0f", value);
    else
        snprintf(text, size, value >= 9.995 ? "%.1f" : value >= 0.0995 || value == 0 ? "%.2f" : "%.3f", value);
    return text;
}

static bool better(const hb_pairs *p)
{
    return p->better > p->worse && p->p < SIGNIFICANT;
}

static bool worse(const hb_pairs *p)
{
    return p->worse > p->better && p->p < SIGNIFICANT;
}

static void print_cell(const hb_robust_result *r, const struct line *line, FILE *out)
{
    const double *q = r->quartile[line->measure];
    const hb_pairs *pairs = &r->adapting[line->measure];
    char text[3][16], pair[32] = "", cell[96];

    if (r->flights == 0) {
        fprintf(out, " %*s", COLUMN, "");
        return;
    }
    for (int i = 0; i < 3; i++)
        number(line->scale * q[i], text[i], sizeof text[i]);
    if (pairs->better + pairs->worse > 0)
        snprintf(pair, sizeof pair, " %d:%d%s", pairs->better, pairs->worse,
                 better(pairs)  ? "*"
                 : worse(pairs) ? "!"
                                : "");
    snprintf(cell, sizeof cell, "%s (%s-%s)%s", text[1], text[0], text[2], pair);
    fprintf(out, " %-*s", COLUMN, cell);
}

static void print_line(const hb_robust_result *of_row, const struct line *line, const char *name, FILE *out)
{
    fprintf(out, "%-16s %-19s", name, line->name);
    for (int i = 0; i < HB_ROBUST_NCONTROLLERS; i++)
        print_cell(&of_row[i], line, out);
    fprintf(out, "\n");
}

/* Crashes, and statuses other than converged and truncated, which are the usual ones. */
static void print_trouble(const hb_robust_result *of_row, FILE *out)
{
    char text[80];
    bool any = false;

    for (int i = 0; i < HB_ROBUST_NCONTROLLERS; i++)
        any = any || of_row[i].crashed > 0;
    if (any) {
        fprintf(out, "%-16s %-19s", "", "crashed");
        for (int i = 0; i < HB_ROBUST_NCONTROLLERS; i++) {
            snprintf(text, sizeof text, "%d of %d", of_row[i].crashed, of_row[i].flights);
            fprintf(out, " %-*s", COLUMN, of_row[i].flights > 0 ? text : "");
        }
        fprintf(out, "\n");
    }
    const hb_robust_result *r = &of_row[HB_ROBUST_ADAPTING];
    int replies = 0;
    for (int i = 0; i < HB_NSTATUSES; i++)
        replies += r->status[i];
    any = false;
    for (int i = 0; i < HB_NSTATUSES; i++)
        if (i != HB_STATUS_CONVERGED && i != HB_STATUS_TRUNCATED && r->status[i] > 0) {
            fprintf(out, "%s%s %.1f %%", any ? ", " : "                 adapting's replies: ", hb_status_name[i],
                    100.0 * r->status[i] / replies);
            any = true;
        }
    if (r->unsaid >= 0 && r->flights > 0)
        fprintf(out, "%sout-of-span was said after %.2f s at most, %d times not at all",
                any ? "; " : "                 ", r->worst[HB_MEASURE_SAID], r->unsaid);
    if (any || (r->unsaid >= 0 && r->flights > 0))
        fprintf(out, "\n");
}

void hb_robust_print(const hb_robust_result *of_row, FILE *out)
{
    const hb_robust_row *row = of_row[0].row;

    fprintf(out, "%s\n", row->plant->name);
    if (row->ramp != HB_RAMP_NONE)
        print_line(of_row, &failing, row->name, out);
    for (size_t i = 0; i < sizeof lines / sizeof *lines && row->ramp == HB_RAMP_NONE; i++)
        print_line(of_row, &lines[i], i == 0 ? row->name : "", out);
    print_trouble(of_row, out);
    fflush(out);
}

void hb_robust_print_verdict(const hb_robust_result *r, int nrows, FILE *out)
{
    static const struct {
        hb_robust_measure measure;
        const char *name;
    } on[] = {{HB_MEASURE_FIRST, "first second"},
              {HB_MEASURE_LATER, "later"},
              {HB_MEASURE_FIRST_HEADING, "heading first"},
              {HB_MEASURE_LATER_HEADING, "heading later"}};

    for (int c = 1; c < HB_ROBUST_NCONTROLLERS; c++)
        for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
            int won = 0, lost = 0, nearer = 0, cells = 0;
            for (int k = 0; k < nrows; k++) {
                const hb_robust_result *x = &r[k * HB_ROBUST_NCONTROLLERS + c];
                const hb_pairs *p = &x->adapting[on[i].measure];
                if (p->better + p->worse == 0 || x->row->ramp != HB_RAMP_NONE)
                    continue;
                cells++;
                won += better(p);
                lost += worse(p);
                nearer += x[-c].quartile[on[i].measure][1] <= x->quartile[on[i].measure][1];
            }
            if (cells == 0)
                continue;
            fprintf(out,
                    "%sadapting against %s, %s: the better median in %d of %d cells; better in %d, worse in %d by a "
                    "sign test",
                    c == 1 && i == 0 ? "\n" : "", hb_robust_controller_name[c], on[i].name, nearer, cells, won, lost);
            for (int k = 0, n = 0; k < nrows; k++) {
                const hb_robust_result *x = &r[k * HB_ROBUST_NCONTROLLERS + c];
                if (worse(&x->adapting[on[i].measure]) && x->row->ramp == HB_RAMP_NONE)
                    fprintf(out, "%s%s %s", n++ ? ", " : ": ", x->row->plant->name, x->row->name);
            }
            fprintf(out, "\n");
        }
}

void hb_robust_print_json(const hb_robust_result *r, FILE *out)
{
    json_t *o = json_object(), *status = json_object();

    json_object_set_new(o, "plant", json_string(r->row->plant->name));
    json_object_set_new(o, "condition", json_string(r->row->name));
    json_object_set_new(o, "controller", json_string(hb_robust_controller_name[r->controller]));
    json_object_set_new(o, "flights", json_integer(r->flights));
    json_object_set_new(o, "crashed", json_integer(r->crashed));
    json_object_set_new(o, "worst_m", hb_json_number(r->worst[HB_MEASURE_SETTLED]));
    for (int m = 0; m < HB_NMEASURES; m++) {
        if (m == HB_MEASURE_SAID || (m == HB_MEASURE_FAILED_AT && r->row->ramp == HB_RAMP_NONE))
            continue;
        json_object_set_new(o, hb_robust_measure_name[m], hb_json_number(r->quartile[m][1]));
        if (m > HB_MEASURE_FAILED_AT)
            continue;
        json_t *more =
            json_pack("{s:o, s:o}", "quartiles",
                      json_pack("[o, o]", hb_json_number(r->quartile[m][0]), hb_json_number(r->quartile[m][2])),
                      "worst", hb_json_number(r->worst[m]));
        const hb_pairs *p = &r->adapting[m];
        if (p->better + p->worse > 0)
            json_object_update_new(more, json_pack("{s:i, s:i, s:f}", "adapting_won", p->better, "adapting_lost",
                                                   p->worse, "sign_test", p->p));
        char name[64];
        snprintf(name, sizeof name, "%s_more", hb_robust_measure_name[m]);
        json_object_set_new(o, name, more);
    }
    if (r->unsaid >= 0) {
        json_object_set_new(o, "out_of_span_after_s", hb_json_number(r->worst[HB_MEASURE_SAID]));
        json_object_set_new(o, "unsaid", json_integer(r->unsaid));
    }
    for (int i = 0; i < HB_NSTATUSES; i++)
        if (r->status[i] > 0)
            json_object_set_new(status, hb_status_name[i], json_integer(r->status[i]));
    json_object_set_new(o, "status", status);
    json_dumpf(o, out, JSON_COMPACT | JSON_REAL_PRECISION(6));
    fputc('\n', out);
    fflush(out);
    json_decref(o);
}

/* Why not something simpler? Errors of the others relative to adapting's, above 1 where adapting is better. What lies
 * beyond the picture, crashes first of all, lies on its edge. */
static const double lowest = 0.1, highest = 20;

static void print_points(const hb_robust_result *r, int nrows, int c, hb_robust_measure m, FILE *out)
{
    for (int i = 0; i < nrows; i++) {
        const hb_robust_result *x = &r[i * HB_ROBUST_NCONTROLLERS + c], *ours = x - c;
        double theirs = x->quartile[m][1], mine = ours->quartile[m][1];
        if (x->row->ramp != HB_RAMP_NONE || x->flights == 0 || ours->flights == 0 || isnan(theirs) || isnan(mine))
            continue;
        /* two crashes are equal */
        double ratio = isinf(theirs) && isinf(mine) ? 1 : isinf(mine) ? lowest : theirs / mine;
        fprintf(out, "%g %g\n", i + 0.13 * (c - 3), fmin(fmax(ratio, lowest), highest));
    }
}

int hb_robust_draw_picture(const hb_robust_result *r, int nrows, const char *file, hb_error *err)
{
    static const char *const colour[] = {"#000000", "#fb9a75", "#238b45", "#6a51a3", "#41b6c4", "#08519c"};
    static const struct {
        hb_robust_measure measure;
        const char *name;
    } panel[] = {
        {HB_MEASURE_FIRST, "first second"}, {HB_MEASURE_LATER, "later"}, {HB_MEASURE_LATER_HEADING, "heading"}};
    enum { PANELS = sizeof panel / sizeof *panel };
    hb_plot *p;
    int status = hb_plot_new(&p, file, 1400, 900, err);
    if (status)
        return status;
    FILE *out = hb_plot_script(p);

    for (int k = 0; k < PANELS; k++)
        for (int c = 1; c < HB_ROBUST_NCONTROLLERS; c++) {
            fprintf(out, "$of%d_%d << EOD\n", k, c);
            print_points(r, nrows, c, panel[k].measure, out);
            fprintf(out, "EOD\n");
        }
    fprintf(out,
            "set multiplot layout %d,1 margins 0.06,0.99,0.16,0.93 spacing 0,0.03 title 'error relative to adapting: "
            "above the line adapting is better'\n"
            "set grid ytics xtics\nset xrange [-0.7:%g]\nset logscale y\nset yrange [%g:%g]\nset xtics (",
            PANELS, nrows - 0.3, 0.9 * lowest, 1.1 * highest);
    for (int i = 0; i < nrows; i++)
        fprintf(out, "%s'' %d", i ? ", " : "", i);
    fprintf(out, ")\n");
    for (int k = 0; k < PANELS; k++) {
        if (k == PANELS - 1) {
            fprintf(out, "set xtics rotate by 55 right noenhanced (");
            for (int i = 0; i < nrows; i++) {
                const hb_robust_row *row = r[i * HB_ROBUST_NCONTROLLERS].row;
                fprintf(out, "%s'%s%s' %d", i ? ", " : "", row->plant == &hb_plant_multirotor ? "rates: " : "",
                        row->name, i);
            }
            fprintf(out, ")\n");
        }
        fprintf(out, "set ylabel '%s'\n%s\nplot 1 with lines lc rgb 'black' lw 2 notitle", panel[k].name,
                k == 0 ? "set key top right horizontal" : "unset key");
        for (int c = 1; c < HB_ROBUST_NCONTROLLERS; c++)
            fprintf(out, ", $of%d_%d using 1:2 with points pt 7 ps 0.9 lc rgb '%s' title '%s'", k, c, colour[c],
                    hb_robust_controller_name[c]);
        fprintf(out, "\n");
    }
    fprintf(out, "unset multiplot\n");
    return hb_plot_finish(p, err);
}
