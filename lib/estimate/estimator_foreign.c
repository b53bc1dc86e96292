/* Dynamics that no trained vehicle has, recognised within a few transitions: a rotor that breaks turns a vehicle over
 * in a sixth of a second.
 *
 * Transitions in a row that the present coefficients find impossible are one of three things:
 *
 *     a lie       a sample between two of them is wrong: the transition from before it to after it is as expected
 *     a change    coefficients of another trained vehicle explain all of them: a payload was picked up or dropped
 *     foreign     neither: no vehicle of the trained population moves like that
 *
 * So the run is fitted on its own, with the prior and little of what was known before, and what the fit leaves is
 * compared with noise and tolerance, and its coefficients with the population. */
#include <math.h>

#include "estimate/estimator_internal.h"

/* what the fit may leave of a run, per state and transition, in the variance that is expected */
static const double unexplained = 8;
/* transitions that what was known before counts for: enough for directions of which the run says nothing */
static const double worth = 0.05;

enum { FEWEST = 2, CERTAINLY = 3 }; /* transitions of a run; from where on no single sample can be the cause */

/* Newest transitions in a row that follow on one another and are impossible. */
static int impossible_of_late(const hb_estimator *e)
{
    int run = 0, count = hb_window_count(&e->window);

    while (run < HB_JUDGED && run < count) {
        uint64_t sequence = e->window.next - 1 - (uint64_t)run;
        size_t at = (size_t)(sequence % (uint64_t)e->nw);
        if (!e->usable[at] || e->belief[at] > 0)
            break;
        run++;
        if (!hb_window_at(&e->window, sequence).continues)
            break;
    }
    return run;
}

/* Mean over the states of the squares of what coefficients leave of rows.row, in the variance that is expected. */
static double left_of_row(hb_estimator *e, const hb_real *coefficient)
{
    double sum = 0;

    hb_bayes_tolerate(e, e->rows.row, NULL);
    for (int d = 0; d < e->m->nx; d++) {
        double error = hb_estimator_error(e, e->rows.row, coefficient, d);
        sum += error * error / (e->posterior.noise[d] + e->tolerance[d]);
    }
    return sum / e->m->nx;
}

/* Controls of two transitions as those of one, to `ret`; 0: they cannot be, else its parts. */
static int join_controls(hb_estimator *e, uint64_t sequence, double *ret)
{
    hb_window_entry entry;
    int nu = e->m->nu, parts[2];

    for (int k = 0; k < 2; k++) {
        hb_estimator_controls(e, &e->actuators, sequence + (uint64_t)k, &entry);
        int each = entry.parts, half = each / 2;
        parts[k] = each == 1 ? 1 : half;
        if (each > 1 && each % 2 != 0)
            return 0;
        for (int p = 0; p < parts[k]; p++)
            for (int i = 0; i < nu; i++)
                ret[(k * parts[0] + p) * nu + i] =
                    each == 1 ? e->control[i] : (e->control[2 * p * nu + i] + e->control[(2 * p + 1) * nu + i]) / 2;
    }
    return parts[0] == parts[1] ? 2 * parts[0] : 0;
}

/* Whether the newest two transitions are as expected when the sample between them is left out. */
static bool sample_between_lies(hb_estimator *e)
{
    uint64_t first = e->window.next - 2;
    hb_window_entry a = hb_window_at(&e->window, first), b = hb_window_at(&e->window, first + 1);
    int parts = join_controls(e, first, e->joined_control);

    if (parts == 0 || e->m->integration == HB_DIRECT)
        return true; /* that cannot be told */
    for (int d = 0; d < e->m->nx; d++)
        e->joined_motion[d] = a.dz[d] + b.dz[d];
    hb_window_entry joined = {.dt = a.dt + b.dt, .parts = parts, .z = a.z, .dz = e->joined_motion};
    hb_rows_load(&e->rows, 0, &joined, e->joined_control);
    hb_rows_evaluate(&e->rows, e->workspace, 1, e->coefficient);
    return hb_rows_of_lane(&e->rows, 0, e->joined_motion) && left_of_row(e, e->coefficient) < unexplained;
}

/* Whether the newest `run` transitions are those of a vehicle of the trained population. */
static bool another_vehicle(hb_estimator *e, int run)
{
    double left = 0;

    if (!hb_bayes_try_cut(e, run, worth) ||
        hb_posterior_plausibility(&e->posterior, e->trial_solution) > e->s.plausible)
        return false;
    for (int age = 0; age < run; age++)
        hb_estimator_load(e, age, e->window.next - 1 - (uint64_t)age);
    hb_rows_evaluate(&e->rows, e->workspace, run, e->trial);
    for (int age = 0; age < run; age++) {
        if (!hb_rows_of_lane(&e->rows, age, hb_window_at(&e->window, e->window.next - 1 - (uint64_t)age).dz))
            return false;
        left += left_of_row(e, e->trial) / run;
    }
    return left < unexplained;
}

bool hb_bayes_foreign(hb_estimator *e)
{
    int run = impossible_of_late(e);

    if (run < FEWEST || run >= hb_window_count(&e->window))
        return false;
    if (run < CERTAINLY && sample_between_lies(e))
        return false;
    return !another_vehicle(e, run);
}
