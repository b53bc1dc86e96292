/* One vehicle's loop on two threads.
 *
 *     thread of telemetry                               thread of planning
 *     sample, joined with the one before it             request
 *       -> transition -> estimator                        -> newest snapshot -> predictor
 *       -> snapshot of coefficients and health            -> state propagated to the moment the action applies
 *                  \________ three buffers ________/      -> plan -> action and status
 *
 * The writer fills a buffer that no other thread holds and swaps it with the one in the middle; the reader swaps its
 * own with the middle when that is fresh. Neither ever waits. */
#include "controller/controller.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "controller/controller_settings.h"
#include "dynamics/stepper.h"
#include "estimate/command_history.h"
#include "plan/trim.h"

static const double still = 0.05;     /* standard deviations a step that the state may move by under trim */
static const double pause_factor = 5; /* fallback_after without a request, so many times: nobody was flying */
static const double far_out = 10;     /* standard deviations from the trained population: nobody's coefficients */
static const double largest_coefficient = 100; /* of a model without a prior */
static const double same_control = 2e-3;       /* of a control's range: what a vehicle may round off */
static const double over_bounds = 0.05;        /* likewise, by which a reported control may exceed its bounds */
static const double confirms = 0.25;      /* seconds by which a report may lead or trail the command that it states */
static const double unit_length = 0.2;    /* by which a quaternion may differ from length one */
static const double recovers = 0.2;       /* seconds of good samples after which a fault of telemetry is over */
static const double slow_requests = 1.25; /* times the plan's step: from there on the plan takes their period as step */
static const double longest_step = 3;     /* times the plan's step, of such a plan */

enum {
    ARREST = 3,        /* steps of the start that brings rates to rest */
    RECENT = 10,       /* errors of the average model behind one_step_error */
    FRESH = 4,         /* flag beside the index of the middle buffer: not read yet */
    ANSWERS = 64,      /* on their way to the thread of telemetry */
    MAX_STEPS = 10000, /* of a prediction */
};

/* What the thread of planning needs of the other one. */
typedef struct snapshot {
    uint64_t number; /* they are counted from 1 */
    hb_health health;
    bool observed;          /* a sample has come in */
    double observed_at;     /* caller's clock */
    int64_t observed_us;    /* vehicle's clock */
    bool frozen;            /* the state stands still while time advances */
    hb_real *coefficient;   /* hb_model_ncoefficients */
    hb_actuators actuators; /* of this vehicle, as far as is known */
    bool reported;          /* the vehicle said what its control is: */
    int64_t reported_us;
    double *report; /* nu */
} snapshot;

/* An answer on its way to the thread of telemetry. */
typedef struct answered {
    int64_t from_us;
    double u[HB_MAX_CONTROLS];
} answered;

struct hb_controller {
    const hb_model *m;
    int nx, nu;
    /* Guests' requests are planned with a thread of planning's half of their own, whose owner has all the rest. */
    hb_controller *guest, *owner; /* NULL: there is none; this is none */

    /* thread of telemetry */
    hb_estimator *estimator;
    hb_transitions telemetry, requests;
    hb_command_history told; /* what the vehicle was told, as transitions see it */
    bool observed;
    double observed_at;
    int64_t observed_us;
    double *standing;      /* nx: the state of the newest sample of telemetry, */
    int64_t standing_us;   /* and since when it is the same */
    bool frozen, reported; /* see snapshot */
    hb_reason fault;       /* what was wrong with samples of late, */
    double fault_at;       /* and when the last one was; caller's clock */
    bool one_clock;        /* samples and requests were seen to have the same clock, */
    bool behind;           /* by which the samples are too old now */
    int64_t reported_us;
    double *report; /* nu */
    double *sample; /* nx: the current sample, its quaternion of length one */
    bool asked;     /* a request came in: */
    int64_t asked_us;
    uint32_t asked_counter; /* its reset_counter */
    double *asked_state;    /* nx */
    bool echoed;            /* the newest sample repeated the newest request's time and state */
    bool used;              /* a request's state was taken in as the sample of that time, */
    int64_t used_us;
    hb_reason used_as; /* with this result */
    hb_health health;
    hb_stepper *average;   /* for its errors while nothing is adapted */
    double recent[RECENT]; /* their squares, in turn */
    int nrecent;
    int writing;         /* the buffer to be filled next */
    uint64_t snapshots;  /* handed over so far */
    unsigned hear_until; /* answers beyond this are not heard, in a replay */

    /* between the two */
    snapshot buffer[3];
    _Atomic int middle; /* index of a buffer, and FRESH */
    answered answer[ANSWERS];
    _Atomic unsigned answers_in, answers_out;                         /* counts of answers put in, and taken out */
    double close[HB_MAX_CONTROLS];                                    /* controls this near are the same */
    _Atomic uint64_t counter[sizeof(hb_counters) / sizeof(uint64_t)]; /* in the order of hb_counters */

