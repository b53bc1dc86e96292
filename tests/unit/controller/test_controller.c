#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "controller/controller.h"
#include "models.h"
#include "base/numeric.h"
#include "trap.h"

/* ---- a vehicle that can be worked out by hand: a mass on a line ----
 *
 *     x' = v, v' = (1 + c) u        the basis function is u, c says how light the vehicle is
 */
enum { NX = 2, NU = 1 };
static const double period = 0.05;

static hb_model *new_mass(void)
{
    hb_model shape = {.nx = NX,
                      .nu = NU,
                      .nb = 1,
                      .architecture = HB_SHARED,
                      .average = HB_AVERAGE_HEAD,
                      .integration = HB_COMBINED,
                      .substeps = 1,
                      .volume = 1,
                      .dt = period,
                      .basis = {.nlayers = 1}};
    hb_model *m = NULL;
    hb_error err;

    if (hb_model_new(&m, &shape, NULL, &err))
        fail_msg("%s", err.text);
    const double mean[NX] = {0.3, -0.1}, std[NX] = {2, 0.5};
    memcpy(m->state_mean, mean, sizeof mean);
    memcpy(m->state_std, std, sizeof std);
    m->control_mean[0] = 0.25;
    m->control_std[0] = 0.5;
    m->control_min[0] = -2;
    m->control_max[0] = 3;
    m->control_trim[0] = 0.1;

    /* rows: basis x, basis v, average x, average v; columns: z_x, z_v, u; then biases */
    hb_real *w = m->parameter, *b = m->parameter + 4 * 3;
    w[1 * 3 + 2] = w[3 * 3 + 2] = (hb_real)(m->control_std[0] / std[1]);
    b[1] = b[3] = (hb_real)(m->control_mean[0] / std[1]);
    w[2 * 3 + 1] = (hb_real)(std[1] / std[0]);
    b[2] = (hb_real)(mean[1] / std[0]);
    hb_model_seal(m);
    return m;
}

/* what a vehicle of this lightness does for dt seconds, exactly */
static void move(double *x, double lightness, double u, double dt)
{
    double a = (1 + lightness) * u;

    x[0] += x[1] * dt + 0.5 * a * dt * dt;
    x[1] += a * dt;
}

/* ---- a clock that is set, and runs a little with each look at it ---- */
typedef struct test_clock {
    double time, tick;
    hb_clock clock;
} test_clock;

static double look(void *context)
{
    test_clock *c = context;

    c->time += c->tick;
    return c->time;
}

typedef struct fixture {
    hb_model *m;
    hb_pool *pool;
    hb_controller *c;
    hb_controller_settings s;
    test_clock clock;
    double x[NX], u[NU], target[NX];
    int64_t time_us;
    uint64_t tick;
} fixture;

static void start(fixture *f)
{
    hb_error err;

    hb_controller_free(f->c);
    f->c = NULL;
    if (hb_controller_new(&f->c, f->m, &f->s, f->pool, NULL, NULL, &err))
        fail_msg("%s", err.text);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    hb_error err;

    f->m = new_mass();
    if (hb_pool_new(&f->pool, 1, NULL, NULL, &err))
        fail_msg("%s", err.text);
    f->s = hb_controller_defaults();
    f->s.planner.samples = 8;
    f->s.planner.horizon = 6;
    f->s.estimator.window = 100 * f->m->dt;
    f->s.estimator.warmup = 10 * f->m->dt;
    f->s.estimator.actuators.identify = false; /* commands act at once here */
    f->s.cost =
        (hb_cost){.nterms = 2,
                  .term = {{.kind = HB_COST_SQUARED, .weight = 1, .terminal = 5, .nindices = 1, .index = {0}},
                           {.kind = HB_COST_VELOCITY, .weight = 0.1, .terminal = 1, .nindices = 1, .index = {1}}}};
    f->s.ntarget = NX;
    f->s.target[0] = 1;
    f->clock.clock = (hb_clock){.now = look, .context = &f->clock};
    f->clock.time = 1000;
    f->time_us = 5000000;
    start(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    hb_controller_free(f->c);
    hb_pool_free(f->pool);
    hb_model_free(f->m);
    free(f);
    return 0;
}

static hb_request request(const fixture *f)
{
    return (hb_request){.time_us = f->time_us, .x = f->x, .nx = NX, .received = f->clock.time, .tick = f->tick};
}

static const hb_command *command(fixture *f)
{
    hb_request r = request(f);

    f->tick++;
    const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
    assert_true(reply->action[0] >= f->m->control_min[0] && reply->action[0] <= f->m->control_max[0]);
    return reply;
}

static hb_reason observe(fixture *f)
{
    return hb_controller_observe(
        f->c, &(hb_observation){.time_us = f->time_us, .x = f->x, .nx = NX, .u = f->u, .nu = NU}, f->clock.time);
}

/* time passes for vehicle and daemon */
static void pass(fixture *f, double seconds)
{
    f->clock.time += seconds;
    f->time_us += (int64_t)llround(seconds * 1e6);
}

/* flies with changing controls, so that there is something to learn, and reports each period */
static void fly(fixture *f, int periods, double lightness)
{
    for (int k = 0; k < periods; k++) {
        f->u[0] = sin(0.7 * (double)(f->time_us / 50000)) + 0.2;
        observe(f);
        move(f->x, lightness, f->u[0], period);
        pass(f, period);
    }
    observe(f);
}

static hb_counters counters(const fixture *f)
{
    hb_counters n;

    hb_controller_counters(f->c, &n);
    return n;
}

/* ---- learning ---- */

static void test_telemetry_becomes_coefficients_that_plans_are_made_with(void **state)
{
    fixture *f = *state;
    double states[3 * NX], x[NX] = {0.5, 0.2};
    const double controls[2] = {1, -0.5}, *variance;

    fly(f, 30, 0.6);
    assert_near(hb_controller_coefficients(f->c, &variance)[0], 0.6, 1e-4);
    /* without a file that tells the noise: sensors of 3 % of the trained states are still possible */
    assert_true(variance[0] >= 0 && variance[0] < 0.03 * 0.03);
    assert_int_equal(hb_controller_health(f->c)->status, HB_ESTIMATE_OK);

    const hb_command *reply = command(f);
    assert_int_equal(reply->status, HB_STATUS_CONVERGED);
    assert_int_equal(reply->reason, HB_REASON_NONE);
    assert_int_equal(reply->version, hb_controller_health(f->c)->version);
    assert_int_equal(reply->health.samples, 30);
    assert_near(reply->age, 0, 1e-9);
    assert_int_equal(reply->horizon, 6);
    assert_near(reply->action[0], reply->plan[0], 0);
    for (int i = 0; i < NX; i++)
        assert_near(reply->states[i], f->x[i], 1e-6);

    assert_int_equal(hb_controller_predict(f->c, x, controls, 2, 0.1, states, NULL), 0);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < NX; i++)
            assert_near(states[k * NX + i], x[i], 1e-4);
        if (k < 2)
            move(x, 0.6, controls[k], 0.1);
    }
    assert_int_equal(counters(f).observations, 31);
    assert_int_equal(counters(f).transitions, 30);
    assert_int_equal(counters(f).set_aside[HB_REASON_FIRST], 1);
}

static void test_average_is_used_until_the_window_is_warm_and_for_ever_without_adaptation(void **state)
{
    fixture *f = *state;
    double states[2 * NX], x[NX] = {0, 0};
    const double one = 1;

    for (int adapt = 1; adapt >= 0; adapt--) {
        f->s.adapt = adapt;
        start(f);
        assert_int_equal(command(f)->status, adapt ? HB_STATUS_WARMING_UP : HB_STATUS_CONVERGED);
        fly(f, 30, 0.6);
        assert_int_equal(command(f)->status, HB_STATUS_CONVERGED);
        assert_int_equal(hb_controller_predict(f->c, x, &one, 1, 0.1, states, NULL), 0);
        assert_near(states[3], adapt ? 0.16 : 0.1, 1e-4);
    }
}

/* The error that is told is that of the model that plans are made with. In a period, an average that knows nothing of
 * the lightness misses v by lightness u dt and x by half of that times dt. */
