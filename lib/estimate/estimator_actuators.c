/* The estimator's actuators: given, of the model, or found in flight as unknowns of the belief that stay. */
#include <math.h>
#include <string.h>

#include "estimate/estimator_internal.h"

static double largest(const double *x, int n)
{
    double most = 0;

    for (int i = 0; i < n; i++)
        most = fmax(most, x[i]);
    return most;
}

int hb_estimator_unknown_actuators(const hb_model *m, const hb_estimator_settings *s, hb_unknown_actuator *ret)
{
    const hb_actuator_settings *a = &s->actuators;
    double lag = largest(m->actuator_lag, m->nu), delay = largest(m->actuator_delay, m->nu);
    int count = 0;

    /* a network of whole periods knows nothing of what happens within */
    if (!s->posterior || s->method != HB_LEAST_SQUARES || !a->identify || m->nu == 0 || m->integration != HB_COMBINED)
        return 0;
    if (a->nlags == 0 && a->lag < 0 && a->max_lag > 0)
        ret[count++] = (hb_unknown_actuator){.is_lag = true,
                                             .start = fmin(lag > 0 ? lag : HB_USUAL_LAG, a->max_lag),
                                             .spread = HB_LAG_SPREAD,
                                             .most = a->max_lag};
    if (a->ndelays == 0 && a->delay < 0 && a->max_delay > 0)
        ret[count++] = (hb_unknown_actuator){.start = fmin(delay > 0 ? delay : HB_USUAL_DELAY, a->max_delay),
                                             .spread = HB_DELAY_SPREAD,
                                             .most = a->max_delay};
    return count;
}

void hb_estimator_bound_actuators(const hb_unknown_actuator *unknown, int count, double *least, double *most)
{
    for (int k = 0; k < count; k++) {
        least[k] = -unknown[k].start / unknown[k].spread;
        most[k] = (unknown[k].most - unknown[k].start) / unknown[k].spread;
    }
}

/* Sets what is unknown: f of the unknown k. */
static void set(hb_actuators *a, const hb_unknown_actuator *unknown, double f)
{
    double seconds = fmin(fmax(0, unknown->start + unknown->spread * f), unknown->most);

    for (int i = 0; i < a->nu; i++)
        *(unknown->is_lag ? &a->lag[i] : &a->delay[i]) = seconds;
}

void hb_estimator_start_actuators(hb_estimator *e)
{
    const hb_model *m = e->m;
    const hb_actuator_settings *s = &e->s.actuators;

    e->actuators = (hb_actuators){.nu = m->nu};
    for (int i = 0; i < m->nu; i++) {
        double lag_given = i < s->nlags && s->lags[i] >= 0 ? s->lags[i] : s->lag;
        double delay_given = i < s->ndelays && s->delays[i] >= 0 ? s->delays[i] : s->delay;
        e->actuators.lag[i] = lag_given < 0 ? m->actuator_lag[i] : lag_given;
        e->actuators.delay[i] = delay_given < 0 ? m->actuator_delay[i] : delay_given;
    }
    memset(e->at, 0, sizeof e->at);
    for (int k = 0; k < e->nunknown; k++)
        set(&e->actuators, &e->unknown[k], 0);
}

/* What the belief says of the unknowns now: f to mean, and its deviations. */
static void ask(hb_estimator *e, double *mean)
{
    double covariance[HB_MOST_FIXED * HB_MOST_FIXED];

    hb_belief_fixed(&e->belief, mean, covariance);
    for (int k = 0; k < e->nunknown; k++)
        e->deviation[k] = sqrt(fmax(0, covariance[k * (e->nunknown + 1)]));
}

void hb_estimator_take_actuators(hb_estimator *e)
{
    hb_actuator_belief *b = &e->actuator_belief;

    if (e->nunknown > 0)
        ask(e, e->at);
    for (int k = 0; k < e->nunknown; k++)
        set(&e->actuators, &e->unknown[k], e->at[k]);
    *b = (hb_actuator_belief){
        .lag = largest(e->actuators.lag, e->m->nu), .delay = largest(e->actuators.delay, e->m->nu), .confident = true};
    for (int k = 0; k < e->nunknown; k++) {
        double seconds = e->deviation[k] * e->unknown[k].spread;
        *(e->unknown[k].is_lag ? &b->lag_deviation : &b->delay_deviation) = seconds;
        b->confident &= seconds < HB_ACTUATORS_KNOWN;
    }
}

void hb_estimator_choose_variants(hb_estimator *e)
{
    double mean[HB_MOST_FIXED];

    /* not those of when e->at was taken: a belief that begins anew looks far to both sides */
    if (e->nunknown > 0)
        ask(e, mean);
    for (int k = 0; k < e->nunknown; k++) {
        const hb_unknown_actuator *u = &e->unknown[k];
        /* towards the side that has more room */
        double up = e->belief.most[k] - e->at[k], down = e->at[k] - e->belief.least[k];
        double by = fmax(e->deviation[k], HB_LEAST_STEP / u->spread);
        e->step[k] = up >= down ? fmin(by, up) : -fmin(by, down);
    }
}

void hb_estimator_load_variants(hb_estimator *e, uint64_t sequence, int first)
{
    hb_actuators present = e->actuators;

    for (int k = 0; k < e->nunknown; k++) {
        set(&e->actuators, &e->unknown[k], e->at[k] + e->step[k]);
        hb_estimator_load(e, first + k, sequence);
        e->actuators = present;
    }
}

void hb_estimator_take_slopes(hb_estimator *e, int lane, int first)
{
    int ld = e->rows.ld, nb = e->m->nb;

    for (int d = 0; d < e->m->nx; d++) {
        const double *end = e->rows.end + d * HB_STRIDE;
        for (int k = 0; k < e->nunknown; k++)
            e->rows.row[d * ld + nb + k] = (end[first + k] - end[lane]) / e->step[k];
    }
}

bool hb_estimator_actuators_moved(const hb_estimator *e)
{
    bool moved = false;

    for (int k = 0; k < e->nunknown; k++)
        moved |= fabs(e->at[k] - e->learned_at[k]) > e->deviation[k];
    return moved;
}
