/* Angles and quaternions: which of the values that mean the same, and a turntable that is flown across pi as anywhere
 * else. */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/controller.h"
#include "model/rotations.h"

static void test_angles_follow_the_shorter_way(void **state)
{
    (void)state;
    const bool angle[] = {true, false};
    const hb_rotations r = {.nx = 2, .quaternion = -1, .angle = angle};
    const double like[] = {3, 3};
    double x[] = {-3, -3}, y[] = {2.5, 100};

    hb_rotations_align(&r, x, like);
    assert_near(x[0], 2 * M_PI - 3, 1e-15);
    assert_near(x[1], -3, 0);
    hb_rotations_align(&r, y, like);
    assert_near(y[0], 2.5, 0); /* to the last bit: nothing is done where nothing is needed */
    x[0] = 7 * M_PI + 0.1;
    hb_rotations_canonical(&r, x);
    assert_near(x[0], 0.1 - M_PI, 1e-14);
}

/* ---- a turntable: heading' = rate, rate' = (1 + c) u ---- */

static const double period = 0.05;

static hb_model *new_turntable(void)
{
    hb_model shape = {.nx = 2,
                      .nu = 1,
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
    m->angle[0] = true;
    m->state_std[0] = 1.8;
    m->control_min[0] = -2;
    m->control_max[0] = 2;
    /* rows: basis heading, basis rate, average heading, average rate; columns: heading, rate, u */
    m->parameter[1 * 3 + 2] = m->parameter[3 * 3 + 2] = 1;
    m->parameter[2 * 3 + 1] = (hb_real)(1 / 1.8);
    hb_model_seal(m);
    return m;
}

static double look(void *context)
{
    return *(double *)context;
}

enum { STEPS = 80 };

typedef struct flight {
    double heading[STEPS], action[STEPS], coefficient; /* the last one */
} flight;

/* Flies from -0.4 to 0.4, all headings turned by `by`, as a compass tells them. */
static void fly(double by, flight *ret)
{
    hb_model *m = new_turntable();
    hb_controller_settings s = hb_controller_defaults();
    double now = 1000, x[] = {-0.4, 0}, u = 0;
    const hb_clock clock = {.now = look, .context = &now};
    hb_controller *c = NULL;
    hb_pool *pool = NULL;
    hb_error err;

    s.planner.samples = 8;
    s.planner.horizon = 10;
    s.estimator.window = 100 * period;
    s.estimator.warmup = 10 * period;
    s.estimator.actuators.identify = false;
    s.cost = (hb_cost){.nterms = 2,
                       .term = {{.kind = HB_COST_SQUARED, .weight = 1, .terminal = 5, .nindices = 1, .index = {0}},
                                {.kind = HB_COST_VELOCITY, .weight = 0.1, .terminal = 1, .nindices = 1, .index = {1}}}};
    s.ntarget = 2;
    s.target[0] = remainder(0.4 + by, 2 * M_PI);
    if (hb_pool_new(&pool, 1, NULL, NULL, &err) || hb_controller_new(&c, m, &s, pool, NULL, NULL, &err))
        fail_msg("%s", err.text);
    for (int k = 0; k < STEPS; k++) {
        const double seen[] = {remainder(x[0] + by, 2 * M_PI), x[1]};
        const int64_t time_us = 5000000 + (int64_t)llround(k * period * 1e6);
        const hb_request request = {
            .time_us = time_us, .x = seen, .nx = 2, .received = now, .deadline = now + 100, .tick = (uint64_t)k};

        hb_controller_observe(c, &(hb_observation){.time_us = time_us, .x = seen, .nx = 2, .u = &u, .nu = 1}, now);
        const hb_command *reply = hb_controller_command(c, &request, &clock);
        assert_true(reply->status != HB_STATUS_REFUSED && reply->status != HB_STATUS_OUT_OF_SPAN);
        ret->action[k] = u = reply->action[0];
        ret->heading[k] = x[0];
        hb_controller_prepare(c, &clock, NULL, 1000);
        x[0] += x[1] * period + 0.5 * 1.3 * u * period * period;
        x[1] += 1.3 * u * period;
        now += period;
    }
    assert_near(x[0], 0.4, 0.02);
    ret->coefficient = hb_controller_coefficients(c, NULL)[0];
    hb_controller_free(c);
    hb_pool_free(pool);
    hb_model_free(m);
}

static void test_pi_is_like_any_other_heading(void **state)
{
    (void)state;
    flight at_zero, turned;
    const double by[] = {M_PI, -M_PI};

    fly(0, &at_zero);
    assert_near(at_zero.coefficient, 0.3, 0.02);
    for (int i = 0; i < 2; i++) {
        fly(by[i], &turned);
        assert_near(turned.coefficient, at_zero.coefficient, 1e-3);
        for (int k = 0; k < STEPS; k++) {
            assert_near(turned.heading[k], at_zero.heading[k], 1e-4);
            /* a plan ends when little is left to gain: rounding decides which step was the last */
            assert_near(turned.action[k], at_zero.action[k], 5e-3);
        }
    }
}

static void test_files_say_which_states_are_angles(void **state)
{
    (void)state;
    hb_model *m = new_turntable(), *again = NULL, *copy = NULL;
    const uint64_t hash = m->hash;
    char path[] = "/tmp/test_rotations-XXXXXX";
    hb_error err = {0};

    close(mkstemp(path));
    if (hb_model_save(m, path, &err) || hb_model_load(&again, path, &err) || hb_model_copy(&copy, m, false, NULL, &err))
        fail_msg("%s", err.text);
    unlink(path);
    assert_true(again->angle[0] && !again->angle[1] && copy->angle[0]);
    assert_true(again->hash == hash && copy->hash == hash);
    m->angle[0] = false;
    hb_model_seal(m);
    assert_true(m->hash != hash);
    m->angle[0] = true;
    strcpy(m->state_unit[0], "deg");
    assert_true(hb_model_check(m, &err) < 0);
    assert_string_equal(err.text, "state 'x0' is an angle, but its unit is 'deg': expected rad");
    hb_model_free(m);
    hb_model_free(again);
    hb_model_free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_angles_follow_the_shorter_way),
        cmocka_unit_test(test_pi_is_like_any_other_heading),
        cmocka_unit_test(test_files_say_which_states_are_angles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
