/* The inner loops: one implementation per instruction set, chosen at run time.
 *
 * The batch lies in the vector lanes and matrix elements are broadcast. Each sample's arithmetic is the same whatever
 * else is in the batch, so results do not depend on how a batch is cut among threads. */
#ifndef HB_KERNELS_H
#define HB_KERNELS_H

#include "base/batch.h"
#include "model/model.h"

/* Memory that will be wanted after the present work: every tile of a product fetches a little of it into the caches. */
typedef struct hb_ahead {
    const char *at, *end;           /* first this, */
    const char *at_next, *end_next; /* then this */
} hb_ahead;

static inline void hb_ahead_fetch(hb_ahead *a)
{
    enum { LINE = 64, LINES = 8 };

    if (!a)
        return;
    for (int i = 0; i < LINES && a->at < a->end; i++, a->at += LINE)
        __builtin_prefetch(a->at, 0, 2);
    if (a->at >= a->end && a->at_next)
        *a = (hb_ahead){.at = a->at_next, .end = a->end_next};
}

enum { HB_FEW = 4 }; /* samples that are faster side by side with the lanes along the outputs */

typedef struct hb_kernels {
    const char *name; /* "avx512", "avx2", "neon", "generic" */

    /* y = A x + bias. A is nout x nin with the given strides, so that a transpose is an
     * exchange of strides; bias may be NULL. x and y have rows of n lanes (a multiple of HB_LANES), x_stride and
     * y_stride apart, aligned to HB_ALIGNMENT. Here and below `ahead` may be NULL. */
    void (*affine)(int nout, int nin, const hb_real *a, ptrdiff_t row, ptrdiff_t column, const hb_real *bias,
                   const hb_real *x, ptrdiff_t x_stride, hb_real *y, ptrdiff_t y_stride, int n, hb_ahead *ahead);

    /* y = A x + bias for one sample, everything contiguous: the lanes lie along the rows of A instead */
    void (*affine_single)(int nout, int nin, const hb_real *a, const hb_real *bias, const hb_real *x, hb_real *y);

    /* y = act(A x + bias), or without the activation, for n <= HB_FEW samples of contiguous numbers, x_stride and
     * y_stride apart. columns: those of A, one after the other, and then the bias, each hb_padded(nout) long and
     * aligned; so is what is written of y. The lanes lie along the columns. Every number is worked out as affine and
     * activate do it, to the last bit. */
    void (*few)(bool activated, hb_activation activation, int nout, int nin, const hb_real *columns, int n,
                const hb_real *x, ptrdiff_t x_stride, hb_real *y, ptrdiff_t y_stride);

    /* y = act(y) in place, `rows` rows of HB_STRIDE, n lanes; the derivative goes to `slope` unless that is NULL. What
     * a slope looks like is the kernel's own affair: one bit per sample for ReLU, a number per sample otherwise. */
    void (*activate)(hb_activation activation, int rows, hb_real *y, void *slope, int n);
    /* y = act(A x + bias) for A of nout x nin, row by row; rows of x and y are HB_STRIDE apart; slope as above */
    void (*layer)(hb_activation activation, int nout, int nin, const hb_real *a, const hb_real *bias, const hb_real *x,
                  hb_real *y, void *slope, int n, hb_ahead *ahead);
    /* below = slope * (A^T d): the way back through A to the layer below, which left the slope */
    void (*layer_back)(hb_activation activation, int nout, int nin, const hb_real *a, const hb_real *d, hb_real *below,
                       const void *slope, int n, hb_ahead *ahead);

    /* d = slope * d of `rows` rows, in place */
    void (*times_slope)(hb_activation activation, int rows, hb_real *d, const void *slope, int n);

    /* weight += d x^T and bias += the row sums of d, over n lanes: gradients of a layer's weights (nout x nin) and
     * biases, both contiguous; rows of d and x are HB_STRIDE apart */
    void (*outer)(int nout, int nin, const hb_real *d, const hb_real *x, hb_real *weight, hb_real *bias, int n);

    /* y = base + factor * of_row[r] * of_lane[s] * x for rows of HB_STRIDE, n lanes. NULL: base 0, of_row 1, of_lane 1.
     * y may be base or x. Here rows need no alignment. */
    void (*combine)(int rows, int n, const hb_real *base, hb_real factor, const hb_real *of_row, const hb_real *of_lane,
                    const hb_real *x, hb_real *y);
} hb_kernels;

/* Bytes of the slopes of `rows` rows. */
size_t hb_kernels_slope_size(hb_activation activation, int rows);

/* A row's lanes copied out: lane s of `to` is lane (first + s) / repeat of `from`, for n lanes and their padding, which
 * repeats the last. `rows` rows of numbers; or the slopes of `rows` rows, as hb_kernels.activate leaves them. Whatever
 * lies in `to` behind the padding is overwritten. */
void hb_kernels_spread(int rows, const hb_real *from, int first, int repeat, int n, hb_real *to);
void hb_kernels_spread_slopes(hb_activation activation, int rows, const void *from, int first, int repeat, int n,
                              void *to);

/* Those that this machine can run, best first: index from 0, NULL at the end. */
const hb_kernels *hb_kernels_at(int index);
/* The one of that name; NULL when this machine has none such. */
const hb_kernels *hb_kernels_find(const char *name);
/* What the environment's HILBERT_KERNEL asks for; without it, or when this machine cannot run that one, the best. */
const hb_kernels *hb_kernels_default(void);

#endif
