#include "server/shadow.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/wake.h"

enum { RING = 256 }; /* messages that may wait: more than a second of fast telemetry */

static const double same_period = 1e-3; /* relative */

typedef enum { OBSERVE, OBSERVE_REQUEST, HEAR, FORGET } message_kind;

/* An event for the shadow. Vectors are in its own memory. */
typedef struct message {
    message_kind kind;
    int64_t time_us;
    uint32_t reset_counter;
    bool fresh;       /* of a request: by another client than the last */
    bool has_control; /* of an observation; `applied` of a request */
    double now;
    double *x, *u; /* nx, nu */
} message;

enum { IDLE, BUSY, HELD }; /* who uses the controller: nobody, the shadow's thread, the server's */

struct hb_shadow {
    const hb_model *m;
    hb_controller *controller;
    int nx, nu;
    void (*started)(void *context);
    void *context;

    message ring[RING];
    _Atomic unsigned in, out; /* counts of messages put in, and taken out */
    _Atomic int state;
    _Atomic bool wanted; /* the server waits for its claim */
    _Atomic bool stop;
    int wake_fd;
    pthread_t thread;
    bool running; /* there is a thread */

    hb_shadow_view view;
    hb_real *coefficient; /* most_coefficients, */
    double *variance;     /* likewise: those of the view */
};

/* ---- models of one vehicle ---- */

static int same_channels(const char *what, int n, char (*name)[HB_NAME_SIZE], char (*unit)[HB_NAME_SIZE], int nother,
                         char (*other)[HB_NAME_SIZE], char (*other_unit)[HB_NAME_SIZE], hb_error *err)
{
    if (n != nother)
        return hb_fail(err, EINVAL, "it has %d %ss, the model in use has %d: both must be of one vehicle", nother, what,
                       n);
    for (int i = 0; i < n; i++) {
        if (strcmp(name[i], other[i]))
            return hb_fail(err, EINVAL, "its %s %d is %s, that of the model in use %s: both must be of one vehicle",
                           what, i, other[i], name[i]);
        if (strcmp(unit[i], other_unit[i]))
            return hb_fail(err, EINVAL, "its %s %s is in '%s', that of the model in use in '%s'", what, name[i],
                           other_unit[i], unit[i]);
    }
    return 0;
}

int hb_shadow_fits(const hb_model *m, const hb_model *other, hb_error *err)
{
    int r = same_channels("state", m->nx, m->state_name, m->state_unit, other->nx, other->state_name, other->state_unit,
                          err);

    if (!r)
        r = same_channels("control", m->nu, m->control_name, m->control_unit, other->nu, other->control_name,
                          other->control_unit, err);
    if (!r && fabs(m->dt - other->dt) > same_period * m->dt)
        r = hb_fail(err, EINVAL,
                    "its period is %g s, that of the model in use %g s: their errors could not be compared", other->dt,
                    m->dt);
    return r;
}

/* ---- the shadow's thread ---- */

static void take_in(hb_shadow *s, const message *m)
{
    hb_controller *c = s->controller;

    if (m->kind == OBSERVE)
        hb_controller_observe(c,
                              &(hb_observation){.time_us = m->time_us,
                                                .x = m->x,
                                                .nx = s->nx,
                                                .u = m->has_control ? m->u : NULL,
                                                .nu = s->nu,
                                                .reset_counter = m->reset_counter},
                              m->now);
    else if (m->kind == OBSERVE_REQUEST)
        hb_controller_observe_request(c,
                                      &(hb_request){.time_us = m->time_us,
                                                    .x = m->x,
                                                    .nx = s->nx,
                                                    .applied = m->has_control ? m->u : NULL,
                                                    .napplied = m->has_control ? s->nu : 0,
                                                    .reset_counter = m->reset_counter,
                                                    .fresh = m->fresh},
                                      m->now);
    else if (m->kind == HEAR)
        hb_controller_hear(c, m->time_us, m->u);
    else
        hb_controller_forget(c);
}

static bool waits(const hb_shadow *s)
{
    return atomic_load_explicit(&s->in, memory_order_acquire) != atomic_load_explicit(&s->out, memory_order_relaxed);
}

static bool become(hb_shadow *s, int next)
{
    return atomic_compare_exchange_strong(&s->state, &(int){IDLE}, next);
}

/* Takes in all that waits, until another thread claims the controller; that thread wakes this one when done. */
static void catch_up(hb_shadow *s)
{
    while (!atomic_load(&s->stop) && !atomic_load(&s->wanted) && waits(s) && become(s, BUSY)) {
        unsigned out = atomic_load_explicit(&s->out, memory_order_relaxed);
        take_in(s, &s->ring[out % RING]);
        atomic_store_explicit(&s->out, out + 1, memory_order_release);
        atomic_store(&s->state, IDLE);
    }
}

static void *work(void *context)
{
    hb_shadow *s = context;

    if (s->started)
        s->started(s->context);
    while (!atomic_load(&s->stop)) {
        struct pollfd wait = {.fd = s->wake_fd, .events = POLLIN};
        if (poll(&wait, 1, -1) > 0)
            hb_wake_drain(s->wake_fd);
        catch_up(s);
    }
    return NULL;
}

/* ---- the server's thread ---- */

