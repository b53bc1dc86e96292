#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "golden.h"
#include "model.h"
#include "numeric.h"

static char folder[] = "/tmp/test_model-XXXXXX";
static char path[sizeof folder + 32];

/* Every number differs from every other, so that a swap shows. */
static void fill(hb_model *m)
{
    const hb_random_key key = {.seed = 1};

    for (int i = 0; i < m->nx; i++) {
        snprintf(m->state_unit[i], HB_NAME_SIZE, "m/s^%d", i);
        m->state_mean[i] = hb_random_normal(key, 1000 + (uint64_t)i);
        m->state_std[i] = 0.1 + hb_random_uniform(key, 2000 + (uint64_t)i);
    }
    for (int i = 0; i < m->nu; i++) {
        snprintf(m->control_unit[i], HB_NAME_SIZE, "N");
        m->control_mean[i] = hb_random_normal(key, 3000 + (uint64_t)i);
        m->control_std[i] = 0.1 + hb_random_uniform(key, 4000 + (uint64_t)i);
        m->control_min[i] = -1 - hb_random_uniform(key, 5000 + (uint64_t)i);
        m->control_max[i] = 1 + hb_random_uniform(key, 6000 + (uint64_t)i);
        m->control_trim[i] = hb_random_uniform(key, 7000 + (uint64_t)i);
    }
    for (size_t i = 0; i < m->nparameters; i++)
        m->parameter[i] = (hb_real)hb_random_normal(key, 10000 + i);
    hb_model_seal(m);
}

static void assert_models_equal(const hb_model *a, const hb_model *b)
{
    size_t nx = (size_t)a->nx, nu = (size_t)a->nu;

    assert_int_equal(a->nx, b->nx);
    assert_int_equal(a->nu, b->nu);
    assert_int_equal(a->nb, b->nb);
    assert_int_equal(a->architecture, b->architecture);
    assert_int_equal(a->activation, b->activation);
    assert_int_equal(a->average, b->average);
    assert_int_equal(a->integration, b->integration);
    assert_int_equal(a->substeps, b->substeps);
    assert_int_equal(a->method, b->method);
    assert_int_equal(a->shape, b->shape);
    assert_memory_equal(&a->ridge, &b->ridge, sizeof a->ridge);
    assert_memory_equal(&a->volume, &b->volume, sizeof a->volume);
    assert_memory_equal(&a->dt, &b->dt, sizeof a->dt);
    assert_int_equal(a->ninputs, b->ninputs);
    assert_memory_equal(a->input, b->input, (size_t)a->ninputs * sizeof *a->input);
    assert_memory_equal(&a->basis, &b->basis, sizeof a->basis);
    assert_memory_equal(&a->average_network, &b->average_network, sizeof a->average_network);
    assert_ptr_equal(a->nominal, b->nominal);
    assert_memory_equal(a->nominal_parameter, b->nominal_parameter, sizeof a->nominal_parameter);
    for (size_t i = 0; i < nx; i++) {
        assert_string_equal(a->state_name[i], b->state_name[i]);
        assert_string_equal(a->state_unit[i], b->state_unit[i]);
    }
    for (size_t i = 0; i < nu; i++) {
        assert_string_equal(a->control_name[i], b->control_name[i]);
        assert_string_equal(a->control_unit[i], b->control_unit[i]);
    }
    assert_memory_equal(a->state_mean, b->state_mean, nx * sizeof(double));
    assert_memory_equal(a->state_std, b->state_std, nx * sizeof(double));
    assert_memory_equal(a->control_mean, b->control_mean, nu * sizeof(double));
    assert_memory_equal(a->control_std, b->control_std, nu * sizeof(double));
    assert_memory_equal(a->control_min, b->control_min, nu * sizeof(double));
    assert_memory_equal(a->control_max, b->control_max, nu * sizeof(double));
    assert_memory_equal(a->control_trim, b->control_trim, nu * sizeof(double));
    assert_int_equal(a->nparameters, b->nparameters);
    assert_memory_equal(a->parameter, b->parameter, a->nparameters * sizeof *a->parameter);
    assert_string_equal(a->notes, b->notes);
    assert_int_equal(a->hash, b->hash);
}

static void assert_round_trip(const hb_model *m)
{
    hb_model *loaded = NULL;
    hb_error err;

    if (hb_model_save(m, path, &err) || hb_model_load(&loaded, path, &err))
        fail_msg("%s", err.text);
    assert_models_equal(m, loaded);
    hb_model_free(loaded);
}