    /* thread of planning */
    hb_controller_settings s;
    int reading;          /* the buffer last taken */
    uint64_t set_version; /* of the coefficients in the predictor; 0: the average */
    hb_stepper *stepper;
    hb_planner *planner; /* NULL: the model has no controls */
    hb_command command;
    hb_prepared prepared;  /* before it: a copy, since the next preparation may be under way */
    double *action, *safe; /* nu */
    bool running;          /* a request came before */
    double heard;          /* when the newest request came in, caller's clock */
    double awake_at;       /* likewise the first one of an episode, or after a pause */
    int64_t time_us;       /* of the newest request: the current plan starts there */
    int64_t before_us;     /* of the one before it */
    uint32_t reset_counter;
    bool planned;
    int64_t planned_us; /* request time of the last plan that was made */
    bool followed;      /* the last request was answered with the current plan, which the planner moved on to it */
    double preparing;   /* seconds of hb_controller_prepare since the last command */
    bool rehearsing;    /* what is answered is not meant */
    hb_command_history history;
    int64_t reported_us_seen;              /* of the newest report taken into the history */
    double usual_period;                   /* seconds between requests; 0: not known */
    bool clocks_agree;                     /* times of telemetry and of requests were seen close together */
    double *x0, *last_control, *effective; /* nx, nu, nu: start of the plan */
    double *actuator_state;                /* nu, at the start of the plan */
    hb_trim *trimming;                     /* NULL: the model has no controls */
    double *arrest;                        /* ARREST x nu: commands that stop what the controls move directly */
    double *trim, *trim_for;               /* nu, nx: control that holds the target state trim_for, */
    bool trimmed;                          /* under the coefficients in the predictor */
    double *target;                        /* (horizon + 1) x nx: where the plan is to go */
    int ntargets;                          /* 1, or horizon + 1 */
};

/* ---- set-up ---- */

static hb_controller *lay_out(const hb_model *m, const hb_controller_settings *s, hb_arena *arena)
{
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu;
    hb_controller *taken = hb_arena_take(arena, 1, sizeof *taken), none = {0}, *c = taken ? taken : &none;

    for (int i = 0; i < 3; i++) {
        c->buffer[i].coefficient = hb_arena_take(arena, (size_t)hb_model_ncoefficients(m), sizeof(hb_real));
        c->buffer[i].report = hb_arena_take(arena, nu, sizeof(double));
    }
    c->telemetry = c->requests = (hb_transitions){
        .nx = m->nx,
        .nu = m->nu,
        .quaternion = hb_model_quaternion(m),
        .period = m->dt,
        .shortest = s->min_period * m->dt,
        .max_gap = s->max_period * m->dt,
        .parts = m->integration == HB_DIRECT || m->nu == 0 ? 1 : HB_TRANSITION_PARTS,
    };
    hb_transitions_lay_out(&c->telemetry, arena);
    hb_transitions_lay_out(&c->requests, arena);
    c->told = c->history = (hb_command_history){.nu = m->nu, .close = c->close, .slack_us = llround(confirms * 1e6)};
    hb_command_history_lay_out(&c->told, arena);
    hb_command_history_lay_out(&c->history, arena);
    c->standing = hb_arena_take(arena, nx, sizeof(double));
    c->report = hb_arena_take(arena, nu, sizeof(double));
    c->sample = hb_arena_take(arena, nx, sizeof(double));
    c->asked_state = hb_arena_take(arena, nx, sizeof(double));
    c->effective = hb_arena_take(arena, nu, sizeof(double));
    c->actuator_state = hb_arena_take(arena, nu, sizeof(double));
    c->arrest = hb_arena_take(arena, (size_t)ARREST * nu, sizeof(double));
    c->trim = hb_arena_take(arena, nu, sizeof(double));
    c->trim_for = hb_arena_take(arena, nx, sizeof(double));
    c->target = hb_arena_take(arena, (size_t)(s->planner.horizon + 1) * nx, sizeof(double));
    c->action = hb_arena_take(arena, nu, sizeof(double));
    c->safe = hb_arena_take(arena, nu, sizeof(double));
    c->x0 = hb_arena_take(arena, nx, sizeof(double));
    c->last_control = hb_arena_take(arena, nu, sizeof(double));
    return taken;
}

static int64_t microseconds(double seconds)
{
    return (int64_t)llround(seconds * 1e6);
}

static void take_settings(hb_controller *c, const hb_controller_settings *s)
{
    const hb_model *m = c->m;

    c->s = *s;
    for (int i = 0; i < c->nu; i++)
        c->safe[i] =
            s->nsafe_action ? s->safe_action[i] : fmin(fmax(m->control_trim[i], m->control_min[i]), m->control_max[i]);
}

static void publish(hb_controller *c);

