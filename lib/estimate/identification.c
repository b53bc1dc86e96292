/* A bank of actuators, scored by how well they predict; the formulas: identification.h. */
#include "estimate/identification.h"

#include <math.h>
#include <string.h>

#include "dynamics/kernels.h"

/* seconds: how far lag and delay may be from where they start, before anything is seen */
static const double lag_scale = 0.04, delay_scale = 0.02;
/* t, and the capacity of scores */
static const double temper = 0.3, capacity = 400;
/* of the scores, that stays after a break in the flight */
static const double after_break = 0.1;
/* d^2 beyond its mean nx, in standard deviations, from which it counts like its logarithm */
static const double doubtful = 3;
/* seconds, with which each candidate forgets what its coefficients come from */
static const double memory = 10;
/* of V: degrees of freedom of the noise to begin with, and the most that it is averaged over */
static const double noise_freedom = 4, most_seen = 50;
/* V is never below these fractions of the motion, and rounding */
static const double least_of_motion = 2e-3, rounding = 2e-5;
/* seconds of deviation, and transitions, from which it is confident; and the least deviation that it claims */
static const double confident_within = 0.008, least_deviation = 0.001;
enum { EARLIEST = 2, FEWEST = 10 };

void hb_identification_lay_out(hb_identification *f, hb_arena *arena)
{
    size_t nb = (size_t)f->m->nb, nx = (size_t)f->m->nx;

    f->arithmetic = hb_arithmetic_find(hb_kernels_default()->name);
    f->nb = f->m->nb;
    f->nx = f->m->nx;
    f->nproblems = f->m->shape == HB_PER_STATE ? f->m->nx : 1;
    size_t np = (size_t)f->nproblems;
    f->information = hb_arena_take(arena, HB_GRID_BLOCKS * np * nb * nb, sizeof(hb_sides));
    f->vector = hb_arena_take(arena, HB_GRID_BLOCKS * np * nb, sizeof(hb_sides));
    f->factor = hb_arena_take(arena, HB_GRID_BLOCKS * np * nb * nb, sizeof(hb_sides));
    f->coefficient = hb_arena_take(arena, HB_GRID_BLOCKS * np * nb, sizeof(hb_sides));
    f->variance = hb_arena_take(arena, nx, sizeof(double));
    f->innovation = hb_arena_take(arena, HB_GRID_BLOCKS * nx, sizeof(hb_sides));
    f->doubt = hb_arena_take(arena, HB_GRID_BLOCKS * nx, sizeof(hb_sides));
    f->matrix = hb_arena_take(arena, nb * nb, sizeof(hb_sides));
    f->solution = hb_arena_take(arena, 4 * nb, sizeof(hb_sides));
    f->weight = hb_arena_take(arena, nx, sizeof(double));
}

/* Nothing is known of any candidate's coefficients. */
static void clear(hb_identification *f)
{
    size_t np = (size_t)f->nproblems, nb = (size_t)f->nb;

    memset(f->information, 0, HB_GRID_BLOCKS * np * nb * nb * sizeof(hb_sides));
    memset(f->vector, 0, HB_GRID_BLOCKS * np * nb * sizeof(hb_sides));
}

void hb_identification_start(hb_identification *f, double start_lag, double max_lag, double start_delay,
                             double max_delay)
{
    f->start_lag = start_lag;
    f->start_delay = start_delay;
    f->nlags = max_lag > 0 ? HB_GRID_LAGS : 1;
    f->ndelays = max_delay > 0 ? HB_GRID_DELAYS : 1;
    for (int i = 0; i < f->nlags; i++)
        f->lag[i] = f->nlags > 1 ? max_lag * i / (HB_GRID_LAGS - 1) : start_lag;
    for (int j = 0; j < f->ndelays; j++)
        f->delay[j] = f->ndelays > 1 ? max_delay * j / (HB_GRID_DELAYS - 1) : start_delay;
    for (int k = 0; k < hb_identification_count(f); k++) {
        double a = (f->lag[k / f->ndelays] - start_lag) / lag_scale;
        double b = (f->delay[k % f->ndelays] - start_delay) / delay_scale;
        f->prior[k] = -(a * a + b * b) / 2;
        f->score[k] = 0;
    }
    f->seen = 0;
    clear(f);
}

