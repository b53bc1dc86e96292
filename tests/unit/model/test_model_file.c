/* Basis files: model_layout.c, model_load.c and model_save.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "golden.h"
#include "model/model.h"
#include "models.h"
#include "base/numeric.h"

static char folder[] = "/tmp/test_model_file-XXXXXX";
static char path[sizeof folder + 32];

/* Covariances are L L^T of random L, one of rank nb - 1. */
static void fill_prior(hb_model *m, hb_random_key key)
{
    int nb = m->nb;
    double *l = malloc((size_t)(nb * nb) * sizeof *l);

    assert_non_null(l);
    for (int i = 0; i < hb_model_ncoefficients(m); i++)
        m->prior_mean[i] = hb_random_normal(key, 20000 + (uint64_t)i);
    for (int i = 0; i < m->nx; i++)
        m->noise[i] = 0.1 + hb_random_uniform(key, 21000 + (uint64_t)i);
    for (int p = 0; p < hb_model_nproblems(m); p++) {
        for (int i = 0; i < nb * nb; i++)
            l[i] = i % nb == nb - 1 ? 0 : hb_random_normal(key, 30000 + (uint64_t)(p * nb * nb + i));
        for (int i = 0; i < nb; i++)
            for (int k = 0; k < nb; k++) {
                double sum = 0;
                for (int j = 0; j < nb; j++)
                    sum += l[i * nb + j] * l[k * nb + j];
                m->prior_covariance[(p * nb + i) * nb + k] = sum;
            }
    }
    free(l);
}

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
    if (m->has_prior)
        fill_prior(m, key);
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
    assert_memory_equal(a->actuator_delay, b->actuator_delay, nu * sizeof(double));
    assert_memory_equal(a->actuator_lag, b->actuator_lag, nu * sizeof(double));
    assert_memory_equal(a->actuator_rate, b->actuator_rate, nu * sizeof(double));
    assert_int_equal(a->has_prior, b->has_prior);
    if (a->has_prior) {
        size_t nb = (size_t)a->nb, blocks = a->shape == HB_PER_STATE ? nx : 1;
        assert_memory_equal(a->prior_mean, b->prior_mean, blocks * nb * sizeof(double));
        assert_memory_equal(a->prior_covariance, b->prior_covariance, blocks * nb * nb * sizeof(double));
        assert_memory_equal(a->noise, b->noise, nx * sizeof(double));
    } else {
        assert_null(b->prior_mean);
        assert_null(b->prior_covariance);
        assert_null(b->noise);
    }
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

/* Rows that the mask leaves out are zero, in all basis functions and only there; the file says so, and one whose rows
 * are not is refused. */
static void test_output_mask(void **state)
{
    (void)state;
    bool output[] = {false, true, false};

    for (int architecture = HB_SHARED; architecture <= HB_INDEPENDENT; architecture++) {
        hb_model shape =
            some_shape((hb_architecture)architecture, architecture == HB_SHARED ? HB_AVERAGE_HEAD : HB_AVERAGE_NETWORK);
        shape.output = output;
        hb_model *m = some_model(shape), *loaded = NULL;
        hb_safetensors *f = NULL;
        hb_error err;
        size_t zeros = 0, width = 6, nx = 3, nb = 4;

        assert_int_equal(hb_model_save(m, path, &err), -EINVAL);
        assert_non_null(strstr(err.text, "output mask"));
        hb_model_mask(m, m->parameter);
        for (size_t i = 0; i < m->nparameters; i++)
            zeros += m->parameter[i] == 0;
        assert_int_equal(zeros, nb * 2 * (width + 1));
        const hb_head h = hb_mlp_head(&m->basis);
        for (size_t i = 0; i < nb; i++) {
            const hb_real *network = m->parameter + (architecture == HB_SHARED ? 0 : i * m->basis.nparameters);
            size_t row = (architecture == HB_SHARED ? i * nx : 0) + 1;
            assert_true(network[h.bias + row] != 0 && network[h.bias + row - 1] == 0);
            assert_true(network[h.weight + row * h.width] != 0 && network[h.weight + (row + 1) * h.width] == 0);
        }
        for (int i = 0; i < m->nx; i++)
            m->reference_noise[i] = 0.5 + i;
        hb_model_seal(m);
        assert_round_trip(m);
        if (hb_model_load(&loaded, path, &err) || hb_safetensors_load(&f, path, &err))
            fail_msg("%s", err.text);
        assert_memory_equal(loaded->output, output, sizeof output);
        assert_true(loaded->reference_noise[2] == 2.5);
        assert_string_equal(hb_safetensors_text(f, "outputs"), m->state_name[1]);
        hb_safetensors_free(f);
        hb_model_free(loaded);
        hb_model_free(m);
    }
    hb_model shape = some_shape(HB_SHARED, HB_AVERAGE_HEAD), *m = NULL;
    shape.output = (bool[3]){false};
    assert_int_equal(hb_model_new(&m, &shape, NULL, NULL), -EINVAL);
}

