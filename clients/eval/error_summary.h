/* Prediction errors of a model on a data set, summed up in three views: over steps (with and without coefficients),
 * over each hidden parameter, over the number of examples. Figures are medians over functions, with quartiles; and
 * beside them those of the paper's authors, over all rollouts together. */
#ifndef HB_ERROR_SUMMARY_H
#define HB_ERROR_SUMMARY_H

#include <jansson.h>

#include "train/prediction_errors.h"

enum { HB_ERROR_BINS = 5, HB_ERROR_FIRST = 20 };

/* quartiles over functions, one number per step */
typedef struct hb_curve {
    double *lower, *median, *upper;
} hb_curve;

/* one range of a hidden parameter, with as many functions as the others */
typedef struct hb_error_bin {
    double low, high;
    int functions;
    double one, late; /* medians after 1 and after `late` steps */
} hb_error_bin;

typedef struct hb_error_count {
    int examples;
    double one, late;
} hb_error_count;

typedef struct hb_error_summary {
    int steps, late, nhidden, nfunctions;
    int nbins;                 /* HB_ERROR_BINS, or fewer where there are fewer functions */
    hb_curve adapted, without; /* without: coefficients zero */
    hb_curve pooled;           /* the authors' metric: over rollouts of all functions, from step HB_ERROR_FIRST on */
    hb_error_bin *bin;         /* nhidden x nbins */
    double *function;          /* nfunctions: after `late` steps */
    int ncounts;
    hb_error_count *count;
    double *memory;
} hb_error_summary;

/* counts: numbers of examples to try beside (and below) those of the settings, for models with coefficients. late: the
 * step of bins and counts, 1..s->steps. Free with hb_error_summary_free, also after a failure. */
int hb_error_summary_measure(hb_error_summary *ret, const hb_model *m, const hb_dataset *d,
                             const hb_prediction_settings *s, int late, const int *counts, int ncounts, hb_pool *pool,
                             hb_error *err);
/* Other numbers of examples for what is measured already. */
int hb_error_summary_over_examples(hb_error_summary *e, const hb_model *m, const hb_dataset *d,
                                   const hb_prediction_settings *s, const int *counts, int ncounts, hb_pool *pool,
                                   hb_error *err);
void hb_error_summary_free(hb_error_summary *e);

/* "adapted", "without_coefficients", "pooled", "hidden" and "by_examples". */
json_t *hb_error_summary_json(const hb_error_summary *e, const hb_dataset *d);

#endif
