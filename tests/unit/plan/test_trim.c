/* Trim: against the thrust that a quadrotor of known mass and lopsided rotors needs, and a search over a grid. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "models.h"
#include "plan/trim.h"
#include "test_models.h"

static hb_model *quadrotor(int v)
{
    static const char *const name[4] = {"qx", "qy", "qz", "qw"};
    hb_model *m = variant_model(v);

    for (int i = 0; m->nx == 13 && i < 4; i++)
        strcpy(m->state_name[6 + i], name[i]);
    return m;
}

/* largest change of velocities and body rates in one step, in standard deviations */
static double unrest(const hb_model *m, const hb_predictor *p, const double *x, const double *u)
{
    hb_rollout *r;
    hb_real *rows = new_rows(m->nu), *cost = new_rows(1);
    const hb_goal goal = {.target = x, .ntargets = 1, .last_control = u, .trim = u};
    double worst = 0;

    assert_int_equal(hb_rollout_new(&r, m, 1, NULL), 0);
    for (int i = 0; i < m->nu; i++)
        rows[i * HB_STRIDE] = (hb_real)u[i];
    const hb_plan_problem of = {.model = p, .cost = &(hb_cost){0}, .goal = &goal, .x0 = x, .nh = 1, .dt = m->dt};
    hb_rollout_cost(r, &of, 1, rows, false, cost, NULL);
    for (int i = 0; i < m->nx; i++)
        if (i == 5 || i >= 10)
            worst = fmax(worst, fabs(hb_rollout_states(r)[(m->nx + i) * HB_STRIDE] - x[i]) / m->state_std[i]);
    hb_rollout_free(r);
    free(rows);
    free(cost);
    return worst;
}

static void test_trim_is_at_rest(void **state)
{
    (void)state;
    int tried = 0;

    for (int v = 0; v < nvariants; v++) {
        hb_model *m = quadrotor(v);
        hb_predictor *p;
        hb_trim *t;
        if (m->average != HB_AVERAGE_NOMINAL || m->integration != HB_COMBINED) {
            hb_model_free(m);
            continue;
        }
        assert_int_equal(hb_predictor_new(&p, m, NULL), 0);
        assert_int_equal(hb_trim_new(&t, m, NULL), 0);
        for (int trial = 0; trial < 3; trial++) {
            hb_real *c = new_coefficients(m, (uint64_t)trial);
            double hover[13] = {[4] = 1, [9] = 1}, target[13] = {[4] = 1}, u[4];
            for (int i = 0; i < hb_model_ncoefficients(m); i++)
                c[i] *= (hb_real)(0.02 * trial);
            for (int i = 0; i < 4; i++) {
                m->control_min[i] = 0;
                m->control_max[i] = 0.15;
                u[i] = 0.02;
            }
            hb_predictor_set(p, c);
            double before = unrest(m, p, hover, u);
            double residual = hb_trim_solve(t, p, target, m->dt, u), beyond;
            assert_int_equal(hb_trim_lacks(t, p, m->dt, u, &beyond), -1);
            double after = unrest(m, p, hover, u);
            assert_true(residual < 0.1);
            assert_true(after < 1e-3 && before > 20 * after);
            /* of the nominal model it is known */
            for (int i = 0; trial == 0 && i < 4; i++)
                assert_near(u[i], 0.027 * 9.81 / 4, 1e-4);
            free(c);
            tried++;
        }
        /* bounds hold where the thrust does not suffice */
        double target[13] = {0}, u[4] = {0, NAN, 0, 0};
        hb_predictor_set(p, NULL);
        for (int i = 0; i < 4; i++)
            m->control_max[i] = 0.05;
        hb_trim_solve(t, p, target, m->dt, u);
        for (int i = 0; i < 4; i++)
            assert_near(u[i], 0.05, 1e-6);
        /* and it is known by how much */
        double beyond;
        assert_true(hb_trim_lacks(t, p, m->dt, u, &beyond) >= 0);
        assert_near(beyond, (0.027 * 9.81 / 4 - 0.05) / 0.05, 2e-3);
        /* a rotor that gives too much even at its least is made up for by none of the others */
        for (int i = 0; i < 4; i++) {
            m->control_max[i] = 0.15;
            m->control_min[i] = i == 2 ? 0.1 : 0;
            u[i] = 0.1;
        }
        hb_trim_solve(t, p, target, m->dt, u);
        assert_int_equal(hb_trim_lacks(t, p, m->dt, u, &beyond), 2);
        assert_near(u[2], 0.1, 1e-6);
        assert_near(beyond, (0.027 * 9.81 / 4 - 0.1) / 0.05, 5e-2);
        hb_trim_free(t);
        hb_predictor_free(p);
        hb_model_free(m);
    }
    assert_true(tried >= 9);
    hb_trim_free(NULL);
}

