/* The prior of coefficients over functions: of a fleet whose coefficients are known, with and without noise. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/numeric.h"
#include "fleet.h"
#include "train/prediction_errors.h"
#include "train/function_fit.h"
#include "train/prior.h"

enum { NB = FLEET_NB, NX = FLEET_NX, FUNCTIONS = FLEET_FUNCTIONS };

static hb_pool *new_pool(int threads)
{
    hb_pool *pool = NULL;

    assert_int_equal(hb_pool_new(&pool, threads, NULL, NULL, NULL), 0);
    return pool;
}

static hb_model *with_prior(const hb_model *m, const hb_dataset *d, int examples, int threads)
{
    hb_model *copy = NULL;
    hb_pool *pool = new_pool(threads);
    hb_error err = {0};

    assert_int_equal(hb_model_copy(&copy, m, true, NULL, NULL), 0);
    if (hb_prior_estimate(copy, d, NULL, 0, examples, 1, pool, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(hb_model_check(copy, NULL), 0);
    hb_pool_free(pool);
    return copy;
}

/* adds noise to where transitions end */
static void add_noise(hb_dataset *d, const double *sigma)
{
    for (int e = 0; e < d->nepisodes; e++)
        for (int i = 0; i < NX; i++)
            ((double *)d->episode[e].x)[NX + i] +=
                sigma[i] * hb_random_normal((hb_random_key){.seed = 23}, (uint64_t)(e * NX + i));
}

/* Mean and covariance of the known coefficients, widened as prior.h says. */
static void check_prior(hb_shape shape)
{
    hb_model *m = fleet_model(HB_SHARED, HB_COMBINED, HB_AVERAGE_NETWORK, shape, 0.1);
    hb_dataset d = fleet_data(m);
    hb_model *p = with_prior(m, &d, 300, 2);
    int nsystems = hb_model_nproblems(m);
    double n = FUNCTIONS, wide = (n + 1) / (n - 1), kept = n / (n + NB + 1);
    hb_real c[FUNCTIONS][NB * NX];

    for (int f = 0; f < FUNCTIONS; f++)
        fleet_coefficients(m, f, c[f]);
    for (int s = 0; s < nsystems; s++)
        for (int i = 0; i < NB; i++)
            for (int j = 0; j < NB; j++) {
                double mi = 0, mj = 0, cov = 0;
                for (int f = 0; f < FUNCTIONS; f++) {
                    mi += (double)c[f][i * nsystems + s] / n;
                    mj += (double)c[f][j * nsystems + s] / n;
                }
                for (int f = 0; f < FUNCTIONS; f++)
                    cov += ((double)c[f][i * nsystems + s] - mi) * ((double)c[f][j * nsystems + s] - mj) / n;
                cov *= wide * (i == j ? 1 : kept);
                double found = p->prior_covariance[(s * NB + i) * NB + j];
                if (!(fabs(found - cov) < 2e-2))
                    fail_msg("system %d: covariance %d, %d is %g, expected %g", s, i, j, found, cov);
                if (!(fabs(p->prior_mean[i * nsystems + s] - mi) < 2e-2))
                    fail_msg("system %d: mean %d is %g, expected %g", s, i, p->prior_mean[i * nsystems + s], mi);
            }
    for (int k = 0; k < NX; k++)
        assert_true(p->noise[k] > 0 && p->noise[k] < 1e-3);
    fleet_data_free(&d);
    hb_model_free(p);
    hb_model_free(m);
}

static void test_prior_is_that_of_the_fleet(void **state)
{
    (void)state;
    check_prior(HB_VECTOR);
    check_prior(HB_PER_STATE);
}

/* Noise is found, and its effect on fits is not taken for a difference between functions: coefficients differ along
 * two directions of five, so three eigenvalues of the covariance are next to nothing, however noisy the fits. */
