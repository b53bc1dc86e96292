/* The planner flies the quadrotor of plant_quadrotor.h to the paper's hover point, with the coefficients of the true
 * mass given to it: 10 masses, 5 starts each up to 1 m away, 100 steps at 25 Hz. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/check.h"
#include "../unit/quadrotor_expressions.h"
#include "base/numeric.h"
#include "base/statistics.h"
#include "plant_quadrotor.h"
#include "plan/planner.h"
#include "quadrotor_model.h"

enum { MASSES = 10, STARTS = 5, STEPS = 100 };
static const double period = 0.04;

static hb_model *new_model(void)
{
    hb_error err;
    hb_model *m = quadrotor_model(QUADROTOR_MODEL_WIDTH, &err);

    if (!m)
        fail_msg("%s", err.text);
    return m;
}

static double draw(uint64_t stream, int index)
{
    return hb_random_normal((hb_random_key){41, stream}, (uint64_t)index);
}

/* the model against the plant: one period from states of flight, all masses */
static void test_model_predicts_the_plant(void **state)
{
    (void)state;
    hb_model *m = new_model();
    hb_predictor *p;
    hb_workspace *w;
    hb_error err;
    _Alignas(HB_ALIGNMENT) static hb_real z[13 * HB_STRIDE], u[4 * HB_STRIDE], dt[HB_STRIDE];
    double worst = 0, worst_average = 0;

    if (hb_predictor_new(&p, m, &err) || hb_workspace_new(&w, m, false, &err))
        fail_msg("%s", err.text);
    for (int trial = 0; trial < 200; trial++)
        for (int adapted = 0; adapted < 2; adapted++) {
            plant_quadrotor plant = plant_quadrotor_crazyflie;
            double x[13] = {0}, thrust[4], norm = 0;
            hb_real c;
            plant.mass = 0.020 + 0.012 * trial / 199;
            c = (hb_real)quadrotor_model_coefficient(plant.mass);
            hb_predictor_set(p, adapted ? &c : NULL);
            for (int i = 0; i < 13; i++)
                x[i] = m->state_mean[i] + m->state_std[i] * draw((uint64_t)trial, i) * (i < 6 ? 1 : 0.6);
            for (int i = 6; i < 10; i++)
                norm += x[i] * x[i];
            for (int i = 6; i < 10; i++)
                x[i] /= sqrt(norm);
            for (int i = 0; i < 13; i++)
                z[i * HB_STRIDE] = (hb_real)((x[i] - m->state_mean[i]) / m->state_std[i]);
            for (int i = 0; i < 4; i++) {
                thrust[i] = fmin(fmax(0.066 + 0.01 * draw((uint64_t)trial, 20 + i), 0.03), 0.15);
                u[i * HB_STRIDE] = (hb_real)((thrust[i] - m->control_mean[i]) / m->control_std[i]);
            }
            dt[0] = (hb_real)period;
            hb_predictor_step(p, w, &(hb_batch){.n = 1, .z = z, .u = u, .dt = dt}, z, NULL);
            plant_quadrotor_step(&plant, x, thrust, period);
            for (int i = 1; i < 6; i += 2) {
                double error = fabs(z[i * HB_STRIDE] * m->state_std[i] + m->state_mean[i] - x[i]);
                double *most = adapted ? &worst : &worst_average;
                *most = fmax(*most, error);
            }
        }
    printf("one step, velocities: within %.4f m/s with the coefficient of the mass, %.4f without\n", worst,
           worst_average);
    assert_true(worst < 0.01);
    assert_true(worst_average > 5 * worst);
    hb_workspace_free(w);
    hb_predictor_free(p);
    hb_model_free(m);
}

static quadrotor_pilot pilot_new(void)
{
    quadrotor_pilot p;
    hb_planner_settings s = hb_planner_defaults;
    hb_error err;

    s.samples = 16;
    if (quadrotor_pilot_new(&p, new_model(), s, 2, &err))
        fail_msg("%s", err.text);
    return p;
}

/* flies from x; from step `change_at` on the mass is another one, and so is the coefficient a second later */
static quadrotor_flight fly(quadrotor_pilot *p, plant_quadrotor plant, double *x, int steps, int change_at,
                            double new_mass)
{
    quadrotor_flight f = {0};
    double last[4];
    hb_real c = (hb_real)quadrotor_model_coefficient(plant.mass);
    const hb_goal goal = {
        .target = quadrotor_hover_target, .ntargets = 1, .last_control = last, .trim = p->m->control_trim};

    memcpy(last, p->m->control_trim, sizeof last);
    hb_predictor_set(p->predictor, &c);
    hb_planner_reset(p->planner);
    for (int step = 0; step < steps && !f.crashed; step++) {
        if (step == change_at)
            plant.mass = new_mass;
        if (step == change_at + 25) {
            c = (hb_real)quadrotor_model_coefficient(new_mass);
            hb_predictor_set(p->predictor, &c);
        }
        const hb_plan *plan = hb_planner_plan(p->planner, p->predictor, x, &goal, (uint64_t)step, NULL, 0);
        assert_true(plan->evaluated);
        memcpy(last, plan->action, sizeof last);
        plant_quadrotor_step(&plant, x, last, period);
        hb_planner_shift(p->planner, 1);
        quadrotor_flight_add(&f, x, step, steps, change_at, period);
    }
    return f;
}

