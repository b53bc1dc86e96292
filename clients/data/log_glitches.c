#include "data/log_glitches.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/statistics.h"

enum { FEWEST = 20 }; /* steps that say what is usual */

static const double beyond = 10;   /* times what is usual */
static const double longest = 0.1; /* seconds of a glitch of a state */
static const double gap = 0.25;    /* seconds between rows, after which anything may have happened */
static const double rare = 0.01;   /* of steps and of rows are not usual */
static const double turns[] = {2 * M_PI, 360}, about = 0.1; /* a heading that wraps, and how nearly so */

static double value_at(const hb_log_rows *r, size_t row, size_t signal)
{
    return r->value[row * r->nsignals + signal];
}

static double usual_step(const hb_log_rows *r, size_t signal, double *memory)
{
    int n = 0;

    for (size_t i = 1; i < r->n; i++)
        if (r->good[i] && r->good[i - 1])
            memory[n++] = fabs(value_at(r, i, signal) - value_at(r, i - 1, signal));
    return n > FEWEST ? hb_quantile(memory, n, 1 - rare) : 0;
}

static bool wraps(double leap)
{
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++)
        if (fabs(fabs(leap) - turns[i]) < about * turns[i])
            return true;
    return false;
}

static void note(hb_log_glitches *g, double value)
{
    double middle = (g->low + g->high) / 2;

    if (!(fabs(value - middle) <= fabs(g->furthest - middle)))
        g->furthest = value;
}

static void cut_far(const hb_log_rows *r, size_t signal, double *memory, hb_log_glitches *g)
{
    int n = 0;

    for (size_t i = 0; i < r->n; i++)
        if (r->good[i])
            memory[n++] = value_at(r, i, signal);
    double low = hb_quantile(memory, n, rare / 2), high = hb_quantile(memory, n, 1 - rare / 2);
    g->low = low - beyond * (high - low);
    g->high = high + beyond * (high - low);
    g->furthest = NAN;
    for (size_t i = 0; i < r->n && n > FEWEST && low < high; i++) {
        double v = value_at(r, i, signal);
        if (r->good[i] && (v < g->low || v > g->high)) {
            r->good[i] = false;
            g->far++;
            note(g, v);
        }
    }
}

/* By how much a signal may differ between two rows. */
static double allowed(const hb_log_rows *r, double usual, size_t from, size_t to)
{
    double rows = r->period > 0 ? (r->time[to] - r->time[from]) / r->period : 1;
    return beyond * usual * fmax(1, rows);
}

/* The first row from `out` on that is back where `last` was, or n. */
static size_t back_at(const hb_log_rows *r, size_t signal, size_t last, size_t out, double usual)
{
    size_t tried = 0;

    for (size_t k = out + 1; k < r->n && (signal < r->nstates ? r->time[k] - r->time[last] <= longest : tried < 1);
         k++) {
        if (!r->good[k])
            continue;
        tried++;
        if (fabs(value_at(r, k, signal) - value_at(r, last, signal)) <= beyond * usual)
            return k;
    }
    return r->n;
}

/* bad: rows of glitches, which count for no other signal yet. */
static void find_glitches(const hb_log_rows *r, size_t signal, bool *bad, hb_log_glitches *g)
{
    size_t last = r->n;

    for (size_t i = 0; i < r->n; i++) {
        if (!r->good[i])
            continue;
        bool first = last == r->n || r->time[i] - r->time[last] > gap;
        double leap = first ? 0 : value_at(r, i, signal) - value_at(r, last, signal);
        if (first || fabs(leap) <= allowed(r, g->usual, last, i) || wraps(leap)) {
            last = i;
            continue;
        }
        size_t back = back_at(r, signal, last, i, g->usual);
        if (back == r->n) {
            bool state = signal < r->nstates;
            r->jump[i] = r->jump[i] || state;
            g->jumps += state;
            last = i;
            continue;
        }
        for (size_t k = i; k < back; k++)
            if (r->good[k]) {
                bad[k] = true;
                g->rows++;
                note(g, value_at(r, k, signal));
            }
        g->glitches++;
        last = back;
        i = back;
    }
}

int hb_log_glitches_cut(const hb_log_rows *r, hb_log_glitches *ret, hb_error *err)
{
    double *memory = malloc((r->n + 1) * sizeof *memory);
    bool *bad = calloc(r->n + 1, sizeof *bad);

    if (!memory || !bad) {
        free(memory);
        free(bad);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    for (size_t s = 0; s < r->nsignals; s++) {
        ret[s] = (hb_log_glitches){0};
        cut_far(r, s, memory, &ret[s]);
    }
    for (size_t s = 0; s < r->nsignals; s++) {
        ret[s].usual = usual_step(r, s, memory);
        if (ret[s].usual > 0)
            find_glitches(r, s, bad, &ret[s]);
    }
    for (size_t i = 0; i < r->n; i++)
        r->good[i] = r->good[i] && !bad[i];
    free(memory);
    free(bad);
    return 0;
}
