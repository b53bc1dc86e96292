/* The estimator's actuators: given, of the model, or found in flight. */
#include <math.h>
#include <string.h>

#include "estimate/estimator_internal.h"

/* seconds: where to start when nothing is known. A vehicle that is 40 ms faster or slower than planned for swings, and
 * with requests 40 ms apart ever more: this lies between */
static const double cautious_lag = 0.015, cautious_delay = 0.005;
/* seconds by which lag or delay must differ to be taken over */
static const double worth_a_change = 0.002;
/* seconds of deviation of lag and delay together, below which they are as good as known */
static const double certain = 0.004;
/* commands that must be known before a transition, in the longest delay and lag looked for */
static const double known_lags = 0.5;
/* seconds that something hard to believe must go on for before it moves actuators that are known */
static const double hesitate = 0.5;
/* once actuators have been known for so many transitions, the candidates are told one of so many */
enum { LONG = 150, SELDOM = 3 };

static double largest(const double *x, int n)
{
    double most = 0;

    for (int i = 0; i < n; i++)
        most = fmax(most, x[i]);
    return most;
}

void hb_estimator_start_actuators(hb_estimator *e)
{
    const hb_model *m = e->m;
    const hb_actuator_settings *s = &e->s.actuators;
    bool find_lag = e->identifying && s->nlags == 0 && s->lag < 0 && s->max_lag > 0;
    bool find_delay = e->identifying && s->ndelays == 0 && s->delay < 0 && s->max_delay > 0;

    e->actuators = (hb_actuators){.nu = m->nu};
    for (int i = 0; i < m->nu; i++) {
        double lag_given = i < s->nlags && s->lags[i] >= 0 ? s->lags[i] : s->lag;
        double delay_given = i < s->ndelays && s->delays[i] >= 0 ? s->delays[i] : s->delay;
        e->actuators.lag[i] = lag_given < 0 ? m->actuator_lag[i] : lag_given;
        e->actuators.delay[i] = delay_given < 0 ? m->actuator_delay[i] : delay_given;
    }
    double lag = largest(e->actuators.lag, m->nu), delay = largest(e->actuators.delay, m->nu);
    if (find_lag && lag == 0)
        lag = fmin(cautious_lag, s->max_lag);
    if (find_delay && delay == 0)
        delay = fmin(cautious_delay, s->max_delay);
    for (int i = 0; i < m->nu; i++) {
        e->actuators.lag[i] = find_lag ? lag : e->actuators.lag[i];
        e->actuators.delay[i] = find_delay ? delay : e->actuators.delay[i];
    }
    e->learned_with = e->actuators;
    e->hesitating = 0;
    e->explained = UINT64_MAX;
    e->knows_actuators = false;
    e->identifying &= find_lag || find_delay;
    if (e->identifying)
        hb_identification_start(&e->identification, lag, find_lag ? s->max_lag : 0, delay,
                                find_delay ? s->max_delay : 0);
}

/* Transitions are explained with these from now on, those of the window little by little. */
static void take_over(hb_estimator *e, const hb_actuator_belief *b)
{
    const hb_identification *f = &e->identification;
    hb_actuators *a = &e->actuators;
    double by = fmax(f->nlags > 1 ? fabs(b->lag - a->lag[0]) : 0, f->ndelays > 1 ? fabs(b->delay - a->delay[0]) : 0);

    if (by < worth_a_change)
        return;
    for (int i = 0; i < a->nu; i++) {
        a->lag[i] = f->nlags > 1 ? b->lag : a->lag[i];
        a->delay[i] = f->ndelays > 1 ? b->delay : a->delay[i];
    }
}

void hb_estimator_actuators_changed(hb_estimator *e)
{
    if (e->identifying && e->identification.seen > 0)
        hb_identification_forget_coefficients(&e->identification, e->belief.prior, e->belief.prior_vector);
}

/* Controls of all candidates for a transition that is staged or in the window; false: the commands before it are not
 * known. */
static bool set_candidates(hb_estimator *e, uint64_t sequence, hb_window_entry *ret_entry)
{
    const hb_identification *f = &e->identification;
    hb_candidate_rows *c = &e->candidates;
    double known = 0;

    hb_estimator_controls(e, &e->actuators, sequence, ret_entry);
    hb_candidate_rows_start(c, ret_entry->parts, e->control);
    if (f->nlags > 1 && f->ndelays > 1) {
        known = hb_estimator_controls_of_grid(e, sequence);
        for (int k = 0; k < hb_identification_count(f); k++)
            hb_candidate_rows_set(c, k, e->grid_control + k * HB_TRANSITION_PARTS * e->m->nu);
    }
    /* what is not looked for is each control's own */
    for (int k = 0; k < hb_identification_count(f) && (f->nlags == 1 || f->ndelays == 1); k++) {
        hb_actuators a = hb_identification_candidate(f, k);
        if (f->nlags == 1)
            memcpy(a.lag, e->actuators.lag, sizeof a.lag);
        if (f->ndelays == 1)
            memcpy(a.delay, e->actuators.delay, sizeof a.delay);
        known = fmax(known, hb_estimator_controls(e, &a, sequence, ret_entry));
        hb_candidate_rows_set(c, k, e->control);
    }
    return known >= f->delay[f->ndelays - 1] + known_lags * f->lag[f->nlags - 1];
}

