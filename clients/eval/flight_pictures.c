/* Pictures of a recorded flight, by gnuplot. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/plot.h"
#include "eval/flight.h"

enum {
    POINTS = 1500, /* of a line, at most */
    COLUMNS = 3,   /* of panels */
    PANELS = 18,   /* of a picture, at most */
    WIDTH = 1140,
    PANEL_HEIGHT = 165,
};

#define ACTUAL    "#1f6fb4"
#define TARGET    "#333333"
#define PREDICTED "#e07b00"
#define BOUND     "#b03030"
#define SHADOW    "#7b4fa0"

/* by the number of the contract */
static const char *const status_colour[HB_FLIGHT_NSTATUSES] = {"#000000", "#2a9d4e", "#9ccc65", "#3f9bd8", "#e67e22",
                                                               "#9b59b6", "#d63031", "#2d3436", "#f1c40f"};

const hb_flight_picture hb_flight_picture_list[] = {
    {"states", "State against target", "Blue: the state as it came in. Dashed: the target of the requests."},
    {"prediction", "Predicted against actual",
     "Blue: the state. Orange: what the model predicted for that moment ten steps before, with the coefficients of "
     "that "
     "time and the controls that followed."},
    {"coefficients", "Coefficients",
     "Line: the estimate; band: two standard deviations to each side. Those that moved most, if there are many."},
    {"errors", "One-step error",
     "Error of the prediction of each transition before it is used, normalised; what is expected of it after the fit; "
     "and "
     "the part of the residual that no coefficients explain."},
    {"statuses", "Statuses", "How good the replies were, over time, and what the estimate said of itself."},
    {"latency", "Latency against budget", "From receipt of a request to its reply; the worst of each stretch of time."},
    {"controls", "Controls against bounds",
     "What was answered (orange) and what the vehicle reports (blue); red: bounds."},
    {NULL, NULL, NULL},
};

enum { STATES, PREDICTION, COEFFICIENTS, ERRORS, STATUSES, LATENCY, CONTROLS, NPICTURES };

bool hb_flight_has(const hb_recorded_flight *f, const hb_flight_prediction *p, int picture)
{
    switch (picture) {
    case STATES:
        return f->nsamples > 0;
    case PREDICTION:
        return p && p->npoints > 0;
    case COEFFICIENTS:
        return f->nestimates > 0;
    case ERRORS:
        return f->nestimates > 0 || f->nreplies > 0;
    case CONTROLS:
        return f->nu > 0 && (f->nreplies > 0 || f->nsamples > 0);
    default:
        return f->nreplies > 0;
    }
}

/* ---- data ---- */

/* gnuplot breaks a line at what is no number */
static void put(FILE *out, double time, double value)
{
    if (isfinite(value))
        fprintf(out, "%.4f %.6g\n", time, value);
    else
        fprintf(out, "%.4f NaN\n", time);
}

static size_t stride(size_t n)
{
    return n / POINTS + 1;
}

/* Column d of the rows of samples. */
static void put_samples(FILE *out, const char *name, const hb_recorded_flight *f, const double *rows, int columns,
                        int d)
{
    fprintf(out, "$%s << EOD\n", name);
    for (size_t i = 0; i < f->nsamples; i += stride(f->nsamples)) {
        if (i && f->sample[i].segment != f->sample[i - stride(f->nsamples)].segment)
            fprintf(out, "\n");
        put(out, f->sample[i].time, rows[i * (size_t)columns + (size_t)d]);
    }
    fprintf(out, "EOD\n");
}

/* Column d of the rows of replies, without those of guests; NaN first, so that there is always a line. */
static void put_replies(FILE *out, const char *name, const hb_recorded_flight *f, const double *rows, int columns,
                        int d)
{
    fprintf(out, "$%s << EOD\n0 NaN\n", name);
    for (size_t i = 0; i < f->nreplies; i += stride(f->nreplies))
        if (!f->reply[i].guest)
            put(out, f->reply[i].time, rows[i * (size_t)columns + (size_t)d]);
    fprintf(out, "EOD\n");
}