static void test_error_is_that_of_the_model_in_use(void **state)
{
    fixture *f = *state;
    double error[10], lightness = 0.6;
    hb_error err;

    f->s.adapt = false;
    start(f);
    for (int k = 0; k < 30; k++) {
        f->u[0] = sin(0.7 * k) + 0.2;
        observe(f);
        move(f->x, lightness, f->u[0], period);
        double dv = lightness * f->u[0] * period, dx = dv * period / 2;
        error[k % 10] = (pow(dx / f->m->state_std[0], 2) + pow(dv / f->m->state_std[1], 2)) / NX;
        pass(f, period);
    }
    observe(f);
    double sum = 0;
    for (int i = 0; i < 10; i++)
        sum += error[i] / 10;
    assert_near(hb_controller_health(f->c)->one_step_error, sqrt(sum), 1e-4 * sqrt(sum));
    assert_near(command(f)->health.one_step_error, sqrt(sum), 1e-4 * sqrt(sum));

    /* with adaptation the same window explains everything, and without it again nothing */
    f->s.adapt = true;
    assert_int_equal(hb_controller_retune(f->c, &f->s, &err), 0);
    pass(f, 1);
    fly(f, 12, lightness);
    assert_true(hb_controller_health(f->c)->one_step_error < 1e-3 * sqrt(sum));
    f->s.adapt = false;
    assert_int_equal(hb_controller_retune(f->c, &f->s, &err), 0);
    pass(f, 1);
    fly(f, 1, lightness);
    assert_true(hb_controller_health(f->c)->one_step_error > 0.01 * sqrt(sum));
}

static void test_samples_set_aside_are_counted_by_reason(void **state)
{
    fixture *f = *state;
    hb_observation o = {.time_us = 1000000, .x = f->x, .nx = NX, .u = f->u, .nu = NU};

    assert_int_equal(hb_controller_observe(f->c, &o, 0), HB_REASON_FIRST);
    o.time_us += 50000;
    assert_int_equal(hb_controller_observe(f->c, &o, 0), HB_REASON_NONE);
    o.time_us += 1000000;
    assert_int_equal(hb_controller_observe(f->c, &o, 0), HB_REASON_GAP);
    assert_int_equal(hb_controller_observe(f->c, &o, 0), HB_REASON_OUT_OF_ORDER);
    o.time_us += 1000;
    assert_int_equal(hb_controller_observe(f->c, &o, 0), HB_REASON_GATHERED);
    o.reset_counter = 1;
    assert_int_equal(hb_controller_observe(f->c, &o, 0), HB_REASON_RESET);
    o.nx = 1;
    assert_int_equal(hb_controller_observe(f->c, &o, 0), HB_REASON_DIMENSION);
    o.nx = NX;
    f->x[1] = NAN;
    assert_int_equal(hb_controller_observe(f->c, &o, 0), HB_REASON_NOT_FINITE);
    f->x[1] = 0;

    /* finite, but not in single precision: the estimator's to refuse */
    o.time_us += 50000;
    f->x[1] = 1e200;
    hb_controller_observe(f->c, &o, 0);
    hb_counters n = counters(f);
    uint64_t sum = n.transitions;
    for (int i = 0; i < HB_NREASONS; i++)
        sum += n.set_aside[i];
    assert_int_equal(n.observations, 9);
    assert_int_equal(sum, 9);
    assert_int_equal(n.set_aside[HB_REASON_NOT_FINITE], sizeof(hb_real) == sizeof(float) ? 2 : 1);
}

static void test_requests_stand_in_for_telemetry(void **state)
{
    fixture *f = *state;
    double applied = 0;

    /* a bridge that only asks, and says what it really applied: twice what it was told */
    for (int k = 0; k < 30; k++) {
        hb_request r = request(f);
        r.applied = &applied;
        r.napplied = NU;
        hb_reason reason = hb_controller_observe_request(f->c, &r, f->clock.time);
        assert_int_equal(reason, k == 0 ? HB_REASON_FIRST : HB_REASON_NONE);
        applied = sin(0.7 * k) + 0.2;
        move(f->x, 0.4, applied, period);
        pass(f, period);
    }
    assert_near(hb_controller_coefficients(f->c, NULL)[0], 0.4, 1e-4);
    assert_near(command(f)->age, period, 1e-9);
    assert_int_equal(counters(f).transitions, 29);

    /* one that does not say it teaches nothing, and is not telemetry */
    hb_request r = request(f);
    assert_int_equal(hb_controller_observe_request(f->c, &r, f->clock.time), HB_REASON_FIRST);
    assert_int_equal(counters(f).transitions, 29);
    assert_int_equal(counters(f).observations, 30);

    /* a reset in between is seen */
    pass(f, period);
    r = request(f);
    r.applied = &applied;
    r.napplied = NU;
    r.reset_counter = 7;
    assert_int_equal(hb_controller_observe_request(f->c, &r, f->clock.time), HB_REASON_RESET);

    /* as long as telemetry comes, requests are not counted twice */
    pass(f, period);
    fly(f, 3, 0.4);
    uint64_t transitions = counters(f).transitions;
    for (int k = 0; k < 3; k++) {
        r = request(f);
        r.applied = &applied;
        r.napplied = NU;
        assert_int_equal(hb_controller_observe_request(f->c, &r, f->clock.time), HB_REASON_FIRST);
        pass(f, period);
    }
    assert_int_equal(counters(f).transitions, transitions);
}

/* Whoever publishes the states that it asked with is learned from at the request, and each state once. */
static void test_a_request_is_learned_from_before_it_is_answered(void **state)
{
    fixture *f = *state;

    for (int k = 0; k < 30; k++) {
        hb_request r = request(f);
        int before = hb_controller_health(f->c)->samples;
        hb_reason reason = hb_controller_observe_request(f->c, &r, f->clock.time);
        assert_int_equal(reason, k == 0 ? HB_REASON_FIRST : HB_REASON_NONE);
        assert_int_equal(hb_controller_health(f->c)->samples, before + (k > 0));
        f->u[0] = sin(0.7 * k) + 0.2;
        observe(f);
        assert_int_equal(hb_controller_health(f->c)->samples, before + (k > 0));
        move(f->x, 0.6, f->u[0], period);
        pass(f, period);
    }
    assert_near(hb_controller_coefficients(f->c, NULL)[0], 0.6, 1e-4);
    hb_counters n = counters(f);
    assert_int_equal(n.observations, 30);
    assert_int_equal(n.transitions, 29);

    /* a sample that says otherwise than the request before it ends that: the next request is not taken for one */
    hb_request r = request(f);
    assert_int_equal(hb_controller_observe_request(f->c, &r, f->clock.time), HB_REASON_NONE);
    f->x[1] += 1e-3;
    observe(f);
    pass(f, period);
    r = request(f);
    assert_int_equal(hb_controller_observe_request(f->c, &r, f->clock.time), HB_REASON_FIRST);
    /* nor is one after a sample that was lost */
    observe(f);
    pass(f, period);
    r = request(f);
    hb_controller_observe_request(f->c, &r, f->clock.time);
    pass(f, period);
    r = request(f);
    assert_int_equal(hb_controller_observe_request(f->c, &r, f->clock.time), HB_REASON_FIRST);
}

static void test_forget_and_seed(void **state)
{
    fixture *f = *state;
    const hb_real seed = (hb_real)0.9;
    double states[2 * NX], x[NX] = {0, 0};
    const double one = 1;

    fly(f, 30, 0.6);
    assert_int_equal(command(f)->status, HB_STATUS_CONVERGED);
    hb_controller_forget(f->c);
    assert_int_equal(command(f)->status, HB_STATUS_WARMING_UP);
    hb_controller_predict(f->c, x, &one, 1, 0.1, states, NULL);
    assert_near(states[3], 0.1, 1e-5);
    hb_real absurd[] = {(hb_real)1e39, 101, -1e3f, NAN};
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++)
        assert_int_equal(hb_controller_seed(f->c, &absurd[i], NULL), -EINVAL);
    assert_int_equal(hb_controller_seed(f->c, &seed, NULL), 0);
    assert_int_equal(command(f)->status, HB_STATUS_WARMING_UP);
    hb_controller_predict(f->c, x, &one, 1, 0.1, states, NULL);
    assert_near(states[3], 0.19, 1e-5);
}

