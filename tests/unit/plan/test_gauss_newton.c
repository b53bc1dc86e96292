/* Second-order steps against brute force: a linear system with quadratic costs, where the model is exact. The cost is
 * computed by simulating the system, its derivatives by differences (exact for a quadratic), the bounded minimum by
 * many small projected steps. */
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "plan/gauss_newton.h"
#include "base/numeric.h"

enum { NX = 3, NU = 4, NH = 5, MAX = NH * NU };

typedef struct linear_problem {
    int nv;
    double a[NH][NX][NX], b[NH][NX][NU], q[NH + 1][NX], lx[NH + 1][NX], r[NH][NU], lu[NH][NU], slew[NH][NU];
    double direction[NU][NU];
    bool lags;
    double keep[NU], share[NU];
} linear_problem;

static double draw(uint64_t stream, int index)
{
    return hb_random_normal((hb_random_key){21, stream}, (uint64_t)index);
}

static void make_problem(linear_problem *p, uint64_t seed, int nv)
{
    double *number = (double *)p->a;
    p->nv = nv;
    p->lags = false;
    for (int i = 0; i < NU; i++) {
        p->keep[i] = 0.25 * i;
        p->share[i] = 0.3 * i;
    }
    for (int i = 0; i < (int)(NH * NX * (NX + NU)); i++)
        number[i] = 0.6 * draw(seed, i);
    for (int k = 0; k <= NH; k++)
        for (int i = 0; i < NX; i++) {
            p->q[k][i] = fabs(draw(seed, 1000 + k * NX + i));
            p->lx[k][i] = draw(seed, 2000 + k * NX + i);
        }
    for (int k = 0; k < NH; k++)
        for (int i = 0; i < NU; i++) {
            p->r[k][i] = 0.1 + fabs(draw(seed, 3000 + k * NU + i));
            p->lu[k][i] = draw(seed, 4000 + k * NU + i);
            p->slew[k][i] = fabs(draw(seed, 5000 + k * NU + i));
        }
    for (int i = 0; i < NU; i++)
        for (int v = 0; v < nv; v++)
            p->direction[i][v] = nv == NU ? (i == v) * (1 + 0.5 * i) : draw(seed, 6000 + i * NU + v);
}

/* change of the cost when w moves by d, by simulation */
static double cost_change(const linear_problem *p, const double *d)
{
    double x[NX] = {0}, before[NU] = {0}, actuator[NU] = {0}, total = 0;

    for (int k = 0; k <= NH; k++) {
        double u[NU] = {0}, effective[NU], next[NX] = {0};
        for (int i = 0; i < NX; i++)
            total += p->lx[k][i] * x[i] + p->q[k][i] * x[i] * x[i] / 2;
        if (k == NH)
            break;
        for (int i = 0; i < NU; i++) {
            for (int v = 0; v < p->nv; v++)
                u[i] += p->direction[i][v] * d[k * p->nv + v];
            total += p->lu[k][i] * u[i] + p->r[k][i] * u[i] * u[i] / 2 +
                     p->slew[k][i] * (u[i] - before[i]) * (u[i] - before[i]) / 2;
            before[i] = u[i];
            effective[i] = p->lags ? u[i] + (actuator[i] - u[i]) * p->share[i] : u[i];
            actuator[i] = u[i] + (actuator[i] - u[i]) * p->keep[i];
        }
        for (int i = 0; i < NX; i++) {
            for (int j = 0; j < NX; j++)
                next[i] += p->a[k][i][j] * x[j];
            for (int j = 0; j < NU; j++)
                next[i] += p->b[k][i][j] * effective[j];
        }
        memcpy(x, next, sizeof x);
    }
    return total;
}

