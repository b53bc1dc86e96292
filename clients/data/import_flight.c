/* Logged flights on an even grid, as episodes of a data set.
 *
 *     |--- landed ---|======= flight =======| reset |====| gap |=========|--- landed ---|
 *                     episode 0                      1          episode 2
 *
 * A parameter that changes in flight (a simulator's mass, a gain of the autopilot) cuts too, and what follows is
 * another function.
 *
 * States are interpolated between the samples around a grid point; controls are the mean over a step of what was
 * commanded, each command being held until the next. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "data/flight_log.h"

enum { NX = 13, NU = 4, MAX_ATTRIBUTES = 32 };
enum { X, VX, Y, VY, Z, VZ, QX, QY, QZ, QW, WX, WY, WZ };

static const char *const state_name[NX] = {"x", "vx", "y", "vy", "z", "vz", "qx", "qy", "qz", "qw", "wx", "wy", "wz"};
static const char *const state_unit[NX] = {"m", "m/s", "m", "m/s",   "m",     "m/s",  "1",
                                           "1", "1",   "1", "rad/s", "rad/s", "rad/s"};
static const char *const control_name[NU] = {"thrust", "roll_rate", "pitch_rate", "yaw_rate"};
static const char *const control_unit[NU] = {"1", "rad/s", "rad/s", "rad/s"};

static const char *const attributes_by_default =
    "THR_MDL_FAC,MPC_THR_HOVER,MC_ROLLRATE_P,MC_PITCHRATE_P,MC_YAWRATE_P,BAT1_N_CELLS,SIH_MASS,SIH_KDV,SIH_T_MAX,"
    "MOT_THST_EXPO,MOT_THST_HOVER,ATC_RAT_RLL_P,ATC_RAT_PIT_P,ATC_RAT_YAW_P";

typedef struct attributes {
    int n;
    char name[MAX_ATTRIBUTES][HB_NAME_SIZE];
} attributes;

typedef struct episodes {
    double *x, *u; /* rows of one log, one episode after the other */
    size_t nx_rows, nu_rows, room;
    int n, *length; /* steps of each */
    double *begin;  /* seconds, of each */
    int length_room;
} episodes;

/* Index of the last sample at or before `time`, or n when there is none. */
static size_t last_before(const hb_series *s, double time)
{
    size_t low = 0, high = s->n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->time[middle] <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? low - 1 : s->n;
}

typedef enum { GOOD, GAP, RESET, ON_GROUND, CHANGE } verdict;

/* Changes of parameters that matter, up to a time. */
static int changes_until(const hb_flight_log *log, const attributes *a, double time)
{
    int n = 0;

    for (size_t i = 0; i < log->nchanges; i++)
        for (int k = 0; k < a->n && log->change[i].time < time; k++)
            n += strcmp(log->change[i].name, a->name[k]) == 0;
    return n;
}

/* The samples around a time: *i and the next, and the share of the next. */
static verdict around(const hb_series *s, double time, double gap, size_t *i, double *share)
{
    *i = last_before(s, time);
    if (*i + 1 >= s->n)
        return GAP;
    double step = s->time[*i + 1] - s->time[*i];
    *share = (time - s->time[*i]) / step;
    return step > gap ? GAP : GOOD;
}

static bool on_ground(const hb_flight_log *log, double time)
{
    const hb_series *s = &log->series[HB_SERIES_LANDED];
    size_t i = last_before(s, time);
    /* a log without this series is all flight; before its first message, PX4's state is that of the message, and
     * ArduPilot's the opposite, because ArduPilot logs changes */
    if (s->n == 0)
        return false;
    return i < s->n ? s->value[i] > 0.5 : log->ardupilot ? s->value[0] < 0.5 : s->value[0] > 0.5;
}