/* The same for a vehicle that does as it is told, and reports nothing of it. */
static void fly_told(fixture *f, int periods, double lightness)
{
    for (int k = 0; k < periods; k++) {
        double u = sin(0.7 * (double)(f->time_us / 50000)) + 0.2;
        hb_observation o = {.time_us = f->time_us, .x = f->x, .nx = NX, .nu = NU};
        hb_controller_observe(f->c, &o, f->clock.time);
        hb_controller_hear(f->c, f->time_us, &u);
        move(f->x, lightness, u, period);
        pass(f, period);
    }
    hb_observation o = {.time_us = f->time_us, .x = f->x, .nx = NX, .nu = NU};
    hb_controller_observe(f->c, &o, f->clock.time);
}

/* A flight that ended with one command says nothing of what the next vehicle is told, nor does one that was reset. */
static void test_commands_end_with_their_window(void **state)
{
    for (int reset = 0; reset < 3; reset++) {
        fixture *f = *state;
        start(f);
        fly_told(f, 30, 0);
        double u = command(f)->action[0]; /* told from now on */
        if (reset == 1)
            hb_controller_forget(f->c);
        move(f->x, 0, u, period);
        pass(f, period);
        hb_observation o = {.time_us = f->time_us, .x = f->x, .nx = NX, .nu = NU, .reset_counter = reset == 2};
        hb_controller_observe(f->c, &o, f->clock.time);
        move(f->x, 0, u, period);
        pass(f, period);
        o.time_us = f->time_us;
        hb_reason second = hb_controller_observe(f->c, &o, f->clock.time);
        /* without a word of what it is told since, no transition is made with what another one was told */
        assert_int_equal(second, reset ? HB_REASON_GATHERED : HB_REASON_NONE);
        /* and from the next answer on all is as ever */
        u = command(f)->action[0];
        for (int k = 0; k < 2; k++) {
            move(f->x, 0, u, period);
            pass(f, period);
            o.time_us = f->time_us;
            second = hb_controller_observe(f->c, &o, f->clock.time);
        }
        assert_int_equal(second, HB_REASON_NONE);
    }
}

/* An answer that the planner gave too late was not flown: what was sent in its place was. */
static void test_unsent_answers_are_not_flown(void **state)
{
    fixture *f = *state;
    double sent = f->m->control_max[0];

    fly_told(f, 60, 0.5);
    for (int k = 0; k < 8; k++) {
        hb_request r = request(f);
        r.tick = f->tick++;
        const bool stalled = k == 3;
        double u = sent;
        if (stalled)
            hb_controller_answered(f->c, &r, &sent);
        const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
        if (!stalled)
            u = reply->action[0];
        else
            assert_true(fabs(reply->action[0] - sent) > 0.5); /* else it says nothing */
        assert_int_equal(reply->health.fault, HB_REASON_NONE);
        move(f->x, 0.5, u, period);
        pass(f, period);
        hb_observation o = {.time_us = f->time_us, .x = f->x, .nx = NX, .nu = NU};
        assert_int_equal(hb_controller_observe(f->c, &o, f->clock.time), HB_REASON_NONE);
        /* the model is exact: so are predictions with what was really flown */
        assert_true(hb_controller_health(f->c)->one_step_error < 1e-3);
        assert_int_equal(hb_controller_health(f->c)->fault, HB_REASON_NONE);
    }
}

/* ---- plans that no number can be put on ---- */

/* A model in which the learned part makes every rollout explode. */
static void test_one_plan_that_is_not_finite_does_not_spoil_the_next(void **state)
{
    fixture *f = *state;
    hb_real explosive[1] = {100};
    hb_error err;

    f->m->parameter[1 * 3 + 1] = 100; /* v' = c 100 v */
    hb_model_seal(f->m);
    f->s.estimator.warmup = 99 * f->m->dt;
    start(f);
    f->x[1] = 0.5;
    assert_int_equal(hb_controller_seed(f->c, explosive, &err), 0);
    const hb_command *reply = command(f);
    assert_int_equal(reply->status, HB_STATUS_FALLBACK);
    assert_int_equal(reply->reason, HB_REASON_NOT_FINITE);
    for (int k = 0; k < 5; k++) {
        pass(f, period);
        reply = command(f);
        /* the average model was used, and it says so */
        assert_int_equal(reply->status, HB_STATUS_WARMING_UP);
        assert_true(isfinite(reply->cost));
    }
}

/* What settles within a period explodes when it is integrated in steps three times as long. */
static void test_requests_that_come_slowly_are_planned_in_steps_that_the_model_follows(void **state)
{
    fixture *f = *state;

    f->m->parameter[3 * 3 + 1] = -30; /* v' = u - 30 v */
    f->m->parameter[4 * 3 + 3] += (hb_real)(-30 * f->m->state_mean[1] / f->m->state_std[1]);
    hb_model_seal(f->m);
    f->s.planner.horizon = 40;
    start(f);
    f->x[1] = 1;
    for (int k = 0; k < 12; k++) {
        const hb_command *reply = command(f);
        assert_true(reply->status < HB_STATUS_FALLBACK);
        for (int i = 0; i < (f->s.planner.horizon + 1) * NX; i++)
            assert_true(fabs(reply->states[i]) < 10);
        pass(f, 3.2 * period);
    }
}

/* ---- the ladder ---- */

static void test_ladder_of_age(void **state)
{
    fixture *f = *state;

    fly(f, 30, 0);
    assert_int_equal(command(f)->status, HB_STATUS_CONVERGED);
    f->clock.time += 0.0999;
    assert_int_equal(command(f)->status, HB_STATUS_CONVERGED);
    f->clock.time += 0.0002;
    const hb_command *reply = command(f);
    assert_int_equal(reply->status, HB_STATUS_STALE);
    assert_near(reply->age, 0.1001, 1e-9);
    f->clock.time += 0.1;
    reply = command(f);
    assert_int_equal(reply->status, HB_STATUS_FALLBACK);
    assert_int_equal(reply->reason, HB_REASON_STALE);

    /* telemetry comes back, with a sample that continues one before it */
    pass(f, period);
    observe(f);
    assert_int_equal(command(f)->status, HB_STATUS_CONVERGED);
    hb_counters n = counters(f);
    assert_int_equal(n.commands, 5);
    assert_int_equal(n.status[HB_STATUS_CONVERGED], 3);
    assert_int_equal(n.status[HB_STATUS_STALE], 1);
    assert_int_equal(n.status[HB_STATUS_FALLBACK], 1);
    assert_int_equal(n.refused[HB_REASON_STALE], 1);
}

/* By the vehicle's clock, too, older is never better. */
static void test_the_older_telemetry_the_worse_the_status(void **state)
{
    fixture *f = *state;
    static const double behind[] = {0.05, 0.15, 0.25, 0.5, 0.99, 1.01, 1.5, 5, 60};
    hb_status before = HB_STATUS_CONVERGED;

    fly(f, 30, 0);
    command(f);
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        /* samples arrive, and are older than what the requests tell of */
        hb_request r = request(f);
        r.time_us += llround(behind[i] * 1e6);
        pass(f, period);
        observe(f);
        r.time_us += llround(period * 1e6);
        r.received = f->clock.time;
        hb_status status = hb_controller_command(f->c, &r, &f->clock.clock)->status;
        if (status < before)
            fail_msg("telemetry %g s behind: %s, which is better than with a younger one", behind[i],
                     hb_status_name[status]);
        before = status;
    }
    assert_int_equal(before, HB_STATUS_FALLBACK);
}

/* Samples of which none continues another teach nothing: they make the coefficients no younger. */
static void test_samples_that_make_no_transition_make_nothing_younger(void **state)
{
    fixture *f = *state;

    fly(f, 30, 0);
    command(f);
    for (uint32_t k = 1; k <= 8; k++) {
        move(f->x, 0, f->u[0], period);
        pass(f, period);
        hb_observation o = {.time_us = f->time_us, .x = f->x, .nx = NX, .u = f->u, .nu = NU, .reset_counter = k};
        assert_int_equal(hb_controller_observe(f->c, &o, f->clock.time), HB_REASON_RESET);
        const hb_command *reply = command(f);
        assert_near(reply->age, k * period, 1e-9);
        assert_int_equal(reply->status, k * period <= f->s.stale_after + 1e-9      ? HB_STATUS_CONVERGED
                                        : k * period <= f->s.fallback_after + 1e-9 ? HB_STATUS_STALE
                                                                                   : HB_STATUS_FALLBACK);
    }
}

