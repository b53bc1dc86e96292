/* What the adapted model leaves of functions that it was not trained on, in the long run (model.h's reference_noise):
 * what a vehicle's errors are held against before it is called out-of-span. */
#ifndef HB_REFERENCE_H
#define HB_REFERENCE_H

#include "data/dataset.h"
#include "model/model.h"
#include "base/pool.h"

/* The data's functions in the order of a seed: those at the end are held back from training. */
void hb_held_back_order(int nfunctions, uint64_t seed, int *function);
/* How many of them, where nobody says. */
int hb_held_back_count(int nfunctions);

/* Fills in m->reference_noise, by the functions that training with this seed holds back of these data; all of them
 * where it holds back none. Controls of the data are those that act. The model has a prior, and is to be sealed after
 * that. */
int hb_reference_measure(hb_model *m, const hb_dataset *d, uint64_t seed, hb_pool *pool, hb_error *err);

#endif