/* The state at a time, in the model's frame, and the reset counters of position and attitude. */
static verdict state_at(const hb_flight_log *log, double time, double gap, double *x, double *resets)
{
    const hb_series *p = &log->series[HB_SERIES_POSITION], *a = &log->series[HB_SERIES_ATTITUDE],
                    *r = &log->series[HB_SERIES_RATES];
    size_t ip, ia, ir;
    double sp, sa, sr, q[4], along = 0, norm = 0, v[7];

    if (on_ground(log, time))
        return ON_GROUND;
    if (around(p, time, gap, &ip, &sp) || around(a, time, gap, &ia, &sa) || around(r, time, gap, &ir, &sr))
        return GAP;
    const double *p0 = p->value + 7 * ip, *a0 = a->value + 5 * ia, *r0 = r->value + 3 * ir;
    if (p0[6] != p0[13] || a0[4] != a0[9])
        return RESET;
    resets[0] = p0[6];
    resets[1] = a0[4];
    for (int i = 0; i < 6; i++)
        v[i] = (1 - sp) * p0[i] + sp * p0[7 + i];
    for (int i = 0; i < 4; i++)
        along += a0[i] * a0[5 + i];
    for (int i = 0; i < 4; i++) {
        q[i] = (1 - sa) * a0[i] + sa * (along < 0 ? -1 : 1) * a0[5 + i];
        norm += q[i] * q[i];
    }
    if (!(norm > 0.1))
        return GAP;
    norm = sqrt(norm);
    for (int i = 0; i < 3; i++) {
        double sign = i == 0 ? 1 : -1; /* NED and FRD to NWU and FLU */
        x[X + 2 * i] = sign * v[i];
        x[VX + 2 * i] = sign * v[3 + i];
        x[QX + i] = sign * q[1 + i] / norm;
        x[WX + i] = sign * ((1 - sr) * r0[i] + sr * r0[3 + i]);
    }
    x[QW] = q[0] / norm;
    return GOOD;
}

/* Mean of what was commanded between two times, each command being held until the next. */
static verdict control_over(const hb_flight_log *log, double from, double to, double gap, double *u)
{
    const hb_series *s = &log->series[HB_SERIES_SETPOINT];
    size_t i = last_before(s, from);
    double sum[NU] = {0};

    if (i >= s->n)
        return GAP;
    for (double time = from; time < to; i++) {
        double until = i + 1 < s->n ? s->time[i + 1] : s->time[i] + gap;
        if (until - s->time[i] > gap || (i + 1 == s->n && until < to))
            return GAP;
        until = fmin(until, to);
        for (int k = 0; k < NU; k++)
            sum[k] += (until - time) * s->value[NU * i + (size_t)k];
        time = until;
    }
    for (int k = 0; k < NU; k++)
        u[k] = (k < 2 ? 1 : -1) * sum[k] / (to - from);
    return GOOD;
}

static int reserve(episodes *e, size_t rows, hb_error *err)
{
    double *x = malloc(rows * NX * sizeof *x), *u = malloc(rows * NU * sizeof *u);

    free(e->x);
    free(e->u);
    e->x = x;
    e->u = u;
    e->room = rows;
    return x && u ? 0 : hb_fail(err, ENOMEM, "out of memory");
}

static int end_episode(episodes *e, int *steps, double begin, int shortest, hb_error *err)
{
    /* a state without a step after it is none */
    size_t rows = *steps > 0 ? (size_t)*steps + 1 : 0;
    if (*steps < shortest) {
        e->nx_rows -= rows;
        e->nu_rows -= (size_t)*steps;
    } else {
        if (e->n == e->length_room) {
            int room = e->length_room ? 2 * e->length_room : 64;
            int *more = realloc(e->length, (size_t)room * sizeof *more);
            if (more)
                e->length = more;
            double *times = realloc(e->begin, (size_t)room * sizeof *times);
            if (times)
                e->begin = times;
            if (!more || !times)
                return hb_fail(err, ENOMEM, "out of memory");
            e->length_room = room;
        }
        e->begin[e->n] = begin;
        e->length[e->n++] = *steps;
    }
    *steps = 0;
    return 0;
}

