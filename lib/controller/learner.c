#include "controller/learner.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "plan/numbers.h"

void hb_learner_lay_out(hb_learner *l, const hb_vehicle *v, const hb_model *m, const hb_controller_settings *s,
                        hb_arena *arena)
{
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu;

    l->telemetry = l->requests = (hb_transitions){
        .nx = m->nx,
        .nu = m->nu,
        .rotations = hb_rotations_of(m),
        .period = m->dt,
        .shortest = s->min_period * m->dt,
        .max_gap = s->max_period * m->dt,
    };
    hb_transitions_lay_out(&l->telemetry, arena);
    hb_transitions_lay_out(&l->requests, arena);
    l->told = hb_vehicle_history(v, m);
    hb_command_history_lay_out(&l->told, arena);
    hb_channels_lay_out(&l->channels, m, arena);
    l->standing = hb_arena_take(arena, nx, sizeof(double));
    l->report = hb_arena_take(arena, nu, sizeof(double));
    l->sample = hb_arena_take(arena, nx, sizeof(double));
    l->asked_state = hb_arena_take(arena, nx, sizeof(double));
}

int hb_learner_init(hb_learner *l, const hb_vehicle *v, hb_exchange *e, void *memory, hb_error *resumed, hb_error *err)
{
    int r;

    l->vehicle = v;
    l->exchange = e;
    hb_channels_find(&l->channels, v->m);
    if ((r = hb_estimator_new(&l->estimator, v->m, &v->s.estimator, memory, resumed, err)) ||
        (r = hb_stepper_new(&l->average, v->m, err)))
        return r;
    hb_learner_publish(l);
    return 0;
}

void hb_learner_free(hb_learner *l)
{
    hb_stepper_free(l->average);
    hb_estimator_free(l->estimator);
}

/* ---- to the thread of planning, and from it ---- */

/* RMS of the newest transitions' errors. */
static double error_of_average(const hb_learner *l)
{
    int n = l->nrecent < HB_RECENT_ERRORS ? l->nrecent : HB_RECENT_ERRORS;
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += l->recent[i];
    return n ? sqrt(sum / n) : 0;
}

void hb_learner_publish(hb_learner *l)
{
    hb_snapshot *s = hb_exchange_fill(l->exchange);

    l->health = *hb_estimator_health(l->estimator);
    l->health.actuators = hb_estimator_actuator_belief(l->estimator);
    l->health.fault = l->fault;
    if (l->fault != HB_REASON_NONE && l->health.status == HB_ESTIMATE_OK)
        l->health.status = HB_ESTIMATE_IMPLAUSIBLE;
    else if (l->fault == HB_REASON_NONE && l->health.status == HB_ESTIMATE_IMPLAUSIBLE)
        l->health.fault = HB_REASON_IMPLAUSIBLE;
    if (l->health.fault == HB_REASON_NONE && l->behind)
        l->health.fault = HB_REASON_BEHIND;
    if (!l->vehicle->s.adapt)
        l->health.one_step_error = error_of_average(l);
    s->health = l->health;
    s->observed = l->observed;
    s->observed_at = l->observed_at;
    s->observed_us = l->observed_us;
    s->doubted = l->doubt != HB_REASON_NONE;
    s->reported = l->reported;
    s->reported_us = l->reported_us;
    if (l->vehicle->nu > 0)
        memcpy(s->report, l->report, (size_t)l->vehicle->nu * sizeof *s->report);
    s->nsent = l->nsent;
    memcpy(s->sent, l->sent, sizeof s->sent);
    s->actuators = *hb_estimator_actuators(l->estimator);
    memcpy(s->coefficient, hb_estimator_coefficients(l->estimator),
           (size_t)hb_model_ncoefficients(l->vehicle->m) * sizeof *s->coefficient);
    hb_exchange_publish(l->exchange);
}

