/* Coefficients of a vehicle that the model itself makes: long steps, so that it matters along what the stage points
 * lie. A fit along the average is off; refined, it comes to the truth. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "train/function_fit.h"
#include "fleet.h"

enum { EXAMPLES = 250, VEHICLE = 3 };

/* how far off the truth coefficients are after so many refinements */
static double distance(const hb_model *m, const hb_dataset *d, int refinements)
{
    hb_function_fit *fitter = NULL;
    hb_real c[FLEET_NB], truth[FLEET_NB];
    double sum = 0;

    assert_int_equal(hb_function_fit_new(&fitter, m, d, EXAMPLES, refinements, NULL), 0);
    hb_fit *f = hb_function_fit_run(fitter, VEHICLE, (hb_random_key){.seed = 1}, 0);
    assert_non_null(f);
    assert_int_equal(hb_fit_coefficients(f, FLEET_NB, c), 0);
    hb_function_fit_free(fitter);
    fleet_coefficients(m, VEHICLE, truth);
    for (int i = 0; i < FLEET_NB; i++)
        sum += pow((double)c[i] - (double)truth[i], 2);
    return sqrt(sum);
}

static void test_refined_coefficients_come_to_the_truth(void **state)
{
    (void)state;
    hb_model *m = fleet_model(HB_SHARED, HB_COMBINED, HB_AVERAGE_NETWORK, HB_VECTOR, 0.4);
    hb_dataset d = fleet_data(m);
    double plain = distance(m, &d, 0), once = distance(m, &d, 1), often = distance(m, &d, HB_MAX_REFINEMENTS);

    print_message("off by %.2e, %.2e after a refinement, %.2e after %d\n", plain, once, often, HB_MAX_REFINEMENTS);
    assert_true(plain > 1e-2);
    assert_true(once < 0.5 * plain);
    assert_true(often < 1e-4);
    assert_true(hb_fit_refinements(m) > 0 && hb_fit_refines(m));
    fleet_data_free(&d);
    hb_model_free(m);
}

/* functions that are integrated each for itself have nothing to refine */
static void test_separate_functions_are_exact_at_once(void **state)
{
    (void)state;
    hb_model *m = fleet_model(HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NETWORK, HB_VECTOR, 0.4);
    hb_dataset d = fleet_data(m);

    assert_true(distance(m, &d, 0) < 1e-4);
    assert_int_equal(hb_fit_refinements(m), 0);
    assert_false(hb_fit_refines(m));
    fleet_data_free(&d);
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refined_coefficients_come_to_the_truth),
        cmocka_unit_test(test_separate_functions_are_exact_at_once),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
