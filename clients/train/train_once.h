/* Trains a model only when needed: one that was made with the same settings is used as it is, an interrupted training
 * is resumed. */
#ifndef HB_TRAIN_ONCE_H
#define HB_TRAIN_ONCE_H

#include "train/run.h"

typedef struct hb_train_once {
    hb_model *model;             /* the caller's to free; NULL when the run was stopped on the way */
    double seconds, cpu_seconds; /* that the training took, over all runs */
} hb_train_once;

/* -EEXIST when the file is there and was made in another way. */
int hb_train_once_run(const hb_settings *s, const hb_run_options *o, hb_train_once *ret, hb_error *err);
/* Whether the file exists. */
bool hb_train_once_done(const hb_settings *s);

#endif
