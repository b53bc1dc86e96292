#include "server/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "process/notify.h"
#include "process/realtime.h"
#include "process/state.h"
#include "server/server_internal.h"
#include "server/signals.h"
#include "server/wake.h"

static const double stop_within = 1;      /* seconds in which the current request is answered at the end */
static const double longest_sleep = 0.05; /* seconds */

/* ---- messages ---- */

int hb_server_receive(hb_server *s, hb_channel from, hb_envelope *e)
{
    return s->transport.receive(s->transport.context, from, e, s->max_message, &s->frame);
}

void hb_server_send(hb_server *s, hb_channel to, const hb_envelope *e, const void *data, size_t size)
{
    hb_frame frame[HB_ENVELOPE_FRAMES + 1];
    size_t used = 0;

    for (int i = 0; i < e->nframes; i++) {
        frame[i] = (hb_frame){e->data + used, e->size[i]};
        used += e->size[i];
    }
    frame[e->nframes] = (hb_frame){data, size};
    if (!e->nframes || !s->transport.send(s->transport.context, to, frame, e->nframes + 1))
        s->status.counters.replies_undelivered++;
}

/* ---- the loop ---- */

/* Learning may have left something for later, and nobody waits for an answer. */
static bool has_work(const hb_server *s)
{
    return s->telemetry.work_left && !s->actions.in_hand;
}

double hb_server_due(const hb_server *s)
{
    double due = fmin(s->status.next_second, hb_server_guard_time(s));

    if (s->telemetry.count || has_work(s))
        return hb_server_now(s);
    return s->status.period > 0 ? fmin(due, s->status.next) : due;
}

/* Sleeps until there is something to do. */
static void wait(hb_server *s)
{
    const int fd[] = {s->orders.wake_fd, hb_worker_fd(s->actions.worker)};
    double seconds = hb_server_due(s) - hb_server_now(s);

    if (s->telemetry.count || has_work(s))
        return;
    s->transport.wait(s->transport.context, fd, 2, fmin(fmax(seconds, 0), longest_sleep));
    hb_wake_drain(s->orders.wake_fd);
}

/* Feeds the watchdog, if the planner's thread has worked since the last time. */
static void feed_watchdog(hb_server *s, double now)
{
    unsigned long beats = s->vehicle.lockstep ? s->life.beats + 1
                                              : hb_worker_beats(s->actions.worker); /* in lock-step this thread plans */

    if (s->life.watchdog <= 0 || now - s->life.fed < s->life.watchdog / 4 || beats == s->life.beats ||
        !hb_notify_at_once("WATCHDOG=1"))
        return;
    s->life.fed = now;
    s->life.beats = beats;
}

static void judge_handshakes(hb_server *s)
{
    const hb_transport *t = &s->transport;
    char why[HB_VERDICT_SIZE];
    unsigned held;
    int verdict;

    for (int i = 0; t->judge && i < HB_HANDSHAKES_A_TURN && (verdict = t->judge(t->context, why)) != HB_NOBODY; i++) {
        if (verdict == HB_ADMITTED)
            continue;
        s->status.counters.handshakes_refused++;
        /* many unknown clients must not keep the line about a known one from being logged */
        hb_log_limit *limit = verdict == HB_STRANGER ? &s->limit.handshake : &s->limit.right;
        if (hb_log_due(limit, hb_server_now(s), &held))
            hb_log_line(s->log, HB_LOG_WARNING, "security: %s (%u more like it before)", why, held);
    }
    int seen = t->tend ? t->tend(t->context) : 0;
    if (seen & HB_CROWDED && hb_log_due(&s->limit.crowd, hb_server_now(s), &held))
        hb_log_line(s->log, HB_LOG_WARNING,
                    "sockets: new connections are turned away: there are nearly as many as file descriptors "
                    "(RLIMIT_NOFILE; LimitNOFILE= of the unit)");
    if (seen & HB_FLOODED && hb_log_due(&s->limit.flood, hb_server_now(s), &held))
        hb_log_line(s->log, HB_LOG_WARNING,
                    "security: new connections are turned away: too many came from one address, or from all of them "
                    "together; those that are there go on");
    if (seen & HB_MISLED && hb_log_due(&s->limit.misled, hb_server_now(s), &held))
        hb_log_line(s->log, HB_LOG_WARNING,
                    "security: a handshake failed: the client uses another server key than ours, or no keys");
}

/* The state file was cut short, and the window in it is lost. */
static void notice_lost_state(hb_server *s)
{
    if (!hb_state_lost())
        return;
    if (s->shadow.kept == s->controller)
        hb_controller_forget(s->controller);
    else
        hb_shadow_forget(s->shadow.thread);
    hb_server_keep_target(s);
    hb_log_line(s->log, HB_LOG_ERROR,
                "state_file was cut short by somebody: the window is lost, and starts anew in memory alone");
}

