/* Means of responses to steps; the formulas: effective_controls.h. */
#include "estimate/effective_controls.h"

#include <math.h>

#include "estimate/constants.h"

enum { MOST_STEPS = HB_LOOKED_BACK + 2 };

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
    double length;               /* seconds, of the transition */
} steps;

/* Returns the seconds before the transition for which commands are known, as far as they matter; < 0: the transition is
 * not known. */
static double gather(const hb_past *past, double reach, steps *s)
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
    for (int i = back; i >= 0; time += entry[i--].dt) {
        s->start[s->n] = time;
        s->u[s->n++] = entry[i].u;
    }
    s->length = entry[0].dt;
    return known;
}

/* Integral of the response to a unit step, x seconds after it. */
static double integral(double lag, double x)
{
    if (x <= 0)
        return 0;
    return x + (lag > HB_NOTHING ? lag * expm1(-x / lag) : 0);
}

/* How much each command counts for in the mean over the transition. */
static void find_weights(const steps *s, double lag, double delay, double *ret)
{
    double here = 1; /* the first command was in force since ever */

    for (int k = 0; k < s->n; k++) {
        double after = k + 1 < s->n ? s->start[k + 1] + delay : s->length;
        double next = (integral(lag, s->length - after) - integral(lag, -after)) / s->length;
        ret[k] = here - next;
        here = next;
    }
}

double hb_effective_controls(const hb_past *past, const hb_actuators *a, double *ret)
{
    double weight[MOST_STEPS];
    steps s;
    double known = gather(past, hb_effective_reach(a), &s);

    if (known < 0)
        return 0;
    for (int i = 0; i < a->nu; i++) {
        if (i == 0 || a->lag[i] != a->lag[i - 1] || a->delay[i] != a->delay[i - 1])
            find_weights(&s, a->lag[i], a->delay[i], weight);
        ret[i] = 0;
        for (int k = 0; k < s.n; k++)
            ret[i] += weight[k] * s.u[k][i];
    }
    return known;
}
