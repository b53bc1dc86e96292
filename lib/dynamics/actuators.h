/* What actuators make of commands: a delay, then a first-order lag, exactly discretised.
 *
 *     a' = (u(t - delay) - a) / lag
 *
 * While the delayed command is held for h seconds, with keep = exp(-h / lag):
 *
 *     a(h) = u + (a(0) - u) keep              mean of a = u + (a(0) - u) share,     share = lag / h (1 - keep)
 *
 * The mean is the control that a model step of h seconds sees. Both are linear in a(0) and u. */
#ifndef HB_ACTUATORS_H
#define HB_ACTUATORS_H

#include "base/batch.h"

typedef struct hb_actuators {
    int nu;
    double delay[HB_MAX_CONTROLS]; /* seconds until a command that the vehicle has begins to act */
    double lag[HB_MAX_CONTROLS];   /* seconds, time constant; 0: it acts at once */
} hb_actuators;

/* Of one channel: what stays of the old state after h seconds, and its share in the mean over them. */
double hb_actuator_keep(double lag, double h);
double hb_actuator_share(double lag, double h);

/* The longest and the shortest delay of a channel. */
double hb_actuators_longest_delay(const hb_actuators *a);
double hb_actuators_shortest_delay(const hb_actuators *a);

#endif
