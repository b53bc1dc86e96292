/* Predictions as a daemon would make them: in the order of time, from what was seen before, in physical units.
 *
 *     function's transitions -> hb_estimator_push, one after the other
 *     at starts from 5 s on  -> rolled out with the recorded controls, with five sets of coefficients:
 *                               zero, the prior's mean, those after 1 s, after 5 s, and those of that moment
 *
 * All rows have the same starts. Delay and lag are the estimator's. An error is the mean over starts of the length of
 * the difference: of position and velocity, of body rates, the angle between attitudes; of other states their absolute
 * difference. A band is the mean of rollouts with coefficients and noise drawn from the belief, +-1.645 deviations. */
#ifndef HB_ONLINE_H
#define HB_ONLINE_H

#include <stdio.h>

#include <jansson.h>

#include "base/pool.h"
#include "data/dataset.h"
#include "estimate/estimator.h"

enum { HB_ONLINE_ROWS = 5, HB_ONLINE_STEPS = 4, HB_ONLINE_QUANTITIES = 32 };

extern const char *const hb_online_row[HB_ONLINE_ROWS];
extern const int hb_online_steps[HB_ONLINE_STEPS]; /* 1, 10, 30, 50 */

typedef struct hb_online_quantity {
    char name[2 * HB_NAME_SIZE], unit[HB_NAME_SIZE];
    int n, state[4]; /* 4: a quaternion */
} hb_online_quantity;

typedef struct hb_online {
    int nquantities;
    hb_online_quantity quantity[HB_ONLINE_QUANTITIES];
    int starts; /* over all functions */
    /* mean errors, NaN where no episode is long enough */
    double error[HB_ONLINE_ROWS][HB_ONLINE_STEPS][HB_ONLINE_QUANTITIES];
    int ran_away[HB_ONLINE_ROWS]; /* rollouts whose error is not finite, or beyond 100 deviations */
    double
        coverage[HB_ONLINE_STEPS];   /* of 90 % bands of single states with online coefficients; after 1 and 10 steps */
    double seconds;                  /* of flight */
    double out_of_span, implausible; /* shares of the time from 1 s on with that status; of transitions not believed */
    double changes;                  /* a minute */
} hb_online;

typedef struct hb_online_settings {
    hb_estimator_settings estimator;
    int starts;          /* of each function at most */
    uint64_t seed;       /* of the draws for bands */
    const int *function; /* nfunctions of the data's; NULL: all */
    int nfunctions;
    double *long_run; /* nx, filled in with the root of the one-step errors' long-run variance, normalised: the mean of
                         (1 - b^2) s^2, s <- b s + error, b = 1 - dt / 0.4 s; as model.h's reference_noise. NULL: not */
} hb_online_settings;

/* For data whose controls are those that act, as training has them: delay and lag are in them already. */
extern const hb_actuator_settings hb_online_acting;

/* The model's states and controls must be those of the data, in their order: -EINVAL says which is not. */
int hb_online_measure(hb_online *ret, const hb_model *m, const hb_dataset *d, const hb_online_settings *s,
                      hb_pool *pool, hb_error *err);
json_t *hb_online_json(const hb_online *o);
void hb_online_print(const hb_online *o, const char *title, FILE *out);

#endif
