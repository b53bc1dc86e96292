#include "estimate/belief.h"

#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "dynamics/kernels.h"

/* ---- what is taken for granted ---- */

/* seconds for which a model's errors last: evidence from within this time counts once, and runs are born so often */
static const double correlation_time = 0.16;
/* seconds over which errors that last are summed up: several of the above */
static const double lasting_time = 0.4;
/* seconds behind the noise, behind the variance of lasting errors, and what the file's word counts for at first */
static const double noise_memory = 10, slow_memory = 30, noise_start = 0.4;
/* seconds that a new run is given before another may take its place */
static const double infancy = 0.25;
/* seconds: a change from what was known for so long is told after this time, or at the latest after that, as soon as
 * the former coefficients did so many times worse, squared and summed up in blocks: 10 dB */
static const double confirm_known = 0.5, confirm_time = 1, confirm_latest = 1.5, confirm_block = 0.25,
                    confirm_ratio = 10;
/* seconds behind what is said of the span */
static const double status_time = 0.5;
/* probability, before anything is seen, that a vehicle is the average one, if that is as usual as others of the
 * population, and that it is the population's mean */
static const double known_share = 0.1;
/* the prior is this much wider than the population: few functions were trained on, and vehicles differ more */
static const double population_spread = 2;
/* where no population is known: a coefficient is a rate, and one above this, per period, can be neither stepped (it is
 * the limit of stability of RK4) nor linearised at */
static const double fastest = 2.8;
/* of the mean variance of the population, that is added in every direction: some have none */
static const double least_spread = 1e-6;
/* variance of a state's noise to begin with */
static const double usual_variance = HB_USUAL_NOISE * HB_USUAL_NOISE;
/* and the least there is, where no file tells: networks compute in single precision */
static const double least_variance = 1e-8;
/* variance of outliers, in units of what the prior expects */
static const double outlier_width = 100;
/* a glitch comes back with this probability; else, as with a command that was never given, only one transition is wrong
 */
static const double glitch_returns = 0.5;
/* share by which what is known to first order alone errs: the way back from a glitch, what unknown actuators change */
static const double first_order = 0.3;
/* seconds for which foreign dynamics last at least, in the mean */
static const double foreign_time = 1;
/* degrees of freedom of the errors' tails, for the weights of runs */
static const double tail_freedom = 5;
/* a single error counts for at most so many deviations when noise is learned */
static const double clip = 3;
/* theta is at most this, so that whitening forgets */
static const double most_theta = 0.9;
/* ratio of lasting errors that one state can add at most: one channel alone is a sensor, not foreign dynamics */
static const double most_span = 100;
/* coefficients from elsewhere are worth so many times the prior */
static const double seed_strength = 10;
/* numbers of a Cholesky factor, in all, above which only two runs live: a millisecond's work */
static const double large_basis = 2e6;

/* whose worth is weighed: all runs together, the average, the population's mean */
enum { OF_RUNS, OF_AVERAGE, OF_MEAN, WORTHS };

/* probability below which a transition is not learned from, and a hypothesis is not used: it could move nothing but
 * rounding */
static const double negligible = 1e-9;
/* of f, as a change that is none */
static const double settled = 1e-6;
/* scale of sums below which they are scaled: long before numbers end */
static const double least_scale = 1e-30;
/* log of the weight of what does not live: finite, as all that is kept */
static const double none = -1e9;

/* ---- memory ---- */

/* c and f of all problems */
static size_t vectors(const hb_belief *b)
{
    return (size_t)b->nproblems * (size_t)b->n;
}

/* M of all problems */
static size_t fixed_size(const hb_belief *b)
{
    return (size_t)b->nproblems * (size_t)b->nfixed * (size_t)b->nfixed;
}

/* of a state: the lower triangle of the products of [ g~ | r~ ]: A_d, b_d, and the sum of squares */
static size_t sum_size(const hb_belief *b)
{
    return ((size_t)b->n + 1) * ((size_t)b->n + 2) / 2;
}

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

    b->started = part(block, &at, 1);
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
    b->former = part(block, &at, vectors(b));
    b->former_slow = part(block, &at, nx);
    b->former_block = part(block, &at, nx);
    b->block = part(block, &at, nx);
    b->mean = part(block, &at, vectors(b));
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        hb_run *run = &b->run[k];
        run->unknown = part(block, &at, vectors(b));
        run->fixed = part(block, &at, fixed_size(b));
        if (k >= HB_RUNS)
            continue;
        run->age = part(block, &at, 1);
        run->noise_seconds = part(block, &at, 1);
        if (k >= b->nruns)
            continue;
        run->scale = part(block, &at, 1);
        run->sum = part(block, &at, nx * sum_size(b));
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
    b->nruns = (double)b->nproblems * b->nb * b->nb * b->nb > large_basis ? 2 : HB_RUNS;
    nx = (size_t)b->nx;
    nb = (size_t)b->nb;
    n = (size_t)b->n;
    b->prior = hb_arena_take(arena, vectors(b) * n, sizeof(double));
    b->prior_vector = hb_arena_take(arena, vectors(b), sizeof(double));
    b->c0 = hb_arena_take(arena, vectors(b), sizeof(double));
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
        p->updated = hb_arena_take(arena, vectors(b), sizeof(double));
        p->fixed = hb_arena_take(arena, fixed_size(b), sizeof(double));
    }
    b->raw = hb_arena_take(arena, nx * (size_t)b->ld, sizeof(double));
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
    b->packed = hb_arena_take(arena, sum_size(b), sizeof(double));
    b->weight = hb_arena_take(arena, nx, sizeof(double));
    b->solved = hb_arena_take(arena, vectors(b), sizeof(double));
    b->condition_scratch = hb_arena_take(arena, 4 * nb, sizeof(double));
}

static double square(double x)
{
    return x * x;
}

/* the states that add to a problem */
static int first_state(const hb_belief *b, int problem)
{
    return b->nproblems > 1 ? problem : 0;
}

static int end_state(const hb_belief *b, int problem)
{
    return b->nproblems > 1 ? problem + 1 : b->nx;
}

/* the problem of a state */
static int problem_of(const hb_belief *b, int state)
{
    return b->nproblems > 1 ? state : 0;
}

static double *covariance_of(const hb_belief *b, int problem)
{
    return b->covariance + (size_t)problem * (size_t)b->nb * (size_t)b->nb;
}

static double *prior_of(const hb_belief *b, int problem)
{
    return b->prior + (size_t)problem * (size_t)b->n * (size_t)b->n;
}

static double *fixed_of(const hb_belief *b, double *of, int problem)
{
    return of + (size_t)problem * (size_t)b->nfixed * (size_t)b->nfixed;
}

/* ---- the prior ---- */

