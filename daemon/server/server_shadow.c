/* The shadow on its way to become the model in use.
 *
 *     a client asks --> main thread: self-test from the state of now --> order
 *                                                                          |
 *     reply <-- controllers, models and settings change places, between two requests
 *
 * The current plan and the commands under way go over to the new one (hb_controller_take_over). */
#include <errno.h>
#include <string.h>

#include "server/server_internal.h"
#include "server/wake.h"

static const double promote_within = 1; /* seconds in which the shadow must have taken in all events */

int hb_server_start_promotion(hb_server *s, const hb_envelope *e, uint64_t id, hb_error *err)
{
    const hb_shadow_view *view = hb_shadow_look(s->shadow.thread, s->model->state_std);

    if (!view)
        return hb_fail(err, ENOENT, "there is no shadow: shadow.model names one, from the next start on");
    if (view->health.status == HB_ESTIMATE_WARMING_UP &&
        hb_controller_health(s->controller)->status != HB_ESTIMATE_WARMING_UP)
        return hb_fail(err, EAGAIN, "the shadow is warming up (%d samples so far): ask again when it is not",
                       view->health.samples);
    int r = hb_server_call(&s->control.promoter, e, id, "promotion", err);
    if (r)
        return r;
    memcpy(s->shadow.trial, s->telemetry.state, (size_t)s->model->nx * sizeof *s->shadow.trial);
    s->shadow.tried = s->telemetry.sampled;
    hb_wake(s->orders.promote_fd);
    return 0;
}

const double *hb_server_trial(const hb_server *s)
{
    return s->shadow.tried ? s->shadow.trial : NULL;
}

int hb_server_promote_fd(const hb_server *s)
{
    return s->orders.promote_fd;
}

/* While the worker is held and the shadow claimed. */
static void exchange(hb_server *s)
{
    const hb_model *model = s->model;
    hb_controller *before = s->controller;
    char path[HB_CONFIG_PATH_SIZE];

    hb_controller_take_over(hb_shadow_controller(s->shadow.thread), before);
    s->controller = hb_shadow_controller(s->shadow.thread);
    s->model = s->shadow.model;
    hb_shadow_set(s->shadow.thread, model, before);
    s->shadow.model = model;

    s->retuned = s->settings;
    s->settings = s->shadow.settings;
    s->shadow.settings = s->retuned;
    memcpy(path, s->model_path, sizeof path);
    memcpy(s->model_path, s->shadow.path, sizeof s->model_path);
    memcpy(s->shadow.path, path, sizeof s->shadow.path);

    hb_server_take_settings(s);
    hb_worker_use(s->actions.worker, s->controller, s->model);
    hb_wire_exchange(s->wire);
    s->card.model = s->model;
    s->status.estimate = hb_controller_health(s->controller)->status;
    s->status.changes = hb_controller_health(s->controller)->changes;
    hb_server_forget_words(s);
}

int hb_server_promote(hb_server *s, hb_error *err)
{
    double now = hb_server_now(s);

    if (s->shadow.promote_by == 0)
        s->shadow.promote_by = now + promote_within;
    if (!hb_shadow_claim_idle(s->shadow.thread)) {
        if (now < s->shadow.promote_by)
            return -EAGAIN;
        s->shadow.promote_by = 0;
        return hb_fail(err, EBUSY, "the shadow cannot keep up with the telemetry: its model is too slow for it");
    }
    s->shadow.promote_by = 0;
    hb_worker_hold(s->actions.worker);
    exchange(s);
    hb_worker_release(s->actions.worker);
    hb_shadow_release(s->shadow.thread);
    s->status.counters.promotions++;
    hb_server_record_change(s, &(hb_recorded_change){.promotion = true}, NULL);
    return 0;
}

void hb_server_promoted(hb_server *s, const char *error)
{
    hb_server_answer(s, &s->control.promoter, &(hb_control_reply){.error = error});
}

void hb_server_report_shadow(hb_server *s, hb_shadow_report *ret)
{
    const double *std = s->model->state_std;

    if (s->shadow.thread)
        *ret = (hb_shadow_report){.path = s->shadow.path,
                                  .model_hash = s->shadow.model->hash,
                                  .view = hb_shadow_look(s->shadow.thread, std),
                                  .ncoefficients = hb_model_ncoefficients(s->shadow.model),
                                  .error_in_use = hb_controller_error(s->controller, std)};
}
