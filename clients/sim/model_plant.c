#include "sim/model_plant.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "dynamics/stepper.h"
#include "sim/actuation.h"

enum { VEHICLE, SPREAD, NOISE, DELAY, LAG, NPARAMETERS };

static const double beyond = 30; /* standard deviations from the mean of the data: nobody has been there */

/* a type with all that it points to */
typedef struct model_plant {
    hb_plant_type type; /* the first: types are told by it */
    hb_model *model;
    double *root; /* nproblems factors of the prior's covariance, nb x nb each, lower; NULL: there is no prior */
    const char *state_name[HB_PLANT_STATES], *state_unit[HB_PLANT_STATES];
    const char *control_name[HB_PLANT_CONTROLS], *control_unit[HB_PLANT_CONTROLS];
    double target[HB_PLANT_STATES];
    hb_plant_parameter parameter[NPARAMETERS];
} model_plant;

/* one vehicle */
typedef struct vehicle {
    hb_stepper *stepper;
    hb_real *coefficient;
    double x[HB_PLANT_STATES];
    hb_actuation actuation;
} vehicle;

static const model_plant *of(const hb_plant *p)
{
    return (const model_plant *)(const void *)p->type;
}

static int create(hb_plant *p, hb_error *err)
{
    const hb_model *m = of(p)->model;
    vehicle *v = p->own = calloc(1, sizeof *v);

    if (!v || !(v->coefficient = calloc((size_t)hb_model_ncoefficients(m) + 1, sizeof *v->coefficient)))
        return hb_fail(err, ENOMEM, "out of memory");
    return hb_stepper_new(&v->stepper, m, err);
}

static void destroy(hb_plant *p)
{
    vehicle *v = p->own;

    if (v) {
        hb_stepper_free(v->stepper);
        free(v->coefficient);
    }
    free(v);
}

/* mean + spread * root * normal draws, which belong to the vehicle's number */
static void take_coefficients(hb_plant *p)
{
    const model_plant *type = of(p);
    const hb_model *m = type->model;
    const int nb = m->nb, n = hb_model_nproblems(m);
    const double number = floor(p->parameter[VEHICLE]);
    const hb_random_key key = {.seed = 0x7e8ea75a1, .stream = (uint64_t)number};
    vehicle *v = p->own;

    if (!type->root)
        return;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < nb; i++) {
            const int at = n == 1 ? i : i * n + k; /* nb, or nb x nx */
            double sum = 0;
            for (int j = 0; j <= i && number > 0; j++)
                sum += type->root[(size_t)(k * nb + i) * (size_t)nb + (size_t)j] *
                       hb_random_normal(key, (uint64_t)(k * nb + j));
            v->coefficient[at] = (hb_real)(m->prior_mean[at] + p->parameter[SPREAD] * sum);
        }
    hb_predictor_set(hb_stepper_predictor(v->stepper), v->coefficient);
}

static void apply(hb_plant *p, int parameter)
{
    if (parameter == VEHICLE || parameter == SPREAD)
        take_coefficients(p);
}

static int reset(hb_plant *p, const double *x, hb_error *err)
{
    vehicle *v = p->own;
    (void)err;

    memcpy(v->x, x, (size_t)p->type->nx * sizeof *x);
    hb_actuation_reset(&v->actuation, p->type->nu, p->type->control_trim);
    take_coefficients(p);
    return 0;
}

/* Somewhere in the data. */
static int start(hb_plant *p, hb_draws *d, double *x, hb_error *err)
{
    const hb_model *m = of(p)->model;
    const int q = hb_model_quaternion(m);
    (void)err;

    for (int i = 0; i < m->nx; i++)
        x[i] = m->state_mean[i] + m->state_std[i] * hb_draw_uniform(d, -1, 1);
    for (int i = 0; q >= 0 && i < 4; i++)
        x[q + i] = i == 3;
    return 0;
}

static void step(hb_plant *p, const double *u, double dt)
{
    enum { PARTS = 4 }; /* of a step, in each of which one command acts */
    const double h = dt / PARTS;
    vehicle *v = p->own;
    double mean[HB_PLANT_CONTROLS];

    hb_actuation_tell(&v->actuation, p->time, u);
    for (int part = 0; part < PARTS; part++) {
        hb_actuation_advance(&v->actuation, p->time + part * h, h, p->parameter[DELAY], p->parameter[LAG], mean);
        hb_stepper_step(v->stepper, v->x, mean, h);
    }
}

static void state(const hb_plant *p, double *x)
{
    memcpy(x, ((const vehicle *)p->own)->x, (size_t)p->type->nx * sizeof *x);
}

static void disturb(const hb_plant *p, hb_draws *d, double *x)
{
    const hb_model *m = of(p)->model;
    const int q = hb_model_quaternion(m);

    for (int i = 0; m->has_prior && i < m->nx; i++) {
        const double noise = p->parameter[NOISE] * m->noise[i] * m->state_std[i] * hb_draw_normal(d);
        x[i] += q >= 0 && i >= q && i < q + 4 ? 0 : noise;
    }
}

static void control(const hb_plant *p, hb_plant_report what, const double *command, double *u)
{
    const vehicle *v = p->own;

    (void)command;
    memcpy(u,
           what == HB_REPORT_MADE ? v->actuation.acting
                                  : hb_actuation_told(&v->actuation, p->time - p->parameter[DELAY]),
           (size_t)p->type->nu * sizeof *u);
}

static const char *failure(const hb_plant *p)
{
    const hb_model *m = of(p)->model;
    const double *x = ((const vehicle *)p->own)->x;

    for (int i = 0; i < m->ninputs; i++) {
        const int k = m->input[i];
        if (!m->angle[k] && !(fabs(x[k] - m->state_mean[k]) <= beyond * m->state_std[k]))
            return "far outside of what the model was trained on";
    }
    for (int i = 0; i < m->nx; i++)
        if (!isfinite(x[i]))
            return "the model's prediction is not finite";
    return NULL;
}

