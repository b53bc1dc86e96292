/* Has this vehicle's behaviour just changed? Cumulative sums (Page's test) on the one-step prediction error.
 *
 *     q_d = min(e_d^2 / s_d^2, cap)       error of state d relative to its expected size, about 1 on average as long as
 *                                         the model predicts as well as it used to
 *     S_d = max(0, S_d + q_d - drift)     alarm when an S_d > threshold; what has passed since q_d became large for
 *                                         good belongs to the new dynamics
 *
 * The expected size has two parts: the variance seen so far, and a fraction of the motion, of this sample and of recent
 * ones, because no model is exact and vigorous flight must not look like a new vehicle. The cap makes one wild sample
 * harmless. States are watched one by one, because a change of mass, say, shows in few of them. */
#ifndef HB_CHANGE_H
#define HB_CHANGE_H

#include <stdbool.h>

#include "base/base.h"

enum { HB_CHANGE_FEWEST = 3 }; /* least number of samples that an alarm reports */

typedef struct hb_change {
    int nx;
    double threshold;
    double *variance;  /* nx, mean square of the error */
    double *motion;    /* nx, mean square of the motion */
    double *statistic; /* nx, S */
    int *run;          /* nx, newest samples in a row whose q was large */
    int learned;       /* samples behind the variance */
    bool trusted;      /* they were enough at some time */
    int settling;      /* samples still to pass before errors count again */
} hb_change;

/* Takes the arrays from the arena; nx and threshold are given. */
void hb_change_lay_out(hb_change *d, hb_arena *arena);
/* Forgets everything. */
void hb_change_reset(hb_change *d);

/* One prediction error e and the motion dz that was predicted, both nx and normalised. Returns 0, or on an alarm the
 * number of newest samples, this one included, that may belong to new dynamics; *ret_state is where it shows. */
int hb_change_push(hb_change *d, const double *e, const double *dz, int *ret_state);
/* The same where the caller knows what to expect of the squared error of each state: `expected` (nx). */
int hb_change_watch(hb_change *d, const double *e, const double *expected, int *ret_state);
/* One error that is known to be of the dynamics of now, such as those of a window to its own fit: what to expect. */
void hb_change_learn(hb_change *d, const double *e, const double *dz);
/* The alarm was right: errors count again when the coefficients have had time to find their new values. */
void hb_change_settle(hb_change *d);

#endif
