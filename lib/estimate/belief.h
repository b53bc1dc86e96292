/* What is believed about the coefficients and the actuators: one probabilistic model of what a transition can be.
 *
 * Rows: r = G c + D f + e, with G = d step / dc (sensitivity.h), D = d step / df, and e the noise of a transition.
 * f are unknowns that stay: lag and delay of the actuators, in deviations from where they were expected. Whatever is
 * decided here is a posterior probability of this model.
 *
 * Noise. Consecutive transitions share an end point, so the sensors' noise in e is that of a moving average,
 * e_t = w_t - theta w_t-1. It is whitened, state by state, and restarts where transitions do not follow on one another:
 *
 *     r~_t = r_t + theta r~_t-1           G~_t = G_t + theta G~_t-1           V = max(R / (1 + theta^2), file's, slow)
 *
 * theta follows from the lag-1 correlation of what predictions leave, R is their variance, and `slow` the variance of
 * errors that last for tenths of a second: a model errs in one direction for a while, and counting such errors as
 * independent would make the belief too narrow.
 *
 * Runs. A run is the time since a change of dynamics, and a Gaussian over c in information form. Its sums are kept per
 * state and free of the noise, so that noise learned today holds for yesterday's transitions too. A few live at once:
 *
 *     forget    A_d <- a A_d                  b_d <- a b_d                     a = exp(-dt / window)
 *     solve     L = P0^-1 + sum A_d / V_d     c = L^-1 (P0^-1 c0 + sum b_d / V_d)
 *     predict   nu = r~ - G~ c                S = G~ L^-1 G~^T + V
 *     update    A_d += p g~_d^T g~_d          b_d += p g~_d^T r~_d             p: that the transition is in the model
 *
 * Fixed unknowns. c changes with the vehicle, so sums of it fade; f does not, and commands that excite it may be rare.
 * The sums tell how c and f depend on one another, g = [ G | D ]; what is known of f alone, whatever c may be, is kept
 * beside them and does not fade, M, so that the whole is
 *
 *     L_ff = M + L_fc L_cc^-1 L_cf            and after a transition M is the Schur complement of L_cc again
 *
 * A newborn run inherits it: a vehicle that changed has the same actuators.
 *
 * p is the run's own: what it cannot explain does not move it. A newborn run has no sums, it knows the prior alone. Two
 * hypotheses beside the runs say that nothing is to be learned: the vehicle is the average one, c = 0 (which is none
 * where it is far from the population), or the
 * population's mean, c = c0; these learn f alone. So what adapting has not earned by predicting better is not used.
 * Weights are the probabilities of all these, by how well each predicted (Student-t, since errors have heavy tails;
 * tempered, since they are correlated). The coefficients in use are the mean over all of them.
 *
 * Classes. A transition is in the model; or a glitch, which ends with a wrong sample; or the way back from one, which
 * begins with it; or of foreign dynamics, which stay. Glitches and foreign dynamics have broad noise around what the
 * prior says, the same for all runs; the way back is known from the glitch. A chain of these links neighbours.
 *
 * Change. Another run has become the most probable one: it is used at once, and told when for a second the former
 * coefficients have predicted much worse.
 *
 * Out of span. What goes on and no hypothesis explains, and errors that last, relative to those that training left on
 * functions that it had not seen, to the sensors' noise, and to what is not known yet. */
#ifndef HB_BELIEF_H
#define HB_BELIEF_H

#include <stdbool.h>

#include "base/base.h"
#include "estimate/arithmetic.h"
#include "model/model.h"

enum {
    HB_RUNS = 5,          /* that live at once, at most; they are worked on side by side, HB_SIDES of them */
    HB_AVERAGE = HB_RUNS, /* nothing is to be learned: the model's average, c = 0, */
    HB_MEAN,              /* or the population's mean, c = c0 */
    HB_HYPOTHESES,

    HB_MOST_FIXED = 2 /* unknowns that stay */
};

typedef struct hb_belief_settings {
    double window;          /* seconds after which what was seen counts for 1/e */
    double change_interval; /* seconds between changes of dynamics, in the mean; 0: there are none */
    double outlier_share;   /* of transitions */
    double ridge;           /* of models without a prior: information of the prior, in transitions' worth */
} hb_belief_settings;

