#include "eval/robust.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"
#include "sim/flight_report.h"

enum { PATH = 512 };

const char *const hb_robust_controller_name[] = {
#define X(id, name) name,
    HB_ROBUST_CONTROLLERS(X)
#undef X
};

static int make_loop(const hb_robust_settings *s, const hb_robust_row *row, hb_robust_controller controller,
                     double delay, double lag, hb_loop **ret, hb_error *err)
{
    if (controller == HB_ROBUST_PID)
        return hb_loop_pid(ret, &hb_plant_quadrotor, NULL, err);
    return hb_loop_in_process(ret, &hb_plant_quadrotor,
                              &(hb_loop_controller){
                                  .config = s->config,
                                  .model = s->model,
                                  .adapt = controller == HB_ROBUST_ADAPTING,
                                  .threads = 1,
                                  .virtual_time = true,
                                  .delay = row->told ? delay : -1,
                                  .lag = row->told_lag ? lag : -1,
                              },
                              err);
}

/* A PID sits on the vehicle itself, with its own rate and nothing lost on the way; others are asked over the link, once
 * for each step of their plans. */
static void set_link(hb_flight_settings *f, hb_robust_controller controller, const hb_loop *l, const hb_link *link)
{
    if (controller == HB_ROBUST_PID) {
        f->dt = 1 / HB_PID_RATE;
        return;
    }
    f->link = *link;
    f->dt = link->request_rate > 0 ? 1 / link->request_rate : l->step;
}

static int trace(const hb_robust_settings *s, const hb_robust_row *row, hb_robust_controller controller, int index,
                 const hb_flight_record *r, hb_error *err)
{
    char path[PATH];

    snprintf(path, sizeof path, "%s/%s-%s-%d.csv", s->trace, row->name, hb_robust_controller_name[controller], index);
    return hb_flight_report_csv(path, &hb_plant_quadrotor, r, err);
}

int hb_robust_fly(const hb_robust_settings *s, const hb_robust_row *row, hb_robust_controller controller, int index,
                  hb_plant *p, hb_flight_summary *ret, hb_error *err)
{
    const hb_plant_type *type = &hb_plant_quadrotor;
    double parameter[HB_PLANT_PARAMETERS];
    hb_link link;
    hb_loop *l = NULL;
    hb_flight_record record = {0};
    hb_flight_settings f = {
        .seconds = s->seconds > 0     ? s->seconds
                   : row->seconds > 0 ? row->seconds
                                      : 8,
        .has_target = true,
        .path = row->path,
        .key = hb_flight_draws(s->seed, HB_FLIGHT_WEATHER, index, 0).key,
        .reset_counter = 1,
        .epoch_us = 1000000,
    };
    hb_draws start = hb_flight_draws(s->seed, HB_FLIGHT_START, index, 0);
    int mass = hb_plant_parameter_find(type, "mass", NULL), delay = hb_plant_parameter_find(type, "delay", NULL);
    int lag = hb_plant_parameter_find(type, "lag", NULL);

    memcpy(f.target, type->target, (size_t)type->nx * sizeof *f.target);
    int status = hb_robust_draw(row, s->seed, index, parameter, &link, err);
    for (int i = 0; !status && i < type->nparameters; i++)
        status = hb_plant_set(p, i, parameter[i], err);
    if (!status && row->mass_step > 0)
        /* as far on the other side of the middle */
        f.event[f.nevents++] = (hb_flight_event){
            .time = row->mass_step,
            .parameter = mass,
            .value = type->parameter[mass].low + type->parameter[mass].high - parameter[mass],
        };
    if (!status && row->rotor_step > 0)
        f.event[f.nevents++] = (hb_flight_event){
            .time = row->rotor_step,
            .parameter = hb_plant_parameter_find(type, "rotor0", NULL) + index % 4,
            .value = row->rotor,
        };
    if (!status)
        status = hb_flight_draw_start(p, f.target, 1, &start, f.start, err);
    if (!status)
        status = make_loop(s, row, controller, parameter[delay], parameter[lag], &l, err);
    if (!status) {
        set_link(&f, controller, l, &link);
        status = hb_flight_run(p, l, &f, &record, err);
    }
    if (!status)
        status = hb_flight_summarise(type, &f, &record, ret, err);
    if (!status && s->trace)
        status = trace(s, row, controller, index, &record, err);
    hb_flight_record_free(&record);
    if (l)
        l->free(l);
    return status;
}

hb_robust_result hb_robust_sum_up(const hb_robust_row *row, hb_robust_controller controller,
                                  const hb_flight_summary *flight, int n)
{
    hb_robust_result r = {
        .row = row, .controller = controller, .flights = n, .worst_m = NAN, .said_after_s = NAN, .unsaid = -1};
    double *settled = calloc(2 * (size_t)n + 1, sizeof *settled), *rms = settled ? settled + n : NULL;
    long replies = 0, outside = 0;
    int whole = 0;

    if (row->rotor_step > 0 && controller != HB_ROBUST_PID)
        r.unsaid = 0;
    for (int i = 0; i < n; i++) {
        double said = flight[i].nresponses > 0 ? flight[i].response[0].said : INFINITY;
        if (r.unsaid >= 0 && isfinite(said))
            r.said_after_s = fmax(r.said_after_s, said);
        else if (r.unsaid >= 0)
            r.unsaid++;
        r.crashed += flight[i].crashed;
        for (int k = 0; k < HB_NSTATUSES; k++)
            replies += flight[i].status[k];
        outside += flight[i].status[HB_STATUS_OUT_OF_SPAN];
        if (!settled || flight[i].crashed)
            continue;
        settled[whole] = flight[i].settled_m;
        rms[whole++] = flight[i].rms_m;
        r.worst_m = fmax(r.worst_m, flight[i].settled_m);
    }
    r.settled_m = hb_quantile(settled, whole, 0.5);
    r.rms_m = hb_quantile(rms, whole, 0.5);
    r.out_of_span = controller == HB_ROBUST_PID || replies == 0 ? NAN : (double)outside / (double)replies;
    free(settled);
    return r;
}
