/* The loop through lib's controller, without a daemon: one thread observes and plans in turn. Time is the vehicle's
 * own, which stands still while a plan is made, or, on demand, this machine's monotonic clock. */
#include "sim/loop.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "config/config.h"
#include "controller/controller.h"

typedef struct process_loop {
    hb_loop loop;
    hb_config config;
    hb_model *model;
    hb_pool *pool;
    hb_controller *controller;
    uint64_t tick;
    bool started;              /* the vehicle's clock was read: */
    int64_t start_us;          /* then, */
    double time;               /* and seconds since, so that they are the same numbers in every flight */
    const hb_command *command; /* the answer that waits to be taken */
} process_loop;

static double now(void *context)
{
    const process_loop *s = context;
    return s->loop.virtual_time ? s->time : hb_now();
}

static void move_clock(process_loop *s, int64_t time_us)
{
    if (!s->started)
        s->start_us = time_us;
    s->started = true;
    s->time = 1e-6 * (double)(time_us - s->start_us);
}

static int publish(hb_loop *l, int64_t time_us, const double *x, const double *u, uint32_t reset_counter, hb_error *err)
{
    process_loop *s = (process_loop *)l;
    const hb_observation o = {
        .time_us = time_us,
        .x = x,
        .nx = l->nx,
        .u = u,
        .nu = l->nu,
        .reset_counter = reset_counter,
    };
    (void)err;

    move_clock(s, time_us);
    hb_controller_observe(s->controller, &o, now(s));
    return 0;
}

static int ask(hb_loop *l, const hb_loop_question *q, hb_error *err)
{
    process_loop *s = (process_loop *)l;
    const hb_clock clock = {.now = now, .context = s};
    move_clock(s, q->time_us);
    const double received = now(s);
    const hb_request r = {
        .time_us = q->time_us,
        .x = q->x,
        .nx = l->nx,
        .target = q->target,
        .ntargets = q->ntargets,
        .reset_counter = q->reset_counter,
        .received = received,
        .deadline = q->budget > 0 ? received + q->budget : 0,
        .tick = s->tick++,
    };
    (void)err;

    hb_controller_observe_request(s->controller, &r, r.received);
    s->command = hb_controller_command(s->controller, &r, &clock);
    hb_controller_prepare(s->controller, &clock, NULL, UINT64_MAX);
    return 0;
}

static int answer(hb_loop *l, double timeout, hb_loop_answer *ret, hb_error *err)
{
    const process_loop *s = (process_loop *)l;
    const hb_command *c = s->command;
    (void)timeout;
    (void)err;

    *ret = (hb_loop_answer){
        .has_action = true,
        .status = c->status,
        .cost = c->cost,
        .planning = c->planning,
        .iterations = c->iterations,
        .one_step_error = c->health.one_step_error,
        .out_of_span = c->health.out_of_span,
    };
    snprintf(ret->reason, sizeof ret->reason, "%s", hb_reason_name[c->reason]);
    memcpy(ret->action, c->action, (size_t)l->nu * sizeof *ret->action);
    return 0;
}

static void free_loop(hb_loop *l)
{
    process_loop *s = (process_loop *)l;

    hb_controller_free(s->controller);
    hb_pool_free(s->pool);
    hb_model_free(s->model);
    free(s);
}

/* Run from the build tree, shipped files are the source tree's, else the installed ones. */
static const char *shipped(void)
{
    char self[PATH_MAX] = "";
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    bool built = length > 0 && strncmp(self, HB_BUILD_ROOT "/", strlen(HB_BUILD_ROOT) + 1) == 0;

    if (built)
        setenv("HILBERT_MODELS", HB_SOURCE_CONFIG "/models", 0);
    return built ? HB_SOURCE_CONFIG : HB_CONFIG_FOLDER;
}

