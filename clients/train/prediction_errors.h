/* Prediction errors of a model on functions of a data set: fitted to examples of each, rolled out elsewhere.
 *
 * Examples come from the first half of a function's data and rollouts start in the second, so that what is predicted
 * was not fitted. An error is the mean squared difference of normalised states, after so many steps. */
#ifndef HB_PREDICTION_ERRORS_H
#define HB_PREDICTION_ERRORS_H

#include "data/dataset.h"
#include "base/pool.h"

typedef struct hb_prediction_settings {
    int examples; /* transitions to fit to; drawn at random */
    int rollouts; /* a function */
    int steps;    /* of each rollout */
    uint64_t seed;
    bool prior;         /* coefficients are fitted with the model's prior, which it must have */
    const double *unit; /* nx, that squared errors are multiplied by; NULL: 1. Kept by the caller */
    bool successive;    /* examples are successive in time instead, from a random start */
} hb_prediction_settings;

typedef struct hb_prediction_errors hb_prediction_errors;

/* Functions: indices into the data set's; NULL: all of them. Borrows all but the settings. */
int hb_prediction_errors_new(hb_prediction_errors **ret, const hb_model *m, const hb_dataset *d, const int *function,
                             int nfunctions, const hb_prediction_settings *s, hb_pool *pool, hb_error *err);
void hb_prediction_errors_free(hb_prediction_errors *e);

/* error: nfunctions x steps; infinite where the model is not finite. coefficient, unless NULL: nfunctions x the model's
 * number. adapt = false: coefficients are zero. Does not depend on the number of threads. */
void hb_prediction_errors_run(hb_prediction_errors *e, bool adapt, double *error, hb_real *coefficient);

/* The metric of the paper's authors: a rollout from observation `first` of every episode (of the first `rollouts` of a
 * function) that has as many steps behind it, and quartiles over all rollouts of all functions together: steps each.
 * NaN when there is none. */
int hb_prediction_errors_pooled(hb_prediction_errors *e, bool adapt, int first, double *lower, double *median,
                                double *upper, hb_error *err);

/* The longest rollout, up to a limit, that every function has an episode for. */
int hb_prediction_errors_longest(const hb_dataset *d, int limit);

/* Over functions, of the error after `step` steps (1..). */
double hb_prediction_errors_quantile(const hb_prediction_errors *e, const double *error, int step, double q);

#endif
