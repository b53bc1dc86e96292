/* Defaults and checks of a controller's settings; those of estimator, planner and cost are checked where they are used.
 */
#include "controller/controller_settings.h"

#include <errno.h>
#include <math.h>

enum {
    MAX_DELAY = 100
}; /* periods: fewer than HB_COMMAND_HISTORY, since requests may come faster than the model's period */

hb_controller_settings hb_controller_defaults(void)
{
    return (hb_controller_settings){
        .estimator = hb_estimator_defaults,
        .planner = hb_planner_defaults,
        .budget = 0.01,
        .stale_after = 0.1,
        .fallback_after = 0.2,
        .safe_after = 0.4,
        .min_period = 0.1,
        .max_period = 3,
        .adapt = true,
    };
}

int hb_controller_check(const hb_model *m, const hb_controller_settings *s, hb_error *err)
{
    const struct {
        const char *key;
        double value;
        bool positive; /* or else zero is allowed */
    } duration[] = {
        {"budget", s->budget, true},
        {"stale_after", s->stale_after, true},
        {"fallback_after", s->fallback_after, true},
        {"safe_after", s->safe_after, false},
        {"min_period", s->min_period, true},
        {"max_period", s->max_period, true},
        {"delay", s->delay, false},
    };

    for (size_t i = 0; i < sizeof duration / sizeof *duration; i++)
        if (!(duration[i].positive ? duration[i].value > 0 : duration[i].value >= 0) || !isfinite(duration[i].value))
            return hb_fail(err, EINVAL, "controller.%s: %g is not %s", duration[i].key, duration[i].value,
                           duration[i].positive ? "above 0" : "0 or more");
    if (s->delay > MAX_DELAY * m->dt)
        return hb_fail(err, EINVAL, "controller.delay: %g is more than %d periods of %g s", s->delay, (int)MAX_DELAY,
                       m->dt);
    if (s->min_period > s->max_period)
        return hb_fail(err, EINVAL, "controller.min_period: %g is above max_period, %g", s->min_period, s->max_period);
    if (s->stale_after > s->fallback_after)
        return hb_fail(err, EINVAL, "controller.stale_after: %g is above fallback_after, %g", s->stale_after,
                       s->fallback_after);
    if (s->ntarget != 0 && (s->ntarget != m->nx || m->nx > HB_MAX_TARGET))
        return hb_fail(err, EINVAL, "controller.target has %d states, the model %d (at most %d can be configured)",
                       s->ntarget, m->nx, (int)HB_MAX_TARGET);
    for (int i = 0; i < s->ntarget; i++)
        if (!isfinite(s->target[i]))
            return hb_fail(err, EINVAL, "controller.target is not finite");
    if (s->nsafe_action != 0 && s->nsafe_action != m->nu)
        return hb_fail(err, EINVAL, "controller.safe_action has %d controls, the model %d", s->nsafe_action, m->nu);
    for (int i = 0; i < s->nsafe_action; i++)
        if (!(s->safe_action[i] >= m->control_min[i] && s->safe_action[i] <= m->control_max[i]))
            return hb_fail(err, EINVAL, "controller.safe_action[%d]: %g is not within the bounds %g..%g of %s", i,
                           s->safe_action[i], m->control_min[i], m->control_max[i], m->control_name[i]);
    return 0;
}

bool hb_controller_same_estimation(const hb_controller_settings *a, const hb_controller_settings *b)
{
    const hb_estimator_settings *p = &a->estimator, *q = &b->estimator;

    return p->window == q->window && p->warmup == q->warmup && p->solve_every == q->solve_every &&
           p->method == q->method && p->ridge == q->ridge && p->forgetting == q->forgetting &&
           p->relinearise == q->relinearise && a->min_period == b->min_period && a->max_period == b->max_period;
}
