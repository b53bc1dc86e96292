/* The controller's thread of telemetry: samples and requests' states become transitions, the estimator learns from
 * them, and what it believes goes to the thread of planning. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "controller/controller_internal.h"

static const double far_out = 10; /* standard deviations from the trained population: nobody's coefficients */
static const double largest_coefficient = 100; /* of a model without a prior */
static const double over_bounds = 0.05;        /* of a control's range, by which a report may exceed its bounds */
static const double unit_length = 0.2;         /* by which a quaternion may differ from length one */
static const double recovers = 0.2;            /* seconds of good samples after which a fault of telemetry is over */

static const double of_late =
    2; /* seconds in which no vehicle's program is restarted often enough to be taken for two */
static const int to_and_fro = 3; /* returns to a former reset_counter */

/* RMS of the newest transitions' errors. */
static double error_of_average(const hb_controller *c)
{
    int n = c->nrecent < HB_RECENT_ERRORS ? c->nrecent : HB_RECENT_ERRORS;
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += c->recent[i];
    return n ? sqrt(sum / n) : 0;
}

void hb_controller_publish(hb_controller *c)
{
    hb_snapshot *s = &c->buffer[c->writing];

    c->health = *hb_estimator_health(c->estimator);
    c->health.actuators = hb_estimator_actuator_belief(c->estimator);
    c->health.fault = c->fault;
    if (c->fault != HB_REASON_NONE && c->health.status == HB_ESTIMATE_OK)
        c->health.status = HB_ESTIMATE_IMPLAUSIBLE;
    else if (c->fault == HB_REASON_NONE && c->health.status == HB_ESTIMATE_IMPLAUSIBLE)
        c->health.fault = HB_REASON_IMPLAUSIBLE;
    if (c->health.fault == HB_REASON_NONE && c->behind)
        c->health.fault = HB_REASON_BEHIND;
    if (!c->s.adapt)
        c->health.one_step_error = error_of_average(c);
    s->number = ++c->snapshots;
    s->health = c->health;
    s->observed = c->observed;
    s->observed_at = c->observed_at;
    s->observed_us = c->observed_us;
    s->doubted = c->doubt != HB_REASON_NONE;
    s->reported = c->reported;
    s->reported_us = c->reported_us;
    if (c->nu > 0)
        memcpy(s->report, c->report, (size_t)c->nu * sizeof *s->report);
    s->nsent = c->nsent;
    memcpy(s->sent, c->sent, sizeof s->sent);
    s->actuators = *hb_estimator_actuators(c->estimator);
    memcpy(s->coefficient, hb_estimator_coefficients(c->estimator),
           (size_t)hb_model_ncoefficients(c->m) * sizeof *s->coefficient);
    c->writing = atomic_exchange_explicit(&c->middle, c->writing | HB_FRESH, memory_order_acq_rel) & ~HB_FRESH;
}

void hb_controller_hear(hb_controller *c, int64_t from_us, const double *action)
{
    /* a clock that was set back starts a new history */
    if (c->told.count > 0 && from_us < c->told.from[0])
        hb_command_history_reset(&c->told);
    hb_command_history_tell(&c->told, from_us, action);
}

/* Whether another action was sent instead of the one that was to apply from then on. */
static bool was_replaced(const hb_controller *c, int64_t from_us)
{
    for (uint64_t i = c->nsent > HB_SENT ? c->nsent - HB_SENT : 0; i < c->nsent; i++)
        if (c->sent[i % HB_SENT].from_us == from_us)
            return true;
    return false;
}

void hb_controller_answered(hb_controller *c, const hb_request *r, const double *action)
{
    hb_answered *a = &c->sent[c->nsent % HB_SENT];

    if (r->guest || c->nu == 0)
        return;
    a->from_us = r->time_us + llround(c->s.delay * 1e6);
    memcpy(a->u, action, (size_t)c->nu * sizeof *action);
    c->nsent++;
    hb_command_history_replace(&c->told, a->from_us, action);
    hb_controller_publish(c);
}

