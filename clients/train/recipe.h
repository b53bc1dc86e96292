/* What hilbert-train chooses by looking at the data, where it is not told: each rule with its reason, as a line.
 *
 *     what it looks at                                     what it chooses
 *     physics as the average or not                        inputs, ridge, learning rate, points of a step
 *     logs (nothing hidden is named) or a simulator        rollouts, functions, basis functions, steps; identification
 *     states, how far they move in a period                increments or an ODE, rollouts, shape of the coefficients
 *     delay and lag that the data say                      delay, lag
 *
 * Whatever was set by text (hb_settings_given) stays. The rules are those that config/models/make.sh and hilbert-eval
 * real were tried out with. */
#ifndef HB_RECIPE_H
#define HB_RECIPE_H

#include <signal.h>
#include <stdio.h>

#include "data/dataset.h"
#include "train/settings.h"

/* Reads the data that the settings name, and fills in the rest. out: where choices and reasons go; NULL: nowhere. A
 * foreign kind of model (the paper's), and one that is continued from another, are left as they are. */
int hb_recipe_apply(hb_settings *s, FILE *out, const volatile sig_atomic_t *stop, hb_error *err);
/* The same of data that are there already. */
int hb_recipe_choose(hb_settings *s, const hb_dataset *d, FILE *out, const volatile sig_atomic_t *stop, hb_error *err);
/* The rules in words, for --help. */
extern const char hb_recipe_help[];

#endif
