/* Small random models of every kind, and blocks of samples for them: what the tests of derivatives go through. */
#ifndef HB_UNIT_MODELS_H
#define HB_UNIT_MODELS_H

#include "base/batch.h"
#include "model/model.h"

/* Every architecture, integration, average, activation, mask and shape of coefficients, in combinations that matter. */
extern const int nvariants;
const char *variant_name(int v);
hb_model *variant_model(int v);
/* The same at other sizes: hidden layers of `width`, nb functions. */
hb_model *variant_model_sized(int v, int nb, int width);

/* Is parameter p one of F_avg's own? */
bool belongs_to_average(const hb_model *m, size_t p);

typedef struct sample_block {
    hb_real *z, *u, *dt;
    hb_batch batch;
} sample_block;

/* n random samples, steps of different lengths; the quaternion of a 13-state model is near (0, 0, 0, 1). */
sample_block random_block(const hb_model *m, int n, uint64_t seed);
void sample_block_free(sample_block *b);

/* Rows of HB_STRIDE, aligned and zeroed; free() them. */
hb_real *new_rows(int rows);
hb_real *random_rows(int rows, uint64_t seed);
hb_real *constant_row(double value);
/* rows x HB_STRIDE from n x rows, row-major */
hb_real *rows_from(const double *samples, int n, int rows);
/* random coefficients in the model's shape */
hb_real *new_coefficients(const hb_model *m, uint64_t seed);

/* Fails with a message unless |found - expected| <= tolerance * scale; NaN is never close. scale is the size of the
 * quantity as a whole, such as largest() of a golden tensor. */
void check_close(double found, double expected, double scale, double tolerance, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
double largest(const double *x, int n);
/* Solves a x = b in place by Gaussian elimination with pivoting; b is column n of a. */
void eliminate(int n, int stride, double *a);

#endif
