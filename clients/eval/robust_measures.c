/* The numbers of one flight, and of pairs and lists of flights. */
#include <math.h>
#include <stdlib.h>

#include "base/statistics.h"
#include "eval/robust.h"
#include "sim/airframe.h"

#define FIRST 1.0 /* seconds */
#define LOST  1.0 /* metres: off by so much, what grows has grown too far */

const char *const hb_robust_measure_name[] = {
#define X(id, name) name,
    HB_ROBUST_MEASURES(X)
#undef X
};

static double heading(const double *x)
{
    double axis[3][3];

    hb_airframe_axes(x + HB_QX, axis);
    return atan2(axis[0][1], axis[0][0]);
}

/* Within the first second after the start or a change? */
static bool is_first(const hb_robust_row *row, const hb_flight_settings *f, double time)
{
    bool first = time < FIRST || (row->change > 0 && time >= row->change && time < row->change + FIRST);

    /* what grows every second changes all the time */
    for (int i = 0; i < f->nevents && row->ramp == HB_RAMP_NONE; i++)
        first = first || (time >= f->event[i].time && time < f->event[i].time + FIRST);
    return first;
}

/* Where what grows stood at a time: what was added by then. */
static double grown(const hb_robust_row *row, const hb_flight_settings *f, double time)
{
    const hb_plant_parameter *mass = &row->plant->parameter[hb_plant_parameter_find(row->plant, "mass", NULL)];
    /* the quadrotor's payload is in kilograms */
    double unit = row->ramp == HB_RAMP_PAYLOAD && row->plant == &hb_plant_quadrotor ? mass->nominal : 1;
    int i = 0;

    while (i < f->nevents && f->event[i].time <= time)
        i++;
    double before = f->nevents > 1 ? 2 * f->event[0].value - f->event[1].value : 0;
    return ((i > 0 ? f->event[i - 1].value : before) - before) / unit;
}

void hb_robust_measure_flight(const hb_robust_row *row, const hb_flight_settings *f, const hb_flight_record *r,
                              const hb_flight_summary *sum, bool on_board, hb_robust_flight *ret)
{
    const hb_plant_type *type = row->plant;
    double distance[2] = {0}, turned[2] = {0}, travel = 0, target[HB_PLANT_STATES], lost_at = INFINITY;
    int count[2] = {0}, replies = 0, bounded = 0;
    hb_robust_flight flight = {.flown = true, .crashed = sum->crashed};
    double *v = flight.value;

    v[HB_MEASURE_FURTHEST] = 0;
    for (int k = 0; k < r->nsteps; k++) {
        const double *x = r->x + (size_t)k * (size_t)type->nx, time = r->step[k].time, *u = r->step[k].answer.action;
        hb_flight_target(type, f, time, target);
        double off = hb_flight_distance(type, x, target), turn = remainder(heading(x) - heading(target), 2 * M_PI);
        int later = !is_first(row, f, time);
        bool at_bound = false;
        distance[later] += off * off;
        turned[later] += turn * turn;
        count[later]++;
        v[HB_MEASURE_FURTHEST] = fmax(v[HB_MEASURE_FURTHEST], off);
        if (off > LOST)
            lost_at = fmin(lost_at, time);
        for (int i = 0; i < type->nu; i++) {
            double range = type->control_max[i] - type->control_min[i];
            if (k > 0)
                travel += fabs(u[i] - r->step[k - 1].answer.action[i]) / range;
            at_bound = at_bound || u[i] <= type->control_min[i] || u[i] >= type->control_max[i];
        }
        bounded += at_bound;
    }
    bool lost_first = sum->crashed && is_first(row, f, sum->seconds);
    v[HB_MEASURE_FIRST] = lost_first ? INFINITY : sqrt(distance[0] / count[0]);
    v[HB_MEASURE_LATER] = sum->crashed ? INFINITY : sqrt(distance[1] / count[1]);
    v[HB_MEASURE_FIRST_HEADING] = lost_first ? INFINITY : 180 / M_PI * sqrt(turned[0] / count[0]);
    v[HB_MEASURE_LATER_HEADING] = sum->crashed ? INFINITY : 180 / M_PI * sqrt(turned[1] / count[1]);
    v[HB_MEASURE_EFFORT] = travel / sum->seconds;
    v[HB_MEASURE_SATURATED] = (double)bounded / r->nsteps;
    v[HB_MEASURE_FAILED_AT] =
        row->ramp == HB_RAMP_NONE ? NAN : grown(row, f, fmin(lost_at, sum->crashed ? sum->seconds : INFINITY));
    v[HB_MEASURE_SETTLED] = sum->crashed ? NAN : sum->settled_m;
    v[HB_MEASURE_RMS] = sum->crashed ? NAN : sum->rms_m;
    for (int i = 0; i < HB_NSTATUSES && !on_board; i++)
        replies += flight.status[i] = sum->status[i];
    v[HB_MEASURE_OUT_OF_SPAN] = replies > 0 ? (double)sum->status[HB_STATUS_OUT_OF_SPAN] / replies : NAN;
    v[HB_MEASURE_SAID] = on_board || row->rotor_step == 0 ? NAN
                         : sum->nresponses > 0            ? sum->response[0].said
                                                          : INFINITY;
    *ret = flight;
}

