/* The coefficients' posterior: the prior, sums of what was seen, and what follows from both for a transition, of all
 * hypotheses side by side; belief.h. */
#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/belief_internal.h"

/* The inverse of the population's covariance, a little wider, and wider still where it has no width. */
static void invert_population(hb_belief *b, int problem)
{
    int nb = b->nb;
    const double *covariance = b->m->prior_covariance + (size_t)problem * (size_t)nb * (size_t)nb;
    double *prior = hb_prior_of(b, problem), *inverse = hb_covariance_of(b, problem), *factor = b->factor, trace = 0;

    for (int i = 0; i < nb; i++)
        trace += HB_POPULATION_SPREAD * covariance[i * nb + i];
    for (double up = HB_NOTHING * (trace > 0 ? trace / nb : 1);; up *= 10) {
        for (int i = 0; i < nb * nb; i++)
            factor[i] = HB_POPULATION_SPREAD * covariance[i];
        for (int i = 0; i < nb; i++)
            factor[i * nb + i] += up;
        if (hb_cholesky(nb, factor) == 0)
            break;
    }
    memset(inverse, 0, (size_t)(nb * nb) * sizeof *inverse);
    for (int i = 0; i < nb; i++)
        inverse[i * nb + i] = 1;
    hb_cholesky_solve(nb, factor, nb, inverse);
    for (int i = 0; i < nb; i++)
        for (int j = 0; j < nb; j++)
            prior[i * b->n + j] = (inverse[i * nb + j] + inverse[j * nb + i]) / 2;
}

void hb_posterior_prior(hb_belief *b, double mean_variance)
{
    const hb_model *m = b->m;
    int nb = b->nb, n = b->n;

    for (int k = 0; k < b->nproblems; k++) {
        double *prior = hb_prior_of(b, k);
        if (m->has_prior)
            invert_population(b, k);
        else
            for (int i = 0; i < nb; i++)
                prior[i * n + i] = fmax(b->s.ridge / mean_variance, hb_square(m->dt / HB_FASTEST));
        for (int i = nb; i < n; i++)
            prior[i * n + i] = 1;
        for (int i = 0; i < n; i++) {
            b->c0[k * n + i] = m->has_prior && i < nb ? m->prior_mean[b->nproblems > 1 ? i * m->nx + k : i] : 0;
            b->prior_vector[k * n + i] = 0;
        }
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                b->prior_vector[k * n + i] += prior[i * n + j] * b->c0[k * n + j];
    }
}

void hb_posterior_forget(const hb_belief *b, hb_run *run, double dt)
{
    *run->scale *= exp(-dt / b->s.window);
    if (*run->scale > HB_NEGLIGIBLE)
        return;
    for (size_t i = 0; i < (size_t)b->nx * hb_belief_sum_size(b); i++)
        run->sum[i] *= *run->scale;
    *run->scale = 1;
}

/* Sums of a problem over its states, by the noise given, to b->packed. */
static void gather(hb_belief *b, const hb_run *run, int problem, const double *variance)
{
    int first = hb_belief_first_state(b, problem), n = hb_belief_end_state(b, problem) - first;

    for (int d = 0; d < n; d++)
        b->weight[d] = *run->scale / variance[first + d];
    b->arithmetic->weighted_sum((int)hb_belief_sum_size(b), n, b->weight,
                                run->sum + (size_t)first * hb_belief_sum_size(b), b->packed);
}

void hb_posterior_load(hb_belief *b, const hb_run *run, int problem, const double *variance, double *ret)
{
    int nb = b->nb, n = b->n;
    const double *prior = hb_prior_of(b, problem), *f = run->unknown + problem * n + nb, *sum = b->packed;

    gather(b, run, problem, variance);
    for (int i = 0; i < nb; i++, sum += i)
        for (int j = 0; j <= i; j++)
            b->factor[i * nb + j] = prior[i * n + j] + sum[j];
    for (int i = 0; i < b->nfixed; i++, sum += nb + i)
        memcpy(b->cross + i * nb, sum, (size_t)nb * sizeof *sum);
    for (int i = 0; i < nb; i++) {
        ret[i] = b->prior_vector[problem * n + i] + sum[i];
        for (int j = 0; j < b->nfixed; j++)
            ret[i] -= b->cross[j * nb + i] * f[j];
    }
}

/* Sums of a run by its noise to side k. */
static void load_sums(hb_belief *b, int problem, int k)
{
    const double *sum = b->packed;

    gather(b, &b->run[k], problem, b->prediction[k].past);
    for (int i = 0; i < b->n; i++, sum += i)
        for (int j = 0; j <= i; j++)
            b->information[i * b->n + j][k] = sum[j];
    for (int i = 0; i < b->n; i++)
        b->vector[i][k] = sum[i];
}

