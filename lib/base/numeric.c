/* Dense linear algebra by OpenBLAS, and random numbers by counter.
 *
 * Matrices are row-major here and column-major in LAPACK. All of ours are symmetric, so nothing is transposed: the
 * lower triangle by rows is the upper triangle by columns, and LAPACK is told "U".
 *
 *     row-major L:  l00                 column-major U = L^T:  l00 l10 l20
 *                   l10 l11             (the same bytes)           l11 l21
 *                   l20 l21 l22                                        l22
 */
#include "base/numeric.h"

#include <cblas.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* LAPACK as Fortran compilers name it: everything by address, lengths of strings last */
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t);
void dpotrs_(const char *uplo, const int *n, const int *nrhs, const double *a, const int *lda, double *b,
             const int *ldb, int *info, size_t);
void dpotri_(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t);
void dsyevd_(const char *jobz, const char *uplo, const int *n, double *a, const int *lda, double *w, double *work,
             const int *lwork, int *iwork, const int *liwork, int *info, size_t, size_t);

void hb_numeric_single_thread(void)
{
    openblas_set_num_threads(1);
}

int hb_cholesky(int n, double *a)
{
    int info = 0;

    if (n == 0)
        return 0;
    dpotrf_("U", &n, a, &n, &info, 1);
    if (info)
        return -1;

    /* NaN and Inf pass through LAPACK unseen, but always reach the diagonal */
    for (int i = 0; i < n; i++) {
        double pivot = a[(size_t)i * (size_t)n + (size_t)i];
        if (!(pivot > 0) || isinf(pivot))
            return -1;
    }
    return 0;
}

void hb_cholesky_solve(int n, const double *factor, int nrhs, double *b)
{
    int info = 0;

    if (n > 0 && nrhs > 0)
        dpotrs_("U", &n, &nrhs, factor, &n, b, &n, &info, 1);
}

void hb_cholesky_invert(int n, double *factor)
{
    int info = 0;

    if (n > 0)
        dpotri_("U", &n, factor, &n, &info, 1);
}

double hb_norm_one(int n, const double *a, double *column)
{
    double most = 0;

    memset(column, 0, (size_t)n * sizeof *column);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            column[j] += fabs(a[i * n + j]);
            column[i] += j < i ? fabs(a[i * n + j]) : 0;
        }
    for (int i = 0; i < n; i++)
        most = fmax(most, column[i]);
    return most;
}

int hb_symmetric_eigen(int n, double *a, double *value, hb_error *err)
{
    double work_size = 0;
    int iwork_size = 0, ask = -1, info = 0;

    if (n == 0)
        return 0;

    /* asks LAPACK how much scratch it needs */
    dsyevd_("V", "U", &n, a, &n, value, &work_size, &ask, &iwork_size, &ask, &info, 1, 1);
    int lwork = (int)work_size, liwork = iwork_size;
    double *work = malloc((size_t)lwork * sizeof *work);
    int *iwork = malloc((size_t)liwork * sizeof *iwork);
    int r = 0;

    if (!work || !iwork)
        r = hb_fail(err, ENOMEM, "out of memory for the eigenvectors of a %d x %d matrix", n, n);
    else {
        dsyevd_("V", "U", &n, a, &n, value, work, &lwork, iwork, &liwork, &info, 1, 1);
        if (info)
            r = hb_fail(err, EDOM, "the eigenvalues of a %d x %d matrix did not converge: is it finite?", n, n);
    }
    free(work);
    free(iwork);
    return r;
}

void hb_rank_update(int n, int m, double alpha, const double *x, double *c)
{
    if (n > 0 && m > 0)
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, n, m, alpha, x, n, 1.0, c, n);
}

void hb_multiply(int m, int n, int k, const hb_real *a, int lda, bool transpose_a, const hb_real *b, int ldb,
                 bool transpose_b, hb_real *c)
{
    const CBLAS_TRANSPOSE ta = transpose_a ? CblasTrans : CblasNoTrans, tb = transpose_b ? CblasTrans : CblasNoTrans;

#ifdef HB_DOUBLE
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, n);
#else
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, n);
#endif
}

/* Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011): ten rounds that mix a
 * 128-bit counter (here index and stream) with a 64-bit key (the seed). */
typedef struct block {
    uint32_t word[4];
} block;

static block philox(hb_random_key key, uint64_t index)
{
    uint32_t k0 = (uint32_t)key.seed, k1 = (uint32_t)(key.seed >> 32);
    block x = {{(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)key.stream, (uint32_t)(key.stream >> 32)}};

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53 * x.word[0], p1 = (uint64_t)0xCD9E8D57 * x.word[2];
        x = (block){
            {(uint32_t)(p1 >> 32) ^ x.word[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ x.word[3] ^ k1, (uint32_t)p0}};
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    return x;
}

/* 53 of the 64 bits of two words, as a number in [0, 1) */
static double fraction(uint32_t low, uint32_t high)
{
    uint64_t bits = (uint64_t)high << 32 | low;

    return (double)(bits >> 11) * 0x1p-53;
}

uint64_t hb_random_bits(hb_random_key key, uint64_t index)
{
    block x = philox(key, index);

    return (uint64_t)x.word[1] << 32 | x.word[0];
}

double hb_random_uniform(hb_random_key key, uint64_t index)
{
    block x = philox(key, index);

    return fraction(x.word[0], x.word[1]);
}

/* Box-Muller; one block gives both of its uniform numbers, so neighbouring indices are independent */
double hb_random_normal(hb_random_key key, uint64_t index)
{
    block x = philox(key, index);
    double radius = sqrt(-2 * log(1 - fraction(x.word[0], x.word[1])));

    return radius * cos(2 * M_PI * fraction(x.word[2], x.word[3]));
}

uint64_t hb_hash(uint64_t state, const void *data, size_t size)
{
    const unsigned char *byte = data;

    for (size_t i = 0; i < size; i++)
        state = (state ^ byte[i]) * 0x100000001b3u;
    return state;
}