static hb_gauss_newton *to_newton(const linear_problem *p, double bound)
{
    hb_gauss_newton *n;
    hb_error err;

    /* room for more than is used */
    if (hb_gauss_newton_new(&n, NX, NU, NU, NH + 2, &err))
        fail_msg("%s", err.text);
    n->nv = p->nv;
    n->nh = NH;
    memcpy(n->a, p->a, sizeof p->a);
    memcpy(n->b, p->b, sizeof p->b);
    memcpy(n->lx, p->lx, sizeof p->lx);
    memcpy(n->lu, p->lu, sizeof p->lu);
    memcpy(n->slew, p->slew, sizeof p->slew);
    n->lags = p->lags;
    memcpy(n->keep, p->keep, sizeof p->keep);
    memcpy(n->share, p->share, sizeof p->share);
    for (int k = 0; k <= NH; k++)
        for (int i = 0; i < NX; i++)
            n->q[(k * NX + i) * NX + i] = p->q[k][i];
    for (int k = 0; k < NH; k++)
        for (int i = 0; i < NU; i++) {
            n->r[(k * NU + i) * NU + i] = p->r[k][i];
            n->low[k * NU + i] = -bound * (1 + 0.1 * i);
            n->high[k * NU + i] = bound * (1 + 0.2 * k);
        }
    for (int i = 0; i < NU; i++)
        memcpy(n->direction + i * p->nv, p->direction[i], (size_t)p->nv * sizeof(double));
    hb_gauss_newton_condense(n);
    return n;
}

/* gradient and Hessian by differences; exact except for rounding */
static void differentiate(const linear_problem *p, double *gradient, double *hessian)
{
    int size = NH * p->nv;
    double d[MAX] = {0};

    for (int i = 0; i < size; i++) {
        d[i] = 1;
        double above = cost_change(p, d);
        d[i] = -1;
        gradient[i] = (above - cost_change(p, d)) / 2;
        d[i] = 0;
        for (int j = 0; j < size; j++) {
            double sum[2] = {0};
            for (int side = 0; side < 2; side++) {
                d[i] += side ? -1 : 1;
                d[j] += 1;
                sum[side] = cost_change(p, d);
                d[j] -= 2;
                sum[side] -= cost_change(p, d);
                d[i] = d[j] = 0;
            }
            hessian[i * size + j] = (sum[0] - sum[1]) / 4;
        }
    }
}

static void test_condensed_derivatives_are_those_of_the_simulated_cost(void **state)
{
    (void)state;

    for (int nv = 2; nv <= NU; nv++)
        for (uint64_t seed = 0; seed < 10; seed++) {
            linear_problem p;
            double gradient[MAX], hessian[MAX * MAX];
            int size = NH * nv;
            make_problem(&p, seed / 2, nv);
            p.lags = seed % 2;
            differentiate(&p, gradient, hessian);
            double trace = 0;
            for (int i = 0; i < size; i++)
                trace += hessian[i * size + i];
            hb_gauss_newton *n = to_newton(&p, 1e9);
            for (int i = 0; i < size; i++)
                assert_near(n->gradient[i], gradient[i], 1e-9);
            assert_near(n->curvature, trace / size, 1e-9);
            hb_gauss_newton_free(n);
        }
}

static void test_free_step_is_the_minimum(void **state)
{
    (void)state;

    for (int nv = 2; nv <= NU; nv++)
        for (uint64_t seed = 9; seed < 13; seed++) {
            linear_problem p;
            double d[MAX], gain;
            make_problem(&p, seed, nv);
            p.lags = seed % 2;
            hb_gauss_newton *n = to_newton(&p, 1e9);
            assert_int_equal(hb_gauss_newton_step(n, 0, d, &gain), 0);
            double least = cost_change(&p, d);
            assert_true(least < 0);
            assert_near(gain, -least, 1e-9);
            for (int i = 0; i < NH * p.nv; i++)
                for (int side = -1; side <= 1; side += 2) {
                    d[i] += side * 1e-3;
                    assert_true(cost_change(&p, d) > least);
                    d[i] -= side * 1e-3;
                }
            hb_gauss_newton_free(n);
        }
}

