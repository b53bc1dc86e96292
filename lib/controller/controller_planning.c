/* The controller's thread of planning: a request becomes an action and a status that is true, from the newest snapshot
 * of what telemetry taught. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "controller/controller_internal.h"

static const double still = 0.05;         /* standard deviations a step that the state may move by under trim */
static const double pause_factor = 5;     /* fallback_after without a request, so many times: nobody was flying */
static const double slow_requests = 1.25; /* times the plan's step: from there on the plan takes their period as step */
static const double quick = 1e-3;         /* seconds, of a correction */
static const double most_turned = 400;    /* radians: as far from zero, single precision knows an angle to 3e-5 */
static const double share_over = 0.2; /* seconds: what preparing left of its share in so long may be taken at once */

enum { MAX_STEPS = 10000 }; /* of a prediction */

static int64_t microseconds(double seconds)
{
    return (int64_t)llround(seconds * 1e6);
}

/* The newest snapshot, its coefficients in the predictor. */
static const hb_snapshot *take_snapshot(hb_controller *c)
{
    hb_controller *owner = c->owner ? c->owner : c;

    if (atomic_load_explicit(&owner->middle, memory_order_relaxed) & HB_FRESH)
        owner->reading = atomic_exchange_explicit(&owner->middle, owner->reading, memory_order_acq_rel) & ~HB_FRESH;

    const hb_snapshot *s = &owner->buffer[owner->reading];
    uint64_t wanted = c->s.adapt && !c->distrusted ? s->health.version : 0;
    if (wanted != c->set_version) {
        hb_predictor_set(hb_stepper_predictor(c->stepper), wanted ? s->coefficient : NULL);
        c->set_version = wanted;
        c->trimmed = false;
    }
    return s;
}

/* What the vehicle says of its control goes before what it was told, where they differ. */
static void hear_vehicle(hb_controller *c, const hb_snapshot *s, const hb_request *r)
{
    if (c->sent_seen + HB_SENT < s->nsent)
        c->sent_seen = s->nsent - HB_SENT;
    for (; c->sent_seen < s->nsent; c->sent_seen++) {
        const hb_answered *a = &s->sent[c->sent_seen % HB_SENT];
        hb_command_history_replace(&c->history, a->from_us, a->u);
    }
    if (s->reported && (c->reported_us_seen != s->reported_us)) {
        hb_command_history_report(&c->history, s->reported_us, s->report);
        c->reported_us_seen = s->reported_us;
    }
    /* a value outside the bounds would stay in the actuators' state until their lag has let it decay */
    if (r->applied && hb_controller_within_bounds(c, r->applied) && c->running && c->before_us < r->time_us)
        hb_command_history_report(&c->history, c->before_us, r->applied);
}

/* Seconds since the newest sample, by arrival or by the vehicle's own clock, whichever is longer. */
static double age_of_telemetry(hb_controller *c, const hb_snapshot *s, const hb_request *r, double now)
{
    double arrived = fmax(0, now - s->observed_at), behind = (double)(r->time_us - s->observed_us) * 1e-6;

    if (!s->observed)
        return INFINITY;
    /* a bridge may stamp its requests by another clock, whose times say nothing about telemetry */
    if (arrived <= c->s.stale_after && fabs(behind) <= c->s.stale_after)
        c->clocks_agree = true;
    return c->clocks_agree ? fmax(arrived, behind) : arrived;
}

/* The delay until a command that the vehicle has begins to act; the same for all channels of a plan. */
static double actuator_delay(const hb_actuators *a)
{
    return (hb_actuators_shortest_delay(a) + hb_actuators_longest_delay(a)) / 2;
}

/* The request's state to c->x0; false: that is no attitude. Angles go on from the request before: what is planned and
 * prepared knows no jumps by a turn. After many turns they begin at zero again, and what was prepared is of no use. */
static bool take_request_state(hb_controller *c, const hb_request *r)
{
    const hb_rotations *rotations = &c->telemetry.rotations;

    if (!hb_controller_take_state(c, r->x, c->x0))
        return false;
    for (int i = 0; !(c->planned && c->running) && i < c->nx; i++)
        c->request_state[i] = 0;
    hb_rotations_unwind(rotations, c->x0, c->request_state);
    c->rewound = false;
    for (int i = 0; i < c->nx; i++)
        c->rewound |= c->m->angle[i] && fabs(c->x0[i]) > most_turned;
    if (c->rewound)
        hb_rotations_canonical(rotations, c->x0);
    return true;
}

/* Propagates the request's state to the moment at which its action begins to act, under what the actuators make of the
 * commands that are on their way: to c->x0 and c->actuator_state. c->last_control becomes the last command before it.
 */
