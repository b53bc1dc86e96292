/* The log of a training run: a line of JSON for each step that is kept, and its curves as a picture. */
#ifndef HB_TRAINING_LOG_H
#define HB_TRAINING_LOG_H

#include <stdio.h>

#include "train/trainer.h"

/* Medians over held-out functions; NaN when there are none. */
typedef struct hb_validation {
    double one_step, ten_step; /* mean squared error of normalised states after so many steps */
    int steps;                 /* "ten" steps: fewer where episodes are shorter */
} hb_validation;

/* Opens a log for appending. Lines of steps from `step` on, which a run before this one wrote after its last
 * checkpoint, are taken out first; step = 0 empties it. */
int hb_training_log_open(FILE **ret, const char *path, uint64_t step, hb_error *err);
/* seconds, cpu_seconds: since this run began or was resumed. validation may be NULL. */
void hb_training_log_write(FILE *log, const hb_trainer_report *r, double seconds, double cpu_seconds,
                           const hb_validation *v);
/* The last line: the prior was made after so many steps. */
void hb_training_log_write_prior(FILE *log, uint64_t steps, double seconds, double cpu_seconds);
/* How long the training took, over all runs of it; 0 where the log does not say. */
int hb_training_log_times(const char *path, double *seconds, double *cpu_seconds, hb_error *err);
/* Processor seconds by a log with a line for every step. */
typedef struct hb_training_log_seconds {
    double usual,
        longest; /* of a step, the first one left out: the median, which other work moves little, and the most */
    double end;  /* of the prior after the last step */
} hb_training_log_seconds;

int hb_training_log_step_seconds(const char *path, hb_training_log_seconds *ret, hb_error *err);
/* Draws loss and errors of the log at `path` into name.svg and name.png. */
int hb_training_log_plot(const char *path, const char *name, hb_error *err);

#endif
