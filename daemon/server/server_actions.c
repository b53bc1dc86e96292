/* Requests in, actions out.
 *
 *     receive --> observe --> queue --> worker --> collect --> reply
 *        |                      |          |
 *        | malformed: refused   |          | never back: the guard answers with the last plan
 *        | superseded: refused  | waited too long: fallback at once
 *
 * Every request gets exactly one reply. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/server_internal.h"

static const double sharing_window = 1; /* seconds for which a client counts as sharing the planner */
static const double stall_factor = 2;   /* budgets after which a planner that is silent has stalled */

/* Part of a budget that is kept for what follows the plan: stopping, the way back through the server's thread, and
 * sending. It follows the largest recent overrun, which fades from request to request. */
static const double least_reserve = 0.05, largest_reserve = 0.25, reserve_fading = 0.995;

/* ---- replies ---- */

static void reply(hb_server *s, const hb_envelope *e, const hb_request *to, const hb_action_reply *r)
{
    const void *data;
    size_t n = hb_wire_write_reply(s->wire, r, &data);

    hb_server_send(s, HB_CHANNEL_ACTIONS, e, data, n);
    if (hb_queue_is_pilots(s->actions.queue, e, hb_server_now(s)))
        hb_server_note_reply(s, to, r);
    hb_server_record_reply(s, to, r->command, false, data, n);
}

/* A reply that the controller is not asked for. */
static void refuse(hb_server *s, const hb_envelope *e, uint64_t id, double received, hb_reason why, const char *detail)
{
    hb_action_reply r = {.id = id,
                         .status = HB_STATUS_REFUSED,
                         .reason = why,
                         .detail = detail,
                         .total = hb_server_flight_now(s) - received};
    unsigned held;

    s->status.counters.status[HB_STATUS_REFUSED]++;
    s->status.counters.refused[why]++;
    reply(s, e, &(hb_request){.received = received}, &r);
    if (why != HB_REASON_SUPERSEDED && why != HB_REASON_STOPPING &&
        hb_log_due(&s->limit.refusal, hb_server_now(s), &held))
        hb_log_line(s->log, HB_LOG_WARNING, "actions: a request was refused: %s (%u more like it before)",
                    detail && *detail ? detail : hb_reason_help[why], held);
}

/* Keeps the plan that the pilot is flying. One that was not made or not sent leaves the last one. */
static void keep_plan(hb_server *s, const hb_request *r, const hb_command *c)
{
    if (c->guest || c->status >= HB_STATUS_FALLBACK || !c->plan)
        return;
    s->actions.flown.steps = c->horizon;
    s->actions.flown.time_us = r->time_us;
    s->actions.flown.reset_counter = r->reset_counter;
    s->actions.flown.dt = c->step;
    memcpy(s->actions.flown.action, c->plan, (size_t)(c->horizon * s->model->nu) * sizeof *c->plan);
}

/* What the last plan has for the moment of a request, as long as it is young enough to be followed, else the safe
 * action: as hb_controller_fallback does, which is the planner's thread's. */
static const double *stalled_action(hb_server *s, const hb_request *r, bool guest)
{
    const hb_flown_plan *p = &s->actions.flown;
    const double elapsed = 1e-6 * (double)(r->time_us - p->time_us);

    if (guest || !p->steps || r->fresh || r->reset_counter != p->reset_counter || !(elapsed >= 0) ||
        elapsed > s->settings.safe_after)
        return s->actions.safe;
    const double at = fmin(elapsed / p->dt, p->steps - 1), part = at - floor(at);
    const double *before = p->action + (int)at * s->model->nu, *after = before + (part > 0 ? s->model->nu : 0);
    for (int i = 0; i < s->model->nu; i++)
        s->actions.stalled[i] = (1 - part) * before[i] + part * after[i];
    return s->actions.stalled;
}

/* The planner does not come back: the last plan goes on, without asking the controller. */
static void answer_stalled(hb_server *s, const hb_waiting *w, bool guest)
{
    double now = hb_server_flight_now(s);
    hb_action_reply r = {.id = w->id,
                         .status = HB_STATUS_FALLBACK,
                         .reason = HB_REASON_STALLED,
                         .action = stalled_action(s, &w->request, guest),
                         .queue = now - w->request.received,
                         .total = now - w->request.received};

    s->status.counters.status[HB_STATUS_FALLBACK]++;
    s->status.counters.refused[HB_REASON_STALLED]++;
    s->status.counters.replies_late++;
    if (!guest)
        hb_controller_answered(s->controller, &w->request, r.action);
    reply(s, &w->envelope, &w->request, &r);
}