/* Rows of a problem over the deviations of their noise, and its sums, of all hypotheses side by side. Where c is known
 * beforehand its part of the row is taken off the right-hand side. */
static void load_sides(hb_belief *b, int problem)
{
    int nb = b->nb, n = b->n, first = hb_belief_first_state(b, problem), end = hb_belief_end_state(b, problem);

    memset(b->information, 0, (size_t)(n * n) * sizeof *b->information);
    memset(b->vector, 0, (size_t)n * sizeof *b->vector);
    for (int k = 0; k < b->nruns; k++)
        if (hb_runs_lives(b, k))
            load_sums(b, problem, k);
    for (int d = first; d < end; d++) {
        const double *row = b->row + (ptrdiff_t)d * b->ld;
        hb_sides *to = b->sides_row + (ptrdiff_t)(d - first) * b->ld, per = {0}, per_c = {0};
        for (int k = 0; k < HB_HYPOTHESES; k++) {
            per[k] = hb_runs_predicts(b, k) ? 1 / sqrt(b->prediction[k].variance[d]) : 0;
            per_c[k] = k < HB_RUNS ? per[k] : 0;
        }
        for (int i = 0; i <= n; i++)
            for (int k = 0; k < HB_SIDES; k++)
                to[i][k] = row[i] * (i < nb ? per_c : per)[k];
        for (int k = HB_RUNS; k < HB_HYPOTHESES; k++)
            to[n][k] -= hb_dot(row, b->run[k].unknown + problem * n, nb) * per[k];
    }
}

/* c and f of all hypotheses, from the factor of L and the sums. */
static void solve_sides(hb_belief *b, int problem)
{
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < HB_SIDES; k++)
            b->sides_c[i][k] = b->vector[i][k] + b->prior_vector[problem * b->n + i];
    b->arithmetic->sides_solve(b->n, b->sides_factor, b->sides_c);
}

/* log |L| of a hypothesis; the factor's diagonal holds reciprocals. */
static double log_determinant(const hb_belief *b, int k)
{
    double sum = 0, product = 1;

    /* increments have single precision: four of these are far from where numbers end */
    for (int i = 0; i < b->n; i++) {
        product *= b->sides_factor[i * b->n + i][k];
        if (i % 4 == 3 || i == b->n - 1) {
            sum -= 2 * log(product);
            product = 1;
        }
    }
    return sum;
}

/* A problem of all hypotheses: nu, d^2 and log |S|, and c and f before and after. With rows over their deviations

       b = G~^T nu,    L+ = L + G~^T G~,    c+ - c = L+^-1 b,    d^2 = nu^T nu - b^T (c+ - c),    |S| = |V| |L+| / |L|

   False: information cannot be factored. */
static bool predict_problem(hb_belief *b, int problem)
{
    const hb_arithmetic *arithmetic = b->arithmetic;
    int n = b->n, first = hb_belief_first_state(b, problem), rows = hb_belief_end_state(b, problem) - first;
    const double *prior = hb_prior_of(b, problem);

    load_sides(b, problem);
    if (!arithmetic->sides_cholesky(n, b->information, prior, b->sides_factor) || !hb_fixed_load(b, problem))
        return false;
    solve_sides(b, problem);
    arithmetic->sides_error(n, b->sides_c, rows, b->ld, b->sides_row, b->sides_error);
    arithmetic->sides_doubt(n, b->sides_factor, rows, b->ld, b->sides_row, b->sides_scratch, b->sides_doubt);
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        hb_prediction *p = &b->prediction[k];
        if (!hb_runs_predicts(b, k))
            continue;
        for (int i = k < HB_RUNS ? 0 : b->nb; i < n; i++)
            b->run[k].unknown[problem * n + i] = b->sides_c[i][k];
        p->log_determinant -= log_determinant(b, k);
        for (int d = 0; d < rows; d++) {
            double variance = p->variance[first + d];
            p->innovation[first + d] = b->sides_error[d][k] * sqrt(variance);
            p->uncertainty[first + d] = b->sides_doubt[d][k] * variance;
            p->distance += hb_square(b->sides_error[d][k]);
            p->log_determinant += log(variance);
        }
    }
    for (int d = 0; d < rows; d++)
        b->weight[d] = 1;
    arithmetic->sides_add(n, 1, rows, b->ld, b->weight, b->sides_row, b->information, b->vector);
    if (!arithmetic->sides_cholesky(n, b->information, prior, b->sides_factor))
        return false;
    solve_sides(b, problem);
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        hb_prediction *p = &b->prediction[k];
        if (!hb_runs_predicts(b, k))
            continue;
        const double *before = b->run[k].unknown + problem * n;
        int first_unknown = k < HB_RUNS ? 0 : b->nb;
        p->log_determinant += log_determinant(b, k);
        memcpy(p->updated + problem * n, before, (size_t)first_unknown * sizeof *before);
        for (int i = first_unknown; i < n; i++) {
            double along = 0;
            for (int d = 0; d < rows; d++)
                along += b->sides_row[d * b->ld + i][k] * b->sides_error[d][k];
            p->updated[problem * n + i] = b->sides_c[i][k];
            p->distance -= along * (b->sides_c[i][k] - before[i]);
        }
        hb_fixed_take(b, k, hb_fixed_of(b, p->fixed, problem));
    }
    return true;
}

