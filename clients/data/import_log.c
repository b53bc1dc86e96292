#include "data/import_log.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"
#include "data/log_expression.h"
#include "data/log_glitches.h"
#include "data/log_table.h"

enum { MAX_LAG = 5 }; /* rows by which a velocity is tried against its position */

static const double default_gap = 3;    /* of the log's rows */
static const double shortest = 1;       /* seconds of an episode */
static const double hung = 0.25;        /* seconds in which no state changes at all */
static const double slope_over = 0.08;  /* seconds that a velocity is held against its position over */
static const double odd_velocity = 0.2; /* of a velocity's deviation, that its position's slope may differ by */

/* One file on its way. */
typedef struct flight {
    const hb_log_map *map;
    const char *path;
    const hb_log_vehicle *vehicle; /* may be NULL */
    hb_log_table table;
    size_t n;      /* rows */
    double *time;  /* n */
    double *value; /* n x nsignals */
    bool *good;    /* n */
    bool *jump;    /* n: no transition leads to this row */
    hb_log_result *result;
    hb_error *err;
} flight;

typedef struct import {
    const hb_log_map *map;
    hb_dataset_writer *writer;
    hb_dataset_header header;
    double dt;
    char state_name[HB_LOG_SIGNALS][HB_NAME_SIZE], state_unit[HB_LOG_SIGNALS][HB_NAME_SIZE];
    char hidden_name[HB_LOG_PARAMETERS][HB_NAME_SIZE];
    double min[HB_LOG_SIGNALS], max[HB_LOG_SIGNALS], trim[HB_LOG_SIGNALS];
    int nepisodes;
} import;

static int nsignals(const hb_log_map *m)
{
    return m->nstates + m->ncontrols;
}

__attribute__((format(printf, 2, 3))) static void find_odd(hb_log_result *r, const char *format, ...)
{
    va_list arguments;

    if (r->nfindings == HB_LOG_FINDINGS)
        return;
    va_start(arguments, format);
    vsnprintf(r->finding[r->nfindings++], HB_LOG_FINDING, format, arguments);
    va_end(arguments);
}

static int state_of(const hb_log_map *m, const char *name)
{
    for (int i = 0; i < m->nstates; i++)
        if (strcmp(m->signal[i].name, name) == 0)
            return i;
    return -1;
}

/* --- rows --- */

static int look_up(void *context, const char *name, double *value)
{
    const flight *f = context;
    int column = hb_log_table_find(&f->table, name);

    if (column >= 0)
        return column;
    for (int i = 0; f->vehicle && i < f->vehicle->n; i++)
        if (strcmp(f->vehicle->parameter[i].name, name) == 0) {
            *value = f->vehicle->parameter[i].value;
            return -1;
        }
    for (int i = 0; i < f->map->nconstants; i++)
        if (strcmp(f->map->constant[i].name, name) == 0) {
            *value = f->map->constant[i].value;
            return -1;
        }
    return -2;
}

/* Values of an expression in all rows, `stride` apart. */
static int evaluate(flight *f, const char *what, int line, const char *text, double *to, size_t stride)
{
    hb_log_expression *e = NULL;
    hb_error inner = {0};
    int status = hb_log_expression_new(&e, text, look_up, f, &inner);

    if (status)
        return hb_fail(f->err, -status, "%s:%d: %s: %.300s (in %s)", f->map->path, line, what, inner.text, f->path);
    for (size_t i = 0; i < f->n; i++)
        to[i * stride] = hb_log_expression_value(e, f->table.value + i * (size_t)f->table.ncolumns);
    hb_log_expression_free(e);
    return 0;
}

