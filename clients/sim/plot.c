/* A flight drawn with gnuplot: where it was, how it moved, what was commanded, how long answers took. */
#include "sim/flight_report.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/plot.h"

enum { SERIES = 8 }; /* in one panel, at most */

/* The block $flight: time, states, controls, latency in ms; one row per period. */
static void write_data(FILE *g, const hb_plant_type *plant, const hb_flight_record *r)
{
    fprintf(g, "$flight << EOD\n");
    for (int k = 0; k < r->nsteps; k++) {
        fprintf(g, "%.6g", r->step[k].time);
        for (int i = 0; i < plant->nx; i++)
            fprintf(g, " %.6g", r->x[(size_t)k * (size_t)plant->nx + (size_t)i]);
        for (int i = 0; i < plant->nu; i++)
            fprintf(g, " %.6g", r->step[k].answer.action[i]);
        fprintf(g, " %.6g\n", 1e3 * r->step[k].latency);
    }
    fprintf(g, "EOD\n");
}

/* Which states are measured in a unit. */
static int states_of_unit(const hb_plant_type *plant, const char *unit, int *state)
{
    int n = 0;

    for (int i = 0; i < plant->nx && n < SERIES; i++)
        if (strcmp(plant->state_unit[i], unit) == 0)
            state[n++] = i;
    return n;
}

static void panel(FILE *g, const char *label, int n, const int *column, const char *const *title, const char *style)
{
    fprintf(g, "set ylabel '%s'\nplot", label);
    for (int i = 0; i < n; i++)
        fprintf(g, "%s $flight using 1:%d with %s title '%s'", i ? "," : "", column[i], style, title[i]);
    fprintf(g, "\n");
}

static void draw(FILE *g, const hb_plant_type *plant, const hb_flight_settings *s, const hb_flight_record *r)
{
    static const char *const unit[] = {"m", "m/s", "rad", "1", "rad/s"}, *const latency = "reply";
    int state[SERIES], column[SERIES], panels = plant->nu > 0 ? 2 : 1;
    const char *title[SERIES];

    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
        panels += states_of_unit(plant, unit[i], state) > 0;
    fprintf(g, "set multiplot layout %d,1 margins 0.10,0.85,0.06,0.98 spacing 0.02,0.035\n", panels);
    fprintf(g, "set grid\nset key outside right top\nset xrange [0:%g]\nset format x ''\n", r->nsteps * s->dt);
    for (int i = 0; i < s->nevents; i++)
        fprintf(g, "set arrow from %g,graph 0 to %g,graph 1 nohead dt 2 lc rgb '#888888'\n", s->event[i].time,
                s->event[i].time);

    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++) {
        int n = states_of_unit(plant, unit[i], state);
        for (int k = 0; k < n; k++) {
            column[k] = 2 + state[k];
            title[k] = plant->state_name[state[k]];
        }
        if (n > 0)
            panel(g, unit[i], n, column, title, "lines");
    }
    int ncontrols = plant->nu < SERIES ? plant->nu : SERIES;
    for (int i = 0; i < ncontrols; i++) {
        column[i] = 2 + plant->nx + i;
        title[i] = plant->control_name[i];
    }
    if (ncontrols > 0)
        panel(g, plant->control_unit[0], ncontrols, column, title, "steps");
    column[0] = 2 + plant->nx + plant->nu;
    fprintf(g, "set format x '%%g'\nset yrange [0:*]\n");
    panel(g, "ms", 1, column, &latency, "impulses");
    fprintf(g, "unset multiplot\n");
}

int hb_flight_report_plot(const char *path, const hb_plant_type *plant, const hb_flight_settings *s,
                          const hb_flight_record *r, hb_error *err)
{
    size_t length = strlen(path);
    char name[1024];
    hb_plot *plot = NULL;

    if (length > 4 && (strcmp(path + length - 4, ".svg") == 0 || strcmp(path + length - 4, ".png") == 0))
        length -= 4;
    if (length >= sizeof name)
        return hb_fail(err, ENAMETOOLONG, "%s: too long a name", path);
    snprintf(name, sizeof name, "%.*s", (int)length, path);
    int status = hb_plot_new(&plot, name, 900, 1100, err);
    if (status)
        return status;
    write_data(hb_plot_script(plot), plant, r);
    draw(hb_plot_script(plot), plant, s, r);
    return hb_plot_finish(plot, err);
}
