#include "process/selftest.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/monotonic.h"

static const double most_seconds = 0.1; /* a start does not take longer for a planner that is given a minute */

static double monotonic(void *context)
{
    (void)context;
    return hb_now();
}

static int check(const hb_model *m, const hb_command *c, hb_error *err)
{
    if (c->status == HB_STATUS_REFUSED)
        return hb_fail(err, EINVAL, "self-test: the first plan was refused: %s", hb_reason_help[c->reason]);
    if (c->status == HB_STATUS_FALLBACK && c->reason == HB_REASON_NOT_FINITE)
        return hb_fail(err, EDOM, "self-test: no plan has finite states: is the model sound?");
    for (int i = 0; i < m->nu; i++)
        if (!isfinite(c->action[i]) || c->action[i] < m->control_min[i] || c->action[i] > m->control_max[i])
            return hb_fail(err, EDOM,
                           "self-test: control %s of the first plan is %g, outside %g..%g: is the model sound?",
                           m->control_name[i], c->action[i], m->control_min[i], m->control_max[i]);
    return 0;
}

/* The mean state of the training data; the mean of attitudes is none, so it is brought to length one. */
static void typical_state(const hb_model *m, double *x)
{
    int q = hb_model_quaternion(m);
    double norm = 0;

    memcpy(x, m->state_mean, (size_t)m->nx * sizeof *x);
    if (q < 0)
        return;
    for (int i = q; i < q + 4; i++)
        norm += x[i] * x[i];
    for (int i = q; i < q + 4; i++)
        x[i] = norm > 1e-6 ? x[i] / sqrt(norm) : i == q + 3;
}

static int plan(hb_controller *c, const hb_model *m, const double *x, hb_error *err)
{
    return check(m, hb_controller_dry_run(c, x, most_seconds, &(hb_clock){.now = monotonic}), err);
}

/* Of a model without controls, the next state. */
static int predict(hb_controller *c, const hb_model *m, const double *x, hb_error *err)
{
    double states[2 * HB_MAX_VEHICLE_STATES];
    int r = hb_controller_predict(c, x, NULL, 1, m->dt, states, err);

    for (int i = 0; i < m->nx && !r; i++)
        if (!isfinite(states[m->nx + i]))
            return hb_fail(err, EDOM, "self-test: state %s of the first prediction is %g: is the model sound?",
                           m->state_name[i], states[m->nx + i]);
    return r;
}

int hb_selftest_of(hb_controller *c, const hb_model *m, const double *x, double *ret_seconds, hb_error *err)
{
    double typical[HB_MAX_VEHICLE_STATES], begun = hb_now();

    if (!x)
        typical_state(m, typical);
    int r = (m->nu > 0 ? plan : predict)(c, m, x ? x : typical, err);
    *ret_seconds = hb_now() - begun;
    return r;
}

int hb_selftest(const hb_model *m, const hb_controller_settings *s, hb_pool *pool, double *ret_seconds, hb_error *err)
{
    hb_controller_settings *mine = malloc(sizeof *mine);
    hb_controller *c = NULL;
    int r = -ENOMEM;

    if (!mine)
        return hb_fail(err, ENOMEM, "out of memory");
    /* it learns nothing, so a window of one will do */
    *mine = *s;
    mine->estimator.window = mine->estimator.warmup = m->dt;
    r = hb_controller_new(&c, m, mine, pool, NULL, NULL, err);
    if (!r)
        r = hb_selftest_of(c, m, NULL, ret_seconds, err);
    hb_controller_free(c);
    free(mine);
    return r;
}
