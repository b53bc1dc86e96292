/* The controller's settings: rows, defaults and checks; those of estimator, planner and cost are asked for theirs. */
#include "controller/controller_settings.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum {
    MAX_DELAY = 100
}; /* periods: fewer than HB_COMMAND_HISTORY, since requests may come faster than the model's period */

/* type, key, member, default, least, most, ends, live, help: base/setting_rows.h */
#define ROWS(X)                                                                                                        \
    X(REAL, "latency.budget", budget, 0.01, 1e-5, 60, HB_CLOSED, HB_LIVE,                                              \
      "Longest time from the receipt of a request to its reply, in seconds.")                                          \
    X(REAL, "latency.delay", delay, 0, 0, 10, HB_CLOSED, HB_LIVE,                                                      \
      "Seconds from the state of a request to the moment at which its action applies; at most 100 of the model's "     \
      "periods.")                                                                                                      \
    X(REAL, "latency.stale_after", stale_after, 0.1, 0, 3600, HB_ABOVE, HB_LIVE,                                       \
      "Seconds without telemetry after which replies say stale; at most latency.fallback_after.")                      \
    X(REAL, "latency.fallback_after", fallback_after, 0.2, 0, 3600, HB_ABOVE, HB_LIVE,                                 \
      "Seconds without telemetry after which replies fall back to the last plan.")                                     \
    X(REAL, "latency.safe_after", safe_after, 0.4, 0, 3600, HB_CLOSED, HB_LIVE,                                        \
      "Seconds that the last plan is flown before the safe action.")                                                   \
    X(REAL, "telemetry.min_period", min_period, 0.6, 0, 1, HB_ABOVE, HB_FIXED,                                         \
      "Shortest transition, in units of the model's period. Samples that come faster are joined to about one period.") \
    X(REAL, "telemetry.max_period", max_period, 3, 1, 1000, HB_CLOSED, HB_FIXED,                                       \
      "Longest time between two samples that are joined, in the same unit.")                                           \
    X(BOOL, "adapt", adapt, true, 0, 1, HB_CLOSED, HB_LIVE,                                                            \
      "Estimate coefficients from telemetry. false: use the average model throughout, for comparison.")

#define STRUCT hb_controller_settings
static const hb_setting row[] = {ROWS(HB_SETTING_ROW)};
#undef STRUCT

hb_setting_rows hb_controller_rows(void)
{
    return (hb_setting_rows){row, (int)(sizeof row / sizeof *row)};
}

hb_controller_settings hb_controller_defaults(void)
{
    return (hb_controller_settings){.estimator = hb_estimator_defaults,
                                    .planner = hb_planner_defaults,
                                    .cost = {.limits = hb_limits_defaults},
                                    ROWS(HB_SETTING_DEFAULT)};
}

static int check_vectors(const hb_model *m, const hb_controller_settings *s, hb_error *err)
{
    if (s->ntarget != 0 && (s->ntarget != m->nx || m->nx > HB_MAX_VEHICLE_STATES))
        return hb_fail(err, EINVAL, "target: %d states where the model has %d (at most %d can be configured)",
                       s->ntarget, m->nx, (int)HB_MAX_VEHICLE_STATES);
    for (int i = 0; i < s->ntarget; i++)
        if (!isfinite(s->target[i]))
            return hb_fail(err, EINVAL, "target: %s is not finite", m->state_name[i]);
    if (s->ntarget != 0 && s->cost.limits.targets == HB_TARGETS_REFUSE && !hb_limits_allow(&s->cost.limits, s->target))
        return hb_fail(err, EINVAL, "target: outside the limits (limits.rules); limits.targets: clip would move it");
    if (s->nsafe_action != 0 && s->nsafe_action != m->nu)
        return hb_fail(err, EINVAL, "safe_action: %d controls where the model has %d", s->nsafe_action, m->nu);
    for (int i = 0; i < s->nsafe_action; i++)
        if (!(s->safe_action[i] >= m->control_min[i] && s->safe_action[i] <= m->control_max[i]))
            return hb_fail(err, EINVAL, "safe_action: %s = %g is outside %g..%g", m->control_name[i], s->safe_action[i],
                           m->control_min[i], m->control_max[i]);
    return 0;
}

int hb_controller_check(const hb_model *m, const hb_controller_settings *s, hb_error *err)
{
    int r = hb_setting_rows_check(hb_controller_rows(), s, err);

    if (r)
        return r;
    if (m->nu > HB_MAX_CONTROLS)
        return hb_fail(err, EINVAL, "model: %d controls, at most %d are supported", m->nu, (int)HB_MAX_CONTROLS);
    if (s->delay > MAX_DELAY * m->dt)
        return hb_fail(err, EINVAL, "latency.delay: %g is more than %d of the model's periods of %g s", s->delay,
                       (int)MAX_DELAY, m->dt);
    if (s->min_period > s->max_period)
        return hb_fail(err, EINVAL, "telemetry.min_period: %g is above telemetry.max_period (%g)", s->min_period,
                       s->max_period);
    if (s->fallback_after < s->stale_after)
        return hb_fail(err, EINVAL, "latency.fallback_after: %g is below latency.stale_after (%g)", s->fallback_after,
                       s->stale_after);
    if ((r = check_vectors(m, s, err)) || (r = hb_estimator_check(m, &s->estimator, err)))
        return r;
    if (m->nu > 0 && ((r = hb_planner_check(m, &s->planner, err)) || (r = hb_cost_check(&s->cost, m->nx, m->nu, err))))
        return r;
    return 0;
}

static bool same(const double *a, int na, const double *b, int nb)
{
    return na == nb && memcmp(a, b, (size_t)na * sizeof *a) == 0;
}

bool hb_controller_same_estimation(const hb_controller_settings *a, const hb_controller_settings *b)
{
    const hb_actuator_settings *p = &a->estimator.actuators, *q = &b->estimator.actuators;

    return same(p->lags, p->nlags, q->lags, q->nlags) && same(p->delays, p->ndelays, q->delays, q->ndelays) &&
           hb_setting_rows_same_fixed(hb_controller_rows(), a, b) &&
           hb_setting_rows_same_fixed(hb_estimator_rows(), &a->estimator, &b->estimator) &&
           hb_setting_rows_same_fixed(hb_actuator_rows(), &a->estimator.actuators, &b->estimator.actuators) &&
           a->estimator.method == b->estimator.method;
}
