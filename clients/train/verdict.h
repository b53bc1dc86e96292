/* Whether a trained model is good, in words and figures: how it predicts functions that it was not trained on, as a
 * daemon would (online.h), and what one, five and all seconds of a new vehicle bring. */
#ifndef HB_VERDICT_H
#define HB_VERDICT_H

#include <stdio.h>

#include "train/online.h"

typedef struct hb_verdict {
    bool known; /* there were functions to try it on */
    hb_online online;
    bool can_turn;                      /* its states can be turned (data/headings.h): */
    hb_online turned;                   /* the same flights, a quarter turned to the left */
    double noise[HB_ONLINE_QUANTITIES]; /* one-step error that the data's own noise makes, as of a quantity */
} hb_verdict;

/* Measures, and fills in m->reference_noise (to be sealed after that). functions: indices into the data set's, whose
 * controls are those that act. */
int hb_verdict_measure(hb_verdict *ret, hb_model *m, const hb_dataset *d, const int *function, int nfunctions,
                       hb_pool *pool, hb_error *err);
void hb_verdict_print(const hb_verdict *v, FILE *out);

#endif