void hb_controller_hear_answers(hb_controller *c)
{
    unsigned in = atomic_load_explicit(&c->answers_in, memory_order_acquire),
             out = atomic_load_explicit(&c->answers_out, memory_order_relaxed);

    for (; out != in && out < c->hear_until; out++) {
        const hb_answered *a = &c->answer[out % HB_ANSWERS];
        if (!was_replaced(c, a->from_us))
            hb_controller_hear(c, a->from_us, a->u);
    }
    atomic_store_explicit(&c->answers_out, out, memory_order_release);
}

void hb_controller_flown(hb_controller *c, const hb_request *r, const double *action)
{
    /* before the note that another answer replaces this one is overwritten */
    hb_controller_hear_answers(c);
    hb_controller_answered(c, r, action);
}

bool hb_controller_take_state(const hb_controller *c, const double *x, double *ret)
{
    int q = c->telemetry.rotations.quaternion;
    double square = 0;

    memcpy(ret, x, (size_t)c->nx * sizeof *ret);
    for (int i = 0; q >= 0 && i < 4; i++)
        square += x[q + i] * x[q + i];
    if (q >= 0 && !(fabs(sqrt(square) - 1) <= unit_length))
        return false;
    for (int i = 0; q >= 0 && i < 4; i++)
        ret[q + i] /= sqrt(square);
    return true;
}

bool hb_controller_within_bounds(const hb_controller *c, const double *u)
{
    for (int i = 0; i < c->nu; i++) {
        double over = over_bounds * (c->m->control_max[i] - c->m->control_min[i]);
        if (!(u[i] >= c->m->control_min[i] - over && u[i] <= c->m->control_max[i] + over))
            return false;
    }
    return true;
}

/* Why a sample makes no sense by itself; its state goes to c->sample. */
static hb_reason examine(hb_controller *c, const hb_observation *o)
{
    if (o->nx != c->nx || o->nu != c->nu)
        return HB_REASON_DIMENSION;
    if (!hb_all_finite(o->x, c->nx) || (o->u && !hb_all_finite(o->u, c->nu)) ||
        (o->u_before && !hb_all_finite(o->u_before, c->nu)))
        return HB_REASON_NOT_FINITE;
    if (!hb_controller_take_state(c, o->x, c->sample))
        return HB_REASON_QUATERNION;
    if ((o->u && !hb_controller_within_bounds(c, o->u)) ||
        (o->u_before && !hb_controller_within_bounds(c, o->u_before)))
        return HB_REASON_BAD_CONTROL;
    return HB_REASON_NONE;
}

/* Single channels that hang or contradict each other, and samples that contradict requests: more likely wrong than
 * right. */
static hb_reason doubt(hb_controller *c, int64_t time_us, bool joined)
{
    double wrong;

    hb_channels_sample(&c->channels, time_us, c->sample, joined);
    const int worst = hb_channels_worst(&c->channels, &wrong);
    if (!(wrong > 0.5))
        return HB_REASON_NONE;
    return hb_channels_stands(&c->channels, worst) >= c->s.stale_after ? HB_REASON_FROZEN : HB_REASON_IMPLAUSIBLE;
}

/* A sensor that hangs repeats its last state while time advances. */
static bool stands_still(hb_controller *c, const hb_observation *o)
{
    bool same = c->observed && memcmp(c->standing, o->x, (size_t)c->nx * sizeof *o->x) == 0;

    if (!same || o->time_us < c->standing_us) {
        memcpy(c->standing, o->x, (size_t)c->nx * sizeof *o->x);
        c->standing_us = o->time_us;
    }
    return same && (double)(o->time_us - c->standing_us) * 1e-6 >= c->s.stale_after;
}

bool hb_controller_is_fault(hb_reason reason)
{
    return reason == HB_REASON_DIMENSION || reason == HB_REASON_NOT_FINITE || reason == HB_REASON_QUATERNION ||
           reason == HB_REASON_BAD_CONTROL || reason == HB_REASON_FROZEN || reason == HB_REASON_IMPLAUSIBLE ||
           reason == HB_REASON_MIXED;
}

static void note_fault(hb_controller *c, hb_reason reason, double now)
{
    bool over = now - c->fault_at >= recovers;

    /* a reason that follows from a fault does not replace it */
    if (hb_controller_is_fault(reason) && (reason != HB_REASON_IMPLAUSIBLE || c->fault == HB_REASON_NONE || over)) {
        c->fault = reason;
        c->fault_at = now;
    } else if (!hb_controller_is_fault(reason) && over) {
        c->fault = HB_REASON_NONE;
    }
}

