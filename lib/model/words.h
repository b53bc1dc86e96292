/* Words for what coefficients mean: a hidden parameter of the vehicles that a basis was trained on (mass, drag ...), as
 * far as it is linear in the coefficients.
 *
 *     y = offset + slope c            the parameter, or its reciprocal (1 / mass is linear where mass is not)
 *     sd(y)^2 = slope cov(c) slope^T + error^2
 *
 * error is what the map left of functions that were held back when it was fitted (clients/train/words.h). It reads a
 * belief, and changes none: a model with words plans and estimates as the same one without. */
#ifndef HB_WORDS_H
#define HB_WORDS_H

#include "model/model.h"

typedef struct hb_word {
    double value, deviation; /* in the parameter's unit; deviation 0 or above */
} hb_word;

/* What coefficients say, ret: nwords. covariance: nb x nb, or a block of it per state; NULL: variance is all that is
 * known. variance may then be NULL as well. A word whose reciprocal may have either sign has no value: NAN. */
void hb_words_read(const hb_model *m, const hb_real *c, const double *covariance, const double *variance, hb_word *ret);

/* "0.0221 +- 0.0003": the deviation with one digit, or two where that is a 1, and the value with as many places. */
enum { HB_WORD_TEXT = 64 };
const char *hb_word_text(hb_word w, char text[HB_WORD_TEXT]);

#endif
