/* From settings and data to an untrained model: kind and sizes, names, normalisation, average, initial parameters. */
#ifndef HB_UNTRAINED_MODEL_H
#define HB_UNTRAINED_MODEL_H

#include "data/dataset.h"
#include "train/settings.h"

enum { HB_SMALL_STATE = 14 }; /* states at most of what is learned easily */

/* Sizes of a shared model by what a data set holds. */
typedef struct hb_model_sizes {
    int nb;
    hb_widths hidden;
} hb_model_sizes;

hb_model_sizes hb_model_sizes_suggested(const hb_dataset *d);

/* The actuators that the settings name; where they name none, those of the model to start from (NULL: none). */
int hb_untrained_model_actuators(const hb_settings *s, int nu, const hb_model *initial, hb_actuators *ret,
                                 hb_error *err);

/* The physics that an average's text names (nominal:..., FILE.yaml...): *ret, or NULL where it is none. parameter and
 * given (HB_NOMINAL_PARAMETERS): values, and which of them the text or what the data know settle. *ret_own is to be
 * freed by hb_physics_free; NULL where it is a built-in one. */
int hb_untrained_model_physics(const char *average, const hb_dataset *d, const hb_nominal **ret,
                               struct hb_physics **ret_own, double *parameter, bool *given, hb_error *err);

/* Parameters depend on the seed, the settings and the data alone, or are those of a model to start from (NULL: none).
 * notes goes into the model. *ret_average_is_given: the average came from a file and is not trained. */
int hb_untrained_model_new(hb_model **ret, bool *ret_average_is_given, const hb_settings *s, const hb_dataset *d,
                           const hb_model *initial, const char *notes, hb_error *err);

#endif
