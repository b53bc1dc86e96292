#include "sim/plant.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const hb_plant_type *const types[] = {
    &hb_plant_quadrotor, &hb_plant_multirotor,   &hb_plant_half_cheetah, &hb_plant_half_cheetah_standing,
    &hb_plant_ant,       &hb_plant_ant_standing, &hb_plant_vanderpol,    NULL,
};

const hb_plant_type *hb_plant_type_at(int index)
{
    return types[index];
}

const hb_plant_type *hb_plant_type_find(const char *name, hb_error *err)
{
    char all[256] = "";

    for (int i = 0; types[i]; i++) {
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", types[i]->name);
    }
    hb_fail(err, EINVAL, "there is no plant '%s'; there are: %s", name, all);
    return NULL;
}

double hb_draw_uniform(hb_draws *d, double low, double high)
{
    return low + (high - low) * hb_random_uniform(d->key, d->index++);
}

double hb_draw_normal(hb_draws *d)
{
    return hb_random_normal(d->key, d->index++);
}

int hb_plant_new(hb_plant **ret, const hb_plant_type *type, hb_error *err)
{
    hb_plant *p = calloc(1, sizeof *p);
    if (!p)
        return hb_fail(err, ENOMEM, "out of memory");
    p->type = type;
    for (int i = 0; i < type->nparameters; i++)
        p->parameter[i] = type->parameter[i].nominal;
    int status = type->create(p, err);
    if (status) {
        hb_plant_free(p);
        return status;
    }
    *ret = p;
    return 0;
}

void hb_plant_free(hb_plant *p)
{
    if (!p)
        return;
    p->type->destroy(p);
    free(p);
}

int hb_plant_parameter_find(const hb_plant_type *type, const char *name, hb_error *err)
{
    for (int i = 0; i < type->nparameters; i++)
        if (strcmp(type->parameter[i].name, name) == 0)
            return i;
    return hb_fail(err, EINVAL, "plant %s has no parameter '%s': see hilbert-sim list", type->name, name);
}

int hb_plant_set(hb_plant *p, int parameter, double value, hb_error *err)
{
    const hb_plant_parameter *about = &p->type->parameter[parameter];

    if (!(value >= about->min && value <= about->max))
        return hb_fail(err, EINVAL, "%s = %g is outside of %g to %g", about->name, value, about->min, about->max);
    p->parameter[parameter] = value;
    if (about->live && p->type->apply)
        p->type->apply(p, parameter);
    return 0;
}

int hb_plant_reset(hb_plant *p, const double *x, hb_random_key key, hb_error *err)
{
    p->draws = (hb_draws){.key = key};
    p->sensor_draws = (hb_draws){.key = {.seed = key.seed, .stream = ~key.stream}};
    p->time = 0;
    return p->type->reset(p, x, err);
}

void hb_plant_step(hb_plant *p, const double *u, double dt)
{
    double clamped[HB_PLANT_CONTROLS];

    for (int i = 0; i < p->type->nu; i++)
        clamped[i] = fmin(fmax(u[i], p->type->control_min[i]), p->type->control_max[i]);
    p->type->step(p, clamped, dt);
    p->time += dt;
}

void hb_plant_state(const hb_plant *p, double *x)
{
    p->type->state(p, x);
}

void hb_plant_observe(hb_plant *p, double *x)
{
    p->type->state(p, x);
    if (p->type->disturb)
        p->type->disturb(p, &p->sensor_draws, x);
}

void hb_plant_control(const hb_plant *p, hb_plant_report what, const double *command, double *u)
{
    if (what != HB_REPORT_COMMAND && p->type->control)
        p->type->control(p, what, command, u);
    else
        memcpy(u, command, (size_t)p->type->nu * sizeof *u);
}

const char *hb_plant_failure(const hb_plant *p)
{
    return p->type->failure(p);
}
