#include "sim/walker.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/mujoco.h"

#define PHYSICS_STEP 0.01

typedef struct walker {
    const char *xml;
    int quaternion; /* index of its first number among the positions, or -1 */
    hb_mujoco sim;
    double built_for[HB_PLANT_PARAMETERS];
} walker;

int hb_walker_create(hb_plant *p, const char *xml, int quaternion, hb_error *err)
{
    walker *w = p->own = calloc(1, sizeof *w);
    if (!w)
        return hb_fail(err, ENOMEM, "out of memory");
    w->xml = xml;
    w->quaternion = quaternion;
    return 0;
}

void hb_walker_destroy(hb_plant *p)
{
    walker *w = p->own;

    if (w)
        hb_mujoco_free(&w->sim);
    free(w);
}

/* Compiles the model anew when the parameters are not those it was built for. */
static int build(hb_plant *p, hb_error *err)
{
    walker *w = p->own;
    const char *name[HB_PLANT_PARAMETERS];
    size_t size = (size_t)p->type->nparameters * sizeof(double);

    if (w->sim.model && memcmp(w->built_for, p->parameter, size) == 0)
        return 0;
    for (int i = 0; i < p->type->nparameters; i++)
        name[i] = p->type->parameter[i].name;
    char *xml = hb_mujoco_expand(w->xml, p->type->nparameters, name, p->parameter, err);
    if (!xml)
        return -EINVAL;
    hb_mujoco_free(&w->sim);
    int status = hb_mujoco_load(&w->sim, p->type->name, xml, err);
    free(xml);
    if (status)
        return status;
    memcpy(w->built_for, p->parameter, size);
    if (w->sim.model->nq + w->sim.model->nv != p->type->nx || w->sim.model->nu != p->type->nu)
        return hb_fail(err, EINVAL, "%s: the model has %d states and %d controls, expected %d and %d", p->type->name,
                       w->sim.model->nq + w->sim.model->nv, w->sim.model->nu, p->type->nx, p->type->nu);
    return 0;
}

static void set_state(walker *w, const double *x)
{
    mjtNum *position = w->sim.data->qpos;

    memcpy(position, x, (size_t)w->sim.model->nq * sizeof *x);
    memcpy(w->sim.data->qvel, x + w->sim.model->nq, (size_t)w->sim.model->nv * sizeof *x);
    if (w->quaternion >= 0) {
        const double *q = x + w->quaternion;
        position[w->quaternion] = q[3];
        memcpy(position + w->quaternion + 1, q, 3 * sizeof *q);
    }
}

int hb_walker_reset(hb_plant *p, const double *x, hb_error *err)
{
    walker *w = p->own;
    int status = build(p, err);

    if (status)
        return status;
    mj_resetData(w->sim.model, w->sim.data);
    set_state(w, x);
    return 0;
}

void hb_walker_scatter(hb_draws *d, int nx, int first_rate, const double *rest, double *x)
{
    for (int i = 0; i < nx; i++)
        x[i] = rest[i] + (i < first_rate ? hb_draw_uniform(d, -0.1, 0.1) : 0.1 * hb_draw_normal(d));
}

int hb_walker_stand(hb_plant *p, int height, double *x, hb_error *err)
{
    int status = hb_walker_reset(p, x, err);
    if (status)
        return status;

    /* the lowest point of spheres and capsules, which is all a walker is made of */
    const walker *w = p->own;
    double lowest = INFINITY;
    mj_kinematics(w->sim.model, w->sim.data);
    for (int g = 0; g < w->sim.model->ngeom; g++) {
        const mjtNum *size = w->sim.model->geom_size + 3 * g, *axes = w->sim.data->geom_xmat + 9 * g;
        int type = w->sim.model->geom_type[g];
        if (type == mjGEOM_SPHERE || type == mjGEOM_CAPSULE) {
            double half = type == mjGEOM_CAPSULE ? size[1] * fabs(axes[8]) : 0;
            lowest = fmin(lowest, w->sim.data->geom_xpos[3 * g + 2] - half - size[0]);
        }
    }
    x[height] -= lowest;
    return 0;
}

void hb_walker_step(hb_plant *p, const double *u, double dt)
{
    walker *w = p->own;
    int n = hb_mujoco_steps(&w->sim, dt, PHYSICS_STEP);

    memcpy(w->sim.data->ctrl, u, (size_t)p->type->nu * sizeof *u);
    for (int k = 0; k < n; k++)
        mj_step(w->sim.model, w->sim.data);
}

void hb_walker_state(const hb_plant *p, double *x)
{
    const walker *w = p->own;
    const mjtNum *position = w->sim.data->qpos;

    memcpy(x, position, (size_t)w->sim.model->nq * sizeof *x);
    memcpy(x + w->sim.model->nq, w->sim.data->qvel, (size_t)w->sim.model->nv * sizeof *x);
    if (w->quaternion >= 0) {
        memcpy(x + w->quaternion, position + w->quaternion + 1, 3 * sizeof *x);
        x[w->quaternion + 3] = position[w->quaternion];
    }
}

const char *hb_walker_failure(const hb_plant *p)
{
    const walker *w = p->own;

    return hb_mujoco_failure(&w->sim);
}

const hb_mujoco *hb_walker_mujoco(const hb_plant *p)
{
    return &((const walker *)p->own)->sim;
}
