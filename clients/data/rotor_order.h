/* Which rotor of a quadrotor each control of a log is: where the description mixes them up, a model learns torques that
 * are none, and nothing else says so.
 *
 *     d wdot = g_axis * pattern_axis . d f        differences over 40 ms, behind the best of a few delays and lags
 *
 * Each of the 24 orders makes a pattern of signs for roll and one for pitch; yaw, whose rotors may turn either way
 * round, has the product of both. The gain g is never negative: forces push. An order's error is what it leaves of
 * the three axes, each in units of what four free coefficients leave. Differences, because a controller's slow torques
 * cancel disturbances that nobody measured. The order as given is doubted where another one beats it by more than five
 * standard deviations over 40 blocks of time (one in three million by chance, and 23 are tried). */
#ifndef HB_ROTOR_ORDER_H
#define HB_ROTOR_ORDER_H

#include "data/dataset.h"

enum { HB_ROTORS = 4 };

typedef struct hb_rotor_order {
    int rotor[HB_ROTORS]; /* control i acts as rotor[i] of nominal:quadrotor */
    bool wrong;           /* it is another order than 0, 1, 2, 3, beyond doubt */
    double deviations;    /* by which it beats 0, 1, 2, 3; 0: that is the best one */
    double explained,
        as_given;    /* shares of the changes of roll and pitch accelerations: in this order, in 0, 1, 2, 3 */
    bool reversed;   /* rotors turn the other way round than in the nominal model */
    bool sense_told; /* beyond doubt */
    double reversed_deviations; /* by which the data tell the sense, in this order */
} hb_rotor_order;

/* Data of four controls of one unit with body rates wx wy wz. -ENODATA: they are not, or too few. */
int hb_rotor_order_find(hb_rotor_order *ret, const hb_dataset *d, hb_error *err);

#endif
