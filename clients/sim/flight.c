/* The order of things in one control period, as in any bridge:
 *
 *     look at the state -> ask for an action -> (answer) -> publish state and action -> hold the action until the next
 *
 * By default the plant's time stands still while an answer is awaited. With `realtime` it does not: the old action
 * stays in force until the new one is there, and telemetry says so, with a sample for each of them:
 *
 *     time      t           t + latency                  t + dt
 *     in force  |-- old u --|---------- new u -----------|
 *     sample    x, old u    x, new u                     x, new u
 *
 * A change within the first tenth of a period counts as one at its start: shorter transitions tell nobody anything. */
#include "sim/flight.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* seconds that an answer is waited for before the flight is given up */
#define PATIENCE 5.0

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_until(double moment)
{
    double left = moment - now();

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

double hb_flight_distance(const hb_plant_type *plant, const double *x, const double *target)
{
    static const char *const axis[] = {"x", "y", "z"};
    double sum = 0;

    for (int i = 0; i < 3; i++) {
        int k = hb_plant_state_find(plant, axis[i]);
        if (k >= 0)
            sum += (x[k] - target[k]) * (x[k] - target[k]);
    }
    return sqrt(sum);
}

/* Answer in frozen time: as long as it takes, within reason. */
static int wait_still(hb_loop *l, double asked, hb_flight_step *step, hb_loop_answer *answer, hb_error *err)
{
    int status = l->answer(l, PATIENCE, answer, err);

    step->latency = status == 0 ? now() - asked : NAN;
    if (status > 0)
        return hb_fail(err, ETIMEDOUT, "no answer within %g s: is hilbertd running?", PATIENCE);
    return status;
}

/* Answer while the plant moves on, millisecond by millisecond of the clock. */
static int wait_moving(hb_plant *p, hb_loop *l, double asked, double begun, double dt, const double *u,
                       hb_flight_step *step, hb_loop_answer *answer, double *spent, hb_error *err)
{
    const double tick = 0.001;

    *spent = 0;
    for (;;) {
        double left = begun + dt - now();
        int status = left > 0 ? l->answer(l, fmin(tick, left), answer, err) : 1;
        double there = now(), passed = fmin(there - begun, dt) - *spent;
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

static int tell(hb_loop *l, const hb_flight_settings *s, double time, const double *x, const double *u, hb_error *err)
{
    return l->publish(l, s->epoch_us + llround(1e6 * time), x, u, s->reset_counter, err);
}

static int one_period(hb_plant *p, hb_loop *l, const hb_flight_settings *s, double begun, double *u,
                      hb_flight_step *step, hb_error *err)
{
    double seen[HB_PLANT_STATES], spent = 0;
    hb_loop_answer answer = {0};
    const hb_loop_question question = {
        .time_us = s->epoch_us + llround(1e6 * step->time),
        .x = seen,
        .target = s->has_target ? s->target : NULL,
        .budget = s->budget,
        .reset_counter = s->reset_counter,
    };

    hb_plant_observe(p, seen);
    double asked = now();
    int status = l->ask(l, &question, err);
    if (!status)
        status = s->realtime ? wait_moving(p, l, asked, begun, s->dt, u, step, &answer, &spent, err)
                             : wait_still(l, asked, step, &answer, err);
    if (status < 0)
        return status;

    bool answered = status == 0, changed = answered && answer.has_action, split = spent > 0.1 * s->dt;
    status = 0;
    /* as long as the old action was in force for a while, a sample of its own */
    if (!changed || split)
        status = tell(l, s, step->time, seen, u, err);
    if (answered)
        step->answer = answer;
    if (!status && changed) {
        memcpy(u, answer.action, (size_t)l->nu * sizeof *u);
        if (split)
            hb_plant_observe(p, seen);
        status = tell(l, s, step->time + (split ? spent : 0), seen, u, err);
    }
    memcpy(step->answer.action, u, (size_t)l->nu * sizeof *u);
    if (s->dt - spent > 0)
        hb_plant_step(p, u, s->dt - spent);
    return status;
}

int hb_flight_run(hb_plant *p, hb_loop *l, const hb_flight_settings *s, hb_flight_record *ret, hb_error *err)
{
    size_t nx = (size_t)p->type->nx, n = (size_t)fmax(1, round(s->seconds / s->dt));
    hb_flight_record r = {.x = calloc((n + 1) * nx, sizeof *r.x), .step = calloc(n, sizeof *r.step)};
    double u[HB_PLANT_CONTROLS];
    int status = r.x && r.step ? 0 : hb_fail(err, ENOMEM, "out of memory");

    if (!status)
        status = hb_plant_reset(p, s->start, s->key, err);
    if (p->type->nu > 0)
        memcpy(u, p->type->control_trim, (size_t)p->type->nu * sizeof *u);
    if (!status && l->prepare) {
        const hb_loop_question first = {
            .time_us = s->epoch_us,
            .x = s->start,
            .target = s->has_target ? s->target : NULL,
            .reset_counter = s->reset_counter,
        };
        status = l->prepare(l, &first, u, err);
    }
    double epoch = now();
    for (size_t k = 0; !status && k < n && !r.failure; k++) {
        hb_flight_step *step = &r.step[k];
        step->time = (double)k * s->dt;
        for (int i = 0; !status && i < s->nevents; i++)
            if (llround(s->event[i].time / s->dt) == (long long)k)
                status = hb_plant_set(p, s->event[i].parameter, s->event[i].value, err);
        hb_plant_state(p, r.x + k * nx);
        double begun = epoch + step->time;
        if (s->realtime)
            sleep_until(begun);
        if (!status)
            status = one_period(p, l, s, begun, u, step, err);
        hb_plant_state(p, r.x + (k + 1) * nx);
        if (!status && s->watch)
            s->watch(s->watch_context, step, r.x + k * nx);
        r.failure = hb_plant_failure(p);
        r.nsteps = (int)k + 1;
    }
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