static hb_model some_shape(hb_architecture architecture, hb_average average)
{
    return (hb_model){.nx = 3,
                      .nu = 2,
                      .nb = 4,
                      .architecture = architecture,
                      .average = average,
                      .activation = HB_SILU,
                      .integration = HB_COMBINED,
                      .substeps = 2,
                      .ridge = 1e-3,
                      .volume = 0.1,
                      .dt = 0.02,
                      .basis = {.nlayers = 3, .width = {[1] = 5, [2] = 6}},
                      .average_network = {.nlayers = 2, .width = {[1] = 7}}};
}

static hb_model *some_model(hb_model shape)
{
    hb_model *m;
    hb_error err;

    if (hb_model_new(&m, &shape, "made up\n\"quoted\", with umlauts: äöü", &err))
        fail_msg("%s", err.text);
    fill(m);
    return m;
}

static void test_round_trip_of_every_kind(void **state)
{
    (void)state;
    int some_states[] = {0, 2};

    for (int architecture = HB_SHARED; architecture <= HB_INDEPENDENT; architecture++)
        for (int average = HB_AVERAGE_NONE; average <= HB_AVERAGE_NETWORK; average++)
            for (int nu = 0; nu <= 2; nu += 2)
                for (int nb = 0; nb <= 4; nb += 4)
                    for (int masked = 0; masked < 2; masked++) {
                        hb_model shape = some_shape((hb_architecture)architecture, (hb_average)average);
                        shape.nu = nu;
                        shape.nb = nb;
                        if (masked) {
                            shape.input = some_states;
                            shape.ninputs = 2;
                        }
                        if ((architecture == HB_INDEPENDENT && average == HB_AVERAGE_HEAD) ||
                            (nb == 0 && average == HB_AVERAGE_NONE))
                            continue;
                        hb_model *m = some_model(shape);
                        assert_round_trip(m);
                        hb_model_free(m);
                    }
}

static void test_round_trip_of_one_state_and_one_layer(void **state)
{
    (void)state;
    hb_model shape = some_shape(HB_SHARED, HB_AVERAGE_HEAD);

    shape.nx = 1;
    shape.nu = 1;
    shape.basis.nlayers = 1;
    hb_model *m = some_model(shape);
    m->state_unit[0][0] = 0;
    hb_model_seal(m);
    assert_round_trip(m);
    hb_model_free(m);
}

/* layers are as many as they may be */
static void test_round_trip_of_the_deepest(void **state)
{
    (void)state;

    for (int architecture = HB_SHARED; architecture <= HB_INDEPENDENT; architecture++) {
        hb_model shape = some_shape((hb_architecture)architecture, HB_AVERAGE_NETWORK);
        shape.basis.nlayers = shape.average_network.nlayers = HB_MAX_LAYERS;
        for (int i = 1; i < HB_MAX_LAYERS; i++)
            shape.basis.width[i] = shape.average_network.width[i] = i + 1;
        hb_model *m = some_model(shape);
        assert_round_trip(m);
        hb_model_free(m);
    }
}

/* Number (row, column) of layer `layer` of network `network`, by model.h's description of the order. */
static hb_real weight_at(const hb_model *m, int network, int layer, int row, int column)
{
    const hb_mlp *mlp = network < m->nb || m->architecture == HB_SHARED ? &m->basis : &m->average_network;
    size_t at = (size_t)network * m->basis.nparameters;

    for (int l = 0; l < layer; l++)
        at += (size_t)(mlp->width[l + 1] * (mlp->width[l] + 1));
    return m->parameter[at + (size_t)(row * mlp->width[layer] + column)];
}

/* Bias `row`, likewise. */
static hb_real bias_at(const hb_model *m, int network, int layer, int row)
{
    const hb_mlp *mlp = network < m->nb || m->architecture == HB_SHARED ? &m->basis : &m->average_network;

    return weight_at(m, network, layer, mlp->width[layer + 1], row);
}

