/* Golden vectors: models, inputs and expected outputs computed by PyTorch in double precision (tests/data/golden).
 *
 *     golden *g = golden_open("shared_scalar_least_squares_silu");
 *     const double *z = golden_get(g, "in.z");         p x nx, row-major
 *     hb_basis_increments(g->model, ...)
 *     golden_close(g);
 *
 * The model is a full hb_model: parameters, dt, ridge, method and shape are those of the file, its state_mean and
 * state_std are the file's in.state_mean and in.state_std, controls are not normalised (mean 0, std 1, bounds -1..1,
 * trim 0). Independent models integrate `separate`, shared ones `combined`, one sub-step.
 *
 * Tensors (p = 40 transitions, ns = 6 sequences of nh = 10 steps; z and c are normalised quantities):
 *
 *     in.z, in.u, in.z_next        [p, nx], [p, nu], [p, nx]
 *     out.increments               [p, nb + 1, nx], the average last ([p, nb, nx] without one); stage points along
 *                                  the average alone
 *     out.coefficients             [nb] or [nb, nx], of these transitions
 *     out.one_step                 [p, nx], prediction from in.z with these coefficients
 *     in.z0, in.actions            [nx], [ns, nh, nu]
 *     out.trajectory               [ns, nh + 1, nx], normalised states from in.z0
 *     out.cost, out.cost_gradient  [ns], [ns, nh, nu]: only of files with nx = 13
 *
 * A file that cannot be read, or a tensor that is not there, fails the test. */
#ifndef HB_GOLDEN_H
#define HB_GOLDEN_H

#include "model/model.h"
#include "model/safetensors.h"

/* All files, without folder and suffix; NULL at the end. */
extern const char *const golden_names[];

typedef struct golden {
    const char *name;
    hb_model *model;
    hb_safetensors *file;
    int nkept; /* arrays handed out */
    double *kept[32];
} golden;

golden *golden_open(const char *name);
void golden_close(golden *g);

/* A tensor's elements, valid until golden_close. */
const double *golden_get(golden *g, const char *name);
/* A tensor's length along one dimension: golden_size(g, "in.z", 0) is p. */
int golden_size(const golden *g, const char *name, int dimension);

#endif
