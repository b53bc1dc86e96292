/* Transitions into the belief, what it says of them, and what a restart must not lose of it. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/estimator_internal.h"

double hb_estimator_past(const hb_estimator *e)
{
    double needed = 0;

    for (int i = 0; i < e->actuators.nu; i++)
        needed = fmax(needed, e->actuators.delay[i] + e->actuators.lag[i]);
    return needed;
}

/* ---- health ---- */

static void take_coefficients(hb_estimator *e)
{
    const hb_belief *b = &e->belief;
    int nb = b->nb;

    for (int k = 0; k < b->nproblems; k++)
        for (int i = 0; i < nb; i++) {
            int at = hb_estimator_index(e, k, i);
            e->along[at] = (hb_real)b->mean[k * b->n + i];
            if (e->warm) /* else they are the prior's, or somebody's who gave them */
                e->coefficient[at] = e->along[at];
            e->variance[at] = b->covariance[(size_t)(k * nb + i) * (size_t)nb + (size_t)i];
        }
}

static hb_estimate_status status_of(const hb_estimator *e)
{
    const hb_belief *b = &e->belief;
    const hb_health *h = &e->health;

    if (!e->warm)
        return HB_ESTIMATE_WARMING_UP;
    if (!isfinite(h->condition))
        return HB_ESTIMATE_SINGULAR;
    if (h->out_of_span > e->s.span_threshold || h->plausibility > e->s.plausible)
        return HB_ESTIMATE_OUT_OF_SPAN;
    return *b->outlier > 0.5 ? HB_ESTIMATE_IMPLAUSIBLE : HB_ESTIMATE_OK;
}

void hb_belief_report(hb_estimator *e)
{
    const hb_belief *b = &e->belief;
    const hb_run *run = &b->run[(int)*b->main_run];
    hb_health *h = &e->health;
    double noise = 0, least = INFINITY, most = 0;
    int nb = b->nb;

    h->samples = hb_window_count(&e->window);
    h->condition = b->condition;
    for (int d = 0; d < b->nx; d++)
        noise += run->noise[d] / b->nx;
    h->expected_error = sqrt(noise);
    for (int i = 0; i < nb; i++) {
        double known = 0;
        for (int d = 0; d < b->nx; d++)
            known += hb_belief_seen(b, run, d, i);
        least = fmin(least, known);
        most = fmax(most, known);
    }
    h->excitation = most > 0 ? fmax(0, least / most) : 0;
    h->plausibility = hb_belief_plausibility(b, b->mean);
    h->adapted = e->warm ? hb_belief_adapted(b) : 0;
    h->outlier = *b->outlier;
    /* what nothing explains at once, and errors that last */
    h->out_of_span = fmax(b->span / (b->span + HB_CLIP * HB_CLIP), *b->foreign * b->unexplained);
    h->changes = e->told_before + (uint64_t)*b->changes;
    h->status = status_of(e);
}

void hb_belief_show(hb_estimator *e)
{
    hb_belief_describe(&e->belief);
    take_coefficients(e);
    hb_estimator_take_actuators(e);
    hb_window_save_coefficients(&e->window, e->health.version, e->warm, e->coefficient);
    hb_belief_report(e);
}

/* ---- learning ---- */

/* rows.row is that of a transition whose controls are known or not; returns whether it was believed. */
static bool learn(hb_estimator *e, const hb_window_entry *entry, bool usable)
{
    if (!usable) {
        *e->belief.fresh_start = 1;
        return false;
    }
    hb_belief_learn(&e->belief, &(hb_evidence){.row = e->rows.row,
                                               .at = e->at,
                                               .carry = e->sensitivity.lanes > 0 ? e->sensitivity.phi : NULL,
                                               .dt = entry->dt,
                                               .continues = entry->continues});
    return *e->belief.outlier <= 0.5;
}

/* Where for a while nothing followed on anything, the command is taken to have been held. */
static bool is_usable(hb_estimator *e, double known, double dt, bool impossible)
{
    bool settled = known >= hb_estimator_past(e) - 1e-9;

    e->unsettled = settled ? 0 : e->unsettled + dt;
    return !impossible && (settled || e->unsettled > HB_CONFIRM_TIME);
}

