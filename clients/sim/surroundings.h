/* What acts on a flying body from outside: wind that changes, a load that swings below it, a constant force.
 *
 *     air    constant wind (1 + swell sin t) + turbulence (Dryden's) + one gust (1 - cos)
 *     load   a point on a string from the centre of mass; the string pulls and does not push
 *
 * Forces and loads are relative to the vehicle's nominal weight, so that the same numbers suit a vehicle of 27 g and
 * one of 3 kg. Plants have the parameters below at the end of their tables. */
#ifndef HB_SURROUNDINGS_H
#define HB_SURROUNDINGS_H

#include "sim/plant.h"

enum {
    HB_SWELL,
    HB_DRYDEN,
    HB_PULSE_X,
    HB_PULSE_Y,
    HB_PULSE_TIME,
    HB_PULSE_LENGTH,
    HB_SWING,
    HB_SWING_LENGTH,
    HB_FORCE_X,
    HB_FORCE_Y,
    HB_FORCE_Z,
    HB_NSURROUNDINGS
};

/* Rows of a plant's table, from place `at` on. */
#define HB_SURROUNDINGS_AT(at)                                                                                         \
    [(at) + HB_SWELL] = {"swell", "1", "share by which the constant wind rises and falls, in 6.28 s", 0, 0, 0, 0,      \
                         1,       true},                                                                               \
            [(at) + HB_DRYDEN] = {"dryden", "m/s", "turbulence near the ground (Dryden's) of that wind at 6 m height", \
                                  0,        0,     0,                                                                  \
                                  0,        30,    true},                                                              \
            [(at) + HB_PULSE_X] = {"pulse_x", "m/s", "peak of a single gust (1 - cos)", 0, 0, 0, -20, 20, true},       \
            [(at) + HB_PULSE_Y] = {"pulse_y", "m/s", "the same along y", 0, 0, 0, -20, 20, true},                      \
            [(at) + HB_PULSE_TIME] = {"pulse_time", "s", "when it begins", 3, 3, 3, 0, 1e6, true},                     \
            [(at) + HB_PULSE_LENGTH] = {"pulse_length", "s", "how long it lasts", 1, 1, 1, 0.01, 1e6, true},           \
            [(at) +                                                                                                    \
                HB_SWING] = {"swing", "1", "mass of a load on a string, of the nominal mass", 0, 0, 0, 0, 1, false},   \
            [(at) + HB_SWING_LENGTH] = {"swing_length", "m", "of the string", 0.5, 0.5, 0.5, 0.05, 10, false},         \
            [(at) + HB_FORCE_X] = {"force_x", "1", "constant force, of the nominal weight", 0, 0, 0, -1, 1, true},     \
            [(at) + HB_FORCE_Y] = {"force_y", "1", "the same along y", 0, 0, 0, -1, 1, true},                          \
            [(at) + HB_FORCE_Z] = {"force_z", "1", "the same upward", 0, 0, 0, -1, 1, true}

typedef struct hb_surroundings {
    double turbulence[5];             /* states of Dryden's filters: along, across (two), vertical (two) */
    double load[3], load_velocity[3]; /* m, m/s, world */
} hb_surroundings;

/* parameter: those above. The load hangs straight down, at the vehicle's velocity. */
void hb_surroundings_start(hb_surroundings *s, const double *parameter, const double *position, const double *velocity,
                           hb_draws *d);
/* h seconds on, at `time` since the start: `air` (m/s) becomes the constant wind with all that is added to it, `push`
 * what force and load do, in m/s^2 of a vehicle of nominal mass. */
void hb_surroundings_step(hb_surroundings *s, const double *parameter, double time, double h, const double *position,
                          const double *velocity, hb_draws *d, double air[3], double push[3]);

#endif