/* "derivative(NAME)": the slope of a parabola through two rows on either side */
static int differentiate(flight *f, int signal, const char *name)
{
    const hb_log_map *m = f->map;
    size_t ns = (size_t)nsignals(m);
    char of[HB_NAME_SIZE];
    size_t length = strcspn(name, ")");

    if (!name[length] || length >= sizeof of)
        return hb_fail(f->err, EINVAL, "%s:%d: '%s': expected derivative(NAME)", m->path, m->signal[signal].line,
                       m->signal[signal].text);
    memcpy(of, name, length);
    of[length] = 0;
    int from = state_of(m, of);
    if (from < 0 || from >= signal)
        return hb_fail(f->err, EINVAL, "%s:%d: derivative(%s): there is no such state above it", m->path,
                       m->signal[signal].line, of);
    for (size_t i = 0; i < f->n; i++) {
        double up = 0, down = 0, value = NAN;
        bool believed = i >= 2 && i + 2 < f->n;
        for (size_t k = 0; believed && k < 5; k++)
            believed = f->good[i + k - 2] && (k == 0 || !f->jump[i + k - 2]);
        if (believed) {
            for (size_t k = 0; k < 5; k++) {
                size_t at = i + k - 2;
                double t = f->time[at] - f->time[i];
                up += t * (f->value[at * ns + (size_t)from] - f->value[i * ns + (size_t)from]);
                down += t * t;
            }
            value = up / down;
        }
        f->value[i * ns + (size_t)signal] = value;
    }
    return 0;
}

static bool is_slope(const hb_log_signal *s)
{
    return strncmp(s->text, "derivative(", strlen("derivative(")) == 0;
}

/* What the columns say; slopes come later, when it is known which rows are believed. */
static int evaluate_rows(flight *f)
{
    const hb_log_map *m = f->map;
    size_t ns = (size_t)nsignals(m);
    int status = evaluate(f, "time", m->time_line, m->time, f->time, 1);

    for (int s = 0; !status && s < nsignals(m); s++)
        if (!is_slope(&m->signal[s]))
            status = evaluate(f, m->signal[s].name, m->signal[s].line, m->signal[s].text, f->value + s, ns);
    double *where = m->where[0] && !status ? malloc(f->n * sizeof *where) : NULL;
    if (where)
        status = evaluate(f, "where", m->where_line, m->where, where, 1);
    for (size_t i = 0; i < f->n && !status; i++) {
        bool finite = isfinite(f->time[i]), within = true;
        for (size_t s = 0; s < ns; s++) {
            double v = f->value[i * ns + s];
            finite = finite && isfinite(v);
            within = within && (isnan(v) || (v >= m->signal[s].low && v <= m->signal[s].high));
        }
        /* a condition on what is no number leaves a row out, too */
        bool wanted = !where || (where[i] != 0 && !isnan(where[i]));
        f->good[i] = finite && within && wanted;
        f->result->not_numbers += !finite;
        f->result->beyond += finite && !within;
        f->result->left_out += finite && within && !wanted;
    }
    free(where);
    return status;
}

static int evaluate_slopes(flight *f)
{
    const hb_log_map *m = f->map;
    int status = 0;

    for (int s = 0; !status && s < m->nstates; s++)
        if (is_slope(&m->signal[s]))
            status = differentiate(f, s, m->signal[s].text + strlen("derivative("));
    for (int s = 0; !status && s < m->nstates; s++)
        for (size_t i = 0; is_slope(&m->signal[s]) && i < f->n; i++)
            f->good[i] = f->good[i] && isfinite(f->value[i * (size_t)nsignals(m) + (size_t)s]);
    return status;
}

/* --- attitude --- */

