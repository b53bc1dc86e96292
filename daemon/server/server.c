#include "server/server.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
    return s->transport.receive(s->transport.context, from, e, s->frame, s->max_message);
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
        s->counters.replies_undelivered++;
}

/* ---- telemetry ---- */

/* Numbers that go back are those of a publisher that started anew, or of a second one: until they have ascended for a
 * while, a step in them says nothing about losses. */
static void count_losses(hb_server *s, uint64_t sequence)
{
    enum { ASCENDING = 10, LARGEST = 10000 };

    if (!sequence || !s->sequence || sequence <= s->sequence || sequence - s->sequence > LARGEST)
        s->ascending = 0;
    else if (s->ascending < ASCENDING)
        s->ascending++;
    else
        s->counters.telemetry_lost += sequence - s->sequence - 1;
    s->sequence = sequence;
}

static void note_newest(hb_server *s, const hb_observation *o, double arrived)
{
    s->sample_arrived = arrived;
    memcpy(s->newest_state, o->x, (size_t)s->model->nx * sizeof *o->x);
    if (s->model->nu)
        memcpy(s->newest_control, o->u, (size_t)s->model->nu * sizeof *o->u);
    s->sampled = true;
}

/* In lock-step a sample that comes by itself could be learned from before or after a request, as it happens. */
static void set_aside(hb_server *s)
{
    unsigned held;

    s->counters.set_aside[HB_REASON_CLOCK]++;
    if (hb_log_due(&s->clock_limit, hb_server_now(s), &held))
        hb_log_line(s->log, HB_LOG_WARNING,
                    "telemetry: samples are set aside: with latency.clock: vehicle they come with the requests "
                    "(ActionRequest.telemetry; lockstep of the clients) (%u more before)",
                    held);
}

/* Empties the socket into the ring; what does not fit pushes the oldest out. */
static void receive_telemetry(hb_server *s)
{
    size_t nx = (size_t)s->model->nx, nu = (size_t)s->model->nu;
    hb_envelope envelope;

    for (int i = 0; i < HB_REQUESTS_A_TURN; i++) {
        hb_observation o;
        uint64_t sequence;
        int n = hb_server_receive(s, HB_CHANNEL_TELEMETRY, &envelope);
        if (n == HB_NOTHING)
            return;
        s->counters.telemetry++;
        if (s->lockstep) {
            set_aside(s);
            continue;
        }
        hb_reason why = n == HB_OVERSIZED ? HB_REASON_TOO_LARGE
                        : n < 0 || envelope.nframes
                            ? HB_REASON_MALFORMED
                            : hb_wire_read_telemetry(s->wire, s->frame, (size_t)n, &o, &sequence);
        bool nonsense = why == HB_REASON_NOT_FINITE; /* the controller hears of it, and says that it is at fault */
        if (why != HB_REASON_NONE && !nonsense) {
            s->counters.set_aside[why]++;
            continue;
        }
        count_losses(s, sequence);
        if (s->ring_count == HB_RING) {
            s->ring_first = (s->ring_first + 1) % HB_RING;
            s->ring_count--;
            s->counters.telemetry_overrun++;
        }
        hb_sample *sample = &s->ring[(s->ring_first + s->ring_count++) % HB_RING];
        sample->arrived = hb_server_flight_now(s);
        sample->sequence = sequence;
        sample->observation = o;
        sample->observation.x = memcpy(sample->x, o.x, nx * sizeof *sample->x);
        sample->observation.u = sample->u;
        if (nu)
            memcpy(sample->u, o.u, nu * sizeof *sample->u);
        if (!nonsense)
            note_newest(s, &o, sample->arrived);
    }
}

