/* Uniform within +-1 / sqrt(fan-in), as PyTorch's default. Then the last layer of the basis is scaled so that diag A,
 * the mean of G_i^2 over the data, is 1: what the regulariser asks for, and what makes the ridge mean the same for
 * every model. Without it Adam spends its first thousands of steps on growing weights by 1 / dt. The last layer of the
 * average starts at zero: what is not known yet does not move. */
#include "train/initial.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/function_fit.h"

enum { SCALING_FUNCTIONS = 16, SCALING_ROUNDS = 4 };

/* random numbers of the parameters: a stream that no gradient step has */
static const uint64_t parameter_stream = UINT64_MAX;

/* layers of an MLP: uniform within +-1 / sqrt(fan-in) */
static size_t fill_mlp(const hb_mlp *mlp, hb_real *parameter, hb_random_key key, uint64_t index)
{
    hb_real *p = parameter;
    for (int layer = 0; layer < mlp->nlayers; layer++) {
        int nin = mlp->width[layer], nout = mlp->width[layer + 1];
        double bound = 1 / sqrt(nin);
        for (size_t i = 0; i < (size_t)nout * ((size_t)nin + 1); i++, p++)
            *p = (hb_real)(bound * (2 * hb_random_uniform(key, index++) - 1));
    }
    return (size_t)(p - parameter);
}

/* the last layer's weights and biases of output rows first .. first + count - 1, times a factor */
static void scale_rows(const hb_mlp *mlp, hb_real *parameter, size_t first, size_t count, double factor)
{
    const hb_head h = hb_mlp_head(mlp);
    hb_real *weight = parameter + h.weight, *bias = parameter + h.bias;

    for (size_t i = first * h.width; i < (first + count) * h.width; i++)
        weight[i] = (hb_real)((double)weight[i] * factor);
    for (size_t i = first; i < first + count; i++)
        bias[i] = (hb_real)((double)bias[i] * factor);
}

/* copies the given average: a network of its own, or the trunk with the average's rows of the head */
static void copy_average(hb_model *m, const hb_model *g)
{
    hb_real *to = m->parameter + hb_model_average_at(m);

    if (g->average == HB_AVERAGE_NETWORK) {
        memcpy(to, g->parameter + hb_model_average_at(g), g->average_network.nparameters * sizeof *to);
    } else if (g->average == HB_AVERAGE_HEAD) {
        const hb_head from = hb_mlp_head(&g->basis), own = hb_mlp_head(&m->average_network);
        size_t nx = (size_t)g->nx, first = from.rows - nx;
        memcpy(to, g->parameter, from.weight * sizeof *to);
        memcpy(to + own.weight, g->parameter + from.weight + first * from.width, nx * from.width * sizeof *to);
        memcpy(to + own.bias, g->parameter + from.bias + first, nx * sizeof *to);
    }
}

static hb_real *basis_parameters(const hb_model *m, size_t basis)
{
    return m->parameter + (m->architecture == HB_SHARED ? 0 : basis * m->basis.nparameters);
}

/* one round: scales every basis function so that its diag A becomes 1 */
static void scale_once(hb_model *m, hb_function_fit *fitter, const hb_dataset *d, hb_random_key key, double *diagonal)
{
    size_t nb = (size_t)m->nb, nx = (size_t)m->nx, nsystems = m->shape == HB_PER_STATE ? nx : 1;
    int nfunctions = d->nfunctions < SCALING_FUNCTIONS ? d->nfunctions : SCALING_FUNCTIONS;

    memset(diagonal, 0, nsystems * nb * sizeof *diagonal);
    for (int k = 0; k < nfunctions; k++) {
        int function = (int)((int64_t)d->nfunctions * k / nfunctions);
        const hb_fit *f = hb_function_fit_run(fitter, function, key, (uint64_t)(k + 1) << 40);
        for (size_t i = 0; f && i < nsystems * nb; i++)
            diagonal[i] += f->last->gram[i / nb * nb * nb + i % nb * (nb + 1)] / nfunctions;
    }
    for (size_t i = 0; i < nb; i++)
        for (size_t system = 0; system < nsystems; system++) {
            double size = sqrt(diagonal[system * nb + i]);
            if (!(size > 1e-12) || !isfinite(size))
                continue;
            size_t first = (m->architecture == HB_SHARED ? i * nx : 0) + (nsystems > 1 ? system : 0);
            scale_rows(&m->basis, basis_parameters(m, i), first, nsystems > 1 ? 1 : nx, 1 / size);
        }
}

/* where every basis function runs along a trajectory of its own, its increment is not linear in the scale: so it takes
 * several rounds */
static int scale_basis(hb_model *m, const hb_dataset *d, hb_random_key key, hb_error *err)
{
    hb_function_fit *fitter = NULL;
    double *diagonal = calloc((size_t)m->nb * (size_t)m->nx, sizeof *diagonal);
    int status =
        diagonal ? hb_function_fit_new(&fitter, m, d, HB_STRIDE, 0, err) : hb_fail(err, ENOMEM, "out of memory");

    for (int round = 0; !status && round < (m->integration == HB_SEPARATE ? SCALING_ROUNDS : 1); round++)
        scale_once(m, fitter, d, key, diagonal);
    hb_function_fit_free(fitter);
    free(diagonal);
    return status;
}

int hb_initial_parameters(hb_model *m, const hb_dataset *d, uint64_t seed, const hb_model *given, hb_error *err)
{
    hb_random_key key = {.seed = seed, .stream = parameter_stream};
    size_t networks = m->architecture == HB_SHARED ? (m->basis.nlayers > 0) : (size_t)m->nb, at = 0;

    for (size_t i = 0; i < networks; i++)
        at += fill_mlp(&m->basis, m->parameter + at, key, at);
    fill_mlp(&m->average_network, m->parameter + at, key, at);

    hb_model_mask(m, m->parameter);
    if (m->average == HB_AVERAGE_HEAD)
        scale_rows(&m->basis, m->parameter, (size_t)m->nb * (size_t)m->nx, (size_t)m->nx, 0);
    if (m->average == HB_AVERAGE_NETWORK)
        scale_rows(&m->average_network, m->parameter + at, 0, (size_t)m->nx, 0);
    if (given)
        copy_average(m, given);
    return m->nb > 0 ? scale_basis(m, d, key, err) : 0;
}
