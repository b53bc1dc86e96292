/* Words for a model's coefficients: maps from them to the hidden parameters of the functions in a data set, which
 * lib/model/words.h reads.
 *
 *     c_f        coefficients of function f, from many of its transitions and the model's prior
 *     y_f        its hidden parameter (or an expression of several), or 1 / y_f
 *     y = offset + slope c     ridge regression over functions
 *
 * Ridge and form are those with the least error on functions that were held back, a tenth at a time. A word that
 * explains less than half of its variance there is left out: it would say what is usual, and not what is. */
#ifndef HB_TRAIN_WORDS_H
#define HB_TRAIN_WORDS_H

#include <stdio.h>

#include "base/pool.h"
#include "data/dataset.h"
#include "train/watch.h"

/* Least functions to fit a map to. */
enum { HB_WORD_FUNCTIONS = 20 };
#define HB_WORD_EXPLAINED 0.5

/* What a map is looked for to. */
typedef struct hb_word_wish {
    char name[HB_NAME_SIZE], unit[HB_NAME_SIZE];
    char text[256]; /* an expression of hidden parameters (data/log_expression.h) */
} hb_word_wish;

typedef struct hb_word_wishes {
    int n;
    hb_word_wish wish[HB_MAX_WORDS];
} hb_word_wishes;

/* How well it went. */
typedef struct hb_word_result {
    int nfunctions; /* that name all it is made of */
    hb_word_form form;
    double error;     /* RMS on held-back functions, in the parameter's unit */
    double explained; /* of the variance, by what was held back: at most 1 */
    bool kept;
} hb_word_result;

/* "name", "name[unit]" or "name[unit]=expression"; the function of an option. */
int hb_words_wish(void *wishes, const char *text, hb_error *err);
/* All hidden parameters of a data set that differ between its functions. */
void hb_words_wish_all(hb_word_wishes *ret, const hb_dataset *d);

/* Can this model have words: has it coefficients, and is the data set one of enough functions? */
bool hb_words_apply(const hb_model *m, const hb_dataset *d);

/* What words are looked for in. */
typedef struct hb_word_source {
    const hb_model *model;
    const hb_dataset *data;
    const int *function; /* nfunctions indices into the data set's; NULL: all */
    int nfunctions;
    int examples; /* points of each, that its coefficients are made of */
    uint64_t seed;
    const char *notes; /* of the new model; NULL: the model's own */
} hb_word_source;

/* A copy of the model with the words that explain something, and how each wish went (results: one each; may be NULL).
 */
int hb_words_fit(hb_model **ret, const hb_word_source *from, const hb_word_wishes *wishes, hb_pool *pool,
                 const hb_watch *watch, hb_word_result *results, hb_error *err);

/* A line for each wish. */
void hb_words_print(const hb_word_wishes *wishes, const hb_word_result *results, FILE *out);

#endif