/* A reply with the controller's answer. */
static void answer(hb_server *s, const hb_waiting *w, const hb_command *command, double started)
{
    double now = hb_server_flight_now(s), total = now - w->request.received;
    hb_action_reply r = {.id = w->id,
                         .status = command->status,
                         .reason = command->reason,
                         .action = command->action,
                         .command = command,
                         .want_plan = w->want_plan,
                         .queue = started - w->request.received,
                         .planning = command->planning,
                         .preparing = command->preparing,
                         .total = total};

    reply(s, &w->envelope, &w->request, &r);
    keep_plan(s, &w->request, command);
    if (r.status != HB_STATUS_REFUSED && !command->guest)
        hb_shadow_hear(s->shadow.thread, w->request.time_us + llround(1e6 * s->settings.delay), r.action);
    s->status.counters.replies_late += total > w->budget;
    if (s->vehicle.lockstep) { /* replies tell the vehicle's time alone; the status tells how long the machine takes */
        r.planning = total = hb_server_now(s) - s->actions.begun;
    }
    hb_histogram_add(&s->status.queued, r.queue);
    hb_histogram_add(&s->status.planned, r.planning);
    if (r.preparing > 0)
        hb_histogram_add(&s->status.prepared, r.preparing);
    hb_histogram_add(&s->status.total, total);
}

/* Records the controller's answer to a request that the server had answered itself: the next plan starts from it. */
static void record_unsent(hb_server *s, const hb_waiting *w, const hb_command *command)
{
    const hb_action_reply r = {.id = w->id,
                               .status = command->status,
                               .reason = command->reason,
                               .action = command->action,
                               .command = command};
    const void *data;
    size_t n = hb_wire_write_reply(s->wire, &r, &data);

    hb_server_record_reply(s, &w->request, command, true, data, n);
}

/* ---- receiving ---- */

/* The smaller of what the request and the configuration allow. */
static double budget_of(const hb_server *s, const hb_action_request *r)
{
    return r->budget > 0 ? fmin(r->budget, s->settings.budget) : s->settings.budget;
}

static void note_guest(hb_server *s, double now)
{
    unsigned held;

    s->status.counters.guest_requests++;
    if (hb_log_due(&s->limit.guest, now, &held))
        hb_log_line(
            s->log, HB_LOG_NOTICE,
            "actions: a client that is not the pilot asks too, and is answered as a guest (%u more such requests "
            "before)",
            held);
}

/* Whether a request goes by the clock that is configured; says what to do where it does not. */
static bool goes_by_clock(const hb_server *s, hb_action_request *r)
{
    if (r->lockstep == s->vehicle.lockstep && (s->vehicle.lockstep || !r->nsamples))
        return true;
    snprintf(r->detail, sizeof r->detail,
             s->vehicle.lockstep
                 ? "latency.clock is vehicle: connect the client with lockstep"
                 : "lock-step and telemetry in requests need latency.clock: vehicle in hilbertd's configuration");
    return false;
}

/* In lock-step: the flight's clock goes on to the request. Where the vehicle's was set back, or it is another vehicle,
 * nobody knows how much time has passed: then it is longer than anything stays valid. */
static void move_clock(hb_server *s, const hb_request *r)
{
    const double long_ago = 3600; /* seconds, the longest that latency.fallback_after may be */
    int64_t passed = r->time_us - s->vehicle.us;

    if (!s->vehicle.lockstep)
        return;
    if (s->vehicle.known)
        s->vehicle.time += r->fresh || passed < 0 ? long_ago : 1e-6 * (double)passed;
    s->vehicle.known = true;
    s->vehicle.us = r->time_us;
}

