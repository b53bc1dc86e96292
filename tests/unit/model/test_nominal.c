/* Analytic fields: physics against closed forms, derivatives against finite differences (double build). */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "models.h"
#include "model/nominal.h"
#include "base/numeric.h"

enum { PX, VX, PY, VY, PZ, VZ, QX, QY, QZ, QW, WX, WY, WZ, NX };

#define AT(rows, i) ((double)(rows)[(i)*HB_STRIDE])

static hb_real *level_state(void)
{
    hb_real *x = new_rows(NX);
    x[QW * HB_STRIDE] = 1;
    return x;
}

static hb_real *thrusts(double f0, double f1, double f2, double f3)
{
    const double f[] = {f0, f1, f2, f3};
    return rows_from(f, 1, 4);
}

static void quadrotor_rates(const hb_real *x, const hb_real *u, double *rate)
{
    const hb_nominal *q = hb_nominal_find("quadrotor");
    hb_real *xdot = new_rows(NX);
    q->field(q, q->parameter_default, 1, x, u, xdot, NULL);
    for (int i = 0; i < NX; i++)
        rate[i] = AT(xdot, i);
    free(xdot);
}

static void test_registry(void **state)
{
    (void)state;
    const hb_nominal *q = hb_nominal_find("quadrotor");
    assert_non_null(q);
    assert_int_equal(q->nx, NX);
    assert_int_equal(q->nu, 4);
    assert_null(hb_nominal_find("zeppelin"));
    assert_ptr_equal(hb_nominal_at(0), q);
    assert_null(hb_nominal_at(-1));
}

/* what is said to be exact depends on no parameter and no control; everything else depends on one of them */
static void test_kinematics_are_those_of_any_vehicle(void **state)
{
    (void)state;
    for (int k = 0; hb_nominal_at(k); k++) {
        const hb_nominal *n = hb_nominal_at(k);
        double other[HB_NOMINAL_PARAMETERS];
        hb_real *x = new_rows(n->nx), *u = new_rows(n->nu), *a = new_rows(n->nx), *b = new_rows(n->nx);

        for (int i = 0; i < n->nx; i++)
            x[i * HB_STRIDE] = (hb_real)(0.3 + 0.1 * i);
        for (int i = 0; i < n->nu; i++)
            u[i * HB_STRIDE] = (hb_real)(0.2 + 0.1 * i);
        n->field(n, n->parameter_default, 1, x, u, a, NULL);
        for (int i = 0; i < n->nparameters; i++)
            other[i] = (1.5 + 0.1 * i) * n->parameter_default[i] + 0.01;
        for (int i = 0; i < n->nu; i++)
            u[i * HB_STRIDE] += (hb_real)(0.1 + 0.05 * i);
        n->field(n, other, 1, x, u, b, NULL);
        for (int i = 0; i < n->nx; i++)
            if ((AT(a, i) == AT(b, i)) != (n->kinematic && n->kinematic[i]))
                fail_msg("%s: state %d: %g and %g", n->name, i, AT(a, i), AT(b, i));
        free(x);
        free(u);
        free(a);
        free(b);
    }
}

static void test_hover_balances_weight(void **state)
{
    (void)state;
    const double each = 0.027 * 9.81 / 4;
    hb_real *x = level_state(), *u = thrusts(each, each, each, each);
    double rate[NX];

    quadrotor_rates(x, u, rate);
    for (int i = 0; i < NX; i++)
        assert_near(rate[i], 0, 1e-5);
    free(x);
    free(u);
}

static void test_torques_turn_the_right_way(void **state)
{
    (void)state;
    const double lever = 0.0397 / sqrt(2), yaw = 7.94e-12 / 3.16e-10;
    hb_real *x = level_state(), *u = thrusts(0.01, 0.02, 0.04, 0.08);
    double rate[NX];

    quadrotor_rates(x, u, rate);
    assert_near(rate[WX] / ((0.01 + 0.02 - 0.04 - 0.08) * lever / 1.4e-5), 1, 1e-5);
    assert_near(rate[WY] / ((-0.01 + 0.02 + 0.04 - 0.08) * lever / 1.4e-5), 1, 1e-5);
    assert_near(rate[WZ] / ((-0.01 + 0.02 - 0.04 + 0.08) * yaw / 2.17e-5), 1, 1e-5);
    free(x);
    free(u);
}

/* a positive pitch about y tips the thrust towards +x; the quaternion need not have length one */
static void test_thrust_follows_the_attitude(void **state)
{
    (void)state;
    const double angle = 0.3, length = 1.7;
    hb_real *x = level_state(), *u = thrusts(0.1, 0.1, 0.1, 0.1);
    double rate[NX];

    x[QY * HB_STRIDE] = (hb_real)(length * sin(angle / 2));
    x[QW * HB_STRIDE] = (hb_real)(length * cos(angle / 2));
    quadrotor_rates(x, u, rate);
    assert_near(rate[VX], 0.4 / 0.027 * sin(angle), 1e-5);
    assert_near(rate[VY], 0, 1e-5);
    assert_near(rate[VZ], 0.4 / 0.027 * cos(angle) - 9.81, 1e-5);
    free(x);
    free(u);
}

/* the quaternion's rate is that of a rotation about a body axis, and keeps its length */
static void test_attitude_follows_the_rates(void **state)
{
    (void)state;
    const double angle = 0.8, wz = 2;
    hb_real *x = level_state(), *u = thrusts(0.05, 0.05, 0.05, 0.05);
    double rate[NX];

    x[QZ * HB_STRIDE] = (hb_real)sin(angle / 2);
    x[QW * HB_STRIDE] = (hb_real)cos(angle / 2);
    x[WZ * HB_STRIDE] = (hb_real)wz;
    quadrotor_rates(x, u, rate);
    assert_near(rate[QZ], wz / 2 * cos(angle / 2), 1e-6);
    assert_near(rate[QW], -wz / 2 * sin(angle / 2), 1e-6);
    free(x);
    free(u);
}