/* Quaternions of length one and of one sign, from row to row; the first has qw >= 0. */
static void straighten(flight *f)
{
    const hb_log_map *m = f->map;
    size_t ns = (size_t)nsignals(m);
    int at[4] = {state_of(m, "qx"), state_of(m, "qy"), state_of(m, "qz"), state_of(m, "qw")};
    double last[4] = {0, 0, 0, 1};

    if (at[0] < 0 || at[1] < 0 || at[2] < 0 || at[3] < 0)
        return;
    bool first = true;
    for (size_t i = 0; i < f->n; i++) {
        double q[4], length = 0, along = 0;
        for (int k = 0; k < 4; k++) {
            q[k] = f->value[i * ns + (size_t)at[k]];
            length += q[k] * q[k];
            along += q[k] * last[k];
        }
        if (!f->good[i])
            continue;
        length = sqrt(length);
        if (!(length > 0.9 && length < 1.1)) {
            f->good[i] = false;
            f->result->beyond++;
            continue;
        }
        f->result->flips += !first && along < 0;
        first = false;
        for (int k = 0; k < 4; k++) {
            last[k] = (along < 0 ? -1 : 1) * q[k] / length;
            f->value[i * ns + (size_t)at[k]] = last[k];
        }
    }
    int w[3] = {state_of(m, "wx"), state_of(m, "wy"), state_of(m, "wz")};
    for (size_t i = 0; i < f->n && m->world_rates && w[0] >= 0 && w[1] >= 0 && w[2] >= 0; i++) {
        double *row = f->value + i * ns, q[4], v[3];
        for (int k = 0; k < 4; k++)
            q[k] = row[at[k]];
        for (int k = 0; k < 3; k++)
            v[k] = row[w[k]];
        /* R(q)^T v */
        double x = q[0], y = q[1], z = q[2], s = q[3];
        row[w[0]] = (1 - 2 * (y * y + z * z)) * v[0] + 2 * (x * y + s * z) * v[1] + 2 * (x * z - s * y) * v[2];
        row[w[1]] = 2 * (x * y - s * z) * v[0] + (1 - 2 * (x * x + z * z)) * v[1] + 2 * (y * z + s * x) * v[2];
        row[w[2]] = 2 * (x * z + s * y) * v[0] + 2 * (y * z - s * x) * v[1] + (1 - 2 * (x * x + y * y)) * v[2];
    }
}

/* --- what is not to be believed --- */

static int cut_glitches(flight *f)
{
    hb_log_glitches found[HB_LOG_SIGNALS];
    const hb_log_rows rows = {.n = f->n,
                              .nsignals = (size_t)nsignals(f->map),
                              .nstates = (size_t)f->map->nstates,
                              .period = f->result->period,
                              .time = f->time,
                              .value = f->value,
                              .good = f->good,
                              .jump = f->jump};
    int status = hb_log_glitches_cut(&rows, found, f->err);

    for (int s = 0; s < nsignals(f->map) && !status; s++) {
        const hb_log_glitches *g = &found[s];
        const char *name = f->map->signal[s].name;
        f->result->glitches += g->rows;
        f->result->far += g->far;
        f->result->jumps += g->jumps;
        if (g->rows)
            find_odd(f->result,
                     "%s has glitches, which are cut: %zu rows in %d places, up to %.4g (99 of 100 steps are "
                     "below %.3g)",
                     name, g->rows, g->glitches, g->furthest, g->usual);
        if (g->far)
            find_odd(f->result, "%s is far out, which is cut: %zu rows, up to %.4g (expected %.3g to %.3g at most)",
                     name, g->far, g->furthest, g->low, g->high);
        if (g->jumps)
            find_odd(f->result, "%s jumps, and episodes end there: in %d places (99 of 100 steps are below %.3g)", name,
                     g->jumps, g->usual);
    }
    return status;
}

/* Rows whose time does not go on, and stretches in which not one state changes. */
static void cut_still(flight *f)
{
    size_t ns = (size_t)nsignals(f->map), nx = (size_t)f->map->nstates, since = 0;
    double last = -INFINITY;

    for (size_t i = 0; i < f->n; i++) {
        if (!f->good[i])
            continue;
        if (!(f->time[i] > last)) {
            f->good[i] = false;
            f->result->back++;
            continue;
        }
        last = f->time[i];
    }
    for (size_t i = 1; i <= f->n; i++) {
        bool same = i < f->n && memcmp(f->value + i * ns, f->value + since * ns, nx * sizeof *f->value) == 0;
        if (same)
            continue;
        if (i - since > 2 && f->time[i - 1] - f->time[since] > hung)
            for (size_t k = since + 1; k < i; k++) {
                f->result->repeated += f->good[k];
                f->good[k] = false;
            }
        since = i;
    }
}

/* --- what is odd --- */

static double median_period(const flight *f)
{
    double *step = malloc(f->n * sizeof *step), period = 0;
    int n = 0;

    for (size_t i = 1; step && i < f->n; i++)
        if (f->time[i] > f->time[i - 1])
            step[n++] = f->time[i] - f->time[i - 1];
    if (n > 0)
        period = hb_quantile(step, n, 0.5);
    free(step);
    return period;
}