void hb_server_receive_requests(hb_server *s)
{
    hb_envelope envelope;

    for (int i = 0; i < HB_REQUESTS_A_TURN; i++) {
        hb_action_request r = {0};
        int n = hb_server_receive(s, HB_CHANNEL_ACTIONS, &envelope);
        if (n == HB_NOTHING)
            return;
        double now = hb_server_now(s);
        s->status.counters.requests++;
        if (n == HB_UNANSWERABLE) {
            s->status.counters.refused[HB_REASON_MALFORMED]++;
            continue;
        }
        hb_reason why =
            n == HB_OVERSIZED ? HB_REASON_TOO_LARGE : hb_wire_read_request(s->wire, s->frame, (size_t)n, &r);
        if (why == HB_REASON_NONE && s->orders.stopping)
            why = HB_REASON_STOPPING;
        if (why == HB_REASON_NONE && !goes_by_clock(s, &r))
            why = HB_REASON_CLOCK;
        hb_client *client = why == HB_REASON_NONE ? hb_queue_client(s->actions.queue, &envelope, now) : NULL;
        if (why == HB_REASON_NONE && !client)
            why = HB_REASON_BUSY;
        if (why != HB_REASON_NONE) {
            refuse(s, &envelope, r.id, hb_server_flight_now(s), why, r.detail);
            continue;
        }
        r.request.fresh = client->fresh;
        const bool flies = hb_queue_flies(s->actions.queue, client);
        if (flies)
            move_clock(s, &r.request);
        r.request.received = hb_server_flight_now(s);
        if (flies) {
            hb_server_learn_carried(s, r.nsamples);
            hb_controller_observe_request(s->controller, &r.request, r.request.received);
            s->telemetry.work_left = true;
            hb_shadow_observe_request(s->shadow.thread, &r.request, r.request.received);
        } else {
            note_guest(s, now);
        }
        hb_server_record_request(s, &r.request, !flies, (size_t)n);
        if (client->waits)
            refuse(s, &client->waiting.envelope, client->waiting.id, client->waiting.request.received,
                   HB_REASON_SUPERSEDED, NULL);
        hb_queue_put(s->actions.queue, client, &envelope, &r, budget_of(s, &r));
    }
}

void hb_server_refuse_all(hb_server *s, hb_reason why)
{
    hb_client *c;

    for (int i = 0; (c = hb_queue_at(s->actions.queue, i)); i++) {
        if (!c->waits)
            continue;
        hb_queue_drop(c);
        refuse(s, &c->waiting.envelope, c->waiting.id, c->waiting.request.received, why, NULL);
    }
}

/* ---- planning ---- */

/* When the plan must be made: within its budget less the reserve. Guests share half of that, and none takes
 * longer than a quarter of the pilot's budget, in case the pilot asks meanwhile. */
static double deadline(const hb_server *s, const hb_waiting *w, double now)
{
    double reserve = fmin(fmax(s->actions.reserve, least_reserve * w->budget), largest_reserve * w->budget);
    double all = w->budget - reserve, share = all;

    if (w->request.guest)
        share = fmin(all / (2 * fmax(hb_queue_guests(s->actions.queue, now, sharing_window), 1)),
                     hb_queue_pilot_budget(s->actions.queue, now) / 4);
    const double span = fmin(all, now + share - w->request.received);
    return w->request.received + fmax(floor(span / HB_DEADLINE_STEP), 1) * HB_DEADLINE_STEP;
}

/* Sends the plan of the current request. */
static void deliver(hb_server *s, const hb_plan_order *job)
{
    const hb_waiting *w = hb_queue_in_hand(s->actions.queue);

    answer(s, w, job->command, job->started);
    double now = hb_server_flight_now(s), overrun = fmax(now - w->request.deadline, now - job->finished);
    s->actions.reserve = fmax(reserve_fading * s->actions.reserve, fmin(overrun, largest_reserve * w->budget));
}

/* The planner's thread plans. Only what it has prepared to its end, which takes less time to correct than to wake
 * a thread and to be woken by it, is corrected here. */
