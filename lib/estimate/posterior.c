/* Bayesian regression over a window, with a memory; what is computed and why: posterior.h. */
#include "estimate/posterior.h"

#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "dynamics/kernels.h"

/* condition (by the factor's diagonal) from which the window does not determine the coefficients: increments have
 * single precision, so what is left of a smaller eigenvalue is rounding */
static const double singular_condition = 1e12;
/* what the prior's covariance is lifted by, relative to its mean diagonal, so that it can be inverted */
static const double lift = 1e-6;
const double hb_posterior_worth = 0.5;
/* for how many transitions after a change what was known before is reduced at once where they speak */
enum { YIELDING = 20 };
/* degrees of freedom that the guess of the noise counts for: its size; and its proportions, less and less so from that
 * many on */
static const double size_freedom = 2, proportion_freedom = 4, proportion_until = 10;
/* noise is never believed to be below these fractions of the motion, of the model's own, and rounding */
static const double least_of_motion = 1e-3, least_of_model = 0.5, rounding = 1e-5;
/* memory is reduced this often while a window passes */
enum { REVISIONS = 16, LARGE = 32 };

static size_t sums_size(const hb_posterior *p)
{
    return (size_t)p->nx * (size_t)p->n * (size_t)p->ld;
}

void hb_posterior_lay_out(hb_posterior *p, hb_arena *arena)
{
    const hb_model *m = p->m;
    bool per_state = m->shape == HB_PER_STATE;
    size_t nb = (size_t)m->nb, nx = (size_t)m->nx;

    p->arithmetic = hb_arithmetic_find(hb_kernels_default()->name);
    p->nb = m->nb;
    p->nx = m->nx;
    p->nproblems = per_state ? m->nx : 1;
    p->n = p->nb + 2;
    p->ld = (p->n + 3) / 4 * 4;
    size_t np = (size_t)p->nproblems;
    p->sum = hb_arena_take(arena, sums_size(p), sizeof(double));
    p->spare = hb_arena_take(arena, sums_size(p), sizeof(double));
    p->memory = hb_arena_take(arena, sums_size(p), sizeof(double));
    p->prior = hb_arena_take(arena, np * nb * nb, sizeof(double));
    p->prior_vector = hb_arena_take(arena, np * nb, sizeof(double));
    p->c0 = hb_arena_take(arena, np * nb, sizeof(double));
    p->seed = hb_arena_take(arena, np * nb, sizeof(double));
    p->guess = hb_arena_take(arena, nx, sizeof(double));
    p->noise = hb_arena_take(arena, nx, sizeof(double));
    p->coefficient = hb_arena_take(arena, np * nb, sizeof(double));
    p->factor = hb_arena_take(arena, np * nb * nb, sizeof(double));
    p->covariance = hb_arena_take(arena, np * nb * nb, sizeof(double));
    p->solved = hb_arena_take(arena, np, sizeof *p->solved);
    p->matrix = hb_arena_take(arena, 4 * nb * nb, sizeof(double));
    p->vector = hb_arena_take(arena, nb, sizeof(double));
    p->products = hb_arena_take(arena, nx * nb, sizeof(double));
    p->innovation_covariance = hb_arena_take(arena, nx * nx + 2 * nx, sizeof(double));
    p->spare_count = -1;
}

/* ---- parts of the arrays ---- */

static double *sum_of(const hb_posterior *p, double *sums, int state)
{
    return sums + (size_t)state * (size_t)(p->n * p->ld);
}

static double *matrix_of(const hb_posterior *p, double *matrices, int problem)
{
    return matrices + (size_t)problem * (size_t)(p->nb * p->nb);
}

/* the states that add to a problem */
static int first_state(const hb_posterior *p, int problem)
{
    return p->nproblems > 1 ? problem : 0;
}

static int end_state(const hb_posterior *p, int problem)
{
    return p->nproblems > 1 ? problem + 1 : p->nx;
}

/* (upper triangle) := lower triangle */
static void mirror(int n, double *a)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            a[j * n + i] = a[i * n + j];
}

