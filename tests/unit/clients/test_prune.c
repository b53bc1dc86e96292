/* Pruning: a rotated basis spans what it did, its Gram matrix on the data is the identity, and of functions that live
 * on two directions the first two components predict as well as all. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train/function_fit.h"
#include "fleet.h"
#include "train/prune.h"

enum { NX = FLEET_NX, NB = FLEET_NB, EXAMPLES = 300 };

/* fits a model to every function; mean over functions of the Gram matrix of system 0, and the mean squared error that
 * the fit leaves in one step of the linear model z + F + G c */
static double fit_all(const hb_model *m, const hb_dataset *d, double *gram)
{
    hb_function_fit *fitter = NULL;
    double error = 0;

    assert_int_equal(hb_function_fit_new(&fitter, m, d, EXAMPLES, hb_fit_refinements(m), NULL), 0);
    memset(gram, 0, (size_t)(m->nb * m->nb) * sizeof *gram);
    for (int k = 0; k < d->nfunctions; k++) {
        hb_real c[NB * NX];
        hb_fit *f = hb_function_fit_run(fitter, k, (hb_random_key){.seed = 0, .stream = (uint64_t)k}, 0);
        assert_non_null(f);
        assert_int_equal(hb_fit_coefficients(f, m->nb, c), 0);
        for (int i = 0; i < m->nb * m->nb; i++)
            gram[i] += f->last->gram[i] / d->nfunctions;
        for (int p = 0; p < EXAMPLES; p++)
            for (int i = 0; i < NX; i++) {
                int block = p / HB_STRIDE, lane = p % HB_STRIDE;
                const hb_real *g = f->last->g + (size_t)(block * (m->nb + 1) * NX + i) * HB_STRIDE + lane;
                double left = (double)f->last->r[(block * NX + i) * HB_STRIDE + lane];
                for (int b = 0; b < m->nb; b++)
                    left -= (double)c[m->shape == HB_PER_STATE ? b * NX + i : b] * (double)g[b * NX * HB_STRIDE];
                error += left * left / ((double)EXAMPLES * NX * d->nfunctions);
            }
    }
    hb_function_fit_free(fitter);
    return error;
}

static void check(hb_average average, hb_shape shape)
{
    hb_model *m = fleet_model(HB_SHARED, HB_COMBINED, average, shape, 0.01), *all = NULL, *two = NULL, *one = NULL;
    hb_dataset d = fleet_data(m);
    hb_rotation *r = NULL;
    double gram[NB * NB];
    double whole = fit_all(m, &d, gram);

    assert_int_equal(hb_rotation_new(&r, m, &d, NULL, 0, EXAMPLES, false, 0, NULL, NULL), 0);
    assert_int_equal(hb_prune(&all, m, r, NB, NULL), 0);
    assert_int_equal(hb_prune(&two, m, r, 2, NULL), 0);
    assert_int_equal(hb_prune(&one, m, r, 1, NULL), 0);
    assert_int_equal(two->nb, 2);
    assert_non_null(strstr(two->notes, "notes of old"));

    /* rotated, it explains the same, and is orthonormal on the data it was rotated with */
    assert_true(fabs(fit_all(all, &d, gram) - whole) <= 1e-3 * whole + 1e-12);
    for (int i = 0; i < NB; i++)
        for (int j = 0; j <= i; j++)
            assert_true(fabs(gram[i * NB + j] - (i == j)) < 2e-3);

    /* two directions hold what there is; one does not */
    double with_two = fit_all(two, &d, gram), with_one = fit_all(one, &d, gram);
    assert_true(hb_rotation_share(r, 2) > 0.995 && hb_rotation_share(r, 1) < 0.98);
    assert_true(hb_rotation_share(r, NB) == 1);
    if (!(with_two < 3 * whole + 1e-6) || !(with_one > 10 * with_two))
        fail_msg("errors %g, %g, %g of all, two and one", whole, with_two, with_one);

    hb_rotation_free(r);
    hb_model_free(one);
    hb_model_free(two);
    hb_model_free(all);
    fleet_data_free(&d);
    hb_model_free(m);
}

