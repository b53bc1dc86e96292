/* Fits to points drawn from a data set: all that they take, in one object. */
#ifndef HB_FITTER_H
#define HB_FITTER_H

#include "data/dataset.h"
#include "train/fit.h"
#include "base/numeric.h"

typedef struct hb_fitter hb_fitter;

/* The model and the data are borrowed; the model's parameters may change between fits. */
int hb_fitter_new(hb_fitter **ret, const hb_model *m, const hb_dataset *d, int examples, int refinements,
                  hb_error *err);
void hb_fitter_free(hb_fitter *f);

/* As hb_fit_use_prior. */
int hb_fitter_use_prior(hb_fitter *f, hb_error *err);

/* Draws examples of a function, keyed from `index` on, and fits to them; NULL: a number is not finite. */
hb_fit *hb_fitter_run(hb_fitter *f, int function, hb_random_key key, uint64_t index);

#endif
