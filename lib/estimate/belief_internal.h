/* What the files of the belief share; one concept each:
 *
 *     belief.c             memory, beginning, the walk of a transition
 *     belief_noise.c       noise
 *     belief_posterior.c   the coefficients, given the noise
 *     belief_fixed.c       unknowns that stay
 *     belief_runs.c        hypotheses: runs and what is known without learning; changes
 *     belief_classes.c     outliers, foreign dynamics, out of span */
#ifndef HB_BELIEF_INTERNAL_H
#define HB_BELIEF_INTERNAL_H

#include <math.h>

#include "estimate/belief.h"
#include "estimate/constants.h"

/* whose worth is weighed: all runs together, the average, the population's mean */
enum { OF_RUNS, OF_AVERAGE, OF_MEAN, WORTHS };

static inline double hb_square(double x)
{
    return x * x;
}

static inline double hb_dot(const double *x, const double *y, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* c and f of all problems */
static inline size_t hb_belief_vectors(const hb_belief *b)
{
    return (size_t)b->nproblems * (size_t)b->n;
}

/* M of all problems */
static inline size_t hb_belief_fixed_size(const hb_belief *b)
{
    return (size_t)b->nproblems * (size_t)b->nfixed * (size_t)b->nfixed;
}

/* of a state: the lower triangle of the products of [ g~ | r~ ]: A_d, b_d, and the sum of squares */
static inline size_t hb_belief_sum_size(const hb_belief *b)
{
    return ((size_t)b->n + 1) * ((size_t)b->n + 2) / 2;
}

/* the states that add to a problem */
static inline int hb_belief_first_state(const hb_belief *b, int problem)
{
    return b->nproblems > 1 ? problem : 0;
}

static inline int hb_belief_end_state(const hb_belief *b, int problem)
{
    return b->nproblems > 1 ? problem + 1 : b->nx;
}

/* the problem of a state */
static inline int hb_belief_problem_of(const hb_belief *b, int state)
{
    return b->nproblems > 1 ? state : 0;
}

static inline double *hb_prior_of(const hb_belief *b, int problem)
{
    return b->prior + (size_t)problem * (size_t)b->n * (size_t)b->n;
}

static inline double *hb_fixed_of(const hb_belief *b, double *of, int problem)
{
    return of + (size_t)problem * (size_t)b->nfixed * (size_t)b->nfixed;
}

/* What c and f leave of a row of state d. */
static inline double hb_belief_left(const hb_belief *b, const double *row, const double *unknown, int d)
{
    return row[d * b->ld + b->n] -
           hb_dot(row + (ptrdiff_t)d * b->ld, unknown + hb_belief_problem_of(b, d) * b->n, b->n);
}

/* How far a transition moved. */
static inline double hb_belief_moved(const hb_belief *b, int d)
{
    return b->raw[d * b->ld + b->n + 1];
}

/* b of a sum that decays over lasting_time */
static inline double hb_belief_keeps(double dt)
{
    return fmax(0, 1 - dt / HB_LASTING_TIME);
}

static inline double *hb_covariance_of(const hb_belief *b, int problem)
{
    return b->covariance + (size_t)problem * (size_t)b->nb * (size_t)b->nb;
}

/* ---- belief_noise.c ---- */

/* Rows as if evaluated at f = 0, so that they mean the same wherever that was; and r~, D~ and G~. */
void hb_noise_whiten(hb_belief *b, const hb_evidence *e);
/* What follows from what is kept of the noise: theta, and V of the most probable run. */
void hb_noise_conclude(hb_belief *b);
/* V of the newest transition; the first of a chain is not whitened. */
void hb_noise_expect(const hb_belief *b, const hb_run *run, const hb_evidence *e, hb_prediction *p);
/* What is left of a transition after it was used. */
void hb_noise_learn(hb_belief *b, hb_run *run, const hb_prediction *p, const hb_evidence *e);
/* Correlation of what predictions leave, for whitening, and how far transitions move. */
void hb_noise_follow_correlation(hb_belief *b, const hb_evidence *e, bool fresh_start);

/* ---- belief_fixed.c ---- */

/* What a hypothesis knows of f to begin with: what another one does; NULL: the prior alone. */
void hb_fixed_know(hb_belief *b, hb_run *run, const hb_run *as);
/* Actuators may change too, though seldom: once between changes of dynamics, what is known of them is forgotten. */
void hb_fixed_wear(const hb_belief *b, hb_run *run, double dt);
/* The factor of a small matrix a, n <= HB_MOST_FIXED; false: it has none. */
bool hb_fixed_factor(int n, const double *a, double *l);
/* What sums say of f alone has faded with them, what is known of it has not: with B the rows of the factor that belong
 * to f,

       L_ff = M + B B^T          h_f = M f + B y

   instead of the sums', and M's factor in place of the last block. False: M has none. */
bool hb_fixed_load(hb_belief *b, int problem);
/* M from the last block of the factor, of hypothesis k. */
void hb_fixed_take(const hb_belief *b, int k, double *ret);
/* The most probable f within its bounds: where one of two is moved onto its bound, the other one follows it. */
void hb_fixed_bound(const hb_belief *b, double *f, const double *known);
/* The step is not linear in f: of D~ P D~^T, what first order leaves. */
void hb_fixed_doubt(hb_belief *b);
/* Adds what unknown f leave open of c: B M^-1 B^T with B = L_cc^-1 L_cf, L_cc^-1 in `covariance`, lower triangle. */
void hb_fixed_widen(hb_belief *b, const hb_run *run, int problem, double *covariance);

/* ---- belief_posterior.c ---- */

/* P0^-1 and its vector; without a population by the mean variance of a transition. */
void hb_posterior_prior(hb_belief *b, double mean_variance);
/* A_d <- a A_d, b_d likewise. */
void hb_posterior_forget(const hb_belief *b, hb_run *run, double dt);
/* L_cc of a problem (lower triangle) to b->factor, L_fc to b->cross, and the vector of c, for the run's f, to ret, by
 * the noise given. */
void hb_posterior_load(hb_belief *b, const hb_run *run, int problem, const double *variance, double *ret);
/* All hypotheses; false: the information of one cannot be factored. */
bool hb_posterior_predict(hb_belief *b, const hb_evidence *e);
/* A_d += p g~_d^T g~_d, b_d += p g~_d^T r~_d, and c, f and M with them. What has more noise than the others counts for
 * less. */
void hb_posterior_update(hb_belief *b, int k);

/* ---- belief_runs.c ---- */

/* The hypotheses that say what the coefficients are. */
void hb_runs_suppose(hb_belief *b);
/* Knows the prior alone, and of f what the other one does. Its noise is what is expected to begin with, or that of
 * another run, where that is less: what has grown may have been a fault of the sensors, and is over. */
void hb_runs_bear(hb_belief *b, int k, const hb_run *noise_of);
bool hb_runs_lives(const hb_belief *b, int k);
/* Whether a hypothesis predicts: what is known beforehand does so even where it cannot be true. */
bool hb_runs_predicts(const hb_belief *b, int k);
/* The run whose noise a hypothesis has. */
hb_run *hb_runs_noise(hb_belief *b, int k);
/* Probability of a hypothesis. */
double hb_runs_weight(const hb_belief *b, int k);
/* One run, and the vehicles that are known before. */
void hb_runs_share(hb_belief *b, int run);
/* log sum exp of n numbers */
double hb_log_sum(const double *x, int n);
/* Weights by how well each hypothesis predicted. */
void hb_runs_weigh(hb_belief *b, double dt);
/* A newborn run takes the place of the lightest one that is neither the most probable nor in its infancy. With the same
 * chance all worth is what it was at first. */
void hb_runs_give_birth(hb_belief *b, double dt);
/* The coefficients in use. */
void hb_runs_take_mean(hb_belief *b);
/* The most probable run; a change of it is confirmed by what follows, unless the former one was still learning. */
void hb_runs_follow_change(hb_belief *b);
void hb_runs_confirm_change(hb_belief *b, const hb_evidence *e);

/* ---- belief_classes.c ---- */

/* A chain of classes: in the model, a glitch (one wrong sample), the way back from it, foreign dynamics. A glitch and
 * foreign dynamics look alike at first, but a glitch is over with the next sample, and what goes on is foreign. Of each
 * hypothesis, the probability that the transition is in the model if it is the true one: what a run cannot explain does
 * not move it. */
void hb_classes_judge(hb_belief *b, const hb_evidence *e);
/* Lasting errors of the coefficients in use, relative to those of training, of the sensors' noise and of coefficients
 * that would not be known yet by the noise of training: these err in one direction until they are. */
void hb_classes_follow_span(hb_belief *b, const hb_evidence *e);

#endif