/* The inverse of the population's covariance, a little wider, and wider still where it has no width. */
static void invert_population(hb_belief *b, int problem)
{
    int nb = b->nb;
    const double *covariance = b->m->prior_covariance + (size_t)problem * (size_t)nb * (size_t)nb;
    double *prior = prior_of(b, problem), *inverse = covariance_of(b, problem), *factor = b->factor, trace = 0;

    for (int i = 0; i < nb; i++)
        trace += population_spread * covariance[i * nb + i];
    for (double up = least_spread * (trace > 0 ? trace / nb : 1);; up *= 10) {
        for (int i = 0; i < nb * nb; i++)
            factor[i] = population_spread * covariance[i];
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

void hb_belief_start(hb_belief *b)
{
    const hb_model *m = b->m;
    int nb = b->nb, n = b->n;
    double mean_variance = 0;

    for (int d = 0; d < b->nx; d++) {
        b->file_variance[d] = m->has_prior ? square(m->noise[d]) : least_variance;
        /* where none was stored, what training left may all have lasted; what is less than sensors show concerns nobody
         */
        b->reference[d] = m->has_prior && m->reference_noise[d] > 0 ? square(m->reference_noise[d])
                          : m->has_prior ? b->file_variance[d] * fmax(1, 2 * lasting_time / m->dt - 1)
                                         : 0;
        b->reference[d] = fmax(b->reference[d], usual_variance);
        mean_variance += fmax(b->file_variance[d], usual_variance) / b->nx;
    }
    for (int k = 0; k < b->nproblems; k++) {
        double *prior = prior_of(b, k);
        if (m->has_prior)
            invert_population(b, k);
        else
            for (int i = 0; i < nb; i++)
                prior[i * n + i] = fmax(b->s.ridge / mean_variance, square(m->dt / fastest));
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
    /* relative to a usual vehicle of the population, whose plausibility is 1 in the mean */
    b->average_share = 0;
    if (m->has_prior)
        b->average_share =
            known_share *
            fmin(1, exp((1 - hb_belief_plausibility(b, b->run[HB_AVERAGE].unknown)) * nb * b->nproblems / 2));
    hb_belief_reset(b);
}

/* ---- runs ---- */

/* What a hypothesis knows of f to begin with: what another one does; NULL: the prior alone. */
static void know_fixed(hb_belief *b, hb_run *run, const hb_run *as)
{
    int nb = b->nb, n = b->n, nfixed = b->nfixed;

    for (int k = 0; k < b->nproblems; k++)
        for (int i = 0; i < nfixed; i++) {
            run->unknown[k * n + nb + i] = as ? as->unknown[k * n + nb + i] : 0;
            for (int j = 0; j < nfixed; j++)
                fixed_of(b, run->fixed, k)[i * nfixed + j] =
                    as ? fixed_of(b, as->fixed, k)[i * nfixed + j] : (double)(i == j);
        }
}

/* The hypotheses that say what the coefficients are. */
static void suppose(hb_belief *b)
{
    memset(b->run[HB_AVERAGE].unknown, 0, vectors(b) * sizeof(double));
    memcpy(b->run[HB_MEAN].unknown, b->c0, vectors(b) * sizeof(double));
    know_fixed(b, &b->run[HB_AVERAGE], NULL);
    know_fixed(b, &b->run[HB_MEAN], NULL);
}

/* Actuators may change too, though seldom: once between changes of dynamics, what is known of them is forgotten. */
static void wear(const hb_belief *b, hb_run *run, double dt)
{
    double share = b->s.change_interval > 0 ? fmin(1, dt / b->s.change_interval) : 0;

    for (int k = 0; k < b->nproblems; k++)
        for (int i = 0; i < b->nfixed; i++)
            for (int j = 0; j < b->nfixed; j++) {
                double *known = fixed_of(b, run->fixed, k) + i * b->nfixed + j;
                *known += share * ((i == j) - *known);
            }
}

/* Knows the prior alone, and of f what the other one does. Its noise is what is expected to begin with, or that of another run, where that is less: what
 * has grown may have been a fault of the sensors, and is over. */
static void bear(hb_belief *b, int k, const hb_run *noise_of)
{
    hb_run *run = &b->run[k];
    /* what no file tells is a guess, and worth one piece of evidence */
    double seconds = noise_of ? *noise_of->noise_seconds : b->m->has_prior ? noise_start : correlation_time;

    *run->age = 0;
    *run->scale = 1;
    memset(run->sum, 0, (size_t)b->nx * sum_size(b) * sizeof(double));
    for (int p = 0; p < b->nproblems; p++)
        memcpy(run->unknown + p * b->n, b->c0 + p * b->n, (size_t)b->nb * sizeof(double));
    know_fixed(b, run, noise_of);
    if (noise_of == run)
        return;
    for (int d = 0; d < b->nx; d++) {
        /* noise that is learned holds for the past too: starting above it costs little, below it a second */
        double usual = fmax(b->file_variance[d], usual_variance);
        bool grown = noise_of && noise_of->noise[d] > usual;
        run->noise[d] = noise_of && !grown ? noise_of->noise[d] : usual;
        run->slow[d] = noise_of && !grown ? noise_of->slow[d] : b->file_variance[d];
        run->lasting[d] = 0;
        seconds = grown ? fmin(seconds, noise_start) : seconds;
    }
    *run->noise_seconds = seconds;
}

static bool lives(const hb_belief *b, int k)
{
    if (k >= HB_RUNS)
        return b->m->has_prior;
    return k < b->nruns && *b->run[k].age >= 0;
}

/* Whether a hypothesis predicts: what is known beforehand does so even where it cannot be true. */
static bool predicts(const hb_belief *b, int k)
{
    return k >= HB_RUNS || lives(b, k);
}

/* The run whose noise a hypothesis has. */
static hb_run *noise_run(hb_belief *b, int k)
{
    return &b->run[k < HB_RUNS ? k : (int)*b->main_run];
}

/* Probability of a hypothesis. */
static double weight_of(const hb_belief *b, int k)
{
    if (!lives(b, k))
        return 0;
    return exp(k < HB_RUNS ? b->log_weight[k] + b->log_worth[OF_RUNS] : b->log_worth[k - HB_AVERAGE + OF_AVERAGE]);
}

/* Of the worths, before anything is seen. Without a population nothing is known before: a run that may be anything
 * loses against any single vehicle, however wrong. */
static double first_worth(const hb_belief *b, int i)
{
    double average = b->average_share, mean = b->m->has_prior ? known_share : 0;

    return i == OF_RUNS ? 1 - average - mean : i == OF_AVERAGE ? average : mean;
}

/* One run, and the vehicles that are known before. */
static void share_weight(hb_belief *b, int run)
{
    for (int k = 0; k < HB_RUNS; k++)
        b->log_weight[k] = k == run ? 0 : none;
    for (int i = 0; i < WORTHS; i++)
        b->log_worth[i] = fmax(none, log(first_worth(b, i)));
}

static void follow_noise(hb_belief *b);

void hb_belief_reset(hb_belief *b)
{
    memset(b->state, 0, b->nstate * sizeof *b->state);
    for (int k = 0; k < HB_RUNS; k++)
        *b->run[k].age = -1;
    bear(b, 0, NULL);
    suppose(b);
    share_weight(b, 0);
    *b->fresh_start = 1;
    *b->confirming = -1;
    memcpy(b->variance0, b->run[0].noise, (size_t)b->nx * sizeof(double));
    memcpy(b->mean, b->c0, vectors(b) * sizeof(double));
    follow_noise(b);
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
    bear(b, main_run, &b->run[main_run]);
    know_fixed(b, &b->run[main_run], NULL);
    suppose(b);
    share_weight(b, main_run);
    *b->fresh_start = 1;
    *b->outlier = *b->glitch = *b->foreign = 0;
    b->confirms_later = *b->confirming >= 0;
    memcpy(b->mean, b->c0, vectors(b) * sizeof(double));
}

/* Sums of a problem over its states, by the noise given, to b->packed. */
static void gather(hb_belief *b, const hb_run *run, int problem, const double *variance)
{
    int first = first_state(b, problem), n = end_state(b, problem) - first;

    for (int d = 0; d < n; d++)
        b->weight[d] = *run->scale / variance[first + d];
    b->arithmetic->weighted_sum((int)sum_size(b), n, b->weight, run->sum + (size_t)first * sum_size(b), b->packed);
}

/* L_cc of a problem (lower triangle) to b->factor, L_fc to b->cross, and the vector of c, for the run's f, to ret, by
 * the noise given. */
static void load_problem(hb_belief *b, const hb_run *run, int problem, const double *variance, double *ret)
{
    int nb = b->nb, n = b->n;
    const double *prior = prior_of(b, problem), *f = run->unknown + problem * n + nb, *sum = b->packed;

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

/* A_d <- a A_d, b_d likewise. */
static void forget(const hb_belief *b, hb_run *run, double dt)
{
    *run->scale *= exp(-dt / b->s.window);
    if (*run->scale > least_scale)
        return;
    for (size_t i = 0; i < (size_t)b->nx * sum_size(b); i++)
        run->sum[i] *= *run->scale;
    *run->scale = 1;
}

static double dot(const double *x, const double *y, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* ---- noise ---- */

/* theta from the lag-1 correlation of errors. */
static void find_theta(hb_belief *b)
{
    for (int d = 0; d < b->nx; d++) {
        /* a moving average of two has at least -1/2; above zero the errors are the model's, see `slow` */
        double rho = fmin(fmax(b->variance1[d] / b->variance0[d], -0.499), 0);
        b->theta[d] = rho < 0 ? fmin(most_theta, (1 - sqrt(1 - 4 * rho * rho)) / (-2 * rho)) : 0;
    }
}

/* What c and f leave of a row of state d. */
static double left_of(const hb_belief *b, const double *row, const double *unknown, int d)
{
    return row[d * b->ld + b->n] - dot(row + (ptrdiff_t)d * b->ld, unknown + problem_of(b, d) * b->n, b->n);
}

/* Rows as if evaluated at f = 0, so that they mean the same wherever that was; and r~, D~ and G~. */
static void whiten(hb_belief *b, const hb_evidence *e)
{
    int n = b->n;
    bool fresh = *b->fresh_start > 0 || !e->continues;

    for (int d = 0; d < b->nx; d++) {
        double theta = fresh ? 0 : b->theta[d];
        double *row = b->raw + (ptrdiff_t)d * b->ld;
        memcpy(row, e->row + (ptrdiff_t)d * b->ld, (size_t)b->ld * sizeof *row);
        row[n] += e->at ? dot(row + b->nb, e->at, b->nfixed) : 0;
        for (int i = 0; i <= n; i++)
            b->row[d * b->ld + i] = row[i] + theta * b->before[d * b->ld + i];
    }
    memcpy(b->before, b->row, (size_t)(b->nx * b->ld) * sizeof *b->row);
}

/* V of all transitions of a run. */
static void variance_of(const hb_belief *b, const hb_run *run, double *ret)
{
    for (int d = 0; d < b->nx; d++)
        ret[d] = fmax(fmax(run->noise[d] / (1 + square(b->theta[d])), run->slow[d]), b->file_variance[d]);
}

/* What follows from what is kept of the noise: theta, and V of the most probable run. */
static void follow_noise(hb_belief *b)
{
    find_theta(b);
    variance_of(b, &b->run[(int)*b->main_run], b->noise);
}

/* V of the newest transition; the first of a chain is not whitened. */
static void expect_noise(const hb_belief *b, const hb_run *run, const hb_evidence *e, hb_prediction *p)
{
    bool fresh = *b->fresh_start > 0 || !e->continues;

    variance_of(b, run, p->past);
    for (int d = 0; d < b->nx; d++)
        p->variance[d] = (fresh ? fmax(run->noise[d], p->past[d]) : p->past[d]) + b->doubt[d];
}

/* The step is not linear in f: of D~ P D~^T, what first order leaves. */
static void find_doubt(hb_belief *b)
{
    double mean[HB_MOST_FIXED], covariance[HB_MOST_FIXED * HB_MOST_FIXED];

    hb_belief_fixed(b, mean, covariance);
    for (int d = 0; d < b->nx; d++) {
        const double *slope = b->row + (ptrdiff_t)d * b->ld + b->nb;
        b->doubt[d] = 0;
        for (int i = 0; i < b->nfixed; i++)
            b->doubt[d] += square(first_order) * slope[i] * dot(covariance + i * b->nfixed, slope, b->nfixed);
    }
}

/* b of a sum that decays over lasting_time */
static double keeps(double dt)
{
    return fmax(0, 1 - dt / lasting_time);
}

/* How much a transition says about noise: an outlier nothing, nor the first ones after a change, which a newborn run
 * explains; what goes on and nothing explains does. */
static double tells_noise(const hb_belief *b)
{
    return fmin(1, fmax(1 - *b->outlier, *b->foreign * b->unexplained));
}

/* What is left of a transition after it was used. */
static void learn_noise(hb_belief *b, hb_run *run, const hb_prediction *p, const hb_evidence *e)
{
    double believed = tells_noise(b), fresh = believed * e->dt / *run->noise_seconds;
    double keep = keeps(e->dt);
    double slow_fresh = believed * e->dt / fmin(fmax(*run->age, noise_start) + e->dt, slow_memory);

    for (int d = 0; d < b->nx; d++) {
        double left = left_of(b, b->raw, run->unknown, d), white = left_of(b, b->row, run->unknown, d);
        /* how uncertain the coefficients are after the transition */
        double open = p->uncertainty[d] * p->variance[d] / (p->uncertainty[d] + p->variance[d]);
        run->noise[d] += fmin(1, fresh) * (fmin(square(left) + open, square(clip) * run->noise[d]) - run->noise[d]);
        run->lasting[d] = keep * run->lasting[d] + white;
        double slow = (1 - keep * keep) * square(run->lasting[d]);
        run->slow[d] += fmin(1, slow_fresh) * (fmin(slow, square(clip) * run->slow[d]) - run->slow[d]);
        /* neither falls below what the file says, from where it would take long to rise */
        run->noise[d] = fmax(run->noise[d], b->file_variance[d]);
        run->slow[d] = fmax(run->slow[d], b->file_variance[d] / 9);
    }
    *run->noise_seconds = fmin(noise_memory, *run->noise_seconds + e->dt);
}

/* ---- prediction ---- */

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
    int nb = b->nb, n = b->n, first = first_state(b, problem), end = end_state(b, problem);

    memset(b->information, 0, (size_t)(n * n) * sizeof *b->information);
    memset(b->vector, 0, (size_t)n * sizeof *b->vector);
    memset(b->sides_row, 0, (size_t)((end - first) * b->ld) * sizeof *b->sides_row);
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        if (!predicts(b, k))
            continue;
        bool known = k >= HB_RUNS;
        if (!known)
            load_sums(b, problem, k);
        for (int d = first; d < end; d++) {
            const double *row = b->row + (ptrdiff_t)d * b->ld;
            hb_sides *to = b->sides_row + (ptrdiff_t)(d - first) * b->ld;
            double per = 1 / sqrt(b->prediction[k].variance[d]);
            for (int i = known ? nb : 0; i <= n; i++)
                to[i][k] = row[i] * per;
            if (known)
                to[n][k] -= dot(row, b->run[k].unknown + problem * n, nb) * per;
        }
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

/* The factor of a small matrix a, n <= HB_MOST_FIXED; false: it has none. */
static bool factor_fixed(int n, const double *a, double *l)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = a[i * n + j] - dot(l + i * n, l + j * n, j);
            if (i == j && !(sum > 0 && isfinite(sum)))
                return false;
            l[i * n + j] = i == j ? sqrt(sum) : sum / l[j * n + j];
        }
    return true;
}

/* The first part of L^-1 of the vector: y of the coefficients. */
static void solve_forward(hb_belief *b, int problem)
{
    for (int i = 0; i < b->nb; i++)
        for (int k = 0; k < HB_SIDES; k++) {
            double sum = b->vector[i][k] + b->prior_vector[problem * b->n + i];
            for (int j = 0; j < i; j++)
                sum -= b->sides_factor[i * b->n + j][k] * b->sides_c[j][k];
            b->sides_c[i][k] = sum * b->sides_factor[i * b->n + i][k];
        }
}

/* What sums say of f alone has faded with them, what is known of it has not: with B the rows of the factor that belong
 * to f,

       L_ff = M + B B^T          h_f = M f + B y

   instead of the sums', and M's factor in place of the last block. False: M has none. */
static bool load_fixed(hb_belief *b, int problem)
{
    int nb = b->nb, n = b->n, nfixed = b->nfixed;
    double l[HB_MOST_FIXED * HB_MOST_FIXED] = {0};

    if (nfixed == 0)
        return true;
    solve_forward(b, problem);
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        if (!predicts(b, k))
            continue;
        const double *known = fixed_of(b, b->run[k].fixed, problem), *f = b->run[k].unknown + problem * n + nb;
        if (!factor_fixed(nfixed, known, l))
            return false;
        for (int i = 0; i < nfixed; i++) {
            const hb_sides *row = b->sides_factor + (ptrdiff_t)(nb + i) * n;
            double vector = dot(known + i * nfixed, f, nfixed);
            for (int j = 0; j < nb; j++)
                vector += row[j][k] * b->sides_c[j][k];
            b->vector[nb + i][k] = vector - b->prior_vector[problem * n + nb + i];
            for (int h = 0; h <= i; h++) {
                const hb_sides *other = b->sides_factor + (ptrdiff_t)(nb + h) * n;
                double sum = known[i * nfixed + h] - prior_of(b, problem)[(nb + i) * n + nb + h];
                for (int j = 0; j < nb; j++)
                    sum += row[j][k] * other[j][k];
                b->information[(nb + i) * n + nb + h][k] = sum;
            }
        }
        for (int i = 0; i < nfixed; i++)
            for (int h = 0; h <= i; h++)
                b->sides_factor[(nb + i) * n + nb + h][k] = i == h ? 1 / l[i * nfixed + i] : l[i * nfixed + h];
    }
    return true;
}

/* M from the last block of the factor, of hypothesis k. */
static void take_fixed(const hb_belief *b, int k, double *ret)
{
    int nb = b->nb, n = b->n;

    for (int i = 0; i < b->nfixed; i++)
        for (int h = 0; h <= i; h++) {
            double sum = 0;
            for (int j = 0; j <= h; j++) {
                double left = b->sides_factor[(nb + i) * n + nb + j][k], right = b->sides_factor[(nb + h) * n + nb + j][k];
                sum += (j == i ? 1 / left : left) * (j == h ? 1 / right : right);
            }
            ret[i * b->nfixed + h] = ret[h * b->nfixed + i] = sum;
        }
}

/* log |L| of a hypothesis; the factor's diagonal holds reciprocals. */
static double log_determinant(const hb_belief *b, int k)
{
    double sum = 0;

    for (int i = 0; i < b->n; i++)
        sum -= 2 * log(b->sides_factor[i * b->n + i][k]);
    return sum;
}

/* A problem of all hypotheses: nu, d^2 and log |S|, and c and f before and after. With rows over their deviations

       b = G~^T nu,    L+ = L + G~^T G~,    c+ - c = L+^-1 b,    d^2 = nu^T nu - b^T (c+ - c),    |S| = |V| |L+| / |L|

   False: information cannot be factored. */
static bool predict_problem(hb_belief *b, int problem)
{
    const hb_arithmetic *arithmetic = b->arithmetic;
    int n = b->n, first = first_state(b, problem), rows = end_state(b, problem) - first;
    const double *prior = prior_of(b, problem);

    load_sides(b, problem);
    if (!arithmetic->sides_cholesky(n, b->information, prior, b->sides_factor) || !load_fixed(b, problem))
        return false;
    solve_sides(b, problem);
    arithmetic->sides_error(n, b->sides_c, rows, b->ld, b->sides_row, b->sides_error);
    arithmetic->sides_doubt(n, b->sides_factor, rows, b->ld, b->sides_row, b->sides_scratch, b->sides_doubt);
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        hb_prediction *p = &b->prediction[k];
        if (!predicts(b, k))
            continue;
        for (int i = k < HB_RUNS ? 0 : b->nb; i < n; i++)
            b->run[k].unknown[problem * n + i] = b->sides_c[i][k];
        p->log_determinant -= log_determinant(b, k);
        for (int d = 0; d < rows; d++) {
            double variance = p->variance[first + d];
            p->innovation[first + d] = b->sides_error[d][k] * sqrt(variance);
            p->uncertainty[first + d] = b->sides_doubt[d][k] * variance;
            p->distance += square(b->sides_error[d][k]);
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
        if (!predicts(b, k))
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
        take_fixed(b, k, fixed_of(b, p->fixed, problem));
    }
    return true;
}

/* All hypotheses; false: the information of one cannot be factored. */
static bool predict(hb_belief *b, const hb_evidence *e)
{
    bool good = true;

    for (int k = 0; k < HB_HYPOTHESES; k++)
        if (predicts(b, k)) {
            expect_noise(b, noise_run(b, k), e, &b->prediction[k]);
            b->prediction[k].distance = b->prediction[k].log_determinant = 0;
        }
    for (int problem = 0; problem < b->nproblems && good; problem++)
        good = predict_problem(b, problem);
    for (int k = 0; k < HB_HYPOTHESES && good; k++)
        if (predicts(b, k)) {
            b->prediction[k].distance = fmax(0, b->prediction[k].distance); /* rounding, where nothing is left */
            good = isfinite(b->prediction[k].distance);
        }
    return good;
}

/* Variance of an outlier: broad, the same for all runs. The newest run knows least: its uncertainty is nearest to the
 * prior's. */
static double outlier_variance(const hb_belief *b, int d)
{
    double open = 0;

    for (int k = 0; k < b->nruns; k++)
        if (*b->run[k].age >= 0)
            open = fmax(open, b->prediction[k].uncertainty[d]);
    return outlier_width * (open + b->prediction[HB_MEAN].variance[d]);
}

/* log of a normal density, but for what all have in common. */
static double log_normal(double left, double variance)
{
    return -(square(left) / variance + log(variance)) / 2;
}

/* The same of a Student-t density: what is far out has no usual size. */
static double log_heavy(double left, double variance)
{
    return -((tail_freedom + 1) * log1p(square(left) / (tail_freedom * variance)) + log(variance)) / 2;
}

/* log of the density of an outlier, around what the prior says. */
static double outlier_density(const hb_belief *b)
{
    double log_density = 0;

    for (int d = 0; d < b->nx; d++)
        log_density += log_heavy(b->prediction[HB_MEAN].innovation[d], outlier_variance(b, d));
    return log_density;
}

/* log sum exp of n numbers */
static double log_sum(const double *x, int n)
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
    double all = log_sum(log_weight, n);

    for (int k = 0; k < n; k++)
        log_weight[k] = fmax(none, log_weight[k] - all);
}

/* 1 / (1 + exp(x)) */
static double one_against(double x)
{
    return 1 / (1 + exp(fmin(fmax(x, -700), 700)));
}

/* How far a transition moved. */
static double moved(const hb_belief *b, int d)
{
    return b->raw[d * b->ld + b->n + 1];
}

/* log of the density of the second half of a glitch: a wrong sample ends one transition and begins the next, so that
 * what was left of the first comes back, carried through the next; not to the letter, since that is only its first
 * order. Or, where the sample was so far out that this says nothing, the vehicle is about where it was before: as near
 * as two transitions leave it. */
static double return_density(const hb_belief *b, const hb_evidence *e)
{
    const double *variance = b->prediction[(int)*b->main_run].variance;
    double log_density[2] = {0, 0};

    for (int d = 0; d < b->nx; d++) {
        double sum = left_of(b, b->raw, b->mean, d), size = 0;
        for (int j = 0; j < b->nx; j++) {
            /* Phi, from (I + Phi) / 2 */
            double carried = (e->carry ? 2 * e->carry[d * b->nx + j] - (d == j) : d == j) * b->left_before[j];
            sum += carried;
            size += fabs(carried);
        }
        log_density[0] += log_normal(sum, variance[d] + square(first_order * size));
        log_density[1] += log_normal(b->moved_before[d] + moved(b, d), variance[d] + square(2) * b->motion[d]);
    }
    return log_sum(log_density, 2) - log(2);
}

/* How much better foreign dynamics explain what is left in the rows of the kinematics than a glitch does, as a
 * logarithm. An unknown acceleration moves position and attitude as it moves velocity and rates; a sensor that is wrong
 * does not, and spares a channel or not. */
static double kinematic_evidence(const hb_belief *b, const hb_evidence *e)
{
    const double *variance = b->prediction[(int)*b->main_run].variance;
    double sum = 0;

    for (int d = 0; d < b->nx && e->carry; d++) {
        if (b->m->output[d])
            continue;
        double left = left_of(b, b->raw, b->mean, d), carried = 0, size = 0;
        for (int j = 0; j < b->nx; j++) {
            double moved = b->m->output[j] ? e->carry[d * b->nx + j] * left_of(b, b->raw, b->mean, j) : 0;
            carried += moved;
            size += fabs(moved);
        }
        double glitch[] = {log_normal(left, variance[d]), log_normal(left, outlier_variance(b, d))};
        sum += log_normal(left - carried, variance[d] + square(first_order * size)) - log_sum(glitch, 2) + log(2);
    }
    return sum;
}

/* A chain of classes: in the model, a glitch (one wrong sample), the way back from it, foreign dynamics. A glitch and
 * foreign dynamics look alike at first, but a glitch is over with the next sample, and what goes on is foreign. Of each
 * hypothesis, the probability that the transition is in the model if it is the true one: what a run cannot explain does
 * not move it. */
static void judge(hb_belief *b, const hb_evidence *e)
{
    double in = 1 - *b->outlier, glitch = *b->glitch, back = fmax(0, *b->outlier - *b->glitch - *b->foreign);
    double stays = exp(-e->dt / foreign_time), changes = b->s.change_interval > 0 ? e->dt / b->s.change_interval : 0;
    double calm = in + back + *b->foreign * (1 - stays), share = b->s.outlier_share;
    double foreign = *b->foreign * stays + calm * changes + glitch * share;
    double returns = glitch * (1 - share) * glitch_returns;
    double outlier = calm * share;
    double broad = outlier_density(b);
    double terms[] = {log(outlier) + broad, log(foreign) + broad + kinematic_evidence(b, e),
                      returns > 0 ? log(returns) + return_density(b, e) : none};
    double odd = log_sum(terms, 3), usual = log(1 - foreign - returns - outlier);

    b->expected_outlier = (outlier + returns) / (1 - foreign);
    b->unexplained = 1;
    *b->outlier = 0;
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        hb_prediction *p = &b->prediction[k];
        if (!lives(b, k))
            continue;
        p->believed = one_against(odd - usual + (p->distance + p->log_determinant) / 2);
        *b->outlier += weight_of(b, k) * (1 - p->believed);
        b->unexplained = fmin(b->unexplained, 1 - p->believed);
    }
    *b->outlier = fmin(1, *b->outlier);
    *b->glitch = *b->outlier * exp(terms[0] - odd);
    *b->foreign = *b->outlier * exp(terms[1] - odd);
    for (int d = 0; d < b->nx; d++) {
        b->left_before[d] = left_of(b, b->raw, b->mean, d);
        b->moved_before[d] = moved(b, d);
    }
}