hb_actuators hb_identification_candidate(const hb_identification *f, int k)
{
    hb_actuators a = {.nu = f->m->nu};

    for (int i = 0; i < a.nu; i++) {
        a.lag[i] = f->lag[k / f->ndelays];
        a.delay[i] = f->delay[k % f->ndelays];
    }
    return a;
}

static int best(const hb_identification *f)
{
    int top = 0;

    for (int k = 1; k < hb_identification_count(f); k++)
        if (f->score[k] + f->prior[k] > f->score[top] + f->prior[top])
            top = k;
    return top;
}

static const hb_sides *block_rows(const hb_identification *f, const hb_sides *rows, int block)
{
    return rows + (size_t)block * (size_t)(f->nx * f->ld);
}

/* The rows of a problem: which, and how many. */
static int first_row(const hb_identification *f, int p)
{
    return f->nproblems > 1 ? p : 0;
}

static int count_rows(const hb_identification *f)
{
    return f->nproblems > 1 ? 1 : f->nx;
}

/* nu of the candidates of a block, and g L^-1 g^T of each of their rows */
static void predict(hb_identification *f, int block, const hb_sides *rows)
{
    size_t nb = (size_t)f->nb;

    for (int p = 0; p < f->nproblems; p++) {
        size_t at = (size_t)(block * f->nproblems + p);
        int row = first_row(f, p), to = block * f->nx + row;
        const hb_sides *g = rows + row * f->ld;
        f->arithmetic->sides_error(f->nb, f->coefficient + at * nb, count_rows(f), f->ld, g, f->innovation + to);
        f->arithmetic->sides_doubt(f->nb, f->factor + at * nb * nb, count_rows(f), f->ld, g, f->solution,
                                   f->doubt + to);
    }
}

/* The transition into the sums of a block, where the sums before count `keep` as much. */
static void add(hb_identification *f, int block, int p, const hb_sides *rows, double keep, double weight)
{
    size_t nb = (size_t)f->nb, at = (size_t)(block * f->nproblems + p);
    int row = first_row(f, p);

    for (int d = 0; d < count_rows(f); d++)
        f->weight[d] = weight / f->variance[row + d];
    f->arithmetic->sides_add(f->nb, keep, count_rows(f), f->ld, f->weight, rows + row * f->ld,
                             f->information + at * nb * nb, f->vector + at * nb);
}

/* The coefficients of a block from its sums and the prior; they stay as they are where that has no solution. */
static void solve(hb_identification *f, int block, int p, const double *prior, const double *prior_vector)
{
    size_t nb = (size_t)f->nb, at = (size_t)(block * f->nproblems + p);
    const hb_sides *information = f->information + at * nb * nb, *vector = f->vector + at * nb;
    hb_sides *c = f->coefficient + at * nb;

    prior += (size_t)p * nb * nb;
    prior_vector += (size_t)p * nb;
    if (!f->arithmetic->sides_cholesky(f->nb, information, prior, f->matrix))
        return;
    for (size_t i = 0; i < nb; i++)
        memcpy(f->factor + (at * nb + i) * nb, f->matrix + i * nb, (i + 1) * sizeof *f->matrix);
    for (size_t i = 0; i < nb; i++)
        for (int s = 0; s < HB_SIDES; s++)
            c[i][s] = vector[i][s] + prior_vector[i];
    f->arithmetic->sides_solve(f->nb, f->matrix, c);
}

static int blocks_of(const hb_identification *f)
{
    return (hb_identification_count(f) + HB_SIDES - 1) / HB_SIDES;
}