/* with M diagonal the bounds are a box in w: projected gradient descent, slow and sure */
static void test_bounded_step_is_the_minimum_within_bounds(void **state)
{
    (void)state;
    int bound_hit = 0;

    for (uint64_t seed = 0; seed < 40; seed++) {
        linear_problem p;
        double d[MAX], slow[MAX] = {0}, gradient[MAX], hessian[MAX * MAX], gain;
        make_problem(&p, seed, NU);
        hb_gauss_newton *n = to_newton(&p, 0.15);
        assert_int_equal(hb_gauss_newton_step(n, 0, d, &gain), 0);
        assert_near(gain, -cost_change(&p, d), 1e-9);

        differentiate(&p, gradient, hessian);
        double largest = 0;
        for (int i = 0; i < MAX; i++) {
            double row = 0;
            for (int j = 0; j < MAX; j++)
                row += fabs(hessian[i * MAX + j]);
            largest = fmax(largest, row);
        }
        for (int step = 0; step < 20000; step++) {
            double moved[MAX];
            for (int i = 0; i < MAX; i++) {
                double slope = gradient[i], scale = p.direction[i % NU][i % NU];
                for (int j = 0; j < MAX; j++)
                    slope += hessian[i * MAX + j] * slow[j];
                moved[i] = fmin(fmax(slow[i] - slope / largest, n->low[i] / scale), n->high[i] / scale);
            }
            memcpy(slow, moved, sizeof slow);
        }
        for (int i = 0; i < MAX; i++) {
            double scale = p.direction[i % NU][i % NU];
            assert_near(d[i], slow[i], 1e-5);
            bound_hit += slow[i] == n->low[i] / scale || slow[i] == n->high[i] / scale;
        }
        hb_gauss_newton_free(n);
    }
    assert_true(bound_hit > 100);
}

/* in other directions: within bounds, and no feasible point nearby is better */
static void test_bounded_step_in_few_directions(void **state)
{
    (void)state;
    int bound_hit = 0;

    for (uint64_t seed = 0; seed < 20; seed++) {
        linear_problem p;
        enum { NV = 2 };
        double d[MAX], gain;
        make_problem(&p, seed, NV);
        hb_gauss_newton *n = to_newton(&p, 0.1);
        assert_int_equal(hb_gauss_newton_step(n, 0, d, &gain), 0);
        double found = cost_change(&p, d);
        assert_near(gain, -found, 1e-9);
        for (int trial = -1; trial < 2000; trial++) {
            double near[MAX];
            bool feasible = true;
            for (int i = 0; i < NH * NV; i++)
                near[i] = d[i] + (trial < 0 ? 0 : 0.02 * draw(100 + seed, trial * NH * NV + i));
            for (int k = 0; k < NH; k++)
                for (int i = 0; i < NU; i++) {
                    double u = 0;
                    for (int v = 0; v < NV; v++)
                        u += p.direction[i][v] * near[k * NV + v];
                    if (trial < 0) {
                        assert_true(u <= n->high[k * NU + i] + 1e-5 && u >= n->low[k * NU + i] - 1e-5);
                        bound_hit += u > n->high[k * NU + i] - 1e-5 || u < n->low[k * NU + i] + 1e-5;
                    }
                    feasible = feasible && u <= n->high[k * NU + i] && u >= n->low[k * NU + i];
                }
            if (feasible)
                assert_true(cost_change(&p, near) >= found - 1e-5);
        }
        hb_gauss_newton_free(n);
    }
    assert_true(bound_hit > 20);
}

/* the gradient of the model at a step, by a rollout of the linear system and its adjoint, with the damping's: written
 * out for a long problem whose states, actuators and controls are as the header has them */