/* ---- update ---- */

/* The most probable f within its bounds: where one of two is moved onto its bound, the other one follows it. */
static void bound_fixed(const hb_belief *b, double *f, const double *known)
{
    double mean[HB_MOST_FIXED], moved;

    memcpy(mean, f, (size_t)b->nfixed * sizeof *f);
    do {
        moved = 0;
        for (int i = 0; i < b->nfixed; i++) {
            double at = mean[i], was = f[i];
            for (int j = 0; j < b->nfixed; j++)
                at -= j == i ? 0 : known[i * b->nfixed + j] / known[i * b->nfixed + i] * (f[j] - mean[j]);
            f[i] = fmin(fmax(at, b->least[i]), b->most[i]);
            moved = fmax(moved, fabs(f[i] - was));
        }
    } while (moved > settled);
}

/* A_d += p g~_d^T g~_d, b_d += p g~_d^T r~_d, and c, f and M with them. What has more noise than the others counts for
 * less. */
static void update(hb_belief *b, int k)
{
    hb_run *run = &b->run[k];
    const hb_prediction *p = &b->prediction[k];

    if (p->believed < negligible)
        return;
    for (int d = 0; d < b->nx && k < HB_RUNS; d++)
        b->arithmetic->triangle_add(b->n + 1, b->row + (ptrdiff_t)d * b->ld,
                                    p->believed * p->past[d] / (p->variance[d] * *run->scale),
                                    run->sum + (size_t)d * sum_size(b));
    /* exact where there is no doubt; the next transition solves anew */
    for (size_t i = 0; i < vectors(b); i++)
        run->unknown[i] += p->believed * (p->updated[i] - run->unknown[i]);
    for (size_t i = 0; i < fixed_size(b); i++)
        run->fixed[i] += p->believed * (p->fixed[i] - run->fixed[i]);
    for (int problem = 0; problem < b->nproblems; problem++)
        bound_fixed(b, run->unknown + problem * b->n + b->nb, fixed_of(b, run->fixed, problem));
}

