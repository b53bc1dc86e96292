/* Dense linear algebra in double precision and random numbers. The only module that sees cblas and lapack. */
#ifndef HB_NUMERIC_H
#define HB_NUMERIC_H

#include <math.h>
#include <stdbool.h>

#include "base/base.h"

/* Keeps BLAS to one thread in the whole process, because we place threads ourselves. Call it once, at the start. */
void hb_numeric_single_thread(void);

static inline bool hb_all_finite(const double *x, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* 0 of a finite number, NaN of another: of a sum of these `== 0` says that all numbers were finite, with one comparison
 * and in loops that a compiler can keep in vectors. */
static inline double hb_zero_if_finite(double x)
{
    return 0 * x;
}

/* The same of x in the precision of networks: a number too large for that is not finite either. */
static inline double hb_zero_if_finite_real(double x)
{
    return hb_zero_if_finite((double)(hb_real)x);
}

/* In place Cholesky factor of the symmetric n x n matrix a (row-major, lower triangle read and written).
 * Returns 0, or -1 when a is not positive definite. */
int hb_cholesky(int n, double *a);
/* b = (L L^T)^-1 b for a factor from hb_cholesky, b: n x nrhs with right-hand sides as rows of n (nrhs x n). */
void hb_cholesky_solve(int n, const double *factor, int nrhs, double *b);
/* (L L^T)^-1 in the place of its factor; lower triangle. */
void hb_cholesky_invert(int n, double *factor);
/* Largest column sum of absolute values, of a symmetric n x n matrix of which the lower triangle is given; scratch: n.
 */
double hb_norm_one(int n, const double *a, double *scratch);
/* Eigenvalues (ascending) and eigenvectors (rows) of a symmetric matrix, in place; scratch from malloc: offline only.
 */
int hb_symmetric_eigen(int n, double *a, double *value, hb_error *err);
/* c += alpha x x^T for m rows of x (m x n, row-major), lower triangle. */
void hb_rank_update(int n, int m, double alpha, const double *x, double *c);

/* c = a b for row-major matrices, c: m x n, with k summed over; a or b may be taken transposed. lda, ldb: numbers from
 * one row to the next, as they are stored. */
void hb_multiply(int m, int n, int k, const hb_real *a, int lda, bool transpose_a, const hb_real *b, int ldb,
                 bool transpose_b, hb_real *c);

/* Random numbers by counter: the value depends on (seed, stream, index) alone, not on the order of calls or on
 * threads. Philox 4x32-10. */
typedef struct hb_random_key {
    uint64_t seed;
    uint64_t stream; /* a tick, an episode, a gradient step ... */
} hb_random_key;

uint64_t hb_random_bits(hb_random_key key, uint64_t index);
double hb_random_uniform(hb_random_key key, uint64_t index); /* [0, 1) */
double hb_random_normal(hb_random_key key, uint64_t index);

/* 64-bit FNV-1a style hash, for naming models and data sets. Start with HB_HASH_START. */
#define HB_HASH_START 0xcbf29ce484222325u
uint64_t hb_hash(uint64_t state, const void *data, size_t size);

#endif
