#include "controller/commander.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/numeric.h"
#include "plan/numbers.h"

enum { MAX_STEPS = 10000 }; /* of a prediction */

static int64_t microseconds(double seconds)
{
    return (int64_t)llround(seconds * 1e6);
}

/* ---- set-up ---- */

void hb_commander_lay_out(hb_commander *c, const hb_vehicle *v, const hb_model *m, const hb_controller_settings *s,
                          hb_arena *arena)
{
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu;

    c->history = hb_vehicle_history(v, m);
    hb_command_history_lay_out(&c->history, arena);
    c->effective = hb_arena_take(arena, nu, sizeof(double));
    c->actuator_state = hb_arena_take(arena, nu, sizeof(double));
    c->arrest = hb_arena_take(arena, (size_t)HB_ARREST * nu, sizeof(double));
    c->cost_rows = hb_arena_take(arena, (nx + 2 * nu) * HB_STRIDE, sizeof(hb_real));
    c->trim = hb_arena_take(arena, nu, sizeof(double));
    c->trim_for = hb_arena_take(arena, nx, sizeof(double));
    c->target = hb_arena_take(arena, (size_t)(s->planner.horizon + 1) * nx, sizeof(double));
    c->action = hb_arena_take(arena, nu, sizeof(double));
    c->x0 = hb_arena_take(arena, nx, sizeof(double));
    c->request_state = hb_arena_take(arena, nx, sizeof(double));
    c->last_control = hb_arena_take(arena, nu, sizeof(double));
}

/* The state (nx) a given time after a state off the mean in one channel, in n steps. */
static void step_from(hb_commander *c, int channel, double seconds, int n, double *x)
{
    const hb_model *m = c->vehicle->m;

    for (int i = 0; i < m->nx; i++)
        x[i] = m->state_mean[i] + (i == channel ? m->state_std[i] : 0);
    for (int i = 0; i < m->nu; i++)
        c->effective[i] =
            m->control_trim[i] + (channel == m->nx + i ? (m->control_max[i] - m->control_trim[i]) / 2 : 0);
    for (int k = 0; k < n; k++)
        hb_stepper_step(c->stepper, x, c->effective, seconds / n);
}

/* The longest step that one integration of the average model follows as two of half the length do, at most the longest
 * that transitions have: rates that settle within a period are followed well at the period that the model was trained
 * with, and explode at three times that. */
static double longest_followed(hb_commander *c)
{
    const hb_model *m = c->vehicle->m;
    double *one = c->x0, *two = c->request_state, longest = m->dt;

    for (int quarters = 5; quarters <= (int)(4 * c->vehicle->s.max_period); quarters++) {
        const double seconds = quarters / 4.0 * m->dt;
        double worst = 0;
        for (int channel = 0; channel <= m->nx + m->nu; channel++) {
            step_from(c, channel, seconds, 1, one);
            step_from(c, channel, seconds, 2, two);
            for (int i = 0; i < m->nx; i++) {
                double off = fabs(one[i] - two[i]) / m->state_std[i];
                worst = off <= worst ? worst : off; /* a NaN stays */
            }
        }
        if (!(worst <= HB_REST))
            break;
        longest = seconds;
    }
    return longest;
}

int hb_commander_init(hb_commander *c, const hb_vehicle *v, hb_exchange *e, hb_pool *pool, hb_error *err)
{
    const hb_model *m = v->m;
    int r;

    c->vehicle = v;
    c->exchange = e;
    if ((r = hb_stepper_new(&c->stepper, m, err)) ||
        (m->nu > 0 && ((r = hb_planner_new(&c->planner, m, &v->s.planner, &v->s.cost, pool, err)) ||
                       (r = hb_trim_new(&c->trimming, m, err)))))
        return r;
    c->average_until_us = INT64_MIN;
    c->most_step = m->integration == HB_DIRECT ? m->dt : longest_followed(c);
    return 0;
}

void hb_commander_free(hb_commander *c)
{
    hb_trim_free(c->trimming);
    hb_planner_free(c->planner);
    hb_stepper_free(c->stepper);
}

/* ---- what a request is planned from ---- */