/* Adds evidence to n weights. With the probability of an outlier that was expected, a transition says nothing, whatever
 * it looks like: then the best explanation is no better than the others, so that one transition alone decides nothing.
 */
static void add_evidence(double outlier, double *log_weight, const double *fit, int n, double temper)
{
    double best = none;

    for (int k = 0; k < n; k++)
        best = log_weight[k] > none ? fmax(best, fit[k]) : best;
    for (int k = 0; k < n; k++)
        if (log_weight[k] > none)
            log_weight[k] += log((1 - outlier) * exp(temper * (fit[k] - best)) + outlier);
    normalise(log_weight, n);
}

/* Weights by how well each hypothesis predicted. */
static void weigh(hb_belief *b, double dt)
{
    double temper = fmin(1, dt / correlation_time), fit[HB_HYPOTHESES], runs[HB_RUNS], worth[WORTHS];

    for (int k = 0; k < HB_HYPOTHESES; k++) {
        const hb_prediction *p = &b->prediction[k];
        fit[k] =
            lives(b, k) ? -((tail_freedom + b->nx) * log1p(p->distance / tail_freedom) + p->log_determinant) / 2 : none;
    }
    for (int k = 0; k < HB_RUNS; k++)
        runs[k] = b->log_weight[k] + fit[k];
    worth[OF_RUNS] = log_sum(runs, HB_RUNS);
    worth[OF_AVERAGE] = fit[HB_AVERAGE];
    worth[OF_MEAN] = fit[HB_MEAN];
    add_evidence(b->expected_outlier, b->log_worth, worth, WORTHS, temper);
    add_evidence(b->expected_outlier, b->log_weight, fit, HB_RUNS, temper);
}

