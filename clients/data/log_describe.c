/* What logs probably hold, as a description to be read over and kept: columns by their names, and then by what the
 * flights say. The logs are imported by the guess, and what contradicts it is put right: frames, the motors' law, the
 * order of the rotors. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/statistics.h"
#include "data/import_log.h"
#include "data/log_check.h"
#include "data/log_table.h"
#include "data/log_thrust.h"

enum { TRIED = 200 }; /* logs that a guess is tried on, of all that are given */

static const double period = 0.04;    /* seconds: over less, estimates are noise */
static const double on_ground = 0.15; /* metres: a flight that begins below stood there */
static const double in_air = 0.25;    /* metres: above, the ground neither carries nor lifts a small vehicle */
static const double beyond = 10;      /* times what rates are below in 99 of 100 rows */
static const double alike = 0.1;      /* of a gain: vehicles of one mass */
static const double gravity = 9.81;
static const double strongest = 4; /* times a rotor's share of the weight: no vehicle hovers with a quarter */

typedef struct guess {
    hb_log_table t; /* of the first log */
    hb_log_map *map;
    int nfiles;
    const char *const *file;
    double mass;          /* kilograms; NaN: not given */
    int motor[HB_ROTORS]; /* columns */
    int nmotors, battery; /* column, or -1 */
    char notes[12][200];  /* of what the flights say */
    int nnotes;
} guess;

/* A name without unit, case and separators: "Position X [m]" becomes positionx; with it: positionxm. */
static void plain(const char *name, bool unit, char *ret, size_t size)
{
    size_t n = 0;

    for (; *name && (unit || *name != '[') && n + 1 < size; name++)
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
            plain(t->name[i], true, have, sizeof have);
            bool same = strcmp(have, word) == 0;
            plain(t->name[i], false, have, sizeof have);
            if (same || strcmp(have, word) == 0)
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

/* --- by name --- */

__attribute__((format(printf, 2, 3))) static void note(guess *g, const char *format, ...)
{
    va_list arguments;

    if (g->nnotes == sizeof g->notes / sizeof *g->notes)
        return;
    va_start(arguments, format);
    vsnprintf(g->notes[g->nnotes++], sizeof *g->notes, format, arguments);
    va_end(arguments);
}

static hb_log_signal *add_signal(hb_log_map *m, const char *name, const char *unit, const char *text)
{
    hb_log_signal *s = &m->signal[m->nstates + m->ncontrols];

    *s = (hb_log_signal){.low = -INFINITY, .high = INFINITY, .min = NAN, .max = NAN, .trim = NAN};
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->unit, sizeof s->unit, "%s", unit);
    snprintf(s->text, sizeof s->text, "%s", text);
    return s;
}

static void guess_time(guess *g)
{
    int column = find(&g->t, "t time timestamp times timems timeus stamp rostimestamp secs seconds");
    char name[128];

    if (column < 0)
        return;
    double step = step_of(&g->t, column), scale = guess_scale(step);
    quoted(&g->t, column, name, sizeof name);
    if (scale == 1)
        snprintf(g->map->time, sizeof g->map->time, "%s", name);
    else
        snprintf(g->map->time, sizeof g->map->time, "%s * %g", name, scale);
    g->map->dt = fmax(period, step * scale);
    g->map->gap = fmax(0.1, 3 * step * scale);
    note(g,
         scale == 1 ? "time: rows are %.4g apart, which are taken for seconds"
                    : "time: rows are %.4g apart, which would be odd in seconds",
         step);
}

