/* Constants beside the learned basis functions: one in the rate of each state that they act on and that is no mere
 * kinematics (accelerations). What the basis cannot say is then still compensated, as offset-free control does.
 *
 *     z' = f_avg(z, u) + sum_i c_i g_i(z, u) + sum_k d_k e_k
 *
 * Rows of the head with weights 0 and a bias of 1: collapsed they cost nothing. Their prior is that of all
 * coefficients, from the functions trained on. */
#ifndef HB_APPEND_CONSTANTS_H
#define HB_APPEND_CONSTANTS_H

#include "model/model.h"

/* -EINVAL: it is no shared model with one vector of coefficients for all states. The new one has no prior yet. */
int hb_append_constants(hb_model **ret, const hb_model *m, hb_error *err);

#endif