/* Samples that arrive in time and are old all the same waited somewhere on their way. Whoever stamps its requests by
 * another clock than its samples is never told so. Returns whether it is news. */
static bool compare_clocks(hb_controller *c, const hb_request *r, double now)
{
    double behind = (double)(r->time_us - c->observed_us) * 1e-6;
    bool arrives = c->observed && now - c->observed_at <= c->s.stale_after, before = c->behind;

    if (r->fresh)
        c->one_clock = false;
    if (arrives && fabs(behind) <= c->s.stale_after)
        c->one_clock = true;
    c->behind = arrives && c->one_clock && behind > c->s.stale_after;
    return c->behind != before;
}

/* What the vehicle says of its control. */
static void hear_report(hb_controller *c, int64_t time_us, const double *u)
{
    if (c->told.count > 0 && time_us < c->told.from[0])
        hb_command_history_reset(&c->told);
    hb_command_history_report(&c->told, time_us, u);
    if (c->nu > 0)
        memcpy(c->report, u, (size_t)c->nu * sizeof *u);
    c->reported = true;
    c->reported_us = time_us;
}

/* Learns from the transition that a sample completed; with `more` to come, it waits to be used with the next. Returns
 * what happened to the sample. */
static hb_reason learn(hb_controller *c, const hb_transition *transition, hb_reason reason, bool more)
{
    hb_health before = *hb_estimator_health(c->estimator);

    if (c->doubt != HB_REASON_NONE && reason == HB_REASON_NONE)
        reason = c->doubt;
    if (reason == HB_REASON_NONE)
        hb_estimator_stage(c->estimator, transition);
    if (!more)
        hb_estimator_settle(c->estimator);
    if (hb_estimator_health(c->estimator)->rejected != before.rejected)
        reason = HB_REASON_NOT_FINITE;
    else if (hb_estimator_health(c->estimator)->implausible != before.implausible)
        reason = HB_REASON_IMPLAUSIBLE;
    if (reason == HB_REASON_NONE && !c->s.adapt) {
        c->recent[c->nrecent % HB_RECENT_ERRORS] = hb_stepper_error(c->average, transition);
        c->nrecent = c->nrecent + 1 < 2 * HB_RECENT_ERRORS ? c->nrecent + 1 : HB_RECENT_ERRORS;
    }
    return reason;
}

/* The vehicle was put somewhere else, or is another one: what was told before has nothing to do with what it does now.
 */
static void forget_commands(hb_controller *c, const hb_transitions *t, int64_t time_us)
{
    hb_command_history_forget(&c->told, time_us < t->newest_us ? INT64_MAX : time_us);
}

/* Whether two vehicles publish: their reset counters come in turns, where one vehicle's goes on. Which of them is ours
 * nobody can tell, so that nothing is learned from either. */
static bool mixed(hb_controller *c, uint32_t counter, double now)
{
    if (c->published && counter != c->publisher) {
        bool known = false;
        for (int i = 0; i < c->nformer && i < HB_FORMER; i++)
            known = known || (c->former[i].counter == counter && now - c->former[i].left <= of_late);
        if (known) {
            c->returns = now - c->returned <= of_late ? c->returns + 1 : 1;
            c->returned = now;
        }
        c->former[c->nformer % HB_FORMER].counter = c->publisher;
        c->former[c->nformer % HB_FORMER].left = now;
        c->nformer = c->nformer + 1 < 2 * HB_FORMER ? c->nformer + 1 : HB_FORMER;
    }
    c->published = true;
    c->publisher = counter;
    c->returns = now - c->returned <= of_late ? c->returns : 0;
    return c->returns >= to_and_fro;
}

