/* The order of things in one control period, as in any bridge:
 *
 *     look at the state -> ask for an action -> (answer) -> publish state and action -> hold the action until the next
 *
 * By default the plant's time stands still while an answer is awaited; in virtual time (loop.h) so does everybody
 * else's, and no answer is ever late. With `realtime` it does not: the old action stays in force until the new one is
 * there, and telemetry says so, with a sample for each of them:
 *
 *     time      t           t + latency                  t + dt
 *     in force  |-- old u --|---------- new u -----------|
 *     sample    x, old u    x, new u                     x, new u
 *
 * A change within the first tenth of a period counts as one at its start: shorter transitions carry no information.
 *
 * The link (weather.h) may send samples at a rate of their own, move samples and requests in time, and lose some. */
#include "sim/flight.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/monotonic.h"

/* seconds that an answer is waited for before the flight is given up */
#define PATIENCE      5.0
#define LONG_PATIENCE 60.0 /* where it does not matter how long it takes */

static void sleep_until(double moment)
{
    double left = moment - hb_now();

    if (left > 0) {
        struct timespec t = {.tv_sec = (time_t)left, .tv_nsec = (long)(1e9 * (left - floor(left)))};
        nanosleep(&t, NULL);
    }
}

int hb_plant_state_find(const hb_plant_type *plant, const char *name)
{
    for (int i = 0; i < plant->nx; i++)
        if (strcmp(plant->state_name[i], name) == 0)
            return i;
    return -1;
}

int hb_flight_places(const hb_plant_type *plant, int *place)
{
    static const char *const axis[] = {"x", "y", "z"};
    int n = 0;

    for (int i = 0; i < 3; i++) {
        int k = hb_plant_state_find(plant, axis[i]);
        if (k >= 0)
            place[n++] = k;
    }
    for (int k = 0; n == 0 && k < plant->nx; k++)
        if (strcmp(plant->state_unit[k], "m") == 0)
            place[n++] = k;
    return n;
}

double hb_flight_distance(const hb_plant_type *plant, const double *x, const double *target)
{
    int place[HB_PLANT_STATES];
    double sum = 0;

    for (int i = 0, n = hb_flight_places(plant, place); i < n; i++)
        sum += (x[place[i]] - target[place[i]]) * (x[place[i]] - target[place[i]]);
    return sqrt(sum);
}

hb_draws hb_flight_draws(uint64_t seed, hb_flight_purpose purpose, int function, int episode)
{
    uint64_t stream = ((uint64_t)function << 32) | ((uint64_t)episode << 4) | (uint64_t)purpose;

    return (hb_draws){.key = {.seed = seed, .stream = stream}};
}

int hb_flight_draw_start(hb_plant *p, const double *target, double radius, hb_draws *d, double *x, hb_error *err)
{
    const hb_plant_type *plant = p->type;
    int height = hb_plant_state_find(plant, "z"), place[HB_PLANT_STATES], n = hb_flight_places(plant, place);

    if (!target || n == 0)
        return plant->start(p, d, x, err);
    do {
        double squares = 0;
        memcpy(x, target, (size_t)plant->nx * sizeof *x);
        for (int i = 0; i < n; i++) {
            double offset = hb_draw_uniform(d, -radius, radius);
            x[place[i]] += offset;
            squares += offset * offset;
        }
        if (squares <= radius * radius && (height < 0 || x[height] >= 0.1 || target[height] < 0.1))
            return 0;
    } while (true);
}

/* Asks in frozen time, and waits as long as it takes, within reason: who lost a question or its answer asks again. */
static int ask_still(hb_loop *l, const hb_loop_question *q, hb_flight_step *step, hb_loop_answer *answer, hb_error *err)
{
    const int trials = l->virtual_time ? 1 : 3; /* a question that is asked again is another flight */
    const double patience = l->virtual_time ? LONG_PATIENCE : PATIENCE;
    double asked = hb_now();
    int status = 1;

    for (int i = 0; i < trials && status > 0; i++) {
        status = l->ask(l, q, err);
        if (!status)
            status = l->answer(l, patience / trials, answer, err);
    }
    step->latency = status != 0 ? NAN : l->virtual_time ? 0 : hb_now() - asked;
    if (status > 0)
        return hb_fail(err, ETIMEDOUT, "no answer within %g s: is hilbertd running?", patience);
    return status;
}

/* Answer while the plant moves on, millisecond by millisecond of the clock. */
static int wait_moving(hb_plant *p, hb_loop *l, double asked, double begun, double dt, const double *u,
                       hb_flight_step *step, hb_loop_answer *answer, double *spent, hb_error *err)
{
    const double tick = 0.001;

    *spent = 0;
    for (;;) {
        double left = begun + dt - hb_now();
        int status = left > 0 ? l->answer(l, fmin(tick, left), answer, err) : 1;
        double there = hb_now(), passed = fmin(there - begun, dt) - *spent;
        if (passed > 0) {
            hb_plant_step(p, u, passed);
            *spent += passed;
        }
        if (status <= 0) {
            step->latency = there - asked;
            return status;
        }
        if (left <= 0) {
            step->latency = NAN;
            return 1;
        }
    }
}