/* At the end: refuses what waits, answers the current request, and says when that is done. */
static bool finished(hb_server *s)
{
    if (!s->orders.stopping && atomic_load_explicit(&s->orders.stop, memory_order_acquire)) {
        s->orders.stopping = true;
        s->orders.stop_by = hb_server_now(s) + stop_within;
    }
    if (!s->orders.stopping)
        return false;
    hb_server_refuse_all(s, HB_REASON_STOPPING);
    if (!hb_worker_idle(s->actions.worker) && hb_server_now(s) <= s->orders.stop_by)
        return false;
    hb_server_refuse_callers(s);
    return true;
}

bool hb_server_turn(hb_server *s)
{
    if (!s->life.running) {
        s->status.started = s->status.rate_since = s->life.fed = hb_server_now(s);
        hb_server_record_start(s);
        hb_server_resume_target(s);
        s->life.running = true;
    }
    if (finished(s))
        return false;
    /* the name of a pilot that flies stays with its connection; without one, a client whose connection died may take
     * its name back by a new connection, while the old one still seems open */
    if (s->transport.keep_names)
        s->transport.keep_names(s->transport.context, hb_queue_flown(s->actions.queue, hb_server_now(s)));
    hb_server_collect(s);
    hb_server_take_order(s);
    hb_server_set_target(s);
    hb_server_receive_requests(s);
    hb_server_serve(s);
    hb_server_receive_telemetry(s);
    /* in turns without a sample, and one piece each, so that a request that comes meanwhile does not wait for long */
    if (s->telemetry.count == 0 && has_work(s))
        s->telemetry.work_left = hb_controller_work(s->controller);
    hb_server_learn(s);
    hb_server_receive_control(s);
    judge_handshakes(s);
    hb_server_guard(s);
    notice_lost_state(s);

    double now = hb_server_now(s);
    hb_server_note_words(s);
    hb_server_publish(s, now);
    hb_server_each_second(s, now);
    feed_watchdog(s, now);
    return true;
}

hb_worker *hb_server_worker(hb_server *s)
{
    return s->actions.worker;
}

void hb_server_run(hb_server *s)
{
    while (hb_server_turn(s))
        wait(s);
    while (hb_controller_work(s->controller)) /* so that the window that is kept is complete */
        ;
}

/* ---- life ---- */

static double read_vehicle_time(void *context)
{
    return ((const hb_server *)context)->vehicle.time;
}

/* On the planner's thread. */
static void planner_started(void *context)
{
    hb_server *s = context;

    hb_realtime_thread(s->config, HB_ROLE_PLANNER, "planner");
}

static void planner_hurries(void *context, pid_t thread, bool on)
{
    hb_server *s = context;

    hb_realtime_hurry(s->config, HB_ROLE_PLANNER, thread, on);
}

/* Of the model in use or the shadow's, whichever has more. */
static int most_coefficients(const hb_server_settings *set)
{
    int n = hb_model_ncoefficients(set->model), shadow = set->shadow ? hb_model_ncoefficients(set->shadow) : 0;

    return n > shadow ? n : shadow;
}

/* On the shadow's thread: it makes way for everyone. */
static void shadow_started(void *context)
{
    (void)context;
    hb_realtime_aside("shadow");
}

static hb_server *lay_out(const hb_server_settings *set, hb_arena *arena)
{
    size_t nx = (size_t)set->model->nx, nu = (size_t)set->model->nu, message = (size_t)set->config->sockets.max_message;
    size_t numbers = message / sizeof(double) + 1, nh = (size_t)set->config->controller.planner.horizon;
    hb_server none = {0}, *s = hb_arena_object(arena, &none, sizeof none);

    s->config = hb_arena_take(arena, 1, sizeof *s->config);
    s->record.signals = hb_arena_take(arena, hb_signals_size(set->model->nx, set->model->nu), 1);
    s->telemetry.state = hb_arena_take(arena, nx, sizeof(double));
    s->telemetry.control = hb_arena_take(arena, nu, sizeof(double));
    s->last.action = hb_arena_take(arena, nu, sizeof(double));
    s->last.target = hb_arena_take(arena, nx, sizeof(double));
    s->last.states = hb_arena_take(arena, nx * (nh + 1), sizeof(double));
    s->shadow.trial = hb_arena_take(arena, nx, sizeof(double));
    s->actions.flown.action = hb_arena_take(arena, nu * nh, sizeof(double));
    s->control.prediction.state = hb_arena_take(arena, numbers, sizeof(double));
    s->control.prediction.control = hb_arena_take(arena, numbers, sizeof(double));
    s->control.prediction.predicted = hb_arena_take(arena, numbers, sizeof(double));
    for (int i = 0; i < HB_RING; i++) {
        s->telemetry.ring[i].x = hb_arena_take(arena, nx, sizeof(double));
        s->telemetry.ring[i].u = hb_arena_take(arena, nu, sizeof(double));
    }
    return hb_arena_first(arena);
}

