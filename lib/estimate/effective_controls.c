/* Step responses added up; the formulas: effective_controls.h. */
#include "estimate/effective_controls.h"

#include <math.h>
#include <string.h>

/* lags after which a step is over, except for 0.7 % */
static const double settled = 5;
/* a lag this short, in seconds, is none */
static const double negligible = 1e-6;

enum { MOST_BACK = 48, MOST_STEPS = (MOST_BACK + 1) * HB_TRANSITION_PARTS + 1 };

double hb_effective_reach(const hb_actuators *a)
{
    double lag = 0;

    for (int i = 0; i < a->nu; i++)
        lag = fmax(lag, a->lag[i]);
    return hb_actuators_longest_delay(a) + settled * lag;
}

static double integrated_step(double lag, double x)
{
    if (x <= 0)
        return 0;
    return lag > negligible ? x + lag * expm1(-x / lag) : x;
}

/* share[p x n + k]: of step k in part p */
static void shares(double lag, double delay, const double *start, int n, double h, int parts, double *share)
{
    for (int k = 1; k < n; k++) {
        double before = integrated_step(lag, -delay - start[k]);
        for (int p = 0; p < parts; p++) {
            double after = integrated_step(lag, (p + 1) * h - delay - start[k]);
            share[p * n + k] = (after - before) / h;
            before = after;
        }
    }
}

double hb_effective_controls(const hb_past *past, const hb_actuators *a, double *ret)
{
    double reach = hb_effective_reach(a), known = 0;
    hb_window_entry entry[MOST_BACK + 1];
    int back = 0, n = 0;

    if (!past->at(past, 0, &entry[0]))
        return 0;
    while (known < reach && back < MOST_BACK && entry[back].continues && past->at(past, back + 1, &entry[back + 1]))
        known += entry[++back].dt;

    /* steps, oldest first, in seconds from the start of the transition */
    double start[MOST_STEPS];
    const double *u[MOST_STEPS];
    double time = -known;
    if (past->rest && known < reach) {
        start[n] = time;
        u[n++] = past->rest;
    }
    for (int i = back; i >= 0; i--)
        for (int p = 0; p < entry[i].parts; p++) {
            const double *command = entry[i].u + p * a->nu;
            if (n == 0 || memcmp(command, u[n - 1], (size_t)a->nu * sizeof *command) != 0) { /* else it is no step */
                start[n] = time;
                u[n++] = command;
            }
            time += entry[i].dt / entry[i].parts;
        }

    int parts = entry[0].parts;
    double share[HB_TRANSITION_PARTS * MOST_STEPS];
    for (int i = 0; i < a->nu; i++) {
        if (i == 0 || a->lag[i] != a->lag[i - 1] || a->delay[i] != a->delay[i - 1])
            shares(a->lag[i], a->delay[i], start, n, entry[0].dt / parts, parts, share);
        for (int p = 0; p < parts; p++) {
            double sum = u[0][i];
            for (int k = 1; k < n; k++)
                sum += share[p * n + k] * (u[k][i] - u[k - 1][i]);
            ret[p * a->nu + i] = sum;
        }
    }
    return known;
}
