/* Second-order descent on one candidate: a Gauss-Newton step (newton.h), tried at several lengths and dampings side by
 * side as lanes of one rollout, the best of which is where the next step starts. */
#ifndef HB_DESCENT_H
#define HB_DESCENT_H

#include "plan/candidate_evaluation.h"

typedef struct hb_descent hb_descent;

/* The map is borrowed; its directions may change between descents, their number not beyond max_directions. */
int hb_descent_new(hb_descent **ret, const hb_model *m, const hb_control_map *map, int max_directions, int max_horizon,
                   hb_error *err);
void hb_descent_free(hb_descent *d);

/* Improves *from until it no longer helps, in at most `most` steps, counted in *steps. Returns false when time ran
 * out; *from is the best so far all the same. `e` has begun on `problem`. */
bool hb_descent_run(hb_descent *d, hb_candidate_evaluation *e, const hb_problem *problem, int most, hb_candidate *from,
                    int *steps);

#endif
