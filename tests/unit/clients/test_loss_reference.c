/* The loss of one function and its gradient, in the product's number type, against data/loss_reference.py: autograd of
 * PyTorch in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train/loss.h"
#include "model/safetensors.h"

enum { NX = 4, NU = 2, NB = 3, MAX_NUMBERS = 4096 };

static hb_safetensors *load(const char *name)
{
    char path[1024];
    hb_safetensors *f = NULL;
    hb_error err = {0};

    snprintf(path, sizeof path, "%s/%s", getenv("HILBERT_TEST_DATA"), name);
    if (hb_safetensors_load(&f, path, &err))
        fail_msg("%s", err.text);
    return f;
}

static const hb_tensor *read_numbers(const hb_safetensors *f, const char *name, double *to)
{
    const hb_tensor *t = hb_safetensors_find(f, name);
    assert_non_null(t);
    assert_true(hb_tensor_count(t) <= MAX_NUMBERS);
    assert_int_equal(hb_safetensors_doubles(f, t, to, NULL), 0);
    return t;
}

static int choose(const char *const *names, const char *wanted)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], wanted) == 0)
            return i;
    fail_msg("no '%s'", wanted);
    return -1;
}

static hb_model *make_model(const hb_safetensors *f)
{
    hb_architecture architecture =
        (hb_architecture)choose(hb_architecture_name, hb_safetensors_text(f, "architecture"));
    bool shared = architecture == HB_SHARED;
    hb_model *m = NULL,
             shape = {.nx = NX,
                      .nu = NU,
                      .nb = NB,
                      .architecture = architecture,
                      .activation = (hb_activation)choose(hb_activation_name, hb_safetensors_text(f, "activation")),
                      .average = shared ? HB_AVERAGE_HEAD : HB_AVERAGE_NETWORK,
                      .integration = shared ? HB_COMBINED : HB_SEPARATE,
                      .substeps = 1,
                      .method = (hb_method)choose(hb_method_name, hb_safetensors_text(f, "method")),
                      .shape = (hb_shape)choose(hb_shape_name, hb_safetensors_text(f, "coefficients")),
                      .ridge = 1e-2,
                      .volume = 2,
                      .dt = 0.1,
                      .basis = {.nlayers = 3, .width = {0, 7, 6}},
                      .average_network = {.nlayers = 3, .width = {0, 7, 6}}};
    double parameter[MAX_NUMBERS];
    hb_error err = {0};

    if (hb_model_new(&m, &shape, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(hb_tensor_count(read_numbers(f, "parameter", parameter)), m->nparameters);
    for (size_t i = 0; i < m->nparameters; i++)
        m->parameter[i] = (hb_real)parameter[i];
    return m;
}

/* steps x samples x width into rows of lanes */
static void spread(const hb_safetensors *f, const char *set, const char *what, int width, const hb_points *p,
                   hb_real *(*rows)(const hb_points *, int, int))
{
    double number[MAX_NUMBERS];
    char name[32];

    snprintf(name, sizeof name, "%s.%s", set, what);
    const hb_tensor *t = read_numbers(f, name, number);
    for (int step = 0; step < (int)t->shape[0]; step++)
        for (int s = 0; s < p->n; s++)
            for (int i = 0; i < width; i++)
                rows(p, s / HB_STRIDE, step)[i * HB_STRIDE + s % HB_STRIDE] =
                    (hb_real)number[(step * p->n + s) * width + i];
}

/* returns the memory of the points */
static void *read_points(const hb_safetensors *f, const char *set, hb_points *p)
{
    char name[32];
    snprintf(name, sizeof name, "%s.u", set);
    const hb_tensor *t = hb_safetensors_find(f, name);
    assert_non_null(t);

    hb_arena arena = {0};
    hb_points_lay_out(p, NX, NU, (int)t->shape[1], (int)t->shape[0], &arena);
    assert_int_equal(hb_arena_allocate(&arena, NULL), 0);
    hb_points_lay_out(p, NX, NU, (int)t->shape[1], (int)t->shape[0], &arena);
    spread(f, set, "z", NX, p, hb_points_states);
    spread(f, set, "u", NU, p, hb_points_controls);
    spread(f, set, "dt", 1, p, hb_points_dt);
    return arena.base;
}

static void check(const char *name)
{
    hb_safetensors *f = load(name);
    hb_model *m = make_model(f);
    hb_points example, query;
    void *example_memory = read_points(f, "example", &example), *query_memory = read_points(f, "query", &query);
    double weight[MAX_NUMBERS], terms[MAX_NUMBERS], expected[MAX_NUMBERS], error = 0, norm = 0;
    hb_real *gradient = calloc(m->nparameters, sizeof *gradient);
    hb_loss *l = NULL;
    hb_loss_terms t;

    read_numbers(f, "weight", weight);
    read_numbers(f, "terms", terms);
    read_numbers(f, "gradient", expected);
    hb_loss_settings settings = {
        .regulariser = 0.7, .weight = weight, .refinements = atoi(hb_safetensors_text(f, "refinements"))};
    assert_int_equal(hb_loss_new(&l, m, &settings, example.n, query.nsteps, NULL), 0);
    assert_int_equal(hb_loss_evaluate(l, &example, &query, 0, 1, gradient, &t), 0);

    if (!(fabs(t.query - terms[0]) <= 1e-5 * terms[0] && fabs(t.regulariser - terms[1]) <= 1e-5 * terms[1] &&
          fabs(t.average - terms[2]) <= 1e-5 * terms[2]))
        fail_msg("%s: loss %.9g %.9g %.9g, expected %.9g %.9g %.9g", name, t.query, t.regulariser, t.average, terms[0],
                 terms[1], terms[2]);
    for (size_t i = 0; i < m->nparameters; i++) {
        error += pow((double)gradient[i] - expected[i], 2);
        norm += pow(expected[i], 2);
    }
    if (!(sqrt(error) <= 1e-5 * sqrt(norm)))
        fail_msg("%s: gradient is off by %g of its norm", name, sqrt(error / norm));

    hb_loss_free(l);
    free(gradient);
    free(example_memory);
    free(query_memory);
    hb_model_free(m);
    hb_safetensors_free(f);
}

static void test_shared_vector(void **state)
{
    (void)state;
    check("loss_shared_least_squares_vector.safetensors");
}

static void test_shared_per_state(void **state)
{
    (void)state;
    check("loss_shared_least_squares_per_state.safetensors");
}

static void test_shared_vector_refined(void **state)
{
    (void)state;
    check("loss_shared_least_squares_vector_refined.safetensors");
}

static void test_shared_per_state_refined(void **state)
{
    (void)state;
    check("loss_shared_least_squares_per_state_refined.safetensors");
}

static void test_independent_inner_product(void **state)
{
    (void)state;
    check("loss_independent_inner_product_per_state.safetensors");
}

static void test_independent_least_squares(void **state)
{
    (void)state;
    check("loss_independent_least_squares_vector.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_vector),
        cmocka_unit_test(test_shared_per_state),
        cmocka_unit_test(test_shared_vector_refined),
        cmocka_unit_test(test_shared_per_state_refined),
        cmocka_unit_test(test_independent_inner_product),
        cmocka_unit_test(test_independent_least_squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