void hb_server_learn_carried(hb_server *s, int nsamples)
{
    for (int i = 0; i < nsamples; i++) {
        hb_sample sample = {.arrived = hb_server_flight_now(s)};
        hb_reason why = hb_wire_request_sample(s->wire, i, &sample.observation, &sample.sequence);

        s->counters.telemetry++;
        count_losses(s, sample.sequence);
        if (why == HB_REASON_NONE)
            note_newest(s, &sample.observation, sample.arrived);
        hb_controller_observe(s->controller, &sample.observation, sample.arrived);
        hb_shadow_observe(s->shadow, &sample.observation, sample.arrived);
        hb_server_record_sample(s, &sample, false);
    }
    s->work_left |= nsamples > 0;
}

/* Learns from the oldest sample of the ring, or, when they pile up, from several at once. */
static void learn(hb_server *s)
{
    int n = s->ring_count < HB_ESTIMATOR_TOGETHER ? s->ring_count > 0 : HB_ESTIMATOR_TOGETHER;

    s->work_left |= n > 0;
    for (; n > 0; n--) {
        hb_sample *sample = &s->ring[s->ring_first];
        (n > 1 ? hb_controller_observe_more : hb_controller_observe)(s->controller, &sample->observation,
                                                                     sample->arrived);
        hb_shadow_observe(s->shadow, &sample->observation, sample->arrived);
        hb_server_record_sample(s, sample, n > 1);
        s->ring_first = (s->ring_first + 1) % HB_RING;
        s->ring_count--;
    }
}

/* ---- the main thread's orders ---- */

/* Both return false when it has to wait for a later turn. */
static bool take_reload(hb_server *s, const hb_order *order)
{
    if (order->error)
        hb_fail(&s->order_error, EINVAL, "%s", order->error);
    else if (s->shadow && !hb_shadow_claim(s->shadow))
        return false;
    else {
        s->retuned = order->settings;
        s->shadow_retuned = order->shadow_settings;
        const bool stays = hb_server_reload_target(s, &s->retuned, &s->shadow_retuned);
        if (hb_server_retune(s, &s->retuned, &s->shadow_retuned, &s->order_error) == 0) {
            s->status_period = order->status_period;
            hb_server_reloaded_target(s, &order->settings);
            hb_server_record_change(
                s, &(hb_recorded_change){.stays = stays ? s->settings.target : NULL, .prepared = s->prepared_before},
                order->configuration);
        }
    }
    s->counters.reloads++;
    s->counters.reload_errors += s->order_error.code != 0;
    hb_server_reloaded(s, order, s->order_error.code ? s->order_error.text : NULL);
    return true;
}

/* Tells a client what is in force. */
static bool take_settings(hb_server *s, const hb_order *order)
{
    hb_server_answer(s, &s->setter, &(hb_control_reply){.settings = order->told, .error = order->error});
    return true;
}

static bool take_promotion(hb_server *s, const hb_order *order)
{
    if (order->error)
        hb_fail(&s->order_error, EINVAL, "%s", order->error);
    else if (hb_server_promote(s, &s->order_error) == -EAGAIN)
        return false;
    hb_server_promoted(s, s->order_error.code ? s->order_error.text : NULL);
    return true;
}

static void take_order(hb_server *s)
{
    if (atomic_load_explicit(&s->order_state, memory_order_acquire) != HB_ORDER_POSTED || !hb_worker_idle(s->worker))
        return;
    s->order_error = (hb_error){0};
    if (!(s->order->promote ? take_promotion : s->order->told ? take_settings : take_reload)(s, s->order))
        return;
    atomic_store_explicit(&s->order_state, HB_ORDER_DONE, memory_order_release);
    hb_wake(s->done_fd);
}

void hb_server_order_post(hb_server *s, const hb_order *order)
{
    s->order = order;
    atomic_store_explicit(&s->order_state, HB_ORDER_POSTED, memory_order_release);
    hb_wake(s->wake_fd);
}

