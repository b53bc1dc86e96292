/* The loss of one function: its gradient against finite differences, in double, for every kind of model and every
 * option; and its value against an independent computation (data/loss_reference.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train/loss.h"
#include "base/numeric.h"

enum { EXAMPLES = HB_STRIDE + 5, QUERIES = 9, MAX_STEPS = 3, MAX_STATES = 16 };

/* what is not named is: 3 states, 2 controls, 4 basis functions, one sub-step, all inputs */
typedef struct variant {
    const char *name;
    hb_architecture architecture;
    hb_integration integration;
    hb_average average;
    hb_activation activation;
    hb_method method;
    hb_shape shape;
    int rollout, prefix, refinements;
    int substeps;
    bool no_basis, quadrotor, freeze, prior;
} variant;

static const double weights[MAX_STATES] = {1, 0.3, 2, 0.7, 1.1, 0.9, 1.3, 0.2, 0.6, 1.7, 0.5, 1.9, 0.8};

static const variant variants[] = {
    {"shared, head", HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_SILU, HB_LEAST_SQUARES, HB_VECTOR, .rollout = 1,
     .prefix = 0},
    {"shared, head, prefix", HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_SILU, HB_LEAST_SQUARES, HB_VECTOR,
     .rollout = 3, .prefix = 2},
    {"shared, head, per state", HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_SILU, HB_LEAST_SQUARES, HB_PER_STATE,
     .rollout = 2, .prefix = 3},
    {"shared, head, inner", HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_TANH, HB_INNER_PRODUCT, HB_VECTOR, .rollout = 2,
     .prefix = 0},
    {"shared, head, direct", HB_SHARED, HB_DIRECT, HB_AVERAGE_HEAD, HB_SILU, HB_LEAST_SQUARES, HB_VECTOR, .rollout = 2,
     .prefix = 1},
    {"shared, head, sub-steps", HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_SILU, HB_LEAST_SQUARES, HB_VECTOR,
     .rollout = 2, .prefix = 0, .substeps = 2},
    {"shared, head, relu", HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_RELU, HB_LEAST_SQUARES, HB_VECTOR, .rollout = 2,
     .prefix = 0},
    {"shared, network", HB_SHARED, HB_COMBINED, HB_AVERAGE_NETWORK, HB_SILU, HB_LEAST_SQUARES, HB_VECTOR, .rollout = 2,
     .prefix = 0},
    {"shared, given network", HB_SHARED, HB_COMBINED, HB_AVERAGE_NETWORK, HB_SILU, HB_LEAST_SQUARES, HB_VECTOR,
     .rollout = 2, .prefix = 0, .freeze = true},
    {"shared, none", HB_SHARED, HB_COMBINED, HB_AVERAGE_NONE, HB_TANH, HB_LEAST_SQUARES, HB_VECTOR, .rollout = 2,
     .prefix = 2},
    {"shared, nominal, masked", HB_SHARED, HB_COMBINED, HB_AVERAGE_NOMINAL, HB_SILU, HB_LEAST_SQUARES, HB_VECTOR,
     .rollout = 2, .prefix = 0, .quadrotor = true},
    {"shared, head, refined", HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_SILU, HB_LEAST_SQUARES, HB_VECTOR,
     .rollout = 2, .prefix = 2, .refinements = 1},
    {"shared, head, per state, refined", HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_TANH, HB_LEAST_SQUARES,
     HB_PER_STATE, .rollout = 1, .refinements = 2, .substeps = 2},
    {"shared, head, inner, refined", HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_TANH, HB_INNER_PRODUCT, HB_VECTOR,
     .rollout = 1, .refinements = 1},
    {"shared, network, refined", HB_SHARED, HB_COMBINED, HB_AVERAGE_NETWORK, HB_SILU, HB_LEAST_SQUARES, HB_VECTOR,
     .rollout = 1, .refinements = 2},
    {"shared, none, refined", HB_SHARED, HB_COMBINED, HB_AVERAGE_NONE, HB_TANH, HB_LEAST_SQUARES, HB_VECTOR,
     .rollout = 1, .refinements = 1},
    {"shared, nominal, masked, refined", HB_SHARED, HB_COMBINED, HB_AVERAGE_NOMINAL, HB_SILU, HB_LEAST_SQUARES,
     HB_VECTOR, .rollout = 2, .refinements = 1, .quadrotor = true},
    {"shared, head, prior, refined", HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_SILU, HB_LEAST_SQUARES, HB_VECTOR,
     .rollout = 2, .prefix = 2, .refinements = 1, .prior = true},
    {"shared, head, prior, per state, refined", HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_TANH, HB_LEAST_SQUARES,
     HB_PER_STATE, .rollout = 1, .prefix = 3, .refinements = 1, .prior = true},
    {"FE + NODE + Res, prior", HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NETWORK, HB_TANH, HB_LEAST_SQUARES, HB_VECTOR,
     .rollout = 2, .prior = true},
    {"FE + NODE, per state, inner", HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NONE, HB_TANH, HB_INNER_PRODUCT,
     HB_PER_STATE, .rollout = 1, .prefix = 0},
    {"FE + NODE, vector", HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NONE, HB_RELU, HB_LEAST_SQUARES, HB_VECTOR,
     .rollout = 2, .prefix = 0},
    {"FE + NODE + Res, vector", HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NETWORK, HB_TANH, HB_LEAST_SQUARES, HB_VECTOR,
     .rollout = 2, .prefix = 2},
    {"FE + NODE + Res, inner", HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NETWORK, HB_SILU, HB_INNER_PRODUCT, HB_PER_STATE,
     .rollout = 1, .prefix = 3},
    {"FE + NODE + Res, relu", HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NETWORK, HB_RELU, HB_LEAST_SQUARES, HB_PER_STATE,
     .rollout = 1, .prefix = 0},
    {"FE + NODE + Res, combined", HB_INDEPENDENT, HB_COMBINED, HB_AVERAGE_NETWORK, HB_TANH, HB_LEAST_SQUARES, HB_VECTOR,
     .rollout = 2, .prefix = 0},
    {"FE + Res", HB_INDEPENDENT, HB_DIRECT, HB_AVERAGE_NETWORK, HB_TANH, HB_LEAST_SQUARES, HB_VECTOR, .rollout = 2,
     .prefix = 0},
    {"NODE", HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NETWORK, HB_SILU, HB_LEAST_SQUARES, HB_VECTOR, .rollout = 3,
     .prefix = 0, .no_basis = true},
    {"NODE, relu", HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NETWORK, HB_RELU, HB_LEAST_SQUARES, HB_VECTOR, .rollout = 1,
     .prefix = 0, .no_basis = true},
};

