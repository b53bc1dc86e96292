#include "eval/robust.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/flight_report.h"
#include "sim/gains.h"

enum { PATH = 512 };

/* of the three that plan, in tasks: what a companion computer gets from an autopilot without effort */
static const double request_rate = 50;

const char *const hb_robust_controller_name[] = {
#define X(id, name, help) name,
    HB_ROBUST_CONTROLLERS(X)
#undef X
};

const char *const hb_robust_controller_help[] = {
#define X(id, name, help) help,
    HB_ROBUST_CONTROLLERS(X)
#undef X
};

static int make_loop(const hb_robust_settings *s, const hb_robust_row *row, hb_robust_controller controller,
                     double delay, double lag, hb_loop **ret, hb_error *err)
{
    bool task = row->groups & HB_ROBUST_TASK, rotors = row->plant == &hb_plant_quadrotor;

    if (controller == HB_ROBUST_PID)
        return hb_loop_pid(ret, row->plant, task ? hb_gains_pid : hb_gains_pid_hover, s->factor, err);
    if (controller == HB_ROBUST_INDI)
        return hb_loop_indi(ret, row->plant, s->factor, err);
    if (controller == HB_ROBUST_L1)
        return hb_loop_l1(ret, row->plant, s->factor, err);
    const char *config = !task ? NULL : rotors ? "quadrotor-track" : "px4-track";
    const char *constants = rotors ? "quadrotor-constants.safetensors" : "px4-constants.safetensors";
    return hb_loop_in_process(ret, row->plant,
                              &(hb_loop_controller){
                                  .config = s->config ? s->config : config,
                                  .model = controller == HB_ROBUST_CONSTANTS ? constants : s->model,
                                  .adapt = controller != HB_ROBUST_OFF,
                                  .factor = s->factor,
                                  .horizon = s->horizon,
                                  .threads = 1,
                                  .delay = row->told ? delay : -1,
                                  .lag = row->told_lag ? lag : -1,
                              },
                              err);
}

/* What sits on board has its own rate, and nothing is lost or late on the way; others are asked over the link. Of
 * tasks, the link's delay is the one that the configuration reckons with. */
static void set_link(hb_flight_settings *f, const hb_robust_row *row, hb_robust_controller controller, const hb_loop *l,
                     const hb_link *link)
{
    bool task = row->groups & HB_ROBUST_TASK;

    if (hb_robust_on_board(controller)) {
        f->dt = 1 / l->rate;
        return;
    }
    f->link = *link;
    f->dt = link->request_rate > 0 ? 1 / link->request_rate : task ? 1 / request_rate : l->step;
}

static int trace(const hb_robust_settings *s, const hb_robust_row *row, hb_robust_controller controller, int index,
                 const hb_flight_record *r, hb_error *err)
{
    char path[PATH];

    snprintf(path, sizeof path, "%s/%s-%s-%s-%d.csv", s->trace, row->plant->name, row->name,
             hb_robust_controller_name[controller], index);
    return hb_flight_report_csv(path, row->plant, r, err);
}

/* Conditions begin up to a metre away and at rest, tasks on their way. */
static int start(const hb_robust_settings *s, const hb_robust_row *row, int index, hb_plant *p, hb_flight_settings *f,
                 hb_error *err)
{
    bool task = row->groups & HB_ROBUST_TASK;
    hb_draws draws = hb_flight_draws(s->seed, HB_FLIGHT_START, index, 0);
    double at[HB_PLANT_STATES];

    if (!task)
        return hb_flight_draw_start(p, f->target, 1, &draws, f->start, err);
    hb_flight_target(row->plant, f, 0, at);
    return hb_flight_draw_start(p, at, 0.05, &draws, f->start, err);
}

int hb_robust_fly(const hb_robust_settings *s, const hb_robust_row *row, hb_robust_controller controller, int index,
                  hb_plant *p, hb_robust_flight *ret, hb_error *err)
{
    const hb_plant_type *type = row->plant;
    double parameter[HB_PLANT_PARAMETERS];
    hb_link link;
    hb_loop *l = NULL;
    hb_flight_record record = {0};
    hb_flight_summary sum;
    hb_flight_settings f = {
        .seconds = s->seconds > 0     ? s->seconds
                   : row->seconds > 0 ? row->seconds
                                      : 8,
        .has_target = true,
        .path = row->path,
        .surprise = row->surprise,
        .key = hb_flight_draws(s->seed, HB_FLIGHT_WEATHER, index, 0).key,
        .reset_counter = 1,
        .epoch_us = 1000000,
    };
    int delay = hb_plant_parameter_find(type, "delay", NULL), lag = hb_plant_parameter_find(type, "lag", NULL);

    memcpy(f.target, type->target, (size_t)type->nx * sizeof *f.target);
    int status = hb_robust_draw(row, s->seed, index, parameter, &link, f.event, &f.nevents, err);
    if (!status)
        status = make_loop(s, row, controller, parameter[delay], lag >= 0 ? parameter[lag] : 0, &l, err);
    if (!status && row->groups & HB_ROBUST_TASK) {
        parameter[delay] += l->delay;
        for (int i = 0; i < f.nevents; i++)
            f.event[i].value += f.event[i].parameter == delay ? l->delay : 0;
    }
    for (int i = 0; !status && i < type->nparameters; i++)
        status = hb_plant_set(p, i, parameter[i], err);
    if (!status)
        status = start(s, row, index, p, &f, err);
    if (!status) {
        set_link(&f, row, controller, l, &link);
        status = hb_flight_run(p, l, &f, &record, err);
    }
    if (!status)
        status = hb_flight_summarise(type, &f, &record, &sum, err);
    if (!status)
        hb_robust_measure_flight(row, &f, &record, &sum, hb_robust_on_board(controller), ret);
    if (!status && s->trace)
        status = trace(s, row, controller, index, &record, err);
    hb_flight_record_free(&record);
    if (l)
        l->free(l);
    return status;
}