/* The newest snapshot, its coefficients in the predictor. */
static const hb_snapshot *take_snapshot(hb_commander *c)
{
    const hb_snapshot *s = hb_exchange_newest(c->exchange);
    uint64_t wanted = c->vehicle->s.adapt && !c->distrusted ? s->health.version : 0;
    if (wanted != c->set_version) {
        hb_predictor_set(hb_stepper_predictor(c->stepper), wanted ? s->coefficient : NULL);
        c->set_version = wanted;
        c->trimmed = false;
    }
    return s;
}

/* What the vehicle says of its control goes before what it was told, where they differ. */
static void hear_vehicle(hb_commander *c, const hb_snapshot *s, const hb_request *r)
{
    if (c->sent_seen + HB_SENT < s->nsent)
        c->sent_seen = s->nsent - HB_SENT;
    for (; c->sent_seen < s->nsent; c->sent_seen++) {
        const hb_answered *a = &s->sent[c->sent_seen % HB_SENT];
        hb_command_history_replace(&c->history, a->from_us, a->u);
    }
    if (s->reported && (c->episode.reported_us_seen != s->reported_us)) {
        hb_command_history_report(&c->history, s->reported_us, s->report);
        c->episode.reported_us_seen = s->reported_us;
    }
    /* a value outside the bounds would stay in the actuators' state until their lag has let it decay */
    if (r->applied && hb_vehicle_within_bounds(c->vehicle, r->applied) && c->episode.running &&
        c->episode.before_us < r->time_us)
        hb_command_history_report(&c->history, c->episode.before_us, r->applied);
}

/* Seconds since the newest sample, by arrival or by the vehicle's own clock, whichever is longer. */
static double age_of_telemetry(hb_commander *c, const hb_snapshot *s, const hb_request *r, double now)
{
    double arrived = fmax(0, now - s->observed_at), behind = (double)(r->time_us - s->observed_us) * 1e-6;

    if (!s->observed)
        return INFINITY;
    /* a bridge may stamp its requests by another clock, whose times say nothing about telemetry */
    if (arrived <= c->vehicle->s.stale_after && fabs(behind) <= c->vehicle->s.stale_after)
        c->episode.clocks_agree = true;
    return c->episode.clocks_agree ? fmax(arrived, behind) : arrived;
}

/* The delay until a command that the vehicle has begins to act; the same for all channels of a plan. */
static double actuator_delay(const hb_actuators *a)
{
    return (hb_actuators_shortest_delay(a) + hb_actuators_longest_delay(a)) / 2;
}

/* The request's state to c->x0; false: that is no attitude. Angles go on from the request before: what is planned and
 * prepared knows no jumps by a turn. After many turns they begin at zero again, and what was prepared is of no use. */
static bool take_request_state(hb_commander *c, const hb_request *r)
{
    const hb_rotations *rotations = &c->vehicle->rotations;

    if (!hb_vehicle_take_state(c->vehicle, r->x, c->x0))
        return false;
    for (int i = 0; !(c->episode.planned && c->episode.running) && i < c->vehicle->nx; i++)
        c->request_state[i] = 0;
    hb_rotations_unwind(rotations, c->x0, c->request_state);
    c->rewound = false;
    for (int i = 0; i < c->vehicle->nx; i++)
        c->rewound |= c->vehicle->m->angle[i] && fabs(c->x0[i]) > HB_MOST_TURNED;
    if (c->rewound)
        hb_rotations_canonical(rotations, c->x0);
    return true;
}

/* Propagates the request's state to the moment at which its action begins to act, under what the actuators make of the
 * commands that are on their way: to c->x0 and c->actuator_state. c->last_control becomes the last command before it.
 */
