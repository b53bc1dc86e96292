#include "sim/surroundings.h"

#include <math.h>
#include <string.h>

static const double gravity = 9.81;

/* MIL-F-8785C near the ground, at a height of 3 m (9.84 feet): scale lengths of 22.7 m along and across and 3 m upward,
 * deviations of 0.196 and 0.1 of the wind at 6 m */
static const double scale_along = 22.7, scale_up = 3, share_along = 0.196, share_up = 0.1;
/* turbulence is carried past at the wind's speed, and not slower than this, m/s */
static const double least_speed = 1;

/* string: natural frequency (rad/s) of a load on it, far above a pendulum's, and damping */
static const double stiffness = 80, damping = 0.3;

void hb_surroundings_start(hb_surroundings *s, const double *parameter, const double *position, const double *velocity,
                           hb_draws *d)
{
    memset(s, 0, sizeof *s);
    if (parameter[HB_DRYDEN] > 0)
        for (int i = 0; i < 5; i++)
            s->turbulence[i] = hb_draw_normal(d) * (i == 2 || i == 4 ? M_SQRT1_2 : 1);
    memcpy(s->load, position, sizeof s->load);
    memcpy(s->load_velocity, velocity, sizeof s->load_velocity);
    /* stretched by its own weight */
    s->load[2] -= parameter[HB_SWING_LENGTH] + gravity / (stiffness * stiffness);
}

/* Dryden's spectra as filters of white noise: of first order along the wind, (1 + sqrt(3) T s) / (1 + T s)^2 across it
 * and upward, whose output has twice the variance of its first stage. */
static void turbulence(hb_surroundings *s, double level, double h, hb_draws *d, double air[3])
{
    double speed = fmax(hypot(air[0], air[1]), least_speed), *x = s->turbulence;
    double ahead[2] = {1, 0}, length = hypot(air[0], air[1]);
    double keep = exp(-h * speed / scale_along), keep_up = exp(-h * speed / scale_up);

    if (length > 0) {
        ahead[0] = air[0] / length;
        ahead[1] = air[1] / length;
    }
    x[0] = keep * x[0] + sqrt(1 - keep * keep) * hb_draw_normal(d);
    x[2] = keep * x[2] + (1 - keep) * x[1];
    x[1] = keep * x[1] + sqrt(1 - keep * keep) * hb_draw_normal(d);
    x[4] = keep_up * x[4] + (1 - keep_up) * x[3];
    x[3] = keep_up * x[3] + sqrt(1 - keep_up * keep_up) * hb_draw_normal(d);
    double along = share_along * level * x[0];
    double across = share_along * level * M_SQRT1_2 * (sqrt(3) * x[1] + (1 - sqrt(3)) * x[2]);
    air[0] += along * ahead[0] - across * ahead[1];
    air[1] += along * ahead[1] + across * ahead[0];
    air[2] += share_up * level * M_SQRT1_2 * (sqrt(3) * x[3] + (1 - sqrt(3)) * x[4]);
}

/* Moves the load; push is what the string does to a vehicle of mass 1 with a load of mass `mass`. */
static void swing(hb_surroundings *s, double mass, double length, double h, const double *position,
                  const double *velocity, double push[3])
{
    double along[3], distance = 0, speed = 0;

    for (int i = 0; i < 3; i++) {
        along[i] = s->load[i] - position[i];
        distance = hypot(distance, along[i]);
    }
    for (int i = 0; i < 3; i++) {
        along[i] /= fmax(distance, 1e-9);
        speed += along[i] * (s->load_velocity[i] - velocity[i]);
    }
    double stretch = distance - length;
    double pull = stretch > 0 ? fmax(stiffness * stiffness * stretch + 2 * damping * stiffness * speed, 0) : 0;
    for (int i = 0; i < 3; i++) {
        push[i] += mass * pull * along[i];
        s->load_velocity[i] += h * (-pull * along[i] - (i == 2 ? gravity : 0));
        s->load[i] += h * s->load_velocity[i];
    }
}

void hb_surroundings_step(hb_surroundings *s, const double *parameter, double time, double h, const double *position,
                          const double *velocity, hb_draws *d, double air[3], double push[3])
{
    double into = (time - parameter[HB_PULSE_TIME]) / parameter[HB_PULSE_LENGTH];

    for (int i = 0; i < 3; i++) {
        air[i] *= 1 + parameter[HB_SWELL] * sin(time);
        push[i] = gravity * parameter[HB_FORCE_X + i];
    }
    if (parameter[HB_DRYDEN] > 0)
        turbulence(s, parameter[HB_DRYDEN], h, d, air);
    if (into > 0 && into < 1)
        for (int i = 0; i < 2; i++)
            air[i] += parameter[HB_PULSE_X + i] * (1 - cos(2 * M_PI * into)) / 2;
    if (parameter[HB_SWING] > 0)
        swing(s, parameter[HB_SWING], parameter[HB_SWING_LENGTH], h, position, velocity, push);
}