enum { NVARIANTS = sizeof variants / sizeof *variants };

static double normal(uint64_t stream, uint64_t index)
{
    return hb_random_normal((hb_random_key){.seed = 5, .stream = stream}, index);
}

/* strong enough to matter beside so many examples: noise about 1 */
static void fill_prior(hb_model *m)
{
    for (int i = 0; i < hb_model_ncoefficients(m); i++)
        m->prior_mean[i] = normal(7, (uint64_t)i);
    for (int i = 0; i < m->nx; i++)
        m->noise[i] = 0.5 + 0.5 * i;
    for (int p = 0; p < hb_model_nproblems(m); p++)
        for (int i = 0; i < m->nb * m->nb; i++)
            m->prior_covariance[p * m->nb * m->nb + i] = (i % (m->nb + 1) == 0 ? 0.2 : 0.05) * (1 + p);
}

static hb_model *make_model(const variant *v)
{
    static int unmasked[] = {1, 3, 5, 6, 7, 8, 9, 10, 11, 12};
    hb_model *m = NULL, shape = {.nx = v->quadrotor ? 13 : 3,
                                 .nu = v->quadrotor ? 4 : 2,
                                 .nb = v->no_basis ? 0 : 4,
                                 .architecture = v->architecture,
                                 .integration = v->integration,
                                 .average = v->average,
                                 .activation = v->activation,
                                 .method = v->method,
                                 .shape = v->shape,
                                 .has_prior = v->prior,
                                 .substeps = v->substeps ? v->substeps : 1,
                                 .ridge = 0.01,
                                 .volume = 2,
                                 .dt = 0.1,
                                 .basis = {.nlayers = 3, .width = {0, 5, 4}},
                                 .average_network = {.nlayers = 3, .width = {0, 4, 3}}};
    hb_error err = {0};

    if (v->quadrotor) {
        shape.nominal = hb_nominal_find("quadrotor");
        assert_non_null(shape.nominal);
        memcpy(shape.nominal_parameter, shape.nominal->parameter_default, sizeof shape.nominal_parameter);
        shape.input = unmasked;
        shape.ninputs = sizeof unmasked / sizeof *unmasked;
    }
    if (hb_model_new(&m, &shape, NULL, &err))
        fail_msg("%s: %s", v->name, err.text);
    for (size_t i = 0; i < m->nparameters; i++)
        m->parameter[i] = (hb_real)(0.8 * normal(1, i));
    if (v->prior)
        fill_prior(m);
    if (v->quadrotor) {
        m->state_mean[9] = 1;
        m->state_std[9] = 0.1;
        for (int i = 0; i < m->nu; i++) {
            m->control_mean[i] = 0.07;
            m->control_std[i] = 0.02;
        }
    }
    return m;
}