/* Nor do two publishers whose clocks are an hour apart: each sample is a step back in time, or a leap. */
static void test_two_publishers_make_nothing_younger(void **state)
{
    fixture *f = *state;
    const hb_command *reply = NULL;

    fly(f, 30, 0);
    command(f);
    const double before = f->clock.time;
    const uint64_t learned = counters(f).transitions;
    for (int k = 0; k < 12; k++) {
        move(f->x, 0, f->u[0], period);
        pass(f, period);
        hb_observation o = {.time_us = f->time_us + (k % 2 ? 0 : 3600000000), .x = f->x, .nx = NX, .u = f->u, .nu = NU};
        assert_int_not_equal(hb_controller_observe(f->c, &o, f->clock.time), HB_REASON_NONE);
        reply = command(f);
        assert_true(reply->age >= f->clock.time - before - 1e-9);
    }
    assert_int_equal(counters(f).transitions, learned);
    assert_int_equal(reply->status, HB_STATUS_FALLBACK);
}

/* Nor do two whose samples come in turns, by two of each: within a pair they would make transitions, of two vehicles.
 */
static void test_two_publishers_are_no_vehicle(void **state)
{
    fixture *f = *state;
    double other[NX] = {3, -1};
    const double push[NU] = {0.7};
    const hb_command *reply = NULL;
    uint64_t learned = 0;

    fly(f, 30, 0);
    command(f);
    for (int k = 0; k < 40; k++) {
        const bool theirs = k % 4 >= 2;
        move(f->x, 0, f->u[0], period);
        move(other, 0, push[0], period);
        pass(f, period);
        hb_observation o = {.time_us = f->time_us,
                            .x = theirs ? other : f->x,
                            .nx = NX,
                            .u = theirs ? push : f->u,
                            .nu = NU,
                            .reset_counter = theirs ? 5 : 0};
        const hb_reason reason = hb_controller_observe(f->c, &o, f->clock.time);
        if (k == 8) /* the third return */
            learned = counters(f).transitions;
        if (k >= 8)
            assert_int_equal(reason, HB_REASON_MIXED);
        reply = command(f);
    }
    assert_int_equal(counters(f).transitions, learned);
    assert_int_equal(counters(f).set_aside[HB_REASON_MIXED], 32);
    assert_int_equal(reply->health.fault, HB_REASON_MIXED);
    assert_int_equal(reply->status, HB_STATUS_FALLBACK);
    /* one is left: believed again, after a while */
    int wait = 0;
    while (reply->status == HB_STATUS_FALLBACK && wait++ < (int)(3 / period)) {
        move(f->x, 0, f->u[0], period);
        pass(f, period);
        observe(f);
        reply = command(f);
    }
    assert_true(wait * period > 1.5 && wait * period < 2.5);
    /* a program that is restarted, or told to start over, counts from anew: that is no other one */
    for (int k = 0; k < 12; k++) {
        move(f->x, 0, f->u[0], period);
        pass(f, period);
        hb_observation o = {
            .time_us = f->time_us, .x = f->x, .nx = NX, .u = f->u, .nu = NU, .reset_counter = (uint32_t)(k / 3 % 2)};
        assert_int_not_equal(hb_controller_observe(f->c, &o, f->clock.time), HB_REASON_MIXED);
    }
}

/* Whoever begins to fly asks before there can be telemetry: plans are made until it should have come. */
static void test_first_request_after_a_pause_is_planned(void **state)
{
    fixture *f = *state;
    static const double paused = 60;

    fly(f, 30, 0);
    for (int episode = 0; episode < 3; episode++) {
        /* a pause; then, without one, a time that goes back, and a reset */
        pass(f, episode == 0 ? paused : 0.3);
        f->time_us -= episode == 1 ? 50000000 : 0;
        for (int k = 0; k < 6; k++) {
            hb_request r = request(f);
            r.reset_counter = episode == 2;
            const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
            assert_int_equal(reply->status,
                             k * period <= f->s.fallback_after + 1e-9 ? HB_STATUS_STALE : HB_STATUS_FALLBACK);
            pass(f, period);
        }
    }
    /* a fallback is not forgiven because the next request is a little late */
    pass(f, 4 * f->s.fallback_after);
    hb_request r = request(f);
    r.reset_counter = 1;
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->status, HB_STATUS_FALLBACK);
}

/* The last plan, moved on with time, as long as it is young; then the safe action. */
static void test_fallback_flies_the_last_plan_then_the_safe_action(void **state)
{
    fixture *f = *state;
    double plan[6];

    f->s.nsafe_action = NU;
    f->s.safe_action[0] = -1.25;
    start(f);
    /* without a plan there is only the safe action */
    hb_request r = request(f);
    const hb_command *reply = hb_controller_fallback(f->c, &r, HB_REASON_BUSY, f->clock.time);
    assert_int_equal(reply->status, HB_STATUS_FALLBACK);
    assert_int_equal(reply->reason, HB_REASON_BUSY);
    assert_near(reply->action[0], -1.25, 0);

    pass(f, period);
    reply = command(f);
    memcpy(plan, reply->plan, sizeof plan);
    for (int k = 0; k < 12; k++) {
        if (k > 0)
            pass(f, period);
        r = request(f);
        reply = hb_controller_fallback(f->c, &r, HB_REASON_BUSY, f->clock.time);
        if (k * period <= f->s.safe_after + 1e-9)
            assert_near(reply->action[0], plan[k < 6 ? k : 5], 1e-5);
        else
            assert_near(reply->action[0], -1.25, 0);
    }
}

static void test_late_requests_get_the_last_plan(void **state)
{
    fixture *f = *state;

    command(f);
    pass(f, period);
    hb_request r = request(f);
    f->clock.time += 0.021; /* it has waited longer than the budget */
    const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
    assert_int_equal(reply->status, HB_STATUS_FALLBACK);
    assert_int_equal(reply->reason, HB_REASON_LATE);
    assert_int_equal(counters(f).refused[HB_REASON_LATE], 1);

    /* a request's own deadline holds when it is the earlier one */
    r = request(f);
    r.deadline = r.received + 0.005;
    f->clock.time += 0.006;
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_LATE);
    r = request(f);
    r.deadline = r.received + 10;
    f->clock.time += 0.021;
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_LATE);
}

static void test_deadline_truncates(void **state)
{
    fixture *f = *state;

    f->s.planner.method = HB_PLANNER_GRADIENT;
    f->s.planner.iterations = 100000;
    start(f);
    fly(f, 30, 0);
    f->x[0] = 0;
    f->clock.tick = 5e-5; /* seconds a look */
    double before = f->clock.time;
    const hb_command *reply = command(f);
    assert_int_equal(reply->status, HB_STATUS_TRUNCATED);
    assert_int_equal(reply->reason, HB_REASON_DEADLINE);
    assert_true(reply->iterations > 0);
    assert_true(f->clock.time - before < f->s.budget + 3 * f->clock.tick);
    assert_true(reply->planning > 0 && reply->planning <= f->s.budget + 3 * f->clock.tick);

    /* no time for a single piece: no plan */
    f->clock.tick = 0.1;
    hb_request r = request(f);
    reply = hb_controller_command(f->c, &r, &f->clock.clock);
    assert_int_equal(reply->status, HB_STATUS_FALLBACK);
    assert_int_equal(reply->reason, HB_REASON_LATE);
}

/* Iterations that ran out are another matter than time that did. */
static void test_a_truncated_plan_says_what_ended_it(void **state)
{
    fixture *f = *state;

    f->s.planner.iterations = 0;
    f->s.planner.prepare = false;
    start(f);
    fly(f, 30, 0);
    f->x[0] = -3;
    const hb_command *reply = command(f);
    assert_int_equal(reply->status, HB_STATUS_TRUNCATED);
    assert_int_equal(reply->reason, HB_REASON_ITERATIONS);
    hb_counters n = counters(f);
    assert_int_equal(n.refused[HB_REASON_ITERATIONS], 0); /* nothing was refused */
}

