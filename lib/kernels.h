/* What a machine must do well: one implementation an instruction set, chosen at run time.
 *
 * The batch lies in the vector lanes and matrix elements are broadcast. Each sample's arithmetic is the same whatever
 * else is in the batch, so results do not depend on how a batch is cut among threads. */
#ifndef HB_KERNELS_H
#define HB_KERNELS_H

#include "batch.h"
#include "model.h"

typedef struct hb_kernels {
    const char *name; /* "avx512", "avx2", "neon", "generic" */

    /* y = A x + bias. A is nout x nin with the given strides, so that a transpose is an
     * exchange of strides; bias may be NULL. x and y have rows of n lanes (a multiple of HB_LANES), x_stride and
     * y_stride apart, aligned to HB_ALIGNMENT. */
    void (*affine)(int nout, int nin, const hb_real *a, ptrdiff_t row, ptrdiff_t column, const hb_real *bias,
                   const hb_real *x, ptrdiff_t x_stride, hb_real *y, ptrdiff_t y_stride, int n);

    /* y = A x + bias for one sample, everything contiguous: the lanes lie along the rows of A instead */
    void (*affine_single)(int nout, int nin, const hb_real *a, const hb_real *bias, const hb_real *x, hb_real *y);

    /* y = act(y) in place, `rows` rows of HB_STRIDE, n lanes; the derivative goes to `slope` unless that is NULL. What
     * a slope looks like is the kernel's own affair: one bit a sample for ReLU, a number a sample otherwise. */
    void (*activate)(hb_activation activation, int rows, hb_real *y, void *slope, int n);
    /* d *= slope */
    void (*times_slope)(hb_activation activation, int rows, hb_real *d, const void *slope, int n);
} hb_kernels;

/* Bytes of the slopes of `rows` rows. */
size_t hb_kernels_slope_size(hb_activation activation, int rows);

/* Those that this machine can run, best first: index from 0, NULL at the end. */
const hb_kernels *hb_kernels_at(int index);
/* The one of that name; NULL when this machine has none such. */
const hb_kernels *hb_kernels_find(const char *name);
/* What the environment's HILBERT_KERNEL asks for; without it, or when it cannot be had here, the best. */
const hb_kernels *hb_kernels_default(void);

#endif