static void guess_states(guess *g)
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
                  {"wx", "rad/s", "imugyrox gyrox wx omegax rollrate p wxvicon wxworld"},
                  {"wy", "rad/s", "imugyroy gyroy wy omegay pitchrate q wyvicon wyworld"},
                  {"wz", "rad/s", "imugyroz gyroz wz omegaz yawrate r wzvicon wzworld"}};
    char text[HB_LOG_TEXT];

    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        int column = find(&g->t, states[i].from);
        bool slope = column < 0 && states[i].name[0] == 'v' && find(&g->t, states[i - 1].from) >= 0;
        if (column < 0 && !slope)
            continue;
        if (slope)
            snprintf(text, sizeof text, "derivative(%s)", states[i - 1].name);
        else
            quoted(&g->t, column, text, sizeof text);
        add_signal(g->map, states[i].name, states[i].unit, text);
        g->map->nstates++;
    }
    g->map->world_rates = find(&g->t, "wxvicon wxworld") >= 0 && find(&g->t, "imugyrox gyrox wx") < 0;
}

/* Kinds of columns that a motor may have; %d is its number, from 0 or 1 on. */
static const char *const kinds[] = {
    "m%derpm motor%derpm",  "rpm%d motor%drpm m%drpm",   "u%dn f%dn f%d thrust%d thrust%dn",
    "u%dpwm m%dpwm pwm%d",  "motormotorm%d motor%d m%d", "u%d",
    "m%dthrust cmd%d out%d"};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* The columns of one kind, as many as there are. */
static int find_motors(const hb_log_table *t, const char *kind, int *ret)
{
    int n = 0;

    for (int number = 0; number < 9 && n < HB_ROTORS; number++) {
        char names[200] = "", word[40];
        for (const char *at = kind; *at;) {
            size_t length = strcspn(at, " "), mark = (size_t)(strstr(at, "%d") - at);
            snprintf(word, sizeof word, "%.*s%d%.*s ", (int)mark, at, number, (int)(length - mark - 2), at + mark + 2);
            strncat(names, word, sizeof names - strlen(names) - 1);
            at += length + (at[length] == ' ');
        }
        int column = find(t, names);
        if (column >= 0)
            ret[n++] = column;
    }
    return n;
}

/* Controls as they are logged, of the first kind that there is. */
static void guess_controls(guess *g)
{
    char name[HB_NAME_SIZE], text[HB_LOG_TEXT];

    for (int k = 0; k < KINDS && g->nmotors == 0; k++)
        g->nmotors = find_motors(&g->t, kinds[k], g->motor);
    for (int i = 0; i < g->nmotors; i++) {
        snprintf(name, sizeof name, "u%d", i);
        add_signal(g->map, name, "", quoted(&g->t, g->motor[i], text, sizeof text));
        g->map->ncontrols++;
    }
    g->battery = find(&g->t, "vbat pwrpmvbat battery batteryvoltage batt voltage vbatv");
}

/* --- by what the flights say --- */

static int read_trial(const guess *g, const hb_log_map *m, hb_dataset **ret, hb_error *err)
{
    char path[] = "/tmp/hilbert-describe-XXXXXX";
    int n = g->nfiles < TRIED ? g->nfiles : TRIED, status;
    const char *file[TRIED];
    hb_log_result *result = calloc(TRIED, sizeof *result);
    int fd = mkstemp(path);

    for (int i = 0; i < n; i++)
        file[i] = g->file[(size_t)i * (size_t)g->nfiles / (size_t)n];
    if (fd < 0 || !result)
        status = hb_fail(err, fd < 0 ? errno : ENOMEM, "%s: cannot be written", path);
    else if (!(status = hb_log_import(m, n, file, path, result, err)))
        status = hb_dataset_read(ret, path, NULL, err);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    free(result);
    return status;
}

/* Flights that begin on the ground are taken from where they are in the air. */
static void leave_out_ground(guess *g, const hb_dataset *d)
{
    for (int s = 0; s < g->map->nstates; s++) {
        double low = INFINITY, high = -INFINITY;
        if (strcmp(g->map->signal[s].name, "z") != 0)
            continue;
        for (int e = 0; e < d->nepisodes; e++)
            for (int k = 0; k <= d->episode[e].nsteps; k++) {
                double z = d->episode[e].x[(size_t)k * (size_t)d->header.nx + (size_t)s];
                low = fmin(low, z);
                high = fmax(high, z);
            }
        if (fabs(low) < on_ground && high > 2 * in_air && strlen(g->map->signal[s].text) + 16 < HB_LOG_TEXT)
            snprintf(g->map->where, sizeof g->map->where, "%.200s > %g", g->map->signal[s].text, in_air);
    }
}