/* Behind an answer: within its share, without touching the answer, and for the next one to begin with. */
static void test_prepares_behind_the_answer(void **state)
{
    fixture *f = *state;
    static const double shares[] = {0.5, 0.0004, 0};

    for (int i = 0; i < 3; i++) {
        f->s.planner.prepare_share = shares[i];
        f->clock.tick = 0;
        start(f);
        fly(f, 30, 0);
        /* how often requests come is not known yet */
        command(f);
        assert_false(hb_controller_prepare(f->c, &f->clock.clock, NULL, UINT64_MAX));
        assert_int_equal(counters(f).prepare_stages, 0);
        pass(f, period);
        observe(f);
        const hb_command *reply = command(f);
        assert_false(reply->corrected);
        const double action = reply->action[0], plan = reply->plan[3], cost = reply->cost;
        f->clock.tick = 1e-4;
        const double before = f->clock.time;
        hb_controller_prepare(f->c, &f->clock.clock, NULL, UINT64_MAX);
        assert_true(f->clock.time - before <= shares[i] * 0.2 + 4 * f->clock.tick);
        f->clock.tick = 0;
        assert_true(reply->action[0] == action && reply->plan[3] == plan && reply->cost == cost);
        const uint64_t stages = counters(f).prepare_stages;
        pass(f, period);
        observe(f);
        reply = command(f);
        assert_int_equal(reply->stages, stages);
        assert_int_equal(reply->corrected, shares[i] == 0.5);
        assert_int_equal(counters(f).corrected, shares[i] == 0.5);
        assert_int_equal(reply->preparing > 0, shares[i] > 0);
    }

    /* slower than its share allows: what it did not use before does not last for long */
    f->s.planner.prepare_share = 0.1;
    f->clock.tick = 0;
    start(f);
    fly(f, 30, 0);
    const double flown = 100 * period;
    for (int i = 0; i < 100; i++) {
        command(f);
        f->clock.tick = 0.02 * period;
        const double before = f->clock.time;
        hb_controller_prepare(f->c, &f->clock.clock, NULL, UINT64_MAX);
        f->clock.tick = 0;
        f->clock.time = before;
        pass(f, period);
        observe(f);
    }
    const double spent = 1e-6 * (double)counters(f).prepare_us;
    assert_true(spent > 0.08 * flown && spent < 0.1 * (flown + 0.2) + 0.1 * period);

    /* a vehicle of which little is known: whatever is prepared, the plan is made from nothing once more is known; else
     * it is corrected, however far preparing came */
    f->s.planner.prepare_share = 0.5;
    for (int i = 0; i < 4; i++) {
        const bool learns = i % 2, whole = i < 2;
        start(f);
        fly(f, 9, 0);
        for (int k = 0; k < 2; k++) {
            command(f);
            hb_controller_prepare(f->c, &f->clock.clock, NULL, whole ? UINT64_MAX : 4);
            if (k == 1 && learns)
                fly(f, 1, 0);
            else
                pass(f, period);
        }
        assert_true(counters(f).prepare_stages > 0);
        assert_int_equal(command(f)->corrected, !learns);
    }

    /* an interrupted one says that it would go on; switched off it does nothing */
    atomic_bool interrupt = true;
    f->s.planner.prepare_share = 1;
    start(f);
    command(f);
    pass(f, period);
    command(f);
    assert_true(hb_controller_prepare(f->c, &f->clock.clock, &interrupt, UINT64_MAX));
    assert_int_equal(counters(f).prepare_stages, 0);
    f->s.planner.prepare = false;
    assert_int_equal(hb_controller_retune(f->c, &f->s, NULL), 0);
    assert_false(hb_controller_prepare(f->c, &f->clock.clock, NULL, UINT64_MAX));
    pass(f, period);
    assert_false(command(f)->corrected);
    assert_int_equal(counters(f).prepare_stages, 0);
}

static void test_out_of_span_is_said(void **state)
{
    fixture *f = *state;

    /* a force that no basis function has: it comes and goes with time */
    for (int k = 0; k < 60; k++) {
        f->u[0] = sin(0.7 * k);
        observe(f);
        move(f->x, 0, f->u[0], period);
        f->x[1] += 0.3 * sin(0.3 * k);
        pass(f, period);
    }
    observe(f);
    assert_int_equal(hb_controller_health(f->c)->status, HB_ESTIMATE_OUT_OF_SPAN);
    assert_int_equal(command(f)->status, HB_STATUS_OUT_OF_SPAN);

    /* the threshold holds from now on, and a bad one changes nothing */
    hb_controller_settings s = f->s;
    hb_error err;
    s.estimator.span_threshold = 1;
    assert_int_equal(hb_controller_retune(f->c, &s, &err), 0);
    assert_int_equal(hb_controller_health(f->c)->status, HB_ESTIMATE_OK);
    assert_true(command(f)->status < HB_STATUS_OUT_OF_SPAN);
    s.estimator.span_threshold = 0;
    assert_int_equal(hb_controller_retune(f->c, &s, &err), -EINVAL);
    assert_true(command(f)->status < HB_STATUS_OUT_OF_SPAN);
    /* nor does one beside other settings that are bad */
    s = f->s;
    s.cost.term[0].index[0] = 7;
    assert_int_equal(hb_controller_retune(f->c, &s, &err), -EINVAL);
    assert_true(command(f)->status < HB_STATUS_OUT_OF_SPAN);
    assert_int_equal(hb_controller_retune(f->c, &f->s, &err), 0);
    assert_int_equal(command(f)->status, HB_STATUS_OUT_OF_SPAN);
}

/* A step of lightness is seen as soon as changes are looked for, and only then. */
static void test_detection_of_changes_can_be_turned_on_and_off(void **state)
{
    fixture *f = *state;
    hb_error err;

    for (int on = 0; on <= 1; on++) {
        f->s.estimator.detect_changes = on;
        assert_int_equal(hb_controller_retune(f->c, &f->s, &err), 0);
        pass(f, 1);
        fly(f, 400, 0);
        pass(f, 1);
        fly(f, 60, 1.5);
        assert_int_equal(hb_controller_health(f->c)->changes > 0, on);
        hb_controller_forget(f->c);
    }
}

static void test_requests_that_make_no_sense_are_refused_with_the_safe_action(void **state)
{
    fixture *f = *state;
    double nan = NAN, number = 0, targets[7 * NX] = {0};
    const struct {
        hb_reason reason;
        hb_request r;
    } bad[] = {
        {HB_REASON_DIMENSION, {.x = f->x, .nx = 3}},
        {HB_REASON_DIMENSION, {.x = f->x, .nx = NX, .applied = &number, .napplied = 2}},
        {HB_REASON_NOT_FINITE, {.x = f->x, .nx = NX, .applied = &nan, .napplied = 1}},
        {HB_REASON_NOT_FINITE, {.x = (double[]){0, NAN}, .nx = NX}},
        {HB_REASON_NOT_FINITE, {.x = (double[]){INFINITY, 0}, .nx = NX}},
        {HB_REASON_NOT_FINITE, {.x = f->x, .nx = NX, .target = (double[]){0, NAN}, .ntargets = 1}},
        {HB_REASON_HORIZON, {.x = f->x, .nx = NX, .target = targets, .ntargets = 6}},
        {HB_REASON_BAD_TIME, {.x = f->x, .nx = NX, .time_us = -1}},
        {HB_REASON_BAD_TIME, {.x = f->x, .nx = NX, .time_us = INT64_MAX}},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hb_request r = bad[i].r;
        r.received = f->clock.time;
        const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
        assert_int_equal(reply->status, HB_STATUS_REFUSED);
        assert_int_equal(reply->reason, bad[i].reason);
        assert_near(reply->action[0], 0.1, 0); /* the trim */
        reply = hb_controller_fallback(f->c, &r, HB_REASON_BUSY, f->clock.time);
        assert_int_equal(reply->status, HB_STATUS_REFUSED);
        assert_int_equal(reply->reason, bad[i].reason);
    }
    /* a reference over the whole horizon fits */
    hb_request r = request(f);
    r.target = targets;
    r.ntargets = 7;
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_NONE);

    f->s.ntarget = 0;
    start(f);
    r = request(f);
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_NO_TARGET);
    /* which only matters to a cost that has a target */
    f->s.cost.term[0].kind = HB_COST_VELOCITY;
    start(f);
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_NONE);
}

