/* Page's cumulative-sum test with a variance that is learned on the way; formulas: change.h. */
#include "change.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* What a mean of squared unit-variance errors may be without counting as evidence, and the most that one sample
 * counts. */
static const double drift = 3, cap = 12;
/* Error that is excused as inexactness of the model: a fraction of the motion, and rounding. */
static const double inexactness = 0.05, rounding = 1e-5;
/* An error counts at most this many times its variance when the variance is learned. */
static const double outlier = 9;

enum {
    LEARN = 30,    /* samples from which a variance is trusted */
    MEMORY = 300,  /* samples over which it is averaged */
    SETTLING = 20, /* samples after an alarm in which the coefficients find their new values */
};

void hb_change_reset(hb_change *d)
{
    memset(d->variance, 0, (size_t)d->nx * sizeof *d->variance);
    d->statistic = 0;
    d->run = 0;
    d->learned = 0;
    d->settling = 0;
}

static double square(double x)
{
    return x * x;
}

int hb_change_push(hb_change *d, const double *e, const double *dz)
{
    if (d->settling > 0) {
        d->settling--;
        return 0;
    }

    /* evidence, by the variance from before this sample */
    bool trusted = d->learned >= LEARN;
    double q = 0;
    for (int i = 0; i < d->nx; i++)
        q += square(e[i]) / (d->variance[i] + square(inexactness * dz[i]) + square(rounding));
    q = fmin(q / d->nx, cap);
    if (trusted) {
        d->statistic = fmax(0, d->statistic + q - drift);
        d->run = d->statistic > 0 ? d->run + 1 : 0;
    }
    if (d->statistic > d->threshold) {
        int run = d->run;
        d->statistic = 0;
        d->run = 0;
        d->settling = SETTLING;
        /* the new dynamics may be predicted less well: its errors soon outweigh the old ones */
        d->learned = LEARN;
        return run;
    }

    /* learn the variance; wild errors count in part, so that they can neither hide a change nor last */
    d->learned = d->learned < MEMORY ? d->learned + 1 : MEMORY;
    for (int i = 0; i < d->nx; i++) {
        double seen = square(e[i]);
        if (trusted)
            seen = fmin(seen, outlier * (d->variance[i] + square(rounding)));
        d->variance[i] += (seen - d->variance[i]) / d->learned;
    }
    return 0;
}
