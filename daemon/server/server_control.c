/* The control socket: what operators and tools ask for. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/server_internal.h"
#include "server/wake.h"

static void reply(hb_server *s, const hb_envelope *e, const hb_control_reply *r)
{
    const void *data;
    size_t n = hb_wire_write_control(s->wire, r, &data);

    s->status.counters.control_errors += r->error != NULL;
    hb_server_send(s, HB_CHANNEL_CONTROL, e, data, n);
}

/* ---- changes ---- */

/* Who asks: the name of its key. */
static const char *name_of(hb_server *s, const hb_envelope *e)
{
    const char *name = s->transport.name_of ? s->transport.name_of(s->transport.context, e->key) : NULL;

    return name ? name : "a client without a key";
}

/* A term as the status names it, "distance x y z"; NULL: the limits. */
static void name_term(const hb_model *m, const hb_cost_term *t, char name[64])
{
    snprintf(name, 64, "%s", t ? hb_cost_kind_name[t->kind] : "limits");
    for (int i = 0; t && i < t->nindices; i++) {
        const bool controls = hb_cost_kind_table[t->kind].over == HB_COST_OVER_CONTROLS;
        size_t used = strlen(name);
        snprintf(name + used, 64 - used, " %s", (controls ? m->control_name : m->state_name)[t->index[i]]);
    }
}

void hb_server_take_settings(hb_server *s)
{
    const hb_controller_settings *set = &s->settings;

    memcpy(s->actions.safe, set->nsafe_action ? set->safe_action : s->model->control_trim,
           (size_t)s->model->nu * sizeof *s->actions.safe);
    s->last.nterms = 0; /* of a plan with other terms */
    for (int i = 0; i <= set->cost.nterms; i++)
        name_term(s->model, i < set->cost.nterms ? &set->cost.term[i] : NULL, s->last.term_name[i]);
}

static int retune_shadow(hb_server *s, const hb_controller_settings *next, hb_error *err)
{
    return s->shadow.thread ? hb_controller_retune(hb_shadow_controller(s->shadow.thread), next, err) : 0;
}

int hb_server_retune(hb_server *s, const hb_controller_settings *next, const hb_controller_settings *shadow_next,
                     hb_error *err)
{
    int r = retune_shadow(s, shadow_next, err);

    if (!r) {
        hb_worker_hold(s->actions.worker);
        s->record.prepared_before = hb_controller_prepared(s->controller);
        r = hb_controller_retune(s->controller, next, err);
        hb_worker_release(s->actions.worker);
        if (r)
            retune_shadow(s, &s->shadow.settings, NULL);
    }
    if (s->shadow.thread)
        hb_shadow_release(s->shadow.thread);
    if (r)
        return r;
    s->settings = *next;
    if (s->shadow.thread)
        s->shadow.settings = *shadow_next;
    hb_server_take_settings(s);
    return 0;
}

static int set_coefficients(hb_server *s, const hb_control_request *r, hb_error *err)
{
    if (r->model_hash != s->model->hash)
        return hb_fail(err, EINVAL, "these coefficients belong to model %016" PRIx64 ", this is %016" PRIx64,
                       r->model_hash, s->model->hash);
    int result = hb_controller_seed(s->controller, r->coefficient, err);
    if (!result)
        hb_log_line(s->log, HB_LOG_NOTICE, "coefficients were loaded on request");
    return result;
}

/* ---- what takes a while ---- */

int hb_server_call(hb_caller *caller, const hb_envelope *e, uint64_t id, const char *what, hb_error *err)
{
    if (caller->waits)
        return hb_fail(err, EBUSY, "another %s is under way: ask again", what);
    *caller = (hb_caller){.waits = true, .id = id, .envelope = *e};
    return 0;
}

void hb_server_answer(hb_server *s, hb_caller *caller, hb_control_reply *r)
{
    if (!caller->waits)
        return;
    caller->waits = false;
    r->id = caller->id;
    reply(s, &caller->envelope, r);
}

