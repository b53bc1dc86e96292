/* Covariances of predicted states, against flights of vehicles whose coefficients differ, under a regulator that is
 * worked out here from differences of the model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "check.h"
#include "dynamics/stepper.h"
#include "plan/uncertainty.h"
#include "test_models.h"

enum { NX = 13, NU = 4, NB = 6, NH = 8 };

typedef struct flight {
    hb_model *m;
    hb_stepper *stepper;
    hb_real coefficient[NB];
    double covariance[NB * NB], root[NB * NB]; /* S = root root^T */
    double u[NH][NU], x[NH + 1][NX];           /* controls, and the trajectory of the mean */
    double gain[NH][NU * NX];
} flight;

static void step(flight *f, const double *x, const double *u, double *next)
{
    memmove(next, x, (size_t)f->m->nx * sizeof *x);
    hb_stepper_step(f->stepper, next, u, f->m->dt);
    /* plans keep a quaternion at length one */
    const int q = hb_model_quaternion(f->m);
    double square = 0;
    for (int i = 0; q >= 0 && i < 4; i++)
        square += next[q + i] * next[q + i];
    for (int i = 0; q >= 0 && i < 4; i++)
        next[q + i] /= sqrt(square);
}

/* derivatives of a step by the states (columns 0 .. nx - 1) and controls, row by row: out, nx x (nx + nu) */
static void differentiate(flight *f, int k, double *out)
{
    const int nx = f->m->nx, nu = f->m->nu, n = nx + nu;
    double at[NX + NU], side[2][NX];

    for (int j = 0; j < n; j++) {
        const double h = 0.02 * (j < nx ? f->m->state_std[j] : f->m->control_std[j - nx]);
        for (int i = 0; i < 2; i++) {
            memcpy(at, f->x[k], (size_t)nx * sizeof *at);
            memcpy(at + nx, f->u[k], (size_t)nu * sizeof *at);
            at[j] += i ? -h : h;
            step(f, at, at + nx, side[i]);
        }
        for (int i = 0; i < nx; i++)
            out[i * n + j] = (side[0][i] - side[1][i]) / (2 * h);
    }
}

/* a <- a^-1 b for a (n x n) and b (n x columns), by elimination */
static void solve(int n, double *a, int columns, double *b)
{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++) {
            const double factor = a[i * n + k] / a[k * n + k];
            if (i == k)
                continue;
            for (int j = 0; j < n; j++)
                a[i * n + j] -= factor * a[k * n + j];
            for (int j = 0; j < columns; j++)
                b[i * columns + j] -= factor * b[k * columns + j];
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < columns; j++)
            b[i * columns + j] /= a[i * n + i];
}

/* the regulator that minimises the sum of squares of deviations, of states in their deviations and of controls in their
 * ranges, in units of these: f->gain, physical */
static void regulate(flight *f)
{
    const hb_model *m = f->m;
    const int nx = m->nx, nu = m->nu, n = nx + nu;
    double p[NX * NX] = {0}, d[NX * (NX + NU)];

    for (int i = 0; i < nx; i++)
        p[i * nx + i] = 1;
    for (int k = NH - 1; k >= 0; k--) {
        double h[(NX + NU) * (NX + NU)] = {0}, weight[NU * NU], gain[NU * NX];
        differentiate(f, k, d);
        for (int i = 0; i < nx; i++)
            for (int j = 0; j < n; j++)
                d[i * n + j] *=
                    (j < nx ? m->state_std[j] : m->control_max[j - nx] - m->control_min[j - nx]) / m->state_std[i];
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                h[i * n + j] = i == j;
                for (int a = 0; a < nx; a++)
                    for (int b = 0; b < nx; b++)
                        h[i * n + j] += d[a * n + i] * p[a * nx + b] * d[b * n + j];
            }
        for (int i = 0; i < nu; i++) {
            memcpy(weight + i * nu, h + (nx + i) * n + nx, (size_t)nu * sizeof *h);
            memcpy(gain + i * nx, h + (nx + i) * n, (size_t)nx * sizeof *h);
        }
        solve(nu, weight, nx, gain);
        for (int i = 0; i < nx; i++)
            for (int j = 0; j < nx; j++) {
                p[i * nx + j] = h[i * n + j];
                for (int l = 0; l < nu; l++)
                    p[i * nx + j] -= h[i * n + nx + l] * gain[l * nx + j];
            }
        for (int l = 0; l < nu; l++)
            for (int j = 0; j < nx; j++)
                f->gain[k][l * nx + j] = gain[l * nx + j] * (m->control_max[l] - m->control_min[l]) / m->state_std[j];
    }
}

/* the states of a vehicle that is off by some of column j of the root */
static void fly(flight *f, int j, double by, double (*x)[NX])
{
    const int nx = f->m->nx, nu = f->m->nu, nb = f->m->nb;
    hb_real c[NB];

    for (int i = 0; i < nb; i++)
        c[i] = f->coefficient[i] + (hb_real)(by * f->root[i * nb + j]);
    hb_predictor_set(hb_stepper_predictor(f->stepper), c);
    memcpy(x[0], f->x[0], sizeof x[0]);
    for (int k = 0; k < NH; k++) {
        double u[NU];
        for (int i = 0; i < nu; i++) {
            u[i] = f->u[k][i];
            for (int l = 0; l < nx; l++)
                u[i] -= f->gain[k][i * nx + l] * (x[k][l] - f->x[k][l]);
        }
        step(f, x[k], u, x[k + 1]);
    }
    hb_predictor_set(hb_stepper_predictor(f->stepper), f->coefficient);
}

