#include "sim/flight_report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"
#include "common/json.h"

/* ---- one flight ---- */

void hb_flight_report_text(const hb_flight_summary *s, FILE *out)
{
    if (s->crashed)
        fprintf(out, "crashed after %.2f s: it %s\n", s->seconds, s->failure);
    else
        fprintf(out, "flew %.2f s without a crash\n", s->seconds);
    /* a plant without a place to go to has no distance */
    if (isfinite(s->settled_m))
        fprintf(out, "settled      %.1f cm from the target (mean over the last second)", 100 * s->settled_m);
    if (isfinite(s->settled_m) && isfinite(s->settled_after_s))
        fprintf(out, ", within 10 cm from %.2f s on\n", s->settled_after_s);
    else if (isfinite(s->settled_m))
        fprintf(out, ", not within 10 cm at the end\n");
    for (int i = 0; i < s->nresponses; i++) {
        const hb_flight_response *r = &s->response[i];
        fprintf(out, "change       at %g s: lost %.1f cm of height, ", r->time, 100 * r->height_loss);
        if (isfinite(r->settled))
            fprintf(out, "settled again %.2f s later\n", r->settled);
        else
            fprintf(out, "did not settle again\n");
    }
    fprintf(out, "slew         %.3g (summed mean squared change of the controls)\n", s->slew);
    fprintf(out, "cost         %.4g (mean of the plans')\n", s->cost);
    fprintf(out, "model error  %.3g (one step, normalised, last second)\n", s->one_step_error);
    fprintf(out, "replies     ");
    for (int i = 0; i < HB_NSTATUSES; i++)
        if (s->status[i] > 0)
            fprintf(out, " %d %s,", s->status[i], hb_status_name[i]);
    fprintf(out, " %d late\n", s->late);
    if (s->latency[3] > 0)
        fprintf(out, "latency      %.2f ms median, %.2f ms 90 %%, %.2f ms 99 %%, %.2f ms largest\n",
                1e3 * s->latency[0], 1e3 * s->latency[1], 1e3 * s->latency[2], 1e3 * s->latency[3]);
    else
        fprintf(out, "latency      none: in the vehicle's time\n");
}

static json_t *percentile_object(const double *value)
{
    static const char *const name[4] = {"p50", "p90", "p99", "max"};
    json_t *o = json_object();

    for (int i = 0; i < 4; i++)
        json_object_set_new(o, name[i], hb_json_number(1e3 * value[i]));
    return o;
}

