#include "dynamics/collapse.h"

#include <string.h>

#include "dynamics/field.h"

hb_mlp hb_collapsed_shape(const hb_model *m)
{
    const hb_head h = hb_mlp_head(&m->basis);
    hb_mlp shape = m->basis;

    shape.nparameters -= (h.rows - (size_t)m->nx) * (h.width + 1);
    shape.width[shape.nlayers] = m->nx;
    return shape;
}

void hb_collapse(const hb_model *m, hb_shape shape, const hb_real *coefficient, hb_real *weight, hb_real *bias)
{
    const hb_head h = hb_mlp_head(&m->basis);
    const size_t nx = (size_t)m->nx, nb = (size_t)m->nb;

    memset(weight, 0, nx * h.width * sizeof *weight);
    memset(bias, 0, nx * sizeof *bias);
    for (size_t i = coefficient ? 0 : nb; i < h.rows / nx; i++)
        for (size_t r = 0; r < nx; r++) {
            const hb_real c = i == nb ? 1 : coefficient[shape == HB_PER_STATE ? i * nx + r : i];
            const hb_real *restrict from = m->parameter + h.weight + (i * nx + r) * h.width;
            hb_real *restrict to = weight + r * h.width;
            for (size_t k = 0; k < h.width; k++)
                to[k] += c * from[k];
            bias[r] += c * m->parameter[h.bias + i * nx + r];
        }
}

void hb_uncollapse(const hb_model *m, hb_shape shape, const hb_real *coefficient, hb_blocks blocks,
                   const hb_real *dweight, const hb_real *dbias, hb_real *dparameter, hb_real *dcoefficient)
{
    const hb_head h = hb_mlp_head(&m->basis);
    const size_t nx = (size_t)m->nx, nb = (size_t)m->nb;
    const size_t first = blocks == HB_BLOCK_OF_AVERAGE ? nb : 0, end = blocks == HB_BLOCK_OF_AVERAGE ? h.rows / nx : nb;

    for (size_t i = first; i < end; i++)
        for (size_t r = 0; r < nx; r++) {
            const size_t row = i * nx + r, at = shape == HB_PER_STATE ? row : i, start = h.weight + row * h.width;
            const hb_real c = i == nb ? 1 : coefficient[at];
            const hb_real *restrict from = dweight + r * h.width;
            hb_real *restrict to = dparameter + start;
            for (size_t k = 0; k < h.width; k++)
                to[k] += c * from[k];
            dparameter[h.bias + row] += c * dbias[r];
            if (i < nb)
                dcoefficient[at] +=
                    m->parameter[h.bias + row] * dbias[r] + hb_dot((int)h.width, m->parameter + start, from);
        }
}
