/* Sums over a sliding window and their solution; what they are and why there are two: regression.h. */
#include "estimate/regression.h"

#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/constants.h"

static size_t sums_size(const hb_regression *r)
{
    return (size_t)r->nproblems * (size_t)r->n * (size_t)r->ld;
}

void hb_regression_lay_out(hb_regression *r, hb_arena *arena)
{
    size_t nb = (size_t)r->nb;

    r->n = r->nb + 2;
    r->ld = (r->n + 3) / 4 * 4;
    r->sum = hb_arena_take(arena, sums_size(r), sizeof *r->sum);
    r->spare = hb_arena_take(arena, sums_size(r), sizeof *r->spare);
    r->matrix = hb_arena_take(arena, nb * nb, sizeof *r->matrix);
    r->inverse = hb_arena_take(arena, nb * nb, sizeof *r->inverse);
    r->solution = hb_arena_take(arena, nb, sizeof *r->solution);
    r->variance = hb_arena_take(arena, nb, sizeof *r->variance);
    r->scratch = hb_arena_take(arena, 4 * nb, sizeof *r->scratch);
    r->iscratch = hb_arena_take(arena, nb, sizeof *r->iscratch);
    r->spare_count = -1;
}

static void clear_sums(const hb_regression *r, double *sums)
{
    memset(sums, 0, sums_size(r) * sizeof *sums);
}

void hb_regression_clear(hb_regression *r)
{
    clear_sums(r, r->sum);
    r->count = 0;
    r->spare_count = -1;
}

static void swap_with_spare(hb_regression *r)
{
    double *sum = r->sum;

    r->sum = r->spare;
    r->spare = sum;
}

static double weight_of_age(const hb_regression *r, int age)
{
    return r->forgetting < 1 ? pow(r->forgetting, age) : 1;
}

/* sum of the weights of the newest `count` transitions */
static double weight_of_count(const hb_regression *r, int count)
{
    return r->forgetting < 1 ? (1 - pow(r->forgetting, count)) / (1 - r->forgetting) : count;
}

/* s += weight * sum of x^T x over `rows` rows, lower triangle (and a little beyond, to whole groups of four) */
static void add_products(int n, int ld, int rows, const double *restrict x, double weight, double *restrict s)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < rows; k++) {
            double scale = weight * x[k * ld + i];
            for (int j = 0; j < i / 4 * 4 + 4; j++)
                s[i * ld + j] += scale * x[k * ld + j];
        }
}

/* s += weight y^T y - leaving x^T x: the same for two transitions, in one pass over the sums */
static void exchange_products(int n, int ld, int rows, const double *restrict x, double leaving,
                              const double *restrict y, double weight, double *restrict s)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < rows; k++) {
            double out = leaving * x[k * ld + i], in = weight * y[k * ld + i];
            for (int j = 0; j < i / 4 * 4 + 4; j++)
                s[i * ld + j] += in * y[k * ld + j] - out * x[k * ld + j];
        }
}

static double *sums_of(const hb_regression *r, double *sums, int problem)
{
    return sums + (size_t)problem * (size_t)(r->n * r->ld);
}

/* A transition's rows into all problems. */
static void add_rows(const hb_regression *r, const double *row, double weight, double *sums)
{
    for (int p = 0; p < r->nproblems; p++)
        add_products(r->n, r->ld, r->nrows, row + p * r->ld, weight, sums_of(r, sums, p));
}

/* The rows `out` out of all problems, and `in` into them. */
static void exchange_rows(const hb_regression *r, const double *out, double leaving, const double *in, double weight,
                          double *sums)
{
    for (int p = 0; p < r->nproblems; p++)
        exchange_products(r->n, r->ld, r->nrows, out + p * r->ld, leaving, in + p * r->ld, weight, sums_of(r, sums, p));
}

static void age_by_one(hb_regression *r)
{
    if (r->forgetting < 1)
        for (size_t i = 0; i < sums_size(r); i++) {
            r->sum[i] *= r->forgetting;
            r->spare[i] *= r->forgetting;
        }
}

void hb_regression_add(hb_regression *r, const double *row)
{
    age_by_one(r);
    add_rows(r, row, 1, r->sum);
    r->count++;
    r->spare_count = -1;
}

void hb_regression_slide(hb_regression *r, const double *oldest, const double *newest)
{
    if (r->spare_count < 0) {
        clear_sums(r, r->spare);
        r->spare_count = 0;
    }
    age_by_one(r);
    add_rows(r, newest, 1, r->spare);
    r->spare_count++;

    /* once a revolution: sums that were only ever added to */
    if (r->spare_count == r->count) {
        swap_with_spare(r);
        clear_sums(r, r->spare);
        r->spare_count = 0;
    } else {
        exchange_rows(r, oldest, weight_of_age(r, r->count), newest, 1, r->sum);
    }
}

