/* The hypotheses: runs, which are born, weighed against one another and replaced, and what is known without learning;
 * which coefficients are used, and when a change of dynamics is told; belief.h. */
#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/belief_internal.h"

void hb_runs_suppose(hb_belief *b)
{
    memset(b->run[HB_AVERAGE].unknown, 0, hb_belief_vectors(b) * sizeof(double));
    memcpy(b->run[HB_MEAN].unknown, b->c0, hb_belief_vectors(b) * sizeof(double));
    hb_fixed_know(b, &b->run[HB_AVERAGE], NULL);
    hb_fixed_know(b, &b->run[HB_MEAN], NULL);
}

void hb_runs_bear(hb_belief *b, int k, const hb_run *noise_of)
{
    hb_run *run = &b->run[k];
    /* what no file tells is a guess, and worth one piece of evidence */
    double seconds = noise_of ? *noise_of->noise_seconds : b->m->has_prior ? HB_LASTING_TIME : HB_CORRELATION_TIME;

    *run->age = 0;
    *run->scale = 1;
    memset(run->sum, 0, (size_t)b->nx * hb_belief_sum_size(b) * sizeof(double));
    for (int p = 0; p < b->nproblems; p++)
        memcpy(run->unknown + p * b->n, b->c0 + p * b->n, (size_t)b->nb * sizeof(double));
    hb_fixed_know(b, run, noise_of);
    if (noise_of == run)
        return;
    for (int d = 0; d < b->nx; d++) {
        /* noise that is learned holds for the past too: starting above it costs little, below it a second */
        double usual = fmax(b->file_variance[d], hb_square(HB_USUAL_NOISE));
        bool grown = noise_of && noise_of->noise[d] > usual;
        run->noise[d] = noise_of && !grown ? noise_of->noise[d] : usual;
        run->slow[d] = noise_of && !grown ? noise_of->slow[d] : b->file_variance[d];
        run->lasting[d] = 0;
        seconds = grown ? fmin(seconds, HB_LASTING_TIME) : seconds;
    }
    *run->noise_seconds = seconds;
}

bool hb_runs_lives(const hb_belief *b, int k)
{
    if (k >= HB_RUNS)
        return b->m->has_prior;
    return k < b->nruns && *b->run[k].age >= 0;
}

bool hb_runs_predicts(const hb_belief *b, int k)
{
    return k >= HB_RUNS || hb_runs_lives(b, k);
}

hb_run *hb_runs_noise(hb_belief *b, int k)
{
    return &b->run[k < HB_RUNS ? k : (int)*b->main_run];
}

double hb_runs_weight(const hb_belief *b, int k)
{
    if (!hb_runs_lives(b, k))
        return 0;
    return exp(k < HB_RUNS ? b->log_weight[k] + b->log_worth[OF_RUNS] : b->log_worth[k - HB_AVERAGE + OF_AVERAGE]);
}

/* Of the worths, before anything is seen. Without a population nothing is known before: a run that may be anything
 * loses against any single vehicle, however wrong. */
static double first_worth(const hb_belief *b, int i)
{
    double average = b->average_share, mean = b->m->has_prior ? HB_KNOWN_SHARE : 0;

    return i == OF_RUNS ? 1 - average - mean : i == OF_AVERAGE ? average : mean;
}

void hb_runs_share(hb_belief *b, int run)
{
    for (int k = 0; k < HB_RUNS; k++)
        b->log_weight[k] = k == run ? 0 : HB_NONE;
    for (int i = 0; i < WORTHS; i++)
        b->log_worth[i] = fmax(HB_NONE, log(first_worth(b, i)));
}

double hb_log_sum(const double *x, int n)
{
    double most = x[0], sum = 0;

    for (int i = 0; i < n; i++)
        most = fmax(most, x[i]);
    for (int i = 0; i < n; i++)
        sum += exp(x[i] - most);
    return most + log(sum);
}

/* Weights that add up to one. */
static void normalise(double *log_weight, int n)
{
    double all = hb_log_sum(log_weight, n);

    for (int k = 0; k < n; k++)
        log_weight[k] = fmax(HB_NONE, log_weight[k] - all);
}

/* Adds evidence to n weights. With the probability of an outlier that was expected, a transition says nothing, whatever
 * it looks like: then the best explanation is no better than the others, so that one transition alone decides nothing.
 */
static void add_evidence(double outlier, double *log_weight, const double *fit, int n, double temper)
{
    double best = HB_NONE;

    for (int k = 0; k < n; k++)
        best = log_weight[k] > HB_NONE ? fmax(best, fit[k]) : best;
    for (int k = 0; k < n; k++)
        if (log_weight[k] > HB_NONE)
            log_weight[k] += log((1 - outlier) * exp(temper * (fit[k] - best)) + outlier);
    normalise(log_weight, n);
}

