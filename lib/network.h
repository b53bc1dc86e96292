/* Batched multilayer perceptrons, forward and backward, and the kernels below them.
 *
 * The batch lies in the vector lanes and weights are broadcast, so one kernel serves forward (W x) and backward
 * (W^T d: the same with the strides of W exchanged), and every sample's arithmetic is the same whatever else is in
 * the batch: results do not depend on how a batch is cut among threads. */
#ifndef HB_NETWORK_H
#define HB_NETWORK_H

#include "batch.h"
#include "model.h"

/* What a machine must do well; one implementation an instruction set, chosen at run time. All batches have
 * HB_STRIDE; n is rounded up to HB_LANES. */
typedef struct hb_kernels {
    const char *name; /* "avx512", "avx2", "neon", "generic" */
    /* y = A x + bias; A is nout x nin with the given strides, bias may be NULL */
    void (*affine)(int nout, int nin, const hb_real *a, ptrdiff_t row, ptrdiff_t column, const hb_real *bias,
                   const hb_real *x, hb_real *y, int n);
    /* dw += d x^T over samples 0..n-1 exactly, nout x nin row-major; dbias += sum of d; padding lanes of d are zero */
    void (*outer)(int nout, int nin, const hb_real *d, const hb_real *x, hb_real *dw, hb_real *dbias, int n);
    /* y = act(y) in place for `rows` rows; the derivative goes to `slope` unless that is NULL: one bit a sample for
     * ReLU (HB_STRIDE / 16 words of 16 bits a row), a number a sample otherwise */
    void (*activate)(hb_activation activation, int rows, hb_real *y, void *slope, int n);
    /* d *= slope */
    void (*times_slope)(hb_activation activation, int rows, hb_real *d, const void *slope, int n);
} hb_kernels;

/* The best of this machine, or the one that `name` asks for; NULL when there is none of that name here. */
const hb_kernels *hb_kernels_find(const char *name);
/* Those that this machine can run, best first: index from 0, NULL at the end. */
const hb_kernels *hb_kernels_at(int index);
/* What HILBERT_KERNEL asks for; without it, or when it asks for what is not to be had, the best. */
const hb_kernels *hb_kernels_default(void);

/* Bytes of the derivatives of one forward pass, kept for a backward pass without weights. */
size_t hb_network_slope_size(const hb_mlp *shape, hb_activation activation);
/* Elements of scratch for a forward or backward pass, and of the activations that a pass with weights needs. */
size_t hb_network_scratch_size(const hb_mlp *shape);
size_t hb_network_activations_size(const hb_mlp *shape);

/* out = net(in). slopes and activations are filled unless NULL (activations: the input of every layer). */
void hb_network_forward(const hb_kernels *k, const hb_mlp *shape, hb_activation activation, const hb_real *parameter,
                        const hb_real *in, hb_real *out, int n, void *slopes, hb_real *activations, hb_real *scratch);

/* din = (d out / d in)^T dout; with dparameter not NULL also adds the gradient of the parameters, which needs the
 * activations. din may be NULL. Overwrites dout's padding lanes with zero when dparameter is asked for. */
void hb_network_backward(const hb_kernels *k, const hb_mlp *shape, hb_activation activation, const hb_real *parameter,
                         hb_real *dout, hb_real *din, int n, const void *slopes, const hb_real *activations,
                         hb_real *dparameter, hb_real *scratch);

#endif