/* Without what the thread of telemetry needs. */
static int planning_half(hb_controller **ret, const hb_model *m, const hb_controller_settings *s, hb_pool *pool,
                         hb_error *err)
{
    hb_arena arena = {0};
    int r;

    lay_out(m, s, &arena);
    if ((r = hb_arena_allocate(&arena, err)))
        return r;
    hb_controller *c = lay_out(m, s, &arena);

    c->m = m;
    c->nx = m->nx;
    c->nu = m->nu;
    c->writing = 0;
    c->hear_until = UINT_MAX;
    c->reading = 1;
    atomic_init(&c->middle, 2);
    for (int i = 0; i < m->nu; i++)
        c->close[i] = same_control * (m->control_max[i] - m->control_min[i]);
    take_settings(c, s);
    if ((r = hb_stepper_new(&c->stepper, m, err)) ||
        (m->nu > 0 && ((r = hb_planner_new(&c->planner, m, &s->planner, &s->cost, pool, err)) ||
                       (r = hb_trim_new(&c->trimming, m, err))))) {
        hb_controller_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

int hb_controller_new(hb_controller **ret, const hb_model *m, const hb_controller_settings *s, hb_pool *pool,
                      void *memory, hb_error *resumed, hb_error *err)
{
    hb_controller *c = NULL;
    int r = hb_controller_check(m, s, err);

    if (r || (r = planning_half(&c, m, s, pool, err)))
        return r;
    if ((r = hb_estimator_new(&c->estimator, m, &s->estimator, memory, resumed, err)) ||
        (r = hb_stepper_new(&c->average, m, err)) || (r = planning_half(&c->guest, m, s, pool, err))) {
        hb_controller_free(c);
        return r;
    }
    c->guest->owner = c;
    publish(c);
    *ret = c;
    return 0;
}

void hb_controller_free(hb_controller *c)
{
    if (!c)
        return;
    hb_controller_free(c->guest);
    hb_trim_free(c->trimming);
    hb_planner_free(c->planner);
    hb_stepper_free(c->average);
    hb_stepper_free(c->stepper);
    hb_estimator_free(c->estimator);
    free(c);
}

/* ---- counters ---- */

/* field: of hb_counters */
#define COUNT(c, field) count_by(c, offsetof(hb_counters, field) / sizeof(uint64_t), 1)

static void count_by(hb_controller *c, size_t index, uint64_t amount)
{
    atomic_fetch_add_explicit(&(c->owner ? c->owner : c)->counter[index], amount, memory_order_relaxed);
}

void hb_controller_counters(const hb_controller *c, hb_counters *ret)
{
    uint64_t value[sizeof(hb_counters) / sizeof(uint64_t)];

    for (size_t i = 0; i < sizeof value / sizeof *value; i++)
        value[i] = atomic_load_explicit(&c->counter[i], memory_order_relaxed);
    memcpy(ret, value, sizeof value);
}

/* ---- thread of telemetry ---- */

/* RMS of the newest transitions' errors. */
static double error_of_average(const hb_controller *c)
{
    int n = c->nrecent < RECENT ? c->nrecent : RECENT;
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += c->recent[i];
    return n ? sqrt(sum / n) : 0;
}

/* Hands the estimate to the other thread. */
static void publish(hb_controller *c)
{
    snapshot *s = &c->buffer[c->writing];

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
    s->frozen = c->frozen;
    s->reported = c->reported;
    s->reported_us = c->reported_us;
    if (c->nu > 0)
        memcpy(s->report, c->report, (size_t)c->nu * sizeof *s->report);
    s->actuators = *hb_estimator_actuators(c->estimator);
    memcpy(s->coefficient, hb_estimator_coefficients(c->estimator),
           (size_t)hb_model_ncoefficients(c->m) * sizeof *s->coefficient);
    c->writing = atomic_exchange_explicit(&c->middle, c->writing | FRESH, memory_order_acq_rel) & ~FRESH;
}

void hb_controller_hear(hb_controller *c, int64_t from_us, const double *action)
{
    /* a clock that was set back starts a new history */
    if (c->told.count > 0 && from_us < c->told.from[0])
        hb_command_history_reset(&c->told);
    hb_command_history_tell(&c->told, from_us, action);
}

/* Takes in what was answered since the last sample. */
static void hear_answers(hb_controller *c)
{
    unsigned in = atomic_load_explicit(&c->answers_in, memory_order_acquire),
             out = atomic_load_explicit(&c->answers_out, memory_order_relaxed);

    for (; out != in && out < c->hear_until; out++) {
        const answered *a = &c->answer[out % ANSWERS];
        hb_controller_hear(c, a->from_us, a->u);
    }
    atomic_store_explicit(&c->answers_out, out, memory_order_release);
}

/* Copies a state and brings its quaternion to length one; false: that is no attitude. */
static bool take_state(const hb_controller *c, const double *x, double *ret)
{
    int q = c->telemetry.quaternion;
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

static bool within_bounds(const hb_controller *c, const double *u)
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
    if (!take_state(c, o->x, c->sample))
        return HB_REASON_QUATERNION;
    if ((o->u && !within_bounds(c, o->u)) || (o->u_before && !within_bounds(c, o->u_before)))
        return HB_REASON_BAD_CONTROL;
    return HB_REASON_NONE;
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

/* Whether a sample that was set aside for this reason says that something is wrong with telemetry. */
static bool is_fault(hb_reason reason)
{
    return reason == HB_REASON_DIMENSION || reason == HB_REASON_NOT_FINITE || reason == HB_REASON_QUATERNION ||
           reason == HB_REASON_BAD_CONTROL || reason == HB_REASON_FROZEN || reason == HB_REASON_IMPLAUSIBLE;
}

static void note_fault(hb_controller *c, hb_reason reason, double now)
{
    bool over = now - c->fault_at >= recovers;

    /* what follows from a fault does not hide it */
    if (is_fault(reason) && (reason != HB_REASON_IMPLAUSIBLE || c->fault == HB_REASON_NONE || over)) {
        c->fault = reason;
        c->fault_at = now;
    } else if (!is_fault(reason) && over) {
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

    if (c->frozen && reason == HB_REASON_NONE)
        reason = HB_REASON_FROZEN;
    if (reason == HB_REASON_NONE)
        hb_estimator_stage(c->estimator, transition);
    if (!more)
        hb_estimator_settle(c->estimator);
    if (hb_estimator_health(c->estimator)->rejected != before.rejected)
        reason = HB_REASON_NOT_FINITE;
    else if (hb_estimator_health(c->estimator)->implausible != before.implausible)
        reason = HB_REASON_IMPLAUSIBLE;
    if (reason == HB_REASON_NONE && !c->s.adapt) {
        c->recent[c->nrecent % RECENT] = hb_stepper_error(c->average, transition);
        c->nrecent = c->nrecent + 1 < 2 * RECENT ? c->nrecent + 1 : RECENT;
    }
    return reason;
}

/* A sample on its way into the window. One whose state came with a request before was taken in then. */
static hb_reason take_in(hb_controller *c, hb_transitions *t, const hb_observation *given, double now, bool more)
{
    hb_observation o = *given;
    hb_transition transition;
    hb_reason reason = examine(c, given);
    bool used = reason == HB_REASON_NONE && t == &c->telemetry && c->used && given->time_us == c->used_us;

    o.x = c->sample;
    hear_answers(c);
    COUNT(c, observations);
    if (reason == HB_REASON_NONE) {
        if (given->u_before && t->waiting)
            hear_report(c, t->newest_us, given->u_before);
        if (given->u)
            hear_report(c, given->time_us, given->u);
        c->frozen = stands_still(c, given);
        reason = used ? c->used_as : hb_transitions_add(t, &o, &c->told, c->safe, &transition);
        /* a sign of life, also when it makes no transition */
        c->observed = true;
        c->observed_at = now;
        c->observed_us = given->time_us;
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
        COUNT(c, transitions);
    else
        COUNT(c, set_aside[reason]);
    if (!more)
        publish(c);
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
}

/* Transitions, up to which the newest is worth keeping a request waiting for. */
static const int little_known = 32;

/* Whoever publishes the state that it asked with does so after the answer, since the sample tells the control that
 * follows on it. The request already has the state, and so is all that came before. In the first moments of
 * a flight it is learned from for the answer, and not a period later. */
static hb_reason take_from_request(hb_controller *c, const hb_request *r, double now)
{
    hb_observation o = {
        .time_us = r->time_us, .x = r->x, .nx = r->nx, .nu = c->nu, .reset_counter = c->telemetry.reset_counter};
    hb_transition transition;
    hb_reason reason = examine(c, &o);

    remember_request(c, r);
    if (reason != HB_REASON_NONE)
        return reason;
    o.x = c->sample;
    hear_answers(c);
    c->used_as = learn(c, &transition, hb_transitions_add(&c->telemetry, &o, &c->told, c->safe, &transition), false);
    c->used = true;
    c->used_us = r->time_us;
    c->observed_at = now;
    note_fault(c, c->used_as, now);
    publish(c);
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
        publish(c);
    if (r->fresh)
        t->waiting = t->started = c->echoed = false;
    bool little = hb_estimator_health(c->estimator)->samples < little_known;
    if (telemetry_lives && little && c->echoed && r->time_us > c->asked_us && r->reset_counter == c->asked_counter)
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
    publish(c);
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
    publish(c);
    return 0;
}

/* ---- thread of planning ---- */

/* The newest snapshot, its coefficients in the predictor. */
static const snapshot *take_snapshot(hb_controller *c)
{
    hb_controller *owner = c->owner ? c->owner : c;

    if (atomic_load_explicit(&owner->middle, memory_order_relaxed) & FRESH)
        owner->reading = atomic_exchange_explicit(&owner->middle, owner->reading, memory_order_acq_rel) & ~FRESH;

    const snapshot *s = &owner->buffer[owner->reading];
    uint64_t wanted = c->s.adapt ? s->health.version : 0;
    if (wanted != c->set_version) {
        hb_predictor_set(hb_stepper_predictor(c->stepper), wanted ? s->coefficient : NULL);
        c->set_version = wanted;
        c->trimmed = false;
    }
    return s;
}

/* What the vehicle says of its control goes before what it was told, where they differ. */
static void hear_vehicle(hb_controller *c, const snapshot *s, const hb_request *r)
{
    if (s->reported && (c->reported_us_seen != s->reported_us)) {
        hb_command_history_report(&c->history, s->reported_us, s->report);
        c->reported_us_seen = s->reported_us;
    }
    if (r->applied && c->running && c->before_us < r->time_us)
        hb_command_history_report(&c->history, c->before_us, r->applied);
}

/* Seconds since the newest sample, by arrival or by the vehicle's own clock, whichever is longer. */
static double age_of_telemetry(hb_controller *c, const snapshot *s, const hb_request *r, double now)
{
    double arrived = fmax(0, now - s->observed_at), behind = (double)(r->time_us - s->observed_us) * 1e-6;

    if (!s->observed)
        return INFINITY;
    /* a bridge may stamp its requests by another clock: then that one says nothing */
    if (arrived <= c->s.stale_after && fabs(behind) <= c->s.stale_after)
        c->clocks_agree = true;
    return c->clocks_agree && behind < pause_factor * c->s.fallback_after ? fmax(arrived, behind) : arrived;
}

/* The delay until a command that the vehicle has begins to act; the same for all channels of a plan. */
static double actuator_delay(const hb_actuators *a)
{
    return (hb_actuators_shortest_delay(a) + hb_actuators_longest_delay(a)) / 2;
}

/* Propagates the request's state to the moment at which its action begins to act, under what the actuators make of the
 * commands that are on their way: to c->x0 and c->actuator_state. c->last_control becomes the last command before it.
 */
static void propagate(hb_controller *c, const hb_request *r, const hb_actuators *a)
{
    int64_t reaches = r->time_us + microseconds(c->s.delay), time = r->time_us,
            end = reaches + microseconds(actuator_delay(a)), step = microseconds(c->m->dt), until;

    take_state(c, r->x, c->x0);
    hb_command_history_settle(&c->history, a, c->safe, time, c->actuator_state);
    while (time < end) {
        int64_t next = end - time < step ? end : time + step;
        /* a step ends where another command takes over */
        hb_command_history_at(&c->history, time - microseconds(actuator_delay(a)), &until);
        if (until < next - microseconds(actuator_delay(a)))
            next = until + microseconds(actuator_delay(a));
        hb_command_history_drive(&c->history, a, c->safe, time, next, c->actuator_state, c->effective);
        hb_stepper_step(c->stepper, c->x0, c->effective, (double)(next - time) * 1e-6);
        time = next;
    }
    const double *u = hb_command_history_at(&c->history, reaches, &until);
    memcpy(c->last_control, u ? u : c->safe, (size_t)c->nu * sizeof *u);
}

/* Puts an action (nu) into the reply. */
static void answer(hb_controller *c, const double *action)
{
    bool finite = hb_all_finite(action, c->nu);

    for (int i = 0; i < c->nu; i++)
        c->action[i] = finite ? fmin(fmax(action[i], c->m->control_min[i]), c->m->control_max[i]) : c->safe[i];
    c->command.action = c->action;
}

/* The action will be in force: both histories hear of it. A guest's will not. */
static void tell(hb_controller *c, const hb_request *r)
{
    if (c->owner)
        return;
    unsigned in = atomic_load_explicit(&c->answers_in, memory_order_relaxed),
             out = atomic_load_explicit(&c->answers_out, memory_order_acquire);
    int64_t from_us = r->time_us + microseconds(c->s.delay);

    hb_command_history_tell(&c->history, from_us, c->action);
    if (c->rehearsing)
        return;
    if (in - out == ANSWERS) /* nobody listens: the other thread has had no sample since so many requests */
        return;
    c->answer[in % ANSWERS].from_us = from_us;
    memcpy(c->answer[in % ANSWERS].u, c->action, (size_t)c->nu * sizeof *c->action);
    atomic_store_explicit(&c->answers_in, in + 1, memory_order_release);
}

/* An episode starts: there is no plan to continue, and no command under way. */
static void start_over(hb_controller *c, const hb_request *r)
{
    hb_planner_reset(c->planner);
    c->awake_at = r->received;
    c->planned = false;
    hb_command_history_reset(&c->history);
    c->usual_period = 0;
}

static double plan_step(const hb_controller *c)
{
    double dt = c->s.planner.dt > 0 ? c->s.planner.dt : c->m->dt;

    return c->usual_period > slow_requests * dt ? fmin(c->usual_period, longest_step * dt) : dt;
}

/* Learns how often requests come. */
static void learn_period(hb_controller *c, double period)
{
    c->usual_period += (period - c->usual_period) * (c->usual_period == 0 ? 1 : 0.2);
}

/* Moves the current plan on to the time of the request. */
static void advance(hb_controller *c, const hb_request *r)
{
    double period = (double)(r->time_us - c->time_us) * 1e-6;

    if (!c->running || r->fresh || r->reset_counter != c->reset_counter || r->time_us < c->time_us) {
        start_over(c, r);
        c->clocks_agree &= !r->fresh; /* its clock may be another */
        c->time_us = r->time_us;
    } else if (c->planned && r->time_us > c->time_us) {
        hb_planner_shift(c->planner, fmin(period / hb_planner_step(c->planner), c->s.planner.horizon));
        if (period < c->s.fallback_after)
            learn_period(c, period);
    }
    if (r->received - c->heard > pause_factor * c->s.fallback_after)
        c->awake_at = r->received;
    if (c->owner)
        c->awake_at = -INFINITY;
    c->heard = r->received;
    c->running = true;
    c->followed = false;
    c->before_us = c->time_us;
    c->time_us = r->time_us;
    c->reset_counter = r->reset_counter;
}

static hb_command *start_reply(hb_controller *c, const snapshot *s, const hb_request *r, double now)
{
    COUNT(c, commands);
    c->command = (hb_command){
        .health = s->health,
        .version = s->health.version,
        .snapshot = s->number,
        .begun = now,
        .age = age_of_telemetry(c, s, r, now),
        .preparing = c->preparing,
        .guest = c->owner != NULL,
    };
    c->preparing = 0;
    if (c->planner) {
        c->command.prepared = hb_controller_prepared(c);
        c->command.plan = hb_planner_current(c->planner);
        c->command.states = hb_planner_states(c->planner);
        c->command.horizon = c->s.planner.horizon;
    }
    return &c->command;
}

static const hb_command *finish_reply(hb_controller *c, hb_status status, hb_reason reason)
{
    c->command.status = status;
    c->command.reason = reason;
    COUNT(c, status[status]);
    if (reason != HB_REASON_NONE)
        COUNT(c, refused[reason]);
    return &c->command;
}

/* Is the last plan young enough to be followed? */
static bool young(const hb_controller *c, const hb_request *r)
{
    return c->planned && (double)(r->time_us - c->planned_us) * 1e-6 <= c->s.safe_after;
}

/* The last plan as long as it is young enough, then the safe action. */
static const hb_command *fall_back(hb_controller *c, const hb_request *r, hb_reason why)
{
    answer(c, young(c, r) ? hb_planner_current(c->planner) : c->safe);
    tell(c, r);
    return finish_reply(c, HB_STATUS_FALLBACK, why);
}

static const hb_command *refuse(hb_controller *c, hb_reason why)
{
    answer(c, c->safe);
    return finish_reply(c, HB_STATUS_REFUSED, why);
}

/* Why a request cannot be answered. */
static hb_reason check_request(const hb_controller *c, const hb_request *r)
{
    if (!c->planner)
        return HB_REASON_NO_CONTROLS;
    if (r->nx != c->nx || (r->applied && r->napplied != c->nu))
        return HB_REASON_DIMENSION;
    if (r->time_us < 0 || r->time_us > INT64_MAX / 2)
        return HB_REASON_BAD_TIME;
    if (r->target_time ? r->ntargets < 1 || r->ntargets > HB_REFERENCE_ROWS
                       : r->ntargets > 1 && r->ntargets != c->s.planner.horizon + 1)
        return HB_REASON_HORIZON;
    if (!hb_all_finite(r->x, c->nx) || (r->applied && !hb_all_finite(r->applied, c->nu)) ||
        (r->ntargets > 0 && !hb_all_finite(r->target, r->ntargets * c->nx)) ||
        (r->target_time && !hb_all_finite(r->target_time, r->ntargets)))
        return HB_REASON_NOT_FINITE;
    for (int i = 1; r->target_time && i < r->ntargets; i++)
        if (!(r->target_time[i] > r->target_time[i - 1]))
            return HB_REASON_BAD_TIME;
    if (!take_state(c, r->x, c->x0))
        return HB_REASON_QUATERNION;
    if (r->ntargets <= 0 && c->s.ntarget == 0 && hb_cost_needs_target(&c->s.cost))
        return HB_REASON_NO_TARGET;
    return HB_REASON_NONE;
}

/* Where the plan is to go, at its own steps from `ahead` seconds after the request on. False: outside the limits, and
 * it is not to be clipped or cannot be. */
static bool take_targets(hb_controller *c, const hb_request *r, double ahead)
{
    const hb_limits *limits = &c->s.cost.limits;
    const hb_reference reference = {
        .nx = c->nx,
        .n = r->ntargets > 0 ? r->ntargets : 1,
        .quaternion = hb_model_quaternion(c->m),
        .target = r->ntargets > 0 ? r->target : c->s.target,
        .time = r->ntargets > 0 ? r->target_time : NULL,
        .step = c->s.planner.dt > 0 ? c->s.planner.dt : c->m->dt,
    };

    c->ntargets = reference.n > 1 ? c->s.planner.horizon + 1 : 1;
    for (int k = 0; k < c->ntargets; k++) {
        double *row = c->target + (size_t)k * (size_t)c->nx;
        hb_reference_at(&reference, ahead + k * plan_step(c), row);
        if (limits->targets == HB_TARGETS_CLIP ? !hb_limits_clip(limits, row) : !hb_limits_allow(limits, row))
            return false;
    }
    return true;
}

/* The control that holds the first target: solved again for another target, or when the coefficients have changed. The
 * model's own where there is none that does, or where solving takes too long. Where the plan is prepared, a request
 * does not wait for it: then it is solved behind the reply, and the one before must do. */
static const double *take_trim(hb_controller *c)
{
    const size_t size = (size_t)c->nx * sizeof *c->target;

    if (c->m->architecture == HB_INDEPENDENT)
        return c->m->control_trim;
    if (!c->trimmed || memcmp(c->trim_for, c->target, size) != 0) {
        memcpy(c->trim, c->m->control_trim, (size_t)c->nu * sizeof *c->trim);
        double unrest = hb_trim_solve(c->trimming, hb_stepper_predictor(c->stepper), c->target, c->m->dt, c->trim);
        if (!(unrest < still))
            memcpy(c->trim, c->m->control_trim, (size_t)c->nu * sizeof *c->trim);
        memcpy(c->trim_for, c->target, size);
        c->trimmed = true;
    }
    return c->trim;
}

static const double *last_trim(const hb_controller *c)
{
    return c->m->architecture == HB_INDEPENDENT ? c->m->control_trim : c->trim;
}

/* The worst rung of the ladder that applies to a plan that was made. */
static hb_status rung(const hb_controller *c, const snapshot *s, const hb_plan *plan)
{
    if (s->frozen || s->health.fault == HB_REASON_BEHIND ||
        (s->observed ? c->command.age > c->s.stale_after : s->health.samples > 0))
        return HB_STATUS_STALE;
    if (c->s.adapt && s->health.status == HB_ESTIMATE_OUT_OF_SPAN)
        return HB_STATUS_OUT_OF_SPAN;
    if (c->s.adapt && s->health.status == HB_ESTIMATE_WARMING_UP)
        return HB_STATUS_WARMING_UP;
    if (plan->limit)
        return HB_STATUS_LIMITED;
    return plan->converged ? HB_STATUS_CONVERGED : HB_STATUS_TRUNCATED;
}

/* Who plans for a request: for a guest someone who knows no request before it, and whom telemetry owes no time. */
static hb_controller *planner_of(hb_controller *c, const hb_request *r)
{
    if (!r->guest)
        return c;
    c->guest->running = c->guest->clocks_agree = false;
    c->guest->reported_us_seen = 0;
    c->guest->time_us = c->guest->before_us = 0;
    return c->guest;
}

/* Whether samples with this fault are not taken in at all. */
static bool is_refusal(hb_reason fault)
{
    return is_fault(fault) && fault != HB_REASON_FROZEN && fault != HB_REASON_IMPLAUSIBLE;
}

const hb_command *hb_controller_command(hb_controller *c, const hb_request *r, const hb_clock *clock)
{
    c = planner_of(c, r);
    double begun = clock->now(clock->context);
    const snapshot *s = take_snapshot(c);
    hb_command *reply = start_reply(c, s, r, begun);
    hb_reason reason = check_request(c, r);

    if (reason != HB_REASON_NONE)
        return refuse(c, reason);
    advance(c, r);

    const double latest = r->received + c->s.budget, deadline = r->deadline > 0 ? fmin(r->deadline, latest) : latest;
    if (begun >= deadline)
        return fall_back(c, r, HB_REASON_LATE);
    if (s->observed && fmin(reply->age, begun - c->awake_at) > c->s.fallback_after)
        return fall_back(c, r, is_refusal(s->health.fault) ? s->health.fault : HB_REASON_STALE);

    hear_vehicle(c, s, r);
    propagate(c, r, &s->actuators);
    if (!take_targets(c, r, c->s.delay + actuator_delay(&s->actuators)))
        return refuse(c, HB_REASON_OUTSIDE);
    const bool ready = c->s.planner.prepare && hb_planner_ready(c->planner, plan_step(c));
    hb_goal goal = {.target = c->target,
                    .ntargets = c->ntargets,
                    .last_control = c->last_control,
                    .lag = s->actuators.lag,
                    .actuator_state = c->actuator_state,
                    .step = plan_step(c),
                    .trim = ready ? last_trim(c) : take_trim(c)};
    if (!ready && c->m->architecture != HB_INDEPENDENT) {
        hb_trim_arrest(c->trimming, hb_stepper_predictor(c->stepper), c->x0, c->target, goal.trim, goal.step, ARREST,
                       c->arrest);
        goal.start = c->arrest;
        goal.nstart = ARREST;
    }
    const hb_plan *plan = (c->s.planner.prepare ? hb_planner_feedback : hb_planner_plan)(
        c->planner, hb_stepper_predictor(c->stepper), c->x0, &goal, r->tick, clock, deadline);

    reply->planning = clock->now(clock->context) - begun;
    reply->cost = plan->cost;
    reply->iterations = plan->iterations;
    reply->limit = plan->limit;
    reply->decisions = plan->decisions;
    reply->stages = plan->prepared;
    reply->corrected = plan->corrected;
    count_by(c, offsetof(hb_counters, corrected) / sizeof(uint64_t), plan->corrected);
    reply->plan = plan->action;
    reply->states = hb_planner_states(c->planner);
    count_by(c, offsetof(hb_counters, dropped_candidates) / sizeof(uint64_t), plan->dropped);
    c->followed = plan->evaluated || young(c, r);
    if (!plan->evaluated)
        return fall_back(c, r, plan->dropped ? HB_REASON_NOT_FINITE : HB_REASON_LATE);
    c->planned = true;
    c->planned_us = r->time_us;
    answer(c, plan->action);
    tell(c, r);
    return finish_reply(c, rung(c, s, plan), HB_REASON_NONE);
}

bool hb_controller_prepare(hb_controller *c, const hb_clock *clock, const atomic_bool *interrupt, uint64_t most)
{
    const double begun = clock->now(clock->context);
    const double left = c->s.planner.prepare_share * c->usual_period - c->preparing;

    if (!c->s.planner.prepare || !c->followed || !(left > 0))
        return false;
    const uint64_t before = hb_planner_stages(c->planner);
    take_trim(c);
    const uint64_t stages = hb_planner_prepare(c->planner, hb_stepper_predictor(c->stepper), c->usual_period, clock,
                                               begun + left, interrupt, most);
    const double took = clock->now(clock->context) - begun;
    c->preparing += took;
    count_by(c, offsetof(hb_counters, prepare_stages) / sizeof(uint64_t), stages - before);
    count_by(c, offsetof(hb_counters, prepare_us) / sizeof(uint64_t), (uint64_t)(1e6 * took + 0.5));
    return interrupt && atomic_load_explicit(interrupt, memory_order_relaxed) && !hb_planner_prepared(c->planner);
}

const hb_command *hb_controller_fallback(hb_controller *c, const hb_request *r, hb_reason why, double now)
{
    c = planner_of(c, r);
    hb_reason reason = check_request(c, r);

    start_reply(c, take_snapshot(c), r, now);
    c->command.immediate = true;
    if (reason != HB_REASON_NONE)
        return refuse(c, reason);
    advance(c, r);
    return fall_back(c, r, why);
}

const hb_command *hb_controller_rehearse(hb_controller *c, const double *x, double budget, const hb_clock *clock)
{
    const double now = clock->now(clock->context);
    const hb_request r = {.x = x,
                          .nx = c->nx,
                          .target = c->s.ntarget ? NULL : x,
                          .ntargets = c->s.ntarget ? 0 : 1,
                          .received = now,
                          .deadline = now + budget};

    c->running = false;
    c->rehearsing = true;
    const hb_command *command = hb_controller_command(c, &r, clock);
    c->rehearsing = c->running = false;
    return command;
}

const hb_prepared *hb_controller_prepared(hb_controller *c)
{
    if (!c->planner)
        return NULL;
    c->prepared = *hb_planner_preparing(c->planner);
    return &c->prepared;
}

uint64_t hb_controller_snapshots(const hb_controller *c)
{
    return c->snapshots;
}

uint64_t hb_controller_snapshot_taken(const hb_controller *c)
{
    return c->buffer[c->reading].number;
}

uint64_t hb_controller_heard(const hb_controller *c)
{
    return atomic_load_explicit(&c->answers_out, memory_order_relaxed);
}

void hb_controller_hear_until(hb_controller *c, uint64_t answers)
{
    c->hear_until = (unsigned)answers;
}

void hb_controller_script(hb_controller *c, const hb_decisions *preparing, const hb_decisions *planning)
{
    if (c->planner)
        hb_planner_script(c->planner, preparing, planning);
    if (c->guest && c->guest->planner)
        hb_planner_script(c->guest->planner, preparing, planning);
}

int hb_controller_predict(hb_controller *c, const double *x, const double *controls, int steps, double dt,
                          double *states, hb_error *err)
{
    if (steps < 0 || steps > MAX_STEPS)
        return hb_fail(err, EINVAL, "a prediction of %d steps, expected 0..%d", steps, (int)MAX_STEPS);
    if (!(dt > 0 && isfinite(dt)))
        return hb_fail(err, EINVAL, "a prediction with steps of %g s, expected more than 0", dt);
    if (!hb_all_finite(x, c->nx) || !hb_all_finite(controls, steps * c->nu))
        return hb_fail(err, EINVAL, "a prediction from numbers that are not finite");

    take_snapshot(c);
    memcpy(states, x, (size_t)c->nx * sizeof *states);
    for (int k = 0; k < steps; k++) {
        double *next = states + (size_t)(k + 1) * (size_t)c->nx;
        memcpy(next, next - c->nx, (size_t)c->nx * sizeof *next);
        hb_stepper_step(c->stepper, next, controls + (size_t)k * (size_t)c->nu, dt);
    }
    return 0;
}

int hb_controller_retune(hb_controller *c, const hb_controller_settings *s, hb_error *err)
{
    const hb_estimator_settings before = c->s.estimator;
    int r = hb_controller_check(c->m, s, err);

    if (r)
        return r;
    if (!hb_controller_same_estimation(&c->s, s))
        return hb_fail(err, EINVAL,
                       "estimator, telemetry.min_period, telemetry.max_period: the window and how it is solved change "
                       "with a restart "
                       "only");
    if ((r = hb_estimator_retune(c->estimator, &s->estimator, err)))
        return r;
    if (c->planner && (r = hb_planner_retune(c->planner, &s->planner, &s->cost, err))) {
        hb_estimator_retune(c->estimator, &before, NULL);
        return r;
    }
    if (c->guest->planner)
        hb_planner_retune(c->guest->planner, &s->planner, &s->cost, NULL);
    if (s->adapt != c->s.adapt)
        c->nrecent = 0;
    take_settings(c, s);
    take_settings(c->guest, s);
    publish(c);
    return 0;
}

static void copy_history(hb_command_history *to, const hb_command_history *from)
{
    hb_command_history copy = *from;

    copy.close = to->close;
    copy.u = to->u;
    if (from->nu > 0)
        memcpy(copy.u, from->u, (size_t)from->count * (size_t)from->nu * sizeof *from->u);
    *to = copy;
}

void hb_controller_take_over(hb_controller *to, hb_controller *from)
{
    for (size_t i = 0; i < sizeof to->counter / sizeof *to->counter; i++) {
        uint64_t mine = atomic_load_explicit(&to->counter[i], memory_order_relaxed);
        atomic_store_explicit(&to->counter[i], atomic_exchange_explicit(&from->counter[i], mine, memory_order_relaxed),
                              memory_order_relaxed);
    }
    /* what was answered last is in both histories, or on its way to one */
    hear_answers(from);
    copy_history(&to->told, &from->told);
    copy_history(&to->history, &from->history);
    to->reported_us_seen = from->reported_us_seen;
    to->running = from->running;
    to->heard = from->heard;
    to->awake_at = from->awake_at;
    to->time_us = from->time_us;
    to->before_us = from->before_us;
    to->reset_counter = from->reset_counter;
    to->planned = from->planned;
    to->planned_us = from->planned_us;
    to->followed = from->followed;
    to->preparing = from->preparing;
    to->usual_period = from->usual_period;
    to->clocks_agree = from->clocks_agree;
    to->trimmed = false;
    if (to->planner)
        hb_planner_take_over(to->planner, from->planner);
}