static void put_predicted(FILE *out, const char *name, const hb_flight_prediction *p, int nx, int d)
{
    fprintf(out, "$%s << EOD\n", name);
    for (size_t i = 0; i < p->npoints; i += stride(p->npoints)) {
        if (i && p->segment[i] != p->segment[i - stride(p->npoints)])
            fprintf(out, "\n");
        put(out, p->time[i], p->predicted[i * (size_t)nx + (size_t)d]);
    }
    fprintf(out, "EOD\n");
}

/* ---- layout ---- */

/* Panels of a picture of that height, with room for titles and for what stands below. */
static void begin(FILE *out, const hb_recorded_flight *f, int rows, int columns, int height)
{
    enum { ABOVE = 26, BELOW = 46, BETWEEN = 50 };

    fprintf(out,
            "set termoption noenhanced\nset multiplot layout %d,%d rowsfirst margins 0.06,0.985,%g,%g spacing "
            "0.055,%g\n"
            "set border 3 lc rgb '#888888'\nset tics nomirror textcolor rgb '#333333'\nset grid lc rgb '#e6e6e6'\n"
            "set xrange [0:%g]\nset key top right samplen 1.5 opaque\n",
            rows, columns, (double)BELOW / height, 1 - (double)ABOVE / height, (double)BETWEEN / height,
            fmax(f->seconds, 1e-3));
}

/* Titles of panels are short: the name and its unit. */
static void name_panel(FILE *out, const char *name, const char *unit, bool last_row)
{
    fprintf(out, *unit ? "set title '%s [%s]' offset 0,-0.7\n" : "set title '%s' offset 0,-0.7\n", name, unit);
    fprintf(out, last_row ? "set xlabel 'time [s]' offset 0,0.5\n" : "unset xlabel\n");
}

/* A range that shows no noise as mountains. */
static void set_range(FILE *out, double low, double high)
{
    double middle = (low + high) / 2, half = fmax((high - low) / 2, 1e-3 * fmax(1, fabs(middle)));

    fprintf(out, "set yrange [%g:%g]\n", middle - 1.08 * half, middle + 1.08 * half);
}

static void widen(double *low, double *high, double value)
{
    if (!isfinite(value))
        return;
    *low = fmin(*low, value);
    *high = fmax(*high, value);
}

static int rows_for(int n, int columns)
{
    return columns > 0 ? (n + columns - 1) / columns : 0;
}

/* ---- pictures ---- */

/* Opens a page with a panel for each of the first states; returns how many. */
static int begin_states(FILE *out, const hb_recorded_flight *f, int height, int *ret_columns)
{
    int n = f->nx < PANELS ? f->nx : PANELS;

    *ret_columns = n < COLUMNS ? n : COLUMNS;
    begin(out, f, rows_for(n, *ret_columns), *ret_columns, height);
    return n;
}

static void range_of_state(const hb_recorded_flight *f, int d, double *ret_low, double *ret_high)
{
    *ret_low = INFINITY;
    *ret_high = -INFINITY;
    for (size_t i = 0; i < f->nsamples; i++)
        widen(ret_low, ret_high, f->x[i * (size_t)f->nx + (size_t)d]);
}

static void draw_states(FILE *out, const hb_recorded_flight *f, int height)
{
    int columns, n = begin_states(out, f, height, &columns);

    for (int d = 0; d < n; d++) {
        double low, high;
        range_of_state(f, d, &low, &high);
        for (size_t i = 0; i < f->nreplies; i++)
            widen(&low, &high, f->target[i * (size_t)f->nx + (size_t)d]);
        put_samples(out, "state", f, f->x, f->nx, d);
        put_replies(out, "target", f, f->target, f->nx, d);
        name_panel(out, f->state[d].name, f->state[d].unit, d >= n - columns);
        set_range(out, low, high);
        fprintf(out,
                "plot $target using 1:2 with lines dt 2 lw 1.5 lc rgb '" TARGET "' %s, "
                "$state using 1:2 with lines lw 1.5 lc rgb '" ACTUAL "' %s\n",
                d ? "notitle" : "title 'target'", d ? "notitle" : "title 'state'");
    }
}

