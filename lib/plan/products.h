/* Products of small matrices, in double: one implementation per instruction set, chosen at run time as kernels are
 * (dynamics/kernels.h). */
#ifndef HB_PRODUCTS_H
#define HB_PRODUCTS_H

#include <stddef.h>

typedef struct hb_products {
    const char *name; /* of the kernels that it goes with */

    /* out += x z for x of rows x inner with the given strides, so that a transpose is an exchange of strides, and z of
     * inner x width, whose rows are z_stride apart; those of out are out_stride apart. Zeros in x cost next to
     * nothing. */
    void (*add)(int rows, int inner, int width, const double *x, ptrdiff_t row, ptrdiff_t column, const double *z,
                ptrdiff_t z_stride, double *out, ptrdiff_t out_stride);
    /* the same for a square out whose lower triangle alone is wanted; up to three columns beyond it are overwritten */
    void (*add_lower)(int rows, int inner, const double *x, ptrdiff_t row, ptrdiff_t column, const double *z,
                      ptrdiff_t z_stride, double *out, ptrdiff_t out_stride);
} hb_products;

/* Those that go with hb_kernels_default. */
const hb_products *hb_products_default(void);
/* Those of that name, or the generic ones. */
const hb_products *hb_products_find(const char *kernels);

#endif