static void test_hovers_from_everywhere_at_every_mass(void **state)
{
    (void)state;
    quadrotor_pilot p = pilot_new();
    double settled[MASSES * STARTS], farthest[MASSES * STARTS];
    int n = 0, crashes = 0;

    for (int mass = 0; mass < MASSES; mass++)
        for (int start = 0; start < STARTS; start++) {
            plant_quadrotor plant = plant_quadrotor_crazyflie;
            uint64_t stream = (uint64_t)(1000 + mass * STARTS + start);
            double x[13] = {0}, norm = 0, direction[3];
            plant.mass = 0.020 + 0.012 * mass / (MASSES - 1);
            /* anywhere in a ball of 1 m around the target, at rest */
            for (int i = 0; i < 3; i++) {
                direction[i] = draw(stream, i);
                norm += direction[i] * direction[i];
            }
            double radius = cbrt(hb_random_uniform((hb_random_key){42, stream}, 0));
            for (int i = 0; i < 3; i++)
                x[2 * i] = quadrotor_hover_target[2 * i] + radius * direction[i] / sqrt(norm);
            x[9] = 1;
            quadrotor_flight f = fly(&p, plant, x, STEPS, STEPS, 0);
            crashes += f.crashed;
            settled[n] = f.settled;
            farthest[n++] = f.farthest;
        }
    hb_sort(settled, n);
    hb_sort(farthest, n);
    printf("%d flights, %d crashes; within 5 cm after: median %.2f s, 90 %% %.2f s, all %.2f s; in the last second: "
           "median %.4f m, worst %.4f m\n",
           n, crashes, settled[n / 2], settled[n * 9 / 10], settled[n - 1], farthest[n / 2], farthest[n - 1]);
    assert_int_equal(crashes, 0);
    assert_true(settled[n - 1] < 4);
    quadrotor_pilot_free(&p);
}

/* 40 % more, and then again less, as when a load is picked up and dropped; known to the planner after a second */
static void test_absorbs_a_step_of_mass(void **state)
{
    (void)state;
    quadrotor_pilot p = pilot_new();
    static const double mass[][2] = {{0.022, 0.022 * 1.4}, {0.031, 0.031 / 1.4}};

    for (int i = 0; i < 2; i++) {
        plant_quadrotor plant = plant_quadrotor_crazyflie;
        double x[13] = {[4] = 1, [9] = 1};
        plant.mass = mass[i][0];
        quadrotor_flight f = fly(&p, plant, x, 150, 50, mass[i][1]);
        printf("mass %.4f to %.4f kg: strays by %.4f m, then %.4f m in the last second\n", mass[i][0], mass[i][1],
               f.strayed, f.farthest);
        assert_false(f.crashed);
        assert_true(f.settled < 5 && f.farthest < 0.05);
    }
    quadrotor_pilot_free(&p);
}

/* The same quadrotor with its physics as expressions, from the same starts: the same flights. */
static void test_expressions_fly_as_the_built_in_physics(void **state)
{
    (void)state;
    enum { FLIGHTS = 6 };
    const hb_physics_source source = quadrotor_expressions();
    hb_planner_settings s = hb_planner_defaults;
    quadrotor_pilot p[2] = {pilot_new()};
    hb_physics *physics;
    hb_model *m;
    hb_error err;
    double most = 0;

    if (hb_physics_new(&physics, &source, NULL, &err))
        fail_msg("%s", err.text);
    hb_model other = *p[0].m;
    other.nominal = hb_physics_nominal(physics);
    s.samples = 16;
    if (hb_model_copy(&m, &other, false, NULL, &err) || quadrotor_pilot_new(&p[1], m, s, 2, &err))
        fail_msg("%s", err.text);
    hb_physics_free(physics);
    for (int flight = 0; flight < FLIGHTS; flight++) {
        double x[2][13] = {{0}};
        for (int k = 0; k < 2; k++) {
            plant_quadrotor plant = plant_quadrotor_crazyflie;
            plant.mass = 0.022 + 0.002 * flight;
            for (int i = 0; i < 3; i++)
                x[k][2 * i] = quadrotor_hover_target[2 * i] + 0.3 * draw((uint64_t)(2000 + flight), i);
            x[k][9] = 1;
            assert_false(fly(&p[k], plant, x[k], 50, 50, 0).crashed);
        }
        for (int i = 0; i < 6; i += 2)
            most = fmax(most, fabs(x[0][i] - x[1][i]));
    }
    printf("expressions and built-in physics: within %.2g m of each other after 2 s\n", most);
    assert_true(most < 1e-3);
    quadrotor_pilot_free(&p[0]);
    quadrotor_pilot_free(&p[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_predicts_the_plant),
        cmocka_unit_test(test_hovers_from_everywhere_at_every_mass),
        cmocka_unit_test(test_absorbs_a_step_of_mass),
        cmocka_unit_test(test_expressions_fly_as_the_built_in_physics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