double hb_sign_test(int better, int worse)
{
    int n = better + worse, least = better < worse ? better : worse;
    double tail = 0;

    for (int k = 0; k <= least; k++)
        tail += exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * M_LN2);
    return fmin(1, 2 * tail);
}

static hb_pairs compare(const hb_robust_flight *a, const hb_robust_flight *b, int n, hb_robust_measure m)
{
    hb_pairs pairs = {0};
    double sign = m == HB_MEASURE_FAILED_AT ? -1 : 1;

    for (int i = 0; i < n; i++) {
        double x = sign * a[i].value[m], y = sign * b[i].value[m];
        pairs.better += x < y;
        pairs.worse += x > y;
    }
    pairs.p = hb_sign_test(pairs.better, pairs.worse);
    return pairs;
}

/* Quantile q of n sorted numbers of which some are infinite: between neighbours where both are finite. */
static double quantile(const double *value, int n, double q)
{
    double at = q * (n - 1);
    int low = (int)floor(at);

    if (n == 0)
        return NAN;
    if (low + 1 >= n || !isfinite(value[low + 1]))
        return at > low && low + 1 < n ? value[low + 1] : value[low];
    return value[low] + (at - low) * (value[low + 1] - value[low]);
}

hb_robust_result hb_robust_sum_up(const hb_robust_row *row, hb_robust_controller controller,
                                  const hb_robust_flight *flight, const hb_robust_flight *adapting, int n)
{
    hb_robust_result r = {.row = row, .controller = controller, .flights = n, .unsaid = -1};
    double *value = calloc((size_t)n + 1, sizeof *value);

    for (int i = 0; i < n; i++) {
        r.crashed += flight[i].crashed;
        for (int k = 0; k < HB_NSTATUSES; k++)
            r.status[k] += flight[i].status[k];
    }
    for (int m = 0; m < HB_NMEASURES; m++) {
        int count = 0;
        for (int i = 0; i < n && value; i++)
            if (!isnan(flight[i].value[m]))
                value[count++] = flight[i].value[m];
        hb_sort(value, count);
        for (int k = 0; k < 3; k++)
            r.quartile[m][k] = quantile(value, count, 0.25 * (k + 1));
        r.worst[m] = count == 0 ? NAN : m == HB_MEASURE_FAILED_AT ? value[0] : value[count - 1];
        if (m == HB_MEASURE_SAID && count > 0) {
            /* how long it took at most where it was said, and where it was not */
            r.unsaid = 0;
            r.worst[m] = NAN;
            for (int i = 0; i < count; i++) {
                r.unsaid += !isfinite(value[i]);
                r.worst[m] = isfinite(value[i]) ? value[i] : r.worst[m];
            }
        }
        if (adapting && controller != HB_ROBUST_ADAPTING)
            r.adapting[m] = compare(adapting, flight, n, (hb_robust_measure)m);
    }
    free(value);
    return r;
}