static void solve_all(hb_identification *f, const double *prior, const double *prior_vector)
{
    for (int block = 0; block < blocks_of(f); block++)
        for (int p = 0; p < f->nproblems; p++)
            solve(f, block, p, prior, prior_vector);
}

static double innovation(const hb_identification *f, int k, int d)
{
    return f->innovation[k / HB_SIDES * f->nx + d][k % HB_SIDES];
}

static double doubt(const hb_identification *f, int k, int d)
{
    return f->doubt[k / HB_SIDES * f->nx + d][k % HB_SIDES];
}

static double squared_distance(const hb_identification *f, int k)
{
    double sum = 0;

    for (int d = 0; d < f->nx; d++) {
        double nu = innovation(f, k, d);
        sum += nu * nu / (f->variance[d] + doubt(f, k, d));
    }
    return sum;
}

/* log det of what is expected, over V: a candidate must not win by expecting anything. */
static double vagueness(const hb_identification *f, int k)
{
    double sum = 0;

    for (int d = 0; d < f->nx; d++)
        sum += log1p(doubt(f, k, d) / f->variance[d]);
    return sum;
}

/* Scores by the current innovations; the weight that the transition deserves. */
static double score(hb_identification *f)
{
    double limit = f->nx + doubtful * sqrt(2.0 * f->nx), least = INFINITY, most, q[HB_GRID];
    int n = hb_identification_count(f);

    for (int k = 0; k < n; k++) {
        q[k] = squared_distance(f, k);
        least = fmin(least, q[k]);
    }
    double weight = least > limit ? limit / least : 1;
    for (int k = 0; k < n; k++) {
        if (q[k] > limit)
            q[k] = limit * (1 + log(q[k] / limit));
        q[k] += vagueness(f, k);
    }
    least = most = q[0];
    for (int k = 1; k < n; k++) {
        least = fmin(least, q[k]);
        most = fmax(most, q[k]);
    }
    double fade = exp(-(most - least) / 2 / capacity);
    for (int k = 0; k < n; k++)
        f->score[k] = fade * f->score[k] - temper * (q[k] - least) / 2;
    return weight;
}

/* V moves towards what the best candidate leaves. */
static void learn_variance(hb_identification *f, const hb_sides *rows, double weight)
{
    int top = best(f);
    double count = fmin(most_seen, noise_freedom + f->seen);

    for (int d = 0; d < f->nx; d++) {
        double nu = innovation(f, top, d), seen = weight * nu * nu;
        double motion = least_of_motion * rows[d * f->ld + f->nb + 1][0]; /* the same for all candidates */
        f->variance[d] += (fmin(seen, 9 * f->variance[d]) - f->variance[d]) / (count + 1);
        f->variance[d] = fmax(f->variance[d], rounding * rounding + motion * motion);
    }
}

void hb_identification_learn(hb_identification *f, double dt, const double *noise, const double *prior,
                             const double *prior_vector, const hb_sides *rows)
{
    int blocks = blocks_of(f);

    if (f->seen == 0) {
        memcpy(f->variance, noise, (size_t)f->nx * sizeof *noise);
        solve_all(f, prior, prior_vector); /* the mean of the prior */
    }
    for (int block = 0; block < blocks; block++)
        predict(f, block, block_rows(f, rows, block));
    double weight = score(f);
    learn_variance(f, rows, weight);
    for (int block = 0; block < blocks; block++)
        for (int p = 0; p < f->nproblems; p++) {
            add(f, block, p, block_rows(f, rows, block), exp(-dt / memory), weight);
            solve(f, block, p, prior, prior_vector);
        }
    memcpy(f->earlier[f->seen % HB_IDENTIFICATION_EARLIER], f->score, sizeof f->score);
    f->seen++;
}