/* ret := the inverse of the matrix whose factor this is, both triangles */
static void invert(int n, const double *factor, double *ret)
{
    memset(ret, 0, (size_t)(n * n) * sizeof *ret);
    for (int i = 0; i < n; i++)
        ret[i * n + i] = 1;
    hb_cholesky_solve(n, factor, n, ret);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            ret[i * n + j] = ret[j * n + i] = (ret[i * n + j] + ret[j * n + i]) / 2;
}

/* ---- start ---- */

/* The model's prior, inverted. */
static void take_prior(hb_posterior *p)
{
    const hb_model *m = p->m;
    int nb = p->nb;

    for (int k = 0; k < p->nproblems; k++) {
        const double *covariance = m->prior_covariance + (size_t)k * (size_t)(nb * nb);
        double *a = p->matrix, *inverse = matrix_of(p, p->prior, k), trace = 0;
        for (int i = 0; i < nb; i++) {
            trace += covariance[i * nb + i];
            p->c0[k * nb + i] = m->prior_mean[p->nproblems > 1 ? i * m->nx + k : i];
        }
        for (int i = 0; i < nb * nb; i++)
            a[i] = p->spread * covariance[i];
        /* a population without spread in a direction is taken to have a little; lifted until it is positive */
        double up = lift * (trace > 0 ? p->spread * trace / nb : 1);
        for (;; up *= 10) {
            double *factor = p->matrix + nb * nb;
            memcpy(factor, a, (size_t)(nb * nb) * sizeof *factor);
            for (int i = 0; i < nb; i++)
                factor[i * nb + i] += up;
            if (hb_cholesky(nb, factor) == 0) {
                invert(nb, factor, inverse);
                break;
            }
        }
        for (int i = 0; i < nb; i++) {
            p->prior_vector[k * nb + i] = 0;
            for (int j = 0; j < nb; j++)
                p->prior_vector[k * nb + i] += inverse[i * nb + j] * p->c0[k * nb + j];
        }
    }
}

void hb_posterior_start(hb_posterior *p)
{
    if (p->m->has_prior)
        take_prior(p);
    for (int d = 0; d < p->nx; d++)
        p->guess[d] = 1;
    hb_posterior_clear(p);
}

void hb_posterior_clear(hb_posterior *p)
{
    size_t np = (size_t)p->nproblems, nb = (size_t)p->nb;

    memset(p->sum, 0, sums_size(p) * sizeof(double));
    p->count = 0;
    p->weight = 0;
    p->spare_count = -1;
    p->guess_scale = 1;
    p->seed_strength = 0;
    p->yielding = 0;
    p->fading = 1;
    memcpy(p->noise, p->guess, (size_t)p->nx * sizeof(double));
    memcpy(p->coefficient, p->c0, np * nb * sizeof(double));
    memset(p->solved, 0, np * sizeof *p->solved);
    hb_posterior_forget_memory(p);
    if (p->m->has_prior)
        for (int k = 0; k < p->nproblems; k++)
            hb_posterior_solve(p, k);
}

void hb_posterior_forget_memory(hb_posterior *p)
{
    memset(p->memory, 0, sums_size(p) * sizeof(double));
    p->memory_weight = 0;
    p->departed = 0;
}

void hb_posterior_guess(hb_posterior *p, const double *variance)
{
    memcpy(p->guess, variance, (size_t)p->nx * sizeof *variance);
    if (p->count == 0)
        memcpy(p->noise, variance, (size_t)p->nx * sizeof *variance);
}

/* ---- sums ---- */

static void add_rows(const hb_posterior *p, const double *row, double weight, double *sums)
{
    for (int d = 0; d < p->nx && weight != 0; d++)
        p->arithmetic->add_products(p->n, p->ld, row + d * p->ld, weight, sum_of(p, sums, d));
}

static void yield_to_window(hb_posterior *p, double fraction);

void hb_posterior_add(hb_posterior *p, const double *row, double weight)
{
    add_rows(p, row, weight, p->sum);
    p->weight += weight;
    p->count++;
    if (p->yielding > 0) {
        p->yielding--;
        yield_to_window(p, 1);
    }
    if (p->spare_count < 0)
        return;
    add_rows(p, row, weight, p->spare);
    p->spare_weight += weight;
    /* once per revolution: sums that were only ever added to */
    if (++p->spare_count == p->count) {
        double *sum = p->sum;
        p->sum = p->spare;
        p->spare = sum;
        p->weight = p->spare_weight;
        p->spare_count = -1;
    }
}

