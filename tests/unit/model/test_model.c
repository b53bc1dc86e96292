#include <errno.h>
#include <string.h>

#include "check.h"
#include "model/model.h"

static const hb_model good = {.nx = 3,
                              .nu = 2,
                              .nb = 4,
                              .average = HB_AVERAGE_HEAD,
                              .integration = HB_COMBINED,
                              .substeps = 1,
                              .volume = 1,
                              .dt = 0.02,
                              .basis = {.nlayers = 3, .width = {[1] = 5, [2] = 6}}};

static hb_model *make(const hb_model *shape)
{
    hb_model *m = NULL;
    hb_error err;

    if (hb_model_new(&m, shape, NULL, &err))
        fail_msg("%s", err.text);
    return m;
}

static void test_new_works_sizes_out(void **state)
{
    (void)state;
    hb_model *m = make(&good);

    assert_int_equal(m->basis.width[0], 5);
    assert_int_equal(m->basis.width[3], 15);
    assert_int_equal(m->basis.nparameters, 5 * 6 + 6 * 6 + 15 * 7);
    assert_int_equal(m->nparameters, m->basis.nparameters);
    assert_int_equal(m->average_network.nlayers, 0);
    assert_int_equal(hb_model_ncoefficients(m), 4);
    m->shape = HB_PER_STATE;
    assert_int_equal(hb_model_ncoefficients(m), 12);
    hb_model_free(m);

    hb_model shape = good;
    shape.architecture = HB_INDEPENDENT;
    shape.average = HB_AVERAGE_NETWORK;
    shape.average_network = (hb_mlp){.nlayers = 1};
    m = make(&shape);
    assert_int_equal(m->basis.nparameters, 5 * 6 + 6 * 6 + 3 * 7);
    assert_int_equal(m->average_network.nparameters, 3 * 6);
    assert_int_equal(m->nparameters, 4 * m->basis.nparameters + 18);
    hb_model_free(m);
    hb_model_free(NULL);
}

static void test_a_quaternion_is_found_by_its_names(void **state)
{
    (void)state;
    hb_model shape = good;
    shape.nx = 7;
    hb_model *m = make(&shape);
    const char *const names[3][7] = {{"x", "qx", "qx", "qy", "qz", "qw", "w"},
                                     {"x", "qx", "qy", "qz", "v", "qw", "w"},
                                     {"x", "v", "w", "qx", "qy", "qz", "qw"}};
    const int expected[3] = {2, -1, 3};

    assert_int_equal(hb_model_quaternion(m), -1);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 7; j++)
            strcpy(m->state_name[j], names[i][j]);
        assert_int_equal(hb_model_quaternion(m), expected[i]);
    }
    hb_model_free(m);
}

static void test_new_says_nothing_where_nothing_is_known(void **state)
{
    (void)state;
    hb_model *m = make(&good);

    assert_int_equal(hb_model_check(m, NULL), 0);
    assert_string_equal(m->state_name[2], "x2");
    assert_string_equal(m->control_name[1], "u1");
    assert_string_equal(m->state_unit[0], "");
    assert_string_equal(m->notes, "");
    assert_int_equal(m->ninputs, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(m->input[i], i);
        assert_true(m->state_mean[i] == 0 && m->state_std[i] == 1);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(m->control_mean[i] == 0 && m->control_std[i] == 1);
        assert_true(m->control_min[i] == -1 && m->control_max[i] == 1 && m->control_trim[i] == 0);
    }
    for (size_t i = 0; i < m->nparameters; i++)
        assert_true(m->parameter[i] == 0);
    hb_model_free(m);
}

static void assert_not_made(const hb_model *shape, const char *message)
{
    hb_model *m = NULL;
    hb_error err = {0};

    assert_int_equal(hb_model_new(&m, shape, NULL, &err), -EINVAL);
    assert_null(m);
    assert_string_equal(err.text, message);
}

