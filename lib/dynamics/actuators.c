/* Delay and lag of actuators; the formulas: actuators.h. */
#include "dynamics/actuators.h"

#include <math.h>

/* a lag this short against the interval is none: exp underflows, and the division by it would too */
static const double negligible = 1e-3;

double hb_actuator_keep(double lag, double h)
{
    return lag > negligible * h ? exp(-h / lag) : 0;
}

double hb_actuator_share(double lag, double h)
{
    return lag > negligible * h ? -expm1(-h / lag) * lag / h : 0;
}

double hb_actuators_longest_delay(const hb_actuators *a)
{
    double longest = 0;

    for (int i = 0; i < a->nu; i++)
        longest = fmax(longest, a->delay[i]);
    return longest;
}

double hb_actuators_shortest_delay(const hb_actuators *a)
{
    double shortest = a->nu > 0 ? a->delay[0] : 0;

    for (int i = 1; i < a->nu; i++)
        shortest = fmin(shortest, a->delay[i]);
    return shortest;
}