/* How much a velocity differs from its position's slope, where one of them is late by so many rows. Both over 80 ms:
 * over two rows a slope is noise, and of positions in millimetres it is their rounding. */
static double slope_difference(const flight *f, size_t position, size_t velocity, int late, double *ret_deviation)
{
    size_t ns = (size_t)nsignals(f->map), half = (size_t)fmax(1, round(slope_over / 2 / fmax(f->result->period, 1e-6)));
    double square = 0, sum = 0, squares = 0;
    size_t n = 0;

    for (size_t i = MAX_LAG + half; i + MAX_LAG + half < f->n; i++) {
        size_t at = i + (size_t)(late + MAX_LAG) - MAX_LAG;
        bool good = true;
        double v = 0;
        for (size_t k = i - half; k <= i + half && good; k++)
            good = f->good[k] && f->good[k + at - i] && !f->jump[k];
        for (size_t k = at - half; k <= at + half && good; k++) /* trapezoids */
            v += f->value[k * ns + velocity] / (double)(2 * half) * (k == at - half || k == at + half ? 0.5 : 1);
        if (!good)
            continue;
        double slope = (f->value[(i + half) * ns + position] - f->value[(i - half) * ns + position]) /
                       (f->time[i + half] - f->time[i - half]);
        square += (slope - v) * (slope - v);
        sum += v;
        squares += v * v;
        n++;
    }
    if (n < 50)
        return NAN;
    *ret_deviation = sqrt(fmax(0, squares / (double)n - pow(sum / (double)n, 2)));
    return sqrt(square / (double)n);
}

/* The smallest change of a signal: what it is rounded to. */
static double resolution(const flight *f, size_t signal)
{
    size_t ns = (size_t)nsignals(f->map);
    double least = INFINITY;

    for (size_t i = 1; i < f->n; i++) {
        double step = fabs(f->value[i * ns + signal] - f->value[(i - 1) * ns + signal]);
        if (f->good[i] && f->good[i - 1] && step > 0)
            least = fmin(least, step);
    }
    return least;
}

static void look_at_velocities(flight *f)
{
    const hb_log_map *m = f->map;

    for (int p = 0; p < m->nstates; p++) {
        char name[HB_NAME_SIZE + 1];
        snprintf(name, sizeof name, "v%s", m->signal[p].name);
        int v = state_of(m, name), best = 0;
        double least = INFINITY, deviation = 0, here = 0;
        for (int late = -MAX_LAG; v >= 0 && late <= MAX_LAG; late++) {
            double difference = slope_difference(f, (size_t)p, (size_t)v, late, &deviation);
            here = late == 0 ? difference : here;
            if (difference < least) {
                least = difference;
                best = late;
            }
        }
        if (v < 0 || !isfinite(least) || !(here > odd_velocity * deviation) ||
            !(here > 2 * resolution(f, (size_t)p) / slope_over) || deviation < 1e-3)
            continue;
        bool explained = least < here / 2;
        find_odd(f->result, "%s is not the slope of %s: they differ by %.3g (its deviation is %.3g)%s", name,
                 m->signal[p].name, here, deviation, explained ? "" : "; no delay explains it");
        if (explained)
            find_odd(f->result, "%s fits %s better when it is taken %.0f ms %s: %.3g", name, m->signal[p].name,
                     1e3 * abs(best) * f->result->period, best > 0 ? "later" : "earlier", least);
    }
}