static int start_prediction(hb_server *s, const hb_envelope *e, const hb_control_request *r, hb_error *err)
{
    size_t nx = (size_t)s->model->nx, nu = (size_t)s->model->nu;
    size_t count = (size_t)r->predict.count, steps = (size_t)r->predict.steps;
    hb_prediction *p = &s->control.prediction;
    int result = hb_server_call(&s->control.predictor, e, r->id, "prediction", err);

    if (result)
        return result;
    p->count = r->predict.count;
    p->steps = r->predict.steps;
    p->dt = r->predict.dt > 0 ? r->predict.dt : s->model->dt;
    p->trajectory = p->step = 0;
    p->failed = false;
    memcpy(p->state, r->predict.state, count * nx * sizeof *p->state);
    if (nu)
        memcpy(p->control, r->predict.control, count * steps * nu * sizeof *p->control);
    return 0;
}

void hb_server_predicted(hb_server *s)
{
    const hb_prediction *p = &s->control.prediction;

    if (p->trajectory < p->count && !p->failed)
        return;
    hb_server_answer(s, &s->control.predictor,
                     &(hb_control_reply){.error = p->failed ? p->error.text : NULL,
                                         .predicted = p->failed ? NULL : p->predicted,
                                         .count = p->count,
                                         .steps = p->steps,
                                         .version = hb_controller_health(s->controller)->version});
}

/* The planning side is the worker's while it plans: the change waits for that. */
static int start_target(hb_server *s, const hb_envelope *e, const hb_control_request *r, hb_error *err)
{
    int result = hb_server_call(&s->control.targeter, e, r->id, "change of target", err);

    if (result)
        return result;
    s->target.wanted = (hb_kept_target){.n = s->model->nx, .since = s->wall.now(s->wall.context)};
    memcpy(s->target.wanted.target, r->target, (size_t)s->model->nx * sizeof *r->target);
    snprintf(s->target.wanted.by, sizeof s->target.wanted.by, "%s", name_of(s, e));
    s->target.waits = true;
    return 0;
}

static void aim(hb_controller_settings *s, const double *target, int nx)
{
    s->ntarget = nx;
    memcpy(s->target, target, (size_t)nx * sizeof *target);
}

/* The target in words: the states that are not zero. */
static void print_target(const hb_server *s, char text[256])
{
    *text = 0;
    for (int i = 0; i < s->model->nx; i++) {
        size_t used = strlen(text);
        if (s->settings.target[i] != 0)
            snprintf(text + used, 256 - used, "%s%s %g", used ? ", " : "", s->model->state_name[i],
                     s->settings.target[i]);
    }
    if (!*text)
        snprintf(text, 256, "all states 0");
}

static void log_target(hb_server *s, bool again)
{
    char text[256], day[32] = "";
    time_t since = (time_t)s->target.set.since;
    struct tm parts;
    unsigned held;

    print_target(s, text);
    if (again) {
        if (gmtime_r(&since, &parts))
            strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S UTC", &parts);
        hb_log_line(s->log, HB_LOG_NOTICE, "target taken over from before the restart: %s (set at %s by %s)", text, day,
                    s->target.set.by);
    } else if (hb_log_due(&s->limit.target, hb_server_now(s), &held)) {
        hb_log_line(s->log, HB_LOG_NOTICE, "the target was set on request by %s: %s (%u more like it before)",
                    s->target.set.by, text, held);
    }
}

/* ---- the target that a client sets ---- */

/* Whether settings have the target that the file had when the one in force was set. */
static bool is_files_target(const hb_controller_settings *c, int n, const double *target)
{
    return c->ntarget == n && memcmp(c->target, target, (size_t)n * sizeof *target) == 0;
}

void hb_server_keep_target(hb_server *s)
{
    if (s->target.kept)
        hb_kept_target_save(s->target.kept, s->model, &s->target.set);
}

void hb_server_resume_target(hb_server *s)
{
    s->target.nfile = s->settings.ntarget;
    memcpy(s->target.file, s->settings.target, sizeof s->target.file);
    s->target.waits = s->target.kept && hb_kept_target_load(s->target.kept, s->model, &s->target.wanted) &&
                      is_files_target(&s->settings, s->target.wanted.nfile, s->target.wanted.file);
}

bool hb_server_reload_target(hb_server *s, hb_controller_settings *next, hb_controller_settings *shadow_next)
{
    const bool stays = s->target.set.n && is_files_target(next, s->target.nfile, s->target.file);

    if (stays) {
        aim(next, s->target.set.target, s->model->nx);
        aim(shadow_next, s->target.set.target, s->model->nx);
    }
    return stays;
}

