/* The parameters that training begins with. */
#ifndef HB_INITIAL_H
#define HB_INITIAL_H

#include "data/dataset.h"

/* Fills m->parameter; sizes, names and normalisation must be there. They depend on the model's shape, the data and the
 * seed alone. given: a model whose average is copied, or NULL. */
int hb_initial_parameters(hb_model *m, const hb_dataset *d, uint64_t seed, const hb_model *given, hb_error *err);

#endif