static void look_at_rows(flight *f)
{
    const hb_log_map *m = f->map;
    size_t ns = (size_t)nsignals(m);
    hb_log_result *r = f->result;

    if (r->period > 10)
        find_odd(r, "rows are %.4g s apart: is time in milliseconds or microseconds? (time: COLUMN * 1e-3)", r->period);
    else if (r->period > 0 && r->period < 1e-4)
        find_odd(r, "rows are %.4g s apart: is time in another unit?", r->period);
    if (r->back)
        find_odd(r, "the clock stands or goes back in %zu rows", r->back);
    if (r->not_numbers > f->n / 2)
        find_odd(r, "%zu of %zu rows have an empty cell or one that is no number", r->not_numbers, f->n);
    for (size_t s = 0; s < ns; s++) {
        const hb_log_signal *signal = &m->signal[s];
        double min = INFINITY, max = -INFINITY;
        size_t outside = 0, good = 0, wraps = 0, leaps = 0;
        for (size_t i = 0; i < f->n; i++) {
            double v = f->value[i * ns + s];
            if (!f->good[i])
                continue;
            good++;
            min = fmin(min, v);
            max = fmax(max, v);
            outside += v < signal->min || v > signal->max;
            if (i == 0 || !f->good[i - 1])
                continue;
            double leap = fabs(v - f->value[(i - 1) * ns + s]);
            wraps += fabs(leap - 2 * M_PI) < 0.5;
            leaps += fabs(leap - 2 * M_PI) >= 0.5 && leap > M_PI / 2;
        }
        if (good && min == max)
            find_odd(r, "%s is %.4g in all rows", signal->name, min);
        if (outside > good / 100)
            find_odd(r, "%s is beyond its bounds %.4g to %.4g in %.1f %% of the rows (%.4g to %.4g)", signal->name,
                     signal->min, signal->max, 100.0 * (double)outside / (double)good, min, max);
        if (wraps > leaps && s < (size_t)m->nstates)
            find_odd(r, "%s jumps by 2 pi: if it is an angle in radians, say so to hilbert-train: --angles %s",
                     signal->name, signal->name);
    }
    look_at_velocities(f);
}

/* --- episodes --- */

/* The next row that is believed, from i on in a direction; `last` or `first` ends the search. */
static size_t good_after(const flight *f, size_t i, size_t last)
{
    while (i < last && !f->good[i])
        i++;
    return i;
}

/* A signal at a time between two rows: on the straight line between them. */
static double on_line(const flight *f, size_t s, size_t before, size_t after, double t)
{
    size_t ns = (size_t)nsignals(f->map);
    double a = f->value[before * ns + s], b = f->value[after * ns + s], span = f->time[after] - f->time[before];

    return span > 0 ? a + (t - f->time[before]) / span * (b - a) : a;
}

/* Mean over time of a signal between two times, its rows joined by straight lines. */
static double mean_between(const flight *f, size_t s, size_t first, size_t last, size_t start, double begin, double end)
{
    size_t i = start;
    double sum = 0, t = begin;

    while (i > first && (!f->good[i] || f->time[i] > begin))
        i--;
    while (t < end) {
        size_t next = i < last ? good_after(f, i + 1, last) : last;
        double until = next > i ? fmin(end, f->time[next]) : end;
        if (until > t) {
            sum += (until - t) * on_line(f, s, i, next, (t + until) / 2);
            t = until;
        } else if (next == i) {
            break;
        }
        i = next;
    }
    return sum / (end - begin);
}

/* Mean over time of what was in force between two times: each row's value from its time on. */
static double mean_held(const flight *f, size_t s, size_t first, size_t last, size_t start, double begin, double end)
{
    size_t ns = (size_t)nsignals(f->map), i = start;
    double sum = 0;

    while (i > first && (!f->good[i] || f->time[i] > begin))
        i--;
    double value = f->value[i * ns + s], t = begin;
    for (; i <= last && f->time[i] < end; i++) {
        if (!f->good[i])
            continue;
        if (f->time[i] > t) {
            sum += value * (f->time[i] - t);
            t = f->time[i];
        }
        value = f->value[i * ns + s];
    }
    return (sum + value * (end - t)) / (end - begin);
}

