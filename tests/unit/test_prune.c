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

#include "fitter.h"
#include "predictor.h"
#include "prune.h"

enum { NX = 3, NU = 1, NB = 5, FUNCTIONS = 12, STEPS = 400, EXAMPLES = 300 };

static double normal(uint64_t stream, uint64_t index)
{
    return hb_random_normal((hb_random_key){.seed = 11, .stream = stream}, index);
}

static hb_model *make_model(hb_average average, hb_shape shape)
{
    hb_model *m = NULL, of = {.nx = NX,
                              .nu = NU,
                              .nb = NB,
                              .architecture = HB_SHARED,
                              .activation = HB_TANH,
                              .average = average,
                              .integration = HB_COMBINED,
                              .substeps = 1,
                              .method = HB_LEAST_SQUARES,
                              .shape = shape,
                              .ridge = 1e-9,
                              .volume = 1,
                              .dt = 0.01,
                              .basis = {.nlayers = 3, .width = {0, 8, 7}},
                              .average_network = {.nlayers = 2, .width = {0, 6}}};
    assert_int_equal(hb_model_new(&m, &of, "notes of old", NULL), 0);
    for (size_t i = 0; i < m->nparameters; i++)
        m->parameter[i] = (hb_real)(0.7 * normal(1, i));
    hb_model_seal(m);
    return m;
}

/* coefficients of a function: on two directions of the five */
static void make_coefficients(const hb_model *m, int function, hb_real *c)
{
    int nc = hb_model_ncoefficients(m);
    for (int i = 0; i < nc; i++)
        c[i] = (hb_real)(0.5 * (normal(2, (uint64_t)(2 * function)) * normal(3, (uint64_t)i) +
                                normal(2, (uint64_t)(2 * function + 1)) * normal(4, (uint64_t)i)));
}

/* transitions that the model itself makes from random states, one step an episode's worth of independent pairs */
static hb_dataset make_data(const hb_model *m)
{
    hb_dataset d = {
        .header = {.nx = NX, .nu = NU, .dt = m->dt}, .nfunctions = FUNCTIONS, .nepisodes = FUNCTIONS * STEPS};
    double *x = calloc((size_t)FUNCTIONS * STEPS * 2 * NX, sizeof *x),
           *u = calloc((size_t)FUNCTIONS * STEPS * NU, sizeof *u);
    hb_predictor *p = NULL;
    hb_workspace *w = NULL;

    d.header.state_name = m->state_name;
    d.header.control_name = m->control_name;
    d.function = calloc(FUNCTIONS, sizeof *d.function);
    d.episode = calloc((size_t)FUNCTIONS * STEPS, sizeof *d.episode);
    assert_int_equal(hb_predictor_new(&p, m, NULL), 0);
    assert_int_equal(hb_workspace_new(&w, m, false, NULL), 0);
    for (int f = 0; f < FUNCTIONS; f++) {
        hb_real c[NB * NX];
        make_coefficients(m, f, c);
        hb_predictor_set(p, c);
        d.function[f] = (hb_function){.id = f, .episode = f * STEPS, .nepisodes = STEPS, .ntransitions = STEPS};
        for (int s = 0; s < STEPS; s++) {
            size_t e = (size_t)(f * STEPS + s);
            hb_real z[NX * HB_STRIDE] = {0}, v[NU * HB_STRIDE] = {0}, dt[HB_STRIDE] = {(hb_real)m->dt};
            hb_batch in = {.n = 1, .z = z, .u = v, .dt = dt};
            for (int i = 0; i < NX; i++)
                z[i * HB_STRIDE] = (hb_real)(x[e * 2 * NX + (size_t)i] = (double)(hb_real)normal(5, e * 8 + (size_t)i));
            v[0] = (hb_real)(u[e] = (double)(hb_real)normal(5, e * 8 + 7));
            hb_predictor_step(p, w, &in, z, NULL);
            for (int i = 0; i < NX; i++)
                x[e * 2 * NX + NX + (size_t)i] = (double)z[i * HB_STRIDE];
            d.episode[e] = (hb_episode){
                .id = (int)e, .function = f, .nsteps = 1, .x = x + e * 2 * NX, .u = u + e, .first = (size_t)s};
        }
    }
    hb_workspace_free(w);
    hb_predictor_free(p);
    return d;
}

static void free_data(hb_dataset *d)
{
    free((double *)d->episode[0].x);
    free((double *)d->episode[0].u);
    free(d->function);
    free(d->episode);
}

/* fits a model to every function; mean over functions of the Gram matrix of system 0, and the mean squared error that
 * the fit leaves in one step of the linear model z + F + G c */
static double fit_all(const hb_model *m, const hb_dataset *d, double *gram)
{
    hb_fitter *fitter = NULL;
    double error = 0;

    assert_int_equal(hb_fitter_new(&fitter, m, d, EXAMPLES, hb_fit_refinements(m), NULL), 0);
    memset(gram, 0, (size_t)(m->nb * m->nb) * sizeof *gram);
    for (int k = 0; k < d->nfunctions; k++) {
        hb_real c[NB * NX];
        hb_fit *f = hb_fitter_run(fitter, k, (hb_random_key){.seed = 0, .stream = (uint64_t)k}, 0);
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
    hb_fitter_free(fitter);
    return error;
}

static void check(hb_average average, hb_shape shape)
{
    hb_model *m = make_model(average, shape), *all = NULL, *two = NULL, *one = NULL;
    hb_dataset d = make_data(m);
    hb_rotation *r = NULL;
    double gram[NB * NB];
    double whole = fit_all(m, &d, gram);

    assert_int_equal(hb_rotation_new(&r, m, &d, EXAMPLES, 0, NULL), 0);
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
    free_data(&d);
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

/* without rotation the first networks and the average's are copied as they are */
static void test_keep_order(void **state)
{
    (void)state;
    hb_model *m = make_model(HB_AVERAGE_HEAD, HB_VECTOR), *cut = NULL;
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
        cmocka_unit_test(test_vector),
        cmocka_unit_test(test_per_state),
        cmocka_unit_test(test_no_average),
        cmocka_unit_test(test_keep_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