static void propagate(hb_commander *c, const hb_request *r, const hb_actuators *a)
{
    int64_t reaches = hb_vehicle_applies_us(c->vehicle, r->time_us), time = r->time_us,
            end = reaches + microseconds(actuator_delay(a)), step = microseconds(c->vehicle->m->dt), until;

    take_request_state(c, r);
    memcpy(c->request_state, c->x0, (size_t)c->vehicle->nx * sizeof *c->x0);
    hb_command_history_settle(&c->history, a, c->vehicle->safe, time, c->actuator_state);
    while (time < end) {
        int64_t next = end - time < step ? end : time + step;
        /* a step ends where another command takes over */
        hb_command_history_at(&c->history, time - microseconds(actuator_delay(a)), &until);
        if (until < next - microseconds(actuator_delay(a)))
            next = until + microseconds(actuator_delay(a));
        hb_command_history_drive(&c->history, a, c->vehicle->safe, time, next, c->actuator_state, c->effective);
        hb_stepper_step(c->stepper, c->x0, c->effective, (double)(next - time) * 1e-6);
        time = next;
    }
    const double *u = hb_command_history_at(&c->history, reaches, &until);
    memcpy(c->last_control, u ? u : c->vehicle->safe, (size_t)c->vehicle->nu * sizeof *u);
}

/* Puts an action (nu) into the reply. */
static void answer(hb_commander *c, const double *action)
{
    bool finite = hb_all_finite(action, c->vehicle->nu);

    for (int i = 0; i < c->vehicle->nu; i++)
        c->action[i] = finite ? fmin(fmax(action[i], c->vehicle->m->control_min[i]), c->vehicle->m->control_max[i])
                              : c->vehicle->safe[i];
    c->command.action = c->action;
}

/* The action will be applied: both command histories take it in. A guest's will not be applied. */
static void tell(hb_commander *c, const hb_request *r)
{
    const int64_t from_us = hb_vehicle_applies_us(c->vehicle, r->time_us);

    if (c->guest)
        return;
    hb_command_history_tell(&c->history, from_us, c->action);
    if (!c->dry_run)
        hb_exchange_answer(c->exchange, from_us, c->action, c->vehicle->nu);
}

/* An episode starts: there is no plan to continue, and no command under way. */
static void start_over(hb_commander *c, const hb_request *r)
{
    hb_planner_reset(c->planner);
    c->episode.awake_at = r->received;
    c->episode.planned = false;
    c->distrusted = false;
    c->average_until_us = INT64_MIN;
    hb_command_history_reset(&c->history);
    c->episode.usual_period = 0;
}

static double plan_step(const hb_commander *c)
{
    double dt = c->vehicle->s.planner.dt > 0 ? c->vehicle->s.planner.dt : c->vehicle->m->dt;

    return c->episode.usual_period > (1 + HB_STALE) * dt ? fmin(c->episode.usual_period, fmax(c->most_step, dt)) : dt;
}

/* Learns how often requests come. */
static void learn_period(hb_commander *c, double period)
{
    c->episode.usual_period += (period - c->episode.usual_period) * (c->episode.usual_period == 0 ? 1 : HB_STALE);
}

/* Moves the current plan on to the time of the request. */
static void advance(hb_commander *c, const hb_request *r)
{
    double period = (double)(r->time_us - c->episode.time_us) * 1e-6;

    if (!c->episode.running || r->fresh || r->reset_counter != c->episode.reset_counter ||
        r->time_us < c->episode.time_us) {
        start_over(c, r);
        c->episode.rested = HB_SHARE_OVER;
        c->episode.clocks_agree &= !r->fresh; /* its clock may be another */
        c->episode.time_us = r->time_us;
    } else if (c->episode.planned && r->time_us > c->episode.time_us) {
        hb_planner_shift(c->planner, fmin(period / hb_planner_step(c->planner), c->vehicle->s.planner.horizon));
        if (period < c->vehicle->s.fallback_after)
            learn_period(c, period);
        c->episode.rested = fmin(c->episode.rested + period, HB_SHARE_OVER);
    }
    /* the last plan has run out, and the safe action was in force as long: nobody was flying */
    if (r->received - c->episode.heard > c->vehicle->s.fallback_after + 2 * c->vehicle->s.safe_after)
        c->episode.awake_at = r->received;
    if (c->guest)
        c->episode.awake_at = -INFINITY;
    c->episode.heard = r->received;
    c->episode.running = true;
    c->episode.followed = false;
    c->episode.before_us = c->episode.time_us;
    c->episode.time_us = r->time_us;
    c->episode.reset_counter = r->reset_counter;
}

