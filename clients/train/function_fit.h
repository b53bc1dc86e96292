/* Fits to points drawn from a data set: all that they take, in one object. */
#ifndef HB_FUNCTION_FIT_H
#define HB_FUNCTION_FIT_H

#include "data/dataset.h"
#include "train/fit.h"
#include "base/numeric.h"

typedef struct hb_function_fit hb_function_fit;

/* The model and the data are borrowed; the model's parameters may change between fits. */
int hb_function_fit_new(hb_function_fit **ret, const hb_model *m, const hb_dataset *d, int examples, int refinements,
                        hb_error *err);
void hb_function_fit_free(hb_function_fit *f);

/* As hb_fit_use_prior. */
int hb_function_fit_use_prior(hb_function_fit *f, hb_error *err);

/* Draws examples of a function, keyed from `index` on, and fits to them; NULL: a number is not finite. */
hb_fit *hb_function_fit_run(hb_function_fit *f, int function, hb_random_key key, uint64_t index);

#endif