static void model_gradient(const hb_gauss_newton *n, double damping, const double *d, double *g)
{
    enum { STATES = 6, LONG = 60 };
    const int nu = n->nu, nv = n->nv;
    double x[LONG + 1][STATES] = {0}, u[LONG + 1][NU] = {0}, a[NU] = {0}, l[STATES], da[NU] = {0};

    for (int k = 0; k < LONG; k++)
        for (int i = 0; i < nu; i++) {
            for (int v = 0; v < nv; v++)
                u[k][i] += n->direction[i * nv + v] * d[k * nv + v];
            const double e = n->lags ? u[k][i] + (a[i] - u[k][i]) * n->share[i] : u[k][i];
            a[i] = u[k][i] + (a[i] - u[k][i]) * n->keep[i];
            for (int j = 0; j < STATES; j++) {
                if (i == 0)
                    for (int m = 0; m < STATES; m++)
                        x[k + 1][j] += n->a[(k * STATES + j) * STATES + m] * x[k][m];
                x[k + 1][j] += n->b[(k * STATES + j) * nu + i] * e;
            }
        }
    for (int j = 0; j < STATES; j++)
        l[j] = n->lx[LONG * STATES + j] + n->q[(LONG * STATES + j) * STATES + j] * x[LONG][j];
    for (int k = LONG - 1; k >= 0; k--) {
        double before[STATES];
        for (int v = 0; v < nv; v++)
            g[k * nv + v] = damping * d[k * nv + v];
        for (int i = 0; i < nu; i++) {
            double of_e = 0, of_u;
            for (int j = 0; j < STATES; j++)
                of_e += n->b[(k * STATES + j) * nu + i] * l[j];
            of_u = n->lags ? (1 - n->share[i]) * of_e + (1 - n->keep[i]) * da[i] : of_e;
            da[i] = n->share[i] * of_e + n->keep[i] * da[i];
            of_u += n->lu[k * nu + i] + n->r[(k * nu + i) * nu + i] * u[k][i];
            of_u += n->slew[k * nu + i] * (u[k][i] - (k ? u[k - 1][i] : 0));
            of_u -= k + 1 < LONG ? n->slew[(k + 1) * nu + i] * (u[k + 1][i] - u[k][i]) : 0;
            for (int v = 0; v < nv; v++)
                g[k * nv + v] += n->direction[i * nv + v] * of_u;
        }
        for (int j = 0; j < STATES; j++) {
            before[j] = n->lx[k * STATES + j] + n->q[(k * STATES + j) * STATES + j] * x[k][j];
            for (int m = 0; m < STATES; m++)
                before[j] += n->a[(k * STATES + m) * STATES + j] * l[m];
        }
        memcpy(l, before, sizeof l);
    }
}

/* A long horizon, of a system that is unstable, with costs of very different size: at the step the model's gradient is
 * zero, or points out of the bounds that the step is at. */
static void test_long_steps_are_minima(void **state)
{
    (void)state;
    enum { LONG = 60, STATES = 6 };
    double d[LONG * NU], zero[LONG * NU] = {0}, start[LONG * NU], g[LONG * NU], gain;
    int bound_hit = 0;

    for (uint64_t seed = 0; seed < 8; seed++) {
        const bool bounded = seed >= 4;
        const int nv = bounded ? NU : NU - 1;
        hb_gauss_newton *n;
        hb_error err;
        if (hb_gauss_newton_new(&n, STATES, NU, nv, LONG, &err))
            fail_msg("%s", err.text);
        n->lags = seed % 2;
        for (int j = 0; j < NU; j++) {
            n->keep[j] = 0.2 * j;
            n->share[j] = 0.25 * j;
        }
        for (int j = 0; j < NU * nv; j++)
            n->direction[j] = bounded ? j / nv == j % nv : draw(seed, 8000 + j);
        for (int j = 0; j < LONG * STATES * STATES; j++)
            n->a[j] = 1.1 * (j / STATES % STATES == j % STATES) + 0.05 * draw(seed, 10000 + j);
        for (int j = 0; j < LONG * STATES * NU; j++)
            n->b[j] = 0.2 * draw(seed, 20000 + j);
        for (int j = 0; j < (LONG + 1) * STATES; j++) {
            n->lx[j] = draw(seed, 30000 + j);
            n->q[j * STATES + j % STATES] = (j < LONG * STATES ? 1 : 1e4) * fabs(draw(seed, 40000 + j));
        }
        for (int j = 0; j < LONG * NU; j++) {
            n->lu[j] = draw(seed, 50000 + j);
            n->r[j * NU + j % NU] = j % NU ? fabs(draw(seed, 60000 + j)) : 0;
            /* the dual converges slowly where a control costs nothing of its own */
            n->slew[j] = seed < 2 ? 0 : fabs(draw(seed, 70000 + j));
            n->low[j] = bounded ? -0.1 : -1e9;
            n->high[j] = bounded ? 0.1 : 1e9;
        }
        hb_gauss_newton_condense(n);
        assert_int_equal(hb_gauss_newton_step(n, 0.01, d, &gain), 0);

        double largest = 0, expected = 0;
        model_gradient(n, 0, zero, start);
        model_gradient(n, 0, d, g);
        for (int j = 0; j < LONG * nv; j++) {
            assert_near(n->gradient[j], start[j], 1e-9 * fmax(1, fabs(start[j])));
            largest = fmax(largest, fabs(start[j]));
            expected -= (start[j] + g[j]) / 2 * d[j];
        }
        assert_true(gain > 0);
        assert_near(gain, expected, 1e-6 * expected);
        model_gradient(n, 0.01, d, g);
        for (int j = 0; j < LONG * nv; j++) {
            const int at = bounded ? (d[j] > 0.1 - 1e-4) - (d[j] < -0.1 + 1e-4) : 0;
            bound_hit += at != 0;
            assert_true(!bounded || fabs(d[j]) < 0.1 + 1e-4);
            assert_true(at > 0 ? g[j] < 1e-6 * largest : at < 0 ? g[j] > -1e-6 * largest : fabs(g[j]) < 1e-6 * largest);
        }
        hb_gauss_newton_free(n);
    }
    assert_true(bound_hit > 100);
}