static void test_golden_parameters_lie_where_model_h_says(void **state)
{
    (void)state;
    golden *independent = golden_open("independent_per_state_inner_product_relu");
    golden *shared = golden_open("shared_scalar_least_squares_silu");
    const hb_model *m = independent->model;

    assert_int_equal(m->nb, 7);
    assert_int_equal(m->basis.nlayers, 5);
    assert_int_equal(m->shape, HB_PER_STATE);
    assert_int_equal(m->method, HB_INNER_PRODUCT);
    const double *w = golden_get(independent, "basis.2.weight"), *b = golden_get(independent, "basis.4.bias");
    const double *wa = golden_get(independent, "average.4.weight"), *ba = golden_get(independent, "average.0.bias");
    for (int i = 0; i < 7; i++) {
        for (int o = 0; o < 16; o++)
            for (int k = 0; k < 16; k++)
                assert_true(weight_at(m, i, 2, o, k) == (hb_real)w[(i * 16 + o) * 16 + k]);
        for (int o = 0; o < 13; o++)
            assert_true(bias_at(m, i, 4, o) == (hb_real)b[i * 13 + o]);
    }
    for (int o = 0; o < 13; o++)
        for (int k = 0; k < 16; k++)
            assert_true(weight_at(m, 7, 4, o, k) == (hb_real)wa[o * 16 + k]);
    for (int o = 0; o < 16; o++)
        assert_true(bias_at(m, 7, 0, o) == (hb_real)ba[o]);

    /* the head: 7 x 13 rows of the basis, then 13 of the average */
    m = shared->model;
    const double *trunk = golden_get(shared, "trunk.3.weight"), *head = golden_get(shared, "head.weight");
    const double *average = golden_get(shared, "average.head.weight"), *bias = golden_get(shared, "head.bias");
    const double *average_bias = golden_get(shared, "average.head.bias");
    for (int k = 0; k < 16; k++) {
        for (int o = 0; o < 16; o++)
            assert_true(weight_at(m, 0, 3, o, k) == (hb_real)trunk[o * 16 + k]);
        for (int o = 0; o < 7 * 13; o++)
            assert_true(weight_at(m, 0, 4, o, k) == (hb_real)head[o * 16 + k]);
        for (int o = 0; o < 13; o++)
            assert_true(weight_at(m, 0, 4, 7 * 13 + o, k) == (hb_real)average[o * 16 + k]);
    }
    for (int o = 0; o < 7 * 13; o++)
        assert_true(bias_at(m, 0, 4, o) == (hb_real)bias[o]);
    for (int o = 0; o < 13; o++)
        assert_true(bias_at(m, 0, 4, 7 * 13 + o) == (hb_real)average_bias[o]);
    golden_close(independent);
    golden_close(shared);
}

static void test_golden_files_make_models(void **state)
{
    (void)state;

    for (int i = 0; golden_names[i]; i++) {
        golden *g = golden_open(golden_names[i]);
        const hb_model *m = g->model;
        assert_int_equal(m->nx, golden_size(g, "in.z", 1));
        assert_int_equal(m->nu, golden_size(g, "in.u", 1));
        assert_int_equal(m->nb, golden_size(g, "out.coefficients", 0));
        const double *mean = golden_get(g, "in.state_mean");
        assert_memory_equal(m->state_mean, mean, (size_t)m->nx * sizeof *mean);
        assert_round_trip(m);
        golden_close(g);
    }
}

static void test_hash_names_content_but_not_notes(void **state)
{
    (void)state;
    hb_model shape = some_shape(HB_SHARED, HB_AVERAGE_HEAD);
    hb_model *a = some_model(shape), *b = some_model(shape);

    assert_int_equal(a->hash, b->hash);
    b->notes[0] ^= 1;
    hb_model_seal(b);
    assert_int_equal(a->hash, b->hash);
    b->parameter[3] += 1;
    hb_model_seal(b);
    assert_int_not_equal(a->hash, b->hash);
    b->parameter[3] = a->parameter[3];
    b->dt *= 2;
    hb_model_seal(b);
    assert_int_not_equal(a->hash, b->hash);
    hb_model_free(a);
    hb_model_free(b);
}

static void test_least_squares_basis_refuses_inner_product(void **state)
{
    (void)state;
    hb_model least_squares = {.method = HB_LEAST_SQUARES}, inner_product = {.method = HB_INNER_PRODUCT};
    hb_error err = {0};

    assert_int_equal(hb_model_allows(&least_squares, HB_LEAST_SQUARES, &err), 0);
    assert_int_equal(hb_model_allows(&inner_product, HB_INNER_PRODUCT, &err), 0);
    assert_int_equal(hb_model_allows(&inner_product, HB_LEAST_SQUARES, &err), 0);
    assert_int_equal(hb_model_allows(&least_squares, HB_INNER_PRODUCT, &err), -EINVAL);
    assert_string_equal(err.text, "the basis was trained with least_squares, so it is not orthonormal, and "
                                  "coefficients by inner_product would be wrong: use least_squares");
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails when a temporary file was left behind */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_of_every_kind),
        cmocka_unit_test(test_round_trip_of_one_state_and_one_layer),
        cmocka_unit_test(test_round_trip_of_the_deepest),
        cmocka_unit_test(test_golden_parameters_lie_where_model_h_says),
        cmocka_unit_test(test_golden_files_make_models),
        cmocka_unit_test(test_hash_names_content_but_not_notes),
        cmocka_unit_test(test_least_squares_basis_refuses_inner_product),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
