/* Coefficients of a vehicle that the model itself makes: long steps, so that it matters along what the stage points
 * lie. A fit along the average is off; refined, it comes to the truth. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "data/sampler.h"
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

/* adds the gradient of the sum of all coefficients */
static void add_gradient(hb_fit *f, hb_workspace *w, const hb_points *example, hb_real *gradient)
{
    hb_real dc[FLEET_NB];

    for (int i = 0; i < FLEET_NB; i++)
        dc[i] = 1;
    assert_int_equal(hb_fit_evaluate(f, w, example), 0);
    hb_fit_adjoint(f, FLEET_NB, dc);
    hb_fit_gradient(f, w, example, NULL, gradient);
}

/* what is not recorded is evaluated again, and gives the same to the last bit */
static void test_blocks_without_a_record_have_the_same_gradient(void **state)
{
    (void)state;
    hb_model *m = fleet_model(HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NETWORK, HB_VECTOR, 0.4);
    hb_dataset d = fleet_data(m);
    hb_arena arena = {0};
    hb_points example;
    hb_sampler *sampler;
    hb_workspace *w;
    hb_fit *f;
    size_t size = m->nparameters * sizeof(hb_real), nonzero = 0;
    hb_real *all = calloc(1, size), *some = calloc(1, size);

    hb_points_lay_out(&example, m->nx, m->nu, EXAMPLES, 1, &arena);
    assert_int_equal(hb_arena_allocate(&arena, NULL), 0);
    hb_points_lay_out(&example, m->nx, m->nu, EXAMPLES, 1, &arena);
    assert_int_equal(hb_sampler_new(&sampler, &d, m, 1, NULL), 0);
    assert_int_equal(hb_workspace_new(&w, m, true, NULL), 0);
    assert_int_equal(hb_fit_new(&f, m, EXAMPLES, 0, true, NULL), 0);
    hb_sampler_draw(sampler, VEHICLE, 0, hb_sampler_count(sampler, VEHICLE), (hb_random_key){.seed = 1}, 0, &example);

    assert_int_equal(f->pass[0].nrecords, hb_points_nblocks(&example));
    add_gradient(f, w, &example, all);
    f->pass[0].nrecords = 1;
    add_gradient(f, w, &example, some);
    assert_memory_equal(all, some, size);
    for (size_t p = 0; p < m->nparameters; p++)
        nonzero += all[p] != 0;
    assert_true(nonzero > m->nparameters / 2);

    hb_fit_free(f);
    hb_workspace_free(w);
    hb_sampler_free(sampler);
    free(arena.base);
    free(all);
    free(some);
    fleet_data_free(&d);
    hb_model_free(m);
}

/* examples without end do not take memory without end */
static void test_records_are_bounded(void **state)
{
    (void)state;
    const int many = 2000 * HB_STRIDE;
    hb_model *m = fleet_model(HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NETWORK, HB_VECTOR, 0.4);
    hb_fit *f;

    assert_int_equal(hb_fit_new(&f, m, many, 0, true, NULL), 0);
    assert_true(f->pass[0].nrecords > 0 && f->pass[0].nrecords < 2000);
    hb_fit_free(f);
    assert_int_equal(hb_fit_new(&f, m, many, 0, false, NULL), 0);
    assert_int_equal(f->pass[0].nrecords, 0);
    hb_fit_free(f);
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refined_coefficients_come_to_the_truth),
        cmocka_unit_test(test_separate_functions_are_exact_at_once),
        cmocka_unit_test(test_blocks_without_a_record_have_the_same_gradient),
        cmocka_unit_test(test_records_are_bounded),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
