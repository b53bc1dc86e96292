/* From settings and data to an untrained model: kind and sizes, names, normalisation, average, initial parameters. */
#ifndef HB_DESIGN_H
#define HB_DESIGN_H

#include "data/dataset.h"
#include "train/settings.h"

typedef struct hb_design {
    hb_model *model;       /* the caller's to free */
    bool average_is_given; /* it came from a file: it is not to be trained */
} hb_design;

/* The actuators that the settings name; where they name none, those of the model to start from (NULL: none). */
int hb_design_actuators(const hb_settings *s, int nu, const hb_model *initial, hb_actuators *ret, hb_error *err);

/* Parameters depend on the seed, the settings and the data alone, or are those of a model to start from (NULL: none).
 * notes goes into the model. */
int hb_design_model(hb_design *ret, const hb_settings *s, const hb_dataset *d, const hb_model *initial,
                    const char *notes, hb_error *err);

#endif
