#include <jansson.h>
#include <math.h>

#include "common/json.h"
#include "common/plot.h"
#include "eval/robust.h"

void hb_robust_print_head(FILE *out)
{
    fprintf(out, "crashed flights; settled: median distance from the target over the last second, and root mean square "
                 "over the\nsecond half, of those that did not crash, in mm; span: replies that say out-of-span\n\n");
    fprintf(out, "%-17s", "");
    for (int i = 0; i < HB_ROBUST_NCONTROLLERS; i++)
        fprintf(out, "  %-*s", i == HB_ROBUST_PID ? 21 : 28, hb_robust_controller_name[i]);
    fprintf(out, "\n%-17s", "condition");
    for (int i = 0; i < HB_ROBUST_NCONTROLLERS; i++)
        fprintf(out, "  crash settled    rms%s", i == HB_ROBUST_PID ? "" : "   span");
    fprintf(out, "\n");
}

static void print_number(FILE *out, double value, int width, int digits, const char *unit)
{
    if (isfinite(value))
        fprintf(out, " %*.*f%s", width, digits, value, unit);
    else
        fprintf(out, " %*s%s", width, "-", unit[0] ? " " : "");
}

void hb_robust_print(const hb_robust_result *of_row, FILE *out)
{
    fprintf(out, "%-17s", of_row[0].row->name);
    for (int i = 0; i < HB_ROBUST_NCONTROLLERS; i++) {
        const hb_robust_result *r = &of_row[i];
        if (r->flights == 0) {
            fprintf(out, "  %5s %7s %6s", "", "", "");
            fprintf(out, "%s", i == HB_ROBUST_PID ? "" : "       ");
            continue;
        }
        fprintf(out, "  %2d/%-2d", r->crashed, r->flights);
        print_number(out, 1e3 * r->settled_m, 7, 1, "");
        print_number(out, 1e3 * r->rms_m, 6, 1, "");
        if (i != HB_ROBUST_PID)
            print_number(out, 100 * r->out_of_span, 4, 0, " %");
    }
    if (of_row[0].unsaid >= 0 && of_row[0].flights > 0)
        fprintf(out, "  said after %.2f s at most, %d times not at all", of_row[0].said_after_s, of_row[0].unsaid);
    fprintf(out, "\n");
    fflush(out);
}

void hb_robust_print_json(const hb_robust_result *r, FILE *out)
{
    json_t *o = json_object();

    json_object_set_new(o, "condition", json_string(r->row->name));
    json_object_set_new(o, "controller", json_string(hb_robust_controller_name[r->controller]));
    json_object_set_new(o, "flights", json_integer(r->flights));
    json_object_set_new(o, "crashed", json_integer(r->crashed));
    json_object_set_new(o, "settled_m", hb_json_number(r->settled_m));
    json_object_set_new(o, "worst_m", hb_json_number(r->worst_m));
    json_object_set_new(o, "rms_m", hb_json_number(r->rms_m));
    json_object_set_new(o, "out_of_span", hb_json_number(r->out_of_span));
    if (r->unsaid >= 0) {
        json_object_set_new(o, "out_of_span_after_s", hb_json_number(r->said_after_s));
        json_object_set_new(o, "unsaid", json_integer(r->unsaid));
    }
    json_dumpf(o, out, JSON_COMPACT | JSON_REAL_PRECISION(6));
    fputc('\n', out);
    fflush(out);
    json_decref(o);
}

/* Above, how many crashed; below, how far off the others were. */
int hb_robust_draw_picture(const hb_robust_result *r, int nrows, const char *file, hb_error *err)
{
    static const char *const colour[] = {"#a50f15", "#fb9a75", "#08519c"};
    hb_plot *p;
    int status = hb_plot_new(&p, file, 1400, 800, err);
    if (status)
        return status;
    FILE *out = hb_plot_script(p);

    for (int c = 0; c < HB_ROBUST_NCONTROLLERS; c++) {
        fprintf(out, "$of%d << EOD\n", c);
        for (int i = 0; i < nrows; i++) {
            const hb_robust_result *x = &r[i * HB_ROBUST_NCONTROLLERS + c];
            if (x->flights > 0)
                fprintf(out, "%g %g %g\n", i + 0.22 * (c - 1), 100.0 * x->crashed / x->flights,
                        x->crashed < x->flights ? 1e3 * x->settled_m : NAN);
        }
        fprintf(out, "EOD\n");
    }
    fprintf(out,
            "set multiplot layout 2,1 margins 0.07,0.98,0.17,0.95 spacing 0,0.04\n"
            "set grid ytics\nset key top left horizontal\nset xrange [-0.7:%g]\nset boxwidth 0.2\n"
            "set style fill solid 0.9 noborder\nset xtics (",
            nrows - 0.3);
    for (int i = 0; i < nrows; i++)
        fprintf(out, "%s'' %d", i ? ", " : "", i);
    fprintf(out, ")\nset ylabel 'crashed, %%'\nset yrange [0:118]\nset ytics 25\nplot");
    for (int c = 0; c < HB_ROBUST_NCONTROLLERS; c++)
        fprintf(out, "%s $of%d using 1:2 with boxes lc rgb '%s' title '%s'", c ? "," : "", c, colour[c],
                hb_robust_controller_name[c]);
    fprintf(out, "\nset xtics rotate by 50 right (");
    for (int i = 0; i < nrows; i++)
        fprintf(out, "%s'%s' %d", i ? ", " : "", r[i * HB_ROBUST_NCONTROLLERS].row->name, i);
    fprintf(out,
            ") noenhanced\nunset key\nset ylabel 'settled, mm'\nset logscale y\nset yrange [0.1:*]\nset ytics auto\n"
            "set grid xtics\nplot");
    for (int c = 0; c < HB_ROBUST_NCONTROLLERS; c++)
        fprintf(out, "%s $of%d using 1:3 with points pt 7 ps 0.8 lc rgb '%s'", c ? "," : "", c, colour[c]);
    fprintf(out, "\nunset multiplot\n");
    return hb_plot_finish(p, err);
}
