#include "server/worker.h"
#include "base/numeric.h"
#include "server/wake.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { IDLE, POSTED, DONE };

static const long reply_ns = 200000;      /* before preparing begins: the reply may reach its client meanwhile */
enum { PREDICT_STEPS = 8 };               /* of one piece of a prediction, */
static const double predict_slice = 1e-3; /* and seconds that all its pieces may take before actions have their turn */

struct hb_worker {
    hb_worker_settings settings;
    hb_plan_order job;
    _Atomic int state;
    _Atomic unsigned long beats;
    _Atomic bool stop;
    _Atomic bool interrupt; /* of preparing: a job is posted, or the server wants the controller for itself */
    _Atomic bool preparing;
    _Atomic bool hurried;         /* somebody waits for the thread; the server's to change */
    _Atomic bool unprepared;      /* there is a new plan to prepare from */
    int wake_worker, wake_server; /* eventfds */
    pthread_t thread;
    _Atomic pid_t id; /* of the thread, to the kernel */
    bool running;
};

static void predict(hb_worker *w, hb_prediction *p)
{
    size_t nx = (size_t)w->settings.model->nx, nu = (size_t)w->settings.model->nu;
    double until = w->settings.clock.now(w->settings.clock.context) + predict_slice;

    while (p->trajectory < p->count && !p->failed) {
        double *states = p->predicted + (size_t)p->trajectory * (size_t)(p->steps + 1) * nx;
        double x[HB_MAX_VEHICLE_STATES];
        int n = p->steps - p->step < PREDICT_STEPS ? p->steps - p->step : PREDICT_STEPS;
        const double *controls = p->control + ((size_t)p->trajectory * (size_t)p->steps + (size_t)p->step) * nu;

        memcpy(x, p->step ? states + (size_t)p->step * nx : p->state + (size_t)p->trajectory * nx, nx * sizeof *x);
        if (hb_controller_predict(w->settings.controller, x, controls, n, p->dt, states + (size_t)p->step * nx,
                                  &p->error))
            p->failed = true;
        else if (!hb_all_finite(states + (size_t)p->step * nx, (n + 1) * (int)nx))
            p->failed = hb_fail(&p->error, EDOM,
                                "trajectory %d of the prediction is not finite from step %d of %g s on: "
                                "shorter steps, or states and controls nearer to those it was trained on",
                                p->trajectory, p->step, p->dt) != 0;
        p->step += n;
        if (p->step == p->steps) {
            p->step = 0;
            p->trajectory++;
        }
        if (w->settings.clock.now(w->settings.clock.context) >= until)
            break;
    }
}

static void run(hb_worker *w, hb_plan_order *job)
{
    const hb_clock *clock = &w->settings.clock;

    if (job->kind == HB_JOB_COMMAND && !job->request->guest)
        w->unprepared = true;
    job->started = clock->now(clock->context);
    if (job->kind == HB_JOB_COMMAND)
        job->command = hb_controller_command(w->settings.controller, job->request, clock);
    else {
        job->prepared = hb_controller_prepared(w->settings.controller);
        predict(w, job->prediction);
        job->snapshot = hb_controller_snapshot_taken(w->settings.controller);
    }
    job->finished = clock->now(clock->context);
}

/* The thread's priority is changed on the server's alone, so that one change never overtakes another: a thread that
 * took its own away could be left without processor before it has said so, while the server waits for it. */
static void hurry(hb_worker *w, bool on)
{
    if (w->id == 0 || atomic_load(&w->hurried) == on)
        return;
    w->settings.hurry(w->settings.context, w->id, on);
    atomic_store(&w->hurried, on);
}

bool hb_worker_run(hb_worker *w)
{
    if (atomic_load_explicit(&w->state, memory_order_acquire) != POSTED)
        return false;
    atomic_store(&w->interrupt, false);
    run(w, &w->job);
    return true;
}

void hb_worker_deliver(hb_worker *w)
{
    atomic_store_explicit(&w->state, DONE, memory_order_release);
    hb_wake(w->wake_server);
}

/* After the reply, while no request waits. `preparing` is set before `interrupt` is read, and an interrupting thread
 * does the reverse: one of them always sees the other. */
void hb_worker_prepare(hb_worker *w)
{
    if (!w->unprepared || (!w->settings.stepped && atomic_load(&w->hurried)))
        return;
    atomic_store(&w->preparing, true);
    if (!atomic_load(&w->interrupt))
        w->unprepared =
            hb_controller_prepare(w->settings.controller, &w->settings.processor, &w->interrupt, UINT64_MAX);
    atomic_store(&w->preparing, false);
}