static void test_targets_outside_the_limits_are_refused_or_clipped(void **state)
{
    fixture *f = *state;
    const hb_limit fence = {
        .kind = HB_LIMIT_BOX, .name = "fence", .nindices = 1, .index = {0}, .low = {-0.5}, .high = {0.5}};

    for (int clip = 0; clip < 2; clip++) {
        f->s.cost.limits = hb_limits_defaults;
        f->s.cost.limits.n = 1;
        f->s.cost.limits.limit[0] = fence;
        f->s.cost.limits.targets = clip ? HB_TARGETS_CLIP : HB_TARGETS_REFUSE;
        f->s.target[0] = 0.3;
        f->x[0] = f->x[1] = 0;
        start(f);
        hb_request r = request(f);
        r.target = (double[]){5, 0};
        r.ntargets = 1;
        const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
        assert_int_equal(reply->reason, clip ? HB_REASON_NONE : HB_REASON_OUTSIDE);
        for (int k = 0; clip && k <= reply->horizon; k++)
            assert_true(reply->states[k * NX] < 0.51);

        /* outside already: a plan that leads back says which limit it cannot keep yet */
        r = request(f);
        r.time_us += 1000;
        r.x = (double[]){2, 0};
        reply = hb_controller_command(f->c, &r, &f->clock.clock);
        assert_non_null(reply->limit);
        assert_string_equal(reply->limit, "fence");

        hb_error err;
        f->s.target[0] = 0.7;
        assert_int_equal(hb_controller_check(f->m, &f->s, &err), clip ? 0 : -EINVAL);
        if (!clip)
            assert_non_null(strstr(err.text, "target: outside"));
    }
}

/* a reference with times of its own leads to the same plan as the same one at the plan's steps */
static void test_references_may_have_times(void **state)
{
    fixture *f = *state;
    enum { NH = 6, DENSE = 25 };
    double at_steps[(NH + 1) * NX], dense[DENSE * NX], time[DENSE], action[2];

    for (int k = 0; k <= NH; k++) {
        at_steps[k * NX] = 0.1 + 0.4 * k * period;
        at_steps[k * NX + 1] = 0.4;
    }
    for (int k = 0; k < DENSE; k++) {
        time[k] = -0.05 + 0.02 * k + (k % 2 ? 0.003 : 0);
        dense[k * NX] = 0.1 + 0.4 * time[k];
        dense[k * NX + 1] = 0.4;
    }
    for (int timed = 0; timed < 2; timed++) {
        start(f);
        hb_request r = request(f);
        r.target = timed ? dense : at_steps;
        r.ntargets = timed ? DENSE : NH + 1;
        r.target_time = timed ? time : NULL;
        const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
        assert_int_equal(reply->reason, HB_REASON_NONE);
        action[timed] = reply->action[0];
    }
    assert_near(action[0], action[1], 1e-4);

    hb_request r = request(f);
    r.target = dense;
    r.target_time = time;
    r.ntargets = HB_REFERENCE_ROWS + 1;
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_HORIZON);
    r.ntargets = DENSE;
    time[4] = time[5];
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_BAD_TIME);
    time[4] = NAN;
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_NOT_FINITE);
}

/* ---- delay ---- */

static void test_state_is_propagated_under_the_controls_on_their_way(void **state)
{
    fixture *f = *state;
    double sent[20], x[NX];

    f->s.delay = 0.12; /* two periods and a half: three controls are under way */
    start(f);
    for (int k = 0; k < 20; k++) {
        const hb_command *reply = command(f);
        memcpy(x, f->x, sizeof x);
        /* from the state's time on: control k-3 for 0.02 s, then k-2 and k-1 */
        move(x, 0, k >= 3 ? sent[k - 3] : 0.1, 0.02);
        move(x, 0, k >= 2 ? sent[k - 2] : 0.1, 0.05);
        move(x, 0, k >= 1 ? sent[k - 1] : 0.1, 0.05);
        for (int i = 0; i < NX; i++)
            assert_near(reply->states[i], x[i], 1e-5);
        sent[k] = reply->action[0];

        /* the vehicle: what it gets is old */
        move(f->x, 0, k >= 3 ? sent[k - 3] : 0.1, 0.02);
        move(f->x, 0, k >= 2 ? sent[k - 2] : 0.1, 0.03);
        pass(f, period);
    }

    /* a new episode: nothing is under way */
    hb_request r = request(f);
    r.reset_counter = 1;
    const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
    memcpy(x, f->x, sizeof x);
    move(x, 0, 0.1, 0.12);
    for (int i = 0; i < NX; i++)
        assert_near(reply->states[i], x[i], 1e-5);

    /* what was really applied goes first, until the next command takes over */
    double applied = -1.5, action = reply->action[0];
    pass(f, period);
    r = request(f);
    r.reset_counter = 1;
    r.applied = &applied;
    r.napplied = NU;
    reply = hb_controller_command(f->c, &r, &f->clock.clock);
    memcpy(x, f->x, sizeof x);
    move(x, 0, -1.5, 0.07);
    move(x, 0, action, 0.05);
    for (int i = 0; i < NX; i++)
        assert_near(reply->states[i], x[i], 1e-5);

    /* but it says nothing about a command that has only just taken over */
    double second = reply->action[0];
    pass(f, 2 * period);
    r = request(f);
    r.reset_counter = 1;
    r.applied = &applied;
    r.napplied = NU;
    reply = hb_controller_command(f->c, &r, &f->clock.clock);
    memcpy(x, f->x, sizeof x);
    move(x, 0, action, 0.02);
    move(x, 0, second, 0.1);
    for (int i = 0; i < NX; i++)
        assert_near(reply->states[i], x[i], 1e-5);
}

/* With the delay compensated, a delayed vehicle arrives; without, it overshoots more. */
static void test_compensation_pays(void **state)
{
    fixture *f = *state;
    double overshoot[2] = {0};

    for (int compensated = 0; compensated < 2; compensated++) {
        double sent[80];
        f->s.delay = compensated ? 2 * period : 0;
        f->x[0] = f->x[1] = 0;
        start(f);
        for (int k = 0; k < 80; k++) {
            sent[k] = command(f)->action[0];
            move(f->x, 0, k >= 2 ? sent[k - 2] : 0.1, period);
            pass(f, period);
            overshoot[compensated] = fmax(overshoot[compensated], f->x[0] - f->s.target[0]);
        }
        if (compensated)
            assert_near(f->x[0], 1, 0.05);
    }
    assert_true(overshoot[1] < 0.5 * overshoot[0]);
}

/* ---- settings ---- */

static void test_settings_are_checked(void **state)
{
    fixture *f = *state;
    hb_error err;
    hb_controller *c = NULL;

#define assert_refused(field, value, word)                                                                             \
    do {                                                                                                               \
        hb_controller_settings s = f->s;                                                                               \
        s.field = value;                                                                                               \
        assert_int_equal(hb_controller_new(&c, f->m, &s, f->pool, NULL, NULL, &err), -EINVAL);                         \
        assert_non_null(strstr(err.text, word));                                                                       \
        assert_null(c);                                                                                                \
        assert_int_equal(hb_controller_retune(f->c, &s, &err), -EINVAL);                                               \
    } while (0)
    assert_refused(budget, 0, "budget");
    assert_refused(budget, NAN, "budget");
    assert_refused(stale_after, 0, "stale_after");
    assert_refused(stale_after, 0.3, "stale_after");
    assert_refused(fallback_after, INFINITY, "fallback_after");
    assert_refused(safe_after, -1, "safe_after");
    assert_refused(min_period, 4, "min_period");
    assert_refused(max_period, 0, "max_period");
    assert_refused(delay, -0.1, "delay");
    assert_refused(delay, 5.1, "delay");
    assert_refused(ntarget, 1, "target");
    assert_refused(target[1], NAN, "target");
    assert_refused(nsafe_action, 2, "safe_action");
    assert_refused(planner.horizon, 0, "horizon");
    assert_refused(estimator.window, 0, "");
    assert_refused(cost.term[0].index[0], 7, "");

    hb_controller_settings s = f->s;
    s.nsafe_action = 1;
    s.safe_action[0] = 3.5;
    assert_int_equal(hb_controller_new(&c, f->m, &s, f->pool, NULL, NULL, &err), -EINVAL);
    assert_non_null(strstr(err.text, "3.5"));
    hb_controller_free(NULL);
}