static void print_line(json_t *o, FILE *out)
{
    json_dumpf(o, out, JSON_COMPACT | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(o);
}

static json_t *status_object(const int *status)
{
    json_t *o = json_object();

    for (int i = 0; i < HB_NSTATUSES; i++)
        json_object_set_new(o, hb_status_name[i], json_integer(status[i]));
    return o;
}

void hb_flight_report_json(const hb_plant_type *plant, const hb_flight_entry *e, FILE *out)
{
    const hb_flight_summary *s = &e->summary;
    json_t *o = json_object(), *parameters = json_object(), *start = json_object(), *events = json_array();

    json_object_set_new(o, "settled_m", hb_json_number(s->settled_m));
    json_object_set_new(o, "rms_m", hb_json_number(s->rms_m));
    json_object_set_new(o, "settled_after_s", hb_json_number(s->settled_after_s));
    json_object_set_new(o, "crashed", json_boolean(s->crashed));
    json_object_set_new(o, "failure", s->failure ? json_string(s->failure) : json_null());
    json_object_set_new(o, "slew", hb_json_number(s->slew));
    json_object_set_new(o, "cost", hb_json_number(s->cost));
    json_object_set_new(o, "late", json_integer(s->late));
    json_object_set_new(o, "seconds", hb_json_number(s->seconds));
    json_object_set_new(o, "one_step_error", hb_json_number(s->one_step_error));
    json_object_set_new(o, "status", status_object(s->status));
    json_object_set_new(o, "latency_ms", percentile_object(s->latency));
    json_object_set_new(o, "planning_ms", percentile_object(s->planning));
    for (int i = 0; i < s->nresponses; i++) {
        json_t *r = json_object();
        json_object_set_new(r, "time_s", hb_json_number(s->response[i].time));
        json_object_set_new(r, "height_loss_m", hb_json_number(s->response[i].height_loss));
        json_object_set_new(r, "settled_after_s", hb_json_number(s->response[i].settled));
        json_array_append_new(events, r);
    }
    json_object_set_new(o, "events", events);
    for (int i = 0; i < plant->nparameters; i++)
        json_object_set_new(parameters, plant->parameter[i].name, hb_json_number(e->parameter[i]));
    json_object_set_new(o, "parameters", parameters);
    for (int i = 0; i < plant->nx; i++)
        json_object_set_new(start, plant->state_name[i], hb_json_number(e->start[i]));
    json_object_set_new(o, "start", start);
    print_line(o, out);
}

/* ---- many flights ---- */

typedef struct batch {
    int crashes, settled, late;                        /* settled: within 10 cm over the last second */
    double settled_m[2], slew[2], after_s[2], cost[2]; /* median and largest, over flights that did not crash */
    double height_loss[2], recovery[2];                /* after events */
    double latency[2];                                 /* of the medians, of the largest */
    int status[HB_NSTATUSES];
} batch;

static void median_and_largest(double *value, int n, double *ret)
{
    ret[0] = hb_quantile(value, n, 0.5);
    ret[1] = n > 0 ? value[n - 1] : NAN;
}

typedef double (*measure)(const hb_flight_summary *s);

static double settled_m(const hb_flight_summary *s)
{
    return s->settled_m;
}
static double after_s(const hb_flight_summary *s)
{
    return s->settled_after_s;
}
static double slew(const hb_flight_summary *s)
{
    return s->slew;
}
static double cost(const hb_flight_summary *s)
{
    return s->cost;
}
static double height_loss(const hb_flight_summary *s)
{
    double most = 0;

    for (int i = 0; i < s->nresponses; i++)
        most = fmax(most, s->response[i].height_loss);
    return most;
}
static double recovery(const hb_flight_summary *s)
{
    double most = 0;

    for (int i = 0; i < s->nresponses; i++)
        most = fmax(most, s->response[i].settled);
    return most;
}

static void over_flights(const hb_flight_entry *e, int n, measure of, double *scratch, double *ret)
{
    int count = 0;

    for (int i = 0; i < n; i++)
        if (!e[i].summary.crashed)
            scratch[count++] = of(&e[i].summary);
    median_and_largest(scratch, count, ret);
}

static batch sum_up(const hb_flight_entry *e, int n)
{
    batch b = {0};
    double *scratch = calloc((size_t)n, sizeof *scratch);

    if (!scratch)
        return b;
    for (int i = 0; i < n; i++) {
        const hb_flight_summary *s = &e[i].summary;
        b.crashes += s->crashed;
        b.settled += !s->crashed && s->settled_m <= 0.1;
        b.late += s->late;
        for (int k = 0; k < HB_NSTATUSES; k++)
            b.status[k] += s->status[k];
        scratch[i] = s->latency[0];
        b.latency[1] = fmax(b.latency[1], s->latency[3]);
    }
    double both[2];
    median_and_largest(scratch, n, both);
    b.latency[0] = both[0];
    over_flights(e, n, settled_m, scratch, b.settled_m);
    over_flights(e, n, after_s, scratch, b.after_s);
    over_flights(e, n, slew, scratch, b.slew);
    over_flights(e, n, cost, scratch, b.cost);
    over_flights(e, n, height_loss, scratch, b.height_loss);
    over_flights(e, n, recovery, scratch, b.recovery);
    free(scratch);
    return b;
}

void hb_flight_report_batch_text(const hb_flight_entry *e, int n, FILE *out)
{
    batch b = sum_up(e, n);

    fprintf(out, "%d flights, %d crashed, %d settled within 10 cm\n", n, b.crashes, b.settled);
    fprintf(out, "settled      %.1f cm median, %.1f cm largest; after %.2f s median, %.2f s largest\n",
            100 * b.settled_m[0], 100 * b.settled_m[1], b.after_s[0], b.after_s[1]);
    if (e[0].summary.nresponses > 0)
        fprintf(out,
                "changes      height lost: %.1f cm median, %.1f cm largest; settled again after %.2f s median, "
                "%.2f s largest\n",
                100 * b.height_loss[0], 100 * b.height_loss[1], b.recovery[0], b.recovery[1]);
    fprintf(out, "slew         %.3g median, %.3g largest\n", b.slew[0], b.slew[1]);
    fprintf(out, "cost         %.4g median, %.4g largest\n", b.cost[0], b.cost[1]);
    fprintf(out, "replies     ");
    for (int i = 0; i < HB_NSTATUSES; i++)
        if (b.status[i] > 0)
            fprintf(out, " %d %s,", b.status[i], hb_status_name[i]);
    fprintf(out, " %d late\n", b.late);
    if (b.latency[1] > 0)
        fprintf(out, "latency      %.2f ms median, %.2f ms largest\n", 1e3 * b.latency[0], 1e3 * b.latency[1]);
    else
        fprintf(out, "latency      none: in the vehicle's time\n");
}

static void set_both(json_t *o, const char *name, const double *both)
{
    json_t *pair = json_object();

    json_object_set_new(pair, "median", hb_json_number(both[0]));
    json_object_set_new(pair, "max", hb_json_number(both[1]));
    json_object_set_new(o, name, pair);
}

void hb_flight_report_batch_json(const hb_flight_entry *e, int n, FILE *out)
{
    batch b = sum_up(e, n);
    json_t *o = json_object();
    const double latency_ms[2] = {1e3 * b.latency[0], 1e3 * b.latency[1]};

    json_object_set_new(o, "flights", json_integer(n));
    json_object_set_new(o, "crashes", json_integer(b.crashes));
    json_object_set_new(o, "settled", json_integer(b.settled));
    set_both(o, "settled_m", b.settled_m);
    set_both(o, "settled_after_s", b.after_s);
    set_both(o, "height_loss_m", b.height_loss);
    set_both(o, "recovery_s", b.recovery);
    set_both(o, "slew", b.slew);
    set_both(o, "cost", b.cost);
    set_both(o, "latency_ms", latency_ms);
    json_object_set_new(o, "late", json_integer(b.late));
    json_object_set_new(o, "status", status_object(b.status));
    print_line(o, out);
}

/* ---- files ---- */

int hb_flight_report_csv(const char *path, const hb_plant_type *plant, const hb_flight_record *r, hb_error *err)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));

    fprintf(out, "time");
    for (int i = 0; i < plant->nx; i++)
        fprintf(out, ",%s", plant->state_name[i]);
    for (int i = 0; i < plant->nu; i++)
        fprintf(out, ",%s", plant->control_name[i]);
    fprintf(out, ",status,reason,cost,iterations,latency_ms,planning_ms,one_step_error,out_of_span\n");
    for (int k = 0; k < r->nsteps; k++) {
        const hb_flight_step *step = &r->step[k];
        fprintf(out, "%.6f", step->time);
        for (int i = 0; i < plant->nx; i++)
            fprintf(out, ",%.9g", r->x[(size_t)k * (size_t)plant->nx + (size_t)i]);
        for (int i = 0; i < plant->nu; i++)
            fprintf(out, ",%.9g", step->answer.action[i]);
        fprintf(out, ",%s,%s,%.9g,%d,%.4f,%.4f,%.6g,%.6g\n",
                isnan(step->latency) ? "late" : hb_status_name[step->answer.status], step->answer.reason,
                step->answer.cost, step->answer.iterations, 1e3 * step->latency, 1e3 * step->answer.planning,
                step->answer.one_step_error, step->answer.out_of_span);
    }
    int bad = ferror(out);
    return fclose(out) || bad ? hb_fail(err, EIO, "%s: cannot be written: is the disk full?", path) : 0;
}