static void fill_in(hb_server *s, const hb_server_settings *set)
{
    const hb_config *c = set->config;
    const hb_model *m = set->model;

    s->model = m;
    s->controller = s->shadow.kept = set->controller;
    s->transport = set->transport;
    s->clock = set->clock;
    s->wall = set->wall;
    s->vehicle.lockstep = c->clock == HB_FLIGHT_BY_VEHICLE;
    s->flight = s->vehicle.lockstep ? (hb_clock){.now = read_vehicle_time, .context = s} : set->clock;
    s->log = set->log;
    s->target.kept = set->kept_target;
    s->record.journal = set->journal;
    s->status.resumed = set->resumed;
    *s->config = *c;
    s->settings = c->controller;
    s->status.period = c->status_period;
    s->max_message = c->sockets.max_message;
    s->life.watchdog = hb_notify_watchdog();
    memcpy(s->name, c->name, sizeof s->name);
    memcpy(s->model_path, c->model, sizeof s->model_path);
    s->card = (hb_model_card){.model = m,
                              .path = s->model_path,
                              .horizon = c->controller.planner.horizon,
                              .plan_dt = c->controller.planner.dt > 0 ? c->controller.planner.dt : m->dt};
    if (set->shadow) {
        s->shadow.model = set->shadow;
        s->shadow.settings = *set->shadow_settings;
        memcpy(s->shadow.path, c->shadow.model, sizeof s->shadow.path);
    }
    hb_server_take_settings(s);
    s->limit.status.period = s->limit.estimate.period = 1;
    s->limit.refusal.period = s->limit.handshake.period = s->limit.right.period = 5;
    s->limit.misled.period = s->limit.crowd.period = s->limit.flood.period = 5;
    s->limit.clock.period = 5;
    s->limit.reset.period = s->limit.target.period = 1;
    s->limit.guest.period = 60;
}

int hb_server_new(hb_server **ret, const hb_server_settings *set, hb_error *err)
{
    const hb_model *m = set->model;
    const hb_config *c = set->config;
    int nh = c->controller.planner.horizon;
    hb_arena arena = {0};

    lay_out(set, &arena);
    int r = hb_arena_allocate(&arena, err);
    if (r)
        return r;
    hb_server *s = lay_out(set, &arena);
    fill_in(s, set);
    const hb_wire_sizes sizes = {.nx = m->nx,
                                 .nu = m->nu,
                                 .horizon = nh,
                                 .ncoefficients = hb_model_ncoefficients(m),
                                 .nb = m->nb,
                                 .shadow_nb = set->shadow ? set->shadow->nb : 0,
                                 .nshadow = set->shadow ? hb_model_ncoefficients(set->shadow) : 0,
                                 .max_message = c->sockets.max_message};
    hb_pilot pilot = {.key = set->pilot_key, .lockstep = s->vehicle.lockstep};
    memcpy(pilot.name, c->security.pilot, sizeof pilot.name);
    const hb_worker_settings worker = {
        .controller = s->controller,
        .model = m,
        .clock = s->flight,
        .processor = s->vehicle.lockstep ? s->flight : set->processor,
        .stepped = set->stepped || s->vehicle.lockstep,
        .started = planner_started,
        .hurry = planner_hurries,
        .context = s,
    };
    const hb_shadow_settings shadow = {
        .model = set->shadow,
        .controller = set->shadow_controller,
        .most_coefficients = most_coefficients(set),
        .stepped = set->stepped || s->vehicle.lockstep,
        .started = shadow_started,
    };
    r = hb_server_orders_open(&s->orders, err);
    if (!r)
        r = hb_wire_new(&s->wire, &sizes, err);
    if (!r)
        r = hb_queue_new(&s->actions.queue, m->nx, m->nu,
                         (nh + 1 > HB_REFERENCE_ROWS ? nh + 1 : HB_REFERENCE_ROWS) * m->nx, &pilot, err);
    if (!r)
        r = hb_worker_new(&s->actions.worker, &worker, err);
    if (!r && set->shadow)
        r = hb_shadow_new(&s->shadow.thread, &shadow, err);
    if (r) {
        hb_server_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void hb_server_free(hb_server *s)
{
    if (!s)
        return;
    hb_shadow_free(s->shadow.thread);
    hb_worker_free(s->actions.worker);
    hb_queue_free(s->actions.queue);
    hb_wire_free(s->wire);
    hb_server_orders_close(&s->orders);
    free(s);
}