/* from a tumbling state the rates are brought to rest, within bounds */
static void test_rates_are_arrested(void **state)
{
    (void)state;
    enum { STEPS = 3 };

    for (int v = 0; v < nvariants; v++) {
        hb_model *m = quadrotor(v);
        hb_predictor *p;
        hb_trim *t;
        hb_rollout *r;
        if (m->average != HB_AVERAGE_NOMINAL || m->integration != HB_COMBINED) {
            hb_model_free(m);
            continue;
        }
        for (int i = 0; i < 4; i++) {
            m->control_min[i] = 0;
            m->control_max[i] = 0.15;
        }
        assert_int_equal(hb_predictor_new(&p, m, NULL), 0);
        hb_predictor_set(p, NULL);
        assert_int_equal(hb_trim_new(&t, m, NULL), 0);
        assert_int_equal(hb_rollout_new(&r, m, STEPS, NULL), 0);
        double x[13] = {[4] = 1, [6] = 0.1, [9] = 1, [10] = -6, [11] = 7}, target[13] = {[4] = 1, [9] = 1};
        double trim[4] = {0.066, 0.066, 0.066, 0.066}, u[STEPS * 4], rate[2];
        hb_trim_arrest(t, p, x, target, trim, m->dt, STEPS, u);
        for (int arrested = 0; arrested < 2; arrested++) {
            const hb_goal goal = {.target = target, .ntargets = 1, .last_control = trim, .trim = trim};
            hb_real *rows = new_rows(STEPS * 4), *cost = new_rows(1);
            for (int i = 0; i < STEPS * 4; i++) {
                assert_true(u[i] >= 0 && u[i] <= 0.15);
                rows[i * HB_STRIDE] = (hb_real)(arrested ? u[i] : trim[i % 4]);
            }
            const hb_plan_problem of = {
                .model = p, .cost = &(hb_cost){0}, .goal = &goal, .x0 = x, .nh = STEPS, .dt = m->dt};
            hb_rollout_cost(r, &of, 1, rows, false, cost, NULL);
            const hb_real *end = hb_rollout_states(r) + STEPS * 13 * HB_STRIDE;
            rate[arrested] = hypot(end[10 * HB_STRIDE], end[11 * HB_STRIDE]);
            free(rows);
            free(cost);
        }
        assert_true(rate[0] > 5 && rate[1] < 0.5);
        hb_rollout_free(r);
        hb_trim_free(t);
        hb_predictor_free(p);
        hb_model_free(m);
    }
}

/* The cart: a force f moves it by f t^2 / 2, and its velocity by f t, so many steps of the model's. */
static void test_reach_is_that_of_the_cart(void **state)
{
    (void)state;
    hb_model *m;
    hb_predictor *p;
    hb_trim *t;
    double reach[2], all[2];

    assert_int_equal(hb_test_cart(&m, NULL), 0);
    assert_int_equal(hb_predictor_new(&p, m, NULL), 0);
    assert_int_equal(hb_trim_new(&t, m, NULL), 0);
    hb_predictor_set(p, NULL);
    const double range = m->control_max[0] - m->control_min[0];
    for (int steps = 1; steps <= 16; steps *= 4) {
        const double time = steps * m->dt;
        hb_trim_reach(t, p, m->dt, steps, (bool[2]){true, true}, reach);
        assert_near(reach[0] * m->state_std[0], range * time * time / 2, 1e-3 * range);
        assert_near(reach[1] * m->state_std[1], range * time, 1e-3 * range);
    }
    /* it ends where enough is known */
    hb_trim_reach(t, p, m->dt, 100000, (bool[2]){false, true}, all);
    assert_true(all[1] >= 1 && all[1] < 1 + range * m->dt / m->state_std[1] + 1e-3);
    hb_trim_free(t);
    hb_predictor_free(p);
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trim_is_at_rest),
        cmocka_unit_test(test_rates_are_arrested),
        cmocka_unit_test(test_reach_is_that_of_the_cart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