void hb_learner_hear(hb_learner *l, int64_t from_us, const double *action)
{
    /* a clock that was set back starts a new history */
    if (l->told.count > 0 && from_us < l->told.from[0])
        hb_command_history_reset(&l->told);
    hb_command_history_tell(&l->told, from_us, action);
}

/* Whether another action was sent instead of the one that was to apply from then on. */
static bool was_replaced(const hb_learner *l, int64_t from_us)
{
    for (uint64_t i = l->nsent > HB_SENT ? l->nsent - HB_SENT : 0; i < l->nsent; i++)
        if (l->sent[i % HB_SENT].from_us == from_us)
            return true;
    return false;
}

void hb_learner_answered(hb_learner *l, const hb_request *r, const double *action)
{
    hb_answered *a = &l->sent[l->nsent % HB_SENT];

    if (r->guest || l->vehicle->nu == 0)
        return;
    a->from_us = hb_vehicle_applies_us(l->vehicle, r->time_us);
    memcpy(a->u, action, (size_t)l->vehicle->nu * sizeof *action);
    l->nsent++;
    hb_command_history_replace(&l->told, a->from_us, action);
    hb_learner_publish(l);
}

void hb_learner_hear_answers(hb_learner *l)
{
    for (const hb_answered *a; (a = hb_exchange_first_answer(l->exchange)); hb_exchange_answer_heard(l->exchange))
        if (!was_replaced(l, a->from_us))
            hb_learner_hear(l, a->from_us, a->u);
}

/* ---- samples ---- */

/* Why a sample makes no sense by itself; its state goes to l->sample. */
static hb_reason examine(hb_learner *l, const hb_observation *o)
{
    if (o->nx != l->vehicle->nx || o->nu != l->vehicle->nu)
        return HB_REASON_DIMENSION;
    if (!hb_all_finite(o->x, l->vehicle->nx) || (o->u && !hb_all_finite(o->u, l->vehicle->nu)) ||
        (o->u_before && !hb_all_finite(o->u_before, l->vehicle->nu)))
        return HB_REASON_NOT_FINITE;
    if (!hb_vehicle_take_state(l->vehicle, o->x, l->sample))
        return HB_REASON_QUATERNION;
    if ((o->u && !hb_vehicle_within_bounds(l->vehicle, o->u)) ||
        (o->u_before && !hb_vehicle_within_bounds(l->vehicle, o->u_before)))
        return HB_REASON_BAD_CONTROL;
    return HB_REASON_NONE;
}

/* Single channels that hang or contradict each other, and samples that contradict requests: more likely wrong than
 * right. */
static hb_reason doubt(hb_learner *l, int64_t time_us, bool joined)
{
    double wrong;

    hb_channels_sample(&l->channels, time_us, l->sample, joined);
    const int worst = hb_channels_worst(&l->channels, &wrong);
    if (!(wrong > 0.5))
        return HB_REASON_NONE;
    return hb_channels_stands(&l->channels, worst) >= l->vehicle->s.stale_after ? HB_REASON_FROZEN
                                                                                : HB_REASON_IMPLAUSIBLE;
}

/* A sensor that hangs repeats its last state while time advances. */
static bool stands_still(hb_learner *l, const hb_observation *o)
{
    bool same = l->observed && memcmp(l->standing, o->x, (size_t)l->vehicle->nx * sizeof *o->x) == 0;

    if (!same || o->time_us < l->standing_us) {
        memcpy(l->standing, o->x, (size_t)l->vehicle->nx * sizeof *o->x);
        l->standing_us = o->time_us;
    }
    return same && (double)(o->time_us - l->standing_us) * 1e-6 >= l->vehicle->s.stale_after;
}

static void note_fault(hb_learner *l, hb_reason reason, double now)
{
    bool over = now - l->fault_at >= HB_FAULT_OVER;

    /* a reason that follows from a fault does not replace it */
    if (hb_reason_is_fault(reason) && (reason != HB_REASON_IMPLAUSIBLE || l->fault == HB_REASON_NONE || over)) {
        l->fault = reason;
        l->fault_at = now;
    } else if (!hb_reason_is_fault(reason) && over) {
        l->fault = HB_REASON_NONE;
    }
}