int hb_belief_learn_staged(hb_estimator *e)
{
    int used = 0;

    for (int lane = 0; lane < e->nstaged; lane++) {
        hb_window_entry entry;
        if (!hb_estimator_take_staged(e, lane, &entry))
            continue;
        used++;
        size_t slot = hb_estimator_slot(e, e->window.next);
        bool usable = is_usable(e, e->known[lane], entry.dt, e->impossible[lane]);
        hb_estimator_predict(e);
        e->usable[slot] = usable;
        bool outlying = !learn(e, &entry, usable) && usable;
        if (e->impossible[lane])
            *e->belief.outlier = 1;
        e->health.implausible += e->impossible[lane] || outlying;
        hb_estimator_slide(e, &entry);
    }
    if (used == 0)
        return 0;
    e->warm |= hb_window_count(&e->window) >= e->warmup;
    e->health.version += e->warm;
    hb_belief_show(e);
    return used;
}

static void relearn(hb_estimator *e, uint64_t sequence, bool finite)
{
    hb_window_entry entry = hb_window_at(&e->window, sequence);

    if (!finite)
        return;
    learn(e, &entry, e->usable[hb_estimator_slot(e, sequence)]);
    hb_rows_keep(&e->rows, sequence);
}

bool hb_belief_is_outdated(const hb_estimator *e)
{
    int count = hb_window_count(&e->window);

    /* only as a whole: what is left out would be forgotten. While it is young, whenever there is half as much again:
     * the first transitions were explained with the population's coefficients, which may be far off */
    if (count == 0 || count > HB_LOOKED_BACK || e->window.first != e->origin)
        return false;
    return hb_estimator_actuators_moved(e) || (e->seconds < HB_SOON && 2 * count >= 3 * e->learned_from);
}

void hb_belief_relearn(hb_estimator *e, int most)
{
    int count = hb_window_count(&e->window) < most ? hb_window_count(&e->window) : most;

    e->told_before += (uint64_t)*e->belief.changes;
    *e->belief.changes = 0;
    hb_belief_restart(&e->belief, e->window.next - (uint64_t)count > e->origin || e->origin == UINT64_MAX);
    memcpy(e->learned_at, e->at, sizeof e->at);
    e->learned_from = count;
    hb_estimator_evaluate(e, e->window.next - (uint64_t)count, relearn);
    e->belief.confirms_later = false;
}

void hb_belief_forget(hb_estimator *e)
{
    hb_belief_reset(&e->belief);
    e->unsettled = 0;
    e->told_before = 0;
    e->learned_from = 1;
    memset(e->learned_at, 0, sizeof e->learned_at);
    for (int k = 0; k < e->belief.nproblems; k++)
        for (int i = 0; i < e->m->nb; i++)
            e->coefficient[hb_estimator_index(e, k, i)] = (hb_real)e->belief.c0[k * e->belief.n + i];
    take_coefficients(e);
    e->health.plausibility = 0;
}

void hb_belief_take_seed(hb_estimator *e)
{
    hb_belief *b = &e->belief;
    int nb = b->nb;

    for (int k = 0; k < b->nproblems; k++)
        for (int i = 0; i < nb; i++)
            b->former[k * nb + i] = (double)e->coefficient[hb_estimator_index(e, k, i)];
    hb_belief_seed(b, b->former);
    take_coefficients(e);
}

/* ---- restart ---- */

/* The single numbers that are kept; all are double, so that they can be kept as numbers. */
typedef struct knowledge {
    double next;   /* of the window when it was kept */
    double origin; /* negative: it is not known */
    double unsettled, seconds, told_before;
} knowledge;

enum { SINGLE = sizeof(knowledge) / sizeof(double) };

/* Where the parts begin, in numbers. */
typedef struct parts {
    size_t rest, lag, delay; /* nu each */
    size_t belief;
} parts;

static parts parts_of(const hb_model *m)
{
    size_t nu = (size_t)m->nu;

    return (parts){.rest = SINGLE, .lag = SINGLE + nu, .delay = SINGLE + 2 * nu, .belief = SINGLE + 3 * nu};
}

int hb_belief_kept(const hb_model *m, const hb_estimator_settings *s)
{
    hb_unknown_actuator unknown[HB_MOST_FIXED];
    int nfixed = hb_estimator_unknown_actuators(m, s, unknown);
    hb_belief b = {.m = m, .ld = hb_estimator_row_length(m, nfixed), .nfixed = nfixed};

    hb_belief_lay_out(&b, &(hb_arena){0});
    return (int)(parts_of(m).belief + b.nstate);
}

static void put(double *to, const double *from, int n)
{
    if (n > 0)
        memcpy(to, from, (size_t)n * sizeof *to);
}