/* A transition, as it is learned from. */
typedef struct hb_evidence {
    const double *row;   /* nx x ld: [ G | D | r | dz ], evaluated at f = at, so that r = G c + D (f - at) */
    const double *at;    /* nfixed; NULL: zero */
    const double *carry; /* nx x nx: (I + Phi) / 2, Phi = d end / d start; NULL: the identity */
    double dt;           /* seconds */
    bool continues;      /* it starts where the one before it ended */
} hb_evidence;

typedef struct hb_run {
    double *age;           /* seconds; negative: there is none */
    double *noise_seconds; /* behind the noise, at most its memory */
    double *sum;           /* nx x (A_d, lower triangle by rows; b_d), the latter with the sum of squares behind it */
    double *scale;         /* of all of these: what is forgotten */
    double *unknown;       /* nproblems x n: c, f */
    double *fixed;         /* nproblems x nfixed x nfixed: M */
    double *noise;         /* nx: R */
    double *lasting;       /* nx: decaying sum of what is left, */
    double *slow;          /* nx: and the variance of that */
} hb_run;

/* What follows from one run for the transition at hand. */
typedef struct hb_prediction {
    double distance, log_determinant; /* d^2, and log |S| */
    double believed;                  /* probability that the transition is in the model, if this is the vehicle */
    double *past, *variance;          /* nx: V, of the transitions so far and of this one */
    double *uncertainty;              /* nx: diagonal of G~ L^-1 G~^T */
    double *innovation;               /* nx: nu */
    double *updated;                  /* nproblems x n: c and f after the transition, if it is believed */
    double *fixed;                    /* nproblems x nfixed x nfixed: M, likewise */
} hb_prediction;

typedef struct hb_belief {
    const hb_model *m;
    const hb_arithmetic *arithmetic;
    hb_belief_settings s;
    int nfixed; /* unknowns that stay, 0 to HB_MOST_FIXED, and where they can be */
    double least[HB_MOST_FIXED], most[HB_MOST_FIXED];
    int nx, nb, n, nproblems, ld; /* n = nb + nfixed */
    int nruns;                    /* fewer where the basis is so large that five would take too long */

    /* the prior */
    double *prior, *prior_vector; /* nproblems x n x n, nproblems x n: P0^-1 and P0^-1 c0, with those of f */
    double *c0;                   /* nproblems x n, f = 0 */
    double average_share;         /* probability, before anything is seen, that a vehicle is the average one */
    double *file_variance;        /* nx, of a transition, by the model file */
    double *reference;            /* nx: variance of lasting errors in training */

    /* All that changes, in one block: what a restart must not lose. */
    size_t nstate;
    double *state;
    double *log_weight;       /* of runs: HB_RUNS, their weights add up to 1 */
    double *log_worth;        /* of all runs together, of HB_AVERAGE and HB_MEAN: 3, likewise */
    double *main_run;         /* index of the most probable run */
    double *since_birth;      /* seconds */
    double *surprised;        /* 1: the transition before was not in the model */
    double *outlier;          /* probability that the newest transition is not in the model, */
    double *foreign, *glitch; /* because dynamics are foreign, or its end is a wrong sample; else its start is */
    double *left_before;      /* nx: what the coefficients in use left of the transition before, */
    double *moved_before;     /* nx: how far it moved, */
    double *motion;           /* nx: and the mean square of that */
    double *fresh_start;      /* 1: the next transition has nothing before it to be whitened with */
    double *confirming;       /* seconds since the most probable run changed; negative: it has not */
    double *block_seconds;    /* of the block being summed up */
    double *former_error, *present_error; /* sums over blocks: of the former coefficients, of those in use */
    double *changes;                      /* told so far */
    double *variance0, *variance1;        /* nx: of errors of predictions, and their lag-1 product */
    double *last_error;                   /* nx */
    double *before;                       /* nx x ld: [ G~ | D~ | r~ ] of the transition before */
    double *span_sum, *span_mean; /* nx: decaying sum of innovations, and its square relative to the reference, mean
                                     over half a second */
    double *span_open;            /* nx: the same sum of deviations of what was predicted */
    double *former;               /* nproblems x n: c and f before the change that is being confirmed */
    double *former_slow;          /* nx: variance of lasting errors until then */
    double *former_block, *block; /* nx: errors of this block */
    double *mean;                 /* nproblems x n: the coefficients in use, and f */
    hb_run run[HB_HYPOTHESES];    /* what is known beforehand has unknown and fixed alone */

    /* of the newest transition */
    hb_prediction prediction[HB_HYPOTHESES];
    double *raw;             /* nx x ld: [ G | D | r ], r as if evaluated at f = 0 */
    double *row;             /* nx x ld: the same, whitened */
    double *left;            /* nx: what the coefficients in use before it leave of raw */
    double *doubt;           /* nx: variance of it since the step is not linear in f */
    double *covariance;      /* nproblems x nb x nb: of the coefficients in use, both triangles */
    double *noise;           /* nx: V of the most probable run */
    double *theta;           /* nx: by variance0 and variance1 */
    double expected_outlier; /* probability that it would not be in the model, before it was seen */
    double
        unexplained;  /* probability that no hypothesis explains it, however light: a newborn run may, after a change */
    double condition; /* of its information */
    bool confirms_later; /* transitions are learned from again, and a change was being confirmed before */
    double span;         /* lasting errors relative to those of training, mean over the states */
    double *factor;      /* nb x nb: L_cc of a problem, then its factor; scratch */
    double *cross;       /* nfixed x nb: L_fc, scratch */
    double *packed;      /* sums of a problem, scratch */
    double *weight;      /* nx, scratch */
    double *solved;      /* nproblems x nb, scratch */
    /* of all runs, side by side */
    hb_sides *information, *sides_factor; /* n x n: sum A_d / V_d, and the factor of L */
    hb_sides *vector, *sides_c;           /* n: sum b_d / V_d, and c and f */
    hb_sides *sides_row;                  /* nx x ld: rows over the deviation of their noise */
    hb_sides *sides_error, *sides_doubt;  /* nx: innovation and uncertainty, likewise */
    hb_sides *sides_scratch;              /* 4 n */
    double *condition_scratch;
} hb_belief;

