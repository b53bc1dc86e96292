/* The belief as a whole: its memory, its beginning, and the walk of a transition; belief.h has the model. */
#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "dynamics/kernels.h"
#include "estimate/belief_internal.h"

/* Hands out parts of the block of all that changes; with a NULL block it only measures. */
static double *part(double *block, size_t *at, size_t size)
{
    double *here = block ? block + *at : NULL;

    *at += size;
    return here;
}

static void lay_out_state(hb_belief *b)
{
    size_t nx = (size_t)b->nx, at = 0;
    double *block = b->state;

    b->log_weight = part(block, &at, HB_RUNS);
    b->log_worth = part(block, &at, WORTHS);
    b->main_run = part(block, &at, 1);
    b->since_birth = part(block, &at, 1);
    b->surprised = part(block, &at, 1);
    b->outlier = part(block, &at, 1);
    b->foreign = part(block, &at, 1);
    b->glitch = part(block, &at, 1);
    b->left_before = part(block, &at, nx);
    b->moved_before = part(block, &at, nx);
    b->motion = part(block, &at, nx);
    b->fresh_start = part(block, &at, 1);
    b->confirming = part(block, &at, 1);
    b->block_seconds = part(block, &at, 1);
    b->former_error = part(block, &at, 1);
    b->present_error = part(block, &at, 1);
    b->changes = part(block, &at, 1);
    b->variance0 = part(block, &at, nx);
    b->variance1 = part(block, &at, nx);
    b->last_error = part(block, &at, nx);
    b->before = part(block, &at, nx * (size_t)b->ld);
    b->span_sum = part(block, &at, nx);
    b->span_mean = part(block, &at, nx);
    b->span_open = part(block, &at, nx);
    b->former = part(block, &at, hb_belief_vectors(b));
    b->former_slow = part(block, &at, nx);
    b->former_block = part(block, &at, nx);
    b->block = part(block, &at, nx);
    b->mean = part(block, &at, hb_belief_vectors(b));
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        hb_run *run = &b->run[k];
        run->unknown = part(block, &at, hb_belief_vectors(b));
        run->fixed = part(block, &at, hb_belief_fixed_size(b));
        if (k >= HB_RUNS)
            continue;
        run->age = part(block, &at, 1);
        run->noise_seconds = part(block, &at, 1);
        if (k >= b->nruns)
            continue;
        run->scale = part(block, &at, 1);
        run->sum = part(block, &at, nx * hb_belief_sum_size(b));
        run->noise = part(block, &at, nx);
        run->lasting = part(block, &at, nx);
        run->slow = part(block, &at, nx);
    }
    b->nstate = at;
}

void hb_belief_lay_out(hb_belief *b, hb_arena *arena)
{
    size_t nx, nb, n;

    b->nx = b->m->nx;
    b->nb = b->m->nb;
    b->n = b->nb + b->nfixed;
    b->nproblems = hb_model_nproblems(b->m);
    b->arithmetic = hb_arithmetic_find(hb_kernels_default()->name);
    b->nruns = (double)b->nproblems * b->nb * b->nb * b->nb > HB_LARGE_BASIS ? 2 : HB_RUNS;
    nx = (size_t)b->nx;
    nb = (size_t)b->nb;
    n = (size_t)b->n;
    b->prior = hb_arena_take(arena, hb_belief_vectors(b) * n, sizeof(double));
    b->prior_vector = hb_arena_take(arena, hb_belief_vectors(b), sizeof(double));
    b->c0 = hb_arena_take(arena, hb_belief_vectors(b), sizeof(double));
    b->file_variance = hb_arena_take(arena, nx, sizeof(double));
    b->reference = hb_arena_take(arena, nx, sizeof(double));
    b->state = NULL;
    lay_out_state(b);
    b->state = hb_arena_take(arena, b->nstate, sizeof(double));
    lay_out_state(b);
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        hb_prediction *p = &b->prediction[k];
        p->past = hb_arena_take(arena, nx, sizeof(double));
        p->variance = hb_arena_take(arena, nx, sizeof(double));
        p->uncertainty = hb_arena_take(arena, nx, sizeof(double));
        p->innovation = hb_arena_take(arena, nx, sizeof(double));
        p->updated = hb_arena_take(arena, hb_belief_vectors(b), sizeof(double));
        p->fixed = hb_arena_take(arena, hb_belief_fixed_size(b), sizeof(double));
    }
    b->raw = hb_arena_take(arena, nx * (size_t)b->ld, sizeof(double));
    b->left = hb_arena_take(arena, nx, sizeof(double));
    b->doubt = hb_arena_take(arena, nx, sizeof(double));
    b->row = hb_arena_take(arena, nx * (size_t)b->ld, sizeof(double));
    b->covariance = hb_arena_take(arena, (size_t)b->nproblems * nb * nb, sizeof(double));
    b->noise = hb_arena_take(arena, nx, sizeof(double));
    b->theta = hb_arena_take(arena, nx, sizeof(double));
    b->factor = hb_arena_take(arena, nb * nb, sizeof(double));
    b->cross = hb_arena_take(arena, (size_t)b->nfixed * nb, sizeof(double));
    b->information = hb_arena_take(arena, n * n, sizeof(hb_sides));
    b->sides_factor = hb_arena_take(arena, n * n, sizeof(hb_sides));
    b->vector = hb_arena_take(arena, n, sizeof(hb_sides));
    b->sides_c = hb_arena_take(arena, n, sizeof(hb_sides));
    b->sides_row = hb_arena_take(arena, nx * (size_t)b->ld, sizeof(hb_sides));
    b->sides_error = hb_arena_take(arena, nx, sizeof(hb_sides));
    b->sides_doubt = hb_arena_take(arena, nx, sizeof(hb_sides));
    b->sides_scratch = hb_arena_take(arena, 4 * n, sizeof(hb_sides));
    b->packed = hb_arena_take(arena, hb_belief_sum_size(b), sizeof(double));
    b->weight = hb_arena_take(arena, nx, sizeof(double));
    b->solved = hb_arena_take(arena, hb_belief_vectors(b), sizeof(double));
    b->condition_scratch = hb_arena_take(arena, 4 * nb, sizeof(double));
}