static int find_config(const char *name, const hb_plant_type *plant, char *ret, size_t size, hb_error *err)
{
    const char *folder = shipped();

    if (name && (strchr(name, '/') || strchr(name, '.'))) {
        snprintf(ret, size, "%s", name);
        return 0;
    }
    snprintf(ret, size, "%s/%s.yaml", folder, name ? name : plant->name);
    if (access(ret, R_OK))
        return hb_fail(err, ENOENT, "there is no configuration for %s (%s): write one and name it with --config",
                       plant->name, ret);
    return 0;
}

/* A model that is given by its name alone is beside the configuration's. */
static void find_model(const char *name, const char *of_config, char *ret, size_t size)
{
    const char *end = strrchr(of_config, '/');

    if (name && !strchr(name, '/') && end && access(name, R_OK))
        snprintf(ret, size, "%.*s/%s", (int)(end - of_config), of_config, name);
    else
        snprintf(ret, size, "%s", name ? name : of_config);
}

static int load(process_loop *s, const hb_plant_type *plant, const hb_loop_controller *c, hb_error *err)
{
    hb_config_errors *errors = calloc(1, sizeof *errors);
    char path[PATH_MAX], model[PATH_MAX] = "";

    if (!errors)
        return hb_fail(err, ENOMEM, "out of memory");
    int status = find_config(c->config, plant, path, sizeof path, err);
    if (!status && hb_config_load(&s->config, path, errors))
        status = hb_fail(err, EINVAL, "%s", errors->text[0]);
    if (!status) {
        find_model(c->model, s->config.model, model, sizeof model);
        status = hb_model_load(&s->model, model, err);
    }
    if (!status && hb_config_resolve(&s->config, s->model, errors))
        status = hb_fail(err, EINVAL, "%s", errors->text[0]);
    free(errors);
    if (!status && (s->model->nx != plant->nx || s->model->nu != plant->nu))
        status = hb_fail(err, EINVAL, "%s: the model has %d states and %d controls, plant %s has %d and %d", model,
                         s->model->nx, s->model->nu, plant->name, plant->nx, plant->nu);
    for (int i = 0; !status && i < plant->nx; i++)
        if (strcmp(s->model->state_name[i], plant->state_name[i]) != 0)
            status = hb_fail(err, EINVAL, "state %d is '%s' in the model and '%s' in plant %s", i,
                             s->model->state_name[i], plant->state_name[i], plant->name);
    return status;
}

int hb_loop_in_process(hb_loop **ret, const hb_plant_type *plant, const hb_loop_controller *c, hb_error *err)
{
    process_loop *s = calloc(1, sizeof *s);
    if (!s)
        return hb_fail(err, ENOMEM, "out of memory");
    s->loop = (hb_loop){
        .nx = plant->nx,
        .nu = plant->nu,
        .publish = publish,
        .ask = ask,
        .answer = answer,
        .free = free_loop,
    };
    int status = load(s, plant, c, err);
    if (!status) {
        hb_numeric_single_thread();
        s->config.controller.adapt = s->config.controller.adapt && c->adapt;
        if (c->delay >= 0)
            s->config.controller.delay = c->delay;
        if (c->lag >= 0)
            s->config.controller.estimator.actuators.lag = c->lag;
        if (c->horizon > 0)
            s->config.controller.planner.horizon = c->horizon;
        s->loop.virtual_time = !c->realtime;
        s->loop.delay = s->config.controller.delay;
        for (int i = 0; i < s->config.controller.cost.nterms && c->factor; i++)
            s->config.controller.cost.term[i].weight *= c->factor[i];
        s->loop.horizon = s->config.controller.planner.horizon;
        s->loop.step = s->config.controller.planner.dt > 0 ? s->config.controller.planner.dt : s->model->dt;
        status = hb_pool_new(&s->pool, c->threads, NULL, NULL, err);
    }
    if (!status)
        status = hb_controller_new(&s->controller, s->model, &s->config.controller, s->pool, NULL, NULL, err);
    if (status) {
        free_loop(&s->loop);
        return status;
    }
    *ret = &s->loop;
    return 0;
}
