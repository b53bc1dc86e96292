/* The estimator's settings: rows, defaults and checks. */
#include <errno.h>

#include "base/batch.h"
#include "estimate/estimator.h"

/* type, key, member, default, least, most, ends, live, help: base/setting_rows.h */
#define ROWS(X)                                                                                                        \
    X(REAL, "estimator.window", window, 10, 0, 1000, HB_ABOVE, HB_FIXED,                                               \
      "Seconds of telemetry that are kept, over a restart too, and after which what was seen counts for 1/e; rounded " \
      "to the model's periods.")                                                                                       \
    X(REAL, "estimator.warmup", warmup, -1, -1, 1000, HB_CLOSED, HB_FIXED,                                             \
      "Seconds of telemetry before the coefficients are used; -1: 0 when the model has a prior, else 1.")              \
    X(INT, "estimator.solve_every", solve_every, 1, 1, 100000, HB_CLOSED, HB_FIXED,                                    \
      "Solve for all coefficients once in so many transitions; those of different states take turns.")                 \
    X(BOOL, "estimator.posterior", posterior, true, 0, 1, HB_CLOSED, HB_FIXED,                                         \
      "With least squares: use the prior, learn the noise, and judge each sample by all that is believed. false: use " \
      "the window alone.")                                                                                             \
    X(REAL, "estimator.ridge", ridge, -1, -1, 1e6, HB_CLOSED, HB_FIXED,                                                \
      "Ridge of the least squares when the model has no prior; -1: the model's.")                                      \
    X(REAL, "estimator.forgetting", forgetting, 1, 0.01, 1, HB_CLOSED, HB_FIXED,                                       \
      "Without posterior: weight of a transition relative to the next newer one.")                                     \
    X(BOOL, "estimator.detect_changes", detect_changes, true, 0, 1, HB_CLOSED, HB_LIVE,                                \
      "Look for changes of dynamics: a payload was picked up or dropped, a rotor broke.")                              \
    X(REAL, "estimator.change_interval", change_interval, 600, 0, 1e9, HB_ABOVE, HB_LIVE,                              \
      "Seconds between changes of dynamics, in the mean; a longer one gives fewer alarms.")                            \
    X(REAL, "estimator.outlier_share", outlier_share, 0.01, 0, 0.5, HB_ABOVE, HB_LIVE,                                 \
      "Share of samples that nothing explains: glitches of sensors, collisions of messages.")                          \
    X(REAL, "estimator.span_threshold", span_threshold, 0.5, 0, 1, HB_ABOVE, HB_LIVE,                                  \
      "Probability that no trained vehicle behaves so, above which the status is out-of-span.")                        \
    X(REAL, "estimator.plausible", plausible, 9, 0, 1e6, HB_ABOVE, HB_LIVE,                                            \
      "Squared distance of the coefficients from the trained population, per coefficient, above which the status is "  \
      "out-of-span too.")

#define ACTUATOR_ROWS(X)                                                                                               \
    X(REAL, "actuators.lag", lag, -1, -1, 1, HB_CLOSED, HB_FIXED,                                                      \
      "Time constant of all actuators, in seconds; -1: the model's, or found in flight.")                              \
    X(REAL, "actuators.delay", delay, -1, -1, 1, HB_CLOSED, HB_FIXED,                                                  \
      "Seconds from the arrival of a command at the vehicle until it begins to act; -1: the model's, or found in "     \
      "flight.")                                                                                                       \
    X(BOOL, "actuators.identify", identify, true, 0, 1, HB_CLOSED, HB_FIXED,                                           \
      "Find lag and delay in flight when they are not given.")                                                         \
    X(REAL, "actuators.max_lag", max_lag, 0.08, 0, 1, HB_CLOSED, HB_FIXED,                                             \
      "The longest lag to look for, in seconds; 0: the model's lag is taken as it is.")                                \
    X(REAL, "actuators.max_delay", max_delay, 0.05, 0, 1, HB_CLOSED, HB_FIXED,                                         \
      "The longest delay to look for, in seconds; 0: the model's delay is taken as it is.")

const hb_estimator_settings hb_estimator_defaults = {
    .method = HB_LEAST_SQUARES, .actuators = {ACTUATOR_ROWS(HB_SETTING_DEFAULT)}, ROWS(HB_SETTING_DEFAULT)};

#define STRUCT hb_estimator_settings
static const hb_setting row[] = {ROWS(HB_SETTING_ROW)};
#undef STRUCT

#define STRUCT hb_actuator_settings
static const hb_setting actuator_row[] = {ACTUATOR_ROWS(HB_SETTING_ROW)};
#undef STRUCT

hb_setting_rows hb_actuator_rows(void)
{
    return (hb_setting_rows){actuator_row, (int)(sizeof actuator_row / sizeof *actuator_row)};
}

hb_setting_rows hb_estimator_rows(void)
{
    return (hb_setting_rows){row, (int)(sizeof row / sizeof *row)};
}

double hb_estimator_memory(const hb_model *m, const hb_estimator_settings *s)
{
    /* the window, and the evaluated rows of its transitions */
    return (double)hb_estimator_memory_size(m, s) + s->window / m->dt * m->nx * (m->nb + 1.0) * sizeof(double);
}

/* Of single controls: -1, or within 0..1. */
static int check_channels(const hb_model *m, const char *key, const double *value, int n, hb_error *err)
{
    if (n != 0 && n != m->nu)
        return hb_fail(err, EINVAL, "actuators.%s: %d numbers where the model has %d controls", key, n, m->nu);
    for (int i = 0; i < n; i++)
        if (!(value[i] == -1 || (value[i] >= 0 && value[i] <= 1)))
            return hb_fail(err, EINVAL, "actuators.%s: %s = %g is outside 0..1, and not -1", key, m->control_name[i],
                           value[i]);
    return 0;
}

int hb_estimator_check(const hb_model *m, const hb_estimator_settings *s, hb_error *err)
{
    int r = hb_setting_rows_check(hb_estimator_rows(), s, err);

    if (!r && s->window > HB_ESTIMATOR_LARGEST * m->dt)
        r = hb_fail(err, EINVAL, "estimator.window: %g s is more than %d of the model's periods of %g s", s->window,
                    (int)HB_ESTIMATOR_LARGEST, m->dt);
    if (!r && s->warmup > s->window)
        r = hb_fail(err, EINVAL,
                    "estimator.warmup: %g s is above estimator.window (%g s): the coefficients would never be used",
                    s->warmup, s->window);
    if (!r && m->nu > HB_MAX_CONTROLS)
        r = hb_fail(err, EINVAL, "model: %d controls, at most %d are supported", m->nu, (int)HB_MAX_CONTROLS);
    if (!r)
        r = hb_setting_rows_check(hb_actuator_rows(), &s->actuators, err);
    if (!r)
        r = check_channels(m, "lags", s->actuators.lags, s->actuators.nlags, err);
    if (!r)
        r = check_channels(m, "delays", s->actuators.delays, s->actuators.ndelays, err);
    if (!r && hb_model_allows(m, s->method, err))
        r = hb_fail_in(err, "estimator.method", -EINVAL);
    return r;
}