/* A newborn run takes the place of the lightest one that is neither the most probable nor in its infancy. With the same
 * chance all worth is what it was at first. */
static void give_birth(hb_belief *b, double dt)
{
    int at = -1;

    *b->since_birth += dt;
    /* a transition that nothing explained may have been the first after a change */
    bool due = *b->since_birth >= correlation_time - dt / 2 || (*b->outlier > 0.5 && *b->surprised == 0);
    *b->surprised = *b->outlier > 0.5;
    if (!(b->s.change_interval > 0) || !due)
        return;
    double chance = fmin(0.1, *b->since_birth / b->s.change_interval);
    *b->since_birth = 0;
    for (int i = 0; i < WORTHS; i++)
        b->log_worth[i] = fmax(none, log((1 - chance) * exp(b->log_worth[i]) + chance * first_worth(b, i)));
    for (int k = 0; k < b->nruns; k++) {
        if (!lives(b, k)) {
            at = k;
            break;
        }
        if (k != (int)*b->main_run && *b->run[k].age >= infancy && (at < 0 || b->log_weight[k] < b->log_weight[at]))
            at = k;
    }
    if (at < 0)
        return;
    bear(b, at, &b->run[(int)*b->main_run]);
    for (int k = 0; k < HB_RUNS; k++)
        b->log_weight[k] = fmax(none, k == at ? log(chance) : b->log_weight[k] + log1p(-chance));
    normalise(b->log_weight, HB_RUNS);
}

