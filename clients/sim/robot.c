#include "sim/robot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/policy.h"
#include "sim/robot_parts.h"

enum { NOISE, DELAY, LAG, NCOMMON }; /* parameters behind the hidden ones */

/* ---- states ---- */

void robot_get(const robot *r, const mjData *d, double *x)
{
    for (int i = 0; i < r->type.nx; i++) {
        const robot_state *s = &r->state[i];
        const mjtNum *const from[] = {
            [ROBOT_POSITION] = d->qpos, [ROBOT_VELOCITY] = d->qvel,  [ROBOT_ACTIVATION] = d->act,
            [ROBOT_BODY] = d->xpos,     [ROBOT_SITE] = d->site_xpos, [ROBOT_SENSOR] = d->sensordata};
        x[i] = from[s->source][s->index];
    }
}

void robot_put(const robot *r, const double *x, mjData *d)
{
    for (int i = 0; i < r->type.nx; i++) {
        const robot_state *s = &r->state[i];
        if (s->source == ROBOT_POSITION)
            d->qpos[s->index] = x[i];
        else if (s->source == ROBOT_VELOCITY)
            d->qvel[s->index] = x[i];
        else if (s->source == ROBOT_ACTIVATION)
            d->act[s->index] = x[i];
    }
    mj_normalizeQuat(r->nominal.model, d->qpos);
}

static void state(const hb_plant *p, double *x)
{
    robot_get(robot_of(p->type), ((const robot_body *)p->own)->sim.data, x);
}

/* ---- parameters ---- */

static double common(const hb_plant *p, int which)
{
    return p->parameter[robot_of(p->type)->nhidden + which];
}

/* The model with the parameters as they stand. */
static void build(hb_plant *p)
{
    const robot *r = robot_of(p->type);
    robot_body *b = p->own;
    const size_t size = (size_t)r->nhidden * sizeof *p->parameter;
    bool structural = false;

    if (b->built && memcmp(b->built_for, p->parameter, size) == 0)
        return;
    mj_copyModel(b->sim.model, r->nominal.model);
    /* values first: scales of the same things are of them */
    for (int scale = 0; scale < 2; scale++)
        for (int i = 0; i < r->nhidden; i++) {
            const robot_hidden *h = &r->hidden[i];
            for (int k = 0; k < h->n && h->scale == (scale == 1); k++)
                h->attribute->set(b->sim.model, h->id[k], p->parameter[i], h->scale ? p->parameter[i] : -1);
            structural = structural || h->attribute->structural;
        }
    if (structural)
        mj_setConst(b->sim.model, b->scratch);
    memcpy(b->built_for, p->parameter, size);
    b->built = true;
}

static void apply(hb_plant *p, int parameter)
{
    if (parameter < robot_of(p->type)->nhidden)
        build(p);
}

/* ---- an instance ---- */

static int create(hb_plant *p, hb_error *err)
{
    const robot *r = robot_of(p->type);
    robot_body *b = p->own = calloc(1, sizeof *b);

    if (!b)
        return hb_fail(err, ENOMEM, "out of memory");
    b->sim.model = mj_copyModel(NULL, r->nominal.model);
    b->sim.data = b->sim.model ? mj_makeData(b->sim.model) : NULL;
    b->scratch = b->sim.data ? mj_makeData(b->sim.model) : NULL;
    b->reference = calloc((size_t)r->nominal.model->nq + 1, sizeof *b->reference);
    return b->scratch && b->reference ? 0 : hb_fail(err, ENOMEM, "out of memory");
}

static void destroy(hb_plant *p)
{
    robot_body *b = p->own;

    if (b) {
        if (b->scratch)
            mj_deleteData(b->scratch);
        hb_mujoco_free(&b->sim);
        free(b->reference);
    }
    free(b);
}

static int reset(hb_plant *p, const double *x, hb_error *err)
{
    const robot *r = robot_of(p->type);
    robot_body *b = p->own;
    (void)err;

    build(p);
    mj_copyData(b->sim.data, b->sim.model, r->nominal.data);
    for (int i = 0; i < mjNWARNING; i++)
        b->sim.data->warning[i].number = 0;
    robot_put(r, x, b->sim.data);
    hb_actuation_reset(&b->actuation, p->type->nu, r->control_trim);
    for (int i = 0; i < p->type->nu; i++)
        b->sim.data->ctrl[r->control[i].actuator] = r->control_trim[i];
    mj_forward(b->sim.model, b->sim.data);
    return 0;
}

