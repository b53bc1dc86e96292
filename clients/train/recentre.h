/* The average of a shared model, moved to the middle of what was trained on:
 *
 *     W_avg <- W_avg + sum_i mean(c_i) W_i          mean over functions; biases likewise
 *
 * The set of models stays the same; their coefficients become c - mean(c). So the average is the model of the mean
 * vehicle, with which a daemon starts before it has seen enough data, and towards which the ridge pulls. Gradient steps
 * alone leave it short of that: the rows of the average have noisy gradients and follow a trunk that moves. */
#ifndef HB_RECENTRE_H
#define HB_RECENTRE_H

#include "data/dataset.h"
#include "model/model.h"
#include "train/watch.h"

/* Fits the model to `examples` points of each function, keyed by seed. Does nothing where the average is not part of a
 * shared head. watch may be NULL; -EINTR leaves the model as it was. */
int hb_recentre(hb_model *m, const hb_dataset *d, const int *function, int nfunctions, int examples, uint64_t seed,
                const hb_watch *watch, hb_error *err);

#endif