/* Curvatures that hardly changed leave the Hessian as it was, with the gradient of now; others make it anew. */
static void test_condensing_again(void **state)
{
    (void)state;

    for (int much = 0; much < 2; much++) {
        linear_problem p, now;
        double d[MAX], expected[MAX], gain, expected_gain;
        make_problem(&p, 4, NU);
        hb_gauss_newton *n = to_newton(&p, 0.3);
        assert_int_equal(hb_gauss_newton_step(n, 0.1, d, &gain), 0);

        make_problem(&now, 5, NU);
        memcpy(p.lx, now.lx, sizeof p.lx);
        memcpy(n->lx, now.lx, sizeof now.lx);
        for (int k = 0; k <= NH; k++)
            for (int i = 0; i < NX; i++) {
                n->q[(k * NX + i) * NX + i] *= much ? 1.5 : 1.05;
                p.q[k][i] *= much ? 1.5 : 1;
            }
        hb_gauss_newton_condense_again(n);
        hb_gauss_newton *fresh = to_newton(&p, 0.3);
        assert_int_equal(hb_gauss_newton_step(n, 0.1, d, &gain), 0);
        assert_int_equal(hb_gauss_newton_step(fresh, 0.1, expected, &expected_gain), 0);
        assert_memory_equal(d, expected, sizeof d);
        assert_true(gain == expected_gain);
        hb_gauss_newton_free(n);
        hb_gauss_newton_free(fresh);
    }
}

static void test_damping_shortens_and_bad_numbers_are_refused(void **state)
{
    (void)state;
    linear_problem p;
    double d[MAX], damped[MAX], length[2] = {0}, gain;

    make_problem(&p, 3, NU);
    hb_gauss_newton *n = to_newton(&p, 1e9);
    assert_int_equal(hb_gauss_newton_step(n, 0, d, &gain), 0);
    assert_int_equal(hb_gauss_newton_step(n, 1e3, damped, &gain), 0);
    assert_near(gain, -cost_change(&p, damped), 1e-9);
    for (int i = 0; i < MAX; i++) {
        length[0] += d[i] * d[i];
        length[1] += damped[i] * damped[i];
        /* so much damping leaves the gradient's direction */
        assert_near(damped[i], -n->gradient[i] / 1e3, 0.05 * fabs(n->gradient[i]) / 1e3 + 1e-4);
    }
    assert_true(length[1] < 0.01 * length[0]);

    n->gradient[2] = NAN;
    assert_int_equal(hb_gauss_newton_step(n, 0, d, &gain), -1);
    n->gradient[2] = 0;
    n->r[0] = -1e3;
    hb_gauss_newton_condense(n);
    assert_int_equal(hb_gauss_newton_step(n, 0, d, &gain), -1);
    hb_gauss_newton_free(n);
    hb_gauss_newton_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_condensed_derivatives_are_those_of_the_simulated_cost),
        cmocka_unit_test(test_free_step_is_the_minimum),
        cmocka_unit_test(test_bounded_step_is_the_minimum_within_bounds),
        cmocka_unit_test(test_bounded_step_in_few_directions),
        cmocka_unit_test(test_long_steps_are_minima),
        cmocka_unit_test(test_condensing_again),
        cmocka_unit_test(test_damping_shortens_and_bad_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