/* Of transitions like this one, the candidates hear one in so many. */
static int told_one_in(const hb_estimator *e, uint64_t sequence)
{
    bool plain = !e->outlying[hb_estimator_slot(e, sequence)] && hb_window_at(&e->window, sequence).continues;

    return plain && e->knows_actuators && e->identification.seen >= LONG ? SELDOM : 1;
}

bool hb_estimator_asks_bank(const hb_estimator *e, uint64_t sequence)
{
    return e->identifying && sequence % (uint64_t)told_one_in(e, sequence) == 0;
}

void hb_estimator_explain(hb_estimator *e, uint64_t sequence)
{
    int n = hb_identification_count(&e->identification);
    hb_window_entry entry;

    e->explained = UINT64_MAX;
    if (!e->usable[hb_estimator_slot(e, sequence)] || !set_candidates(e, sequence, &entry))
        return;
    hb_estimator_load(e, 0, sequence);
    int count = hb_candidate_rows_load(&e->candidates, &e->rows, 1, &entry);
    hb_rows_evaluate_coarsely(&e->rows, e->workspace, 1 + count, e->along);
    if (hb_candidate_rows_combine(&e->candidates, n, &e->rows, 0, 1, entry.dz, hb_estimator_recall(e, sequence)))
        e->explained = sequence;
}

bool hb_estimator_teach_bank(hb_estimator *e, uint64_t sequence)
{
    hb_identification *f = &e->identification;
    hb_window_entry entry = hb_window_at(&e->window, sequence);

    if (e->explained != sequence)
        hb_estimator_explain(e, sequence);
    if (e->explained != sequence)
        return false;
    if (!entry.continues) {
        /* after a break this may be another vehicle: what is known of the last one counts for little */
        hb_identification_doubt(f);
        e->knows_actuators = false;
    }
    hb_identification_learn(f, told_one_in(e, sequence) * entry.dt, e->belief.noise, e->belief.prior,
                            e->belief.prior_vector, e->candidates.row);
    e->explained = UINT64_MAX;
    return true;
}

void hb_estimator_identify(hb_estimator *e, uint64_t sequence)
{
    if (!hb_estimator_teach_bank(e, sequence))
        return;
    /* a payload that drops is no change of the actuators: once they are known, what is hard to believe must go on for
     * a while before it moves them */
    bool doubtful = e->outlying[hb_estimator_slot(e, sequence)];
    e->hesitating = doubtful && e->knows_actuators ? e->hesitating + hb_window_at(&e->window, sequence).dt : 0;
    if (e->hesitating > 0 && e->hesitating <= hesitate)
        return;
    hb_actuator_belief belief = hb_identification_belief(&e->identification);
    e->knows_actuators = belief.confident;
    take_over(e, &belief);
}

/* The present actuators, with a lag or a delay a deviation longer, or shorter at the upper end. */
static hb_actuators variant(const hb_estimator *e, const hb_actuator_belief *b, bool of_lag)
{
    const hb_identification *f = &e->identification;
    hb_actuators a = e->actuators;

    for (int i = 0; i < a.nu; i++) {
        double *of = of_lag ? &a.lag[i] : &a.delay[i], by = of_lag ? b->lag_deviation : b->delay_deviation;
        double most = of_lag ? f->lag[f->nlags - 1] : f->delay[f->ndelays - 1];
        *of = *of + by <= most ? *of + by : fmax(0, *of - by);
    }
    return a;
}

double hb_estimator_actuator_variance(const hb_estimator *e)
{
    if (!e->identifying)
        return 0;
    hb_actuator_belief b = hb_identification_belief(&e->identification);
    if (b.lag_deviation + b.delay_deviation < certain)
        return 0;
    return b.lag_deviation * b.lag_deviation + b.delay_deviation * b.delay_deviation;
}

int hb_estimator_load_variants(hb_estimator *e, int lane)
{
    const hb_identification *f = &e->identification;
    hb_actuators present = e->actuators;
    hb_actuator_belief b;
    int count = 0;

    if (!e->identifying || e->nstaged != 1)
        return 0;
    if (hb_estimator_actuator_variance(e) == 0)
        return 0;
    b = hb_identification_belief(f);
    for (int of_lag = 0; of_lag < 2; of_lag++) {
        if ((of_lag ? f->nlags : f->ndelays) < 2)
            continue;
        e->actuators = variant(e, &b, of_lag);
        hb_estimator_load(e, lane + count++, e->window.next);
    }
    e->actuators = present;
    return count;
}

void hb_estimator_compare_variants(hb_estimator *e, int lane, int count)
{
    int nx = e->m->nx;

    memset(e->open, 0, (size_t)nx * sizeof *e->open);
    if (count == 0 || !hb_rows_of_lane(&e->rows, 0, e->staged[0].dz))
        return;
    for (int d = 0; d < nx; d++)
        e->error[d] = hb_estimator_error(e, e->rows.row, e->along, d);
    for (int k = 0; k < count; k++) {
        if (!hb_rows_of_lane(&e->rows, lane + k, e->staged[0].dz))
            continue;
        for (int d = 0; d < nx; d++) {
            double moved = hb_estimator_error(e, e->rows.row, e->along, d) - e->error[d];
            e->open[d] += moved * moved;
        }
    }
}

void hb_estimator_show_actuators(hb_estimator *e)
{
    e->shown = e->actuators;
    if (e->identifying) {
        e->shown_belief = hb_identification_belief(&e->identification);
        return;
    }
    e->shown_belief = (hb_actuator_belief){
        .lag = largest(e->actuators.lag, e->m->nu), .delay = largest(e->actuators.delay, e->m->nu), .confident = true};
}
