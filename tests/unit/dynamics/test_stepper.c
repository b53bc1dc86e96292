/* One state at a time in physical units, against the equations of the nominal quadrotor integrated by hand, and the
 * error of a transition against steps one by one. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "base/numeric.h"
#include "dynamics/stepper.h"
#include "models.h"

enum { NX = 13, NU = 4 };
static const double tolerance = 1e-5; /* of numbers of about 1: single precision */

/* The average of this model is the nominal quadrotor alone. */
static hb_model *quadrotor(void)
{
    for (int v = 0; v < nvariants; v++)
        if (strcmp(variant_name(v), "shared, nominal quadrotor, masked") == 0)
            return variant_model(v);
    fail_msg("no model of a quadrotor");
    return NULL;
}

/* x' of a rigid body with four rotors, written down once more: rotation matrix and cross products. */
static void rate(const double *p, const double *x, const double *f, double *dx)
{
    const double *q = x + 6, *w = x + 10, norm = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
    const double up[3] = {2 * (q[0] * q[2] + q[3] * q[1]) / norm, 2 * (q[1] * q[2] - q[3] * q[0]) / norm,
                          1 - 2 * (q[0] * q[0] + q[1] * q[1]) / norm};
    const double force = f[0] + f[1] + f[2] + f[3], arm = p[4] / sqrt(2);
    const double torque[3] = {(f[0] + f[1] - f[2] - f[3]) * arm, (-f[0] + f[1] + f[2] - f[3]) * arm,
                              (-f[0] + f[1] - f[2] + f[3]) * p[5]};

    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        dx[2 * i] = x[2 * i + 1];
        dx[2 * i + 1] = force / p[0] * up[i] - (i == 2 ? p[6] : 0);
        dx[6 + i] = (q[3] * w[i] + q[j] * w[k] - q[k] * w[j]) / 2;
        dx[10 + i] = (torque[i] - w[j] * p[1 + k] * w[k] + w[k] * p[1 + j] * w[j]) / p[1 + i];
    }
    dx[9] = -(q[0] * w[0] + q[1] * w[1] + q[2] * w[2]) / 2;
}

/* Many small steps of the midpoint method, another one than the library's. */
static void integrate(const double *p, double *x, const double *f, double dt)
{
    enum { STEPS = 20000 };
    double k[NX], middle[NX];

    for (int n = 0; n < STEPS; n++) {
        rate(p, x, f, k);
        for (int i = 0; i < NX; i++)
            middle[i] = x[i] + k[i] * dt / STEPS / 2;
        rate(p, middle, f, k);
        for (int i = 0; i < NX; i++)
            x[i] += k[i] * dt / STEPS;
    }
}

static void start(double *x, double *f)
{
    const double hover = 0.027 * 9.81 / 4;

    memset(x, 0, NX * sizeof *x);
    x[0] = 0.3;
    x[1] = -0.4;
    x[6] = 0.1;
    x[7] = -0.05;
    x[9] = sqrt(1 - 0.01 - 0.0025);
    x[10] = 0.3;
    x[11] = 0.4;
    x[12] = -0.5;
    for (int i = 0; i < NU; i++)
        f[i] = hover * (1 + 0.02 * i);
}

static void test_a_step_is_that_of_the_vehicle(void **state)
{
    (void)state;
    hb_model *m = quadrotor();
    hb_stepper *s;
    double x[NX], expected[NX], f[NU];

    assert_int_equal(hb_stepper_new(&s, m, NULL), 0);
    start(x, f);
    memcpy(expected, x, sizeof x);
    for (int step = 0; step < 3; step++) {
        hb_stepper_step(s, x, f, 0.02);
        integrate(m->nominal_parameter, expected, f, 0.02);
        for (int i = 0; i < NX; i++)
            assert_near(x[i], expected[i], 3 * tolerance);
    }
    hb_stepper_free(s);
    hb_model_free(m);
}

static void test_coefficients_count(void **state)
{
    (void)state;
    hb_model *m = quadrotor();
    hb_real *c = new_coefficients(m, 4);
    hb_stepper *s;
    double x[NX], with[NX], f[NU];
    bool other = false;

    assert_int_equal(hb_stepper_new(&s, m, NULL), 0);
    start(x, f);
    memcpy(with, x, sizeof x);
    hb_stepper_step(s, x, f, 0.02);
    hb_predictor_set(hb_stepper_predictor(s), c);
    hb_stepper_step(s, with, f, 0.02);
    for (int i = 0; i < NX; i++)
        other |= fabs(with[i] - x[i]) > 1e-4;
    assert_true(other);
    free(c);
    hb_stepper_free(s);
    hb_model_free(m);
}

static void test_error_of_a_transition(void **state)
{
    (void)state;
    hb_model *m = quadrotor();
    hb_stepper *s;
    double x[NX], end[NX], u[NU], off[NX] = {0};
    const double dt = 0.06;

    assert_int_equal(hb_stepper_new(&s, m, NULL), 0);
    start(x, u);
    memcpy(end, x, sizeof x);
    integrate(m->nominal_parameter, end, u, dt);
    hb_transition t = {.x = x, .u = u, .x_next = end, .dt = dt};
    assert_near(hb_stepper_error(s, &t), 0, 1e-9);

    /* the mean over states of squares, each in units of its deviation */
    off[0] = 2 * m->state_std[0];
    off[5] = -3 * m->state_std[5];
    for (int i = 0; i < NX; i++)
        end[i] += off[i];
    assert_near(hb_stepper_error(s, &t), (2 * 2 + 3 * 3) / (double)NX, 1e-4);
    hb_stepper_free(s);
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_is_that_of_the_vehicle),
        cmocka_unit_test(test_coefficients_count),
        cmocka_unit_test(test_error_of_a_transition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
