/* One vehicle's loop on two threads.
 *
 *     learner (thread of telemetry)                     commander (thread of planning)
 *     sample, joined with the one before it             request
 *       -> transition -> estimator                        -> newest snapshot -> predictor
 *       -> snapshot of coefficients and health            -> state propagated to the moment the action applies
 *                  \__________ exchange __________/       -> plan -> action and status
 *
 * Both know the vehicle. Requests of guests have a commander of their own. */
#include "controller/controller.h"

#include <errno.h>
#include <stdlib.h>

#include "controller/commander.h"
#include "controller/controller_settings.h"
#include "controller/exchange.h"
#include "controller/learner.h"
#include "controller/vehicle.h"

struct hb_controller {
    hb_vehicle vehicle;
    hb_exchange exchange;
    hb_learner learner;
    hb_commander commander, guest;
};

/* ---- set-up ---- */

static hb_controller *lay_out(const hb_model *m, const hb_controller_settings *s, hb_arena *arena)
{
    hb_controller none = {0}, *c = hb_arena_object(arena, &none, sizeof none);

    hb_vehicle_lay_out(&c->vehicle, m, arena);
    hb_exchange_lay_out(&c->exchange, m, arena);
    hb_learner_lay_out(&c->learner, &c->vehicle, m, s, arena);
    hb_commander_lay_out(&c->commander, &c->vehicle, m, s, arena);
    hb_commander_lay_out(&c->guest, &c->vehicle, m, s, arena);
    return hb_arena_first(arena);
}