static void try_frames(guess *g)
{
    hb_dataset *d = NULL;
    hb_frames f;
    hb_error err = {0};

    if (read_trial(g, g->map, &d, &err)) {
        note(g, "the guess could not be tried: %.150s", err.text);
        return;
    }
    if (!hb_frames_find(&f, d, NULL)) {
        bool wrong = f.attitude_wrong || f.motion_wrong || f.push_wrong;
        if (wrong)
            hb_log_put_frames_right(g->map, &f);
        if (!g->map->where[0])
            leave_out_ground(g, d);
        note(g, wrong ? "frames were put right by what attitudes, rates, velocities and tilt are of each other"
                      : "frames: attitudes, rates, velocities and tilt are each other's as they are");
    }
    hb_dataset_free(d);
}

/* The folder of a file, as the text that tells its vehicle. */
static void folder_of(const char *path, char *ret, size_t size)
{
    const char *end = strrchr(path, '/'), *start = end;

    while (start > path && start[-1] != '/')
        start--;
    snprintf(ret, size, "%.*s", end ? (int)(end - start) + 1 : 0, end ? start : "");
}

/* --- motors --- */

typedef struct motors {
    int column[HB_ROTORS];
    hb_thrust thrust;
    int ngroups, nfunctions;
    char folder[HB_THRUST_GROUPS][128];
} motors;

/* A vehicle for each folder of the logs that are tried. */
static void group_files(const guess *g, motors *m, int *group, int n)
{
    char folder[128];

    m->ngroups = 0;
    for (int i = 0; i < n; i++) {
        folder_of(g->file[(size_t)i * (size_t)g->nfiles / (size_t)n], folder, sizeof folder);
        int k = 0;
        while (k < m->ngroups && strcmp(m->folder[k], folder) != 0)
            k++;
        if (k == m->ngroups && k + 1 < HB_THRUST_GROUPS)
            strcpy(m->folder[m->ngroups++], folder);
        group[i] = k < HB_THRUST_GROUPS ? k : HB_THRUST_GROUPS - 1;
    }
}

/* How well one kind of columns carries the vehicle. */
static int try_motors(const guess *g, motors *m, hb_error *err)
{
    hb_log_map *trial = malloc(sizeof *trial);
    int n = g->nfiles < TRIED ? g->nfiles : TRIED, group[TRIED], of_function[TRIED] = {0};
    hb_dataset *d = NULL;
    char name[HB_NAME_SIZE], text[HB_LOG_TEXT];

    if (!trial)
        return hb_fail(err, ENOMEM, "out of memory");
    *trial = *g->map;
    trial->ncontrols = 0;
    for (int i = 0; i < HB_ROTORS + (g->battery >= 0); i++) {
        int column = i < HB_ROTORS ? m->column[i] : g->battery;
        snprintf(name, sizeof name, "u%d", i);
        add_signal(trial, name, "", quoted(&g->t, column, text, sizeof text));
        trial->ncontrols++;
    }
    group_files(g, m, group, n);
    int status = read_trial(g, trial, &d, err);
    for (int f = 0; !status && f < d->nfunctions; f++)
        of_function[f] = group[d->function[f].id];
    if (!status)
        status = hb_thrust_find(&m->thrust, d, 0, HB_ROTORS, g->battery >= 0 ? HB_ROTORS : -1, of_function, err);
    hb_dataset_free(d);
    free(trial);
    return status;
}