/* Samples that arrive in time and are old all the same waited somewhere on their way. Whoever stamps its requests by
 * another clock than its samples is never told so. Returns whether it is news. */
static bool compare_clocks(hb_learner *l, const hb_request *r, double now)
{
    double behind = (double)(r->time_us - l->observed_us) * 1e-6;
    bool arrives = l->observed && now - l->observed_at <= l->vehicle->s.stale_after, before = l->behind;

    if (r->fresh)
        l->one_clock = false;
    if (arrives && fabs(behind) <= l->vehicle->s.stale_after)
        l->one_clock = true;
    l->behind = arrives && l->one_clock && behind > l->vehicle->s.stale_after;
    return l->behind != before;
}

/* What the vehicle says of its control. */
static void hear_report(hb_learner *l, int64_t time_us, const double *u)
{
    if (l->told.count > 0 && time_us < l->told.from[0])
        hb_command_history_reset(&l->told);
    hb_command_history_report(&l->told, time_us, u);
    if (l->vehicle->nu > 0)
        memcpy(l->report, u, (size_t)l->vehicle->nu * sizeof *u);
    l->reported = true;
    l->reported_us = time_us;
}

/* Learns from the transition that a sample completed; with `more` to come, it waits to be used with the next. Returns
 * what happened to the sample. */
static hb_reason learn(hb_learner *l, const hb_transition *transition, hb_reason reason, bool more)
{
    hb_health before = *hb_estimator_health(l->estimator);

    if (l->doubt != HB_REASON_NONE && reason == HB_REASON_NONE)
        reason = l->doubt;
    if (reason == HB_REASON_NONE)
        hb_estimator_stage(l->estimator, transition);
    if (!more)
        hb_estimator_settle(l->estimator);
    if (hb_estimator_health(l->estimator)->rejected != before.rejected)
        reason = HB_REASON_NOT_FINITE;
    else if (hb_estimator_health(l->estimator)->implausible != before.implausible)
        reason = HB_REASON_IMPLAUSIBLE;
    if (reason == HB_REASON_NONE && !l->vehicle->s.adapt) {
        l->recent[l->nrecent % HB_RECENT_ERRORS] = hb_stepper_error(l->average, transition);
        l->nrecent = l->nrecent + 1 < 2 * HB_RECENT_ERRORS ? l->nrecent + 1 : HB_RECENT_ERRORS;
    }
    return reason;
}

/* The vehicle was put somewhere else, or is another one: what was told before has nothing to do with what it does now.
 */
static void forget_commands(hb_learner *l, const hb_transitions *t, int64_t time_us)
{
    hb_command_history_forget(&l->told, time_us < t->newest_us ? INT64_MAX : time_us);
}

