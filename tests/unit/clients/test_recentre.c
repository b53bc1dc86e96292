/* A centred model: the same vehicles, with coefficients that are zero in the mean; an average that is not part of a
 * shared head is left alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train/recentre.h"
#include "train/function_fit.h"
#include "fleet.h"

enum { EXAMPLES = 250, MAX_COEFFICIENTS = FLEET_NB * FLEET_NX, CENTRED = FLEET_FUNCTIONS - 2 };

static const int function[CENTRED] = {11, 1, 2, 3, 4, 5, 6, 7, 8, 9};

static void check(hb_integration integration, hb_shape shape)
{
    hb_model *m = fleet_model(HB_SHARED, integration, HB_AVERAGE_HEAD, shape, 0.05);
    hb_dataset d = fleet_data(m);
    hb_function_fit *fitter = NULL;
    hb_real c[MAX_COEFFICIENTS], truth[MAX_COEFFICIENTS];
    double mean[MAX_COEFFICIENTS] = {0}, moved = 0;
    int nc = hb_model_ncoefficients(m);

    for (int k = 0; k < CENTRED; k++) {
        fleet_coefficients(m, function[k], truth);
        for (int i = 0; i < nc; i++)
            mean[i] += (double)truth[i] / CENTRED;
    }
    assert_int_equal(hb_recentre(m, &d, function, CENTRED, EXAMPLES, 1, NULL, NULL), 0);

    assert_int_equal(hb_function_fit_new(&fitter, m, &d, EXAMPLES, HB_MAX_REFINEMENTS, NULL), 0);
    for (int k = 0; k < FLEET_FUNCTIONS; k++) {
        hb_fit *f = hb_function_fit_run(fitter, k, (hb_random_key){.seed = 2}, 0);
        assert_non_null(f);
        assert_int_equal(hb_fit_coefficients(f, FLEET_NB, c), 0);
        fleet_coefficients(m, k, truth);
        for (int i = 0; i < nc; i++) {
            double expected = (double)truth[i] - mean[i];
            if (!(fabs((double)c[i] - expected) < 1e-3))
                fail_msg("function %d: coefficient %d is %g, expected %g", k, i, (double)c[i], expected);
            moved = fmax(moved, fabs(mean[i]));
        }
    }
    assert_true(moved > 0.05);
    hb_function_fit_free(fitter);
    fleet_data_free(&d);
    hb_model_free(m);
}

static void test_vector(void **state)
{
    (void)state;
    check(HB_COMBINED, HB_VECTOR);
}

static void test_per_state(void **state)
{
    (void)state;
    check(HB_DIRECT, HB_PER_STATE);
}

static void test_other_averages_are_left_alone(void **state)
{
    (void)state;
    hb_model *m = fleet_model(HB_SHARED, HB_COMBINED, HB_AVERAGE_NETWORK, HB_VECTOR, 0.2);
    hb_dataset d = fleet_data(m);
    size_t size = m->nparameters * sizeof *m->parameter;
    hb_real *before = malloc(size);

    memcpy(before, m->parameter, size);
    assert_int_equal(hb_recentre(m, &d, function, CENTRED, EXAMPLES, 1, NULL, NULL), 0);
    assert_memory_equal(m->parameter, before, size);
    free(before);
    fleet_data_free(&d);
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector),
        cmocka_unit_test(test_per_state),
        cmocka_unit_test(test_other_averages_are_left_alone),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
