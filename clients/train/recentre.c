#include "train/recentre.h"

#include <errno.h>
#include <stdlib.h>

#include "train/function_fit.h"

/* a stream that no gradient step has */
static const uint64_t centre_stream = UINT64_MAX - 4;

static int add_coefficients(const hb_model *m, hb_function_fit *fitter, int function, hb_random_key key, uint64_t index,
                            double weight, hb_real *c, double *mean)
{
    hb_fit *f = hb_function_fit_run(fitter, function, key, index);

    if (!f || hb_fit_coefficients(f, m->nb, c))
        return -1;
    for (int i = 0; i < hb_model_ncoefficients(m); i++)
        mean[i] += weight * (double)c[i];
    return 0;
}

/* the last layer of the network is the head: rows of all basis functions, then of the average */
static void move_average(hb_model *m, const double *mean)
{
    const hb_head h = hb_mlp_head(&m->basis);
    size_t nx = (size_t)m->nx, nb = (size_t)m->nb, width = h.width;
    hb_real *weight = m->parameter + h.weight, *bias = m->parameter + h.bias;

    for (size_t i = 0; i < nb * nx; i++) {
        hb_real c = (hb_real)mean[m->shape == HB_PER_STATE ? i : i / nx];
        size_t average = nb * nx + i % nx;
        for (size_t k = 0; k < width; k++)
            weight[average * width + k] += c * weight[i * width + k];
        bias[average] += c * bias[i];
    }
}

int hb_recentre(hb_model *m, const hb_dataset *d, const int *function, int nfunctions, int examples, uint64_t seed,
                const hb_watch *watch, hb_error *err)
{
    if (m->average != HB_AVERAGE_HEAD || m->nb == 0)
        return 0;

    size_t nc = (size_t)hb_model_ncoefficients(m);
    hb_random_key key = {.seed = seed, .stream = centre_stream};
    hb_function_fit *fitter = NULL;
    hb_real *c = calloc(nc, sizeof *c);
    double *mean = calloc(nc, sizeof *mean);
    int status = c && mean ? hb_function_fit_new(&fitter, m, d, examples, hb_fit_refinements(m), err)
                           : hb_fail(err, ENOMEM, "out of memory");

    for (int k = 0; k < nfunctions && !status; k++)
        if (!(status = hb_watch_at(watch, (double)k / nfunctions, err)) &&
            add_coefficients(m, fitter, function[k], key, (uint64_t)k << 32, 1.0 / nfunctions, c, mean))
            status = hb_fail(err, ERANGE, "function %d: the model is not finite", d->function[function[k]].id);
    if (!status)
        move_average(m, mean);
    hb_function_fit_free(fitter);
    free(mean);
    free(c);
    return status;
}
