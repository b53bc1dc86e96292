/* Numbers of a recorded flight: the summary, and predictions against what came. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"
#include "dynamics/stepper.h"
#include "estimate/command_history.h"
#include "eval/flight.h"

enum { STARTS = 3000 }; /* predictions, at most: more tell no more */

static const double longest_step = 3; /* periods between two samples, beyond which nothing is predicted over them */
static const double hardly = 0.01;    /* of a state's deviation in training: what moves less, mostly, stands still */
static const double at_bound = 1e-3;  /* of a control's range */

const int hb_flight_ladder[HB_FLIGHT_NSTATUSES - 1] = {1, 2, 8, 3, 4, 5, 6, 7};

/* ---- predictions ---- */

typedef struct work {
    const hb_recorded_flight *f;
    const hb_model *m;
    hb_stepper *stepper;
    double *acting; /* nsamples x nu: mean of what acted from each sample to the next */
    double *x;      /* nx */
    double *found;  /* (HB_FLIGHT_AHEAD + 1) x nx x room: absolute errors, and of the last how far it moved */
    size_t room, count[HB_FLIGHT_AHEAD];
    size_t estimate; /* whose coefficients are in the stepper, + 1; 0: the average */
} work;

/* Whether the vehicle went on from sample i to the next as it was. */
static bool joined(const hb_recorded_flight *f, size_t i)
{
    const hb_recorded_sample *a = &f->sample[i], *b = a + 1;

    return i + 1 < f->nsamples && a->segment == b->segment && a->reset == b->reset && !b->after_gap &&
           b->time > a->time && b->time - a->time <= longest_step * f->dt;
}

/* What the actuators made of the commands, as they were believed at the time. */
static int find_acting(work *w, hb_error *err)
{
    const hb_recorded_flight *f = w->f;
    int nu = f->nu;
    double close[HB_MAX_CONTROLS] = {0}, rest[HB_MAX_CONTROLS], state[HB_MAX_CONTROLS];
    hb_command_history history = {.nu = nu, .close = close};
    hb_arena arena = {0};
    hb_actuators a = {.nu = nu};
    size_t reply = 0;
    bool begun = false;

    hb_command_history_lay_out(&history, &arena);
    int r = hb_arena_allocate(&arena, err);
    if (r)
        return r;
    hb_command_history_lay_out(&history, &arena);
    for (int i = 0; i < nu; i++)
        rest[i] = state[i] = f->control[i].trim;
    for (size_t i = 0; i + 1 < f->nsamples; i++) {
        const double *u = f->u + i * (size_t)nu;
        double *acting = w->acting + i * (size_t)nu;
        for (; reply < f->nreplies && f->reply[reply].time <= f->sample[i].time; reply++)
            for (int k = 0; k < nu && isfinite(f->reply[reply].lag); k++) {
                a.lag[k] = fmax(0, f->reply[reply].lag);
                a.delay[k] = fmax(0, f->reply[reply].delay);
            }
        int64_t from = llround(1e6 * f->sample[i].time), to = llround(1e6 * f->sample[i + 1].time);
        if (!begun || !joined(f, i)) {
            hb_command_history_reset(&history);
            memcpy(state, u, (size_t)nu * sizeof *state);
            memcpy(rest, u, (size_t)nu * sizeof *rest);
            memcpy(acting, u, (size_t)nu * sizeof *acting);
        }
        begun = joined(f, i);
        if (!begun)
            continue;
        hb_command_history_report(&history, from, u);
        hb_command_history_drive(&history, &a, rest, from, to, state, acting);
    }
    free(arena.base);
    return 0;
}

static void set_coefficients(work *w, double time)
{
    const hb_recorded_flight *f = w->f;
    size_t e = w->estimate;

    while (e < f->nestimates && f->estimate[e].time <= time)
        e++;
    if (e == w->estimate)
        return;
    w->estimate = e;
    hb_predictor_set(hb_stepper_predictor(w->stepper), f->coefficient + (e - 1) * (size_t)f->nc);
}