static void test_vector(void **state)
{
    (void)state;
    check(HB_AVERAGE_HEAD, HB_VECTOR);
}

static void test_per_state(void **state)
{
    (void)state;
    check(HB_AVERAGE_NETWORK, HB_PER_STATE);
}

static void test_no_average(void **state)
{
    (void)state;
    check(HB_AVERAGE_NONE, HB_VECTOR);
}

/* coefficients of all states together: what lives on two directions of them needs two for all states */
static void test_joint(void **state)
{
    (void)state;
    hb_model *m = fleet_model(HB_SHARED, HB_DIRECT, HB_AVERAGE_HEAD, HB_PER_STATE, 0.01), *two = NULL, *one = NULL;
    hb_dataset d = fleet_data(m);
    hb_rotation *r = NULL;
    hb_error err = {0};
    double gram[NB * NB], whole = fit_all(m, &d, gram);

    assert_int_equal(hb_rotation_new(&r, m, &d, NULL, 0, EXAMPLES, true, 0, NULL, NULL), 0);
    assert_int_equal(hb_rotation_size(r), NB * NX);
    assert_int_equal(hb_prune(&two, m, r, 2, NULL), 0);
    assert_int_equal(hb_prune(&one, m, r, 1, NULL), 0);
    assert_int_equal(two->nb, 2);
    assert_int_equal(two->shape, HB_VECTOR);
    double with_two = fit_all(two, &d, gram);
    assert_true(fabs(gram[0] - 1) < 2e-3 && fabs(gram[3] - 1) < 2e-3 && fabs(gram[2]) < 2e-3);
    double with_one = fit_all(one, &d, gram);
    assert_true(hb_rotation_share(r, 2) > 0.995 && hb_rotation_share(r, 1) < 0.98);
    if (!(with_two < 3 * whole + 1e-6) || !(with_one > 10 * with_two))
        fail_msg("errors %g, %g, %g of all, two and one", whole, with_two, with_one);
    assert_int_equal(hb_prune(&one, m, r, NB * NX + 1, &err), -EINVAL);
    hb_rotation_free(r);

    /* of some functions only */
    const int some[] = {1, 3, 4, 7};
    assert_int_equal(hb_rotation_new(&r, m, &d, some, 4, EXAMPLES, true, 0, NULL, NULL), 0);
    assert_true(hb_rotation_share(r, 2) > 0.995);
    hb_rotation_free(r);
    hb_model_free(one);
    hb_model_free(two);
    fleet_data_free(&d);
    hb_model_free(m);
}

/* without rotation the first networks and the average's are copied as they are */
static void test_keep_order(void **state)
{
    (void)state;
    hb_model *m = fleet_model(HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_VECTOR, 0.01), *cut = NULL;
    hb_error err = {0};
    size_t width = 7, trunk = m->nparameters - (NB + 1) * NX * (width + 1);
    const hb_real *weight = m->parameter + trunk, *bias = weight + (NB + 1) * NX * width;

    assert_int_equal(hb_prune(&cut, m, NULL, 2, &err), 0);
    const hb_real *cut_weight = cut->parameter + trunk, *cut_bias = cut_weight + 3 * NX * width;
    assert_memory_equal(cut->parameter, m->parameter, (trunk + 2 * NX * width) * sizeof(hb_real));
    assert_memory_equal(cut_weight + 2 * NX * width, weight + NB * NX * width, NX * width * sizeof(hb_real));
    assert_memory_equal(cut_bias, bias, 2 * NX * sizeof(hb_real));
    assert_memory_equal(cut_bias + 2 * NX, bias + NB * NX, NX * sizeof(hb_real));
    hb_model_free(cut);
    assert_int_equal(hb_prune(&cut, m, NULL, NB + 1, &err), -EINVAL);
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector), cmocka_unit_test(test_per_state),  cmocka_unit_test(test_no_average),
        cmocka_unit_test(test_joint),  cmocka_unit_test(test_keep_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