/* Turns the pose by a tilt about a random horizontal axis, and a heading. */
static void draw_attitude(const robot *r, hb_draws *d, mjtNum *quaternion)
{
    const double about = hb_draw_uniform(d, -M_PI, M_PI), tilt = hb_draw_uniform(d, 0, r->start_tilt);
    const double yaw = hb_draw_uniform(d, -r->start_yaw, r->start_yaw);
    const mjtNum axis[3] = {cos(about), sin(about), 0}, up[3] = {0, 0, 1};
    mjtNum tilted[4], turned[4], both[4], result[4];

    mju_axisAngle2Quat(tilted, axis, tilt);
    mju_axisAngle2Quat(turned, up, yaw);
    mju_mulQuat(both, turned, tilted);
    mju_mulQuat(result, both, quaternion);
    memcpy(quaternion, result, sizeof result);
}

void robot_draw(const robot *r, hb_draws *d, double *x)
{
    const int nx = r->type.nx;
    const int at = r->root >= 0 ? r->nominal.model->jnt_qposadr[r->root] + 3 : -1;

    memcpy(x, r->rest, (size_t)nx * sizeof *x);
    if (at >= 0 && (r->start_tilt > 0 || r->start_yaw > 0)) {
        mjtNum quaternion[4];
        memcpy(quaternion, r->nominal.data->qpos + at, sizeof quaternion);
        draw_attitude(r, d, quaternion);
        for (int i = 0; i < nx; i++)
            if (r->state[i].source == ROBOT_POSITION && r->state[i].index >= at && r->state[i].index < at + 4)
                x[i] = quaternion[r->state[i].index - at];
    }
    for (int i = 0; i < nx; i++)
        if (r->state[i].has_start)
            x[i] = hb_draw_uniform(d, r->state[i].low, r->state[i].high);
}

static int start(hb_plant *p, hb_draws *d, double *x, hb_error *err)
{
    (void)err;
    robot_draw(robot_of(p->type), d, x);
    return 0;
}

static void step(hb_plant *p, const double *u, double dt)
{
    const robot *r = robot_of(p->type);
    robot_body *b = p->own;
    const int n = hb_mujoco_steps(&b->sim, dt, r->step);
    double mean[HB_PLANT_CONTROLS];

    hb_actuation_tell(&b->actuation, p->time, u);
    for (int k = 0; k < n; k++) {
        hb_actuation_advance(&b->actuation, p->time + k * dt / n, dt / n, common(p, DELAY), common(p, LAG), mean);
        for (int i = 0; i < p->type->nu; i++)
            b->sim.data->ctrl[r->control[i].actuator] = mean[i];
        mj_step(b->sim.model, b->sim.data);
    }
    /* a step leaves what follows from the position behind it */
    if (r->derived)
        mj_forward(b->sim.model, b->sim.data);
}

static void disturb(const hb_plant *p, hb_draws *d, double *x)
{
    const robot *r = robot_of(p->type);
    const int q = r->quaternion;
    double norm = 0;

    for (int i = 0; i < p->type->nx; i++)
        x[i] += r->state[i].noise > 0 ? common(p, NOISE) * r->state[i].noise * hb_draw_normal(d) : 0;
    for (int i = 0; q >= 0 && i < 4; i++)
        norm += x[q + i] * x[q + i];
    for (int i = 0; q >= 0 && i < 4; i++)
        x[q + i] /= sqrt(norm);
}

static void control(const hb_plant *p, hb_plant_report what, const double *command, double *u)
{
    const robot_body *b = p->own;

    (void)command;
    memcpy(u,
           what == HB_REPORT_MADE ? b->actuation.acting : hb_actuation_told(&b->actuation, p->time - common(p, DELAY)),
           (size_t)p->type->nu * sizeof *u);
}

static const char *failure(const hb_plant *p)
{
    const robot *r = robot_of(p->type);
    const robot_body *b = p->own;
    double x[HB_PLANT_STATES];

    if (hb_mujoco_failure(&b->sim))
        return hb_mujoco_failure(&b->sim);
    state(p, x);
    for (int i = 0; i < p->type->nx; i++)
        if (r->state[i].has_end && !(x[i] >= r->state[i].end_low && x[i] <= r->state[i].end_high))
            return r->state[i].over;
    if (r->end_tilt > 0) {
        /* the body's z axis against the world's */
        const mjtNum *q = b->sim.data->qpos + r->nominal.model->jnt_qposadr[r->root] + 3, up[3] = {0, 0, 1};
        mjtNum axis[3];
        mju_rotVecQuat(axis, up, q);
        if (axis[2] < cos(r->end_tilt))
            return "tilted beyond its end";
    }
    return NULL;
}