bool hb_posterior_predict(hb_belief *b, const hb_evidence *e)
{
    bool good = true;

    for (int k = 0; k < HB_HYPOTHESES; k++)
        if (hb_runs_predicts(b, k)) {
            hb_noise_expect(b, hb_runs_noise(b, k), e, &b->prediction[k]);
            b->prediction[k].distance = b->prediction[k].log_determinant = 0;
        }
    for (int problem = 0; problem < b->nproblems && good; problem++)
        good = predict_problem(b, problem);
    for (int k = 0; k < HB_HYPOTHESES && good; k++)
        if (hb_runs_predicts(b, k)) {
            b->prediction[k].distance = fmax(0, b->prediction[k].distance); /* rounding, where nothing is left */
            good = isfinite(b->prediction[k].distance);
        }
    return good;
}

void hb_posterior_update(hb_belief *b, int k)
{
    hb_run *run = &b->run[k];
    const hb_prediction *p = &b->prediction[k];

    if (p->believed < HB_NEGLIGIBLE)
        return;
    for (int d = 0; d < b->nx && k < HB_RUNS; d++)
        b->arithmetic->triangle_add(b->n + 1, b->row + (ptrdiff_t)d * b->ld,
                                    p->believed * p->past[d] / (p->variance[d] * *run->scale),
                                    run->sum + (size_t)d * hb_belief_sum_size(b));
    /* exact where there is no doubt; the next transition solves anew */
    for (size_t i = 0; i < hb_belief_vectors(b); i++)
        run->unknown[i] += p->believed * (p->updated[i] - run->unknown[i]);
    for (size_t i = 0; i < hb_belief_fixed_size(b); i++)
        run->fixed[i] += p->believed * (p->fixed[i] - run->fixed[i]);
    for (int problem = 0; problem < b->nproblems; problem++)
        hb_fixed_bound(b, run->unknown + problem * b->n + b->nb, hb_fixed_of(b, run->fixed, problem));
}

/* Adds w d d^T of each hypothesis, d its coefficients less the mean ones: what they do not agree on. */
static void widen_by_hypotheses(hb_belief *b, int problem, double *covariance)
{
    int nb = b->nb;
    const double *mean = b->mean + problem * b->n;
    double *off = b->condition_scratch;

    for (int h = 0; h < HB_HYPOTHESES; h++) {
        const double *c = b->run[h].unknown + problem * b->n;
        double weight = hb_runs_weight(b, h);
        for (int i = 0; i < nb; i++)
            off[i] = c[i] - mean[i];
        for (int i = 0; i < nb && weight > 0; i++)
            for (int j = 0; j <= i; j++)
                covariance[i * nb + j] += weight * off[i] * off[j];
    }
}

void hb_belief_describe(hb_belief *b)
{
    const hb_run *run = &b->run[(int)*b->main_run];
    int nb = b->nb;

    b->condition = 0;
    for (int k = 0; k < b->nproblems; k++) {
        double *covariance = hb_covariance_of(b, k), norm;
        hb_posterior_load(b, run, k, b->noise, b->condition_scratch);
        norm = hb_norm_one(nb, b->factor, b->condition_scratch);
        if (hb_cholesky(nb, b->factor)) {
            b->condition = INFINITY;
            continue;
        }
        hb_cholesky_invert(nb, b->factor);
        b->condition = fmax(b->condition, norm * hb_norm_one(nb, b->factor, b->condition_scratch));
        hb_fixed_widen(b, run, k, b->factor);
        widen_by_hypotheses(b, k, b->factor);
        for (int i = 0; i < nb; i++)
            for (int j = 0; j <= i; j++)
                covariance[i * nb + j] = covariance[j * nb + i] = b->factor[i * nb + j];
    }
}