static int write_episode(import *in, flight *f, size_t first, size_t last)
{
    const hb_log_map *m = in->map;
    double span = f->time[last] - f->time[first], dt = in->dt, half = dt / 8;
    int nsteps = (int)floor(span / dt - 0.26), quaternion = state_of(m, "qx");
    size_t nx = (size_t)m->nstates, nu = (size_t)m->ncontrols, at = first;

    if (nsteps < 2 || nsteps * dt < (m->min_length > 0 ? m->min_length : shortest))
        return 0;
    double *x = malloc(((size_t)nsteps + 1) * nx * sizeof *x), *u = malloc(((size_t)nsteps * nu + 1) * sizeof *u);
    double hidden[HB_LOG_PARAMETERS];
    int status = x && u ? 0 : hb_fail(f->err, ENOMEM, "out of memory");

    for (int k = 0; k <= nsteps && !status; k++) {
        double t = f->time[first] + half + k * dt, *row = x + (size_t)k * nx;
        for (size_t i = at; i <= last && (!f->good[i] || f->time[i] <= t); i++)
            at = f->good[i] ? i : at;
        for (size_t s = 0; s < nx; s++)
            row[s] = m->causal ? mean_between(f, s, first, last, at, t - 2 * half, t)
                               : mean_between(f, s, first, last, at, t - half, t + half);
        for (size_t s = 0; s < nu && k < nsteps; s++)
            u[(size_t)k * nu + s] = mean_held(f, nx + s, first, last, at, t, t + dt);
        if (quaternion >= 0 && quaternion + 3 < m->nstates) {
            double *q = row + quaternion, length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
            for (int i = 0; i < 4 && length > 0.5; i++)
                q[i] /= length;
        }
    }
    for (int i = 0; i < in->header.nhidden; i++)
        hidden[i] = look_up(f, in->hidden_name[i], &hidden[i]) == -1 ? hidden[i] : NAN;
    for (int i = 0; i < in->header.nhidden && !status; i++)
        if (isnan(hidden[i]))
            status = hb_fail(f->err, EINVAL, "%s: %s gives this vehicle no '%s', but others", f->path, m->path,
                             in->hidden_name[i]);
    if (!status)
        status = hb_dataset_writer_append(in->writer, f->result->function, nsteps, x, u, NULL, hidden, f->err);
    if (!status) {
        in->nepisodes++;
        f->result->episodes++;
        f->result->taken += last - first + 1;
        f->result->seconds += nsteps * dt;
    }
    free(x);
    free(u);
    return status;
}

static int write_pieces(import *in, flight *f)
{
    double gap = in->map->gap > 0 ? in->map->gap : default_gap * fmax(f->result->period, 1e-9);
    size_t first = 0, last = 0;
    bool open = false, jump = false;
    int status = 0;

    for (size_t i = 0; i < f->n && !status; i++) {
        jump = jump || f->jump[i];
        if (!f->good[i])
            continue;
        bool late = f->time[i] - f->time[last] > gap;
        if (open && (late || jump)) {
            status = write_episode(in, f, first, last);
            f->result->gaps += !jump;
            open = false;
        }
        if (!open)
            first = i;
        open = true;
        jump = false;
        last = i;
    }
    if (!status && open)
        status = write_episode(in, f, first, last);
    return status;
}

/* --- all files --- */

/* the vehicle with the longest text in the file's path */
static const hb_log_vehicle *find_vehicle(const hb_log_map *m, const char *path)
{
    const hb_log_vehicle *best = NULL;

    for (int i = 0; i < m->nvehicles; i++)
        if (strstr(path, m->vehicle[i].text) && (!best || strlen(m->vehicle[i].text) > strlen(best->text)))
            best = &m->vehicle[i];
    return best;
}

static int open_writer(import *in, const char *output, hb_error *err)
{
    const hb_log_map *m = in->map;
    int nx = m->nstates, nu = m->ncontrols;
    bool bounds = true, trim = true;

    for (int i = 0; i < nsignals(m); i++) {
        memcpy(in->state_name[i], m->signal[i].name, HB_NAME_SIZE);
        memcpy(in->state_unit[i], m->signal[i].unit, HB_NAME_SIZE);
    }
    for (int i = 0; i < nu; i++) {
        const hb_log_signal *s = &m->signal[nx + i];
        in->min[i] = s->min;
        in->max[i] = s->max;
        in->trim[i] = s->trim;
        bounds = bounds && !isnan(s->min);
        trim = trim && !isnan(s->trim);
    }
    in->header = (hb_dataset_header){.nx = nx,
                                     .nu = nu,
                                     .dt = in->dt,
                                     .state_name = in->state_name,
                                     .state_unit = in->state_unit,
                                     .control_name = in->state_name + nx,
                                     .control_unit = in->state_unit + nx,
                                     .control_min = bounds ? in->min : NULL,
                                     .control_max = bounds ? in->max : NULL,
                                     .control_trim = trim ? in->trim : NULL,
                                     .hidden_name = in->hidden_name,
                                     .parameters_known = true};
    memcpy(in->header.plant, m->plant, sizeof in->header.plant);
    for (int i = 0; i < m->nvehicles; i++)
        for (int k = 0; k < m->vehicle[i].n; k++) {
            const char *name = m->vehicle[i].parameter[k].name;
            bool known = false;
            for (int h = 0; h < in->header.nhidden; h++)
                known = known || strcmp(in->hidden_name[h], name) == 0;
            if (!known && in->header.nhidden < HB_LOG_PARAMETERS)
                memcpy(in->hidden_name[in->header.nhidden++], name, HB_NAME_SIZE);
        }
    return hb_dataset_writer_new(&in->writer, output, &in->header, err);
}