/* The kind of columns, and the law, that explain best what carries the vehicle. */
static bool find_thrust(const guess *g, motors *best)
{
    bool any = false;

    for (int k = 0; k < KINDS; k++) {
        motors m = {.ngroups = 0};
        if (find_motors(&g->t, kinds[k], m.column) != HB_ROTORS || try_motors(g, &m, NULL))
            continue;
        if (!any || m.thrust.left < best->thrust.left)
            *best = m;
        any = true;
    }
    return any;
}

static void set_mass(hb_log_map *m, const char *folder, double mass)
{
    hb_log_vehicle *v = &m->vehicle[m->nvehicles++];

    snprintf(v->text, sizeof v->text, "%s", folder);
    v->n = 1;
    strcpy(v->parameter[0].name, "mass");
    v->parameter[0].value = mass;
}

static bool is_alike(const motors *m)
{
    for (int i = 1; i < m->ngroups; i++)
        if (fabs(m->thrust.gain[i] / m->thrust.gain[0] - 1) > alike)
            return false;
    return true;
}

static const char *law_text(const guess *g, const motors *m, int motor, char *to, size_t size)
{
    char command[128], volts[128] = "";

    quoted(&g->t, m->column[motor], command, sizeof command);
    if (g->battery >= 0)
        quoted(&g->t, g->battery, volts, sizeof volts);
    if (m->thrust.law == HB_THRUST_PLAIN)
        snprintf(to, size, "max(0, %s)", command);
    else if (m->thrust.law == HB_THRUST_SQUARE)
        snprintf(to, size, "%s^2", command);
    else if (m->thrust.law == HB_THRUST_VOLTAGE)
        snprintf(to, size, "%s * %s", command, volts);
    else
        snprintf(to, size, "(%s * %s)^2", command, volts);
    return to;
}

/* Controls in newtons, by the law that carries the vehicle's weight. */
static void put_thrust(guess *g, const motors *m)
{
    static const char *const name[] = {"f0", "f1", "f2", "f3"};
    const bool newtons = m->thrust.law == HB_THRUST_PLAIN && strstr(g->t.name[m->column[0]], "[N]");
    char law[320], text[400];
    double gain = m->thrust.gain[0];

    g->map->ncontrols = 0;
    strcpy(g->map->plant, "quadrotor");
    for (int i = 0; i < HB_ROTORS; i++) {
        law_text(g, m, i, law, sizeof law);
        snprintf(text, sizeof text, newtons ? "%s" : "mass * k * %s", law);
        add_signal(g->map, name[i], "N", text);
        g->map->ncontrols++;
    }
    note(g,
         "thrust: this law leaves less than %.1f %% of the weight in nine of ten rows, the least of those that were "
         "tried",
         100 * m->thrust.left);
    if (!newtons) {
        strcpy(g->map->constant[0].name, "k");
        g->map->constant[0].value = gain;
        g->map->nconstants = 1;
        set_mass(g->map, "", g->mass);
        if (!is_alike(m))
            note(g, "folders differ in k by more than a tenth: describe each kind of vehicle by itself");
        return;
    }
    if (!isnan(g->mass) || is_alike(m))
        set_mass(g->map, "", isnan(g->mass) ? 1 / gain : g->mass);
    for (int i = 0; i < m->ngroups && isnan(g->mass) && !is_alike(m); i++)
        set_mass(g->map, m->folder[i], 1 / m->thrust.gain[i]);
    note(g,
         isnan(g->mass) ? "mass: what these forces carry (%.3g kg); put the scales' figure there"
                        : "mass: as given; these forces carry %.3g kg",
         1 / gain);
}

static double round_up(double value)
{
    double unit = pow(10, floor(log10(value)) - 1);
    return ceil(value / unit) * unit;
}

