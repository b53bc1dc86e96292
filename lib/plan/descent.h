/* Second-order descent from one candidate: a Gauss-Newton step (gauss_newton.h), tried at several lengths and dampings
 * side by side as lanes of one rollout, the best of which is where the next step starts.
 *
 *     run = linearise, improve, linearise, improve, ... until nothing is left to gain
 *
 * A correction needs no Jacobians of its own: those that were worked out before, for a state and a sequence that were
 * expected, predict what becomes of the true ones, and one step of the model from every predicted state, side by side,
 * shows by how much they are off (their defects). Where that settles it to within what an answer may lose, the
 * prediction is the answer, and a rollout verifies it behind the reply; else trials from the true state measure what is
 * gained. */
#ifndef HB_DESCENT_H
#define HB_DESCENT_H

#include "plan/candidate_evaluation.h"

typedef struct hb_descent hb_descent;

typedef enum {
    HB_DESCENT_STOPPED,   /* time ran out; the candidate is the best so far all the same */
    HB_DESCENT_UNDER_WAY, /* another step would help */
    HB_DESCENT_ARRIVED,   /* nothing worth while is left to gain */
} hb_descent_end;

/* The map is borrowed; its directions may change between descents, their number not beyond max_directions. */
int hb_descent_new(hb_descent **ret, const hb_model *m, const hb_control_map *map, int max_directions, int max_horizon,
                   hb_error *err);
void hb_descent_free(hb_descent *d);

/* What of a cost is not worth keeping a request waiting for. */
double hb_descent_negligible(const hb_plan_problem *problem, double cost);

/* In all that follows `e` has begun on `problem`. */

/* Improves *from in at most `most` steps, counted in *steps. */
hb_descent_end hb_descent_run(hb_descent *d, hb_candidate_evaluation *e, const hb_plan_problem *problem, int most,
                              hb_candidate *from, int *steps);

/* Its two halves: the quadratic model of the cost at a candidate; false: time ran out, and there is none. And one step
 * from there. */
bool hb_descent_linearise(hb_descent *d, hb_candidate_evaluation *e, const hb_plan_problem *problem,
                          const hb_candidate *at);
hb_descent_end hb_descent_improve(hb_descent *d, hb_candidate_evaluation *e, const hb_plan_problem *problem,
                                  hb_candidate *from);

/* Steps from from->w, of which neither cost nor states are known, with the Jacobians of the last hb_descent_linearise,
 * whatever problem that was for. By the model alone, if `trust` and that settles it (*verified becomes false: cost and
 * states are predicted, and a rollout is to confirm them); else by trials from the true state, the sequence itself and
 * `also` among them: then the result is not worse than either. */
hb_descent_end hb_descent_correct(hb_descent *d, hb_candidate_evaluation *e, const hb_plan_problem *problem, bool trust,
                                  const hb_real *also, hb_candidate *from, int *steps, bool *verified);
/* Did the rollout of a candidate cost what the model predicted? */
bool hb_descent_confirms(const hb_plan_problem *problem, double predicted, const hb_candidate *rolled_out);

/* Sequences side by side from problem->x0, at most HB_LANES: the best of them becomes *from. */
void hb_descent_offer(hb_descent *d, const hb_plan_problem *problem, int lane, const hb_real *w);
bool hb_descent_choose(hb_descent *d, hb_candidate_evaluation *e, int count, hb_candidate *from);

#endif