static hb_command *start_reply(hb_commander *c, const hb_snapshot *s, const hb_request *r, double now)
{
    hb_exchange_count(c->exchange, HB_COUNTER(commands), 1);
    c->command = (hb_command){
        .health = s->health,
        .version = s->health.version,
        .snapshot = s->number,
        .begun = now,
        .age = age_of_telemetry(c, s, r, now),
        .preparing = c->episode.preparing,
        .guest = c->guest,
    };
    c->episode.preparing = 0;
    if (c->planner) {
        c->command.prepared = hb_commander_prepared(c);
        c->command.plan = hb_planner_current(c->planner);
        c->command.states = hb_planner_states(c->planner);
        c->command.horizon = c->vehicle->s.planner.horizon;
    }
    return &c->command;
}

static const hb_command *finish_reply(hb_commander *c, hb_status status, hb_reason reason)
{
    c->command.status = status;
    c->command.reason = reason;
    hb_exchange_count(c->exchange, HB_COUNTER(status[status]), 1);
    if (status >= HB_STATUS_FALLBACK)
        hb_exchange_count(c->exchange, HB_COUNTER(refused[reason]), 1);
    return &c->command;
}

/* Is the last plan young enough to be followed? */
static bool young(const hb_commander *c, const hb_request *r)
{
    return c->episode.planned && (double)(r->time_us - c->episode.planned_us) * 1e-6 <= c->vehicle->s.safe_after;
}

/* The last plan as long as it is young enough, then the safe action. */
static const hb_command *fall_back(hb_commander *c, const hb_request *r, hb_reason why)
{
    answer(c, young(c, r) ? hb_planner_current(c->planner) : c->vehicle->safe);
    tell(c, r);
    return finish_reply(c, HB_STATUS_FALLBACK, why);
}

static const hb_command *refuse(hb_commander *c, hb_reason why)
{
    answer(c, c->vehicle->safe);
    return finish_reply(c, HB_STATUS_REFUSED, why);
}

/* Why a request cannot be answered. */
static hb_reason check_request(hb_commander *c, const hb_request *r)
{
    if (!c->planner)
        return HB_REASON_NO_CONTROLS;
    if (r->nx != c->vehicle->nx || (r->applied && r->napplied != c->vehicle->nu))
        return HB_REASON_DIMENSION;
    if (r->time_us < 0 || r->time_us > INT64_MAX / 2)
        return HB_REASON_BAD_TIME;
    if (r->target_time ? r->ntargets < 1 || r->ntargets > HB_REFERENCE_ROWS
                       : r->ntargets > 1 && r->ntargets != c->vehicle->s.planner.horizon + 1)
        return HB_REASON_HORIZON;
    if (!hb_all_finite(r->x, c->vehicle->nx) || (r->applied && !hb_all_finite(r->applied, c->vehicle->nu)) ||
        (r->ntargets > 0 && !hb_all_finite(r->target, r->ntargets * c->vehicle->nx)) ||
        (r->target_time && !hb_all_finite(r->target_time, r->ntargets)))
        return HB_REASON_NOT_FINITE;
    for (int i = 1; r->target_time && i < r->ntargets; i++)
        if (!(r->target_time[i] > r->target_time[i - 1]))
            return HB_REASON_BAD_TIME;
    if (!take_request_state(c, r))
        return HB_REASON_QUATERNION;
    if (r->ntargets <= 0 && c->vehicle->s.ntarget == 0 && hb_cost_needs_target(&c->vehicle->s.cost))
        return HB_REASON_NO_TARGET;
    return HB_REASON_NONE;
}

/* Where the plan is to go, at its own steps from `ahead` seconds after the request on. False: outside the limits, and
 * it is not to be clipped or cannot be. */
static bool take_targets(hb_commander *c, const hb_request *r, double ahead)
{
    const hb_limits *limits = &c->vehicle->s.cost.limits;
    const hb_reference reference = {
        .nx = c->vehicle->nx,
        .n = r->ntargets > 0 ? r->ntargets : 1,
        .rotations = c->vehicle->rotations,
        .target = r->ntargets > 0 ? r->target : c->vehicle->s.target,
        .time = r->ntargets > 0 ? r->target_time : NULL,
        .step = c->vehicle->s.planner.dt > 0 ? c->vehicle->s.planner.dt : c->vehicle->m->dt,
    };

    c->ntargets = reference.n > 1 ? c->vehicle->s.planner.horizon + 1 : 1;
    for (int k = 0; k < c->ntargets; k++) {
        double *row = c->target + (size_t)k * (size_t)c->vehicle->nx;
        hb_reference_at(&reference, ahead + k * plan_step(c), row);
        /* the shorter way round, and no jump on it */
        hb_rotations_unwind(&reference.rotations, row, k ? row - c->vehicle->nx : c->x0);
        if (limits->targets == HB_TARGETS_CLIP ? !hb_limits_clip(limits, row) : !hb_limits_allow(limits, row))
            return false;
    }
    return true;
}

