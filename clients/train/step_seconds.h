/* How fast a training goes on this machine: for those who have so much time, and no number of steps in mind. */
#ifndef HB_STEP_SECONDS_H
#define HB_STEP_SECONDS_H

#include "train/run.h"

/* Processor seconds that a gradient step takes, by a short training with so many functions a step, whose files are
 * removed; in proportion for those of the settings. ret_prior_seconds: NULL, or what the prior at the end takes.
 * -EINTR: it was asked to stop. */
int hb_step_seconds_measure(const hb_settings *s, int functions, uint64_t steps, const volatile sig_atomic_t *stop,
                            double *ret_step_seconds, double *ret_prior_seconds, hb_error *err);

/* Sets the steps so that a training takes so much processor time. */
int hb_step_seconds_fit(hb_settings *s, double cpu_seconds, const volatile sig_atomic_t *stop, hb_error *err);

#endif