int hb_server_order_taken(hb_server *s, hb_error *err)
{
    if (atomic_load_explicit(&s->order_state, memory_order_acquire) != HB_ORDER_DONE)
        return 1;
    atomic_store_explicit(&s->order_state, HB_ORDER_NONE, memory_order_relaxed);
    *err = s->order_error;
    return -s->order_error.code;
}

int hb_server_order(hb_server *s, const hb_order *order, hb_error *err)
{
    int r;

    hb_server_order_post(s, order);
    while ((r = hb_server_order_taken(s, err)) > 0) {
        struct pollfd done = {.fd = s->done_fd, .events = POLLIN};
        if (poll(&done, 1, -1) > 0)
            hb_wake_drain(s->done_fd);
    }
    return r;
}

void hb_server_stop(hb_server *s)
{
    atomic_store_explicit(&s->stop, true, memory_order_release);
    hb_wake(s->wake_fd);
}

hb_worker *hb_server_worker(hb_server *s)
{
    return s->worker;
}

int hb_server_setting_fd(const hb_server *s)
{
    return s->setting_fd;
}

const hb_setting_wish *hb_server_setting_wish(const hb_server *s)
{
    return &s->wish;
}

int hb_server_reload_fd(const hb_server *s)
{
    return s->reload_fd;
}

/* ---- the loop ---- */

/* Learning may have left something for later, and nobody waits for an answer. */
static bool has_work(const hb_server *s)
{
    return s->work_left && !s->in_hand;
}

double hb_server_due(const hb_server *s)
{
    double due = fmin(s->next_second, hb_server_guard_time(s));

    if (s->ring_count || has_work(s))
        return hb_server_now(s);
    return s->status_period > 0 ? fmin(due, s->next_status) : due;
}

/* Sleeps until there is something to do. */
static void wait(hb_server *s)
{
    const int fd[] = {s->wake_fd, hb_worker_fd(s->worker)};
    double seconds = hb_server_due(s) - hb_server_now(s);

    if (s->ring_count || has_work(s))
        return;
    s->transport.wait(s->transport.context, fd, 2, fmin(fmax(seconds, 0), longest_sleep));
    hb_wake_drain(s->wake_fd);
}

/* Tells the service manager that we live, when the planner's thread has proven that it does. */
static void feed_watchdog(hb_server *s, double now)
{
    unsigned long beats = s->lockstep ? s->beats + 1 : hb_worker_beats(s->worker); /* there it is this thread */

    if (s->watchdog <= 0 || now - s->fed < s->watchdog / 4 || beats == s->beats || !hb_notify_at_once("WATCHDOG=1"))
        return;
    s->fed = now;
    s->beats = beats;
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
        s->counters.handshakes_refused++;
        /* strangers may come by the thousand, and must not hide a client that is known */
        hb_log_limit *limit = verdict == HB_STRANGER ? &s->handshake_limit : &s->right_limit;
        if (hb_log_due(limit, hb_server_now(s), &held))
            hb_log_line(s->log, HB_LOG_WARNING, "security: %s (%u more like it before)", why, held);
    }
    int seen = t->tend ? t->tend(t->context) : 0;
    if (seen & HB_CROWDED && hb_log_due(&s->crowd_limit, hb_server_now(s), &held))
        hb_log_line(s->log, HB_LOG_WARNING,
                    "sockets: new connections are turned away: there are nearly as many as file descriptors "
                    "(RLIMIT_NOFILE; LimitNOFILE= of the unit)");
    if (seen & HB_FLOODED && hb_log_due(&s->flood_limit, hb_server_now(s), &held))
        hb_log_line(s->log, HB_LOG_WARNING,
                    "security: new connections are turned away: too many came from one address, or from all of them "
                    "together; those that are there go on");
    if (seen & HB_MISLED && hb_log_due(&s->misled_limit, hb_server_now(s), &held))
        hb_log_line(s->log, HB_LOG_WARNING,
                    "security: a handshake failed: the client uses another server key than ours, or no keys");
}

