/* Lag and delay of the actuators, found in flight.
 *
 * A bank of candidates on a grid of lags and delays, common to all controls. Each explains the newest transition with
 * the controls that its own actuators would have made of the commands, and has information sums of its own, so that it
 * predicts with the coefficients that fit its own history:
 *
 *     nu_k = r_k - G_k c_k       q_k = sum_d nu_kd^2 / (V_d + (G_k L_k^-1 G_k^T)_dd)       S_k <- f S_k - t rho(q_k) /
 * 2
 *
 * V is what the best candidate has left unexplained recently, and L_k the information about its coefficients: as long
 * as these are not known, the coefficients may explain a transition as well as the actuators may. rho grows like a
 * logarithm beyond what can be, so that an outlier decides nothing; t < 1, because errors of the model are not
 * independent of each other. Scores fade by f = exp(-spread / capacity), the spread being how much the candidates
 * differ over this transition: calm flight says nothing about actuators, and forgets nothing about them.
 *
 * exp(S_k) times a prior is the belief about the candidates. Its mean and spread are reported; where it is narrower
 * than the grid, the top is found between the points, by a parabola in lag and delay. */
#ifndef HB_IDENTIFICATION_H
#define HB_IDENTIFICATION_H

#include <stdbool.h>

#include "dynamics/actuators.h"
#include "estimate/arithmetic.h"
#include "model/model.h"

/* Candidates are kept eight side by side: candidate k is side k % HB_SIDES of block k / HB_SIDES. */
enum {
    HB_GRID_LAGS = 9,
    HB_GRID_DELAYS = 6,
    HB_GRID = HB_GRID_LAGS * HB_GRID_DELAYS,
    HB_GRID_BLOCKS = (HB_GRID + HB_SIDES - 1) / HB_SIDES
};
enum { HB_IDENTIFICATION_EARLIER = 8 }; /* transitions that a change may go unnoticed */

/* Seconds. */
typedef struct hb_actuator_belief {
    double lag, lag_deviation;
    double delay, delay_deviation;
    bool confident; /* both are known to a few milliseconds */
} hb_actuator_belief;

typedef struct hb_identification {
    const hb_model *m;
    const hb_arithmetic *arithmetic;
    int nb, nx, nproblems, ld; /* ld: of rows */
    int nlags, ndelays;        /* 1: it is given */
    double lag[HB_GRID_LAGS], delay[HB_GRID_DELAYS];
    double prior[HB_GRID], score[HB_GRID];
    double earlier[HB_IDENTIFICATION_EARLIER][HB_GRID]; /* scores after each of the last transitions, in turn */
    double start_lag, start_delay;
    int seen; /* transitions */

    /* of each block and problem, one after the other */
    hb_sides *information, *vector; /* nb x nb and nb: of data, in noise */
    hb_sides *factor, *coefficient; /* the Cholesky factor of L_k, and c_k */

    double *variance;             /* nx: V */
    hb_sides *innovation, *doubt; /* of each block, nx: nu, and what the coefficients leave open of it, squared */
    double *weight;               /* nx, scratch */
    hb_sides *matrix, *solution;  /* nb x nb and 4 nb, scratch */
} hb_identification;

/* Takes the arrays from the arena; m and ld are given. */
void hb_identification_lay_out(hb_identification *f, hb_arena *arena);
/* The grid: lags 0..max_lag and delays 0..max_delay; a limit of 0 means that it is given, as start_lag or start_delay.
 */
void hb_identification_start(hb_identification *f, double start_lag, double max_lag, double start_delay,
                             double max_delay);

static inline int hb_identification_count(const hb_identification *f)
{
    return f->nlags * f->ndelays;
}

hb_actuators hb_identification_candidate(const hb_identification *f, int k);

/* The newest transition of dt seconds. rows: HB_GRID_BLOCKS x nx x ld, finite; sides beyond the last candidate
 * repeat one. noise (nx): variances to begin with. prior, prior_vector: P0^-1 and P0^-1 c0 of each problem (nproblems x
 * nb x nb, nproblems x nb). */
void hb_identification_learn(hb_identification *f, double dt, const double *noise, const double *prior,
                             const double *prior_vector, const hb_sides *rows);

/* The vehicle's dynamics changed: what each candidate knows of its coefficients is of no use any more, and the scores
 * of the last few transitions came from them. Actuators are the same. */
void hb_identification_forget_coefficients(hb_identification *f, const double *prior, const double *prior_vector);

/* What was learned so far counts for little from now on. */
void hb_identification_doubt(hb_identification *f);

hb_actuator_belief hb_identification_belief(const hb_identification *f);

#endif
