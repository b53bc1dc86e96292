/* What holds for the controller as a whole: settings, predictions, memory, bounds of actions, snapshots across threads.
 */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "mass.h"
#include "models.h"
#include "base/numeric.h"
#include "trap.h"

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
        clock.clock = (hb_clock){.now = test_clock_look, .context = &clock};
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

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, mass_set_up, mass_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_settings_are_checked),
        TEST(test_retune_takes_effect_between_two_commands),
        TEST(test_predictions_are_checked),
        TEST(test_no_memory_is_taken_on_the_way),
        TEST(test_whatever_comes_actions_are_finite_and_within_bounds),
        TEST(test_snapshots_are_whole),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