int hb_controller_new(hb_controller **ret, const hb_model *m, const hb_controller_settings *s, hb_pool *pool,
                      void *memory, hb_error *resumed, hb_error *err)
{
    hb_arena arena = {0};
    int r = hb_controller_check(m, s, err);

    if (r)
        return r;
    lay_out(m, s, &arena);
    if ((r = hb_arena_allocate(&arena, err)))
        return r;
    hb_controller *c = lay_out(m, s, &arena);

    hb_vehicle_init(&c->vehicle, m, s);
    hb_exchange_init(&c->exchange);
    c->guest.guest = true;
    if ((r = hb_commander_init(&c->commander, &c->vehicle, &c->exchange, pool, err)) ||
        (r = hb_commander_init(&c->guest, &c->vehicle, &c->exchange, pool, err)) ||
        (r = hb_learner_init(&c->learner, &c->vehicle, &c->exchange, memory, resumed, err))) {
        hb_controller_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

void hb_controller_free(hb_controller *c)
{
    if (!c)
        return;
    hb_commander_free(&c->guest);
    hb_commander_free(&c->commander);
    hb_learner_free(&c->learner);
    free(c);
}

void hb_controller_counters(const hb_controller *c, hb_counters *ret)
{
    hb_exchange_counters(&c->exchange, ret);
}

/* ---- change of settings and of models ---- */

int hb_controller_retune(hb_controller *c, const hb_controller_settings *s, hb_error *err)
{
    const hb_controller_settings *now = &c->vehicle.s;
    const hb_estimator_settings before = now->estimator;
    int r = hb_controller_check(c->vehicle.m, s, err);

    if (r)
        return r;
    if (!hb_controller_same_estimation(now, s))
        return hb_fail(err, EINVAL,
                       "estimator, telemetry.min_period, telemetry.max_period: the window and how it is solved change "
                       "with a restart "
                       "only");
    if ((r = hb_estimator_retune(c->learner.estimator, &s->estimator, err)))
        return r;
    if (c->commander.planner && (r = hb_planner_retune(c->commander.planner, &s->planner, &s->cost, err))) {
        hb_estimator_retune(c->learner.estimator, &before, NULL);
        return r;
    }
    if (c->guest.planner)
        hb_planner_retune(c->guest.planner, &s->planner, &s->cost, NULL);
    if (s->adapt != now->adapt)
        c->learner.nrecent = 0;
    hb_vehicle_configure(&c->vehicle, s);
    hb_learner_publish(&c->learner);
    return 0;
}

void hb_controller_take_over(hb_controller *to, hb_controller *from)
{
    hb_exchange_swap_counters(&to->exchange, &from->exchange);
    /* what was answered last is in both histories, or on its way to one */
    hb_learner_hear_answers(&from->learner);
    hb_vehicle_copy_history(&to->learner.told, &from->learner.told);
    hb_commander_take_over(&to->commander, &from->commander);
}

/* ---- thread of telemetry ---- */

hb_reason hb_controller_observe(hb_controller *c, const hb_observation *o, double now)
{
    return hb_learner_observe(&c->learner, o, now, false);
}

hb_reason hb_controller_observe_more(hb_controller *c, const hb_observation *o, double now)
{
    return hb_learner_observe(&c->learner, o, now, true);
}

bool hb_controller_work(hb_controller *c)
{
    return hb_estimator_work(c->learner.estimator);
}

hb_reason hb_controller_observe_request(hb_controller *c, const hb_request *r, double now)
{
    return hb_learner_observe_request(&c->learner, r, now);
}

void hb_controller_hear(hb_controller *c, int64_t from_us, const double *action)
{
    hb_learner_hear(&c->learner, from_us, action);
}

void hb_controller_answered(hb_controller *c, const hb_request *r, const double *action)
{
    hb_learner_answered(&c->learner, r, action);
}

void hb_controller_flown(hb_controller *c, const hb_request *r, const double *action)
{
    /* before the note that another answer replaces this one is overwritten */
    hb_learner_hear_answers(&c->learner);
    hb_learner_answered(&c->learner, r, action);
}

void hb_controller_forget(hb_controller *c)
{
    hb_learner_forget(&c->learner);
}

const hb_health *hb_controller_health(const hb_controller *c)
{
    return &c->learner.health;
}

const hb_real *hb_controller_coefficients(const hb_controller *c, const double **variance)
{
    if (variance)
        *variance = hb_estimator_variance(c->learner.estimator);
    return hb_estimator_coefficients(c->learner.estimator);
}

const double *hb_controller_covariance(const hb_controller *c)
{
    return hb_estimator_covariance(c->learner.estimator);
}

double hb_controller_error(const hb_controller *c, const double *std)
{
    return hb_learner_error(&c->learner, std);
}

int hb_controller_seed(hb_controller *c, const hb_real *coefficient, hb_error *err)
{
    return hb_learner_seed(&c->learner, coefficient, err);
}

/* ---- thread of planning ---- */

/* Who plans for a request; every guest is a stranger. */
static hb_commander *commander_of(hb_controller *c, const hb_request *r)
{
    if (!r->guest)
        return &c->commander;
    hb_commander_meet(&c->guest);
    return &c->guest;
}

const hb_command *hb_controller_command(hb_controller *c, const hb_request *r, const hb_clock *clock)
{
    return hb_commander_command(commander_of(c, r), r, clock);
}

bool hb_controller_prepare(hb_controller *c, const hb_clock *clock, const atomic_bool *interrupt, uint64_t most)
{
    return hb_commander_prepare(&c->commander, clock, interrupt, most);
}

bool hb_controller_will_correct(hb_controller *c)
{
    return hb_commander_will_correct(&c->commander);
}

const hb_command *hb_controller_fallback(hb_controller *c, const hb_request *r, hb_reason why, double now)
{
    return hb_commander_fallback(commander_of(c, r), r, why, now);
}

const hb_command *hb_controller_dry_run(hb_controller *c, const double *x, double budget, const hb_clock *clock)
{
    return hb_commander_dry_run(&c->commander, x, budget, clock);
}

int hb_controller_predict(hb_controller *c, const double *x, const double *controls, int steps, double dt,
                          double *states, hb_error *err)
{
    return hb_commander_predict(&c->commander, x, controls, steps, dt, states, err);
}

/* ---- replay ---- */

uint64_t hb_controller_snapshots(const hb_controller *c)
{
    return c->exchange.snapshots;
}

uint64_t hb_controller_heard(const hb_controller *c)
{
    return atomic_load_explicit(&c->exchange.answers_out, memory_order_relaxed);
}

void hb_controller_hear_until(hb_controller *c, uint64_t answers)
{
    c->exchange.hear_until = (unsigned)answers;
}

uint64_t hb_controller_snapshot_taken(const hb_controller *c)
{
    return c->exchange.buffer[c->exchange.reading].number;
}

const hb_prepared *hb_controller_prepared(hb_controller *c)
{
    return hb_commander_prepared(&c->commander);
}

void hb_controller_script(hb_controller *c, const hb_decisions *preparing, const hb_decisions *planning)
{
    if (c->commander.planner)
        hb_planner_script(c->commander.planner, preparing, planning);
    if (c->guest.planner)
        hb_planner_script(c->guest.planner, preparing, planning);
}