/* deviations of the states of stage k, in those of training */
static void deviations(flight *f, double (*ret)[NX])
{
    static double side[2][NH + 1][NX];

    memset(ret, 0, (NH + 1) * sizeof *ret);
    for (int j = 0; j < f->m->nb; j++) {
        fly(f, j, 1, side[0]);
        fly(f, j, -1, side[1]);
        for (int k = 0; k <= NH; k++)
            for (int i = 0; i < f->m->nx; i++)
                ret[k][i] += pow((side[0][k][i] - side[1][k][i]) / 2, 2);
    }
    for (int k = 0; k <= NH; k++)
        for (int i = 0; i < f->m->nx; i++)
            ret[k][i] = sqrt(ret[k][i]) / f->m->state_std[i];
}

static void prepare(flight *f, double spread)
{
    const hb_random_key key = {7, 0};
    const int nb = f->m->nb;

    for (int i = 0; i < nb; i++) {
        f->coefficient[i] = (hb_real)(0.1 * hb_random_normal(key, (uint64_t)i));
        for (int j = 0; j <= i; j++)
            f->root[i * nb + j] = spread * ((i == j) + 0.3 * hb_random_normal(key, (uint64_t)(100 + i * nb + j)));
    }
    memset(f->covariance, 0, sizeof f->covariance);
    for (int i = 0; i < nb; i++)
        for (int j = 0; j < nb; j++)
            for (int l = 0; l < nb; l++)
                f->covariance[i * nb + j] += f->root[i * nb + l] * f->root[j * nb + l];
    hb_predictor_set(hb_stepper_predictor(f->stepper), f->coefficient);
    for (int i = 0; i < f->m->nx; i++)
        f->x[0][i] = hb_model_quaternion(f->m) >= 0 ? i == hb_model_quaternion(f->m) + 3 : 0.3 * f->m->state_std[i];
    for (int k = 0; k < NH; k++) {
        for (int i = 0; i < f->m->nu; i++)
            f->u[k][i] =
                f->m->control_trim[i] + 0.1 * (f->m->control_max[i] - f->m->control_trim[i]) * sin(k + (double)i);
        step(f, f->x[k], f->u[k], f->x[k + 1]);
    }
}

static void check(hb_model *m, double spread, double within)
{
    flight f = {.m = m};
    hb_uncertainty *c;
    double controls[NH * NU], expected[NH + 1][NX], most = 0;
    const double *states;

    assert_int_equal(hb_stepper_new(&f.stepper, m, NULL), 0);
    assert_int_equal(hb_uncertainty_new(&c, m, NH, NULL), 0);
    prepare(&f, spread);
    regulate(&f);
    deviations(&f, expected);
    for (int i = 0; i < NH * m->nu; i++)
        controls[i] = f.u[i / m->nu][i % m->nu];
    const double *covariance = hb_uncertainty_propagate(c, hb_stepper_predictor(f.stepper), f.coefficient, f.covariance,
                                                        f.x[0], controls, m->dt, NH, &states);
    assert_non_null(covariance);
    for (int i = 0; i < m->nx; i++)
        most = fmax(most, expected[NH][i]);
    assert_true(most > 0);
    for (int k = 0; k <= NH; k++)
        for (int i = 0; i < m->nx; i++) {
            const double found = sqrt(covariance[(k * m->nx + i) * m->nx + i]) / m->state_std[i];
            assert_near(states[k * m->nx + i] / m->state_std[i], f.x[k][i] / m->state_std[i], 1e-4);
            assert_near(found, expected[k][i], within * most);
        }
    /* nothing is uncertain that is known */
    memset(f.covariance, 0, sizeof f.covariance);
    covariance = hb_uncertainty_propagate(c, hb_stepper_predictor(f.stepper), f.coefficient, f.covariance, f.x[0],
                                          controls, m->dt, NH, &states);
    for (int i = 0; i < (NH + 1) * m->nx * m->nx; i++)
        assert_true(covariance[i] == 0);
    hb_uncertainty_free(c);
    hb_stepper_free(f.stepper);
    hb_model_free(m);
}

static void test_cart(void **state)
{
    (void)state;
    hb_model *m;

    assert_int_equal(hb_test_cart(&m, NULL), 0);
    check(m, 0.05, 0.05);
}

static void test_quadrotor(void **state)
{
    (void)state;
    hb_model *m;

    assert_int_equal(hb_test_quadrotor(&m, NB, 16, NULL), 0);
    check(m, 1, 0.05);
}

/* What explodes has no covariance. */
static void test_not_finite(void **state)
{
    (void)state;
    hb_model *m;
    hb_uncertainty *c;
    hb_stepper *s;
    const double x[NX] = {1e300, 1e300}, u[NH * NU] = {0}, covariance[NB * NB] = {1}, *states;

    assert_int_equal(hb_test_cart(&m, NULL), 0);
    assert_int_equal(hb_stepper_new(&s, m, NULL), 0);
    assert_int_equal(hb_uncertainty_new(&c, m, NH, NULL), 0);
    assert_null(hb_uncertainty_propagate(c, hb_stepper_predictor(s), NULL, covariance, x, u, m->dt, NH, &states));
    hb_uncertainty_free(c);
    hb_stepper_free(s);
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cart),
        cmocka_unit_test(test_quadrotor),
        cmocka_unit_test(test_not_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