/* A sample on its way into the window. One whose state came with a request before was taken in then. */
static hb_reason take_in(hb_controller *c, hb_transitions *t, const hb_observation *given, double now, bool more)
{
    hb_observation o = *given;
    hb_transition transition;
    hb_reason reason = examine(c, given);
    if (reason == HB_REASON_NONE && t == &c->telemetry && mixed(c, given->reset_counter, now))
        reason = HB_REASON_MIXED;
    bool used = reason == HB_REASON_NONE && t == &c->telemetry && c->used && given->time_us == c->used_us;

    o.x = c->sample;
    hb_controller_hear_answers(c);
    hb_controller_count(c, HB_COUNTER(observations), 1);
    if (reason == HB_REASON_NONE) {
        if (t->waiting && given->reset_counter != t->reset_counter)
            forget_commands(c, t, given->time_us);
        else if (given->u_before && t->waiting)
            hear_report(c, t->newest_us, given->u_before);
        if (given->u)
            hear_report(c, given->time_us, given->u);
        const bool hangs = stands_still(c, given);
        reason =
            used ? (hangs ? HB_REASON_FROZEN : c->used_as) : hb_transitions_add(t, &o, &c->told, c->safe, &transition);
        const bool joined = reason == HB_REASON_NONE || reason == HB_REASON_GATHERED;
        c->doubt = hangs ? HB_REASON_FROZEN : used ? c->doubt : doubt(c, given->time_us, joined);
        /* a sample that continues none before it teaches nothing: the age of telemetry stays as it is */
        if (joined || used || !c->observed) {
            c->observed_at = now;
            c->observed_us = given->time_us;
        }
        c->observed = true;
        c->echoed = t == &c->telemetry && c->asked && given->time_us == c->asked_us &&
                    memcmp(given->x, c->asked_state, (size_t)c->nx * sizeof *given->x) == 0;
    }
    c->used &= !used; /* once */
    if (!used)
        reason = learn(c, &transition, reason, more);
    else if (!more)
        hb_estimator_settle(c->estimator);
    note_fault(c, reason, now);
    if (reason == HB_REASON_NONE)
        hb_controller_count(c, HB_COUNTER(transitions), 1);
    else
        hb_controller_count(c, HB_COUNTER(set_aside[reason]), 1);
    if (!more)
        hb_controller_publish(c);
    return reason;
}

hb_reason hb_controller_observe(hb_controller *c, const hb_observation *o, double now)
{
    return take_in(c, &c->telemetry, o, now, false);
}

hb_reason hb_controller_observe_more(hb_controller *c, const hb_observation *o, double now)
{
    return take_in(c, &c->telemetry, o, now, true);
}

bool hb_controller_work(hb_controller *c)
{
    return hb_estimator_work(c->estimator);
}

/* Remembers a request, so that telemetry that repeats it is known. */
static void remember_request(hb_controller *c, const hb_request *r)
{
    c->asked = r->nx == c->nx;
    c->echoed = false;
    if (!c->asked)
        return;
    c->asked_us = r->time_us;
    c->asked_counter = r->reset_counter;
    memcpy(c->asked_state, r->x, (size_t)c->nx * sizeof *r->x);
    if (!r->guest && hb_all_finite(r->x, c->nx))
        hb_channels_request(&c->channels, r->time_us, r->x);
}

/* Whoever publishes the state that it asked with does so after the answer, since the sample tells the control that
 * follows on it. The request already has the state, and so is all that came before. In the first moments of
 * a flight, and after motion that cannot be, it is learned from for the answer, and not a period later. */
static hb_reason take_from_request(hb_controller *c, const hb_request *r, double now)
{
    hb_observation o = {
        .time_us = r->time_us, .x = r->x, .nx = r->nx, .nu = c->nu, .reset_counter = c->telemetry.reset_counter};
    hb_transition transition;
    hb_reason reason = examine(c, &o);

    remember_request(c, r);
    if (reason != HB_REASON_NONE)
        return reason;
    const bool hangs = stands_still(c, &o);
    o.x = c->sample;
    hb_controller_hear_answers(c);
    reason = hb_transitions_add(&c->telemetry, &o, &c->told, c->safe, &transition);
    const bool joined = reason == HB_REASON_NONE || reason == HB_REASON_GATHERED;
    c->doubt = hangs ? HB_REASON_FROZEN : doubt(c, o.time_us, joined);
    c->used_as = learn(c, &transition, reason, false);
    c->used = true;
    c->used_us = r->time_us;
    c->observed_at = now;
    note_fault(c, c->used_as, now);
    hb_controller_publish(c);
    return c->used_as;
}