/* random states, small increments, irregular steps */
static void fill_points(hb_points *p, uint64_t stream, bool quadrotor)
{
    for (int s = 0; s < hb_points_nblocks(p) * HB_STRIDE; s++)
        for (int k = 0; k <= p->nsteps; k++) {
            int block = s / HB_STRIDE, lane = s % HB_STRIDE;
            for (int i = 0; i < p->nx; i++) {
                hb_real *z = hb_points_states(p, block, k) + i * HB_STRIDE + lane;
                uint64_t at = (uint64_t)((s * 4 + k) * 64 + i);
                *z = k == 0 ? (hb_real)((quadrotor ? 0.3 : 1) * normal(stream, at))
                            : z[-(ptrdiff_t)p->nx * HB_STRIDE] + (hb_real)(0.2 * normal(stream, at));
            }
            if (k == p->nsteps)
                continue;
            for (int i = 0; i < p->nu; i++)
                hb_points_controls(p, block, k)[i * HB_STRIDE + lane] =
                    (hb_real)normal(stream, (uint64_t)((s * 4 + k) * 64 + 32 + i));
            hb_points_dt(p, block, k)[lane] = (hb_real)(0.1 + 0.05 * (s % 3));
        }
}

/* true for the average's own parameters: they learn from the average's loss alone */
static bool of_average(const hb_model *m, size_t i)
{
    if (m->average == HB_AVERAGE_NETWORK)
        return i >= m->nparameters - m->average_network.nparameters;
    if (m->average != HB_AVERAGE_HEAD)
        return false;
    size_t width = (size_t)m->basis.width[m->basis.nlayers - 1], rows = (size_t)m->basis.width[m->basis.nlayers];
    size_t nx = (size_t)m->nx, head = m->nparameters - rows * (width + 1);
    return (i >= head + (rows - nx) * width && i < head + rows * width) || i >= m->nparameters - nx;
}

/* the part of the loss that a parameter learns from; share: that of the average which a trunk takes */
static double part(const hb_model *m, size_t i, double share, const hb_loss_terms *t)
{
    double others = t->query + t->matryoshka + t->regulariser;
    return of_average(m, i) ? t->average + (m->nb ? 0 : others) : others + share * t->average;
}

static void check_gradient(const variant *v)
{
    hb_model *m = make_model(v);
    hb_loss *l = NULL;
    hb_loss_settings settings = {.regulariser = 0.7,
                                 .matryoshka = 0.4,
                                 .weight = weights,
                                 .freeze_average = v->freeze,
                                 .prior = v->prior,
                                 .refinements = v->refinements};
    hb_points example, query;
    hb_arena arena = {0};
    hb_error err = {0};
    hb_loss_terms t = {0}, plus = {0}, minus = {0};
    const double scale = 0.5, h = v->activation == HB_RELU ? 1e-7 : 1e-5;
    double worst = 0, largest = 0;

    for (int round = 0; round < 2; round++) {
        hb_points_lay_out(&example, m->nx, m->nu, EXAMPLES, 1, &arena);
        hb_points_lay_out(&query, m->nx, m->nu, QUERIES, v->rollout, &arena);
        if (round == 0)
            assert_int_equal(hb_arena_allocate(&arena, &err), 0);
    }
    fill_points(&example, 2, v->quadrotor);
    fill_points(&query, 3, v->quadrotor);
    hb_real *gradient = calloc(m->nparameters, sizeof *gradient);

    assert_int_equal(hb_loss_new(&l, m, &settings, EXAMPLES, v->rollout, &err), 0);
    assert_int_equal(hb_loss_evaluate(l, &example, &query, v->prefix, scale, gradient, &t), 0);
    assert_true(t.query > 0);
    assert_true((t.matryoshka > 0) == (v->prefix > 0));
    assert_true((t.regulariser > 0) == (m->nb > 0 && m->method == HB_LEAST_SQUARES));

    double share = t.average > 0 ? pow(fmin(1, t.query / t.average), 2) : 0;
    for (size_t i = 0; i < m->nparameters; i += v->quadrotor ? 5 : 1) {
        hb_real kept = m->parameter[i];
        m->parameter[i] = (hb_real)((double)kept + h);
        assert_int_equal(hb_loss_evaluate(l, &example, &query, v->prefix, scale, NULL, &plus), 0);
        m->parameter[i] = (hb_real)((double)kept - h);
        assert_int_equal(hb_loss_evaluate(l, &example, &query, v->prefix, scale, NULL, &minus), 0);
        m->parameter[i] = kept;
        double numeric = v->freeze && of_average(m, i)
                             ? 0
                             : scale * (part(m, i, share, &plus) - part(m, i, share, &minus)) / (2 * h);
        worst = fmax(worst, fabs(numeric - (double)gradient[i]));
        largest = fmax(largest, fabs(numeric));
    }
    if (!(worst <= 2e-7 * largest))
        fail_msg("%s: gradient is off by %g where the largest is %g", v->name, worst, largest);

    hb_loss_free(l);
    hb_model_free(m);
    free(arena.base);
    free(gradient);
}

static void test_gradient(void **state)
{
    (void)state;
    for (int i = 0; i < NVARIANTS; i++)
        check_gradient(&variants[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradient)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