void hb_server_reloaded_target(hb_server *s, const hb_controller_settings *file)
{
    char text[256];

    if (s->target.set.n && !is_files_target(file, s->target.nfile, s->target.file)) {
        s->target.set.n = 0;
        print_target(s, text);
        hb_log_line(s->log, HB_LOG_NOTICE, "reload: the target is the file's new one: %s", text);
    }
    s->target.nfile = file->ntarget;
    memcpy(s->target.file, file->target, sizeof s->target.file);
    hb_server_keep_target(s);
}

void hb_server_set_target(hb_server *s)
{
    hb_error err;

    /* the shadow's planning side is the main thread's while it is tested */
    if (!s->target.waits || !hb_worker_idle(s->actions.worker) || s->control.promoter.waits ||
        (s->shadow.thread && !hb_shadow_claim(s->shadow.thread)))
        return;
    s->retuned = s->settings;
    s->shadow.retuned = s->shadow.settings;
    aim(&s->retuned, s->target.wanted.target, s->model->nx);
    aim(&s->shadow.retuned, s->target.wanted.target, s->model->nx);
    int result = hb_server_retune(s, &s->retuned, &s->shadow.retuned, &err);
    s->target.waits = false;
    if (!result) {
        s->target.set = s->target.wanted;
        s->target.set.nfile = s->target.nfile;
        memcpy(s->target.set.file, s->target.file, sizeof s->target.set.file);
        hb_server_keep_target(s);
        log_target(s, !s->control.targeter.waits);
        hb_server_record_change(
            s, &(hb_recorded_change){.target = s->settings.target, .prepared = s->record.prepared_before}, NULL);
    }
    if (result && !s->control.targeter.waits)
        hb_log_line(s->log, HB_LOG_WARNING, "the target from before the restart was not taken over: %s", err.text);
    hb_server_answer(s, &s->control.targeter, &(hb_control_reply){.error = result ? err.text : NULL});
}

static int start_reload(hb_server *s, const hb_envelope *e, uint64_t id, hb_error *err)
{
    int result = hb_server_call(&s->control.reloader, e, id, "reload", err);
    ssize_t n = result ? 0 : write(s->orders.reload_fd, &(uint64_t){1}, sizeof(uint64_t));

    (void)n;
    return result;
}

static int start_setting(hb_server *s, const hb_envelope *e, const hb_control_request *r, hb_error *err)
{
    int result = hb_server_call(&s->control.setter, e, r->id, "change of settings", err);

    if (result)
        return result;
    s->control.wish = (hb_setting_wish){.tell = r->kind == HB_CONTROL_GET_SETTINGS, .seconds = r->seconds};
    snprintf(s->control.wish.key, sizeof s->control.wish.key, "%s", r->key ? r->key : "");
    snprintf(s->control.wish.value, sizeof s->control.wish.value, "%s", r->value ? r->value : "");
    snprintf(s->control.wish.by, sizeof s->control.wish.by, "%s", name_of(s, e));
    hb_wake(s->orders.setting_fd);
    return 0;
}

void hb_server_reloaded(hb_server *s, const hb_order *order, const char *error)
{
    if (!order->unasked)
        hb_server_answer(s, order->setting ? &s->control.setter : &s->control.reloader,
                         &(hb_control_reply){.error = error,
                                             .needs_restart = error || order->setting ? NULL : order->restart,
                                             .nneeds_restart = error || order->setting ? 0 : order->nrestart,
                                             .restart_error = error ? "" : order->restart_error});
}

static const char stopping[] = "the daemon is shutting down";

void hb_server_refuse_callers(hb_server *s)
{
    hb_caller *all[] = {&s->control.reloader, &s->control.predictor, &s->control.targeter, &s->control.promoter,
                        &s->control.setter};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        hb_server_answer(s, all[i], &(hb_control_reply){.error = stopping});
}

/* ---- receiving ---- */

