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
#include "controller/controller_internal.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "controller/controller_settings.h"

static const double same_control = 2e-3; /* of a control's range: what a vehicle may round off */
static const double confirms = 0.25;     /* seconds by which a report may lead or trail the command that it states */
static const double longest_step = 3;    /* times the model's period: no plan has longer steps */
static const double follows = 0.05;      /* standard deviations by which a long step may differ from short ones */

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
        .rotations = hb_rotations_of(m),
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
    hb_channels_lay_out(&c->channels, m, arena);
    c->standing = hb_arena_take(arena, nx, sizeof(double));
    c->report = hb_arena_take(arena, nu, sizeof(double));
    c->sample = hb_arena_take(arena, nx, sizeof(double));
    c->asked_state = hb_arena_take(arena, nx, sizeof(double));
    c->effective = hb_arena_take(arena, nu, sizeof(double));
    c->actuator_state = hb_arena_take(arena, nu, sizeof(double));
    c->arrest = hb_arena_take(arena, (size_t)HB_ARREST * nu, sizeof(double));
    c->cost_rows = hb_arena_take(arena, (nx + 2 * nu) * HB_STRIDE, sizeof(hb_real));
    c->trim = hb_arena_take(arena, nu, sizeof(double));
    c->trim_for = hb_arena_take(arena, nx, sizeof(double));
    c->target = hb_arena_take(arena, (size_t)(s->planner.horizon + 1) * nx, sizeof(double));
    c->action = hb_arena_take(arena, nu, sizeof(double));
    c->safe = hb_arena_take(arena, nu, sizeof(double));
    c->x0 = hb_arena_take(arena, nx, sizeof(double));
    c->request_state = hb_arena_take(arena, nx, sizeof(double));
    c->last_control = hb_arena_take(arena, nu, sizeof(double));
    return taken;
}

static void take_settings(hb_controller *c, const hb_controller_settings *s)
{
    const hb_model *m = c->m;

    c->s = *s;
    for (int i = 0; i < c->nu; i++)
        c->safe[i] =
            s->nsafe_action ? s->safe_action[i] : fmin(fmax(m->control_trim[i], m->control_min[i]), m->control_max[i]);
}

/* The state (nx) a given time after a state off the mean in one channel, in n steps. */
static void step_from(hb_controller *c, int channel, double seconds, int n, double *x)
{
    const hb_model *m = c->m;

    for (int i = 0; i < c->nx; i++)
        x[i] = m->state_mean[i] + (i == channel ? m->state_std[i] : 0);
    for (int i = 0; i < c->nu; i++)
        c->effective[i] =
            m->control_trim[i] + (channel == c->nx + i ? (m->control_max[i] - m->control_trim[i]) / 2 : 0);
    for (int k = 0; k < n; k++)
        hb_stepper_step(c->stepper, x, c->effective, seconds / n);
}

/* The longest step that one integration of the average model follows: rates that settle within a period are followed
 * well at the period that the model was trained with, and explode at three times that. */
static double longest_followed(hb_controller *c)
{
    const hb_model *m = c->m;

    for (int quarters = (int)(4 * longest_step); quarters > 4; quarters--) {
        const double seconds = quarters / 4.0 * m->dt;
        double worst = 0;
        for (int channel = 0; channel <= c->nx + c->nu; channel++) {
            step_from(c, channel, seconds, 1, c->x0);
            step_from(c, channel, seconds, (int)ceil(quarters / 4.0), c->sample);
            for (int i = 0; i < c->nx; i++) {
                double off = fabs(c->x0[i] - c->sample[i]) / m->state_std[i];
                worst = off <= worst ? worst : off; /* a NaN stays */
            }
        }
        if (worst <= follows)
            return seconds;
    }
    return m->dt;
}

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
    hb_channels_find(&c->channels, m);
    if ((r = hb_stepper_new(&c->stepper, m, err)) ||
        (m->nu > 0 && ((r = hb_planner_new(&c->planner, m, &s->planner, &s->cost, pool, err)) ||
                       (r = hb_trim_new(&c->trimming, m, err))))) {
        hb_controller_free(c);
        return r;
    }
    c->average_until_us = INT64_MIN;
    c->most_step = m->integration == HB_DIRECT ? m->dt : longest_followed(c);
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
    hb_controller_publish(c);
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

void hb_controller_count(hb_controller *c, size_t index, uint64_t amount)
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

/* ---- change of settings and of models ---- */

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
    hb_controller_publish(c);
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
    hb_controller_hear_answers(from);
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
    to->rested = from->rested;
    to->usual_period = from->usual_period;
    to->clocks_agree = from->clocks_agree;
    to->trimmed = false;
    if (to->planner)
        hb_planner_take_over(to->planner, from->planner);
}

/* ---- replay ---- */

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
