/* Batches: many samples side by side, one vector lane each.
 *
 * A batch of an n-vector is n rows of HB_STRIDE lanes; element i of sample s is x[i * HB_STRIDE + s]:
 *
 *              sample 0   1   2  ...  n-1 | padding to a multiple of HB_LANES | unused to HB_STRIDE
 *     row 0         x00 x01 x02
 *     row 1         x10 x11 x12
 *
 * HB_STRIDE is seven AVX-512 vectors, so that the paper's 100 samples fill one block that stays in the first-level
 * cache. Larger sets are many blocks. Kernels work on whole groups of HB_LANES: the padding up to a multiple of
 * HB_LANES is computed on and overwritten, so it must be readable and should hold finite numbers (zero will do).
 * A thread may take a range of a block by offsetting all pointers by the same multiple of HB_LANES. */
#ifndef HB_BATCH_H
#define HB_BATCH_H

#include "base/base.h"

enum { HB_LANES = 16, HB_STRIDE = 112 };
enum { HB_MAX_CONTROLS = 64 }; /* of a vehicle that is planned for */

/* One integration step's input for n <= HB_STRIDE samples. */
typedef struct hb_batch {
    int n;             /* samples */
    const hb_real *z;  /* nx x HB_STRIDE, normalised states */
    const hb_real *u;  /* nu x HB_STRIDE, normalised controls, held over the step; NULL when nu = 0 */
    const hb_real *dt; /* HB_STRIDE, seconds; padding lanes too */
} hb_batch;

static inline int hb_padded(int n)
{
    return (n + HB_LANES - 1) / HB_LANES * HB_LANES;
}

/* x = mean + std z, row by row, of n samples and their padding. */
static inline void hb_batch_to_physical(int rows, int n, const double *mean, const double *std,
                                        const hb_real *restrict z, hb_real *restrict x)
{
    for (int r = 0; r < rows; r++) {
        const hb_real offset = (hb_real)mean[r], scale = (hb_real)std[r];
        for (int s = 0; s < hb_padded(n); s++)
            x[r * HB_STRIDE + s] = z[r * HB_STRIDE + s] * scale + offset;
    }
}

#endif