/* Adds the information in sums, about a problem: to its matrix (lower triangle), and to its vector unless NULL. */
static void add_information(const hb_posterior *p, const double *sums, int problem, double scale, double *matrix,
                            double *vector)
{
    int nb = p->nb, ld = p->ld;

    for (int d = first_state(p, problem); d < end_state(p, problem); d++) {
        const double *s = sums + (size_t)d * (size_t)(p->n * ld);
        double precision = scale / p->noise[d];
        p->arithmetic->add_scaled(nb, ld, precision, s, matrix);
        for (int i = 0; vector && i < nb; i++)
            vector[i] += precision * s[nb * ld + i];
    }
}

static void window_information(const hb_posterior *p, int problem, double *matrix, double *vector)
{
    memset(matrix, 0, (size_t)(p->nb * p->nb) * sizeof *matrix);
    if (vector)
        memset(vector, 0, (size_t)p->nb * sizeof *vector);
    add_information(p, p->sum, problem, 1, matrix, vector);
}

/* S := T S T^T in the rows and columns of G, where T = I - X; its vector follows so that the coefficients `mean`, which
 * are those of all memory, stay what they were. scratch: nb x nb twice */
static void shrink_sum(const hb_posterior *p, const double *x, const double *transposed, const double *mean, double *s,
                       double *scratch)
{
    int nb = p->nb, ld = p->ld;

    p->arithmetic->congruence(nb, ld, x, transposed, s, scratch);
    for (int i = 0; i < nb; i++)
        for (int j = 0; j < nb; j++)
            s[nb * ld + i] -= (scratch[i * nb + j] - s[(i > j ? i : j) * ld + (i > j ? j : i)]) * mean[j];
}

/* Memory loses, of the parallel sum of itself and the window, this fraction. */
static void give_way(hb_posterior *p, int problem, double fraction)
{
    int nb = p->nb;
    double *window = p->matrix, *factor = window + nb * nb, *x = factor + nb * nb, *transposed = x + nb * nb;
    double trace = 0;

    window_information(p, problem, window, NULL);
    memset(factor, 0, (size_t)(nb * nb) * sizeof *factor);
    memset(p->vector, 0, (size_t)nb * sizeof *p->vector);
    add_information(p, p->memory, problem, 1, factor, p->vector);
    for (int i = 0; i < nb; i++)
        trace += factor[i * nb + i];
    if (!(trace > 0))
        return;

    /* the coefficients of memory alone */
    memcpy(x, factor, (size_t)(nb * nb) * sizeof *x);
    for (int i = 0; i < nb; i++)
        x[i * nb + i] += 1e-10 * trace;
    if (hb_cholesky(nb, x))
        return;
    hb_cholesky_solve(nb, x, 1, p->vector);

    /* X = fraction / 2 of W (M + W)^-1, by rows */
    for (int i = 0; i < nb; i++) {
        for (int j = 0; j <= i; j++)
            factor[i * nb + j] += window[i * nb + j];
        trace += window[i * nb + i];
    }
    for (int i = 0; i < nb; i++)
        factor[i * nb + i] += 1e-12 * trace;
    if (hb_cholesky(nb, factor))
        return;
    mirror(nb, window);
    memcpy(x, window, (size_t)(nb * nb) * sizeof *x);
    hb_cholesky_solve(nb, factor, nb, x);
    for (int i = 0; i < nb; i++)
        for (int j = 0; j < nb; j++)
            transposed[j * nb + i] = x[i * nb + j] *= fraction / 2;
    for (int d = first_state(p, problem); d < end_state(p, problem); d++) /* window and factor are scratch from here */
        shrink_sum(p, x, transposed, p->vector, sum_of(p, p->memory, d), window);
}

/* The same for a basis so large that this would take too long: memory is reduced as a whole. */
static void give_way_as_a_whole(hb_posterior *p, double fraction)
{
    double scale = 1 - fraction * p->weight / fmax(1e-9, p->memory_weight + p->weight);

    for (size_t i = 0; i < sums_size(p); i++)
        p->memory[i] *= scale;
}