/* Limits of rates, by what 99 of 100 rows are below; of forces, by the weight. */
static void put_limits(guess *g, const hb_dataset *d)
{
    double *value = malloc((d->ntransitions + 1) * sizeof *value), mass = 0;

    for (int s = 0; s < g->map->nstates && value; s++) {
        size_t n = 0;
        if (g->map->signal[s].name[0] != 'w')
            continue;
        for (int e = 0; e < d->nepisodes; e++)
            for (int k = 0; k < d->episode[e].nsteps; k++)
                value[n++] = fabs(d->episode[e].x[(size_t)k * (size_t)d->header.nx + (size_t)s]);
        double most = n ? round_up(beyond * hb_quantile(value, (int)n, 0.99)) : 0;
        if (most > 0) {
            g->map->signal[s].low = -most;
            g->map->signal[s].high = most;
        }
    }
    free(value);
    for (int i = 0; i < g->map->nvehicles; i++)
        mass = fmax(mass, g->map->vehicle[i].parameter[0].value);
    for (int i = g->map->nstates; mass > 0 && i < g->map->nstates + g->map->ncontrols; i++) {
        g->map->signal[i].low = 0;
        g->map->signal[i].high = round_up(strongest * mass * gravity / HB_ROTORS);
    }
}

static void put_order(guess *g, const hb_dataset *d)
{
    hb_rotor_order o;

    if (hb_rotor_order_find(&o, d, NULL))
        return;
    if (o.wrong)
        hb_log_put_rotors_right(g->map, &o);
    if (o.wrong)
        note(g,
             "rotors: in this order (front left, back left, back right, front right) they explain %.0f %% of how "
             "roll and pitch accelerations change, in the log's %.0f %%",
             100 * o.explained, 100 * o.as_given);
    else
        note(g,
             o.deviations > 0 ? "rotors: these flights do not tell their order for sure; it should be front left, "
                                "back left, back right, front right (as it is %.0f %% are explained)"
                              : "rotors: no order explains more than the log's (%.0f %% of how roll and pitch "
                                "accelerations change)",
             100 * o.as_given);
}

static void try_motors_of_all(guess *g)
{
    motors m;
    hb_dataset *d = NULL;

    if (!find_thrust(g, &m))
        return;
    put_thrust(g, &m);
    hb_log_map *trial = malloc(sizeof *trial);
    if (!trial)
        return;
    *trial = *g->map;
    for (int i = 0; i < trial->nvehicles; i++) /* any will do */
        if (isnan(trial->vehicle[i].parameter[0].value))
            trial->vehicle[i].parameter[0].value = 1;
    if (!read_trial(g, trial, &d, NULL)) {
        put_order(g, d);
        put_limits(g, d);
        hb_dataset_free(d);
    }
    free(trial);
}

/* --- as text --- */

static void print_signals(const guess *g, int from, int to, FILE *out)
{
    for (int i = from; i < to; i++) {
        const hb_log_signal *s = &g->map->signal[i];
        fprintf(out, "  '%s[%s]': '%s'", s->name, s->unit, s->text);
        int column = hb_log_table_find(&g->t, s->text);
        if (column >= 0) {
            range r = range_of(&g->t, column);
            fprintf(out, "%*s# %.4g to %.4g", strlen(s->text) < 20 ? 20 - (int)strlen(s->text) : 1, "", r.min, r.max);
            if (r.missing)
                fprintf(out, ", empty or no number in %zu of %zu rows", r.missing, g->t.rows);
        }
        fprintf(out, "\n");
    }
}

static void print_limits(const hb_log_map *m, FILE *out)
{
    int n = 0;

    for (int i = 0; i < m->nstates + m->ncontrols; i++)
        if (isfinite(m->signal[i].low))
            fprintf(out, "%s%s: [%g, %g]", n++ ? ", " : "limits: {", m->signal[i].name, m->signal[i].low,
                    m->signal[i].high);
    if (n)
        fprintf(out, "}                    # beyond them a row is not believed\n");
}

