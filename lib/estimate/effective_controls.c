/* Responses to steps, integrated; the formulas: effective_controls.h. */
#include "estimate/effective_controls.h"

#include <math.h>
#include <string.h>

#include "estimate/constants.h"

enum { MOST_STEPS = (HB_LOOKED_BACK + 1) * HB_TRANSITION_PARTS + 1 };

double hb_effective_reach(const hb_actuators *a)
{
    double lag = 0;

    for (int i = 0; i < a->nu; i++)
        lag = fmax(lag, a->lag[i]);
    return hb_actuators_longest_delay(a) + HB_SETTLED_LAGS * lag;
}

/* Commands up to the end of a transition, oldest first; times are seconds from its start. */
typedef struct steps {
    int n;
    double start[MOST_STEPS];
    const double *u[MOST_STEPS]; /* nu */
    int parts;                   /* of the transition */
    double h;                    /* seconds of each */
} steps;

/* Returns the seconds before the transition for which commands are known, as far as they matter; < 0: the transition is
 * not known. */
static double gather(const hb_past *past, int nu, double reach, steps *s)
{
    hb_window_entry entry[HB_LOOKED_BACK + 1];
    double known = 0;
    int back = 0;

    s->n = 0;
    if (!past->at(past, 0, &entry[0]))
        return -1;
    while (known < reach && back < HB_LOOKED_BACK && entry[back].continues &&
           past->at(past, back + 1, &entry[back + 1]))
        known += entry[++back].dt;

    double time = -known;
    if (past->rest && known < reach) {
        s->start[s->n] = time;
        s->u[s->n++] = past->rest;
    }
    for (int i = back; i >= 0; i--)
        for (int p = 0; p < entry[i].parts; p++) {
            const double *command = entry[i].u + p * nu;
            /* else it is no step */
            if (s->n == 0 || memcmp(command, s->u[s->n - 1], (size_t)nu * sizeof *command) != 0) {
                s->start[s->n] = time;
                s->u[s->n++] = command;
            }
            time += entry[i].dt / entry[i].parts;
        }
    s->parts = entry[0].parts;
    s->h = entry[0].dt / s->parts;
    return known;
}

/* An instant: the step in force then, the seconds since it, and what is left of the state at that step. */
typedef struct instant {
    int step;
    double since, left;
} instant;

static double left_after(double lag, double seconds)
{
    return lag > HB_NOTHING ? exp(-seconds / lag) : 0;
}

/* The ends of parts, as actuators of this delay see them: parts + 1 of them. */
static void find_instants(const steps *s, double lag, double delay, instant *ret)
{
    int k = 0;

    for (int p = 0; p <= s->parts; p++) {
        double time = p * s->h - delay;
        while (k + 1 < s->n && s->start[k + 1] <= time)
            k++;
        double since = fmax(0, time - s->start[k]);
        ret[p] = (instant){.step = k, .since = time - s->start[k], .left = left_after(lag, since)};
    }
}

/* One control through the lag: its state at each step, and its integral until then. left[k]: of the state of step k at
 * the next one. */
static void integrate(const steps *s, int i, double lag, const double *left, double *state, double *integral)
{
    state[0] = s->u[0][i];
    integral[0] = 0;
    for (int k = 0; k + 1 < s->n; k++) {
        double u = s->u[k][i], off = state[k] - u;
        state[k + 1] = u + off * left[k];
        integral[k + 1] = integral[k] + u * (s->start[k + 1] - s->start[k]) + off * lag * (1 - left[k]);
    }
}

/* The mean of control i over each part, to ret (every nu). Before the first step it was what it is there. */
static void take_means(const steps *s, int nu, int i, double lag, const instant *at, const double *state,
                       const double *integral, double *ret)
{
    double before = 0;

    for (int p = 0; p <= s->parts; p++) {
        double u = s->u[at[p].step][i], off = state[at[p].step] - u;
        double now = integral[at[p].step] + u * at[p].since + off * lag * (1 - at[p].left);
        if (p > 0)
            ret[(p - 1) * nu + i] = (now - before) / s->h;
        before = now;
    }
}

/* left[k] of each step until the next */
static void decay(const steps *s, double lag, double *left)
{
    for (int k = 0; k + 1 < s->n; k++)
        left[k] = left_after(lag, s->start[k + 1] - s->start[k]);
}

double hb_effective_controls(const hb_past *past, const hb_actuators *a, double *ret)
{
    double left[MOST_STEPS], state[MOST_STEPS], integral[MOST_STEPS];
    instant at[HB_TRANSITION_PARTS + 1];
    steps s;
    double known = gather(past, a->nu, hb_effective_reach(a), &s);

    if (known < 0)
        return 0;
    for (int i = 0; i < a->nu; i++) {
        if (i == 0 || a->lag[i] != a->lag[i - 1])
            decay(&s, a->lag[i], left);
        if (i == 0 || a->lag[i] != a->lag[i - 1] || a->delay[i] != a->delay[i - 1])
            find_instants(&s, a->lag[i], a->delay[i], at);
        integrate(&s, i, a->lag[i], left, state, integral);
        take_means(&s, a->nu, i, a->lag[i], at, state, integral, ret);
    }
    return known;
}