void hb_identification_forget_coefficients(hb_identification *f, const double *prior, const double *prior_vector)
{
    clear(f);
    solve_all(f, prior, prior_vector);
    if (f->seen >= HB_IDENTIFICATION_EARLIER) /* the slot to be written next is the oldest */
        memcpy(f->score, f->earlier[f->seen % HB_IDENTIFICATION_EARLIER], sizeof f->score);
    for (int i = 0; i < HB_IDENTIFICATION_EARLIER; i++)
        memcpy(f->earlier[i], f->score, sizeof f->score);
}

void hb_identification_doubt(hb_identification *f)
{
    for (int k = 0; k < HB_GRID; k++)
        f->score[k] *= after_break;
}

/* The top of a parabola through three equally distant points, in their distance; 0 unless it is one. */
static double top_of(double before, double here, double after)
{
    double curvature = before - 2 * here + after;

    return curvature < 0 ? fmin(0.5, fmax(-0.5, (before - after) / (2 * curvature))) : 0;
}

/* Where between the points the top is, along one side of the grid, and how wide it is there, in seconds. */
static void refine(const double *at, int count, int here, double before, double value, double after, double *ret,
                   double *deviation)
{
    double step = count > 1 ? at[1] - at[0] : 0;

    *ret = at[here];
    if (here > 0 && here < count - 1)
        *ret += step * top_of(before, value, after);
    /* towards one side at least there is a slope */
    double curvature = here > 0 && here < count - 1 ? before - 2 * value + after
                       : here > 0                   ? 2 * (before - value)
                                                    : 2 * (after - value);
    if (count > 1)
        *deviation = fmax(*deviation, curvature < 0 ? step / sqrt(-curvature) : step);
}

hb_actuator_belief hb_identification_belief(const hb_identification *f)
{
    int n = hb_identification_count(f), top = best(f), i = top / f->ndelays, j = top % f->ndelays;
    double value[HB_GRID], sum = 0, lag = 0, delay = 0, lag_square = 0, delay_square = 0;
    hb_actuator_belief b = {
        .lag = f->start_lag, .lag_deviation = lag_scale, .delay = f->start_delay, .delay_deviation = delay_scale};

    if (f->seen < EARLIEST)
        return b;
    for (int k = 0; k < n; k++) {
        value[k] = f->score[k] + f->prior[k];
        double share = exp(value[k] - f->score[top] - f->prior[top]);
        double tau = f->lag[k / f->ndelays], d = f->delay[k % f->ndelays];
        sum += share;
        lag += share * tau;
        delay += share * d;
        lag_square += share * tau * tau;
        delay_square += share * d * d;
    }
    b.lag = lag / sum;
    b.delay = delay / sum;
    b.lag_deviation = sqrt(fmax(0, lag_square / sum - b.lag * b.lag));
    b.delay_deviation = sqrt(fmax(0, delay_square / sum - b.delay * b.delay));
    if (f->seen < FEWEST)
        return b;

    /* narrower than the grid: the top of the parabola, else the mean */
    double at_lag, at_delay, lag_width = b.lag_deviation, delay_width = b.delay_deviation;
    refine(f->lag, f->nlags, i, i > 0 ? value[top - f->ndelays] : 0, value[top],
           i < f->nlags - 1 ? value[top + f->ndelays] : 0, &at_lag, &lag_width);
    refine(f->delay, f->ndelays, j, j > 0 ? value[top - 1] : 0, value[top], j < f->ndelays - 1 ? value[top + 1] : 0,
           &at_delay, &delay_width);
    double lag_step = f->nlags > 1 ? f->lag[1] : 0, delay_step = f->ndelays > 1 ? f->delay[1] : 0;
    if (b.lag_deviation < lag_step / 2)
        b.lag = at_lag;
    if (b.delay_deviation < delay_step / 2)
        b.delay = at_delay;
    b.lag_deviation = f->nlags > 1 ? fmax(least_deviation, lag_width) : 0;
    b.delay_deviation = f->ndelays > 1 ? fmax(least_deviation, delay_width) : 0;
    b.confident = b.lag_deviation < confident_within && b.delay_deviation < confident_within;
    return b;
}