static void yield_to_window(hb_posterior *p, double fraction)
{
    for (int k = 0; k < p->nproblems && p->nb <= LARGE; k++)
        give_way(p, k, fraction);
    if (p->nb > LARGE)
        give_way_as_a_whole(p, fraction);
    p->memory_weight -= fraction * p->memory_weight * p->weight / fmax(1e-9, p->memory_weight + p->weight);
}

static void scale_memory(hb_posterior *p, double scale)
{
    for (size_t i = 0; i < sums_size(p); i++)
        p->memory[i] *= scale;
    p->memory_weight *= scale;
}

void hb_posterior_depart(hb_posterior *p, const double *row, double weight, double dt)
{
    int each = p->nw / REVISIONS > 1 ? p->nw / REVISIONS : 1;

    p->fading *= exp(-dt / p->fade);
    for (int d = 0; d < p->nx && weight != 0; d++) {
        p->arithmetic->add_products(p->n, p->ld, row + d * p->ld, weight, sum_of(p, p->memory, d));
        p->arithmetic->add_products(p->n, p->ld, row + d * p->ld, -weight, sum_of(p, p->sum, d));
    }
    p->memory_weight += weight;
    p->weight -= weight;
    p->count--;
    if (p->spare_count < 0 && p->count > 0) {
        memset(p->spare, 0, sums_size(p) * sizeof(double));
        p->spare_count = 0;
        p->spare_weight = 0;
    }
    if (++p->departed < each)
        return;
    yield_to_window(p, fmin(0.5, 4.0 * p->departed / p->nw));
    scale_memory(p, p->fading);
    p->fading = 1;
    p->departed = 0;
}

void hb_posterior_replace(hb_posterior *p, int age, const double *before, double weight_before, const double *after,
                          double weight_after)
{
    bool in_spare = age < p->spare_count;

    for (int d = 0; d < p->nx; d++) {
        const double *x = before + d * p->ld, *y = after + d * p->ld;
        p->arithmetic->exchange_products(p->n, p->ld, x, weight_before, y, weight_after, sum_of(p, p->sum, d));
        if (in_spare)
            p->arithmetic->exchange_products(p->n, p->ld, x, weight_before, y, weight_after, sum_of(p, p->spare, d));
    }
    p->weight += weight_after - weight_before;
    if (in_spare)
        p->spare_weight += weight_after - weight_before;
}

/* ---- solving ---- */

/* matrix and vector, which hold the information of data, plus the prior. */
static void add_prior(const hb_posterior *p, int problem, double weight, double *matrix, double *vector)
{
    int nb = p->nb;

    if (p->m->has_prior) {
        const double *prior = p->prior + (size_t)problem * (size_t)(nb * nb);
        for (int i = 0; i < nb; i++) {
            for (int j = 0; j <= i; j++)
                matrix[i * nb + j] += prior[i * nb + j];
            vector[i] += p->prior_vector[problem * nb + i];
        }
        return;
    }
    double noise = 0;
    for (int d = first_state(p, problem); d < end_state(p, problem); d++)
        noise += p->noise[d] / (end_state(p, problem) - first_state(p, problem));
    for (int i = 0; i < nb; i++)
        matrix[i * nb + i] += p->ridge * weight / noise;
}

static void add_seed(const hb_posterior *p, int problem, double *matrix, double *vector)
{
    int nb = p->nb;
    const double *prior = p->prior + (size_t)problem * (size_t)(nb * nb);

    for (int i = 0; i < nb; i++) {
        for (int j = 0; j <= i; j++)
            matrix[i * nb + j] += p->seed_strength * prior[i * nb + j];
        for (int j = 0; j < nb; j++)
            vector[i] += p->seed_strength * prior[i * nb + j] * p->seed[problem * nb + j];
    }
}

/* Cholesky factor, in place; false when it does not determine the coefficients. */
static bool factorise(const hb_posterior *p, double *matrix)
{
    double least = INFINITY, most = 0;

    if (hb_cholesky(p->nb, matrix))
        return false;
    for (int i = 0; i < p->nb; i++) {
        least = fmin(least, matrix[i * p->nb + i]);
        most = fmax(most, matrix[i * p->nb + i]);
    }
    return p->m->has_prior || most * most <= singular_condition * least * least;
}