/* One flight as it goes on. */
typedef struct flight {
    hb_plant *plant;
    hb_loop *loop;
    const hb_flight_settings *settings;
    double time;                                     /* of the plant, seconds */
    int sample;                                      /* number of the next of those that telemetry sends by itself */
    bool lied;                                       /* the outlier was sent */
    double *reference;                               /* (horizon + 1) x nx */
    double acceleration[3], made[HB_PLANT_CONTROLS]; /* for loops that sense them */
    double u[HB_PLANT_CONTROLS];                     /* commanded */
} flight;

static int tell(flight *f, double time, const double *x, const double *u, hb_error *err)
{
    const hb_flight_settings *s = f->settings;

    return f->loop->publish(f->loop, s->epoch_us + llround(1e6 * time), x, u, s->reset_counter, err);
}

/* Number k of telemetry, as the link reports and lets it through. */
static int tell_sample(flight *f, int k, const double *x, hb_error *err)
{
    const hb_link *link = &f->settings->link;
    double seen[HB_PLANT_STATES], u[HB_PLANT_CONTROLS];

    if (hb_link_fate_of(link, f->settings->key, HB_LINK_TELEMETRY, k) != HB_LINK_ARRIVES)
        return 0;
    memcpy(seen, x, (size_t)f->loop->nx * sizeof *seen);
    hb_plant_control(f->plant, (hb_plant_report)link->report, f->u, u);
    if (link->outlier_time > 0 && f->time >= link->outlier_time && !f->lied) {
        f->lied = true;
        seen[(int)link->outlier_state] += link->outlier;
        for (int i = 0; i < f->loop->nu && link->outlier_control != 0; i++)
            u[i] = link->outlier_control;
    }
    return tell(f, f->time, seen, u, err);
}

static void step_to(flight *f, double time)
{
    if (time > f->time + 1e-9)
        hb_plant_step(f->plant, f->u, time - f->time);
    f->time = time;
}

/* Until the next request, with what telemetry sends by itself on the way. */
static int move_to(flight *f, double until, hb_error *err)
{
    const hb_link *link = &f->settings->link;
    double x[HB_PLANT_STATES], period = link->telemetry_rate > 0 ? 1 / link->telemetry_rate : INFINITY, due;
    int status = 0;

    while (!status && link->telemetry_rate > 0 &&
           (due = hb_link_time(link, f->settings->key, HB_LINK_TELEMETRY, f->sample, period)) < until - 1e-9) {
        step_to(f, due);
        hb_plant_observe(f->plant, x);
        status = tell_sample(f, f->sample++, x, err);
    }
    step_to(f, until);
    return status;
}

bool hb_flight_target(const hb_plant_type *plant, const hb_flight_settings *s, double time, double *target)
{
    const double *fixed = s->has_target ? s->target : plant->target;

    if (fixed)
        memcpy(target, fixed, (size_t)plant->nx * sizeof *target);
    if (s->path)
        s->path(time, target);
    return fixed != NULL;
}

static hb_loop_question question(flight *f, double time, const double *x)
{
    const hb_flight_settings *s = f->settings;
    hb_loop_question q = {
        .time_us = s->epoch_us + llround(1e6 * time),
        .x = x,
        .budget = s->budget,
        .reset_counter = s->reset_counter,
    };

    if (f->loop->senses && f->plant->type->acceleration) {
        f->plant->type->acceleration(f->plant, &f->plant->sensor_draws, f->acceleration);
        hb_plant_control(f->plant, HB_REPORT_MADE, f->u, f->made);
        q.acceleration = f->acceleration;
        q.made = f->made;
    }
    if (!s->has_target)
        return q;
    q.ntargets = s->path && !s->surprise && f->loop->horizon > 0 ? f->loop->horizon + 1 : 1;
    q.target = f->reference;
    for (int i = 0; i < q.ntargets; i++)
        hb_flight_target(f->plant->type, s, time + i * f->loop->step, f->reference + i * f->loop->nx);
    return q;
}