/* The coefficients in use. */
static void take_mean(hb_belief *b)
{
    memset(b->mean, 0, vectors(b) * sizeof *b->mean);
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        double weight = weight_of(b, k);
        for (size_t i = 0; i < vectors(b) && weight > negligible; i++)
            b->mean[i] += weight * b->run[k].unknown[i];
    }
}

/* ---- changes ---- */

/* The most probable run; a change of it is confirmed by what follows, unless the former one was still learning. */
static void follow_change(hb_belief *b)
{
    int before = (int)*b->main_run, best = before;

    for (int k = 0; k < b->nruns; k++)
        if (lives(b, k) && b->log_weight[k] > b->log_weight[best])
            best = k;
    *b->main_run = best;
    if (best == before || *b->run[before].age < confirm_known)
        return;
    /* one that is being confirmed gives way only where it changed nothing so far */
    if (*b->confirming >= 0 && *b->former_error > *b->present_error)
        return;
    memcpy(b->former, b->run[before].unknown, vectors(b) * sizeof *b->former);
    memcpy(b->former_slow, b->run[before].slow, (size_t)b->nx * sizeof *b->former_slow);
    *b->former_error = *b->present_error = *b->confirming = *b->block_seconds = 0;
    memset(b->former_block, 0, (size_t)b->nx * sizeof *b->block);
    memset(b->block, 0, (size_t)b->nx * sizeof *b->block);
}

/* Variance per transition, in the long run, of what is left of this vehicle, or of others in training. */
static double usual_error(const hb_belief *b, int d)
{
    double trained = b->m->has_prior ? square(b->m->reference_noise[d]) : 0;

    return fmax(fmax(trained, b->file_variance[d]), b->former_slow[d]);
}