/* From sample i on; returns how many of the steps ahead could be compared. */
static int predict_from(work *w, hb_flight_prediction *p, size_t i)
{
    const hb_recorded_flight *f = w->f;
    size_t nx = (size_t)f->nx, nu = (size_t)f->nu, j = i;
    int k = 0, q = hb_model_quaternion(w->m);

    memcpy(w->x, f->x + i * nx, nx * sizeof *w->x);
    set_coefficients(w, f->sample[i].time);
    while (k < HB_FLIGHT_AHEAD && joined(f, j)) {
        hb_stepper_step(w->stepper, w->x, w->acting + j * nu, f->sample[j + 1].time - f->sample[j].time);
        j++;
        /* the sample at, or next to, so many periods later */
        if (f->sample[j].time - f->sample[i].time < (p->ahead[k] - 0.25) * f->dt)
            continue;
        const double *x = f->x + j * nx;
        double along = 1;
        if (q >= 0)
            along = x[q] * w->x[q] + x[q + 1] * w->x[q + 1] + x[q + 2] * w->x[q + 2] + x[q + 3] * w->x[q + 3];
        for (int d = 0; q >= 0 && along < 0 && d < 4; d++)
            w->x[q + d] = -w->x[q + d]; /* the same attitude */
        for (size_t d = 0; d < nx; d++) {
            w->found[((size_t)k * nx + d) * w->room + w->count[k]] = fabs(w->x[d] - x[d]);
            if (k == HB_FLIGHT_AHEAD - 1)
                w->found[((size_t)HB_FLIGHT_AHEAD * nx + d) * w->room + w->count[k]] = fabs(x[d] - f->x[i * nx + d]);
        }
        w->count[k]++;
        if (++k == HB_FLIGHT_AHEAD) {
            p->time[p->npoints] = f->sample[j].time;
            p->segment[p->npoints] = f->sample[j].segment;
            memcpy(p->predicted + p->npoints++ * nx, w->x, nx * sizeof *w->x);
        }
    }
    return k;
}

static int check_model(const hb_recorded_flight *f, const hb_model *m, hb_error *err)
{
    if (m->hash != f->model_hash)
        return hb_fail(err, EINVAL, "model %016" PRIx64 " is not the one of the flight, %016" PRIx64, m->hash,
                       f->model_hash);
    if (m->nx != f->nx || m->nu != f->nu || (f->nc && hb_model_ncoefficients(m) != f->nc) || m->nu > HB_MAX_CONTROLS)
        return hb_fail(err, EINVAL, "the recording does not fit its model: %d states, %d controls, %d coefficients",
                       f->nx, f->nu, f->nc);
    return 0;
}

int hb_flight_predict(hb_flight_prediction *ret, const hb_recorded_flight *f, const hb_model *m, hb_error *err)
{
    size_t nx = (size_t)f->nx, n = f->nsamples, every = n / STARTS + 1;
    hb_flight_prediction p = {.ahead = {1, 5, 10}};
    work w = {.f = f, .m = m, .room = n / every + 1};
    int r = check_model(f, m, err);

    if (r)
        return r;
    p.error = calloc(HB_FLIGHT_AHEAD * nx, sizeof *p.error);
    p.still = calloc(nx, sizeof *p.still);
    p.time = calloc(w.room, sizeof *p.time);
    p.segment = calloc(w.room, sizeof *p.segment);
    p.predicted = calloc(w.room * nx, sizeof *p.predicted);
    w.found = calloc((HB_FLIGHT_AHEAD + 1) * nx * w.room, sizeof *w.found);
    w.acting = calloc(n * (size_t)f->nu + 1, sizeof *w.acting);
    w.x = calloc(nx, sizeof *w.x);
    if (!p.error || !p.still || !p.time || !p.segment || !p.predicted || !w.found || !w.acting || !w.x)
        r = hb_fail(err, ENOMEM, "out of memory");
    if (!r && !(r = hb_stepper_new(&w.stepper, m, err)))
        r = find_acting(&w, err);
    for (size_t i = 0; !r && i < n; i += every)
        p.n += predict_from(&w, &p, i) > 0;
    for (size_t d = 0; !r && d < nx; d++) {
        for (size_t k = 0; k < HB_FLIGHT_AHEAD; k++)
            p.error[k * nx + d] = hb_quantile(w.found + (k * nx + d) * w.room, (int)w.count[k], 0.5);
        p.still[d] = hb_quantile(w.found + (HB_FLIGHT_AHEAD * nx + d) * w.room, (int)w.count[HB_FLIGHT_AHEAD - 1], 0.5);
        if (p.still[d] < hardly * m->state_std[d])
            p.still[d] = 0;
    }
    hb_stepper_free(w.stepper);
    free(w.found);
    free(w.acting);
    free(w.x);
    if (r)
        hb_flight_prediction_free(&p);
    else
        *ret = p;
    return r;
}

