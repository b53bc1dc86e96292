/* A whole training run: data, model, gradient steps, validation, log, checkpoints, basis file. */
#ifndef HB_RUN_H
#define HB_RUN_H

#include <signal.h>

#include "train/checkpoint.h"
#include "train/training_log.h"
#include "train/ranks.h"
#include "train/settings.h"
#include "train/verdict.h"

typedef struct hb_run_options {
    const hb_checkpoint *resume;       /* NULL: from the start */
    const volatile sig_atomic_t *stop; /* not zero: write a checkpoint and end; may be NULL */
    bool quiet;                        /* neither progress nor summary */
    bool force;                        /* replace what an interrupted or diverged run left */
    bool no_prior;                     /* none in the file */
    bool verdict;                      /* try it on what is held out as a daemon would: `verdict`, and the file's
                                          reference noise */
    const char *label;                 /* of the progress line; NULL: "train" */
    const hb_ranks *ranks;             /* that train together, each in a process with the same settings; NULL: none */
} hb_run_options;

typedef struct hb_run_result {
    uint64_t steps;
    bool died; /* a rank did: `why`, and a checkpoint was written */
    hb_error why;
    bool stopped;  /* before the end: a checkpoint was written instead of the model */
    bool flat;     /* before the end, because validation was not getting better: the model was written */
    double recent; /* ten-step error of a validation a tenth of the run before the end; NAN: there was none */
    hb_trainer_report last;
    hb_validation validation, without; /* without: coefficients zero */
    hb_validation with_prior;          /* coefficients by the prior that was written; NAN: there is none */
    hb_verdict verdict;
    double cpu_seconds; /* of the steps */
    double seconds;
    double steps_per_second;
    size_t peak_memory; /* bytes, of the process so far */
} hb_run_result;

int hb_run(const hb_settings *s, const hb_run_options *o, hb_run_result *ret, hb_error *err);

/* Where a run's checkpoint and its log are. */
void hb_run_checkpoint_path(const hb_settings *s, char path[HB_PATH_SIZE]);
void hb_run_log_path(const hb_settings *s, char path[HB_PATH_SIZE]);

/* Sets the fields of a mapping from a setting's text, "key=value;key=value". */
int hb_run_mapping(const char *text, hb_dataset_mapping *ret, hb_error *err);

#endif