void hb_belief_start(hb_belief *b)
{
    const hb_model *m = b->m;
    double mean_variance = 0;

    for (int d = 0; d < b->nx; d++) {
        b->file_variance[d] = m->has_prior ? hb_square(m->noise[d]) : hb_square(HB_LEAST_NOISE);
        /* where none was stored, what training left may all have lasted; what is less than sensors show concerns nobody
         */
        b->reference[d] = m->has_prior && m->reference_noise[d] > 0 ? hb_square(m->reference_noise[d])
                          : m->has_prior ? b->file_variance[d] * fmax(1, 2 * HB_LASTING_TIME / m->dt - 1)
                                         : 0;
        b->reference[d] = fmax(b->reference[d], hb_square(HB_USUAL_NOISE));
        mean_variance += fmax(b->file_variance[d], hb_square(HB_USUAL_NOISE)) / b->nx;
    }
    hb_posterior_prior(b, mean_variance);
    /* relative to a usual vehicle of the population, whose plausibility is 1 in the mean */
    b->average_share = 0;
    if (m->has_prior)
        b->average_share =
            HB_KNOWN_SHARE *
            fmin(1, exp((1 - hb_belief_plausibility(b, b->run[HB_AVERAGE].unknown)) * b->nb * b->nproblems / 2));
    hb_belief_reset(b);
}

void hb_belief_reset(hb_belief *b)
{
    memset(b->state, 0, b->nstate * sizeof *b->state);
    for (int k = 0; k < HB_RUNS; k++)
        *b->run[k].age = -1;
    hb_runs_bear(b, 0, NULL);
    hb_runs_suppose(b);
    hb_runs_share(b, 0);
    *b->fresh_start = 1;
    *b->confirming = -1;
    memcpy(b->variance0, b->run[0].noise, (size_t)b->nx * sizeof(double));
    memcpy(b->mean, b->c0, hb_belief_vectors(b) * sizeof(double));
    hb_noise_conclude(b);
    b->span = 0;
    hb_belief_describe(b);
}

void hb_belief_restart(hb_belief *b, bool keep_noise)
{
    int main_run = (int)*b->main_run;

    if (!keep_noise) {
        hb_belief_reset(b);
        return;
    }
    for (int k = 0; k < b->nruns; k++)
        if (k != main_run)
            *b->run[k].age = -1;
    hb_runs_bear(b, main_run, &b->run[main_run]);
    hb_fixed_know(b, &b->run[main_run], NULL);
    hb_runs_suppose(b);
    hb_runs_share(b, main_run);
    *b->fresh_start = 1;
    *b->outlier = *b->glitch = *b->foreign = 0;
    b->confirms_later = *b->confirming >= 0;
    memcpy(b->mean, b->c0, hb_belief_vectors(b) * sizeof(double));
}

