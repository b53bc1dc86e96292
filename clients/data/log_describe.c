/* What a log probably holds, guessed from its columns' names and numbers, as a description to be read over and kept. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"
#include "data/import_log.h"
#include "data/log_table.h"

/* A name without unit, case and separators: "Position X [m]" becomes positionx. */
static void plain(const char *name, char *ret, size_t size)
{
    size_t n = 0;

    for (; *name && *name != '[' && n + 1 < size; name++)
        if (isalnum((unsigned char)*name))
            ret[n++] = (char)tolower((unsigned char)*name);
    ret[n] = 0;
}

/* The first column whose plain name is one of a list, separated by blanks; -1: none. Earlier words are better. */
static int find(const hb_log_table *t, const char *names)
{
    char word[64], have[64];

    for (const char *at = names; *at;) {
        size_t length = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        for (int i = 0; i < t->ncolumns; i++) {
            plain(t->name[i], have, sizeof have);
            if (strcmp(have, word) == 0)
                return i;
        }
        at += length + (at[length] == ' ');
    }
    return -1;
}

/* A name that an expression takes as it is, else in quotes. */
static const char *quoted(const hb_log_table *t, int column, char *to, size_t size)
{
    const char *name = t->name[column];
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    bool bare = !name[n] || (name[n] == '[' && name[strlen(name) - 1] == ']');

    snprintf(to, size, bare ? "%s" : "\"%s\"", name);
    return to;
}

static double step_of(const hb_log_table *t, int column)
{
    double *step = malloc(t->rows * sizeof *step), value = 0;
    int n = 0;

    for (size_t i = 1; step && i < t->rows; i++) {
        double d = t->value[i * (size_t)t->ncolumns + (size_t)column] -
                   t->value[(i - 1) * (size_t)t->ncolumns + (size_t)column];
        if (d > 0)
            step[n++] = d;
    }
    if (n)
        value = hb_quantile(step, n, 0.5);
    free(step);
    return value;
}

typedef struct range {
    double min, max, mean;
    size_t missing;
} range;

static range range_of(const hb_log_table *t, int column)
{
    range r = {.min = INFINITY, .max = -INFINITY};
    size_t n = 0;

    for (size_t i = 0; i < t->rows; i++) {
        double v = t->value[i * (size_t)t->ncolumns + (size_t)column];
        if (isnan(v)) {
            r.missing++;
            continue;
        }
        r.min = fmin(r.min, v);
        r.max = fmax(r.max, v);
        r.mean += v;
        n++;
    }
    r.mean /= n ? (double)n : 1;
    return r;
}

/* Milliseconds and the like show by how far rows are apart: between 0.2 ms and 5 s is what loggers do. */
static double guess_scale(double step)
{
    static const double scales[] = {1, 1e-3, 1e-6, 1e-9};

    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if (step * scales[i] > 2e-4 && step * scales[i] < 1)
            return scales[i];
    return 1;
}

static void write_time(const hb_log_table *t, FILE *out)
{
    int column = find(t, "t time timestamp times timems timeus stamp rostimestamp secs seconds");
    char name[128];

    if (column < 0) {
        fprintf(out, "time: TIME               # no column looks like time: name one, in seconds\n");
        return;
    }
    double step = step_of(t, column), scale = guess_scale(step);
    quoted(t, column, name, sizeof name);
    if (scale == 1)
        fprintf(out, "time: '%s'               # rows %.4g apart: taken for seconds\n", name, step);
    else
        fprintf(out, "time: '%s * %g'         # rows %.4g apart, which would be odd in seconds\n", name, scale, step);
    fprintf(out, "# dt: %.3g               # the period to resample to; without it the log's own, %.4g s\n",
            fmax(0.04, step * scale), step * scale);
}

static bool write_signal(const hb_log_table *t, FILE *out, const char *name, const char *unit, const char *from)
{
    int column = find(t, from);
    char text[128];

    if (column < 0)
        return false;
    range r = range_of(t, column);
    quoted(t, column, text, sizeof text);
    fprintf(out, "  '%s[%s]': '%s'%*s# %.4g to %.4g", name, unit, text, strlen(text) < 20 ? 20 - (int)strlen(text) : 1,
            "", r.min, r.max);
    if (r.missing)
        fprintf(out, ", empty or no number in %zu of %zu rows", r.missing, t->rows);
    fprintf(out, "\n");
    return true;
}