/* Cuts a log into episodes. */
static int cut(const hb_flight_log *log, const hb_flight_import *in, const attributes *a, double dt, episodes *e,
               hb_flight_result *result, hb_error *err)
{
    const hb_series *p = &log->series[HB_SERIES_POSITION];
    double gap = in->gap > 0 ? in->gap : 0.25, first = p->time[0], last = p->time[p->n - 1];
    int shortest = (int)ceil((in->min_length > 0 ? in->min_length : 1) / dt - 1e-9), steps = 0, status = 0;
    double x[2][NX], u[NU], resets[2][2], begin = first;

    if (!(last - first < 1e7 * dt))
        return hb_fail(err, EINVAL, "%.3g s of log: are its times right?", last - first);
    size_t rows = (size_t)((last - first) / dt) + 1;
    /* every step may begin an episode of its own, with two states */
    status = reserve(e, 2 * rows + 2, err);
    e->n = 0;
    e->nx_rows = e->nu_rows = 0;
    for (size_t k = 0; !status && k + 1 < rows + 1; k++) {
        double from = first + (double)k * dt, to = first + (double)(k + 1) * dt;
        verdict v = state_at(log, from, gap, x[0], resets[0]);
        if (!v)
            v = state_at(log, to, gap, x[1], resets[1]);
        if (!v && (resets[0][0] != resets[1][0] || resets[0][1] != resets[1][1]))
            v = RESET;
        if (!v)
            v = control_over(log, from, to, gap, u);
        int changes = changes_until(log, a, to) - changes_until(log, a, from);
        if (!v && changes)
            v = CHANGE;
        result->changes += changes;
        if (v) {
            if (steps > 0) {
                result->gaps += v == GAP && to < last;
                result->resets += v == RESET;
            }
            result->landed += v == ON_GROUND ? dt : 0;
            status = end_episode(e, &steps, begin, shortest, err);
            continue;
        }
        if (steps == 0) {
            begin = from;
            /* signs of quaternions: the first has qw >= 0, and the others follow from it */
            if (x[0][QW] < 0)
                for (int i = QX; i <= QW; i++)
                    x[0][i] = -x[0][i];
            memcpy(e->x + NX * e->nx_rows++, x[0], sizeof x[0]);
        }
        double along = 0;
        const double *before = e->x + NX * (e->nx_rows - 1);
        for (int i = QX; i <= QW; i++)
            along += before[i] * x[1][i];
        for (int i = QX; i <= QW; i++)
            x[1][i] *= along < 0 ? -1 : 1;
        memcpy(e->x + NX * e->nx_rows++, x[1], sizeof x[1]);
        memcpy(e->u + NU * e->nu_rows++, u, sizeof u);
        steps++;
    }
    if (!status)
        status = end_episode(e, &steps, begin, shortest, err);
    result->episodes = e->n;
    result->seconds = (double)e->nu_rows * dt;
    return status;
}

/* What a log lacks, and how to log it. */
static int check_rates(const hb_flight_log *log, const char *path, double least, hb_error *err)
{
    for (int i = 0; i < HB_NSERIES; i++) {
        const char *what = log->ardupilot ? hb_series_message[i] : hb_series_topic[i];
        double rate = hb_series_rate(&log->series[i]);
        if (i == HB_SERIES_LANDED)
            continue;
        if (log->series[i].n < 2)
            return hb_fail(err, EINVAL, "%s: has no %s (%s): nothing can be learned from it", path, what,
                           hb_series_name[i]);
        if (rate < least && log->ardupilot)
            return hb_fail(err, EINVAL,
                           "%s: %s was logged at %.1f Hz, expected %g: set LOG_BITMASK to log attitude fast "
                           "(ATTITUDE_FAST), or take --min-rate 0 to use it all the same",
                           path, what, rate, least);
        if (rate < least)
            return hb_fail(err, EINVAL,
                           "%s: %s was logged at %.1f Hz, expected %g. Put these lines into "
                           "etc/logging/logger_topics.txt on the vehicle's SD card, and fly again:\n"
                           "vehicle_local_position 0\nvehicle_attitude 0\nvehicle_angular_velocity 0\n"
                           "vehicle_rates_setpoint 0\nvehicle_land_detected 0\n"
                           "(--min-rate 0 uses it all the same)",
                           path, what, rate, least);
    }
    return 0;
}

static int read_attributes(const hb_flight_import *in, attributes *a, hb_error *err)
{
    const char *at = in->attribute ? in->attribute : attributes_by_default;

    while (*at) {
        size_t n = strcspn(at, ",");
        if (n == 0 || n >= HB_LOG_NAME || a->n == MAX_ATTRIBUTES)
            return hb_fail(err, EINVAL, "parameter '%.*s': no name of a parameter, or more than %d", (int)n, at,
                           MAX_ATTRIBUTES);
        memcpy(a->name[a->n], at, n);
        a->name[a->n++][n] = 0;
        at += n + (at[n] == ',');
    }
    return 0;
}

/* Of the attributes, those that some log has. */
static void keep_known(attributes *a, const hb_flight_log *log, int nlogs)
{
    attributes kept = {0};

    for (int i = 0; i < a->n; i++) {
        bool known = false;
        for (int k = 0; k < nlogs; k++)
            known = known || hb_flight_log_parameter(&log[k], a->name[i]);
        if (known)
            memcpy(kept.name[kept.n++], a->name[i], HB_NAME_SIZE);
    }
    *a = kept;
}