/* Takes the arrays from the arena; m, s, ld, nfixed and the bounds of f are given. */
void hb_belief_lay_out(hb_belief *b, hb_arena *arena);
/* Inverts the prior; nothing is known yet. */
void hb_belief_start(hb_belief *b);
/* Forgets everything but the prior. */
void hb_belief_reset(hb_belief *b);
/* Forgets the coefficients: transitions are about to be learned from again in another light. Noise is kept where it
 * comes from more than these. */
void hb_belief_restart(hb_belief *b, bool keep_noise);
/* Coefficients from elsewhere (nproblems x nb), to begin with. */
void hb_belief_seed(hb_belief *b, const double *c);

void hb_belief_learn(hb_belief *b, const hb_evidence *e);
/* Covariance of the coefficients in use, and the condition; after hb_belief_learn, when somebody asks. */
void hb_belief_describe(hb_belief *b);
/* Mean (nfixed) and covariance (nfixed x nfixed) of the unknowns that stay, over all hypotheses. */
void hb_belief_fixed(const hb_belief *b, double *mean, double *covariance);

/* Sum over a run's transitions of the squared increment of function i in state d. */
static inline double hb_belief_seen(const hb_belief *b, const hb_run *run, int d, int i)
{
    return *run->scale * run->sum[(size_t)d * (size_t)((b->n + 1) * (b->n + 2) / 2) + (size_t)(i * (i + 3) / 2)];
}

/* Probability that adapting is of use: that the vehicle is neither the average one nor the population's mean. */
double hb_belief_adapted(const hb_belief *b);
/* (c - c0)^T P0^-1 (c - c0) over the number of coefficients (nproblems x n, of which f does not matter): about 1 for a
 * vehicle of the population. 0 without one. */
double hb_belief_plausibility(const hb_belief *b, const double *c);
/* Whether the state, as it was taken from elsewhere, can be one: c and f (nproblems x n) of the most probable run, by
 * its sums, or NULL. */
const double *hb_belief_possible(hb_belief *b);

#endif