static void fill_actuators(hb_model *m)
{
    for (int i = 0; i < m->nu; i++) {
        m->actuator_delay[i] = 0.01 + i;
        m->actuator_lag[i] = 0.05 + i;
        m->actuator_rate[i] = 7.0 * i;
    }
    hb_model_seal(m);
}

static void test_round_trip_of_priors_and_actuators(void **state)
{
    (void)state;

    for (int per_state = 0; per_state < 2; per_state++) {
        hb_model shape = some_shape(HB_SHARED, HB_AVERAGE_HEAD);
        shape.has_prior = true;
        shape.shape = per_state ? HB_PER_STATE : HB_VECTOR;
        hb_model *m = some_model(shape);
        assert_round_trip(m);
        fill_actuators(m);
        assert_round_trip(m);
        hb_model_free(m);
    }
}

/* A file in which there is nothing of them has no prior and ideal actuators. */
static void test_files_without_priors_and_actuators_are_as_before(void **state)
{
    (void)state;
    hb_model *m = some_model(some_shape(HB_SHARED, HB_AVERAGE_HEAD)), *loaded = NULL;
    hb_safetensors *f = NULL;
    hb_error err;

    if (hb_model_save(m, path, &err) || hb_safetensors_load(&f, path, &err) || hb_model_load(&loaded, path, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < f->ntensors; i++)
        assert_true(strncmp(f->tensor[i].name, "prior.", 6) != 0 && strncmp(f->tensor[i].name, "actuator.", 9) != 0);
    assert_false(loaded->has_prior);
    for (int i = 0; i < m->nu; i++)
        assert_true(loaded->actuator_delay[i] == 0 && loaded->actuator_lag[i] == 0 && loaded->actuator_rate[i] == 0);
    hb_safetensors_free(f);
    hb_model_free(loaded);
    hb_model_free(m);
}

static void test_hash_knows_priors_and_actuators(void **state)
{
    (void)state;
    hb_model shape = some_shape(HB_SHARED, HB_AVERAGE_HEAD);
    hb_model *without = some_model(shape), *m;
    uint64_t seen[8];
    int n = 0;

    shape.has_prior = true;
    m = some_model(shape);
    seen[n++] = without->hash;
    seen[n++] = m->hash;
    double *changed[] = {&m->prior_mean[1],     &m->prior_covariance[5], &m->noise[2],
                         &m->actuator_delay[0], &m->actuator_lag[0],     &m->actuator_rate[0]};
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        double kept = *changed[i];
        *changed[i] += 0.25;
        hb_model_seal(m);
        seen[n++] = m->hash;
        *changed[i] = kept;
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(seen[i], seen[k]);
    hb_model_free(without);
    hb_model_free(m);
}

static void test_copies_take_or_leave_the_prior(void **state)
{
    (void)state;

    for (int v = 0; v < nvariants; v++) {
        hb_model *m = variant_model(v), *copy = NULL, *back = NULL;
        hb_error err;

        fill(m);
        fill_actuators(m);
        assert_int_equal(hb_model_copy(&copy, m, false, NULL, &err), 0);
        assert_models_equal(m, copy);
        hb_model_free(copy);
        if (m->nb == 0) {
            assert_int_equal(hb_model_copy(&copy, m, true, NULL, &err), -EINVAL);
            hb_model_free(m);
            continue;
        }
        assert_int_equal(hb_model_copy(&copy, m, true, NULL, &err), 0);
        assert_true(copy->has_prior);
        fill_prior(copy, (hb_random_key){.seed = 3});
        hb_model_seal(copy);
        assert_int_equal(hb_model_copy(&back, copy, true, NULL, &err), 0);
        assert_models_equal(copy, back);
        hb_model_free(back);
        assert_int_equal(hb_model_copy(&back, copy, false, NULL, &err), 0);
        assert_models_equal(m, back);
        hb_model_free(back);
        hb_model_free(copy);
        hb_model_free(m);
    }
}

/* those that others test with, nominal models among them */
static void test_round_trip_of_test_models(void **state)
{
    (void)state;

    for (int v = 0; v < nvariants; v++) {
        hb_model *m = variant_model(v);
        fill(m);
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

/* --- files that are not models --- */

/* One change to a good file. */
typedef enum { NO_TEXT, TEXT, NO_TENSOR, RENAMED, SHAPED, VALUE } change;

typedef struct edited {
    hb_safetensors file;
    hb_text text[32];
    hb_tensor tensor[48];
    double spare[4096]; /* data of a tensor that was changed */
} edited;

static hb_tensor *tensor_named(edited *e, const char *name)
{
    for (int i = 0; i < e->file.ntensors; i++)
        if (!strcmp(e->tensor[i].name, name))
            return &e->tensor[i];
    fail_msg("the test's file has no tensor '%s'", name);
    return NULL;
}

/* Puts `value` in the place of metadata `key`, or behind the others. */
static void set_text(edited *e, const char *key, const char *value)
{
    int i = 0;

    while (i < e->file.ntexts && strcmp(e->text[i].key, key) != 0)
        i++;
    e->text[i] = (hb_text){key, value};
    if (i == e->file.ntexts)
        e->file.ntexts++;
}

static void drop_text(edited *e, const char *key)
{
    int kept = 0;

    for (int i = 0; i < e->file.ntexts; i++)
        if (strcmp(e->text[i].key, key) != 0)
            e->text[kept++] = e->text[i];
    assert_int_equal(kept, e->file.ntexts - 1);
    e->file.ntexts = kept;
}

static void drop_tensor(edited *e, const char *name)
{
    hb_tensor *t = tensor_named(e, name), *end = e->tensor + --e->file.ntensors;

    memmove(t, t + 1, (size_t)(end - t) * sizeof *t);
}

/* "3 4 5" */
static void set_shape(edited *e, const char *name, const char *shape)
{
    hb_tensor *t = tensor_named(e, name);

    t->dtype = HB_F64;
    t->data = e->spare;
    t->rank = 0;
    for (char *end; *shape; shape = end)
        t->shape[t->rank++] = strtoull(shape, &end, 10);
    assert_true(hb_tensor_count(t) <= sizeof e->spare / sizeof *e->spare);
}

/* "index value" */
static void set_value(edited *e, const char *name, const char *what)
{
    hb_tensor *t = tensor_named(e, name);
    char *end;
    size_t index = strtoull(what, &end, 10);
    hb_error err;

    assert_int_equal(hb_safetensors_doubles(&e->file, t, e->spare, &err), 0);
    e->spare[index] = strtod(end, NULL);
    t->dtype = HB_F64;
    t->data = e->spare;
}

static void apply(edited *e, change c, const char *name, const char *argument)
{
    switch (c) {
    case NO_TEXT:
        drop_text(e, name);
        break;
    case TEXT:
        set_text(e, name, argument);
        break;
    case NO_TENSOR:
        drop_tensor(e, name);
        break;
    case RENAMED:
        tensor_named(e, name)->name = argument;
        break;
    case SHAPED:
        set_shape(e, name, argument);
        break;
    case VALUE:
        set_value(e, name, argument);
        break;
    }
}

typedef struct malformed {
    change change;
    const char *name, *argument;
    const char *message; /* behind the file's name */
} malformed;

/* nx = 3 (x0 x1 x2), nu = 2, nb = 4, networks 5-5-6-3, average network 5-7-3 */
static const malformed of_independent[] = {
    /* metadata */
    {NO_TEXT, "format", "", "metadata 'format' is missing"},
    {TEXT, "format", "pt", "metadata 'format' is 'pt', expected 'hilbert-basis-1'"},
    {NO_TEXT, "architecture", "", "metadata 'architecture' is missing"},
    {TEXT, "architecture", "both", "metadata 'architecture' is 'both', expected shared or independent"},
    {TEXT, "architecture", "", "metadata 'architecture' is '', expected shared or independent"},
    {TEXT, "activation", "ReLU", "metadata 'activation' is 'ReLU', expected relu, tanh or silu"},
    {TEXT, "average", "mean", "metadata 'average' is 'mean', expected none, head, network or nominal"},
    {TEXT, "integration", "euler", "metadata 'integration' is 'euler', expected separate, combined or direct"},
    {TEXT, "method", "ls", "metadata 'method' is 'ls', expected least_squares or inner_product"},
    {TEXT, "shape", "scalar", "metadata 'shape' is 'scalar', expected vector or per_state"},
    {NO_TEXT, "substeps", "", "metadata 'substeps' is missing"},
    {TEXT, "substeps", "two", "metadata 'substeps' is 'two', expected a number"},
    {TEXT, "substeps", "1.5", "metadata 'substeps' is '1.5', expected a whole number"},
    {TEXT, "substeps", "1e300", "metadata 'substeps' is '1e300', expected a whole number"},
    {TEXT, "substeps", "0", "substeps is 0, expected 1 to 1000"},
    {TEXT, "substeps", "1001", "substeps is 1001, expected 1 to 1000"},
    {TEXT, "dt", "0.05 s", "metadata 'dt' is '0.05 s', expected a number"},
    {TEXT, "dt", "", "metadata 'dt' is '', expected a number"},
    {TEXT, "dt", "nan", "metadata 'dt' is 'nan', expected a number"},
    {TEXT, "dt", "inf", "metadata 'dt' is 'inf', expected a number"},
    {TEXT, "dt", "0", "dt is 0, expected a finite number above 0"},
    {TEXT, "dt", "1e300", "dt is 1e+300 seconds, expected 1e-06 to 10000"},
    {TEXT, "volume", "-1", "volume is -1, expected a finite number above 0"},
    {TEXT, "ridge", "-0.1", "ridge is -0.1, expected a finite number, 0 or above"},
    {TEXT, "author", "me", "metadata 'author' is not known here; free text goes into 'notes'"},
    {TEXT, "nominal", "quadrotor", "metadata 'nominal' is not known here; free text goes into 'notes'"},
    {NO_TEXT, "state_names", "", "metadata 'state_names' is missing"},
    {TEXT, "state_names", "x0,x1", "metadata 'state_names' has 2 items, expected 3, joined by commas"},
    {TEXT, "state_names", "", "metadata 'state_names' has 0 items, expected 3, joined by commas"},
    {TEXT, "state_names", "x0,x1,x2,", "metadata 'state_names' has 4 items, expected 3, joined by commas"},
    {TEXT, "state_names", "x0,x1,x012345678901234567890123456789012",
     "metadata 'state_names': item 2 is 34 bytes long, expected at most 31"},
    {TEXT, "state_units", "m,m", "metadata 'state_units' has 2 items, expected 3, joined by commas"},
    {TEXT, "state_units", "m,m,\n", "the unit of state 2 has a comma or a control character"},
    {NO_TEXT, "control_names", "", "metadata 'control_names' is missing"},
    {TEXT, "control_names", "u0,", "the name of control 1 is empty"},
    {TEXT, "control_names", "u0,u0", "controls 0 and 1 are both named 'u0'"},
    {NO_TEXT, "inputs", "", "metadata 'inputs' is missing"},
    {TEXT, "inputs", "x0,x3", "metadata 'inputs' names 'x3', which is not one of the state_names"},
    {TEXT, "inputs", "x0,", "metadata 'inputs' names '', which is not one of the state_names"},
    {TEXT, "inputs", "x1,x0", "metadata 'inputs' are not in the order of state_names at 'x0'"},
    {TEXT, "inputs", "x1,x1", "metadata 'inputs' are not in the order of state_names at 'x1'"},
    {TEXT, "inputs", "x0,x1", "tensor 'basis.0.weight': shape [4, 5, 5], expected [4, 5, 4]"},

    /* choices that do not go together */
    {TEXT, "average", "head", "an independent model has no shared head: its average is none, network or nominal"},
    {TEXT, "average", "none",
     "tensor 'average.0.weight' has no place in this model (architecture independent, average none, 3 states, 2 "
     "controls, 4 basis functions of 3 layers)"},
    {TEXT, "average", "nominal", "metadata 'nominal' is missing"},
    {TEXT, "architecture", "shared",
     "tensor 'basis.0.weight' has no place in this model (architecture shared, average network, 3 states, 2 controls, "
     "0 basis functions of 0 layers)"},

    /* tensors that are missing or too many */
    {NO_TENSOR, "state.mean", "", "tensor 'state.mean' is missing"},
    {NO_TENSOR, "state.std", "", "tensor 'state.std' is missing, expected with shape [3]"},
    {NO_TENSOR, "control.mean", "",
     "tensor 'control.std' has no place in this model (architecture independent, average network, 3 states, 0 "
     "controls, "
     "4 basis functions of 3 layers)"},
    {NO_TENSOR, "control.trim", "", "tensor 'control.trim' is missing, expected with shape [2]"},
    {NO_TENSOR, "basis.0.bias", "", "tensor 'basis.0.bias' is missing, expected with shape [4, 5]"},
    {NO_TENSOR, "basis.0.weight", "",
     "tensor 'basis.0.bias' has no place in this model (architecture independent, average network, 3 states, 2 "
     "controls, 0 basis functions of 0 layers)"},
    {NO_TENSOR, "basis.1.weight", "",
     "tensor 'basis.1.bias' has no place in this model (architecture independent, average network, 3 states, 2 "
     "controls, 4 basis functions of 1 layers)"},
    {NO_TENSOR, "average.1.bias", "", "tensor 'average.1.bias' is missing, expected with shape [3]"},
    {RENAMED, "basis.2.bias", "basis.02.bias",
     "tensor 'basis.02.bias' has no place in this model (architecture independent, average network, 3 states, 2 "
     "controls, 4 basis functions of 3 layers)"},

    /* shapes */
    {SHAPED, "state.mean", "3 1", "tensor 'state.mean': shape [3, 1], expected 1 dimension"},
    {SHAPED, "state.mean", "0", "tensor 'state.mean': shape [0], expected 1 to 4096 in place 0"},
    {SHAPED, "state.mean", "2", "metadata 'state_names' has 3 items, expected 2, joined by commas"},
    {SHAPED, "state.std", "4", "tensor 'state.std': shape [4], expected [3]"},
    {SHAPED, "control.mean", "0", "tensor 'control.mean': shape [0], expected 1 to 4096 in place 0"},
    {SHAPED, "control.min", "1", "tensor 'control.min': shape [1], expected [2]"},
    {SHAPED, "basis.0.weight", "20 5", "tensor 'basis.0.weight': shape [20, 5], expected 3 dimensions"},
    {SHAPED, "basis.0.weight", "3 5 5", "tensor 'basis.0.bias': shape [4, 5], expected [3, 5]"},
    {SHAPED, "basis.0.weight", "0 5 5", "tensor 'basis.0.weight': shape [0, 5, 5], expected 1 to 65536 in place 0"},
    {SHAPED, "basis.0.weight", "4 0 5", "tensor 'basis.0.weight': shape [4, 0, 5], expected 1 to 65536 in place 1"},
    {SHAPED, "basis.0.weight", "65536 65536 0",
     "tensor 'basis.0.weight': shape [65536, 65536, 0], expected "
     "[65536, 65536, 5]"},
    {SHAPED, "basis.1.weight", "4 70000 0",
     "tensor 'basis.1.weight': shape [4, 70000, 0], expected 1 to 65536 in "
     "place 1"},
    {SHAPED, "basis.0.weight", "4 5 6", "tensor 'basis.0.weight': shape [4, 5, 6], expected [4, 5, 5]"},
    {SHAPED, "basis.0.bias", "20", "tensor 'basis.0.bias': shape [20], expected [4, 5]"},
    {SHAPED, "basis.1.weight", "4 5 6", "tensor 'basis.1.weight': shape [4, 5, 6], expected [4, 5, 5]"},
    {SHAPED, "basis.1.weight", "3 6 5", "tensor 'basis.1.weight': shape [3, 6, 5], expected [4, 6, 5]"},
    {SHAPED, "basis.2.weight", "4 4 6", "tensor 'basis.2.weight': shape [4, 4, 6], expected [4, 3, 6]"},
    {SHAPED, "average.0.weight", "7 4", "tensor 'average.0.weight': shape [7, 4], expected [7, 5]"},
    {SHAPED, "average.1.weight", "2 7", "tensor 'average.1.weight': shape [2, 7], expected [3, 7]"},

    /* numbers */
    {VALUE, "basis.2.weight", "17 nan", "tensor 'basis.2.weight': element 17 is NaN, expected a finite number"},
    {VALUE, "average.0.bias", "0 -inf", "tensor 'average.0.bias': element 0 is infinite, expected a finite number"},
    {VALUE, "state.mean", "1 inf", "tensor 'state.mean': element 1 is infinite, expected a finite number"},
    {VALUE, "state.std", "1 0", "the standard deviation of state 'x1' is 0, expected a finite number above 0"},
    {VALUE, "state.std", "1 1e-30",
     "the standard deviation of state 'x1' is 1e-30, expected 1e-15 to 1e+15: choose other units"},
    {VALUE, "control.std", "0 -1", "the standard deviation of control 'u0' is -1, expected a finite number above 0"},
    {VALUE, "control.min", "1 9", "the bounds of control 'u1' are 9 and 1.5, expected min < max"},
    {VALUE, "control.max", "0 inf", "tensor 'control.max': element 0 is infinite, expected a finite number"},
    {VALUE, "control.trim", "0 2", "the trim of control 'u0' is 2, outside its bounds -1 and 1.5"},
};

/* the same sizes; trunk 5-5-6, head 4 x 3 and 3 rows on 6 */
static const malformed of_shared[] = {
    {TEXT, "integration", "separate",
     "a shared model has common stage points: integration is combined or direct, not separate"},
    {TEXT, "average", "none",
     "tensor 'average.head.weight' has no place in this model (architecture shared, average none, 3 states, 2 "
     "controls, "
     "4 basis functions of 3 layers)"},
    {TEXT, "average", "network", "the number of layers of the average network is 0, expected 1 to 16"},
    {NO_TENSOR, "head.weight", "",
     "tensor 'head.bias' has no place in this model (architecture shared, average head, 3 states, 2 controls, 0 basis "
     "functions of 3 layers)"},
    {NO_TENSOR, "average.head.bias", "", "tensor 'average.head.bias' is missing, expected with shape [3]"},
    {NO_TENSOR, "trunk.1.bias", "", "tensor 'trunk.1.bias' is missing, expected with shape [6]"},
    {SHAPED, "head.weight", "12 6", "tensor 'head.weight': shape [12, 6], expected 3 dimensions"},
    {SHAPED, "head.weight", "4 2 6", "tensor 'head.weight': shape [4, 2, 6], expected [4, 3, 6]"},
    {SHAPED, "head.weight", "4 3 5", "tensor 'head.weight': shape [4, 3, 5], expected [4, 3, 6]"},
    {SHAPED, "head.bias", "12", "tensor 'head.bias': shape [12], expected [4, 3]"},
    {SHAPED, "average.head.weight", "3 5", "tensor 'average.head.weight': shape [3, 5], expected [3, 6]"},
    {SHAPED, "trunk.0.weight", "1 5 5", "tensor 'trunk.0.weight': shape [1, 5, 5], expected 2 dimensions"},
    {SHAPED, "trunk.1.weight", "6 4", "tensor 'trunk.1.weight': shape [6, 4], expected [6, 5]"},
    {VALUE, "head.bias", "3 nan", "tensor 'head.bias': element 3 is NaN, expected a finite number"},
};

#define REST "ixx=1e-5,iyy=1e-5,izz=2e-5,arm=0.04,torque_ratio=0.02,gravity=9.81"

/* a quadrotor: nx = 13, nu = 4 */
static const malformed of_nominal[] = {
    {NO_TEXT, "nominal", "", "metadata 'nominal' is missing"},
    {TEXT, "nominal", "plane", "metadata 'nominal' is 'plane', expected one of: expressions, quadrotor, multirotor-rates"},
    {NO_TEXT, "nominal_parameters", "", "metadata 'nominal_parameters' is missing"},
    {TEXT, "nominal_parameters", "", "metadata 'nominal_parameters': 'mass' is missing"},
    {TEXT, "nominal_parameters", REST, "metadata 'nominal_parameters': 'mass' is missing"},
    {TEXT, "nominal_parameters", "mass=1,mass=1," REST, "metadata 'nominal_parameters': 'mass' is given twice"},
    {TEXT, "nominal_parameters", "mass," REST,
     "metadata 'nominal_parameters': 'mass' is not followed by = and a number"},
    {TEXT, "nominal_parameters", "mass=," REST,
     "metadata 'nominal_parameters': 'mass' is not followed by = and a number"},
    {TEXT, "nominal_parameters", "mass=1kg," REST,
     "metadata 'nominal_parameters': 'mass' is not followed by = and a number"},
    {TEXT, "nominal_parameters", "mass=inf," REST,
     "metadata 'nominal_parameters': 'mass' is not followed by = and a number"},
    {TEXT, "nominal_parameters", "mass=0.0000000000000000000000000000000000000001," REST,
     "metadata 'nominal_parameters': 'mass' is not followed by = and a number"},
    {TEXT, "nominal_parameters", "mass=0," REST, "nominal parameter 'mass' is 0, expected a number above 0"},
    {TEXT, "nominal_parameters", "mass=-1," REST, "nominal parameter 'mass' is -1, expected a number above 0"},
    {TEXT, "nominal_parameters", "weight=1," REST,
     "metadata 'nominal_parameters': the nominal model 'quadrotor' has no parameter 'weight'"},
    {TEXT, "nominal_parameters", "mass=1," REST ",",
     "metadata 'nominal_parameters': the nominal model 'quadrotor' has no parameter ''"},
    {TEXT, "integration", "direct",
     "a nominal model gives rates of change: integration is separate or combined, not direct"},
    {TEXT, "average", "none", "metadata 'nominal' is not known here; free text goes into 'notes'"},
};

/* nx = 3, nu = 2, nb = 4, with a prior and actuators */
static const malformed of_prior[] = {
    {NO_TENSOR, "prior.mean", "", "tensor 'prior.mean' is missing, expected with shape [4]"},
    {NO_TENSOR, "prior.covariance", "", "tensor 'prior.covariance' is missing, expected with shape [4, 4]"},
    {NO_TENSOR, "prior.noise", "", "tensor 'prior.noise' is missing, expected with shape [3]"},
    {SHAPED, "prior.mean", "4 3", "tensor 'prior.mean': shape [4, 3], expected [4]"},
    {SHAPED, "prior.covariance", "3 4 4", "tensor 'prior.covariance': shape [3, 4, 4], expected [4, 4]"},
    {SHAPED, "prior.noise", "4", "tensor 'prior.noise': shape [4], expected [3]"},
    {VALUE, "prior.mean", "2 nan", "tensor 'prior.mean': element 2 is NaN, expected a finite number"},
    {VALUE, "prior.covariance", "7 inf", "tensor 'prior.covariance': element 7 is infinite, expected a finite number"},
    {VALUE, "prior.covariance", "9 1", "the prior's covariance 0 is not symmetric: 1 in row 2, column 1, but 0 across"},
    {VALUE, "prior.covariance", "10 -0.1", "the prior's covariance 0 is not positive semidefinite"},
    {VALUE, "prior.noise", "1 0", "the noise of state 'x1' is 0, expected a finite number above 0"},
    {SHAPED, "actuator.delay", "3", "tensor 'actuator.delay': shape [3], expected [2]"},
    {VALUE, "actuator.delay", "0 -1", "the actuator delay of control 'u0' is -1, expected a finite number, 0 or above"},
    {VALUE, "actuator.lag", "1 -0.5", "the actuator lag of control 'u1' is -0.5, expected a finite number, 0 or above"},
    {VALUE, "actuator.rate", "1 nan", "tensor 'actuator.rate': element 1 is NaN, expected a finite number"},
    {RENAMED, "actuator.rate", "actuator.speed",
     "tensor 'actuator.speed' has no place in this model (architecture shared, average head, 3 states, 2 controls, 4 "
     "basis functions of 3 layers)"},
};

static void assert_all_refused(const hb_model *good, const malformed *cases, size_t n)
{
    hb_safetensors *f = NULL;
    hb_error err;
    int failures = 0;

    if (hb_model_save(good, path, &err) || hb_safetensors_load(&f, path, &err))
        fail_msg("%s", err.text);
    edited *e = malloc(sizeof *e);
    assert_non_null(e);
    for (size_t i = 0; i < n; i++) {
        hb_model *m = NULL;
        char expected[1024];

        *e = (edited){
            .file = {.path = path, .ntexts = f->ntexts, .text = e->text, .ntensors = f->ntensors, .tensor = e->tensor}};
        memcpy(e->text, f->text, (size_t)f->ntexts * sizeof *f->text);
        memcpy(e->tensor, f->tensor, (size_t)f->ntensors * sizeof *f->tensor);
        apply(e, cases[i].change, cases[i].name, cases[i].argument);
        if (hb_safetensors_save(&e->file, &err))
            fail_msg("%s", err.text);

        snprintf(expected, sizeof expected, "%s: %s", path, cases[i].message);
        int r = hb_model_load(&m, path, &err);
        if (r >= 0 || m || strcmp(err.text, expected) != 0) {
            print_error("%s %s: returned %d\n  said     %s\n  expected %s\n", cases[i].name, cases[i].argument, r,
                        r ? err.text : "nothing", expected);
            failures++;
        }
        hb_model_free(m);
    }
    free(e);
    hb_safetensors_free(f);
    assert_int_equal(failures, 0);
}

static void test_malformed_models_are_refused_by_name(void **state)
{
    (void)state;
    hb_model *independent = some_model(some_shape(HB_INDEPENDENT, HB_AVERAGE_NETWORK));
    hb_model *shared = some_model(some_shape(HB_SHARED, HB_AVERAGE_HEAD));

    for (int i = 0; i < 2; i++) {
        independent->control_min[i] = -1;
        independent->control_max[i] = 1.5;
    }
    assert_all_refused(independent, of_independent, sizeof of_independent / sizeof *of_independent);
    assert_all_refused(shared, of_shared, sizeof of_shared / sizeof *of_shared);
    hb_model_free(independent);
    hb_model_free(shared);

    hb_model with_prior = some_shape(HB_SHARED, HB_AVERAGE_HEAD);
    with_prior.has_prior = true;
    hb_model *prior = some_model(with_prior);
    for (int i = 0; i < 16; i++)
        prior->prior_covariance[i] = i % 5 == 0;
    fill_actuators(prior);
    assert_all_refused(prior, of_prior, sizeof of_prior / sizeof *of_prior);
    hb_model_free(prior);

    hb_model shape = some_shape(HB_SHARED, HB_AVERAGE_NOMINAL);
    shape.nx = 13;
    shape.nu = 4;
    shape.nominal = hb_nominal_find("quadrotor");
    memcpy(shape.nominal_parameter, shape.nominal->parameter_default, sizeof shape.nominal_parameter);
    hb_model *nominal = some_model(shape);
    assert_all_refused(nominal, of_nominal, sizeof of_nominal / sizeof *of_nominal);
    hb_model_free(nominal);
}

/* a file with one layer more than a model may have */
static void test_too_many_layers_are_refused(void **state)
{
    (void)state;

    for (int shared = 0; shared < 2; shared++) {
        hb_model shape = some_shape(shared ? HB_SHARED : HB_INDEPENDENT, HB_AVERAGE_NONE);
        shape.nx = shape.nb = shape.basis.nlayers = 1;
        shape.nu = 0;
        hb_model *m = some_model(shape), *loaded = NULL;
        hb_safetensors *f = NULL;
        edited *e = calloc(1, sizeof *e);
        char name[2 * HB_MAX_LAYERS][32], expected[256];
        hb_error err;

        assert_non_null(e);
        if (hb_model_save(m, path, &err) || hb_safetensors_load(&f, path, &err))
            fail_msg("%s", err.text);
        memcpy(e->text, f->text, (size_t)f->ntexts * sizeof *f->text);
        memcpy(e->tensor, f->tensor, (size_t)f->ntensors * sizeof *f->tensor);
        e->file = (hb_safetensors){
            .path = path, .ntexts = f->ntexts, .text = e->text, .ntensors = f->ntensors, .tensor = e->tensor};
        /* the head is one layer, and basis.0 is there */
        for (int l = shared ? 0 : 1; l <= HB_MAX_LAYERS - shared; l++) {
            snprintf(name[l], sizeof name[l], "%s.%d.weight", shared ? "trunk" : "basis", l);
            e->tensor[e->file.ntensors++] = (hb_tensor){
                .name = name[l], .dtype = HB_F64, .rank = shared ? 2 : 3, .shape = {1, 1, 1}, .data = e->spare};
        }
        if (hb_safetensors_save(&e->file, &err))
            fail_msg("%s", err.text);
        assert_int_equal(hb_model_load(&loaded, path, &err), -EINVAL);
        snprintf(expected, sizeof expected, "%s: %s", path,
                 shared ? "at most 16 layers are expected in trunk and head"
                        : "tensor 'basis.16.weight': at most 16 layers are expected");
        assert_string_equal(err.text, expected);
        free(e);
        hb_safetensors_free(f);
        hb_model_free(m);
    }
}

static void test_what_would_not_load_is_not_saved(void **state)
{
    (void)state;
    hb_model *m = some_model(some_shape(HB_SHARED, HB_AVERAGE_HEAD));
    hb_error err;
    char expected[256];

    m->parameter[7] = NAN;
    unlink(path);
    assert_int_equal(hb_model_save(m, path, &err), -EINVAL);
    snprintf(expected, sizeof expected, "%s: parameter 7 is not finite", path);
    assert_string_equal(err.text, expected);
    assert_int_equal(access(path, F_OK), -1);
    hb_model_free(m);
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
        cmocka_unit_test(test_round_trip_of_test_models),
        cmocka_unit_test(test_output_mask),
        cmocka_unit_test(test_round_trip_of_priors_and_actuators),
        cmocka_unit_test(test_files_without_priors_and_actuators_are_as_before),
        cmocka_unit_test(test_hash_knows_priors_and_actuators),
        cmocka_unit_test(test_copies_take_or_leave_the_prior),
        cmocka_unit_test(test_round_trip_of_one_state_and_one_layer),
        cmocka_unit_test(test_round_trip_of_the_deepest),
        cmocka_unit_test(test_golden_parameters_lie_where_model_h_says),
        cmocka_unit_test(test_golden_files_make_models),
        cmocka_unit_test(test_malformed_models_are_refused_by_name),
        cmocka_unit_test(test_too_many_layers_are_refused),
        cmocka_unit_test(test_what_would_not_load_is_not_saved),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
