/* A search for the numbers of a controller that fly better, in all of some conditions at once.
 *
 *     trial k:  some factors drawn anew about the best so far     keyed by (seed, k)
 *               the same flights with them, condition by condition
 *               given up as soon as it crashes more, loses in a condition, or is behind by a sign test
 *     the best: flown once more, with other vehicles and another seed, beside what there was
 *
 * An error is the geometric mean, over flights, of the distances in the first second and later. Every flight goes to a
 * file at once: a search that was interrupted goes on where it was, and the same seed gives the same result for any
 * number of threads. */
#ifndef HB_TUNE_H
#define HB_TUNE_H

#include "eval/robust.h"

typedef struct hb_tune_point {
    double factor[HB_NFACTORS];
    int horizon; /* 0: as configured */
} hb_tune_point;

typedef struct hb_tune_settings {
    hb_robust_settings robust; /* configuration, model, seed, seconds */
    hb_robust_controller controller;
    const hb_robust_row *const *row;
    int nrows, flights, trials, threads; /* flights: of each row */
    int nfactors;
    double base[HB_NFACTORS]; /* what factors are of; 0: left alone */
    int horizon;              /* configured; 0: not searched */
    const char *folder;       /* of the flights; it exists */
    const char *settings;     /* one line: what flights depend on beside the point */
} hb_tune_settings;

/* One row's flights at one point. */
typedef struct hb_tune_cell {
    double error, heading, effort; /* m, degrees, ranges/s; geometric means */
    int crashed;
} hb_tune_cell;

typedef enum { HB_TUNE_NOTHING, HB_TUNE_BETTER, HB_TUNE_NOT_ELSEWHERE } hb_tune_verdict;

typedef struct hb_tune_result {
    hb_tune_point best;
    int taken; /* trials that were better than all before */
    /* where one was taken: */
    hb_tune_cell *cell[4];   /* nrows each: the search's flights before and after, other flights before and after */
    double ratio[2];         /* of errors, after over before, over all rows: of the search, of the others */
    hb_tune_verdict verdict; /* of the others: NOT_ELSEWHERE: not better, or worse in a row, or crashed more */
} hb_tune_result;

/* More than this factor in a single condition, in all headings or in all efforts is not given for the rest. */
#define HB_TUNE_LOSS 1.05

/* The result is freed by hb_tune_free. */
int hb_tune(const hb_tune_settings *s, hb_tune_result *ret, hb_error *err);
void hb_tune_free(hb_tune_result *r);

#endif