/* ---- the type ---- */

bool hb_model_plant_named(const char *name)
{
    static const char suffix[] = ".safetensors";
    const size_t n = strlen(name);

    return n > sizeof suffix - 1 && strcmp(name + n - (sizeof suffix - 1), suffix) == 0;
}

static int take_root(model_plant *t, hb_error *err)
{
    const hb_model *m = t->model;
    const size_t nb = (size_t)m->nb, n = (size_t)hb_model_nproblems(m);

    if (!m->has_prior)
        return 0;
    t->root = malloc(n * nb * nb * sizeof *t->root);
    if (!t->root)
        return hb_fail(err, ENOMEM, "out of memory");
    memcpy(t->root, m->prior_covariance, n * nb * nb * sizeof *t->root);
    for (size_t k = 0; k < n; k++) {
        double *a = t->root + k * nb * nb, most = 0;
        /* semidefinite up to rounding */
        for (size_t i = 0; i < nb; i++)
            most = fmax(most, a[i * nb + i]);
        for (size_t i = 0; i < nb; i++)
            a[i * nb + i] += 1e-9 * most + 1e-30;
        if (hb_cholesky((int)nb, a))
            return hb_fail(err, EINVAL, "the prior's covariance is not positive semidefinite");
    }
    return 0;
}

static double mean_of(const double *value, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += value[i] / n;
    return sum;
}

/* The target of a configuration, where it names one. */
static int take_target(model_plant *t, const char *config, hb_error *err)
{
    hb_config *c = calloc(1, sizeof *c);
    hb_config_errors *errors = calloc(1, sizeof *errors);
    int status = c && errors ? 0 : hb_fail(err, ENOMEM, "out of memory");

    if (!status && (hb_config_load(c, config, errors) || hb_config_resolve(c, t->model, errors)))
        status = hb_fail(err, EINVAL, "%s", errors->text[0]);
    if (!status && c->controller.ntarget > 0) {
        memcpy(t->target, c->controller.target, (size_t)t->model->nx * sizeof *t->target);
        t->type.target = t->target;
    }
    free(c);
    free(errors);
    return status;
}

static void fill(model_plant *t, const char *path)
{
    const hb_model *m = t->model;
    const double delay = mean_of(m->actuator_delay, m->nu), lag = mean_of(m->actuator_lag, m->nu);

    for (int i = 0; i < m->nx; i++) {
        t->state_name[i] = m->state_name[i];
        t->state_unit[i] = m->state_unit[i];
    }
    for (int i = 0; i < m->nu; i++) {
        t->control_name[i] = m->control_name[i];
        t->control_unit[i] = m->control_unit[i];
    }
    t->parameter[VEHICLE] = (hb_plant_parameter){
        "vehicle", "", "0: the population's mean; another number: a vehicle of it", 0, 1, 1e6, 0, 1e9, true};
    t->parameter[SPREAD] = (hb_plant_parameter){
        "spread", "1", "how far vehicles are from the mean, relative to the population", 1, 1, 1, 0, 10, true};
    t->parameter[NOISE] = (hb_plant_parameter){
        "noise", "1", "of sensors, relative to what the model leaves of a step", 1, 1, 1, 0, 100, true};
    t->parameter[DELAY] = (hb_plant_parameter){"delay", "s", "until a command acts", delay, delay, delay, 0, 1, true};
    t->parameter[LAG] = (hb_plant_parameter){"lag", "s", "of the actuators", lag, lag, lag, 0, 10, true};
    t->type = (hb_plant_type){.name = path,
                              .help = "a learned model as the plant",
                              .nx = m->nx,
                              .nu = m->nu,
                              .nparameters = NPARAMETERS,
                              .state_name = t->state_name,
                              .state_unit = t->state_unit,
                              .control_name = t->control_name,
                              .control_unit = t->control_unit,
                              .control_min = m->control_min,
                              .control_max = m->control_max,
                              .control_trim = m->control_trim,
                              .parameter = t->parameter,
                              .dt = m->dt,
                              .apply = apply,
                              .disturb = disturb,
                              .control = control,
                              HB_PLANT_FUNCTIONS};
}

int hb_model_plant_new(const hb_plant_type **ret, const char *path, const char *config, hb_error *err)
{
    model_plant *t = calloc(1, sizeof *t);
    int status = t ? hb_model_load(&t->model, path, err) : hb_fail(err, ENOMEM, "out of memory");

    if (!status && t->model->nu == 0)
        status = hb_fail(err, EINVAL, "%s: the model has no controls to fly with", path);
    if (!status && (t->model->nx > HB_PLANT_STATES || t->model->nu > HB_PLANT_CONTROLS))
        status = hb_fail(err, EINVAL, "%s: the model has %d states and %d controls: a plant has at most %d and %d",
                         path, t->model->nx, t->model->nu, HB_PLANT_STATES, HB_PLANT_CONTROLS);
    if (!status) {
        fill(t, path);
        status = hb_fail_in(err, path, take_root(t, err));
    }
    if (!status && config)
        status = take_target(t, config, err);
    if (status) {
        if (t)
            t->type.create = create;
        hb_model_plant_free(t ? &t->type : NULL);
        return status;
    }
    *ret = &t->type;
    return 0;
}

void hb_model_plant_free(const hb_plant_type *type)
{
    if (!type || type->create != create)
        return;
    model_plant *t = (model_plant *)(uintptr_t)type;

    hb_model_free(t->model);
    free(t->root);
    free(t);
}