bool hb_posterior_solve(hb_posterior *p, int problem)
{
    int nb = p->nb;
    double *factor = p->matrix, *c = p->vector;
    double check = 0;

    window_information(p, problem, factor, c);
    add_information(p, p->memory, problem, 1, factor, c);
    if (p->m->has_prior && p->seed_strength > 0) /* coefficients from a file: the prior, elsewhere */
        add_seed(p, problem, factor, c);
    add_prior(p, problem, p->weight, factor, c);
    if (!factorise(p, factor))
        return false;
    hb_cholesky_solve(nb, factor, 1, c);
    for (int i = 0; i < nb; i++)
        check += 0 * (double)(hb_real)c[i];
    if (check != 0) /* a number too large for single precision is no answer */
        return false;
    memcpy(matrix_of(p, p->factor, problem), factor, (size_t)(nb * nb) * sizeof *factor);
    memcpy(p->coefficient + problem * nb, c, (size_t)nb * sizeof *c);
    invert(nb, factor, matrix_of(p, p->covariance, problem));
    p->solved[problem] = true;
    return true;
}

double hb_posterior_condition(hb_posterior *p, int problem, double *scratch, int *iscratch)
{
    int nb = p->nb;
    const double *factor = matrix_of(p, p->factor, problem);
    double norm = 0;

    if (!p->solved[problem])
        return INFINITY;
    /* the 1-norm of L = F F^T */
    for (int j = 0; j < nb; j++) {
        double column = 0;
        for (int i = 0; i < nb; i++) {
            double element = 0;
            for (int k = 0; k <= (i < j ? i : j); k++)
                element += factor[i * nb + k] * factor[j * nb + k];
            column += fabs(element);
        }
        norm = fmax(norm, column);
    }
    return hb_cholesky_condition(nb, factor, norm, scratch, iscratch);
}

/* ---- noise ---- */

static const double *sum_at(const hb_posterior *p, int state)
{
    return p->sum + (size_t)state * (size_t)(p->n * p->ld);
}

double hb_posterior_motion(const hb_posterior *p, int state)
{
    return fmax(0, sum_at(p, state)[(p->nb + 1) * p->ld + p->nb + 1]);
}

static hb_window_energy energy_with(const hb_posterior *p, int state, const double *c)
{
    const double *s = sum_at(p, state), *b = s + p->nb * p->ld;
    double cb = 0;

    for (int i = 0; i < p->nb; i++)
        cb += c[i] * b[i];
    return (hb_window_energy){.unexplained = fmax(0, b[p->nb] - 2 * cb + p->arithmetic->quadratic(p->nb, p->ld, s, c)),
                              .residual = fmax(0, b[p->nb]),
                              .motion = hb_posterior_motion(p, state)};
}

hb_window_energy hb_posterior_energy(const hb_posterior *p, int state)
{
    return energy_with(p, state, p->coefficient + (p->nproblems > 1 ? state * p->nb : 0));
}

/* What the window's own fit leaves of a problem's states, and the degrees of freedom left to them; memory has no part
 * in it, or else what memory does not know would be called noise, and not be learned. */
static bool fit_window(hb_posterior *p, int problem, double *unexplained, double *freedom)
{
    int nb = p->nb;
    double *factor = p->matrix, *inverse = p->matrix + nb * nb, *c = p->vector;

    window_information(p, problem, factor, c);
    add_prior(p, problem, p->weight, factor, c);
    if (!factorise(p, factor))
        return false;
    hb_cholesky_solve(nb, factor, 1, c);
    invert(nb, factor, inverse);
    for (int d = first_state(p, problem); d < end_state(p, problem); d++) {
        unexplained[d] = energy_with(p, d, c).unexplained;
        /* at least a tenth is left, since no fit is that free */
        double trace = p->arithmetic->inner_product(nb, p->ld, sum_at(p, d), nb, inverse);
        freedom[d] = fmax(0.1 * p->weight, p->weight - trace / p->noise[d]);
    }
    return true;
}