static void test_retune_takes_effect_between_two_commands(void **state)
{
    fixture *f = *state;
    hb_error err;

    fly(f, 30, 0);
    f->s.target[0] = -1;
    f->x[0] = f->x[1] = 0;
    double to_plus = command(f)->action[0];
    assert_int_equal(hb_controller_retune(f->c, &f->s, &err), 0);
    double to_minus = command(f)->action[0];
    assert_true(to_plus > 0.5 && to_minus < -0.5);

    /* the estimator's settings belong to the other thread */
    hb_controller_settings s = f->s;
    s.estimator.forgetting = 0.9;
    assert_int_equal(hb_controller_retune(f->c, &s, &err), -EINVAL);
    assert_non_null(strstr(err.text, "restart"));
    s = f->s;
    s.max_period = 5;
    assert_int_equal(hb_controller_retune(f->c, &s, &err), -EINVAL);
    s = f->s;
    s.adapt = false;
    s.safe_action[0] = 2;
    s.nsafe_action = 1;
    assert_int_equal(hb_controller_retune(f->c, &s, &err), 0);
    hb_request r = request(f);
    r.nx = 0;
    assert_near(hb_controller_command(f->c, &r, &f->clock.clock)->action[0], 2, 0);
}

static void test_predictions_are_checked(void **state)
{
    fixture *f = *state;
    double states[2 * NX] = {42, 42, 42, 42}, x[NX] = {0}, u[1] = {NAN};
    hb_error err;

    assert_int_equal(hb_controller_predict(f->c, x, u, 1, 0.1, states, &err), -EINVAL);
    u[0] = 1;
    assert_int_equal(hb_controller_predict(f->c, x, u, -1, 0.1, states, &err), -EINVAL);
    assert_int_equal(hb_controller_predict(f->c, x, u, 1, 0, states, &err), -EINVAL);
    assert_int_equal(hb_controller_predict(f->c, x, u, 100001, 0.1, states, &err), -EINVAL);
    for (int i = 0; i < 2 * NX; i++)
        assert_near(states[i], 42, 0);
}

/* ---- properties ---- */

/* Nothing is allocated once the controller is made. */
static void test_no_memory_is_taken_on_the_way(void **state)
{
    fixture *f = *state;

    f->s.estimator.window = 200 * f->m->dt;
    f->s.planner.iterations = 2;
    start(f);
    command(f);
    fly(f, 5, 0.3);
    long before = trap_allocations();
    for (int k = 0; k < 10000; k++) {
        double lightness = k / 2000 % 2 ? 0.8 : 0.1;
        hb_request r = request(f);
        f->u[0] = sin(0.7 * k);
        observe(f);
        hb_controller_observe_request(f->c, &r, f->clock.time);
        hb_controller_command(f->c, &r, &f->clock.clock);
        hb_controller_prepare(f->c, &f->clock.clock, NULL, (uint64_t)k % 12);
        if (k % 50 == 0)
            hb_controller_fallback(f->c, &r, HB_REASON_BUSY, f->clock.time);
        if (k % 3000 == 2999)
            hb_controller_forget(f->c);
        move(f->x, lightness, f->u[0], period);
        f->x[0] = fmod(f->x[0], 10);
        f->x[1] = fmod(f->x[1], 3);
        pass(f, period);
    }
    assert_int_equal(trap_allocations(), before);
    assert_true(counters(f).commands > 10000);
}

typedef struct dice {
    hb_random_key key;
    uint64_t draws;
} dice;

static double uniform(dice *d)
{
    return hb_random_uniform(d->key, d->draws++);
}

static double normal(dice *d)
{
    return hb_random_normal(d->key, d->draws++);
}

static int pick(dice *d, int n)
{
    return (int)(uniform(d) * n);
}

/* Random vehicles, settings and requests, sensible and not: every action is finite and within bounds, and every
 * sample and request is counted once. */
static void test_whatever_comes_actions_are_finite_and_within_bounds(void **state)
{
    fixture *f = *state;

    for (int round = 0; round < 60; round++) {
        dice d = {.key = {33, (uint64_t)round}};
        int v = round % nvariants;
        hb_model *m = variant_model(v);
        if (m->nu == 0) {
            hb_model_free(m);
            continue;
        }
        hb_controller_settings s = hb_controller_defaults();
        hb_controller *c = NULL;
        hb_error err;
        for (int i = 0; i < m->nu; i++) {
            m->control_trim[i] = m->control_mean[i];
            m->control_min[i] = m->control_mean[i] - (0.5 + uniform(&d)) * m->control_std[i];
            m->control_max[i] = m->control_mean[i] + (0.5 + uniform(&d)) * m->control_std[i];
        }
        hb_model_seal(m);
        s.planner.method = (hb_planner_method)pick(&d, HB_PLANNER_NMETHODS);
        s.planner.samples = 1 + pick(&d, 20);
        s.planner.horizon = 1 + pick(&d, 8);
        s.planner.iterations = 1 + pick(&d, 4);
        s.estimator.window = 5 + pick(&d, 60);
        s.estimator.warmup = 1 + pick(&d, 5);
        s.estimator.solve_every = 1 + pick(&d, 4);
        s.estimator.forgetting = 1 - 0.1 * uniform(&d);
        s.estimator.ridge = pick(&d, 2) ? -1 : 0;
        s.delay = pick(&d, 2) * 0.3 * uniform(&d);
        s.ntarget = pick(&d, 2) ? m->nx : 0;
        s.cost = (hb_cost){.nterms = 2,
                           .term = {{.kind = HB_COST_SQUARED, .weight = 1, .terminal = 1, .nindices = 1, .index = {0}},
                                    {.kind = HB_COST_SLEW, .weight = 1, .terminal = 1, .nindices = 1, .index = {0}}}};
        if (hb_controller_new(&c, m, &s, f->pool, NULL, NULL, &err))
            fail_msg("%s: %s", variant_name(v), err.text);

        uint64_t commands = 0, observations = 0;
        int64_t time = 1000000;
        test_clock clock = {.time = 10};
        clock.clock = (hb_clock){.now = look, .context = &clock};
        for (int k = 0; k < 200; k++) {
            double x[16], u[8], target[9 * 16];
            time += (int64_t)(m->dt * 1e6 * (pick(&d, 10) == 0 ? 10 * uniform(&d) - 2 : 1));
            clock.time += pick(&d, 20) == 0 ? uniform(&d) : 0.01;
            clock.tick = pick(&d, 20) == 0 ? 1e-3 : 0;
            for (int i = 0; i < m->nx; i++)
                x[i] = m->state_mean[i] + m->state_std[i] * normal(&d) * (pick(&d, 50) == 0 ? 1e6 : 1);
            for (int i = 0; i < m->nu; i++)
                u[i] = m->control_mean[i] + m->control_std[i] * normal(&d);
            for (int i = 0; i < 9 * 16; i++)
                target[i] = normal(&d);
            if (pick(&d, 40) == 0)
                x[pick(&d, m->nx)] = pick(&d, 2) ? NAN : INFINITY;
            hb_observation o = {.time_us = time,
                                .x = x,
                                .nx = m->nx - (pick(&d, 50) == 0),
                                .u = u,
                                .nu = m->nu,
                                .reset_counter = (uint32_t)(k / 70)};
            if (pick(&d, 10)) {
                hb_controller_observe(c, &o, clock.time);
                observations++;
            }
            hb_request r = {.time_us = time,
                            .x = x,
                            .nx = o.nx,
                            .applied = pick(&d, 3) ? NULL : u,
                            .napplied = m->nu + (pick(&d, 60) == 0),
                            .target = target,
                            .ntargets = pick(&d, 3) == 0 ? s.planner.horizon + 1 : pick(&d, 3),
                            .received = clock.time,
                            .deadline = pick(&d, 2) * (clock.time + 0.01 * uniform(&d)),
                            .tick = (uint64_t)k,
                            .reset_counter = o.reset_counter};
            if (pick(&d, 30) == 0)
                clock.time += 0.03;
            const hb_command *reply = pick(&d, 15) ? hb_controller_command(c, &r, &clock.clock)
                                                   : hb_controller_fallback(c, &r, HB_REASON_BUSY, clock.time);
            commands++;
            for (int i = 0; i < m->nu; i++)
                if (!(reply->action[i] >= m->control_min[i] && reply->action[i] <= m->control_max[i]))
                    fail_msg("%s, round %d, step %d: action %d is %g", variant_name(v), round, k, i, reply->action[i]);
            assert_true((reply->reason != HB_REASON_NONE) ==
                        (reply->status >= HB_STATUS_FALLBACK || reply->status == HB_STATUS_TRUNCATED));
            for (int i = 0; i < hb_model_ncoefficients(m); i++)
                assert_true(isfinite(hb_controller_coefficients(c, NULL)[i]));
        }
        hb_counters n;
        hb_controller_counters(c, &n);
        uint64_t by_status = 0, by_reason = 0, aside = 0;
        for (int i = 0; i < HB_NSTATUSES; i++)
            by_status += n.status[i];
        for (int i = 0; i < HB_NREASONS; i++) {
            by_reason += n.refused[i];
            aside += n.set_aside[i];
        }
        assert_int_equal(n.commands, commands);
        assert_int_equal(by_status, commands);
        assert_int_equal(by_reason, n.status[HB_STATUS_FALLBACK] + n.status[HB_STATUS_REFUSED]);
        assert_int_equal(n.observations, observations);
        assert_int_equal(n.transitions + aside, observations);
        hb_controller_free(c);
        hb_model_free(m);
    }
}