void hb_flight_prediction_free(hb_flight_prediction *p)
{
    free(p->error);
    free(p->still);
    free(p->time);
    free(p->segment);
    free(p->predicted);
    *p = (hb_flight_prediction){0};
}

/* ---- the summary ---- */

/* RMS distance from the target over the second half, of states that are lengths: those with the unit m. */
static double off_target(const hb_recorded_flight *f)
{
    double sum = 0;
    size_t n = 0, sample = 0;

    for (size_t i = 0; i < f->nreplies; i++) {
        double square = 0;
        bool any = false;
        if (f->reply[i].time < f->seconds / 2 || f->reply[i].guest)
            continue;
        while (sample + 1 < f->nsamples && f->sample[sample + 1].time <= f->reply[i].time)
            sample++;
        for (int d = 0; d < f->nx && f->nsamples; d++) {
            double target = f->target[i * (size_t)f->nx + (size_t)d];
            if (strcmp(f->state[d].unit, "m") || !isfinite(target))
                continue;
            double error = f->x[sample * (size_t)f->nx + (size_t)d] - target;
            square += error * error;
            any = true;
        }
        sum += square;
        n += any;
    }
    return n ? sqrt(sum / (double)n) : NAN;
}

static bool saturates(const hb_recorded_flight *f, size_t reply)
{
    for (int k = 0; k < f->nu; k++) {
        double u = f->action[reply * (size_t)f->nu + (size_t)k], range = f->control[k].max - f->control[k].min;
        if (u <= f->control[k].min + at_bound * range || u >= f->control[k].max - at_bound * range)
            return true;
    }
    return false;
}

void hb_recorded_flight_summarise(hb_flight_summary *ret, const hb_recorded_flight *f)
{
    hb_flight_summary s = {.seconds = f->seconds, .off_target = off_target(f), .error_median = NAN, .error_p95 = NAN};
    double *value = calloc((f->nreplies > f->nestimates ? f->nreplies : f->nestimates) + 1, sizeof *value);
    int n = 0, out_of_span = 0;
    size_t saturated = 0;

    s.sample_rate = f->seconds > 0 ? (double)f->nsamples / f->seconds : 0;
    s.reply_rate = f->seconds > 0 ? (double)f->nreplies / f->seconds : 0;
    s.budget = f->nstatuses ? f->status[f->nstatuses - 1].budget : 0;
    for (size_t i = 0; i < f->nreplies; i++) {
        const hb_recorded_reply *y = &f->reply[i];
        s.count[y->status > 0 && y->status < HB_FLIGHT_NSTATUSES ? y->status : 0]++;
        s.guests += y->guest;
        s.late += s.budget > 0 && y->total > s.budget;
        saturated += saturates(f, i);
        if (value)
            value[n++] = y->total;
    }
    s.saturated = f->nreplies ? (double)saturated / (double)f->nreplies : 0;
    s.p50 = hb_quantile(value, n, 0.5);
    s.p99 = hb_quantile(value, n, 0.99);
    s.longest = hb_quantile(value, n, 1);
    n = 0;
    for (size_t i = 0; i < f->nestimates; i++) {
        if (value && f->estimate[i].one_step_error > 0)
            value[n++] = f->estimate[i].one_step_error;
        out_of_span += f->estimate[i].status == 4;
    }
    if (n) {
        s.error_median = hb_quantile(value, n, 0.5);
        s.error_p95 = hb_quantile(value, n, 0.95);
    }
    s.span = f->nestimates ? (double)out_of_span / (double)f->nestimates : 0;
    free(value);
    *ret = s;
}