static void draw_prediction(FILE *out, const hb_recorded_flight *f, const hb_flight_prediction *p, int height)
{
    int columns, n = begin_states(out, f, height, &columns);

    for (int d = 0; d < n; d++) {
        double low, high;
        range_of_state(f, d, &low, &high);
        /* a prediction gone wild leaves the panel; the state stays legible */
        double room = fmax(high - low, 1e-6);
        put_samples(out, "state", f, f->x, f->nx, d);
        put_predicted(out, "predicted", p, f->nx, d);
        name_panel(out, f->state[d].name, f->state[d].unit, d >= n - columns);
        set_range(out, low - 0.15 * room, high + 0.15 * room);
        fprintf(out,
                "plot $state using 1:2 with lines lw 2.5 lc rgb '" ACTUAL "' %s, "
                "$predicted using 1:2 with lines lw 1 lc rgb '" PREDICTED "' %s\n",
                d ? "notitle" : "title 'state'", d ? "notitle" : "title 'predicted'");
    }
}

/* Which coefficients to show: those that moved most against their deviation, in their order. */
static int choose(const hb_recorded_flight *f, int most, int *chosen)
{
    double spread[1024];
    int n = f->nc < 1024 ? f->nc : 1024, count = 0;

    for (int c = 0; c < n; c++) {
        double low = INFINITY, high = -INFINITY;
        for (size_t i = 0; i < f->nestimates; i++)
            widen(&low, &high, f->coefficient[i * (size_t)f->nc + (size_t)c]);
        spread[c] = high - low;
    }
    for (int c = 0; c < n; c++) {
        int better = 0;
        for (int other = 0; other < n; other++)
            better += spread[other] > spread[c] || (spread[other] == spread[c] && other < c);
        if (better < most)
            chosen[count++] = c;
    }
    return count;
}

static void draw_coefficients(FILE *out, const hb_recorded_flight *f, int height)
{
    int chosen[PANELS], n = choose(f, PANELS, chosen), columns = n < COLUMNS ? n : COLUMNS, rows = rows_for(n, columns);
    size_t step = stride(f->nestimates);

    begin(out, f, rows, columns, height);
    fprintf(out, "set style fill solid 0.22 noborder\n");
    for (int k = 0; k < n; k++) {
        double low = INFINITY, high = -INFINITY;
        char title[32];
        fprintf(out, "$c << EOD\n");
        for (size_t i = 0; i < f->nestimates; i += step) {
            double c = f->coefficient[i * (size_t)f->nc + (size_t)chosen[k]],
                   s = 2 * (double)f->deviation[i * (size_t)f->nc + (size_t)chosen[k]];
            s = isfinite(s) ? s : 0;
            fprintf(out, "%.4f %.6g %.6g %.6g\n", f->estimate[i].time, c, c - s, c + s);
            /* what was thought at first would hide the rest */
            if (f->estimate[i].time > fmin(2, 0.2 * f->seconds)) {
                widen(&low, &high, c - s);
                widen(&low, &high, c + s);
            }
        }
        fprintf(out, "EOD\n");
        snprintf(title, sizeof title, "c%d", chosen[k]);
        name_panel(out, title, "", k >= n - columns);
        set_range(out, low, high);
        fprintf(out,
                "plot $c using 1:3:4 with filledcurves lc rgb '" ACTUAL "' notitle, $c using 1:2 with lines lw 1.5 lc "
                "rgb '" ACTUAL "' notitle\n");
    }
}

/* The largest of each stretch of time, so that no peak is lost. */
static void put_peaks(FILE *out, const char *name, size_t n, const double *time, const double *value)
{
    size_t step = stride(n);

    fprintf(out, "$%s << EOD\n0 NaN\n", name);
    for (size_t i = 0; i < n; i += step) {
        double most = NAN;
        for (size_t j = i; j < n && j < i + step; j++)
            most = fmax(most, value[j]);
        if (isfinite(most))
            put(out, time[i], most);
    }
    fprintf(out, "EOD\n");
}