/* Waits a moment before preparing, so that the server's and the client's threads get a processor for the reply; a new
 * job ends the wait. */
static void let_reply_go(hb_worker *w)
{
    struct pollfd wait = {.fd = w->wake_worker, .events = POLLIN};

    if (w->unprepared)
        ppoll(&wait, 1, &(struct timespec){.tv_nsec = reply_ns}, NULL);
}

static void *work(void *context)
{
    hb_worker *w = context;

    w->settings.started(w->settings.context);
    w->id = gettid();
    while (!atomic_load_explicit(&w->stop, memory_order_acquire)) {
        struct pollfd wait = {.fd = w->wake_worker, .events = POLLIN};
        if (poll(&wait, 1, w->unprepared ? HB_WORKER_RETRY_MS : HB_WORKER_BEAT_MS) > 0)
            hb_wake_drain(w->wake_worker);
        if (hb_worker_run(w))
            hb_worker_deliver(w);
        let_reply_go(w);
        hb_worker_prepare(w);
        atomic_fetch_add_explicit(&w->beats, 1, memory_order_relaxed);
    }
    return NULL;
}

int hb_worker_new(hb_worker **ret, const hb_worker_settings *s, hb_error *err)
{
    hb_worker *w = calloc(1, sizeof *w);

    if (!w)
        return hb_fail(err, ENOMEM, "out of memory");
    w->settings = *s;
    w->hurried = true; /* as it starts */
    w->wake_worker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->wake_server = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int why = w->wake_worker < 0 || w->wake_server < 0 ? errno : 0;
    if (!why && !s->stepped)
        why = pthread_create(&w->thread, NULL, work, w);
    if (why) {
        hb_worker_free(w);
        return hb_fail(err, why, "cannot start the planner's thread: %s", strerror(why));
    }
    w->running = !s->stepped;
    *ret = w;
    return 0;
}

void hb_worker_free(hb_worker *w)
{
    if (!w)
        return;
    if (w->running) {
        atomic_store_explicit(&w->stop, true, memory_order_release);
        hb_worker_interrupt(w);
        hurry(w, true);
        hb_wake(w->wake_worker);
        pthread_join(w->thread, NULL);
    }
    if (w->wake_worker >= 0)
        close(w->wake_worker);
    if (w->wake_server >= 0)
        close(w->wake_server);
    free(w);
}

bool hb_worker_idle(const hb_worker *w)
{
    return atomic_load_explicit(&w->state, memory_order_acquire) == IDLE;
}

void hb_worker_post(hb_worker *w, const hb_plan_order *job)
{
    w->job = *job;
    hb_worker_interrupt(w);
    hurry(w, true);
    atomic_store_explicit(&w->state, POSTED, memory_order_release);
    hb_wake(w->wake_worker);
}

void hb_worker_interrupt(hb_worker *w)
{
    atomic_store(&w->interrupt, true);
}

bool hb_worker_prepares(const hb_worker *w)
{
    return atomic_load(&w->preparing);
}

void hb_worker_hold(hb_worker *w)
{
    hb_worker_interrupt(w);
    /* asleep, not spinning: there may be one processor for both */
    while (atomic_load(&w->preparing)) {
        hurry(w, true);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

void hb_worker_release(hb_worker *w)
{
    atomic_store(&w->interrupt, false);
    hurry(w, false);
    if (w->unprepared)
        hb_wake(w->wake_worker);
}

void hb_worker_do(hb_worker *w, hb_plan_order *job)
{
    run(w, job);
}

void hb_worker_use(hb_worker *w, hb_controller *controller, const hb_model *model)
{
    w->settings.controller = controller;
    w->settings.model = model;
}

const hb_plan_order *hb_worker_collect(hb_worker *w)
{
    hb_wake_drain(w->wake_server);
    if (atomic_load_explicit(&w->state, memory_order_acquire) != DONE)
        return NULL;
    atomic_store_explicit(&w->state, IDLE, memory_order_relaxed);
    hurry(w, false);
    return &w->job;
}

int hb_worker_fd(const hb_worker *w)
{
    return w->wake_server;
}

unsigned long hb_worker_beats(const hb_worker *w)
{
    return atomic_load_explicit(&w->beats, memory_order_relaxed);
}