/* The window lay in a file that is gone. */
static void notice_lost_state(hb_server *s)
{
    if (!hb_state_lost())
        return;
    if (s->kept == s->controller)
        hb_controller_forget(s->controller);
    else
        hb_shadow_forget(s->shadow);
    hb_server_keep_target(s);
    hb_log_line(s->log, HB_LOG_ERROR,
                "state_file was cut short by somebody: the window is lost, and starts anew in memory alone");
}

/* At the end: refuses what waits, answers the current request, and says when that is done. */
static bool finished(hb_server *s)
{
    if (!s->stopping && atomic_load_explicit(&s->stop, memory_order_acquire)) {
        s->stopping = true;
        s->stop_by = hb_server_now(s) + stop_within;
    }
    if (!s->stopping)
        return false;
    hb_server_refuse_all(s, HB_REASON_STOPPING);
    if (!hb_worker_idle(s->worker) && hb_server_now(s) <= s->stop_by)
        return false;
    hb_server_refuse_callers(s);
    return true;
}

bool hb_server_turn(hb_server *s)
{
    if (!s->running) {
        s->started = s->rate_since = s->fed = hb_server_now(s);
        hb_server_record_start(s);
        hb_server_resume_target(s);
        s->running = true;
    }
    if (finished(s))
        return false;
    /* nobody takes the name of a pilot that flies; one whose connection has died comes back by a new one, while the
     * old one may seem to be there for seconds */
    if (s->transport.keep_names)
        s->transport.keep_names(s->transport.context, hb_queue_flown(s->queue, hb_server_now(s)));
    hb_server_collect(s);
    take_order(s);
    hb_server_set_target(s);
    hb_server_receive_requests(s);
    hb_server_serve(s);
    receive_telemetry(s);
    /* in turns without a sample, and one piece each, so that a request that comes meanwhile does not wait for long */
    if (s->ring_count == 0 && has_work(s))
        s->work_left = hb_controller_work(s->controller);
    learn(s);
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

void hb_server_run(hb_server *s)
{
    while (hb_server_turn(s))
        wait(s);
    while (hb_controller_work(s->controller)) /* what is kept over a restart is whole */
        ;
}

/* ---- life ---- */

static double read_vehicle_time(void *context)
{
    return ((const hb_server *)context)->vehicle_time;
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
    size_t numbers = message / sizeof(double) + 1;
    hb_server *s = hb_arena_take(arena, 1, sizeof *s);
    hb_config *config = hb_arena_take(arena, 1, sizeof *config);
    uint8_t *frame = hb_arena_take(arena, message, 1);
    uint8_t *signals = hb_arena_take(arena, hb_signals_size(set->model->nx, set->model->nu), 1);
    double *state = hb_arena_take(arena, nx, sizeof *state);
    double *control = hb_arena_take(arena, nu, sizeof *control);
    double *action = hb_arena_take(arena, nu, sizeof *action);
    double *target = hb_arena_take(arena, nx, sizeof *target);
    double *states = hb_arena_take(arena, nx * (size_t)(set->config->controller.planner.horizon + 1), sizeof *states);
    double *trial = hb_arena_take(arena, nx, sizeof *trial);
    double *flown = hb_arena_take(arena, nu * (size_t)set->config->controller.planner.horizon, sizeof *flown);
    hb_prediction p = {.state = hb_arena_take(arena, numbers, sizeof(double)),
                       .control = hb_arena_take(arena, numbers, sizeof(double)),
                       .predicted = hb_arena_take(arena, numbers, sizeof(double))};

    if (s) {
        s->config = config;
        s->frame = frame;
        s->signals = signals;
        s->newest_state = state;
        s->newest_control = control;
        s->last_action = action;
        s->last_target = target;
        s->last_states = states;
        s->prediction = p;
        s->trial = trial;
        s->flown.action = flown;
    }
    for (int i = 0; i < HB_RING; i++) {
        double *x = hb_arena_take(arena, nx, sizeof *x), *u = hb_arena_take(arena, nu, sizeof *u);
        if (s) {
            s->ring[i].x = x;
            s->ring[i].u = u;
        }
    }
    return s;
}

static void fill_in(hb_server *s, const hb_server_settings *set)
{
    const hb_config *c = set->config;
    const hb_model *m = set->model;

    s->model = m;
    s->controller = s->kept = set->controller;
    s->transport = set->transport;
    s->clock = set->clock;
    s->wall = set->wall;
    s->lockstep = c->clock == HB_FLIGHT_BY_VEHICLE;
    s->flight = s->lockstep ? (hb_clock){.now = read_vehicle_time, .context = s} : set->clock;
    s->log = set->log;
    s->kept_target = set->kept_target;
    s->journal = set->journal;
    s->resumed = set->resumed;
    *s->config = *c;
    s->settings = c->controller;
    s->status_period = c->status_period;
    s->max_message = c->sockets.max_message;
    s->watchdog = hb_notify_watchdog();
    memcpy(s->name, c->name, sizeof s->name);
    memcpy(s->model_path, c->model, sizeof s->model_path);
    s->card = (hb_model_card){.model = m,
                              .path = s->model_path,
                              .horizon = c->controller.planner.horizon,
                              .plan_dt = c->controller.planner.dt > 0 ? c->controller.planner.dt : m->dt};
    if (set->shadow) {
        s->shadow_model = set->shadow;
        s->shadow_settings = *set->shadow_settings;
        memcpy(s->shadow_path, c->shadow.model, sizeof s->shadow_path);
    }
    hb_server_take_settings(s);
    s->status_limit.period = s->estimate_limit.period = 1;
    s->refusal_limit.period = s->handshake_limit.period = s->right_limit.period = 5;
    s->misled_limit.period = s->crowd_limit.period = s->flood_limit.period = 5;
    s->clock_limit.period = 5;
    s->reset_limit.period = s->target_limit.period = 1;
    s->guest_limit.period = 60;
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->reload_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->promote_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->setting_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
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
    hb_pilot pilot = {.key = set->pilot_key, .lockstep = s->lockstep};
    memcpy(pilot.name, c->security.pilot, sizeof pilot.name);
    const hb_worker_settings worker = {
        .controller = s->controller,
        .model = m,
        .clock = s->flight,
        .processor = s->lockstep ? s->flight : set->processor,
        .stepped = set->stepped || s->lockstep,
        .started = planner_started,
        .hurry = planner_hurries,
        .context = s,
    };
    const hb_shadow_settings shadow = {
        .model = set->shadow,
        .controller = set->shadow_controller,
        .most_coefficients = most_coefficients(set),
        .stepped = set->stepped || s->lockstep,
        .started = shadow_started,
    };
    if (s->wake_fd < 0 || s->done_fd < 0 || s->reload_fd < 0 || s->promote_fd < 0 || s->setting_fd < 0)
        r = hb_fail(err, errno, "eventfd: %s", strerror(errno));
    if (!r)
        r = hb_wire_new(&s->wire, &sizes, err);
    if (!r)
        r = hb_queue_new(&s->queue, m->nx, m->nu, (nh + 1 > HB_REFERENCE_ROWS ? nh + 1 : HB_REFERENCE_ROWS) * m->nx,
                         &pilot, err);
    if (!r)
        r = hb_worker_new(&s->worker, &worker, err);
    if (!r && set->shadow)
        r = hb_shadow_new(&s->shadow, &shadow, err);
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
    hb_shadow_free(s->shadow);
    hb_worker_free(s->worker);
    hb_queue_free(s->queue);
    hb_wire_free(s->wire);
    const int fds[] = {s->wake_fd, s->done_fd, s->reload_fd, s->promote_fd, s->setting_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(s);
}