static void test_new_refuses_what_makes_no_sense(void **state)
{
    (void)state;
    int descending[] = {2, 0}, outside[] = {0, 3};
    hb_model shape;

#define REFUSED(message, ...)                                                                                          \
    do {                                                                                                               \
        shape = good;                                                                                                  \
        __VA_ARGS__;                                                                                                   \
        assert_not_made(&shape, message);                                                                              \
    } while (0)

    REFUSED("the number of states is 0, expected 1 to 4096", shape.nx = 0);
    REFUSED("the number of states is 4097, expected 1 to 4096", shape.nx = 4097);
    REFUSED("the number of controls is -1, expected 0 to 4096", shape.nu = -1);
    REFUSED("the number of basis functions is 65537, expected 0 to 65536", shape.nb = 65537);
    REFUSED("the number of layers of the shared network is 0, expected 1 to 16", shape.basis.nlayers = 0);
    REFUSED("the number of layers of the shared network is 17, expected 1 to 16", shape.basis.nlayers = 17);
    REFUSED("the width of hidden layer 1 of the shared network is 0, expected 1 to 65536", shape.basis.width[2] = 0);
    REFUSED("the number of layers of the average network is 0, expected 1 to 16", shape.average = HB_AVERAGE_NETWORK);
    REFUSED("there are neither basis functions nor an average", shape.nb = 0, shape.average = HB_AVERAGE_NONE);
    REFUSED("the shared network has no inputs: neither states nor controls feed it", shape.nu = 0,
            shape.input = descending);
    REFUSED("the number of input states is 4, expected 0 to 3", shape.input = descending, shape.ninputs = 4);
    REFUSED("input states are not in ascending order: 0 comes after 2", shape.input = descending, shape.ninputs = 2);
    REFUSED("an input state's index is 3, expected 0 to 2", shape.input = outside, shape.ninputs = 2);
    REFUSED("the average is nominal, but no nominal model is named", shape.average = HB_AVERAGE_NOMINAL);
    REFUSED("a nominal model gives rates of change: integration is separate or combined, not direct",
            shape.average = HB_AVERAGE_NOMINAL, shape.integration = HB_DIRECT);
    REFUSED("3 states and 2 controls, but the nominal model 'quadrotor' has 13 and 4",
            shape.average = HB_AVERAGE_NOMINAL, shape.nominal = hb_nominal_find("quadrotor"));
    REFUSED("dt is nan, expected a finite number above 0", shape.dt = NAN);
    REFUSED("ridge is inf, expected a finite number, 0 or above", shape.ridge = INFINITY);
#undef REFUSED
}

static void test_a_network_without_outputs_is_none(void **state)
{
    (void)state;
    hb_model shape = good;

    /* a plain neural ODE */
    shape.nb = 0;
    shape.average = HB_AVERAGE_NETWORK;
    shape.average_network = (hb_mlp){.nlayers = 2, .width = {[1] = 8}};
    hb_model *m = make(&shape);
    assert_int_equal(m->basis.nlayers, 0);
    assert_int_equal(m->nparameters, m->average_network.nparameters);
    assert_int_equal(hb_model_ncoefficients(m), 0);
    hb_model_free(m);
}

static void test_hash_names_content_but_not_notes(void **state)
{
    (void)state;
    hb_model *a = make(&good), *b = NULL;

    assert_int_equal(hb_model_new(&b, &good, "other notes", NULL), 0);
    assert_int_equal(a->hash, b->hash);

#define CHANGES_HASH(field, value)                                                                                     \
    do {                                                                                                               \
        b->field = value;                                                                                              \
        hb_model_seal(b);                                                                                              \
        assert_int_not_equal(a->hash, b->hash);                                                                        \
        b->field = a->field;                                                                                           \
        hb_model_seal(b);                                                                                              \
        assert_int_equal(a->hash, b->hash);                                                                            \
    } while (0)

    CHANGES_HASH(parameter[100], 1);
    CHANGES_HASH(dt, 0.03);
    CHANGES_HASH(activation, HB_SILU);
    CHANGES_HASH(method, HB_INNER_PRODUCT);
    CHANGES_HASH(state_name[1][0], 'y');
    CHANGES_HASH(control_unit[1][0], 'N');
    CHANGES_HASH(state_std[2], 2);
    CHANGES_HASH(control_trim[0], 0.5);
    CHANGES_HASH(input[2], 1);
#undef CHANGES_HASH
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_works_sizes_out),
        cmocka_unit_test(test_a_quaternion_is_found_by_its_names),
        cmocka_unit_test(test_new_says_nothing_where_nothing_is_known),
        cmocka_unit_test(test_new_refuses_what_makes_no_sense),
        cmocka_unit_test(test_a_network_without_outputs_is_none),
        cmocka_unit_test(test_hash_names_content_but_not_notes),
        cmocka_unit_test(test_least_squares_basis_refuses_inner_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