/* Means over the window: b to solution, and A + lambda I to matrix when it is wanted. */
static void load(hb_regression *r, const double *s, double weight, bool matrix)
{
    int nb = r->nb;

    for (int i = matrix ? 0 : nb; i <= nb; i++) {
        double *row = i < nb ? r->matrix + i * nb : r->solution;
        int length = i < nb ? i + 1 : nb;
        for (int j = 0; j < length; j++)
            row[j] = s[i * r->ld + j] / weight;
        if (i < nb)
            row[i] += r->ridge;
    }
}

/* largest column sum of absolute values of a symmetric matrix */
static double norm_one(int n, const double *a, double *column)
{
    double most = 0;

    for (int i = 0; i < n; i++) {
        column[i] = fabs(a[i * n + i]);
        for (int j = 0; j < i; j++) {
            column[j] += fabs(a[i * n + j]);
            column[i] += fabs(a[i * n + j]);
        }
    }
    for (int i = 0; i < n; i++)
        most = fmax(most, column[i]);
    return most;
}

/* Cholesky factor of the matrix, in place; false when it does not determine the coefficients. */
static bool factorise(hb_regression *r)
{
    double least = INFINITY, most = 0;

    if (hb_cholesky(r->nb, r->matrix))
        return false;
    for (int i = 0; i < r->nb; i++) {
        least = fmin(least, r->matrix[i * r->nb + i]);
        most = fmax(most, r->matrix[i * r->nb + i]);
    }
    return most * most <= HB_SINGULAR * least * least;
}

/* c A c, times the sum of weights */
static double quadratic(const hb_regression *r, const double *s, const double *c)
{
    double sum = 0;

    for (int i = 0; i < r->nb; i++) {
        double product = 0.5 * s[i * r->ld + i] * c[i];
        for (int j = 0; j < i; j++)
            product += s[i * r->ld + j] * c[j];
        sum += 2 * c[i] * product;
    }
    return sum;
}

/* Energies with the coefficients in solution. */
static void measure(hb_regression *r, int p, hb_regression_result *ret)
{
    int nb = r->nb, ld = r->ld;
    const double *s = sums_of(r, r->sum, p), *c = r->solution, *b = s + nb * ld;
    double weights = weight_of_count(r, r->count), cb = 0, cc = 0;

    ret->least = INFINITY;
    ret->most = 0;
    for (int i = 0; i < nb; i++) {
        cb += c[i] * b[i];
        cc += c[i] * c[i];
        ret->least = fmin(ret->least, s[i * ld + i] / weights);
        ret->most = fmax(ret->most, s[i * ld + i] / weights);
    }

    /* of r - G c: rr - 2 c b + c A c, where least squares has just made A c = b - lambda c */
    double cac = r->method == HB_LEAST_SQUARES ? cb - r->ridge * weights * cc : quadratic(r, s, c);
    ret->residual = b[nb] / weights;
    ret->unexplained = fmax(0, b[nb] - 2 * cb + cac) / weights;
    ret->motion = s[(nb + 1) * ld + nb + 1] / weights;
}

/* Condition and variance. Errors of equal size and independent in all equations give the coefficients
 *     least squares   sigma^2 (m A + m lambda I)^-1
 *     inner product   V^2 sigma^2 A / m                  */
static void examine(hb_regression *r, double norm, bool factored, hb_regression_result *ret)
{
    double samples = weight_of_count(r, r->count), equations = samples * r->nrows;
    double variance = ret->unexplained / r->nrows * equations / fmax(1, equations - r->nb);

    ret->condition = factored ? hb_cholesky_condition(r->nb, r->matrix, norm, r->scratch, r->iscratch) : INFINITY;
    ret->variance = r->variance;
    if (r->method == HB_LEAST_SQUARES)
        hb_cholesky_inverse_diagonal(r->nb, r->matrix, r->variance, r->inverse);
    for (int i = 0; i < r->nb; i++)
        r->variance[i] *= variance / samples;
}

/* Coefficients to solution, from b there and the factor; what was a mean becomes an answer. */
static void finish(hb_regression *r)
{
    if (r->method == HB_LEAST_SQUARES)
        hb_cholesky_solve(r->nb, r->matrix, 1, r->solution);
    else
        for (int i = 0; i < r->nb; i++)
            r->solution[i] *= r->volume;
}

bool hb_regression_solve(hb_regression *r, int problem, bool examined, hb_regression_result *ret)
{
    bool least_squares = r->method == HB_LEAST_SQUARES, factored = false;
    double norm = 0;

    load(r, sums_of(r, r->sum, problem), weight_of_count(r, r->count), least_squares || examined);
    if (examined) {
        norm = norm_one(r->nb, r->matrix, r->scratch);
        for (int i = 0; i < r->nb; i++)
            r->variance[i] = r->volume * r->volume * (r->matrix[i * r->nb + i] - r->ridge);
    }
    if (least_squares || examined)
        factored = factorise(r);
    if (least_squares && !factored)
        return false;

    finish(r);
    *ret = (hb_regression_result){.coefficient = r->solution};
    measure(r, problem, ret);
    if (examined)
        examine(r, norm, factored, ret);
    return true;
}
