#include "sim/gains.h"

const char *const hb_gains_name[HB_NGAINS] = {"position", "velocity", "integral", "attitude", "yaw",
                                              "rates",    "spin",     "filter",   "filter2",  "adaptation"};

/* for hovering with long lags and delays, which those below do not bear: of a search over lag, delay, noise, an offset
 * centre of mass, a circle, and the weather `real` */
const hb_gains hb_gains_pid_hover[2] = {
    {.position = 3.8, .velocity = 7.9, .integral = 2, .attitude = 6.9, .yaw = 2, .rates = 28.8, .spin = 88},
    {.position = 1.5, .velocity = 3, .integral = 1, .attitude = 6, .yaw = 2},
};

const hb_gains hb_gains_pid[2] = {
    {.position = 8.6, .velocity = 12, .integral = 4.8, .attitude = 17.8, .yaw = 1.9, .rates = 106, .spin = 239},
    {.position = 2.3, .velocity = 6.6, .integral = 2.1, .attitude = 5.7, .yaw = 1.7},
};

const hb_gains hb_gains_indi[2] = {
    {.position = 15.1, .velocity = 6.3, .attitude = 19, .yaw = 2.8, .rates = 39, .filter = 267, .adaptation = 0.56},
    {.position = 14.7, .velocity = 4.8, .attitude = 12, .yaw = 0.85, .filter = 67, .adaptation = 0.081},
};

const hb_gains hb_gains_l1[2] = {
    {.position = 20,
     .velocity = 8.3,
     .attitude = 11.8,
     .yaw = 1.2,
     .rates = 42.8,
     .filter = 12.9,
     .filter2 = 40.5,
     .adaptation = 14.8},
    {.position = 15.6, .velocity = 4.8, .attitude = 12.7, .yaw = 1.6, .filter = 7.3, .adaptation = 6.4},
};

hb_gains hb_gains_of(const hb_gains table[2], const hb_plant_type *plant, const double *factor)
{
    hb_gains gains = table[plant == &hb_plant_multirotor];
    double *value[HB_NGAINS] = {&gains.position, &gains.velocity, &gains.integral, &gains.attitude, &gains.yaw,
                                &gains.rates,    &gains.spin,     &gains.filter,   &gains.filter2,  &gains.adaptation};

    for (int i = 0; i < HB_NGAINS && factor; i++)
        *value[i] *= factor[i];
    return gains;
}