void hb_belief_keep(hb_estimator *e)
{
    double *at = hb_window_begin_belief(&e->window);
    const parts where = parts_of(e->m);
    int nu = e->m->nu;

    if (!at)
        return;
    const knowledge k = {.next = (double)e->window.next,
                         .origin = e->origin == UINT64_MAX ? -1 : (double)e->origin,
                         .unsettled = e->unsettled,
                         .seconds = e->seconds,
                         .told_before = (double)e->told_before};

    memcpy(at, &k, sizeof k);
    put(at + where.rest, e->rest_control, nu);
    put(at + where.lag, e->actuators.lag, nu);
    put(at + where.delay, e->actuators.delay, nu);
    memcpy(at + where.belief, e->belief.state, e->belief.nstate * sizeof *at);
    hb_window_end_belief(&e->window);
}

/* What is given must be what was given then; what is found in flight follows from the belief. */
static bool same_actuators(const hb_estimator *e, const double *lag, const double *delay)
{
    bool finds[2] = {false, false};

    for (int k = 0; k < e->nunknown; k++)
        finds[e->unknown[k].is_lag] = true;
    for (int i = 0; i < e->m->nu; i++)
        if ((!finds[true] && fabs(lag[i] - e->actuators.lag[i]) > 1e-9) ||
            (!finds[false] && fabs(delay[i] - e->actuators.delay[i]) > 1e-9))
            return false;
    return true;
}

int hb_belief_take_up(hb_estimator *e, hb_error *why)
{
    hb_window *w = &e->window;
    const double *at = hb_window_belief(w);
    const parts where = parts_of(e->m);
    knowledge k;

    if (!at)
        return hb_fail(why, ENODATA, "it was not kept");
    memcpy(&k, at, sizeof k);
    if (!(k.next <= (double)w->next && k.next + HB_ESTIMATOR_TOGETHER >= (double)w->next))
        return hb_fail(why, ESTALE, "it is of another time");
    if (!same_actuators(e, at + where.lag, at + where.delay))
        return hb_fail(why, EINVAL, "the actuators are others now");
    memcpy(e->belief.state, at + where.belief, e->belief.nstate * sizeof *at);
    if (!hb_belief_possible(&e->belief))
        return hb_fail(why, EINVAL, "its numbers cannot be");
    e->origin = k.origin < 0 ? UINT64_MAX : (uint64_t)k.origin;
    e->unsettled = k.unsettled;
    e->seconds = k.seconds;
    e->told_before = (uint64_t)k.told_before;
    put(e->rest_control, at + where.rest, e->m->nu);
    hb_belief_describe(&e->belief);
    take_coefficients(e);
    hb_estimator_take_actuators(e);
    memcpy(e->learned_at, e->at, sizeof e->at);
    return 0;
}

/* The coefficients must be those of a vehicle, and explain the newest transitions. 0, or why not. */
static int doubt(hb_estimator *e, hb_error *why)
{
    hb_belief *b = &e->belief;
    hb_window *w = &e->window;
    const double *c = hb_belief_possible(b);
    double misfit = 0, count = 0;

    if (!(hb_belief_plausibility(b, c) <= HB_FAR * HB_FAR))
        return hb_fail(why, EINVAL, "no vehicle has such coefficients");
    uint64_t newest = hb_window_count(w) < HB_LOOKED_BACK ? (uint64_t)hb_window_count(w) : HB_LOOKED_BACK;
    for (uint64_t i = newest; i > 0; i--) {
        const double *row = hb_estimator_recall(e, w->next - i);
        for (int d = 0; d < b->nx && e->usable[hb_estimator_slot(e, w->next - i)]; d++) {
            double left = row[d * e->rows.ld + b->n];
            for (int k = 0; k < b->nb; k++)
                left -= row[d * e->rows.ld + k] * c[(b->nproblems > 1 ? d : 0) * b->n + k];
            misfit += fmin(left * left / b->noise[d], pow(HB_FAR, 4)); /* one outlier is none of its fault */
            count++;
        }
    }
    /* a few transitions may all be outliers */
    if (newest >= HB_RECENT && !(misfit <= HB_FAR * HB_FAR * count))
        return hb_fail(why, EINVAL, "it does not explain the newest transitions");
    return 0;
}

int hb_belief_examine(hb_estimator *e, hb_error *why)
{
    const double *at = hb_window_belief(&e->window);
    knowledge k;
    int r = doubt(e, why);

    if (r)
        return r;
    memcpy(&k, at, sizeof k);
    /* what came after it was kept */
    hb_estimator_evaluate(e, (uint64_t)k.next, relearn);
    hb_belief_describe(&e->belief);
    take_coefficients(e);
    hb_estimator_take_actuators(e);
    /* the coefficients in use stay those of before, to the byte */
    hb_window_load_coefficients(&e->window, &e->health.version, &e->warm, e->coefficient);
    e->health.version++; /* whoever planned with the last ones takes these */
    hb_belief_report(e);
    return 0;
}
