/* What telemetry and requests teach: transitions, coefficients, what is set aside, commands as they were told. */
#include "check.h"

#include <errno.h>

#include "mass.h"
#include "base/numeric.h"

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

/* A state that hangs is no news, whether a sample or a request repeats it: what is learned, and what is said of it, is
 * the same with requests that come before their samples as without. */
static void test_a_request_that_repeats_a_frozen_state_is_frozen(void **state)
{
    enum { MOVING = 12, PERIODS = 24 };
    fixture *f = *state;
    hb_reason said[2][PERIODS], fault[2];
    int samples[2], frozen = 0;

    for (int asks = 0; asks < 2; asks++) {
        start(f);
        f->x[0] = f->x[1] = 0;
        for (int k = 0; k < PERIODS; k++) {
            hb_request r = request(f);
            hb_reason at_request = asks ? hb_controller_observe_request(f->c, &r, f->clock.time) : HB_REASON_NONE;
            f->u[0] = sin(0.7 * k) + 0.2;
            said[asks][k] = observe(f);
            assert_true(!asks || at_request == said[asks][k]);
            if (k < MOVING)
                move(f->x, 0.6, f->u[0], period);
            pass(f, period);
        }
        samples[asks] = hb_controller_health(f->c)->samples;
        fault[asks] = hb_controller_health(f->c)->fault;
        assert_int_equal(command(f)->status, HB_STATUS_STALE);
    }
    for (int k = 0; k < PERIODS; k++) {
        assert_int_equal(said[1][k], said[0][k]);
        frozen += said[0][k] == HB_REASON_FROZEN;
    }
    /* all but those until the state was the same for long enough, and the verdict on the last transition before */
    assert_true(frozen >= PERIODS - MOVING - 2 - (int)ceil(f->s.stale_after / period));
    assert_int_equal(samples[1], samples[0]);
    assert_int_equal(fault[1], HB_REASON_FROZEN);
    assert_int_equal(fault[0], HB_REASON_FROZEN);
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

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, mass_set_up, mass_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_telemetry_becomes_coefficients_that_plans_are_made_with),
        TEST(test_average_is_used_until_the_window_is_warm_and_for_ever_without_adaptation),
        TEST(test_error_is_that_of_the_model_in_use),
        TEST(test_samples_set_aside_are_counted_by_reason),
        TEST(test_requests_stand_in_for_telemetry),
        TEST(test_a_request_is_learned_from_before_it_is_answered),
        TEST(test_a_request_that_repeats_a_frozen_state_is_frozen),
        TEST(test_forget_and_seed),
        TEST(test_commands_end_with_their_window),
        TEST(test_unsent_answers_are_not_flown),
        TEST(test_out_of_span_is_said),
        TEST(test_detection_of_changes_can_be_turned_on_and_off),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
