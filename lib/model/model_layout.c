#include "model/model_layout.h"

#include <stdio.h>
#include <string.h>

#define PLACE(field) offsetof(hb_model, field)

/* choices are written through int */
_Static_assert(sizeof(hb_architecture) == sizeof(int) && sizeof(hb_integration) == sizeof(int), "enum is not int");

const hb_key hb_layout_key[HB_NKEYS] = {
    {"architecture", HB_KEY_CHOICE, PLACE(architecture), hb_architecture_name},
    {"activation", HB_KEY_CHOICE, PLACE(activation), hb_activation_name},
    {"average", HB_KEY_CHOICE, PLACE(average), hb_average_name},
    {"integration", HB_KEY_CHOICE, PLACE(integration), hb_integration_name},
    {"substeps", HB_KEY_COUNT, PLACE(substeps), NULL},
    {"method", HB_KEY_CHOICE, PLACE(method), hb_method_name},
    {"shape", HB_KEY_CHOICE, PLACE(shape), hb_shape_name},
    {"ridge", HB_KEY_NUMBER, PLACE(ridge), NULL},
    {"volume", HB_KEY_NUMBER, PLACE(volume), NULL},
    {"dt", HB_KEY_NUMBER, PLACE(dt), NULL},
};

const hb_list hb_layout_list[HB_NLISTS] = {
    {"state_names", PLACE(state_name), PLACE(nx), false},
    {"state_units", PLACE(state_unit), PLACE(nx), true},
    {"control_names", PLACE(control_name), PLACE(nu), false},
    {"control_units", PLACE(control_unit), PLACE(nu), true},
};

const hb_vector hb_layout_vector[HB_NVECTORS] = {
    {"state.mean", PLACE(state_mean), PLACE(nx), false},
    {"state.std", PLACE(state_std), PLACE(nx), false},
    {"control.mean", PLACE(control_mean), PLACE(nu), false},
    {"control.std", PLACE(control_std), PLACE(nu), false},
    {"control.min", PLACE(control_min), PLACE(nu), false},
    {"control.max", PLACE(control_max), PLACE(nu), false},
    {"control.trim", PLACE(control_trim), PLACE(nu), false},
    {"actuator.delay", PLACE(actuator_delay), PLACE(nu), true},
    {"actuator.lag", PLACE(actuator_lag), PLACE(nu), true},
    {"actuator.rate", PLACE(actuator_rate), PLACE(nu), true},
    {"prior.reference_noise", PLACE(reference_noise), PLACE(nx), true},
};

void hb_layout_prior(const hb_model *m, hb_prior_part part[HB_PRIOR_PARTS])
{
    size_t nb = (size_t)m->nb, nx = (size_t)m->nx;
    bool per_state = m->shape == HB_PER_STATE;

    part[0] = (hb_prior_part){"prior.mean", PLACE(prior_mean), per_state ? 2 : 1, {nb, nx}};
    part[1] = (hb_prior_part){"prior.covariance", PLACE(prior_covariance), per_state ? 3 : 2, {nb, nb, nb}};
    if (per_state)
        part[1].shape[0] = nx;
    part[2] = (hb_prior_part){"prior.noise", PLACE(noise), 1, {nx}};
}

const char *const hb_layout_word_key[HB_WORD_TEXTS] = {"word_names", "word_units", "word_forms"};

void hb_layout_words(const hb_model *m, hb_prior_part part[HB_WORD_PARTS])
{
    size_t n = (size_t)m->nwords;

    part[0] = (hb_prior_part){"words.offset", PLACE(word_offset), 1, {n}};
    part[1] = (hb_prior_part){"words.slope", PLACE(word_slope), 2, {n, (size_t)hb_model_ncoefficients(m)}};
    part[2] = (hb_prior_part){"words.error", PLACE(word_error), 1, {n}};
}

/* `rows` is what the tensor has of the layer's rows; leading 0: no such dimension. */
static hb_part *add_part(hb_part *p, const char *name, const char *suffix, size_t blocks, size_t rows, size_t columns,
                         size_t offset, size_t stride)
{
    size_t shape[3], rank = 0;

    if (blocks)
        shape[rank++] = blocks;
    shape[rank++] = rows;
    if (columns)
        shape[rank++] = columns;

    *p = (hb_part){.rank = (int)rank,
                   .offset = offset,
                   .blocks = blocks ? blocks : 1,
                   .stride = stride,
                   .length = rows * (columns ? columns : 1)};
    memcpy(p->shape, shape, rank * sizeof *shape);
    snprintf(p->name, sizeof p->name, "%s.%s", name, suffix);
    return p + 1;
}

/* Layers 0..nlayers-1 of a network at *offset of the parameters, which moves past them; blocks > 0: that many
 * networks of this shape one behind the other. */
static hb_part *add_layers(hb_part *p, const char *name, const hb_mlp *mlp, int nlayers, size_t blocks, size_t *offset)
{
    for (int l = 0; l < nlayers; l++) {
        size_t nin = (size_t)mlp->width[l], nout = (size_t)mlp->width[l + 1];
        char layer[32];

        snprintf(layer, sizeof layer, "%s.%d", name, l);
        p = add_part(p, layer, "weight", blocks, nout, nin, *offset, mlp->nparameters);
        p = add_part(p, layer, "bias", blocks, nout, 0, *offset + nout * nin, mlp->nparameters);
        *offset += nout * (nin + 1);
    }
    return p;
}

/* The head: nb blocks of nx rows, then those of the average; all weights, then all biases. */
static hb_part *add_head(hb_part *p, const hb_model *m)
{
    size_t nb = (size_t)m->nb, nx = (size_t)m->nx;
    const hb_head h = hb_mlp_head(&m->basis);

    if (nb) {
        p = add_part(p, "head", "weight", nb, nx, h.width, h.weight, nx * h.width);
        p = add_part(p, "head", "bias", nb, nx, 0, h.bias, nx);
    }
    if (m->average == HB_AVERAGE_HEAD) {
        p = add_part(p, "average.head", "weight", 0, nx, h.width, h.weight + nb * nx * h.width, 0);
        p = add_part(p, "average.head", "bias", 0, nx, 0, h.bias + nb * nx, 0);
    }
    return p;
}

int hb_layout_parts(const hb_model *m, hb_part part[HB_MAX_PARTS])
{
    size_t offset = 0;
    hb_part *p = part;

    if (m->architecture == HB_INDEPENDENT)
        p = add_layers(p, "basis", &m->basis, m->basis.nlayers, (size_t)m->nb, &offset);
    else if (m->basis.nlayers) {
        p = add_layers(p, "trunk", &m->basis, m->basis.nlayers - 1, 0, &offset);
        p = add_head(p, m);
    }
    offset = hb_model_average_at(m);
    p = add_layers(p, "average", &m->average_network, m->average_network.nlayers, 0, &offset);
    return (int)(p - part);
}