static int draw_errors(FILE *out, const hb_recorded_flight *f, int height, hb_error *err)
{
    size_t n = f->nreplies > f->nestimates ? f->nreplies : f->nestimates;
    double *time = calloc(n + 1, sizeof *time), *value = calloc(n + 1, sizeof *value);
    double most = 1; /* per cent */
    bool shadow = false;

    if (!time || !value) {
        free(time);
        free(value);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    for (size_t i = 0; i < f->nestimates; i++) {
        time[i] = f->estimate[i].time;
        value[i] = f->estimate[i].one_step_error > 0 ? f->estimate[i].one_step_error : NAN;
    }
    put_peaks(out, "error", f->nestimates, time, value);
    for (size_t i = 0; i < f->nreplies; i++) {
        time[i] = f->reply[i].time;
        value[i] = f->reply[i].expected_error > 0 ? f->reply[i].expected_error : NAN;
    }
    put_peaks(out, "expected", f->nreplies, time, value);
    for (size_t i = 0; i < f->nreplies; i++) {
        value[i] = 100 * f->reply[i].out_of_span;
        most = fmax(most, value[i]);
    }
    put_peaks(out, "span", f->nreplies, time, value);
    free(time);
    free(value);
    fprintf(out, "$shadow << EOD\n0 NaN\n");
    for (size_t i = 0; i < f->nstatuses; i++) {
        put(out, f->status[i].time, f->status[i].shadow_error);
        shadow |= isfinite(f->status[i].shadow_error);
    }
    fprintf(out, "EOD\n");
    begin(out, f, 2, 1, height);
    fprintf(out, "set logscale y\nset format y '%%g'\nset yrange [*:*]\n");
    name_panel(out, "one-step error", "normalised", false);
    fprintf(out,
            "plot $error using 1:2 with lines lw 1.2 lc rgb '" ACTUAL "' title 'one-step error', "
            "$expected using 1:2 with lines lw 2 dt 2 lc rgb '" TARGET "' title 'expected'%s\n",
            shadow ? ", $shadow using 1:2 with lines lw 2 lc rgb '" SHADOW "' title 'of the shadow'" : "");
    fprintf(out, "unset logscale y\nset yrange [0:%g]\n", fmin(100, 1.1 * most));
    name_panel(out, "out of span", "%", true);
    fprintf(out, "plot $span using 1:2 with lines lw 1.5 lc rgb '" PREDICTED "' notitle\n");
    return 0;
}

/* Stretches of equal status as lines at the height of the status. */
static void put_stretch(FILE *out, double from, double to, int height, int colour)
{
    fprintf(out, "%.4f %d %.4f %d\n", from, height, fmax(to - from, 0), colour);
}

static int rung_of(int status)
{
    for (int i = 0; i < HB_FLIGHT_NSTATUSES - 1; i++)
        if (hb_flight_ladder[i] == status)
            return i;
    return -1;
}

static void draw_statuses(FILE *out, const hb_recorded_flight *f)
{
    char word[HB_NAME_SIZE];
    double least = f->seconds / 900; /* no stretch is narrower than a pixel or so */

    fprintf(out, "$replies << EOD\n");
    for (size_t i = 0, j; i < f->nreplies; i = j) {
        for (j = i + 1; j < f->nreplies && f->reply[j].status == f->reply[i].status; j++)
            ;
        double end = j < f->nreplies ? f->reply[j].time : f->seconds;
        if (rung_of(f->reply[i].status) >= 0)
            put_stretch(out, f->reply[i].time, fmax(end, f->reply[i].time + least), rung_of(f->reply[i].status),
                        f->reply[i].status);
    }
    fprintf(out, "EOD\n$estimates << EOD\n0 -1 0 0\n");
    for (size_t i = 0, j; i < f->nestimates; i = j) {
        for (j = i + 1; j < f->nestimates && f->estimate[j].status == f->estimate[i].status; j++)
            ;
        double end = j < f->nestimates ? f->estimate[j].time : f->seconds;
        put_stretch(out, f->estimate[i].time, fmax(end, f->estimate[i].time + least), f->estimate[i].status, 0);
    }
    fprintf(out, "EOD\n$events << EOD\n-1 0\n");
    for (size_t i = 0; i < f->nevents; i++)
        fprintf(out, "%.4f 0\n", f->event[i].time);
    fprintf(
        out,
        "EOD\n"
        "set termoption noenhanced\nset multiplot\nset border 1 lc rgb '#888888'\nset tics nomirror\nset grid y lc rgb "
        "'#e6e6e6'\nset xrange [0:%g]\nunset key\nset lmargin at screen 0.13\nset rmargin at screen 0.985\n",
        fmax(f->seconds, 1e-3));
    for (int s = 1; s < HB_FLIGHT_NSTATUSES; s++)
        fprintf(out, "c%d = '%s'\n", s, status_colour[s]);
    fprintf(out,
            "set tmargin at screen 0.93\nset bmargin at screen 0.47\nset title 'replies' offset 0,-0.7\nset yrange "
            "[7.6:-0.6]\nset format x ''\nset ytics (");
    for (int i = 0; i < HB_FLIGHT_NSTATUSES - 1; i++)
        fprintf(out, "%s'%s' %d", i ? ", " : "", hb_recorded_status_word(hb_flight_ladder[i], word), i);
    fprintf(out, ")\nset style fill solid 1 noborder\nplot ");
    for (int s = 1; s < HB_FLIGHT_NSTATUSES; s++)
        fprintf(out,
                "$replies using ($4 == %d ? $1 : NaN):2:($1):($1 + $3):($2 - 0.36):($2 + 0.36) with boxxyerror lc rgb "
                "c%d, ",
                s, s);
    fprintf(out, "$events using 1:(-0.6):(0):(8.2) with vectors nohead dt 3 lc rgb '#555555'\n");
    fprintf(out,
            "set tmargin at screen 0.39\nset bmargin at screen 0.11\nset title 'estimate' offset 0,-0.7\nset yrange "
            "[5.6:0.4]\nset format x '%%g'\nset xlabel 'time [s]' offset 0,0.5\nset ytics (");
    for (int s = 1; s <= 5; s++)
        fprintf(out, "%s'%s' %d", s > 1 ? ", " : "", hb_recorded_estimate_word(s, word), s);
    fprintf(out, ")\nplot $estimates using 1:2:($1):($1 + $3):($2 - 0.36):($2 + 0.36) with boxxyerror lc rgb '" ACTUAL
                 "', $events using 1:(0.4):(0):(5.2) with vectors nohead dt 3 lc rgb '#555555'\n");
}

static int draw_latency(FILE *out, const hb_recorded_flight *f, const hb_flight_summary *s, int height, hb_error *err)
{
    double *time = calloc(f->nreplies + 1, sizeof *time), *total = calloc(f->nreplies + 1, sizeof *total),
           *planning = calloc(f->nreplies + 1, sizeof *planning);
    int bad = !time || !total || !planning ? hb_fail(err, ENOMEM, "out of memory") : 0;

    for (size_t i = 0; !bad && i < f->nreplies; i++) {
        time[i] = f->reply[i].time;
        total[i] = 1e3 * f->reply[i].total;
        planning[i] = 1e3 * f->reply[i].planning;
    }
    if (!bad) {
        put_peaks(out, "total", f->nreplies, time, total);
        put_peaks(out, "planning", f->nreplies, time, planning);
        begin(out, f, 1, 1, height);
        name_panel(out, "from receipt to reply", "ms", true);
        fprintf(out, "set yrange [0:%g]\nplot ",
                1.15 * 1e3 * fmax(s->budget, fmin(s->longest, 3 * fmax(s->budget, s->p99))));
        if (s->budget > 0)
            fprintf(out, "%g with lines lw 1.5 dt 2 lc rgb '" BOUND "' title 'budget', ", 1e3 * s->budget);
        fprintf(
            out,
            "$total using 1:2 with impulses lc rgb '#a9c8e6' notitle, $total using 1:2 with points pt 7 ps 0.3 lc rgb "
            "'" ACTUAL "' title 'total', $planning using 1:2 with points pt 7 ps 0.2 lc rgb '" PREDICTED
            "' title 'planning'\n");
    }
    free(time);
    free(total);
    free(planning);
    return bad;
}

static void draw_controls(FILE *out, const hb_recorded_flight *f, int height)
{
    int n = f->nu < PANELS ? f->nu : PANELS, columns = n < 2 ? n : 2, rows = rows_for(n, columns);

    begin(out, f, rows, columns, height);
    for (int d = 0; d < n; d++) {
        const hb_recorded_channel *c = &f->control[d];
        put_samples(out, "reported", f, f->u, f->nu, d);
        put_replies(out, "action", f, f->action, f->nu, d);
        name_panel(out, c->name, c->unit, d >= n - columns);
        set_range(out, c->min, c->max);
        fprintf(out,
                "plot %g with lines lw 1.2 dt 2 lc rgb '" BOUND "' %s, %g with lines lw 1.2 dt 2 lc rgb '" BOUND
                "' notitle, $reported using 1:2 with steps lw 1.5 lc rgb '" ACTUAL
                "' %s, $action using 1:2 with steps lw 0.8 lc rgb '" PREDICTED "' %s\n",
                c->min, d ? "notitle" : "title 'bounds'", c->max, d ? "notitle" : "title 'reported'",
                d ? "notitle" : "title 'answered'");
    }
}

/* ---- all of them ---- */

static int height_of(const hb_recorded_flight *f, int picture)
{
    int panels = picture == CONTROLS       ? rows_for(f->nu < PANELS ? f->nu : PANELS, 2)
                 : picture == COEFFICIENTS ? rows_for(f->nc < PANELS ? f->nc : PANELS, COLUMNS)
                 : picture <= PREDICTION   ? rows_for(f->nx < PANELS ? f->nx : PANELS, COLUMNS)
                                           : 0;

    return panels ? panels * PANEL_HEIGHT + 40 : picture == LATENCY ? 300 : 440;
}

static int draw(const hb_recorded_flight *f, const hb_flight_summary *s, const hb_flight_prediction *p, int picture,
                const char *folder, hb_error *err)
{
    char path[4096];
    hb_plot *plot = NULL;
    int height = height_of(f, picture);

    snprintf(path, sizeof path, "%s/%s", folder, hb_flight_picture_list[picture].name);
    int bad = hb_plot_new(&plot, path, WIDTH, height, err);
    if (bad)
        return bad;
    FILE *out = hb_plot_script(plot);
    switch (picture) {
    case STATES:
        draw_states(out, f, height);
        break;
    case PREDICTION:
        draw_prediction(out, f, p, height);
        break;
    case COEFFICIENTS:
        draw_coefficients(out, f, height);
        break;
    case ERRORS:
        bad = draw_errors(out, f, height, err);
        break;
    case STATUSES:
        draw_statuses(out, f);
        break;
    case LATENCY:
        bad = draw_latency(out, f, s, height, err);
        break;
    case CONTROLS:
        draw_controls(out, f, height);
        break;
    }
    fprintf(out, "unset multiplot\n");
    if (bad) {
        hb_plot_free(plot);
        return bad;
    }
    return hb_plot_finish(plot, err);
}

int hb_flight_draw(const hb_recorded_flight *f, const hb_flight_summary *s, const hb_flight_prediction *p,
                   const char *folder, void (*drawn)(void *context, int i, int n), void *context, hb_error *err)
{
    int bad = 0;

    for (int i = 0; i < NPICTURES && !bad; i++) {
        if (drawn)
            drawn(context, i, NPICTURES);
        if (hb_flight_has(f, p, i))
            bad = draw(f, s, p, i, folder, err);
    }
    return bad;
}