static int open_writer(hb_dataset_writer **ret, const char *output, double dt, attributes *a, const hb_flight_log *log,
                       int nlogs, hb_error *err)
{
    char names[2 * (NX + NU)][HB_NAME_SIZE] = {""};
    double min[NU] = {0}, max[NU] = {1}, trim[NU] = {0}, sum = 0;
    size_t n = 0;
    hb_dataset_header h = {.nx = NX,
                           .nu = NU,
                           .dt = dt,
                           .plant = "multirotor",
                           .control_min = min,
                           .control_max = max,
                           .control_trim = trim,
                           .nhidden = a->n,
                           .hidden_name = a->name,
                           .parameters_known = true};

    h.state_name = names;
    h.state_unit = names + NX;
    h.control_name = names + 2 * NX;
    h.control_unit = names + 2 * NX + NU;
    for (int i = 0; i < NX; i++) {
        strcpy(h.state_name[i], state_name[i]);
        strcpy(h.state_unit[i], state_unit[i]);
    }
    /* rates: as far as was commanded, and the same to both sides; thrust at trim: the mean */
    for (int i = 0; i < NU; i++) {
        strcpy(h.control_name[i], control_name[i]);
        strcpy(h.control_unit[i], control_unit[i]);
    }
    for (int k = 0; k < nlogs; k++) {
        const hb_series *s = &log[k].series[HB_SERIES_SETPOINT];
        for (size_t j = 0; j < s->n; j++) {
            for (int i = 1; i < NU; i++)
                max[i] = fmax(max[i], fabs(s->value[NU * j + (size_t)i]));
            if (!on_ground(&log[k], s->time[j])) {
                sum += s->value[NU * j];
                n++;
            }
        }
    }
    for (int i = 1; i < NU; i++) {
        max[i] = fmax(max[i], 0.1);
        min[i] = -max[i];
    }
    trim[0] = n ? fmin(fmax(sum / (double)n, 0), 1) : 0.5;
    return hb_dataset_writer_new(ret, output, &h, err);
}

/* Episodes from function *next on: another one after each change. */
static int write_log(hb_dataset_writer *w, const hb_flight_log *log, const attributes *a, const episodes *e, int *next,
                     hb_error *err)
{
    double hidden[MAX_ATTRIBUTES];
    const double *x = e->x, *u = e->u;
    int status = 0, before = 0;

    for (int i = 0; !status && i < e->n; i++) {
        int changes = changes_until(log, a, e->begin[i]);
        *next += i > 0 && changes != before;
        before = changes;
        for (int k = 0; k < a->n; k++)
            hidden[k] = hb_flight_log_parameter_at(log, a->name[k], e->begin[i]);
        status = hb_dataset_writer_append(w, *next, e->length[i], x, u, NULL, hidden, err);
        x += NX * ((size_t)e->length[i] + 1);
        u += NU * (size_t)e->length[i];
    }
    return status;
}

int hb_flight_import_files(const hb_flight_import *in, const char *output, hb_flight_result *result, hb_error *err)
{
    double dt = in->dt > 0 ? in->dt : 0.04, least = in->min_rate < 0 ? 0 : in->min_rate > 0 ? in->min_rate : 20;
    hb_flight_log *log = calloc((size_t)in->nfiles, sizeof *log);
    hb_dataset_writer *w = NULL;
    attributes a = {0};
    episodes e = {0};
    int status = log ? read_attributes(in, &a, err) : hb_fail(err, ENOMEM, "out of memory"), written = 0, function = 0;

    for (int i = 0; !status && i < in->nfiles; i++) {
        status = hb_flight_log_read(&log[i], in->file[i], err);
        if (!status)
            status = check_rates(&log[i], in->file[i], least, err);
    }
    if (!status) {
        keep_known(&a, log, in->nfiles);
        status = open_writer(&w, output, dt, &a, log, in->nfiles, err);
    }
    for (int i = 0; !status && i < in->nfiles; i++) {
        result[i] = (hb_flight_result){.dropped = log[i].dropped, .cut_off = log[i].cut_off};
        status = hb_fail_in(err, in->file[i], cut(&log[i], in, &a, dt, &e, &result[i], err));
        /* of one vehicle in one condition: where that changed in a flight, the next one begins as this one ended */
        function += i > 0 && !in->one_function;
        if (!status)
            status = write_log(w, &log[i], &a, &e, &function, err);
        written += result[i].episodes;
    }
    if (!status && written == 0)
        status = hb_fail(err, EINVAL, "%s: no flight of %g s without a gap, a reset or ground contact in it",
                         in->file[0], in->min_length > 0 ? in->min_length : 1);
    if (!status) {
        status = hb_dataset_writer_close(w, err);
        w = NULL;
    }
    hb_dataset_writer_free(w);
    for (int i = 0; log && i < in->nfiles; i++)
        hb_flight_log_free(&log[i]);
    free(log);
    free(e.x);
    free(e.u);
    free(e.length);
    free(e.begin);
    return status;
}
