/* Fewer basis functions after training: the principal components of the coefficients that the data's functions have.
 *
 *     A = mean of G^T G over functions = L L^T,   y_f = L^T c_f,   mean of y y^T = V D V^T, largest first
 *     G'_j = sum_i B_ij G_i,   B = L^-T V
 *
 * The first n of G' keep as much as n functions can of what the basis adds to the average, in the mean square over data
 * and functions; they are orthonormal on the data. In a shared model they are rows of the head again:
 * W'_j = sum_i B_ij W_i. With a coefficient for each state there is one such problem per state, or a joint one: then
 * c_f are the coefficients of all states, A has a block for each state, and the n functions have one coefficient each
 * for all states. Vehicles that differ in few things have coefficients of all states that vary together: few examples
 * tell them, and a prior of few numbers. */
#ifndef HB_PRUNE_H
#define HB_PRUNE_H

#include "data/dataset.h"
#include "train/watch.h"

typedef struct hb_rotation hb_rotation;

/* Fits the model to `examples` points of every function, drawn by seed. Functions: indices into the data set's; NULL:
 * all. Only shared models can be rotated: -EINVAL. watch may be NULL. */
int hb_rotation_new(hb_rotation **ret, const hb_model *m, const hb_dataset *d, const int *function, int nfunctions,
                    int examples, bool joint, uint64_t seed, const hb_watch *watch, hb_error *err);
void hb_rotation_free(hb_rotation *r);

/* Components that there are. */
int hb_rotation_size(const hb_rotation *r);

/* Part of the coefficients' energy that the first n components hold, 0..1; the least over states. */
double hb_rotation_share(const hb_rotation *r, int n);

/* A new model with the first n basis functions: of the rotation, or with NULL as they are (also independent ones). */
int hb_prune(hb_model **ret, const hb_model *m, const hb_rotation *r, int n, hb_error *err);

#endif
