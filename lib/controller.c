/* One vehicle's loop on two threads.
 *
 *     thread of telemetry                               thread of planning
 *     sample, joined with the one before it             request
 *       -> transition -> estimator                        -> newest snapshot -> predictor
 *       -> snapshot of coefficients and health            -> state propagated to the moment the action applies
 *                  \________ three buffers ________/      -> plan -> action and status
 *
 * The writer fills a buffer that nobody else holds and swaps it with the one in the middle; the reader swaps its own
 * with the middle when that is fresh. Neither ever waits. */
#include "controller.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRESH = 4,         /* flag beside the index of the middle buffer: not read yet */
    COMMANDS = 256,    /* commands remembered for delay compensation */
    MAX_DELAY = 100,   /* periods: fewer, since requests may come faster than the model's period */
    MAX_STEPS = 10000, /* of a prediction */
};

hb_controller_settings hb_controller_defaults(void)
{
    return (hb_controller_settings){
        .estimator = hb_estimator_defaults,
        .planner = hb_planner_defaults,
        .budget = 0.01,
        .stale_after = 0.1,
        .fallback_after = 0.2,
        .safe_after = 0.4,
        .min_period = 0.1,
        .max_period = 3,
        .adapt = true,
    };
}

/* What the thread of planning needs of the other one. */
typedef struct snapshot {
    hb_health health;
    bool observed;        /* a sample has come in */
    double observed_at;   /* caller's clock */
    hb_real *coefficient; /* hb_model_ncoefficients */
} snapshot;

/* A command under way: in force from a time on. */
typedef struct sent {
    int64_t from_us;
    double *u; /* nu */
} sent;

struct hb_controller {
    const hb_model *m;
    int nx, nu;

    /* thread of telemetry */
    hb_estimator *estimator;
    hb_pairing telemetry, requests;
    bool observed;
    double observed_at;
    int writing; /* the buffer to be filled next */

    /* between the two */
    snapshot buffer[3];
    _Atomic int middle;                                               /* index of a buffer, and FRESH */
    _Atomic uint64_t counter[sizeof(hb_counters) / sizeof(uint64_t)]; /* in the order of hb_counters */

    /* thread of planning */
    hb_controller_settings s;
    int reading;          /* the buffer last taken */
    uint64_t set_version; /* of the coefficients in the predictor; 0: the average */
    hb_predictor *predictor;
    hb_workspace *workspace;
    hb_planner *planner;
    hb_command command;
    double *action, *safe; /* nu */
    bool running;          /* a request came before */
    int64_t time_us;       /* of the newest request: the plan in hand starts there */
    int64_t before_us;     /* of the one before it */
    uint32_t reset_counter;
    bool planned;
    int64_t planned_us; /* request time of the last plan that was made */
    sent sent[COMMANDS];
    uint64_t nsent;
    double *x0, *last_control; /* nx, nu */
    hb_real *z, *u, *dt;       /* a batch, batch.h */
};

/* ---- set-up ---- */

static hb_controller *lay_out(const hb_model *m, const hb_controller_settings *s, hb_arena *arena)
{
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu;
    hb_controller *taken = hb_arena_take(arena, 1, sizeof *taken), none = {0}, *c = taken ? taken : &none;

    for (int i = 0; i < 3; i++)
        c->buffer[i].coefficient = hb_arena_take(arena, (size_t)hb_model_ncoefficients(m), sizeof(hb_real));
    c->telemetry = c->requests =
        (hb_pairing){.nx = m->nx, .nu = m->nu, .min_dt = s->min_period * m->dt, .max_dt = s->max_period * m->dt};
    hb_pairing_lay_out(&c->telemetry, arena);
    hb_pairing_lay_out(&c->requests, arena);
    for (int i = 0; i < COMMANDS; i++)
        c->sent[i].u = hb_arena_take(arena, nu, sizeof(double));
    c->action = hb_arena_take(arena, nu, sizeof(double));
    c->safe = hb_arena_take(arena, nu, sizeof(double));
    c->x0 = hb_arena_take(arena, nx, sizeof(double));
    c->last_control = hb_arena_take(arena, nu, sizeof(double));
    c->z = hb_arena_take(arena, nx * HB_STRIDE, sizeof(hb_real));
    c->u = hb_arena_take(arena, nu * HB_STRIDE, sizeof(hb_real));
    c->dt = hb_arena_take(arena, HB_STRIDE, sizeof(hb_real));
    return taken;
}