static int import_file(import *in, const char *path, const char *output, hb_log_result *result, hb_error *err)
{
    flight f = {.map = in->map, .path = path, .vehicle = find_vehicle(in->map, path), .result = result, .err = err};
    int status = hb_log_table_read(&f.table, path, err);

    if (status)
        return status;
    size_t ns = (size_t)nsignals(in->map);
    f.n = f.table.rows;
    f.time = calloc(f.n, sizeof *f.time);
    f.value = calloc(f.n * ns, sizeof *f.value);
    f.good = calloc(f.n, sizeof *f.good);
    f.jump = calloc(f.n, sizeof *f.jump);
    result->rows = f.n;
    if (!f.time || !f.value || !f.good || !f.jump)
        status = hb_fail(err, ENOMEM, "out of memory");
    if (!status && !(status = evaluate_rows(&f))) {
        result->period = median_period(&f);
        cut_still(&f);
        straighten(&f);
        if (!(status = cut_glitches(&f)))
            status = evaluate_slopes(&f);
    }
    if (!status && !in->writer) {
        in->dt = in->map->dt > 0 ? in->map->dt : result->period;
        status = open_writer(in, output, err);
    }
    if (!status) {
        look_at_rows(&f);
        status = write_pieces(in, &f);
    }
    free(f.time);
    free(f.value);
    free(f.good);
    free(f.jump);
    hb_log_table_free(&f.table);
    return status;
}

static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

static int number_function(const hb_log_map *m, const char *const *file, int index, const hb_log_result *result)
{
    int most = -1;

    for (int i = 0; i < index; i++) {
        bool same = m->functions == HB_LOG_ONE ||
                    (m->functions == HB_LOG_FOLDER && folder_length(file[i]) == folder_length(file[index]) &&
                     strncmp(file[i], file[index], folder_length(file[i])) == 0);
        if (same)
            return result[i].function;
        most = result[i].function > most ? result[i].function : most;
    }
    return most + 1;
}

int hb_log_import(const hb_log_map *map, int nfiles, const char *const *file, const char *output, hb_log_result *result,
                  hb_error *err)
{
    import *in = calloc(1, sizeof *in);
    int status = in ? 0 : hb_fail(err, ENOMEM, "out of memory");

    if (in)
        in->map = map;
    for (int i = 0; i < nfiles && !status; i++) {
        result[i] = (hb_log_result){.function = number_function(map, file, i, result)};
        status = import_file(in, file[i], output, &result[i], err);
    }
    if (!status && in->nepisodes == 0)
        status =
            hb_fail(err, EINVAL,
                    "%s: no stretch of %g s is left (of the first file: %zu rows, %zu no numbers, %zu left out by "
                    "where, %zu beyond limits, %zu in glitches, %zu far out, %zu still): is the description right?",
                    map->path, map->min_length > 0 ? map->min_length : shortest, result[0].rows, result[0].not_numbers,
                    result[0].left_out, result[0].beyond, result[0].glitches, result[0].far, result[0].repeated);
    if (!status) {
        status = hb_dataset_writer_close(in->writer, err);
        in->writer = NULL;
    }
    if (in)
        hb_dataset_writer_free(in->writer);
    free(in);
    return status;
}