/* Says which control would have to go beyond its bounds for the vehicle to stay at its target. */
static void note_lack(hb_commander *c)
{
    const hb_model *m = c->vehicle->m;
    double beyond;
    const int i = hb_trim_lacks(c->trimming, hb_stepper_predictor(c->stepper), m->dt, c->trim, &beyond);

    *c->lacks = '\0';
    if (i >= 0)
        snprintf(c->lacks, sizeof c->lacks, "trim: %s %s %g", m->control_name[i], beyond < 0 ? "below" : "above",
                 beyond < 0 ? m->control_min[i] : m->control_max[i]);
}

/* The control that holds the first target: solved again for another target, or when the coefficients have changed. The
 * model's own where there is none that does, or where solving takes too long. Where the plan is prepared, a request
 * does not wait for it: then it is solved behind the reply, and the one before must do. */
static const double *take_trim(hb_commander *c)
{
    const size_t size = (size_t)c->vehicle->nx * sizeof *c->target;

    if (c->vehicle->m->architecture == HB_INDEPENDENT)
        return c->vehicle->m->control_trim;
    if (!c->trimmed || memcmp(c->trim_for, c->target, size) != 0) {
        memcpy(c->trim, c->vehicle->m->control_trim, (size_t)c->vehicle->nu * sizeof *c->trim);
        double unrest =
            hb_trim_solve(c->trimming, hb_stepper_predictor(c->stepper), c->target, c->vehicle->m->dt, c->trim);
        note_lack(c);
        if (!(unrest < HB_REST))
            memcpy(c->trim, c->vehicle->m->control_trim, (size_t)c->vehicle->nu * sizeof *c->trim);
        memcpy(c->trim_for, c->target, size);
        c->trimmed = true;
    }
    return c->trim;
}

static const double *last_trim(const hb_commander *c)
{
    return c->vehicle->m->architecture == HB_INDEPENDENT ? c->vehicle->m->control_trim : c->trim;
}

/* The worst rung of the ladder that applies to a plan that was made. */
static hb_status rung(const hb_commander *c, const hb_snapshot *s, const hb_plan *plan)
{
    if (s->doubted || s->health.fault == HB_REASON_BEHIND ||
        (s->observed ? c->command.age > c->vehicle->s.stale_after : s->health.samples > 0))
        return HB_STATUS_STALE;
    if (c->vehicle->s.adapt && s->health.status == HB_ESTIMATE_OUT_OF_SPAN)
        return HB_STATUS_OUT_OF_SPAN;
    if (c->vehicle->s.adapt && (s->health.status == HB_ESTIMATE_WARMING_UP || c->distrusted))
        return HB_STATUS_WARMING_UP;
    if (c->command.limit)
        return HB_STATUS_LIMITED;
    return plan->converged ? HB_STATUS_CONVERGED : HB_STATUS_TRUNCATED;
}

/* Whether samples with this fault are not taken in at all. */
static bool is_refusal(hb_reason fault)
{
    return hb_reason_is_fault(fault) && fault != HB_REASON_FROZEN && fault != HB_REASON_IMPLAUSIBLE;
}

/* Whether the current plan is one of several starts, instead of only being corrected: it breaks a limit, or the
 * coefficients it was made with are out of date, because the dynamics changed since, or because so little is known that
 * one more transition may change them completely. With independent models there is no time for that. */
static bool starts_compete(const hb_commander *c, const hb_snapshot *s)
{
    const bool hardly_known = s->health.samples < HB_HARDLY_KNOWN;

    return c->vehicle->m->architecture != HB_INDEPENDENT &&
           (c->limited || (c->vehicle->s.adapt && (s->health.changes != c->changes_seen ||
                                                   (hardly_known && c->set_version != c->planned_version))));
}