static void plan(hb_server *s, hb_waiting *w)
{
    hb_plan_order job = {.kind = HB_JOB_COMMAND, .request = &w->request};

    if (s->vehicle.lockstep) {
        s->actions.begun = hb_server_now(s);
        hb_worker_do(s->actions.worker, &job);
        deliver(s, &job);
        hb_queue_done(s->actions.queue, hb_server_now(s));
        hb_worker_prepare(s->actions.worker);
        while (hb_controller_work(s->controller)) /* all of it, so that results do not depend on timing */
            ;
        s->telemetry.work_left = false;
        return;
    }
    if (!w->request.guest && !hb_worker_prepares(s->actions.worker)) {
        hb_worker_hold(s->actions.worker);
        const bool here = hb_controller_will_correct(s->controller);
        if (here) {
            hb_worker_do(s->actions.worker, &job);
            deliver(s, &job);
            hb_queue_done(s->actions.queue, hb_server_now(s));
        }
        hb_worker_release(s->actions.worker);
        if (here)
            return;
    }
    s->actions.in_hand = true;
    s->actions.answered = false;
    hb_worker_post(s->actions.worker, &job);
}

/* Has the next request planned, or a slice of a prediction when none waits. */
void hb_server_serve(hb_server *s)
{
    hb_client *client;

    while (hb_worker_idle(s->actions.worker) && (client = hb_queue_next(s->actions.queue))) {
        hb_waiting *w = hb_queue_in_hand(s->actions.queue);
        hb_queue_take(s->actions.queue, client);
        double now = hb_server_flight_now(s);
        w->request.deadline = deadline(s, w, now);
        w->request.tick = s->actions.ticks++;
        if (now >= w->request.deadline) {
            hb_worker_hold(s->actions.worker);
            answer(s, w, hb_controller_fallback(s->controller, &w->request, HB_REASON_LATE, now), now);
            hb_worker_release(s->actions.worker);
            hb_queue_done(s->actions.queue, hb_server_now(s));
            continue;
        }
        plan(s, w);
    }
    if (hb_worker_idle(s->actions.worker) && s->control.predictor.waits && !s->orders.stopping)
        hb_worker_post(s->actions.worker,
                       &(hb_plan_order){.kind = HB_JOB_PREDICT, .prediction = &s->control.prediction});
    if (s->vehicle.lockstep && hb_worker_run(s->actions.worker))
        hb_worker_deliver(s->actions.worker);
}

void hb_server_collect(hb_server *s)
{
    const hb_plan_order *job = hb_worker_collect(s->actions.worker);

    if (!job)
        return;
    if (job->kind == HB_JOB_PREDICT) {
        hb_server_record_change(
            s, &(hb_recorded_change){.prediction = true, .snapshot = job->snapshot, .prepared = job->prepared}, NULL);
        hb_server_predicted(s);
        return;
    }
    s->actions.in_hand = false;
    hb_queue_done(s->actions.queue, hb_server_now(s));
    if (s->actions.answered) {
        /* the controller counted an answer that was not sent; the one that was sent is counted already */
        s->actions.unsent_status[job->command->status]++;
        if (job->command->status >= HB_STATUS_FALLBACK)
            s->actions.unsent_refused[job->command->reason]++;
        record_unsent(s, hb_queue_in_hand(s->actions.queue), job->command);
        return;
    }
    deliver(s, job);
}

/* ---- the guard ---- */

static double stall_time(const hb_waiting *w)
{
    return w->request.received + stall_factor * w->budget;
}

/* A prediction may keep the worker just as well. */
double hb_server_guard_time(const hb_server *s)
{
    double first =
        s->actions.in_hand && !s->actions.answered ? stall_time(hb_queue_in_hand(s->actions.queue)) : INFINITY;
    bool busy = !hb_worker_idle(s->actions.worker);
    hb_client *c;

    for (int i = 0; busy && (c = hb_queue_at(s->actions.queue, i)); i++)
        if (c->waits)
            first = fmin(first, stall_time(&c->waiting));
    return first;
}

void hb_server_guard(hb_server *s)
{
    hb_waiting *w = hb_queue_in_hand(s->actions.queue);
    double now = hb_server_flight_now(s);
    hb_client *c;

    if (now < hb_server_guard_time(s))
        return;
    if (s->actions.in_hand && !s->actions.answered && now >= stall_time(w)) {
        s->actions.answered = true;
        answer_stalled(s, w, w->request.guest);
    }
    for (int i = 0; (c = hb_queue_at(s->actions.queue, i)); i++)
        if (c->waits && now >= stall_time(&c->waiting)) {
            hb_queue_drop(c);
            answer_stalled(s, &c->waiting, !hb_queue_flies(s->actions.queue, c));
        }
}
