/* Fits under a prior, in double, against Bayes' rule applied to one number after another: a Kalman filter over the
 * residuals of all states and examples, which shares no formula with the normal equations of fit.c. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/numeric.h"
#include "dynamics/basis.h"
#include "train/fit.h"

enum { NX = 3, NU = 2, NB = 4, EXAMPLES = HB_STRIDE + 7 };

static double normal(uint64_t stream, uint64_t index)
{
    return hb_random_normal((hb_random_key){.seed = 17, .stream = stream}, index);
}

static hb_model *make_model(hb_shape shape, hb_method method)
{
    hb_model *m = NULL, of = {.nx = NX,
                              .nu = NU,
                              .nb = NB,
                              .architecture = HB_SHARED,
                              .activation = HB_TANH,
                              .average = HB_AVERAGE_HEAD,
                              .integration = HB_COMBINED,
                              .substeps = 1,
                              .method = method,
                              .shape = shape,
                              .ridge = 5, /* must not be used */
                              .volume = 1,
                              .dt = 0.1,
                              .has_prior = true,
                              .basis = {.nlayers = 2, .width = {0, 6}}};
    assert_int_equal(hb_model_new(&m, &of, NULL, NULL), 0);
    for (size_t i = 0; i < m->nparameters; i++)
        m->parameter[i] = (hb_real)normal(1, i);
    for (int i = 0; i < hb_model_ncoefficients(m); i++)
        m->prior_mean[i] = normal(2, (uint64_t)i);
    for (int k = 0; k < NX; k++)
        m->noise[k] = 0.3 + 0.4 * k;
    /* L L^T */
    for (int p = 0; p < hb_model_nproblems(m); p++)
        for (int i = 0; i < NB; i++)
            for (int j = 0; j < NB; j++)
                for (int l = 0; l < NB; l++)
                    m->prior_covariance[(p * NB + i) * NB + j] += 0.1 * normal(3, (uint64_t)((p * NB + i) * NB + l)) *
                                                                  normal(3, (uint64_t)((p * NB + j) * NB + l));
    return m;
}

static void fill_points(hb_points *p)
{
    for (int s = 0; s < hb_points_nblocks(p) * HB_STRIDE; s++) {
        int block = s / HB_STRIDE, lane = s % HB_STRIDE;
        for (int i = 0; i < NX; i++) {
            hb_points_states(p, block, 0)[i * HB_STRIDE + lane] = (hb_real)normal(4, (uint64_t)(s * 16 + i));
            hb_points_states(p, block, 1)[i * HB_STRIDE + lane] = (hb_real)normal(5, (uint64_t)(s * 16 + i));
        }
        for (int i = 0; i < NU; i++)
            hb_points_controls(p, block, 0)[i * HB_STRIDE + lane] = (hb_real)normal(6, (uint64_t)(s * 16 + i));
        hb_points_dt(p, block, 0)[lane] = (hb_real)0.1;
    }
}

/* c, P after the measurement r = g c + N(0, variance) */
static void take_in(double *c, double *covariance, const double *g, double r, double variance)
{
    double gain[NB], innovation = r, s = variance;

    for (int i = 0; i < NB; i++) {
        gain[i] = 0;
        for (int j = 0; j < NB; j++)
            gain[i] += covariance[i * NB + j] * g[j];
        innovation -= g[i] * c[i];
        s += g[i] * gain[i];
    }
    for (int i = 0; i < NB; i++)
        c[i] += gain[i] * innovation / s;
    for (int i = 0; i < NB; i++)
        for (int j = 0; j < NB; j++)
            covariance[i * NB + j] -= gain[i] * gain[j] / s;
}

static void check_posterior(hb_shape shape)
{
    hb_model *m = make_model(shape, HB_LEAST_SQUARES);
    hb_workspace *w = NULL;
    hb_fit *f = NULL;
    hb_points example;
    hb_arena arena = {0};
    hb_real found[NB * NX], *g = aligned_alloc(HB_ALIGNMENT, (NB + 1) * NX * HB_STRIDE * sizeof *g);
    int nproblems = hb_model_nproblems(m);
    double c[NX][NB], covariance[NX][NB * NB];

    hb_points_lay_out(&example, NX, NU, EXAMPLES, 1, &arena);
    assert_int_equal(hb_arena_allocate(&arena, NULL), 0);
    hb_points_lay_out(&example, NX, NU, EXAMPLES, 1, &arena);
    fill_points(&example);
    assert_int_equal(hb_workspace_new(&w, m, false, NULL), 0);
    assert_int_equal(hb_fit_new(&f, m, EXAMPLES, 0, false, NULL), 0);
    assert_int_equal(hb_fit_use_prior(f, NULL), 0);
    assert_int_equal(hb_fit_evaluate(f, w, &example), 0);
    assert_int_equal(hb_fit_coefficients(f, NB, found), 0);

    for (int p = 0; p < nproblems; p++) {
        for (int i = 0; i < NB; i++)
            c[p][i] = m->prior_mean[i * nproblems + p];
        memcpy(covariance[p], m->prior_covariance + p * NB * NB, sizeof covariance[p]);
    }
    for (int s = 0; s < EXAMPLES; s++) {
        int block = s / HB_STRIDE, lane = s % HB_STRIDE;
        hb_batch in = hb_points_batch(&example, block, 0);
        if (lane == 0)
            hb_basis_increments(m, w, &in, NULL, g);
        for (int k = 0; k < NX; k++) {
            double row[NB], r = (double)hb_points_states(&example, block, 1)[k * HB_STRIDE + lane] -
                                (double)in.z[k * HB_STRIDE + lane] - (double)g[(NB * NX + k) * HB_STRIDE + lane];
            for (int i = 0; i < NB; i++)
                row[i] = (double)g[(i * NX + k) * HB_STRIDE + lane];
            int p = nproblems > 1 ? k : 0;
            take_in(c[p], covariance[p], row, r, m->noise[k] * m->noise[k]);
        }
    }
    for (int p = 0; p < nproblems; p++)
        for (int i = 0; i < NB; i++)
            if (!(fabs((double)found[i * nproblems + p] - c[p][i]) < 1e-7))
                fail_msg("%s, problem %d: coefficient %d is %.12g, expected %.12g", hb_shape_name[shape], p, i,
                         (double)found[i * nproblems + p], c[p][i]);
    free(g);
    free(arena.base);
    hb_fit_free(f);
    hb_workspace_free(w);
    hb_model_free(m);
}

static void test_fits_are_posterior_means(void **state)
{
    (void)state;
    check_posterior(HB_VECTOR);
    check_posterior(HB_PER_STATE);
}

static void test_inner_products_have_no_prior(void **state)
{
    (void)state;
    hb_model *m = make_model(HB_VECTOR, HB_INNER_PRODUCT);
    hb_fit *f = NULL;

    assert_int_equal(hb_fit_new(&f, m, EXAMPLES, 0, false, NULL), 0);
    assert_int_equal(hb_fit_use_prior(f, NULL), -EINVAL);
    hb_fit_free(f);
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fits_are_posterior_means),
        cmocka_unit_test(test_inner_products_have_no_prior),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