bool hb_commander_will_correct(hb_commander *c)
{
    return c->planner && c->vehicle->s.planner.prepare && hb_planner_prepared(c->planner) && c->command.corrected &&
           c->command.planning < HB_STALE * plan_step(c) && !starts_compete(c, take_snapshot(c));
}

const hb_command *hb_commander_command(hb_commander *c, const hb_request *r, const hb_clock *clock)
{
    double begun = clock->now(clock->context);
    c->distrusted = r->time_us < c->average_until_us;
    const hb_snapshot *s = take_snapshot(c);
    hb_command *reply = start_reply(c, s, r, begun);
    hb_reason reason = check_request(c, r);

    if (reason != HB_REASON_NONE)
        return refuse(c, reason);
    advance(c, r);

    const double latest = r->received + c->vehicle->s.budget,
                 deadline = r->deadline > 0 ? fmin(r->deadline, latest) : latest;
    if (begun >= deadline)
        return fall_back(c, r, HB_REASON_LATE);
    if (s->observed && fmin(reply->age, begun - c->episode.awake_at) > c->vehicle->s.fallback_after)
        return fall_back(c, r, is_refusal(s->health.fault) ? s->health.fault : HB_REASON_STALE);

    hear_vehicle(c, s, r);
    propagate(c, r, &s->actuators);
    if (!take_targets(c, r, c->vehicle->s.delay + actuator_delay(&s->actuators)))
        return refuse(c, HB_REASON_OUTSIDE);
    const bool ready = c->vehicle->s.planner.prepare && hb_planner_ready(c->planner, plan_step(c)) && !c->rewound &&
                       !starts_compete(c, s);
    const uint64_t stages = hb_planner_stages(c->planner);
    hb_goal goal = {.target = c->target,
                    .ntargets = c->ntargets,
                    .last_control = c->last_control,
                    .lag = s->actuators.lag,
                    .actuator_state = c->actuator_state,
                    .step = plan_step(c),
                    .trim = ready ? last_trim(c) : take_trim(c)};
    if (!ready && c->vehicle->m->architecture != HB_INDEPENDENT) {
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
    reply->limit = plan->limit ? plan->limit : *c->lacks ? c->lacks : NULL;
    reply->decisions = plan->decisions;
    reply->stages = ready ? plan->prepared : stages;
    reply->corrected = plan->corrected;
    hb_exchange_count(c->exchange, HB_COUNTER(corrected), plan->corrected);
    hb_exchange_count(c->exchange, HB_COUNTER(predicted), plan->evaluated && !plan->verified);
    reply->plan = plan->action;
    reply->step = hb_planner_step(c->planner);
    reply->states = hb_planner_states(c->planner);
    hb_cost_by_term(&c->vehicle->s.cost, &goal, c->vehicle->nx, c->vehicle->nu, c->vehicle->s.planner.horizon,
                    reply->states, reply->plan, c->cost_rows, c->cost_terms);
    reply->terms = c->cost_terms;
    reply->nterms = c->vehicle->s.cost.nterms + 1;
    hb_exchange_count(c->exchange, HB_COUNTER(dropped_candidates), plan->dropped);
    c->episode.followed = plan->evaluated || young(c, r);
    /* all rollouts with the learned model diverged: the next plans are made with the average */
    if (!plan->evaluated && plan->dropped)
        c->average_until_us = r->time_us + microseconds(c->vehicle->s.safe_after);
    if (!plan->evaluated)
        return fall_back(c, r, plan->dropped ? HB_REASON_NOT_FINITE : HB_REASON_LATE);
    c->episode.planned = true;
    c->episode.planned_us = r->time_us;
    answer(c, plan->action);
    tell(c, r);
    const hb_status status = rung(c, s, plan);
    return finish_reply(c, status,
                        status != HB_STATUS_TRUNCATED ? HB_REASON_NONE
                        : plan->out_of_time           ? HB_REASON_DEADLINE
                                                      : HB_REASON_ITERATIONS);
}

bool hb_commander_prepare(hb_commander *c, const hb_clock *clock, const atomic_bool *interrupt, uint64_t most)
{
    const double begun = clock->now(clock->context);
    const double share = c->vehicle->s.planner.prepare_share, left = share * c->episode.rested;

    if (!c->vehicle->s.planner.prepare || !c->episode.followed || !(c->episode.usual_period > 0) || !(left > 0))
        return false;
    const uint64_t before = hb_planner_stages(c->planner), disagreed = hb_planner_disagreed(c->planner);
    take_trim(c);
    const uint64_t stages = hb_planner_prepare(c->planner, hb_stepper_predictor(c->stepper), c->episode.usual_period,
                                               clock, begun + left, interrupt, most);
    const double took = clock->now(clock->context) - begun;
    c->episode.preparing += took;
    c->episode.rested -= took / share;
    hb_exchange_count(c->exchange, HB_COUNTER(prepare_stages), stages - before);
    hb_exchange_count(c->exchange, HB_COUNTER(disagreed), hb_planner_disagreed(c->planner) - disagreed);
    hb_exchange_count(c->exchange, HB_COUNTER(prepare_us), (uint64_t)(1e6 * took + 0.5));
    return interrupt && atomic_load_explicit(interrupt, memory_order_relaxed) && !hb_planner_prepared(c->planner);
}

const hb_command *hb_commander_fallback(hb_commander *c, const hb_request *r, hb_reason why, double now)
{
    hb_reason reason = check_request(c, r);

    start_reply(c, take_snapshot(c), r, now);
    c->command.immediate = true;
    if (reason != HB_REASON_NONE)
        return refuse(c, reason);
    advance(c, r);
    return fall_back(c, r, why);
}

const hb_command *hb_commander_dry_run(hb_commander *c, const double *x, double budget, const hb_clock *clock)
{
    const double now = clock->now(clock->context);
    const hb_request r = {.x = x,
                          .nx = c->vehicle->nx,
                          .target = c->vehicle->s.ntarget ? NULL : x,
                          .ntargets = c->vehicle->s.ntarget ? 0 : 1,
                          .received = now,
                          .deadline = now + budget};

    c->episode.running = false;
    c->dry_run = true;
    const hb_command *command = hb_commander_command(c, &r, clock);
    c->dry_run = c->episode.running = false;
    return command;
}

const hb_prepared *hb_commander_prepared(hb_commander *c)
{
    if (!c->planner)
        return NULL;
    c->prepared = *hb_planner_preparing(c->planner);
    return &c->prepared;
}

int hb_commander_predict(hb_commander *c, const double *x, const double *controls, int steps, double dt, double *states,
                         hb_error *err)
{
    if (steps < 0 || steps > MAX_STEPS)
        return hb_fail(err, EINVAL, "a prediction of %d steps, expected 0..%d", steps, (int)MAX_STEPS);
    if (!(dt > 0 && isfinite(dt)))
        return hb_fail(err, EINVAL, "a prediction with steps of %g s, expected more than 0", dt);
    if (!hb_all_finite(x, c->vehicle->nx) || !hb_all_finite(controls, steps * c->vehicle->nu))
        return hb_fail(err, EINVAL, "a prediction from numbers that are not finite");

    take_snapshot(c);
    memcpy(states, x, (size_t)c->vehicle->nx * sizeof *states);
    for (int k = 0; k < steps; k++) {
        double *next = states + (size_t)(k + 1) * (size_t)c->vehicle->nx;
        memcpy(next, next - c->vehicle->nx, (size_t)c->vehicle->nx * sizeof *next);
        hb_stepper_step(c->stepper, next, controls + (size_t)k * (size_t)c->vehicle->nu, dt);
    }
    return 0;
}

/* ---- change of client and of models ---- */

void hb_commander_meet(hb_commander *c)
{
    c->episode.running = c->episode.clocks_agree = false;
    c->episode.reported_us_seen = 0;
    c->episode.time_us = c->episode.before_us = 0;
}

void hb_commander_take_over(hb_commander *to, hb_commander *from)
{
    hb_vehicle_copy_history(&to->history, &from->history);
    to->episode = from->episode;
    to->trimmed = false;
    if (to->planner)
        hb_planner_take_over(to->planner, from->planner);
}
