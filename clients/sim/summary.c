/* A flight in a few numbers. */
#include "sim/flight.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"

#define NEAR 0.1 /* metres: settled */

/* Median, 90 %, 99 % and largest of n numbers, which it sorts. */
static void percentiles(double *value, int n, double *ret)
{
    static const double at[4] = {0.5, 0.9, 0.99, 1};

    for (int i = 0; i < 4; i++)
        ret[i] = hb_quantile(value, n, at[i]);
}

/* First step from which on, up to `last`, the distance stays small; last + 1 when it is not small there. */
static int settled_from(const double *distance, int first, int last)
{
    int k = last + 1;

    while (k > first && distance[k - 1] <= NEAR)
        k--;
    return k;
}

/* What followed each event, up to the next one. */
static void responses(const hb_plant_type *plant, const hb_flight_settings *s, const hb_flight_record *r,
                      const double *distance, hb_flight_summary *ret)
{
    int height = hb_plant_state_find(plant, "z");

    for (int i = 0; i < s->nevents; i++) {
        int first = (int)llround(s->event[i].time / s->dt), last = r->nsteps;
        if (first > r->nsteps)
            continue;
        for (int j = i + 1; j < s->nevents; j++) {
            int next = (int)llround(s->event[j].time / s->dt);
            if (next > first && next - 1 < last)
                last = next - 1;
        }
        hb_flight_response *to = &ret->response[ret->nresponses++];
        int settled = settled_from(distance, first, last);
        *to = (hb_flight_response){
            .time = s->event[i].time,
            .settled = settled > last ? INFINITY : (settled - first) * s->dt,
            .said = INFINITY,
        };
        for (int k = last < r->nsteps ? last : r->nsteps - 1; k >= first; k--)
            if (r->step[k].answer.status == HB_STATUS_OUT_OF_SPAN)
                to->said = r->step[k].time - to->time;
        for (int k = first; height >= 0 && k <= last; k++)
            to->height_loss = fmax(to->height_loss, r->x[(size_t)first * (size_t)plant->nx + (size_t)height] -
                                                        r->x[(size_t)k * (size_t)plant->nx + (size_t)height]);
    }
}

int hb_flight_summarise(const hb_plant_type *plant, const hb_flight_settings *s, const hb_flight_record *r,
                        hb_flight_summary *ret, hb_error *err)
{
    int n = r->nsteps, last_second = (int)fmin(n, fmax(1, round(1 / s->dt))), nlatencies = 0, costs = 0, errors = 0;
    double target[HB_PLANT_STATES], squares = 0;
    hb_flight_summary sum = {.seconds = n * s->dt, .crashed = r->failure != NULL, .failure = r->failure};
    double *distance = calloc(3 * ((size_t)n + 1), sizeof *distance);
    if (!distance)
        return hb_fail(err, ENOMEM, "out of memory");
    double *latency = distance + n + 1, *planning = latency + n + 1;

    for (int k = 0; k <= n; k++) {
        double time = k < n ? r->step[k].time : n * s->dt;
        distance[k] = hb_flight_target(plant, s, time, target)
                          ? hb_flight_distance(plant, r->x + (size_t)k * (size_t)plant->nx, target)
                          : NAN;
        squares += k > n / 2 ? distance[k] * distance[k] : 0;
    }
    sum.rms_m = sqrt(squares / (n - n / 2));
    for (int k = 0; k < last_second; k++)
        sum.settled_m += distance[n - k] / last_second;
    int settled = settled_from(distance, 0, n);
    sum.settled_after_s = settled > n ? INFINITY : settled * s->dt;

    for (int k = 0; k < n; k++) {
        const hb_flight_step *step = &r->step[k];
        if (isnan(step->latency)) {
            sum.late++;
            continue;
        }
        latency[nlatencies] = step->latency;
        planning[nlatencies++] = step->answer.planning;
        sum.status[step->answer.status]++;
        if (isfinite(step->answer.cost)) {
            sum.cost += step->answer.cost;
            costs++;
        }
        if (k >= n - last_second && isfinite(step->answer.one_step_error)) {
            sum.one_step_error += step->answer.one_step_error;
            errors++;
        }
    }
    sum.cost = costs > 0 ? sum.cost / costs : NAN;
    sum.one_step_error = errors > 0 ? sum.one_step_error / errors : NAN;
    for (int k = 1; k < n; k++)
        for (int i = 0; i < plant->nu; i++)
            sum.slew += pow(r->step[k].answer.action[i] - r->step[k - 1].answer.action[i], 2) / (n - 1);
    percentiles(latency, nlatencies, sum.latency);
    percentiles(planning, nlatencies, sum.planning);
    responses(plant, s, r, distance, &sum);
    free(distance);
    *ret = sum;
    return 0;
}
