/* Costs of candidate sequences, worked out by all threads of a pool against one deadline.
 *
 * A population is cut into ranges of lanes, one or more per thread. Which thread takes which range, and where the cuts
 * lie, changes no result: lanes do not mix, and what is compared across lanes is compared in the order of samples. */
#ifndef HB_CANDIDATE_EVALUATION_H
#define HB_CANDIDATE_EVALUATION_H

#include "plan/decisions.h"
#include "plan/time_budget.h"
#include "base/pool.h"
#include "plan/population.h"
#include "plan/rollout.h"

/* A control sequence that was evaluated in full. */
typedef struct hb_candidate {
    double cost;     /* infinite: nothing yet */
    hb_real *w;      /* nh x nv */
    double *states;  /* (nh + 1) x nx, physical */
    bool impossible; /* its states are, see hb_rollout_cost */
} hb_candidate;

void hb_candidate_lay_out(hb_candidate *c, hb_arena *arena, int nx, int nv, int nh);
void hb_candidate_copy(hb_candidate *to, const hb_candidate *from, int nx, int nv, int nh);

/* What is done to the first ns samples of a population, lane by lane: draw, bound, evaluate, descend. */
typedef struct hb_candidate_job {
    hb_population *population;
    int ns;
    hb_piece kind; /* of its pieces forward */

    int draw_from; /* samples from this one on are drawn; ns or more: none */
    const hb_real *mean, *deviation;
    double correlation;
    hb_random_key key;
    uint64_t round;

    int adam; /* number of the gradient step to end with, from 1; 0: costs alone */
    double rate, clip;
    const hb_real *fallback; /* nh x nv: where lanes that are not finite start over */
} hb_candidate_job;

typedef struct hb_candidate_evaluation hb_candidate_evaluation;

/* The pool is borrowed. */
int hb_candidate_evaluation_new(hb_candidate_evaluation **ret, const hb_model *m, hb_pool *pool, int max_samples,
                                int max_horizon, hb_error *err);
void hb_candidate_evaluation_free(hb_candidate_evaluation *e);

/* Starts on a problem (borrowed until the next). clock may be NULL: no deadline. */
void hb_candidate_evaluation_begin(hb_candidate_evaluation *e, const hb_plan_problem *problem, const hb_clock *clock,
                                   double deadline);
/* Where the answers of the clock are noted, or come from, from the next begin on; NULL: neither. */
void hb_candidate_evaluation_follow(hb_candidate_evaluation *e, hb_decisions *decisions);

/* Stops when *interrupt becomes true, until the next hb_candidate_evaluation_begin. */
void hb_candidate_evaluation_heed(hb_candidate_evaluation *e, const atomic_bool *interrupt);

/* Does a job; *best is replaced when a better candidate is among the samples. Returns false when time ran out before
 * the end: then no gradient step was made. Costs that are known for all samples count even when the gradients are not.
 */
bool hb_candidate_evaluation_run(hb_candidate_evaluation *e, const hb_candidate_job *job, hb_candidate *best);

/* Jacobians of every step along a candidate whose controls are u (nh x nu; effective), see hb_rollout_jacobians. */
bool hb_candidate_evaluation_jacobians(hb_candidate_evaluation *e, const hb_candidate *at, const double *u, double *a,
                                       double *b);

/* One step of the model from each state of a trajectory (nh x nx) under its effective controls (nh x nu), to next (nh x
 * nx). */
bool hb_candidate_evaluation_steps(hb_candidate_evaluation *e, const double *states, const double *u, double *next);

/* A piece of work on the caller's thread: asks for time, and ends it. */
bool hb_candidate_evaluation_ask(hb_candidate_evaluation *e, hb_piece kind);
void hb_candidate_evaluation_rest(hb_candidate_evaluation *e);

/* Is there likely time for so many pieces of this kind, one after the other? */
bool hb_candidate_evaluation_fits(const hb_candidate_evaluation *e, hb_piece kind, int count);

/* Since hb_candidate_evaluation_begin: pieces of work, and candidates dropped because they were not finite. */
uint64_t hb_candidate_evaluation_pieces(const hb_candidate_evaluation *e);
uint64_t hb_candidate_evaluation_dropped(const hb_candidate_evaluation *e);

#endif