static void propagate(hb_controller *c, const hb_request *r, const hb_actuators *a)
{
    int64_t reaches = r->time_us + microseconds(c->s.delay), time = r->time_us,
            end = reaches + microseconds(actuator_delay(a)), step = microseconds(c->m->dt), until;

    take_request_state(c, r);
    memcpy(c->request_state, c->x0, (size_t)c->nx * sizeof *c->x0);
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

/* The action will be applied: both command histories take it in. A guest's will not be applied. */
static void tell(hb_controller *c, const hb_request *r)
{
    if (c->owner)
        return;
    unsigned in = atomic_load_explicit(&c->answers_in, memory_order_relaxed),
             out = atomic_load_explicit(&c->answers_out, memory_order_acquire);
    int64_t from_us = r->time_us + microseconds(c->s.delay);

    hb_command_history_tell(&c->history, from_us, c->action);
    if (c->dry_run)
        return;
    if (in - out == HB_ANSWERS) /* full: telemetry has had no sample for as many requests */
        return;
    c->answer[in % HB_ANSWERS].from_us = from_us;
    memcpy(c->answer[in % HB_ANSWERS].u, c->action, (size_t)c->nu * sizeof *c->action);
    atomic_store_explicit(&c->answers_in, in + 1, memory_order_release);
}

/* An episode starts: there is no plan to continue, and no command under way. */
static void start_over(hb_controller *c, const hb_request *r)
{
    hb_planner_reset(c->planner);
    c->awake_at = r->received;
    c->planned = false;
    c->distrusted = false;
    c->average_until_us = INT64_MIN;
    hb_command_history_reset(&c->history);
    c->usual_period = 0;
}

static double plan_step(const hb_controller *c)
{
    double dt = c->s.planner.dt > 0 ? c->s.planner.dt : c->m->dt;

    return c->usual_period > slow_requests * dt ? fmin(c->usual_period, fmax(c->most_step, dt)) : dt;
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
        c->rested = share_over;
        c->clocks_agree &= !r->fresh; /* its clock may be another */
        c->time_us = r->time_us;
    } else if (c->planned && r->time_us > c->time_us) {
        hb_planner_shift(c->planner, fmin(period / hb_planner_step(c->planner), c->s.planner.horizon));
        if (period < c->s.fallback_after)
            learn_period(c, period);
        c->rested = fmin(c->rested + period, share_over);
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

static hb_command *start_reply(hb_controller *c, const hb_snapshot *s, const hb_request *r, double now)
{
    hb_controller_count(c, HB_COUNTER(commands), 1);
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
    hb_controller_count(c, HB_COUNTER(status[status]), 1);
    if (status >= HB_STATUS_FALLBACK)
        hb_controller_count(c, HB_COUNTER(refused[reason]), 1);
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
static hb_reason check_request(hb_controller *c, const hb_request *r)
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
    if (!take_request_state(c, r))
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
        .rotations = c->telemetry.rotations,
        .target = r->ntargets > 0 ? r->target : c->s.target,
        .time = r->ntargets > 0 ? r->target_time : NULL,
        .step = c->s.planner.dt > 0 ? c->s.planner.dt : c->m->dt,
    };

    c->ntargets = reference.n > 1 ? c->s.planner.horizon + 1 : 1;
    for (int k = 0; k < c->ntargets; k++) {
        double *row = c->target + (size_t)k * (size_t)c->nx;
        hb_reference_at(&reference, ahead + k * plan_step(c), row);
        /* the shorter way round, and no jump on it */
        hb_rotations_unwind(&reference.rotations, row, k ? row - c->nx : c->x0);
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
static hb_status rung(const hb_controller *c, const hb_snapshot *s, const hb_plan *plan)
{
    if (s->doubted || s->health.fault == HB_REASON_BEHIND ||
        (s->observed ? c->command.age > c->s.stale_after : s->health.samples > 0))
        return HB_STATUS_STALE;
    if (c->s.adapt && s->health.status == HB_ESTIMATE_OUT_OF_SPAN)
        return HB_STATUS_OUT_OF_SPAN;
    if (c->s.adapt && (s->health.status == HB_ESTIMATE_WARMING_UP || c->distrusted))
        return HB_STATUS_WARMING_UP;
    if (plan->limit)
        return HB_STATUS_LIMITED;
    return plan->converged ? HB_STATUS_CONVERGED : HB_STATUS_TRUNCATED;
}

/* The controller that plans for a request. For a guest it starts from nothing: it knows no earlier request, and nothing
 * of how the clocks of telemetry and requests compare. */
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
    return hb_controller_is_fault(fault) && fault != HB_REASON_FROZEN && fault != HB_REASON_IMPLAUSIBLE;
}

/* Whether the current plan is one of several starts, instead of only being corrected: it breaks a limit, or the
 * coefficients it was made with are out of date, because the dynamics changed since, or because so little is known that
 * one more transition may change them completely. With independent models there is no time for that. */
static bool starts_compete(const hb_controller *c, const hb_snapshot *s)
{
    const bool hardly_known = s->health.samples < HB_UNKNOWN;

    return c->m->architecture != HB_INDEPENDENT &&
           (c->limited || (c->s.adapt && (s->health.changes != c->changes_seen ||
                                          (hardly_known && c->set_version != c->planned_version))));
}

bool hb_controller_will_correct(hb_controller *c)
{
    return c->planner && c->s.planner.prepare && hb_planner_prepared(c->planner) && c->command.corrected &&
           c->command.planning < quick && !starts_compete(c, take_snapshot(c));
}

const hb_command *hb_controller_command(hb_controller *c, const hb_request *r, const hb_clock *clock)
{
    c = planner_of(c, r);
    double begun = clock->now(clock->context);
    c->distrusted = r->time_us < c->average_until_us;
    const hb_snapshot *s = take_snapshot(c);
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
    const bool ready =
        c->s.planner.prepare && hb_planner_ready(c->planner, plan_step(c)) && !c->rewound && !starts_compete(c, s);
    const uint64_t stages = hb_planner_stages(c->planner);
    hb_goal goal = {.target = c->target,
                    .ntargets = c->ntargets,
                    .last_control = c->last_control,
                    .lag = s->actuators.lag,
                    .actuator_state = c->actuator_state,
                    .step = plan_step(c),
                    .trim = ready ? last_trim(c) : take_trim(c)};
    if (!ready && c->m->architecture != HB_INDEPENDENT) {
        hb_trim_arrest(c->trimming, hb_stepper_predictor(c->stepper), c->x0, c->target, goal.trim, goal.step, HB_ARREST,
                       c->arrest);
        goal.start = c->arrest;
        goal.nstart = HB_ARREST;
    }
    const hb_plan *plan = (ready ? hb_planner_feedback : hb_planner_plan)(c->planner, hb_stepper_predictor(c->stepper),
                                                                          c->x0, &goal, r->tick, clock, deadline);
    c->limited = plan->limit != NULL;
    c->changes_seen = s->health.changes;
    c->planned_version = c->set_version;

    reply->planning = clock->now(clock->context) - begun;
    reply->cost = plan->cost;
    reply->iterations = plan->iterations;
    reply->limit = plan->limit;
    reply->decisions = plan->decisions;
    reply->stages = ready ? plan->prepared : stages;
    reply->corrected = plan->corrected;
    hb_controller_count(c, HB_COUNTER(corrected), plan->corrected);
    hb_controller_count(c, HB_COUNTER(predicted), plan->evaluated && !plan->verified);
    reply->plan = plan->action;
    reply->step = hb_planner_step(c->planner);
    reply->states = hb_planner_states(c->planner);
    hb_cost_by_term(&c->s.cost, &goal, c->nx, c->nu, c->s.planner.horizon, reply->states, reply->plan, c->cost_rows,
                    c->cost_terms);
    reply->terms = c->cost_terms;
    reply->nterms = c->s.cost.nterms + 1;
    hb_controller_count(c, HB_COUNTER(dropped_candidates), plan->dropped);
    c->followed = plan->evaluated || young(c, r);
    /* all rollouts with the learned model diverged: the next plans are made with the average */
    if (!plan->evaluated && plan->dropped)
        c->average_until_us = r->time_us + microseconds(c->s.safe_after);
    if (!plan->evaluated)
        return fall_back(c, r, plan->dropped ? HB_REASON_NOT_FINITE : HB_REASON_LATE);
    c->planned = true;
    c->planned_us = r->time_us;
    answer(c, plan->action);
    tell(c, r);
    const hb_status status = rung(c, s, plan);
    return finish_reply(c, status,
                        status != HB_STATUS_TRUNCATED ? HB_REASON_NONE
                        : plan->out_of_time           ? HB_REASON_DEADLINE
                                                      : HB_REASON_ITERATIONS);
}

bool hb_controller_prepare(hb_controller *c, const hb_clock *clock, const atomic_bool *interrupt, uint64_t most)
{
    const double begun = clock->now(clock->context);
    const double share = c->s.planner.prepare_share, left = share * c->rested;

    if (!c->s.planner.prepare || !c->followed || !(c->usual_period > 0) || !(left > 0))
        return false;
    const uint64_t before = hb_planner_stages(c->planner), disagreed = hb_planner_disagreed(c->planner);
    take_trim(c);
    const uint64_t stages = hb_planner_prepare(c->planner, hb_stepper_predictor(c->stepper), c->usual_period, clock,
                                               begun + left, interrupt, most);
    const double took = clock->now(clock->context) - begun;
    c->preparing += took;
    c->rested -= took / share;
    hb_controller_count(c, HB_COUNTER(prepare_stages), stages - before);
    hb_controller_count(c, HB_COUNTER(disagreed), hb_planner_disagreed(c->planner) - disagreed);
    hb_controller_count(c, HB_COUNTER(prepare_us), (uint64_t)(1e6 * took + 0.5));
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

const hb_command *hb_controller_dry_run(hb_controller *c, const double *x, double budget, const hb_clock *clock)
{
    const double now = clock->now(clock->context);
    const hb_request r = {.x = x,
                          .nx = c->nx,
                          .target = c->s.ntarget ? NULL : x,
                          .ntargets = c->s.ntarget ? 0 : 1,
                          .received = now,
                          .deadline = now + budget};

    c->running = false;
    c->dry_run = true;
    const hb_command *command = hb_controller_command(c, &r, clock);
    c->dry_run = c->running = false;
    return command;
}

const hb_prepared *hb_controller_prepared(hb_controller *c)
{
    if (!c->planner)
        return NULL;
    c->prepared = *hb_planner_preparing(c->planner);
    return &c->prepared;
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
