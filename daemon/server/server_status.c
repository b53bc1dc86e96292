/* Status of the server: published, for the service manager, and logged when it changes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "process/notify.h"
#include "server/server_internal.h"

static const char json_topic[] = "hilbert.status", proto_topic[] = "hilbert.v1.Status";

void hb_server_report(hb_server *s, hb_report *ret)
{
    double now = hb_server_now(s);
    double age = hb_server_flight_now(s) - s->telemetry.arrived;

    *ret = (hb_report){
        .version = HB_VERSION,
        .name = s->name,
        .model_hash = s->model->hash,
        .uptime = now - s->status.started,
        .telemetry_rate = s->status.telemetry_rate,
        .request_rate = s->status.request_rate,
        .answered = s->last.replied,
        .last_status = s->last.status,
        .last_reason = s->last.reason,
        .telemetry_age = s->telemetry.sampled ? age : INFINITY,
        .health = *hb_controller_health(s->controller),
        .nx = s->model->nx,
        .nu = s->model->nu,
        .ncoefficients = hb_model_ncoefficients(s->model),
        .state = s->telemetry.sampled ? s->telemetry.state : NULL,
        .control = s->telemetry.sampled ? s->telemetry.control : NULL,
        .target = s->last.targeted      ? s->last.target
                  : s->settings.ntarget ? s->settings.target
                                        : NULL,
        .target_of_request = s->last.targeted,
        .target_since = !s->last.targeted && s->target.set.n ? s->target.set.since : 0,
        .target_by = !s->last.targeted && s->target.set.n ? s->target.set.by : "",
        .action = s->last.replied ? s->last.action : NULL,
        .predicted = s->last.states,
        .npredicted = s->last.horizon ? s->last.horizon + 1 : 0,
        .cost = s->last.cost,
        .nterms = s->last.nterms,
        .term = s->last.term,
        .term_name = s->last.term_name,
        .terms = s->settings.cost.term,
        .limits_weight = s->settings.cost.limits.weight,
        .model = s->model,
        .word = hb_server_words(s),
        .was = s->words.was,
        .iterations = s->last.iterations,
        .queue = hb_histogram_summary(&s->status.queued),
        .planning = hb_histogram_summary(&s->status.planned),
        .preparing = hb_histogram_summary(&s->status.prepared),
        .total = hb_histogram_summary(&s->status.total),
        .budget = s->settings.budget,
        .clients = hb_queue_active(s->actions.queue, now, 1),
        .server = s->status.counters,
        .resumed = s->status.resumed,
        .adapting = s->settings.adapt,
    };
    for (int i = 0; i < s->model->nwords; i++)
        ret->word_changed[i] = hb_server_word_changed(s, i);
    if (s->record.journal) {
        hb_journal_read(s->record.journal, &s->record.report);
        ret->recorder = &s->record.report;
    }
    ret->coefficient = hb_controller_coefficients(s->controller, &ret->variance);
    hb_controller_counters(s->controller, &ret->controller);
    for (int i = 0; i < HB_NSTATUSES; i++)
        ret->controller.status[i] -= s->actions.unsent_status[i];
    for (int i = 0; i < HB_NREASONS; i++)
        ret->controller.refused[i] -= s->actions.unsent_refused[i];
    hb_server_report_shadow(s, &ret->shadow);
}

/* ---- publishing ---- */

static void publish(hb_server *s, const char *topic, const void *data, size_t size, const char *seconds)
{
    const hb_frame frame[] = {{topic, strlen(topic)}, {data, size}, {seconds, strlen(seconds)}};

    s->transport.send(s->transport.context, HB_CHANNEL_STATUS, frame, 3);
}

void hb_server_publish(hb_server *s, double now)
{
    char seconds[40];
    hb_report report;
    const void *data;

    if (s->status.period <= 0 || now < s->status.next)
        return;
    /* periods that were missed are skipped, not caught up with */
    s->status.next = fmax(s->status.next + s->status.period, now);
    hb_server_report(s, &report);
    snprintf(seconds, sizeof seconds, "%.6f", s->wall.now(s->wall.context));
    size_t n = hb_wire_write_status_json(s->wire, &report, &data);
    publish(s, json_topic, data, n, seconds);
    n = hb_wire_write_status(s->wire, &report, &data);
    publish(s, proto_topic, data, n, seconds);
}