/* ---- two threads ---- */

typedef struct writer {
    hb_controller *c;
    atomic_bool stop;
    uint64_t rounds;
} writer;

/* seeds coefficients that are all the same number, another one each time */
static void *seed_for_ever(void *context)
{
    writer *w = context;
    hb_real c[3];

    while (!atomic_load(&w->stop)) {
        for (int i = 0; i < 3; i++)
            c[i] = (hb_real)(w->rounds % 100);
        hb_controller_seed(w->c, c, NULL);
        w->rounds++;
    }
    return NULL;
}

/* A snapshot is whole: three states with a basis function each move alike as long as their coefficients are the same.
 */
static void test_snapshots_are_whole(void **state)
{
    fixture *f = *state;
    hb_model shape = {.nx = 3,
                      .nu = 1,
                      .nb = 3,
                      .architecture = HB_SHARED,
                      .integration = HB_COMBINED,
                      .substeps = 1,
                      .volume = 1,
                      .dt = 0.1,
                      .basis = {.nlayers = 1}};
    hb_model *m;
    hb_controller *c;
    hb_error err;
    hb_controller_settings s = f->s;

    assert_int_equal(hb_model_new(&m, &shape, NULL, &err), 0);
    /* basis function i pushes state i alone, by one */
    for (int i = 0; i < 3; i++)
        m->parameter[9 * 4 + i * 3 + i] = 1;
    m->control_min[0] = -1;
    hb_model_seal(m);
    s.ntarget = 3;
    if (hb_controller_new(&c, m, &s, f->pool, NULL, NULL, &err))
        fail_msg("%s", err.text);

    writer w = {.c = c};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, seed_for_ever, &w), 0);
    int seen = 0;
    double x[3] = {0}, u = 0, states[6], last = 0;
    /* however long the other thread takes to be let run */
    for (long k = 0; seen < 2000 && k < 100000000; k++) {
        assert_int_equal(hb_controller_predict(c, x, &u, 1, 1, states, NULL), 0);
        assert_near(states[3], states[4], 0);
        assert_near(states[3], states[5], 0);
        seen += states[3] != last;
        last = states[3];
        hb_counters n;
        hb_controller_counters(c, &n);
        if (k % 500 == 0) {
            hb_request r = {.x = x, .nx = 3, .received = f->clock.time, .time_us = 1};
            assert_int_equal(hb_controller_command(c, &r, &f->clock.clock)->reason, HB_REASON_NONE);
        }
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(seen, 2000);
    hb_controller_free(c);
    hb_model_free(m);
}

/* ---- guests ---- */

/* Requests and preparations of a flight; what a guest asks in between may not change a byte of the answers. */
static void fly_with_guests(fixture *f, bool guests, double *action)
{
    static const double applied = 2.9, elsewhere[NX] = {-40, 3};

    start(f);
    f->x[0] = f->x[1] = 0;
    f->clock.time = 1000;
    f->time_us = 5000000;
    f->tick = 0;
    for (int k = 0; k < 60; k++) {
        if (k < 40)
            observe(f); /* and then telemetry stops */
        hb_request theirs = {.time_us = k % 2 ? (int64_t)1 << 60 : 0,
                             .x = elsewhere,
                             .nx = NX,
                             .applied = &applied,
                             .napplied = 1,
                             .target = elsewhere,
                             .ntargets = 1,
                             .reset_counter = (uint32_t)k,
                             .received = f->clock.time,
                             .tick = 1000000 + (uint64_t)k,
                             .guest = true};
        if (guests && k % 5 == 4)
            assert_int_equal(hb_controller_fallback(f->c, &theirs, HB_REASON_LATE, f->clock.time)->status,
                             HB_STATUS_FALLBACK);
        else if (guests)
            assert_true(hb_controller_command(f->c, &theirs, &f->clock.clock)->guest);
        const hb_command *reply = command(f);
        assert_false(reply->guest);
        action[3 * k] = f->u[0] = reply->action[0];
        action[3 * k + 1] = (double)reply->status;
        action[3 * k + 2] = reply->cost;
        if (guests)
            hb_controller_command(f->c, &theirs, &f->clock.clock);
        hb_controller_prepare(f->c, &f->clock.clock, NULL, UINT64_MAX);
        move(f->x, 0.4, f->u[0], period);
        pass(f, period);
    }
}

static void test_guests_change_nothing_for_the_pilot(void **state)
{
    fixture *f = *state;
    static double alone[180], among_guests[180];

    fly_with_guests(f, false, alone);
    fly_with_guests(f, true, among_guests);
    assert_memory_equal(alone, among_guests, sizeof alone);
    assert_int_equal((int)alone[3 * 59 + 1], HB_STATUS_FALLBACK);
    /* and when telemetry is old, a guest is not told otherwise */
    hb_request r = request(f);
    r.guest = true;
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->status, HB_STATUS_FALLBACK);
}

static void test_another_pilot_starts_afresh(void **state)
{
    fixture *f = *state;

    fly(f, 30, 0);
    command(f);
    assert_int_equal(command(f)->status, HB_STATUS_CONVERGED);
    /* one whose clock is far ahead: nothing of the plan of the one before is flown on */
    hb_request r = request(f);
    r.time_us += (int64_t)1 << 50;
    r.fresh = true;
    assert_near(hb_controller_fallback(f->c, &r, HB_REASON_LATE, f->clock.time)->action[0], f->m->control_trim[0], 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_telemetry_becomes_coefficients_that_plans_are_made_with),
        TEST(test_average_is_used_until_the_window_is_warm_and_for_ever_without_adaptation),
        TEST(test_error_is_that_of_the_model_in_use),
        TEST(test_samples_set_aside_are_counted_by_reason),
        TEST(test_requests_stand_in_for_telemetry),
        TEST(test_a_request_is_learned_from_before_it_is_answered),
        TEST(test_forget_and_seed),
        TEST(test_commands_end_with_their_window),
        TEST(test_unsent_answers_are_not_flown),
        TEST(test_one_plan_that_is_not_finite_does_not_spoil_the_next),
        TEST(test_requests_that_come_slowly_are_planned_in_steps_that_the_model_follows),
        TEST(test_ladder_of_age),
        TEST(test_the_older_telemetry_the_worse_the_status),
        TEST(test_samples_that_make_no_transition_make_nothing_younger),
        TEST(test_two_publishers_make_nothing_younger),
        TEST(test_two_publishers_are_no_vehicle),
        TEST(test_first_request_after_a_pause_is_planned),
        TEST(test_fallback_flies_the_last_plan_then_the_safe_action),
        TEST(test_late_requests_get_the_last_plan),
        TEST(test_deadline_truncates),
        TEST(test_a_truncated_plan_says_what_ended_it),
        TEST(test_prepares_behind_the_answer),
        TEST(test_out_of_span_is_said),
        TEST(test_detection_of_changes_can_be_turned_on_and_off),
        TEST(test_requests_that_make_no_sense_are_refused_with_the_safe_action),
        TEST(test_targets_outside_the_limits_are_refused_or_clipped),
        TEST(test_references_may_have_times),
        TEST(test_state_is_propagated_under_the_controls_on_their_way),
        TEST(test_compensation_pays),
        TEST(test_settings_are_checked),
        TEST(test_retune_takes_effect_between_two_commands),
        TEST(test_predictions_are_checked),
        TEST(test_no_memory_is_taken_on_the_way),
        TEST(test_whatever_comes_actions_are_finite_and_within_bounds),
        TEST(test_snapshots_are_whole),
        TEST(test_guests_change_nothing_for_the_pilot),
        TEST(test_another_pilot_starts_afresh),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