void hb_posterior_learn_noise(hb_posterior *p)
{
    double *unexplained = p->innovation_covariance, *freedom = unexplained + p->nx, of_guess = 0, in_all = 0;

    if (!(p->weight > 0))
        return;
    for (int k = 0; k < p->nproblems; k++)
        if (!fit_window(p, k, unexplained, freedom))
            return;
    for (int d = 0; d < p->nx; d++) {
        of_guess += unexplained[d] / p->guess[d];
        in_all += freedom[d];
    }
    p->guess_scale = (size_freedom + of_guess) / (size_freedom + in_all);
    for (int d = 0; d < p->nx; d++) {
        double of_model = p->m->has_prior ? least_of_model * p->m->noise[d] : 0;
        double guessed = proportion_freedom / (1 + freedom[d] / proportion_until);
        double variance = (guessed * p->guess_scale * p->guess[d] + unexplained[d]) / (guessed + freedom[d]);
        double least = rounding * rounding + of_model * of_model +
                       least_of_motion * least_of_motion * hb_posterior_motion(p, d) / p->weight;
        p->noise[d] = fmax(variance, least);
    }
}

/* ---- judging ---- */

/* Rows times a matrix, or one of each problem, to p->products. */
static void multiply(hb_posterior *p, const double *row, const double *matrix)
{
    int rows = p->nproblems > 1 ? 1 : p->nx;

    for (int k = 0; k < p->nproblems; k++)
        p->arithmetic->times(rows, p->nb, p->ld, row + k * p->ld, matrix + (size_t)k * (size_t)(p->nb * p->nb),
                             p->products + k * p->nb);
}

void hb_posterior_spread(hb_posterior *p, const double *row, double *ret)
{
    memset(ret, 0, (size_t)p->nx * sizeof *ret);
    if (!p->m->has_prior)
        return;
    multiply(p, row, p->m->prior_covariance);
    for (int d = 0; d < p->nx; d++) {
        for (int i = 0; i < p->nb; i++)
            ret[d] += p->products[d * p->nb + i] * row[d * p->ld + i];
        ret[d] = fmax(0, ret[d]);
    }
}

double hb_posterior_distance(hb_posterior *p, const double *row, const double *nu, const double *extra,
                             double *variance)
{
    int nb = p->nb, nx = p->nx;
    double *s = p->innovation_covariance, *x = s + nx * nx, distance = 0;

    memset(s, 0, (size_t)(nx * nx) * sizeof *s);
    multiply(p, row, p->covariance);
    for (int d = 0; d < nx; d++)
        for (int other = p->nproblems > 1 ? d : 0; other <= d; other++) {
            double sum = other == d ? p->noise[d] + extra[d] : 0;
            for (int i = 0; i < nb; i++)
                sum += p->products[d * nb + i] * row[other * p->ld + i];
            s[d * nx + other] = sum;
        }
    for (int d = 0; d < nx; d++) {
        variance[d] = s[d * nx + d];
        x[d] = nu[d];
    }
    if (hb_cholesky(nx, s)) {
        for (int d = 0; d < nx; d++)
            distance += nu[d] * nu[d] / variance[d];
        return distance;
    }
    hb_cholesky_solve(nx, s, 1, x);
    for (int d = 0; d < nx; d++)
        distance += nu[d] * x[d];
    return distance;
}

/* What coefficients leave of a row. */
static double left_of(const hb_posterior *p, const double *row, const double *c)
{
    double left = row[p->nb];

    for (int i = 0; i < p->nb; i++)
        left -= row[i] * c[i];
    return left;
}

void hb_posterior_try_add(hb_posterior *p, const double *row, const double *extra, double *ret)
{
    int nb = p->nb;

    for (int k = 0; k < p->nproblems; k++) {
        const double *factor = matrix_of(p, p->factor, k), *c = p->coefficient + k * nb;
        memset(p->vector, 0, (size_t)nb * sizeof *p->vector);
        for (int i = 0; i < nb; i++)
            for (int j = 0; j <= i; j++) {
                double element = 0;
                for (int l = 0; l <= j; l++)
                    element += factor[i * nb + l] * factor[j * nb + l];
                p->matrix[i * nb + j] = element;
            }
        for (int d = first_state(p, k); d < end_state(p, k); d++) {
            const double *g = row + d * p->ld;
            double precision = 1 / (p->noise[d] + extra[d]), left = left_of(p, g, c);
            for (int i = 0; i < nb; i++) {
                p->vector[i] += precision * g[i] * left;
                for (int j = 0; j <= i; j++)
                    p->matrix[i * nb + j] += precision * g[i] * g[j];
            }
        }
        bool solved = hb_cholesky(nb, p->matrix) == 0;
        if (solved)
            hb_cholesky_solve(nb, p->matrix, 1, p->vector);
        for (int i = 0; i < nb; i++)
            ret[k * nb + i] = c[i] + (solved ? p->vector[i] : 0);
    }
}

