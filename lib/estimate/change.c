/* Page's cumulative-sum test with a variance that is learned on the way; formulas: change.h. */
#include "estimate/change.h"

#include <math.h>
#include <string.h>

/* What a squared relative error may be on average without counting as evidence, and the most that one counts. */
static const double drift = 3, cap = 50;
/* A squared relative error of a sample that cannot be one from before the change. */
static const double large = 6;
/* Error that is excused as inexactness of the model: fractions of the present and the recent motion, and rounding. */
static const double inexact_now = 0.05, inexact_lately = 0.1, rounding = 1e-5;
/* An error counts at most this many times its variance when the variance is learned. */
static const double outlier = 9;

enum {
    LEARN = 40,    /* samples from which a variance is trusted, as far as so few can be */
    CERTAIN = 150, /* samples from which it is taken as it is; of fewer, it is widened by as much as they are fewer */
    RELEARN = 30,  /* samples that those from before a change count for after it */
    MEMORY = 300,  /* samples over which it is averaged */
    SUSPECT = 20,  /* samples of a run that do not teach */
    SETTLING = 20, /* samples after an alarm in which the coefficients find their new values */
};

void hb_change_lay_out(hb_change *d, hb_arena *arena)
{
    d->variance = hb_arena_take(arena, (size_t)d->nx, sizeof *d->variance);
    d->motion = hb_arena_take(arena, (size_t)d->nx, sizeof *d->motion);
    d->statistic = hb_arena_take(arena, (size_t)d->nx, sizeof *d->statistic);
    d->run = hb_arena_take(arena, (size_t)d->nx, sizeof *d->run);
}

static void clear_statistics(hb_change *d)
{
    for (int i = 0; i < d->nx; i++)
        d->statistic[i] = 0;
}

static void clear_runs(hb_change *d)
{
    for (int i = 0; i < d->nx; i++)
        d->run[i] = 0;
}

void hb_change_reset(hb_change *d)
{
    clear_statistics(d);
    clear_runs(d);
    memset(d->variance, 0, (size_t)d->nx * sizeof *d->variance);
    memset(d->motion, 0, (size_t)d->nx * sizeof *d->motion);
    d->learned = 0;
    d->trusted = false;
    d->settling = 0;
}

static double square(double x)
{
    return x * x;
}

/* Adds the evidence of a sample in one state. */
static void weigh(hb_change *d, int i, double error, double expected)
{
    double q = fmin(square(error) / expected, cap);

    d->statistic[i] = fmax(0, d->statistic[i] + q - drift);
    d->run[i] = q > large ? d->run[i] + 1 : 0;
}

/* On an alarm, the number of samples that it speaks of, and the state whose sum is the largest; else 0. */
static int look_for_alarm(hb_change *d, int *ret_state)
{
    int alarm = -1;

    for (int i = 0; i < d->nx; i++)
        if (d->statistic[i] > d->threshold && (alarm < 0 || d->statistic[i] > d->statistic[alarm]))
            alarm = i;
    if (alarm < 0)
        return 0;
    *ret_state = alarm;
    clear_statistics(d);
    return d->run[alarm] > HB_CHANGE_FEWEST ? d->run[alarm] : HB_CHANGE_FEWEST;
}

int hb_change_watch(hb_change *d, const double *e, const double *expected, int *ret_state)
{
    if (d->settling > 0) {
        d->settling--;
        return 0;
    }
    for (int i = 0; i < d->nx; i++)
        weigh(d, i, e[i], expected[i]);
    return look_for_alarm(d, ret_state);
}

/* Wild errors count in part, so that they can neither hide a change nor last; and those of a run, which may be of new
 * dynamics, not before it has lasted long enough for an alarm. */
void hb_change_learn(hb_change *d, const double *e, const double *dz)
{
    d->learned = d->learned < MEMORY ? d->learned + 1 : MEMORY;
    for (int i = 0; i < d->nx; i++) {
        double seen = square(e[i]);
        if (d->learned < CERTAIN && d->run[i] >= HB_CHANGE_FEWEST && d->run[i] <= SUSPECT)
            continue;
        if (d->trusted)
            seen = fmin(seen, outlier * (d->variance[i] + square(rounding)));
        d->variance[i] += (seen - d->variance[i]) / d->learned;
        d->motion[i] += (square(dz[i]) - d->motion[i]) / d->learned;
    }
    d->trusted |= d->learned >= LEARN;
}

int hb_change_push(hb_change *d, const double *e, const double *dz, int *ret_state)
{
    int fresh = 0;

    if (d->settling > 0) {
        d->settling--;
        return 0;
    }

    /* evidence, by the variance from before this sample */
    if (d->trusted) {
        double widening = fmax(1, (double)CERTAIN / d->learned);
        for (int i = 0; i < d->nx; i++)
            weigh(d, i, e[i],
                  widening * d->variance[i] + square(inexact_now * dz[i]) + square(inexact_lately) * d->motion[i] +
                      square(rounding));
        fresh = look_for_alarm(d, ret_state);
    }
    hb_change_learn(d, e, dz);
    return fresh;
}

void hb_change_settle(hb_change *d)
{
    clear_runs(d);
    d->settling = SETTLING;
    /* the new dynamics may be predicted less well: its errors soon outweigh the old ones */
    d->learned = RELEARN;
}