static void test_noise_is_not_spread(void **state)
{
    (void)state;
    const double sigma[NX] = {0.05, 0.2, 0.1};
    hb_model *m = fleet_model(HB_SHARED, HB_COMBINED, HB_AVERAGE_NETWORK, HB_VECTOR, 0.1);
    hb_dataset d = fleet_data(m);
    double value[NB], plain[NB * NB] = {0}, plain_value[NB], mean[NB] = {0};
    hb_real c[FUNCTIONS][NB];
    hb_function_fit *fitter = NULL;

    add_noise(&d, sigma);
    hb_model *p = with_prior(m, &d, 300, 1);
    for (int k = 0; k < NX; k++)
        assert_true(fabs(p->noise[k] / sigma[k] - 1) < 0.1);

    /* the spread of plain fits to the same number of examples */
    assert_int_equal(hb_function_fit_new(&fitter, m, &d, 300, 2, NULL), 0);
    for (int f = 0; f < FUNCTIONS; f++) {
        hb_fit *fit = hb_function_fit_run(fitter, f, (hb_random_key){.seed = 5}, (uint64_t)f << 32);
        assert_true(fit && hb_fit_coefficients(fit, NB, c[f]) == 0);
        for (int i = 0; i < NB; i++)
            mean[i] += (double)c[f][i] / FUNCTIONS;
    }
    for (int f = 0; f < FUNCTIONS; f++)
        for (int i = 0; i < NB * NB; i++)
            plain[i] += ((double)c[f][i / NB] - mean[i / NB]) * ((double)c[f][i % NB] - mean[i % NB]) / FUNCTIONS;
    hb_function_fit_free(fitter);

    /* undo the shrinkage, which brings all directions in on purpose */
    double n = FUNCTIONS, kept = n / (n + NB + 1), covariance[NB * NB];
    for (int i = 0; i < NB * NB; i++)
        covariance[i] = p->prior_covariance[i] / (i % (NB + 1) == 0 ? 1 : kept);
    assert_int_equal(hb_symmetric_eigen(NB, covariance, value, NULL), 0);
    assert_int_equal(hb_symmetric_eigen(NB, plain, plain_value, NULL), 0);
    print_message("eigenvalues %.2e %.2e %.2e %.2e %.2e, of plain fits %.2e %.2e %.2e %.2e %.2e\n", value[0], value[1],
                  value[2], value[3], value[4], plain_value[0], plain_value[1], plain_value[2], plain_value[3],
                  plain_value[4]);
    assert_true(plain_value[2] > 5e-3);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(value[i]) < 0.3 * plain_value[2]);
    hb_model_free(p);
    fleet_data_free(&d);
    hb_model_free(m);
}

static double median_error(const hb_model *m, const hb_dataset *d, int examples, bool prior)
{
    hb_prediction_settings s = {.examples = examples, .rollouts = 100, .steps = 1, .seed = 9, .prior = prior};
    hb_prediction_errors *e = NULL;
    hb_pool *pool = new_pool(2);
    double error[FUNCTIONS];

    assert_int_equal(hb_prediction_errors_new(&e, m, d, NULL, 0, &s, pool, NULL), 0);
    hb_prediction_errors_run(e, true, error, NULL);
    double median = hb_prediction_errors_quantile(e, error, 1, 0.5);
    hb_prediction_errors_free(e);
    hb_pool_free(pool);
    return median;
}

static void test_few_examples_are_enough_with_a_prior(void **state)
{
    (void)state;
    const double sigma[NX] = {0.05, 0.2, 0.1};
    hb_model *m = fleet_model(HB_SHARED, HB_COMBINED, HB_AVERAGE_NETWORK, HB_VECTOR, 0.1);
    hb_dataset d = fleet_data(m);

    add_noise(&d, sigma);
    hb_model *p = with_prior(m, &d, 300, 1);
    const int counts[] = {3, 10, 50};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        double plain = median_error(p, &d, counts[i], false), bayes = median_error(p, &d, counts[i], true);
        print_message("%d examples: %.3e, with the prior %.3e\n", counts[i], plain, bayes);
        assert_true(bayes < plain);
    }
    hb_model_free(p);
    fleet_data_free(&d);
    hb_model_free(m);
}

static void test_threads_do_not_matter(void **state)
{
    (void)state;
    hb_model *m = fleet_model(HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_PER_STATE, 0.1);
    hb_dataset d = fleet_data(m);
    hb_model *one = with_prior(m, &d, 50, 1), *three = with_prior(m, &d, 50, 3);

    assert_int_equal(one->hash, three->hash);
    assert_int_not_equal(one->hash, m->hash);
    hb_model_free(one);
    hb_model_free(three);
    fleet_data_free(&d);
    hb_model_free(m);
}

static void test_what_cannot_have_a_prior_is_refused(void **state)
{
    (void)state;
    hb_model *m = fleet_model(HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_VECTOR, 0.1), *copy = NULL;
    hb_dataset d = fleet_data(m);
    hb_pool *pool = new_pool(1);
    const int one[] = {4};

    assert_int_equal(hb_prior_estimate(m, &d, NULL, 0, 50, 1, pool, NULL, NULL), -EINVAL);
    assert_int_equal(hb_model_copy(&copy, m, true, NULL, NULL), 0);
    assert_int_equal(hb_prior_estimate(copy, &d, one, 1, 50, 1, pool, NULL, NULL), -EINVAL);
    assert_true(hb_prior_applies(m));
    m->method = HB_INNER_PRODUCT;
    assert_false(hb_prior_applies(m));
    hb_model_free(copy);
    hb_pool_free(pool);
    fleet_data_free(&d);
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prior_is_that_of_the_fleet),           cmocka_unit_test(test_noise_is_not_spread),
        cmocka_unit_test(test_few_examples_are_enough_with_a_prior), cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_what_cannot_have_a_prior_is_refused),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