void hb_belief_learn(hb_belief *b, const hb_evidence *e)
{
    bool fresh_start = *b->fresh_start > 0 || !e->continues;

    hb_runs_give_birth(b, e->dt);
    hb_noise_whiten(b, e);
    for (int k = 0; k < HB_HYPOTHESES; k++)
        if (hb_runs_predicts(b, k)) {
            hb_fixed_wear(b, &b->run[k], e->dt);
            if (k < HB_RUNS)
                hb_posterior_forget(b, &b->run[k], e->dt);
        }
    hb_fixed_doubt(b);
    if (!hb_posterior_predict(b, e)) { /* numbers that cannot be: back to the prior, which can */
        hb_belief_restart(b, true);
        hb_posterior_predict(b, e);
    }
    hb_classes_judge(b, e);
    hb_classes_follow_span(b, e);
    hb_noise_follow_correlation(b, e, fresh_start);
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        if (!hb_runs_predicts(b, k))
            continue;
        hb_posterior_update(b, k);
        if (k >= HB_RUNS)
            continue;
        hb_noise_learn(b, &b->run[k], &b->prediction[k], e);
        *b->run[k].age += e->dt;
    }
    hb_runs_weigh(b, e->dt);
    hb_runs_follow_change(b);
    hb_runs_take_mean(b);
    hb_noise_conclude(b);
    hb_runs_confirm_change(b, e);
    *b->fresh_start = *b->outlier > 0.5;
}

void hb_belief_seed(hb_belief *b, const double *c)
{
    hb_run *run = &b->run[(int)*b->main_run];
    int nb = b->nb, n = b->n;

    /* as if they had been seen: seed_strength of the prior's information, shared by the states of a problem */
    for (int d = 0; d < b->nx; d++) {
        int k = hb_belief_problem_of(b, d), states = hb_belief_end_state(b, k) - hb_belief_first_state(b, k);
        double *sum = run->sum + (size_t)d * hb_belief_sum_size(b), *vector = sum + (ptrdiff_t)n * (n + 1) / 2;
        double worth = HB_MUCH * b->noise[d] / states / *run->scale;
        const double *prior = hb_prior_of(b, k);
        for (int i = 0; i < nb; i++, sum += i)
            for (int j = 0; j < nb; j++) {
                if (j <= i)
                    sum[j] += worth * prior[i * n + j];
                vector[i] += worth * prior[i * n + j] * c[k * nb + j];
            }
    }
    for (int k = 0; k < b->nproblems; k++)
        memcpy(run->unknown + k * n, c + k * nb, (size_t)nb * sizeof *c);
    memcpy(b->mean, run->unknown, hb_belief_vectors(b) * sizeof *b->mean);
    for (int k = 0; k < HB_RUNS; k++)
        b->log_weight[k] = k == (int)*b->main_run ? 0 : HB_NONE;
    for (int i = 0; i < WORTHS; i++)
        b->log_worth[i] = i == OF_RUNS ? 0 : HB_NONE;
    hb_belief_describe(b);
}

double hb_belief_adapted(const hb_belief *b)
{
    return exp(b->log_worth[OF_RUNS]);
}

double hb_belief_plausibility(const hb_belief *b, const double *c)
{
    int nb = b->nb, n = b->n;
    double sum = 0;

    if (!b->m->has_prior || nb == 0)
        return 0;
    for (int k = 0; k < b->nproblems; k++) {
        const double *prior = hb_prior_of(b, k);
        for (int i = 0; i < nb; i++)
            for (int j = 0; j < nb; j++)
                sum += (c[k * n + i] - b->c0[k * n + i]) * prior[i * n + j] * (c[k * n + j] - b->c0[k * n + j]);
    }
    return HB_POPULATION_SPREAD * sum / (nb * b->nproblems);
}

const double *hb_belief_possible(hb_belief *b)
{
    const hb_run *run;

    for (size_t i = 0; i < b->nstate; i++)
        if (!isfinite(b->state[i]))
            return NULL;
    if (!(*b->main_run >= 0 && *b->main_run < b->nruns))
        return NULL;
    for (int k = 0; k < b->nruns; k++)
        for (int d = 0; d < b->nx && hb_runs_lives(b, k); d++)
            if (!(*b->run[k].noise_seconds > 0 && b->run[k].noise[d] > 0 && b->run[k].slow[d] > 0 &&
                  b->variance0[d] > 0))
                return NULL;
    *b->main_run = floor(*b->main_run);
    run = &b->run[(int)*b->main_run];
    if (!hb_runs_lives(b, (int)*b->main_run))
        return NULL;
    hb_noise_conclude(b);
    for (int k = 0; k < b->nproblems; k++) {
        double *c = b->solved + k * b->n, l[HB_MOST_FIXED * HB_MOST_FIXED];
        for (int h = 0; h < HB_HYPOTHESES; h++)
            if (hb_runs_predicts(b, h) && !hb_fixed_factor(b->nfixed, hb_fixed_of(b, b->run[h].fixed, k), l))
                return NULL;
        hb_posterior_load(b, run, k, b->noise, c);
        if (hb_cholesky(b->nb, b->factor))
            return NULL;
        hb_cholesky_solve(b->nb, b->factor, 1, c);
        memcpy(c + b->nb, run->unknown + k * b->n + b->nb, (size_t)b->nfixed * sizeof *c);
    }
    return b->solved;
}