/* A sample on its way into the window. One whose state came with a request before was taken in then. */
static hb_reason take_in(hb_learner *l, hb_transitions *t, const hb_observation *given, double now, bool more)
{
    hb_observation o = *given;
    hb_transition transition;
    hb_reason reason = examine(l, given);
    if (reason == HB_REASON_NONE && t == &l->telemetry &&
        hb_publishers_mixed(&l->publishers, given->reset_counter, now))
        reason = HB_REASON_MIXED;
    bool used = reason == HB_REASON_NONE && t == &l->telemetry && l->used && given->time_us == l->used_us;

    o.x = l->sample;
    hb_learner_hear_answers(l);
    hb_exchange_count(l->exchange, HB_COUNTER(observations), 1);
    if (reason == HB_REASON_NONE) {
        if (t->waiting && given->reset_counter != t->reset_counter)
            forget_commands(l, t, given->time_us);
        else if (given->u_before && t->waiting)
            hear_report(l, t->newest_us, given->u_before);
        if (given->u)
            hear_report(l, given->time_us, given->u);
        const bool hangs = stands_still(l, given);
        reason = used ? (hangs ? HB_REASON_FROZEN : l->used_as)
                      : hb_transitions_add(t, &o, &l->told, l->vehicle->safe, &transition);
        const bool joined = reason == HB_REASON_NONE || reason == HB_REASON_GATHERED;
        l->doubt = hangs ? HB_REASON_FROZEN : used ? l->doubt : doubt(l, given->time_us, joined);
        /* a sample that continues none before it teaches nothing: the age of telemetry stays as it is */
        if (joined || used || !l->observed) {
            l->observed_at = now;
            l->observed_us = given->time_us;
        }
        l->observed = true;
        l->echoed = t == &l->telemetry && l->asked && given->time_us == l->asked_us &&
                    memcmp(given->x, l->asked_state, (size_t)l->vehicle->nx * sizeof *given->x) == 0;
    }
    l->used &= !used; /* once */
    if (!used)
        reason = learn(l, &transition, reason, more);
    else if (!more)
        hb_estimator_settle(l->estimator);
    note_fault(l, reason, now);
    if (reason == HB_REASON_NONE)
        hb_exchange_count(l->exchange, HB_COUNTER(transitions), 1);
    else
        hb_exchange_count(l->exchange, HB_COUNTER(set_aside[reason]), 1);
    if (!more)
        hb_learner_publish(l);
    return reason;
}

hb_reason hb_learner_observe(hb_learner *l, const hb_observation *o, double now, bool more)
{
    return take_in(l, &l->telemetry, o, now, more);
}

/* ---- states of requests ---- */

/* Remembers a request, so that telemetry that repeats it is known. */
static void remember_request(hb_learner *l, const hb_request *r)
{
    l->asked = r->nx == l->vehicle->nx;
    l->echoed = false;
    if (!l->asked)
        return;
    l->asked_us = r->time_us;
    l->asked_counter = r->reset_counter;
    memcpy(l->asked_state, r->x, (size_t)l->vehicle->nx * sizeof *r->x);
    if (!r->guest && hb_all_finite(r->x, l->vehicle->nx))
        hb_channels_request(&l->channels, r->time_us, r->x);
}

/* Whoever publishes the state that it asked with does so after the answer, since the sample tells the control that
 * follows on it. The request already has the state, and so is all that came before. In the first moments of
 * a flight, and after motion that cannot be, it is learned from for the answer, and not a period later. */
static hb_reason take_from_request(hb_learner *l, const hb_request *r, double now)
{
    hb_observation o = {.time_us = r->time_us,
                        .x = r->x,
                        .nx = r->nx,
                        .nu = l->vehicle->nu,
                        .reset_counter = l->telemetry.reset_counter};
    hb_transition transition;
    hb_reason reason = examine(l, &o);

    remember_request(l, r);
    if (reason != HB_REASON_NONE)
        return reason;
    const bool hangs = stands_still(l, &o);
    o.x = l->sample;
    hb_learner_hear_answers(l);
    reason = hb_transitions_add(&l->telemetry, &o, &l->told, l->vehicle->safe, &transition);
    const bool joined = reason == HB_REASON_NONE || reason == HB_REASON_GATHERED;
    l->doubt = hangs ? HB_REASON_FROZEN : doubt(l, o.time_us, joined);
    l->used_as = learn(l, &transition, reason, false);
    l->used = true;
    l->used_us = r->time_us;
    l->observed_at = now;
    note_fault(l, l->used_as, now);
    hb_learner_publish(l);
    return l->used_as;
}

