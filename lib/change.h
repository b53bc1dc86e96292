/* Has this vehicle's behaviour just changed? A cumulative sum (Page's test) on the one-step prediction error.
 *
 *     y_d = e_d / s_d                 error of state d relative to its expected size
 *     q   = min(mean of y_d^2, cap)   about 1 as long as the model predicts as well as it used to
 *     S   = max(0, S + q - drift)     alarm when S > threshold; the change happened where S last left zero
 *
 * The expected size has two parts: the variance seen so far, and a fraction of the motion itself, because no model is
 * exact and vigorous flight must not look like a new vehicle. The cap makes one wild sample harmless. */
#ifndef HB_CHANGE_H
#define HB_CHANGE_H

#include "base.h"

typedef struct hb_change {
    int nx;
    double threshold;
    double *variance; /* nx, of the error */
    double statistic; /* S */
    int run;          /* samples since S left zero */
    int learned;      /* samples behind the variance */
    int settling;     /* samples still to pass before errors count again */
} hb_change;

/* Forgets everything; variance must point to nx numbers. */
void hb_change_reset(hb_change *d);

/* One prediction error e and the motion dz that was predicted, both nx and normalised. Returns 0, or on an alarm the
 * number of newest samples, this one included, that belong to the new dynamics. */
int hb_change_push(hb_change *d, const double *e, const double *dz);

#endif