/* Number k of the requests in frozen time, and what follows until the next. */
static int one_request(flight *f, int k, hb_flight_step *step, hb_error *err)
{
    const hb_flight_settings *s = f->settings;
    hb_link_fate fate = hb_link_fate_of(&s->link, s->key, HB_LINK_REQUEST, k);
    double seen[HB_PLANT_STATES];
    hb_loop_answer answer = {0};
    int status = 0;

    hb_plant_observe(f->plant, seen);
    step->latency = NAN;
    if (fate != HB_LINK_LOST) {
        const hb_loop_question q = question(f, f->time, seen);
        status = ask_still(f->loop, &q, step, &answer, err);
    }
    if (!status && fate == HB_LINK_ARRIVES) {
        step->answer = answer;
        if (answer.has_action)
            memcpy(f->u, answer.action, (size_t)f->loop->nu * sizeof *f->u);
    } else {
        step->latency = NAN;
    }
    if (!status && s->link.telemetry_rate == 0)
        status = tell_sample(f, k, seen, err);
    memcpy(step->answer.action, f->u, (size_t)f->loop->nu * sizeof *f->u);
    if (!status)
        status = move_to(f, hb_link_time(&s->link, s->key, HB_LINK_REQUEST, k + 1, s->dt), err);
    return status;
}

/* The same while the clock runs. */
static int one_moving_request(flight *f, double begun, hb_flight_step *step, hb_error *err)
{
    const hb_flight_settings *s = f->settings;
    hb_loop *l = f->loop;
    double seen[HB_PLANT_STATES], spent = 0;
    hb_loop_answer answer = {0};

    hb_plant_observe(f->plant, seen);
    const hb_loop_question q = question(f, step->time, seen);
    double asked = hb_now();
    int status = l->ask(l, &q, err);
    if (!status)
        status = wait_moving(f->plant, l, asked, begun, s->dt, f->u, step, &answer, &spent, err);
    if (status < 0)
        return status;

    bool answered = status == 0, changed = answered && answer.has_action, split = spent > 0.1 * s->dt;
    status = 0;
    /* as long as the old action was in force for a while, a sample of its own */
    if (!changed || split)
        status = tell(f, step->time, seen, f->u, err);
    if (answered)
        step->answer = answer;
    if (!status && changed) {
        memcpy(f->u, answer.action, (size_t)l->nu * sizeof *f->u);
        if (split)
            hb_plant_observe(f->plant, seen);
        status = tell(f, step->time + (split ? spent : 0), seen, f->u, err);
    }
    memcpy(step->answer.action, f->u, (size_t)l->nu * sizeof *f->u);
    if (s->dt - spent > 0)
        hb_plant_step(f->plant, f->u, s->dt - spent);
    return status;
}

static int begin(flight *f, hb_error *err)
{
    const hb_flight_settings *s = f->settings;
    const hb_plant_type *type = f->plant->type;
    int status = hb_plant_reset(f->plant, s->start, s->key, err);

    if (type->nu > 0)
        memcpy(f->u, type->control_trim, (size_t)type->nu * sizeof *f->u);
    if (status || !f->loop->prepare)
        return status;
    const hb_loop_question first = question(f, 0, s->start);
    return f->loop->prepare(f->loop, &first, f->u, err);
}

int hb_flight_run(hb_plant *p, hb_loop *l, const hb_flight_settings *s, hb_flight_record *ret, hb_error *err)
{
    size_t nx = (size_t)p->type->nx, n = (size_t)fmax(1, round(s->seconds / s->dt));
    hb_flight_record r = {.x = calloc((n + 1) * nx, sizeof *r.x), .step = calloc(n, sizeof *r.step)};
    flight f = {.plant = p, .loop = l, .settings = s};
    int status = 0;

    f.reference = calloc(((size_t)l->horizon + 1) * nx, sizeof *f.reference);
    if (!r.x || !r.step || !f.reference)
        status = hb_fail(err, ENOMEM, "out of memory");
    if (!status)
        status = begin(&f, err);
    double epoch = hb_now();
    for (size_t k = 0; !status && k < n && !r.failure; k++) {
        hb_flight_step *step = &r.step[k];
        step->time = s->realtime ? (double)k * s->dt : f.time;
        for (int i = 0; !status && i < s->nevents; i++)
            if (llround(s->event[i].time / s->dt) == (long long)k)
                status = hb_plant_set(p, s->event[i].parameter, s->event[i].value, err);
        hb_plant_state(p, r.x + k * nx);
        double begun = epoch + step->time;
        if (s->realtime)
            sleep_until(begun);
        if (!status)
            status = s->realtime ? one_moving_request(&f, begun, step, err) : one_request(&f, (int)k, step, err);
        hb_plant_state(p, r.x + (k + 1) * nx);
        if (!status && s->watch)
            s->watch(s->watch_context, step, r.x + k * nx);
        r.failure = hb_plant_failure(p);
        r.nsteps = (int)k + 1;
    }
    free(f.reference);
    if (status)
        hb_flight_record_free(&r);
    else
        *ret = r;
    return status;
}

void hb_flight_record_free(hb_flight_record *r)
{
    free(r->x);
    free(r->step);
    *r = (hb_flight_record){0};
}