static bool all_finite(const double *x, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static bool needs_target(const hb_cost *cost)
{
    for (int i = 0; i < cost->nterms; i++)
        if (cost->term[i].kind == HB_COST_DISTANCE || cost->term[i].kind == HB_COST_SQUARED)
            return true;
    return false;
}

static int check_settings(const hb_model *m, const hb_controller_settings *s, hb_error *err)
{
    const struct {
        const char *key;
        double value;
        bool positive; /* or else zero is allowed */
    } duration[] = {
        {"budget", s->budget, true},
        {"stale_after", s->stale_after, true},
        {"fallback_after", s->fallback_after, true},
        {"safe_after", s->safe_after, false},
        {"min_period", s->min_period, true},
        {"max_period", s->max_period, true},
        {"delay", s->delay, false},
    };

    for (size_t i = 0; i < sizeof duration / sizeof *duration; i++)
        if (!(duration[i].positive ? duration[i].value > 0 : duration[i].value >= 0) || !isfinite(duration[i].value))
            return hb_fail(err, EINVAL, "controller.%s: %g is not %s", duration[i].key, duration[i].value,
                           duration[i].positive ? "above 0" : "0 or more");
    if (s->delay > MAX_DELAY * m->dt)
        return hb_fail(err, EINVAL, "controller.delay: %g is more than %d periods of %g s", s->delay, (int)MAX_DELAY,
                       m->dt);
    if (s->min_period > s->max_period)
        return hb_fail(err, EINVAL, "controller.min_period: %g is above max_period, %g", s->min_period, s->max_period);
    if (s->stale_after > s->fallback_after)
        return hb_fail(err, EINVAL, "controller.stale_after: %g is above fallback_after, %g", s->stale_after,
                       s->fallback_after);
    if (s->ntarget != 0 && (s->ntarget != m->nx || m->nx > HB_MAX_TARGET))
        return hb_fail(err, EINVAL, "controller.target has %d states, the model %d (at most %d can be configured)",
                       s->ntarget, m->nx, (int)HB_MAX_TARGET);
    if (!all_finite(s->target, s->ntarget))
        return hb_fail(err, EINVAL, "controller.target is not finite");
    if (s->nsafe_action != 0 && s->nsafe_action != m->nu)
        return hb_fail(err, EINVAL, "controller.safe_action has %d controls, the model %d", s->nsafe_action, m->nu);
    for (int i = 0; i < s->nsafe_action; i++)
        if (!(s->safe_action[i] >= m->control_min[i] && s->safe_action[i] <= m->control_max[i]))
            return hb_fail(err, EINVAL, "controller.safe_action[%d]: %g is not within the bounds %g..%g of %s", i,
                           s->safe_action[i], m->control_min[i], m->control_max[i], m->control_name[i]);
    return 0;
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

int hb_controller_new(hb_controller **ret, const hb_model *m, const hb_controller_settings *s, hb_pool *pool,
                      void *memory, hb_error *resumed, hb_error *err)
{
    hb_arena arena = {0};
    int r;

    if (m->nu > HB_MAX_CONTROLS)
        return hb_fail(err, EINVAL, "the model has %d controls, at most %d are supported", m->nu, (int)HB_MAX_CONTROLS);
    if ((r = check_settings(m, s, err)))
        return r;
    lay_out(m, s, &arena);
    if ((r = hb_arena_allocate(&arena, err)))
        return r;
    hb_controller *c = lay_out(m, s, &arena);

    c->m = m;
    c->nx = m->nx;
    c->nu = m->nu;
    c->writing = 0;
    c->reading = 1;
    atomic_init(&c->middle, 2);
    take_settings(c, s);
    if ((r = hb_estimator_new(&c->estimator, m, &s->estimator, memory, resumed, err)) ||
        (r = hb_predictor_new(&c->predictor, m, err)) || (r = hb_workspace_new(&c->workspace, m, false, err)) ||
        (r = hb_planner_new(&c->planner, m, &s->planner, &s->cost, pool, err))) {
        hb_controller_free(c);
        return r;
    }
    hb_predictor_set(c->predictor, NULL);
    publish(c);
    *ret = c;
    return 0;
}

void hb_controller_free(hb_controller *c)
{
    if (!c)
        return;
    hb_planner_free(c->planner);
    hb_workspace_free(c->workspace);
    hb_predictor_free(c->predictor);
    hb_estimator_free(c->estimator);
    free(c);
}

/* ---- counters ---- */

/* field: of hb_counters */
#define COUNT(c, field) count_by(c, offsetof(hb_counters, field) / sizeof(uint64_t), 1)

static void count_by(hb_controller *c, size_t index, uint64_t amount)
{
    atomic_fetch_add_explicit(&c->counter[index], amount, memory_order_relaxed);
}

void hb_controller_counters(const hb_controller *c, hb_counters *ret)
{
    uint64_t value[sizeof(hb_counters) / sizeof(uint64_t)];

    for (size_t i = 0; i < sizeof value / sizeof *value; i++)
        value[i] = atomic_load_explicit(&c->counter[i], memory_order_relaxed);
    memcpy(ret, value, sizeof value);
}

/* ---- thread of telemetry ---- */

/* Hands the estimate to the other thread. */
static void publish(hb_controller *c)
{
    snapshot *s = &c->buffer[c->writing];

    s->health = *hb_estimator_health(c->estimator);
    s->observed = c->observed;
    s->observed_at = c->observed_at;
    memcpy(s->coefficient, hb_estimator_coefficients(c->estimator),
           (size_t)hb_model_ncoefficients(c->m) * sizeof *s->coefficient);
    c->writing = atomic_exchange_explicit(&c->middle, c->writing | FRESH, memory_order_acq_rel) & ~FRESH;
}

/* A sample on its way into the window. */
static hb_reason take_in(hb_controller *c, hb_pairing *p, const hb_observation *o, double now)
{
    hb_transition transition;
    hb_reason reason = hb_pairing_join(p, o, &transition);

    COUNT(c, observations);
    if (reason == HB_REASON_NONE) {
        uint64_t rejected = hb_estimator_health(c->estimator)->rejected;
        hb_estimator_push(c->estimator, &transition);
        if (hb_estimator_health(c->estimator)->rejected != rejected)
            reason = HB_REASON_NOT_FINITE;
    }
    if (reason == HB_REASON_NONE)
        COUNT(c, transitions);
    else
        COUNT(c, set_aside[reason]);

    /* a sample that makes no transition is a sign of life all the same, unless it makes no sense */
    if (reason != HB_REASON_DIMENSION && reason != HB_REASON_NOT_FINITE) {
        c->observed = true;
        c->observed_at = now;
    }
    publish(c);
    return reason;
}

hb_reason hb_controller_observe(hb_controller *c, const hb_observation *o, double now)
{
    return take_in(c, &c->telemetry, o, now);
}

hb_reason hb_controller_observe_request(hb_controller *c, const hb_request *r, double now)
{
    hb_pairing *p = &c->requests;
    bool telemetry_lives = c->telemetry.waiting && (double)(r->time_us - c->telemetry.time_us) * 1e-6 <= p->max_dt;
    /* the control from now on is not known: the next request tells */
    hb_observation o = {.time_us = r->time_us,
                        .x = r->x,
                        .nx = r->nx,
                        .nu = r->napplied,
                        .u_before = r->applied,
                        .reset_counter = r->reset_counter};

    if (!telemetry_lives && r->applied)
        return take_in(c, p, &o, now);
    p->waiting = false;
    if (!telemetry_lives && r->nx == c->nx && all_finite(r->x, c->nx))
        hb_pairing_wait(p, &o);
    return HB_REASON_FIRST;
}

void hb_controller_forget(hb_controller *c)
{
    hb_estimator_reset(c->estimator);
    publish(c);
}

const hb_health *hb_controller_health(const hb_controller *c)
{
    return hb_estimator_health(c->estimator);
}

const hb_real *hb_controller_coefficients(const hb_controller *c, const double **variance)
{
    if (variance)
        *variance = hb_estimator_variance(c->estimator);
    return hb_estimator_coefficients(c->estimator);
}

void hb_controller_seed(hb_controller *c, const hb_real *coefficient)
{
    hb_estimator_seed(c->estimator, coefficient);
    publish(c);
}

/* ---- thread of planning ---- */

/* The newest snapshot, its coefficients in the predictor. */
static const snapshot *take_snapshot(hb_controller *c)
{
    if (atomic_load_explicit(&c->middle, memory_order_relaxed) & FRESH)
        c->reading = atomic_exchange_explicit(&c->middle, c->reading, memory_order_acq_rel) & ~FRESH;

    const snapshot *s = &c->buffer[c->reading];
    uint64_t wanted = c->s.adapt ? s->health.version : 0;
    if (wanted != c->set_version) {
        hb_predictor_set(c->predictor, wanted ? s->coefficient : NULL);
        c->set_version = wanted;
    }
    return s;
}

/* One step of the model on x (nx, physical), in place. */
static void step(hb_controller *c, double *x, const double *u, double dt)
{
    const hb_model *m = c->m;

    for (int lane = 0; lane < HB_LANES; lane++) {
        for (int i = 0; i < c->nx; i++)
            c->z[i * HB_STRIDE + lane] = (hb_real)((x[i] - m->state_mean[i]) / m->state_std[i]);
        for (int i = 0; i < c->nu; i++)
            c->u[i * HB_STRIDE + lane] = (hb_real)((u[i] - m->control_mean[i]) / m->control_std[i]);
        c->dt[lane] = (hb_real)dt;
    }
    hb_predictor_step(c->predictor, c->workspace, &(hb_batch){.n = 1, .z = c->z, .u = c->u, .dt = c->dt}, c->z, NULL);
    for (int i = 0; i < c->nx; i++)
        x[i] = c->z[i * HB_STRIDE] * m->state_std[i] + m->state_mean[i];
}

static int64_t microseconds(double seconds)
{
    return (int64_t)llround(seconds * 1e6);
}

/* The command in force at a time, and when the next one takes over. Commands are remembered in order of time. */
static const double *in_force(const hb_controller *c, int64_t time_us, int64_t *ret_until)
{
    uint64_t oldest = c->nsent > COMMANDS ? c->nsent - COMMANDS : 0;

    *ret_until = INT64_MAX;
    for (uint64_t i = c->nsent; i > oldest; i--) {
        const sent *s = &c->sent[(i - 1) % COMMANDS];
        if (s->from_us <= time_us)
            return s->u;
        *ret_until = s->from_us;
    }
    return NULL;
}

/* Propagates the request's state, in c->x0, to the moment at which its action will apply, under the controls already
 * on their way; c->last_control becomes the control in force until then. */
static void propagate(hb_controller *c, const hb_request *r)
{
    int64_t time = r->time_us, end = time + microseconds(c->s.delay), period = microseconds(c->m->dt);
    int64_t until, told_until, ignored;

    /* what the vehicle says of the time since the last request goes before what it was told, if that was the command
     * that is still in force */
    bool told = in_force(c, time, &told_until) == in_force(c, c->before_us + (time - c->before_us) / 2, &ignored);

    memcpy(c->x0, r->x, (size_t)c->nx * sizeof *c->x0);
    for (;;) {
        const double *u = in_force(c, time, &until);
        if (r->applied && told && time < told_until)
            u = r->applied;
        memcpy(c->last_control, u ? u : c->safe, (size_t)c->nu * sizeof *u);
        if (time >= end)
            break;

        int64_t next = until < end ? until : end;
        next = next - time < period ? next : time + period;
        step(c, c->x0, c->last_control, (double)(next - time) * 1e-6);
        time = next;
    }
}

/* Puts an action (nu) into the reply. */
static void answer(hb_controller *c, const double *action)
{
    bool finite = all_finite(action, c->nu);

    for (int i = 0; i < c->nu; i++)
        c->action[i] = finite ? fmin(fmax(action[i], c->m->control_min[i]), c->m->control_max[i]) : c->safe[i];
    c->command.action = c->action;
}

/* Remembers the answer: in force from the request's time and the delay on. */
static void remember(hb_controller *c, const hb_request *r)
{
    sent *s = &c->sent[c->nsent++ % COMMANDS];

    s->from_us = r->time_us + microseconds(c->s.delay);
    memcpy(s->u, c->action, (size_t)c->nu * sizeof *s->u);
}

/* An episode starts: there is no plan to go on with, and no command under way. */
static void start_afresh(hb_controller *c)
{
    hb_planner_reset(c->planner);
    c->planned = false;
    c->nsent = 0;
}

/* Moves the plan in hand on to the time of the request. */
static void advance(hb_controller *c, const hb_request *r)
{
    double dt = c->s.planner.dt > 0 ? c->s.planner.dt : c->m->dt;

    if (!c->running || r->reset_counter != c->reset_counter || r->time_us < c->time_us) {
        start_afresh(c);
        c->time_us = r->time_us;
    } else if (c->planned && r->time_us > c->time_us) {
        hb_planner_shift(c->planner, fmin((double)(r->time_us - c->time_us) * 1e-6 / dt, c->s.planner.horizon));
    }
    c->running = true;
    c->before_us = c->time_us;
    c->time_us = r->time_us;
    c->reset_counter = r->reset_counter;
}

static hb_command *start_reply(hb_controller *c, const snapshot *s, double now)
{
    COUNT(c, commands);
    c->command = (hb_command){
        .health = s->health,
        .version = s->health.version,
        .age = s->observed ? fmax(0, now - s->observed_at) : INFINITY,
        .plan = hb_planner_current(c->planner),
        .states = hb_planner_states(c->planner),
        .horizon = c->s.planner.horizon,
    };
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

/* The last plan as long as it is young enough, then the safe action. */
static const hb_command *fall_back(hb_controller *c, const hb_request *r, hb_reason why)
{
    bool young = c->planned && (double)(r->time_us - c->planned_us) * 1e-6 <= c->s.safe_after;

    answer(c, young ? hb_planner_current(c->planner) : c->safe);
    remember(c, r);
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
    if (r->nx != c->nx || (r->applied && r->napplied != c->nu))
        return HB_REASON_DIMENSION;
    if (r->time_us < 0 || r->time_us > INT64_MAX / 2)
        return HB_REASON_BAD_TIME;
    if (r->ntargets > 1 && r->ntargets != c->s.planner.horizon + 1)
        return HB_REASON_HORIZON;
    if (!all_finite(r->x, c->nx) || (r->applied && !all_finite(r->applied, c->nu)) ||
        (r->ntargets > 0 && !all_finite(r->target, r->ntargets * c->nx)))
        return HB_REASON_NOT_FINITE;
    if (r->ntargets <= 0 && c->s.ntarget == 0 && needs_target(&c->s.cost))
        return HB_REASON_NO_TARGET;
    return HB_REASON_NONE;
}

/* The worst rung of the ladder that applies to a plan that was made. */
static hb_status rung(const hb_controller *c, const snapshot *s, const hb_plan *plan)
{
    if (s->observed ? c->command.age > c->s.stale_after : s->health.samples > 0)
        return HB_STATUS_STALE;
    if (c->s.adapt && s->health.status == HB_ESTIMATE_OUT_OF_SPAN)
        return HB_STATUS_OUT_OF_SPAN;
    if (c->s.adapt && s->health.status == HB_ESTIMATE_WARMING_UP)
        return HB_STATUS_WARMING_UP;
    return plan->converged ? HB_STATUS_CONVERGED : HB_STATUS_TRUNCATED;
}

const hb_command *hb_controller_command(hb_controller *c, const hb_request *r, const hb_clock *clock)
{
    double begun = clock->now(clock->context);
    const snapshot *s = take_snapshot(c);
    hb_command *reply = start_reply(c, s, begun);
    hb_reason reason = check_request(c, r);

    if (reason != HB_REASON_NONE)
        return refuse(c, reason);
    advance(c, r);

    double budget = r->budget > 0 ? fmin(r->budget, c->s.budget) : c->s.budget, deadline = r->received + budget;
    if (begun >= deadline)
        return fall_back(c, r, HB_REASON_LATE);
    if (s->observed && reply->age > c->s.fallback_after)
        return fall_back(c, r, HB_REASON_STALE);

    propagate(c, r);
    hb_goal goal = {.target = r->ntargets > 0 ? r->target : c->s.target,
                    .ntargets = r->ntargets > 0 ? r->ntargets : 1,
                    .last_control = c->last_control,
                    .trim = c->m->control_trim};
    const hb_plan *plan = hb_planner_plan(c->planner, c->predictor, c->x0, &goal, r->tick, clock, deadline);

    reply->planning = clock->now(clock->context) - begun;
    reply->cost = plan->cost;
    reply->iterations = plan->iterations;
    reply->plan = plan->action;
    reply->states = hb_planner_states(c->planner);
    count_by(c, offsetof(hb_counters, dropped_candidates) / sizeof(uint64_t), plan->dropped);
    if (!plan->evaluated)
        return fall_back(c, r, plan->dropped ? HB_REASON_NOT_FINITE : HB_REASON_LATE);
    c->planned = true;
    c->planned_us = r->time_us;
    answer(c, plan->action);
    remember(c, r);
    return finish_reply(c, rung(c, s, plan), HB_REASON_NONE);
}

const hb_command *hb_controller_fallback(hb_controller *c, const hb_request *r, hb_reason why, double now)
{
    hb_reason reason = check_request(c, r);

    start_reply(c, take_snapshot(c), now);
    if (reason != HB_REASON_NONE)
        return refuse(c, reason);
    advance(c, r);
    return fall_back(c, r, why);
}

int hb_controller_predict(hb_controller *c, const double *x, const double *controls, int steps, double dt,
                          double *states, hb_error *err)
{
    if (steps < 0 || steps > MAX_STEPS)
        return hb_fail(err, EINVAL, "a prediction of %d steps, expected 0..%d", steps, (int)MAX_STEPS);
    if (!(dt > 0 && isfinite(dt)))
        return hb_fail(err, EINVAL, "a prediction with steps of %g s, expected more than 0", dt);
    if (!all_finite(x, c->nx) || !all_finite(controls, steps * c->nu))
        return hb_fail(err, EINVAL, "a prediction from numbers that are not finite");

    take_snapshot(c);
    memcpy(states, x, (size_t)c->nx * sizeof *states);
    for (int k = 0; k < steps; k++) {
        double *next = states + (size_t)(k + 1) * (size_t)c->nx;
        memcpy(next, next - c->nx, (size_t)c->nx * sizeof *next);
        step(c, next, controls + (size_t)k * (size_t)c->nu, dt);
    }
    return 0;
}

/* Settings that the thread of telemetry reads. */
static bool same_estimation(const hb_controller_settings *a, const hb_controller_settings *b)
{
    const hb_estimator_settings *p = &a->estimator, *q = &b->estimator;

    return p->window == q->window && p->warmup == q->warmup && p->solve_every == q->solve_every &&
           p->method == q->method && p->ridge == q->ridge && p->forgetting == q->forgetting &&
           p->relinearise == q->relinearise && p->detect_changes == q->detect_changes &&
           p->change_threshold == q->change_threshold && p->span_threshold == q->span_threshold &&
           a->min_period == b->min_period && a->max_period == b->max_period;
}

int hb_controller_retune(hb_controller *c, const hb_controller_settings *s, hb_error *err)
{
    int r = check_settings(c->m, s, err);

    if (r)
        return r;
    if (!same_estimation(&c->s, s))
        return hb_fail(err, EINVAL, "settings of the estimator and min_period, max_period change with a restart only");
    if ((r = hb_planner_retune(c->planner, &s->planner, &s->cost, err)))
        return r;
    take_settings(c, s);
    return 0;
}
