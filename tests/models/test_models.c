#include "test_models.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/numeric.h"
#include "usual_model.h"

/* With the first nb basis functions, a motor of this strength as the average, and states in units of std. */
static int make_cart(hb_model **ret, int nb, hb_real strength, double std, const char *notes, hb_error *err)
{
    enum { NX = 2, NU = 1, NB = 3, IN = NX + NU, HIDDEN = 2 * IN + 1 };
    const hb_model shape = {HB_USUAL_SHARED_MODEL,
                            .nx = NX,
                            .nu = NU,
                            .nb = nb,
                            .activation = HB_RELU,
                            .average = HB_AVERAGE_HEAD,
                            .shape = HB_VECTOR,
                            .ridge = 1e-9,
                            .dt = 0.02,
                            .basis = {.nlayers = 2, .width = {0, HIDDEN}}};
    hb_model *m;
    int r = hb_model_new(&m, &shape, notes, err);

    if (r)
        return r;
    /* hidden: the positive and the negative part of each input, and a one */
    hb_real *weight = m->parameter, *bias = weight + HIDDEN * IN;
    for (int i = 0; i < IN; i++) {
        weight[2 * i * IN + i] = 1;
        weight[(2 * i + 1) * IN + i] = -1;
    }
    bias[2 * IN] = 1;
    /* head: rows of the basis, then of the average; a linear form v . input + k is one row */
    const hb_real unit = (hb_real)(1 / std);
    const struct {
        hb_real input[IN], constant;
    } form[NB + 1][NX] = {
        {{{0}, 0}, {{0, 1, 0}, 0}},
        {{{0}, 0}, {{0, 0, unit}, 0}},
        {{{0}, 0}, {{0}, unit}},
        {{{0, 1, 0}, 0}, {{0, 0, strength * unit}, 0}},
    };
    hb_real *head = bias + HIDDEN;
    for (int b = 0; b <= nb; b++)
        for (int x = 0; x < NX; x++) {
            const int f = b < nb ? b : NB;
            hb_real *row = head + (b * NX + x) * HIDDEN;
            for (int i = 0; i < IN; i++) {
                row[2 * i] = form[f][x].input[i];
                row[2 * i + 1] = -form[f][x].input[i];
            }
            row[2 * IN] = form[f][x].constant;
        }
    m->state_std[0] = m->state_std[1] = std;
    strcpy(m->state_name[0], "position");
    strcpy(m->state_unit[0], "m");
    strcpy(m->state_name[1], "velocity");
    strcpy(m->state_unit[1], "m/s");
    strcpy(m->control_name[0], "force");
    strcpy(m->control_unit[0], "N");
    m->control_min[0] = -2;
    m->control_max[0] = 2;
    hb_model_seal(m);
    *ret = m;
    return hb_model_check(m, err);
}

int hb_test_cart(hb_model **ret, hb_error *err)
{
    return make_cart(ret, 3, 1, 1, "a cart on a rail, exact", err);
}

int hb_test_wrong_cart(hb_model **ret, hb_error *err)
{
    return make_cart(ret, 1, 0.4F, 2, "a cart on a rail, wrong", err);
}

/* Weights of about 1 / sqrt(inputs), the last layer's smaller still. */
static void randomise(hb_model *m, double last)
{
    const hb_random_key key = {.seed = 20261116, .stream = 0};
    int copies = m->architecture == HB_INDEPENDENT ? m->nb : 1;
    hb_real *p = m->parameter;
    uint64_t index = 0;

    for (int i = 0; i < copies; i++)
        for (int l = 0; l < m->basis.nlayers; l++) {
            int in = m->basis.width[l], out = m->basis.width[l + 1];
            double scale = (l == m->basis.nlayers - 1 ? last : 1) / sqrt(in);
            for (int k = 0; k < in * out; k++)
                *p++ = (hb_real)(scale * hb_random_normal(key, index++));
            p += out;
        }
}

static void name_quadrotor(hb_model *m)
{
    static const char *const state[] = {"x", "vx", "y", "vy", "z", "vz", "qx", "qy", "qz", "qw", "wx", "wy", "wz"};
    static const char *const unit[] = {"m", "m/s", "m", "m/s", "m", "m/s", "", "", "", "", "rad/s", "rad/s", "rad/s"};

    for (int i = 0; i < 13; i++) {
        strcpy(m->state_name[i], state[i]);
        strcpy(m->state_unit[i], unit[i]);
    }
    m->state_mean[9] = 1;
    for (int i = 0; i < 4; i++) {
        snprintf(m->control_name[i], HB_NAME_SIZE, "f%d", i);
        strcpy(m->control_unit[i], "N");
        m->control_mean[i] = m->control_trim[i] = 0.0662;
        m->control_std[i] = 0.02;
        m->control_min[i] = 0.03;
        m->control_max[i] = 0.15;
    }
}

int hb_test_quadrotor(hb_model **ret, int nb, int width, hb_error *err)
{
    static int input[] = {1, 3, 5, 6, 7, 8, 9, 10, 11, 12}; /* free flight does not depend on position */
    const hb_nominal *nominal = hb_nominal_find("quadrotor");
    hb_model shape = {HB_USUAL_SHARED_MODEL,
                      .nx = 13,
                      .nu = 4,
                      .nb = nb,
                      .activation = HB_SILU,
                      .average = HB_AVERAGE_NOMINAL,
                      .shape = HB_VECTOR,
                      .ridge = 1e-6,
                      .dt = 0.04,
                      .ninputs = 10,
                      .input = input,
                      .nominal = nominal,
                      .basis = {.nlayers = 4, .width = {0, width, width, width}}};
    hb_model *m;

    memcpy(shape.nominal_parameter, nominal->parameter_default, sizeof shape.nominal_parameter);
    int r = hb_model_new(&m, &shape, "random weights", err);
    if (r)
        return r;
    name_quadrotor(m);
    randomise(m, 0.1);
    hb_model_seal(m);
    *ret = m;
    return hb_model_check(m, err);
}

int hb_test_paper(hb_model **ret, int nb, hb_error *err)
{
    const hb_model shape = {HB_USUAL_MODEL,
                            .nx = 13,
                            .nu = 4,
                            .nb = nb,
                            .architecture = HB_INDEPENDENT,
                            .activation = HB_RELU,
                            .average = HB_AVERAGE_NETWORK,
                            .integration = HB_SEPARATE,
                            .shape = HB_VECTOR,
                            .ridge = 1e-6,
                            .dt = 0.04,
                            .basis = {.nlayers = 5, .width = {0, 51, 51, 51, 51}},
                            .average_network = {.nlayers = 5, .width = {0, 51, 51, 51, 51}}};
    hb_model *m;
    int r = hb_model_new(&m, &shape, "random weights of the paper's size", err);

    if (r)
        return r;
    name_quadrotor(m);
    randomise(m, 0.1);
    hb_model_seal(m);
    *ret = m;
    return hb_model_check(m, err);
}