void hb_runs_weigh(hb_belief *b, double dt)
{
    double temper = fmin(1, dt / HB_CORRELATION_TIME), fit[HB_HYPOTHESES], runs[HB_RUNS], worth[WORTHS];

    for (int k = 0; k < HB_HYPOTHESES; k++) {
        const hb_prediction *p = &b->prediction[k];
        fit[k] = hb_runs_lives(b, k)
                     ? -((HB_TAIL_FREEDOM + b->nx) * log1p(p->distance / HB_TAIL_FREEDOM) + p->log_determinant) / 2
                     : HB_NONE;
    }
    for (int k = 0; k < HB_RUNS; k++)
        runs[k] = b->log_weight[k] + fit[k];
    worth[OF_RUNS] = hb_log_sum(runs, HB_RUNS);
    worth[OF_AVERAGE] = fit[HB_AVERAGE];
    worth[OF_MEAN] = fit[HB_MEAN];
    add_evidence(b->expected_outlier, b->log_worth, worth, WORTHS, temper);
    add_evidence(b->expected_outlier, b->log_weight, fit, HB_RUNS, temper);
}

void hb_runs_give_birth(hb_belief *b, double dt)
{
    int at = -1;

    *b->since_birth += dt;
    /* a transition that nothing explained may have been the first after a change */
    bool due = *b->since_birth >= HB_CORRELATION_TIME - dt / 2 || (*b->outlier > 0.5 && *b->surprised == 0);
    *b->surprised = *b->outlier > 0.5;
    if (!(b->s.change_interval > 0) || !due)
        return;
    double chance = fmin(HB_KNOWN_SHARE, *b->since_birth / b->s.change_interval);
    *b->since_birth = 0;
    for (int i = 0; i < WORTHS; i++)
        b->log_worth[i] = fmax(HB_NONE, log((1 - chance) * exp(b->log_worth[i]) + chance * first_worth(b, i)));
    for (int k = 0; k < b->nruns; k++) {
        if (!hb_runs_lives(b, k)) {
            at = k;
            break;
        }
        if (k != (int)*b->main_run && *b->run[k].age >= HB_SOON / 2 && (at < 0 || b->log_weight[k] < b->log_weight[at]))
            at = k;
    }
    if (at < 0)
        return;
    hb_runs_bear(b, at, &b->run[(int)*b->main_run]);
    for (int k = 0; k < HB_RUNS; k++)
        b->log_weight[k] = fmax(HB_NONE, k == at ? log(chance) : b->log_weight[k] + log1p(-chance));
    normalise(b->log_weight, HB_RUNS);
}

void hb_runs_take_mean(hb_belief *b)
{
    memset(b->mean, 0, hb_belief_vectors(b) * sizeof *b->mean);
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        double weight = hb_runs_weight(b, k);
        for (size_t i = 0; i < hb_belief_vectors(b) && weight > HB_NEGLIGIBLE; i++)
            b->mean[i] += weight * b->run[k].unknown[i];
    }
}

void hb_runs_follow_change(hb_belief *b)
{
    int before = (int)*b->main_run, best = before;

    for (int k = 0; k < b->nruns; k++)
        if (hb_runs_lives(b, k) && b->log_weight[k] > b->log_weight[best])
            best = k;
    *b->main_run = best;
    if (best == before || *b->run[before].age < HB_SOON)
        return;
    /* one that is being confirmed gives way only where it changed nothing so far */
    if (*b->confirming >= 0 && *b->former_error > *b->present_error)
        return;
    memcpy(b->former, b->run[before].unknown, hb_belief_vectors(b) * sizeof *b->former);
    memcpy(b->former_slow, b->run[before].slow, (size_t)b->nx * sizeof *b->former_slow);
    *b->former_error = *b->present_error = *b->confirming = *b->block_seconds = 0;
    memset(b->former_block, 0, (size_t)b->nx * sizeof *b->block);
    memset(b->block, 0, (size_t)b->nx * sizeof *b->block);
}

/* Variance per transition, in the long run, of what is left of this vehicle, or of others in training. */
static double usual_error(const hb_belief *b, int d)
{
    double trained = b->m->has_prior ? hb_square(b->m->reference_noise[d]) : 0;

    return fmax(fmax(trained, b->file_variance[d]), b->former_slow[d]);
}

void hb_runs_confirm_change(hb_belief *b, const hb_evidence *e)
{
    if (*b->confirming < 0 || b->confirms_later)
        return;
    *b->confirming += e->dt;
    *b->block_seconds += e->dt;
    for (int d = 0; d < b->nx; d++) {
        b->former_block[d] += hb_belief_left(b, b->raw, b->former, d);
        b->block[d] += hb_belief_left(b, b->raw, b->mean, d);
    }
    if (*b->block_seconds >= HB_SOON / 2) {
        for (int d = 0; d < b->nx; d++) {
            /* never less than what is left in any case */
            double usual = *b->block_seconds / b->m->dt * usual_error(b, d);
            *b->former_error += hb_square(b->former_block[d]) / b->noise[d];
            *b->present_error += (hb_square(b->block[d]) + usual) / b->noise[d];
            b->former_block[d] = b->block[d] = 0;
        }
        *b->block_seconds = 0;
    }
    if (*b->confirming < HB_CONFIRM_TIME)
        return;
    bool told = *b->former_error > HB_MUCH * *b->present_error;
    *b->changes += told;
    if (told || *b->confirming >= HB_CONFIRM_TIME + HB_SOON)
        *b->confirming = -1;
}