static void confirm_change(hb_belief *b, const hb_evidence *e)
{
    if (*b->confirming < 0 || b->confirms_later)
        return;
    *b->confirming += e->dt;
    *b->block_seconds += e->dt;
    for (int d = 0; d < b->nx; d++) {
        b->former_block[d] += left_of(b, b->raw, b->former, d);
        b->block[d] += left_of(b, b->raw, b->mean, d);
    }
    if (*b->block_seconds >= confirm_block) {
        for (int d = 0; d < b->nx; d++) {
            /* never less than what is left in any case */
            double usual = *b->block_seconds / b->m->dt * usual_error(b, d);
            *b->former_error += square(b->former_block[d]) / b->noise[d];
            *b->present_error += (square(b->block[d]) + usual) / b->noise[d];
            b->former_block[d] = b->block[d] = 0;
        }
        *b->block_seconds = 0;
    }
    if (*b->confirming < confirm_time)
        return;
    bool told = *b->former_error > confirm_ratio * *b->present_error;
    *b->changes += told;
    if (told || *b->confirming >= confirm_latest)
        *b->confirming = -1;
}

/* ---- span ---- */

/* Lasting errors of the coefficients in use, relative to those of training, of the sensors' noise and of coefficients
 * that would not be known yet by the noise of training: these err in one direction until they are. */
static void follow_span(hb_belief *b, const hb_evidence *e)
{
    const hb_prediction *p = &b->prediction[(int)*b->main_run];
    double keep = keeps(e->dt), fresh = fmin(1, e->dt / status_time), sum = 0;

    for (int d = 0; d < b->nx; d++) {
        /* w_t - w_t-1 of a sensor, summed up in the same way */
        double sensor = fmax(0, -b->variance1[d]) * ((1 - keep * keep) + square(1 - keep));
        if (*b->outlier - *b->foreign < 0.5) { /* no glitch, nor the way back from one */
            b->span_sum[d] = keep * b->span_sum[d] + left_of(b, b->raw, b->mean, d);
            /* without a population nothing says how far off they may be */
            double trained = b->m->has_prior ? fmin(1, b->reference[d] / p->variance[d]) : 0;
            b->span_open[d] = keep * b->span_open[d] + sqrt(trained * p->uncertainty[d] + b->doubt[d]);
            double ratio = (1 - keep * keep) * square(b->span_sum[d]) /
                           (b->reference[d] + sensor + (1 - keep * keep) * square(b->span_open[d]));
            b->span_mean[d] += fresh * (fmin(most_span, ratio) - b->span_mean[d]);
        }
        sum += b->span_mean[d];
    }
    b->span = sum / b->nx;
}

/* Correlation of what predictions leave, for whitening, and how far transitions move. */
static void follow_correlation(hb_belief *b, const hb_evidence *e, bool fresh_start)
{
    double fresh = fmin(1, tells_noise(b) * e->dt / *b->run[(int)*b->main_run].noise_seconds);

    for (int d = 0; d < b->nx; d++) {
        double error = left_of(b, b->raw, b->mean, d), most = clip * sqrt(b->variance0[d]);
        error = fmin(fmax(error, -most), most);
        b->variance0[d] += fresh * (square(error) - b->variance0[d]);
        b->variance0[d] = fmax(b->variance0[d], b->file_variance[d] / 9);
        b->variance1[d] += fresh * ((fresh_start ? 0 : error * b->last_error[d]) - b->variance1[d]);
        b->last_error[d] = error;
        if (*b->outlier < 0.5) /* else it moved as no vehicle does */
            b->motion[d] += (b->motion[d] > 0 ? fresh : 1) * (square(moved(b, d)) - b->motion[d]);
    }
}

/* ---- a transition ---- */

void hb_belief_learn(hb_belief *b, const hb_evidence *e)
{
    bool fresh_start = *b->fresh_start > 0 || !e->continues;

    give_birth(b, e->dt);
    whiten(b, e);
    for (int k = 0; k < HB_HYPOTHESES; k++)
        if (predicts(b, k)) {
            wear(b, &b->run[k], e->dt);
            if (k < HB_RUNS)
                forget(b, &b->run[k], e->dt);
        }
    find_doubt(b);
    if (!predict(b, e)) { /* numbers that cannot be: back to the prior, which can */
        hb_belief_restart(b, true);
        predict(b, e);
    }
    judge(b, e);
    follow_span(b, e);
    follow_correlation(b, e, fresh_start);
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        if (!predicts(b, k))
            continue;
        update(b, k);
        if (k >= HB_RUNS)
            continue;
        learn_noise(b, &b->run[k], &b->prediction[k], e);
        *b->run[k].age += e->dt;
    }
    weigh(b, e->dt);
    follow_change(b);
    take_mean(b);
    follow_noise(b);
    confirm_change(b, e);
    *b->fresh_start = *b->outlier > 0.5;
    *b->started = 1;
}

/* ---- coefficients from elsewhere ---- */

void hb_belief_seed(hb_belief *b, const double *c)
{
    hb_run *run = &b->run[(int)*b->main_run];
    int nb = b->nb, n = b->n;

    /* as if they had been seen: seed_strength of the prior's information, shared by the states of a problem */
    for (int d = 0; d < b->nx; d++) {
        int k = problem_of(b, d), states = end_state(b, k) - first_state(b, k);
        double *sum = run->sum + (size_t)d * sum_size(b), *vector = sum + (ptrdiff_t)n * (n + 1) / 2;
        double worth = seed_strength * b->noise[d] / states / *run->scale;
        const double *prior = prior_of(b, k);
        for (int i = 0; i < nb; i++, sum += i)
            for (int j = 0; j < nb; j++) {
                if (j <= i)
                    sum[j] += worth * prior[i * n + j];
                vector[i] += worth * prior[i * n + j] * c[k * nb + j];
            }
    }
    for (int k = 0; k < b->nproblems; k++)
        memcpy(run->unknown + k * n, c + k * nb, (size_t)nb * sizeof *c);
    memcpy(b->mean, run->unknown, vectors(b) * sizeof *b->mean);
    for (int k = 0; k < HB_RUNS; k++)
        b->log_weight[k] = k == (int)*b->main_run ? 0 : none;
    for (int i = 0; i < WORTHS; i++)
        b->log_worth[i] = i == OF_RUNS ? 0 : none;
    hb_belief_describe(b);
}

/* ---- what is told ---- */

double hb_belief_adapted(const hb_belief *b)
{
    return exp(b->log_worth[OF_RUNS]);
}

/* The inverse of a small matrix that has a factor. */
static void invert_fixed(int n, const double *a, double *ret)
{
    double l[HB_MOST_FIXED * HB_MOST_FIXED] = {0};

    factor_fixed(n, a, l);
    for (int c = 0; c < n; c++) {
        double x[HB_MOST_FIXED];
        for (int i = 0; i < n; i++)
            x[i] = ((i == c) - dot(l + i * n, x, i)) / l[i * n + i];
        for (int i = n - 1; i >= 0; i--) {
            for (int j = i + 1; j < n; j++)
                x[i] -= l[j * n + i] * x[j];
            x[i] /= l[i * n + i];
            ret[i * n + c] = x[i];
        }
    }
}

