/* Coefficients of a vehicle that the model itself makes: long steps, so that it matters along what the stage points
 * lie. A fit along the average is off; refined, it comes to the truth. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fit.h"
#include "numeric.h"
#include "predictor.h"

enum { NX = 3, NU = 1, NB = 4, EXAMPLES = 250 };

static double normal(uint64_t stream, uint64_t index)
{
    return hb_random_normal((hb_random_key){.seed = 21, .stream = stream}, index);
}

static hb_model *make_model(hb_architecture architecture, hb_integration integration)
{
    hb_model *m = NULL, of = {.nx = NX,
                              .nu = NU,
                              .nb = NB,
                              .architecture = architecture,
                              .activation = HB_TANH,
                              .average = HB_AVERAGE_NETWORK,
                              .integration = integration,
                              .substeps = 1,
                              .method = HB_LEAST_SQUARES,
                              .shape = HB_VECTOR,
                              .ridge = 1e-9,
                              .volume = 1,
                              .dt = 0.4,
                              .basis = {.nlayers = 3, .width = {0, 8, 7}},
                              .average_network = {.nlayers = 2, .width = {0, 6}}};
    hb_error err = {0};

    if (hb_model_new(&m, &of, "", &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < m->nparameters; i++)
        m->parameter[i] = (hb_real)(0.7 * normal(1, i));
    hb_model_seal(m);
    return m;
}

/* transitions that the model makes of random states with these coefficients */
static void make_points(const hb_model *m, const hb_real *truth, hb_points *points, hb_arena *arena)
{
    hb_predictor *p = NULL;
    hb_workspace *w = NULL;

    hb_points_lay_out(points, NX, NU, EXAMPLES, 1, arena);
    assert_int_equal(hb_arena_allocate(arena, NULL), 0);
    hb_points_lay_out(points, NX, NU, EXAMPLES, 1, arena);
    points->n = EXAMPLES;
    assert_int_equal(hb_predictor_new(&p, m, NULL), 0);
    assert_int_equal(hb_workspace_new(&w, m, false, NULL), 0);
    hb_predictor_set(p, truth);
    for (int block = 0; block < hb_points_nblocks(points); block++) {
        for (int i = 0; i < NX * HB_STRIDE; i++)
            hb_points_states(points, block, 0)[i] = (hb_real)normal(2, (uint64_t)(block * NX * HB_STRIDE + i));
        for (int i = 0; i < NU * HB_STRIDE; i++)
            hb_points_controls(points, block, 0)[i] = (hb_real)normal(3, (uint64_t)(block * NU * HB_STRIDE + i));
        for (int i = 0; i < HB_STRIDE; i++)
            hb_points_dt(points, block, 0)[i] = (hb_real)m->dt;
        hb_batch in = hb_points_batch(points, block, 0);
        hb_predictor_step(p, w, &in, hb_points_states(points, block, 1), NULL);
    }
    hb_workspace_free(w);
    hb_predictor_free(p);
}

static double distance(const hb_real *a, const hb_real *b)
{
    double sum = 0;
    for (int i = 0; i < NB; i++)
        sum += pow((double)a[i] - (double)b[i], 2);
    return sqrt(sum);
}

/* how far off the truth coefficients are after so many refinements */
static double fit(const hb_model *m, int refinements, const hb_real *truth)
{
    hb_fit *f = NULL;
    hb_workspace *w = NULL;
    hb_points points;
    hb_arena arena = {0};
    hb_real c[NB];

    make_points(m, truth, &points, &arena);
    assert_int_equal(hb_fit_new(&f, m, EXAMPLES, refinements, false, NULL), 0);
    assert_int_equal(hb_workspace_new(&w, m, false, NULL), 0);
    assert_int_equal(hb_fit_evaluate(f, w, &points), 0);
    assert_int_equal(hb_fit_coefficients(f, NB, c), 0);
    hb_workspace_free(w);
    hb_fit_free(f);
    free(arena.base);
    return distance(c, truth);
}

static const hb_real truth[NB] = {(hb_real)0.8, (hb_real)-0.5, (hb_real)0.3, (hb_real)0.6};

static void test_refined_coefficients_come_to_the_truth(void **state)
{
    (void)state;
    hb_model *m = make_model(HB_SHARED, HB_COMBINED);
    double plain = fit(m, 0, truth), once = fit(m, 1, truth), often = fit(m, HB_MAX_REFINEMENTS, truth);

    print_message("off by %.2e, %.2e after a refinement, %.2e after %d\n", plain, once, often, HB_MAX_REFINEMENTS);
    assert_true(plain > 1e-2);
    assert_true(once < 0.5 * plain);
    assert_true(often < 1e-4);
    assert_true(hb_fit_refinements(m) > 0 && hb_fit_refines(m));
    hb_model_free(m);
}

/* functions that are integrated each for itself have nothing to refine */
static void test_separate_functions_are_exact_at_once(void **state)
{
    (void)state;
    hb_model *m = make_model(HB_INDEPENDENT, HB_SEPARATE);

    assert_true(fit(m, 0, truth) < 1e-4);
    assert_int_equal(hb_fit_refinements(m), 0);
    assert_false(hb_fit_refines(m));
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
