/* The plants against closed-form motion: what the tests of controllers stand on. */
#include <string.h>

#include "../unit/check.h"
#include "plant_quadrotor.h"
#include "plant_vanderpol.h"

static void level(double *x)
{
    memset(x, 0, QUADROTOR_NX * sizeof *x);
    x[9] = 1;
}

static void test_quadrotor_falls_and_hovers(void **state)
{
    (void)state;
    plant_quadrotor p = plant_quadrotor_crazyflie;
    double x[QUADROTOR_NX], none[4] = {0}, f = plant_quadrotor_hover_thrust(&p), hover[4] = {f, f, f, f};

    level(x);
    x[1] = 2;
    plant_quadrotor_step(&p, x, none, 0.5);
    assert_near(x[0], 1, 1e-12);
    assert_near(x[4], -9.81 * 0.25 / 2, 1e-12);
    assert_near(x[5], -9.81 * 0.5, 1e-12);

    level(x);
    plant_quadrotor_step(&p, x, hover, 1);
    for (int i = 0; i < QUADROTOR_NX; i++)
        assert_near(x[i], i == 9, 1e-12);

    /* half the efficiency is half the thrust */
    level(x);
    for (int i = 0; i < 4; i++)
        p.efficiency[i] = 0.5;
    plant_quadrotor_step(&p, x, hover, 1);
    assert_near(x[5], -9.81 / 2, 1e-12);
}

static void test_quadrotor_turns_about_each_axis(void **state)
{
    (void)state;
    const plant_quadrotor *p = &plant_quadrotor_crazyflie;
    static const double sign[3][4] = {{1, 1, -1, -1}, {-1, 1, 1, -1}, {-1, 1, -1, 1}};
    const double lever[3] = {0.0397 / sqrt(2), 0.0397 / sqrt(2), 7.94e-12 / 3.16e-10};

    for (int axis = 0; axis < 3; axis++) {
        double x[QUADROTOR_NX], u[4], dt = 0.2, extra = 1e-4;
        level(x);
        for (int i = 0; i < 4; i++)
            u[i] = 0.06 + extra * sign[axis][i];
        plant_quadrotor_step(p, x, u, dt);
        double acceleration = 4 * extra * lever[axis] / p->inertia[axis], angle = acceleration * dt * dt / 2;
        assert_near(x[10 + axis], acceleration * dt, 1e-9);
        assert_near(x[6 + axis], sin(angle / 2), 1e-9);
        assert_near(x[9], cos(angle / 2), 1e-9);
    }
}

/* nose down flies forward, left side up flies right */
static void test_quadrotor_flies_where_it_leans(void **state)
{
    (void)state;
    double x[QUADROTOR_NX], u[4] = {0.07, 0.07, 0.07, 0.07}, lean = 0.1;

    level(x);
    x[7] = sin(lean / 2);
    x[9] = cos(lean / 2);
    plant_quadrotor_step(&plant_quadrotor_crazyflie, x, u, 0.1);
    assert_near(x[1], 0.28 / 0.027 * sin(lean) * 0.1, 1e-9);
    assert_near(x[3], 0, 1e-12);

    level(x);
    x[6] = sin(lean / 2);
    x[9] = cos(lean / 2);
    plant_quadrotor_step(&plant_quadrotor_crazyflie, x, u, 0.1);
    assert_near(x[3], -0.28 / 0.027 * sin(lean) * 0.1, 1e-9);
}

/* free tumbling keeps energy and the length of the angular momentum */
static void test_quadrotor_tumbles_by_eulers_equations(void **state)
{
    (void)state;
    plant_quadrotor p = {.mass = 0.03, .inertia = {1e-5, 2e-5, 3e-5}, .efficiency = {1, 1, 1, 1}};
    double x[QUADROTOR_NX], none[4] = {0}, energy[2], momentum[2];

    level(x);
    x[10] = 3, x[11] = -2, x[12] = 5;
    for (int after = 0; after < 2; after++) {
        energy[after] = momentum[after] = 0;
        for (int i = 0; i < 3; i++) {
            energy[after] += p.inertia[i] * x[10 + i] * x[10 + i];
            momentum[after] += p.inertia[i] * p.inertia[i] * x[10 + i] * x[10 + i];
        }
        plant_quadrotor_step(&p, x, none, 1);
    }
    assert_near(energy[1] / energy[0], 1, 1e-9);
    assert_near(momentum[1] / momentum[0], 1, 1e-9);
    assert_true(fabs(x[10] - 3) > 0.1);
}

static void test_quadrotor_drifts_with_the_wind(void **state)
{
    (void)state;
    plant_quadrotor p = plant_quadrotor_crazyflie;
    double f = plant_quadrotor_hover_thrust(&p), x[QUADROTOR_NX], hover[4] = {f, f, f, f};

    p.drag = 0.027;
    p.wind[1] = 2;
    level(x);
    plant_quadrotor_step(&p, x, hover, 1);
    assert_near(x[3], 2 * (1 - exp(-1)), 1e-9);
}

/* mu = 0 is a pendulum; mu = 1 has a limit cycle of amplitude 2.0086 and period 6.6633 */
static void test_vanderpol(void **state)
{
    (void)state;
    double x[VANDERPOL_NX] = {1, 0}, highest = 0, crossings[2] = {0};
    int ncrossings = 0;

    plant_vanderpol_step(0, x, 1.2345);
    assert_near(x[0], cos(1.2345), 1e-9);
    assert_near(x[1], -sin(1.2345), 1e-9);

    plant_vanderpol_step(1, x, 60);
    for (int i = 0; i < 20000 && ncrossings < 2; i++) {
        double before = x[0];
        plant_vanderpol_step(1, x, 1e-3);
        highest = fmax(highest, x[0]);
        if (before < 0 && x[0] >= 0)
            crossings[ncrossings++] = i - x[0] / (x[0] - before);
    }
    assert_int_equal(ncrossings, 2);
    assert_near(highest, 2.0086, 1e-4);
    assert_near((crossings[1] - crossings[0]) * 1e-3, 6.6633, 1e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quadrotor_falls_and_hovers),
        cmocka_unit_test(test_quadrotor_turns_about_each_axis),
        cmocka_unit_test(test_quadrotor_flies_where_it_leans),
        cmocka_unit_test(test_quadrotor_tumbles_by_eulers_equations),
        cmocka_unit_test(test_quadrotor_drifts_with_the_wind),
        cmocka_unit_test(test_vanderpol),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