double hb_posterior_distance_along(const hb_posterior *p, const double *row, const double *extra, const double *c)
{
    int nb = p->nb;
    double distance = 0;

    for (int k = 0; k < p->nproblems; k++) {
        const double *factor = matrix_of(p, p->factor, k);
        for (int d = first_state(p, k); d < end_state(p, k); d++) {
            double left = left_of(p, row + d * p->ld, c + k * nb);
            distance += left * left / (p->noise[d] + extra[d]);
        }
        for (int j = 0; j < nb; j++) { /* |F^T (c - c_now)|^2 */
            double sum = 0;
            for (int i = j; i < nb; i++)
                sum += factor[i * nb + j] * (c[k * nb + i] - p->coefficient[k * nb + i]);
            distance += sum * sum;
        }
    }
    return distance;
}

double hb_posterior_plausibility(const hb_posterior *p, const double *c)
{
    int nb = p->nb;
    double sum = 0;

    if (!p->m->has_prior || nb == 0)
        return 0;
    for (int k = 0; k < p->nproblems; k++) {
        const double *prior = p->prior + (size_t)k * (size_t)(nb * nb);
        for (int i = 0; i < nb; i++)
            for (int j = 0; j < nb; j++)
                sum += (c[k * nb + i] - p->c0[k * nb + i]) * prior[i * nb + j] * (c[k * nb + j] - p->c0[k * nb + j]);
    }
    return p->spread * sum / (nb * p->nproblems);
}

/* ---- changes ---- */

/* what all that is known now is worth after a cut, in transitions, relative to now */
static double relative_worth(const hb_posterior *p, double worth)
{
    return worth / fmax(1, p->weight + p->memory_weight);
}

const double *hb_posterior_try_cut(hb_posterior *p, int problem, int count, double worth,
                                   const double *(*row)(void *context, int age), void *context)
{
    int nb = p->nb;
    double *matrix = p->matrix, *vector = p->vector;

    memset(matrix, 0, (size_t)(nb * nb) * sizeof *matrix);
    memset(vector, 0, (size_t)nb * sizeof *vector);
    add_information(p, p->sum, problem, relative_worth(p, worth), matrix, vector);
    add_information(p, p->memory, problem, relative_worth(p, worth), matrix, vector);
    for (int age = 0; age < count; age++) {
        const double *rows = row(context, age);
        for (int d = first_state(p, problem); d < end_state(p, problem); d++) {
            const double *g = rows + d * p->ld;
            double precision = 1 / p->noise[d];
            for (int i = 0; i < nb; i++) {
                vector[i] += precision * g[i] * g[nb];
                for (int j = 0; j <= i; j++)
                    matrix[i * nb + j] += precision * g[i] * g[j];
            }
        }
    }
    add_prior(p, problem, count, matrix, vector);
    if (!factorise(p, matrix))
        return NULL;
    hb_cholesky_solve(nb, matrix, 1, vector);
    return vector;
}

void hb_posterior_cut(hb_posterior *p, int count, const double *(*row)(void *context, int age), void *context)
{
    double scale = relative_worth(p, hb_posterior_worth);

    for (size_t i = 0; i < sums_size(p); i++)
        p->memory[i] = scale * (p->memory[i] + p->sum[i]);
    p->memory_weight = hb_posterior_worth;
    p->departed = 0;
    p->seed_strength = 0;
    memset(p->sum, 0, sums_size(p) * sizeof(double));
    for (int age = count - 1; age >= 0; age--)
        add_rows(p, row(context, age), 1, p->sum);
    p->count = count;
    p->weight = count;
    p->spare_count = -1;
    /* the sensors are the same as before */
    memcpy(p->guess, p->noise, (size_t)p->nx * sizeof *p->guess);
    p->yielding = YIELDING;
    yield_to_window(p, 1);
    yield_to_window(p, 1);
}