/* The place of the next message; NULL: there is no room for it. */
static message *put(hb_shadow *s, message_kind kind)
{
    unsigned in = atomic_load_explicit(&s->in, memory_order_relaxed),
             out = atomic_load_explicit(&s->out, memory_order_acquire);

    if (in - out == RING) {
        s->view.lost++;
        return NULL;
    }
    message *m = &s->ring[in % RING];
    *m = (message){.kind = kind, .x = m->x, .u = m->u};
    return m;
}

static void send(hb_shadow *s)
{
    atomic_fetch_add_explicit(&s->in, 1, memory_order_release);
    if (s->running)
        hb_wake(s->wake_fd);
    else
        catch_up(s);
}

static void copy(double *to, const double *from, int n)
{
    if (n > 0)
        memcpy(to, from, (size_t)n * sizeof *to);
}

void hb_shadow_observe(hb_shadow *s, const hb_observation *o, double now)
{
    message *m = s ? put(s, OBSERVE) : NULL;

    if (!m)
        return;
    m->time_us = o->time_us;
    m->reset_counter = o->reset_counter;
    m->now = now;
    copy(m->x, o->x, s->nx);
    if ((m->has_control = o->u != NULL))
        copy(m->u, o->u, s->nu);
    send(s);
}

void hb_shadow_observe_request(hb_shadow *s, const hb_request *r, double now)
{
    message *m = s && r->nx == s->nx && (!r->applied || r->napplied == s->nu) ? put(s, OBSERVE_REQUEST) : NULL;

    if (!m)
        return;
    m->time_us = r->time_us;
    m->reset_counter = r->reset_counter;
    m->fresh = r->fresh;
    m->now = now;
    copy(m->x, r->x, s->nx);
    if ((m->has_control = r->applied != NULL))
        copy(m->u, r->applied, s->nu);
    send(s);
}

void hb_shadow_hear(hb_shadow *s, int64_t from_us, const double *action)
{
    message *m = s ? put(s, HEAR) : NULL;

    if (!m)
        return;
    m->time_us = from_us;
    copy(m->u, action, s->nu);
    send(s);
}

void hb_shadow_forget(hb_shadow *s)
{
    if (s && put(s, FORGET))
        send(s);
}

const hb_shadow_view *hb_shadow_look(hb_shadow *s, const double *std)
{
    if (!s)
        return NULL;
    if (!become(s, HELD))
        return &s->view;
    const double *variance;
    const hb_real *c = hb_controller_coefficients(s->controller, &variance);
    size_t n = (size_t)hb_model_ncoefficients(s->m);
    s->view.health = *hb_controller_health(s->controller);
    s->view.error = hb_controller_error(s->controller, std);
    memcpy(s->coefficient, c, n * sizeof *c);
    memcpy(s->variance, variance, n * sizeof *variance);
    hb_shadow_release(s);
    return &s->view;
}

bool hb_shadow_claim(hb_shadow *s)
{
    atomic_store(&s->wanted, true);
    return become(s, HELD);
}

bool hb_shadow_claim_idle(hb_shadow *s)
{
    if (!become(s, HELD))
        return false;
    if (!waits(s))
        return true;
    hb_shadow_release(s);
    return false;
}

void hb_shadow_release(hb_shadow *s)
{
    atomic_store(&s->wanted, false);
    atomic_store(&s->state, IDLE);
    if (waits(s))
        hb_wake(s->wake_fd);
}

hb_controller *hb_shadow_controller(hb_shadow *s)
{
    return s->controller;
}

void hb_shadow_set(hb_shadow *s, const hb_model *m, hb_controller *c)
{
    s->m = m;
    s->controller = c;
}

/* ---- life ---- */

static hb_shadow *lay_out(const hb_shadow_settings *set, hb_arena *arena)
{
    hb_shadow none = {0}, *s = hb_arena_object(arena, &none, sizeof none);
    size_t nc = (size_t)set->most_coefficients;

    for (int i = 0; i < RING; i++) {
        s->ring[i].x = hb_arena_take(arena, (size_t)set->model->nx, sizeof(double));
        s->ring[i].u = hb_arena_take(arena, (size_t)set->model->nu, sizeof(double));
    }
    s->view.coefficient = s->coefficient = hb_arena_take(arena, nc, sizeof *s->coefficient);
    s->view.variance = s->variance = hb_arena_take(arena, nc, sizeof *s->variance);
    return hb_arena_first(arena);
}

int hb_shadow_new(hb_shadow **ret, const hb_shadow_settings *set, hb_error *err)
{
    hb_arena arena = {0};

    lay_out(set, &arena);
    int r = hb_arena_allocate(&arena, err);
    if (r)
        return r;
    hb_shadow *s = lay_out(set, &arena);
    s->m = set->model;
    s->controller = set->controller;
    s->nx = set->model->nx;
    s->nu = set->model->nu;
    s->started = set->started;
    s->context = set->context;
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->running = !set->stepped;
    int why = s->wake_fd < 0 ? errno : set->stepped ? 0 : pthread_create(&s->thread, NULL, work, s);
    if (why) {
        s->running = false;
        hb_shadow_free(s);
        return hb_fail(err, why, "cannot start the shadow's thread: %s", strerror(why));
    }
    *ret = s;
    return 0;
}

void hb_shadow_free(hb_shadow *s)
{
    if (!s)
        return;
    if (s->running) {
        atomic_store(&s->stop, true);
        hb_wake(s->wake_fd);
        pthread_join(s->thread, NULL);
    }
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    free(s);
}
