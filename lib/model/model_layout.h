/* Basis files: how a model lies in a safetensors file. Read by model_load.c and model_save.c alike.
 *
 * Metadata (all strings, all required but `outputs`, `angles` and `notes`; lists are joined by commas):
 *
 *     format              hilbert-basis-1
 *     architecture, activation, average, integration, method, shape      a name of model.h's enumerations
 *     substeps, ridge, volume, dt                                        numbers
 *     state_names, state_units, control_names, control_units             control_* only with controls
 *     inputs              names of the states that feed the networks
 *     outputs             names of the states that basis functions act on; left out: all. Rows of the others are 0
 *     angles              names of the states that are angles, in radians; left out: none
 *     nominal             with average = nominal: name of the nominal model,
 *     nominal_parameters  and all its parameters, as name=value
 *     nominal_expressions with nominal = expressions: what they are, a line each (physics.h)
 *     word_names, word_units, word_forms  of hidden parameters that coefficients tell of (words.h); left out: none
 *     notes               free text
 *
 * Tensors (F64 or F32; F16 and BF16 are read as well). Those without elements are left out.
 *
 *     state.mean, state.std                                   [nx]
 *     control.mean, .std, .min, .max, .trim                   [nu]
 *     actuator.delay, .lag, .rate                             [nu], seconds, seconds, units per second; each is left
 *                                                             out when it is 0 for all
 *     independent   basis.{l}.weight, .bias                   [nb, out, in], [nb, out]
 *     shared        trunk.{l}.weight, .bias                   [out, in], [out]
 *                   head.weight, .bias                        [nb, nx, width], [nb, nx]
 *                   average.head.weight, .bias (average=head) [nx, width], [nx]
 *     average=network   average.{l}.weight, .bias             [out, in], [out]
 *     prior.mean                                              [nb], or [nb, nx] with shape = per_state
 *     prior.covariance                                        [nb, nb], or [nx, nb, nb]: a block per state
 *     prior.noise                                             [nx], standard deviation of the residual of a step
 *
 *     prior.reference_noise                                   [nx], what the adapted model leaves of held-back
 * functions in the long run (model.h); left out when it was not measured
 *
 *     words.offset, .slope, .error                            [nw], [nw, coefficients], [nw], with word_names
 *
 * The first three of the prior are all there or none of them: a file without them has no prior.
 * {l} counts layers from 0. Widths and depths are those of the tensors. */
#ifndef HB_MODEL_LAYOUT_H
#define HB_MODEL_LAYOUT_H

#include "model/model.h"

#define HB_BASIS_FORMAT "hilbert-basis-1"

/* Metadata of one value. Places are offsets into hb_model. */
typedef struct hb_key {
    const char *name;
    enum { HB_KEY_CHOICE, HB_KEY_COUNT, HB_KEY_NUMBER } kind; /* an enumeration, an int, a double */
    size_t place;
    const char *const *choices; /* names of the enumeration */
} hb_key;

/* Metadata with one name or unit per state or control. */
typedef struct hb_list {
    const char *name;
    size_t place; /* of a char (*)[HB_NAME_SIZE] */
    size_t count; /* place of nx or nu */
    bool may_be_empty;
} hb_list;

/* A tensor with one double per state or control. */
typedef struct hb_vector {
    const char *name;
    size_t place;  /* of a double * */
    size_t count;  /* place of nx or nu */
    bool optional; /* left out when all are 0 */
} hb_vector;

enum { HB_NKEYS = 10, HB_NLISTS = 4, HB_NVECTORS = 11 };

extern const hb_key hb_layout_key[HB_NKEYS];
extern const hb_list hb_layout_list[HB_NLISTS];
extern const hb_vector hb_layout_vector[HB_NVECTORS];

static inline void *hb_layout_place(const hb_model *m, size_t place)
{
    return (char *)(uintptr_t)m + place;
}

static inline int hb_layout_count(const hb_model *m, size_t place)
{
    return *(int *)hb_layout_place(m, place);
}

/* A tensor of parameters: `blocks` pieces of `length` numbers, `stride` apart in the flat parameter vector. */
typedef struct hb_part {
    char name[48];
    int rank;
    size_t shape[3];
    size_t offset, blocks, length, stride;
} hb_part;

/* A tensor of the prior, or of the words. */
typedef struct hb_prior_part {
    const char *name;
    size_t place; /* of a double * */
    int rank;
    size_t shape[3];
} hb_prior_part;

enum { HB_PRIOR_PARTS = 3 };

/* The tensors of the prior of a model whose sizes are set, whether it has one or not. */
void hb_layout_prior(const hb_model *m, hb_prior_part part[HB_PRIOR_PARTS]);

enum { HB_WORD_PARTS = 3, HB_WORD_TEXTS = 3 };

/* The same of the words, and the keys of their metadata: names, units, forms. */
void hb_layout_words(const hb_model *m, hb_prior_part part[HB_WORD_PARTS]);
extern const char *const hb_layout_word_key[HB_WORD_TEXTS];

enum { HB_MAX_PARTS = 4 * HB_MAX_LAYERS + 4 };

/* The parameter tensors of a model whose sizes are set (hb_model_size); returns their number. */
int hb_layout_parts(const hb_model *m, hb_part part[HB_MAX_PARTS]);

#endif