static void print_vehicles(const guess *g, FILE *out)
{
    const hb_log_map *m = g->map;

    if (m->nvehicles == 0) {
        fprintf(out, "# vehicles: {'': {mass: KILOGRAMS}}   # what is known of them: nominal models take it\n");
        return;
    }
    fprintf(out, "vehicles: {");
    for (int i = 0; i < m->nvehicles; i++) {
        double mass = m->vehicle[i].parameter[0].value;
        fprintf(out, "%s'%s': {mass: ", i ? ", " : "", m->vehicle[i].text);
        fprintf(out, isnan(mass) ? "KILOGRAMS}" : "%.3g}", mass);
    }
    fprintf(out, "}\n");
}

static void print_guess(const guess *g, FILE *out)
{
    const hb_log_map *m = g->map;

    fprintf(out,
            "# guessed from %d logs, %s first: %zu rows of %d columns. Read it over: what is wrong here is learned.\n",
            g->nfiles, g->file[0], g->t.rows, g->t.ncolumns);
    for (int i = 0; i < g->nnotes; i++)
        fprintf(out, "# %s\n", g->notes[i]);
    if (m->plant[0])
        fprintf(out, "plant: %s\n", m->plant);
    if (m->time[0])
        fprintf(out,
                "time: '%s'\ndt: %.3g                 # seconds to resample to\ngap: %.3g                # seconds "
                "without a row that cut an episode\n",
                m->time, m->dt, m->gap);
    else
        fprintf(out, "time: TIME               # no column looks like time: name one, in seconds\n");
    if (m->where[0])
        fprintf(out, "where: '%s'        # leaves the ground out\n", m->where);
    fprintf(out, "functions: file          # each file is a vehicle in a condition of its own; folder, one\n");
    if (m->world_rates)
        fprintf(out, "rates: world             # they are turned into the body's\n");
    fprintf(out, "states:\n");
    print_signals(g, 0, m->nstates, out);
    char text[128];
    for (int i = 0; i < g->t.ncolumns && m->nstates == 0; i++) /* another kind of vehicle: everything that moves */
        fprintf(out, "  # '%.24s': '%s'\n", g->t.name[i], quoted(&g->t, i, text, sizeof text));
    if (m->ncontrols == 0)
        fprintf(out, "# controls: {'NAME[UNIT]': COLUMN}   # no column looks like a motor: columns are listed below\n");
    else if (m->nconstants == 0 && m->nvehicles == 0)
        fprintf(out,
                "# a control is what the model takes: newtons for nominal:quadrotor. Put the motors' law here, as\n"
                "# k * (m1 * battery)^2 with constants: {k: ...}; the order of rotors is the order of these lines\n");
    if (m->ncontrols)
        fprintf(out, "controls:\n");
    print_signals(g, m->nstates, m->nstates + m->ncontrols, out);
    if (m->nconstants)
        fprintf(out, "constants: {k: %.6g}\n", m->constant[0].value);
    print_limits(m, out);
    print_vehicles(g, out);
    fprintf(out, "# columns:");
    for (int i = 0; i < g->t.ncolumns; i++)
        fprintf(out, "%s %s", i ? "," : "", g->t.name[i]);
    fprintf(out, "\n");
}

int hb_log_describe(int nfiles, const char *const *file, double mass, FILE *out, hb_error *err)
{
    guess *g = calloc(1, sizeof *g);
    hb_log_map *map = calloc(1, sizeof *map);
    int status = g && map ? 0 : hb_fail(err, ENOMEM, "out of memory");

    if (!status) {
        *g = (guess){.map = map, .nfiles = nfiles, .file = file, .mass = mass, .battery = -1};
        strcpy(map->path, "the guess");
        status = hb_log_table_read(&g->t, file[0], err);
    }
    if (!status) {
        guess_time(g);
        guess_states(g);
        guess_controls(g);
        if (map->time[0] && map->nstates) {
            try_frames(g);
            try_motors_of_all(g);
        }
        print_guess(g, out);
        hb_log_table_free(&g->t);
    }
    free(g);
    free(map);
    return status;
}