/* ---- changes of state ---- */

void hb_server_note_reply(hb_server *s, const hb_request *to, const hb_action_reply *r)
{
    size_t nx = (size_t)s->model->nx;
    unsigned held;

    /* a request that a newer one replaced says nothing about the vehicle */
    if (r->reason == HB_REASON_SUPERSEDED)
        return;
    if ((!s->last.replied || r->status != s->last.status) && hb_log_due(&s->limit.status, hb_server_now(s), &held)) {
        const char *why = r->reason == HB_REASON_NONE ? hb_status_help[r->status] : hb_reason_help[r->reason];
        hb_log_line(s->log, r->status >= HB_STATUS_OUT_OF_SPAN ? HB_LOG_WARNING : HB_LOG_INFO, "actions: %s (%s)%s",
                    hb_status_name[r->status], why, held ? ", after several changes" : "");
    }
    s->last.replied = true;
    s->last.status = r->status;
    s->last.reason = r->reason;
    if (r->action)
        memcpy(s->last.action, r->action, (size_t)s->model->nu * sizeof *r->action);
    if (r->command) {
        s->last.cost = r->command->cost;
        s->last.iterations = r->command->iterations;
        s->last.nterms = r->command->nterms;
        if (s->last.nterms)
            memcpy(s->last.term, r->command->terms, (size_t)s->last.nterms * sizeof *s->last.term);
        s->last.targeted = to->target && to->ntargets > 0;
        if (s->last.targeted)
            memcpy(s->last.target, to->target, nx * sizeof *to->target);
        s->last.horizon = r->command->horizon <= s->config->controller.planner.horizon ? r->command->horizon : 0;
        if (s->last.horizon)
            memcpy(s->last.states, r->command->states, (size_t)(s->last.horizon + 1) * nx * sizeof *s->last.states);
    }
}

static void note_health(hb_server *s, double now)
{
    const hb_health *h = hb_controller_health(s->controller);
    unsigned held;

    if (h->changes != s->status.changes) {
        hb_log_line(s->log, HB_LOG_NOTICE, "estimate: the vehicle's dynamics changed (%" PRIu64 " times by now)",
                    h->changes);
        s->status.changes = h->changes;
    }
    if (h->status != s->status.estimate && hb_log_due(&s->limit.estimate, now, &held)) {
        hb_log_line(s->log, h->status == HB_ESTIMATE_OUT_OF_SPAN ? HB_LOG_WARNING : HB_LOG_INFO,
                    "estimate: %s -> %s (%d samples, one-step error %.3g)", hb_estimate_status_name[s->status.estimate],
                    hb_estimate_status_name[h->status], h->samples, h->one_step_error);
        s->status.estimate = h->status;
    }
}

void hb_server_each_second(hb_server *s, double now)
{
    if (now < s->status.next_second)
        return;
    s->status.next_second = now + 1;
    note_health(s, now);
    hb_server_record_status(s);

    double dt = now - s->status.rate_since;
    if (dt > 0.1) {
        s->status.telemetry_rate = (double)(s->status.counters.telemetry - s->status.rate_telemetry) / dt;
        s->status.request_rate = (double)(s->status.counters.requests - s->status.rate_requests) / dt;
        s->status.rate_since = now;
        s->status.rate_telemetry = s->status.counters.telemetry;
        s->status.rate_requests = s->status.counters.requests;
    }
    const hb_health *h = hb_controller_health(s->controller);
    hb_notify_at_once("STATUS=telemetry %.0f Hz, window %d transitions, %s, %.0f requests/s, %s, p99 %.2f of %.2f ms",
                      s->status.telemetry_rate, h->samples, hb_estimate_status_name[h->status], s->status.request_rate,
                      s->last.replied ? hb_status_name[s->last.status] : "no request yet",
                      1e-3 * (double)hb_histogram_quantile(&s->status.total, 0.99), 1e3 * s->settings.budget);
}