/* without torque the angular momentum turns but its length stays: d/dt |I w|^2 = 0 */
static void test_angular_momentum_is_conserved(void **state)
{
    (void)state;
    const double inertia[] = {1.4e-5, 1.4e-5, 2.17e-5}, w[] = {1.5, -2, 3};
    hb_real *x = level_state(), *u = thrusts(0.05, 0.05, 0.05, 0.05);
    double rate[NX], change = 0;

    for (int i = 0; i < 3; i++)
        x[(WX + i) * HB_STRIDE] = (hb_real)w[i];
    quadrotor_rates(x, u, rate);
    for (int i = 0; i < 3; i++)
        change += inertia[i] * w[i] * inertia[i] * rate[WX + i];
    assert_near(change / (2.17e-5 * 2.17e-5), 0, 1e-5);
    free(x);
    free(u);
}

/* thrust against gravity and drag; rates follow their commands; attitude as the quadrotor's */
static void test_multirotor_takes_thrust_and_rates(void **state)
{
    (void)state;
    const hb_nominal *m = hb_nominal_find("multirotor-rates"), *quadrotor = hb_nominal_find("quadrotor");
    const double parameter[] = {20, 0.5, 25, 6, 9.81}, angle = 0.3;
    hb_real *x = level_state(), *u = thrusts(0.6, 1, -2, 3), *f = thrusts(0.081, 0.081, 0.081, 0.081);
    hb_real *xdot = new_rows(NX), *same = new_rows(NX);

    assert_non_null(m);
    x[QX * HB_STRIDE] = (hb_real)sin(angle / 2);
    x[QW * HB_STRIDE] = (hb_real)cos(angle / 2);
    x[VX * HB_STRIDE] = 2;
    x[VY * HB_STRIDE] = -3;
    x[WX * HB_STRIDE] = (hb_real)0.5;
    x[WZ * HB_STRIDE] = 1;
    m->field(m, parameter, 1, x, u, xdot, NULL);
    assert_near(AT(xdot, PX), 2, 1e-6);
    assert_near(AT(xdot, VX), -1, 1e-6);
    assert_near(AT(xdot, VY), -12 * sin(angle) + 1.5, 1e-5);
    assert_near(AT(xdot, VZ), 12 * cos(angle) - 9.81, 1e-5);
    assert_near(AT(xdot, WX), 25 * (1 - 0.5), 1e-5);
    assert_near(AT(xdot, WY), 25 * -2, 1e-5);
    assert_near(AT(xdot, WZ), 6 * (3 - 1), 1e-5);
    /* 12 N/kg of the other one's thrust: the same attitude, the same push */
    quadrotor->field(quadrotor, quadrotor->parameter_default, 1, x, f, same, NULL);
    for (int i = QX; i <= QW; i++)
        assert_near(AT(xdot, i), AT(same, i), 1e-6);
    assert_near(AT(xdot, VZ), AT(same, VZ), 1e-5);
    free(x);
    free(u);
    free(f);
    free(xdot);
    free(same);
}

#ifdef HB_DOUBLE
static void test_jacobians_equal_finite_differences(void **state)
{
    (void)state;
    for (int which = 0; hb_nominal_at(which); which++) {
        const hb_nominal *q = hb_nominal_at(which);
        const int n = 20;
        hb_real *x = random_rows(q->nx, 31), *u = random_rows(q->nu, 32), *weight = random_rows(q->nx, 33);
        hb_real *xdot = new_rows(q->nx), *dx = new_rows(q->nx), *du = new_rows(q->nu);

        q->adjoint(q, q->parameter_default, n, x, u, weight, dx, du, NULL);
        for (int i = 0; i < q->nx + q->nu; i++)
            for (int s = 0; s < n; s++) {
                hb_real *at = i < q->nx ? &x[i * HB_STRIDE + s] : &u[(i - q->nx) * HB_STRIDE + s];
                const double kept = *at, step = 1e-5;
                double side[2];
                for (int k = 0; k < 2; k++) {
                    *at = kept + (k ? step : -step);
                    q->field(q, q->parameter_default, n, x, u, xdot, NULL);
                    side[k] = 0;
                    for (int r = 0; r < q->nx; r++)
                        side[k] += weight[r * HB_STRIDE + s] * xdot[r * HB_STRIDE + s];
                }
                *at = kept;
                const double expected = (side[1] - side[0]) / (2 * step);
                const double found = i < q->nx ? dx[i * HB_STRIDE + s] : du[(i - q->nx) * HB_STRIDE + s];
                check_close(found, expected, fmax(1, fabs(expected)), 1e-7, "%s: derivative %d of sample %d", q->name,
                            i, s);
            }
        free(x);
        free(u);
        free(weight);
        free(xdot);
        free(dx);
        free(du);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registry),
        cmocka_unit_test(test_kinematics_are_those_of_any_vehicle),
        cmocka_unit_test(test_hover_balances_weight),
        cmocka_unit_test(test_torques_turn_the_right_way),
        cmocka_unit_test(test_thrust_follows_the_attitude),
        cmocka_unit_test(test_attitude_follows_the_rates),
        cmocka_unit_test(test_angular_momentum_is_conserved),
        cmocka_unit_test(test_multirotor_takes_thrust_and_rates),
#ifdef HB_DOUBLE
        cmocka_unit_test(test_jacobians_equal_finite_differences),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