static int count_controls(const hb_log_table *t, FILE *out)
{
    static const char *const kinds[] = {"m%derpm motor%derpm rpm%d motor%drpm", "u%dn u%d f%d thrust%d",
                                        "motormotorm%d motor%d m%d m%dpwm pwm%d u%dpwm", "m%dthrust cmd%d out%d"};
    int n = 0;

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && n == 0; k++)
        for (int i = 0; i < 9; i++) {
            char names[200] = "", word[40];
            for (const char *at = kinds[k]; *at;) {
                size_t length = strcspn(at, " "), mark = (size_t)(strstr(at, "%d") - at);
                snprintf(word, sizeof word, "%.*s%d%.*s ", (int)mark, at, i, (int)(length - mark - 2), at + mark + 2);
                strncat(names, word, sizeof names - strlen(names) - 1);
                at += length + (at[length] == ' ');
            }
            if (find(t, names) < 0)
                continue;
            char name[16];
            snprintf(name, sizeof name, "u%d", n);
            if (n == 0)
                fprintf(out, "# a control is what the model takes: newtons for nominal:quadrotor. Put the motors' law "
                             "here, as\n# k * (m1 * battery)^2 with constants: {k: ...}; the order of rotors is the "
                             "order of these lines\ncontrols:\n");
            n += write_signal(t, out, name, "", names);
        }
    if (n == 0)
        fprintf(out, "# controls: {'NAME[UNIT]': COLUMN}   # no column looks like a motor: columns are listed below\n");
    return n;
}

int hb_log_describe(const char *path, FILE *out, hb_error *err)
{
    static const struct {
        const char *name, *unit, *from;
    } states[] = {{"x", "m", "px x posx positionx xmocap"},
                  {"vx", "m/s", "vx velx velocityx"},
                  {"y", "m", "py y posy positiony ymocap"},
                  {"vy", "m/s", "vy vely velocityy"},
                  {"z", "m", "pz z posz positionz zmocap"},
                  {"vz", "m/s", "vz velz velocityz"},
                  {"qx", "1", "qx q1 quatx orientationx"},
                  {"qy", "1", "qy q2 quaty orientationy"},
                  {"qz", "1", "qz q3 quatz orientationz"},
                  {"qw", "1", "qw q0 quatw orientationw"},
                  {"wx", "rad/s", "imugyrox gyrox wx omegax rollrate p"},
                  {"wy", "rad/s", "imugyroy gyroy wy omegay pitchrate q"},
                  {"wz", "rad/s", "imugyroz gyroz wz omegaz yawrate r"}};
    hb_log_table t = {0};
    int status = hb_log_table_read(&t, path, err), found = 0;

    if (status)
        return status;
    fprintf(out, "# guessed from %s: %zu rows of %d columns. Read it over: what is wrong here is learned.\n", path,
            t.rows, t.ncolumns);
    write_time(&t, out);
    fprintf(out, "functions: file          # each file is a vehicle in a condition of its own; folder, one\n");
    fprintf(out, "states:\n");
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        bool there = write_signal(&t, out, states[i].name, states[i].unit, states[i].from);
        found += there;
        if (!there && states[i].name[0] == 'v' && find(&t, states[i - 1].from) >= 0)
            found += fprintf(out, "  '%s[m/s]': 'derivative(%s)'   # none is logged\n", states[i].name,
                             states[i - 1].name) > 0;
    }
    if (found == 0) /* another kind of vehicle: everything that moves */
        for (int i = 0; i < t.ncolumns; i++) {
            char text[128];
            fprintf(out, "  # '%.24s': '%s'\n", t.name[i], quoted(&t, i, text, sizeof text));
        }
    count_controls(&t, out);
    if (find(&t, "wxvicon wxworld") >= 0 && find(&t, "imugyrox gyrox") < 0)
        fprintf(out, "rates: world             # a motion capture's rates are the world's\n");
    if (find(&t, "pz z posz") >= 0)
        fprintf(out, "# where: '%s > 0.25'     # leaves the ground out\n", t.name[find(&t, "pz z posz")]);
    fprintf(out, "# vehicles: {'': {mass: 0.03}}   # what is known of them: nominal models take it\n# columns:");
    for (int i = 0; i < t.ncolumns; i++)
        fprintf(out, "%s %s", i ? "," : "", t.name[i]);
    fprintf(out, "\n");
    hb_log_table_free(&t);
    return 0;
}