hb_reason hb_controller_observe_request(hb_controller *c, const hb_request *r, double now)
{
    hb_transitions *t = &c->requests;
    bool telemetry_lives = c->telemetry.waiting && (double)(r->time_us - c->telemetry.newest_us) * 1e-6 <= t->max_gap;
    hb_observation o = {.time_us = r->time_us,
                        .x = r->x,
                        .nx = r->nx,
                        .nu = r->applied ? r->napplied : c->nu,
                        .u_before = r->applied,
                        .reset_counter = r->reset_counter};

    if (compare_clocks(c, r, now))
        hb_controller_publish(c);
    if (r->fresh)
        t->waiting = t->started = c->echoed = false;
    /* an episode starts: what was told in the one before is over */
    if (c->asked && r->nx == c->nx && r->reset_counter != c->asked_counter)
        hb_command_history_forget(&c->told, r->time_us < c->asked_us ? INT64_MAX : r->time_us);
    const hb_health *known = hb_estimator_health(c->estimator);
    bool urgent = known->samples < HB_LITTLE_KNOWN || known->status == HB_ESTIMATE_IMPLAUSIBLE;
    if (telemetry_lives && urgent && c->echoed && r->time_us > c->asked_us && r->reset_counter == c->asked_counter)
        return take_from_request(c, r, now);
    remember_request(c, r);
    if (!telemetry_lives && r->applied)
        return take_in(c, t, &o, now, false);
    /* without telemetry nor `applied` there is no telling what moved the vehicle: the next transition starts here */
    t->waiting = t->started = false;
    if (!telemetry_lives && examine(c, &o) == HB_REASON_NONE) {
        o.x = c->sample;
        hb_transitions_add(t, &o, &c->told, c->safe, &(hb_transition){0});
    }
    return HB_REASON_FIRST;
}

void hb_controller_forget(hb_controller *c)
{
    hb_estimator_reset(c->estimator);
    /* commands and the unfinished transition belong to the window that was forgotten */
    hb_controller_hear_answers(c);
    hb_command_history_reset(&c->told);
    c->telemetry.started = c->requests.started = c->telemetry.continues = c->requests.continues = false;
    c->telemetry.end.count = c->requests.end.count = 0;
    hb_channels_reset(&c->channels);
    c->doubt = HB_REASON_NONE;
    c->nrecent = 0;
    hb_controller_publish(c);
}

const hb_health *hb_controller_health(const hb_controller *c)
{
    return &c->health;
}

const hb_real *hb_controller_coefficients(const hb_controller *c, const double **variance)
{
    if (variance)
        *variance = hb_estimator_variance(c->estimator);
    return hb_estimator_coefficients(c->estimator);
}

const double *hb_controller_covariance(const hb_controller *c)
{
    return hb_estimator_covariance(c->estimator);
}

double hb_controller_error(const hb_controller *c, const double *std)
{
    const double *square = hb_estimator_mean_square(c->estimator);
    double sum = 0;

    for (int i = 0; i < c->nx; i++) {
        double scale = c->m->state_std[i] / std[i];
        sum += square[i] * scale * scale;
    }
    return sqrt(sum / c->nx);
}

/* Squared deviation of coefficient i in the trained population. */
static double prior_variance(const hb_model *m, int i)
{
    int nb = m->nb, of = m->shape == HB_PER_STATE ? i / m->nx : i, block = m->shape == HB_PER_STATE ? i % m->nx : 0;

    return m->prior_covariance[((size_t)block * (size_t)nb + (size_t)of) * (size_t)nb + (size_t)of];
}

int hb_controller_seed(hb_controller *c, const hb_real *coefficient, hb_error *err)
{
    const hb_model *m = c->m;

    if (hb_estimator_health(c->estimator)->status != HB_ESTIMATE_WARMING_UP)
        return hb_fail(err, EBUSY,
                       "nothing was taken: the daemon has estimated coefficients of its own; reset the window first");
    for (int i = 0; i < hb_model_ncoefficients(m); i++) {
        double value = (double)coefficient[i], mean = m->has_prior ? m->prior_mean[i] : 0,
               most = m->has_prior ? far_out * sqrt(prior_variance(m, i)) + 1e-6 : largest_coefficient;
        if (!(fabs(value - mean) <= most))
            return hb_fail(err, EINVAL, "nothing was taken: coefficient %d is %g, expected %g to %g", i, value,
                           mean - most, mean + most);
    }
    hb_estimator_seed(c->estimator, coefficient);
    hb_controller_publish(c);
    return 0;
}