hb_reason hb_learner_observe_request(hb_learner *l, const hb_request *r, double now)
{
    hb_transitions *t = &l->requests;
    bool telemetry_lives = l->telemetry.waiting && (double)(r->time_us - l->telemetry.newest_us) * 1e-6 <= t->max_gap;
    hb_observation o = {.time_us = r->time_us,
                        .x = r->x,
                        .nx = r->nx,
                        .nu = r->applied ? r->napplied : l->vehicle->nu,
                        .u_before = r->applied,
                        .reset_counter = r->reset_counter};

    if (compare_clocks(l, r, now))
        hb_learner_publish(l);
    if (r->fresh)
        t->waiting = t->started = l->echoed = false;
    /* an episode starts: what was told in the one before is over */
    if (l->asked && r->nx == l->vehicle->nx && r->reset_counter != l->asked_counter)
        hb_command_history_forget(&l->told, r->time_us < l->asked_us ? INT64_MAX : r->time_us);
    const hb_health *known = hb_estimator_health(l->estimator);
    bool urgent = known->samples < HB_LITTLE_KNOWN || known->status == HB_ESTIMATE_IMPLAUSIBLE;
    if (telemetry_lives && urgent && l->echoed && r->time_us > l->asked_us && r->reset_counter == l->asked_counter)
        return take_from_request(l, r, now);
    remember_request(l, r);
    if (!telemetry_lives && r->applied)
        return take_in(l, t, &o, now, false);
    /* without telemetry nor `applied` there is no telling what moved the vehicle: the next transition starts here */
    t->waiting = t->started = false;
    if (!telemetry_lives && examine(l, &o) == HB_REASON_NONE) {
        o.x = l->sample;
        hb_transitions_add(t, &o, &l->told, l->vehicle->safe, &(hb_transition){0});
    }
    return HB_REASON_FIRST;
}

void hb_learner_forget(hb_learner *l)
{
    hb_estimator_reset(l->estimator);
    /* commands and the unfinished transition belong to the window that was forgotten */
    hb_learner_hear_answers(l);
    hb_command_history_reset(&l->told);
    l->telemetry.started = l->requests.started = l->telemetry.continues = l->requests.continues = false;
    l->telemetry.end.count = l->requests.end.count = 0;
    hb_channels_reset(&l->channels);
    l->doubt = HB_REASON_NONE;
    l->nrecent = 0;
    hb_learner_publish(l);
}

/* ---- coefficients ---- */

double hb_learner_error(const hb_learner *l, const double *std)
{
    const double *square = hb_estimator_mean_square(l->estimator);
    double sum = 0;

    for (int i = 0; i < l->vehicle->nx; i++) {
        double scale = l->vehicle->m->state_std[i] / std[i];
        sum += square[i] * scale * scale;
    }
    return sqrt(sum / l->vehicle->nx);
}

/* Squared deviation of coefficient i in the trained population. */
static double prior_variance(const hb_model *m, int i)
{
    int nb = m->nb, of = m->shape == HB_PER_STATE ? i / m->nx : i, block = m->shape == HB_PER_STATE ? i % m->nx : 0;

    return m->prior_covariance[((size_t)block * (size_t)nb + (size_t)of) * (size_t)nb + (size_t)of];
}

int hb_learner_seed(hb_learner *l, const hb_real *coefficient, hb_error *err)
{
    const hb_model *m = l->vehicle->m;
    const double set = l->vehicle->s.cost.limits.trained_range,
                 range = set > 0 ? set : hb_limits_defaults.trained_range;

    if (hb_estimator_health(l->estimator)->status != HB_ESTIMATE_WARMING_UP)
        return hb_fail(err, EBUSY,
                       "nothing was taken: the daemon has estimated coefficients of its own; reset the window first");
    for (int i = 0; i < hb_model_ncoefficients(m); i++) {
        double value = (double)coefficient[i], mean = m->has_prior ? m->prior_mean[i] : 0,
               most = range * (m->has_prior ? sqrt(prior_variance(m, i)) : 1) + 1e-6;
        if (!(fabs(value - mean) <= most))
            return hb_fail(err, EINVAL, "nothing was taken: coefficient %d is %g, expected %g to %g", i, value,
                           mean - most, mean + most);
    }
    hb_estimator_seed(l->estimator, coefficient);
    hb_learner_publish(l);
    return 0;
}
