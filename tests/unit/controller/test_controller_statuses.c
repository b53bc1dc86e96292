/* Which status and action an answer has: old telemetry, late requests, deadlines, plans that are not finite. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "mass.h"
#include "base/numeric.h"

/* A model in which the learned part makes every rollout explode. */
static void test_one_plan_that_is_not_finite_does_not_spoil_the_next(void **state)
{
    fixture *f = *state;
    hb_real explosive[1] = {30};
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

/* A vehicle that cannot stay at its target says which control would have to go beyond its bounds. */
static void test_a_target_that_bounds_do_not_allow_to_be_held_is_said(void **state)
{
    fixture *f = *state;

    fly(f, 30, 0.3);
    const hb_command *reply = command(f);
    assert_int_equal(reply->status, HB_STATUS_CONVERGED);
    assert_null(reply->limit);

    f->m->control_min[0] = 0.05; /* it stands still under none */
    start(f);
    for (int k = 0; k < 30; k++) {
        f->u[0] = 0.7 + 0.6 * sin(0.7 * k);
        observe(f);
        move(f->x, 0.3, f->u[0], period);
        pass(f, period);
    }
    observe(f);
    reply = command(f);
    assert_int_equal(reply->status, HB_STATUS_LIMITED);
    assert_non_null(reply->limit);
    assert_string_equal(reply->limit, "trim: u0 below 0.05");
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

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, mass_set_up, mass_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_target_that_bounds_do_not_allow_to_be_held_is_said),
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
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
