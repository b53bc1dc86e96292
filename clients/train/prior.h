/* The prior of a model's coefficients, from the functions that it was trained on: c_f ~ N(c0, P0), and the noise s_k of
 * state k that the fitted basis leaves of a step.
 *
 *     fit c_f to many examples of each function; s_k^2 = mean square of what is left of state k
 *     until it settles (expectation and maximisation of the likelihood, with L_f = m G^T S^-1 G of function f):
 *         V_f = (L_f + P0^-1)^-1,   c_f = V_f (h_f + P0^-1 c0)
 *         c0 = mean c_f,            P0 = mean of V_f + (c_f - c0)(c_f - c0)^T
 *
 * So the error of the fits themselves is not taken for a difference between functions. Few functions say little about
 * directions: P0 is drawn towards its own diagonal by (nb + 1) / (nb + 1 + F), and widened by (F + 1) / (F - 1). */
#ifndef HB_PRIOR_H
#define HB_PRIOR_H

#include "base/pool.h"
#include "data/dataset.h"
#include "model/model.h"
#include "train/watch.h"

enum { HB_PRIOR_EXAMPLES = 300, HB_PRIOR_FUNCTIONS = 2 };

/* Can this model have a prior: has it coefficients, found by least squares? */
bool hb_prior_applies(const hb_model *m);

/* Fills in the prior of a model that has room for one (hb_model_copy) and seals it. Functions: indices into the data
 * set's, HB_PRIOR_FUNCTIONS at least; NULL: all. Does not depend on the number of threads. watch may be NULL. */
int hb_prior_estimate(hb_model *m, const hb_dataset *d, const int *function, int nfunctions, int examples,
                      uint64_t seed, hb_pool *pool, const hb_watch *watch, hb_error *err);
/* The same at a fraction of the work, for the fits of a training that goes on: from the first functions, and few
 * examples of each. */
int hb_prior_estimate_quickly(hb_model *m, const hb_dataset *d, const int *function, int nfunctions, uint64_t seed,
                              hb_pool *pool, hb_error *err);

#endif
