#include "selftest.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "realtime.h"

static double monotonic(void *context)
{
    (void)context;
    return hb_now();
}

static int check(const hb_model *m, const hb_command *c, hb_error *err)
{
    if (c->status == HB_STATUS_REFUSED)
        return hb_fail(err, EINVAL, "self-test: the first plan was refused: %s", hb_reason_help[c->reason]);
    for (int i = 0; i < m->nu; i++)
        if (!isfinite(c->action[i]) || c->action[i] < m->control_min[i] || c->action[i] > m->control_max[i])
            return hb_fail(err, EDOM, "self-test: control %s of the first plan is %g, outside %g..%g: is the model sound?",
                           m->control_name[i], c->action[i], m->control_min[i], m->control_max[i]);
    return 0;
}

int hb_selftest(const hb_model *m, const hb_controller_settings *s, hb_pool *pool, double *ret_seconds, hb_error *err)
{
    const hb_clock clock = {.now = monotonic};
    hb_controller_settings *mine = malloc(sizeof *mine);
    hb_controller *c = NULL;
    int r = -ENOMEM;

    if (!mine)
        return hb_fail(err, ENOMEM, "out of memory");
    /* it learns nothing, so a window of one will do */
    *mine = *s;
    mine->estimator.window = mine->estimator.warmup = 1;
    r = hb_controller_new(&c, m, mine, pool, NULL, NULL, err);
    if (!r) {
        const hb_request request = {.x = m->state_mean, .nx = m->nx, .target = s->ntarget ? NULL : m->state_mean,
                                    .ntargets = s->ntarget ? 0 : 1, .received = hb_now()};
        r = check(m, hb_controller_command(c, &request, &clock), err);
        *ret_seconds = hb_now() - request.received;
    }
    hb_controller_free(c);
    free(mine);
    return r;
}