static const hb_mujoco *mujoco(const hb_plant *p)
{
    return &((const robot_body *)p->own)->sim;
}

/* ---- the type ---- */

bool hb_robot_named(const char *name)
{
    static const char suffix[] = ".xml";
    const size_t n = strlen(name);

    return n > sizeof suffix - 1 && strcmp(name + n - (sizeof suffix - 1), suffix) == 0;
}

void hb_robot_yaml(const char *path, char *ret, size_t size)
{
    snprintf(ret, size, "%.*s.yaml", (int)strlen(path) - 4, path);
}

/* noise, delay, lag: the file's values are nominal. */
static int add_common(robot *r, const char *yaml, hb_error *err)
{
    const double delay = r->delay, lag = r->lag;

    if (r->nhidden + NCOMMON > HB_PLANT_PARAMETERS)
        return hb_fail(err, EINVAL, "%s: hidden: %d parameters: at most %d fit", yaml, r->nhidden,
                       HB_PLANT_PARAMETERS - NCOMMON);
    hb_plant_parameter *p = r->parameter + r->nhidden;
    p[NOISE] = (hb_plant_parameter){"noise", "1", "of sensors, relative to the file's", 1, 1, 1, 0, 100, true};
    p[DELAY] = (hb_plant_parameter){"delay", "s", "until a command acts", delay, delay, delay, 0, 1, true};
    p[LAG] = (hb_plant_parameter){"lag", "s", "of the actuators", lag, lag, lag, 0, 10, true};
    r->type.nparameters = r->nhidden + NCOMMON;
    return 0;
}

static void point_to_tables(robot *r)
{
    for (int i = 0; i < r->type.nx; i++) {
        r->state_name[i] = r->state[i].name;
        r->state_unit[i] = r->state[i].unit;
        r->derived = r->derived || r->state[i].source >= ROBOT_BODY;
    }
    for (int i = 0; i < r->type.nu; i++) {
        r->control_name[i] = r->control[i].name;
        r->control_unit[i] = r->control[i].unit;
    }
    r->type.name = r->name;
    r->type.help = r->help;
    r->type.state_name = r->state_name;
    r->type.state_unit = r->state_unit;
    r->type.control_name = r->control_name;
    r->type.control_unit = r->control_unit;
    r->type.control_min = r->control_min;
    r->type.control_max = r->control_max;
    r->type.control_trim = r->control_trim;
    r->type.parameter = r->parameter;
    r->type.policy = &hb_policy_excite;
}

static void name_after(robot *r, const char *path)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

    snprintf(r->name, sizeof r->name, "%.*s", (int)strlen(base) - 4, base);
    snprintf(r->help, sizeof r->help, "a robot of one's own: %.170s", path);
}

int hb_robot_new(const hb_plant_type **ret, const char *path, char *warning, size_t size, hb_error *err)
{
    char yaml[4096], missing[256];
    int nmissing = 0, status;
    robot *r = calloc(1, sizeof *r);

    if (!r)
        return hb_fail(err, ENOMEM, "out of memory");
    r->type = (hb_plant_type){.create = create,
                              .destroy = destroy,
                              .reset = reset,
                              .start = start,
                              .step = step,
                              .state = state,
                              .apply = apply,
                              .disturb = disturb,
                              .control = control,
                              .failure = failure,
                              .mujoco = mujoco};
    *warning = 0;
    name_after(r, path);
    hb_robot_yaml(path, yaml, sizeof yaml);
    status = hb_mujoco_load_file(&r->nominal, path, &nmissing, missing, sizeof missing, err);
    if (!status)
        status = robot_read(r, yaml, err);
    if (!status)
        status = add_common(r, yaml, err);
    if (!status) {
        point_to_tables(r);
        if (r->excitation.hold == ROBOT_HOLD_LQR)
            status = hb_fail_in(err, yaml, robot_lqr(r, err));
    }
    if (status) {
        hb_robot_free(&r->type);
        return status;
    }
    if (nmissing > 0)
        snprintf(
            warning, size,
            "%s: %d files are missing (%s ...): small cubes stand in for shapes. Contacts with them, and masses that "
            "follow from them, are not the robot's",
            path, nmissing, missing);
    *ret = &r->type;
    return 0;
}

void hb_robot_free(const hb_plant_type *type)
{
    if (!type || type->create != create)
        return;
    robot *r = (robot *)(uintptr_t)type;

    for (int i = 0; i < r->nhidden; i++)
        free(r->hidden[i].id);
    free(r->excitation.gain);
    hb_mujoco_free(&r->nominal);
    free(r);
}