/* M and M f of a hypothesis over all problems, where the prior counts once. */
static void gather_fixed(const hb_belief *b, const hb_run *run, double *information, double *vector)
{
    int nfixed = b->nfixed;

    for (int i = 0; i < nfixed; i++) {
        vector[i] = 0;
        for (int j = 0; j < nfixed; j++)
            information[i * nfixed + j] = (i == j) * (1 - b->nproblems);
    }
    for (int k = 0; k < b->nproblems; k++) {
        const double *known = fixed_of(b, run->fixed, k);
        for (int i = 0; i < nfixed; i++) {
            vector[i] += dot(known + i * nfixed, run->unknown + k * b->n + b->nb, nfixed);
            for (int j = 0; j < nfixed; j++)
                information[i * nfixed + j] += known[i * nfixed + j];
        }
    }
}

void hb_belief_fixed(const hb_belief *b, double *mean, double *covariance)
{
    int nfixed = b->nfixed;
    double own[HB_HYPOTHESES][HB_MOST_FIXED], information[HB_MOST_FIXED * HB_MOST_FIXED], vector[HB_MOST_FIXED];
    double inverse[HB_MOST_FIXED * HB_MOST_FIXED];

    memset(mean, 0, (size_t)nfixed * sizeof *mean);
    memset(covariance, 0, (size_t)(nfixed * nfixed) * sizeof *covariance);
    for (int k = 0; k < HB_HYPOTHESES && nfixed > 0; k++) {
        if (!lives(b, k))
            continue;
        gather_fixed(b, &b->run[k], information, vector);
        invert_fixed(nfixed, information, inverse);
        for (int i = 0; i < nfixed; i++) {
            own[k][i] = dot(inverse + i * nfixed, vector, nfixed);
            mean[i] += weight_of(b, k) * own[k][i];
        }
        for (int i = 0; i < nfixed * nfixed; i++)
            covariance[i] += weight_of(b, k) * inverse[i];
    }
    for (int k = 0; k < HB_HYPOTHESES; k++)
        for (int i = 0; i < nfixed && lives(b, k); i++)
            for (int j = 0; j < nfixed; j++)
                covariance[i * nfixed + j] += weight_of(b, k) * (own[k][i] - mean[i]) * (own[k][j] - mean[j]);
}

/* Adds what unknown f leave open of c: B M^-1 B^T with B = L_cc^-1 L_cf, L_cc^-1 in `covariance`, lower triangle. */
static void widen_by_fixed(hb_belief *b, const hb_run *run, int problem, double *covariance)
{
    int nb = b->nb, nfixed = b->nfixed;
    double inverse[HB_MOST_FIXED * HB_MOST_FIXED], *moved = b->condition_scratch; /* nfixed x nb: B^T */

    if (nfixed == 0)
        return;
    invert_fixed(nfixed, fixed_of(b, run->fixed, problem), inverse);
    for (int i = 0; i < nfixed; i++)
        for (int j = 0; j < nb; j++) {
            moved[i * nb + j] = 0;
            for (int h = 0; h < nb; h++)
                moved[i * nb + j] += covariance[h > j ? h * nb + j : j * nb + h] * b->cross[i * nb + h];
        }
    for (int i = 0; i < nb; i++)
        for (int j = 0; j <= i; j++)
            for (int h = 0; h < nfixed; h++)
                for (int g = 0; g < nfixed; g++)
                    covariance[i * nb + j] += moved[h * nb + i] * inverse[h * nfixed + g] * moved[g * nb + j];
}

/* Largest column sum of a symmetric matrix, of which the lower triangle is given. */
static double norm_of(int n, const double *a, double *column)
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

/* Adds w d d^T of each hypothesis, d its coefficients less the mean ones: what they do not agree on. */
static void widen_by_hypotheses(hb_belief *b, int problem, double *covariance)
{
    int nb = b->nb;
    const double *mean = b->mean + problem * b->n;
    double *off = b->condition_scratch;

    for (int h = 0; h < HB_HYPOTHESES; h++) {
        const double *c = b->run[h].unknown + problem * b->n;
        double weight = weight_of(b, h);
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
        double *covariance = covariance_of(b, k), norm;
        load_problem(b, run, k, b->noise, b->condition_scratch);
        norm = norm_of(nb, b->factor, b->condition_scratch);
        if (hb_cholesky(nb, b->factor)) {
            b->condition = INFINITY;
            continue;
        }
        hb_cholesky_invert(nb, b->factor);
        b->condition = fmax(b->condition, norm * norm_of(nb, b->factor, b->condition_scratch));
        widen_by_fixed(b, run, k, b->factor);
        widen_by_hypotheses(b, k, b->factor);
        for (int i = 0; i < nb; i++)
            for (int j = 0; j <= i; j++)
                covariance[i * nb + j] = covariance[j * nb + i] = b->factor[i * nb + j];
    }
}

double hb_belief_plausibility(const hb_belief *b, const double *c)
{
    int nb = b->nb, n = b->n;
    double sum = 0;

    if (!b->m->has_prior || nb == 0)
        return 0;
    for (int k = 0; k < b->nproblems; k++) {
        const double *prior = prior_of(b, k);
        for (int i = 0; i < nb; i++)
            for (int j = 0; j < nb; j++)
                sum += (c[k * n + i] - b->c0[k * n + i]) * prior[i * n + j] * (c[k * n + j] - b->c0[k * n + j]);
    }
    return population_spread * sum / (nb * b->nproblems);
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
        for (int d = 0; d < b->nx && lives(b, k); d++)
            if (!(*b->run[k].noise_seconds > 0 && b->run[k].noise[d] > 0 && b->run[k].slow[d] > 0 &&
                  b->variance0[d] > 0))
                return NULL;
    *b->main_run = floor(*b->main_run);
    run = &b->run[(int)*b->main_run];
    if (!lives(b, (int)*b->main_run))
        return NULL;
    follow_noise(b);
    for (int k = 0; k < b->nproblems; k++) {
        double *c = b->solved + k * b->n, l[HB_MOST_FIXED * HB_MOST_FIXED];
        for (int h = 0; h < HB_HYPOTHESES; h++)
            if (predicts(b, h) && !factor_fixed(b->nfixed, fixed_of(b, b->run[h].fixed, k), l))
                return NULL;
        load_problem(b, run, k, b->noise, c);
        if (hb_cholesky(b->nb, b->factor))
            return NULL;
        hb_cholesky_solve(b->nb, b->factor, 1, c);
        memcpy(c + b->nb, run->unknown + k * b->n + b->nb, (size_t)b->nfixed * sizeof *c);
    }
    return b->solved;
}
