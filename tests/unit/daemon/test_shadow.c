#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "server/shadow.h"
#include "test_models.h"

static hb_model *right, *wrong;
static hb_pool *pool;

static double still(void *context)
{
    (void)context;
    return 0;
}

static const hb_clock clock_at_rest = {.now = still};

static hb_controller *controller_of(const hb_model *m)
{
    hb_controller_settings s = hb_controller_defaults();
    hb_controller *c;
    hb_error err;

    s.planner.horizon = 6;
    s.planner.samples = 16;
    s.planner.iterations = 10;
    s.planner.prepare = false;
    s.estimator.window = 2;
    s.estimator.actuators.identify = false;
    s.ntarget = 2;
    s.target[0] = 1;
    s.cost.nterms = 1;
    s.cost.term[0] =
        (hb_cost_term){.kind = HB_COST_SQUARED, .weight = 1, .terminal = 1, .nindices = 2, .index = {0, 1}};
    if (hb_controller_new(&c, m, &s, pool, NULL, NULL, &err))
        fail_msg("%s", err.text);
    return c;
}

static int set_up(void **state)
{
    hb_error err;

    (void)state;
    if (hb_test_cart(&right, &err) || hb_test_wrong_cart(&wrong, &err) || hb_pool_new(&pool, 1, NULL, NULL, &err))
        fail_msg("%s", err.text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hb_pool_free(pool);
    hb_model_free(wrong);
    hb_model_free(right);
    return 0;
}

/* A cart with drag: sample k of a run, and the force from then on. */
typedef struct run {
    double x[2], u[1];
    int64_t time_us;
} run;

static hb_observation sample(run *r, int k)
{
    r->u[0] = sin(0.7 * k) + 0.5 * cos(2.1 * k);
    return (hb_observation){.time_us = r->time_us, .x = r->x, .nx = 2, .u = r->u, .nu = 1};
}

static void move(run *r)
{
    /* exact for a force that is held and drag 0.3 */
    const double h = 0.02, drag = 0.3, end = r->u[0] / drag, keep = exp(-drag * h), v = r->x[1];

    r->x[0] += end * h + (v - end) * (1 - keep) / drag;
    r->x[1] = end + (v - end) * keep;
    r->time_us += 20000;
}

static void until_idle(hb_shadow *s)
{
    while (!hb_shadow_claim_idle(s))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* What the shadow's thread comes to is what a controller in its place comes to, to the byte. */
static void test_the_thread_learns_as_a_controller_does(void **state)
{
    hb_controller *c = controller_of(right), *same = controller_of(right);
    const double unit[] = {1, 1}, action[] = {0.25};
    hb_shadow *s;
    run r = {.time_us = 1000};

    (void)state;
    const hb_shadow_settings set = {.model = right, .controller = c, .most_coefficients = 3};
    assert_int_equal(hb_shadow_new(&s, &set, NULL), 0);
    for (int k = 0; k < 150; k++) {
        hb_observation o = sample(&r, k);
        hb_request q = {.time_us = r.time_us, .x = r.x, .nx = 2, .applied = r.u, .napplied = 1};
        hb_shadow_observe(s, &o, 0.02 * k);
        hb_controller_observe(same, &o, 0.02 * k);
        hb_shadow_observe_request(s, &q, 0.02 * k);
        hb_controller_observe_request(same, &q, 0.02 * k);
        hb_shadow_hear(s, r.time_us + 10000, action);
        hb_controller_hear(same, r.time_us + 10000, action);
        move(&r);
        until_idle(s);
        hb_shadow_release(s);
    }
    const hb_shadow_view *view = hb_shadow_look(s, unit);
    const double *variance;
    const hb_real *expected = hb_controller_coefficients(same, &variance);
    assert_memory_equal(view->coefficient, expected, 3 * sizeof *expected);
    assert_memory_equal(view->variance, variance, 3 * sizeof *variance);
    assert_int_equal(view->health.version, hb_controller_health(same)->version);
    assert_int_equal(view->health.samples, 100);
    assert_int_equal(view->lost, 0);
    assert_true(view->error == hb_controller_error(same, unit));
    assert_true(view->error > 0 && view->error < 0.1);

    hb_shadow_forget(s);
    until_idle(s);
    hb_shadow_release(s);
    assert_int_equal(hb_shadow_look(s, unit)->health.samples, 0);
    hb_shadow_free(s);
    hb_controller_free(same);
    hb_controller_free(c);
}

/* A model that cannot explain the cart has the larger error, whose units can be chosen. */
static void test_errors_of_two_models_compare(void **state)
{
    hb_controller *good = controller_of(right), *bad = controller_of(wrong);
    const double unit[] = {1, 1}, twice[] = {2, 2};
    run r = {.time_us = 0};

    (void)state;
    for (int k = 0; k < 150; k++) {
        hb_observation o = sample(&r, k);
        hb_controller_observe(good, &o, 0);
        hb_controller_observe(bad, &o, 0);
        move(&r);
    }
    double error = hb_controller_error(bad, unit);
    assert_true(error > 10 * hb_controller_error(good, unit));
    assert_true(fabs(hb_controller_error(bad, twice) - error / 2) < 1e-12 * error);
    /* by hand: the wrong cart misses 0.6 N of each newton, over 0.02 s, apart from what drag makes up for */
    assert_true(error > 0.3 * 0.6 * 0.02 * 0.79 / sqrt(2) && error < 1.5 * 0.6 * 0.02 * 0.79 / sqrt(2));
    hb_controller_free(bad);
    hb_controller_free(good);
}

/* While the server has the controller, messages wait; those without room are lost, and counted. */
static void test_a_full_ring_loses_and_counts(void **state)
{
    hb_controller *c = controller_of(right);
    hb_shadow *s;
    run r = {.time_us = 0};

    (void)state;
    const hb_shadow_settings set = {.model = right, .controller = c, .most_coefficients = 3};
    assert_int_equal(hb_shadow_new(&s, &set, NULL), 0);
    while (!hb_shadow_claim(s))
        ;
    for (int k = 0; k < 300; k++) {
        hb_observation o = sample(&r, k);
        hb_shadow_observe(s, &o, 0);
        move(&r);
    }
    assert_int_equal(hb_controller_health(c)->samples, 0);
    hb_shadow_release(s);
    until_idle(s);
    assert_int_equal(hb_controller_health(c)->samples, 100);
    hb_shadow_release(s);
    assert_int_equal(hb_shadow_look(s, right->state_std)->lost, 300 - 256);
    hb_shadow_free(s);
    hb_controller_free(c);
}

static void test_none_takes_everything(void **state)
{
    (void)state;
    hb_shadow_observe(NULL, &(hb_observation){0}, 0);
    hb_shadow_observe_request(NULL, &(hb_request){0}, 0);
    hb_shadow_hear(NULL, 0, NULL);
    hb_shadow_forget(NULL);
    assert_null(hb_shadow_look(NULL, NULL));
    hb_shadow_free(NULL);
}

static void expect_misfit(hb_model *other, const char *text)
{
    hb_error err = {0};

    assert_int_equal(hb_shadow_fits(right, other, &err), -EINVAL);
    if (!strstr(err.text, text))
        fail_msg("'%s' does not say '%s'", err.text, text);
}

static void test_models_of_one_vehicle(void **state)
{
    hb_model *other;

    (void)state;
    assert_int_equal(hb_shadow_fits(right, wrong, NULL), 0);
    assert_int_equal(hb_test_cart(&other, NULL), 0);
    other->dt = 0.04;
    expect_misfit(other, "its period is 0.04 s, that of the model in use 0.02 s");
    strcpy(other->control_name[0], "current");
    expect_misfit(other, "its control 0 is current, that of the model in use force");
    strcpy(other->state_unit[1], "km/h");
    expect_misfit(other, "its state velocity is in 'km/h', that of the model in use in 'm/s'");
    hb_model_free(other);
    assert_int_equal(hb_test_quadrotor(&other, 2, 8, NULL), 0);
    expect_misfit(other, "it has 13 states, the model in use has 2");
    hb_model_free(other);
}

/* The plan of one controller is what the other goes on with, and the counters go with the vehicle. */
static void test_taking_over(void **state)
{
    hb_controller *from = controller_of(wrong), *to = controller_of(right);
    double plan[6], x[2] = {0, 0};
    hb_request q = {.time_us = 1000000, .x = x, .nx = 2, .deadline = 1};
    hb_counters before, after;

    (void)state;
    const hb_command *c = hb_controller_command(from, &q, &clock_at_rest);
    assert_int_equal(c->reason, HB_REASON_NONE);
    memcpy(plan, c->plan, sizeof plan);
    assert_true(plan[0] > 0.1);
    hb_controller_counters(from, &before);
    hb_controller_take_over(to, from);
    hb_controller_counters(to, &after);
    assert_memory_equal(&before, &after, sizeof before);
    hb_controller_counters(from, &after);
    assert_int_equal(after.commands, 0);

    /* without planning: the second action of the plan, a step later */
    q.time_us += 20000;
    c = hb_controller_fallback(to, &q, HB_REASON_LATE, 0);
    assert_int_equal(c->status, HB_STATUS_FALLBACK);
    assert_true(fabs(c->action[0] - plan[1]) < 1e-6);
    /* with it: from there on, by the better model */
    q.time_us += 20000;
    c = hb_controller_command(to, &q, &clock_at_rest);
    assert_int_equal(c->reason, HB_REASON_NONE);
    hb_controller_free(to);
    hb_controller_free(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_thread_learns_as_a_controller_does),
        cmocka_unit_test(test_errors_of_two_models_compare),
        cmocka_unit_test(test_a_full_ring_loses_and_counts),
        cmocka_unit_test(test_none_takes_everything),
        cmocka_unit_test(test_models_of_one_vehicle),
        cmocka_unit_test(test_taking_over),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