/* Does what is asked; false when the reply comes later. */
static bool act(hb_server *s, const hb_envelope *e, const hb_control_request *r, hb_control_reply *answer,
                hb_report *report, hb_error *err)
{
    int result = 0;
    unsigned held;

    switch (r->kind) {
    case HB_CONTROL_GET_STATUS:
        hb_server_report(s, report);
        answer->report = report;
        break;
    case HB_CONTROL_GET_MODEL:
        answer->card = &s->card;
        break;
    case HB_CONTROL_RESET_WINDOW:
        hb_controller_forget(s->controller);
        hb_shadow_forget(s->shadow.thread);
        hb_server_forget_words(s);
        hb_queue_vacate(s->actions.queue, hb_server_now(s));
        if (hb_log_due(&s->limit.reset, hb_server_now(s), &held))
            hb_log_line(s->log, HB_LOG_NOTICE, "the window was reset on request by %s (%u more like it before)",
                        name_of(s, e), held);
        break;
    case HB_CONTROL_SET_TARGET:
        result = start_target(s, e, r, err);
        if (!result)
            return false;
        break;
    case HB_CONTROL_GET_COEFFICIENTS:
        answer->coefficient = hb_controller_coefficients(s->controller, &answer->variance);
        answer->covariance = hb_controller_covariance(s->controller);
        answer->model_hash = s->model->hash;
        answer->version = hb_controller_health(s->controller)->version;
        break;
    case HB_CONTROL_SET_COEFFICIENTS:
        result = set_coefficients(s, r, err);
        break;
    case HB_CONTROL_RELOAD:
        result = start_reload(s, e, r->id, err);
        if (!result)
            return false;
        break;
    case HB_CONTROL_PREDICT:
        result = start_prediction(s, e, r, err);
        if (!result)
            return false;
        break;
    case HB_CONTROL_PROMOTE:
        result = hb_server_start_promotion(s, e, r->id, err);
        if (!result)
            return false;
        break;
    case HB_CONTROL_SET:
    case HB_CONTROL_GET_SETTINGS:
        result = start_setting(s, e, r, err);
        if (!result)
            return false;
        break;
    case HB_CONTROL_RECORD:
        if (s->record.journal)
            hb_journal_switch(s->record.journal, r->on);
        else
            result = hb_fail(err, ENOTSUP, "this daemon has no recorder");
        break;
    case HB_CONTROL_NONE:
        break;
    }
    if (result)
        answer->error = err->text;
    return true;
}

static bool changes_something(hb_control_kind kind)
{
    return kind == HB_CONTROL_RESET_WINDOW || kind == HB_CONTROL_SET_COEFFICIENTS || kind == HB_CONTROL_SET_TARGET ||
           kind == HB_CONTROL_RELOAD || kind == HB_CONTROL_PROMOTE || kind == HB_CONTROL_RECORD ||
           kind == HB_CONTROL_SET;
}

/* A prediction changes nothing, but takes the planner's time. */
static bool is_for_operators(hb_control_kind kind)
{
    return changes_something(kind) || kind == HB_CONTROL_PREDICT;
}

/* One message a turn: requests for actions go first. */
void hb_server_receive_control(hb_server *s)
{
    hb_envelope envelope;
    hb_control_request r = {0};
    hb_report report;
    hb_error err;
    int n = hb_server_receive(s, HB_CHANNEL_CONTROL, &envelope);

    if (n == HB_NOTHING)
        return;
    s->status.counters.control_requests++;
    if (n == HB_UNANSWERABLE) {
        s->status.counters.control_errors++;
        return;
    }
    int bad = n == HB_OVERSIZED
                  ? hb_fail(&err, EMSGSIZE, "the message is larger than sockets.max_message, %d bytes", s->max_message)
                  : hb_wire_read_control(s->wire, s->frame, (size_t)n, &r, &err);
    if (!bad && envelope.observer && is_for_operators(r.kind))
        bad = hb_fail(&err, EPERM, "this key may observe, and not operate (security.authorized_keys)");
    hb_control_reply answer = {.id = r.id, .error = bad ? err.text : s->orders.stopping ? stopping : NULL};
    bool done = answer.error || act(s, &envelope, &r, &answer, &report, &err);
    if (changes_something(r.kind) && n >= 0)
        hb_server_record_control(s, hb_server_flight_now(s), answer.error, (size_t)n);
    if (done)
        reply(s, &envelope, &answer);
}
