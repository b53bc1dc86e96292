/* Sums over a sliding window and their solution; what they are and why there are two: regression.h. */
#include "estimate/regression.h"

#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "dynamics/kernels.h"
#include "estimate/constants.h"

/* of a problem: the lower triangle, by rows */
static size_t triangle(const hb_regression *r)
{
    return (size_t)r->n * (size_t)(r->n + 1) / 2;
}

static size_t sums_size(const hb_regression *r)
{
    return (size_t)r->nproblems * triangle(r);
}

void hb_regression_lay_out(hb_regression *r, hb_arena *arena)
{
    size_t nb = (size_t)r->nb;

    r->arithmetic = hb_arithmetic_find(hb_kernels_default()->name);
    r->n = r->nb + 2;
    r->ld = (r->n + 3) / 4 * 4;
    r->sum = hb_arena_take(arena, sums_size(r), sizeof *r->sum);
    r->spare = hb_arena_take(arena, sums_size(r), sizeof *r->spare);
    r->matrix = hb_arena_take(arena, nb * nb, sizeof *r->matrix);
    r->solution = hb_arena_take(arena, nb, sizeof *r->solution);
    r->variance = hb_arena_take(arena, nb, sizeof *r->variance);
    r->scratch = hb_arena_take(arena, nb, sizeof *r->scratch);
    r->spare_count = -1;
}

void hb_regression_clear(hb_regression *r)
{
    memset(r->sum, 0, sums_size(r) * sizeof *r->sum);
    r->count = 0;
    r->spare_count = -1;
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

/* A transition's rows into all problems. */
static void add_rows(const hb_regression *r, const double *row, double weight, double *sums)
{
    for (int p = 0; p < r->nproblems; p++)
        for (int k = 0; k < r->nrows; k++)
            r->arithmetic->triangle_add(r->n, row + (ptrdiff_t)(p + k) * r->ld, weight, sums + (size_t)p * triangle(r));
}

static void age_by_one(hb_regression *r)
{
    for (size_t i = 0; i < sums_size(r) && r->forgetting < 1; i++) {
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

static void start_spare(hb_regression *r)
{
    memset(r->spare, 0, sums_size(r) * sizeof *r->spare);
    r->spare_count = 0;
}

void hb_regression_slide(hb_regression *r, const double *oldest, const double *newest)
{
    double *sum = r->sum;

    if (r->spare_count < 0)
        start_spare(r);
    age_by_one(r);
    add_rows(r, newest, 1, r->spare);
    r->spare_count++;

    /* once a revolution: sums that were only ever added to */
    if (r->spare_count == r->count) {
        r->sum = r->spare;
        r->spare = sum;
        start_spare(r);
    } else {
        add_rows(r, oldest, -weight_of_age(r, r->count), sum);
        add_rows(r, newest, 1, sum);
    }
}

/* Row i of a triangle. */
static const double *row_of(const double *triangle, int i)
{
    return triangle + (ptrdiff_t)i * (i + 1) / 2;
}

/* Means over the window: b to solution, A + lambda I to matrix. */
static void load(hb_regression *r, const double *s, double weight)
{
    int nb = r->nb;

    for (int i = 0; i < nb; i++) {
        for (int j = 0; j <= i; j++)
            r->matrix[i * nb + j] = row_of(s, i)[j] / weight;
        r->matrix[i * nb + i] += r->ridge;
        r->solution[i] = row_of(s, nb)[i] / weight;
    }
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

/* Energies with the coefficients in solution: of r - G c, rr - 2 c b + c A c. */
static void measure(const hb_regression *r, const double *s, double weights, hb_regression_result *ret)
{
    int nb = r->nb;
    const double *c = r->solution, *b = row_of(s, nb);
    double sum = b[nb];

    ret->least = INFINITY;
    ret->most = 0;
    for (int i = 0; i < nb; i++) {
        const double *a = row_of(s, i);
        double product = a[i] * c[i] / 2;
        for (int j = 0; j < i; j++)
            product += a[j] * c[j];
        sum += 2 * c[i] * (product - b[i]);
        ret->least = fmin(ret->least, a[i] / weights);
        ret->most = fmax(ret->most, a[i] / weights);
    }
    ret->residual = b[nb] / weights;
    ret->unexplained = fmax(0, sum) / weights;
    ret->motion = row_of(s, nb + 1)[nb + 1] / weights;
}

/* Condition and variance; the factor becomes the inverse. Errors of equal size and independent in all equations give
 * the coefficients least squares   sigma^2 (m A + m lambda I)^-1 inner product   V^2 sigma^2 A / m                  */
static void examine(hb_regression *r, const double *s, double norm, bool factored, double samples,
                    hb_regression_result *ret)
{
    double equations = samples * r->nrows;
    double variance = ret->unexplained / r->nrows * equations / fmax(1, equations - r->nb);

    if (factored)
        hb_cholesky_invert(r->nb, r->matrix);
    ret->condition = factored ? norm * hb_norm_one(r->nb, r->matrix, r->scratch) : INFINITY;
    ret->variance = r->variance;
    for (int i = 0; i < r->nb; i++)
        r->variance[i] = variance / samples *
                         (r->method == HB_LEAST_SQUARES ? r->matrix[i * r->nb + i]
                                                        : r->volume * r->volume * row_of(s, i)[i] / samples);
}

bool hb_regression_solve(hb_regression *r, int problem, bool examined, hb_regression_result *ret)
{
    const double *s = r->sum + (size_t)problem * triangle(r);
    const double weights = weight_of_count(r, r->count);
    bool least_squares = r->method == HB_LEAST_SQUARES, factored = false;
    double norm = 0;

    load(r, s, weights);
    if (examined)
        norm = hb_norm_one(r->nb, r->matrix, r->scratch);
    if (least_squares || examined)
        factored = factorise(r);
    if (least_squares && !factored)
        return false;
    if (least_squares)
        hb_cholesky_solve(r->nb, r->matrix, 1, r->solution);
    for (int i = 0; i < r->nb && !least_squares; i++)
        r->solution[i] *= r->volume;
    *ret = (hb_regression_result){.coefficient = r->solution};
    measure(r, s, weights, ret);
    if (examined)
        examine(r, s, norm, factored, weights, ret);
    return true;
}
